"""burstctl aws-check finds each answer that the lab can give, and a lab like its report gives it again."""

import json

import pytest

from burstctl.aws_check.facts import FACTS
from burstlab.serve.measured_settings import settings_from_report
from support.cli.aws_check_session import answers_by_fact, find_fact

FAST_SETTINGS = {"modify_minutes_per_tib": 60, "modify_spread": 0}
RATE_MESSAGE = "Volume {volume} was modified too often: not before {until}."
CASES = [
    ("balance-spacing", {}, "every 60 s"),
    ("balance-spacing", {"balance_every_s": 300}, "every 300 s"),
    ("balance-delay", {"lag_s": 0}, "0 s"),
    ("balance-delay", {"lag_s": 60}, "60 s"),
    ("balance-delay", {"lag_s": 185}, "185 s"),
    ("balance-delay", {"lag_s": 0, "open_minute": True}, "-60 s"),
    ("balance-delay", {"lag_s": 90, "balance_every_s": 300}, "90 s"),
    ("idle-publishes", {}, "publishes"),
    ("idle-publishes", {"idle_publishes": False}, "silent"),
    ("large-publishes", {}, "absent"),
    ("large-publishes", {"large_publish": True}, "100 %"),
    ("gp3-defaults", {}, "matched"),
    ("gp3-defaults", {"gp3_defaults": "least"}, "least"),
    ("balance-after-return", {"balance_after": "kept"}, "kept"),
    ("balance-after-return", {"balance_after": "refilled"}, "refilled"),
    ("balance-after-return", {"balance_after": "reset"}, "reset"),
    ("balance-after-return", {"balance_after": "emptied"}, "emptied"),
    ("balance-after-resize", {"balance_after_resize": "kept"}, "kept"),
    ("balance-after-resize", {"balance_after_resize": "reset"}, "reset"),
    ("balance-after-resize", {"balance_after_resize": "emptied"}, "emptied"),
    ("attach-while-modifying", {}, "refused, OperationNotPermitted"),
    ("attach-while-modifying", {"attach_code": "IncorrectState"}, "refused, IncorrectState"),
    ("attach-while-modifying", {"attach_refused": False}, "allowed"),
    (
        "modification-quota",
        {},
        "4 accepted, then VolumeModificationRateExceeded, which says until when",
    ),
    (
        "modification-quota",
        {"rate_text": "six_hours"},
        "4 accepted, then VolumeModificationRateExceeded, which says no time",
    ),
    (
        "modification-quota",
        {"modify_rule": "six_hours"},
        "1 accepted, then VolumeModificationRateExceeded, which says until when",
    ),
    (
        "modification-quota",
        {"modify_rule": "six_hours", "rate_text": "six_hours"},
        "1 accepted, then VolumeModificationRateExceeded, which says no time",
    ),
    (
        "modification-quota",
        {"rate_code": "TooOften", "rate_message": RATE_MESSAGE},
        "4 accepted, then TooOften, which says until when",
    ),
    ("no-op-counts", {}, "counts"),
    ("no-op-counts", {"no_op_counts": False}, "does not count"),
    ("no-op-counts", {"no_op_code": "InvalidParameterValue"}, "refused, InvalidParameterValue"),
    ("dry-run-checks", {"dry_run_checks": "permission"}, "permission"),
    ("dry-run-checks", {"dry_run_checks": "parameters"}, "parameters"),
    ("dry-run-checks", {"dry_run_checks": "state"}, "state"),
    ("dry-run-checks", {"dry_run_checks": "request"}, "request"),
    ("shown-while-modifying", {"target_shown_from": "accepted"}, "accepted"),
    ("shown-while-modifying", {"target_shown_from": "optimizing"}, "optimizing"),
    ("shown-while-modifying", {"target_shown_from": "completed"}, "completed"),
    ("record-lifetime", {}, "for 60 min or longer"),
    ("record-lifetime", {"record_days": 20 / 1440}, "for 20 min"),
    ("ratio-refusal", {}, "refused, InvalidParameterValue"),
    ("ratio-refusal", {"ratio_code": "InvalidParameterCombination"}, "refused, InvalidParameterCombination"),
    ("zone-filter", {}, "before"),
    ("zone-filter", {"filter_after_page": True}, "after"),
    ("tag-filter", {}, "before"),
    ("tag-filter", {"filter_after_page": True}, "after"),
    ("tag-condition", {"tag_condition": "enforced"}, "enforced"),
    ("tag-condition", {"tag_condition": "ignored"}, "ignored"),
    ("tag-condition", {"tag_condition": "always refused"}, "always refused"),
    ("type-condition", {"type_condition": "current"}, "current"),
    ("type-condition", {"type_condition": "requested"}, "requested"),
    ("type-condition", {"type_condition": "ignored"}, "ignored"),
    ("type-condition", {"type_condition": "absent"}, "absent"),
    ("encrypted-alarm", {}, "delivered"),
    ("event-results", {}, "modifying, optimizing, completed"),
    ("event-results", {"modify_event_results": ("optimizing", "completed")}, "optimizing, completed"),
    ("event-results", {"modify_event_results": ("completed",)}, "completed"),
    ("encrypted-alarm", {"alarms_deliver": False}, "not delivered"),
]


def measure_with_settings(checks, settings, *facts, report="report"):
    """The report on a lab that behaves so."""
    with checks.start_lab(**(FAST_SETTINGS | settings)):
        return checks.measure(*facts, report=report)


@pytest.mark.parametrize(("fact", "settings", "answer"), CASES)
def test_the_report_describes_the_lab_and_so_does_one_on_a_lab_like_the_report(
    checks, fact, settings, answer
):
    report = measure_with_settings(checks, settings, fact)

    assert answers_by_fact(report) == {fact: answer}
    changes, _ = settings_from_report(report)
    repeated = measure_with_settings(checks, changes, fact, report="again")
    assert answers_by_fact(repeated) == {fact: answer}
    assert find_fact(repeated, fact)["values"] == find_fact(report, fact)["values"]


@pytest.mark.parametrize("after", ["zone-filter", "tag-filter"])
def test_of_two_filters_one_may_come_before_the_cut_and_one_after_it(checks, after):
    before = {"zone-filter": "tag:*", "tag-filter": "availability-zone"}[after]
    settings = {"filter_after_page": True, "filters_before_page": (before,)}
    report = measure_with_settings(checks, settings, "zone-filter", "tag-filter")

    assert answers_by_fact(report) == {"zone-filter": "before", "tag-filter": "before"} | {after: "after"}
    changes, _ = settings_from_report(report)
    assert changes == settings


def test_a_delay_that_varies_is_a_range_and_a_lab_like_the_report_has_one_like_it(checks):
    report = measure_with_settings(checks, {"lag_s": 40, "lag_most_s": 140}, "balance-delay")

    values = find_fact(report, "balance-delay")["values"]
    assert 40 <= values["least_s"] <= 60
    assert 120 <= values["most_s"] <= 140
    repeated = measure_with_settings(checks, settings_from_report(report)[0], "balance-delay", report="again")
    assert find_fact(repeated, "balance-delay")["values"]["least_s"] >= values["least_s"]
    assert find_fact(repeated, "balance-delay")["values"]["most_s"] <= values["most_s"]


def test_each_fact_has_more_than_one_answer_among_these_cases():
    result = {fact.name: {answer for name, _, answer in CASES if name == fact.name} for fact in FACTS}

    assert [name for name, known in result.items() if len(known) < 2] == []


def test_the_wording_of_a_refusal_is_in_the_report_without_what_differs_each_time(checks):
    report = measure_with_settings(checks, {"rate_message": RATE_MESSAGE}, "modification-quota")

    fact = find_fact(report, "modification-quota")
    assert fact["values"]["message"] == RATE_MESSAGE
    assert "{until}" not in fact["evidence"]["message"]
    assert fact["evidence"]["from_first_start_to_time_stated_s"] == 24 * 3600


def test_all_facts_are_measured_at_the_same_time_and_the_report_matches_its_schema(checks):
    report = measure_with_settings(checks, {})

    assert [fact["name"] for fact in report["facts"]] == [fact.name for fact in FACTS]
    assert {fact["outcome"] for fact in report["facts"]} == {"measured"}
    page = checks.report_path().with_suffix(".md").read_text()
    assert "The endpoint was not AWS's" in page
    assert "| tag-condition | enforced |" in page
    assert json.loads(checks.report_path().read_text()) == report
