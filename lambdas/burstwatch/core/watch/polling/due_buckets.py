"""Which buckets of resources other than volumes are due at a tick."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.assess_resource import NO_METRIC_AFTER_S
from burstwatch.core.assessment.resource import AdvisedResource, lasting_id_of
from burstwatch.core.assessment.resource_buckets import (
    bucket_kinds_of,
    bucket_or_unknown,
    facts_that_matter,
    find_bucket,
    has_documented_balance,
    why_not_polled,
)
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.ledger.ledger import FleetSnapshot
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.resource_type import subject_of
from burstwatch.core.watch.polling.cadence import RECHECK_INTERVAL_S, sweep_ticks
from burstwatch.core.watch.polling.due_volumes import SweepTicks, fingerprint_of

_RARELY_POLLED: Final = frozenset({UnknownReason.NO_SUCH_BUCKET, UnknownReason.DETAILED_MONITORING})
"""Once AWS has published nothing for days, or if it documents nothing, one poll a day shows a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBucket:
    """A bucket to poll now; ``has_arrived``: it is new or changed since the last sweep."""

    resource: AdvisedResource
    kind: BucketKind
    has_arrived: bool = False

    @property
    def subject(self) -> str:
        """Its key in the ledger."""
        return subject_of(self.resource.resource_type, self.resource.resource_id, self.kind.name)

    @property
    def bucket(self) -> Bucket:
        """The bucket; one with a capacity of 0 if it has none."""
        return bucket_or_unknown(self.resource, self.kind)

    @property
    def is_polled(self) -> bool:
        """Whether reading its balance is of use."""
        return why_not_polled(self.resource, self.kind) is None


def buckets_of(resources: Iterable[AdvisedResource]) -> Iterator[DueBucket]:
    """Every bucket that each resource may have."""
    return (
        DueBucket(resource=resource, kind=kind)
        for resource in resources
        for kind in bucket_kinds_of(resource)
    )


def bucket_fingerprint(due: DueBucket, policies: BucketPolicies) -> int:
    """64 bits that change if the bucket must be polled again: the resource has changed."""
    return fingerprint_of((due.subject, *facts_that_matter(due.resource), _sweep_ticks(due, policies)))


def due_buckets_in_sweep(
    buckets: Iterable[DueBucket],
    states: Mapping[str, ResourceState],
    *,
    snapshot: FleetSnapshot | None,
    sweep_at_s: int,
    focused: AbstractSet[str],
    policies: BucketPolicies,
    held_ids: AbstractSet[str | None] = frozenset(),
) -> Iterator[DueBucket]:
    """The buckets due in the sweep up to ``sweep_at_s``, by the same rules as volumes.

    One that is not polled is due only while something is remembered of it, or if its limits could not be
    read: then it is reported as unread. That a database is stopped is recorded once. A database on hold, one
    of ``held_ids``, is due until it is remembered: then the hold follows it to another name.
    """
    ticks_due = SweepTicks.between(snapshot, sweep_at_s, policies.sweep_tick_s)
    known_fingerprints = snapshot.fingerprints if snapshot else frozenset()
    for due in buckets:
        state = states.get(due.subject)
        not_polled = why_not_polled(due.resource, due.kind)
        if not_polled is not None:
            if _is_due_unpolled(due, state, not_polled.reason):
                yield due
            continue
        is_new = snapshot is not None and bucket_fingerprint(due, policies) not in known_fingerprints
        if snapshot is None or is_new:
            yield replace(due, has_arrived=is_new)
        elif state is None and due.resource.resource_id in held_ids and lasting_id_of(due.resource):
            yield due
        elif state is not None and state.next_poll_at_s is not None:
            if due.subject in focused:
                yield due
        elif ticks_due.include(due.subject, _ticks_between_polls(due, state, policies, sweep_at_s)):
            yield due


def _is_due_unpolled(due: DueBucket, state: ResourceState | None, reason: UnknownReason) -> bool:
    if reason is UnknownReason.INSTANCE_STOPPED and lasting_id_of(due.resource) is not None:
        return state is None or state.reading.unknown_reason is not reason
    return state is not None or reason is UnknownReason.READ_FAILED


def _ticks_between_polls(
    due: DueBucket, state: ResourceState | None, policies: BucketPolicies, sweep_at_s: int
) -> int:
    if (
        state is not None
        and state.reading.unknown_reason in _RARELY_POLLED
        and (not has_documented_balance(due.resource, due.kind) or _is_silent_for_days(state, sweep_at_s))
    ):
        return RECHECK_INTERVAL_S // policies.sweep_tick_s
    return _sweep_ticks(due, policies)


def _is_silent_for_days(state: ResourceState, now_s: int) -> bool:
    since_s = state.reading.unknown_since_s
    return since_s is not None and now_s - since_s >= NO_METRIC_AFTER_S


def _sweep_ticks(due: DueBucket, policies: BucketPolicies) -> int:
    bucket = find_bucket(due.resource, due.kind)
    return 1 if bucket is None else sweep_ticks(bucket, policies.of(due.kind, bucket).cadence)
