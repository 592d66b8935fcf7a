"""Lookup: from a path to its mount and disks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from ddprobe_source.host.child_task import STEP_S, ChildTask, wait_for
from ddprobe_source.host.clock import boot_clock
from ddprobe_source.host.files import kind_of, list_names, name_of, read_mounts, read_text, resolve_links
from ddprobe_source.host.state_dirs import FileSystemLock, Lock, StateDirs, write_holder
from ddprobe_source.judgement.disks import (
    UNKNOWN_MOUNT,
    Disk,
    Mount,
    Site,
    mount_of,
    refuse_foreign,
    volume_id_of,
)
from ddprobe_source.judgement.record import ProbeError, UsageError
from ddprobe_source.judgement.tasks import STILL_S
from ddprobe_source.judgement.text import parse_integer, sanitise
from ddprobe_source.options import Options

MIN_LOOKUP_S: Final = 1.0
"""A path lookup has at least this much time: a busy host needs it, and ``--crit`` may be milliseconds."""


def lookup_limit_s(options: Options) -> float:
    """How long the lookup of the paths may take before it counts as stuck."""
    return max(options.crit, MIN_LOOKUP_S)


def find_site(
    path: str, within_s: float, volume_id: str | None = None, state_dirs: StateDirs | None = None
) -> Site:
    """Map a path to its mount and disks."""
    return Lookup(path, state_dirs).site(time.monotonic() + within_s, volume_id)


def find_allowed_site(options: Options, lookup: Lookup, until_s: float) -> Site:
    """Map a path to its mount and disks; raise if it is missing or the options do not allow it."""
    site = lookup.site(until_s, options.volume_id)
    if options.level != "passive":
        refuse_foreign(site, options.allow_fs)
    if options.require_ebs and site.answered and not site.volume_ids:
        device = site.partition or site.mount.source
        raise UsageError(f"{lookup.path} is on {device}, which is not an EBS volume (--require-ebs)")
    return site


class Lookup:
    """Follows a path to its mount and disks, in a child: that may already hang.

    With state directories there is one such child for a path, however many runs need it. The others wait for
    its lock, and read in it which name of the path it has not got past. If a write is stuck on the file
    system that the path was on before, no child is risked: that file system is the answer.
    """

    def __init__(self, path: str, state_dirs: StateDirs | None = None, *, writes: bool = False) -> None:
        self.path = path if path.startswith("/") else os.path.join(os.getcwd(), path)
        self._state_dirs, self._writes = state_dirs, writes
        self._mounts = read_mounts()
        self._child: ChildTask | None = None
        self._answer: dict[str, str] = {}
        if (stuck := self._stuck_path()) is not None:
            self._answer = {"path": stuck}
        else:
            self._advance()

    def _stuck_path(self) -> str | None:
        last_place = self._last_place()
        mount = mount_of(last_place, self._mounts) if last_place else None
        holder = self._state_dirs.holder_of(mount.key) if self._state_dirs and mount else None
        return last_place if holder and holder.age_s >= STILL_S else None

    def _last_place(self) -> str:
        """Where the path led when it was last looked up."""
        return read_text(self._state_dirs.path(f"{name_of(self.path)}.place")) if self._state_dirs else ""

    def _advance(self) -> None:
        """Start the child, unless that of another run is at it; take what it sends."""
        if self._child is None:
            lock = Lock(self._state_dirs, name_of(self.path)) if self._state_dirs else None
            if lock is None or lock.take():
                keep = [lock.fd] if lock else []
                self._child = ChildTask(lambda send: self._follow(send, lock), keep=keep)
            if lock:
                lock.close()
        if self._child:
            for part in self._child.receive():
                self._answer |= part

    def _follow(self, send: Callable[[object], None], lock: Lock | None) -> None:
        began, system_lock = (boot_clock(), time.time()), FileSystemLock(self._state_dirs, "lookup")

        def before_step(step: str) -> None:
            send({"at": step})
            if lock:
                write_holder(lock.fd, "lookup", began, step)
            system_lock.move_to(step)

        try:
            real, foreign_link = resolve_links(self.path, self._mounts, before_step)
            before_step(real)
            status = os.stat(real)
        except OSError as fault:
            send({"refused": f"{self.path}: {fault.strerror}; name a directory on the disk to look at"})
            return
        if kind_of(status) != "folder":
            problem = "is not a directory; ddprobe writes only a file of its own, so name a directory"
            send({"refused": f"{self.path} {problem}"})
        elif self._writes and foreign_link and os.geteuid() == 0:
            why = "a symbolic link of another user, which root does not follow to write"
            send({"refused": f"{self.path}: {foreign_link} is {why}; name {real}"})
        else:
            send({"path": real, "keep": "" if foreign_link else real})

    def site(self, until_s: float, volume_id: str | None = None) -> Site:
        """What was found by then. A site that has not answered has no disks, unless it is certain which."""
        while not (self._answer.keys() & {"path", "refused"} or (self._child and self._child.over)):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            wait_for([self._child.fd] if self._child else [], min(STEP_S / 5, left_s))
            self._advance()
        if self._child:
            self._child.give_up()
        if "refused" in self._answer:
            raise UsageError(self._answer["refused"])
        real, last_place, keep = self._answer.get("path"), self._last_place(), self._answer.get("keep", "")
        if self._state_dirs and keep not in ("", last_place) and keep.isprintable() and keep == keep.strip():
            self._state_dirs.write(f"{name_of(self.path)}.place", keep)
        holder = self._state_dirs.holder_of(name_of(self.path)) if self._state_dirs and not real else None
        reached = real or self._answer.get("at") or (holder.path if holder else "")
        mount = mount_of(reached, self._mounts) if reached else UNKNOWN_MOUNT
        if mount is None:
            raise ProbeError(
                f"{reached} is on no mount of /proc/self/mountinfo; name a directory of a mounted disk"
            )
        partition, raw = ChildTask(lambda send: send(_look_for_disks(mount))).answer(2.0) or ("", [])
        disks = tuple(Disk(**facts) for facts in raw)
        was_here = last_place and mount_of(last_place, self._mounts) == mount
        if volume_id and (real or was_here):
            disks = tuple(disk.replaced(volume_id=volume_id) for disk in disks)
        return Site(
            path=real or self.path, answered=bool(real), mount=mount, mounts=self._mounts,
            partition=partition, disks=disks,
        )  # fmt: skip


def _look_for_disks(mount: Mount) -> tuple[str, list[dict[str, Any]]]:
    start = os.path.realpath(f"/sys/dev/block/{mount.dev}")
    if not os.path.isdir(start) and mount.source.startswith("/dev/"):
        # btrfs shows no device number of its own, but names its device
        start = os.path.realpath(f"/sys/class/block/{os.path.basename(os.path.realpath(mount.source))}")
    if not os.path.isdir(start):
        return "", []
    disks = set().union(
        *(whole_disks(part) for part in [start, *_btrfs_parts(mount, os.path.basename(start))])
    )
    return os.path.basename(start), [_describe(folder) for folder in sorted(disks)]


def _btrfs_parts(mount: Mount, name: str, root: str = "/sys/fs/btrfs") -> list[str]:
    """Find every device of a btrfs, of which mountinfo names but one."""
    if mount.fs != "btrfs":
        return []
    for folder in list_names(root):
        parts = list_names(f"{root}/{folder}/devices")
        if name in parts:
            return [os.path.realpath(f"{root}/{folder}/devices/{part}") for part in parts]
    return []


def whole_disks(folder: str, depth: int = 0) -> set[str]:
    """Find what a block device is made of: its parent if it is a partition, its parts if it is dm or md."""
    parts = os.path.join(folder, "slaves")
    below = [os.path.realpath(os.path.join(parts, name)) for name in list_names(parts)]
    if below and depth < 8:  # noqa: PLR2004 - deeper stacks are not used
        return set().union(*(whole_disks(part, depth + 1) for part in below))
    return {os.path.dirname(folder) if os.path.exists(os.path.join(folder, "partition")) else folder}


def _describe(folder: str) -> dict[str, Any]:
    model = read_text(f"{folder}/device/model")
    return {
        "name": os.path.basename(folder),
        "dev": read_text(f"{folder}/dev"),
        "stat_path": f"{folder}/stat",
        "model": sanitise(model),
        "volume_id": volume_id_of(model, read_text(f"{folder}/device/serial")),
        "size_gib": max(0, parse_integer(read_text(f"{folder}/size")) or 0) * 512 / (1 << 30),
        "max_io_kib": max(0, parse_integer(read_text(f"{folder}/queue/max_sectors_kb")) or 0) or 256,
        "write_cache": read_text(f"{folder}/queue/write_cache") or "unknown",
    }
