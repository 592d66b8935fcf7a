"""What drained a volume: since when, with which operations, and whether the hour is like that every day."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.buckets.series import PERIOD_S, Series

DAYS: Final = 7
"""So many earlier days are compared."""
DAYS_SPAN_S: Final = (DAYS + 1) * 24 * 3600
DAYS_PERIOD_S: Final = 300
"""How far back the balance is read for that, and the width of its samples."""
OPERATIONS_SPAN_S: Final = 3600
"""How far back the operations are read, and their bytes, by the minute."""

_DAY_S: Final = 24 * 3600
_KIB: Final = 2**10
_FLOOR_PCT: Final = 1.0
"""A bucket with so little counts as empty: from there on its balance falls no further."""
_STRETCHES: Final = (5, 15)
"""Over so many samples a pace is measured, so that neither a pause nor the teeth of a saw end a fall."""
_STEADY: Final = 0.5
"""Where it fell at less than this share of its present pace, the fall had not begun."""
_LONGEST_GAP: Final = 5
"""More samples missing than this, and nobody knows what was before."""
_AROUND_S: Final = 1800
"""What began so much earlier or later than today is at the same hour."""
_ALIKE: Final = 0.5
"""A day whose balance fell by this share of today's fall did the same."""
_LEAST_FALL_PCT: Final = 2.0
"""Less than this is nothing to compare days by."""
_LONGEST_S: Final = 12 * 3600
"""What lasts longer has no hour of its own."""
_OTHER_HOURS_S: Final = (6 * 3600, 12 * 3600, 18 * 3600)
_KNOWN: Final = 0.75
"""Of a day with a smaller share of its samples nobody can say what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """The fall that a balance is in, or that emptied it; it lasts to ``ended_s``, the newest sample or empty.

    With ``is_longer`` it was falling where the samples begin already.
    """

    began_s: int
    ended_s: int
    from_pct: float
    to_pct: float
    is_longer: bool

    @property
    def pct(self) -> float:
        return self.from_pct - self.to_pct


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """What was served a second in the ``minutes`` of a fall that are known, and the mean sizes or None."""

    minutes: int
    read_iops: float
    write_iops: float
    read_kib: float | None
    write_kib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierDays:
    """On how many of the ``known`` earlier days the balance fell alike at this hour.

    ``is_particular``: at other hours of these days it did so less than half as often.
    """

    known: int
    alike: int
    is_particular: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What CloudWatch told of a volume that drains: sums by the minute, and ``days`` of its least balance.

    ``not_read`` says why some of it is missing.
    """

    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    days: Series = Series()
    not_read: str | None = None


def find_fall(balance: Series, *, period_s: int = PERIOD_S) -> Fall | None:
    """The fall that the balance is in, or that emptied it; None where there is none.

    Its pace is the faster of those over the newest 5 and 15 samples. Going back, it lasts for as long as one
    of these stretches fell at half that pace; it began at the knee before.
    """
    starts_s, values = balance.starts_s, balance.values
    last = _end_of_fall(values)
    first = _unbroken_from(starts_s, last, period_s)
    if last - first < 1:
        return None
    steady, at = _STEADY * _fastest(balance, first, last), last
    if steady <= 0:
        return None
    while at > first and _fastest(balance, first, at) >= steady:
        at -= 1
    earliest = max(first, at - max(_STRETCHES))
    knee = max(range(earliest, at + 1), key=lambda index: values[index] + steady * starts_s[index])
    return Fall(
        began_s=starts_s[knee] + period_s,
        ended_s=starts_s[last] + period_s,
        from_pct=values[knee],
        to_pct=values[last],
        is_longer=knee == first,
    )


def _end_of_fall(values: Sequence[float]) -> int:
    """The newest sample, or the one with which the bucket was empty; -1 where there is none."""
    last = len(values) - 1
    while last > 0 and values[last] <= _FLOOR_PCT and values[last - 1] <= _FLOOR_PCT:
        last -= 1
    return last


def _unbroken_from(starts_s: Sequence[int], last: int, period_s: int) -> int:
    """The first sample before which too many are missing."""
    first = last
    while first > 0 and starts_s[first] - starts_s[first - 1] <= (_LONGEST_GAP + 1) * period_s:
        first -= 1
    return first


def _fastest(balance: Series, first: int, last: int) -> float:
    return max(_pace(balance, max(first, last - length), last) for length in _STRETCHES)


def _pace(balance: Series, first: int, last: int) -> float:
    return (balance.values[first] - balance.values[last]) / (balance.starts_s[last] - balance.starts_s[first])


def operations_in(fall: Fall, traces: Traces, *, now_s: float) -> Operations | None:
    """What was served in the minutes of the fall whose operations are known; None where there are none."""
    ops = (_within(fall, traces.read_ops, now_s), _within(fall, traces.write_ops, now_s))
    moved = (_within(fall, traces.read_bytes, now_s), _within(fall, traces.write_bytes, now_s))
    minutes = ops[0].keys() & ops[1].keys()
    if not minutes:
        return None
    reads, writes = (sum(each[minute] for minute in minutes) / len(minutes) / PERIOD_S for each in ops)
    read_kib, write_kib = map(_mean_kib, ops, moved)
    return Operations(
        minutes=len(minutes), read_iops=reads, write_iops=writes, read_kib=read_kib, write_kib=write_kib
    )


def _within(fall: Fall, series: Series, now_s: float) -> dict[int, float]:
    closed = series.closed_by(min(now_s, fall.ended_s)).since(fall.began_s)
    return dict(zip(closed.starts_s, closed.values, strict=True))


def _mean_kib(ops: Mapping[int, float], moved: Mapping[int, float]) -> float | None:
    """Bytes by operations, over the minutes of which both are known."""
    minutes = ops.keys() & moved.keys()
    count = sum(ops[minute] for minute in minutes)
    return sum(moved[minute] for minute in minutes) / count / _KIB if count else None


def compare_days(days: Series, fall: Fall) -> EarlierDays | None:
    """How often the balance fell alike around the same hour of earlier days.

    A day counts as known by three quarters of its samples: what is missing is no "no". None where there is
    nothing to compare by: a fall that is small, or has lasted too long to have an hour.
    """
    if fall.is_longer or fall.pct < _LEAST_FALL_PCT or fall.ended_s - fall.began_s > _LONGEST_S:
        return None
    here = [_was_alike(days, fall, day * _DAY_S) for day in range(1, DAYS + 1)]
    there = [
        _was_alike(days, fall, day * _DAY_S + hours_s)
        for day in range(1, DAYS + 1)
        for hours_s in _OTHER_HOURS_S
    ]
    known, known_there = _count_known(here), _count_known(there)
    alike, alike_there = here.count(True), there.count(True)
    return EarlierDays(
        known=known,
        alike=alike,
        is_particular=2 * alike_there * known < alike * known_there or not known_there,
    )


def _was_alike(days: Series, fall: Fall, earlier_s: int) -> bool | None:
    """Whether it fell so much, or was empty, so many seconds earlier; None where that is not known."""
    begins_s = fall.began_s - earlier_s - _AROUND_S
    ends_s = fall.ended_s - earlier_s + _AROUND_S
    values = days.values[bisect_left(days.starts_s, begins_s) : bisect_left(days.starts_s, ends_s)]
    if len(values) < _KNOWN * (ends_s - begins_s) / DAYS_PERIOD_S:
        return None
    return min(values) <= _FLOOR_PCT or _deepest_fall(values) >= max(_LEAST_FALL_PCT, _ALIKE * fall.pct)


def _deepest_fall(values: Sequence[float]) -> float:
    peak = deepest = 0.0
    for value in values:
        peak = max(peak, value)
        deepest = max(deepest, peak - value)
    return deepest


def _count_known(days: Sequence[bool | None]) -> int:
    return len(days) - days.count(None)
