import pytest

from burstwatch.core.cadence import sweep_interval_s
from burstwatch.core.cost import usd_per_month, usd_per_month_idle
from burstwatch.core.policy import CadencePolicy
from burstwatch.core.volume import baseline_iops


def idle_usd(*sizes_gib: int) -> float:
    cadence = CadencePolicy()
    return usd_per_month_idle(sweep_interval_s(baseline_iops(size_gib), cadence) for size_gib in sizes_gib)


def test_a_look_every_15_minutes_costs_three_cents_a_month():
    # 30 days are 2,880 quarters of an hour, at $0.01 a thousand.
    assert usd_per_month(900) == pytest.approx(0.0288)


def test_a_volume_in_alarm_costs_three_metrics_a_minute():
    assert usd_per_month(60, metrics=3) == pytest.approx(1.296)


def test_a_thousand_idle_small_volumes_stay_within_the_budget():
    assert idle_usd(*[8] * 1_000) <= 29


def test_a_thousand_idle_mixed_volumes_stay_within_the_budget():
    # 15, 15, 15, 25, 40 and 60 minutes: 3 x 2,880 + 1,728 + 1,080 + 720 = 12,168 looks for six volumes.
    assert idle_usd(*[8, 30, 100, 334, 500, 900] * 167) / 1_002 * 1_000 == pytest.approx(20.28)
