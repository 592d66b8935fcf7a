"""Which buckets a resource other than a volume has, and why one of them need not be read.

This is all that the engine knows about the kinds: everything else is the same for each of them.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

from burstwatch.core.assessment.assess import STOPPED_STATES, UnknownReason
from burstwatch.core.assessment.resource import AdvisedResource, Resource
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.efs.efs_bucket import EFS_KINDS, efs_bucket, limit_when_empty_per_s, no_bucket_reason
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import (
    INSTANCE_KINDS,
    UNKNOWN_LIMITS_BUCKET,
    drain_proof,
    instance_bucket,
)
from burstwatch.core.instances.larger_type import size_rank
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_IO,
    RDS_KINDS,
    database_bucket,
    describe_class_limit,
    no_class_bucket_reason,
    no_storage_bucket_reason,
    not_running_reason,
    unknown_class_limits,
)
from burstwatch.core.resource_type import ResourceType

_LARGEST_WITH_BALANCE: Final = size_rank("m5.4xlarge")
_NO_BUCKET: Final = Bucket(capacity=0, refill_per_s=1, burst_per_s=1, is_inferred=True, is_known=False)
"""Stands for a bucket that a resource does not have: nothing is computed from it."""


class NotPolled(NamedTuple):
    """Why reading a balance is of no use; ``detail`` continues a sentence about the resource."""

    reason: UnknownReason
    detail: str | None


_KINDS: Final = {
    ResourceType.INSTANCE: INSTANCE_KINDS,
    ResourceType.EFS: EFS_KINDS,
    ResourceType.RDS: RDS_KINDS,
}


def bucket_kinds_of_type(resource_type: ResourceType) -> tuple[BucketKind, ...]:
    """The kinds of buckets that a resource of this type may have; none for a volume, which is its bucket."""
    return _KINDS.get(resource_type, ())


def bucket_kinds_of(resource: AdvisedResource) -> tuple[BucketKind, ...]:
    """The kinds of buckets that such a resource may have."""
    return _KINDS[resource.resource_type]


def find_bucket(resource: AdvisedResource, kind: BucketKind) -> Bucket | None:
    """One of its buckets; None if it has none, or if the limits behind it are not known."""
    if isinstance(resource, FileSystem):
        return efs_bucket(resource.standard_bytes)
    if isinstance(resource, DbInstance):
        return database_bucket(resource, kind)
    return instance_bucket(resource, kind)


def bucket_or_unknown(resource: AdvisedResource, kind: BucketKind) -> Bucket:
    """The same; without one, a bucket whose capacity is not known, and 0 if it has none."""
    if why_limits_unknown(resource, kind) is not None:
        return UNKNOWN_LIMITS_BUCKET
    return find_bucket(resource, kind) or _NO_BUCKET


def rate_when_empty_per_s(resource: Resource, bucket: Bucket) -> float:
    """What a resource is throttled to: what its bucket earns, and of EFS 1 MiB/s at least."""
    if isinstance(resource, FileSystem):
        return limit_when_empty_per_s(resource.standard_bytes)
    return bucket.refill_per_s


def why_limits_unknown(resource: AdvisedResource, kind: BucketKind) -> str | None:
    """Why the limits behind a bucket are not known, in a sentence; None if they are, or if it has none.

    Such a type may have the bucket: that CloudWatch has its balance is the proof.
    """
    if isinstance(resource, Instance) and resource.limits is None:
        return f"EC2 shows no EBS limits of {resource.instance_type}"
    is_class = isinstance(resource, DbInstance) and kind is not RDS_IO and not resource.is_aurora
    if isinstance(resource, DbInstance) and is_class and resource.limits is None:
        return unknown_class_limits(resource)
    return None


def why_not_polled(resource: AdvisedResource, kind: BucketKind) -> NotPolled | None:
    """Why reading this balance is of no use; None if it is of use."""
    if isinstance(resource, FileSystem):
        reason = no_bucket_reason(resource)
        return NotPolled(UnknownReason.OTHER_THROUGHPUT_MODE, reason) if reason else None
    if isinstance(resource, DbInstance):
        return _why_database_not_polled(resource, kind)
    return _why_instance_not_polled(resource, kind)


def _why_instance_not_polled(instance: Instance, kind: BucketKind) -> NotPolled | None:
    if instance.state in STOPPED_STATES:
        return NotPolled(UnknownReason.INSTANCE_STOPPED, f"it is {instance.state}")
    if instance.limits_error is not None:
        return NotPolled(UnknownReason.READ_FAILED, instance.limits_error)
    proof = drain_proof(instance, kind)
    if proof is None:
        return None
    if proof.maximum <= proof.baseline:
        return NotPolled(UnknownReason.NO_SUCH_BUCKET, proof.describe())
    return NotPolled(UnknownReason.NEVER_EMPTY, proof.describe()) if proof.cannot_drain else None


def _why_database_not_polled(database: DbInstance, kind: BucketKind) -> NotPolled | None:
    no_bucket_reason = (
        no_storage_bucket_reason(database)
        if kind is RDS_IO
        else no_class_bucket_reason(database, database.limits)
    )
    limits_error = None if kind is RDS_IO else database.limits_error
    if no_bucket_reason and limits_error is None and why_limits_unknown(database, kind) is None:
        return NotPolled(UnknownReason.NO_SUCH_BUCKET, no_bucket_reason)
    if idle_reason := not_running_reason(database):
        reason = UnknownReason.TOO_NEW if database.is_starting else UnknownReason.INSTANCE_STOPPED
        return NotPolled(reason, idle_reason)
    if limits_error is not None:
        return NotPolled(UnknownReason.READ_FAILED, limits_error)
    bucket = database_bucket(database, kind)
    if bucket is not None and not bucket.highest_drain_per_s:
        return NotPolled(UnknownReason.NEVER_EMPTY, describe_class_limit(database, kind))
    return None


def started_at(resource: AdvisedResource) -> datetime:
    """Since when it publishes metrics at the latest."""
    return resource.launched_at if isinstance(resource, Instance) else resource.created_at


def class_behind(resource: Resource, kind: BucketKind) -> str | None:
    """The class of a database whose bucket this is; None for any other bucket."""
    return resource.instance_class if isinstance(resource, DbInstance) and kind is not RDS_IO else None


def has_documented_balance(resource: AdvisedResource, kind: BucketKind) -> bool:
    """Whether AWS documents that its type may publish this balance: those of instances come up to 4xlarge.

    Source: the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS". EC2 shows a baseline below the
    maximum for a few larger types too.
    """
    name = resource.instance_type if isinstance(resource, Instance) else class_behind(resource, kind)
    return name is None or size_rank(name.removeprefix("db.")) <= _LARGEST_WITH_BALANCE


def facts_that_matter(resource: AdvisedResource) -> tuple[Any, ...]:
    """What, if it changes, makes it as good as new: it must be polled again."""
    if isinstance(resource, FileSystem):
        return (resource.throughput_mode, resource.created_at.timestamp())
    if isinstance(resource, DbInstance):
        return (
            resource.instance_class,
            resource.storage_type,
            resource.allocated_gib,
            resource.created_at.timestamp(),
        )
    return (resource.instance_type, resource.launched_at.timestamp(), resource.has_detailed_monitoring)
