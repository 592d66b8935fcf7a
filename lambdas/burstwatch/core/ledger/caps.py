"""The caps on flips, and what the ledger answers to an intent that must keep them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.ledger.flip_state import Direction, Flip, Hold

ROUNDING_TOLERANCE_USD: Final = 1e-6
"""A sum of dollars may be off by this: the DynamoDB ledger adds up millionths, each of them rounded."""

_USD_DIGITS: Final = 6
"""Sums are compared in millionths, so that the binary representation of a sum does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How many volumes may be flipped at once, and how many dollars a month they may add; None: no limit."""

    volumes: int | None = None
    usd_per_month: float | None = None

    def has_room_for_volume(self, away_count: int) -> bool:
        """Whether one more volume may be flipped while ``away_count`` others are."""
        return self.volumes is None or away_count < self.volumes

    def has_room_for_usd(self, added_usd: float, more_usd: float) -> bool:
        """Whether a flip may add ``more_usd`` dollars a month to the ``added_usd`` of all others.

        A flip that saves money frees no room for another one.
        """
        if self.usd_per_month is None:
            return True
        excess_usd = added_usd + max(0.0, more_usd) - self.usd_per_month
        return round(excess_usd, _USD_DIGITS) <= ROUNDING_TOLERANCE_USD

    def check(self, flip: Flip | None, *, away_count: int, added_usd: float) -> "IntentStatus":
        """Whether an intent for this flip may be recorded; a volume that returns is counted already."""
        if flip is None or flip.direction is Direction.FLIP_BACK:
            return IntentStatus.RECORDED
        if not self.has_room_for_volume(away_count):
            return IntentStatus.FLEET_CAP
        if not self.has_room_for_usd(added_usd, flip.reserved_usd):
            return IntentStatus.SPEND_CAP
        return IntentStatus.RECORDED


class IntentStatus(StrEnum):
    """The outcome of an intent; only ``RECORDED`` allows the call to AWS.

    ``CONFLICT``: another process has changed the state of the volume.
    """

    RECORDED = "recorded"
    CONFLICT = "outrun"
    HELD = "held"
    FLEET_CAP = "fleet_cap"
    SPEND_CAP = "spend_cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentResult:
    """What the ledger answers to an intent.

    Without this one, ``volumes`` are flipped and add ``usd_per_month`` dollars a month. ``hold`` is the hold
    that refused it, if one did.
    """

    status: IntentStatus
    volumes: int = 0
    usd_per_month: float = 0.0
    hold: Hold | None = None
