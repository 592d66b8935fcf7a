"""Recorded datapoints, most of them of one minute; a missing one is a gap and not a zero."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

PERIOD_S: Final = 60
"""Width of one sample in seconds: CloudWatch collects the metrics of all volume types every minute.

Source: the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
"""
_SPACING_GAPS: Final = 5
"""The spacing is the median of this many gaps, so one missing datapoint does not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One datapoint: the period that it covers begins at ``start_at_s`` (seconds since the epoch, UTC).

    CloudWatch, too, stamps a datapoint with the start of its period. Its age counts from ``end_at_s``.
    """

    start_at_s: int
    value: float
    period_s: int = PERIOD_S

    @property
    def end_at_s(self) -> int:
        return self.start_at_s + self.period_s

    @property
    def end_at(self) -> datetime:
        return datetime.fromtimestamp(self.end_at_s, tz=UTC)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one metric, the oldest first; a period without a sample is a gap.

    Each covers ``period_s`` seconds. The samples are two flat tuples of equal length, because a pass over a
    large fleet holds millions of them.

    Raises:
        ValueError: the tuples differ in length.
    """

    starts_at_s: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    period_s: int = PERIOD_S

    def __post_init__(self) -> None:
        if len(self.starts_at_s) != len(self.values):
            raise ValueError(
                f"{len(self.starts_at_s)} starts for {len(self.values)} values: they must pair up"
            )

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, float]], period_s: int = PERIOD_S) -> "Series":
        """Build a series from (start, value) pairs in any order; of two with one start, the last wins."""
        ordered = sorted(dict(pairs).items())
        return cls(
            tuple(start_at_s for start_at_s, _ in ordered), tuple(value for _, value in ordered), period_s
        )

    def __len__(self) -> int:
        return len(self.starts_at_s)

    def __iter__(self) -> Iterator[Sample]:
        for start_at_s, value in zip(self.starts_at_s, self.values, strict=True):
            yield Sample(start_at_s=start_at_s, value=value, period_s=self.period_s)

    @property
    def newest(self) -> Sample | None:
        return self._sample(len(self.starts_at_s) - 1)

    def closed_by(self, now_s: float) -> "Series":
        """The samples whose period is over at ``now_s``.

        A datapoint is visible from the start of its period and may change until the period is over.
        Source: the CloudWatch user guide, "CloudWatch concepts", periods.
        """
        keep = bisect_right(self.starts_at_s, now_s - self.period_s)
        return self if keep == len(self.starts_at_s) else self._slice(0, keep)

    def newest_at_or_before(self, start_at_s: float) -> Sample | None:
        """The latest sample that begins no later than ``start_at_s``."""
        return self._sample(bisect_right(self.starts_at_s, start_at_s) - 1)

    @property
    def spacing_s(self) -> int | None:
        """Seconds between datapoints: the median of the newest five gaps; None below two samples."""
        gaps = sorted(later - earlier for earlier, later in pairwise(self.starts_at_s[-_SPACING_GAPS - 1 :]))
        return gaps[len(gaps) // 2] if gaps else None

    def last(self, count: int) -> Sequence[float]:
        """The newest ``count`` values, the oldest first; all of them if there are fewer."""
        return self.values[-count:]

    def since(self, start_at_s: float) -> "Series":
        """The samples that begin no earlier than ``start_at_s``."""
        first = bisect_left(self.starts_at_s, start_at_s)
        return self if first == 0 else self._slice(first, len(self.values))

    def _sample(self, index: int) -> Sample | None:
        if index < 0:
            return None
        return Sample(start_at_s=self.starts_at_s[index], value=self.values[index], period_s=self.period_s)

    def _slice(self, first: int, end: int) -> "Series":
        return Series(self.starts_at_s[first:end], self.values[first:end], self.period_s)


def served_iops_by_minute(read_ops: Series | None, write_ops: Series | None, now_s: float) -> Series:
    """Mean operations per second in each closed minute for which both reads and writes are known.

    Its arguments are sums by the minute. Source of the formula (sum / period): the EBS user guide, "Amazon
    CloudWatch metrics for Amazon EBS".
    """
    if read_ops is None or write_ops is None:
        return Series()
    writes = dict(zip(write_ops.starts_at_s, write_ops.values, strict=True))
    both = (
        (start_at_s, (value + writes[start_at_s]) / PERIOD_S)
        for start_at_s, value in zip(read_ops.starts_at_s, read_ops.values, strict=True)
        if start_at_s in writes
    )
    return Series.from_pairs(both).closed_by(now_s)


def sum_of(reads: Series, writes: Series) -> Series:
    """The sum of both in the periods for which both are known."""
    known = dict(zip(writes.starts_at_s, writes.values, strict=True))
    pairs = zip(reads.starts_at_s, reads.values, strict=True)
    return Series.from_pairs(
        ((start, value + known[start]) for start, value in pairs if start in known), reads.period_s
    )
