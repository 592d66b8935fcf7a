"""The two ways out: data on stdout, words on stderr."""

import io
import json
import os
import sys
import traceback
from shutil import get_terminal_size
from typing import Any, Final

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import display_width, sanitise, wrap

DEBUG_ENV: Final = "BURSTWATCH_DEBUG"
_MAX_TEXT_LENGTH: Final = 400  # an unexpected error may quote a whole response


class OutputError(BurstwatchError):
    """What was to be said could not be written."""


def prepare_streams() -> None:
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


def print_output(text: str) -> None:
    """Write data, all of it and now.

    Raises:
        OutputError: the reader is gone, or the disk is full.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        _discard_stdout()
        reason = error.strerror or str(error)
        raise OutputError(f"the output could not be written ({reason}); the ledger is complete") from error


def print_info(text: str, *, is_preformatted: bool = False) -> None:
    """Print a message for people to stderr. Nothing depends on it, so a closed stderr is no failure.

    On a terminal they are broken to its width, unless they are laid out already.
    """
    try:
        sys.stderr.write(
            (_wrap_to_terminal(text) if sys.stderr.isatty() and not is_preformatted else text) + "\n"
        )
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as we do


def print_error(text: str) -> None:
    """Say what is wrong, with the name of the command in front."""
    print_info(f"burstctl: {text}")


def print_internal_error(error: Exception) -> None:
    """Report an unexpected error; the traceback is only printed with ``BURSTWATCH_DEBUG``."""
    if os.environ.get(DEBUG_ENV):
        traceback.print_exception(error)
    message = sanitise(str(error), _MAX_TEXT_LENGTH) or "no message"
    print_error(
        f"unexpected {type(error).__name__}: {message}; see the details with {DEBUG_ENV}=1, and please report"
        " them"
    )


def supports_colour() -> bool:
    """Whether stdout is a terminal with colours, and NO_COLOR is not set."""
    is_colour_disabled = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not is_colour_disabled


def to_json(document: Any, *, is_compact: bool = False) -> str:
    """JSON in ASCII: nothing in a tag can act on a terminal."""
    return json.dumps(document, separators=(",", ":")) if is_compact else json.dumps(document, indent=2)


def _wrap_to_terminal(text: str) -> str:
    """Broken between words for the terminal, each line's continuation indented; what fits stays as it is."""
    width = get_terminal_size().columns - 2
    lines = text.split("\n")
    return "\n".join(
        line if display_width(line) <= width else "\n  ".join(wrap(line.split(), width)) for line in lines
    )


def _discard_stdout() -> None:
    """Discard buffered output that cannot be written; otherwise the interpreter tries again when it exits."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with open(os.devnull, "w", encoding="utf-8") as devnull:  # noqa: PTH123 - a device, not a path
            os.dup2(devnull.fileno(), sys.__stdout__.fileno())
