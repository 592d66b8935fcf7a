"""What an experiment found, to be shared: a dated page, and the same as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from burstctl.experiment.credit_bounds import EARN_ERROR, NOISE_PCT, SPEND_ERROR
from burstctl.experiment.credit_reset import UNCLEAR, Fate, Journey, Verdict
from burstctl.experiment.journal import Journal, Trip, write_whole
from burstctl.render.plan_json import instant_or_none
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.ledger.flip_state import configuration_document
from burstwatch.core.text import format_duration, format_instant

SCHEMA: Final = "burstwatch.experiment/v1"
_MEANINGS: Final = {
    Fate.KEPT: "It came back with the balance it left with.",
    Fate.REFILLED: "It came back with what it left with and what its baseline earned while it was away.",
    Fate.RESET: "It came back with a full bucket.",
    Fate.EMPTIED: "It came back with an empty bucket.",
}
_NO_ANSWER: Final = "The datapoints do not tell which of the four answers is true."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An experiment as it stands, with what its datapoints say where it has come home."""

    journal: Journal
    now_s: float
    journey: Journey | None = None
    verdict: Verdict | None = None

    @property
    def conclusion(self) -> str | None:
        return self.verdict.conclusion if self.verdict else None

    @property
    def volume(self) -> str:
        """The volume's id, or the word that stands for it."""
        return self.journal.volume_id if self.journal.tells_id else self.journal.label


def conclusion_words(finding: Finding) -> list[str]:
    """The answer in a sentence or two, and how it follows."""
    verdict = finding.verdict
    if verdict is None:
        return [f"There is no answer: {finding.journal.failed or 'it was ended before there was one'}."]
    meaning = _MEANINGS[verdict.fate] if verdict.fate else _NO_ANSWER
    return [f"{verdict.conclusion.capitalize()}. {meaning}", *verdict.because]


def write_report(finding: Finding, path: str) -> None:
    """Write the page.

    Raises:
        JournalError: it cannot be written.
    """
    write_whole(Path(path), to_page(finding))


def to_page(finding: Finding) -> str:
    """The report as Markdown; there is no account, no name and no tag in it."""
    journal = finding.journal
    target = journal.target
    day = format_instant(finding.now_s)[:10]
    lines = [
        f"# The burst balance of a gp2 volume after {target.volume_type}, measured {day}",
        "",
        *_paragraphs(conclusion_words(finding)),
        *_headed("Where and what", _environment(finding)),
        *_headed("What AWS was asked for", _modifications(journal)),
    ]
    if finding.verdict is not None and finding.verdict.bands is not None:
        lines += _headed("What each answer allowed", _bands(finding.verdict))
    if finding.journey is not None:
        lines += _headed("Datapoints", _datapoints(finding.journey))
    lines += _headed("How it was told", _METHOD)
    lines += _headed("To share this", _SHARING)
    return "\n".join(lines).rstrip() + "\n"


def to_document(finding: Finding, *, ledger: str) -> dict[str, Any]:
    """The same as JSON; absent values are null, keys never disappear."""
    journal, verdict, journey = finding.journal, finding.verdict, finding.journey
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(finding.now_s),
        "burstctl": version("burstwatch"),
        "region": journal.region,
        "ledger": ledger,
        "volume": finding.volume,
        "size_gib": journal.size_gib,
        "baseline_iops": baseline_iops(journal.size_gib),
        "original": configuration_document(journal.original),
        "target": configuration_document(journal.target),
        "stage": str(journal.stage),
        "begun_at": format_instant(journal.begun_s),
        "away_s": journal.away_s if journal.stay_s is None else journal.stay_s,
        "modifications": {name: _trip_document(trip) for name, trip in _trips(journal)},
        "abandoned": journal.is_abandoned,
        "failed": journal.failed,
        "conclusion": finding.conclusion,
        "because": list(verdict.because) if verdict else [],
        "fits": [str(fate) for fate in verdict.fits] if verdict else [],
        "allowed_pct": {str(fate): list(band) for fate, band in ((verdict and verdict.bands) or {}).items()},
        "datapoints": _rows(journey) if journey else [],
        "report": journal.report if finding.conclusion else None,
    }


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    first, *rest = sentences
    return [f"**{first}**", "", *(f"- {sentence}" for sentence in rest)]


def _headed(title: str, lines: Iterable[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _environment(finding: Finding) -> list[str]:
    journal, journey = finding.journal, finding.journey
    baseline = baseline_iops(journal.size_gib)
    rows = [
        ("Region", journal.region),
        ("Volume", finding.volume if journal.tells_id else f"{finding.volume}, a word in place of its id"),
        ("Size", f"{journal.size_gib:,} GiB"),
        ("Was", f"{journal.original}, baseline {baseline:,} IOPS"),
        ("Became", str(journal.target)),
        ("Begun", format_instant(journal.begun_s)),
        ("Datapoints every", f"{journey.period_s} s" if journey and len(journey.balance) > 1 else "unknown"),
        ("burstctl", version("burstwatch")),
    ]
    return ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


def _trips(journal: Journal) -> list[tuple[str, Trip | None]]:
    return [("out", journal.out), ("back", journal.back)]


def _modifications(journal: Journal) -> list[str]:
    ways = {"out": (journal.original, journal.target), "back": (journal.target, journal.original)}
    rows = [
        f"| {ways[name][0]} | {ways[name][1]} | {format_instant(trip.started_s)} |"
        f" {format_instant(trip.ended_s)} | {format_duration(trip.ended_s - trip.started_s)} |"
        for name, trip in _trips(journal)
        if trip is not None
    ]
    return ["| From | To | Started | Completed | Took |", "| --- | --- | --- | --- | --- |", *rows]


def _bands(verdict: Verdict) -> list[str]:
    assert verdict.bands is not None
    assert verdict.first is not None
    rows = [
        f"| {fate} | {band.low:.1f} | {band.high:.1f} | {'yes' if fate in verdict.fits else 'no'} |"
        for fate, band in verdict.bands.items()
    ]
    return [
        f"For the datapoint of {format_instant(verdict.first.start_s)}, {verdict.first.value:.2f} %:",
        "",
        "| Answer | Least % | Most % | Fits all datapoints |",
        "| --- | ---: | ---: | --- |",
        *rows,
    ]


def _datapoints(journey: Journey) -> list[str]:
    """Every one from half an hour before it left on."""
    rows = [
        f"| {row['at']} | {row['when']} | {_number(row['burst_balance_pct'])} | {_number(row['iops'])} |"
        for row in _rows(journey)
    ]
    return [
        "BurstBalance is the minimum of each period; operations are reads and writes, a second.",
        "",
        "| Period from | Was | BurstBalance % | IOPS |",
        "| --- | --- | ---: | ---: |",
        *rows,
    ]


def _rows(journey: Journey) -> list[dict[str, Any]]:
    balance, iops = _by_start(journey.balance), _by_start(journey.operations)
    period_s = journey.period_s
    return [
        {
            "at": format_instant(start_s),
            "when": _when(journey, start_s),
            "burst_balance_pct": balance.get(start_s),
            "iops": None if start_s not in iops else round(iops[start_s] / period_s, 3),
        }
        for start_s in sorted(balance.keys() | iops.keys())
    ]


def _when(journey: Journey, start_s: int) -> str:
    """Where on its way it was when a period began."""
    moments = (
        (journey.home_s, "gp2 again"),
        (journey.turned_s, "on its way back"),
        (journey.there_s, "away"),
        (journey.left_s, "on its way out"),
    )
    return next((word for at_s, word in moments if at_s is not None and start_s >= at_s), "gp2")


def _by_start(series: Series) -> dict[int, float]:
    return dict(zip(series.starts_s, series.values, strict=True))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _trip_document(trip: Trip | None) -> dict[str, Any]:
    return {
        "started_at": instant_or_none(trip.started_s if trip else None),
        "completed_at": instant_or_none(trip.ended_s if trip else None),
    }


_METHOD: Final = (
    "Each answer was followed as the least and the most that the bucket could hold. Before it left and after",
    "it was home it earned its baseline, and each operation took a credit; on its way nobody knows for how",
    "long it still did, or did again. Allowed for were, of each datapoint, any moment of its period, and",
    "",
    f"- {NOISE_PCT:g} % of the bucket for rounding,",
    f"- {EARN_ERROR * 100:g} % of what is earned,",
    f"- {SPEND_ERROR * 100:g} % of what operations take.",
    "",
    "An answer stands if it alone fits every datapoint and what it allows meets nothing that another allows;",
    f"else the conclusion is `{UNCLEAR}`.",
)
_SHARING: Final = (
    "One measurement is one volume in one region on one day; others make it knowledge. Open an issue in the",
    "repository of burstwatch with the title `credit-reset: CONCLUSION, REGION, SIZE GiB, DATE` and paste",
    "this page. Look through it first: it holds no account id, no name and no tag.",
)
