"""What was refused to a volume, and what happened last, according to the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.text import format_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFlip:
    """A flip that a guard refused."""

    at_s: int
    guard: str
    reason: str


def refused_flips(entries: Iterable[LedgerEntry]) -> list[RefusedFlip]:
    """The refusals that had an alert, oldest first."""
    return [
        RefusedFlip(at_s=entry.at_s, guard=entry.body["guard"], reason=entry.body["reason"])
        for entry in entries
        if entry.kind is EntryKind.REFUSED
    ]


def describe_last_event(entries: Sequence[LedgerEntry]) -> str:
    """What happened last, with its time, in a few words; empty if nothing did."""
    for entry in reversed(entries):
        if text := _describe_entry(entry):
            return f"{format_clock(entry.at_s)} {text}"
    return ""


def _describe_entry(entry: LedgerEntry) -> str | None:
    body = entry.body
    match entry.kind:
        case EntryKind.ACCEPTED:
            return f"being modified to {body['to']['volume_type']}"
        case EntryKind.REFUSED:
            return f"refused: {body['guard']}"
        case EntryKind.LEVEL_CHANGED if body["to"] in _ALERTING:
            return f"{body['to']}, no alert"
        case EntryKind.ALERT if not is_only_about_type(body):
            template = _ALERT_TEXT.get(body["kind"])
            return template and template.format(level=body["level"])
    return _ENTRY_TEXT.get(entry.kind)


def is_only_about_type(alert: Mapping[str, Any]) -> bool:
    """Whether it says no more than that the volume is not gp2: what was done says that better."""
    return bool(alert["reading"].get("unknown_reason") == UnknownReason.NOT_BURSTABLE_TYPE)


_ALERTING: Final = frozenset(level for level in Level if level.is_alerting)
_ALERT_TEXT: Final = {
    AlertKind.DRAINING: "alert: {level}",
    AlertKind.EXHAUSTED: "alert: {level}",
    AlertKind.RECOVERED: "alert: recovered",
    AlertKind.TELEMETRY_GAP: "alert: no data",
}
_ENTRY_TEXT: Final = {
    EntryKind.REACHED: "on its target",
    EntryKind.STAYED: "stays on its target",
    EntryKind.RESTORED: "gp2 again, verified",
}
