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

_MOST: Final = 2**63 - 1
_MOST_GIB: Final = 1_000_000
_MOST_IOPS: Final = 1_000_000
_MOST_MIB_S: Final = 100_000
_MOST_USD: Final = 1e12
_LONGEST_SHOWN: Final = 40


def known_fields(document: Mapping[str, Any], readers: Mapping[str, Read]) -> dict[str, Any]:
    """The fields that have a reader: any other was added by a later version, which was rolled back."""
    return {name: readers[name](value) for name, value in document.items() if name in readers}


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
