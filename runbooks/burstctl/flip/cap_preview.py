"""What the fleet cap and the spend cap would refuse now; the ledger decides when the intent is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from burstwatch.core.flips.cap_refusal import caps_for, fleet_cap_refusal, spend_cap_refusal
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.refusal import Refusal
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import FlipPolicy


def check_caps(
    plans: Iterable[FlipPlan], states: Mapping[str, ResourceState], policy: FlipPolicy
) -> dict[str, FlipPlan]:
    """The plans by volume id, with the caps' refusals; those that come first take what room there is."""
    flipped_usd = {
        volume_id: state.flip.reserved_usd
        for volume_id, state in states.items()
        if state.flip is not None and state.flip.counts_against_caps
    }
    checked: dict[str, FlipPlan] = {}
    for plan in plans:
        volume_id = plan.order.volume_id
        others_usd = [usd for other_id, usd in flipped_usd.items() if other_id != volume_id]
        plan = _check_caps_for(plan, others_usd, policy)  # noqa: PLW2901 - the same plan, one guard further
        checked[volume_id] = plan
        if not plan.refusals and not plan.is_extension and plan.order.direction is Direction.FLIP:
            flipped_usd[volume_id] = max(0.0, plan.usd_per_month_more)
    return checked


def _check_caps_for(plan: FlipPlan, others_usd: list[float], policy: FlipPolicy) -> FlipPlan:
    if plan.target is None or plan.is_extension or plan.order.direction is Direction.FLIP_BACK:
        return plan
    for refusal in _cap_refusals(plan, others_usd, policy):
        if refusal.guard in plan.order.overridden:
            plan = replace(plan, overridden=(*plan.overridden, refusal.guard))
        else:
            plan = replace(plan, refusals=(*plan.refusals, refusal))
    return plan


def _cap_refusals(plan: FlipPlan, others_usd: list[float], policy: FlipPolicy) -> list[Refusal]:
    caps, refusals = caps_for(plan.order, policy), []
    if not caps.has_room_for_volume(len(others_usd)):
        refusals.append(fleet_cap_refusal(plan.order, len(others_usd), policy))
    added_usd, more_usd = sum(others_usd), max(0.0, plan.usd_per_month_more)
    if not caps.has_room_for_usd(added_usd, more_usd):
        refusals.append(spend_cap_refusal(plan.order, more_usd, added_usd, policy))
    return refusals
