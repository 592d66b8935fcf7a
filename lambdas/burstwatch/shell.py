"""What a pass stands on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import time

from burstwatch.adapters.calls import CallCounter
from burstwatch.adapters.causes import CauseReader
from burstwatch.adapters.channel import Channel
from burstwatch.adapters.cloudwatch import CloudWatchReader
from burstwatch.adapters.ec2 import Ec2Reader
from burstwatch.adapters.ec2_modify import Ec2Modifier
from burstwatch.adapters.flip_queue import FlipQueue
from burstwatch.core.ledger import Ledger
from burstwatch.core.place import Place
from burstwatch.core.policy import Policy
from burstwatch.gather import Gathering


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
