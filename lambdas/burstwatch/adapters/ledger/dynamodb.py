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
    CHANNELS_KEY,
    HOLDS_PARTITION,
    MICROS_PER_USD,
    ORIGIN_KEY,
    SHARDS,
    STATE_ATTRIBUTES,
    TOTALS_KEY,
    WINDOWS_PARTITION,
    ActionGroup,
    describe_key,
    drop_failed,
    entry_actions,
    entry_item,
    history_key,
    hold_item,
    hold_key,
    manual_override_item,
    parse_entries,
    parse_hold,
    parse_manual_override,
    parse_states,
    reserved_amount,
    shard_key,
    state_item,
    state_key,
)
from burstwatch.adapters.ledger.dynamodb_leases import TickLeases
from burstwatch.adapters.ledger.dynamodb_outbox import Outbox
from burstwatch.adapters.ledger.dynamodb_table import (
    IF_ABSENT,
    MAX_ACTIONS,
    Action,
    Client,
    Condition,
    ContentionError,
    Item,
    Key,
    Table,
    check,
    delete,
    if_unchanged,
    put,
    update,
)
from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import LedgerError, PartialCommitError
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.decoding import UnreadableItems, make_unreadable
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride, active_hold
from burstwatch.core.ledger.ledger import Change, Delivery, FleetSnapshot, States, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.unreadable_item import ItemKind, UnreadableItem

LAYOUT: Final = 1
"""The layout of the items in the table; a ledger with a later layout is rejected."""


_MAX_PLAUSIBLE_VOLUMES: Final = 1_000_000
"""More flipped volumes than this are damage: no fleet has as many."""
_MAX_PLAUSIBLE_MICRO_USD: Final = 10**9 * MICROS_PER_USD
"""Totals above this (a billion dollars a month) are damaged: they would make the caps refuse every flip."""

_MAX_ENTRY_ACTIONS: Final = MAX_ACTIONS - 5
"""Actions of a transaction for entries; the others are for state, totals, holds and channels."""
_MAX_FAILURES: Final = 3
"""Changes that may fail in one commit; after that, the remaining ones are not tried."""


class DynamoLedger:
    """The ``Ledger`` of ``core.ledger`` in a table with the keys ``pk`` and ``sk``, both text.

    Every read is strongly consistent, every write is conditional, and nothing is ever scanned.

    Costs in read units of 4 KB (r) and write units of 1 KB (w)::

        a quiet focus tick, however large the fleet  13 r, 2 r for each channel, 4 w
        a quiet sweep tick                           2 r and 4 w more
        states                                       8 r without states; 1 r for each 16 volumes or so
        a poll that changes a state alone            1 w
        with history, alerts or a flip               2 w for each item: state, entry, delivery, totals
        record_intent                                4 r, 10 w: state, totals, two holds, entry
        a fleet that is not what it was              2 w for each 128 volumes: the new roster and the old
        a process that starts                        1 r for each 512 volumes: it reads the roster once

    The item ``away`` holds the total that counts against the caps. It changes with the states.
    A claim belongs to the object that took it, as in the SQLite ledger.
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

        ``clock`` is only for leases of at most a minute; callers pass every other time.
        """
        self._table = Table(client, table_name, workers=workers, sleep=sleep)
        self._owner = urandom(8).hex()
        self._write_numbers = count()
        self._unreadable_items = UnreadableItems()
        self._outbox = Outbox(
            self._table, owner=self._owner, clock=clock, unreadable_items=self._unreadable_items
        )
        self._tick_leases = TickLeases(self._table, unreadable_items=self._unreadable_items)
        self._channels: frozenset[str] = frozenset()
        self._intent_lock = Lock()

    @property
    def location(self) -> str:
        return self._table.location

    def take_unreadable(self) -> list[UnreadableItem]:
        return self._unreadable_items.take_all()

    def note_unreadable(self, item: UnreadableItem) -> None:
        self._unreadable_items.add(item)

    def states(self) -> States:
        shards = self._table.map_parallel(self._read_shard, range(SHARDS))
        return parse_states((item for items in shards for item in items), self._unreadable_items)

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        return parse_states(self._table.get_many(map(state_key, volume_ids)).values(), self._unreadable_items)

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        """Write each change in a transaction of its own, in parallel; those of one volume in their order.

        Raises:
            PartialCommitError: some were not written, and the others were.
            LedgerError: several were not written, and the remaining ones were not tried.
        """
        known_channels = self._all_channels(channels, refresh=any(change.alerts for change in changes))
        by_volume: dict[str, list[_Write]] = {}
        for change in changes:
            by_volume.setdefault(change.volume_id, []).append(self._prepare(change, known_channels))
        if registration := self._channel_registration(channels):
            self._table.write(registration)
        errors: list[LedgerError] = []

        def apply(writes: Sequence[_Write]) -> bool:
            try:
                return len(errors) < _MAX_FAILURES and sum(map(self._apply, writes)) > 0
            except LedgerError as error:
                errors.append(error)
                return False

        results = self._table.map_parallel(apply, list(by_volume.values()))
        applied = {volume_id for volume_id, is_applied in zip(by_volume, results, strict=True) if is_applied}
        if errors:
            problem = errors[0].problem
            counts = (
                f" ({len(applied)} of {len(by_volume)} volumes were written)" if len(by_volume) > 1 else ""
            )
            message = f"{problem.cause}{counts}"
            if len(errors) < _MAX_FAILURES:
                raise PartialCommitError(message, fix=problem.fix, written_ids=applied) from errors[0]
            raise LedgerError(message, fix=problem.fix) from errors[0]
        return applied

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
        """See ``Ledger``: the transaction fails if what was read before has changed."""
        write = self._prepare(change, self._all_channels(channels, refresh=bool(change.alerts)))
        registration = self._channel_registration(channels)
        hold_keys = [hold_key(None), hold_key(change.volume_id)] if respects_holds else []
        tries = count()
        with self._intent_lock:
            while True:
                items = self._table.get_many([write.key, TOTALS_KEY, *hold_keys])
                if self._repair_totals(items.get(TOTALS_KEY)):
                    self._table.pause(next(tries), "the totals were counted again")
                    continue
                result = self._evaluate_intent(write, items, caps, now_s, own_hold_reason)
                if result.status is not IntentStatus.RECORDED:
                    return result
                old_reservation = items.get(write.key, {}).get("away")
                state_actions = write.state_actions(
                    old_reservation, if_unchanged(items.get(TOTALS_KEY), "volumes", "micro_usd")
                )
                preconditions = [
                    *state_actions,
                    *registration,
                    *(check(key, if_unchanged(items.get(key), "written", "until_s")) for key in hold_keys),
                ]
                if self._try_record(write, preconditions):
                    return result
                self._table.pause(next(tries), "other intents came first")

    def holds(self, now_s: float) -> list[Hold]:
        holds = (parse_hold(item, self._unreadable_items) for item in self._table.query(HOLDS_PARTITION))
        return sorted((hold for hold in holds if hold.until_s > now_s), key=lambda hold: -hold.until_s)

    def place_hold(self, hold: Hold) -> None:
        """Place a hold on a volume, or on everything; a hold on the same subject is replaced."""
        body = {"by": hold.by, "reason": hold.reason, "until_s": hold.until_s}
        item = hold_item(hold, written=self._next_write_name())
        self._write_with_entry(item["sk"], EntryKind.HELD, hold.placed_at_s, body, put(item))
        self._unreadable_items.discard(describe_key((HOLDS_PARTITION, item["sk"])))

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End a hold and return it; None if it had expired before ``at_s``."""
        lifted_hold = self._lift_key(hold_key(volume_id), by=by, at_s=at_s)
        if volume_id is not None:
            return lifted_hold
        for item in self._table.query(HOLDS_PARTITION):
            if parse_hold(item, self._unreadable_items).subject is None:
                lifted_hold = self._lift_key((HOLDS_PARTITION, item["sk"]), by=by, at_s=at_s) or lifted_hold
        return lifted_hold

    def _lift_key(self, key: Key, *, by: str, at_s: int) -> Hold | None:
        while item := self._table.get(key):
            hold = parse_hold(item, self._unreadable_items)
            delete_action = delete(key, if_unchanged(item, "written"))
            if hold.until_s <= at_s:
                if not self._table.write([delete_action]):
                    self._unreadable_items.discard(describe_key(key))
                    return None
                continue
            body = {"by": by, "reason": hold.reason, "until_s": hold.until_s}
            if self._write_with_entry(key[1], EntryKind.RELEASED, at_s, body, delete_action):
                self._unreadable_items.discard(describe_key(key))
                return hold
        return None

    def manual_overrides(self) -> dict[str, ManualWindowOverride]:
        overrides = (
            parse_manual_override(item, self._unreadable_items)
            for item in self._table.query(WINDOWS_PARTITION)
        )
        return {override.name: override for override in overrides}

    def record_manual_override(self, override: ManualWindowOverride) -> None:
        """Start or stop a window by hand: the last order counts, whatever its time is."""
        body = {"starts": override.is_start, "by": override.by, "until_s": override.until_s}
        self._write_with_entry(
            f"window {override.name}",
            EntryKind.WINDOW,
            override.at_s,
            body,
            put(manual_override_item(override)),
        )

    def bind(self, origin: str) -> None:
        """Bind this ledger to one account and region: a volume that is not found there counts as deleted.

        Raises:
            LedgerError: the ledger belongs to another account or region, or to a later version.
        """
        item = {"pk": ORIGIN_KEY[0], "sk": ORIGIN_KEY[1], "origin": origin, "layout": LAYOUT}
        current = self._table.get(ORIGIN_KEY)
        if current is None and not self._table.put(item, IF_ABSENT):
            current = self._table.get(ORIGIN_KEY)
        if current is None:
            return
        layout = self._unreadable_items.try_read(
            ItemKind.LAYOUT,
            self.location,
            describe_key(ORIGIN_KEY),
            lambda: stored_values.read_count(current["layout"]),
        )
        if layout is not None and layout > LAYOUT:
            raise LedgerError(
                f"ledger {self.location} has layout {layout}, made by a newer burstwatch; this one"
                f" knows layouts up to {LAYOUT}",
                fix="update burstwatch, or name another table with --ledger dynamodb:TABLE",
            )
        known_origin = current.get("origin")
        if not isinstance(known_origin, str) or not known_origin:
            raise LedgerError(
                f"the origin of ledger {self.location} ({describe_key(ORIGIN_KEY)}) cannot be read, so it may"
                f" be that of another account or region than {origin}",
                fix="restore the table to an earlier point in time, or name another table with"
                " --ledger dynamodb:TABLE",
            )
        if known_origin != origin:
            raise LedgerError(
                f"ledger {self.location} is that of {known_origin}, this is {origin}",
                fix="name another table with --ledger dynamodb:TABLE",
            )

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        """The history of one volume, the oldest entry first; all of it is read, whatever ``since_s`` is."""
        condition = Condition("at_s >= :since", {":since": since_s})
        items = self._table.query(history_key(volume_id), filter_condition=condition)
        return parse_entries(volume_id, items, self._unreadable_items)

    def fleet_snapshot(self) -> FleetSnapshot | None:
        return self._tick_leases.fleet_snapshot()

    def claim_tick(self, kind: TickKind, tick_at_s: int, *, now_s: float, lease_s: float) -> bool:
        """See ``Ledger``; a claim in the future, left by a clock that was ahead, does not count."""
        return self._tick_leases.claim(kind, tick_at_s, now_s=now_s, lease_s=lease_s)

    def renew_tick(
        self, kind: TickKind, tick_at_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """See ``Ledger``: a claim is identified by its tick and its end."""
        return self._tick_leases.renew(kind, tick_at_s, until_s=until_s, now_s=now_s, lease_s=lease_s)

    def complete_tick(
        self, kind: TickKind, tick_at_s: int, *, fleet_fingerprints: frozenset[int] | None = None
    ) -> None:
        """Record that a claimed tick is completed; without ``fleet_fingerprints`` the roster stays.

        The roster is the set of volumes that the last completed sweep knew.
        """
        self._tick_leases.complete(kind, tick_at_s, fleet_fingerprints=fleet_fingerprints)

    def replace_with_digest(
        self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]
    ) -> None:
        """Send ``digest`` instead of these alerts, on each channel that has not begun to send one of them."""
        for channel in channels:
            self._outbox.replace_with_digest(alert_ids, digest, channel)

    def pending_deliveries(self, *, channels: Sequence[str]) -> list[Delivery]:
        return self._outbox.pending_deliveries(channels)

    def claim_delivery(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        return self._outbox.claim_delivery(delivery, now_s=now_s, lease_s=lease_s)

    def mark_delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert, and for a digest every alert that it contains."""
        self._outbox.mark_delivered(delivery, at_s=at_s)

    def mark_undelivered(self, delivery: Delivery, *, error: str) -> None:
        """Release the claim; ``error`` is noted in the DELIVERED entry if a later attempt succeeds."""
        self._outbox.mark_undelivered(delivery, error=error)

    def _read_shard(self, shard: int) -> list[Item]:
        return list(self._table.query(shard_key(shard), attributes=STATE_ATTRIBUTES))

    def _all_channels(self, channels: Sequence[str], *, refresh: bool) -> list[str]:
        """Every known channel: a process with fewer channels must not withhold an alert from the others."""
        if refresh or not self._channels.issuperset(channels):
            self._channels = self._read_channels()
        return sorted(self._channels.union(channels))

    def _read_channels(self) -> frozenset[str]:
        """The known channels; an invalid attribute is removed, so that names can be added again."""
        item = self._table.get(CHANNELS_KEY) or {}
        names = item.get("channels", frozenset())
        if isinstance(names, frozenset):
            return names
        error = ValueError(f"channels is {names!r}, not a set of text")
        self._unreadable_items.add(
            make_unreadable(ItemKind.CHANNELS, "alerts", describe_key(CHANNELS_KEY), error)
        )
        self._table.write([update(CHANNELS_KEY, "REMOVE channels", {}, if_unchanged(item, "channels"))])
        return frozenset()

    def _channel_registration(self, channels: Sequence[str]) -> list[Action]:
        """The action that registers new channels for other processes."""
        new_channels = frozenset(channels) - self._channels
        return [update(CHANNELS_KEY, "ADD channels :new", {":new": new_channels})] if new_channels else []

    def _next_write_name(self) -> str:
        return f"{self._owner} {next(self._write_numbers)}"

    def _prepare(self, change: Change, channels: Sequence[str]) -> "_Write":
        """Build the items of a change, before anything is sent."""
        item = None if change.state is None else state_item(change.state, written=self._next_write_name())
        write = _Write(change, item, reserved_amount(change.state), entry_actions(change, channels))
        if (action_count := len(write.entry_actions)) > _MAX_ENTRY_ACTIONS:
            raise LedgerError(
                f"a change of {change.volume_id} has {action_count} entries and deliveries, and one"
                f" transaction of DynamoDB takes {_MAX_ENTRY_ACTIONS} beside its state, nothing was written",
                fix="report this; it is a defect of burstwatch",
            )
        return write

    def _apply(self, write: "_Write") -> bool:
        """Write a change, assuming that its old reservation is unchanged; if that fails, read it."""
        old_reservation, tries = write.new_reservation, count()
        while True:
            state_actions = write.state_actions(old_reservation)
            try:
                failed = self._write_change(write, state_actions)
            except LedgerError:
                if len(state_actions) == 1 or not self._repair_totals(self._table.get(TOTALS_KEY)):
                    raise
                self._table.pause(next(tries), "the totals were counted again")
                continue
            if not failed:
                return True
            if 0 in failed:
                current = self._table.get(write.key)
                if current and write.item and current.get("written") == write.item["written"]:
                    return True
                if not write.is_expected(current):
                    return False
                old_reservation = current.get("away") if current else None
            write.entry_groups = drop_failed(write.entry_groups, failed, offset=len(state_actions))
            self._table.pause(next(tries), "states changed")

    def _repair_totals(self, totals: Item | None) -> bool:
        """Sum up damaged totals again from the states; whether that was necessary and done.

        If a state that counts changes in between, the condition of the write fails and nothing is written.

        Raises:
            LedgerError: what a state reserves cannot be read either.
        """
        if totals is None or _are_plausible(totals):
            return False
        reservations = [
            item["away"]
            for items in self._table.map_parallel(self._read_shard, range(SHARDS))
            for item in items
            if "away" in item
        ]
        if not all(type(amount) is int and amount >= 0 for amount in reservations):
            raise LedgerError(
                f"ledger {self.location}: what counts against the caps cannot be read, neither its"
                " total nor that of some state, so nothing is flipped",
                fix=(
                    "run burstctl doctor, and burstctl release with each volume that it names as unreadable"
                ),
            )
        values = {":volumes": len(reservations), ":micro_usd": sum(reservations)}
        if list(values.values()) == [totals.get("volumes"), totals.get("micro_usd")]:
            return False
        error = ValueError(f"volumes is {totals.get('volumes')!r}, micro_usd is {totals.get('micro_usd')!r}")
        self._unreadable_items.add(
            make_unreadable(ItemKind.TOTALS, "volumes away", describe_key(TOTALS_KEY), error)
        )
        condition = if_unchanged(totals, "volumes", "micro_usd")
        self._table.write(
            [update(TOTALS_KEY, "SET volumes = :volumes, micro_usd = :micro_usd", values, condition)]
        )
        return True

    def _try_record(self, write: "_Write", preconditions: Sequence[Action]) -> bool:
        """Try once; after a conflict, the caller must read again, because others changed what was read."""
        try:
            failed = self._table.write_now([*preconditions, *write.entry_actions])
        except ContentionError:
            return False
        write.entry_groups = drop_failed(write.entry_groups, failed, offset=len(preconditions))
        return not failed

    def _write_change(self, write: "_Write", state_actions: Sequence[Action]) -> frozenset[int]:
        """Write a change; a state that changes alone, as most do, needs no transaction."""
        actions = [*state_actions, *write.entry_actions]
        if len(actions) > 1 or write.item is None:
            return self._table.write(actions)
        is_put = self._table.put(write.item, write.expected_condition(write.new_reservation))
        return frozenset() if is_put else frozenset({0})

    def _evaluate_intent(
        self,
        write: "_Write",
        items: Mapping[Key, Item],
        caps: Caps,
        now_s: float,
        own_hold_reason: str | None,
    ) -> IntentResult:
        """Decide by these items whether an intent may be recorded."""
        state, totals = items.get(write.key), items.get(TOTALS_KEY, {})
        old_reservation = state.get("away") if state else None
        volumes = totals.get("volumes", 0) - (old_reservation is not None)
        micro_usd = totals.get("micro_usd", 0) - (old_reservation or 0)
        result = IntentResult(
            status=IntentStatus.RECORDED, volumes=max(0, volumes), usd_per_month=micro_usd / MICROS_PER_USD
        )
        if not write.is_expected(state):
            return replace(result, status=IntentStatus.CONFLICT)
        hold_keys = (hold_key(None), hold_key(write.change.volume_id))
        holds = [parse_hold(items[key], self._unreadable_items) for key in hold_keys if key in items]
        if hold := active_hold(holds, write.change.volume_id, now_s, own_reason=own_hold_reason):
            return replace(result, status=IntentStatus.HELD, hold=hold)
        flip = write.change.state.flip if write.change.state else None
        status = caps.check(flip, away_count=volumes, added_usd=result.usd_per_month)
        return replace(result, status=status)

    def _write_with_entry(
        self, subject: str, kind: EntryKind, at_s: int, body: Mapping[str, Any], action: Action
    ) -> bool:
        """Write this action with an entry that belongs to no revision; its key is unique within a second.

        Returns:
            False if the condition of the action does not hold.
        """
        entry = LedgerEntry(volume_id=subject, revision=at_s, kind=kind, at_s=at_s, body=body)
        entry_action = put(
            entry_item(entry, fingerprint=self._next_write_name(), sequence_ns=time.time_ns()), IF_ABSENT
        )
        return not self._table.write([action, entry_action])


@dataclass(slots=True)
class _Write:
    """A change to be written: the new item of the state, its reservation, its entries and its alerts."""

    change: Change
    item: Item | None
    new_reservation: int | None
    entry_groups: list[ActionGroup]

    @property
    def key(self) -> Key:
        return state_key(self.change.volume_id)

    @property
    def entry_actions(self) -> list[Action]:
        return [action for group in self.entry_groups for action in group.actions]

    def is_expected(self, current: Item | None) -> bool:
        if current is None or self.change.expected_revision is None:
            return current is None and self.change.expected_revision is None
        return bool(current.get("revision") == self.change.expected_revision)

    def expected_condition(self, old_reservation: int | None) -> Condition:
        """The condition that the state is the expected one and has this reservation."""
        expected = self.change.expected_revision
        if expected is None:
            return IF_ABSENT
        if old_reservation is None:
            return Condition("revision = :expected AND attribute_not_exists(away)", {":expected": expected})
        values = {":expected": expected, ":reserved": old_reservation}
        return Condition("revision = :expected AND away = :reserved", values)

    def state_actions(
        self, old_reservation: int | None, totals_condition: Condition | None = None
    ) -> list[Action]:
        """The write of the state, and of the totals if its reservation changed; both must be as read."""
        old_reservation = None if self.change.expected_revision is None else old_reservation
        condition = self.expected_condition(old_reservation)
        if self.item is not None:
            state_action = put(self.item, condition)
        elif condition is IF_ABSENT:
            state_action = check(self.key, condition)
        else:
            state_action = delete(self.key, condition)
        if old_reservation == self.new_reservation:
            return [state_action]
        values = {
            ":volumes": (self.new_reservation is not None) - (old_reservation is not None),
            ":micro_usd": (self.new_reservation or 0) - (old_reservation or 0),
        }
        return [
            state_action,
            update(TOTALS_KEY, "ADD volumes :volumes, micro_usd :micro_usd", values, totals_condition),
        ]


def _are_plausible(totals: Item) -> bool:
    """Whether totals can be a sum that burstwatch wrote; an item without numbers is a new one."""
    limits = {"volumes": _MAX_PLAUSIBLE_VOLUMES, "micro_usd": _MAX_PLAUSIBLE_MICRO_USD}
    numbers = {name: totals.get(name, 0) for name in limits}
    return all(type(numbers[name]) is int and 0 <= numbers[name] < limit for name, limit in limits.items())
