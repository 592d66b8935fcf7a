"""Ends a loop where that is safe: between two passes, or between two volumes of a pass."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.output import print_error
from burstwatch.core.errors import Problem

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignal:
    """Handles SIGINT, SIGTERM and SIGHUP; a second signal ends the process at once.

    A SIGHUP that is ignored, as under ``nohup``, stays ignored.

    With ``grace_s``, a process that has not ended by then after the signal is killed, because it waits for
    something that does not respond. The next pass of any process settles what it had recorded.
    """

    def __init__(self, *, grace_s: float | None = None) -> None:
        self.is_requested = False
        self._grace_s = grace_s
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._reader, self._writer = -1, -1

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        handled = [
            signal_number
            for signal_number in _SIGNALS
            if signal_number is not signal.SIGHUP or not ignores_hangup
        ]
        self._previous_handlers = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._grace_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._restore()
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> None:
        """Sleep this long, or until a signal arrives; return at once if one has arrived already."""
        select.select([self._reader], [], [], max(0.0, seconds))

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.is_requested = True
        os.write(self._writer, b".")
        self._restore()
        if self._grace_s is not None:
            signal.signal(signal.SIGALRM, self._abort)
            signal.setitimer(signal.ITIMER_REAL, self._grace_s)

    def _abort(self, _number: int, _frame: FrameType | None) -> None:
        """Leave without waiting for the threads that hang: ``sys.exit`` would join them."""
        print_error(
            Problem(
                f"the pass did not end within {self._grace_s:g} s of the signal, so it was abandoned",
                "run burstctl watch again: the next pass completes what this one recorded",
            )
        )
        os._exit(ExitCode.FAILED)

    def _restore(self) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
