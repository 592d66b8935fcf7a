import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Final

MAX_SPEED: Final = 1_000  # a real second is then 16 minutes; calls take too long for more


class LabClock:
    """Simulated time: ``start_at``, plus wall time since then times ``speed``, plus what was skipped by hand.

    Speed 0 is a clock that only moves by ``advance``, for tests.
    """

    def __init__(
        self,
        start_at: datetime | None = None,
        *,
        speed: float = 1,
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        start_at = start_at or datetime.now(UTC).replace(microsecond=0)
        if start_at.utcoffset() is None:
            raise ValueError(
                f"start_at is {start_at.isoformat()} without a time zone: give one, such as +00:00"
            )
        self._speed = _check_speed(speed)
        self._wall = wall
        self._base_s = start_at.timestamp()
        self._base_wall_s = wall()
        self._lock = Lock()

    @classmethod
    def manual(cls, start_at: datetime | None = None) -> "LabClock":
        return cls(start_at, speed=0)

    @property
    def speed(self) -> float:
        return self._speed

    def now_s(self) -> float:
        """Seconds since the epoch."""
        with self._lock:
            return self._now_s()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s(), tz=UTC)

    def advance(self, seconds: float) -> datetime:
        """Advance the clock and return the new time; time never goes back."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"cannot advance by {seconds} s: give a number of seconds, 0 or more")
        with self._lock:
            self._base_s += seconds
        return self.now()

    def set_speed(self, speed: float) -> None:
        checked = _check_speed(speed)
        with self._lock:
            self._base_s, self._base_wall_s = self._now_s(), self._wall()
            self._speed = checked

    def _now_s(self) -> float:
        return self._base_s + (self._wall() - self._base_wall_s) * self._speed


def _check_speed(speed: float) -> float:
    if speed != 0 and not 1 <= speed <= MAX_SPEED:
        raise ValueError(f"speed is {speed}: give 1 to {MAX_SPEED}, or 0 for a clock moved by hand")
    return speed
