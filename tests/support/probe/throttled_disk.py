"""A real disk that can be slowed down, stalled and frozen: a loop device on a file on another loop device.

The file of the outer one is in memory, so that no test waits for this machine's disk, which others use.
Requests to the inner device wait for the outer one, as on a volume. Limit the outer one and requests
queue in the inner one; freeze the outer file system and nothing comes back; freeze the inner one and nothing
is requested. Root, loop devices and, for the limit, the blkio controller are needed.

Whatever happens to its owner, a guard of its own session undoes everything:
``python throttled_disk.py guard FOLDER``.
"""

import ctypes
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

SIZE_MIB = 256
BLKIO = Path("/sys/fs/cgroup/blkio")
PREFIX = "ddprobe-box-"
LAZY_AFTER_ROUNDS = 100


def why_not() -> str | None:
    """Say what is missing for a throttled disk, or None."""
    if os.geteuid() != 0:
        return "needs root, for loop devices and mounts"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices (/dev/loop-control)"
    missing = [name for name in ("losetup", "mkfs.ext4", "fsfreeze", "mount") if not shutil.which(name)]
    return f"needs {', '.join(missing)}" if missing else None


def why_no_limit() -> str | None:
    if not (BLKIO / "blkio.throttle.write_iops_device").exists():
        return "needs the blkio controller of cgroup v1, to limit a device"
    return None


def run(*command: object, check: bool = True) -> str:
    arguments = [str(word) for word in command]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout.strip()


class ThrottledDisk:
    """The inner file system is at ``path``, its device is ``device``."""

    def __init__(self) -> None:
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        (self.folder / "owner").write_text(str(os.getpid()))
        self._guard = subprocess.Popen(
            [sys.executable, __file__, "guard", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.outer, self.path = self.folder / "outer", self.folder / "inner"
        memory = self.folder / "tmpfs"
        self._loads: list[subprocess.Popen[bytes]] = []
        try:
            memory.mkdir()
            run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB + 66}m", "tmpfs", memory)
            self._outer_device = self._build(memory / "outer.img", self.outer, SIZE_MIB + 64, "off")
            inner = self._build(self.outer / "inner.img", self.path, SIZE_MIB, "on")
        except BaseException:
            self.close()
            raise
        self.device = Path(inner).name

    def _build(self, image: Path, mounted: Path, size_mib: int, direct: str) -> str:
        with image.open("wb") as file:  # written, not allocated: unwritten extents cost commits of their own
            for _ in range(size_mib):
                file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        mounted.mkdir()
        device = run("losetup", "-f", "--show", f"--direct-io={direct}", image)
        queue = Path("/sys/block", Path(device).name, "queue")
        (queue / "max_sectors_kb").write_text("256")
        (queue / "write_cache").write_text("write back")  # what earlier users of the device set stays
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0", device)
        run("mount", "-o", "noatime", device, mounted)
        return device

    # -- what a volume may do

    def limit(self, iops: int) -> None:
        """Let the outer device do this many operations a second; 0 means unlimited."""
        set_limit(Path(self._outer_device).name, iops)

    def limit_bytes(self, per_s: int) -> None:
        """Let the outer device move this many bytes a second; 0 means unlimited."""
        set_limit(Path(self._outer_device).name, per_s, "bps")

    def hold(self) -> None:
        """Let nothing get from the block layer to the inner device: as good as a suspended one."""
        self._write_what_is_dirty()
        set_limit(self.device, 1, "bps")

    def stall(self) -> None:
        """No request to the inner device comes back."""
        self._write_what_is_dirty()
        run("fsfreeze", "-f", self.outer)

    def _write_what_is_dirty(self) -> None:
        """Leave the kernel nothing to write later: a commit of its journal would be stuck before ours."""
        run("sync", "-f", self.path)

    def forget(self) -> None:
        """Mount it again: nothing of it is cached, so the next lookup has to read the device."""
        run("umount", self.path)
        mounted, until_s = Path("/sys/fs/ext4", self.device), time.monotonic() + 60
        while mounted.exists():  # in another mount namespace, made in that time, which keeps the cache
            if time.monotonic() > until_s:
                raise RuntimeError(f"{self.device} stays mounted in another mount namespace")
            time.sleep(0.02)
        run("mount", "-o", "noatime", f"/dev/{self.device}", self.path)

    def freeze(self) -> None:
        """Nothing gets as far as the inner device."""
        run("fsfreeze", "-f", self.path)

    def thaw(self) -> None:
        for mounted in (
            self.outer,
            self.path,
        ):  # the inner one may wait for the outer
            run("fsfreeze", "-u", mounted, check=False)

    def unlimit(self) -> None:
        for device in (self.device, Path(self._outer_device).name):
            for unit in ("iops", "bps"):
                set_limit(device, 0, unit)

    def load(self, threads: int) -> None:
        """Random 4 KiB writes, past the page cache, this many at once."""
        data = self.path / "load.bin"
        if not data.exists():
            data.write_bytes(bytes(64 << 20))
            run("sync", "-f", data)
        command = [sys.executable, __file__, "load", str(data), str(threads)]
        self._loads.append(subprocess.Popen(command))

    def idle(self) -> None:
        for load in self._loads:
            load.kill()
            load.wait(60)
        self._loads = []

    def stat(self) -> dict[str, int]:
        """What the inner device has done."""
        fields = [int(word) for word in Path("/sys/block", self.device, "stat").read_text().split()]
        return {"writes": fields[4], "reads": fields[0], "kib": fields[6] // 2, "flushes": fields[15]}

    def writes_under_way(self) -> int:
        """Writes that the inner device has received and that have not come back."""
        return int(Path("/sys/block", self.device, "inflight").read_text().split()[1])

    def close(self) -> None:
        """Undo it all, by the guard."""
        for load in self._loads:
            load.kill()
        if self._guard.stdin and not self._guard.stdin.closed:
            self._guard.stdin.close()
        self._guard.wait(60)
        for load in self._loads:
            load.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def set_limit(device: str, per_s: int, unit: str = "iops") -> None:
    number = Path("/sys/block", device, "dev").read_text().strip()
    for kind in ("read", "write"):
        (BLKIO / f"blkio.throttle.{kind}_{unit}_device").write_text(f"{number} {per_s}")


def die_with_parent() -> None:
    """To be called in a child: the kernel kills it when we are gone, however that came."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def mounts_in(folder: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{folder}/")]


def loops_in(folder: Path) -> list[str]:
    """Devices whose file is in the folder, the inner one first."""
    backings = Path("/sys/block").glob("loop*/loop/backing_file")
    disk_backings = [backing for backing in backings if _reads(backing).startswith(f"{folder}/")]
    return sorted((backing.parent.parent.name for backing in disk_backings), key=_is_outer)


def _reads(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # detached in between
        return ""


def _is_outer(device: str) -> bool:
    return "/outer.img" in _reads(Path("/sys/block", device, "loop/backing_file"))


def undo(folder: Path) -> None:
    """Thaw, unlimit, unmount, detach, remove; may be called again and again.

    A mount namespace made in that time, for example by a container, holds copies of our mounts and devices.
    After some time the mounts are let go of lazily, and the kernel detaches the devices with the last copy.
    """
    for round_number in range(150):
        with suppress(OSError, RuntimeError, subprocess.TimeoutExpired):
            for mounted in mounts_in(folder):
                run("fsfreeze", "-u", mounted, check=False)
            for device in loops_in(folder):
                for unit in ("iops", "bps") if why_no_limit() is None else ():
                    set_limit(device, 0, unit)
            end_processes_in(folder)
            lazily = ["-l"] if round_number >= LAZY_AFTER_ROUNDS else []
            for mounted in sorted(mounts_in(folder)):  # the tmpfs last, when its device is detached
                run("umount", *lazily, mounted, check=False)
            for device in loops_in(folder):
                run("losetup", "-d", f"/dev/{device}", check=False)
        if not mounts_in(folder) and (not loops_in(folder) or round_number >= LAZY_AFTER_ROUNDS):
            shutil.rmtree(folder, ignore_errors=True)
            return
        time.sleep(0.1)


def end_processes_in(folder: Path) -> None:
    """Kill what has a file open below the folder: it is ours, for no one else knows the name."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            names = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(name.startswith((f"{folder}/inner", f"{folder}/outer/")) for name in names):
            with suppress(OSError):
                os.kill(int(entry.name), signal.SIGKILL)


def sweep() -> None:
    """Undo disks whose owner and guard are both gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            os.kill(int((folder / "owner").read_text()), 0)
        except ProcessLookupError:
            undo(folder)
        except (OSError, ValueError):
            continue


def guard(folder: Path) -> None:
    """Wait until the owner closes our stdin, or is gone, then undo."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    undo(folder)


def load(path: str, threads: int) -> None:
    die_with_parent()
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    blocks, page = os.fstat(fd).st_size // 4096, mmap.mmap(-1, 4096)

    def write() -> None:
        dice = random.Random()
        while True:
            os.pwrite(fd, page, 4096 * dice.randrange(blocks))

    for _ in range(threads):
        threading.Thread(target=write, daemon=True).start()
    while os.getppid() != 1:
        time.sleep(0.2)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "guard":
        guard(Path(sys.argv[2]))
    else:
        load(sys.argv[2], int(sys.argv[3]))
