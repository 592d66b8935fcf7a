"""The history of one volume or instance as text, from the ledger's entries alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, text_columns, wrap_hanging
from burstctl.context.resources import ledger_keys_of
from burstctl.render.flip_text import format_extra_cost
from burstwatch.core.alerts.alert import Alert, format_title
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.text import format_clock, format_duration, format_until, sanitise

_INDENT: Final = "  "
# layout: the width of "HH:MM:SS ", and the beginning of a state that could not be read
_CLOCK_COLUMNS: Final = 9
_MAX_STATE_EXCERPT: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened: a line, and sentences that go with it."""

    at_s: int
    line: str
    details: Sequence[str] = ()


def read_history(ledger: Ledger, resource_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
    """The ledger's entries on a resource and its buckets, oldest first.

    Holds on everything that applied to a volume are among them. They do not concern an instance, which is
    never modified.
    """
    keys = ledger_keys_of(resource_id)
    subjects = list(dict.fromkeys([resource_id, *keys]))
    entries = [entry for subject in subjects for entry in ledger.entries(subject, since_s=since_s)]
    if keys == [resource_id] and entries:
        first_at_s = entries[0].at_s
        entries += [
            entry
            for entry in ledger.entries(FLEET, since_s=since_s)
            if max(entry.at_s, entry.body.get("until_s", 0)) >= first_at_s
        ]
    return sorted(entries, key=lambda entry: entry.at_s)


def render_entries(entries: Sequence[LedgerEntry]) -> list[HistoryEntry]:
    """The entries in words; an alert and its deliveries are one passage."""
    deliveries: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        if entry.kind is EntryKind.DELIVERED:
            deliveries.setdefault(str(entry.body.get("alert_id")), []).append(entry)
    summaries = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    rendered: list[HistoryEntry] = []
    last_flip: LedgerEntry | None = None
    for entry in entries:
        if entry.kind is EntryKind.DELIVERED:
            continue
        if entry.kind is EntryKind.ALERT:
            rendered.append(_render_alert(entry, deliveries, summaries))
            continue
        rendered.append(_render_entry(entry, _flip_cost(entry, last_flip)))
        if entry.kind is EntryKind.ACCEPTED:
            last_flip = entry if entry.body.get("direction") == Direction.FLIP else None
    return rendered


def layout_history(entries: Iterable[HistoryEntry]) -> str:
    """Days as headings, a line to a passage, its sentences below."""
    lines: list[str] = []
    for day, day_entries in groupby(entries, key=lambda entry: _format_day(entry.at_s)):
        lines.append(f"{day} UTC")
        for entry in day_entries:
            lines += _layout_entry(entry)
    return "\n".join(lines)


def _layout_entry(history_entry: HistoryEntry) -> list[str]:
    width = text_columns() - _CLOCK_COLUMNS
    first, *rest = wrap_hanging(sanitise(history_entry.line, MAX_SENTENCE_LENGTH), width)
    lines = [f"{_INDENT}{format_clock(history_entry.at_s)}  {first}"]
    rest += [
        f"{_INDENT}{line}"
        for detail in history_entry.details
        for line in wrap_hanging(sanitise(detail, MAX_SENTENCE_LENGTH), width - len(_INDENT))
    ]
    return lines + [f"{'':{_CLOCK_COLUMNS}}{line}" for line in rest]


def _format_day(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def _render_entry(entry: LedgerEntry, cost: Sequence[str]) -> HistoryEntry:
    body = entry.body
    match entry.kind:
        case EntryKind.LEVEL_CHANGED:
            line = f"{_bucket_label(entry)}{_describe_level_change(body)}"
        case EntryKind.HELD:
            subject = "everything" if entry.volume_id == FLEET else "it"
            until = format_until(body.get("until_s", entry.at_s), entry.at_s)
            line = f"{subject} is put on hold {until} by {body.get('by')}: {body.get('reason')}"
        case EntryKind.RELEASED:
            line = _describe_release(entry)
        case _:
            line = str(body.get("summary", entry.kind)).replace("_", " ")
    return HistoryEntry(at_s=entry.at_s, line=line, details=[*body.get("details", ()), *cost])


def _bucket_label(entry: LedgerEntry) -> str:
    """``instance-io: ``; empty for a volume, which has one bucket."""
    _, _, bucket_name = entry.volume_id.partition("#")
    return f"{bucket_name}: " if bucket_name else ""


def _describe_level_change(body: Mapping[str, Any]) -> str:
    before, after = str(body.get("from")), str(body.get("to"))
    if after not in frozenset(Level):
        return f"forgotten: {after}; it was {before}"
    return f"level {before} -> {after}"


def _describe_release(entry: LedgerEntry) -> str:
    by = entry.body.get("by")
    if "contested_at_s" in entry.body:
        return f"released by {by}: managed again, although someone else had changed it"
    if "gave_up" in entry.body:
        excerpt = sanitise(str(entry.body["gave_up"]), _MAX_STATE_EXCERPT) or "empty"
        return f"{by} discarded its state in the ledger, which could not be read; it began with: {excerpt}"
    subject = "the hold on everything" if entry.volume_id == FLEET else "its hold"
    return f"{subject} is lifted by {by}; it was: {entry.body.get('reason')}"


def _render_alert(
    entry: LedgerEntry, deliveries: Mapping[str, Sequence[LedgerEntry]], summaries: set[tuple[int, Any]]
) -> HistoryEntry:
    alert = Alert.from_document(entry.body)
    summary = alert.evidence.get("summary")
    is_summarised = (entry.revision, summary) in summaries
    line = f"alert {alert.kind}" if is_summarised else f"alert {alert.kind}: {format_title(alert)}"
    details = [] if is_summarised or summary is None else list(alert.evidence.get("details", ()))
    alert_deliveries = deliveries.get(alert.alert_id, ())
    delivery_text = (
        ", ".join(_describe_delivery(entry, delivery) for delivery in alert_deliveries)
        or "not delivered so far"
    )
    return HistoryEntry(at_s=entry.at_s, line=line, details=[*details, delivery_text])


def _describe_delivery(alert: LedgerEntry, delivery: LedgerEntry) -> str:
    body = delivery.body
    text = f"delivered to {body.get('channel')}"
    if body.get("digest_id"):
        text += " in a digest"
    if delivery.at_s - alert.at_s >= 60:  # noqa: PLR2004 - a minute
        text += f" after {format_duration(delivery.at_s - alert.at_s)}"
    if body.get("attempts", 1) > 1:
        text += f" at attempt {body['attempts']}"
    return text


def _flip_cost(entry: LedgerEntry, flip: LedgerEntry | None) -> list[str]:
    """The cost of a flip, reported when the return begins, because AWS stops billing for it then."""
    if entry.kind is not EntryKind.ACCEPTED or flip is None:
        return []
    if entry.body.get("direction") != Direction.FLIP_BACK or "usd_per_month_more" not in entry.body:
        return []
    duration_s = entry.at_s - flip.at_s
    cost = format_extra_cost(-entry.body["usd_per_month_more"], duration_s)
    return [f"It was away for {format_duration(duration_s)}, which cost {cost}."]
