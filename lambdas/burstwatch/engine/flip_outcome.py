"""The end of a flip: AWS's answer to ModifyVolume is recorded in the ledger."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

from burstwatch.adapters.aws.ec2_modify import (
    Accepted,
    DryRunAllowed,
    ModifyResult,
    OutcomeUnknown,
    Refused,
    guard_for_error,
)
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind, OutOfTimeError
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.flips.attempts import should_alert_failure
from burstwatch.core.flips.flip_plan import FlipPlan, modifications_used
from burstwatch.core.flips.guards import quota_retry_at_s
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.record_outcome import (
    UnavailableType,
    describe_unavailable_type,
    record_accepted,
    record_rejected,
    record_unknown_outcome,
)
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.flips.transition import Transition
from burstwatch.core.flips.type_availability import remember_acceptance, remember_refusal
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S, Direction
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.engine.flip_intent import MAX_TRIES, RecordedIntent, commit_transition, next_revision
from burstwatch.engine.fresh_context import empty_state
from burstwatch.engine.services import Services

_THROTTLE_RETRY_S: Final = 60
"""A judgement: by the next focus tick, AWS's request rate has usually recovered."""
_REPORT_THROTTLING_FROM: Final = 3
"""AWS throttles many modifications at once: a throttled one is tried again, and reported if that goes on."""

_StateChange = Callable[[ResourceState], Transition]


def record_result(services: Services, intent: RecordedIntent, result: ModifyResult) -> Outcome:
    """Record AWS's answer, and return the outcome of the flip."""
    plan = intent.plan
    match result:
        case Accepted(modification=modification) if modification.started_at is not None:
            _record(services, intent, _accept(services, plan, modification), accepted=modification)
            _forget_type_refusal(services, plan)
            is_outward = plan.order.direction is Direction.FLIP
            return Outcome(status=OutcomeStatus.FLIPPED if is_outward else OutcomeStatus.FLIPPED_BACK)
        case Accepted():
            reason = "AWS accepted it but did not say when it began; that is read next"
            _record(services, intent, lambda state: record_unknown_outcome(state, "NoStartTime", reason))
            return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=reason)
        case Refused(failure=failure, retry_at=retry_at):
            return _record_aws_refusal(services, intent, _read_refusal(services, plan, failure, retry_at))
        case OutcomeUnknown(failure=failure):
            _record(services, intent, lambda state: record_unknown_outcome(state, failure.code, str(failure)))
            return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=str(failure), error_code=failure.code)
        case DryRunAllowed():
            raise AssertionError("only a dry run is allowed and not done")
        case _:
            assert_never(result)


def _accept(services: Services, plan: FlipPlan, modification: Modification) -> _StateChange:
    lead, time_to_empty_s = services.policy.lead, plan.order.time_to_empty_s
    return lambda state: record_accepted(
        state, modification, plan.context.now_s, lead=lead, time_to_empty_s=time_to_empty_s
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AwsRefusal:
    """A refusal of AWS: our ``guard`` for the same reason, if there is one, and when to try again.

    One that ``is_transient`` is not about the volume: AWS was called too often, or took too long.
    """

    failure: AwsFailure
    guard: str | None
    is_transient: bool
    retry_at_s: float | None
    retry_note: str = ""


def _read_refusal(
    services: Services, plan: FlipPlan, failure: AwsFailure, retry_at: datetime | None
) -> _AwsRefusal:
    context, guard = plan.context, guard_for_error(failure.code, failure.message)
    if guard == Guard.TYPE_NOT_AVAILABLE and _is_type_there(services, plan):
        guard = None  # AWS refuses this volume for another reason: that says nothing about its neighbours
    if failure.kind is FailureKind.RETRYABLE or failure.code == OutOfTimeError.__name__:
        retry_at_s = context.now_s + _THROTTLE_RETRY_S
        return _AwsRefusal(failure=failure, guard=guard, is_transient=True, retry_at_s=retry_at_s)
    if retry_at is None and guard == Guard.AWS_QUOTA:
        used = modifications_used(context.state, context.modification, context.now_s)
        return _AwsRefusal(
            failure=failure,
            guard=guard,
            is_transient=False,
            retry_at_s=quota_retry_at_s(used, context.now_s),
            retry_note=" (it names no time that burstwatch understands)",
        )
    named_at_s = retry_at.timestamp() if retry_at else None
    return _AwsRefusal(failure=failure, guard=guard, is_transient=False, retry_at_s=named_at_s)


def _record_aws_refusal(services: Services, intent: RecordedIntent, refusal: _AwsRefusal) -> Outcome:
    failure, guard, plan = refusal.failure, refusal.guard, intent.plan
    lack = None
    if guard == Guard.TYPE_NOT_AVAILABLE:
        lack = describe_unavailable_type(plan, plan.context.now_s)
        _remember_type_refusal(services, plan, failure.message)
    after = _record(services, intent, _reject(plan, refusal, lack))
    retry_at_s = after.modifications.retry_at_s if after else refusal.retry_at_s
    if lack is not None:
        retry_at_s = lack.until_s
    if guard is None:
        return Outcome(
            status=OutcomeStatus.FAILED, reason=str(failure), error_code=failure.code, retry_at_s=retry_at_s
        )
    reason = f"AWS says {failure.message}{refusal.retry_note}"
    guard_refusal = Refusal(guard=Guard(guard), reason=reason, ends_at_s=retry_at_s)
    return Outcome(
        status=OutcomeStatus.REFUSED,
        reason=str(guard_refusal),
        error_code=failure.code,
        refusal=guard_refusal,
        retry_at_s=retry_at_s,
    )


def _reject(plan: FlipPlan, refusal: _AwsRefusal, lack: UnavailableType | None) -> _StateChange:
    """Roll the intent back, and report it unless that was reported before."""
    failure, guard, now_s = refusal.failure, refusal.guard, plan.context.now_s
    message = f"AWS says: {failure.message.rstrip('.')}." if lack else str(failure)
    alert_kind = AlertKind.FLIP_FAILED if guard is None else AlertKind.FLIP_REFUSED

    def reject(state: ResourceState) -> Transition:
        # The newest modification that AWS shows bounds how long its quota can last.
        used = modifications_used(state, plan.context.modification, now_s)
        state = replace(state, modifications=replace(state.modifications, used=used))
        # A throttling that goes on will not end with this minute: the volume's own back-off applies.
        is_lasting = refusal.is_transient and state.modifications.failure_count >= _REPORT_THROTTLING_FROM
        transition = record_rejected(
            state,
            failure.code,
            message,
            now_s,
            retry_at_s=None if is_lasting else refusal.retry_at_s,
            guard=guard,
            unavailable_type=lack,
        )
        rejected, (event,) = transition.state, transition.events
        is_reported = (
            rejected.alerts.refusal == guard
            if guard
            else not should_alert_failure(rejected.modifications.failure_count)
        )
        is_too_soon = refusal.is_transient and rejected.modifications.failure_count < _REPORT_THROTTLING_FROM
        after = replace(rejected, alerts=replace(rejected.alerts, refusal=guard))
        alert = None if is_reported or is_too_soon else alert_kind
        return Transition(state=after, events=(replace(event, alert=alert),))

    return reject


def _is_type_there(services: Services, plan: FlipPlan) -> bool:
    """Whether the account has a volume of the target's type in the same zone; False if that is not known."""
    volume, target = plan.context.volume, plan.target
    if target is None or volume.zone is None or volume.outpost_arn is not None:
        return False
    try:
        return services.ec2.has_volume_in_zone(target.volume_type, volume.zone)
    except AwsError:
        return False


def _forget_type_refusal(services: Services, plan: FlipPlan) -> None:
    """Record that AWS accepts a type that it had refused in the same place."""
    target, context = plan.target, plan.context
    if target is not None and target.volume_type in context.unavailable:
        change = remember_acceptance(context.volume, target.volume_type, context.now_s)
        if change is not None:
            services.ledger.commit([change], channels=())


def _remember_type_refusal(services: Services, plan: FlipPlan, message: str) -> None:
    """Record the refusal, so that AWS is not asked for this type in the same place again."""
    assert plan.target is not None
    change = remember_refusal(plan.context.volume, plan.target.volume_type, message, plan.context.now_s)
    if change is not None:
        services.ledger.commit([change], channels=())


def _record(
    services: Services,
    intent: RecordedIntent,
    change_state: _StateChange,
    *,
    accepted: Modification | None = None,
) -> ResourceState | None:
    """Write the outcome, unless another process has settled the intent already; the state afterwards.

    What AWS has ``accepted`` is also written if another process gave it up: a process may sleep before it
    sends.
    """
    volume_id, expected_flip = intent.plan.order.volume_id, intent.plan.context.state.flip
    assert expected_flip is not None
    for _ in range(MAX_TRIES):
        known_state = services.ledger.states_of({volume_id}).get(volume_id)
        stored = known_state or empty_state(volume_id)
        is_given_up = accepted is not None and _is_untracked(stored, accepted)
        before = replace(stored, flip=expected_flip) if is_given_up else stored
        current = before.flip and (before.flip.intent_id, before.flip.status)
        if current != (intent.intent_id, expected_flip.status):
            return known_state
        changed = change_state(before)
        after = replace(changed.state, revision=next_revision(before, intent.plan.context.now_s))
        if commit_transition(services, intent.plan, before, replace(changed, state=after)):
            return after
    return None


def _is_untracked(state: ResourceState, accepted: Modification) -> bool:
    """Whether the ledger knows nothing of a modification that AWS took, and waits for no other."""
    if state.flip is not None and state.flip.is_under_way:
        return False
    started_at_s = accepted.started_at.timestamp() if accepted.started_at else None
    return started_at_s is not None and all(
        abs(use.at_s - started_at_s) > SAME_START_TOLERANCE_S for use in state.modifications.used
    )
