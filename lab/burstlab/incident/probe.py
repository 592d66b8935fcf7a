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

from burstlab.disk.block_device import Device, DiskError

DDPROBE: Final = Path(__file__).parents[3] / "ddprobe" / "ddprobe.py"
_DEADLINE_S: Final = 30.0
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.05
_VERDICTS: Final = ("ok", "warn", "crit", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run of ddprobe said; moments are seconds of the monotonic clock.

    ``total_s`` is how long its write took, or has taken so far where it is not ``completed``. ``tasks`` are
    those seen in state D on this disk meanwhile: name, wait channel and how many; the commonest first.
    """

    started_s: float
    ended_s: float
    verdict: str
    cause: str
    total_s: float
    completed: bool
    tasks: tuple[tuple[str, str, int], ...]

    @property
    def blocked(self) -> int:
        """How many tasks were seen in state D."""
        return sum(count for _, _, count in self.tasks)


class Prober(Thread):
    """Probes a device every so many seconds, a run at a time.

    ``error`` is what ended it, if anything but ``stop`` did.
    """

    def __init__(self, device: Device, volume_id: str, *, every_s: float) -> None:
        super().__init__(name=f"prober of {volume_id}", daemon=True)
        self.readings: list[Reading] = []
        self.error: str | None = None
        self._device = device
        self._every_s = every_s
        self._record = device.folder / "reading.json"
        # not beside the record: that may be on a disk, and what ddprobe remembers must be in memory
        self._memory = TemporaryDirectory(prefix="burstlab-probe-", dir="/dev/shm")
        self._command = _command(device.mount, self._record, volume_id, self._memory.name)
        self._stopping = Event()

    def run(self) -> None:
        """Probe until stopped."""
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self.readings.append(self._probe(began_s))
            except (OSError, ValueError, KeyError) as error:
                self.error = f"ddprobe's record cannot be read: {error!r}"
            if self.error:
                return
            self._stopping.wait(max(0.0, self._every_s - (time.monotonic() - began_s)))

    def stop(self) -> None:
        self._stopping.set()
        self.join(_PATIENCE_S)
        self._memory.cleanup()

    def check(self) -> None:
        """Refuse to go on without a probe.

        Raises:
            DiskError: with what it said last.
        """
        if self.error and not self._stopping.is_set():
            raise DiskError(self.error)

    def _probe(self, began_s: float) -> Reading:
        self._record.unlink(missing_ok=True)
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            self._command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._device.note(process.pid)
        with process:
            while process.poll() is None:
                late = time.monotonic() - began_s > _DEADLINE_S + _PATIENCE_S
                if late or self._stopping.wait(_LOOK_S):
                    process.kill()
            assert process.stdout is not None
            said = process.stdout.read().decode(errors="replace").strip()
        if not self._record.exists():
            if not self._stopping.is_set():
                raise OSError(f"exit code {process.returncode}: {said or 'it said nothing'}")
            return _nothing(began_s)
        return read_record(json.loads(self._record.read_text()), began_s, time.monotonic())


def read_record(record: Mapping[str, Any], started_s: float, ended_s: float) -> Reading:
    """What ddprobe's JSON line says.

    Raises:
        KeyError: it lacks what is needed.
        ValueError: its verdict is none.
    """
    if record["verdict"] not in _VERDICTS:
        raise ValueError(f"verdict {record['verdict']!r} is none of {', '.join(_VERDICTS)}")
    groups = (record["dstate"] or {"top": []})["top"]
    return Reading(
        started_s=started_s,
        ended_s=ended_s,
        verdict=record["verdict"],
        cause=record["cause"],
        total_s=record["total_s"] or 0.0,
        completed=record["completed"],
        tasks=tuple((group["comm"], group["wchan"], group["count"]) for group in groups if group["here"]),
    )


def _nothing(at_s: float) -> Reading:
    """Of a run that was stopped with the rest."""
    return Reading(
        started_s=at_s,
        ended_s=at_s,
        verdict="unknown",
        cause="stopped",
        total_s=0.0,
        completed=False,
        tasks=(),
    )


def _command(mount: Path, record: Path, volume_id: str, memory: str) -> Sequence[str]:
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
            memory,
        ),
    ]
