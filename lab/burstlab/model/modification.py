"""A change of a volume as EC2 remembers it: the most recent one of each volume."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

STATES: Final = ("modifying", "optimizing", "completed", "failed")
END_STATES: Final = ("completed", "failed")
BUCKET_TYPES: Final = ("gp2", "st1", "sc1")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """What a modification changes from, or to; ``iops`` is the sustained rate, a gp2 volume's baseline."""

    volume_type: str
    size_gib: int
    iops: int
    throughput_mib_s: int | None = None
    multi_attached: bool = False

    @property
    def is_gp2(self) -> bool:
        return self.volume_type == "gp2"

    @property
    def has_bucket(self) -> bool:
        """Whether CloudWatch has a BurstBalance of the type."""
        return self.volume_type in BUCKET_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """One modification: its state, how far it is (0 to 100), and what it leads from and to."""

    state: str
    original: VolumeSpec
    target: VolumeSpec
    started_at: datetime
    ended_at: datetime | None = None
    progress_pct: int = 0
    status_message: str | None = None

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"modification state is {self.state!r}: give one of {', '.join(STATES)}")

    @property
    def has_ended(self) -> bool:
        return self.state in END_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyRequest:
    """The parameters of a request; None is the present value, or EC2's default for another type."""

    volume_type: str | None = None
    size_gib: int | None = None
    iops: int | None = None
    throughput_mib_s: int | None = None
    multi_attached: bool | None = None

    def __post_init__(self) -> None:
        for name in ("size_gib", "iops", "throughput_mib_s"):
            if not isinstance(getattr(self, name), int | None):
                raise TypeError(f"{name} is {getattr(self, name)!r}: give a whole number")
