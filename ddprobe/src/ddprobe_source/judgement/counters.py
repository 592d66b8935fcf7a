"""A disk's counters."""

from __future__ import annotations

from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.text import parse_integer


class Counters(Record):
    """One disk's counters at one instant."""

    at_s: float
    done: int
    writes: int
    flushes: int
    waited_ms: int
    written_kib: int
    in_flight: int
    busy_ms: int
    queue_ms: int


def parse_counters(text: str, at_s: float) -> Counters | None:
    """Read /sys/block/X/stat; older kernels have fewer fields."""
    counts = [parse_integer(word) for word in text.split()]
    f = [count for count in counts if count is not None]
    if len(f) < max(11, len(counts)):  # the fields every kernel has, and nothing but numbers
        return None
    f += [0] * 6
    return Counters(
        at_s=at_s,
        done=f[0] + f[4],
        writes=f[4],
        flushes=f[15],
        waited_ms=f[3] + f[7],
        written_kib=f[6] // 2,
        in_flight=f[8],
        busy_ms=f[9],
        queue_ms=f[10],
    )


class Delta(Record):
    """What one disk did in a span of time."""

    disk: str
    seconds: float
    done: int
    writes: int
    flushes: int
    written_kib: int
    await_ms: float | None
    in_flight: int
    in_flight_max: int
    queue: float
    busy_pct: float
    quiet_s: float

    @property
    def per_s(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, object]:
        """As the reading carries it."""
        return vars(self) | {"per_s": self.per_s}
