"""Counters of disks, and pressure on I/O and processors."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ddprobe_source.host.child_task import STEP_S
from ddprobe_source.host.files import read_text
from ddprobe_source.judgement.counters import Counters, Delta, parse_counters
from ddprobe_source.judgement.disks import Disk
from ddprobe_source.judgement.text import parse_integer, parse_number


def keeps_counters(disk: Disk) -> bool:
    """Whether the kernel counts this disk's I/O: queue/iostats can be 0."""
    return read_text(f"{os.path.dirname(disk.stat_path)}/queue/iostats") != "0"


class DiskWatch:
    """Follows the counters of one disk. Reading them does no I/O on a disk and takes no lock."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._counts = keeps_counters(disk)
        self._first = self._last = self._read()
        self._moved_s = time.monotonic()
        self._most = self._last.in_flight if self._last else 0

    def _read(self) -> Counters | None:
        return parse_counters(read_text(self._disk.stat_path), time.monotonic()) if self._counts else None

    def look(self) -> None:
        """Read again; ``quiet_s`` counts from the last completion, or from when no request was open."""
        now, last = self._read(), self._last
        if now is None or last is None:
            return
        moved = (now.done, now.flushes) != (last.done, last.flushes)
        if moved or not now.in_flight or not last.in_flight:
            self._moved_s = now.at_s
        self._most = max(self._most, now.in_flight)
        self._last = now

    def delta(self) -> Delta | None:
        """Return what happened since the start."""
        first, last = self._first, self._last
        if first is None or last is None:
            return None
        seconds, done = last.at_s - first.at_s, last.done - first.done
        span_ms = max(1.0, seconds * 1000)
        return Delta(
            disk=self._disk.name,
            seconds=seconds,
            done=done,
            writes=last.writes - first.writes,
            flushes=last.flushes - first.flushes,
            written_kib=last.written_kib - first.written_kib,
            await_ms=(last.waited_ms - first.waited_ms) / done if done > 0 else None,
            in_flight=last.in_flight,
            in_flight_max=self._most,
            queue=(last.queue_ms - first.queue_ms) / span_ms,
            busy_pct=min(100.0, 100.0 * (last.busy_ms - first.busy_ms) / span_ms),
            quiet_s=last.at_s - self._moved_s,
        )

    def restart(self) -> None:
        """Begin a new span; what stands still goes on standing still."""
        self._first = self._last
        self._most = self._last.in_flight if self._last else 0


class Watches:
    """Follows every disk below a file system."""

    def __init__(self, disks: Sequence[Disk]) -> None:
        self._all = [DiskWatch(disk) for disk in disks]
        self._next_s = 0.0

    def look(self, *, even_if_just_done: bool = False) -> None:
        now = time.monotonic()
        if even_if_just_done or now >= self._next_s:
            self._next_s = now + STEP_S
            for watch in self._all:
                watch.look()

    def restart(self) -> None:
        for watch in self._all:
            watch.restart()

    def slowest(self) -> Delta | None:
        """Pick the disk that has stood still longest, then the slowest: the others wait for it."""
        deltas = [delta for watch in self._all if (delta := watch.delta()) is not None]
        return max(deltas, key=lambda delta: (delta.quiet_s, delta.await_ms or 0.0), default=None)


def io_pressure_us() -> dict[str, int]:
    """Total microseconds of I/O pressure, by kind; empty if the kernel keeps none."""
    totals = {}
    for line in read_text("/proc/pressure/io").splitlines():
        kind, _, rest = line.partition(" ")
        totals[kind] = parse_integer(rest.rpartition("total=")[2]) or 0
    return totals


def cpu_pressure_pct() -> float:
    """Share of the last ten seconds in which some task waited for a processor; 0 if the kernel keeps none."""
    fields = read_text("/proc/pressure/cpu").split()
    share = next((field[6:] for field in fields if field.startswith("avg10=")), "0")
    return parse_number(share, 101) or 0.0
