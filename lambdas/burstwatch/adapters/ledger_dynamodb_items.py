"""What the DynamoDB ledger keeps, as the items of one table."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from time import time_ns
from typing import Final
from zlib import crc32

from burstwatch.adapters.ledger_dynamodb_table import ABSENT, Action, Item, Key, put
from burstwatch.core.alerts import Alert
from burstwatch.core.flips import Hold, WindowMark
from burstwatch.core.ledger import Change, EntryKind, LedgerEntry, VolumeState

SHARDS: Final = 8
"""How many partitions the states are spread over: each takes some 1,000 of them in a second."""

EVERYTHING: Final = "*"
"""What a hold on no volume in particular is filed under."""

HOLDS: Final = "holds"
WINDOWS: Final = "windows"
ORIGIN: Final[Key] = ("ledger", "origin")
CHANNELS: Final[Key] = ("ledger", "channels")
AWAY: Final[Key] = ("ledger", "away")
"""How many volumes count against the caps, and what they cost more: the sum over the states."""

MICRO: Final = 1_000_000
"""Dollars are summed in millionths: whole numbers add up to the same in any order."""

_MOST_USD: Final = 1e12

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
    reserved = away_of(state)
    return item if reserved is None else item | {"away": reserved}


def away_of(state: VolumeState | None) -> int | None:
    """What a state counts against the caps, in millionths of a dollar a month; None: it does not count."""
    flip = state.flip if state else None
    if flip is None or not flip.reserves:
        return None
    return round(min(max(0.0, flip.usd_per_month), _MOST_USD) * MICRO)


def parse_states(bodies: Iterable[str]) -> dict[str, VolumeState]:
    """By volume id; all at once, as one by one the JSON of 100,000 states takes twice as long."""
    states = map(VolumeState.from_document, json.loads(f"[{','.join(bodies)}]"))
    return {state.volume_id: state for state in sorted(states, key=lambda state: state.volume_id)}


def history_key(subject: str) -> str:
    """The partition of the entries of a volume, a hold or a window."""
    return f"history {subject}"


def entry_item(entry: LedgerEntry, *, about: str, told_ns: int) -> Item:
    """No two entries of a volume share revision, kind and what they are about: the key is made of these."""
    digest = sha256(about.encode()).hexdigest()[:32]
    return {
        "pk": history_key(entry.volume_id),
        "sk": f"{entry.revision:019d} {entry.kind} {digest}",
        "revision": entry.revision,
        "kind": str(entry.kind),
        "at_s": entry.at_s,
        "told_ns": told_ns,
        "body": format_json(entry.body),
    }


def about(entry: LedgerEntry) -> str:
    """What tells an entry from others of its revision and kind."""
    return " ".join(str(entry.body[key]) for key in ("alert_id", "channel") if key in entry.body)


def parse_entries(volume_id: str, items: Iterable[Item]) -> list[LedgerEntry]:
    """Oldest first; those of one second as they were told."""
    return [
        LedgerEntry(
            volume_id=volume_id,
            revision=item["revision"],
            kind=EntryKind(item["kind"]),
            at_s=item["at_s"],
            body=json.loads(item["body"]),
        )
        for item in sorted(items, key=lambda item: (item["at_s"], item["told_ns"]))
    ]


def waiting_key(channel: str) -> str:
    """The partition of what a channel has not taken yet."""
    return f"waiting {channel}"


def delivery_item(alert: Alert, channel: str, *, revision: int, told_ns: int) -> Item:
    """An alert on its way to a channel; those of one second go in the order in which they were told."""
    item = {
        "pk": waiting_key(channel),
        "sk": alert.alert_id,
        "document": format_json(alert.to_document()),
        "revision": revision,
        "time_s": alert.time_s,
        "told_ns": told_ns,
        "attempts": 0,
    }
    return item if alert.volume_id is None else item | {"volume_id": alert.volume_id}


def parse_alert(item: Item) -> Alert:
    """The inverse of ``delivery_item``."""
    alert = Alert.from_document(json.loads(item["document"]))
    return replace(alert, volume_id=item.get("volume_id"))


@dataclass(frozen=True, slots=True)
class Told:
    """An action and those that only make sense with it: what was done before is left out with them."""

    first: Action
    then: tuple[Action, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        return (self.first, *self.then)


def without(told: Sequence[Told], failed: frozenset[int], *, offset: int = 0) -> list[Told]:
    """What is left to do when these places of all actions, counted from ``offset``, need not be done."""
    left, place = [], offset
    for each in told:
        kept = [action for i, action in enumerate(each.then, place + 1) if i not in failed]
        if place not in failed:
            left.append(Told(each.first, tuple(kept)))
        place += len(each.actions)
    return left


def tell(change: Change, channels: Sequence[str]) -> list[Told]:
    """The entries of a change, each with the deliveries it brings to these channels; no item comes twice."""
    clock = count(time_ns())
    alerts = {alert.alert_id: alert for alert in change.alerts}
    seen: set[Key] = set()
    told = []
    for entry in _entries(change):
        item = entry_item(entry, about=about(entry), told_ns=next(clock))
        if _is_seen(item, seen):
            continue
        alert = alerts.get(str(entry.body.get("alert_id"))) if entry.kind is EntryKind.ALERT else None
        deliveries = [
            delivery_item(alert, channel, revision=entry.revision, told_ns=next(clock))
            for channel in channels
            if alert is not None
        ]
        then = tuple(put(each, ABSENT) for each in deliveries if not _is_seen(each, seen))
        told.append(Told(put(item, ABSENT), then))
    return told


def _is_seen(item: Item, seen: set[Key]) -> bool:
    key = (item["pk"], item["sk"])
    is_seen = key in seen
    seen.add(key)
    return is_seen


def _entries(change: Change) -> Iterator[LedgerEntry]:
    """The entries of a change, with one for each alert that came without."""
    yield from change.entries
    told = {entry.body.get("alert_id") for entry in change.entries if entry.kind is EntryKind.ALERT}
    revisions = [entry.revision for entry in change.entries] or [(change.expected_revision or 0) + 1]
    for alert in change.alerts:
        if alert.alert_id not in told:
            yield LedgerEntry(
                volume_id=change.volume_id,
                revision=change.state.revision if change.state else max(revisions),
                kind=EntryKind.ALERT,
                at_s=alert.time_s,
                body=alert.to_document(),
            )


def hold_key(volume_id: str | None) -> Key:
    """Where the hold on a volume is, or on everything."""
    return HOLDS, EVERYTHING if volume_id is None else volume_id


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


def parse_hold(item: Item) -> Hold:
    """The inverse of ``hold_item``."""
    return Hold(
        volume_id=None if item["sk"] == EVERYTHING else item["sk"],
        by=item["placed_by"],
        reason=item["reason"],
        placed_at_s=item["placed_at_s"],
        until_s=item["until_s"],
    )


def mark_item(mark: WindowMark) -> Item:
    """What was last said of a window by hand."""
    item = {
        "pk": WINDOWS,
        "sk": mark.name,
        "starts": int(mark.starts),
        "marked_by": mark.by,
        "at_s": mark.at_s,
    }
    return item if mark.until_s is None else item | {"until_s": mark.until_s}


def parse_mark(item: Item) -> WindowMark:
    """The inverse of ``mark_item``."""
    return WindowMark(
        name=item["sk"],
        starts=bool(item["starts"]),
        by=item["marked_by"],
        at_s=item["at_s"],
        until_s=item.get("until_s"),
    )
