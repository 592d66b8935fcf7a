"""When a bucket is empty: a bound that no workload can beat, and an estimate from observed samples.

The bound: ``soonest_empty = credits / highest drain - age of the sample``. On gp2 the highest drain is
``3000 - baseline`` credits per second.

The estimate: over a horizon ``h`` the drain rate is ``(credits then - credits now) / h``. A drain is
extrapolated for at most three times as long as it has lasted, so a horizon ``h`` counts if it predicts
"empty within ``3 h``". Of the horizons that count, the one that predicts the earliest time is taken. If none
counts, the longest horizon is taken. So five minutes of drain can predict a quarter of an hour, and one noisy
minute very little. One quiet minute does not hide what the longer horizons show.

The longest horizon of an EFS file system is ten hours. A drain that began an hour ago is not one noisy
minute, and over ten hours it hardly shows. So if no horizon counts, the shortest of half an hour or more is
taken, up to the 50 minutes that are five of a gp2 volume. A drain that began within the last half hour is
measured from its first lower datapoint, because the load may have risen in the middle of a period. It still
enters no level.

Most bursts end by themselves, so this estimate is enough for a warning only. A drain is *confirmed* when it
has lasted twice as long as the time that remains. It then counts with its rate, or with the slowest rate over
the last 20 minutes if that is lower.

Worked examples, in minutes: a gp2 volume of 100 GiB (300 IOPS) was full, has drained steadily, and its newest
sample is 1 min old. One per cent of the bucket is 54,000 credits; at full burst it loses 3 % a minute::

    balance  drain a minute  lasted  soonest empty  estimate  counts  confirmed
       40 %       3.0 %          5       12.3          12.3    yes       -
       40 %       3.0 %         20       12.3          12.3    yes       -
       10 %       3.0 %         30        2.3           2.3    yes      2.3
       40 %       1.0 %         30       12.3          39.0    yes       -
       40 %       0.5 %         60       12.3          79.0    yes       -
       40 %       3.0 %          1       12.3         799.0    no        -

In the last row the newest minute is the only one that fell. Over five minutes the rate is 0.6 % a minute,
which predicts 66 minutes; five minutes of drain are not extrapolated so far. The longest horizon, an hour,
predicts 799.

The horizons, the factor of 3 and the confirmation were compared on recorded workloads; see
``docs/decisions/0003`` and ``docs/decisions/0015``; of file systems, ``docs/decisions/0018``.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.series import Series
from burstwatch.core.durations import MINUTE_S

HORIZONS_MIN: Final = (3, 5, 10, 15, 20, 30, 45, 60)
"""Minutes over which a drain is measured: at least three, because one minute is too noisy to predict by.

These and the other spans here are those of a gp2 volume; a bucket multiplies them by its ``time_scale``.
"""
_MIN_PERIODS: Final = 2
"""A horizon has at least three datapoints, so metrics of five minutes are measured over ten and more."""
EXTRAPOLATION_FACTOR: Final = 3
"""A drain is extrapolated for at most this many times its duration: see ``docs/decisions/0003``."""
CONFIRMATION_FACTOR: Final = 0.5
"""A drain is confirmed for at most this share of its duration: see ``docs/decisions/0015``."""

# A pause of the last 20 minutes speaks against a drain that lasted an hour; an older one does not.
_SHORT_HORIZON_S: Final = 20 * 60
# Full burst empties 30 % of a bucket in ten minutes: a shorter span would follow every pause of the load.
_RECENT_S: Final = 10 * 60

_NO_NOISE_S: Final = 30 * 60
"""A judgement: a drain of half an hour is not the noise of single minutes."""
_STEADY_DRAIN_MIN: Final = 5
"""Over this many minutes the balance must have fallen for the volume to count as draining steadily."""
_MIN_DRAIN_PER_S: Final = 0.01
"""A slower drain takes 17 years to empty a full gp2 bucket: it is rounding of the percentage, not a drain."""
_LONGEST_DRAIN_S: Final = 1_000 * 365 * 86_400
"""A full bucket that lasts a thousand years does not drain: one of terabytes that lost 1 KiB."""
_MAX_HORIZON_STRETCH: Final = 1.5
"""If samples are missing, a horizon may use an older sample, at most this many times as old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRate:
    """Mean credits lost per second over the last ``duration_s`` seconds; negative when refilling."""

    duration_s: int
    credits_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When the bucket is empty: every time is in seconds from now, 0 or more.

    Attributes:
        is_draining: whether the balance falls, as the levels count it; true for a single fall if there are
            too few samples to measure. False if no horizon counts and the longest shows no drain.
        drain_per_s: credits lost per second by the rate that was chosen; negative when the bucket refills.
        soonest_empty_s: the bound; None for a bucket that cannot drain.
        time_to_empty_s: the estimate, never earlier than the bound; None if the balance does not fall.
        is_within_extrapolation: whether the drain has lasted at least a third of the time that it predicts.
            If not, the estimate is the mean over the longest horizon, of EFS over at most the last half hour,
            and it enters no level.
        leaving_empty_s: the estimate by which a level is left: ``time_to_empty_s``, but over the longest
            horizon if none counts.
        earliest_s: the estimate of the fastest horizon.
        latest_s: the estimate of the slowest horizon; None if some horizon shows no drain.
        confirmed_empty_s: when a confirmed drain has emptied the bucket; None if none is confirmed.
        recent_rate_empty_s: the estimate by the rate of the last ten minutes; None if the balance did not
            fall.
        drain_rates: the rate over each horizon that has samples, the shortest first.
        begun_drain: a drain that began within half an hour, if the estimate is by it and by no horizon.
    """

    is_draining: bool
    drain_per_s: float | None
    soonest_empty_s: float | None
    time_to_empty_s: float | None = None
    is_within_extrapolation: bool = False
    leaving_empty_s: float | None = None
    earliest_s: float | None = None
    latest_s: float | None = None
    confirmed_empty_s: float | None = None
    recent_rate_empty_s: float | None = None
    drain_rates: tuple[DrainRate, ...] = ()
    begun_drain: DrainRate | None = None

    @property
    def is_refilling(self) -> bool:
        """Whether it gained credits over five minutes; a bucket that is kept empty does not."""
        return not self.is_draining and self.drain_per_s is not None and self.drain_per_s < 0


def describe_trend(drain_per_s: float | None) -> str:
    """Describe in words a balance that has no estimate, by its drain in credits per second."""
    if drain_per_s is None:
        return "no trend yet"
    rate = round(drain_per_s)
    return "refilling" if rate < 0 else "no steady drain" if rate else "not draining"


def drain_rates_by_horizon(balance: Series, bucket: Bucket) -> tuple[DrainRate, ...]:
    """Measure the drain up to the newest sample, the shortest horizon first.

    A horizon without a sample at its beginning is left out. Two horizons that end at the same older sample,
    because samples are missing, are one.
    """
    newest = balance.newest
    if newest is None:
        return ()
    least_per_s = max(_MIN_DRAIN_PER_S, bucket.capacity / _LONGEST_DRAIN_S)
    rates_by_duration: dict[int, DrainRate] = {}
    for minutes in HORIZONS_MIN:
        horizon_s = minutes * MINUTE_S * bucket.time_scale
        if horizon_s < _MIN_PERIODS * balance.period_s:
            continue
        earlier = balance.newest_at_or_before(newest.start_at_s - horizon_s)
        if earlier is None or newest.start_at_s - earlier.start_at_s > horizon_s * _MAX_HORIZON_STRETCH:
            continue
        duration_s = newest.start_at_s - earlier.start_at_s
        credits_lost = bucket.credits_in(earlier.value - newest.value)
        is_drain = abs(credits_lost) >= least_per_s * duration_s
        rates_by_duration[duration_s] = DrainRate(
            duration_s=duration_s, credits_per_s=credits_lost / duration_s if is_drain else 0.0
        )
    return tuple(rates_by_duration.values())


def has_not_fallen_for(balance: Series, duration_s: int, *, allowed_falls: int = 1) -> bool:
    """Whether the balance is at least what it was ``duration_s`` seconds ago and has hardly fallen since.

    Up to ``allowed_falls`` minutes in which it fell are ignored, but never the newest minute. False if the
    samples do not reach back that far.
    """
    newest = balance.newest
    if newest is None or balance.newest_at_or_before(newest.start_at_s - duration_s) is None:
        return False
    first = bisect_right(balance.starts_at_s, newest.start_at_s - duration_s) - 1
    values = balance.values[first:]
    falls = [later < earlier for earlier, later in pairwise(values)]
    return values[-1] >= values[0] and sum(falls) <= allowed_falls and not falls[-1]


def forecast(balance: Series, *, bucket: Bucket, age_s: float) -> Forecast:
    """Predict when a bucket with these balance samples is empty, counted from now.

    Example: 44 % of a 100 GiB gp2 volume are 2,376,000 credits. At 2,700 a second they last 880 s. If the
    minute of the sample ended 240 s ago, ``soonest_empty_s`` is 640.

    Args:
        balance: minima of closed periods in per cent of the capacity, at least one.
        bucket: the bucket that the samples belong to.
        age_s: seconds from the end of the newest sample's period to now; 0 or more.

    Raises:
        ValueError: there is no sample.
    """
    newest = balance.newest
    if newest is None:
        raise ValueError("no sample to forecast from; an unknown balance has no forecast")
    credits_left = bucket.credits_in(newest.value)
    highest_drain = bucket.highest_drain_per_s
    drain_rates = drain_rates_by_horizon(balance, bucket)
    soonest = max(0.0, credits_left / highest_drain - age_s) if highest_drain else None
    five_minute_rate = _five_minute_rate(drain_rates, bucket.time_scale)
    estimate = _select_estimate(drain_rates, five_minute_rate, credits_left)
    if soonest is None or estimate is None:
        empty_s = 0.0 if soonest is not None and credits_left <= 0 else None
        return Forecast(
            is_draining=soonest is not None and not drain_rates and _fell_in_newest_sample(balance),
            drain_per_s=five_minute_rate.credits_per_s if five_minute_rate else None,
            soonest_empty_s=soonest,
            time_to_empty_s=empty_s,
            leaving_empty_s=empty_s,
            drain_rates=drain_rates,
        )
    # Every estimate counts from now, so the age of the sample is subtracted; none may beat the bound.
    rates = [drain_rate.credits_per_s for drain_rate in drain_rates]
    is_within_extrapolation = _is_within_extrapolation(estimate, credits_left)
    begun_drain = None if is_within_extrapolation else _find_begun_drain(balance, bucket)
    if begun_drain is not None and begun_drain.credits_per_s <= estimate.credits_per_s:
        begun_drain = None  # its newest part is the slower one
    estimate = begun_drain or estimate

    def empty_in(rate: float) -> float:
        return max(soonest, credits_left / rate - age_s)

    leaving_rate = estimate.credits_per_s if is_within_extrapolation else rates[-1]
    confirmed_rate = _confirmed_rate(drain_rates, credits_left, age_s, bucket.time_scale)
    recent_rate = _recent_rate(drain_rates, bucket.time_scale)
    return Forecast(
        is_draining=leaving_rate > 0,
        drain_per_s=estimate.credits_per_s,
        soonest_empty_s=soonest,
        time_to_empty_s=empty_in(estimate.credits_per_s),
        is_within_extrapolation=is_within_extrapolation,
        leaving_empty_s=empty_in(leaving_rate) if leaving_rate > 0 else None,
        earliest_s=empty_in(max(*rates, estimate.credits_per_s)),
        latest_s=empty_in(min(rates)) if min(rates) > 0 else None,
        confirmed_empty_s=empty_in(confirmed_rate) if confirmed_rate > 0 else None,
        recent_rate_empty_s=empty_in(recent_rate) if recent_rate > 0 else None,
        drain_rates=drain_rates,
        begun_drain=begun_drain,
    )


def _find_begun_drain(balance: Series, bucket: Bucket) -> DrainRate | None:
    """A drain that began within half an hour, from its first lower datapoint on; else None.

    If only the newest datapoint is lower, it is measured from the one before. None as well for a bucket that
    is measured over shorter spans: single minutes are too noisy.
    """
    if _STEADY_DRAIN_MIN * MINUTE_S * bucket.time_scale < _NO_NOISE_S:
        return None
    values, starts_at_s = balance.values, balance.starts_at_s
    newest = before = len(values) - 1
    while before > 0 and values[before] < values[before - 1]:
        before -= 1
    if before == newest:
        return None
    first = min(before + 1, newest - 1)
    duration_s = starts_at_s[newest] - starts_at_s[first]
    if duration_s >= _NO_NOISE_S:
        return None
    credits_lost = bucket.credits_in(values[first] - values[newest])
    return DrainRate(duration_s=duration_s, credits_per_s=credits_lost / duration_s)


def _five_minute_rate(drain_rates: tuple[DrainRate, ...], time_scale: int) -> DrainRate | None:
    """The drain over about five minutes, or over the longest horizon if the samples do not reach so far."""
    least_s = _STEADY_DRAIN_MIN * MINUTE_S * time_scale
    longer = (drain_rate for drain_rate in drain_rates if drain_rate.duration_s >= least_s)
    return next(longer, drain_rates[-1] if drain_rates else None)


def _select_estimate(
    drain_rates: tuple[DrainRate, ...], five_minute_rate: DrainRate | None, credits_left: float
) -> DrainRate | None:
    """Choose the drain rate that the estimate uses; None if the bucket is not draining."""
    # A balance that did not fall for five minutes is not draining, even if a longer horizon lost credits:
    # that burst is over. Only a shorter horizon that counts can contradict it: the burst has just begun.
    falling = [drain_rate for drain_rate in drain_rates if drain_rate.credits_per_s > 0]
    usable = [drain_rate for drain_rate in falling if _is_within_extrapolation(drain_rate, credits_left)]
    if five_minute_rate is None or (
        five_minute_rate.credits_per_s <= 0
        and (not usable or usable[0].duration_s > five_minute_rate.duration_s)
    ):
        return None
    if usable:
        return min(usable, key=lambda d: credits_left / d.credits_per_s)
    lasting = (d for d in falling if _NO_NOISE_S <= d.duration_s <= five_minute_rate.duration_s)
    longest = drain_rates[-1]
    return next(lasting, longest if longest.credits_per_s > 0 else None)


def _is_within_extrapolation(drain_rate: DrainRate, credits_left: float) -> bool:
    return credits_left / drain_rate.credits_per_s <= EXTRAPOLATION_FACTOR * drain_rate.duration_s


def _confirmed_rate(
    drain_rates: tuple[DrainRate, ...], credits_left: float, age_s: float, time_scale: int
) -> float:
    """The confirmed drain rate; 0 or less if no drain is confirmed.

    It is the fastest rate that qualifies, limited by the slowest rate of the last 20 minutes.
    """
    falling = [drain_rate for drain_rate in drain_rates if drain_rate.credits_per_s > 0]
    confirmed_rates = [
        d.credits_per_s
        for d in falling
        if credits_left / d.credits_per_s - age_s <= CONFIRMATION_FACTOR * d.duration_s
    ]
    short_s = _SHORT_HORIZON_S * time_scale
    short_rates = [d.credits_per_s for d in drain_rates if d.duration_s <= short_s] or [
        drain_rates[-1].credits_per_s
    ]
    return min(max(confirmed_rates), *short_rates) if confirmed_rates else 0.0


def _recent_rate(drain_rates: tuple[DrainRate, ...], time_scale: int) -> float:
    recent_s = _RECENT_S * time_scale
    return next(
        (d.credits_per_s for d in drain_rates if d.duration_s >= recent_s), drain_rates[-1].credits_per_s
    )


def _fell_in_newest_sample(balance: Series) -> bool:
    """Whether the newest sample is lower than the one before: all that is known without a horizon."""
    last = balance.last(2)
    return len(last) == 2 and last[1] < last[0]  # noqa: PLR2004 - the newest sample and the one before
