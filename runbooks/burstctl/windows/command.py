"""``burstctl window``: the named critical periods in which volumes are kept flipped."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.confirm import confirm, require_terminal_or_yes
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    ORDER_DURATION,
    Command,
    CommandGroup,
    Options,
    common_options,
    describe_page,
)
from burstctl.cli.output import print_failures, print_info, print_next, print_output, to_json
from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, lay_out
from burstctl.context.context import CommandContext, open_operator, open_readonly
from burstctl.context.stacks import check_reaches_watchdog
from burstctl.flip.cap_preview import check_caps
from burstctl.flip.plan_orders import plan_orders
from burstctl.flip.return_check import describe_last_pass
from burstctl.render.guard_override import refusing_guards, runbook_hints
from burstctl.render.pass_summary import print_holds
from burstctl.render.plan_json import hold_document, plan_document, totals_document
from burstctl.render.plan_text import describe_refusal, describe_totals
from burstctl.render.planned_flip import PlannedFlip
from burstctl.render.volume import format_id_and_name
from burstctl.windows.status import (
    WindowSnapshot,
    WindowSnapshots,
    describe_occurrence,
    read_windows,
    render_window,
    window_document,
)
from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.ledger.flip_state import Direction, FlipCause, ManualWindowOverride
from burstwatch.core.policy.windows import manual_stop_at
from burstwatch.core.text import format_count, format_until, sanitise
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.plan import WindowsDocument, WindowStartDocument, WindowStopDocument

PAGE: Final = "runbooks/WindowStarting.md"
LIST: Final = ("burstctl window list", "every window: what runs, what comes next, for how many volumes")
START: Final = ("burstctl window start release --for 4h", "keeps its volumes flipped for four hours")
STOP: Final = ("burstctl window stop release", "ends it now; its volumes return when they are calm")
_MAX_NAMED: Final = 20  # what fits on a terminal; --json has all of it


@click.group(cls=CommandGroup, examples=(LIST, START, STOP), page=PAGE)
@click.pass_context
def window(context: click.Context) -> None:
    """Show the windows, and start or stop one by hand.

    A window is a named critical period in which its volumes are kept off burst credits.
    """
    if context.invoked_subcommand is None:
        print_output(context.get_help())


@window.command(
    name="list",
    cls=Command,
    examples=(LIST,),
    page=PAGE,
    short_help="every window: what runs and what comes next",
)
@common_options
def list_windows(options: Options) -> ExitCode:
    """Show every window of the policy, of volumes' tags, and those started by hand.

    Times are those of the window's own zone, with UTC behind. Changes nothing.
    """
    with open_readonly(options) as context:
        snapshots = read_windows(context)
        now_s = context.services.clock()
        holds = context.services.ledger.holds(now_s)
        failures = [*snapshots.failures, *map(str, context.services.ledger.take_unreadable())]
        if options.json:
            document: WindowsDocument = {
                "schema": "burstwatch.windows/v1",
                **context.document_header(),
                "windows": [window_document(snapshot) for snapshot in snapshots.by_name.values()],
                "holds": [hold_document(hold) for hold in holds],
                "failures": failures,
            }
            print_output(to_json(document))
        elif snapshots.by_name:
            print_output("\n\n".join(map(render_window, snapshots.by_name.values())))
        else:
            print_info("there is no window: the policy defines none, and no volume's tag names one")
        print_holds(holds, now_s)
        print_failures(failures)
        if not (snapshots.by_name or options.json):
            print_next([describe_page(PAGE)])
        elif not options.json:
            first = next(iter(snapshots.by_name.values()))
            action = "start" if first.override is None else "stop"
            print_next([options.command("window", action, first.name)])
        return ExitCode.FAILED if failures else ExitCode.OK


@window.command(
    cls=Command, examples=(START,), page=PAGE, short_help="start a window now, by hand; asks first"
)
@click.argument("name")
@click.option(
    "--for", "lasts", type=ORDER_DURATION, metavar="SPAN", help="Stop automatically after this long (1m-30d)."
)
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@common_options
def start(name: str, options: Options, *, lasts: timedelta | None, yes: bool) -> ExitCode:
    """Start the window NAME now, by hand: its volumes are moved and kept until it is stopped.

    Shows which volumes that moves and what it costs, and asks. A watchdog that may act (burstctl watch --act,
    or the stack) moves them at its next sweep, within five minutes; the command itself modifies nothing.
    Without --ledger it fails if a deployed stack uses another ledger, or if this cannot be checked.

    Exits 2 if neither the policy nor any volume's tag knows the name, 130 if the answer is no.
    """
    require_terminal_or_yes(assumes_yes=yes, preview_option="run burstctl window list")
    with open_operator(options) as context:
        check_reaches_watchdog(context.reach, options, outcome="nothing was started", action="this start")
        snapshots = read_windows(context)
        snapshot = _find_window(snapshots, name)
        planned, failures = _plan_flips(context, snapshot, snapshots)
        plan_text = _describe_flips(snapshot, planned)
        if not options.json:
            print_output(plan_text)
        elif not yes:
            print_info(plan_text, is_preformatted=True)
        now_s = context.services.clock()
        print_holds(
            context.services.ledger.holds(now_s), now_s, {volume.volume_id for volume in snapshot.flippable}
        )
        print_failures(failures)
        for page in runbook_hints(refusing_guards(planned), context.services.policy.alerts.runbooks_url):
            print_info(page)
        if not confirm(f"Start the window {sanitise(name, 63)}?", assumes_yes=yes):
            return ExitCode.INTERRUPTED
        override = _record_start(context, name, lasts)
        if options.json:
            document: WindowStartDocument = {
                "schema": "burstwatch.window/v1",
                **context.document_header(),
                "window": window_document(snapshots.with_override(override)),
                "plans": [plan_document(flip) for flip in planned],
                "totals": totals_document(planned),
                "failures": failures,
            }
            print_output(to_json(document))
        else:
            print_output(_describe_started(override))
        _print_who_acts(context, planned)
        if not options.json:
            print_next([options.command("window", "stop", name)])
        return ExitCode.FAILED if failures else ExitCode.OK


@window.command(cls=Command, examples=(STOP,), page=PAGE, short_help="end a window, or its next start")
@click.argument("name")
@common_options
def stop(name: str, options: Options) -> ExitCode:
    """Stop the window NAME: what runs of it now or, if nothing does, the start its volumes are moved for.

    What starts later still happens. Its volumes return when they are calm. Where there is nothing to stop, it
    says so and exits 0. Without --ledger it fails if a deployed stack uses another ledger, or if this cannot
    be checked.

    Exits 2 if neither the policy nor any volume's tag knows the name.
    """
    with open_operator(options) as context:
        check_reaches_watchdog(context.reach, options, outcome="nothing was stopped", action="this stop")
        snapshots = read_windows(context)
        snapshot = _find_window(snapshots, name)
        override = _stop_override(context, snapshot, snapshots)
        if override is not None:
            with context.with_writable_ledger() as writable_context:
                writable_context.services.ledger.record_manual_override(override)
            snapshot = snapshots.with_override(override)
        if options.json:
            document: WindowStopDocument = {
                "schema": "burstwatch.window/v1",
                **context.document_header(),
                "window": window_document(snapshot),
                "stopped": override is not None,
            }
            print_output(to_json(document))
        else:
            print_output(_describe_stopped(snapshot, is_stopped=override is not None))
        print_failures(snapshots.failures)
        if not options.json:
            print_next([options.command("window", "list")])
        return ExitCode.FAILED if snapshots.failures else ExitCode.OK


def _stop_override(
    context: CommandContext, snapshot: WindowSnapshot, snapshots: WindowSnapshots
) -> ManualWindowOverride | None:
    """The change that stops it; None if there is nothing to stop."""
    schedule = snapshots.schedule
    stop_at = manual_stop_at(
        schedule.policy.windows,
        snapshot.name,
        schedule.now,
        lead=snapshot.lead,
        manual_starts=schedule.manual_starts,
        manual_stops=schedule.manual_stops,
    )
    if stop_at is None and snapshot.override is not None and not snapshot.override.is_readable:
        stop_at = schedule.now  # takes the place of a mark that cannot be read
    if stop_at is None:
        return None
    now_s, until_s = int(schedule.now.timestamp()), int(stop_at.timestamp())
    return ManualWindowOverride(
        name=snapshot.name, is_start=False, by=context.operator, at_s=now_s, until_s=until_s
    )


def _find_window(snapshots: WindowSnapshots, name: str) -> WindowSnapshot:
    """The window of this name.

    Raises:
    SettingsError: there is no such window.
    """
    if name in snapshots.by_name:
        return snapshots.by_name[name]
    listed = sanitise(", ".join(snapshots.by_name), MAX_SENTENCE_LENGTH)
    cause = f"the window {sanitise(name, 63)!r} does not exist"
    if not listed:
        cause += ": the policy defines none, and no volume's tag names one"
    fix = f"name one of {listed}" if listed else "define one under windows: in the policy"
    raise SettingsError(cause, fix=fix)


def _plan_flips(
    context: CommandContext, snapshot: WindowSnapshot, snapshots: WindowSnapshots
) -> tuple[list[PlannedFlip], list[str]]:
    """What the watchdog would do for this window now, as far as the volumes are not away already."""
    services = context.services
    collector = services.build_collector(services.clock())
    orders = [
        FlipOrder(
            volume_id=volume.volume_id,
            direction=Direction.FLIP,
            cause=FlipCause.WINDOW,
            reason=f"window {snapshot.name} is started by hand",
        )
        for volume in snapshot.flippable
        if (state := snapshots.states.get(volume.volume_id)) is None or state.flip is None
    ]
    results = plan_orders(services, orders, collector) if orders else {}
    plans = [result for result in results.values() if isinstance(result, FlipPlan)]
    checked = check_caps(plans, snapshots.states, services.policy.flip)
    planned = [
        PlannedFlip(
            plan=plan, region=services.location.region, options=context.options, lead=services.policy.lead
        )
        for plan in checked.values()
    ]
    return planned, [*snapshots.failures, *collector.failures]


def _describe_flips(snapshot: WindowSnapshot, planned: Sequence[PlannedFlip]) -> str:
    sentences = [_describe_flip(flip) for flip in planned[:_MAX_NAMED]]
    if len(planned) > _MAX_NAMED:
        sentences.append(f"and {len(planned) - _MAX_NAMED:,} more")
    flipped_count = len(snapshot.flippable) - len(planned)
    if flipped_count:
        sentences.append(f"{format_count(flipped_count, 'volume')} flipped already, unchanged")
    if not snapshot.flippable:
        sentences.append("none of its volumes depends on credits, so none is flipped")
    if planned:
        sentences.append(describe_totals(planned))
    return lay_out(*sentences)


def _describe_flip(planned: PlannedFlip) -> str:
    plan = planned.plan
    volume_text = format_id_and_name(plan.context.volume)
    if plan.refusal is not None:
        return f"{volume_text}: not flipped: {describe_refusal(plan.refusal, plan.context.now_s)}"
    return f"{volume_text}: {plan.current} -> {plan.target}"


def _record_start(context: CommandContext, name: str, duration: timedelta | None) -> ManualWindowOverride:
    now_s = int(context.services.clock())
    until_s = None if duration is None else now_s + int(duration.total_seconds())
    override = ManualWindowOverride(
        name=name, is_start=True, by=context.operator, at_s=now_s, until_s=until_s
    )
    with context.with_writable_ledger() as writable_context:
        writable_context.services.ledger.record_manual_override(override)
    return override


def _describe_started(override: ManualWindowOverride) -> str:
    until = (
        "until it is stopped" if override.until_s is None else format_until(override.until_s, override.at_s)
    )
    return lay_out(f"window {override.name} runs from now on, {until}")


def _print_who_acts(context: CommandContext, planned: Sequence[PlannedFlip]) -> None:
    if not any(flip.is_wanted for flip in planned):
        return
    print_info(
        "the volumes are flipped only by a watchdog that may act and sweeps with this ledger"
        f" (burstctl watch --act, or the stack); {describe_last_pass(context, context.services.clock())}"
    )


def _describe_stopped(snapshot: WindowSnapshot, *, is_stopped: bool) -> str:
    text = f"window {snapshot.name}: nothing to stop: it does not run, and no volume is being moved for it"
    if is_stopped:
        upcoming = snapshot.state.upcoming
        next_start = f"; next: {describe_occurrence(upcoming[0], snapshot.zone)}" if upcoming else ""
        text = f"window {snapshot.name} is stopped, its volumes return when they are calm{next_start}"
    return lay_out(text)
