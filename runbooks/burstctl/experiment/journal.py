"""What an experiment has done so far, in a file that survives its process."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from burstctl.cli.atomic_file import exclusive_lock, write_atomically
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.ledger.flip_state import configuration_from_document, configuration_to_document
from burstwatch.core.text import format_instant

_SCHEMA: Final = "burstwatch.experiment-journal/v1"
_FILE_PREFIX: Final = "experiment-credit-reset"


class JournalError(BurstwatchError):
    """The journal cannot be used; the message has the file and the next step."""


class Stage(StrEnum):
    """The progress of an experiment, written before the first effect of each stage."""

    LEAVING = "leaving"
    AWAY = "away"
    RETURNING = "returning"
    WATCHING = "watching"
    CONCLUDED = "concluded"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationTimes:
    """The beginning and the end of a modification according to AWS."""

    started_s: int
    ended_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """An experiment with one volume; ``label`` replaces the volume's ID if it must not be published.

    The volume stays on its target for ``away_s``, or for ``stay_s`` once the duration of the modification is
    known. ``lasts_s`` is the longest that everything may take. ``is_abandoned``: a person ended it, and
    the volume only returns. ``failed`` is why there will be no answer, ``conclusion`` the answer, and
    ``report`` the file for it.
    """

    volume_id: str
    region: str
    ledger: str
    label: str
    by: str
    begun_s: int
    size_gib: int
    original: Configuration
    target: Configuration
    away_s: int
    lasts_s: int
    report: str
    tells_id: bool = False
    stage: Stage = Stage.LEAVING
    attempts: int = 0
    stay_s: int | None = None
    out: ModificationTimes | None = None
    back: ModificationTimes | None = None
    is_abandoned: bool = False
    failed: str | None = None
    conclusion: str | None = None

    @property
    def flip_reason(self) -> str:
        """The reason of its modifications and its hold, by which they are recognised later."""
        return f"experiment credit-reset, begun {format_instant(self.begun_s)}"

    @property
    def file_stem(self) -> str:
        """The name of its file, without an ending."""
        return f"{_FILE_PREFIX}-{self.volume_id}-{format_compact_instant(self.begun_s)}"

    @property
    def is_over(self) -> bool:
        return self.stage is Stage.OVER

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("original", "target"):
            document[name] = configuration_to_document(document[name])
        for name in ("out", "back"):
            times = document[name]
            document[name] = times and {"started_s": times.started_s, "ended_s": times.ended_s}
        return {"schema": _SCHEMA, **document}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``.

        Raises:
            ValueError: it is of another schema.
        """
        if document["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {document['schema']}")
        values = {name: value for name, value in document.items() if name != "schema"}
        values["stage"] = Stage(values["stage"])
        for name in ("original", "target"):
            values[name] = configuration_from_document(values[name])
        for name in ("out", "back"):
            values[name] = values[name] and ModificationTimes(**values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class JournalStore:
    """The directory with the journals of all experiments, those that are over too."""

    directory: Path

    def find_open(self, volume_id: str) -> Journal | None:
        """The experiment with this volume that is not concluded, or None.

        Raises:
            JournalError: a journal cannot be read.
        """
        journals = map(_read_journal, sorted(self.directory.glob(f"{_FILE_PREFIX}-{volume_id}-*.json")))
        return next((journal for journal in journals if not journal.is_over), None)

    def save(self, journal: Journal) -> None:
        """Write it whole, or leave the one before.

        Raises:
            BurstwatchError: it cannot be written.
        """
        self._make_directory()
        path = self.directory / f"{journal.file_stem}.json"
        write_atomically(path, (json.dumps(journal.to_document(), indent=2) + "\n").encode())

    @contextmanager
    def lock(self, volume_id: str) -> Iterator[None]:
        """Keep other processes from the experiment with this volume; the end of this one frees it.

        Raises:
            BurstwatchError: another process is at it.
        """
        self._make_directory()
        problem = Problem(
            f"another process runs the experiment with {volume_id}",
            "wait for it, or end it with Ctrl-C; this command goes on where it stopped",
        )
        with exclusive_lock(self.directory / f".{_FILE_PREFIX}-{volume_id}.lock", problem):
            yield

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise JournalError(
                f"{self.directory} cannot be written ({reason})",
                fix="free or repair its place, then run this again",
            ) from error


def format_compact_instant(at_s: float) -> str:
    """The instant, fit for the name of a file."""
    return format_instant(at_s).replace("-", "").replace(":", "")


def _read_journal(path: Path) -> Journal:
    try:
        return Journal.from_document(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JournalError(
            f"the journal {path} cannot be read ({error})",
            fix=(
                "see what burstctl history says of the volume, flip it back and release it by hand,"
                " then move the file away"
            ),
        ) from error
