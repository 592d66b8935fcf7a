"""What a timeline is of: one bucket of one resource. What depends on the kind of resource is here alone."""

from dataclasses import dataclass, replace

from burstctl.timeline.data_gap import DataGapReason
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import instance_bucket
from burstwatch.core.resource_type import subject_of

_BYTES_PER_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBucket:
    """A bucket with what a picture shows of it; rates are in ``kind.rate_unit``.

    ``bucket`` has the limits of the resource itself; None if they are not known. ``provisioned`` is the rate
    of a volume that has no burst credits, and ``has_credits`` is false for that volume. Before
    ``exists_since_s``, a balance is missing because of ``absence``.
    """

    resource: Volume | Instance
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

    def loads_of(self, history: MetricHistory) -> tuple[Series, Series]:
        """The reads and the writes of each period, as sums in the unit of the bucket."""
        if self.counts_operations:
            return history.read_ops, history.write_ops
        return _to_mib(history.read_bytes), _to_mib(history.write_bytes)

    def rate_of(self, target: Configuration | None) -> int | None:
        """What a target provisions of the rate that the bucket limits; None if that is not set."""
        if target is None:
            return None
        return target.iops if self.counts_operations else target.throughput_mib_s


def counts_operations(kind: BucketKind) -> bool:
    """Whether the credits of a bucket are operations; otherwise they are MiB."""
    return kind.unit == "operations"


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


def drawn_instance(instance: Instance, kind: BucketKind) -> DrawnBucket:
    """One bucket of an instance. Its limits are those of the type, whatever its volumes can serve."""
    return DrawnBucket(
        resource=instance,
        kind=kind,
        bucket=instance_bucket(replace(instance, ceilings=None), kind),
        exists_since_s=instance.launched_at.timestamp(),
        absence=DataGapReason.NOT_RUNNING,
    )


def drawn_bucket(assessment: Assessment) -> DrawnBucket:
    """The bucket that was assessed."""
    if isinstance(assessment.resource, Instance):
        return drawn_instance(assessment.resource, assessment.kind)
    return drawn_volume(assessment.resource, assessment)


def _to_mib(sums: Series) -> Series:
    return Series(sums.starts_at_s, tuple(value / _BYTES_PER_MIB for value in sums.values), sums.period_s)
