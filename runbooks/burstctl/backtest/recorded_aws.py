"""What the watchdog reads and modifies AWS with, over a world that was recorded.

They answer what ``adapters`` would have made of AWS's answers. Nothing fails here: a replay is about load.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from burstctl.backtest.recorded_volume import RecordedVolume, World
from burstwatch.adapters.aws.cloudwatch import MetricQuery, MetricsRead
from burstwatch.adapters.aws.drain_metrics import METRICS_PER_VOLUME, MOST_VOLUMES, CausesRead
from burstwatch.adapters.aws.ec2 import EbsLimitsRead, InstanceStates, ModificationsRead, VolumesRead
from burstwatch.adapters.aws.ec2_modify import Accepted
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import Volume

NO_INSTANCE: Final = "i-recorded"
"""What a volume is taken to be attached to where nobody knows."""


class _Ignored(Protocol):
    def __call__(self, subject: str, failure: object, /) -> None: ...


@dataclass(slots=True)
class RecordedEc2:
    """EC2; ``limits`` are those of the instances today, by id."""

    world: World
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)

    def volumes(
        self,
        filters: Mapping[str, Sequence[str]],
        *,
        report: _Ignored,  # noqa: ARG002 - nothing fails
        on_page: _Ignored,  # noqa: ARG002 - there is one page
    ) -> Iterator[Volume]:
        types = filters["volume-type"]
        shown = (each.shown_at(self.world.now_s) for each in self.world.standing())
        return (volume for volume in shown if volume.volume_type in types)

    def volumes_by_id(self, volume_ids: Iterable[str]) -> VolumesRead:
        found = {each: self.world.find(each) for each in volume_ids}
        return VolumesRead(
            volumes=[each.shown_at(self.world.now_s) for each in found.values() if each],
            missing=[volume_id for volume_id, each in found.items() if each is None],
            unread={},
        )

    def instance_states(self, instance_ids: Iterable[str]) -> InstanceStates:
        wanted = set(instance_ids)
        states: dict[str, str] = {}
        for each in self.world.standing():
            instance_id = each.recording.volume.instance_id
            if instance_id in wanted and states.get(instance_id) != "running":
                states[instance_id] = self.world.instance_state(each)
        return InstanceStates(states=states, types={i: i for i in wanted & self.limits.keys()})

    def ebs_limits(self, instance_types: Iterable[str]) -> EbsLimitsRead:
        """Of each instance: its id stands for its type here."""
        return EbsLimitsRead(limits={i: self.limits[i] for i in instance_types if i in self.limits})

    def modifications_in_progress(self, *, report: _Ignored) -> Iterator[Modification]:  # noqa: ARG002 - nothing fails
        found = (each.modification_at(self.world.now_s) for each in self._moved())
        return (each for each in found if each is not None and each.is_in_progress)

    def modifications_by_id(self, volume_ids: Iterable[str]) -> ModificationsRead:
        wanted = set(volume_ids)
        found = {
            each.volume_id: each.modification_at(self.world.now_s)
            for each in self._moved()
            if each.volume_id in wanted
        }
        return ModificationsRead(modifications={i: each for i, each in found.items() if each is not None})

    def provisioned_iops(self, volume_type: VolumeType) -> int:
        """What these volumes take of the account's quota; that of others nobody has recorded."""
        shown = (each.shown_at(self.world.now_s) for each in self._moved())
        return sum(each.provisioned_iops or 0 for each in shown if each.volume_type == volume_type)

    def _moved(self) -> Iterator[RecordedVolume]:
        return (each for each in self.world.volumes.values() if each.moves)


@dataclass(slots=True)
class RecordedCloudWatch:
    """CloudWatch; ``asked`` counts the metrics that AWS would have billed, by the subject's id."""

    world: World
    asked: Counter[str] = field(default_factory=Counter)

    def read(
        self,
        queries: Iterable[MetricQuery],
        start_s: float,
        end_s: float,
        *,
        on_batch: Callable[[], None] = lambda: None,  # noqa: ARG002 - it takes no time
    ) -> MetricsRead:
        until_s = self.world.visible_until_s(end_s)
        start_s = start_s // PERIOD_S * PERIOD_S
        series: dict[MetricQuery, Series] = {}
        for query in queries:
            self.asked[query.subject_id] += 1
            volume = self.world.volumes.get(query.subject_id)
            series[query] = (
                Series() if volume is None else self._series(volume, query.metric, start_s, until_s)
            )
        return MetricsRead(series=series)

    def _series(self, volume: RecordedVolume, metric: str, start_s: float, until_s: float) -> Series:
        match metric:
            case "BurstBalance":
                return volume.balance(start_s, until_s, self.world.now_s)
            case "VolumeReadOps":
                return volume.recording.reads.between(start_s, until_s)
            case _:
                return volume.recording.writes.between(start_s, until_s)


@dataclass(slots=True)
class CountedCauses:
    """Reads nothing of what drained a volume, because no alert is sent; counts what that would cost."""

    asked: Counter[str]

    def read(self, volume_ids: Sequence[str], now_s: float) -> CausesRead:  # noqa: ARG002 - the reader's signature
        self.asked.update(dict.fromkeys(volume_ids[:MOST_VOLUMES], METRICS_PER_VOLUME))
        return CausesRead()


@dataclass(slots=True)
class RecordedModifier:
    """ModifyVolume, which takes everything: the watchdog's own guards know AWS's rules."""

    world: World

    def modify(self, volume_id: str, configuration: Configuration, *, dry_run: bool = False) -> Accepted:
        assert not dry_run, "the watchdog means it"
        return Accepted(modification=self.world.volumes[volume_id].modify(configuration, self.world.now_s))
