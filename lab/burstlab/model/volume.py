"""The definition of a lab volume, and its true state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from burstlab.model.loads.load import Load

DEFAULT_IOPS: Final = {"gp3": 3_000, "io1": 3_000, "io2": 3_000, "standard": 100, "st1": 500, "sc1": 250}
MULTI_ATTACH_TYPES: Final = ("io1", "io2")
STATUS_CODES: Final = ("Forbidden", "InternalError", "PartialData")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabVolume:
    """A volume as it joins the fleet; what is None the fleet fills in.

    An attached volume without ``instance_id`` gets an instance of its own, unless ``service_owner`` is a
    service that owns the attachment (those have no InstanceId). ``instance_ids`` are several instances, for a
    volume that is ``multi_attached``; they send equal parts of its load. ``zone`` is the region's first by
    default; with ``lacks_gp3``, the zone or the Outpost has no gp3. ``shown_iops`` is what DescribeVolumes
    returns if that differs from the truth (24 for old 8 GiB volumes). The simulation begins at ``starts_at``,
    with ``balance_pct``.
    """

    size_gib: int
    load: Load | str = "idle"
    balance_pct: float = 100.0
    volume_id: str | None = None
    volume_type: str = "gp2"
    tags: Mapping[str, str] = field(default_factory=dict)
    starts_at: datetime | None = None
    created_at: datetime | None = None
    attached: bool = True
    attached_at: datetime | None = None
    instance_id: str | None = None
    instance_ids: tuple[str, ...] = ()
    service_owner: str | None = None
    device: str = "/dev/xvda"
    managed_by: str | None = None
    hidden: bool = False
    multi_attached: bool = False
    shown_iops: int | None = None
    iops: int | None = None
    throughput_mib_s: int | None = None
    zone: str | None = None
    outpost_arn: str | None = None
    lacks_gp3: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size_gib <= 65_536:  # noqa: PLR2004 - the widest range AWS has
            raise ValueError(f"size_gib is {self.size_gib}: give 1 to 65536")
        if not 0 <= self.balance_pct <= 100:  # noqa: PLR2004
            raise ValueError(f"balance_pct is {self.balance_pct}: give 0 to 100")
        if self.volume_type not in ("gp2", *DEFAULT_IOPS):
            raise ValueError(
                f"volume_type is {self.volume_type!r}: give one of gp2, {', '.join(DEFAULT_IOPS)}"
            )
        if self.instance_ids:
            self._check_instance_ids()
        if self.service_owner is not None and (self.instance_id is not None or self.instance_ids):
            raise ValueError(
                "give service_owner or instance_id: an attachment owned by a service shows no instance"
            )
        check_tags(self.tags)

    def _check_instance_ids(self) -> None:
        if self.instance_id is not None:
            raise ValueError("give instance_id or instance_ids, not both")
        if not (self.multi_attached and self.volume_type in MULTI_ATTACH_TYPES):
            raise ValueError(
                f"instance_ids needs multi_attached, and one of {', '.join(MULTI_ATTACH_TYPES)}: "
                f"a {self.volume_type} volume can be on one instance only"
            )
        if len(set(self.instance_ids)) != len(self.instance_ids):
            raise ValueError(f"instance_ids names an instance twice: {', '.join(self.instance_ids)}")


def check_tags(tags: Mapping[str, str | None]) -> None:
    """Refuse what no XML document can hold, and AWS therefore no tag.

    Raises:
        ValueError: naming the tag and the character.
    """
    for key, value in tags.items():
        for character in key + (value or ""):
            if character < " " and character not in "\t\n\r":
                raise ValueError(
                    f"tag {key!r} holds U+{ord(character):04X}: AWS knows no such tag, leave it out"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is really so at a moment, which CloudWatch shows only in part and later.

    ``stalled_s`` is how long the volume was throttled to its baseline with more demand. ``dry_since`` is None
    unless it is empty now; ``first_dry_at`` remains. ``ceiling_iops`` is the most it would serve now, if
    neither its throughput nor its instance holds it back. ``credits`` are MiB for st1 and sc1.
    """

    volume_id: str
    at: datetime
    credits: float
    burst_balance_pct: float
    demand_iops: float
    served_iops: float
    ceiling_iops: int
    first_dry_at: datetime | None
    dry_since: datetime | None
    stalled_s: float
    lost_ops: float
    backlog_ops: float


@dataclass(slots=True, kw_only=True)
class Attachment:
    """The attachment of a volume; ``instance_id`` is None if a service owns the attachment."""

    instance_id: str | None
    device: str
    attached_at: datetime
    service_owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFault:
    """What GetMetricData says of this volume instead of Complete."""

    status_code: str
    message: str = ""

    def __post_init__(self) -> None:
        if self.status_code not in STATUS_CODES:
            raise ValueError(f"status_code is {self.status_code!r}: give one of {', '.join(STATUS_CODES)}")
