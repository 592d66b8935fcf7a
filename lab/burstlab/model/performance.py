"""What a volume can serve: by itself, or on the way from one shape to another."""

from typing import Final, NamedTuple

from burstlab.model.modification import Shape
from burstwatch.core.ebs.volume import BURST_IOPS

_NO_BUCKET: Final = 0


class Footing(NamedTuple):
    """Operations per second a volume sustains, and what a bucket under it gives.

    ``burst_iops`` is the rate while there are credits, ``earning_iops`` the credits per second when idle;
    both are 0 without a bucket.
    """

    sustained_iops: int
    burst_iops: int
    earning_iops: int

    @property
    def uses_credits(self) -> bool:
        return self.burst_iops > 0

    def ceiling_iops(self, credits_now: float) -> int:
        """The most it serves at this moment."""
        return max(self.sustained_iops, self.burst_iops) if credits_now > 0 else self.sustained_iops


def footing_on(volume_type: str, iops: int) -> Footing:
    """Of a volume that is not being modified."""
    return Footing(iops, BURST_IOPS, iops) if volume_type == "gp2" else Footing(iops, _NO_BUCKET, 0)


def footing_between(original: Shape, target: Shape, share: float, *, credits_on_return: bool) -> Footing:
    """Part of the way (``share``, 0 to 1) from one shape to the other: never below both, never above both.

    Off gp2, the bucket serves on beside what is new, and earns at its own baseline, until all of the new is
    felt. Towards gp2 it rests until then; ``credits_on_return`` says whether a burst is what is approached.
    """
    if share >= 1:
        return footing_on(target.volume_type, target.iops)
    sustained = _between(original.iops, target.iops, share)
    if original.is_gp2:
        burst = _between(_burst_iops(original), _burst_iops(target), share)
        return Footing(sustained, burst, sustained if target.is_gp2 else original.iops)
    approached = _burst_iops(target) if credits_on_return else target.iops
    return Footing(_between(original.iops, approached, share), _NO_BUCKET, 0)


def _burst_iops(shape: Shape) -> int:
    """The most the shape serves at best."""
    return max(shape.iops, BURST_IOPS) if shape.is_gp2 else shape.iops


def _between(one: int, other: int, share: float) -> int:
    return round(one + (other - one) * share)
