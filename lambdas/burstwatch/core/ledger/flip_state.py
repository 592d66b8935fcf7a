"""A flip: a volume's way out of the burst bucket and back, as the ledger remembers it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.ebs.pricing import Configuration, VolumeType

WATCHDOG: Final = "watchdog"
"""Who asks when no person does."""

OTHERS: Final = "others"
"""Who made a modification that is not in our ledger."""

QUOTA_SPAN_S: Final = 24 * 3600
"""AWS counts the modifications of a volume over so long."""

SAME_START_S: Final = 5
"""A modification's start as we saw it and as AWS tells it differ by less than this."""


class Direction(StrEnum):
    """Where a modification leads: to provisioned IOPS, or back to what the volume was."""

    OUT = "out"
    BACK = "back"


class Phase(StrEnum):
    """How far the modification last asked for has come.

    ``asked``: the intent is recorded, and whether AWS took it is not known. ``changing``: AWS took it.
    ``on_target``: the volume is verified to be on its target.
    """

    ASKED = "asked"
    CHANGING = "changing"
    ON_TARGET = "on_target"


class Cause(StrEnum):
    """Why a volume is moved."""

    DRAINING = "draining"
    WINDOW = "window"
    CRITICAL = "critical"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A modification that was used up; ``by`` is ``watchdog``, ``others`` or a person's name."""

    at_s: int
    by: str
    direction: Direction | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return stored_values.stored_fields(self, _SPENT_READERS, _SPENT_FIELD_NAMES)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.known_fields(document, _SPENT_READERS, _SPENT_FIELD_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A volume away from what it was, or on its way there and back.

    ``original`` is what it returns to, ``target`` where it went; ``size_gib`` is its size when it went. The
    modification last asked for is ``direction``, under ``intent_id``, by ``by`` at ``asked_at_s``; AWS says
    it started at ``started_at_s``. ``reached_at_s`` is when it was first seen on its target. A volume that
    ``stays`` is not brought back, for the reason in ``because``. ``usd_per_month`` is what the target costs
    more than the original. ``unseen_since_s`` is when a read first did not show what should be there: one
    such read may be stale, a second one later counts. ``previous`` is how the flip stood before what was
    last asked for, and stands again if that is not done.
    """

    phase: Phase
    direction: Direction
    intent_id: str
    cause: Cause
    by: str
    original: Configuration
    target: Configuration
    size_gib: int
    asked_at_s: int
    because: str = ""
    stays: bool = False
    return_after_s: int | None = None
    usd_per_month: float = 0.0
    previous: "Flip | None" = None
    started_at_s: int | None = None
    reached_at_s: int | None = None
    unseen_since_s: int | None = None
    stuck_told: bool = False
    left_told_at_s: int | None = None

    @property
    def asked_for(self) -> Configuration:
        """What the modification last asked for leads to."""
        return self.target if self.direction is Direction.OUT else self.original

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is to come: it is where it stays."""
        return self.phase is Phase.ON_TARGET and self.stays

    @property
    def is_under_way(self) -> bool:
        """Whether a modification is asked for or in progress."""
        return self.phase is not Phase.ON_TARGET

    @property
    def reserves(self) -> bool:
        """Whether it counts against the caps: while it is away, and for good where a machine chose to pay."""
        return not self.is_settled or (self.by == WATCHDOG and self.usd_per_month > 0)

    def to_document(self, *, is_whole: bool = False) -> dict[str, Any]:
        """As JSON; what has its default is left out unless the document ``is_whole``."""
        document = stored_values.stored_fields(self, _FLIP_READERS, _FLIP_FIELD_NAMES)
        if not is_whole:
            document = stored_values.without_defaults(document, _DEFAULTS, _FLIP_FIELD_NAMES)
        if self.previous is not None:
            document["previous"] = self.previous.to_document(is_whole=is_whole)
        document["original"] = configuration_document(self.original)
        document["target"] = configuration_document(self.target)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.known_fields(document, _FLIP_READERS, _FLIP_FIELD_NAMES))


_DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: field.default for field in Flip.__dataclass_fields__.values()
}


def configuration_document(configuration: Configuration) -> dict[str, Any]:
    """A configuration as JSON."""
    return {
        "volume_type": str(configuration.volume_type),
        "iops": configuration.iops,
        "throughput_mib_s": configuration.throughput_mib_s,
    }


def configuration_from(document: Mapping[str, Any]) -> Configuration:
    """The inverse of ``configuration_document``."""
    return Configuration(**stored_values.known_fields(document, _CONFIGURATION_READERS))


_CONFIGURATION_READERS: Final[Mapping[str, stored_values.Read]] = {
    "volume_type": VolumeType,
    "iops": stored_values.or_none(stored_values.iops),
    "throughput_mib_s": stored_values.or_none(stored_values.throughput),
}
_SPENT_READERS: Final[Mapping[str, stored_values.Read]] = {
    "at_s": stored_values.instant,
    "by": stored_values.text,
    "direction": stored_values.or_none(Direction),
}
_SPENT_FIELD_NAMES: Final[Mapping[str, str]] = {}
_FLIP_READERS: Final[Mapping[str, stored_values.Read]] = {
    "phase": Phase,
    "direction": Direction,
    "intent_id": stored_values.text,
    "cause": Cause,
    "by": stored_values.text,
    "original": configuration_from,
    "target": configuration_from,
    "size_gib": stored_values.size_gib,
    "asked_at_s": stored_values.instant,
    "because": stored_values.text,
    "stays": stored_values.flag,
    "return_after_s": stored_values.instant,
    "usd_per_month": stored_values.number,
    "previous": Flip.from_document,
    "started_at_s": stored_values.instant,
    "reached_at_s": stored_values.instant,
    "unseen_since_s": stored_values.instant,
    "stuck_told": stored_values.flag,
    "left_told_at_s": stored_values.instant,
}
_FLIP_FIELD_NAMES: Final[Mapping[str, str]] = {}


def intent_id(volume_id: str, revision: int) -> str:
    """A name for an intent: no volume has two at one revision of the ledger."""
    return sha256(f"{volume_id}\nintent\n{revision}".encode()).hexdigest()[:16]


def spent_within(spent: Iterable[Spent], now_s: float, span_s: float = QUOTA_SPAN_S) -> tuple[Spent, ...]:
    """What was used up in the last ``span_s`` seconds, oldest first; the future counts as now."""
    return tuple(sorted((one for one in spent if one.at_s > now_s - span_s), key=lambda one: one.at_s))


def with_spent(spent: tuple[Spent, ...], one: Spent, now_s: float) -> tuple[Spent, ...]:
    """The modifications that still count, and one more; a start told twice counts once."""
    known = spent_within(spent, now_s)
    if any(abs(other.at_s - one.at_s) <= SAME_START_S for other in known):
        return known
    return spent_within((*known, one), now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A person's order to modify nothing: one volume, or everything (``volume_id`` None).

    ``damaged`` is the volume whose hold cannot be read: everything is held until that one is released.
    """

    volume_id: str | None
    by: str
    reason: str
    placed_at_s: int
    until_s: int
    damaged: str | None = None

    def __post_init__(self) -> None:
        _check_instants(self.placed_at_s, self.until_s)

    @property
    def subject(self) -> str | None:
        """The volume to release to end it; None: everything."""
        return self.volume_id or self.damaged

    def holds(self, volume_id: str, now_s: float) -> bool:
        """Whether it keeps this volume as it is now."""
        return self.until_s > now_s and self.volume_id in (None, volume_id)


def hold_on(holds: Iterable[Hold], volume_id: str, now_s: float) -> Hold | None:
    """The hold on a volume that lasts longest, None where it is free."""
    found = [hold for hold in holds if hold.holds(volume_id, now_s)]
    return max(found, key=lambda hold: hold.until_s, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMark:
    """A window started by hand (``starts`` until ``until_s``, or until it is stopped), or stopped.

    Occurrences of a stopped window that begin before ``until_s`` are left out. One that is not ``is_known``
    cannot be read: whether the window was started or stopped is not known, so it moves no volume either way.
    """

    name: str
    starts: bool
    by: str
    at_s: int
    until_s: int | None = None
    is_known: bool = True

    def __post_init__(self) -> None:
        _check_instants(self.at_s, self.at_s if self.until_s is None else self.until_s)


def _check_instants(*instants_s: float) -> None:
    """Refuse what no clock shows: a ledger may be damaged, and every pass reads it.

    Raises:
        ValueError, TypeError: naming the first.
    """
    for at_s in instants_s:
        if not 0 <= at_s < stored_values.FARTHEST_S:
            raise ValueError(f"{at_s} is no instant from 1970 to 9999")
