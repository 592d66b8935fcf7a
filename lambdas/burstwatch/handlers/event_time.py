"""When an event was scheduled, and what the present time is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise
from burstwatch.wiring.function_settings import FunctionClock

LATE_AFTER_S: Final = 120
"""An older event only settles open modifications: EventBridge Scheduler may retry an event for hours.

Source: the EventBridge Scheduler API reference, RetryPolicy (up to 24 hours).
"""

_SCHEDULER_PLACEHOLDER: Final = "<aws.scheduler."
_MAX_SHOWN_CHARS: Final = 60  # an event is text from outside; a log line quotes its beginning
_MAX_TIMESTAMP_S: Final = 32_503_680_000
"""The year 3000: a later instant is invalid."""


class EventError(BurstwatchError):
    """An event is invalid; the message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The times of an event, in seconds since the epoch.

    ``now_s`` is the present time for the function, ``scheduled_at_s`` the time for which the event was
    scheduled. ``problem`` is a fault of the event's time that has no consequences.
    """

    now_s: float
    scheduled_at_s: float
    problem: str | None = None

    @property
    def late_s(self) -> float:
        return max(0.0, self.now_s - self.scheduled_at_s)

    @property
    def is_late(self) -> bool:
        return self.late_s > LATE_AFTER_S

    @classmethod
    def from_event(cls, event: Mapping[str, Any], clock: FunctionClock, wall_s: float) -> Self:
        """The times of an event; with the event's clock, its time is the present time.

        Raises:
            EventError: it has no time, or an invalid one.
        """
        value = event.get("time")
        if (
            clock is FunctionClock.WALL
            and isinstance(value, str)
            and value.startswith(_SCHEDULER_PLACEHOLDER)
        ):
            problem = f"time is {_quote(value)}, which Scheduler did not fill in: taken as now"
            return cls(now_s=wall_s, scheduled_at_s=wall_s, problem=problem)
        scheduled_at_s = parse_instant(value)
        return cls(
            now_s=scheduled_at_s if clock is FunctionClock.EVENT else wall_s, scheduled_at_s=scheduled_at_s
        )


def parse_instant(value: Any) -> float:
    """Parse an instant in ISO 8601 to seconds since the epoch.

    Raises:
        EventError: it is not an instant, has no time zone, or is not between 1970 and 3000.
    """
    try:
        instant = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise EventError(f"time is {_quote(value)}, not an instant in ISO 8601") from error
    if instant.tzinfo is None:
        raise EventError(f"time is {_quote(value)}, which has no time zone: write it in UTC, with a Z")
    at_s = instant.timestamp()
    if not 0 <= at_s < _MAX_TIMESTAMP_S:
        raise EventError(f"time is {_quote(value)}, which is not a plausible time: write when it happened")
    return at_s


def _quote(value: Any) -> str:
    return sanitise(repr(value), _MAX_SHOWN_CHARS)
