"""What the decisions want is carried out here, or requested from the flip function."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Final

from burstwatch.adapters.aws.flip_request import FlipRequest
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder
from burstwatch.core.flips.guards import backoff_refusal, detached_refusal, hold_refusal
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.flips.refusal import VISIBLE_TO_PASS, Guard, Refusal
from burstwatch.core.ledger.flip_state import active_hold
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.text import format_instant
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import urgency_of
from burstwatch.core.watch.polling.turns import in_turn
from burstwatch.engine.flip_executor import execute_flips
from burstwatch.engine.fresh_context import empty_state
from burstwatch.engine.pass_state import WatchPass, isolate_errors

_READ_LIMIT_S: Final = 60.0
"""What is read again before a flip has time of its own, however long the pass took to look."""

_MAX_WAITING: Final = 20
"""How many volumes that can wait are requested by one pass, in turn: refused before, or not yet critical.

Each request costs the flip function a dozen reads. With two requests at a time and two seconds for each,
these are 20 seconds of a minute: a new request waits no longer, however many volumes a cap refuses.
"""


def dispatch_flips(watch_pass: WatchPass, recorded: AbstractSet[str]) -> None:
    """Carry out or request the flips that are wanted. A volume that another process has changed waits.

    Only decisions without a change, or whose change is among the ``recorded``, are acted on.
    """
    services, outcomes = watch_pass.services, watch_pass.outcomes
    services.calls.limit_reads(_READ_LIMIT_S)
    outcomes.update(_outcomes_of_open_flips(watch_pass.decisions))
    watch_pass.collector.failures += _describe_impossible_times(watch_pass)
    triggered = [
        decision
        for decision in watch_pass.decisions
        if decision.trigger is not None and (decision.change is None or decision.volume_id in recorded)
    ]
    if services.modifier is None and services.flip_queue is None:
        outcomes.update(_propose(watch_pass, triggered))
        return
    # A flip that this pass can see to be refused is not requested: nothing more would be read or recorded.
    states = _current_states(watch_pass)
    orders: list[FlipOrder] = []
    for decision in triggered:
        with isolate_errors(watch_pass, decision.volume_id, "was not flipped"):
            refusal = _known_refusal(watch_pass, decision, states[decision.volume_id])
            if refusal is not None:
                outcomes[decision.volume_id] = _refused_outcome(refusal)
            else:
                orders.append(to_order(decision))
    # A process that may modify does so here; the others send requests to the function that may.
    if orders and services.modifier is not None:
        _execute(watch_pass, orders)
    elif orders:
        _send_requests(watch_pass, _select_by_turn(watch_pass, orders, states))


def _describe_impossible_times(watch_pass: WatchPass) -> Iterator[str]:
    """What the ledger says of modifications that cannot be: it does not count, and is written without it."""
    for decision in watch_pass.decisions:
        state = watch_pass.states.get(decision.volume_id)
        times = state.impossible_times(watch_pass.context.now_s) if state is not None else ()
        if times:
            yield (
                f"{decision.volume_id}: the ledger has times of modifications that are too far ahead and do"
                f" not count: {', '.join(map(format_instant, times))}"
            )


def _execute(watch_pass: WatchPass, orders: Sequence[FlipOrder]) -> None:
    """Carry out these orders; a defect about one volume fails the pass, once the others are done."""
    errors: dict[str, Exception] = {}
    watch_pass.outcomes |= execute_flips(watch_pass.services, orders, watch_pass.collector, errors=errors)
    watch_pass.internal_errors += [
        f"{volume_id}: {watch_pass.outcomes[volume_id].reason}"
        for volume_id, error in errors.items()
        if not isinstance(error, BurstwatchError)
    ]


def _propose(watch_pass: WatchPass, decisions: Sequence[Decision]) -> dict[str, Outcome]:
    """What is wanted and nothing here may do, with the first guard that would refuse it.

    That is by what this pass has read: caps are known to the ledger only, and an instance may not be read.
    """
    now_s, holds, states = watch_pass.context.now_s, watch_pass.holds, _current_states(watch_pass)
    volumes = [decision.assessment.volume for decision in decisions]
    unavailable = watch_pass.services.unavailable_types(volumes, now_s)
    proposed = {}
    for decision in decisions:
        volume_id = decision.volume_id
        refusals: Sequence[Refusal] = ()
        with isolate_errors(watch_pass, volume_id, "was not planned"):
            context = FlipContext(
                volume=decision.assessment.volume,
                volume_settings=decision.volume_settings,
                state=states[volume_id] or empty_state(volume_id),
                now_s=now_s,
                holds=holds,
                modification=watch_pass.collector.modifications_in_progress().get(volume_id),
                instance=watch_pass.instances.get(volume_id),
                unavailable=unavailable[volume_id],
            )
            refusals = make_plan(to_order(decision), context, watch_pass.services.policy).refusals
        proposed[volume_id] = Outcome(
            status=OutcomeStatus.PROPOSED, refusal=refusals[0] if refusals else None
        )
    return proposed


def _outcomes_of_open_flips(decisions: Iterable[Decision]) -> dict[str, Outcome]:
    return {
        decision.volume_id: Outcome(
            status=OutcomeStatus.IN_FLIGHT, reason=f"being modified to {decision.flip.requested_config}"
        )
        for decision in decisions
        if decision.flip is not None and decision.flip.is_under_way
    }


def _refused_outcome(refusal: Refusal) -> Outcome:
    return Outcome(
        status=OutcomeStatus.REFUSED, reason=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
    )


def _current_states(watch_pass: WatchPass) -> Mapping[str, ResourceState | None]:
    """The states that this pass has found, and recorded: a failure that it has just settled counts."""
    return {
        decision.volume_id: decision.change.state
        if decision.change
        else watch_pass.states.get(decision.volume_id)
        for decision in watch_pass.decisions
    }


def _select_by_turn(
    watch_pass: WatchPass, orders: Sequence[FlipOrder], states: Mapping[str, ResourceState | None]
) -> list[FlipOrder]:
    """The orders to request now, the most urgent first: all that are new and critical, and some others.

    Those that were refused before come first among the others, then the early ones.
    """
    guard_by_volume = {order.volume_id: _last_refusing_guard(states[order.volume_id]) for order in orders}
    early = [order for order in orders if order.is_early]
    refused_before = [order for order in orders if not order.is_early and guard_by_volume[order.volume_id]]
    free_slots = max(0, _MAX_WAITING - len(refused_before))
    postponed = _select_postponed(watch_pass, refused_before, _MAX_WAITING)
    for volume_id in postponed:
        guard = guard_by_volume[volume_id]
        assert guard is not None
        reason = f"it was refused before, as {len(refused_before)} volumes were, and waits for its turn"
        watch_pass.outcomes[volume_id] = _refused_outcome(Refusal(guard=guard, reason=reason))
    postponed_early = _select_postponed(watch_pass, early, free_slots)
    early_reason = f"not yet critical, as {len(early)} volumes are, and waits for its turn"
    watch_pass.outcomes |= {
        volume_id: Outcome(status=OutcomeStatus.NONE, reason=early_reason) for volume_id in postponed_early
    }
    chosen = (order for order in orders if order.volume_id not in postponed | postponed_early)
    return sorted(chosen, key=lambda order: (order.urgency, order.volume_id))


def _select_postponed(watch_pass: WatchPass, orders: Sequence[FlipOrder], limit: int) -> set[str]:
    """Of these orders all but ``limit``, which have their turn in this minute."""
    ring = sorted(orders, key=lambda order: sha256(order.volume_id.encode()).digest())
    return {order.volume_id for order in in_turn(ring, watch_pass.context.tick_at_s)[limit:]}


def _last_refusing_guard(state: ResourceState | None) -> Guard | None:
    """The guard that refused the last request, if it may still refuse and this pass cannot see it."""
    reported_refusal = state.alerts.refusal if state is not None else None
    if reported_refusal not in set(Guard) or reported_refusal in VISIBLE_TO_PASS:
        return None
    return Guard(reported_refusal)


def _send_requests(watch_pass: WatchPass, orders: Sequence[FlipOrder]) -> None:
    """Send requests to the process that may modify; those that fail are sent after the next poll."""
    assert watch_pass.services.flip_queue is not None
    requests = [
        FlipRequest(
            volume_id=order.volume_id,
            direction=order.direction,
            cause=order.cause,
            because=order.reason,
            requested_at_s=watch_pass.context.tick_at_s,
        )
        for order in orders
    ]
    result = watch_pass.services.flip_queue.send(requests)
    for volume_id in result.sent:
        watch_pass.outcomes[volume_id] = Outcome(
            status=OutcomeStatus.IN_FLIGHT, reason="requested from the flip function"
        )
    for volume_id, reason in result.failed.items():
        watch_pass.outcomes[volume_id] = Outcome(
            status=OutcomeStatus.FAILED, reason=reason, error_code="unsent"
        )
        watch_pass.collector.failures.append(f"{volume_id}: {reason}")


def _known_refusal(watch_pass: WatchPass, decision: Decision, state: ResourceState | None) -> Refusal | None:
    """The refusal of what a decision wants, if this pass can see it and it need not be reported (again).

    It is not requested then: nothing more would be read or recorded.
    """
    assert decision.trigger is not None
    is_quiet = watch_pass.services.policy.flip.refuses_quietly(is_early=decision.trigger.is_early)
    reported_refusal = state.alerts.refusal if state is not None else None
    hold = active_hold(watch_pass.holds, decision.volume_id, watch_pass.context.now_s)
    if hold is not None and (is_quiet or reported_refusal == Guard.HELD):
        return hold_refusal(hold)
    detached = detached_refusal(decision.assessment.volume)
    if detached is not None and (is_quiet or reported_refusal == Guard.DETACHED):
        return detached
    if state is None:
        return None
    is_backing_off = state.next_attempt_at_s(watch_pass.context.now_s) is not None
    return backoff_refusal(state) if is_backing_off and state.modifications.failure_count else None


def to_order(decision: Decision) -> FlipOrder:
    """The order for what a decision wants."""
    assert decision.trigger is not None
    return FlipOrder(
        volume_id=decision.volume_id,
        direction=decision.trigger.direction,
        cause=decision.trigger.cause,
        reason=decision.trigger.reason,
        demand=demand_of(decision.assessment),
        is_early=decision.trigger.is_early,
        urgency=urgency_of(decision),
        time_to_empty_s=decision.assessment.time_to_empty_s,
    )
