"""Verdicts and their causes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ddprobe_source.judgement.record import Record

OK: Final = "ok"
WARN: Final = "warn"
CRIT: Final = "crit"
UNKNOWN: Final = "unknown"
SEVERITIES: Final = (OK, WARN, CRIT)
THROTTLED: Final = "throttled"
EXHAUSTED_IDLE: Final = "exhausted_idle"
STALLED: Final = "stalled"
FROZEN_OR_LOCK: Final = "frozen_or_lock"
IO_ERROR: Final = "io_error"
NOT_THIS_DISK: Final = "not_this_disk"
NOT_MEASURED: Final = "not_measured"
UNCLEAR: Final = "unknown"
CAUSES: Final = {
    OK: "the disk answers as it should",
    THROTTLED: "the disk works, at a limit, and others wait before us",
    EXHAUSTED_IDLE: "nobody else uses it, and yet each write waits: no credits, no queue",
    STALLED: "I/O is under way and none comes back, from the device or from above it",
    FROZEN_OR_LOCK: "the device has nothing to do: the file system is frozen or a lock is held",
    IO_ERROR: "the kernel gave up on a write, or made the file system read-only",
    NOT_THIS_DISK: "something is slow, but this disk is not why",
    NOT_MEASURED: "no basis to judge",
    UNCLEAR: "the disk keeps no counters (no sysfs, or queue/iostats is 0), so the cause is unknown",
}


class Judgement(Record):
    """A verdict, and why."""

    verdict: str
    cause: str
    reason: str


def not_measured(reason: str) -> Judgement:
    """No verdict, and why."""
    return Judgement(verdict=UNKNOWN, cause=NOT_MEASURED, reason=reason)


def worse(first: Judgement, second: Judgement) -> Judgement:
    """Pick the worse of two views of one path; the first where they are alike. OK is claimed by both only."""
    order = (OK, UNKNOWN, WARN, CRIT)
    return max((first, second), key=lambda judged: order.index(judged.verdict))


BADNESS: Final = (OK, WARN, UNKNOWN, CRIT)


def worst(verdicts: Iterable[str]) -> str:
    """Pick the verdict to exit with: unknown is worse than a warning, a known fault worse than unknown."""
    return max(verdicts, key=BADNESS.index, default=UNKNOWN)


EXITS: Final = {
    "nagios": {OK: 0, WARN: 1, CRIT: 2, UNKNOWN: 3},
    "npd": {OK: 0, WARN: 1, CRIT: 1, UNKNOWN: 2},
    "cron": {OK: 0, WARN: 0, CRIT: 0, UNKNOWN: 3},
}
