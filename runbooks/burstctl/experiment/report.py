"""What an experiment found, to be shared: a dated page, and the same as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from burstctl.cli.atomic_file import write_atomically
from burstctl.experiment.credit_bounds import EARNING_ERROR, NOISE_PCT, SPENDING_ERROR
from burstctl.experiment.credit_reset import UNCLEAR, Hypothesis, ResetVerdict, RoundTrip
from burstctl.experiment.journal import Journal, ModificationTimes
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.ledger.flip_state import configuration_to_document
from burstwatch.core.text import format_duration, format_instant, instant_or_none

if TYPE_CHECKING:
    from documents.experiment import DatapointDocument, ExperimentDocument, ModificationTimesDocument

SCHEMA: Final = "burstwatch.experiment/v1"
_MEANINGS: Final = {
    Hypothesis.KEPT: "It came back with the balance it left with.",
    Hypothesis.REFILLED: (
        "It came back with what it left with and what its baseline earned while it was away."
    ),
    Hypothesis.RESET: "It came back with a full bucket.",
    Hypothesis.EMPTIED: "It came back with an empty bucket.",
}
_NO_ANSWER: Final = "The datapoints do not show which of the four answers is true."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """The present state of an experiment, and its conclusion once the volume has returned."""

    journal: Journal
    now_s: float
    round_trip: RoundTrip | None = None
    verdict: ResetVerdict | None = None

    @property
    def conclusion(self) -> Hypothesis | Literal["unclear"] | None:
        return self.verdict.conclusion if self.verdict else None

    @property
    def volume_label(self) -> str:
        """The volume's ID, or the label that replaces it."""
        return self.journal.volume_id if self.journal.tells_id else self.journal.label


def describe_conclusion(result: ExperimentResult) -> list[str]:
    """The answer in a sentence or two, and how it follows."""
    verdict = result.verdict
    if verdict is None:
        return [f"There is no answer: {result.journal.failed or 'it was stopped before there was one'}."]
    meaning = _MEANINGS[verdict.hypothesis] if verdict.hypothesis else _NO_ANSWER
    return [f"{verdict.conclusion.capitalize()}. {meaning}", *verdict.reasoning]


def write_report(result: ExperimentResult, path: str) -> None:
    """Write the page.

    Raises:
        WriteError: it cannot be written.
    """
    write_atomically(Path(path), render_markdown(result).encode())


def render_markdown(result: ExperimentResult) -> str:
    """The report as Markdown; there is no account, no name and no tag in it."""
    journal = result.journal
    target = journal.target
    day = format_instant(result.now_s)[:10]
    lines = [
        f"# The burst balance of a gp2 volume after {target.volume_type}, measured {day}",
        "",
        *_paragraphs(describe_conclusion(result)),
        *_section("Environment", _environment(result)),
        *_section("Requests to AWS", _modification_table(journal)),
    ]
    if result.verdict is not None and result.verdict.predictions is not None:
        lines += _section("What each answer allowed", _prediction_table(result.verdict))
    if result.round_trip is not None:
        lines += _section("Datapoints", _datapoint_table(result.round_trip))
    lines += _section("Method", _METHOD)
    lines += _section("To share this", _SHARING)
    return "\n".join(lines).rstrip() + "\n"


def to_document(result: ExperimentResult, *, ledger: str) -> "ExperimentDocument":
    """The same as JSON; absent values are null, keys never disappear."""
    journal, verdict, round_trip = result.journal, result.verdict, result.round_trip
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(result.now_s),
        "burstctl": version("burstwatch"),
        "region": journal.region,
        "ledger": ledger,
        "volume": result.volume_label,
        "size_gib": journal.size_gib,
        "baseline_iops": baseline_iops(journal.size_gib),
        "original": configuration_to_document(journal.original),
        "target": configuration_to_document(journal.target),
        "stage": journal.stage,
        "begun_at": format_instant(journal.begun_s),
        "away_s": journal.away_s if journal.stay_s is None else journal.stay_s,
        "modifications": {name: _times_document(times) for name, times in _modification_times(journal)},
        "abandoned": journal.is_abandoned,
        "failed": journal.failed,
        "conclusion": result.conclusion,
        "because": list(verdict.reasoning) if verdict else [],
        "fits": list(verdict.consistent) if verdict else [],
        "allowed_pct": {
            hypothesis: (bounds.low, bounds.high)
            for hypothesis, bounds in ((verdict and verdict.predictions) or {}).items()
        },
        "datapoints": _datapoint_rows(round_trip) if round_trip else [],
        "report": journal.report if result.conclusion else None,
    }


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    first, *rest = sentences
    return [f"**{first}**", "", *(f"- {sentence}" for sentence in rest)]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _environment(result: ExperimentResult) -> list[str]:
    journal, round_trip = result.journal, result.round_trip
    baseline = baseline_iops(journal.size_gib)
    rows = [
        ("Region", journal.region),
        (
            "Volume",
            result.volume_label if journal.tells_id else f"{result.volume_label}, a word instead of its ID",
        ),
        ("Size", f"{journal.size_gib:,} GiB"),
        ("Was", f"{journal.original}, baseline {baseline:,} IOPS"),
        ("Became", str(journal.target)),
        ("Begun", format_instant(journal.begun_s)),
        (
            "Datapoints every",
            f"{round_trip.period_s} s" if round_trip and len(round_trip.balance) > 1 else "unknown",
        ),
        ("burstctl", version("burstwatch")),
    ]
    return ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


def _modification_times(journal: Journal) -> list[tuple[str, ModificationTimes | None]]:
    return [("out", journal.out), ("back", journal.back)]


def _modification_table(journal: Journal) -> list[str]:
    endpoints = {"out": (journal.original, journal.target), "back": (journal.target, journal.original)}
    rows = [
        f"| {endpoints[name][0]} | {endpoints[name][1]} | {format_instant(times.started_s)} |"
        f" {format_instant(times.ended_s)} | {format_duration(times.ended_s - times.started_s)} |"
        for name, times in _modification_times(journal)
        if times is not None
    ]
    return ["| From | To | Started | Completed | Took |", "| --- | --- | --- | --- | --- |", *rows]


def _prediction_table(verdict: ResetVerdict) -> list[str]:
    assert verdict.predictions is not None
    assert verdict.first_sample is not None
    rows = [
        f"| {hypothesis} | {bounds.low:.1f} | {bounds.high:.1f} |"
        f" {'yes' if hypothesis in verdict.consistent else 'no'} |"
        for hypothesis, bounds in verdict.predictions.items()
    ]
    return [
        (
            f"For the datapoint of {format_instant(verdict.first_sample.start_at_s)},"
            f" {verdict.first_sample.value:.2f} %:"
        ),
        "",
        "| Answer | Least % | Most % | Fits all datapoints |",
        "| --- | ---: | ---: | --- |",
        *rows,
    ]


def _datapoint_table(round_trip: RoundTrip) -> list[str]:
    """Every one from half an hour before it left on."""
    rows = [
        f"| {row['at']} | {row['when']} | {_format_number(row['burst_balance_pct'])} |"
        f" {_format_number(row['iops'])} |"
        for row in _datapoint_rows(round_trip)
    ]
    return [
        "BurstBalance is the minimum of each period; operations are reads and writes, a second.",
        "",
        "| Period from | Was | BurstBalance % | IOPS |",
        "| --- | --- | ---: | ---: |",
        *rows,
    ]


def _datapoint_rows(round_trip: RoundTrip) -> "list[DatapointDocument]":
    balance, iops = _by_start(round_trip.balance), _by_start(round_trip.operations)
    period_s = round_trip.period_s
    return [
        {
            "at": format_instant(start_s),
            "when": _phase_at(round_trip, start_s),
            "burst_balance_pct": balance.get(start_s),
            "iops": None if start_s not in iops else round(iops[start_s] / period_s, 3),
        }
        for start_s in sorted(balance.keys() | iops.keys())
    ]


def _phase_at(round_trip: RoundTrip, start_s: int) -> str:
    """The phase of the experiment in which a period began."""
    phase_starts = (
        (round_trip.returned_at_s, "gp2 again"),
        (round_trip.return_started_at_s, "on its way back"),
        (round_trip.arrived_at_s, "away"),
        (round_trip.left_at_s, "on its way out"),
    )
    return next((phase for at_s, phase in phase_starts if at_s is not None and start_s >= at_s), "gp2")


def _by_start(series: Series) -> dict[int, float]:
    return dict(zip(series.starts_at_s, series.values, strict=True))


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _times_document(times: ModificationTimes | None) -> "ModificationTimesDocument":
    return {
        "started_at": instant_or_none(times.started_s if times else None),
        "completed_at": instant_or_none(times.ended_s if times else None),
    }


_METHOD: Final = (
    "For each answer, the minimum and maximum credits of the bucket were computed. Before it left gp2,",
    "and after it returned, it earned its baseline, and each operation used a credit. When exactly this",
    "stopped and resumed is unknown. The tolerances are any moment of the period of a datapoint, and",
    "",
    f"- {NOISE_PCT:g} % of the bucket for rounding,",
    f"- {EARNING_ERROR * 100:g} % of what is earned,",
    f"- {SPENDING_ERROR * 100:g} % of what operations use.",
    "",
    "An answer is the conclusion if it alone fits every datapoint, and its range overlaps no other",
    f"range. Otherwise the conclusion is `{UNCLEAR}`.",
)
_SHARING: Final = (
    "This measures one volume in one region on one day; more measurements are needed. Open an issue in the",
    "repository of burstwatch with the title `credit-reset: CONCLUSION, REGION, SIZE GiB, DATE` and paste",
    "this page. Review it first: it contains no account ID, no name and no tag.",
)
