"""Which modification a volume should get now, and why; the guards decide whether it is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Target, return_decision
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.flips.reconcile import ObservedState
from burstwatch.core.ledger.flip_state import Direction, Flip, FlipCause, FlipStatus, Hold
from burstwatch.core.policy.policy import ActAt, FlipBackPolicy, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import UNTIL_STOPPED, Occurrence, WindowState
from burstwatch.core.text import format_duration, format_instant, format_relative_time, format_until

_MAX_DEMAND_AGE_S: Final = 600
"""A judgement: an older demand is no evidence of the present one."""

_MIN_COVERAGE: Final = 0.5
"""A judgement: the share of the minutes of ``calm_for`` that must be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeContext:
    """What affects a volume besides its balance.

    ``observed`` is what AWS shows of a flipped volume. ``modification_in_progress`` is its modification that
    has not ended, by whomever it was requested. ``windows`` is None if it belongs to none. ``stall`` is what
    its host reports. ``unavailable`` has the types that do not exist where it is, each with the reason.
    """

    observed: ObservedState | None = None
    modification_in_progress: Modification | None = None
    windows: WindowState | None = None
    hold: Hold | None = None
    stall: Stall | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipTrigger:
    """A modification that should be made now; ``is_early``: for a drain that is not yet critical."""

    direction: Direction
    cause: FlipCause
    reason: str
    is_early: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRule:
    """The level from which a draining volume is flipped, and why at this level."""

    level: Level
    reason: str

    def __str__(self) -> str:
        return f"flips at {self.level}: {self.reason}"

    def to_document(self) -> dict[str, str]:
        """As JSON."""
        return {"level": str(self.level), "because": self.reason}


def choose_act_rule(settled_target: Target | None, policy: Policy) -> ActRule:
    """At which level a volume is flipped to this target; ``settled_target`` is None if there is none yet.

    With ``flip.act_at: auto`` a change that is permanent and costs no more than gp2 does not wait for
    ``critical``: nothing is lost if the drain ends by itself.
    """
    act_at = policy.flip.act_at
    if act_at is not ActAt.AUTO:
        return ActRule(level=Level(act_at), reason=f"flip.act_at is {act_at}")
    if settled_target is None:
        return ActRule(level=Level.CRITICAL, reason="its target is not settled")
    kind = settled_target.configuration.volume_type
    if not settled_target.costs_no_more_than_gp2:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} costs more than gp2")
    if not return_decision(settled_target, policy.flip_back.returns).is_permanent:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} returns to gp2 when calm")
    return ActRule(level=Level.WARNING, reason=f"{kind} stays and costs no more than gp2")


def can_burst(volume: Volume) -> bool:
    """Whether the volume depends on credits, and so can use them up."""
    return volume.is_gp2 and baseline_iops(volume.size_gib) < BURST_IOPS


def flip_trigger(
    volume: Volume,
    level: Level,
    volume_settings: VolumeSettings,
    windows: WindowState | None,
    *,
    level_reason: str,
    act_at: Level,
    is_refilling: bool = False,
) -> FlipTrigger | None:
    """Why a volume that is not flipped should be; None if it should not.

    A drain counts from the level ``act_at``; a tag or a window comes before a drain that is not yet critical.
    A volume that ``is_refilling`` keeps its level for a while, and needs no flip for it.
    """
    if not can_burst(volume):
        return None
    is_draining = level.rank >= act_at.rank and not is_refilling
    is_early = level.rank < Level.CRITICAL.rank
    if is_draining and not is_early:
        return FlipTrigger(
            direction=Direction.FLIP, cause=FlipCause.DRAINING, reason=f"{level}: {level_reason}"
        )
    if volume_settings.is_critical:
        reason = "it is tagged critical and sits on burst storage"
        return FlipTrigger(direction=Direction.FLIP, cause=FlipCause.CRITICAL, reason=reason)
    if windows is not None and windows.wants_flip:
        reason = describe_windows(windows)
        return FlipTrigger(direction=Direction.FLIP, cause=FlipCause.WINDOW, reason=reason)
    if is_draining:
        reason = f"{level}: {level_reason}; flips at {act_at} by flip.act_at"
        return FlipTrigger(direction=Direction.FLIP, cause=FlipCause.DRAINING, reason=reason, is_early=True)
    return None


def describe_windows(windows: WindowState, now_s: float | None = None) -> str:
    """The windows that ask for a flip, in words; with ``now_s`` for people now, without it to be kept."""
    if windows.running:
        return f"window {_window_names(windows.running)} runs{_format_end(windows.running, now_s)}"
    start_at_s = windows.upcoming[0].interval.start_at.timestamp()
    when = format_instant(start_at_s) if now_s is None else format_relative_time(start_at_s, now_s, "UTC")
    return f"window {_window_names(windows.upcoming)} starts {when}"


def _window_names(occurrences: Sequence[Occurrence]) -> str:
    return ", ".join(dict.fromkeys(occurrence.window for occurrence in occurrences))


def _format_end(occurrences: Sequence[Occurrence], now_s: float | None) -> str:
    end_at = max(occurrence.interval.end_at for occurrence in occurrences)
    if end_at == UNTIL_STOPPED:
        return " until it is stopped"
    end_at_s = end_at.timestamp()
    return f" to {format_instant(end_at_s)}" if now_s is None else f" {format_until(end_at_s, now_s)}"


def return_trigger(
    flip: Flip, assessment: Assessment, windows: WindowState | None, *, policy: Policy, now_s: float
) -> FlipTrigger | str:
    """The return of a flipped volume, or what it waits for in words."""
    if flip.status is not FlipStatus.ON_TARGET:
        return f"on its way to {flip.requested_config}"
    if flip.is_permanent:
        return f"stays {flip.target}"
    if windows is not None and not windows.allows_return:
        occurrences = windows.running or windows.upcoming
        if not occurrences:
            return f"kept {flip.target}: whether its window was started or stopped by hand cannot be read"
        return f"kept {flip.target} for window {_window_names(occurrences)}"
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
            else f"{flip.by} wants it {flip.target} {format_until(flip.return_after_s, now_s)}"
        )
    stayed_s, dwell_s = now_s - (flip.reached_at_s or flip.requested_at_s), policy.dwell.total_seconds()
    if stayed_s >= dwell_s:
        return None
    return f"{flip.target} for {format_duration(stayed_s)}, at least {format_duration(dwell_s)} are wanted"


def not_calm_reason(assessment: Assessment, policy: FlipBackPolicy, *, now_s: float) -> str | None:
    """What speaks against calm; None where demand was low enough for long enough.

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
        return "waits for calm: CloudWatch does not say what it serves"
    minutes = assessment.served_iops.since(newest.end_at_s - calm_for_s)
    if len(minutes) < _MIN_COVERAGE * calm_for_s / PERIOD_S:
        return f"waits for calm: {len(minutes)} of {calm_for_s / PERIOD_S:.0f} minutes are known"
    return minutes
