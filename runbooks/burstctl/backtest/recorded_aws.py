"""What the watchdog reads and modifies AWS with, over a world that was recorded.

They return what the ``adapters`` would return. No call fails, because a replay is about load.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from burstctl.backtest.recorded_volume import RecordedFleet, RecordedVolume
from burstwatch.adapters.aws.cloudwatch import MetricQuery, MetricsResult
from burstwatch.adapters.aws.drain_metrics import MAX_VOLUMES, METRICS_PER_VOLUME, DrainMetricsResult
from burstwatch.adapters.aws.ec2 import EbsLimitsResult, InstanceStates, ModificationsResult, VolumesResult
from burstwatch.adapters.aws.ec2_modify import Accepted
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume

UNKNOWN_INSTANCE_ID: Final = "i-recorded"
"""The instance to which a volume counts as attached if the recording does not say."""


class _IgnoredCallback(Protocol):
    def __call__(self, subject: str, failure: object, /) -> None: ...


@dataclass(slots=True)
class RecordedEc2:
    """EC2; ``limits`` are those of the instances today, by id."""

    fleet: RecordedFleet
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)

    def volumes(
        self,
        filters: Mapping[str, Sequence[str]],
        *,
        report_failure: _IgnoredCallback,  # noqa: ARG002 - nothing fails
        on_page: _IgnoredCallback,  # noqa: ARG002 - there is one page
    ) -> Iterator[Volume]:
        types = filters["volume-type"]
        described = (recorded.volume_at(self.fleet.now_s) for recorded in self.fleet.existing_volumes())
        return (volume for volume in described if volume.volume_type in types)

    def volumes_by_id(self, volume_ids: Iterable[str]) -> VolumesResult:
        by_id = {item: self.fleet.find(item) for item in volume_ids}
        return VolumesResult(
            volumes=[item.volume_at(self.fleet.now_s) for item in by_id.values() if item],
            missing=[volume_id for volume_id, item in by_id.items() if item is None],
            unread={},
        )

    def instance_states(self, instance_ids: Iterable[str]) -> InstanceStates:
        wanted_ids = set(instance_ids)
        states: dict[str, str] = {}
        for volume in self.fleet.existing_volumes():
            instance_id = volume.recording.volume.instance_id
            if instance_id in wanted_ids and states.get(instance_id) != "running":
                states[instance_id] = self.fleet.instance_state(volume)
        return InstanceStates(
            states=states, types={instance: instance for instance in wanted_ids & self.limits.keys()}
        )

    def ebs_limits(self, instance_types: Iterable[str]) -> EbsLimitsResult:
        """The limits of each instance; in a replay, the instance ID is also its type."""
        return EbsLimitsResult(
            limits={
                instance_id: self.limits[instance_id]
                for instance_id in instance_types
                if instance_id in self.limits
            }
        )

    def modifications_in_progress(self, *, report_failure: _IgnoredCallback) -> Iterator[Modification]:  # noqa: ARG002 - nothing fails
        modifications = (item.modification_at(self.fleet.now_s) for item in self._modified_volumes())
        return (item for item in modifications if item is not None and item.is_in_progress)

    def modifications_by_id(self, volume_ids: Iterable[str]) -> ModificationsResult:
        wanted_ids = set(volume_ids)
        modifications = {
            item.volume_id: item.modification_at(self.fleet.now_s)
            for item in self._modified_volumes()
            if item.volume_id in wanted_ids
        }
        return ModificationsResult(
            modifications={volume_id: item for volume_id, item in modifications.items() if item is not None}
        )

    def provisioned_iops(self, volume_type: VolumeType) -> int:
        """The IOPS of these volumes, for the account's quota; others of the account are not recorded."""
        described = (volume.volume_at(self.fleet.now_s) for volume in self._modified_volumes())
        return sum(volume.provisioned_iops or 0 for volume in described if volume.volume_type == volume_type)

    def _modified_volumes(self) -> Iterator[RecordedVolume]:
        return (volume for volume in self.fleet.volumes.values() if volume.modifications)


@dataclass(slots=True)
class RecordedCloudWatch:
    """CloudWatch; ``billed_metrics`` counts the metrics that AWS would have billed, by the subject's id."""

    fleet: RecordedFleet
    billed_metrics: Counter[str] = field(default_factory=Counter)

    def read(
        self,
        queries: Iterable[MetricQuery],
        start_s: float,
        end_s: float,
        *,
        on_batch: Callable[[], None] = lambda: None,  # noqa: ARG002 - it takes no time
    ) -> MetricsResult:
        until_s = self.fleet.visible_until_s(end_s)
        start_s = start_s // PERIOD_S * PERIOD_S
        series: dict[MetricQuery, Series] = {}
        for query in queries:
            self.billed_metrics[query.resource_id] += 1
            volume = self.fleet.volumes.get(query.resource_id)
            series[query] = (
                Series() if volume is None else self._series(volume, query.metric, start_s, until_s)
            )
        return MetricsResult(series=series)

    def _series(self, volume: RecordedVolume, metric: str, start_s: float, until_s: float) -> Series:
        match metric:
            case "BurstBalance":
                return volume.balance(start_s, until_s, self.fleet.now_s)
            case "VolumeReadOps":
                return volume.recording.reads.between(start_s, until_s)
            case _:
                return volume.recording.writes.between(start_s, until_s)


@dataclass(slots=True)
class CountingDrainMetricsReader:
    """Reads nothing of what drained a volume, because no alert is sent; counts what that would cost."""

    billed_metrics: Counter[str]

    def read(self, volume_ids: Sequence[str], now_s: float) -> DrainMetricsResult:  # noqa: ARG002 - the reader's signature
        self.billed_metrics.update(dict.fromkeys(volume_ids[:MAX_VOLUMES], METRICS_PER_VOLUME))
        return DrainMetricsResult()


@dataclass(slots=True)
class RecordedModifier:
    """ModifyVolume that accepts every request: the watchdog's own guards apply AWS's rules."""

    fleet: RecordedFleet

    def modify(self, volume_id: str, configuration: Configuration, *, dry_run: bool = False) -> Accepted:
        assert not dry_run, "a replayed watchdog makes no dry run"
        return Accepted(modification=self.fleet.volumes[volume_id].modify(configuration, self.fleet.now_s))
