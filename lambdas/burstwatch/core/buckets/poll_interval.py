"""When to look at a bucket again, so that it cannot become empty unseen.

The rule: ``interval + lag + slack + lead <= credits / highest drain``. In the worst case a resource begins to
burst right after a look. The next look comes an interval later. A tick may be late by the slack, and its
reading may be as old as the lag. Then there must still be the lead for somebody to act. docs/guarantee.md
proves it.

The default times are lag 300 s, slack 60 s and lead 480 s: 840 s in all. For gp2 volumes that hold 95 % of
their 5.4 million credits, the rule yields::

    size       refill/s   highest drain/s   empty after   longest interval   swept every
    8 GiB           100             2,900       1,769 s              929 s         900 s
    100 GiB         300             2,700       1,900 s            1,060 s         900 s
    500 GiB       1,500             1,500       3,420 s            2,580 s       2,400 s
    900 GiB       2,700               300      17,100 s           16,260 s       3,600 s
    1,000 GiB     3,000                 0         never               none       3,600 s

Sweep ticks are 300 s apart here, and the policy allows an hour at the most.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import inf

from burstwatch.core.buckets.bucket import Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionTime:
    """What goes by besides the interval until somebody has acted, in seconds.

    A reading is shown ``lag_s`` after its time at the latest, a look comes ``slack_s`` late at most, and
    ``lead_s`` is kept for acting.
    """

    lag_s: float
    slack_s: float
    lead_s: float

    @property
    def total_s(self) -> float:
        return self.lag_s + self.slack_s + self.lead_s


def longest_interval_s(
    bucket: Bucket, credits_left: float, reaction: ReactionTime, *, age_s: float = 0.0
) -> float:
    """The longest interval in seconds the rule allows; negative when there is no time left to wait.

    A reading that is ``age_s`` old, older than the lag, counts with its own age: that long the bucket may
    have drained since. So the rule holds for datapoints that are late or come every five minutes, too.
    Infinite for a bucket that cannot drain.

    Example: 100 GiB of gp2 at 60 % hold 3.24 million credits, which last 1,200 s at 2,700 a second; less
    840 s that leaves 360 s.
    """
    if not bucket.highest_drain_per_s:
        return inf
    late_s = max(0.0, age_s - reaction.lag_s)
    return credits_left / bucket.highest_drain_per_s - reaction.total_s - late_s


def sweep_ticks(
    bucket: Bucket, threshold: float, reaction: ReactionTime, *, tick_s: float, max_interval_s: float
) -> int:
    """How many sweep ticks a calm bucket waits from look to look, at least one.

    A calm bucket is one that held at least ``threshold`` credits when it was last seen.
    """
    at_threshold_s = longest_interval_s(bucket, threshold, reaction)
    return max(1, int(min(at_threshold_s, max_interval_s) // tick_s))


def focus_interval_s(
    bucket: Bucket,
    credits_left: float,
    reaction: ReactionTime,
    *,
    tick_s: int,
    max_interval_s: float,
    age_s: float = 0.0,
) -> int:
    """Seconds from look to look of a bucket that is not calm: whole ticks, one at the least.

    Example: 100 GiB of gp2 with ticks of a minute and five minutes at most. The interval is five minutes at
    60 %, two at 50 %, every minute from 47 % down.
    """
    longest_s = longest_interval_s(bucket, credits_left, reaction, age_s=age_s)
    return max(1, int(min(longest_s, max_interval_s) // tick_s)) * tick_s


def is_sweep_due(resource_id: str, ticks: int, first_tick: int, last_tick: int) -> bool:
    """Whether a resource that is looked at every ``ticks`` ticks is due at one of the ticks first..last.

    Resources are spread evenly by a hash of their id; ticks are counted from the epoch.
    """
    if last_tick - first_tick + 1 >= ticks:
        return last_tick >= first_tick
    phase = int.from_bytes(sha256(resource_id.encode()).digest()[:4], "big") % ticks
    return (first_tick + (phase - first_tick) % ticks) <= last_tick
