"""The bucket of burst credits of an EFS file system in bursting mode, in bytes.

Source of the numbers: the EFS user guide, "Amazon EFS performance specifications" and "Throughput modes".
Baseline and burst follow from what is stored in Standard. Reads are metered at one third, so a burst carries
three times as many bytes of reads. An empty bucket leaves the baseline, and at least 1 MiB/s. AWS does not
document whether those 1 MiB/s earn credits; it is assumed here that only the size does, which is the safe
side. AWS also limits a file system per Region, at 1 to 5 GiB/s. That is left out: a slower burst drains
later. Examples::

    in Standard    baseline     burst    a full bucket lasts at least   idle refill
      1 GiB        0.05 MiB/s   100 MiB/s         6.1 h                   522 d
     58 GiB        2.8 MiB/s    100 MiB/s         6.3 h                     9 d
    100 GiB        4.9 MiB/s    100 MiB/s         6.4 h                   5.2 d
    512 GiB       25   MiB/s    100 MiB/s         8.2 h                   1.0 d
      1 TiB       50   MiB/s    100 MiB/s        12.2 h                   0.5 d
      4 TiB      200   MiB/s    400 MiB/s        12.2 h                   0.5 d

A full bucket of a small file system was seen at 2,308,974,418,330 bytes, which are 2.1 TiB.
"""

from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.units import GIB, MIB, TIB
from burstwatch.core.efs.file_system import FileSystem

_PERIOD_S: Final = 600
TIME_SCALE: Final = 10
"""A full bucket lasts six hours or more at full burst, that of a gp2 volume half an hour or more."""

EFS_BYTES: Final = BucketKind(
    name="efs-bytes",
    unit="bytes",
    rate_unit="bytes/s",
    credits="burst credits",
    metric="BurstCreditBalance",
    dimension="FileSystemId",
    period_s=_PERIOD_S,
    is_in_credits=True,
    is_aggregated=True,
)
EFS_KINDS: Final = (EFS_BYTES,)

KIB: Final = 2**10

READ_SHARE: Final = 1 / 3
"""The share of read bytes that is metered; bytes that are written are metered whole."""

MIN_THROUGHPUT: Final = 1 * MIB
"""Bytes per second that every file system may use, also without credits."""

_BASELINE_PER_GIB: Final = 50 * KIB
_BURST_PER_TIB: Final = 100 * MIB
_CAPACITY_PER_TIB: Final = 2.1 * TIB


def baseline_per_s(standard_bytes: int) -> float:
    """Bytes per second that the size earns, also while credits are spent: 50 KiB/s for each GiB.

    Example: 58 GiB earn 2,969,600 bytes per second, 2.8 MiB/s.
    """
    return standard_bytes / GIB * _BASELINE_PER_GIB


def limit_when_empty_per_s(standard_bytes: int) -> float:
    """Metered bytes per second without credits: the baseline, at least 1 MiB/s (below 20.48 GiB)."""
    return max(MIN_THROUGHPUT, baseline_per_s(standard_bytes))


def efs_bucket(standard_bytes: int) -> Bucket:
    """The bucket behind ``BurstCreditBalance`` of a file system with this much in Standard.

    An empty file system earns nothing, so its refill is 0: it has the credits that it was created with.
    """
    tib = max(1.0, standard_bytes / TIB)
    return Bucket(
        capacity=_CAPACITY_PER_TIB * tib,
        refill_per_s=baseline_per_s(standard_bytes),
        burst_per_s=_BURST_PER_TIB * tib,
        time_scale=TIME_SCALE,
    )


def idle_refill_s(bucket: Bucket) -> float | None:
    """Seconds in which the empty bucket of an idle file system refills; None if it earns nothing."""
    return bucket.capacity / bucket.refill_per_s if bucket.refill_per_s else None


def metered(read: float, written: float) -> float:
    """What is metered of these bytes, or bytes per second. Example: 300 read and 20 written count as 120."""
    return read * READ_SHARE + written


def no_bucket_reason(file_system: FileSystem) -> str | None:
    """Why the file system depends on no burst credits; None if it does."""
    if file_system.uses_credits:
        return None
    mode = file_system.throughput_mode
    return f"its throughput mode is {mode}: only bursting mode depends on burst credits"
