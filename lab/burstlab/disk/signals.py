"""Lets a signal end a command the way Ctrl-C does, with everything taken down on the way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked for the end; ``code`` is what a shell is told of it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first signal that asks for the end into ``Stopped``; further ones change nothing."""

    def stop(number: int, _: Any) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    before = {each: signal.signal(each, stop) for each in _ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
