"""The bucket of I/O credits of a gp2 volume."""

from functools import lru_cache
from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS

EBS_IO: Final = BucketKind(
    name="ebs-io",
    unit="operations",
    rate_unit="IOPS",
    credits="credits",
    metric="BurstBalance",
    dimension="VolumeId",
)


@lru_cache(maxsize=4096)
def gp2_bucket(baseline: int) -> Bucket:
    """The bucket of a gp2 volume; its refill in credits per second is its ``baseline`` in IOPS.

    Example: ``gp2_bucket(baseline_iops(100)).highest_drain_per_s`` is 2,700.
    """
    return Bucket(capacity=BUCKET_CREDITS, refill_per_s=baseline, burst_per_s=BURST_IOPS)
