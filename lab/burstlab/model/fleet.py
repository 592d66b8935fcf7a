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
from burstlab.model.instances.instance import Hosting, InstanceBalances, InstanceTruth, LabInstance
from burstlab.model.instances.instance_group import InstanceGroup, describe_truth, is_calm, join_instances
from burstlab.model.instances.type_limits import resolve_target
from burstlab.model.loads.load import Load
from burstlab.model.modification import END_STATES, Modification, ModifyRequest
from burstlab.model.modification_progress import ModificationProgress, plan_change
from burstlab.model.modify_rules import check_attach, check_modifiable, check_no_op, check_quotas, check_rate
from burstlab.model.settings import LabSettings, with_changes
from burstlab.model.simulated_volume import SimulatedVolume
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
        self._ungrouped: dict[str, LabInstance] = {}
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
            self._group_instances()
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
            self._set_attachments(volume, [])
            self._changing.pop(volume_id, None)
            del self._volumes[volume_id]

    def truth(self, volume_id: str) -> Truth:
        with self.lock:
            return self.find(volume_id).truth()

    def set_load(self, volume_id: str, load: Load | str, at: datetime | None = None) -> None:
        """Ask something else of a volume, from now or from a moment to come."""
        with self.lock:
            at_s = int(at.timestamp()) if at else self.now_s()
            volume = self.find(volume_id)
            volume.set_load(load, at_s)
            self._regroup(self._hosts_of(volume))

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
            self._regroup(self._hosts_of(volume))
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
            self._group_instances()
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
            self._regroup(self._hosts_of(volume))
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

    def set_metric_fault(self, resource_id: str, fault: MetricFault | None) -> None:
        """What GetMetricData says of a volume or an instance."""
        with self.lock:
            resource = self.instances.get(resource_id) or self.find(resource_id)
            resource.metric_fault = fault

    def hide_metrics(
        self, resource_id: str, *, from_at: datetime, to_at: datetime, only_balance: bool = False
    ) -> None:
        """A telemetry gap: datapoints of a volume or an instance that start in [from, to) never appear."""
        with self.lock:
            resource = self.instances.get(resource_id) or self.find(resource_id)
            gaps = resource.balance_gaps if only_balance else resource.gaps
            gaps.append((from_at.timestamp(), to_at.timestamp()))

    def attach(self, volume_id: str, instance_id: str | None = None, device: str = "/dev/xvda") -> str:
        """Attach a volume to an instance (its own by default) and answer the instance's id.

        One that is multi-attached may be on several instances.

        Raises:
            AwsError: a modification of it is ``modifying``.
        """
        with self.lock:
            volume = self.find(volume_id)
            instance_id = instance_id or self._make_id("i", volume.number)
            is_on_it = any(attachment.instance_id == instance_id for attachment in volume.attachments)
            if volume.attachments and (is_on_it or not volume.multi_attached):
                raise FleetError(f"{volume_id} is attached already: detach it first")
            check_attach(volume, self.settings)
            self._get_or_add_instance(instance_id)
            attachment = Attachment(instance_id=instance_id, device=device, attached_at=self.clock.now())
            self._set_attachments(volume, [*volume.attachments, attachment])
            self._schedule_event(volume, "attachVolume", "succeeded")
            return instance_id

    def detach(self, volume_id: str, instance_id: str | None = None) -> None:
        """Detach a volume from an instance, by default from all of them."""
        with self.lock:
            volume = self.find(volume_id)
            remaining = [
                attachment
                for attachment in volume.attachments
                if instance_id is not None and attachment.instance_id != instance_id
            ]
            if len(remaining) < len(volume.attachments):
                self._schedule_event(volume, "DetachVolume", "")
                self._set_attachments(volume, remaining)

    def add_instance(self, instance: LabInstance) -> None:
        """Declare an instance before volumes are attached to it, if its type or state matters.

        Raises:
            FleetError: an instance of this id has volumes already.
        """
        with self.lock:
            known = self.instances.get(instance.instance_id)
            if known is not None and known.volumes:
                raise FleetError(
                    f"{instance.instance_id} has volumes already: declare it before these are added"
                )
            self.instances[instance.instance_id] = instance

    def terminate_instance(self, instance_id: str) -> None:
        """End an instance; the volumes that were created with it are deleted, the others detached."""
        with self.lock:
            instance = self._find_instance(instance_id)
            for volume in instance.volumes:
                if volume.volume_id in instance.own_volumes:
                    self.remove(volume.volume_id)
                else:
                    self.detach(volume.volume_id, instance_id)
            self._set_state(instance_id, "terminated")

    def set_instance_type(self, instance_id: str, instance_type: str) -> None:
        """Change the type of a stopped instance; the buckets of the new type are full.

        Raises:
            FleetError: it is not stopped.
        """
        with self.lock:
            instance = self._find_instance(instance_id)
            if instance.state != "stopped":
                raise FleetError(
                    f"{instance_id} is {instance.state}: its type can be changed while it is stopped"
                )
            self._catch_up(instance)
            instance.change_type(instance_type)
            instance.note_state(self.now_s())
            self._regroup([instance])

    def set_monitoring(self, instance_id: str, *, detailed: bool) -> None:
        """Switch the detailed monitoring of an instance on or off."""
        with self.lock:
            instance = self._find_instance(instance_id)
            instance.detailed_monitoring = detailed
            instance.note_state(self.now_s())

    def fill_instance(
        self, instance_id: str, io_pct: float | None = None, byte_pct: float | None = None
    ) -> None:
        """Put the buckets of an instance at these levels now; None leaves one as it is."""
        with self.lock:
            instance = self._find_instance(instance_id)
            self._catch_up(instance)
            instance.fill(io_pct, byte_pct)
            self._regroup([instance])

    def instance_truth(self, instance_id: str) -> InstanceTruth:
        """What is really so on an instance."""
        with self.lock:
            instance = self._find_instance(instance_id)
            self._catch_up(instance)
            return describe_truth(instance, self.instances, self.now_s())

    def catch_up_instance(self, instance_id: str) -> LabInstance | None:
        """An instance with its volumes simulated up to now, or None."""
        with self.lock:
            instance = self.instances.get(instance_id)
            if instance is not None:
                self._catch_up(instance)
            return instance

    def new_instance_id(self) -> str:
        """An id that no instance has."""
        with self.lock:
            self._created_count += 1
            return self._make_id("i")

    def stop_instance(self, instance_id: str) -> None:
        self._set_state(instance_id, "stopped")

    def start_instance(self, instance_id: str) -> None:
        """Start a stopped instance; EC2's LaunchTime is when it last started."""
        with self.lock:
            instance = self._find_instance(instance_id)
            if instance.state == "stopped":
                instance.launched_at = self.clock.now()
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

    def _set_state(self, instance_id: str, state: str) -> None:
        with self.lock:
            instance = self._find_instance(instance_id)
            self._catch_up(instance)
            instance.state = state
            instance.note_state(self.now_s())
            for volume in instance.volumes:
                self._set_attachments(volume, volume.attachments)

    def _catch_up(self, instance: LabInstance) -> None:
        self._group_instances()
        for hosting in instance.hostings:
            hosting.volume.catch_up(self.now_s())

    def _hosts_of(self, volume: SimulatedVolume) -> list[LabInstance]:
        ids = (attachment.instance_id for attachment in volume.attachments)
        return [self.instances[instance_id] for instance_id in ids if instance_id is not None]

    def _set_attachments(
        self, volume: SimulatedVolume, attachments: list[Attachment], at_s: int | None = None
    ) -> None:
        """Have a volume attached in this way from a moment on, by default from now on.

        The instances that run get equal parts of its load.
        """
        from_s = self.now_s() if at_s is None else at_s
        before = self._hosts_of(volume)
        volume.attachments = attachments
        hosts = self._hosts_of(volume)
        running = [host for host in hosts if host.state == "running"]
        concerned = list(dict.fromkeys([*before, *hosts]))
        for host in concerned:
            current = next((h for h in host.hostings if h.volume is volume and h.to_s is None), None)
            share = 1 / len(running) if host in running else 0.0
            if current is not None and host in hosts and current.share == share:
                continue
            if current is not None:
                current.to_s = from_s
            if host in hosts:
                host.hostings.append(Hosting(volume, from_s, share))
        is_owned = any(attachment.service_owner is not None for attachment in attachments)
        volume.running = bool(running) or is_owned
        self._regroup(concerned)

    def _regroup(self, instances: Iterable[LabInstance]) -> None:
        """Let it be found out again which volumes these instances hold back."""
        self._ungrouped.update({instance.instance_id: instance for instance in instances})

    def _group_instances(self) -> None:
        """Find out which instances may hold their volumes back, and simulate those together."""
        while self._ungrouped:
            _, instance = self._ungrouped.popitem()
            instances, volumes = join_instances(instance, self.instances)
            for connected in instances:
                self._ungrouped.pop(connected.instance_id, None)
            for volume in volumes:
                volume.group = None
            if volumes and not all(map(is_calm, instances)):
                InstanceGroup(instances, volumes, self.settings.instance_reset_hour)

    def _find_instance(self, instance_id: str) -> LabInstance:
        if instance_id not in self.instances:
            raise FleetError(f"{instance_id} is not an instance of this fleet")
        return self.instances[instance_id]

    def _attach_initially(
        self, volume: SimulatedVolume, definition: LabVolume, attached_at: datetime
    ) -> None:
        instance_ids: tuple[str | None, ...] = (None,)
        if definition.service_owner is None:
            own_id = definition.instance_id or self._make_id("i", volume.number)
            instance_ids = definition.instance_ids or (own_id,)
            for instance_id in instance_ids:
                self._get_or_add_instance(instance_id)
        attachments = [
            Attachment(
                instance_id=instance_id,
                device=definition.device,
                attached_at=attached_at,
                service_owner=definition.service_owner,
            )
            for instance_id in instance_ids
        ]
        self._set_attachments(volume, attachments, volume.at_s)
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
