"""The same guarantee for the other kinds of buckets, each with its own bound and the same rules.

A bucket that bursts between two polls is in focus with its ``act_lead`` left. The datapoints of a bucket are
minima of its period, each shown up to ``metric_lag`` after its start.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burstwatch.core.assessment.assess import VolumeReading, assess
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.poll_interval import is_sweep_due
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, hdd_bucket
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket
from burstwatch.core.instances.instance_buckets import INSTANCE_KINDS, instance_bucket
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.policy.resources import EfsPolicy, InstancePolicy, RdsPolicy, ResourcesPolicy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.rds.rds_buckets import RDS_IO, gp2_storage_bucket
from burstwatch.core.watch.decide import TickContext, decide
from burstwatch.core.watch.polling.cadence import sweep_interval_s, sweep_ticks
from support.builders.core_values import a_volume, an_instance
from support.builders.storage import a_database, a_file_system

START_S = 1_763_640_000
LONG_AGO = datetime.fromtimestamp(START_S, UTC) - timedelta(days=30)
TICK_S = 60
PLACE = AwsLocation(region="us-east-1")


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


@dataclass
class Watched:
    """One bucket of one resource, and what it may do."""

    resource: Resource
    kind: BucketKind
    bucket: Bucket
    policy: Policy


@st.composite
def hdd_volumes(draw) -> Watched:
    volume_type = draw(st.sampled_from(["st1", "sc1"]))
    size_gib = draw(st.integers(125, 16_384))
    bucket = hdd_bucket(volume_type, size_gib)
    assume(bucket.highest_drain_per_s > 0)
    volume = a_volume(size_gib, volume_type=volume_type)
    return Watched(volume, EBS_THROUGHPUT, bucket, policy_of_bucket(draw(policies()), EBS_THROUGHPUT, bucket))


@st.composite
def instances(draw) -> Watched:
    kind = draw(st.sampled_from(INSTANCE_KINDS))
    baseline = draw(st.integers(100, 20_000))
    maximum = baseline * draw(st.floats(1.05, 120))
    # the volumes allow a drain, however slow; or their limits are not known
    ceiling = draw(st.one_of(st.none(), st.floats(baseline * 1.001, baseline * 200)))
    limits = InstanceLimits(
        baseline_iops=baseline,
        max_iops=maximum,
        baseline_throughput_mib_s=baseline,
        max_throughput_mib_s=maximum,
    )
    ceilings = ceiling and (
        VolumeCeiling(volume_id="vol-0a1", volume_type="gp3", iops=ceiling, mib_s=ceiling),
    )
    instance = an_instance(limits=limits, ceilings=ceilings, launched_at=LONG_AGO)
    bucket = instance_bucket(instance, kind)
    return Watched(instance, kind, bucket, policy_of_bucket(draw(policies()), kind, bucket))


@st.composite
def file_systems(draw) -> Watched:
    size_gib = draw(st.one_of(st.just(0), st.floats(0.1, 50_000)))
    file_system = a_file_system(size_gib, created_at=LONG_AGO)
    bucket = efs_bucket(file_system.standard_bytes)
    return Watched(file_system, EFS_BYTES, bucket, policy_of_bucket(draw(policies()), EFS_BYTES, bucket))


@st.composite
def databases(draw) -> Watched:
    engine = draw(st.sampled_from(["postgres", "oracle-ee", "sqlserver-se"]))
    database = a_database(draw(st.integers(20, 3_999)), engine=engine, created_at=LONG_AGO)
    bucket = gp2_storage_bucket(database)
    assume(bucket.highest_drain_per_s > 0)
    return Watched(database, RDS_IO, bucket, policy_of_bucket(draw(policies()), RDS_IO, bucket))


@st.composite
def policies(draw) -> Policy:
    return Policy(
        cadence=CadencePolicy(
            sweep_tick=minutes(draw(st.sampled_from([1, 5, 5]))),
            sweep_at_most=minutes(draw(st.sampled_from([20, 60, 120]))),
            focus_at_most=minutes(draw(st.sampled_from([1, 5, 10]))),
        ),
        resources=ResourcesPolicy(
            instance=InstancePolicy(
                act_lead=minutes(draw(st.sampled_from([5, 12, 30, 60]))),
                metric_lag=minutes(draw(st.sampled_from([5, 10, 10]))),
            ),
            efs=EfsPolicy(
                act_lead=minutes(draw(st.sampled_from([5, 30, 120]))),
                metric_lag=minutes(draw(st.sampled_from([15, 15, 20]))),
            ),
            rds=RdsPolicy(act_lead=minutes(draw(st.sampled_from([5, 12, 30, 60])))),
        ),
    )


class Load:
    """The bucket by the period: calm at its start balance until the strike, then at full burst."""

    def __init__(self, watched: Watched, start_pct: float, strike_s: int, lag_s: int) -> None:
        self.bucket, self.period_s, self.lag_s = watched.bucket, watched.kind.period_s, lag_s
        self.start_pct, self.strike_s = start_pct, strike_s
        self.is_in_credits = watched.kind.is_in_credits
        fall_pct_per_s = 100 * self.bucket.highest_drain_per_s / self.bucket.capacity
        self.fall_pct_per_s, self.empty_at_s = fall_pct_per_s, strike_s + start_pct / fall_pct_per_s

    def pct_at(self, at_s: float) -> float:
        return max(0.0, self.start_pct - max(0.0, at_s - self.strike_s) * self.fall_pct_per_s)

    def visible_at(self, now_s: int) -> Series:
        """The minimum of each period is its balance at the end; each is shown when the lag is over."""
        newest_s = (now_s - self.lag_s) // self.period_s * self.period_s
        starts = range(newest_s - 3_600, newest_s + 1, self.period_s)
        scale = self.bucket.capacity / 100 if self.is_in_credits else 1
        return Series.from_pairs(
            ((start, scale * self.pct_at(start + self.period_s)) for start in starts), self.period_s
        )


def assess_now(watched: Watched, balance: Series, now_s: int):
    telemetry = watched.policy.telemetry
    if isinstance(watched.resource, Volume):
        return assess(watched.resource, VolumeReading(balance=balance), now_s=now_s, telemetry=telemetry)
    reading = BucketReading(balance=balance)
    return assess_resource(watched.resource, watched.kind, reading, now_s=now_s, telemetry=telemetry)


def first_focus_s(watched: Watched, load: Load, lost_tick: int, phase_s: int) -> int | None:
    """When the bucket is first in focus; the next minute's tick takes over a sweep that was lost."""
    cadence = watched.policy.cadence
    grid_s, ticks = int(cadence.sweep_tick.total_seconds()), sweep_ticks(watched.bucket, cadence)
    state, done_until, tick_s = None, (START_S - grid_s) // grid_s, START_S + phase_s
    while tick_s <= load.empty_at_s:
        newest = tick_s // grid_s
        is_lost = (tick_s - START_S) // TICK_S == lost_tick
        if not is_lost and newest > done_until:
            is_due = is_sweep_due("subject", ticks, done_until + 1, newest)
            done_until = newest
            if is_due:
                assessment = assess_now(watched, load.visible_at(tick_s), tick_s)
                assert assessment.unknown_reason is None
                context = TickContext(
                    now_s=tick_s, tick_at_s=tick_s, location=AwsLocation(region="us-east-1")
                )
                settings_of = VolumeSettings(mode=watched.policy.mode.default)
                decision = decide(assessment, state, settings_of, policy=watched.policy, context=context)
                state = decision.change.state if decision.change else state
                if state is not None and state.next_poll_at_s is not None:
                    return tick_s
        tick_s += TICK_S
    return None


@st.composite
def attacks(draw, kinds) -> tuple[Watched, Load, int, int]:
    """The strike falls between two sweeps, near a sweep of the bucket, and any tick may be lost."""
    watched = draw(kinds)
    cadence = watched.policy.cadence
    interval_s = sweep_interval_s(watched.bucket, cadence)
    lag_s = draw(st.sampled_from([int(cadence.metric_lag.total_seconds()), 120]))
    lag_s = max(watched.kind.period_s, lag_s) if watched.kind.period_s > 60 else lag_s
    strike_s = START_S + interval_s + draw(st.integers(0, 2 * interval_s))
    start_pct = draw(st.sampled_from([cadence.watch_below_pct, cadence.watch_below_pct + 0.01, 97.0, 100.0]))
    # the strike may end the day, or the lost tick may be any of it
    lost_tick = draw(st.integers(0, (4 * interval_s + 7_200) // TICK_S))
    return watched, Load(watched, start_pct, strike_s, lag_s), lost_tick, draw(st.integers(0, 59))


def check(attack) -> None:
    watched, load, lost_tick, phase_s = attack
    focus_s = first_focus_s(watched, load, lost_tick, phase_s)
    assert focus_s is not None, "empty while still in the sweep"
    lead_s = watched.policy.cadence.act_lead.total_seconds()
    assert load.empty_at_s - focus_s >= lead_s


@settings(max_examples=150, deadline=None)
@given(attacks(hdd_volumes()))
def test_no_hdd_volume_empties_without_having_been_in_focus_with_its_lead_left(attack):
    check(attack)


@settings(max_examples=150, deadline=None)
@given(attacks(instances()))
def test_no_instance_bucket_empties_without_having_been_in_focus_with_its_lead_left(attack):
    check(attack)


@settings(max_examples=100, deadline=None)
@given(attacks(file_systems()))
def test_no_file_system_empties_without_having_been_in_focus_with_its_lead_left(attack):
    check(attack)


@settings(max_examples=150, deadline=None)
@given(attacks(databases()))
def test_no_storage_of_a_database_empties_without_having_been_in_focus_with_its_lead_left(attack):
    check(attack)


@given(st.one_of(hdd_volumes(), instances(), file_systems(), databases()))
def test_the_poll_interval_rule_holds_for_every_bucket(watched):
    cadence, bucket = watched.policy.cadence, watched.bucket
    lasts_s = bucket.credits_in(cadence.watch_below_pct) / bucket.highest_drain_per_s
    assert sweep_interval_s(bucket, cadence) + cadence.reserve.total_seconds() <= lasts_s + 1e-6


@given(instances(), st.floats(0, 100), st.floats(0, 900))
def test_no_load_that_the_volumes_can_carry_beats_the_bound(watched, balance_pct, age_s):
    """The volumes serve at most their ceilings, and the type its maximum: whichever is less is the drain."""
    start_s = START_S - watched.kind.period_s - int(age_s)
    balance = Series.from_pairs([(start_s, balance_pct)], watched.kind.period_s)
    assessment = assess_now(watched, balance, START_S)
    credits_now = watched.bucket.credits_in(balance_pct)
    lasts_s = credits_now / watched.bucket.highest_drain_per_s - int(age_s)
    assert assessment.forecast.soonest_empty_s <= max(0.0, lasts_s) + 1e-6
