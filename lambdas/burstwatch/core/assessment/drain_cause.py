"""What drained a volume: since when, by which operations, and whether it is so at this hour every day.

The constants are judgements. They decide only what an alert says about a drain, never its level or a flip.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.durations import DAY_S

COMPARED_DAYS: Final = 7
"""Earlier days that are compared: a week contains each weekday once."""
BALANCE_HISTORY_S: Final = (COMPARED_DAYS + 1) * 24 * 3600
"""How far back the balance is read for the comparison: today as well."""
BALANCE_HISTORY_PERIOD_S: Final = 300
"""Width of those samples. Eight days of minutes would be five times as many datapoints.

CloudWatch keeps one-minute datapoints for 15 days. Source: the CloudWatch user guide, "CloudWatch concepts".
"""
OPERATIONS_HISTORY_S: Final = 3600
"""How far back operations and bytes are read, by the minute: a full bucket lasts half an hour at least."""

_KIB: Final = 2**10
_EMPTY_PCT: Final = 1.0
"""A bucket with at most this balance counts as empty: from there on its balance hardly falls further."""
_RATE_SAMPLES: Final = (5, 15)
"""Numbers of samples over which a rate is measured, so that neither a pause nor a sawtooth ends a fall."""
_STEADY_SHARE: Final = 0.5
"""While the rate was below this share of the present one, the drain had not begun."""
_MAX_MISSING_SAMPLES: Final = 5
"""If more samples in a row are missing, what happened before them is unknown."""
_SAME_HOUR_TOLERANCE_S: Final = 1800
"""A drain that began up to this much earlier or later than today's is at the same hour."""
_MATCHING_SHARE: Final = 0.5
"""A day whose balance fell by at least this share of today's fall had the same drain."""
_MIN_DRAIN_PCT: Final = 2.0
"""A smaller fall is too small to compare days by: almost every day has one."""
_MAX_DURATION_S: Final = 12 * 3600
"""A longer drain is not specific to an hour of the day."""
_OTHER_HOUR_OFFSETS_S: Final = (6 * 3600, 12 * 3600, 18 * 3600)
_MIN_KNOWN_SHARE: Final = 0.75
"""A day with a smaller share of its samples is unknown, and is not counted as a day without a drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEpisode:
    """The drain that a balance is in, or the one that emptied it.

    It lasts until ``ended_at_s``: the end of the newest sample, or of the first empty one. With
    ``began_before_samples`` the balance was falling already when the samples begin. Instants are in seconds
    since the epoch, balances in per cent.
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
    """Operations per second in the known ``minutes`` of a drain; mean sizes in KiB, None if unknown."""

    minutes: int
    read_iops: float
    write_iops: float
    read_kib: float | None
    write_kib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SameHourHistory:
    """On how many of the ``known_days`` earlier days the balance fell in the same way at this hour.

    ``is_hour_specific``: at other hours of these days it fell so less than half as often.
    """

    known_days: int
    matching_days: int
    is_hour_specific: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMetrics:
    """What CloudWatch has about a draining volume: sums by the minute, and the minimum balance.

    ``read_error`` says why some of it is missing.
    """

    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    balance_history: Series = Series()
    read_error: str | None = None


def find_drain(balance: Series, *, period_s: int = PERIOD_S) -> DrainEpisode | None:
    """Find the drain that the balance is in, or that emptied it; None without a drain.

    The present rate is the faster of those over the newest 5 and 15 samples. Going back, the drain lasts as
    long as one of these two rates, measured from there, is at least half of that. It began at the knee
    before: the sample that lies highest above a line of half the rate.
    """
    starts_at_s, values = balance.starts_at_s, balance.values
    last = _drain_end_index(values)
    first = _unbroken_start_index(starts_at_s, last, period_s)
    if last - first < 1:
        return None
    # Go back from the newest sample as long as the balance fell at half the present rate or more.
    min_rate, position = _STEADY_SHARE * _fastest_rate(balance, first, last), last
    if min_rate <= 0:
        return None
    while position > first and _fastest_rate(balance, first, position) >= min_rate:
        position -= 1
    # The rates are means over up to 15 samples, so the drain began somewhere in the 15 samples before.
    # It began at the knee: the sample with the largest distance above a line that falls at that rate.
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
    """The index of the newest sample, or of the one with which the bucket was empty; -1 without samples."""
    last = len(values) - 1
    while last > 0 and values[last] <= _EMPTY_PCT and values[last - 1] <= _EMPTY_PCT:
        last -= 1
    return last


def _unbroken_start_index(starts_at_s: Sequence[int], last: int, period_s: int) -> int:
    """The index of the first sample of the newest stretch in which not too many samples are missing."""
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
    """Measure what was served in the known minutes of the drain; None if no minute is known."""
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
    period_s = metrics.read_ops.period_s
    reads, writes = (sum(series[minute] for minute in minutes) / len(minutes) / period_s for series in ops)
    read_kib, write_kib = map(_mean_kib, ops, transferred)
    return ServedOperations(
        minutes=len(minutes) * period_s // PERIOD_S,
        read_iops=reads,
        write_iops=writes,
        read_kib=read_kib,
        write_kib=write_kib,
    )


def _samples_within(episode: DrainEpisode, series: Series, now_s: float) -> dict[int, float]:
    closed = series.closed_by(min(now_s, episode.ended_at_s)).since(episode.began_at_s)
    return dict(zip(closed.starts_at_s, closed.values, strict=True))


def _mean_kib(ops: Mapping[int, float], transferred: Mapping[int, float]) -> float | None:
    """Mean KiB per operation, over the minutes for which both are known."""
    minutes = ops.keys() & transferred.keys()
    count = sum(ops[minute] for minute in minutes)
    return sum(transferred[minute] for minute in minutes) / count / _KIB if count else None


def compare_same_hour(days: Series, episode: DrainEpisode) -> SameHourHistory | None:
    """Compare the drain with the same hour of earlier days.

    A day is known if three quarters of its samples are there: missing data does not mean "no drain". None if
    there is nothing to compare by, because the fall is small or has lasted too long to be at an hour.
    """
    if (
        episode.began_before_samples
        or episode.drop_pct < _MIN_DRAIN_PCT
        or episode.ended_at_s - episode.began_at_s > _MAX_DURATION_S
    ):
        return None
    # A balance that falls at any hour also falls at this one: other hours of the same days are the control.
    same_hour = [_has_matching_drain(days, episode, day * DAY_S) for day in range(1, COMPARED_DAYS + 1)]
    other_hours = [
        _has_matching_drain(days, episode, day * DAY_S + hours_s)
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
    """Whether it fell as much, or was empty, ``offset_s`` seconds earlier; None if that is not known."""
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
