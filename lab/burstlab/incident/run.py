"""The incident, again, on a real disk: a loop of jobs under which the bucket empties, and what a flip does.

Two disks run the same loop at the same time. Nobody watches the first: its bucket empties, jobs take many
times as long, ddprobe says so. When that has been seen, somebody tags it for the watchdog, which flips it.
The second had the tag from the beginning.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from boto3.session import Session

from burstlab.disk.block_device import Device, DiskError
from burstlab.disk.docker import docker_job
from burstlab.disk.job_loop import Job, JobLoop
from burstlab.disk.podman import podman_job
from burstlab.disk.simulated_disk import SETTINGS, Box, open_box
from burstlab.disk.throttle import Lapse
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.incident.probe import Prober, Reading
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import Policy
from burstwatch.core.tag_keys import IGNORE, MODE
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick
from burstwatch.wiring.bootstrap import build_modifier, build_shell

ALONE, WATCHED = "alone", "watched"
PARTS: Final = ("before", "in", "after")
JOBS: Final = ("docker", "podman", "built-in")
"""What a job may be, the best first."""
SPEED: Final = 240.0
SIZE_GIB: Final = 33
PACE_S: Final = 1.0
_PROBE_EVERY_S: Final = 5.0
_TICK_S: Final = 60
_STEP_S: Final = 0.1
_JOBS_IN: Final = 2
"""So many jobs are to suffer before somebody lets the watchdog at it."""
_JOBS_AFTER: Final = 5
_LONGEST_S: Final = 300.0
_TAGS: Final = {ALONE: {IGNORE: "true"}, WATCHED: {MODE: "auto"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flipped:
    """A flip; moments are seconds of the monotonic clock, ``reached_s`` is None while it is under way."""

    target: str
    asked_s: float
    reached_s: float | None


@dataclass(slots=True, kw_only=True)
class Twin:
    """One of the two disks, its loop and its probe."""

    name: str
    box: Box
    loop: JobLoop
    prober: Prober
    dry_s: float | None = None
    flip: Flipped | None = None

    @property
    def jobs(self) -> list[Job]:
        return self.loop.jobs

    @property
    def readings(self) -> list[Reading]:
        return [reading for reading in self.prober.readings if reading.cause != "stopped"]

    @property
    def slowest_s(self) -> float:
        """What the slowest job took."""
        return max((job.took_s(0) for job in list(self.jobs)), default=0.0)

    def part_of(self, started_s: float, ended_s: float) -> str | None:
        """Whether something that took from one moment to another was before, in or after; None for none."""
        dry_s = float("inf") if self.dry_s is None else self.dry_s
        asked_s = self.flip.asked_s if self.flip else float("inf")
        reached_s = self.flip.reached_s if self.flip and self.flip.reached_s else float("inf")
        if started_s >= reached_s:
            return "after"
        if ended_s <= min(dry_s, asked_s):
            return "before"
        return "in" if dry_s <= started_s and ended_s <= asked_s else None

    def jobs_of(self, part: str) -> list[float]:
        """How long the jobs of a part took."""
        return [
            job.ended_s - job.started_s
            for job in list(self.jobs)
            if job.ended_s is not None and self.part_of(job.started_s, job.ended_s) == part
        ]

    def readings_of(self, part: str) -> list[Reading]:
        return [each for each in self.readings if self.part_of(each.started_s, each.ended_s) == part]


class Ear:
    """The channel alerts come in by."""

    name = "incident"

    def __init__(self) -> None:
        self.heard: list[Alert] = []

    def send(self, alert: Alert) -> None:
        self.heard.append(alert)


@dataclass(slots=True, kw_only=True)
class Stage:
    """The incident while it runs; moments are seconds of the monotonic clock."""

    endpoint: Endpoint
    shell: Shell
    lapse: Lapse
    twins: Sequence[Twin]
    ear: Ear
    began_s: float
    began_lab_s: float
    backend: str
    jobs: str
    let_in_s: float | None = None
    ticks: int = 0
    ended_s: float | None = None

    @property
    def alone(self) -> Twin:
        return self.twins[0]

    @property
    def watched(self) -> Twin:
        return self.twins[1]

    @property
    def passed_s(self) -> float:
        return (self.ended_s or time.monotonic()) - self.began_s

    def real_s(self, lab_s: float) -> float:
        """The moment of the wall that belongs to one of the volumes' time."""
        return self.began_s + (lab_s - self.began_lab_s) / self.lapse.speed


@contextmanager
def open_stage(
    *, backend: str, speed: float, balance_pct: float, jobs: str, folder: Path | None
) -> Iterator[Stage]:
    """Build both disks, the endpoint their volumes are seen at, and the watchdog in front of it."""
    lapse, ear = Lapse.of(speed=speed), Ear()
    lapse.check(baseline_iops(SIZE_GIB))
    with ExitStack() as stack:
        devices = [stack.enter_context(Device(backend=backend, parent=folder)) for _ in _TAGS]
        kind, commands = choose_jobs(devices, jobs)
        fleet = LabFleet(LabClock(speed=speed), SETTINGS)
        began_s, began_lab_s = time.monotonic(), fleet.clock.now_s()
        twins = []
        for (name, tags), device, command in zip(_TAGS.items(), devices, commands, strict=True):
            box = stack.enter_context(
                open_box(
                    fleet,
                    device,
                    lapse,
                    size_gib=SIZE_GIB,
                    balance_pct=balance_pct,
                    tags=tags | {"Name": f"ci-{name}"},
                )
            )
            loop = stack.enter_context(JobLoop(device, pace_s=PACE_S, name=f"ci-{name}", command=command))
            prober = Prober(device, box.volume_id, every_s=_PROBE_EVERY_S)
            stack.callback(prober.stop)
            prober.start()
            twins.append(Twin(name=name, box=box, loop=loop, prober=prober))
        endpoint = stack.enter_context(Endpoint(fleet))
        ledger = stack.enter_context(SqliteLedger.in_memory())
        yield Stage(
            endpoint=endpoint,
            shell=_build_shell(endpoint, ledger, ear),
            lapse=lapse,
            twins=twins,
            ear=ear,
            began_s=began_s,
            began_lab_s=began_lab_s,
            backend=devices[0].backend,
            jobs=kind,
        )


def choose_jobs(devices: Sequence[Device], jobs: str) -> tuple[str, Sequence[tuple[str, ...]]]:
    """What the jobs are, the same on every device, and the commands that run one; empty for the built-in.

    Raises:
        DiskError: what was asked for does not run here.
    """
    for kind in JOBS if jobs == "auto" else (jobs,):
        try:
            return kind, [_job_on(device, kind, is_asked_for=kind == jobs) for device in devices]
        except DiskError:
            if kind == jobs:
                raise
    raise AssertionError("the built-in jobs run everywhere")


def _job_on(device: Device, kind: str, *, is_asked_for: bool) -> tuple[str, ...]:
    if kind == "docker":
        return docker_job(device)
    return podman_job(device, in_own_cgroup=is_asked_for) if kind == "podman" else ()


def _build_shell(endpoint: Endpoint, ledger: SqliteLedger, ear: Ear) -> Shell:
    settings = endpoint.fleet.settings
    session = Session(
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=settings.region
    )
    shell = build_shell(
        session,
        endpoint_url=endpoint.url,
        policy=Policy(),
        ledger=ledger,
        channels=[ear],
        account=settings.account_id,
    )
    return replace(shell, modifier=build_modifier(session, shell.calls, endpoint_url=endpoint.url))


def play(stage: Stage, show: Callable[[Stage], None]) -> None:
    """Let it happen: the bucket empties, people suffer, the watchdog is let in, the loop recovers.

    Raises:
        DiskError: something broke, or it did not come to an end.
    """
    last_tick_s = 0
    while not _is_over(stage):
        if stage.passed_s > _LONGEST_S:
            raise DiskError(f"not over after {_LONGEST_S:g} s: {_lacking(stage)}; is this machine busy?")
        now_s = stage.endpoint.fleet.now_s()
        if now_s // _TICK_S > last_tick_s:
            last_tick_s = now_s // _TICK_S
            _tick(stage, last_tick_s * _TICK_S, now_s)
        for twin in stage.twins:
            twin.box.governor.check()
            twin.loop.check()
            twin.prober.check()
            _follow(stage, twin)
        if stage.let_in_s is None and _has_suffered(stage.alone):
            _let_in(stage)
        show(stage)
        time.sleep(_STEP_S)
    stage.ended_s = time.monotonic()


def _tick(stage: Stage, tick_s: int, now_s: int) -> None:
    """One pass of the watchdog, as burstctl and the deployed functions make it."""
    report = run_tick(stage.shell, tick_s=tick_s, now_s=now_s)
    if report is None or report.failures:
        raise DiskError(f"the watchdog failed: {report.failures if report else 'no tick'}")
    stage.ticks += 1


def _follow(stage: Stage, twin: Twin) -> None:
    """Notice when it ran dry, and its flip."""
    fleet, volume_id = stage.endpoint.fleet, twin.box.volume_id
    truth = fleet.truth(volume_id)
    if twin.dry_s is None and truth.first_dry_at is not None:
        twin.dry_s = stage.real_s(truth.first_dry_at.timestamp())
    if twin.flip is None or twin.flip.reached_s is None:
        for made in fleet.modifications(volume_id):
            ended_s = made.ended_at.timestamp() if made.ended_at else None
            twin.flip = Flipped(
                target=f"{made.target.volume_type}, {made.target.iops:,} IOPS",
                asked_s=stage.real_s(made.started_at.timestamp()),
                reached_s=None if ended_s is None else stage.real_s(ended_s),
            )


def _has_suffered(twin: Twin) -> bool:
    """Whether enough was seen; where ddprobe never finds it critical, a warning will do in the end."""
    jobs, verdicts = len(twin.jobs_of("in")), {reading.verdict for reading in twin.readings_of("in")}
    return (jobs >= _JOBS_IN and "crit" in verdicts) or (jobs >= 2 * _JOBS_IN and bool(verdicts - {"ok"}))


def _let_in(stage: Stage) -> None:
    """Somebody tags the volume: that is all the watchdog needs."""
    stage.endpoint.fleet.set_tags(stage.alone.box.volume_id, {IGNORE: None, MODE: "auto"})
    stage.let_in_s = time.monotonic()


def _is_over(stage: Stage) -> bool:
    return not _lacking(stage)


def _lacking(stage: Stage) -> str:
    """What has still to happen, in words; empty when all has."""
    alone = stage.alone
    if alone.dry_s is None:
        return "the bucket is not empty"
    if stage.let_in_s is None:
        jobs, crit = len(alone.jobs_of("in")), [each.verdict for each in alone.readings_of("in")]
        return (
            f"the watchdog is not let in ({jobs} jobs suffered, ddprobe said {', '.join(crit) or 'nothing'})"
        )
    for twin in stage.twins:
        if twin.flip is None or twin.flip.reached_s is None:
            return f"{twin.name} is not flipped"
        if len(twin.jobs_of("after")) < _JOBS_AFTER or not twin.readings_of("after"):
            return f"{twin.name} has not recovered"
    return ""


def summary(stage: Stage) -> dict[str, Any]:
    """What was measured, for programs; seconds of the wall from the beginning, keys never disappear."""
    return {
        "schema": "burstlab.incident.run/v1",
        "backend": stage.backend,
        "jobs": stage.jobs,
        "speed": stage.lapse.speed,
        "seconds": stage.passed_s,
        "let_in_s": _since(stage, stage.let_in_s),
        "ticks": stage.ticks,
        "twins": {twin.name: _twin_summary(stage, twin) for twin in stage.twins},
    }


def _twin_summary(stage: Stage, twin: Twin) -> dict[str, Any]:
    return {
        "volume_id": twin.box.volume_id,
        "dry_s": _since(stage, twin.dry_s),
        "flip": {
            "target": twin.flip.target if twin.flip else None,
            "asked_s": _since(stage, twin.flip.asked_s if twin.flip else None),
            "reached_s": _since(stage, twin.flip.reached_s if twin.flip else None),
        },
        "job_s": {part: _jobs_summary(twin.jobs_of(part)) for part in PARTS},
        "probe": {part: _probe_summary(twin.readings_of(part)) for part in PARTS},
    }


def _jobs_summary(took_s: Sequence[float]) -> dict[str, Any]:
    return {"median": middle(took_s), "most": most(took_s), "jobs": len(took_s)}


def _probe_summary(readings: Sequence[Reading]) -> dict[str, Any]:
    worst = max(readings, key=lambda each: each.blocked, default=None)
    tasks = worst.tasks if worst else ()
    return {
        "median_s": middle([each.total_s for each in readings]),
        "most_s": most([each.total_s for each in readings]),
        "runs": len(readings),
        "verdicts": sorted({each.verdict for each in readings}),
        "causes": sorted({each.cause for each in readings}),
        "blocked_tasks": worst.blocked if worst else 0,
        "tasks": [{"comm": comm, "wchan": wchan, "count": count} for comm, wchan, count in tasks],
    }


def middle(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return median(values) if values else None


def most(values: Sequence[float]) -> float | None:
    """The maximum, None of nothing."""
    return max(values, default=None)


def _since(stage: Stage, at_s: float | None) -> float | None:
    return None if at_s is None else at_s - stage.began_s
