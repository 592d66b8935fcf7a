"""How far a bucket's credits can be known: bands of what it can hold, moved through time.

As gp2, a bucket earns its baseline and each operation takes a credit, between empty and full. What CloudWatch
does not show widens the bounds: when in a minute the operations came, and how exactly they are counted. The
moment in its period at which a datapoint was read, and its rounding, do so as well.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple, Protocol

from burstwatch.core.buckets.series import PERIOD_S, Sample, Series
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, baseline_iops

NOISE_PCT: Final = 1.0
"""The possible error of a datapoint: the rounding of BurstBalance is not documented."""

EARNING_ERROR: Final = 0.05
"""The share by which what is earned may differ from the baseline."""

SPENDING_ERROR: Final = 0.10
"""The share by which the credits taken may differ from the operations that CloudWatch counts."""

FULL_CREDITS: Final = float(BUCKET_CREDITS)
MAX_PERIOD_S: Final = 300
"""CloudWatch usually collects every minute, otherwise every five."""

_NOISE_CREDITS: Final = NOISE_PCT * CREDITS_PER_PCT + 1.0
"""One credit more, so that rounding of floats decides nothing."""


class Bounds(NamedTuple):
    """The least and the most that something can be: credits, or per cent of a full bucket."""

    low: float
    high: float

    def overlaps(self, other: "Bounds") -> bool:
        """Whether some value is within both."""
        return self.low <= other.high and other.low <= self.high

    def clip(self, low: float, high: float) -> "Bounds | None":
        """The part of it within these bounds, or None."""
        clipped = Bounds(max(self.low, low), min(self.high, high))
        return clipped if clipped.low <= clipped.high else None

    def in_pct(self) -> "Bounds":
        """Credits as per cent of the bucket."""
        return Bounds(self.low / CREDITS_PER_PCT, self.high / CREDITS_PER_PCT)

    def __str__(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f} %"


ANY_CREDITS: Final = Bounds(0.0, FULL_CREDITS)

CreditModel = Callable[[Bounds, Bounds, Bounds], Bounds]
"""The credits at the end, from those at the start, those earned, and those that operations took."""

Segments = Sequence[tuple[float, CreditModel]]
"""How credits move until each of these moments, in their order."""


def burst_model(balance: Bounds, earned: Bounds, used: Bounds) -> Bounds:
    """As gp2. At worst it earns first and a full bucket loses some; at best it pays first."""
    low = max(0.0, min(FULL_CREDITS, balance.low + earned.low) - used.high)
    return Bounds(low, min(FULL_CREDITS, max(0.0, balance.high - used.low) + earned.high))


def burst_or_idle_model(balance: Bounds, earned: Bounds, used: Bounds) -> Bounds:
    """As gp2 or at rest, which may change at any moment."""
    return Bounds(max(0.0, balance.low - used.high), min(FULL_CREDITS, balance.high + earned.high))


def refill_model(balance: Bounds, earned: Bounds, used: Bounds) -> Bounds:
    """Not gp2, but earning as if it were; operations may take credits, or not."""
    min_gain = max(0.0, earned.low - used.high)
    return Bounds(min(FULL_CREDITS, balance.low + min_gain), min(FULL_CREDITS, balance.high + earned.high))


BURST_ONLY: Final[Segments] = ((inf, burst_model),)
BURST_OR_IDLE: Final[Segments] = ((inf, burst_or_idle_model),)
REFILL_ONLY: Final[Segments] = ((inf, refill_model),)


class Spending(Protocol):
    """The credits that operations took, as far as it is known."""

    def credits_spent(self, start_s: float, end_s: float) -> Bounds:
        """Those between two moments."""
        ...

    def split(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        """The time between two moments in parts that are known by themselves."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantLoad:
    """The same number of operations in every second."""

    iops: float

    def credits_spent(self, start_s: float, end_s: float) -> Bounds:
        ops = min(self.iops, BURST_IOPS) * (end_s - start_s)
        return Bounds(ops * (1 - SPENDING_ERROR), ops * (1 + SPENDING_ERROR))

    def split(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        return _split_at_periods(start_s, end_s, period_s=MAX_PERIOD_S, origin_s=0)


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Operations as CloudWatch counted them: a sum for each period, perhaps with gaps."""

    operations: Series
    _counts: dict[int, float] = field(init=False, repr=False, compare=False)
    _period_s: int = field(init=False, repr=False, compare=False)
    _origin_s: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts_s, period_s = self.operations.starts_at_s, metric_period_s(self.operations)
        counts = dict(zip(starts_s, self.operations.values, strict=True))
        object.__setattr__(self, "_counts", counts)
        object.__setattr__(self, "_period_s", period_s)
        object.__setattr__(self, "_origin_s", starts_s[0] % period_s if starts_s else 0)

    def credits_spent(self, start_s: float, end_s: float) -> Bounds:
        """In a gap, anything up to the limit; in a period that is cut, none to all of its operations."""
        low = high = 0.0
        for from_s, to_s in self.split(start_s, end_s):
            max_ops = BURST_IOPS * (to_s - from_s)
            period_start_s = (from_s - self._origin_s) // self._period_s * self._period_s + self._origin_s
            ops = self._counts.get(int(period_start_s))
            high += max_ops if ops is None else min(max_ops, ops * (1 + SPENDING_ERROR))
            if ops is not None and to_s - from_s >= self._period_s:
                low += min(max_ops, ops * (1 - SPENDING_ERROR))
        return Bounds(low, high)

    def split(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        return _split_at_periods(start_s, end_s, period_s=self._period_s, origin_s=self._origin_s)


def metric_period_s(series: Series, default_s: int = PERIOD_S) -> int:
    """The period of the datapoints: a minute, or five if none are closer together."""
    gaps_s = [later - earlier for earlier, later in pairwise(series.starts_at_s)]
    if not gaps_s:
        return default_s
    return PERIOD_S if any(gap_s % MAX_PERIOD_S for gap_s in gaps_s) else MAX_PERIOD_S


def _split_at_periods(
    start_s: float, end_s: float, *, period_s: int, origin_s: int
) -> Iterator[tuple[float, float]]:
    at_s = start_s
    while at_s < end_s:
        until_s = min(end_s, ((at_s - origin_s) // period_s + 1) * period_s + origin_s)
        yield at_s, until_s
        at_s = until_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketModel:
    """The credits of one volume; each datapoint is the balance at some moment of its ``period_s``."""

    size_gib: int
    spending: Spending
    period_s: int = PERIOD_S

    def advance(self, balance: Bounds, from_s: float, to_s: float, segments: Segments) -> Bounds:
        """What it holds later."""
        for start_s, end_s in self.spending.split(from_s, to_s):
            at_s = start_s
            for until_s, model in segments:
                segment_end_s = min(end_s, until_s)
                if at_s < segment_end_s:
                    balance = model(
                        balance,
                        self._earned(at_s, segment_end_s),
                        self.spending.credits_spent(at_s, segment_end_s),
                    )
                    at_s = segment_end_s
        return balance

    def track(
        self,
        balance: Bounds,
        from_s: float,
        samples: Iterable[Sample],
        segments: Segments,
        *,
        to_s: float | None = None,
    ) -> Bounds | None:
        """The credits after these datapoints, or at ``to_s``; None if one of them is impossible."""
        at_s, current = from_s, balance
        for sample in samples:
            end_s = sample.start_at_s + self.period_s
            for instant_s, limits in (
                (sample.start_at_s, self._bounds_at_start(sample)),
                (end_s, self._bounds_at_end(sample)),
            ):
                clipped = self.advance(current, at_s, instant_s, segments).clip(*limits)
                if clipped is None:
                    return None
                at_s, current = max(at_s, instant_s), clipped
        return current if to_s is None else self.advance(current, at_s, to_s, segments)

    def predict_sample(self, balance: Bounds, start_s: float) -> Bounds:
        """What a datapoint can be, in per cent, whose period begins with this in the bucket."""
        earned, used = self._flow_in_period(start_s)
        low = max(0.0, balance.low - used.high - _NOISE_CREDITS)
        return Bounds(low, min(FULL_CREDITS, balance.high + earned.high + _NOISE_CREDITS)).in_pct()

    def _bounds_at_start(self, sample: Sample) -> Bounds:
        earned, used = self._flow_in_period(sample.start_at_s)
        value = sample.value * CREDITS_PER_PCT
        return Bounds(value - _NOISE_CREDITS - earned.high, value + _NOISE_CREDITS + used.high)

    def _bounds_at_end(self, sample: Sample) -> Bounds:
        earned, used = self._flow_in_period(sample.start_at_s)
        value = sample.value * CREDITS_PER_PCT
        return Bounds(value - _NOISE_CREDITS - used.high, value + _NOISE_CREDITS + earned.high)

    def _flow_in_period(self, start_s: float) -> tuple[Bounds, Bounds]:
        end_s = start_s + self.period_s
        return self._earned(start_s, end_s), self.spending.credits_spent(start_s, end_s)

    def _earned(self, start_s: float, end_s: float) -> Bounds:
        credits_earned = baseline_iops(self.size_gib) * (end_s - start_s)
        return Bounds(credits_earned * (1 - EARNING_ERROR), credits_earned * (1 + EARNING_ERROR))
