"""Runs ddprobe on a disk again and again, and keeps what it said; waits for nothing without a deadline."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Final

from burstlab.disk.block_device import DiskError, ThrottledDevice

DDPROBE: Final = Path(__file__).parents[3] / "ddprobe" / "ddprobe.py"
# a probe ends at its own deadline; if it does not, it is killed some seconds later
_DEADLINE_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.05  # short beside a probe's run
_VERDICTS: Final = ("ok", "warn", "crit", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run of ddprobe said; moments are seconds of the monotonic clock.

    ``total_s`` is the duration of its write, or the duration so far if it is not ``is_completed``. ``tasks``
    are those in state D on this disk during it: name, wait channel and number, the most frequent first.
    """

    started_at_s: float
    ended_at_s: float
    verdict: str
    cause: str
    total_s: float
    is_completed: bool
    tasks: tuple[tuple[str, str, int], ...]

    @property
    def blocked_tasks(self) -> int:
        """How many tasks were seen in state D."""
        return sum(count for _, _, count in self.tasks)


class Prober(Thread):
    """Probes a device at intervals, one run at a time.

    ``error`` is the exception that ended it, if any.
    """

    def __init__(self, device: ThrottledDevice, volume_id: str, *, interval_s: float) -> None:
        super().__init__(name=f"prober of {volume_id}", daemon=True)
        self.readings: list[Reading] = []
        self.error: str | None = None
        self._device = device
        self._interval_s = interval_s
        self._record_path = device.directory / "reading.json"
        # Not next to the record, which may be on a disk: ddprobe's state must be in memory
        self._run_directory = TemporaryDirectory(prefix="burstlab-probe-", dir="/dev/shm")
        self._command = _probe_command(device.mount, self._record_path, volume_id, self._run_directory.name)
        self._stop_requested = Event()

    def run(self) -> None:
        """Probe until stopped."""
        while not self._stop_requested.is_set():
            started_at_s = time.monotonic()
            try:
                self.readings.append(self._probe(started_at_s))
            except (OSError, ValueError, KeyError) as error:
                self.error = f"ddprobe's record cannot be read: {error!r}"
            if self.error:
                return
            self._stop_requested.wait(max(0.0, self._interval_s - (time.monotonic() - started_at_s)))

    def stop(self) -> None:
        self._stop_requested.set()
        self.join(_STOP_TIMEOUT_S)
        self._run_directory.cleanup()

    def check(self) -> None:
        """Refuse to go on without a probe.

        Raises:
            DiskError: with what it said last.
        """
        if self.error and not self._stop_requested.is_set():
            raise DiskError(self.error)

    def _probe(self, started_at_s: float) -> Reading:
        self._record_path.unlink(missing_ok=True)
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            self._command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._device.register_process(process.pid)
        with process:
            while process.poll() is None:
                is_late = time.monotonic() - started_at_s > _DEADLINE_S + _STOP_TIMEOUT_S
                if is_late or self._stop_requested.wait(_POLL_INTERVAL_S):
                    process.kill()
            assert process.stdout is not None
            output = process.stdout.read().decode(errors="replace").strip()
        if not self._record_path.exists():
            if not self._stop_requested.is_set():
                raise OSError(f"exit code {process.returncode}: {output or 'it said nothing'}")
            return _stopped_reading(started_at_s)
        return read_record(json.loads(self._record_path.read_text()), started_at_s, time.monotonic())


def read_record(record: Mapping[str, Any], started_at_s: float, ended_at_s: float) -> Reading:
    """What ddprobe's JSON line says.

    Raises:
        KeyError: it lacks what is needed.
        ValueError: its verdict is none.
    """
    if record["verdict"] not in _VERDICTS:
        raise ValueError(f"verdict {record['verdict']!r} is none of {', '.join(_VERDICTS)}")
    groups = (record["dstate"] or {"top": []})["top"]
    return Reading(
        started_at_s=started_at_s,
        ended_at_s=ended_at_s,
        verdict=record["verdict"],
        cause=record["cause"],
        total_s=record["total_s"] or 0.0,
        is_completed=record["completed"],
        tasks=tuple((group["comm"], group["wchan"], group["count"]) for group in groups if group["here"]),
    )


def _stopped_reading(at_s: float) -> Reading:
    """Of a run that was stopped with the rest."""
    return Reading(
        started_at_s=at_s,
        ended_at_s=at_s,
        verdict="unknown",
        cause="stopped",
        total_s=0.0,
        is_completed=False,
        tasks=(),
    )


def _probe_command(mount: Path, record: Path, volume_id: str, run_directory: str) -> Sequence[str]:
    """The classic probe, ten times one MiB; its price is of no concern here, where days pass in minutes."""
    return [
        *(sys.executable, "-E", "-s", str(DDPROBE), "run", str(mount)),
        *("--level", "classic", "--json", str(record), "--volume-id", volume_id),
        *(
            "--deadline",
            f"{_DEADLINE_S:g}s",
            "--max-credit-share",
            "1",
            "--run-dir",
            run_directory,
        ),
    ]
