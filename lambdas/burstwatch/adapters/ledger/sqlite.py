"""The ledger in one SQLite file, for a single machine; any number of processes and threads may share it."""

import json
import math
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

from burstwatch.adapters.ledger.sqlite_schema import (
    SCHEMA,
    check_file,
    connect,
    create,
    explain,
    identify,
    start_anew,
)
from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.decoding import (
    EVERYTHING,
    Unread,
    read_alert,
    read_entry,
    read_hold,
    read_mark,
    read_states,
    unreadable,
)
from burstwatch.core.ledger.flip_state import Direction, Hold, WindowMark, hold_on
from burstwatch.core.ledger.ledger import (
    CLOCKS_AGREE_S,
    Beginning,
    Begun,
    Caps,
    Change,
    Delivery,
    EntryKind,
    ItemKind,
    LedgerEntry,
    Roster,
    States,
    TickKind,
    Unreadable,
    VolumeState,
)
from burstwatch.core.stored_values import UNREADABLE
from burstwatch.core.text import printable

_format: Final = json.JSONEncoder(separators=(",", ":")).encode
_LONGEST_SAID: Final = 200
_MEMORY: Final = Path(":memory:")
_MOST_USD: Final = 1e12
_ROUNDING_USD: Final = 1e-6
"""What adding up dollars may be off by."""


class SqliteLedger:
    """The ``Ledger`` of ``burstwatch.core.ledger.ledger`` in an SQLite file.

    ``deliveries`` holds only what is still to be delivered: a row goes when its DELIVERED entry comes. An
    alert is ``sent_as`` itself, or as the digest that took its place. A claim belongs to the object that
    took it: one whose lease ran out cannot give back the claim of its successor. ``reservations`` repeats of
    the states what counts against the caps; it changes with them, in the same transaction.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, lock_timeout_s: float) -> None:
        self._connection = connection
        self._path = path
        self._lock_timeout_s = lock_timeout_s
        self._is_file = path != _MEMORY
        self._file = identify(path)
        self._owner = os.urandom(8).hex()
        self._lock = Lock()
        self._unread = Unread()

    @classmethod
    def open(cls, path: Path, *, lock_timeout_s: float = 5.0) -> Self:
        """Open the ledger in this file, or make a new one where there is no file.

        Raises:
            LedgerError: The file or its directory cannot be used; it is neither changed nor replaced.
        """
        path = path.absolute()
        try:
            if not path.exists():
                create(path)
            check_file(path)
            connection = connect(path, lock_timeout_s=lock_timeout_s)
        except (OSError, sqlite3.Error) as error:
            raise explain(error, path, lock_timeout_s) from error
        return cls(connection, path=path, lock_timeout_s=lock_timeout_s)

    @classmethod
    def in_memory(cls) -> Self:
        """A ledger that is gone when it is closed."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(SCHEMA)
        return cls(connection, path=_MEMORY, lock_timeout_s=0.0)

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

    def take_unreadable(self) -> list[Unreadable]:
        return self._unread.take()

    def note_unreadable(self, one: Unreadable) -> None:
        self._unread.add(one)

    def states(self) -> States:
        with self._reading() as connection:
            rows = connection.execute("SELECT volume_id, revision, body FROM states").fetchall()
            return self._read_states(rows)

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT volume_id, revision, body FROM states"
                " WHERE volume_id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(volume_ids)),),
            ).fetchall()
            return self._read_states(rows)

    def _read_states(self, rows: Sequence[tuple[Any, Any, Any]]) -> States:
        states = read_states(rows, partial(_row, "states"))
        for one in states.unread.values():
            self._unread.add(one)
        return states

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        with self._writing() as connection:
            known = _channels_with(connection, channels)
            return {change.volume_id for change in changes if _apply(connection, change, channels=known)}

    def begin(
        self, change: Change, caps: Caps, *, now_s: float, heeds_holds: bool, channels: Sequence[str]
    ) -> Beginning:
        with self._writing() as connection:
            holds = self._holds(connection).values() if heeds_holds else ()
            hold = hold_on(holds, change.volume_id, now_s)
            is_doubtful = self._is_doubtful(connection, change.volume_id)
            beginning = _answer(connection, change, caps, hold, is_doubtful=is_doubtful)
            if beginning.begun is Begun.RECORDED:
                _apply(connection, change, channels=_channels_with(connection, channels))
            return beginning

    def _is_doubtful(self, connection: sqlite3.Connection, but_for: str) -> bool:
        """Count damaged reservations of other volumes again from their states; whether some state is, too."""
        rows = connection.execute(
            "SELECT volume_id, usd_per_month, states.revision, body FROM reservations"
            " LEFT JOIN states USING (volume_id) WHERE volume_id != ?"
            " AND NOT usd_per_month BETWEEN 0 AND ?",
            (but_for, _MOST_USD),
        ).fetchall()
        for volume_id, usd_per_month, *_ in rows:
            error = ValueError(f"usd_per_month is {usd_per_month!r}")
            key = _row("reservations", volume_id)
            self._unread.add(unreadable(ItemKind.TOTALS, volume_id, key, error))
        states = self._read_states([(v, revision, body) for v, _, revision, body in rows if body is not None])
        for volume_id, _, _, body in rows:
            if body is None or volume_id in states:
                _reserve(connection, volume_id, states.get(volume_id))
        return bool(states.unread)

    def holds(self, now_s: float) -> list[Hold]:
        with self._reading() as connection:
            holds = [hold for hold in self._holds(connection).values() if hold.until_s > now_s]
            return sorted(holds, key=lambda hold: -hold.until_s)

    def _holds(self, connection: sqlite3.Connection) -> dict[Any, Hold]:
        """Every hold that nobody lifted, by what it is filed under."""
        names = ("placed_by", "reason", "placed_at_s", "until_s")
        rows = connection.execute(
            "SELECT subject, placed_by, reason, placed_at_s, until_s FROM holds ORDER BY subject"
        )
        return {
            subject: read_hold(
                subject, dict(zip(names, row, strict=True)), key=_row("holds", subject), unread=self._unread
            )
            for subject, *row in rows.fetchall()
        }

    def place_hold(self, hold: Hold) -> None:
        """Keep a volume, or everything, as it is; a hold on the same is replaced."""
        subject = _subject(hold.volume_id)
        with self._writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?, ?)",
                (subject, hold.by, hold.reason, hold.placed_at_s, hold.until_s),
            )
            body = {"by": hold.by, "reason": hold.reason, "until_s": hold.until_s}
            _tell(connection, subject, EntryKind.HELD, hold.placed_at_s, body)
        self._unread.forget(_row("holds", subject))

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End a hold, and say which it was; one that ended by itself before ``at_s`` only goes."""
        subject = _subject(volume_id)
        with self._writing() as connection:
            holds = self._holds(connection)
            ending = [s for s, hold in holds.items() if s == subject or hold.subject is volume_id is None]
            connection.executemany("DELETE FROM holds WHERE subject = ?", [(each,) for each in ending])
            for each in ending:
                self._unread.forget(_row("holds", each))
            lasting = [holds[each] for each in ending if holds[each].until_s > at_s]
            if not lasting:
                return None
            hold = holds[subject] if subject in ending and holds[subject] in lasting else lasting[0]
            body = {"by": by, "reason": hold.reason, "until_s": hold.until_s}
            _tell(connection, subject, EntryKind.RELEASED, at_s, body)
            return hold

    def window_marks(self) -> dict[str, WindowMark]:
        with self._reading() as connection:
            names = ("starts", "marked_by", "at_s", "until_s")
            rows = connection.execute(
                "SELECT name, starts, marked_by, at_s, until_s FROM window_marks ORDER BY name"
            )
            marks = [
                read_mark(
                    name,
                    dict(zip(names, row, strict=True)),
                    key=_row("window_marks", name),
                    unread=self._unread,
                )
                for name, *row in rows.fetchall()
            ]
            return {mark.name: mark for mark in marks}

    def mark_window(self, mark: WindowMark) -> None:
        """Start or stop a window by hand: what was said last counts, whatever the clocks say."""
        with self._writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO window_marks VALUES (?, ?, ?, ?, ?)",
                (mark.name, mark.starts, mark.by, mark.at_s, mark.until_s),
            )
            body = {"starts": mark.starts, "by": mark.by, "until_s": mark.until_s}
            _tell(connection, f"window {mark.name}", EntryKind.WINDOW, mark.at_s, body)

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
            names = ("revision", "kind", "at_s", "body")
            rows = connection.execute(
                "SELECT id, revision, kind, at_s, body FROM entries"
                " WHERE volume_id = ? AND at_s >= ? ORDER BY at_s, id",
                (volume_id, since_s),
            ).fetchall()
            read = (
                read_entry(
                    volume_id,
                    dict(zip(names, row, strict=True)),
                    key=_row("entries", number),
                    unread=self._unread,
                )
                for number, *row in rows
            )
            return [entry for entry in read if entry is not None]

    def roster(self) -> Roster | None:
        with self._reading() as connection:
            row = connection.execute(
                "SELECT tick_s, fingerprints FROM completed_ticks"
                " WHERE kind = ? AND fingerprints IS NOT NULL",
                (TickKind.SWEEP,),
            ).fetchone()
            return self._unread.read(
                ItemKind.TICK,
                TickKind.SWEEP,
                _row("completed_ticks", TickKind.SWEEP),
                lambda: (
                    Roster(tick_s=stored_values.whole(row[0]), fingerprints=_unpack(row[1])) if row else None
                ),
            )

    def claim_tick(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        """As the port says; what a clock that was ahead has left in the future stops nobody."""
        with self._writing() as connection:
            latest_s = now_s + lease_s + CLOCKS_AGREE_S
            connection.execute(
                "DELETE FROM claimed_ticks WHERE kind = ? AND NOT claimed_until_s BETWEEN ? AND ?",
                (kind, math.nextafter(now_s, latest_s), latest_s),
            )
            taken = connection.execute(
                "SELECT 1 FROM completed_ticks WHERE kind = :kind AND tick_s BETWEEN :tick_s AND :latest_s"
                " UNION ALL SELECT 1 FROM claimed_ticks WHERE kind = :kind AND tick_s >= :tick_s"
                " UNION ALL SELECT 1 FROM claimed_ticks WHERE kind = :kind AND :runs_alone AND tick_s >"
                " coalesce((SELECT tick_s FROM completed_ticks WHERE kind = :kind), -1)",
                {
                    "kind": kind,
                    "tick_s": tick_s,
                    "latest_s": latest_s,
                    "runs_alone": kind is TickKind.SWEEP,
                },
            ).fetchone()
            if taken:
                return False
            connection.execute("INSERT INTO claimed_ticks VALUES (?, ?, ?)", (kind, tick_s, now_s + lease_s))
            return True

    def renew_tick(
        self, kind: TickKind, tick_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """As the port says: a claim is known by its tick and its end."""
        with self._writing() as connection:
            renewed = connection.execute(
                "UPDATE claimed_ticks SET claimed_until_s = ?"
                " WHERE kind = ? AND tick_s = ? AND claimed_until_s = ?",
                (now_s + lease_s, kind, tick_s, until_s),
            )
            return renewed.rowcount > 0

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
        """As the port says; the parts of a digest that cannot be read go out by themselves."""
        found, parked = self._waiting(channels)
        if parked and self._unbundle(parked):
            found, _ = self._waiting(channels)
        return found

    def _waiting(self, channels: Sequence[str]) -> tuple[list[Delivery], list[tuple[str, str]]]:
        """What waits, and the channel and id of each that cannot be read."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, alert_id, document, volume_id, revision, time_s, channel, attempts,"
                " claimed_until_s FROM deliveries"
                " WHERE sent_as = alert_id AND channel IN (SELECT value FROM json_each(?))"
                " ORDER BY time_s, id",
                (json.dumps(list(channels)),),
            ).fetchall()
        found: list[Delivery] = []
        parked: list[tuple[str, str]] = []
        for number, alert_id, document, volume_id, revision, time_s, channel, attempts, claimed_s in rows:
            try:
                alert = read_alert(document, volume_id)
                if alert.alert_id != alert_id:
                    raise ValueError(f"it is alert {alert.alert_id!r}")
                stored_values.whole(revision)
                stored_values.instant(time_s)
                stored_values.instant(claimed_s or 0)
                found.append(Delivery(alert=alert, channel=channel, attempts=stored_values.whole(attempts)))
            except UNREADABLE as error:
                self._unread.add(unreadable(ItemKind.ALERT, channel, _row("deliveries", number), error))
                parked.append((channel, alert_id))
        return found, parked

    def _unbundle(self, digests: Sequence[tuple[str, str]]) -> bool:
        """Let the parts of these digests go out by themselves; False where they have none."""
        with self._writing() as connection:
            freed = connection.executemany(
                "UPDATE deliveries SET sent_as = alert_id"
                " WHERE channel = ? AND sent_as = ? AND alert_id != sent_as",
                digests,
            )
            return freed.rowcount > 0

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
            if self._is_file and identify(self._path) != self._file:
                raise LedgerError(
                    f"ledger {self._path} was moved, deleted or replaced while in use, so nothing more is"
                    " written to the file that was opened: put it back, or start again with what is there now"
                )
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise explain(error, self._path, self._lock_timeout_s) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._using() as connection:
            try:
                yield connection
            except (*UNREADABLE, struct.error) as error:
                said = printable(str(error), _LONGEST_SAID)
                raise LedgerError(
                    f"ledger {self._path} holds a row that this burstwatch cannot read ({said}): use the"
                    f" newest burstwatch that ever wrote to it; if that fails too, {start_anew(self._path)}"
                ) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._using() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection


def _channels_with(connection: sqlite3.Connection, channels: Sequence[str]) -> list[str]:
    """Every channel that was ever sent to: a process with fewer must not keep an alert from the others."""
    connection.executemany("INSERT OR IGNORE INTO channels VALUES (?)", [(name,) for name in channels])
    return [name for (name,) in connection.execute("SELECT name FROM channels ORDER BY name")]


def _is_expected(connection: sqlite3.Connection, change: Change) -> bool:
    row = connection.execute(
        "SELECT revision FROM states WHERE volume_id = ?", (change.volume_id,)
    ).fetchone()
    return (row[0] if row else None) == change.expected_revision


def _apply(connection: sqlite3.Connection, change: Change, *, channels: Sequence[str]) -> bool:
    if not _is_expected(connection, change):
        return False
    _reserve(connection, change.volume_id, change.state)
    if change.state is None:
        connection.execute("DELETE FROM states WHERE volume_id = ?", (change.volume_id,))
    else:
        connection.execute(
            "INSERT INTO states VALUES (?, ?, ?) ON CONFLICT (volume_id)"
            " DO UPDATE SET revision = excluded.revision, body = excluded.body",
            (change.volume_id, change.state.revision, _format(change.state.to_document())),
        )
    alerts = {alert.alert_id: alert for alert in change.alerts}
    for entry in _entries(change):
        is_new = _append(connection, entry)
        alert = alerts.get(str(entry.body.get("alert_id")))
        if is_new and entry.kind is EntryKind.ALERT and alert:
            for channel in channels:
                _enqueue(connection, alert, channel, revision=entry.revision)
    return True


def _reserve(connection: sqlite3.Connection, volume_id: str, state: VolumeState | None) -> None:
    """Count the volume against the caps exactly while its flip ``reserves``."""
    connection.execute("DELETE FROM reservations WHERE volume_id = ?", (volume_id,))
    flip = state.flip if state else None
    if flip is not None and flip.reserves:
        usd_per_month = max(0.0, flip.usd_per_month)
        connection.execute("INSERT INTO reservations VALUES (?, ?)", (volume_id, usd_per_month))


def _answer(
    connection: sqlite3.Connection, change: Change, caps: Caps, hold: Hold | None, *, is_doubtful: bool
) -> Beginning:
    """What the ledger says about an intent; an amount that is not known counts as all that the cap allows."""
    volumes, usd_per_month = connection.execute(
        "SELECT count(*), total(iif(usd_per_month BETWEEN 0 AND ?, usd_per_month, 0)) FROM reservations"
        " WHERE volume_id != ?",
        (_MOST_USD, change.volume_id),
    ).fetchone()
    if is_doubtful and caps.usd_per_month is not None:
        usd_per_month = max(usd_per_month, caps.usd_per_month + 2 * _ROUNDING_USD)
    others = Beginning(begun=Begun.RECORDED, volumes=volumes, usd_per_month=usd_per_month)
    if not _is_expected(connection, change):
        return replace(others, begun=Begun.OUTRUN)
    if hold is not None:
        return replace(others, begun=Begun.HELD, hold=hold)
    return replace(others, begun=_weigh(change, caps, others))


def _weigh(change: Change, caps: Caps, others: Beginning) -> Begun:
    """Whether one more volume is within the caps; one that returns is counted already."""
    flip = change.state.flip if change.state else None
    if flip is None or flip.direction is Direction.BACK:
        return Begun.RECORDED
    if caps.volumes is not None and others.volumes >= caps.volumes:
        return Begun.FLEET_CAP
    usd_per_month = others.usd_per_month + max(0.0, flip.usd_per_month)
    if caps.usd_per_month is not None and usd_per_month > caps.usd_per_month + _ROUNDING_USD:
        return Begun.SPEND_CAP
    return Begun.RECORDED


def _subject(volume_id: str | None) -> str:
    return EVERYTHING if volume_id is None else volume_id


def _row(table: str, name: Any) -> str:
    """Where a row is, as people look it up."""
    return f"table {table}, {name!s}"


def _tell(
    connection: sqlite3.Connection, subject: str, kind: EntryKind, at_s: int, body: Mapping[str, Any]
) -> None:
    """Add an entry that belongs to no revision; those of one second are numbered."""
    connection.execute(
        "INSERT INTO entries (volume_id, revision, kind, about, at_s, body)"
        " SELECT :subject, :at_s, :kind, count(*), :at_s, :body FROM entries"
        " WHERE volume_id = :subject AND revision = :at_s AND kind = :kind",
        {"subject": subject, "kind": kind, "at_s": at_s, "body": _format(body)},
    )


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


def _pack(fingerprints: frozenset[int]) -> bytes:
    return struct.pack(f"<{len(fingerprints)}Q", *fingerprints)


def _unpack(packed: bytes) -> frozenset[int]:
    if len(packed) % 8:
        raise ValueError(f"a roster of {len(packed)} bytes, which is no multiple of 8")
    return frozenset(struct.unpack(f"<{len(packed) // 8}Q", packed))
