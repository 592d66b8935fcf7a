"""Which threads are in state D: they wait for a disk or a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from ddprobe_source.host.child_task import STEP_S
from ddprobe_source.host.files import read_text
from ddprobe_source.judgement.disks import Mount, Site, mount_of, parse_mounts, upper_dir_of
from ddprobe_source.judgement.tasks import STILL_S, TaskSample
from ddprobe_source.judgement.text import parse_integer, sanitise, sum_counts

PAUSE_SHARE: Final = 25
"""The pause after a pass, as a multiple of the time the pass took."""
MAX_FILES: Final = 256


class Observer:
    """Looks for threads in state D, in a child of its own: even this reading might block one day."""

    def __init__(self, site: Site, own_pid: int, top: int) -> None:
        self._site, self._own, self._top = site, own_pid, top
        self._names = tuple(
            f"/{name}" for name in {site.partition, *(disk.name for disk in site.disks)} if name
        )
        self._devs = tuple(f"flush-{dev}" for dev in {site.mount.dev, *(disk.dev for disk in site.disks)})
        self._samples: dict[int, TaskSample] = {}
        self._files: dict[int, bool] = {}
        self._space = _mount_space("self")
        self._spaces: dict[str, tuple[Mount, ...]] = {}
        self._now: set[int] = set()
        self.passes, self.spent_s, self.most, self.main_only = 0, 0.0, 0, 0
        self.most_here = 0
        self._own_seen = self._own_in_d = 0
        self._own_wchans: list[str] = []

    def watch(self, send: Callable[[object], None]) -> NoReturn:
        """Pass after pass, with pauses that keep it below 4 % of one processor.

        The first pause is no longer than it takes to see who has not run since.
        """
        while True:
            began_s = time.monotonic()
            self.one_pass()
            send(self.summary())
            cost_s = time.monotonic() - began_s
            self.spent_s += cost_s
            pause_s = max(STEP_S, PAUSE_SHARE * cost_s)
            time.sleep(min(pause_s, STILL_S) if self.passes == 1 else pause_s)

    def one_pass(self) -> None:
        """Note every thread that is in D now."""
        now_s, blocked, main = time.monotonic(), 0, 0
        self._now = set()
        self._files = {pid: True for pid, is_here in self._files.items() if is_here}
        self._spaces = {}
        for pid, tid, comm in self._in_state_d():
            blocked += 1
            main += pid == tid
            self._note(pid, tid, comm, now_s)
        self.passes += 1
        self.most, self.main_only = max(self.most, blocked), max(self.main_only, main)
        self.most_here = max(self.most_here, sum(self._samples[tid].here for tid in self._now))

    def _in_state_d(self) -> Iterable[tuple[int, int, bytes]]:
        read, start, close = os.read, os.open, os.close
        for pid in os.listdir("/proc"):
            if not pid.isdigit():
                continue
            try:
                tids = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for tid in tids:
                try:
                    fd = start(f"/proc/{pid}/task/{tid}/stat", 0x80000)  # O_RDONLY | O_CLOEXEC
                except OSError:
                    continue
                try:
                    line = read(fd, 512)
                except OSError:
                    continue
                finally:
                    close(fd)
                end = line.rfind(b")")
                if line[end + 2 : end + 3] == b"D":
                    yield int(pid), int(tid), line[line.find(b"(") + 1 : end]
                elif pid == tid and int(pid) == self._own:
                    self._own_seen += 1

    def _note(self, pid: int, tid: int, comm: bytes, now_s: float) -> None:
        folder = f"/proc/{pid}/task/{tid}"
        status = read_text(f"{folder}/status", 8192)
        switches = _switches(status)
        sample = self._samples.get(tid)
        if sample is None or now_s - sample.last_s > 3600:  # noqa: PLR2004 - ids are used again
            sample = self._samples[tid] = TaskSample(now_s, switches)
            sample.comm = sanitise(comm)
            sample.unit = _unit_of(read_text(f"/proc/{pid}/cgroup", 4096))
        sample.is_root = belongs_to_root(status)
        wchan = read_text(f"{folder}/wchan", 256)
        sample.wchan = sanitise(wchan) if wchan not in ("", "0") else sample.wchan or "?"
        if switches != sample.switches:
            sample.switches, sample.still_s = switches, now_s
        sample.here = sample.here or pid == self._own or self._uses_this_disk(pid, sample.comm)
        sample.last_s = now_s
        self._now.add(tid)
        if pid == self._own:
            self._own_seen += 1
            self._own_in_d += 1
            self._own_wchans.append(sample.wchan)

    def _uses_this_disk(self, pid: int, comm: str) -> bool:
        if any(name in comm for name in self._names) or any(dev in comm for dev in self._devs):
            return True
        if pid not in self._files:
            mounts = self._mounts_of(pid)
            self._files[pid] = any(self._is_here(path, mounts) for path in _open_files(pid))
        return self._files[pid]

    def _mounts_of(self, pid: int) -> tuple[Mount, ...]:
        """Mounts as the process has them: in a container the names of its files say nothing about ours."""
        space = _mount_space(pid)
        if space in ("", self._space):
            return self._site.mounts
        if space not in self._spaces:
            self._spaces[space] = parse_mounts(read_text(f"/proc/{pid}/mountinfo", 1 << 18))
        return self._spaces[space]

    def _is_here(self, path: str, mounts: Sequence[Mount]) -> bool:
        mount = mount_of(path, mounts)
        if mount is not None and mount.fs == "overlay":  # what is written there lands in a folder of ours
            mount = mount_of(upper_dir_of(mount), self._site.mounts)
        return mount is not None and mount.dev == self._site.mount.dev

    def summary(self) -> dict[str, Any]:
        """What all passes saw so far, ready to be sent."""
        stuck = [sample for tid, sample in self._samples.items() if sample.is_stuck and tid in self._now]
        here = [sample.wchan for sample in stuck if sample.waits_here]
        return {
            "passes": self.passes,
            "pass_ms": 1000 * self.spent_s / max(1, self.passes - 1),
            "hidden": not os.path.exists("/proc/1/stat"),
            "most": self.most,
            "most_here": self.most_here,
            "distinct": len(self._samples),
            "main_only": self.main_only,
            "stuck": len(stuck),
            "stuck_here": len(here),
            "stuck_wchan": _most_common(here),
            "slow": len(self._samples) - len(stuck),
            "unattributed": sum(not sample.here for sample in self._samples.values()),
            "own_seen": self._own_seen,
            "own_in_d": self._own_in_d,
            "own_wchan": _most_common(self._own_wchans),
            "top": self._groups(),
        }

    def _groups(self) -> list[dict[str, Any]]:
        samples = self._samples.values()
        counts = sum_counts(((sample.comm, sample.wchan, sample.unit, sample.here), 1) for sample in samples)
        ranked = sorted(counts.items(), key=lambda item: (not item[0][3], -item[1], item[0]))[: self._top]
        return [
            {"comm": comm, "wchan": wchan, "unit": unit, "here": here, "count": count}
            for (comm, wchan, unit, here), count in ranked
        ]


def _most_common(names: Sequence[str]) -> str:
    counts = sum_counts((name, 1) for name in names)
    return max(counts, key=lambda name: counts[name], default="")


def _switches(status: str) -> int:
    """How often a thread gave up the processor: it stands still in a stall and rises under a limit."""
    total = 0
    for line in status.splitlines()[-4:]:
        if "ctxt_switches" in line:
            total += parse_integer(line.rpartition(":")[2]) or 0
    return total


def belongs_to_root(status: str) -> bool:
    """Whether a thread is root's or the kernel's, by its real and effective user in /proc/PID/status."""
    return "\nUid:\t0\t0\t" in status


def _unit_of(cgroup: str) -> str:
    """Name the systemd unit or the container from /proc/PID/cgroup."""
    for part in reversed(cgroup.splitlines()[-1].rpartition(":")[2].split("/") if cgroup else []):
        if part.endswith((".service", ".scope", ".slice")) or len(part) >= 64:  # noqa: PLR2004 - a container's id
            return sanitise(part if "." in part else part[:12])
    return ""


def _mount_space(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _open_files(pid: int) -> Iterable[str]:
    """Names behind a process's descriptors, by readlink: to stat them might wait for the disk."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:MAX_FILES]
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("/"):
            yield target
