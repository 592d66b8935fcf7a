"""A flip as the ledger remembers it: from the first request to the verified return."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.ebs.pricing import Configuration, VolumeType

if TYPE_CHECKING:
    from documents.shared import ConfigurationDocument

WATCHDOG: Final = "watchdog"
"""Who requests a modification when no person does."""

EXTERNAL: Final = "others"
"""Who made a modification that is not in our ledger."""

QUOTA_PERIOD_S: Final = 24 * 3600
"""AWS counts the modifications of a volume over a rolling period of 24 hours."""

MAX_AHEAD_S: Final = QUOTA_PERIOD_S + 3600
"""AWS's quota names a time of a day ahead at most, and clocks differ by less than an hour more."""

NO_END_S: Final = stored_values.MAX_INSTANT_S - 1
"""The end of a hold of which the end cannot be read: it lasts until it is released."""

SAME_START_TOLERANCE_S: Final = 5
"""A judgement: the start of a modification in AWS's answer to ModifyVolume and in its record differ by less.
"""


class Direction(StrEnum):
    """Where a modification leads: to provisioned IOPS, or back to what the volume was."""

    FLIP = "out"
    FLIP_BACK = "back"


class FlipStatus(StrEnum):
    """How far the last requested modification has come.

    ``requested``: the intent is recorded, and it is not known whether AWS accepted it. ``in_progress``: AWS
    accepted it. ``on_target``: the volume was seen to be what was requested. The values are stored, so they
    stay as the first version wrote them.
    """

    REQUESTED = "asked"
    IN_PROGRESS = "changing"
    ON_TARGET = "on_target"


class FlipCause(StrEnum):
    """Why a volume is moved."""

    DRAINING = "draining"
    WINDOW = "window"
    CRITICAL = "critical"
    MANUAL = "by_hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationUse:
    """A modification that was used up; ``by`` is ``watchdog``, ``others`` or a person's name."""

    at_s: int
    by: str
    direction: Direction | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return stored_values.stored_fields(self, _MODIFICATION_USE_READERS)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.read_known_fields(document, _MODIFICATION_USE_READERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A volume that has been flipped, or is on its way out or back.

    ``original`` is the configuration that it returns to, ``target`` the one that it was flipped to, and
    ``size_gib`` its size in GiB at that time. ``direction``, ``intent_id``, ``by`` and ``requested_at_s``
    belong to the last requested modification; ``by`` is ``watchdog`` or a person's name. AWS started it at
    ``started_at_s``, and the volume was first seen on its target at ``reached_at_s``. Instants are in seconds
    since 1970.

    If ``is_permanent``, the volume is not brought back; ``reason`` says why. Otherwise it returns after
    ``return_after_s`` if that is set. ``usd_per_month`` is what the target costs more than the original,
    negative if it costs less. ``unconfirmed_since_s`` is when a read first did not show the expected
    configuration: one such read may be stale, a second one later counts. ``previous`` is the flip before the
    last request, to which it falls back if the request is not carried out. ``is_stuck_alerted`` and
    ``overdue_alerted_at_s`` record alerts about this flip; they end with it.
    """

    status: FlipStatus
    direction: Direction
    intent_id: str
    cause: FlipCause
    by: str
    original: Configuration
    target: Configuration
    size_gib: int
    requested_at_s: int
    reason: str = ""
    is_permanent: bool = False
    return_after_s: int | None = None
    usd_per_month: float = 0.0
    previous: "Flip | None" = None
    started_at_s: int | None = None
    reached_at_s: int | None = None
    unconfirmed_since_s: int | None = None
    is_stuck_alerted: bool = False
    overdue_alerted_at_s: int | None = None

    @property
    def requested_config(self) -> Configuration:
        """The configuration that the last requested modification leads to."""
        return self.target if self.direction is Direction.FLIP else self.original

    @property
    def is_settled(self) -> bool:
        """Whether nothing more follows: it is on its target permanently."""
        return self.status is FlipStatus.ON_TARGET and self.is_permanent

    @property
    def is_under_way(self) -> bool:
        """Whether a modification is requested or in progress."""
        return self.status is not FlipStatus.ON_TARGET

    @property
    def counts_against_caps(self) -> bool:
        """Whether it counts against the caps: until it is settled, and after that if the watchdog pays."""
        return not self.is_settled or (self.by == WATCHDOG and self.usd_per_month > 0)

    @property
    def reserved_usd(self) -> float:
        """What it takes of the spend cap, in dollars a month; 0 if it saves money or does not count."""
        return max(0.0, self.usd_per_month) if self.counts_against_caps else 0.0

    def to_document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """As JSON; what has its default is left out unless the document ``is_whole``."""
        document = stored_values.stored_fields(self, _FLIP_READERS, _FLIP_FIELD_NAMES)
        if not is_whole:
            document = stored_values.without_defaults(document, _FIELD_DEFAULTS, _FLIP_FIELD_NAMES)
        if self.previous is not None:
            document["previous"] = self.previous.to_document(is_whole=is_whole)
        document["original"] = configuration_to_document(self.original)
        document["target"] = configuration_to_document(self.target)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.read_known_fields(document, _FLIP_READERS, _FLIP_FIELD_NAMES))


_FIELD_DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: field.default for field in Flip.__dataclass_fields__.values()
}


def configuration_to_document(configuration: Configuration) -> "ConfigurationDocument":
    """A configuration as JSON."""
    return {
        "volume_type": configuration.volume_type,
        "iops": configuration.iops,
        "throughput_mib_s": configuration.throughput_mib_s,
    }


def configuration_from_document(document: Mapping[str, Any]) -> Configuration:
    """The inverse of ``configuration_to_document``."""
    return Configuration(**stored_values.read_known_fields(document, _CONFIGURATION_READERS))


_CONFIGURATION_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "volume_type": VolumeType,
    "iops": stored_values.or_none(stored_values.read_iops),
    "throughput_mib_s": stored_values.or_none(stored_values.read_throughput),
}
_MODIFICATION_USE_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "at_s": stored_values.read_instant,
    "by": stored_values.read_text,
    "direction": stored_values.or_none(Direction),
}
_FLIP_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "phase": FlipStatus,
    "direction": Direction,
    "intent_id": stored_values.read_text,
    "cause": FlipCause,
    "by": stored_values.read_text,
    "original": configuration_from_document,
    "target": configuration_from_document,
    "size_gib": stored_values.read_size_gib,
    "asked_at_s": stored_values.read_instant,
    "because": stored_values.read_text,
    "stays": stored_values.read_bool,
    "return_after_s": stored_values.read_instant,
    "usd_per_month": stored_values.read_number,
    "previous": Flip.from_document,
    "started_at_s": stored_values.read_instant,
    "reached_at_s": stored_values.read_instant,
    "unseen_since_s": stored_values.read_instant,
    "stuck_told": stored_values.read_bool,
    "left_told_at_s": stored_values.read_instant,
}
_FLIP_FIELD_NAMES: Final[Mapping[str, str]] = {
    "phase": "status",
    "because": "reason",
    "stays": "is_permanent",
    "asked_at_s": "requested_at_s",
    "unseen_since_s": "unconfirmed_since_s",
    "stuck_told": "is_stuck_alerted",
    "left_told_at_s": "overdue_alerted_at_s",
}


def make_intent_id(volume_id: str, revision: int) -> str:
    """An id for an intent, 16 hexadecimal digits: a volume has one intent at most at each revision."""
    return sha256(f"{volume_id}\nintent\n{revision}".encode()).hexdigest()[:16]


def modifications_within(
    modifications: Iterable[ModificationUse], now_s: float, period_s: float = QUOTA_PERIOD_S
) -> tuple[ModificationUse, ...]:
    """The modifications of the last ``period_s`` seconds, oldest first; one in the future counts as well.

    One that is more than a day ahead does not, as no clock is that wrong: it would count for ever.
    """
    return tuple(
        sorted(
            (
                modification
                for modification in modifications
                if now_s - period_s < modification.at_s <= now_s + MAX_AHEAD_S
            ),
            key=lambda modification: modification.at_s,
        )
    )


def record_modification(
    modifications: tuple[ModificationUse, ...], modification: ModificationUse, now_s: float
) -> tuple[ModificationUse, ...]:
    """The modifications that still count, and one more; the same start counts once."""
    recent = modifications_within(modifications, now_s)
    if any(
        abs(known_modification.at_s - modification.at_s) <= SAME_START_TOLERANCE_S
        for known_modification in recent
    ):
        return recent
    return modifications_within((*recent, modification), now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A person's order to modify nothing: neither one volume, nor any (``volume_id`` None).

    ``volume_id`` may be the ID of another resource, which is never modified: then it stops its alerts.

    ``damaged_volume_id`` is the volume whose hold cannot be read: everything is held until that hold is
    released.
    """

    volume_id: str | None
    by: str
    reason: str
    placed_at_s: int
    until_s: int
    damaged_volume_id: str | None = None

    def __post_init__(self) -> None:
        _check_instants(self.placed_at_s, self.until_s)

    @property
    def subject(self) -> str | None:
        """The volume to release to end it; None: everything."""
        return self.volume_id or self.damaged_volume_id

    @property
    def release_argument(self) -> str:
        """What ``burstctl release`` takes to end it."""
        return self.subject or "--all"

    def applies_to(self, volume_id: str, now_s: float) -> bool:
        """Whether it keeps this volume as it is now."""
        return self.until_s > now_s and self.volume_id in (None, volume_id)


def silencing_hold(holds: Iterable[Hold], resource_id: str, now_s: float) -> Hold | None:
    """The hold on this very resource that lasts longest; a hold on everything silences nothing."""
    return active_hold((hold for hold in holds if hold.volume_id is not None), resource_id, now_s)


def active_hold(
    holds: Iterable[Hold], volume_id: str, now_s: float, *, own_reason: str | None = None
) -> Hold | None:
    """The hold on a volume that lasts longest, but for one of it with ``own_reason``; None without a hold."""
    active = [
        hold
        for hold in holds
        if hold.applies_to(volume_id, now_s) and (hold.volume_id, hold.reason) != (volume_id, own_reason)
    ]
    return max(active, key=lambda hold: hold.until_s, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualWindowOverride:
    """A window that was started by hand (``is_start``, until ``until_s`` or until it is stopped), or stopped.

    Occurrences of a stopped window that begin before ``until_s`` are skipped. If it is not ``is_readable``,
    it is not known whether the window was started or stopped, so it causes no flip and no return.
    """

    name: str
    is_start: bool
    by: str
    at_s: int
    until_s: int | None = None
    is_readable: bool = True

    def __post_init__(self) -> None:
        _check_instants(self.at_s, self.at_s if self.until_s is None else self.until_s)


def _check_instants(*instants_s: float) -> None:
    """Refuse what no clock shows: a ledger may be damaged, and every pass reads it.

    Raises:
        ValueError, TypeError: naming the first.
    """
    for at_s in instants_s:
        if not 0 <= at_s < stored_values.MAX_INSTANT_S:
            raise ValueError(f"{at_s} is not a time from 1970 to 9999")
