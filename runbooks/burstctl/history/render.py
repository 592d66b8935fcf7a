"""The story of one volume, told from the ledger's lines alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from burstctl.cli.text_layout import COLUMNS, LONGEST_SENTENCE, hang
from burstctl.render.flip_text import cost_words
from burstwatch.core.alerts.alert import Alert, title
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import EntryKind, Ledger, LedgerEntry
from burstwatch.core.text import format_clock, format_duration, format_until, printable

EVERYTHING: Final = "*"
"""The subject under which the ledger files what concerns every volume."""

_INDENT: Final = "  "
_CLOCK_COLUMNS: Final = 9
_LONGEST_KEPT: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One thing that happened: a line, and sentences that go with it."""

    at_s: int
    line: str
    details: Sequence[str] = ()


def read_story(ledger: Ledger, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
    """What the ledger knows of a volume, with the holds on everything that met it; oldest first."""
    own = ledger.entries(volume_id, since_s=since_s)
    first_s = own[0].at_s if own else None
    shared = [
        entry
        for entry in ledger.entries(EVERYTHING, since_s=since_s)
        if first_s is not None and max(entry.at_s, entry.body.get("until_s", 0)) >= first_s
    ]
    return sorted([*own, *shared], key=lambda entry: entry.at_s)


def tell_story(entries: Sequence[LedgerEntry]) -> list[Passage]:
    """The entries in words; an alert and its deliveries are one passage."""
    deliveries: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        if entry.kind is EntryKind.DELIVERED:
            deliveries.setdefault(str(entry.body.get("alert_id")), []).append(entry)
    told = {(entry.revision, entry.body.get("summary")) for entry in entries if "summary" in entry.body}
    passages: list[Passage] = []
    flipped: LedgerEntry | None = None
    for entry in entries:
        if entry.kind is EntryKind.DELIVERED:
            continue
        if entry.kind is EntryKind.ALERT:
            passages.append(_alert(entry, deliveries, told))
            continue
        passages.append(_passage(entry, _stay_cost(entry, flipped)))
        if entry.kind is EntryKind.ACCEPTED:
            flipped = entry if entry.body.get("direction") == Direction.OUT else None
    return passages


def lay_out_story(passages: Iterable[Passage]) -> str:
    """Days as headings, a line to a passage, its sentences below."""
    lines: list[str] = []
    for day, together in groupby(passages, key=lambda passage: _day(passage.at_s)):
        lines.append(f"{day} UTC")
        for passage in together:
            lines += _laid_out(passage)
    return "\n".join(lines)


def _laid_out(passage: Passage) -> list[str]:
    width = COLUMNS - _CLOCK_COLUMNS
    first, *rest = hang(printable(passage.line, LONGEST_SENTENCE), width)
    lines = [f"{_INDENT}{format_clock(passage.at_s)}  {first}"]
    rest += [
        f"{_INDENT}{line}"
        for detail in passage.details
        for line in hang(printable(detail, LONGEST_SENTENCE), width - len(_INDENT))
    ]
    return lines + [f"{'':{_CLOCK_COLUMNS}}{line}" for line in rest]


def _day(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def _passage(entry: LedgerEntry, cost: Sequence[str]) -> Passage:
    body = entry.body
    match entry.kind:
        case EntryKind.LEVEL_CHANGED:
            line = _level_words(body)
        case EntryKind.HELD:
            what = "everything" if entry.volume_id == EVERYTHING else "it"
            until = format_until(body.get("until_s", entry.at_s), entry.at_s)
            line = f"{what} is put on hold {until} by {body.get('by')}: {body.get('reason')}"
        case EntryKind.RELEASED:
            line = _release_words(entry)
        case _:
            line = str(body.get("summary", entry.kind)).replace("_", " ")
    return Passage(at_s=entry.at_s, line=line, details=[*body.get("details", ()), *cost])


def _level_words(body: Mapping[str, Any]) -> str:
    before, after = str(body.get("from")), str(body.get("to"))
    if after not in frozenset(Level):
        return f"forgotten: {after}; it was {before}"
    return f"level {before} -> {after}"


def _release_words(entry: LedgerEntry) -> str:
    by = entry.body.get("by")
    if "contested_at_s" in entry.body:
        return f"released by {by}: in our care again, although somebody else had changed it"
    if "gave_up" in entry.body:
        kept = printable(str(entry.body["gave_up"]), _LONGEST_KEPT) or "empty"
        return f"{by} gave up its state in the ledger, which could not be read; it began with: {kept}"
    what = "the hold on everything" if entry.volume_id == EVERYTHING else "its hold"
    return f"{what} is lifted by {by}; it was: {entry.body.get('reason')}"


def _alert(
    entry: LedgerEntry, deliveries: Mapping[str, Sequence[LedgerEntry]], told: set[tuple[int, Any]]
) -> Passage:
    alert = Alert.from_document(entry.body)
    summary = alert.evidence.get("summary")
    is_told = (entry.revision, summary) in told
    line = f"alert {alert.kind}" if is_told else f"alert {alert.kind}: {title(alert)}"
    details = [] if is_told or summary is None else list(alert.evidence.get("details", ()))
    sent = deliveries.get(alert.alert_id, ())
    received = ", ".join(_delivery_words(entry, each) for each in sent) or "delivered to nobody so far"
    return Passage(at_s=entry.at_s, line=line, details=[*details, received])


def _delivery_words(alert: LedgerEntry, delivery: LedgerEntry) -> str:
    body = delivery.body
    said = f"delivered to {body.get('channel')}"
    if body.get("digest_id"):
        said += " in a digest"
    if delivery.at_s - alert.at_s >= 60:  # noqa: PLR2004 - a minute
        said += f" after {format_duration(delivery.at_s - alert.at_s)}"
    if body.get("attempts", 1) > 1:
        said += f" at attempt {body['attempts']}"
    return said


def _stay_cost(entry: LedgerEntry, flipped: LedgerEntry | None) -> list[str]:
    """What the stay away from the original cost, told when the return begins: then AWS bills it no more."""
    if entry.kind is not EntryKind.ACCEPTED or flipped is None:
        return []
    if entry.body.get("direction") != Direction.BACK or "usd_per_month_more" not in entry.body:
        return []
    span_s = entry.at_s - flipped.at_s
    more = cost_words(-entry.body["usd_per_month_more"], span_s)
    return [f"It was away for {format_duration(span_s)}, which cost {more}."]
