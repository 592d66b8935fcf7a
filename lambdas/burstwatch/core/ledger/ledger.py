"""What the ledger can do: the port that both ledgers implement, and the values that go through it."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.caps import Caps, IntentResult
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.ledger.unreadable_item import UnreadableItem


class States(dict[str, ResourceState]):
    """The states by volume id; ``unreadable`` are those that are there and cannot be read."""

    __slots__ = ("unreadable",)

    def __init__(
        self, readable: Mapping[str, ResourceState] | None = None, unreadable: Iterable[UnreadableItem] = ()
    ) -> None:
        super().__init__(readable or {})
        self.unreadable = {item.subject: item for item in unreadable}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one poll changes about one volume, all or nothing.

    ``expected_revision`` is the revision that the decision was made from, None if there was no state.
    ``state`` is None if the volume is calm again and its state is dropped. ``alerts`` wait in the ledger
    until every channel named to ``Ledger.commit`` has taken them.
    """

    volume_id: str
    expected_revision: int | None
    state: ResourceState | None
    entries: Sequence[LedgerEntry] = ()
    alerts: Sequence[Alert] = ()

    @property
    def entries_with_alerts(self) -> list[LedgerEntry]:
        """The entries, and one more for each alert that has none."""
        alert_ids = {entry.body.get("alert_id") for entry in self.entries if entry.kind is EntryKind.ALERT}
        revisions = [entry.revision for entry in self.entries] or [(self.expected_revision or 0) + 1]
        missing_entries = (
            LedgerEntry(
                volume_id=self.volume_id,
                revision=self.state.revision if self.state else max(revisions),
                kind=EntryKind.ALERT,
                at_s=alert.at_s,
                body=alert.to_document(),
            )
            for alert in self.alerts
            if alert.alert_id not in alert_ids
        )
        return [*self.entries, *missing_entries]


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


MAX_CLOCK_SKEW_S: Final = 5.0
"""Clocks that are set differ by less: a claim that another process made by its own holds for this one too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """The watermark: the last completed sweep tick, and a fingerprint of each volume listed in it."""

    tick_at_s: int
    fingerprints: frozenset[int]


class Ledger(Protocol):
    """The only durable memory. Every method is atomic, and several processes may use one ledger at once.

    Each item is checked when it is read: an unreadable item does not affect the others, and
    ``take_unreadable`` names it.
    """

    @property
    def location(self) -> str:
        """Where it is, as ``--ledger`` takes it."""
        ...

    def take_unreadable(self) -> list[UnreadableItem]:
        """The items that this object could not read since the last call, each item once."""
        ...

    def note_unreadable(self, item: UnreadableItem) -> None:
        """Report with ``take_unreadable`` an item that only its reader finds to be damaged."""
        ...

    def states(self) -> States:
        """Every volume with anything going on, by volume id.

        Those that cannot be read are in ``unreadable``; a change that was made as if one were absent is not
        applied.
        """
        ...

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        """Those of ``states`` that belong to these volumes."""
        ...

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
        """Record an intent to modify, or return why not, in one transaction: the caps hold in any race.

        Every state whose flip ``counts_against_caps`` counts, with its ``reserved_usd``. The status is
        ``conflict`` if the state is no longer the expected one. A hold of the volume for ``own_hold_reason``
        does not stop it.
        """
        ...

    def holds(self, now_s: float) -> list[Hold]:
        """The holds in force, the one that lasts longest first; an unreadable one holds everything."""
        ...

    def place_hold(self, hold: Hold) -> None:
        """Keep a volume, or everything, as it is; a hold on the same is replaced."""
        ...

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End the hold on a volume, or on everything, and return it; None if it was not held.

        An unreadable hold ends with the hold on its volume. The hold on everything ends it only if it names
        no valid volume.
        """
        ...

    def manual_overrides(self) -> dict[str, ManualWindowOverride]:
        """The last manual start or stop of each window, by the name of the window.

        An unreadable one is included, and not ``is_readable``.
        """
        ...

    def record_manual_override(self, override: ManualWindowOverride) -> None:
        """Start or stop a window by hand."""
        ...

    def commit(self, changes: Sequence[Change], *, channels: Sequence[str]) -> set[str]:
        """Apply each change whose revision still is the expected one.

        Its alerts wait for ``channels`` and for every channel an earlier commit named: two processes may
        serve different ones.

        Returns:
            The ids of the volumes whose change was applied; another process was first with the rest.

        Raises:
            PartialCommitError: some changes were not written, and the others were.
        """
        ...

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        """The history of one volume, oldest first, without entries that cannot be read."""
        ...

    def fleet_snapshot(self) -> FleetSnapshot | None:
        """The fleet as of the last completed sweep; None before the first, or if it cannot be read."""
        ...

    def claim_tick(self, kind: TickKind, tick_at_s: int, *, now_s: float, lease_s: float) -> bool:
        """Claim a tick; False if it or a later one is completed, or claimed under a running lease.

        Only one sweep runs at a time: while an earlier one is claimed and not completed, a later one waits.
        """
        ...

    def renew_tick(
        self, kind: TickKind, tick_at_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """Extend the claim of this tick, which lasts until ``until_s``, to ``now_s + lease_s``.

        False if another process has taken the tick, or a later one, since the claim expired.
        """
        ...

    def complete_tick(
        self, kind: TickKind, tick_at_s: int, *, fleet_fingerprints: frozenset[int] | None = None
    ) -> None:
        """Record that a claimed tick is done, never moving back; a sweep gives the new fingerprints."""
        ...

    def replace_with_digest(
        self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]
    ) -> None:
        """Send ``digest`` in place of these alerts, unless some of them are no longer waiting."""
        ...

    def pending_deliveries(self, *, channels: Sequence[str]) -> list[Delivery]:
        """The alerts that these channels have not accepted yet, oldest first.

        An alert that cannot be read is kept, and does not block the others.
        """
        ...

    def claim_delivery(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        """Claim one delivery for sending; False if it is delivered, or claimed under a running lease."""
        ...

    def mark_delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel accepted the alert."""
        ...

    def mark_undelivered(self, delivery: Delivery, *, error: str) -> None:
        """Release the claim, so that the next pass tries again."""
        ...
