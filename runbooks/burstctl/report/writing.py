"""A file that is either the old one or the whole new one."""

import os
from pathlib import Path
from secrets import token_hex
from typing import Final

from burstwatch.core.errors import BurstwatchError
from burstwatch.settings import SettingsError

STDOUT: Final = Path("-")


class WritingError(BurstwatchError):
    """The file could not be written; what was there is there still."""


def check_writable(path: Path) -> None:
    """Find out before any work whether a file could be made there.

    Raises:
        SettingsError: it is a directory, or there is no such directory, or it may not be written to.
    """
    if path == STDOUT:
        return
    if path.is_dir():
        raise SettingsError(f"{path} is a directory: name a file in it, such as {path / 'report.html'}")
    if not path.parent.is_dir():
        raise SettingsError(f"there is no directory {path.parent} to write {path.name} to: make it first")
    if not os.access(path.parent, os.W_OK):
        raise SettingsError(f"{path.parent} may not be written to: name a file elsewhere, or - for stdout")


def write_whole(path: Path, text: str) -> None:
    """Write beside the file and rename: whoever reads meanwhile sees the old one or the new one.

    Raises:
        WritingError: the disk is full, or somebody took the place away.
    """
    made = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        made.write_text(text, encoding="utf-8", newline="\n")
        made.replace(path)
    except OSError as error:
        made.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise WritingError(
            f"{path} could not be written ({reason}); what was there is there still"
        ) from error
