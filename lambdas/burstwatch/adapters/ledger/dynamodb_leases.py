"""Claimed and completed ticks in the DynamoDB ledger, and the roster of the last completed sweep."""

import json
import struct
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from os import urandom
from typing import Any, Final

from burstwatch.adapters.ledger.dynamodb_table import IF_ABSENT, Item, Key, Table, if_unchanged, update
from burstwatch.core import stored_values
from burstwatch.core.ledger.decoding import UnreadableItems
from burstwatch.core.ledger.ledger import MAX_CLOCK_SKEW_S, FleetSnapshot, TickKind
from burstwatch.core.ledger.unreadable_item import ItemKind

_CHUNK_BYTES: Final = 360_000
"""Less than the 400 KB that an item may have (DynamoDB developer guide, "Constraints")."""


class TickLeases:
    """One small item for each schedule; the roster is in separate items, so that a tick stays cheap.

    A new roster is written completely under a new name, then the tick refers to it, then the old one is
    removed. The roster of an unchanged fleet is not written again, and is cached after it was read.

    What cannot be read of a tick counts as absent, and the next tick overwrites it.
    """

    def __init__(self, table: Table, *, unreadable_items: UnreadableItems) -> None:
        self._table = table
        self._unreadable_items = unreadable_items
        self._cached_snapshot: tuple[str, frozenset[int]] | None = None
        self._is_snapshot_unreadable = False

    def claim(self, kind: TickKind, tick_at_s: int, *, now_s: float, lease_s: float) -> bool:
        latest_s, tries = now_s + lease_s + MAX_CLOCK_SKEW_S, count()
        while True:
            tick = self._read_tick(kind)
            existing_claims, completed_s = self._read_claims(kind, tick), self._read_completed_s(kind, tick)
            active_claims = [
                (other_tick_at_s, until_s)
                for other_tick_at_s, until_s in existing_claims
                if now_s < until_s <= latest_s
            ]
            is_completed = completed_s is not None and tick_at_s <= completed_s <= latest_s
            blocking_from_s = tick_at_s
            if kind is TickKind.SWEEP:
                blocking_from_s = min(tick_at_s, 0 if completed_s is None else completed_s + 1)
            if is_completed or any(
                other_tick_at_s >= blocking_from_s for other_tick_at_s, _ in active_claims
            ):
                return False
            claims = json.dumps([*active_claims, (tick_at_s, now_s + lease_s)])
            condition = if_unchanged(tick, "claims", "completed_s")
            claim_action = update(_key(kind), "SET claims = :claims", {":claims": claims}, condition)
            if not self._table.write([claim_action]):
                return True
            self._table.pause(next(tries), "ticks were claimed")

    def renew(self, kind: TickKind, tick_at_s: int, *, until_s: float, now_s: float, lease_s: float) -> bool:
        tries = count()
        while True:
            tick = self._read_tick(kind)
            claims = list(self._read_claims(kind, tick))
            if (tick_at_s, until_s) not in claims:
                return False
            claims[claims.index((tick_at_s, until_s))] = (tick_at_s, now_s + lease_s)
            renew_action = update(
                _key(kind),
                "SET claims = :claims",
                {":claims": json.dumps(claims)},
                if_unchanged(tick, "claims"),
            )
            if not self._table.write([renew_action]):
                return True
            self._table.pause(next(tries), "ticks were claimed")

    def complete(self, kind: TickKind, tick_at_s: int, *, fleet_fingerprints: frozenset[int] | None) -> None:
        packed, tries = None if fleet_fingerprints is None else _pack(fleet_fingerprints), count()
        while True:
            tick = self._read_tick(kind)
            if (completed_s := self._read_completed_s(kind, tick)) is not None and completed_s > tick_at_s:
                return
            attributes: dict[str, Any] = {"completed_s": tick_at_s}
            is_snapshot_new = packed is not None and (
                self._is_snapshot_unreadable or tick.get("fleet") != _digest(packed)
            )
            if packed is not None and is_snapshot_new:
                attributes |= {
                    "fleet": _digest(packed),
                    "roster": self._store_snapshot(packed),
                    "roster_bytes": len(packed),
                }
            assignments = ", ".join(f"{name} = :{name}" for name in attributes)
            values = {f":{name}": value for name, value in attributes.items()}
            condition = if_unchanged(tick, "completed_s", "roster")
            failed = self._table.write([update(_key(kind), f"SET {assignments}", values, condition)])
            if "roster" in attributes:
                self._remove_snapshot(attributes if failed else tick)
            if not failed:
                return
            self._table.pause(next(tries), "ticks were completed")

    def fleet_snapshot(self) -> FleetSnapshot | None:
        while "roster" in (tick := self._read_tick(TickKind.SWEEP)):
            snapshot = self._unreadable_items.try_read(
                ItemKind.TICK, TickKind.SWEEP, _describe(TickKind.SWEEP), lambda: self._read_snapshot(tick)
            )
            self._is_snapshot_unreadable = snapshot is None
            if snapshot is not None or self._read_tick(TickKind.SWEEP).get("roster") == tick["roster"]:
                return snapshot
        return None

    def _read_snapshot(self, tick: Item) -> FleetSnapshot:
        """Read the roster that a tick refers to.

        Raises:
            one of ``DECODE_ERRORS``: it cannot be read, or was replaced since.
        """
        name, size_bytes = (
            stored_values.read_text(tick["roster"]),
            stored_values.read_count(tick["roster_bytes"]),
        )
        if self._cached_snapshot is None or self._cached_snapshot[0] != name:
            packed = b"".join(item["fingerprints"] for item in self._table.query(_snapshot_key(name)))
            if len(packed) != size_bytes:
                raise ValueError(f"{len(packed)} of a roster's {size_bytes} bytes are there")
            self._cached_snapshot = name, _unpack(packed)
        return FleetSnapshot(
            tick_at_s=stored_values.read_count(tick["completed_s"]), fingerprints=self._cached_snapshot[1]
        )

    def _read_claims(self, kind: TickKind, tick: Item) -> list[tuple[int, float]]:
        """The claimed ticks, each with the end of its claim."""

        def read() -> list[tuple[int, float]]:
            claims = json.loads(tick.get("claims", "[]"))
            return [
                (stored_values.read_count(other_tick_at_s), stored_values.read_instant(until_s))
                for other_tick_at_s, until_s in claims
            ]

        return self._unreadable_items.try_read(ItemKind.TICK, kind, _describe(kind), read) or []

    def _read_completed_s(self, kind: TickKind, tick: Item) -> int | None:
        """The last completed tick; None before the first."""
        return (
            self._unreadable_items.try_read(
                ItemKind.TICK, kind, _describe(kind), lambda: stored_values.read_count(tick["completed_s"])
            )
            if "completed_s" in tick
            else None
        )

    def _store_snapshot(self, packed: bytes) -> str:
        """Store a roster; return the name under which it is found."""
        name = urandom(8).hex()
        for key, start in _chunks(name, len(packed)):
            chunk = {"pk": key[0], "sk": key[1], "fingerprints": packed[start : start + _CHUNK_BYTES]}
            self._table.put(chunk, IF_ABSENT)
        return name

    def _remove_snapshot(self, tick: Item) -> None:
        """Remove the roster to which this tick referred."""
        name, size_bytes = tick.get("roster", ""), tick.get("roster_bytes", 0)
        if isinstance(size_bytes, int):  # else where it ends is not known, and its items stay
            for key, _ in _chunks(str(name), size_bytes):
                self._table.remove(key)

    def _read_tick(self, kind: TickKind) -> Item:
        return self._table.get(_key(kind)) or {}


def _key(kind: TickKind) -> Key:
    return "ledger", f"{kind} tick"


def _describe(kind: TickKind) -> str:
    pk, sk = _key(kind)
    return f"pk {pk!r}, sk {sk!r}"


def _snapshot_key(name: str) -> str:
    return f"roster {name}"


def _chunks(name: str, size_bytes: int) -> Iterator[tuple[Key, int]]:
    for number, start in enumerate(range(0, size_bytes, _CHUNK_BYTES)):
        yield (_snapshot_key(name), f"{number:04d}"), start


def _digest(packed: bytes) -> str:
    return sha256(packed).hexdigest()


def _pack(fingerprints: frozenset[int]) -> bytes:
    """Pack fingerprints as eight bytes each, sorted: the same fleet yields the same bytes."""
    return struct.pack(f"<{len(fingerprints)}Q", *sorted(fingerprints))


def _unpack(packed: bytes) -> frozenset[int]:
    return frozenset(struct.unpack(f"<{len(packed) // 8}Q", packed))
