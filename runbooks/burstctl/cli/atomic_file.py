"""Writes a file that the user named so that it is never half-written."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import sanitise
from burstwatch.wiring.settings import SettingsError


class WriteError(BurstwatchError):
    """The file could not be written; the old content is unchanged."""


def check_writable(path: Path, option: str) -> None:
    """Find out before any work whether a file could be made there; ``option`` is what it was named with.

    Raises:
        SettingsError: it is a directory, or there is no such directory, or it may not be written to.
    """
    if _is_pipe_or_device(path):
        return
    label, directory = f"{option} {display_path(path)}", display_path(path.parent)
    if path.is_dir():
        raise SettingsError(f"{label} is a directory", fix="name a file in it")
    if not path.parent.is_dir():
        raise SettingsError(f"{label}: there is no directory {directory}", fix="create it first")
    if not os.access(path.parent, os.W_OK):
        raise SettingsError(f"{label}: {directory} may not be written to", fix="name another place")


def display_path(path: Path) -> str:
    """The path, fit to show."""
    return sanitise(str(path), MAX_SENTENCE_LENGTH)


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file and rename it, so that readers see either the old file or the new one.

    Pipes and devices such as /dev/null are written to directly.

    Raises:
    WriteError: the disk is full, or the directory was removed since.
    """
    try:
        if _is_pipe_or_device(path):
            path.write_bytes(content)
        else:
            _replace(path.resolve(), content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(
            f"{display_path(path)} could not be written ({reason}); the old content is unchanged",
            fix="free space, or name another file",
        ) from error


@contextmanager
def exclusive_lock(path: Path, problem: Problem) -> Iterator[None]:
    """Lock a file, which is created; the end of this process frees it.

    Raises:
        BurstwatchError: another process has the lock; that ``problem``.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BurstwatchError(problem) from error
        yield


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".burstctl-{token_hex(6)}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        if path.exists():
            temporary.chmod(mode)  # what the umask took away
        temporary.write_bytes(content)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_pipe_or_device(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())
