"""A bucket of burst credits of any service: its capacity, its refill rate and its highest drain rate."""

from dataclasses import dataclass
from math import inf

from burstwatch.core.buckets.series import PERIOD_S


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketKind:
    """What all buckets of one kind have in common.

    ``name`` is public, such as ``ebs-io``. ``unit`` is that of the credits, ``rate_unit`` that of a limit,
    and ``credits`` is what people call them. ``metric`` is the balance in per cent of the capacity, or, if
    it ``is_in_credits``, in the unit of the bucket. It has the ``dimension``, and is read by periods of
    ``period_s`` seconds, which consist of shorter ones if it ``is_aggregated``. The ``companion`` is a metric
    that comes at the same interval, and also if a resource has no such bucket.
    """

    name: str
    unit: str
    rate_unit: str
    credits: str
    metric: str
    dimension: str
    period_s: int = PERIOD_S
    is_in_credits: bool = False
    is_aggregated: bool = False
    companion: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The credits that a resource saves while it is below its sustained limit, and spends above it.

    ``capacity`` is in credits, ``refill_per_s`` in credits per second. ``burst_per_s`` is the highest rate at
    which credits are spent; the bucket refills at the same time. All are positive, but for the
    refill of an empty file system, which earns nothing. Example: a gp2 volume of
    100 GiB has a capacity of 5.4 million I/O credits, refills 300 and spends at most 3,000 a second. So a
    full bucket lasts at least 5,400,000 / (3,000 - 300) = 2,000 s. If the capacity ``is_inferred``, AWS does
    not document it. If it is not ``is_known``, the amounts and rates mean nothing by themselves, only
    shares of the capacity and times do. ``time_scale`` is how many times longer it lasts than the bucket of a
    gp2 volume: the spans over which a drain is measured are longer by as much.
    """

    capacity: float
    refill_per_s: float
    burst_per_s: float
    is_inferred: bool = False
    is_known: bool = True
    time_scale: int = 1

    @property
    def highest_drain_per_s(self) -> float:
        """The highest net loss in credits per second; 0 for a resource that can burst without end."""
        return max(0, self.burst_per_s - self.refill_per_s)

    def refill_time_s(self, from_pct: float = 0.0) -> float:
        """Seconds until an idle bucket with a balance of ``from_pct`` is full; infinite if it earns nothing.

        Example: an empty bucket of 100 GiB of gp2 needs 5,400,000 / 300 = 18,000 s, which is five hours.
        """
        missing = max(0.0, self.credits_in(100 - from_pct))
        return missing / self.refill_per_s if self.refill_per_s else inf

    def credits_in(self, pct: float) -> float:
        """The credits in a balance of ``pct`` per cent of the capacity (0 to 100)."""
        return pct * self.capacity / 100

    def pct_of(self, credits_left: float) -> float:
        """The balance in per cent of the capacity, at most 100.

        A file system that shrinks, or moves data out of Standard, holds more than its new capacity at first.
        """
        return min(100.0, credits_left / self.capacity * 100)
