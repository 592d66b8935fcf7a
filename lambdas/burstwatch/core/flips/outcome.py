"""The outcome of a requested modification in one pass."""

from dataclasses import dataclass
from enum import StrEnum

from burstwatch.core.flips.refusal import Refusal


class OutcomeStatus(StrEnum):
    """What was done, in the words of the report."""

    NONE = "none"
    FLIPPED = "flipped"
    FLIPPED_BACK = "flipped_back"
    REFUSED = "refused"
    FAILED = "failed"
    PROPOSED = "proposed"
    IN_FLIGHT = "in_flight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done. ``error_code`` is AWS's; ``retry_at_s`` is when to try again, in seconds since 1970."""

    status: OutcomeStatus
    reason: str | None = None
    error_code: str | None = None
    refusal: Refusal | None = None
    retry_at_s: float | None = None
