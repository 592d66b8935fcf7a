"""What is known about one bucket now: facts, without a judgement of how bad they are."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.forecast import Forecast, forecast
from burstwatch.core.buckets.series import Sample, Series, served_iops_by_minute
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.policy.policy import TelemetryPolicy
from burstwatch.core.resource_type import subject_of


class UnknownReason(StrEnum):
    """Why there is no basis to judge a bucket; never treated as zero and never as healthy.

    Each has a ``label`` for the cell of a table, and a ``description`` that continues a sentence.
    """

    DETACHED = "detached"
    INSTANCE_STOPPED = "instance_stopped"
    NOT_BURSTABLE_TYPE = "not_burstable_type"
    NEVER_EMPTY = "cannot_run_dry"
    NO_SUCH_BUCKET = "no_such_bucket"
    DETAILED_MONITORING = "detailed_monitoring"
    OTHER_THROUGHPUT_MODE = "other_throughput_mode"
    TOO_NEW = "too_new"
    IDLE = "idle"
    TELEMETRY_GAP = "telemetry_gap"
    READ_FAILED = "read_failed"

    @property
    def label(self) -> str:
        return _DESCRIPTIONS[self][0]

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self][1]

    @property
    def is_fault(self) -> bool:
        return self in _FAULTS

    @property
    def rules_out_drain(self) -> bool:
        """Whether it means that no credits can run out, not that they are not known."""
        return self in _WITHOUT_DRAIN


_DESCRIPTIONS: Final = {
    UnknownReason.DETACHED: ("detached", "it is not attached"),
    UnknownReason.INSTANCE_STOPPED: ("instance is stopped", "its instance is stopped"),
    UnknownReason.NOT_BURSTABLE_TYPE: ("no burst credits", "its type has no burst credits"),
    UnknownReason.NEVER_EMPTY: ("cannot become empty", "at its size it cannot become empty"),
    UnknownReason.NO_SUCH_BUCKET: ("no burst bucket", "its type does not have this bucket"),
    UnknownReason.DETAILED_MONITORING: (
        "detailed monitoring",
        "it has detailed monitoring, and AWS publishes this balance for basic monitoring only",
    ),
    UnknownReason.OTHER_THROUGHPUT_MODE: (
        "no burst credits",
        "its throughput mode does not depend on burst credits",
    ),
    UnknownReason.TOO_NEW: ("too new", "it is too new for a datapoint"),
    UnknownReason.IDLE: ("idle, no datapoint", "it is idle and publishes no datapoint"),
    UnknownReason.TELEMETRY_GAP: ("no datapoint", "CloudWatch has no datapoint"),
    UnknownReason.READ_FAILED: ("could not be read", "reading it failed"),
}
_FAULTS: Final = frozenset({UnknownReason.TELEMETRY_GAP, UnknownReason.READ_FAILED})
_WITHOUT_DRAIN: Final = frozenset(
    {
        UnknownReason.NOT_BURSTABLE_TYPE,
        UnknownReason.NO_SUCH_BUCKET,
        UnknownReason.NEVER_EMPTY,
        UnknownReason.OTHER_THROUGHPUT_MODE,
    }
)
_MAX_OPERATIONS_AGE_S: Final = 600
"""Older operations say nothing about the present load; twice ``metric_lag``, so late datapoints count."""
STOPPED_STATES: Final = frozenset({"stopping", "stopped", "shutting-down", "terminated"})
"""States of an instance in which its volumes serve nothing, and so publish no metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeReading:
    """What one poll returned about a volume. Instants are in seconds since the epoch.

    Attributes:
        balance: the samples in per cent; None if the read failed, empty if there is a gap.
        read_ops: sums of operations by the minute; None if they were not read.
        write_ops: the same for writes.
        read_error: why the read failed.
        instance_state: EC2's state of its instance; read only if there is a gap or the demand is unknown.
        arrived_at_s: when the volume was found new or changed; None if that is long ago.
        modified_at_s: when it was last seen in modification; None if that is long ago.
        smaller_size_gib: the smaller size of a resize. AWS does not document which of the two sizes
            determines the refill in between, so the worse one counts.
        changing_to: the configuration of a flip under way, in words. CloudWatch documents BurstBalance for
            gp2, st1 and sc1 only, so no datapoint is expected until the volume is gp2 again.
        known_at_s: the end of the newest datapoint that an earlier poll returned.
        unused_since_s: when polls first found no running instance that has the volume; None if the last poll
            found one.
        is_idle: whether a volume that may be idle serves no operations: then it need not publish.
    """

    balance: Series | None = None
    read_ops: Series | None = None
    write_ops: Series | None = None
    read_error: str | None = None
    instance_state: str | None = None
    arrived_at_s: int | None = None
    modified_at_s: int | None = None
    smaller_size_gib: int | None = None
    changing_to: str | None = None
    known_at_s: int | None = None
    unused_since_s: int | None = None
    is_idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Facts about one bucket: either ``sample`` and ``forecast`` are set, or ``unknown_reason`` is.

    ``bucket`` of a volume whose type has none is the one that it has as gp2. ``age_s`` counts from the end of
    the newest sample's period. ``spacing_s`` is the time between the datapoints of its balance.
    ``arrived_at_s``, ``modified_at_s`` and ``smaller_size_gib`` are those of the reading: a resource stays in
    focus for a while after it arrived or was modified. ``served_iops`` are operations per second in each
    minute, if they were read. ``unused_since_s`` is set while the volume is detached or its instance is
    stopped: when a poll first found that. ``reset_at_s`` is when the balance of an instance was last seen to
    be reset to full. ``observed_capacity`` is the capacity by which its own load explains its balance, in the
    bucket's unit; None if no load was read.
    """

    resource: Resource
    kind: BucketKind
    bucket: Bucket
    sample: Sample | None = None
    age_s: float | None = None
    spacing_s: int | None = None
    forecast: Forecast | None = None
    unknown_reason: UnknownReason | None = None
    unknown_because: str | None = None
    balance: Series = Series()
    arrived_at_s: int | None = None
    modified_at_s: int | None = None
    smaller_size_gib: int | None = None
    consumed_read_iops: float | None = None
    consumed_write_iops: float | None = None
    served_iops: Series = Series()
    unused_since_s: int | None = None
    reset_at_s: int | None = None
    observed_capacity: float | None = None

    @property
    def subject(self) -> str:
        """The key of the bucket in the ledger: for a volume its ID."""
        return subject_of(self.resource.resource_type, self.resource.resource_id, self.kind.name)

    @property
    def volume(self) -> Volume:
        """The volume; only for code about volumes.

        Raises:
            TypeError: it is another resource.
        """
        if not isinstance(self.resource, Volume):
            raise TypeError(f"{self.resource.resource_id} is not a volume")
        return self.resource

    @property
    def baseline_iops(self) -> int:
        """The baseline of a gp2 volume: its refill in operations per second."""
        return int(self.bucket.refill_per_s)

    @property
    def balance_pct(self) -> float | None:
        return self.sample.value if self.sample else None

    @property
    def credits_left(self) -> float | None:
        return self.bucket.credits_in(self.sample.value) if self.sample else None

    @property
    def time_to_empty_s(self) -> float | None:
        """The estimated time until the bucket is empty, in seconds from now; None if it is not draining."""
        return self.forecast.time_to_empty_s if self.forecast else None

    @property
    def is_fault(self) -> bool:
        return self.unknown_reason is not None and self.unknown_reason.is_fault


def not_polled_reason(volume: Volume, size_gib: int | None = None) -> UnknownReason | None:
    """Why reading this volume's balance is of no use; None if it is of use."""
    if not volume.has_bucket:
        return UnknownReason.NOT_BURSTABLE_TYPE
    if not bucket_of(volume, size_gib).highest_drain_per_s:
        return UnknownReason.NEVER_EMPTY
    return None if volume.attached else UnknownReason.DETACHED


def assess(volume: Volume, reading: VolumeReading, *, now_s: float, telemetry: TelemetryPolicy) -> Assessment:
    """Turn the reading of one poll into facts.

    A datapoint older than ``telemetry.gap_after`` counts as missing. One whose minute is still open is
    ignored, because CloudWatch may still change it. CloudWatch reports BurstBalance "only when the volume is
    active", without defining that, so a missing datapoint proves nothing: the reasons are checked one after
    the other. Source: the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".

    Args:
        volume: the volume as EC2 described it in this poll.
        reading: what was read about it.
        now_s: the present time in seconds since the epoch.
        telemetry: when missing data is a fault.
    """
    # During a resize, the smaller size counts: it has the lower baseline, and so the earlier bound.
    size_gib = min(volume.size_gib, reading.smaller_size_gib or volume.size_gib)
    kind, bucket = bucket_kind_of(volume), bucket_of(volume, size_gib)

    def unknown(reason: UnknownReason, detail: str | None = None) -> Assessment:
        return Assessment(
            resource=volume,
            kind=kind,
            bucket=bucket,
            unknown_reason=reason,
            unknown_because=detail,
            arrived_at_s=reading.arrived_at_s,
            modified_at_s=reading.modified_at_s,
            smaller_size_gib=reading.smaller_size_gib,
            served_iops=served_iops_by_minute(reading.read_ops, reading.write_ops, now_s),
            unused_since_s=_unused_since_s(volume, reading, now_s),
        )

    # AWS does not document when EC2 shows the new type of a flip under way: another type proves nothing.
    reason = not_polled_reason(volume, size_gib)
    if reason is not None and not (reading.changing_to and reason is UnknownReason.NOT_BURSTABLE_TYPE):
        return unknown(reason)
    if reading.balance is None:
        return unknown(UnknownReason.READ_FAILED, reading.read_error)
    balance = reading.balance.closed_by(now_s)
    newest = balance.newest
    is_stale = newest is None or now_s - newest.end_at_s >= telemetry.gap_after.total_seconds()
    if reading.changing_to is not None and (newest is None or is_stale):
        return unknown(UnknownReason.NOT_BURSTABLE_TYPE, f"it is being modified to {reading.changing_to}")
    if newest is None or is_stale or reading.instance_state in STOPPED_STATES:
        return unknown(*_missing_datapoint_reason(volume, reading, now_s=now_s, telemetry=telemetry))
    age_s = max(0.0, now_s - newest.end_at_s)
    return Assessment(
        resource=volume,
        kind=kind,
        bucket=bucket,
        sample=newest,
        age_s=age_s,
        spacing_s=balance.spacing_s,
        forecast=forecast(balance, bucket=bucket, age_s=age_s),
        balance=balance,
        arrived_at_s=reading.arrived_at_s,
        modified_at_s=reading.modified_at_s,
        smaller_size_gib=reading.smaller_size_gib,
        consumed_read_iops=_consumed_iops(reading.read_ops, now_s),
        consumed_write_iops=_consumed_iops(reading.write_ops, now_s),
        served_iops=served_iops_by_minute(reading.read_ops, reading.write_ops, now_s),
        unused_since_s=_unused_since_s(volume, reading, now_s),
    )


def _unused_since_s(volume: Volume, reading: VolumeReading, now_s: float) -> int | None:
    """When a poll first found no running instance that has the volume; None if one has it.

    A time in the future was written by a machine whose clock was wrong, and counts as now.
    """
    if volume.attached and reading.instance_state not in STOPPED_STATES:
        return None
    return int(now_s) if reading.unused_since_s is None else min(reading.unused_since_s, int(now_s))


def _missing_datapoint_reason(
    volume: Volume, reading: VolumeReading, *, now_s: float, telemetry: TelemetryPolicy
) -> tuple[UnknownReason, str | None]:
    if reading.instance_state in STOPPED_STATES:
        return UnknownReason.INSTANCE_STOPPED, f"instance {volume.instance_id} is {reading.instance_state}"
    # A datapoint that an earlier poll saw is missing now: the answer is incomplete, the volume is not idle.
    known_age_s = None if reading.known_at_s is None else now_s - reading.known_at_s
    if known_age_s is not None and known_age_s < telemetry.gap_after.total_seconds():
        detail = (
            f"CloudWatch leaves out the datapoint of {known_age_s / 60:.0f} min ago, which it showed before"
        )
        return UnknownReason.READ_FAILED, detail
    start_times_s = [volume.created_at.timestamp()]
    start_times_s += [volume.attached_at.timestamp()] if volume.attached_at else []
    start_times_s += [reading.arrived_at_s] if reading.arrived_at_s is not None else []
    if now_s - max(start_times_s) < telemetry.too_new.total_seconds():
        return UnknownReason.TOO_NEW, None
    if reading.is_idle:
        return UnknownReason.IDLE, "no datapoint, and no operations: an idle volume need not publish any"
    minutes = min(telemetry.gap_after.total_seconds(), now_s - max(start_times_s)) / 60
    return (
        UnknownReason.TELEMETRY_GAP,
        f"no datapoint for {minutes:.0f} min while attached to a running instance",
    )


def has_no_operations(read_ops: Series | None, write_ops: Series | None) -> bool:
    """Whether both were read and contain no operation; a metric without datapoints counts as no operation.

    On Xen instances, EBS publishes some metrics only while there is activity.
    """
    return read_ops is not None and write_ops is not None and not any((*read_ops.values, *write_ops.values))


def _consumed_iops(ops: Series | None, now_s: float) -> float | None:
    """Mean operations per second over the newest five closed minutes; None if the newest are too old."""
    closed = ops.closed_by(now_s) if ops else Series()
    if closed.newest is None or now_s - closed.newest.end_at_s > _MAX_OPERATIONS_AGE_S:
        return None
    recent = closed.last(5)
    return sum(recent) / (60 * len(recent))
