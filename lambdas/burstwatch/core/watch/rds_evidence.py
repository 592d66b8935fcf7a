"""What is read of a database in trouble: its load, what AWS allows, and the storage or class that fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    BALANCE_HISTORY_S,
    OPERATIONS_HISTORY_S,
    DrainMetrics,
)
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.outlook import describe_outlook
from burstwatch.core.buckets.series import PERIOD_S, Series, sum_of
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.instances.larger_type import InstanceLoad, larger_types
from burstwatch.core.location import AwsLocation
from burstwatch.core.metric_spec import MetricSpec
from burstwatch.core.policy.policy import Policy
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_IO,
    describe_class_limit,
    describe_cpu_credits,
    describe_rds_outlook,
    storage_limits,
)
from burstwatch.core.rds.storage_options import StorageOption
from burstwatch.core.rds.storage_recommendation import (
    NoStorageChange,
    StorageChange,
    StorageLoad,
    recommend_storage,
)
from burstwatch.core.text import format_usd
from burstwatch.core.watch.advice import describe_demand
from burstwatch.core.watch.witness import capitalise, lead_sentences

_DAY_PERIOD_S: Final = 300
_MIB: Final = 2**20
RDS_DIMENSION: Final = RDS_IO.dimension
RDS_DRAIN_SPAN_S: Final = OPERATIONS_HISTORY_S + 15 * PERIOD_S
RDS_DRAIN_METRICS: Final = {
    "read_iops": MetricSpec("ReadIOPS", "Average", PERIOD_S),
    "write_iops": MetricSpec("WriteIOPS", "Average", PERIOD_S),
    "read_throughput": MetricSpec("ReadThroughput", "Average", PERIOD_S),
    "write_throughput": MetricSpec("WriteThroughput", "Average", PERIOD_S),
}
"""What drains it now, by the minute."""
RDS_DAY_SPAN_S: Final = DAY_S + 3 * _DAY_PERIOD_S
RDS_DAY_METRICS: Final = {
    "read_iops_peak": MetricSpec("ReadIOPS", "Maximum", _DAY_PERIOD_S),
    "write_iops_peak": MetricSpec("WriteIOPS", "Maximum", _DAY_PERIOD_S),
    "read_peak": MetricSpec("ReadThroughput", "Maximum", _DAY_PERIOD_S),
    "write_peak": MetricSpec("WriteThroughput", "Maximum", _DAY_PERIOD_S),
    "free": MetricSpec("FreeStorageSpace", "Minimum", _DAY_PERIOD_S),
    "cpu_credits": MetricSpec("CPUCreditBalance", "Minimum", _DAY_PERIOD_S),
}
"""What its storage and class must serve: the busiest minutes of a day."""
RDS_HISTORY_SPAN_S: Final = BALANCE_HISTORY_S
RDS_HISTORY_METRICS: Final = {
    "balance_history": MetricSpec(RDS_IO.metric, "Minimum", BALANCE_HISTORY_PERIOD_S)
}
"""Whether it drains at this hour every day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsEvidence:
    """What was read of a database; what could not be read is not in ``series``.

    ``options`` are what AWS allows for its storage, None if that was not read. ``family`` has the limits of
    the EC2 types of the family behind its class.
    """

    database: DbInstance
    series: Mapping[str, Series] = field(default_factory=dict)
    options: Sequence[StorageOption] | None = None
    family: Mapping[str, InstanceLimits] = field(default_factory=dict)

    def load_of(self, _kind: BucketKind) -> None:
        """The load of the class includes the root volume, which RDS does not show: it proves no capacity."""
        return

    def drain_metrics(self, kind: BucketKind) -> DrainMetrics | None:
        """The operations of the last hour; on how many days the balance fell at this hour, of the storage."""
        return DrainMetrics(
            read_ops=_sums(self.series.get("read_iops")),
            write_ops=_sums(self.series.get("write_iops")),
            read_bytes=_sums(self.series.get("read_throughput")),
            write_bytes=_sums(self.series.get("write_throughput")),
            balance_history=self.series.get("balance_history", Series()) if kind is RDS_IO else Series(),
        )

    @property
    def storage_load(self) -> StorageLoad:
        """The busiest minutes of a day, and how fast the free storage is used up."""
        free = self.series.get("free", Series())
        peak = _highest_sum(self.series.get("read_peak"), self.series.get("write_peak"))
        loss_per_day = None
        if len(free.values) > 1:
            elapsed_s = free.starts_at_s[-1] - free.starts_at_s[0]
            loss_per_day = (free.values[0] - free.values[-1]) / elapsed_s * DAY_S
        return StorageLoad(
            peak_mib_s=None if peak is None else peak / _MIB,
            free_bytes=free.values[-1] if free else None,
            free_loss_per_day=loss_per_day,
        )

    def storage_recommendation(self) -> StorageChange | NoStorageChange:
        """What the storage should become, once."""
        return recommend_storage(self.database, self.storage_load, self.options, limits=self.database.limits)

    def advise(self, assessment: Assessment, location: AwsLocation) -> Recommendation:
        """Storage without credits, or a class that sustains the load: whichever has the bucket."""
        if assessment.kind is not RDS_IO:
            return self._advise_class(assessment, location)
        change = self.storage_recommendation()
        if isinstance(change, NoStorageChange):
            return Recommendation(action=change.next_step, reasons=(change.reason,))
        price = (
            f"{format_usd(change.after_usd_per_month)} a month instead of"
            f" {format_usd(change.before_usd_per_month)} (us-east-1 list prices)"
        )
        # the last reason is the one that an alert has room for
        cautions = [caution.rstrip(".") for caution in change.cautions]
        reason = change.reasons[0].rstrip(".")
        return Recommendation(
            action=f"{change.command} --region {location.region}",
            reasons=(*change.reasons[1:], *cautions, f"{reason}; {price}"),
            instance_effect=f"After the change: {change.tightest_bucket.removeprefix('None: ').rstrip('.')}",
        )

    def _advise_class(self, assessment: Assessment, location: AwsLocation) -> Recommendation:
        database, limits = self.database, self.database.limits
        iops = _highest_sum(self.series.get("read_iops_peak"), self.series.get("write_iops_peak"))
        load = InstanceLoad(iops=iops, mib_s=self.storage_load.peak_mib_s)
        types, baseline = [], f"{database.instance_class} has an EBS baseline"
        if limits is not None:
            demand = describe_demand(assessment, limits, load, storage_limits(database))
            baseline = f"{database.instance_class} sustains {demand.sentence_part}"
            types = larger_types(limits, demand.load, self.family)
        if not types:
            return Recommendation(
                action="reduce its I/O, or move it to a class with a higher EBS baseline",
                reasons=(f"{baseline}; no larger class of its family is known to sustain that",),
            )
        chosen = f"db.{types[0]}"
        reason = (
            f"{baseline}; {chosen} is the smallest of its family that sustains that. The change restarts"
            " the database; faster storage does not help"
        )
        return Recommendation(
            action=(
                f"aws rds modify-db-instance --db-instance-identifier {database.identifier}"
                f" --db-instance-class {chosen} --apply-immediately --region {location.region}"
            ),
            reasons=(reason,),
        )

    def witness(self, assessment: Assessment, *, wanted_lead: timedelta, policy: Policy) -> dict[str, Any]:
        """What the bucket will do in people's units, what bounds it, and CPU credits that are empty."""
        forecast, bucket, kind = assessment.forecast, assessment.bucket, assessment.kind
        lead = policy.cadence.act_lead
        limit = describe_class_limit(self.database, kind)
        cpu_credits = self.series.get("cpu_credits", Series()).newest
        cpu = describe_cpu_credits(self.database, cpu_credits.value if cpu_credits else None)
        limit_when_empty = format_limit(bucket.refill_per_s, kind.rate_unit)
        outlook = None
        if forecast is not None and kind is RDS_IO:
            outlook = describe_rds_outlook(
                self.database,
                time_to_empty_s=forecast.time_to_empty_s,
                soonest_empty_s=forecast.soonest_empty_s,
            )
        elif forecast is not None:
            outlook = describe_outlook(
                time_to_empty_s=forecast.time_to_empty_s,
                soonest_empty_s=forecast.soonest_empty_s,
                limit_when_empty=limit_when_empty,
                idle_refill_s=bucket.refill_time_s(),
            )
        return {
            "witness": [
                *([capitalise(limit)] if limit else []),
                *([cpu.rstrip(".")] if cpu else []),
                *lead_sentences(lead, wanted_lead),
            ],
            "outlook": outlook,
            "limit_when_empty": limit_when_empty,
            "capacity": round(bucket.capacity),
            "act_lead_s": round(lead.total_seconds()),
        }


def _sums(series: Series | None) -> Series:
    """Rates per second as sums of each period."""
    if series is None:
        return Series()
    sums = tuple(value * series.period_s for value in series.values)
    return Series(series.starts_at_s, sums, series.period_s)


def _highest_sum(reads: Series | None, writes: Series | None) -> float | None:
    """The highest sum of both in one period; None if one of them is not known."""
    if not reads or not writes:
        return None
    return max(sum_of(reads, writes).values, default=None)
