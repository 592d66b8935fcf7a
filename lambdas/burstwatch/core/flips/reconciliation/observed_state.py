"""What AWS shows of a volume and of its newest modification."""

from dataclasses import dataclass

from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.ledger.flip_state import Flip


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedState:
    """What AWS shows of a volume now, and its newest modification; None without a record."""

    volume: Volume
    record: Modification | None = None

    @property
    def configuration(self) -> Configuration | None:
        """The configuration of the volume; None if its type is one that we never flip to or from."""
        if self.volume.volume_type not in frozenset(VolumeType):
            return None
        return configuration_of(self.volume)

    @property
    def started_at_s(self) -> int | None:
        """When the newest modification started."""
        started_at = self.record.started_at if self.record else None
        return None if started_at is None else int(started_at.timestamp())


def is_on_target(volume: Volume, flip: Flip) -> bool:
    """Whether a volume is what it was flipped to, in configuration and size."""
    is_target = ObservedState(volume=volume).configuration == flip.target
    return is_target and volume.size_gib == flip.size_gib
