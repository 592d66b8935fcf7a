"""Fleets to serve: read from a YAML file, or mixed from typical volumes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from burstlab.model.load import ScaledLoad
from burstlab.model.load_parser import parse_load
from burstlab.model.load_recording import read_recording
from burstlab.model.volume import LabVolume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

_TEXT_KEYS: Final = (
    "load", "volume_id", "volume_type", "instance_id", "service_owner", "device", "managed_by", "zone",
    "outpost_arn",
)  # fmt: skip
_INTEGER_KEYS: Final = ("size_gib", "shown_iops", "iops", "throughput_mib_s")
_FLAG_KEYS: Final = ("attached", "hidden", "multi_attached", "lacks_gp3")
_KEYS: Final = ("tags", "balance_pct", "count", *_INTEGER_KEYS, *_TEXT_KEYS, *_FLAG_KEYS)
_SIZES_GIB: Final = (8, 30, 100, 334, 500, 900)
_MIXTURE: Final = (
    "idle",
    "steady:40",
    "idle",
    "etcd",
    "idle",
    "ci-day",
    "idle",
    "nightly-batch",
    "idle",
    "idle",
)
_DOCKER_LOOP_INTERVAL: Final = 12
"""Most volumes are calm: one of twelve has a load that empties a small bucket."""

_VALUE_ERRORS: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What PyYAML makes of a date or a number that cannot be."""

_MAX_COUNT: Final = 100_000  # the largest fleet that is measured; see docs/benchmarks.md
# keeps a message about a faulty file readable
_MAX_VALUE_CHARS: Final = 60
_MAX_ERROR_CHARS: Final = 600


class FleetFileError(BurstwatchError):
    """A fleet file is invalid; the message has the file, the entry and the value."""


def read_volumes(path: Path, starts_at: datetime) -> list[LabVolume]:
    """The volumes a YAML file declares under ``volumes``; ``count`` makes that many of one entry.

    Raises:
    FleetFileError: with the entry and what is accepted there.
    """
    document = load_document(path)
    entries = document.get("volumes") if isinstance(document, Mapping) else None
    if entries is None and declares_storage(document):
        return []
    if not isinstance(entries, list) or not entries:
        raise FleetFileError(f"{path}: it must hold a list `volumes` with at least one entry")
    return [
        volume
        for number, entry in enumerate(entries)
        for volume in _parse_entry(f"{path}: volumes[{number}]", entry, starts_at)
    ]


def load_document(path: Path) -> object:
    """What a YAML file holds.

    Raises:
        FleetFileError: it cannot be read, or is not YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FleetFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, *_VALUE_ERRORS) as error:
        raise FleetFileError(f"{path}: not YAML: {sanitise(str(error), _MAX_ERROR_CHARS)}") from error
    except RecursionError:
        raise FleetFileError(f"{path}: nested too deeply to be read; a fleet has four levels") from None


def declares_storage(document: object) -> bool:
    """Whether it has file systems or databases, so that it needs no volumes."""
    return isinstance(document, Mapping) and bool(document.get("file_systems") or document.get("databases"))


def make_mixed_volumes(count: int, *, seed: int, starts_at: datetime) -> list[LabVolume]:
    """Volumes of six sizes, mostly idle, every twelfth in the docker loop: a fleet as one finds it."""
    return [
        LabVolume(
            size_gib=_SIZES_GIB[(index + seed) % len(_SIZES_GIB)],
            load="docker-loop"
            if index % _DOCKER_LOOP_INTERVAL == 0
            else _MIXTURE[(index + seed) % len(_MIXTURE)],
            tags={"Name": f"lab-{index}", "team": "lab"},
            starts_at=starts_at,
        )
        for index in range(count)
    ]


def make_recorded_volumes(
    directory: Path, *, size_gib: int, scale: float, starts_at: datetime
) -> list[LabVolume]:
    """A volume for each recording below a folder, named like it.

    Raises:
        FleetFileError: there is no recording.
        LoadError: a recording cannot be used.
    """
    paths = sorted(directory.rglob("*.csv.gz"))
    if not paths:
        raise FleetFileError(f"{directory}: no recording (*.csv.gz) below it")
    return [
        LabVolume(
            size_gib=size_gib,
            load=ScaledLoad(read_recording(path), scale),
            tags={"Name": path.name.removesuffix(".csv.gz")},
            starts_at=starts_at,
        )
        for path in paths
    ]


def _parse_entry(path: str, entry: object, starts_at: datetime) -> Iterator[LabVolume]:
    if not isinstance(entry, Mapping):
        raise FleetFileError(
            f"{path} is {_format_value(entry)}; it must be a mapping such as {{size_gib: 100, load: idle}}"
        )
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        unknown_key = sanitise(unknown[0], _MAX_VALUE_CHARS)
        raise FleetFileError(f"{path}.{unknown_key}: no such key; there are {', '.join(_KEYS)}")
    if "size_gib" not in entry:
        raise FleetFileError(f"{path}: size_gib is missing")
    fields = {key: _check_value(f"{path}.{key}", key, value) for key, value in entry.items()}
    count = fields.pop("count", 1)
    if count > _MAX_COUNT:
        raise FleetFileError(f"{path}.count is {_format_value(count)}; it must be {_MAX_COUNT:,} at most")
    if count > 1 and "volume_id" in fields:
        raise FleetFileError(f"{path}: count is {count} with one volume_id; leave one of them out")
    try:
        parse_load(fields.get("load", "idle"))
        volume = LabVolume(starts_at=starts_at, **fields)
    except (BurstwatchError, ValueError) as error:
        raise FleetFileError(f"{path}: {sanitise(str(error), _MAX_ERROR_CHARS)}") from error
    yield from [volume] * count


def _check_value(path: str, key: str, value: Any) -> Any:
    if key == "tags":
        return _check_tags(path, value)
    if key in (*_INTEGER_KEYS, "count"):
        is_valid, expected = (
            isinstance(value, int) and not isinstance(value, bool) and value > 0,
            "a whole number above 0",
        )
    elif key in _FLAG_KEYS:
        is_valid, expected = isinstance(value, bool), "true or false"
    elif key == "balance_pct":
        is_valid, expected = (
            isinstance(value, int | float) and not isinstance(value, bool),
            "a number from 0 to 100",
        )
    else:
        is_valid, expected = isinstance(value, str), "text"
    if not is_valid:
        raise FleetFileError(f"{path} is {_format_value(value)}; it must be {expected}")
    return value


def _format_value(value: object) -> str:
    """The value as text; only the type of a collection, because aliases can make it endless."""
    text = f"a {type(value).__name__}" if isinstance(value, list | Mapping | set) else repr(value)
    return sanitise(text, _MAX_VALUE_CHARS)


def _check_tags(path: str, tags: object) -> dict[str, str]:
    if not isinstance(tags, Mapping):
        raise FleetFileError(f"{path} is {_format_value(tags)}; it must be a mapping of text to text")
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise FleetFileError(
                f"{path}.{_format_value(key)} is {_format_value(value)}; it must be text: put it in quotes"
            )
    return dict(tags)
