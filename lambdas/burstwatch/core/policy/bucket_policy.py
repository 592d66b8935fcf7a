"""The policy of one bucket: the thresholds of its kind, and the time to act that it can give."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.durations import MINUTE
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.policy.policy import CadencePolicy, LevelPolicy, Policy, TelemetryPolicy
from burstwatch.core.policy.resources import EbsPolicy, EfsPolicy, InstancePolicy, ResourcesPolicy
from burstwatch.core.rds.rds_buckets import RDS_IO, RDS_KINDS

_EFS_FOCUS: Final = timedelta(minutes=15)
"""A judgement: the longest wait in focus of a bucket that lasts hours."""
_WITHOUT_VOLUMES: Final = ResourcesPolicy(ebs=EbsPolicy(watch=False), instance=InstancePolicy(watch=True))
"""For a policy of one bucket: the rule for gp2 volumes does not bind it."""


class BucketPolicies:
    """The policies of buckets that follow from one policy; each is worked out once."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._policies: dict[tuple[BucketKind, timedelta], Policy] = {}

    @property
    def sweep_tick_s(self) -> int:
        """The seconds between two sweep ticks, which all buckets share."""
        return int(self._policy.cadence.sweep_tick.total_seconds())

    def of(self, kind: BucketKind, bucket: Bucket) -> Policy:
        """The policy with the thresholds of this bucket in place of those of gp2."""
        if kind is EBS_IO:
            return self._policy
        lead = _lead_of(self._policy, kind, bucket)
        key = (kind, lead)
        if key not in self._policies:
            self._policies[key] = _make_policy(self._policy, kind, lead)
        return self._policies[key]


def policy_of_bucket(policy: Policy, kind: BucketKind, bucket: Bucket) -> Policy:
    """The policy with the thresholds of this bucket in place of those of gp2."""
    return BucketPolicies(policy).of(kind, bucket)


def wanted_lead(policy: Policy, kind: BucketKind) -> timedelta:
    """The time to act that the policy keeps for buckets of this kind."""
    resources = policy.resources
    if kind is EBS_THROUGHPUT:
        return resources.ebs.act_lead
    if kind in RDS_KINDS:
        return resources.rds.act_lead
    return resources.efs.act_lead if kind is EFS_BYTES else resources.instance.act_lead


def _thresholds(policy: Policy, kind: BucketKind) -> EfsPolicy | InstancePolicy | None:
    """The section with the thresholds of the kind; None if they are those of gp2."""
    if kind in (EBS_THROUGHPUT, RDS_IO):
        return None
    return policy.resources.efs if kind is EFS_BYTES else policy.resources.instance


def _lead_of(policy: Policy, kind: BucketKind, bucket: Bucket) -> timedelta:
    """The time to act that the policy wants, or the longest that fits if the bucket may be empty too soon.

    Example: a full instance bucket lasts 30 min at the maximum of the type. At 95 %, 28.5 min are left. Less
    5 min for the sweep tick, 10 for the lag and 1 for the slack, that is a lead of 12 whole minutes, not 30.
    """
    wanted, thresholds, cadence = wanted_lead(policy, kind), _thresholds(policy, kind), policy.cadence
    if not bucket.highest_drain_per_s:
        return wanted
    metric_lag = thresholds.metric_lag if thresholds else cadence.metric_lag
    lasts = timedelta(seconds=bucket.credits_in(cadence.watch_below_pct) / bucket.highest_drain_per_s)
    fitting = lasts - cadence.sweep_tick - metric_lag - cadence.tick_slack
    return min(wanted, max(MINUTE, fitting // MINUTE * MINUTE))


def _make_policy(policy: Policy, kind: BucketKind, lead: timedelta) -> Policy:
    thresholds, cadence = _thresholds(policy, kind), policy.cadence
    if thresholds is None:
        return _replaced(policy, replace(cadence, act_lead=lead))
    levels, telemetry = policy.levels, policy.telemetry
    too_new = max(telemetry.too_new, thresholds.metric_lag)
    is_slow = kind is EFS_BYTES
    return _replaced(
        policy,
        replace(
            cadence,
            metric_lag=thresholds.metric_lag,
            act_lead=lead,
            focus_at_most=max(cadence.focus_at_most, _EFS_FOCUS) if is_slow else cadence.focus_at_most,
        ),
        levels=replace(
            levels,
            critical_within=thresholds.critical_within,
            critical_leave=thresholds.critical_within * (levels.critical_leave / levels.critical_within),
            warning_within=thresholds.warning_within,
            warning_leave=thresholds.warning_within * (levels.warning_leave / levels.warning_within),
        ),
        telemetry=replace(telemetry, too_new=too_new, gap_after=max(telemetry.gap_after, too_new)),
        # a file system may be without credits for days
        remind_every=max(policy.alerts.remind_every, thresholds.warning_within) if is_slow else None,
    )


def _replaced(
    policy: Policy,
    cadence: CadencePolicy,
    *,
    levels: LevelPolicy | None = None,
    telemetry: TelemetryPolicy | None = None,
    remind_every: timedelta | None = None,
) -> Policy:
    return replace(
        policy,
        cadence=cadence,
        levels=levels or policy.levels,
        telemetry=telemetry or policy.telemetry,
        alerts=replace(policy.alerts, remind_every=remind_every) if remind_every else policy.alerts,
        resources=_WITHOUT_VOLUMES,
    )
