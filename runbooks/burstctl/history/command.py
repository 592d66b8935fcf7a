"""``burstctl history``: the story of a volume, from the ledger alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, Span, VolumeId, common_options
from burstctl.cli.output import say, show, to_json
from burstctl.cli.text_layout import Topic, lay_out
from burstctl.context.context import Desk, reading_desk
from burstctl.history.render import lay_out_story, read_story, tell_story
from burstctl.render.flip_text import flip_document, flip_in_words, quota_document, quota_in_words
from burstctl.render.pass_summary import hold_words, tell_holds
from burstctl.render.plan_json import hold_document, instant_or_none
from burstctl.render.table import CHANGING
from burstctl.render.volume import STATE_NOT_KNOWN, inert, level_words
from burstwatch.core.ledger.flip_state import Hold, spent_within
from burstwatch.core.ledger.ledger import LedgerEntry, VolumeState
from burstwatch.core.text import format_instant, format_when

SCHEMA: Final = "burstwatch.history/v1"
_LONGEST_BACK: Final = timedelta(days=9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VolumeHistory:
    """What the ledger knows of a volume now."""

    volume_id: str
    now_s: float
    entries: Sequence[LedgerEntry]
    state: VolumeState | None
    holds: Sequence[Hold]
    is_unread: bool


@click.command(
    cls=Command,
    examples=(
        ("burstctl history vol-0123456789abcdef0", "all that happened to it, who did it and why"),
        ("burstctl history vol-0123456789abcdef0 --since 2d", "the last two days"),
        ("burstctl history vol-0123456789abcdef0 --json", "the ledger's own lines, for programs"),
    ),
    page="runbooks/VolumeFlipped.md",
)
@click.argument("volume", type=VolumeId())
@click.option(
    "--since",
    type=Span(timedelta(minutes=1), _LONGEST_BACK),
    metavar="SPAN",
    help="Only what happened in so long, such as 6h or 7d.",
)
@common_options
def history(volume: str, options: Options, *, since: timedelta | None) -> Exit:
    """Tell the story of VOLUME, and where it stands now; changes nothing.

    It is read from the ledger alone: AWS is not asked about it, and volumes long deleted have theirs as well.
    Exits 1 if what the ledger remembers of it cannot be read.
    """
    with reading_desk(options, needs_policy=False) as desk:
        found = _read(desk, volume, since)
        if options.json:
            show(to_json(_document(found, desk.ledger)))
        elif found.entries or found.state or found.is_unread:
            story = lay_out_story(tell_story(found.entries))
            show("\n\n".join(filter(None, [story, lay_out(f"{volume} now", _topics(found))])))
        else:
            span = "" if since is None else " in so long"
            say(f"the ledger knows of nothing that happened to {volume}{span}")
        tell_holds(found.holds, found.now_s, {volume})
        return Exit.FAILED if found.is_unread else Exit.FINE


def _read(desk: Desk, volume_id: str, since: timedelta | None) -> _VolumeHistory:
    ledger, now_s = desk.shell.ledger, desk.shell.clock()
    since_s = 0 if since is None else int(now_s - since.total_seconds())
    states = ledger.states_of({volume_id})
    return _VolumeHistory(
        volume_id=volume_id,
        now_s=now_s,
        entries=read_story(ledger, volume_id, since_s=since_s),
        state=states.get(volume_id),
        holds=[hold for hold in ledger.holds(now_s) if hold.holds(volume_id, now_s)],
        is_unread=volume_id in states.unread,
    )


def _topics(found: _VolumeHistory) -> list[Topic]:
    state = found.state
    topics: list[Topic] = [("Level", [STATE_NOT_KNOWN if found.is_unread else _level_words(state)])]
    if state is not None:
        if state.flip is not None:
            topics.append(("Flip", flip_in_words(state.flip, found.now_s)))
        if state.contested_at_s is not None:
            since = format_instant(state.contested_at_s)
            release = f"until: burstctl release {found.volume_id}"
            topics.append(
                ("Contested", [f"changed by somebody else, seen {since}; left to people {release}"])
            )
        if state.retry_at_s is not None and state.retry_at_s > found.now_s:
            row = "1 attempt" if state.failures == 1 else f"{state.failures} attempts in a row"
            again = f"the watchdog makes the next {format_when(state.retry_at_s, found.now_s, 'UTC')}"
            topics.append(("Failed", [f"{row}; {again}"]))
        spent = spent_within(state.spent, found.now_s)
        topics.append(("Quota", quota_in_words(spent, found.now_s)))
    topics.append(("Hold", [hold_words(hold, found.now_s) for hold in found.holds]))
    return [(topic, [inert(line) for line in lines]) for topic, lines in topics if lines]


def _level_words(state: VolumeState | None) -> str:
    if state is None:
        return "nothing is going on with it"
    if state.unknown_reason is not None:
        return f"unknown: {str(state.unknown_reason).replace('_', ' ')}; last judged {state.level}"
    if state.flip is not None and state.flip.is_under_way and state.level.is_alerting:
        return f"{CHANGING}; by its balance {level_words(state)}"
    return level_words(state)


def _document(found: _VolumeHistory, ledger: str) -> dict[str, Any]:
    state = found.state
    spent = spent_within(state.spent, found.now_s) if state else ()
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(found.now_s),
        "ledger": ledger,
        "volume_id": found.volume_id,
        "entries": [
            {
                "at": format_instant(entry.at_s),
                "subject": entry.volume_id,
                "kind": str(entry.kind),
                "revision": entry.revision,
                "body": dict(entry.body),
            }
            for entry in found.entries
        ],
        "now": {
            "level": str(state.level) if state else None,
            "unknown_reason": str(state.unknown_reason) if state and state.unknown_reason else None,
            "flip": flip_document(state.flip) if state and state.flip else None,
            "contested_since": instant_or_none(state.contested_at_s) if state else None,
            "retry_at": instant_or_none(state.retry_at_s) if state else None,
            "quota": quota_document(spent),
            "holds": [hold_document(hold) for hold in found.holds],
        },
    }
