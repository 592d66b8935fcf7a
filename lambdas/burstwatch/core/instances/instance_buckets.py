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

from typing import Final

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.ebs.sizing import InstanceLimits

BURST_TIME_S: Final = 1_800
"""How long a full bucket supports the maximum performance of the type, in seconds: AWS's 30 minutes."""


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
    return Bucket(capacity=(maximum - baseline) * BURST_TIME_S, refill_per_s=baseline, burst_per_s=highest)
