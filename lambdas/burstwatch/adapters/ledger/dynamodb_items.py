"""What the DynamoDB ledger keeps, as the items of one table."""

import json
from collections.abc import Iterable, Iterator, Sequence
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
    FLEET,
    UnreadableItems,
    make_unreadable,
    read_alert,
    read_entry,
    read_hold,
    read_manual_override,
    read_states,
)
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger import Change, EntryKind, ItemKind, LedgerEntry, States, VolumeState
from burstwatch.core.stored_values import DECODE_ERRORS

SHARDS: Final = 8
"""How many partitions the states are spread over: each takes some 1,000 of them in a second."""

HOLDS_PARTITION: Final = "holds"
WINDOWS_PARTITION: Final = "windows"
ORIGIN_KEY: Final[Key] = ("ledger", "origin")
CHANNELS_KEY: Final[Key] = ("ledger", "channels")
TOTALS_KEY: Final[Key] = ("ledger", "away")
"""How many volumes count against the caps, and what they cost more: the sum over the states."""

MICROS_PER_USD: Final = 1_000_000
"""Dollars are summed in millionths: whole numbers add up to the same in any order."""

_MAX_USD: Final = 1e12

format_json: Final = json.JSONEncoder(separators=(",", ":")).encode


def shard_key(shard: int) -> str:
    """The partition of every eighth state."""
    return f"states {shard}"


def state_key(volume_id: str) -> Key:
    """Where the state of a volume is."""
    return shard_key(crc32(volume_id.encode()) % SHARDS), volume_id


def state_item(state: VolumeState, *, written: str) -> Item:
    """``away`` is what the state reserves; ``written`` names this write, to know it again."""
    pk, sk = state_key(state.volume_id)
    body = format_json(state.to_document())
    item = {"pk": pk, "sk": sk, "revision": state.revision, "body": body, "written": written}
    reserved = reserved_amount(state)
    return item if reserved is None else item | {"away": reserved}


def reserved_amount(state: VolumeState | None) -> int | None:
    """What a state counts against the caps, in millionths of a dollar a month; None: it does not count."""
    flip = state.flip if state else None
    if flip is None or not flip.counts_against_caps:
        return None
    return round(min(max(0.0, flip.usd_per_month), _MAX_USD) * MICROS_PER_USD)


STATE_ATTRIBUTES: Final = ("sk", "revision", "body", "away")
"""What ``parse_states`` needs of an item."""


def parse_states(items: Iterable[Item], unreadable_items: UnreadableItems) -> States:
    """By volume id; those that cannot be read are noted as well."""
    stored = [
        (item["sk"], item.get("revision"), item.get("body") if type(item.get("away", 0)) is int else None)
        for item in items
    ]
    states = read_states(stored, lambda volume_id: describe_key(state_key(volume_id)))
    for unreadable_state in states.unreadable.values():
        unreadable_items.add(unreadable_state)
    return states


def describe_key(key: Key) -> str:
    """Where an item is, as people look it up."""
    return f"pk {key[0]!r}, sk {key[1]!r}"


def _describe(item: Item) -> str:
    return describe_key((item["pk"], item["sk"]))


def history_key(subject: str) -> str:
    """The partition of the entries of a volume, a hold or a window."""
    return f"history {subject}"


def entry_item(entry: LedgerEntry, *, fingerprint: str, sequence_ns: int) -> Item:
    """No two entries of a volume share revision, kind and what they are about: the key is made of these."""
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


def entry_fingerprint(entry: LedgerEntry) -> str:
    """What tells an entry from others of its revision and kind."""
    return " ".join(str(entry.body[key]) for key in ("alert_id", "channel") if key in entry.body)


def parse_entries(
    volume_id: str, items: Iterable[Item], unreadable_items: UnreadableItems
) -> list[LedgerEntry]:
    """Oldest first; those of one second as they were told."""
    parsed = (
        (item, read_entry(volume_id, item, key=_describe(item), unreadable_items=unreadable_items))
        for item in sorted(items, key=_sequence_ns)
    )
    return sorted((entry for _, entry in parsed if entry is not None), key=lambda entry: entry.at_s)


def _sequence_ns(item: Item) -> int:
    """When it was told, which only puts things of one second in order."""
    sequence_ns = item.get("told_ns")
    return sequence_ns if isinstance(sequence_ns, int) else 0


def waiting_key(channel: str) -> str:
    """The partition of what a channel has not taken yet."""
    return f"waiting {channel}"


def delivery_item(alert: Alert, channel: str, *, revision: int, sequence_ns: int) -> Item:
    """An alert on its way to a channel; those of one second go in the order in which they were told."""
    item = {
        "pk": waiting_key(channel),
        "sk": alert.alert_id,
        "document": format_json(alert.to_document()),
        "revision": revision,
        "time_s": alert.at_s,
        "told_ns": sequence_ns,
        "attempts": 0,
    }
    return item if alert.volume_id is None else item | {"volume_id": alert.volume_id}


def parse_alert(item: Item) -> Alert:
    """The inverse of ``delivery_item``, of an item that ``is_readable_delivery`` let pass."""
    return read_alert(item["document"], item.get("volume_id"))


def is_readable_delivery(item: Item, unreadable_items: UnreadableItems) -> bool:
    """Whether an item on its way to a channel can be read; one that cannot stays, and is noted."""
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
    """An action and those that only make sense with it: what was done before is left out with them."""

    primary: Action
    dependents: tuple[Action, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        return (self.primary, *self.dependents)


def drop_failed(
    groups: Sequence[ActionGroup], failed: frozenset[int], *, offset: int = 0
) -> list[ActionGroup]:
    """What is left to do when these places of all actions, counted from ``offset``, need not be done."""
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
    """The entries of a change, each with the deliveries it brings to these channels; no item comes twice."""
    clock = count(time_ns())
    alerts = {alert.alert_id: alert for alert in change.alerts}
    seen_keys: set[Key] = set()
    groups = []
    for entry in _entries_with_alerts(change):
        item = entry_item(entry, fingerprint=entry_fingerprint(entry), sequence_ns=next(clock))
        if _mark_seen(item, seen_keys):
            continue
        alert = alerts.get(str(entry.body.get("alert_id"))) if entry.kind is EntryKind.ALERT else None
        deliveries = [
            delivery_item(alert, channel, revision=entry.revision, sequence_ns=next(clock))
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


def _entries_with_alerts(change: Change) -> Iterator[LedgerEntry]:
    """The entries of a change, with one for each alert that came without."""
    yield from change.entries
    alert_ids = {entry.body.get("alert_id") for entry in change.entries if entry.kind is EntryKind.ALERT}
    revisions = [entry.revision for entry in change.entries] or [(change.expected_revision or 0) + 1]
    for alert in change.alerts:
        if alert.alert_id not in alert_ids:
            yield LedgerEntry(
                volume_id=change.volume_id,
                revision=change.state.revision if change.state else max(revisions),
                kind=EntryKind.ALERT,
                at_s=alert.at_s,
                body=alert.to_document(),
            )


def hold_key(volume_id: str | None) -> Key:
    """Where the hold on a volume is, or on everything."""
    return HOLDS_PARTITION, FLEET if volume_id is None else volume_id


def hold_item(hold: Hold, *, written: str) -> Item:
    """``written`` names this write, to know it again."""
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
    """What was last said of a window by hand."""
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
