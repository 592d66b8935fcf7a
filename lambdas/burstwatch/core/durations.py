"""Durations as people write them in a policy or an option: ``15m``, ``6h``."""

import re
from datetime import timedelta
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
_UNIT_SECONDS: Final = {"s": 1, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S}
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")


def format_duration_literal(duration: timedelta) -> str:
    """The shortest text that parses to the same duration: ``90m``, ``2h``, ``45s``. Whole seconds only."""
    seconds = int(duration.total_seconds())
    unit = next(u for u in ("d", "h", "m", "s") if seconds % _UNIT_SECONDS[u] == 0)
    return f"{seconds // _UNIT_SECONDS[unit]}{unit}"


def parse_duration(text: str) -> timedelta:
    """Parse ``15m``, ``6h``, ``30s`` or ``2d``: a whole number of at most six digits and a unit.

    Raises:
        ValueError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a valid duration; write a whole number and s, m, h or d, such as 15m"
        )
    return timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]])
