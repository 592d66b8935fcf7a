"""What the stack is made of: facts of the template that people and data depend on."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack, full_stack, synth
from support.stack.template_reader import VERBS, as_list, as_text, resources_of

TRANSCRIPT = Path(__file__).with_name("resources.txt")


def test_the_resources_are_those_of_the_transcript(pytestconfig):
    if pytestconfig.getoption("--rewrite"):
        TRANSCRIPT.write_text(resources_of(default_stack()))
    assert resources_of(default_stack()) == TRANSCRIPT.read_text(), (
        "the stack's resources changed; if each change is meant, run `pytest tests/infra --rewrite`"
        f" and commit {TRANSCRIPT.name} with the reason"
    )


@pytest.mark.parametrize(
    "stage", ["", "name: another\nflips: false\ntracing: true\nrecipients: {chat: true}"]
)
def test_the_ledger_keeps_its_logical_id_whatever_else_changes(stage):
    """Under another one CloudFormation would make a new, empty table, and forget every flip."""
    table = synth(stage).template["Resources"]["Ledger"]
    assert table["Type"] == "AWS::DynamoDB::GlobalTable"


def test_the_ledger_outlives_its_stack():
    table = default_stack().template["Resources"]["Ledger"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    [replica] = table["Properties"]["Replicas"]
    assert replica["DeletionProtectionEnabled"] is True
    assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
    assert "TableName" not in table["Properties"]


def test_the_ledger_has_the_keys_that_the_adapter_uses():
    keys = default_stack().only("AWS::DynamoDB::GlobalTable")["KeySchema"]
    assert keys == [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]


def test_a_ledger_that_is_there_is_used_and_not_made():
    stack = synth("ledger: burstwatch-Ledger-1ABCDEF")
    assert stack.of_type("AWS::DynamoDB::GlobalTable") == {}
    assert stack.environment("watch")["BURSTWATCH_LEDGER"] == "dynamodb:burstwatch-Ledger-1ABCDEF"
    [ledger] = [s for s in stack.statements()["WatchRole"] if s["Sid"] == "UseLedger"]
    assert as_text(ledger["Resource"]).endswith(":table/burstwatch-Ledger-1ABCDEF")


def test_functions_run_on_the_newest_python_on_arm_with_the_layer():
    functions = default_stack().of_type("AWS::Lambda::Function")
    assert len(functions) == len(VERBS)
    for function in functions.values():
        assert function["Runtime"] == "python3.14"
        assert function["Architectures"] == ["arm64"]
        assert len(function["Layers"]) == 1
    assert len({function["Code"]["S3Key"] for function in functions.values()}) == 1


def test_no_concurrency_is_reserved_because_new_accounts_have_none_to_spare():
    assert not any(
        "ReservedConcurrentExecutions" in f for f in default_stack().of_type("AWS::Lambda::Function").values()
    )


def test_watch_has_the_processor_that_its_budget_was_measured_with():
    assert default_stack().function("watch")["MemorySize"] == 1769


def test_a_tick_that_fails_is_not_repeated_but_kept():
    [patience] = [
        item
        for item in default_stack().of_type("AWS::Lambda::EventInvokeConfig").values()
        if as_text(item["FunctionName"]) == "${WatchFunction}"
    ]
    assert patience["MaximumRetryAttempts"] == 0
    assert patience["MaximumEventAgeInSeconds"] == 60
    assert as_text(patience["DestinationConfig"]["OnFailure"]["Destination"]) == "${FailedEvents.Arn}"


def test_schedules_pass_the_time_and_expire_within_a_minute():
    schedules = default_stack().of_type("AWS::Scheduler::Schedule").values()
    inputs = [json.loads(schedule["Target"]["Input"]) for schedule in schedules]
    assert inputs == [
        {"mode": "sweep", "time": "<aws.scheduler.scheduled-time>"},
        {"mode": "focus", "time": "<aws.scheduler.scheduled-time>"},
    ]
    assert [item["ScheduleExpression"] for item in schedules] == ["cron(0/5 * * * ? *)", "rate(1 minute)"]
    for schedule in schedules:
        assert schedule["Target"]["RetryPolicy"] == {
            "MaximumEventAgeInSeconds": 60,
            "MaximumRetryAttempts": 2,
        }
        assert as_text(schedule["Target"]["DeadLetterConfig"]["Arn"]) == "${FailedEvents.Arn}"
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


@pytest.mark.parametrize(
    ("minutes", "expression"),
    [
        (1, "cron(0/1 * * * ? *)"),
        (10, "cron(0/10 * * * ? *)"),
        (45, "rate(45 minutes)"),
        (60, "rate(60 minutes)"),
    ],
)
def test_the_sweep_comes_on_the_grid_of_the_hour_where_it_fits(minutes, expression):
    from infra.schedule import sweep_expression  # noqa: PLC0415 - it imports the CDK, which takes seconds

    assert sweep_expression(minutes) == expression


def test_the_sweep_runs_as_often_as_the_policy_requires(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ncadence: {sweep_tick: 10m}\n")
    schedules = synth(f"policy: {policy}").of_type("AWS::Scheduler::Schedule").values()
    assert "cron(0/10 * * * ? *)" in {schedule["ScheduleExpression"] for schedule in schedules}


def test_without_a_schedule_nothing_runs_and_no_alarm_reports_silence():
    stack = synth("schedule: false")
    assert stack.of_type("AWS::Scheduler::Schedule") == {}
    assert "WatchdogSilent" not in json.dumps(stack.template)


def test_a_killed_flip_function_leaves_time_for_a_second_try_and_a_throttled_one_for_several():
    queues = default_stack().of_type("AWS::SQS::Queue").values()
    [queue] = [q for q in queues if "RedrivePolicy" in q and q.get("FifoQueue")]
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 5
    act_lead_s = 8 * 60
    assert 6 * default_stack().function("flip")["Timeout"] <= queue["VisibilityTimeout"] < act_lead_s
    for source in default_stack().of_type("AWS::Lambda::EventSourceMapping").values():
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_undelivered_and_dead_messages_are_kept_for_two_weeks():
    retention_s = [
        q["MessageRetentionPeriod"]
        for q in default_stack().of_type("AWS::SQS::Queue").values()
        if "RedrivePolicy" not in q
    ]
    assert retention_s == [14 * 24 * 3600] * 3


def test_every_queue_and_topic_is_encrypted_and_refuses_plain_http():
    for queue in full_stack().of_type("AWS::SQS::Queue").values():
        assert queue["SqsManagedSseEnabled"] is True
    for topic in full_stack().of_type("AWS::SNS::Topic").values():
        assert as_text(topic["KmsMasterKeyId"]) == "${AlertsKey.Arn}"
    policies = [
        *full_stack().of_type("AWS::SQS::QueuePolicy").values(),
        *full_stack().of_type("AWS::SNS::TopicPolicy").values(),
    ]
    assert len(policies) == 8
    assert all('"aws:SecureTransport": "false"' in json.dumps(policy) for policy in policies)


def test_ebs_events_and_those_of_probes_have_queues_of_their_own():
    rules = default_stack().of_type("AWS::Events::Rule").values()
    patterns = [rule["EventPattern"] for rule in rules]
    assert patterns == [
        {
            "source": ["aws.ec2"],
            "detail-type": ["EBS Volume Notification"],
            "detail": {"event": ["createVolume", "modifyVolume", "attachVolume", "reattachVolume"]},
        },
        {
            "source": ["burstwatch.ddprobe"],
            "detail-type": ["stall"],
            "detail": {
                "schema": ["burstwatch.probe/v1"],
                "verdict": ["warn", "crit"],
                "cause": ["throttled", "exhausted_idle", "stalled", "frozen_or_lock", "io_error"],
            },
        },
    ]
    targets = [target for rule in rules for target in rule["Targets"]]
    assert [as_text(target["Arn"]) for target in targets] == [
        "${HintsEbsEvents.Arn}",
        "${HintsProbeEvents.Arn}",
    ]
    for target in targets:
        assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] == 300
        assert as_text(target["DeadLetterConfig"]["Arn"]) == "${FailedEvents.Arn}"
    assert default_stack().only("AWS::Events::EventBus")["Name"] == "burstwatch-probe"


def event_sources(stack):
    """Event source mappings by the queue that they read."""
    sources = stack.of_type("AWS::Lambda::EventSourceMapping").values()
    return {as_text(source["EventSourceArn"]): source for source in sources}


def test_all_functions_that_may_run_at_once_fit_into_an_account_limited_to_ten():
    """Queues run this many at once; watch has a sweep and a tick, and people's messages come one by one."""
    at_once = [
        event_source["ScalingConfig"]["MaximumConcurrency"]
        for event_source in event_sources(default_stack()).values()
    ]
    assert sum(at_once) == 6
    assert sum(at_once) + len(["sweep", "focus", "notify", "notify"]) <= 10


@pytest.mark.parametrize(("name", "verb"), [("Ebs", "Settle"), ("Probe", "Probe")])
def test_events_come_in_batches_through_a_queue_of_their_own(name, verb):
    source = event_sources(default_stack())[f"${{Hints{name}Events.Arn}}"]
    assert as_text(source["FunctionName"]) == f"${{{verb}Function}}"
    assert (source["BatchSize"], source["ScalingConfig"]) == (100, {"MaximumConcurrency": 2})
    window_s = source["MaximumBatchingWindowInSeconds"]
    [queue] = [q for i, q in default_stack().of_type("AWS::SQS::Queue").items() if f"Hints{name}Events" in i]
    assert queue["VisibilityTimeout"] >= 6 * default_stack().function(verb.lower())["Timeout"] + window_s
    redrive = queue["RedrivePolicy"]
    assert as_text(redrive["deadLetterTargetArn"]) == "${FailedEvents.Arn}"
    assert (
        redrive["maxReceiveCount"] * (queue["VisibilityTimeout"] + window_s)
        <= queue["MessageRetentionPeriod"]
    )
    assert queue["MessageRetentionPeriod"] <= 15 * 60


def test_a_report_of_a_host_waits_less_than_a_minute_for_others():
    assert event_sources(default_stack())["${HintsProbeEvents.Arn}"]["MaximumBatchingWindowInSeconds"] <= 10


@pytest.mark.parametrize("name", ["Ebs", "Probe"])
def test_only_its_rule_may_send_to_a_queue_of_events(name):
    [policy] = [
        p for i, p in default_stack().of_type("AWS::SQS::QueuePolicy").items() if f"Hints{name}Events" in i
    ]
    allowed = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    for statement in allowed:
        assert statement["Principal"] == {"Service": "events.amazonaws.com"}
        [rule] = statement["Condition"]["ArnEquals"].values()
        assert as_text(rule) == f"${{Hints{name}.Arn}}"
    assert {action for s in allowed for action in as_list(s["Action"])} <= {
        "sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl",
    }  # fmt: skip


def test_people_subscribe_as_the_stage_requires_and_undelivered_messages_are_kept():
    subscriptions = full_stack().of_type("AWS::SNS::Subscription").values()
    assert [(s["Protocol"], as_text(s["Endpoint"])) for s in subscriptions] == [
        ("email", "oncall@example.com"),
        ("email", "storage@example.com"),
        ("lambda", "${NotifyFunction.Arn}"),
    ]
    for subscription in subscriptions:
        assert as_text(subscription["RedrivePolicy"]["deadLetterTargetArn"]) == "${AlertsUndelivered.Arn}"


def test_the_secret_itself_is_nowhere_in_the_template():
    assert full_stack().environment("notify")["BURSTWATCH_SLACK_SECRET"] == "burstwatch/slack"
    assert "hooks.slack.com" not in json.dumps(full_stack().template)
    assert "{{resolve:secretsmanager" not in json.dumps(full_stack().template)


def test_a_deployment_describes_itself_in_parameter_store():
    parameters = {p["Name"]: p for p in default_stack().of_type("AWS::SSM::Parameter").values()}
    card, since = "/burstwatch/deployments/burstwatch", "/burstwatch/deployments/burstwatch/since"
    assert set(parameters) == {"/burstwatch/burstwatch/policy", card, since}
    assert parameters[since]["Value"] == "burstwatch"
    assert parameters["/burstwatch/burstwatch/policy"]["Value"] == (ROOT / "policy.yaml").read_text()
    assert parameters["/burstwatch/burstwatch/policy"]["Tier"] == "Intelligent-Tiering"
    assert as_text(parameters["/burstwatch/deployments/burstwatch"]["Value"]) == (
        f'{{"schema":"burstwatch.deployment/v1","version":"{version("burstwatch")}","name":"burstwatch",'
        '"ledger":"dynamodb:${Ledger}",'
        '"policy":"/burstwatch/burstwatch/policy","topic_arn":"${AlertsTopic}","flips":true,'
        '"resources":["ebs"],"opt_in_tag":{"key":"burstwatch:mode","value":"auto"},'
        '"origin":"/burstwatch/deployments/burstwatch/${part 2 of ${AWS::StackId} split at /}/since",'
        '"stack":"${AWS::StackName}"}'
    )


def test_two_deployments_of_one_account_share_no_name():
    first, second = (synth(f"name: {name}") for name in ("first", "second"))
    named = [
        {p["Name"] for p in stack.of_type("AWS::SSM::Parameter").values()}
        | {p["Name"] for p in stack.of_type("AWS::Events::EventBus").values()}
        | {p["AlarmName"] for p in stack.of_type("AWS::CloudWatch::Alarm").values()}
        for stack in (first, second)
    ]
    assert named[0].isdisjoint(named[1])


def test_an_account_without_a_region_leaves_the_region_to_the_deployment():
    stack = synth('account: "111122223333"')
    manifest = json.loads((stack.folder / "manifest.json").read_text())
    assert manifest["artifacts"]["burstwatch"]["environment"] == "aws://111122223333/unknown-region"


def test_tags_are_on_what_the_stack_makes():
    tags = {tag["Key"]: tag["Value"] for tag in full_stack().function("watch")["Tags"]}
    assert tags == {"owner": "storage", "project": "burstwatch", "stage": "production"}


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-1", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")],
)
def test_nothing_names_a_partition_so_it_works_in_each(region, partition):
    stack = synth(f"regions: [{region}]\nrecipients: {{slack_secret: s, chat: true}}")
    text = json.dumps(stack.template)
    assert "arn:aws:" not in text
    assert "amazonaws.com.cn" not in text.replace("dkr", "")
    assert partition == "aws" or "us-east-1" not in text


def test_the_default_alarms_need_no_metric_query():
    for alarm in default_stack().of_type("AWS::CloudWatch::Alarm").values():
        assert "Metrics" not in alarm


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_nag_finds_nothing(stage):
    """The synth fails where cdk-nag finds anything; test_synth.py shows that it does."""
    report = json.loads((stage().folder / "validation-report.json").read_text())
    assert report["pluginReports"] == []


def test_events_of_rds_are_taken_only_by_a_stack_that_may_watch_databases():
    rules = {
        name: rule["EventPattern"]
        for name, rule in synth("resources: [ebs, rds]").of_type("AWS::Events::Rule").items()
    }
    [pattern] = [pattern for name, pattern in rules.items() if name.startswith("HintsRds")]
    assert pattern == {
        "source": ["aws.rds"],
        "detail-type": ["RDS DB Instance Event"],
        "detail": {"EventID": ["RDS-EVENT-0189"]},
    }
    assert not [name for name in default_stack().of_type("AWS::Events::Rule") if name.startswith("HintsRds")]
