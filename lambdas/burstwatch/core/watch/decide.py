"""One look at one volume: what changes, who must be notified, and when to look again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.evaluate import evaluate_flip
from burstwatch.core.flips.events import Transition
from burstwatch.core.flips.guards import detached_refusal
from burstwatch.core.flips.recommendation import Recommendation, recommend
from burstwatch.core.flips.reconcile import reconcile
from burstwatch.core.flips.triggers import VolumeContext, can_burst, choose_act_rule
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.watch.alert_due import find_due_alert, record_host_stall
from burstwatch.core.watch.build_change import build_alerts, build_change
from burstwatch.core.watch.decision import Action, Decision, TickContext, VolumeEvaluation
from burstwatch.core.watch.next_poll import interval_with_flip_s, level_interval_s, sweep_poll_interval_s
from burstwatch.core.watch.record_reading import (
    classify_reading,
    is_still_unused,
    record_reading,
    without_stale_balance,
)

NO_CONTEXT: Final = VolumeContext()


def decide(
    assessment: Assessment,
    state: VolumeState | None,
    volume_settings: VolumeSettings,
    *,
    policy: Policy,
    context: TickContext,
    volume_context: VolumeContext = NO_CONTEXT,
) -> Decision:
    """Judge a volume from one look at it and from what the ledger remembers, without the cause of a drain."""
    evaluation = evaluate_volume(
        assessment, state, volume_settings, policy=policy, context=context, volume_context=volume_context
    )
    return evaluation if isinstance(evaluation, Decision) else conclude(evaluation)


def evaluate_volume(
    assessment: Assessment,
    old_state: VolumeState | None,
    volume_settings: VolumeSettings,
    *,
    policy: Policy,
    context: TickContext,
    volume_context: VolumeContext = NO_CONTEXT,
    classified: Level | None = None,
) -> VolumeEvaluation | Decision:
    """Steps 1 to 6 of a decision; the whole decision for a calm volume, about which nothing is to be done.

    ``classified`` is the level of ``assessment`` where the caller has worked it out already.
    """
    now_s = context.now_s
    before = old_state or VolumeState(volume_id=assessment.volume.volume_id, revision=0)
    settings = _limit_mode(volume_settings, before)
    # 1. Reconcile a flip that we started with what AWS shows; after it gp2's balance may mean nothing.
    reconciled = _reconcile_flip(before, volume_context, policy, now_s)
    reading = without_stale_balance(assessment, reconciled.state)
    # 2. Classify the severity. Nearly every volume is calm: nothing is remembered of it, and nothing to do.
    level = classify_reading(reading, before, policy, classified=classified)
    interval_s = level_interval_s(reading, level, before, policy=policy, now_s=int(now_s))
    is_calm = old_state is None and level is Level.OK and interval_s is None
    if (is_calm or is_still_unused(reading, before, int(now_s))) and _has_no_demands(
        settings, volume_context
    ):
        return _calm_decision(reading, level, settings, policy)
    # 3. Record the reading.
    recorded = record_reading(reconciled.state, before, reading, level, volume_context, now_s=now_s)
    # 4. Recommend a configuration, for people and for the watchdog.
    must_leave_gp2 = settings.is_critical or _is_wanted_by_window(volume_context)
    recommendation = _recommend(
        reading, level, settings, recorded, volume_context, policy, context, must_leave_gp2=must_leave_gp2
    )
    # 5. Evaluate the trigger of a flip, or of the way back.
    flip = evaluate_flip(
        reading,
        recorded,
        level,
        settings,
        volume_context,
        recommendation=recommendation,
        policy=policy,
        now_s=now_s,
    )
    # 6. Find the one alert that is due, and what a host's report adds.
    alert = find_due_alert(
        before, flip.state, reading, level, mode=settings.mode, policy=policy, now_s=int(now_s)
    )
    alerted = Transition(state=alert.state)
    if volume_context.stall is not None:
        alerted = record_host_stall(
            alert.state,
            volume_context.stall,
            settings.mode,
            is_alerted=alert.kind is not None,
            now_s=int(now_s),
        )
    return VolumeEvaluation(
        assessment=reading,
        volume_settings=settings,
        volume_context=volume_context,
        policy=policy,
        context=context,
        old_state=old_state,
        state=alerted.state,
        level=level,
        focus_interval_s=interval_s,
        recommendation=recommendation,
        act_rule=None
        if recommendation is None or must_leave_gp2
        else choose_act_rule(recommendation.settled_target, policy),
        trigger=flip.trigger,
        blocked_reason=flip.blocked_reason,
        alert=alert,
        events=(*reconciled.events, *flip.events, *alerted.events),
    )


def conclude(evaluation: VolumeEvaluation, drain_cause: Mapping[str, Any] | None = None) -> Decision:
    """Steps 7 and 8 of a decision; ``drain_cause`` is what its alert says of the drain, if it was read."""
    policy, trigger = evaluation.policy, evaluation.trigger
    # 7. The next poll: as the level demands, or sooner for a flip.
    interval_s = interval_with_flip_s(evaluation.focus_interval_s, evaluation.flip, trigger, policy)
    next_poll_at_s = None if interval_s is None else evaluation.context.tick_at_s + interval_s
    state = replace(evaluation.state, next_poll_at_s=next_poll_at_s)
    # 8. Build the change: each alert once, with the cause of its drain.
    alerts = build_alerts(evaluation, state, drain_cause)
    return Decision(
        assessment=evaluation.assessment,
        volume_settings=evaluation.volume_settings,
        level=evaluation.level,
        previous_level=evaluation.previous_level,
        action=_choose_action(evaluation, has_alerts=bool(alerts)),
        reason=_decision_reason(evaluation),
        poll_interval_s=interval_s or sweep_poll_interval_s(evaluation.assessment, policy),
        change=build_change(evaluation, state, alerts),
        recommendation=evaluation.recommendation,
        trigger=trigger,
        flip=state.flip,
    )


def _limit_mode(volume_settings: VolumeSettings, state: VolumeState) -> VolumeSettings:
    """A volume that somebody else changed is left to people until it is released."""
    if state.modifications.contested_at_s is None or volume_settings.mode.rank <= Mode.PROPOSE.rank:
        return volume_settings
    return replace(volume_settings, mode=Mode.PROPOSE)


def _reconcile_flip(
    state: VolumeState, volume_context: VolumeContext, policy: Policy, now_s: float
) -> Transition:
    if volume_context.observed is None:
        return Transition(state=state)
    return reconcile(state, volume_context.observed, policy=policy, now_s=now_s)


def _has_no_demands(volume_settings: VolumeSettings, volume_context: VolumeContext) -> bool:
    """Whether neither a tag, nor a window, nor a host's report asks for more than the reading does."""
    return not volume_settings.is_critical and volume_context.windows is None and volume_context.stall is None


def _is_wanted_by_window(volume_context: VolumeContext) -> bool:
    return volume_context.windows is not None and volume_context.windows.wants_flip


def _recommend(
    assessment: Assessment,
    level: Level,
    volume_settings: VolumeSettings,
    state: VolumeState,
    volume_context: VolumeContext,
    policy: Policy,
    context: TickContext,
    *,
    must_leave_gp2: bool,
) -> Recommendation | None:
    """What a volume on burst storage should become; None if it need not, or is flipped already."""
    is_needed = level.is_alerting or (must_leave_gp2 and can_burst(assessment.volume))
    if not is_needed or state.flip is not None:
        return None
    return recommend(
        assessment,
        volume_settings.target_override,
        policy.flip,
        context.location,
        is_future=must_leave_gp2 or not level.is_alerting,
        modifications=state.modifications.within_day(context.now_s),
        unavailable=volume_context.unavailable,
    )


def _choose_action(evaluation: VolumeEvaluation, *, has_alerts: bool) -> Action:
    if evaluation.trigger is None:
        return Action.ALERT if has_alerts else Action.NONE
    if evaluation.volume_context.hold is not None:
        return Action.HOLD
    return Action.FLIP if evaluation.trigger.direction is Direction.FLIP else Action.FLIP_BACK


def _decision_reason(evaluation: VolumeEvaluation) -> str:
    """What is wanted or waited for comes first; the level's own reason where there is nothing of both."""
    if evaluation.trigger is not None:
        hold, volume = evaluation.volume_context.hold, evaluation.assessment.volume
        hold_suffix = "" if hold is None else f"; on hold by {hold.by}"
        detached_suffix = "" if detached_refusal(volume) is None else "; not while it is detached"
        return f"{evaluation.trigger.reason}{hold_suffix}{detached_suffix}"
    return evaluation.blocked_reason or evaluation.alert.reason


def _calm_decision(
    assessment: Assessment, level: Level, volume_settings: VolumeSettings, policy: Policy
) -> Decision:
    """The decision about almost every volume at almost every look: nothing."""
    return Decision(
        assessment=assessment,
        volume_settings=volume_settings,
        level=level,
        previous_level=Level.OK,
        action=Action.NONE,
        reason=str(assessment.unknown_reason or level),
        poll_interval_s=sweep_poll_interval_s(assessment, policy),
        change=None,
    )
