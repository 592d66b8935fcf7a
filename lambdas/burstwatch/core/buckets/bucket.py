"""A bucket of burst credits, whichever service fills it: what it holds, and how fast it fills and drains."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What a resource may save of a limit that it does not use, and spend on bursts above it.

    ``capacity`` is in credits, ``refill_per_s`` in credits per second. ``burst_per_s`` is how fast credits
    are spent at most; they refill meanwhile. Example: a gp2 volume of 100 GiB has a capacity of 5.4 million
    I/O credits, refills 300 and spends at most 3,000 a second, so a full bucket lasts 2,000 s at the least.
    """

    capacity: float
    refill_per_s: float
    burst_per_s: float

    @property
    def highest_drain_per_s(self) -> float:
        """Credits per second that leave at most; 0 for a resource that may burst for ever."""
        return max(0, self.burst_per_s - self.refill_per_s)

    def credits_in(self, pct: float) -> float:
        """How many credits a balance in per cent of the capacity stands for."""
        return pct * self.capacity / 100
