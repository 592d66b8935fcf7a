"""A simulated volume, its real device, and the controller that connects them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from burstlab.disk.block_device import ThrottledDevice
from burstlab.disk.throttle import ThrottleController, TimeScale
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.ebs.volume import baseline_iops

HISTORY_BEFORE_START: Final = timedelta(minutes=75)
"""The simulated history before the device exists: calm, so that CloudWatch has datapoints."""
SETTINGS: Final = LabSettings(lag_s=60, queued=True)
"""What a device did beyond its limit, before the limit was felt, is paid for later rather than forgotten."""
_FULL_PCT: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDisk:
    """A device under the rule of its volume's bucket."""

    device: ThrottledDevice
    volume_id: str
    controller: ThrottleController


@contextmanager
def open_simulated_disk(
    fleet: LabFleet,
    device: ThrottledDevice,
    time_scale: TimeScale,
    *,
    size_gib: int,
    balance_pct: float = _FULL_PCT,
    tags: Mapping[str, str] | None = None,
) -> Iterator[SimulatedDisk]:
    """Add a volume to the fleet whose load is what this device does."""
    idle_iops = 0 if balance_pct == _FULL_PCT else baseline_iops(size_gib)
    volume = LabVolume(
        size_gib=size_gib,
        balance_pct=balance_pct,
        load=f"steady:{idle_iops}",
        tags=tags or {},
        starts_at=fleet.clock.now() - HISTORY_BEFORE_START,
    )
    volume_id = fleet.add(volume)
    controller = ThrottleController(device, fleet, volume_id, time_scale)
    controller.start()
    try:
        yield SimulatedDisk(device=device, volume_id=volume_id, controller=controller)
    finally:
        controller.stop()
