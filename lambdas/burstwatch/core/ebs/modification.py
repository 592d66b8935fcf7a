"""AWS's record of a volume's modification, and what it makes of the volume."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import GP3_LEAST_MIB_S, LIMITS

_FAILED: Final = "failed"
_OVER: Final = ("completed", _FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What a volume is made to be, before or after a modification; AWS tells numbers no one set as well."""

    volume_type: str
    size_gib: int
    iops: int | None = None
    throughput_mib_s: int | None = None

    def configuration(self) -> Configuration | None:
        """What ModifyVolume would be told for it; None for a type that volumes are not moved between.

        A number that AWS did not tell is read as the least of its type.
        """
        if self.volume_type not in frozenset(VolumeType):
            return None
        kind = VolumeType(self.volume_type)
        iops = None if kind is VolumeType.GP2 else self.iops or LIMITS[kind].least_iops
        mib_s = self.throughput_mib_s or GP3_LEAST_MIB_S if kind is VolumeType.GP3 else None
        return Configuration(volume_type=kind, iops=iops, throughput_mib_s=mib_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """AWS's record of a volume's newest modification; ``state`` is AWS's word."""

    volume_id: str
    state: str
    original: Provision
    target: Provision
    progress_pct: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status_message: str | None = None

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def is_in_progress(self) -> bool:
        """Modifying, optimizing, or in a state we do not know, which allows no other modification either."""
        return not self.is_over

    @property
    def has_failed(self) -> bool:
        return self.state == _FAILED
