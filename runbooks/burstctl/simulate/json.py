"""A simulation as ``--json`` prints it, in the schema ``burstwatch.simulation/v1``."""

from math import isfinite
from typing import TYPE_CHECKING, Final

from burstctl.simulate.ceilings import Ceiling
from burstctl.simulate.collect import SimulationReport
from burstctl.simulate.simulation import EmptySpell, InstanceBucket, SimulationResult
from burstctl.simulate.study import Study, TypeStudy
from burstwatch.core.text import format_clock, format_instant, tenths_or_none
from burstwatch.core.watch.api_cost import USD_PER_METRIC

if TYPE_CHECKING:
    from documents.simulation import (
        CeilingDocument,
        PlannedVolumesDocument,
        SimulatedBucketDocument,
        SimulatedTypeDocument,
        SimulationDocument,
        SpellDocument,
    )

SCHEMA: Final = "burstwatch.simulation/v1"


def to_document(report: SimulationReport, ledger: str) -> "SimulationDocument":
    """The values behind the answer; absent values are null, keys never disappear."""
    study, request = report.study, report.request
    inputs, instance = study.inputs, study.inputs.instance
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(report.now_s),
        "region": report.region,
        "ledger": ledger,
        "instance_id": request.instance_id,
        "name": instance.name if instance else None,
        "instance_type": instance.instance_type if instance else None,
        "starts_at": format_instant(study.start_s),
        "ends_at": format_instant(study.end_s),
        "unknown_s": study.unknown_s,
        "unserved": "queued",
        "daily_reset": None if inputs.daily_reset_s is None else format_clock(inputs.daily_reset_s),
        "volumes": None if report.volumes is None else [volume.volume_id for volume in report.volumes],
        "volume_limits": _ceiling_document(inputs.ceiling),
        "plan": _plan_document(study),
        "held_back": [
            {
                "limit": reached.limit,
                "seconds": round(reached.seconds),
                "first_at": format_instant(reached.first_at_s),
                "certain": reached.is_certain,
            }
            for reached in study.limits_reached
        ],
        "throttled_s": round(study.throttled_s),
        "target": _type_document(study.target),
        "types": [_type_document(candidate) for candidate in study.candidates],
        "smallest": [item.name for item in study.smallest],
        "left_out": list(report.left_out),
        "failures": list(report.failures),
        "cost": {
            "metrics_requested": report.metrics_requested,
            "usd": round(report.metrics_requested * USD_PER_METRIC, 6),
        },
        "api_calls": dict(report.api_calls),
    }


def _plan_document(study: Study) -> "PlannedVolumesDocument | None":
    if not study.inputs.planned:
        return None
    raised, is_bound = study.raised, not study.throttled_s
    return {
        "volumes": [plan.text for plan in study.inputs.planned],
        "volume_limits": _ceiling_document(study.inputs.planned_ceiling),
        "at_present_limit_s": round(study.at_ceiling_s),
        "empty_times_at_most": len(raised.spells) if is_bound and raised else None,
        "empty_s_at_most": round(raised.empty_s) if is_bound and raised else None,
    }


def _type_document(study: TypeStudy) -> "SimulatedTypeDocument":
    result = study.result
    return {
        "instance_type": study.name,
        "sustained": study.is_sustained,
        "measured": study.is_measured,
        "empty_times": len(result.spells),
        "empty_s": round(result.empty_s),
        "first_empty_at": format_instant(result.spells[0].start_s) if result.spells else None,
        "at_maximum_s": round(result.at_maximum_s),
        "enough": study.is_enough,
        "enough_with_bursts": study.is_certain,
        "spells": [
            {**_spell_document(spell), "buckets": result.buckets_of(spell)} for spell in result.spells
        ],
        "buckets": [_bucket_document(study, result, kind) for kind in InstanceBucket],
    }


def _bucket_document(
    study: TypeStudy, result: SimulationResult, kind: InstanceBucket
) -> "SimulatedBucketDocument":
    bucket, own = study.buckets.of(kind), result.of(kind)
    return {
        "bucket": kind,
        "unit": "operations" if kind is InstanceBucket.IO else "MiB",
        "capacity": round(bucket.capacity),
        "refill_per_s": round(bucket.refill_per_s, 3),
        "most_per_s": round(bucket.burst_per_s, 3),
        "cannot_drain": study.cannot_drain(kind),
        "lowest_pct": tenths_or_none(own.lowest_pct),
        "lowest_with_bursts_pct": None if own.lowest_pct is None else round(study.bounds_pct[kind], 1),
        "empty_s": round(own.empty_s),
        "spells": [
            {**_spell_document(spell), "waiting_at_most": round(spell.max_waiting)} for spell in own.spells
        ],
    }


def _spell_document(spell: EmptySpell) -> "SpellDocument":
    return {
        "starts_at": format_instant(spell.start_s),
        "ends_at": format_instant(spell.end_s),
        "empty_s": round(spell.empty_s),
    }


def _ceiling_document(ceiling: Ceiling) -> "CeilingDocument":
    return {
        "iops": round(ceiling.iops) if isfinite(ceiling.iops) else None,
        "mib_s": round(ceiling.mib_s, 3) if isfinite(ceiling.mib_s) else None,
    }
