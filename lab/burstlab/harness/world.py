"""A fleet, the ledger of the watchdogs that look after it, and what people do to both."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.modification import Modification
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.core.ledger.flip_state import Flip, Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services

SWEEP_S: Final = 300
"""The sweep tick of the default policy."""

TICK_S: Final = 60
"""The focus tick."""

PASS_DELAY_S: Final = 2
"""The watchdog reads CloudWatch about two seconds after its tick."""

_WARM_UP: Final = timedelta(minutes=10)
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - only a folder of ours is made in it


class World:
    """What a run is about; ``fleet`` and ``ledger`` are set by the class that inherits from this one."""

    fleet: LabFleet
    ledger: Ledger

    @property
    def now_s(self) -> int:
        return self.fleet.now_s()

    def state(self, volume_id: str) -> ResourceState | None:
        return self.ledger.states_of({volume_id}).get(volume_id)

    def flip(self, volume_id: str) -> Flip | None:
        state = self.state(volume_id)
        return state.flip if state else None

    def entries(self, volume_id: str, *kinds: EntryKind) -> list[LedgerEntry]:
        return [entry for entry in self.ledger.entries(volume_id) if entry.kind in kinds]

    def modifications(self, volume_id: str) -> list[Modification]:
        return self.fleet.modifications(volume_id)

    def hold(self, volume_id: str | None, for_s: int, *, by: str = "ann", reason: str = "release") -> None:
        """A person keeps a volume as it is, or all of them."""
        now_s = self.now_s
        self.ledger.place_hold(
            Hold(volume_id=volume_id, by=by, reason=reason, placed_at_s=now_s, until_s=now_s + for_s)
        )

    def hide_balance(self, volume_id: str, duration: timedelta) -> None:
        """CloudWatch loses the burst balance of a volume."""
        now = self.fleet.clock.now()
        self.fleet.hide_metrics(volume_id, from_at=now, to_at=now + duration, only_balance=True)

    def revert_externally(self, volume_id: str) -> bool:
        """Somebody with another tool makes gp2 of a volume that was flipped; False if it is gp2."""
        is_flipped = self.fleet.find(volume_id).volume_type != "gp2"
        if is_flipped:
            self.fleet.modify(volume_id, volume_type="gp2")
        return is_flipped


class NamedWorld(World):
    """A world whose volumes have names."""

    def __init__(self, volumes: Mapping[str, LabVolume], starts_at: datetime, settings: LabSettings) -> None:
        """Without volumes: ``add`` them, then ``begin``, which is at ``starts_at``."""
        self.fleet = LabFleet(LabClock.manual(starts_at - _WARM_UP), settings)
        self.volumes = volumes
        self.volume_ids = {name: f"vol-{number:017x}" for number, name in enumerate(volumes, start=1)}

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            volume = self.volumes[name]
            tags = {"Name": name, **volume.tags}
            self.fleet.add(replace(volume, volume_id=self.volume_ids[name], tags=tags))

    def begin(self) -> None:
        """Ten minutes go by, so that there are datapoints."""
        self.fleet.clock.advance(_WARM_UP.total_seconds())


def build_services(fleet: LabFleet, ledger: Ledger, policy: Policy, **parts: Any) -> Services:
    """The services of a watchdog whose AWS is the lab in the same process; ``parts`` replace some of them."""
    ec2 = cast("Any", InProcessEc2(fleet))
    defaults: dict[str, Any] = {
        "ec2": Ec2Reader(ec2),
        "cloudwatch": InProcessCloudWatch(fleet),
        "calls": CallCounter(),
        "location": AwsLocation(region=fleet.settings.region),
        "modifier": Ec2Modifier(ec2),
    }
    return Services(ledger=ledger, policy=policy, **(defaults | parts))


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """A temporary folder for a ledger: in memory if the system supports that.

    A month has 140,000 transactions, each of which would wait for the disk.
    """
    can_write = _MEMORY_DIRECTORY.is_dir() and os.access(_MEMORY_DIRECTORY, os.W_OK)
    with TemporaryDirectory(prefix=prefix, dir=_MEMORY_DIRECTORY if can_write else None) as directory:
        yield Path(directory)
