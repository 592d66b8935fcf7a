"""Cloud Custodian and burstwatch on the same fake AWS: calls, time, memory, dollars, and what they change.

    .venv/bin/python lab/bench/compare.py [--volumes 300] [--hours 3] [--cases-only | --fleet-only]

Cloud Custodian is installed from ``lab/compare.txt`` into ``build/compare``, an environment of its own; this
needs the package index that pip is configured for. Both run in processes of their own, which are started
once, and only their passes are measured. The lab answers each call after 30 ms, and its clock jumps from
pass to pass. Custodian has a pass every five minutes, burstwatch a tick every minute.

*Fleet*: calm volumes of 8 to 900 GiB, and groups of volumes whose load is known. All but one group may be
modified. A volume is *missed* if it is empty before it is changed, or never changed. One that is changed
in time can be throttled until EC2 has modified it. A volume is *wrongly changed* if it may not be modified,
or would not have been empty without a change. The first pass reads everything and is not counted.

*Cases*: each in a lab of its own, with three opted-in volumes that drain beside it and are listed after it.
Ten minutes of passes show what happens to the volume in question, and to the three.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.modification import Modification
from burstlab.model.volume import LabVolume
from burstwatch.core.watch.api_cost import MONTH_S, USD_PER_METRIC

ROOT: Final = Path(__file__).parents[2]
WORKERS: Final = Path(__file__).parent / "comparison"
START: Final = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
PAST: Final = timedelta(hours=2)
LATENCY_MS: Final = 30
MINUTE_S: Final = 60
PASS_DELAY_S: Final = 2
SIZES_GIB: Final = (8, 30, 100, 334, 500, 900)
OPTED_IN: Final = {"burstwatch:mode": "auto"}

CUSTODIAN_POLICY: Final = """
policies:
  - name: burst-balance
    resource: aws.ebs
    filters:
      - VolumeType: gp2
      - "tag:burstwatch:mode": auto
      - type: metrics
        name: BurstBalance
        statistics: {statistics}
        days: {days}
        value: {below_pct}
        op: less-than
      - modifyable
    actions:
      - type: modify
        volume-type: gp3
  - name: critical-on-burst
    resource: aws.ebs
    filters:
      - VolumeType: gp2
      - "tag:burstwatch:mode": auto
      - "tag:burstwatch:critical": "true"
      - modifyable
    actions:
      - type: modify
        volume-type: gp3
"""
BURSTWATCH_POLICY: Final = """
version: 1
flip: {target: gp3, fleet_cap: 100}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A watchdog: how its worker is started, its policy, and the minutes between its passes."""

    name: str
    python: Path
    worker: str
    policy: str
    interval_min: int


@dataclass(slots=True)
class Tally:
    """What the passes of a run took, and what they said."""

    passes: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    failed_passes: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, result: Mapping[str, Any]) -> None:
        self.passes += 1
        self.wall_s += result["wall_s"]
        self.cpu_s += result["cpu_s"]
        self.peak_mib = max(self.peak_mib, result["peak_mib"])
        self.failed_passes += result["has_failed"]
        self.messages.extend(result["messages"])


def install_custodian() -> Path:
    """The Python that has Cloud Custodian; it is installed if that was not done."""
    environment = ROOT / "build" / "compare"
    python, stamp = environment / "bin" / "python", environment / ".installed"
    requirements = ROOT / "lab" / "compare.txt"
    if not stamp.exists() or stamp.stat().st_mtime < requirements.stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", requirements], check=True)
        stamp.touch()
    return python


def make_contenders(custodian_python: Path) -> list[Contender]:
    """Custodian with the rule that people write, and with one that is set for speed; burstwatch."""
    mean_of_an_hour = {"statistics": "Average", "days": 1 / 24, "below_pct": 20}
    early = {"statistics": "Minimum", "days": 10 / 1_440, "below_pct": 50}
    custodian = [
        Contender(
            name=f"c7n, {rule}",
            python=custodian_python,
            worker="custodian_worker.py",
            policy=CUSTODIAN_POLICY.format_map(settings),
            interval_min=5,
        )
        for rule, settings in (("hour below 20 %", mean_of_an_hour), ("10 min below 50 %", early))
    ]
    burstwatch = Contender(
        name="burstwatch",
        python=Path(sys.executable),
        worker="burstwatch_worker.py",
        policy=BURSTWATCH_POLICY,
        interval_min=1,
    )
    return [*custodian, burstwatch]


@contextmanager
def start_worker(contender: Contender, aws: Endpoint) -> Iterator[Callable[[float], dict[str, Any]]]:
    """A function that has a pass made at a time."""
    with TemporaryDirectory() as directory:
        policy_file = Path(directory) / "policy.yaml"
        policy_file.write_text(contender.policy)
        # a home of its own, so that no configuration of the user is read
        environment = {"PATH": os.environ["PATH"], "HOME": directory, **aws.environment}
        log = Path(directory) / "log"
        with (
            log.open("w") as stderr,
            subprocess.Popen(
                [contender.python, WORKERS / contender.worker, policy_file, directory],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None

            def run_pass(now_s: float) -> dict[str, Any]:
                print(now_s, file=process.stdin, flush=True)
                line = process.stdout.readline()
                if not line:
                    raise SystemExit(f"{contender.name} ended:\n{log.read_text()}")
                result: dict[str, Any] = json.loads(line)
                return result

            yield run_pass
            process.stdin.close()


def advance_to(fleet: LabFleet, minute: int) -> float:
    """Move the lab's clock to just after this minute since the start."""
    at_s = START.timestamp() + minute * MINUTE_S + PASS_DELAY_S
    fleet.clock.advance(at_s - fleet.clock.now_s())
    return at_s


# ------------------------------------------------------------------------------------------------------ fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Three volumes with the same load: ``load`` from ``from_min`` to ``to_min``, and 20 IOPS otherwise."""

    name: str
    size_gib: int
    load: str
    from_min: int
    to_min: int = 10_000
    tags: Mapping[str, str] = field(default_factory=lambda: OPTED_IN)


GROUP_SIZE: Final = 3
GROUPS: Final = (
    Group(name="full burst, 8 GiB", size_gib=8, load="steady:3000", from_min=31),
    Group(name="full burst, 100 GiB", size_gib=100, load="steady:3000", from_min=47),
    Group(name="full burst, 334 GiB", size_gib=334, load="steady:3000", from_min=63),
    Group(name="a drain of two hours", size_gib=100, load="steady:1050", from_min=20),
    Group(name="a burst that ends at 40 %", size_gib=100, load="steady:3000", from_min=72, to_min=92),
    Group(name="not opted in", size_gib=100, load="steady:3000", from_min=54, tags={}),
)


def build_fleet(volumes: int) -> tuple[LabFleet, dict[str, Group]]:
    """The fleet, and the volumes that have a group."""
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60, lag_most_s=120))
    for number in range(volumes - GROUP_SIZE * len(GROUPS)):
        fleet.add(
            LabVolume(
                size_gib=SIZES_GIB[number % len(SIZES_GIB)],
                load="steady:20",
                tags=OPTED_IN,
                starts_at=START - PAST,
            )
        )
    grouped = {}
    for group in GROUPS:
        for _ in range(GROUP_SIZE):
            volume_id = fleet.add(
                LabVolume(size_gib=group.size_gib, load="steady:20", tags=group.tags, starts_at=START - PAST)
            )
            fleet.set_load(volume_id, group.load, START + timedelta(minutes=group.from_min))
            fleet.set_load(volume_id, "steady:20", START + timedelta(minutes=group.to_min))
            grouped[volume_id] = group
    return fleet, grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetResult:
    """What a run over the fleet took and did; ``calls`` and ``metrics`` without the first pass."""

    tally: Tally
    calls: Counter[str]
    metrics: int
    stalled_s: dict[str, float]
    changed: set[str]
    late: set[str]


def watch_fleet(contender: Contender | None, volumes: int, hours: float) -> FleetResult:
    """Run the passes of these hours; None only lets the time pass."""
    fleet, grouped = build_fleet(volumes)
    tally, calls, first_metrics = Tally(), Counter[str](), 0
    minutes = int(hours * 60)
    with Endpoint(fleet) as aws:
        aws.faults.set_latency(LATENCY_MS)
        if contender is None:
            advance_to(fleet, minutes)
        else:
            with start_worker(contender, aws) as run_pass:
                for minute in range(0, minutes + 1, contender.interval_min):
                    result = run_pass(advance_to(fleet, minute))
                    if minute:
                        tally.add(result)
                    else:
                        aws.faults.reset_calls()
                        first_metrics = aws.metrics_requested
        calls.update(aws.faults.call_counts())
        metrics = aws.metrics_requested - first_metrics
    truths = {volume_id: fleet.truth(volume_id) for volume_id in grouped}
    return FleetResult(
        tally=tally,
        calls=calls,
        metrics=metrics,
        stalled_s={volume_id: truth.stalled_s for volume_id, truth in truths.items()},
        changed={volume.volume_id for volume in fleet if fleet.modifications(volume.volume_id)},
        late={
            volume_id
            for volume_id, truth in truths.items()
            if is_late(truth.first_dry_at, fleet.modifications(volume_id))
        },
    )


def is_late(empty_at: datetime | None, modifications: Sequence[Modification]) -> bool:
    """Whether a volume was empty before it was changed."""
    return empty_at is not None and not (modifications and modifications[0].started_at < empty_at)


def compare_fleet(contenders: Sequence[Contender], volumes: int, hours: float) -> None:
    """Print the calls and what was missed or wrongly changed."""
    _, grouped = build_fleet(volumes)
    unwatched = watch_fleet(None, volumes, hours)
    would_stall = {volume_id for volume_id, stalled_s in unwatched.stalled_s.items() if stalled_s}
    may_change = {volume_id for volume_id, group in grouped.items() if group.tags}
    results = {contender.name: watch_fleet(contender, volumes, hours) for contender in contenders}
    actions = sorted(set[str]().union(*(result.calls for result in results.values())))
    scale = MONTH_S / (hours * 3_600)
    rows: dict[str, list[str]] = {}
    for result in results.values():
        stalled = [result.stalled_s[key] for key in may_change]
        missed = len(result.late & may_change)
        wrong = {key for key in result.changed if key not in would_stall or key not in may_change}
        figures = {
            "missed: changed when already empty, or never": f"{missed} of {len(would_stall & may_change)}",
            "changed in time, but throttled until EC2 was done": f"{sum(map(bool, stalled)) - missed}",
            "throttled, all together": f"{sum(stalled) / 60:.0f} min",
            "wrongly changed": f"{len(wrong)}",
            "calls, by action": "",
            **{f"- {action}": f"{result.calls[action]:,}" for action in actions},
            "processor time": f"{result.tally.cpu_s:.1f} s",
            "wall time": f"{result.tally.wall_s:.1f} s",
            "wall time of a pass, mean": f"{result.tally.wall_s / result.tally.passes:.2f} s",
            "peak memory": f"{result.tally.peak_mib:.0f} MiB",
            "$ of CloudWatch a month": f"{result.metrics * USD_PER_METRIC * scale:.2f}",
        }
        for title, figure in figures.items():
            rows.setdefault(title, []).append(figure)
    _print_table([f"{volumes} volumes, {hours:g} h", *results], rows)
    _print_table(
        ["throttled minutes, mean", "nothing", *results],
        {
            group.name: [
                f"{_mean_stall_min(result, grouped, group):.0f}" for result in (unwatched, *results.values())
            ]
            for group in GROUPS
        },
    )


def _mean_stall_min(result: FleetResult, grouped: Mapping[str, Group], group: Group) -> float:
    stalls_s = [result.stalled_s[volume_id] for volume_id, own in grouped.items() if own is group]
    return sum(stalls_s) / len(stalls_s) / 60


def _print_table(titles: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    print(f"| {' | '.join(titles)} |\n| --- |{' ---: |' * (len(titles) - 1)}")
    for title, figures in rows.items():
        print(f"| {title} | {' | '.join(figures)} |")
    print(flush=True)


# ------------------------------------------------------------------------------------------------------ cases

CASE_MIN: Final = 10
DRAIN_MIN: Final = 10
NEIGHBOURS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A volume that is not like the others.

    ``prepare`` changes the lab before the first pass. ``end_first_pass`` ends what lasts for one pass.
    ``should_change`` says whether a flip is right.
    """

    name: str
    volume: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[LabFleet, str], None] = lambda _fleet, _volume_id: None
    faults: Sequence[Fault] = ()
    should_change: bool = True


def detach(fleet: LabFleet, volume_id: str) -> None:
    fleet.detach(volume_id)


def hide_balance(fleet: LabFleet, volume_id: str) -> None:
    fleet.hide_metrics(
        volume_id, from_at=START - timedelta(minutes=35), to_at=START + timedelta(hours=1), only_balance=True
    )


def begin_modification(fleet: LabFleet, volume_id: str) -> None:
    fleet.modify(volume_id, size_gib=fleet.find(volume_id).size_gib + 1)


def use_up_quota(fleet: LabFleet, volume_id: str) -> None:
    """Four modifications in the last minutes, by somebody else."""
    for _ in range(4):
        fleet.modify(volume_id, size_gib=fleet.find(volume_id).size_gib + 1)
        fleet.end_modification(volume_id)


CASES: Final = (
    Case(name="nothing unusual"),
    Case(name="detached a moment ago", prepare=detach, should_change=False),
    Case(name="no datapoint of its balance for 35 min", prepare=hide_balance, should_change=False),
    Case(name="all datapoints 11 min late", settings={"lag_s": 660.0}),
    Case(name="being modified", prepare=begin_modification, should_change=False),
    Case(name="its four modifications of the day are used up", prepare=use_up_quota, should_change=False),
    Case(name="its zone has no gp3", volume={"lacks_gp3": True}, should_change=False),
    Case(name="attached by a service, no instance ID", volume={"service_owner": "ecs"}, should_change=False),
    Case(
        name="io2, attached to two instances",
        volume={
            "volume_type": "io2",
            "iops": 3_000,
            "multi_attached": True,
            "instance_ids": ("i-0a", "i-0b"),
        },
        should_change=False,
    ),
    Case(
        name="full and tagged critical",
        volume={"load": "steady:20", "tags": {**OPTED_IN, "burstwatch:critical": "true"}},
    ),
    Case(
        name="reads of CloudWatch throttled in the first pass",
        faults=[Fault(service="monitoring", kind="throttle")],
    ),
    Case(
        name="ModifyVolume throttled in the first pass",
        faults=[Fault(action="ModifyVolume", kind="throttle")],
    ),
)


def run_case(case: Case, contender: Contender) -> tuple[bool, int, Tally, str]:
    """Whether the volume was changed, how many of the others were, what was said, and the volume's ID."""
    fleet = LabFleet(
        LabClock.manual(START - timedelta(minutes=DRAIN_MIN)), LabSettings(**{"lag_s": 60.0, **case.settings})
    )
    draining: dict[str, Any] = {
        "size_gib": 100,
        "load": "steady:3000",
        "balance_pct": 45.0,
        "tags": OPTED_IN,
        "starts_at": START - timedelta(minutes=DRAIN_MIN),
        "created_at": START - timedelta(days=30),
        "attached_at": START - timedelta(days=30),
    }
    if case.settings:
        draining |= {"load": "steady:1350", "starts_at": START - timedelta(minutes=25)}
    own_fields = {"load": "steady:900", "balance_pct": 30.0} if case.prepare is hide_balance else {}
    volume_id = fleet.add(LabVolume(**{**draining, **own_fields, **case.volume}))
    neighbours = [fleet.add(LabVolume(**draining)) for _ in range(NEIGHBOURS)]
    fleet.clock.advance(DRAIN_MIN * MINUTE_S)
    case.prepare(fleet, volume_id)
    changes_before = len(fleet.modifications(volume_id))
    tally = Tally()
    with Endpoint(fleet) as aws, start_worker(contender, aws) as run_pass:
        for fault in case.faults:
            aws.faults.add(fault)
        for minute in range(0, CASE_MIN + 1, contender.interval_min):
            tally.add(run_pass(advance_to(fleet, minute)))
            aws.faults.clear()
    is_changed = len(fleet.modifications(volume_id)) > changes_before
    return is_changed, sum(bool(fleet.modifications(key)) for key in neighbours), tally, volume_id


def compare_cases(contenders: Sequence[Contender], *, is_verbose: bool) -> None:
    """Print for each case whether the volume was treated rightly, and the others of the three."""
    rows: dict[str, list[str]] = {}
    for case in CASES:
        for contender in contenders:
            is_changed, neighbours, tally, volume_id = run_case(case, contender)
            verdict = "right" if is_changed is case.should_change else "**wrong**"
            done = "changed" if is_changed else "left"
            about_volume = [message for message in tally.messages if volume_id in message]
            messages = tally.messages if case.faults else about_volume
            report = "; exit code" if tally.failed_passes else "; message" if messages else "; silent"
            report = report if case.faults or not is_changed else ""
            rows.setdefault(f"{case.name}: {'change' if case.should_change else 'leave'}", []).append(
                f"{done}, {verdict}; {neighbours} of {NEIGHBOURS}{report}"
            )
            if is_verbose:
                print(case.name, contender.name, *tally.messages, sep="\n    ", file=sys.stderr)
    _print_table(
        ["the volume, and what is right", *(contender.name for contender in contenders)],
        rows,
    )


def main() -> None:
    """Install, run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--volumes", type=int, default=300)
    parser.add_argument("--hours", type=float, default=3)
    parser.add_argument("--cases-only", action="store_true")
    parser.add_argument("--fleet-only", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="also what was said in each case, on stderr")
    options = parser.parse_args()
    contenders = make_contenders(install_custodian())
    if not options.cases_only:
        compare_fleet(contenders, options.volumes, options.hours)
    if not options.fleet_only:
        compare_cases(contenders[1:], is_verbose=options.verbose)


if __name__ == "__main__":
    main()
