"""Who watches the watchdog: every alarm says what silence means and where its page is, and can fire."""

import re

import pytest

from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack, full_stack, synth
from support.stack.template_reader import as_text, without_hash

AWS_NAMESPACES = {"AWS/Lambda", "AWS/SQS"}
DEFAULT = {
    "WatchdogSilent", "WatchdogErrors", "WatchdogThrottled", "TicksDeadLettered", "AlertsDeadLettered",
    "FlipRequestsDeadLettered", "VolumesUnread", "DatapointsTooOld", "AlertsNotDelivered", "FlipsFailed",
    "FlipsStuck",
    "AnotherDeployment", "FlipRequestsWaiting", "ProbeEventsDropped", "EbsEventsDropped",
}  # fmt: skip


def alarms_of(stack):
    return list(stack.of_type("AWS::CloudWatch::Alarm").values())


def kind_of(alarm):
    """The name of the alarm's page: its own without the deployment before and the function behind it."""
    [kind] = re.findall(r"-([A-Z][A-Za-z]+)(?:-[a-z]+)?$", alarm["AlarmName"])
    return kind


def alarm_named(stack, kind):
    return [alarm for alarm in alarms_of(stack) if kind_of(alarm) == kind]


def test_the_default_stack_has_these_alarms():
    assert {kind_of(alarm) for alarm in alarms_of(default_stack())} == DEFAULT


def test_without_flips_there_is_no_alarm_about_them():
    kinds = {kind_of(alarm) for alarm in alarms_of(synth("flips: false"))}
    assert kinds == DEFAULT - {
        "FlipRequestsDeadLettered",
        "FlipsFailed",
        "FlipsStuck",
        "AnotherDeployment",
        "FlipRequestsWaiting",
    }


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_each_alarm_declares_how_it_takes_missing_data_and_how_long_it_waits(stage):
    for alarm in alarms_of(stage()):
        assert alarm["TreatMissingData"] in {"breaching", "notBreaching"}
        assert alarm["EvaluationPeriods"] >= alarm["DatapointsToAlarm"] >= 1


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_each_alarm_names_its_page_and_the_page_is_there(stage):
    for alarm in alarms_of(stage()):
        kind = kind_of(alarm)
        assert alarm["AlarmDescription"].endswith(f" Runbook: burstctl runbook {kind}")
        assert (ROOT / "runbooks" / f"{kind}.md").read_text().startswith(f"# {kind}\n")
        assert len(alarm["AlarmDescription"]) <= 1024


@pytest.mark.parametrize(
    ("runbooks_url", "address"),
    [
        ("https://wiki.example.com/burstwatch/", "https://wiki.example.com/burstwatch/{}.md"),
        ("'https://docs.example.com/runbooks/{page}.html'", "https://docs.example.com/runbooks/{}.html"),
    ],
)
def test_the_pages_are_where_the_policy_puts_them(tmp_path, runbooks_url, address):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nalerts: {{runbooks_url: {runbooks_url}}}\n")
    for alarm in alarms_of(synth(f"policy: {policy}")):
        assert alarm["AlarmDescription"].endswith(f" Runbook: {address.format(kind_of(alarm))}")


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_each_alarm_reports_when_it_begins_and_when_it_is_over_unless_that_could_trigger_it_again(stage):
    for alarm in alarms_of(stage()):
        assert as_text(alarm["AlarmActions"]) == "${AlertsTopic}"
        if alarm["AlarmName"].endswith(
            ("-AlertsNotDelivered", "-AlertsDeadLettered", "-WatchdogErrors-notify")
        ):
            assert "OKActions" not in alarm
            assert (alarm["DatapointsToAlarm"], alarm["Period"] * alarm["EvaluationPeriods"]) == (1, 15 * 60)
        else:
            assert as_text(alarm["OKActions"]) == "${AlertsTopic}"
            counts_late = "-WatchdogErrors-" in alarm["AlarmName"]
            assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] + counts_late


def test_an_error_counts_although_lambda_dates_it_to_the_start_of_a_pass_of_five_minutes():
    for alarm in alarm_named(default_stack(), "WatchdogErrors-watch"):
        assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (1, 2)
        assert alarm["Period"] * (alarm["EvaluationPeriods"] - 1) >= 300


def test_the_heartbeat_alarm_needs_none_of_our_code():
    [alarm] = alarm_named(default_stack(), "WatchdogSilent")
    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"]) == (
        "AWS/Lambda",
        "Invocations",
        "Sum",
    )
    assert as_text(alarm["Dimensions"][0]["Value"]) == "${WatchFunction}"
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 3)
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 600


@pytest.mark.parametrize(
    ("kind", "functions"),
    [
        (
            "WatchdogErrors",
            {
                "${WatchFunction}",
                "${FlipFunction}",
                "${SettleFunction}",
                "${ProbeFunction}",
                "${NotifyFunction}",
            },
        ),
        ("WatchdogThrottled", {"${WatchFunction}", "${FlipFunction}"}),
    ],
)
def test_functions_are_watched_by_lambdas_own_metrics(kind, functions):
    """What throttles settle or notify for long ends in a queue of what failed, which has an alarm."""
    assert {
        as_text(alarm["Dimensions"][0]["Value"]) for alarm in alarm_named(default_stack(), kind)
    } == functions


def test_every_dead_letter_queue_has_an_alarm():
    watched = {
        as_text(alarm["Dimensions"][0]["Value"])
        for alarm in alarms_of(default_stack())
        if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    }
    dead = {
        f"${{{name}.QueueName}}"
        for name in (without_hash(item) for item in default_stack().of_type("AWS::SQS::Queue"))
        if name not in {"FlipRequestsQueue", "HintsEbsEvents", "HintsProbeEvents"}
    }
    assert watched == dead


def test_our_own_metrics_are_used_only_where_aws_has_none():
    own = {kind_of(alarm) for alarm in alarms_of(default_stack()) if alarm["Namespace"] not in AWS_NAMESPACES}
    assert own == {
        "VolumesUnread",
        "DatapointsTooOld",
        "AlertsNotDelivered",
        "FlipsFailed",
        "FlipsStuck",
        "AnotherDeployment",
        "ProbeEventsDropped",
        "EbsEventsDropped",
    }
    for alarm in alarms_of(default_stack()):
        if alarm["Namespace"] not in AWS_NAMESPACES:
            assert alarm["Namespace"] == "Burstwatch"
            assert alarm["Dimensions"] == [{"Name": "service", "Value": "burstwatch"}]


def test_datapoints_are_too_old_at_twice_the_lag_that_the_policy_counts_on(tmp_path):
    [alarm] = alarm_named(default_stack(), "DatapointsTooOld")
    assert alarm["Threshold"] == 2 * 300
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ncadence: {metric_lag: 3m}\n")
    [alarm] = alarm_named(synth(f"policy: {policy}"), "DatapointsTooOld")
    assert alarm["Threshold"] == 2 * 180


def test_the_worst_datapoint_alarms_and_a_single_gap_does_not(tmp_path):
    """Its datapoint grows from 10 to 30 minutes old, seen by five periods; then it is a TelemetryGap."""
    [alarm] = alarm_named(default_stack(), "DatapointsTooOld")
    assert (alarm["MetricName"], alarm["Statistic"]) == ("WorstDatapointAge", "Maximum")
    assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"], alarm["Period"]) == (6, 6, 300)
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ntelemetry: {gap_after: 1d}\n")
    [alarm] = alarm_named(synth(f"policy: {policy}"), "DatapointsTooOld")
    assert alarm["EvaluationPeriods"] == 12


def test_the_watch_function_has_time_for_the_listing_of_a_large_region():
    timeouts = [item["Timeout"] for item in default_stack().of_type("AWS::Lambda::Function").values()]
    assert max(timeouts) == 300


def test_the_backstop_alarm_is_off_by_default_and_needs_none_of_our_code():
    assert alarm_named(default_stack(), "LowBurstBalance") == []
    [net] = alarm_named(full_stack(), "LowBurstBalance")
    [query] = net["Metrics"]
    assert query["Expression"] == (
        'SELECT MIN(BurstBalance) FROM SCHEMA("AWS/EBS", VolumeId) GROUP BY VolumeId'
        " ORDER BY MIN() ASC LIMIT 500"
    )
    assert (net["Threshold"], net["ComparisonOperator"]) == (20, "LessThanOrEqualToThreshold")


def test_the_dashboard_shows_every_alarm_and_every_function():
    body = as_text(default_stack().only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    for logical_id in default_stack().of_type("AWS::CloudWatch::Alarm"):
        assert without_hash(logical_id) in body
    for verb in ("Watch", "Flip", "Settle", "Probe", "Notify"):
        assert f"${{{verb}Function}}" in body


def test_the_dashboard_counts_buckets_only_if_other_resources_than_volumes_may_be_watched():
    title = "Buckets of other resources now"
    assert title not in as_text(default_stack().only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    body = as_text(synth("resources: [ebs, instance]").only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    assert title in body
    assert "BucketsCritical" in body


def test_a_stage_may_do_without_the_dashboard():
    assert synth("dashboard: false").of_type("AWS::CloudWatch::Dashboard") == {}


def test_unconsumed_requests_raise_an_alarm_before_act_lead_is_over():
    [alarm] = alarm_named(default_stack(), "FlipRequestsWaiting")
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    assert alarm["Threshold"] + alarm["Period"] * alarm["EvaluationPeriods"] < 8 * 60
