"""The recent activity: what was done and refused, and why, according to the ledger."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.history.render import HistoryEntry, render_entries
from burstctl.timeline.intervals import timeline_events
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.text import format_until, sanitise


class ActivityKind(StrEnum):
    """The kind of an activity, in a word."""

    FLIPPED = "flipped"
    RETURNED = "returned"
    REFUSED = "refused"
    FAILED = "failed"
    ALERTED = "alerted"
    BY_PEOPLE = "by people"
    LEVEL = "level"
    NOTED = "noted"


_KIND_OF_ENTRY: Final[Mapping[EntryKind, ActivityKind]] = {
    EntryKind.REACHED: ActivityKind.FLIPPED,
    EntryKind.STAYED: ActivityKind.FLIPPED,
    EntryKind.STAY_EXTENDED: ActivityKind.FLIPPED,
    EntryKind.RESTORED: ActivityKind.RETURNED,
    EntryKind.REFUSED: ActivityKind.REFUSED,
    EntryKind.UNCLEAR: ActivityKind.FAILED,
    EntryKind.NOT_DONE: ActivityKind.FAILED,
    EntryKind.FAILED: ActivityKind.FAILED,
    EntryKind.STUCK: ActivityKind.NOTED,
    EntryKind.POLICY_REJECTED: ActivityKind.FAILED,
    EntryKind.LEFT_ON_TARGET: ActivityKind.NOTED,
    EntryKind.CHANGED_BY_OTHERS: ActivityKind.BY_PEOPLE,
    EntryKind.HELD: ActivityKind.BY_PEOPLE,
    EntryKind.RELEASED: ActivityKind.BY_PEOPLE,
    EntryKind.WINDOW: ActivityKind.BY_PEOPLE,
    EntryKind.ALERT: ActivityKind.ALERTED,
    EntryKind.LEVEL_CHANGED: ActivityKind.LEVEL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One thing that happened to ``subject``: a bucket, a resource, everything, a window or the policy.

    ``letter`` marks it in pictures; empty if it has no mark. If it ``is_secondary``, another activity
    includes it: it is in the volume's history, but not in the fleet's.
    """

    at_s: int
    kind: ActivityKind
    subject: str
    line: str
    details: Sequence[str] = ()
    letter: str = ""
    is_secondary: bool = False

    @property
    def subject_label(self) -> str:
        return "everything" if self.subject == FLEET else sanitise(self.subject, MAX_SENTENCE_LENGTH)


def read_activities(entries: Sequence[LedgerEntry]) -> list[Activity]:
    """The activities in the entries of one subject, oldest first, in the words of ``burstctl history``."""
    settled_intents = {entry.body.get("intent_id") for entry in entries if entry.kind is not EntryKind.INTENT}
    summaries = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    listed = [entry for entry in entries if entry.kind is not EntryKind.DELIVERED]
    activities = []
    for entry, history_entry in zip(listed, render_entries(entries), strict=True):
        is_secondary = entry.kind is EntryKind.LEVEL_CHANGED
        if entry.kind is EntryKind.INTENT:
            is_secondary = entry.body.get("intent_id") in settled_intents
        if entry.kind is EntryKind.ALERT:
            is_secondary = (entry.revision, _alert_summary(entry)) in summaries
        activities.append(_to_activity(entry, history_entry, is_secondary=is_secondary))
    return activities


def count_activities(activities: Iterable[Activity]) -> dict[str, int]:
    """The number of activities of each kind in the fleet's history."""
    counts = Counter(activity.kind for activity in activities if not activity.is_secondary)
    return {str(kind): counts[kind] for kind in ActivityKind if kind is not ActivityKind.LEVEL}


def _alert_summary(entry: LedgerEntry) -> str | None:
    summary = entry.body.get("evidence", {}).get("summary")
    return summary if isinstance(summary, str) else None


def _to_activity(entry: LedgerEntry, history_entry: HistoryEntry, *, is_secondary: bool) -> Activity:
    kind = _KIND_OF_ENTRY.get(entry.kind, ActivityKind.NOTED)
    if entry.kind in (EntryKind.INTENT, EntryKind.ACCEPTED):
        kind = (
            ActivityKind.FLIPPED if entry.body.get("direction") == Direction.FLIP else ActivityKind.RETURNED
        )
    line, details = _activity_text(entry, history_entry)
    return Activity(
        at_s=entry.at_s,
        kind=kind,
        subject=entry.volume_id,
        line=sanitise(line, MAX_SENTENCE_LENGTH),
        details=[sanitise(str(detail), MAX_SENTENCE_LENGTH) for detail in details],
        letter=next((event.letter for event in timeline_events([entry])), ""),
        is_secondary=is_secondary,
    )


def _activity_text(entry: LedgerEntry, history_entry: HistoryEntry) -> tuple[str, Sequence[str]]:
    """The text of the timeline's event, except for activities that are in no volume's history."""
    body = entry.body
    match entry.kind:
        case EntryKind.WINDOW:
            until_s = body.get("until_s")
            until = "until it is stopped" if until_s is None else format_until(until_s, entry.at_s)
            text = f"is started {until}" if body.get("starts") else "is stopped"
            return f"{text} by {body.get('by')}", ()
        case EntryKind.POLICY_REJECTED:
            return "is rejected, the last valid one stays in force", list(body.get("faults", ()))
        case EntryKind.ALERT:
            return history_entry.line.removeprefix("alert "), history_entry.details
        case _:
            return history_entry.line, history_entry.details
