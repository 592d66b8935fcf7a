"""Values that come back from where they were stored: what no version of burstwatch writes is refused.

Each reader takes one value as JSON or a table has it, and gives it back or raises one of ``UNREADABLE``. The
limits are far beyond what AWS allows, so that they catch damage, and not next year's larger volumes.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

Read: TypeAlias = Callable[[Any], Any]

UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading back a document raises where it is not one that any version wrote."""

FARTHEST_S: Final = 253_402_300_800
"""The end of the year 9999."""

SAME_NAMES: Final[Mapping[str, str]] = {}
"""Every key of the document is the name of its field."""

_MOST: Final = 2**63 - 1
_MOST_GIB: Final = 1_000_000
_MOST_IOPS: Final = 1_000_000
_MOST_MIB_S: Final = 100_000
_MOST_USD: Final = 1e12
_LONGEST_SHOWN: Final = 40


def known_fields(
    document: Mapping[str, Any], readers: Mapping[str, Read], field_names: Mapping[str, str] = SAME_NAMES
) -> dict[str, Any]:
    """The fields of a document that have a reader, by the name of the field.

    A key without a reader was added by a later version, which was rolled back. ``field_names`` has the name
    of the field for each key that is stored under another name: keys stay as the first version wrote them.
    """
    return {
        field_names.get(key, key): readers[key](value) for key, value in document.items() if key in readers
    }


def stored_fields(
    value: object, readers: Mapping[str, Read], field_names: Mapping[str, str] = SAME_NAMES
) -> dict[str, Any]:
    """The inverse of ``known_fields``: every field of a value, by the key that it is stored under."""
    return {key: getattr(value, field_names.get(key, key)) for key in readers}


def without_defaults(
    document: Mapping[str, Any], defaults: Mapping[str, Any], field_names: Mapping[str, str] = SAME_NAMES
) -> dict[str, Any]:
    """A document of ``stored_fields`` without what has its default."""
    return {
        key: value for key, value in document.items() if value != defaults.get(field_names.get(key, key), ...)
    }


def instant(value: Any) -> Any:
    """Seconds since 1970, up to the year 9999."""
    if type(value) in _NUMBERS and 0 <= value < FARTHEST_S:
        return value
    raise _refused(value, "an instant from 1970 to 9999")


def whole(value: Any) -> int:
    """A count or a revision."""
    if type(value) is int and 0 <= value <= _MOST:
        return value
    raise _refused(value, "a whole number from 0")


def number(value: Any) -> Any:
    """A finite number of dollars or seconds."""
    if type(value) in _NUMBERS and isfinite(value) and abs(value) <= _MOST_USD:
        return value
    raise _refused(value, "a number")


def percentage(value: Any) -> Any:
    """A balance; rounding may have put it slightly outside of 0 to 100."""
    if type(value) in _NUMBERS and -1 <= value <= 101:  # noqa: PLR2004 - as said
        return value
    raise _refused(value, "a percentage")


def text(value: Any) -> str:
    """Any text."""
    if type(value) is str:
        return value
    raise _refused(value, "text")


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is bool:
        return value
    raise _refused(value, "true or false")


def mapping(value: Any) -> Mapping[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise _refused(value, "an object")


def size_gib(value: Any) -> int:
    """The size of a volume."""
    return _up_to(value, _MOST_GIB, "the size of a volume in GiB")


def iops(value: Any) -> int:
    """What a volume can be provisioned with."""
    return _up_to(value, _MOST_IOPS, "a number of IOPS")


def throughput(value: Any) -> int:
    """What a volume can be provisioned with, in MiB/s."""
    return _up_to(value, _MOST_MIB_S, "a throughput in MiB/s")


def or_none(read: Read) -> Read:
    """The same reader, which also takes null."""
    return lambda value: None if value is None else read(value)


def _up_to(value: Any, most: int, says: str) -> int:
    if type(value) is int and 1 <= value <= most:
        return value
    raise _refused(value, f"{says}, 1 to {most}")


_NUMBERS: Final = frozenset({int, float})


def _refused(value: Any, says: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{shown[:_LONGEST_SHOWN]} is not {says}")
