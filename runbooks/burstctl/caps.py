"""What the fleet cap and the spend cap will say, foretold: they are asked only when an intent is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from burstwatch.core.flips import Direction
from burstwatch.core.guards import Guard, Refusal
from burstwatch.core.ledger import VolumeState
from burstwatch.core.orders import Plan
from burstwatch.core.policy import FlipPolicy

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
    found = []
    if len(others_usd) >= policy.fleet_cap:
        are = "1 volume is" if len(others_usd) == 1 else f"{len(others_usd)} volumes are"
        reason = f"{are} away or on the way, the policy's flip.fleet_cap is"
        found.append(Refusal(guard=Guard.FLEET_CAP, reason=f"{reason} {policy.fleet_cap}"))
    added_usd, more_usd = sum(others_usd), max(0.0, plan.usd_per_month_more)
    if added_usd + more_usd > policy.spend_cap_usd + _ROUNDING_USD:
        reason = (
            f"it would add ${more_usd:,.2f} a month to ${added_usd:,.2f} already added, and the policy's"
            f" flip.spend_cap_usd_per_month is ${policy.spend_cap_usd:,.2f}"
        )
        found.append(Refusal(guard=Guard.SPEND_CAP, reason=reason))
    return found
