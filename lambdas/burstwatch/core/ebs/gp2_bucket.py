"""The bucket of I/O credits of a gp2 volume."""

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS


def gp2_bucket(baseline: int) -> Bucket:
    """The bucket of a gp2 volume; its refill in credits per second is its ``baseline`` in IOPS.

    Example: ``gp2_bucket(baseline_iops(100)).highest_drain_per_s`` is 2,700.
    """
    return Bucket(capacity=BUCKET_CREDITS, refill_per_s=baseline, burst_per_s=BURST_IOPS)
