"""The summary of a pass next to its table: totals, cost, and failures."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from burstctl.cli.output import list_first, print_failures, print_first_lines, print_info
from burstctl.render.datapoint_spacing import describe_spacing
from burstctl.render.guard_override import runbook_hints
from burstctl.render.table import CHANGING_LABEL, level_label
from burstctl.render.volume import format_id_and_name
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.text import (
    format_clock,
    format_count,
    format_duration,
    format_instant,
    format_until,
    format_usd,
)
from burstwatch.core.watch.api_cost import USD_PER_METRIC, usd_per_month_now
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport

_OUTCOME_LABELS: Final = {
    OutcomeStatus.FLIPPED: "flipped",
    OutcomeStatus.FLIPPED_BACK: "flipped back",
    OutcomeStatus.REFUSED: "refused",
    OutcomeStatus.FAILED: "failed",
    OutcomeStatus.IN_FLIGHT: "in flight",
}
_LEVELS_BY_URGENCY: Final = (
    Level.EXHAUSTED, Level.CRITICAL, Level.WARNING, CHANGING_LABEL, Level.WATCH, Level.OK, Level.UNKNOWN,
)  # fmt: skip


def print_summary(report: PassReport) -> None:
    """Print the summary of a pass: what a person should know and the table does not show."""
    if report.decisions and sys.stdout.isatty() and sys.stderr.isatty():
        print_info("")
    if report.decisions or not report.failures:
        print_info(_format_totals(report))
        print_info(_format_effort(report))
    print_holds(report.holds, report.now_s)
    if report.ignored:
        print_info(f"ignored by tag: {list_first(sorted(report.ignored))}")
    _print_outcomes(report)
    print_first_lines(
        "tag",
        (
            _volume_line(decision, fault)
            for decision in report.decisions
            for fault in decision.volume_settings.faults
        ),
    )
    print_first_lines(
        "fault",
        (
            _volume_line(decision, _unknown_reason(decision))
            for decision in report.decisions
            if decision.assessment.is_fault
        ),
    )
    print_failures(report.failures, missing=report.missing, region=report.region)


def print_pass_line(report: PassReport, tick_at_s: int) -> None:
    """Print the result of a pass in one line."""
    levels = format_level_counts(report.decisions) or "nothing was due"
    age_s = report.newest_datapoint_age_s
    newest = (
        ""
        if age_s is None
        else f"; newest datapoint {format_duration(age_s)} old{_format_oldest_datapoint(report)}"
    )
    print_info(f"{format_clock(tick_at_s)} UTC: {levels}{_format_outcome_counts(report)}{newest}")
    print_holds(report.holds, report.now_s)
    _print_outcomes(report)


def print_holds(holds: Iterable[Hold], now_s: float, volume_ids: Collection[str] | None = None) -> None:
    """Say which holds are in force: on everything, and on these volumes (None: on any)."""
    matching = [
        candidate
        for candidate in holds
        if candidate.volume_id is None or volume_ids is None or candidate.volume_id in volume_ids
    ]
    print_first_lines("hold", (describe_hold(hold, now_s) for hold in matching))


def describe_hold(hold: Hold, now_s: float) -> str:
    """Who holds what, for how long and why."""
    subject = "everything" if hold.volume_id is None else hold.volume_id
    return f"{subject} is kept as it is {format_until(hold.until_s, now_s)}, by {hold.by}: {hold.reason}"


def _format_outcome_counts(report: PassReport) -> str:
    counts = {label: report.count(status) for status, label in _OUTCOME_LABELS.items()}
    listed = ", ".join(f"{count:,} {label}" for label, count in counts.items() if count)
    return f"; {listed}" if listed else ""


def _print_outcomes(report: PassReport) -> None:
    """Print what was modified or would be, what is in progress, and what was refused and why."""
    for status, label in _OUTCOME_LABELS.items():
        if status is OutcomeStatus.FAILED:
            continue
        outcomes = ((decision, report.outcome_of(decision)) for decision in report.decisions)
        print_first_lines(
            label,
            (
                _volume_line(decision, outcome.reason or decision.reason)
                for decision, outcome in outcomes
                if outcome.status is status
            ),
        )
    proposed = [
        decision
        for decision in report.decisions
        if decision.trigger and report.outcome_of(decision).status is OutcomeStatus.PROPOSED
    ]
    print_first_lines(
        "left undone without --act", (_volume_line(decision, decision.reason) for decision in proposed)
    )


def print_runbook_hints(report: PassReport, runbooks_url: str) -> None:
    """Say where each guard that refused something in this pass is explained."""
    outcomes = (report.outcome_of(decision) for decision in report.decisions)
    for hint in runbook_hints(
        {outcome.refusal.guard for outcome in outcomes if outcome.refusal}, runbooks_url
    ):
        print_info(hint)


def format_level_counts(decisions: Iterable[Decision]) -> str:
    """``1 critical, 3 ok``, most urgent first."""
    counts = Counter(map(level_label, decisions))
    return ", ".join(f"{counts[level]:,} {level}" for level in _LEVELS_BY_URGENCY if counts[level])


def _format_totals(report: PassReport) -> str:
    count = len(report.decisions)
    volumes = f"{format_count(count, 'volume')} in {report.region}"
    levels = f": {format_level_counts(report.decisions)}" if count else ""
    return f"{volumes} at {format_instant(report.now_s)}{levels}{_format_outcome_counts(report)}"


def _format_oldest_datapoint(report: PassReport) -> str:
    """The oldest datapoint that matters, if it is older than the policy allows for; else empty."""
    if report.oldest_datapoint is None:
        return ""
    age_s, volume_id = report.oldest_datapoint
    return f", oldest {format_duration(age_s)} ({volume_id})"


def _format_effort(report: PassReport) -> str:
    age_s = report.newest_datapoint_age_s
    datapoint_age = "no datapoint" if age_s is None else f"newest datapoint {format_duration(age_s)} old"
    datapoint_age += _format_oldest_datapoint(report)
    spacing = describe_spacing(report.datapoint_spacing_s)
    datapoint_age = f"{datapoint_age}; {spacing}" if spacing else datapoint_age
    call_count, metric_count = sum(report.api_calls.values()), report.metrics_requested
    idle_usd, now_usd = report.usd_per_month_idle, usd_per_month_now(report.decisions)
    return (
        f"{datapoint_age}; {format_count(call_count, 'call')} to AWS, {metric_count:,}"
        f" metrics read for {format_usd(metric_count * USD_PER_METRIC, decimals=5)}; watching costs"
        f" {format_usd(idle_usd)} a month"
        f" while all are calm, {format_usd(now_usd)} as they are now"
    )


def _unknown_reason(decision: Decision) -> str:
    return decision.assessment.unknown_because or str(decision.assessment.unknown_reason)


def _volume_line(decision: Decision, text: str) -> str:
    return f"{format_id_and_name(decision.assessment.volume)}: {text}"
