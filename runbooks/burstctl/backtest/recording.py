"""The recording of a volume by the minute, whatever its source."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isnan, nan

from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.demand import THROTTLED_SHARE
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume, baseline_iops


@dataclass(frozen=True, slots=True)
class MinuteSeries:
    """One metric by the minute from ``first_s``; a minute that was not recorded is NaN."""

    first_s: int
    values: "array[float]"

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, float]], first_s: int, end_s: int) -> "MinuteSeries":
        """The part of a series of minutes that is in the span."""
        values = array("d", [nan]) * ((end_s - first_s) // PERIOD_S)
        for start_s, value in pairs:
            if first_s <= start_s < end_s:
                values[(start_s - first_s) // PERIOD_S] = value
        return cls(first_s, values)

    @property
    def end_s(self) -> int:
        return self.first_s + len(self.values) * PERIOD_S

    def at(self, start_s: int) -> float | None:
        """The value of the minute that starts then; None without a datapoint."""
        index = (start_s - self.first_s) // PERIOD_S
        if not 0 <= index < len(self.values):
            return None
        value = self.values[index]
        return None if isnan(value) else value

    def set_at(self, start_s: int, value: float | None) -> None:
        """Write one minute over; None is a gap."""
        self.values[(start_s - self.first_s) // PERIOD_S] = nan if value is None else value

    def between(self, start_s: float, end_s: float) -> Series:
        """The minutes known that begin in ``[start_s, end_s)``."""
        first_index = max(0, -int((self.first_s - start_s) // PERIOD_S))
        last_index = min(len(self.values), -int((self.first_s - end_s) // PERIOD_S))
        if first_index >= last_index:
            return Series()
        values = self.values[first_index:last_index]
        starts_s = range(
            self.first_s + first_index * PERIOD_S, self.first_s + last_index * PERIOD_S, PERIOD_S
        )
        if isnan(sum(values)):
            known = [(start, value) for start, value in zip(starts_s, values, strict=True) if value == value]  # noqa: PLR0124 - no gap is itself
            return Series(tuple(start for start, _ in known), tuple(value for _, value in known))
        return Series(tuple(starts_s), tuple(values))

    def copy(self) -> "MinuteSeries":
        return MinuteSeries(self.first_s, self.values[:])

    def __iter__(self) -> Iterator[tuple[int, float]]:
        """Each minute known, with its value."""
        for index, value in enumerate(self.values):
            if not isnan(value):
                yield self.first_s + index * PERIOD_S, value


@dataclass(frozen=True)
class Recording:
    """A volume with burst credits as it was recorded: least balance and operations of each minute.

    ``period_s`` is how wide the periods were that it was recorded in. ``cut_because`` says why not all that
    was recorded is used.
    """

    volume: Volume
    balance: MinuteSeries
    reads: MinuteSeries
    writes: MinuteSeries
    period_s: int = PERIOD_S
    cut_because: str | None = None

    @property
    def first_s(self) -> int:
        return self.balance.first_s

    @property
    def end_s(self) -> int:
        return self.balance.end_s

    def served_iops(self, start_s: int) -> float | None:
        """Operations a second in a minute, where both halves are known."""
        reads, writes = self.reads.at(start_s), self.writes.at(start_s)
        return None if reads is None or writes is None else (reads + writes) / PERIOD_S

    def is_stalled(self, start_s: int, balance_pct: float | None) -> bool:
        """Whether the volume was throttled in a minute: its bucket was empty and it was at its baseline.

        The throughput of st1 and sc1 is not recorded, so every minute without credits counts.
        """
        if balance_pct is None or balance_pct > EMPTY_PCT:
            return False
        if not self.volume.is_gp2:
            return True
        served = self.served_iops(start_s)
        return served is not None and served >= THROTTLED_SHARE * baseline_iops(self.volume.size_gib)

    def stalled_minutes(self, start_s: int, end_s: int) -> list[int]:
        """The minutes of a span in which the volume was throttled."""
        return [
            at_s
            for at_s, pct in self.balance
            if pct <= EMPTY_PCT and start_s <= at_s < end_s and self.is_stalled(at_s, pct)
        ]

    def known_minutes(self, start_s: int, end_s: int) -> int:
        """Of how many minutes of a span the balance is known."""
        return len(self.balance.between(start_s, end_s))

    @cached_property
    def _silences(self) -> list[tuple[int, int]]:
        """The spans in which nothing was recorded, including before the first and after the last minute."""
        silences: list[tuple[int, int]] = []
        minute_values = zip(self.balance.values, self.reads.values, self.writes.values, strict=True)
        at_s = self.first_s
        for is_silent, minutes in groupby(all(map(isnan, minute)) for minute in minute_values):
            end_s = at_s + sum(1 for _ in minutes) * PERIOD_S
            if is_silent:
                silences.append((at_s, end_s))
            at_s = end_s
        return silences

    def silence_s(self, at_s: float) -> int:
        """The length of the gap around a moment; 0 if something was recorded then."""
        if at_s >= self.end_s:
            return 2**31
        index = bisect_right(self._silences, (at_s, 2**62)) - 1
        if index < 0:
            return 0
        start_s, end_s = self._silences[index]
        return end_s - start_s if at_s < end_s else 0


def make_recording(volume: Volume, history: MetricHistory, first_s: int, end_s: int) -> Recording:
    """A recording from CloudWatch's data; wider periods are expanded to minutes.

    The operations of a wide period are spread evenly over it. Its balance is interpolated: down to its
    minimum if that is lower than before, or up to the next one if that is higher.
    """
    period_s = history.period_s
    operations = {"reads": history.read_ops, "writes": history.write_ops}
    if period_s == PERIOD_S:
        spread = {name: _to_pairs(series) for name, series in operations.items()}
        balance = _to_pairs(history.balance)
    else:
        spread = {name: _spread_evenly(series, period_s) for name, series in operations.items()}
        balance = _interpolate_balance(history.balance, period_s)
    return Recording(
        volume=volume,
        balance=MinuteSeries.of(balance, first_s, end_s),
        reads=MinuteSeries.of(spread["reads"], first_s, end_s),
        writes=MinuteSeries.of(spread["writes"], first_s, end_s),
        period_s=period_s,
    )


def restrict_to(recording: Recording, start_s: int, end_s: int, reason: str) -> Recording:
    """The part of the recording that is in a span."""
    balance, reads, writes = (
        MinuteSeries.of(
            ((at_s, value) for at_s, value in track if start_s <= at_s < end_s),
            recording.first_s,
            recording.end_s,
        )
        for track in (recording.balance, recording.reads, recording.writes)
    )
    return replace(recording, balance=balance, reads=reads, writes=writes, cut_because=reason)


def _to_pairs(series: Series) -> Iterable[tuple[int, float]]:
    return zip(series.starts_at_s, series.values, strict=True)


def _spread_evenly(series: Series, period_s: int) -> Iterator[tuple[int, float]]:
    share = PERIOD_S / period_s
    for start_s, value in _to_pairs(series):
        for at_s in range(start_s, start_s + period_s, PERIOD_S):
            yield at_s, value * share


def _interpolate_balance(series: Series, period_s: int) -> Iterator[tuple[int, float]]:
    known = dict(_to_pairs(series))
    count = period_s // PERIOD_S
    for start_s, minimum in known.items():
        before, after = known.get(start_s - period_s, minimum), known.get(start_s + period_s, minimum)
        if before > minimum:
            steps = (before + (minimum - before) * (index + 1) / count for index in range(count))
        else:
            steps = (minimum + max(0.0, after - minimum) * index / count for index in range(count))
        yield from zip(range(start_s, start_s + period_s, PERIOD_S), steps, strict=True)
