"""The incident, again, on a real disk: a loop of jobs under which the bucket empties, and what a flip does.

Two disks run the same loop at the same time. No watchdog sees the first: its bucket becomes empty, jobs take
many times as long, and ddprobe reports it. After that, its tag is changed so that the watchdog flips it. The
second disk has the tag from the beginning.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from boto3.session import Session

from burstlab.disk.block_device import DiskError, ThrottledDevice
from burstlab.disk.docker import prepare_docker_job
from burstlab.disk.job_loop import Job, JobLoop
from burstlab.disk.podman import prepare_podman_job
from burstlab.disk.simulated_disk import SETTINGS, SimulatedDisk, open_simulated_disk
from burstlab.disk.throttle import TimeScale
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.incident.probe import Prober, Reading
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import Policy
from burstwatch.core.tag_keys import IGNORE, MODE
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_modifier, build_services

UNWATCHED, WATCHED = "alone", "watched"
PHASES: Final = ("before", "in", "after")
JOBS: Final = ("docker", "podman", "built-in")
"""What a job may be, the best first."""
SPEED: Final = 240.0
"""A small bucket is empty after eight seconds of full burst: the whole takes about a minute."""

SIZE_GIB: Final = 33  # the largest size with the least baseline of 100 IOPS.
JOB_INTERVAL_S: Final = 1.0  # at most one job a second, one after another.
_PROBE_INTERVAL_S: Final = 5.0  # real time; twenty minutes of the volume's.
_TICK_S: Final = 60  # the focus tick, in the volume's time
_POLL_INTERVAL_S: Final = 0.1  # a tick is a quarter of a second of real time
_MIN_JOBS_WHILE_EMPTY: Final = 2
"""How many jobs must be slow before the watchdog may act."""
_MIN_JOBS_AFTER: Final = 5  # enough for a median after the flip
_MAX_DURATION_S: Final = 300.0
"""It takes about a minute; a machine that needs five is too busy to show anything."""

_TAGS: Final = {UNWATCHED: {IGNORE: "true"}, WATCHED: {MODE: "auto"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipTimes:
    """A flip; moments are seconds of the monotonic clock, ``reached_at_s`` is None while it is under way."""

    target: str
    requested_at_s: float
    reached_at_s: float | None


@dataclass(slots=True, kw_only=True)
class DiskUnderTest:
    """One of the two disks, its loop and its probe."""

    name: str
    simulated_disk: SimulatedDisk
    job_loop: JobLoop
    prober: Prober
    empty_at_s: float | None = None
    flip: FlipTimes | None = None

    @property
    def jobs(self) -> list[Job]:
        return self.job_loop.jobs

    @property
    def readings(self) -> list[Reading]:
        return [reading for reading in self.prober.readings if reading.cause != "stopped"]

    @property
    def slowest_job_s(self) -> float:
        """What the slowest job took."""
        return max((job.duration_s(0) for job in list(self.jobs)), default=0.0)

    def phase_of(self, started_at_s: float, ended_at_s: float) -> str | None:
        """Whether something that took from one moment to another was before, in or after; None for none."""
        empty_at_s = float("inf") if self.empty_at_s is None else self.empty_at_s
        requested_at_s = self.flip.requested_at_s if self.flip else float("inf")
        reached_at_s = self.flip.reached_at_s if self.flip and self.flip.reached_at_s else float("inf")
        if started_at_s >= reached_at_s:
            return "after"
        if ended_at_s <= min(empty_at_s, requested_at_s):
            return "before"
        return "in" if empty_at_s <= started_at_s and ended_at_s <= requested_at_s else None

    def job_durations_s(self, phase: str) -> list[float]:
        """How long the jobs of a part took."""
        return [
            job.ended_at_s - job.started_at_s
            for job in list(self.jobs)
            if job.ended_at_s is not None and self.phase_of(job.started_at_s, job.ended_at_s) == phase
        ]

    def readings_in(self, phase: str) -> list[Reading]:
        return [
            reading
            for reading in self.readings
            if self.phase_of(reading.started_at_s, reading.ended_at_s) == phase
        ]


class RecordingChannel:
    """The channel alerts come in by."""

    name = "incident"

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alert: Alert) -> None:
        self.alerts.append(alert)


@dataclass(slots=True, kw_only=True)
class IncidentRun:
    """The incident while it runs; moments are seconds of the monotonic clock."""

    endpoint: Endpoint
    services: Services
    time_scale: TimeScale
    disks: Sequence[DiskUnderTest]
    channel: RecordingChannel
    started_at_s: float
    simulated_start_at_s: float
    backend: str
    job_kind: str
    opted_in_at_s: float | None = None
    ticks: int = 0
    ended_at_s: float | None = None

    @property
    def unwatched(self) -> DiskUnderTest:
        return self.disks[0]

    @property
    def watched(self) -> DiskUnderTest:
        return self.disks[1]

    @property
    def elapsed_s(self) -> float:
        return (self.ended_at_s or time.monotonic()) - self.started_at_s

    def to_real_s(self, simulated_at_s: float) -> float:
        """The moment of the wall that belongs to one of the volumes' time."""
        return self.started_at_s + (simulated_at_s - self.simulated_start_at_s) / self.time_scale.speed


@contextmanager
def open_incident(
    *, backend: str, speed: float, balance_pct: float, jobs: str, directory: Path | None
) -> Iterator[IncidentRun]:
    """Build both disks, the endpoint their volumes are seen at, and the watchdog in front of it."""
    time_scale, channel = TimeScale.of(speed=speed), RecordingChannel()
    time_scale.check(baseline_iops(SIZE_GIB))
    with ExitStack() as stack:
        devices = [stack.enter_context(ThrottledDevice(backend=backend, parent=directory)) for _ in _TAGS]
        job_kind, commands = choose_job_commands(devices, jobs)
        fleet = LabFleet(LabClock(speed=speed), SETTINGS)
        started_at_s, simulated_start_at_s = time.monotonic(), fleet.clock.now_s()
        disks = []
        for (name, tags), device, command in zip(_TAGS.items(), devices, commands, strict=True):
            simulated_disk = stack.enter_context(
                open_simulated_disk(
                    fleet,
                    device,
                    time_scale,
                    size_gib=SIZE_GIB,
                    balance_pct=balance_pct,
                    tags=tags | {"Name": f"ci-{name}"},
                )
            )
            job_loop = stack.enter_context(
                JobLoop(device, pace_s=JOB_INTERVAL_S, name=f"ci-{name}", command=command)
            )
            prober = Prober(device, simulated_disk.volume_id, interval_s=_PROBE_INTERVAL_S)
            stack.callback(prober.stop)
            prober.start()
            disks.append(
                DiskUnderTest(name=name, simulated_disk=simulated_disk, job_loop=job_loop, prober=prober)
            )
        endpoint = stack.enter_context(Endpoint(fleet))
        ledger = stack.enter_context(SqliteLedger.in_memory())
        yield IncidentRun(
            endpoint=endpoint,
            services=_build_services(endpoint, ledger, channel),
            time_scale=time_scale,
            disks=disks,
            channel=channel,
            started_at_s=started_at_s,
            simulated_start_at_s=simulated_start_at_s,
            backend=devices[0].backend,
            job_kind=job_kind,
        )


def choose_job_commands(
    devices: Sequence[ThrottledDevice], jobs: str
) -> tuple[str, Sequence[tuple[str, ...]]]:
    """What the jobs are, the same on every device, and the commands that run one; empty for the built-in.

    Raises:
    DiskError: the requested kind of job does not run here.
    """
    for kind in JOBS if jobs == "auto" else (jobs,):
        try:
            return kind, [_job_command(device, kind, is_explicit=kind == jobs) for device in devices]
        except DiskError:
            if kind == jobs:
                raise
    raise AssertionError("the built-in jobs run everywhere")


def _job_command(device: ThrottledDevice, kind: str, *, is_explicit: bool) -> tuple[str, ...]:
    if kind == "docker":
        return prepare_docker_job(device)
    return prepare_podman_job(device, in_own_cgroup=is_explicit) if kind == "podman" else ()


def _build_services(endpoint: Endpoint, ledger: SqliteLedger, channel: RecordingChannel) -> Services:
    settings = endpoint.fleet.settings
    session = Session(
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=settings.region
    )
    services = build_services(
        session,
        endpoint_url=endpoint.url,
        policy=Policy(),
        ledger=ledger,
        channels=[channel],
        account=settings.account_id,
    )
    return replace(services, modifier=build_modifier(session, services.calls, endpoint_url=endpoint.url))


def run(incident_run: IncidentRun, show: Callable[[IncidentRun], None]) -> None:
    """Run until the bucket is empty, jobs are slow, the watchdog flips the volume, and jobs are fast.

    Raises:
    DiskError: something failed, or it did not end in time.
    """
    last_tick_s = 0
    while not _is_over(incident_run):
        if incident_run.elapsed_s > _MAX_DURATION_S:
            raise DiskError(
                f"not over after {_MAX_DURATION_S:g} s: {_describe_pending(incident_run)}; is this machine"
                " busy?"
            )
        now_s = incident_run.endpoint.fleet.now_s()
        if now_s // _TICK_S > last_tick_s:
            last_tick_s = now_s // _TICK_S
            _tick(incident_run, last_tick_s * _TICK_S, now_s)
        for disk in incident_run.disks:
            disk.simulated_disk.controller.check()
            disk.job_loop.check()
            disk.prober.check()
            _record_progress(incident_run, disk)
        if incident_run.opted_in_at_s is None and _has_enough_evidence(incident_run.unwatched):
            _opt_in(incident_run)
        show(incident_run)
        time.sleep(_POLL_INTERVAL_S)
    incident_run.ended_at_s = time.monotonic()


def _tick(incident_run: IncidentRun, tick_s: int, now_s: int) -> None:
    """One pass of the watchdog, as burstctl and the deployed functions make it."""
    report = run_tick(incident_run.services, tick_at_s=tick_s, now_s=now_s)
    if report is None or report.failures:
        raise DiskError(f"the watchdog failed: {report.failures if report else 'no tick'}")
    incident_run.ticks += 1


def _record_progress(incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    """Record when the bucket became empty, and the flip."""
    fleet, volume_id = incident_run.endpoint.fleet, disk.simulated_disk.volume_id
    truth = fleet.truth(volume_id)
    if disk.empty_at_s is None and truth.first_dry_at is not None:
        disk.empty_at_s = incident_run.to_real_s(truth.first_dry_at.timestamp())
    if disk.flip is None or disk.flip.reached_at_s is None:
        for modification in fleet.modifications(volume_id):
            ended_at_s = modification.ended_at.timestamp() if modification.ended_at else None
            disk.flip = FlipTimes(
                target=f"{modification.target.volume_type}, {modification.target.iops:,} IOPS",
                requested_at_s=incident_run.to_real_s(modification.started_at.timestamp()),
                reached_at_s=None if ended_at_s is None else incident_run.to_real_s(ended_at_s),
            )


def _has_enough_evidence(disk: DiskUnderTest) -> bool:
    """Whether enough was seen; where ddprobe never finds it critical, a warning will do in the end."""
    jobs, verdicts = len(disk.job_durations_s("in")), {reading.verdict for reading in disk.readings_in("in")}
    return (jobs >= _MIN_JOBS_WHILE_EMPTY and "crit" in verdicts) or (
        jobs >= 2 * _MIN_JOBS_WHILE_EMPTY and bool(verdicts - {"ok"})
    )


def _opt_in(incident_run: IncidentRun) -> None:
    """Somebody tags the volume: that is all the watchdog needs."""
    incident_run.endpoint.fleet.set_tags(
        incident_run.unwatched.simulated_disk.volume_id, {IGNORE: None, MODE: "auto"}
    )
    incident_run.opted_in_at_s = time.monotonic()


def _is_over(incident_run: IncidentRun) -> bool:
    return not _describe_pending(incident_run)


def _describe_pending(incident_run: IncidentRun) -> str:
    """What has still to happen, in words; empty when all has."""
    unwatched = incident_run.unwatched
    if unwatched.empty_at_s is None:
        return "the bucket is not empty"
    if incident_run.opted_in_at_s is None:
        jobs, verdicts = (
            len(unwatched.job_durations_s("in")),
            [reading.verdict for reading in unwatched.readings_in("in")],
        )
        return (
            f"the watchdog is not let in ({jobs} jobs suffered, ddprobe said"
            f" {', '.join(verdicts) or 'nothing'})"
        )
    for disk in incident_run.disks:
        if disk.flip is None or disk.flip.reached_at_s is None:
            return f"{disk.name} is not flipped"
        if len(disk.job_durations_s("after")) < _MIN_JOBS_AFTER or not disk.readings_in("after"):
            return f"{disk.name} has not recovered"
    return ""


def build_summary(incident_run: IncidentRun) -> dict[str, Any]:
    """What was measured, for programs; seconds of the wall from the beginning, keys never disappear."""
    return {
        "schema": "burstlab.incident.run/v1",
        "backend": incident_run.backend,
        "jobs": incident_run.job_kind,
        "speed": incident_run.time_scale.speed,
        "seconds": incident_run.elapsed_s,
        "let_in_s": _seconds_since_start(incident_run, incident_run.opted_in_at_s),
        "ticks": incident_run.ticks,
        "twins": {disk.name: _disk_summary(incident_run, disk) for disk in incident_run.disks},
    }


def _disk_summary(incident_run: IncidentRun, disk: DiskUnderTest) -> dict[str, Any]:
    return {
        "volume_id": disk.simulated_disk.volume_id,
        "dry_s": _seconds_since_start(incident_run, disk.empty_at_s),
        "flip": {
            "target": disk.flip.target if disk.flip else None,
            "asked_s": _seconds_since_start(incident_run, disk.flip.requested_at_s if disk.flip else None),
            "reached_s": _seconds_since_start(incident_run, disk.flip.reached_at_s if disk.flip else None),
        },
        "job_s": {phase: _jobs_summary(disk.job_durations_s(phase)) for phase in PHASES},
        "probe": {phase: _probe_summary(disk.readings_in(phase)) for phase in PHASES},
    }


def _jobs_summary(durations_s: Sequence[float]) -> dict[str, Any]:
    return {"median": median_or_none(durations_s), "most": max_or_none(durations_s), "jobs": len(durations_s)}


def _probe_summary(readings: Sequence[Reading]) -> dict[str, Any]:
    worst = max(readings, key=lambda reading: reading.blocked_tasks, default=None)
    tasks = worst.tasks if worst else ()
    return {
        "median_s": median_or_none([reading.total_s for reading in readings]),
        "most_s": max_or_none([reading.total_s for reading in readings]),
        "runs": len(readings),
        "verdicts": sorted({reading.verdict for reading in readings}),
        "causes": sorted({reading.cause for reading in readings}),
        "blocked_tasks": worst.blocked_tasks if worst else 0,
        "tasks": [{"comm": comm, "wchan": wchan, "count": count} for comm, wchan, count in tasks],
    }


def median_or_none(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return median(values) if values else None


def max_or_none(values: Sequence[float]) -> float | None:
    """The maximum, None of nothing."""
    return max(values, default=None)


def _seconds_since_start(incident_run: IncidentRun, at_s: float | None) -> float | None:
    return None if at_s is None else at_s - incident_run.started_at_s
