"""The stage of one scenario: a disk, what is done to it, and the probe as a process beside it.

Probes run in a cgroup of their own, so that what they leave behind can be counted; it is named like the
disk's folder, by which it is found and removed however this command ends.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from burstlab.disk.block_device import Device, DiskError
from burstlab.disk.state_dir import rule_files, servers_of, wait_until
from burstlab.probe_scenarios.table import SICK, Seen
from burstwatch.core.errors import BurstwatchError

NOBODY: Final = 65534
HEALTHY_IOPS: Final = 3_000
LONGEST_S: Final = 100.0
EXIT_CODES: Final = {"ok": 0, "warn": 1, "crit": 2, "unknown": 3}
"""Of Nagios: the resident probe has verdicts only."""
_SIZE_MIB: Final = 512
_LOAD: Final = Path(__file__).with_name("load.py")
_SETTLE_S: Final = 1.0
_LOAD_STARTS_S: Final = 30.0
_CGROUPS: Final = Path("/sys/fs/cgroup")
_ENTER: Final = 'echo $$ > "$0" && exec "$@"'
_PYTHON: Final = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""Another user must be able to start it."""


class SkipError(BurstwatchError):
    """This machine lacks what a scenario needs; the message says what."""


def needs(*tools: str) -> None:
    """SkipError the scenario unless these programs are installed.

    Raises:
        SkipError: with the names of those that are missing.
    """
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        raise SkipError(f"needs {', '.join(missing)}")


class Started:
    """A probe that was started, and the file in memory that it writes readings to."""

    def __init__(self, process: subprocess.Popen[str], readings: Path, truth: str | None) -> None:
        self.process, self.readings, self.truth = process, readings, truth
        self.began_s = time.monotonic()

    def all_readings(self) -> list[dict[str, Any]]:
        """Readings so far, oldest first."""
        with suppress(OSError):
            lines = self.readings.read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines if line.endswith("}")]
        return []

    def wait_for(self, holds: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any] | None:
        """The first reading from now on that holds, or None when none came in time."""
        known = len(self.all_readings())
        found: list[dict[str, Any]] = []

        def came() -> bool:
            found[:] = [each for each in self.all_readings()[known:] if holds(each)]
            return bool(found) or self.process.poll() is not None

        wait_until(came, seconds)
        return found[0] if found else None


class Stage:
    """A disk with a probe beside it; use it with ``with``. ``seen`` and ``notes`` are what a row shows."""

    def __init__(self, probe: Path, *, fs: str = "ext4", mkfs_options: Sequence[str] = ()) -> None:
        needs(f"mkfs.{fs}")
        self.probe_file = probe
        self.seen: list[Seen] = []
        self.notes: list[str] = []
        self.left = 0
        self._loads: list[subprocess.Popen[str]] = []
        self._probes: list[subprocess.Popen[str]] = []
        self.fs = fs
        self.device = Device(size_mib=_SIZE_MIB, fs=fs, mkfs_options=mkfs_options, writes_back=True)
        if self.device.backend != "qsd":
            raise SkipError(
                "needs qemu-storage-daemon and /dev/fuse: apt-get install qemu-system-common fuse3"
            )

    def __enter__(self) -> Self:
        self.device.__enter__()
        try:
            self.memory = self.device.folder / "memory"
            self.memory.mkdir(mode=0o700)
            self.path = self.device.mount / "data"
            self.path.mkdir()
            self.cgroup = self._make_cgroup()
            self.device.limit(HEALTHY_IOPS)
        except BaseException:
            self.device.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()
        with suppress(OSError):
            self.cgroup.rmdir()
        self.device.__exit__(kind, error, trace)

    def end_all(self) -> None:
        """Let the disk answer, and end what was started on it."""
        self.resume()
        self.hold(on=False)
        self.thaw()
        with suppress(OSError, DiskError):
            self.device.limit_bytes(None)
            self.device.limit(None)
        wait_until(self._ended, 10)

    # -- what is done to the disk

    def throttle(self, iops: int = 100, *, writers: int = 48) -> None:
        """The limit, and others who wait for it already."""
        if writers:
            self.load(writers)
        self.device.limit(iops)
        if writers:
            time.sleep(_SETTLE_S)

    def stall(self) -> None:
        """Requests are in the device and none comes back: its server is stopped."""
        stall_device(self.device.folder)

    def resume(self) -> None:
        stall_device(self.device.folder, is_over=True)

    def break_down(self) -> None:
        """Every request fails with EIO: the server is gone."""
        for pid in servers_of(self.device.folder):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not servers_of(self.device.folder), 5)

    def freeze(self) -> None:
        self.do("fsfreeze", "-f", self.device.mount)

    def thaw(self) -> None:
        with suppress(DiskError):
            self.do("fsfreeze", "-u", self.device.mount)

    def hold(self, *, on: bool = True) -> None:
        """Keep requests above the device, as a suspended device mapper does.

        Raises:
            SkipError: there is no blkio controller of cgroup version 1.
        """
        files = rule_files("bps")
        if on and not files:
            raise SkipError("needs the blkio controller of cgroup version 1")
        with suppress(OSError):
            number = Path(f"/sys/block/{self.device.loop}/dev").read_text(encoding="ascii").strip()
            for path in files:
                path.write_text(f"{number} {int(on)}", encoding="ascii")

    def load(self, threads: int, *, kib: int = 4) -> None:
        """Start writers past the page cache, each waiting for its own write.

        Raises:
            DiskError: they did not start.
        """
        command = [
            sys.executable,
            "-E",
            "-s",
            str(_LOAD),
            str(self.device.mount / "load"),
            f"{threads}",
            f"{kib}",
        ]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # noqa: S603
        self.device.note(process.pid)
        self._loads.append(process)
        assert process.stdout is not None
        with process.stdout:
            ready, _, _ = select.select([process.stdout], [], [], _LOAD_STARTS_S)
        if not ready:
            raise DiskError(f"{threads} writers did not start within {_LOAD_STARTS_S:g} s")

    def fill(self) -> None:
        """Leave no room for data."""
        free = os.statvfs(self.device.mount)
        with (self.device.mount / "filler").open("wb", buffering=0) as file:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
            with suppress(OSError):
                file.seek(0, os.SEEK_END)
                while file.write(bytes(4096)):
                    pass

    def forget_names(self) -> None:
        """Mount it again: no name below the mount is in memory, and a lookup has to ask the disk."""
        held = os.open(self.device.path, os.O_RDONLY)  # the loop device goes with its last user
        try:
            self.do("umount", self.device.mount)
            self.do("mount", self.device.path, self.device.mount)
        finally:
            os.close(held)

    def do(self, *words: object) -> str:
        """Run a tool.

        Raises:
            DiskError: it failed.
        """
        done = subprocess.run(  # noqa: S603 - ours
            [str(word) for word in words], capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise DiskError(f"{words}: {done.stderr.strip()}")
        return done.stdout.strip()

    def real_dd(self) -> float:
        """Seconds of the command that ddprobe's figure is about."""
        began_s = time.monotonic()
        self.do("dd", "if=/dev/zero", f"of={self.path}/dd", "bs=1M", "count=10", "oflag=sync")
        took_s = time.monotonic() - began_s
        self.notes.append(f"dd itself {took_s:.1f} s")
        return took_s

    # -- the probe

    def start(
        self,
        mode: str,
        *options: object,
        paths: Sequence[object] | None = None,
        truth: str | None = SICK,
        prefix: Sequence[str] = (),
        program: Sequence[str] | None = None,
        run_dir: object = None,
        **more: Any,
    ) -> Started:
        """Start the probe; ``prefix`` is a command that runs it, ``more`` goes to Popen."""
        readings = self.memory / f"readings-{time.monotonic_ns()}.json"
        words = [mode, "--run-dir", run_dir or self.memory / "run", "--json", readings, *options]
        words += [self.path] if paths is None else paths
        command = [*prefix, *(program or self.python()), str(self.probe_file), *map(str, words)]
        process = self._spawn(command, **more)
        return Started(process, readings, truth)

    def python(self, *options: str) -> list[str]:
        """The interpreter as the probe's first line asks for it."""
        return [sys.executable, "-IS", *options]

    def finish(self, started: Started, *, within_s: float = LONGEST_S) -> Seen:
        """Wait for it, and note what it said."""
        process = started.process
        try:
            out, err = process.communicate(timeout=within_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _abandon(process)
            out = err = ""
            code = None
        took_s = time.monotonic() - started.began_s
        return self._note(started.all_readings(), code, took_s, started.truth, f"{out or ''}{err or ''}")

    def probe(self, *options: object, mode: str = "run", within_s: float = LONGEST_S, **more: Any) -> Seen:
        """Run it and wait for it."""
        return self.finish(self.start(mode, *options, **more), within_s=within_s)

    def probe_as_nobody(self, *options: object, where: Path, truth: str = SICK, script: str = "") -> Seen:
        """Run it as a user without privileges on a directory of the disk, which it sees at /mnt.

        Its source goes in by stdin: where it lies, that user may not be allowed to read.
        """
        theirs = self.memory / f"nobody-{time.monotonic_ns()}"
        theirs.mkdir(mode=0o700)
        os.chown(theirs, NOBODY, NOBODY)
        mounts = f'mount --bind "{where}" /mnt; mount --bind "{theirs}" /media; {script}'
        drop = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
        words = ["run", "--run-dir", "/media", "--json", "/media/reading", *options, "/mnt"]
        with self.probe_file.open("rb") as source:
            process = self._spawn(
                [*self.in_namespace(f'{mounts} exec {drop} "$@"'), _PYTHON, "-IS", "-", *map(str, words)],
                stdin=source,
            )
            return self.finish(Started(process, theirs / "reading", truth))

    def in_namespace(self, script: str) -> list[str]:
        """A command that runs another one after a script, among mounts that are gone with it.

        Disks of others are let go of there: a copy of their mounts would keep them busy.
        """
        others = f"grep -e /burstlab-disk- -e /ddprobe-box- /proc/mounts | grep -v {self.device.folder}/"
        let_go = f'for other in $({others} | cut -d " " -f 2); do umount -l "$other"; done'
        enter = script if "$@" in script else f'{script}; exec "$@"'
        return ["unshare", "--mount", "sh", "-ec", f"{let_go}; {enter}", "sh"]

    @contextmanager
    def serve(self, *options: object, **more: Any) -> Iterator[Started]:
        """The resident probe, ended with the block."""
        started = self.start("serve", *options, truth=None, **more)
        try:
            yield started
        finally:
            _abandon(started.process)

    def note_serve(self, reading: Mapping[str, Any] | None, truth: str = SICK) -> Seen:
        """Note what the resident probe said last, or that nothing it said was as expected."""
        readings = [dict(reading)] if reading else []
        code = EXIT_CODES[reading["verdict"]] if reading else None
        return self._note(readings, code, 0.0, truth, "")

    def count_left(self) -> int:
        """Count the probe's processes that are there although its caller was answered."""
        time.sleep(_SETTLE_S / 2)
        self.left = len(self._alive())
        self.notes.append(f"{self.left} left")
        return self.left

    def _note(
        self, readings: list[dict[str, Any]], code: int | None, took_s: float, truth: str | None, said: str
    ) -> Seen:
        reading = readings[-1] if readings else {}
        seen = Seen(
            verdict=reading.get("verdict", ""),
            cause=reading.get("cause", ""),
            code=code,
            took_s=took_s,
            truth=truth,
            reading=reading,
            said=said,
            is_about=self.device.loop in (reading.get("disks") or [self.device.loop]),
        )
        self.seen.append(seen)
        return seen

    def _spawn(self, command: Sequence[str], **more: Any) -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        entering = ["sh", "-c", _ENTER, str(self.cgroup / "cgroup.procs"), *command]
        process = subprocess.Popen(entering, text=True, **(streams | more))  # noqa: S603 - ours
        self._probes.append(process)
        return process

    def _make_cgroup(self) -> Path:
        parents = [_CGROUPS / "pids", _CGROUPS]
        parent = next((each for each in parents if (each / "cgroup.procs").exists()), None)
        if parent is None:
            raise SkipError("needs a cgroup to count processes in: version 2, or the pids controller")
        cgroup = parent / self.device.folder.name
        cgroup.mkdir()
        return cgroup

    def _alive(self) -> list[int]:
        pids = (self.cgroup / "cgroup.procs").read_text(encoding="ascii").split()
        return [int(pid) for pid in pids if _state(int(pid)) not in ("", "Z", "X")]

    def _ended(self) -> bool:
        """Whether nothing of a probe or a load is alive any more, after another kill."""
        for load in self._loads:
            load.kill()
        try:
            alive = self._alive()
        except OSError:
            return True
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started = [*self._loads, *self._probes]
        return not alive and all(each.poll() is not None for each in started)


def stall_device(folder: Path, *, is_over: bool = False) -> None:
    """Stop the server of a disk, so that what it is asked for does not come back; or let it go on."""
    for pid in servers_of(folder):
        os.kill(pid, signal.SIGCONT if is_over else signal.SIGSTOP)


def _abandon(process: subprocess.Popen[str]) -> None:
    """Kill it and do not wait: in state D it ends when the disk answers."""
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]
