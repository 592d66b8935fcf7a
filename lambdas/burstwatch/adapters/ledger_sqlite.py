"""The ledger in one SQLite file, for a single machine; any number of processes and threads may share it."""

import errno
import json
import math
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

from burstwatch.core.alerts import Alert
from burstwatch.core.assess import UnknownReason
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger import Change, Delivery, EntryKind, LedgerEntry, Roster, TickKind, VolumeState
from burstwatch.core.levels import Level

SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x62757273
"""The letters ``burs`` in the file's header: other programs' databases are left alone."""

_SCHEMA: Final = f"""
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
COMMIT;
"""
_STATE_ENUMS: Final = {"level": Level, "alerted_level": Level, "unknown_reason": UnknownReason}
_STATE_FIELDS: Final = tuple(field.name for field in fields(VolumeState))


class LedgerError(BurstwatchError):
    """The ledger cannot be used; what it held before the failed call, it still holds."""


class SqliteLedger:
    """The ``Ledger`` of ``burstwatch.core.ledger`` in an SQLite file.

    ``deliveries`` holds only what is still to be delivered: a row goes when its DELIVERED entry comes. An
    alert is ``sent_as`` itself, or as the digest that took its place. A claim belongs to the object that
    took it: one whose lease ran out cannot give back the claim of its successor.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, lock_timeout_s: float) -> None:
        self._connection = connection
        self._path = path
        self._lock_timeout_s = lock_timeout_s
        self._file = _identify(path)
        self._owner = os.urandom(8).hex()
        self._lock = Lock()

    @classmethod
    def open(cls, path: Path, *, lock_timeout_s: float = 5.0) -> Self:
        """Open the ledger in this file, or make a new one where there is no file.

        Raises:
            LedgerError: The file or its directory cannot be used; it is neither changed nor replaced.
        """
        path = path.absolute()
        try:
            if not path.exists():
                _create(path)
            _check_file(path)
            connection = _connect(path, lock_timeout_s=lock_timeout_s)
        except (OSError, sqlite3.Error) as error:
            raise _explain(error, path, lock_timeout_s) from error
        return cls(connection, path=path, lock_timeout_s=lock_timeout_s)

    @classmethod
    def in_memory(cls) -> Self:
        """A ledger that is gone when it is closed."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(_SCHEMA)
        return cls(connection, path=Path(":memory:"), lock_timeout_s=0.0)

    def close(self) -> None:
        """Let go of the file; closing again does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def location(self) -> str:
        return f"sqlite:{self._path}"

    def states(self) -> dict[str, VolumeState]:
        with self._reading() as connection:
            rows = connection.execute("SELECT volume_id, body FROM states ORDER BY volume_id").fetchall()
            return {volume_id: _parse_state(body) for volume_id, body in rows}

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        with self._writing() as connection:
            known = _channels_with(connection, channels)
            return {change.volume_id for change in changes if _apply(connection, change, channels=known)}

    def bind(self, origin: str) -> None:
        """Keep this ledger to one account and region: what is not seen there counts as deleted.

        Raises:
            LedgerError: the ledger is that of another.
        """
        with self._writing() as connection:
            row = connection.execute("SELECT name FROM origin").fetchone()
            if row is None:
                connection.execute("INSERT INTO origin VALUES (?)", (origin,))
            elif row[0] != origin:
                raise LedgerError(
                    f"ledger {self._path} is that of {row[0]}, this is {origin}:"
                    " name another file with --ledger sqlite:PATH"
                )

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT revision, kind, at_s, body FROM entries"
                " WHERE volume_id = ? AND at_s >= ? ORDER BY at_s, id",
                (volume_id, since_s),
            ).fetchall()
            return [
                LedgerEntry(
                    volume_id=volume_id,
                    revision=revision,
                    kind=EntryKind(kind),
                    at_s=at_s,
                    body=json.loads(body),
                )
                for revision, kind, at_s, body in rows
            ]

    def roster(self) -> Roster | None:
        with self._reading() as connection:
            row = connection.execute(
                "SELECT tick_s, fingerprints FROM completed_ticks"
                " WHERE kind = ? AND fingerprints IS NOT NULL",
                (TickKind.SWEEP,),
            ).fetchone()
            return Roster(tick_s=row[0], fingerprints=_unpack(row[1])) if row else None

    def claim_tick(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        """As the port says; what a clock that was ahead has left in the future stops nobody."""
        with self._writing() as connection:
            latest_s = now_s + lease_s
            connection.execute(
                "DELETE FROM claimed_ticks WHERE kind = ? AND NOT claimed_until_s BETWEEN ? AND ?",
                (kind, math.nextafter(now_s, latest_s), latest_s),
            )
            taken = connection.execute(
                "SELECT 1 FROM completed_ticks WHERE kind = :kind AND tick_s BETWEEN :tick_s AND :latest_s"
                " UNION ALL SELECT 1 FROM claimed_ticks WHERE kind = :kind AND tick_s >= :tick_s",
                {"kind": kind, "tick_s": tick_s, "latest_s": latest_s},
            ).fetchone()
            if taken:
                return False
            connection.execute("INSERT INTO claimed_ticks VALUES (?, ?, ?)", (kind, tick_s, now_s + lease_s))
            return True

    def complete_tick(self, kind: TickKind, tick_s: int, *, roster: frozenset[int] | None = None) -> None:
        """Record that a claimed tick did all its work; without a ``roster`` the one before stays."""
        fingerprints = None if roster is None else _pack(roster)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO completed_ticks VALUES (?, ?, ?) ON CONFLICT (kind) DO UPDATE"
                " SET tick_s = excluded.tick_s, fingerprints = coalesce(excluded.fingerprints, fingerprints)"
                " WHERE excluded.tick_s >= tick_s",
                (kind, tick_s, fingerprints),
            )

    def bundle(self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]) -> None:
        """Send ``digest`` in place of these alerts, on each channel that has begun to send none of them."""
        with self._writing() as connection:
            for channel in channels:
                _bundle(connection, set(alert_ids), digest, channel)

    def waiting(self, *, channels: Sequence[str]) -> list[Delivery]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT document, volume_id, channel, attempts FROM deliveries"
                " WHERE sent_as = alert_id AND channel IN (SELECT value FROM json_each(?))"
                " ORDER BY time_s, id",
                (json.dumps(list(channels)),),
            ).fetchall()
            return [
                Delivery(alert=_parse_alert(document, volume_id), channel=channel, attempts=attempts)
                for document, volume_id, channel, attempts in rows
            ]

    def claim(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        with self._writing() as connection:
            claimed = connection.execute(
                "UPDATE deliveries SET attempts = attempts + 1, claimed_by = ?, claimed_until_s = ?"
                " WHERE channel = ? AND alert_id = ? AND sent_as = alert_id"
                " AND (claimed_until_s IS NULL OR claimed_until_s <= ?)",
                (self._owner, now_s + lease_s, delivery.channel, delivery.alert.alert_id, now_s),
            )
            return claimed.rowcount == 1

    def delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert, and with a digest every alert that is in it."""
        with self._writing() as connection:
            _record_delivered(connection, delivery.alert.alert_id, delivery.channel, at_s)

    def not_delivered(self, delivery: Delivery, *, error: str) -> None:
        """Give the claim back; ``error`` stands in the DELIVERED entry should a later send succeed."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE deliveries SET claimed_by = NULL, claimed_until_s = NULL, last_error = ?"
                " WHERE channel = ? AND alert_id = ? AND claimed_by = ?",
                (error, delivery.channel, delivery.alert.alert_id, self._owner),
            )

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if _identify(self._path) != self._file:
                raise LedgerError(
                    f"ledger {self._path} was moved, deleted or replaced while in use, so nothing more is"
                    " written to the file that was opened: put it back, or start again with what is there now"
                )
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise _explain(error, self._path, self._lock_timeout_s) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._using() as connection:
            try:
                yield connection
            except (ValueError, LookupError, TypeError, struct.error) as error:
                raise LedgerError(
                    f"ledger {self._path} holds a row that this burstwatch cannot read ({error}): use the"
                    f" newest burstwatch that ever wrote to it; if that fails too, {_start_anew(self._path)}"
                ) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._using() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection


def _create(path: Path) -> None:
    """Make the file under another name and link it in place whole: a kill leaves a ledger or none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remains = Path(f"{path}-wal")
    if remains.exists() and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}, but {remains} holds its last writes:"
            f" put the ledger back beside it, or move {remains} away to start a new one"
        )
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    draft.touch(mode=0o600, exist_ok=False)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA)
            connection.execute("PRAGMA journal_mode = WAL")
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def _check_file(path: Path) -> None:
    """Refuse what SQLite would take for a new database; without opening it, which would drop its locks."""
    if path.is_dir():
        raise LedgerError(f"ledger {path} is a directory: name a file in it, such as {path / 'ledger.db'}")
    if not path.is_file():
        raise LedgerError(f"ledger {path} is not a file: name one with --ledger sqlite:PATH")
    if path.stat().st_size == 0:
        raise LedgerError(f"ledger {path} is damaged (it is empty): {_start_anew(path)}")


def _connect(path: Path, *, lock_timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=lock_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        _check_schema(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != _APPLICATION_ID:
        raise LedgerError(
            f"{path} is a database of another program, not a ledger:"
            " name another file with --ledger sqlite:PATH"
        )
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"ledger {path} has schema {version}, made by a newer burstwatch; this one knows schemas up to"
            f" {SCHEMA_VERSION}: update burstwatch, or name another file with --ledger sqlite:PATH"
        )


def _identify(path: Path) -> tuple[int, int] | None:
    """Which file is there now, None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _explain(error: OSError | sqlite3.Error, path: Path, lock_timeout_s: float) -> LedgerError:
    code = error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else 0
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        code = sqlite3.SQLITE_FULL
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            why = (
                f"has been locked by another process for {lock_timeout_s:g} s, so nothing was written:"
                f" try again, or see who holds it with: fuser -v {path}"
            )
        case sqlite3.SQLITE_FULL:
            why = "has no space left on its file system, nothing was written: free some, then run again"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            why = f"is damaged ({error}): {_start_anew(path)}"
        case sqlite3.SQLITE_IOERR:
            why = f"met a failing or full disk ({error}), nothing was written: check the disk, then run again"
        case _:
            why = (
                f"cannot be used ({error}): check owner and permissions of the file and its directory,"
                " or name another file with --ledger sqlite:PATH"
            )
    return LedgerError(f"ledger {path} {why}")


def _start_anew(path: Path) -> str:
    return (
        f"restore a copy, or move it away (mv {path}* ELSEWHERE) to start a new ledger, without the alert"
        " state and history of this one; nothing was deleted"
    )


def _channels_with(connection: sqlite3.Connection, channels: Sequence[str]) -> list[str]:
    """Every channel that was ever sent to: a process with fewer must not keep an alert from the others."""
    connection.executemany("INSERT OR IGNORE INTO channels VALUES (?)", [(name,) for name in channels])
    return [name for (name,) in connection.execute("SELECT name FROM channels ORDER BY name")]


def _apply(connection: sqlite3.Connection, change: Change, *, channels: Sequence[str]) -> bool:
    row = connection.execute(
        "SELECT revision FROM states WHERE volume_id = ?", (change.volume_id,)
    ).fetchone()
    if (row[0] if row else None) != change.expected_revision:
        return False
    if change.state is None:
        connection.execute("DELETE FROM states WHERE volume_id = ?", (change.volume_id,))
    else:
        connection.execute(
            "INSERT INTO states VALUES (?, ?, ?) ON CONFLICT (volume_id)"
            " DO UPDATE SET revision = excluded.revision, body = excluded.body",
            (change.volume_id, change.state.revision, _format_state(change.state)),
        )
    alerts = {alert.alert_id: alert for alert in change.alerts}
    for entry in _entries(change):
        is_new = _append(connection, entry)
        alert = alerts.get(str(entry.body.get("alert_id")))
        if is_new and entry.kind is EntryKind.ALERT and alert:
            for channel in channels:
                _enqueue(connection, alert, channel, revision=entry.revision)
    return True


def _entries(change: Change) -> list[LedgerEntry]:
    """The entries of a change, with one for each alert that came without."""
    told = {entry.body.get("alert_id") for entry in change.entries if entry.kind is EntryKind.ALERT}
    revisions = [entry.revision for entry in change.entries] or [(change.expected_revision or 0) + 1]
    untold = (
        LedgerEntry(
            volume_id=change.volume_id,
            revision=change.state.revision if change.state else max(revisions),
            kind=EntryKind.ALERT,
            at_s=alert.time_s,
            body=alert.to_document(),
        )
        for alert in change.alerts
        if alert.alert_id not in told
    )
    return [*change.entries, *untold]


def _append(connection: sqlite3.Connection, entry: LedgerEntry) -> bool:
    """Add an entry; False when it is there already."""
    about = " ".join(str(entry.body[key]) for key in ("alert_id", "channel") if key in entry.body)
    appended = connection.execute(
        "INSERT INTO entries (volume_id, revision, kind, about, at_s, body) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (volume_id, revision, kind, about) DO NOTHING",
        (entry.volume_id, entry.revision, entry.kind, about, entry.at_s, _format(entry.body)),
    )
    return appended.rowcount == 1


def _enqueue(connection: sqlite3.Connection, alert: Alert, channel: str, *, revision: int) -> None:
    connection.execute(
        "INSERT INTO deliveries (channel, alert_id, volume_id, revision, time_s, document, sent_as)"
        " VALUES (:channel, :alert_id, :volume_id, :revision, :time_s, :document, :alert_id)"
        " ON CONFLICT (channel, alert_id) DO NOTHING",
        {
            "channel": channel,
            "alert_id": alert.alert_id,
            "volume_id": alert.volume_id,
            "revision": revision,
            "time_s": alert.time_s,
            "document": _format(alert.to_document()),
        },
    )


def _bundle(connection: sqlite3.Connection, alert_ids: set[str], digest: Alert, channel: str) -> None:
    """All or nothing: a digest that names an alert already sent would send it twice."""
    given = {"channel": channel, "ids": json.dumps(sorted(alert_ids)), "digest_id": digest.alert_id}
    (untouched,) = connection.execute(
        "SELECT count(*) FROM deliveries WHERE channel = :channel AND attempts = 0 AND sent_as = alert_id"
        " AND alert_id IN (SELECT value FROM json_each(:ids))",
        given,
    ).fetchone()
    if not alert_ids or untouched != len(alert_ids):
        return
    connection.execute(
        "UPDATE deliveries SET sent_as = :digest_id"
        " WHERE channel = :channel AND sent_as IN (SELECT value FROM json_each(:ids))",
        given,
    )
    _enqueue(connection, digest, channel, revision=0)


def _record_delivered(connection: sqlite3.Connection, message_id: str, channel: str, at_s: int) -> None:
    given = {"channel": channel, "message_id": message_id}
    sent = connection.execute(
        "SELECT attempts, last_error FROM deliveries WHERE channel = :channel AND alert_id = :message_id",
        given,
    ).fetchone()
    alerts = connection.execute(
        "SELECT alert_id, volume_id, revision FROM deliveries"
        " WHERE channel = :channel AND sent_as = :message_id AND volume_id IS NOT NULL ORDER BY id",
        given,
    ).fetchall()
    for alert_id, volume_id, revision in alerts:
        body = {
            "alert_id": alert_id,
            "channel": channel,
            "attempts": sent[0],
            "last_error": sent[1],
            "digest_id": None if alert_id == message_id else message_id,
        }
        entry = LedgerEntry(
            volume_id=volume_id, revision=revision, kind=EntryKind.DELIVERED, at_s=at_s, body=body
        )
        _append(connection, entry)
    connection.execute("DELETE FROM deliveries WHERE channel = :channel AND sent_as = :message_id", given)


def _format(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _format_state(state: VolumeState) -> str:
    """The fields as JSON; those that are None are left out, as None is what they are by default."""
    known = ((name, getattr(state, name)) for name in _STATE_FIELDS)
    return _format({name: value for name, value in known if value is not None})


def _parse_state(body: str) -> VolumeState:
    document = json.loads(body)
    for name, kind in _STATE_ENUMS.items():
        if document.get(name) is not None:
            document[name] = kind(document[name])
    return VolumeState(**document)


def _parse_alert(document: str, volume_id: str | None) -> Alert:
    return replace(Alert.from_document(json.loads(document)), volume_id=volume_id)


def _pack(fingerprints: frozenset[int]) -> bytes:
    return struct.pack(f"<{len(fingerprints)}Q", *fingerprints)


def _unpack(packed: bytes) -> frozenset[int]:
    return frozenset(struct.unpack(f"<{len(packed) // 8}Q", packed))
