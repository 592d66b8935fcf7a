"""What an EBS volume is, and the arithmetic of gp2.

Source of the numbers: the EBS user guide, "General Purpose SSD volumes" (I/O credits and burst performance).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

BUCKET_CREDITS: Final = 5_400_000
"""I/O credits in a full gp2 bucket, whatever the volume's size."""

BURST_IOPS: Final = 3_000
"""Operations per second a gp2 volume may serve while it has credits."""

CREDITS_PER_PCT: Final = BUCKET_CREDITS / 100

_IOPS_PER_GIB: Final = 3
_MIN_BASELINE_IOPS: Final = 100
_MAX_BASELINE_IOPS: Final = 16_000


def baseline_iops(size_gib: int) -> int:
    """Sustained operations per second of a gp2 volume; also its refill rate in credits per second.

    Computed from the size because AWS's own ``Iops`` field shows 24 on old 8 GiB volumes.
    """
    return max(_MIN_BASELINE_IOPS, min(_MAX_BASELINE_IOPS, _IOPS_PER_GIB * size_gib))


def highest_drain_per_s(baseline: int) -> int:
    """Credits per second that leave the bucket at most: full burst less baseline; 0 if it cannot drain."""
    return max(0, BURST_IOPS - baseline)


def refill_time_s(baseline: int, from_pct: float = 0.0) -> float:
    """Seconds until a bucket that holds ``start_pct`` is full, if nothing is taken from it."""
    return max(0.0, 100 - from_pct) * CREDITS_PER_PCT / baseline


def gp2_throughput_mib_s(size_gib: int) -> int:
    """Throughput a gp2 volume of this size may reach in MiB/s: 128 up to 170 GiB, 250 above."""
    return 128 if size_gib <= 170 else 250  # noqa: PLR2004 - AWS's own threshold, used here only


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """An EBS volume as AWS describes it.

    ``attached`` is true for service-owned attachments too, which carry no ``instance_id``, and until a detach
    is complete: ``detaching`` is true while one is in progress. ``instance_name``
    is the instance's Name tag, known only where the instance had to be asked about for another reason.
    ``zone`` is the Availability Zone or Local Zone, ``outpost_arn`` None for a volume that is in none.
    """

    volume_id: str
    volume_type: str
    size_gib: int
    created_at: datetime
    attached: bool = False
    detaching: bool = False
    attached_at: datetime | None = None
    instance_id: str | None = None
    instance_name: str | None = None
    device: str | None = None
    multi_attach_enabled: bool = False
    managed_by: str | None = None
    provisioned_iops: int | None = None
    throughput_mib_s: int | None = None
    zone: str | None = None
    outpost_arn: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size_gib < 1:
            raise ValueError(f"{self.volume_id}: size_gib is {self.size_gib}, it must be at least 1")

    @property
    def name(self) -> str | None:
        """The Name tag, or None where there is none; ``naming.display_name_of`` tells what people call it."""
        return self.tags.get("Name") or None

    @property
    def is_gp2(self) -> bool:
        return self.volume_type == "gp2"
