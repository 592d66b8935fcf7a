"""From the buckets of instances that are due to a decision about each."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.alerts.drain_message import describe_drain_cause
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.assess_instance import InstanceReading, assess_instance
from burstwatch.core.assessment.drain_cause import DrainMetrics
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT, instance_bucket
from burstwatch.core.instances.instance_metrics import InstanceMetrics, highest_load
from burstwatch.core.instances.larger_type import larger_types
from burstwatch.core.ledger.flip_state import silencing_hold
from burstwatch.core.resource_type import is_volume_subject, resource_id_in
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.watch.advice import advise_instance
from burstwatch.core.watch.decide import conclude, evaluate_volume
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.due_instances import DueBucket, buckets_of
from burstwatch.core.watch.witness import describe_instance_witness
from burstwatch.engine.evaluate_volumes import (
    WatchPass,
    drop_missing,
    drop_state_of,
    isolate_errors,
    release_samples,
    unreadable_decision,
)

_CHUNK_SIZE: Final = 5_000
"""Buckets assessed before their samples are let go, as for volumes."""


def evaluate_instances(watch_pass: WatchPass, due: Iterable[DueBucket]) -> None:
    """Read, assess and decide, chunk by chunk; an instance that is tagged to be ignored is forgotten."""
    watched: list[DueBucket] = []
    for due_bucket in due:
        if due_bucket.subject in watch_pass.states.unreadable:
            assessment = _assess(watch_pass, due_bucket, InstanceReading())
            watch_pass.decisions.append(unreadable_decision(watch_pass, assessment))
        elif IGNORE in due_bucket.instance.tags and watch_pass.settings_of(due_bucket.instance).is_ignored:
            if due_bucket.kind is INSTANCE_IO:
                watch_pass.ignored.append(due_bucket.instance.instance_id)
            drop_state_of(watch_pass, due_bucket.subject, f"it is tagged {IGNORE}")
        else:
            watched.append(due_bucket)
    remaining = iter(watched)
    while (chunk := list(islice(remaining, _CHUNK_SIZE))) and not watch_pass.services.should_stop():
        watch_pass.collector.heartbeat()
        watch_pass.decisions += _evaluate_chunk(watch_pass, chunk)


def read_remembered_buckets(watch_pass: WatchPass, subjects: Iterable[str]) -> list[DueBucket]:
    """The buckets with these keys in the ledger, described by ID; those of gone instances are forgotten."""
    wanted = {subject for subject in subjects if not is_volume_subject(subject)}
    if not wanted:
        return []
    if not watch_pass.services.policy.resources.instance.watch:
        for subject in wanted:
            drop_state_of(watch_pass, subject, "instances are not watched any more")
        return []
    instance_ids = {resource_id_in(subject) for subject in wanted}
    instances, missing = watch_pass.collector.instances_by_id(instance_ids)
    missing_ids = set(missing)
    drop_missing(watch_pass, [subject for subject in wanted if resource_id_in(subject) in missing_ids])
    return [due for due in buckets_of(instances) if due.subject in wanted]


def _evaluate_chunk(watch_pass: WatchPass, chunk: Sequence[DueBucket]) -> list[Decision]:
    collector = watch_pass.collector
    balances = collector.instance_balances(chunk)
    buckets = {due_bucket.subject: due_bucket for due_bucket in chunk}
    readings: dict[str, InstanceReading] = {}
    assessments: dict[str, Assessment] = {}

    def assess_again(subject: str, reading: InstanceReading) -> None:
        readings[subject] = reading
        with isolate_errors(watch_pass, subject):
            assessments[subject] = _assess(watch_pass, buckets[subject], reading)

    for subject, due_bucket in buckets.items():
        assess_again(subject, _reading(watch_pass, due_bucket, balances.get(subject)))
    # A metric that is missing while the instance publishes others is one that its type does not have.
    silent = [
        subject
        for subject, assessment in assessments.items()
        if assessment.unknown_reason is UnknownReason.TELEMETRY_GAP and not readings[subject].was_seen
    ]
    gap_s = watch_pass.services.policy.telemetry.gap_after.total_seconds()
    active_ids = collector.active_instances(sorted(set(map(resource_id_in, silent))), gap_s)
    for subject in silent:
        is_active = resource_id_in(subject) in active_ids
        assess_again(subject, replace(readings[subject], publishes_others=is_active))
    levels = {subject: _classify(watch_pass, assessment) for subject, assessment in assessments.items()}
    # The load, and the second witnesses, only of instances in trouble.
    troubled_ids = {resource_id_in(subject) for subject, level in levels.items() if level.is_alerting}
    metrics = collector.instance_metrics(sorted(troubled_ids))
    for subject, level in levels.items():
        if level.is_alerting:
            load = metrics[resource_id_in(subject)].load_of(buckets[subject].kind)
            assess_again(subject, replace(readings[subject], load=load))
    decisions: list[Decision] = []
    for subject, assessment in assessments.items():
        with isolate_errors(watch_pass, subject):
            known_metrics = metrics.get(buckets[subject].instance.instance_id)
            decisions.append(
                _decide(watch_pass, buckets[subject], assessment, levels[subject], known_metrics)
            )
    return decisions


def _decide(
    watch_pass: WatchPass,
    due_bucket: DueBucket,
    assessment: Assessment,
    level: Level,
    metrics: InstanceMetrics | None,
) -> Decision:
    hold = silencing_hold(watch_pass.holds, due_bucket.instance.instance_id, watch_pass.context.now_s)
    context = VolumeContext(silencing_hold=hold)
    if metrics is not None and level.is_alerting:
        context = VolumeContext(
            silencing_hold=hold,
            advice=_advise(watch_pass, due_bucket.instance, assessment, metrics),
            witness=describe_instance_witness(
                assessment,
                metrics.exceeded(due_bucket.kind),
                wanted_lead=watch_pass.services.policy.resources.instance.act_lead,
                policy=watch_pass.policy_of(assessment),
            ),
        )
    result = evaluate_volume(
        assessment,
        watch_pass.states.get(due_bucket.subject),
        watch_pass.settings_of(due_bucket.instance),
        policy=watch_pass.policy_of(assessment),
        context=watch_pass.context,
        volume_context=context,
        classified=level,
    )
    if isinstance(result, Decision):
        return release_samples(watch_pass, result)
    drain, cause = result.unexplained_drain, None
    if drain is not None and metrics is not None:
        drain_metrics = DrainMetrics(
            read_ops=metrics.read_ops,
            write_ops=metrics.write_ops,
            read_bytes=metrics.read_bytes,
            write_bytes=metrics.write_bytes,
        )
        cause = describe_drain_cause(drain, drain_metrics, now_s=watch_pass.context.now_s)
    return release_samples(watch_pass, conclude(result, cause))


def _advise(
    watch_pass: WatchPass, instance: Instance, assessment: Assessment, metrics: InstanceMetrics
) -> Recommendation | None:
    if instance.limits is None:
        return None
    load = highest_load(metrics.load_of(INSTANCE_IO), metrics.load_of(INSTANCE_THROUGHPUT))
    types = larger_types(instance.limits, load, watch_pass.collector.larger_types(instance.instance_type))
    return advise_instance(assessment, instance, load, types, watch_pass.services.location)


def _reading(
    watch_pass: WatchPass, due_bucket: DueBucket, series_or_failure: Series | AwsFailure | None
) -> InstanceReading:
    now_s, state = int(watch_pass.context.now_s), watch_pass.states.get(due_bucket.subject)
    since_s = now_s - watch_pass.services.policy.telemetry.too_new.total_seconds()
    arrived_at_s = state.presence.arrived_at_s if state else None
    if arrived_at_s is not None and arrived_at_s <= since_s:
        arrived_at_s = None
    return InstanceReading(
        balance=series_or_failure if isinstance(series_or_failure, Series) else None,
        read_error=str(series_or_failure) if isinstance(series_or_failure, AwsFailure) else None,
        arrived_at_s=now_s if due_bucket.has_arrived else arrived_at_s,
        was_seen=state is not None and state.reading.balance_at_s is not None,
    )


def _assess(watch_pass: WatchPass, due_bucket: DueBucket, reading: InstanceReading) -> Assessment:
    bucket = instance_bucket(due_bucket.instance, due_bucket.kind)
    policy = watch_pass.services.policy
    if bucket is not None:
        policy = watch_pass.policies.of(due_bucket.kind, bucket)
    return assess_instance(
        due_bucket.instance,
        due_bucket.kind,
        reading,
        now_s=watch_pass.context.now_s,
        telemetry=policy.telemetry,
    )


def _classify(watch_pass: WatchPass, assessment: Assessment) -> Level:
    state = watch_pass.states.get(assessment.subject)
    return classify(assessment, state.level if state else Level.OK, watch_pass.policy_of(assessment))
