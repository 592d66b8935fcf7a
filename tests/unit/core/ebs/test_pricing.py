from dataclasses import replace
from datetime import date, timedelta

import pytest

from burstwatch.core.ebs.pricing import (
    US_EAST_1,
    Configuration,
    PriceChange,
    PriceTable,
    TypePrice,
    VolumeType,
    usd_per_hour,
    usd_per_month,
)

GP2 = Configuration(volume_type=VolumeType.GP2)


def gp3(iops: int = 3_000, throughput_mib_s: int = 125) -> Configuration:
    return Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=throughput_mib_s)


def io1(iops: int) -> Configuration:
    return Configuration(volume_type=VolumeType.IO1, iops=iops)


def io2(iops: int) -> Configuration:
    return Configuration(volume_type=VolumeType.IO2, iops=iops)


@pytest.mark.parametrize(
    ("configuration", "usd"),
    [
        (GP2, 10.00),  # 100 x 0.10.
        (gp3(), 8.00),  # 100 x 0.08; 3,000 IOPS and 125 MiB/s are included.
        (gp3(throughput_mib_s=128), 8.12),  # 8 + 3 x 0.04
        (gp3(throughput_mib_s=250), 13.00),  # 8 + 125 x 0.04
        (gp3(6_000, 250), 28.00),  # 13 + 3,000 x 0.005
        (io1(3_000), 207.50),  # 12.5 + 3,000 x 0.065
        (io1(1_000), 77.50),  # 12.5 + 65
        (io2(3_000), 207.50),
    ],
)
def test_100_gib_cost_a_month_what_the_list_states(configuration, usd):
    assert usd_per_month(configuration, 100, US_EAST_1) == usd


@pytest.mark.parametrize(
    ("iops", "usd"),
    [
        (32_000, 2_080.00),  # 32,000 x 0.065
        (32_001, 2_080.0455),  # the next one is of the second tier
        (64_000, 3_536.00),  # 2,080 + 32,000 x 0.0455 = 2,080 + 1,456
        (64_001, 3_536.03185),  # the next one of the third
        (256_000, 9_651.20),  # 3,536 + 192,000 x 0.03185 = 3,536 + 6,115.2
    ],
)
def test_io2_has_three_tiers_each_for_the_iops_within_it(iops, usd):
    assert usd_per_month(io2(iops), 1_000, US_EAST_1) == 125 + usd


def test_gp3_with_the_throughput_of_gp2_is_more_expensive_at_1_to_5_and_171_to_249_gib_only():
    # Up to 170 GiB: 0.08 s + 3 x 0.04 > 0.10 s while s < 6.
    # Above: 0.08 s + 125 x 0.04 > 0.10 s while s < 250.
    more_expensive = {
        size_gib
        for size_gib in range(1, 16_385)
        if usd_per_month(gp3(throughput_mib_s=128 if size_gib <= 170 else 250), size_gib, US_EAST_1)
        > usd_per_month(GP2, size_gib, US_EAST_1)
    }
    assert more_expensive == {*range(1, 6), *range(171, 250)}


@pytest.mark.parametrize(("size_gib", "throughput", "usd"), [(6, 128, 0.60), (250, 250, 25.00)])
def test_equal_prices_compare_equal(size_gib, throughput, usd):
    prices = [usd_per_month(c, size_gib, US_EAST_1) for c in (GP2, gp3(throughput_mib_s=throughput))]
    assert prices == [usd, usd]


def test_an_hour_is_a_730th_of_a_month():
    assert round(usd_per_hour(207.50), 4) == 0.2842
    assert round(usd_per_hour(8.00), 4) == 0.0110


@pytest.mark.parametrize(
    ("after", "stay", "usd"),
    [
        (207.50, timedelta(hours=6), 1.6233),  # 197.50 / 730 x 6
        (8.12, timedelta(hours=730), -1.88),
        (10.00, timedelta(days=30), 0.0),
        (207.50, timedelta(seconds=1), 0.0045),  # at least a minute: 197.50 / 730 / 60
    ],
)
def test_a_stay_costs_the_difference_for_as_long_as_it_lasts(after, stay, usd):
    change = PriceChange(before_usd_per_month=10.00, after_usd_per_month=after)
    assert round(change.difference_usd_over(stay), 4) == usd


def test_the_difference_is_exact_to_the_cent():
    assert PriceChange(before_usd_per_month=10.00, after_usd_per_month=8.12).difference_usd_per_month == -1.88


def test_prices_of_another_region_come_as_another_table():
    other_prices = replace(
        US_EAST_1,
        region="eu-central-1",
        as_of=date(2026, 11, 20),
        by_type={**US_EAST_1.by_type, VolumeType.GP2: TypePrice(usd_per_gib=0.119)},
    )
    assert usd_per_month(GP2, 100, other_prices) == 11.90


def test_a_table_without_a_type_cannot_exist():
    with pytest.raises(ValueError, match="no price for gp3, io1, io2 in nowhere; give one for every type"):
        PriceTable(
            region="nowhere",
            as_of=date(2026, 11, 20),
            by_type={VolumeType.GP2: TypePrice(usd_per_gib=0.10)},
        )


def test_tiers_out_of_order_cannot_exist():
    with pytest.raises(ValueError, match=r"IOPS tiers begin at \[32000, 0\]; each must begin above"):
        TypePrice(usd_per_gib=0.125, iops_tiers=((32_000, 0.0455), (0, 0.065)))


@pytest.mark.parametrize(
    ("volume_type", "numbers"),
    [
        (VolumeType.GP2, {"iops": 3_000}),
        (VolumeType.GP3, {"iops": 3_000}),
        (VolumeType.GP3, {"throughput_mib_s": 125}),
        (VolumeType.IO1, {}),
        (VolumeType.IO2, {"iops": 3_000, "throughput_mib_s": 125}),
    ],
)
def test_a_configuration_has_exactly_the_numbers_its_type_lets_be_set(volume_type, numbers):
    with pytest.raises(ValueError, match="gp2 takes neither, gp3 both, io1 and io2 take IOPS only"):
        Configuration(volume_type=volume_type, **numbers)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [(GP2, "gp2"), (io1(3_000), "io1 with 3,000 IOPS"), (gp3(), "gp3 with 3,000 IOPS and 125 MiB/s")],
)
def test_a_configuration_has_a_readable_form(configuration, expected):
    assert str(configuration) == expected
