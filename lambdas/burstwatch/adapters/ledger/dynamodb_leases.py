"""Which ticks are claimed and completed in the DynamoDB ledger, and the roster of the last sweep."""

import json
import struct
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from os import urandom
from typing import Any, Final

from burstwatch.adapters.ledger.dynamodb_table import ABSENT, Item, Key, Table, unchanged, update
from burstwatch.core import stored_values
from burstwatch.core.ledger.decoding import Unread
from burstwatch.core.ledger.ledger import CLOCKS_AGREE_S, ItemKind, Roster, TickKind

_CHUNK_BYTES: Final = 360_000
"""An item holds 400 KB at most."""


class Ticks:
    """One small item for each schedule; the roster is in items of its own, so that a tick stays cheap.

    A new roster is written whole under a new name, then the tick names it, then the old one goes. A fleet
    that is the same as before is not written again, and what was read of it is kept.

    What cannot be read of a tick is taken for absent, and written over by the next.
    """

    def __init__(self, table: Table, *, unread: Unread) -> None:
        self._table = table
        self._unread = unread
        self._read: tuple[str, frozenset[int]] | None = None
        self._is_lost = False

    def claim(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        latest_s, tries = now_s + lease_s + CLOCKS_AGREE_S, count()
        while True:
            tick = self._tick(kind)
            claimed_s, completed_s = self._claims(kind, tick), self._completed_s(kind, tick)
            running = [(other_s, until_s) for other_s, until_s in claimed_s if now_s < until_s <= latest_s]
            is_completed = completed_s is not None and tick_s <= completed_s <= latest_s
            blocks_from_s = tick_s
            if kind is TickKind.SWEEP:
                blocks_from_s = min(tick_s, 0 if completed_s is None else completed_s + 1)
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
            claims = list(self._claims(kind, tick))
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
            if (completed_s := self._completed_s(kind, tick)) is not None and completed_s > tick_s:
                return
            new: dict[str, Any] = {"completed_s": tick_s}
            is_new = packed is not None and (self._is_lost or tick.get("fleet") != _digest(packed))
            if packed is not None and is_new:
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
            found = self._unread.read(
                ItemKind.TICK, TickKind.SWEEP, _described(TickKind.SWEEP), lambda: self._roster(tick)
            )
            self._is_lost = found is None
            if found is not None or self._tick(TickKind.SWEEP).get("roster") == tick["roster"]:
                return found
        return None

    def _roster(self, tick: Item) -> Roster:
        """What a tick names.

        Raises:
            one of ``UNREADABLE``: it cannot be read, or another has taken its place meanwhile.
        """
        name, size_bytes = stored_values.text(tick["roster"]), stored_values.whole(tick["roster_bytes"])
        if self._read is None or self._read[0] != name:
            packed = b"".join(item["fingerprints"] for item in self._table.query(_roster_key(name)))
            if len(packed) != size_bytes:
                raise ValueError(f"{len(packed)} of a roster's {size_bytes} bytes are there")
            self._read = name, _unpack(packed)
        return Roster(tick_s=stored_values.whole(tick["completed_s"]), fingerprints=self._read[1])

    def _claims(self, kind: TickKind, tick: Item) -> list[tuple[int, float]]:
        """Which ticks are claimed, and until when."""

        def read() -> list[tuple[int, float]]:
            claims = json.loads(tick.get("claims", "[]"))
            return [
                (stored_values.whole(other_s), stored_values.instant(until_s)) for other_s, until_s in claims
            ]

        return self._unread.read(ItemKind.TICK, kind, _described(kind), read) or []

    def _completed_s(self, kind: TickKind, tick: Item) -> int | None:
        """The last tick that was completed; None before the first."""
        return (
            self._unread.read(
                ItemKind.TICK, kind, _described(kind), lambda: stored_values.whole(tick["completed_s"])
            )
            if "completed_s" in tick
            else None
        )

    def _store(self, packed: bytes) -> str:
        """The name that the roster is found under."""
        name = urandom(8).hex()
        for key, start in _chunks(name, len(packed)):
            chunk = {"pk": key[0], "sk": key[1], "fingerprints": packed[start : start + _CHUNK_BYTES]}
            self._table.put(chunk, ABSENT)
        return name

    def _remove(self, tick: Item) -> None:
        """Let go of the roster that this tick named."""
        name, size_bytes = tick.get("roster", ""), tick.get("roster_bytes", 0)
        if isinstance(size_bytes, int):  # else where it ends is not known, and its items stay
            for key, _ in _chunks(str(name), size_bytes):
                self._table.remove(key)

    def _tick(self, kind: TickKind) -> Item:
        return self._table.get(_key(kind)) or {}


def _key(kind: TickKind) -> Key:
    return "ledger", f"{kind} tick"


def _described(kind: TickKind) -> str:
    pk, sk = _key(kind)
    return f"pk {pk!r}, sk {sk!r}"


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
