"""A fleet of simulated volumes and the instances they are attached to.

A volume is simulated only up to the last moment that was requested, so ten thousand calm ones cost nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from threading import RLock
from typing import Any, Final

from burstlab.model.clock import LabClock
from burstlab.model.database import Databases
from burstlab.model.ebs_events import EventLog, LabEvent
from burstlab.model.file_system import FileSystems
from burstlab.model.instance import InstanceBalances, LabInstance
from burstlab.model.load import Load
from burstlab.model.modification import END_STATES, Modification, ModifyRequest
from burstlab.model.modification_progress import ModificationProgress, plan_change
from burstlab.model.modify_rules import check_attach, check_modifiable, check_no_op, check_quotas, check_rate
from burstlab.model.settings import LabSettings, with_changes
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.type_limits import resolve_target
from burstlab.model.volume import Attachment, LabVolume, MetricFault, Truth, check_tags
from burstwatch.core.errors import BurstwatchError

__all__ = ["FleetError", "LabFleet", "LabInstance", "LabSettings"]

BROKEN_STATUSES: Final = ("creating", "deleting", "error")
_DEFAULT_AGE: Final = timedelta(days=30)
_OPEN_MINUTE_RETENTION_S: Final = 180  # the minute that is still filling, with one on either side


class FleetError(BurstwatchError):
    """The fleet does not have what was requested; the message identifies it."""


class LabFleet:
    """The volumes and instances of one account and region.

    Every method may be called from any thread. A moment ``at`` is the present by default, and may be in the
    future.
    """

    def __init__(self, clock: LabClock | None = None, settings: LabSettings | None = None) -> None:
        self.clock = clock or LabClock()
        self.settings = settings or LabSettings()
        self.lock = RLock()
        self.instances: dict[str, LabInstance] = {}
        self._volumes: dict[str, SimulatedVolume] = {}
        self._changing: dict[str, SimulatedVolume] = {}
        self._created_count = 0
        self._started_at = self.clock.now()
        self._events = EventLog(self.settings)
        self.file_systems = FileSystems(self.clock, self.lock, lambda: self.settings)
        self.databases = Databases(self.clock, self.lock, lambda: self.settings)

    def __len__(self) -> int:
        return len(self._volumes)

    def __iter__(self) -> Iterator[SimulatedVolume]:
        return iter(list(self._volumes.values()))

    def __contains__(self, volume_id: object) -> bool:
        return volume_id in self._volumes

    def now_s(self) -> int:
        """The moment up to which volumes are simulated: whole seconds."""
        return int(self.clock.now_s())

    @property
    def first_zone(self) -> str:
        """Where instances are, and volumes that name no zone."""
        return f"{self.settings.region}a"

    def add(self, definition: LabVolume) -> str:
        """Put a volume into the fleet and answer its id."""
        with self.lock:
            self._created_count += 1
            volume_id = definition.volume_id or self._make_id("vol")
            if volume_id in self._volumes:
                raise FleetError(f"{volume_id} is in the fleet already: give another volume_id or none")
            starts_at_s = int(definition.starts_at.timestamp()) if definition.starts_at else self.now_s()
            volume = SimulatedVolume(
                definition,
                volume_id=volume_id,
                number=self._created_count,
                starts_at_s=starts_at_s,
                settings=self.settings,
                retention_s=self._retention_s(),
            )
            started_at = definition.starts_at or self.clock.now()
            volume.zone = definition.zone or self.first_zone
            volume.created_at = definition.created_at or started_at - _DEFAULT_AGE
            self._volumes[volume_id] = volume
            if volume.created_at >= self._started_at:
                self._schedule_event(volume, "createVolume", "available", volume.created_at)
            if definition.attached:
                self._attach_initially(volume, definition, definition.attached_at or volume.created_at)
            return volume_id

    def add_all(self, definitions: Iterable[LabVolume]) -> list[str]:
        return [self.add(volume) for volume in definitions]

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
        """Delete a volume; of what was to come of it nothing does."""
        with self.lock:
            volume = self.find(volume_id)
            self._events.cancel_scheduled(volume_id, self.now_s())
            self._schedule_event(volume, "deleteVolume", "deleted")
            self._changing.pop(volume_id, None)
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
        check_tags(tags)
        with self.lock:
            current_tags = self.find(volume_id).tags
            for key, value in tags.items():
                if value is None:
                    current_tags.pop(key, None)
                else:
                    current_tags[key] = value

    def set_modification(self, volume_id: str, modification: Modification | None) -> None:
        """What DescribeVolumesModifications shows of this volume."""
        with self.lock:
            self.find(volume_id).declare(modification)

    def modify(self, volume_id: str, request: ModifyRequest | None = None, **parameters: Any) -> Modification:
        """Request a modification as the console or Terraform would.

        ``parameters`` are fields of ``ModifyRequest``.

        Raises:
            AwsError: EC2 refuses, for the reasons and in the words it has.
        """
        with self.lock:
            change = self.plan_modification(volume_id, request or ModifyRequest(**parameters))
            volume = self._volumes[volume_id]
            volume.begin_change(change)
            self._changing[volume_id] = volume
            self._events.schedule_states(volume_id, change)
            return change.describe_at(volume.at_s)

    def plan_modification(self, volume_id: str, request: ModifyRequest) -> ModificationProgress:
        """The course of a modification if it were requested now."""
        with self.lock:
            volume, now, settings = self.find(volume_id), self.clock.now(), self.settings
            volume.catch_up(int(now.timestamp()))
            check_modifiable(volume, request, settings)
            target = resolve_target(volume.spec, request, settings)
            check_no_op(volume, target, settings)
            check_rate(volume, now, settings)
            check_quotas(volume, target, fleet=self, changes=self.changes_in_progress(), settings=settings)
            name = f"{volume_id}/{len(volume.changes)}"
            return plan_change(volume.spec, target, name=name, now=now, settings=settings)

    def modifications(self, volume_id: str) -> list[Modification]:
        """Every modification of a volume, oldest first; EC2 itself returns only the last."""
        with self.lock:
            return self.find(volume_id).modifications

    def changes_in_progress(self) -> list[ModificationProgress]:
        """The modifications in progress, their volumes brought up to now."""
        with self.lock:
            for volume in self._changing.values():
                volume.catch_up(self.now_s())
            in_progress = {key: volume for key, volume in self._changing.items() if volume.change is not None}
            self._changing = in_progress
            return [volume.change for volume in in_progress.values() if volume.change is not None]

    def end_modification(self, volume_id: str, state: str = "completed") -> Modification:
        """Let the modification in progress end now, ``completed`` or ``failed``; for one that is stuck."""
        if state not in END_STATES:
            raise FleetError(f"a modification cannot end as {state!r}: give {' or '.join(END_STATES)}")
        with self.lock:
            volume = self.find(volume_id)
            if volume.change is None:
                raise FleetError(f"{volume_id} has no modification in progress")
            before = volume.change.state_at(volume.at_s)
            volume.end_change(will_fail=state == "failed")
            self._events.cancel_scheduled(volume_id, volume.at_s)
            self._events.schedule_remaining_states(volume_id, volume.changes[-1], after=before)
            return volume.changes[-1].describe_at(volume.at_s)

    def change_settings(self, **changes: Any) -> LabSettings:
        """Choose other rules from now on; a modification in progress keeps those it was accepted under."""
        with self.lock:
            self._events.arrived_by(self.now_s())
            self.settings = self._events.settings = with_changes(self.settings, changes)
            return self.settings

    @property
    def events(self) -> list[LabEvent]:
        """What EventBridge was given so far, in the order of arrival."""
        with self.lock:
            self._events.add_low_credits(self.databases.low_credit_events())
            return self._events.arrived_by(self.now_s())

    def set_status(self, volume_id: str, status: str | None) -> None:
        """Put a volume into creating, deleting or error; None makes it usable again."""
        if status is not None and status not in BROKEN_STATUSES:
            raise FleetError(f"status is {status!r}: give one of {', '.join(BROKEN_STATUSES)}, or none")
        with self.lock:
            self.find(volume_id).broken_status = status

    def set_metric_fault(self, volume_id: str, fault: MetricFault | None) -> None:
        with self.lock:
            self.find(volume_id).metric_fault = fault

    def hide_metrics(
        self, volume_id: str, *, from_at: datetime, to_at: datetime, only_balance: bool = False
    ) -> None:
        """A telemetry gap: datapoints whose minute starts in [from, to) never appear."""
        with self.lock:
            volume = self.find(volume_id)
            gaps = volume.balance_gaps if only_balance else volume.gaps
            gaps.append((from_at.timestamp(), to_at.timestamp()))

    def attach(self, volume_id: str, instance_id: str | None = None, device: str = "/dev/xvda") -> str:
        """Attach a volume to an instance (its own by default) and answer the instance's id.

        Raises:
            AwsError: a modification of it is ``modifying``.
        """
        with self.lock:
            volume = self.find(volume_id)
            if volume.attachment is not None:
                raise FleetError(f"{volume_id} is attached already: detach it first")
            check_attach(volume, self.settings)
            instance = self._get_or_add_instance(instance_id or self._make_id("i", volume.number))
            volume.attachment = Attachment(
                instance_id=instance.instance_id, device=device, attached_at=self.clock.now()
            )
            volume.running = instance.state == "running"
            self._schedule_event(volume, "attachVolume", "succeeded")
            return instance.instance_id

    def detach(self, volume_id: str) -> None:
        with self.lock:
            volume = self.find(volume_id)
            if volume.attachment is not None:
                self._schedule_event(volume, "DetachVolume", "")
            volume.attachment, volume.running = None, False

    def add_instance(self, instance: LabInstance) -> None:
        """Declare an instance before volumes are attached to it, if its type or state matters."""
        with self.lock:
            self.instances[instance.instance_id] = instance

    def terminate_instance(self, instance_id: str) -> None:
        """End an instance; the volumes that were created with it are deleted, the others detached."""
        with self.lock:
            instance = self._find_instance(instance_id)
            instance.state = "terminated"
            for volume in self.volumes_attached_to(instance_id):
                if volume.volume_id in instance.own_volumes:
                    self.remove(volume.volume_id)
                else:
                    self.detach(volume.volume_id)

    def new_instance_id(self) -> str:
        """An id that no instance has."""
        with self.lock:
            self._created_count += 1
            return self._make_id("i")

    def stop_instance(self, instance_id: str) -> None:
        self._set_state(instance_id, "stopped")

    def start_instance(self, instance_id: str) -> None:
        self._set_state(instance_id, "running")

    def set_instance_balance(
        self,
        instance_id: str,
        io_pct: float | None = None,
        byte_pct: float | None = None,
        *,
        at: datetime | None = None,
    ) -> None:
        """Publish EBSIOBalance% and EBSByteBalance% of an instance from then on; None publishes nothing."""
        with self.lock:
            at_s = int(at.timestamp()) if at else self.now_s()
            self._find_instance(instance_id).set_balances(InstanceBalances(at_s, io_pct, byte_pct))

    def volumes_attached_to(self, instance_id: str) -> list[SimulatedVolume]:
        return [
            volume
            for volume in self
            if volume.attachment is not None and volume.attachment.instance_id == instance_id
        ]

    def _set_state(self, instance_id: str, state: str) -> None:
        with self.lock:
            instance = self._find_instance(instance_id)
            for volume in self.volumes_attached_to(instance_id):
                volume.catch_up(self.now_s())
                volume.running = state == "running"
            instance.state = state

    def _find_instance(self, instance_id: str) -> LabInstance:
        if instance_id not in self.instances:
            raise FleetError(f"{instance_id} is not an instance of this fleet")
        return self.instances[instance_id]

    def _attach_initially(
        self, volume: SimulatedVolume, definition: LabVolume, attached_at: datetime
    ) -> None:
        volume.running = True
        instance_id = None
        if definition.service_owner is None:
            instance = self._get_or_add_instance(definition.instance_id or self._make_id("i", volume.number))
            volume.running, instance_id = instance.state == "running", instance.instance_id
        volume.attachment = Attachment(
            instance_id=instance_id,
            device=definition.device,
            attached_at=attached_at,
            service_owner=definition.service_owner,
        )
        if attached_at >= self._started_at:
            self._schedule_event(volume, "attachVolume", "succeeded", attached_at)

    def _schedule_event(
        self, volume: SimulatedVolume, name: str, result: str, at: datetime | None = None
    ) -> None:
        at_s = self.now_s() if at is None else int(at.timestamp())
        self._events.schedule(volume.volume_id, name, result, at_s)

    def _get_or_add_instance(self, instance_id: str) -> LabInstance:
        return self.instances.setdefault(
            instance_id,
            LabInstance(instance_id=instance_id, launched_at=self.clock.now() - _DEFAULT_AGE, tags={}),
        )

    def _make_id(self, prefix: str, number: int | None = None) -> str:
        """An id that looks like AWS's and is the same in every run."""
        seed = f"{prefix}/{self.settings.seed}/{number or self._created_count}".encode()
        return f"{prefix}-0{blake2b(seed, digest_size=8).hexdigest()}"

    def _retention_s(self) -> float:
        if not self.settings.open_minute:
            return 0.0
        return _OPEN_MINUTE_RETENTION_S + (self.settings.lag_most_s or self.settings.lag_s)
