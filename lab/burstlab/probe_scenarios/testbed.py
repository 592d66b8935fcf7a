"""The testbed of one scenario: a disk, its fault, and the probe as a process.

Probes run in a cgroup of their own, so that the processes they leave behind can be counted. It is named like
the disk's folder, so it is found and removed however this command ends.
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

from burstlab.disk.block_device import DiskError, ThrottledDevice
from burstlab.disk.state_dir import limit_files, server_pids, wait_until
from burstlab.probe_scenarios.table import UNHEALTHY, ProbeRun
from burstwatch.core.errors import BurstwatchError

UNPRIVILEGED_UID: Final = 65534  # the usual user ID of a user without rights
HEALTHY_IOPS: Final = 3_000  # gp2's burst ceiling
MAX_PROBE_S: Final = 100.0  # beyond every deadline of the probe: it hangs
EXIT_CODES: Final = {"ok": 0, "warn": 1, "crit": 2, "unknown": 3}
"""Of Nagios: the resident probe has verdicts only."""
_SIZE_MIB: Final = 512  # from 512 MiB on, mke2fs uses 4 KiB blocks by itself
_LOAD_SCRIPT: Final = Path(__file__).with_name("load.py")
_SETTLE_S: Final = 1.0  # for the writers' queue to fill up
_LOAD_START_TIMEOUT_S: Final = 30.0  # each thread's first write may wait behind all others
_CGROUPS: Final = Path("/sys/fs/cgroup")
_ENTER_CGROUP: Final = 'echo $$ > "$0" && exec "$@"'
_PYTHON: Final = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""Another user must be able to start it."""


class SkipError(BurstwatchError):
    """This machine lacks what a scenario needs; the message says what."""


def require_tools(*tools: str) -> None:
    """SkipError the scenario unless these programs are installed.

    Raises:
    SkipError: with the names of those that are missing.
    """
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        raise SkipError(f"needs {', '.join(missing)}")


class RunningProbe:
    """A probe that was started, and the file in memory that it writes readings to."""

    def __init__(self, process: subprocess.Popen[str], readings: Path, truth: str | None) -> None:
        self.process, self.readings, self.truth = process, readings, truth
        self.started_at_s = time.monotonic()

    def all_readings(self) -> list[dict[str, Any]]:
        """Readings so far, oldest first."""
        with suppress(OSError):
            lines = self.readings.read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines if line.endswith("}")]
        return []

    def wait_for(
        self, predicate: Callable[[dict[str, Any]], bool], timeout_s: float
    ) -> dict[str, Any] | None:
        """The first reading from now on that holds, or None when none came in time."""
        known_count = len(self.all_readings())
        matches: list[dict[str, Any]] = []

        def has_match() -> bool:
            matches[:] = [reading for reading in self.all_readings()[known_count:] if predicate(reading)]
            return bool(matches) or self.process.poll() is not None

        wait_until(has_match, timeout_s)
        return matches[0] if matches else None


class Testbed:
    """A disk, and the probe that tests it.

    Use it with ``with``. ``probe_runs`` and ``notes`` are what a row shows.
    """

    def __init__(self, probe: Path, *, file_system: str = "ext4", mkfs_options: Sequence[str] = ()) -> None:
        require_tools(f"mkfs.{file_system}")
        self.probe_file = probe
        self.probe_runs: list[ProbeRun] = []
        self.notes: list[str] = []
        self.processes_left = 0
        self._loads: list[subprocess.Popen[str]] = []
        self._probes: list[subprocess.Popen[str]] = []
        self.file_system = file_system
        self.device = ThrottledDevice(
            size_mib=_SIZE_MIB, file_system=file_system, mkfs_options=mkfs_options, writes_back=True
        )
        if self.device.backend != "qsd":
            raise SkipError(
                "needs qemu-storage-daemon and /dev/fuse: apt-get install qemu-system-common fuse3"
            )

    def __enter__(self) -> Self:
        self.device.__enter__()
        try:
            self.memory_directory = self.device.directory / "memory"
            self.memory_directory.mkdir(mode=0o700)
            self.path = self.device.mount / "data"
            self.path.mkdir()
            self.cgroup = self._make_cgroup()
            self.device.set_iops_limit(HEALTHY_IOPS)
        except BaseException:
            self.device.close()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clean_up()
        with suppress(OSError):
            self.cgroup.rmdir()
        self.device.__exit__(error_type, error, trace)

    def clean_up(self) -> None:
        """Let the disk answer, and end what was started on it."""
        self.resume()
        self.hold_requests(is_on=False)
        self.thaw()
        with suppress(OSError, DiskError):
            self.device.set_bytes_limit(None)
            self.device.set_iops_limit(None)
        wait_until(self._kill_all, 10)

    # -- what is done to the disk

    def throttle(self, iops: int = 100, *, writers: int = 48) -> None:
        """The limit, and others who wait for it already."""
        if writers:
            self.start_load(writers)
        self.device.set_iops_limit(iops)
        if writers:
            time.sleep(_SETTLE_S)

    def stall(self) -> None:
        """Stall the disk: its server is stopped, so requests do not return."""
        stall_device(self.device.directory)

    def resume(self) -> None:
        stall_device(self.device.directory, is_over=True)

    def kill_server(self) -> None:
        """Every request fails with EIO: the server is gone."""
        for pid in server_pids(self.device.directory):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not server_pids(self.device.directory), 5)

    def freeze(self) -> None:
        self.run_tool("fsfreeze", "-f", self.device.mount)

    def thaw(self) -> None:
        with suppress(DiskError):
            self.run_tool("fsfreeze", "-u", self.device.mount)

    def hold_requests(self, *, is_on: bool = True) -> None:
        """Keep requests above the device, as a suspended device mapper does.

        Raises:
            SkipError: there is no blkio controller of cgroup version 1.
        """
        files = limit_files("bps")
        if is_on and not files:
            raise SkipError("needs the blkio controller of cgroup version 1")
        with suppress(OSError):
            device_number = Path(f"/sys/block/{self.device.loop}/dev").read_text(encoding="ascii").strip()
            for path in files:
                path.write_text(f"{device_number} {int(is_on)}", encoding="ascii")

    def start_load(self, threads: int, *, kib: int = 4) -> None:
        """Start writers past the page cache, each waiting for its own write.

        Raises:
            DiskError: they did not start.
        """
        command = [
            sys.executable,
            "-E",
            "-s",
            str(_LOAD_SCRIPT),
            str(self.device.mount / "load"),
            f"{threads}",
            f"{kib}",
        ]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # noqa: S603
        self.device.register_process(process.pid)
        self._loads.append(process)
        assert process.stdout is not None
        with process.stdout:
            ready, _, _ = select.select([process.stdout], [], [], _LOAD_START_TIMEOUT_S)
        if not ready:
            raise DiskError(f"{threads} writers did not start within {_LOAD_START_TIMEOUT_S:g} s")

    def fill_disk(self) -> None:
        """Leave no room for data."""
        free = os.statvfs(self.device.mount)
        with (self.device.mount / "filler").open("wb", buffering=0) as file:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
            with suppress(OSError):
                file.seek(0, os.SEEK_END)
                while file.write(bytes(4096)):
                    pass

    def drop_name_cache(self) -> None:
        """Mount it again: no name below the mount is in memory, and a lookup has to ask the disk."""
        device_fd = os.open(self.device.path, os.O_RDONLY)  # the loop device goes with its last user
        try:
            self.run_tool("umount", self.device.mount)
            self.run_tool("mount", self.device.path, self.device.mount)
        finally:
            os.close(device_fd)

    def run_tool(self, *command: object) -> str:
        """Run a tool.

        Raises:
            DiskError: it failed.
        """
        completed = subprocess.run(  # noqa: S603 - ours
            [str(argument) for argument in command], capture_output=True, text=True, check=False, timeout=60
        )
        if completed.returncode:
            raise DiskError(f"{command}: {completed.stderr.strip()}")
        return completed.stdout.strip()

    def measure_dd(self) -> float:
        """Seconds of the command that ddprobe's figure is about."""
        started_at_s = time.monotonic()
        self.run_tool("dd", "if=/dev/zero", f"of={self.path}/dd", "bs=1M", "count=10", "oflag=sync")
        duration_s = time.monotonic() - started_at_s
        self.notes.append(f"dd itself {duration_s:.1f} s")
        return duration_s

    # -- the probe

    def start(
        self,
        mode: str,
        *options: object,
        paths: Sequence[object] | None = None,
        truth: str | None = UNHEALTHY,
        prefix: Sequence[str] = (),
        program: Sequence[str] | None = None,
        run_dir: object = None,
        **popen_options: Any,
    ) -> RunningProbe:
        """Start the probe; ``prefix`` is a command that runs it, ``popen_options`` goes to Popen."""
        readings = self.memory_directory / f"readings-{time.monotonic_ns()}.json"
        arguments = [
            mode,
            "--run-dir",
            run_dir or self.memory_directory / "run",
            "--json",
            readings,
            *options,
        ]
        arguments += [self.path] if paths is None else paths
        command = [*prefix, *(program or self.python()), str(self.probe_file), *map(str, arguments)]
        process = self._spawn(command, **popen_options)
        return RunningProbe(process, readings, truth)

    def python(self, *options: str) -> list[str]:
        """The interpreter in the probe's first line."""
        return [sys.executable, "-IS", *options]

    def finish(self, started: RunningProbe, *, timeout_s: float = MAX_PROBE_S) -> ProbeRun:
        """Wait for it, and note what it said."""
        process = started.process
        try:
            output, error_output = process.communicate(timeout=timeout_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _abandon(process)
            output = error_output = ""
            code = None
        took_s = time.monotonic() - started.started_at_s
        return self._record_run(
            started.all_readings(), code, took_s, started.truth, f"{output or ''}{error_output or ''}"
        )

    def probe(
        self, *options: object, mode: str = "run", timeout_s: float = MAX_PROBE_S, **start_options: Any
    ) -> ProbeRun:
        """Run it and wait for it."""
        return self.finish(self.start(mode, *options, **start_options), timeout_s=timeout_s)

    def probe_unprivileged(
        self, *options: object, directory: Path, truth: str = UNHEALTHY, script: str = ""
    ) -> ProbeRun:
        """Run it as a user without privileges on a directory of the disk, which it sees at /mnt.

        Its source is passed by stdin, because that user may not be allowed to read the file.
        """
        private_directory = self.memory_directory / f"nobody-{time.monotonic_ns()}"
        private_directory.mkdir(mode=0o700)
        os.chown(private_directory, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
        mounts = f'mount --bind "{directory}" /mnt; mount --bind "{private_directory}" /media; {script}'
        drop = f"setpriv --reuid {UNPRIVILEGED_UID} --regid {UNPRIVILEGED_UID} --clear-groups"
        arguments = ["run", "--run-dir", "/media", "--json", "/media/reading", *options, "/mnt"]
        with self.probe_file.open("rb") as source:
            process = self._spawn(
                [*self.in_namespace(f'{mounts} exec {drop} "$@"'), _PYTHON, "-IS", "-", *map(str, arguments)],
                stdin=source,
            )
            return self.finish(RunningProbe(process, private_directory / "reading", truth))

    def in_namespace(self, script: str) -> list[str]:
        """A command that runs another one after a script, among mounts that are gone with it.

        Disks of others are let go of there: a copy of their mounts would keep them busy.
        """
        mounts = f"grep -e /burstlab-disk- -e /ddprobe-box- /proc/mounts | grep -v {self.device.directory}/"
        unmount_others = f'for other in $({mounts} | cut -d " " -f 2); do umount -l "$other"; done'
        enter = script if "$@" in script else f'{script}; exec "$@"'
        return ["unshare", "--mount", "sh", "-ec", f"{unmount_others}; {enter}", "sh"]

    @contextmanager
    def serve(self, *options: object, **start_options: Any) -> Iterator[RunningProbe]:
        """Run the resident probe in the context."""
        started = self.start("serve", *options, truth=None, **start_options)
        try:
            yield started
        finally:
            _abandon(started.process)

    def record_serve(self, reading: Mapping[str, Any] | None, truth: str = UNHEALTHY) -> ProbeRun:
        """Note what the resident probe said last, or that nothing it said was as expected."""
        readings = [dict(reading)] if reading else []
        code = EXIT_CODES[reading["verdict"]] if reading else None
        return self._record_run(readings, code, 0.0, truth, "")

    def count_processes_left(self) -> int:
        """Count the probe's processes that are there although its caller was answered."""
        time.sleep(_SETTLE_S / 2)
        self.processes_left = len(self._live_pids())
        self.notes.append(f"{self.processes_left} left")
        return self.processes_left

    def _record_run(
        self, readings: list[dict[str, Any]], code: int | None, took_s: float, truth: str | None, output: str
    ) -> ProbeRun:
        reading = readings[-1] if readings else {}
        probe_run = ProbeRun(
            verdict=reading.get("verdict", ""),
            cause=reading.get("cause", ""),
            code=code,
            duration_s=took_s,
            truth=truth,
            reading=reading,
            output=output,
            is_about_tested_disk=self.device.loop in (reading.get("disks") or [self.device.loop]),
        )
        self.probe_runs.append(probe_run)
        return probe_run

    def _spawn(self, command: Sequence[str], **popen_options: Any) -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        entering = ["sh", "-c", _ENTER_CGROUP, str(self.cgroup / "cgroup.procs"), *command]
        process = subprocess.Popen(entering, text=True, **(streams | popen_options))  # noqa: S603 - ours
        self._probes.append(process)
        return process

    def _make_cgroup(self) -> Path:
        parents = [_CGROUPS / "pids", _CGROUPS]
        parent = next((candidate for candidate in parents if (candidate / "cgroup.procs").exists()), None)
        if parent is None:
            raise SkipError("needs a cgroup to count processes in: version 2, or the pids controller")
        cgroup = parent / self.device.directory.name
        cgroup.mkdir()
        return cgroup

    def _live_pids(self) -> list[int]:
        pids = (self.cgroup / "cgroup.procs").read_text(encoding="ascii").split()
        return [int(pid) for pid in pids if _process_state(int(pid)) not in ("", "Z", "X")]

    def _kill_all(self) -> bool:
        """Whether nothing of a probe or a load is alive any more, after another kill."""
        for load in self._loads:
            load.kill()
        try:
            alive = self._live_pids()
        except OSError:
            return True
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started = [*self._loads, *self._probes]
        return not alive and all(process.poll() is not None for process in started)


def stall_device(directory: Path, *, is_over: bool = False) -> None:
    """Stop the server of a disk, so that requests do not return; or let it continue."""
    for pid in server_pids(directory):
        os.kill(pid, signal.SIGCONT if is_over else signal.SIGSTOP)


def _abandon(process: subprocess.Popen[str]) -> None:
    """Kill it without waiting: a process in state D ends when the disk responds."""
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _process_state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]
