"""Verdicts: how bad it is, and what the cause is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ddprobe_source.judgement.facts import MIN_REQUESTS, Facts, Thresholds
from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.series import MIN_SLOW_S
from ddprobe_source.judgement.tasks import IO_WAITS, LOCK_WAITS

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
    OK: "the disk answers normally",
    THROTTLED: "the disk works at its limit, and other requests wait before ours",
    EXHAUSTED_IDLE: "nothing else uses the disk, yet each write waits: no credits, no queue",
    STALLED: "I/O is in flight and none completes, in the device or in a layer above it",
    FROZEN_OR_LOCK: "the device has nothing to do: the file system is frozen or a lock is held",
    IO_ERROR: "the kernel gave up on a write, or made the file system read-only",
    NOT_THIS_DISK: "something is slow, but this disk is not the cause",
    NOT_MEASURED: "no basis to judge",
    UNCLEAR: "the disk keeps no counters (no sysfs, or queue/iostats is 0), so the cause is unknown",
}
EVENT_CAUSES: Final = (THROTTLED, EXHAUSTED_IDLE, STALLED, FROZEN_OR_LOCK, IO_ERROR)

NEAR_THRESHOLD: Final = 0.7
"""From this share of --warn up to its inverse an estimate is too rough: a measured dd decides."""
BUSY_CPU_PCT: Final = 25.0
"""From this CPU pressure on, single slow writes say nothing about the disk."""
IDLE_PCT: Final = 5.0
"""A device that is busy for less of the time is not what a write waits for."""


class Judgement(Record):
    """A verdict, and why."""

    verdict: str
    cause: str
    reason: str


def not_measured(reason: str) -> Judgement:
    """No verdict, and why."""
    return Judgement(verdict=UNKNOWN, cause=NOT_MEASURED, reason=reason)


def worse(first: Judgement, second: Judgement) -> Judgement:
    """Pick the worse of two views of one path; the first if they are equal. OK is claimed by both only."""
    order = (OK, UNKNOWN, WARN, CRIT)
    return max((first, second), key=lambda judged: order.index(judged.verdict))


EXIT_ORDER: Final = (OK, WARN, UNKNOWN, CRIT)


def worst(verdicts: Iterable[str]) -> str:
    """Pick the verdict to exit with: unknown is worse than a warning, a known fault worse than unknown."""
    return max(verdicts, key=EXIT_ORDER.index, default=UNKNOWN)


EXIT_CODES: Final = {
    "nagios": {OK: 0, WARN: 1, CRIT: 2, UNKNOWN: 3},
    "npd": {OK: 0, WARN: 1, CRIT: 1, UNKNOWN: 2},
    "cron": {OK: 0, WARN: 0, CRIT: 0, UNKNOWN: 3},
}


def judge(facts: Facts, thresholds: Thresholds) -> Judgement:
    """Return the verdict and its cause."""
    if facts.failure:
        return _judge_failure(*facts.failure)
    if facts.level == "passive":
        return _judge_passive(facts, thresholds)
    verdict = OK
    if (facts.dd_s or 0.0) >= thresholds.warn_s or facts.longest_s >= thresholds.warn_s:
        verdict = WARN
    if facts.given_up or (facts.dd_s or 0.0) >= thresholds.crit_s or facts.longest_s >= thresholds.crit_s:
        verdict = CRIT
    paced = verdict == OK and is_paced(facts, thresholds)
    if verdict == OK and not paced:
        return Judgement(verdict=OK, cause=OK, reason=CAUSES[OK])
    cause = cause_of(facts)
    if paced:  # below the lines only the disk's own doing is worth a warning
        verdict = WARN if cause == EXHAUSTED_IDLE else OK
    return Judgement(verdict=verdict, cause=cause, reason=CAUSES[cause])


def is_near(dd_s: float | None, threshold_s: float) -> bool:
    """Whether an estimate is so near a threshold that only a measured dd can decide."""
    return dd_s is not None and NEAR_THRESHOLD * threshold_s <= dd_s <= threshold_s / NEAR_THRESHOLD


def wants_classic(facts: Facts, judged: Judgement, thresholds: Thresholds, climb_s: float) -> bool:
    """Whether the ladder goes on to classic after these lite writes."""
    is_slow = (facts.typical_s or 0.0) >= climb_s or is_near(facts.dd_s, thresholds.warn_s)
    return judged.verdict in (WARN, CRIT) or is_slow or is_paced(facts, thresholds)


def is_paced(facts: Facts, thresholds: Thresholds) -> bool:
    """Whether an idle disk makes writes wait: many times its healthy median, or evenly, or again and again.

    The quickest of the last three lite writes counts: a limit delays each of them, a busy processor some.
    A limit that lets some writes through at once and then none shows in the mean of all. This does not count
    while processors are busy: the driver's threads are then late for some writes of a healthy disk too.
    """
    typical_s, healthy_s, last = facts.typical_s, facts.healthy_s, facts.writes_s[-3:]
    if facts.disk is None or facts.others_wait or typical_s is None:
        return False
    if facts.bulk_s and facts.healthy_bulk_s:
        least_s = min(facts.bulk_s[-2:])
        if least_s >= max(MIN_SLOW_S["bulk"], thresholds.ratio * facts.healthy_bulk_s):
            return True
    if not healthy_s:
        return False
    lumps_s = facts.lumps_s if facts.cpu_pressure_pct < BUSY_CPU_PCT else None
    least_s = lumps_s or (min(last) if facts.level == "lite" and last else typical_s)
    even = facts.level == "lite" and len(last) == 3 and max(last) <= 1.2 * least_s  # noqa: PLR2004 - in a row
    ratio = thresholds.ratio / 2 if even else thresholds.ratio
    return least_s >= max(MIN_SLOW_S[facts.level], ratio * healthy_s)


def after_classic(lite: Judgement, classic: Judgement, facts: Facts) -> Judgement:
    """Decide between two levels: classic overrules, unless it cannot know better than the median of lite."""
    paced = lite.cause == EXHAUSTED_IDLE and facts.healthy_s is None
    if classic.verdict == OK and paced and facts.elapsed_s >= MIN_SLOW_S["classic"]:
        return lite
    return classic if classic.verdict != UNKNOWN else lite


def cause_of(facts: Facts) -> str:
    """Name the cause of a write that is slow or does not end: by where we waited, then by the counters."""
    in_lock, in_io = facts.own_wchan.startswith(LOCK_WAITS), facts.own_wchan.startswith(IO_WAITS)
    if facts.is_still:
        return STALLED
    if in_lock and not facts.is_queueing:
        return FROZEN_OR_LOCK
    if facts.had_no_processor and not facts.is_queueing:
        return NOT_THIS_DISK
    if facts.disk is None:
        return UNCLEAR
    if not facts.completed:
        is_idle = facts.disk.in_flight == 0 and facts.disk.busy_pct < IDLE_PCT
        return (STALLED if in_io else FROZEN_OR_LOCK) if is_idle else THROTTLED
    if facts.others_wait:
        return THROTTLED
    below_us = in_io or (facts.disk.await_ms or 0.0) >= 1000 * (facts.io_delay_s or 0.0) * 0.3
    return EXHAUSTED_IDLE if below_us else NOT_THIS_DISK


def _judge_passive(facts: Facts, thresholds: Thresholds) -> Judgement:
    disk, tasks, dd_s = facts.disk, facts.tasks, facts.dd_s
    verdict, cause = OK, OK
    if disk is None:
        if tasks and tasks.stuck_here:
            return Judgement(verdict=WARN, cause=UNCLEAR, reason=CAUSES[UNCLEAR])
        return not_measured("this mount has no disk with counters (queue/iostats may be 0)")
    if facts.is_still:
        verdict, cause = CRIT, STALLED
    elif dd_s is not None and facts.is_queueing:
        verdict, cause = (CRIT if dd_s >= thresholds.crit_s else WARN), THROTTLED
    elif tasks and tasks.stuck_here and not disk.in_flight and tasks.stuck_wchan.startswith(LOCK_WAITS):
        verdict, cause = WARN, FROZEN_OR_LOCK
    elif tasks and tasks.stuck_here and not disk.in_flight and disk.done < MIN_REQUESTS:  # held above it
        verdict, cause = WARN, STALLED
    elif tasks and tasks.stuck:
        cause = NOT_THIS_DISK
    return Judgement(verdict=verdict, cause=cause, reason=CAUSES[cause])


def _judge_failure(code: str, message: str) -> Judgement:
    if code in ("EIO", "EROFS", "EREMOTEIO", "ENODEV", "ENXIO", "EUCLEAN"):
        return Judgement(verdict=CRIT, cause=IO_ERROR, reason=f"{CAUSES[IO_ERROR]} ({code})")
    return not_measured(f"{message} ({code})")
