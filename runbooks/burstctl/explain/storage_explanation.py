"""A file system or a database with every number behind its buckets, in words and as a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, Topic, lay_out_topics
from burstctl.explain.bucket_topics import describe_look, describe_next_levels, forecast_topics, rate_text
from burstctl.explain.explanation import SCHEMA
from burstctl.explain.instance_explanation import (
    NEVER_TAKES_CREDITS,
    ExplainedBucket,
    bucket_document,
    describe_bucket_level,
    describe_lead,
    describe_mode,
    describe_step,
    ledger_topics,
    urgent_lines,
)
from burstctl.render.pass_summary import describe_hold
from burstctl.render.plan_json import hold_document
from burstctl.render.volume import format_id_and_name
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.buckets.units import format_rate, format_size
from burstwatch.core.definition import DefinitionChange
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket, limit_when_empty_per_s
from burstwatch.core.efs.efs_text import describe_efs_outlook, describe_metered_load
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.efs.mode_recommendation import ModeOption
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_IO,
    describe_class_limit,
    describe_cpu_credits,
    describe_rds_outlook,
    gp2_storage_mib_s,
)
from burstwatch.core.rds.storage_recommendation import NoStorageChange
from burstwatch.core.text import format_instant, sanitise
from burstwatch.core.watch.efs_evidence import EfsEvidence
from burstwatch.core.watch.pass_report import describe_database, describe_file_system
from burstwatch.core.watch.rds_evidence import RdsEvidence
from burstwatch.core.watch.witness import capitalise, limits_sentences

if TYPE_CHECKING:
    from documents.explanation import (
        ExplainedStorageFieldsDocument,
        ModeOptionDocument,
        StorageChangeDocument,
    )

StorageEvidence: TypeAlias = EfsEvidence | RdsEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageExplanation:
    """The decisions about the buckets of a resource, the most urgent first, and what they rest on.

    ``evidence`` is what was read besides the balances; None if no bucket has credits.
    """

    resource: FileSystem | DbInstance
    buckets: Sequence[ExplainedBucket]
    now_s: float
    region: str
    evidence: StorageEvidence | None = None
    holds: Sequence[Hold] = ()

    @property
    def is_unread(self) -> bool:
        return any(bucket.is_unread for bucket in self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What is recommended, as text; ``options`` are the throughput modes of a file system."""

    action: str
    reasons: Sequence[str]
    cautions: Sequence[str] = ()
    options: Sequence[ModeOption] = ()
    definition: DefinitionChange | None = None


def render_storage(explanation: StorageExplanation, *, verbose: bool) -> str:
    """What is urgent, the resource with what serves its load, and a paragraph for each bucket."""
    urgent = urgent_lines(explanation.buckets)
    parts = ["\n".join(urgent)] if urgent else []
    parts.append(lay_out_topics(_headline(explanation.resource), _resource_topics(explanation)))
    for bucket in explanation.buckets:
        headline = f"{bucket.kind.credits} ({bucket.kind.name}, {bucket.kind.metric})"
        parts.append(lay_out_topics(headline, _bucket_topics(explanation, bucket, verbose=verbose)))
    return "\n\n".join(parts)


def to_document(explanation: StorageExplanation) -> "ExplainedStorageFieldsDocument":
    """The explanation as ``--json`` prints it."""
    decisions = [bucket.decision for bucket in explanation.buckets]
    outcome = Outcome(status=OutcomeStatus.NONE)
    is_file_system = isinstance(explanation.resource, FileSystem)
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(explanation.now_s),
        "volume": None,
        "instance": None,
        "file_system": describe_file_system(decisions, outcome) if is_file_system else None,
        "database": None if is_file_system else describe_database(decisions, outcome),
        "change": _change_document(_recommended_change(explanation)),
        "buckets": [bucket_document(bucket) for bucket in explanation.buckets],
        "holds": [hold_document(hold) for hold in explanation.holds],
    }


def _change_document(change: _Change | None) -> "StorageChangeDocument | None":
    if change is None:
        return None
    definition = change.definition
    return {
        "action": change.action,
        "reasons": list(change.reasons),
        "cautions": list(change.cautions),
        "options": [_option_document(option) for option in change.options],
        "definition": None
        if definition is None
        else {
            "terraform": definition.terraform,
            "cloudformation": definition.cloudformation,
            "cdk": definition.cdk,
        },
    }


def _option_document(option: ModeOption) -> "ModeOptionDocument":
    return {
        "mode": option.mode,
        "provisioned_mib_s": option.provisioned_mib_s,
        "usd_per_month": round(option.usd_per_month, 2),
        "highest_usd_per_month": None
        if option.highest_usd_per_month is None
        else round(option.highest_usd_per_month, 2),
        "serves_load": option.serves_load,
        "because": option.reason,
    }


def _headline(resource: FileSystem | DbInstance) -> str:
    if isinstance(resource, FileSystem):
        provisioned = (
            f" with {resource.provisioned_mib_s:,.10g} MiB/s"
            if resource.provisioned_mib_s is not None
            else ""
        )
        mode = f"{resource.throughput_mode}{provisioned}"
        zone = f", One Zone in {resource.zone}" if resource.zone else ""
        parts = f"{mode}, {format_size(resource.standard_bytes)} in Standard{zone}, {resource.state}"
    else:
        storage = f"{resource.storage_type} {resource.allocated_gib:,} GiB"
        replica = f", replica of {resource.replica_of}" if resource.replica_of else ""
        parts = f"{resource.engine}, {resource.instance_class}, {storage}, {resource.status}{replica}"
    return sanitise(f"{format_id_and_name(resource)}, {parts}", MAX_SENTENCE_LENGTH)


def _resource_topics(explanation: StorageExplanation) -> list[Topic]:
    resource, evidence = explanation.resource, explanation.evidence
    topics: list[Topic] = [
        ("Mode", describe_mode(resource, explanation.buckets[0])),
        ("Hold", [describe_hold(hold, explanation.now_s) for hold in explanation.holds]),
    ]
    if evidence is not None:
        topics.append(("Load", _describe_load(evidence)))
    if (change := _recommended_change(explanation)) is not None:
        topics += [
            ("Options", [_describe_option(option) for option in change.options]),
            ("Change", [change.action, *change.reasons]),
            ("Caution", list(change.cautions)),
        ]
        if change.definition is not None:
            topics.append(("As code", change.definition.terraform.splitlines()))
    return topics


def _describe_load(evidence: StorageEvidence) -> list[str]:
    """What it did in the last day, in people's units."""
    if isinstance(evidence, EfsEvidence):
        load = evidence.load
        if load is None:
            return ["its load could not be read"]
        rates = load.read_bytes / load.duration_s, load.written_bytes / load.duration_s
        throttled = ["It was without credits at some time, so more may have been wanted"]
        return [
            *evidence.recent_load_sentences(),
            f"On average of {evidence.load_span} {describe_metered_load(*rates)}",
            f"Its busiest five minutes had {format_rate(load.peak_metered_per_s)} metered",
            *(throttled if load.was_throttled else []),
        ]
    storage = evidence.storage_load
    lines = ["its load could not be read"]
    if storage.peak_mib_s is not None:
        lines = [f"Its busiest minute of a day had {round(storage.peak_mib_s, 1):,.10g} MiB/s"]
    if storage.free_bytes is not None:
        lines.append(f"{format_size(storage.free_bytes)} of its storage are free")
    newest = evidence.series["cpu_credits"].newest if "cpu_credits" in evidence.series else None
    cpu = describe_cpu_credits(evidence.database, newest.value if newest else None)
    return [*lines, *([cpu] if cpu else [])]


def _recommended_change(explanation: StorageExplanation) -> _Change | None:
    """What serves the load; None if that was not read."""
    evidence = explanation.evidence
    if isinstance(evidence, EfsEvidence):
        by_day, mode = evidence.mode_recommendation(), evidence.recommended_change()
        if by_day is None or mode is None:
            return None
        if_it_lasts = evidence.lasting_sentence()
        return _Change(
            action=f"{mode.command} --region {explanation.region}" if mode.command else "leave it as it is",
            reasons=[
                capitalise(by_day.reason) if mode == by_day else evidence.day_sentence(by_day, mode),
                *([capitalise(mode.blocked)] if mode.blocked else []),
                *([if_it_lasts] if if_it_lasts else []),
            ],
            cautions=mode.cautions,
            options=by_day.options,
            definition=mode.definition,
        )
    if evidence is None:
        return None
    change = evidence.storage_recommendation()
    if isinstance(change, NoStorageChange):
        return _Change(action=change.next_step, reasons=[capitalise(change.reason)])
    first = evidence.class_first(explanation.region)
    command = f"{change.command} --region {explanation.region}"
    return _Change(
        action=command if first is None else first.action,
        reasons=[
            *([] if first is None else [*first.reasons, f"Only then the storage: {command}"]),
            *change.reasons,
            f"It costs {change.price}.",
            f"After the change: {change.tightest_bucket.removeprefix('None: ')}",
        ],
        cautions=change.cautions,
        definition=change.definition,
    )


def _describe_option(option: ModeOption) -> str:
    verdict = "serves it" if option.serves_load else "does not serve it"
    return f"{option}: {option.price} a month, {verdict}: {option.reason}"


def _bucket_topics(explanation: StorageExplanation, bucket: ExplainedBucket, *, verbose: bool) -> list[Topic]:
    topics: list[Topic] = [
        ("Level", [describe_bucket_level(bucket)]),
        ("Next step", _describe_step(bucket)),
        ("Limits", _describe_limits(explanation.resource, bucket)),
        ("Proof", _describe_proof(bucket.assessment)),
        *forecast_topics(bucket, verbose=verbose),
    ]
    if bucket.assessment.forecast is not None:
        topics += [
            ("Outlook", _describe_outlook(explanation.resource, bucket)),
            ("Lead", describe_lead(bucket)),
            ("Next", describe_next_levels(bucket) if verbose else []),
        ]
    topics.append(("Look", describe_look(bucket) if verbose else []))
    return [*topics, *ledger_topics(bucket, verbose=verbose)]


def _describe_step(bucket: ExplainedBucket) -> list[str]:
    """What a person can do; what serves the load is shown with the resource already."""
    has_advice = bucket.decision.recommendation is not None and bucket.kind in (EFS_BYTES, RDS_IO)
    return ["you: the change above"] if has_advice else describe_step(bucket)


def _describe_limits(resource: FileSystem | DbInstance, bucket: ExplainedBucket) -> list[str]:
    """What it sustains and what it bursts to, and where the numbers come from."""
    assessment = bucket.assessment
    if (unknown := limits_sentences(assessment)) and assessment.forecast is not None:
        return unknown
    if not assessment.bucket.is_known or (assessment.forecast is None and not assessment.is_fault):
        return []
    sustained = rate_text(assessment, assessment.bucket.refill_per_s)
    burst = rate_text(assessment, assessment.bucket.burst_per_s)
    if isinstance(resource, FileSystem):
        earned = efs_bucket(resource.standard_bytes).refill_per_s
        least = format_rate(limit_when_empty_per_s(resource.standard_bytes))
        stored = format_size(resource.standard_bytes)
        earns = f"{stored} in Standard earn {format_rate(earned)}, at 50 KiB/s for each GiB"
        return [
            f"{earns}; without credits {least} are left",
            f"It bursts to {burst} while it has credits; reads count one third",
        ]
    if bucket.kind is RDS_IO:
        count = resource.volume_count
        volumes = "one volume" if count == 1 else f"{count} volumes, striped"
        return [
            f"{resource.allocated_gib:,} GiB of gp2 ({volumes}) sustain {sustained} and burst to {burst}",
            f"Its throughput is at most {gp2_storage_mib_s(resource):,} MiB/s",
        ]
    limit = describe_class_limit(resource, bucket.kind)
    return [
        f"{resource.instance_class} sustains {sustained}; its volumes can take it to {burst}",
        *([capitalise(limit)] if limit else []),
    ]


def _describe_proof(assessment: Assessment) -> list[str]:
    """Why a bucket that is not read cannot become empty."""
    if assessment.unknown_reason is not UnknownReason.NEVER_EMPTY or assessment.unknown_because is None:
        return []
    return [capitalise(assessment.unknown_because), NEVER_TAKES_CREDITS]


def _describe_outlook(resource: FileSystem | DbInstance, bucket: ExplainedBucket) -> list[str]:
    """When it is empty, what then remains, and how long it takes to refill."""
    forecast = bucket.assessment.forecast
    if forecast is None or forecast.soonest_empty_s is None:
        return []
    if isinstance(resource, FileSystem):
        text = describe_efs_outlook(resource.standard_bytes, forecast)
    elif bucket.kind is RDS_IO:
        text = describe_rds_outlook(resource, forecast)
    else:
        return []
    return [capitalise(text)]
