"""From times and values to columns and rows."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, floor, log10
from typing import Final

from burstctl.timeline.intervals import Mark
from burstctl.timeline.timeline import Chronology
from burstwatch.core.buckets.series import Series

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_STEPS_S: Final = (
    *(_MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY_S * days for days in (1, 2, 7, 14, 28, 56, 112)),
)
_MATTERS: Final = "EC!XSFBTGOWR?"
"""The letters of marks, those that matter most first."""

_BESIDE: Final = 2
"""So many columns beside its own a letter may stand."""

_ROUND: Final = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
_NEAR: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Which column stands for which time."""

    start_s: float
    end_s: float
    first: int
    columns: int

    @property
    def step_s(self) -> float:
        """How long a column is."""
        return (self.end_s - self.start_s) / self.columns

    @property
    def end(self) -> int:
        """The column after the last."""
        return self.first + self.columns

    def column(self, at_s: float) -> int:
        """The column of an instant; one out of sight for an instant outside of the picture."""
        return self.first + floor((at_s - self.start_s) / self.step_s)

    def within(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The columns of a stretch, one at least, as ``(first, end)``."""
        first = max(self.first, self.column(start_s))
        return first, min(self.end, max(first + 1, self.column(end_s)))

    def span(self, column: int) -> tuple[float, float]:
        """The time that a column stands for."""
        from_s = self.start_s + (column - self.first) * self.step_s
        return from_s, from_s + self.step_s

    def ticks(self, apart: int) -> Iterator[tuple[int, str]]:
        """Columns at least so far apart, each with its time on a clock in UTC."""
        step_s = next((s for s in _STEPS_S if s >= apart * self.step_s), _STEPS_S[-1])
        at_s = ceil(self.start_s / step_s) * step_s
        while at_s < self.end_s:
            at = datetime.fromtimestamp(at_s, UTC)
            is_day = step_s >= _DAY_S or (at_s % _DAY_S == 0)
            yield self.column(at_s), at.strftime("%d %b" if is_day else "%H:%M")
            at_s += step_s


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows with a scale from 0 at the bottom to ``most`` at the top."""

    top: int
    rows: int
    most: float

    @property
    def bottom(self) -> int:
        """Its last row."""
        return self.top + self.rows - 1

    def row(self, value: float) -> int:
        """The row that a value lies in."""
        reached = ceil(value / self.most * self.rows) - 1
        return self.bottom - min(self.rows - 1, max(0, reached))

    def middle(self, row: int) -> float:
        """The value that the middle of a row stands for."""
        return (self.bottom - row + 0.5) / self.rows * self.most


def seat(marks: Sequence[Mark], columns: Sequence[int], first: int, end: int) -> list[tuple[int, Mark]]:
    """A column for each mark, its own or one close by, in their order and never at ``end`` or after it.

    Where more happened than there is room for, those that matter least have none: a letter far from its
    time would tell of another time.
    """
    groups = {
        min(column, end - 1): [mark for _, mark in same]
        for column, same in groupby(zip(columns, marks, strict=True), key=lambda pair: min(pair[0], end - 1))
    }
    seated: list[tuple[int, Mark]] = []
    limit = end
    for column in sorted(groups, reverse=True):
        group = groups[column]
        limit = min(limit, column + _BESIDE + 1)
        start = max(first, column - _BESIDE, min(column, limit - len(group)))
        chosen = sorted(group, key=_importance)[: max(0, limit - start)]
        chosen.sort(key=group.index)
        seated += reversed([(start + nth, mark) for nth, mark in enumerate(chosen)])
        limit = min(limit, start)
    return seated[::-1]


def _importance(mark: Mark) -> int:
    return _MATTERS.find(mark.letter) if mark.letter in _MATTERS else len(_MATTERS)


def values_in(series: Series, from_s: float, to_s: float, period_s: int) -> Sequence[float]:
    """The samples that begin in a stretch, or else the one that covers its start."""
    first, end = bisect_left(series.starts_s, from_s), bisect_left(series.starts_s, to_s)
    if first < end:
        return series.values[first:end]
    before = series.newest_at_or_before(from_s)
    return [before.value] if before is not None and from_s < before.start_s + period_s else []


def iops_scale(this: Chronology) -> float:
    """Up to where operations are drawn: the limits where they matter, else as far as shows them well."""
    ceiling = max(limit.most_iops for limit in this.limits)
    baseline = min(limit.sustained_iops for limit in this.limits)
    busiest = max(this.served.values, default=0.0)
    if len(this.limits) > 1 or busiest >= _NEAR * ceiling:
        return max(ceiling, busiest)
    return min(ceiling, _round_up(max(1.1 * busiest, 2 * baseline)))


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in _ROUND if step * power >= value)
