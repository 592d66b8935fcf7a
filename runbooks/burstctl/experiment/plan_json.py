"""The plan of an experiment as ``--json`` prints it where none was begun."""

from typing import TYPE_CHECKING, Final

from burstctl.context.context import CommandContext
from burstctl.experiment.credit_reset import indistinguishable_pairs
from burstctl.experiment.preflight import Outline, PreflightResult
from burstctl.render.plan_json import plan_document
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from documents.experiment import ExperimentPlanDocument, OutlineDocument

SCHEMA: Final = "burstwatch.experiment-plan/v1"


def outline_document(context: CommandContext, preflight: PreflightResult) -> "ExperimentPlanDocument":
    """What would be done and what refuses it; absent values are null, keys never disappear."""
    newest = preflight.newest
    return {
        "schema": SCHEMA,
        **context.document_header(),
        "volume_id": preflight.volume.volume_id,
        "burst_balance_pct": newest.value if newest else None,
        "burst_balance_at": format_instant(newest.start_at_s) if newest else None,
        "consumed_iops": round(preflight.iops, 3),
        "quickest": _outline_document(preflight, preflight.quickest),
        "reckoned": _outline_document(preflight, preflight.expected),
        "objections": [
            {"name": failure.name, "reason": failure.reason} for failure in preflight.preflight_failures
        ],
        "plan": plan_document(preflight.planned),
        "failures": list(preflight.datapoints.failures),
    }


def _outline_document(preflight: PreflightResult, outline: Outline | None) -> "OutlineDocument | None":
    if outline is None:
        return None
    return {
        "away_s": outline.away_s,
        "modify_s": outline.modify_s,
        "usd_more": round(preflight.extra_usd(outline), 4),
        "allowed_pct": {
            hypothesis: (bounds.low, bounds.high) for hypothesis, bounds in outline.predictions.items()
        },
        "not_told_apart": [list(pair) for pair in indistinguishable_pairs(outline.predictions)],
    }
