"""Every limit as ``--json`` prints it, in the schema ``burstwatch.limits/v1``."""

from typing import TYPE_CHECKING, Final

from burstctl.cli.options import Options
from burstctl.context.context import CommandContext
from burstctl.which.collect import WhichReport
from burstctl.which.limit import Limit
from burstctl.which.text import describe_answer, next_command
from burstwatch.core.text import instant_or_none, rounded_or_none, tenths_or_none
from burstwatch.core.watch.api_cost import USD_PER_METRIC

if TYPE_CHECKING:
    from documents.limits import LimitDocument, LimitReferenceDocument, LimitsDocument

SCHEMA: Final = "burstwatch.limits/v1"


def to_document(report: WhichReport, context: CommandContext, options: Options) -> "LimitsDocument":
    """Every value behind the answer; absent values are null, keys never disappear."""
    upcoming = report.answer.next_limit
    return {
        "schema": SCHEMA,
        **context.document_header(),
        "resource_id": report.resource_id,
        "instance_id": report.instance.instance_id if report.instance else None,
        "instance_type": report.instance.instance_type if report.instance else None,
        "instance_class": report.database.instance_class if report.database else None,
        "volumes": [volume.volume_id for volume in report.volumes],
        "answer": describe_answer(report),
        "applies_now": [_reference(limit) for limit in report.answer.now],
        "next": None if upcoming is None else _reference(upcoming),
        "limits": [_limit_document(limit, report.now_s) for limit in report.answer.limits],
        "next_command": next_command(report, options),
        "notes": list(report.notes),
        "missing": [report.resource_id] if report.is_missing else [],
        "failures": list(report.failures),
        "cost": {
            "metrics_requested": report.metrics_requested,
            "usd": round(report.metrics_requested * USD_PER_METRIC, 6),
        },
        "api_calls": dict(report.api_calls),
    }


def _reference(limit: Limit) -> "LimitReferenceDocument":
    return {"resource_id": limit.resource_id, "kind": limit.kind}


def _limit_document(limit: Limit, now_s: float) -> "LimitDocument":
    empty_at_s = None if limit.time_to_empty_s is None else now_s + limit.time_to_empty_s
    return {
        **_reference(limit),
        "state": limit.state,
        "unit": limit.unit or None,
        "limit": tenths_or_none(limit.limit),
        "use": tenths_or_none(limit.use),
        "headroom": tenths_or_none(limit.headroom),
        "balance_pct": limit.balance_pct,
        "datapoint_age_s": rounded_or_none(limit.datapoint_age_s),
        "time_to_empty_s": rounded_or_none(limit.time_to_empty_s),
        "soonest_empty_s": rounded_or_none(limit.soonest_empty_s),
        "empty_at": instant_or_none(empty_at_s),
        "evidence": list(limit.evidence),
    }
