"""What one pass reads from AWS, and how few calls it takes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery, MetricsResult
from burstwatch.adapters.aws.descriptions import EPOCH
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import EbsLimitsResult, Ec2Reader
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.errors import AwsError, AwsFailure
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.core.assessment.drain_cause import DrainMetrics
from burstwatch.core.buckets.forecast import HORIZONS_MIN
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling, ceiling_of
from burstwatch.core.errors import Problem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT
from burstwatch.core.instances.instance_metrics import INSTANCE_METRICS, INSTANCE_SPAN_S, InstanceMetrics
from burstwatch.core.metric_spec import MetricSpec
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.watch.polling.due_buckets import DueBucket
from burstwatch.core.watch.polling.due_volumes import DueVolume

_HORIZON_S: Final = PERIOD_S * max(HORIZONS_MIN)
_METRIC_LATENESS_S: Final = PERIOD_S * 5
"""A judgement: how late a datapoint may be, because AWS documents no delay."""

_DRAIN_METRICS_TIME_LIMIT_S: Final = 30.0
"""A slower pass reads no more of them, so that its alerts are sent before the lease of its tick expires."""
OPERATIONS_SPAN_S: Final = PERIOD_S * 15
_INSTANCE_BALANCE_SPAN_S: Final = PERIOD_S * 15
"""An instance's balances come every five minutes: this far back there is one, even a late one."""

_INSTANCE_BALANCES: Final = ("EBSIOBalance%", "EBSByteBalance%")
_INSTANCE_LOADS: Final = ("read_ops", "write_ops", "read_bytes", "write_bytes")
_LATE_PERIODS: Final = 3
"""A judgement: the newest datapoint of a longer period may be this many periods old."""
_QUERIES_PER_CALL: Final = 500
"""The limit of GetMetricData. Source: CloudWatch API reference, GetMetricData."""


@dataclass(slots=True)
class Collector:
    """Everything that a pass reads, with the reads that failed in ``failures``.

    A failed call never ends the pass: what depends on it is unknown, and the rest goes on. ``unreadable`` are
    the volumes that EC2 did not describe; without ``has_whole_fleet`` there may be more. ``instance_names``
    are the names of the instances that had to be read, by volume id. ``heartbeat`` is called after each page
    of the fleet and each batch of metrics, and between the parts of a long pass. A pass about some volumes
    (``only_volume_ids``) reads nothing of the whole Region. ``volume_types`` are those that are watched. The
    kinds in ``unread_kinds`` could not be listed, so nothing is known of them. Of ``excused_kinds``, or of
    the limits of instances, that does not count as a failure; they have the AWS action that the caller lacks.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    now_s: float
    gap_after_s: float
    metric_lag_s: float = _METRIC_LATENESS_S
    volume_types: frozenset[str] = frozenset({"gp2"})
    watches_instances: bool = False
    unread_kinds: set[ResourceType] = field(default_factory=set)
    excused_kinds: Mapping[ResourceType, str] = field(default_factory=dict)
    drain_metrics_reader: DrainMetricsReader | None = None
    efs: EfsReader | None = None
    rds: RdsReader | None = None
    only_volume_ids: frozenset[str] | None = None
    failures: list[str] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    has_whole_fleet: bool = True
    instance_names: dict[str, str] = field(default_factory=dict)
    heartbeat: Callable[[], None] = lambda: None
    monotonic: Callable[[], float] = monotonic
    _started_at_s: float = field(default=0.0, init=False)
    _volumes: list[Volume] | None = field(default=None, init=False)
    _denied_kinds: dict[ResourceType, AwsFailure] = field(default_factory=dict, init=False)
    _in_progress: dict[str, Modification] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._started_at_s = self.monotonic()

    @property
    def wall_clock_s(self) -> float:
        """The time by now: a pass that waits for AWS is not over when it began."""
        return self.now_s + self.monotonic() - self._started_at_s

    def fleet(self) -> tuple[list[Volume], bool]:
        """Every volume of the region that is watched, and whether that really is every one."""
        if not self.watches_instances:
            return self._list_volumes(), self.has_whole_fleet
        watched = [volume for volume in self._list_volumes() if volume.volume_type in self.volume_types]
        return watched, self.has_whole_fleet

    def _list_volumes(self) -> list[Volume]:
        """The volumes of the watched types, or of every type if instances are watched; listed once."""
        if self._volumes is None:
            self._volumes = []
            filters = {} if self.watches_instances else {"volume-type": sorted(self.volume_types)}
            try:
                listed = self.ec2.volumes(filters, report_failure=self.add_failure, on_page=self.heartbeat)
                self._volumes.extend(listed)
            except AwsError as error:
                self.failures.append(error.problem)
                self.has_whole_fleet = False
        return self._volumes

    def instances(self) -> list[Instance] | None:
        """Every running instance of the region that has volumes, with its limits; None if that is not known.

        What cannot be read of instances never affects volumes: it is a failure of its own.
        """
        try:
            listed = self.ec2.running_instances(report_failure=self.add_failure, on_page=self.heartbeat)
            instances = [instance for instance in listed if instance.volume_ids]
        except AwsError as error:
            self.add_unread_kind(ResourceType.INSTANCE, error.failure)
            return None
        return self._with_limits(instances, self._list_volumes())

    def instances_by_id(self, instance_ids: Iterable[str]) -> tuple[list[Instance], list[str]]:
        """These instances with their limits, and the ids of those that do not exist."""
        result = self.ec2.instances_by_id(sorted(instance_ids))
        self.add_failures(result.unread)
        self.unreadable |= result.unread.keys()
        volume_ids = {volume_id for instance in result.instances for volume_id in instance.volume_ids}
        volumes = self._volumes if self._volumes is not None else self.volumes_by_id(volume_ids)[0]
        return self._with_limits(result.instances, volumes), list(result.missing)

    def describe_instance(self, instance_id: str) -> tuple[Instance | None, list[Volume]]:
        """One instance and its volumes; what cannot be read of one of them leaves the others as they are.

        The instance is None if it does not exist, or if it is in ``unreadable``, which is a failure.
        """
        result = self.ec2.instances_by_id([instance_id])
        self.add_failures(result.unread)
        self.unreadable |= result.unread.keys()
        volumes: list[Volume] = []
        try:
            filters = {"attachment.instance-id": [instance_id]}
            volumes.extend(self.ec2.volumes(filters, report_failure=self.add_failure))
        except AwsError as error:
            self.failures.append(error.problem)
        if not result.instances:
            return None, volumes
        limits_result = self.ec2.ebs_limits([result.instances[0].instance_type])
        self.add_failures(limits_result.unread)
        (instance,) = _limited(result.instances[:1], volumes, limits_result)
        return instance, volumes

    def _with_limits(self, instances: Sequence[Instance], volumes: Iterable[Volume]) -> list[Instance]:
        """The instances with what their types allow and what their volumes serve at best.

        If that cannot be read, the instances are there, and each says so.
        """
        result = self.ec2.ebs_limits(sorted({instance.instance_type for instance in instances}))
        self._add_unread_limits(result.unread)
        return _limited(instances, volumes, result)

    def add_unread_kind(self, kind: ResourceType, failure: AwsFailure) -> None:
        """Note that nothing is known of a kind in this pass, in one failure; other kinds are not affected."""
        self._add_once(failure.problem)
        self.unread_kinds.add(kind)
        if failure.is_access_denied:
            self._denied_kinds[kind] = failure

    def _add_unread_limits(self, unread: Mapping[str, AwsFailure]) -> None:
        """Note which instance types could not be read; without the permission, instances may be excused."""
        self.add_failures(unread)
        for failure in unread.values():
            if failure.is_access_denied:
                self._denied_kinds[ResourceType.INSTANCE] = failure

    def excuse_denied_kinds(self) -> None:
        """Take the missing permissions out of the failures, for a reader who asked for no particular kind."""
        causes = {failure.problem.cause for failure in self._denied_kinds.values()}
        self.failures = [failure for failure in self.failures if Problem.of(failure).cause not in causes]
        self.excused_kinds = {kind: failure.action for kind, failure in self._denied_kinds.items()}

    def larger_types(self, instance_type: str) -> Mapping[str, InstanceLimits]:
        """The limits of the types of its family; none if they cannot be read, which is reported."""
        try:
            return self.ec2.family_limits(instance_type)
        except AwsError as error:
            self.add_failures({instance_type: error.failure})
            return {}

    def volumes_by_id(self, volume_ids: Iterable[str]) -> tuple[list[Volume], list[str]]:
        """These volumes, and the ids of those that do not exist."""
        result = self.ec2.volumes_by_id(sorted(volume_ids))
        self.add_failures(result.unread)
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
                for modification in self.ec2.modifications_in_progress(report_failure=self.add_failure):
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
        self.add_failures(result.unread)
        return dict(result.modifications), frozenset(result.unread)

    def instance_states(self, volumes: Iterable[Volume]) -> dict[str, str]:
        """The state of the instance each volume is attached to, by volume id; left out where unknown."""
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        result = self.ec2.instance_states(sorted(set(instances.values())))
        self.add_failures(result.unread)
        self.instance_names |= {v: result.names[i] for v, i in instances.items() if i in result.names}
        return {
            volume_id: result.states[instance_id]
            for volume_id, instance_id in instances.items()
            if instance_id in result.states
        }

    def instance_limits(
        self, volumes: Iterable[Volume]
    ) -> tuple[dict[str, InstanceLimits], dict[str, AwsFailure]]:
        """What the instance of each volume allows, and why that could not be read, by volume id.

        A volume is in neither if EC2 shows no limits of its instance's type. A balance is the least of its
        last few minutes; None if the instance has no such bucket, or if CloudWatch has no datapoint.
        """
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        result = self.ec2.instance_states(sorted(set(instances.values())))
        limits_result = self.ec2.ebs_limits(sorted(set(result.types.values())))
        self.add_failures(result.unread)
        self._add_unread_limits(limits_result.unread)
        limits = {
            i: limits_result.limits[instance_type]
            for i, instance_type in result.types.items()
            if instance_type in limits_result.limits
        }
        bursting = {i: type_limits for i, type_limits in limits.items() if _has_buckets(type_limits)}
        balanced, unread_balances = self._add_balances(bursting, result.launched_at)
        limits |= balanced
        unread_types = {
            i: limits_result.unread[instance_type]
            for i, instance_type in result.types.items()
            if instance_type in limits_result.unread
        }
        unread = {**result.unread, **unread_types, **unread_balances}
        attached_ids = {i: result.volume_ids.get(i, ()) for i in bursting}
        ceilings = self._read_ceilings({volume_id for ids in attached_ids.values() for volume_id in ids})
        return (
            {
                volume_id: _with_other_volumes(limits[i], volume_id, attached_ids.get(i, ()), ceilings)
                for volume_id, i in instances.items()
                if i in limits and i not in unread
            },
            {volume_id: unread[i] for volume_id, i in instances.items() if i in unread},
        )

    def _read_ceilings(self, volume_ids: AbstractSet[str]) -> dict[str, VolumeCeiling | None]:
        """What each of these volumes serves at best; left out where it could not be read."""
        described = self.ec2.volumes_by_id(sorted(volume_ids)).volumes if volume_ids else ()
        return {volume.volume_id: ceiling_of(volume) for volume in described}

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
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
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
        self.add_failures(result.unread)
        return result.drain_metrics

    def bucket_balances(self, due: Iterable[DueBucket]) -> dict[str, Series | AwsFailure]:
        """The balances of buckets of resources other than volumes, over the longest horizon.

        By their keys in the ledger. Buckets that are read over the same time are read together.
        """
        queries: dict[float, dict[str, MetricQuery]] = {}
        for due_bucket in due:
            if due_bucket.is_polled:
                span_queries = queries.setdefault(_balance_span_s(due_bucket), {})
                span_queries[due_bucket.subject] = _bucket_query(
                    due_bucket, due_bucket.kind.metric, "Minimum"
                )
        balances: dict[str, Series | AwsFailure] = {}
        for span_s, span_queries in queries.items():
            result = self._read(list(span_queries.values()), span_s)
            self._add_messages(result.messages)
            for subject, query in span_queries.items():
                known = result.series.get(query) or result.unread.get(query)
                balances[subject] = known or Series(period_s=query.period_s)
        return balances

    def bucket_histories(
        self, due: Iterable[DueBucket], start_s: float, end_s: float, *, least_period_s: int = PERIOD_S
    ) -> dict[str, Series]:
        """The balances of buckets of resources other than volumes over a span, by their keys in the ledger.

        A balance is read by periods of ``least_period_s`` or longer. What is not read is a failure.
        """
        queries = {}
        for due_bucket in due:
            query = _bucket_query(due_bucket, due_bucket.kind.metric, "Minimum")
            queries[due_bucket.subject] = replace(query, period_s=max(query.period_s, least_period_s))
        result = self.cloudwatch.read(list(queries.values()), start_s=start_s, end_s=end_s)
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        self._add_messages(result.messages)
        return {subject: result.series[query] for subject, query in queries.items() if query in result.series}

    def earlier_balances(self, due: Iterable[DueBucket], span_s: float) -> dict[str, Series | AwsFailure]:
        """The balances of the last ``span_s`` seconds by five minutes, by their keys in the ledger."""
        queries = {}
        for due_bucket in due:
            query = _bucket_query(due_bucket, due_bucket.kind.metric, "Minimum")
            queries[due_bucket.subject] = replace(query, period_s=max(query.period_s, 5 * PERIOD_S))
        result = self._read(list(queries.values()), span_s) if queries else MetricsResult()
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        return {
            subject: result.series.get(query) or result.unread.get(query) or Series(period_s=query.period_s)
            for subject, query in queries.items()
        }

    def buckets_with_companion(self, due: Iterable[DueBucket], span_s: float) -> set[str]:
        """The buckets whose resources have other metrics of the last ``span_s`` seconds, by their keys."""
        queries = {
            due_bucket.subject: _bucket_query(due_bucket, due_bucket.kind.companion, "Sum")
            for due_bucket in due
            if due_bucket.kind.companion is not None
        }
        result = self._read(list(dict.fromkeys(queries.values())), span_s) if queries else MetricsResult()
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        return {subject for subject, query in queries.items() if result.series.get(query)}

    def named_metrics(
        self,
        metric_ids: Iterable[str],
        dimension: str,
        metrics: Mapping[str, MetricSpec],
        span_s: float,
    ) -> dict[str, dict[str, Series]]:
        """These metrics of each resource, by its ID in CloudWatch and by name, without those not read."""
        queries = {
            (metric_id, name): MetricQuery(metric_id, spec.metric, spec.statistic, dimension, spec.period_s)
            for metric_id in metric_ids
            for name, spec in metrics.items()
        }
        result = self._read(list(queries.values()), span_s) if queries else MetricsResult()
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        self._add_messages(result.messages)
        read: dict[str, dict[str, Series]] = {metric_id: {} for metric_id, _ in queries}
        for (metric_id, name), query in queries.items():
            if query in result.series:
                read[metric_id][name] = result.series[query]
        return read

    def instance_metrics(self, instance_ids: Iterable[str]) -> dict[str, InstanceMetrics]:
        """The load of these instances, and whether CloudWatch says that they exceed their limits."""
        read = self.named_metrics(instance_ids, INSTANCE_IO.dimension, INSTANCE_METRICS, INSTANCE_SPAN_S)
        return {instance_id: InstanceMetrics(**metrics) for instance_id, metrics in read.items()}

    def volume_checks(self, volumes: Iterable[Volume]) -> dict[str, tuple[Series, Series]]:
        """CloudWatch's checks whether a volume exceeded its IOPS and its throughput limit, by volume id."""
        queries = {
            volume.volume_id: tuple(
                MetricQuery(volume.volume_id, metric, "Maximum", instance_id=volume.instance_id)
                for metric in ("VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck")
            )
            for volume in volumes
            if volume.instance_id is not None
        }
        wanted = [query for pair in queries.values() for query in pair]
        result = self._read(wanted, OPERATIONS_SPAN_S + self.metric_lag_s) if wanted else MetricsResult()
        self.add_failures({query.resource_id: failure for query, failure in result.unread.items()})
        return {
            volume_id: (result.series.get(iops, Series()), result.series.get(throughput, Series()))
            for volume_id, (iops, throughput) in queries.items()
        }

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

    def _add_balances(
        self, limits: Mapping[str, InstanceLimits], launched_at: Mapping[str, datetime]
    ) -> tuple[dict[str, InstanceLimits], dict[str, AwsFailure]]:
        """The same limits with the balances of the instance's own buckets, and those unread, by its id.

        A balance from before its launch is that of another host, and perhaps of another type.
        """
        if not limits:
            return {}, {}
        queries = [
            MetricQuery(instance_id, metric, "Minimum", "InstanceId")
            for instance_id in limits
            for metric in _INSTANCE_BALANCES
        ]
        start_s = self.now_s - _INSTANCE_BALANCE_SPAN_S
        result = self.cloudwatch.read(queries, start_s=start_s, end_s=self.now_s)
        unread = {query.resource_id: failure for query, failure in result.unread.items()}
        self.add_failures(unread)
        self._add_messages(result.messages)
        lowest = {
            query: self._lowest_closed(series.since(launched_at.get(query.resource_id, EPOCH).timestamp()))
            for query, series in result.series.items()
        }
        pairs = zip(limits.items(), queries[::2], queries[1::2], strict=True)
        balanced = {
            i: replace(type_limits, io_balance_pct=lowest.get(io), byte_balance_pct=lowest.get(byte))
            for (i, type_limits), io, byte in pairs
        }
        return balanced | self._add_loads(balanced), unread

    def _add_loads(self, limits: Mapping[str, InstanceLimits]) -> dict[str, InstanceLimits]:
        """The limits of those with a nearly empty bucket, with what their volumes serve now, by id."""
        nearly_empty = {i: type_limits for i, type_limits in limits.items() if type_limits.is_nearly_empty}
        metrics = {name: INSTANCE_METRICS[name] for name in _INSTANCE_LOADS}
        read = self.named_metrics(nearly_empty, INSTANCE_IO.dimension, metrics, _INSTANCE_BALANCE_SPAN_S)
        loads = {i: InstanceMetrics(**series) for i, series in read.items()}
        return {
            i: replace(
                type_limits,
                used_iops=self._newest_rate(loads[i].load_of(INSTANCE_IO)),
                used_mib_s=self._newest_rate(loads[i].load_of(INSTANCE_THROUGHPUT)),
            )
            for i, type_limits in nearly_empty.items()
        }

    def _newest_rate(self, sums: Series) -> float | None:
        newest = sums.closed_by(self.now_s).newest
        return None if newest is None else newest.value / sums.period_s

    def _lowest_closed(self, series: Series) -> float | None:
        return min(series.closed_by(self.now_s).values, default=None)

    def add_failure(self, subject: str, failure: AwsFailure) -> None:
        problem = failure.problem
        self.failures.append(
            Problem(f"{subject}: {problem.cause}", problem.fix, sentence=f"{subject}: {problem}")
        )

    def _add_messages(self, messages: Iterable[str]) -> None:
        """CloudWatch returns messages only with incomplete results."""
        self.failures += [
            f"cloudwatch:GetMetricData returned: {message}" for message in dict.fromkeys(messages)
        ]

    def add_failures(self, failures: Mapping[str, AwsFailure]) -> None:
        """One line for each kind of failure, however often it occurred."""
        counts = Counter((failure.action, failure.code) for failure in failures.values())
        examples = {(failure.action, failure.code): failure for failure in failures.values()}
        for action_and_code, count in counts.items():
            problem = examples[action_and_code].problem
            suffix = f" (and {count - 1} more like it)" if count > 1 else ""
            self._add_once(Problem(problem.cause, problem.fix, sentence=f"{problem}{suffix}"))

    def _add_once(self, problem: Problem) -> None:
        """A call that fails several times in a pass, for the same reason, is one failure."""
        if problem not in self.failures:
            self.failures.append(problem)


def _limited(
    instances: Sequence[Instance], volumes: Iterable[Volume], result: EbsLimitsResult
) -> list[Instance]:
    """The instances with the limits of their types, and with what each of their volumes serves at best."""
    attached_ids = {volume_id for instance in instances for volume_id in instance.volume_ids}
    ceilings = {
        volume.volume_id: ceiling_of(volume) for volume in volumes if volume.volume_id in attached_ids
    }
    return [
        replace(
            instance,
            limits=result.limits.get(instance.instance_type),
            limits_error=failure.problem if (failure := result.unread.get(instance.instance_type)) else None,
            ceilings=_all_known(ceilings.get(volume_id) for volume_id in instance.volume_ids),
        )
        for instance in instances
    ]


def _bucket_query(due_bucket: DueBucket, metric: str, statistic: str) -> MetricQuery:
    kind = due_bucket.kind
    return MetricQuery(due_bucket.resource.metric_id, metric, statistic, kind.dimension, kind.period_s)


def _balance_span_s(due_bucket: DueBucket) -> float:
    """The longest horizon before the newest datapoint, which may be some periods old."""
    lateness_s = max(_METRIC_LATENESS_S, _LATE_PERIODS * due_bucket.kind.period_s)
    return _HORIZON_S * due_bucket.bucket.time_scale + lateness_s


def _with_other_volumes(
    limits: InstanceLimits,
    volume_id: str,
    attached_ids: Sequence[str],
    ceilings: Mapping[str, VolumeCeiling | None],
) -> InstanceLimits:
    """The limits with what the other volumes of the instance can serve, if that is known of each."""
    if volume_id not in attached_ids:
        return limits
    others = _all_known(ceilings.get(other_id) for other_id in attached_ids if other_id != volume_id)
    if others is None:
        return limits
    return replace(
        limits,
        other_iops=sum(ceiling.iops for ceiling in others),
        other_mib_s=sum(ceiling.mib_s for ceiling in others),
    )


def _all_known(ceilings: Iterable[VolumeCeiling | None]) -> tuple[VolumeCeiling, ...] | None:
    """The ceilings, or None if one of them is not known."""
    known: list[VolumeCeiling] = []
    for ceiling in ceilings:
        if ceiling is None:
            return None
        known.append(ceiling)
    return tuple(known)


def _has_buckets(limits: InstanceLimits) -> bool:
    """Whether the instance can burst above its sustained performance."""
    return (limits.baseline_iops, limits.baseline_throughput_mib_s) != (
        limits.max_iops,
        limits.max_throughput_mib_s,
    )
