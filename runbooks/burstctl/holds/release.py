"""``burstctl release``: the end of a hold, and of the distrust of a volume that somebody else changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import say, show
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.context.context import Desk, operating_desk
from burstctl.holds.multi_region import check_reach, order_in_regions, reach_document, reach_words
from burstctl.render.pass_summary import tell_holds
from burstctl.render.plan_json import hold_document, instant_or_none
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Change, EntryKind, Ledger, LedgerEntry, Unreadable
from burstwatch.core.text import format_instant, format_until, printable

_TRIES: Final = 5
_LONGEST: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What was released: everything where there is no ``volume_id``."""

    volume_id: str | None
    hold: Hold | None = None
    contested_at_s: int | None = None
    given_up: Unreadable | None = None

    @property
    def is_anything(self) -> bool:
        return (self.hold, self.contested_at_s, self.given_up) != (None, None, None)


@click.command(
    cls=Command,
    examples=(
        ("burstctl release vol-0123456789abcdef0", "it may be modified again"),
        ("burstctl release --all", "ends the hold on everything; holds on single volumes stay"),
        ("burstctl release --all --region all", "the same in every region"),
    ),
    page="runbooks/VolumeChangedByOthers.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option("--all", "everything", is_flag=True, help="The hold on everything in the region.")
@common_options
def release(volumes: Sequence[str], options: Options, *, everything: bool) -> Exit:
    """End a hold: on the VOLUMEs given, or on everything.

    A volume that somebody else changed after our flip is left to people until it is released; this is how.
    If what the ledger remembers of a volume cannot be read, this gives it up: the volume is new then.
    Where there is nothing to release, it says so and exits 0.

    It is for one region, as hold is, and refuses as hold does if a stack is deployed that uses another
    ledger, or if this cannot be checked.
    """
    if bool(volumes) == everything:
        raise click.UsageError("Say what to release: either volume ids, or --all.")
    subjects: Sequence[str | None] = [None] if everything else list(dict.fromkeys(volumes))

    def order(here: Options) -> tuple[Exit, dict[str, Any]]:
        with operating_desk(here, needs_policy=False) as desk:
            check_reach(desk, "this release", "released")
            done = _release(desk, subjects)
            now_s = desk.shell.clock()
            left = desk.shell.ledger.holds(now_s)
            if not options.json:
                for each in done:
                    _tell(each, now_s)
                if any(each.is_anything for each in done):
                    show("\n".join(hang(printable(reach_words(desk), _LONGEST), COLUMNS)))
            tell_holds(left, now_s, None if everything else set(volumes))
            return Exit.FINE, _document(desk, done, left)

    return order_in_regions(options, order, done="released", is_for_volumes=bool(volumes))


def _release(desk: Desk, subjects: Sequence[str | None]) -> list[Released]:
    if not desk.has_ledger:
        return [Released(volume_id=subject) for subject in subjects]
    now_s = int(desk.shell.clock())
    with desk.recording() as recording:
        ledger = recording.shell.ledger
        return [
            Released(
                volume_id=subject,
                hold=ledger.lift_hold(subject, by=desk.by, at_s=now_s),
                contested_at_s=_trust(ledger, subject, by=desk.by, now_s=now_s) if subject else None,
                given_up=_give_up(ledger, subject, by=desk.by, now_s=now_s) if subject else None,
            )
            for subject in subjects
        ]


def _trust(ledger: Ledger, volume_id: str, *, by: str, now_s: int) -> int | None:
    """Take a volume that others changed into care again; since when it was not, None where it was.

    Raises:
        BurstwatchError: other processes keep changing its state.
    """
    for _ in range(_TRIES):
        state = ledger.states_of({volume_id}).get(volume_id)
        if state is None or state.contested_at_s is None:
            return None
        revision = max(state.revision + 1, now_s)
        entry = LedgerEntry(
            volume_id=volume_id,
            revision=revision,
            kind=EntryKind.RELEASED,
            at_s=now_s,
            body={"by": by, "contested_at_s": state.contested_at_s},
        )
        change = Change(
            volume_id=volume_id,
            expected_revision=state.revision,
            state=replace(
                state, revision=revision, contested_at_s=None, refusal_told=None, next_look_at_s=now_s
            ),
            entries=(entry,),
        )
        if ledger.commit([change], channels=()):
            return state.contested_at_s
    raise BurstwatchError(f"{volume_id} is not released: other processes are at work on it; run it again")


def _give_up(ledger: Ledger, volume_id: str, *, by: str, now_s: int) -> Unreadable | None:
    """Let go of what is remembered of a volume if it cannot be read; its history keeps it as it was.

    Raises:
        BurstwatchError: it cannot be removed either.
    """
    unread = ledger.states_of({volume_id}).unread.get(volume_id)
    if unread is None:
        return None
    revision = max((unread.revision or 0) + 1, now_s)
    body = {"by": by, "gave_up": unread.content, "because": unread.why}
    entry = LedgerEntry(
        volume_id=volume_id, revision=revision, kind=EntryKind.RELEASED, at_s=now_s, body=body
    )
    change = Change(volume_id=volume_id, expected_revision=unread.revision, state=None, entries=(entry,))
    if unread.revision is None or not ledger.commit([change], channels=()):
        raise BurstwatchError(
            f"{volume_id} is not released: its item ({unread.key}) is damaged beyond that; delete the item by"
            " hand, see runbooks/VolumesUnread.md"
        )
    ledger.take_unreadable()
    return unread


def _tell(released: Released, now_s: float) -> None:
    subject = released.volume_id or "everything"
    if released.hold is not None:
        hold = released.hold
        until = f"{format_until(hold.until_s, now_s)}, by {hold.by}: {hold.reason}"
        said = f"{subject}: released; it would have been on hold {until}"
        if hold.damaged:
            said = f"{subject}: released; its hold could not be read, so everything was held"
        said = printable(said, _LONGEST)
        show("\n".join(hang(said, COLUMNS)))
    if released.contested_at_s is not None:
        since = format_instant(released.contested_at_s)
        said = f"{subject}: in our care again; somebody else had changed it, seen {since}"
        show("\n".join(hang(said, COLUMNS)))
    if released.given_up is not None:
        said = (
            f"{subject}: what was remembered of it could not be read and is given up; it is new to the"
            " watchdog, so if it was flipped, nothing brings it back: look at its type"
        )
        show("\n".join(hang(said, COLUMNS)))
    if not released.is_anything:
        say(f"{subject}: nothing to release, there is no hold on it")


def _document(desk: Desk, done: Sequence[Released], left: Sequence[Hold]) -> dict[str, Any]:
    return {
        "schema": "burstwatch.release/v1",
        "generated_at": format_instant(desk.shell.clock()),
        **reach_document(desk),
        "released": [
            {
                "volume_id": each.volume_id,
                "hold": hold_document(each.hold) if each.hold else None,
                "contested_since": instant_or_none(each.contested_at_s),
                "gave_up": each.given_up.content if each.given_up else None,
            }
            for each in done
        ],
        "holds": [hold_document(hold) for hold in left],
    }
