"""Which answers the datapoints allow: 100 GiB earn 300 credits a second, a third of a per cent a minute.

The volume of these tests leaves at 12:00, is io1 at 12:10, is asked back at 12:55, and is gp2 again at 13:05.
"""

import pytest

from burstctl.experiment.credit_bounds import (
    ALIVE,
    ANYTHING,
    FULL,
    Band,
    Bucket,
    Counted,
    Steady,
    live,
    live_or_rest,
    period_of,
    refill,
)
from burstctl.experiment.credit_reset import (
    UNCLEAR,
    Fate,
    Journey,
    alike,
    foresee,
    judge,
    reckon_there,
    shortest_away_s,
    weigh_before,
    weigh_there,
)
from burstwatch.core.buckets.series import Sample, Series
from conftest import at

THIRD = 100 / 300
LEFT, THERE, TURNED, HOME = at("12:00"), at("12:10"), at("12:55"), at("13:05")


def rising(first: str, count: int, start_pct: float, *, per_minute: float = THIRD, every_min: int = 1):
    """Minima of so many periods, from the balance at the start of the first."""
    begins = int(at(first))
    return [(begins + 60 * every_min * n, start_pct + per_minute * every_min * n) for n in range(count)]


def a_journey(after, *, before=None, ops_per_s=0.0, every_min=1, **changes) -> Journey:
    """At 40 % when it leaves, unless something else is said; ``after`` are its datapoints from the return."""
    before = rising("11:30", 30 // every_min, 30.0, every_min=every_min) if before is None else before
    minutes = range(int(at("11:30")), int(at("13:50")), 60 * every_min)
    facts = {
        "size_gib": 100,
        "left_s": LEFT,
        "there_s": THERE,
        "turned_s": TURNED,
        "home_s": HOME,
        "balance": Series.of([*before, *after]),
        "operations": Series.of((start_s, ops_per_s * 60 * every_min) for start_s in minutes),
    }
    return Journey(**(facts | changes))


# Idle it holds 40 % at 12:00. Kept: 40 %, or up to 20 minutes more, 46.7 %, where it lived on its way.
# Refilled: 45 minutes more than that, 55 to 61.7 %. With 1 % of noise at both ends they stay apart.
@pytest.mark.parametrize(
    ("home_pct", "fate"),
    [
        (40.0, Fate.KEPT),
        (45.0, Fate.KEPT),
        (56.0, Fate.REFILLED),
        (61.0, Fate.REFILLED),
        (100.0, Fate.RESET),
        (0.0, Fate.EMPTIED),
        (3.0, Fate.EMPTIED),
    ],
)
def test_each_answer_is_told_by_what_it_comes_back_with(home_pct, fate):
    per_minute = min(THIRD, (100 - home_pct) / 30)

    verdict = judge(a_journey(rising("13:05", 16, home_pct, per_minute=per_minute)))

    assert verdict.conclusion == fate
    assert verdict.fits == [fate]
    assert verdict.first == Sample(start_s=int(HOME), value=home_pct)


def test_the_arithmetic_is_told_with_every_number():
    verdict = judge(a_journey(rising("13:05", 16, 58.0)))

    assert verdict.because[1:3] == [
        "It was away for 45 min, with 10 min on its way out and 10 min back, in which it may have lived as"
        " gp2.",
        "100 GiB earn 300 credits a second, 0.333 % a minute: refilling while away adds 15.0 % where nothing"
        " is served.",
    ]
    assert verdict.because[0].startswith("The bucket held 3")
    assert verdict.because[3].startswith(
        "The datapoint of 2026-11-20T13:05:00Z is 58.00 %. Allowed are: kept, "
    )
    assert verdict.because[4] == "Only refilled while away fits, all 16 datapoints from then on."


@pytest.mark.parametrize("home_pct", [20.0, 75.0])
def test_what_fits_no_answer_is_unclear(home_pct):
    verdict = judge(a_journey(rising("13:05", 16, home_pct)))

    assert verdict.conclusion == UNCLEAR
    assert verdict.fits == []
    assert verdict.because[-1].startswith("None of the four fits")


def test_a_balance_near_full_cannot_tell_refilled_from_reset():
    before = rising("11:30", 30, 80.0, per_minute=10 / 30)

    verdict = judge(a_journey(rising("13:05", 16, 100.0, per_minute=0), before=before))

    assert verdict.conclusion == UNCLEAR
    assert set(verdict.fits) == {Fate.REFILLED, Fate.RESET}
    assert verdict.because[-1] == (
        "It was refilled while away or reset, which cannot be told apart; it was not kept or emptied."
    )


def test_a_stay_too_short_for_its_size_leaves_kept_and_refilled_too_near():
    """8 GiB earn a ninth of a per cent a minute: in 45 minutes 5 %, of which noise leaves little."""
    ninth = 100 / 900
    before = rising("11:30", 30, 40 - 30 * ninth, per_minute=ninth)

    verdict = judge(a_journey(rising("13:05", 16, 40.0, per_minute=ninth), before=before, size_gib=8))

    assert verdict.conclusion == UNCLEAR
    assert verdict.fits == [Fate.KEPT]
    assert "too near to say" in verdict.because[-1]


def test_a_load_after_the_return_is_reckoned_with():
    """From 13:05 on 600 operations a second take 300 more than it earns: it falls, and says kept still."""
    after = rising("13:05", 16, 40.0, per_minute=-THIRD)
    minutes = range(int(at("11:30")), int(at("13:30")), 60)
    loaded = Series.of((start_s, 36_000.0 if start_s >= HOME else 0.0) for start_s in minutes)

    assert judge(a_journey(after, operations=loaded)).conclusion == Fate.KEPT
    assert judge(a_journey(after)).conclusion == UNCLEAR


def test_a_load_that_hides_what_refilling_adds_is_unclear():
    """While it is away 600 operations a second may take all that it earns: refilled may look like kept."""
    before = rising("11:30", 30, 50.0, per_minute=-THIRD)
    after = rising("13:05", 16, 50.0, per_minute=-THIRD)

    assert judge(a_journey(after, before=before, ops_per_s=600)).conclusion == UNCLEAR


def test_datapoints_that_contradict_the_operations_are_trusted_with_nothing():
    falling = rising("11:30", 30, 50.0, per_minute=-THIRD)
    jumping = [*rising("13:05", 8, 40.0), *rising("13:13", 8, 90.0)]

    before, after = judge(a_journey(rising("13:05", 16, 40.0), before=falling)), judge(a_journey(jumping))

    assert (before.conclusion, after.conclusion) == (UNCLEAR, UNCLEAR)
    assert before.because == [
        "The balance before it left does not follow from its operations, so nothing after it would."
    ]
    assert after.because == [
        "The 16 datapoints from 2026-11-20T13:05:00Z on do not follow from each other and the operations"
        " between them."
    ]


def test_operations_that_are_not_told_may_be_anything():
    """Without them a fall from 40 to 20 % on the way is as possible as no fall at all: bands meet."""
    journey = a_journey(rising("13:05", 16, 40.0), operations=Series())

    assert judge(journey).conclusion == UNCLEAR


@pytest.mark.parametrize(
    "after", [[], rising("13:05", 14, 40.0), rising("13:05", 2, 40.0, every_min=20)], ids=["none", "14", "2"]
)
def test_a_quarter_of_an_hour_of_datapoints_is_wanted(after):
    journey = a_journey(after)

    assert not journey.has_enough
    assert judge(journey).because == [
        f"{len(after)} datapoints from after the return are there, and at least 3 over 15 min are wanted."
    ]


def test_a_quarter_of_an_hour_of_datapoints_is_enough():
    assert a_journey(rising("13:05", 15, 56.0)).has_enough


def test_datapoints_every_five_minutes_tell_as_well():
    before = rising("11:30", 6, 30.0, every_min=5)
    after = rising("13:20", 4, 63.0, every_min=5)

    journey = a_journey(after, before=before, every_min=5, turned_s=at("13:10"), home_s=at("13:20"))

    assert journey.period_s == 300
    assert judge(journey).conclusion == Fate.REFILLED


def test_datapoints_on_the_way_out_narrow_what_it_left_with():
    """It lived as gp2 until 12:10, and so held 43.3 % then."""
    on_its_way = rising("12:00", 10, 40.0)
    wide = weigh_there(a_journey([]))
    narrow = weigh_there(a_journey(on_its_way))

    assert (wide.in_pct().low, wide.in_pct().high) == pytest.approx((38.7, 44.5), abs=0.2)
    assert (narrow.in_pct().low, narrow.in_pct().high) == pytest.approx((42.0, 44.4), abs=0.2)


def test_datapoints_on_the_way_that_no_bucket_can_have_count_for_nothing():
    """A gp2 that cannot run dry tells 100 %, and so may one that is half-way to another type."""
    on_its_way = rising("12:05", 5, 100.0, per_minute=0)

    assert weigh_there(a_journey(on_its_way)) == weigh_there(a_journey([]))


def test_datapoints_on_the_way_back_that_fit_nothing_are_left_out():
    strange = rising("13:00", 5, 75.0)

    assert judge(a_journey([*strange, *rising("13:05", 16, 100.0, per_minute=0)])).conclusion == Fate.RESET


def test_a_journey_goes_forward():
    with pytest.raises(ValueError, match="none may lie before the one before"):
        a_journey([], turned_s=THERE - 1)


# Before a flip: what will be told apart


def test_how_long_it_must_stay_follows_from_what_its_size_earns():
    """1 % of noise four times, a minute of earning twice: T > 4 / 0.95 r + 2 x 1.05 / 0.95 min."""
    stays_min = {
        size_gib: shortest_away_s(reckon_there(50, size_gib=size_gib, iops=0), size_gib=size_gib, iops=0) / 60
        for size_gib in (8, 33, 60, 100, 334)
    }

    # r, in % a minute, is 1/9, 1/9, 0.2, 1/3: 40.1, 40.1, 23.3 and 14.8 minutes; never less than 15
    assert stays_min == {8: 41, 33: 41, 60: 24, 100: 15, 334: 15}


def test_an_aws_that_takes_no_time_is_reckoned_with_where_nothing_else_is_said():
    facts = {"size_gib": 100, "iops": 0}
    there = reckon_there(50, **facts)
    assert there == reckon_there(50, **facts, modify_s=0)
    assert foresee(there, **facts, away_s=960) == foresee(there, **facts, away_s=960, modify_s=0)
    assert shortest_away_s(there, **facts) == shortest_away_s(there, **facts, modify_s=0)


def test_it_must_stay_longer_where_aws_takes_long():
    there = reckon_there(20, size_gib=100, iops=0, modify_s=3000)

    assert shortest_away_s(there, size_gib=100, iops=0, modify_s=3000) > 2 * 3000


def test_where_it_would_be_full_before_it_tells_no_stay_is_long_enough():
    there = reckon_there(80, size_gib=100, iops=0, modify_s=3000)

    assert shortest_away_s(there, size_gib=100, iops=0, modify_s=3000) is None


@pytest.mark.parametrize(
    ("balance_pct", "away_min", "pairs"),
    [
        (50, 16, []),
        (1, 16, [(Fate.KEPT, Fate.EMPTIED)]),
        (50, 10, [(Fate.KEPT, Fate.REFILLED)]),
        (50, 150, [(Fate.REFILLED, Fate.RESET)]),
        (99, 16, [(Fate.KEPT, Fate.REFILLED), (Fate.KEPT, Fate.RESET), (Fate.REFILLED, Fate.RESET)]),
    ],
)
def test_what_would_look_alike_is_known_before(balance_pct, away_min, pairs):
    there = reckon_there(balance_pct, size_gib=100, iops=0)

    assert alike(foresee(there, size_gib=100, iops=0, away_s=60 * away_min)) == pairs


# Bands


def test_a_bucket_earns_first_at_worst_and_pays_first_at_best():
    """In a minute 18,000 are earned and 30,000 taken: near full some of it is lost, near nothing not paid."""
    earned, taken = Band(18_000, 18_000), Band(30_000, 30_000)

    assert live(Band(FULL, FULL), earned, taken) == Band(FULL - 30_000, FULL - 12_000)
    assert live(Band(0, 0), earned, taken) == Band(0, 18_000)
    assert live(Band(100_000, 100_000), earned, taken) == Band(88_000, 88_000)


def test_who_may_rest_may_hold_what_it_held():
    earned, taken = Band(17_100, 18_900), Band(9_000, 11_000)

    assert live_or_rest(Band(50_000, 60_000), earned, taken) == Band(39_000, 78_900)
    assert refill(Band(50_000, 60_000), earned, taken) == Band(56_100, 78_900)
    assert refill(Band(0, FULL), earned, Band(0, 20_000)) == Band(0, FULL)


def test_operations_of_a_minute_cut_short_are_all_of_it_or_none():
    counted = Counted(Series((0, 60, 180), (600.0, 600.0, 600.0)))

    assert counted.taken(0, 120) == pytest.approx((1080, 1320))
    assert counted.taken(0, 90) == pytest.approx((540, 660 + 660))
    assert counted.taken(60, 180) == pytest.approx((540, 660 + 180_000))
    assert counted.taken(65, 65.1) == pytest.approx((0, 300))
    assert Counted(Series()).taken(0, 60) == Band(0, 180_000)


@pytest.mark.parametrize(
    ("starts_s", "period_s"),
    [((0, 60), 60), ((0, 300, 600), 300), ((0, 120, 300), 60), ((0, 900), 300), ((0,), 60), ((), 60)],
)
def test_the_period_is_five_minutes_where_none_are_nearer_together(starts_s, period_s):
    assert period_of(Series(starts_s, tuple(0.0 for _ in starts_s))) == period_s


def test_what_follows_a_datapoint_that_cannot_be_is_nothing():
    bucket = Bucket(size_gib=100, spending=Steady(0))

    assert (
        bucket.follow(ANYTHING, 0, [Sample(start_s=0, value=10), Sample(start_s=60, value=13)], ALIVE) is None
    )
    assert bucket.follow(Band(0, 0), 0, [Sample(start_s=0, value=2)], ALIVE) is None


def test_a_volume_without_datapoints_before_may_have_held_anything():
    assert weigh_before(a_journey([], before=[])) == ANYTHING
