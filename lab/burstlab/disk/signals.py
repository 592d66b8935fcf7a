"""Signals end a command as Ctrl-C does, so that everything is taken down."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal requested the end; ``code`` is the exit code for the shell."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise ``Stopped`` at the first signal; later ones are ignored."""

    def stop(number: int, _: Any) -> None:
        for stop_signal in _STOP_SIGNALS:
            signal.signal(stop_signal, signal.SIG_IGN)
        raise Stopped(number)

    previous_handlers = {signal_number: signal.signal(signal_number, stop) for signal_number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)
