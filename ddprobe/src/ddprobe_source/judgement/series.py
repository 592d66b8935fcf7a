"""A series of writes, and when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ddprobe_source.judgement.cost import BLOCK_BYTES, CLASSIC_BLOCK
from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.text import median

MOST_BULK_WRITES: Final = 4
BULK_AGREES: Final = 0.15
"""Two bulk writes that differ by less than this share show the pace of a limit, not its burst."""
APPENDS: Final = 3
"""Where a queue makes every lite write slow, this many MiB are written as dd writes them: how long the writes
of the journal wait there differs between kernels, limits and file systems (lab/bench/probe_compare.py)."""
SLOW_IN_A_ROW: Final = 5
"""So many slow lite writes are a queue; of a limit that hands out lumps of operations, some are quick."""
LITE_AFTER_BULK: Final = 3
"""Lite writes after a slow bulk write: the ones before it may have been a limit's burst."""
SERIES_S: Final = 2.5
"""No further write is begun after this time: what took so long is proof."""
LONGEST_LITE_S: Final = SERIES_S / 4
"""A MiB of dd takes up to three lite writes: where those take longer, it would use up the time of the run."""
SLOW_WRITE_S: Final = 0.02
"""One lite write like that is chance, or the end of a lump of operations: as many more writes tell which."""
SLOW_ENOUGH_S: Final = {"lite": 0.004, "bulk": 0.025, "classic": 0.25}
"""Below this a multiple of the healthy median says nothing: it is the noise of a fast disk."""


class Plan(Record):
    """One series of writes; ``extra`` allows more of them where some were slow."""

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
    if append_s or (is_queue and not bulk_s and plan.appends and lite_s[-1] <= LONGEST_LITE_S):
        return "append" if len(append_s) < plan.appends else None
    if not bulk_s and not is_proof and len(lite_s) < wanted_writes(plan, lite_s):
        return "lite"
    if wants_bulk(plan, bulk_s):
        return "bulk"
    is_slow = plan.extra and sum(bulk_s) >= SLOW_ENOUGH_S["bulk"] and not is_proof
    return "again" if is_slow and len(took_s["again"]) < LITE_AFTER_BULK else None


def offset_of(kind: str, took_s: dict[str, list[float]]) -> int:
    """Say where the next write of a kind goes: only classic writes and appends go behind each other."""
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
    if (
        not plan.bulk
        or not plan.extra
        or len(bulk_s) >= MOST_BULK_WRITES
        or sum(bulk_s) < SLOW_ENOUGH_S["bulk"]
    ):
        return False
    return not agree(bulk_s[-2:])


def agree(bulk_s: Sequence[float]) -> bool:
    """Whether bulk writes show one pace; if the first was quicker, it was the burst of a limit."""
    return max(bulk_s) - min(bulk_s) <= BULK_AGREES * max(bulk_s)


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

    def take(self, frames: Iterable[Sequence[Any]]) -> None:
        for word, *values in frames:
            if word == "began":
                self.began_s = values[0]
            elif word == "opened":
                self.opened_s = values[0]
            elif word == "made":
                self.made_bytes = values[0]
            elif word == "no bulk":
                self.no_bulk = values[0]
            elif word == "wrote":
                self.took_s[values[0]].append(values[1])
            elif word == "cpu":
                self.cpu_wait_s = values[0]
            elif word == "closed":
                self.written_s, self.closed_s = values
            elif word == "failed":
                self.failure = (values[0], values[1])

    @property
    def is_finished(self) -> bool:
        return self.closed_s is not None or self.failure is not None
