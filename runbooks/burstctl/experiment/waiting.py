"""Waits for minutes and hours, by any clock, until a person interrupts it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from burstctl.cli.signals import StopSignal
from burstwatch.wiring.settings import Clock

MAX_SLEEP_S: Final = {Clock.WALL: 60.0, Clock.ENDPOINT: 0.2}
"""A machine may sleep or have its clock set; an endpoint's time may run a thousand times as fast."""


class Interrupted(Exception):  # noqa: N818 - no error: a person wants to go on later
    """A signal came while it waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """Waits by ``clock``, in naps of at most ``max_sleep_s``."""

    clock: Callable[[], float]
    stop: StopSignal
    max_sleep_s: float

    def wait_until(self, at_s: float) -> None:
        """Wait until then; a moment that is over is not waited for.

        Raises:
            Stopped: a signal came.
        """
        while True:
            if self.stop.is_requested:
                raise Interrupted
            remaining_s = at_s - self.clock()
            if remaining_s <= 0:
                return
            self.stop.wait(min(remaining_s, self.max_sleep_s))
