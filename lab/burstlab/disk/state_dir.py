"""A disk's folder: everything built for a disk is found again by it, and taken down, whoever is still alive.

Mounts and loop devices are found by the folder their files lie in, processes by the note taken of them; so
taking down needs nobody's memory, and may be done twice.

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
MOUNT: Final = "mnt"
EXPORT: Final = "export.img"
SOCKET: Final = "qmp.sock"
SERVER: Final = "qemu-storage-daemon"
THROTTLE_GROUP: Final = "limits"
NO_LIMIT: Final = 10_000_000
"""Operations per second: with none at all, the daemon could not count large ones as several."""

_OWNER: Final = "owner"
_PROCESSES: Final = "processes"
_PID_AND_START: Final = 2
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a file system, and the folder in it is made safely
_NEEDED_BYTES: Final = 768 * 2**20
_COMM_LENGTH: Final = 15
_CGROUPS: Final = Path("/sys/fs/cgroup")
_CONTAINER_KEEPERS: Final = ("conmon", "podman")
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.02
_OURS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""How the folder's own files are opened: never through a link, never waiting for the other end of a FIFO."""


def make_folder(parent: Path | None = None) -> Path:
    """A new folder of root's own; in memory where there is room, so that only the limit makes it slow."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent or _best_parent()))


def own(folder: Path) -> int:
    """Hold the folder for as long as the descriptor is open, however the holder ends.

    Raises:
        BlockingIOError: somebody else has it.
        PermissionError: it is not a directory of ours alone, or its lock is not our own file.
    """
    if not is_ours(folder):
        raise PermissionError(f"{folder} is not a directory of this user with mode 0700")
    holding = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | _OURS, 0o600)
    try:
        if not _is_our_file(holding):
            raise PermissionError(f"{folder / _OWNER} is not a regular file of this user")
        fcntl.flock(holding, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(holding)
        raise
    return holding


def is_ours(folder: Path) -> bool:
    """Whether it is a real directory, not a link, that this user owns and nobody else may enter."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    is_private = stat.S_ISDIR(about.st_mode) and not stat.S_IMODE(about.st_mode) & 0o077
    return is_private and about.st_uid == os.geteuid()


def ownerless(parent: Path | None = None) -> list[Path]:
    """Disks left standing in the usual places and here: neither their maker nor their keeper is alive."""
    found = []
    for folder in _folders(parent):
        try:
            os.close(own(folder))
        except OSError:
            continue
        found.append(folder)
    return found


def note_process(folder: Path, pid: int) -> None:
    """Remember a process that is to end with the disk."""
    notes = os.open(folder / _PROCESSES, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _OURS, 0o600)
    try:
        os.write(notes, f"{pid} {_started(pid)}\n".encode())
    finally:
        os.close(notes)


def take_down(folder: Path, *, patience_s: float = _PATIENCE_S) -> list[str]:
    """Undo all that was built in the folder, and answer what could not be, in words."""
    if not is_ours(folder):
        return []  # gone, or never ours: nothing here may be acted on
    with suppress(OSError):
        _lift_limits(folder)
    _end_processes(folder)
    _end_containers(folder)
    with suppress(OSError):
        _run(["fsfreeze", "-u", str(folder / MOUNT)])
    left = _unmount(folder / MOUNT, patience_s)
    for loop in loops_of(folder):
        _run(["losetup", "-d", f"/dev/{loop}"])
    wait_until(lambda: not loops_of(folder), patience_s if not left else 1.0)
    _end_server(folder)
    left += [f"{folder / EXPORT} is mounted" for _ in _unmount(folder / EXPORT, patience_s)]
    left += [f"/dev/{loop} is attached" for loop in loops_of(folder)]
    if not left:
        shutil.rmtree(folder, ignore_errors=True)
    return left


def loops_of(folder: Path) -> list[str]:
    """Loop devices on a file of this folder."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if backing.read_text().startswith(f"{folder}/"):
                found.append(backing.parts[3])
    return sorted(found)


def drop_rules(loop: str) -> None:
    """Lift what limits of this loop device the cgroup holds, from whichever use of it."""
    number = _read(Path(f"/sys/block/{loop}/dev"))
    for path in (*rule_files(), *rule_files("bps")):
        if any(line.split()[0] == number for line in _read(path).splitlines()):
            path.write_text(f"{number} 0")


def rule_files(what: str = "iops") -> list[Path]:
    """Where a root cgroup of version 1 limits operations (or "bps") per second; empty where there is none."""
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        fields, _, about = line.partition(" - ")
        kind, _, options = about.split(" ", 2)
        if kind == "cgroup" and "blkio" in options.split(","):
            root = Path(fields.split()[4])
            files = [root / f"blkio.throttle.{way}_{what}_device" for way in ("read", "write")]
            return [path for path in files if path.exists()]
    return []


def is_mounted(path: Path) -> bool:
    """Whether something is mounted right there."""
    return any(line.split()[4] == str(path) for line in _read(Path("/proc/self/mountinfo")).splitlines())


def servers_of(folder: Path) -> list[int]:
    """Storage daemons that were started in this folder."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            comm = _read(Path(f"/proc/{pid}/comm"))
            if comm == SERVER[:_COMM_LENGTH] and Path(f"/proc/{pid}/cwd").readlink() == folder:
                found.append(pid)
    return found


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold within so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_S)
    return True


class Monitor:
    """A conversation with the storage daemon of a folder."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_PATIENCE_S / 2)
        try:
            self._socket.connect(str(folder / SOCKET))
            self._lines = self._socket.makefile("rw")
            self._lines.readline()
            self.ask("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def ask(self, command: str, **arguments: Any) -> Any:
        """Its answer.

        Raises:
            OSError: it refused, or is not there any more.
        """
        self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._lines.flush()
        while line := self._lines.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise OSError(f"{SERVER} refused {command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]
        raise OSError(f"{SERVER} is gone")

    def limit(self, iops: int, bytes_per_s: int = 0) -> None:
        """No more than so many operations, and bytes unless 0, per second from now on."""
        # what is not given stays as it was: the burst has to be named to be off
        limits = {
            f"{what}-total{rest}": value
            for what, most in (("iops", iops), ("bps", bytes_per_s))
            for rest, value in (("", most), ("-max", 0), ("-max-length", 1))
        }
        self.ask("qom-set", path=f"/objects/{THROTTLE_GROUP}", property="limits", value=limits)

    def close(self) -> None:
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def _best_parent() -> Path:
    with suppress(OSError):
        room = os.statvfs(_MEMORY)
        if room.f_bavail * room.f_frsize >= _NEEDED_BYTES and os.access(_MEMORY, os.W_OK):
            return _MEMORY
    return Path(tempfile.gettempdir())


def _folders(parent: Path | None) -> Iterator[Path]:
    for place in dict.fromkeys((_MEMORY, Path(tempfile.gettempdir()), parent or _MEMORY)):
        for path in sorted(place.glob(f"{PREFIX}*")):
            if is_ours(path):
                yield path


def _lift_limits(folder: Path) -> None:
    """What is queued must be able to end."""
    for loop in loops_of(folder):
        drop_rules(loop)
    servers = servers_of(folder)
    for pid in servers:
        os.kill(pid, signal.SIGCONT)
    if servers:
        monitor = Monitor(folder)
        try:
            monitor.limit(NO_LIMIT)
        finally:
            monitor.close()


def _end_processes(folder: Path) -> None:
    """Kill what was noted, and see it gone; what is in state D goes when the disk answers."""
    alive = [(pid, started) for pid, started in _noted(folder) if _started(pid) == started]
    for pid, _ in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(_started(pid) != started or _is_dead(pid) for pid, started in alive), _PATIENCE_S)


def _noted(folder: Path) -> list[tuple[int, str]]:
    """Processes and their starts, of a list that is our own file; a line cut short is left out."""
    try:
        notes = os.open(folder / _PROCESSES, os.O_RDONLY | _OURS)
    except OSError:
        return []
    with os.fdopen(notes, errors="replace") as file:
        words = [line.split() for line in file.read().splitlines()] if _is_our_file(notes) else []
    return [(int(each[0]), each[1]) for each in words if len(each) == _PID_AND_START and each[0].isdecimal()]


def _is_our_file(descriptor: int) -> bool:
    about = os.fstat(descriptor)
    return stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_nlink == 1


def _end_containers(folder: Path) -> None:
    """Kill what podman keeps for containers of this folder, and what is in the cgroups of its name."""
    wait_until(lambda: not _kill_containers(folder), _PATIENCE_S)
    for cgroup in [*_CGROUPS.glob(folder.name), *_CGROUPS.glob(f"*/{folder.name}")]:
        for pid in _read(cgroup / "cgroup.procs").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda cgroup=cgroup: _remove_cgroup(cgroup), 1.0)  # type: ignore[misc]


def _remove_cgroup(cgroup: Path) -> bool:
    """Whether it is gone, with those below it; one in which a process is still ending stays for now."""
    for path in sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):
            path.rmdir()
    with suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()


def _kill_containers(folder: Path) -> bool:
    """Whether there were any."""
    found: dict[str, set[int]] = {comm: set() for comm in _CONTAINER_KEEPERS}
    for pid in _pids():
        comm = _read(Path(f"/proc/{pid}/comm"))
        if comm in found and f"{folder}/" in _read(Path(f"/proc/{pid}/cmdline")) and _runs_as_us(pid):
            found[comm].add(pid)
    kept = [pid for pid in _pids() if _parent(pid) in found["conmon"]]
    # conmon first: where a container ends under it, it starts another podman to clean up
    for pid in (*found["conmon"], *kept, *found["podman"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return any(found.values())


def _unmount(path: Path, patience_s: float) -> list[str]:
    """Unmount, and where others keep it busy, take it out of sight; what stays busy is told."""
    until = time.monotonic() + patience_s
    while is_mounted(path):
        if _run(["umount", "-R", str(path)]) == 0:
            continue
        if time.monotonic() >= until:
            users = ", ".join(f"{pid} ({_read(Path(f'/proc/{pid}/comm'))})" for pid in _users_of(path))
            _run(["umount", "-l", str(path)])
            return [f"{path} is in use by {users or 'somebody'}: end that, then it goes by itself"]
        time.sleep(_LOOK_S * 5)
    return []


def _users_of(path: Path) -> list[int]:
    """Processes with a file or folder open below a path; only links are read, never the disk."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
            if any(_points_below(link, path) for link in links):
                found.append(pid)
    return found


def _points_below(link: Path, path: Path) -> bool:
    try:
        return link.readlink().is_relative_to(path)
    except OSError:
        return False


def _end_server(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        servers = servers_of(folder)
        for pid in servers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if wait_until(lambda: all(_is_dead(pid) for pid in servers_of(folder)), _PATIENCE_S / 2):
            return


def _run(command: Sequence[str]) -> int | None:
    """The exit code, or None where it did not end in time; such a process is left to itself."""
    child = subprocess.Popen(  # noqa: S603 - the commands are ours
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if wait_until(lambda: child.poll() is not None, _PATIENCE_S):
        return child.returncode
    child.returncode = -signal.SIGKILL  # nobody waits for it any more
    return None


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _runs_as_us(pid: int) -> bool:
    """Anyone may give a process the name of one of ours, but not its owner."""
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    return False


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks: with its number, its identity; empty if it is gone."""
    text = _read(Path(f"/proc/{pid}/stat"))
    return text.rpartition(")")[2].split()[19] if text else ""


def _parent(pid: int) -> int:
    text = _read(Path(f"/proc/{pid}/stat"))
    return int(text.rpartition(")")[2].split()[1]) if text else 0


def _is_dead(pid: int) -> bool:
    text = _read(Path(f"/proc/{pid}/stat"))
    return not text or text.rpartition(")")[2].split()[0] in ("Z", "X")


def _read(path: Path) -> str:
    """What a file of /proc or /sys holds; empty where it, or what it tells of, is gone."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
