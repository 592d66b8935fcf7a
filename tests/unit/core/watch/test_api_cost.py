import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.ledger.flip_state import FlipStatus
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.watch.api_cost import metric_usd_per_month, usd_per_month_idle, usd_per_month_now
from burstwatch.core.watch.polling.cadence import sweep_interval_s
from support.builders.core_values import (
    GP3,
    a_decision,
    a_flip,
    a_state,
    a_volume_as,
    an_assessment,
    balances,
    draining_to,
)


def idle_usd(*sizes_gib: int) -> float:
    cadence = CadencePolicy()
    return usd_per_month_idle(
        sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), cadence) for size_gib in sizes_gib
    )


def test_an_evaluation_every_15_minutes_costs_three_cents_a_month():
    # 30 days are 2,880 quarters of an hour, at $0.01 a thousand.
    assert metric_usd_per_month(900) == pytest.approx(0.0288)


def test_a_volume_in_alarm_costs_three_metrics_a_minute():
    assert metric_usd_per_month(60, metrics=3) == pytest.approx(1.296)


def test_a_thousand_idle_small_volumes_stay_within_the_budget():
    assert idle_usd(*[8] * 1_000) <= 29


def test_a_thousand_idle_mixed_volumes_stay_within_the_budget():
    # 15, 15, 15, 25, 40 and 60 minutes: 3 x 2,880 + 1,728 + 1,080 + 720 = 12,168 looks for six volumes.
    assert idle_usd(*[8, 30, 100, 334, 500, 900] * 167) / 1_002 * 1_000 == pytest.approx(20.28)


@pytest.mark.parametrize(
    ("assessment", "state", "usd"),
    [
        # 30 days are 2,880 quarters of an hour, 43,200 minutes, 8,640 times five minutes, 60 half days.
        (an_assessment(balances(*[100.0] * 31)), None, 2_880 * 1e-5),
        (an_assessment(balances(*[60.0] * 31)), None, 8_640 * 1e-5),
        # at critical its operations are read as well
        (an_assessment(draining_to(18, 3, count=20)), None, 43_200 * 3e-5),
        # on its target: reads and writes, and no balance; where it stays, nothing at all
        (an_assessment(Series(), volume=a_volume_as(GP3)), a_flip(), 8_640 * 2e-5),
        (an_assessment(Series(), volume=a_volume_as(GP3)), a_flip(is_permanent=True), 0.0),
        (
            an_assessment(Series(), volume=a_volume_as(GP3)),
            a_flip(status=FlipStatus.IN_PROGRESS),
            43_200 * 1e-5,
        ),
        # and a volume that cannot be polled costs nothing
        (an_assessment(Series(), volume=a_volume_as(GP3)), None, 0.0),
    ],
)
def test_what_a_volume_costs_now_follows_from_what_is_going_on(assessment, state, usd):
    decision = a_decision(assessment, None if state is None else a_state(flip=state))
    assert usd_per_month_now([decision, decision]) == pytest.approx(2 * usd)
