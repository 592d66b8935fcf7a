"""Whether a flipped volume should be flipped back now, or waits: for its window, its dwell time or calm.

The guards decide whether it is allowed.
"""

from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.flips.flip_trigger import FlipTrigger, format_window_names
from burstwatch.core.ledger.flip_state import Direction, Flip, FlipStatus
from burstwatch.core.policy.policy import FlipBackPolicy, Policy
from burstwatch.core.policy.windows import WindowState
from burstwatch.core.text import format_duration, format_instant, format_until

_MAX_DEMAND_AGE_S: Final = 600
"""A judgement: an older demand does not show the present one."""

_MIN_COVERAGE: Final = 0.5
"""A judgement: the share of the minutes of ``calm_for`` that must be known."""


def return_trigger(
    flip: Flip, assessment: Assessment, windows: WindowState | None, *, policy: Policy, now_s: float
) -> FlipTrigger | str:
    """The return of a flipped volume, or what it waits for in words."""
    if flip.status is not FlipStatus.ON_TARGET:
        return f"being modified to {flip.requested_config}"
    if flip.is_permanent:
        return f"stays {flip.target}"
    if windows is not None and not windows.allows_return:
        occurrences = windows.running or windows.upcoming
        if not occurrences:
            return (
                f"stays {flip.target}: it cannot be read whether its window was started or stopped manually"
            )
        return f"stays {flip.target} for window {format_window_names(occurrences)}"
    wait_reason = _too_soon_reason(flip, policy.flip_back, now_s) or not_calm_reason(
        assessment, policy.flip_back, now_s=now_s
    )
    if wait_reason is not None:
        return wait_reason
    reason = f"calm for {format_duration(policy.flip_back.calm_for.total_seconds())}"
    return FlipTrigger(direction=Direction.FLIP_BACK, cause=flip.cause, reason=reason)


def is_demand_known(assessment: Assessment, now_s: float) -> bool:
    """Whether CloudWatch shows what the volume has served in the last ten minutes."""
    newest = assessment.served_iops.newest
    return newest is not None and now_s - newest.end_at_s <= _MAX_DEMAND_AGE_S


def _too_soon_reason(flip: Flip, policy: FlipBackPolicy, now_s: float) -> str | None:
    """The time that somebody set decides; without one, the policy's minimum time on the target does."""
    if flip.return_after_s is not None:
        is_over = now_s >= flip.return_after_s
        return (
            None
            if is_over
            else f"{flip.by} requested {flip.target} {format_until(flip.return_after_s, now_s)}"
        )
    stayed_s, dwell_s = now_s - (flip.reached_at_s or flip.requested_at_s), policy.dwell.total_seconds()
    if stayed_s >= dwell_s:
        return None
    return f"{flip.target} for {format_duration(stayed_s)}, the minimum is {format_duration(dwell_s)}"


def not_calm_reason(assessment: Assessment, policy: FlipBackPolicy, *, now_s: float) -> str | None:
    """Why the volume is not calm; None if demand was low enough for long enough.

    Calm is below ``calm_below_pct`` of the gp2 baseline in every minute seen of the last ``calm_for``: low
    enough that even an empty bucket does no harm. Missing data is never calm, unless the volume has been
    detached, or its instance stopped, for all of ``calm_for``.
    """
    calm_for_s = policy.calm_for.total_seconds()
    limit = baseline_iops(assessment.volume.size_gib) * policy.calm_below_pct / 100
    minutes = _known_minutes(assessment, calm_for_s, now_s)
    if isinstance(minutes, str):
        return minutes
    busiest = max(minutes.values, default=0.0)
    if busiest < limit:
        return None
    return (
        f"waits for calm: {busiest:,.0f} IOPS were served within {format_duration(calm_for_s)},"
        f" calm is below {limit:,.0f} ({policy.calm_below_pct:g} % of the gp2 baseline)"
    )


def _known_minutes(assessment: Assessment, calm_for_s: float, now_s: float) -> Series | str:
    """The operations served in the last ``calm_for_s`` seconds; if too little is known, the reason."""
    newest, unused_since_s = assessment.served_iops.newest, assessment.unused_since_s
    if unused_since_s is not None:
        if now_s - unused_since_s >= calm_for_s:
            return assessment.served_iops.since(now_s - calm_for_s)
        usage_text = "its instance is stopped" if assessment.volume.attached else "it is detached"
        return (
            f"waits for calm: {usage_text}, first seen {format_instant(unused_since_s)},"
            f" and that counts as calm after {format_duration(calm_for_s)}"
        )
    if newest is None or now_s - newest.end_at_s > _MAX_DEMAND_AGE_S:
        return "waits for calm: CloudWatch does not show its load"
    minutes = assessment.served_iops.since(newest.end_at_s - calm_for_s)
    if len(minutes) < _MIN_COVERAGE * calm_for_s / PERIOD_S:
        return f"waits for calm: {len(minutes)} of {calm_for_s / PERIOD_S:.0f} minutes are known"
    return minutes
