"""One look at one volume: what changes, who must hear of it, and when to look again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from burstwatch.core.alerts.alert import (
    Alert,
    AlertKind,
    alert_id,
    describe_evidence,
    describe_forecast,
    describe_reading,
    describe_volume,
    runbook_link,
)
from burstwatch.core.alerts.drain_message import describe_cause
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.drain_cause import Fall, Traces, find_fall
from burstwatch.core.assessment.host_stall import FRESH_S, Stall
from burstwatch.core.assessment.severity import Level, explain_level, judge
from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, Volume, refill_time_s, worst_drain_per_s
from burstwatch.core.flips.evaluate import Move, consider
from burstwatch.core.flips.events import Event, announce, describe_host, enter
from burstwatch.core.flips.guards import refuse_detached
from burstwatch.core.flips.recommendation import Proposal, propose
from burstwatch.core.flips.reconcile import LOST_FOR_S, Step, follow
from burstwatch.core.flips.triggers import ActRule, Around, Want, act_rule, can_burst
from burstwatch.core.ledger.flip_state import OTHERS, Direction, Flip, Phase, Spent, spent_within, with_spent
from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry, VolumeState
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import CadencePolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import Wishes
from burstwatch.core.policy.windows import duration_sentence, expected_flip
from burstwatch.core.text import format_duration, format_instant
from burstwatch.core.watch.poll_interval import focus_interval_s, longest_interval_s, sweep_interval_s

NOTHING_AROUND: Final = Around()

_FOCUS_S = 60
_STAYS_LOOK_S = 12 * 3600
"""A volume that stays where it was flipped is looked at so seldom: only to see whether it still is."""

_KEPT_AFTER_RETURN_S = 2 * 3600
"""Longer than any balance is read back: until then it must be known since when it is fresh."""

_GONE_AFTER_S = 600
"""A flipped volume that AWS does not show for so long is gone."""

_UNSEEN_TWICE_S = 30
"""Any other is, when the look after the first that did not show it does not either."""

_SOON: Final = 2
"""What would be a warning within this many times its span, were it believed, is looked at every minute."""

_PASSING_S = 120
"""A read that fails for less than this has only been throttled."""

_ABOUT_A_DRAIN: Final = frozenset({AlertKind.DRAINING, AlertKind.EXHAUSTED})


class Action(StrEnum):
    """What a decision wants done."""

    NONE = "none"
    ALERT = "alert"
    FLIP = "flip"
    FLIP_BACK = "flip_back"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The circumstances of one look: ``now_s`` is the time, ``tick_s`` the nominal time of its tick."""

    now_s: float
    tick_s: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one look at a volume leads to; ``change`` is None when the ledger already says it all.

    ``fall`` is what its alert is about, where that tells of a drain for the first time at this level.
    """

    assessment: Assessment
    wishes: Wishes
    level: Level
    previous_level: Level
    action: Action
    reason: str
    look_interval_s: int | None
    change: Change | None
    proposal: Proposal | None = None
    want: Want | None = None
    flip: Flip | None = None
    fall: Fall | None = None

    @property
    def volume_id(self) -> str:
        return self.assessment.volume.volume_id

    @property
    def is_changing(self) -> bool:
        """Whether AWS is asked to change the volume, or is at it: its balance is that of what it was."""
        return self.flip is not None and self.flip.is_under_way

    @property
    def metrics(self) -> int:
        """How many metrics of CloudWatch the next look at it reads."""
        if self.flip is not None and self.flip.phase is Phase.ON_TARGET:
            return 0 if self.flip.stays else 2
        if self.flip is not None:
            return 1
        return 3 if self.level.is_alerting else 1

    @property
    def alerts(self) -> Sequence[Alert]:
        return self.change.alerts if self.change else ()

    @property
    def has_proposed(self) -> bool:
        """Whether an alert goes out that tells people what to do."""
        return any(alert.action for alert in self.alerts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A look half-way: the level is known, alerts and the next look are not yet in ``after``."""

    assessment: Assessment
    level: Level
    after: VolumeState
    proposal: Proposal | None
    act_rule: ActRule | None


def decide(
    assessment: Assessment,
    state: VolumeState | None,
    wishes: Wishes,
    *,
    policy: Policy,
    look: Look,
    around: Around = NOTHING_AROUND,
) -> Decision:
    """Judge a volume from one look at it and from what the ledger remembers."""
    now_s = int(look.now_s)
    before = state or VolumeState(volume_id=assessment.volume.volume_id, revision=0)
    if before.contested_at_s is not None:
        wishes = replace(wishes, mode=min(wishes.mode, Mode.PROPOSE, key=lambda mode: mode.rank))
    step = Step(state=before)
    if around.sighting is not None:
        step = follow(before, around.sighting, policy=policy, now_s=look.now_s)
    assessment = _without_old_balance(assessment, step.state)
    level = _level(assessment, before, policy)
    interval_s = _focus_interval(assessment, level, policy=policy)
    if _is_newly_silent(assessment, before, policy, now_s):
        interval_s = _FOCUS_S
    is_plain = not wishes.is_critical and around.windows is None and around.stall is None
    is_calm = state is None and level is Level.OK and interval_s is None
    if is_plain and (is_calm or _stays_unused(assessment, before, now_s)):
        return _stay_calm(assessment, level, wishes, policy)
    step = replace(step, state=_with_news(step.state, around, look.now_s))
    after = _after(step.state, assessment, level, revision=max(before.revision + 1, now_s), now_s=now_s)
    if step.state.arrived_at_s != before.arrived_at_s:
        after = replace(after, arrived_at_s=step.state.arrived_at_s)
    is_called = wishes.is_critical or (around.windows is not None and around.windows.wants_flip)
    asks = level.is_alerting or (is_called and can_burst(assessment.volume))
    is_home = step.state.flip is None
    proposal = None
    if asks and is_home:
        proposal = propose(
            assessment,
            wishes.target,
            policy.flip,
            look.place,
            ahead=is_called or not level.is_alerting,
            spent=spent_within(step.state.spent, look.now_s),
            unavailable=around.unavailable,
        )
    move = consider(
        assessment, after, level, wishes, around, proposal=proposal, policy=policy, now_s=look.now_s
    )
    events, after = (*step.events, *move.events), move.state
    rule = None if proposal is None or is_called else act_rule(proposal.choice, policy)
    judged = _Judged(assessment=assessment, level=level, after=after, proposal=proposal, act_rule=rule)
    kind, reason = _alert_due(before, judged, policy=policy, now_s=now_s)
    if wishes.mode is Mode.OBSERVE and kind is not None:
        after = _untold(after) if kind is AlertKind.RECOVERED else after
        kind, reason = None, f"{reason}; mode observe sends no alert"
    alerts: list[Alert] = []
    fall = find_fall(assessment.balance) if kind in _ABOUT_A_DRAIN else None
    if kind is not None:
        alerts.append(_make_alert(kind, before, judged, wishes, fall, policy=policy, look=look))
        after = _alerted(after, kind, now_s)
    if around.stall is not None:
        after, event = _hear(after, around.stall, wishes, is_told=kind is not None, now_s=now_s)
        events = (*events, event)
    interval_s = _with_flip(interval_s, after, move, policy)
    after = replace(after, next_look_at_s=None if interval_s is None else look.tick_s + interval_s)
    told = [
        announce(event, after, assessment.volume, policy=policy, place=look.place, now_s=now_s)
        for event in events
    ]
    alerts += [alert for alert in told if alert]
    return Decision(
        assessment=assessment,
        wishes=wishes,
        level=level,
        previous_level=before.level,
        action=_action(move, around, alerts),
        reason=_reason(reason, move, around, assessment.volume),
        look_interval_s=interval_s or _sweep_interval(assessment, policy),
        change=_change(state, after, tuple(alerts), events, level, before.level, now_s),
        proposal=proposal,
        want=move.want,
        flip=after.flip,
        fall=None if any(alert.is_reminder for alert in alerts) else fall,
    )


def with_cause(decision: Decision, traces: Traces, *, now_s: float) -> Decision:
    """The decision with what drained the volume in its alert about that, and in the ledger's copy of it."""
    if decision.fall is None or decision.change is None:
        return decision
    told = describe_cause(decision.fall, traces, now_s=now_s)
    alerts = {
        alert.alert_id: replace(alert, evidence={**alert.evidence, "drain": told})
        for alert in decision.alerts
        if alert.kind in _ABOUT_A_DRAIN
    }
    entries = [
        replace(entry, body=alerts[entry.body["alert_id"]].to_document())
        if entry.kind is EntryKind.ALERT and entry.body["alert_id"] in alerts
        else entry
        for entry in decision.change.entries
    ]
    changed = tuple(alerts.get(alert.alert_id, alert) for alert in decision.alerts)
    return replace(decision, change=replace(decision.change, alerts=changed, entries=tuple(entries)))


def _hear(
    state: VolumeState, stall: Stall, wishes: Wishes, *, is_told: bool, now_s: int
) -> tuple[VolumeState, Event]:
    """Remember what a host reports; it is an alert of its own only where none tells of the volume already."""
    told_s = state.stall_told_at_s
    is_new = told_s is None or now_s - told_s >= FRESH_S
    alerts = is_new and not is_told and state.alerted_level is None and wishes.mode is not Mode.OBSERVE
    span = f" for {stall.total_s:,.1f} s" if stall.total_s is not None else ""
    event = Event(
        kind=EntryKind.STALL,
        summary=f"stood still{span}, says its host",
        details=("CloudWatch shows no reason yet; the host is nearer, and minutes earlier.",)
        if alerts
        else (),
        alert=AlertKind.HOST_STALL if alerts else None,
        action=f"burstctl explain {stall.volume_id}",
        facts=stall.facts(now_s),
    )
    return replace(state, stall_told_at_s=now_s if alerts else told_s), event


def _without_old_balance(assessment: Assessment, state: VolumeState) -> Assessment:
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


def _level(assessment: Assessment, before: VolumeState, policy: Policy) -> Level:
    """The level by what was read; on the way out AWS tells no balance, and an old one raises no alarm."""
    level = judge(assessment, before.level, policy)
    is_leaving = before.flip is not None and before.flip.is_under_way
    is_old = (assessment.age_s or 0) > policy.cadence.metric_lag.total_seconds()
    if is_leaving and is_old and level is not Level.UNKNOWN:
        return min(level, before.level, key=lambda each: each.rank)
    return level


def _with_news(state: VolumeState, around: Around, now_s: float) -> VolumeState:
    """The state with what its host reports, and with a modification that others began.

    Of modifications AWS shows only the newest, and counts them all.
    """
    if around.stall is not None:
        state = replace(state, stall=around.stall)
    record = around.in_progress
    if state.flip is not None or record is None or record.started_at is None:
        return state
    theirs = Spent(at_s=int(record.started_at.timestamp()), by=OTHERS)
    return replace(state, spent=with_spent(state.spent, theirs, now_s))


def _action(move: Move, around: Around, alerts: Sequence[Alert]) -> Action:
    if move.want is None:
        return Action.ALERT if alerts else Action.NONE
    if around.hold is not None:
        return Action.HOLD
    return Action.FLIP if move.want.direction is Direction.OUT else Action.FLIP_BACK


def _reason(reason: str, move: Move, around: Around, volume: Volume) -> str:
    """What is wanted or waited for comes first; the level's own reason where there is nothing of both."""
    if move.want is not None:
        held = "" if around.hold is None else f"; on hold by {around.hold.by}"
        detached = "" if refuse_detached(volume) is None else "; not while it is detached"
        return f"{move.want.reason}{held}{detached}"
    return move.waits or reason


def _with_flip(interval_s: int | None, after: VolumeState, move: Move, policy: Policy) -> int | None:
    """The next look, where a flip wants one sooner than the level does."""
    flip = after.flip
    at_most_s = int(policy.cadence.focus_at_most.total_seconds())
    if flip is not None and (flip.is_under_way or flip.unseen_since_s is not None):
        wanted_s = _FOCUS_S
    elif flip is not None and flip.stays:
        wanted_s = _STAYS_LOOK_S
    elif flip is not None or move.want is not None:
        wanted_s = at_most_s
    else:
        return interval_s
    return wanted_s if interval_s is None else min(wanted_s, interval_s)


def _stay_calm(assessment: Assessment, level: Level, wishes: Wishes, policy: Policy) -> Decision:
    """The decision about almost every volume at almost every look: nothing."""
    return Decision(
        assessment=assessment,
        wishes=wishes,
        level=level,
        previous_level=Level.OK,
        action=Action.NONE,
        reason=str(assessment.unknown_reason or level),
        look_interval_s=_sweep_interval(assessment, policy),
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


def _is_newly_silent(assessment: Assessment, before: VolumeState, policy: Policy, now_s: int) -> bool:
    """Whether one more answer may show why there are no datapoints: one without is not yet a gap.

    A load that has just begun looks idle for as long as CloudWatch takes to show it.
    """
    reason = assessment.unknown_reason
    if reason is UnknownReason.TELEMETRY_GAP:
        return before.unknown_reason is not reason
    if reason is not UnknownReason.IDLE:
        return False
    since_s = before.unknown_since_s if before.unknown_reason is reason else None
    return since_s is None or now_s - since_s < policy.cadence.metric_lag.total_seconds()


def _stays_unused(assessment: Assessment, before: VolumeState, now_s: int) -> bool:
    """Whether it was idle or detached at the last look as well, and nothing is new: nothing is written."""
    reason = assessment.unknown_reason
    if reason is not before.unknown_reason:
        return False
    is_idle = reason is UnknownReason.IDLE
    is_refilling = before.balance_pct is not None and not _is_refilled(assessment, before, now_s)
    is_quiet = before.next_look_at_s is None and not before.gap_alerted and before.missing_since_s is None
    is_unused = is_idle or (reason is UnknownReason.DETACHED and is_refilling)
    return is_unused and is_quiet and not before.has_moved and before.stall is None


def _is_refilled(assessment: Assessment, state: VolumeState, now_s: int) -> bool:
    """Whether the balance last seen is so old that the bucket of an unused volume has refilled since."""
    if state.balance_pct is None or state.balance_at_s is None:
        return True
    return now_s - state.balance_at_s >= refill_time_s(assessment.baseline_iops, state.balance_pct)


def miss(state: VolumeState, look: Look) -> Change | None:
    """Doubt that a volume is gone; None when it was missing for long enough.

    AWS may leave a volume out of an answer: one that drains would not be looked at before its next sweep, and
    what one that has moved was before its flip is known nowhere else.
    """
    now_s = int(look.now_s)
    since_s = now_s if state.missing_since_s is None else state.missing_since_s
    if now_s - since_s >= (_GONE_AFTER_S if state.has_moved else _UNSEEN_TWICE_S):
        return None
    after = replace(
        state,
        revision=max(state.revision + 1, now_s),
        missing_since_s=since_s,
        next_look_at_s=look.tick_s + _FOCUS_S,
    )
    return Change(volume_id=state.volume_id, expected_revision=state.revision, state=after)


def forget(state: VolumeState, because: str, *, policy: Policy, look: Look) -> Change:
    """Drop the state of a volume that is deleted or ignored, and close its alert where there is one."""
    now_s = int(look.now_s)
    after = replace(state, revision=max(state.revision + 1, now_s), level=Level.OK, level_since_s=now_s)
    alerts: tuple[Alert, ...] = ()
    if state.alerted_level is not None or state.gap_alerted:
        alerts = (
            Alert(
                alert_id=alert_id(state.volume_id, AlertKind.RECOVERED, after.revision),
                kind=AlertKind.RECOVERED,
                level=Level.UNKNOWN,
                previous_level=state.alerted_level or state.level,
                volume_id=state.volume_id,
                time_s=now_s,
                volume={
                    "volume_id": state.volume_id,
                    "region": look.place.region,
                    "account": look.place.account,
                },
                reading={"unknown_because": because},
                runbook=runbook_link(AlertKind.RECOVERED, policy.alerts.runbooks_url),
            ),
        )
    entries = [_entry(after, EntryKind.LEVEL_CHANGED, {"from": str(state.level), "to": because}, now_s)]
    entries += [_entry(after, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=state.volume_id,
        expected_revision=state.revision,
        state=None,
        entries=tuple(entries),
        alerts=alerts,
    )


def _alerted(after: VolumeState, kind: AlertKind, now_s: int) -> VolumeState:
    if kind is AlertKind.TELEMETRY_GAP:
        return replace(after, gap_alerted=True)
    if kind is AlertKind.RECOVERED:
        return _untold(after)
    return replace(after, alerted_level=after.level, alerted_at_s=now_s)


def _untold(after: VolumeState) -> VolumeState:
    """Nothing is open with anybody any more."""
    return replace(after, alerted_level=None, alerted_at_s=None, gap_alerted=False)


def _after(
    before: VolumeState, assessment: Assessment, level: Level, *, revision: int, now_s: int
) -> VolumeState:
    """The state after this look, before alerts and the next look are known."""
    reason = assessment.unknown_reason
    touched = replace(
        before,
        revision=revision,
        arrived_at_s=assessment.arrived_at_s,
        modified_at_s=assessment.modified_at_s,
        smaller_size_gib=assessment.smaller_size_gib,
        unused_since_s=assessment.unused_since_s,
        unknown_reason=reason,
        missing_since_s=None,
    )
    if reason is UnknownReason.DETACHED and _is_refilled(assessment, before, now_s):
        touched = replace(touched, balance_pct=None, balance_at_s=None)
    if reason is not None:
        since_s = before.unknown_since_s if before.unknown_reason is reason else now_s
        is_leaving = before.flip is not None and before.flip.is_under_way
        is_over = not reason.is_fault and reason is not UnknownReason.TOO_NEW and not is_leaving
        return _at_level(
            replace(touched, unknown_since_s=since_s, gap_alerted=touched.gap_alerted and not is_over),
            Level.OK if is_over else before.level,
            now_s,
        )
    assert assessment.sample is not None
    known = replace(
        touched,
        unknown_since_s=None,
        gap_alerted=False,
        balance_pct=assessment.sample.value,
        balance_at_s=assessment.sample.end_s,
    )
    return _at_level(known, level, now_s)


def _at_level(state: VolumeState, level: Level, now_s: int) -> VolumeState:
    return state if state.level is level else replace(state, level=level, level_since_s=now_s)


def _alert_due(
    before: VolumeState, judged: _Judged, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """The kind of alert this look calls for, if any, and the reason in words."""
    unknown, level = judged.assessment.unknown_reason, judged.after.level
    if unknown is not None and unknown.is_fault:
        return _gap_alert_due(judged, unknown, policy=policy, now_s=now_s)
    if level.is_alerting:
        return _level_alert_due(before, level, unknown, policy=policy, now_s=now_s)
    reason = str(judged.level) if unknown is None else str(unknown)
    if unknown is UnknownReason.TOO_NEW:
        return None, reason
    if before.alerted_level is not None or before.gap_alerted:
        return AlertKind.RECOVERED, f"{before.level} before, now {reason}"
    return None, reason


def _level_alert_due(
    before: VolumeState, level: Level, unknown: UnknownReason | None, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """Alert on entering a level, and again as a reminder while it lasts; never while the data is missing."""
    if unknown is not None:
        return None, f"{unknown}; last known level {level}"
    kind = AlertKind.EXHAUSTED if level is Level.EXHAUSTED else AlertKind.DRAINING
    if before.alerted_level is not level or before.gap_alerted:
        return kind, f"{before.level} before, now {level}"
    since_s = now_s - (before.alerted_at_s or 0)
    if since_s >= policy.alerts.remind_every.total_seconds():
        return kind, f"still {level}"
    return None, f"{level}, alerted {format_duration(since_s)} ago"


def _gap_alert_due(
    judged: _Judged, unknown: UnknownReason, *, policy: Policy, now_s: int
) -> tuple[AlertKind | None, str]:
    """A telemetry gap alerts at once, a failed read when for all we know it is dry soon; both once."""
    after = judged.after
    if after.gap_alerted:
        return None, f"{unknown}, alerted"
    lasted_s = now_s - (after.unknown_since_s or now_s)
    patience_s = policy.telemetry.gap_after.total_seconds()
    worst = worst_drain_per_s(judged.assessment.baseline_iops)
    if after.balance_pct is not None and after.balance_at_s is not None and worst:
        dry_at_s = after.balance_at_s + after.balance_pct * CREDITS_PER_PCT / worst
        spare_s = lasted_s + dry_at_s - now_s - policy.cadence.act_lead.total_seconds()
        patience_s = min(patience_s, max(_PASSING_S, spare_s))
    if unknown is UnknownReason.TELEMETRY_GAP or lasted_s >= patience_s:
        return AlertKind.TELEMETRY_GAP, str(unknown)
    return None, str(unknown)


def _make_alert(
    kind: AlertKind,
    before: VolumeState,
    decided: _Judged,
    wishes: Wishes,
    fall: Fall | None,
    *,
    policy: Policy,
    look: Look,
) -> Alert:
    assessment, level = decided.assessment, decided.level
    volume = assessment.volume
    return Alert(
        alert_id=alert_id(volume.volume_id, kind, decided.after.revision),
        kind=kind,
        level=level,
        previous_level=before.alerted_level or before.level,
        volume_id=volume.volume_id,
        time_s=int(look.now_s),
        is_reminder=kind in _ABOUT_A_DRAIN and before.alerted_level is level,
        volume=describe_volume(volume, look.place),
        reading=describe_reading(assessment),
        forecast=describe_forecast(assessment, look.now_s),
        evidence={"because": explain_level(assessment, level, policy)}
        | describe_evidence(assessment, fall)
        | _describe_duration(decided, policy, look.now_s)
        | {
            "mode": str(wishes.mode),
            "tag_faults": list(wishes.faults),
            "proposal": list(decided.proposal.reasons if decided.proposal else ()),
            "act_at": decided.act_rule.to_document() if decided.act_rule else None,
        }
        | describe_host(decided.after.stall, look.now_s),
        action=decided.proposal.action if decided.proposal else None,
        runbook=runbook_link(kind, policy.alerts.runbooks_url),
        console_url=look.place.volume_url(volume.volume_id),
    )


def _describe_duration(decided: _Judged, policy: Policy, now_s: float) -> dict[str, object]:
    """How long a flip is expected to take: of the one under way, or of the one that is proposed."""
    flip, proposal, volume = decided.after.flip, decided.proposal, decided.assessment.volume
    is_changing = flip is not None and flip.is_under_way
    if not is_changing and (proposal is None or proposal.target is None):
        return {}
    return {
        "changing_to": str(flip.asked_for) if flip is not None and is_changing else None,
        "changing_since": format_instant(flip.asked_at_s) if flip is not None and is_changing else None,
        "expected_least_s": round(policy.lead.least.total_seconds()),
        "expected_most_s": round(expected_flip(volume.size_gib, policy.lead).total_seconds()),
        "duration": duration_sentence(
            volume.size_gib,
            policy.lead,
            empty_s=decided.assessment.empty_s,
            ago_s=now_s - flip.asked_at_s if flip is not None and is_changing else 0.0,
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
    if forecast is None or not forecast.draining or forecast.earliest_s is None:
        return False
    return forecast.earliest_s <= _SOON * policy.levels.warning_within.total_seconds()


def _sweep_interval(assessment: Assessment, policy: Policy) -> int | None:
    """Seconds from sweep to sweep; None for a volume that is not polled."""
    if assessment.unknown_reason in (None, UnknownReason.IDLE, UnknownReason.TELEMETRY_GAP):
        return sweep_interval_s(assessment.baseline_iops, policy.cadence)
    return None


def _change(
    state: VolumeState | None,
    after: VolumeState,
    alerts: tuple[Alert, ...],
    events: Sequence[Event],
    level: Level,
    previous: Level,
    now_s: int,
) -> Change | None:
    """What to write; nothing where a calm volume stays calm."""
    is_lost = after.lost is not None and now_s - after.lost.asked_at_s < LOST_FOR_S
    after = replace(after, spent=spent_within(after.spent, now_s), lost=after.lost if is_lost else None)
    keep = after if _is_worth_keeping(after, now_s) else None
    if state is None and keep is None and not alerts:
        return None
    entries: list[LedgerEntry] = []
    if after.level is not previous:
        entries.append(
            _entry(after, EntryKind.LEVEL_CHANGED, {"from": str(previous), "to": str(level)}, now_s)
        )
    entries += [enter(event, after, now_s) for event in events if event.kind is not EntryKind.ALERT]
    entries += [_entry(after, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=after.volume_id,
        expected_revision=state.revision if state else None,
        state=keep,
        entries=tuple(entries),
        alerts=alerts,
    )


def _entry(after: VolumeState, kind: EntryKind, body: dict[str, object], at_s: int) -> LedgerEntry:
    return LedgerEntry(volume_id=after.volume_id, revision=after.revision, kind=kind, at_s=at_s, body=body)


_REMEMBERED: Final = (UnknownReason.IDLE, UnknownReason.INSTANCE_STOPPED, UnknownReason.TELEMETRY_GAP)


def _is_worth_keeping(state: VolumeState, now_s: int) -> bool:
    """Whether forgetting this state would change a later decision."""
    is_refilling = state.unknown_reason is UnknownReason.DETACHED and state.balance_pct is not None
    remembered = state.unknown_reason in _REMEMBERED or is_refilling
    is_watched = state.level is not Level.OK or state.next_look_at_s is not None
    is_told = state.gap_alerted or state.critical_told or state.missed_told_s is not None
    waits = state.retry_at_s is not None and state.retry_at_s > now_s
    is_heard = state.stall is not None and state.stall.is_fresh(now_s)
    has_returned = state.returned_at_s is not None and now_s - state.returned_at_s < _KEPT_AFTER_RETURN_S
    return is_watched or is_told or remembered or state.has_moved or waits or has_returned or is_heard
