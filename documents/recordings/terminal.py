"""burstctl on a pseudo-terminal, and what is on its screen."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

COLUMNS: Final = 80
LINES: Final = 30
WITHIN_S: Final = 60
_REST_WITHIN_S: Final = 0.05  # a screen may arrive in parts

_ROOT: Final = Path(__file__).parents[2]
_SCREEN_STARTS: Final = re.compile(r"\x1b\[H|\x1b\[\?1049l")  # the next frame, or the ordinary screen again
_ERASED: Final = re.compile(r"[^\n]*(\n[^\n]*\x1b\[1A)?\x1b\[2K")  # the line of the cursor, or the one above
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")


class Terminal:
    """What a running burstctl has sent so far."""

    def __init__(self, own_end: int) -> None:
        self._own_end = own_end
        self._sent = b""

    @property
    def screen(self) -> str:
        """The text on the screen, with the escape sequences of its styles only."""
        return read_screen(self._sent.decode(errors="replace"))

    def press(self, keys: str) -> None:
        """Send keys to the command."""
        os.write(self._own_end, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """The screen, when it shows this.

        Raises:
            RuntimeError: it did not show it in time, or the command has ended.
        """
        ends_at_s = time.monotonic() + WITHIN_S
        while not re.search(pattern, _STYLE.sub("", self.screen), re.DOTALL):
            if time.monotonic() > ends_at_s or not self._receive():
                raise RuntimeError(f"{pattern!r} was not shown, but:\n{self.screen}")
        while select.select([self._own_end], [], [], _REST_WITHIN_S)[0] and self._receive():
            pass
        return self.screen

    def wait_for_end(self) -> str:
        """The screen that the command leaves behind."""
        while self._receive():
            pass
        return self.screen

    def _receive(self) -> bool:
        """Wait a little for more; False after the end."""
        if not select.select([self._own_end], [], [], 0.1)[0]:
            return True
        try:
            received = os.read(self._own_end, 65_536)
        except OSError:  # Linux: the other end is closed
            return False
        self._sent += received
        return bool(received)


def read_screen(sent: str) -> str:
    """What a terminal shows that was sent this: as much as burstctl needs of what terminals can do."""
    text = _ERASED.sub("", _SCREEN_STARTS.split(sent)[-1])
    lines = _CONTROL.sub("", text).replace("\r", "").rstrip("\n").split("\n")
    return "\n".join(lines[-LINES:])


@contextmanager
def start_burstctl(*arguments: str, environment: Mapping[str, str], home: Path) -> Iterator[Terminal]:
    """The command in the folder ``home``, with nothing of this process's environment but the path."""
    own_end, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = "import sys; from burstctl.main import main; sys.exit(main())"
    variables = {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(str(_ROOT / root) for root in ("lambdas", "runbooks")),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "AWS_EC2_METADATA_DISABLED": "true",
        **environment,
    }
    process = subprocess.Popen(  # noqa: S603 - this Python, with our arguments
        [sys.executable, "-c", command, *arguments],
        env=variables,
        cwd=home,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
    )
    os.close(other_end)
    try:
        yield Terminal(own_end)
    finally:
        process.kill()
        process.wait()
        os.close(own_end)
