"""What a run has created and found, in a file that survives its process.

Each resource is written here before the call that creates it, so that a crash between the two is known.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from burstctl.aws_check.result import FactOutcome, Result
from burstctl.cli.atomic_file import WriteError, write_atomically
from burstwatch.core.errors import BurstwatchError
from burstwatch.wiring.settings import SettingsError

_SCHEMA: Final = "burstwatch.aws-check-run/v1"
_UNUSED_KEYS: Final = ("schema", "host_at_s")
"""These are not fields. An earlier version wrote ``host_at_s``, and its runs may be resumed or cleaned up."""


@dataclass(slots=True, kw_only=True)
class Resource:
    """A resource of ``owner``; without an ``id`` it may not have been created.

    It ``is_deleted`` after the call that deletes it, and ``is_gone`` when AWS no longer shows it.
    """

    kind: str
    owner: str
    intended_s: float
    id: str | None = None
    is_deleted: bool = False
    is_gone: bool = False


@dataclass(slots=True, kw_only=True)
class RunFile:
    """One run; every change is written before the next call to AWS.

    ``most_usd`` is what all its attempts may have cost at most: the first, and each that resumed it.
    """

    path: Path
    run_id: str
    region: str
    account: str
    begun_s: float
    facts: list[str]
    subnet: str | None = None
    most_usd: float = 0.0
    resources: list[Resource] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    is_over: bool = False

    def save(self) -> None:
        """Write it whole, or leave what was there.

        Raises:
            WriteError: it cannot be written; nothing may be created then.
        """
        document = {
            "schema": _SCHEMA,
            **{item.name: getattr(self, item.name) for item in fields(self) if item.name != "path"},
            "resources": [asdict(resource) for resource in self.resources],
            "results": {name: result.to_document() for name, result in self.results.items()},
        }
        write_atomically(self.path, (json.dumps(document, indent=2) + "\n").encode())

    def save_if_possible(self) -> None:
        """Save it if possible: a full disk must not stop the clean-up."""
        with suppress(WriteError):
            self.save()

    def record_intended(self, kind: str, owner: str, now_s: float) -> Resource:
        """Write down that something is about to be created."""
        resource = Resource(kind=kind, owner=owner, intended_s=now_s)
        self.resources.append(resource)
        self.save()
        return resource

    def record_created(self, resource: Resource, resource_id: str) -> str:
        """Write down the id that AWS gave it."""
        resource.id = resource_id
        self.save()
        return resource_id

    def record_result(self, name: str, result: Result) -> None:
        """Record the result of a fact."""
        self.results[name] = result
        self.save()

    @property
    def remaining(self) -> list[Resource]:
        """What is not known to be gone."""
        return [resource for resource in self.resources if not resource.is_gone]

    @property
    def unanswered(self) -> list[str]:
        """The facts that a resumed run tries: those without an answer so far."""
        return [
            name
            for name in self.facts
            if name not in self.results or self.results[name].outcome is not FactOutcome.MEASURED
        ]


def read_run(path: Path) -> RunFile:
    """Read one back.

    Raises:
        BurstwatchError: it cannot be read; the message says what finds the resources without it.
    """
    try:
        return _from_document(path, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BurstwatchError(
            f"{path} cannot be read ({error})",
            fix="move it away, then burstctl aws-check --clean-up finds by tag what its run created",
        ) from error


def unfinished_runs(directory: Path, region: str) -> list[RunFile]:
    """The runs of a region that were not completed, oldest first."""
    runs = [read_run(path) for path in sorted(directory.glob("aws-check-*.json"))]
    return sorted(
        (run for run in runs if run.region == region and not run.is_over), key=lambda run: run.begun_s
    )


def open_directory(directory: Path) -> Path:
    """Make the directory of the run files.

    Raises:
        SettingsError: it cannot be made.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{directory} cannot be made ({error.strerror}), and the run's file belongs there",
            fix="create it, or make it writable",
        ) from error
    return directory


def _from_document(path: Path, document: Mapping[str, Any]) -> RunFile:
    if document["schema"] != _SCHEMA:
        raise ValueError(f"its schema is {document['schema']}")
    values = {name: value for name, value in document.items() if name not in _UNUSED_KEYS}
    values["resources"] = [Resource(**item) for item in document["resources"]]
    values["results"] = {name: Result.from_document(item) for name, item in document["results"].items()}
    return RunFile(path=path, **values)
