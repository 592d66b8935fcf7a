"""Which bucket a volume has."""

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.ebs.gp2_bucket import EBS_IO, gp2_bucket
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, HDD_RATES, hdd_bucket
from burstwatch.core.ebs.volume import Volume, baseline_iops


def bucket_kind_of(volume: Volume) -> BucketKind:
    """The kind of its bucket; for a type without one, such as gp3, that of gp2, which it may return to."""
    return EBS_THROUGHPUT if volume.volume_type in HDD_RATES else EBS_IO


def bucket_of(volume: Volume, size_gib: int | None = None) -> Bucket:
    """Its bucket at its size, or at ``size_gib``; for a type without one, the bucket that it has as gp2."""
    size_gib = size_gib or volume.size_gib
    if volume.volume_type in HDD_RATES:
        return hdd_bucket(volume.volume_type, size_gib)
    return gp2_bucket(baseline_iops(size_gib))
