"""``burstctl hold``: a person's order to modify nothing."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import ORDER_SPAN, Command, Options, Reason, VolumeId, common_options
from burstctl.cli.output import complain, say, show
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.context.context import Desk, operating_desk
from burstctl.holds.multi_region import (
    check_place,
    check_reach,
    is_idle_region,
    order_in_regions,
    reach_document,
    reach_words,
)
from burstctl.render.pass_summary import hold_words
from burstctl.render.plan_json import hold_document
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.text import format_instant, format_until, printable

_LONGEST: Final = 600


@click.command(
    cls=Command,
    examples=(
        ('burstctl hold vol-0123456789abcdef0 --for 6h --reason "restore test"', "one volume stays as it is"),
        ('burstctl hold --all --for 1d --reason "INC-42"', "the kill switch: no flip, no return, for a day"),
        ('burstctl hold --all --region all --for 1d --reason "INC-42"', "the same in every region"),
    ),
    page="runbooks/FlipRefused.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option("--all", "everything", is_flag=True, help="Everything in the region: the kill switch.")
@click.option("--for", "lasts", type=ORDER_SPAN, required=True, metavar="SPAN", help="How long: 1m to 30d.")
@click.option("--reason", type=Reason(), required=True, metavar="TEXT", help="Why: it shows in every output.")
@common_options
def hold(
    volumes: Sequence[str], options: Options, *, everything: bool, lasts: timedelta, reason: str
) -> Exit:
    """Modify nothing for a while: the VOLUMEs given, or everything.

    Whatever would be flipped or returned stays as it is, with an alert where it is needed. What AWS has begun
    already goes on. A new hold on the same takes the place of the old one.

    A hold is for one region: give --region several times, or --region all, for more. It needs neither EC2 nor
    a valid policy. If a stack is deployed that uses another ledger, if this cannot be checked, or if there is
    neither a stack nor a ledger in the region, nothing is held unless --ledger names the ledger.

    Exits 1 if a volume does not exist, or if the hold was not placed in some region.
    """
    if bool(volumes) == everything:
        raise click.UsageError("Say what to hold: either volume ids, or --all.")
    subjects: Sequence[str | None] = [None] if everything else list(dict.fromkeys(volumes))

    def order(here: Options) -> tuple[Exit, dict[str, object]]:
        with operating_desk(here, needs_policy=False) as desk:
            check_reach(desk, "this hold", "held")
            if is_idle_region(desk, options):
                say(f"no stack and no ledger in {desk.shell.place.region}: there is nothing to hold")
                return Exit.FINE, _document(desk, [], [], [], [])
            check_place(desk)
            return _hold(desk, subjects, lasts, reason)

    return order_in_regions(options, order, done="held", is_for_volumes=bool(volumes))


def _hold(
    desk: Desk, subjects: Sequence[str | None], lasts: timedelta, reason: str
) -> tuple[Exit, dict[str, object]]:
    """Place the holds of one region, and say so."""
    missing, failures = _missing(desk, [each for each in subjects if each is not None])
    placed, replaced = _place(desk, [each for each in subjects if each not in missing], lasts, reason)
    if not desk.options.json:
        now_s = desk.shell.clock()
        for each in replaced:
            unread = f"the hold on {each.subject}, which cannot be read"
            said = unread if each.damaged else hold_words(each, now_s)
            say("\n".join(hang(printable(f"no longer counts: {said}", _LONGEST), COLUMNS)))
        for each in placed:
            show("\n".join(hang(printable(_headline(desk, each), _LONGEST), COLUMNS)))
        if placed:
            show("\n".join(hang(printable(reach_words(desk), _LONGEST), COLUMNS)))
    _say_what_goes_on(desk, placed)
    for volume_id in missing:
        complain(f"there is no volume {volume_id} in {desk.shell.place.region}: it is not held")
    for failure in failures:
        say(printable(f"whether the volumes exist is not known: {failure}", _LONGEST))
    document = _document(desk, placed, replaced, missing, failures)
    return (Exit.FAILED if missing else Exit.FINE), document


def _headline(desk: Desk, hold: Hold) -> str:
    """What was held; not "everything" where no stack reads the ledger."""
    if hold.volume_id is not None or desk.reach.stack is not None:
        return hold_words(hold, hold.placed_at_s)
    until = format_until(hold.until_s, hold.placed_at_s)
    return (
        f"Automatic changes by watchdogs that use this ledger are on hold {until}, by {hold.by}:"
        f" {hold.reason}"
    )


def _missing(desk: Desk, volume_ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the volumes that surely do not exist, and why some could not be asked for."""
    if not volume_ids:
        return [], []
    gathering = desk.shell.gathering(desk.shell.clock())
    _, missing = gathering.by_id(volume_ids)
    return missing, gathering.failures


def _place(
    desk: Desk, subjects: Sequence[str | None], lasts: timedelta, reason: str
) -> tuple[list[Hold], list[Hold]]:
    """The holds placed, and those they took the place of."""
    if not subjects:
        return [], []
    now_s = int(desk.shell.clock())
    until_s = now_s + int(lasts.total_seconds())
    placed = [
        Hold(volume_id=subject, by=desk.by, reason=reason, placed_at_s=now_s, until_s=until_s)
        for subject in subjects
    ]
    with desk.recording() as recording:
        ledger = recording.shell.ledger
        replaced = [each for each in ledger.holds(now_s) if each.subject in subjects]
        for each in placed:
            ledger.place_hold(each)
    return placed, replaced


def _say_what_goes_on(desk: Desk, placed: Sequence[Hold]) -> None:
    """A hold stops nobody who has started: say what is on its way, and what stays away."""
    if not placed:
        return
    states = desk.shell.ledger.states()
    flips = [
        state.flip
        for volume_id, state in states.items()
        if state.flip is not None and any(each.volume_id in (None, volume_id) for each in placed)
    ]
    under_way = sum(flip.is_under_way for flip in flips)
    away = sum(not flip.is_under_way and not flip.stays for flip in flips)
    if under_way:
        say(f"on their way already, which cannot be stopped: {under_way}")
    if away:
        say(f"on their target, and not brought back meanwhile: {away}")


def _document(
    desk: Desk,
    placed: Sequence[Hold],
    replaced: Sequence[Hold],
    missing: Sequence[str],
    failures: Sequence[str],
) -> dict[str, object]:
    return {
        "schema": "burstwatch.hold/v1",
        "generated_at": format_instant(desk.shell.clock()),
        **reach_document(desk),
        "placed": [hold_document(each) for each in placed],
        "replaced": [hold_document(each) for each in replaced],
        "missing": list(missing),
        "failures": list(failures),
    }
