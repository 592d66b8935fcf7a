"""What a volume was seen to do over many days: percentiles, peaks, and how long it was held back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.sizing import AT_CEILING, EMPTY_PCT
from burstwatch.core.ebs.volume import Volume, baseline_iops

MIB: Final = 2**20
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What CloudWatch keeps of a volume: sums of operations and bytes, and the least balance, by period."""

    period_s: int
    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    balance: Series = Series()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A value and when it was; the period begins at ``at_s``."""

    at_s: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What was served a second: at the percentile, and when it was most; means of a period or a clock hour.

    ``above`` is how many periods were busier than the percentile.
    """

    at_percentile: float
    busiest: Peak
    busiest_hour: Peak
    above: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The days seen of a volume, summed up; None where CloudWatch says nothing.

    ``dry_s`` is how long the bucket was empty, ``held_s`` how long the volume served its baseline meanwhile:
    what it wanted then nobody saw. ``held_share`` is that of all periods known, ``held_operation_mib`` the
    largest mean operation of them.
    """

    period_s: int
    percentile: float
    periods: int
    first_s: int
    last_s: int
    iops: Rate | None
    mib_s: Rate | None
    read_pct: float | None
    least_balance: Peak | None
    dry_s: int
    held_s: int
    held_operation_mib: float | None

    @property
    def days(self) -> float:
        """Days of which the operations are known; gaps do not count."""
        return self.periods * self.period_s / _DAY_S

    @property
    def held_share(self) -> float:
        return self.held_s / (self.periods * self.period_s) if self.periods else 0.0

    @property
    def is_held(self) -> bool:
        """Whether it was held to its baseline for longer than the percentile leaves out."""
        return self.held_share > 1 - self.percentile / 100

    @property
    def is_idle(self) -> bool:
        """Whether it served nothing at all."""
        return self.iops is not None and self.iops.busiest.value == 0


def sum_up(volume: Volume, history: History, *, percentile: float) -> Usage | None:
    """The usage in a history; None where there is neither an operation count nor a balance in it.

    Of a period with one half known, reads or writes, that half is the least that was served.
    """
    operations = _both(history.read_ops, history.write_ops)
    if not operations and not history.balance:
        return None
    moved = _both(history.read_bytes, history.write_bytes)
    period_s, seen = history.period_s, operations or history.balance
    dry = {start_s for start_s, pct in _pairs(history.balance) if pct <= EMPTY_PCT}
    least_held = AT_CEILING * baseline_iops(volume.size_gib) * period_s
    held = [(start_s, count) for start_s, count in _pairs(operations) if count >= least_held]
    held = [(start_s, count) for start_s, count in held if start_s in dry]
    return Usage(
        period_s=period_s,
        percentile=percentile,
        periods=len(operations),
        first_s=seen.starts_s[0],
        last_s=seen.starts_s[-1] + period_s,
        iops=_rate(operations, 1, period_s, percentile),
        mib_s=_rate(moved, MIB, period_s, percentile),
        read_pct=_share_pct(history.read_ops, operations),
        least_balance=_least(history.balance),
        dry_s=len(dry) * period_s,
        held_s=len(held) * period_s,
        held_operation_mib=_largest_operation_mib(held, moved),
    )


def at_percentile(ordered: Sequence[float], percentile: float) -> float:
    """The least of these, in ascending order, that so many per cent of them do not exceed."""
    return ordered[max(0, ceil(len(ordered) * percentile / 100) - 1)]


def _both(one: Series, other: Series) -> Series:
    if one.starts_s == other.starts_s:
        return Series(one.starts_s, tuple(map(sum, zip(one.values, other.values, strict=True))))
    total = dict(_pairs(one))
    for start_s, value in _pairs(other):
        total[start_s] = total.get(start_s, 0.0) + value
    return Series.of(total.items())


def _pairs(series: Series) -> Iterable[tuple[int, float]]:
    return zip(series.starts_s, series.values, strict=True)


def _rate(sums: Series, unit: int, period_s: int, percentile: float) -> Rate | None:
    if not sums:
        return None
    ordered = sorted(sums.values)
    at, scale = at_percentile(ordered, percentile), unit * period_s
    place = sums.values.index(ordered[-1])
    return Rate(
        at_percentile=at / scale,
        busiest=Peak(at_s=sums.starts_s[place], value=ordered[-1] / scale),
        busiest_hour=_busiest_hour(sums, scale),
        above=sum(value > at for value in sums.values),
    )


def _busiest_hour(sums: Series, scale: int) -> Peak:
    """The mean of the periods known of a clock hour, in the hour where it is most."""
    hours: dict[int, list[float]] = {}
    for start_s, value in _pairs(sums):
        hours.setdefault(start_s // _HOUR_S, []).append(value)
    means = {hour: sum(values) / len(values) for hour, values in hours.items()}
    hour = max(means, key=lambda each: (means[each], -each))
    return Peak(at_s=hour * _HOUR_S, value=means[hour] / scale)


def _share_pct(part: Series, whole: Series) -> float | None:
    total = sum(whole.values)
    return 100 * sum(part.values) / total if total else None


def _least(balance: Series) -> Peak | None:
    if not balance:
        return None
    least = min(balance.values)
    return Peak(at_s=balance.starts_s[balance.values.index(least)], value=least)


def _largest_operation_mib(held: Sequence[tuple[int, float]], moved: Series) -> float | None:
    by_start = dict(_pairs(moved))
    return max((by_start[at] / count / MIB for at, count in held if at in by_start), default=None)
