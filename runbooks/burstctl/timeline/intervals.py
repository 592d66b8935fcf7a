"""What the ledger's lines say of a stretch of time: levels, times on a target, holds, stalls, and marks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ledger.flip_state import EXTERNAL, Direction, configuration_from_document
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState

_SAME_MODIFICATION_S: Final = 300
"""AWS's start of a modification and ours differ by less than this."""


class TimelineEventKind(StrEnum):
    """What happened at one moment."""

    WARNING = "warning"
    CRITICAL = "critical"
    EXHAUSTED = "exhausted"
    RECOVERED = "recovered"
    NO_DATA = "no_data"
    STALL = "stall"
    FLIPPED = "flipped"
    ON_TARGET = "on_target"
    FLIPPED_BACK = "flipped_back"
    RESTORED = "restored"
    REFUSED = "refused"
    FAILED = "failed"
    CHANGED_BY_OTHERS = "changed_by_others"
    HELD = "held"
    RELEASED = "released"
    OTHER_ALERT = "other_alert"


EVENT_LETTERS: Final[Mapping[TimelineEventKind, str]] = {
    TimelineEventKind.WARNING: "W",
    TimelineEventKind.CRITICAL: "C",
    TimelineEventKind.EXHAUSTED: "E",
    TimelineEventKind.RECOVERED: "R",
    TimelineEventKind.NO_DATA: "?",
    TimelineEventKind.STALL: "S",
    TimelineEventKind.FLIPPED: "F",
    TimelineEventKind.ON_TARGET: "T",
    TimelineEventKind.FLIPPED_BACK: "B",
    TimelineEventKind.RESTORED: "G",
    TimelineEventKind.REFUSED: "X",
    TimelineEventKind.FAILED: "!",
    TimelineEventKind.CHANGED_BY_OTHERS: "O",
    TimelineEventKind.HELD: "H",
    TimelineEventKind.RELEASED: "L",
    TimelineEventKind.OTHER_ALERT: "A",
}
"""A letter each, so that nothing depends on a colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """A single moment; ``text`` continues the volume's name, ``is_alerted`` if an alert was sent."""

    at_s: int
    kind: TimelineEventKind
    text: str
    is_alerted: bool = False

    @property
    def letter(self) -> str:
        return EVENT_LETTERS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelInterval:
    """How long a volume was at a level."""

    start_s: float
    end_s: float
    level: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldInterval:
    """How long a volume was held as it is; ``is_fleet_wide`` where the hold was on all."""

    start_s: float
    end_s: float
    by: str
    reason: str
    is_fleet_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StallInterval:
    """How long the volume was stalled, as its host reported it."""

    start_s: float
    end_s: float
    verdict: str
    cause: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInterval:
    """A volume's way to a target and back; what is not known, or has not been yet, is None.

    It was requested at ``requested_at_s`` (None: before the first entry), on its target from ``reached_at_s``
    to ``return_requested_at_s``, and at its original configuration from ``restored_at_s`` on.
    """

    requested_at_s: float | None = None
    reached_at_s: float | None = None
    return_requested_at_s: float | None = None
    restored_at_s: float | None = None
    target: Configuration | None = None
    by: str = ""
    reason: str = ""
    is_permanent: bool = False
    intent_ids: tuple[str, ...] = ()

    @property
    def start_s(self) -> float:
        """When it was requested; 0 for an interval that began before the first entry."""
        return self.requested_at_s or 0.0


def level_intervals(
    entries: Iterable[LedgerEntry],
    state: ResourceState | None,
    start_s: float,
    now_s: float,
    ok_since: Callable[[float], float] = lambda _until_s: 0.0,
) -> list[LevelInterval]:
    """The levels in their order; none for times without ledger entries.

    No entry states that a volume was ``ok`` before its first change: perhaps it was not watched. ``ok_since``
    returns the earliest time before a moment from which nothing contradicts it.
    """
    changes = [entry for entry in entries if entry.kind is EntryKind.LEVEL_CHANGED]
    starts = [(float(entry.at_s), str(entry.body.get("to"))) for entry in changes]
    if changes:
        first_at_s, first_level = float(changes[0].at_s), str(changes[0].body.get("from"))
        starts.insert(
            0, (max(start_s, ok_since(first_at_s)) if first_level == Level.OK else start_s, first_level)
        )
    elif state is not None and state.level_since_s:
        starts = [(float(state.level_since_s), str(state.level))]
    earlier = [level for at_s, level in starts if at_s <= start_s]
    later = [(at_s, level) for at_s, level in starts if at_s > start_s]
    return _to_level_intervals([*((start_s, level) for level in earlier[-1:]), *later], now_s)


def _to_level_intervals(starts: Sequence[tuple[float, str]], now_s: float) -> list[LevelInterval]:
    ends = [*(at_s for at_s, _ in starts[1:]), now_s][: len(starts)]
    return [
        LevelInterval(start_s=at_s, end_s=end_s, level=Level(level))
        for (at_s, level), end_s in zip(starts, ends, strict=True)
        if level in frozenset(Level) and at_s < end_s
    ]


def hold_intervals(entries: Iterable[LedgerEntry], start_s: float, end_s: float) -> list[HoldInterval]:
    """The holds on the volume and on everything, each until it was lifted, replaced or over."""
    ended: list[HoldInterval] = []
    active: dict[str, HoldInterval] = {}
    for entry in entries:
        is_hold_lifted = entry.kind is EntryKind.RELEASED and "until_s" in entry.body
        if entry.kind is not EntryKind.HELD and not is_hold_lifted:
            continue
        subject = entry.volume_id
        if (previous := active.pop(subject, None)) is not None:
            ended.append(replace(previous, end_s=min(previous.end_s, entry.at_s)))
        if entry.kind is EntryKind.HELD:
            active[subject] = HoldInterval(
                start_s=entry.at_s,
                end_s=entry.body.get("until_s", entry.at_s),
                by=str(entry.body.get("by")),
                reason=str(entry.body.get("reason")),
                is_fleet_wide=subject == FLEET,
            )
    clipped = (
        replace(hold, start_s=max(hold.start_s, start_s), end_s=min(hold.end_s, end_s))
        for hold in [*ended, *active.values()]
    )
    return sorted(
        (interval for interval in clipped if interval.start_s < interval.end_s),
        key=lambda interval: interval.start_s,
    )


def stall_intervals(
    entries: Iterable[LedgerEntry], state: ResourceState | None, start_s: float
) -> list[StallInterval]:
    """What the host reported; one that lasted is one stall, however often it was reported."""
    intervals: dict[tuple[str, float], StallInterval] = {}
    bodies = [entry.body for entry in entries if entry.kind is EntryKind.STALL]
    if state is not None and state.stall is not None:
        bodies.append(state.stall.to_facts(state.stall.seen_at_s))
    for body in bodies:
        started_at_s = _parse_instant_s(body.get("started_at"))
        if started_at_s is None:
            continue
        instance_id, seen_until_s = (
            str(body.get("instance_id")),
            started_at_s + float(body.get("total_s") or 0),
        )
        previous = intervals.get((instance_id, started_at_s))
        intervals[instance_id, started_at_s] = StallInterval(
            start_s=started_at_s,
            end_s=max(seen_until_s, previous.end_s if previous else 0),
            verdict=str(body.get("verdict")),
            cause=str(body.get("cause")),
            instance_id=instance_id,
        )
    return sorted(
        (interval for interval in intervals.values() if interval.end_s >= start_s),
        key=lambda interval: interval.start_s,
    )


def _parse_instant_s(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None


def target_intervals(
    entries: Iterable[LedgerEntry],
    state: ResourceState | None = None,
    modification: Modification | None = None,
) -> list[TargetInterval]:
    """The volume's ways to a target and back, oldest first.

    An interval that began before the entries is in the state; one that others caused is in AWS's newest
    record.
    """
    intervals: list[TargetInterval] = []
    for entry in entries:
        _apply_entry(intervals, entry)
    flip = state.flip if state else None
    if flip is not None and (not intervals or intervals[-1].restored_at_s is not None):
        requested_at_s = flip.started_at_s or flip.requested_at_s
        is_return = flip.direction is Direction.FLIP_BACK
        intervals.append(
            TargetInterval(
                requested_at_s=None if is_return else requested_at_s,
                reached_at_s=flip.reached_at_s,
                return_requested_at_s=requested_at_s if is_return else None,
                target=flip.target,
                by=flip.by,
                is_permanent=flip.is_permanent,
            )
        )
    external = _external_interval(modification, intervals) if modification is not None else None
    return sorted(
        [*intervals, external] if external else intervals,
        key=lambda interval: interval.requested_at_s or interval.return_requested_at_s or 0.0,
    )


def _apply_entry(intervals: list[TargetInterval], entry: LedgerEntry) -> None:
    """Update the intervals with one entry."""
    body, at_s = entry.body, entry.at_s
    is_flip = body.get("direction") == Direction.FLIP
    intent_id = str(body.get("intent_id"))
    open_interval = intervals[-1] if intervals and intervals[-1].restored_at_s is None else None
    match entry.kind:
        case EntryKind.ACCEPTED if is_flip:
            if open_interval is not None:
                intervals[-1] = _end(open_interval, at_s)
            intervals.append(
                TargetInterval(
                    requested_at_s=at_s,
                    target=_parse_configuration(body.get("to")),
                    by=str(body.get("by")),
                    reason=str(body.get("because", "")),
                    is_permanent=bool(body.get("stays")),
                    intent_ids=(intent_id,),
                )
            )
        case EntryKind.ACCEPTED:
            current = _take_current(intervals, open_interval, body)
            intervals.append(
                replace(current, return_requested_at_s=at_s, intent_ids=(*current.intent_ids, intent_id))
            )
        case EntryKind.REACHED if open_interval is not None:
            intervals[-1] = replace(open_interval, reached_at_s=at_s)
        case EntryKind.STAYED if open_interval is not None:
            intervals[-1] = replace(open_interval, is_permanent=True)
        case EntryKind.RESTORED:
            intervals.append(_end(_take_current(intervals, open_interval, body), at_s))
        case EntryKind.CHANGED_BY_OTHERS if open_interval is not None:
            intervals[-1] = _end(open_interval, at_s)
        case EntryKind.FAILED | EntryKind.NOT_DONE if (
            open_interval is not None and intent_id in open_interval.intent_ids
        ):
            if is_flip:
                intervals.pop()
                _reopen_previous(intervals, open_interval)
            else:
                intervals[-1] = replace(open_interval, return_requested_at_s=None)
        case _:
            pass


def _end(interval: TargetInterval, at_s: float) -> TargetInterval:
    return replace(interval, return_requested_at_s=interval.return_requested_at_s or at_s, restored_at_s=at_s)


def _take_current(
    intervals: list[TargetInterval], open_interval: TargetInterval | None, body: Mapping[str, Any]
) -> TargetInterval:
    """Take the open interval out of the list; without one, it began before the entries."""
    if open_interval is not None:
        return intervals.pop()
    return TargetInterval(target=_parse_configuration(body.get("from")))


def _reopen_previous(intervals: list[TargetInterval], cancelled: TargetInterval) -> None:
    """The previous interval continues, because the one after it was undone."""
    if (
        intervals
        and intervals[-1].restored_at_s is not None
        and intervals[-1].restored_at_s == cancelled.requested_at_s
    ):
        previous = intervals[-1]
        return_requested_at_s = (
            None
            if previous.return_requested_at_s == previous.restored_at_s
            else previous.return_requested_at_s
        )
        intervals[-1] = replace(previous, return_requested_at_s=return_requested_at_s, restored_at_s=None)


def _parse_configuration(document: Any) -> Configuration | None:
    return configuration_from_document(document) if isinstance(document, Mapping) else None


def _external_interval(
    modification: Modification, intervals: Sequence[TargetInterval]
) -> TargetInterval | None:
    """The interval in AWS's newest modification, if the ledger has none."""
    if modification.started_at is None or modification.has_failed:
        return None
    started_at_s = modification.started_at.timestamp()
    ended_at_s = modification.ended_at.timestamp() if modification.ended_at else None
    known_starts = [
        at_s
        for interval in intervals
        for at_s in (interval.requested_at_s, interval.return_requested_at_s)
        if at_s is not None
    ]
    was_gp2, is_gp2 = modification.original.volume_type == "gp2", modification.target.volume_type == "gp2"
    if was_gp2 is is_gp2 or any(abs(started_at_s - at_s) <= _SAME_MODIFICATION_S for at_s in known_starts):
        return None
    if was_gp2:
        target = modification.target.configuration()
        return TargetInterval(
            requested_at_s=started_at_s, reached_at_s=ended_at_s, target=target, by=EXTERNAL
        )
    return TargetInterval(
        return_requested_at_s=started_at_s,
        restored_at_s=ended_at_s,
        target=modification.original.configuration(),
        by=EXTERNAL,
    )


_EVENT_OF_LEVEL: Final = {
    Level.WARNING: TimelineEventKind.WARNING,
    Level.CRITICAL: TimelineEventKind.CRITICAL,
    Level.EXHAUSTED: TimelineEventKind.EXHAUSTED,
}
_EVENT_OF_ENTRY: Final = {
    EntryKind.REACHED: TimelineEventKind.ON_TARGET,
    EntryKind.RESTORED: TimelineEventKind.RESTORED,
    EntryKind.REFUSED: TimelineEventKind.REFUSED,
    EntryKind.FAILED: TimelineEventKind.FAILED,
    EntryKind.NOT_DONE: TimelineEventKind.FAILED,
    EntryKind.UNCLEAR: TimelineEventKind.FAILED,
    EntryKind.STUCK: TimelineEventKind.FAILED,
    EntryKind.LEFT_ON_TARGET: TimelineEventKind.FAILED,
    EntryKind.CHANGED_BY_OTHERS: TimelineEventKind.CHANGED_BY_OTHERS,
    EntryKind.STALL: TimelineEventKind.STALL,
    EntryKind.HELD: TimelineEventKind.HELD,
    EntryKind.RELEASED: TimelineEventKind.RELEASED,
}
_EVENT_OF_ALERT: Final = {
    AlertKind.RECOVERED: TimelineEventKind.RECOVERED,
    AlertKind.TELEMETRY_GAP: TimelineEventKind.NO_DATA,
}
_LEVEL_ALERTS: Final = frozenset({AlertKind.DRAINING, AlertKind.EXHAUSTED})


def timeline_events(entries: Sequence[LedgerEntry]) -> list[TimelineEvent]:
    """A mark for each event, oldest first; an alert about an event has no separate mark."""
    alerts = [(entry, Alert.from_document(entry.body)) for entry in entries if entry.kind is EntryKind.ALERT]
    alerted = {(entry.revision, alert.evidence.get("summary")) for entry, alert in alerts}
    alerted_levels = {
        (entry.revision, str(alert.level)) for entry, alert in alerts if alert.kind in _LEVEL_ALERTS
    }
    events = [event for entry in entries if (event := _to_event(entry, alerted, alerted_levels)) is not None]
    recorded = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    changes = {
        (change.revision, str(change.body.get("to")))
        for change in entries
        if change.kind is EntryKind.LEVEL_CHANGED
    }
    events += _alert_events(alerts, recorded, changes)
    return sorted(events, key=lambda event: event.at_s)


def _to_event(
    entry: LedgerEntry, alerted: set[tuple[int, Any]], alerted_levels: set[tuple[int, str]]
) -> TimelineEvent | None:
    body, at_s, revision = entry.body, entry.at_s, entry.revision
    summary = body.get("summary")
    is_alerted = summary is not None and (revision, summary) in alerted
    match entry.kind:
        case EntryKind.LEVEL_CHANGED if body.get("to") in _EVENT_OF_LEVEL:
            level = Level(body["to"])
            is_alerted = (revision, str(level)) in alerted_levels
            return TimelineEvent(
                at_s=at_s,
                kind=_EVENT_OF_LEVEL[level],
                text=f"{body.get('from')} -> {level}",
                is_alerted=is_alerted,
            )
        case EntryKind.ACCEPTED:
            is_flip = body.get("direction") == Direction.FLIP
            kind = TimelineEventKind.FLIPPED if is_flip else TimelineEventKind.FLIPPED_BACK
        case EntryKind.HELD:
            action = "everything is held" if entry.volume_id == FLEET else "held"
            summary, kind = f"{action} by {body.get('by')}: {body.get('reason')}", TimelineEventKind.HELD
        case EntryKind.RELEASED:
            action = "everything is released" if entry.volume_id == FLEET else "released"
            if "gave_up" in body:
                action = "its unreadable state is discarded"
            summary, kind = f"{action} by {body.get('by')}", TimelineEventKind.RELEASED
        case entry_kind if entry_kind in _EVENT_OF_ENTRY:
            kind = _EVENT_OF_ENTRY[entry_kind]
        case _:
            return None
    return TimelineEvent(
        at_s=at_s, kind=kind, text=str(summary or entry.kind).replace("_", " "), is_alerted=is_alerted
    )


def _alert_events(
    alerts: Iterable[tuple[LedgerEntry, Alert]], recorded: set[tuple[int, Any]], changes: set[tuple[int, str]]
) -> Iterator[TimelineEvent]:
    """The alerts about events that have no other entry."""
    for entry, alert in alerts:
        if alert.kind in _LEVEL_ALERTS:
            if (entry.revision, str(alert.level)) in changes:
                continue
            kind, text = (
                _EVENT_OF_LEVEL.get(alert.level, TimelineEventKind.OTHER_ALERT),
                f"still {alert.level}",
            )
        elif (summary := alert.evidence.get("summary")) is not None:
            if (entry.revision, summary) in recorded:
                continue
            kind, text = TimelineEventKind.OTHER_ALERT, str(summary)
        else:
            kind = _EVENT_OF_ALERT.get(alert.kind, TimelineEventKind.OTHER_ALERT)
            text = (
                str(kind).replace("_", " ") if kind is not TimelineEventKind.OTHER_ALERT else str(alert.kind)
            )
        yield TimelineEvent(at_s=entry.at_s, kind=kind, text=text, is_alerted=True)
