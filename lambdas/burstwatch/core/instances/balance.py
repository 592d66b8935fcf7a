"""What the balance of an instance's bucket shows: a reset to full, and the capacity behind it."""

from itertools import pairwise
from typing import Final

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.series import Series

_FULL_PCT: Final = 99.0
"""A reset ends here or above."""
_RESET_TOLERANCE_PCT: Final = 2.0
"""A rise counts as a reset only if it exceeds by this what an idle bucket gains in the time."""
_MIN_FALL_PCT: Final = 3.0
"""A smaller fall in all says too little about a capacity: the balance is rounded."""


def find_reset(balance: Series, bucket: Bucket) -> int | None:
    """When the balance was last reset to full, as the start of that datapoint; None if it was not.

    AWS says that a type supports its maximum for 30 minutes "at least once every 24 hours", and does not
    document a reset or its time. So none is assumed: it is recognised by a rise that is faster than the
    refill. Example: an idle m5.large gains 47.5 % an
    hour, so a jump from 40 % to 100 % in five minutes is a reset.
    """
    gain_pct_per_s = 100 * bucket.refill_per_s / bucket.capacity if bucket.capacity > 0 else 0.0
    samples = pairwise(zip(balance.starts_at_s, balance.values, strict=True))
    reset_at_s = None
    for (earlier_s, earlier_pct), (later_s, later_pct) in samples:
        gain_pct = gain_pct_per_s * (later_s - earlier_s) + _RESET_TOLERANCE_PCT
        if later_pct >= _FULL_PCT and later_pct - earlier_pct > gain_pct:
            reset_at_s = later_s
    return reset_at_s


def observed_capacity(balance: Series, load: Series, bucket: Bucket) -> float | None:
    """The capacity that explains how the balance fell under the measured load; None if it fell too little.

    It is None, too, if the refill of the bucket is not known. ``load`` is the sum of each period of
    ``balance``, in the unit of the bucket. Over the periods in which the balance fell, ``loss = load -
    refill`` credits are ``100 * loss / capacity`` per cent. Example: 5,000 IOPS on m5.large lose 1,400
    credits a second, 420,000 in five minutes. If the balance falls by 1.54 points in that time, the capacity
    is 27.3 million.
    """
    if not bucket.is_known:
        return None
    loads = dict(zip(load.starts_at_s, load.values, strict=True))
    loss = fallen_pct = 0.0
    for (earlier_s, earlier_pct), (later_s, later_pct) in pairwise(
        zip(balance.starts_at_s, balance.values, strict=True)
    ):
        is_next = later_s - earlier_s == balance.period_s
        if not is_next or later_pct >= earlier_pct or later_pct <= 0 or later_s not in loads:
            continue
        loss += loads[later_s] - bucket.refill_per_s * balance.period_s
        fallen_pct += earlier_pct - later_pct
    return 100 * loss / fallen_pct if loss > 0 and fallen_pct >= _MIN_FALL_PCT else None
