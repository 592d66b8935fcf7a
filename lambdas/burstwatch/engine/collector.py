"""What one pass reads from AWS, and how few calls it takes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery, MetricsRead
from burstwatch.adapters.aws.drain_metrics import CauseReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsError, AwsFailure
from burstwatch.core.assessment.drain_cause import Traces
from burstwatch.core.buckets.forecast import HORIZONS_MIN
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.watch.due_volumes import DueVolume

_HORIZON_S: Final = PERIOD_S * max(HORIZONS_MIN)
_LATE_S: Final = PERIOD_S * 5

_TIME_FOR_CAUSES_S: Final = 30.0
"""A pass that is slower asks no more: its alerts are to be out before its tick is anybody's again."""
OPERATIONS_SPAN_S: Final = PERIOD_S * 15
_INSTANCE_BALANCE_SPAN_S: Final = PERIOD_S * 15
"""An instance's balances come every five minutes: this far back there is one, even a late one."""

_INSTANCE_BALANCES: Final = ("EBSIOBalance%", "EBSByteBalance%")
_ONE_CALL: Final = 500


@dataclass(slots=True)
class Gathering:
    """Everything a pass reads, with what could not be read in ``failures``.

    A failed call never ends the pass: what depended on it is unknown, the rest goes on. ``undescribed`` are
    the volumes that EC2 told nothing of; without ``has_whole_fleet`` nobody knows how many more there are.
    ``instance_names`` are the names of the instances that had to be asked about, by volume id.
    ``heartbeat`` is called after each page of the fleet and each batch of metrics, and between the parts of a
    long pass. A pass that is about some volumes ``only`` reads nothing of the whole region.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    now_s: float
    gap_after_s: float
    metric_lag_s: float = _LATE_S
    causes: CauseReader | None = None
    only: frozenset[str] | None = None
    failures: list[str] = field(default_factory=list)
    undescribed: set[str] = field(default_factory=set)
    has_whole_fleet: bool = True
    instance_names: dict[str, str] = field(default_factory=dict)
    heartbeat: Callable[[], None] = lambda: None
    monotonic: Callable[[], float] = monotonic
    _began: float = field(default=0.0, init=False)
    _in_progress: dict[str, Modification] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._began = self.monotonic()

    @property
    def time_s(self) -> float:
        """The time by now: a pass that waits for AWS is not over when it began."""
        return self.now_s + self.monotonic() - self._began

    def fleet(self) -> tuple[list[Volume], bool]:
        """Every gp2 volume of the region, and whether that really is every one."""
        volumes: list[Volume] = []
        try:
            filters = {"volume-type": ["gp2"]}
            listed = self.ec2.volumes(filters, report=self._report, on_page=self.heartbeat)
            volumes.extend(listed)
        except AwsError as error:
            self.failures.append(str(error))
            self.has_whole_fleet = False
        return volumes, self.has_whole_fleet

    def by_id(self, volume_ids: Iterable[str]) -> tuple[list[Volume], list[str]]:
        """These volumes, and the ids of those that do not exist."""
        found = self.ec2.volumes_by_id(sorted(volume_ids))
        self._report_all(found.unread)
        self.undescribed |= found.unread.keys()
        return list(found.volumes), list(found.missing)

    def in_progress(self) -> dict[str, Modification]:
        """Every modification in progress of the region, or of ``only`` some volumes; read once in a pass."""
        if self._in_progress is None and self.only is not None:
            found, _ = self.modifications(self.only)
            self._in_progress = {i: each for i, each in found.items() if each.is_in_progress}
        if self._in_progress is None:
            self._in_progress = {}
            try:
                for modification in self.ec2.modifications_in_progress(report=self._report):
                    self._in_progress[modification.volume_id] = modification
            except AwsError as error:
                self.failures.append(str(error))
        return self._in_progress

    def smaller_sizes_gib(self) -> dict[str, int]:
        """The lesser size of every modification in progress: it may be the one that earns the credits."""
        return {i: min(m.original.size_gib, m.target.size_gib) for i, m in self.in_progress().items()}

    def modifications(self, volume_ids: Iterable[str]) -> tuple[dict[str, Modification], frozenset[str]]:
        """The newest modification of each of these volumes that ever had one, and the ids of those unread."""
        found = self.ec2.modifications_by_id(sorted(volume_ids))
        self._report_all(found.unread)
        return dict(found.modifications), frozenset(found.unread)

    def instance_states(self, volumes: Iterable[Volume]) -> dict[str, str]:
        """The state of the instance each volume is attached to, by volume id; left out where unknown."""
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        found = self.ec2.instance_states(sorted(set(instances.values())))
        self._report_all(found.unread)
        self.instance_names |= {v: found.names[i] for v, i in instances.items() if i in found.names}
        return {
            volume_id: found.states[instance_id]
            for volume_id, instance_id in instances.items()
            if instance_id in found.states
        }

    def instance_limits(self, volumes: Iterable[Volume]) -> dict[str, InstanceLimits]:
        """What the instance of each volume allows, by volume id; left out where that is unknown.

        A balance is the least of its last few minutes; None where the instance has no such bucket, or where
        it could not be read.
        """
        instances = {v.volume_id: v.instance_id for v in volumes if v.instance_id}
        found = self.ec2.instance_states(sorted(set(instances.values())))
        ebs = self.ec2.ebs_limits(sorted(set(found.types.values())))
        self._report_all({**found.unread, **ebs.unread})
        limits = {i: ebs.limits[kind] for i, kind in found.types.items() if kind in ebs.limits}
        limits |= self._with_balances({i: each for i, each in limits.items() if _has_buckets(each)})
        return {volume_id: limits[i] for volume_id, i in instances.items() if i in limits}

    def balances(self, due: Sequence[DueVolume], in_focus: set[str]) -> dict[str, Series | AwsFailure]:
        """Burst balances by volume id.

        Volumes in focus are read over the longest horizon before the newest minute that CloudWatch may show,
        the others as far back as a gap is told from.
        Where all fit into one call they share the longer span: it costs the same.
        """
        polled = [one.volume.volume_id for one in due if one.is_polled]
        short_s = self.gap_after_s + PERIOD_S
        long_s = max(_HORIZON_S + max(_LATE_S, self.metric_lag_s), short_s)
        if len(polled) <= _ONE_CALL:
            return self._read_balances(polled, long_s)
        near = [volume_id for volume_id in polled if volume_id in in_focus]
        far = [volume_id for volume_id in polled if volume_id not in in_focus]
        return self._read_balances(near, long_s) | self._read_balances(far, short_s)

    def operations(
        self, volume_ids: Iterable[str], *, span_s: float = OPERATIONS_SPAN_S
    ) -> dict[str, tuple[Series | None, Series | None]]:
        """Read and write operations of the last ``span_s``, by volume id; None where they were not read."""
        ids = list(volume_ids)
        queries = [
            MetricQuery(volume_id, metric, "Sum")
            for volume_id in ids
            for metric in ("VolumeReadOps", "VolumeWriteOps")
        ]
        found = self._read(queries, span_s)
        self._report_all({query.subject_id: failure for query, failure in found.unread.items()})
        self._report_messages(found.messages)
        pairs = zip(ids, queries[::2], queries[1::2], strict=True)
        return {i: (found.series.get(reads), found.series.get(writes)) for i, reads, writes in pairs}

    def traces(self, volume_ids: Sequence[str]) -> Mapping[str, Traces]:
        """What CloudWatch tells at once of volumes that drain, by volume id; empty where nobody can ask."""
        if self.causes is None or not volume_ids:
            return {}
        if self.time_s - self.now_s > _TIME_FOR_CAUSES_S:
            return dict.fromkeys(volume_ids, Traces(not_read="this pass took too long for it"))
        found = self.causes.read(volume_ids, self.now_s)
        self._report_all(found.unread)
        return found.traces

    def _read_balances(self, volume_ids: Iterable[str], span_s: float) -> dict[str, Series | AwsFailure]:
        queries = [MetricQuery(volume_id, "BurstBalance", "Minimum") for volume_id in volume_ids]
        found = self._read(queries, span_s)
        self._report_messages(found.messages)
        answers: dict[str, Series | AwsFailure] = {q.subject_id: series for q, series in found.series.items()}
        return answers | {q.subject_id: failure for q, failure in found.unread.items()}

    def _read(self, queries: Sequence[MetricQuery], span_s: float) -> MetricsRead:
        return self.cloudwatch.read(
            queries, start_s=self.now_s - span_s, end_s=self.now_s, on_batch=self.heartbeat
        )

    def _with_balances(self, limits: Mapping[str, InstanceLimits]) -> dict[str, InstanceLimits]:
        """The same limits by instance id, with what is left in the instance's own buckets."""
        if not limits:
            return {}
        queries = [
            MetricQuery(instance_id, metric, "Minimum", "InstanceId")
            for instance_id in limits
            for metric in _INSTANCE_BALANCES
        ]
        start_s = self.now_s - _INSTANCE_BALANCE_SPAN_S
        found = self.cloudwatch.read(queries, start_s=start_s, end_s=self.now_s)
        self._report_all({query.subject_id: failure for query, failure in found.unread.items()})
        self._report_messages(found.messages)
        least = {q: self._least(found.series.get(q)) for q in queries}
        pairs = zip(limits.items(), queries[::2], queries[1::2], strict=True)
        return {
            i: replace(each, io_balance_pct=least[io], byte_balance_pct=least[byte])
            for (i, each), io, byte in pairs
        }

    def _least(self, series: Series | None) -> float | None:
        return min(series.closed_by(self.now_s).values, default=None) if series else None

    def _report(self, subject: str, failure: AwsFailure) -> None:
        self.failures.append(f"{subject}: {failure}")

    def _report_messages(self, messages: Iterable[str]) -> None:
        """CloudWatch speaks of a call as a whole only when its answer is not whole."""
        self.failures += [f"cloudwatch:GetMetricData says: {message}" for message in dict.fromkeys(messages)]

    def _report_all(self, unread: Mapping[str, AwsFailure]) -> None:
        """One line for each sort of failure, however many it struck."""
        counts = Counter((failure.action, failure.code) for failure in unread.values())
        examples = {(failure.action, failure.code): failure for failure in unread.values()}
        for sort, count in counts.items():
            others = f" (and {count - 1} more like it)" if count > 1 else ""
            self.failures.append(f"{examples[sort]}{others}")


def _has_buckets(limits: InstanceLimits) -> bool:
    """Whether it can be faster for a while than it is for good."""
    return (limits.baseline_iops, limits.baseline_throughput_mib_s) != (
        limits.max_iops,
        limits.max_throughput_mib_s,
    )
