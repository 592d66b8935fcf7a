"""AWS's messages without what is different each time, so that two runs can be compared."""

import re
from typing import Final

_TIME_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VOLUME_PATTERN: Final = re.compile(r"vol-[0-9a-f]{8,17}")


def to_template(message: str) -> str:
    """The message with ``{until}`` for an instant and ``{volume}`` for the id of a volume."""
    return _VOLUME_PATTERN.sub("{volume}", _TIME_PATTERN.sub("{until}", message))


def find_time(message: str) -> str | None:
    """The instant (ISO 8601) in a message."""
    time_match = _TIME_PATTERN.search(message)
    return time_match[0] if time_match else None
