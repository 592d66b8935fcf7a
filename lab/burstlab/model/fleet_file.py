"""Fleets to serve: read from a YAML file, or mixed from typical volumes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from burstlab.model.instances.instance import LabInstance
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.loads.load import ScaledLoad
from burstlab.model.loads.load_parser import parse_load
from burstlab.model.loads.load_recording import read_recording
from burstlab.model.volume import LabVolume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

_TEXT_KEYS: Final = (
    "load", "volume_id", "volume_type", "instance_id", "service_owner", "device", "managed_by", "zone",
    "outpost_arn",
)  # fmt: skip
_PERCENT_KEYS: Final = ("balance_pct", "io_pct", "byte_pct")
_INTEGER_KEYS: Final = ("size_gib", "shown_iops", "iops", "throughput_mib_s")
_VOLUME_FLAG_KEYS: Final = ("attached", "hidden", "multi_attached", "lacks_gp3")
_FLAG_KEYS: Final = (*_VOLUME_FLAG_KEYS, "detailed_monitoring")
_KEYS: Final = (
    "tags", "balance_pct", "count", *_INTEGER_KEYS, *_TEXT_KEYS, *_VOLUME_FLAG_KEYS, "instance_ids",
)  # fmt: skip
_INSTANCE_KEYS: Final = (
    "tags", "io_pct", "byte_pct", "count", "instance_id", "instance_type", "state", "detailed_monitoring",
    "volumes",
)  # fmt: skip
_INSTANCE_AGE: Final = timedelta(days=30)
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


class FleetDefinition(NamedTuple):
    """The instances that are declared, and the volumes, also on instances that are not."""

    instances: list[LabInstance]
    volumes: list[LabVolume]


def read_fleet(path: Path, starts_at: datetime) -> FleetDefinition:
    """What a YAML file declares under ``instances`` and ``volumes``; ``count`` makes that many of one entry.

    An instance may have ``volumes`` of its own, of which each copy of it gets the same.

    Raises:
    FleetFileError: with the entry and what is accepted there.
    """
    document = load_document(path)
    fleet = FleetDefinition([], [])
    for number, entry in enumerate(_get_list(document, "instances")):
        _add_instances(f"{path}: instances[{number}]", entry, starts_at, fleet)
    for number, entry in enumerate(_get_list(document, "volumes")):
        fleet.volumes.extend(_parse_volume(f"{path}: volumes[{number}]", entry, starts_at))
    if not fleet.volumes and not declares_storage(document):
        raise FleetFileError(f"{path}: it must hold a list `volumes` with at least one entry")
    return fleet


def put_on_instances(
    volumes: Sequence[LabVolume], *, per_instance: int, instance_type: str, starts_at: datetime
) -> FleetDefinition:
    """Instances of one type, each with this many of the volumes."""
    instances = [
        LabInstance(
            instance_id=f"i-0{number:016x}",
            launched_at=starts_at - _INSTANCE_AGE,
            instance_type=instance_type,
            tags={"Name": f"lab-{number}"},
        )
        for number in range(-(-len(volumes) // per_instance))
    ]
    placed = [
        replace(volume, instance_id=instances[number // per_instance].instance_id)
        for number, volume in enumerate(volumes)
    ]
    return FleetDefinition(instances, placed)


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


def _get_list(document: object, name: str) -> list[object]:
    entries = document.get(name) if isinstance(document, Mapping) else None
    return entries if isinstance(entries, list) else []


def _add_instances(path: str, entry: object, starts_at: datetime, fleet: FleetDefinition) -> None:
    fields = _parse_fields(path, entry, _INSTANCE_KEYS, "{instance_type: m5.large, volumes: [...]}")
    count, volume_entries = fields.pop("count", 1), fields.pop("volumes", [])
    _check_count(path, count, fields.get("instance_id"), "instance_id")
    instance_type = fields.get("instance_type")
    if instance_type is not None and instance_type not in instance_types():
        raise FleetFileError(
            f"{path}.instance_type is {format_value(instance_type)}, which EC2 does not have; see `aws ec2 "
            "describe-instance-types`"
        )
    for _ in range(count):
        instance_id = fields.get("instance_id", f"i-0{len(fleet.instances) + 1:016x}")
        if any(instance_id == known.instance_id for known in fleet.instances if "instance_id" in fields):
            raise FleetFileError(f"{path}: there is an instance {format_value(instance_id)} already")
        try:
            instance = LabInstance(
                **{"tags": {}, **fields, "instance_id": instance_id},
                launched_at=starts_at - _INSTANCE_AGE,
            )
        except ValueError as error:
            raise FleetFileError(f"{path}: {sanitise(str(error), _MAX_ERROR_CHARS)}") from error
        fleet.instances.append(instance)
        if len(fleet.volumes) > _MAX_COUNT:
            raise FleetFileError(f"{path}: more than {_MAX_COUNT:,} volumes; give a lower count")
        for number, volume_entry in enumerate(volume_entries):
            where = f"{path}.volumes[{number}]"
            if isinstance(volume_entry, Mapping) and {"instance_id", "instance_ids"} & volume_entry.keys():
                raise FleetFileError(f"{where}: it is on this instance; leave instance_id out")
            volumes = _parse_volume(where, volume_entry, starts_at)
            fleet.volumes.extend(replace(volume, instance_id=instance_id) for volume in volumes)


def _parse_volume(path: str, entry: object, starts_at: datetime) -> Iterator[LabVolume]:
    fields = _parse_fields(path, entry, _KEYS, "{size_gib: 100, load: idle}")
    if "size_gib" not in fields:
        raise FleetFileError(f"{path}: size_gib is missing")
    count = fields.pop("count", 1)
    _check_count(path, count, fields.get("volume_id"), "volume_id")
    try:
        parse_load(fields.get("load", "idle"))
        volume = LabVolume(starts_at=starts_at, **fields)
    except (BurstwatchError, ValueError) as error:
        raise FleetFileError(f"{path}: {sanitise(str(error), _MAX_ERROR_CHARS)}") from error
    yield from [volume] * count


def _parse_fields(path: str, entry: object, known: Sequence[str], example: str) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise FleetFileError(f"{path} is {format_value(entry)}; it must be a mapping such as {example}")
    unknown = [str(key) for key in entry if key not in known]
    if unknown:
        unknown_key = sanitise(unknown[0], _MAX_VALUE_CHARS)
        raise FleetFileError(f"{path}.{unknown_key}: no such key; there are {', '.join(known)}")
    return {key: _check_value(f"{path}.{key}", key, value) for key, value in entry.items()}


def _check_count(path: str, count: int, resource_id: str | None, name: str) -> None:
    if count > _MAX_COUNT:
        raise FleetFileError(f"{path}.count is {format_value(count)}; it must be {_MAX_COUNT:,} at most")
    if count > 1 and resource_id is not None:
        raise FleetFileError(f"{path}: count is {count} with one {name}; leave one of them out")


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
    elif key in _PERCENT_KEYS:
        is_valid, expected = (
            isinstance(value, int | float) and not isinstance(value, bool),
            "a number from 0 to 100",
        )
    elif key == "volumes":
        is_valid, expected = isinstance(value, list), "a list of volumes"
    elif key == "instance_ids":
        is_valid = isinstance(value, list) and all(isinstance(item, str) for item in value)
        expected = "a list of text"
    else:
        is_valid, expected = isinstance(value, str), "text"
    if not is_valid:
        raise FleetFileError(f"{path} is {format_value(value)}; it must be {expected}")
    return tuple(value) if key == "instance_ids" else value


def format_value(value: object) -> str:
    """The value as text; only the type of a collection, because aliases can make it endless."""
    text = f"a {type(value).__name__}" if isinstance(value, list | Mapping | set) else repr(value)
    return sanitise(text, _MAX_VALUE_CHARS)


def _check_tags(path: str, tags: object) -> dict[str, str]:
    if not isinstance(tags, Mapping):
        raise FleetFileError(f"{path} is {format_value(tags)}; it must be a mapping of text to text")
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise FleetFileError(
                f"{path}.{format_value(key)} is {format_value(value)}; it must be text: put it in quotes"
            )
    return dict(tags)
