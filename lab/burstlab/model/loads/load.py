"""The demand of an application on its volume: reads and writes per second over time.

A load is written as ``NAME[:ARGUMENT][*SCALE][+OFFSET][@KIB][%READS]``. Examples: ``steady:900``,
``docker-loop*2``, ``nab_c0d644*32+3600`` (a packaged recording, times 32, from its second 3,600 on). Also
``disk.csv.gz*4`` (a file), ``steady:900@64%100`` (operations of 64 KiB, all of them reads). Without these an
operation has 16 KiB, and reads are the share that the load or recording says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import add
from typing import Final, NamedTuple, Protocol

from burstwatch.core.durations import MINUTE_S
from burstwatch.core.ebs.volume import BURST_IOPS
from burstwatch.core.errors import BurstwatchError

NEVER_S: Final = 2**53  # beyond any time, and still exact as a float
OPERATION_KIB: Final = 16.0
"""The size of an operation, if a load does not specify it."""
MAX_OPERATION_KIB: Final = 1_024
MAX_SSD_OPERATION_KIB: Final = 256
"""EBS counts more than this as several operations; of an HDD volume more than 1 MiB."""
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S


class LoadError(BurstwatchError):
    """A load is invalid; the message has the text and what is accepted."""


class Segment(NamedTuple):
    """Constant demand until ``ends_at_s`` (seconds since the epoch, exclusive)."""

    read_iops: float
    write_iops: float
    ends_at_s: int


class Load(Protocol):
    """Demand over time, piecewise constant with steps of whole seconds."""

    def segment(self, at_s: int, since_s: int) -> Segment:
        """Demand at ``at_s``; ``since_s`` is when the load was put on the volume; seconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """The same at any time."""

    read_iops: float
    write_iops: float

    def segment(self, at_s: int, since_s: int) -> Segment:  # noqa: ARG002 - the same at any time
        return Segment(self.read_iops, self.write_iops, NEVER_S)


@dataclass(frozen=True, slots=True)
class Cycle:
    """Steps of (seconds, reads/s, writes/s), repeated from midnight UTC (``by_clock``) or from its start."""

    steps: tuple[tuple[int, float, float], ...]
    by_clock: bool = False

    def segment(self, at_s: int, since_s: int) -> Segment:
        cycle_s = sum(seconds for seconds, _, _ in self.steps)
        offset_s = (at_s if self.by_clock else at_s - since_s) % cycle_s
        for seconds, reads, writes in self.steps:
            if offset_s < seconds:
                return Segment(reads, writes, at_s + seconds - offset_s)
            offset_s -= seconds
        raise AssertionError("unreachable: the remainder is less than the sum of the steps")


@dataclass(frozen=True, slots=True)
class Adversary:
    """Nothing, then everything: full burst from the first likely look on."""

    poll_interval_s: int

    def segment(self, at_s: int, since_s: int) -> Segment:
        burst_at_s = (since_s // self.poll_interval_s + 2) * self.poll_interval_s + _AFTER_POLL_S
        return Segment(0, 0, burst_at_s) if at_s < burst_at_s else Segment(0, BURST_IOPS, NEVER_S)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded disk, one row per step, repeated at its end."""

    step_s: int
    read_iops: Sequence[float]
    write_iops: Sequence[float]
    peak_iops: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        peak_iops = max(map(add, self.read_iops, self.write_iops))
        object.__setattr__(self, "peak_iops", peak_iops)  # the class is frozen

    def segment(self, at_s: int, since_s: int) -> Segment:
        step, offset_s = divmod(at_s - since_s, self.step_s)
        row = step % len(self.read_iops)
        return Segment(self.read_iops[row], self.write_iops[row], at_s + self.step_s - offset_s)


@dataclass(frozen=True, slots=True)
class ScaledLoad:
    """Another load made ``scale`` times as strong and begun ``offset_s`` seconds in."""

    load: Load
    scale: float = 1
    offset_s: int = 0

    def segment(self, at_s: int, since_s: int) -> Segment:
        reads, writes, ends_at_s = self.load.segment(at_s + self.offset_s, since_s)
        return Segment(reads * self.scale, writes * self.scale, ends_at_s - self.offset_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedLoad:
    """Another load with operations of this size, and this share of reads; None leaves the share as it is."""

    load: Load
    operation_kib: float = OPERATION_KIB
    read_pct: float | None = None

    def segment(self, at_s: int, since_s: int) -> Segment:
        reads, writes, ends_at_s = self.load.segment(at_s, since_s)
        if self.read_pct is not None:
            total = reads + writes
            reads = total * self.read_pct / 100
            writes = total - reads
        return Segment(reads, writes, ends_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLoad:
    """A synthetic load with a name; ``reason`` says what it is for."""

    name: str
    reason: str
    build: Callable[[str], Load]
    argument: str | None = None
    default: str = ""


_AFTER_POLL_S: Final = 61  # just after the minute that the look can see, so that it sees nothing


def _steady(argument: str) -> Load:
    iops = parse_number(argument, "IOPS of steady", maximum=1_000_000)
    return Steady(iops / 4, iops * 3 / 4)


def _docker_loop(_: str) -> Load:
    return Cycle(((1, 30, 870), (1, 20, 280), (1, 10, 170)))


def _nightly_batch(argument: str) -> Load:
    hour = parse_integer(argument, "hour of nightly-batch", maximum=23)
    quiet, burst = (5.0, 15.0), (1_200.0, 1_300.0)
    before_s, after_s = hour * HOUR_S, DAY_S - hour * HOUR_S
    run_s = min(2 * HOUR_S, after_s)
    steps = [
        (2 * HOUR_S - run_s, *burst),
        (before_s - (2 * HOUR_S - run_s), *quiet),
        (run_s, *burst),
        (after_s - run_s, *quiet),
    ]
    return Cycle(tuple(step for step in steps if step[0] > 0), by_clock=True)


def _etcd(_: str) -> Load:
    calm = (290, 2.0, 78.0)
    compaction = (10, 300.0, 600.0)
    minutes = [calm, compaction] * 11 + [(230, 2.0, 78.0), (70, 1_400.0, 1_600.0)]
    return Cycle(tuple(minutes))


def _ci_day(_: str) -> Load:
    return Cycle(tuple(step for builds in _BUILDS_BY_HOUR for step in _ci_hour(builds)), by_clock=True)


_BUILDS_BY_HOUR: Final = (0, 0, 1, 0, 0, 0, 1, 2, 3, 5, 6, 5, 2, 4, 6, 6, 5, 3, 2, 1, 1, 0, 0, 0)
_BUILD_S: Final = 360  # a build; see _ci_hour


def _ci_hour(builds: int) -> list[tuple[int, float, float]]:
    """An hour with this many six-minute builds, evenly spread: checkout and cache, compile, then quiet."""
    if builds == 0:
        return [(HOUR_S, 1.0, 4.0)]
    rest = HOUR_S // builds - _BUILD_S
    steps: list[tuple[int, float, float]] = [
        (60, 1_900.0, 700.0),
        (_BUILD_S - 60, 250.0, 1_250.0),
        (rest, 1.0, 4.0),
    ]
    return [step for step in steps * builds if step[0] > 0]


def _adversary(argument: str) -> Load:
    minutes = parse_integer(argument, "look interval of adversary in minutes", maximum=24 * 60)
    if minutes < 1:
        raise LoadError(f"look interval of adversary is {argument} minutes: give at least 1")
    return Adversary(minutes * 60)


NAMED_LOADS: Final = (
    NamedLoad(
        name="idle",
        reason="no operations at all; what most volumes of a fleet do most of the time",
        build=lambda _: Steady(0, 0),
    ),
    NamedLoad(
        name="steady",
        argument="IOPS",
        reason="the same demand for ever, a quarter reads; the numbers can be worked out by hand",
        build=_steady,
    ),
    NamedLoad(
        name="docker-loop",
        reason="the incident: `docker run --rm` in a loop, 3 s and 1,380 small operations a container; "
        "at 100 IOPS of baseline the credits last for exactly 5,000 containers",
        build=_docker_loop,
    ),
    NamedLoad(
        name="nightly-batch",
        argument="HOUR",
        default="2",
        reason="20 IOPS all day, then 2,500 for two hours from HOUR (UTC) on: calm whenever people look",
        build=_nightly_batch,
    ),
    NamedLoad(
        name="etcd",
        reason="a trickle of log writes, compaction for 10 s every five minutes, defragmentation at full "
        "burst every hour. It is near the baseline of a small volume, and a stall costs leaders",
        build=_etcd,
    ),
    NamedLoad(
        name="ci-day",
        reason="a build host: idle nights, up to six builds of 1,500 to 2,600 IOPS an hour by day (UTC)",
        build=_ci_day,
    ),
    NamedLoad(
        name="adversary",
        argument="MINUTES",
        default="15",
        reason="idle until a minute after a look that comes every MINUTES, then 3,000 IOPS until the end: "
        "the least warning a workload can give",
        build=_adversary,
    ),
)


def get_operation_kib(load: Load) -> float:
    """The size of the load's operations."""
    return load.operation_kib if isinstance(load, SizedLoad) else OPERATION_KIB


def peak_iops(load: Load) -> float:
    """More than it never demands."""
    if isinstance(load, SizedLoad):
        return peak_iops(load.load)
    if isinstance(load, ScaledLoad):
        return load.scale * peak_iops(load.load)
    if isinstance(load, Steady):
        return load.read_iops + load.write_iops
    if isinstance(load, Cycle):
        return max(reads + writes for _, reads, writes in load.steps)
    if isinstance(load, Recording):
        return load.peak_iops
    return BURST_IOPS if isinstance(load, Adversary) else inf


def is_steady(load: Load) -> bool:
    """Whether a load asks the same at any time."""
    return isinstance(_innermost(load), Steady)


def repeats_every_minute(load: Load) -> bool:
    """Whether a load asks the same in every minute, so that like minutes can be worked out together."""
    load = _innermost(load)
    return isinstance(load, Cycle) and MINUTE_S % sum(seconds for seconds, _, _ in load.steps) == 0


def _innermost(load: Load) -> Load:
    while isinstance(load, ScaledLoad | SizedLoad):
        load = load.load
    return load


def parse_number(text: str, label: str, *, maximum: float) -> float:
    """A number from 0 to ``maximum``; raises LoadError naming ``label`` it is."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 <= number <= maximum:
        raise LoadError(f"{label} is {text!r}: give a number from 0 to {maximum:g}")
    return number


def parse_integer(text: str, label: str, *, maximum: int) -> int:
    """A whole number from 0 to ``maximum``; raises LoadError naming ``label`` it is."""
    number = parse_number(text, label, maximum=maximum)
    if number != int(number):
        raise LoadError(f"{label} is {text!r}: give a whole number")
    return int(number)
