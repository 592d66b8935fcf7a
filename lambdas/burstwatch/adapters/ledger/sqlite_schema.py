"""The file of the SQLite ledger: created and upgraded atomically, or refused with the reason."""

import errno
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from burstwatch.core.errors import LedgerError
from burstwatch.core.text import sanitise

SCHEMA_VERSION: Final = 2
_MAX_MESSAGE_CHARS: Final = 200
_APPLICATION_ID: Final = 0x62757273
"""The letters ``burs`` in the header of the file: the databases of other programs are never changed."""

_SCHEMA_2_STATEMENTS: Final = (
    """CREATE TABLE reservations (
  volume_id TEXT PRIMARY KEY, usd_per_month REAL NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE holds (
  subject TEXT PRIMARY KEY, placed_by TEXT NOT NULL, reason TEXT NOT NULL, placed_at_s INTEGER NOT NULL,
  until_s INTEGER NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE window_marks (
  name TEXT PRIMARY KEY, starts INTEGER NOT NULL, marked_by TEXT NOT NULL, at_s INTEGER NOT NULL,
  until_s INTEGER
) WITHOUT ROWID""",
)
SCHEMA: Final = f"""
BEGIN;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE states (
  volume_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, volume_id TEXT NOT NULL, revision INTEGER NOT NULL, kind TEXT NOT NULL,
  about TEXT NOT NULL, at_s INTEGER NOT NULL, body TEXT NOT NULL,
  UNIQUE (volume_id, revision, kind, about)
);
CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, alert_id TEXT NOT NULL, volume_id TEXT,
  revision INTEGER NOT NULL, time_s INTEGER NOT NULL, document TEXT NOT NULL, sent_as TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, claimed_by TEXT, claimed_until_s REAL, last_error TEXT,
  UNIQUE (channel, alert_id)
);
CREATE INDEX deliveries_by_message ON deliveries (channel, sent_as);
CREATE TABLE channels (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE origin (name TEXT NOT NULL);
CREATE TABLE completed_ticks (
  kind TEXT PRIMARY KEY, tick_s INTEGER NOT NULL, fingerprints BLOB
) WITHOUT ROWID;
CREATE TABLE claimed_ticks (
  kind TEXT NOT NULL, tick_s INTEGER NOT NULL, claimed_until_s REAL NOT NULL,
  PRIMARY KEY (kind, tick_s)
) WITHOUT ROWID;
{";".join(_SCHEMA_2_STATEMENTS)};
COMMIT;
"""


def create(path: Path) -> None:
    """Create the file under another name and link it into place: after a kill there is a ledger or none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    leftover_wal = Path(f"{path}-wal")
    if leftover_wal.exists() and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}, but {leftover_wal} holds its last writes",
            fix=f"put the ledger back beside it, or move {leftover_wal} away to start a new one",
        )
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    draft.touch(mode=0o600, exist_ok=False)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(SCHEMA)
            connection.execute("PRAGMA journal_mode = WAL")
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def check_file(path: Path) -> None:
    """Refuse a file that SQLite would take for a new database, without opening it.

    Closing any descriptor of the file would drop the locks that this process holds on it (POSIX advisory
    locks). Source: SQLite, "How To Corrupt An SQLite Database File".
    """
    if path.is_dir():
        raise LedgerError(
            f"ledger {path} is a directory", fix=f"name a file in it, such as {path / 'ledger.db'}"
        )
    if not path.is_file():
        raise LedgerError(f"ledger {path} is not a file", fix="name one with --ledger sqlite:PATH")
    if path.stat().st_size == 0:
        raise LedgerError(f"ledger {path} is damaged (it is empty)", fix=recovery_step(path))


def connect(path: Path, *, lock_timeout_s: float) -> sqlite3.Connection:
    """Open an existing ledger, and upgrade it to the current schema."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=lock_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if _check_schema(connection, path) < SCHEMA_VERSION:
            _upgrade(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> int:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != _APPLICATION_ID:
        raise LedgerError(
            f"{path} is a database of another program, not a ledger",
            fix="name another file with --ledger sqlite:PATH",
        )
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"ledger {path} has schema {version}, made by a newer burstwatch; this one knows schemas"
            f" up to {SCHEMA_VERSION}",
            fix="update burstwatch, or name another file with --ledger sqlite:PATH",
        )
    return int(version)


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Upgrade from schema 1 in one transaction; another process may have done it already."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if _check_schema(connection, path) < SCHEMA_VERSION:
            for statement in _SCHEMA_2_STATEMENTS:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def file_identity(path: Path) -> tuple[int, int] | None:
    """The identity of the file that is there now; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def to_ledger_error(error: OSError | sqlite3.Error, path: Path, lock_timeout_s: float) -> LedgerError:
    """Describe what happened, what was written, and the next step."""
    message = sanitise(str(error), _MAX_MESSAGE_CHARS)
    code = error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else 0
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        code = sqlite3.SQLITE_FULL
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            cause = f"has been locked by another process for {lock_timeout_s:g} s, so nothing was written"
            fix = f"try again, or see which process holds it with: fuser -v {path}"
        case sqlite3.SQLITE_FULL:
            cause = "has no space left on its file system, nothing was written"
            fix = "free some, then run again"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            cause, fix = f"is damaged ({message})", recovery_step(path)
        case sqlite3.SQLITE_IOERR:
            cause = f"met a failing or full disk ({message}), nothing was written"
            fix = "check the disk, then run again"
        case _:
            cause = f"cannot be used ({message})"
            fix = (
                "check owner and permissions of the file and its directory, or name another file with"
                " --ledger sqlite:PATH"
            )
    return LedgerError(f"ledger {path} {cause}", fix=fix)


def recovery_step(path: Path) -> str:
    """The next step when a ledger cannot be read."""
    return (
        f"restore a copy, or move it away (mv {path}* ELSEWHERE) to start a new ledger, without the alert"
        " state and history of this one; nothing was deleted"
    )
