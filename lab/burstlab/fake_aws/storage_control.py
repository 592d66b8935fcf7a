"""The lab's own HTTP surface for file systems and databases, below ``/_lab/``.

A POST names one resource, and what is to change: any of the keys of ``_FILE_SYSTEM_CHANGES`` or
``_DATABASE_CHANGES``. The answer is the resource as it then is, with what CloudWatch does not show.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from burstlab.model.database import STORAGE, SimulatedDatabase
from burstlab.model.file_system import SimulatedFileSystem
from burstlab.model.fleet import LabFleet
from burstlab.model.metered_resource import MeteredResource


def list_file_systems(fleet: LabFleet) -> list[dict[str, Any]]:
    """Every file system as it is now."""
    with fleet.lock:
        return [
            _file_system_document(fleet.file_systems.find(item.resource_id)) for item in fleet.file_systems
        ]


def list_databases(fleet: LabFleet) -> list[dict[str, Any]]:
    """Every database as it is now."""
    with fleet.lock:
        return [_database_document(fleet.databases.find(item.identifier)) for item in fleet.databases]


def change_file_system(fleet: LabFleet, request: Mapping[str, Any]) -> dict[str, Any]:
    """Change a file system.

    Raises:
        KeyError: the ID is missing.
        BurstwatchError: there is no such file system.
        ValueError: a key is not known, or a value is wrong.
    """
    with fleet.lock:
        file_system_id = request["file_system_id"]
        for key, value in _changes(request, "file_system_id", _FILE_SYSTEM_CHANGES):
            _FILE_SYSTEM_CHANGES[key](fleet, file_system_id, value)
        return _file_system_document(fleet.file_systems.find(file_system_id))


def change_database(fleet: LabFleet, request: Mapping[str, Any]) -> dict[str, Any]:
    """Change a database; ``new_identifier`` comes last. It raises what ``change_file_system`` raises."""
    with fleet.lock:
        identifier = request["identifier"]
        for key, value in _changes(request, "identifier", _DATABASE_CHANGES):
            _DATABASE_CHANGES[key](fleet, identifier, value)
        return _database_document(fleet.databases.find(request.get("new_identifier", identifier)))


_Change = Callable[[LabFleet, str, Any], None]

_FILE_SYSTEM_CHANGES: Final[Mapping[str, _Change]] = {
    "load": lambda fleet, key, value: fleet.file_systems.set_load(key, str(value)),
    "balance_pct": lambda fleet, key, value: fleet.file_systems.set_balance(key, float(value)),
    "size_gib": lambda fleet, key, value: fleet.file_systems.set_size(key, float(value)),
    "hide_s": lambda fleet, key, value: _hide(fleet.file_systems.find(key), float(value)),
}

_DATABASE_CHANGES: Final[Mapping[str, _Change]] = {
    "load": lambda fleet, key, value: fleet.databases.set_load(key, str(value)),
    "balance_pct": lambda fleet, key, value: fleet.databases.set_balance(key, float(value), STORAGE),
    "free_gib": lambda fleet, key, value: fleet.databases.find(key).set_free(float(value)),
    "running": lambda fleet, key, value: fleet.databases.set_running(key, running=value is True),
    "hide_s": lambda fleet, key, value: _hide(fleet.databases.find(key), float(value)),
    "new_identifier": lambda fleet, key, value: fleet.databases.rename(key, str(value)),
}
"""What may change, in the order in which it is done."""


def _changes(request: Mapping[str, Any], id_key: str, known: Mapping[str, _Change]) -> list[tuple[str, Any]]:
    if unknown := sorted(request.keys() - known.keys() - {id_key}):
        raise ValueError(f"{unknown[0]} cannot be changed: give some of {', '.join(known)}")
    return [(key, request[key]) for key in known if key in request]


def _hide(resource: MeteredResource, seconds: float) -> None:
    """A telemetry gap from now on."""
    resource.gaps.append((resource.at_s, resource.at_s + seconds))


def _file_system_document(file_system: SimulatedFileSystem) -> dict[str, Any]:
    return {
        "file_system_id": file_system.resource_id,
        "tags": file_system.tags,
        "throughput_mode": file_system.mode,
        "state": file_system.state,
        "standard_bytes": file_system.standard_bytes,
        "balance_bytes": file_system.balance_bytes,
        **_truth(file_system),
    }


def _database_document(database: SimulatedDatabase) -> dict[str, Any]:
    return {
        "identifier": database.identifier,
        "resource_id": database.resource_id,
        "tags": database.tags,
        "status": database.status,
        "storage_type": database.facts.storage_type,
        "allocated_gib": database.facts.allocated_gib,
        **_truth(database),
    }


def _truth(resource: MeteredResource) -> dict[str, Any]:
    return {
        "demand_per_s": resource.demand_per_s,
        "served_per_s": resource.served_per_s,
        "throttled_s": resource.throttled_s,
        "buckets": {
            name: {
                "balance_pct": pool.balance_pct,
                "first_empty_at": _iso(pool.first_empty_at_s),
                "empty_since": _iso(pool.empty_since_s),
            }
            for name, pool in resource.pools.items()
        },
    }


def _iso(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, tz=UTC).isoformat()
