"""How far a bucket's credits can be known: bands of what it can hold, moved through time.

As gp2 a bucket earns its baseline and each operation takes a credit, between nothing and full. What
CloudWatch does not tell widens the band: when in a minute operations came, how exactly they are counted,
at which moment of its period a datapoint was read, and how it is rounded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple, Protocol

from burstwatch.core.buckets.series import PERIOD_S, Sample, Series
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, baseline_iops

NOISE_PCT: Final = 1.0
"""A datapoint may be off by this: nobody documents how BurstBalance is rounded."""

EARN_ERROR: Final = 0.05
"""The share by which what is earned may differ from the baseline."""

SPEND_ERROR: Final = 0.10
"""The share by which the credits taken may differ from the operations that CloudWatch counts."""

FULL: Final = float(BUCKET_CREDITS)
LONGEST_PERIOD_S: Final = 300
"""CloudWatch collects every minute; where it is slower, every five."""

_NOISE: Final = NOISE_PCT * CREDITS_PER_PCT + 1.0


class Band(NamedTuple):
    """The least and the most that something can be: credits, or per cent of a full bucket."""

    low: float
    high: float

    def meets(self, other: "Band") -> bool:
        """Whether some value lies in both."""
        return self.low <= other.high and other.low <= self.high

    def within(self, low: float, high: float) -> "Band | None":
        """What of it lies between these bounds."""
        cut = Band(max(self.low, low), min(self.high, high))
        return cut if cut.low <= cut.high else None

    def in_pct(self) -> "Band":
        """Credits as per cent of the bucket."""
        return Band(self.low / CREDITS_PER_PCT, self.high / CREDITS_PER_PCT)

    def __str__(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f} %"


ANYTHING: Final = Band(0.0, FULL)

Motion = Callable[[Band, Band, Band], Band]
"""What is held after a while, from what was held, what was earned, and what operations took."""

Legs = Sequence[tuple[float, Motion]]
"""How credits move until each of these moments, in their order."""


def live(held: Band, earned: Band, taken: Band) -> Band:
    """As gp2. At worst it earns first and a full bucket loses some; at best it pays first."""
    low = max(0.0, min(FULL, held.low + earned.low) - taken.high)
    return Band(low, min(FULL, max(0.0, held.high - taken.low) + earned.high))


def live_or_rest(held: Band, earned: Band, taken: Band) -> Band:
    """As gp2 or at rest, which may change at any moment."""
    return Band(max(0.0, held.low - taken.high), min(FULL, held.high + earned.high))


def refill(held: Band, earned: Band, taken: Band) -> Band:
    """Away from gp2, earning all the same; operations may take of that, or not."""
    least = max(0.0, earned.low - taken.high)
    return Band(min(FULL, held.low + least), min(FULL, held.high + earned.high))


ALIVE: Final[Legs] = ((inf, live),)
PERHAPS_ALIVE: Final[Legs] = ((inf, live_or_rest),)
REFILLING: Final[Legs] = ((inf, refill),)


class Spending(Protocol):
    """The credits that operations took, as far as it is known."""

    def taken(self, start_s: float, end_s: float) -> Band:
        """Those between two moments."""
        ...

    def grid(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        """The time between two moments in parts that are known by themselves."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """The same number of operations in every second."""

    iops: float

    def taken(self, start_s: float, end_s: float) -> Band:
        ops = min(self.iops, BURST_IOPS) * (end_s - start_s)
        return Band(ops * (1 - SPEND_ERROR), ops * (1 + SPEND_ERROR))

    def grid(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        return _cut(start_s, end_s, period_s=LONGEST_PERIOD_S, origin_s=0)


@dataclass(frozen=True, slots=True)
class Counted:
    """Operations as CloudWatch counted them: a sum for each period, perhaps with gaps."""

    operations: Series
    _counts: dict[int, float] = field(init=False, repr=False, compare=False)
    _period_s: int = field(init=False, repr=False, compare=False)
    _origin_s: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts_s, period_s = self.operations.starts_s, period_of(self.operations)
        counts = dict(zip(starts_s, self.operations.values, strict=True))
        object.__setattr__(self, "_counts", counts)
        object.__setattr__(self, "_period_s", period_s)
        object.__setattr__(self, "_origin_s", starts_s[0] % period_s if starts_s else 0)

    def taken(self, start_s: float, end_s: float) -> Band:
        """In a gap anything up to the limit; of a period cut short, nobody knows which operations fell in."""
        low = high = 0.0
        for from_s, to_s in self.grid(start_s, end_s):
            most = BURST_IOPS * (to_s - from_s)
            place = (from_s - self._origin_s) // self._period_s * self._period_s + self._origin_s
            ops = self._counts.get(int(place))
            high += most if ops is None else min(most, ops * (1 + SPEND_ERROR))
            if ops is not None and to_s - from_s >= self._period_s:
                low += min(most, ops * (1 - SPEND_ERROR))
        return Band(low, high)

    def grid(self, start_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        return _cut(start_s, end_s, period_s=self._period_s, origin_s=self._origin_s)


def period_of(series: Series, unknown_s: int = PERIOD_S) -> int:
    """Of how long a time each of its datapoints tells: a minute, or five where none are nearer together."""
    apart = [later - earlier for earlier, later in pairwise(series.starts_s)]
    if not apart:
        return unknown_s
    return PERIOD_S if any(gap_s % LONGEST_PERIOD_S for gap_s in apart) else LONGEST_PERIOD_S


def _cut(start_s: float, end_s: float, *, period_s: int, origin_s: int) -> Iterator[tuple[float, float]]:
    at_s = start_s
    while at_s < end_s:
        until_s = min(end_s, ((at_s - origin_s) // period_s + 1) * period_s + origin_s)
        yield at_s, until_s
        at_s = until_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The credits of one volume; each datapoint of it tells what it held at some moment of ``period_s``."""

    size_gib: int
    spending: Spending
    period_s: int = PERIOD_S

    def move(self, held: Band, from_s: float, to_s: float, legs: Legs) -> Band:
        """What it holds later."""
        for start_s, end_s in self.spending.grid(from_s, to_s):
            at_s = start_s
            for until_s, motion in legs:
                leg_end_s = min(end_s, until_s)
                if at_s < leg_end_s:
                    held = motion(held, self._earned(at_s, leg_end_s), self.spending.taken(at_s, leg_end_s))
                    at_s = leg_end_s
        return held

    def follow(
        self, held: Band, from_s: float, samples: Iterable[Sample], legs: Legs, *, to_s: float | None = None
    ) -> Band | None:
        """What it holds after these datapoints, or at ``to_s``; None where one of them cannot be."""
        at_s, known = from_s, held
        for sample in samples:
            end_s = sample.start_s + self.period_s
            for moment_s, bounds in ((sample.start_s, self._at_start(sample)), (end_s, self._at_end(sample))):
                cut = self.move(known, at_s, moment_s, legs).within(*bounds)
                if cut is None:
                    return None
                at_s, known = max(at_s, moment_s), cut
        return known if to_s is None else self.move(known, at_s, to_s, legs)

    def shown(self, held: Band, start_s: float) -> Band:
        """What a datapoint can be, in per cent, whose period begins with this in the bucket."""
        earned, taken = self._over(start_s)
        low = max(0.0, held.low - taken.high - _NOISE)
        return Band(low, min(FULL, held.high + earned.high + _NOISE)).in_pct()

    def _at_start(self, sample: Sample) -> Band:
        earned, taken = self._over(sample.start_s)
        value = sample.value * CREDITS_PER_PCT
        return Band(value - _NOISE - earned.high, value + _NOISE + taken.high)

    def _at_end(self, sample: Sample) -> Band:
        earned, taken = self._over(sample.start_s)
        value = sample.value * CREDITS_PER_PCT
        return Band(value - _NOISE - taken.high, value + _NOISE + earned.high)

    def _over(self, start_s: float) -> tuple[Band, Band]:
        end_s = start_s + self.period_s
        return self._earned(start_s, end_s), self.spending.taken(start_s, end_s)

    def _earned(self, start_s: float, end_s: float) -> Band:
        credits_earned = baseline_iops(self.size_gib) * (end_s - start_s)
        return Band(credits_earned * (1 - EARN_ERROR), credits_earned * (1 + EARN_ERROR))
