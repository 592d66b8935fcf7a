"""The two ways out: data on stdout, words on stderr."""

import io
import json
import os
import sys
import traceback
from shutil import get_terminal_size
from typing import Any, Final

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import columns, fill, printable

DEBUG: Final = "BURSTWATCH_DEBUG"
_LONGEST: Final = 400


class OutputError(BurstwatchError):
    """What was to be said could not be written."""


def prepare() -> None:
    """Make both streams safe to write to: no character is too odd for them, and stderr may be closed.

    Raises:
        OutputError: stdout is closed, so there is no use in starting.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as we do
    if sys.stdout is None:
        raise OutputError("stdout is closed, nothing was done: give the output a place, such as >/dev/null")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def show(text: str) -> None:
    """Write data, all of it and now.

    Raises:
        OutputError: the reader is gone, or the disk is full.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        _let_go_of_stdout()
        reason = error.strerror or str(error)
        raise OutputError(f"the output could not be written ({reason}); the ledger is complete") from error


def say(text: str, *, as_it_is: bool = False) -> None:
    """Write words for people; nothing depends on them, so a closed stderr is no failure.

    On a terminal they are broken to its width, unless they are laid out already.
    """
    try:
        sys.stderr.write((_to_width(text) if sys.stderr.isatty() and not as_it_is else text) + "\n")
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as we do


def complain(text: str) -> None:
    """Say what is wrong, with the name of the command in front."""
    say(f"burstctl: {text}")


def complain_of_bug(error: Exception) -> None:
    """Say that something went wrong which nobody foresaw; the traceback is for those who ask for it."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    said = printable(str(error), _LONGEST) or "no message"
    complain(
        f"unexpected {type(error).__name__}: {said}; see the details with {DEBUG}=1, and please report them"
    )


def takes_colours() -> bool:
    """Whether stdout is a terminal that shows colours, and nobody asked for none (NO_COLOR)."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not is_plain


def to_json(document: Any, *, on_one_line: bool = False) -> str:
    """JSON in ASCII: nothing in a tag can act on a terminal."""
    return json.dumps(document, separators=(",", ":")) if on_one_line else json.dumps(document, indent=2)


def _to_width(text: str) -> str:
    """Broken between words for the terminal, each line's continuation indented; what fits stays as it is."""
    width = get_terminal_size().columns - 2
    lines = text.split("\n")
    return "\n".join(
        line if columns(line) <= width else "\n  ".join(fill(line.split(), width)) for line in lines
    )


def _let_go_of_stdout() -> None:
    """What could not be written stays buffered, and the interpreter would try again on its way out."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device, not a path
            os.dup2(nowhere.fileno(), sys.__stdout__.fileno())
