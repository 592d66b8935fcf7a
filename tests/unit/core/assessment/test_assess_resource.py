from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.assess_resource import (
    BucketReading,
    assess_resource,
)
from burstwatch.core.assessment.resource_buckets import why_not_polled
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT, drain_proof
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import Policy
from burstwatch.core.rds.rds_buckets import RDS_CLASS_IO, RDS_IO
from support.builders.core_values import M5_LARGE, NOON, an_instance, at, sparse_balances
from support.builders.storage import a_database

TWO_VOLUMES = tuple(
    VolumeCeiling(volume_id=f"vol-{number}", volume_type="gp3", iops=3_000, mib_s=125) for number in (1, 2)
)
GAP = Series(period_s=300)


def missing_since(clock=None, **reading):
    """A missing balance beside other metrics, whose newest datapoint was at this time of the day, if any."""
    earlier = GAP if clock is None else sparse_balances(100, newest_starts_at=clock)
    return {"balance": GAP, "publishes_others": True, "earlier": earlier} | reading


def assess(balance=None, *, instance=None, kind=INSTANCE_IO, now="12:00", **reading):
    return assess_resource(
        instance or an_instance(ceilings=TWO_VOLUMES),
        kind,
        BucketReading(balance=balance, **reading),
        now_s=at(now),
        telemetry=Policy().telemetry,
    )


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({}, INSTANCE_IO, UnknownReason.NEVER_EMPTY),
        ({}, INSTANCE_THROUGHPUT, None),
        ({"ceilings": None}, INSTANCE_IO, None),
        ({"ceilings": TWO_VOLUMES}, INSTANCE_IO, None),
        ({"state": "stopped", "limits": None}, INSTANCE_IO, UnknownReason.INSTANCE_STOPPED),
        ({"limits": None}, INSTANCE_IO, None),
        ({"limits": replace(M5_LARGE, max_iops=3_600)}, INSTANCE_IO, UnknownReason.NO_SUCH_BUCKET),
        ({"limits": None, "limits_error": "throttled"}, INSTANCE_IO, UnknownReason.READ_FAILED),
    ],
)
def test_what_need_not_be_read_has_a_reason(changes, kind, reason):
    not_polled = why_not_polled(an_instance(**changes), kind)
    assert (not_polled.reason if not_polled else None) is reason


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        (
            {},
            INSTANCE_IO,
            "its volume serves 3,000 IOPS at most, no more than the 3,600 IOPS that m5.large sustains",
        ),
        (
            {"ceilings": TWO_VOLUMES},
            INSTANCE_THROUGHPUT,
            "its 2 volumes serve 250 MiB/s at most, more than the 77.5 MiB/s that m5.large sustains",
        ),
        (
            {"ceilings": None},
            INSTANCE_IO,
            "what its volumes can serve together is not known; the limit is the 3,600 IOPS that m5.large"
            " sustains",
        ),
        (
            {"limits": replace(M5_LARGE, max_iops=3_600)},
            INSTANCE_IO,
            "m5.large sustains its maximum of 3,600 IOPS, so its credits are never used",
        ),
    ],
)
def test_the_proof_is_a_sentence_with_the_sum_of_the_volumes(changes, kind, sentence):
    assert drain_proof(an_instance(**changes), kind).describe() == sentence


@pytest.mark.parametrize(
    ("changes", "reading", "reason"),
    [
        ({}, {"balance": None, "read_error": "denied"}, UnknownReason.READ_FAILED),
        ({"launched_at": NOON - timedelta(minutes=14)}, {"balance": GAP}, UnknownReason.TOO_NEW),
        ({}, {"balance": GAP, "arrived_at_s": int(at("11:50"))}, UnknownReason.TOO_NEW),
        ({"has_detailed_monitoring": True}, {"balance": GAP}, UnknownReason.DETAILED_MONITORING),
        ({"launched_at": NOON - timedelta(minutes=29)}, {"balance": GAP}, UnknownReason.TOO_NEW),
        ({}, {"balance": GAP}, UnknownReason.TELEMETRY_GAP),
        # m5.large can burst, so its balance is missing unless it was not published in the last days
        ({}, {"balance": GAP, "publishes_others": True}, UnknownReason.TELEMETRY_GAP),
        ({}, missing_since("10:00"), UnknownReason.TELEMETRY_GAP),
        ({}, missing_since(), UnknownReason.NO_SUCH_BUCKET),
        ({}, missing_since(publishes_others=False), UnknownReason.TELEMETRY_GAP),
        # a type that EC2 does not describe may have no bucket: only its metric can show one
        ({"limits": None}, missing_since(publishes_others=False), UnknownReason.NO_SUCH_BUCKET),
        ({"limits": None}, missing_since("10:00"), UnknownReason.TELEMETRY_GAP),
        ({"launched_at": NOON - timedelta(hours=1)}, missing_since("10:00"), UnknownReason.NO_SUCH_BUCKET),
        ({"launched_at": NOON - timedelta(hours=1)}, missing_since("11:10"), UnknownReason.TELEMETRY_GAP),
    ],
)
def test_a_missing_balance_has_a_reason_and_is_never_full(changes, reading, reason):
    assessment = assess(instance=an_instance(**({"ceilings": TWO_VOLUMES} | changes)), **reading)
    assert (assessment.unknown_reason, assessment.sample, assessment.forecast) == (reason, None, None)
    assert assessment.is_fault is (reason in (UnknownReason.READ_FAILED, UnknownReason.TELEMETRY_GAP))


@pytest.mark.parametrize(
    ("reading", "detail"),
    [
        (
            {"balance": GAP},
            "EC2 shows no EBS limits of m5.large, and CloudWatch has had no EBSIOBalance% of it for 30 min",
        ),
        (missing_since("10:00"), "no datapoint for 30 min while the instance is running"),
    ],
)
def test_a_missing_balance_mentions_the_unknown_limits_unless_it_was_published(reading, detail):
    assessment = assess(instance=an_instance(limits=None), **reading)
    assert assessment.unknown_because == detail


def test_the_key_in_the_ledger_names_the_bucket():
    assert assess(GAP).subject == "i-0a1#instance-io"
    with pytest.raises(TypeError, match="i-0a1 is not a volume"):
        _ = assess(GAP).volume


def test_a_datapoint_counts_from_the_end_of_its_five_minutes():
    assessment = assess(sparse_balances(80, 80, newest_starts_at="11:50"))
    assert (assessment.age_s, assessment.spacing_s) == (300, 300)
    # the period that begins at 11:57 is open until 12:02
    open_period = Series((int(at("11:52")), int(at("11:57"))), (80.0, 70.0), 300)
    assert assess(open_period).balance_pct == 80.0


def test_a_datapoint_that_is_too_old_is_a_gap():
    old = sparse_balances(80, newest_starts_at="11:25")
    assert assess(old).unknown_reason is UnknownReason.TELEMETRY_GAP


def test_the_forecast_needs_three_datapoints():
    """80 to 70 over ten minutes is 4,545 a second; the bucket loses 2,400 at most, so the bound decides."""
    two, three = (assess(sparse_balances(*values)) for values in ((75, 70), (80, 75, 70)))
    assert two.forecast.drain_rates == ()
    (rate,) = three.forecast.drain_rates
    assert rate.duration_s == 600
    bound_s = 0.7 * 27_270_000 / 2_400 - 300
    assert three.forecast.time_to_empty_s == three.forecast.soonest_empty_s == pytest.approx(bound_s)


def test_a_reset_is_reported_and_what_was_before_it_does_not_count():
    assessment = assess(sparse_balances(60, 50, 40, 100, 95, 90))
    assert assessment.reset_at_s == int(at("11:40"))
    assert [rate.duration_s for rate in assessment.forecast.drain_rates] == [600]
    assert assessment.balance.values == (100, 95, 90)


def test_the_observed_capacity_is_reported_beside_the_model():
    fall = 100 * 300 * (6_000 - 3_600) / 27_270_000
    balance = sparse_balances(*(80 - fall * index for index in range(6)))
    load = Series(balance.starts_at_s, (1_800_000.0,) * 6, 300)
    assessment = assess(balance, load=load)
    assert assessment.observed_capacity == pytest.approx(27_270_000)
    assert assessment.bucket.is_inferred
    assert assess(balance).observed_capacity is None


# Rules about calm count three datapoints where those of a minute count two.
@pytest.mark.parametrize(
    ("last_level", "values", "level"),
    [
        (Level.EXHAUSTED, (0, 4, 6, 8), Level.EXHAUSTED),
        (Level.EXHAUSTED, (0, 6, 8, 10), Level.WATCH),
        (Level.WATCH, (90, 96, 98, 99), Level.WATCH),
        (Level.WATCH, (90, 98, 98, 99), Level.OK),
    ],
)
def test_a_level_is_left_after_three_datapoints(last_level, values, level):
    # its volumes can hardly drain it, so no level follows from the bound
    ceilings = (replace(TWO_VOLUMES[0], iops=3_601),)
    assessment = assess(sparse_balances(*values), instance=an_instance(ceilings=ceilings))
    policy = policy_of_bucket(Policy(), INSTANCE_IO, assessment.bucket)
    assert classify(assessment, last_level, policy) is level


@pytest.mark.parametrize(
    ("status", "reason", "detail"),
    [
        ("creating", UnknownReason.TOO_NEW, "it is being created, so it has no metrics yet"),
        ("stopping", UnknownReason.INSTANCE_STOPPED, "it is being stopped, so it has no metrics"),
        ("available", UnknownReason.TELEMETRY_GAP, "no datapoint for 30 min while the database exists"),
        (
            "storage-full",
            UnknownReason.TELEMETRY_GAP,
            "no datapoint for 30 min while the status of the database is storage-full",
        ),
    ],
)
def test_a_missing_balance_of_a_database_depends_on_its_status(status, reason, detail):
    assessment = assess(Series(), instance=a_database(status=status), kind=RDS_IO)
    assert (assessment.unknown_reason, assessment.unknown_because) == (reason, detail)


@pytest.mark.parametrize(
    ("newest_at", "reason"), [("10:00", UnknownReason.TELEMETRY_GAP), (None, UnknownReason.NO_SUCH_BUCKET)]
)
def test_a_missing_balance_of_a_class_is_a_gap_if_it_was_published_before(newest_at, reason):
    database = a_database(limits=M5_LARGE)
    assessment = assess(instance=database, kind=RDS_CLASS_IO, **missing_since(newest_at))
    assert assessment.unknown_reason is reason
    if reason is UnknownReason.NO_SUCH_BUCKET:
        assert assessment.unknown_because == (
            "CloudWatch has other metrics of it and no EBSIOBalance%: db.m5.large is taken to have none"
        )


def test_a_balance_from_before_the_launch_does_not_count():
    balance = sparse_balances(0, 0, 0, 100, newest_starts_at="11:50")
    enlarged = an_instance(ceilings=TWO_VOLUMES, launched_at=NOON - timedelta(minutes=10))
    assert assess(balance, instance=enlarged).balance.values == (100,)
    launched_now = replace(enlarged, launched_at=NOON - timedelta(minutes=2))
    assert assess(balance, instance=launched_now).unknown_reason is UnknownReason.TOO_NEW
