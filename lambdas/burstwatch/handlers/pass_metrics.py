"""What a pass tells of itself: a line for each volume that something is to be said about, and the metrics."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.outcome import Done
from burstwatch.core.watch.decide import Action, Decision
from burstwatch.core.watch.report import Report, sort_by_urgency
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.services import Shell
from burstwatch.wiring.observability import Field, Instruments, Metric

_OF_LEVEL: Final = {
    Level.OK: Metric.VOLUMES_OK,
    Level.WATCH: Metric.VOLUMES_WATCH,
    Level.WARNING: Metric.VOLUMES_WARNING,
    Level.CRITICAL: Metric.VOLUMES_CRITICAL,
    Level.EXHAUSTED: Metric.VOLUMES_EXHAUSTED,
    Level.UNKNOWN: Metric.VOLUMES_UNKNOWN,
}
_IF_ANY: Final = (Level.WATCH, Level.UNKNOWN)
"""What the dashboard does not show is told only if there is any, as each metric is billed by the hour."""

_OF_OUTCOME: Final = {
    Done.FLIPPED: Metric.FLIPS,
    Done.FLIPPED_BACK: Metric.FLIPS_BACK,
    Done.REFUSED: Metric.FLIPS_REFUSED,
    Done.FAILED: Metric.FLIPS_FAILED,
}


class PassError(BurstwatchError):
    """A mistake of ours about some volumes; the others were looked at, and the invocation fails."""


def tell(report: Report, say: Instruments) -> dict[str, Any]:
    """Tell of a pass, and return its summary.

    Raises:
        PassError: a mistake of ours kept volumes from being judged.
    """
    for decision in sort_by_urgency(report.decisions):
        if _is_worth_a_line(decision, report):
            _tell_volume(decision, report, say)
    for failure in report.failures:
        say.warn(failure)
    unread = Counter(decision.assessment.unknown_because for decision in report.unread)
    for because, count in unread.items():
        say.warn(f"{count} volume{'s' if count > 1 else ''} could not be read: {because}")
    _measure(report, say)
    if report.bugs:
        raise PassError("; ".join(report.bugs))
    return {
        "looked_at": len(report.decisions),
        "alerts_sent": report.sent,
        "outcomes": {str(done): count for done in Done if (count := report.count(done))},
        "failures": len(report.failures),
    }


def _is_worth_a_line(decision: Decision, report: Report) -> bool:
    is_calm = decision.level is decision.previous_level and not decision.level.is_alerting
    is_quiet = decision.action is Action.NONE and decision.volume_id not in report.outcomes
    return not (is_calm and is_quiet)


def _tell_volume(decision: Decision, report: Report, say: Instruments) -> None:
    outcome = report.outcome_of(decision)
    say.info(
        "looked",
        {
            Field.VOLUME_ID: decision.volume_id,
            Field.LEVEL: str(decision.level),
            Field.DECISION: str(decision.action),
            Field.REASON: decision.reason,
            Field.ACTION_TAKEN: str(outcome.done),
            Field.ERROR_CODE: outcome.error_code,
        },
    )


def _measure(report: Report, say: Instruments) -> None:
    fleet = report.fleet
    if fleet is not None and not report.undescribed:
        say.measure(Metric.VOLUMES_WATCHED, fleet.watched)
        say.measure(Metric.VOLUMES_IN_FOCUS, fleet.in_focus or None)
        say.measure(Metric.VOLUMES_FLIPPED, fleet.flipped)
        say.measure(Metric.LOWEST_BURST_BALANCE, fleet.lowest_balance_pct)
        for level, metric in _OF_LEVEL.items():
            count = fleet.by_level[level]
            is_left_out = fleet.watched is None if level is Level.OK else level in _IF_ANY and not count
            say.measure(metric, None if is_left_out else count)
    say.measure(Metric.VOLUMES_UNREAD, len(report.unread) + report.undescribed)
    say.measure(Metric.NEWEST_DATAPOINT_AGE, report.newest_datapoint_age_s)
    _measure_freshness(report, say)
    say.measure(Metric.SOONEST_TIME_TO_EMPTY, _soonest_s(report.decisions))
    counts = {metric: report.count(done) for done, metric in _OF_OUTCOME.items()}
    counts[Metric.ALERTS_SENT] = report.sent
    counts[Metric.ALERTS_NOT_DELIVERED] = report.undelivered
    counts[Metric.FLIPS_STUCK] = _stuck(report.decisions)
    count_up(counts, say)


def _measure_freshness(report: Report, say: Instruments) -> None:
    """What is worse than the policy counts on, and only then: CloudWatch bills the hours it is told in."""
    age_s, spacing_s = report.worst_datapoint_age_s or 0.0, report.datapoint_spacing_s or 0
    is_late = age_s > report.cadence.metric_lag.total_seconds()
    say.measure(Metric.WORST_DATAPOINT_AGE, age_s if is_late else None)
    say.measure(Metric.DATAPOINT_SPACING, spacing_s if spacing_s > PERIOD_S else None)


def count_up(counts: Mapping[Metric, int], say: Instruments) -> None:
    """Tell what there was any of: CloudWatch bills a metric for the hours it is told in."""
    for metric, count in counts.items():
        say.measure(metric, count or None)


def _soonest_s(decisions: Iterable[Decision]) -> float | None:
    forecasts = (decision.assessment.forecast for decision in decisions)
    return min((f.time_to_empty_s for f in forecasts if f and f.time_to_empty_s is not None), default=None)


def _stuck(decisions: Iterable[Decision]) -> int:
    """How many modifications take far longer than expected."""
    return sum(d.flip is not None and d.flip.is_under_way and d.flip.stuck_told for d in decisions)


def deliver_waiting(shell: Shell, now_s: float, say: Instruments) -> None:
    """What the ledger has for people goes out now; what does not, goes with the next tick."""
    delivery = deliver(
        shell.ledger,
        shell.channels,
        digest_above=shell.policy.alerts.digest_above,
        place=shell.place,
        runbooks_url=shell.policy.alerts.runbooks_url,
        now_s=now_s,
    )
    count_up({Metric.ALERTS_SENT: delivery.sent, Metric.ALERTS_NOT_DELIVERED: delivery.failed}, say)
    for error in delivery.errors:
        say.warn(error)
