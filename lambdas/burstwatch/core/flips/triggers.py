"""What a volume should be moved to now, and why; whether that is allowed is for the guards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Target, stays_after
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.flips.reconcile import Sighting
from burstwatch.core.ledger.flip_state import Cause, Direction, Flip, Hold, Phase
from burstwatch.core.policy.policy import ActAt, FlipBackPolicy, Policy
from burstwatch.core.policy.volume_tags import Wishes
from burstwatch.core.policy.windows import UNTIL_STOPPED, Occurrence, WindowState
from burstwatch.core.text import format_duration, format_instant, format_until, format_when

_FRESH_S: Final = 600
"""Demand that was seen longer ago says nothing about now."""

_LEAST_COVERAGE: Final = 0.5
"""Of the minutes that must have been calm, so many must have been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What bears on a volume beside its balance.

    ``sighting`` is what AWS says of a flipped volume, ``in_progress`` its modification that is not over,
    whoever asked for it; ``windows`` are None where it belongs to none. ``stall`` is what its host reports,
    ``unavailable`` the types that do not exist where it is, with the reason.
    """

    sighting: Sighting | None = None
    in_progress: Modification | None = None
    windows: WindowState | None = None
    hold: Hold | None = None
    stall: Stall | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A modification that should be made now; ``early``: for a drain that is not yet critical."""

    direction: Direction
    cause: Cause
    reason: str
    early: bool = False


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


def act_rule(choice: Target | None, policy: Policy) -> ActRule:
    """At which level a volume is flipped to this target; ``choice`` is None where no target is settled.

    With ``flip.act_at: auto`` a change that is permanent and costs no more than gp2 does not wait for
    ``critical``: nothing is lost if the drain ends by itself.
    """
    act_at = policy.flip.act_at
    if act_at is not ActAt.AUTO:
        return ActRule(level=Level(act_at), reason=f"flip.act_at is {act_at}")
    if choice is None:
        return ActRule(level=Level.CRITICAL, reason="its target is not settled")
    kind = choice.configuration.volume_type
    if not choice.costs_no_more_than_gp2:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} costs more than gp2")
    if not stays_after(choice, policy.flip_back.returns).stays:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} returns to gp2 when calm")
    return ActRule(level=Level.WARNING, reason=f"{kind} stays and costs no more than gp2")


def can_burst(volume: Volume) -> bool:
    """Whether it lives on credits, and so can run out of them."""
    return volume.is_gp2 and baseline_iops(volume.size_gib) < BURST_IOPS


def want_out(
    volume: Volume,
    level: Level,
    wishes: Wishes,
    windows: WindowState | None,
    *,
    because: str,
    act_at: Level,
    refills: bool = False,
) -> Want | None:
    """Why a volume that is not flipped should be, None where it should not.

    A drain counts from the level ``act_at``; what a tag or a window asks for comes before one that is not yet
    critical. A volume that ``refills`` keeps its level for a while, and needs nothing for it.
    """
    if not can_burst(volume):
        return None
    drains = level.rank >= act_at.rank and not refills
    early = level.rank < Level.CRITICAL.rank
    if drains and not early:
        return Want(direction=Direction.OUT, cause=Cause.DRAINING, reason=f"{level}: {because}")
    if wishes.is_critical:
        reason = "it is tagged critical and sits on burst storage"
        return Want(direction=Direction.OUT, cause=Cause.CRITICAL, reason=reason)
    if windows is not None and windows.wants_flip:
        reason = window_words(windows)
        return Want(direction=Direction.OUT, cause=Cause.WINDOW, reason=reason)
    if drains:
        reason = f"{level}: {because}; flips at {act_at} by flip.act_at"
        return Want(direction=Direction.OUT, cause=Cause.DRAINING, reason=reason, early=True)
    return None


def window_words(windows: WindowState, now_s: float | None = None) -> str:
    """The windows that ask for a flip, in words; with ``now_s`` for people now, without it to be kept."""
    if windows.running:
        return f"window {_names(windows.running)} runs{_until(windows.running, now_s)}"
    starts_s = windows.upcoming[0].span.start_at.timestamp()
    when = format_instant(starts_s) if now_s is None else format_when(starts_s, now_s, "UTC")
    return f"window {_names(windows.upcoming)} starts {when}"


def _names(occurrences: Sequence[Occurrence]) -> str:
    return ", ".join(dict.fromkeys(occurrence.window for occurrence in occurrences))


def _until(occurrences: Sequence[Occurrence], now_s: float | None) -> str:
    end_at = max(occurrence.span.end_at for occurrence in occurrences)
    if end_at == UNTIL_STOPPED:
        return " until it is stopped"
    ends_s = end_at.timestamp()
    return f" to {format_instant(ends_s)}" if now_s is None else f" {format_until(ends_s, now_s)}"


def want_back(
    flip: Flip, assessment: Assessment, windows: WindowState | None, *, policy: Policy, now_s: float
) -> Want | str:
    """The return of a flipped volume; where it must wait, for what."""
    if flip.phase is not Phase.ON_TARGET:
        return f"on its way to {flip.asked_for}"
    if flip.stays:
        return f"stays {flip.target}"
    if windows is not None and not windows.allows_return:
        known = windows.running or windows.upcoming
        if not known:
            return f"kept {flip.target}: whether its window was started or stopped by hand cannot be read"
        return f"kept {flip.target} for window {_names(known)}"
    wait = _why_too_soon(flip, policy.flip_back, now_s) or why_not_calm(
        assessment, policy.flip_back, now_s=now_s
    )
    if wait is not None:
        return wait
    reason = f"calm for {format_duration(policy.flip_back.calm_for.total_seconds())}"
    return Want(direction=Direction.BACK, cause=flip.cause, reason=reason)


def is_demand_known(assessment: Assessment, now_s: float) -> bool:
    """Whether CloudWatch shows what the volume has served of late."""
    newest = assessment.served.newest
    return newest is not None and now_s - newest.end_s <= _FRESH_S


def _why_too_soon(flip: Flip, policy: FlipBackPolicy, now_s: float) -> str | None:
    """Who said for how long is believed; otherwise the policy's least time on the target holds."""
    if flip.return_after_s is not None:
        is_over = now_s >= flip.return_after_s
        return (
            None
            if is_over
            else f"{flip.by} wants it {flip.target} {format_until(flip.return_after_s, now_s)}"
        )
    stayed_s, dwell_s = now_s - (flip.reached_at_s or flip.asked_at_s), policy.dwell.total_seconds()
    if stayed_s >= dwell_s:
        return None
    return f"{flip.target} for {format_duration(stayed_s)}, at least {format_duration(dwell_s)} are wanted"


def why_not_calm(assessment: Assessment, policy: FlipBackPolicy, *, now_s: float) -> str | None:
    """What speaks against calm; None where demand was low enough for long enough.

    Calm is below ``calm_below_pct`` of the gp2 baseline in every minute seen of the last ``calm_for``: low
    enough that even an empty bucket does no harm. Missing data is never calm, unless the volume has been
    detached, or its instance stopped, for all of ``calm_for``.
    """
    span_s = policy.calm_for.total_seconds()
    limit = baseline_iops(assessment.volume.size_gib) * policy.calm_below_pct / 100
    minutes = _minutes_known(assessment, span_s, now_s)
    if isinstance(minutes, str):
        return minutes
    busiest = max(minutes.values, default=0.0)
    if busiest < limit:
        return None
    return (
        f"waits for calm: {busiest:,.0f} IOPS were served within {format_duration(span_s)},"
        f" calm is below {limit:,.0f} ({policy.calm_below_pct:g} % of the gp2 baseline)"
    )


def _minutes_known(assessment: Assessment, span_s: float, now_s: float) -> Series | str:
    """What was served in the last ``span_s``; where too little is known of it, the reason."""
    newest, unused_since_s = assessment.served.newest, assessment.unused_since_s
    if unused_since_s is not None:
        if now_s - unused_since_s >= span_s:
            return assessment.served.since(now_s - span_s)
        what = "its instance is stopped" if assessment.volume.attached else "it is detached"
        return (
            f"waits for calm: {what}, first seen {format_instant(unused_since_s)},"
            f" and that counts as calm after {format_duration(span_s)}"
        )
    if newest is None or now_s - newest.end_s > _FRESH_S:
        return "waits for calm: CloudWatch does not say what it serves"
    minutes = assessment.served.since(newest.end_s - span_s)
    if len(minutes) < _LEAST_COVERAGE * span_s / PERIOD_S:
        return f"waits for calm: {len(minutes)} of {span_s / PERIOD_S:.0f} minutes are known"
    return minutes
