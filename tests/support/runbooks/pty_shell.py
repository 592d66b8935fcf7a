"""A terminal for tests: a real bash, in which burstctl and aws are answered by this process."""

import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from shlex import quote

TIMEOUT_S = 60.0
WIDTH = 80

_PROLOGUE = """\
__ask() {
  local is_shown=1 code
  [ /dev/fd/1 -ef /dev/fd/7 ] || is_shown=0
  printf '%s\\0' "$PWD" "$is_shown" "$@" > "$__folder/request"
  printf 'ask\\n' >&8
  IFS= read -r code <&9
  . "$__folder/answer"
  return "$code"
}
date() {
  local words=() base=$__now
  while [ $# -gt 0 ]; do
    case $1 in -d) base="$__now $2"; shift 2 ;; *) words+=("$1"); shift ;; esac
  done
  command date -d "$base" "${words[@]}"
}
sudo() { "$@"; }
export LC_ALL=C.UTF-8 TZ=UTC
"""


class PtyWriter(StringIO):
    """One of a program's two ways out; what it writes stands in ``written`` in the order of both."""

    encoding = "utf-8"

    def __init__(self, way: int, written: list[tuple[int, str]], *, is_terminal: bool) -> None:
        super().__init__()
        self._way, self._written, self._is_terminal = way, written, is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)  # refuses bytes, as every text stream does
        self._written.append((self._way, text))
        return written


class PtyKeyboard(StringIO):
    """Somebody who answers every question with yes, as the page's reader does."""

    def __init__(self, echo: PtyWriter) -> None:
        super().__init__()
        self._echo = echo

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        self._echo.write("y\n")
        return "y\n"


@dataclass(frozen=True)
class ProgramCall:
    """A program called by name, with its words, and whether its stdout is what the person sees."""

    name: str
    argv: list[str]
    has_terminal: bool


def _move_above_nine(fd: int) -> int:
    """The same pipe under a number that is none of those that the shell gives away."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


@dataclass
class PtyShell:
    """A bash in ``folder`` that keeps functions, variables and its place from command to command.

    Programs in ``answered`` are run by this process: each takes what was asked and answers its exit code and
    what it wrote, by way out and in order. ``now`` is what the shell's ``date`` takes for now.
    """

    folder: Path
    programs: Mapping[str, Callable[[ProgramCall], tuple[int, list[tuple[int, str]]]]]
    now: Callable[[], str]
    environment: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def open(self):
        (call_reader, call_writer), (code_reader, code_writer) = (
            map(_move_above_nine, os.pipe()),
            map(_move_above_nine, os.pipe()),
        )
        self._calls, self._exit_codes = call_reader, code_writer
        self._transcript = (self.folder / ".said").open("wb")
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=self._transcript,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.environment},
            pass_fds=(call_writer, code_reader),
        )
        try:
            functions = "".join(f'{name}() {{ __ask {name} "$@"; }}\n' for name in self.programs)
            self._send(f"exec 7>&1 8>&{call_writer} {call_writer}>&- 9<&{code_reader} {code_reader}<&-\n")
            self._send(f"__folder={quote(str(self._private))}\n{_PROLOGUE}{functions}")
            os.close(call_writer)
            os.close(code_reader)
            yield self
        finally:
            self._bash.kill()
            self._bash.stdin.close()
            self._bash.wait()
            self._transcript.close()
            os.close(call_reader)
            os.close(code_writer)

    @property
    def _private(self) -> Path:
        place = self.folder / ".terminal"
        place.mkdir(exist_ok=True)
        return place

    def run(self, text: str) -> tuple[int, str]:
        """Paste it; its exit code, and what is seen then."""
        before = (self.folder / ".said").stat().st_size
        (self._private / "command").write_text(f"{text}\n")
        self._send(
            f'__now={quote(self.now())}; . "$__folder/command" </dev/null; printf "done %s\\n" $? >&8\n'
        )
        code = self._wait()
        with (self.folder / ".said").open("rb") as output:
            output.seek(before)
            return code, output.read().decode(errors="replace")

    def _send(self, text: str) -> None:
        self._bash.stdin.write(text.encode())
        self._bash.stdin.flush()

    def _wait(self) -> int:
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            ready, _, _ = select.select([self._calls], [], [], max(0.0, until_s - time.monotonic()))
            assert ready, f"bash is not done after {TIMEOUT_S:g} s"
            line = self._read_line()
            assert line, "bash is gone"
            if line.startswith("done "):
                return int(line.removeprefix("done "))
            self._answer()

    def _read_line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._calls, 1)
            if not byte:
                return ""
            line += byte
        return line.decode().strip()

    def _answer(self) -> None:
        place, is_shown, name, *arguments = (self._private / "request").read_text().split("\0")[:-1]
        before = Path.cwd()
        os.chdir(place)
        try:
            code, written = self.programs[name](ProgramCall(name, arguments, is_shown == "1"))
        finally:
            os.chdir(before)
        output = "".join(f"printf %s {quote(text)} >&{way}\n" for way, text in written if text)
        (self._private / "answer").write_text(output)
        os.write(self._exit_codes, f"{code}\n".encode())
