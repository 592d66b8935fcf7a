#!/usr/bin/python3 -IS
"""ddprobe: how long does a synchronous write to this disk take, and who is stuck in state D meanwhile?

USAGE         ddprobe run|serve|passive|explain [OPTIONS] [PATH...]      (ddprobe --help)
REQUIREMENTS  Linux, Python 3.9 or newer, nothing else. Root sees every task; others see what they may.
OVERHEAD      Each run spends I/O credits: passive none, lite one write and one flush a time, classic 66
              and 20 flushes. The ladder spends 42 while all is well. No more than 1 % of 100 IOPS.

Most probes of a sick disk hang on it. This one keeps to these rules:
- whatever may block is done by a forked child, which nobody awaits beyond a deadline (ChildTask);
- one writer per file system: it holds a lock in memory, and the next run reports since when it is stuck;
- of other processes only stat, status, wchan, cgroup and fd/ are read: the rest of /proc takes mmap_lock;
- few modules are imported, because each of them is a read from a disk that may be sick. That is why there
  is no argparse, json or dataclass here, and why what an output needs is imported when it is asked for;
- it remedies nothing: it says what it saw.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final, NoReturn, dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Tell type checkers what Record does; they alone need to know."""
        return lambda cls: cls


VERSION: Final = "0.1.0"
READING_SCHEMA: Final = "burstwatch.reading/v1"
EVENT_SCHEMA: Final = "burstwatch.probe/v1"

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
LARGEST_EBS_IO: Final = 256 * KIB

WAITS_IN_CLASSIC: Final = 49
"""Turns the classic dd takes in the device's queue: 4.9 per MiB were measured on ext4."""
WAITS_IN_LITE: Final = 2
"""One for the data, one for the flush."""
LITE_CREDITS: Final = 2
BULK_CREDITS: Final = 5
BULK_WRITES: Final = 2
"""A throughput limit shows in the size of a write. Limits let 0.1 s of bytes through at once: of a limit that
makes dd take 1 s, that is 1 MiB, so it takes a second MiB to see it."""
MOST_BULK_WRITES: Final = 4
BULK_AGREES: Final = 0.15
"""Two bulk writes that differ by less than this share show the pace of a limit, not its burst."""
APPENDS: Final = 3
"""Where a queue makes every lite write slow, this many MiB are written as dd writes them: how long the writes
of the journal wait there differs between kernels, limits and file systems (lab/bench/probe_compare.py)."""
SLOW_IN_A_ROW: Final = 5
"""So many slow lite writes are a queue; of a limit that hands out lumps of operations, some are quick."""
APPEND_CREDITS: Final = 5
"""Beside its data: the journal's descriptor and commit, two flushes, and what is written back later."""
LITE_PER_BULK_ALONE: Final = 2.0
LITE_PER_BULK_IN_A_QUEUE: Final = 1.3
"""Without appends, the journal's writes for a MiB of dd are taken to last as long as this many lite ones."""
LITE_AFTER_BULK: Final = 3
"""Lite writes after a slow bulk write: the ones before it may have been a limit's burst."""
SERIES_S: Final = 2.5
"""No further write is begun after this time: what took so long is proof."""
LONGEST_LITE_S: Final = SERIES_S / 4
"""A MiB of dd takes up to three lite writes: where those take longer, it would use up the time of the run."""
NEW_FILE_CREDITS: Final = 6
"""Journal writes and flushes that making our file costs, beside its data."""
USUAL_WRITES: Final = {"run": 16, "serve": 6}
"""Lite writes of the ladder: more operations than a limit of 100, or 300, a second hands out in one lump."""
CLASSIC_CREDITS: Final = 86
"""60 writes, 20 flushes and what the journal writes back later; whether flushes are charged is not known."""

STEP_S: Final = 0.1
OBSERVE_AFTER_S: Final = 0.2
"""A write done by then is healthy and pays for no look at the processes."""
PAUSE_SHARE: Final = 25
"""So many times as long as a pass took is the pause after it."""
SECOND_PASS_S: Final = 4.0
"""A look lasts at most so much longer, until a host with thousands of threads in D was seen twice."""
STILL_S: Final = 1.0
"""Requests in the device and none completed for this long: a stall, at any limit."""
NEAR_LINE: Final = 0.7
"""From this share of --warn up to its inverse an estimate is too rough: a measured dd decides."""
SLOW_WRITE_S: Final = 0.02
"""One lite write like that is chance, or the end of a lump of operations: as many more writes tell which."""
QUEUEING_MS: Final = 50.0
"""A device this slow has a queue: 16 ms were measured at 3,000 IOPS with 48 waiting, 455 ms at 100."""
BUSY_CPU_PCT: Final = 25.0
"""From this CPU pressure on, single slow writes say nothing about the disk."""
BASIS: Final = 5
"""Fewer completed requests say nothing about a device."""
IDLE_PCT: Final = 5.0
"""A device that is busy for less of the time is not what a write waits for."""
MOST_FILES: Final = 256
MOST_LINKS: Final = 40
"""As many symbolic links as the kernel follows in one path."""
TASK_NAME: Final = 64


# ---------------------------------------------------------------- values


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """Named values that do not change; the standard library's own would import a dozen modules."""

    def __init__(self, **fields: Any) -> None:
        wanted = type(self).__annotations__
        if fields.keys() != wanted.keys():
            differing = ", ".join(sorted(fields.keys() ^ wanted.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {differing}")
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class ProbeError(Exception):
    """What keeps us from measuring: the message names the value, the limit and the next step."""


class UsageError(ProbeError):
    """The command line, or what it names, is not what we take."""


# ---------------------------------------------------------------- text


def json_text(value: object) -> str:
    """Write a value as JSON on one line: the standard module costs ten more files to read at start."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(round(value, 6)) if abs(value) < 1e15 else "null"  # noqa: PLR2004 - and so for inf and nan
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_string(str(k))}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json_text(item) for item in value) + "]"
    raise TypeError(f"no JSON for {type(value).__name__}")


def json_string(text: str) -> str:
    """Quote; everything outside printable ASCII becomes an escape, so that no reader can be led astray."""
    written = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            written.append("\\" + char)
        elif 0x20 <= code < 0x7F:  # noqa: PLR2004 - printable ASCII
            written.append(char)
        elif code <= 0xFFFF:  # noqa: PLR2004 - one UTF-16 unit
            written.append(f"\\u{code:04x}")
        else:
            code -= 0x10000
            written.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
    return '"' + "".join(written) + '"'


def plain(raw: bytes | str, most: int = TASK_NAME) -> str:
    """Show a name that others chose: no control characters, not longer than it may be."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return "".join(char if char.isprintable() else "?" for char in text.strip())[:most]


def whole(text: str) -> int | None:
    """Read a number that the kernel counted, of 64 bits at most; None for what is none."""
    digits = text.strip()
    digits = digits.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 20  # noqa: PLR2004 - 2**64
    return int(text) if is_number else None


def instant(at_s: float) -> str:
    """ISO 8601, UTC, milliseconds."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_s))}.{int(at_s * 1000) % 1000:03d}Z"


def duration(seconds: float) -> str:
    """Three figures and a unit."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 180 else f"{seconds / 60:.0f} min"  # noqa: PLR2004 - three minutes


def median(values: Sequence[float]) -> float:
    """Middle one; the lower of two."""
    return sorted(values)[(len(values) - 1) // 2]


def say(text: str) -> None:
    """Words go to stderr, where they cannot spoil data, and are dropped where nobody takes them."""
    write_stream(2, text + "\n")


def read_text(path: str, most: int = 65536) -> str:
    """Content of a small file of the kernel's, or "" where there is none or we may not look."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, most).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


# ---------------------------------------------------------------- child tasks

_left_behind: list[int] = []


class ChildTask:
    """A forked child that does one thing which may never end. Nobody waits for it without a deadline."""

    def __init__(self, work: Callable[[Callable[[object], None]], None], *, keep: Sequence[int] = ()) -> None:
        """Start ``work(send)``, with the files it is to keep; what it sends comes out of ``receive``."""
        self.fd, child_end = os.pipe()
        self.over = False
        self.status: int | None = None
        self._pending = b""
        try:
            self.pid = os.fork()
        except OSError as fault:
            os.close(self.fd)
            os.close(child_end)
            raise ProbeError(
                f"no process can be started ({fault.strerror}): allow more tasks (TasksMax, ulimit -u),"
                " or name fewer paths"
            ) from None
        if self.pid == 0:
            _be_the_child(work, child_end, keep)
        os.close(child_end)
        os.set_blocking(self.fd, False)

    def receive(self) -> list[Any]:
        """Everything that has arrived; ``over`` is true once nothing can follow."""
        while not self.over:
            try:
                chunk = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            self._pending += chunk
            self.over = not chunk
        arrived = []
        while len(self._pending) >= 4:  # noqa: PLR2004 - the length in front
            end = 4 + int.from_bytes(self._pending[:4], "little")
            if len(self._pending) < end:
                break
            arrived.append(marshal.loads(self._pending[4:end]))
            self._pending = self._pending[end:]
        return arrived

    def answer(self, within_s: float) -> Any:
        """Give the last thing it sent before it ended, or None when it took too long; then it is given up."""
        until_s = time.monotonic() + within_s
        frames: list[Any] = []
        while not self.over and (left_s := until_s - time.monotonic()) > 0:
            wait_for([self.fd], min(STEP_S, left_s))
            frames += self.receive()
        frames += self.receive()
        self.give_up()
        return frames[-1] if frames else None

    def has_ended(self) -> bool:
        """Whether the process is gone; never blocks."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.status = status
        return self.status is not None

    def give_up(self) -> None:
        """Kill it if it still runs and wait but a moment: in state D it dies when the disk answers."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd, self.over = -1, True
        if not self.has_ended():
            kill(self.pid)
        for _ in range(20):
            if self.has_ended():
                return
            time.sleep(0.001)
        _left_behind.append(self.pid)


def _be_the_child(work: Callable[[Callable[[object], None]], None], fd: int, keep: Sequence[int]) -> NoReturn:
    def send(value: object) -> None:
        raw = marshal.dumps(value)  # type: ignore[arg-type] # what marshal cannot take is a fault of ours
        os.write(fd, len(raw).to_bytes(4, "little") + raw)

    try:
        os.setsid()
        _forget_handlers()
        _drop_files({fd, *keep})
        work(send)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child of a probe never speaks, it only ends
        os._exit(70)


def _forget_handlers() -> None:
    signal = sys.modules.get("signal")
    if signal is not None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def _drop_files(keep: set[int]) -> None:
    """Hold nothing of the caller's: an open pipe of a stuck child makes the caller wait as well."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in _open_numbers():
        if fd > 2 and fd not in keep:  # noqa: PLR2004 - after stderr
            try:
                os.close(fd)
            except OSError:
                pass


def _open_numbers() -> Sequence[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(1024)  # no /proc: as many as a process has by default


def kill(pid: int) -> None:
    """Ask the kernel to end it, as soon as it leaves state D."""
    try:
        os.kill(pid, 9)
    except (ProcessLookupError, PermissionError):
        pass


def reap() -> None:
    """Collect children that were given up and have ended since."""
    for pid in list(_left_behind):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _left_behind.remove(pid)
        except ChildProcessError:
            _left_behind.remove(pid)


def wait_for(fds: Iterable[int], within_s: float) -> None:
    """Return when something can be read, or the time is over."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    poll.poll(max(0, int(within_s * 1000 + 0.999)))


def kind_of(status: os.stat_result) -> str:
    """Say what a name stands for, without the module that has names for the bits."""
    return {0o100000: "file", 0o040000: "folder", 0o120000: "link"}.get(status.st_mode & 0o170000, "other")


def boot_clock() -> float:
    """Seconds since boot, suspended time included: comparable between processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def startup_s() -> float | None:
    """Seconds since this process was started: on a sick root disk the interpreter alone takes many."""
    words = read_text("/proc/self/stat").rpartition(")")[2].split()
    if len(words) < 20:  # noqa: PLR2004 - starttime is the 22nd field, the 20th after the name
        return None
    return max(0.0, boot_clock() - int(words[19]) / os.sysconf("SC_CLK_TCK"))


# ---------------------------------------------------------------- mount, disk, volume

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


NOWHERE: Final = Mount(point="", dev="unknown", fs="", source="", options="", read_only=False)
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
    """Read /proc/self/mountinfo; lines that are none are left out."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, more = left.split(), right.split(" ")
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


def find_site(
    path: str, within_s: float, volume_id: str | None = None, state_dirs: StateDirs | None = None
) -> Site:
    """Map a path to its mount and disks."""
    return Lookup(path, state_dirs).site(time.monotonic() + within_s, volume_id)


def find_allowed_site(options: Options, lookup: Lookup, until_s: float) -> Site:
    """Map a path to its mount and disks; raise where it is missing or the options do not allow it."""
    site = lookup.site(until_s, options.volume_id)
    if options.level != "passive":
        refuse_foreign(site, options.allow_fs)
    if options.require_ebs and site.answered and not site.volume_ids:
        device = site.partition or site.mount.source
        raise UsageError(f"{lookup.path} is on {device}, which is no EBS volume (--require-ebs)")
    return site


class Lookup:
    """Follows a path to its mount and disks, in a child: that may already hang.

    With state directories there is one such child for a path, however many runs ask: the others wait for its
    lock, and read in it which name of the path it has not got past. Where a write has been stuck on the file
    system that the path was on before, no child is risked: that file system is the answer.
    """

    def __init__(self, path: str, state_dirs: StateDirs | None = None, *, writes: bool = False) -> None:
        self.path = path if path.startswith("/") else os.path.join(os.getcwd(), path)
        self._state_dirs, self._writes = state_dirs, writes
        self._mounts = parse_mounts(read_text("/proc/self/mountinfo", 1 << 20))
        self._child: ChildTask | None = None
        self._said: dict[str, str] = {}
        if (stuck := self._known_to_be_stuck()) is not None:
            self._said = {"path": stuck}
        else:
            self._advance()

    def _known_to_be_stuck(self) -> str | None:
        kept = self._kept()
        mount = mount_of(kept, self._mounts) if kept else None
        holder = self._state_dirs.holder_of(mount.key) if self._state_dirs and mount else None
        return kept if holder and holder.age_s >= STILL_S else None

    def _kept(self) -> str:
        """Where the path led when it was last looked up."""
        return read_text(self._state_dirs.path(f"{name_of(self.path)}.place")) if self._state_dirs else ""

    def _advance(self) -> None:
        """Start the child, unless that of another run is at it; take what it says."""
        if self._child is None:
            lock = Lock(self._state_dirs, name_of(self.path)) if self._state_dirs else None
            if lock is None or lock.take():
                keep = [lock.fd] if lock else []
                self._child = ChildTask(lambda send: self._follow(send, lock), keep=keep)
            if lock:
                lock.close()
        if self._child:
            for said in self._child.receive():
                self._said |= said

    def _follow(self, send: Callable[[object], None], lock: Lock | None) -> None:
        began, touch = (boot_clock(), time.time()), Touch(self._state_dirs, "lookup")

        def reach(step: str) -> None:
            send({"at": step})
            if lock:
                note_holder(lock.fd, "lookup", began, step)
            touch.reach(step)

        try:
            real, stranger = follow(self.path, self._mounts, reach)
            reach(real)
            status = os.stat(real)
        except OSError as fault:
            send({"refused": f"{self.path}: {fault.strerror}; name a directory on the disk to look at"})
            return
        if kind_of(status) != "folder":
            what = "is not a directory; ddprobe writes only a file of its own, so name a directory"
            send({"refused": f"{self.path} {what}"})
        elif self._writes and stranger and os.geteuid() == 0:
            why = "a symbolic link of another user, which root does not follow to write"
            send({"refused": f"{self.path}: {stranger} is {why}; name {real}"})
        else:
            send({"path": real, "keep": "" if stranger else real})

    def site(self, until_s: float, volume_id: str | None = None) -> Site:
        """What was found by then. A site that has not answered has no disks, unless it is certain which."""
        while not (self._said.keys() & {"path", "refused"} or (self._child and self._child.over)):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            wait_for([self._child.fd] if self._child else [], min(STEP_S / 5, left_s))
            self._advance()
        if self._child:
            self._child.give_up()
        if "refused" in self._said:
            raise UsageError(self._said["refused"])
        real, kept, keep = self._said.get("path"), self._kept(), self._said.get("keep", "")
        if self._state_dirs and keep not in ("", kept) and keep.isprintable() and keep == keep.strip():
            self._state_dirs.write(f"{name_of(self.path)}.place", keep)
        holder = self._state_dirs.holder_of(name_of(self.path)) if self._state_dirs and not real else None
        reached = real or self._said.get("at") or (holder.at if holder else "")
        mount = mount_of(reached, self._mounts) if reached else NOWHERE
        if mount is None:
            raise ProbeError(
                f"{reached} is on no mount of /proc/self/mountinfo; name a directory of a mounted disk"
            )
        partition, raw = ChildTask(lambda send: send(_look_for_disks(mount))).answer(2.0) or ("", [])
        disks = tuple(Disk(**facts) for facts in raw)
        was_here = kept and mount_of(kept, self._mounts) == mount
        if volume_id and (real or was_here):
            disks = tuple(Disk(**(vars(disk) | {"volume_id": volume_id})) for disk in disks)
        return Site(
            path=real or self.path, answered=bool(real), mount=mount, mounts=self._mounts,
            partition=partition, disks=disks,
        )  # fmt: skip


def name_of(path: str) -> str:
    """Name a path in names of files: the standard library's digests would be modules more to read."""
    return f"path-{int.from_bytes(os.fsencode(path), 'little') % ((1 << 61) - 1):x}"


def follow(path: str, mounts: Sequence[Mount], reach: Callable[[str], None]) -> tuple[str, str | None]:
    """Follow a path name by name, as the kernel does, and say by ``reach`` which name is looked up next.

    Gives the path without symbolic links, and the last link of another user that it led through. Where
    something is mounted, and above such a place, no disk is asked: those directories cannot be replaced.
    """
    real, names, links, stranger = "/", path.split("/")[::-1], 0, None
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        step = os.path.join(real, name)
        if any(f"{mount.point}/".startswith(f"{step}/") for mount in mounts):
            real = step
            continue
        reach(step)
        status = os.lstat(step)
        if kind_of(status) != "link":
            real = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if status.st_uid not in (0, os.geteuid()):
            stranger = step
        target = os.readlink(step)
        real = "/" if target.startswith("/") else real
        names += target.split("/")[::-1]
    return real, stranger


def open_folder(real: str) -> int:
    """Open a directory whose path was followed; raises OSError where it is reached through a link now."""
    fd = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{fd}") != real:
        os.close(fd)
        raise OSError(errno.EPERM, f"{real} leads through a symbolic link that was not there before")
    return fd


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
    for folder in _names(root):
        parts = _names(f"{root}/{folder}/devices")
        if name in parts:
            return [os.path.realpath(f"{root}/{folder}/devices/{part}") for part in parts]
    return []


def whole_disks(folder: str, depth: int = 0) -> set[str]:
    """Find what a block device stands on: its parent if it is a partition, its parts if it is dm or md."""
    parts = os.path.join(folder, "slaves")
    below = [os.path.realpath(os.path.join(parts, name)) for name in _names(parts)]
    if below and depth < 8:  # noqa: PLR2004 - nobody stacks more
        return set().union(*(whole_disks(part, depth + 1) for part in below))
    return {os.path.dirname(folder) if os.path.exists(os.path.join(folder, "partition")) else folder}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _describe(folder: str) -> dict[str, Any]:
    model = read_text(f"{folder}/device/model")
    return {
        "name": os.path.basename(folder),
        "dev": read_text(f"{folder}/dev"),
        "stat_path": f"{folder}/stat",
        "model": plain(model),
        "volume_id": volume_id_of(model, read_text(f"{folder}/device/serial")),
        "size_gib": max(0, whole(read_text(f"{folder}/size")) or 0) * 512 / (1 << 30),
        "max_io_kib": max(0, whole(read_text(f"{folder}/queue/max_sectors_kb")) or 0) or 256,
        "write_cache": read_text(f"{folder}/queue/write_cache") or "unknown",
    }


def refuse_foreign(site: Site, allowed: Sequence[str]) -> None:
    """Raise where a write is not allowed, does harm, or would not measure a disk of this host."""
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


# ---------------------------------------------------------------- the writer


NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


def write_file(
    plan: Plan, send: Callable[[object], None], lock: int | None = None, dd_output: int = 2
) -> None:
    """Do the writes and say when each was done. Runs in a child: any line of it may never return."""
    parent, fd = os.getppid(), -1
    if lock is not None:
        note_writer(lock, plan)
    send(("began", time.monotonic()))
    try:
        fd = open_own_file(plan)
        waited_s = _waited_for_cpu_s()
        if plan.level == "classic":
            os.ftruncate(fd, 0)
        else:
            fd, plan = make_blocks(fd, plan, send)
        send(("opened", time.monotonic()))
        if plan.engine == "dd" and plan.level == "classic":
            _become_dd(fd, send, dd_output)
        took_s: dict[str, list[float]] = {kind: [] for kind in BLOCK_BYTES}
        blocks = {size: _block(plan, size) for size in set(BLOCK_BYTES.values())}
        while (kind := next_write(plan, took_s)) is not None and os.getppid() == parent:
            try:
                if kind == "append" and not took_s["append"]:
                    make_room(fd, plan)
                began_s = time.monotonic()
                _write_whole(fd, blocks[BLOCK_BYTES[kind]], offset_of(kind, took_s))
            except OSError as fault:
                if kind == "bulk":
                    plan = _without_bulk(plan, fault, send)
                elif kind == "append" and fault.errno in NO_ROOM:
                    plan = Plan(**(vars(plan) | {"appends": 0}))
                    fd = _shrink(fd, BLOCK_BYTES["bulk"], plan)
                else:
                    raise
                continue
            took_s[kind].append(time.monotonic() - began_s)
            send(("wrote", kind, took_s[kind][-1]))
        written_s = time.monotonic()
        os.close(fd)
        send(("cpu", _waited_for_cpu_s() - waited_s))
        send(("closed", written_s, time.monotonic()))
    except OSError as fault:
        if fd >= 0 and plan.level == "classic":
            remove_own_file(plan)
        send(("failed", errno.errorcode.get(fault.errno or 0, "?"), fault.strerror or str(fault)))


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


def make_blocks(fd: int, plan: Plan, send: Callable[[object], None]) -> tuple[int, Plan]:
    """Write the blocks that do not exist: then they are written in place. Where there is no room, less is."""
    size = os.fstat(fd).st_size
    if plan.bulk and size < BLOCK_BYTES["bulk"]:
        try:
            _write_whole(fd, _block(plan, BLOCK_BYTES["bulk"]), 0)
            send(("made", BLOCK_BYTES["bulk"]))
        except OSError as fault:
            plan = _without_bulk(plan, fault, send)
            fd = _shrink(fd, size, plan)
    if os.fstat(fd).st_size < LITE_BYTES:
        _write_whole(fd, _block(plan, LITE_BYTES), 0)
        send(("made", LITE_BYTES))
    return fd, plan


def _shrink(fd: int, size: int, plan: Plan) -> int:
    """Give back what a quota let through; where btrfs refuses that as well, begin a new file."""
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        remove_own_file(plan)
        return open_own_file(plan)
    return fd


def open_own_file(plan: Plan) -> int:
    """Open the one file we write: ours, regular, with one name, on this file system, with room beside it.

    Its name begins with .ddprobe (see the command line), and its size is one that we leave: a file that
    somebody else made is neither written nor truncated.
    """
    folder_name, name = os.path.split(plan.path)
    folder = open_folder(folder_name)
    try:
        fd = _open_own_file_in(folder, name, plan)
        if os.fstat(fd).st_dev != os.fstat(folder).st_dev:
            raise OSError(
                errno.EXDEV,
                f"{plan.path} is not on the disk of its directory; of an overlay, name its upperdir",
            )
    finally:
        os.close(folder)
    return fd


def _open_own_file_in(folder: int, name: str, plan: Plan) -> int:
    how = os.O_SYNC if plan.level == "classic" else os.O_DSYNC
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | how
    refusal = OSError(errno.EPERM, f"{plan.path} is not a regular file: remove it, or choose another --file")
    try:
        if kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != "file":
            raise refusal
    except FileNotFoundError:
        pass
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    status = os.fstat(fd)
    if kind_of(status) != "file":
        raise refusal
    is_our_size = status.st_size % LITE_BYTES == 0 and status.st_size <= CLASSIC_BLOCK * CLASSIC_BLOCKS
    if status.st_nlink != 1 or status.st_uid != os.geteuid() or not is_our_size:
        raise OSError(errno.EPERM, f"{plan.path} is not ddprobe's own: remove it, or choose another --file")
    if plan.level == "classic":
        refuse_to_fill(fd, CLASSIC_BLOCK * CLASSIC_BLOCKS - status.st_blocks * 512, "a classic run")
    return fd


def refuse_to_fill(fd: int, growth: int, what: str) -> None:
    """Raise ENOSPC where less than 1 % of the file system would be free after this many bytes more."""
    room = os.fstatvfs(fd)
    needed = growth + room.f_blocks * room.f_frsize // 100
    if growth > 0 and room.f_bavail * room.f_frsize < needed:
        raise OSError(errno.ENOSPC, f"less than {needed // MIB} MiB free: {what} would fill the disk")


def make_room(fd: int, plan: Plan) -> None:
    """Cut off what earlier runs appended: only blocks that are new cost the journal what dd costs."""
    refuse_to_fill(fd, plan.appends * CLASSIC_BLOCK, "appending")
    os.ftruncate(fd, BLOCK_BYTES["bulk"])


def remove_own_file(plan: Plan, state_dirs: StateDirs | None = None) -> None:
    """Give back what was written before a write failed: part of a file may be all that a quota allows.

    It is not truncated, because btrfs refuses that too while the quota is full.
    """
    Touch(state_dirs, "output", 0.0).reach(plan.path)
    folder_name, name = os.path.split(plan.path)
    try:
        os.unlink(name, dir_fd=open_folder(folder_name))
    except OSError:
        pass  # the failure before it is what counts


def _without_bulk(plan: Plan, fault: OSError, send: Callable[[object], None]) -> Plan:
    """Leave out the large writes where there is no room for them; any other fault is the disk's."""
    if fault.errno not in NO_ROOM:
        raise fault
    send(("no bulk", f"{fault.strerror} ({errno.errorcode[fault.errno]})"))
    return Plan(**(vars(plan) | {"bulk": 0, "appends": 0}))


def _block(plan: Plan, size: int) -> bytes:
    """Give bytes that are in memory: other pages the kernel copies in parts, and reads blocks for that."""
    return os.urandom(size) if plan.data == "random" else b"\0" * size


def _write_whole(fd: int, block: bytes, offset: int) -> None:
    done = 0
    while done < len(block):
        done += os.pwrite(fd, block[done:], offset + done)


def _become_dd(fd: int, send: Callable[[object], None], words: int) -> None:
    """Run dd itself, on the file that was checked. It keeps lock and pipe, which closes when it ends."""
    os.dup2(words, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):  # noqa: PLR2004 - after stderr
            os.set_inheritable(int(name), True)
    target = f"of=/proc/self/fd/{fd}"
    for folder in ("/usr/bin", "/bin"):
        try:
            os.execve(  # noqa: S606 - no shell is wanted
                f"{folder}/dd",
                ["dd", "if=/dev/zero", target, "bs=1M", f"count={CLASSIC_BLOCKS}", "oflag=sync"],
                {**os.environ, "LC_ALL": "C"},  # its words are looked for an error
            )
        except FileNotFoundError:
            continue
    send(("failed", "ENOENT", "no dd in /usr/bin or /bin: use --engine inproc, which writes the same"))
    os._exit(1)


def dd_failure(status: int, words: str) -> tuple[str, str]:
    """Name the error that dd ended with, by its words; one that it does not name accuses no disk."""
    if not os.WIFEXITED(status):
        return "?", "dd was killed: is memory short?"
    for number, code in errno.errorcode.items():
        if f": {os.strerror(number)}\n" in words:
            return code, os.strerror(number)
    return "?", f"dd ended with status {os.WEXITSTATUS(status)}"


def _waited_for_cpu_s() -> float:
    """Time this task was runnable and did not run."""
    words = read_text("/proc/self/schedstat").split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0


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


# ---------------------------------------------------------------- memory of a host: locks, medians, allowance

HISTORY: Final = 31
FEWEST_FOR_A_MEDIAN: Final = 3
ALLOWANCE_S: Final = 600.0
"""Credits not spent are kept for so long: an operator's few runs in a row are let through."""


class StateDirs:
    """A folder in memory, where nothing waits for a disk: locks, what was measured, the newest reading."""

    def __init__(self, wanted: str | None) -> None:
        """Take the folder that is asked for, or the first usual one that is in memory and ours."""
        self.mounts = parse_mounts(read_text("/proc/self/mountinfo", 1 << 20))
        if not self.mounts:
            raise ProbeError("/proc/self/mountinfo cannot be read: mount /proc")
        faults = []
        for folder in [wanted] if wanted else _default_state_dirs():
            fault = _why_not_ours(os.path.abspath(folder), self.mounts)
            if fault is None:
                self.folder = os.path.abspath(folder)
                return
            faults.append(f"{folder} {fault}")
        raise UsageError(f"{', and '.join(faults)}; name another with --run-dir, such as /run/ddprobe")

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def ensure(self) -> None:
        """Make the folder again where somebody tidied it away."""
        fault = _why_not_ours(self.folder, self.mounts)
        if fault is not None:
            raise ProbeError(f"{self.folder} {fault}")

    def write(self, name: str, text: str) -> None:
        """Replace one small file whole."""
        path = self.path(name)
        try:
            self.ensure()
            replace_file(path, text)
        except (OSError, ProbeError) as fault:
            say(f"ddprobe: {path} not written: {fault}")

    def scratch(self) -> int:
        """Open a file in memory that has no name and is gone when it is closed."""
        self.ensure()
        name = self.path(f".scratch.{os.urandom(8).hex()}")
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.unlink(name)
        return fd

    def forget(self, name: str) -> None:
        """Remove one small file, unless another run just did."""
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            pass

    def holder_of(self, key: str) -> Writing | None:
        """Who holds a lock now; None where nobody does."""
        lock = Lock(self, key)
        holder = None if lock.take() else lock.holder()
        lock.close()
        return holder


_state_dirs_in_use: list[StateDirs] = []
"""The one of this process: what is written to a file by stdout or stderr takes a lock in it as well."""


def _default_state_dirs() -> list[str]:
    private = f"/dev/shm/ddprobe-{os.geteuid()}"  # noqa: S108 - made with mode 0700 and checked to be ours
    if os.geteuid() == 0:
        return ["/run/ddprobe", private]
    home = os.environ.get("XDG_RUNTIME_DIR")
    return ([f"{home}/ddprobe"] if home else []) + [private]


def _why_not_ours(folder: str, mounts: Sequence[Mount]) -> str | None:
    """Make a folder in memory, or say why it cannot be ours alone. Nothing of it is looked up on a disk."""
    mount = mount_of(folder, mounts)
    if mount is None or mount.fs not in MEMORY_FS:
        return (
            f"is on {mount.fs if mount else 'no mount'}, not in memory (tmpfs), and would hang with its disk"
        )
    step = mount.point
    for name in folder[len(mount.point) :].strip("/").split("/"):
        step = os.path.join(step, name)
        if step == folder:
            try:
                os.mkdir(folder, 0o755 if folder.startswith("/run/") else 0o700)
            except FileExistsError:
                pass
            except OSError as fault:
                return f"cannot be made: {fault.strerror}"
        try:
            status = os.lstat(step)
        except OSError as fault:
            return f"cannot be looked up: {fault.strerror}"
        if kind_of(status) != "folder":
            return f"cannot be used: {step} is not a directory"
        if step != folder and status.st_uid not in (0, os.geteuid()):
            return f"is below {step}, which belongs to another user"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "may be written by others" if status.st_mode & 0o022 else None


def replace_file(path: str, text: str, mode: int = 0o644) -> None:
    """Write beside it, then rename: a reader sees the old or the new one, never half."""
    folder_name, name = os.path.split(path)
    folder, new = open_folder(folder_name), f".{name}.{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o600, dir_fd=folder)
        try:
            write_all(fd, text.encode())
            os.fchmod(fd, mode)
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(new, dir_fd=folder)
            raise
        finally:
            os.close(fd)
    finally:
        os.close(folder)


def write_all(fd: int, raw: bytes) -> None:
    """Write to the end: the kernel may take less than it is given."""
    while raw:
        raw = raw[os.write(fd, raw) :]


class Writing(Record):
    """What holds a lock: a write of a level, a lookup, or an output."""

    pid: int
    level: str
    started_s: float
    age_s: float
    at: str


class Lock:
    """Lets one child at a time touch a file system, or look up a path; the child inherits and holds it."""

    def __init__(self, state_dirs: StateDirs, key: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        state_dirs.ensure()
        path = state_dirs.path(f"{key}.lock")
        try:
            self.fd = os.open(path, flags, 0o600)
            status = os.fstat(self.fd)
        except OSError as fault:
            raise ProbeError(f"{path} cannot be opened: {fault.strerror}; remove it") from None
        if kind_of(status) != "file" or status.st_uid != os.geteuid():
            os.close(self.fd)
            raise ProbeError(f"{path} is not ddprobe's own: remove it")

    def take(self) -> bool:
        """Try once."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(self.fd, 0)  # who held it before is of no concern any more
        return True

    def holder(self) -> Writing | None:
        """Who holds it, and since when; None in the instant before that is noted, or where it is no note."""
        words = os.pread(self.fd, 8192, 0).decode("utf-8", "surrogateescape").split(" ", 4)
        if len(words) < 5:  # noqa: PLR2004 - see note_holder
            return None
        pid, booted_s, started_s = whole(words[0]), _number(words[2]), _number(words[3], 1e11)
        if pid is None or pid <= 0 or not words[1].isalpha() or booted_s is None or started_s is None:
            return None
        age_s = max(0.0, boot_clock() - booted_s)
        return Writing(pid=pid, level=words[1], started_s=started_s, age_s=age_s, at=words[4])

    def close(self) -> None:
        """Drop our hold; a child that inherited it keeps its own."""
        os.close(self.fd)


def note_writer(fd: int, plan: Plan) -> None:
    """Write into the lock file, which is in memory, what we are about to write."""
    note_holder(fd, plan.level, (boot_clock(), time.time()), plan.path)


def note_holder(fd: int, level: str, began: tuple[float, float], at: str) -> None:
    """Write into the lock file who we are, since when, by both clocks, and what we wait for."""
    text = os.fsencode(f"{os.getpid()} {level} {began[0]:.3f} {began[1]:.3f} {at}")
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


class Touch:
    """Holds the lock of the file system that a child is about to touch, so that no second one hangs there."""

    def __init__(self, state_dirs: StateDirs | None, level: str, wait_s: float | None = None) -> None:
        """Wait so long for others, then raise; by default go on without the lock."""
        self._state_dirs, self._level, self._wait_s = state_dirs, level, wait_s
        self._began = (boot_clock(), time.time())
        self._key = ""
        self._lock: Lock | None = None

    def reach(self, path: str) -> None:
        """Let go of the file system before, and take the lock of the one that the path is on."""
        mount = mount_of(path, self._state_dirs.mounts) if self._state_dirs else None
        if self._state_dirs is None or mount is None:
            return
        if mount.key != self._key:
            if self._lock:
                self._lock.close()
            self._key, self._lock = mount.key, self._take(self._state_dirs, mount.key)
        if self._lock:
            note_holder(self._lock.fd, self._level, self._began, path)

    def _take(self, state_dirs: StateDirs, key: str) -> Lock | None:
        lock, until_s = Lock(state_dirs, key), time.monotonic() + (self._wait_s or 0.0)
        while not lock.take():
            if time.monotonic() < until_s:
                time.sleep(STEP_S / 10)
                continue
            holder = lock.holder()
            lock.close()
            if self._wait_s is None:
                return None
            who = (
                f"process {holder.pid} has waited {duration(holder.age_s)}" if holder else "another one waits"
            )
            raise BlockingIOError(errno.EAGAIN, f"{who} for this file system")
        return lock


class Memory:
    """What earlier runs on this file system measured while it was healthy, and what they spent."""

    def __init__(self, state_dirs: StateDirs, key: str, credits_per_s: float) -> None:
        self._state_dirs, self._name, self._rate = state_dirs, f"{key}.memory", credits_per_s
        self.healthy: dict[str, list[float]] = {"lite": [], "bulk": [], "classic": []}
        self.credits_total = 0.0
        self.classic_at_s = -1e9
        self.climb_s = 0.0
        self._left, self._at_s = self.most, boot_clock()
        self.reload()

    def reload(self) -> None:
        """Read what is remembered now: other runs may have added to it."""
        for line in read_text(self._state_dirs.path(self._name)).splitlines():
            word, _, numbers = line.partition(" ")
            try:
                self._recall(word, [float(number) for number in numbers.split()])
            except ValueError:
                continue

    def _recall(self, word: str, values: list[float]) -> None:
        """Take a line as save writes it: what cannot be would allow too much, or nothing ever again."""
        if not all(abs(value) < 1e12 for value in values):  # noqa: PLR2004 - and so neither inf nor nan
            return
        if word in self.healthy and all(value >= 0 for value in values):
            self.healthy[word] = values[-HISTORY:]
        elif word == "credits" and len(values) == 4 and values[2] >= 0:  # noqa: PLR2004 - as save writes them
            self._left, self._at_s, self.credits_total, self.classic_at_s = values
        elif word == "climb" and len(values) == 1 and values[0] >= 0:
            self.climb_s = values[0]

    @property
    def most(self) -> float:
        """Credits that may have been saved up."""
        return self._rate * ALLOWANCE_S

    def allowance(self) -> float:
        """Credits that may be spent now."""
        return min(self.most, self._left + max(0.0, boot_clock() - self._at_s) * self._rate)

    def spend(self, credits_spent: float, *, climbed: bool = False) -> None:
        """Charge credits before they are spent, so that a run beside us counts them; below 0 gives back."""

        def charge() -> None:
            self._left, self._at_s = min(self.most, self.allowance() - credits_spent), boot_clock()
            self.credits_total += credits_spent
            self.classic_at_s = boot_clock() if climbed else self.classic_at_s

        self._change(charge)

    def learn(self, healthy_s: dict[str, float]) -> None:
        """Remember how long each level took on the healthy disk."""

        def add() -> None:
            for level, seconds in healthy_s.items():
                self.healthy[level] = [*self.healthy[level], seconds][-HISTORY:]

        self._change(add)

    def keep_climb(self, took_s: float) -> None:
        """Remember the seconds of the last classic run of the ladder; 0 if it did not end."""

        def keep() -> None:
            self.climb_s = took_s

        self._change(keep)

    def _change(self, work: Callable[[], None]) -> None:
        """Add to what is remembered now, and nobody else meanwhile."""
        self._state_dirs.ensure()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._state_dirs.path(f"{self._name}.lock"), flags, 0o600)
        try:
            for _ in range(100):  # whoever holds it needs a millisecond, unless somebody stopped it
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.005)
            self.reload()
            work()
            self._save()
        finally:
            os.close(fd)

    def median_s(self, level: str) -> float | None:
        """Healthy median of a level, once there are enough to speak of one."""
        known = self.healthy.get(level, [])
        return median(known) if len(known) >= FEWEST_FOR_A_MEDIAN else None

    def _save(self) -> None:
        lines = [
            f"{level} {' '.join(f'{value:.6f}' for value in known)}" for level, known in self.healthy.items()
        ]
        lines.append(
            f"credits {self._left:.3f} {self._at_s:.3f} {self.credits_total:.3f} {self.classic_at_s:.3f}"
        )
        lines.append(f"climb {self.climb_s:.6f}")
        self._state_dirs.write(self._name, "\n".join(lines) + "\n")


# ---------------------------------------------------------------- what the kernel counts


class Counters(Record):
    """One disk's counters at one instant."""

    at_s: float
    done: int
    writes: int
    flushes: int
    waited_ms: int
    written_kib: int
    in_flight: int
    busy_ms: int
    queue_ms: int


def parse_counters(text: str, at_s: float) -> Counters | None:
    """Read /sys/block/X/stat; older kernels have fewer fields."""
    counts = [whole(word) for word in text.split()]
    f = [count for count in counts if count is not None]
    if len(f) < max(11, len(counts)):  # the fields every kernel has, and nothing but numbers
        return None
    f += [0] * 6
    return Counters(
        at_s=at_s,
        done=f[0] + f[4],
        writes=f[4],
        flushes=f[15],
        waited_ms=f[3] + f[7],
        written_kib=f[6] // 2,
        in_flight=f[8],
        busy_ms=f[9],
        queue_ms=f[10],
    )


class Delta(Record):
    """What one disk did in a span of time."""

    disk: str
    seconds: float
    done: int
    writes: int
    flushes: int
    written_kib: int
    await_ms: float | None
    in_flight: int
    in_flight_max: int
    queue: float
    busy_pct: float
    quiet_s: float

    @property
    def per_s(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, object]:
        """As the reading carries it."""
        return vars(self) | {"per_s": self.per_s}


def keeps_counters(disk: Disk) -> bool:
    """Whether the kernel counts this disk's I/O: queue/iostats can be 0."""
    return read_text(f"{os.path.dirname(disk.stat_path)}/queue/iostats") != "0"


class DiskWatch:
    """Follows the counters of one disk. Reading them asks no disk and takes no lock."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._counts = keeps_counters(disk)
        self._first = self._last = self._read()
        self._moved_s = time.monotonic()
        self._most = self._last.in_flight if self._last else 0

    def _read(self) -> Counters | None:
        return parse_counters(read_text(self._disk.stat_path), time.monotonic()) if self._counts else None

    def look(self) -> None:
        """Read again; ``quiet_s`` counts from when anything last came back, or nothing was asked for."""
        now, last = self._read(), self._last
        if now is None or last is None:
            return
        moved = (now.done, now.flushes) != (last.done, last.flushes)
        if moved or not now.in_flight or not last.in_flight:
            self._moved_s = now.at_s
        self._most = max(self._most, now.in_flight)
        self._last = now

    def delta(self) -> Delta | None:
        """Tell what happened since the start."""
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

    def sickest(self) -> Delta | None:
        """Pick the disk that has stood still longest, then the slowest: the others wait for it."""
        deltas = [delta for watch in self._all if (delta := watch.delta()) is not None]
        return max(deltas, key=lambda delta: (delta.quiet_s, delta.await_ms or 0.0), default=None)


def io_pressure_us() -> dict[str, int]:
    """Total microseconds of I/O pressure, by kind; empty where the kernel keeps none."""
    totals = {}
    for line in read_text("/proc/pressure/io").splitlines():
        kind, _, rest = line.partition(" ")
        totals[kind] = whole(rest.rpartition("total=")[2]) or 0
    return totals


def cpu_pressure_pct() -> float:
    """Share of the last ten seconds in which some task waited for a processor; 0 if the kernel keeps none."""
    words = read_text("/proc/pressure/cpu").split()
    share = next((word[6:] for word in words if word.startswith("avg10=")), "0")
    return _number(share, 101) or 0.0


# ---------------------------------------------------------------- who is in state D


class Tasks(Record):
    """What some passes over all threads saw."""

    passes: int
    pass_ms: float
    hidden: bool
    most: int
    most_here: int
    distinct: int
    main_only: int
    stuck: int
    stuck_here: int
    stuck_wchan: str
    slow: int
    unattributed: int
    own_seen: int
    own_in_d: int
    own_wchan: str
    top: list[dict[str, Any]]


class TaskSample:
    """One thread that was in state D."""

    __slots__ = ("comm", "first_s", "here", "is_root", "last_s", "still_s", "switches", "unit", "wchan")

    def __init__(self, now_s: float, switches: int) -> None:
        self.comm = self.wchan = self.unit = ""
        self.here = self.is_root = False
        self.first_s = self.last_s = self.still_s = now_s
        self.switches = switches

    @property
    def is_stuck(self) -> bool:
        """It has not run once for as long as a device may take at any limit."""
        return self.last_s - self.still_s >= STILL_S

    @property
    def waits_here(self) -> bool:
        """It waits for I/O or a lock, with a file on this disk: other waits in D any user can bring about.

        A user with a FUSE server of their own can also bring about the waits that every file system shares.
        Those count only for root's tasks and the kernel's, which do not enter such a file system.
        """
        waits = LOCK_WAITS + IO_WAITS if self.is_root else DISK_WAITS
        return self.here and self.wchan.startswith(waits)


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

    def watch(self, send: Callable[[object], None], until_s: float = 1e18) -> None:
        """Pass after pass, with pauses that keep it below 4 % of one processor.

        The first pause is no longer than it takes to see who has not run since.
        """
        while time.monotonic() < until_s:
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
            sample.comm = plain(comm)
            sample.unit = _unit_of(read_text(f"/proc/{pid}/cgroup", 4096))
        sample.is_root = is_roots(status)
        wchan = read_text(f"{folder}/wchan", 256)
        sample.wchan = plain(wchan) if wchan not in ("", "0") else sample.wchan or "?"
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
            mount = mount_of(upper_of(mount), self._site.mounts)
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
        counts: dict[tuple[str, str, str, bool], int] = {}
        for sample in self._samples.values():
            group = (sample.comm, sample.wchan, sample.unit, sample.here)
            counts[group] = counts.get(group, 0) + 1
        ranked = sorted(counts.items(), key=lambda item: (not item[0][3], -item[1], item[0]))[: self._top]
        return [
            {"comm": comm, "wchan": wchan, "unit": unit, "here": here, "count": count}
            for (comm, wchan, unit, here), count in ranked
        ]


def _most_common(names: Sequence[str]) -> str:
    counts = dict.fromkeys(names, 0)
    for name in names:
        counts[name] += 1
    return max(counts, key=lambda name: counts[name], default="")


def _switches(status: str) -> int:
    """How often a thread gave up the processor: it stands still in a stall and rises under a limit."""
    total = 0
    for line in status.splitlines()[-4:]:
        if "ctxt_switches" in line:
            total += whole(line.rpartition(":")[2]) or 0
    return total


def is_roots(status: str) -> bool:
    """Whether a thread is root's or the kernel's, by its real and effective user in /proc/PID/status."""
    return "\nUid:\t0\t0\t" in status


def _unit_of(cgroup: str) -> str:
    """Name the systemd unit or the container from /proc/PID/cgroup."""
    for part in reversed(cgroup.splitlines()[-1].rpartition(":")[2].split("/") if cgroup else []):
        if part.endswith((".service", ".scope", ".slice")) or len(part) >= 64:  # noqa: PLR2004 - a container's id
            return plain(part if "." in part else part[:12])
    return ""


def _mount_space(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def upper_of(mount: Mount) -> str:
    """Name the folder that an overlay writes to; "" where it does not write."""
    for option in mount.options.split(","):
        if option.startswith("upperdir="):
            return option[9:]
    return ""


def _open_files(pid: int) -> Iterable[str]:
    """Names behind a process's descriptors, by readlink: to stat them might wait for the disk."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:MOST_FILES]
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("/"):
            yield target


# ---------------------------------------------------------------- NVMe log page 0xD0

NVME_ADMIN_COMMAND: Final = 0xC0484E41
GET_LOG_PAGE: Final = 0x02
EBS_PAGE: Final = 0xD0
EBS_PAGE_BYTES: Final = 4096
EBS_MAGIC: Final = 0x3C23B510
INSTANCE_STORE_MAGIC: Final = 0xEC2C0D7E
NVME_FIELDS: Final = {
    "total_read_ops": 8,
    "total_write_ops": 16,
    "total_read_bytes": 24,
    "total_write_bytes": 32,
    "total_read_time": 40,
    "total_write_time": 48,
    "ebs_volume_performance_exceeded_iops": 56,
    "ebs_volume_performance_exceeded_tp": 64,
    "ec2_instance_ebs_performance_exceeded_iops": 72,
    "ec2_instance_ebs_performance_exceeded_tp": 80,
    "volume_queue_length": 88,
}
"""Offsets of the 64-bit counters; times are microseconds."""
NVME_NEW_NAMES: Final = {
    "ec2_instance_performance_exceeded_iops": "ec2_instance_ebs_performance_exceeded_iops",
    "ec2_instance_performance_exceeded_tp": "ec2_instance_ebs_performance_exceeded_tp",
}
"""What nvme-cli 2.16 and later call two of them."""


def parse_ebs_page(raw: bytes) -> dict[str, int]:
    """Read the counters of an EBS volume; raises ProbeError for anything else."""
    magic = int.from_bytes(raw[:4], "little")
    if magic == INSTANCE_STORE_MAGIC:
        raise ProbeError("the device is instance store, not an EBS volume")
    if len(raw) < EBS_PAGE_BYTES or magic != EBS_MAGIC:
        raise ProbeError(
            f"log page 0xD0 begins with {magic:#010x} in {len(raw)} bytes, not with {EBS_MAGIC:#x} in 4096"
        )
    return {name: int.from_bytes(raw[at : at + 8], "little") for name, at in NVME_FIELDS.items()}


def parse_nvme_json(text: str) -> dict[str, int]:
    """Read what ``ebsnvme stats -j`` or ``nvme amzn stats -o json`` printed, under either spelling."""
    import json

    try:
        counters = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ProbeError(f"no JSON of NVMe counters: {plain(str(fault), 200)}") from None
    if not isinstance(counters, dict):
        raise ProbeError("no JSON object of NVMe counters")
    named = {NVME_NEW_NAMES.get(name, name): value for name, value in counters.items()}
    return {name: named[name] for name in NVME_FIELDS if isinstance(named.get(name), int)}


def read_ebs_page(disk: Disk) -> dict[str, int]:
    """Ask the controller, in a child: nobody documents that it answers in a stall. Needs CAP_SYS_ADMIN."""
    import array

    page = array.array("B", bytes(EBS_PAGE_BYTES))
    address, _ = page.buffer_info()
    dwords = EBS_PAGE_BYTES // 4 - 1  # counted from 0
    command = bytearray(72)
    command[0] = GET_LOG_PAGE
    command[4:8] = (1).to_bytes(4, "little")
    command[24:32] = address.to_bytes(8, "little")
    command[36:40] = EBS_PAGE_BYTES.to_bytes(4, "little")
    command[40:44] = (EBS_PAGE | dwords << 16).to_bytes(4, "little")
    fd = os.open(f"/dev/{disk.name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, NVME_ADMIN_COMMAND, command)
    finally:
        os.close(fd)
    return parse_ebs_page(page.tobytes())


def nvme_counters(
    site: Site, json_file: str | None, state_dirs: StateDirs | None = None
) -> dict[str, int] | None:
    """Get the EBS counters of the first volume, or None where there are none to be had within a second."""

    def read_file(path: str) -> dict[str, int]:
        Touch(state_dirs, "output", 0.0).reach(path)
        return parse_nvme_json(read_text(path))

    def ask_controller(disk: Disk) -> dict[str, int]:
        if state_dirs and not Lock(state_dirs, f"nvme-{disk.name}").take():
            raise ProbeError("the answer to an earlier question has not come yet")
        return read_ebs_page(disk)

    ebs = next((disk for disk in site.disks if disk.volume_id and disk.name.startswith("nvme")), None)
    if json_file:
        raw = ChildTask(lambda send: send(read_file(os.path.abspath(json_file)))).answer(1.0)
    elif ebs:
        raw = ChildTask(lambda send: send(ask_controller(ebs))).answer(1.0)
    else:
        return None
    return raw or None


def nvme_delta(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, int] | None:
    """Say how the counters rose; the queue length is as it is now."""
    if before is None or after is None:
        return None
    rises = {name: after[name] - before.get(name, after[name]) for name in after}
    return rises | {"volume_queue_length": after.get("volume_queue_length", 0)}


# ---------------------------------------------------------------- the judgement: values in, values out

LOCK_WAITS: Final = (
    "percpu_rwsem", "__percpu", "rwsem_", "down_", "__down", "mutex_", "__mutex", "__vma_start", "sb_start",
    "freeze",
)  # fmt: skip
IO_WAITS: Final = (
    "folio_wait", "wait_on", "__wait_on", "io_schedule", "bit_wait_io", "blk_", "__blkdev", "submit_bio",
    "__iomap_dio", "dio_", "jbd2_", "do_get_write_access", "rq_qos", "wbt_", "balance_dirty", "xfs_", "xlog_",
    "ext4_", "btrfs_",
)  # fmt: skip
FREEZE_WAITS: Final = ("percpu_rwsem", "__percpu", "sb_start", "freeze")
SHARED_IO_WAITS: Final = ("folio_wait", "wait_on", "__wait_on", "io_schedule", "bit_wait_io", "balance_dirty")
"""Waits for a page or for memory, which a FUSE server can prolong as much as a disk."""
DISK_WAITS: Final = (*FREEZE_WAITS, *(name for name in IO_WAITS if name not in SHARED_IO_WAITS))
"""FUSE file systems cannot be frozen, and have no block device below them."""
SLOW_ENOUGH_S: Final = {"lite": 0.004, "bulk": 0.025, "classic": 0.25}
"""Below this a multiple of the healthy median says nothing: it is the noise of a fast disk."""


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
            if agree(paced):
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
            busy = self.disk is not None and self.disk.done >= BASIS and self.disk.await_ms
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

        It delays a write for the whole lump, so a short series sees too few of these delays for a pace. But
        if no large write is quick after the first slow one, and their pace is the slower estimate, that is a
        limit of bytes: the small writes that were slow waited for a processor, for us or for a driver.
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
        slow = [took_s >= SLOW_ENOUGH_S["bulk"] for took_s in self.bulk_s]
        return sum(slow) >= 2 and all(slow[slow.index(True) :])  # noqa: PLR2004 - one is chance

    @property
    def _series(self) -> tuple[tuple[tuple[float, ...], float], ...]:
        """Both kinds of writes, and from when on one of them is slow."""
        return (self.writes_s, SLOW_WRITE_S), (self.bulk_s, SLOW_ENOUGH_S["bulk"])

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


class Judgement(Record):
    """A verdict, and why."""

    verdict: str
    cause: str
    reason: str


def judge(facts: Facts, thresholds: Thresholds) -> Judgement:
    """Tell how bad it is and what it is."""
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


def is_near(dd_s: float | None, line_s: float) -> bool:
    """Whether an estimate is so near a line that only a measured dd can tell on which side it is."""
    return dd_s is not None and NEAR_LINE * line_s <= dd_s <= line_s / NEAR_LINE


def wants_classic(facts: Facts, judged: Judgement, thresholds: Thresholds, climb_s: float) -> bool:
    """Whether the ladder goes on to classic after these lite writes."""
    is_slow = (facts.typical_s or 0.0) >= climb_s or is_near(facts.dd_s, thresholds.warn_s)
    return judged.verdict in (WARN, CRIT) or is_slow or is_paced(facts, thresholds)


def is_paced(facts: Facts, thresholds: Thresholds) -> bool:
    """Whether an idle disk makes writes wait: many times its healthy median, or evenly, or again and again.

    The quickest of the last three lite writes counts: a limit delays each of them, a busy processor some.
    A limit that lets some through at once and then none is seen in the mean of all, but not while processors
    are busy: then the driver's threads are late for some writes as well, and a healthy disk looks like that.
    """
    typical_s, healthy_s, last = facts.typical_s, facts.healthy_s, facts.writes_s[-3:]
    if facts.disk is None or facts.others_wait or typical_s is None:
        return False
    if facts.bulk_s and facts.healthy_bulk_s:
        least_s = min(facts.bulk_s[-2:])
        if least_s >= max(SLOW_ENOUGH_S["bulk"], thresholds.ratio * facts.healthy_bulk_s):
            return True
    if not healthy_s:
        return False
    lumps_s = facts.lumps_s if facts.cpu_pressure_pct < BUSY_CPU_PCT else None
    least_s = lumps_s or (min(last) if facts.level == "lite" and last else typical_s)
    even = facts.level == "lite" and len(last) == 3 and max(last) <= 1.2 * least_s  # noqa: PLR2004 - in a row
    ratio = thresholds.ratio / 2 if even else thresholds.ratio
    return least_s >= max(SLOW_ENOUGH_S[facts.level], ratio * healthy_s)


def after_classic(lite: Judgement, classic: Judgement, facts: Facts) -> Judgement:
    """Decide between two levels: classic overrules, unless it cannot know better than the median of lite."""
    paced = lite.cause == EXHAUSTED_IDLE and facts.healthy_s is None
    if classic.verdict == OK and paced and facts.elapsed_s >= SLOW_ENOUGH_S["classic"]:
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
    elif tasks and tasks.stuck_here and not disk.in_flight and disk.done < BASIS:  # held above it
        verdict, cause = WARN, STALLED
    elif tasks and tasks.stuck:
        cause = NOT_THIS_DISK
    return Judgement(verdict=verdict, cause=cause, reason=CAUSES[cause])


def _judge_failure(code: str, words: str) -> Judgement:
    if code in ("EIO", "EROFS", "EREMOTEIO", "ENODEV", "ENXIO", "EUCLEAN"):
        return Judgement(verdict=CRIT, cause=IO_ERROR, reason=f"{CAUSES[IO_ERROR]} ({code})")
    return not_measured(f"{words} ({code})")


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


# ---------------------------------------------------------------- one look at one path


class Cost(Record):
    """What one series of writes asks of the device, flushes counted as credits."""

    writes: int
    flushes: int
    credits: int


def cost_of(level: str, writes: int, disks: Sequence[Disk], *, bulk: int = 0, appends: int = 0) -> Cost:
    """Price a level, by the sizes the device takes: checked against its counters in the tests."""
    most_kib = min([LARGEST_EBS_IO // KIB, *(disk.max_io_kib for disk in disks)])
    requests_per_mib = -(-MIB // KIB // most_kib)
    if level == "lite":
        data, flushes = (
            writes + requests_per_mib * bulk + (requests_per_mib + 2) * appends,
            writes + bulk + 2 * appends,
        )
        appended = (requests_per_mib + APPEND_CREDITS) * appends
        return Cost(
            writes=data,
            flushes=flushes,
            credits=LITE_CREDITS * writes + (requests_per_mib + 1) * bulk + appended,
        )
    if level == "classic":
        data = CLASSIC_BLOCKS * requests_per_mib
        return Cost(writes=data + 26, flushes=20, credits=data + 46)
    return Cost(writes=0, flushes=0, credits=0)


class WriteAttempt(Record):
    """How one series of writes went."""

    facts: Facts
    progress: Progress
    pressure_us: dict[str, int]
    started_at_s: float
    pid: int
    observer_hung: bool


class Probe:
    """Everything needed to look at one path again and again."""

    def __init__(
        self, options: Options, site: Site, state_dirs: StateDirs, heartbeat: Callable[[], None]
    ) -> None:
        self.options, self.site, self.state_dirs, self._heartbeat = options, site, state_dirs, heartbeat
        self.refusal: str | None = None
        self.memory = self._memory()
        self.watches = Watches(site.disks)
        self.thresholds = Thresholds(warn_s=options.warn, crit_s=options.crit, ratio=options.ratio)

    def _memory(self) -> Memory:
        key = "_".join([self.site.key, *self.site.volume_ids])
        return Memory(self.state_dirs, key, self.options.max_credit_share * self.options.baseline_iops)

    # -- without any I/O

    def look(self, span_s: float, own_pid: int = -1) -> Facts:
        """Watch the counters for a while, and who is in D; longer when the disk stands still."""
        watches, began_s = Watches(self.site.disks), time.monotonic()
        observer = self._observe(own_pid) if self.options.dstate else None
        tasks, until_s = None, began_s + span_s
        while (now_s := time.monotonic()) < until_s:
            fds = [observer.fd] if observer and not observer.over else []
            wait_for(fds, min(STEP_S, until_s - now_s))
            tasks = self._newest(observer, tasks)
            watches.look()
            disk = watches.sickest()
            if disk and disk.in_flight and disk.quiet_s > span_s / 2:
                until_s = max(until_s, began_s + span_s / 2 + STILL_S + STEP_S)
            if observer and not observer.over and self._needs_another_pass(tasks):
                until_s = max(until_s, min(now_s + 2 * STEP_S, began_s + span_s + SECOND_PASS_S))
            self._heartbeat()
        watches.look(even_if_just_done=True)
        tasks = self._newest(observer, tasks)
        if observer:
            observer.give_up()
        return self.passive_facts(watches.sickest(), tasks)

    def _needs_another_pass(self, tasks: Tasks | None) -> bool:
        """Whether some were in D in the only pass so far: the second one shows who has not run since."""
        return tasks is None or (tasks.passes == 1 and tasks.most > 0)

    def passive_facts(self, disk: Delta | None, tasks: Tasks | None) -> Facts:
        return Facts(
            level="passive", completed=True, given_up=False, elapsed_s=0.0, writes_s=(), bulk_s=(),
            append_s=(), failure=None, healthy_s=None, healthy_bulk_s=None, disk=disk,
            own_ios=0, tasks=tasks, cpu_wait_s=0.0, cpu_pressure_pct=0.0, measured_s=None,
        )  # fmt: skip

    def _observe(self, own_pid: int) -> ChildTask:
        return ChildTask(lambda send: Observer(self.site, own_pid, self.options.top).watch(send))

    def _newest(self, observer: ChildTask | None, tasks: Tasks | None) -> Tasks | None:
        frames = observer.receive() if observer else []
        return Tasks(**frames[-1]) if frames else tasks

    # -- with a write

    def attempt(self, level: str, lock: Lock, until_s: float, *, leave_early: bool = False) -> WriteAttempt:
        """Write in a child, watch it and the disk meanwhile, and leave it alone once the time is over."""
        plan = self._plan(level)
        pressure, started_at_s, began_s = io_pressure_us(), time.time(), time.monotonic()
        watches = Watches(self.site.disks)
        dd_output = self.state_dirs.scratch()
        writer = ChildTask(lambda send: write_file(plan, send, lock.fd, dd_output), keep=[lock.fd, dd_output])
        lock.close()
        progress, observer, tasks = Progress(began_s), None, None
        while not writer.over and (now_s := time.monotonic()) < until_s:
            if observer is None and now_s - began_s >= OBSERVE_AFTER_S and self.options.dstate:
                observer = self._observe(writer.pid)
            fds = [writer.fd] + ([observer.fd] if observer and not observer.over else [])
            wait_for(fds, min(STEP_S, until_s - now_s))
            progress.take(writer.receive())
            tasks = self._newest(observer, tasks)
            if progress.is_finished:
                break
            watches.look()
            if leave_early and self._nothing_more_to_learn(watches, now_s - began_s):
                break
            self._heartbeat()
        ended_s = time.monotonic()
        self._settle(writer, plan, progress, ended_s, dd_output)
        os.close(dd_output)
        watches.look(even_if_just_done=True)
        if observer:
            observer.give_up()
        return WriteAttempt(
            facts=self._facts(level, progress, ended_s, watches.sickest(), tasks),
            progress=progress,
            pressure_us={k: v - pressure.get(k, 0) for k, v in io_pressure_us().items()},
            started_at_s=started_at_s,
            pid=writer.pid,
            observer_hung=observer is not None and tasks is None and ended_s - began_s > 1 + OBSERVE_AFTER_S,
        )

    def _plan(self, level: str) -> Plan:
        options = self.options
        ladder = options.level == "ladder"
        writes = options.writes or (USUAL_WRITES[options.mode] if ladder else 1)
        most_extra = cost_of("lite", writes + LITE_AFTER_BULK, (), bulk=MOST_BULK_WRITES - BULK_WRITES)
        extra = self.memory.allowance() >= most_extra.credits + CLASSIC_CREDITS
        return Plan(
            level=level,
            path=os.path.join(self.site.path, options.file),
            engine=options.engine,
            data=options.data,
            writes=CLASSIC_BLOCKS if level == "classic" else writes,
            bulk=BULK_WRITES if ladder and level == "lite" else 0,
            appends=APPENDS if ladder and level == "lite" and extra else 0,
            extra=extra,
            enough_s=options.climb if ladder else None,
        )

    def _nothing_more_to_learn(self, watches: Watches, elapsed_s: float) -> bool:
        disk = watches.sickest()
        return elapsed_s >= self.thresholds.crit_s and bool(
            disk and (disk.quiet_s >= STILL_S or not disk.done)
        )

    def _settle(
        self, writer: ChildTask, plan: Plan, progress: Progress, ended_s: float, dd_output: int
    ) -> None:
        """See how the writer ended. One that has not is killed, which takes effect when the disk lets it."""
        if plan.engine == "dd" and plan.level == "classic" and writer.over:
            for _ in range(100):
                if writer.has_ended():
                    break
                time.sleep(0.001)
            if writer.status == 0 and progress.opened_s is not None:
                progress.closed_s = ended_s
            elif writer.status is not None and progress.failure is None:
                words = os.pread(dd_output, 4096, 0).decode("utf-8", "replace")
                progress.failure = dd_failure(writer.status, words)
                ChildTask(lambda _: remove_own_file(plan, self.state_dirs)).answer(1.0)
        elif writer.over and not progress.is_finished:
            progress.failure = ("?", "the writer died: is something killing processes, or is memory short?")
        writer.give_up()

    def _facts(
        self, level: str, progress: Progress, ended_s: float, disk: Delta | None, tasks: Tasks | None
    ) -> Facts:
        took_s = {kind: tuple(seconds) for kind, seconds in progress.took_s.items()}
        return Facts(
            level=level,
            completed=progress.closed_s is not None,
            given_up=not progress.is_finished,
            elapsed_s=(progress.closed_s or ended_s) - progress.began_s,
            writes_s=took_s["classic"] or took_s["lite"] + took_s["again"],
            bulk_s=took_s["bulk"],
            append_s=took_s["append"],
            failure=progress.failure,
            healthy_s=self.memory.median_s(level),
            healthy_bulk_s=self.memory.median_s("bulk"),
            disk=disk,
            own_ios=self._spent(level, progress).credits,
            tasks=tasks,
            cpu_wait_s=progress.cpu_wait_s,
            cpu_pressure_pct=cpu_pressure_pct(),
            measured_s=None,
        )

    def _spent(self, level: str, progress: Progress) -> Cost:
        """Price what was written, and the write that is under way; a refused series costs nothing."""
        if progress.failure and progress.opened_s is None:
            return cost_of("passive", 0, self.site.disks)
        if level == "classic":
            return cost_of(level, CLASSIC_BLOCKS, self.site.disks)
        writes = len(progress.took_s["lite"]) + len(progress.took_s["again"]) + (not progress.is_finished)
        new_bulk = progress.made_bytes // BLOCK_BYTES["bulk"]
        bulk = len(progress.took_s["bulk"]) + new_bulk
        cost = cost_of(
            level,
            writes + bool(progress.made_bytes) - new_bulk,
            self.site.disks,
            bulk=bulk,
            appends=len(progress.took_s["append"]),
        )
        extra = NEW_FILE_CREDITS if progress.made_bytes else 0
        return Cost(writes=cost.writes, flushes=cost.flushes, credits=cost.credits + extra)

    def affords(self, level: str) -> str | None:
        """Why this level may not be run now, or None."""
        if level == "passive":
            return None
        cost = self._planned_cost(level).credits
        self.memory.reload()
        left = self.memory.allowance()
        if cost <= left:
            return None
        share, base = self.options.max_credit_share, self.options.baseline_iops
        rate = share * base
        if cost > self.memory.most:
            kept = f"{ALLOWANCE_S:g} s of {rate:g}/s"
            return f"{level} costs {cost} credits, more than {kept}: raise --max-credit-share"
        return (
            f"{level} costs {cost} credits and {left:.0f} are left of {share:.2g} x {base:g} IOPS:"
            f" again in {max(1.0, (cost - left) / rate):.0f} s, or raise --max-credit-share"
        )

    def _planned_cost(self, level: str) -> Cost:
        plan = self._plan(level)
        return cost_of(level, plan.writes, self.site.disks, bulk=plan.bulk)

    # -- the whole of one run

    def run(self, started_s: float, *, skip_look: bool = False) -> dict[str, Any]:
        """Look, then write what the level asks and the disk allows; back before the deadline in any case."""
        options, until_s = self.options, time.monotonic() + options_deadline(self.options, started_s)
        if options.mode == "serve":
            self._follow_the_mount()
        if self.refusal:
            return self.unmeasured(self.refusal)
        if not self.site.answered:
            return self._unanswered(time.monotonic() - started_s)
        nvme = self._nvme()
        passive = None
        if options.level in ("passive", "ladder") and not skip_look:
            passive = self.look(options.look)
            judged = judge(passive, self.thresholds)
            if options.level == "passive":
                return self._reading(passive, judged, nvme=nvme)
            if passive.is_still:
                return self._standing(passive, judged, nvme)
        first = "classic" if options.level == "classic" else "lite"
        return self._write_and_climb(first, until_s, passive, nvme)

    def _follow_the_mount(self) -> None:
        """Look the path up again if it was refused, did not answer, or is now on another kind of mount."""
        site, mounts = self.site, parse_mounts(read_text("/proc/self/mountinfo", 1 << 20))
        mount = mount_of(site.path, mounts)
        known = (site.mount.dev, site.mount.read_only)
        if site.answered and not self.refusal and mount and (mount.dev, mount.read_only) == known:
            return
        self.refusal = None
        try:
            lookup = Lookup(site.path, self.state_dirs, writes=self.options.level != "passive")
            self.site = find_allowed_site(self.options, lookup, time.monotonic() + STILL_S)
        except ProbeError as fault:
            self.refusal = str(fault)
        self.watches, self.memory = Watches(self.site.disks), self._memory()

    def _write_and_climb(
        self, first: str, until_s: float, passive: Facts | None, nvme: dict[str, int] | None
    ) -> dict[str, Any]:
        ladder = self.options.level == "ladder"
        lock = Lock(self.state_dirs, self.site.key)
        if (waited_s := self._take(lock, until_s)) is not None:
            return self._stuck_before(lock, nvme, waited_s=waited_s)
        if (refusal := self.affords(first)) is not None:  # asked under the lock: of ten runs each counts
            lock.close()
            return self._not_written(not_measured(refusal), refusal, passive, nvme)
        lite_until_s = min(until_s, time.monotonic() + self.thresholds.crit_s + STEP_S) if ladder else until_s
        first_attempt = attempt = self._charge_and_write(first, lock, lite_until_s)
        judged = judge(attempt.facts, self.thresholds)
        if attempt.facts.failure:
            return self._not_written(judged, _failure_text(first, attempt), passive, nvme, attempt)
        attempts = [attempt]
        skipped = [f"bulk: {attempt.progress.no_bulk}"] if attempt.progress.no_bulk else []
        wants_more = wants_classic(attempt.facts, judged, self.thresholds, self.options.climb)
        if ladder and attempt.facts.completed and wants_more:
            refusal = self.affords("classic") or self._too_soon()
            lock = Lock(self.state_dirs, self.site.key)
            if refusal or self._take(lock, until_s) is not None:
                skipped.append(refusal or "classic: the lock was taken in between")
                lock.close()
                attempt = self._as_measured(attempt)
                attempts, judged = [attempt], judge(attempt.facts, self.thresholds)
            else:
                attempt = self._charge_and_write("classic", lock, until_s, leave_early=True)
                attempts.append(attempt)
                classic = judge(attempt.facts, self.thresholds)
                self.memory.keep_climb((attempt.facts.dd_s or 0.0) if attempt.facts.completed else 0.0)
                if classic.verdict == UNKNOWN:  # what was measured before it stands
                    skipped.append(_failure_text("classic", attempt))
                    attempt = first_attempt
                else:
                    judged = after_classic(judged, classic, attempt.facts)
        if judged.verdict == OK:
            self._learn(*attempts)
        return self._reading(
            attempt.facts, judged, attempts=attempts, skipped=skipped, nvme=nvme, passive=passive
        )

    def _not_written(
        self,
        judged: Judgement,
        why: str,
        passive: Facts | None,
        nvme: dict[str, int] | None,
        attempt: WriteAttempt | None = None,
    ) -> dict[str, Any]:
        """Report the worse of why nothing could be written and what the counters and tasks show."""
        passive = passive or self.look(self.options.look)
        seen = judge(passive, self.thresholds)
        shown = attempt.facts if attempt and worse(judged, seen) is judged else passive
        attempts = [attempt] if attempt else []
        return self._reading(
            shown, worse(judged, seen), attempts=attempts, skipped=[why], nvme=nvme, passive=passive
        )

    def _take(self, lock: Lock, until_s: float) -> float | None:
        """Take the lock, or give the seconds that one and the same holder was waited for.

        While holders change the disk answers: they are other paths of ours on it, or other runs.
        """
        since_s, known = time.monotonic(), 0
        while not lock.take():
            holder, now_s = lock.holder(), time.monotonic()
            if holder and holder.pid != known:
                since_s, known = (now_s if known else since_s), holder.pid
            if now_s >= min(since_s + self.thresholds.warn_s, until_s):
                return now_s - since_s
            self._heartbeat()
            time.sleep(STEP_S / 2)
        return None

    def _charge_and_write(
        self, level: str, lock: Lock, until_s: float, *, leave_early: bool = False
    ) -> WriteAttempt:
        planned = self._planned_cost(level).credits
        self.memory.spend(planned, climbed=leave_early)
        attempt = self.attempt(level, lock, until_s, leave_early=leave_early)
        spent = self._spent(level, attempt.progress).credits
        if spent != planned:
            self.memory.spend(spent - planned)
        return attempt

    def _as_measured(self, attempt: WriteAttempt) -> WriteAttempt:
        """Use the last classic run for an estimate near the line, while it may not be repeated.

        Otherwise the verdict would alternate between the estimate and the measured figure.
        """
        took_s = self.memory.climb_s
        both_near = is_near(took_s, self.thresholds.warn_s) and is_near(
            attempt.facts.dd_s, self.thresholds.warn_s
        )
        if not both_near or self._too_soon() is None:  # far from it, the disk has changed since
            return attempt
        facts = Facts(**(vars(attempt.facts) | {"measured_s": took_s}))
        return WriteAttempt(**(vars(attempt) | {"facts": facts}))

    def _too_soon(self) -> str | None:
        wait_s = self.memory.classic_at_s + self.options.classic_every - boot_clock()
        return f"classic: again in {wait_s:.0f} s, see --classic-every" if wait_s > 0 else None

    def _learn(self, *attempts: WriteAttempt) -> None:
        facts_of = (attempt.facts for attempt in attempts)
        alone = [facts for facts in facts_of if not facts.others_wait and facts.lumps_s is None]
        known = [(facts.level, facts.typical_s) for facts in alone]
        known += [("bulk", facts.bulk_typical_s) for facts in alone]
        self.memory.learn({level: seconds for level, seconds in known if seconds})

    def _standing(self, passive: Facts, judged: Judgement, nvme: dict[str, int] | None) -> dict[str, Any]:
        """Nothing comes back from the disk: a write of ours would only be stuck as well, if none is yet."""
        lock = Lock(self.state_dirs, self.site.key)
        if not lock.take():
            return self._stuck_before(lock, nvme, passive)
        lock.close()
        skipped = ["lite: nothing comes back from the disk, so a write would only be stuck as well"]
        return self._reading(passive, judged, skipped=skipped, nvme=nvme)

    def _stuck_before(
        self, lock: Lock, nvme: dict[str, int] | None, look: Facts | None = None, waited_s: float = 0.0
    ) -> dict[str, Any]:
        """Others wrote for as long as we waited: their write, our wait and the counters tell all there is."""
        holder = lock.holder()
        if look is None:
            look = self.look(STILL_S + 3 * STEP_S, holder.pid if holder else -1)
            holder = lock.holder() or holder
        lock.close()
        age_s = max(holder.age_s if holder else 0.0, waited_s)
        known = ("lite", "classic", "lookup")
        level = holder.level if holder and holder.level in known else "lite"
        changes = {"level": level, "completed": False, "elapsed_s": age_s}
        facts = Facts(**(vars(look) | changes))
        since = holder.started_s if holder else None
        writer = holder.pid if holder else "?"
        skipped = [f"write: process {writer} still has one under way on this file system"]
        judged = worse(judge(facts, self.thresholds), judge(look, self.thresholds))
        self.memory.reload()
        return self._reading(facts, judged, stuck_since=since, skipped=skipped, nvme=nvme)

    def _unanswered(self, waited_s: float) -> dict[str, Any]:
        """The path's lookup has not returned: since when, and for which name of the path it waits."""
        holder = self.state_dirs.holder_of(name_of(self.site.path))
        look = self.look(STILL_S + 3 * STEP_S, holder.pid if holder else -1)
        age_s = waited_s + STILL_S
        if holder:
            age_s = max(age_s, holder.age_s + STILL_S)
        facts = Facts(**(vars(look) | {"level": "lookup", "completed": False, "elapsed_s": age_s}))
        where = (
            f"process {holder.pid} waits for {plain(holder.at, 200)}"
            if holder
            else "it may not be known where"
        )
        skipped = [f"write: the path lookup has not returned in {duration(age_s)}: {where}"]
        since = holder.started_s if holder else None
        return self._reading(facts, judge(facts, self.thresholds), skipped=skipped, stuck_since=since)

    def unmeasured(self, reason: str) -> dict[str, Any]:
        """Take the place of a reading that did not come."""
        reading = self._reading(self.passive_facts(None, None), not_measured(reason))
        return reading | {"completed": False}

    def passive_reading(self) -> dict[str, Any]:
        """Take a reading of its own from counters and tasks."""
        facts = self.look(STILL_S + 3 * STEP_S)
        judged = judge(facts, self.thresholds)
        if facts.is_still:
            return self._standing(facts, judged, None)
        return self._reading(facts, judged)

    def _nvme(self) -> dict[str, int] | None:
        return nvme_counters(self.site, self.options.nvme_json, self.state_dirs)

    def _reading(
        self,
        facts: Facts,
        judged: Judgement,
        *,
        attempts: Sequence[WriteAttempt] = (),
        skipped: Sequence[str] = (),
        nvme: dict[str, int] | None = None,
        passive: Facts | None = None,
        stuck_since: float | None = None,
    ) -> dict[str, Any]:
        """Put together the record that every output is made from. Keys never disappear."""
        tasks = facts.tasks or (passive.tasks if passive else None)
        attempt = next((attempt for attempt in attempts if attempt.facts is facts), None)
        if attempt and not facts.completed:
            stuck_since = stuck_since or attempt.started_at_s
        began_at_s = stuck_since or (attempt.started_at_s if attempt else time.time())
        failures = [attempt.facts.failure[0] for attempt in attempts if attempt.facts.failure]
        return {
            **self._about_the_site(facts.disk),
            "level": self.options.level,
            "reached": "passive" if facts.level == "lookup" else facts.level,
            "engine": self.options.engine if facts.level == "classic" else "inproc",
            "verdict": judged.verdict,
            "cause": judged.cause,
            "reason": judged.reason,
            "completed": facts.completed,
            "started_at": instant(began_at_s),
            "stuck_since": instant(stuck_since) if stuck_since else None,
            **_seconds_of(facts),
            **_parts_of(facts, attempt, attempts),
            "error": failures[-1] if failures else None,
            "disk": facts.disk.as_dict() if facts.disk else None,
            "before": passive.disk.as_dict() if passive and passive.disk else None,
            "nvme": nvme_delta(nvme, self._nvme()) if nvme else None,
            "dstate": vars(tasks) if tasks else None,
            "cost": self._cost_of(attempts),
            "credits_total": self.memory.credits_total,
            "skipped": list(skipped),
        }

    def _about_the_site(self, disk: Delta | None) -> dict[str, Any]:
        site, options = self.site, self.options
        return {
            "schema": READING_SCHEMA,
            "version": VERSION,
            "time": instant(time.time()),
            "host": plain(os.uname().nodename, 255),
            "instance_id": options.instance_id,
            "volume_id": self._volume_of(disk),
            "volume_ids": site.volume_ids,
            "path": site.path,
            "mount": site.mount.point,
            "fs": site.mount.fs,
            "device": site.partition or site.mount.source,
            "disks": [disk.name for disk in site.disks],
            "startup_ms": options.startup_ms,
            "state_in_memory": True,
        }

    def _cost_of(self, attempts: Sequence[WriteAttempt]) -> dict[str, int]:
        costs = [self._spent(attempt.facts.level, attempt.progress) for attempt in attempts]
        return {key: sum(getattr(cost, key) for cost in costs) for key in Cost.__annotations__}

    def _volume_of(self, disk: Delta | None) -> str | None:
        volume_ids = {device.name: device.volume_id for device in self.site.disks}
        first = next(iter(self.site.volume_ids), None)
        return (volume_ids.get(disk.disk) or first) if disk else first


def _failure_text(level: str, attempt: WriteAttempt) -> str:
    code, words = attempt.facts.failure or ("?", "?")
    return f"{level}: {words} ({code})"


def _seconds_of(facts: Facts) -> dict[str, Any]:
    return {
        "total_s": None if facts.level in ("passive", "lookup") else facts.elapsed_s,
        "dd_s": facts.dd_s,
        "dd_measured": facts.level == "classic",
        "dd_at_least": facts.is_at_least,
        "io_delay_ms": None if facts.io_delay_s is None else 1000 * facts.io_delay_s,
        "healthy_s": facts.healthy_s,
        "ratio": facts.ratio,
        "cpu_wait_ms": 1000 * facts.cpu_wait_s,
    }


def _parts_of(facts: Facts, attempt: WriteAttempt | None, attempts: Sequence[WriteAttempt]) -> dict[str, Any]:
    progress = attempt.progress if attempt else None
    lite = next((attempt for attempt in attempts if attempt.facts.level == "lite"), None)
    return {
        "open_ms": _ms(progress.began_s, progress.opened_s) if progress else None,
        "write_ms": [1000 * seconds for seconds in facts.writes_s],
        "lite_ms": [1000 * seconds for seconds in lite.facts.writes_s]
        if lite and lite is not attempt
        else [],
        "bulk_ms": [1000 * seconds for seconds in lite.facts.bulk_s] if lite else [],
        "append_ms": [1000 * seconds for seconds in lite.facts.append_s] if lite else [],
        "close_ms": _ms(progress.written_s, progress.closed_s) if progress and progress.written_s else None,
        "pressure_ms": {k: v / 1000 for k, v in attempt.pressure_us.items()} if attempt else None,
        "observer_hung": attempt.observer_hung if attempt else False,
    }


def _ms(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else 1000 * (end_s - start_s)


def options_deadline(options: Options, started_s: float) -> float:
    """Seconds left of the deadline, which counts from when the run began."""
    return max(options.warn, options.deadline - (time.monotonic() - started_s))


# ---------------------------------------------------------------- words for people


def headline(reading: dict[str, Any], most: int = 400, *, by_path: bool = False) -> str:
    """One line that says it all, and fits where it must; ``by_path`` names the path and not its mount."""
    name = reading["volume_id"] or ",".join(reading["disks"]) or reading["device"] or "disk not known"
    verdict, mount = (
        reading["verdict"].upper(),
        plain((not by_path and reading["mount"]) or reading["path"], 120),
    )
    if reading["cause"] == NOT_MEASURED:
        return f"{verdict} {mount}: {plain(reading['reason'], most)}"[:most]
    cause = "cause unknown (the disk keeps no counters)" if reading["cause"] == UNCLEAR else reading["cause"]
    text = f"{verdict} {mount} ({plain(name, 120)}): {cause}, {_dd_words(reading)}"
    if not reading["dd_measured"] and any(why.startswith("bulk:") for why in reading["skipped"]):
        text += ", throughput not measured (no room for 1 MiB)"
    disk, dstate = reading["disk"], reading["dstate"]
    if disk and disk["await_ms"] is not None and reading["verdict"] != OK:
        text += f", {disk['per_s']:.0f} I/Os a second of {duration(disk['await_ms'] / 1000)} each"
    if dstate and dstate["most_here"]:
        here = [group for group in dstate["top"] if group["here"]]
        text += f", {dstate['most_here']} in state D: " + ", ".join(_groups_in_words(here)[:3])
    if (reading["startup_ms"] or 0) >= 1000:  # noqa: PLR2004 - a second
        text += f", started in {duration(reading['startup_ms'] / 1000)}"
    return text if len(text) <= most else text[: most - 1] + "~"


def _groups_in_words(top: Sequence[dict[str, Any]]) -> list[str]:
    counts: dict[str, int] = {}
    for group in top:
        name = f"{group['comm']} [{group['wchan']}]"
        counts[name] = counts.get(name, 0) + group["count"]
    return [f"{count} {name}" for name, count in counts.items()]


def _dd_words(reading: dict[str, Any]) -> str:
    if reading["reached"] == "passive" and not reading["completed"]:
        return f"the path lookup has not returned in {duration(reading['dd_s'])}"
    if reading["dd_s"] is None:
        if reading["error"]:
            return f"a write failed with {reading['error']}"
        return "nothing written" if reading["reached"] == "passive" else "not measured"
    if reading["reached"] == "passive" and reading["cause"] == STALLED:
        return f"nothing has come back for {duration(reading['dd_s'])}"
    if not reading["completed"]:
        return f"a write has not ended in {duration(reading['dd_s'])}"
    would = "would take at least" if reading["dd_at_least"] else "would take"
    return f"dd {'took' if reading['dd_measured'] else would} {duration(reading['dd_s'])}"


def nagios_line(reading: dict[str, Any], thresholds: Thresholds, *, by_path: bool = False) -> str:
    """The headline with performance data."""
    dd = "U" if reading["dd_s"] is None else f"{reading['dd_s']:.6f}s"
    data = [f"dd={dd};{thresholds.warn_s:g};{thresholds.crit_s:g};0"]
    delay_ms = reading["io_delay_ms"]
    data.append("io_delay=U;;;0" if delay_ms is None else f"io_delay={delay_ms:.3f}ms;;;0")
    data.append(f"blocked={(reading['dstate'] or {}).get('most', 0)};;;0")
    data.append(f"credits={reading['credits_total']:.0f}c")
    words = headline(reading, by_path=by_path).replace("|", "/")
    return f"DDPROBE {words} | {' '.join(data)}"


EXITS: Final = {
    "nagios": {OK: 0, WARN: 1, CRIT: 2, UNKNOWN: 3},
    "npd": {OK: 0, WARN: 1, CRIT: 1, UNKNOWN: 2},
    "cron": {OK: 0, WARN: 0, CRIT: 0, UNKNOWN: 3},
}


# ---------------------------------------------------------------- outputs on this host


def write_stream(fd: int, text: str, within_s: float = 1.0) -> bool:
    """Write to stdout or stderr without ever waiting for whoever should read it."""
    raw, until_s = text.encode("utf-8", "replace"), time.monotonic() + within_s
    state_dirs = _state_dirs_in_use[0] if _state_dirs_in_use else None

    def write_to_file(send: Callable[[object], None]) -> None:
        Touch(state_dirs, "output", within_s).reach(os.readlink(f"/proc/self/fd/{copy}"))
        write_all(copy, raw)
        send(True)

    try:
        if kind_of(os.fstat(fd)) == "file":
            copy = os.dup(fd)
            done = ChildTask(write_to_file, keep=[copy]).answer(within_s)
            os.close(copy)
            return done is not None
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        while raw and (left_s := until_s - time.monotonic()) > 0:
            if poll.poll(int(left_s * 1000) + 1):
                raw = raw[os.write(fd, raw[:4096]) :]
    except (OSError, ProbeError):
        return False
    return not raw


def append_line(path: str, line: str, most: int = 5 * MIB) -> None:
    """Append to a log that stays bounded: when it is full it becomes FILE.1.

    The log must be a regular file with one name, of ours or root's, in a directory that is ours or root's and
    that not everybody may write to: else another user could have us append to any file.
    """
    folder_name, name = os.path.split(path)
    folder = open_folder(folder_name)
    fd = -1
    try:
        status = os.fstat(folder)
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o002:
            raise OSError(errno.EPERM, f"other users may write to {folder_name}; name a file elsewhere")
        fd = _open_log(folder, name)
        if os.fstat(fd).st_size > most:
            os.rename(name, name + ".1", src_dir_fd=folder, dst_dir_fd=folder)
            os.close(fd)
            fd = -1
            fd = _open_log(folder, name)
        write_all(fd, line.encode() + b"\n")
    finally:
        if fd >= 0:
            os.close(fd)
        os.close(folder)


def _open_log(folder: int, name: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(name, flags, 0o644, dir_fd=folder)
    status = os.fstat(fd)
    if kind_of(status) != "file" or status.st_nlink != 1 or status.st_uid not in (0, os.geteuid()):
        os.close(fd)
        raise OSError(errno.EPERM, "not a regular file of ours with one name; remove it, or name another")
    return fd


PROM_METRICS: Final = (
    ("dd_seconds", "gauge", "Seconds the classic dd took, or would take.", lambda r: r["dd_s"]),
    ("duration_seconds", "gauge", "Seconds the write that was made took so far.", lambda r: r["total_s"]),
    ("completed", "gauge", "1 when the write ended.", lambda r: int(r["completed"])),
    ("verdict", "gauge", "0 ok, 1 warn, 2 crit, 3 unknown.", lambda r: EXITS["nagios"][r["verdict"]]),
    ("io_delay_seconds", "gauge", "Seconds one request waits.", lambda r: _seconds(r["io_delay_ms"])),
    (
        "startup_seconds",
        "gauge",
        "Seconds the probe itself took to start.",
        lambda r: _seconds(r["startup_ms"]),
    ),
    ("credits_total", "counter", "I/O credits spent by the probe.", lambda r: r["credits_total"]),
)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def prom_text(readings: Sequence[dict[str, Any]]) -> str:
    """All readings as a textfile for node_exporter: no timestamps, and labels of bounded number.

    Of several paths on one mount the worst reading counts: a series may be in a textfile only once.
    """
    by_badness = sorted(readings, key=lambda reading: BADNESS.index(reading["verdict"]))
    readings = list({_labels(reading): reading for reading in by_badness}.values())
    lines = []
    for name, kind, help_text, value_of in PROM_METRICS:
        lines += [f"# HELP ddprobe_{name} {help_text}", f"# TYPE ddprobe_{name} {kind}"]
        for reading in readings:
            value = value_of(reading)
            if value is not None:
                lines.append(f"ddprobe_{name}{{{_labels(reading)}}} {value:.9g}")
    lines += ["# HELP ddprobe_cause 1 for the cause of the verdict.", "# TYPE ddprobe_cause gauge"]
    for reading in readings:
        lines += [
            f'ddprobe_cause{{{_labels(reading)},cause="{cause}"}} {int(cause == reading["cause"])}'
            for cause in CAUSES
        ]
    lines += ["# HELP ddprobe_dstate_tasks Threads seen in state D.", "# TYPE ddprobe_dstate_tasks gauge"]
    for reading in readings:
        for wchan, count in _by_wchan(reading).items():
            lines.append(f'ddprobe_dstate_tasks{{{_labels(reading)},wchan="{_label(wchan)}"}} {count}')
    lines += [
        "# HELP ddprobe_last_run_timestamp_seconds When the newest reading was taken: alert on its age.",
        "# TYPE ddprobe_last_run_timestamp_seconds gauge",
        f"ddprobe_last_run_timestamp_seconds {time.time():.3f}",
    ]
    return "\n".join(lines) + "\n"


def _labels(reading: dict[str, Any]) -> str:
    named = {"mount": reading["mount"], "device": reading["device"], "volume_id": reading["volume_id"] or ""}
    return ",".join(f'{name}="{_label(value)}"' for name, value in named.items())


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _by_wchan(reading: dict[str, Any], most: int = 10) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in (reading["dstate"] or {}).get("top", []):
        counts[group["wchan"]] = counts.get(group["wchan"], 0) + group["count"]
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:most])


def _numbers(reading: dict[str, Any]) -> dict[str, float]:
    """What goes to tools that keep one number under one name."""
    numbers = {
        "dd_seconds": reading["dd_s"],
        "completed": float(reading["completed"]),
        "verdict": float(EXITS["nagios"][reading["verdict"]]),
        "io_delay_seconds": _seconds(reading["io_delay_ms"]),
        "blocked_tasks": float((reading["dstate"] or {}).get("most", 0)),
        "startup_seconds": _seconds(reading["startup_ms"]),
        "credits": float(reading["credits_total"]),
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _dotless(text: str) -> str:
    kept = "".join(char if char.isalnum() or char in "-_" else "_" for char in text)
    return kept.strip("_") or "root"


def graphite_text(reading: dict[str, Any], prefix: str) -> str:
    """Plaintext protocol: name, value, time."""
    base = ".".join([prefix, _dotless(reading["host"]), _dotless(reading["volume_id"] or reading["device"])])
    return "".join(
        f"{base}.{name} {value:.9g} {int(time.time())}\n" for name, value in _numbers(reading).items()
    )


def collectd_text(reading: dict[str, Any], host: str, interval_s: float) -> str:
    """PUTVAL lines for collectd's exec plugin."""
    plugin = f"ddprobe-{_dotless(reading['volume_id'] or reading['device'])}"
    return "".join(
        f'PUTVAL "{host}/{plugin}/gauge-{name}" interval={interval_s:g} N:{value:.9g}\n'
        for name, value in _numbers(reading).items()
    )


# ---------------------------------------------------------------- AWS: signed by hand, sent by a child

USD_PER_METRIC_MONTH: Final = 0.30
USD_PER_1000_PUTS: Final = 0.01
MONTH_S: Final = 30 * 86400
METADATA: Final = "http://169.254.169.254"
MOST_EVENT_BYTES: Final = 4096
EVENT_CAUSES: Final = (THROTTLED, EXHAUSTED_IDLE, STALLED, FROZEN_OR_LOCK, IO_ERROR)


class HttpClient:
    """HTTP with modules imported at the start: later they might have to come from the sick disk."""

    def __init__(self, *, secure: bool) -> None:
        import hashlib
        import hmac
        import json
        import socket

        self.hashlib, self.hmac, self.json, self._socket = hashlib, hmac, json, socket
        self._tls: ssl.SSLContext | None = None
        if secure:
            import ssl

            self._tls = ssl.create_default_context()

    def ask(
        self, method: str, url: str, headers: dict[str, str], body: bytes = b"", within_s: float = 5.0
    ) -> tuple[int, bytes]:
        """Send one request; give the status and the body."""
        scheme, name, port, path = split_url(url)
        host: Any = name.encode()  # as bytes, or the codec for international names is read now
        until_s = time.monotonic() + within_s
        with self._socket.create_connection((host, port), within_s) as plain_socket:
            connection = plain_socket
            if scheme == "https":
                assert self._tls is not None
                connection = self._tls.wrap_socket(plain_socket, server_hostname=host)
            lines = [f"{method} {path} HTTP/1.1", f"host: {host_header(url)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items() if name != "host"]
            lines += [f"content-length: {len(body)}", "", ""]
            connection.sendall("\r\n".join(lines).encode() + body)
            raw = b""
            while len(raw) < 262144:  # noqa: PLR2004 - no answer of theirs is longer
                connection.settimeout(max(0.01, until_s - time.monotonic()))
                chunk = connection.recv(65536)
                if not chunk:
                    break
                raw += chunk
        return parse_answer(raw)


def split_url(url: str) -> tuple[str, str, int, str]:
    """Take an address apart; raises UsageError for what is none."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, colon, port = place.rpartition(":") if _is_port(place.rpartition(":")[2]) else (place, "", "")
    if scheme not in ("http", "https") or not host.strip("[]"):
        raise UsageError(f"{plain(url, 120)} is no address; write http://HOST:PORT or https://HOST")
    default = 443 if scheme == "https" else 80
    return scheme, host.strip("[]"), int(port) if colon else default, slash + path or "/"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536  # noqa: PLR2004 - ports


def host_header(url: str) -> str:
    """Host as it is sent, and signed."""
    return url.partition("://")[2].partition("/")[0]


def parse_answer(raw: bytes) -> tuple[int, bytes]:
    """Status and body of an HTTP/1.1 answer that was read to its end."""
    head, _, body = raw.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or len(words[1]) > 3:  # noqa: PLR2004 - version and status
        raise OSError(errno.EPROTO, "the answer is no HTTP")
    if b"transfer-encoding: chunked" in head.lower():
        body = _dechunk(body)
    return int(words[1]), body


def _dechunk(raw: bytes) -> bytes:
    body, at = bytearray(), 0
    while at < len(raw):
        end = raw.find(b"\r\n", at)
        end = len(raw) if end < 0 else end
        digits = raw[at:end].split(b";")[0].strip() or b"0"
        if digits.strip(b"0123456789abcdefABCDEF") or len(digits) > 16:  # noqa: PLR2004 - 64 bits
            raise OSError(errno.EPROTO, "the answer's chunks have no length")
        length = int(digits, 16)
        if not length:
            break
        body += raw[end + 2 : end + 2 + length]
        at = end + 2 + length + 2
    return bytes(body)


class Caller(Record):
    """Who signs, and where."""

    region: str
    instance_id: str
    key_id: str
    secret: str
    token: str
    expires: str


def ask_metadata(http: HttpClient, base: str) -> Caller:
    """Fetch region, instance and the role's credentials over IMDSv2."""
    ttl = {"x-aws-ec2-metadata-token-ttl-seconds": "300"}
    status, token = http.ask("PUT", f"{base}/latest/api/token", ttl, within_s=1.0)
    if status != 200:  # noqa: PLR2004 - HTTP
        raise OSError(errno.EPROTO, f"instance metadata answered {status} to the request for a token")
    header = {"x-aws-ec2-metadata-token": token.decode()}

    def get(path: str) -> str:
        status, body = http.ask("GET", f"{base}/latest/{path}", header, within_s=1.0)
        if status != 200:  # noqa: PLR2004 - HTTP
            raise OSError(
                errno.EPROTO, f"instance metadata answered {status} to {path}: is there an instance role?"
            )
        return body.decode()

    roles = get("meta-data/iam/security-credentials/").split()
    if not roles:
        raise OSError(errno.EPROTO, "instance metadata names no role: attach an instance profile")
    credentials = http.json.loads(get(f"meta-data/iam/security-credentials/{roles[0]}"))
    return Caller(
        region=get("meta-data/placement/region").strip(),
        instance_id=get("meta-data/instance-id").strip(),
        key_id=credentials["AccessKeyId"],
        secret=credentials["SecretAccessKey"],
        token=credentials["Token"],
        expires=credentials["Expiration"],
    )


class Request(Record):
    """One call of an AWS API, not yet signed."""

    service: str
    content_type: str
    target: str | None
    body: bytes


def sign(http: HttpClient, caller: Caller, request: Request, url: str, at_s: float) -> dict[str, str]:
    """Make the headers of a signed request: Signature Version 4 of a POST to ``/``."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    headers = {"content-type": request.content_type, "host": host_header(url), "x-amz-date": moment}
    if caller.token:
        headers["x-amz-security-token"] = caller.token
    if request.target:
        headers["x-amz-target"] = request.target
    names = ";".join(sorted(headers))
    sha256 = http.hashlib.sha256
    path = split_url(url)[3]
    canonical = ["POST", path, "", *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names]
    canonical.append(sha256(request.body).hexdigest())
    scope = f"{moment[:8]}/{caller.region}/{request.service}/aws4_request"
    digest = sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{caller.secret}".encode()
    for part in scope.split("/"):
        key = http.hmac.new(key, part.encode(), "sha256").digest()
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    signature = http.hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={caller.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def endpoint(service: str, region: str) -> str:
    """Address of a service, by the variables every AWS tool heeds or by its region."""
    variable = {"monitoring": "CLOUDWATCH", "events": "EVENTBRIDGE"}[service]
    named = os.environ.get(f"AWS_ENDPOINT_URL_{variable}") or os.environ.get("AWS_ENDPOINT_URL")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return (named or f"https://{service}.{region}.{suffix}").rstrip("/") + "/"


def quote(text: str) -> str:
    """Percent-encode for a form, as AWS wants it."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
    return "".join(chr(byte) if chr(byte) in safe else f"%{byte:02X}" for byte in text.encode())


def metric_values(reading: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Two metrics for a volume, no more: each costs by the month."""
    values = {"BlockedTasks": (float((reading["dstate"] or {}).get("most", 0)), "Count")}
    if reading["dd_s"] is not None:
        values["SyncWriteTime"] = (float(reading["dd_s"]), "Seconds")
    return values


def put_metric_data(readings: Sequence[dict[str, Any]], namespace: str) -> Request:
    """Form of a PutMetricData with every reading that knows its volume."""
    form = {"Action": "PutMetricData", "Version": "2010-08-01", "Namespace": namespace}
    number = 0
    for reading in readings:
        for name, (value, unit) in metric_values(reading).items():
            number += 1
            member = f"MetricData.member.{number}"
            form[f"{member}.MetricName"], form[f"{member}.Unit"] = name, unit
            form[f"{member}.Value"], form[f"{member}.Timestamp"] = f"{value:.9g}", reading["time"]
            form[f"{member}.Dimensions.member.1.Name"] = "VolumeId"
            form[f"{member}.Dimensions.member.1.Value"] = reading["volume_id"]
    body = "&".join(f"{quote(name)}={quote(value)}" for name, value in form.items()).encode()
    kind = "application/x-www-form-urlencoded; charset=utf-8"
    return Request(service="monitoring", content_type=kind, target=None, body=body)


def emf_line(reading: dict[str, Any], namespace: str) -> str:
    """Write a reading as an embedded-metric-format event for the CloudWatch agent."""
    values = metric_values(reading)
    described = [{"Name": name, "Unit": unit} for name, (_, unit) in values.items()]
    directive = {"Namespace": namespace, "Dimensions": [["VolumeId"]], "Metrics": described}
    event = {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "LogGroupName": "ddprobe",
            "CloudWatchMetrics": [directive],
        },
        "VolumeId": reading["volume_id"],
        "Verdict": reading["verdict"],
        "Cause": reading["cause"],
    }
    return json_text(event | {name: value for name, (value, _) in values.items()}) + "\n"


def event_detail(reading: dict[str, Any], instance_id: str) -> str:
    """Write a stall as evidence for the watchdog: at most 4 KB, the least frequent tasks left out first."""
    top = [
        {key: group[key] for key in ("comm", "wchan", "count")}
        for group in (reading["dstate"] or {}).get("top", [])
    ]
    while True:
        detail = json_text(
            {
                "schema": EVENT_SCHEMA,
                "instance_id": instance_id,
                "volume_id": reading["volume_id"],
                "verdict": reading["verdict"],
                "cause": reading["cause"],
                "total_s": reading["total_s"],  # of the write that was made; null when we only watched
                "started_at": reading["started_at"],
                "top": top,
            }
        )
        if len(detail) <= MOST_EVENT_BYTES or not top:
            return detail
        top.pop()


def put_events(readings: Sequence[dict[str, Any]], bus: str, instance_id: str) -> Request:
    """Body of a PutEvents onto the watchdog's bus."""
    entries = [
        {
            "Source": "burstwatch.ddprobe",
            "DetailType": "stall",
            "EventBusName": bus,
            "Detail": event_detail(reading, reading["instance_id"] or instance_id),
        }
        for reading in readings
    ]
    kind = "application/x-amz-json-1.1"
    return Request(
        service="events",
        content_type=kind,
        target="AWSEvents.PutEvents",
        body=json_text({"Entries": entries}).encode(),
    )


def call_aws(http: HttpClient, caller: Caller, request: Request) -> None:
    """Sign and send; raises OSError with what AWS said when it does not take it."""
    url = endpoint(request.service, caller.region)
    status, answer = http.ask("POST", url, sign(http, caller, request, url, time.time()), request.body)
    is_ok = status == 200  # noqa: PLR2004 - HTTP
    is_refused = request.service == "events" and is_ok and http.json.loads(answer).get("FailedEntryCount")
    if not is_ok or is_refused:
        raise OSError(errno.EPROTO, f"{request.service} answered {status}: {plain(answer, 300)}")


def agent_address() -> tuple[str, int]:
    """Where the CloudWatch agent takes datagrams; raises UsageError for what is no such place."""
    address = os.environ.get("AWS_EMF_AGENT_ENDPOINT", "udp://127.0.0.1:25888")
    scheme, _, place = address.partition("://")
    if scheme != "udp" or parse_value("address", place) is None:
        raise UsageError(f"AWS_EMF_AGENT_ENDPOINT is {address}; ddprobe sends datagrams: udp://HOST:PORT")
    host, _, port = place.rpartition(":")
    return host, int(port)


class Sender:
    """Sends readings to AWS from a child, one at a time: DNS, TLS and credentials may all hang."""

    def __init__(self, kind: str, options: Options, http: HttpClient | None, every_s: float) -> None:
        self.kind, self._options, self._http, self._every_s = kind, options, http, every_s
        self._began_s = -1e9
        self._waiting: list[dict[str, Any]] = []
        self._sending: list[dict[str, Any]] = []
        self._child: ChildTask | None = None
        self._until_s = 0.0
        self._caller: dict[str, str] | None = None
        self._tries = 0

    def add(self, reading: dict[str, Any]) -> None:
        """Take a reading along with the next call; the newest of each path."""
        self._waiting = [other for other in self._waiting if other["path"] != reading["path"]] + [reading]

    def pump(self) -> None:
        """Collect what ended, start what waits."""
        if self._child:
            for frame in self._child.receive():
                self._heed(frame)
            if not self._child.over and time.monotonic() < self._until_s:
                return
            if not self._child.over:
                say(f"ddprobe: {self.kind} not sent: no answer within {SEND_S:g} s")
            self._child.give_up()
            self._child = None
        if self._waiting and time.monotonic() - self._began_s >= self._every_s:
            self._sending, self._waiting = self._waiting, []
            self._began_s = time.monotonic()
            self._until_s = self._began_s + SEND_S
            self._child = ChildTask(self._send)

    @property
    def busy(self) -> bool:
        return self._child is not None or bool(self._waiting)

    def _heed(self, frame: dict[str, Any]) -> None:
        if "caller" in frame:
            self._caller = frame["caller"]
        if "fault" in frame:
            self._tries += 1
            self._caller = None
            say(f"ddprobe: {self.kind} not sent: {frame['fault']}")
            if self.kind == "event" and self._tries < 5:  # noqa: PLR2004 - then newer ones matter more
                for reading in self._sending:
                    if all(reading["path"] != other["path"] for other in self._waiting):
                        self._waiting.append(reading)
        if "done" in frame:
            self._tries = 0

    def _send(self, send: Callable[[object], None]) -> None:
        try:
            if self.kind == "metrics" and self._options.cloudwatch == "emf":
                self._send_datagrams()
            else:
                self._send_signed(send)
            send({"done": True})
        except (OSError, ValueError, KeyError, ProbeError) as fault:
            send({"fault": plain(getattr(fault, "strerror", None) or str(fault), 400)})

    def _send_datagrams(self) -> None:
        import socket

        agent_at = agent_address()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
            for reading in self._sending:
                agent.sendto(emf_line(reading, self._options.namespace).encode(), agent_at)

    def _send_signed(self, send: Callable[[object], None]) -> None:
        assert self._http is not None
        base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA).rstrip("/")
        caller = Caller(**self._caller) if self._caller else ask_metadata(self._http, base)
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300))
        if caller.expires < soon:
            caller = ask_metadata(self._http, base)
        send({"caller": vars(caller)})
        if self._options.region:
            caller = Caller(**(vars(caller) | {"region": self._options.region}))
        request = (
            put_metric_data(self._sending, self._options.namespace)
            if self.kind == "metrics"
            else put_events(self._sending, self._options.event_bus or "", caller.instance_id)
        )
        call_aws(self._http, caller, request)


OUTPUT_WAIT_S: Final = 4.0
MOST_KEPT_LINES: Final = 100
SEND_S: Final = 15.0
FINISH_S: Final = 5.0
RETRY_S: Final = 1.0


def price_words(volumes: int, every_s: float) -> str:
    """Say what the metrics cost before they are sent: they are the one output with a price."""
    metrics = 2 * volumes * USD_PER_METRIC_MONTH
    calls = MONTH_S / every_s / 1000 * USD_PER_1000_PUTS
    return (
        f"CloudWatch: 2 metrics for {volumes} volume(s) are ${metrics:.2f} a month, one call each"
        f" {duration(every_s)} ${calls:.2f} (us-east-1, 30 days; with emf log ingestion instead of calls)"
    )


class EventGate:
    """Lets an event through when something changed, then once in five minutes while it lasts."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str, float]] = {}

    def opens_for(self, reading: dict[str, Any]) -> bool:
        path, now_s = reading["path"], time.monotonic()
        state = (reading["verdict"], reading["cause"])
        if (
            reading["verdict"] not in (WARN, CRIT)
            or reading["cause"] not in EVENT_CAUSES
            or not reading["volume_id"]
        ):
            self._last.pop(path, None)
            return False
        last = self._last.get(path)
        if last and now_s - last[2] < (300 if last[:2] == state else 60):
            return False
        self._last[path] = (*state, now_s)
        return True


class Outputs:
    """Everything a reading goes to; what has to be imported or opened is so before anything is sick."""

    def __init__(self, options: Options, state_dirs: StateDirs) -> None:
        self._options, self._state_dirs = options, state_dirs
        self._newest: dict[Probe | str, dict[str, Any]] = {}
        self._children: dict[str, ChildTask] = {}
        self._files = {path for path in (options.json, options.prom) if path}
        self._writing: set[str] = set()
        self._gate = EventGate()
        if options.cloudwatch == "emf":
            agent_address()
        signed = options.cloudwatch == "api" or options.event_bus
        for service in ("monitoring", "events") if signed else ():
            split_url(endpoint(service, "x"))
        http = HttpClient(secure=endpoint("events", "x").startswith("https")) if signed else None
        if options.graphite or options.cloudwatch:
            import socket

            self._socket = socket
        self._metrics = (
            Sender("metrics", options, http, options.cloudwatch_every) if options.cloudwatch else None
        )
        self._events = Sender("event", options, http, RETRY_S) if options.event_bus else None

    def publish(self, reading: dict[str, Any], probe: Probe | None = None) -> None:
        """Send a reading everywhere it is wanted; memory first. It replaces the last one of its probe."""
        options, self._newest[probe or reading["path"]] = self._options, reading
        line = json_text(reading)
        self._state_dirs.write(f"{reading['device'].replace('/', '-') or 'unknown'}.json", line + "\n")
        if options.json == "-":
            write_stream(1, line + "\n")
        elif options.json:
            kept = self._keep(options.json, line)
            self._file(options.json, lambda path: self._append_kept(path, kept))
        if options.prom:
            text = prom_text(list(self._newest.values()))
            self._file(options.prom, lambda path: replace_file(path, text))
        if options.collectd:
            host = os.environ.get("COLLECTD_HOSTNAME", reading["host"])
            write_stream(1, collectd_text(reading, host, options.interval))
        if options.graphite:
            text = graphite_text(reading, options.graphite_prefix)
            self._start_child("graphite", lambda send: send(self._graphite(text)))
        self._to_aws(reading)

    def _to_aws(self, reading: dict[str, Any]) -> None:
        if self._metrics and reading["volume_id"] and reading["verdict"] != UNKNOWN:
            self._metrics.add(reading)
        if self._events and self._gate.opens_for(reading):
            self._events.add(reading)
        self.pump()

    def pump(self) -> None:
        """Move on what is being sent."""
        for sender in self._senders():
            sender.pump()

    def _keep(self, path: str, line: str) -> str:
        """Put a line for a log into memory first: there it waits while the log's disk does not answer."""
        kept = f"{name_of(os.path.abspath(path))}.line-"
        for name in self._kept(kept)[: -(MOST_KEPT_LINES - 1)]:
            self._state_dirs.forget(name)
        self._state_dirs.write(f"{kept}{boot_clock():018.6f}-{os.getpid()}", line)
        return kept

    def _kept(self, kept: str) -> list[str]:
        return sorted(name for name in _names(self._state_dirs.folder) if name.startswith(kept))

    def _append_kept(self, path: str, kept: str) -> None:
        for name in self._kept(kept):
            if line := read_text(self._state_dirs.path(name), 4 * MIB):
                append_line(path, line)
            self._state_dirs.forget(name)

    def _file(self, path: str, write: Callable[[str], None]) -> None:
        """Write by a child, of which there is one at a time for a file, and one for a file system."""

        def work(send: Callable[[object], None]) -> None:
            touch = Touch(self._state_dirs, "output", OUTPUT_WAIT_S)
            folder, name = os.path.split(os.path.abspath(path))
            try:
                real, stranger = follow(folder, self._state_dirs.mounts, touch.reach)
                touch.reach(real)
                send("")
                if stranger and os.geteuid() == 0:
                    send(f"not written: {stranger} is a symbolic link of another user; name {real}")
                else:
                    write(os.path.join(real, name))
            except (OSError, ProbeError) as fault:
                send(f"not written: {getattr(fault, 'strerror', None) or fault}")

        self._start_child(path, work)

    def _start_child(self, name: str, work: Callable[[Callable[[object], None]], None]) -> None:
        self._say_faults()
        earlier = self._children.get(name)
        if earlier and not earlier.has_ended():
            say(f"ddprobe: {name} left out: the last one is not through yet")
            return
        if earlier:
            earlier.give_up()
        self._writing.discard(name)
        self._children[name] = ChildTask(work)

    def _graphite(self, text: str) -> str:
        host, _, port = (self._options.graphite or "").rpartition(":")
        try:
            with self._socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(text.encode())
        except OSError as fault:
            return str(fault)
        return ""

    def finish(self, within_s: float) -> None:
        """Give what is on its way some time; a child that needs more goes on without us.

        What goes to AWS has the usual time in any case: where systemd ends a service, it ends our children.
        """
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < FINISH_S:
            self.pump()
            self._say_faults()
            is_writing = passed_s < within_s and not all(child.over for child in self._children.values())
            if not is_writing and not any(sender.busy for sender in self._senders()):
                break
            time.sleep(0.005)
        late = [name for name, child in self._children.items() if not child.over]
        waiting = [name for name in late if name in self._files and name not in self._writing]
        for name in waiting:
            self._children[name].give_up()
        if waiting:
            where = f"the disk is waited for already; {self._state_dirs.folder} has the reading"
            say(f"ddprobe: not written now: {', '.join(waiting)}: {where}")
        late = [name for name in late if name not in waiting]
        late += [sender.kind for sender in self._senders() if sender.busy]
        if late:
            say(f"ddprobe: still on the way, and left alone: {', '.join(late)}")

    def _senders(self) -> list[Sender]:
        return [sender for sender in (self._metrics, self._events) if sender]

    def _say_faults(self) -> None:
        for name, child in self._children.items():
            for fault in child.receive():
                self._writing.add(name)
                if fault:
                    say(f"ddprobe: {name}: {fault}")


# ---------------------------------------------------------------- resident


class Stopping(Exception):  # noqa: N818 - not an error: what systemd asked for
    """SIGTERM or SIGINT came: a reading under way is dropped, and what it waits for ends by itself."""


class Notifier:
    """Tells systemd that we are up and alive; says nothing elsewhere."""

    def __init__(self) -> None:
        self._socket: Any = None
        self._next_s = 0.0
        self.stopping = False
        address = os.environ.get("NOTIFY_SOCKET", "")
        if address:
            import socket

            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._address = "\0" + address[1:] if address.startswith("@") else address

    def tell(self, text: str) -> None:
        if self._socket is not None:
            try:
                self._socket.sendto(text.encode(), self._address)
            except OSError:
                pass

    def beat(self) -> None:
        """Show that the loop turns; at most once a second. Ends whatever is under way when we are to stop."""
        if self.stopping:
            raise Stopping
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 1
            self.tell("WATCHDOG=1")


LOCK_CURRENT_AND_FUTURE: Final = 1 | 2
LOCK_ON_FAULT: Final = 4
ALL_LOCALES: Final = "locale-archive"
"""A file of 200 MB on some systems; it is mapped whole, and not needed."""


def lock_memory() -> str | None:
    """Keep what we have and will have in memory; give the reason where the kernel refuses.

    Pages of files are read in now. Others are locked as they come: a fresh one is zeroes and needs no disk.
    """
    import ctypes
    import resource

    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)  # gives back what compiling this file took
    faults = []
    if libc.mlockall(LOCK_CURRENT_AND_FUTURE | LOCK_ON_FAULT):
        faults.append(os.strerror(ctypes.get_errno()))
    for line in read_text("/proc/self/maps").splitlines():
        bounds, rights, _, _, inode, *name = line.split(None, 5)
        if inode == "0" or "r" not in rights or ALL_LOCALES in "".join(name):
            continue
        start, end = (int(edge, 16) for edge in bounds.split("-"))
        if libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(end - start)):
            faults.append(os.strerror(ctypes.get_errno()))
    if faults:
        return f"memory is not all locked ({faults[0]}): raise LimitMEMLOCK to 64M or grant CAP_IPC_LOCK"
    return None


class Resident:
    """Looks at every path for ever: the counters every few seconds, a write now and then."""

    def __init__(
        self, options: Options, probes: Sequence[Probe], outputs: Outputs, notifier: Notifier
    ) -> None:
        self._options, self._probes, self._outputs, self._notifier = options, probes, outputs, notifier
        now_s = time.monotonic()
        first_s = now_s + random_below(options.jitter)
        self._write_s = dict.fromkeys(probes, first_s)
        self._look_s = now_s + options.passive_every
        self._named_s: dict[Probe, float] = {}
        self._last: dict[Probe, tuple[str, str]] = {}

    def stop(self, *_: object) -> None:
        self._notifier.stopping = True

    def serve(self, rounds: int | None = None) -> None:
        """Go round until told to stop."""
        self._notifier.tell("READY=1")
        try:
            while rounds != 0:
                rounds = None if rounds is None else rounds - 1
                self._run_cycle()
                due_s = min(self._look_s, *self._write_s.values())
                time.sleep(min(1.0, max(0.0, due_s - time.monotonic())))
        except Stopping:
            pass
        self._notifier.tell("STOPPING=1")

    def _run_cycle(self) -> None:
        self._notifier.beat()
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + self._options.passive_every
            for probe in self._probes:
                self._look(probe)
        for probe in self._probes:
            if time.monotonic() >= self._write_s[probe]:
                self._write_s[probe] = time.monotonic() + self._options.interval
                self._tell(probe, probe.run(time.monotonic(), skip_look=True))
        self._outputs.pump()
        reap()

    def _look(self, probe: Probe) -> None:
        """Read the counters; when they are bad, see who waits and tell, and write no more for now."""
        probe.watches.look(even_if_just_done=True)
        judged = judge(probe.passive_facts(probe.watches.sickest(), None), probe.thresholds)
        probe.watches.restart()
        now_s = time.monotonic()
        if judged.verdict not in (WARN, CRIT):
            return
        if judged.cause == STALLED:
            self._write_s[probe] = max(self._write_s[probe], now_s + self._options.passive_every)
        known = SEVERITIES.index(self._last.get(probe, (OK, ""))[0]) if probe in self._last else 0
        changed = SEVERITIES.index(judged.verdict) > known
        if changed or now_s - self._named_s.get(probe, -1e9) >= self._options.interval:
            self._named_s[probe] = now_s
            self._tell(probe, probe.passive_reading())

    def _tell(self, probe: Probe, reading: dict[str, Any]) -> None:
        state = (reading["verdict"] if reading["verdict"] in SEVERITIES else WARN, reading["cause"])
        if self._last.get(probe) != state:
            by_path = len(self._options.paths) > 1
            say(f"ddprobe: {headline(reading, by_path=by_path)}")
            self._notifier.tell(f"STATUS={headline(reading, 200, by_path=by_path)}")
        self._last[probe] = state
        self._outputs.publish(reading, probe)


def random_below(seconds: float) -> float:
    """Spread a fleet over time."""
    return seconds * int.from_bytes(os.urandom(4), "little") / 2**32


# ---------------------------------------------------------------- the command line

MODES: Final = {
    "run": "one run, for cron, a timer, Nagios or node-problem-detector",
    "serve": "stay resident, memory locked, and look by its own schedule",
    "passive": "read counters and tasks only, ask the disk for nothing",
    "explain": "show mount, disk, volume and the cost of a run; write nothing",
}
EVERY: Final = "run serve passive explain"
WRITING: Final = "run serve explain"
MEASURING: Final = "run serve passive"

OPTIONS: Final = (
    # name, metavar, kind, default, modes, help
    ("level", "LEVEL", "lite classic ladder passive", "ladder", WRITING, "how far to go: see LEVELS"),
    (
        "engine",
        "ENGINE",
        "inproc dd",
        "inproc",
        WRITING,
        "who makes the classic writes: this process, or dd itself",
    ),
    ("file", "NAME", "name", ".ddprobe", WRITING, "our own file in PATH; it must begin with .ddprobe"),
    (
        "data",
        "DATA",
        "zero random",
        "zero",
        "run serve",
        "random where zeros cost nothing: btrfs, zfs, thin layers",
    ),
    (
        "writes",
        "N",
        "count",
        "",
        "run serve",
        "4 KiB writes of the lite level: 1; on the ladder 16, and 6 of serve",
    ),
    ("warn", "TIME", "time", "1s", MEASURING, "WARN when the classic dd takes, or would take, this long"),
    ("crit", "TIME", "time", "5s", MEASURING, "CRIT from here"),
    (
        "ratio",
        "N",
        "number",
        "10",
        "run serve",
        "WARN at this multiple of the healthy median of an idle disk",
    ),
    (
        "climb",
        "TIME",
        "time",
        "100ms",
        "run serve",
        "the ladder goes on to classic when a lite write takes so long",
    ),
    ("classic-every", "TIME", "time", "150s", "run serve", "the ladder climbs no more often than this"),
    ("deadline", "TIME", "time", "30s", "run serve", "a write not done by then is left alone, and reported"),
    ("look", "TIME", "time", "", "run passive", "how long to watch the counters: 1s; passive: 2s"),
    ("interval", "TIME", "time", "", WRITING, "how often you run it: 5m; serve: how often it writes: 30s"),
    ("passive-every", "TIME", "time", "5s", "serve", "how often to read the counters"),
    (
        "jitter",
        "TIME",
        "time",
        "0s",
        "run serve",
        "wait a random time up to this first, so that a fleet does not probe at once",
    ),
    ("max-credit-share", "SHARE", "share", "1%", WRITING, "spend no more than this share of the baseline"),
    ("baseline-iops", "N", "number", "100", WRITING, "the baseline it is a share of"),
    ("allow-fs", "FS", "list", "", WRITING, "write on this kind of file system although it is no local disk"),
    ("require-ebs", "", "flag", "", EVERY, "UNKNOWN where the path is on no EBS volume"),
    ("volume-id", "ID", "volume", "", EVERY, "the volume below PATH, where the device does not say (Xen)"),
    ("no-dstate", "", "flag", "", MEASURING, "do not look at processes"),
    ("top", "N", "count", "10", MEASURING, "groups of blocked tasks to report"),
    ("nvme-json", "FILE", "name", "", MEASURING, "take EBS counters from what another tool wrote as JSON"),
    (
        "run-dir",
        "DIR",
        "name",
        "",
        EVERY,
        "where locks and the newest readings are; ours alone, and in memory",
    ),
    (
        "exit-style",
        "STYLE",
        "nagios npd cron",
        "nagios",
        "run passive",
        "what the exit code means: see EXIT CODES",
    ),
    ("json", "FILE|-", "name", "", EVERY, "append each reading as a line of JSON; - is stdout"),
    ("prom", "FILE", "prom", "", MEASURING, "keep a textfile for node_exporter"),
    ("collectd", "", "flag", "", MEASURING, "print PUTVAL lines for collectd's exec plugin"),
    ("graphite", "HOST:PORT", "address", "", MEASURING, "send plaintext metrics"),
    ("graphite-prefix", "TEXT", "name", "ddprobe", MEASURING, "what their names begin with"),
    (
        "cloudwatch",
        "HOW",
        "emf api",
        "",
        EVERY,
        "two metrics for each volume: by the agent, or signed with the instance role",
    ),
    ("cloudwatch-every", "TIME", "time", "60s", EVERY, "send them no more often than this"),
    ("namespace", "TEXT", "name", "ddprobe", MEASURING, "their namespace"),
    ("event-bus", "BUS", "name", "", MEASURING, "put stalls on the watchdog's event bus, name or ARN"),
    ("region", "REGION", "name", "", MEASURING, "the region of both, if not the instance's"),
)
"""Every option once: parser, help and the tests of the pages read it."""


class Options(Record):
    """The command line, read and checked."""

    mode: str
    paths: tuple[str, ...]
    level: str
    engine: str
    file: str
    data: str
    writes: int
    warn: float
    crit: float
    ratio: float
    climb: float
    classic_every: float
    deadline: float
    look: float
    interval: float
    passive_every: float
    jitter: float
    max_credit_share: float
    baseline_iops: float
    allow_fs: tuple[str, ...]
    require_ebs: bool
    volume_id: str | None
    dstate: bool
    top: int
    nvme_json: str | None
    run_dir: str | None
    exit_style: str
    json: str | None
    prom: str | None
    collectd: bool
    graphite: str | None
    graphite_prefix: str
    cloudwatch: str | None
    cloudwatch_every: float
    namespace: str
    event_bus: str | None
    region: str | None
    startup_ms: float | None
    instance_id: str | None


UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
SHAPES: Final = {
    "time": "a time such as 500ms, 5s or 2m",
    "number": "a number above 0",
    "count": "a whole number from 1 to 1000",
    "share": "a share such as 1% or 0.01, at most 100%",
    "volume": "a volume id such as vol-0123456789abcdef0",
    "prom": "a file whose name ends in .prom",
    "address": "HOST:PORT",
    "name": "a value",
}


def parse_value(kind: str, text: str) -> Any:
    """Read one option's value; None when it has not the shape its kind asks for."""
    if kind in PARSERS:
        return PARSERS[kind](text)
    return text if text in kind.split() else None


def _time(text: str) -> float | None:
    number = text.rstrip("mhs")
    unit, value = UNITS_S.get(text[len(number) :]), _number(number)
    return None if unit is None or value is None else value * unit


def _share(text: str) -> float | None:
    value = _number(text.removesuffix("%"))
    share = (value or 0.0) / (100 if text.endswith("%") else 1)
    return share if 0 < share <= 1 else None


def _count(text: str) -> int | None:
    count = whole(text)
    return count if count is not None and 1 <= count <= 1000 else None  # noqa: PLR2004 - see SHAPES


def _address(text: str) -> str | None:
    host, _, port = text.rpartition(":")
    return text if host and _is_port(port) else None


def _number(text: str, below: float = 1e9) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < below else None  # and so neither inf nor nan


PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "name": lambda text: text or None,
    "list": lambda text: text or None,
    "time": _time,
    "share": _share,
    "number": lambda text: _number(text) or None,
    "count": _count,
    "volume": lambda text: volume_id_of(EBS_MODEL, text.replace("vol-", "vol", 1)),
    "prom": lambda text: text if text.endswith(".prom") and "/" in text else None,
    "address": _address,
}
"""How each kind of value is read; None for what has not its shape."""


def parse_command(argv: Sequence[str]) -> Options:
    """Read the command line; raises UsageError with every fault in it."""
    faults: list[str] = []
    given, paths = _split_argv(argv, faults)
    mode = paths.pop(0) if paths else ""
    if mode not in MODES:
        raise UsageError(
            f"{plain(mode, 40) or 'nothing'} is not one of {', '.join(MODES)}; see ddprobe --help"
        )
    values: dict[str, Any] = {}
    for name, _, kind, default, modes, _ in OPTIONS:
        texts = given.pop(name, [])
        if texts and mode not in modes.split():
            faults.append(f"--{name} means nothing to {mode}")
        values[name.replace("-", "_")] = _value_of(name, kind, texts, default, faults)
    faults += [f"there is no option --{plain(name, 40)}" for name in given]
    if mode == "passive":
        values["level"] = "passive"
    if values["interval"] is None:
        values["interval"] = _usual_interval(mode)
    if values["look"] is None:
        values["look"] = 2.0 if mode == "passive" else 1.0
    if not paths:
        paths = ["/"] if mode in ("passive", "explain") else ["/var/lib/ddprobe"]
    if "" in paths:
        faults.append("PATH is empty: is a variable not set?")
    if not faults:
        faults += _contradictions(mode, values)
    if faults:
        raise UsageError("; ".join(faults) + "; see ddprobe --help")
    tag = read_text("/sys/class/dmi/id/board_asset_tag")
    values["dstate"] = not values.pop("no_dstate")
    return Options(
        mode=mode,
        paths=tuple(paths),
        startup_ms=None,
        instance_id=plain(tag) if tag.startswith("i-") else None,
        **values,
    )


def _usual_interval(mode: str) -> float:
    if mode == "serve":
        collectd = os.environ.get("COLLECTD_INTERVAL", "")
        return max(30.0, _number(collectd) or 30.0)
    return 300.0


def _split_argv(argv: Sequence[str], faults: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    kinds = {name: kind for name, _, kind, _, _, _ in OPTIONS}
    given: dict[str, list[str]] = {}
    paths: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return given, paths + rest
        if not word.startswith("-") or word == "-":
            paths.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if kinds.get(name) == "flag":
            given.setdefault(name, []).append("yes")
        elif equals or name not in kinds:
            given.setdefault(name, []).append(text)
        elif rest:
            given.setdefault(name, []).append(rest.pop(0))
        else:
            faults.append(f"--{plain(name, 40)} needs a value")
    return given, paths


def _value_of(name: str, kind: str, texts: list[str], default: str, faults: list[str]) -> Any:
    if kind == "flag":
        return bool(texts)
    if kind == "list":
        return tuple(texts)
    text = texts[-1] if texts else default
    if not text and not texts:
        return 0 if kind == "count" else None
    value = parse_value(kind, text)
    if value is None:
        shape = SHAPES.get(kind) or f"one of {', '.join(kind.split())}"
        faults.append(f"--{name} takes {shape}, not {plain(text, 60)!r}")
    return value


def _contradictions(mode: str, values: dict[str, Any]) -> list[str]:
    faults = []
    crit = f"--crit {values['crit']:g}s"
    if values["warn"] > values["crit"]:
        faults.append(f"--warn {values['warn']:g}s is above {crit}")
    if mode != "passive" and values["deadline"] < values["crit"]:
        faults.append(f"--deadline {values['deadline']:g}s is below {crit}: no verdict could be reached")
    if "/" in values["file"]:
        faults.append(f"--file is a name in PATH, not a path: {plain(values['file'], 60)!r}")
    elif not values["file"].startswith(".ddprobe"):
        faults.append(
            f"--file must begin with .ddprobe, so as not to name other data: {plain(values['file'], 60)!r}"
        )
    if values["collectd"] and values["json"] == "-":
        faults.append("--collectd and --json - both want stdout")
    if values["engine"] == "dd" and values["data"] == "random":
        faults.append("--engine dd writes zeros: leave out --data random, or take --engine inproc")
    rate = values["max_credit_share"] * values["baseline_iops"]
    level = values["level"]
    writes = values["writes"] or (USUAL_WRITES.get(mode, 1) if level == "ladder" else 1)
    series = cost_of("lite", writes, (), bulk=BULK_WRITES if level == "ladder" else 0)
    cost = CLASSIC_CREDITS if level == "classic" else series.credits
    if mode in ("run", "serve") and values["level"] != "passive" and cost > rate * values["interval"]:
        spent, share = cost / values["interval"], values["max_credit_share"]
        faults.append(
            f"{level} every {values['interval']:g} s spends {spent:.2g} credits/s, more than {share:.2g}"
            f" x {values['baseline_iops']:g} IOPS: every {cost / rate:.0f} s is possible"
        )
    return faults


LEVELS_HELP: Final = """\
LEVELS (credits a time, flushes counted)
  passive   0    the kernel's counters and tasks only
  lite      2    one 4 KiB synchronous write, in place
  classic  86    dd if=/dev/zero bs=1M count=10 oflag=sync
  ladder   42    passive, 16 lite writes (6 of serve) and two of 1 MiB,
                 classic if they are slow

EXIT CODES
  nagios    0 OK, 1 WARN, 2 CRIT, 3 UNKNOWN (not measured, bad usage)
  npd       0 OK, 1 problem, 2 unknown; one line of at most 80 characters
  cron      0 for every measured verdict, 3 otherwise; prints what is not OK
"""
EXAMPLES_HELP: Final = """\
EXAMPLES
  ddprobe explain /data                what is it on, and what would a run cost?
  ddprobe run /data                    the ladder, with the answer Nagios wants
  ddprobe run --level classic --engine dd /data     the dd everybody types
  ddprobe passive --json -             who is stuck? asks the disk for nothing
  ddprobe serve --prom /run/ddprobe/ddprobe.prom /data     for node_exporter

What to do about a stall: /usr/share/doc/ddprobe/runbooks/HostStallReported.md
Fields, cost and caveats: ddprobe.md
"""


def help_text() -> str:
    """Everything there is to ask for, in 80 columns."""
    lines = ["usage: ddprobe run|serve|passive|explain [OPTIONS] [PATH...]", ""]
    lines += ["How long does a synchronous write here take, and who is stuck meanwhile?", ""]
    lines += [f"  {mode:<8} {words}" for mode, words in MODES.items()]
    lines += [
        "",
        "PATH is a directory; if none is named: /var/lib/ddprobe, or / to read only.",
        "",
        "OPTIONS",
    ]
    for name, metavar, kind, default, _, words in OPTIONS:
        choices = " " + "|".join(kind.split()) if " " in kind else ""
        lines.append(f"  --{name} {choices.strip() or metavar}".rstrip())
        lines += _wrap(words + (f" (default {default})" if default else ""), "      ")
    return "\n".join([*lines, "  --help, --version", "", LEVELS_HELP, EXAMPLES_HELP])


def _wrap(text: str, indent: str, width: int = 80) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(indent) + len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [indent + line for line in lines]


def explanation(options: Options, site: Site) -> str:
    """What a path stands on and what a run costs there."""
    mount = site.mount
    rows = [
        ("path", site.path if site.answered else f"{site.path} (the disk did not answer)"),
        ("mount", f"{mount.point} ({mount.fs}, {mount.options})"),
        ("device", f"{site.partition or mount.source} ({mount.dev})"),
    ]
    for disk in site.disks:
        rows.append(("disk", f"{disk.name}, {disk.size_gib:.4g} GiB, {disk.model or 'no model'}"))
        rows.append(("volume", disk.volume_id or "not an EBS volume, or it does not say: --volume-id"))
        rows.append(("requests", f"up to {disk.max_io_kib} KiB; cache {disk.write_cache}"))
        if not keeps_counters(disk):
            rows.append(("counters", "off (queue/iostats is 0): the cause of a stall will be unknown"))
    if not site.disks:
        rows.append(("disk", "none with counters: the cause of a stall will be unknown"))
    try:
        refuse_foreign(site, options.allow_fs)
        rows.append(("own file", f"{os.path.join(site.path, options.file)}, at most 10 MiB"))
    except UsageError as refusal:
        rows.append(("refused", str(refusal)))
    rows += _cost_rows(options, site)
    if options.cloudwatch:
        rows.append(
            (
                "price",
                price_words(max(1, len(site.volume_ids)), max(options.interval, options.cloudwatch_every)),
            )
        )
    return "\n".join(_row(name, text) for name, text in rows) + "\n"


def _row(name: str, text: str) -> str:
    first, *others = _wrap(text, " " * 11)
    return "\n".join([f"{name:<10} {first.strip()}", *others])


def _cost_rows(options: Options, site: Site) -> list[tuple[str, str]]:
    rows = []
    share = options.max_credit_share * options.baseline_iops
    ladder = USUAL_WRITES["run"]
    for level, writes in (("lite", 1), ("ladder", ladder), ("classic", CLASSIC_BLOCKS)):
        bulk = BULK_WRITES if level == "ladder" else 0
        cost = cost_of("lite" if level == "ladder" else level, writes, site.disks, bulk=bulk)
        used = 100 * cost.credits / options.interval / options.baseline_iops
        flushes = f"{cost.flushes} flush" + "es" * (cost.flushes > 1)
        asked = f"{cost.writes} write{'s' * (cost.writes > 1)} and {flushes}, {cost.credits} credits"
        often = f"{used:.2g} % of {options.baseline_iops:g} IOPS every {duration(options.interval)}"
        rows.append((level, f"{asked}: {often}; at most every {cost.credits / share:.0f} s"))
    return rows


# ---------------------------------------------------------------- main


def main(argv: Sequence[str]) -> int:
    """Run one command; give the exit code."""
    began_s, taken_s = time.monotonic(), startup_s()
    open_standard_streams()
    if "--version" in argv or argv == ["version"]:
        write_stream(1, f"ddprobe {VERSION}\n")
        return 0
    if "-h" in argv or "--help" in argv or not argv:
        write_stream(1, help_text())
        return 0 if argv else 3
    style = "nagios"
    for index, word in enumerate(argv):
        if word.startswith("--exit-style"):
            style = word.partition("=")[2] or "".join(argv[index + 1 : index + 2])
    unknown = EXITS.get(style, EXITS["nagios"])[UNKNOWN]
    try:
        options = parse_command(argv)
        options = Options(**(vars(options) | {"startup_ms": None if taken_s is None else 1000 * taken_s}))
        return _do(options, began_s)
    except ProbeError as fault:
        if style == "nagios" and argv[0] == "run":
            write_stream(1, f"DDPROBE UNKNOWN: {fault}\n")  # Nagios reads stdout only
        else:
            say(f"ddprobe: {fault}")
        return unknown
    except KeyboardInterrupt:
        return 130
    except Exception as fault:  # a traceback reads source files, and tells an operator nothing
        say(f"ddprobe: fault in ddprobe itself, please report: {type(fault).__name__}: {fault}")
        if os.environ.get("DDPROBE_DEBUG"):
            raise
        return unknown


def open_standard_streams() -> None:
    """Fill the numbers 0 to 2 where the caller closed them, or a pipe of ours would get one and be lost."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:  # noqa: PLR2004 - stderr
        pass
    os.close(fd)


def _do(options: Options, began_s: float) -> int:
    if options.mode == "explain":
        state_dirs = _state_dirs_if_possible(options.run_dir)
        _state_dirs_in_use[:] = [state_dirs] if state_dirs else []
        for path in options.paths:
            site = find_site(path, options.crit, options.volume_id, state_dirs)
            write_stream(
                1, json_text(_site_record(site)) + "\n" if options.json else explanation(options, site)
            )
        return 0
    if options.jitter and options.mode == "run":
        time.sleep(random_below(options.jitter))
        began_s = time.monotonic()
    if options.nvme_json:
        import json  # noqa: F401 - now, while the disk answers
    state_dirs = StateDirs(options.run_dir)
    _state_dirs_in_use[:] = [state_dirs]
    notifier = Notifier()
    lookups = [Lookup(path, state_dirs, writes=options.level != "passive") for path in options.paths]
    until_s = time.monotonic() + options.crit
    probes, refused = [], []
    for lookup in lookups:
        try:
            site = find_allowed_site(options, lookup, until_s)
            probes.append(Probe(options, site, state_dirs, notifier.beat))
        except ProbeError as fault:
            if len(lookups) == 1:
                raise
            refused.append(_refused_probe(options, lookup, state_dirs, notifier.beat, str(fault)))
    if not probes:
        raise UsageError("; ".join(str(probe.refusal) for probe in refused))
    outputs = Outputs(options, state_dirs)
    if options.cloudwatch:
        volumes = len({volume_id for probe in probes for volume_id in probe.site.volume_ids})
        say(f"ddprobe: {price_words(volumes, max(options.interval, options.cloudwatch_every))}")
    for probe in probes:
        if (options.cloudwatch or options.event_bus) and not probe.site.volume_ids:
            say(f"ddprobe: nothing goes to AWS of {probe.site.path}, whose volume is not known: --volume-id")
    if options.mode == "serve":
        return _serve(options, probes + refused, outputs, notifier)  # refused ones are tried again
    readings = _readings(options, probes, began_s)
    readings += [probe.unmeasured(str(probe.refusal)) for probe in refused]
    for reading in readings:
        outputs.publish(reading)
    for reading in sorted(readings, key=lambda reading: -BADNESS.index(reading["verdict"])):
        _answer(options, reading, probes[0].thresholds)
    outputs.finish(FINISH_S if all(reading["completed"] for reading in readings) else 0.9)
    return EXITS[options.exit_style][worst(reading["verdict"] for reading in readings)]


def _state_dirs_if_possible(wanted: str | None) -> StateDirs | None:
    """Give a folder for locks, so that a hundred explains leave one process on a stuck disk, not a hundred.

    Without one explain still answers: it is what somebody runs to find out why nothing else works.
    """
    try:
        return StateDirs(wanted)
    except ProbeError:
        if wanted:
            raise
        return None


def _readings(options: Options, probes: Sequence[Probe], began_s: float) -> list[dict[str, Any]]:
    """Run every probe. Several run at once, each in a child, so that one deadline holds for all of them."""
    if len(probes) == 1:
        return [probes[0].run(began_s)]

    def start(probe: Probe) -> ChildTask:
        return ChildTask(lambda send: send(probe.run(began_s)))

    children = [start(probe) for probe in probes]
    until_s = max(began_s + options.deadline, time.monotonic() + options.look) + 2 * STILL_S
    answers = [child.answer(max(0.0, until_s - time.monotonic())) for child in children]
    lost = "the process that measured it died or did not return by the deadline"
    return [reading or probe.unmeasured(lost) for probe, reading in zip(probes, answers)]


def _refused_probe(
    options: Options, lookup: Lookup, state_dirs: StateDirs, heartbeat: Callable[[], None], reason: str
) -> Probe:
    """Stand for one path of several that cannot be measured: the others are."""
    site = Site(path=lookup.path, answered=False, mount=NOWHERE, mounts=(), partition="", disks=())
    say(f"ddprobe: {reason}")
    probe = Probe(options, site, state_dirs, heartbeat)
    probe.refusal = reason
    return probe


def _site_record(site: Site) -> dict[str, Any]:
    return {
        "path": site.path,
        "mount": vars(site.mount),
        "device": site.partition,
        "volume_ids": site.volume_ids,
        "disks": [vars(disk) for disk in site.disks],
    }


def _answer(options: Options, reading: dict[str, Any], thresholds: Thresholds) -> None:
    if options.json == "-" or options.collectd:
        return
    by_path = len(options.paths) > 1
    if options.exit_style == "npd":
        write_stream(1, headline(reading, 80, by_path=by_path) + "\n")
    elif options.exit_style == "nagios":
        write_stream(1, nagios_line(reading, thresholds, by_path=by_path) + "\n")
    elif reading["verdict"] != OK:
        write_stream(1, headline(reading, by_path=by_path) + "\n")


def _serve(options: Options, probes: Sequence[Probe], outputs: Outputs, notifier: Notifier) -> int:
    import signal

    resident = Resident(options, probes, outputs, notifier)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, resident.stop)
    try:
        fault = lock_memory()
    except (ImportError, MemoryError, OSError, ValueError) as trouble:
        fault = f"memory is not locked ({trouble})"
    if fault:
        say(f"ddprobe: {fault}; on a sick root disk it may have to wait for its own pages")
    resident.serve()
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - the message is for whoever has an older one
        sys.stderr.write(f"ddprobe needs Python 3.9 or newer, not {sys.version.split()[0]}\n")
        sys.exit(3)
    sys.exit(main(sys.argv[1:]))
