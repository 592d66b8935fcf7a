"""Starts the loop of jobs on a disk, and records their durations."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from burstlab.disk.block_device import DiskError, ThrottledDevice

WRITERS: Final = 32
WRITES_PER_WRITER: Final = 27
"""A job is about 950 operations: a third of a second of burst, or ten of a 100-IOPS baseline."""
_SCRIPT: Final = Path(__file__).with_name("jobs.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; moments are seconds of the monotonic clock, ``ended_at_s`` is None while it runs."""

    number: int
    started_at_s: float
    ended_at_s: float | None = None
    exit_code: int | None = None

    def duration_s(self, now_s: float) -> float:
        """How long it took, or has taken so far."""
        return (now_s if self.ended_at_s is None else self.ended_at_s) - self.started_at_s


class JobLoop:
    """Jobs one after another on a device, at a pace; use it with ``with``.

    ``name`` is what the kernel calls a job's threads; ``command`` is run instead of the built-in job.
    """

    def __init__(
        self, device: ThrottledDevice, *, pace_s: float, name: str = "ci-job", command: tuple[str, ...] = ()
    ) -> None:
        self.jobs: list[Job] = []
        self.running: Job | None = None
        self._device = device
        arguments = command or (name, str(WRITERS), str(WRITES_PER_WRITER))
        job_kind = "command" if command else "writers"
        self._command = [
            sys.executable,
            "-E",
            "-s",
            str(_SCRIPT),
            str(device.mount),
            f"{pace_s}",
            job_kind,
            *arguments,
        ]

    def __enter__(self) -> Self:
        self._stderr = TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603 - the command is ours
            self._command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr
        )
        self._device.register_process(self._process.pid)
        self._reader = Thread(target=self._read, name="job loop", daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()

    def check(self) -> None:
        """Raise an error if the loop or a job failed.

        Raises:
            DiskError: with the last line of what was said.
        """
        code = self._process.poll()
        failed = next((job for job in self.jobs if job.exit_code), None)
        if code is None and failed is None:
            return
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        problem = f"job {failed.number} failed" if failed else f"the loop of jobs ended with {code}"
        raise DiskError(f"{problem}: {lines[-1] if lines else 'it said nothing'}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            job = _parse_job(json.loads(line))
            if job.ended_at_s is None:
                self.running = job
            else:
                self.jobs.append(job)
                self.running = None


def _parse_job(record: dict[str, Any]) -> Job:
    return Job(
        number=record["job"],
        started_at_s=record["started_s"],
        ended_at_s=record.get("ended_s"),
        exit_code=record.get("exit_code"),
    )
