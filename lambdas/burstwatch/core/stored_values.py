"""Values that come back from where they were stored: what no version of burstwatch writes is refused.

Each reader takes one value as JSON or a table has it, and gives it back or raises one of ``DECODE_ERRORS``.
The limits are far beyond what AWS allows, so that they catch damage, and not next year's larger volumes.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

FieldReader: TypeAlias = Callable[[Any], Any]

DECODE_ERRORS: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading back a document raises where it is not one that any version wrote."""

MAX_INSTANT_S: Final = 253_402_300_800
"""The end of the year 9999."""

SAME_NAMES: Final[Mapping[str, str]] = {}
"""Every key of the document is the name of its field."""

_MAX_INTEGER: Final = 2**63 - 1
_MAX_GIB: Final = 1_000_000
_MAX_IOPS: Final = 1_000_000
_MAX_MIB_S: Final = 100_000
_MAX_NUMBER: Final = 1e18
"""Far above the credits of a file system of petabytes, in bytes."""
_MAX_SHOWN_CHARS: Final = 40


def read_known_fields(
    document: Mapping[str, Any],
    readers: Mapping[str, FieldReader],
    field_names: Mapping[str, str] = SAME_NAMES,
) -> dict[str, Any]:
    """The fields of a document that have a reader, by the name of the field.

    A key without a reader was added by a later version, which was rolled back. ``field_names`` has the name
    of the field for each key that is stored under another name: keys stay as the first version wrote them.
    """
    return {
        field_names.get(key, key): readers[key](value) for key, value in document.items() if key in readers
    }


def stored_fields(
    value: object, readers: Mapping[str, FieldReader], field_names: Mapping[str, str] = SAME_NAMES
) -> dict[str, Any]:
    """The inverse of ``read_known_fields``: every field of a value, by the key that it is stored under."""
    return {key: getattr(value, field_names.get(key, key)) for key in readers}


def without_defaults(
    document: Mapping[str, Any], defaults: Mapping[str, Any], field_names: Mapping[str, str] = SAME_NAMES
) -> dict[str, Any]:
    """A document of ``stored_fields`` without what has its default."""
    return {
        key: value for key, value in document.items() if value != defaults.get(field_names.get(key, key), ...)
    }


def read_instant(value: Any) -> Any:
    """Seconds since 1970, up to the year 9999."""
    if type(value) in _NUMBER_TYPES and 0 <= value < MAX_INSTANT_S:
        return value
    raise _invalid_value(value, "an instant from 1970 to 9999")


def read_count(value: Any) -> int:
    """A count or a revision."""
    if type(value) is int and 0 <= value <= _MAX_INTEGER:
        return value
    raise _invalid_value(value, "a whole number from 0")


def read_number(value: Any) -> Any:
    """A finite number of dollars, seconds or credits."""
    if type(value) in _NUMBER_TYPES and isfinite(value) and abs(value) <= _MAX_NUMBER:
        return value
    raise _invalid_value(value, "a number")


def read_percentage(value: Any) -> Any:
    """A balance; rounding may have put it slightly outside of 0 to 100."""
    if type(value) in _NUMBER_TYPES and -1 <= value <= 101:  # noqa: PLR2004 - as said
        return value
    raise _invalid_value(value, "a percentage")


def read_text(value: Any) -> str:
    """Any text."""
    if type(value) is str:
        return value
    raise _invalid_value(value, "text")


def read_bool(value: Any) -> bool:
    """True or false."""
    if type(value) is bool:
        return value
    raise _invalid_value(value, "true or false")


def read_mapping(value: Any) -> Mapping[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise _invalid_value(value, "an object")


def read_size_gib(value: Any) -> int:
    """The size of a volume."""
    return _read_up_to(value, _MAX_GIB, "the size of a volume in GiB")


def read_iops(value: Any) -> int:
    """What a volume can be provisioned with."""
    return _read_up_to(value, _MAX_IOPS, "a number of IOPS")


def read_throughput(value: Any) -> int:
    """What a volume can be provisioned with, in MiB/s."""
    return _read_up_to(value, _MAX_MIB_S, "a throughput in MiB/s")


def or_none(read: FieldReader) -> FieldReader:
    """The same reader, which also takes null."""
    return lambda value: None if value is None else read(value)


def _read_up_to(value: Any, maximum: int, expected: str) -> int:
    if type(value) is int and 1 <= value <= maximum:
        return value
    raise _invalid_value(value, f"{expected}, 1 to {maximum}")


_NUMBER_TYPES: Final = frozenset({int, float})


def _invalid_value(value: Any, expected: str) -> ValueError:
    value_text = repr(value)
    return ValueError(f"{value_text[:_MAX_SHOWN_CHARS]} is not {expected}")
