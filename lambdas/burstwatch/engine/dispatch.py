"""What the decisions want is carried out here, or asked of the function that may."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Final

from burstwatch.adapters.aws.flip_queue import FlipRequest
from burstwatch.core.flips.guards import Guard, Refusal, refuse_detached, refuse_hold, refuse_pause
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import Order
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.ledger.flip_state import hold_on
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.policy.policy import ActAt
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import urgency_of
from burstwatch.engine.evaluate import Pass
from burstwatch.engine.flip_executor import carry_out

_MOST_WAITING: Final = 20
"""How many volumes that can wait are requested by one pass, in turn: refused before, or not yet critical.

Each request costs the flip function a dozen reads. With two requests at a time and two seconds for each,
these are 20 seconds of a minute: a new request waits no longer, however many volumes a cap refuses.
"""


_GOLDEN_RATIO: Final = 0.618033988749895


def act(this: Pass, recorded: AbstractSet[str]) -> None:
    """Have done what the decisions want, where somebody may; what another process changed waits."""
    for decision in this.decisions:
        if decision.flip is not None and decision.flip.is_under_way:
            because = f"on its way to {decision.flip.asked_for}"
            this.outcomes[decision.volume_id] = Outcome(done=Done.IN_FLIGHT, because=because)
    wanted = [
        decision
        for decision in this.decisions
        if decision.want is not None and (decision.change is None or decision.volume_id in recorded)
    ]
    if this.shell.modifier is None and this.shell.requests is None:
        this.outcomes |= {decision.volume_id: Outcome(done=Done.PROPOSED) for decision in wanted}
        return
    states, orders = _states_now(this), list[Order]()
    for decision in wanted:
        refusal = _known_refusal(this, decision, states[decision.volume_id])
        if refusal is None:
            orders.append(order_of(decision))
        else:
            this.outcomes[decision.volume_id] = Outcome(
                done=Done.REFUSED, because=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
            )
    if orders and this.shell.modifier is not None:
        this.outcomes |= carry_out(this.shell, orders, this.gathering)
    elif orders:
        _request(this, _in_turn(this, orders, states))


def _states_now(this: Pass) -> Mapping[str, VolumeState | None]:
    """The states that this pass has found, and recorded: a failure that it has just settled counts."""
    return {
        decision.volume_id: decision.change.state if decision.change else this.states.get(decision.volume_id)
        for decision in this.decisions
    }


def _in_turn(this: Pass, orders: Sequence[Order], states: Mapping[str, VolumeState | None]) -> list[Order]:
    """The orders to request now, the most urgent first: all that are new and critical, and some others.

    Those that were refused before come first among the others, then the early ones.
    """
    refused_by = {order.volume_id: _refused_by(states[order.volume_id]) for order in orders}
    early = [order for order in orders if order.early]
    repeats = [order for order in orders if not order.early and refused_by[order.volume_id]]
    room = max(0, _MOST_WAITING - len(repeats))
    later = _later(this, repeats, _MOST_WAITING)
    for volume_id in later:
        guard = refused_by[volume_id]
        assert guard is not None
        reason = f"it was refused before, as {len(repeats)} volumes were, and waits for its turn"
        refusal = Refusal(guard=guard, reason=reason)
        this.outcomes[volume_id] = Outcome(done=Done.REFUSED, because=str(refusal), refusal=refusal)
    early_later = _later(this, early, room)
    because = f"not yet critical, as {len(early)} volumes are, and waits for its turn"
    this.outcomes |= {volume_id: Outcome(done=Done.NONE, because=because) for volume_id in early_later}
    chosen = (order for order in orders if order.volume_id not in later | early_later)
    return sorted(chosen, key=lambda order: (order.urgency, order.volume_id))


def _later(this: Pass, orders: Sequence[Order], most: int) -> set[str]:
    """Of these orders all but ``most``, which have their turn in this minute; nothing is stored.

    Steps of the golden ratio around a ring reach all of them soon, also where passes are minutes apart.
    """
    ring = sorted(orders, key=lambda order: sha256(order.volume_id.encode()).digest())
    first = int(this.look.tick_s // 60 * _GOLDEN_RATIO % 1 * len(ring))
    return {order.volume_id for order in (ring[first:] + ring[:first])[most:]}


def _refused_by(state: VolumeState | None) -> Guard | None:
    """The guard that refused the last request, if it may still; a hold or detachment is seen to be over."""
    reported = state.refusal_told if state is not None else None
    if reported not in set(Guard) or reported in (Guard.HELD, Guard.DETACHED):
        return None
    return Guard(reported)


def _request(this: Pass, orders: Sequence[Order]) -> None:
    """Ask whoever may modify; what could not be asked is asked again at the next look."""
    assert this.shell.requests is not None
    requests = [
        FlipRequest(
            volume_id=order.volume_id,
            direction=order.direction,
            cause=order.cause,
            because=order.because,
            time_s=this.look.tick_s,
        )
        for order in orders
    ]
    sending = this.shell.requests.send(requests)
    for volume_id in sending.sent:
        this.outcomes[volume_id] = Outcome(done=Done.IN_FLIGHT, because="asked of the flip function")
    for volume_id, because in sending.failed.items():
        this.outcomes[volume_id] = Outcome(done=Done.FAILED, because=because, error_code="unsent")
        this.gathering.failures.append(f"{volume_id}: {because}")


def _known_refusal(this: Pass, decision: Decision, state: VolumeState | None) -> Refusal | None:
    """The refusal of what a decision wants, if this pass can see it and it need not be reported (again).

    It is not requested then: nothing more would be read or recorded.
    """
    assert decision.want is not None
    is_quiet = decision.want.early and this.shell.policy.flip.act_at is ActAt.AUTO
    told = state.refusal_told if state is not None else None
    hold = hold_on(this.holds, decision.volume_id, this.look.now_s)
    if hold is not None and (is_quiet or told == Guard.HELD):
        return refuse_hold(hold)
    detached = refuse_detached(decision.assessment.volume)
    if detached is not None and (is_quiet or told == Guard.DETACHED):
        return detached
    if state is None:
        return None
    pauses = state.failures and (state.retry_at_s or 0) > this.look.now_s
    return refuse_pause(state) if pauses else None


def order_of(decision: Decision) -> Order:
    """The order for what a decision wants."""
    assert decision.want is not None
    return Order(
        volume_id=decision.volume_id,
        direction=decision.want.direction,
        cause=decision.want.cause,
        because=decision.want.reason,
        demand=demand_of(decision.assessment),
        early=decision.want.early,
        urgency=urgency_of(decision),
        empty_s=decision.assessment.empty_s,
    )
