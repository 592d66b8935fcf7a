from dataclasses import replace

import pytest

from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder
from burstwatch.core.flips.instance_effect import describe_instance_effect
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.flips.recommendation import recommend
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import (
    GP2,
    M5_LARGE,
    a_decision,
    a_state,
    a_volume,
    an_assessment,
    at,
    critical,
)
from support.builders.core_values import volume_settings as settings_of

FAST_GP3 = Configuration(volume_type=VolumeType.GP3, iops=6_000, throughput_mib_s=128)
# 50 % of 27.27 million operations, and a full bucket of 512.5 MB/s for 30 minutes
HALF = replace(M5_LARGE, io_balance_pct=50.0, byte_balance_pct=100.0, other_iops=0.0, other_mib_s=0.0)


def test_a_faster_volume_makes_the_instance_the_next_to_run_empty():
    """13,635,000 operations / (6,000 - 3,600) are 5,681 s."""
    assert describe_instance_effect(HALF, GP2, FAST_GP3, 100) == (
        "After the flip, the volumes of the instance may take 6,000 IOPS from it. Its EBS I/O credits"
        " (EBSIOBalance% 50) would be the next to run empty, after 95 min of full load at the earliest"
    )


def test_the_bucket_that_is_empty_first_is_named():
    """254 MiB/s against 77.5: 879,765 MiB last 4,985 s, and 27.27 million operations 11,363."""
    full = replace(HALF, io_balance_pct=100.0, other_mib_s=126.0)
    target = replace(FAST_GP3, throughput_mib_s=129)
    assert "EBS throughput credits (EBSByteBalance% 100)" in describe_instance_effect(full, GP2, target, 100)


def test_the_limit_of_a_large_type_is_written_in_full():
    large = replace(HALF, baseline_iops=12_000, io_balance_pct=0.5)
    target = replace(FAST_GP3, iops=16_000)
    assert "so together they get 12,000 IOPS" in describe_instance_effect(large, GP2, target, 100)


# t3.micro and t3.medium, without other volumes: a gp2 of 100 GiB sustains 300 IOPS and bursts to 3,000
MICRO = InstanceLimits(
    max_iops=11_800,
    max_throughput_mib_s=260.625,
    baseline_iops=500,
    baseline_throughput_mib_s=10.875,
    io_balance_pct=14.3,
    byte_balance_pct=99.5,
    other_iops=0.0,
    other_mib_s=0.0,
)


def test_the_burst_of_a_volume_ends_with_its_credits_and_that_of_its_target_does_not():
    """14.3 % of 20,340,000 operations last 1,163 s at 3,000 - 500, and 99.5 % of 449,550 MiB over an hour."""
    target = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128)
    assert describe_instance_effect(MICRO, GP2, target, 100) == (
        "After the flip, the volumes of the instance may take 3,000 IOPS from it. Its EBS I/O credits"
        " (EBSIOBalance% 14.3) would be the next to run empty, after 19 min of full load at the earliest"
    )


def test_the_bucket_that_is_empty_first_is_named_even_if_the_other_drains_faster_than_before():
    """A larger gp2 sustains the IOPS of its target, and not its throughput."""
    io2 = Configuration(volume_type=VolumeType.IO2, iops=3_000)
    assert "(EBSIOBalance% 14.3) would be the next" in describe_instance_effect(MICRO, GP2, io2, 1_000)


@pytest.mark.parametrize("pct", [0.0, 1.0])
def test_a_bucket_that_is_empty_already_gives_the_rate_that_is_left(pct):
    target = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128)
    empty = replace(MICRO, io_balance_pct=pct)
    assert describe_instance_effect(empty, GP2, target, 100) == (
        "After the flip, the volumes of the instance may take 3,000 IOPS from it. Its EBS I/O credits"
        f" (EBSIOBalance% {pct:g}) are used up, so together they get 500 IOPS"
    )


@pytest.mark.parametrize(
    ("instance", "target"),
    [
        (None, FAST_GP3),
        (replace(HALF, other_iops=None), FAST_GP3),
        (replace(HALF, other_mib_s=None), FAST_GP3),
        (replace(HALF, io_balance_pct=None, byte_balance_pct=None), FAST_GP3),
        # no more than the instance sustains
        (
            replace(HALF, baseline_throughput_mib_s=128.0),
            Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128),
        ),
    ],
)
def test_an_effect_that_is_not_known_or_does_not_change_is_not_reported(instance, target):
    assert describe_instance_effect(instance, GP2, target, 100) is None


def a_plan(instance, **order):
    facts = {
        "volume_id": "vol-0a1",
        "direction": Direction.FLIP,
        "cause": FlipCause.DRAINING,
        "reason": "critical",
        "demand": Demand(peak_iops=3_000, is_throttled=True),
    }
    context = FlipContext(
        volume=a_volume(),
        volume_settings=settings_of(),
        state=a_state(),
        now_s=at("12:00"),
        instance=instance,
    )
    return make_plan(FlipOrder(**(facts | order)), context, Policy())


def test_the_plan_reports_it_beforehand():
    plan = a_plan(replace(HALF, other_iops=1_000.0))
    assert plan.refusals == ()
    assert plan.sizing.reasons[-1].startswith(
        "After the flip, the volumes of the instance may take 4,750 IOPS"
    )


@pytest.mark.parametrize(
    ("pct", "expected"), [(1.0, "at 1 %, which limits"), (5.0, "5 %, which soon limits")]
)
def test_a_flip_that_cannot_help_is_refused_also_if_the_bucket_is_nearly_empty(pct, expected):
    plan = a_plan(replace(HALF, io_balance_pct=pct))
    assert [refusal.guard for refusal in plan.refusals] == [Guard.INSTANCE_IS_BOTTLENECK]
    assert expected in plan.refusals[0].reason


def test_a_bucket_above_that_refuses_nothing():
    assert a_plan(replace(HALF, io_balance_pct=5.1)).refusals == ()


def test_the_recommendation_has_it_and_the_alert_shows_it():
    assessment = an_assessment(critical())
    recommendation = recommend(
        assessment,
        TargetOverride(volume_type=VolumeType.GP3, iops=6_000),
        Policy().flip,
        AwsLocation(region="us-east-1"),
        instance=HALF,
    )
    assert recommendation.instance_effect.startswith("After the flip")
    around = VolumeContext(
        instance=HALF, witness={"witness": ["CloudWatch's check"], "iops_limit_exceeded_min": 3}
    )
    override = TargetOverride(volume_type=VolumeType.GP3, iops=6_000)
    (alert,) = a_decision(assessment, around=around, target_override=override).alerts
    assert alert.evidence["witness"] == ["CloudWatch's check", recommendation.instance_effect]
    assert alert.evidence["iops_limit_exceeded_min"] == 3


def test_a_recommendation_for_an_instance_that_is_the_bottleneck_is_a_sentence():
    recommendation = recommend(
        an_assessment(critical()),
        TargetOverride(),
        Policy().flip,
        AwsLocation(region="us-east-1"),
        instance=replace(HALF, byte_balance_pct=3.0),
    )
    assert recommendation.target is None
    assert "EBSByteBalance% is at 3 %" in recommendation.action
