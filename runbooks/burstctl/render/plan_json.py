"""A plan as ``--json`` prints it, in the schema ``burstwatch.plan/v1``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from burstctl.render.plan_text import plan_reasons
from burstctl.render.planned_flip import PRICES, DryRunResult, PlannedFlip, sum_prices
from burstwatch.adapters.aws.ec2_modify import DryRunAllowed
from burstwatch.core.ebs.pricing import PriceChange, usd_per_hour
from burstwatch.core.ebs.sizing import Candidate, TargetRefusal
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.outcome import Outcome
from burstwatch.core.flips.refusal import Refusal
from burstwatch.core.ledger.flip_state import Hold, configuration_to_document
from burstwatch.core.policy.windows import expected_flip_duration
from burstwatch.core.text import format_instant, instant_or_none, rounded_or_none
from burstwatch.core.watch.pass_report import describe_outcome, describe_standing_hold

if TYPE_CHECKING:
    from documents.shared import (
        DryRunDocument,
        ExpectedDurationDocument,
        HoldDocument,
        PlanDocument,
        PriceDocument,
        PricedTargetDocument,
        RefusalDocument,
        RefusedTargetDocument,
        TotalsDocument,
    )

PLAN_SCHEMA: Final = "burstwatch.plan/v1"


def plan_document(planned: PlannedFlip, outcome: Outcome | None = None) -> "PlanDocument":
    """The plan for one volume with its outcome; absent values are null, and all keys are present."""
    plan, order, volume = planned.plan, planned.plan.order, planned.plan.context.volume
    return {
        "volume_id": volume.volume_id,
        "name": volume.name,
        "size_gib": volume.size_gib,
        "instance_id": volume.instance_id,
        "direction": order.direction,
        "now": configuration_to_document(plan.current) if plan.current else None,
        "target": configuration_to_document(plan.target) if plan.target else None,
        "extends": plan.is_extension,
        "reasons": plan_reasons(plan) if plan.target else [],
        "alternatives": _alternatives_document(plan),
        **_price_document(planned.price),
        "usd_more_for_the_stay": _usd_for_duration(planned),
        "stays": plan.return_decision.is_permanent if plan.return_decision else None,
        "stay_reason": plan.return_decision.reason if plan.return_decision else None,
        **_duration_document(planned),
        "return_after": instant_or_none(order.return_after_s),
        "modifications_used": len(planned.recent_modifications),
        "refusals": [refusal_document(refusal) for refusal in plan.refusals],
        "overridden": list(plan.overridden),
        "undo": planned.undo,
        "dry_run": _dry_run_document(planned.dry_run_result),
        "outcome": describe_outcome(outcome) if outcome else None,
    }


def _duration_document(planned: PlannedFlip) -> "ExpectedDurationDocument":
    """How long AWS is expected to take and how long the credits last; null where nothing is changed."""
    plan = planned.plan
    if plan.target is None or plan.is_extension:
        return {"expected_least_s": None, "expected_most_s": None, "time_to_empty_s": None}
    expected = expected_flip_duration(plan.context.volume.size_gib, planned.lead)
    return {
        "expected_least_s": round(planned.lead.least.total_seconds()),
        "expected_most_s": round(expected.total_seconds()),
        "time_to_empty_s": rounded_or_none(plan.order.time_to_empty_s),
    }


def totals_document(planned: Sequence[PlannedFlip]) -> "TotalsDocument":
    """How many volumes would be modified or kept as they are, and what that costs together."""
    wanted_count = sum(flip.is_wanted for flip in planned)
    kept_count = sum(flip.is_wanted and flip.plan.is_extension for flip in planned)
    return {
        "volumes": len(planned),
        "to_modify": wanted_count - kept_count,
        "to_keep": kept_count,
        "refused": len(planned) - wanted_count,
        **_price_document(sum_prices(planned)),
        "prices": PRICES,
    }


def refusal_document(refusal: Refusal) -> "RefusalDocument":
    """A refusal as JSON."""
    return {
        "guard": refusal.guard,
        "reason": refusal.reason,
        "ends_at": instant_or_none(refusal.ends_at_s),
    }


def hold_document(hold: Hold) -> "HoldDocument":
    """A hold as JSON; without a volume it is on everything."""
    return {**describe_standing_hold(hold), "placed_at": format_instant(hold.placed_at_s)}


def _price_document(price: PriceChange) -> "PriceDocument":
    extra_usd = price.difference_usd_per_month
    return {
        "usd_per_month_now": price.before_usd_per_month,
        "usd_per_month": price.after_usd_per_month,
        "usd_per_month_more": extra_usd,
        "usd_per_hour_now": round(usd_per_hour(price.before_usd_per_month), 6),
        "usd_per_hour": round(usd_per_hour(price.after_usd_per_month), 6),
        "usd_per_hour_more": round(usd_per_hour(extra_usd), 6),
    }


def _usd_for_duration(planned: PlannedFlip) -> float | None:
    return None if planned.duration is None else round(planned.price.difference_usd_over(planned.duration), 4)


def _alternatives_document(
    plan: FlipPlan,
) -> "dict[str, RefusedTargetDocument | PricedTargetDocument] | None":
    if plan.sizing is None:
        return None
    return {name: _alternative_document(target) for name, target in plan.sizing.alternatives.items()}


def _alternative_document(
    target: Candidate | TargetRefusal,
) -> "RefusedTargetDocument | PricedTargetDocument":
    if isinstance(target, TargetRefusal):
        return {"refusal": target.reason}
    return {**configuration_to_document(target.configuration), "usd_per_month": target.usd_per_month}


def _dry_run_document(result: DryRunResult | None) -> "DryRunDocument | None":
    if result is None:
        return None
    if isinstance(result, DryRunAllowed):
        return {"allowed": True, "error_code": None, "because": None}
    return {"allowed": False, "error_code": result.failure.code, "because": str(result.failure)}
