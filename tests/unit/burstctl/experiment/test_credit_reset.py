"""Which answers the datapoints allow: 100 GiB earn 300 credits a second, a third of a per cent a minute.

The volume of these tests leaves at 12:00, is io1 at 12:10, is asked back at 12:55, and is gp2 again at 13:05.
"""

import pytest

from burstctl.experiment.credit_bounds import (
    ANY_CREDITS,
    BURST_ONLY,
    FULL_CREDITS,
    Bounds,
    BucketModel,
    ConstantLoad,
    MeasuredLoad,
    burst_model,
    burst_or_idle_model,
    metric_period_s,
    refill_model,
)
from burstctl.experiment.credit_reset import (
    UNCLEAR,
    Hypothesis,
    RoundTrip,
    credits_before,
    credits_on_arrival,
    indistinguishable_pairs,
    min_away_s,
    predict_after_return,
    predict_on_target,
    reach_verdict,
)
from burstwatch.core.buckets.series import Sample, Series
from support.builders.core_values import at

PCT_PER_MINUTE = 100 / 300
LEFT_AT_S, ON_TARGET_AT_S, RETURN_AT_S, RETURNED_AT_S = at("12:00"), at("12:10"), at("12:55"), at("13:05")


def rising(
    first: str, count: int, start_pct: float, *, per_minute: float = PCT_PER_MINUTE, every_min: int = 1
):
    """Minima of this many periods, from the balance at the start of the first."""
    begins = int(at(first))
    return [(begins + 60 * every_min * n, start_pct + per_minute * every_min * n) for n in range(count)]


def a_round_trip(after, *, before=None, ops_per_s=0.0, every_min=1, **changes) -> RoundTrip:
    """At 40 % when it leaves, unless something else is said; ``after`` are its datapoints from the return."""
    before = rising("11:30", 30 // every_min, 30.0, every_min=every_min) if before is None else before
    minutes = range(int(at("11:30")), int(at("13:50")), 60 * every_min)
    facts = {
        "size_gib": 100,
        "left_at_s": LEFT_AT_S,
        "arrived_at_s": ON_TARGET_AT_S,
        "return_started_at_s": RETURN_AT_S,
        "returned_at_s": RETURNED_AT_S,
        "balance": Series.from_pairs([*before, *after]),
        "operations": Series.from_pairs((start_s, ops_per_s * 60 * every_min) for start_s in minutes),
    }
    return RoundTrip(**(facts | changes))


# Idle it holds 40 % at 12:00. Kept: 40 %, or up to 20 minutes more, 46.7 %, where it lived on its way.
# Refilled: 45 minutes more than that, 55 to 61.7 %. With 1 % of noise at both ends they stay apart.
@pytest.mark.parametrize(
    ("home_pct", "hypothesis"),
    [
        (40.0, Hypothesis.KEPT),
        (45.0, Hypothesis.KEPT),
        (56.0, Hypothesis.REFILLED),
        (61.0, Hypothesis.REFILLED),
        (100.0, Hypothesis.RESET),
        (0.0, Hypothesis.EMPTIED),
        (3.0, Hypothesis.EMPTIED),
    ],
)
def test_each_hypothesis_is_recognised_by_its_balance(home_pct, hypothesis):
    per_minute = min(PCT_PER_MINUTE, (100 - home_pct) / 30)

    verdict = reach_verdict(a_round_trip(rising("13:05", 16, home_pct, per_minute=per_minute)))

    assert verdict.conclusion == hypothesis
    assert verdict.consistent == [hypothesis]
    assert verdict.first_sample == Sample(start_at_s=int(RETURNED_AT_S), value=home_pct)


def test_the_arithmetic_is_reported_with_every_number():
    verdict = reach_verdict(a_round_trip(rising("13:05", 16, 58.0)))

    assert verdict.reasoning[1:3] == [
        "It was away for 45 min, with 10 min to change its type and 10 min to return, during which it may"
        " have behaved as gp2.",
        "100 GiB earn 300 credits a second, 0.333 % a minute: refilling while away adds 15.0 % while nothing"
        " is served.",
    ]
    assert verdict.reasoning[0].startswith("The bucket held 3")
    assert verdict.reasoning[3].startswith(
        "The datapoint of 2026-11-20T13:05:00Z is 58.00 %. Allowed are: kept, "
    )
    assert verdict.reasoning[4] == "Only refilled while away fits, all 16 datapoints from then on."


@pytest.mark.parametrize("home_pct", [20.0, 75.0])
def test_what_fits_no_answer_is_unclear(home_pct):
    verdict = reach_verdict(a_round_trip(rising("13:05", 16, home_pct)))

    assert verdict.conclusion == UNCLEAR
    assert verdict.consistent == []
    assert verdict.reasoning[-1].startswith("None of the four fits")


def test_a_balance_near_full_cannot_distinguish_refilled_from_reset():
    before = rising("11:30", 30, 80.0, per_minute=10 / 30)

    verdict = reach_verdict(a_round_trip(rising("13:05", 16, 100.0, per_minute=0), before=before))

    assert verdict.conclusion == UNCLEAR
    assert set(verdict.consistent) == {Hypothesis.REFILLED, Hypothesis.RESET}
    assert verdict.reasoning[-1] == (
        "It was refilled while away or reset, which cannot be distinguished; it was not kept or emptied."
    )


def test_a_stay_too_short_cannot_separate_kept_from_refilled():
    """8 GiB earn a ninth of a per cent a minute: in 45 minutes 5 %, of which noise leaves little."""
    ninth = 100 / 900
    before = rising("11:30", 30, 40 - 30 * ninth, per_minute=ninth)

    verdict = reach_verdict(
        a_round_trip(rising("13:05", 16, 40.0, per_minute=ninth), before=before, size_gib=8)
    )

    assert verdict.conclusion == UNCLEAR
    assert verdict.consistent == [Hypothesis.KEPT]
    assert "the answer is not certain" in verdict.reasoning[-1]


def test_a_load_after_the_return_is_taken_into_account():
    """From 13:05 on 600 operations a second take 300 more than it earns: it falls, and says kept still."""
    after = rising("13:05", 16, 40.0, per_minute=-PCT_PER_MINUTE)
    minutes = range(int(at("11:30")), int(at("13:30")), 60)
    loaded = Series.from_pairs(
        (start_s, 36_000.0 if start_s >= RETURNED_AT_S else 0.0) for start_s in minutes
    )

    assert reach_verdict(a_round_trip(after, operations=loaded)).conclusion == Hypothesis.KEPT
    assert reach_verdict(a_round_trip(after)).conclusion == UNCLEAR


def test_a_load_that_hides_what_refilling_adds_is_unclear():
    """While it is away 600 operations a second may take all that it earns: refilled may look like kept."""
    before = rising("11:30", 30, 50.0, per_minute=-PCT_PER_MINUTE)
    after = rising("13:05", 16, 50.0, per_minute=-PCT_PER_MINUTE)

    assert reach_verdict(a_round_trip(after, before=before, ops_per_s=600)).conclusion == UNCLEAR


def test_datapoints_that_contradict_the_operations_are_trusted_with_nothing():
    falling = rising("11:30", 30, 50.0, per_minute=-PCT_PER_MINUTE)
    jumping = [*rising("13:05", 8, 40.0), *rising("13:13", 8, 90.0)]

    before, after = (
        reach_verdict(a_round_trip(rising("13:05", 16, 40.0), before=falling)),
        reach_verdict(a_round_trip(jumping)),
    )

    assert (before.conclusion, after.conclusion) == (UNCLEAR, UNCLEAR)
    assert before.reasoning == [
        "The balance before it left does not follow from its operations, so nothing after it would."
    ]
    assert after.reasoning == [
        "The 16 datapoints from 2026-11-20T13:05:00Z on do not follow from each other and the operations"
        " between them."
    ]


def test_unknown_operations_may_be_anything():
    """Without them a fall from 40 to 20 % on the way is as possible as no fall at all: bands meet."""
    round_trip = a_round_trip(rising("13:05", 16, 40.0), operations=Series())

    assert reach_verdict(round_trip).conclusion == UNCLEAR


@pytest.mark.parametrize(
    "after", [[], rising("13:05", 14, 40.0), rising("13:05", 2, 40.0, every_min=20)], ids=["none", "14", "2"]
)
def test_a_quarter_of_an_hour_of_datapoints_is_wanted(after):
    round_trip = a_round_trip(after)

    assert not round_trip.has_enough_datapoints
    assert reach_verdict(round_trip).reasoning == [
        f"{len(after)} datapoints from after the return are there, and at least 3 over 15 min are wanted."
    ]


def test_a_quarter_of_an_hour_of_datapoints_is_enough():
    assert a_round_trip(rising("13:05", 15, 56.0)).has_enough_datapoints


def test_datapoints_every_five_minutes_are_enough():
    before = rising("11:30", 6, 30.0, every_min=5)
    after = rising("13:20", 4, 63.0, every_min=5)

    round_trip = a_round_trip(
        after, before=before, every_min=5, return_started_at_s=at("13:10"), returned_at_s=at("13:20")
    )

    assert round_trip.period_s == 300
    assert reach_verdict(round_trip).conclusion == Hypothesis.REFILLED


def test_datapoints_on_the_flip_narrow_what_it_left_with():
    """It lived as gp2 until 12:10, and so held 43.3 % then."""
    on_its_way = rising("12:00", 10, 40.0)
    wide = credits_on_arrival(a_round_trip([]))
    narrow = credits_on_arrival(a_round_trip(on_its_way))

    assert (wide.in_pct().low, wide.in_pct().high) == pytest.approx((38.7, 44.5), abs=0.2)
    assert (narrow.in_pct().low, narrow.in_pct().high) == pytest.approx((42.0, 44.4), abs=0.2)


def test_datapoints_on_the_way_that_no_bucket_can_have_count_for_nothing():
    """A gp2 that cannot run out of credits reports 100 %, and so may one that is half-way to another type."""
    on_its_way = rising("12:05", 5, 100.0, per_minute=0)

    assert credits_on_arrival(a_round_trip(on_its_way)) == credits_on_arrival(a_round_trip([]))


def test_datapoints_on_the_flip_back_that_fit_nothing_are_left_out():
    strange = rising("13:00", 5, 75.0)

    assert (
        reach_verdict(a_round_trip([*strange, *rising("13:05", 16, 100.0, per_minute=0)])).conclusion
        == Hypothesis.RESET
    )


def test_a_round_trip_goes_forward_in_time():
    with pytest.raises(ValueError, match="each must be at or after the one before"):
        a_round_trip([], return_started_at_s=ON_TARGET_AT_S - 1)


# Before a flip: what can be distinguished


def test_how_long_it_must_stay_follows_from_what_its_size_earns():
    """1 % of noise four times, a minute of earning twice: T > 4 / 0.95 r + 2 x 1.05 / 0.95 min."""
    stays_min = {
        size_gib: min_away_s(predict_on_target(50, size_gib=size_gib, iops=0), size_gib=size_gib, iops=0) / 60
        for size_gib in (8, 33, 60, 100, 334)
    }

    # r, in % a minute, is 1/9, 1/9, 0.2, 1/3: 40.1, 40.1, 23.3 and 14.8 minutes; never less than 15
    assert stays_min == {8: 41, 33: 41, 60: 24, 100: 15, 334: 15}


def test_an_instant_modification_is_assumed_without_data():
    facts = {"size_gib": 100, "iops": 0}
    on_target = predict_on_target(50, **facts)
    assert on_target == predict_on_target(50, **facts, modify_s=0)
    assert predict_after_return(on_target, **facts, away_s=960) == predict_after_return(
        on_target, **facts, away_s=960, modify_s=0
    )
    assert min_away_s(on_target, **facts) == min_away_s(on_target, **facts, modify_s=0)


def test_it_must_stay_longer_where_aws_takes_long():
    on_target = predict_on_target(20, size_gib=100, iops=0, modify_s=3000)

    assert min_away_s(on_target, size_gib=100, iops=0, modify_s=3000) > 2 * 3000


def test_when_it_would_be_full_before_the_result_is_clear_no_stay_is_long_enough():
    on_target = predict_on_target(80, size_gib=100, iops=0, modify_s=3000)

    assert min_away_s(on_target, size_gib=100, iops=0, modify_s=3000) is None


@pytest.mark.parametrize(
    ("balance_pct", "away_min", "pairs"),
    [
        (50, 16, []),
        (1, 16, [(Hypothesis.KEPT, Hypothesis.EMPTIED)]),
        (50, 10, [(Hypothesis.KEPT, Hypothesis.REFILLED)]),
        (50, 150, [(Hypothesis.REFILLED, Hypothesis.RESET)]),
        (
            99,
            16,
            [
                (Hypothesis.KEPT, Hypothesis.REFILLED),
                (Hypothesis.KEPT, Hypothesis.RESET),
                (Hypothesis.REFILLED, Hypothesis.RESET),
            ],
        ),
    ],
)
def test_indistinguishable_hypotheses_are_predicted(balance_pct, away_min, pairs):
    on_target = predict_on_target(balance_pct, size_gib=100, iops=0)

    assert (
        indistinguishable_pairs(predict_after_return(on_target, size_gib=100, iops=0, away_s=60 * away_min))
        == pairs
    )


# Bands


def test_a_bucket_earns_first_at_worst_and_pays_first_at_best():
    """In a minute 18,000 are earned and 30,000 taken: near full some of it is lost, near nothing not paid."""
    earned, used = Bounds(18_000, 18_000), Bounds(30_000, 30_000)

    assert burst_model(Bounds(FULL_CREDITS, FULL_CREDITS), earned, used) == Bounds(
        FULL_CREDITS - 30_000, FULL_CREDITS - 12_000
    )
    assert burst_model(Bounds(0, 0), earned, used) == Bounds(0, 18_000)
    assert burst_model(Bounds(100_000, 100_000), earned, used) == Bounds(88_000, 88_000)


def test_burst_or_idle_includes_keeping_the_balance():
    earned, used = Bounds(17_100, 18_900), Bounds(9_000, 11_000)

    assert burst_or_idle_model(Bounds(50_000, 60_000), earned, used) == Bounds(39_000, 78_900)
    assert refill_model(Bounds(50_000, 60_000), earned, used) == Bounds(56_100, 78_900)
    assert refill_model(Bounds(0, FULL_CREDITS), earned, Bounds(0, 20_000)) == Bounds(0, FULL_CREDITS)


def test_operations_of_a_minute_cut_short_are_all_of_it_or_none():
    counted = MeasuredLoad(Series((0, 60, 180), (600.0, 600.0, 600.0)))

    assert counted.credits_spent(0, 120) == pytest.approx((1080, 1320))
    assert counted.credits_spent(0, 90) == pytest.approx((540, 660 + 660))
    assert counted.credits_spent(60, 180) == pytest.approx((540, 660 + 180_000))
    assert counted.credits_spent(65, 65.1) == pytest.approx((0, 300))
    assert MeasuredLoad(Series()).credits_spent(0, 60) == Bounds(0, 180_000)


@pytest.mark.parametrize(
    ("starts_s", "period_s"),
    [((0, 60), 60), ((0, 300, 600), 300), ((0, 120, 300), 60), ((0, 900), 300), ((0,), 60), ((), 60)],
)
def test_the_period_is_five_minutes_where_none_are_nearer_together(starts_s, period_s):
    assert metric_period_s(Series(starts_s, tuple(0.0 for _ in starts_s))) == period_s


def test_nothing_follows_from_an_impossible_datapoint():
    bucket = BucketModel(size_gib=100, spending=ConstantLoad(0))

    assert (
        bucket.track(
            ANY_CREDITS, 0, [Sample(start_at_s=0, value=10), Sample(start_at_s=60, value=13)], BURST_ONLY
        )
        is None
    )
    assert bucket.track(Bounds(0, 0), 0, [Sample(start_at_s=0, value=2)], BURST_ONLY) is None


def test_a_volume_without_datapoints_before_may_have_held_anything():
    assert credits_before(a_round_trip([], before=[])) == ANY_CREDITS
