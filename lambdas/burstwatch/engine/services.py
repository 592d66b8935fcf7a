"""What a pass stands on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import time

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import CauseReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.notify.channel import Channel
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.type_availability import (
    REMEMBERED_FOR_S,
    location_of,
    readable_refusals,
    unavailable_types,
)
from burstwatch.core.ledger.ledger import Ledger, LedgerEntry
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.collector import Gathering


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What a pass stands on; without a ``modifier`` it decides and tells, and modifies nothing.

    With ``requests`` it asks another process to modify, by the same ledger. Without ``causes`` its alerts say
    nothing of what drained a volume.

    ``report_progress`` hears how many volumes are done, and of how many. ``clock`` is for whoever starts a
    pass without being told the time.

    ``should_stop`` is asked between two chunks of volumes, two orders and two alerts: a pass that should stop
    starts nothing more, and what it leaves is for the next one. ``look_within_s`` limits the time in which a
    pass reads AWS before it decides; it acts on what it has read by then.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    ledger: Ledger
    calls: CallCounter
    policy: Policy
    place: Place
    channels: Sequence[Channel] = ()
    modifier: Ec2Modifier | None = None
    requests: FlipQueue | None = None
    causes: CauseReader | None = None
    report_progress: Callable[[int, int], None] = lambda _done, _total: None
    clock: Callable[[], float] = time
    should_stop: Callable[[], bool] = lambda: False
    look_within_s: float = inf

    @property
    def channel_names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    def unavailable_types(
        self, volumes: Iterable[Volume], now_s: float
    ) -> dict[str, Mapping[VolumeType, str]]:
        """By volume id, the types that do not exist where it is; the ledger is read once for each place.

        A history entry of a place that is not a refusal is noted as unreadable and blocks no flip.
        """
        refusals: dict[str | None, Sequence[LedgerEntry]] = {None: ()}
        found: dict[str, Mapping[VolumeType, str]] = {}
        for volume in volumes:
            location = location_of(volume)
            if location is not None and location not in refusals:
                since_s = int(now_s) - REMEMBERED_FOR_S
                entries = self.ledger.entries(location, since_s=since_s)
                refusals[location], unread = readable_refusals(entries, now_s)
                for one in unread:
                    self.ledger.note_unreadable(one)
            found[volume.volume_id] = unavailable_types(volume, refusals[location])
        return found

    def gathering(self, now_s: float) -> Gathering:
        """What one pass reads from AWS."""
        return Gathering(
            ec2=self.ec2,
            cloudwatch=self.cloudwatch,
            now_s=now_s,
            gap_after_s=self.policy.telemetry.gap_after.total_seconds(),
            metric_lag_s=self.policy.cadence.metric_lag.total_seconds(),
            causes=self.causes,
        )
