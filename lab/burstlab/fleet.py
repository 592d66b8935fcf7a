"""A fleet of simulated volumes and the instances they are attached to.

A volume is simulated only up to the moment someone looks at it, so ten thousand calm ones cost nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from threading import RLock
from typing import Final

from burstlab.clock import LabClock
from burstlab.load import Load
from burstlab.modification import Modification
from burstlab.simulation import SimulatedVolume
from burstlab.volume import Attachment, LabVolume, MetricFault, Truth
from burstwatch.core.errors import BurstwatchError

_AGE_OF_THE_UNDATED: Final = timedelta(days=30)
_OPEN_MINUTE_KEPT_S: Final = 180


class FleetError(BurstwatchError):
    """A fleet asked for something it does not have; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What is not established about AWS, or differs between accounts, and so can be chosen.

    ``lag_s`` is how long after its minute a datapoint appears; with ``lag_most_s`` each one's lag lies
    between the two, by ``seed``. ``open_minute`` shows the minute that is still filling. ``large_publish``
    lets gp2 volumes that cannot burst (1,000 GiB and up) publish a balance of 100. ``queued`` serves later
    what could not be served, instead of losing it.
    """

    region: str = "us-east-1"
    account_id: str = "123456789012"
    lag_s: float = 0.0
    lag_most_s: float | None = None
    open_minute: bool = False
    large_publish: bool = False
    queued: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.lag_s < 0 or (self.lag_most_s is not None and self.lag_most_s < self.lag_s):
            raise ValueError(
                f"lag_s is {self.lag_s}, lag_most_s {self.lag_most_s}: give 0 <= lag_s <= lag_most_s"
            )


@dataclass(slots=True, kw_only=True)
class LabInstance:
    """An instance the fleet's volumes hang on; ``state`` is EC2's: running, stopped, terminated."""

    instance_id: str
    launched_at: datetime
    state: str = "running"
    instance_type: str = "m5.large"
    tags: dict[str, str]


class LabFleet:
    """The volumes and instances of one account and region.

    Every method may be called from any thread. Where one takes a moment ``at``, it is now by default and may
    lie in the future.
    """

    def __init__(self, clock: LabClock | None = None, settings: LabSettings | None = None) -> None:
        self.clock = clock or LabClock()
        self.settings = settings or LabSettings()
        self.lock = RLock()
        self.instances: dict[str, LabInstance] = {}
        self._volumes: dict[str, SimulatedVolume] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._volumes)

    def __iter__(self) -> Iterator[SimulatedVolume]:
        return iter(list(self._volumes.values()))

    def __contains__(self, volume_id: object) -> bool:
        return volume_id in self._volumes

    def now_s(self) -> int:
        """The moment up to which volumes are simulated: whole seconds."""
        return int(self.clock.now_s())

    def add(self, given: LabVolume) -> str:
        """Put a volume into the fleet and answer its id."""
        with self.lock:
            self._made += 1
            volume_id = given.volume_id or self._made_id("vol")
            if volume_id in self._volumes:
                raise FleetError(f"{volume_id} is in the fleet already: give another volume_id or none")
            starts_s = int(given.starts_at.timestamp()) if given.starts_at else self.now_s()
            volume = SimulatedVolume(
                given,
                volume_id=volume_id,
                number=self._made,
                starts_s=starts_s,
                queued=self.settings.queued,
                recent_s=self._recent_s(),
            )
            volume.publishes_balance = self.settings.large_publish
            started_at = given.starts_at or self.clock.now()
            volume.created_at = given.created_at or started_at - _AGE_OF_THE_UNDATED
            self._volumes[volume_id] = volume
            if given.attached:
                self._join(volume, given, given.attached_at or volume.created_at)
            return volume_id

    def add_all(self, given: Iterable[LabVolume]) -> list[str]:
        return [self.add(volume) for volume in given]

    def find(self, volume_id: str) -> SimulatedVolume:
        """The volume, brought up to now.

        Raises:
            FleetError: no such volume.
        """
        with self.lock:
            volume = self._volumes.get(volume_id)
            if volume is None:
                raise FleetError(f"{volume_id} is not in the fleet of {len(self)} volumes")
            volume.catch_up(self.now_s())
            return volume

    def get(self, volume_id: str) -> SimulatedVolume | None:
        """The volume as it was last seen, or None; for what does not change by living (size, tags, state)."""
        return self._volumes.get(volume_id)

    def remove(self, volume_id: str) -> None:
        """Delete a volume, as if it had never been."""
        with self.lock:
            self.find(volume_id)
            del self._volumes[volume_id]

    def truth(self, volume_id: str) -> Truth:
        with self.lock:
            return self.find(volume_id).truth()

    def set_load(self, volume_id: str, load: Load | str, at: datetime | None = None) -> None:
        """Ask something else of a volume, from now or from a moment to come."""
        with self.lock:
            at_s = int(at.timestamp()) if at else self.now_s()
            self.find(volume_id).set_load(load, at_s)

    def set_balance(self, volume_id: str, balance_pct: float) -> None:
        """Put the bucket at this level now; for what AWS does not document."""
        with self.lock:
            self.find(volume_id).set_balance(balance_pct)

    def set_tags(self, volume_id: str, tags: Mapping[str, str | None]) -> None:
        """Add or replace tags; None removes one."""
        with self.lock:
            held = self.find(volume_id).tags
            for key, value in tags.items():
                if value is None:
                    held.pop(key, None)
                else:
                    held[key] = value

    def set_modification(self, volume_id: str, modification: Modification | None) -> None:
        """What DescribeVolumesModifications shows of this volume."""
        with self.lock:
            self.find(volume_id).modification = modification

    def set_metric_fault(self, volume_id: str, fault: MetricFault | None) -> None:
        with self.lock:
            self.find(volume_id).metric_fault = fault

    def hide_metrics(self, volume_id: str, *, from_at: datetime, to_at: datetime) -> None:
        """A telemetry gap: datapoints whose minute starts in [from, to) never appear."""
        with self.lock:
            self.find(volume_id).gaps.append((from_at.timestamp(), to_at.timestamp()))

    def attach(self, volume_id: str, instance_id: str | None = None) -> str:
        """Attach a volume to an instance (its own by default) and answer the instance's id."""
        with self.lock:
            volume = self.find(volume_id)
            if volume.attachment is not None:
                raise FleetError(f"{volume_id} is attached already: detach it first")
            instance = self._instance(instance_id or self._made_id("i", volume.number))
            volume.attachment = Attachment(
                instance_id=instance.instance_id, device="/dev/xvda", attached_at=self.clock.now()
            )
            volume.running = instance.state == "running"
            return instance.instance_id

    def detach(self, volume_id: str) -> None:
        with self.lock:
            volume = self.find(volume_id)
            volume.attachment, volume.running = None, False

    def add_instance(self, instance: LabInstance) -> None:
        """Declare an instance before volumes are attached to it, where its type or state matters."""
        with self.lock:
            self.instances[instance.instance_id] = instance

    def stop_instance(self, instance_id: str) -> None:
        self._set_state(instance_id, "stopped")

    def start_instance(self, instance_id: str) -> None:
        self._set_state(instance_id, "running")

    def attached_to(self, instance_id: str) -> list[SimulatedVolume]:
        return [
            volume
            for volume in self
            if volume.attachment is not None and volume.attachment.instance_id == instance_id
        ]

    def _set_state(self, instance_id: str, state: str) -> None:
        with self.lock:
            if instance_id not in self.instances:
                raise FleetError(f"{instance_id} is not an instance of this fleet")
            for volume in self.attached_to(instance_id):
                volume.catch_up(self.now_s())
                volume.running = state == "running"
            self.instances[instance_id].state = state

    def _join(self, volume: SimulatedVolume, given: LabVolume, attached_at: datetime) -> None:
        volume.running = True
        instance_id = None
        if given.service_owner is None:
            instance = self._instance(given.instance_id or self._made_id("i", volume.number))
            volume.running, instance_id = instance.state == "running", instance.instance_id
        volume.attachment = Attachment(
            instance_id=instance_id,
            device=given.device,
            attached_at=attached_at,
            service_owner=given.service_owner,
        )

    def _instance(self, instance_id: str) -> LabInstance:
        return self.instances.setdefault(
            instance_id,
            LabInstance(instance_id=instance_id, launched_at=self.clock.now() - _AGE_OF_THE_UNDATED, tags={}),
        )

    def _made_id(self, prefix: str, number: int | None = None) -> str:
        """An id that looks like AWS's and is the same in every run."""
        seed = f"{prefix}/{self.settings.seed}/{number or self._made}".encode()
        return f"{prefix}-0{blake2b(seed, digest_size=8).hexdigest()}"

    def _recent_s(self) -> float:
        if not self.settings.open_minute:
            return 0.0
        return _OPEN_MINUTE_KEPT_S + (self.settings.lag_most_s or self.settings.lag_s)
