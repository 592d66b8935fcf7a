"""When a bucket runs dry: a hard bound, and an estimate from what was seen.

The bound: credits leave no faster than the bucket's highest drain, ``3000 - baseline`` a second on gp2. The
estimate: over several horizons ``h`` the drain is ``(credits then - credits now) / h``. A drain is believed
for three times as long as it has lasted, so a horizon counts when it says "dry within 3 h"; of those that
count the soonest is taken, and where none counts the longest horizon speaks. Five minutes of drain can thus
announce a quarter of an hour, a single noisy minute can announce next to nothing, and one quiet minute does
not lull the longer horizons.

Most bursts end by themselves, so this estimate warns and no more. A drain is *confirmed* when it has lasted
twice as long as it has to go on, and no horizon of the last twenty minutes speaks against it.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.series import PERIOD_S, Series

HORIZONS_MIN: Final = (3, 5, 10, 15, 20, 30, 45, 60)
EXTRAPOLATION_FACTOR: Final = 3
"""A drain that lasted a minute is believed for this many minutes to come."""
CONFIRMATION_FACTOR: Final = 0.5
"""And it is confirmed for this many."""

_SHORT_HORIZON_S: Final = 20 * 60
_RECENT_S: Final = 10 * 60

_STEADY_DRAIN_MIN: Final = 5
"""Over this many minutes the balance must have fallen for the volume to count as draining steadily."""
_MIN_DRAIN_PER_S: Final = 0.01
"""Slower than this a full bucket lasts for 17 years: rounding, not a drain."""
_MAX_HORIZON_STRETCH: Final = 1.5
"""With gaps, a horizon may reach back to a sample at most this much older than it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRate:
    """Mean credits lost per second over the last ``duration_s`` seconds; negative when refilling."""

    duration_s: int
    credits_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When the bucket is empty, in seconds from now.

    ``soonest_empty_s`` is None for a volume that cannot run dry. ``time_to_empty_s`` is None when the volume
    is not draining; ``earliest_empty_at_s`` and ``latest_empty_at_s`` are the estimates of the fastest and
    the slowest horizon, ``latest_empty_at_s`` None where some horizon saw no drain at all. The estimate is
    believed when the drain has lasted a third of what it is said to go on for; otherwise it is the mean of as
    far back as the samples reach. ``confirmed_empty_s`` is when a confirmed drain has emptied it, None where
    there is none; ``recent_rate_empty_s`` when the pace of the last ten minutes has, None where it did not
    fall in them.
    """

    is_draining: bool
    drain_per_s: float | None
    soonest_empty_s: float | None
    time_to_empty_s: float | None = None
    is_within_extrapolation: bool = False
    earliest_s: float | None = None
    latest_s: float | None = None
    confirmed_empty_s: float | None = None
    recent_rate_empty_s: float | None = None
    drain_rates: tuple[DrainRate, ...] = ()

    @property
    def is_refilling(self) -> bool:
        """Whether it gained over five minutes; a bucket that is held at empty does not."""
        return not self.is_draining and self.drain_per_s is not None and self.drain_per_s < 0


def describe_trend(drain_per_s: float | None) -> str:
    """What a balance without an estimate does, by its drain in credits per second."""
    if drain_per_s is None:
        return "no trend yet"
    rate = round(drain_per_s)
    return "refilling" if rate < 0 else "no steady drain" if rate else "not draining"


def drain_rates_by_horizon(balance: Series, bucket: Bucket) -> tuple[DrainRate, ...]:
    """Drain rates up to the newest sample, shortest horizon first; horizons without samples are left out."""
    newest = balance.newest
    if newest is None:
        return ()
    rates_by_duration: dict[int, DrainRate] = {}
    for minutes in HORIZONS_MIN:
        horizon_s = minutes * PERIOD_S
        earlier = balance.newest_at_or_before(newest.start_at_s - horizon_s)
        if earlier is None or newest.start_at_s - earlier.start_at_s > horizon_s * _MAX_HORIZON_STRETCH:
            continue
        duration_s = newest.start_at_s - earlier.start_at_s
        credits_lost = bucket.credits_in(earlier.value - newest.value)
        is_drain = abs(credits_lost) >= _MIN_DRAIN_PER_S * duration_s
        rates_by_duration[duration_s] = DrainRate(
            duration_s=duration_s, credits_per_s=credits_lost / duration_s if is_drain else 0.0
        )
    return tuple(rates_by_duration.values())


def has_not_fallen_for(balance: Series, duration_s: int, *, allowed_falls: int = 1) -> bool:
    """Whether the balance is no lower than ``duration_s`` ago and has hardly fallen since.

    So many minutes in which it fell are forgiven, but never the newest.
    """
    newest = balance.newest
    if newest is None or balance.newest_at_or_before(newest.start_at_s - duration_s) is None:
        return False
    first = bisect_right(balance.starts_at_s, newest.start_at_s - duration_s) - 1
    values = balance.values[first:]
    falls = [later < earlier for earlier, later in pairwise(values)]
    return values[-1] >= values[0] and sum(falls) <= allowed_falls and not falls[-1]


def forecast(balance: Series, *, bucket: Bucket, age_s: float) -> Forecast:
    """When a bucket with these balance samples (per cent) is empty, counted from now.

    Args:
        balance: closed one-minute minima, at least one.
        bucket: what the samples are a balance of.
        age_s: seconds from the end of the newest sample's minute to now.
    """
    newest = balance.newest
    if newest is None:
        raise ValueError("no sample to forecast from; an unknown balance has no forecast")
    credits_left = bucket.credits_in(newest.value)
    highest_drain = bucket.highest_drain_per_s
    drain_rates = drain_rates_by_horizon(balance, bucket)
    soonest = max(0.0, credits_left / highest_drain - age_s) if highest_drain else None
    five_minute_rate = _five_minute_rate(drain_rates)
    estimate = _select_estimate(drain_rates, five_minute_rate, credits_left)
    if soonest is None or estimate is None:
        return Forecast(
            is_draining=soonest is not None and not drain_rates and _fell_in_newest_sample(balance),
            drain_per_s=five_minute_rate.credits_per_s if five_minute_rate else None,
            soonest_empty_s=soonest,
            time_to_empty_s=0.0 if soonest is not None and credits_left <= 0 else None,
            drain_rates=drain_rates,
        )
    rates = [drain_rate.credits_per_s for drain_rate in drain_rates]

    def empty_in(rate: float) -> float:
        return max(soonest, credits_left / rate - age_s)

    confirmed_rate, recent_rate = _confirmed_rate(drain_rates, credits_left, age_s), _recent_rate(drain_rates)
    return Forecast(
        is_draining=True,
        drain_per_s=estimate.credits_per_s,
        soonest_empty_s=soonest,
        time_to_empty_s=empty_in(estimate.credits_per_s),
        is_within_extrapolation=_is_within_extrapolation(estimate, credits_left),
        earliest_s=empty_in(max(rates)),
        latest_s=empty_in(min(rates)) if min(rates) > 0 else None,
        confirmed_empty_s=empty_in(confirmed_rate) if confirmed_rate > 0 else None,
        recent_rate_empty_s=empty_in(recent_rate) if recent_rate > 0 else None,
        drain_rates=drain_rates,
    )


def _five_minute_rate(drain_rates: tuple[DrainRate, ...]) -> DrainRate | None:
    """The drain over about five minutes, or over the longest horizon where there is less."""
    longer = (
        drain_rate for drain_rate in drain_rates if drain_rate.duration_s >= _STEADY_DRAIN_MIN * PERIOD_S
    )
    return next(longer, drain_rates[-1] if drain_rates else None)


def _select_estimate(
    drain_rates: tuple[DrainRate, ...], five_minute_rate: DrainRate | None, credits_left: float
) -> DrainRate | None:
    """The drain whose word counts; None where the volume is not draining."""
    falling = [drain_rate for drain_rate in drain_rates if drain_rate.credits_per_s > 0]
    usable = [drain_rate for drain_rate in falling if _is_within_extrapolation(drain_rate, credits_left)]
    if five_minute_rate is None or (
        five_minute_rate.credits_per_s <= 0
        and (not usable or usable[0].duration_s > five_minute_rate.duration_s)
    ):
        return None
    if usable:
        return min(usable, key=lambda d: credits_left / d.credits_per_s)
    longest = drain_rates[-1]
    return longest if longest.credits_per_s > 0 else None


def _is_within_extrapolation(drain_rate: DrainRate, credits_left: float) -> bool:
    return credits_left / drain_rate.credits_per_s <= EXTRAPOLATION_FACTOR * drain_rate.duration_s


def _confirmed_rate(drain_rates: tuple[DrainRate, ...], credits_left: float, age_s: float) -> float:
    """The drain that is confirmed until the bucket is empty; 0 or less where none is."""
    falling = [drain_rate for drain_rate in drain_rates if drain_rate.credits_per_s > 0]
    confirmed_rates = [
        d.credits_per_s
        for d in falling
        if credits_left / d.credits_per_s - age_s <= CONFIRMATION_FACTOR * d.duration_s
    ]
    short_rates = [d.credits_per_s for d in drain_rates if d.duration_s <= _SHORT_HORIZON_S] or [
        drain_rates[-1].credits_per_s
    ]
    return min(max(confirmed_rates), *short_rates) if confirmed_rates else 0.0


def _recent_rate(drain_rates: tuple[DrainRate, ...]) -> float:
    return next(
        (d.credits_per_s for d in drain_rates if d.duration_s >= _RECENT_S), drain_rates[-1].credits_per_s
    )


def _fell_in_newest_sample(balance: Series) -> bool:
    """All that can be said of a volume with too few samples for any horizon."""
    last = balance.last(2)
    return len(last) == 2 and last[1] < last[0]  # noqa: PLR2004 - the newest sample and the one before
