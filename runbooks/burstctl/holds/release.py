"""``burstctl release``: ends a hold, or clears the contested mark of a volume that others changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import RESOURCE_NAMES, Command, Options, ResourceName, common_options
from burstctl.cli.output import print_error, print_info, print_next, print_output
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import CommandContext, Notes, open_operator
from burstctl.context.resources import ledger_keys_of, resolve_resources
from burstctl.context.stacks import check_reaches_watchdog
from burstctl.holds.each_resource import try_each
from burstctl.holds.multi_region import (
    BeginOutput,
    apply_in_regions,
    describe_reach,
    reach_document,
)
from burstctl.render.pass_summary import print_holds
from burstctl.render.plan_json import hold_document
from burstwatch.core.errors import BurstwatchError, LedgerError, Problem
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Change, Ledger
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.unreadable_item import UnreadableItem
from burstwatch.core.text import format_instant, format_until, instant_or_none

if TYPE_CHECKING:
    from documents.hold import ReleaseDocument

_MAX_ATTEMPTS: Final = 5  # a watchdog changes a state once a minute: five losses in a row are a fault


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResult:
    """What was released; everything if there is no ``volume_id``."""

    volume_id: str | None
    hold: Hold | None = None
    contested_at_s: int | None = None
    dropped_state: UnreadableItem | None = None
    failure: Problem | None = None
    """What failed after something was released."""

    @property
    def has_released(self) -> bool:
        return (self.hold, self.contested_at_s, self.dropped_state) != (None, None, None)


@click.command(
    cls=Command,
    examples=(
        ("burstctl release ci-7", "it may be modified again"),
        ("burstctl release --all", "ends the hold on everything; holds on single volumes stay"),
        ("burstctl release --all --region all", "the same in every region"),
    ),
    page="runbooks/VolumeChangedByOthers.md",
    takes_regions=True,
    without=("exit_zero", "policy"),
)
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1, type=ResourceName(RESOURCE_NAMES))
@click.option("--all", "everything", is_flag=True, help="The hold on everything in the region.")
@common_options
def release(resources: Sequence[str], options: Options, *, everything: bool) -> ExitCode:
    """End a hold: on the RESOURCEs given, or on everything.

    A volume that someone else changed after our flip is not changed automatically until it is released. If
    the ledger's state of a volume cannot be read, this deletes that state, and the volume counts as new. If
    there is nothing to release, it says so and exits 0.

    A release is for one region: give --region several times, or --region all, for more. Without --ledger,
    nothing is released in two cases: a deployed stack uses another ledger, or this cannot be checked.

    Exits 1 if a release failed, also in one of several regions.
    """
    if bool(resources) == everything:
        raise click.UsageError(
            Problem(
                "RESOURCEs and --all are mutually exclusive" if resources else "no resources are named",
                "name RESOURCEs, or give --all to release everything",
            )
        )

    def release_in_region(region_options: Options, begin: BeginOutput) -> "tuple[ExitCode, ReleaseDocument]":
        notes = Notes()
        with open_operator(region_options, notes=notes, needs_policy=False) as context:
            if not options.has_several_regions:
                begin(notes)
            check_reaches_watchdog(
                context.reach, options, outcome="nothing was released", action="this release"
            )
            subjects = [None] if everything else resolve_resources(context, resources)
            results, unreleased = _release(context, subjects)
            failures = {f"not released: {subject}": problem for subject, problem in unreleased.items()}
            failures |= {
                str(result.volume_id): result.failure for result in results if result.failure is not None
            }
            remaining: Sequence[Hold] = []
            try:
                remaining = context.services.ledger.holds(context.services.clock())
            except LedgerError as error:
                if not (failures or any(result.has_released for result in results)):
                    raise
                failures["whether other holds are in force is not known"] = error.problem
            exit_code = ExitCode.FAILED if failures else ExitCode.OK
            document = _document(context, results, remaining, failures)
            if options.has_several_regions:
                if not (remaining or any(result.has_released for result in results)):
                    return exit_code, document
                begin(notes)
            _print_results(context, results, remaining, subjects)
            for subject, problem in failures.items():
                print_error(problem, subject=subject)
            if not (options.json or options.has_several_regions):
                print_next([region_options.command("assess")])
            return exit_code, document

    return apply_in_regions(
        options,
        release_in_region,
        result_word="released",
        idle_reason="no hold on everything",
        next_command=["assess"],
        has_volumes=bool(resources),
    )


def _release(
    context: CommandContext, subjects: Sequence[str | None]
) -> tuple[list[ReleaseResult], dict[str, Problem]]:
    """What was released, and why the others were not, by subject."""
    if not context.has_ledger:
        return [ReleaseResult(volume_id=subject) for subject in subjects], {}
    now_s = int(context.services.clock())
    with context.with_writable_ledger() as writable_context:
        ledger = writable_context.services.ledger
        return try_each(
            subjects, lambda subject: _release_one(ledger, subject, by=context.operator, now_s=now_s)
        )


def _release_one(ledger: Ledger, subject: str | None, *, by: str, now_s: int) -> ReleaseResult:
    """Release one subject; once its hold is lifted, what fails is part of the result.

    Raises:
        BurstwatchError: nothing was released.
    """
    result = ReleaseResult(volume_id=subject, hold=ledger.lift_hold(subject, by=by, at_s=now_s))
    if subject is None:
        return result
    try:
        contested_at_s = _clear_contested(ledger, subject, by=by, now_s=now_s)
        result = replace(result, contested_at_s=contested_at_s)
        return replace(result, dropped_state=_drop_unreadable_states(ledger, subject, by=by, now_s=now_s))
    except BurstwatchError as error:
        if not result.has_released:
            raise
        return replace(result, failure=error.problem)


def _clear_contested(ledger: Ledger, volume_id: str, *, by: str, now_s: int) -> int | None:
    """Clear the contested mark of a volume; return since when it had the mark, None if it had none.

    Raises:
        BurstwatchError: other processes keep changing its state.
    """
    for _ in range(_MAX_ATTEMPTS):
        state = ledger.states_of({volume_id}).get(volume_id)
        if state is None or state.modifications.contested_at_s is None:
            return None
        revision = max(state.revision + 1, now_s)
        entry = LedgerEntry(
            volume_id=volume_id,
            revision=revision,
            kind=EntryKind.RELEASED,
            at_s=now_s,
            body={"by": by, "contested_at_s": state.modifications.contested_at_s},
        )
        change = Change(
            volume_id=volume_id,
            expected_revision=state.revision,
            state=replace(
                state,
                revision=revision,
                next_poll_at_s=now_s,
                modifications=replace(state.modifications, contested_at_s=None),
                alerts=replace(state.alerts, refusal=None),
            ),
            entries=(entry,),
        )
        if ledger.commit([change], channels=()):
            return state.modifications.contested_at_s
    raise BurstwatchError(
        f"{volume_id} is not released: other processes are working on it", fix="run the command again"
    )


def _drop_unreadable_states(
    ledger: Ledger, resource_id: str, *, by: str, now_s: int
) -> UnreadableItem | None:
    """Let go of what cannot be read of any bucket of a resource; return the first of it."""
    dropped = [_drop_unreadable_state(ledger, key, by=by, now_s=now_s) for key in ledger_keys_of(resource_id)]
    return next((item for item in dropped if item is not None), None)


def _drop_unreadable_state(ledger: Ledger, volume_id: str, *, by: str, now_s: int) -> UnreadableItem | None:
    """Let go of what is remembered of a volume if it cannot be read; its history keeps it as it was.

    Raises:
        BurstwatchError: it cannot be removed either.
    """
    unreadable = ledger.states_of({volume_id}).unreadable.get(volume_id)
    if unreadable is None:
        return None
    revision = max((unreadable.revision or 0) + 1, now_s)
    body = {"by": by, "gave_up": unreadable.content, "because": unreadable.reason}
    entry = LedgerEntry(
        volume_id=volume_id, revision=revision, kind=EntryKind.RELEASED, at_s=now_s, body=body
    )
    change = Change(volume_id=volume_id, expected_revision=unreadable.revision, state=None, entries=(entry,))
    if unreadable.revision is None or not ledger.commit([change], channels=()):
        raise BurstwatchError(
            f"{volume_id} is not released: its item ({unreadable.key}) is damaged beyond that",
            fix="delete the item by hand, see burstctl runbook VolumesUnread",
        )
    ledger.take_unreadable()
    return unreadable


def _print_results(
    context: CommandContext,
    results: Sequence[ReleaseResult],
    remaining: Sequence[Hold],
    subjects: Sequence[str | None],
) -> None:
    """Print what was released, whom that reaches, and which of the holds are still in force."""
    now_s = context.services.clock()
    if not context.options.json:
        for result in results:
            _print_result(result, now_s)
        if any(result.has_released for result in results):
            print_output(lay_out(describe_reach(context)))
    resource_ids = {subject for subject in subjects if subject is not None}
    print_holds(remaining, now_s, resource_ids or None)


def _print_result(result: ReleaseResult, now_s: float) -> None:
    subject = result.volume_id or "everything"
    if result.hold is not None:
        hold = result.hold
        until = f"{format_until(hold.until_s, now_s)}, by {hold.by}: {hold.reason}"
        text = f"{subject}: released; it would have been on hold {until}"
        if hold.damaged_volume_id:
            text = f"{subject}: released; its hold could not be read, so everything was held"
        print_output(lay_out(text))
    if result.contested_at_s is not None:
        since = format_instant(result.contested_at_s)
        text = f"{subject}: managed again; someone else had changed it, seen {since}"
        print_output(lay_out(text))
    if result.dropped_state is not None:
        text = (
            f"{subject}: its state could not be read and is deleted. The watchdog treats it as new, so"
            " if it was flipped, it is not returned: check its type"
        )
        print_output(lay_out(text))
    if not result.has_released and result.failure is None:
        print_info(f"{subject}: not on hold, nothing released")


def _document(
    context: CommandContext,
    results: Sequence[ReleaseResult],
    remaining: Sequence[Hold],
    failures: Mapping[str, Problem],
) -> "ReleaseDocument":
    return {
        "schema": "burstwatch.release/v1",
        **reach_document(context),
        "released": [
            {
                "volume_id": result.volume_id,
                "hold": hold_document(result.hold) if result.hold else None,
                "contested_since": instant_or_none(result.contested_at_s),
                "gave_up": result.dropped_state.content if result.dropped_state else None,
            }
            for result in results
        ],
        "holds": [hold_document(hold) for hold in remaining],
        "failures": [f"{subject}: {problem}" for subject, problem in failures.items()],
    }
