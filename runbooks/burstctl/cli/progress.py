"""A progress bar for long passes."""

import os
import sys
from threading import Lock, Timer
from typing import TYPE_CHECKING, Final

from burstwatch.adapters.notify.channel import AlertChannel
from burstwatch.core.alerts.alert import Alert

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_S: Final = 2.0
"""A pass that is over sooner needs no bar."""


class ProgressBar:
    """Shows the progress of a pass on stderr if that is a terminal; with NO_COLOR nothing is drawn.

    It counts volumes, or another ``unit``. One that is not shown is for work that is part of other work.
    """

    def __init__(
        self, unit: str = "volumes", *, is_shown: bool = True, show_after_s: float = SHOW_AFTER_S
    ) -> None:
        self._unit = unit
        self._is_shown = is_shown
        self._show_after_s = show_after_s
        self._lock = Lock()
        self._timer: Timer | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._done = 0
        self._total: int | None = None
        self._activity = ""

    def begin(self, activity: str = "looking") -> None:
        """A pass begins; the bar comes if it is not over soon, and says what is being done."""
        self._done, self._total, self._activity = 0, None, activity
        if self._is_shown and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            self._timer = Timer(self._show_after_s, self._show)
            self._timer.daemon = True
            self._timer.start()

    def report(self, done: int, total: int) -> None:
        """Set the number of volumes that are done."""
        with self._lock:
            self._done, self._total = done, total
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=done, total=total, description=self._describe())

    def end(self) -> None:
        """The pass is over, or something else is to be written; ending twice does no harm."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - most passes are over before
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn())
        with self._lock:
            if self._timer is None:
                return
            self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._bar.add_task(self._describe(), completed=self._done, total=self._total)
            self._bar.start()

    def _describe(self) -> str:
        return self._activity if self._total is None else f"{self._done:,} of {self._total:,} {self._unit}"


class ProgressAwareChannel:
    """A channel to the terminal, where an alert and the bar must not write over each other."""

    def __init__(self, channel: AlertChannel, progress: ProgressBar) -> None:
        self._channel = channel
        self._progress = progress

    @property
    def name(self) -> str:
        return self._channel.name

    def send(self, alert: Alert) -> None:
        self._progress.end()
        self._channel.send(alert)
