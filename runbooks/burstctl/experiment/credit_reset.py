"""What became of a gp2's burst balance while it was another type: the answers its datapoints allow.

Nobody documents it. A volume leaves gp2 at ``left_s``, is its target at ``there_s``, is asked back at
``turned_s`` and is gp2 again at ``home_s``. Each answer is followed as a band of what the bucket can hold if
it is true (``credit_bands``), and fits while every datapoint meets its band:

- Before it leaves and after it is home it lives as gp2.
- In each modification nobody knows how long it still does, or does again: nothing or all of that time.
- Away, ``kept`` changes nothing and ``refilled`` earns the baseline; ``reset`` comes back full, ``emptied``
  with nothing.

The true answer always fits, so one that fits alone is true, if it is one of these four. Where what it allows
meets what another allows, no answer is given all the same.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import inf
from typing import Final

from burstctl.experiment.credit_bounds import (
    ALIVE,
    ANYTHING,
    FULL,
    LONGEST_PERIOD_S,
    PERHAPS_ALIVE,
    REFILLING,
    Band,
    Bucket,
    Counted,
    Legs,
    Steady,
    live,
    live_or_rest,
    period_of,
)
from burstwatch.core.buckets.series import PERIOD_S, Sample, Series
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, baseline_iops
from burstwatch.core.text import format_duration, format_instant

MOST_BALANCE_PCT: Final = 80.0
"""Above it a bucket that refills is full too soon to be told from one that is reset."""

LEAST_AWAY_S: Final = 15 * 60
MOST_AWAY_S: Final = 12 * 3600
BEFORE_S: Final = 30 * 60
"""So much of the balance before it leaves is weighed."""

ENOUGH_S: Final = 15 * 60
"""So much of the balance after the return is wanted."""

UNCLEAR: Final = "unclear"

_LEAST_DATAPOINTS: Final = 3
_MINUTE_S: Final = 60


class Fate(StrEnum):
    """What may have become of the balance."""

    KEPT = "kept"
    REFILLED = "refilled while away"
    RESET = "reset"
    EMPTIED = "emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A volume's way from gp2 and back, as far as it has come; instants are seconds since the epoch.

    ``balance`` is BurstBalance as it was published, ``operations`` are reads and writes together, for each
    period in which both are known.
    """

    size_gib: int
    left_s: float
    there_s: float | None = None
    turned_s: float | None = None
    home_s: float | None = None
    balance: Series = Series()
    operations: Series = Series()

    def __post_init__(self) -> None:
        known = [at for at in (self.left_s, self.there_s, self.turned_s, self.home_s) if at is not None]
        if known != sorted(known):
            raise ValueError(f"left, there, turned and home are {known}: none may lie before the one before")

    @property
    def period_s(self) -> int:
        """Of how long a time each datapoint of the balance tells."""
        return period_of(self.balance, LONGEST_PERIOD_S)

    @property
    def bucket(self) -> Bucket:
        return Bucket(size_gib=self.size_gib, spending=Counted(self.operations), period_s=self.period_s)

    @property
    def after_home(self) -> Series:
        """The datapoints whose period began when it surely was gp2 again."""
        return Series() if self.home_s is None else self.balance.since(self.home_s)

    @property
    def has_enough(self) -> bool:
        """Whether there are datapoints enough after the return to judge by."""
        after = self.after_home
        if len(after) < _LEAST_DATAPOINTS:
            return False
        return after.starts_s[-1] + self.period_s - after.starts_s[0] >= ENOUGH_S

    def between(self, start_s: float, end_s: float) -> list[Sample]:
        """The datapoints whose whole period lies between two moments."""
        since = self.balance.since(start_s)
        return [sample for sample in since if sample.start_s + self.period_s <= end_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the datapoints say; ``fate`` is None where they do not tell, ``because`` the arithmetic in words.

    ``fits`` are the answers that no datapoint contradicts; ``bands`` what each of the four lets the ``first``
    datapoint after the return be, in per cent.
    """

    fate: Fate | None
    because: Sequence[str]
    fits: Sequence[Fate] = ()
    bands: Mapping[Fate, Band] | None = None
    first: Sample | None = None

    @property
    def conclusion(self) -> str:
        """One word or two: an answer, or ``unclear``."""
        return self.fate or UNCLEAR


def judge(journey: Journey) -> Verdict:
    """Which of the answers is true, as far as the datapoints tell."""
    before, there = weigh_before(journey), weigh_there(journey)
    if before is None or there is None:
        return _no_verdict(
            "The balance before it left does not follow from its operations, so nothing after it would."
        )
    if journey.turned_s is None or journey.home_s is None or not journey.has_enough:
        return _no_verdict(
            f"{len(journey.after_home)} datapoints from after the return are there, and at least"
            f" {_LEAST_DATAPOINTS} over {format_duration(ENOUGH_S)} are wanted."
        )
    after = journey.after_home
    if journey.bucket.follow(ANYTHING, after.starts_s[0], after, ALIVE) is None:
        return _no_verdict(
            f"The {len(after)} datapoints from {format_instant(after.starts_s[0])} on do not follow from each"
            " other and the operations between them."
        )
    return _decide(_Return.of(journey, there), before)


def weigh_before(journey: Journey) -> Band | None:
    """The credits when it left, by the half hour before; None where its datapoints contradict each other."""
    near = journey.between(journey.left_s - BEFORE_S, journey.left_s)
    if not near:
        return ANYTHING
    return journey.bucket.follow(ANYTHING, near[0].start_s, near, ALIVE, to_s=journey.left_s)


def weigh_there(journey: Journey) -> Band | None:
    """The credits when it was its target; None where the datapoints before contradict each other.

    Datapoints from on its way count, unless no gp2's bucket can have been so.
    """
    before, left_s, there_s = weigh_before(journey), journey.left_s, journey.there_s
    if before is None or there_s is None:
        return before
    on_its_way, bucket = journey.between(left_s, there_s), journey.bucket
    found = bucket.follow(before, left_s, on_its_way, PERHAPS_ALIVE, to_s=there_s)
    return found or bucket.move(before, left_s, there_s, PERHAPS_ALIVE)


def reckon_there(balance_pct: float, *, size_gib: int, iops: float, modify_s: float = 0.0) -> Band:
    """The credits it will have as its target: from its balance now, served so much, so long on its way."""
    bucket = Bucket(size_gib=size_gib, spending=Steady(iops))
    sample = Sample(start_s=0, value=balance_pct)
    left = bucket.follow(ANYTHING, 0, [sample], ALIVE)
    return bucket.move(left or ANYTHING, PERIOD_S, PERIOD_S + modify_s, PERHAPS_ALIVE)


def foresee(
    there: Band, *, size_gib: int, iops: float, away_s: float, modify_s: float = 0.0
) -> dict[Fate, Band]:
    """What each answer will let the first datapoint after the return be, in per cent.

    With so many credits ``there``, served ``iops`` all the time, away so long, and ``modify_s`` on the way
    back.
    """
    bucket = Bucket(size_gib=size_gib, spending=Steady(iops))
    starts = _starts(there, bucket, 0, away_s)
    home_s = away_s + modify_s
    return {
        fate: bucket.shown(bucket.move(band, away_s, home_s, PERHAPS_ALIVE), home_s)
        for fate, band in starts.items()
    }


def shortest_away_s(there: Band, *, size_gib: int, iops: float, modify_s: float = 0.0) -> int | None:
    """How long it must stay away, in whole minutes, for refilled to be told from kept; None: no time is."""

    def tells(away_s: int) -> bool:
        bands = foresee(there, size_gib=size_gib, iops=iops, away_s=away_s, modify_s=modify_s)
        return not bands[Fate.KEPT].meets(bands[Fate.REFILLED])

    choices = range(LEAST_AWAY_S, MOST_AWAY_S + 1, _MINUTE_S)
    place = bisect_left(choices, True, key=tells)
    return choices[place] if place < len(choices) else None


def alike(bands: Mapping[Fate, Band]) -> list[tuple[Fate, Fate]]:
    """The pairs of answers that cannot be told from each other."""
    return [(one, other) for one, other in combinations(bands, 2) if bands[one].meets(bands[other])]


def pct_per_minute(size_gib: int) -> float:
    """What the bucket of an idle gp2 earns in a minute, in per cent."""
    return baseline_iops(size_gib) * _MINUTE_S / CREDITS_PER_PCT


def _no_verdict(because: str) -> Verdict:
    return Verdict(fate=None, because=[because])


def _starts(there: Band, bucket: Bucket, there_s: float, turned_s: float) -> dict[Fate, Band]:
    """What the bucket holds when it begins to come back, by each answer."""
    return {
        Fate.KEPT: there,
        Fate.REFILLED: bucket.move(there, there_s, turned_s, REFILLING),
        Fate.RESET: Band(FULL, FULL),
        Fate.EMPTIED: Band(0.0, 0.0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Return:
    """A journey that is over; ``starts`` has what each answer puts into the bucket at ``turned_s``."""

    journey: Journey
    bucket: Bucket
    turned_s: float
    legs: Legs
    starts: Mapping[Fate, Band]

    @classmethod
    def of(cls, journey: Journey, there: Band) -> "_Return":
        assert journey.there_s is not None
        assert journey.turned_s is not None
        assert journey.home_s is not None
        bucket = journey.bucket
        return cls(
            journey=journey,
            bucket=bucket,
            turned_s=journey.turned_s,
            legs=((journey.home_s, live_or_rest), (inf, live)),
            starts=_starts(there, bucket, journey.there_s, journey.turned_s),
        )

    def fitting(self, samples: Sequence[Sample]) -> list[Fate]:
        """The answers that none of these datapoints contradicts."""
        return [
            fate
            for fate, band in self.starts.items()
            if self.bucket.follow(band, self.turned_s, samples, self.legs) is not None
        ]

    def bands_at(self, sample: Sample) -> dict[Fate, Band]:
        """What each answer lets this datapoint be."""
        moved = {
            fate: self.bucket.move(band, self.turned_s, sample.start_s, self.legs)
            for fate, band in self.starts.items()
        }
        return {fate: self.bucket.shown(band, sample.start_s) for fate, band in moved.items()}


def _decide(back: _Return, before: Band) -> Verdict:
    """From the first datapoint of the way back on; where those tell of no bucket, of the time after it."""
    samples = list(back.journey.balance.since(back.turned_s))
    fits = back.fitting(samples)
    if not fits:
        samples = list(back.journey.after_home)
        fits = back.fitting(samples)
    first = samples[0]
    bands = back.bands_at(first)
    rivals = [
        other for other in bands if len(fits) == 1 and other != fits[0] and bands[other].meets(bands[fits[0]])
    ]
    is_clear = len(fits) == 1 and not rivals
    last = f"Only {fits[0]} fits, all {len(samples)} datapoints from then on." if is_clear else ""
    return Verdict(
        fate=fits[0] if is_clear else None,
        because=[*_arithmetic(back, before, first, bands), last or _why_unclear(fits, rivals)],
        fits=fits,
        bands=bands,
        first=first,
    )


def _arithmetic(back: _Return, before: Band, first: Sample, bands: Mapping[Fate, Band]) -> list[str]:
    journey = back.journey
    assert journey.there_s is not None
    assert journey.home_s is not None
    away_s, rate = back.turned_s - journey.there_s, pct_per_minute(journey.size_gib)
    answers = "; ".join(f"{fate}, {band}" for fate, band in bands.items())
    on_its_way = (
        f"{format_duration(journey.there_s - journey.left_s)} on its way out and"
        f" {format_duration(journey.home_s - back.turned_s)} back, in which it may have lived as gp2"
    )
    earning = (
        f"{journey.size_gib:,} GiB earn {baseline_iops(journey.size_gib):,} credits a second, {rate:.3f} % a"
        f" minute: refilling while away adds {rate * away_s / _MINUTE_S:.1f} % where nothing is served"
    )
    shown = f"The datapoint of {format_instant(first.start_s)} is {first.value:.2f} %"
    return [
        f"The bucket held {before.in_pct()} when it left, at {format_instant(journey.left_s)}.",
        f"It was away for {format_duration(away_s)}, with {on_its_way}.",
        f"{earning}.",
        f"{shown}. Allowed are: {answers}.",
    ]


def _why_unclear(fits: Sequence[Fate], rivals: Sequence[Fate]) -> str:
    if rivals:
        others = " and ".join(rivals)
        return f"Only {fits[0]} fits, but what it allows meets what {others} would allow: too near to say."
    if not fits:
        return "None of the four fits: something else became of it, or somebody had a hand in it."
    excluded = " or ".join(fate for fate in Fate if fate not in fits)
    but = f"; it was not {excluded}" if excluded else ""
    return f"It was {' or '.join(fits)}, which cannot be told apart{but}."
