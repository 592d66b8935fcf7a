"""Ending a loop where it is safe to: between two passes, or two volumes of one."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

from burstctl.cli.exit_codes import Exit
from burstctl.cli.output import complain

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignal:
    """Hears SIGINT, SIGTERM and SIGHUP; a second one ends the process at once, as it would have without us.

    A SIGHUP that is ignored, as under ``nohup``, stays ignored.

    With ``within_s`` a process that has not ended so long after the signal is ended as by a crash: it waits
    for something that does not answer. What it had recorded is settled by the next pass of any process.
    """

    def __init__(self, *, within_s: float | None = None) -> None:
        self.is_asked = False
        self._within_s = within_s
        self._before: dict[signal.Signals, Any] = {}
        self._reader, self._writer = -1, -1

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        is_deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        heard = [each for each in _SIGNALS if each is not signal.SIGHUP or not is_deaf]
        self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._within_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
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
        if self._within_s is not None:
            signal.signal(signal.SIGALRM, self._give_up)
            signal.setitimer(signal.ITIMER_REAL, self._within_s)

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        """Leave without waiting for the threads that hang: ``sys.exit`` would join them."""
        complain(
            f"the pass did not end within {self._within_s:g} s of the signal; it is abandoned, and what it"
            " recorded is settled by the next pass"
        )
        os._exit(Exit.FAILED)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
