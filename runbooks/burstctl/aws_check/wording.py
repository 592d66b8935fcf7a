"""AWS's messages without what is different each time, so that two runs can be compared."""

import re
from typing import Final

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VOLUME: Final = re.compile(r"vol-[0-9a-f]{8,17}")


def template_of(message: str) -> str:
    """The message with ``{until}`` for an instant and ``{volume}`` for the id of a volume."""
    return _VOLUME.sub("{volume}", _TIME.sub("{until}", message))


def time_in(message: str) -> str | None:
    """The instant that a message names, ISO 8601."""
    found = _TIME.search(message)
    return found[0] if found else None
