"""What advice says and where it turns: sentences whole, and numbers right on the edge."""

from dataclasses import replace

import pytest

from burstctl.advise.rightsizing import (
    STAY,
    Confidence,
    DrainRisk,
    advise,
    confidence_of,
    derive_requirement,
    summarise,
)
from burstctl.advise.usage import Peak
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from support.builders.advice import BURSTING_USAGE, a_case, a_rate, a_usage, an_empty_bucket_usage, gp3
from support.builders.core_values import GP2, a_volume_as, at

MIDNIGHT_S = int(at("00:00"))


def an_instance(max_iops, max_mib_s) -> InstanceLimits:
    return InstanceLimits(
        max_iops=max_iops,
        max_throughput_mib_s=max_mib_s,
        baseline_iops=max_iops,
        baseline_throughput_mib_s=max_mib_s,
    )


def a_peak(value) -> Peak:
    return Peak(at_s=MIDNIGHT_S, value=value)


# how far the history can be trusted


@pytest.mark.parametrize(
    ("days", "confidence"),
    [(6, Confidence.LOW), (7, Confidence.FAIR), (13, Confidence.FAIR), (14, Confidence.GOOD)],
)
def test_a_week_and_a_fortnight_are_enough_when_they_are_whole(days, confidence):
    assert confidence_of(a_usage(days=days)) is confidence


# what is needed, and why

HELD_BACK = "held back by its"


@pytest.mark.parametrize(
    ("usage", "reasons"),
    [
        # 90 % of 3,000 and of 128 is as good as held there: a quarter more
        (
            a_usage(2_700, 115.2, **BURSTING_USAGE),
            (
                "3,375 IOPS: 2,700 in 99.9 % of all minutes, held back by its 3,000; 25 % headroom.",
                "144 MiB/s: 115 in 99.9 % of all minutes, held back by its 128; 25 % headroom.",
            ),
        ),
        # 2,400 and a quarter are what it has; 100 MiB/s and a quarter are less
        (
            a_usage(2_400, 100, **BURSTING_USAGE),
            (
                "3,000 IOPS: 2,400 in 99.9 % of all minutes, and no more than the 3,000 that it has.",
                "125 MiB/s: 100 in 99.9 % of all minutes; 25 % headroom.",
            ),
        ),
        (
            a_usage(800, 40, percentile=100, **BURSTING_USAGE),
            (
                "1,000 IOPS: 800 in its busiest minute; 25 % headroom.",
                "50 MiB/s: 40 in its busiest minute; 25 % headroom.",
            ),
        ),
        (
            a_usage(800, 40, period_s=300, periods=14 * 288, **BURSTING_USAGE),
            (
                "1,000 IOPS: 800 in 99.9 % of all 5-minute means; 25 % headroom.",
                "50 MiB/s: 40 in 99.9 % of all 5-minute means; 25 % headroom.",
            ),
        ),
        (
            a_usage(800, 40, days=6, **BURSTING_USAGE),
            (
                "3,000 IOPS: what it has; less than a week was seen, too little to give it less.",
                "128 MiB/s: what it has; less than a week was seen, too little to give it less.",
            ),
        ),
        # 3,000 operations of 16 KiB are 46.9 MiB/s, and a quarter more 58.6
        (
            an_empty_bucket_usage(),
            (
                "3,000 IOPS: throttled to its baseline for 24 h 00 min, so its demand is unknown.",
                "59 MiB/s: 3,000 operations of 16 KiB, measured while it was throttled to its baseline.",
            ),
        ),
        (
            an_empty_bucket_usage(throttled_operation_mib=None),
            (
                "3,000 IOPS: throttled to its baseline for 24 h 00 min, so its demand is unknown.",
                "128 MiB/s: what a gp2 has; its demand is unknown.",
            ),
        ),
        (
            None,
            (
                "3,000 IOPS: its present maximum; its operations are not known.",
                "128 MiB/s: what it has; its throughput is not known.",
            ),
        ),
    ],
)
def test_what_is_needed_is_reported_with_what_was_seen_and_what_was_added(usage, reasons):
    assert derive_requirement(a_case(usage=usage)).reasons == reasons


@pytest.mark.parametrize(
    ("usage", "is_held_back"),
    [
        (a_usage(2_699, 115, **BURSTING_USAGE), False),
        (a_usage(2_700, 100, **BURSTING_USAGE), True),
        (a_usage(900, 115.2, **BURSTING_USAGE), True),
        (an_empty_bucket_usage(mib_s=None), True),
        (an_empty_bucket_usage(2_700, 5), True),
    ],
)
def test_what_is_served_at_nine_tenths_of_what_there_is_was_held_back(usage, is_held_back):
    assert derive_requirement(a_case(usage=usage)).is_throttled is is_held_back


def test_a_minute_counted_within_two_percent_above_what_there_is_counts_as_that():
    # 3,000 IOPS and 2 % are 3,060
    for served, counts in [(3_000, 3_750), (3_060, 3_750), (3_061, 3_827)]:
        assert derive_requirement(a_case(usage=a_usage(served, **BURSTING_USAGE))).iops == counts


@pytest.mark.parametrize(
    ("instance", "iops", "mib_s", "count"),
    [
        (an_instance(100_000, 10_000), 3_625, 150, 0),
        (an_instance(3_625, 150), 3_625, 150, 0),
        (an_instance(3_624, 149), 3_624, 149, 2),
        # never less than was served
        (an_instance(100, 10), 2_900, 120, 2),
    ],
)
def test_only_what_the_instance_allows_is_bought(instance, iops, mib_s, count):
    # 2,900 and 120, both held back, and a quarter
    need = derive_requirement(a_case(usage=a_usage(2_900, 120, **BURSTING_USAGE), instance=instance))
    assert (need.iops, need.mib_s) == (iops, mib_s)
    assert sum("the instance allows no more" in reason for reason in need.reasons) == count


# the options


def options_of(volume, **changes):
    return advise(a_case(volume=volume, **changes)).options


def test_a_throughput_needs_a_number_of_iops_per_type():
    # 480 of 500 MiB/s is held back: 600. gp3 and io1 up to 500 count 256 KiB, io1 above 16, io2 0.256 an IOPS
    options = options_of(a_volume_as(gp3(3_000, 500), size_gib=2_000), usage=a_usage(1_000, 480))
    assert options["gp3"].configuration == gp3(3_000, 600)
    assert options["io1"].configuration.iops == 600 * 64
    assert options["io2"].configuration.iops == 2_344
    # 400 of 400: 500
    options = options_of(a_volume_as(gp3(3_000, 400), size_gib=2_000), usage=a_usage(1_000, 400))
    assert options["io1"].configuration.iops == 500 * 4
    assert options["io2"].configuration.iops == 1_954


def test_gp3_gets_the_iops_that_its_throughput_takes_and_no_more_than_aws_has():
    # 900 of 900 MiB/s: 1,125 take 4,500 IOPS
    volume = a_volume_as(gp3(4_000, 900), size_gib=1_000)
    assert options_of(volume, usage=a_usage(1_000, 900))["gp3"].configuration == gp3(4_500, 1_125)


@pytest.mark.parametrize(("size_gib", "kinds"), [(1, {"gp3"}), (3, {"gp3"}), (4, {"gp3", "io1", "io2"})])
def test_a_type_that_does_not_take_the_size_is_not_an_option(size_gib, kinds):
    options = options_of(a_volume_as(GP2, size_gib=size_gib))
    assert set(options) - {STAY, "flip"} == kinds


def test_an_option_that_will_not_do_names_what_it_has_and_what_is_needed():
    # io1 has 50 IOPS a GiB: 400 at 8, 500 at 10; at 256 KiB these are 125 MiB/s
    assert options_of(a_volume_as(GP2, size_gib=8))["io1"].shortfall == (
        "it has 400 IOPS at 8 GiB, 3,000 are needed"
    )
    moved = options_of(a_volume_as(gp3(3_000, 500), size_gib=10), usage=a_usage(100, 480))
    assert moved["io1"].shortfall == "it moves 125 MiB/s at 10 GiB, 480 are needed"
    assert moved["gp3"].shortfall is None


@pytest.mark.parametrize(
    ("usage", "short"),
    [
        (a_usage(900, 40, **BURSTING_USAGE), None),
        # a flip gives 3,000 and 128: right what is wanted, and less
        (a_usage(2_400, 102.4, **BURSTING_USAGE), None),
        (a_usage(2_900, 40, **BURSTING_USAGE), "it leaves no room for the suppressed demand of the volume"),
        (a_usage(900, 120, **BURSTING_USAGE), "it leaves no room for the suppressed demand of the volume"),
        (an_empty_bucket_usage(), None),
    ],
)
def test_a_flip_has_no_room_where_the_volume_was_held_back(usage, short):
    assert options_of(a_volume_as(GP2), usage=usage)["flip"].shortfall == short


# why it cannot stay


@pytest.mark.parametrize(
    ("usage", "short"),
    [
        (an_empty_bucket_usage(), "it depends on credits: they were exhausted for 24 h 00 min"),
        (
            a_usage(50, least_pct=98.9),
            "it depends on credits: its balance fell to 98.9 % at 2026-11-20T00:00:00Z",
        ),
        (a_usage(50, least_pct=99.0), None),
        (
            a_usage(301, least_pct=None),
            "it depends on credits: it served 301 IOPS at 2026-11-20T00:00:00Z, and sustains 300",
        ),
        (a_usage(300, least_pct=None), None),
        (a_usage(50, 120), "it is already limited"),
    ],
)
def test_a_gp2_that_depends_on_burst_credits_or_is_held_back_cannot_stay(usage, short):
    assert options_of(a_volume_as(GP2), usage=usage)[STAY].shortfall == short


@pytest.mark.parametrize(
    ("least_pct", "danger"), [(49.9, DrainRisk.DRAINS), (50.0, DrainRisk.NONE), (None, DrainRisk.NONE)]
)
def test_it_drains_dangerously_below_half(least_pct, danger):
    assert advise(a_case(usage=a_usage(50, least_pct=least_pct))).drain_risk is danger


# the text next to the numbers


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"usage": an_empty_bucket_usage()}, "It depends on credits: they were exhausted for 24 h 00 min."),
        (
            {"usage": None, "size_gib": 1},
            "It has too little data, and no other type that is as fast costs less.",
        ),
        (
            {"volume": a_volume_as(gp3(), size_gib=100), "usage": a_usage(900, 100)},
            "Its type is right.",
        ),
    ],
)
def test_the_verdict_has_its_reason(changes, sentence):
    assert sentence in advise(a_case(**changes)).reasons


def test_the_result_of_a_flip_is_described_and_an_external_change_is_not():
    volume = a_volume_as(gp3(), size_gib=100)
    flipped = advise(a_case(volume=volume, usage=a_usage(900, 100), flipped_from=GP2))
    assert flipped.reasons[-1] == "A flip made it so; before it was gp2."
    plain = advise(a_case(volume=volume, usage=a_usage(900, 100)))
    assert not any("flip" in reason for reason in plain.reasons)


@pytest.mark.parametrize(
    ("usage", "is_risk"), [(an_empty_bucket_usage(), True), (a_usage(900, 40, **BURSTING_USAGE), False)]
)
def test_what_was_held_back_may_want_more_than_anybody_knows(usage, is_risk):
    text = "Its true demand was higher than measured and is unknown: check again two weeks after the move."
    assert (text in advise(a_case(usage=usage)).risks) is is_risk


@pytest.mark.parametrize(("iops", "is_risk"), [(2_999, True), (3_000, False)])
def test_an_io2_below_the_burst_makes_a_second_of_a_full_burst_wait(iops, is_risk):
    volume = a_volume_as(Configuration(volume_type=VolumeType.IO2, iops=iops), size_gib=100)
    case = a_case(volume=volume, usage=a_usage(iops * 0.85, 100), is_critical=True)
    case = replace(case, critical_type=VolumeType.IO2)
    advice = advise(case)
    assert advice.target.iops == iops
    assert any("Within a minute" in risk for risk in advice.risks) is is_risk


def test_an_instance_below_what_is_bought_is_a_risk():
    for max_iops, is_risk in [(2_999, True), (3_000, False)]:
        risks = advise(
            a_case(usage=a_usage(900, 40, **BURSTING_USAGE), instance=an_instance(max_iops, 500))
        ).risks
        assert (f"Its instance allows {max_iops:,} IOPS to all its volumes together." in risks) is is_risk


FORTNIGHT = "14.0 days were seen, by the minute: it may not include a quarterly job."


@pytest.mark.parametrize(
    "usage", [a_usage(50, 5), a_usage(900, 40, **BURSTING_USAGE), a_usage(900, 0, **BURSTING_USAGE)]
)
def test_the_only_risk_of_an_ordinary_volume_is_a_short_history(usage):
    assert advise(a_case(usage=usage, instance=an_instance(3_000, 500))).risks == (FORTNIGHT,)


@pytest.mark.parametrize(
    ("busiest", "above", "phrase"),
    [
        (3_060, 1, None),  # 2 % beyond 3,000 is how CloudWatch counts
        (3_061, 1, "1 minute went beyond the 99.9 %, up to 3,061 IOPS"),
        (3_500, 2, "2 minutes went beyond the 99.9 %, up to 3,500 IOPS"),
    ],
)
def test_what_the_percentile_leaves_out_counts_from_two_percent_above_what_the_target_serves(
    busiest, above, phrase
):
    usage = replace(a_usage(900, 40, **BURSTING_USAGE), iops=a_rate(900, busiest, above))
    advice = advise(a_case(usage=usage))
    assert advice.target == gp3()
    risk = phrase and f"{phrase} at 2026-11-20T00:00:00Z; the target serves 3,000."
    assert advice.risks == tuple(filter(None, (FORTNIGHT, risk)))


def test_a_gp2_that_stays_serves_its_burst_ceiling_at_best():
    # at 1 GiB nothing else serves more
    advice = advise(a_case(1, replace(a_usage(), iops=a_rate(3_200, busiest=4_000, above=1))))
    assert advice.target == GP2
    assert any(
        risk.endswith("4,000 IOPS at 2026-11-20T00:00:00Z; the target serves 3,000.") for risk in advice.risks
    )


# the fleet


def test_there_is_something_left_to_watch_while_any_volume_depends_on_burst_credits():
    # 1,000 GiB cannot run out of credits; of the other nothing was seen, and it stays
    off, on = advise(a_case(1_000, a_usage())), advise(a_case(1, None))
    for several, is_left in [([off], True), ([off, on], False), ([on], False), ([], False)]:
        assert summarise(several).needs_no_watch is is_left
