"""What the ledger records before AWS is asked: the intent to modify, or a longer stay on the target."""

from dataclasses import replace

from burstwatch.core.ebs.pricing import US_EAST_1, usd_per_month
from burstwatch.core.flips.flip_events import flip_facts
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.ledger.flip_state import (
    Direction,
    Flip,
    FlipStatus,
    configuration_to_document,
    make_intent_id,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.text import format_instant


def record_intent(plan: FlipPlan, revision: int, requested_at_s: int) -> Transition:
    """Add the intent to the state: the ledger has it before AWS is called.

    ``requested_at_s`` is the time of this call, in seconds since 1970, and not that of the pass: how long a
    request may still be under way counts from it.
    """
    order, context = plan.order, plan.context
    assert plan.target is not None
    assert plan.current is not None
    intent_id = make_intent_id(order.volume_id, revision)
    request_flip = _request_return if order.direction is Direction.FLIP_BACK else _request_flip
    flip = request_flip(plan, intent_id, requested_at_s)
    event = Event(
        kind=EntryKind.INTENT,
        summary=f"will be modified to {plan.target}, requested by {order.by}",
        details=tuple(filter(None, (order.reason, _format_overrides(plan)))),
        facts={
            "intent_id": flip.intent_id,
            "direction": order.direction,
            "from": configuration_to_document(plan.current),
            "to": configuration_to_document(plan.target),
            "by": order.by,
            "overridden": [str(guard) for guard in plan.overridden],
            "why": order.override_reason,
        },
    )
    history = context.state.modifications
    if not order.is_automatic:  # a person who modifies it has dealt with what others changed
        history = replace(history, contested_at_s=None)
    intended_state = replace(context.state, revision=revision, flip=flip, modifications=history)
    return Transition(state=intended_state, events=(event,))


def _request_flip(plan: FlipPlan, intent_id: str, requested_at_s: int) -> Flip:
    """The flip of a plan that leaves the original configuration, or changes the target once more."""
    order, context, current_flip = plan.order, plan.context, plan.context.state.flip
    assert plan.target is not None
    assert plan.current is not None
    original = current_flip.original if current_flip else plan.current
    original_usd = usd_per_month(original, context.volume.size_gib, US_EAST_1)
    return Flip(
        status=FlipStatus.REQUESTED,
        direction=order.direction,
        intent_id=intent_id,
        cause=order.cause,
        by=order.by,
        original=original,
        target=plan.target,
        size_gib=context.volume.size_gib,
        reason=_reason_with_return(plan),
        is_permanent=plan.return_decision is not None and plan.return_decision.is_permanent,
        return_after_s=order.return_after_s,
        usd_per_month=round(plan.usd_per_month - original_usd, 6),
        requested_at_s=requested_at_s,
        previous=current_flip,
    )


def _request_return(plan: FlipPlan, intent_id: str, requested_at_s: int) -> Flip:
    """The current flip, on its way back."""
    order, current_flip = plan.order, plan.context.state.flip
    assert current_flip is not None
    return replace(
        current_flip,
        status=FlipStatus.REQUESTED,
        direction=order.direction,
        intent_id=intent_id,
        by=order.by,
        requested_at_s=requested_at_s,
        started_at_s=None,
        unconfirmed_since_s=None,
        is_stuck_alerted=False,
        reason=order.reason,
        previous=current_flip,
    )


def _reason_with_return(plan: FlipPlan) -> str:
    suffix = f"; it {plan.return_decision.reason}" if plan.return_decision else ""
    return f"{plan.order.reason}{suffix}"


def _format_overrides(plan: FlipPlan) -> str | None:
    if not plan.overridden:
        return None
    guards = ", ".join(plan.overridden)
    return f"{plan.order.by} overrode {guards}: {plan.order.override_reason or 'no reason given'}"


def extend_stay(plan: FlipPlan, revision: int) -> Transition:
    """Keep a volume on its target for another person, or until another time."""
    flip, order, until_s = plan.context.state.flip, plan.order, plan.order.return_after_s
    assert flip is not None
    extended_flip = replace(
        flip,
        cause=order.cause,
        by=order.by,
        reason=_reason_with_return(plan),
        is_permanent=plan.return_decision is not None and plan.return_decision.is_permanent,
        return_after_s=until_s,
        overdue_alerted_at_s=None,
    )
    history = replace(plan.context.state.modifications, contested_at_s=None)
    state = replace(plan.context.state, revision=revision, flip=extended_flip, modifications=history)
    period = "until it is flipped back" if until_s is None else f"until {format_instant(until_s)}"
    event = Event(
        kind=EntryKind.STAY_EXTENDED,
        summary=f"stays {flip.target} {period}, requested by {order.by}",
        details=tuple(filter(None, (order.reason,))),
        facts=flip_facts(extended_flip),
    )
    return Transition(state=state, events=(event,))
