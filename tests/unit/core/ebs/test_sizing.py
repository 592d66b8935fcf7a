from dataclasses import replace
from math import inf

import pytest

from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_hour
from burstwatch.core.ebs.sizing import (
    Candidate,
    ReturnMode,
    Target,
    TargetOverride,
    TargetRefusal,
    TargetRefusalCode,
    choose_target,
    return_decision,
)
from burstwatch.core.ebs.volume_types import TYPE_LIMITS, configuration_of, reachable_mib_s
from support.builders.core_values import a_volume

GP3, IO1, IO2 = VolumeType.GP3, VolumeType.IO1, VolumeType.IO2
CALM = Demand(peak_iops=800)
THROTTLED_AT_CEILING = Demand(peak_iops=3_000, is_throttled=True)
THROTTLED_AT_BASELINE = Demand(peak_iops=300, is_throttled=True)
UNMEASURED = Demand()
LARGE_INSTANCE = InstanceLimits(
    max_iops=18_750, max_throughput_mib_s=566, baseline_iops=3_600, baseline_throughput_mib_s=77
)


def gp3(iops: int = 3_000, throughput_mib_s: int = 128) -> Configuration:
    return Configuration(volume_type=GP3, iops=iops, throughput_mib_s=throughput_mib_s)


def io1(iops: int) -> Configuration:
    return Configuration(volume_type=IO1, iops=iops)


def io2(iops: int) -> Configuration:
    return Configuration(volume_type=IO2, iops=iops)


def choose(
    size_gib: int = 100,
    demand: Demand = CALM,
    override: TargetOverride | None = None,
    *,
    is_now=None,
    **options,
):
    volume = a_volume(size_gib, **(is_now or {}))
    return choose_target(volume, demand, override or TargetOverride(), US_EAST_1, **options)


# what demand asks for


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (UNMEASURED, gp3()),
        (Demand(peak_iops=0), gp3()),
        (CALM, gp3()),
        (Demand(peak_iops=2_990), gp3()),  # much, but nothing held it back
        (THROTTLED_AT_CEILING, gp3(3_750)),  # 3,000 + 25 %
        (Demand(peak_iops=2_700, is_throttled=True), gp3(3_375)),  # 90 % of 3,000 is as good as held there
        (Demand(peak_iops=2_699, is_throttled=True), gp3()),
        (THROTTLED_AT_BASELINE, gp3()),  # nothing says that it wants more than the burst
    ],
)
def test_gp3_has_3000_iops_unless_demand_was_held_back_there(demand, expected):
    assert choose(demand=demand).configuration == expected


@pytest.mark.parametrize(
    ("demand", "iops"),
    [
        (Demand(peak_iops=2_000), 2_500),  # 2,000 + 25 %
        (CALM, 1_000),
        (Demand(peak_iops=2_500, is_throttled=True), 3_125),  # at least 2,500, whatever held it back
        (Demand(peak_iops=0), 512),  # 128 MiB/s x 4 operations of 256 KiB
        (THROTTLED_AT_CEILING, 3_750),
        (THROTTLED_AT_BASELINE, 3_000),  # unknown: the burst it had
        (UNMEASURED, 3_000),
    ],
)
@pytest.mark.parametrize("volume_type", [IO1, IO2])
def test_io_types_have_demand_with_headroom_and_the_burst_where_demand_is_unknown(volume_type, demand, iops):
    target = choose(demand=demand, override=TargetOverride(volume_type=volume_type))
    assert target.configuration == Configuration(volume_type=volume_type, iops=iops)


@pytest.mark.parametrize(("headroom_pct", "iops"), [(0, 3_000), (10, 3_300), (50, 4_500)])
def test_headroom_is_a_setting(headroom_pct, iops):
    assert choose(demand=THROTTLED_AT_CEILING, headroom_pct=headroom_pct).configuration == gp3(iops)


@pytest.mark.parametrize(
    ("size_gib", "seen_mib_s", "expected"),
    [(1, None, 128), (170, None, 128), (171, None, 250), (999, 90.0, 250), (100, 140.2, 141)],
)
def test_gp3_has_at_least_the_throughput_of_the_gp2_or_what_was_seen(size_gib, seen_mib_s, expected):
    target = choose(size_gib, Demand(peak_iops=800, peak_throughput_mib_s=seen_mib_s))
    assert target.configuration.throughput_mib_s == expected


def test_io_types_have_the_iops_that_the_throughput_of_the_gp2_takes():
    # 300 GiB have 250 MiB/s: 250 x 1,024 / 256 = 1,000 operations a second.
    target = choose(300, Demand(peak_iops=100), TargetOverride(volume_type=IO1))
    assert target.configuration == io1(1_000)
    assert "125 IOPS become 1,000: 250 MiB/s take that many, at 256 KiB an operation." in target.reasons


def test_a_gp2_that_serves_more_than_3000_for_ever_loses_nothing():
    assert choose(2_000).configuration == gp3(6_000, 250)  # 3 x 2,000 GiB


def test_every_number_and_every_clamp_has_a_sentence():
    assert choose(5, THROTTLED_AT_CEILING).reasons == (
        "3,750 IOPS: throttled at 3,000, so its demand is at least that; 25 % headroom.",
        "3,750 IOPS become 3,000: gp3 allows 500 per GiB, here 5, within 3,000 to 80,000.",
        "128 MiB/s: its current throughput.",
    )


@pytest.mark.parametrize(
    ("demand", "volume_type", "sentence"),
    [
        (UNMEASURED, GP3, "3,000 IOPS: its current maximum; its demand was not measured."),
        (CALM, GP3, "3,000 IOPS: its current maximum; its demand of 800 was not throttled."),
        (
            THROTTLED_AT_BASELINE,
            GP3,
            "3,000 IOPS: its current maximum; throttled at 300, its demand is unknown.",
        ),
        (CALM, IO1, "1,000 IOPS: its demand of 800 was not throttled; 25 % headroom."),
        (
            Demand(peak_iops=2_900, is_throttled=True),
            GP3,
            "3,625 IOPS: it served 2,900 of 3,000 at most, so more may be wanted; 25 % headroom.",
        ),
    ],
)
def test_the_first_reason_states_what_is_known_of_demand(demand, volume_type, sentence):
    assert choose(demand=demand, override=TargetOverride(volume_type=volume_type)).reasons[0] == sentence


# the size


@pytest.mark.parametrize(("size_gib", "iops"), [(6, 3_000), (8, 4_000), (12, 6_000), (16, 8_000)])
def test_gp3_above_3000_is_held_to_500_per_gib(size_gib, iops):
    assert choose(size_gib, override=TargetOverride(iops=8_000)).configuration.iops == iops


def test_an_io1_slower_than_the_burst_becomes_gp3_with_the_arithmetic():
    target = choose(20, override=TargetOverride(volume_type=IO1))
    assert target.configuration == gp3()
    assert target.reasons[0] == (
        "Redirected to gp3: io1 allows 50 IOPS per GiB, 50 x 20 = 1,000, fewer than the 3,000"
        " of a gp2's burst."
    )


def test_an_exact_io1_slower_than_the_burst_is_refused():
    refusal = choose(59, override=TargetOverride(volume_type=IO1), exact=True)
    assert refusal.code is TargetRefusalCode.SLOWER_THAN_BURST
    assert refusal.sentence == (
        "io1 allows 50 IOPS per GiB, 50 x 59 = 2,950, fewer than the 3,000 of a gp2's burst; take gp3 or io2."
    )


def test_an_io1_of_60_gib_is_as_fast_as_the_burst():
    assert choose(60, THROTTLED_AT_CEILING, TargetOverride(volume_type=IO1), exact=True).configuration == io1(
        3_000
    )


@pytest.mark.parametrize("volume_type", [IO1, IO2])
def test_io_types_below_4_gib_are_refused_or_become_gp3(volume_type):
    override = TargetOverride(volume_type=volume_type)
    refusal = choose(3, override=override, exact=True)
    assert refusal.code is TargetRefusalCode.SIZE_OUT_OF_RANGE
    assert refusal.reason.startswith(f"{volume_type} takes 4 to ")
    assert refusal.reason.endswith(" GiB, not 3")
    assert choose(3, override=override).configuration == gp3()


def test_an_io2_of_4_gib_is_faster_than_the_burst():
    assert choose(4, THROTTLED_AT_CEILING, TargetOverride(volume_type=IO2)).configuration == io2(
        3_750
    )  # up to 4,000


def test_a_volume_larger_than_any_type_is_refused():
    too_large = choose(70_000, is_now={"volume_type": "io2", "provisioned_iops": 5_000})
    assert too_large.reason == "gp3 takes 1 to 65,536 GiB, not 70,000"


# settings


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (TargetOverride(iops=5_000), gp3(5_000)),
        (TargetOverride(iops=2_000), gp3()),  # slower than the gp2
        (TargetOverride(iops=200_000), gp3(50_000)),  # 500 x 100 GiB
        (TargetOverride(throughput_mib_s=200), gp3(3_000, 200)),
        (TargetOverride(throughput_mib_s=10), gp3()),
        (TargetOverride(throughput_mib_s=1_000), gp3(4_000, 1_000)),  # 4 IOPS for each
        (TargetOverride(throughput_mib_s=9_999), gp3(8_000, 2_000)),
        (TargetOverride(volume_type=IO1, iops=2_000), io1(2_000)),
        (TargetOverride(volume_type=IO1, iops=700), io1(800)),  # 800 were served
        (TargetOverride(volume_type=IO1, iops=90_000), io1(5_000)),  # 50 x 100 GiB
        (TargetOverride(volume_type=IO2, iops=300_000), io2(100_000)),  # 1,000 x 100 GiB
        (TargetOverride(volume_type=IO1, iops=2_000, throughput_mib_s=700), io1(2_000)),  # not settable
    ],
)
def test_a_tag_is_brought_within_what_the_volume_needs_and_aws_allows(override, expected):
    assert choose(override=override).configuration == expected


@pytest.mark.parametrize(
    ("override", "expected", "warning"),
    [
        (TargetOverride(iops=5_000), gp3(5_000), None),
        (
            TargetOverride(volume_type=IO1, iops=500),
            io1(500),
            "500 IOPS are fewer than 800: the highest number that was served.",
        ),
        (
            TargetOverride(throughput_mib_s=125),
            gp3(3_000, 125),
            "125 MiB/s are fewer than 128: its current throughput.",
        ),
    ],
)
def test_an_exact_target_is_taken_with_a_warning(override, expected, warning):
    target = choose(override=override, exact=True)
    assert target.configuration == expected
    assert warning is None or warning in target.reasons


def test_an_exact_target_that_is_just_enough_has_no_warning():
    # 800 were served
    reasons = choose(override=TargetOverride(volume_type=IO1, iops=800), exact=True).reasons
    assert not any("fewer" in reason for reason in reasons)


@pytest.mark.parametrize(
    "override",
    [
        TargetOverride(iops=3_000),
        TargetOverride(volume_type=IO1, iops=5_000),
        TargetOverride(volume_type=IO2, iops=100_000),
    ],
)
def test_an_override_at_a_limit_is_not_changed(override):
    target = choose(override=override)
    assert target.configuration.iops == override.iops
    assert not any("become" in reason for reason in target.reasons)


def test_a_size_right_on_the_limit_is_taken():
    assert choose(16 * 1024, override=TargetOverride(volume_type=IO1)).configuration.volume_type is IO1


def test_throughput_beyond_what_it_should_have_is_reported_as_seen():
    reasons = choose(demand=Demand(peak_iops=800, peak_throughput_mib_s=140.0)).reasons
    assert "140 MiB/s: measured, and more than its maximum." in reasons


@pytest.mark.parametrize(
    ("kind", "sizes_gib", "iops", "per_gib"),
    [
        # the EBS user guide: gp3 to 64 TiB, io1 to 16 TiB, io2 Block Express to 64 TiB
        (GP3, (1, 64 * 1024), (3_000, 80_000), 500),
        (IO1, (4, 16 * 1024), (100, 64_000), 50),
        (IO2, (4, 64 * 1024), (100, 256_000), 1_000),
    ],
)
def test_what_may_be_requested_is_what_aws_documents(kind, sizes_gib, iops, per_gib):
    limits = TYPE_LIMITS[kind]
    assert (limits.min_gib, limits.max_gib) == sizes_gib
    assert (limits.min_iops, limits.max_iops) == iops
    assert limits.iops_per_gib == per_gib


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            TargetOverride(volume_type=GP3, iops=2_000),
            (
                "requested 2,000 IOPS, but 2,000 IOPS become 3,000: the minimum of gp3;"
                " ask for 3,000, or leave it out."
            ),
        ),
        (
            TargetOverride(iops=60_000),
            (
                "requested 60,000 IOPS, but 60,000 IOPS become 50,000: gp3 allows 500 per GiB, here 100,"
                " within 3,000 to 80,000; ask for 50,000, or leave it out."
            ),
        ),
        (
            TargetOverride(iops=3_000, throughput_mib_s=1_000),
            (
                "requested 1,000 MiB/s, but 1,000 MiB/s become 750: gp3 allows 1 for every 4 of 3,000 IOPS,"
                " and 2,000 at most; ask for 750, or leave it out."
            ),
        ),
        (
            TargetOverride(volume_type=IO2, iops=2_000, throughput_mib_s=300),
            (
                "requested 300 MiB/s, but 512 MiB/s follow from the IOPS of io2 and cannot be set;"
                " ask for 512, or leave it out."
            ),  # 2,000 x 0.256
        ),
    ],
)
def test_an_exact_target_that_aws_does_not_allow_is_refused(override, sentence):
    refusal = choose(override=override, exact=True)
    assert refusal.code is TargetRefusalCode.OVERRIDE_OUT_OF_RANGE
    assert refusal.sentence == sentence


def test_gp2_is_not_a_valid_target():
    with pytest.raises(ValueError, match="gp2 is not a valid target"):
        TargetOverride(volume_type=VolumeType.GP2)


@pytest.mark.parametrize("peak", [-1.0, inf, float("nan")])
def test_an_invalid_demand_cannot_be_created(peak):
    with pytest.raises(ValueError, match="cannot be; give 0 or more"):
        Demand(peak_iops=peak)


# what the volume is now


@pytest.mark.parametrize(
    ("is_now", "expected"),
    [
        ({"provisioned_iops": 300}, Configuration(volume_type=VolumeType.GP2)),
        (
            {"volume_type": "gp3", "provisioned_iops": 4_000, "throughput_mib_s": 200},
            gp3(4_000, 200),
        ),
        ({"volume_type": "gp3"}, gp3(3_000, 125)),
        ({"volume_type": "io1", "provisioned_iops": 900}, io1(900)),
        ({"volume_type": "io2"}, io2(100)),
    ],
)
def test_a_volume_has_a_configuration(is_now, expected):
    assert configuration_of(a_volume(**is_now)) == expected


@pytest.mark.parametrize(
    ("configuration", "mib_s"),
    [
        (Configuration(volume_type=VolumeType.GP2), 128),
        (gp3(3_000, 300), 300),
        (io1(400), 100),  # 400 x 256 KiB
        (io1(2_000), 500),
        (io1(32_000), 500),
        (io1(64_000), 1_000),  # 64,000 x 16 KiB
        (io2(1_000), 256),
        (io2(16_000), 4_000),
    ],
)
def test_a_configuration_reaches_a_throughput(configuration, mib_s):
    assert reachable_mib_s(configuration, 100) == mib_s


def test_no_change_is_refused_because_it_may_use_a_modification():
    refusal = choose(is_now={"volume_type": "gp3", "provisioned_iops": 6_000, "throughput_mib_s": 250})
    assert refusal.code is TargetRefusalCode.NO_CHANGE_NEEDED
    assert refusal.sentence == (
        "vol-0a1 is gp3 with 6,000 IOPS and 250 MiB/s already, and requesting the same may use up one of the"
        " four modifications AWS allows in 24 h; leave it, or request other numbers."
    )


def test_a_faster_volume_is_not_slowed_down():
    target = choose(is_now={"volume_type": "io1", "provisioned_iops": 4_000})
    assert target.configuration == gp3(4_000, 500)


@pytest.mark.parametrize("volume_type", ["st1", "sc1", "standard", "gp9"])
def test_an_unsupported_type_is_refused(volume_type):
    refusal = choose(is_now={"volume_type": volume_type})
    assert refusal.code is TargetRefusalCode.UNSUPPORTED_TYPE
    assert refusal.sentence == (
        f"vol-0a1 is {volume_type}, and burstwatch changes only gp2, gp3, io1 and io2; see what limits it"
        " with burstctl which vol-0a1, and change it in the EC2 console."
    )


# the instance


@pytest.mark.parametrize(
    ("balances", "phrase"),
    [
        (
            {"io_balance_pct": 0.4, "used_iops": 3_590.4},
            "its EBSIOBalance% is at 0.4 %, which limits all its volumes together to 3,600 IOPS, and what"
            " they serve now is 3,590",
        ),
        (
            {"byte_balance_pct": 0},
            "its EBSByteBalance% is at 0 %, which limits all its volumes together to 77 MiB/s, and what they"
            " serve now is not known",
        ),
    ],
)
def test_an_empty_bucket_of_the_instance_is_named(balances, phrase):
    refusal = choose(instance=replace(LARGE_INSTANCE, **balances))
    assert refusal.code is TargetRefusalCode.INSTANCE_IS_BOTTLENECK
    assert refusal.sentence == (
        f"instance i-0a1, not the volume, is the bottleneck: {phrase};"
        " use a larger instance type, or wait for its bucket to refill."
    )


@pytest.mark.parametrize(
    ("used", "is_refused"),
    [
        ({"used_iops": 3_239}, False),
        ({"used_iops": 3_240}, True),
        ({"used_iops": None}, True),
        ({"used_iops": 300, "byte_balance_pct": 3.0, "used_mib_s": 69.0}, False),
        ({"used_iops": 300, "byte_balance_pct": 3.0, "used_mib_s": 69.3}, True),
    ],
    ids=["room left", "at 90 %", "load not known", "room left for throughput", "no room for throughput"],
)
@pytest.mark.parametrize("balance_pct", [0.0, 5.0])
def test_with_an_empty_bucket_a_flip_helps_as_far_as_the_instance_sustains_more(
    used, is_refused, balance_pct
):
    """The volume is held to 300 IOPS, and the instance sustains 3,600 and 77 MiB/s."""
    instance = replace(LARGE_INSTANCE, **{"io_balance_pct": balance_pct} | used)
    answer = choose(100, THROTTLED_AT_BASELINE, instance=instance)
    assert isinstance(answer, TargetRefusal) == is_refused


def test_both_buckets_are_named_where_both_are_empty():
    refusal = choose(instance=replace(LARGE_INSTANCE, io_balance_pct=0, byte_balance_pct=0))
    assert "EBSIOBalance%" in refusal.reason
    assert "EBSByteBalance%" in refusal.reason


@pytest.mark.parametrize("balance_pct", [None, 5.1, 100])
def test_a_bucket_with_something_in_it_or_without_one_refuses_nothing(balance_pct):
    instance = replace(LARGE_INSTANCE, io_balance_pct=balance_pct, byte_balance_pct=balance_pct)
    assert isinstance(choose(instance=instance), Target)


@pytest.mark.parametrize(("max_iops", "is_refused"), [(2_699, True), (2_700, True), (2_701, False)])
def test_an_instance_that_allows_no_more_than_the_volume_sustains_gains_nothing(max_iops, is_refused):
    answer = choose(900, instance=replace(LARGE_INSTANCE, max_iops=max_iops))  # baseline 2,700
    assert isinstance(answer, TargetRefusal) == is_refused
    if is_refused:
        assert f"it allows {max_iops:,} IOPS, and the volume sustains 2,700;" in answer.sentence


@pytest.mark.parametrize(
    ("demand", "is_refused"),
    [
        (Demand(peak_iops=400, peak_throughput_mib_s=50), True),  # 128 KiB: 600 baseline IOPS carry 75 MiB/s
        (Demand(peak_iops=3_000, peak_throughput_mib_s=47), False),  # 16 KiB: they carry 9.4
        (CALM, False),  # the operation size is not known
    ],
)
def test_a_throughput_limit_binds_at_the_operation_size_that_was_seen(demand, is_refused):
    answer = choose(200, demand, instance=replace(LARGE_INSTANCE, max_throughput_mib_s=56.25))
    assert isinstance(answer, TargetRefusal) == is_refused
    if is_refused:
        phrase = "it allows 56.25 MiB/s, and the volume sustains 75 at the 128 KiB of an average operation"
        assert phrase in answer.sentence


def test_a_gp2_sustains_no_more_than_its_own_throughput():
    # 600 x 1 MiB would be 600 MiB/s, but 200 GiB have 250: an instance that allows 300 leaves room to gain.
    instance = replace(LARGE_INSTANCE, max_throughput_mib_s=300)
    demand = Demand(peak_iops=200, peak_throughput_mib_s=200)
    assert isinstance(choose(200, demand, instance=instance), Target)


def test_iops_that_the_instance_cannot_use_are_not_bought():
    target = choose(demand=THROTTLED_AT_CEILING, instance=replace(LARGE_INSTANCE, max_iops=3_500))
    assert target.configuration == gp3(3_500)
    assert "3,750 IOPS become 3,500: the instance allows 3,500 in all." in target.reasons


# prices and what else there was


def test_a_target_has_its_price_before_and_after():
    price = choose(demand=CALM, override=TargetOverride(volume_type=IO1, iops=3_000)).price
    assert (price.before_usd_per_month, price.after_usd_per_month) == (10.00, 207.50)
    assert price.difference_usd_per_month == 197.50
    assert round(usd_per_hour(price.difference_usd_per_month), 4) == 0.2705


def test_the_alternatives_are_listed_side_by_side():
    alternatives = choose(20, THROTTLED_AT_CEILING).alternatives
    assert list(alternatives) == ["gp3", "io1", "io2", "stay"]
    assert isinstance(alternatives["io1"], TargetRefusal)  # 50 x 20 < 3,000
    prices = {
        name: offer.usd_per_month for name, offer in alternatives.items() if isinstance(offer, Candidate)
    }
    # gp3: 1.60 + 750 x 0.005 + 3 x 0.04; io2: 2.50 + 3,750 x 0.065
    assert prices == {"gp3": 5.47, "io2": 246.25, "stay": 2.00}


@pytest.mark.parametrize(
    ("size_gib", "costs_no_more"),
    [(1, False), (5, False), (6, True), (170, True), (171, False), (249, False), (250, True), (999, True)],
)
def test_gp3_with_the_throughput_of_the_gp2_usually_costs_no_more(size_gib, costs_no_more):
    assert choose(size_gib).costs_no_more_than_gp2 == costs_no_more


def test_a_volume_no_longer_gp2_is_still_compared_with_the_gp2_it_was():
    target = choose(is_now={"volume_type": "io1", "provisioned_iops": 3_000})
    assert target.price.before_usd_per_month == 207.50
    assert target.gp2_usd_per_month == 10.00
    assert not target.costs_no_more_than_gp2  # gp3 with the 500 MiB/s of that io1: 8 + 375 x 0.04 = 23


@pytest.mark.parametrize(
    ("size_gib", "volume_type", "return_mode", "stays", "reason"),
    [
        (100, GP3, ReturnMode.AUTO, True, "stays: gp3 costs no more, $8.12 a month, gp2 $10.00"),
        (200, GP3, ReturnMode.AUTO, False, "returns to gp2 when calm: gp3 costs $21.00 a month, gp2 $20.00"),
        (100, IO1, ReturnMode.AUTO, False, "returns to gp2 when calm: io1 costs $77.50 a month, gp2 $10.00"),
        (
            100,
            GP3,
            ReturnMode.ALWAYS,
            False,
            "returns to gp2 (return: always); gp3 costs $8.12 a month, gp2 $10.00",
        ),
        (100, IO2, ReturnMode.NEVER, True, "stays (return: never); io2 costs $77.50 a month, gp2 $10.00"),
    ],
)
def test_io_types_return_and_gp3_stays_where_it_costs_no_more(
    size_gib, volume_type, return_mode, stays, reason
):
    stay = return_decision(choose(size_gib, override=TargetOverride(volume_type=volume_type)), return_mode)
    assert (stay.is_permanent, stay.reason) == (stays, reason)


@pytest.mark.parametrize(
    ("kind", "size_gib", "next_step"),
    [
        (IO1, 3, "take gp3"),
        (IO2, 3, "take gp3"),
        (IO1, 16_385, "leave it as it is"),
        (GP3, 65_537, "leave it as it is"),
    ],
)
def test_a_size_that_a_type_does_not_take_is_refused_with_what_would_do(kind, size_gib, next_step):
    refusal = choose(size_gib, override=TargetOverride(volume_type=kind), exact=True)
    assert (refusal.code, refusal.next_step) == (TargetRefusalCode.SIZE_OUT_OF_RANGE, next_step)


def test_an_instance_whose_bucket_is_as_good_as_empty_or_that_allows_just_what_it_sustains_binds():
    # 5 % is nearly empty; 500 GiB sustain 1,500 IOPS, at 256 KiB each the 250 MiB/s that gp2 allows there
    demand = Demand(peak_iops=1_000, peak_throughput_mib_s=250.0)
    for changes, expected in [
        ({"io_balance_pct": 5.0}, "its EBSIOBalance% is at 5 %"),
        ({"max_throughput_mib_s": 250}, "it allows 250 MiB/s, and the volume sustains 250 at the 256 KiB"),
    ]:
        refusal = choose(500, demand, instance=replace(LARGE_INSTANCE, **changes))
        assert refusal.code is TargetRefusalCode.INSTANCE_IS_BOTTLENECK
        assert expected in refusal.reason
    for changes in ({"io_balance_pct": 5.1}, {"max_throughput_mib_s": 251}):
        assert isinstance(choose(500, demand, instance=replace(LARGE_INSTANCE, **changes)), Target)
