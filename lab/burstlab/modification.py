"""A change of a volume as EC2 remembers it: the most recent one of each volume."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

STATES: Final = ("modifying", "optimizing", "completed", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a modification changes from, or to."""

    volume_type: str
    size_gib: int
    iops: int
    throughput_mib_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """One modification: its state, how far it is (0 to 100), and what it leads from and to."""

    state: str
    original: Shape
    target: Shape
    started_at: datetime
    ended_at: datetime | None = None
    progress_pct: int = 0
    status_message: str | None = None

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"modification state is {self.state!r}: give one of {', '.join(STATES)}")
