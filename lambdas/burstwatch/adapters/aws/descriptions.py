"""Reading what AWS describes: each description on its own, so that one that is unreadable hides no other.

The readers of the services share these functions. An optional value that is invalid counts as absent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from burstwatch.adapters.aws.errors import AwsFailure, FailureKind
from burstwatch.core.text import sanitise

Description: TypeAlias = Mapping[str, Any]
FailureCallback: TypeAlias = Callable[[str, AwsFailure], None]
"""Takes the ID of a resource that could not be read, and the failure; other resources are not affected."""

EPOCH: Final = datetime.fromtimestamp(0, UTC)

_MAX_INTEGER: Final = 2**31 - 1
"""The largest number that an integer of AWS holds."""
_MAX_LONG: Final = 2**63 - 1
MAX_ID_CHARS: Final = 64
"""No ID or type of these resources is longer. The ledger uses IDs as keys."""
_ID: Final = re.compile(r'[ -"$-~]+')
"""Printable ASCII without #, which may separate parts of a key."""
_MAX_SHOWN_CHARS: Final = 80  # Keeps the quoted value from hiding the rest of the message.
_Read = TypeVar("_Read")


class ResourceKind(NamedTuple):
    """How messages name a resource, the key of its ID, and the aws-cli command that shows all of them."""

    noun: str
    id_key: str
    command: str


def batches(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The IDs in groups of at most ``size``."""
    return (ids[offset : offset + size] for offset in range(0, len(ids), size))


def parse_each(
    descriptions: Iterable[Description],
    parse: Callable[[Description], _Read],
    action: str,
    report_failure: FailureCallback,
    kind: ResourceKind,
) -> Iterator[_Read]:
    """Parse each description; those that cannot be parsed are reported one by one."""
    for description in descriptions:
        try:
            value = parse(require_mapping(description))
        except (KeyError, ValueError) as error:
            reason = f"AWS's answer has no {error}" if isinstance(error, KeyError) else str(error)
            failure = AwsFailure(
                kind=FailureKind.BROKEN,
                code=f"Unreadable{kind.noun.title().replace(' ', '')}",
                message=reason,
                next_step=f"it is not watched until this is fixed, see `{kind.command}`",
                action=action,
            )
            raw_id = description.get(kind.id_key) if isinstance(description, Mapping) else None
            shown_id = sanitise(raw_id, MAX_ID_CHARS) if isinstance(raw_id, str) else ""
            article = "an" if kind.noun[0] in "aeiou" else "a"
            report_failure(shown_id or f"({article} {kind.noun} without id)", failure)
        else:
            yield value


def read_id(description: Description, key: str) -> str:
    """The ID below this key; invalid text must not become a key of the ledger.

    Raises:
        KeyError: there is no ID.
        ValueError: the ID is invalid.
    """
    resource_id = read_required(description, key, read_string)
    if len(resource_id) > MAX_ID_CHARS or not _ID.fullmatch(resource_id):
        raise ValueError(f"its {key} is {quote(resource_id)}")
    return resource_id


def read_tags(description: Description, key: str = "Tags") -> dict[str, str]:
    """The tags below ``key``; those that are not text are left out."""
    pairs = ((tag.get("Key"), tag.get("Value", "")) for tag in read_mappings(description, key))
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}


def to_utc(value: Any) -> datetime | None:
    """The instant in UTC; None if the value is not an instant."""
    try:
        return value.astimezone(UTC) if isinstance(value, datetime) else None
    except OverflowError:  # in its own zone it is of the year 1 or 9999
        return None


def require_mapping(value: Any) -> Description:
    """The value, if it is a mapping; ValueError if not."""
    if not isinstance(value, Mapping):
        raise ValueError(f"it is described as {quote(value)}")  # noqa: TRY004 - one kind of fault of many
    return value


def read_required(
    description: Description, name: str, read: Callable[[Description, str], _Read | None]
) -> _Read:
    """Read a required value.

    Raises:
        KeyError: it is missing.
        ValueError: it is invalid.
    """
    value = read(description, name)
    if value is None:
        raise ValueError(f"its {name} is {quote(description[name])}")
    return value


def read_string(description: Description, name: str) -> str | None:
    """The text below a name; None if it is absent, empty or not text."""
    value = description.get(name)
    return value if isinstance(value, str) and value else None


def read_integer(description: Description, name: str) -> int | None:
    """The whole number below a name, 0 or more; None if it is absent or invalid."""
    value = description.get(name)
    return value if isinstance(value, int) and is_valid_number(value) else None


def read_limit(description: Description, name: str) -> int | None:
    """The same of a limit, which AWS may send as 0 if it does not apply: that is not a limit of 0."""
    return read_integer(description, name) or None


def read_long(description: Description, name: str) -> int | None:
    """The same of a number that may be larger, such as one of bytes."""
    value = description.get(name)
    return value if isinstance(value, int) and is_valid_number(value, _MAX_LONG) else None


def is_valid_number(value: Any, maximum: int = _MAX_INTEGER) -> bool:
    """Whether it is a number from 0 to ``maximum``."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= maximum


def read_nested(description: Description, name: str) -> Description:
    """The mapping below a name; an empty one if the value is not a mapping."""
    value = description.get(name)
    return value if isinstance(value, Mapping) else {}


def read_mappings(description: Description, name: str) -> list[Description]:
    """The elements of a list that are mappings: botocore does not check the types in a JSON response."""
    entries = description.get(name)
    return (
        [entry for entry in entries if isinstance(entry, Mapping)]
        if isinstance(entries, list | tuple)
        else []
    )


def quote(value: Any) -> str:
    """The value as part of a message."""
    return sanitise(repr(value), _MAX_SHOWN_CHARS)
