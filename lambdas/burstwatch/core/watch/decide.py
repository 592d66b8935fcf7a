"""Decide about one volume after one poll: what changes, who is notified, and when to poll again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource import lasting_id_of
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.flips.evaluate_flip import evaluate_flip
from burstwatch.core.flips.flip_trigger import choose_act_rule
from burstwatch.core.flips.guards import detached_refusal
from burstwatch.core.flips.recommendation import recommend
from burstwatch.core.flips.reconciliation.reconcile import reconcile
from burstwatch.core.flips.transition import Transition
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.watch.advice import advise_hdd, is_flippable
from burstwatch.core.watch.alert_due import find_due_alert, record_host_stall
from burstwatch.core.watch.build_change import build_alerts, build_change
from burstwatch.core.watch.decision import Action, Decision, DueAlert, TickContext, VolumeEvaluation
from burstwatch.core.watch.polling.next_poll import (
    interval_with_flip_s,
    level_interval_s,
    sweep_poll_interval_s,
)
from burstwatch.core.watch.record_reading import (
    classify_reading,
    is_still_unused,
    record_reading,
    without_stale_balance,
)

NO_CONTEXT: Final = VolumeContext()


def decide(
    assessment: Assessment,
    state: ResourceState | None,
    volume_settings: VolumeSettings,
    *,
    policy: Policy,
    context: TickContext,
    volume_context: VolumeContext = NO_CONTEXT,
) -> Decision:
    """Decide about a volume from one poll and the ledger's state, without the cause of a drain."""
    evaluation = evaluate_volume(
        assessment, state, volume_settings, policy=policy, context=context, volume_context=volume_context
    )
    return evaluation if isinstance(evaluation, Decision) else conclude(evaluation)


def evaluate_volume(
    assessment: Assessment,
    old_state: ResourceState | None,
    volume_settings: VolumeSettings,
    *,
    policy: Policy,
    context: TickContext,
    volume_context: VolumeContext = NO_CONTEXT,
    classified: Level | None = None,
) -> VolumeEvaluation | Decision:
    """Steps 1 to 6 of a decision; the whole decision for a calm bucket, about which nothing is to be done.

    ``policy`` has the thresholds of this bucket. ``classified`` is the level of ``assessment`` if the caller
    has worked it out already.
    """
    before = old_state or ResourceState(volume_id=assessment.subject, revision=0)
    # 1. Reconcile a flip that we started with what AWS shows; after it gp2's balance may mean nothing.
    reconciled = _reconcile_flip(before, volume_context, policy, context.now_s)
    reading = without_stale_balance(assessment, reconciled.state)
    # 2. Classify the severity. Nearly every volume is calm: nothing is remembered of it, and nothing to do.
    level = classify_reading(reading, before, policy, classified=classified)
    read = VolumeEvaluation(
        assessment=reading,
        volume_settings=_limit_mode(volume_settings, before),
        volume_context=volume_context,
        policy=policy,
        context=context,
        old_state=old_state,
        before=before,
        state=reconciled.state,
        level=level,
        focus_interval_s=level_interval_s(reading, level, before, policy=policy, now_s=int(context.now_s)),
        alert=DueAlert(
            kind=None,
            reason=str(level) if reading.unknown_reason is None else reading.unknown_reason.description,
            state=reconciled.state,
        ),
        events=reconciled.events,
    )
    if _needs_nothing(read):
        return _calm_decision(read)
    # 3. Record the reading.
    recorded = _with_reading(read)
    # 4. Recommend a configuration, for people and for the watchdog.
    may_flip = is_flippable(assessment.resource) or reconciled.state.flip is not None
    recommended = _with_recommendation(recorded) if may_flip else _with_advice(recorded)
    # 5. Evaluate the trigger of a flip, or of the way back.
    triggered = _with_trigger(recommended) if may_flip else recommended
    # 6. Find the one alert that is due, and what a host's report adds.
    return _with_alert(triggered)


def conclude(evaluation: VolumeEvaluation, drain_cause: Mapping[str, Any] | None = None) -> Decision:
    """Steps 7 and 8 of a decision; ``drain_cause`` is the evidence for its alert, None if it was not read."""
    policy, trigger = evaluation.policy, evaluation.trigger
    # 7. The next poll: as the level demands, or sooner for a flip.
    interval_s = interval_with_flip_s(evaluation.focus_interval_s, evaluation.flip, trigger, policy)
    next_poll_at_s = None if interval_s is None else evaluation.context.tick_at_s + interval_s
    state = replace(evaluation.state, next_poll_at_s=next_poll_at_s)
    # 8. Build the change: each alert once, with the cause of its drain.
    alerts = build_alerts(evaluation, state, drain_cause)
    sweep_interval_s = sweep_poll_interval_s(evaluation.assessment, policy)
    return Decision(
        assessment=evaluation.assessment,
        volume_settings=evaluation.volume_settings,
        level=evaluation.level,
        previous_level=evaluation.previous_level,
        action=_choose_action(evaluation, has_alerts=bool(alerts)),
        reason=_decision_reason(evaluation),
        poll_interval_s=interval_s or sweep_interval_s,
        sweep_interval_s=sweep_interval_s,
        act_lead_s=_act_lead_s(policy),
        change=build_change(evaluation, state, alerts),
        recommendation=evaluation.recommendation,
        trigger=trigger,
        flip=state.flip,
    )


def _limit_mode(volume_settings: VolumeSettings, state: ResourceState) -> VolumeSettings:
    """A volume that somebody else changed is left to people until it is released."""
    if not state.is_contested or volume_settings.mode.rank <= Mode.PROPOSE.rank:
        return volume_settings
    return replace(volume_settings, mode=Mode.PROPOSE)


def _reconcile_flip(
    state: ResourceState, volume_context: VolumeContext, policy: Policy, now_s: float
) -> Transition:
    if volume_context.observed is None:
        return Transition(state=state)
    return reconcile(state, volume_context.observed, policy=policy, now_s=now_s)


def _needs_nothing(read: VolumeEvaluation) -> bool:
    """Whether the volume is calm, or unused as at the last poll, and nothing else asks for more."""
    windows, stall = read.volume_context.windows, read.volume_context.stall
    is_requested = is_flippable(read.assessment.resource) and (
        read.volume_settings.is_critical or windows is not None
    )
    is_held_by_name = read.volume_context.silencing_hold is not None and (
        lasting_id_of(read.assessment.resource) is not None
    )
    if is_requested or stall is not None or is_held_by_name:
        return False
    is_calm = read.old_state is None and read.level is Level.OK and read.focus_interval_s is None
    return is_calm or is_still_unused(read.assessment, read.before, int(read.context.now_s))


def _with_reading(read: VolumeEvaluation) -> VolumeEvaluation:
    state = record_reading(
        read.state, read.before, read.assessment, read.level, read.volume_context, now_s=read.context.now_s
    )
    return replace(read, state=state)


def _with_recommendation(recorded: VolumeEvaluation) -> VolumeEvaluation:
    """What a volume on burst storage should become; nothing if it need not, or is flipped already."""
    assessment, policy, level = recorded.assessment, recorded.policy, recorded.level
    windows = recorded.volume_context.windows
    must_leave_gp2 = recorded.volume_settings.is_critical or (windows is not None and windows.wants_flip)
    is_needed = level.is_alerting or (must_leave_gp2 and can_burst(assessment.volume))
    if not is_needed or recorded.flip is not None:
        return recorded
    recommendation = recommend(
        assessment,
        recorded.volume_settings.target_override,
        policy.flip,
        recorded.context.location,
        is_future=must_leave_gp2 or not level.is_alerting,
        modifications=recorded.state.modifications.within_day(recorded.context.now_s),
        unavailable=recorded.volume_context.unavailable,
        instance=recorded.volume_context.instance,
    )
    act_rule = None if must_leave_gp2 else choose_act_rule(recommendation.settled_target, policy)
    return replace(recorded, recommendation=recommendation, act_rule=act_rule)


def _with_advice(recorded: VolumeEvaluation) -> VolumeEvaluation:
    """What people can do about a bucket that the watchdog leaves to them."""
    if not recorded.level.is_alerting:
        return recorded
    advice = recorded.volume_context.advice
    if advice is None and isinstance(recorded.assessment.resource, Volume):
        context = recorded.volume_context
        advice = advise_hdd(recorded.assessment, recorded.context.location, context.instance)
    return replace(recorded, recommendation=advice)


def _with_trigger(recommended: VolumeEvaluation) -> VolumeEvaluation:
    flip = evaluate_flip(
        recommended.assessment,
        recommended.state,
        recommended.level,
        recommended.volume_settings,
        recommended.volume_context,
        recommendation=recommended.recommendation,
        policy=recommended.policy,
        now_s=recommended.context.now_s,
    )
    return replace(
        recommended,
        state=flip.state,
        trigger=flip.trigger,
        blocked_reason=flip.blocked_reason,
        events=(*recommended.events, *flip.events),
    )


def _with_alert(triggered: VolumeEvaluation) -> VolumeEvaluation:
    mode, stall, now_s = (
        triggered.volume_settings.mode,
        triggered.volume_context.stall,
        triggered.context.now_s,
    )
    alert = find_due_alert(
        triggered.before,
        triggered.state,
        triggered.assessment,
        triggered.level,
        mode=mode,
        policy=triggered.policy,
        now_s=int(now_s),
        silencing_hold=triggered.volume_context.silencing_hold,
    )
    if stall is None:
        return replace(triggered, alert=alert, state=alert.state)
    is_alerted = alert.kind is not None
    stalled = record_host_stall(alert.state, stall, mode, is_alerted=is_alerted, now_s=int(now_s))
    events = (*triggered.events, *stalled.events)
    return replace(triggered, alert=alert, state=stalled.state, events=events)


def _choose_action(evaluation: VolumeEvaluation, *, has_alerts: bool) -> Action:
    if evaluation.trigger is None:
        return Action.ALERT if has_alerts else Action.NONE
    if evaluation.volume_context.hold is not None:
        return Action.HOLD
    return Action.FLIP if evaluation.trigger.direction is Direction.FLIP else Action.FLIP_BACK


def _decision_reason(evaluation: VolumeEvaluation) -> str:
    """The reason for what is wanted or waited for; without either, the reason of the level."""
    if evaluation.trigger is not None:
        hold, volume = evaluation.volume_context.hold, evaluation.assessment.volume
        hold_suffix = "" if hold is None else f"; on hold by {hold.by}"
        detached_suffix = "" if detached_refusal(volume) is None else "; not while it is detached"
        return f"{evaluation.trigger.reason}{hold_suffix}{detached_suffix}"
    return evaluation.blocked_reason or evaluation.alert.reason


def _calm_decision(read: VolumeEvaluation) -> Decision:
    """The decision about almost every volume at almost every poll: nothing."""
    sweep_interval_s = sweep_poll_interval_s(read.assessment, read.policy)
    return Decision(
        assessment=read.assessment,
        volume_settings=read.volume_settings,
        level=read.level,
        previous_level=Level.OK,
        action=Action.NONE,
        reason=read.alert.reason,
        poll_interval_s=sweep_interval_s,
        sweep_interval_s=sweep_interval_s,
        act_lead_s=_act_lead_s(read.policy),
        change=None,
    )


def _act_lead_s(policy: Policy) -> int:
    return round(policy.cadence.act_lead.total_seconds())
