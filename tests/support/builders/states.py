"""States of volumes as tests like to write them: each field by its own name, whichever group has it."""

from dataclasses import replace

from burstwatch.core.ledger.resource_state import (
    AlertHistory,
    LastReading,
    ModificationHistory,
    Presence,
    ResourceState,
)

GROUPS = {
    "reading": LastReading,
    "presence": Presence,
    "alerts": AlertHistory,
    "modifications": ModificationHistory,
}
GROUP_OF_FIELD = {name: group for group, kind in GROUPS.items() for name in kind.__dataclass_fields__}


def grouped(fields):
    """The same fields, those of a group in a mapping under its name."""
    result = {}
    for name, value in fields.items():
        if name in GROUP_OF_FIELD:
            result.setdefault(GROUP_OF_FIELD[name], {})[name] = value
        else:
            result[name] = value
    return result


def with_fields(state, **fields) -> ResourceState:
    """The state with other values of these fields: ``with_fields(state, balance_pct=3.0)``."""
    changes = grouped(fields)
    groups = {
        name: replace(getattr(state, name), **changes.pop(name)) for name in GROUPS.keys() & changes.keys()
    }
    return replace(state, **changes, **groups)


def build_state(volume_id, revision, **fields) -> ResourceState:
    return with_fields(ResourceState(volume_id=volume_id, revision=revision), **fields)


def field_of(state, name):
    """The value of a field, whichever group has it."""
    return getattr(getattr(state, GROUP_OF_FIELD[name]) if name in GROUP_OF_FIELD else state, name)
