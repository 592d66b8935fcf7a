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
BELIEVED_FOR: Final = 3
"""A drain that lasted a minute is believed for this many minutes to come."""
CONFIRMED_FOR: Final = 0.5
"""And it is confirmed for this many."""

_SHORT_S: Final = 20 * 60
_PACE_S: Final = 10 * 60

_SETTLED_MIN: Final = 5
"""Over this many minutes the balance must have fallen for the volume to count as draining steadily."""
_LEAST_DRAIN_PER_S: Final = 0.01
"""Slower than this a full bucket lasts for 17 years: rounding, not a drain."""
_LONGEST_STRETCH: Final = 1.5
"""With gaps, a horizon may reach back to a sample at most this much older than it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Mean credits lost per second over the last ``span_s`` seconds; negative when refilling."""

    span_s: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When the bucket is empty, in seconds from now.

    ``soonest_empty_s`` is None for a volume that cannot run dry. ``time_to_empty_s`` is None when the volume
    is not draining; ``earliest_s`` and ``latest_s`` are the estimates of the fastest and the slowest horizon,
    ``latest_s`` None where some horizon saw no drain at all. The estimate is believed
    when the drain has lasted a third of what it is said to go on for; otherwise it is the mean of as far back
    as the samples reach. ``confirmed_s`` is when a confirmed drain has emptied it, None where there is none;
    ``at_pace_s`` when the pace of the last ten minutes has, None where it did not fall in them.
    """

    draining: bool
    drain_per_s: float | None
    soonest_empty_s: float | None
    time_to_empty_s: float | None = None
    is_believed: bool = False
    earliest_s: float | None = None
    latest_s: float | None = None
    confirmed_s: float | None = None
    at_pace_s: float | None = None
    drains: tuple[Drain, ...] = ()

    @property
    def refills(self) -> bool:
        """Whether it gained over five minutes; a bucket that is held at empty does not."""
        return not self.draining and self.drain_per_s is not None and self.drain_per_s < 0


def standing_words(drain_per_s: float | None) -> str:
    """What a balance without an estimate does, by its drain in credits per second."""
    if drain_per_s is None:
        return "no trend yet"
    rate = round(drain_per_s)
    return "refilling" if rate < 0 else "no steady drain" if rate else "not draining"


def drains_over_horizons(balance: Series, bucket: Bucket) -> tuple[Drain, ...]:
    """Drain rates up to the newest sample, shortest horizon first; horizons without samples are left out."""
    newest = balance.newest
    if newest is None:
        return ()
    found: dict[int, Drain] = {}
    for minutes in HORIZONS_MIN:
        horizon_s = minutes * PERIOD_S
        then = balance.newest_at_or_before(newest.start_s - horizon_s)
        if then is None or newest.start_s - then.start_s > horizon_s * _LONGEST_STRETCH:
            continue
        span_s = newest.start_s - then.start_s
        lost = bucket.credits_in(then.value - newest.value)
        is_drain = abs(lost) >= _LEAST_DRAIN_PER_S * span_s
        found[span_s] = Drain(span_s=span_s, per_s=lost / span_s if is_drain else 0.0)
    return tuple(found.values())


def not_falling_for(balance: Series, span_s: int, *, forgiven: int = 1) -> bool:
    """Whether the balance is no lower than ``span_s`` ago and has hardly fallen since.

    So many minutes in which it fell are forgiven, but never the newest.
    """
    newest = balance.newest
    if newest is None or balance.newest_at_or_before(newest.start_s - span_s) is None:
        return False
    first = bisect_right(balance.starts_s, newest.start_s - span_s) - 1
    seen = balance.values[first:]
    falls = [later < earlier for earlier, later in pairwise(seen)]
    return seen[-1] >= seen[0] and sum(falls) <= forgiven and not falls[-1]


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
    worst = bucket.highest_drain_per_s
    drains = drains_over_horizons(balance, bucket)
    soonest = max(0.0, credits_left / worst - age_s) if worst else None
    settled = _settled(drains)
    believed = _believed(drains, settled, credits_left)
    if soonest is None or believed is None:
        return Forecast(
            draining=soonest is not None and not drains and _fell_last(balance),
            drain_per_s=settled.per_s if settled else None,
            soonest_empty_s=soonest,
            time_to_empty_s=0.0 if soonest is not None and credits_left <= 0 else None,
            drains=drains,
        )
    rates = [drain.per_s for drain in drains]

    def empty_in(rate: float) -> float:
        return max(soonest, credits_left / rate - age_s)

    confirmed, pace = _confirmed_rate(drains, credits_left, age_s), _pace(drains)
    return Forecast(
        draining=True,
        drain_per_s=believed.per_s,
        soonest_empty_s=soonest,
        time_to_empty_s=empty_in(believed.per_s),
        is_believed=_counts(believed, credits_left),
        earliest_s=empty_in(max(rates)),
        latest_s=empty_in(min(rates)) if min(rates) > 0 else None,
        confirmed_s=empty_in(confirmed) if confirmed > 0 else None,
        at_pace_s=empty_in(pace) if pace > 0 else None,
        drains=drains,
    )


def _settled(drains: tuple[Drain, ...]) -> Drain | None:
    """The drain over about five minutes, or over the longest horizon where there is less."""
    longer = (drain for drain in drains if drain.span_s >= _SETTLED_MIN * PERIOD_S)
    return next(longer, drains[-1] if drains else None)


def _believed(drains: tuple[Drain, ...], settled: Drain | None, credits_left: float) -> Drain | None:
    """The drain whose word counts; None where the volume is not draining."""
    falling = [drain for drain in drains if drain.per_s > 0]
    counting = [drain for drain in falling if _counts(drain, credits_left)]
    if settled is None or (settled.per_s <= 0 and (not counting or counting[0].span_s > settled.span_s)):
        return None
    if counting:
        return min(counting, key=lambda d: credits_left / d.per_s)
    longest = drains[-1]
    return longest if longest.per_s > 0 else None


def _counts(drain: Drain, credits_left: float) -> bool:
    return credits_left / drain.per_s <= BELIEVED_FOR * drain.span_s


def _confirmed_rate(drains: tuple[Drain, ...], credits_left: float, age_s: float) -> float:
    """The drain that is confirmed until the bucket is empty; 0 or less where none is."""
    falling = [drain for drain in drains if drain.per_s > 0]
    confirmed = [d.per_s for d in falling if credits_left / d.per_s - age_s <= CONFIRMED_FOR * d.span_s]
    short = [d.per_s for d in drains if d.span_s <= _SHORT_S] or [drains[-1].per_s]
    return min(max(confirmed), *short) if confirmed else 0.0


def _pace(drains: tuple[Drain, ...]) -> float:
    return next((d.per_s for d in drains if d.span_s >= _PACE_S), drains[-1].per_s)


def _fell_last(balance: Series) -> bool:
    """All that can be said of a volume with too few samples for any horizon."""
    last = balance.last(2)
    return len(last) == 2 and last[1] < last[0]  # noqa: PLR2004 - the newest sample and the one before
