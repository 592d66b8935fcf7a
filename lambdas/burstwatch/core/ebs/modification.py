"""AWS's record of a volume's modification, and what it makes of the volume."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import GP3_MIN_MIB_S, TYPE_LIMITS

_FAILED_STATE: Final = "failed"
_FINISHED_STATES: Final = ("completed", _FAILED_STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
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
        iops = None if kind is VolumeType.GP2 else self.iops or TYPE_LIMITS[kind].min_iops
        mib_s = self.throughput_mib_s or GP3_MIN_MIB_S if kind is VolumeType.GP3 else None
        return Configuration(volume_type=kind, iops=iops, throughput_mib_s=mib_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """AWS's record of a volume's newest modification; ``state`` is AWS's word."""

    volume_id: str
    state: str
    original: VolumeSpec
    target: VolumeSpec
    progress_pct: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status_message: str | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in _FINISHED_STATES

    @property
    def is_in_progress(self) -> bool:
        """Modifying, optimizing, or in a state we do not know, which allows no other modification either."""
        return not self.is_finished

    @property
    def has_failed(self) -> bool:
        return self.state == _FAILED_STATE
