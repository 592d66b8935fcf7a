"""Which ticks are claimed and completed in the DynamoDB ledger, and the roster of the last sweep."""

import json
import struct
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from os import urandom
from typing import Any, Final

from burstwatch.adapters.ledger_dynamodb_table import ABSENT, Item, Key, Table, unchanged, update
from burstwatch.core.ledger import CLOCKS_AGREE_S, Roster, TickKind

_CHUNK_BYTES: Final = 360_000
"""An item holds 400 KB at most."""


class Ticks:
    """One small item for each schedule; the roster is in items of its own, so that a tick stays cheap.

    A new roster is written whole under a new name, then the tick names it, then the old one goes. A fleet
    that is the same as before is not written again, and what was read of it is kept.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._read: tuple[str, frozenset[int]] | None = None

    def claim(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        latest_s, tries = now_s + lease_s + CLOCKS_AGREE_S, count()
        while True:
            tick = self._tick(kind)
            running = [
                (other_s, until_s)
                for other_s, until_s in json.loads(tick.get("claims", "[]"))
                if now_s < until_s <= latest_s
            ]
            completed_s = tick.get("completed_s", -1)
            blocks_from_s = min(tick_s, completed_s + 1) if kind is TickKind.SWEEP else tick_s
            is_completed = tick_s <= completed_s <= latest_s
            if is_completed or any(other_s >= blocks_from_s for other_s, _ in running):
                return False
            claims = json.dumps([*running, (tick_s, now_s + lease_s)])
            as_seen = unchanged(tick, "claims", "completed_s")
            claimed = update(_key(kind), "SET claims = :claims", {":claims": claims}, as_seen)
            if not self._table.write([claimed]):
                return True
            self._table.pause(next(tries), "ticks were claimed")

    def renew(self, kind: TickKind, tick_s: int, *, until_s: float, now_s: float, lease_s: float) -> bool:
        tries = count()
        while True:
            tick = self._tick(kind)
            claims = [tuple(claim) for claim in json.loads(tick.get("claims", "[]"))]
            if (tick_s, until_s) not in claims:
                return False
            claims[claims.index((tick_s, until_s))] = (tick_s, now_s + lease_s)
            renewed = update(
                _key(kind), "SET claims = :claims", {":claims": json.dumps(claims)}, unchanged(tick, "claims")
            )
            if not self._table.write([renewed]):
                return True
            self._table.pause(next(tries), "ticks were claimed")

    def complete(self, kind: TickKind, tick_s: int, *, roster: frozenset[int] | None) -> None:
        packed, tries = None if roster is None else _pack(roster), count()
        while True:
            tick = self._tick(kind)
            if tick.get("completed_s", tick_s) > tick_s:
                return
            new: dict[str, Any] = {"completed_s": tick_s}
            if packed is not None and tick.get("fleet") != _digest(packed):
                new |= {"fleet": _digest(packed), "roster": self._store(packed), "roster_bytes": len(packed)}
            sets = ", ".join(f"{name} = :{name}" for name in new)
            values = {f":{name}": value for name, value in new.items()}
            as_seen = unchanged(tick, "completed_s", "roster")
            failed = self._table.write([update(_key(kind), f"SET {sets}", values, as_seen)])
            if "roster" in new:
                self._remove(new if failed else tick)
            if not failed:
                return
            self._table.pause(next(tries), "ticks were completed")

    def roster(self) -> Roster | None:
        while "roster" in (tick := self._tick(TickKind.SWEEP)):
            fingerprints = self._fingerprints(tick)
            if fingerprints is not None:
                return Roster(tick_s=tick["completed_s"], fingerprints=fingerprints)
        return None

    def _fingerprints(self, tick: Item) -> frozenset[int] | None:
        """None where another roster has taken its place meanwhile."""
        if self._read is None or self._read[0] != tick["roster"]:
            items = self._table.query(_roster_key(tick["roster"]))
            packed = b"".join(item["fingerprints"] for item in items)
            if len(packed) != tick["roster_bytes"]:
                if self._tick(TickKind.SWEEP).get("roster") != tick["roster"]:
                    return None
                with self._table.readable():
                    raise ValueError(f"{len(packed)} of a roster's {tick['roster_bytes']} bytes are there")
            self._read = tick["roster"], _unpack(packed)
        return self._read[1]

    def _store(self, packed: bytes) -> str:
        """The name that the roster is found under."""
        name = urandom(8).hex()
        for key, start in _chunks(name, len(packed)):
            chunk = {"pk": key[0], "sk": key[1], "fingerprints": packed[start : start + _CHUNK_BYTES]}
            self._table.put(chunk, ABSENT)
        return name

    def _remove(self, tick: Item) -> None:
        """Let go of the roster that this tick named."""
        for key, _ in _chunks(tick.get("roster", ""), tick.get("roster_bytes", 0)):
            self._table.remove(key)

    def _tick(self, kind: TickKind) -> Item:
        return self._table.get(_key(kind)) or {}


def _key(kind: TickKind) -> Key:
    return "ledger", f"{kind} tick"


def _roster_key(name: str) -> str:
    return f"roster {name}"


def _chunks(name: str, size_bytes: int) -> Iterator[tuple[Key, int]]:
    for number, start in enumerate(range(0, size_bytes, _CHUNK_BYTES)):
        yield (_roster_key(name), f"{number:04d}"), start


def _digest(packed: bytes) -> str:
    return sha256(packed).hexdigest()


def _pack(fingerprints: frozenset[int]) -> bytes:
    """Eight bytes each, in order: the same fleet is the same bytes."""
    return struct.pack(f"<{len(fingerprints)}Q", *sorted(fingerprints))


def _unpack(packed: bytes) -> frozenset[int]:
    return frozenset(struct.unpack(f"<{len(packed) // 8}Q", packed))
