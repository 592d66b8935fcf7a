"""What a volume should be permanently: tables worked by hand, and properties of all usages."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burstctl.advise.rightsizing import (
    STAY,
    AdviceVerdict,
    Confidence,
    DrainRisk,
    advise,
    describe_period,
    is_advisable,
    summarise,
)
from burstctl.advise.usage import Peak, nearest_rank_percentile, summarise_usage
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import MIB
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, TypePrice, VolumeType, usd_per_month
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.ebs.volume_types import TYPE_LIMITS, reachable_mib_s
from support.builders.advice import (
    BURSTING_USAGE,
    DAY_S,
    MIDNIGHT_S,
    OPERATION_KIB,
    a_case,
    a_rate,
    a_usage,
    an_empty_bucket_usage,
    gp3,
)
from support.builders.core_values import GP2, IO1, a_volume, a_volume_as


def io2(iops) -> Configuration:
    return Configuration(volume_type=VolumeType.IO2, iops=iops)


@pytest.mark.parametrize(
    ("size_gib", "usage", "target", "usd"),
    [
        # 100 x 0.08: what it moves, 40 x 1.25 = 50 MiB/s, is within the 125 included
        (100, a_usage(900, 40, **BURSTING_USAGE), gp3(), 8.00),
        # 100 x 1.25 = 125 MiB/s, still included
        (100, a_usage(900, 100, **BURSTING_USAGE), gp3(), 8.00),
        # 110 x 1.25 = 138, more than the 128 it has and not held back: 128; 8 + 3 x 0.04
        (100, a_usage(900, 110, **BURSTING_USAGE), gp3(mib_s=128), 8.12),
        # 120 of 128 is held back: 120 x 1.25 = 150; 8 + 25 x 0.04
        (100, a_usage(900, 120, **BURSTING_USAGE), gp3(mib_s=150), 9.00),
        # 200 x 0.08; 160 x 1.25 = 200 MiB/s: 16 + 75 x 0.04
        (200, a_usage(900, 160, **BURSTING_USAGE), gp3(mib_s=200), 19.00),
        # 2,900 of 3,000 is held back: 3,625 IOPS; 8 + 625 x 0.005
        (100, a_usage(2_900, 40, **BURSTING_USAGE), gp3(3_625), 11.125),
        # 2,000 GiB earn 6,000 and use 2,000 x 1.25 = 2,500 of them: 160, for 200
        (2_000, a_usage(2_000, 40, least_pct=None), gp3(), 160.00),
        # 4,000 x 1.25 = 5,000: 160 + 2,000 x 0.005
        (2_000, a_usage(4_000, 40, least_pct=None), gp3(5_000), 170.00),
        # 5,000 x 1.25 = 6,250, and it has 6,000
        (2_000, a_usage(5_000, 40, least_pct=None), gp3(6_000), 175.00),
    ],
)
def test_a_volume_gets_what_it_was_seen_to_serve_with_headroom(size_gib, usage, target, usd):
    advice = advise(a_case(size_gib, usage))
    assert advice.verdict is AdviceVerdict.MOVE
    assert advice.target == target
    assert advice.price.after_usd_per_month == pytest.approx(usd)


def test_demand_during_an_empty_bucket_is_unknown_and_gets_the_gp2_maximum():
    advice = advise(a_case(100, an_empty_bucket_usage(300, 5)))
    # 3,000 operations of 16 KiB are 47 MiB/s, 59 with headroom: within the 125 included
    assert advice.target == gp3()
    assert advice.requirement.iops == BURST_IOPS
    assert advice.requirement.mib_s == ceil(3_000 * OPERATION_KIB * 1.25) == 59
    assert advice.requirement.is_throttled
    assert "throttled to its baseline for 24 h 00 min, so its demand is unknown" in advice.reasons[0]
    assert any("is unknown" in risk for risk in advice.risks)


def test_throughput_that_large_operations_may_have_wanted_is_bought_up_to_what_it_has():
    large = an_empty_bucket_usage(300, 75, throttled_operation_mib=0.25)
    # 3,000 x 256 KiB = 750 MiB/s, but a gp2 of 200 GiB has 250: 200 x 0.08 + 125 x 0.04 = 21
    advice = advise(a_case(200, large))
    assert advice.target == gp3(mib_s=250)
    assert advice.price.after_usd_per_month == 21.00
    assert advise(a_case(200, replace(large, throttled_operation_mib=None))).target == gp3(mib_s=250)


def test_a_volume_held_back_for_less_than_the_percentile_leaves_out_is_sized_by_the_rest():
    ten_minutes = an_empty_bucket_usage(300, 5, throttled_s=600)  # of 20,160: 0.05 %, and 0.1 % is left out
    assert not advise(a_case(100, ten_minutes)).requirement.is_throttled
    assert advise(a_case(100, replace(ten_minutes, percentile=100))).requirement.is_throttled


@pytest.mark.parametrize(("size_gib", "mib_s"), [(3, 110), (5, 110), (171, 210), (200, 210), (249, 220)])
def test_a_gp2_that_never_bursts_stays_where_gp3_would_not_be_cheaper(size_gib, mib_s):
    # 3 GiB: 0.30, gp3 with 128 MiB/s 0.24 + 0.12; 200 GiB: 20, gp3 with 250 MiB/s 16 + 5
    advice = advise(a_case(size_gib, a_usage(50, mib_s)))
    assert advice.verdict is AdviceVerdict.STAY
    assert advice.target == GP2
    assert "It never bursts, and no other type that serves this costs less." in advice.reasons
    assert advice.is_off_credits


def test_the_same_volume_goes_to_gp3_when_it_does_burst():
    advice = advise(a_case(200, a_usage(50, 210, least_pct=60.0)))
    assert advice.target == gp3(mib_s=250)
    assert advice.price.difference_usd_per_month == pytest.approx(1.00)
    assert any("its balance fell to 60.0 %" in reason for reason in advice.reasons)


@pytest.mark.parametrize("least_pct", [None, 100.0])
def test_a_minute_above_the_baseline_is_a_burst_though_no_balance_shows_it(least_pct):
    usage = replace(a_usage(50, 210, least_pct=least_pct), iops=a_rate(50, busiest=700))
    assert advise(a_case(200, usage)).verdict is AdviceVerdict.MOVE  # 200 GiB sustain 600


def test_a_critical_volume_gets_gp3_as_its_alert_proposes_and_io2_is_an_option():
    advice = advise(a_case(100, a_usage(800, 20), is_critical=True))
    assert (advice.verdict, advice.target) == (AdviceVerdict.MOVE, gp3())
    assert advice.reasons[0] == "It is tagged critical: gp3 depends on no burst credits."
    assert advice.options["io2"].configuration == io2(1_000)
    assert advice.usd_more_on_io2 == 77.50 - advice.price.after_usd_per_month


def test_a_critical_volume_that_never_bursts_still_leaves_burst_storage():
    # 200 GiB that serve 210 MiB/s: gp3 with as much throughput costs more than gp2
    usage = a_usage(50, 210)
    assert advise(a_case(200, usage)).verdict is AdviceVerdict.STAY
    critical = advise(a_case(200, usage, is_critical=True))
    assert critical.target.volume_type is VolumeType.GP3


def test_a_volume_that_is_not_critical_has_no_price_for_durability():
    assert advise(a_case(100, a_usage(800, 20))).usd_more_on_io2 is None


def test_the_sum_is_split_by_what_is_critical():
    etcd = advise(a_case(100, a_usage(800, 20), is_critical=True, critical_type=VolumeType.IO2))
    other_volumes = [advise(a_case(100, a_usage(800, 20))) for _ in range(3)]
    fleet = summarise([etcd, *other_volumes])
    assert (fleet.count, fleet.critical_count) == (4, 1)
    assert fleet.critical == etcd.price
    assert fleet.not_critical.difference_usd_per_month == pytest.approx(
        3 * other_volumes[0].price.difference_usd_per_month
    )
    assert fleet.price.difference_usd_per_month == pytest.approx(
        fleet.critical.difference_usd_per_month + fleet.not_critical.difference_usd_per_month
    )


def test_a_critical_volume_that_requests_io2_gets_it_sized_by_what_it_serves():
    advice = advise(a_case(100, a_usage(800, 20), is_critical=True, critical_type=VolumeType.IO2))
    assert advice.target == io2(1_000)  # 800 x 1.25; 25 MiB/s take 98 of them
    assert advice.price.after_usd_per_month == 77.50  # 12.5 + 65
    assert advice.reasons[0] == "It is tagged critical: io2 depends on no burst credits."
    assert any("Within a minute it may request more than 1,000 IOPS" in risk for risk in advice.risks)


def test_throughput_requests_iops_of_io2():
    advice = advise(a_case(100, a_usage(100, 100), is_critical=True, critical_type=VolumeType.IO2))
    # 100 x 1.25 = 125 MiB/s at 0.256 each
    assert advice.target == io2(489)
    assert reachable_mib_s(advice.target, 100) >= 125


def test_a_critical_volume_too_small_for_io2_gets_gp3_with_the_reason():
    case = a_case(3, a_usage(800, 20, **BURSTING_USAGE), is_critical=True, critical_type=VolumeType.IO2)
    advice = advise(case)
    assert advice.target == gp3()
    assert "io2 does not fit its size" in advice.reasons[0]


def test_a_critical_volume_may_name_another_type():
    advice = advise(a_case(100, a_usage(800, 20), is_critical=True, critical_type=VolumeType.IO1))
    assert advice.target.volume_type is VolumeType.IO1


def test_a_critical_io2_that_serves_and_costs_no_more_stays():
    volume = a_volume_as(io2(1_000))
    case = a_case(usage=a_usage(800, 20), volume=volume, is_critical=True, critical_type=VolumeType.IO2)
    assert advise(case).verdict is AdviceVerdict.STAY


def test_demand_beyond_gp3_gets_io2():
    """6 GiB allow gp3 3,000 IOPS, and 5,000 were served by the io2 it is."""
    volume = a_volume_as(io2(6_000), 6)
    advice = advise(a_case(volume=volume, usage=a_usage(4_500, 20, least_pct=None)))
    assert advice.target == io2(5_625)
    assert advice.options["gp3"].shortfall == "it has 3,000 IOPS at 6 GiB, 4,500 are needed"


def test_a_tiny_volume_held_back_at_3000_gets_what_gp3_allows_and_is_advised_that_more_needs_a_larger_one():
    advice = advise(a_case(4, a_usage(2_990, 20, **BURSTING_USAGE)))
    assert advice.target == gp3()
    assert any("gp3 allows no more than 3,000 IOPS at 4 GiB; 3,738 are needed" in r for r in advice.risks)


def test_a_minute_counted_a_little_above_the_ceiling_requests_no_other_type():
    advice = advise(a_case(4, a_usage(3_040, 20, **BURSTING_USAGE)))
    assert advice.target.volume_type is VolumeType.GP3


def test_an_oversized_gp3_and_an_io1_are_made_smaller():
    volume = a_volume_as(gp3(6_000, 500))
    smaller = advise(a_case(volume=volume, usage=a_usage(1_000, 100)))
    assert smaller.target == gp3()
    assert "Its type is right." not in smaller.reasons
    assert advise(a_case(volume=a_volume_as(IO1), usage=a_usage(500, 50))).target == gp3()


def test_a_gp3_that_is_what_it_should_be_stays():
    advice = advise(a_case(volume=a_volume_as(gp3()), usage=a_usage(1_000, 100), flipped_from=GP2))
    assert advice.verdict is AdviceVerdict.STAY
    assert advice.reasons[-2:] == ("Its type is right.", "A flip made it so; before it was gp2.")


def test_a_gp3_held_back_at_what_it_has_is_made_larger():
    advice = advise(a_case(volume=a_volume_as(gp3()), usage=a_usage(2_950, 100)))
    assert advice.target == gp3(3_688)


def test_a_gp3_held_back_at_the_limit_of_its_size_stays_and_the_advice_reports_it():
    # 8 GiB have 8 x 500 = 4,000 IOPS at most, and 4,000 / 4 = 1,000 MiB/s with them; 990 x 1.25 are wanted.
    volume = a_volume_as(gp3(4_000, 1_000), 8)
    advice = advise(a_case(volume=volume, usage=a_usage(1_000, 990)))
    assert advice.target == advice.options["gp3"].configuration == gp3(4_000, 1_000)
    assert any(
        reason.startswith("No type that AWS offers at this size does better, although it")
        for reason in advice.reasons
    )


@pytest.mark.parametrize(("period_s", "text"), [(60, "minute"), (300, "5-minute mean")])
def test_periods_are_minutes_or_means(period_s, text):
    assert describe_period(period_s) == text


@pytest.mark.parametrize(
    ("days", "confidence"),
    [
        (1, Confidence.LOW),
        (6, Confidence.LOW),
        (7, Confidence.FAIR),
        (13, Confidence.FAIR),
        (14, Confidence.GOOD),
    ],
)
def test_confidence_grows_with_the_days_seen(days, confidence):
    assert advise(a_case(usage=a_usage(days=days))).confidence is confidence


def test_what_was_seen_for_less_than_a_week_makes_nothing_smaller():
    advice = advise(a_case(2_000, a_usage(2_000, 40, days=3, least_pct=None)))
    assert advice.target == gp3(6_000, 250)
    assert "less than a week was seen" in advice.reasons[0]


@pytest.mark.parametrize("usage", [None, a_usage(50, 5, days=2), a_usage(None, None)])
def test_too_little_history_moves_nothing_that_would_cost_more(usage):
    advice = advise(a_case(200, usage))  # as fast as it is: gp3 with 250 MiB/s for 21, the gp2 costs 20
    assert advice.verdict is AdviceVerdict.UNDECIDED
    assert not advice.is_off_credits
    assert advise(a_case(100, usage)).target == gp3(mib_s=128)  # 8.12 for 10


def test_what_the_percentile_leaves_out_is_reported():
    usage = replace(a_usage(200, 20, **BURSTING_USAGE), mib_s=a_rate(20, busiest=140, above=14))
    [risk] = [r for r in advise(a_case(100, usage)).risks if "went beyond" in r]
    assert risk.startswith("14 minutes went beyond the 99.9 %, up to 140 MiB/s at ")
    assert risk.endswith("; the target serves 125.")


def test_what_the_target_serves_anyway_is_not_a_risk():
    usage = replace(a_usage(200, 20, **BURSTING_USAGE), iops=a_rate(200, busiest=2_900, above=14))
    assert not [r for r in advise(a_case(100, usage)).risks if "went beyond" in r]


def test_means_of_five_minutes_are_reported_to_hide_peaks():
    usage = a_usage(200, 20, period_s=300, periods=14 * 288)
    assert "by the 5-minute mean" in advise(a_case(usage=usage)).risks[0]
    assert "hidden in the means" in advise(a_case(usage=usage)).risks[0]


def test_more_than_the_instance_allows_is_not_bought():
    instance = InstanceLimits(
        max_iops=3_200, max_throughput_mib_s=140.0, baseline_iops=3_200, baseline_throughput_mib_s=140.0
    )
    advice = advise(a_case(100, a_usage(2_900, 120, **BURSTING_USAGE), instance=instance))
    assert advice.target == gp3(3_200, 140)
    assert "the instance allows no more" in advice.reasons[0]


def test_an_instance_that_sustains_less_than_is_needed_is_a_risk():
    instance = InstanceLimits(
        baseline_iops=2_000, max_iops=11_800, baseline_throughput_mib_s=43, max_throughput_mib_s=260
    )
    busy = advise(a_case(100, a_usage(2_900, 40, **BURSTING_USAGE), instance=instance))
    assert any("Its instance sustains 2,000 IOPS for all its volumes together" in risk for risk in busy.risks)
    calm = advise(a_case(100, a_usage(300, 4), instance=instance))
    assert not any("Its instance" in risk for risk in calm.risks)


T4G_SMALL = InstanceLimits(
    baseline_iops=1_000, max_iops=11_800, baseline_throughput_mib_s=20.7, max_throughput_mib_s=260
)


def a_gp3_on(instance, iops, mib_s):
    volume = a_volume(volume_type="gp3", provisioned_iops=3_000, throughput_mib_s=125, instance_id="i-0a1")
    return advise(a_case(volume=volume, usage=a_usage(iops, mib_s, least_pct=None), instance=instance))


@pytest.mark.parametrize(("iops", "mib_s", "first"), [(2_900, 91, 0), (1_000, 124, 1)])
def test_nothing_is_paid_for_that_the_instance_serves_only_while_it_has_credits(iops, mib_s, first):
    advice = a_gp3_on(T4G_SMALL, iops, mib_s)
    assert (advice.verdict, advice.target) == (AdviceVerdict.STAY, gp3(3_000, 125))
    assert advice.price.difference_usd_per_month == 0
    limit = ("1,000 IOPS", "20.7 MiB/s")[first]
    assert advice.reasons[first].endswith(
        f"; its instance sustains only {limit}, so more would not help for long."
    )
    assert advice.reasons[2] == (
        "Change the instance, not the volume: to find the type, run burstctl simulate i-0a1."
    )


def test_what_the_instance_sustains_is_bought():
    large = replace(T4G_SMALL, baseline_iops=4_000, baseline_throughput_mib_s=160.0)
    assert a_gp3_on(large, 2_900, 91).target == gp3(3_625, 125)


def test_an_idle_volume_is_requested_its_purpose():
    assert any("a snapshot costs less" in r for r in advise(a_case(usage=a_usage(0, 0))).risks)


def test_a_managed_volume_is_to_be_changed_where_it_is_managed():
    volume = a_volume(managed_by="eks.amazonaws.com")
    assert any("eks.amazonaws.com manages it" in r for r in advise(a_case(volume=volume)).risks)


def test_a_volume_that_instances_share_is_never_advised_gp3():
    volume = a_volume_as(io2(4_000), multi_attach_enabled=True)
    advice = advise(a_case(volume=volume, usage=a_usage(500, 20)))
    assert advice.target == io2(625)
    assert advice.options.keys() == {STAY, "io1", "io2"}
    assert any("Several instances may share it" in risk for risk in advice.risks)


@pytest.mark.parametrize(
    ("usage", "danger"),
    [
        (None, DrainRisk.NONE),
        (a_usage(), DrainRisk.NONE),
        (a_usage(**BURSTING_USAGE), DrainRisk.DRAINS),
        (an_empty_bucket_usage(), DrainRisk.EMPTIED),
    ],
)
def test_drain_risk_describes_what_gp2_does_to_the_volume(usage, danger):
    assert advise(a_case(usage=usage)).drain_risk is danger


def test_volumes_that_emptied_come_first_then_the_dollars():
    cases = [
        a_case(100, a_usage()),
        a_case(2_000, a_usage(least_pct=None)),
        a_case(8, an_empty_bucket_usage()),
    ]
    ordered = sorted((advise(case) for case in cases), key=lambda item: item.urgency)
    assert [item.volume.size_gib for item in ordered] == [8, 2_000, 100]


def test_the_fleet_is_summed_up():
    fleet = summarise([advise(a_case(100, a_usage())), advise(a_case(200, a_usage(50, 220)))])
    assert (fleet.count, dict(fleet.by_target), fleet.undecided) == (2, {"gp3": 1, STAY: 1}, 0)
    assert (fleet.price.before_usd_per_month, fleet.price.after_usd_per_month) == (30.00, 28.00)
    assert fleet.needs_no_watch


def test_an_undecided_volume_is_left_to_watch():
    assert not summarise([advise(a_case(200, None))]).needs_no_watch
    assert not summarise([]).needs_no_watch


def test_there_is_advice_for_the_four_types_only():
    assert is_advisable(a_volume())
    assert not is_advisable(a_volume(volume_type="st1"))


def test_prices_decide_and_not_a_rule_of_thumb():
    high_prices = replace(
        US_EAST_1, by_type={**US_EAST_1.by_type, VolumeType.GP3: TypePrice(usd_per_gib=0.11)}
    )
    assert advise(a_case(100, a_usage(), prices=high_prices)).verdict is AdviceVerdict.STAY


# --- what was seen


def minutes(values, start_s=MIDNIGHT_S, period_s=60) -> Series:
    return Series.from_pairs((start_s + period_s * place, value) for place, value in enumerate(values))


def test_rates_are_sums_by_the_second():
    history = MetricHistory(
        period_s=60,
        read_ops=minutes([600, 1_200]),
        write_ops=minutes([600, 0]),
        read_bytes=minutes([60 * MIB, 0]),
        write_bytes=minutes([60 * MIB, 30 * MIB]),
        balance=minutes([90.0, 88.5]),
    )
    usage = summarise_usage(a_volume(), history, percentile=50)
    assert usage.iops.at_percentile == 20
    assert usage.iops.busiest == Peak(at_s=MIDNIGHT_S, value=20)
    assert (usage.mib_s.at_percentile, usage.mib_s.busiest.value, usage.mib_s.periods_above) == (0.5, 2.0, 1)
    assert usage.read_pct == 75
    assert usage.lowest_balance == Peak(at_s=MIDNIGHT_S + 60, value=88.5)


def test_the_busiest_hour_is_a_clock_hour_by_its_mean():
    values = [60] * 60 + [120] * 60 + [6_000] + [0] * 59
    usage = summarise_usage(a_volume(), MetricHistory(period_s=60, read_ops=minutes(values)), percentile=99.9)
    assert usage.iops.busiest == Peak(at_s=MIDNIGHT_S + 7_200, value=100)
    assert usage.iops.busiest_hour == Peak(at_s=MIDNIGHT_S + 3_600, value=2)


def test_a_half_that_is_missing_is_the_least_that_was_served():
    history = MetricHistory(period_s=60, read_ops=minutes([600]), write_ops=minutes([60], MIDNIGHT_S + 60))
    usage = summarise_usage(a_volume(), history, percentile=100)
    assert usage.iops.at_percentile == 10
    assert usage.periods == 2


def test_minutes_at_the_baseline_of_an_empty_bucket_are_held_back():
    # 100 GiB earn 300: the first was held back, the second was merely empty, the third had credits
    history = MetricHistory(
        period_s=60,
        read_ops=minutes([300 * 60, 60, 300 * 60]),
        read_bytes=minutes([300 * 60 * 65_536, 60 * 65_536, 0]),
        balance=minutes([0.0, 0.5, 40.0]),
    )
    usage = summarise_usage(a_volume(), history, percentile=99.9)
    assert (usage.empty_s, usage.throttled_s, usage.throttled_operation_mib) == (120, 60, 1 / 16)
    assert usage.is_throttled


def test_five_minute_samples_are_weighted_as_five():
    history = MetricHistory(period_s=300, read_ops=minutes([300 * 300], period_s=300), balance=minutes([0.0]))
    usage = summarise_usage(a_volume(), history, percentile=99.9)
    assert (usage.iops.at_percentile, usage.throttled_s, usage.end_at_s - usage.start_at_s) == (300, 300, 300)


def test_a_history_without_a_datapoint_is_none():
    assert summarise_usage(a_volume(), MetricHistory(period_s=60), percentile=99.9) is None
    assert (
        summarise_usage(a_volume(), MetricHistory(period_s=60, balance=minutes([5.0])), percentile=99.9).iops
        is None
    )


@pytest.mark.parametrize(
    ("percentile", "value"), [(50, 2), (75, 3), (76, 4), (99.9, 4), (100, 4), (25, 1), (0, 1)]
)
def test_the_percentile_is_a_value_that_was_served(percentile, value):
    assert nearest_rank_percentile([1, 2, 3, 4], percentile) == value


# --- properties

without_deadline = settings(max_examples=150, deadline=None)
"""A machine that is busy with something else does not count against the core."""

sizes = st.one_of(st.integers(1, 300), st.integers(1, 16_384))
iops_served = st.one_of(st.none(), st.floats(0, 3_000), st.floats(0, 16_000))
mib_s_served = st.one_of(st.none(), st.floats(0, 250))
usages = st.one_of(
    st.none(),
    st.builds(
        a_usage,
        iops_served,
        mib_s_served,
        days=st.sampled_from([1, 7, 14]),
        least_pct=st.one_of(st.none(), st.floats(0, 100)),
        throttled_s=st.sampled_from([0, 60, DAY_S]),
        empty_s=st.sampled_from([0, DAY_S]),
        throttled_operation_mib=st.one_of(st.none(), st.floats(1e-4, 0.25)),
    ),
)
kinds = st.sampled_from(list(TYPE_LIMITS))


def observed_case(volume, usage):
    """What the volume can have served, so that the usage is one of its own."""
    if usage is None:
        return None
    best = volume.provisioned_iops or max(BURST_IOPS, baseline_iops(volume.size_gib))
    has = reachable_mib_s(GP2, volume.size_gib)
    iops = usage.iops and a_rate(min(usage.iops.at_percentile, best))
    mib_s = usage.mib_s and a_rate(min(usage.mib_s.at_percentile, has))
    return replace(usage, iops=iops, mib_s=mib_s)


def serves(configuration, size_gib, usage):
    """Whether it has what was served at the percentile, whatever the core thinks of it."""
    iops = configuration.iops or max(BURST_IOPS, baseline_iops(size_gib))
    mib_s = reachable_mib_s(configuration, size_gib)
    return (usage.iops is None or iops >= usage.iops.at_percentile) and (
        usage.mib_s is None or mib_s >= usage.mib_s.at_percentile
    )


volumes = st.one_of(
    st.builds(a_volume, sizes),
    st.builds(a_volume_as, st.sampled_from([gp3(), gp3(6_000, 500), io2(6_000)]), st.integers(20, 16_384)),
)
cases = st.builds(
    lambda volume, usage, headroom, critical, kind: a_case(
        volume=volume,
        usage=observed_case(volume, usage),
        headroom_pct=headroom,
        is_critical=critical,
        critical_type=kind,
    ),
    volumes,
    usages,
    st.floats(0, 100),
    st.booleans(),
    kinds,
)


usage_cases = st.builds(
    lambda case, iops, mib_s, days, operation_mib: replace(
        case,
        usage=observed_case(
            case.volume, a_usage(iops, mib_s, days=days, throttled_operation_mib=operation_mib)
        ),
    ),
    cases,
    st.one_of(st.floats(0, 3_000), st.floats(0, 16_000)),
    st.floats(0, 250),
    st.sampled_from([7, 14]),
    st.one_of(st.none(), st.floats(1e-4, 0.25)),
)


@without_deadline
@given(cases)
def test_advice_is_never_slower_than_what_was_served_at_the_percentile(case):
    advice = advise(case)
    if case.usage is not None:
        assert serves(advice.target, case.volume.size_gib, case.usage)


@without_deadline
@given(cases)
def test_advice_never_costs_more_than_an_equivalent_option(case):
    advice = advise(case)
    other_options = [option for option in advice.options.values() if option.shortfall is None]
    if case.is_critical and advice.target.volume_type is case.critical_type:
        other_options = [
            item for item in other_options if item.configuration.volume_type is case.critical_type
        ]
        other_options = [item for item in other_options if item.configuration.iops == advice.target.iops]
    assert advice.price.after_usd_per_month <= min(item.usd_per_month for item in other_options)


@without_deadline
@given(cases)
def test_what_is_advised_is_what_aws_allows_and_costs_what_is_reported(case):
    advice = advise(case)
    target, size_gib = advice.target, case.volume.size_gib
    assert advice.price.after_usd_per_month == usd_per_month(target, size_gib, case.prices)
    if target.volume_type is VolumeType.GP2:
        return
    limits = TYPE_LIMITS[target.volume_type]
    assert limits.min_gib <= size_gib <= limits.max_gib
    assert limits.min_iops <= target.iops <= limits.max_iops_at(size_gib)
    if target.volume_type is VolumeType.GP3:
        assert 125 <= target.throughput_mib_s <= min(2_000, target.iops // 4)


@without_deadline
@given(usage_cases, st.floats(1, 2), st.floats(1, 2))
def test_more_that_was_served_never_makes_it_smaller_or_cheaper(case, more_iops, more_mib_s):
    usage = case.usage
    larger = observed_case(
        case.volume,
        replace(
            usage,
            iops=a_rate(usage.iops.at_percentile * more_iops),
            mib_s=a_rate(usage.mib_s.at_percentile * more_mib_s),
        ),
    )
    before, after = advise(case), advise(replace(case, usage=larger))
    assert after.requirement.iops >= before.requirement.iops
    assert after.requirement.mib_s >= before.requirement.mib_s
    kinds_wanted = {before.target.volume_type, after.target.volume_type}
    assume(not case.is_critical or len(kinds_wanted) == 1)  # a critical type that is outgrown is given up
    assert after.price.after_usd_per_month >= before.price.after_usd_per_month


@without_deadline
@given(usage_cases, st.sampled_from([60, 3_600, DAY_S]))
def test_time_held_back_never_makes_it_smaller(case, held_s):
    free = replace(case.usage, throttled_s=0)
    before = advise(replace(case, usage=free))
    after = advise(replace(case, usage=replace(free, throttled_s=held_s, empty_s=held_s)))
    assert after.requirement.iops >= before.requirement.iops
    assert after.requirement.mib_s >= before.requirement.mib_s


@without_deadline
@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100), st.floats(0, 100))
def test_a_higher_percentile_is_never_less_and_always_served(values, first, second):
    ordered = sorted(values)
    low, high = sorted((first, second))
    assert nearest_rank_percentile(ordered, low) <= nearest_rank_percentile(ordered, high)
    assert nearest_rank_percentile(ordered, high) in values
    assert (
        sum(value <= nearest_rank_percentile(ordered, high) for value in values)
        >= len(values) * high / 100 - 1e-9
    )


@without_deadline
@given(st.lists(cases, max_size=6))
def test_the_fleet_is_the_sum_of_its_volumes(several):
    advice = [advise(case) for case in several]
    fleet = summarise(advice)
    assert sum(fleet.by_target.values()) == fleet.count == len(advice)
    total = sum(item.price.difference_usd_per_month for item in advice)
    assert fleet.price.difference_usd_per_month == pytest.approx(total, abs=1e-4)


def test_a_type_that_does_not_exist_there_is_no_option_and_the_reason_is_reported():
    advice = advise(a_case(usage=a_usage(), unavailable={VolumeType.GP3: "no gp3 on this Outpost"}))
    assert "gp3 is left out: no gp3 on this Outpost." in advice.reasons
    assert advice.options.keys() == {"stay", "io1", "io2"}
    assert (advice.target.volume_type, advice.price.difference_usd_per_month) == (VolumeType.GP2, 0.0)
    elsewhere = advise(a_case(usage=a_usage()))
    assert elsewhere.target.volume_type is VolumeType.GP3


def test_of_the_type_that_it_is_nothing_is_left_out():
    case = a_case(volume=a_volume_as(IO1), usage=a_usage(), unavailable={VolumeType.IO1: "refused"})
    assert not any("left out" in reason for reason in advise(case).reasons)


@pytest.mark.parametrize(
    ("size_gib", "usage", "sentence"),
    [
        (
            250,
            a_usage(2_900, 40, **BURSTING_USAGE),
            "An alert requests at least 3,000 IOPS and 250 MiB/s: it sees only the last minutes, so it never"
            " proposes a gp3 slower than the gp2 at its best; 14.0 days of history call for 3,625 IOPS and"
            " 125 MiB/s.",
        ),
        (
            100,
            a_usage(900, 40, **BURSTING_USAGE),
            "An alert requests at least 3,000 IOPS and 128 MiB/s: it sees only the last minutes, so it never"
            " proposes a gp3 slower than the gp2 at its best; 14.0 days of history call for 3,000 IOPS and"
            " 125 MiB/s.",
        ),
    ],
)
def test_advice_that_differs_from_an_alert_gives_both_answers_and_the_reason(size_gib, usage, sentence):
    advice = advise(a_case(size_gib, usage))
    assert advice.differs_from_alert
    assert sentence in advice.reasons


@pytest.mark.parametrize(
    "case",
    [
        a_case(100, an_empty_bucket_usage(mib_s=None)),
        a_case(100, a_usage(900, 110, **BURSTING_USAGE)),
        a_case(100, a_usage(200, 20), volume=a_volume_as(gp3(4_000, 250), size_gib=100)),
    ],
    ids=["as fast as the gp2", "as much throughput as the gp2", "no gp2, so there is no alert"],
)
def test_advice_that_an_alert_agrees_with_does_not_mention_alerts(case):
    advice = advise(case)
    assert not advice.differs_from_alert
    assert not any("alert" in reason for reason in advice.reasons)
