"""What drained a volume: since when, with which operations, and whether the hour is like that every day."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.buckets.series import PERIOD_S, Series

COMPARED_DAYS: Final = 7
"""So many earlier days are compared."""
BALANCE_HISTORY_S: Final = (COMPARED_DAYS + 1) * 24 * 3600
BALANCE_HISTORY_PERIOD_S: Final = 300
"""How far back the balance is read for that, and the width of its samples."""
OPERATIONS_HISTORY_S: Final = 3600
"""How far back the operations are read, and their bytes, by the minute."""

_DAY_S: Final = 24 * 3600
_KIB: Final = 2**10
_EMPTY_PCT: Final = 1.0
"""A bucket with so little counts as empty: from there on its balance falls no further."""
_RATE_SAMPLES: Final = (5, 15)
"""Over so many samples a pace is measured, so that neither a pause nor the teeth of a saw end a fall."""
_STEADY_SHARE: Final = 0.5
"""Where it fell at less than this share of its present pace, the fall had not begun."""
_MAX_MISSING_SAMPLES: Final = 5
"""More samples missing than this, and nobody knows what was before."""
_SAME_HOUR_TOLERANCE_S: Final = 1800
"""What began so much earlier or later than today is at the same hour."""
_MATCHING_SHARE: Final = 0.5
"""A day whose balance fell by this share of today's fall did the same."""
_MIN_DRAIN_PCT: Final = 2.0
"""Less than this is nothing to compare days by."""
_MAX_DURATION_S: Final = 12 * 3600
"""What lasts longer has no hour of its own."""
_OTHER_HOUR_OFFSETS_S: Final = (6 * 3600, 12 * 3600, 18 * 3600)
_MIN_KNOWN_SHARE: Final = 0.75
"""Of a day with a smaller share of its samples nobody can say what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEpisode:
    """The drain that a balance is in, or that emptied it.

    It lasts until ``ended_at_s``: the newest sample, or the first that is empty.

    With ``began_before_samples`` it was falling where the samples begin already.
    """

    began_at_s: int
    ended_at_s: int
    from_pct: float
    to_pct: float
    began_before_samples: bool

    @property
    def drop_pct(self) -> float:
        return self.from_pct - self.to_pct


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedOperations:
    """What was served a second in the ``minutes`` of a fall that are known, and the mean sizes or None."""

    minutes: int
    read_iops: float
    write_iops: float
    read_kib: float | None
    write_kib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SameHourHistory:
    """On how many of the ``known_days`` earlier days the balance fell alike at this hour.

    ``is_hour_specific``: at other hours of these days it did so less than half as often.
    """

    known_days: int
    matching_days: int
    is_hour_specific: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMetrics:
    """What CloudWatch has about a volume that drains: sums by the minute, and its minimum balance.

    ``read_error`` says why some of it is missing.
    """

    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    balance_history: Series = Series()
    read_error: str | None = None


def find_drain(balance: Series, *, period_s: int = PERIOD_S) -> DrainEpisode | None:
    """The fall that the balance is in, or that emptied it; None where there is none.

    Its pace is the faster of those over the newest 5 and 15 samples. Going back, it lasts for as long as one
    of these stretches fell at half that pace; it began at the knee before.
    """
    starts_at_s, values = balance.starts_at_s, balance.values
    last = _drain_end_index(values)
    first = _unbroken_start_index(starts_at_s, last, period_s)
    if last - first < 1:
        return None
    min_rate, position = _STEADY_SHARE * _fastest_rate(balance, first, last), last
    if min_rate <= 0:
        return None
    while position > first and _fastest_rate(balance, first, position) >= min_rate:
        position -= 1
    earliest = max(first, position - max(_RATE_SAMPLES))
    knee = max(range(earliest, position + 1), key=lambda index: values[index] + min_rate * starts_at_s[index])
    return DrainEpisode(
        began_at_s=starts_at_s[knee] + period_s,
        ended_at_s=starts_at_s[last] + period_s,
        from_pct=values[knee],
        to_pct=values[last],
        began_before_samples=knee == first,
    )


def _drain_end_index(values: Sequence[float]) -> int:
    """The newest sample, or the one with which the bucket was empty; -1 where there is none."""
    last = len(values) - 1
    while last > 0 and values[last] <= _EMPTY_PCT and values[last - 1] <= _EMPTY_PCT:
        last -= 1
    return last


def _unbroken_start_index(starts_at_s: Sequence[int], last: int, period_s: int) -> int:
    """The first sample before which too many are missing."""
    first = last
    while first > 0 and starts_at_s[first] - starts_at_s[first - 1] <= (_MAX_MISSING_SAMPLES + 1) * period_s:
        first -= 1
    return first


def _fastest_rate(balance: Series, first: int, last: int) -> float:
    return max(_rate_between(balance, max(first, last - length), last) for length in _RATE_SAMPLES)


def _rate_between(balance: Series, first: int, last: int) -> float:
    return (balance.values[first] - balance.values[last]) / (
        balance.starts_at_s[last] - balance.starts_at_s[first]
    )


def measure_operations(
    episode: DrainEpisode, metrics: DrainMetrics, *, now_s: float
) -> ServedOperations | None:
    """What was served in the minutes of the fall whose operations are known; None where there are none."""
    ops = (
        _samples_within(episode, metrics.read_ops, now_s),
        _samples_within(episode, metrics.write_ops, now_s),
    )
    transferred = (
        _samples_within(episode, metrics.read_bytes, now_s),
        _samples_within(episode, metrics.write_bytes, now_s),
    )
    minutes = ops[0].keys() & ops[1].keys()
    if not minutes:
        return None
    reads, writes = (sum(series[minute] for minute in minutes) / len(minutes) / PERIOD_S for series in ops)
    read_kib, write_kib = map(_mean_kib, ops, transferred)
    return ServedOperations(
        minutes=len(minutes), read_iops=reads, write_iops=writes, read_kib=read_kib, write_kib=write_kib
    )


def _samples_within(episode: DrainEpisode, series: Series, now_s: float) -> dict[int, float]:
    closed = series.closed_by(min(now_s, episode.ended_at_s)).since(episode.began_at_s)
    return dict(zip(closed.starts_at_s, closed.values, strict=True))


def _mean_kib(ops: Mapping[int, float], transferred: Mapping[int, float]) -> float | None:
    """Bytes by operations, over the minutes of which both are known."""
    minutes = ops.keys() & transferred.keys()
    count = sum(ops[minute] for minute in minutes)
    return sum(transferred[minute] for minute in minutes) / count / _KIB if count else None


def compare_same_hour(days: Series, episode: DrainEpisode) -> SameHourHistory | None:
    """How often the balance fell alike around the same hour of earlier days.

    A day counts as known by three quarters of its samples: what is missing is no "no". None where there is
    nothing to compare by: a fall that is small, or has lasted too long to have an hour.
    """
    if (
        episode.began_before_samples
        or episode.drop_pct < _MIN_DRAIN_PCT
        or episode.ended_at_s - episode.began_at_s > _MAX_DURATION_S
    ):
        return None
    same_hour = [_has_matching_drain(days, episode, day * _DAY_S) for day in range(1, COMPARED_DAYS + 1)]
    other_hours = [
        _has_matching_drain(days, episode, day * _DAY_S + hours_s)
        for day in range(1, COMPARED_DAYS + 1)
        for hours_s in _OTHER_HOUR_OFFSETS_S
    ]
    known_days, known_elsewhere = _count_known(same_hour), _count_known(other_hours)
    matching_days, matching_elsewhere = same_hour.count(True), other_hours.count(True)
    return SameHourHistory(
        known_days=known_days,
        matching_days=matching_days,
        is_hour_specific=2 * matching_elsewhere * known_days < matching_days * known_elsewhere
        or not known_elsewhere,
    )


def _has_matching_drain(days: Series, episode: DrainEpisode, offset_s: int) -> bool | None:
    """Whether it fell so much, or was empty, so many seconds earlier; None where that is not known."""
    begins_at_s = episode.began_at_s - offset_s - _SAME_HOUR_TOLERANCE_S
    end_at_s = episode.ended_at_s - offset_s + _SAME_HOUR_TOLERANCE_S
    values = days.values[bisect_left(days.starts_at_s, begins_at_s) : bisect_left(days.starts_at_s, end_at_s)]
    if len(values) < _MIN_KNOWN_SHARE * (end_at_s - begins_at_s) / BALANCE_HISTORY_PERIOD_S:
        return None
    return min(values) <= _EMPTY_PCT or _largest_drop(values) >= max(
        _MIN_DRAIN_PCT, _MATCHING_SHARE * episode.drop_pct
    )


def _largest_drop(values: Sequence[float]) -> float:
    peak = largest = 0.0
    for value in values:
        peak = max(peak, value)
        largest = max(largest, peak - value)
    return largest


def _count_known(days: Sequence[bool | None]) -> int:
    return len(days) - days.count(None)
