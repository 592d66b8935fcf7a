"""What a decision writes to the ledger: the state, the entries and the alerts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from burstwatch.core.alerts.alert import (
    Alert,
    console_url,
    describe_evidence,
    describe_forecast,
    describe_reading,
    describe_resource,
    describe_volume,
    make_alert_id,
    runbook_link,
)
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.resource_buckets import why_not_polled
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.reconciliation.reconcile import LATE_INTENT_MEMORY_S
from burstwatch.core.flips.transition import describe_host_stall, to_alert, to_ledger_entry
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.windows import describe_flip_duration, expected_flip_duration
from burstwatch.core.text import format_instant, format_until
from burstwatch.core.watch.decision import VolumeEvaluation
from burstwatch.core.watch.witness import merge_witnesses

_STATE_KEPT_AFTER_RETURN_S: Final = 2 * 3600
"""Longer than any balance is read back: until then, the start of the fresh balances must be known."""

_REMEMBERED_REASONS: Final = (
    UnknownReason.IDLE,
    UnknownReason.INSTANCE_STOPPED,
    UnknownReason.TELEMETRY_GAP,
    UnknownReason.NO_SUCH_BUCKET,
    UnknownReason.DETAILED_MONITORING,
)


def build_alerts(
    evaluation: VolumeEvaluation, state: ResourceState, drain_cause: Mapping[str, Any] | None = None
) -> tuple[Alert, ...]:
    """The alerts of a poll: the one that is due, and those of the events."""
    context = evaluation.context
    event_alerts = (
        to_alert(
            event,
            state,
            evaluation.assessment.volume,  # what happens to other resources is not reported
            policy=evaluation.policy,
            location=context.location,
            now_s=int(context.now_s),
        )
        for event in evaluation.events
    )
    due_alert = None if evaluation.alert.kind is None else _make_due_alert(evaluation, drain_cause)
    return tuple(alert for alert in (due_alert, *event_alerts) if alert is not None)


def _make_due_alert(evaluation: VolumeEvaluation, drain_cause: Mapping[str, Any] | None) -> Alert:
    due, assessment, level = evaluation.alert, evaluation.assessment, evaluation.level
    assert due.kind is not None
    resource, policy, context = assessment.resource, evaluation.policy, evaluation.context
    recommendation, settings = evaluation.recommendation, evaluation.volume_settings
    return Alert(
        alert_id=make_alert_id(assessment.subject, due.kind, evaluation.state.revision),
        kind=due.kind,
        level=level,
        previous_level=evaluation.previous_alerted_level or evaluation.previous_level,
        volume_id=assessment.subject,
        at_s=int(context.now_s),
        is_reminder=due.is_reminder,
        volume=describe_volume(resource, context.location) if isinstance(resource, Volume) else {},
        resource=describe_resource(assessment, context.location),
        reading=describe_reading(assessment),
        forecast=describe_forecast(assessment, context.now_s),
        evidence={"because": explain_level(assessment, level, policy)}
        | describe_evidence(assessment, due.drain)
        | ({} if drain_cause is None else {"drain": drain_cause})
        | (_describe_duration(evaluation) if isinstance(resource, Volume) else {})
        | _describe_witness(evaluation)
        | _describe_hold(evaluation.volume_context.hold, context.now_s)
        | {
            "mode": str(settings.mode),
            "tag_faults": list(settings.faults),
            "proposal": list(recommendation.reasons if recommendation else ()),
            "cautions": list(recommendation.cautions if recommendation else ()),
            "act_at": evaluation.act_rule.to_document() if evaluation.act_rule else None,
        }
        | describe_host_stall(evaluation.state.stall, context.now_s),
        action=recommendation.action if recommendation else None,
        runbook=runbook_link(due.kind, policy.alerts.runbooks_url),
        console_url=console_url(resource, context.location),
    )


def _describe_hold(hold: Hold | None, now_s: float) -> dict[str, Any]:
    """Who holds the volume, or everything, and what to release; empty without a hold."""
    if hold is None:
        return {}
    subject = "All automatic changes" if hold.volume_id is None else "Its automatic changes"
    sentence = f"{subject} are on hold {format_until(hold.until_s, now_s)}, by {hold.by}: {hold.reason}."
    return {"held": sentence, "release": hold.release_argument}


def _describe_witness(evaluation: VolumeEvaluation) -> dict[str, Any]:
    """What else shows which limit applies, and which one would be next."""
    effect = evaluation.recommendation.instance_effect if evaluation.recommendation else None
    effects: dict[str, Any] = {} if effect is None else {"witness": [effect]}
    return merge_witnesses(evaluation.volume_context.witness, effects)


def _describe_duration(evaluation: VolumeEvaluation) -> dict[str, object]:
    """How long the flip under way, or the one that is proposed, is expected to take."""
    flip, recommendation = evaluation.flip, evaluation.recommendation
    volume, lead = evaluation.assessment.volume, evaluation.policy.lead
    is_changing = flip is not None and flip.is_under_way
    if not is_changing and (recommendation is None or recommendation.target is None):
        return {}
    return {
        "changing_to": str(flip.requested_config) if flip is not None and is_changing else None,
        "changing_since": format_instant(flip.requested_at_s) if flip is not None and is_changing else None,
        "expected_least_s": round(lead.least.total_seconds()),
        "expected_most_s": round(expected_flip_duration(volume.size_gib, lead).total_seconds()),
        "duration": describe_flip_duration(
            volume.size_gib,
            lead,
            time_to_empty_s=evaluation.assessment.time_to_empty_s,
            elapsed_s=evaluation.context.now_s - flip.requested_at_s
            if flip is not None and is_changing
            else 0.0,
            states_time_left=False,
        ),
    }


def build_change(
    evaluation: VolumeEvaluation, state: ResourceState, alerts: Sequence[Alert]
) -> Change | None:
    """What to write to the ledger; None if a calm volume stays calm."""
    old_state, now_s = evaluation.old_state, int(evaluation.context.now_s)
    new_state = _without_expired(state, now_s)
    kept_state = new_state if _is_worth_keeping(new_state, evaluation, now_s) else None
    if old_state is None and kept_state is None and not alerts:
        return None
    previous_level, entries = evaluation.previous_level, list[LedgerEntry]()
    if new_state.level is not previous_level:
        levels = {"from": str(previous_level), "to": str(evaluation.level)}
        entries.append(make_entry(new_state, EntryKind.LEVEL_CHANGED, levels, now_s))
    entries += [
        to_ledger_entry(event, new_state, now_s)
        for event in evaluation.events
        if event.kind is not EntryKind.ALERT
    ]
    entries += [make_entry(new_state, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=new_state.volume_id,
        expected_revision=old_state.revision if old_state else None,
        state=kept_state,
        entries=tuple(entries),
        alerts=tuple(alerts),
    )


def _without_expired(state: ResourceState, now_s: int) -> ResourceState:
    """The state without modifications and an intent that are too old to matter, and times that cannot be."""
    intent = state.modifications.unsent_intent
    is_remembered = intent is not None and now_s - intent.requested_at_s < LATE_INTENT_MEMORY_S
    retry_at_s = state.modifications.retry_at_s
    history = replace(
        state.modifications,
        used=state.modifications.within_day(now_s),
        retry_at_s=None if retry_at_s in state.impossible_times(now_s) else retry_at_s,
        unsent_intent=intent if is_remembered else None,
    )
    return replace(state, modifications=history)


def make_entry(new_state: ResourceState, kind: EntryKind, body: Mapping[str, Any], at_s: int) -> LedgerEntry:
    """A line of the volume's history, at the revision of its new state."""
    return LedgerEntry(
        volume_id=new_state.volume_id, revision=new_state.revision, kind=kind, at_s=at_s, body=body
    )


def _is_worth_keeping(state: ResourceState, evaluation: VolumeEvaluation, now_s: int) -> bool:
    """Whether forgetting this state would change a later decision."""
    reading, alerts, history = state.reading, state.alerts, state.modifications
    assessment = evaluation.assessment
    is_polled = (
        isinstance(assessment.resource, Volume)
        or why_not_polled(assessment.resource, assessment.kind) is None
    )
    is_refilling = reading.unknown_reason is UnknownReason.DETACHED and reading.balance_pct is not None
    # RDS does not show when it started a database: only that it was stopped explains why it has no data.
    is_stopped_database = (
        reading.unknown_reason is UnknownReason.INSTANCE_STOPPED and state.lasting_id is not None
    )
    is_remembered = (
        (is_polled and reading.unknown_reason in _REMEMBERED_REASONS) or is_refilling or is_stopped_database
    )
    is_watched = state.level is not Level.OK or state.next_poll_at_s is not None
    # Without it, the alert would be sent once more, for as long as the volume has a window.
    has_window = evaluation.volume_context.windows is not None
    has_missed_window = alerts.missed_window_at_s is not None and has_window
    has_open_alert = alerts.is_gap_open or alerts.is_critical_open or has_missed_window
    is_backing_off = state.next_attempt_at_s(now_s) is not None
    has_fresh_stall = state.stall is not None and state.stall.is_fresh(now_s)
    # The name that a held database had before is known from its state only, and the hold follows it.
    is_held_by_name = evaluation.volume_context.silencing_hold is not None and state.lasting_id is not None
    has_returned = (
        history.returned_at_s is not None and now_s - history.returned_at_s < _STATE_KEPT_AFTER_RETURN_S
    )
    return (
        is_watched
        or has_open_alert
        or is_remembered
        or state.has_flip_history
        or is_backing_off
        or has_returned
        or has_fresh_stall
        or is_held_by_name
    )
