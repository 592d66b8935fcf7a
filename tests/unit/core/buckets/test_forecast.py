import pytest

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.forecast import (
    describe_trend,
    drain_rates_by_horizon,
    forecast,
    has_not_fallen_for,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.efs.efs_bucket import efs_bucket
from support.builders.core_values import balances

EFS_MIB = 2_202_010
"""A full bucket of 58 GiB, which loses 2.5 % in ten minutes at 92 MiB/s."""


def ten_minutes(*values):
    return Series.from_pairs(((600 * index, value) for index, value in enumerate(values)), 600)


def falling(start: float, step: float, count: int) -> list[float]:
    return [start - step * index for index in range(count)]


def test_a_steady_drain_is_empty_when_its_credits_are_spent():
    # 100 GiB: 31.5 % = 1,701,000 credits. 7/3 % a minute = 126,000 / 60 = 2,100 credits/s: 810 s, less 95 s.
    # Bound: 1,701,000 / 2,700 = 630 s, less 95 s.
    series = balances(*falling(31.5 + 20 * 7 / 3, 7 / 3, 21))
    result = forecast(series, bucket=gp2_bucket(300), age_s=95)
    assert result.is_draining
    assert result.drain_per_s == pytest.approx(2_100)
    assert result.time_to_empty_s == pytest.approx(715)
    assert result.soonest_empty_s == pytest.approx(535)
    assert result.earliest_s == pytest.approx(715)
    assert result.latest_s == pytest.approx(715)


def test_the_estimate_is_never_earlier_than_the_bound():
    # A fall of 10 % a minute is faster than physics allow: the bound, 20 % / 3 % a minute = 400 s, holds.
    result = forecast(balances(*falling(70, 10, 6)), bucket=gp2_bucket(300), age_s=0)
    assert result.time_to_empty_s == result.soonest_empty_s == pytest.approx(400)


@pytest.mark.parametrize(
    ("values", "refills"),
    [
        (falling(10, -0.3, 8), True),
        (falling(10, -0.001, 8), True),  # 0.9 credits/s
        (falling(30, 1, 8), False),
        ([0.0] * 8, False),
        ([50.0] * 8, False),
        ([4.0, 4.3], False),
    ],
)
def test_a_bucket_that_gains_refills_and_one_that_is_held_at_empty_does_not(values, refills):
    assert forecast(balances(*values), bucket=gp2_bucket(300), age_s=60).is_refilling is refills


@pytest.mark.parametrize(("burst_per_s", "highest"), [(3_000, 2_700), (300.5, 0.5), (300, 0), (200, 0)])
def test_a_bucket_that_refills_as_fast_as_it_bursts_never_drains(burst_per_s, highest):
    assert Bucket(capacity=1, refill_per_s=300, burst_per_s=burst_per_s).highest_drain_per_s == highest


def test_one_noisy_minute_does_not_alarm():
    # 60 %, calm but for the last minute at full burst (3 %). Over five minutes: 3 % / 5 min, 95 min to empty:
    # five minutes are believed for fifteen, so nothing is announced within the hour.
    quiet_then_noisy = balances(*[60.0] * 60, 57.0)
    result = forecast(quiet_then_noisy, bucket=gp2_bucket(300), age_s=0)
    assert result.is_draining
    assert result.time_to_empty_s > 60 * 60
    assert result.earliest_s == pytest.approx(57 / 3 * 3 * 60)
    assert result.latest_s == pytest.approx(57 / 3 * 60 * 60)


def test_one_quiet_minute_does_not_end_a_drain():
    # 2 % a minute for 40 minutes, then one minute in which nothing is lost: 14 % last about seven minutes.
    draining = falling(94, 2, 41)
    result = forecast(balances(*draining, draining[-1]), bucket=gp2_bucket(100), age_s=0)
    assert result.time_to_empty_s < 8 * 60


@pytest.mark.parametrize(
    ("minutes", "announced"),
    # Full burst on 100 GiB from 100 %: 3 % a minute, empty after 33 min. The first horizon to reach thrice
    # as far is ten minutes' worth: after 10 min, 70 / 3 = 23 min.
    [(5, None), (7, None), (10, 70 / 3), (15, 55 / 3), (20, 40 / 3)],
)
def test_a_drain_is_extrapolated_for_three_times_its_length(minutes, announced):
    calm_then_burst = balances(*[100.0] * 60, *falling(97, 3, minutes))
    result = forecast(calm_then_burst, bucket=gp2_bucket(300), age_s=0)
    if announced is None:
        assert result.time_to_empty_s > 60 * 60
    else:
        assert result.time_to_empty_s == pytest.approx(announced * 60)


@pytest.mark.parametrize("before", [[40.0] * 72, falling(4, -0.5, 72), falling(41, 0.01, 72)])
def test_a_drain_of_hours_that_has_just_begun_is_described_by_its_last_half_hour(before):
    """Idle, refilling or draining slowly for twelve hours, and then 92 MiB/s net for half an hour."""
    step = 92 * 600 / EFS_MIB * 100
    series = ten_minutes(*before, *falling(before[-1] - step, step, 3))
    result = forecast(series, bucket=efs_bucket(58 * GIB), age_s=0)
    assert not result.is_within_extrapolation
    assert result.drain_per_s == pytest.approx(92 * MIB, rel=0.001)
    left_mib = series.values[-1] / 100 * EFS_MIB
    assert result.time_to_empty_s == pytest.approx(left_mib / 92, rel=0.01)


@pytest.mark.parametrize("datapoints", [1, 2, 3, 4])
def test_a_drain_of_hours_is_described_within_its_first_half_hour(datapoints):
    """92 MiB/s net since the middle of a period: at most that part of the period is missing at first."""
    step = 92 * 600 / EFS_MIB * 100
    series = ten_minutes(*[40.0] * 72, *falling(40 - step / 2, step, datapoints))
    result = forecast(series, bucket=efs_bucket(58 * GIB), age_s=0)
    assert not result.is_within_extrapolation
    assert result.drain_per_s == pytest.approx((46 if datapoints == 1 else 92) * MIB, rel=0.001)
    assert result.earliest_s <= result.time_to_empty_s
    assert result.soonest_empty_s <= result.time_to_empty_s


def test_a_drain_that_has_become_slower_is_described_by_its_last_half_hour():
    step = 92 * 600 / EFS_MIB * 100
    series = ten_minutes(*[40.0] * 72, 40 - step, 40 - 2 * step, 40 - 2 * step, 40 - 2 * step - 4.4e-8)
    result = forecast(series, bucket=efs_bucket(58 * GIB), age_s=0)
    assert result.drain_per_s == pytest.approx(92 * MIB / 3, rel=0.001)


def test_a_few_bytes_are_no_drain_of_a_bucket_of_terabytes():
    """A full file system that is empty lost 1 KiB: no calendar has the year of its end."""
    result = forecast(ten_minutes(*[100.0] * 72, *[100 - 4.4e-8] * 3), bucket=efs_bucket(0), age_s=0)
    assert (result.drain_per_s, result.time_to_empty_s) == (0.0, None)


def test_a_steady_drain_after_a_refill_is_a_drain():
    """An hour at 20 MiB/s net, after ten hours in which it gained more than that."""
    step = 20 * 600 / EFS_MIB * 100
    result = forecast(
        ten_minutes(*falling(10, -0.5, 60), *falling(39.5 - step, step, 6)),
        bucket=efs_bucket(58 * GIB),
        age_s=0,
    )
    assert result.drain_per_s == pytest.approx(20 * MIB, rel=0.001)


def test_a_level_is_left_by_the_longest_span_if_none_counts():
    """The last half hour says when it is empty at this pace; it has not lasted so long as to keep a level."""
    step = 92 * 600 / EFS_MIB * 100
    series = ten_minutes(*[40.0] * 72, *falling(40 - step, step, 3))
    result = forecast(series, bucket=efs_bucket(58 * GIB), age_s=0)
    assert result.leaving_empty_s == result.latest_s > 10 * result.time_to_empty_s


@pytest.mark.parametrize("values", [[100.0] * 10, [50.0] * 10, falling(50, -0.3, 10)])
def test_a_volume_that_does_not_drain_has_no_time_to_empty(values):
    result = forecast(balances(*values), bucket=gp2_bucket(300), age_s=0)
    assert not result.is_draining
    assert not result.is_within_extrapolation
    assert result.time_to_empty_s is None
    assert result.soonest_empty_s == pytest.approx(values[-1] * 54_000 / 2_700)


def test_an_empty_bucket_is_empty_now():
    result = forecast(balances(*[0.0] * 10), bucket=gp2_bucket(300), age_s=30)
    assert (result.time_to_empty_s, result.soonest_empty_s) == (0.0, 0.0)


def test_a_refilling_volume_has_a_negative_drain():
    # 0.5 % a minute back: 27,000 credits / 60 s = 450 credits/s.
    assert forecast(
        balances(*falling(50, -0.5, 10)), bucket=gp2_bucket(450), age_s=0
    ).drain_per_s == pytest.approx(-450)


def test_a_volume_whose_baseline_is_the_burst_ceiling_has_no_bound():
    result = forecast(balances(100.0, 99.0), bucket=gp2_bucket(3_000), age_s=0)
    assert result.soonest_empty_s is None
    assert not result.is_draining


def test_a_single_sample_bounds_but_estimates_nothing():
    result = forecast(balances(40.0), bucket=gp2_bucket(100), age_s=60)
    assert result.soonest_empty_s == pytest.approx(40 * 54_000 / 2_900 - 60)
    assert (result.is_draining, result.drain_per_s, result.time_to_empty_s) == (False, None, None)


def test_two_samples_show_that_it_falls_but_not_how_long_it_lasts():
    result = forecast(balances(43.0, 40.0), bucket=gp2_bucket(100), age_s=0)
    assert result.is_draining
    assert result.time_to_empty_s is None


@pytest.mark.parametrize(("values", "falls"), [((44.0, 43.0, 40.0), True), ((44.0, 40.0, 40.0), False)])
def test_of_a_few_samples_the_newest_two_decide_whether_it_falls(values, falls):
    assert forecast(balances(*values), bucket=gp2_bucket(100), age_s=0).is_draining is falls


def test_without_samples_there_is_nothing_to_forecast():
    assert drain_rates_by_horizon(Series(), gp2_bucket(100)) == ()
    with pytest.raises(ValueError, match="no sample to forecast from"):
        forecast(Series(), bucket=gp2_bucket(100), age_s=0)


def test_a_decrease_that_only_used_earned_credits_is_not_a_drain():
    # Ten minutes ago it had what it has now; the five minutes of fall are believed for fifteen, and it lasts
    # for eight hours.
    up_and_down = [50.0, 50.1, 50.2, 50.3, 50.4, 50.5, 50.4, 50.3, 50.2, 50.1, 50.0]
    result = forecast(balances(*up_and_down), bucket=gp2_bucket(300), age_s=0)
    assert result.drain_rates[-1].credits_per_s == 0.0
    assert (result.is_draining, result.time_to_empty_s) == (False, None)


def test_horizons_reach_over_a_gap_only_so_far():
    newest = 60 * 1_000
    over_a_gap = Series.from_pairs([(newest - 60 * 7, 50.0), (newest, 43.0)])
    assert [
        drain.duration_s for drain in forecast(over_a_gap, bucket=gp2_bucket(100), age_s=0).drain_rates
    ] == [420]
    too_far = Series.from_pairs([(newest - 60 * 200, 50.0), (newest, 43.0)])
    assert forecast(too_far, bucket=gp2_bucket(100), age_s=0).drain_rates == ()


def test_a_drain_that_has_just_begun_after_a_refill_shows_in_the_shortest_horizon():
    # 500 GiB refills 1.67 % a minute and drains as fast. Three minutes in, five minutes have lost next to
    # nothing, but at 10 % three minutes of full burst mean empty in six, and are extrapolated for nine.
    refill_then_burst = [*falling(5, -1.67, 7), *falling(13.35, 1.67, 3)]
    result = forecast(balances(*refill_then_burst), bucket=gp2_bucket(1_500), age_s=0)
    assert result.time_to_empty_s == pytest.approx(10.01 / 1.67 * 60, rel=0.01)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([50.0] * 11, True),
        (falling(50, -0.1, 11), True),
        (falling(50, 0.1, 11), False),
        # One noisy minute is forgiven, two are not, and the newest never is.
        ([50.0, 50.5, 51.0, 50.8, 51.3, 51.8, 52.3, 52.8, 53.3, 53.8, 54.3], True),
        ([50.0, 50.5, 51.0, 50.8, 51.3, 51.2, 52.3, 52.8, 53.3, 53.8, 54.3], False),
        ([50.0, 50.5, 51.0, 51.5, 52.0, 52.5, 53.0, 53.5, 54.0, 54.5, 54.3], False),
        ([50.0] * 5, False),
        # One deep fall is forgiven only if it is made good.
        ([50.0] * 4 + [45.0] * 7, False),
        ([50.0] + [49.0] * 9 + [50.0], True),
        ([50.0] + [49.0] * 9 + [49.5], False),
    ],
)
def test_not_falling_needs_the_whole_span_with_one_noisy_minute_at_most(values, expected):
    assert has_not_fallen_for(balances(*values), 600) is expected


@pytest.mark.parametrize(
    ("drain_per_s", "text"),
    [
        (None, "no trend yet"),
        (-100, "refilling"),
        (-0.6, "refilling"),
        (-0.4, "not draining"),
        (0, "not draining"),
        (0.4, "not draining"),
        (0.6, "no steady drain"),
        (100, "no steady drain"),
    ],
)
def test_a_trend_in_words_is_by_whole_credits_a_second(drain_per_s, text):
    assert describe_trend(drain_per_s) == text


@pytest.mark.parametrize(
    ("samples", "rates"),
    [
        ([(0, 5.4), (180, 0.0)], [(180, 0.03)]),
        # The sample at the beginning may be half a horizon older.
        ([(0, 5.4), (270, 0.0)], [(270, 0.02)]),
        ([(0, 5.4), (271, 0.0)], []),
        ([(0, 5.4), (179, 0.0)], []),
        # Less than 0.01 credits/s is none.
        ([(0, 1.8), (180, 0.0)], [(180, 0.01)]),
        ([(0, 1.79), (180, 0.0)], [(180, 0.0)]),
        ([(0, 0.0), (180, 1.8)], [(180, -0.01)]),
        ([(0, 0.0), (180, 1.79)], [(180, 0.0)]),
        ([(0, 9.0), (120, 5.4), (300, 0.0)], [(180, 0.03), (300, 0.03)]),
    ],
)
def test_the_drain_is_measured_over_each_horizon_that_has_a_sample_at_its_beginning(samples, rates):
    bucket = Bucket(capacity=100, refill_per_s=1, burst_per_s=2)
    result = drain_rates_by_horizon(Series.from_pairs(samples), bucket)
    assert [rate.duration_s for rate in result] == [duration_s for duration_s, _ in rates]
    assert [rate.credits_per_s for rate in result] == pytest.approx(
        [credits_per_s for _, credits_per_s in rates]
    )
