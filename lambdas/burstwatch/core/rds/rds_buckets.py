"""The buckets of an RDS database instance: those of its gp2 storage and of its instance class.

Source of the numbers: the RDS user guide, "Amazon RDS DB instance storage" (gp2) and "Amazon CloudWatch
metrics for Amazon RDS". The storage is one gp2 volume, or four that are striped, each with its own bucket.
They are treated as one bucket of the sum: AWS does not document whether ``BurstBalance`` is the mean or the
minimum of the four, and striping keeps them alike. Examples for PostgreSQL::

    GiB      volumes   baseline IOPS   burst IOPS   a full bucket lasts at least   idle refill
       20       1            100          3,000              1,862 s                  15 h
      100       1            300          3,000              2,000 s                   5 h
      399       1          1,197          3,000              2,995 s                  75 min
      400       4          1,200         12,000              2,000 s                   5 h
    1,000       4          3,000         12,000              2,400 s                   2 h
    3,000       4          9,000         12,000              7,200 s                  40 min
    4,000       4         12,000         12,000           never empty                   -

A small instance class may be slower than the burst of the storage. The storage then drains later, so the
bound holds.
"""

from dataclasses import replace
from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.outlook import describe_outlook
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, gp2_throughput_mib_s
from burstwatch.core.instances.instance_buckets import (
    INSTANCE_IO,
    INSTANCE_THROUGHPUT,
    instance_io_bucket,
    instance_throughput_bucket,
)
from burstwatch.core.rds.db_instance import DbInstance

GP2: Final = "gp2"

_DIMENSION: Final = "DBInstanceIdentifier"
RDS_IO: Final = BucketKind(
    name="rds-io",
    unit="operations",
    rate_unit="IOPS",
    credits="storage credits",
    metric="BurstBalance",
    dimension=_DIMENSION,
)
RDS_CLASS_IO: Final = replace(
    INSTANCE_IO, credits="EBS I/O credits of its class", dimension=_DIMENSION, companion="ReadIOPS"
)
RDS_CLASS_THROUGHPUT: Final = replace(
    INSTANCE_THROUGHPUT,
    credits="EBS throughput credits of its class",
    dimension=_DIMENSION,
    companion="ReadIOPS",
)
RDS_KINDS: Final = (RDS_IO, RDS_CLASS_IO, RDS_CLASS_THROUGHPUT)

ROOT_VOLUME_IOPS: Final = 3_000
ROOT_VOLUME_MIB_S: Final = 128
"""What the root volume may add to the load of the class: assumed to be a small gp2 or gp3 volume.

The metrics of the class include the root volume, which RDS does not describe.
"""

OTHER_VOLUMES: Final = (
    "it also has a dedicated log volume or additional storage volumes, whose limits are not taken into"
    " account"
)

_STATUS_WORDS: Final = {
    "creating": "it is being created",
    "starting": "it is being started",
    "stopping": "it is being stopped",
    "stopped": "it is stopped",
    "deleting": "it is being deleted",
}
_IOPS_PER_GIB: Final = 3
_MIN_BASELINE_IOPS: Final = 100
_MAX_BASELINE_IOPS_PER_VOLUME: Final = 16_000


def gp2_baseline_iops(database: DbInstance) -> int:
    """Sustained operations per second of the gp2 storage: 3 for each GiB, at least 100.

    The most is 16,000 for each volume, 64,000 in all if it is striped.
    """
    most = _MAX_BASELINE_IOPS_PER_VOLUME * database.volume_count
    return max(_MIN_BASELINE_IOPS, min(most, _IOPS_PER_GIB * database.allocated_gib))


def gp2_storage_bucket(database: DbInstance) -> Bucket:
    """The bucket behind ``BurstBalance``, in operations: that of one volume, or of four together."""
    return Bucket(
        capacity=database.volume_count * BUCKET_CREDITS,
        refill_per_s=gp2_baseline_iops(database),
        burst_per_s=max(database.volume_count * BURST_IOPS, gp2_baseline_iops(database)),
    )


def gp2_storage_mib_s(database: DbInstance) -> int:
    """The highest throughput of the gp2 storage: 128 or 250 MiB/s for each volume.

    AWS's table has 128 to 250 MiB/s for one volume, and 512 to 1,000 for four. Example: 400 GiB are four
    volumes of 100 GiB, 512 MiB/s.
    """
    count = database.volume_count
    return count * gp2_throughput_mib_s(database.allocated_gib // count)


def storage_bucket(database: DbInstance) -> Bucket | None:
    """The bucket of its storage; None with the reason that ``no_storage_bucket_reason`` gives."""
    return None if no_storage_bucket_reason(database) else gp2_storage_bucket(database)


def no_storage_bucket_reason(database: DbInstance) -> str | None:
    """Why the storage depends on no burst credits; None if it does."""
    if database.is_aurora:
        return "it is Aurora, whose storage has no burst credits"
    if database.cluster_id:
        return (
            f"it is a member of the cluster {database.cluster_id}, and the storage of Multi-AZ clusters has"
            " no burst credits"
        )
    if database.storage_type != GP2:
        return f"its storage is {database.storage_type}, which has no burst credits"
    bucket = gp2_storage_bucket(database)
    if not bucket.highest_drain_per_s:
        return (
            f"{database.allocated_gib:,} GiB of gp2 sustain {bucket.refill_per_s:,} IOPS, no less than the"
            f" burst of {database.volume_count * BURST_IOPS:,}"
        )
    return None


def class_buckets(database: DbInstance, limits: InstanceLimits) -> tuple[Bucket, Bucket]:
    """The buckets behind ``EBSIOBalance%`` (operations) and ``EBSByteBalance%`` (MiB) of its class.

    ``limits`` are those of its ``ec2_type``. The load cannot be higher than what storage and root volume
    serve together, if that is known. Example: a db.m5.large sustains 3,600 IOPS. With 20 GiB of gp2, storage
    and root volume serve 6,000 at most, so its bucket of 27,270,000 operations lasts at least 11,362 s.
    """
    iops, mib_s = storage_limits(database)
    return (
        instance_io_bucket(limits, volumes_iops=None if iops is None else iops + ROOT_VOLUME_IOPS),
        instance_throughput_bucket(
            limits, volumes_mib_s=None if mib_s is None else mib_s + ROOT_VOLUME_MIB_S
        ),
    )


def no_class_bucket_reason(database: DbInstance, limits: InstanceLimits | None) -> str | None:
    """Why the EBS buckets of the class do not exist or cannot be computed; None if they can."""
    if database.is_aurora:
        return "it is Aurora, whose storage is not EBS"
    if limits is None:
        return unknown_class_limits(database)
    baseline = (limits.baseline_iops, limits.baseline_throughput_mib_s)
    if baseline == (limits.max_iops, limits.max_throughput_mib_s):
        return f"{database.instance_class} sustains its maximum, so it has no burst credits"
    return None


def unknown_class_limits(database: DbInstance) -> str:
    """Why the limits of its class are not known, in a sentence."""
    if database.ec2_type is None:
        return f"the EC2 type behind {database.instance_class} is not known"
    return f"EC2 describes no limits of {database.ec2_type}, the type behind {database.instance_class}"


def database_bucket(database: DbInstance, kind: BucketKind) -> Bucket | None:
    """One of the buckets of a database; None if it has none, or if its class has no known limits."""
    if kind is RDS_IO:
        return storage_bucket(database)
    if no_class_bucket_reason(database, database.limits) or database.limits is None:
        return None
    io, throughput = class_buckets(database, database.limits)
    return io if kind is RDS_CLASS_IO else throughput


def describe_class_limit(database: DbInstance, kind: BucketKind) -> str | None:
    """What bounds the drain of a bucket of its class, in a sentence; None if that is not known.

    Example: its storage and root volume serve 6,000 IOPS at most, more than the 3,600 IOPS that db.m5.large
    sustains.
    """
    bucket = database_bucket(database, kind)
    if bucket is None or kind is RDS_IO:
        return None
    burst = format_limit(bucket.burst_per_s, kind.rate_unit)
    if not bucket.capacity:
        return f"{database.instance_class} sustains its maximum of {burst}, so its credits are never used"
    if database.has_other_volumes:
        most = f"{burst} that {database.instance_class} serves at most"
        return f"{OTHER_VOLUMES}: its load may be all of the {most}"
    is_io = kind is RDS_CLASS_IO
    served, root = (
        storage_limits(database)[0 if is_io else 1],
        ROOT_VOLUME_IOPS if is_io else ROOT_VOLUME_MIB_S,
    )
    if served is None:
        return None
    verdict = "more than" if bucket.highest_drain_per_s else "no more than"
    return (
        f"its storage and root volume serve {served + root:,} {kind.rate_unit} at most, {verdict} the"
        f" {format_limit(bucket.refill_per_s, kind.rate_unit)} that {database.instance_class} sustains"
    )


def not_running_reason(database: DbInstance) -> str | None:
    """Why there are no datapoints now; None if it runs."""
    if database.is_running:
        return None
    condition = _STATUS_WORDS.get(database.status, f"its status is {database.status}")
    return f"{condition}, so it has no metrics{' yet' if database.is_starting else ''}"


def describe_rds_outlook(database: DbInstance, forecast: Forecast) -> str:
    """``empty in about 40 min, not before 33 min; then 300 IOPS; five idle hours to refill`` for 100 GiB."""
    bucket = gp2_storage_bucket(database)
    return describe_outlook(
        forecast,
        limit_when_empty=f"{bucket.refill_per_s:,} IOPS",
        idle_refill_s=bucket.capacity / bucket.refill_per_s,
    )


def describe_cpu_credits(database: DbInstance, credits_left: float | None) -> str | None:
    """A sentence if what is empty are the CPU credits, which burstwatch does not watch; None otherwise."""
    if credits_left is None or credits_left > 0 or not database.has_cpu_credits:
        return None
    return (
        f"Its CPU credits are empty (CPUCreditBalance): {database.instance_class} is at its baseline"
        " CPU. Faster storage does not change that; a larger class, or one without CPU credits, does."
    )


def storage_limits(database: DbInstance) -> tuple[int | None, int | None]:
    """The highest IOPS and MiB/s of its storage; None if AWS does not describe them.

    With other volumes beside it, those of its storage are not all that the metrics count.
    """
    if database.has_other_volumes:
        return None, None
    if database.storage_type == GP2:
        return int(gp2_storage_bucket(database).burst_per_s), gp2_storage_mib_s(database)
    return database.provisioned_iops, database.storage_throughput_mib_s
