"""What an EBS volume is, and the arithmetic of gp2.

Source of the numbers: the EBS user guide, "General Purpose SSD volumes" (I/O credits and burst performance).
AWS's own table has these rows, which the functions below yield::

    GiB           baseline IOPS   a full bucket lasts at 3,000 IOPS   refill of an empty one, idle
    1 to 33                 100                1,862 s                        54,000 s
    100                     300                2,000 s                        18,000 s
    334                   1,002                2,703 s                         5,389 s
    750                   2,250                7,200 s                         2,400 s
    1,000 and more        3,000                never empty                        -
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from burstwatch.core.resource_type import ResourceType

BUCKET_CREDITS: Final = 5_400_000
"""I/O credits in a full gp2 bucket, whatever the volume's size."""

BURSTABLE_TYPES: Final = ("gp2", "st1", "sc1")
"""The types that publish ``BurstBalance``: gp2 counts operations, the others MiB (``hdd_bucket``)."""

BURST_IOPS: Final = 3_000
"""Operations per second that a gp2 volume may serve while it has credits."""

CREDITS_PER_PCT: Final = BUCKET_CREDITS / 100
"""54,000: ``BurstBalance`` is a percentage of the bucket."""

_IOPS_PER_GIB: Final = 3
_MIN_BASELINE_IOPS: Final = 100
_MAX_BASELINE_IOPS: Final = 16_000


def baseline_iops(size_gib: int) -> int:
    """Sustained operations per second of a gp2 volume: ``clamp(3 * GiB, 100, 16000)``.

    It is also the refill rate in credits per second. Examples: 8 GiB have 100, 100 GiB have 300, 334 GiB
    have 1,002, and 5,334 GiB and more have 16,000. It is computed from the size, because the ``Iops`` field
    of DescribeVolumes was recorded as 24 (3 x 8, below the minimum) on old volumes of 8 GiB.
    """
    return max(_MIN_BASELINE_IOPS, min(_MAX_BASELINE_IOPS, _IOPS_PER_GIB * size_gib))


def highest_drain_per_s(baseline: int) -> int:
    """The highest net loss in credits per second: full burst less baseline; 0 if the bucket cannot drain.

    So no volume of 1,000 GiB or more can drain: its baseline is at least 3,000. (A sentence of the user guide
    says "1 TiB"; its table and this arithmetic say 1,000 GiB.)
    """
    return max(0, BURST_IOPS - baseline)


def gp2_throughput_mib_s(size_gib: int) -> int:
    """Highest throughput of a gp2 volume in MiB/s: 128 up to 170 GiB, 250 above.

    Between 170 and 334 GiB, a volume reaches 250 only while it has credits. Older texts give other thresholds
    (214 GiB); AWS raised the limits in December 2018.
    """
    return 128 if size_gib <= 170 else 250  # noqa: PLR2004 - AWS's own threshold, used here only


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """An EBS volume as AWS describes it.

    ``attached`` stays true until a detachment is complete; ``detaching`` is true while one is in progress. An
    attachment that belongs to an AWS service counts as well, although EC2 shows no ``instance_id`` for it
    (EC2 API reference, VolumeAttachment). ``instance_name`` is the instance's Name tag, which is known only
    if the instance was described for another reason. ``zone`` is an Availability Zone or a Local Zone.
    ``outpost_arn`` is None for a volume that is not on an Outpost.

    Raises:
        ValueError: ``size_gib`` is below 1.
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
    def resource_id(self) -> str:
        return self.volume_id

    @property
    def metric_id(self) -> str:
        """The value of the dimension of its metrics."""
        return self.volume_id

    @property
    def resource_type(self) -> ResourceType:
        return ResourceType.EBS

    @property
    def name(self) -> str | None:
        """The Name tag, or None without one; ``display_name_of`` returns what people call the volume."""
        return self.tags.get("Name") or None

    @property
    def is_gp2(self) -> bool:
        return self.volume_type == "gp2"

    @property
    def has_bucket(self) -> bool:
        """Whether its type has burst credits."""
        return self.volume_type in BURSTABLE_TYPES


def can_burst(volume: Volume) -> bool:
    """Whether the volume is a gp2 that depends on credits: the watchdog changes no other type."""
    return volume.is_gp2 and baseline_iops(volume.size_gib) < BURST_IOPS
