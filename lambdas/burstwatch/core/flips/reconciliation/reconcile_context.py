"""A flip, and what AWS shows of it: the facts on which its reconciliation depends."""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.modification import Modification
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S, Direction, Flip
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy

CONFIRMING_READ_GAP_S: Final = 60
"""A judgement: of two reads that are this far apart, at most one is stale."""

_MAX_FLIP_BACK_DELAY_S: Final = 15 * 60
"""A return that begins later than this after its intent is somebody else's: many things make a volume gp2."""

_MAX_CLOCK_SKEW_S: Final = 120
"""A machine's clock may differ from AWS's by this much; beyond it, the watchdog does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileContext:
    """A flip and what is seen of it."""

    state: ResourceState
    flip: Flip
    observed: ObservedState
    policy: Policy
    now_s: float

    @property
    def is_as_requested(self) -> bool:
        return self.observed.configuration == self.flip.requested_config

    @property
    def was_sent_late(self) -> bool:
        """Whether AWS shows what counts as never sent."""
        new_modification, started_at_s = self.new_modification, self.observed.started_at_s
        if (
            new_modification is None
            or started_at_s is None
            or new_modification.target.configuration() != self.flip.requested_config
        ):
            return False
        return (
            self.flip.direction is Direction.FLIP
            or started_at_s <= self.flip.requested_at_s + _MAX_FLIP_BACK_DELAY_S
        )

    @property
    def is_external(self) -> bool:
        """Whether AWS's newest record began after our modification did."""
        started_at_s, own_start_at_s = (
            self.observed.started_at_s,
            self.flip.started_at_s or self.flip.requested_at_s,
        )
        return started_at_s is not None and started_at_s > own_start_at_s + SAME_START_TOLERANCE_S

    @property
    def is_unconfirmed_again(self) -> bool:
        """Whether an earlier read, long enough ago, did not show either what should be there."""
        since_s = self.flip.unconfirmed_since_s
        return since_s is not None and self.now_s - since_s >= CONFIRMING_READ_GAP_S

    @property
    def new_modification(self) -> Modification | None:
        """AWS's record, if it began after this request and is not of a modification that is known already."""
        started_at_s = self.observed.started_at_s
        if started_at_s is None or started_at_s < self.flip.requested_at_s - _MAX_CLOCK_SKEW_S:
            return None
        is_recorded = any(
            abs(modification.at_s - started_at_s) <= SAME_START_TOLERANCE_S
            for modification in self.state.modifications.used
        )
        return None if is_recorded else self.observed.record
