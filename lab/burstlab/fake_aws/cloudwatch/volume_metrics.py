"""What CloudWatch shows of a volume: which datapoints are out, and their statistics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple
from zlib import crc32

from burstlab.model.fleet import LabSettings
from burstlab.model.instances.instance import LabInstance
from burstlab.model.instances.instance_types import is_nitro
from burstlab.model.minute_history import (
    IOPS_EXCEEDED,
    MINUTE_S,
    RETENTION_MINUTES,
    THROUGHPUT_EXCEEDED,
    MinuteRun,
)
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
_KIB: Final = 1024  # the model counts in KiB, CloudWatch in bytes
EXCEEDED_CHECKS: Final = {
    "VolumeIOPSExceededCheck": IOPS_EXCEEDED,
    "VolumeThroughputExceededCheck": THROUGHPUT_EXCEEDED,
}
"""The metrics of a volume and the instance it is attached to, with the limit that each is about."""


@dataclass(frozen=True, slots=True)
class Datapoints:
    """Datapoints of one metric and statistic, oldest first; starts are seconds since the epoch."""

    starts_s: list[int]
    values: list[float]


class Aggregate(NamedTuple):
    """One interval of a metric in CloudWatch's terms."""

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
    """The datapoints that are published at ``now_s`` and start in [``from_s``, ``to_s``).

    Periods begin at their own multiples.
    """
    from_s, to_s = from_s // period_s * period_s, -(-to_s // period_s) * period_s
    runs = [
        run
        for run in _visible_runs(volume, metric, from_s // MINUTE_S, to_s // MINUTE_S, now_s, settings)
        if metric != "BurstBalance" or run.balance_seconds
    ]
    if metric == "BurstBalance" and settings.balance_every_s > MINUTE_S:
        runs = list(_sample_runs(runs, settings.balance_every_s // MINUTE_S))
    if period_s == MINUTE_S:
        return _minute_datapoints(runs, metric, statistic)
    minutes = (minute for run in runs for minute in _minute_aggregates(run, metric))
    return period_datapoints(minutes, statistic, period_s)


def read_exceeded_checks(
    volume: SimulatedVolume,
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
    """The same of an exceeded check of a volume: there is one for each instance it is or was attached to.

    None exists for a volume that several instances may share, for magnetic volumes, on an Outpost, or on an
    instance that is not built on Nitro. Source: EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
    """
    if volume.multi_attached or volume.volume_type == "standard" or volume.outpost_arn is not None:
        return Datapoints([], [])
    if not is_nitro(instance.instance_type):
        return Datapoints([], [])
    from_s, to_s = from_s // period_s * period_s, -(-to_s // period_s) * period_s
    hostings = [hosting for hosting in instance.hostings if hosting.volume is volume]
    minutes = (
        minute
        for run in _visible_runs(volume, metric, from_s // MINUTE_S, to_s // MINUTE_S, now_s, settings)
        for minute in _minute_aggregates(run, metric)
        if any(hosting.covers(minute.start_s // MINUTE_S) for hosting in hostings)
    )
    return period_datapoints(minutes, statistic, period_s)


def _sample_runs(runs: Iterable[MinuteRun], interval_min: int) -> Iterator[MinuteRun]:
    """The first of every ``interval_min`` minutes, as a metric with a longer period shows."""
    for run in runs:
        for index in range(-run.first_minute % interval_min, run.minute_count, interval_min):
            yield _single_minute(run, index)


def _single_minute(run: MinuteRun, index: int) -> MinuteRun:
    change = index * run.step
    return run._replace(
        first_minute=run.first_minute + index,
        minute_count=1,
        minimum=run.minimum + change,
        mean=run.mean + change,
        maximum=run.maximum + change,
    )


def _visible_runs(
    volume: SimulatedVolume,
    metric: str,
    first_minute: int,
    end_minute: int,
    now_s: float,
    settings: LabSettings,
) -> Iterator[MinuteRun]:
    """Runs that are out by ``now_s``, in absolute minute numbers, without the gaps."""
    certain_end_minute = int((now_s - (settings.lag_most_s or settings.lag_s)) // MINUTE_S)
    first_minute = max(first_minute, volume.origin_s // MINUTE_S, int(now_s // MINUTE_S) - RETENTION_MINUTES)
    all_gaps = [*volume.gaps, *(volume.balance_gaps if metric == "BurstBalance" else ())]
    gaps = [gap for gap in all_gaps if gap[0] < end_minute * MINUTE_S and gap[1] > first_minute * MINUTE_S]
    yield from _without_gaps(volume, first_minute, min(end_minute, certain_end_minute), gaps)
    for minute in range(max(first_minute, certain_end_minute), min(end_minute, int(now_s // MINUTE_S) + 1)):
        if not any(from_s <= minute * MINUTE_S < to_s for from_s, to_s in gaps):
            yield from _newest_runs(volume, minute, now_s, settings)


def _without_gaps(
    volume: SimulatedVolume, first_minute: int, end_minute: int, gaps: list[tuple[float, float]]
) -> Iterator[MinuteRun]:
    origin_minute = volume.origin_s // MINUTE_S
    next_minute = first_minute
    for from_s, to_s in sorted(gaps):
        gap_first, gap_last = int(-(-from_s // MINUTE_S)), int(-(-to_s // MINUTE_S))
        yield from _runs(volume, next_minute, min(end_minute, gap_first), origin_minute)
        next_minute = max(next_minute, gap_last)
    yield from _runs(volume, next_minute, end_minute, origin_minute)


def _runs(
    volume: SimulatedVolume, first_minute: int, end_minute: int, origin_minute: int
) -> Iterator[MinuteRun]:
    if first_minute < end_minute:
        for run in volume.history.runs(first_minute - origin_minute, end_minute - origin_minute):
            yield run._replace(first_minute=run.first_minute + origin_minute)


def _newest_runs(
    volume: SimulatedVolume, minute: int, now_s: float, settings: LabSettings
) -> Iterator[MinuteRun]:
    """A minute near the edge of what is out: complete, as far as known, or not there yet."""
    visible_until_s = now_s - datapoint_lag_s(volume.volume_id, minute, settings)
    origin_minute = volume.origin_s // MINUTE_S
    if visible_until_s >= (minute + 1) * MINUTE_S:
        yield from _runs(volume, minute, minute + 1, origin_minute)
    elif settings.open_minute and visible_until_s > minute * MINUTE_S:
        partial = volume.history.known_at(minute - origin_minute, visible_until_s - volume.origin_s)
        if partial is not None:
            yield partial._replace(first_minute=minute)


def datapoint_lag_s(resource_id: str, minute: int, settings: LabSettings) -> float:
    """The delay of this datapoint: always the same one."""
    if settings.lag_most_s is None:
        return settings.lag_s
    fraction = crc32(f"{settings.seed}/{resource_id}/{minute}".encode()) / 2**32
    return settings.lag_s + fraction * (settings.lag_most_s - settings.lag_s)


def period_datapoints(aggregates: Iterable[Aggregate], statistic: str, period_s: int) -> Datapoints:
    """The datapoints of periods of this length."""
    starts_s, values = [], []
    for start_s, group in groupby(aggregates, key=lambda aggregate: aggregate.start_s // period_s * period_s):
        starts_s.append(start_s)
        values.append(_statistic(list(group), statistic))
    return Datapoints(starts_s, values)


def _minute_datapoints(runs: list[MinuteRun], metric: str, statistic: str) -> Datapoints:
    """The usual query, answered run by run: the minutes of a run are on a straight line."""
    starts_s: list[int] = []
    values: list[float] = []
    for run in runs:
        first_value = _statistic([next(_minute_aggregates(run, metric))], statistic)
        step = _step_per_minute(run, metric, statistic)
        starts_s.extend(
            range(run.first_minute * MINUTE_S, (run.first_minute + run.minute_count) * MINUTE_S, MINUTE_S)
        )
        values.extend(
            [first_value + index * step for index in range(run.minute_count)]
            if step
            else [first_value] * run.minute_count
        )
    return Datapoints(starts_s, values)


def _step_per_minute(run: MinuteRun, metric: str, statistic: str) -> float:
    """How much a statistic moves from one minute of a run to the next."""
    if metric != "BurstBalance" or statistic == "SampleCount":
        return 0.0
    step = run.step / CREDITS_PER_PCT
    return step * round(run.balance_seconds) if statistic == "Sum" else step


def _minute_aggregates(run: MinuteRun, metric: str) -> Iterator[Aggregate]:
    """A balance is sampled every second; operations are one sum a minute, and so are their bytes."""
    for index in range(run.minute_count):
        start_s = (run.first_minute + index) * MINUTE_S
        if metric == "BurstBalance":
            change = index * run.step
            minimum, mean, maximum = (
                (value + change) / CREDITS_PER_PCT for value in (run.minimum, run.mean, run.maximum)
            )
            yield Aggregate(start_s, minimum, mean, maximum, max(1.0, round(run.balance_seconds)))
        else:
            total = minute_total(run, metric)
            yield Aggregate(start_s, total, total, total, 1.0)


def minute_total(run: MinuteRun, metric: str) -> float:
    """What a minute of the run sums up to."""
    if metric in EXCEEDED_CHECKS:
        return float(run.exceeded & EXCEEDED_CHECKS[metric] > 0)
    if metric.endswith("Ops"):
        return run.read_ops if metric == "VolumeReadOps" else run.write_ops
    return _KIB * (run.read_kib if metric == "VolumeReadBytes" else run.write_kib)


def _statistic(minutes: list[Aggregate], statistic: str) -> float:
    if statistic == "Minimum":
        return min(minute.minimum for minute in minutes)
    if statistic == "Maximum":
        return max(minute.maximum for minute in minutes)
    samples = sum(minute.samples for minute in minutes)
    total = sum(minute.average * minute.samples for minute in minutes)
    return {"Sum": total, "SampleCount": samples, "Average": total / samples}[statistic]
