"""Whatever happened to the balance, and whatever CloudWatch leaves out: no wrong answer is given.

A world is lived in steps of ten seconds, by arithmetic of its own. The volume is gp2 until some moment of its
way out and again from some moment of its way back. Operations take credits a little other than they are
counted, earning is a little off, datapoints are read at any moment of their period, rounded, and missing.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstctl.experiment.credit_reset import LOOKBACK_S, UNCLEAR, Hypothesis, RoundTrip, reach_verdict
from burstlab.fake_aws.cloudwatch.volume_metrics import read_datapoints
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, baseline_iops

STEP_S = 10
START_S = 1_763_640_000
MINUTE_STEPS = 60 // STEP_S


@dataclass
class World:
    """One volume's life; ``left`` to ``returned`` are steps, ``loads`` what each minute asks for."""

    hypothesis: Hypothesis
    size_gib: int
    balance_pct: float
    left_step: int
    on_target: int
    return_started: int
    returned: int
    ends: int
    gp2_until: int
    gp2_from: int
    loads: list[float]
    earns: float
    takes: float
    credits_now: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)

    def simulate(self) -> None:
        held, baseline = self.balance_pct / 100 * BUCKET_CREDITS, baseline_iops(self.size_gib)
        left_with = held
        for step in range(self.ends):
            requested = self.loads[step // MINUTE_STEPS % len(self.loads)]
            if step == self.gp2_from:
                away_s = (self.gp2_from - self.gp2_until) * STEP_S
                held = {
                    Hypothesis.KEPT: left_with,
                    Hypothesis.REFILLED: left_with + self.earns * baseline * away_s,
                    Hypothesis.RESET: BUCKET_CREDITS,
                    Hypothesis.EMPTIED: 0.0,
                }[self.hypothesis]
                held = min(held, BUCKET_CREDITS)
            self.credits_now.append(held)
            if self.gp2_until <= step < self.gp2_from:
                self.served.append(requested * STEP_S)
                continue
            earned = self.earns * baseline * STEP_S
            served = min(requested, BURST_IOPS) * STEP_S
            served = min(served, (held + earned) / self.takes)
            self.served.append(served)
            held = max(0.0, min(BUCKET_CREDITS, held + earned - self.takes * served))
            if step < self.gp2_until:
                left_with = held
        self.credits_now.append(held)

    def round_trip(self, *, period_s, reads, noise_pct, known_until, known_from, gaps) -> RoundTrip:
        """What CloudWatch shows of it: a reading for each period that is gp2 from end to end."""
        steps = period_s // STEP_S
        balance, operations = [], []
        for number, start in enumerate(range(0, self.ends - steps + 1, steps)):
            start_s, end = START_S + start * STEP_S, start + steps
            if number not in gaps[1]:
                operations.append((start_s, sum(self.served[start:end])))
            is_known = end <= min(known_until, self.gp2_until) or start >= max(known_from, self.gp2_from)
            if is_known and number not in gaps[0]:
                held = self.credits_now[start + reads[number % len(reads)] % (steps + 1)]
                pct = held / BUCKET_CREDITS * 100 + noise_pct[number % len(noise_pct)]
                balance.append((start_s, min(100.0, max(0.0, pct))))
        return RoundTrip(
            size_gib=self.size_gib,
            left_at_s=START_S + self.left_step * STEP_S,
            arrived_at_s=START_S + self.on_target * STEP_S,
            return_started_at_s=START_S + self.return_started * STEP_S,
            returned_at_s=START_S + self.returned * STEP_S,
            balance=Series.from_pairs(balance),
            operations=Series.from_pairs(operations),
        )


@st.composite
def worlds(draw) -> tuple[World, RoundTrip]:
    minutes = MINUTE_STEPS
    left_step = draw(st.integers(10 * minutes, 40 * minutes))
    on_target_s = left_step + draw(st.integers(1, 40 * minutes))
    return_s = on_target_s + draw(st.integers(5 * minutes, 120 * minutes))
    home = return_s + draw(st.integers(1, 40 * minutes))
    iops = st.one_of(st.just(0.0), st.floats(0, 200), st.floats(0, 3500))
    world = World(
        hypothesis=draw(st.sampled_from(Hypothesis)),
        size_gib=draw(st.one_of(st.sampled_from([8, 60, 100]), st.integers(1, 999))),
        balance_pct=draw(st.one_of(st.floats(0, 100), st.sampled_from([0.0, 20.0, 40.0, 60.0, 100.0]))),
        left_step=left_step,
        on_target=on_target_s,
        return_started=return_s,
        returned=home,
        ends=home + 25 * minutes,
        gp2_until=draw(st.integers(left_step, on_target_s)),
        gp2_from=draw(st.integers(return_s, home)),
        loads=draw(st.one_of(st.just([0.0]), st.lists(iops, min_size=1, max_size=12))),
        earns=draw(st.floats(0.95, 1.05)),
        takes=draw(st.floats(0.9, 1.1)),
    )
    world.simulate()
    some = st.one_of(st.just(frozenset()), st.frozensets(st.integers(0, 250), max_size=30))
    round_trip = world.round_trip(
        period_s=draw(st.sampled_from([60, 60, 300])),
        reads=draw(st.lists(st.integers(0, 30), min_size=1, max_size=7)),
        noise_pct=draw(st.one_of(st.just([0.0]), st.lists(st.floats(-1, 1), min_size=1, max_size=7))),
        known_until=draw(st.integers(left_step, on_target_s)),
        known_from=draw(st.integers(return_s, home)),
        gaps=(draw(some), draw(some)),
    )
    return world, round_trip


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_wrong_answer_is_given(lived):
    world, round_trip = lived

    verdict = reach_verdict(round_trip)

    assert verdict.conclusion in (world.hypothesis, UNCLEAR)
    assert verdict.predictions is None or world.hypothesis in verdict.consistent


@settings(max_examples=30, deadline=None)
@given(lived=worlds(), hypothesis=st.sampled_from(Hypothesis))
def test_a_quiet_volume_away_long_enough_gives_an_answer(lived, hypothesis):
    """The same worlds without load, noise and gaps, begun at 30 % and away for an hour."""
    world, _ = lived
    world.hypothesis, world.size_gib, world.balance_pct, world.loads = hypothesis, 60, 30.0, [0.0]
    world.earns, world.takes = 1.0, 1.0
    ways = (min(world.on_target - world.left_step, 60), min(world.returned - world.return_started, 60))
    world.on_target, world.return_started = (
        world.left_step + ways[0],
        world.left_step + ways[0] + 60 * MINUTE_STEPS,
    )
    world.returned = world.return_started + ways[1]
    world.ends = world.returned + 25 * MINUTE_STEPS
    world.gp2_until = min(max(world.gp2_until, world.left_step), world.on_target)
    world.gp2_from = min(max(world.gp2_from, world.return_started), world.returned)
    world.credits_now, world.served = [], []
    world.simulate()
    round_trip = world.round_trip(
        period_s=60, reads=[0], noise_pct=[0.0], known_until=0, known_from=0, gaps=((), ())
    )
    complete = world.round_trip(
        period_s=60, reads=[0], noise_pct=[0.0], known_until=world.on_target, known_from=0, gaps=((), ())
    )

    assert reach_verdict(complete).conclusion == hypothesis
    assert reach_verdict(round_trip).conclusion in (hypothesis, UNCLEAR)


HYPOTHESES = {
    "kept": Hypothesis.KEPT,
    "refilled": Hypothesis.REFILLED,
    "reset": Hypothesis.RESET,
    "emptied": Hypothesis.EMPTIED,
}
MOMENTS = ["accepted", "optimizing", "completed"]
UPLIFTS = ["accepted", "linear", "completed"]


@pytest.mark.parametrize("balance_after", HYPOTHESES)
def test_the_lab_setting_is_identified_whenever_it_switches(balance_after):
    """It is not documented when a balance stops and comes back, nor when what is new is felt."""
    for moment, uplift in product(MOMENTS, UPLIFTS):
        round_trip = modification_times(balance_after=balance_after, balance_switches=moment, uplift=uplift)
        assert reach_verdict(round_trip).conclusion == HYPOTHESES[balance_after], (moment, uplift)


def modification_times(**chosen) -> RoundTrip:
    """60 GiB from 40 % to io1 for an hour and back, in a lab without a network around it."""
    start_at = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    quick = LabSettings(modify_minutes_per_tib=90, **chosen)
    fleet = LabFleet(LabClock.manual(start_at), quick)
    initial_volume = LabVolume(
        size_gib=60, balance_pct=40, load="steady:30", starts_at=start_at - timedelta(minutes=40)
    )
    volume_id = fleet.add(initial_volume)
    ways = []
    for wanted, stay_s in (("io1", 3600), ("gp2", 1500)):
        fleet.modify(volume_id, volume_type=wanted, **({"iops": 3000} if wanted == "io1" else {}))
        fleet.clock.advance(1200)
        ways.append(fleet.modifications(volume_id)[-1])
        assert ways[-1].has_ended
        fleet.clock.advance(stay_s)
    now_s = fleet.now_s()
    volume = fleet.find(volume_id)
    results = {
        metric: read_datapoints(
            volume,
            metric,
            statistic,
            period_s=60,
            from_s=int(ways[0].started_at.timestamp()) - LOOKBACK_S,
            to_s=now_s,
            now_s=now_s,
            settings=fleet.settings,
        )
        for metric, statistic in (
            ("BurstBalance", "Minimum"),
            ("VolumeReadOps", "Sum"),
            ("VolumeWriteOps", "Sum"),
        )
    }
    reads, writes = results["VolumeReadOps"], results["VolumeWriteOps"]
    hypotheses = [
        (start_s, item + other)
        for start_s, item, other in zip(reads.starts_s, reads.values, writes.values, strict=True)
    ]
    moments = [at.timestamp() for way in ways for at in (way.started_at, way.ended_at)]
    return RoundTrip(
        size_gib=60,
        **dict(
            zip(("left_at_s", "arrived_at_s", "return_started_at_s", "returned_at_s"), moments, strict=True)
        ),
        balance=Series.from_pairs(
            zip(results["BurstBalance"].starts_s, results["BurstBalance"].values, strict=True)
        ),
        operations=Series.from_pairs(hypotheses),
    )
