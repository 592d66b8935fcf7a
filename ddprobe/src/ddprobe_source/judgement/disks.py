"""Mounts, disks and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ddprobe_source.judgement.record import Record, UsageError

MEMORY_FS: Final = ("tmpfs", "ramfs")
FOREIGN_FS: Final = (
    "tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "proc", "sysfs", "cgroup", "cgroup2",
    "overlay", "aufs", "squashfs", "erofs", "iso9660", "autofs", "fuse", "fuseblk", "virtiofs",
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "afs", "lustre", "gfs2", "ocfs2",
)  # fmt: skip
EBS_MODEL: Final = "Amazon Elastic Block Store"


class Mount(Record):
    """One line of mountinfo."""

    point: str
    dev: str
    fs: str
    source: str
    options: str
    read_only: bool

    @property
    def key(self) -> str:
        """Name the file system in file names and messages."""
        return self.dev.replace(":", "-")


UNKNOWN_MOUNT: Final = Mount(point="", dev="unknown", fs="", source="", options="", read_only=False)
"""Where a path is as long as its lookup has not said so: on no disk that could be accused."""


class Disk(Record):
    """A whole disk, and the volume it is."""

    name: str
    dev: str
    stat_path: str
    model: str
    volume_id: str | None
    size_gib: float
    max_io_kib: int
    write_cache: str


class Site(Record):
    """Where a path lives: what explain prints and every reading carries."""

    path: str
    answered: bool
    mount: Mount
    mounts: tuple[Mount, ...]
    partition: str
    disks: tuple[Disk, ...]

    @property
    def volume_ids(self) -> list[str]:
        return [disk.volume_id for disk in self.disks if disk.volume_id]

    @property
    def key(self) -> str:
        return self.mount.key


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Read /proc/self/mountinfo; malformed lines are left out."""
    mounts = []
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, more = head.split(), tail.split(" ")
        if separator and len(fields) >= 6 and len(more) >= 3:  # noqa: PLR2004 - see proc_pid_mountinfo(5)
            mounts.append(
                Mount(
                    point=_unescape(fields[4]),
                    dev=fields[2],
                    fs=more[0],
                    source=_unescape(more[1]),
                    options=_mount_options(fields[5], more[2]),
                    read_only="ro" in fields[5].split(","),
                )
            )
    return tuple(mounts)


def _mount_options(own: str, superblock: str) -> str:
    """Join the options of a mount and of its file system; ro where either is."""
    both = [option for part in (own, superblock) for option in part.split(",")]
    others = [option for option in dict.fromkeys(both) if option not in ("ro", "rw")]
    return ",".join(["ro" if "ro" in both else "rw", *others])


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Find the mount a path lies on by its name alone: no disk is asked."""
    best = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def volume_id_of(model: str, serial: str) -> str | None:
    """Read the volume's id from what an EBS device says of itself; nothing else is an EBS volume."""
    digits = serial.strip().removeprefix("vol").removeprefix("-")
    is_id = 8 <= len(digits) <= 17 and not digits.strip("0123456789abcdef")  # noqa: PLR2004 - old and new ids
    return f"vol-{digits}" if is_id and serial.startswith("vol") and model.strip() == EBS_MODEL else None


def upper_dir_of(mount: Mount) -> str:
    """Name the folder that an overlay writes to; "" if it does not write."""
    for option in mount.options.split(","):
        if option.startswith("upperdir="):
            return option[9:]
    return ""


def refuse_foreign(site: Site, allowed: Sequence[str]) -> None:
    """Raise if a write is not allowed, does harm, or would not measure a disk of this host."""
    fs = site.mount.fs
    if site.mount.read_only:  # the kernel makes the file system read-only after an I/O error, not the mount
        raise UsageError(
            f"{site.path} is mounted read-only ({site.mount.point}): name a directory that can be written,"
            " or use ddprobe passive"
        )
    if (fs not in FOREIGN_FS and not fs.startswith("fuse.")) or fs in allowed:
        return
    where = {
        "overlay": "its writes land in upperdir: name a directory there",
        "tmpfs": "it is memory: every write is fast, whatever the disk does; name a directory of a disk",
    }.get(fs, "a write there says nothing about a disk of this host; name a directory of a local disk")
    raise UsageError(f"{site.path} is on {fs}, {where}, or allow it with --allow-fs {fs}")
