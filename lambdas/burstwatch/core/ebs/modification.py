"""AWS's record of a volume's modification, and the configuration that the volume has after it.

Source of the states: the EBS user guide, "Monitor the progress of volume modifications". AWS keeps only the
newest record of a volume, so earlier modifications are known from our ledger only.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume_types import as_configuration

_FAILED_STATE: Final = "failed"
_FINISHED_STATES: Final = ("completed", _FAILED_STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """A volume before or after a modification; AWS also fills in derived numbers, such as the IOPS of gp2."""

    volume_type: str
    size_gib: int
    iops: int | None = None
    throughput_mib_s: int | None = None

    def configuration(self) -> Configuration | None:
        """The configuration; None for a type that burstwatch never changes to or from."""
        if self.volume_type not in frozenset(VolumeType):
            return None
        return as_configuration(VolumeType(self.volume_type), self.iops, self.throughput_mib_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """AWS's record of a volume's newest modification.

    ``state`` is AWS's word: ``modifying``, ``optimizing``, ``completed`` or ``failed``. ``progress_pct`` is 0
    to 100 and may stand still for long on small volumes.
    """

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
        """Whether it is modifying, optimizing, or in a state that we do not know.

        AWS refuses another modification until this one is ``completed`` or ``failed``, so an unknown state
        counts as in progress.
        """
        return not self.is_finished

    @property
    def has_failed(self) -> bool:
        return self.state == _FAILED_STATE
