"""State directories in memory: locks, the newest readings; and the streams, which take a lock as well."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import time
from collections.abc import Callable, Sequence

from ddprobe_source.host.child_task import STEP_S, ChildTask
from ddprobe_source.host.clock import boot_clock
from ddprobe_source.host.files import kind_of, read_mounts, replace_file, write_all
from ddprobe_source.judgement.disks import MEMORY_FS, Mount, mount_of
from ddprobe_source.judgement.record import ProbeError, Record, UsageError
from ddprobe_source.judgement.text import format_duration, parse_integer, parse_number


class StateDirs:
    """A folder in memory, where nothing waits for a disk: locks, what was measured, the newest reading."""

    def __init__(self, wanted: str | None) -> None:
        """Take the requested folder, or the first usual one that is in memory and ours."""
        self.mounts = read_mounts()
        if not self.mounts:
            raise ProbeError("/proc/self/mountinfo cannot be read: mount /proc")
        faults = []
        for folder in [wanted] if wanted else _default_state_dirs():
            fault = _why_not_private(os.path.abspath(folder), self.mounts)
            if fault is None:
                self.folder = os.path.abspath(folder)
                return
            faults.append(f"{folder} {fault}")
        raise UsageError(f"{', and '.join(faults)}; name another with --run-dir, such as /run/ddprobe")

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def ensure(self) -> None:
        """Make the folder again where somebody tidied it away."""
        fault = _why_not_private(self.folder, self.mounts)
        if fault is not None:
            raise ProbeError(f"{self.folder} {fault}")

    def write(self, name: str, text: str) -> None:
        """Replace one small file whole."""
        path = self.path(name)
        try:
            self.ensure()
            replace_file(path, text)
        except (OSError, ProbeError) as fault:
            print_error(f"ddprobe: {path} not written: {fault}")

    def open_scratch_file(self) -> int:
        """Open a file in memory that has no name and is gone when it is closed."""
        self.ensure()
        name = self.path(f".scratch.{os.urandom(8).hex()}")
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.unlink(name)
        return fd

    def remove(self, name: str) -> None:
        """Remove one small file, unless another run just did."""
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            pass

    def holder_of(self, key: str) -> LockHolder | None:
        """Who holds a lock now; None if it is free."""
        lock = Lock(self, key)
        holder = None if lock.take() else lock.holder()
        lock.close()
        return holder


state_dirs_in_use: list[StateDirs] = []
"""The one of this process: what is written to a file by stdout or stderr takes a lock in it as well."""


def _default_state_dirs() -> list[str]:
    private = f"/dev/shm/ddprobe-{os.geteuid()}"  # noqa: S108 - made with mode 0700 and checked to be ours
    if os.geteuid() == 0:
        return ["/run/ddprobe", private]
    home = os.environ.get("XDG_RUNTIME_DIR")
    return ([f"{home}/ddprobe"] if home else []) + [private]


def _why_not_private(folder: str, mounts: Sequence[Mount]) -> str | None:
    """Make a folder in memory, or return why it cannot be ours alone. This looks up nothing on a disk."""
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


class LockHolder(Record):
    """What holds a lock: a write of a level, a lookup, or an output."""

    pid: int
    level: str
    started_s: float
    age_s: float
    path: str


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

    def holder(self) -> LockHolder | None:
        """Who holds it, and since when; None just before that is noted, or if the note is malformed."""
        fields = os.pread(self.fd, 8192, 0).decode("utf-8", "surrogateescape").split(" ", 4)
        if len(fields) < 5:  # noqa: PLR2004 - see write_holder
            return None
        pid, booted_s, started_s = (
            parse_integer(fields[0]),
            parse_number(fields[2]),
            parse_number(fields[3], 1e11),
        )
        if pid is None or pid <= 0 or not fields[1].isalpha() or booted_s is None or started_s is None:
            return None
        age_s = max(0.0, boot_clock() - booted_s)
        return LockHolder(pid=pid, level=fields[1], started_s=started_s, age_s=age_s, path=fields[4])

    def close(self) -> None:
        """Drop our hold; a child that inherited it keeps its own."""
        os.close(self.fd)


def write_holder(fd: int, level: str, began: tuple[float, float], path: str) -> None:
    """Write into the lock file who we are, since when, by both clocks, and what we wait for."""
    text = os.fsencode(f"{os.getpid()} {level} {began[0]:.3f} {began[1]:.3f} {path}")
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


class FileSystemLock:
    """Holds the lock of the file system that a child is about to touch, so that only one can hang there."""

    def __init__(self, state_dirs: StateDirs | None, level: str, wait_s: float | None = None) -> None:
        """Wait ``wait_s`` for others, then raise; by default go on without the lock."""
        self._state_dirs, self._level, self._wait_s = state_dirs, level, wait_s
        self._began = (boot_clock(), time.time())
        self._key = ""
        self._lock: Lock | None = None

    def move_to(self, path: str) -> None:
        """Release the lock of the file system before, and take that of the one the path is on."""
        mount = mount_of(path, self._state_dirs.mounts) if self._state_dirs else None
        if self._state_dirs is None or mount is None:
            return
        if mount.key != self._key:
            if self._lock:
                self._lock.close()
            self._key, self._lock = mount.key, self._acquire(self._state_dirs, mount.key)
        if self._lock:
            write_holder(self._lock.fd, self._level, self._began, path)

    def _acquire(self, state_dirs: StateDirs, key: str) -> Lock | None:
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
                f"process {holder.pid} has waited {format_duration(holder.age_s)}"
                if holder
                else "another one waits"
            )
            raise BlockingIOError(errno.EAGAIN, f"{who} for this file system")
        return lock


def write_stream(fd: int, text: str, within_s: float = 1.0) -> bool:
    """Write to stdout or stderr without ever waiting for its reader."""
    raw, until_s = text.encode("utf-8", "replace"), time.monotonic() + within_s
    state_dirs = state_dirs_in_use[0] if state_dirs_in_use else None

    def write_to_file(send: Callable[[object], None]) -> None:
        FileSystemLock(state_dirs, "output", within_s).move_to(os.readlink(f"/proc/self/fd/{copy}"))
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


def print_output(text: str) -> bool:
    """Print to stdout; give whether it was taken. What is lost is reported on stderr."""
    is_taken = write_stream(1, text)
    if not is_taken:
        print_error("ddprobe: output is lost: stdout is full, or nothing reads it")
    return is_taken


def print_error(text: str) -> None:
    """Print to stderr, where text cannot spoil data; drop it if the reader does not take it."""
    write_stream(2, text + "\n")
