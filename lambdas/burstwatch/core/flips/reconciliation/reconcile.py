"""Reconcile a flip: what AWS shows of a volume is compared with what was requested."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.flips.attempts import mark_accepted, roll_back_intent, should_alert_failure, with_backoff
from burstwatch.core.flips.flip_events import (
    accepted_event,
    failure_facts,
    flip_facts,
    format_failure,
    previous_config,
    retry_command,
)
from burstwatch.core.flips.reconciliation.contested import mark_contested
from burstwatch.core.flips.reconciliation.observed_state import ObservedState, is_on_target
from burstwatch.core.flips.reconciliation.reconcile_context import ReconcileContext
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S, Direction, Flip, FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import expected_flip_duration, format_expected_duration
from burstwatch.core.text import format_duration, format_instant, format_time

REQUEST_IN_FLIGHT_S: Final = 60
"""A request is sent at most half a minute after its intent, and is over within another half."""

ASSUME_NOT_SENT_AFTER_S: Final = 120
"""After this time, and two reads, an intent that AWS does not know counts as never sent."""

LATE_INTENT_MEMORY_S: Final = 24 * 3600
"""How long an intent that counts as never sent is remembered: a process may sleep before it sends."""

_READS_AGREE_WITHIN_S: Final = 300
"""A judgement: DescribeVolumes and DescribeVolumesModifications agree within this time after the end."""

_RECORD_FORGOTTEN_AFTER_S: Final = 600
"""After this time, a modification without a record is judged by the configuration of the volume."""

_ASSUME_CONTESTED_AFTER_S: Final = 24 * 3600
"""After a day without a record, a volume that is not what was requested was changed by somebody else."""

_MIN_STUCK_S: Final = 3600
"""A judgement: no modification counts as stuck in its first hour, however small the volume is."""


def reconcile(state: ResourceState, observed: ObservedState, *, policy: Policy, now_s: float) -> Transition:
    """Update the flip of a volume by what AWS shows of it; without news, nothing changes.

    ``now_s`` is in seconds since 1970. The result has the new state, and the events to record and report.
    """
    flip, unsent_intent = state.flip, state.modifications.unsent_intent
    if unsent_intent is not None and (flip is None or not flip.is_under_way):
        context = ReconcileContext(
            state=state, flip=unsent_intent, observed=observed, policy=policy, now_s=now_s
        )
        if context.was_sent_late:
            return _recover_late_intent(context)
    if flip is None:
        return Transition(state=state)
    context = ReconcileContext(state=state, flip=flip, observed=observed, policy=policy, now_s=now_s)
    return _HANDLERS[flip.status](context)


def _settle_intent(context: ReconcileContext) -> Transition:
    """An intent without an outcome: find out whether AWS accepted it."""
    flip, new_modification, record = context.flip, context.new_modification, context.observed.record
    if new_modification is not None and new_modification.target.configuration() == flip.requested_config:
        return _confirm_lost_response(context, context.observed.started_at_s or flip.requested_at_s)
    if new_modification is not None and new_modification.original.configuration() == flip.requested_config:
        return _settle_superseded_intent(context)
    waited_s = context.now_s - flip.requested_at_s
    if waited_s < REQUEST_IN_FLIGHT_S:
        return Transition(state=context.state)
    if not context.is_unconfirmed_again or waited_s < ASSUME_NOT_SENT_AFTER_S:
        return _note_unconfirmed_read(context)
    if context.is_as_requested and not (record and record.is_in_progress):
        return _confirm_lost_response(context, flip.requested_at_s)
    failed_state = with_backoff(roll_back_intent(context.state), context.now_s)
    state = replace(failed_state, modifications=replace(failed_state.modifications, unsent_intent=flip))
    event = _failure_event(
        context,
        state,
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.requested_config.volume_type}: the request did not reach AWS",
        reason=f"Two reads, the last after {format_duration(waited_s)}, show no such modification.",
    )
    return Transition(state=state, events=(event,))


def _note_unconfirmed_read(context: ReconcileContext) -> Transition:
    """The read did not show what should be there: a single such read may be stale."""
    since_s = context.flip.unconfirmed_since_s
    unconfirmed_flip = replace(
        context.flip, unconfirmed_since_s=int(context.now_s) if since_s is None else since_s
    )
    return Transition(state=replace(context.state, flip=unconfirmed_flip))


def _recover_late_intent(context: ReconcileContext) -> Transition:
    """An intent that counted as never sent was sent after all."""
    history = replace(context.state.modifications, unsent_intent=None)
    state = replace(context.state, flip=context.flip, modifications=history)
    note = "Previously treated as not sent; AWS now shows it was."
    return _confirm_lost_response(
        replace(context, state=state), context.observed.started_at_s or context.flip.requested_at_s, note=note
    )


def _confirm_lost_response(
    context: ReconcileContext,
    started_at_s: int,
    *,
    note: str = "AWS's response was lost; this is what AWS shows now.",
) -> Transition:
    """AWS's answer was lost, and the modification was made."""
    state = mark_accepted(context.state, started_at_s, context.now_s)
    assert state.flip is not None
    accepted = Transition(state=state, events=(accepted_event(state.flip, context.policy.lead, note=note),))
    return accepted.then(reconcile(state, context.observed, policy=context.policy, now_s=context.now_s))


def _settle_superseded_intent(context: ReconcileContext) -> Transition:
    """AWS accepted it unseen by us, and somebody has changed the volume since: too late for an alert."""
    state = mark_accepted(context.state, context.flip.requested_at_s, context.now_s)
    assert state.flip is not None
    note = "AWS's response was lost, and the volume has been changed again since."
    event = replace(accepted_event(state.flip, context.policy.lead, note=note), alert=None)
    accepted = Transition(state=state, events=(event,))
    return accepted.then(_check_external_modification(replace(context, state=state, flip=state.flip)))


def _check_progress(context: ReconcileContext) -> Transition:
    """A modification that AWS took: is it over, and did it do what it should?"""
    flip, started_at_s, record = context.flip, context.observed.started_at_s, context.observed.record
    assert flip.started_at_s is not None
    elapsed_s = context.now_s - flip.started_at_s
    if record is None or started_at_s is None or started_at_s < flip.started_at_s - SAME_START_TOLERANCE_S:
        return _check_without_record(context, elapsed_s)
    if started_at_s > flip.started_at_s + SAME_START_TOLERANCE_S:
        return _check_external_modification(context)
    if record.is_in_progress:
        return _check_stuck(context, record)
    if record.has_failed:
        return _record_failure(context, f"AWS says: {record.status_message or 'no reason given'}.")
    ended_at_s = record.ended_at.timestamp() if record.ended_at else flip.started_at_s
    return _verify_finished(context, record, ended_at_s)


def _check_without_record(context: ReconcileContext, elapsed_s: float) -> Transition:
    """AWS has no record of it, or none yet: after a while, the configuration of the volume decides."""
    if context.is_as_requested:
        return (
            _complete(context) if elapsed_s > _RECORD_FORGOTTEN_AFTER_S else Transition(state=context.state)
        )
    return (
        mark_contested(context) if elapsed_s > _ASSUME_CONTESTED_AFTER_S else Transition(state=context.state)
    )


def _check_external_modification(context: ReconcileContext) -> Transition:
    """Somebody else modified it since: its result counts when it is over."""
    record = context.observed.record
    assert record is not None
    if record.is_in_progress:
        return Transition(state=context.state)
    if not record.has_failed:
        return mark_contested(context)
    if context.is_as_requested:
        return _complete(context)
    original_config = record.original.configuration()
    if context.observed.configuration != original_config:
        return Transition(state=context.state)  # the read is stale
    if original_config != previous_config(context.flip):
        return mark_contested(context)
    return _record_failure(
        context, "A later modification, which also failed, started from its previous configuration."
    )


def _verify_finished(context: ReconcileContext, record: Modification, ended_at_s: float) -> Transition:
    """AWS reports that it is done; it counts when the volume shows it, as one that does not may be stale."""
    if context.is_as_requested:
        return _complete(context)
    is_our_request = record.target.configuration() == context.flip.requested_config
    is_early = context.now_s - ended_at_s < _READS_AGREE_WITHIN_S
    return Transition(state=context.state) if is_our_request or is_early else mark_contested(context)


def _check_stuck(context: ReconcileContext, record: Modification) -> Transition:
    flip, lead = context.flip, context.policy.lead
    assert flip.started_at_s is not None
    elapsed_s = context.now_s - flip.started_at_s
    expected_s = expected_flip_duration(flip.size_gib, lead).total_seconds()
    if flip.is_stuck_alerted or elapsed_s < max(_MIN_STUCK_S, 2 * expected_s):
        return Transition(state=context.state)
    since = format_time(flip.started_at_s, context.now_s)
    progress = "" if record.progress_pct is None else f" at {record.progress_pct} %"
    event = Event(
        kind=EntryKind.STUCK,
        summary=f"is still {record.state}{progress} after {format_duration(elapsed_s)}",
        details=(
            (
                f"AWS was expected to take {format_expected_duration(flip.size_gib, lead)}; it promises no"
                " duration."
            ),
            f"It is being changed from {previous_config(flip)} to {flip.requested_config} since {since} UTC.",
            "That cannot be cancelled; while AWS optimizes, its performance is between the two.",
        ),
        alert=AlertKind.FLIP_STUCK,
        action=f"aws ec2 describe-volumes-modifications --volume-ids {context.state.volume_id}",
        facts=flip_facts(flip)
        | {
            "state": record.state,
            "progress_pct": record.progress_pct,
            "started_at": format_instant(flip.started_at_s),
            "expected_s": round(expected_s),
        },
    )
    return Transition(
        state=replace(context.state, flip=replace(flip, is_stuck_alerted=True)), events=(event,)
    )


def _record_failure(context: ReconcileContext, reason: str) -> Transition:
    flip = context.flip
    state = with_backoff(roll_back_intent(context.state), context.now_s)
    event = _failure_event(
        context,
        state,
        kind=EntryKind.FAILED,
        summary=f"was not changed to {flip.requested_config.volume_type}: AWS's modification failed",
        reason=reason,
    )
    return Transition(state=state, events=(event,))


def _failure_event(
    context: ReconcileContext, new_state: ResourceState, *, kind: EntryKind, summary: str, reason: str
) -> Event:
    flip = context.flip
    return Event(
        kind=kind,
        summary=summary,
        details=(reason, *format_failure(flip, new_state.modifications.retry_at_s, context.now_s)),
        alert=AlertKind.FLIP_FAILED if should_alert_failure(new_state.modifications.failure_count) else None,
        action=retry_command(flip, new_state.volume_id),
        facts=flip_facts(flip) | failure_facts(reason, new_state.modifications.retry_at_s),
    )


def _complete(context: ReconcileContext) -> Transition:
    flip = context.flip
    history = replace(context.state.modifications, failure_count=0, retry_at_s=None)
    if flip.direction is Direction.FLIP_BACK:
        event = Event(
            kind=EntryKind.RESTORED,
            summary=f"is {flip.original} again, as before",
            facts=flip_facts(flip),
        )
        returned_state = replace(
            context.state,
            flip=None,
            modifications=replace(history, returned_at_s=flip.started_at_s or flip.requested_at_s),
            presence=replace(context.state.presence, arrived_at_s=int(context.now_s)),
        )
        return Transition(state=returned_state, events=(event,))
    reached_event = Event(
        kind=EntryKind.REACHED,
        summary=f"is {flip.target} now",
        facts=flip_facts(flip),
    )
    stayed_event = Event(
        kind=EntryKind.STAYED, summary=f"stays {flip.target}", details=(flip.reason,) if flip.reason else ()
    )
    on_target_flip = replace(
        flip, status=FlipStatus.ON_TARGET, reached_at_s=int(context.now_s), previous=None
    )
    return Transition(
        state=replace(context.state, flip=on_target_flip, modifications=history),
        events=(reached_event, stayed_event) if on_target_flip.is_permanent else (reached_event,),
    )


def _check_on_target(context: ReconcileContext) -> Transition:
    """A volume on its target: check that it still is what it was flipped to."""
    flip, observed = context.flip, context.observed
    if is_on_target(observed.volume, flip):
        new_state = (
            context.state
            if flip.unconfirmed_since_s is None
            else _clear_unconfirmed_read(context.state, flip)
        )
        return Transition(state=new_state)
    record = observed.record
    if record is not None and (
        record.is_in_progress or (not context.is_external and _is_record_of_target(record, flip))
    ):
        return Transition(state=context.state)
    is_external = context.is_external and record is not None and not record.has_failed
    return (
        mark_contested(context)
        if is_external or context.is_unconfirmed_again
        else _note_unconfirmed_read(context)
    )


def _is_record_of_target(record: Modification, flip: Flip) -> bool:
    """Whether AWS's newest record made the volume what it was flipped to: then what it shows is old."""
    is_target = record.target.configuration() == flip.target and record.target.size_gib == flip.size_gib
    return is_target and not record.has_failed


def _clear_unconfirmed_read(state: ResourceState, flip: Flip) -> ResourceState:
    return replace(state, flip=replace(flip, unconfirmed_since_s=None))


_HANDLERS: Final[dict[FlipStatus, Callable[[ReconcileContext], Transition]]] = {
    FlipStatus.REQUESTED: _settle_intent,
    FlipStatus.IN_PROGRESS: _check_progress,
    FlipStatus.ON_TARGET: _check_on_target,
}
