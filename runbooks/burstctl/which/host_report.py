"""What ddprobe saw on a host about a volume: as the ledger has it, or as a file in its run directory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.text import format_duration, sanitise

READING_SCHEMA: Final = "burstwatch.reading/v1"
RECENT_S: Final = 15 * 60
"""An older report says nothing about now: ddprobe's default schedule is a run every five minutes."""

_STALLED: Final = ("warn", "crit")
_NOT_THIS_DISK: Final = "not_this_disk"
_MAX_FILE_BYTES: Final = 2**20
_MAX_FILES: Final = 200
_MAX_TEXT_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """One verdict of ddprobe (ok, warn, crit, unknown) at an instant; ``source`` is where it was found."""

    volume_ids: tuple[str, ...]
    verdict: str
    cause: str
    reason: str
    at_s: float
    source: str

    @property
    def is_stalled(self) -> bool:
        """Whether processes waited for this volume."""
        return self.verdict in _STALLED and self.cause != _NOT_THIS_DISK

    def is_recent(self, now_s: float) -> bool:
        """Whether it still says something about now."""
        return now_s - self.at_s <= RECENT_S

    def to_sentences(self, now_s: float) -> list[str]:
        """The verdict, its reason and its age, without full stops."""
        ago = format_duration(max(0.0, now_s - self.at_s))
        old = "" if self.is_recent(now_s) else ", too old to count as now"
        verdict = f"ddprobe ({self.source}), {ago} ago{old}: {self.verdict}, {self.cause}"
        return [verdict, *([f"It says: {self.reason}"] if self.reason else [])]


class RunDirectoryError(Exception):
    """The run directory of ddprobe has nothing to read; the message says why, and what to do."""


def report_of_stall(stall: Stall) -> HostReport:
    """The report that a host sent, as the ledger has it."""
    waited = f"a synchronous write took {stall.total_s:,.1f} s" if stall.total_s is not None else ""
    return HostReport(
        volume_ids=(stall.volume_id,),
        verdict=stall.verdict,
        cause=stall.cause,
        reason=waited,
        at_s=stall.seen_at_s,
        source=f"reported by {stall.instance_id}",
    )


def read_run_directory(directory: Path) -> tuple[list[HostReport], list[str]]:
    """The newest reading of each disk, and what could not be read of them.

    Raises:
        RunDirectoryError: there is no reading at all.
    """
    try:
        paths = sorted(directory.glob("*.json"))[:_MAX_FILES]
        is_there = directory.is_dir()
    except OSError as error:
        raise RunDirectoryError(f"--run-dir {directory}: {error.strerror}") from error
    if not is_there:
        raise RunDirectoryError(
            f"--run-dir {directory} is not a directory: give the one of ddprobe, such as /run/ddprobe"
        )
    reports: list[HostReport] = []
    faults: list[str] = []
    for path in paths:
        try:
            report = parse_reading(json.loads(_read_file(path)))
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(f"{path} is not a reading of ddprobe: {sanitise(str(reason), _MAX_TEXT_CHARS)}")
        else:
            reports.append(report)
    if not reports and not faults:
        raise RunDirectoryError(
            f"--run-dir {directory} has no reading of ddprobe: run it on this host, or check the directory"
        )
    return reports, faults


def parse_reading(document: Any) -> HostReport:
    """A reading of ddprobe, in the schema ``burstwatch.reading/v1``.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(document, Mapping) or document.get("schema") != READING_SCHEMA:
        raise ValueError(f"its schema is not {READING_SCHEMA}")
    texts = {name: document.get(name) for name in ("verdict", "cause", "reason", "time")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r}, not a text")  # noqa: TRY004 - a fault of the file
    named = document.get("volume_ids")
    volume_ids = named if isinstance(named, Sequence) and not isinstance(named, str) else []
    cleaned = {name: sanitise(str(value), _MAX_TEXT_CHARS) for name, value in texts.items()}
    return HostReport(
        volume_ids=tuple(volume_id for volume_id in volume_ids if isinstance(volume_id, str)),
        verdict=cleaned["verdict"],
        cause=cleaned["cause"],
        reason=cleaned["reason"].rstrip("."),
        at_s=_parse_instant(cleaned["time"]),
        source="in its run directory",
    )


def _parse_instant(text: str) -> float:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"time is {text!r}, without a time zone")
    return at.timestamp()


def _read_file(path: Path) -> bytes:
    status = path.stat()
    if not S_ISREG(status.st_mode):  # reading a pipe would wait
        raise ValueError("it is not a file")
    if status.st_size > _MAX_FILE_BYTES:
        raise ValueError(f"it has {status.st_size:,} bytes, more than {_MAX_FILE_BYTES:,}")
    return path.read_bytes()
