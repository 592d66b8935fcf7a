"""What is remembered between two looks, and the one durable place that remembers it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from burstwatch.core.alerts import Alert
from burstwatch.core.assess import UnknownReason
from burstwatch.core.levels import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """What the watchdog knows of a volume with anything going on; a calm volume has no state.

    ``revision`` rises with every change. It starts from the time of the look, so that a state which comes
    back after it was dropped never repeats a revision. ``level`` is the last level judged, never
    ``unknown``: a volume whose data is missing keeps it. ``next_look_at_s`` is None while the sweep looks
    after the volume.
    """

    volume_id: str
    revision: int
    level: Level = Level.OK
    level_since_s: int = 0
    unknown_reason: UnknownReason | None = None
    unknown_since_s: int | None = None
    alerted_level: Level | None = None
    alerted_at_s: int | None = None
    gap_alerted: bool = False
    next_look_at_s: int | None = None
    arrived_at_s: int | None = None
    smaller_size_gib: int | None = None
    modified_at_s: int | None = None
    balance_pct: float | None = None
    balance_at_s: int | None = None


class EntryKind(StrEnum):
    """What an entry of the ledger tells."""

    LEVEL_CHANGED = "level_changed"
    ALERT = "alert"
    DELIVERED = "delivered"
    POLICY_REJECTED = "policy_rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of a volume's history; never changed once written."""

    volume_id: str
    revision: int
    kind: EntryKind
    at_s: int
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one look changes about one volume, all or nothing.

    ``expected_revision`` is the revision the decision was made from, None where there was no state;
    ``state`` is None when the volume is calm again and its state is dropped. ``alerts`` wait in the ledger
    until every channel named to ``Ledger.commit`` has taken them.
    """

    volume_id: str
    expected_revision: int | None
    state: VolumeState | None
    entries: Sequence[LedgerEntry] = ()
    alerts: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An alert that a channel has not taken yet; ``attempts`` counts sends that were begun."""

    alert: Alert
    channel: str
    attempts: int


class TickKind(StrEnum):
    """Which schedule a tick belongs to."""

    SWEEP = "sweep"
    FOCUS = "focus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The watermark: the last completed sweep tick, with a fingerprint of every volume it knew."""

    tick_s: int
    fingerprints: frozenset[int]


class Ledger(Protocol):
    """The only durable truth. Every method is atomic; two processes may use one ledger at once."""

    @property
    def location(self) -> str:
        """Where it is, as ``--ledger`` takes it."""
        ...

    def states(self) -> dict[str, VolumeState]:
        """Every volume with anything going on, by volume id."""
        ...

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        """Apply each change whose revision still is the expected one.

        Its alerts wait for ``channels`` and for every channel an earlier commit named: two processes may
        serve different ones.

        Returns:
            The ids of the volumes whose change was applied; another process was first with the rest.
        """
        ...

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        """The history of one volume, oldest first."""
        ...

    def roster(self) -> Roster | None:
        """The fleet as of the last completed sweep, None before the first."""
        ...

    def claim_tick(self, kind: TickKind, tick_s: int, *, now_s: float, lease_s: float) -> bool:
        """Take a tick; False when it or a later one is completed, or is claimed under a running lease."""
        ...

    def complete_tick(self, kind: TickKind, tick_s: int, *, roster: frozenset[int] | None = None) -> None:
        """Record that a claimed tick did all its work, never moving back; a sweep brings the new roster."""
        ...

    def bundle(self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]) -> None:
        """Send ``digest`` in place of these alerts, unless some of them are no longer waiting."""
        ...

    def waiting(self, *, channels: Sequence[str]) -> list[Delivery]:
        """What these channels have not taken yet, oldest first."""
        ...

    def claim(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        """Take one delivery for sending; False when it is delivered, or claimed and the lease still runs."""
        ...

    def delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert."""
        ...

    def not_delivered(self, delivery: Delivery, *, error: str) -> None:
        """Give the claim back; the next pass tries again."""
        ...
