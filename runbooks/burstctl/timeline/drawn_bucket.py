"""What a timeline is of: one bucket of one resource. What depends on the kind of resource is here alone."""

from dataclasses import dataclass, replace

from burstctl.timeline.data_gap import DataGapReason
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource import AdvisedResource, Resource
from burstwatch.core.assessment.resource_buckets import find_bucket, rate_when_empty_per_s, started_at
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import BYTES, MIB
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.efs.efs_bucket import READ_SHARE
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import instance_bucket
from burstwatch.core.resource_type import subject_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBucket:
    """A bucket with what a picture shows of it; rates are in ``rate_unit``.

    ``bucket`` has the limits of the resource itself; None if they are not known. ``provisioned`` is the rate
    of a volume that has no burst credits, and ``has_credits`` is false for that volume. Before
    ``exists_since_s``, a balance is missing because of ``absence``.
    """

    resource: Resource
    kind: BucketKind
    bucket: Bucket | None
    exists_since_s: float
    absence: DataGapReason
    has_credits: bool = True
    provisioned: float | None = None

    @property
    def resource_id(self) -> str:
        return self.resource.resource_id

    @property
    def subject(self) -> str:
        """The key of the bucket in the ledger."""
        return subject_of(self.resource.resource_type, self.resource_id, self.kind.name)

    @property
    def counts_operations(self) -> bool:
        return counts_operations(self.kind)

    @property
    def rate_unit(self) -> str:
        """``IOPS`` or ``MiB/s``."""
        return rate_unit_of(self.kind)

    @property
    def is_metered(self) -> bool:
        """Whether less than what was read counts: EFS meters a third of it."""
        return isinstance(self.resource, FileSystem)

    @property
    def counted_unit(self) -> str:
        """``rate_unit``, which says of a file system that not all of what is read counts."""
        return f"metered {self.rate_unit}" if self.is_metered else self.rate_unit

    def balance_of(self, history: MetricHistory) -> Series:
        """The balance in per cent of the present capacity, also of a metric in credits."""
        balance = history.balance
        if not self.kind.is_in_credits or self.bucket is None:
            return balance
        return replace(balance, values=tuple(map(self.bucket.pct_of, balance.values)))

    def loads_of(self, history: MetricHistory) -> tuple[Series, Series]:
        """The reads and the writes of each period, as sums of operations or MiB that count against its limit.

        EFS meters a third of what is read.
        """
        if self.counts_operations:
            return history.read_ops, history.write_ops
        read_share = READ_SHARE if self.is_metered else 1
        return _to_mib(history.read_bytes, read_share), _to_mib(history.write_bytes)

    def limits(self) -> tuple[float, float] | None:
        """The baseline and the burst, in ``rate_unit``; None if they are not known."""
        if self.bucket is None:
            return None
        scale = _scale_of(self.kind)
        return rate_when_empty_per_s(self.resource, self.bucket) / scale, self.bucket.burst_per_s / scale

    def rate_of(self, target: Configuration | None) -> int | None:
        """What a target provisions of the rate that the bucket limits; None if that is not set."""
        if target is None:
            return None
        return target.iops if self.counts_operations else target.throughput_mib_s


def counts_operations(kind: BucketKind) -> bool:
    """Whether the credits of a bucket are operations; otherwise they are MiB or bytes."""
    return kind.unit == "operations"


def rate_unit_of(kind: BucketKind) -> str:
    """``IOPS`` or ``MiB/s``."""
    return "MiB/s" if kind.unit == BYTES else kind.rate_unit


def to_rate_unit(kind: BucketKind, credits_per_s: float) -> float:
    """Credits per second in the unit that pictures and pages show: bytes as MiB."""
    return credits_per_s / _scale_of(kind)


def metrics_of(kind: BucketKind) -> tuple[str, str, str]:
    """The fields of ``MetricHistory`` that a picture needs: the balance, and what the bucket counts."""
    suffix = "ops" if counts_operations(kind) else "bytes"
    return "balance", f"read_{suffix}", f"write_{suffix}"


def drawn_volume(volume: Volume, assessment: Assessment | None = None) -> DrawnBucket:
    """The bucket of a volume; a volume whose type has none has that of gp2, which it may return to."""
    return DrawnBucket(
        resource=volume,
        kind=bucket_kind_of(volume),
        # That of the assessment is by the smaller size while the volume is resized.
        bucket=assessment.bucket if assessment else bucket_of(volume),
        exists_since_s=volume.created_at.timestamp(),
        absence=DataGapReason.NOT_CREATED,
        has_credits=volume.has_bucket,
        provisioned=None if volume.has_bucket else volume.provisioned_iops,
    )


def drawn_advised(resource: AdvisedResource, kind: BucketKind) -> DrawnBucket:
    """One bucket of an instance, a file system or a database.

    The limits of an instance are those of its type, whatever its volumes can serve.
    """
    is_instance = isinstance(resource, Instance)
    bucket = (
        instance_bucket(replace(resource, ceilings=None), kind)
        if isinstance(resource, Instance)
        else find_bucket(resource, kind)
    )
    return DrawnBucket(
        resource=resource,
        kind=kind,
        bucket=bucket,
        exists_since_s=started_at(resource).timestamp(),
        absence=DataGapReason.NOT_RUNNING if is_instance else DataGapReason.NOT_CREATED,
    )


def drawn_bucket(assessment: Assessment) -> DrawnBucket:
    """The bucket that was assessed."""
    if isinstance(assessment.resource, Volume):
        return drawn_volume(assessment.resource, assessment)
    return drawn_advised(assessment.resource, assessment.kind)


def _scale_of(kind: BucketKind) -> int:
    return MIB if kind.unit == BYTES else 1


def _to_mib(sums: Series, share: float = 1) -> Series:
    return replace(sums, values=tuple(value * share / MIB for value in sums.values))
