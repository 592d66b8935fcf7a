"""The items of the DynamoDB ledger's table, and their conversion from and to core values."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from time import time_ns
from typing import Final
from zlib import crc32

from burstwatch.adapters.ledger.dynamodb_table import IF_ABSENT, Action, Item, Key, put
from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.decoding import (
    UnreadableItems,
    make_unreadable,
    read_alert,
    read_entry,
    read_hold,
    read_manual_override,
    read_states,
)
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger import Change, States
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.ledger.unreadable_item import ItemKind
from burstwatch.core.stored_values import DECODE_ERRORS

SHARDS: Final = 8
"""Partitions over which the states are spread: DynamoDB allows each 1,000 write units per second.

Source: the DynamoDB developer guide, "Best practices for designing partition keys".
"""

HOLDS_PARTITION: Final = "holds"
WINDOWS_PARTITION: Final = "windows"
ORIGIN_KEY: Final[Key] = ("ledger", "origin")
CHANNELS_KEY: Final[Key] = ("ledger", "channels")
TOTALS_KEY: Final[Key] = ("ledger", "away")
"""The number of volumes that count against the caps, and their extra cost: the sum over the states."""

MICROS_PER_USD: Final = 1_000_000
"""Dollars are summed in millionths: a sum of integers does not depend on the order."""

_MAX_USD: Final = 1e12

format_json: Final = json.JSONEncoder(separators=(",", ":")).encode


def shard_key(shard: int) -> str:
    """The partition key of a shard, which holds every eighth state."""
    return f"states {shard}"


def state_key(volume_id: str) -> Key:
    """The key of the state of a volume."""
    return shard_key(crc32(volume_id.encode()) % SHARDS), volume_id


def state_item(state: ResourceState, *, written: str) -> Item:
    """The item of a state; ``away`` is its reservation, ``written`` identifies this write."""
    pk, sk = state_key(state.volume_id)
    body = format_json(state.to_document())
    item = {"pk": pk, "sk": sk, "revision": state.revision, "body": body, "written": written}
    reserved = reserved_amount(state)
    return item if reserved is None else item | {"away": reserved}


def reserved_amount(state: ResourceState | None) -> int | None:
    """What a state counts against the caps, in millionths of a dollar a month; None if it does not count."""
    flip = state.flip if state else None
    if flip is None or not flip.counts_against_caps:
        return None
    return round(min(flip.reserved_usd, _MAX_USD) * MICROS_PER_USD)


STATE_ATTRIBUTES: Final = ("sk", "revision", "body", "away")
"""The attributes of an item that ``parse_states`` needs."""


def parse_states(items: Iterable[Item], unreadable_items: UnreadableItems) -> States:
    """The states by volume ID; those that cannot be read are noted as unreadable."""
    stored = [
        (item["sk"], item.get("revision"), item.get("body") if type(item.get("away", 0)) is int else None)
        for item in items
    ]
    states = read_states(stored, lambda volume_id: describe_key(state_key(volume_id)))
    for unreadable_state in states.unreadable.values():
        unreadable_items.add(unreadable_state)
    return states


def describe_key(key: Key) -> str:
    """The key of an item in words, for people who look it up."""
    return f"pk {key[0]!r}, sk {key[1]!r}"


def _describe(item: Item) -> str:
    return describe_key((item["pk"], item["sk"]))


def history_key(subject: str) -> str:
    """The partition of the entries of a volume, a hold or a window."""
    return f"history {subject}"


def entry_item(entry: LedgerEntry, *, fingerprint: str, sequence_ns: int) -> Item:
    """The item of an entry; revision, kind and fingerprint make its key unique within a volume."""
    digest = sha256(fingerprint.encode()).hexdigest()[:32]
    return {
        "pk": history_key(entry.volume_id),
        "sk": f"{entry.revision:019d} {entry.kind} {digest}",
        "revision": entry.revision,
        "kind": str(entry.kind),
        "at_s": entry.at_s,
        "told_ns": sequence_ns,
        "body": format_json(entry.body),
    }


def parse_entries(
    volume_id: str, items: Iterable[Item], unreadable_items: UnreadableItems
) -> list[LedgerEntry]:
    """The entries, the oldest first; those of one second in the order in which they were written."""
    parsed = (
        (item, read_entry(volume_id, item, key=_describe(item), unreadable_items=unreadable_items))
        for item in sorted(items, key=_sequence_ns)
    )
    return sorted((entry for _, entry in parsed if entry is not None), key=lambda entry: entry.at_s)


def _sequence_ns(item: Item) -> int:
    """The time of the write in nanoseconds, which only orders items of one second."""
    sequence_ns = item.get("told_ns")
    return sequence_ns if isinstance(sequence_ns, int) else 0


def waiting_key(channel: str) -> str:
    """The partition key of the alerts that a channel has not taken yet."""
    return f"waiting {channel}"


def delivery_item(alert: Alert, document: str, channel: str, *, revision: int, sequence_ns: int) -> Item:
    """The item of an alert, with its JSON, that waits for a channel; those of one second keep their order."""
    item = {
        "pk": waiting_key(channel),
        "sk": alert.alert_id,
        "document": document,
        "revision": revision,
        "time_s": alert.at_s,
        "told_ns": sequence_ns,
        "attempts": 0,
    }
    return item if alert.volume_id is None else item | {"volume_id": alert.volume_id}


def parse_alert(item: Item) -> Alert:
    """The inverse of ``delivery_item``, for an item that ``is_readable_delivery`` accepted."""
    return read_alert(item["document"], item.get("volume_id"))


def is_readable_delivery(item: Item, unreadable_items: UnreadableItems) -> bool:
    """Whether the item of a waiting alert can be read; one that cannot is kept and noted as unreadable."""
    try:
        alert = parse_alert(item)
        if alert.alert_id != item["sk"]:
            raise ValueError(f"it is alert {alert.alert_id!r}")
        for name in ("revision", "told_ns", "attempts"):
            stored_values.read_count(item[name])
        for name in ("time_s", "claimed_until_s", "draft_until_s"):
            stored_values.read_instant(item.get(name, 0))
        for name in ("sent_as", "sent_in", "bundle", "last_error"):
            stored_values.read_text(item.get(name, ""))
        if ("sent_as" in item) != ("sent_in" in item):
            raise ValueError("it is half in a digest")
    except DECODE_ERRORS as error:
        unreadable_items.add(make_unreadable(ItemKind.ALERT, item["pk"], _describe(item), error))
        return False
    return True


@dataclass(frozen=True, slots=True)
class ActionGroup:
    """An action and those that depend on it: if the first was done before, all are left out."""

    primary: Action
    dependents: tuple[Action, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        return (self.primary, *self.dependents)


def drop_failed(
    groups: Sequence[ActionGroup], failed: frozenset[int], *, offset: int = 0
) -> list[ActionGroup]:
    """The remaining groups if the actions at these positions, counted from ``offset``, are not needed."""
    remaining, index = [], offset
    for group in groups:
        remaining_actions = [
            action for i, action in enumerate(group.dependents, index + 1) if i not in failed
        ]
        if index not in failed:
            remaining.append(ActionGroup(group.primary, tuple(remaining_actions)))
        index += len(group.actions)
    return remaining


def entry_actions(change: Change, channels: Sequence[str]) -> list[ActionGroup]:
    """The entries of a change, each with its deliveries to these channels; every item occurs once.

    The body of an alert's entry is the alert itself, so its JSON is made once for all channels.
    """
    clock = count(time_ns())
    alerts = {alert.alert_id: alert for alert in change.alerts}
    seen_keys: set[Key] = set()
    groups = []
    for entry in change.entries_with_alerts:
        item = entry_item(entry, fingerprint=entry.fingerprint, sequence_ns=next(clock))
        if _mark_seen(item, seen_keys):
            continue
        alert = alerts.get(str(entry.body.get("alert_id"))) if entry.kind is EntryKind.ALERT else None
        deliveries = [
            delivery_item(alert, item["body"], channel, revision=entry.revision, sequence_ns=next(clock))
            for channel in channels
            if alert is not None
        ]
        delivery_puts = tuple(
            put(delivery, IF_ABSENT) for delivery in deliveries if not _mark_seen(delivery, seen_keys)
        )
        groups.append(ActionGroup(put(item, IF_ABSENT), delivery_puts))
    return groups


def _mark_seen(item: Item, seen_keys: set[Key]) -> bool:
    key = (item["pk"], item["sk"])
    is_seen = key in seen_keys
    seen_keys.add(key)
    return is_seen


def hold_key(volume_id: str | None) -> Key:
    """The key of the hold on a volume, or on everything."""
    return HOLDS_PARTITION, FLEET if volume_id is None else volume_id


def hold_item(hold: Hold, *, written: str) -> Item:
    """The item of a hold; ``written`` identifies this write."""
    pk, sk = hold_key(hold.volume_id)
    return {
        "pk": pk,
        "sk": sk,
        "placed_by": hold.by,
        "reason": hold.reason,
        "placed_at_s": hold.placed_at_s,
        "until_s": hold.until_s,
        "written": written,
    }


def parse_hold(item: Item, unreadable_items: UnreadableItems) -> Hold:
    """The inverse of ``hold_item``."""
    return read_hold(item["sk"], item, key=_describe(item), unreadable_items=unreadable_items)


def manual_override_item(override: ManualWindowOverride) -> Item:
    """The item of the last manual start or stop of a window."""
    item = {
        "pk": WINDOWS_PARTITION,
        "sk": override.name,
        "starts": int(override.is_start),
        "marked_by": override.by,
        "at_s": override.at_s,
    }
    return item if override.until_s is None else item | {"until_s": override.until_s}


def parse_manual_override(item: Item, unreadable_items: UnreadableItems) -> ManualWindowOverride:
    """The inverse of ``manual_override_item``."""
    return read_manual_override(item["sk"], item, key=_describe(item), unreadable_items=unreadable_items)
