"""What is known about one bucket of an EC2 instance now."""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.assessment.assess import STOPPED_STATES, Assessment, UnknownReason
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.forecast import forecast
from burstwatch.core.buckets.series import Series
from burstwatch.core.instances.balance import find_reset, observed_capacity
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import drain_proof, instance_bucket
from burstwatch.core.policy.policy import TelemetryPolicy

_UNKNOWN_BUCKET: Final = Bucket(capacity=0, refill_per_s=1, burst_per_s=1, is_inferred=True)
"""Stands for the bucket of a type whose limits are not known: nothing is computed from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReading:
    """What one poll returned about one bucket of an instance.

    Attributes:
        balance: the samples in per cent; None if the read failed, empty if there is a gap.
        read_error: why the read failed.
        load: sums of what the bucket counts, by the period; None if they were not read.
        publishes_others: whether CloudWatch has recent datapoints of another metric of the instance that
            comes at the same interval; None if that was not read.
        was_seen: whether an earlier poll saw a balance of this bucket.
        arrived_at_s: when the instance was found new or changed; None if that is long ago.
    """

    balance: Series | None = None
    read_error: str | None = None
    load: Series | None = None
    publishes_others: bool | None = None
    was_seen: bool = False
    arrived_at_s: int | None = None


def instance_not_polled_reason(instance: Instance, kind: BucketKind) -> UnknownReason | None:
    """Why reading this balance is of no use; None if it is of use."""
    if instance.state in STOPPED_STATES:
        return UnknownReason.INSTANCE_STOPPED
    if instance.limits_error is not None:
        return UnknownReason.READ_FAILED
    proof = drain_proof(instance, kind)
    if proof is None or proof.maximum <= proof.baseline:
        return UnknownReason.NO_SUCH_BUCKET
    return UnknownReason.NEVER_EMPTY if proof.cannot_drain else None


def assess_instance(
    instance: Instance,
    kind: BucketKind,
    reading: InstanceReading,
    *,
    now_s: float,
    telemetry: TelemetryPolicy,
) -> Assessment:
    """Turn the reading of one poll into facts about one bucket.

    AWS publishes the balances for basic monitoring only, and for some types only. So a missing one proves
    nothing, and is never read as full.
    """
    bucket = instance_bucket(instance, kind) or _UNKNOWN_BUCKET

    def unknown(reason: UnknownReason, detail: str | None = None) -> Assessment:
        return Assessment(
            resource=instance,
            kind=kind,
            bucket=bucket,
            unknown_reason=reason,
            unknown_because=detail,
            arrived_at_s=reading.arrived_at_s,
        )

    reason = instance_not_polled_reason(instance, kind)
    if reason is not None:
        return unknown(reason, _not_polled_detail(instance, kind, reason))
    if reading.balance is None:
        return unknown(UnknownReason.READ_FAILED, reading.read_error)
    closed = reading.balance.closed_by(now_s)
    newest = closed.newest
    if newest is None or now_s - newest.end_at_s >= telemetry.gap_after.total_seconds():
        return unknown(*_missing_datapoint_reason(instance, kind, reading, now_s=now_s, telemetry=telemetry))
    reset_at_s = find_reset(closed, bucket)
    balance = closed if reset_at_s is None else closed.since(reset_at_s)
    age_s = max(0.0, now_s - newest.end_at_s)
    return Assessment(
        resource=instance,
        kind=kind,
        bucket=bucket,
        sample=newest,
        age_s=age_s,
        spacing_s=closed.spacing_s,
        # The slopes before a reset say nothing about what comes after it.
        forecast=forecast(balance, bucket=bucket, age_s=age_s),
        balance=balance,
        arrived_at_s=reading.arrived_at_s,
        reset_at_s=reset_at_s,
        observed_capacity=observed_capacity(balance, reading.load, bucket) if reading.load else None,
    )


def _not_polled_detail(instance: Instance, kind: BucketKind, reason: UnknownReason) -> str | None:
    if reason is UnknownReason.INSTANCE_STOPPED:
        return f"it is {instance.state}"
    if reason is UnknownReason.READ_FAILED:
        return instance.limits_error
    proof = drain_proof(instance, kind)
    if proof is None:
        return f"EC2 shows no EBS limits of {instance.instance_type}"
    return proof.describe()


def _missing_datapoint_reason(
    instance: Instance,
    kind: BucketKind,
    reading: InstanceReading,
    *,
    now_s: float,
    telemetry: TelemetryPolicy,
) -> tuple[UnknownReason, str | None]:
    started_at_s = max(instance.launched_at.timestamp(), reading.arrived_at_s or 0)
    if now_s - started_at_s < telemetry.too_new.total_seconds():
        return UnknownReason.TOO_NEW, None
    if instance.has_detailed_monitoring:
        return (
            UnknownReason.DETAILED_MONITORING,
            f"no datapoint; AWS publishes {kind.metric} for basic monitoring only, and it has detailed",
        )
    if reading.publishes_others and not reading.was_seen:
        return (
            UnknownReason.NO_SUCH_BUCKET,
            f"CloudWatch has other metrics of it and no {kind.metric}: {instance.instance_type} has none",
        )
    minutes = min(telemetry.gap_after.total_seconds(), now_s - started_at_s) / 60
    return UnknownReason.TELEMETRY_GAP, f"no datapoint for {minutes:.0f} min while the instance is running"
