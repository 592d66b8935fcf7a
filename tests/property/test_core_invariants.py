"""Invariants of the core: what a forecast may claim, what noise may do, no alert twice or never.

Volumes are played minute by minute: a demand in IOPS goes in, the one-minute minima of the balance come out.
"""

from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, pairwise
from math import inf, isclose

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.forecast import EXTRAPOLATION_FACTOR, Forecast, forecast
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, baseline_iops
from burstwatch.core.policy.policy import Mode, Policy
from support.builders.core_values import NOON, TrackedVolume, a_decision, a_volume, an_assessment

NOON_S = int(NOON.timestamp())
POLICY = Policy()
ACT_LEAD_S = POLICY.cadence.act_lead.total_seconds()
TOLERANCE = 1e-6

sizes_gib = st.integers(1, 999)
demands_iops = st.one_of(st.integers(0, 3_500), st.sampled_from([0, 100, 300, 1_500, 3_000]))


def pct(credits_: float) -> float:
    return credits_ / CREDITS_PER_PCT


def after_a_minute(credits_: float, baseline: int, demand: int) -> float:
    served = min(demand, BURST_IOPS)
    return min(BUCKET_CREDITS, max(0.0, credits_ + 60 * (baseline - served)))


def minima_of(start: float, baseline: int, demand: list[int]) -> tuple[Series, float]:
    """The minima that CloudWatch would show, the newest ending at noon, and the credits left then.

    The balance goes one way within a minute, so its minimum is at one of the ends.
    """
    levels = list(accumulate(demand, lambda c, d: after_a_minute(c, baseline, d), initial=start))
    first_s = NOON_S - 60 * len(demand)
    starts = tuple(first_s + 60 * index for index in range(len(demand)))
    return Series(starts, tuple(pct(min(pair)) for pair in pairwise(levels))), levels[-1]


def empty_after_s(credits_: float, baseline: int, demand: list[int]) -> float:
    """Seconds until the bucket is empty under this demand, a minute each, and full burst from then on."""
    passed_s = 0.0
    for wanted in demand:
        drain = min(wanted, BURST_IOPS) - baseline
        if drain > 0 and credits_ <= 60 * drain:
            return passed_s + credits_ / drain
        credits_ = after_a_minute(credits_, baseline, wanted)
        passed_s += 60
    return passed_s + credits_ / (BURST_IOPS - baseline)


@st.composite
def played_volumes(draw):
    """A baseline, the minima seen so far and the credits really left."""
    baseline = baseline_iops(draw(sizes_gib))
    start = draw(st.floats(0, BUCKET_CREDITS))
    series, remaining = minima_of(start, baseline, draw(st.lists(demands_iops, min_size=1, max_size=70)))
    return baseline, series, remaining


# forecasts


@settings(max_examples=400, deadline=None)
@given(played_volumes(), st.integers(0, 1_800), st.lists(demands_iops, max_size=60))
def test_no_volume_is_empty_before_its_soonest_empty_time(played, age_s, demand):
    baseline, series, remaining = played
    result = forecast(series, bucket=gp2_bucket(baseline), age_s=age_s)
    actual_empty_in_s = empty_after_s(remaining, baseline, demand) - age_s
    assert result.soonest_empty_s <= max(0.0, actual_empty_in_s) + TOLERANCE


@settings(max_examples=300, deadline=None)
@given(played_volumes(), st.integers(0, 1_800))
def test_an_estimate_is_never_earlier_than_the_bound_and_lies_within_its_spread(played, age_s):
    baseline, series, _ = played
    result = forecast(series, bucket=gp2_bucket(baseline), age_s=age_s)
    assert (
        result.drain_per_s is None
        or -baseline - TOLERANCE <= result.drain_per_s <= BURST_IOPS - baseline + TOLERANCE
    )
    if result.time_to_empty_s is None:
        assert (result.earliest_s, result.latest_s) == (None, None)
        return
    assert result.time_to_empty_s >= result.soonest_empty_s
    if result.earliest_s is not None:
        assert (
            result.soonest_empty_s <= result.earliest_s <= result.time_to_empty_s <= (result.latest_s or inf)
        )


@settings(max_examples=200, deadline=None)
@given(sizes_gib, st.integers(1, BURST_IOPS), st.integers(0, 1_800), st.data())
def test_under_a_constant_drain_the_estimate_is_credits_over_drain_less_age(size_gib, drain, age_s, data):
    baseline = baseline_iops(size_gib)
    drain = min(drain, BURST_IOPS - baseline)
    count = data.draw(st.integers(4, min(90, BUCKET_CREDITS // (60 * drain))))
    remaining = data.draw(st.floats(0, BUCKET_CREDITS - 60 * drain * (count - 1)))
    values = tuple(pct(remaining + 60 * drain * minute) for minute in reversed(range(count)))
    result = forecast(
        Series(tuple(60 * m for m in range(count)), values), bucket=gp2_bucket(baseline), age_s=age_s
    )
    assert result.is_draining
    assert isclose(result.drain_per_s, drain, rel_tol=1e-6)
    assert isclose(result.time_to_empty_s, max(0.0, remaining / drain - age_s), rel_tol=1e-6, abs_tol=1e-3)


def is_announced(result: Forecast, credits_left: float) -> bool:
    """Whether some drain has lasted long enough to be believed."""
    return any(
        d.credits_per_s > 0 and credits_left / d.credits_per_s <= EXTRAPOLATION_FACTOR * d.duration_s
        for d in result.drain_rates
    )


@settings(max_examples=400, deadline=None)
@given(
    sizes_gib, st.lists(st.tuples(demands_iops, st.integers(0, 3_000)), min_size=4, max_size=70), st.data()
)
def test_more_load_in_the_newest_minutes_never_puts_off_what_is_announced(size_gib, minutes, data):
    baseline = baseline_iops(size_gib)
    since = len(minutes) - data.draw(st.integers(1, len(minutes)))
    demand = [wanted for wanted, _ in minutes]
    more = demand[:since] + [min(wanted + extra, BURST_IOPS) for wanted, extra in minutes[since:]]
    start = data.draw(st.floats(0, BUCKET_CREDITS))
    # A full bucket swallows load and an empty one refuses it: keep clear of both ends.
    ends = [
        start + 60 * sum(baseline - min(d, BURST_IOPS) for d in item[:n])
        for item in (demand, more)
        for n in range(71)
    ]
    assume(min(ends) >= 0 and max(ends) <= BUCKET_CREDITS)
    less_series, more_series = (minima_of(start, baseline, item)[0] for item in (demand, more))
    lower, higher = (forecast(s, bucket=gp2_bucket(baseline), age_s=0) for s in (less_series, more_series))
    assert higher.soonest_empty_s <= lower.soonest_empty_s
    if lower.time_to_empty_s is not None and is_announced(lower, less_series.values[-1] * CREDITS_PER_PCT):
        assert higher.time_to_empty_s <= lower.time_to_empty_s * (1 + TOLERANCE)


# noise


@dataclass(frozen=True)
class SteadyLoad:
    """A steady demand on a volume, and the same with one noisy minute among the newest sixteen."""

    size_gib: int
    clean: Series
    noisy: Series

    def judge(self, series: Series, last: Level) -> tuple[Level, Forecast]:
        assessment = an_assessment(series, volume=a_volume(self.size_gib), now="12:00")
        return classify(assessment, last, POLICY), assessment.forecast


@st.composite
def steady_loads(draw, size_gib: int, drain: int, newest_pct: float, *, noise_iops: int) -> SteadyLoad:
    """As many minutes as fit between 5 and 100 %, 90 at most and 21 at least."""
    room_pct = 100 - newest_pct if drain > 0 else newest_pct - 5
    minutes = min(90, int(room_pct / pct(60 * abs(drain)))) if drain else 90
    assume(minutes >= 21)
    noisy_minute = minutes - 1 - draw(st.integers(0, 15))

    def series(noise_drain: int) -> Series:
        by_minute = [noise_drain if minute == noisy_minute else drain for minute in range(minutes)]
        start = newest_pct + pct(60 * drain * minutes)
        values = tuple(accumulate(by_minute, lambda balance, d: balance - pct(60 * d), initial=start))
        return Series(tuple(NOON_S - 60 * (minutes + 1 - minute) for minute in range(minutes + 1)), values)

    noisy = series(noise_iops - baseline_iops(size_gib))
    assume(min(noisy.values) >= 4 and max(noisy.values) <= 101)
    return SteadyLoad(size_gib, series(drain), noisy)


@st.composite
def calm_loads(draw, *, noise_iops: int) -> SteadyLoad:
    """The volume holds its balance or refills."""
    size_gib = draw(sizes_gib)
    drain = -draw(st.one_of(st.just(0), st.integers(0, baseline_iops(size_gib))))
    newest_pct = draw(st.floats(9, 100))
    return draw(steady_loads(size_gib, drain, newest_pct, noise_iops=noise_iops))


@st.composite
def draining_loads(draw, *, noise_iops: int) -> SteadyLoad:
    """The volume would be empty within three hours."""
    size_gib, empty_in_min = draw(sizes_gib), draw(st.integers(5, 180))
    fastest = min(BURST_IOPS - baseline_iops(size_gib), int(80 * CREDITS_PER_PCT / 60 / empty_in_min))
    slowest = int(9 * CREDITS_PER_PCT / 60 / empty_in_min) + 1
    assume(slowest <= fastest)
    drain = draw(st.integers(slowest, fastest))
    return draw(steady_loads(size_gib, drain, pct(60 * drain * empty_in_min), noise_iops=noise_iops))


WITHIN_S = {Level.WARNING: 3_600, Level.CRITICAL: 900}
LEAVE_S = {Level.WARNING: 5_400, Level.CRITICAL: 1_800}


@settings(max_examples=300, deadline=None)
@given(calm_loads(noise_iops=BURST_IOPS), st.sampled_from([Level.OK, Level.WATCH]))
def test_a_noisy_minute_of_a_volume_that_does_not_drain_enters_no_level_above_watch(load, last):
    level, assessment = load.judge(load.noisy, last)
    assert level.rank <= Level.WATCH.rank or assessment.soonest_empty_s <= ACT_LEAD_S


@settings(max_examples=300, deadline=None)
@given(draining_loads(noise_iops=BURST_IOPS), st.sampled_from([Level.OK, Level.WATCH]))
def test_a_noisy_minute_only_brings_forward_a_level_that_was_near(load, last):
    # It costs d credits at most, and soonest_empty > 8 min leaves more than 8 d. A level within W needs a
    # horizon of W / 3 at least. Over it d adds no more than 3 d: B <= W g + 4 d, so B / g < 1.8 W.
    (clean_level, clean), (noisy_level, noisy) = (
        load.judge(series, last) for series in (load.clean, load.noisy)
    )
    if noisy_level.rank > clean_level.rank and noisy_level.is_alerting and noisy.soonest_empty_s > ACT_LEAD_S:
        assert clean.time_to_empty_s <= 1.8 * WITHIN_S[noisy_level]


@settings(max_examples=300, deadline=None)
@given(draining_loads(noise_iops=0), st.sampled_from([Level.WARNING, Level.CRITICAL]))
def test_a_quiet_minute_of_a_draining_volume_leaves_a_level_only_by_the_estimate(load, last):
    clean_level, _ = load.judge(load.clean, last)
    assume(clean_level is last)
    noisy_level, noisy = load.judge(load.noisy, last)
    for level, leave_s in LEAVE_S.items():
        if noisy_level.rank < level.rank <= last.rank:
            assert noisy.time_to_empty_s is not None
            assert noisy.time_to_empty_s > leave_s


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(calm_loads(noise_iops=BURST_IOPS), draining_loads(noise_iops=BURST_IOPS)),
    st.sampled_from([Level.WARNING, Level.CRITICAL]),
)
def test_a_noisy_minute_never_leaves_a_level(load, last):
    clean_level, _ = load.judge(load.clean, last)
    noisy_level, _ = load.judge(load.noisy, last)
    assert noisy_level.rank >= clean_level.rank


# any evidence at all

# CloudWatch's own figures have two decimals at most; any gaps, any order, any future.
any_series = st.lists(
    st.tuples(
        st.integers(NOON_S - 7_200, NOON_S + 600), st.integers(0, 10_000).map(lambda cents: cents / 100)
    ),
    max_size=30,
).map(Series.from_pairs)
any_volume = st.builds(
    a_volume,
    st.integers(1, 16_384),
    volume_type=st.sampled_from(["gp2", "gp2", "gp2", "gp3", "io1"]),
    attached=st.sampled_from([True, True, False]),
    created_at=st.sampled_from([NOON - timedelta(days=9), NOON - timedelta(minutes=5)]),
    instance_id=st.sampled_from(["i-0a1", None]),
)
any_evidence = st.fixed_dictionaries(
    {"balance": st.one_of(any_series, any_series, st.none()), "volume": any_volume},
    optional={
        "read_error": st.text(max_size=10),
        "instance_state": st.sampled_from(["running", "stopped", "pending", "unheard-of"]),
        "arrived_at_s": st.integers(NOON_S - 3_600, NOON_S),
        "modified_at_s": st.integers(NOON_S - 3_600, NOON_S),
        "smaller_size_gib": st.integers(1, 16_384),
        "read_ops": any_series,
        "write_ops": any_series,
    },
)


@settings(max_examples=300, deadline=None)
@given(any_evidence, any_evidence, st.sampled_from(Mode))
def test_any_evidence_leads_to_a_decision_and_always_to_the_same(first, then, mode):
    tracked = TrackedVolume(mode=mode)
    tracked.evaluate("11:59", **first)
    assessment = an_assessment(
        then["balance"], **{key: value for key, value in then.items() if key != "balance"}
    )
    decision, again = (a_decision(assessment, tracked.state, mode=mode) for _ in range(2))
    assert decision == again
    assert (decision.level is Level.UNKNOWN) == (assessment.unknown_reason is not None)
    assert (assessment.sample is None) == (assessment.unknown_reason is not None)


# who is notified


def series_at(level: Level, newest_starts_s: int) -> Series:
    """One-minute balances of 100 GiB that are at this level, whatever the level was before."""
    count, per_minute, newest = {
        Level.OK: (40, 0.0, 100.0),
        Level.WATCH: (40, 0.0, 60.0),
        Level.WARNING: (40, 0.9, 50.0),
        Level.CRITICAL: (20, 3.0, 18.0),
        Level.EXHAUSTED: (20, 3.0, 0.0),
    }[level]
    values = tuple(newest + per_minute * minute for minute in reversed(range(count)))
    return Series(tuple(newest_starts_s - 60 * minute for minute in reversed(range(count))), values)


DATA_MISSING = [UnknownReason.DETACHED, UnknownReason.INSTANCE_STOPPED, UnknownReason.NOT_BURSTABLE_TYPE]
SEEN_LEVELS = [Level.OK, Level.WATCH, Level.WARNING, Level.CRITICAL, Level.EXHAUSTED]
MISSING = [UnknownReason.TELEMETRY_GAP, UnknownReason.READ_FAILED, UnknownReason.TOO_NEW]
steps = st.tuples(
    st.integers(1, 9_000), st.one_of(st.sampled_from(SEEN_LEVELS), st.sampled_from([*MISSING, *DATA_MISSING]))
)


MISSING_LOOKS = {
    UnknownReason.TELEMETRY_GAP: {"instance_state": "running"},
    UnknownReason.READ_FAILED: {"balance": None, "read_error": "Throttling"},
    UnknownReason.DETACHED: {"volume": a_volume(attached=False)},
    UnknownReason.NOT_BURSTABLE_TYPE: {"volume": a_volume(volume_type="gp3")},
    UnknownReason.INSTANCE_STOPPED: {"instance_state": "stopped"},
}


def evidence_of(evidence: Level | UnknownReason, now_s: int) -> dict:
    if isinstance(evidence, Level):
        return {"balance": series_at(evidence, now_s - 120)}
    return {"balance": Series()} | MISSING_LOOKS.get(evidence, {"arrived_at_s": now_s})


class AlertReader:
    """What people believe about the volume, going by the alerts they got."""

    def __init__(self) -> None:
        self.alerted_level: Level | None = None
        self.alerted_at_s = 0
        self.is_gap_alerted = False
        self.alert_ids: set[str] = set()

    def receive(self, alert) -> None:
        assert alert.alert_id not in self.alert_ids
        self.alert_ids.add(alert.alert_id)
        match alert.kind:
            case AlertKind.RECOVERED:
                self.alerted_level, self.is_gap_alerted = None, False
            case AlertKind.TELEMETRY_GAP:
                self.is_gap_alerted = True
            case _:
                self.alerted_level, self.alerted_at_s = alert.level, alert.at_s

    def expected_alert(self, decision, now_s: int) -> bool | None:
        """Whether an alert is due; None if either will do."""
        reason = decision.assessment.unknown_reason
        if decision.level.is_alerting:
            is_reminder_due = now_s - self.alerted_at_s >= POLICY.alerts.remind_every.total_seconds()
            return (
                self.alerted_level is not decision.level
                or is_reminder_due
                or (None if self.is_gap_alerted else False)
            )
        if reason is UnknownReason.TELEMETRY_GAP:
            return not self.is_gap_alerted
        if reason in (UnknownReason.READ_FAILED, UnknownReason.TOO_NEW):
            return None
        return self.alerted_level is not None or self.is_gap_alerted


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40))
def test_every_change_and_recovery_is_reported_once(history):
    tracked, reader, now_s, revision = TrackedVolume(), AlertReader(), NOON_S, 0
    for waited_s, evidence in [*history, (60, Level.OK), (60, Level.OK)]:
        now_s += waited_s
        decision = tracked.evaluate(now_s, **evidence_of(evidence, now_s))
        expected = reader.expected_alert(decision, now_s)
        assert len(decision.alerts) == expected or (expected is None and len(decision.alerts) <= 1)
        for alert in decision.alerts:
            is_level = alert.kind in (AlertKind.DRAINING, AlertKind.EXHAUSTED)
            assert is_level == decision.level.is_alerting
            assert alert.is_reminder == (is_level and reader.alerted_level is decision.level)
            reader.receive(alert)
        if decision.assessment.unknown_reason is None:
            reader.is_gap_alerted = False
        revisions = {decision.change.state.revision} if decision.change and decision.change.state else set()
        revisions |= {entry.revision for entry in decision.change.entries} if decision.change else set()
        assert len(revisions) <= 1
        assert all(later > revision for later in revisions)
        revision = max(revisions, default=revision)
    assert (reader.alerted_level, reader.is_gap_alerted, tracked.state) == (None, False, None)


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=20))
def test_mode_observe_evaluates_and_alerts_no_one(history):
    observing, alerting, now_s = TrackedVolume(mode=Mode.OBSERVE), TrackedVolume(), NOON_S
    for waited_s, evidence in history:
        now_s += waited_s
        decisions = [
            tracked.evaluate(now_s, **evidence_of(evidence, now_s)) for tracked in (observing, alerting)
        ]
        assert decisions[0].level is decisions[1].level
    assert observing.alerts == []
