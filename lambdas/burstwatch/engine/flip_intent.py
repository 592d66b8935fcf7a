"""The first half of a flip: check every guard, then record in the ledger what AWS is about to be asked."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from burstwatch.core.flips.cap_refusal import caps_for, fleet_cap_refusal, spend_cap_refusal
from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.flips.guards import hold_refusal, is_backoff_refusal
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.record_intent import extend_stay, record_intent
from burstwatch.core.flips.record_outcome import refused_event
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.flips.transition import Transition, to_alert, to_ledger_entry
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.engine.fresh_context import FreshContext
from burstwatch.engine.services import Services

MAX_TRIES: Final = 5
"""How often a change is retried after a conflict; then other processes are changing the volume."""

_NEXT_POLL_S: Final = 60
"""A volume that was just changed is looked at with the next focus tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedIntent:
    """A plan whose intent is in the ledger: AWS may be called for it, once, and soon.

    ``started_at_s`` is on the monotonic clock, before the intent was recorded.
    """

    plan: FlipPlan
    started_at_s: float

    @property
    def intent_id(self) -> str:
        assert self.plan.context.state.flip is not None
        return self.plan.context.state.flip.intent_id


def check_and_record_intent(fresh: FreshContext, order: FlipOrder) -> RecordedIntent | Outcome:
    """Check the guards and record the intent; the outcome if no intent is to be recorded.

    A guard that only the ledger can check (its caps and holds) counts as overridden only if it does refuse,
    so that the intent states what mattered.
    """
    overridden = set[Guard]()
    for _ in range(MAX_TRIES):
        # Check the guards, with the newest that is known of the volume.
        plan = _with_overridden(fresh.plan(order), overridden)
        if (outcome := _check_guards(fresh.services, plan)) is not None:
            return outcome
        # Record the intent, or that the volume stays where it is.
        result = _record_extension(fresh, plan) if plan.is_extension else _record_intent(fresh, plan)
        if isinstance(result, RecordedIntent | Outcome):
            return result
        if result is None:
            # Another process changed the volume's state: all is checked again with that.
            fresh.refresh_state(order.volume_id)
        elif result.guard in order.overridden:
            overridden.add(result.guard)
        else:
            return _record_refusal(fresh.services, plan, result)
    return Outcome(status=OutcomeStatus.IN_FLIGHT, reason="other processes are changing it")


def commit_transition(services: Services, plan: FlipPlan, before: ResourceState, after: Transition) -> bool:
    """Record the outcome of a plan, with its alerts; False if another process was faster."""
    now_s, state = plan.context.now_s, after.state
    alerts = (
        to_alert(
            event, state, plan.context.volume, policy=services.policy, location=services.location, now_s=now_s
        )
        for event in after.events
    )
    change = Change(
        volume_id=state.volume_id,
        expected_revision=before.revision or None,
        state=state,
        entries=tuple(to_ledger_entry(event, state, now_s) for event in after.events),
        alerts=tuple(alert for alert in alerts if alert is not None),
    )
    return bool(services.ledger.commit([change], channels=services.channel_names))


def next_revision(state: ResourceState, now_s: float) -> int:
    """A revision after the present one; it is the time, so that it grows even if a state was dropped."""
    return max(state.revision + 1, int(now_s))


def _with_overridden(plan: FlipPlan, guards: AbstractSet[Guard]) -> FlipPlan:
    return replace(plan, overridden=(*plan.overridden, *sorted(guards - set(plan.overridden))))


def _check_guards(services: Services, plan: FlipPlan) -> Outcome | None:
    """Why the plan is not carried out, None if no guard refuses it."""
    flip = plan.context.state.flip
    if plan.order.is_automatic and flip is not None and flip.is_under_way:
        return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=f"being modified to {flip.requested_config}")
    return None if plan.refusal is None else _record_refusal(services, plan, plan.refusal)


def _record_refusal(services: Services, plan: FlipPlan, refusal: Refusal) -> Outcome:
    """Report the watchdog's own refusals once, and again when another guard refuses.

    An early flip that costs nothing may be tried again: its refusal is reported once the drain is critical.
    """
    state, order = plan.context.state, plan.order
    is_reported = state.alerts.refusal == refusal.guard or is_backoff_refusal(state, refusal)
    is_quiet = services.policy.flip.refuses_quietly(is_early=order.is_early)
    if order.is_automatic and state.revision and not is_reported and not is_quiet:
        after = replace(
            state,
            revision=next_revision(state, plan.context.now_s),
            alerts=replace(state.alerts, refusal=str(refusal.guard)),
        )
        # If another process was faster, the next pass reports it.
        refused = Transition(state=after, events=(refused_event(plan, refusal),))
        commit_transition(services, plan, state, refused)
    return Outcome(
        status=OutcomeStatus.REFUSED, reason=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
    )


def _record_extension(fresh: FreshContext, plan: FlipPlan) -> Outcome | None:
    """Record how long a volume is kept; None if another process has changed it since."""
    before = plan.context.state
    extended = _poll_soon(extend_stay(plan, next_revision(before, fresh.now_s)), fresh.now_s)
    if not commit_transition(fresh.services, plan, before, extended):
        return None
    return Outcome(status=OutcomeStatus.NONE, reason=extended.events[0].summary)


def _poll_soon(transition: Transition, now_s: float) -> Transition:
    return replace(transition, state=replace(transition.state, next_poll_at_s=int(now_s) + _NEXT_POLL_S))


def _record_intent(fresh: FreshContext, plan: FlipPlan) -> RecordedIntent | Refusal | None:
    """Record the intent; the ledger's refusal, or None if another process has changed the state since."""
    before, started_at_s = plan.context.state, monotonic()
    intended = record_intent(plan, next_revision(before, fresh.now_s), int(fresh.collector.wall_clock_s))
    after = _poll_soon(intended, fresh.now_s)
    change = Change(
        volume_id=plan.order.volume_id,
        expected_revision=before.revision or None,
        state=after.state,
        entries=tuple(to_ledger_entry(event, after.state, fresh.now_s) for event in after.events),
    )
    result = fresh.services.ledger.record_intent(
        change,
        _caps_to_respect(fresh.services, plan),
        now_s=fresh.now_s,
        respects_holds=Guard.HELD not in plan.overridden,
        channels=fresh.services.channel_names,
        own_hold_reason=plan.order.own_hold_reason,
    )
    match result.status:
        case IntentStatus.RECORDED:
            fresh.reserve(plan)
            recorded_plan = replace(plan, context=replace(plan.context, state=after.state))
            return RecordedIntent(plan=recorded_plan, started_at_s=started_at_s)
        case IntentStatus.CONFLICT:
            return None
        case _:
            return _refusal_from_ledger(result, plan, fresh.services)


def _caps_to_respect(services: Services, plan: FlipPlan) -> Caps:
    caps = caps_for(plan.order, services.policy.flip)
    return Caps(
        volumes=None if Guard.FLEET_CAP in plan.overridden else caps.volumes,
        usd_per_month=None if Guard.SPEND_CAP in plan.overridden else caps.usd_per_month,
    )


def _refusal_from_ledger(result: IntentResult, plan: FlipPlan, services: Services) -> Refusal:
    if result.status is IntentStatus.HELD:
        assert result.hold is not None
        return hold_refusal(result.hold)
    policy = services.policy.flip
    if result.status is IntentStatus.FLEET_CAP:
        return fleet_cap_refusal(plan.order, result.volumes, policy)
    return spend_cap_refusal(plan.order, plan.usd_per_month_more, result.usd_per_month, policy)
