"""What CloudWatch shows of file systems and databases: AWS/EFS and AWS/RDS."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from burstlab.fake_aws.cloudwatch.volume_metrics import Datapoints
from burstlab.model.database import CLASS_IO, CLASS_THROUGHPUT, STORAGE, SimulatedDatabase
from burstlab.model.file_system import BUCKET, SimulatedFileSystem
from burstlab.model.fleet import LabFleet
from burstlab.model.metered_resource import MeteredResource
from burstlab.model.minute_history import MINUTE_S, RETENTION_MINUTES, MinuteHistory, MinuteRun
from burstlab.model.settings import LabSettings
from burstlab.model.volume import MetricFault
from burstwatch.core.buckets.units import MIB
from burstwatch.core.ebs.volume import CREDITS_PER_PCT

_KIB: Final = 1_024
_METERED_READ_SHARE: Final = 1 / 3
_FIVE_MINUTES_S: Final = 300
_QUARTER_HOUR_S: Final = 900
# the most operations of a general purpose file system; Source: EFS user guide, "Performance specifications"
_MAX_READ_IOPS, _MAX_WRITE_IOPS = 35_000, 7_000


class Aggregate(NamedTuple):
    """A period of a metric in CloudWatch's terms; ``samples`` values whose mean is ``average``."""

    minimum: float
    average: float
    maximum: float
    samples: float = 1.0


Reader: TypeAlias = Callable[[Any, MinuteRun, int], Aggregate | None]
"""Reads a minute of a resource: the run of the metric's history, and the start of the minute in seconds."""


class Metric(NamedTuple):
    """A metric: its unit, its period, which history has it (None: the operations), and how it is read."""

    unit: str
    read: Reader
    history: str | None = None
    period_s: int = MINUTE_S
    dimensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """The datapoints of a metric, and what CloudWatch has to say of the resource instead of Complete."""

    points: Datapoints
    fault: MetricFault | None = None


def _constant(value: float) -> Aggregate:
    return Aggregate(value, value, value)


def _balance(run: MinuteRun, scale: float, *, whole: bool = False) -> Aggregate:
    values = [value * scale for value in (run.minimum, run.mean, run.maximum)]
    return Aggregate(*(map(round, values) if whole else values))


def _of_operations(total_kib: float, operations: float) -> Aggregate:
    """Bytes of each operation: their sum is what CloudWatch shows as the Sum."""
    samples = max(1.0, operations)
    mean = total_kib * _KIB / samples
    return Aggregate(mean, mean, mean, samples)


def _credit_balance(_: SimulatedFileSystem, run: MinuteRun, __: int) -> Aggregate:
    return _balance(run, MIB, whole=True)


def _metered_bytes(_: SimulatedFileSystem, run: MinuteRun, __: int) -> Aggregate:
    return _of_operations(run.read_kib * _METERED_READ_SHARE + run.write_kib, run.read_ops + run.write_ops)


def _permitted(file_system: SimulatedFileSystem, _: MinuteRun, start_s: int) -> Aggregate:
    """The burst while there are credits, less without; a minute in which they ran out has both."""
    level = next(level for level in reversed(file_system.levels) if level.since_s < start_s + MINUTE_S)
    if level.mode != "bursting":
        return _constant(level.sustained_per_s)
    minute = (start_s - file_system.origin_s) // MINUTE_S
    [*balances] = file_system.balances[BUCKET].runs(minute, minute + 1)
    lowest, highest = (balances[0].minimum, balances[0].maximum) if balances else (1.0, 1.0)
    ends = [level.burst_per_s if credit > 0 else level.sustained_per_s for credit in (lowest, highest)]
    return Aggregate(ends[0], sum(ends) / 2, ends[1])


def _io_limit_pct(_: SimulatedFileSystem, run: MinuteRun, __: int) -> Aggregate:
    share = run.read_ops / MINUTE_S / _MAX_READ_IOPS + run.write_ops / MINUTE_S / _MAX_WRITE_IOPS
    return _constant(min(100.0, 100 * share))


def _stored(storage_class: str) -> Reader:
    def read(file_system: SimulatedFileSystem, _: MinuteRun, start_s: int) -> Aggregate:
        stored = next(
            (entry for entry in reversed(file_system.stored) if entry.since_s <= start_s),
            file_system.stored[0],
        )
        return _constant(getattr(stored, storage_class))

    return read


def _per_second(name: str, factor: float = 1.0) -> Reader:
    def read(_: SimulatedDatabase, run: MinuteRun, __: int) -> Aggregate:
        return _constant(getattr(run, name) * factor / MINUTE_S)

    return read


def _balance_pct(_: SimulatedDatabase, run: MinuteRun, __: int) -> Aggregate:
    return _balance(run, 1 / CREDITS_PER_PCT)


def _free_storage(database: SimulatedDatabase, _: MinuteRun, start_s: int) -> Aggregate:
    return _constant(database.free_bytes_at(start_s))


def _cpu_credits(database: SimulatedDatabase, _: MinuteRun, __: int) -> Aggregate | None:
    return _constant(database.cpu_credits) if database.facts.has_cpu_credits else None


_STORAGE_CLASS: Final = "StorageClass"
_STORED: Final = {"Total": "total", "Standard": "standard", "IA": "infrequent", "Archive": "archive"}

METRICS: Final[Mapping[tuple[str, str], Metric]] = {
    ("AWS/EFS", "BurstCreditBalance"): Metric("Bytes", _credit_balance, BUCKET),
    ("AWS/EFS", "PermittedThroughput"): Metric("Bytes/Second", _permitted),
    ("AWS/EFS", "MeteredIOBytes"): Metric("Bytes", _metered_bytes),
    ("AWS/EFS", "TotalIOBytes"): Metric(
        "Bytes", lambda _, run, __: _of_operations(run.read_kib + run.write_kib, run.read_ops + run.write_ops)
    ),
    ("AWS/EFS", "DataReadIOBytes"): Metric(
        "Bytes", lambda _, run, __: _of_operations(run.read_kib, run.read_ops)
    ),
    ("AWS/EFS", "DataWriteIOBytes"): Metric(
        "Bytes", lambda _, run, __: _of_operations(run.write_kib, run.write_ops)
    ),
    ("AWS/EFS", "MetadataIOBytes"): Metric("Bytes", lambda *_: _constant(0.0)),
    ("AWS/EFS", "PercentIOLimit"): Metric("Percent", _io_limit_pct),
    ("AWS/EFS", "StorageBytes"): Metric(
        "Bytes", _stored("total"), period_s=_QUARTER_HOUR_S, dimensions=(_STORAGE_CLASS,)
    ),
    ("AWS/RDS", "BurstBalance"): Metric("Percent", _balance_pct, STORAGE),
    ("AWS/RDS", "EBSIOBalance%"): Metric("Percent", _balance_pct, CLASS_IO, _FIVE_MINUTES_S),
    ("AWS/RDS", "EBSByteBalance%"): Metric("Percent", _balance_pct, CLASS_THROUGHPUT, _FIVE_MINUTES_S),
    ("AWS/RDS", "ReadIOPS"): Metric("Count/Second", _per_second("read_ops")),
    ("AWS/RDS", "WriteIOPS"): Metric("Count/Second", _per_second("write_ops")),
    ("AWS/RDS", "ReadThroughput"): Metric("Bytes/Second", _per_second("read_kib", _KIB)),
    ("AWS/RDS", "WriteThroughput"): Metric("Bytes/Second", _per_second("write_kib", _KIB)),
    ("AWS/RDS", "FreeStorageSpace"): Metric("Bytes", _free_storage),
    ("AWS/RDS", "CPUCreditBalance"): Metric("Count", _cpu_credits, period_s=_FIVE_MINUTES_S),
}
"""What is published by namespace and name. RDS publishes the balances of its class like EC2: every 5 min."""


def read_resource_metric(
    fleet: LabFleet, stat: Mapping[str, Any], from_s: int, to_s: int, now_s: float
) -> ResourceResult | None:
    """The datapoints that are published at ``now_s``, oldest first; None for a metric of other resources.

    ``stat`` is the MetricStat of GetMetricData.
    """
    requested = stat["Metric"]
    metric = METRICS.get((requested["Namespace"], requested["MetricName"]))
    if metric is None:
        return None
    dimensions = {entry["Name"]: entry["Value"] for entry in requested.get("Dimensions", ())}
    metric = _for_storage_class(metric, dimensions)
    if metric is None or stat.get("Unit", metric.unit) != metric.unit:
        return ResourceResult(Datapoints([], []))
    period_s = int(stat["Period"])
    span = (from_s // period_s * period_s, -(-to_s // period_s) * period_s)
    points: list[tuple[int, float]] = []
    fault = None
    for resource, limits in _resources(fleet, requested["Namespace"], dimensions):
        start_s, end_s = max(span[0], limits[0]), min(span[1], limits[1])
        aggregates = _visible(resource, metric, start_s, end_s, now_s, fleet.settings)
        points += _datapoints(aggregates, stat["Stat"], period_s)
        fault = resource.metric_fault or fault
    points = sorted(_with_doubles(points, fleet.settings.double_datapoint_every))
    return ResourceResult(Datapoints([at_s for at_s, _ in points], [value for _, value in points]), fault)


def _for_storage_class(metric: Metric, dimensions: Mapping[str, str]) -> Metric | None:
    """The metric for the storage class that is requested; None if there is one too many or too few."""
    if set(dimensions) - {"FileSystemId", "DBInstanceIdentifier"} != set(metric.dimensions):
        return None
    if not metric.dimensions:
        return metric
    storage_class = _STORED.get(dimensions[_STORAGE_CLASS])
    return metric._replace(read=_stored(storage_class)) if storage_class else None


def _resources(
    fleet: LabFleet, namespace: str, dimensions: Mapping[str, str]
) -> Iterator[tuple[MeteredResource, tuple[int, int]]]:
    """The resources that published under these dimensions, each with the time in which it did."""
    forever = int(fleet.clock.now_s()) + MINUTE_S
    if namespace == "AWS/EFS":
        file_system = fleet.file_systems.get(dimensions.get("FileSystemId", ""))
        if file_system is not None:
            yield file_system, (file_system.origin_s, forever)
        return
    for database, naming in fleet.databases.named(dimensions.get("DBInstanceIdentifier", "")):
        yield database, (naming.from_s, forever if naming.to_s is None else naming.to_s)


def _visible(
    resource: MeteredResource, metric: Metric, start_s: int, end_s: int, now_s: float, settings: LabSettings
) -> Iterator[tuple[int, Aggregate]]:
    """The periods of the metric that start within the span and are out."""
    period_s = metric.period_s
    first_s = -(-max(start_s, int(now_s) - RETENTION_MINUTES * MINUTE_S) // period_s) * period_s
    history = resource.balances[metric.history] if metric.history else resource.operations
    minutes = _minutes(resource, history, first_s, end_s + period_s)
    for at_s, group in groupby(minutes, key=lambda minute: minute[0] // period_s * period_s):
        is_out = at_s < end_s and now_s >= at_s + period_s + _lag_s(resource, at_s, settings)
        if not is_out or any(from_s <= at_s < to_s for from_s, to_s in resource.gaps):
            continue
        values = [
            value for minute_s, run in group if (value := metric.read(resource, run, minute_s)) is not None
        ]
        if values:
            yield at_s, _merge(values)


def _minutes(
    resource: MeteredResource, history: MinuteHistory, start_s: int, end_s: int
) -> Iterator[tuple[int, MinuteRun]]:
    """Each closed minute with its start, and a run that is this minute alone."""
    origin = resource.origin_s // MINUTE_S
    for run in history.runs(start_s // MINUTE_S - origin, -(-end_s // MINUTE_S) - origin):
        for minute in range(run.first_minute, run.first_minute + run.minute_count):
            yield (minute + origin) * MINUTE_S, run.slice(minute, minute + 1) if run.step else run


def _lag_s(resource: MeteredResource, at_s: int, settings: LabSettings) -> float:
    """The delay of this datapoint: always the same one."""
    if settings.lag_most_s is None:
        return settings.lag_s
    fraction = crc32(f"{settings.seed}/{resource.resource_id}/{at_s}".encode()) / 2**32
    return settings.lag_s + fraction * (settings.lag_most_s - settings.lag_s)


def _datapoints(
    aggregates: Iterable[tuple[int, Aggregate]], statistic: str, period_s: int
) -> Iterator[tuple[int, float]]:
    for at_s, group in groupby(aggregates, key=lambda entry: entry[0] // period_s * period_s):
        yield at_s, _statistic(_merge([aggregate for _, aggregate in group]), statistic)


def _merge(aggregates: list[Aggregate]) -> Aggregate:
    if len(aggregates) == 1:
        return aggregates[0]
    samples = sum(aggregate.samples for aggregate in aggregates)
    total = sum(aggregate.average * aggregate.samples for aggregate in aggregates)
    return Aggregate(
        min(aggregate.minimum for aggregate in aggregates),
        total / samples,
        max(aggregate.maximum for aggregate in aggregates),
        samples,
    )


def _statistic(aggregate: Aggregate, statistic: str) -> float:
    return {
        "Minimum": aggregate.minimum,
        "Maximum": aggregate.maximum,
        "Average": aggregate.average,
        "SampleCount": aggregate.samples,
        "Sum": aggregate.average * aggregate.samples,
    }[statistic]


def _with_doubles(points: Iterable[tuple[int, float]], every: int | None) -> Iterator[tuple[int, float]]:
    """Every n-th datapoint twice."""
    for at_s, value in points:
        yield at_s, value
        if every is not None and at_s // MINUTE_S % every == 0:
            yield at_s, value
