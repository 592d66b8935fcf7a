"""File systems and databases of a fleet file: its lists ``file_systems`` and ``databases``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet_file import FleetFileError, format_value, load_document
from burstlab.model.loads.load_parser import parse_load
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

_MAX_COUNT: Final = 10_000  # ten times what is measured
# keeps a message about a faulty file readable
_MAX_VALUE_CHARS: Final = 60
_MAX_ERROR_CHARS: Final = 600
_NOT_IN_FILES: Final = frozenset({"starts_at", "created_at"})
_EXPECTED: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}

_Definition = TypeVar("_Definition", LabFileSystem, LabDatabase)


class StorageDefinition(NamedTuple):
    """The resources beside volumes that a fleet file declares."""

    file_systems: list[LabFileSystem]
    databases: list[LabDatabase]


def read_storage(path: Path, starts_at: datetime) -> StorageDefinition:
    """Read both lists; ``count`` makes that many of one entry.

    A number follows the name of a database then: ``orders-0``, ``orders-1``.

    Raises:
        FleetFileError: with the entry and what is accepted there.
    """
    document = load_document(path)
    file_systems = [
        file_system
        for where, entry in _entries(path, document, "file_systems")
        for file_system in _parse(where, entry, LabFileSystem, starts_at, "file_system_id")
    ]
    databases = [
        database
        for where, entry in _entries(path, document, "databases")
        for database in _parse(where, entry, LabDatabase, starts_at, None)
    ]
    return StorageDefinition(file_systems, databases)


def _entries(path: Path, document: object, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = document.get(name) if isinstance(document, Mapping) else None
    if entries is None:
        return
    if not isinstance(entries, list):
        raise FleetFileError(f"{path}: {name} is {format_value(entries)}; it must be a list")
    for number, entry in enumerate(entries):
        where = f"{path}: {name}[{number}]"
        if not isinstance(entry, Mapping):
            raise FleetFileError(f"{where} is {format_value(entry)}; it must be a mapping")
        yield where, entry


def _parse(
    where: str,
    entry: Mapping[str, Any],
    definition: Callable[..., _Definition],
    starts_at: datetime,
    unique_key: str | None,
) -> Iterator[_Definition]:
    types = _types_by_key(definition)
    for key, value in entry.items():
        _check(f"{where}.{_format_key(key)}", types, key, value)
    count = entry.get("count", 1)
    if not 1 <= count <= _MAX_COUNT:
        raise FleetFileError(f"{where}.count is {count}; it must be 1 to {_MAX_COUNT:,}")
    if count > 1 and unique_key in entry:
        raise FleetFileError(f"{where}: count is {count} with one {unique_key}; leave one of them out")
    values = {key: value for key, value in entry.items() if key != "count"}
    try:
        parse_load(values.get("load", "idle"))
        for number in range(count):
            name = values.get("identifier")
            numbered = {"identifier": f"{name}-{number}"} if name is not None and count > 1 else {}
            yield definition(starts_at=starts_at, **(values | numbered))
    except (BurstwatchError, ValueError, TypeError) as error:
        raise FleetFileError(f"{where}: {sanitise(str(error), _MAX_ERROR_CHARS)}") from error


def _types_by_key(definition: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """What each key takes, from the fields of the definition."""
    hints = get_type_hints(definition)
    types = {
        field.name: tuple(kind for kind in (get_args(hints[field.name]) or (hints[field.name],)))
        for field in fields(definition)  # type: ignore[arg-type]
        if field.name not in _NOT_IN_FILES
    }
    return types | {"count": (int,), "tags": (Mapping,), "load": (str,)}


def _check(where: str, types: Mapping[str, tuple[type, ...]], key: object, value: object) -> None:
    if key not in types:
        raise FleetFileError(f"{where}: no such key; there are {', '.join(types)}")
    kinds = types[str(key)]
    if Mapping in kinds:
        _check_tags(where, value)
        return
    accepted = tuple(kind for kind in kinds if kind is not NoneType)
    matches = type(value) in accepted or (float in accepted and type(value) is int)
    if not matches:
        expected = " or ".join(_EXPECTED[kind] for kind in accepted)
        raise FleetFileError(f"{where} is {format_value(value)}; it must be {expected}")


def _check_tags(where: str, tags: object) -> None:
    if not isinstance(tags, Mapping):
        raise FleetFileError(f"{where} is {format_value(tags)}; it must be a mapping of text to text")
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise FleetFileError(
                f"{where}.{_format_key(key)} is {format_value(value)}; it must be text: put it in quotes"
            )


def _format_key(key: object) -> str:
    return sanitise(str(key), _MAX_VALUE_CHARS)
