"""From the buckets of resources other than volumes that are due to a decision about each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Final

from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.alerts.drain_message import describe_drain_cause
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.assess_resource import (
    NO_METRIC_AFTER_S,
    BucketReading,
    assess_resource,
)
from burstwatch.core.assessment.resource import AdvisedResource, lasting_id_of
from burstwatch.core.assessment.resource_buckets import bucket_kinds_of, started_at
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import Series
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import silencing_hold
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.bucket_policy import wanted_lead
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.resource_type import ResourceType, is_volume_subject, resource_id_in, type_of_id
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.watch.changed_class import forget_other_class
from burstwatch.core.watch.decide import conclude, evaluate_volume
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.evidence import Evidence
from burstwatch.core.watch.polling.due_buckets import DueBucket, buckets_of
from burstwatch.engine.collector import Collector
from burstwatch.engine.evaluate_volumes import (
    drop_missing,
    drop_state_of,
    release_samples,
    unreadable_decision,
)
from burstwatch.engine.follow_renames import follow_renames
from burstwatch.engine.pass_state import WatchPass, isolate_errors, record_internal_error, record_stop
from burstwatch.engine.resource_readers import (
    ADVISED_KINDS,
    find_resources,
    list_resources,
    read_evidence,
)

_CHUNK_SIZE: Final = 5_000
"""Buckets assessed before their samples are let go, as for volumes."""


def list_buckets(watch_pass: WatchPass) -> list[DueBucket]:
    """Every bucket of the kinds that are watched; those of a kind that cannot be listed are left out.

    The kinds left out are in ``unread_kinds`` of the collector.
    """
    watched = watch_pass.services.policy.resources.watched
    buckets: list[DueBucket] = []
    for kind in ADVISED_KINDS:
        if kind not in watched:
            continue
        resources: Sequence[AdvisedResource] | None = None
        waiting: AbstractSet[str] = frozenset()
        with _isolate_kind(watch_pass, kind):
            resources = list_resources(watch_pass.collector, kind)
            if resources is not None:
                subjects_of_kind = [s for s in watch_pass.states if type_of_id(s) is kind]
                renames = follow_renames(watch_pass, resources, subjects_of_kind)
                waiting = renames.waiting_subjects
                resources = [*resources, *renames.databases]
        if resources is None:
            watch_pass.collector.unread_kinds.add(kind)
        buckets += (due for due in buckets_of(resources or ()) if due.subject not in waiting)
    return buckets


def evaluate_resources(watch_pass: WatchPass, due: Iterable[DueBucket]) -> None:
    """Read, assess and decide, chunk by chunk; a resource that is tagged to be ignored is forgotten."""
    watched: list[DueBucket] = []
    for due_bucket in due:
        resource = due_bucket.resource
        if due_bucket.subject in watch_pass.states.unreadable:
            assessment = _assess(watch_pass, due_bucket, BucketReading())
            watch_pass.decisions.append(unreadable_decision(watch_pass, assessment))
        elif IGNORE in resource.tags and watch_pass.settings_of(resource).is_ignored:
            if due_bucket.kind is bucket_kinds_of(resource)[0]:
                watch_pass.ignored.append(resource.resource_id)
            drop_state_of(watch_pass, due_bucket.subject, f"it is tagged {IGNORE}")
        else:
            watched.append(due_bucket)
    remaining = iter(watched)
    while chunk := list(islice(remaining, _CHUNK_SIZE)):
        if watch_pass.services.should_stop():
            record_stop(watch_pass, len(chunk) + sum(1 for _ in remaining), "bucket")
            break
        watch_pass.collector.heartbeat()
        watch_pass.decisions += _evaluate_chunk(watch_pass, chunk)


def read_remembered_buckets(
    watch_pass: WatchPass, subjects: Iterable[str], *, unread_kinds: AbstractSet[ResourceType] = frozenset()
) -> list[DueBucket]:
    """The buckets with these keys in the ledger, described by ID; those of gone resources are forgotten.

    Those of ``unread_kinds`` are left as they are.
    """
    wanted: dict[ResourceType, set[str]] = {}
    watched_kinds = watch_pass.services.policy.resources.watched
    for subject in subjects:
        kind = type_of_id(subject)
        if is_volume_subject(subject) or kind in unread_kinds:
            continue
        if kind in watched_kinds:
            wanted.setdefault(kind, set()).add(subject)
        else:
            drop_state_of(watch_pass, subject, f"{kind.noun}s are not watched any more")
    buckets: list[DueBucket] = []
    for kind, subjects_of_kind in wanted.items():
        with _isolate_kind(watch_pass, kind):
            resources, missing = find_resources(
                watch_pass.collector, {resource_id_in(subject) for subject in subjects_of_kind}
            )
            missing_ids = set(missing)
            renames = follow_renames(watch_pass, resources, subjects_of_kind)
            readable = subjects_of_kind - renames.waiting_subjects
            drop_missing(watch_pass, [s for s in readable if resource_id_in(s) in missing_ids])
            buckets += (due for due in buckets_of(resources) if due.subject in readable)
            buckets += (due for due in buckets_of(renames.databases) if is_own_state(watch_pass, due))
    return buckets


def is_own_state(watch_pass: WatchPass, due_bucket: DueBucket) -> bool:
    """Whether its state is known, and is not that of the database that had its name before."""
    state = watch_pass.states.get(due_bucket.subject)
    return state is not None and state.lasting_id == lasting_id_of(due_bucket.resource)


def _evaluate_chunk(watch_pass: WatchPass, chunk: Sequence[DueBucket]) -> list[Decision]:
    collector = watch_pass.collector
    balances = collector.bucket_balances(chunk)
    buckets = {due_bucket.subject: due_bucket for due_bucket in chunk}
    readings: dict[str, BucketReading] = {}
    assessments: dict[str, Assessment] = {}

    def assess_again(subject: str, reading: BucketReading) -> None:
        readings[subject] = reading
        with isolate_errors(watch_pass, subject):
            assessments[subject] = _assess(watch_pass, buckets[subject], reading)

    _forget_other_classes(watch_pass, chunk)
    for subject, due_bucket in buckets.items():
        assess_again(subject, _reading(watch_pass, due_bucket, balances.get(subject)))
    missing = [
        buckets[subject]
        for subject, assessment in assessments.items()
        if assessment.unknown_reason is UnknownReason.TELEMETRY_GAP
        and not _has_known_balance(watch_pass.states.get(subject), buckets[subject].resource)
    ]
    gap_after = watch_pass.services.policy.telemetry.gap_after
    for subject, reading in read_whether_published(collector, missing, readings, gap_after=gap_after).items():
        assess_again(subject, reading)
    levels = {
        subject: _classify(watch_pass, buckets[subject], assessment)
        for subject, assessment in assessments.items()
    }
    # The load, and the second witnesses, only of resources in trouble.
    evidence = _read_evidence(
        watch_pass,
        [
            buckets[subject].resource
            for subject, level in levels.items()
            if level.is_alerting and watch_pass.shows_evidence(assessments[subject], level)
        ],
    )
    for subject, level in levels.items():
        known = evidence.get(resource_id_in(subject))
        if level.is_alerting and known is not None:
            load = known.load_of(buckets[subject].kind)
            assess_again(subject, replace(readings[subject], load=load))
    decisions: list[Decision] = []
    for subject, assessment in assessments.items():
        with isolate_errors(watch_pass, subject):
            known = evidence.get(resource_id_in(subject))
            decisions.append(_decide(watch_pass, buckets[subject], assessment, levels[subject], known))
    return decisions


def _forget_other_classes(watch_pass: WatchPass, due: Iterable[DueBucket]) -> None:
    states, now_s = watch_pass.states, watch_pass.context.now_s
    for due_bucket in due:
        if (state := states.get(due_bucket.subject)) is not None:
            resource, kind = due_bucket.resource, due_bucket.kind
            states[due_bucket.subject] = forget_other_class(state, resource, kind, now_s)


def _read_evidence(watch_pass: WatchPass, troubled: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
    """What else is known of these resources, by ID; no alert is lost over what goes wrong here."""
    evidence: dict[str, Evidence] = {}
    for kind in ADVISED_KINDS:
        with _isolate_kind(watch_pass, kind):
            resources = [resource for resource in troubled if resource.resource_type is kind]
            evidence |= read_evidence(watch_pass.collector, resources)
    return evidence


@contextmanager
def _isolate_kind(watch_pass: WatchPass, kind: ResourceType) -> Iterator[None]:
    """Let an internal error about one kind fail the pass without hiding the other kinds."""
    try:
        yield
    except BurstwatchError:  # such as a lost lease: the whole pass is concerned
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, other kinds must be looked at; it is reported
        record_internal_error(watch_pass, f"not all {kind.noun}s were evaluated", error)


def _decide(
    watch_pass: WatchPass,
    due_bucket: DueBucket,
    assessment: Assessment,
    level: Level,
    evidence: Evidence | None,
) -> Decision:
    resource, kind, services = due_bucket.resource, due_bucket.kind, watch_pass.services
    hold = silencing_hold(watch_pass.holds, resource.resource_id, watch_pass.context.now_s)
    context = VolumeContext(silencing_hold=hold)
    if evidence is not None and level.is_alerting:
        context = VolumeContext(
            silencing_hold=hold,
            advice=evidence.advise(assessment, services.location),
            witness=evidence.witness(
                assessment,
                wanted_lead=wanted_lead(services.policy, kind),
                policy=watch_pass.policy_of(assessment),
            ),
        )
    result = evaluate_volume(
        assessment,
        watch_pass.states.get(due_bucket.subject),
        watch_pass.settings_of(resource),
        policy=watch_pass.policy_of(assessment),
        context=watch_pass.context,
        volume_context=context,
        classified=level,
    )
    if isinstance(result, Decision):
        return release_samples(watch_pass, result)
    drain, cause = result.unexplained_drain, None
    metrics = evidence.drain_metrics(kind) if evidence is not None else None
    if drain is not None and metrics is not None:
        cause = describe_drain_cause(drain, metrics, now_s=watch_pass.context.now_s)
    return release_samples(watch_pass, conclude(result, cause))


def _reading(
    watch_pass: WatchPass, due_bucket: DueBucket, series_or_failure: Series | AwsFailure | None
) -> BucketReading:
    now_s, state = int(watch_pass.context.now_s), watch_pass.states.get(due_bucket.subject)
    since_s = now_s - watch_pass.services.policy.telemetry.too_new.total_seconds()
    arrived_at_s = state.presence.arrived_at_s if state else None
    if arrived_at_s is not None and arrived_at_s <= since_s:
        arrived_at_s = None
    named_at_s = _named_at_s(watch_pass, due_bucket.resource)
    # A sweep takes a database with another name for a new one, but its level is known.
    has_arrived = due_bucket.has_arrived and not (named_at_s is not None and named_at_s > since_s)
    is_known_silent = _is_known_silent(state, due_bucket)
    changes_s = [at_s for at_s in (named_at_s, state.class_since_s if state else None) if at_s is not None]
    return BucketReading(
        balance=series_or_failure if isinstance(series_or_failure, Series) else None,
        read_error=series_or_failure.problem if isinstance(series_or_failure, AwsFailure) else None,
        arrived_at_s=now_s if has_arrived or _has_started(state, due_bucket) else arrived_at_s,
        changed_at_s=max(changes_s, default=None),
        earlier=Series() if is_known_silent else None,
        publishes_others=True if is_known_silent else None,
    )


def _has_started(state: ResourceState | None, due_bucket: DueBucket) -> bool:
    """Whether a database starts, or did since the last poll: RDS does not show when that was."""
    resource = due_bucket.resource
    if isinstance(resource, DbInstance) and resource.is_starting:
        return True
    was_stopped = state is not None and state.reading.unknown_reason is UnknownReason.INSTANCE_STOPPED
    return was_stopped and due_bucket.is_polled


def _named_at_s(watch_pass: WatchPass, resource: AdvisedResource) -> int | None:
    """When it was seen under its present name first; one of its buckets may be calm, and not remembered."""
    states = (watch_pass.states.get(due_bucket.subject) for due_bucket in buckets_of([resource]))
    own_states = [s for s in states if s is not None and s.lasting_id == lasting_id_of(resource)]
    return max((s.named_at_s for s in own_states if s.named_at_s is not None), default=None)


def read_whether_published(
    collector: Collector,
    missing: Sequence[DueBucket],
    readings: Mapping[str, BucketReading],
    *,
    gap_after: timedelta,
) -> dict[str, BucketReading]:
    """The readings of missing balances, with what shows whether AWS publishes them: their last days.

    A balance that the ledger does not know may have been full all the time, so CloudWatch is asked.
    """
    earlier = collector.earlier_balances(missing, NO_METRIC_AFTER_S)
    never = [due_bucket for due_bucket in missing if not earlier[due_bucket.subject]]
    active = collector.buckets_with_companion(never, gap_after.total_seconds())
    known: dict[str, BucketReading] = {}
    for subject, series_or_failure in earlier.items():
        if isinstance(series_or_failure, AwsFailure):
            known[subject] = replace(readings[subject], balance=None, read_error=series_or_failure.problem)
        else:
            known[subject] = replace(
                readings[subject], earlier=series_or_failure, publishes_others=subject in active
            )
    return known


def _is_known_silent(state: ResourceState | None, due_bucket: DueBucket) -> bool:
    """Whether an earlier poll found out that no balance is published: it need not be found out again."""
    if state is None or state.reading.unknown_reason is not UnknownReason.NO_SUCH_BUCKET:
        return False
    since_s = state.reading.unknown_since_s
    return since_s is not None and since_s >= started_at(due_bucket.resource).timestamp()


def _has_known_balance(state: ResourceState | None, resource: AdvisedResource) -> bool:
    """Whether an earlier poll read a balance of it as it is now: a new start, or a new class, has another."""
    if state is None:
        return False
    balance_at_s = state.reading.balance_at_s
    return balance_at_s is not None and balance_at_s > started_at(resource).timestamp()


def _assess(watch_pass: WatchPass, due_bucket: DueBucket, reading: BucketReading) -> Assessment:
    return assess_resource(
        due_bucket.resource,
        due_bucket.kind,
        reading,
        now_s=watch_pass.context.now_s,
        telemetry=watch_pass.policies.of(due_bucket.kind, due_bucket.bucket).telemetry,
    )


def _classify(watch_pass: WatchPass, due_bucket: DueBucket, assessment: Assessment) -> Level:
    state = watch_pass.states.get(due_bucket.subject)
    is_known = _has_known_balance(state, due_bucket.resource)
    last_level = state.level if state is not None and is_known else Level.OK
    return classify(assessment, last_level, watch_pass.policy_of(assessment))
