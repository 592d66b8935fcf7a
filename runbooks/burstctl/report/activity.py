"""What was done to the volumes of late and what was refused, as the ledger tells it, and why."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.history.render import EVERYTHING, Passage, tell_story
from burstctl.timeline.intervals import marks_of
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from burstwatch.core.text import format_until, printable


class Sort(StrEnum):
    """What sort of deed it is, in a word for people."""

    FLIPPED = "flipped"
    RETURNED = "returned"
    REFUSED = "refused"
    FAILED = "failed"
    ALERTED = "alerted"
    BY_PEOPLE = "by people"
    LEVEL = "level"
    NOTED = "noted"


_SORTS: Final[Mapping[EntryKind, Sort]] = {
    EntryKind.REACHED: Sort.FLIPPED,
    EntryKind.STAYED: Sort.FLIPPED,
    EntryKind.KEPT: Sort.FLIPPED,
    EntryKind.RESTORED: Sort.RETURNED,
    EntryKind.REFUSED: Sort.REFUSED,
    EntryKind.UNCLEAR: Sort.FAILED,
    EntryKind.NOT_DONE: Sort.FAILED,
    EntryKind.FAILED: Sort.FAILED,
    EntryKind.STUCK: Sort.NOTED,
    EntryKind.POLICY_REJECTED: Sort.FAILED,
    EntryKind.LEFT: Sort.NOTED,
    EntryKind.CHANGED_BY_OTHERS: Sort.BY_PEOPLE,
    EntryKind.HELD: Sort.BY_PEOPLE,
    EntryKind.RELEASED: Sort.BY_PEOPLE,
    EntryKind.WINDOW: Sort.BY_PEOPLE,
    EntryKind.ALERT: Sort.ALERTED,
    EntryKind.LEVEL_CHANGED: Sort.LEVEL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing that happened to ``subject``: a volume, everything, a window or the policy.

    ``letter`` marks it in pictures, empty where it has no mark there. One that ``is_minor`` is told by
    another as well: it stands in the story of the volume, not in that of the fleet.
    """

    at_s: int
    sort: Sort
    subject: str
    line: str
    details: Sequence[str] = ()
    letter: str = ""
    is_minor: bool = False

    @property
    def volume_id(self) -> str | None:
        return self.subject if self.subject.startswith("vol-") else None

    @property
    def subject_words(self) -> str:
        return "everything" if self.subject == EVERYTHING else printable(self.subject, LONGEST_SENTENCE)


def deeds_of(entries: Sequence[LedgerEntry]) -> list[Deed]:
    """The deeds in the entries of one subject, oldest first, in the words of ``burstctl history``."""
    settled = {entry.body.get("intent_id") for entry in entries if entry.kind is not EntryKind.INTENT}
    told = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    shown = [entry for entry in entries if entry.kind is not EntryKind.DELIVERED]
    found = []
    for entry, passage in zip(shown, tell_story(entries), strict=True):
        is_minor = entry.kind is EntryKind.LEVEL_CHANGED
        if entry.kind is EntryKind.INTENT:
            is_minor = entry.body.get("intent_id") in settled
        if entry.kind is EntryKind.ALERT:
            is_minor = (entry.revision, _summary_of_alert(entry)) in told
        found.append(_deed(entry, passage, is_minor=is_minor))
    return found


def count_deeds(deeds: Iterable[Deed]) -> dict[str, int]:
    """How many there are of each sort that the fleet's story tells."""
    counts = Counter(deed.sort for deed in deeds if not deed.is_minor)
    return {str(sort): counts[sort] for sort in Sort if sort is not Sort.LEVEL}


def _summary_of_alert(entry: LedgerEntry) -> str | None:
    summary = entry.body.get("evidence", {}).get("summary")
    return summary if isinstance(summary, str) else None


def _deed(entry: LedgerEntry, passage: Passage, *, is_minor: bool) -> Deed:
    sort = _SORTS.get(entry.kind, Sort.NOTED)
    if entry.kind in (EntryKind.INTENT, EntryKind.ACCEPTED):
        sort = Sort.FLIPPED if entry.body.get("direction") == Direction.OUT else Sort.RETURNED
    line, details = _words(entry, passage)
    return Deed(
        at_s=entry.at_s,
        sort=sort,
        subject=entry.volume_id,
        line=printable(line, LONGEST_SENTENCE),
        details=[printable(str(detail), LONGEST_SENTENCE) for detail in details],
        letter=next((mark.letter for mark in marks_of([entry])), ""),
        is_minor=is_minor,
    )


def _words(entry: LedgerEntry, passage: Passage) -> tuple[str, Sequence[str]]:
    """The passage's, but for what no volume's history tells."""
    body = entry.body
    match entry.kind:
        case EntryKind.WINDOW:
            until_s = body.get("until_s")
            until = "until it is stopped" if until_s is None else format_until(until_s, entry.at_s)
            said = f"is started {until}" if body.get("starts") else "is stopped"
            return f"{said} by {body.get('by')}", ()
        case EntryKind.POLICY_REJECTED:
            return "is rejected, the last good one stays in force", list(body.get("faults", ()))
        case EntryKind.ALERT:
            return passage.line.removeprefix("alert "), passage.details
        case _:
            return passage.line, passage.details
