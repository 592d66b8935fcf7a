"""What one pass reads from AWS, and how few calls it takes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery, MetricsResult
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsError, AwsFailure
from burstwatch.core.assessment.drain_cause import DrainMetrics
from burstwatch.core.buckets.forecast import HORIZONS_MIN
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import Problem
from burstwatch.core.watch.due_volumes import DueVolume

_HORIZON_S: Final = PERIOD_S * max(HORIZONS_MIN)
_METRIC_LATENESS_S: Final = PERIOD_S * 5
"""A judgement: how late a datapoint may be, because AWS documents no delay."""

_DRAIN_METRICS_TIME_LIMIT_S: Final = 30.0
"""A pass that is slower asks no more: its alerts are to be out before its tick is anybody's again."""
OPERATIONS_SPAN_S: Final = PERIOD_S * 15
_INSTANCE_BALANCE_SPAN_S: Final = PERIOD_S * 15
"""An instance's balances come every five minutes: this far back there is one, even a late one."""

_INSTANCE_BALANCES: Final = ("EBSIOBalance%", "EBSByteBalance%")
_QUERIES_PER_CALL: Final = 500
"""The limit of GetMetricData. Source: CloudWatch API reference, GetMetricData."""


@dataclass(slots=True)
class Collector:
    """Everything that a pass reads, with the reads that failed in ``failures``.

    A failed call never ends the pass: what depends on it is unknown, and the rest goes on. ``unreadable`` are
    the volumes that EC2 did not describe; without ``has_whole_fleet`` there may be more. ``instance_names``
    are the names of the instances that had to be read, by volume id. ``heartbeat`` is called after each page
    of the fleet and each batch of metrics, and between the parts of a long pass. A pass about some volumes
    (``only_volume_ids``) reads nothing of the whole Region.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    now_s: float
    gap_after_s: float
    metric_lag_s: float = _METRIC_LATENESS_S
    drain_metrics_reader: DrainMetricsReader | None = None
    only_volume_ids: frozenset[str] | None = None
    failures: list[str] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    has_whole_fleet: bool = True
    instance_names: dict[str, str] = field(default_factory=dict)
    heartbeat: Callable[[], None] = lambda: None
    monotonic: Callable[[], float] = monotonic
    _started_at_s: float = field(default=0.0, init=False)
    _in_progress: dict[str, Modification] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._started_at_s = self.monotonic()

    @property
    def wall_clock_s(self) -> float:
        """The time by now: a pass that waits for AWS is not over when it began."""
        return self.now_s + self.monotonic() - self._started_at_s

    def fleet(self) -> tuple[list[Volume], bool]:
        """Every gp2 volume of the region, and whether that really is every one."""
        volumes: list[Volume] = []
        try:
            filters = {"volume-type": ["gp2"]}
            listed = self.ec2.volumes(filters, report_failure=self._add_failure, on_page=self.heartbeat)
            volumes.extend(listed)
        except AwsError as error:
            self.failures.append(error.problem)
            self.has_whole_fleet = False
        return volumes, self.has_whole_fleet

    def volumes_by_id(self, volume_ids: Iterable[str]) -> tuple[list[Volume], list[str]]:
        """These volumes, and the ids of those that do not exist."""
        result = self.ec2.volumes_by_id(sorted(volume_ids))
        self._add_failures(result.unread)
        self.unreadable |= result.unread.keys()
        return list(result.volumes), list(result.missing)

    def modifications_in_progress(self) -> dict[str, Modification]:
        """Every modification in progress of the region, or of ``only_volume_ids`` some volumes.

        Read once in a pass.
        """
        if self._in_progress is None and self.only_volume_ids is not None:
            modifications, _ = self.modifications(self.only_volume_ids)
            self._in_progress = {i: record for i, record in modifications.items() if record.is_in_progress}
        if self._in_progress is None:
            self._in_progress = {}
            try:
                for modification in self.ec2.modifications_in_progress(report_failure=self._add_failure):
                    self._in_progress[modification.volume_id] = modification
            except AwsError as error:
                self.failures.append(error.problem)
        return self._in_progress

    def smaller_sizes_gib(self) -> dict[str, int]:
        """The smaller size of each modification in progress, in GiB: it may be the one that counts."""
        return {
            i: min(m.original.size_gib, m.target.size_gib)
            for i, m in self.modifications_in_progress().items()
        }

    def modifications(self, volume_ids: Iterable[str]) -> tuple[dict[str, Modification], frozenset[str]]:
        """The newest modification of each of these volumes that ever had one, and the ids of those unread."""
        result = self.ec2.modifications_by_id(sorted(volume_ids))
        self._add_failures(result.unread)
        return dict(result.modifications), frozenset(result.unread)

    def instance_states(self, volumes: Iterable[Volume]) -> dict[str, str]:
        """The state of the instance each volume is attached to, by volume id; left out where unknown."""
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        result = self.ec2.instance_states(sorted(set(instances.values())))
        self._add_failures(result.unread)
        self.instance_names |= {v: result.names[i] for v, i in instances.items() if i in result.names}
        return {
            volume_id: result.states[instance_id]
            for volume_id, instance_id in instances.items()
            if instance_id in result.states
        }

    def instance_limits(self, volumes: Iterable[Volume]) -> dict[str, InstanceLimits]:
        """What the instance of each volume allows, by volume id; left out where that is unknown.

        A balance is the least of its last few minutes; None where the instance has no such bucket, or where
        it could not be read.
        """
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        result = self.ec2.instance_states(sorted(set(instances.values())))
        limits_result = self.ec2.ebs_limits(sorted(set(result.types.values())))
        self._add_failures({**result.unread, **limits_result.unread})
        limits = {
            i: limits_result.limits[instance_type]
            for i, instance_type in result.types.items()
            if instance_type in limits_result.limits
        }
        limits |= self._add_balances(
            {i: type_limits for i, type_limits in limits.items() if _has_buckets(type_limits)}
        )
        return {volume_id: limits[i] for volume_id, i in instances.items() if i in limits}

    def balances(self, due: Sequence[DueVolume], in_focus: set[str]) -> dict[str, Series | AwsFailure]:
        """Burst balances by volume id.

        Volumes in focus are read over the longest horizon before the newest minute that CloudWatch may show,
        the others as far back as is needed to detect a gap. If all fit into one call, they share the longer
        span, because it costs the same.
        """
        polled_ids = [due_volume.volume.volume_id for due_volume in due if due_volume.is_polled]
        short_s = self.gap_after_s + PERIOD_S
        long_s = max(_HORIZON_S + max(_METRIC_LATENESS_S, self.metric_lag_s), short_s)
        if len(polled_ids) <= _QUERIES_PER_CALL:
            return self._read_balances(polled_ids, long_s)
        focused_ids = [volume_id for volume_id in polled_ids if volume_id in in_focus]
        other_ids = [volume_id for volume_id in polled_ids if volume_id not in in_focus]
        return self._read_balances(focused_ids, long_s) | self._read_balances(other_ids, short_s)

    def operations(
        self, volume_ids: Iterable[str], *, span_s: float = OPERATIONS_SPAN_S
    ) -> dict[str, tuple[Series | None, Series | None]]:
        """Read and write operations of the last ``span_s`` seconds, by volume id; None if not read."""
        ids = list(volume_ids)
        queries = [
            MetricQuery(volume_id, metric, "Sum")
            for volume_id in ids
            for metric in ("VolumeReadOps", "VolumeWriteOps")
        ]
        result = self._read(queries, span_s)
        self._add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        self._add_messages(result.messages)
        pairs = zip(ids, queries[::2], queries[1::2], strict=True)
        return {i: (result.series.get(reads), result.series.get(writes)) for i, reads, writes in pairs}

    def drain_metrics(self, volume_ids: Sequence[str]) -> Mapping[str, DrainMetrics]:
        """The metrics that explain the drains of these volumes, by volume id; empty without a reader."""
        if self.drain_metrics_reader is None or not volume_ids:
            return {}
        if self.wall_clock_s - self.now_s > _DRAIN_METRICS_TIME_LIMIT_S:
            return dict.fromkeys(volume_ids, DrainMetrics(read_error="this pass took too long for it"))
        result = self.drain_metrics_reader.read(volume_ids, self.now_s)
        self._add_failures(result.unread)
        return result.drain_metrics

    def _read_balances(self, volume_ids: Iterable[str], span_s: float) -> dict[str, Series | AwsFailure]:
        queries = [MetricQuery(volume_id, "BurstBalance", "Minimum") for volume_id in volume_ids]
        result = self._read(queries, span_s)
        self._add_messages(result.messages)
        balances: dict[str, Series | AwsFailure] = {
            q.resource_id: series for q, series in result.series.items()
        }
        return balances | {q.resource_id: failure for q, failure in result.unread.items()}

    def _read(self, queries: Sequence[MetricQuery], span_s: float) -> MetricsResult:
        return self.cloudwatch.read(
            queries, start_s=self.now_s - span_s, end_s=self.now_s, on_batch=self.heartbeat
        )

    def _add_balances(self, limits: Mapping[str, InstanceLimits]) -> dict[str, InstanceLimits]:
        """The same limits by instance id, with what is left in the instance's own buckets."""
        if not limits:
            return {}
        queries = [
            MetricQuery(instance_id, metric, "Minimum", "InstanceId")
            for instance_id in limits
            for metric in _INSTANCE_BALANCES
        ]
        start_s = self.now_s - _INSTANCE_BALANCE_SPAN_S
        result = self.cloudwatch.read(queries, start_s=start_s, end_s=self.now_s)
        self._add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        self._add_messages(result.messages)
        lowest = {q: self._lowest_closed(result.series.get(q)) for q in queries}
        pairs = zip(limits.items(), queries[::2], queries[1::2], strict=True)
        return {
            i: replace(type_limits, io_balance_pct=lowest[io], byte_balance_pct=lowest[byte])
            for (i, type_limits), io, byte in pairs
        }

    def _lowest_closed(self, series: Series | None) -> float | None:
        return min(series.closed_by(self.now_s).values, default=None) if series else None

    def _add_failure(self, subject: str, failure: AwsFailure) -> None:
        problem = failure.problem
        self.failures.append(
            Problem(f"{subject}: {problem.cause}", problem.fix, sentence=f"{subject}: {problem}")
        )

    def _add_messages(self, messages: Iterable[str]) -> None:
        """CloudWatch speaks of a call as a whole only when its answer is not whole."""
        self.failures += [f"cloudwatch:GetMetricData says: {message}" for message in dict.fromkeys(messages)]

    def _add_failures(self, failures: Mapping[str, AwsFailure]) -> None:
        """One line for each sort of failure, however many it struck."""
        counts = Counter((failure.action, failure.code) for failure in failures.values())
        examples = {(failure.action, failure.code): failure for failure in failures.values()}
        for action_and_code, count in counts.items():
            problem = examples[action_and_code].problem
            suffix = f" (and {count - 1} more like it)" if count > 1 else ""
            self.failures.append(Problem(problem.cause, problem.fix, sentence=f"{problem}{suffix}"))


def _has_buckets(limits: InstanceLimits) -> bool:
    """Whether the instance can burst above its sustained performance."""
    return (limits.baseline_iops, limits.baseline_throughput_mib_s) != (
        limits.max_iops,
        limits.max_throughput_mib_s,
    )
