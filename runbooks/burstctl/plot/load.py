"""A bucket's chronology, read: AWS for what it did, the ledger for what happened to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.timeline.data_gap import DataGapReason
from burstctl.timeline.drawn_bucket import DrawnBucket, drawn_advised, drawn_bucket, drawn_volume, metrics_of
from burstctl.timeline.timeline import Timeline, TimelineInput, build_timeline
from burstctl.timeline.window_intervals import WindowInterval, manual_overrides, window_intervals
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.assess_resource import settled_by_s
from burstwatch.core.assessment.resource_buckets import bucket_kinds_of_type
from burstwatch.core.durations import DAY_S, HOUR_S, format_duration_literal
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.efs.efs_bucket import no_bucket_reason
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT, drain_proof
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import FLEET, LedgerEntry
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_IO,
    describe_class_limit,
    no_class_bucket_reason,
    no_storage_bucket_reason,
)
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport, sort_by_urgency
from burstwatch.engine.collector import Collector
from burstwatch.engine.resource_readers import find_resources
from burstwatch.wiring.bootstrap import build_client
from burstwatch.wiring.settings import SettingsError

BUCKET_NAMES: Final = {"io": INSTANCE_IO.name, "throughput": INSTANCE_THROUGHPUT.name, "storage": RDS_IO.name}
"""The public names of buckets by the words of ``--bucket``: the first two of instances and classes of RDS."""

_WORD_BY_NAME: Final = {name: word for word, name in BUCKET_NAMES.items()}

MAX_SPAN: Final = timedelta(days=454)
"""CloudWatch keeps means of an hour for 455 days."""

_PERIOD_LIMITS: Final = ((timedelta(days=14), 60), (timedelta(days=62), 300), (MAX_SPAN, HOUR_S))
"""Up to how far back CloudWatch still has which period, a day less than it says."""

_LEDGER_LOOKBACK_S: Final = 30 * DAY_S
"""How much earlier the ledger is read: no hold lasts longer, and few flips do."""


class NothingToPlotError(BurstwatchError):
    """There is no picture of this resource; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlot:
    """A chronology with what its picture says in words; ``decision`` is None if the resource is ignored."""

    timeline: Timeline
    decision: Decision | None
    region: str
    ledger: str
    lookback: timedelta
    holds: Sequence[Hold]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]


def load_plot(
    context: CommandContext, resource_id: str, lookback: timedelta, bucket: str | None = None
) -> BucketPlot:
    """Read what is drawn of a bucket, and assess it as every pass does.

    ``bucket`` is one of ``BUCKET_NAMES``; None stands for the bucket that empties first.

    Raises:
    NothingToPlotError: the resource does not exist, could not be read, has no datapoint, or cannot drain.
    """
    context.progress.begin(f"reading {format_duration_literal(lookback)}")
    try:
        return _load(context, resource_id, lookback, bucket)
    finally:
        context.progress.end()


def _load(context: CommandContext, resource_id: str, lookback: timedelta, bucket: str | None) -> BucketPlot:
    services, now_s = context.services, context.services.clock()
    report = assess_volumes(services, [resource_id], now_s=now_s)
    collector = services.build_collector(now_s)
    drawn, decision = _choose_bucket(report, collector, resource_id, bucket)
    period_s = max(
        drawn.kind.period_s,
        next(period_s for max_span, period_s in _PERIOD_LIMITS if lookback <= max_span),
    )
    start_s = int(now_s - lookback.total_seconds()) // period_s * period_s
    inputs = TimelineInput(
        drawn=drawn,
        history=_read_history(context, collector, drawn, start_s, period_s),
        start_s=start_s,
        now_s=now_s,
        assessment=decision.assessment if decision else None,
        state=services.ledger.states_of({drawn.subject}).get(drawn.subject),
        entries=_read_entries(services.ledger, drawn, start_s - _LEDGER_LOOKBACK_S),
        watch_below_pct=services.policy.cadence.watch_below_pct,
    )
    timeline = _build_timeline(context, collector, inputs)
    if (reason := _no_plot_reason(timeline, inputs.assessment, lookback)) is not None:
        raise NothingToPlotError(reason)
    return BucketPlot(
        timeline=timeline,
        decision=decision,
        region=services.location.region,
        ledger=context.ledger_location,
        lookback=lookback,
        holds=[hold for hold in report.holds if hold.applies_to(resource_id, now_s)],
        failures=[*report.failures, *collector.failures],
        metrics_requested=services.calls.metrics_requested,
        api_calls=services.calls.calls,
    )


def _choose_bucket(
    report: PassReport, collector: Collector, resource_id: str, bucket: str | None
) -> tuple[DrawnBucket, Decision | None]:
    """The bucket that is wanted, or else the one that empties first, and the decision about it.

    A resource with the ignore tag has no decision, and the operator may still name it.
    """
    pairs: list[tuple[DrawnBucket, Decision | None]] = [
        (drawn_bucket(decision.assessment), decision) for decision in sort_by_urgency(report.decisions)
    ] or [(drawn, None) for drawn in _describe_ignored(report, collector, resource_id)]
    wanted = [pair for pair in pairs if bucket is None or BUCKET_NAMES[bucket] == pair[0].kind.name]
    if not wanted:
        bucket_options = [
            word for word, name in BUCKET_NAMES.items() if name in {drawn.kind.name for drawn, _ in pairs}
        ]
        raise SettingsError(
            f"--bucket {bucket}: not a bucket of {resource_id}",
            fix=f"give one of {', '.join(bucket_options)}"
            if bucket_options
            else "omit --bucket: it has one bucket",
        )
    reasons = [_no_drain_reason(drawn) for drawn, _ in wanted]
    if None in reasons:
        return wanted[reasons.index(None)]
    drawn, _ = wanted[0]
    claim = f"the {drawn.kind.credits} of {resource_id} cannot"
    if isinstance(drawn.resource, DbInstance):
        claim = f"{resource_id}: the {drawn.kind.credits} cannot"
    if len(wanted) > 1:
        claim = f"no bucket of {resource_id} can"
    proofs = "; ".join(filter(None, dict.fromkeys(reasons)))
    other = next((drawn for drawn, _ in pairs if _no_drain_reason(drawn) is None), None)
    raise NothingToPlotError(
        f"{claim} drain, so nothing can be plotted: {proofs}",
        fix=f"burstctl explain {resource_id}"
        if other is None
        else f"burstctl plot {resource_id} --bucket {_WORD_BY_NAME[other.kind.name]}",
    )


def _no_drain_reason(drawn: DrawnBucket) -> str | None:
    """The proof that the bucket cannot drain; None if it can.

    A gp2 volume that cannot drain is still drawn, with the operations that it serves.

    Raises:
    NothingToPlotError: the limits of an instance or of the class of a database are not known.
    """
    resource = drawn.resource
    if isinstance(resource, FileSystem):
        return no_bucket_reason(resource)
    if isinstance(resource, DbInstance):
        return _no_drain_reason_of_database(resource, drawn)
    if isinstance(resource, Instance):
        proof = drain_proof(resource, drawn.kind)
        if proof is None:
            reason = resource.limits_error or f"EC2 shows none of {resource.instance_type}"
            raise NothingToPlotError(
                f"the EBS limits of {resource.instance_id} are not known: {reason}",
                fix=f"see burstctl explain {resource.instance_id}",
            )
        return proof.describe() if proof.cannot_drain else None
    if drawn.kind is EBS_IO or drawn.bucket is None or drawn.bucket.highest_drain_per_s:
        return None
    maximum = f"{drawn.bucket.burst_per_s:,.10g} {drawn.kind.rate_unit}"
    return f"{resource.size_gib:,} GiB of {resource.volume_type} sustain their maximum of {maximum}"


def _no_drain_reason_of_database(database: DbInstance, drawn: DrawnBucket) -> str | None:
    if drawn.kind is RDS_IO:
        return no_storage_bucket_reason(database)
    if database.limits_error is not None:
        raise NothingToPlotError(
            f"the EBS limits of {database.instance_class} are not known: {database.limits_error}",
            fix=f"see burstctl explain {database.resource_id}",
        )
    if reason := no_class_bucket_reason(database, database.limits):
        return reason
    if drawn.bucket is None or drawn.bucket.highest_drain_per_s:
        return None
    return describe_class_limit(database, drawn.kind)


def _describe_ignored(report: PassReport, collector: Collector, resource_id: str) -> list[DrawnBucket]:
    """The buckets of a resource that no decision is about."""
    resource_type = type_of_id(resource_id)
    if report.ignored and resource_type is not ResourceType.EBS:
        resources, _ = find_resources(collector, [resource_id])
        if resources:
            return [drawn_advised(resources[0], kind) for kind in bucket_kinds_of_type(resource_type)]
    elif report.ignored:
        volumes, _ = collector.volumes_by_id([resource_id])
        if volumes:
            return [drawn_volume(volumes[0])]
    if resource_id in report.missing:
        noun = resource_type.noun
        raise NothingToPlotError(
            f"no {noun} {resource_id} in {report.region}",
            fix=f"check the ID, the Region and the account; for the events of a deleted {noun}, run"
            f" burstctl history {resource_id}",
        )
    problem = Problem.of(next(iter([*report.failures, *collector.failures]), "AWS does not describe it"))
    raise _unread_error(resource_id, problem)


def _read_history(
    context: CommandContext, collector: Collector, drawn: DrawnBucket, start_s: int, period_s: int
) -> MetricHistory:
    """What CloudWatch has of it up to the last closed period."""
    client = build_client(context.session, "cloudwatch", context.services.calls)
    reader = HistoryReader(
        client, period_s=period_s, workers=1, metrics=metrics_of(drawn.kind), kind=drawn.kind
    )
    end_s = int(settled_by_s(drawn.kind, collector.now_s)) // period_s * period_s
    metric_id = drawn.resource.metric_id
    [part] = reader.read([metric_id], start_s, end_s)
    collector.failures += [f"cloudwatch:GetMetricData returned: {text}" for text in part.messages]
    if metric_id in part.unread:
        raise _unread_error(f"the history of {drawn.resource_id}", part.unread[metric_id].problem)
    return part.histories[metric_id]


def _unread_error(subject: str, problem: Problem) -> NothingToPlotError:
    return NothingToPlotError(f"{subject} could not be read: {problem.cause}", fix=problem.fix)


def _read_entries(ledger: Ledger, drawn: DrawnBucket, since_s: int) -> list[LedgerEntry]:
    """What the ledger has of the bucket, its resource and everything."""
    subjects = dict.fromkeys((drawn.subject, drawn.resource_id, FLEET))
    entries = [entry for subject in subjects for entry in ledger.entries(subject, since_s=since_s)]
    return sorted(entries, key=lambda ledger_entry: ledger_entry.at_s)


def _build_timeline(context: CommandContext, collector: Collector, inputs: TimelineInput) -> Timeline:
    """The timeline; AWS is asked about modifications only if a balance is missing without a known one."""
    draft, resource = build_timeline(inputs), inputs.drawn.resource
    if not isinstance(resource, Volume):
        return draft
    modification = None
    if any(gap.reason in (DataGapReason.GAP, DataGapReason.OTHER_TYPE) for gap in draft.gaps):
        modification = collector.modifications([resource.volume_id])[0].get(resource.volume_id)
    windows = _window_intervals(context, resource, inputs.start_s, draft.end_s)
    return build_timeline(replace(inputs, modification=modification, windows=windows))


def _window_intervals(
    context: CommandContext, volume: Volume, start_s: float, end_s: float
) -> list[WindowInterval]:
    policy, ledger = context.services.policy, context.services.ledger
    names = window_names_of(policy.windows, volume)
    overrides = {name: manual_overrides(ledger.entries(f"window {name}"), name) for name in names}
    return window_intervals(policy.windows, names, overrides, start_s, end_s)


def _no_plot_reason(timeline: Timeline, assessment: Assessment | None, lookback: timedelta) -> Problem | None:
    """Why there can be no picture of it; None if there can."""
    drawn, lookback_text = timeline.drawn, format_duration_literal(lookback)
    resource, resource_id = drawn.resource, drawn.resource_id
    if isinstance(resource, Volume) and not (
        drawn.has_credits or timeline.balance or timeline.target_intervals
    ):
        return Problem(
            f"{resource_id} is {resource.volume_type} and had no other type in the last {lookback_text}:"
            " it has no burst credits, so nothing can be plotted",
            f"if it was gp2 before that, give a longer --last; otherwise see burstctl which {resource_id}",
        )
    if not timeline.has_no_metrics:
        return None
    text = f"CloudWatch has no datapoint of {resource_id} in the last {lookback_text}"
    if not isinstance(resource, Volume) and assessment is not None and assessment.unknown_because:
        return Problem(f"{text}: {assessment.unknown_because}", "a longer --last may show more")
    if isinstance(resource, Volume) and not resource.attached:
        return Problem(f"{text}: it is detached", "give a longer --last to see when it was in use")
    condition = "attached"
    if isinstance(resource, Instance | FileSystem):
        condition = resource.state
    elif isinstance(resource, DbInstance):
        condition = resource.status
    return Problem(
        f"{text}, though it is {condition}",
        f"burstctl explain {resource_id} says why, and a longer --last may show more",
    )
