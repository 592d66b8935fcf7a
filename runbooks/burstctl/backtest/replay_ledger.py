"""The ledger of a replay: in memory, without claims, and read from it only what has changed."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.caps import Caps, IntentResult
from burstwatch.core.ledger.ledger import Change, FleetSnapshot, States, TickKind

if TYPE_CHECKING:
    from burstwatch.core.ledger.resource_state import ResourceState


class ReplayLedger(SqliteLedger):
    """An SQLite ledger that keeps the states as it last read them, for passes by the ten thousand.

    Only for a ledger without other writers: ``SqliteLedger.in_memory``. No one else takes its ticks, so they
    are not claimed.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, lock_timeout_s: float) -> None:
        super().__init__(connection, path=path, lock_timeout_s=lock_timeout_s)
        self._states: dict[str, ResourceState] = {}
        self._fleet_snapshot: FleetSnapshot | None = None

    def states(self) -> States:
        return States(self._states)

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        applied = super().commit(changes, channels=channels)
        self._refresh(applied)
        return applied

    def record_intent(self, change: Change, caps: Caps, **options: Any) -> IntentResult:
        result = super().record_intent(change, caps, **options)
        self._refresh({change.volume_id})
        return result

    def fleet_snapshot(self) -> FleetSnapshot | None:
        return self._fleet_snapshot

    def claim_tick(self, *_tick: Any, **_lease: Any) -> bool:
        return True

    def renew_tick(self, *_tick: Any, **_lease: Any) -> bool:
        return True

    def complete_tick(
        self,
        kind: TickKind,  # noqa: ARG002 - only a sweep gives fingerprints
        tick_at_s: int,
        *,
        fleet_fingerprints: frozenset[int] | None = None,
    ) -> None:
        if fleet_fingerprints is not None:
            self._fleet_snapshot = FleetSnapshot(tick_at_s=tick_at_s, fingerprints=fleet_fingerprints)

    def _refresh(self, volume_ids: set[str]) -> None:
        states = self.states_of(volume_ids)
        for volume_id in volume_ids:
            if volume_id in states:
                self._states[volume_id] = states[volume_id]
            else:
                self._states.pop(volume_id, None)
