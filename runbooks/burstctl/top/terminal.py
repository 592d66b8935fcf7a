"""The live view on a terminal: keys in, frames out, and reads in a thread, so that no key waits for AWS."""

import os
import re
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from types import FrameType
from typing import Final

from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from burstctl.cli.exit_codes import ExitCode, exit_code_of_error
from burstctl.cli.output import describe_error
from burstctl.cli.styled_text import StyledText, encode_safely
from burstctl.top.frame import page_rows, render_frame
from burstctl.top.keys import read_keys
from burstctl.top.view import Action, FleetReading, View, begin_read, end_read, press
from burstwatch.core.errors import BurstwatchError, Problem

_FRAME_S: Final = 1.0  # ages are shown in seconds
_SPLIT_KEY_S: Final = 0.05  # the rest of a key that a network has split; Escape is alone after that
_QUIT_WITHIN_S: Final = 1.0
_UNFINISHED_KEY: Final = re.compile(rb"\x1b([\[O][0-9;]*)?$")


class StoppedError(BaseException):
    """A signal other than Ctrl-C: no handler of errors may take it for one."""


class LiveView:
    """The view on stdin and stdout, until somebody quits.

    ``read`` runs in a thread. ``act`` runs with the terminal as it was before, and may ask questions.
    """

    def __init__(
        self, view: View, *, read: Callable[[], FleetReading], act: Callable[[Action, str], None]
    ) -> None:
        self.view = replace(view, key_at_s=monotonic())
        self._read = read
        self._act = act
        self._executor = ThreadPoolExecutor(max_workers=1)
        self._future: Future[FleetReading] | None = None
        self._wake_reader, self._wake_writer = os.pipe()
        for end in (self._wake_reader, self._wake_writer):
            os.set_blocking(end, False)
        self._console = Console(file=sys.stdout, highlight=False)

    def run(self) -> None:
        """Show it until somebody quits.

        Raises:
            BurstwatchError: the first read shows that the setup is wrong.
            StoppedError: SIGTERM or SIGHUP; the terminal is as it was.
        """
        with _handle_signals(self._wake_writer):
            while (action := self._interact()) is not Action.QUIT:
                if self.view.selected is not None:
                    self._act(action, self.view.selected.row.resource_id)
                now_s = monotonic()
                self.view = replace(self.view, key_at_s=now_s)
                if action is Action.HOLD:
                    self.view = replace(self.view, next_read_at_s=now_s)

    def leave(self, exit_code: ExitCode) -> ExitCode:
        """End the process although a read may hang in a call to AWS: it changes nothing, and none waits."""
        if self._future is not None and wait([self._future], timeout=_QUIT_WITHIN_S).not_done:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_code)
        return exit_code

    def _interact(self) -> Action:
        """Show frames and take keys until there is something that the view cannot do by itself."""
        live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with _unbuffered_keys(), live:
            while True:
                self._exchange_reads()
                size = os.get_terminal_size(sys.stdout.fileno())
                self._console.size = ConsoleDimensions(*size)
                lines = render_frame(self.view, now_s=monotonic(), width=size.columns, height=size.lines)
                live.update(_to_text(lines), refresh=True)
                for key in self._wait_for_keys():
                    rows = page_rows(self.view, size.columns, size.lines)
                    self.view, action = press(self.view, key, page_rows=rows, now_s=monotonic())
                    if action is Action.READ:
                        self.view = replace(self.view, next_read_at_s=monotonic())
                    elif action is not None:
                        return action

    def _wait_for_keys(self) -> list[str]:
        """The keys of this moment; none if a read has ended, the size has changed, or a second is over."""
        stdin = sys.stdin.fileno()
        ready, _, _ = select.select([stdin, self._wake_reader], [], [], _FRAME_S)
        if self._wake_reader in ready:
            os.read(self._wake_reader, 4096)
        if stdin not in ready:
            return []
        data = os.read(stdin, 4096)
        if not data:
            return ["ctrl-c"]  # the terminal is gone
        while _UNFINISHED_KEY.search(data) and select.select([stdin], [], [], _SPLIT_KEY_S)[0]:
            data += os.read(stdin, 4096)
        return read_keys(data)

    def _exchange_reads(self) -> None:
        """Take the result of a read that has ended, and start one that is due."""
        now_s = monotonic()
        if self._future is not None and self._future.done():
            self.view = end_read(self.view, self._take_result(self._future), now_s)
            self._future = None
        if self.view.is_read_due(now_s):
            self.view = begin_read(self.view, now_s)
            self._future = self._executor.submit(self._read)
            self._future.add_done_callback(lambda _: os.write(self._wake_writer, b"."))

    def _take_result(self, future: Future[FleetReading]) -> FleetReading | Problem:
        try:
            return future.result()
        except BurstwatchError as error:
            if self.view.reading is None and exit_code_of_error(error) is ExitCode.USAGE:
                raise
            return describe_error(error)
        except Exception as error:  # noqa: BLE001 - the view outlives a bad read, and shows what was wrong
            return Problem(f"unexpected {type(error).__name__}: {error}")


@contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Each key at once and not echoed; control characters are keys, so that none leaves it like this."""
    stdin = sys.stdin.fileno()
    saved = termios.tcgetattr(stdin)
    changed = termios.tcgetattr(stdin)
    changed[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    try:
        termios.tcsetattr(stdin, termios.TCSANOW, changed)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSANOW, saved)


@contextmanager
def _handle_signals(wake_writer: int) -> Iterator[None]:
    """SIGTERM and SIGHUP end the view and restore the terminal; a new size of the window wakes it."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second one would interrupt what restores the terminal
        raise StoppedError

    handlers = {signal.SIGTERM: stop, signal.SIGHUP: stop, signal.SIGWINCH: lambda *_: None}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    previous_fd = signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _to_text(lines: Iterable[Iterable[StyledText]]) -> Text:
    text = Text(no_wrap=True, overflow="crop", end="")
    for index, line in enumerate(lines):
        text.append("\n" if index else "")
        for part in line:
            text.append(encode_safely(part.text, sys.stdout), style=part.style)
    return text
