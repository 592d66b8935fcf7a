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
    file_identity,
    recovery_step,
    to_ledger_error,
)
from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.caps import ROUNDING_TOLERANCE_USD, Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.decoding import (
    UnreadableItems,
    make_unreadable,
    read_alert,
    read_entry,
    read_hold,
    read_manual_override,
    read_states,
)
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride, active_hold
from burstwatch.core.ledger.ledger import MAX_CLOCK_SKEW_S, Change, Delivery, FleetSnapshot, States, TickKind
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry, delivered_entry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.ledger.unreadable_item import ItemKind, UnreadableItem
from burstwatch.core.stored_values import DECODE_ERRORS
from burstwatch.core.text import sanitise

_format_json: Final = json.JSONEncoder(separators=(",", ":")).encode
_MAX_MESSAGE_CHARS: Final = 200
_MEMORY: Final = Path(":memory:")
_MAX_USD: Final = 1e12


class SqliteLedger:
    """The ``Ledger`` of ``burstwatch.core.ledger.ledger`` in an SQLite file.

    ``deliveries`` holds only what still has to be delivered: a row is removed when its DELIVERED entry is
    written. An alert is ``sent_as`` itself, or as the digest that replaced it. A claim belongs to the object
    that took it: one whose lease has expired cannot release the claim of its successor. ``reservations``
    holds what the states count against the caps; it changes in the same transaction as they do.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, lock_timeout_s: float) -> None:
        self._connection = connection
        self._path = path
        self._lock_timeout_s = lock_timeout_s
        self._is_file = path != _MEMORY
        self._file_identity = file_identity(path)
        self._owner = os.urandom(8).hex()
        self._lock = Lock()
        self._unreadable_items = UnreadableItems()

    @classmethod
    def open(cls, path: Path, *, lock_timeout_s: float = 5.0) -> Self:
        """Open the ledger in this file, or create it if the file does not exist.

        Raises:
            LedgerError: the file or its directory cannot be used; it is neither changed nor replaced.
        """
        path = path.absolute()
        try:
            if not path.exists():
                create(path)
            check_file(path)
            connection = connect(path, lock_timeout_s=lock_timeout_s)
        except (OSError, sqlite3.Error) as error:
            raise to_ledger_error(error, path, lock_timeout_s) from error
        return cls(connection, path=path, lock_timeout_s=lock_timeout_s)

    @classmethod
    def in_memory(cls) -> Self:
        """A ledger in memory, which is lost when it is closed."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(SCHEMA)
        return cls(connection, path=_MEMORY, lock_timeout_s=0.0)

    def close(self) -> None:
        """Close the file; closing again has no effect."""
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

    def take_unreadable(self) -> list[UnreadableItem]:
        return self._unreadable_items.take_all()

    def note_unreadable(self, item: UnreadableItem) -> None:
        self._unreadable_items.add(item)

    def states(self) -> States:
        with self._read_access() as connection:
            rows = connection.execute("SELECT volume_id, revision, body FROM states").fetchall()
            return self._read_states(rows)

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        with self._read_access() as connection:
            rows = connection.execute(
                "SELECT volume_id, revision, body FROM states"
                " WHERE volume_id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(volume_ids)),),
            ).fetchall()
            return self._read_states(rows)

    def _read_states(self, rows: Sequence[tuple[Any, Any, Any]]) -> States:
        states = read_states(rows, partial(_describe_row, "states"))
        for unreadable_state in states.unreadable.values():
            self._unreadable_items.add(unreadable_state)
        return states

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        with self._transaction() as connection:
            known_channels = _all_channels(connection, channels)
            return {
                change.volume_id for change in changes if _apply(connection, change, channels=known_channels)
            }

    def record_intent(
        self,
        change: Change,
        caps: Caps,
        *,
        now_s: float,
        respects_holds: bool,
        channels: Sequence[str],
        own_hold_reason: str | None = None,
    ) -> IntentResult:
        with self._transaction() as connection:
            holds = self._read_holds(connection).values() if respects_holds else ()
            hold = active_hold(holds, change.volume_id, now_s, own_reason=own_hold_reason)
            has_unreadable_amounts = self._repair_reservations(connection, change.volume_id)
            result = _evaluate_intent(
                connection, change, caps, hold, has_unreadable_amounts=has_unreadable_amounts
            )
            if result.status is IntentStatus.RECORDED:
                _apply(connection, change, channels=_all_channels(connection, channels))
            return result

    def _repair_reservations(self, connection: sqlite3.Connection, excluded_id: str) -> bool:
        """Restore damaged reservations of others from their states; whether a state is damaged too."""
        rows = connection.execute(
            "SELECT volume_id, usd_per_month, states.revision, body FROM reservations"
            " LEFT JOIN states USING (volume_id) WHERE volume_id != ?"
            " AND NOT usd_per_month BETWEEN 0 AND ?",
            (excluded_id, _MAX_USD),
        ).fetchall()
        for volume_id, usd_per_month, *_ in rows:
            error = ValueError(f"usd_per_month is {usd_per_month!r}")
            key = _describe_row("reservations", volume_id)
            self._unreadable_items.add(make_unreadable(ItemKind.TOTALS, volume_id, key, error))
        states = self._read_states([(v, revision, body) for v, _, revision, body in rows if body is not None])
        for volume_id, _, _, body in rows:
            if body is None or volume_id in states:
                _reserve(connection, volume_id, states.get(volume_id))
        return bool(states.unreadable)

    def holds(self, now_s: float) -> list[Hold]:
        with self._read_access() as connection:
            holds = [hold for hold in self._read_holds(connection).values() if hold.until_s > now_s]
            return sorted(holds, key=lambda hold: -hold.until_s)

    def _read_holds(self, connection: sqlite3.Connection) -> dict[Any, Hold]:
        """Every hold that was not lifted, by its key."""
        names = ("placed_by", "reason", "placed_at_s", "until_s")
        rows = connection.execute(
            "SELECT subject, placed_by, reason, placed_at_s, until_s FROM holds ORDER BY subject"
        )
        return {
            subject: read_hold(
                subject,
                dict(zip(names, row, strict=True)),
                key=_describe_row("holds", subject),
                unreadable_items=self._unreadable_items,
            )
            for subject, *row in rows.fetchall()
        }

    def place_hold(self, hold: Hold) -> None:
        """Place a hold on a volume, or on everything; a hold on the same subject is replaced."""
        subject = _subject(hold.volume_id)
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?, ?)",
                (subject, hold.by, hold.reason, hold.placed_at_s, hold.until_s),
            )
            body = {"by": hold.by, "reason": hold.reason, "until_s": hold.until_s}
            _append_event(connection, subject, EntryKind.HELD, hold.placed_at_s, body)
        self._unreadable_items.discard(_describe_row("holds", subject))

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End a hold and return it; None if it had expired before ``at_s``."""
        subject = _subject(volume_id)
        with self._transaction() as connection:
            holds = self._read_holds(connection)
            ended_subjects = [
                s for s, hold in holds.items() if s == subject or hold.subject is volume_id is None
            ]
            connection.executemany(
                "DELETE FROM holds WHERE subject = ?", [(ended_subject,) for ended_subject in ended_subjects]
            )
            for ended_subject in ended_subjects:
                self._unreadable_items.discard(_describe_row("holds", ended_subject))
            unexpired_holds = [
                holds[ended_subject]
                for ended_subject in ended_subjects
                if holds[ended_subject].until_s > at_s
            ]
            if not unexpired_holds:
                return None
            hold = (
                holds[subject]
                if subject in ended_subjects and holds[subject] in unexpired_holds
                else unexpired_holds[0]
            )
            body = {"by": by, "reason": hold.reason, "until_s": hold.until_s}
            _append_event(connection, subject, EntryKind.RELEASED, at_s, body)
            return hold

    def manual_overrides(self) -> dict[str, ManualWindowOverride]:
        with self._read_access() as connection:
            names = ("starts", "marked_by", "at_s", "until_s")
            rows = connection.execute(
                "SELECT name, starts, marked_by, at_s, until_s FROM window_marks ORDER BY name"
            )
            overrides = [
                read_manual_override(
                    name,
                    dict(zip(names, row, strict=True)),
                    key=_describe_row("window_marks", name),
                    unreadable_items=self._unreadable_items,
                )
                for name, *row in rows.fetchall()
            ]
            return {override.name: override for override in overrides}

    def record_manual_override(self, override: ManualWindowOverride) -> None:
        """Start or stop a window by hand: the last order counts, whatever its time is."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO window_marks VALUES (?, ?, ?, ?, ?)",
                (override.name, override.is_start, override.by, override.at_s, override.until_s),
            )
            body = {"starts": override.is_start, "by": override.by, "until_s": override.until_s}
            _append_event(connection, f"window {override.name}", EntryKind.WINDOW, override.at_s, body)

    def bind(self, origin: str) -> None:
        """Bind this ledger to one account and region: a volume that is not found there counts as deleted.

        Raises:
            LedgerError: the ledger belongs to another account or region.
        """
        with self._transaction() as connection:
            row = connection.execute("SELECT name FROM origin").fetchone()
            if row is None:
                connection.execute("INSERT INTO origin VALUES (?)", (origin,))
            elif row[0] != origin:
                raise LedgerError(
                    f"ledger {self._path} is that of {row[0]}, this is {origin}",
                    fix="name another file with --ledger sqlite:PATH",
                )

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        with self._read_access() as connection:
            names = ("revision", "kind", "at_s", "body")
            rows = connection.execute(
                "SELECT id, revision, kind, at_s, body FROM entries"
                " WHERE volume_id = ? AND at_s >= ? ORDER BY at_s, id",
                (volume_id, since_s),
            ).fetchall()
            parsed = (
                read_entry(
                    volume_id,
                    dict(zip(names, row, strict=True)),
                    key=_describe_row("entries", row_id),
                    unreadable_items=self._unreadable_items,
                )
                for row_id, *row in rows
            )
            return [entry for entry in parsed if entry is not None]

    def fleet_snapshot(self) -> FleetSnapshot | None:
        with self._read_access() as connection:
            row = connection.execute(
                "SELECT tick_s, fingerprints FROM completed_ticks"
                " WHERE kind = ? AND fingerprints IS NOT NULL",
                (TickKind.SWEEP,),
            ).fetchone()
            return self._unreadable_items.try_read(
                ItemKind.TICK,
                TickKind.SWEEP,
                _describe_row("completed_ticks", TickKind.SWEEP),
                lambda: (
                    FleetSnapshot(tick_at_s=stored_values.read_count(row[0]), fingerprints=_unpack(row[1]))
                    if row
                    else None
                ),
            )

    def claim_tick(self, kind: TickKind, tick_at_s: int, *, now_s: float, lease_s: float) -> bool:
        """See ``Ledger``; a claim in the future, left by a clock that was ahead, does not count."""
        with self._transaction() as connection:
            latest_s = now_s + lease_s + MAX_CLOCK_SKEW_S
            connection.execute(
                "DELETE FROM claimed_ticks WHERE kind = ? AND NOT claimed_until_s BETWEEN ? AND ?",
                (kind, math.nextafter(now_s, latest_s), latest_s),
            )
            conflicting_row = connection.execute(
                "SELECT 1 FROM completed_ticks WHERE kind = :kind AND tick_s BETWEEN :tick_s AND :latest_s"
                " UNION ALL SELECT 1 FROM claimed_ticks WHERE kind = :kind AND tick_s >= :tick_s"
                " UNION ALL SELECT 1 FROM claimed_ticks WHERE kind = :kind AND :runs_alone AND tick_s >"
                " coalesce((SELECT tick_s FROM completed_ticks WHERE kind = :kind), -1)",
                {
                    "kind": kind,
                    "tick_s": tick_at_s,
                    "latest_s": latest_s,
                    "runs_alone": kind is TickKind.SWEEP,
                },
            ).fetchone()
            if conflicting_row:
                return False
            connection.execute(
                "INSERT INTO claimed_ticks VALUES (?, ?, ?)", (kind, tick_at_s, now_s + lease_s)
            )
            return True

    def renew_tick(
        self, kind: TickKind, tick_at_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """See ``Ledger``: a claim is identified by its tick and its end."""
        with self._transaction() as connection:
            cursor = connection.execute(
                "UPDATE claimed_ticks SET claimed_until_s = ?"
                " WHERE kind = ? AND tick_s = ? AND claimed_until_s = ?",
                (now_s + lease_s, kind, tick_at_s, until_s),
            )
            return cursor.rowcount > 0

    def complete_tick(
        self, kind: TickKind, tick_at_s: int, *, fleet_fingerprints: frozenset[int] | None = None
    ) -> None:
        """Record that a claimed tick is completed; without ``fleet_fingerprints`` the roster stays.

        The roster is the set of volumes that the last completed sweep knew.
        """
        fingerprints = None if fleet_fingerprints is None else _pack(fleet_fingerprints)
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO completed_ticks VALUES (?, ?, ?) ON CONFLICT (kind) DO UPDATE"
                " SET tick_s = excluded.tick_s, fingerprints = coalesce(excluded.fingerprints, fingerprints)"
                " WHERE excluded.tick_s >= tick_s",
                (kind, tick_at_s, fingerprints),
            )

    def replace_with_digest(
        self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]
    ) -> None:
        """Send ``digest`` instead of these alerts, on each channel that has not begun to send one of them."""
        with self._transaction() as connection:
            for channel in channels:
                _replace_with_digest(connection, set(alert_ids), digest, channel)

    def pending_deliveries(self, *, channels: Sequence[str]) -> list[Delivery]:
        """See ``Ledger``; the parts of a digest that cannot be read are sent one by one."""
        deliveries, unreadable_digests = self._read_pending(channels)
        if unreadable_digests and self._release_parts(unreadable_digests):
            deliveries, _ = self._read_pending(channels)
        return deliveries

    def _read_pending(self, channels: Sequence[str]) -> tuple[list[Delivery], list[tuple[str, str]]]:
        """What waits to be delivered, and the channel and ID of each alert that cannot be read."""
        with self._read_access() as connection:
            rows = connection.execute(
                "SELECT id, alert_id, document, volume_id, revision, time_s, channel, attempts,"
                " claimed_until_s FROM deliveries"
                " WHERE sent_as = alert_id AND channel IN (SELECT value FROM json_each(?))"
                " ORDER BY time_s, id",
                (json.dumps(list(channels)),),
            ).fetchall()
        deliveries: list[Delivery] = []
        unreadable_alerts: list[tuple[str, str]] = []
        for (
            row_id,
            alert_id,
            document,
            volume_id,
            revision,
            time_s,
            channel,
            attempts,
            claimed_until_s,
        ) in rows:
            try:
                alert = read_alert(document, volume_id)
                if alert.alert_id != alert_id:
                    raise ValueError(f"it is alert {alert.alert_id!r}")
                stored_values.read_count(revision)
                stored_values.read_instant(time_s)
                stored_values.read_instant(claimed_until_s or 0)
                deliveries.append(
                    Delivery(alert=alert, channel=channel, attempts=stored_values.read_count(attempts))
                )
            except DECODE_ERRORS as error:
                self._unreadable_items.add(
                    make_unreadable(ItemKind.ALERT, channel, _describe_row("deliveries", row_id), error)
                )
                unreadable_alerts.append((channel, alert_id))
        return deliveries, unreadable_alerts

    def _release_parts(self, digests: Sequence[tuple[str, str]]) -> bool:
        """Let the parts of these digests be sent one by one; False if they have none."""
        with self._transaction() as connection:
            cursor = connection.executemany(
                "UPDATE deliveries SET sent_as = alert_id"
                " WHERE channel = ? AND sent_as = ? AND alert_id != sent_as",
                digests,
            )
            return cursor.rowcount > 0

    def claim_delivery(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        with self._transaction() as connection:
            cursor = connection.execute(
                "UPDATE deliveries SET attempts = attempts + 1, claimed_by = ?, claimed_until_s = ?"
                " WHERE channel = ? AND alert_id = ? AND sent_as = alert_id"
                " AND (claimed_until_s IS NULL OR claimed_until_s <= ?)",
                (self._owner, now_s + lease_s, delivery.channel, delivery.alert.alert_id, now_s),
            )
            return cursor.rowcount == 1

    def mark_delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert, and for a digest every alert that it contains."""
        with self._transaction() as connection:
            _record_delivered(connection, delivery.alert.alert_id, delivery.channel, at_s)

    def mark_undelivered(self, delivery: Delivery, *, error: str) -> None:
        """Release the claim; ``error`` is noted in the DELIVERED entry if a later attempt succeeds."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE deliveries SET claimed_by = NULL, claimed_until_s = NULL, last_error = ?"
                " WHERE channel = ? AND alert_id = ? AND claimed_by = ?",
                (error, delivery.channel, delivery.alert.alert_id, self._owner),
            )

    @contextmanager
    def _locked_connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._is_file and file_identity(self._path) != self._file_identity:
                raise LedgerError(
                    f"ledger {self._path} was moved, deleted or replaced while in use, so nothing"
                    " more is written to the file that was opened",
                    fix="put it back, or start again with what is there now",
                )
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise to_ledger_error(error, self._path, self._lock_timeout_s) from error

    @contextmanager
    def _read_access(self) -> Iterator[sqlite3.Connection]:
        with self._locked_connection() as connection:
            try:
                yield connection
            except (*DECODE_ERRORS, struct.error) as error:
                message = sanitise(str(error), _MAX_MESSAGE_CHARS)
                raise LedgerError(
                    f"ledger {self._path} holds a row that this burstwatch cannot read ({message})",
                    fix=(
                        "use the newest burstwatch that ever wrote to it; if that fails too,"
                        f" {recovery_step(self._path)}"
                    ),
                ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._locked_connection() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection


def _all_channels(connection: sqlite3.Connection, channels: Sequence[str]) -> list[str]:
    """Every known channel: a process with fewer channels must not withhold an alert from the others."""
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
            (change.volume_id, change.state.revision, _format_json(change.state.to_document())),
        )
    alerts = {alert.alert_id: alert for alert in change.alerts}
    for entry in change.entries_with_alerts:
        document = _format_json(entry.body)
        is_new = _append_entry(connection, entry, document)
        alert = alerts.get(str(entry.body.get("alert_id")))
        if is_new and entry.kind is EntryKind.ALERT and alert:
            _enqueue(connection, alert, document, channels, revision=entry.revision)
    return True


def _reserve(connection: sqlite3.Connection, volume_id: str, state: ResourceState | None) -> None:
    """Count the volume against the caps exactly while its flip ``counts_against_caps``."""
    connection.execute("DELETE FROM reservations WHERE volume_id = ?", (volume_id,))
    flip = state.flip if state else None
    if flip is not None and flip.counts_against_caps:
        connection.execute("INSERT INTO reservations VALUES (?, ?)", (volume_id, flip.reserved_usd))


def _evaluate_intent(
    connection: sqlite3.Connection,
    change: Change,
    caps: Caps,
    hold: Hold | None,
    *,
    has_unreadable_amounts: bool,
) -> IntentResult:
    """Decide whether an intent may be recorded; an unknown amount counts as all that the cap allows."""
    volumes, usd_per_month = connection.execute(
        "SELECT count(*), total(iif(usd_per_month BETWEEN 0 AND ?, usd_per_month, 0)) FROM reservations"
        " WHERE volume_id != ?",
        (_MAX_USD, change.volume_id),
    ).fetchone()
    if has_unreadable_amounts and caps.usd_per_month is not None:
        usd_per_month = max(usd_per_month, caps.usd_per_month + 2 * ROUNDING_TOLERANCE_USD)
    result = IntentResult(status=IntentStatus.RECORDED, volumes=volumes, usd_per_month=usd_per_month)
    if not _is_expected(connection, change):
        return replace(result, status=IntentStatus.CONFLICT)
    if hold is not None:
        return replace(result, status=IntentStatus.HELD, hold=hold)
    flip = change.state.flip if change.state else None
    return replace(result, status=caps.check(flip, away_count=volumes, added_usd=usd_per_month))


def _subject(volume_id: str | None) -> str:
    return FLEET if volume_id is None else volume_id


def _describe_row(table: str, name: Any) -> str:
    """The place of a row in words, for people who look it up."""
    return f"table {table}, {name!s}"


def _append_event(
    connection: sqlite3.Connection, subject: str, kind: EntryKind, at_s: int, body: Mapping[str, Any]
) -> None:
    """Add an entry that belongs to no revision; those of the same second are numbered."""
    connection.execute(
        "INSERT INTO entries (volume_id, revision, kind, about, at_s, body)"
        " SELECT :subject, :at_s, :kind, count(*), :at_s, :body FROM entries"
        " WHERE volume_id = :subject AND revision = :at_s AND kind = :kind",
        {"subject": subject, "kind": kind, "at_s": at_s, "body": _format_json(body)},
    )


def _append_entry(connection: sqlite3.Connection, entry: LedgerEntry, body: str) -> bool:
    """Add an entry, whose body is given as JSON; False if it exists already."""
    cursor = connection.execute(
        "INSERT INTO entries (volume_id, revision, kind, about, at_s, body) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (volume_id, revision, kind, about) DO NOTHING",
        (entry.volume_id, entry.revision, entry.kind, entry.fingerprint, entry.at_s, body),
    )
    return cursor.rowcount == 1


def _enqueue(
    connection: sqlite3.Connection, alert: Alert, document: str, channels: Sequence[str], *, revision: int
) -> None:
    connection.executemany(
        "INSERT INTO deliveries (channel, alert_id, volume_id, revision, time_s, document, sent_as)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?2) ON CONFLICT (channel, alert_id) DO NOTHING",
        [(channel, alert.alert_id, alert.volume_id, revision, alert.at_s, document) for channel in channels],
    )


def _replace_with_digest(
    connection: sqlite3.Connection, alert_ids: set[str], digest: Alert, channel: str
) -> None:
    """Replace all of these alerts or none: a digest with an alert that was sent would send it twice."""
    parameters = {"channel": channel, "ids": json.dumps(sorted(alert_ids)), "digest_id": digest.alert_id}
    (untouched_count,) = connection.execute(
        "SELECT count(*) FROM deliveries WHERE channel = :channel AND attempts = 0 AND sent_as = alert_id"
        " AND alert_id IN (SELECT value FROM json_each(:ids))",
        parameters,
    ).fetchone()
    if not alert_ids or untouched_count != len(alert_ids):
        return
    connection.execute(
        "UPDATE deliveries SET sent_as = :digest_id"
        " WHERE channel = :channel AND sent_as IN (SELECT value FROM json_each(:ids))",
        parameters,
    )
    _enqueue(connection, digest, _format_json(digest.to_document()), [channel], revision=0)


def _record_delivered(connection: sqlite3.Connection, message_id: str, channel: str, at_s: int) -> None:
    parameters = {"channel": channel, "message_id": message_id}
    attempt_row = connection.execute(
        "SELECT attempts, last_error FROM deliveries WHERE channel = :channel AND alert_id = :message_id",
        parameters,
    ).fetchone()
    alerts = connection.execute(
        "SELECT alert_id, volume_id, revision FROM deliveries"
        " WHERE channel = :channel AND sent_as = :message_id AND volume_id IS NOT NULL ORDER BY id",
        parameters,
    ).fetchall()
    for alert_id, volume_id, revision in alerts:
        entry = delivered_entry(
            alert_id,
            volume_id,
            revision=revision,
            at_s=at_s,
            channel=channel,
            attempts=attempt_row[0],
            last_error=attempt_row[1],
            message_id=message_id,
        )
        _append_entry(connection, entry, _format_json(entry.body))
    connection.execute(
        "DELETE FROM deliveries WHERE channel = :channel AND sent_as = :message_id", parameters
    )


def _pack(fingerprints: frozenset[int]) -> bytes:
    return struct.pack(f"<{len(fingerprints)}Q", *fingerprints)


def _unpack(packed: bytes) -> frozenset[int]:
    if len(packed) % 8:
        raise ValueError(f"a roster of {len(packed)} bytes, which is not a multiple of 8")
    return frozenset(struct.unpack(f"<{len(packed) // 8}Q", packed))
