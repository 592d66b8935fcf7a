"""What a volume served, summed up: rates, the busiest hour, and when it was held to its baseline."""

import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.usage import History, sum_up
from conftest import a_volume

HOUR_S = 3_600
MIB = 2**20
# 100 GiB earn 300 IOPS: 90,000 operations in five minutes.
HELD = 90_000.0


def series(*values, first_s=0, period_s=300):
    pairs = ((first_s + index * period_s, value) for index, value in enumerate(values) if value is not None)
    return Series.of(pairs)


def usage_of(percentile=90.0, **given):
    return sum_up(a_volume(100), History(period_s=300, **given), percentile=percentile)


def test_of_a_volume_of_which_only_the_balance_is_known_nothing_was_held():
    usage = usage_of(balance=series(50.0, 49.0, 48.0, first_s=600))
    assert (usage.periods, usage.days, usage.held_share, usage.iops) == (0, 0.0, 0.0, None)
    assert (usage.first_s, usage.last_s) == (600, 1_500)
    assert (usage.least_balance.at_s, usage.least_balance.value) == (1_200, 48.0)


def test_a_period_of_which_one_half_is_known_counts_with_that():
    usage = usage_of(read_ops=series(300.0, None, 900.0), write_ops=series(600.0, 1_200.0, None))
    assert usage.periods == 3
    # 900, 1,200 and 900 operations in 300 s each
    assert (usage.iops.busiest.at_s, usage.iops.busiest.value) == (300, 4.0)
    assert usage.iops.busiest_hour.value == pytest.approx(3_000 / 3 / 300)
    assert usage.read_pct == pytest.approx(100 * 1_200 / 3_000)


def test_periods_above_the_percentile_are_counted():
    # 2 of 3 do not exceed 2 a second: at 60 per cent it is the second, and one is above.
    usage = usage_of(60.0, write_ops=series(300.0, 600.0, 900.0))
    assert (usage.iops.at_percentile, usage.iops.above) == (2.0, 1)


def test_of_hours_as_busy_the_first_is_told():
    quiet, busy = [30.0] * 12, [300.0] * 12
    usage = usage_of(write_ops=series(*quiet, *busy, *quiet, *busy))
    assert usage.iops.busiest_hour.at_s == HOUR_S


def test_it_is_held_where_it_served_its_baseline_with_an_empty_bucket():
    balance = series(1.0, 0.0, 1.0, 1.1)
    moved = series(HELD * MIB / 64, HELD * MIB / 16, HELD * MIB / 32, HELD * MIB / 4)
    usage = usage_of(
        balance=balance, write_ops=series(HELD, HELD, 0.5 * HELD, HELD), write_bytes=moved, percentile=40.0
    )
    assert (usage.dry_s, usage.held_s, usage.held_share) == (900, 600, 0.5)
    # of the two that were held, the larger operations: 1/16 MiB
    assert usage.held_operation_mib == 1 / 16
    assert not usage.is_held
