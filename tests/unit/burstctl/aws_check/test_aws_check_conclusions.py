"""What burstctl aws-check concludes from its evidence, and when it concludes nothing."""

import pytest

from burstctl.aws_check import paging
from burstctl.aws_check.fact_context import FactRefused
from burstctl.aws_check.facts import (
    FACTS,
    attach_while_modifying,
    balance_after_resize,
    balance_delay,
    balance_spacing,
    dry_run_checks,
    encrypted_alarm,
    event_results,
    gp3_defaults,
    idle_publishes,
    large_publishes,
    modification_quota,
    no_op_counts,
    ratio_refusal,
    record_lifetime,
    shown_while_modifying,
    tag_condition,
    type_condition,
)
from burstctl.aws_check.facts.attach_while_modifying import Attempt
from burstctl.aws_check.facts.balance_delay import AppearedDatapoint
from burstctl.aws_check.facts.shown_while_modifying import Observation
from burstctl.aws_check.host import SHARED_SIZES_GIB, make_user_data
from burstctl.aws_check.message_template import find_time, to_template
from burstctl.aws_check.not_tried import NOT_TRIED
from burstctl.aws_check.paging import Page
from burstctl.aws_check.plan import Plan
from burstctl.aws_check.result import FactOutcome, Measurement, NotMeasuredError, Result
from burstwatch.core.buckets.series import Sample, Series

NO_ANSWER = FactRefused(code="Refused", message="no")
EMPTY = FactRefused(code="DryRunOperation", message="would have succeeded")
BUSY = FactRefused(code="IncorrectModificationState", message="busy")


def series(*values, every_s=60):
    return Series.from_pairs((number * every_s, value) for number, value in enumerate(values))


def an_observation(*delays_s):
    """Each looked for every 10 s, and there this long after the end of its minute."""
    return [
        AppearedDatapoint(number * 60, number * 60 + 60 + delay_s - 10, number * 60 + 60 + delay_s)
        for number, delay_s in enumerate(delays_s)
    ]


CONCLUSIVE = [
    (balance_spacing.judge(series(1, 1, 1, 1)), "every 60 s"),
    (balance_spacing.judge(series(1, 1, 1, 1, every_s=300)), "every 300 s"),
    (balance_delay.judge(an_observation(90, 94, 92, 97)), "90 s"),
    (balance_delay.judge(an_observation(30, 31, 95, 33)), "30 to 85 s"),
    (idle_publishes.judge(0, 30), "silent"),
    (idle_publishes.judge(29, 30), "publishes"),
    (idle_publishes.judge(10, 30), "sometimes"),
    (large_publishes.judge(Series(), series(1, 1, 1), series(60, 60, 60)), "absent"),
    (large_publishes.judge(series(100, 100), series(1, 1, 1), Series()), "100 %"),
    (large_publishes.judge(series(100, 99), series(1, 1, 1), Series()), "below 100 %"),
    (
        balance_after_resize.judge(Sample(start_at_s=0, value=50), Sample(start_at_s=600, value=52)),
        "kept",
    ),
    (balance_after_resize.judge(Sample(start_at_s=0, value=50), Sample(start_at_s=600, value=100)), "reset"),
    (balance_after_resize.judge(Sample(start_at_s=0, value=50), Sample(start_at_s=600, value=1)), "emptied"),
    (attach_while_modifying.judge([Attempt("modifying", NO_ANSWER, "optimizing")]), "refused, Refused"),
    (attach_while_modifying.judge([Attempt("modifying", None, "modifying")]), "allowed"),
    (modification_quota.judge(6, None, 0), "6 accepted and none refused"),
    (modification_quota.judge(4, NO_ANSWER, 0), "4 accepted, then Refused, which says no time"),
    (no_op_counts.judge(None, 3), "counts"),
    (no_op_counts.judge(None, 4), "does not count"),
    (no_op_counts.judge(NO_ANSWER, 0), "refused, Refused"),
    (dry_run_checks.judge(EMPTY, EMPTY), "permission"),
    (dry_run_checks.judge(NO_ANSWER, BUSY), "request"),
    (ratio_refusal.judge(None), "accepted"),
    (gp3_defaults.judge({"iops": 3000, "mib_s": 128}), "matched"),
    (gp3_defaults.judge({"iops": 3000, "mib_s": 125}), "least"),
    (record_lifetime.judge(None), "for 60 min or longer"),
    (shown_while_modifying.judge([Observation("modifying", "gp3")], "gp2", "gp3"), "accepted"),
    (
        shown_while_modifying.judge(
            [Observation("modifying", "gp2"), Observation("optimizing", "gp3")], "gp2", "gp3"
        ),
        "optimizing",
    ),
    (paging.judge([Page(5, True), Page(1, False)]), "before"),
    (paging.judge([Page(0, True)]), "after"),
    (tag_condition.judge(is_effective=True, with_tag=True, without_tag=False), "enforced"),
    (type_condition.judge(is_effective=True, as_gp2=False, as_gp3=True), "requested"),
    (event_results.judge(["completed", "odd", "optimizing"]), "optimizing, completed, odd"),
    (encrypted_alarm.judge(None, ["why not"]), "not delivered"),
]


@pytest.mark.parametrize(("measured", "answer"), CONCLUSIVE)
def test_the_evidence_has_this_answer(measured, answer):
    assert measured.answer == answer


INCONCLUSIVE = {
    "too few datapoints": lambda: balance_spacing.judge(series(1, 1, 1)),
    "too few appeared": lambda: balance_delay.judge(an_observation(60, 60)),
    "the active volume is silent too": lambda: idle_publishes.judge(0, 2),
    "nothing to compare a large one with": lambda: large_publishes.judge(
        Series(), series(1), series(60, 60, 60)
    ),
    "a large one that nothing reads from": lambda: large_publishes.judge(
        Series(), series(1, 1, 1), series(0, 0, 0)
    ),
    "a listing that lags": lambda: paging.judge([Page(3, False)]),
    "a balance between the answers": lambda: balance_after_resize.judge(
        Sample(start_at_s=0, value=50), Sample(start_at_s=600, value=80)
    ),
    "the modification was over": lambda: attach_while_modifying.judge([Attempt("optimizing", None, "none")]),
    "it was over in between": lambda: attach_while_modifying.judge(
        [Attempt("modifying", None, "optimizing")]
    ),
    "refused for another reason": lambda: modification_quota.judge(1, BUSY, 0),
    "no known rule": lambda: no_op_counts.judge(None, 2),
    "no modification in progress": lambda: dry_run_checks.judge(EMPTY, None),
    "no event": lambda: event_results.judge([]),
    "neither throughput": lambda: gp3_defaults.judge({"iops": 3000, "mib_s": None}),
    "never shown": lambda: shown_while_modifying.judge([Observation("completed", "gp2")], "gp2", "gp3"),
    "in the middle of a state": lambda: shown_while_modifying.judge(
        [Observation("modifying", "gp2"), Observation("modifying", "gp3")], "gp2", "gp3"
    ),
    "the state before was not seen": lambda: shown_while_modifying.judge(
        [Observation("optimizing", "gp3")], "gp2", "gp3"
    ),
    "all pages were full": lambda: paging.judge([Page(5, True), Page(5, True)]),
    "a role that may do nothing": lambda: tag_condition.judge(
        is_effective=False, with_tag=False, without_tag=False
    ),
    "another role that may do nothing": lambda: type_condition.judge(
        is_effective=False, as_gp2=False, as_gp3=False
    ),
}


@pytest.mark.parametrize("judged", INCONCLUSIVE.values(), ids=INCONCLUSIVE)
def test_no_answer_is_better_than_a_guess(judged):
    with pytest.raises(NotMeasuredError):
        judged()


def test_a_message_is_compared_without_its_time_and_volume():
    message = "vol-0123456789abcdef0 must wait until 2026-11-22T18:00:00.000Z."

    assert to_template(message) == "{volume} must wait until {until}."
    assert find_time(message) == "2026-11-22T18:00:00.000Z"
    assert find_time("Wait at least 6 hours") is None


def test_a_result_survives_its_process():
    for result in (
        Result(outcome=FactOutcome.MEASURED, at_s=1, measurement=Measurement(answer="a", values={"b": 1})),
        Result(outcome=FactOutcome.NOT_PERMITTED, at_s=1, reason="no", grant="ec2:CreateVolume"),
    ):
        assert Result.from_document(result.to_document()) == result


def test_the_instance_ends_itself_and_leaves_the_idle_volume_alone():
    script = make_user_data(195, SHARED_SIZES_GIB)

    assert script.splitlines()[1] == "shutdown -h +195"
    assert "/dev/sdf" in script
    assert "/dev/sdg" not in script


def test_names_are_unique_and_each_fact_can_be_cleaned_up():
    assert len({fact.name for fact in FACTS}) == len(FACTS)
    assert all(reason and not reason.endswith(".") for _, reason in NOT_TRIED)
    for fact in FACTS:
        created = {action for action in fact.actions if action.partition(":")[2].startswith("Create")}
        assert "ec2:CreateVolume" not in created or "ec2:DeleteVolume" in fact.actions
        assert "iam:CreateRole" not in created or "iam:DeleteRole" in fact.actions
    assert "ec2:TerminateInstances" in Plan(facts=[FACTS[0]]).actions
