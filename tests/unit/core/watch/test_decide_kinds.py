"""Decisions about buckets that the watchdog never changes: st1 and sc1 volumes, and instances."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.alerts.alert import Alert, AlertKind, format_sentences, format_title, further_commands
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.instances.instance_buckets import INSTANCE_IO
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.watch.advice import advise_hdd
from burstwatch.core.watch.decision import Action
from burstwatch.core.watch.pass_report import describe_decision
from support.builders.core_values import (
    a_decision,
    a_volume,
    a_window_state,
    an_assessment,
    an_instance,
    at,
    balances,
    draining_to,
    sparse_balances,
)

TIB = 1_024
IN_WINDOW = VolumeContext(windows=a_window_state())
ST1 = a_volume(2 * TIB, volume_type="st1", tags={"Name": "logs"})


def an_hdd(balance, volume=ST1, **evidence):
    assessment = an_assessment(balance, volume=volume, **evidence)
    return assessment, policy_of_bucket(Policy(), assessment.kind, assessment.bucket)


def decide_hdd(balance, volume=ST1, *, mode=Mode.AUTO, around=None, **settings):
    assessment, policy = an_hdd(balance, volume)
    return a_decision(assessment, mode=mode, policy=policy, around=around, **settings)


def test_credits_of_st1_are_mib_of_its_own_capacity():
    assessment, _ = an_hdd(balances(*[60.0] * 31))
    assert assessment.credits_left == 0.6 * 2 * TIB * 1_024
    assert (assessment.bucket.refill_per_s, assessment.kind.unit) == (80, "MiB")
    # 60 % of 2,097,152 MiB / (500 - 80), less the 60 s since the datapoint
    assert assessment.forecast.soonest_empty_s == pytest.approx(0.6 * 2_097_152 / 420 - 60)


@pytest.mark.parametrize("size_gib", [12_800, 16_384])
def test_an_st1_that_never_drains_is_not_polled(size_gib):
    assessment, _ = an_hdd(balances(100.0), a_volume(size_gib, volume_type="st1"))
    assert assessment.unknown_reason is UnknownReason.NEVER_EMPTY


def test_a_draining_st1_is_alerted_and_never_flipped_whatever_its_tags():
    drain = draining_to(25, 1.2, count=40)
    decision = decide_hdd(drain, mode=Mode.AUTO, is_critical=True, around=IN_WINDOW)
    assert (decision.level, decision.action, decision.trigger) == (Level.CRITICAL, Action.ALERT, None)
    (alert,) = decision.alerts
    assert alert.kind is AlertKind.DRAINING
    assert decision.recommendation.target is None
    assert alert.action == (
        "aws ec2 modify-volume --region us-east-1 --volume-id vol-0a1"
        " --volume-type gp3 --iops 3000 --throughput 500"
    )
    assert alert.evidence["proposal"][0].startswith(
        "st1 sustains 80 MiB/s at 2,048 GiB, and more if it is larger; gp3 with 3,000 IOPS and 500 MiB/s"
    )


@pytest.mark.parametrize(
    ("volume_type", "size_gib", "price"),
    [
        (
            "st1",
            2_000,
            # 2,000 x 0.08 + (489 - 125) x 0.04; 2,000 x 0.045
            "gp3 with 3,000 IOPS and 489 MiB/s sustains what it bursts to, and costs $174.56 a month instead"
            " of $90.00 (us-east-1 list prices); if less is enough, gp3 sustains 125 MiB/s for $160.00",
        ),
        (
            "sc1",
            4_000,
            "gp3 with 3,000 IOPS and 250 MiB/s sustains what it bursts to, and costs $325.00 a month instead"
            " of $60.00 (us-east-1 list prices); if less is enough, gp3 sustains 125 MiB/s for $320.00 and"
            " st1 of 4,000 GiB sustains 156.2 MiB/s for $180.00",
        ),
    ],
)
def test_the_price_of_gp3_is_beside_the_present_one_and_cheaper_steps(volume_type, size_gib, price):
    volume = a_volume(size_gib, volume_type=volume_type)
    assessment, _ = an_hdd(balances(0.0), volume)
    recommendation = advise_hdd(assessment, AwsLocation(region="us-east-1"))
    assert recommendation.reasons[-1].endswith(price)


def instance_limits(**balances_pct):
    return InstanceLimits(
        max_iops=18_750,
        max_throughput_mib_s=593.75,
        baseline_iops=3_600,
        baseline_throughput_mib_s=81.25,
        **balances_pct,
    )


def test_gp3_is_not_recommended_if_the_credits_of_the_instance_are_empty():
    decision = decide_hdd(
        draining_to(0, 1.2, count=40), around=VolumeContext(instance=instance_limits(byte_balance_pct=0.0))
    )
    assert decision.recommendation.action == "use a larger instance type, or wait for its bucket to refill"
    assert decision.recommendation.reasons == (
        "instance i-0a1, not the volume, is the bottleneck: its EBSByteBalance% is at 0 %, which limits all"
        " its volumes together to 81.25 MiB/s, and what they serve now is not known",
    )


def test_gp3_need_be_no_faster_than_the_instance_allows():
    small = replace(instance_limits(), max_throughput_mib_s=260.0)
    decision = decide_hdd(draining_to(0, 1.2, count=40), around=VolumeContext(instance=small))
    assert decision.recommendation.action.endswith("--iops 3000 --throughput 260")
    assert (
        "260 MiB/s sustains what its instance allows, 260 MiB/s, and costs"
        in decision.recommendation.reasons[0]
    )


def test_a_calm_st1_that_is_tagged_critical_is_left_alone():
    decision = decide_hdd(balances(*[100.0] * 31), is_critical=True, around=IN_WINDOW)
    assert (decision.action, decision.change, decision.act_lead_s) == (Action.NONE, None, 1_800)
    # (0.95 x 4,993 - 300 - 60 - 1,800) s are 43 min: eight sweep ticks
    assert decision.poll_interval_s == 40 * 60


# less than the lead is left, and the next datapoint comes in five minutes
@pytest.mark.parametrize("newest_pct", [30, 10, 0])
def test_a_draining_instance_is_polled_no_more_often_than_its_datapoints_come(newest_pct):
    balance = sparse_balances(*(newest_pct + 10 * step for step in range(6, -1, -1)))
    instance = an_instance(ceilings=None)
    assessment = assess_resource(
        instance,
        INSTANCE_IO,
        BucketReading(balance=balance),
        now_s=at("12:00"),
        telemetry=Policy().telemetry,
    )
    policy = policy_of_bucket(Policy(), INSTANCE_IO, assessment.bucket)
    decision = a_decision(assessment, policy=policy)
    assert decision.level.is_alerting
    assert decision.poll_interval_s == 300


def test_an_exhausted_st1_is_polled_every_minute_as_its_datapoints_come():
    assert decide_hdd(balances(*[0.0] * 31)).poll_interval_s == 60


def test_the_words_about_st1_are_in_mib():
    (alert,) = decide_hdd(draining_to(25, 1.2, count=40)).alerts
    sentences = " ".join(format_sentences(alert))
    assert "Burst balance 25.0 % at 11:59 UTC, draining at 419 MiB/s" in sentences
    assert "524,288 MiB left; baseline 80 MiB/s (2048 GiB)." in sentences
    (exhausted,) = decide_hdd(balances(*[0.0] * 31)).alerts
    assert format_title(exhausted) == (
        "EXHAUSTED: logs is out of throughput credits, throttled to 80 MiB/s (us-east-1)"
    )
    assert further_commands(alert)[0] == ("See why", "burstctl explain vol-0a1 --region us-east-1")


def test_numbers_of_gp2_are_null_for_st1_and_its_bucket_has_them_in_its_unit():
    decision = decide_hdd(balances(*[60.0] * 31))
    document = describe_decision(decision, at("12:00"), Outcome(status=OutcomeStatus.NONE))
    assert (document["baseline_iops"], document["credits"]) == (None, None)
    assert document["burst_balance_pct"] == 60.0
    (bucket,) = document["buckets"]
    assert {key: bucket[key] for key in ("bucket", "unit", "balance_pct", "capacity", "refill_per_s")} == {
        "bucket": "ebs-throughput",
        "unit": "MiB",
        "balance_pct": 60.0,
        "capacity": 2_097_152,
        "refill_per_s": 80,
    }
    assert (bucket["capacity_inferred"], bucket["cannot_drain"], bucket["act_lead_s"]) == (
        False,
        False,
        1_800,
    )


def test_below_a_tib_the_report_marks_the_capacity_as_inferred():
    decision = decide_hdd(balances(100.0), a_volume(500, volume_type="sc1"))
    document = describe_decision(decision, at("12:00"), Outcome(status=OutcomeStatus.NONE))
    assert document["buckets"][0]["capacity_inferred"]


def test_an_alert_about_a_volume_of_an_earlier_version_has_a_resource():
    (alert,) = decide_hdd(draining_to(25, 1.2, count=40)).alerts
    document = alert.to_document()
    stored = {key: value for key, value in document.items() if key != "resource"}
    assert Alert.from_document(stored).resource["bucket"] == "ebs-throughput"
    assert Alert.from_document(stored).volume_id == "vol-0a1"
    assert Alert.from_document(json.loads(json.dumps(document))).to_document() == document


@pytest.mark.parametrize("reason", [UnknownReason.NO_SUCH_BUCKET, UnknownReason.DETAILED_MONITORING])
def test_the_first_version_can_read_a_state_with_a_reason_that_it_does_not_know(reason):
    state = ResourceState.from_document(
        {"volume_id": "i-0a1#instance-io", "revision": 7, "unknown_reason": reason, "unknown_since_s": 5}
    )
    document = state.to_document()
    assert "unknown_reason" not in document
    assert ResourceState.from_document(json.loads(json.dumps(document))) == state


@pytest.mark.parametrize(
    ("remind_every", "interval_s"), [(timedelta(hours=1), 600), (timedelta(minutes=5), 300)]
)
def test_a_bucket_that_stays_empty_is_polled_for_each_reminder(remind_every, interval_s):
    policy = replace(Policy(), alerts=replace(Policy().alerts, remind_every=remind_every))
    empty = an_assessment(balances(*[0.0] * 60), volume=a_volume(2048, volume_type="st1"))
    first = a_decision(empty, policy=policy)
    assert a_decision(empty, first.change.state, policy=policy).poll_interval_s == interval_s
