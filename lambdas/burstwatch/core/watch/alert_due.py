"""Which alert a poll calls for: at most one about the level or the data, and one about a stalled host."""

from dataclasses import replace
from typing import Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.drain_cause import find_drain
from burstwatch.core.assessment.host_stall import STALL_EVIDENCE_S, Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.text import format_duration
from burstwatch.core.watch.decision import DueAlert

_TRANSIENT_READ_FAILURE_S: Final = 120
"""A judgement: a read that fails for less than this was only throttled."""

_DRAIN_ALERTS: Final = frozenset({AlertKind.DRAINING, AlertKind.EXHAUSTED})


def find_due_alert(
    old_state: ResourceState,
    state: ResourceState,
    assessment: Assessment,
    level: Level,
    *,
    mode: Mode,
    policy: Policy,
    now_s: int,
    silencing_hold: Hold | None = None,
) -> DueAlert:
    """The alert that this poll calls for, and the state after people have been notified.

    ``state`` is the one after this poll; ``level`` is by the reading alone, so it may be ``unknown``. While
    there is a ``silencing_hold``, or in mode observe, no alert is sent; afterwards, one that is still called
    for is.
    """
    kind, reason = _alert_due(old_state, state, assessment, level, policy=policy, now_s=now_s)
    if kind is None:
        return DueAlert(kind=None, reason=reason, state=state)
    if mode is Mode.OBSERVE or silencing_hold is not None:
        # no one is notified, but alerts that were open before are closed
        quiet_state = _clear_alert_flags(state) if kind is AlertKind.RECOVERED else state
        cause = "mode observe" if silencing_hold is None else f"the hold by {silencing_hold.by}"
        return DueAlert(kind=None, reason=f"{reason}; {cause} sends no alert", state=quiet_state)
    is_about_drain = kind in _DRAIN_ALERTS
    return DueAlert(
        kind=kind,
        reason=reason,
        state=_mark_alerted(state, kind, now_s),
        drain=find_drain(assessment.balance, period_s=assessment.balance.period_s)
        if is_about_drain
        else None,
        is_reminder=is_about_drain and old_state.alerts.open_level is level,
    )


def _alert_due(
    old_state: ResourceState,
    state: ResourceState,
    assessment: Assessment,
    read_level: Level,
    *,
    policy: Policy,
    now_s: int,
) -> tuple[AlertKind | None, str]:
    """The kind of alert that this poll calls for, if any, and the reason in words."""
    unknown_reason, level = assessment.unknown_reason, state.level
    if unknown_reason is not None and unknown_reason.is_fault:
        return _gap_alert_due(state, assessment, unknown_reason, policy=policy, now_s=now_s)
    if level.is_alerting:
        return _level_alert_due(old_state, level, unknown_reason, policy=policy, now_s=now_s)
    reason = str(read_level) if unknown_reason is None else unknown_reason.description
    if unknown_reason is UnknownReason.TOO_NEW:
        return None, reason
    if old_state.alerts.is_open:
        return AlertKind.RECOVERED, f"{old_state.level} before, now {reason}"
    return None, reason


def _level_alert_due(
    old_state: ResourceState,
    level: Level,
    unknown_reason: UnknownReason | None,
    *,
    policy: Policy,
    now_s: int,
) -> tuple[AlertKind | None, str]:
    """Alert on entering a level, and again as a reminder while it lasts; never while the data is missing."""
    if unknown_reason is not None:
        return None, f"{unknown_reason.description}; last known level {level}"
    kind = AlertKind.EXHAUSTED if level is Level.EXHAUSTED else AlertKind.DRAINING
    if old_state.alerts.open_level is not level or old_state.alerts.is_gap_open:
        return kind, f"{old_state.level} before, now {level}"
    elapsed_s = now_s - (old_state.alerts.level_at_s or 0)
    if elapsed_s >= policy.alerts.remind_every.total_seconds():
        return kind, f"still {level}"
    return None, f"{level}, alerted {format_duration(elapsed_s)} ago"


def _gap_alert_due(
    state: ResourceState,
    assessment: Assessment,
    unknown_reason: UnknownReason,
    *,
    policy: Policy,
    now_s: int,
) -> tuple[AlertKind | None, str]:
    """Alert once: about a gap at once, about a failed read when the bucket may be empty soon."""
    if state.alerts.is_gap_open:
        return None, f"{unknown_reason.description}, alerted"
    lasted_s = now_s - (state.reading.unknown_since_s or now_s)
    alert_after_s = policy.telemetry.gap_after.total_seconds()
    bucket, balance_pct, balance_at_s = (
        assessment.bucket,
        state.reading.balance_pct,
        state.reading.balance_at_s,
    )
    if balance_pct is not None and balance_at_s is not None and bucket.highest_drain_per_s:
        empty_at_s = balance_at_s + bucket.credits_in(balance_pct) / bucket.highest_drain_per_s
        time_left_s = lasted_s + empty_at_s - now_s - policy.cadence.act_lead.total_seconds()
        alert_after_s = min(alert_after_s, max(_TRANSIENT_READ_FAILURE_S, time_left_s))
    if unknown_reason is UnknownReason.TELEMETRY_GAP or lasted_s >= alert_after_s:
        return AlertKind.TELEMETRY_GAP, unknown_reason.description
    return None, unknown_reason.description


def _mark_alerted(state: ResourceState, kind: AlertKind, now_s: int) -> ResourceState:
    if kind is AlertKind.TELEMETRY_GAP:
        return replace(state, alerts=replace(state.alerts, is_gap_open=True))
    if kind is AlertKind.RECOVERED:
        return _clear_alert_flags(state)
    return replace(state, alerts=replace(state.alerts, open_level=state.level, level_at_s=now_s))


def _clear_alert_flags(state: ResourceState) -> ResourceState:
    """The state without an open alert about its level or its data."""
    closed = replace(state.alerts, open_level=None, level_at_s=None, is_gap_open=False)
    return replace(state, alerts=closed)


def record_host_stall(
    state: ResourceState, stall: Stall, mode: Mode, *, is_alerted: bool, now_s: int
) -> Transition:
    """Record what a host reports; alert only if no other alert about the volume is open."""
    alerted_at_s = state.alerts.stall_at_s
    is_due = alerted_at_s is None or now_s - alerted_at_s >= STALL_EVIDENCE_S
    should_alert = is_due and not is_alerted and state.alerts.open_level is None and mode is not Mode.OBSERVE
    duration = f" for {stall.total_s:,.1f} s" if stall.total_s is not None else ""
    event = Event(
        kind=EntryKind.STALL,
        summary=f"stalled{duration}, according to its host",
        details=("CloudWatch shows no reason yet; the host sees it minutes earlier.",)
        if should_alert
        else (),
        alert=AlertKind.HOST_STALL if should_alert else None,
        action=f"burstctl explain {stall.volume_id}",
        facts=stall.to_facts(now_s),
    )
    new_state = replace(state, alerts=replace(state.alerts, stall_at_s=now_s)) if should_alert else state
    return Transition(state=new_state, events=(event,))
