"""What is remembered between two looks, and the one durable place that remembers it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Flip,
    Hold,
    ManualWindowOverride,
    ModificationUse,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """What the watchdog knows of a volume with anything going on; a calm volume has no state.

    ``revision`` rises with every change. It starts from the time of the look, so that a state which comes
    back after it was dropped never repeats a revision. ``level`` is the last level judged, never
    ``unknown``: a volume whose data is missing keeps it. ``next_poll_at_s`` is None while the sweep looks
    after the volume.

    ``modifications`` are its modifications of the last day. After one that failed, ``retry_at_s`` is when the
    next may be tried. ``contested_at_s``: somebody else changed a volume that we had flipped, and it was not
    released since. ``unsent_intent`` is an intent that counts as never sent: should AWS ever show it, it was.
    A balance from before ``returned_at_s`` says nothing any more. What people were told already: the guard
    that refused, a critical volume on burst storage, the start of a window missed. ``stall`` is the last that
    its host reported. ``missing_since_s`` is since when AWS does not show the volume, ``unused_since_s``
    since when it is known to be detached, or its instance to be stopped.
    """

    volume_id: str
    revision: int
    level: Level = Level.OK
    level_since_s: int = 0
    unknown_reason: UnknownReason | None = None
    unknown_since_s: int | None = None
    alerted_level: Level | None = None
    alerted_at_s: int | None = None
    is_gap_alerted: bool = False
    next_poll_at_s: int | None = None
    arrived_at_s: int | None = None
    smaller_size_gib: int | None = None
    modified_at_s: int | None = None
    balance_pct: float | None = None
    balance_at_s: int | None = None
    flip: Flip | None = None
    unsent_intent: Flip | None = None
    modifications: tuple[ModificationUse, ...] = ()
    failure_count: int = 0
    retry_at_s: int | None = None
    contested_at_s: int | None = None
    returned_at_s: int | None = None
    alerted_refusal: str | None = None
    is_critical_alerted: bool = False
    missed_window_alerted_at_s: int | None = None
    missing_since_s: int | None = None
    unused_since_s: int | None = None
    stall: Stall | None = None
    stall_alerted_at_s: int | None = None

    @property
    def has_flip_history(self) -> bool:
        """Whether something is remembered of it that AWS does not know."""
        has_flip = self.flip is not None or self.unsent_intent is not None
        return has_flip or self.contested_at_s is not None or bool(self.modifications)

    def to_document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """As JSON: as the ledger keeps it, or with every key under its own name if it ``is_whole``."""
        document = stored_values.stored_fields(self, _FIELD_READERS, _FIELD_NAMES)
        if not is_whole:
            document = stored_values.without_defaults(document, _DEFAULTS, _FIELD_NAMES)
        for key, flip in (("flip", self.flip), ("lost", self.unsent_intent)):
            if flip is not None:
                document[key] = flip.to_document(is_whole=is_whole)
        if self.stall is not None:
            document["stall"] = self.stall.to_document()
        if self.modifications:
            document["spent"] = [modification.to_document() for modification in self.modifications]
        return document if is_whole else _move_additions(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``; fields of a later version are left out.

        So an upgrade can be rolled back. A version that adds something which an older one must not overlook
        raises the layout of the ledger instead, and the older one leaves that ledger alone.
        """
        document = _restore_additions(document)
        return cls(**stored_values.read_known_fields(document, _FIELD_READERS, _FIELD_NAMES))


def _move_additions(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what the first version does not know where it overlooks it.

    That version gives up the whole ledger over a state with a key or a reason that it does not know, so
    nobody could go back to it. It ignores unknown keys only in the items of ``spent``. The additions are in
    an item of their own, so old that it counts as no modification in any version.
    """
    additions = {key: document[key] for key in _ADDED_KEYS if key in document}
    if document.get("unknown_reason") in _ADDED_REASONS:
        additions["unknown_reason"] = document["unknown_reason"]
    if not additions:
        return document
    kept = {key: value for key, value in document.items() if key not in additions}
    carrier = {**ModificationUse(at_s=0, by=WATCHDOG).to_document(), _ADDITIONS: additions}
    return {**kept, "spent": [*kept.get("spent", ()), carrier]}


def _restore_additions(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inverse of ``_move_additions``; a document with its additions among its other keys stays as it is.

    Raises:
        one of ``DECODE_ERRORS``: no version of burstwatch writes this.
    """
    spent = document.get("spent")
    if not spent or _ADDITIONS not in spent[-1]:
        return document
    return {**document, "spent": spent[:-1], **stored_values.read_mapping(spent[-1][_ADDITIONS])}


_ADDITIONS: Final = "added"
_ADDED_KEYS: Final = ("unused_since_s",)
"""The keys of a state that the first version does not know. A further key belongs here as well."""
_ADDED_REASONS: Final = (UnknownReason.IDLE,)
"""The values of ``unknown_reason`` that the first version does not know."""
_DEFAULTS: Final = {field.name: field.default for field in fields(VolumeState)}
_FIELD_NAMES: Final[Mapping[str, str]] = {
    "lost": "unsent_intent",
    "spent": "modifications",
    "next_look_at_s": "next_poll_at_s",
    "failures": "failure_count",
    "refusal_told": "alerted_refusal",
    "critical_told": "is_critical_alerted",
    "gap_alerted": "is_gap_alerted",
    "missed_told_s": "missed_window_alerted_at_s",
    "stall_told_at_s": "stall_alerted_at_s",
}
_FIELD_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "volume_id": stored_values.read_text,
    "revision": stored_values.read_count,
    "level": Level,
    "level_since_s": stored_values.read_instant,
    "unknown_reason": UnknownReason,
    "unknown_since_s": stored_values.read_instant,
    "alerted_level": Level,
    "alerted_at_s": stored_values.read_instant,
    "gap_alerted": stored_values.read_bool,
    "next_look_at_s": stored_values.read_instant,
    "arrived_at_s": stored_values.read_instant,
    "smaller_size_gib": stored_values.read_size_gib,
    "modified_at_s": stored_values.read_instant,
    "balance_pct": stored_values.read_percentage,
    "balance_at_s": stored_values.read_instant,
    "flip": Flip.from_document,
    "lost": Flip.from_document,
    "spent": lambda spent: tuple(map(ModificationUse.from_document, spent)),
    "failures": stored_values.read_count,
    "retry_at_s": stored_values.read_instant,
    "contested_at_s": stored_values.read_instant,
    "returned_at_s": stored_values.read_instant,
    "refusal_told": stored_values.read_text,
    "critical_told": stored_values.read_bool,
    "missed_told_s": stored_values.read_instant,
    "missing_since_s": stored_values.read_instant,
    "unused_since_s": stored_values.read_instant,
    "stall": Stall.from_document,
    "stall_told_at_s": stored_values.read_instant,
}
"""One for each field, or it would be left out."""


class ItemKind(StrEnum):
    """What an item of the ledger is."""

    STATE = "state"
    HOLD = "hold"
    WINDOW = "window"
    ALERT = "alert"
    ENTRY = "history entry"
    TICK = "tick"
    CHANNELS = "list of channels"
    TOTALS = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An item of the ledger that cannot be read. It stays as it is, and is never taken for absent.

    ``subject`` is the volume, window, channel or schedule that it is about; ``key`` says where it is.
    ``revision`` and ``content`` are those of a state, as far as they can be told.
    """

    kind: ItemKind
    subject: str
    key: str
    reason: str
    revision: int | None = None
    content: str = ""

    def __str__(self) -> str:
        sentence = (
            f"the {self.kind} of {self.subject} in the ledger ({self.key}) cannot be read: {self.reason};"
        )
        next_step = _NEXT_STEPS[self.kind].replace("VOLUME", self.subject)
        return f"{sentence} {next_step.replace('RELEASE', release_command(self.subject))}"


def release_command(subject: str) -> str:
    """What releases a volume, or everything where this is not the id of a volume."""
    return f"burstctl release {subject if is_volume_id(subject) else '--all'}"


def is_volume_id(subject: str) -> bool:
    """Whether AWS names volumes so: burstctl takes no other."""
    return _VOLUME_ID.fullmatch(subject) is not None


_VOLUME_ID: Final = re.compile(r"vol-([0-9a-f]{8}|[0-9a-f]{17})")
_USE_NEWEST_VERSION: Final = "use the newest burstwatch that ever wrote to this ledger"
_NEXT_STEPS: Final[Mapping[ItemKind, str]] = {
    ItemKind.STATE: (
        f"the volume is not judged or modified: {_USE_NEWEST_VERSION}, or give up what is remembered of it"
        " with burstctl release VOLUME"
    ),
    ItemKind.HOLD: "everything is held until RELEASE",
    ItemKind.WINDOW: "it moves no volume until burstctl window start or stop says it again",
    ItemKind.ALERT: f"it is kept and not sent: {_USE_NEWEST_VERSION}",
    ItemKind.ENTRY: f"it is left out: {_USE_NEWEST_VERSION}",
    ItemKind.TICK: "it is taken for absent: everything is swept",
    ItemKind.CHANNELS: "it counts as empty and is written again with the channels in use",
    ItemKind.TOTALS: "it is counted again from the states: nothing to do, unless this is reported again",
}


class States(dict[str, VolumeState]):
    """The states by volume id; ``unreadable`` are those that are there and cannot be read."""

    __slots__ = ("unreadable",)

    def __init__(
        self, readable: Mapping[str, VolumeState] | None = None, unreadable: Iterable[UnreadableItem] = ()
    ) -> None:
        super().__init__(readable or {})
        self.unreadable = {item.subject: item for item in unreadable}


class EntryKind(StrEnum):
    """What an entry of the ledger tells."""

    LEVEL_CHANGED = "level_changed"
    ALERT = "alert"
    DELIVERED = "delivered"
    POLICY_REJECTED = "policy_rejected"
    INTENT = "intent"
    ACCEPTED = "accepted"
    UNCLEAR = "unclear"
    NOT_DONE = "not_done"
    FAILED = "failed"
    REACHED = "reached"
    STAYED = "stayed"
    KEPT = "kept"
    RESTORED = "restored"
    REFUSED = "refused"
    STUCK = "stuck"
    LEFT_ON_TARGET = "left_on_target"
    CHANGED_BY_OTHERS = "changed_by_others"
    HELD = "held"
    RELEASED = "released"
    WINDOW = "window"
    STALL = "stall"
    ACTING = "acting"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of a volume's history; never changed once written."""

    volume_id: str
    revision: int
    kind: EntryKind
    at_s: int
    body: Mapping[str, Any] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "volume_id": self.volume_id,
            "revision": self.revision,
            "kind": self.kind,
            "at_s": self.at_s,
            "body": self.body,
        }


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How many volumes may be away from what they were, and for how many dollars a month; None: any."""

    volumes: int | None = None
    usd_per_month: float | None = None


class IntentStatus(StrEnum):
    """What became of an intent; only ``recorded`` allows the call to AWS."""

    RECORDED = "recorded"
    CONFLICT = "outrun"
    HELD = "held"
    FLEET_CAP = "fleet_cap"
    SPEND_CAP = "spend_cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentResult:
    """The answer to an intent; without it ``volumes`` are away, for ``metric_usd_per_month`` more."""

    status: IntentStatus
    volumes: int = 0
    usd_per_month: float = 0.0
    hold: Hold | None = None


class TickKind(StrEnum):
    """Which schedule a tick belongs to."""

    SWEEP = "sweep"
    FOCUS = "focus"


MAX_CLOCK_SKEW_S: Final = 5.0
"""Clocks that are set differ by less: a claim that another process made by its own holds for this one too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """The watermark: the last completed sweep tick, with a fingerprint of every volume it knew."""

    tick_at_s: int
    fingerprints: frozenset[int]


class Ledger(Protocol):
    """The only durable truth. Every method is atomic; two processes may use one ledger at once.

    What is read is checked item by item: one that cannot be read hides no other, and ``take_unreadable``
    names it.
    """

    @property
    def location(self) -> str:
        """Where it is, as ``--ledger`` takes it."""
        ...

    def take_unreadable(self) -> list[UnreadableItem]:
        """What this object came across since the last call and could not read, each item once."""
        ...

    def note_unreadable(self, item: UnreadableItem) -> None:
        """Report with ``take_unreadable`` an item that only its reader finds to be damaged."""
        ...

    def states(self) -> States:
        """Every volume with anything going on, by volume id.

        One that cannot be read is ``unread``; a change that takes it for absent is not applied.
        """
        ...

    def states_of(self, volume_ids: AbstractSet[str]) -> States:
        """Those of ``states`` that belong to these volumes."""
        ...

    def record_intent(
        self, change: Change, caps: Caps, *, now_s: float, respects_holds: bool, channels: Sequence[str]
    ) -> IntentResult:
        """Record an intent to modify, or say why not: all in one transaction, so that caps hold in any race.

        Every state with a flip that ``reserves`` counts against the caps, with what it costs more, if it
        does. ``outrun``: the state is not the expected one any more.
        """
        ...

    def holds(self, now_s: float) -> list[Hold]:
        """The holds that last, the one that lasts longest first; one that cannot be read holds everything."""
        ...

    def place_hold(self, hold: Hold) -> None:
        """Keep a volume, or everything, as it is; a hold on the same is replaced."""
        ...

    def lift_hold(self, volume_id: str | None, *, by: str, at_s: int) -> Hold | None:
        """End the hold on a volume, or on everything, and say which it was; None where there was none.

        One that cannot be read ends with that on its volume; with the hold on everything only if it has no
        volume that could be named.
        """
        ...

    def manual_overrides(self) -> dict[str, ManualWindowOverride]:
        """The windows that were started or stopped by hand, by name: the last word on each.

        One that cannot be read is there, and not ``is_readable``.
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
        """
        ...

    def entries(self, volume_id: str, *, since_s: int = 0) -> list[LedgerEntry]:
        """The history of one volume, oldest first, without entries that cannot be read."""
        ...

    def fleet_snapshot(self) -> FleetSnapshot | None:
        """The fleet as of the last completed sweep; None before the first, or if it cannot be read."""
        ...

    def claim_tick(self, kind: TickKind, tick_at_s: int, *, now_s: float, lease_s: float) -> bool:
        """Take a tick; False when it or a later one is completed, or is claimed under a running lease.

        Only one sweep runs at a time: while an earlier one is claimed and not completed, a later one waits.
        """
        ...

    def renew_tick(
        self, kind: TickKind, tick_at_s: int, *, until_s: float, now_s: float, lease_s: float
    ) -> bool:
        """Extend the claim of this tick that lasts until ``until_s`` to ``now_s + lease_s``.

        False when another process has taken the tick, or a later one, since that claim ran out.
        """
        ...

    def complete_tick(
        self, kind: TickKind, tick_at_s: int, *, fleet_fingerprints: frozenset[int] | None = None
    ) -> None:
        """Record that a claimed tick did all its work, never moving back; a sweep brings the new roster."""
        ...

    def replace_with_digest(
        self, alert_ids: Sequence[str], digest: Alert, *, channels: Sequence[str]
    ) -> None:
        """Send ``digest`` in place of these alerts, unless some of them are no longer waiting."""
        ...

    def pending_deliveries(self, *, channels: Sequence[str]) -> list[Delivery]:
        """What these channels have not taken yet, oldest first.

        An alert that cannot be read is kept, and stands in the way of no other.
        """
        ...

    def claim_delivery(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        """Take one delivery for sending; False when it is delivered, or claimed and the lease still runs."""
        ...

    def mark_delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record that the channel took the alert."""
        ...

    def mark_undelivered(self, delivery: Delivery, *, error: str) -> None:
        """Give the claim back; the next pass tries again."""
        ...
