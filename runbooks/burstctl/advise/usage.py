"""What a volume served over many days: percentiles, peaks, and how long it was throttled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import MIB
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.ebs.demand import THROTTLED_SHARE
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume, baseline_iops


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A value and the start of its period, ``at_s``, in seconds since the epoch."""

    at_s: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSummary:
    """What was served per second: the percentile of the periods, the busiest of them, the busiest clock hour.

    ``periods_above`` is the number of periods that were busier than the percentile.
    """

    at_percentile: float
    busiest: Peak
    busiest_hour: Peak
    periods_above: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The known days of a volume, summed up; a field is None if CloudWatch has no data for it.

    ``empty_s`` is how long the bucket was empty. ``throttled_s`` is how long the volume was also at its
    baseline: its demand in that time is unknown. ``throttled_share`` is that share of all known periods (0 to
    1). ``throttled_operation_mib`` is the largest mean operation in those periods.
    """

    period_s: int
    percentile: float
    periods: int
    start_at_s: int
    end_at_s: int
    iops: RateSummary | None
    mib_s: RateSummary | None
    read_pct: float | None
    lowest_balance: Peak | None
    empty_s: int
    throttled_s: int
    throttled_operation_mib: float | None

    @property
    def days(self) -> float:
        """Days whose operations are known; gaps do not count."""
        return self.periods * self.period_s / DAY_S

    @property
    def throttled_share(self) -> float:
        return self.throttled_s / (self.periods * self.period_s) if self.periods else 0.0

    @property
    def is_throttled(self) -> bool:
        """Whether it was throttled to its baseline for a larger share than the percentile leaves out."""
        return self.throttled_share > 1 - self.percentile / 100

    @property
    def is_idle(self) -> bool:
        """Whether it served nothing at all."""
        return self.iops is not None and self.iops.busiest.value == 0


def summarise_usage(volume: Volume, history: MetricHistory, *, percentile: float) -> Usage | None:
    """Sum up a history; None if it contains neither operations nor a balance.

    If only reads or only writes of a period are known, they count alone: at least that much was served.

    Args:
        volume: the volume that the history is about.
        history: sums and minima of periods of equal length.
        percentile: above 0, at most 100.
    """
    operations = _add_series(history.read_ops, history.write_ops)
    if not operations and not history.balance:
        return None
    transferred = _add_series(history.read_bytes, history.write_bytes)
    period_s, known_series = history.period_s, operations or history.balance
    empty_starts_at_s = {start_at_s for start_at_s, pct in _pairs(history.balance) if pct <= EMPTY_PCT}
    min_throttled_ops = THROTTLED_SHARE * baseline_iops(volume.size_gib) * period_s
    throttled = [
        (start_at_s, count) for start_at_s, count in _pairs(operations) if count >= min_throttled_ops
    ]
    throttled = [(start_at_s, count) for start_at_s, count in throttled if start_at_s in empty_starts_at_s]
    return Usage(
        period_s=period_s,
        percentile=percentile,
        periods=len(operations),
        start_at_s=known_series.starts_at_s[0],
        end_at_s=known_series.starts_at_s[-1] + period_s,
        iops=_summarise_rate(operations, 1, period_s, percentile),
        mib_s=_summarise_rate(transferred, MIB, period_s, percentile),
        read_pct=_percent_of(history.read_ops, operations),
        lowest_balance=_lowest(history.balance),
        empty_s=len(empty_starts_at_s) * period_s,
        throttled_s=len(throttled) * period_s,
        throttled_operation_mib=_largest_operation_mib(throttled, transferred),
    )


def nearest_rank_percentile(ordered: Sequence[float], percentile: float) -> float:
    """The smallest of the ``ordered`` values (ascending) that ``percentile`` per cent of them do not exceed.

    Example: the 95th percentile of 100 values is the 95th, and of 10 values the 10th.
    """
    return ordered[max(0, ceil(len(ordered) * percentile / 100) - 1)]


def _add_series(first: Series, second: Series) -> Series:
    if first.starts_at_s == second.starts_at_s:
        return Series(first.starts_at_s, tuple(map(sum, zip(first.values, second.values, strict=True))))
    total = dict(_pairs(first))
    for start_at_s, value in _pairs(second):
        total[start_at_s] = total.get(start_at_s, 0.0) + value
    return Series.from_pairs(total.items())


def _pairs(series: Series) -> Iterable[tuple[int, float]]:
    return zip(series.starts_at_s, series.values, strict=True)


def _summarise_rate(sums: Series, unit: int, period_s: int, percentile: float) -> RateSummary | None:
    if not sums:
        return None
    ordered = sorted(sums.values)
    percentile_value, scale = nearest_rank_percentile(ordered, percentile), unit * period_s
    busiest_index = sums.values.index(ordered[-1])
    return RateSummary(
        at_percentile=percentile_value / scale,
        busiest=Peak(at_s=sums.starts_at_s[busiest_index], value=ordered[-1] / scale),
        busiest_hour=_busiest_hour(sums, scale),
        periods_above=sum(value > percentile_value for value in sums.values),
    )


def _busiest_hour(sums: Series, scale: int) -> Peak:
    """The highest mean of the known periods of one clock hour."""
    hours: dict[int, list[float]] = {}
    for start_at_s, value in _pairs(sums):
        hours.setdefault(start_at_s // HOUR_S, []).append(value)
    means = {hour: sum(values) / len(values) for hour, values in hours.items()}
    hour = max(means, key=lambda candidate: (means[candidate], -candidate))
    return Peak(at_s=hour * HOUR_S, value=means[hour] / scale)


def _percent_of(part: Series, whole: Series) -> float | None:
    total = sum(whole.values)
    return 100 * sum(part.values) / total if total else None


def _lowest(balance: Series) -> Peak | None:
    if not balance:
        return None
    lowest = min(balance.values)
    return Peak(at_s=balance.starts_at_s[balance.values.index(lowest)], value=lowest)


def _largest_operation_mib(throttled: Sequence[tuple[int, float]], transferred: Series) -> float | None:
    by_start = dict(_pairs(transferred))
    return max(
        (by_start[start_at_s] / count / MIB for start_at_s, count in throttled if start_at_s in by_start),
        default=None,
    )
