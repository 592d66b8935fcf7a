"""Plans orders against every guard, without recording or changing anything."""

from collections.abc import Sequence

from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.flips.outcome import Outcome
from burstwatch.engine.collector import Collector
from burstwatch.engine.fresh_context import read_fresh_context
from burstwatch.engine.services import Services


def plan_orders(
    services: Services, orders: Sequence[FlipOrder], collector: Collector
) -> dict[str, FlipPlan | Outcome]:
    """A plan for each order; an outcome instead if the volume does not exist or could not be read."""
    fresh = read_fresh_context(services, orders, collector)
    plans: dict[str, FlipPlan | Outcome] = {}
    for order in orders:
        plan_or_outcome = fresh.outcome_if_unavailable(order) or fresh.plan(order)
        if isinstance(plan_or_outcome, FlipPlan) and not plan_or_outcome.refusals:
            fresh.reserve(plan_or_outcome)
        plans[order.volume_id] = plan_or_outcome
    return plans
