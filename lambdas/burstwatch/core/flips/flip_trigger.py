"""Whether a volume should be flipped now: a drain, a window that starts soon or runs, or a critical tag.

The guards decide whether it is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.sizing import Target, return_decision
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.policy.policy import ActAt, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import UNTIL_STOPPED, Occurrence, WindowState
from burstwatch.core.text import format_instant, format_relative_time, format_until

if TYPE_CHECKING:
    from documents.explanation import ActRuleDocument


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

    level: Literal[Level.WARNING, Level.CRITICAL]
    reason: str

    def __str__(self) -> str:
        return f"flips at {self.level}: {self.reason}"

    def to_document(self) -> "ActRuleDocument":
        """As JSON."""
        return {"level": self.level, "because": self.reason}


def choose_act_rule(settled_target: Target | None, policy: Policy) -> ActRule:
    """At which level a volume is flipped to this target; ``settled_target`` is None before it is settled.

    With ``flip.act_at: auto`` a change that is permanent and costs no more than gp2 does not wait for
    ``critical``: nothing is lost if the drain ends by itself.
    """
    act_at = policy.flip.act_at
    if act_at is ActAt.WARNING:
        return ActRule(level=Level.WARNING, reason=f"flip.act_at is {act_at}")
    if act_at is ActAt.CRITICAL:
        return ActRule(level=Level.CRITICAL, reason=f"flip.act_at is {act_at}")
    if settled_target is None:
        return ActRule(level=Level.CRITICAL, reason="its target is not known yet")
    kind = settled_target.configuration.volume_type
    if not settled_target.costs_no_more_than_gp2:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} costs more than gp2")
    if not return_decision(settled_target, policy.flip_back.returns).is_permanent:
        return ActRule(level=Level.CRITICAL, reason=f"{kind} returns to gp2 when calm")
    return ActRule(level=Level.WARNING, reason=f"{kind} stays and costs no more than gp2")


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
        reason = "it is tagged critical and uses burst storage"
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
        return f"window {format_window_names(windows.running)} runs{_format_end(windows.running, now_s)}"
    start_at_s = windows.upcoming[0].interval.start_at.timestamp()
    when = format_instant(start_at_s) if now_s is None else format_relative_time(start_at_s, now_s, "UTC")
    return f"window {format_window_names(windows.upcoming)} starts {when}"


def format_window_names(occurrences: Sequence[Occurrence]) -> str:
    """The names of their windows, each once, such as ``nightly-batch, migration``."""
    return ", ".join(dict.fromkeys(occurrence.window for occurrence in occurrences))


def _format_end(occurrences: Sequence[Occurrence], now_s: float | None) -> str:
    end_at = max(occurrence.interval.end_at for occurrence in occurrences)
    if end_at == UNTIL_STOPPED:
        return " until it is stopped"
    end_at_s = end_at.timestamp()
    return f" to {format_instant(end_at_s)}" if now_s is None else f" {format_until(end_at_s, now_s)}"
