"""The state of the fleet after the passes so far, as values of metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from burstctl.render.volume import display_name_of
from burstctl.watch import exporter_metrics
from burstctl.watch.exporter_metrics import MAX_VOLUMES, Metric, MetricValue
from burstctl.watch.loop import FinishedPass, PassStatus
from burstwatch.core.alerts.alert import baseline_iops_or_none
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.resource import AdvisedResource, type_name_of
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.location import AwsLocation
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.fleet_summary import FleetSummary
from burstwatch.core.watch.pass_report import PassReport, is_urgent, urgency_of

_MIN_RETENTION_S: Final = 300  # as for a volume that is looked at every five minutes
_SLACK_S: Final = 60  # for a pass that is late
_COUNTED_STATUSES: Final = (
    OutcomeStatus.FLIPPED,
    OutcomeStatus.FLIPPED_BACK,
    OutcomeStatus.REFUSED,
    OutcomeStatus.FAILED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VolumeMetrics:
    """The metrics of one volume; they vanish at ``expires_at_s`` unless it is evaluated again."""

    expires_at_s: float
    urgency: tuple[float, ...]
    metric_values: tuple[MetricValue, ...]
    time_to_empty_s: float | None
    is_unread: bool
    is_stuck: bool


class FleetCollector:
    """Receives the result of each pass; ``metric_values`` are always those after a whole pass.

    They are replaced at once, so that another thread may read them at any time. A volume has readings of its
    own while it is at ``start_watch`` or worse, lacks its data, or is flipped and has still to come back.
    """

    def __init__(self, *, version: str) -> None:
        self._build_info = [MetricValue(exporter_metrics.BUILD_INFO, 1, (version,))]
        self.metric_values: tuple[MetricValue, ...] = tuple(self._build_info)
        self._region = self._account = ""
        self._acts = False
        self._volumes: dict[str, _VolumeMetrics] = {}
        self._counts: Counter[tuple[Metric, tuple[str, ...]]] = Counter()
        self._heartbeat_values: tuple[MetricValue, ...] = ()
        self._fleet_values: tuple[MetricValue, ...] = ()
        self._unreadable = 0

    def start_watch(self, place: AwsLocation, *, acts: bool) -> None:
        """From now on it is about this place; every counter starts from zero."""
        self._region, self._account, self._acts = place.region, place.account or "", acts
        self._set_watch_info(acts=acts)
        for result in PassStatus:
            self._increment(exporter_metrics.PASSES, 0, str(result))
        for status in _COUNTED_STATUSES:
            self._increment(exporter_metrics.OUTCOMES, 0, str(status))
        for metric in (
            exporter_metrics.ALERTS_SENT,
            exporter_metrics.FAILURES,
            exporter_metrics.METRICS_READ,
        ):
            self._increment(metric, 0)
        self.metric_values = tuple(self._collect_all())

    def _set_watch_info(self, *, acts: bool) -> None:
        labels = (self._region, self._account, "true" if acts else "false")
        self._build_info[1:] = [MetricValue(exporter_metrics.WATCH_INFO, 1, labels)]

    def record_pass(self, finished: FinishedPass) -> None:
        """Record the result of a pass."""
        self._set_watch_info(acts=self._acts and not finished.only_proposes)
        self._increment(exporter_metrics.PASSES, 1, str(finished.status))
        if finished.report is not None:
            self._record_report(finished.report, finished)
        elif finished.status is PassStatus.FAILED:
            self._increment(exporter_metrics.FAILURES, 1)
        self._volumes = {
            volume_id: metrics
            for volume_id, metrics in self._volumes.items()
            if metrics.expires_at_s >= finished.started_at_s
        }
        self.metric_values = tuple(self._collect_all())

    def _record_report(self, report: PassReport, finished: FinishedPass) -> None:
        for decision in report.decisions:
            if _has_own_metrics(decision):
                self._volumes[decision.volume_id] = _volume_metrics(decision, report)
            else:
                self._volumes.pop(decision.volume_id, None)
        for volume_id in report.ignored:
            self._volumes.pop(volume_id, None)
        self._unreadable = report.unreadable_count
        self._fleet_values = tuple(self._collect_fleet(report, finished))
        for status in _COUNTED_STATUSES:
            self._increment(exporter_metrics.OUTCOMES, report.count(status), str(status))
        for call, count in report.api_calls.items():
            self._increment(exporter_metrics.AWS_CALLS, count, call)
        self._increment(exporter_metrics.METRICS_READ, report.metrics_requested)
        self._increment(exporter_metrics.ALERTS_SENT, report.sent)
        self._increment(exporter_metrics.FAILURES, len(report.failures))
        self._heartbeat_values = (
            self._value(exporter_metrics.LAST_PASS, finished.started_at_s),
            self._value(exporter_metrics.LAST_PASS_DURATION, finished.duration_s),
        )

    def _collect_fleet(self, report: PassReport, finished: FinishedPass) -> Iterator[MetricValue]:
        if report.fleet is not None and not report.unreadable_count:
            yield from self._collect_counts(report.fleet)
        if report.newest_datapoint_age_s is not None:
            yield self._value(exporter_metrics.DATAPOINT_AGE, report.newest_datapoint_age_s)
        if report.worst_datapoint_age_s is not None:
            yield self._value(exporter_metrics.WORST_DATAPOINT_AGE, report.worst_datapoint_age_s)
        fleet_wide = sum(hold.volume_id is None for hold in report.holds)
        yield self._value(exporter_metrics.HOLDS, fleet_wide, "everything")
        yield self._value(exporter_metrics.HOLDS, len(report.holds) - fleet_wide, "volume")
        yield self._value(exporter_metrics.POLICY_REJECTED, finished.is_policy_rejected)
        yield self._value(exporter_metrics.ALERTS_WAITING, report.undelivered)

    def _collect_counts(self, fleet: FleetSummary) -> Iterator[MetricValue]:
        for level, count in fleet.by_level.items():
            if level is not Level.OK or fleet.watched is not None:
                yield self._value(exporter_metrics.VOLUMES, count, str(level))
        if fleet.watched is not None:
            yield self._value(exporter_metrics.WATCHED, fleet.watched)
        yield self._value(exporter_metrics.IN_FOCUS, fleet.in_focus)
        yield self._value(exporter_metrics.FLIPPED, fleet.flipped)
        if fleet.lowest_balance_pct is not None:
            yield self._value(exporter_metrics.LOWEST_BALANCE, fleet.lowest_balance_pct / 100)

    def _collect_all(self) -> Iterator[MetricValue]:
        yield from self._build_info
        yield from self._heartbeat_values
        yield from self._fleet_values
        volumes = sorted(self._volumes.values(), key=lambda volume: volume.urgency)
        if self._heartbeat_values:
            yield self._value(
                exporter_metrics.UNREAD, sum(volume.is_unread for volume in volumes) + self._unreadable
            )
            yield self._value(exporter_metrics.STUCK, sum(volume.is_stuck for volume in volumes))
            yield self._value(exporter_metrics.VOLUMES_LEFT_OUT, max(0, len(volumes) - MAX_VOLUMES))
        soonest = [volume.time_to_empty_s for volume in volumes if volume.time_to_empty_s is not None]
        if soonest:
            yield self._value(exporter_metrics.SOONEST_EMPTY, min(soonest))
        for (metric, labels), count in self._counts.items():
            yield MetricValue(metric, count, labels)
        for volume in volumes[:MAX_VOLUMES]:
            yield from volume.metric_values

    def _value(self, metric: Metric, value: float, *labels: str) -> MetricValue:
        return MetricValue(metric, float(value), (self._region, *labels))

    def _increment(self, metric: Metric, count: int, *labels: str) -> None:
        self._counts[metric, (self._region, *labels)] += count


def _has_own_metrics(decision: Decision) -> bool:
    is_flipped = decision.flip is not None and not decision.flip.is_settled
    return is_flipped or is_urgent(decision) or decision.level is Level.WATCH


def _volume_metrics(decision: Decision, report: PassReport) -> _VolumeMetrics:
    retention_s = 2 * max(_MIN_RETENTION_S, decision.poll_interval_s or 0) + _SLACK_S
    forecast, flip = decision.assessment.forecast, decision.flip
    return _VolumeMetrics(
        expires_at_s=report.now_s + retention_s,
        urgency=urgency_of(decision),
        metric_values=tuple(
            _volume_values(decision, report)
            if isinstance(decision.assessment.resource, Volume)
            else _bucket_values(decision, report, decision.assessment.resource)
        ),
        time_to_empty_s=forecast.time_to_empty_s if forecast else None,
        is_unread=decision.assessment.unknown_reason is UnknownReason.READ_FAILED,
        is_stuck=flip is not None and flip.is_under_way and flip.is_stuck_alerted,
    )


def _volume_values(decision: Decision, report: PassReport) -> Iterator[MetricValue]:
    assessment = decision.assessment
    volume = assessment.volume
    volume_labels = (report.region, volume.volume_id)
    info_labels = (
        display_name_of(volume),
        volume.volume_type,
        volume.instance_id or "",
        str(decision.volume_settings.mode),
    )
    yield MetricValue(exporter_metrics.VOLUME_INFO, 1, (*volume_labels, *info_labels))
    yield MetricValue(
        exporter_metrics.VOLUME_LEVEL,
        1,
        (*volume_labels, str(decision.level), str(assessment.unknown_reason or "")),
    )
    for metric, value in _gauge_values(decision, report.now_s).items():
        if value is not None:
            yield MetricValue(metric, value, volume_labels)
    served = {"read": assessment.consumed_read_iops, "write": assessment.consumed_write_iops}
    for operation, iops in served.items():
        if iops is not None:
            yield MetricValue(exporter_metrics.VOLUME_SERVED_IOPS, iops, (*volume_labels, operation))
    if decision.flip is not None:
        yield MetricValue(
            exporter_metrics.VOLUME_FLIP_INFO, 1, (*volume_labels, *_flip_labels(decision.flip))
        )


def _bucket_values(
    decision: Decision, report: PassReport, resource: AdvisedResource
) -> Iterator[MetricValue]:
    assessment, forecast = decision.assessment, decision.assessment.forecast
    labels = (report.region, resource.resource_id, assessment.kind.name)
    info = (display_name_of(resource), str(resource.resource_type), type_name_of(resource))
    yield MetricValue(exporter_metrics.BUCKET_INFO, 1, (*labels, *info, str(decision.volume_settings.mode)))
    level_labels = (str(decision.level), str(assessment.unknown_reason or ""))
    yield MetricValue(exporter_metrics.BUCKET_LEVEL, 1, (*labels, *level_labels))
    values = {
        exporter_metrics.BUCKET_BALANCE: None if assessment.sample is None else assessment.sample.value / 100,
        exporter_metrics.BUCKET_DRAIN: forecast.drain_per_s
        if forecast and assessment.bucket.is_known
        else None,
        exporter_metrics.BUCKET_TIME_TO_EMPTY: forecast.time_to_empty_s if forecast else None,
        exporter_metrics.BUCKET_SOONEST_EMPTY: forecast.soonest_empty_s if forecast else None,
    }
    yield from (MetricValue(metric, value, labels) for metric, value in values.items() if value is not None)


def _gauge_values(decision: Decision, now_s: float) -> Mapping[Metric, float | None]:
    """The volume's numbers; None is left out."""
    assessment = decision.assessment
    forecast, sample = assessment.forecast, assessment.sample
    return {
        exporter_metrics.VOLUME_BALANCE: None if sample is None else sample.value / 100,
        exporter_metrics.VOLUME_BASELINE: baseline_iops_or_none(assessment),
        exporter_metrics.VOLUME_DRAIN: forecast.drain_per_s if forecast else None,
        exporter_metrics.VOLUME_TIME_TO_EMPTY: forecast.time_to_empty_s if forecast else None,
        exporter_metrics.VOLUME_SOONEST_EMPTY: forecast.soonest_empty_s if forecast else None,
        exporter_metrics.VOLUME_DATAPOINT_TIME: None
        if assessment.age_s is None
        else now_s - assessment.age_s,
    }


def _flip_labels(flip: Flip) -> Iterable[str]:
    return str(flip.status), str(flip.direction), str(flip.cause), str(flip.target.volume_type)
