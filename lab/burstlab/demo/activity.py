"""What was done to a volume and what was refused, as the ledger tells it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ledger.flip_state import Direction, configuration_from
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from burstwatch.core.text import format_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A volume's way to a target and, where it came to that, back.

    Instants are epoch seconds, each None until it is there.
    """

    target: Configuration
    asked_at_s: int
    because: str
    stays: bool
    reached_at_s: int | None = None
    back_at_s: int | None = None
    restored_at_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A wanted flip that a guard stopped."""

    at_s: int
    guard: str
    reason: str


def trips_of(entries: Iterable[LedgerEntry]) -> list[Trip]:
    """The flips of a volume that AWS took, oldest first."""
    trips: list[Trip] = []
    for entry in entries:
        match entry.kind:
            case EntryKind.ACCEPTED if entry.body["direction"] == Direction.OUT:
                trips.append(_begun(entry))
            case EntryKind.ACCEPTED:
                trips[-1] = replace(trips[-1], back_at_s=entry.at_s)
            case EntryKind.REACHED:
                trips[-1] = replace(trips[-1], reached_at_s=entry.at_s)
            case EntryKind.RESTORED:
                trips[-1] = replace(trips[-1], restored_at_s=entry.at_s)
    return trips


def _begun(accepted: LedgerEntry) -> Trip:
    body = accepted.body
    return Trip(
        target=configuration_from(body["to"]),
        asked_at_s=accepted.at_s,
        because=body["because"],
        stays=body["stays"],
    )


def refusals_of(entries: Iterable[LedgerEntry]) -> list[Refused]:
    """The refusals that people were told of, oldest first."""
    return [
        Refused(at_s=entry.at_s, guard=entry.body["guard"], reason=entry.body["reason"])
        for entry in entries
        if entry.kind is EntryKind.REFUSED
    ]


def last_word(entries: Sequence[LedgerEntry]) -> str:
    """What happened last, with its time, in a few words; empty where nothing did."""
    for entry in reversed(entries):
        if words := _few_words(entry):
            return f"{format_clock(entry.at_s)} {words}"
    return ""


def _few_words(entry: LedgerEntry) -> str | None:
    body = entry.body
    match entry.kind:
        case EntryKind.ACCEPTED:
            return f"on its way to {body['to']['volume_type']}"
        case EntryKind.REFUSED:
            return f"refused: {body['guard']}"
        case EntryKind.LEVEL_CHANGED if body["to"] in _ALERTING:
            return f"{body['to']}, nobody told"
        case EntryKind.ALERT if not is_about_type(body):
            words = _ALERT_WORDS.get(body["kind"])
            return words and words.format(level=body["level"])
    return _WORDS.get(entry.kind)


def is_about_type(alert: Mapping[str, Any]) -> bool:
    """Whether it says no more than that the volume is not gp2: what was done says that better."""
    return bool(alert["reading"].get("unknown_reason") == UnknownReason.NOT_BURSTABLE_TYPE)


_ALERTING: Final = frozenset(level for level in Level if level.is_alerting)
_ALERT_WORDS: Final = {
    AlertKind.DRAINING: "alert: {level}",
    AlertKind.EXHAUSTED: "alert: {level}",
    AlertKind.RECOVERED: "alert: recovered",
    AlertKind.TELEMETRY_GAP: "alert: no data",
}
_WORDS: Final = {
    EntryKind.REACHED: "on its target",
    EntryKind.STAYED: "stays on its target",
    EntryKind.RESTORED: "gp2 again, verified",
}
