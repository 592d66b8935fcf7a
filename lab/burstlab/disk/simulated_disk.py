"""gp2 in a box: a device, the volume of the lab that it is, and what joins the two."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from burstlab.disk.block_device import Device
from burstlab.disk.throttle import Governor, Lapse
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.ebs.volume import baseline_iops

PAST: Final = timedelta(minutes=75)
"""What a volume has lived through when its device appears: calm, so that there is something to read."""
SETTINGS: Final = LabSettings(lag_s=60, queued=True)
"""What a device did beyond its limit, before the limit was felt, is paid for later rather than forgotten."""
_FULL_PCT: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A device under the rule of its volume's bucket."""

    device: Device
    volume_id: str
    governor: Governor


@contextmanager
def open_box(
    fleet: LabFleet,
    device: Device,
    lapse: Lapse,
    *,
    size_gib: int,
    balance_pct: float = _FULL_PCT,
    tags: Mapping[str, str] | None = None,
) -> Iterator[Box]:
    """Put a volume into the fleet that lives by what this device does."""
    idle = 0 if balance_pct == _FULL_PCT else baseline_iops(size_gib)
    volume = LabVolume(
        size_gib=size_gib,
        balance_pct=balance_pct,
        load=f"steady:{idle}",
        tags=tags or {},
        starts_at=fleet.clock.now() - PAST,
    )
    volume_id = fleet.add(volume)
    governor = Governor(device, fleet, volume_id, lapse)
    governor.start()
    try:
        yield Box(device=device, volume_id=volume_id, governor=governor)
    finally:
        governor.stop()
