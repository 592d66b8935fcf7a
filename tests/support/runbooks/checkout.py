"""A checkout to run a page's commands in, as somebody at a terminal would: a real bash, and answers."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.paths import ROOT
from support.runbooks.page_parser import Command, matches_page

WIDTH = 80
PROMPT = re.compile(rb"\(y/n\)\s*$")
INTERRUPT = b"\x03"
SUDO = 'command -v sudo > /dev/null || sudo() { "$@"; }\n'
"""Who is root and has no sudo needs none."""

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Checkout:
    """A folder with everything that is in the repository, by links; files of its own can lie beside it.

    It is set up as the repository is: ``make setup`` in it finds nothing to install, and installs nothing.
    """

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _link(ROOT, self.folder, without={".git", ".venv", "demo", "cdk.out"})
        for folder in (Path(".venv"), Path(".venv", "local-aws")):
            _link(ROOT / folder, self.folder / folder, without={".installed", ".cdk-installed", "local-aws"})
        for stamp in (".installed", ".cdk-installed", "local-aws/.installed"):
            (self.folder / ".venv" / stamp).touch()

    def paste(self, command: Command | str, *, within_s: float, until: str = "") -> tuple[int, list[str]]:
        """Exit code and what is seen, at a terminal where every question is answered with y.

        Where ``until`` is seen, Ctrl-C is pressed.
        """
        text = command if isinstance(command, str) else command.text
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TERM": "dumb", "NO_COLOR": "1"}
        own_end, shell_end = pty.openpty()
        termios.tcsetwinsize(shell_end, (50, WIDTH))
        bash = subprocess.Popen(
            ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-c", f"{SUDO}{text}"],
            stdin=shell_end,
            stdout=shell_end,
            stderr=shell_end,
            cwd=self.folder,
            env={**environment, "LC_ALL": "C.UTF-8", "PWD": str(self.folder), **self.environment},
        )
        os.close(shell_end)
        try:
            output = b"".join(_read_terminal(own_end, until.encode(), time.monotonic() + within_s))
            return bash.wait(within_s), _lines(_ESCAPES.sub(b"", output).decode(errors="replace"))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
            bash.wait()
            os.close(own_end)


def _link(source: Path, link_folder: Path, *, without: set[str]) -> None:
    link_folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name not in without:
            (link_folder / path.name).symlink_to(path)


def _read_terminal(terminal: int, until: bytes, ends_s: float) -> Iterator[bytes]:
    received = b""
    with suppress(OSError):
        while True:
            ready, _, _ = select.select([terminal], [], [], max(0.0, ends_s - time.monotonic()))
            assert ready, f"it does not end; it said last: {received[-2000:].decode(errors='replace')}"
            reported = os.read(terminal, 4096)
            received += reported
            yield reported
            if PROMPT.search(_ESCAPES.sub(b"", received)):
                os.write(terminal, b"y\n")
                received = b""
            if until and until in received:
                os.write(terminal, INTERRUPT)
                until = b""


def _lines(output: str) -> list[str]:
    """As the screen shows them at the end: what was written over is gone."""
    lines = output.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines]


def check_shown(command: Command, lines: list[str]) -> None:
    """What the page shows below the command, if anything, is what was seen."""
    reported = "\n".join(lines)
    assert not command.expected_output or matches_page(command.expected_output, lines), (
        f"$ {command}\nis not shown on its page as what it said:\n{reported}"
    )
