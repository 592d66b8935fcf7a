"""Ending a loop between two passes, never inside one."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Hears SIGINT and SIGTERM; a second one ends the process at once, as it would have without us."""

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._reader, self._writer = -1, -1

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> None:
        """Sleep so long, or until a signal comes; one that came before is not slept through."""
        select.select([self._reader], [], [], max(0.0, seconds))

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        os.write(self._writer, b".")
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
