"""The guarantee: no volume goes from the sweep to zero without having been in focus with act_lead left.

The adversary picks the size, the policy, the load and the phases of the ticks. It picks how late a minute
appears in CloudWatch (up to the configured lag), and one tick that is lost, late or doubled.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil, inf

import pytest
from hypothesis import assume, given, settings, target
from hypothesis import strategies as st

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import MetricsResult
from burstwatch.adapters.aws.ec2 import InstanceStates, ModificationsResult, VolumesResult
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.assessment.assess import VolumeReading, assess
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.ledger.ledger import FleetSnapshot, TickKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.policy.policy import CadencePolicy, Policy, PolicyError, TelemetryPolicy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.decide import TickContext, decide
from burstwatch.core.watch.polling.cadence import sweep_interval_s
from burstwatch.core.watch.polling.due_volumes import due_in_focus, due_in_sweep, fingerprint
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from support.builders.core_values import a_volume

START_S = 1_763_640_000  # on every sweep grid drawn below
WARM_UP_S = 660  # before that CloudWatch has nothing to show yet


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


@st.composite
def accepted_policies(draw) -> Policy:
    """Any policy that is accepted; the cadence is drawn wide and most of it is refused."""
    try:
        cadence = CadencePolicy(
            watch_below_pct=draw(st.one_of(st.just(95.0), st.integers(10, 98).map(float))),
            calm_from_pct=99.0,
            metric_lag=minutes(draw(st.sampled_from([1, 2, 5, 5, 8]))),
            tick_slack=minutes(draw(st.sampled_from([1, 1, 2, 4]))),
            act_lead=minutes(draw(st.sampled_from([1, 4, 8, 8, 12, 15]))),
            sweep_tick=minutes(draw(st.sampled_from([1, 2, 5, 5, 10]))),
            sweep_at_most=minutes(draw(st.sampled_from([20, 60, 60, 120]))),
            focus_at_most=minutes(draw(st.sampled_from([1, 5, 10]))),
        )
        return Policy(cadence=cadence, telemetry=TelemetryPolicy(gap_after=minutes(60)))
    except PolicyError:
        assume(False)
        raise


@dataclass
class Bucket:
    """A gp2 volume by the second, and what CloudWatch has of it."""

    baseline: int
    credits: float
    lags_s: list[int]
    minima: list[float] = field(default_factory=list)
    empty_at_s: int | None = None

    def simulate(self, start_s: int, seconds: int, demand_iops: int) -> None:
        """Minute by minute: within one the credits only rise or only fall, by as much each second."""
        end_s = start_s + seconds
        while start_s < end_s:
            minute = (start_s - START_S) // 60
            until_s = min(end_s, START_S + 60 * (minute + 1))
            change = self.baseline - min(demand_iops, BURST_IOPS)
            first, last = (self._credits_after(after_s, change) for after_s in (1, until_s - start_s))
            if last <= 0 and self.empty_at_s is None:
                self.empty_at_s = start_s + ceil(self.credits / -change) - 1
            self._record(minute, min(first, last) / CREDITS_PER_PCT)
            start_s, self.credits = until_s, last

    def _credits_after(self, seconds: int, change: int) -> float:
        return min(BUCKET_CREDITS, max(0.0, self.credits + seconds * change))

    def _record(self, minute: int, balance: float) -> None:
        if minute == len(self.minima):
            self.minima.append(balance)
        else:
            self.minima[minute] = min(self.minima[minute], balance)

    def visible_at(self, now_s: int) -> Series:
        """The minutes that CloudWatch shows: each appears a lag of its own after its start."""
        return Series.from_pairs(
            (START_S + 60 * minute, value)
            for minute, value in enumerate(self.minima)
            if START_S + 60 * minute + self.lags_s[minute % len(self.lags_s)] <= now_s
        )


@dataclass
class Watchdog:
    """The core's rules on one volume, with nothing around them."""

    volume: Volume
    policy: Policy
    roster: FleetSnapshot
    state: ResourceState | None = None
    in_focus_since_s: int | None = None
    looks: int = 0

    def tick(self, tick_s: int, now_s: int, bucket: Bucket) -> None:
        states = {self.state.volume_id: self.state} if self.state else {}
        due = bool(due_in_focus(states, tick_s))
        grid_s = int(self.policy.cadence.sweep_tick.total_seconds())
        sweep_s = tick_s // grid_s * grid_s
        if sweep_s > self.roster.tick_at_s:
            due |= bool(
                list(
                    due_in_sweep(
                        [self.volume],
                        states,
                        snapshot=self.roster,
                        sweep_at_s=sweep_s,
                        focused=frozenset(),
                        instances_restarted=frozenset(),
                        smaller_sizes_gib={},
                        policies=BucketPolicies(self.policy),
                    )
                )
            )
            self.roster = FleetSnapshot(tick_at_s=sweep_s, fingerprints=self.roster.fingerprints)
        if due:
            self._look(tick_s, now_s, bucket)

    def _look(self, tick_s: int, now_s: int, bucket: Bucket) -> None:
        self.looks += 1
        assessment = assess(
            self.volume,
            VolumeReading(balance=bucket.visible_at(now_s)),
            now_s=now_s,
            telemetry=self.policy.telemetry,
        )
        look = TickContext(now_s=now_s, tick_at_s=tick_s, location=AwsLocation(region="us-east-1"))
        tag_settings = read_tags({}, self.policy.mode)
        decision = decide(assessment, self.state, tag_settings, policy=self.policy, context=look)
        if decision.change:
            self.state = decision.change.state
        if self.state is None or self.state.next_poll_at_s is None:
            self.in_focus_since_s = None
        elif self.in_focus_since_s is None:
            self.in_focus_since_s = now_s


@dataclass
class Plan:
    """What the adversary does: demand as (seconds, IOPS), the ticks as (time it runs, nominal time)."""

    volume: Volume
    policy: Policy
    start_credits: float
    lags_s: list[int]
    demand: list[tuple[int, int]]
    ticks: list[tuple[int, int]]


def run_plan(plan: Plan, watchdog=None, *, max_looks=inf) -> tuple[Bucket, Watchdog, list[int]]:
    """Run a plan until the volume is empty or the ticks end; also the index of every tick that looked."""
    watchdog = watchdog or Watchdog(plan.volume, plan.policy, first_roster(plan))
    bucket = Bucket(baseline_iops(plan.volume.size_gib), plan.start_credits, plan.lags_s)
    demand = iter(plan.demand)
    left_s, iops = next(demand)
    now_s, looks = START_S, []
    for index, (run_at_s, tick_s) in enumerate(plan.ticks):
        while now_s < run_at_s:
            step_s = min(left_s, run_at_s - now_s)
            bucket.simulate(now_s, step_s, iops)
            now_s, left_s = now_s + step_s, left_s - step_s
            if left_s == 0:
                left_s, iops = next(demand, (10**9, BURST_IOPS))
        if bucket.empty_at_s is not None or len(looks) >= max_looks:
            break
        if run_at_s >= START_S + WARM_UP_S:
            looked = watchdog.looks
            watchdog.tick(tick_s, run_at_s, bucket)
            looks += [index] * (watchdog.looks - looked)
    return bucket, watchdog, looks


def first_roster(plan: Plan) -> FleetSnapshot:
    """The volume is known, so that it is not looked at for being new."""
    grid_s = int(plan.policy.cadence.sweep_tick.total_seconds())
    known = frozenset({fingerprint(plan.volume, BucketPolicies(plan.policy))})
    return FleetSnapshot(tick_at_s=START_S - grid_s, fingerprints=known)


class WatchdogWithLedger:
    """The product's own ``run_tick`` with its ledger; only AWS is played, and answers from the bucket."""

    def __init__(self, plan: Plan, ledger: SqliteLedger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._bucket: Bucket | None = None
        self._now_s = 0
        self.in_focus_since_s = None
        self.looks = 0
        roster = first_roster(plan)
        ledger.complete_tick(TickKind.SWEEP, roster.tick_at_s, fleet_fingerprints=roster.fingerprints)
        self._shell = Services(
            ec2=self, cloudwatch=self, ledger=ledger, calls=CallCounter(), policy=plan.policy,
            location=AwsLocation(region="us-east-1"),
        )  # fmt: skip

    def tick(self, tick_s, now_s, bucket):
        self._bucket, self._now_s = bucket, now_s
        report = run_tick(self._shell, tick_at_s=tick_s, now_s=now_s)
        self.looks += bool(report and report.decisions)
        state = self._ledger.states().get(self._plan.volume.volume_id)
        if state is None or state.next_poll_at_s is None:
            self.in_focus_since_s = None
        elif self.in_focus_since_s is None:
            self.in_focus_since_s = now_s

    def volumes(self, filters, *, report_failure, on_page):
        return iter([self._plan.volume])

    def volumes_by_id(self, volume_ids):
        return VolumesResult(volumes=[self._plan.volume] if volume_ids else [])

    def modifications_in_progress(self, *, report_failure):
        return iter(())

    def modifications_by_id(self, volume_ids):
        return ModificationsResult()

    def instance_states(self, instance_ids):
        return InstanceStates(states=dict.fromkeys(instance_ids, "running"))

    def read(self, queries, start_s, end_s, *, on_batch=None):
        visible = self._bucket.visible_at(self._now_s)
        recent = Series.from_pairs(
            (s.start_at_s, s.value) for s in visible if start_s <= s.start_at_s < end_s
        )
        return MetricsResult(series={q: recent if q.metric == "BurstBalance" else Series() for q in queries})


@st.composite
def adversaries(draw) -> Plan:
    """Rehearse on a calm volume to learn when it is looked at, then strike between two looks.

    The fault hits the tick that would have looked next, or any other.
    """
    policy = draw(accepted_policies())
    cadence = policy.cadence
    volume = a_volume(
        draw(st.one_of(st.integers(1, 60), st.integers(1, 900))),
        volume_id=f"vol-{draw(st.integers(0, 2**32)):017x}",
    )
    baseline = baseline_iops(volume.size_gib)
    lag_s = int(cadence.metric_lag.total_seconds())
    grid_s = int(cadence.sweep_tick.total_seconds())
    calm_s = WARM_UP_S + 2 * sweep_interval_s(gp2_bucket(baseline), cadence) + 900
    burst_s = BUCKET_CREDITS // (BURST_IOPS - baseline)
    focus_phase_s, sweep_phase_s = draw(st.integers(0, 59)), draw(st.integers(0, 299)) % grid_s
    nominal = sorted(
        tick_s
        for phase_s, every_s in ((focus_phase_s, 60), (sweep_phase_s, grid_s))
        for tick_s in range(START_S + phase_s, START_S + calm_s + 4_000 + burst_s, every_s)
    )
    plan = Plan(
        volume=volume,
        policy=policy,
        start_credits=min(100.0, cadence.watch_below_pct + draw(st.sampled_from([0.0, 0.01, 2.0])))
        * CREDITS_PER_PCT,
        lags_s=draw(st.lists(st.one_of(st.just(lag_s), st.integers(60, lag_s)), min_size=1, max_size=4)),
        demand=[(10**9, baseline)],
        ticks=[(tick_s, tick_s) for tick_s in nominal if tick_s < START_S + calm_s],
    )
    _, _, looks = run_plan(plan, max_looks=2)
    assume(len(looks) >= 2)
    last_calm_look_s, next_look = nominal[looks[0]], looks[1]
    strike_s = last_calm_look_s - START_S + draw(st.integers(-lag_s - 60, 60))
    erratic = st.tuples(st.integers(1, 900), st.integers(0, 4_000))
    prelude = draw(st.one_of(st.just([]), st.lists(erratic, max_size=4)))
    plan.demand = [(max(1, strike_s), baseline), *prelude]
    fault_at = draw(st.one_of(st.just(next_look), st.integers(0, len(nominal) - 1)))
    fault = draw(st.sampled_from(["lost", "late", "doubled", "none"]))
    plan.ticks = with_fault(
        nominal, fault, fault_at, draw(st.integers(1, int(cadence.tick_slack.total_seconds())))
    )
    return plan


def with_fault(nominal: list[int], fault: str, index: int, late_by_s: int) -> list[tuple[int, int]]:
    ticks = [(tick_s, tick_s) for tick_s in nominal]
    tick_s = nominal[index]
    match fault:
        case "lost":
            del ticks[index]
        case "late":
            ticks[index] = (tick_s + late_by_s, tick_s)
        case "doubled":
            ticks.insert(index, ticks[index])
    return sorted(ticks)


@settings(max_examples=300, deadline=None)
@given(adversaries())
def test_no_volume_empties_between_sweeps_without_act_lead_in_focus(plan):
    bucket, watchdog, _ = run_plan(plan)
    assert bucket.empty_at_s is not None
    assert watchdog.in_focus_since_s is not None, "dry while still in the sweep"
    act_lead_s = plan.policy.cadence.act_lead.total_seconds()
    lead_s = bucket.empty_at_s - watchdog.in_focus_since_s
    target(-lead_s / act_lead_s)
    assert lead_s >= act_lead_s


@settings(max_examples=20, deadline=None)
@given(adversaries())
def test_the_guarantee_holds_for_the_whole_watchdog_with_its_ledger(plan):
    with SqliteLedger.in_memory() as ledger:
        bucket, watchdog, _ = run_plan(plan, WatchdogWithLedger(plan, ledger))
    assert bucket.empty_at_s is not None
    assert watchdog.in_focus_since_s is not None, "dry while still in the sweep"
    assert bucket.empty_at_s - watchdog.in_focus_since_s >= plan.policy.cadence.act_lead.total_seconds()


@given(accepted_policies(), st.integers(1, 999))
def test_the_poll_interval_rule_holds_for_every_size_and_accepted_policy(policy, size_gib):
    cadence, baseline = policy.cadence, baseline_iops(size_gib)
    lasts_s = cadence.watch_below_pct * CREDITS_PER_PCT / (BURST_IOPS - baseline)
    assert sweep_interval_s(gp2_bucket(baseline), cadence) + cadence.reserve.total_seconds() <= lasts_s


@pytest.mark.parametrize("strike_s", range(-360, 61, 20))
def test_a_lost_tick_at_the_worst_moment_is_within_the_slack(strike_s):
    """A policy so tight that a sweep interval chosen without ``tick_slack`` would be too long.

    33 GiB at 95 % last 5,130,000 / 2,900 = 1,769 s. Less 300 + 60 + 540 s that leaves 869 s: ten minutes.
    Without the slack it would be 929 s: fifteen, and the lost tick would cost the lead.
    """
    policy = Policy(cadence=CadencePolicy(act_lead=minutes(9)))
    volume = a_volume(33, volume_id="vol-0a1")
    nominal = list(range(START_S + 59, START_S + 3 * 3_600, 60))
    plan = Plan(volume, policy, 95.0 * CREDITS_PER_PCT, [300], [(10**9, 100)], [(t, t) for t in nominal])
    _, _, looks = run_plan(plan, max_looks=3)
    strike_at_s = nominal[looks[1]] - START_S + strike_s
    plan.demand = [(strike_at_s, 100)]
    plan.ticks = with_fault(nominal, "lost", looks[2], 0)
    bucket, watchdog, _ = run_plan(plan)
    assert bucket.empty_at_s - watchdog.in_focus_since_s >= 540
