"""The demo: resources of every kind under load, the real watchdog acting, six hours in a minute or two."""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Final

from burstctl.timeline.intervals import TargetInterval, target_intervals
from burstlab.demo.activity import RefusedFlip, refused_flips
from burstlab.demo.scenario import (
    COMPARED_NAMES,
    DATABASE,
    FILE_SYSTEM,
    INSTANCE,
    STARTS_AT,
    VOLUMES,
    DemoAdvised,
    DemoDatabase,
    DemoFileSystem,
    DemoInstance,
    DemoVolume,
)
from burstlab.demo.watchdogs import Watchdog, deployed_watchdog, local_watchdog
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.database import STORAGE, LabDatabase
from burstlab.model.file_system import BUCKET, LabFileSystem
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.instances.instance import InstanceTruth
from burstlab.model.loads.load import get_operation_kib
from burstlab.model.loads.load_parser import parse_load
from burstlab.model.metered_resource import MeteredResource
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import LabVolume
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import (
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_over,
    usd_per_month,
)
from burstwatch.core.ebs.volume import BURST_IOPS, Volume
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.instances.instance_buckets import INSTANCE_IO
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.rds.rds_buckets import RDS_IO
from burstwatch.core.resource_type import ResourceType, subject_of

POLICY: Final = Path(__file__).with_name("demo_policy.yaml")
HISTORY_BEFORE_START: Final = timedelta(minutes=75)
"""The simulated history before the demo begins: calm, so that CloudWatch has datapoints."""
TICK_S: Final = 60  # the focus tick of the watchdog
SETTINGS: Final = LabSettings(lag_s=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteSample:
    """What was really so on a resource in the minute until ``at_s``; CloudWatch shows it later and in part.

    ``balance_pct`` is None while there is no bucket. Demand and what was served are in the ``rate_unit`` of
    the resource. ``extra_usd`` is what the minute cost above gp2.
    """

    at_s: int
    balance_pct: float | None
    demand: float
    served: float
    usd: float = 0.0
    extra_usd: float = 0.0


@dataclass(slots=True, kw_only=True)
class History:
    """A resource from the first minute on; ``stalled_s`` is how long it was throttled to its baseline."""

    samples: list[MinuteSample] = field(default_factory=list)
    empty_at_s: float | None = None
    stalled_s: float = 0.0

    def extra_usd(self, from_s: float = 0, to_s: float | None = None) -> float:
        """The cost above gp2 between two moments; negative if it was lower."""
        end_s = inf if to_s is None else to_s
        return sum(sample.extra_usd for sample in self.samples if from_s < sample.at_s <= end_s)


@dataclass(slots=True, kw_only=True)
class VolumeHistory(History):
    """A volume from the first minute of the demo on."""

    volume_id: str
    lost_ops: float = 0.0

    def record_minute(self, volume: SimulatedVolume) -> None:
        """Note the minute that has just passed."""
        truth = volume.truth()
        minute = (volume.at_s - volume.origin_s) // TICK_S - 1
        served = sum(run.read_ops + run.write_ops for run in volume.history.runs(minute, minute + 1)) / TICK_S
        usd = _usd_per_minute(billed_configuration(volume), volume.size_gib)
        self.samples.append(
            MinuteSample(
                at_s=volume.at_s,
                balance_pct=truth.burst_balance_pct if volume.reports_balance() else None,
                demand=served + (truth.lost_ops - self.lost_ops) / TICK_S,
                served=served,
                usd=usd,
                extra_usd=usd - _usd_per_minute(Configuration(volume_type=VolumeType.GP2), volume.size_gib),
            )
        )
        self.empty_at_s = truth.first_dry_at.timestamp() if truth.first_dry_at else None
        self.stalled_s, self.lost_ops = truth.stalled_s, truth.lost_ops

    @property
    def usd(self) -> float:
        return sum(sample.usd for sample in self.samples)


class InstanceHistory(History):
    """An instance from the first minute of the demo on: its bucket of operations."""

    __slots__ = ()

    def record_minute(self, truth: InstanceTruth) -> None:
        """Note the minute that ends now."""
        if truth.io is None:
            raise ValueError(f"{truth.instance_id} has no EBS limits")
        at_s = int(truth.at.timestamp())
        sample = MinuteSample(
            at_s=at_s,
            balance_pct=truth.io.balance_pct,
            demand=truth.demand_iops,
            served=truth.served_iops,
        )
        self.samples.append(sample)
        self.empty_at_s = truth.io.first_empty_at.timestamp() if truth.io.first_empty_at else None
        if truth.io.empty_since and truth.demand_iops > truth.served_iops:
            self.stalled_s += min(TICK_S, at_s - truth.io.empty_since.timestamp())


@dataclass(slots=True, kw_only=True)
class StorageHistory(History):
    """A file system or a database from the first minute on; ``rate_per_operation`` is 1, or in MiB."""

    bucket: str
    rate_per_operation: float = 1.0

    def record_minute(self, resource: MeteredResource) -> None:
        """Note the minute that ends now."""
        pool = resource.pools.get(self.bucket)
        sample = MinuteSample(
            at_s=resource.at_s,
            balance_pct=None if pool is None else pool.balance_pct,
            demand=resource.demand_per_s * self.rate_per_operation,
            served=resource.served_per_s * self.rate_per_operation,
        )
        self.samples.append(sample)
        if pool is not None:
            self.empty_at_s = pool.first_empty_at_s
        self.stalled_s = resource.throttled_s


def billed_configuration(volume: SimulatedVolume) -> Configuration:
    """What is paid for: AWS bills a new configuration from the start of its modification."""
    spec = volume.change.target if volume.change else volume.spec
    volume_type = VolumeType(spec.volume_type)
    return Configuration(
        volume_type=volume_type,
        iops=None if volume_type is VolumeType.GP2 else spec.iops,
        throughput_mib_s=spec.throughput_mib_s if volume_type is VolumeType.GP3 else None,
    )


def _usd_per_minute(configuration: Configuration, size_gib: int) -> float:
    """Dollars for a minute."""
    return usd_over(usd_per_month(configuration, size_gib, US_EAST_1), TICK_S)


@dataclass(slots=True, kw_only=True)
class ResourceRun:
    """One resource of the demo: what happened to it, and what the ledger says of it.

    ``subject`` is the key of its bucket in the ledger, ``state`` what is remembered of it: None while it is
    calm.
    """

    subject: str
    history: History
    entries: list[LedgerEntry] = field(default_factory=list)
    state: ResourceState | None = None

    @property
    def bucket_level(self) -> Level:
        """As its bucket is judged now, unless there is no bucket to judge."""
        if self.state is None:
            return Level.OK
        return Level.UNKNOWN if self.state.reading.unknown_reason else self.state.level

    @property
    def first_alert(self) -> LedgerEntry | None:
        """The first alert that it drains."""
        alerts = (entry for entry in self.entries if entry.kind is EntryKind.ALERT)
        return next((entry for entry in alerts if entry.body["kind"] == AlertKind.DRAINING), None)

    @property
    def warning_time_s(self) -> float | None:
        """From the first drain alert until the bucket was empty; None if one of the two did not happen."""
        alert = self.first_alert
        return self.history.empty_at_s - alert.at_s if alert and self.history.empty_at_s else None

    @property
    def target_intervals(self) -> list[TargetInterval]:
        return target_intervals(self.entries)

    @property
    def refused_flips(self) -> list[RefusedFlip]:
        return refused_flips(self.entries)


@dataclass(slots=True, kw_only=True)
class VolumeRun(ResourceRun):
    """One volume of the demo: its history, the same volume ``unwatched``, and what was done.

    ``current_type`` is its type, with an arrow during a modification.
    """

    spec: DemoVolume
    volume_id: str
    history: VolumeHistory
    unwatched: VolumeHistory
    current_type: str = "gp2"

    @property
    def volume(self) -> Volume:
        """As AWS describes it at the start."""
        return Volume(
            volume_id=self.volume_id,
            volume_type=VolumeType.GP2,
            size_gib=self.spec.size_gib,
            created_at=STARTS_AT,
            tags=self.spec.tags,
        )

    @property
    def level(self) -> Level:
        """As it is judged now."""
        return self.bucket_level if self.state or self.can_drain else Level.UNKNOWN

    @property
    def can_drain(self) -> bool:
        """Whether it can burst above what it sustains."""
        return self.spec.baseline < BURST_IOPS

    @property
    def has_bucket(self) -> bool:
        """Whether it has a balance now."""
        return self.current_type == VolumeType.GP2


@dataclass(slots=True, kw_only=True)
class AdvisedRun(ResourceRun):
    """A resource that burstwatch does not change; without the watchdog the same would happen, ``unwatched``.

    A person may change it: ``changed_at_s`` is when, and ``changed_to`` what it is then.
    """

    spec: DemoAdvised
    kind_name: str
    unwatched: History | None = None
    changed_at_s: float | None = None
    changed_to: str = ""

    @property
    def level(self) -> Level:
        """As it is judged now."""
        return self.bucket_level

    @property
    def has_bucket(self) -> bool:
        """Whether it has a balance now."""
        return not self.history.samples or self.history.samples[-1].balance_pct is not None

    @property
    def current_type(self) -> str:
        return self.kind_name


@dataclass(slots=True, kw_only=True)
class DemoRun:
    """The demo while it runs.

    The volumes of ``unwatched_fleet`` have the same load and no watchdog.
    """

    endpoint: Endpoint
    unwatched_fleet: LabFleet
    watchdog: Watchdog
    volume_runs: dict[str, VolumeRun]
    instance_run: AdvisedRun
    file_system_run: AdvisedRun
    database_run: AdvisedRun
    ticks: int = 0

    @property
    def advised_runs(self) -> list[AdvisedRun]:
        """The resources that burstwatch does not change."""
        return [self.instance_run, self.file_system_run, self.database_run]

    @property
    def runs(self) -> list[VolumeRun | AdvisedRun]:
        """All resources, in the order in which they are shown."""
        return [*self.volume_runs.values(), *self.advised_runs]

    @property
    def now_s(self) -> int:
        return self.endpoint.fleet.now_s()

    @property
    def api_calls(self) -> dict[str, int]:
        """The watchdog's calls to EC2 and CloudWatch."""
        return self.endpoint.faults.call_counts()

    @property
    def compared_runs(self) -> list[VolumeRun]:
        return [
            volume_run for volume_run in self.volume_runs.values() if volume_run.spec.name in COMPARED_NAMES
        ]


@contextmanager
def open_demo(policy: Path, *, log: Callable[[str], None] | None = None) -> Iterator[DemoRun]:
    """Put the cast behind an endpoint and the watchdog in front of it, with leave to modify.

    With ``log``, which receives the progress of the deployment, it is the deployed watchdog.
    """
    clock = LabClock.manual(STARTS_AT - HISTORY_BEFORE_START)
    watched, unwatched = LabFleet(clock, SETTINGS), LabFleet(clock, SETTINGS)
    volume_runs = [_start_volume(spec, watched, unwatched) for spec in VOLUMES]
    _add_instance(watched, INSTANCE)
    _add_database(watched, DATABASE)
    for fleet in (watched, unwatched):
        _add_file_system(fleet, FILE_SYSTEM)
    with ExitStack() as stack:
        endpoint = stack.enter_context(Endpoint(watched))
        watchdog_context = (
            deployed_watchdog(endpoint, policy, log) if log else local_watchdog(endpoint, policy)
        )
        demo_run = DemoRun(
            endpoint=endpoint,
            unwatched_fleet=unwatched,
            watchdog=stack.enter_context(watchdog_context),
            volume_runs={volume_run.volume_id: volume_run for volume_run in volume_runs},
            instance_run=_start_instance(INSTANCE),
            file_system_run=_start_file_system(FILE_SYSTEM),
            database_run=_start_database(DATABASE),
        )
        clock.advance(HISTORY_BEFORE_START.total_seconds())
        _place_holds(demo_run)
        endpoint.faults.reset_calls()
        yield demo_run


def _start_volume(spec: DemoVolume, watched: LabFleet, unwatched: LabFleet) -> VolumeRun:
    volume_id = _add_volume(watched, spec)
    history, unwatched_history = (
        VolumeHistory(volume_id=volume_id),
        VolumeHistory(volume_id=_add_volume(unwatched, spec)),
    )
    return VolumeRun(
        spec=spec, volume_id=volume_id, subject=volume_id, history=history, unwatched=unwatched_history
    )


def _add_volume(fleet: LabFleet, spec: DemoVolume) -> str:
    volume = LabVolume(
        size_gib=spec.size_gib,
        balance_pct=spec.balance_pct,
        load=spec.initial_load,
        tags={"Name": spec.name, **spec.tags},
        starts_at=STARTS_AT - HISTORY_BEFORE_START,
    )
    volume_id = fleet.add(volume)
    fleet.set_load(volume_id, spec.load, STARTS_AT)
    if spec.silent_after is not None:
        silent_from_at = STARTS_AT + spec.silent_after
        fleet.hide_metrics(
            volume_id, from_at=silent_from_at, to_at=silent_from_at + timedelta(days=1), only_balance=True
        )
    return volume_id


def _start_instance(spec: DemoInstance) -> AdvisedRun:
    subject = subject_of(ResourceType.INSTANCE, spec.instance_id, INSTANCE_IO.name)
    return AdvisedRun(spec=spec, kind_name="EC2", subject=subject, history=InstanceHistory())


def _start_file_system(spec: DemoFileSystem) -> AdvisedRun:
    subject = subject_of(ResourceType.EFS, spec.file_system_id, EFS_BYTES.name)
    mib_per_operation = get_operation_kib(parse_load(spec.load)) / 1024
    history, unwatched = (
        StorageHistory(bucket=BUCKET, rate_per_operation=mib_per_operation) for _ in range(2)
    )
    return AdvisedRun(spec=spec, kind_name="EFS", subject=subject, history=history, unwatched=unwatched)


def _start_database(spec: DemoDatabase) -> AdvisedRun:
    subject = subject_of(ResourceType.RDS, spec.name, RDS_IO.name)
    return AdvisedRun(spec=spec, kind_name="RDS", subject=subject, history=StorageHistory(bucket=STORAGE))


def _add_file_system(fleet: LabFleet, spec: DemoFileSystem) -> None:
    fleet.file_systems.add(
        LabFileSystem(
            file_system_id=spec.file_system_id,
            size_gib=spec.size_gib,
            balance_pct=spec.balance_pct,
            tags={"Name": spec.name},
            starts_at=STARTS_AT - HISTORY_BEFORE_START,
        )
    )
    fleet.file_systems.set_load(spec.file_system_id, spec.load, STARTS_AT)


def _add_database(fleet: LabFleet, spec: DemoDatabase) -> None:
    fleet.databases.add(
        LabDatabase(
            identifier=spec.identifier,
            allocated_gib=spec.allocated_gib,
            load=spec.load,
            starts_at=STARTS_AT - HISTORY_BEFORE_START,
        )
    )


def _add_instance(fleet: LabFleet, spec: DemoInstance) -> None:
    starts_at = STARTS_AT - HISTORY_BEFORE_START
    fleet.add_instance(
        LabInstance(
            instance_id=spec.instance_id,
            launched_at=starts_at,
            instance_type=spec.instance_type,
            tags={"Name": spec.name},
        )
    )
    volume_id = fleet.add(
        LabVolume(
            size_gib=200,
            volume_type="gp3",
            iops=spec.volume_iops,
            throughput_mib_s=400,
            tags={"Name": f"{spec.name}-data"},
            instance_id=spec.instance_id,
            starts_at=starts_at,
        )
    )
    fleet.set_load(volume_id, spec.load, STARTS_AT)


def _place_holds(demo_run: DemoRun) -> None:
    """Place the holds that operators ordered before the demo."""
    for volume_run in demo_run.volume_runs.values():
        if volume_run.spec.hold is not None:
            by, reason = volume_run.spec.hold
            until_s = demo_run.now_s + int(timedelta(days=1).total_seconds())
            demo_run.watchdog.ledger.place_hold(
                Hold(
                    volume_id=volume_run.volume_id,
                    by=by,
                    reason=reason,
                    placed_at_s=demo_run.now_s,
                    until_s=until_s,
                )
            )


def run(demo_run: DemoRun, *, hours: float, pace_s: float, show: Callable[[DemoRun], None]) -> None:
    """Let time pass, minute by minute; each minute one tick of the real watchdog over real HTTP.

    Args:
        demo_run: the volumes and the watchdog.
        hours: how long, in simulated time.
        pace_s: wall seconds a simulated minute takes at least.
        show: called after every tick.
    """
    for _ in range(round(hours * 60)):
        started_s = time.monotonic()
        demo_run.endpoint.clock.advance(TICK_S)
        for volume_run in demo_run.volume_runs.values():
            volume_run.history.record_minute(demo_run.endpoint.fleet.find(volume_run.history.volume_id))
            volume_run.unwatched.record_minute(demo_run.unwatched_fleet.find(volume_run.unwatched.volume_id))
        _record_advised(demo_run)
        _tick(demo_run)
        _follow_advice(demo_run)
        show(demo_run)
        time.sleep(max(0.0, pace_s - (time.monotonic() - started_s)))


def _record_advised(demo_run: DemoRun) -> None:
    fleet = demo_run.endpoint.fleet
    for advised_run in demo_run.advised_runs:
        spec, history, unwatched = advised_run.spec, advised_run.history, advised_run.unwatched
        match spec, history:
            case DemoInstance(), InstanceHistory():
                history.record_minute(fleet.instance_truth(spec.instance_id))
            case DemoFileSystem(), StorageHistory():
                history.record_minute(fleet.file_systems.find(spec.file_system_id))
                if isinstance(unwatched, StorageHistory):
                    unwatched.record_minute(demo_run.unwatched_fleet.file_systems.find(spec.file_system_id))
            case DemoDatabase(), StorageHistory():
                history.record_minute(fleet.databases.find(spec.identifier))


def _follow_advice(demo_run: DemoRun) -> None:
    """Run the command in the alert about the file system, as the person does who reads it later."""
    run, spec = demo_run.file_system_run, FILE_SYSTEM
    alert = run.first_alert
    if alert is None or run.changed_at_s or demo_run.now_s < alert.at_s + spec.changed_after.total_seconds():
        return
    command = shlex.split(str(alert.body["action"]))
    arguments = dict(zip(command[3::2], command[4::2], strict=True))
    mode, amount = arguments["--throughput-mode"], arguments.get("--provisioned-throughput-in-mibps")
    file_system = demo_run.endpoint.fleet.file_systems.find(arguments["--file-system-id"])
    file_system.update(mode, float(amount) if amount else None)
    run.changed_at_s = demo_run.now_s
    run.changed_to = f"{mode}, {amount} MiB/s" if amount else mode


def _tick(demo_run: DemoRun) -> None:
    demo_run.watchdog.tick()
    demo_run.ticks += 1
    ledger = demo_run.watchdog.ledger
    states = ledger.states()
    for resource_run in demo_run.runs:
        state = states.get(resource_run.subject)
        if state != resource_run.state or state is None:
            resource_run.entries = list(ledger.entries(resource_run.subject))
        resource_run.state = state
    for volume_run in demo_run.volume_runs.values():
        volume = demo_run.endpoint.fleet.find(volume_run.volume_id)
        volume_run.current_type = (
            f"→{volume.change.target.volume_type}" if volume.change else volume.volume_type
        )
