"""What is known now about one bucket of a resource other than a volume."""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.resource import AdvisedResource, type_name_of
from burstwatch.core.assessment.resource_buckets import (
    bucket_or_unknown,
    started_at,
    why_limits_unknown,
    why_not_polled,
)
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.forecast import forecast
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.durations import DAY_S
from burstwatch.core.instances.balance import find_reset, observed_capacity
from burstwatch.core.instances.instance import Instance
from burstwatch.core.policy.policy import TelemetryPolicy
from burstwatch.core.rds.db_instance import AVAILABLE, DbInstance

METRIC_LATENESS_S: Final = 5 * PERIOD_S
"""A judgement: how late a datapoint may be, because AWS documents no delay."""

NO_METRIC_AFTER_S: Final = 3 * DAY_S
"""A judgement: a balance without a datapoint for this long, beside other metrics, is not published.

EC2 shows a baseline below the maximum for a few types more than AWS publishes balances for.
"""

_CHANGED: Final = (
    "what CloudWatch has from before a pass of burstctl watch saw its present name or class may be about"
    " another; it is judged by the datapoints from after that pass"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReading:
    """What one poll returned about one bucket.

    Attributes:
        balance: the samples of its metric; None if the read failed, empty if there is a gap.
        read_error: why the read failed.
        load: sums of what the bucket counts, by the period; None if they were not read.
        publishes_others: whether CloudWatch has recent datapoints of the companion of its metric; None if
            that was not read.
        earlier: the balance of the last ``NO_METRIC_AFTER_S`` seconds; None if that was not read. It shows
            whether a balance that is missing now is published at all.
        arrived_at_s: when the resource was found new or changed; None if that is long ago.
        changed_at_s: when it was first seen under its present name, or with its present class; None if it has
            had no other. CloudWatch knows it by its name, and what is older there may be that of another
            resource, or of another host.
    """

    balance: Series | None = None
    read_error: str | None = None
    load: Series | None = None
    publishes_others: bool | None = None
    earlier: Series | None = None
    arrived_at_s: int | None = None
    changed_at_s: int | None = None


def assess_resource(
    resource: AdvisedResource,
    kind: BucketKind,
    reading: BucketReading,
    *,
    now_s: float,
    telemetry: TelemetryPolicy,
) -> Assessment:
    """Turn the reading of one poll into facts about one bucket.

    AWS publishes the balances of instances for basic monitoring only, and for some types only. So a missing
    one proves nothing, and is never read as full. Types that sustain their maximum have no balance, and are
    not polled. Of any other type, a balance that was published in the last days is missing.
    """
    bucket = bucket_or_unknown(resource, kind)

    def unknown(reason: UnknownReason, detail: str | None = None) -> Assessment:
        return Assessment(
            resource=resource,
            kind=kind,
            bucket=bucket,
            unknown_reason=reason,
            unknown_because=detail,
            arrived_at_s=reading.arrived_at_s,
        )

    if (not_polled := why_not_polled(resource, kind)) is not None:
        return unknown(*not_polled)
    if reading.balance is None:
        return unknown(UnknownReason.READ_FAILED, reading.read_error)
    # What was measured before it was started is of another host, and perhaps of another type.
    own_balance = reading.balance.since(_known_since_s(resource, reading))
    closed = _in_per_cent(own_balance.closed_by(settled_by_s(kind, now_s)), kind, bucket)
    newest = closed.newest
    if newest is None or now_s - newest.end_at_s >= telemetry.gap_after.total_seconds():
        return unknown(*_missing_datapoint_reason(resource, kind, reading, now_s=now_s, telemetry=telemetry))
    reset_at_s = find_reset(closed, bucket) if kind.companion and bucket.is_known else None
    balance = closed if reset_at_s is None else closed.since(reset_at_s)
    age_s = max(0.0, now_s - newest.end_at_s)
    return Assessment(
        resource=resource,
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


def settled_by_s(kind: BucketKind, now_s: float) -> float:
    """Until when a period is complete: one that consists of shorter ones lacks those that are late."""
    return now_s - METRIC_LATENESS_S if kind.is_aggregated else now_s


def _known_since_s(resource: AdvisedResource, reading: BucketReading) -> float:
    """Since when what CloudWatch shows is about this resource as it is now."""
    return max(started_at(resource).timestamp(), reading.changed_at_s or 0)


def _in_per_cent(balance: Series, kind: BucketKind, bucket: Bucket) -> Series:
    if not kind.is_in_credits:
        return balance
    return Series(balance.starts_at_s, tuple(map(bucket.pct_of, balance.values)), balance.period_s)


def _missing_datapoint_reason(
    resource: AdvisedResource,
    kind: BucketKind,
    reading: BucketReading,
    *,
    now_s: float,
    telemetry: TelemetryPolicy,
) -> tuple[UnknownReason, str | None]:
    known_since_s = _known_since_s(resource, reading)
    started_at_s = max(known_since_s, reading.arrived_at_s or 0)
    # Under its former name it had datapoints: without any, it is a gap only when one is due. The balances of
    # instances come every five minutes, so they take longer to begin.
    gap_since_s = known_since_s if kind.companion else reading.changed_at_s or 0
    if (
        now_s - started_at_s < telemetry.too_new.total_seconds()
        or now_s - gap_since_s < telemetry.gap_after.total_seconds()
    ):
        return UnknownReason.TOO_NEW, _CHANGED if known_since_s == reading.changed_at_s else None
    if isinstance(resource, Instance) and resource.has_detailed_monitoring:
        return (
            UnknownReason.DETAILED_MONITORING,
            f"no datapoint; AWS publishes {kind.metric} for basic monitoring only, and it has detailed",
        )
    is_published = reading.earlier is None or bool(reading.earlier.since(known_since_s))
    limits_unknown = why_limits_unknown(resource, kind)
    if limits_unknown and not is_published:
        return UnknownReason.NO_SUCH_BUCKET, f"{limits_unknown}, and CloudWatch has no {kind.metric} of it"
    if reading.publishes_others and not is_published:
        others = f"CloudWatch has other metrics of it and no {kind.metric}"
        return UnknownReason.NO_SUCH_BUCKET, f"{others}: {type_name_of(resource)} is taken to have none"
    minutes = min(telemetry.gap_after.total_seconds(), now_s - started_at_s) / 60
    if limits_unknown and reading.earlier is None:
        detail = f"{limits_unknown}, and CloudWatch has had no {kind.metric} of it for {minutes:.0f} min"
        return UnknownReason.TELEMETRY_GAP, detail
    return (
        UnknownReason.TELEMETRY_GAP,
        f"no datapoint for {minutes:.0f} min while {_describe_running(resource)}",
    )


def _describe_running(resource: AdvisedResource) -> str:
    if isinstance(resource, Instance):
        return "the instance is running"
    if isinstance(resource, DbInstance) and resource.status != AVAILABLE:
        return f"the status of the database is {resource.status}"
    return f"the {resource.resource_type.noun} exists"
