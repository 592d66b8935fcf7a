"""What the ledger remembers of one resource between two polls, in groups; stored as one flat document."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import (
    MAX_AHEAD_S,
    QUOTA_PERIOD_S,
    WATCHDOG,
    Flip,
    ModificationUse,
    modifications_within,
    record_modification,
)

_LONGEST_PAUSE_S: Final = 2 * 3600
"""A pause of our own is an hour at most, and clocks differ by less than another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertHistory:
    """What people were notified of about a volume, so that nothing is sent twice.

    What they were notified of about its flip is in ``Flip`` and ends with that.

    ``open_level`` is the level of the alert that is open, None if none is; ``level_at_s`` is when it was last
    sent, in seconds since 1970. ``is_gap_open``: missing data was reported. ``refusal`` is the name of the
    guard whose refusal was reported, ``is_critical_open`` whether a critical volume on burst storage was.
    ``missed_window_at_s`` is the start of the window that was reported as missed, ``stall_at_s`` when a
    stalled host was reported.
    """

    open_level: Level | None = None
    level_at_s: int | None = None
    is_gap_open: bool = False
    refusal: str | None = None
    is_critical_open: bool = False
    missed_window_at_s: int | None = None
    stall_at_s: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether an alert about the level or the data is open: a ``Recovered`` alert closes it."""
        return self.open_level is not None or self.is_gap_open


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReading:
    """The last burst balance that was read, and why it is unknown now.

    ``balance_pct`` is 0 to 100, measured at ``balance_at_s``; it is kept while later data is missing.
    ``unknown_reason`` is None if the last poll had a basis to judge, and has been the same since
    ``unknown_since_s``. Instants are in seconds since 1970.
    """

    balance_pct: float | None = None
    balance_at_s: int | None = None
    unknown_reason: UnknownReason | None = None
    unknown_since_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether a volume is there and in use, and what changed about it; instants in seconds since 1970.

    Since ``arrived_at_s`` it is new, attached again or back from a flip. Since ``modified_at_s`` it has
    another size or type, and ``smaller_size_gib`` is the smaller of the two sizes while that lasts. AWS has
    not shown it since ``missing_since_s``; since ``unused_since_s`` it has been detached, or its instance
    stopped.
    """

    arrived_at_s: int | None = None
    modified_at_s: int | None = None
    smaller_size_gib: int | None = None
    missing_since_s: int | None = None
    unused_since_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationHistory:
    """The past modifications of a volume, and what follows from them; instants in seconds since 1970.

    ``used`` are the modifications of the last 24 h, oldest first. After ``failure_count`` failures in a row
    the next attempt may be made at ``retry_at_s``. At ``contested_at_s`` somebody else was seen to have
    changed a volume that we had flipped; None once it is released. A balance from before ``returned_at_s``,
    the start of the last flip-back, means nothing. ``unsent_intent`` is an intent that counts as never sent:
    if AWS shows its modification after all, it was sent.
    """

    used: tuple[ModificationUse, ...] = ()
    failure_count: int = 0
    retry_at_s: int | None = None
    contested_at_s: int | None = None
    returned_at_s: int | None = None
    unsent_intent: Flip | None = None

    def within_day(self, now_s: float) -> tuple[ModificationUse, ...]:
        """The modifications that still count against AWS's quota, oldest first."""
        return modifications_within(self.used, now_s)

    def with_use(self, modification: ModificationUse, now_s: float) -> Self:
        """The history with one more modification; one that is known already counts once."""
        return replace(self, used=record_modification(self.used, modification, now_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """What the watchdog knows of a resource with anything going on; a calm resource has no state.

    ``volume_id`` is the ID of the resource, of whatever kind; ledgers have stored it by this name since 0.1.
    ``revision`` rises with every change. It starts from the time of the poll, so that a state which comes
    back after it was dropped never repeats a revision. ``level`` is the last level judged, never
    ``unknown``: a resource whose data is missing keeps it. ``next_poll_at_s`` is None while the sweep polls
    it often enough. ``stall`` is the last that its host reported. ``lasting_id`` is what a database keeps
    when it is renamed (DbiResourceId), and ``named_at_s`` when it was first seen under its present name,
    None if it was never seen under another. ``instance_class`` is the class of a database whose bucket it is,
    and ``class_since_s`` when that was first seen, None if it was never seen with another.
    """

    volume_id: str
    revision: int
    level: Level = Level.OK
    level_since_s: int = 0
    next_poll_at_s: int | None = None
    reading: LastReading = LastReading()
    presence: Presence = Presence()
    alerts: AlertHistory = AlertHistory()
    flip: Flip | None = None
    modifications: ModificationHistory = ModificationHistory()
    stall: Stall | None = None
    lasting_id: str | None = None
    named_at_s: int | None = None
    instance_class: str | None = None
    class_since_s: int | None = None

    @property
    def judged_level(self) -> Level:
        """The last level judged; ``unknown`` if there has been no balance to judge by."""
        has_balance = self.reading.unknown_reason is None or self.reading.balance_pct is not None
        return self.level if has_balance or self.level is not Level.OK else Level.UNKNOWN

    @property
    def is_contested(self) -> bool:
        """Whether somebody else has changed a volume that we had flipped, and no one has released it."""
        return self.modifications.contested_at_s is not None

    @property
    def has_flip_history(self) -> bool:
        """Whether something is remembered of it that AWS does not know."""
        has_flip = self.flip is not None or self.modifications.unsent_intent is not None
        return has_flip or self.is_contested or bool(self.modifications.used)

    def next_attempt_at_s(self, now_s: float) -> int | None:
        """When the next attempt may be made after a failure; None if it may be made now.

        A time after ``latest_attempt_at_s`` does not count: the ledger may be damaged.
        """
        retry_at_s = self.modifications.retry_at_s
        is_ahead = retry_at_s is not None and now_s < retry_at_s <= self.latest_attempt_at_s(now_s)
        return retry_at_s if is_ahead else None

    def latest_attempt_at_s(self, now_s: float) -> float:
        """The latest time that can be right for the next attempt.

        Our own pause is an hour at most. AWS's quota is free again a day after the newest modification.
        """
        uses = self.modifications.within_day(now_s)
        quota_ends_at_s = uses[-1].at_s + QUOTA_PERIOD_S if uses else 0
        return min(max(now_s + _LONGEST_PAUSE_S, quota_ends_at_s), now_s + MAX_AHEAD_S)

    def impossible_times(self, now_s: float) -> list[int]:
        """The times of modifications, and of the next attempt, that are too far ahead and do not count."""
        history = self.modifications
        times = [use.at_s for use in history.used if use.at_s > now_s + MAX_AHEAD_S]
        if history.retry_at_s is not None and history.retry_at_s > self.latest_attempt_at_s(now_s):
            times.append(history.retry_at_s)
        return times

    def to_document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """As flat JSON: as the ledger keeps it, or with every key under its own name if it ``is_whole``."""
        document = {key: read_field(self) for key, read_field in _FIELD_GETTERS.items()}
        if not is_whole:
            document = stored_values.without_defaults(document, _DEFAULTS)
        for key, flip in (("flip", self.flip), ("lost", self.modifications.unsent_intent)):
            if flip is not None:
                document[key] = flip.to_document(is_whole=is_whole)
        if self.stall is not None:
            document["stall"] = self.stall.to_document()
        if self.modifications.used:
            document["spent"] = [modification.to_document() for modification in self.modifications.used]
        return document if is_whole else _move_additions(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``; fields of a later version are left out.

        So an upgrade can be rolled back. A version that adds something which an older one must not overlook
        raises the layout of the ledger instead, and the older one leaves that ledger alone.

        Raises:
            one of ``DECODE_ERRORS``: no version of burstwatch writes this.
        """
        groups: dict[str, dict[str, Any]] = {_NO_GROUP: {}}
        values = stored_values.read_known_fields(_restore_additions(document), _FIELD_READERS)
        for key, value in values.items():
            group, name = _FIELD_TARGETS[key]
            groups.setdefault(group, {})[name] = value
        fields = groups.pop(_NO_GROUP)
        return cls(**fields, **{group: _GROUPS[group](**values) for group, values in groups.items()})


def _move_additions(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what the first version does not know moved to where that version overlooks it.

    The first version gives up the whole ledger over a state with a key or a reason that it does not know, so
    no one could go back to it. It ignores unknown keys only in the items of ``spent``. The additions are in
    an item of their own, so old that it counts as no modification in any version.
    """
    additions: dict[str, Any] = {key: document[key] for key in _ADDED_KEYS if key in document}
    if document.get("unknown_reason") in _ADDED_REASONS:
        additions["unknown_reason"] = document["unknown_reason"]
    if not additions:
        return document
    remaining = {key: value for key, value in document.items() if key not in additions}
    carrier = {**ModificationUse(at_s=0, by=WATCHDOG).to_document(), _ADDITIONS: additions}
    return {**remaining, "spent": [*remaining.get("spent", ()), carrier]}


def _restore_additions(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inverse of ``_move_additions``; a document with its additions among its other keys stays as it is.

    Raises:
        one of ``DECODE_ERRORS``: no version of burstwatch writes this.
    """
    stored_uses = document.get("spent")
    if not stored_uses or _ADDITIONS not in stored_uses[-1]:
        return document
    return {**document, "spent": stored_uses[:-1], **stored_values.read_mapping(stored_uses[-1][_ADDITIONS])}


_ADDITIONS: Final = "added"
_ADDED_KEYS: Final = ("unused_since_s", "lasting_id", "named_at_s", "instance_class", "class_since_s")
"""The keys of a state that the first version does not know. A further key belongs here as well."""
_ADDED_REASONS: Final = (
    UnknownReason.IDLE,
    UnknownReason.NO_SUCH_BUCKET,
    UnknownReason.DETAILED_MONITORING,
)
"""The values of ``unknown_reason`` that the first version does not know."""
_GROUPS: Final[Mapping[str, Any]] = {
    "alerts": AlertHistory,
    "reading": LastReading,
    "presence": Presence,
    "modifications": ModificationHistory,
}
FIELD_PATHS: Final[Mapping[str, str]] = {
    "unknown_reason": "reading.unknown_reason",
    "unknown_since_s": "reading.unknown_since_s",
    "alerted_level": "alerts.open_level",
    "alerted_at_s": "alerts.level_at_s",
    "gap_alerted": "alerts.is_gap_open",
    "next_look_at_s": "next_poll_at_s",
    "arrived_at_s": "presence.arrived_at_s",
    "smaller_size_gib": "presence.smaller_size_gib",
    "modified_at_s": "presence.modified_at_s",
    "balance_pct": "reading.balance_pct",
    "balance_at_s": "reading.balance_at_s",
    "lost": "modifications.unsent_intent",
    "spent": "modifications.used",
    "failures": "modifications.failure_count",
    "retry_at_s": "modifications.retry_at_s",
    "contested_at_s": "modifications.contested_at_s",
    "returned_at_s": "modifications.returned_at_s",
    "refusal_told": "alerts.refusal",
    "critical_told": "alerts.is_critical_open",
    "missed_told_s": "alerts.missed_window_at_s",
    "missing_since_s": "presence.missing_since_s",
    "unused_since_s": "presence.unused_since_s",
    "stall_told_at_s": "alerts.stall_at_s",
}
"""The group and field of each key that is not a field of the state itself; keys stay as first written."""
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
    "spent": lambda documents: tuple(map(ModificationUse.from_document, documents)),
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
    "lasting_id": stored_values.read_text,
    "named_at_s": stored_values.read_instant,
    "instance_class": stored_values.read_text,
    "class_since_s": stored_values.read_instant,
}
"""One for each field, in the order of the document; a field without one would be left out."""
_NO_GROUP: Final = ""
_FIELD_TARGETS: Final[Mapping[str, tuple[str, str]]] = {
    key: (group, name)
    for key in _FIELD_READERS
    for group, _, name in [FIELD_PATHS.get(key, key).rpartition(".")]
}
"""The group and the name of the field of each key."""
_FIELD_GETTERS: Final = {key: attrgetter(FIELD_PATHS.get(key, key)) for key in _FIELD_READERS}
_NEW_STATE: Final = ResourceState(volume_id="", revision=0)
_DEFAULTS: Final = {
    key: read_field(_NEW_STATE)
    for key, read_field in _FIELD_GETTERS.items()
    if key not in ("volume_id", "revision")
}
