"""What the ledger records of a plan: a guard refused it, or AWS accepted, rejected or did not answer it."""

from dataclasses import dataclass, replace
from typing import Any

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import US_EAST_1
from burstwatch.core.ebs.sizing import suggest_alternative
from burstwatch.core.flips.attempts import mark_accepted, roll_back_intent, with_backoff
from burstwatch.core.flips.flip_events import (
    accepted_event,
    failure_facts,
    flip_facts,
    format_failure,
    retry_command,
)
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.refusal import TRANSIENT_FOR_RETURN, Refusal, resource_to_explain
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.flips.type_availability import REFUSAL_MEMORY_S, placement_of
from burstwatch.core.ledger.flip_state import Direction, configuration_to_document
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.windows import LeadPolicy
from burstwatch.core.text import format_relative_time, instant_or_none


def record_accepted(
    state: ResourceState,
    modification: Modification,
    now_s: float,
    *,
    lead: LeadPolicy,
    time_to_empty_s: float | None = None,
) -> Transition:
    """AWS accepted the request; ``time_to_empty_s`` is that of the order, in seconds."""
    assert modification.started_at is not None
    new_state = mark_accepted(state, int(modification.started_at.timestamp()), now_s)
    assert new_state.flip is not None
    event = accepted_event(new_state.flip, lead, time_to_empty_s=time_to_empty_s)
    return Transition(state=new_state, events=(event,))


def refused_event(plan: FlipPlan, refusal: Refusal) -> Event:
    """A guard refuses what the watchdog wants."""
    order, target, ends_at_s = plan.order, plan.target, refusal.ends_at_s
    is_passing = order.direction is Direction.FLIP_BACK and refusal.guard in TRANSIENT_FOR_RETURN
    retry_text = (
        "at every poll" if ends_at_s is None else format_relative_time(ends_at_s, plan.context.now_s, "UTC")
    )
    return Event(
        kind=EntryKind.REFUSED,
        summary=f"was not flipped to {target.volume_type if target else 'another type'}: {refusal.guard}",
        details=(
            f"Refused: {refusal.reason}.",
            f"Wanted{f': {target},' if target else ''} because {order.reason}.",
            f"The watchdog tries again {retry_text}, as long as the reason lasts.",
        ),
        alert=None if is_passing else AlertKind.FLIP_REFUSED,
        action=plan.alternative_command
        or f"burstctl explain {resource_to_explain(plan.context.volume, {refusal.guard})}",
        facts=_plan_facts(plan)
        | failure_facts(refusal.reason, ends_at_s)
        | _guard_facts(refusal.guard, ends_at_s, refusal.release),
    )


def _guard_facts(guard: str, ends_at_s: float | None, release: str | None = None) -> dict[str, Any]:
    return {"guard": str(guard), "ends_at": instant_or_none(ends_at_s), "release": release}


def _plan_facts(plan: FlipPlan) -> dict[str, Any]:
    order, current_flip = plan.order, plan.context.state.flip
    original = current_flip.original if current_flip else plan.current
    return {
        "intent_id": None,
        "direction": str(order.direction),
        "from": configuration_to_document(plan.current) if plan.current else None,
        "to": configuration_to_document(plan.target) if plan.target else None,
        "original": configuration_to_document(original) if original else None,
        "usd_per_month_more": plan.usd_per_month_more,
        "by": order.by,
        "cause": str(order.cause),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableType:
    """A type that does not exist where a volume is, according to AWS.

    ``until_s`` is when the next attempt is made, in seconds since 1970. ``command`` flips the volume to a
    type that does exist there; None if no type does.
    """

    message: str
    until_s: float
    command: str | None


def describe_unavailable_type(plan: FlipPlan, now_s: float) -> UnavailableType | None:
    """What to report of a plan whose type does not exist there; None if the place is not known."""
    placement = placement_of(plan.context.volume)
    if placement is None or plan.sizing is None or plan.target is None:
        return None
    kind, until_s = plan.target.volume_type, now_s + REFUSAL_MEMORY_S
    candidates = {
        name: candidate for name, candidate in plan.sizing.alternatives.items() if name not in (kind, "stay")
    }
    next_step, command = suggest_alternative(candidates, plan.context.volume, US_EAST_1)
    next_at = format_relative_time(until_s, now_s, "UTC")
    message = f"The next attempt is {next_at}: {kind} does not exist in {placement}; {next_step}."
    return UnavailableType(message=message, until_s=until_s, command=command)


def record_rejected(
    state: ResourceState,
    code: str,
    message: str,
    now_s: float,
    *,
    retry_at_s: float | None = None,
    guard: str | None = None,
    unavailable_type: "UnavailableType | None" = None,
) -> Transition:
    """AWS rejected the request with this error code and message; the volume is what it was before.

    ``guard`` is the name of our guard for the same reason, None if we have none. ``retry_at_s`` is when to
    try again, in seconds since 1970, if AWS named a time. If the type does not exist there
    (``unavailable_type``), the guard refuses until that is forgotten, and the volume's own ``retry_at_s``
    does not matter.
    """
    flip = state.flip
    assert flip is not None
    new_state = with_backoff(roll_back_intent(state), now_s)
    if retry_at_s is not None:
        # A time that is too far ahead would not count when it is read.
        retry_at_s = min(retry_at_s, new_state.latest_attempt_at_s(now_s))
        history = replace(new_state.modifications, retry_at_s=int(retry_at_s))
        new_state = replace(new_state, modifications=history)
    action = retry_command(flip, state.volume_id) if guard is None else f"burstctl explain {state.volume_id}"
    if unavailable_type is not None:
        action, retry_at_s = unavailable_type.command or action, unavailable_type.until_s
    event = Event(
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.requested_config.volume_type}: {guard or code}",
        details=(
            message,
            *format_failure(
                flip,
                new_state.modifications.retry_at_s,
                now_s,
                unavailable_message=unavailable_type.message if unavailable_type else None,
            ),
        ),
        action=action,
        facts=flip_facts(flip)
        | failure_facts(
            message,
            unavailable_type.until_s if unavailable_type else new_state.modifications.retry_at_s,
            code=code,
        )
        | (_guard_facts(guard, retry_at_s) if guard else {}),
    )
    return Transition(state=new_state, events=(event,))


def record_unknown_outcome(state: ResourceState, code: str, message: str) -> Transition:
    """It is not known whether AWS accepted the request: reading settles that, never sending again."""
    flip = state.flip
    assert flip is not None
    event = Event(
        kind=EntryKind.UNCLEAR,
        summary=f"ModifyVolume ({flip.requested_config}) sent; no response received: {code}",
        details=(message, "The watchdog reads the outcome from AWS."),
        facts=flip_facts(flip) | {"reason": message, "error_code": code},
    )
    return Transition(state=state, events=(event,))
