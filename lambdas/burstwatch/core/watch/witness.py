"""What else shows which limit applies: CloudWatch's checks, the model of a bound, the observed capacity."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import Series
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import drain_proof
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, rounded_or_none

_RECENT_S: Final = 15 * 60
"""How far back a minute above the limit still says something about now."""


def describe_instance_witness(
    assessment: Assessment, exceeded: Series, *, wanted_lead: timedelta, policy: Policy
) -> dict[str, Any]:
    """The evidence beside the balance of an instance's bucket: numbers, and ``witness`` sentences."""
    instance, kind = assessment.resource, assessment.kind
    assert isinstance(instance, Instance)
    proof, lead = drain_proof(instance, kind), policy.cadence.act_lead
    sentences = [_capitalise(proof.describe())] if proof else []
    sentences += _exceeded_sentences(exceeded, f"the limit of the instance in {kind.rate_unit}")
    if assessment.observed_capacity is not None:
        sentences.append(
            f"By its load the bucket holds about {assessment.observed_capacity:,.0f} {kind.unit}; by AWS's"
            f" 30-minute rule {assessment.bucket.capacity:,.0f}"
        )
    if lead < wanted_lead:
        sentences.append(
            f"At full load it may be empty before the {format_duration(wanted_lead.total_seconds())} that the"
            f" policy keeps for acting: it can give {format_duration(lead.total_seconds())}"
        )
    return {
        "witness": sentences,
        "limit_exceeded_min": _recent_minutes(exceeded),
        "capacity": round(assessment.bucket.capacity),
        "observed_capacity": rounded_or_none(assessment.observed_capacity),
        "act_lead_s": round(lead.total_seconds()),
    }


def describe_volume_witness(iops_exceeded: Series, throughput_exceeded: Series) -> dict[str, Any]:
    """The evidence of CloudWatch's two checks of a volume."""
    return {
        "witness": [
            *_exceeded_sentences(iops_exceeded, "the IOPS limit of the volume"),
            *_exceeded_sentences(throughput_exceeded, "the throughput limit of the volume"),
        ],
        "iops_limit_exceeded_min": _recent_minutes(iops_exceeded),
        "throughput_limit_exceeded_min": _recent_minutes(throughput_exceeded),
    }


def _exceeded_sentences(exceeded: Series, limit: str) -> list[str]:
    """What CloudWatch's check says about the last minutes; nothing if it has none."""
    minutes = _recent_minutes(exceeded)
    if minutes is None:
        return []
    if not minutes:
        return [f"CloudWatch's check: its load has not exceeded {limit} in the last 15 min"]
    return [f"CloudWatch's check: its load exceeded {limit} in {minutes} of the last 15 min"]


def _recent_minutes(exceeded: Series) -> int | None:
    """In how many of the last minutes the check was 1; None if it has no datapoint."""
    newest = exceeded.newest
    if newest is None:
        return None
    return sum(
        value > 0 for value in exceeded.since(newest.start_at_s - _RECENT_S + exceeded.period_s).values
    )


def _capitalise(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def merge_witnesses(*witnesses: Mapping[str, Any]) -> dict[str, Any]:
    """Several witnesses as one: their numbers, and all of their sentences."""
    merged: dict[str, Any] = {}
    for witness in filter(None, witnesses):
        merged |= {**witness, "witness": [*merged.get("witness", ()), *witness.get("witness", ())]}
    return merged
