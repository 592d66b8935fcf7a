"""The buckets of one instance with every number behind them, in words and as a document."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from burstctl.cli.styled_text import styled
from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, Topic, lay_out_topics, text_columns, wrap_hanging
from burstctl.explain.bucket_topics import (
    BucketExplanation,
    describe_cause,
    describe_look,
    describe_next_levels,
    drain_documents,
    forecast_topics,
    rate_text,
)
from burstctl.explain.explanation import SCHEMA, entry_line
from burstctl.render.pass_summary import describe_hold
from burstctl.render.plan_json import hold_document
from burstctl.render.resource_rows import STYLES, describe_depletion, level_label
from burstctl.render.terminal_channel import wrap_action
from burstctl.render.volume import UNREADABLE_STATE, describe_level, display_name_of, format_id_and_name
from burstwatch.core.alerts.alert import describe_forecast, format_forecast
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.assessment.resource_buckets import rate_when_empty_per_s
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import BURST_TIME_S, INSTANCE_IO, DrainProof, drain_proof
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.bucket_policy import wanted_lead
from burstwatch.core.policy.policy import Mode
from burstwatch.core.tag_keys import MODE
from burstwatch.core.text import format_count, format_duration, format_instant, sanitise
from burstwatch.core.watch.pass_report import describe_bucket, describe_instance
from burstwatch.core.watch.witness import (
    capacity_sentences,
    capitalise,
    exceeded_minutes,
    exceeded_sentences,
    lead_sentences,
    limits_sentences,
    reset_sentences,
)

if TYPE_CHECKING:
    from documents.explanation import (
        DrainProofDocument,
        ExplainedBucketDocument,
        ExplainedInstanceFieldsDocument,
    )

MAX_VOLUMES: Final = 5
"""Volumes that are listed, the fastest first; --json has all."""
NEVER_TAKES_CREDITS: Final = "So its load never takes credits, whatever the bucket holds"
_MAX_NAME_CHARS: Final = 30
_MODE_DESCRIPTIONS: Final = {
    Mode.OBSERVE: "reports only, no alert",
    Mode.PROPOSE: "alerts with the commands to run",
    Mode.AUTO: "alerts with the commands to run; the {noun} is never changed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedBucket(BucketExplanation):
    """One bucket of an instance, and what the ledger has of it; ``is_unread`` if that cannot be read."""

    state: ResourceState | None = None
    is_unread: bool = False
    entries: Sequence[LedgerEntry] = ()

    @property
    def kind(self) -> BucketKind:
        return self.assessment.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceExplanation:
    """The decisions about the buckets of an instance, the most urgent first, and what they rest on.

    ``volumes`` are those attached, as far as they could be described. ``holds`` are those on the instance.
    """

    instance: Instance
    buckets: Sequence[ExplainedBucket]
    now_s: float
    metrics: InstanceMetrics = field(default_factory=InstanceMetrics)
    volumes: Sequence[Volume] = ()
    holds: Sequence[Hold] = ()

    @property
    def is_unread(self) -> bool:
        return any(bucket.is_unread for bucket in self.buckets)


def render_instance(explanation: InstanceExplanation, *, verbose: bool) -> str:
    """What is urgent, the instance, and a paragraph for each bucket."""
    urgent = urgent_lines(explanation.buckets)
    parts = ["\n".join(urgent)] if urgent else []
    parts.append(lay_out_topics(_headline(explanation.instance), _instance_topics(explanation)))
    for bucket in explanation.buckets:
        headline = f"{bucket.kind.credits} ({bucket.kind.name}, {bucket.kind.metric})"
        parts.append(lay_out_topics(headline, _bucket_topics(explanation, bucket, verbose=verbose)))
    return "\n\n".join(parts)


def to_document(explanation: InstanceExplanation) -> "ExplainedInstanceFieldsDocument":
    """The explanation as ``--json`` prints it."""
    decisions = [bucket.decision for bucket in explanation.buckets]
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(explanation.now_s),
        "volume": None,
        "instance": describe_instance(decisions, Outcome(status=OutcomeStatus.NONE)),
        "file_system": None,
        "database": None,
        "attached_volumes": [
            {
                "volume_id": ceiling.volume_id,
                "volume_type": ceiling.volume_type,
                "max_iops": round(ceiling.iops),
                "max_mib_s": round(ceiling.mib_s, 1),
            }
            for ceiling in explanation.instance.ceilings or ()
        ],
        "buckets": [_bucket_document(explanation, bucket) for bucket in explanation.buckets],
        "holds": [hold_document(hold) for hold in explanation.holds],
    }


def _bucket_document(explanation: InstanceExplanation, bucket: ExplainedBucket) -> "ExplainedBucketDocument":
    exceeded = explanation.metrics.exceeded(bucket.kind)
    return {
        **bucket_document(bucket),
        "proof": _proof_document(drain_proof(explanation.instance, bucket.kind)),
        "limit_exceeded_min": exceeded_minutes(exceeded),
    }


def bucket_document(bucket: ExplainedBucket) -> "ExplainedBucketDocument":
    """A bucket of any resource, without what only instances have."""
    return {
        **describe_bucket(bucket.decision),
        "previous_level": bucket.decision.previous_level,
        "because": describe_cause(bucket),
        "proof": None,
        "drains": drain_documents(bucket.assessment),
        "is_believed": bucket.assessment.forecast is not None
        and bucket.assessment.forecast.is_within_extrapolation,
        "limit_exceeded_min": None,
        "next": describe_next_levels(bucket) if bucket.assessment.forecast else [],
        "look": {
            "interval_s": bucket.decision.poll_interval_s,
            "because": " ".join(describe_look(bucket)),
        },
        "remembered": {
            "state": bucket.state.to_document(is_whole=True) if bucket.state else None,
            "entries": [entry.to_document() for entry in bucket.entries],
        },
    }


def _proof_document(proof: DrainProof | None) -> "DrainProofDocument | None":
    if proof is None:
        return None
    return {
        "cannot_drain": proof.cannot_drain,
        "baseline": round(proof.baseline, 2),
        "maximum": round(proof.maximum, 2),
        "volumes_limit": None if proof.volumes_limit is None else round(proof.volumes_limit, 2),
        "because": proof.describe(),
    }


def _headline(instance: Instance) -> str:
    volumes = format_count(len(instance.volume_ids), "volume")
    monitoring = ", detailed monitoring" if instance.has_detailed_monitoring else ""
    return (
        f"{format_id_and_name(instance)}, {instance.instance_type}, {instance.state}, {volumes}{monitoring}"
    )


def _limit_when_empty(assessment: Assessment) -> str:
    """What is left without credits: the baseline, or what EFS leaves to every file system."""
    if not assessment.bucket.is_known:
        return "a baseline that is not known"
    rate = rate_text(assessment, rate_when_empty_per_s(assessment.resource, assessment.bucket))
    return f"the {'limit' if isinstance(assessment.resource, FileSystem) else 'baseline'} of {rate}"


def urgent_lines(buckets: Sequence[ExplainedBucket]) -> list[str]:
    """Each bucket at an alerting level, and the commands that help, once."""
    lines: list[str] = []
    actions: list[str] = []
    for bucket in buckets:
        decision, assessment = bucket.decision, bucket.assessment
        forecast = assessment.forecast
        if not decision.level.is_alerting or forecast is None:
            continue
        state = format_forecast(describe_forecast(assessment, bucket.now_s))
        if forecast.is_refilling:
            state = describe_depletion(decision, bucket.now_s)
        elif decision.level is Level.EXHAUSTED:
            state = f"used up, so {_limit_when_empty(assessment)} applies"
        label = str(decision.level).upper()
        first, *rest = wrap_hanging(f"{label}: {assessment.kind.credits} {state}", text_columns())
        lines += [styled(label, STYLES[decision.level]) + first.removeprefix(label), *rest]
        if decision.recommendation is not None and not forecast.is_refilling:
            actions.append(decision.recommendation.action)
    for action in dict.fromkeys(actions):
        for command in action.split(" && "):
            wrapped = wrap_action(sanitise(command, MAX_SENTENCE_LENGTH), text_columns() - 2)
            lines += [f"  {styled(line, 'bold')}" for line in wrapped]
    return lines


def _instance_topics(explanation: InstanceExplanation) -> list[Topic]:
    instance = explanation.instance
    return [
        ("Volumes", _describe_volumes(explanation)),
        ("Mode", describe_mode(instance, explanation.buckets[0])),
        ("Hold", [describe_hold(hold, explanation.now_s) for hold in explanation.holds]),
    ]


def describe_mode(resource: AdvisedResource, bucket: ExplainedBucket) -> list[str]:
    """Whether alerts about the resource are sent, and what says so."""
    settings, tag = bucket.decision.volume_settings, resource.tags.get(MODE)
    source = (
        "the policy's default, no tag asks for another" if tag is None else f"tag {MODE}={sanitise(tag, 40)}"
    )
    description = _MODE_DESCRIPTIONS[settings.mode].format(noun=resource.resource_type.noun)
    return [
        f"{settings.mode} ({source}): {description}",
        *(f"tag at fault: {fault}" for fault in settings.faults),
    ]


def _describe_volumes(explanation: InstanceExplanation) -> list[str]:
    """What each attached volume serves at best, the fastest first, and their sum."""
    instance, ceilings = explanation.instance, explanation.instance.ceilings
    if not instance.volume_ids:
        return ["none is attached"]
    if ceilings is None:
        return [f"what {format_count(len(instance.volume_ids), 'volume')} can serve together is not known"]
    fastest = sorted(ceilings, key=lambda ceiling: (-ceiling.iops, -ceiling.mib_s, ceiling.volume_id))
    names = {volume.volume_id: display_name_of(volume, _MAX_NAME_CHARS) for volume in explanation.volumes}
    shared = {volume.volume_id for volume in explanation.volumes if volume.multi_attach_enabled}
    lines = [
        _describe_ceiling(ceiling, names.get(ceiling.volume_id, ""), is_shared=ceiling.volume_id in shared)
        for ceiling in fastest[:MAX_VOLUMES]
    ]
    if len(fastest) > MAX_VOLUMES:
        lines.append(f"and {len(fastest) - MAX_VOLUMES:,} more, which --json shows")
    if len(fastest) > 1:
        lines.append(
            f"together {instance.volumes_iops:,.0f} IOPS and {instance.volumes_mib_s:,.0f} MiB/s at most"
        )
    return lines


def _describe_ceiling(ceiling: VolumeCeiling, name: str, *, is_shared: bool) -> str:
    title = f"{ceiling.volume_id} ({name})" if name else ceiling.volume_id
    shared = ", shared by multi-attach" if is_shared else ""
    return f"{title}, {ceiling.volume_type}: {ceiling.iops:,.0f} IOPS, {ceiling.mib_s:,.0f} MiB/s{shared}"


def _bucket_topics(
    explanation: InstanceExplanation, bucket: ExplainedBucket, *, verbose: bool
) -> list[Topic]:
    assessment = bucket.assessment
    has_forecast = assessment.forecast is not None
    topics: list[Topic] = [
        ("Level", [describe_bucket_level(bucket)]),
        ("Next step", describe_step(bucket)),
        *_limit_topics(explanation, bucket),
        *forecast_topics(bucket, verbose=verbose),
    ]
    if has_forecast:
        topics += [
            ("Lead", describe_lead(bucket)),
            ("Observed", _describe_observations(explanation, bucket)),
            ("Load", _describe_load(explanation, bucket)),
            ("Check", _describe_check(explanation, bucket)),
            ("Next", describe_next_levels(bucket) if verbose else []),
        ]
    topics.append(("Look", describe_look(bucket) if verbose else []))
    return [*topics, *ledger_topics(bucket, verbose=verbose)]


def ledger_topics(bucket: ExplainedBucket, *, verbose: bool) -> list[Topic]:
    """What the ledger remembers of a bucket."""
    if bucket.is_unread:
        return [("Ledger", [UNREADABLE_STATE])]
    if not verbose:
        return []
    remembered = "no alert of it" if bucket.state is None else describe_level(bucket.state)
    return [("Ledger", [remembered, *map(entry_line, bucket.entries)])]


def describe_bucket_level(bucket: ExplainedBucket) -> str:
    """The level of one bucket, and why it has it."""
    level = "cannot drain" if bucket.assessment.unknown_reason is UnknownReason.NEVER_EMPTY else None
    if level is None:
        level = f"{level_label(bucket.decision)}: {describe_cause(bucket)}"
    previous = f"; last judged {bucket.decision.previous_level}" if bucket.state else ""
    return f"{level}{previous}"


def describe_step(bucket: ExplainedBucket) -> list[str]:
    """What a person can do about the bucket now."""
    decision, forecast = bucket.decision, bucket.assessment.forecast
    if bucket.assessment.is_fault:
        return ["find out why there is no balance: burstctl doctor"]
    if bucket.assessment.unknown_reason is UnknownReason.NEVER_EMPTY:
        return ["none: it is not read, because nothing can empty it"]
    if forecast is None and limits_sentences(bucket.assessment):
        return ["none: it has no balance that could run out, as far as is known"]
    if decision.recommendation is None or (forecast is not None and forecast.is_refilling):
        return [f"none: {decision.reason}"]
    return [f"you: {reason}" for reason in decision.recommendation.reasons]


def _limit_topics(explanation: InstanceExplanation, bucket: ExplainedBucket) -> list[Topic]:
    """The limits of the type, the capacity that they imply, and what the volumes can drain of it."""
    proof = drain_proof(explanation.instance, bucket.kind)
    if proof is None:
        unknown = limits_sentences(bucket.assessment) if bucket.assessment.forecast is not None else []
        return [("Baseline", unknown)]
    unit, burst = bucket.kind.rate_unit, round(proof.maximum, 1)
    baseline = f"{round(proof.baseline, 1):,.10g}"
    if proof.maximum <= proof.baseline:
        return [("Proof", [capitalise(proof.describe())])]
    limits = f"{baseline} {unit}; {proof.instance_type} bursts to {burst:,.10g} {unit} while it has credits"
    capacity = (
        f"({burst:,.10g} - {baseline}) * {BURST_TIME_S:,} s = {bucket.assessment.bucket.capacity:,.0f}"
        f" {bucket.kind.unit}, by AWS's 30-minute rule"
    )
    label = "Proof" if proof.cannot_drain else "Drain"
    topics: list[Topic] = [("Baseline", [limits])]
    if not proof.cannot_drain:
        topics.append(("Capacity", [capacity]))
    return [*topics, (label, _describe_proof(proof))]


def _describe_proof(proof: DrainProof) -> list[str]:
    """The sum of what the volumes serve at best, beside the baseline."""
    lines = [capitalise(proof.describe())]
    parts = [ceiling.iops if proof.kind is INSTANCE_IO else ceiling.mib_s for ceiling in proof.ceilings]
    if proof.volumes_limit is not None and 1 < len(parts) <= MAX_VOLUMES:
        total = " + ".join(f"{part:,.10g}" for part in parts)
        relation = "<=" if proof.cannot_drain else ">"
        lines.append(f"{total} = {proof.volumes_limit:,.10g} {relation} {round(proof.baseline, 1):,.10g}")
    if proof.cannot_drain:
        lines.append(NEVER_TAKES_CREDITS)
    return lines


def describe_lead(bucket: ExplainedBucket) -> list[str]:
    """The time to act that the bucket gives, if that is less than the policy wants."""
    wanted = wanted_lead(bucket.policy, bucket.kind)
    return lead_sentences(bucket.bucket_policy.cadence.act_lead, wanted)


def _describe_observations(explanation: InstanceExplanation, bucket: ExplainedBucket) -> list[str]:
    """The capacity that the load explains, and a reset to full."""
    capacity = capacity_sentences(bucket.assessment)
    if not capacity and bucket.assessment.bucket.is_known:
        capacity = ["Its balance fell too little to estimate the capacity from its load"]
    return [*capacity, *reset_sentences(bucket.assessment, explanation.now_s)]


def _describe_load(explanation: InstanceExplanation, bucket: ExplainedBucket) -> list[str]:
    newest = explanation.metrics.load_of(bucket.kind).closed_by(explanation.now_s).newest
    if newest is None:
        return ["CloudWatch has no load of it"]
    rate = rate_text(bucket.assessment, newest.value / newest.period_s)
    age = format_duration(max(0.0, explanation.now_s - newest.end_at_s))
    return [f"{rate} over the newest {format_duration(newest.period_s)} of data, which ended {age} ago"]


def _describe_check(explanation: InstanceExplanation, bucket: ExplainedBucket) -> list[str]:
    limit = f"the limit of the instance in {bucket.kind.rate_unit}"
    sentences = exceeded_sentences(explanation.metrics.exceeded(bucket.kind), limit)
    return sentences or ["CloudWatch's check of this limit has no datapoint"]
