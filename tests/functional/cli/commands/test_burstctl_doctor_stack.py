"""burstctl doctor with a deployed stack: does it run, do its alerts arrive, and what fixes it if not."""

import os

import pytest

from burstctl.doctor import check_stack as doctoring_stack
from support.aws.doctored_stack import alarm, clear_parameters, reset, schedule
from support.aws.fake_cloudformation import fake_cloudformation
from support.aws.fake_stack import DEFAULT_POLICY, deploy_stack, push_policy
from support.cli.cli_session import add_calm, modification_targets
from support.cli.doctor_findings import READ_PERMISSIONS, deny, findings_for, single_finding
from support.paths import ROOT

AUTO = {"burstwatch:mode": "auto"}


def test_a_healthy_stack_and_what_is_queried_about_it(cli, lab, cloudformation):
    volume_id = add_calm(lab, tags=AUTO)

    result = cli.run("doctor", "--json")

    assert result.code == 0, [
        finding for finding in result.document["findings"] if finding["verdict"] in ("broken", "warning")
    ]
    assert (result.document["stack"], result.document["ledger"]) == (
        "burstwatch",
        "dynamodb:burstwatch-ledger",
    )
    assert single_finding(result, "stack")["seen"] == "burstwatch, flips what opted in, UPDATE_COMPLETE"
    assert {finding["seen"] for finding in findings_for(result, "schedule")} == {"enabled"}, (
        "not those of burstwatch-eu"
    )
    assert {finding["seen"] for finding in findings_for(result, "heartbeat")} == {
        "the last was completed 60 s ago"
    }
    assert {finding["about"] for finding in findings_for(result, "functions")} == {
        "watch",
        "flip",
        "settle",
        "probe",
        "notify",
    }
    assert [finding["seen"] for finding in findings_for(result, "queues")] == ["none"] * 3
    assert single_finding(result, "alarms")["seen"] == "1 of 1 are quiet"
    assert single_finding(result, "subscriptions")["seen"] == "received by email"
    assert (
        "/burstwatch/burstwatch/policy, as deployed, 11 of 8,192 bytes"
        in single_finding(result, "policy")["seen"]
    )
    assert single_finding(result, "deployed")["verdict"] == "skipped"
    calls = set(result.document["api_calls"])
    assert {call for call in calls if not READ_PERMISSIONS.match(call)} == {"ec2:ModifyVolume"}
    assert modification_targets(lab, volume_id) == []
    for call in calls - {"sts:GetCallerIdentity"}:
        action = call.replace("service-quotas:", "servicequotas:")
        service, _, operation = action.partition(":")
        assert any(
            action in row or (f"`{service}:" in row and f"`{operation}`" in row) for row in permission_rows()
        ), action


def test_a_stack_with_another_name_in_cloudformation(cli, lab, cloudformation):
    """As CloudFormation names those of a StackSet; in the names of its parts, it shortens that."""
    cloudformation.name = "StackSet-burstwatch-1a2b3c4d-5e6f"
    deploy_stack(lab, stack=cloudformation.name)
    scheduler = lab.client("scheduler")
    for name in ("Sweep", "Focus"):
        scheduler.delete_schedule(Name=f"burstwatch-{name}")
        schedule(scheduler, f"StackSet-burstwatch-1a2b-{name}", "burstwatch-Watch", "create_schedule")

    result = cli.run("doctor", "--json")

    assert result.code == 0
    assert single_finding(result, "stack")["seen"] == (
        "burstwatch (StackSet-burstwatch-1a2b3c4d-5e6f in CloudFormation), flips what opted in,"
        " UPDATE_COMPLETE"
    )
    assert [finding["verdict"] for finding in findings_for(result, "schedule")] == ["ok", "ok"]
    assert {finding["verdict"] for finding in findings_for(result, "functions")} == {"ok"}


UNKNOWN_STACK = "StackSet-burstwatch-1a2b3c4d-5e6f"


def test_a_stack_without_a_recorded_name_is_to_be_deployed_again(cli, lab, cloudformation):
    cloudformation.name = UNKNOWN_STACK  # and an earlier version recorded no name
    remaining = findings_for(cli.run("doctor", "--json"), "stack")[-1]
    assert "CloudFormation has no stack burstwatch; still there: topic burstwatch, table" in remaining["seen"]
    assert "deploy it again with this version, which records" in remaining["fix"]
    deny(lab, "sns:GetTopicAttributes")
    refused = findings_for(cli.run("doctor", "--json"), "stack")[-1]
    assert "still there: perhaps topic burstwatch, table" in refused["seen"]
    assert "deploy it again" in refused["fix"]


def test_a_recorded_stack_whose_topic_is_there_is_to_be_looked_for(cli, lab, cloudformation):
    deploy_stack(lab, stack=UNKNOWN_STACK)
    remaining = findings_for(cli.run("doctor", "--json"), "stack")[-1]
    assert f"CloudFormation has no stack {UNKNOWN_STACK}; still there: topic" in remaining["seen"]
    assert "deploy it again" not in remaining["fix"]
    assert "look for it in the console of CloudFormation" in remaining["fix"]


@pytest.mark.parametrize("recorded", [{}, {"stack": UNKNOWN_STACK}])
def test_a_table_without_a_topic_is_of_a_stack_that_was_removed(cli, lab, cloudformation, recorded):
    """The table stays when a stack is deleted, so it shows nothing."""
    cloudformation.name = "another"
    reset(lab)
    deploy_stack(lab, **recorded)
    removed = findings_for(cli.run("doctor", "--json"), "stack")[-1]
    assert "it was removed; still there: table burstwatch-ledger" in removed["seen"]
    assert "delete the parameter /burstwatch/deployments/burstwatch and those below it" in removed["fix"]
    assert "keep the table for a new deployment (ExistingLedger" in removed["fix"]

    lab.tables.clear()
    gone = findings_for(cli.run("doctor", "--json"), "stack")[-1]
    assert "neither its topic nor its ledger is there: it was removed" in gone["seen"]
    assert "delete the parameter" in gone["fix"]


def permission_rows():
    return [
        line for line in (ROOT / "docs" / "permissions.md").read_text().splitlines() if line.startswith("| ")
    ]


def test_a_stack_where_everything_that_can_be_is_broken(cli, lab, cloudformation):
    schedule(lab.client("scheduler"), "burstwatch-Focus", "burstwatch-Watch", "update_schedule", "DISABLED")
    cloudformation.status = "UPDATE_ROLLBACK_FAILED"
    cloudformation.function("Watch").update({"State": "Failed", "StateReason": "its role is gone"})
    cloudformation.concurrency["burstwatch-Flip"] = 0
    cloudformation.sources = [{"UUID": "u-1", "State": "Disabled"}]
    lab.client("sqs").send_message(QueueUrl=cloudformation.outputs["DeadFlipsQueue"], MessageBody="{}")
    alarm(lab, "burstwatch-WatchdogErrors-watch", "ALARM")
    alarm(lab, "burstwatch-eu-WatchdogSilent", "ALARM")
    deploy_stack(lab, "later")

    result = cli.run("doctor", "--json")

    assert result.code == 3
    bad = [
        (finding["check"], finding["about"], finding["verdict"])
        for finding in result.document["findings"]
        if finding["verdict"] in ("broken", "warning")
    ]
    assert bad == [
        ("stack", None, "warning"),
        ("stack", None, "broken"),
        ("schedule", "burstwatch-Focus", "broken"),
        ("functions", "flip", "broken"),
        ("functions", "watch", "broken"),
        ("functions", "flip", "broken"),
        ("queues", "flips that could not be processed", "warning"),
        ("alarms", "burstwatch-WatchdogErrors-watch", "broken"),
    ]
    assert "only proposing: later" in findings_for(result, "stack")[0]["seen"]
    reserved, throttled = (
        finding for finding in findings_for(result, "functions", "flip") if finding["verdict"] == "broken"
    )
    assert reserved["commands"] == [
        "aws lambda delete-function-concurrency --function-name burstwatch-Flip --region us-east-1"
    ]
    assert throttled["commands"] == [
        "aws lambda update-event-source-mapping --uuid u-1 --enabled --region us-east-1"
    ]
    assert (
        single_finding(result, "alarms", "burstwatch-WatchdogErrors-watch")["page"]
        == "runbooks/WatchdogErrors.md"
    )
    pages = {finding["page"] for finding in result.document["findings"] if finding["page"]}
    assert all((ROOT / page).is_file() for page in pages)


@pytest.mark.parametrize("page", [page for _, _, page in doctoring_stack._QUEUES])
def test_each_queue_has_a_page(page):
    assert (ROOT / "runbooks" / f"{page}.md").is_file()


def test_missing_permission_on_the_stack_is_reported_and_no_check_passes(cli, lab, cloudformation):
    cloudformation.denied = {"DescribeStacks"}
    deny(lab, "cloudwatch:DescribeAlarms")
    deny(lab, "dynamodb:DescribeTable")
    deny(lab, "sns:GetTopicAttributes")
    deny(lab, "iam:SimulatePrincipalPolicy")

    result = cli.run("doctor", "--json")

    assert result.code == 0
    whole, stack_settings = findings_for(result, "stack")
    assert (whole["verdict"], stack_settings["verdict"]) == ("ok", "skipped")
    assert "may not call cloudformation:DescribeStacks" in stack_settings["seen"]
    for check in ("schedule", "functions", "queues"):
        assert single_finding(result, check)["seen"] == "unknown; see stack"
    for check in ("alarms", "ledger", "topic"):
        assert single_finding(result, check)["verdict"] == "skipped"
    for action in ("dynamodb:PutItem", "ssm:PutParameter"):
        broken = single_finding(result, "permissions", action)
        assert (broken["verdict"], broken["fix"]) == (
            "skipped",
            "grant iam:SimulatePrincipalPolicy to find out",
        )
    assert {finding["verdict"] for finding in findings_for(result, "heartbeat")} == {"ok"}, (
        "the ledger may be read"
    )


def test_a_stopped_watchdog_whose_alerts_would_not_arrive(cli, lab):
    clear_parameters(lab)
    deploy_stack(lab, opt_in_tag={"key": "team", "value": "storage"})
    lab.client("sns").create_topic(Name="burstwatch")
    push_policy(lab, DEFAULT_POLICY, over="another\n")
    with fake_cloudformation() as cloudformation:
        cli.set(
            AWS_ENDPOINT_URL_CLOUDFORMATION=cloudformation.url, AWS_ENDPOINT_URL_LAMBDA=cloudformation.url
        )
        cloudformation.function("Notify")["Environment"] = {"Variables": {"BURSTWATCH_SLACK_SECRET": "gone"}}
        result = cli.run("doctor", "--json")

    assert {(item["about"], item["verdict"]) for item in findings_for(result, "heartbeat")} == {
        ("sweep", "broken"),
        ("focus", "broken"),
    }
    assert findings_for(result, "heartbeat")[0]["page"] == "runbooks/WatchdogSilent.md"
    assert single_finding(result, "subscriptions")["seen"] == "received by Slack"
    finding = single_finding(result, "slack")
    assert finding["verdict"] == "broken"
    assert "reads its webhook from the secret gone, which does not exist" in finding["seen"]
    outdated, mismatch = findings_for(result, "policy")
    assert outdated["commands"] == ["burstctl policy push --withdraw --region us-east-1"]
    assert (mismatch["about"], mismatch["verdict"]) == ("mode.opt_in_tag", "broken")
    assert "may modify only volumes tagged team=storage" in mismatch["seen"]
    assert single_finding(result, "schedule")["seen"] == "0 of 2 schedules start the watch function"
    assert result.code == 3


def test_alerts_of_a_separate_ledger_beside_a_stack_are_not_delivered(cli, lab, cloudformation):
    result = cli.run("doctor", "--json", "--ledger", "sqlite:mine")

    finding = (
        single_finding(result, "ledger", None)
        if len(findings_for(result, "ledger")) == 1
        else findings_for(result, "ledger")[1]
    )
    assert finding["verdict"] == "warning"
    assert "stack burstwatch is deployed and does not read sqlite:" in finding["seen"]
    assert single_finding(result, "heartbeat")["verdict"] == "skipped"
    assert os.listdir(cli.directory) == []  # noqa: PTH208 - names are enough


def test_a_stack_that_only_observes_does_not_compete_with_the_one_that_flips(cli, lab, cloudformation):
    clear_parameters(lab)
    deploy_stack(lab, "bw-observe", flips=False)
    lab.clock.advance(60)
    deploy_stack(lab)

    findings = findings_for(cli.run("doctor", "--json"), "stack")

    assert [(finding["verdict"], finding["seen"]) for finding in findings] == [
        ("ok", "bw-observe only proposes: it was deployed without flips"),
        ("ok", "burstwatch, flips what opted in, UPDATE_COMPLETE"),
    ]


def test_an_unreadable_deployment_record(cli, lab):
    clear_parameters(lab)
    lab.client("ssm").put_parameter(
        Name="/burstwatch/deployments/odd", Value="{}", Type="String", Overwrite=True
    )

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "stack")
    assert finding["verdict"] == "broken"
    assert "/burstwatch/deployments/odd cannot be read" in finding["seen"]


def test_the_alert_targets_of_a_function_with_hidden_settings_are_unknown(cli, lab, cloudformation):
    """Neither that no one is notified, nor that there is no Slack."""
    sns = lab.client("sns")
    topic_arn = "arn:aws:sns:us-east-1:123456789012:burstwatch"
    for subscription in sns.list_subscriptions_by_topic(TopicArn=topic_arn)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    cloudformation.denied = {"GetFunctionConfiguration"}

    result = cli.run("doctor", "--json")

    assert single_finding(result, "subscriptions")["verdict"] == "skipped"
    assert "its settings could not be read" in single_finding(result, "subscriptions")["seen"]
    assert single_finding(result, "slack")["seen"] == (
        "whether the stack notifies Slack is unknown; see functions"
    )
    assert "lambda:GetFunctionConfiguration" in single_finding(result, "functions")["about"]
