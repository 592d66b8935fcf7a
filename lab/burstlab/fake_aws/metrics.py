"""What CloudWatch shows of a volume or an instance: which datapoints are out, and their statistics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple
from zlib import crc32

from burstlab.model.fleet import LabSettings
from burstlab.model.instance import LabInstance
from burstlab.model.minute_history import KEPT_MINUTES, MINUTE_S, Run
from burstlab.model.simulated_volume import SimulatedVolume
from burstwatch.core.ebs.volume import CREDITS_PER_PCT

UNITS: Final = {
    "BurstBalance": "Percent",
    "VolumeReadOps": "Count",
    "VolumeWriteOps": "Count",
    "VolumeReadBytes": "Bytes",
    "VolumeWriteBytes": "Bytes",
}
STATISTICS: Final = ("Minimum", "Average", "Maximum", "Sum", "SampleCount")
_KIB: Final = 1024
_INSTANCE_PERIOD_S: Final = 300
"""An instance's balances come every five minutes, with detailed monitoring too."""


@dataclass(frozen=True, slots=True)
class Datapoints:
    """Datapoints of one metric and statistic, oldest first; starts are seconds since the epoch."""

    starts_s: list[int]
    values: list[float]


class _Aggregate(NamedTuple):
    """One minute of a metric in CloudWatch's terms."""

    start_s: int
    minimum: float
    average: float
    maximum: float
    samples: float


def read_datapoints(
    volume: SimulatedVolume,
    metric: str,
    statistic: str,
    *,
    period_s: int,
    from_s: int,
    to_s: int,
    now_s: float,
    settings: LabSettings,
) -> Datapoints:
    """What is out at ``now_s`` and starts in [``from_s``, ``to_s``); periods begin at their own multiples."""
    from_s, to_s = from_s // period_s * period_s, -(-to_s // period_s) * period_s
    runs = [
        run
        for run in _visible_runs(volume, metric, from_s // MINUTE_S, to_s // MINUTE_S, now_s, settings)
        if metric != "BurstBalance" or run.balance_seconds
    ]
    if metric == "BurstBalance" and settings.balance_every_s > MINUTE_S:
        runs = list(_thinned(runs, settings.balance_every_s // MINUTE_S))
    if period_s == MINUTE_S:
        return _by_minute(runs, metric, statistic)
    minutes = (minute for run in runs for minute in _aggregates(run, metric))
    return _by_period(minutes, statistic, period_s)


def read_instance_balances(
    instance: LabInstance,
    metric: str,
    statistic: str,
    *,
    period_s: int,
    from_s: int,
    to_s: int,
    now_s: float,
    settings: LabSettings,
) -> Datapoints:
    """The same of an instance's balances, for whichever periods some were set."""
    if not instance.balances:
        return Datapoints([], [])
    every_s = _INSTANCE_PERIOD_S
    first_s = max(from_s // period_s * period_s, instance.balances[0].since_s // every_s * every_s)
    last_s = min(-(-to_s // period_s) * period_s, int(now_s - settings.lag_s) - every_s + 1)
    starts_s = range(-(-first_s // every_s) * every_s, last_s, every_s)
    least = ((start_s, instance.least_balance(metric, start_s, start_s + every_s)) for start_s in starts_s)
    known = (_Aggregate(start_s, pct, pct, pct, 1.0) for start_s, pct in least if pct is not None)
    return _by_period(known, statistic, period_s)


def _thinned(runs: Iterable[Run], every: int) -> Iterator[Run]:
    """Of each so many minutes the first: what a metric with a longer period shows."""
    for run in runs:
        for index in range(-run.first % every, run.minutes, every):
            yield _minute_of(run, index)


def _minute_of(run: Run, index: int) -> Run:
    moved = index * run.step
    return run._replace(
        first=run.first + index,
        minutes=1,
        least=run.least + moved,
        mean=run.mean + moved,
        most=run.most + moved,
    )


def _visible_runs(
    volume: SimulatedVolume, metric: str, first: int, last: int, now_s: float, settings: LabSettings
) -> Iterator[Run]:
    """Runs that are out by ``now_s``, in absolute minute numbers, without the gaps."""
    surely = int((now_s - (settings.lag_most_s or settings.lag_s)) // MINUTE_S)
    first = max(first, volume.origin_s // MINUTE_S, int(now_s // MINUTE_S) - KEPT_MINUTES)
    hidden = [*volume.gaps, *(volume.balance_gaps if metric == "BurstBalance" else ())]
    gaps = [gap for gap in hidden if gap[0] < last * MINUTE_S and gap[1] > first * MINUTE_S]
    yield from _without_gaps(volume, first, min(last, surely), gaps)
    for number in range(max(first, surely), min(last, int(now_s // MINUTE_S) + 1)):
        if not any(from_s <= number * MINUTE_S < to_s for from_s, to_s in gaps):
            yield from _newest(volume, number, now_s, settings)


def _without_gaps(
    volume: SimulatedVolume, first: int, last: int, gaps: list[tuple[float, float]]
) -> Iterator[Run]:
    origin = volume.origin_s // MINUTE_S
    at = first
    for from_s, to_s in sorted(gaps):
        gap_first, gap_last = int(-(-from_s // MINUTE_S)), int(-(-to_s // MINUTE_S))
        yield from _runs(volume, at, min(last, gap_first), origin)
        at = max(at, gap_last)
    yield from _runs(volume, at, last, origin)


def _runs(volume: SimulatedVolume, first: int, last: int, origin: int) -> Iterator[Run]:
    if first < last:
        for run in volume.history.runs(first - origin, last - origin):
            yield run._replace(first=run.first + origin)


def _newest(volume: SimulatedVolume, number: int, now_s: float, settings: LabSettings) -> Iterator[Run]:
    """A minute near the edge of what is out: complete, as far as known, or not there yet."""
    seen_s = now_s - _lag_s(volume, number, settings)
    origin = volume.origin_s // MINUTE_S
    if seen_s >= (number + 1) * MINUTE_S:
        yield from _runs(volume, number, number + 1, origin)
    elif settings.open_minute and seen_s > number * MINUTE_S:
        partial = volume.history.known_at(number - origin, seen_s - volume.origin_s)
        if partial is not None:
            yield partial._replace(first=number)


def _lag_s(volume: SimulatedVolume, number: int, settings: LabSettings) -> float:
    """This datapoint's own lag: the same whenever it is asked for, whoever asks."""
    if settings.lag_most_s is None:
        return settings.lag_s
    share = crc32(f"{settings.seed}/{volume.volume_id}/{number}".encode()) / 2**32
    return settings.lag_s + share * (settings.lag_most_s - settings.lag_s)


def _by_period(aggregates: Iterable[_Aggregate], statistic: str, period_s: int) -> Datapoints:
    starts_s, values = [], []
    for start_s, group in groupby(aggregates, key=lambda each: each.start_s // period_s * period_s):
        starts_s.append(start_s)
        values.append(_statistic(list(group), statistic))
    return Datapoints(starts_s, values)


def _by_minute(runs: list[Run], metric: str, statistic: str) -> Datapoints:
    """The usual question, answered a run at a time: all its minutes lie on a line."""
    starts_s: list[int] = []
    values: list[float] = []
    for run in runs:
        first = _statistic([next(_aggregates(run, metric))], statistic)
        step = _step(run, metric, statistic)
        starts_s.extend(range(run.first * MINUTE_S, (run.first + run.minutes) * MINUTE_S, MINUTE_S))
        values.extend(
            [first + index * step for index in range(run.minutes)] if step else [first] * run.minutes
        )
    return Datapoints(starts_s, values)


def _step(run: Run, metric: str, statistic: str) -> float:
    """How much a statistic moves from one minute of a run to the next."""
    if metric != "BurstBalance" or statistic == "SampleCount":
        return 0.0
    step = run.step / CREDITS_PER_PCT
    return step * round(run.balance_seconds) if statistic == "Sum" else step


def _aggregates(run: Run, metric: str) -> Iterator[_Aggregate]:
    """A balance is sampled every second; operations are one sum a minute, and so are their bytes."""
    for index in range(run.minutes):
        start_s = (run.first + index) * MINUTE_S
        if metric == "BurstBalance":
            moved = index * run.step
            least, mean, most = (
                (value + moved) / CREDITS_PER_PCT for value in (run.least, run.mean, run.most)
            )
            yield _Aggregate(start_s, least, mean, most, max(1.0, round(run.balance_seconds)))
        else:
            total = _total(run, metric)
            yield _Aggregate(start_s, total, total, total, 1.0)


def _total(run: Run, metric: str) -> float:
    """What a minute of the run sums up to."""
    if metric.endswith("Ops"):
        return run.read_ops if metric == "VolumeReadOps" else run.write_ops
    return _KIB * (run.read_kib if metric == "VolumeReadBytes" else run.write_kib)


def _statistic(minutes: list[_Aggregate], statistic: str) -> float:
    if statistic == "Minimum":
        return min(minute.minimum for minute in minutes)
    if statistic == "Maximum":
        return max(minute.maximum for minute in minutes)
    samples = sum(minute.samples for minute in minutes)
    total = sum(minute.average * minute.samples for minute in minutes)
    return {"Sum": total, "SampleCount": samples, "Average": total / samples}[statistic]
