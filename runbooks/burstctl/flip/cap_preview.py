"""What the fleet cap and the spend cap will say, foretold: they are asked only when an intent is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from burstwatch.core.flips.caps import caps_for, refuse_fleet_cap, refuse_spend_cap
from burstwatch.core.flips.guards import Refusal
from burstwatch.core.flips.planning import Plan
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.policy.policy import FlipPolicy

_ROUNDING_USD: Final = 1e-6
"""What adding up dollars may be off by."""


def with_caps(
    plans: Iterable[Plan], states: Mapping[str, VolumeState], policy: FlipPolicy
) -> dict[str, Plan]:
    """The plans by volume id, with the caps' refusals; those that come first take what room there is."""
    away_usd = {
        volume_id: max(0.0, state.flip.usd_per_month)
        for volume_id, state in states.items()
        if state.flip is not None and state.flip.reserves
    }
    weighed: dict[str, Plan] = {}
    for plan in plans:
        volume_id = plan.order.volume_id
        others_usd = [usd for other, usd in away_usd.items() if other != volume_id]
        plan = _weighed(plan, others_usd, policy)  # noqa: PLW2901 - the same plan, one guard further
        weighed[volume_id] = plan
        if not plan.refusals and not plan.extends and plan.order.direction is Direction.OUT:
            away_usd[volume_id] = max(0.0, plan.usd_per_month_more)
    return weighed


def _weighed(plan: Plan, others_usd: list[float], policy: FlipPolicy) -> Plan:
    if plan.target is None or plan.extends or plan.order.direction is Direction.BACK:
        return plan
    for refusal in _refusals(plan, others_usd, policy):
        if refusal.guard in plan.order.overridden:
            plan = replace(plan, overridden=(*plan.overridden, refusal.guard))
        else:
            plan = replace(plan, refusals=(*plan.refusals, refusal))
    return plan


def _refusals(plan: Plan, others_usd: list[float], policy: FlipPolicy) -> list[Refusal]:
    caps, found = caps_for(plan.order, policy), []
    if caps.volumes is not None and len(others_usd) >= caps.volumes:
        found.append(refuse_fleet_cap(plan.order, len(others_usd), policy))
    added_usd, more_usd = sum(others_usd), max(0.0, plan.usd_per_month_more)
    if caps.usd_per_month is not None and added_usd + more_usd > caps.usd_per_month + _ROUNDING_USD:
        found.append(refuse_spend_cap(plan.order, more_usd, added_usd, policy))
    return found
