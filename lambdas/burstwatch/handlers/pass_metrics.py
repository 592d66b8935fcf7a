"""The log lines and metrics of a pass: a line for each volume of interest, and the counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.watch.decision import Action, Decision
from burstwatch.core.watch.pass_report import PassReport, sort_by_urgency
from burstwatch.engine.alert_delivery import deliver_all
from burstwatch.engine.services import Services
from burstwatch.wiring.observability import Field, Metric, Telemetry

_METRIC_BY_LEVEL: Final = {
    Level.OK: Metric.VOLUMES_OK,
    Level.WATCH: Metric.VOLUMES_WATCH,
    Level.WARNING: Metric.VOLUMES_WARNING,
    Level.CRITICAL: Metric.VOLUMES_CRITICAL,
    Level.EXHAUSTED: Metric.VOLUMES_EXHAUSTED,
    Level.UNKNOWN: Metric.VOLUMES_UNKNOWN,
}
_OTHER_METRIC_BY_LEVEL: Final = {
    Level.WARNING: Metric.BUCKETS_WARNING,
    Level.CRITICAL: Metric.BUCKETS_CRITICAL,
    Level.EXHAUSTED: Metric.BUCKETS_EXHAUSTED,
    Level.UNKNOWN: Metric.BUCKETS_UNKNOWN,
}
_OMITTED_IF_ZERO: Final = (Level.WATCH, Level.UNKNOWN)
"""Levels that the dashboard does not show: their metrics are sent only if not zero.

CloudWatch bills a custom metric for each hour in which it is sent.
"""

_METRIC_BY_STATUS: Final = {
    OutcomeStatus.FLIPPED: Metric.FLIPS,
    OutcomeStatus.FLIPPED_BACK: Metric.FLIPS_BACK,
    OutcomeStatus.REFUSED: Metric.FLIPS_REFUSED,
    OutcomeStatus.FAILED: Metric.FLIPS_FAILED,
}


class PassError(BurstwatchError):
    """An internal error about some volumes; the others were evaluated, and the invocation fails."""


def emit_pass_telemetry(report: PassReport, telemetry: Telemetry) -> dict[str, Any]:
    """Log a pass, send its metrics, and return its summary.

    Raises:
        PassError: because of an internal error, some volumes were not evaluated.
    """
    for decision in sort_by_urgency(report.decisions):
        if _should_log(decision, report):
            _log_volume(decision, report, telemetry)
    for failure in report.failures:
        telemetry.warn(failure)
    unread = Counter(decision.assessment.unknown_because for decision in report.unread)
    for reason, count in unread.items():
        telemetry.warn(f"{count} volume{'s' if count > 1 else ''} could not be read: {reason}")
    _emit_metrics(report, telemetry)
    if report.internal_errors:
        raise PassError("; ".join(report.internal_errors))
    return {
        "looked_at": len(report.decisions),
        "alerts_sent": report.sent,
        "outcomes": {str(status): count for status in OutcomeStatus if (count := report.count(status))},
        "failures": len(report.failures),
    }


def _should_log(decision: Decision, report: PassReport) -> bool:
    is_calm = decision.level is decision.previous_level and not decision.level.is_alerting
    is_quiet = decision.action is Action.NONE and decision.volume_id not in report.outcomes
    return not (is_calm and is_quiet)


def _log_volume(decision: Decision, report: PassReport, telemetry: Telemetry) -> None:
    outcome = report.outcome_of(decision)
    telemetry.info(
        "looked",
        {
            Field.VOLUME_ID: decision.volume_id,
            Field.LEVEL: str(decision.level),
            Field.DECISION: str(decision.action),
            Field.REASON: decision.reason,
            Field.ACTION_TAKEN: str(outcome.status),
            Field.ERROR_CODE: outcome.error_code,
        },
    )


def _emit_metrics(report: PassReport, telemetry: Telemetry) -> None:
    fleet = report.fleet
    if fleet is not None and not report.unreadable_count:
        telemetry.emit_metric(Metric.VOLUMES_WATCHED, fleet.watched)
        telemetry.emit_metric(Metric.VOLUMES_IN_FOCUS, fleet.in_focus or None)
        telemetry.emit_metric(Metric.VOLUMES_FLIPPED, fleet.flipped)
        telemetry.emit_metric(Metric.LOWEST_BURST_BALANCE, fleet.lowest_balance_pct)
        for level, metric in _METRIC_BY_LEVEL.items():
            count = fleet.by_level[level]
            is_left_out = (
                fleet.watched is None if level is Level.OK else level in _OMITTED_IF_ZERO and not count
            )
            telemetry.emit_metric(metric, None if is_left_out else count)
        other_counts = {
            metric: fleet.other_by_level.get(level, 0) for level, metric in _OTHER_METRIC_BY_LEVEL.items()
        }
        emit_counts(other_counts, telemetry)
    telemetry.emit_metric(Metric.VOLUMES_UNREAD, len(report.unread) + report.unreadable_count)
    telemetry.emit_metric(Metric.NEWEST_DATAPOINT_AGE, report.newest_datapoint_age_s)
    _emit_freshness(report, telemetry)
    telemetry.emit_metric(Metric.SOONEST_TIME_TO_EMPTY, _soonest_s(report.decisions))
    counts = {metric: report.count(status) for status, metric in _METRIC_BY_STATUS.items()}
    counts[Metric.ALERTS_SENT] = report.sent
    counts[Metric.ALERTS_NOT_DELIVERED] = report.undelivered
    counts[Metric.FLIPS_STUCK] = _count_stuck(report.decisions)
    emit_counts(counts, telemetry)


def _emit_freshness(report: PassReport, telemetry: Telemetry) -> None:
    """Send the age of datapoints if it exceeds what the policy assumes, and only then."""
    age_s, spacing_s = report.worst_datapoint_age_s or 0.0, report.datapoint_spacing_s or 0
    is_late = age_s > report.cadence.metric_lag.total_seconds()
    telemetry.emit_metric(Metric.WORST_DATAPOINT_AGE, age_s if is_late else None)
    telemetry.emit_metric(Metric.DATAPOINT_SPACING, spacing_s if spacing_s > PERIOD_S else None)


def emit_counts(counts: Mapping[Metric, int], telemetry: Telemetry) -> None:
    """Send the counts that are not zero: CloudWatch bills a metric for each hour in which it is sent."""
    for metric, count in counts.items():
        telemetry.emit_metric(metric, count or None)


def _soonest_s(decisions: Iterable[Decision]) -> float | None:
    forecasts = (decision.assessment.forecast for decision in decisions)
    return min((f.time_to_empty_s for f in forecasts if f and f.time_to_empty_s is not None), default=None)


def _count_stuck(decisions: Iterable[Decision]) -> int:
    """The number of modifications that take much longer than expected."""
    return sum(d.flip is not None and d.flip.is_under_way and d.flip.is_stuck_alerted for d in decisions)


def deliver_waiting(services: Services, now_s: float, telemetry: Telemetry) -> None:
    """Send the alerts that wait in the ledger; what cannot be sent waits for the next tick."""
    delivery = deliver_all(services, now_s)
    emit_counts({Metric.ALERTS_SENT: delivery.sent, Metric.ALERTS_NOT_DELIVERED: delivery.failed}, telemetry)
    for error in delivery.errors:
        telemetry.warn(error)
