"""What a volume can serve: by itself, or during a modification."""

from functools import lru_cache
from typing import Final, NamedTuple

from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.loads.load import OPERATION_KIB
from burstlab.model.modification import VolumeSpec
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops, gp2_throughput_mib_s

_KIB_PER_MIB: Final = 1_024
_GIB_PER_TIB: Final = 1_024
_MIB_PER_TIB: Final = 1_024 * 1_024
_SUSTAINED_THROUGHPUT_GIB: Final = 334  # a smaller gp2 has 250 MiB/s only with credits; Source: as below
_NO_CREDITS_MIB_S: Final = 128
_MAX_MIB_S: Final = {"io1": 500, "io2": 4_000, "standard": 90}
"""Source: EBS user guide, "Amazon EBS volume types"; an io1 has more with more than 32,000 IOPS."""
_IO1_IOPS_PER_MIB_S: Final = 64


class HddRates(NamedTuple):
    """MiB/s by TiB of an HDD volume, and the highest of any size."""

    baseline_per_tib: float
    max_baseline: float
    burst_per_tib: float
    max_burst: float


HDD_RATES: Final = {"st1": HddRates(40, 500, 250, 500), "sc1": HddRates(12, 192, 80, 250)}
"""Source: EBS user guide, "Throughput Optimized HDD and Cold HDD volumes".

It states them in TiB; that they are proportional below 1 TiB, and so is the bucket, is inferred.
"""


class PerformanceLevel(NamedTuple):
    """Operations of one size per second that a volume sustains, and what a bucket under it gives.

    ``burst_iops`` is the rate while there are credits, ``refill_iops`` the credits per second when idle;
    both are 0 without a bucket. ``sustained_kib_s`` and ``burst_kib_s`` are limits of their own. An operation
    takes ``credits_per_op`` of the ``FULL_CREDITS`` that each bucket has, whatever its unit.
    """

    sustained_iops: float
    burst_iops: float
    refill_iops: float
    sustained_kib_s: float
    burst_kib_s: float
    credits_per_op: float = 1.0

    @property
    def uses_credits(self) -> bool:
        return self.burst_iops > 0

    def ceiling_iops(self, credits_now: float) -> float:
        """The most operations it serves at this moment, if its throughput does not limit it."""
        return max(self.sustained_iops, self.burst_iops) if credits_now > 0 else self.sustained_iops

    def ceiling_kib_s(self, credits_now: float) -> float:
        """The highest throughput at this moment, if its operations do not limit it."""
        return self.burst_kib_s if credits_now > 0 else self.sustained_kib_s


def performance_of(spec: VolumeSpec, operation_kib: float) -> PerformanceLevel:
    """Of a volume that is not being modified, for operations of this size.

    An HDD volume counts MiB: smaller operations are taken to be sequential, so that EBS merges them. Example:
    st1 of 2 TiB at 64 KiB sustains 80 MiB/s, which are 1,280 operations, and 8,000 with credits.
    """
    return _performance_of(spec.volume_type, spec.size_gib, spec.iops, spec.throughput_mib_s, operation_kib)


@lru_cache(maxsize=4096)
def _performance_of(
    volume_type: str, size_gib: int, iops: int, throughput_mib_s: int | None, operation_kib: float
) -> PerformanceLevel:
    if volume_type == "gp2":
        burst_mib_s = gp2_throughput_mib_s(size_gib)
        sustained_mib_s = burst_mib_s if size_gib >= _SUSTAINED_THROUGHPUT_GIB else _NO_CREDITS_MIB_S
        return PerformanceLevel(
            iops, BURST_IOPS, iops, sustained_mib_s * _KIB_PER_MIB, burst_mib_s * _KIB_PER_MIB
        )
    if volume_type in HDD_RATES:
        rates, size_tib = HDD_RATES[volume_type], size_gib / _GIB_PER_TIB
        baseline_kib_s = min(rates.max_baseline, rates.baseline_per_tib * size_tib) * _KIB_PER_MIB
        burst_kib_s = min(rates.max_burst, rates.burst_per_tib * size_tib) * _KIB_PER_MIB
        baseline = baseline_kib_s / operation_kib
        credits_per_op = operation_kib / (size_tib * _MIB_PER_TIB * _KIB_PER_MIB) * FULL_CREDITS
        return PerformanceLevel(
            baseline, burst_kib_s / operation_kib, baseline, baseline_kib_s, burst_kib_s, credits_per_op
        )
    mib_s: float = throughput_mib_s or _MAX_MIB_S[volume_type]
    if volume_type == "io1":
        mib_s = max(mib_s, iops / _IO1_IOPS_PER_MIB_S)
    return PerformanceLevel(iops, 0, 0, mib_s * _KIB_PER_MIB, mib_s * _KIB_PER_MIB)


def bucket_spec(volume_type: str, size_gib: int) -> VolumeSpec:
    """A volume of a type that has a bucket: all that matters of it follows from its size."""
    return VolumeSpec(volume_type=volume_type, size_gib=size_gib, iops=baseline_iops(size_gib))


@lru_cache(maxsize=4096)
def can_drain(volume_type: str, size_gib: int) -> bool:
    """Whether a load can empty the bucket of a volume of this type, which has one."""
    level = performance_of(bucket_spec(volume_type, size_gib), OPERATION_KIB)
    return level.burst_iops > level.refill_iops


def bucket_capacity(volume_type: str, size_gib: int) -> float:
    """What a full bucket holds: operations for gp2, MiB for an HDD volume."""
    return FULL_CREDITS if volume_type not in HDD_RATES else size_gib / _GIB_PER_TIB * _MIB_PER_TIB


def performance_between(
    original: VolumeSpec,
    target: VolumeSpec,
    operation_kib: float,
    fraction: float,
    *,
    credits_on_return: bool,
) -> PerformanceLevel:
    """The performance at ``fraction`` (0 to 1) of a change: never below and never above both configurations.

    From a type with a bucket, the bucket also serves, and earns at its own baseline, until the new
    performance is fully effective. Towards one it is unused until then; ``credits_on_return`` says whether
    the new performance includes the burst.
    """
    before, after = performance_of(original, operation_kib), performance_of(target, operation_kib)
    if fraction >= 1:
        return after
    kib_limits = (
        before.sustained_kib_s + (after.sustained_kib_s - before.sustained_kib_s) * fraction,
        before.burst_kib_s + (after.burst_kib_s - before.burst_kib_s) * fraction,
    )
    if before.uses_credits:
        sustained_iops = _interpolate(before.sustained_iops, after.sustained_iops, fraction)
        burst_iops = _interpolate(before.ceiling_iops(1), after.ceiling_iops(1), fraction)
        keeps_bucket = original.volume_type == target.volume_type
        refill_iops = sustained_iops if keeps_bucket else before.refill_iops
        return PerformanceLevel(sustained_iops, burst_iops, refill_iops, *kib_limits, before.credits_per_op)
    after_iops = after.ceiling_iops(1 if credits_on_return else 0)
    return PerformanceLevel(_interpolate(before.sustained_iops, after_iops, fraction), 0, 0, *kib_limits)


def _interpolate(start: float, end: float, fraction: float) -> float:
    return round(start + (end - start) * fraction)
