"""Fleets to serve: read from a YAML file, or mixed from typical volumes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from burstlab.model.load import Changed
from burstlab.model.load_parser import parse_load
from burstlab.model.load_recording import read_recording
from burstlab.model.volume import LabVolume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import printable

_TEXT: Final = (
    "load", "volume_id", "volume_type", "instance_id", "service_owner", "device", "managed_by", "zone",
    "outpost_arn",
)  # fmt: skip
_WHOLE: Final = ("size_gib", "shown_iops", "iops", "throughput_mib_s")
_FLAGS: Final = ("attached", "hidden", "multi_attached", "lacks_gp3")
_KEYS: Final = ("tags", "balance_pct", "count", *_WHOLE, *_TEXT, *_FLAGS)
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
_BUSY_EVERY: Final = 12
_IMPOSSIBLE: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What PyYAML makes of a date or a number that cannot be."""

_MOST_OF_A_KIND: Final = 100_000
_LONGEST_SHOWN: Final = 60
_LONGEST_SAID: Final = 600


class FleetFileError(BurstwatchError):
    """A fleet file that cannot be used; the message names the file, the entry and the value."""


def read_volumes(path: Path, starts_at: datetime) -> list[LabVolume]:
    """The volumes a YAML file declares under ``volumes``; ``count`` makes that many of one entry.

    Raises:
        FleetFileError: naming the entry and what may stand there.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FleetFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, *_IMPOSSIBLE) as error:
        raise FleetFileError(f"{path}: not YAML: {printable(str(error), _LONGEST_SAID)}") from error
    except RecursionError:
        raise FleetFileError(f"{path}: nested too deeply to be read; a fleet has four levels") from None
    entries = document.get("volumes") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise FleetFileError(f"{path}: it must hold a list `volumes` with at least one entry")
    return [
        volume
        for number, entry in enumerate(entries)
        for volume in _volumes(f"{path}: volumes[{number}]", entry, starts_at)
    ]


def mixed_volumes(number: int, *, seed: int, starts_at: datetime) -> list[LabVolume]:
    """Volumes of six sizes, mostly idle, every twelfth in the docker loop: a fleet as one finds it."""
    return [
        LabVolume(
            size_gib=_SIZES_GIB[(index + seed) % len(_SIZES_GIB)],
            load="docker-loop" if index % _BUSY_EVERY == 0 else _MIXTURE[(index + seed) % len(_MIXTURE)],
            tags={"Name": f"lab-{index}", "team": "lab"},
            starts_at=starts_at,
        )
        for index in range(number)
    ]


def traced_volumes(folder: Path, *, size_gib: int, scale: float, starts_at: datetime) -> list[LabVolume]:
    """A volume for each recording below a folder, named like it.

    Raises:
        FleetFileError: there is no recording.
        LoadError: a recording cannot be used.
    """
    found = sorted(folder.rglob("*.csv.gz"))
    if not found:
        raise FleetFileError(f"{folder}: no recording (*.csv.gz) below it")
    return [
        LabVolume(
            size_gib=size_gib,
            load=Changed(read_recording(path), scale),
            tags={"Name": path.name.removesuffix(".csv.gz")},
            starts_at=starts_at,
        )
        for path in found
    ]


def _volumes(where: str, entry: object, starts_at: datetime) -> Iterator[LabVolume]:
    if not isinstance(entry, Mapping):
        raise FleetFileError(
            f"{where} is {_shown(entry)}; it must be a mapping such as {{size_gib: 100, load: idle}}"
        )
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        stranger = printable(unknown[0], _LONGEST_SHOWN)
        raise FleetFileError(f"{where}.{stranger}: no such key; there are {', '.join(_KEYS)}")
    if "size_gib" not in entry:
        raise FleetFileError(f"{where}: size_gib is missing")
    given = {key: _value(f"{where}.{key}", key, value) for key, value in entry.items()}
    count = given.pop("count", 1)
    if count > _MOST_OF_A_KIND:
        raise FleetFileError(f"{where}.count is {_shown(count)}; it must be {_MOST_OF_A_KIND:,} at most")
    if count > 1 and "volume_id" in given:
        raise FleetFileError(f"{where}: count is {count} with one volume_id; leave one of them out")
    try:
        parse_load(given.get("load", "idle"))
        volume = LabVolume(starts_at=starts_at, **given)
    except (BurstwatchError, ValueError) as error:
        raise FleetFileError(f"{where}: {printable(str(error), _LONGEST_SAID)}") from error
    yield from [volume] * count


def _value(where: str, key: str, value: Any) -> Any:
    if key == "tags":
        return _tags(where, value)
    if key in (*_WHOLE, "count"):
        fits, wanted = (
            isinstance(value, int) and not isinstance(value, bool) and value > 0,
            "a whole number above 0",
        )
    elif key in _FLAGS:
        fits, wanted = isinstance(value, bool), "true or false"
    elif key == "balance_pct":
        fits, wanted = (
            isinstance(value, int | float) and not isinstance(value, bool),
            "a number from 0 to 100",
        )
    else:
        fits, wanted = isinstance(value, str), "text"
    if not fits:
        raise FleetFileError(f"{where} is {_shown(value)}; it must be {wanted}")
    return value


def _shown(value: object) -> str:
    """What stands in the file, by its kind where it holds more: aliases can make it endless."""
    said = f"a {type(value).__name__}" if isinstance(value, list | Mapping | set) else repr(value)
    return printable(said, _LONGEST_SHOWN)


def _tags(where: str, tags: object) -> dict[str, str]:
    if not isinstance(tags, Mapping):
        raise FleetFileError(f"{where} is {_shown(tags)}; it must be a mapping of text to text")
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise FleetFileError(
                f"{where}.{_shown(key)} is {_shown(value)}; it must be text: put it in quotes"
            )
    return dict(tags)
