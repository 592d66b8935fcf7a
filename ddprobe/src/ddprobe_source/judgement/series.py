"""A series of writes: which follows which, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ddprobe_source.judgement.disks import Disk
from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.text import median

KIB: Final = 1024
MIB: Final = 1024 * KIB
LITE_BYTES: Final = 4 * KIB
CLASSIC_BLOCK: Final = MIB
CLASSIC_BLOCKS: Final = 10
BLOCK_BYTES: Final = {
    "lite": LITE_BYTES,
    "bulk": MIB,
    "append": CLASSIC_BLOCK,
    "again": LITE_BYTES,
    "classic": CLASSIC_BLOCK,
}
"""Kinds of writes: bulk are in place, append makes the file longer as dd does, again are lite after those."""
MAX_EBS_IO: Final = 256 * KIB
LITE_CREDITS: Final = 2
BULK_CREDITS: Final = 5
BULK_WRITES: Final = 2
"""A throughput limit shows in the size of a write. Limits let 0.1 s of bytes through at once. If dd takes
1 s at the limit, that is 1 MiB, so only the second MiB shows it."""
APPEND_CREDITS: Final = 5
"""Beside its data: the journal's descriptor and commit, two flushes, and what is written back later."""
NEW_FILE_CREDITS: Final = 6
"""Journal writes and flushes that making our file costs, beside its data."""
DEFAULT_WRITES: Final = {"run": 16, "serve": 6}
"""Lite writes of the ladder: more operations than a limit of 100, or 300, a second hands out in one lump."""
CLASSIC_CREDITS: Final = 86
"""60 writes, 20 flushes and what the journal writes back later; whether flushes are charged is not known."""
MAX_BULK_WRITES: Final = 4
ONE_PACE_SPREAD: Final = 0.15
"""Two bulk writes that differ by less than this share show the pace of a limit, not its burst."""
APPENDS: Final = 3
"""If a queue makes every lite write slow, this many MiB are written as dd writes them. How long
journal writes wait in it differs between kernels, limits and file systems (lab/bench/probe_compare.py)."""
SLOW_IN_A_ROW: Final = 5
"""This many slow lite writes are a queue; if a limit hands out lumps of operations, some are quick."""
LITE_AFTER_BULK: Final = 3
"""Lite writes after a slow bulk write: the ones before it may have been a limit's burst."""
SERIES_S: Final = 2.5
"""No further write is begun after this time: the delay itself is proof."""
MAX_LITE_S: Final = SERIES_S / 4
"""A MiB of dd takes up to three lite writes: where those take longer, it would use up the time of the run."""
SLOW_WRITE_S: Final = 0.02
"""One such lite write is chance, or the end of a lump of operations: this many more writes show which."""
MIN_SLOW_S: Final = {"lite": 0.004, "bulk": 0.025, "classic": 0.25}
"""Below this a multiple of the healthy median says nothing: it is the noise of a fast disk."""


class Plan(Record):
    """One series of writes; ``extra`` allows more of them if some were slow."""

    level: str
    path: str
    engine: str
    data: str
    writes: int
    bulk: int
    appends: int
    extra: bool
    enough_s: float | None


def next_write(plan: Plan, took_s: dict[str, list[float]]) -> str | None:
    """Name the kind of the next write of a series by how long the others took; None at its end."""
    if plan.level == "classic":
        return "classic" if len(took_s["classic"]) < plan.writes else None
    lite_s, bulk_s, append_s = took_s["lite"], took_s["bulk"], took_s["append"]
    if plan.enough_s is None:
        return "lite" if len(lite_s) < plan.writes else None
    if sum(map(sum, took_s.values())) >= SERIES_S:
        return None
    is_proof = len(lite_s) > 1 and min(lite_s[-2:]) >= plan.enough_s  # more would only add to the queue
    is_queue = is_proof or (len(lite_s) >= SLOW_IN_A_ROW and min(lite_s[-SLOW_IN_A_ROW:]) >= SLOW_WRITE_S)
    if append_s or (is_queue and not bulk_s and plan.appends and lite_s[-1] <= MAX_LITE_S):
        return "append" if len(append_s) < plan.appends else None
    if not bulk_s and not is_proof and len(lite_s) < wanted_writes(plan, lite_s):
        return "lite"
    if wants_bulk(plan, bulk_s):
        return "bulk"
    is_slow = plan.extra and sum(bulk_s) >= MIN_SLOW_S["bulk"] and not is_proof
    return "again" if is_slow and len(took_s["again"]) < LITE_AFTER_BULK else None


def offset_of(kind: str, took_s: dict[str, list[float]]) -> int:
    """Return where the next write of a kind goes: only classic writes and appends go behind each other."""
    if kind == "append":
        return BLOCK_BYTES["bulk"] + len(took_s[kind]) * CLASSIC_BLOCK
    return len(took_s["classic"]) * CLASSIC_BLOCK


def wanted_writes(plan: Plan, lite_s: Sequence[float]) -> int:
    """How many lite writes there are to be: where one had to wait, the wait of a limit comes again."""
    for number, seconds in enumerate(lite_s, 1):
        if seconds >= SLOW_WRITE_S and plan.extra:
            return max(plan.writes, 2 * min(number + 1, plan.writes))
    return plan.writes


def wants_bulk(plan: Plan, bulk_s: Sequence[float]) -> bool:
    """Whether another large write is needed: slow ones are repeated until two agree."""
    if len(bulk_s) < plan.bulk:
        return True
    may_repeat = plan.bulk and plan.extra and len(bulk_s) < MAX_BULK_WRITES
    return bool(may_repeat) and sum(bulk_s) >= MIN_SLOW_S["bulk"] and not show_one_pace(bulk_s[-2:])


def show_one_pace(bulk_s: Sequence[float]) -> bool:
    """Whether bulk writes show one pace; if the first was quicker, it was the burst of a limit."""
    return max(bulk_s) - min(bulk_s) <= ONE_PACE_SPREAD * max(bulk_s)


def mean_without_chance(append_s: Sequence[float]) -> float:
    """Average appends, without one that took more than twice the median: it met another commit."""
    typical_s = median(append_s)
    usual_s = [seconds for seconds in append_s if seconds <= 2 * typical_s]
    return sum(usual_s) / len(usual_s)


class Progress:
    """What a writer has said so far."""

    def __init__(self, started_s: float) -> None:
        self.began_s = started_s
        self.opened_s: float | None = None
        self.written_s: float | None = None
        self.closed_s: float | None = None
        self.took_s: dict[str, list[float]] = {kind: [] for kind in BLOCK_BYTES}
        self.made_bytes = 0
        self.no_bulk: str | None = None
        self.cpu_wait_s = 0.0
        self.failure: tuple[str, str] | None = None

    def take(self, frames: Iterable[dict[str, Any]]) -> None:
        """Add what was sent: how long a write took, or the new value of a field."""
        for frame in frames:
            for name, value in frame.items():
                if name in self.took_s:
                    self.took_s[name].append(value)
                else:
                    setattr(self, name, value)

    @property
    def is_finished(self) -> bool:
        return self.closed_s is not None or self.failure is not None


class Cost(Record):
    """What one series of writes asks of the device, flushes counted as credits."""

    writes: int
    flushes: int
    credits: int


def cost_of(level: str, writes: int, disks: Sequence[Disk], *, bulk: int = 0, appends: int = 0) -> Cost:
    """Price a level, by the sizes the device takes: checked against its counters in the tests."""
    most_kib = min([MAX_EBS_IO // KIB, *(disk.max_io_kib for disk in disks)])
    requests_per_mib = -(-MIB // KIB // most_kib)
    if level == "classic":
        data = CLASSIC_BLOCKS * requests_per_mib
        return Cost(writes=data + 26, flushes=20, credits=data + 46)
    return Cost(
        writes=writes + requests_per_mib * bulk + (requests_per_mib + 2) * appends,
        flushes=writes + bulk + 2 * appends,
        credits=LITE_CREDITS * writes
        + (requests_per_mib + 1) * bulk
        + (requests_per_mib + APPEND_CREDITS) * appends,
    )


def cost_so_far(level: str, progress: Progress, disks: Sequence[Disk]) -> Cost:
    """Price what was written, and the write that is under way; a refused series costs nothing."""
    if progress.failure and progress.opened_s is None:
        return Cost(writes=0, flushes=0, credits=0)
    if level == "classic":
        return cost_of(level, CLASSIC_BLOCKS, disks)
    lite, bulk, appends = (len(progress.took_s[kind]) for kind in ("lite", "bulk", "append"))
    lite += len(progress.took_s["again"]) + (not progress.is_finished)
    if not progress.made_bytes:
        return cost_of(level, lite, disks, bulk=bulk, appends=appends)
    new_bulk = progress.made_bytes // BLOCK_BYTES["bulk"]
    cost = cost_of(level, lite + 1 - new_bulk, disks, bulk=bulk + new_bulk, appends=appends)
    return cost.replaced(credits=cost.credits + NEW_FILE_CREDITS)
