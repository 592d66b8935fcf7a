"""Inspects the SQLite ledger without changing it: no schema upgrade, and no new files next to it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from burstwatch.adapters.ledger.sqlite_schema import check_file, to_ledger_error
from burstwatch.core.errors import LedgerError

_LOCK_TIMEOUT_S: Final = 2.0  # a watchdog holds the lock for milliseconds; the doctor must not hang
_LEDGER_TABLES: Final = frozenset({"states", "entries", "completed_ticks", "origin"})
_MAX_CHECKED_BYTES: Final = 64 * 2**20
"""A larger file takes too long to check whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFile:
    """What a ledger says of itself; ``faults`` are SQLite's words on damage."""

    schema: int
    origin: str | None
    size_bytes: int
    is_writable: bool
    faults: tuple[str, ...]


def inspect_ledger_file(path: Path) -> LedgerFile:
    """Read the properties of the file.

    Raises:
        LedgerError: it cannot be read, or is none.
    """
    with connect_readonly(path) as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables >= _LEDGER_TABLES:
            raise LedgerError(
                f"{path} is a database of another program, not a ledger",
                fix="name another file with --ledger sqlite:PATH",
            )
        origin = _read_origin(connection)
        size_bytes = path.stat().st_size
        check_rows = connection.execute("PRAGMA quick_check(3)") if size_bytes <= _MAX_CHECKED_BYTES else ()
        faults = tuple(str(message) for (message,) in check_rows if message != "ok")
    return LedgerFile(
        schema=int(schema),
        origin=origin,
        size_bytes=size_bytes,
        is_writable=os.access(path, os.W_OK) and os.access(path.parent, os.W_OK),
        faults=faults,
    )


def read_ledger_origin(path: Path) -> str | None:
    """The account and Region to which the ledger is bound; None if it is not bound yet.

    Raises:
        LedgerError: it cannot be read, or is none.
    """
    with connect_readonly(path) as connection:
        return _read_origin(connection)


@contextmanager
def connect_readonly(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes nothing.

    Raises:
        LedgerError: the file cannot be read.
    """
    try:
        check_file(path)
        with closing(_connect(path)) as connection:
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise to_ledger_error(error, path, _LOCK_TIMEOUT_S) from error


def _read_origin(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT name FROM origin").fetchone()
    return row[0] if row else None


def _connect(path: Path) -> sqlite3.Connection:
    """Open it for writing if allowed: otherwise SQLite leaves its auxiliary files behind when it closes."""
    may_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    mode = "mode=rw" if may_write else "mode=ro" if os.path.exists(f"{path}-shm") else "immutable=1"  # noqa: PTH110 - as text, which a suffix is added to
    connection = sqlite3.connect(
        f"{path.as_uri()}?{mode}", uri=True, timeout=_LOCK_TIMEOUT_S, isolation_level=None
    )
    connection.execute("PRAGMA query_only = ON")
    return connection
