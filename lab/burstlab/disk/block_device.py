"""A real block device with a limit of operations or bytes per second, and a file system on it.

Two throttles: ``qsd`` puts the loop device on a file that qemu-storage-daemon exports through a throttle
group; ``blkio`` limits the loop device in the root cgroup (version 1), journal included. Either way the limit
is for everybody, reads and writes alike, and is changed while the device works.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from burstlab.disk.state_dir import (
    EXPORT_NAME,
    MOUNT_NAME,
    NO_LIMIT,
    SERVER,
    SOCKET_NAME,
    THROTTLE_GROUP,
    QmpClient,
    clear_limits,
    is_mounted,
    limit_files,
    lock,
    make_state_dir,
    record_process,
    remove,
    wait_until,
)
from burstwatch.core.errors import BurstwatchError

BACKENDS: Final = ("qsd", "blkio")
PACKAGES: Final = {
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
    "mkfs.ext4": "e2fsprogs",
}
_EXT4_EXTENDED: Final = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
MKFS: Final = {
    # below 512 MiB mke2fs would choose 1 KiB blocks, and a small write be two operations
    "ext4": ["mkfs.ext4", *("-q", "-F", "-b", "4096", "-m", "0"), *("-E", _EXT4_EXTENDED)],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}
"""How each file system is made."""
_IMAGE: Final = "volume.raw"
_MIN_MIB: Final = 64  # ext4 with its journal, and a job's files, need some room
_MAX_IO_KIB: Final = 256
"""One request is at most what EBS counts as one operation."""
_SECTOR_KIB: Final = 0.5  # the kernel counts in sectors of 512 bytes; Source: Documentation/block/stat.rst
# mounting takes milliseconds; mkfs writes to the image, which may be on a slow disk
_START_TIMEOUT_S: Final = 10.0
_COMMAND_TIMEOUT_S: Final = 60.0


class DiskError(BurstwatchError):
    """A disk that cannot be built or used here; the message says why and what would do."""


class Counters(NamedTuple):
    """What a device has completed since it exists, how much that moved, and what it has in hand."""

    reads: int
    writes: int
    in_flight: int
    kib: float

    @property
    def completed(self) -> int:
        return self.reads + self.writes


def unavailable_reason(backend: str = "auto") -> str | None:
    """What this machine lacks for a disk, in a sentence; None if a disk can be built."""
    if reason := _loop_device_problem():
        return f"a throttled disk {reason}"
    backends = BACKENDS if backend == "auto" else (backend,)
    reasons = [(name, _backend_problem(name)) for name in backends]
    return (
        "; ".join(f"backend {name} {reason}" for name, reason in reasons)
        if all(dict(reasons).values())
        else None
    )


def choose_backend(backend: str = "auto") -> str:
    """The requested backend, or the best available one.

    Raises:
        DiskError: neither works here.
    """
    if reason := unavailable_reason(backend):
        raise DiskError(reason)
    return next(name for name in BACKENDS if not _backend_problem(name)) if backend == "auto" else backend


class Throttle(Protocol):
    """The limiter between a loop device and its image."""

    def open(self, image: Path) -> Path:
        """Prepare the limiter, and return the file for the loop device."""
        ...

    def set_limit(self, loop: str, iops: int | None, bytes_per_s: int | None = None) -> None:
        """Limit the operations, and the bytes, per second; None removes a limit."""
        ...

    def close(self) -> None:
        """Let go, so that it can be taken down."""
        ...

    def mark_removed(self) -> None:
        """It was taken down."""
        ...


class QemuStorageThrottle:
    """qemu-storage-daemon's throttle group, spoken to over its socket."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._monitor: QmpClient | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def open(self, image: Path) -> Path:
        export = self._directory / EXPORT_NAME
        export.touch()
        with TemporaryFile("w+") as stderr:
            server = subprocess.Popen(  # noqa: S603 - the command is ours
                _server_command(image, export),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
            is_mounted_or_ended = wait_until(
                lambda: is_mounted(export) or server.poll() is not None, _START_TIMEOUT_S
            )
            if not is_mounted_or_ended or server.poll() is not None:
                stderr.seek(0)
                raise DiskError(f"{SERVER} did not start: {stderr.read().strip() or 'no word from it'}")
        self._server = server
        self._monitor = QmpClient(self._directory)
        return export

    def set_limit(self, loop: str, iops: int | None, bytes_per_s: int | None = None) -> None:  # noqa: ARG002
        assert self._monitor is not None
        self._monitor.set_limit(NO_LIMIT if iops is None else iops, bytes_per_s or 0)

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()

    def mark_removed(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.returncode = 0  # others go on ending it


class CgroupThrottle:
    """The limit of the root cgroup, which holds for every process and the journal."""

    def __init__(self, directory: Path) -> None:
        """No file of it is in the folder."""

    def open(self, image: Path) -> Path:
        return image

    def set_limit(self, loop: str, iops: int | None, bytes_per_s: int | None = None) -> None:
        device_number = Path(f"/sys/block/{loop}/dev").read_text().strip()
        for unit, limit_value in (("iops", iops), ("bps", bytes_per_s)):
            for path in limit_files(unit):
                path.write_text(f"{device_number} {limit_value or 0}")

    def close(self) -> None:
        """Nothing is held."""

    def mark_removed(self) -> None:
        """Nothing was started."""


_THROTTLES: Final[dict[str, Callable[[Path], Throttle]]] = {
    "qsd": QemuStorageThrottle,
    "blkio": CgroupThrottle,
}


class ThrottledDevice:
    """A throttled loop device with a file system on it, mounted; use it with ``with``.

    A reaper process takes it down, however its creator ends. By default it writes through, so that a flush
    costs nothing, because EBS's cost of a flush is not documented. ``mkfs_options`` are additional arguments
    of mkfs.
    """

    def __init__(
        self,
        *,
        backend: str = "auto",
        size_mib: int = 256,
        parent: Path | None = None,
        file_system: str = "ext4",
        mkfs_options: Sequence[str] = (),
        writes_back: bool = False,
    ) -> None:
        if size_mib < _MIN_MIB:
            raise DiskError(f"the image is {size_mib} MiB: give at least {_MIN_MIB}")
        self.backend = choose_backend(backend)
        self._size_mib = size_mib
        self._parent = parent
        self._mkfs = [*MKFS[file_system], *mkfs_options]
        self._write_cache = "write back" if writes_back else "write through"
        self._iops: int | None = None
        self._bytes_per_s: int | None = None

    def __enter__(self) -> Self:
        self.directory = make_state_dir(self._parent)
        self._lock_fd = lock(self.directory)
        self._reaper = _start_reaper(self.directory)
        self._throttle = _THROTTLES[self.backend](self.directory)
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leftovers = self.close()
        if leftovers and error is None:
            raise DiskError(f"{'; '.join(leftovers)}; then: burstlab disk --clean")

    @property
    def mount(self) -> Path:
        return self.directory / MOUNT_NAME

    @property
    def path(self) -> str:
        return f"/dev/{self.loop}"

    @property
    def iops(self) -> int | None:
        """The limit in force; None is none."""
        return self._iops

    def set_iops_limit(self, iops: int | None) -> None:
        """Limit the operations per second."""
        if iops != self._iops:
            self._throttle.set_limit(self.loop, iops, self._bytes_per_s)
            self._iops = iops

    def set_bytes_limit(self, bytes_per_s: int | None) -> None:
        """Limit the bytes per second, in addition to the limit of operations."""
        self._throttle.set_limit(self.loop, self._iops, bytes_per_s)
        self._bytes_per_s = bytes_per_s

    def read_counters(self) -> Counters:
        """Reads and writes completed; the kernel counts requests, each of 256 KiB at most."""
        fields = self._stat.read_text().split()
        sectors = int(fields[2]) + int(fields[6])
        return Counters(int(fields[0]), int(fields[4]), int(fields[8]), sectors * _SECTOR_KIB)

    def register_process(self, pid: int) -> None:
        """Let a process end with the disk."""
        record_process(self.directory, pid)

    def close(self) -> list[str]:
        """Take it down, and answer what could not be."""
        self._throttle.close()
        leftovers = remove(self.directory)
        self._throttle.mark_removed()
        os.close(self._lock_fd)
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        if leftovers:
            self._reaper.returncode = 0  # it goes on trying
        else:
            self._reaper.wait()
        return leftovers

    def _build(self) -> None:
        image = self.directory / _IMAGE
        with image.open("wb") as file:
            file.truncate(self._size_mib * 2**20)
        self.mount.mkdir()
        self.loop = _run_command(["losetup", "-f", "--show", str(self._throttle.open(image))]).removeprefix(
            "/dev/"
        )
        clear_limits(self.loop)
        self._stat = Path(f"/sys/block/{self.loop}/stat")
        queue = Path(f"/sys/block/{self.loop}/queue")
        (queue / "iostats").write_text("1")  # what an earlier user of this device set stays
        (queue / "max_sectors_kb").write_text(str(_MAX_IO_KIB))
        (queue / "write_cache").write_text(self._write_cache)
        with suppress(OSError):  # not every kernel lets it be chosen
            (queue / "scheduler").write_text("none")
        _run_command([*self._mkfs, self.path])
        _run_command(["mount", self.path, str(self.mount)])
        _run_command(["losetup", "-d", self.path])  # busy, so it only promises to go with the mount


def _server_command(image: Path, export: Path) -> list[str]:
    group = f"throttle-group,id={THROTTLE_GROUP},x-iops-total={NO_LIMIT},x-iops-size={_MAX_IO_KIB * 1024}"
    monitor = f"socket,id=monitor,path={export.parent / SOCKET_NAME},server=on,wait=off"
    throttle = f"driver=throttle,node-name=throttle,throttle-group={THROTTLE_GROUP},file=raw"
    exported = f"type=fuse,id=export,node-name=throttle,mountpoint={export},writable=on,allow-other=off"
    return [
        SERVER,
        *("--object", group),
        *("--blockdev", f"driver=file,node-name=file,filename={image}"),
        *("--blockdev", "driver=raw,node-name=raw,file=file"),
        *("--blockdev", throttle),
        *("--chardev", monitor),
        *("--monitor", "chardev=monitor"),
        *("--export", exported),  # last: when it is there, all is
    ]


def _start_reaper(directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - the command is ours
        [sys.executable, "-m", "burstlab.disk.reaper", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _run_command(command: Sequence[str]) -> str:
    """What a command printed.

    Raises:
        DiskError: it failed, or did not end.
    """
    try:
        completed = subprocess.run(  # noqa: S603 - the commands are ours
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise DiskError(f"{' '.join(command)} did not end within {_COMMAND_TIMEOUT_S:g} s") from error
    if completed.returncode:
        lines = (completed.stderr or completed.stdout).strip().splitlines()
        raise DiskError(f"{' '.join(command)}: {lines[0] if lines else f'exit code {completed.returncode}'}")
    return completed.stdout.strip()


def _loop_device_problem() -> str | None:
    if sys.platform != "linux":
        return f"needs Linux's loop devices; this is {sys.platform}"
    if os.geteuid() != 0:
        return "needs root (loop device, mount): run it with sudo"
    if missing := [tool for tool in PACKAGES if shutil.which(tool) is None]:
        packages = " ".join(dict.fromkeys(PACKAGES[tool] for tool in missing))
        return f"needs {', '.join(missing)}: apt-get install {packages}"
    if not os.access("/dev/loop-control", os.W_OK):
        return "needs /dev/loop-control: load the module loop, or leave the container"
    if not os.access("/sys", os.W_OK):
        return "needs /sys to be writable: leave the container, or make it privileged"
    return _try_loop_and_mount()


def _try_loop_and_mount() -> str | None:
    """Whether a loop device can be attached and something mounted at all: containers often may not."""
    with TemporaryDirectory(prefix="burstlab-try-") as directory:
        image = Path(directory) / "image"
        try:
            with image.open("wb") as file:
                file.truncate(2**20)
            _run_command(["losetup", "-d", _run_command(["losetup", "-f", "--show", str(image)])])
            _run_command(["mount", "-t", "tmpfs", "none", directory])
            _run_command(["umount", directory])
        except DiskError as error:
            return f"needs loop devices and mounts ({error}): leave the container, or make it privileged"
    return None


def _backend_problem(backend: str) -> str | None:
    if backend == "blkio":
        return None if limit_files() else "needs the blkio cgroup of version 1, which is not mounted here"
    if shutil.which(SERVER) is None:
        return f"needs {SERVER}: apt-get install qemu-system-common"
    return None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "needs /dev/fuse, which is not here"
