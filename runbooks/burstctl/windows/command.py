"""``burstctl window``: the named critical periods in which volumes are kept flipped."""

import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import click

from burstctl.cli.confirm import is_confirmed, require_somebody_to_ask
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import ORDER_SPAN, Command, Options, common_options, write_examples
from burstctl.cli.output import say, show, to_json
from burstctl.cli.text_layout import COLUMNS, LONGEST_SENTENCE, hang
from burstctl.context.context import Desk, operating_desk, reading_desk
from burstctl.flip.cap_preview import with_caps
from burstctl.render.guard_override import page_hints, refusing_guards
from burstctl.render.pass_summary import tell_holds
from burstctl.render.plan_json import hold_document, plan_document, totals_document
from burstctl.render.plan_text import refusal_words, totals_in_words
from burstctl.render.planned_flip import Planned
from burstctl.render.volume import id_and_name
from burstctl.windows.status import (
    WindowNow,
    WindowsNow,
    complain_of_failures,
    occurrence_words,
    read_windows,
    window_document,
    window_in_words,
)
from burstwatch.core.flips.planning import Order, Plan
from burstwatch.core.ledger.flip_state import Cause, Direction, WindowMark
from burstwatch.core.policy.windows import stop_until
from burstwatch.core.text import format_instant, format_until, printable
from burstwatch.engine.flip_executor import plan_orders
from burstwatch.wiring.settings import SettingsError

PAGE: Final = "runbooks/WindowStarting.md"
LIST: Final = ("burstctl window list", "every window: what runs, what comes next, for how many volumes")
START: Final = ("burstctl window start release --for 4h", "keeps its volumes flipped for four hours")
STOP: Final = ("burstctl window stop release", "ends it now; its volumes return when they are calm")
_MOST_NAMED: Final = 20


class _WindowGroup(click.Group):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, (LIST, START, STOP), PAGE)


@click.group(cls=_WindowGroup, invoke_without_command=True)
@click.pass_context
def window(context: click.Context) -> None:
    """Show the windows, and start or stop one by hand.

    A window is a named critical period in which its volumes are kept off burst credits.
    """
    if context.invoked_subcommand is None:
        show(context.get_help())


@window.command(name="list", cls=Command, examples=(LIST,), page=PAGE)
@common_options
def list_windows(options: Options) -> Exit:
    """Show every window of the policy, of volumes' tags, and those started by hand.

    Times are those of the window's own zone, with UTC behind. Changes nothing.
    """
    with reading_desk(options) as desk:
        found = read_windows(desk)
        now_s = desk.shell.clock()
        holds = desk.shell.ledger.holds(now_s)
        failures = [*found.failures, *map(str, desk.shell.ledger.take_unreadable())]
        if options.json:
            document = _header(desk, "burstwatch.windows/v1") | {
                "windows": [window_document(each) for each in found.by_name.values()],
                "holds": [hold_document(hold) for hold in holds],
                "failures": failures,
            }
            show(to_json(document))
        elif found.by_name:
            show("\n\n".join(map(window_in_words, found.by_name.values())))
        else:
            say("there is no window: the policy defines none, and no volume's tag names one")
        tell_holds(holds, now_s)
        complain_of_failures(failures)
        return Exit.FAILED if failures else Exit.FINE


@window.command(cls=Command, examples=(START,), page=PAGE)
@click.argument("name")
@click.option(
    "--for", "lasts", type=ORDER_SPAN, metavar="SPAN", help="Stop by itself after so long, 1m to 30d."
)
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@common_options
def start(name: str, options: Options, *, lasts: timedelta | None, yes: bool) -> Exit:
    """Start the window NAME now, by hand: its volumes are moved and kept until it is stopped.

    Shows which volumes that moves and what it costs, and asks. A watchdog that may act (burstctl watch --act,
    or the stack) moves them at its next sweep, within five minutes; the command itself modifies nothing.

    Exits 2 if neither the policy nor any volume's tag knows the name, 130 if the answer is no.
    """
    require_somebody_to_ask(assumes_yes=yes, to_only_see="run burstctl window list")
    with operating_desk(options) as desk:
        found = read_windows(desk)
        this = _known(found, name)
        planned, failures = _plan_moves(desk, this, found)
        words = _moves_in_words(this, planned)
        if not options.json:
            show(words)
        elif not yes:
            say(words, as_it_is=True)
        now_s = desk.shell.clock()
        tell_holds(desk.shell.ledger.holds(now_s), now_s, {v.volume_id for v in this.moved})
        complain_of_failures(failures)
        for page in page_hints(refusing_guards(planned), desk.shell.policy.alerts.runbooks_url):
            say(page)
        if not is_confirmed(f"Start the window {printable(name, 63)}?", assumes_yes=yes):
            return Exit.INTERRUPTED
        mark = _mark(desk, name, lasts)
        if options.json:
            document = _header(desk, "burstwatch.window/v1") | {
                "window": window_document(found.after(mark)),
                "plans": [plan_document(each) for each in planned],
                "totals": totals_document(planned),
                "failures": failures,
            }
            show(to_json(document))
        else:
            show(_started_words(mark))
        _say_who_acts(desk, planned)
        return Exit.FAILED if failures else Exit.FINE


@window.command(cls=Command, examples=(STOP,), page=PAGE)
@click.argument("name")
@common_options
def stop(name: str, options: Options) -> Exit:
    """Stop the window NAME: what runs of it now or, if nothing does, the start its volumes are moved for.

    What starts later still happens. Its volumes return when they are calm. Where there is nothing to stop, it
    says so and exits 0. Exits 2 if neither the policy nor any volume's tag knows the name.
    """
    with operating_desk(options) as desk:
        found = read_windows(desk)
        this = _known(found, name)
        mark = _stop_mark(desk, this, found)
        if mark is not None:
            with desk.recording() as recording:
                recording.shell.ledger.mark_window(mark)
            this = found.after(mark)
        if options.json:
            done = {"window": window_document(this), "stopped": mark is not None}
            show(to_json(_header(desk, "burstwatch.window/v1") | done))
        else:
            show(_stopped_words(this, is_stopped=mark is not None))
        complain_of_failures(found.failures)
        return Exit.FAILED if found.failures else Exit.FINE


def _stop_mark(desk: Desk, this: WindowNow, found: WindowsNow) -> WindowMark | None:
    """What to record to stop it; None where there is nothing to stop."""
    outlook = found.outlook
    until = stop_until(
        outlook.policy.windows,
        this.name,
        outlook.now,
        lead=this.lead,
        by_hand=outlook.by_hand,
        stopped=outlook.stopped,
    )
    if until is None and this.mark is not None and not this.mark.is_known:
        until = outlook.now  # takes the place of a mark that cannot be read
    if until is None:
        return None
    now_s, until_s = int(outlook.now.timestamp()), int(until.timestamp())
    return WindowMark(name=this.name, starts=False, by=desk.by, at_s=now_s, until_s=until_s)


def _header(desk: Desk, schema: str) -> dict[str, Any]:
    return {
        "schema": schema,
        "generated_at": format_instant(desk.shell.clock()),
        "region": desk.shell.place.region,
        "ledger": desk.ledger,
    }


def _known(found: WindowsNow, name: str) -> WindowNow:
    """The window of this name.

    Raises:
        SettingsError: nobody knows it.
    """
    if name in found.by_name:
        return found.by_name[name]
    listed = printable(", ".join(found.by_name), LONGEST_SENTENCE)
    known = f"known: {listed}" if listed else "the policy defines none, and no volume's tag names one"
    raise SettingsError(f"there is no window {printable(name, 63)!r}; {known}")


def _plan_moves(desk: Desk, this: WindowNow, found: WindowsNow) -> tuple[list[Planned], list[str]]:
    """What the watchdog would do for this window now, as far as the volumes are not away already."""
    shell = desk.shell
    gathering = shell.gathering(shell.clock())
    orders = [
        Order(
            volume_id=volume.volume_id,
            direction=Direction.OUT,
            cause=Cause.WINDOW,
            because=f"window {this.name} is started by hand",
        )
        for volume in this.moved
        if (state := found.states.get(volume.volume_id)) is None or state.flip is None
    ]
    drafts = plan_orders(shell, orders, gathering) if orders else {}
    plans = [draft for draft in drafts.values() if isinstance(draft, Plan)]
    weighed = with_caps(plans, found.states, shell.policy.flip)
    planned = [
        Planned(plan=plan, region=shell.place.region, options=desk.options, lead=shell.policy.lead)
        for plan in weighed.values()
    ]
    return planned, [*found.failures, *gathering.failures]


def _moves_in_words(this: WindowNow, planned: Sequence[Planned]) -> str:
    sentences = [_move_words(each) for each in planned[:_MOST_NAMED]]
    if len(planned) > _MOST_NAMED:
        sentences.append(f"and {len(planned) - _MOST_NAMED:,} more")
    away = len(this.moved) - len(planned)
    if away:
        sentences.append(f"{away} away from gp2 already: kept where {'it is' if away == 1 else 'they are'}")
    if not this.moved:
        sentences.append("no volume that it holds for lives on credits: it moves none")
    if planned:
        sentences.append(totals_in_words(planned))
    shown = (printable(sentence, LONGEST_SENTENCE) for sentence in sentences)
    return "\n".join(line for sentence in shown for line in hang(sentence, COLUMNS))


def _move_words(planned: Planned) -> str:
    plan = planned.plan
    who = id_and_name(plan.facts.volume)
    if plan.refusal is not None:
        return f"{who}: not moved: {refusal_words(plan.refusal, plan.facts.now_s)}"
    return f"{who}: {plan.now} -> {plan.target}"


def _mark(desk: Desk, name: str, lasts: timedelta | None) -> WindowMark:
    now_s = int(desk.shell.clock())
    until_s = None if lasts is None else now_s + int(lasts.total_seconds())
    mark = WindowMark(name=name, starts=True, by=desk.by, at_s=now_s, until_s=until_s)
    with desk.recording() as recording:
        recording.shell.ledger.mark_window(mark)
    return mark


def _started_words(mark: WindowMark) -> str:
    until = "until it is stopped" if mark.until_s is None else format_until(mark.until_s, mark.at_s)
    said = f"window {mark.name} runs from now on, {until}; to end it:"
    said = f"{said} burstctl window stop {shlex.quote(mark.name)}"
    return "\n".join(hang(printable(said, LONGEST_SENTENCE), COLUMNS))


def _say_who_acts(desk: Desk, planned: Sequence[Planned]) -> None:
    if not any(each.is_wanted for each in planned):
        return
    roster = desk.shell.ledger.roster()
    seen = "none so far" if roster is None else f"the last at {format_instant(roster.tick_s)}"
    say(
        "the volumes are moved by a watchdog that may act and sweeps with this ledger"
        f" (burstctl watch --act, or the stack), and by nobody else; {seen}"
    )


def _stopped_words(this: WindowNow, *, is_stopped: bool) -> str:
    said = f"window {this.name}: nothing to stop, it does not run, and no volume is being moved for it"
    if is_stopped:
        upcoming = this.state.upcoming
        again = f"; next: {occurrence_words(upcoming[0], this.zone)}" if upcoming else ""
        said = f"window {this.name} is stopped, its volumes return when they are calm{again}"
    return "\n".join(hang(printable(said, LONGEST_SENTENCE), COLUMNS))
