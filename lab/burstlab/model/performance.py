"""What a volume can serve: by itself, or during a modification."""

from typing import Final, NamedTuple

from burstlab.model.modification import VolumeSpec
from burstwatch.core.ebs.volume import BURST_IOPS

_NO_BUCKET: Final = 0


class PerformanceLevel(NamedTuple):
    """Operations per second a volume sustains, and what a bucket under it gives.

    ``burst_iops`` is the rate while there are credits, ``refill_iops`` the credits per second when idle;
    both are 0 without a bucket.
    """

    sustained_iops: int
    burst_iops: int
    refill_iops: int

    @property
    def uses_credits(self) -> bool:
        return self.burst_iops > 0

    def ceiling_iops(self, credits_now: float) -> int:
        """The most it serves at this moment."""
        return max(self.sustained_iops, self.burst_iops) if credits_now > 0 else self.sustained_iops


def performance_of(volume_type: str, iops: int) -> PerformanceLevel:
    """Of a volume that is not being modified."""
    return (
        PerformanceLevel(iops, BURST_IOPS, iops)
        if volume_type == "gp2"
        else PerformanceLevel(iops, _NO_BUCKET, 0)
    )


def performance_between(
    original: VolumeSpec, target: VolumeSpec, fraction: float, *, credits_on_return: bool
) -> PerformanceLevel:
    """The performance at ``fraction`` (0 to 1) of a change: never below and never above both configurations.

    From gp2, the bucket also serves, and earns at its own baseline, until the new performance is fully
    effective. Towards gp2 it is unused until then; ``credits_on_return`` says whether the new performance
    includes the burst.
    """
    if fraction >= 1:
        return performance_of(target.volume_type, target.iops)
    sustained_iops = _interpolate(original.iops, target.iops, fraction)
    if original.is_gp2:
        burst_iops = _interpolate(_burst_iops(original), _burst_iops(target), fraction)
        return PerformanceLevel(
            sustained_iops, burst_iops, sustained_iops if target.is_gp2 else original.iops
        )
    target_iops = _burst_iops(target) if credits_on_return else target.iops
    return PerformanceLevel(_interpolate(original.iops, target_iops, fraction), _NO_BUCKET, 0)


def _burst_iops(spec: VolumeSpec) -> int:
    """The most the shape serves at best."""
    return max(spec.iops, BURST_IOPS) if spec.is_gp2 else spec.iops


def _interpolate(start: int, end: int, fraction: float) -> int:
    return round(start + (end - start) * fraction)
