"""What is read of a database in trouble: its load, what AWS allows, and the storage or class that fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from burstwatch.core.buckets.units import MIB, format_limit
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT, InstanceLimits
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.instances.larger_type import InstanceLoad, larger_types
from burstwatch.core.location import AwsLocation
from burstwatch.core.metric_spec import MetricSpec
from burstwatch.core.policy.policy import Policy
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_CLASS_IO,
    RDS_CLASS_THROUGHPUT,
    RDS_IO,
    describe_class_limit,
    describe_cpu_credits,
    describe_rds_outlook,
    storage_bucket,
    storage_limits,
    unknown_class_limits,
)
from burstwatch.core.rds.storage_options import StorageOption
from burstwatch.core.rds.storage_recommendation import (
    NoStorageChange,
    StorageChange,
    StorageLoad,
    recommend_storage,
)
from burstwatch.core.watch.advice import describe_demand, is_empty
from burstwatch.core.watch.witness import capitalise, lead_sentences, limits_sentences

_DAY_PERIOD_S: Final = 300
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
    "class_io": MetricSpec(RDS_CLASS_IO.metric, "Minimum", _DAY_PERIOD_S),
    "class_bytes": MetricSpec(RDS_CLASS_THROUGHPUT.metric, "Minimum", _DAY_PERIOD_S),
}
"""What its storage and class must serve: the busiest minutes of a day."""
RDS_HISTORY_SPAN_S: Final = BALANCE_HISTORY_S
RDS_HISTORY_METRICS: Final = {
    "balance_history": MetricSpec(RDS_IO.metric, "Minimum", BALANCE_HISTORY_PERIOD_S)
}
"""Whether it drains at this hour every day."""

_LESS_IO_OR_OTHER_CLASS: Final = "reduce its I/O, or move it to a class with a higher EBS baseline"


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
            peak_mib_s=None if peak is None else peak / MIB,
            was_throttled=any(
                min(self._last_day(name).values, default=100.0) <= EMPTY_PCT
                for name in ("balance_history", "class_io", "class_bytes")
            ),
            class_io_pct=self._newest("class_io"),
            class_byte_pct=self._newest("class_bytes"),
            free_bytes=free.values[-1] if free else None,
            free_loss_per_day=loss_per_day,
        )

    def _last_day(self, name: str) -> Series:
        series = self.series.get(name, Series())
        return series.since(series.starts_at_s[-1] - DAY_S) if series else series

    def _newest(self, name: str) -> float | None:
        series = self.series.get(name)
        return series.values[-1] if series else None

    @property
    def empty_class_bucket(self) -> BucketKind | None:
        """The bucket of its class that holds it back now more than its storage does.

        The storage without credits serves its baseline, which may be less than what the class sustains.
        """
        limits, storage = self.database.limits, storage_bucket(self.database)
        iops, mib_s = storage_limits(self.database)
        storage_pct = self._newest("balance_history")
        if limits is None:
            return None
        if storage is not None and storage_pct is not None and storage_pct <= EMPTY_PCT:
            iops, mib_s = int(storage.refill_per_s), 0
        for kind, name, sustained, served in (
            (RDS_CLASS_IO, "class_io", limits.baseline_iops, iops),
            (RDS_CLASS_THROUGHPUT, "class_bytes", limits.baseline_throughput_mib_s, mib_s),
        ):
            balance_pct = self._newest(name)
            is_slower = served is None or sustained <= served
            if balance_pct is not None and balance_pct <= EMPTY_PCT and is_slower:
                return kind
        return None

    def storage_recommendation(self) -> StorageChange | NoStorageChange:
        """What the storage should become, once."""
        return recommend_storage(self.database, self.storage_load, self.options, limits=self.database.limits)

    def advise(self, assessment: Assessment, location: AwsLocation) -> Recommendation:
        """Storage without credits, or a class that sustains the load: whichever has the bucket."""
        if assessment.kind is not RDS_IO:
            return self.advise_class(assessment.kind, location.region, is_empty=is_empty(assessment))
        change = self.storage_recommendation()
        if isinstance(change, NoStorageChange):
            return Recommendation(action=change.next_step, reasons=(change.reason,))
        first = self.class_first(location.region)
        # the last reason is the one that an alert has room for
        reason = f"{change.reasons[0].rstrip('.')}; {change.price}"
        cautions = tuple(caution.rstrip(".") for caution in change.cautions)
        if first is not None:
            explain = f"burstctl explain {self.database.resource_id}"
            return replace(first, instance_effect=f"Its storage comes after that: `{explain}` has the change")
        return Recommendation(
            action=f"{change.command} --region {location.region}",
            reasons=(*change.reasons[1:], *cautions, reason),
            cautions=cautions,
            instance_effect=f"After the change: {change.tightest_bucket.removeprefix('None: ').rstrip('.')}",
        )

    def class_first(self, region: str) -> Recommendation | None:
        """The change of the class, if that holds it back now: before it, faster storage does not help."""
        kind = self.empty_class_bucket
        return None if kind is None else self.advise_class(kind, region, is_empty=True)

    def advise_class(self, kind: BucketKind, region: str, *, is_empty: bool) -> Recommendation:
        """A class that sustains the load; the change restarts the database."""
        database, limits = self.database, self.database.limits
        iops = _highest_sum(self.series.get("read_iops_peak"), self.series.get("write_iops_peak"))
        load = InstanceLoad(iops=iops, mib_s=self.storage_load.peak_mib_s)
        if limits is None:
            unknown = f"{unknown_class_limits(database)}, so which class sustains its load is not known"
            return Recommendation(action=_LESS_IO_OR_OTHER_CLASS, reasons=(unknown,))
        demand = describe_demand(kind, limits, load, storage_limits(database), is_empty=is_empty)
        baseline = f"{database.instance_class} sustains {demand.sentence_part}"
        types = larger_types(limits, demand.load, self.family)
        if not types:
            return Recommendation(
                action=_LESS_IO_OR_OTHER_CLASS,
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
                f" --db-instance-class {chosen} --apply-immediately --region {region}"
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
            outlook = describe_rds_outlook(self.database, forecast)
        elif forecast is not None and bucket.is_known:
            outlook = describe_outlook(
                forecast,
                limit_when_empty=limit_when_empty,
                idle_refill_s=bucket.refill_time_s(),
            )
        return {
            "witness": [
                *([capitalise(limit)] if limit else limits_sentences(assessment)),
                *([cpu.rstrip(".")] if cpu else []),
                *lead_sentences(lead, wanted_lead),
            ],
            "outlook": outlook,
            "limit_when_empty": limit_when_empty if bucket.is_known else None,
            "capacity": round(bucket.capacity) if bucket.is_known else None,
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
