"""What a volume served, summed up: rates, the busiest hour, and when it was throttled to its baseline."""

import pytest

from burstctl.advise.usage import summarise_usage
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from support.builders.core_values import a_volume

HOUR_S = 3_600
MIB = 2**20
# 100 GiB earn 300 IOPS: 90,000 operations in five minutes.
THROTTLED_USAGE = 90_000.0


def series(*values, first_s=0, period_s=300):
    pairs = ((first_s + index * period_s, value) for index, value in enumerate(values) if value is not None)
    return Series.from_pairs(pairs)


def usage_of(percentile=90.0, **fields):
    return summarise_usage(a_volume(100), MetricHistory(period_s=300, **fields), percentile=percentile)


def test_a_volume_with_only_a_balance_was_not_throttled():
    usage = usage_of(balance=series(50.0, 49.0, 48.0, first_s=600))
    assert (usage.periods, usage.days, usage.throttled_share, usage.iops) == (0, 0.0, 0.0, None)
    assert (usage.start_at_s, usage.end_at_s) == (600, 1_500)
    assert (usage.lowest_balance.at_s, usage.lowest_balance.value) == (1_200, 48.0)


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
    assert (usage.iops.at_percentile, usage.iops.periods_above) == (2.0, 1)


def test_of_equally_busy_hours_the_first_is_reported():
    quiet, busy = [30.0] * 12, [300.0] * 12
    usage = usage_of(write_ops=series(*quiet, *busy, *quiet, *busy))
    assert usage.iops.busiest_hour.at_s == HOUR_S


def test_a_volume_is_throttled_when_it_served_its_baseline_with_an_empty_bucket():
    balance = series(1.0, 0.0, 1.0, 1.1)
    moved = series(
        THROTTLED_USAGE * MIB / 64,
        THROTTLED_USAGE * MIB / 16,
        THROTTLED_USAGE * MIB / 32,
        THROTTLED_USAGE * MIB / 4,
    )
    usage = usage_of(
        balance=balance,
        write_ops=series(THROTTLED_USAGE, THROTTLED_USAGE, 0.5 * THROTTLED_USAGE, THROTTLED_USAGE),
        write_bytes=moved,
        percentile=40.0,
    )
    assert (usage.empty_s, usage.throttled_s, usage.throttled_share) == (900, 600, 0.5)
    # of the two that were held, the larger operations: 1/16 MiB
    assert usage.throttled_operation_mib == 1 / 16
    assert not usage.is_throttled
