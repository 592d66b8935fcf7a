"""From times and values to columns and rows."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, floor, log10
from typing import Final

from burstctl.timeline.intervals import TimelineEvent
from burstctl.timeline.timeline import Timeline
from burstwatch.core.buckets.series import Series
from burstwatch.core.durations import DAY_S, HOUR_S, MINUTE_S

_STEPS_S: Final = (
    *(MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR_S * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY_S * days for days in (1, 2, 7, 14, 28, 56, 112)),
)
_LETTERS_BY_IMPORTANCE: Final = "EC!XSFBTGOWR?"
"""The letters of marks, those that matter most first."""

_MAX_SHIFT: Final = 2
"""How many columns a letter may be away from its own."""

_ROUND_FACTORS: Final = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
_NEAR_CEILING_FACTOR: Final = 0.6
"""Below it, a scale up to the ceiling would leave nearly half the panel empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """Converts times to columns."""

    start_s: float
    end_s: float
    first_column: int
    column_count: int

    @property
    def step_s(self) -> float:
        """How long a column is."""
        return (self.end_s - self.start_s) / self.column_count

    @property
    def end_column(self) -> int:
        """The column after the last."""
        return self.first_column + self.column_count

    def column(self, at_s: float) -> int:
        """The column of an instant; one out of sight for an instant outside of the picture."""
        return self.first_column + floor((at_s - self.start_s) / self.step_s)

    def column_range(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The columns of a span, at least one, as ``(first, end)``."""
        first_column = max(self.first_column, self.column(start_s))
        return first_column, min(self.end_column, max(first_column + 1, self.column(end_s)))

    def time_range(self, column: int) -> tuple[float, float]:
        """The time range of a column."""
        from_s = self.start_s + (column - self.first_column) * self.step_s
        return from_s, from_s + self.step_s

    def ticks(self, min_columns: int) -> Iterator[tuple[int, str]]:
        """Columns at least so far apart, each with its time on a clock in UTC."""
        step_s = next(
            (candidate_s for candidate_s in _STEPS_S if candidate_s >= min_columns * self.step_s),
            _STEPS_S[-1],
        )
        at_s = ceil(self.start_s / step_s) * step_s
        while at_s < self.end_s:
            at = datetime.fromtimestamp(at_s, UTC)
            is_day = step_s >= DAY_S or (at_s % DAY_S == 0)
            yield self.column(at_s), at.strftime("%d %b" if is_day else "%H:%M")
            at_s += step_s


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows with a scale from 0 at the bottom to ``max_value`` at the top."""

    top: int
    rows: int
    max_value: float

    @property
    def bottom(self) -> int:
        """Its last row."""
        return self.top + self.rows - 1

    def row(self, value: float) -> int:
        """The row of a value."""
        rows_from_bottom = ceil(value / self.max_value * self.rows) - 1
        return self.bottom - min(self.rows - 1, max(0, rows_from_bottom))

    def row_middle(self, row: int) -> float:
        """The value at the middle of a row."""
        return (self.bottom - row + 0.5) / self.rows * self.max_value


def place_events(
    events: Sequence[TimelineEvent], columns: Sequence[int], first_column: int, end_column: int
) -> list[tuple[int, TimelineEvent]]:
    """A column for each event, its own or one nearby, in order and always before ``end_column``.

    If there are too many events, the least important ones get no letter: a letter far from its time would be
    misleading.
    """
    groups = {
        min(column, end_column - 1): [event for _, event in group_pairs]
        for column, group_pairs in groupby(
            zip(columns, events, strict=True), key=lambda pair: min(pair[0], end_column - 1)
        )
    }
    placed: list[tuple[int, TimelineEvent]] = []
    limit = end_column
    for column in sorted(groups, reverse=True):
        group = groups[column]
        limit = min(limit, column + _MAX_SHIFT + 1)
        start = max(first_column, column - _MAX_SHIFT, min(column, limit - len(group)))
        selected = sorted(group, key=_importance)[: max(0, limit - start)]
        selected.sort(key=group.index)
        placed += reversed([(start + index, event) for index, event in enumerate(selected)])
        limit = min(limit, start)
    return placed[::-1]


def _importance(event: TimelineEvent) -> int:
    return (
        _LETTERS_BY_IMPORTANCE.find(event.letter)
        if event.letter in _LETTERS_BY_IMPORTANCE
        else len(_LETTERS_BY_IMPORTANCE)
    )


def values_in(series: Series, from_s: float, to_s: float, period_s: int) -> Sequence[float]:
    """The samples that begin in a span, or else the one that covers its start."""
    first, end = bisect_left(series.starts_at_s, from_s), bisect_left(series.starts_at_s, to_s)
    if first < end:
        return series.values[first:end]
    covering = series.newest_at_or_before(from_s)
    return [covering.value] if covering is not None and from_s < covering.start_at_s + period_s else []


def rate_scale(timeline: Timeline) -> float:
    """Up to where the load is drawn: the limits where they matter, else as far as shows them well."""
    ceiling = max(limit.maximum for limit in timeline.limits)
    baseline = min(limit.sustained for limit in timeline.limits)
    busiest = max(timeline.served.values, default=0.0)
    if len(timeline.limits) > 1 or busiest >= _NEAR_CEILING_FACTOR * ceiling:
        return max(ceiling, busiest)
    return min(ceiling, _round_up(max(1.1 * busiest, 2 * baseline)))


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten; 1 for 0, as an empty file system earns."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in _ROUND_FACTORS if step * power >= value)
