"""The outcome of a run: AWS's own record, the ledger, and what people received. The invariants judge it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from burstlab.harness.effects import CHANNEL
from burstlab.model.fleet import LabFleet
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState


class DeliveredAlert(NamedTuple):
    """An alert that was delivered; ``volume_id`` is empty if it is about no single volume."""

    at_s: int
    alert_id: str
    volume_id: str
    kind: str
    level: str

    @classmethod
    def from_document(cls, at_s: int, document: Mapping[str, Any]) -> Self:
        volume_id = document["volume"].get("volume_id", "")
        return cls(at_s, document["alert_id"], volume_id, document["kind"], document["level"])


class AcceptedModification(NamedTuple):
    """A modification that AWS accepted."""

    at_s: int
    volume_id: str
    volume_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run; times are seconds since the epoch.

    ``names`` are those of the volumes by id. ``external_modifications`` counts, by volume, those of
    ``modifications`` that no watchdog requested. ``modifying`` are the volumes whose modification is in
    progress. ``undelivered`` alerts wait. ``watermark_s`` is the last completed sweep.
    """

    names: Mapping[str, str]
    ended_at_s: int
    alerts: Sequence[DeliveredAlert]
    modifications: Sequence[AcceptedModification]
    external_modifications: Mapping[str, int] = field(default_factory=dict)
    entries: Sequence[LedgerEntry]
    states: Mapping[str, ResourceState]
    final_types: Mapping[str, str]
    modifying: frozenset[str]
    undelivered: int
    watermark_s: int | None

    @classmethod
    def collect(
        cls, fleet: LabFleet, ledger: Ledger, names: Mapping[str, str], subjects: Iterable[str], **rest: Any
    ) -> Self:
        """The outcome as it is now, with the history of ``subjects``."""
        snapshot = ledger.fleet_snapshot()
        modifications = [
            AcceptedModification(
                int(modification.started_at.timestamp()), volume.volume_id, modification.target.volume_type
            )
            for volume in fleet
            for modification in fleet.modifications(volume.volume_id)
        ]
        return cls(
            names=names,
            ended_at_s=fleet.now_s(),
            modifications=modifications,
            entries=[entry for subject in subjects for entry in ledger.entries(subject)],
            states=ledger.states(),
            final_types={volume.volume_id: volume.volume_type for volume in fleet},
            modifying=frozenset(volume.volume_id for volume in fleet if volume.change is not None),
            undelivered=len(ledger.pending_deliveries(channels=[CHANNEL, "sns"])),
            watermark_s=snapshot.tick_at_s if snapshot else None,
            **rest,
        )

    def name(self, volume_id: str) -> str:
        """The name of a volume, or what an entry is about."""
        return self.names.get(volume_id, volume_id) or "the fleet"

    def modifications_of(self, volume_id: str) -> list[AcceptedModification]:
        return [modification for modification in self.modifications if modification.volume_id == volume_id]

    def bodies(self, kind: EntryKind, volume_id: str | None = None) -> list[Mapping[str, Any]]:
        """The entries of a kind, of one volume or of all."""
        return [
            entry.body
            for entry in self.entries
            if entry.kind is kind and volume_id in (None, entry.volume_id)
        ]
