"""The state directory of a disk, with which any process can find everything of the disk and take it down.

Mounts and loop devices are found by the folder of their files, processes by their recorded IDs. So taking
down needs no other state, and can be repeated.

Folders are looked for where every user may write, and root acts on what it finds there. So a folder must be a
real directory of our own with mode 0700, and its files must be our own as well; links are never followed.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "burstlab-disk-"
MOUNT_NAME: Final = "mnt"
EXPORT_NAME: Final = "export.img"
SOCKET_NAME: Final = "qmp.sock"
SERVER: Final = "qemu-storage-daemon"
THROTTLE_GROUP: Final = "limits"
NO_LIMIT: Final = 10_000_000
"""Operations per second: with none at all, the daemon could not count large ones as several."""

_LOCK_NAME: Final = "owner"
_PROCESSES_NAME: Final = "processes"
_PROCESS_FIELDS: Final = 2  # the process ID, and when it started: IDs are used again
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - a file system, and the folder in it is made safely
_NEEDED_BYTES: Final = 768 * 2**20  # the two disks of an incident, 256 MiB each, and half as much again
_COMM_LENGTH: Final = 15  # the kernel cuts names in /proc to 15 characters; Source: proc(5), TASK_COMM_LEN
_CGROUPS: Final = Path("/sys/fs/cgroup")
_CONTAINER_PROCESSES: Final = ("conmon", "podman")
_TIMEOUT_S: Final = 10.0  # a process or a mount is usually gone within milliseconds
_POLL_INTERVAL_S: Final = 0.02  # short beside what it waits for
_SAFE_OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""How the folder's own files are opened: never through a link, never waiting for the other end of a FIFO."""


def make_state_dir(parent: Path | None = None) -> Path:
    """A new folder that only root may access; in memory if there is room, so that it is fast."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent or _default_parent()))


def lock(directory: Path) -> int:
    """Hold the folder for as long as the descriptor is open, however the holder ends.

    Raises:
    BlockingIOError: another process has it.
    PermissionError: it is not a private directory, or its lock is not our own file.
    """
    if not is_private_directory(directory):
        raise PermissionError(f"{directory} is not a directory of this user with mode 0700")
    lock_fd = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT | _SAFE_OPEN_FLAGS, 0o600)
    try:
        if not _is_private_file(lock_fd):
            raise PermissionError(f"{directory / _LOCK_NAME} is not a regular file of this user")
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock_fd)
        raise
    return lock_fd


def is_private_directory(directory: Path) -> bool:
    """Whether it is a real directory, not a link, that this user owns and no other user may enter."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    is_private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
    return is_private and status.st_uid == os.geteuid()


def orphaned_state_dirs(parent: Path | None = None) -> list[Path]:
    """Disks left standing here, in the usual places, or mounted: no maker or keeper of them is alive."""
    orphans = []
    for directory in _state_dirs(parent):
        try:
            os.close(lock(directory))
        except OSError:
            continue
        orphans.append(directory)
    return orphans


def record_process(directory: Path, pid: int) -> None:
    """Remember a process that is to end with the disk."""
    file = os.open(
        directory / _PROCESSES_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFE_OPEN_FLAGS, 0o600
    )
    try:
        os.write(file, f"{pid} {_start_ticks(pid)}\n".encode())
    finally:
        os.close(file)


def remove(directory: Path, *, timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Undo all that was built in the folder, and answer what could not be, in words."""
    if not is_private_directory(directory):
        return []  # gone, or never ours: nothing here may be acted on
    with suppress(OSError):
        _lift_limits(directory)
    _kill_processes(directory)
    _remove_containers(directory)
    with suppress(OSError):
        _run(["fsfreeze", "-u", str(directory / MOUNT_NAME)])
    leftovers = unmount(directory / MOUNT_NAME, timeout_s)
    for loop in loop_devices(directory):
        _run(["losetup", "-d", f"/dev/{loop}"])
    wait_until(lambda: not loop_devices(directory), timeout_s if not leftovers else 1.0)
    _stop_servers(directory)
    leftovers += [
        f"{directory / EXPORT_NAME} is mounted" for _ in unmount(directory / EXPORT_NAME, timeout_s)
    ]
    leftovers += [f"/dev/{loop} is attached" for loop in loop_devices(directory)]
    if not leftovers:
        shutil.rmtree(directory, ignore_errors=True)
    return leftovers


def loop_devices(directory: Path) -> list[str]:
    """Loop devices on a file of this folder."""
    loops = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if backing.read_text().startswith(f"{directory}/"):
                loops.append(backing.parts[3])
    return sorted(loops)


def clear_limits(loop: str) -> None:
    """Lift what limits of this loop device the cgroup holds, from whichever use of it."""
    device_number = _read_text(Path(f"/sys/block/{loop}/dev"))
    for path in (*limit_files(), *limit_files("bps")):
        if any(line.split()[0] == device_number for line in _read_text(path).splitlines()):
            path.write_text(f"{device_number} 0")


def limit_files(unit: str = "iops") -> list[Path]:
    """The files that limit operations (or "bps") per second in version 1 root cgroups; may be empty."""
    for line in _read_text(Path("/proc/self/mountinfo")).splitlines():
        fields, _, filesystem = line.partition(" - ")
        filesystem_type, _, options = filesystem.split(" ", 2)
        if filesystem_type == "cgroup" and "blkio" in options.split(","):
            root = Path(fields.split()[4])
            files = [root / f"blkio.throttle.{operation}_{unit}_device" for operation in ("read", "write")]
            return [path for path in files if path.exists()]
    return []


def is_mounted(path: Path) -> bool:
    """Whether something is mounted right there."""
    return path in _mount_points()


def _mount_points() -> list[Path]:
    return [Path(line.split()[4]) for line in _read_text(Path("/proc/self/mountinfo")).splitlines()]


def server_pids(directory: Path) -> list[int]:
    """Storage daemons that were started in this folder."""
    pids = []
    for pid in _pids():
        with suppress(OSError):
            comm = _read_text(Path(f"/proc/{pid}/comm"))
            if comm == SERVER[:_COMM_LENGTH] and Path(f"/proc/{pid}/cwd").readlink() == directory:
                pids.append(pid)
    return pids


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether the condition became true within the time-out."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


class QmpClient:
    """A conversation with the storage daemon of a folder."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_TIMEOUT_S / 2)
        try:
            self._socket.connect(str(directory / SOCKET_NAME))
            self._lines = self._socket.makefile("rw")
            self._lines.readline()
            self.execute("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def execute(self, command: str, **arguments: Any) -> Any:
        """Its answer.

        Raises:
            OSError: it refused, or is not there any more.
        """
        self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._lines.flush()
        while line := self._lines.readline():
            response = json.loads(line)
            if "error" in response:
                raise OSError(f"{SERVER} refused {command}: {response['error'].get('desc')}")
            if "return" in response:
                return response["return"]
        raise OSError(f"{SERVER} is gone")

    def set_limit(self, iops: int, bytes_per_s: int = 0) -> None:
        """Limit the operations, and the bytes unless 0, per second."""
        # what is not given stays as it was: the burst has to be named to be off
        limits = {
            f"{unit}-total{suffix}": value
            for unit, limit_value in (("iops", iops), ("bps", bytes_per_s))
            for suffix, value in (("", limit_value), ("-max", 0), ("-max-length", 1))
        }
        self.execute("qom-set", path=f"/objects/{THROTTLE_GROUP}", property="limits", value=limits)

    def close(self) -> None:
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def _default_parent() -> Path:
    with suppress(OSError):
        filesystem = os.statvfs(_MEMORY_DIRECTORY)
        if filesystem.f_bavail * filesystem.f_frsize >= _NEEDED_BYTES and os.access(
            _MEMORY_DIRECTORY, os.W_OK
        ):
            return _MEMORY_DIRECTORY
    return Path(tempfile.gettempdir())


def _state_dirs(parent: Path | None) -> Iterator[Path]:
    parents = (_MEMORY_DIRECTORY, Path(tempfile.gettempdir()), parent or _MEMORY_DIRECTORY)
    unmounted = (path for directory in parents for path in sorted(directory.glob(f"{PREFIX}*")))
    for path in dict.fromkeys((*unmounted, *_mounted_state_dirs())):
        if is_private_directory(path):
            yield path


def _mounted_state_dirs() -> list[Path]:
    """Folders of disks that are mounted, wherever they are: a test's or a user's own folder."""
    return sorted(
        {mount.parent for mount in _mount_points() if mount.parent.name.startswith(PREFIX)},
    )


def _lift_limits(directory: Path) -> None:
    """What is queued must be able to end."""
    for loop in loop_devices(directory):
        clear_limits(loop)
    servers = server_pids(directory)
    for pid in servers:
        os.kill(pid, signal.SIGCONT)
    if servers:
        monitor = QmpClient(directory)
        try:
            monitor.set_limit(NO_LIMIT)
        finally:
            monitor.close()


def _kill_processes(directory: Path) -> None:
    """Kill the recorded processes and wait; a process in state D ends when the disk responds."""
    alive = [
        (pid, started) for pid, started in _recorded_processes(directory) if _start_ticks(pid) == started
    ]
    for pid, _ in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: all(_start_ticks(pid) != started or _is_dead(pid) for pid, started in alive), _TIMEOUT_S
    )


def _recorded_processes(directory: Path) -> list[tuple[int, str]]:
    """Processes and their starts, of a list that is our own file; a line cut short is left out."""
    try:
        descriptor = os.open(directory / _PROCESSES_NAME, os.O_RDONLY | _SAFE_OPEN_FLAGS)
    except OSError:
        return []
    with os.fdopen(descriptor, errors="replace") as file:
        lines = [line.split() for line in file.read().splitlines()] if _is_private_file(descriptor) else []
    return [
        (int(fields[0]), fields[1])
        for fields in lines
        if len(fields) == _PROCESS_FIELDS and fields[0].isdecimal()
    ]


def _is_private_file(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def _remove_containers(directory: Path) -> None:
    """Kill what podman keeps for containers of this folder, and what is in the cgroups of its name."""
    wait_until(lambda: not _kill_containers(directory), _TIMEOUT_S)
    for cgroup in [*_CGROUPS.glob(directory.name), *_CGROUPS.glob(f"*/{directory.name}")]:
        for pid in _read_text(cgroup / "cgroup.procs").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda cgroup=cgroup: _remove_cgroup(cgroup), 1.0)  # type: ignore[misc]


def _remove_cgroup(cgroup: Path) -> bool:
    """Whether the cgroup is gone, with those below it; one with a process that is ending remains for now."""
    for path in sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):
            path.rmdir()
    with suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()


def _kill_containers(directory: Path) -> bool:
    """Whether there were any."""
    pids_by_comm: dict[str, set[int]] = {comm: set() for comm in _CONTAINER_PROCESSES}
    for pid in _pids():
        comm = _read_text(Path(f"/proc/{pid}/comm"))
        if (
            comm in pids_by_comm
            and f"{directory}/" in _read_text(Path(f"/proc/{pid}/cmdline"))
            and _is_our_process(pid)
        ):
            pids_by_comm[comm].add(pid)
    children = [pid for pid in _pids() if _parent_pid(pid) in pids_by_comm["conmon"]]
    # conmon first: where a container ends under it, it starts another podman to clean up
    for pid in (*pids_by_comm["conmon"], *children, *pids_by_comm["podman"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return any(pids_by_comm.values())


def unmount(path: Path, patience_s: float) -> list[str]:
    """Unmount; if it is in use, detach it lazily and report the users."""
    deadline = time.monotonic() + patience_s
    while is_mounted(path):
        if _run(["umount", "-R", str(path)]) == 0:
            continue
        if time.monotonic() >= deadline:
            users = ", ".join(f"{pid} ({_read_text(Path(f'/proc/{pid}/comm'))})" for pid in _pids_using(path))
            _run(["umount", "-l", str(path)])
            return [f"{path} is in use by {users or 'somebody'}: end that, then it goes by itself"]
        time.sleep(_POLL_INTERVAL_S * 5)
    return []


def _pids_using(path: Path) -> list[int]:
    """Processes with a file or folder open below a path; only links are read, never the disk."""
    pids = []
    for pid in _pids():
        with suppress(OSError):
            links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
            if any(_links_below(link, path) for link in links):
                pids.append(pid)
    return pids


def _links_below(link: Path, path: Path) -> bool:
    try:
        return link.readlink().is_relative_to(path)
    except OSError:
        return False


def _stop_servers(directory: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        servers = server_pids(directory)
        for pid in servers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if wait_until(lambda: all(_is_dead(pid) for pid in server_pids(directory)), _TIMEOUT_S / 2):
            return


def _run(command: Sequence[str]) -> int | None:
    """The exit code, or None if it did not end in time; such a process is left running."""
    child = subprocess.Popen(  # noqa: S603 - the commands are ours
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if wait_until(lambda: child.poll() is not None, _TIMEOUT_S):
        return child.returncode
    child.returncode = -signal.SIGKILL  # the process is not awaited any more
    return None


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _is_our_process(pid: int) -> bool:
    """Anyone may give a process the name of one of ours, but not its owner."""
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    return False


def _start_ticks(pid: int) -> str:
    """When a process started, in the kernel's ticks: with its number, its identity; empty if it is gone."""
    text = _read_text(Path(f"/proc/{pid}/stat"))
    return text.rpartition(")")[2].split()[19] if text else ""


def _parent_pid(pid: int) -> int:
    text = _read_text(Path(f"/proc/{pid}/stat"))
    return int(text.rpartition(")")[2].split()[1]) if text else 0


def _is_dead(pid: int) -> bool:
    text = _read_text(Path(f"/proc/{pid}/stat"))
    return not text or text.rpartition(")")[2].split()[0] in ("Z", "X")


def _read_text(path: Path) -> str:
    """The content of a file in /proc or /sys; empty if it, or its subject, does not exist."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
