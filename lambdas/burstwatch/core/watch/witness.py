"""What else shows which limit applies: CloudWatch's checks, the model of a bound, the observed capacity."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource_buckets import why_limits_unknown
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import UNKNOWN_LIMITS_RULE, drain_proof
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, format_time, rounded_or_none

_RECENT_S: Final = 15 * 60
"""How far back a minute above the limit still says something about now."""


def describe_instance_witness(
    assessment: Assessment, exceeded: Series, *, wanted_lead: timedelta, policy: Policy
) -> dict[str, Any]:
    """The evidence beside the balance of an instance's bucket: numbers, and ``witness`` sentences."""
    instance, kind = assessment.resource, assessment.kind
    assert isinstance(instance, Instance)
    proof, lead = drain_proof(instance, kind), policy.cadence.act_lead
    sentences = [capitalise(proof.describe())] if proof else limits_sentences(assessment)
    sentences += exceeded_sentences(exceeded, f"the limit of the instance in {kind.rate_unit}")
    sentences += capacity_sentences(assessment)
    sentences += lead_sentences(lead, wanted_lead)
    return {
        "witness": sentences,
        "limit_exceeded_min": exceeded_minutes(exceeded),
        "capacity": round(assessment.bucket.capacity) if assessment.bucket.is_known else None,
        "observed_capacity": rounded_or_none(assessment.observed_capacity),
        "act_lead_s": round(lead.total_seconds()),
    }


def limits_sentences(assessment: Assessment) -> list[str]:
    """By what a balance is judged if the limits behind it are not known; nothing if they are."""
    resource = assessment.resource
    unknown = None if isinstance(resource, Volume) else why_limits_unknown(resource, assessment.kind)
    return [f"{capitalise(unknown)}: {UNKNOWN_LIMITS_RULE}"] if unknown else []


def lead_sentences(lead: timedelta, wanted_lead: timedelta) -> list[str]:
    """The time to act that a bucket can give, if that is less than the policy wants."""
    if lead >= wanted_lead:
        return []
    wanted, possible = (format_duration(duration.total_seconds()) for duration in (wanted_lead, lead))
    reason = f"At full load it may be empty before the {wanted} that the policy keeps for acting"
    return [f"{reason}: it gives {possible}"]


def capacity_sentences(assessment: Assessment) -> list[str]:
    """The capacity by which the load explains the balance, beside the model; nothing if it is not known."""
    if assessment.observed_capacity is None:
        return []
    observed = f"{assessment.observed_capacity:,.0f} {assessment.kind.unit}"
    model = f"{assessment.bucket.capacity:,.0f}"
    return [f"By its load the bucket holds about {observed}; by AWS's 30-minute rule {model}"]


def reset_sentences(assessment: Assessment, now_s: float) -> list[str]:
    """When the balance was reset to full; nothing if no reset was seen."""
    if assessment.reset_at_s is None:
        return []
    reset_at = format_time(assessment.reset_at_s, now_s)
    return [f"AWS reset it to full at about {reset_at} UTC: it rose faster than it refills"]


def describe_volume_witness(iops_exceeded: Series, throughput_exceeded: Series) -> dict[str, Any]:
    """The evidence of CloudWatch's two checks of a volume."""
    return {
        "witness": [
            *exceeded_sentences(iops_exceeded, "the IOPS limit of the volume"),
            *exceeded_sentences(throughput_exceeded, "the throughput limit of the volume"),
        ],
        "iops_limit_exceeded_min": exceeded_minutes(iops_exceeded),
        "throughput_limit_exceeded_min": exceeded_minutes(throughput_exceeded),
    }


def exceeded_sentences(exceeded: Series, limit: str) -> list[str]:
    """What CloudWatch's check says about the last minutes; nothing if it has none."""
    minutes = exceeded_minutes(exceeded)
    if minutes is None:
        return []
    if not minutes:
        return [f"CloudWatch's check: its load has not exceeded {limit} in the last 15 min"]
    return [f"CloudWatch's check: its load exceeded {limit} in {minutes} of the last 15 min"]


def exceeded_minutes(exceeded: Series) -> int | None:
    """In how many of the last minutes the check was 1; None if it has no datapoint."""
    newest = exceeded.newest
    if newest is None:
        return None
    return sum(
        value > 0 for value in exceeded.since(newest.start_at_s - _RECENT_S + exceeded.period_s).values
    )


def capitalise(sentence: str) -> str:
    """The sentence with a capital, unless it begins with the name of a type or an ID."""
    first_word = sentence.partition(" ")[0].rstrip(",")
    return sentence[:1].upper() + sentence[1:] if first_word.isalpha() else sentence


def merge_witnesses(*witnesses: Mapping[str, Any]) -> dict[str, Any]:
    """Several witnesses as one: their numbers, and all of their sentences."""
    merged: dict[str, Any] = {}
    for witness in filter(None, witnesses):
        merged |= {**witness, "witness": [*merged.get("witness", ()), *witness.get("witness", ())]}
    return merged
