"""Reads an instance, its I/O of the last weeks, and instance types from AWS."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from burstctl.simulate.simulation import InstanceBucket, LoadInterval
from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.ec2 import parse_ebs_limits
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.adapters.aws.metric_history import DATAPOINTS_PER_S
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import MIB
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.larger_type import size_rank

PERIOD_S: Final = 300
"""The period of EC2's metrics with basic monitoring; CloudWatch keeps it for 63 days."""

METRIC_LAG_S: Final = 600
"""The last ten minutes may be incomplete. AWS documents no delay."""

_LOAD_METRICS: Final = ("EBSReadOps", "EBSWriteOps", "EBSReadBytes", "EBSWriteBytes")
_TYPES_PER_PAGE: Final = 100
"""The largest page of DescribeInstanceTypes (EC2 API reference)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedInstance:
    """An instance as EC2 describes it; ``started_at_s`` is when it last started, not when it was created."""

    instance_id: str
    name: str | None
    state: str
    instance_type: str
    architecture: str | None
    started_at_s: float | None
    has_detailed_monitoring: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """What a type allows its volumes; ``limits`` is None if EC2 shows none."""

    name: str
    limits: InstanceLimits | None
    architectures: frozenset[str]

    @property
    def family(self) -> str:
        """Family and generation: ``m7g`` of ``m7g.large``."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredIo:
    """The I/O of an instance, and its own balances, which are empty if CloudWatch has none.

    An interval is in ``load`` only if all four metrics have it. ``volume_balances`` are those of the attached
    volumes with credits, by ID, each since it was attached.
    """

    load: Sequence[LoadInterval]
    io_balance: Series
    throughput_balance: Series
    volume_balances: Mapping[str, Series]
    messages: Sequence[str]

    def balance(self, kind: InstanceBucket) -> Series:
        return self.io_balance if kind is InstanceBucket.IO else self.throughput_balance


def read_instance(client: Any, instance_id: str) -> SimulatedInstance | None:
    """The instance; None if EC2 does not know it.

    Raises:
        AwsError: it could not be read.
    """
    try:
        with translate_errors("ec2:DescribeInstances"):
            pages = paginate(client.describe_instances, list_key="Reservations", InstanceIds=[instance_id])
            instances = [
                instance
                for page in pages
                for reservation in page["Reservations"]
                for instance in reservation.get("Instances", ())
            ]
    except AwsError as error:
        if error.failure.kind is FailureKind.NOT_FOUND:
            return None
        raise
    return _parse_instance(instances[0]) if instances else None


def read_instance_types(client: Any, patterns: Sequence[str]) -> list[InstanceType]:
    """The types of the region whose names match, such as ``m7g.*``, the smallest first.

    Raises:
        AwsError: they could not be read.
    """
    with translate_errors("ec2:DescribeInstanceTypes"):
        pages = paginate(
            client.describe_instance_types,
            list_key="InstanceTypes",
            Filters=[{"Name": "instance-type", "Values": list(dict.fromkeys(patterns))}],
            MaxResults=_TYPES_PER_PAGE,
        )
        types = [_parse_type(description) for page in pages for description in page["InstanceTypes"]]
    return sorted(types, key=_baseline_order)


def read_metrics(
    client: Any, instance_id: str, volumes: Iterable[Volume], start_s: int, end_s: int
) -> MeasuredIo:
    """What CloudWatch has of an instance from ``start_s``, a multiple of five minutes, to ``end_s``.

    With detailed monitoring, CloudWatch adds the minutes up.

    Raises:
        AwsError: a metric could not be read.
    """
    sums = [MetricQuery(instance_id, metric, "Sum", "InstanceId", PERIOD_S) for metric in _LOAD_METRICS]
    balances = [
        MetricQuery(instance_id, kind.metric, "Minimum", "InstanceId", PERIOD_S) for kind in InstanceBucket
    ]
    of_volumes = {
        MetricQuery(volume.volume_id, EBS_IO.metric, "Minimum", period_s=PERIOD_S): volume
        for volume in volumes
        if volume.has_bucket
    }
    reader = CloudWatchReader(client, workers=1, datapoints_per_s=DATAPOINTS_PER_S)
    result = reader.read([*sums, *balances, *of_volumes], start_s, end_s)
    if result.unread:
        raise AwsError(next(iter(result.unread.values())))
    by_metric = [
        dict(zip(series.starts_at_s, series.values, strict=True))
        for series in map(result.series.get, sums)
        if series is not None
    ]
    read_ops, write_ops, read_bytes, write_bytes = by_metric
    starts_s = sorted(set.intersection(*map(set, by_metric)))
    io_balance, throughput_balance = (result.series[query] for query in balances)
    return MeasuredIo(
        load=[
            LoadInterval(
                start_s,
                PERIOD_S,
                read_ops[start_s] + write_ops[start_s],
                (read_bytes[start_s] + write_bytes[start_s]) / MIB,
            )
            for start_s in starts_s
        ],
        io_balance=io_balance,
        throughput_balance=throughput_balance,
        volume_balances={
            volume.volume_id: result.series[query].since(
                int(volume.attached_at.timestamp()) if volume.attached_at else 0
            )
            for query, volume in of_volumes.items()
        },
        messages=[f"cloudwatch:GetMetricData returned: {message}" for message in result.messages],
    )


def _parse_instance(description: Any) -> SimulatedInstance:
    tags = {tag.get("Key"): tag.get("Value") for tag in description.get("Tags", ())}
    launch_time = description.get("LaunchTime")
    return SimulatedInstance(
        instance_id=str(description.get("InstanceId")),
        name=tags.get("Name") or None,
        state=str(description.get("State", {}).get("Name", "unknown")),
        instance_type=str(description.get("InstanceType")),
        architecture=description.get("Architecture"),
        started_at_s=launch_time.astimezone(UTC).timestamp() if isinstance(launch_time, datetime) else None,
        has_detailed_monitoring=description.get("Monitoring", {}).get("State") in ("enabled", "pending"),
    )


def _parse_type(description: Any) -> InstanceType:
    architectures = description.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    return InstanceType(
        name=str(description.get("InstanceType")),
        limits=parse_ebs_limits(description),
        architectures=frozenset(map(str, architectures)),
    )


def _baseline_order(instance_type: InstanceType) -> tuple[float, float, int, str]:
    limits, size = instance_type.limits, size_rank(instance_type.name)
    if limits is None:
        return 0.0, 0.0, size, instance_type.name
    return limits.baseline_throughput_mib_s, limits.baseline_iops, size, instance_type.name
