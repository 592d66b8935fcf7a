"""The ledger in one DynamoDB table, for the deployed watchdog; any number of processes may share it."""

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from os import urandom
from threading import Lock
from typing import Any, Final

from burstwatch.adapters.ledger.dynamodb_items import (
    AWAY,
    CHANNELS,
    HOLDS,
    MICRO,
    ORIGIN,
    SHARDS,
    STATE_ATTRIBUTES,
    WINDOWS,
    Told,
    away_of,
    describe_key,
    entry_item,
    history_key,
    hold_item,
    hold_key,
    mark_item,
    parse_entries,
    parse_hold,
    parse_mark,
    parse_states,
    shard_key,
    state_item,
    state_key,
    tell,
    without,
)
from burstwatch.adapters.ledger.dynamodb_leases import Ticks
from burstwatch.adapters.ledger.dynamodb_outbox import Outbox
from burstwatch.adapters.ledger.dynamodb_table import (
    ABSENT,
    MOST_ACTIONS,
    Action,
    BusyError,
    Client,
    Condition,
    Item,
    Key,
    Table,
    check,
    delete,
    put,
    unchanged,
    update,
)
from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.decoding import Unread, unreadable
from burstwatch.core.ledger.flip_state import Direction, Hold, WindowMark, hold_on
from burstwatch.core.ledger.ledger import (
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
)

LAYOUT: Final = 1
"""Of the items in the table; a ledger with a later one is left alone."""

_ROUNDING_MICRO: Final = 1
"""What dollars may be off by, in millionths."""

_MOST_AWAY: Final = 1_000_000
_MOST_MICRO: Final = 10**9 * MICRO
"""Totals from here on, a billion dollars a month, are damage: they would refuse every flip."""

_MOST_TOLD: Final = MOST_ACTIONS - 5
_MOST_FAILURES: Final = 3
"""Changes that may fail in one commit before the others are not tried any more."""


class DynamoLedger:
    """The ``Ledger`` of ``core.ledger`` in a table with the keys ``pk`` and ``sk``, both text.

    Every read is strongly consistent, every write conditional, and nothing is ever scanned. What it costs, in
    read (r) and write (w) units of 4 KB and 1 KB, begun ones counted whole:

    ===========================================  ==========================================================
    a quiet focus tick, however large the fleet  13 r, 2 r for each channel, 4 w
    a quiet sweep tick                           2 r and 4 w more
    ``states``                                   8 r when there are none; 1 r for each 16 volumes or so
    a look that changes a state alone            1 w
    with history, alerts or a flip               2 w for each item: state, entry, delivery, totals
    ``begin``                                    4 r, 10 w: state, totals, two holds, entry
    a fleet that is not what it was              2 w for each 128 volumes: the new roster and the old
    a process that starts                        1 r for each 512 volumes: it reads the roster once
    ===========================================  ==========================================================

    ``away`` repeats of the states what counts against the caps, in one item that changes with them in the
    same transaction. A claim belongs to the object that took it, as in the SQLite ledger.
    """

    def __init__(
        self,
        client: Client,
        table_name: str,
        *,
        workers: int = 8,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """The client should retry in ``standard`` mode, and keep a connection for each of the ``workers``.

        ``clock`` is only for what lasts a minute at most; whoever calls tells the time of everything else.
        """
        self._table = Table(client, table_name, workers=workers, sleep=sleep)
        self._me = urandom(8).hex()
        self._writes = count()
        self._unread = Unread()
        self._outbox = Outbox(self._table, owner=self._me, clock=clock, unread=self._unread)
        self._ticks = Ticks(self._table, unread=self._unread)
        self._channels: frozenset[str] = frozenset()
        self._intents = Lock()

    @property
    def location(self) -> str:
        return self._table.location

    def take_unreadable(self) -> list[Unreadable]:
        return self._unread.take()

    def note_unreadable(self, one: Unreadable) -> None:
        self._unread.add(one)

    def states(self) -> States:
        shards = self._table.each(self._states_in, range(SHARDS))
        return parse_states((item for items in shards for item in items), self._unread)

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        return parse_states(self._table.get_many(map(state_key, volume_ids)).values(), self._unread)

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        """Each change in a transaction of its own, several at once; those of one volume in their order.

        Raises:
            LedgerError: some were not written, and says how many were.
        """
        known = self._channels_with(channels, anew=any(change.alerts for change in changes))
        by_volume: dict[str, list[_Write]] = {}
        for change in changes:
            by_volume.setdefault(change.volume_id, []).append(self._prepare(change, known))
        if naming := self._naming(channels):
            self._table.write(naming)
        errors: list[LedgerError] = []

        def apply(writes: Sequence[_Write]) -> bool:
            try:
                return len(errors) < _MOST_FAILURES and sum(map(self._apply, writes)) > 0
            except LedgerError as error:
                errors.append(error)
                return False

        done = self._table.each(apply, list(by_volume.values()))
        applied = {volume_id for volume_id, is_done in zip(by_volume, done, strict=True) if is_done}
        if errors:
            told = f"{errors[0]} ({len(applied)} of {len(by_volume)} volumes were written)"
            raise LedgerError(told) from errors[0]
        return applied

    def begin(
        self, change: Change, caps: Caps, *, now_s: float, heeds_holds: bool, channels: Sequence[str]
    ) -> Beginning:
        """As the port says: what was read decides, and the transaction fails if it is not so any more."""
        write = self._prepare(change, self._channels_with(channels, anew=bool(change.alerts)))
        naming = self._naming(channels)
        hold_keys = [hold_key(None), hold_key(change.volume_id)] if heeds_holds else []
        not_held = Condition("attribute_not_exists(pk) OR until_s <= :now", {":now": now_s})
        tries = count()
        with self._intents:
            while True:
                seen = self._table.get_many([write.key, AWAY, *hold_keys])
                if self._recount(seen.get(AWAY)):
                    self._table.pause(next(tries), "the totals were counted again")
                    continue
                beginning = self._answer(write, seen, caps, now_s)
                if beginning.begun is not Begun.RECORDED:
                    return beginning
                reserved = seen.get(write.key, {}).get("away")
                head = write.head(reserved, unchanged(seen.get(AWAY), "volumes", "micro_usd"))
                guards = [*head, *naming, *(check(key, not_held) for key in hold_keys)]
                if self._is_recorded(write, guards):
                    return beginning
                self._table.pause(next(tries), "other intents came first")

    def holds(self, now_s: float) -> list[Hold]:
        holds = (parse_hold(item, self._unread) for item in self._table.query(HOLDS))
        return sorted((hold for hold in holds if hold.until_s > now_s), key=lambda hold: -hold.until_s)

    def place_hold(self, hold: Hold) -> None:
        """Keep a volume, or everything, as it is; a hold on the same is replaced."""
        body = {"by": hold.by, "reason": hold.reason, "until_s": hold.until_s}
        item = hold_item(hold, written=self._name_write())
        self._tell(item["sk"], EntryKind.HELD, hold.placed_at_s, body, put(item))
        self._unread.forget(describe_key((HOLDS, item["sk"])))

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End a hold, and say which it was; one that ended by itself before ``at_s`` only goes."""
        lifted = self._lift(hold_key(volume_id), by=by, at_s=at_s)
        if volume_id is not None:
            return lifted
        for item in self._table.query(HOLDS):
            if parse_hold(item, self._unread).subject is None:
                lifted = self._lift((HOLDS, item["sk"]), by=by, at_s=at_s) or lifted
        return lifted

    def _lift(self, key: Key, *, by: str, at_s: int) -> Hold | None:
        while item := self._table.get(key):
            hold = parse_hold(item, self._unread)
            lifted = delete(key, unchanged(item, "written"))
            if hold.until_s <= at_s:
                if not self._table.write([lifted]):
                    self._unread.forget(describe_key(key))
                    return None
                continue
            body = {"by": by, "reason": hold.reason, "until_s": hold.until_s}
            if self._tell(key[1], EntryKind.RELEASED, at_s, body, lifted):
                self._unread.forget(describe_key(key))
                return hold
        return None

    def window_marks(self) -> dict[str, WindowMark]:
        marks = (parse_mark(item, self._unread) for item in self._table.query(WINDOWS))
        return {mark.name: mark for mark in marks}

    def mark_window(self, mark: WindowMark) -> None:
        """Start or stop a window by hand: what was said last counts, whatever the clocks say."""
        body = {"starts": mark.starts, "by": mark.by, "until_s": mark.until_s}
        self._tell(f"window {mark.name}", EntryKind.WINDOW, mark.at_s, body, put(mark_item(mark)))

    def bind(self, origin: str) -> None:
        """Keep this ledger to one account and region: what is not seen there counts as deleted.

        Raises:
            LedgerError: the ledger is that of another, or of a later burstwatch.
        """
        item = {"pk": ORIGIN[0], "sk": ORIGIN[1], "origin": origin, "layout": LAYOUT}
        found = self._table.get(ORIGIN)
        if found is None and not self._table.put(item, ABSENT):
            found = self._table.get(ORIGIN)
        if found is None:
            return
        with self._table.readable():
            layout = stored_values.whole(found["layout"])
        if layout > LAYOUT:
            raise LedgerError(
                f"ledger {self.location} has layout {layout}, made by a newer burstwatch; this one"
                f" knows layouts up to {LAYOUT}: update burstwatch, or name another table with"
                " --ledger dynamodb:TABLE"
            )
        if (known := found.get("origin")) != origin:
            raise LedgerError(
                f"ledger {self.location} is that of {known}, this is {origin}:"
                " name another table with --ledger dynamodb:TABLE"
            )

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        """The history of one volume, oldest first; all of it is read, whatever is asked for."""
        since = Condition("at_s >= :since", {":since": since_s})
        items = self._table.query(history_key(volume_id), only=since)
        return parse_entries(volume_id, items, self._unread)

    def roster(self) -> Roster | None:
        return self._ticks.roster()

    def claim_tick(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        """As the port says; what a clock that was ahead has left in the future stops nobody."""
        return self._ticks.claim(kind, tick_s, now_s=now_s, lease_s=lease_s)

    def renew_tick(
        self, kind: TickKind, tick_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """As the port says: a claim is known by its tick and its end."""
        return self._ticks.renew(kind, tick_s, until_s=until_s, now_s=now_s, lease_s=lease_s)

    def complete_tick(self, kind: TickKind, tick_s: int, *, roster: frozenset[int] | None = None) -> None:
        """Record that a claimed tick did all its work; without a ``roster`` the one before stays."""
        self._ticks.complete(kind, tick_s, roster=roster)

    def bundle(self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]) -> None:
        """Send ``digest`` in place of these alerts, on each channel that has begun to send none of them."""
        for channel in channels:
            self._outbox.bundle(alert_ids, digest, channel)

    def waiting(self, *, channels: Sequence[str]) -> list[Delivery]:
        return self._outbox.waiting(channels)

    def claim(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        return self._outbox.claim(delivery, now_s=now_s, lease_s=lease_s)

    def delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert, and with a digest every alert that is in it."""
        self._outbox.delivered(delivery, at_s=at_s)

    def not_delivered(self, delivery: Delivery, *, error: str) -> None:
        """Give the claim back; ``error`` stands in the DELIVERED entry should a later send succeed."""
        self._outbox.not_delivered(delivery, error=error)

    def _states_in(self, shard: int) -> list[Item]:
        return list(self._table.query(shard_key(shard), attributes=STATE_ATTRIBUTES))

    def _channels_with(self, channels: Sequence[str], *, anew: bool) -> list[str]:
        """Every channel ever sent to: a process with fewer must not keep an alert from the others."""
        if anew or not self._channels.issuperset(channels):
            self._channels = self._read_channels()
        return sorted(self._channels.union(channels))

    def _read_channels(self) -> frozenset[str]:
        """The channels ever sent to; what is not a set of text is removed, so that names can be added."""
        found = self._table.get(CHANNELS) or {}
        known = found.get("channels", frozenset())
        if isinstance(known, frozenset):
            return known
        error = ValueError(f"channels is {known!r}, not a set of text")
        self._unread.add(unreadable(ItemKind.CHANNELS, "alerts", describe_key(CHANNELS), error))
        self._table.write([update(CHANNELS, "REMOVE channels", {}, unchanged(found, "channels"))])
        return frozenset()

    def _naming(self, channels: Sequence[str]) -> list[Action]:
        """What tells others of the channels that are new."""
        new = frozenset(channels) - self._channels
        return [update(CHANNELS, "ADD channels :new", {":new": new})] if new else []

    def _name_write(self) -> str:
        return f"{self._me} {next(self._writes)}"

    def _prepare(self, change: Change, channels: Sequence[str]) -> "_Write":
        """The items of a change, before anything is sent."""
        item = None if change.state is None else state_item(change.state, written=self._name_write())
        write = _Write(change, item, away_of(change.state), tell(change, channels))
        if (count := len(write.told_actions)) > _MOST_TOLD:
            raise LedgerError(
                f"a change of {change.volume_id} has {count} entries and deliveries, and one transaction of"
                f" DynamoDB takes {_MOST_TOLD} beside its state; nothing was written: please report this"
            )
        return write

    def _apply(self, write: "_Write") -> bool:
        """Write a change; what it reserved before is taken to be the same, and looked up if it was not."""
        reserved, tries = write.reserves, count()
        while True:
            head = write.head(reserved)
            try:
                failed = self._send(write, head)
            except LedgerError:
                if len(head) == 1 or not self._recount(self._table.get(AWAY)):
                    raise
                self._table.pause(next(tries), "the totals were counted again")
                continue
            if not failed:
                return True
            if 0 in failed:
                found = self._table.get(write.key)
                if found and write.item and found.get("written") == write.item["written"]:
                    return True
                if not write.is_expected(found):
                    return False
                reserved = found.get("away") if found else None
            write.told = without(write.told, failed, offset=len(head))
            self._table.pause(next(tries), "states changed")

    def _recount(self, found: Item | None) -> bool:
        """Whether totals that cannot be were counted again from the states, and written.

        While they are damaged no state that counts changes, or it shows in them: then nothing is written.

        Raises:
            LedgerError: what a state reserves cannot be read either.
        """
        if found is None or _are_plausible(found):
            return False
        reserved = [
            item["away"]
            for items in self._table.each(self._states_in, range(SHARDS))
            for item in items
            if "away" in item
        ]
        if not all(type(one) is int and one >= 0 for one in reserved):
            raise LedgerError(
                f"ledger {self.location}: what counts against the caps cannot be read, neither its total nor"
                " that of some state, so nothing is flipped: run burstctl doctor, and burstctl release with"
                " each volume that it names as unreadable"
            )
        counted = {":volumes": len(reserved), ":micro_usd": sum(reserved)}
        if list(counted.values()) == [found.get("volumes"), found.get("micro_usd")]:
            return False
        error = ValueError(f"volumes is {found.get('volumes')!r}, micro_usd is {found.get('micro_usd')!r}")
        self._unread.add(unreadable(ItemKind.TOTALS, "volumes away", describe_key(AWAY), error))
        as_found = unchanged(found, "volumes", "micro_usd")
        self._table.write([update(AWAY, "SET volumes = :volumes, micro_usd = :micro_usd", counted, as_found)])
        return True

    def _is_recorded(self, write: "_Write", guards: Sequence[Action]) -> bool:
        """Try it once: who met others looks again first, as they have changed what was looked at."""
        try:
            failed = self._table.write_now([*guards, *write.told_actions])
        except BusyError:
            return False
        write.told = without(write.told, failed, offset=len(guards))
        return not failed

    def _send(self, write: "_Write", head: Sequence[Action]) -> frozenset[int]:
        """A state that changes alone, as most do when they are looked at, needs no transaction."""
        actions = [*head, *write.told_actions]
        if len(actions) > 1 or write.item is None:
            return self._table.write(actions)
        is_put = self._table.put(write.item, write.as_expected(write.reserves))
        return frozenset() if is_put else frozenset({0})

    def _answer(self, write: "_Write", seen: Mapping[Key, Item], caps: Caps, now_s: float) -> Beginning:
        """What these items say about an intent."""
        state, totals = seen.get(write.key), seen.get(AWAY, {})
        reserved = state.get("away") if state else None
        volumes = totals.get("volumes", 0) - (reserved is not None)
        micro_usd = totals.get("micro_usd", 0) - (reserved or 0)
        others = Beginning(begun=Begun.RECORDED, volumes=max(0, volumes), usd_per_month=micro_usd / MICRO)
        if not write.is_expected(state):
            return replace(others, begun=Begun.OUTRUN)
        hold_keys = (hold_key(None), hold_key(write.change.volume_id))
        holds = [parse_hold(seen[key], self._unread) for key in hold_keys if key in seen]
        if hold := hold_on(holds, write.change.volume_id, now_s):
            return replace(others, begun=Begun.HELD, hold=hold)
        return replace(others, begun=_weigh(write, caps, volumes, micro_usd))

    def _tell(
        self, subject: str, kind: EntryKind, at_s: int, body: Mapping[str, Any], action: Action
    ) -> bool:
        """Do this with an entry that belongs to no revision; each of one second has a name of its own.

        Returns:
            Whether it is done: not where the condition of the action does not hold.
        """
        entry = LedgerEntry(volume_id=subject, revision=at_s, kind=kind, at_s=at_s, body=body)
        told = put(entry_item(entry, about=self._name_write(), told_ns=time.time_ns()), ABSENT)
        return not self._table.write([action, told])


@dataclass(slots=True)
class _Write:
    """A change on its way: the state's new item, what that reserves, and what is told of it."""

    change: Change
    item: Item | None
    reserves: int | None
    told: list[Told]

    @property
    def key(self) -> Key:
        return state_key(self.change.volume_id)

    @property
    def told_actions(self) -> list[Action]:
        return [action for told in self.told for action in told.actions]

    def is_expected(self, found: Item | None) -> bool:
        if found is None or self.change.expected_revision is None:
            return found is None and self.change.expected_revision is None
        return bool(found.get("revision") == self.change.expected_revision)

    def as_expected(self, reserved: int | None) -> Condition:
        """That the state is the expected one, and reserves this."""
        expected = self.change.expected_revision
        if expected is None:
            return ABSENT
        if reserved is None:
            return Condition("revision = :expected AND attribute_not_exists(away)", {":expected": expected})
        values = {":expected": expected, ":reserved": reserved}
        return Condition("revision = :expected AND away = :reserved", values)

    def head(self, reserved: int | None, totals: Condition | None = None) -> list[Action]:
        """The state, and where it reserves something else than before the ``totals``, if they are as seen."""
        reserved = None if self.change.expected_revision is None else reserved
        condition = self.as_expected(reserved)
        if self.item is not None:
            state = put(self.item, condition)
        elif condition is ABSENT:
            state = check(self.key, condition)
        else:
            state = delete(self.key, condition)
        if reserved == self.reserves:
            return [state]
        values = {
            ":volumes": (self.reserves is not None) - (reserved is not None),
            ":micro_usd": (self.reserves or 0) - (reserved or 0),
        }
        return [state, update(AWAY, "ADD volumes :volumes, micro_usd :micro_usd", values, totals)]


def _are_plausible(totals: Item) -> bool:
    """Whether totals can be what burstwatch added up; an item with neither is one that begins."""
    limits = {"volumes": _MOST_AWAY, "micro_usd": _MOST_MICRO}
    found = {name: totals.get(name, 0) for name in limits}
    return all(type(found[name]) is int and 0 <= found[name] < limit for name, limit in limits.items())


def _weigh(write: _Write, caps: Caps, volumes: int, micro_usd: int) -> Begun:
    """Whether one more volume is within the caps; one that returns is counted already."""
    flip = write.change.state.flip if write.change.state else None
    if flip is None or flip.direction is Direction.BACK:
        return Begun.RECORDED
    if caps.volumes is not None and volumes >= caps.volumes:
        return Begun.FLEET_CAP
    if caps.usd_per_month is not None:
        room = caps.usd_per_month * MICRO + _ROUNDING_MICRO - micro_usd
        return Begun.RECORDED if (write.reserves or 0) <= room else Begun.SPEND_CAP
    return Begun.RECORDED
