"""The result of a pass, in the schema ``burstwatch.report/v1``."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from burstwatch.core.alerts.alert import baseline_iops_or_none, describe_forecast, describe_names
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.buckets.units import MIB
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.efs.efs_bucket import baseline_per_s
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.instances.instance import Instance
from burstwatch.core.ledger.flip_state import Flip, Hold, configuration_to_document
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_instant, instant_or_none, rounded_or_none, tenths_or_none
from burstwatch.core.watch.api_cost import usd_per_month_idle, usd_per_month_now
from burstwatch.core.watch.decision import Decision, VolumeEvaluation
from burstwatch.core.watch.fleet_summary import FleetSummary
from burstwatch.core.watch.polling.cadence import sweep_interval_s

if TYPE_CHECKING:
    from documents.report import ReportDocument
    from documents.shared import (
        AdvisedDocument,
        BucketDocument,
        DatabaseDocument,
        FileSystemDocument,
        InstanceDocument,
        OutcomeDocument,
        StandingFlipDocument,
        StandingHoldDocument,
        VolumeDocument,
    )

SCHEMA: Final = "burstwatch.report/v1"
_MIN_FULL_VOLUMES: Final = 10
"""This many volumes are not all idle: when none of them has a fresh datapoint, CloudWatch is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """What one pass read, decided and did.

    ``failures`` are sentences about what could not be done; those caused by a defect of burstwatch are in
    ``internal_errors`` as well. ``undelivered`` alerts wait for the next pass. ``unreadable_count`` volumes
    were not polled, because EC2 did not describe them. ``fleet`` is the state after the pass. The
    ``excused_kinds`` were left out because the caller lacks the AWS action, which is not a failure.
    """

    now_s: float
    region: str
    ledger: str
    decisions: Sequence[Decision]
    cadence: CadencePolicy
    metrics_requested: int = 0
    api_calls: Mapping[str, int] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    missing: Sequence[str] = ()
    failures: Sequence[str] = ()
    internal_errors: Sequence[str] = ()
    sent: int = 0
    undelivered: int = 0
    unreadable_count: int = 0
    fleet: FleetSummary | None = None
    is_read_only: bool = True
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    holds: Sequence[Hold] = ()
    excused_kinds: Mapping[ResourceType, str] = field(default_factory=dict)

    @property
    def unread(self) -> list[Decision]:
        return [d for d in self.decisions if d.assessment.unknown_reason is UnknownReason.READ_FAILED]

    @property
    def has_failed(self) -> bool:
        return bool(self.failures or self.unread)

    @property
    def needs_attention(self) -> bool:
        """Whether a volume is at warning or worse and was not flipped in this run, or its data is missing."""
        return any(
            is_urgent(d) and not (d.level.is_alerting and self.outcome_of(d).status is OutcomeStatus.FLIPPED)
            for d in self.decisions
        )

    @property
    def was_refused(self) -> bool:
        return self.count(OutcomeStatus.REFUSED) > 0

    def count(self, *statuses: OutcomeStatus) -> int:
        """The number of volumes with one of these outcomes."""
        return sum(outcome.status in statuses for outcome in self.outcomes.values())

    def outcome_of(self, decision: Decision) -> Outcome:
        """The outcome of the volume in this pass."""
        if (outcome := self.outcomes.get(decision.volume_id)) is not None:
            return outcome
        is_proposed = not self.is_read_only and decision.has_recommendation
        return Outcome(status=OutcomeStatus.PROPOSED if is_proposed else OutcomeStatus.NONE)

    @property
    def newest_datapoint_age_s(self) -> float | None:
        """The age of the newest datapoint of the whole pass: how far CloudWatch lags."""
        return min(
            (d.assessment.age_s for d in self.decisions if d.assessment.age_s is not None), default=None
        )

    @property
    def worst_datapoint_age_s(self) -> float | None:
        """The age of the oldest datapoint among the volumes whose next one is overdue if it is old.

        A volume that is not full must publish, but one that just arrived may not do so yet. A full one may be
        idle: full ones count only if there are ten or more and none of them has a fresh datapoint.
        """
        return self._worst_datapoint[0] if self._worst_datapoint else None

    @property
    def oldest_datapoint(self) -> tuple[float, str] | None:
        """The age of the same and its volume id, if it is older than ``metric_lag``."""
        worst = self._worst_datapoint
        return worst if worst and worst[0] > self.cadence.metric_lag.total_seconds() else None

    @property
    def _worst_datapoint(self) -> tuple[float, str] | None:
        assessments = [d.assessment for d in self._by_the_minute if d.assessment.arrived_at_s is None]
        with_balance = [a for a in assessments if a.balance_pct is not None]
        aged = [(a.balance_pct, a.age_s, a.subject) for a in with_balance if a.age_s is not None]
        full = [(age_s, i) for pct, age_s, i in aged if (pct or 0.0) >= self.cadence.calm_from_pct]
        not_full = [(age_s, i) for pct, age_s, i in aged if (pct or 0.0) < self.cadence.calm_from_pct]
        if len(full) >= _MIN_FULL_VOLUMES:
            not_full.append(min(full))
        return max(not_full, default=None)

    @property
    def _by_the_minute(self) -> list[Decision]:
        """Those whose metric has a datapoint every minute: ``metric_lag`` is about them."""
        return [d for d in self.decisions if d.assessment.kind.period_s == PERIOD_S]

    @property
    def datapoint_spacing_s(self) -> int | None:
        """How far apart the datapoints of most volumes are: the median."""
        spacings = sorted(s for d in self._by_the_minute if (s := d.assessment.spacing_s) is not None)
        return spacings[len(spacings) // 2] if spacings else None

    @property
    def usd_per_month_idle(self) -> float:
        return self.usd_per_month_idle_at(self.cadence)

    def usd_per_month_idle_at(self, cadence: CadencePolicy) -> float:
        """Dollars a month for watching these resources, gp2 by this cadence, if all of them were calm."""
        polled = [d for d in self.decisions if d.poll_interval_s]
        return usd_per_month_idle(
            sweep_interval_s(d.assessment.bucket, cadence)
            if d.assessment.kind is EBS_IO
            else d.sweep_interval_s or int(FOCUS_TICK.total_seconds())
            for d in polled
        )

    @property
    def by_resource(self) -> list[Decision]:
        """The most urgent decision about each resource, the most urgent resource first."""
        first: dict[str, Decision] = {}
        for decision in sort_by_urgency(self.decisions):
            first.setdefault(decision.assessment.resource.resource_id, decision)
        return list(first.values())

    def _buckets_of(self, kind: ResourceType) -> list[list[Decision]]:
        """The decisions about the buckets of each resource of a kind, the most urgent first."""
        grouped: dict[str, list[Decision]] = {}
        for decision in sort_by_urgency(self.decisions):
            if decision.assessment.resource.resource_type is kind:
                grouped.setdefault(decision.assessment.resource.resource_id, []).append(decision)
        return list(grouped.values())

    def to_document(self) -> "ReportDocument":
        """The report as ``--json`` prints it; absent numbers are null, keys never disappear."""
        volumes = [d for d in self.decisions if d.assessment.resource.resource_type is ResourceType.EBS]
        instances, file_systems, databases = map(
            self._buckets_of, (ResourceType.INSTANCE, ResourceType.EFS, ResourceType.RDS)
        )
        others = [*instances, *file_systems, *databases]
        by_level = Counter(d.level for d in volumes) + Counter(map(level_of_resource, others))
        return {
            "schema": SCHEMA,
            "generated_at": format_instant(self.now_s),
            "region": self.region,
            "ledger": self.ledger,
            "volumes": [
                describe_decision(d, self.now_s, self.outcome_of(d)) for d in sort_by_urgency(volumes)
            ],
            "instances": [describe_instance(item, self.outcome_of(item[0])) for item in instances],
            "file_systems": [describe_file_system(item, self.outcome_of(item[0])) for item in file_systems],
            "databases": [describe_database(item, self.outcome_of(item[0])) for item in databases],
            "totals": {
                "volumes": len(volumes),
                "resources": len(volumes) + len(others),
                "by_level": dict(by_level),
                "flipped": self.count(OutcomeStatus.FLIPPED),
                "flipped_back": self.count(OutcomeStatus.FLIPPED_BACK),
                "refused": self.count(OutcomeStatus.REFUSED),
                "failed": self.count(OutcomeStatus.FAILED),
                "in_flight": self.count(OutcomeStatus.IN_FLIGHT),
                "unread": len(self.unread),
                "ignored": len(self.ignored),
            },
            "cost": {
                "metrics_requested": self.metrics_requested,
                "usd_per_month_idle": round(self.usd_per_month_idle, 2),
                "usd_per_month_now": round(usd_per_month_now(self.decisions), 2),
            },
            "newest_datapoint_age_s": rounded_or_none(self.newest_datapoint_age_s),
            "worst_datapoint_age_s": rounded_or_none(self.worst_datapoint_age_s),
            "datapoint_spacing_s": self.datapoint_spacing_s,
            "holds": [describe_standing_hold(hold) for hold in self.holds],
            "missing": list(self.missing),
            "left_out": {str(kind): action for kind, action in self.excused_kinds.items()},
            "failures": list(self.failures),
            "api_calls": dict(self.api_calls),
        }


def sort_by_urgency(decisions: Iterable[Decision]) -> list[Decision]:
    """Most urgent first: level, then time to empty, then the bound, then the balance, then the id."""
    return sorted(decisions, key=urgency_of)


def is_urgent(decision: Decision) -> bool:
    """Whether people should look: it is at warning or worse, or was and is not over, or lacks its data."""
    is_known = decision.level.is_alerting or decision.assessment.is_fault
    return is_known or remembered_level(decision) is not None


def remembered_level(decision: Decision | VolumeEvaluation) -> Level | None:
    """The alerting level that was last known, if no datapoint is due yet, as after a database was renamed."""
    level = decision.previous_level
    is_too_new = decision.assessment.unknown_reason is UnknownReason.TOO_NEW
    return level if is_too_new and level.is_alerting else None


def urgency_of(decision: Decision | VolumeEvaluation) -> tuple[Any, ...]:
    """The lower, the sooner somebody must act."""
    assessment = decision.assessment
    forecast = assessment.forecast
    far = float("inf")
    time_to_empty = forecast.time_to_empty_s if forecast else None
    soonest = forecast.soonest_empty_s if forecast else None
    rank = -float(decision.level.rank)
    if (reason := assessment.unknown_reason) is not None:
        rank = -float(level.rank) if (level := remembered_level(decision)) else 1.0 + reason.rules_out_drain
    if decision.is_changing and not (decision.flip and decision.flip.is_stuck_alerted):
        rank = max(rank, -2.5)  # help is on its way: after all that needs it
    return (
        -2.5 if assessment.is_fault else rank,
        far if time_to_empty is None else time_to_empty,
        far if soonest is None else soonest,
        far if assessment.balance_pct is None else assessment.balance_pct,
        assessment.subject,
    )


def level_of_resource(decisions: Sequence[Decision]) -> Level:
    """The level of a resource: that of its most urgent bucket, which is the first.

    One that could not be read is more urgent than one that is calm: the resource may be in trouble.
    """
    return decisions[0].level


def describe_bucket(decision: Decision) -> "BucketDocument":
    """One bucket of a resource, in its own unit."""
    assessment, bucket = decision.assessment, decision.assessment.bucket
    forecast = assessment.forecast
    is_known = bucket.is_known
    return {
        "bucket": assessment.kind.name,
        "unit": assessment.kind.unit,
        "balance_pct": assessment.balance_pct,
        "capacity": round(bucket.capacity) if is_known else None,
        "capacity_inferred": bucket.is_inferred,
        "observed_capacity": rounded_or_none(assessment.observed_capacity),
        "refill_per_s": round(bucket.refill_per_s, 2) if is_known else None,
        "highest_drain_per_s": round(bucket.highest_drain_per_s, 2) if is_known else None,
        "drain_per_s": tenths_or_none(forecast.drain_per_s if forecast and is_known else None),
        "time_to_empty_s": rounded_or_none(assessment.time_to_empty_s),
        "soonest_empty_s": rounded_or_none(forecast.soonest_empty_s if forecast else None),
        "datapoint_age_s": rounded_or_none(assessment.age_s),
        "reset_at": instant_or_none(assessment.reset_at_s),
        "act_lead_s": decision.act_lead_s,
        "level": decision.level,
        "unknown_reason": assessment.unknown_reason,
        "unknown_because": assessment.unknown_because,
        "cannot_drain": assessment.unknown_reason is UnknownReason.NEVER_EMPTY,
    }


def describe_instance(decisions: Sequence[Decision], outcome: Outcome) -> "InstanceDocument":
    """One instance of the report, by the decisions about its buckets, the most urgent first."""
    instance = decisions[0].assessment.resource
    assert isinstance(instance, Instance)
    return {
        **_describe_advised(decisions, outcome),
        "instance_type": instance.instance_type,
        "volume_ids": list(instance.volume_ids),
    }


def describe_file_system(decisions: Sequence[Decision], outcome: Outcome) -> "FileSystemDocument":
    """One file system of the report; a file system has one bucket."""
    file_system = decisions[0].assessment.resource
    assert isinstance(file_system, FileSystem)
    return {
        **_describe_advised(decisions, outcome),
        "throughput_mode": file_system.throughput_mode,
        "provisioned_mib_s": file_system.provisioned_mib_s,
        "state": file_system.state,
        "size_bytes": file_system.size_bytes,
        "standard_bytes": file_system.standard_bytes,
        "baseline_mib_s": round(baseline_per_s(file_system.standard_bytes) / MIB, 2),
    }


def describe_database(decisions: Sequence[Decision], outcome: Outcome) -> "DatabaseDocument":
    """One database of the report, by the decisions about its buckets, the most urgent first."""
    database = decisions[0].assessment.resource
    assert isinstance(database, DbInstance)
    return {
        **_describe_advised(decisions, outcome),
        "engine": database.engine,
        "instance_class": database.instance_class,
        "storage_type": database.storage_type,
        "allocated_gib": database.allocated_gib,
        "status": database.status,
        "replica_of": database.replica_of,
        "cluster_id": database.cluster_id,
    }


def _describe_advised(decisions: Sequence[Decision], outcome: Outcome) -> "AdvisedDocument":
    """What all resources have in common that the watchdog never changes."""
    first, level = decisions[0], level_of_resource(decisions)
    resource, is_unknown = first.assessment.resource, level is Level.UNKNOWN
    return {
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "name": resource.name,
        "level": level,
        "unknown_reason": first.assessment.unknown_reason if is_unknown else None,
        "unknown_because": first.assessment.unknown_because if is_unknown else None,
        "fault": any(decision.assessment.is_fault for decision in decisions),
        "mode": first.volume_settings.mode,
        "tag_faults": list(first.volume_settings.faults),
        "look_interval_s": min((d.poll_interval_s for d in decisions if d.poll_interval_s), default=None),
        "decision": {"action": first.action, "reason": first.reason, "target": None},
        "outcome": describe_outcome(outcome),
        "buckets": [describe_bucket(decision) for decision in sorted(decisions, key=lambda d: d.volume_id)],
    }


def describe_decision(decision: Decision, now_s: float, outcome: Outcome) -> "VolumeDocument":
    """One volume of the report."""
    assessment = decision.assessment
    volume = assessment.volume
    forecast = describe_forecast(assessment, now_s)
    target = decision.recommendation.target if decision.recommendation else None
    is_gp2 = assessment.kind is EBS_IO
    return {
        "volume_id": volume.volume_id,
        "resource_id": volume.resource_id,
        "resource_type": volume.resource_type,
        **describe_names(volume),
        "volume_type": volume.volume_type,
        "size_gib": volume.size_gib,
        "instance_id": volume.instance_id,
        "instance_name": volume.instance_name,
        "device": volume.device,
        "baseline_iops": baseline_iops_or_none(assessment),
        "burst_balance_pct": assessment.balance_pct,
        "credits": rounded_or_none(assessment.credits_left) if is_gp2 else None,
        "drain_per_s": forecast["drain_per_s"],
        "time_to_empty_s": forecast["time_to_empty_s"],
        "time_to_empty_earliest_s": forecast["earliest_s"],
        "time_to_empty_latest_s": forecast["latest_s"],
        "soonest_empty_s": forecast["soonest_empty_s"],
        "datapoint_age_s": rounded_or_none(assessment.age_s),
        "datapoint_spacing_s": assessment.spacing_s,
        "level": decision.level,
        "unknown_reason": assessment.unknown_reason,
        "unknown_because": assessment.unknown_because,
        "fault": assessment.is_fault,
        "mode": decision.volume_settings.mode,
        "tag_faults": list(decision.volume_settings.faults),
        "look_interval_s": decision.poll_interval_s,
        "decision": {
            "action": decision.action,
            "reason": decision.reason,
            "target": configuration_to_document(target) if target else None,
        },
        "flip": describe_standing_flip(decision.flip) if decision.flip else None,
        "outcome": describe_outcome(outcome),
        "buckets": [describe_bucket(decision)] if volume.has_bucket else [],
    }


def describe_outcome(outcome: Outcome) -> "OutcomeDocument":
    """What was done."""
    return {
        "action": outcome.status,
        "because": outcome.reason,
        "error_code": outcome.error_code,
        "refusal": outcome.refusal.guard if outcome.refusal else None,
        "retry_at": instant_or_none(outcome.retry_at_s),
    }


def describe_standing_flip(flip: Flip) -> "StandingFlipDocument":
    """A flip without its times."""
    return {
        "phase": flip.status,
        "direction": flip.direction,
        "cause": flip.cause,
        "by": flip.by,
        "original": configuration_to_document(flip.original),
        "target": configuration_to_document(flip.target),
        "asked_at": format_instant(flip.requested_at_s),
        "stays": flip.is_permanent,
        "because": flip.reason,
        "usd_per_month_more": flip.usd_per_month,
    }


def describe_standing_hold(hold: Hold) -> "StandingHoldDocument":
    """A hold without when it was placed; without a volume it is on everything."""
    return {
        "volume_id": hold.volume_id,
        "resource_id": hold.volume_id,
        "by": hold.by,
        "reason": hold.reason,
        "until": format_instant(hold.until_s),
    }
