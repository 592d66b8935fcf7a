"""One look at one volume: what changes, who must hear of it, and when to look again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from burstwatch.core.alerts.alert import (
    Alert,
    AlertKind,
    describe_evidence,
    describe_forecast,
    describe_reading,
    describe_volume,
    make_alert_id,
    runbook_link,
)
from burstwatch.core.alerts.drain_message import describe_drain_cause
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.drain_cause import DrainEpisode, DrainMetrics, find_drain
from burstwatch.core.assessment.host_stall import STALL_EVIDENCE_S, Stall
from burstwatch.core.assessment.severity import Level, classify, explain_level
from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, Volume, highest_drain_per_s, refill_time_s
from burstwatch.core.flips.evaluate import FlipEvaluation, evaluate_flip
from burstwatch.core.flips.events import Event, describe_host_stall, to_alert, to_ledger_entry
from burstwatch.core.flips.guards import detached_refusal
from burstwatch.core.flips.recommendation import Recommendation, recommend
from burstwatch.core.flips.reconcile import LATE_INTENT_MEMORY_S, Transition, reconcile
from burstwatch.core.flips.triggers import ActRule, FlipTrigger, VolumeContext, can_burst, choose_act_rule
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    Direction,
    Flip,
    FlipStatus,
    ModificationUse,
    modifications_within,
    record_modification,
)
from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry, VolumeState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import CadencePolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import describe_flip_duration, expected_flip_duration
from burstwatch.core.text import format_duration, format_instant
from burstwatch.core.watch.cadence import focus_interval_s, longest_interval_s, sweep_interval_s

NO_CONTEXT: Final = VolumeContext()

_FOCUS_S = 60
_PERMANENT_FLIP_POLL_S = 12 * 3600
"""A volume that stays where it was flipped is looked at so seldom: only to see whether it still is."""

_STATE_KEPT_AFTER_RETURN_S = 2 * 3600
"""Longer than any balance is read back: until then it must be known since when it is fresh."""

_GONE_AFTER_S = 600
"""A flipped volume that AWS does not show for so long is gone."""

_MISSING_CONFIRMED_AFTER_S = 30
"""Any other is, when the look after the first that did not show it does not either."""

_EARLY_WARNING_FACTOR: Final = 2
"""What would be a warning within this many times its span, were it believed, is looked at every minute."""

_TRANSIENT_READ_FAILURE_S = 120
"""A read that fails for less than this has only been throttled."""

_DRAIN_ALERTS: Final = frozenset({AlertKind.DRAINING, AlertKind.EXHAUSTED})


class Action(StrEnum):
    """What a decision wants done."""

    NONE = "none"
    ALERT = "alert"
    FLIP = "flip"
    FLIP_BACK = "flip_back"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class TickContext:
    """The circumstances of one look: ``now_s`` is the time, ``tick_at_s`` the nominal time of its tick."""

    now_s: float
    tick_at_s: int
    location: AwsLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one look at a volume leads to; ``change`` is None when the ledger already says it all.

    ``drain_episode`` is what its alert is about, where that tells of a drain for the first time at this
    level.
    """

    assessment: Assessment
    volume_settings: VolumeSettings
    level: Level
    previous_level: Level
    action: Action
    reason: str
    poll_interval_s: int | None
    change: Change | None
    recommendation: Recommendation | None = None
    trigger: FlipTrigger | None = None
    flip: Flip | None = None
    drain_episode: DrainEpisode | None = None

    @property
    def volume_id(self) -> str:
        return self.assessment.volume.volume_id

    @property
    def is_changing(self) -> bool:
        """Whether AWS is asked to change the volume, or is at it: its balance is that of what it was."""
        return self.flip is not None and self.flip.is_under_way

    @property
    def metric_count(self) -> int:
        """How many metrics of CloudWatch the next look at it reads."""
        if self.flip is not None and self.flip.status is FlipStatus.ON_TARGET:
            return 0 if self.flip.is_permanent else 2
        if self.flip is not None:
            return 1
        return 3 if self.level.is_alerting else 1

    @property
    def alerts(self) -> Sequence[Alert]:
        return self.change.alerts if self.change else ()

    @property
    def has_recommendation(self) -> bool:
        """Whether an alert goes out that tells people what to do."""
        return any(alert.action for alert in self.alerts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evaluated:
    """A look half-way: the level is known, alerts and the next look are not yet in ``new_state``."""

    assessment: Assessment
    level: Level
    new_state: VolumeState
    recommendation: Recommendation | None
    act_rule: ActRule | None


def decide(
    assessment: Assessment,
    state: VolumeState | None,
    volume_settings: VolumeSettings,
    *,
    policy: Policy,
    context: TickContext,
    volume_context: VolumeContext = NO_CONTEXT,
) -> Decision:
    """Judge a volume from one look at it and from what the ledger remembers."""
    now_s = int(context.now_s)
    old_state = state or VolumeState(volume_id=assessment.volume.volume_id, revision=0)
    if old_state.contested_at_s is not None:
        volume_settings = replace(
            volume_settings, mode=min(volume_settings.mode, Mode.PROPOSE, key=lambda mode: mode.rank)
        )
    transition = Transition(state=old_state)
    if volume_context.observed is not None:
        transition = reconcile(old_state, volume_context.observed, policy=policy, now_s=context.now_s)
    assessment = _without_stale_balance(assessment, transition.state)
    level = _classify_reading(assessment, old_state, policy)
    interval_s = _focus_interval(assessment, level, policy=policy)
    if _is_newly_missing_data(assessment, old_state, policy, now_s):
        interval_s = _FOCUS_S
    has_no_context = (
        not volume_settings.is_critical and volume_context.windows is None and volume_context.stall is None
    )
    is_calm = state is None and level is Level.OK and interval_s is None
    if has_no_context and (is_calm or _is_still_unused(assessment, old_state, now_s)):
        return _calm_decision(assessment, level, volume_settings, policy)
    transition = replace(
        transition, state=_record_external_modification(transition.state, volume_context, context.now_s)
    )
    new_state = _updated_state(
        transition.state, assessment, level, revision=max(old_state.revision + 1, now_s), now_s=now_s
    )
    if transition.state.arrived_at_s != old_state.arrived_at_s:
        new_state = replace(new_state, arrived_at_s=transition.state.arrived_at_s)
    must_leave_gp2 = volume_settings.is_critical or (
        volume_context.windows is not None and volume_context.windows.wants_flip
    )
    needs_recommendation = level.is_alerting or (must_leave_gp2 and can_burst(assessment.volume))
    is_not_flipped = transition.state.flip is None
    recommendation = None
    if needs_recommendation and is_not_flipped:
        recommendation = recommend(
            assessment,
            volume_settings.target_override,
            policy.flip,
            context.location,
            is_future=must_leave_gp2 or not level.is_alerting,
            modifications=modifications_within(transition.state.modifications, context.now_s),
            unavailable=volume_context.unavailable,
        )
    evaluation = evaluate_flip(
        assessment,
        new_state,
        level,
        volume_settings,
        volume_context,
        recommendation=recommendation,
        policy=policy,
        now_s=context.now_s,
    )
    events, new_state = (*transition.events, *evaluation.events), evaluation.state
    rule = (
        None
        if recommendation is None or must_leave_gp2
        else choose_act_rule(recommendation.settled_target, policy)
    )
    evaluated = _Evaluated(
        assessment=assessment, level=level, new_state=new_state, recommendation=recommendation, act_rule=rule
    )
    kind, reason = _alert_due(old_state, evaluated, policy=policy, now_s=now_s)
    if volume_settings.mode is Mode.OBSERVE and kind is not None:
        new_state = _clear_alert_flags(new_state) if kind is AlertKind.RECOVERED else new_state
        kind, reason = None, f"{reason}; mode observe sends no alert"
    alerts: list[Alert] = []
    episode = find_drain(assessment.balance) if kind in _DRAIN_ALERTS else None
    if kind is not None:
        alerts.append(
            _make_alert(kind, old_state, evaluated, volume_settings, episode, policy=policy, context=context)
        )
        new_state = _mark_alerted(new_state, kind, now_s)
    if volume_context.stall is not None:
        new_state, event = _record_host_stall(
            new_state, volume_context.stall, volume_settings, is_alerted=kind is not None, now_s=now_s
        )
        events = (*events, event)
    interval_s = _interval_with_flip(interval_s, new_state, evaluation, policy)
    new_state = replace(
        new_state, next_poll_at_s=None if interval_s is None else context.tick_at_s + interval_s
    )
    event_alerts = [
        to_alert(event, new_state, assessment.volume, policy=policy, location=context.location, now_s=now_s)
        for event in events
    ]
    alerts += [alert for alert in event_alerts if alert]
    return Decision(
        assessment=assessment,
        volume_settings=volume_settings,
        level=level,
        previous_level=old_state.level,
        action=_choose_action(evaluation, volume_context, alerts),
        reason=_decision_reason(reason, evaluation, volume_context, assessment.volume),
        poll_interval_s=interval_s or _sweep_interval(assessment, policy),
        change=_build_change(state, new_state, tuple(alerts), events, level, old_state.level, now_s),
        recommendation=recommendation,
        trigger=evaluation.trigger,
        flip=new_state.flip,
        drain_episode=None if any(alert.is_reminder for alert in alerts) else episode,
    )


def attach_drain_cause(decision: Decision, metrics: DrainMetrics, *, now_s: float) -> Decision:
    """The decision with what drained the volume in its alert about that, and in the ledger's copy of it."""
    if decision.drain_episode is None or decision.change is None:
        return decision
    drain_document = describe_drain_cause(decision.drain_episode, metrics, now_s=now_s)
    alerts = {
        alert.alert_id: replace(alert, evidence={**alert.evidence, "drain": drain_document})
        for alert in decision.alerts
        if alert.kind in _DRAIN_ALERTS
    }
    entries = [
        replace(entry, body=alerts[entry.body["alert_id"]].to_document())
        if entry.kind is EntryKind.ALERT and entry.body["alert_id"] in alerts
        else entry
        for entry in decision.change.entries
    ]
    changed = tuple(alerts.get(alert.alert_id, alert) for alert in decision.alerts)
    return replace(decision, change=replace(decision.change, alerts=changed, entries=tuple(entries)))


def _record_host_stall(
    state: VolumeState, stall: Stall, volume_settings: VolumeSettings, *, is_alerted: bool, now_s: int
) -> tuple[VolumeState, Event]:
    """Remember what a host reports; it is an alert of its own only where none tells of the volume already."""
    alerted_at_s = state.stall_alerted_at_s
    is_due = alerted_at_s is None or now_s - alerted_at_s >= STALL_EVIDENCE_S
    should_alert = (
        is_due and not is_alerted and state.alerted_level is None and volume_settings.mode is not Mode.OBSERVE
    )
    duration = f" for {stall.total_s:,.1f} s" if stall.total_s is not None else ""
    event = Event(
        kind=EntryKind.STALL,
        summary=f"stood still{duration}, says its host",
        details=("CloudWatch shows no reason yet; the host is nearer, and minutes earlier.",)
        if should_alert
        else (),
        alert=AlertKind.HOST_STALL if should_alert else None,
        action=f"burstctl explain {stall.volume_id}",
        facts=stall.to_facts(now_s),
    )
    return replace(state, stall_alerted_at_s=now_s if should_alert else alerted_at_s), event


def _without_stale_balance(assessment: Assessment, state: VolumeState) -> Assessment:
    """What is known of a volume whose modification is completed: its gp2 bucket says nothing any more."""
    flip, reason = state.flip, UnknownReason.NOT_BURSTABLE_TYPE
    is_known = assessment.sample is not None or assessment.unknown_reason is reason
    if not is_known or assessment.volume.is_gp2 or flip is None or flip.is_under_way:
        return assessment
    return replace(
        assessment,
        unknown_because=None,  # the flip was under way when the balance was read, and is over
        sample=None,
        age_s=None,
        spacing_s=None,
        forecast=None,
        balance=Series(),
        unknown_reason=reason,
    )


def _classify_reading(assessment: Assessment, old_state: VolumeState, policy: Policy) -> Level:
    """The level by what was read; on the way out AWS tells no balance, and an old one raises no alarm."""
    level = classify(assessment, old_state.level, policy)
    is_being_modified = old_state.flip is not None and old_state.flip.is_under_way
    is_stale = (assessment.age_s or 0) > policy.cadence.metric_lag.total_seconds()
    if is_being_modified and is_stale and level is not Level.UNKNOWN:
        return min(level, old_state.level, key=lambda candidate: candidate.rank)
    return level


def _record_external_modification(
    state: VolumeState, volume_context: VolumeContext, now_s: float
) -> VolumeState:
    """The state with what its host reports, and with a modification that others began.

    Of modifications AWS shows only the newest, and counts them all.
    """
    if volume_context.stall is not None:
        state = replace(state, stall=volume_context.stall)
    record = volume_context.modification_in_progress
    if state.flip is not None or record is None or record.started_at is None:
        return state
    external = ModificationUse(at_s=int(record.started_at.timestamp()), by=EXTERNAL)
    return replace(state, modifications=record_modification(state.modifications, external, now_s))


def _choose_action(
    evaluation: FlipEvaluation, volume_context: VolumeContext, alerts: Sequence[Alert]
) -> Action:
    if evaluation.trigger is None:
        return Action.ALERT if alerts else Action.NONE
    if volume_context.hold is not None:
        return Action.HOLD
    return Action.FLIP if evaluation.trigger.direction is Direction.FLIP else Action.FLIP_BACK


def _decision_reason(
    reason: str, evaluation: FlipEvaluation, volume_context: VolumeContext, volume: Volume
) -> str:
    """What is wanted or waited for comes first; the level's own reason where there is nothing of both."""
    if evaluation.trigger is not None:
        hold_suffix = "" if volume_context.hold is None else f"; on hold by {volume_context.hold.by}"
        detached_suffix = "" if detached_refusal(volume) is None else "; not while it is detached"
        return f"{evaluation.trigger.reason}{hold_suffix}{detached_suffix}"
    return evaluation.blocked_reason or reason


def _interval_with_flip(
    interval_s: int | None, new_state: VolumeState, evaluation: FlipEvaluation, policy: Policy
) -> int | None:
    """The next look, where a flip wants one sooner than the level does."""
    flip = new_state.flip
    max_interval_s = int(policy.cadence.focus_at_most.total_seconds())
    if flip is not None and (flip.is_under_way or flip.unconfirmed_since_s is not None):
        flip_interval_s = _FOCUS_S
    elif flip is not None and flip.is_permanent:
        flip_interval_s = _PERMANENT_FLIP_POLL_S
    elif flip is not None or evaluation.trigger is not None:
        flip_interval_s = max_interval_s
    else:
        return interval_s
    return flip_interval_s if interval_s is None else min(flip_interval_s, interval_s)


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
        poll_interval_s=_sweep_interval(assessment, policy),
        change=None,
    )


def may_be_idle(
    assessment: Assessment,
    state: VolumeState | None,
    cadence: CadencePolicy,
    *,
    now_s: float,
    is_first_sweep: bool = False,
) -> bool:
    """Whether a volume without datapoints may be idle: it was full when last seen, and nothing goes on.

    One without a state was calm when it was last seen, except in the first sweep. One whose balance was never
    seen counts as full once it has been attached for as long as an empty bucket takes to refill.
    """
    if state is not None and (state.level.is_alerting or state.flip is not None):
        return False
    if state is not None and state.balance_pct is not None:
        return state.balance_pct >= cadence.calm_from_pct
    if not is_first_sweep if state is None else state.unknown_reason is UnknownReason.IDLE:
        return True
    volume = assessment.volume
    attached_s = now_s - (volume.attached_at or volume.created_at).timestamp()
    return attached_s >= refill_time_s(assessment.baseline_iops)


def _is_newly_missing_data(
    assessment: Assessment, old_state: VolumeState, policy: Policy, now_s: int
) -> bool:
    """Whether one more answer may show why there are no datapoints: one without is not yet a gap.

    A load that has just begun looks idle for as long as CloudWatch takes to show it.
    """
    reason = assessment.unknown_reason
    if reason is UnknownReason.TELEMETRY_GAP:
        return old_state.unknown_reason is not reason
    if reason is not UnknownReason.IDLE:
        return False
    since_s = old_state.unknown_since_s if old_state.unknown_reason is reason else None
    return since_s is None or now_s - since_s < policy.cadence.metric_lag.total_seconds()


def _is_still_unused(assessment: Assessment, old_state: VolumeState, now_s: int) -> bool:
    """Whether it was idle or detached at the last look as well, and nothing is new: nothing is written."""
    reason = assessment.unknown_reason
    if reason is not old_state.unknown_reason:
        return False
    is_idle = reason is UnknownReason.IDLE
    is_refilling = old_state.balance_pct is not None and not _is_refilled(assessment, old_state, now_s)
    is_quiet = (
        old_state.next_poll_at_s is None
        and not old_state.is_gap_alerted
        and old_state.missing_since_s is None
    )
    is_unused = is_idle or (reason is UnknownReason.DETACHED and is_refilling)
    return is_unused and is_quiet and not old_state.has_flip_history and old_state.stall is None


def _is_refilled(assessment: Assessment, state: VolumeState, now_s: int) -> bool:
    """Whether the balance last seen is so old that the bucket of an unused volume has refilled since."""
    if state.balance_pct is None or state.balance_at_s is None:
        return True
    return now_s - state.balance_at_s >= refill_time_s(assessment.baseline_iops, state.balance_pct)


def mark_missing(state: VolumeState, context: TickContext) -> Change | None:
    """Doubt that a volume is gone; None when it was missing for long enough.

    AWS may leave a volume out of an answer: one that drains would not be looked at before its next sweep, and
    what one that has moved was before its flip is known nowhere else.
    """
    now_s = int(context.now_s)
    since_s = now_s if state.missing_since_s is None else state.missing_since_s
    if now_s - since_s >= (_GONE_AFTER_S if state.has_flip_history else _MISSING_CONFIRMED_AFTER_S):
        return None
    new_state = replace(
        state,
        revision=max(state.revision + 1, now_s),
        missing_since_s=since_s,
        next_poll_at_s=context.tick_at_s + _FOCUS_S,
    )
    return Change(volume_id=state.volume_id, expected_revision=state.revision, state=new_state)


def drop_state(state: VolumeState, reason: str, *, policy: Policy, context: TickContext) -> Change:
    """Drop the state of a volume that is deleted or ignored, and close its alert where there is one."""
    now_s = int(context.now_s)
    new_state = replace(state, revision=max(state.revision + 1, now_s), level=Level.OK, level_since_s=now_s)
    alerts: tuple[Alert, ...] = ()
    if state.alerted_level is not None or state.is_gap_alerted:
        alerts = (
            Alert(
                alert_id=make_alert_id(state.volume_id, AlertKind.RECOVERED, new_state.revision),
                kind=AlertKind.RECOVERED,
                level=Level.UNKNOWN,
                previous_level=state.alerted_level or state.level,
                volume_id=state.volume_id,
                at_s=now_s,
                volume={
                    "volume_id": state.volume_id,
                    "region": context.location.region,
                    "account": context.location.account,
                },
                reading={"unknown_because": reason},
                runbook=runbook_link(AlertKind.RECOVERED, policy.alerts.runbooks_url),
            ),
        )
    entries = [
        _make_entry(new_state, EntryKind.LEVEL_CHANGED, {"from": str(state.level), "to": reason}, now_s)
    ]
    entries += [_make_entry(new_state, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=state.volume_id,
        expected_revision=state.revision,
        state=None,
        entries=tuple(entries),
        alerts=alerts,
    )


def _mark_alerted(new_state: VolumeState, kind: AlertKind, now_s: int) -> VolumeState:
    if kind is AlertKind.TELEMETRY_GAP:
        return replace(new_state, is_gap_alerted=True)
    if kind is AlertKind.RECOVERED:
        return _clear_alert_flags(new_state)
    return replace(new_state, alerted_level=new_state.level, alerted_at_s=now_s)


def _clear_alert_flags(new_state: VolumeState) -> VolumeState:
    """Nothing is open with anybody any more."""
    return replace(new_state, alerted_level=None, alerted_at_s=None, is_gap_alerted=False)


def _updated_state(
    old_state: VolumeState, assessment: Assessment, level: Level, *, revision: int, now_s: int
) -> VolumeState:
    """The state after this look, before alerts and the next look are known."""
    reason = assessment.unknown_reason
    updated = replace(
        old_state,
        revision=revision,
        arrived_at_s=assessment.arrived_at_s,
        modified_at_s=assessment.modified_at_s,
        smaller_size_gib=assessment.smaller_size_gib,
        unused_since_s=assessment.unused_since_s,
        unknown_reason=reason,
        missing_since_s=None,
    )
    if reason is UnknownReason.DETACHED and _is_refilled(assessment, old_state, now_s):
        updated = replace(updated, balance_pct=None, balance_at_s=None)
    if reason is not None:
        since_s = old_state.unknown_since_s if old_state.unknown_reason is reason else now_s
        is_being_modified = old_state.flip is not None and old_state.flip.is_under_way
        is_over = not reason.is_fault and reason is not UnknownReason.TOO_NEW and not is_being_modified
        return _with_level(
            replace(updated, unknown_since_s=since_s, is_gap_alerted=updated.is_gap_alerted and not is_over),
            Level.OK if is_over else old_state.level,
            now_s,
        )
    assert assessment.sample is not None
    with_balance = replace(
        updated,
        unknown_since_s=None,
        is_gap_alerted=False,
        balance_pct=assessment.sample.value,
        balance_at_s=assessment.sample.end_at_s,
    )
    return _with_level(with_balance, level, now_s)


def _with_level(state: VolumeState, level: Level, now_s: int) -> VolumeState:
    return state if state.level is level else replace(state, level=level, level_since_s=now_s)


def _alert_due(
    old_state: VolumeState, evaluated: _Evaluated, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """The kind of alert this look calls for, if any, and the reason in words."""
    unknown_reason, level = evaluated.assessment.unknown_reason, evaluated.new_state.level
    if unknown_reason is not None and unknown_reason.is_fault:
        return _gap_alert_due(evaluated, unknown_reason, policy=policy, now_s=now_s)
    if level.is_alerting:
        return _level_alert_due(old_state, level, unknown_reason, policy=policy, now_s=now_s)
    reason = str(evaluated.level) if unknown_reason is None else str(unknown_reason)
    if unknown_reason is UnknownReason.TOO_NEW:
        return None, reason
    if old_state.alerted_level is not None or old_state.is_gap_alerted:
        return AlertKind.RECOVERED, f"{old_state.level} before, now {reason}"
    return None, reason


def _level_alert_due(
    old_state: VolumeState, level: Level, unknown_reason: UnknownReason | None, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """Alert on entering a level, and again as a reminder while it lasts; never while the data is missing."""
    if unknown_reason is not None:
        return None, f"{unknown_reason}; last known level {level}"
    kind = AlertKind.EXHAUSTED if level is Level.EXHAUSTED else AlertKind.DRAINING
    if old_state.alerted_level is not level or old_state.is_gap_alerted:
        return kind, f"{old_state.level} before, now {level}"
    elapsed_s = now_s - (old_state.alerted_at_s or 0)
    if elapsed_s >= policy.alerts.remind_every.total_seconds():
        return kind, f"still {level}"
    return None, f"{level}, alerted {format_duration(elapsed_s)} ago"


def _gap_alert_due(
    evaluated: _Evaluated, unknown_reason: UnknownReason, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """A telemetry gap alerts at once, a failed read when for all we know it is dry soon; both once."""
    new_state = evaluated.new_state
    if new_state.is_gap_alerted:
        return None, f"{unknown_reason}, alerted"
    lasted_s = now_s - (new_state.unknown_since_s or now_s)
    alert_after_s = policy.telemetry.gap_after.total_seconds()
    highest_drain = highest_drain_per_s(evaluated.assessment.baseline_iops)
    if new_state.balance_pct is not None and new_state.balance_at_s is not None and highest_drain:
        empty_at_s = new_state.balance_at_s + new_state.balance_pct * CREDITS_PER_PCT / highest_drain
        time_left_s = lasted_s + empty_at_s - now_s - policy.cadence.act_lead.total_seconds()
        alert_after_s = min(alert_after_s, max(_TRANSIENT_READ_FAILURE_S, time_left_s))
    if unknown_reason is UnknownReason.TELEMETRY_GAP or lasted_s >= alert_after_s:
        return AlertKind.TELEMETRY_GAP, str(unknown_reason)
    return None, str(unknown_reason)


def _make_alert(
    kind: AlertKind,
    old_state: VolumeState,
    evaluated: _Evaluated,
    volume_settings: VolumeSettings,
    episode: DrainEpisode | None,
    *,
    policy: Policy,
    context: TickContext,
) -> Alert:
    assessment, level = evaluated.assessment, evaluated.level
    volume = assessment.volume
    return Alert(
        alert_id=make_alert_id(volume.volume_id, kind, evaluated.new_state.revision),
        kind=kind,
        level=level,
        previous_level=old_state.alerted_level or old_state.level,
        volume_id=volume.volume_id,
        at_s=int(context.now_s),
        is_reminder=kind in _DRAIN_ALERTS and old_state.alerted_level is level,
        volume=describe_volume(volume, context.location),
        reading=describe_reading(assessment),
        forecast=describe_forecast(assessment, context.now_s),
        evidence={"because": explain_level(assessment, level, policy)}
        | describe_evidence(assessment, episode)
        | _describe_duration(evaluated, policy, context.now_s)
        | {
            "mode": str(volume_settings.mode),
            "tag_faults": list(volume_settings.faults),
            "proposal": list(evaluated.recommendation.reasons if evaluated.recommendation else ()),
            "act_at": evaluated.act_rule.to_document() if evaluated.act_rule else None,
        }
        | describe_host_stall(evaluated.new_state.stall, context.now_s),
        action=evaluated.recommendation.action if evaluated.recommendation else None,
        runbook=runbook_link(kind, policy.alerts.runbooks_url),
        console_url=context.location.volume_url(volume.volume_id),
    )


def _describe_duration(evaluated: _Evaluated, policy: Policy, now_s: float) -> dict[str, object]:
    """How long a flip is expected to take: of the one under way, or of the one that is proposed."""
    flip, recommendation, volume = (
        evaluated.new_state.flip,
        evaluated.recommendation,
        evaluated.assessment.volume,
    )
    is_changing = flip is not None and flip.is_under_way
    if not is_changing and (recommendation is None or recommendation.target is None):
        return {}
    return {
        "changing_to": str(flip.requested_config) if flip is not None and is_changing else None,
        "changing_since": format_instant(flip.requested_at_s) if flip is not None and is_changing else None,
        "expected_least_s": round(policy.lead.least.total_seconds()),
        "expected_most_s": round(expected_flip_duration(volume.size_gib, policy.lead).total_seconds()),
        "duration": describe_flip_duration(
            volume.size_gib,
            policy.lead,
            time_to_empty_s=evaluated.assessment.time_to_empty_s,
            elapsed_s=now_s - flip.requested_at_s if flip is not None and is_changing else 0.0,
        ),
    }


def _focus_interval(assessment: Assessment, level: Level, *, policy: Policy) -> int | None:
    """Seconds to the next close look; None when the volume is calm and the sweep looks after it."""
    cadence = policy.cadence
    if assessment.unknown_reason is not None:
        watched = assessment.unknown_reason in (UnknownReason.READ_FAILED, UnknownReason.TOO_NEW)
        return 60 if watched else None
    assert assessment.credits_left is not None
    assert assessment.age_s is not None
    is_settling = assessment.arrived_at_s is not None or assessment.modified_at_s is not None
    credits_left, baseline = assessment.credits_left, assessment.baseline_iops
    if not level.is_alerting and _may_soon_warn(assessment.forecast, policy):
        return 60
    if level is Level.OK and not is_settling:
        longest_s = longest_interval_s(credits_left, baseline, cadence, assessment.age_s)
        if longest_s >= sweep_interval_s(baseline, cadence):
            return None
    return focus_interval_s(credits_left, baseline, cadence, assessment.age_s)


def _may_soon_warn(forecast: Forecast | None, policy: Policy) -> bool:
    """Whether it drains at a pace that, were it believed, would be a warning now or before long."""
    if forecast is None or not forecast.is_draining or forecast.earliest_s is None:
        return False
    return forecast.earliest_s <= _EARLY_WARNING_FACTOR * policy.levels.warning_within.total_seconds()


def _sweep_interval(assessment: Assessment, policy: Policy) -> int | None:
    """Seconds from sweep to sweep; None for a volume that is not polled."""
    if assessment.unknown_reason in (None, UnknownReason.IDLE, UnknownReason.TELEMETRY_GAP):
        return sweep_interval_s(assessment.baseline_iops, policy.cadence)
    return None


def _build_change(
    state: VolumeState | None,
    new_state: VolumeState,
    alerts: tuple[Alert, ...],
    events: Sequence[Event],
    level: Level,
    previous: Level,
    now_s: int,
) -> Change | None:
    """What to write; nothing where a calm volume stays calm."""
    remembers_unsent_intent = (
        new_state.unsent_intent is not None
        and now_s - new_state.unsent_intent.requested_at_s < LATE_INTENT_MEMORY_S
    )
    new_state = replace(
        new_state,
        modifications=modifications_within(new_state.modifications, now_s),
        unsent_intent=new_state.unsent_intent if remembers_unsent_intent else None,
    )
    kept_state = new_state if _is_worth_keeping(new_state, now_s) else None
    if state is None and kept_state is None and not alerts:
        return None
    entries: list[LedgerEntry] = []
    if new_state.level is not previous:
        entries.append(
            _make_entry(new_state, EntryKind.LEVEL_CHANGED, {"from": str(previous), "to": str(level)}, now_s)
        )
    entries += [
        to_ledger_entry(event, new_state, now_s) for event in events if event.kind is not EntryKind.ALERT
    ]
    entries += [_make_entry(new_state, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=new_state.volume_id,
        expected_revision=state.revision if state else None,
        state=kept_state,
        entries=tuple(entries),
        alerts=alerts,
    )


def _make_entry(new_state: VolumeState, kind: EntryKind, body: dict[str, object], at_s: int) -> LedgerEntry:
    return LedgerEntry(
        volume_id=new_state.volume_id, revision=new_state.revision, kind=kind, at_s=at_s, body=body
    )


_REMEMBERED_REASONS: Final = (UnknownReason.IDLE, UnknownReason.INSTANCE_STOPPED, UnknownReason.TELEMETRY_GAP)


def _is_worth_keeping(state: VolumeState, now_s: int) -> bool:
    """Whether forgetting this state would change a later decision."""
    is_refilling = state.unknown_reason is UnknownReason.DETACHED and state.balance_pct is not None
    is_remembered = state.unknown_reason in _REMEMBERED_REASONS or is_refilling
    is_watched = state.level is not Level.OK or state.next_poll_at_s is not None
    has_open_alert = (
        state.is_gap_alerted or state.is_critical_alerted or state.missed_window_alerted_at_s is not None
    )
    is_backing_off = state.retry_at_s is not None and state.retry_at_s > now_s
    has_fresh_stall = state.stall is not None and state.stall.is_fresh(now_s)
    has_returned = (
        state.returned_at_s is not None and now_s - state.returned_at_s < _STATE_KEPT_AFTER_RETURN_S
    )
    return (
        is_watched
        or has_open_alert
        or is_remembered
        or state.has_flip_history
        or is_backing_off
        or has_returned
        or has_fresh_stall
    )
