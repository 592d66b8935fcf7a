from datetime import timedelta
from itertools import combinations

import pytest

from burstwatch.core.assessment.assess import STOPPED_STATES, UnknownReason, not_polled_reason
from burstwatch.core.buckets.series import Series
from burstwatch.core.policy.policy import Policy, TelemetryPolicy
from support.builders.core_values import NOON, a_volume, an_assessment, at, balances

GAP = Series()
TEN_MINUTES_AGO = NOON - timedelta(minutes=10)

# In order of precedence: what a volume or its evidence must show for each reason.
EVIDENCE_CASES = {
    UnknownReason.NOT_BURSTABLE_TYPE: {"volume": {"volume_type": "gp3"}},
    UnknownReason.NEVER_EMPTY: {"volume": {"size_gib": 1_000}},
    UnknownReason.DETACHED: {"volume": {"attached": False, "attached_at": None, "instance_id": None}},
    UnknownReason.READ_FAILED: {"evidence": {"balance": None, "read_error": "Throttling: rate exceeded"}},
    UnknownReason.INSTANCE_STOPPED: {"evidence": {"balance": GAP, "instance_state": "stopped"}},
    UnknownReason.TOO_NEW: {"volume": {"created_at": TEN_MINUTES_AGO}, "evidence": {"balance": GAP}},
    UnknownReason.IDLE: {"evidence": {"balance": GAP, "is_idle": True}},
    UnknownReason.TELEMETRY_GAP: {"evidence": {"balance": GAP}},
}


def assess_evidence(*cases: dict):
    """Assess a volume that shows all of this; what is named first wins where two speak of one thing."""
    volume: dict = {}
    evidence: dict = {"balance": balances(50.0)}
    for item in reversed(cases):
        volume |= item.get("volume", {})
        evidence |= item.get("evidence", {})
    return an_assessment(evidence.pop("balance"), volume=a_volume(**volume), **evidence)


@pytest.mark.parametrize(("reason", "shows"), EVIDENCE_CASES.items())
def test_every_reason_for_not_knowing_is_recognised(reason, shows):
    assessment = assess_evidence(shows)
    assert assessment.unknown_reason is reason
    assert (
        assessment.sample,
        assessment.forecast,
        assessment.age_s,
        assessment.balance_pct,
        assessment.credits_left,
    ) == (None,) * 5


def test_without_a_forecast_there_is_no_time_to_empty():
    unknown = an_assessment(Series())
    assert (unknown.forecast, unknown.time_to_empty_s) == (None, None)


def test_every_reason_is_in_the_table_above():
    of_other_kinds = {
        UnknownReason.NO_SUCH_BUCKET,
        UnknownReason.DETAILED_MONITORING,
        UnknownReason.OTHER_THROUGHPUT_MODE,
    }
    assert set(EVIDENCE_CASES) == set(UnknownReason) - of_other_kinds


@pytest.mark.parametrize(("first", "second"), list(combinations(EVIDENCE_CASES, 2)))
def test_the_reason_nearer_to_the_volume_is_reported(first, second):
    assert assess_evidence(EVIDENCE_CASES[first], EVIDENCE_CASES[second]).unknown_reason is first


@pytest.mark.parametrize(
    ("reason", "is_fault"),
    [
        (UnknownReason.DETACHED, False),
        (UnknownReason.INSTANCE_STOPPED, False),
        (UnknownReason.NOT_BURSTABLE_TYPE, False),
        (UnknownReason.NEVER_EMPTY, False),
        (UnknownReason.TOO_NEW, False),
        (UnknownReason.TELEMETRY_GAP, True),
        (UnknownReason.READ_FAILED, True),
    ],
)
def test_only_a_gap_and_a_failed_read_are_faults(reason, is_fault):
    assert assess_evidence(EVIDENCE_CASES[reason]).is_fault is is_fault


def test_a_volume_with_a_fresh_datapoint_is_not_a_fault():
    assessment = an_assessment(balances(50.0))
    assert (assessment.is_fault, assessment.unused_since_s) == (False, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"size_gib": 999}, None),
        ({"size_gib": 1_000}, UnknownReason.NEVER_EMPTY),
        ({"volume_type": "io1", "size_gib": 1_000}, UnknownReason.NOT_BURSTABLE_TYPE),
        ({"attached": False}, UnknownReason.DETACHED),
        # A service holds it: there is no instance of ours, but there are datapoints.
        ({"instance_id": None}, None),
    ],
)
def test_only_an_attached_gp2_volume_that_can_run_out_of_credits_is_polled(changes, reason):
    assert not_polled_reason(a_volume(**changes)) is reason


def test_a_failed_read_explains_why():
    assert an_assessment(None, read_error="Throttling: rate exceeded").unknown_because == (
        "Throttling: rate exceeded"
    )


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down", "terminated"])
def test_a_gap_of_an_instance_that_does_not_run_is_not_a_fault(state):
    assessment = an_assessment(GAP, instance_state=state)
    assert assessment.unknown_reason is UnknownReason.INSTANCE_STOPPED
    assert assessment.unknown_because == f"instance i-0a1 is {state}"


def test_a_gap_of_a_running_instance_states_how_long_nothing_came():
    assessment = an_assessment(GAP, instance_state="running")
    assert assessment.unknown_reason is UnknownReason.TELEMETRY_GAP
    assert assessment.unknown_because == "no datapoint for 30 min while attached to a running instance"


@pytest.mark.parametrize(
    ("created", "attached", "arrived", "reason"),
    [
        (-14, -14, None, UnknownReason.TOO_NEW),
        (-15, -15, None, UnknownReason.TELEMETRY_GAP),
        # Of creation, attachment and arrival the latest counts.
        (-9_000, -14, None, UnknownReason.TOO_NEW),
        (-9_000, -9_000, "11:46", UnknownReason.TOO_NEW),
        (-9_000, -9_000, "11:45", UnknownReason.TELEMETRY_GAP),
        (-14, None, None, UnknownReason.TOO_NEW),
        # The instance's clock may be ahead of ours.
        (1, 1, None, UnknownReason.TOO_NEW),
    ],
)
def test_a_volume_is_too_new_for_a_quarter_of_an_hour(created, attached, arrived, reason):
    volume = a_volume(
        created_at=NOON + timedelta(minutes=created),
        attached_at=None if attached is None else NOON + timedelta(minutes=attached),
    )
    assessment = an_assessment(GAP, volume=volume, arrived_at_s=int(at(arrived)) if arrived else None)
    assert assessment.unknown_reason is reason


def test_a_new_volume_with_a_datapoint_is_judged_by_it():
    assessment = an_assessment(balances(50.0), volume=a_volume(created_at=TEN_MINUTES_AGO))
    assert assessment.balance_pct == 50.0


@pytest.mark.parametrize(
    ("now", "age_s"), [("11:59", 0), ("11:59:59", 59), ("12:00", 60), ("12:05:30", 390), ("12:28:59", 1_799)]
)
def test_the_age_counts_from_the_end_of_the_minute(now, age_s):
    # The minute that starts at 11:58 ends at 11:59. 40 % of 100 GiB lasts 2,160,000 / 2,700 = 800 s.
    assessment = an_assessment(balances(40.0), now=now)
    assert assessment.age_s == age_s
    assert assessment.forecast.soonest_empty_s == max(0, 800 - age_s)


def test_a_datapoint_of_half_an_hour_ago_is_not_a_datapoint():
    assert an_assessment(balances(40.0), now="12:29").unknown_reason is UnknownReason.TELEMETRY_GAP


def test_the_policy_sets_how_old_a_datapoint_may_be():
    policy = Policy(telemetry=TelemetryPolicy(gap_after=timedelta(hours=1)))
    assert an_assessment(balances(40.0), now="12:58", policy=policy).balance_pct == 40.0
    assessment = an_assessment(balances(40.0), now="12:59", policy=policy)
    assert assessment.unknown_because == "no datapoint for 60 min while attached to a running instance"


def test_the_minute_that_is_still_open_is_ignored():
    # At 11:58:30 the minute of 11:58 may still fall: the one before it speaks.
    assessment = an_assessment(balances(80.0, 40.0), now="11:58:30")
    assert (assessment.balance_pct, assessment.age_s) == (80.0, 30)
    assert len(assessment.balance) == 1


def test_an_open_minute_alone_is_a_gap():
    assert an_assessment(balances(40.0), now="11:58:30").unknown_reason is UnknownReason.TELEMETRY_GAP


def test_credits_are_the_share_of_a_full_bucket():
    # 31.5 % of 5,400,000.
    assert an_assessment(balances(31.5)).credits_left == 1_701_000


@pytest.mark.parametrize(
    ("size_gib", "smaller_gib", "baseline", "lasts_s"),
    [
        # 40 % is 2,160,000 credits: / 2,700 = 800 s at 100 GiB, / 2,900 = 744.8 s at 8 GiB.
        (100, None, 300, 800),
        (100, 8, 100, 2_160_000 / 2_900),
        (8, 100, 100, 2_160_000 / 2_900),
        # Too large to run out of credits, but perhaps not earning as such yet: / 1,500 = 1,440 s.
        (2_000, 500, 1_500, 1_440),
    ],
)
def test_while_a_modification_lasts_the_smaller_size_counts(size_gib, smaller_gib, baseline, lasts_s):
    assessment = an_assessment(
        balances(40.0), volume=a_volume(size_gib), now="11:59", smaller_size_gib=smaller_gib
    )
    assert assessment.baseline_iops == baseline
    assert assessment.forecast.soonest_empty_s == pytest.approx(lasts_s)


def test_a_volume_that_cannot_run_out_of_credits_at_either_size_is_not_judged():
    assessment = an_assessment(balances(40.0), volume=a_volume(2_000), smaller_size_gib=1_000)
    assert assessment.unknown_reason is UnknownReason.NEVER_EMPTY


@pytest.mark.parametrize(
    ("operations", "iops"),
    [
        (None, None),
        (Series(), None),
        # 6,000 operations in a minute are 100 a second.
        (balances(6_000.0), 100),
        # Of seven minutes the newest five: (3 x 6,000 + 2 x 18,000) / 300 = 180.
        (balances(0, 0, 6_000, 6_000, 6_000, 18_000, 18_000), 180),
        # The minute of 11:59 is still open at 11:59:30.
        (balances(6_000, 90_000, newest_starts_at="11:59"), 100),
    ],
)
def test_consumed_iops_are_the_mean_of_the_newest_five_closed_minutes(operations, iops):
    assessment = an_assessment(balances(50.0), now="11:59:30", read_ops=operations, write_ops=operations)
    assert (assessment.consumed_read_iops, assessment.consumed_write_iops) == (iops, iops)


def each_minute(*operations: float, newest: str = "11:58") -> Series:
    return balances(*operations, newest_starts_at=newest)


@pytest.mark.parametrize("volume", [a_volume(), a_volume(volume_type="gp3"), a_volume(1_000)])
@pytest.mark.parametrize(
    ("reads", "writes", "served"),
    [
        (None, None, []),
        (each_minute(600), None, []),
        (None, each_minute(600), []),
        # 600 reads and 1,200 writes in a minute are 30 a second.
        (each_minute(600, 0), each_minute(1_200, 60), [30, 1]),
        # Only minutes of which both halves are known count, and of these the closed ones.
        (each_minute(600, 600), each_minute(1_200), [30]),
        (each_minute(600, 600, newest="12:00"), each_minute(1_200, 0, newest="12:00"), [30]),
    ],
)
def test_consumed_iops_are_known_for_every_type(volume, reads, writes, served):
    assessment = an_assessment(GAP, volume=volume, now="12:00:30", read_ops=reads, write_ops=writes)
    assert list(assessment.served_iops.values) == served


EVERY_TYPE = pytest.mark.parametrize("volume_type", ["gp2", "gp3", "io1"])
UNUSED = pytest.mark.parametrize(
    ("attached", "instance_state"),
    [(False, None), (False, "stopped"), *((True, state) for state in sorted(STOPPED_STATES))],
)


@EVERY_TYPE
@UNUSED
@pytest.mark.parametrize(
    ("known", "since"),
    # at the first look, at a later one, and after a clock that was ahead
    [(None, "12:00"), ("11:10", "11:10"), ("12:10", "12:00")],
)
def test_the_time_since_no_running_instance_has_a_volume_is_known(
    volume_type, attached, instance_state, known, since
):
    assessment = an_assessment(
        GAP,
        volume=a_volume(volume_type=volume_type, attached=attached),
        instance_state=instance_state,
        unused_since_s=known and int(at(known)),
    )
    assert assessment.unused_since_s == at(since)


@EVERY_TYPE
@pytest.mark.parametrize("instance_state", ["running", "pending", None])
@pytest.mark.parametrize("balance", [GAP, balances(50.0)])
def test_a_volume_that_a_running_instance_has_again_is_not_unused(volume_type, instance_state, balance):
    assessment = an_assessment(
        balance,
        volume=a_volume(volume_type=volume_type),
        instance_state=instance_state,
        unused_since_s=int(at("11:10")),
    )
    assert assessment.unused_since_s is None


@pytest.mark.parametrize("balance", [GAP, balances(40.0, newest_starts_at="11:29")])
def test_a_volume_in_modification_to_another_type_needs_no_balance(balance):
    assessment = an_assessment(balance, changing_to="gp3 with 3,000 IOPS")
    assert (assessment.unknown_reason, assessment.is_fault) == (UnknownReason.NOT_BURSTABLE_TYPE, False)
    assert "gp3 with 3,000 IOPS" in assessment.unknown_because


def test_a_volume_in_modification_that_has_a_balance_still_is_judged_by_it():
    assert an_assessment(balances(40.0), changing_to="gp3").balance_pct == 40.0


def test_a_failed_read_stays_a_failed_read_during_a_modification():
    assessment = an_assessment(None, read_error="Throttling", changing_to="gp3")
    assert assessment.unknown_reason is UnknownReason.READ_FAILED


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ("11:58", UnknownReason.READ_FAILED),
        ("11:31", UnknownReason.READ_FAILED),
        ("11:30", UnknownReason.TELEMETRY_GAP),
        (None, UnknownReason.TELEMETRY_GAP),
    ],
)
def test_an_answer_without_a_datapoint_that_was_reported_before_is_not_a_gap_but_a_failed_read(known, reason):
    assessment = an_assessment(GAP, known_at_s=known and int(at(known)))
    assert assessment.unknown_reason is reason


def test_a_detached_volume_in_modification_is_reported_as_detached():
    assessment = an_assessment(balances(50.0), volume=a_volume(attached=False), changing_to="gp3")
    assert assessment.unknown_reason is UnknownReason.DETACHED


@pytest.mark.parametrize(("age_s", "minutes"), [(240, 4), (1_520, 25), (1_531, 26), (1_770, 30)])
def test_the_datapoint_that_an_answer_leaves_out_is_named_by_its_age(age_s, minutes):
    # 1,520 s are 25.3 min, 1,531 s are 25.5
    assessment = an_assessment(GAP, known_at_s=int(at("12:00")) - age_s)
    because = f"CloudWatch leaves out the datapoint of {minutes} min ago, which it showed before"
    assert assessment.unknown_because == because
