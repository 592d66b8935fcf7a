"""How the state of a volume changes when AWS accepts or rejects a request, or never receives it."""

from dataclasses import replace
from typing import Final

from burstwatch.core.ledger.flip_state import Direction, FlipStatus, ModificationUse
from burstwatch.core.ledger.resource_state import ResourceState

_MAX_BACKOFF_MIN: Final = 60
"""A judgement: a refusal that lasts is checked once an hour, in case somebody has resolved it."""


def should_alert_failure(failures: int) -> bool:
    """Whether to alert about one more failure in a row: the first, second, fourth, eighth and so on."""
    return failures & (failures - 1) == 0


def with_backoff(state: ResourceState, now_s: float) -> ResourceState:
    """The state after one more failure: the next attempt is made in 1, 2, 4 … minutes, at most an hour."""
    wait_min = min(_MAX_BACKOFF_MIN, 2 ** min(state.modifications.failure_count, 10))
    history = replace(
        state.modifications,
        failure_count=state.modifications.failure_count + 1,
        retry_at_s=int(now_s) + 60 * wait_min,
    )
    return replace(state, modifications=history)


def roll_back_intent(state: ResourceState) -> ResourceState:
    """The state after a request that was not carried out: the flip is as before the request."""
    flip = state.flip
    if flip is None or flip.previous is not None or flip.direction is Direction.FLIP:
        return replace(state, flip=flip and flip.previous)
    return replace(
        state, flip=replace(flip, status=FlipStatus.ON_TARGET, direction=Direction.FLIP, started_at_s=None)
    )


def mark_accepted(state: ResourceState, started_at_s: int, now_s: float) -> ResourceState:
    """The state after AWS accepted the request at ``started_at_s``; this uses up a modification."""
    flip = state.flip
    assert flip is not None
    modification = ModificationUse(at_s=started_at_s, by=flip.by, direction=flip.direction)
    return replace(
        state,
        flip=replace(
            flip, status=FlipStatus.IN_PROGRESS, started_at_s=started_at_s, unconfirmed_since_s=None
        ),
        modifications=replace(state.modifications.with_use(modification, now_s), unsent_intent=None),
        alerts=replace(state.alerts, refusal=None),
    )
