"""The bucket of throughput credits of an st1 or sc1 volume, in MiB.

Source: the EBS user guide, "Throughput Optimized HDD and Cold HDD volumes". By its formulas::

    type and size   baseline MiB/s   burst MiB/s   a full bucket lasts   refill of an empty one, idle
    st1 125 GiB                4.9          30.5               4,993 s                       26,214 s
    st1 2 TiB                   80           500               4,993 s                       26,214 s
    st1 8 TiB                  320           500              46,603 s                       26,214 s
    st1 12.5 TiB               500           500           never empty                              -
    sc1 1 TiB                   12            80              15,420 s                       87,381 s
    sc1 8 TiB                   96           250              54,472 s                       87,381 s

AWS states the capacity for 1 TiB, and that it grows with the size. That it also shrinks with the size below
1 TiB is inferred from "a full bucket contains enough tokens for a full volume scan".
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind

EBS_THROUGHPUT: Final = BucketKind(
    name="ebs-throughput",
    unit="MiB",
    rate_unit="MiB/s",
    credits="throughput credits",
    metric="BurstBalance",
    dimension="VolumeId",
)
_GIB_PER_TIB: Final = 1_024
_MIB_PER_GIB: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class HddRates:
    """The rates of a type in MiB/s: for each TiB, and the most at any size; ``max_iops`` of 1 MiB each.

    ``usd_per_gib`` is the list price of us-east-1 for a month (EBS pricing page, 2026-09-30).
    """

    baseline_per_tib: float
    max_baseline: float
    burst_per_tib: float
    max_burst: float
    max_iops: int
    usd_per_gib: float


HDD_RATES: Final = {
    "st1": HddRates(
        baseline_per_tib=40,
        max_baseline=500,
        burst_per_tib=250,
        max_burst=500,
        max_iops=500,
        usd_per_gib=0.045,
    ),
    "sc1": HddRates(
        baseline_per_tib=12,
        max_baseline=192,
        burst_per_tib=80,
        max_burst=250,
        max_iops=250,
        usd_per_gib=0.015,
    ),
}


@lru_cache(maxsize=4096)
def hdd_bucket(volume_type: str, size_gib: int) -> Bucket:
    """The bucket of an st1 or sc1 volume of this size in GiB."""
    rates, size_tib = HDD_RATES[volume_type], size_gib / _GIB_PER_TIB
    return Bucket(
        capacity=size_gib * _MIB_PER_GIB,
        refill_per_s=min(rates.max_baseline, rates.baseline_per_tib * size_tib),
        burst_per_s=min(rates.max_burst, rates.burst_per_tib * size_tib),
        is_inferred=size_gib < _GIB_PER_TIB,
    )
