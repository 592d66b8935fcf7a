"""The services that a pass uses: readers, the ledger, channels and limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import time
from typing import TYPE_CHECKING

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.adapters.notify.channel import AlertChannel
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.type_availability import (
    REFUSAL_MEMORY_S,
    placement_of,
    readable_refusals,
    unavailable_types,
)
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.collector import Collector

if TYPE_CHECKING:
    from burstwatch.core.ledger.ledger_entry import LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that a pass uses; without a ``modifier`` it decides and alerts, and modifies nothing.

    With ``flip_queue``, another process makes the modifications, with the same ledger. Without
    ``drain_metrics_reader``, alerts do not explain what drained a volume. File systems need ``efs``, and
    databases ``rds``.

    ``report_progress`` is called with the number of volumes done and the number of all. ``clock`` is for code
    that starts a pass without a given time, and returns seconds since 1970.

    ``should_stop`` is called between two chunks of volumes, two orders and two alerts: if it returns true,
    the pass starts nothing more, and the next pass does the rest. ``read_limit_s`` limits the seconds in
    which a pass reads AWS before it decides; it acts on what it has read by then.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    ledger: Ledger
    calls: CallCounter
    policy: Policy
    location: AwsLocation
    channels: Sequence[AlertChannel] = ()
    modifier: Ec2Modifier | None = None
    flip_queue: FlipQueue | None = None
    drain_metrics_reader: DrainMetricsReader | None = None
    efs: EfsReader | None = None
    rds: RdsReader | None = None
    report_progress: Callable[[int, int], None] = lambda _done, _total: None
    clock: Callable[[], float] = time
    should_stop: Callable[[], bool] = lambda: False
    read_limit_s: float = inf

    @property
    def channel_names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    def unavailable_types(
        self, volumes: Iterable[Volume], now_s: float
    ) -> dict[str, Mapping[VolumeType, str]]:
        """By volume id, the types that do not exist where it is; the ledger is read once for each place.

        A history entry of a place that is not a refusal is reported as unreadable, and blocks no flip.
        """
        refusals: dict[str | None, Sequence[LedgerEntry]] = {None: ()}
        types_by_volume: dict[str, Mapping[VolumeType, str]] = {}
        for volume in volumes:
            location = placement_of(volume)
            if location is not None and location not in refusals:
                since_s = int(now_s) - REFUSAL_MEMORY_S
                entries = self.ledger.entries(location, since_s=since_s)
                refusals[location], unread = readable_refusals(entries, now_s)
                for item in unread:
                    self.ledger.note_unreadable(item)
            types_by_volume[volume.volume_id] = unavailable_types(volume, refusals[location])
        return types_by_volume

    def build_collector(self, now_s: float) -> Collector:
        """What one pass reads from AWS."""
        return Collector(
            ec2=self.ec2,
            cloudwatch=self.cloudwatch,
            now_s=now_s,
            gap_after_s=self.policy.telemetry.gap_after.total_seconds(),
            metric_lag_s=self.policy.cadence.metric_lag.total_seconds(),
            volume_types=self.policy.resources.volume_types,
            watches_instances=self.policy.resources.instance.watch,
            drain_metrics_reader=self.drain_metrics_reader,
            efs=self.efs,
            rds=self.rds,
        )
