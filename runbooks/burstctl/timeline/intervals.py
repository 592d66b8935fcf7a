"""What the ledger's lines say of a stretch of time: levels, stays away, holds, stalls, and marks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ledger.flip_state import OTHERS, Direction, configuration_from
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry, VolumeState

EVERYTHING: Final = "*"
"""The subject under which the ledger files what concerns every volume."""

_SAME_S: Final = 300
"""AWS's start of a modification and ours differ by less than this."""


class MarkKind(StrEnum):
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


LETTERS: Final[Mapping[MarkKind, str]] = {
    MarkKind.WARNING: "W",
    MarkKind.CRITICAL: "C",
    MarkKind.EXHAUSTED: "E",
    MarkKind.RECOVERED: "R",
    MarkKind.NO_DATA: "?",
    MarkKind.STALL: "S",
    MarkKind.FLIPPED: "F",
    MarkKind.ON_TARGET: "T",
    MarkKind.FLIPPED_BACK: "B",
    MarkKind.RESTORED: "G",
    MarkKind.REFUSED: "X",
    MarkKind.FAILED: "!",
    MarkKind.CHANGED_BY_OTHERS: "O",
    MarkKind.HELD: "H",
    MarkKind.RELEASED: "L",
    MarkKind.OTHER_ALERT: "A",
}
"""A letter each, so that nothing depends on a colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One moment; ``says`` continues the volume's name, ``is_told`` when people were alerted to it."""

    at_s: int
    kind: MarkKind
    says: str
    is_told: bool = False

    @property
    def letter(self) -> str:
        return LETTERS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRun:
    """How long a volume was at a level."""

    start_s: float
    end_s: float
    level: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRun:
    """How long a volume was held as it is; ``of_everything`` where the hold was on all."""

    start_s: float
    end_s: float
    by: str
    reason: str
    of_everything: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRun:
    """How long the volume stood still, as its host saw it."""

    start_s: float
    end_s: float
    verdict: str
    cause: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A volume's way to a target and back; what is not known, or has not been yet, is None.

    It was asked for at ``asked_s`` (None: before anybody remembers), on its target from ``reached_s`` to
    ``back_s``, and what it was before from ``restored_s`` on.
    """

    asked_s: float | None = None
    reached_s: float | None = None
    back_s: float | None = None
    restored_s: float | None = None
    target: Configuration | None = None
    by: str = ""
    stays: bool = False
    intent_ids: tuple[str, ...] = ()


def level_runs(
    entries: Iterable[LedgerEntry],
    state: VolumeState | None,
    start_s: float,
    now_s: float,
    ok_since: Callable[[float], float] = lambda _until_s: 0.0,
) -> list[LevelRun]:
    """The levels in their order; none for a time of which the ledger knows nothing.

    That a volume was ``ok`` before its first change is not written anywhere: it may as well have been that
    nobody looked. ``ok_since`` says since when nothing speaks against it, up to a moment.
    """
    changes = [entry for entry in entries if entry.kind is EntryKind.LEVEL_CHANGED]
    begins = [(float(entry.at_s), str(entry.body.get("to"))) for entry in changes]
    if changes:
        first_s, known = float(changes[0].at_s), str(changes[0].body.get("from"))
        begins.insert(0, (max(start_s, ok_since(first_s)) if known == Level.OK else start_s, known))
    elif state is not None and state.level_since_s:
        begins = [(float(state.level_since_s), str(state.level))]
    before = [level for at_s, level in begins if at_s <= start_s]
    after = [(at_s, level) for at_s, level in begins if at_s > start_s]
    return _joined([*((start_s, level) for level in before[-1:]), *after], now_s)


def _joined(begins: Sequence[tuple[float, str]], now_s: float) -> list[LevelRun]:
    ends = [*(at_s for at_s, _ in begins[1:]), now_s][: len(begins)]
    return [
        LevelRun(start_s=at_s, end_s=end_s, level=Level(level))
        for (at_s, level), end_s in zip(begins, ends, strict=True)
        if level in frozenset(Level) and at_s < end_s
    ]


def hold_runs(entries: Iterable[LedgerEntry], start_s: float, end_s: float) -> list[HoldRun]:
    """The holds on the volume and on everything, each until it was lifted, replaced or over."""
    runs: list[HoldRun] = []
    held: dict[str, HoldRun] = {}
    for entry in entries:
        is_hold_lifted = entry.kind is EntryKind.RELEASED and "until_s" in entry.body
        if entry.kind is not EntryKind.HELD and not is_hold_lifted:
            continue
        subject = entry.volume_id
        if (known := held.pop(subject, None)) is not None:
            runs.append(replace(known, end_s=min(known.end_s, entry.at_s)))
        if entry.kind is EntryKind.HELD:
            held[subject] = HoldRun(
                start_s=entry.at_s,
                end_s=entry.body.get("until_s", entry.at_s),
                by=str(entry.body.get("by")),
                reason=str(entry.body.get("reason")),
                of_everything=subject == EVERYTHING,
            )
    cut = (
        replace(r, start_s=max(r.start_s, start_s), end_s=min(r.end_s, end_s))
        for r in [*runs, *held.values()]
    )
    return sorted((run for run in cut if run.start_s < run.end_s), key=lambda run: run.start_s)


def stall_runs(entries: Iterable[LedgerEntry], state: VolumeState | None, start_s: float) -> list[StallRun]:
    """What the host reported; one that lasted is one stall, however often it was reported."""
    runs: dict[tuple[str, float], StallRun] = {}
    bodies = [entry.body for entry in entries if entry.kind is EntryKind.STALL]
    if state is not None and state.stall is not None:
        bodies.append(state.stall.facts(state.stall.seen_at_s))
    for body in bodies:
        began_s = _instant_s(body.get("started_at"))
        if began_s is None:
            continue
        instance_id, seen_s = str(body.get("instance_id")), began_s + float(body.get("total_s") or 0)
        known = runs.get((instance_id, began_s))
        runs[instance_id, began_s] = StallRun(
            start_s=began_s,
            end_s=max(seen_s, known.end_s if known else 0),
            verdict=str(body.get("verdict")),
            cause=str(body.get("cause")),
            instance_id=instance_id,
        )
    return sorted((run for run in runs.values() if run.end_s >= start_s), key=lambda run: run.start_s)


def _instant_s(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None


def stays_of(
    entries: Iterable[LedgerEntry], state: VolumeState | None = None, record: Modification | None = None
) -> list[Stay]:
    """The volume's ways to a target and back, oldest first.

    Of one that began before the entries the state tells, of one that others made AWS's newest record does.
    """
    stays: list[Stay] = []
    for entry in entries:
        _follow(stays, entry)
    flip = state.flip if state else None
    if flip is not None and (not stays or stays[-1].restored_s is not None):
        asked_s = flip.started_at_s or flip.asked_at_s
        is_back = flip.direction is Direction.BACK
        stays.append(
            Stay(
                asked_s=None if is_back else asked_s,
                reached_s=flip.reached_at_s,
                back_s=asked_s if is_back else None,
                target=flip.target,
                by=flip.by,
                stays=flip.stays,
            )
        )
    theirs = _by_others(record, stays) if record is not None else None
    return sorted([*stays, theirs] if theirs else stays, key=lambda stay: stay.asked_s or stay.back_s or 0.0)


def _follow(stays: list[Stay], entry: LedgerEntry) -> None:
    """Bring the stays up to what one entry tells."""
    body, at_s = entry.body, entry.at_s
    is_out = body.get("direction") == Direction.OUT
    intent_id = str(body.get("intent_id"))
    last = stays[-1] if stays and stays[-1].restored_s is None else None
    match entry.kind:
        case EntryKind.ACCEPTED if is_out:
            if last is not None:
                stays[-1] = replace(last, back_s=last.back_s or at_s, restored_s=at_s)
            stays.append(
                Stay(
                    asked_s=at_s,
                    target=_configuration(body.get("to")),
                    by=str(body.get("by")),
                    intent_ids=(intent_id,),
                )
            )
        case EntryKind.ACCEPTED:
            known = stays.pop() if last else Stay(target=_configuration(body.get("from")))
            stays.append(replace(known, back_s=at_s, intent_ids=(*known.intent_ids, intent_id)))
        case EntryKind.REACHED if last is not None:
            stays[-1] = replace(last, reached_s=at_s)
        case EntryKind.STAYED if last is not None:
            stays[-1] = replace(last, stays=True)
        case EntryKind.RESTORED:
            known = stays.pop() if last else Stay(target=_configuration(body.get("from")))
            stays.append(replace(known, back_s=known.back_s or at_s, restored_s=at_s))
        case EntryKind.CHANGED_BY_OTHERS if last is not None:
            stays[-1] = replace(last, back_s=last.back_s or at_s, restored_s=at_s)
        case EntryKind.FAILED | EntryKind.NOT_DONE if last is not None and intent_id in last.intent_ids:
            if is_out:
                stays.pop()
                _go_on(stays, last)
            else:
                stays[-1] = replace(last, back_s=None)
        case _:
            pass


def _go_on(stays: list[Stay], undone: Stay) -> None:
    """The stay that the undone one was to follow never ended."""
    if stays and stays[-1].restored_s is not None and stays[-1].restored_s == undone.asked_s:
        before = stays[-1]
        back_s = None if before.back_s == before.restored_s else before.back_s
        stays[-1] = replace(before, back_s=back_s, restored_s=None)


def _configuration(document: Any) -> Configuration | None:
    return configuration_from(document) if isinstance(document, Mapping) else None


def _by_others(record: Modification, stays: Sequence[Stay]) -> Stay | None:
    """The stay that AWS's newest modification tells of, where the ledger knows nothing of it."""
    if record.started_at is None or record.has_failed:
        return None
    began_s = record.started_at.timestamp()
    ended_s = record.ended_at.timestamp() if record.ended_at else None
    known = [at_s for stay in stays for at_s in (stay.asked_s, stay.back_s) if at_s is not None]
    was_gp2, is_gp2 = record.original.volume_type == "gp2", record.target.volume_type == "gp2"
    if was_gp2 is is_gp2 or any(abs(began_s - at_s) <= _SAME_S for at_s in known):
        return None
    if was_gp2:
        target = record.target.configuration()
        return Stay(asked_s=began_s, reached_s=ended_s, target=target, by=OTHERS)
    return Stay(back_s=began_s, restored_s=ended_s, target=record.original.configuration(), by=OTHERS)


_MARK_OF_LEVEL: Final = {
    Level.WARNING: MarkKind.WARNING,
    Level.CRITICAL: MarkKind.CRITICAL,
    Level.EXHAUSTED: MarkKind.EXHAUSTED,
}
_MARK_OF_ENTRY: Final = {
    EntryKind.REACHED: MarkKind.ON_TARGET,
    EntryKind.RESTORED: MarkKind.RESTORED,
    EntryKind.REFUSED: MarkKind.REFUSED,
    EntryKind.FAILED: MarkKind.FAILED,
    EntryKind.NOT_DONE: MarkKind.FAILED,
    EntryKind.UNCLEAR: MarkKind.FAILED,
    EntryKind.STUCK: MarkKind.FAILED,
    EntryKind.LEFT: MarkKind.FAILED,
    EntryKind.CHANGED_BY_OTHERS: MarkKind.CHANGED_BY_OTHERS,
    EntryKind.STALL: MarkKind.STALL,
    EntryKind.HELD: MarkKind.HELD,
    EntryKind.RELEASED: MarkKind.RELEASED,
}
_MARK_OF_ALERT: Final = {
    AlertKind.RECOVERED: MarkKind.RECOVERED,
    AlertKind.TELEMETRY_GAP: MarkKind.NO_DATA,
}
_ABOUT_LEVEL: Final = frozenset({AlertKind.DRAINING, AlertKind.EXHAUSTED})


def marks_of(entries: Sequence[LedgerEntry]) -> list[Mark]:
    """A mark for each thing that happened, oldest first; an alert about it is no mark of its own."""
    alerts = [(entry, Alert.from_document(entry.body)) for entry in entries if entry.kind is EntryKind.ALERT]
    told = {(entry.revision, alert.evidence.get("summary")) for entry, alert in alerts}
    told_levels = {
        (entry.revision, str(alert.level)) for entry, alert in alerts if alert.kind in _ABOUT_LEVEL
    }
    marks = [mark for entry in entries if (mark := _mark(entry, told, told_levels)) is not None]
    events = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    changes = {(e.revision, str(e.body.get("to"))) for e in entries if e.kind is EntryKind.LEVEL_CHANGED}
    marks += _alert_marks(alerts, events, changes)
    return sorted(marks, key=lambda mark: mark.at_s)


def _mark(entry: LedgerEntry, told: set[tuple[int, Any]], told_levels: set[tuple[int, str]]) -> Mark | None:
    body, at_s, revision = entry.body, entry.at_s, entry.revision
    summary = body.get("summary")
    is_told = summary is not None and (revision, summary) in told
    match entry.kind:
        case EntryKind.LEVEL_CHANGED if body.get("to") in _MARK_OF_LEVEL:
            to = Level(body["to"])
            is_told = (revision, str(to)) in told_levels
            return Mark(
                at_s=at_s, kind=_MARK_OF_LEVEL[to], says=f"{body.get('from')} -> {to}", is_told=is_told
            )
        case EntryKind.ACCEPTED:
            is_out = body.get("direction") == Direction.OUT
            kind = MarkKind.FLIPPED if is_out else MarkKind.FLIPPED_BACK
        case EntryKind.HELD:
            what = "everything is held" if entry.volume_id == EVERYTHING else "held"
            summary, kind = f"{what} by {body.get('by')}: {body.get('reason')}", MarkKind.HELD
        case EntryKind.RELEASED:
            what = "everything is released" if entry.volume_id == EVERYTHING else "released"
            if "gave_up" in body:
                what = "its unreadable state is given up"
            summary, kind = f"{what} by {body.get('by')}", MarkKind.RELEASED
        case known if known in _MARK_OF_ENTRY:
            kind = _MARK_OF_ENTRY[known]
        case _:
            return None
    return Mark(at_s=at_s, kind=kind, says=str(summary or entry.kind).replace("_", " "), is_told=is_told)


def _alert_marks(
    alerts: Iterable[tuple[LedgerEntry, Alert]], events: set[tuple[int, Any]], changes: set[tuple[int, str]]
) -> Iterator[Mark]:
    """The alerts that are the only trace of what they tell."""
    for entry, alert in alerts:
        if alert.kind in _ABOUT_LEVEL:
            if (entry.revision, str(alert.level)) in changes:
                continue
            kind, says = _MARK_OF_LEVEL.get(alert.level, MarkKind.OTHER_ALERT), f"still {alert.level}"
        elif (summary := alert.evidence.get("summary")) is not None:
            if (entry.revision, summary) in events:
                continue
            kind, says = MarkKind.OTHER_ALERT, str(summary)
        else:
            kind = _MARK_OF_ALERT.get(alert.kind, MarkKind.OTHER_ALERT)
            says = str(kind).replace("_", " ") if kind is not MarkKind.OTHER_ALERT else str(alert.kind)
        yield Mark(at_s=entry.at_s, kind=kind, says=says, is_told=True)
