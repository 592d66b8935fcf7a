"""The two buckets of EBS credits of an EC2 instance: I/O and throughput.

Source of the limits: the EC2 user guide, "EBS-optimized instance types". A type with burst credits
supports its maximum performance for 30 minutes at least once every 24 hours. Source of the arithmetic:
the AWS Compute Blog of 2026-06-17, "Simulating Amazon EC2 EBS burst credits before downsizing an
instance". AWS publishes neither the capacity nor the refill rate. The capacity follows from the 30
minutes, which a full bucket lasts at maximum performance. AWS does not document whether reads and
writes count alike, nor when it resets a bucket to full each day. No reset is assumed here. Examples,
for one gp3 volume of 3,000 IOPS and 125 MiB/s::

    type        I/O bucket lasts at least    throughput bucket lasts at least
    t4g.small                       2.7 h                              1.1 h
    t3.medium                       4.9 h                              1.2 h
    m5.large               cannot drain                                5.1 h
"""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.instances.instance import Instance

_PERIOD_S: Final = 300
"""Basic monitoring has a datapoint every five minutes, and these metrics have no other."""

INSTANCE_IO: Final = BucketKind(
    name="instance-io",
    unit="operations",
    rate_unit="IOPS",
    credits="EBS I/O credits",
    metric="EBSIOBalance%",
    dimension="InstanceId",
    period_s=_PERIOD_S,
    companion="EBSReadOps",
)
INSTANCE_THROUGHPUT: Final = BucketKind(
    name="instance-throughput",
    unit="MiB",
    rate_unit="MiB/s",
    credits="EBS throughput credits",
    metric="EBSByteBalance%",
    dimension="InstanceId",
    period_s=_PERIOD_S,
    companion="EBSReadOps",
)
INSTANCE_KINDS: Final = (INSTANCE_IO, INSTANCE_THROUGHPUT)

BURST_TIME_S: Final = 1_800
"""How long a full bucket supports the maximum performance of the type, in seconds: AWS's 30 minutes."""

_ASSUMED_CAPACITY: Final = 5_400_000
"""Of the size of a gp2 bucket, so that the limits below which a drain is rounding fit."""
UNKNOWN_LIMITS_BUCKET: Final = Bucket(
    capacity=_ASSUMED_CAPACITY,
    refill_per_s=0,
    burst_per_s=_ASSUMED_CAPACITY / BURST_TIME_S,
    is_inferred=True,
    is_known=False,
)
"""The bucket of a type whose limits EC2 does not show: all that is known is that it lasts for 30 minutes."""
UNKNOWN_LIMITS_RULE: Final = "its balance is judged by AWS's rule that a full bucket lasts 30 min at least"


def instance_io_bucket(limits: InstanceLimits, *, volumes_iops: float | None = None) -> Bucket:
    """The bucket behind ``EBSIOBalance%``, in operations.

    ``volumes_iops`` is the sum of what the attached volumes can serve, in operations per second; None if it
    is not known. The load cannot be higher, so the bucket cannot drain faster. Example: m5.large sustains
    3,600 and bursts to 18,750 operations a second, so the capacity is (18,750 - 3,600) x 1,800 = 27,270,000.
    One volume of 3,000 IOPS cannot drain it.
    """
    return _bucket(limits.baseline_iops, limits.max_iops, volumes_iops)


def instance_throughput_bucket(limits: InstanceLimits, *, volumes_mib_s: float | None = None) -> Bucket:
    """The bucket behind ``EBSByteBalance%``, in MiB.

    ``volumes_mib_s`` is the sum of what the attached volumes can serve, in MiB per second; None if it is not
    known.
    """
    return _bucket(limits.baseline_throughput_mib_s, limits.max_throughput_mib_s, volumes_mib_s)


def _bucket(baseline: float, maximum: float, volumes_limit: float | None) -> Bucket:
    highest = maximum if volumes_limit is None else min(maximum, volumes_limit)
    return Bucket(
        capacity=(maximum - baseline) * BURST_TIME_S,
        refill_per_s=baseline,
        burst_per_s=highest,
        is_inferred=True,
    )


def instance_bucket(instance: Instance, kind: BucketKind) -> Bucket | None:
    """One of the buckets of an instance, bounded by its volumes; None if its type has no known limits."""
    if instance.limits is None:
        return None
    if kind is INSTANCE_IO:
        return instance_io_bucket(instance.limits, volumes_iops=instance.volumes_iops)
    return instance_throughput_bucket(instance.limits, volumes_mib_s=instance.volumes_mib_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainProof:
    """Why a bucket of an instance cannot drain, or what bounds its drain; rates in ``kind.rate_unit``.

    ``ceilings`` are what each attached volume serves at best, and ``volumes_limit`` is their sum; None if
    that is not known of every volume. If it is no more than the ``baseline`` of the type, the bucket never
    loses credits, whatever its capacity is.
    """

    kind: BucketKind
    instance_type: str
    baseline: float
    maximum: float
    ceilings: tuple[VolumeCeiling, ...]
    volumes_limit: float | None

    @property
    def cannot_drain(self) -> bool:
        limit = self.maximum if self.volumes_limit is None else min(self.maximum, self.volumes_limit)
        return limit <= self.baseline

    def describe(self) -> str:
        """The proof in a sentence, without its full stop."""
        unit = self.kind.rate_unit
        baseline = format_limit(self.baseline, unit)
        if self.maximum <= self.baseline:
            return f"{self.instance_type} sustains its maximum of {baseline}, so its credits are never used"
        sustains = f"{baseline} that {self.instance_type} sustains"
        if self.volumes_limit is None:
            return f"what its volumes can serve together is not known; the limit is the {sustains}"
        count = "its volume serves" if len(self.ceilings) == 1 else f"its {len(self.ceilings)} volumes serve"
        verdict = "no more than" if self.cannot_drain else "more than"
        return f"{count} {self.volumes_limit:,.0f} {unit} at most, {verdict} the {sustains}"


def drain_proof(instance: Instance, kind: BucketKind) -> DrainProof | None:
    """What bounds the drain of one bucket of an instance; None if its type has no known limits.

    Example: a default gp3 volume serves 3,000 IOPS at most, no more than the 3,600 that m5.large sustains.
    """
    bucket = instance_bucket(instance, kind)
    if bucket is None or instance.limits is None:
        return None
    is_io = kind is INSTANCE_IO
    return DrainProof(
        kind=kind,
        instance_type=instance.instance_type,
        baseline=bucket.refill_per_s,
        maximum=instance.limits.max_iops if is_io else instance.limits.max_throughput_mib_s,
        ceilings=instance.ceilings or (),
        volumes_limit=instance.volumes_iops if is_io else instance.volumes_mib_s,
    )
