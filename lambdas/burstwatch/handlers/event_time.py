"""When an event was meant to happen, and what *now* is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import printable
from burstwatch.wiring.function_settings import FunctionClock

LATE_AFTER_S: Final = 120
"""An event older than this only settles what is open."""

_PLACEHOLDER: Final = "<aws.scheduler."
_LONGEST_SHOWN: Final = 60
_FARTHEST_S: Final = 32_503_680_000
"""The year 3000."""


class EventError(BurstwatchError):
    """An event that the function cannot make sense of; the message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """``now_s`` is the time to go by, ``meant_s`` when the event was due.

    ``trouble`` is what was wrong with the time in the event, and did not matter.
    """

    now_s: float
    meant_s: float
    trouble: str | None = None

    @property
    def late_s(self) -> float:
        return max(0.0, self.now_s - self.meant_s)

    @property
    def is_late(self) -> bool:
        return self.late_s > LATE_AFTER_S

    @classmethod
    def of(cls, event: Mapping[str, Any], clock: FunctionClock, wall_s: float) -> Self:
        """The timing of an event; by the event's clock its time is now.

        Raises:
            EventError: it has no time, or one that is none.
        """
        said = event.get("time")
        if clock is FunctionClock.WALL and isinstance(said, str) and said.startswith(_PLACEHOLDER):
            trouble = f"time is {_shown(said)}, which Scheduler did not fill in: taken as now"
            return cls(now_s=wall_s, meant_s=wall_s, trouble=trouble)
        meant_s = parse_instant(said)
        return cls(now_s=meant_s if clock is FunctionClock.EVENT else wall_s, meant_s=meant_s)


def parse_instant(said: Any) -> float:
    """Seconds since 1970 of an instant in ISO 8601.

    Raises:
        EventError: it is no instant, one without a time zone, or one of another age.
    """
    try:
        at = datetime.fromisoformat(said)
    except (TypeError, ValueError) as error:
        raise EventError(f"time is {_shown(said)}, not an instant in ISO 8601") from error
    if at.tzinfo is None:
        raise EventError(f"time is {_shown(said)}, which has no time zone: write it in UTC, with a Z")
    at_s = at.timestamp()
    if not 0 <= at_s < _FARTHEST_S:
        raise EventError(f"time is {_shown(said)}, which is no time of this age: write when it happened")
    return at_s


def _shown(said: Any) -> str:
    return printable(repr(said), _LONGEST_SHOWN)
