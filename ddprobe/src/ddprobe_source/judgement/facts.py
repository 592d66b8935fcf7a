"""Facts: what is known of one look or one series of writes, and what follows for the classic dd."""

from __future__ import annotations

from typing import Final

from ddprobe_source.judgement.counters import Delta
from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.series import (
    BULK_CREDITS,
    CLASSIC_BLOCKS,
    CLASSIC_CREDITS,
    LITE_CREDITS,
    MIN_SLOW_S,
    SLOW_WRITE_S,
    mean_without_chance,
    show_one_pace,
)
from ddprobe_source.judgement.tasks import STILL_S, Tasks
from ddprobe_source.judgement.text import median

WAITS_IN_CLASSIC: Final = 49
"""Turns the classic dd takes in the device's queue: 4.9 per MiB were measured on ext4."""
WAITS_IN_LITE: Final = 2
"""One for the data, one for the flush."""
LITE_PER_BULK_ALONE: Final = 2.0
LITE_PER_BULK_IN_A_QUEUE: Final = 1.3
"""Without appends, the journal's writes for a MiB of dd are taken to last as long as this many lite ones."""
QUEUEING_MS: Final = 50.0
"""A device this slow has a queue: 16 ms were measured at 3,000 IOPS with 48 waiting, 455 ms at 100."""
MIN_REQUESTS: Final = 5
"""Fewer completed requests say nothing about a device."""


class Thresholds(Record):
    """Where a verdict begins."""

    warn_s: float
    crit_s: float
    ratio: float


class Facts(Record):
    """All that is known of one look or one series of writes."""

    level: str
    completed: bool
    given_up: bool
    elapsed_s: float
    writes_s: tuple[float, ...]
    bulk_s: tuple[float, ...]
    append_s: tuple[float, ...]
    failure: tuple[str, str] | None
    healthy_s: float | None
    healthy_bulk_s: float | None
    disk: Delta | None
    own_ios: int
    tasks: Tasks | None
    cpu_wait_s: float
    cpu_pressure_pct: float
    measured_s: float | None

    @property
    def typical_s(self) -> float | None:
        """The figure that is compared with the healthy median; of back-to-back writes the last count."""
        if not self.completed or self.level == "passive":
            return None
        if self.level != "lite" or not self.writes_s:
            return self.elapsed_s
        return max(median(self.writes_s[-3:]), self.lumps_s or 0.0)

    @property
    def longest_s(self) -> float:
        """The longest wait; of a series of lite writes that ended none is as long as all together."""
        if not self.completed or self.level != "lite":
            return self.elapsed_s
        writes_s = (*self.writes_s, *self.bulk_s, *self.append_s)
        return max(self.elapsed_s - sum(writes_s), *writes_s, 0.0)

    @property
    def lumps_s(self) -> float | None:
        """Mean of lite writes of which several had to wait: a limit that hands out operations in lumps."""
        waited = sum(seconds >= SLOW_WRITE_S for seconds in self.writes_s)
        is_several = self.level == "lite" and waited >= 2  # noqa: PLR2004 - one is chance
        return sum(self.writes_s) / len(self.writes_s) if is_several else None

    @property
    def bulk_typical_s(self) -> float | None:
        """Seconds of a MiB in place: the first may be the burst of a limit, and any one slow by chance."""
        if not self.bulk_s or not self.completed:
            return None
        for paced in (self.bulk_s, self.bulk_s[-2:]):
            if show_one_pace(paced):
                return sum(paced) / len(paced)
        if self._is_bulk_slow:  # what made one of them late let a limit save up as much for the next
            return sum(self.bulk_s[1:]) / len(self.bulk_s[1:])
        return median(self.bulk_s[1:])

    @property
    def ratio(self) -> float | None:
        typical_s = self.typical_s
        return typical_s / self.healthy_s if typical_s and self.healthy_s else None

    @property
    def io_delay_s(self) -> float | None:
        """Seconds that one request waits."""
        if self.level == "passive":
            busy = self.disk is not None and self.disk.done >= MIN_REQUESTS and self.disk.await_ms
            return busy / 1000 if busy else None
        typical_s = self.typical_s
        if typical_s is None:
            return None
        return typical_s / (WAITS_IN_LITE if self.level == "lite" else WAITS_IN_CLASSIC)

    @property
    def dd_s(self) -> float | None:
        """Seconds the classic dd took, or would take at this pace; in a stall, at least this long."""
        if self.failure:
            return None
        if self.level == "classic" or not self.completed:
            return self.elapsed_s
        if self.level == "passive" and self.is_still:
            return self.disk.quiet_s if self.disk else None
        if self.measured_s is not None:
            return self.measured_s
        if self.append_s:  # a tenth of dd each
            return CLASSIC_BLOCKS * mean_without_chance(self.append_s)
        if self.bulk_typical_s is not None:
            mean_s = self._mean_dd_s if self.has_lumps else None
            return self._paced_dd_s(self.bulk_typical_s) if mean_s is None else mean_s
        delay_s = self.io_delay_s
        return None if delay_s is None else WAITS_IN_CLASSIC * delay_s

    @property
    def is_at_least(self) -> bool:
        """Whether dd takes ``dd_s`` or longer: a write has not ended, or only lumps of a limit were seen."""
        if self.dd_s is None or not self.completed or self.level == "passive":
            return self.dd_s is not None and (not self.completed or self.is_still)
        return self.has_lumps and self.measured_s is None

    @property
    def has_lumps(self) -> bool:
        """Whether a write waited and a later one did not: a limit that hands out operations in lumps.

        It delays a write for the whole lump, so a short series sees too few of these delays for a pace. A
        limit of bytes differs: no large write is quick after the first slow one, and their pace is the slower
        estimate. Then the slow small writes waited for a processor, for us or for a driver.
        """
        if self.level != "lite" or self.others_wait:
            return False
        is_uneven = any(
            took_s >= slow_s and min(series[number:]) <= took_s / 2
            for series, slow_s in self._series
            for number, took_s in enumerate(series)
        )
        if not is_uneven or self.bulk_typical_s is None or not self._is_bulk_slow:
            return is_uneven
        return self._paced_dd_s(self.bulk_typical_s) < (self._mean_dd_s or 0.0)

    @property
    def _is_bulk_slow(self) -> bool:
        """Whether at least two large writes were slow, and none after the first of them was quick."""
        slow = [took_s >= MIN_SLOW_S["bulk"] for took_s in self.bulk_s]
        return sum(slow) >= 2 and all(slow[slow.index(True) :])  # noqa: PLR2004 - one is chance

    @property
    def _series(self) -> tuple[tuple[tuple[float, ...], float], ...]:
        """Both kinds of writes, and from when on one of them is slow."""
        return (self.writes_s, SLOW_WRITE_S), (self.bulk_s, MIN_SLOW_S["bulk"])

    @property
    def _mean_dd_s(self) -> float | None:
        """Seconds of dd if each of its operations takes the mean of ours; None if at most one was slow."""
        slow = sum(took_s >= slow_s for series, slow_s in self._series for took_s in series)
        if slow < 2:  # noqa: PLR2004 - one is chance
            return None
        operations = LITE_CREDITS * len(self.writes_s) + BULK_CREDITS * len(self.bulk_s)
        return CLASSIC_CREDITS * (sum(self.writes_s) + sum(self.bulk_s)) / operations

    def _paced_dd_s(self, bulk_s: float) -> float:
        """Seconds of dd at the pace of these writes, less the burst that the limit lets through at once.

        Where others wait they have used up the burst: some of our writes are quicker there by chance.
        """
        lite_s, burst_s = self.typical_s or 0.0, 0.0
        if not self.others_wait:
            burst_s = sum(max(0.0, bulk_s - seconds) for seconds in self.bulk_s)
            if self.lumps_s is None:
                burst_s += sum(max(0.0, lite_s - seconds) for seconds in self.writes_s)
        journal = LITE_PER_BULK_IN_A_QUEUE if self.others_wait else LITE_PER_BULK_ALONE
        return max(CLASSIC_BLOCKS * (bulk_s + journal * lite_s) - burst_s, sum(self.bulk_s))

    @property
    def others_wait(self) -> bool:
        """Whether other requests than ours are in the device's queue."""
        disk = self.disk
        if disk is None:
            return False
        return disk.queue > self._own_queue or disk.done > max(3 * self.own_ios, self.own_ios + 10)

    @property
    def _own_queue(self) -> float:
        """Most requests that our own writes keep in the queue: a MiB is four at once and what splits them."""
        if self.level == "classic":
            return 8
        large_s = sum(self.bulk_s) + sum(self.append_s)
        return 2 + 4 * min(1.0, large_s / self.elapsed_s) if self.elapsed_s else 2

    @property
    def is_still(self) -> bool:
        disk = self.disk
        return disk is not None and disk.in_flight > 0 and disk.quiet_s >= STILL_S

    @property
    def is_queueing(self) -> bool:
        return self.disk is not None and (self.disk.await_ms or 0.0) >= QUEUEING_MS

    @property
    def had_no_processor(self) -> bool:
        """Whether our writer was runnable, or awake, for most of the time."""
        tasks = self.tasks
        awake = tasks is not None and tasks.own_seen > 1 and 2 * tasks.own_in_d < tasks.own_seen
        return self.cpu_wait_s > self.elapsed_s / 2 or awake

    @property
    def own_wchan(self) -> str:
        return self.tasks.own_wchan if self.tasks else ""


def passive_facts(disk: Delta | None, tasks: Tasks | None) -> Facts:
    """Give the facts of a look without a write."""
    return Facts(
        level="passive", completed=True, given_up=False, elapsed_s=0.0, writes_s=(), bulk_s=(),
        append_s=(), failure=None, healthy_s=None, healthy_bulk_s=None, disk=disk,
        own_ios=0, tasks=tasks, cpu_wait_s=0.0, cpu_pressure_pct=0.0, measured_s=None,
    )  # fmt: skip
