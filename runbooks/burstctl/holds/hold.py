"""``burstctl hold``: a person's order to modify nothing."""

import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    ORDER_DURATION,
    RESOURCE_NAMES,
    Command,
    Options,
    ReasonText,
    ResourceName,
    common_options,
)
from burstctl.cli.output import (
    print_error,
    print_failures,
    print_info,
    print_next,
    print_output,
    print_warning,
)
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import CommandContext, Notes, find_other_ledgers, open_operator
from burstctl.context.resources import look_up_resources, resolve_resources
from burstctl.holds.each_resource import try_each
from burstctl.holds.multi_region import (
    BeginOutput,
    apply_in_regions,
    check_can_hold,
    describe_reach,
    is_idle_region,
    reach_document,
)
from burstctl.render.pass_summary import describe_hold
from burstctl.render.plan_json import hold_document
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.errors import LedgerError, Problem
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.resource_type import INSTANCE_ID
from burstwatch.core.text import format_until
from burstwatch.wiring.settings import LedgerAddress

if TYPE_CHECKING:
    from documents.hold import HoldsDocument


@click.command(
    cls=Command,
    examples=(
        ('burstctl hold ci-7 --for 6h --reason "restore test"', "one volume stays as it is"),
        ('burstctl hold build-host --for 6h --reason "nightly build"', "no alert about an instance"),
        ('burstctl hold --all --for 1d --reason "INC-42"', "the kill switch: no flip, no return, for a day"),
        ('burstctl hold --all --region all --for 1d --reason "INC-42"', "the same in every region"),
    ),
    page="runbooks/FlipRefused.md",
    takes_regions=True,
    without=("exit_zero", "policy"),
)
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1, type=ResourceName(RESOURCE_NAMES))
@click.option("--all", "everything", is_flag=True, help="Everything in the region: the kill switch.")
@click.option(
    "--for", "lasts", type=ORDER_DURATION, required=True, metavar="SPAN", help="How long: 1m to 30d."
)
@click.option(
    "--reason", type=ReasonText(), required=True, metavar="TEXT", help="Why: it shows in every output."
)
@common_options
def hold(
    resources: Sequence[str], options: Options, *, everything: bool, lasts: timedelta, reason: str
) -> ExitCode:
    """Modify nothing for a while: the RESOURCEs given, or everything.

    Volumes are neither flipped nor returned; alerts about them are still sent. Modifications that AWS has
    already started continue. An instance is never modified: a hold on it stops the alerts about it, and does
    not hold its volumes. A new hold replaces an old one on the same resource.

    A hold is for one region: give --region several times, or --region all, for more. It needs neither EC2 nor
    a valid policy. Without --ledger, nothing is held in three cases: a deployed stack uses another
    ledger, this cannot be checked, or the region has neither a stack nor a ledger. A watch that was started
    with another --ledger is not held.

    Exits 1 if there is no resource with an ID, or if a hold was not placed, also in one of several regions; 2
    if no resource has a name.
    """
    if bool(resources) == everything:
        raise click.UsageError(
            Problem(
                "RESOURCEs and --all are mutually exclusive" if resources else "no resources are named",
                "name RESOURCEs, or give --all to hold everything",
            )
        )

    def place_in_region(region_options: Options, begin: BeginOutput) -> "tuple[ExitCode, HoldsDocument]":
        notes = Notes()
        with open_operator(region_options, notes=notes, needs_policy=False) as context:
            other_ledgers = find_other_ledgers(context) if everything and not options.ledger else []
            if not other_ledgers and is_idle_region(context, options):
                return ExitCode.OK, _document(context, [], [], [], [])
            begin(notes)
            _warn_of_other_ledgers(context, other_ledgers, lasts, reason)
            check_can_hold(context)
            subjects = [None] if everything else resolve_resources(context, resources)
            return _place_holds(context, subjects, lasts, reason, has_next=not options.has_several_regions)

    return apply_in_regions(
        options,
        place_in_region,
        result_word="held",
        idle_reason="no stack and no ledger",
        next_command=["release", "--all"],
        has_volumes=bool(resources),
    )


def _place_holds(
    context: CommandContext,
    subjects: Sequence[str | None],
    duration: timedelta,
    reason: str,
    *,
    has_next: bool,
) -> "tuple[ExitCode, HoldsDocument]":
    """Place the holds of one region, and say so."""
    missing, failures = _find_missing(context, [item for item in subjects if item is not None])
    placed, replaced, unplaced = _record_holds(
        context, [item for item in subjects if item not in missing], duration, reason
    )
    if not context.options.json:
        now_s = context.services.clock()
        for item in replaced:
            description = f"the hold on {item.subject}, which cannot be read"
            text = description if item.damaged_volume_id else describe_hold(item, now_s)
            print_info(lay_out(f"replaced: {text}"))
        for item in placed:
            print_output(lay_out(_describe_placed(context, item)))
        if placed:
            print_output(lay_out(describe_reach(context)))
    unread = _print_unaffected_flips(context, placed)
    _print_volumes_of_instances(context, placed)
    for subject, problem in unplaced.items():
        print_error(problem, subject=f"not held: {subject}")
    print_failures([], missing=missing, region=context.services.location.region)
    for failure in failures:
        print_warning(failure, subject="whether the resources exist is not known")
    if placed and has_next and not context.options.json:
        subjects_to_release = [hold.volume_id or "--all" for hold in placed]
        print_next([context.options.command("release", *subjects_to_release)])
    not_held = [f"not held: {subject}: {problem}" for subject, problem in unplaced.items()]
    all_failures = [*failures, *not_held, *unread]
    document = _document(context, placed, replaced, missing, all_failures)
    return (ExitCode.FAILED if missing or unplaced else ExitCode.OK), document


def _warn_of_other_ledgers(
    context: CommandContext, ledgers: Sequence[LedgerAddress], duration: timedelta, reason: str
) -> None:
    """Say that a watch on this machine that uses another ledger is not held, and how to hold it."""
    command = ["burstctl", "hold", "--all", "--for", format_duration_literal(duration), "--reason", reason]
    for ledger in ledgers:
        options = [*context.options.repeated, "--ledger", str(ledger)]
        print_warning(
            Problem(
                f"not held: a watch on this machine that uses {ledger}",
                f"if one acts: {shlex.join([*command, *options])}",
            )
        )


def _describe_placed(context: CommandContext, hold: Hold) -> str:
    """What was held; not "everything" if the active stack does not read the ledger."""
    reach = context.reach
    if hold.volume_id is not None or (reach.stack is not None and reach.missed_stack is None):
        return describe_hold(hold, hold.placed_at_s)
    until = format_until(hold.until_s, hold.placed_at_s)
    return (
        f"Automatic changes by watchdogs that use this ledger are on hold {until}, by {hold.by}:"
        f" {hold.reason}"
    )


def _find_missing(context: CommandContext, resource_ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """The resources that certainly do not exist, and why others could not be checked."""
    _, missing, failures = look_up_resources(context, resource_ids)
    return missing, list(dict.fromkeys(failures))


def _record_holds(
    context: CommandContext, subjects: Sequence[str | None], duration: timedelta, reason: str
) -> tuple[list[Hold], list[Hold], dict[str, Problem]]:
    """The holds placed, those they took the place of, and why the others were not placed, by subject."""
    if not subjects:
        return [], [], {}
    now_s = int(context.services.clock())
    until_s = now_s + int(duration.total_seconds())

    def place(subject: str | None) -> Hold:
        hold = Hold(volume_id=subject, by=context.operator, reason=reason, placed_at_s=now_s, until_s=until_s)
        ledger.place_hold(hold)
        return hold

    with context.with_writable_ledger() as writable_context:
        ledger = writable_context.services.ledger
        previous = [hold for hold in ledger.holds(now_s) if hold.subject in subjects]
        placed, unplaced = try_each(subjects, place)
    placed_subjects = {hold.subject for hold in placed}
    return placed, [hold for hold in previous if hold.subject in placed_subjects], unplaced


def _print_unaffected_flips(context: CommandContext, placed: Sequence[Hold]) -> list[Problem]:
    """A hold does not stop what has started: list the flips in progress, and the flipped volumes.

    Returns what could not be read, so that neither is known.
    """
    if not placed:
        return []
    try:
        states = context.services.ledger.states()
    except LedgerError as error:  # the holds are placed nevertheless
        # not its fix: a new ledger would not have the holds
        cause = error.problem.cause
        print_warning(cause, subject="whether modifications are in progress is not known")
        return [Problem(cause)]
    flips = [
        state.flip
        for volume_id, state in states.items()
        if state.flip is not None and any(hold.volume_id in (None, volume_id) for hold in placed)
    ]
    under_way = sum(flip.is_under_way for flip in flips)
    on_target = sum(not flip.is_under_way and not flip.is_permanent for flip in flips)
    if under_way:
        print_info(f"modifications in progress, which cannot be stopped: {under_way}")
    if on_target:
        print_info(f"on their target, and not returned during the hold: {on_target}")
    return []


def _print_volumes_of_instances(context: CommandContext, placed: Sequence[Hold]) -> None:
    """Say that a hold on an instance does not hold its volumes: they may still be flipped."""
    instance_ids = [hold.volume_id for hold in placed if INSTANCE_ID.fullmatch(hold.volume_id or "")]
    if instance_ids and not context.options.json:
        print_info(f"the volumes of {', '.join(filter(None, instance_ids))} are not on hold")


def _document(
    context: CommandContext,
    placed: Sequence[Hold],
    replaced: Sequence[Hold],
    missing: Sequence[str],
    failures: Sequence[str],
) -> "HoldsDocument":
    return {
        "schema": "burstwatch.hold/v1",
        **reach_document(context),
        "placed": [hold_document(hold) for hold in placed],
        "replaced": [hold_document(hold) for hold in replaced],
        "missing": list(missing),
        "failures": list(failures),
    }
