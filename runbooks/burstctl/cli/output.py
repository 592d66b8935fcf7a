"""The two ways out: data on stdout, words on stderr."""

import io
import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any, Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import display_width, sanitise, wrap

DEBUG_ENV: Final = "BURSTWATCH_DEBUG"
MAX_LISTED: Final = 10  # what fits on a terminal; --json has all of it
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
    """Print a message for people to stderr. Nothing depends on it, so a closed stderr is not an error.

    On a terminal, lines are wrapped to its width unless they are already formatted.
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


def print_first_lines(label: str, lines: Iterable[str]) -> None:
    """Print messages under a label, the first ones of very many."""
    all_lines = list(lines)
    for line in all_lines[:MAX_LISTED]:
        print_info(f"{label}: {sanitise(line, MAX_SENTENCE_LENGTH)}")
    if len(all_lines) > MAX_LISTED:
        print_info(f"{label}: and {len(all_lines) - MAX_LISTED:,} more, which --json shows")


def print_failures(
    failures: Iterable[str],
    *,
    unread: Mapping[str, str] | None = None,
    unread_label: str = "",
    missing: Iterable[str] = (),
    region: str = "",
) -> None:
    """Print each failure once, why volumes could not be read, and which do not exist in the region.

    Volumes that are ``unread`` for the same reason share a message.
    """
    for failure in dict.fromkeys(failures):
        print_error(sanitise(failure, MAX_SENTENCE_LENGTH))
    by_reason: dict[str, list[str]] = {}
    for volume_id, reason in sorted((unread or {}).items()):
        by_reason.setdefault(reason.replace(volume_id, "it"), []).append(volume_id)
    for reason, volume_ids in by_reason.items():
        print_error(f"{unread_label} {list_first(volume_ids)}: {sanitise(reason, MAX_SENTENCE_LENGTH)}")
    for volume_id in missing:
        print_error(f"there is no volume {volume_id} in {region}: check the id, the region, the account")


def list_first(names: Sequence[str], limit: int = MAX_LISTED) -> str:
    """``vol-1, vol-2 and 3 more``."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def print_internal_error(error: Exception) -> None:
    """Report an unexpected error; the traceback is only printed with ``BURSTWATCH_DEBUG``."""
    if os.environ.get(DEBUG_ENV):
        traceback.print_exception(error)
    message = sanitise(str(error), _MAX_TEXT_LENGTH) or "no message"
    print_error(
        f"unexpected {type(error).__name__}: {message}; to see the details, set {DEBUG_ENV}=1. Please"
        " report them"
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
