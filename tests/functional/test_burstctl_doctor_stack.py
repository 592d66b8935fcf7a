"""burstctl doctor beside a deployed stack: is it alive, is it heard, and what mends it where not."""

import os
from urllib.request import Request, urlopen

import pytest
from a_stack import PLAIN, a_stack, push_by_hand
from deployed_things import deployed_things
from operators_desk import START, OperatorsDesk, a_lab, add_calm, modified
from test_burstctl_doctor import READING, ROOT, deny, found, the_one

from burstctl.doctor import check_stack as doctoring_stack
from burstwatch.core.ledger.ledger import TickKind

NOW_S = int(START.timestamp())
ROLE = "arn:aws:iam::123456789012:role/r"
AUTO = {"burstwatch:mode": "auto"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


@pytest.fixture
def things(desk, lab):
    """What is deployed, all of it well: to be broken by a test."""
    forget_everything(lab)
    ledger = a_stack(lab)
    for kind in TickKind:
        roster = frozenset({1}) if kind is TickKind.SWEEP else None
        ledger.complete_tick(kind, NOW_S - 60, roster=roster)
    with deployed_things() as made:
        desk.set(AWS_ENDPOINT_URL_CLOUDFORMATION=made.url, AWS_ENDPOINT_URL_LAMBDA=made.url)
        scheduler, sqs, sns = (lab.client(each) for each in ("scheduler", "sqs", "sns"))
        for name in ("Sweep", "Focus"):
            schedule(scheduler, f"burstwatch-{name}", "burstwatch-Watch", "create_schedule")
        schedule(scheduler, "burstwatch-eu-Focus", "burstwatch-eu-Watch", "create_schedule")
        for output in ("FailedEventsQueue", "UndeliveredQueue", "DeadFlipsQueue"):
            made.outputs[output] = sqs.create_queue(QueueName=output)["QueueUrl"]
        topic_arn = sns.create_topic(Name="burstwatch")["TopicArn"]
        sns.subscribe(TopicArn=topic_arn, Protocol="email", Endpoint="oncall@example.com")
        alarm(lab, "burstwatch-WatchdogSilent", "OK")
        try:
            yield made
        finally:
            reset(lab)


def forget_everything(lab):
    """What other tests made; and what moto takes long to load is loaded before anybody hurries."""
    reset(lab)
    lab.client("secretsmanager").list_secrets()
    lab.client("scheduler").list_schedules()
    lab.client("cloudwatch").describe_alarms()
    lab.client("sqs").list_queues()
    lab.client("sns").list_topics()


def reset(lab):
    """moto's memory is that of the process, and of every test in it."""
    urlopen(Request(f"{lab.url}/moto-api/reset", method="POST"), timeout=60).close()


def schedule(scheduler, name, function, call, state="ENABLED"):
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function}"
    getattr(scheduler, call)(
        Name=name,
        ScheduleExpression="rate(1 minute)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": arn, "RoleArn": ROLE},
        State=state,
    )


def alarm(lab, name, state):
    cloudwatch = lab.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        ComparisonOperator="LessThanThreshold",
        EvaluationPeriods=1,
        MetricName="Invocations",
        Namespace="AWS/Lambda",
        Period=60,
        Statistic="Sum",
        Threshold=1,
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="it hardly runs")


def test_a_stack_where_all_is_well_and_what_is_asked_about_it(desk, lab, things):
    volume_id = add_calm(lab, tags=AUTO)

    ran = desk.run("doctor", "--json")

    assert ran.code == 0, [
        each for each in ran.document["findings"] if each["verdict"] in ("broken", "warning")
    ]
    assert (ran.document["stack"], ran.document["ledger"]) == ("burstwatch", "dynamodb:burstwatch-ledger")
    assert the_one(ran, "stack")["seen"] == "burstwatch, flips what opted in, UPDATE_COMPLETE"
    assert {each["seen"] for each in found(ran, "schedule")} == {"enabled"}, "not those of burstwatch-eu"
    assert {each["seen"] for each in found(ran, "heartbeat")} == {"the last was completed 60 s ago"}
    assert {each["about"] for each in found(ran, "functions")} == {"watch", "flip", "settle", "notify"}
    assert [each["seen"] for each in found(ran, "queues")] == ["none"] * 3
    assert the_one(ran, "alarms")["seen"] == "1 of 1 are quiet"
    assert the_one(ran, "subscriptions")["seen"] == "heard by email"
    assert "/burstwatch/burstwatch/policy, as deployed, 11 of 8,192 bytes" in the_one(ran, "policy")["seen"]
    assert the_one(ran, "deployed")["verdict"] == "skipped"
    calls = set(ran.document["api_calls"])
    assert {call for call in calls if not READING.match(call)} == {"ec2:ModifyVolume"}
    assert modified(lab, volume_id) == []
    for call in calls - {"sts:GetCallerIdentity"}:
        action = call.replace("service-quotas:", "servicequotas:")
        service, _, operation = action.partition(":")
        assert any(
            action in row or (f"`{service}:" in row and f"`{operation}`" in row)
            for row in rows_of_the_readme()
        ), action


def rows_of_the_readme():
    return [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| ")]


def test_a_stack_where_everything_that_can_be_is_broken(desk, lab, things):
    schedule(lab.client("scheduler"), "burstwatch-Focus", "burstwatch-Watch", "update_schedule", "DISABLED")
    things.status = "UPDATE_ROLLBACK_FAILED"
    things.function("Watch").update({"State": "Failed", "StateReason": "its role is gone"})
    things.concurrency["burstwatch-Flip"] = 0
    things.sources = [{"UUID": "u-1", "State": "Disabled"}]
    lab.client("sqs").send_message(QueueUrl=things.outputs["DeadFlipsQueue"], MessageBody="{}")
    alarm(lab, "burstwatch-WatchdogErrors-watch", "ALARM")
    alarm(lab, "burstwatch-eu-WatchdogSilent", "ALARM")
    a_stack(lab, "later")

    ran = desk.run("doctor", "--json")

    assert ran.code == 3
    bad = [
        (each["check"], each["about"], each["verdict"])
        for each in ran.document["findings"]
        if each["verdict"] in ("broken", "warning")
    ]
    assert bad == [
        ("stack", None, "warning"),
        ("stack", None, "broken"),
        ("schedule", "burstwatch-Focus", "broken"),
        ("functions", "flip", "broken"),
        ("functions", "watch", "broken"),
        ("functions", "flip", "broken"),
        ("queues", "flips that could not be dealt with", "warning"),
        ("alarms", "burstwatch-WatchdogErrors-watch", "broken"),
    ]
    assert "only proposing: later" in found(ran, "stack")[0]["seen"]
    reserved, taken = (each for each in found(ran, "functions", "flip") if each["verdict"] == "broken")
    assert reserved["commands"] == [
        "aws lambda delete-function-concurrency --function-name burstwatch-Flip --region us-east-1"
    ]
    assert taken["commands"] == [
        "aws lambda update-event-source-mapping --uuid u-1 --enabled --region us-east-1"
    ]
    assert the_one(ran, "alarms", "burstwatch-WatchdogErrors-watch")["page"] == "runbooks/WatchdogErrors.md"
    pages = {each["page"] for each in ran.document["findings"] if each["page"]}
    assert all((ROOT / page).is_file() for page in pages)


@pytest.mark.parametrize("page", [page for _, _, page in doctoring_stack._QUEUES])
def test_each_queue_has_a_page(page):
    assert (ROOT / "runbooks" / f"{page}.md").is_file()


def test_who_may_not_see_the_stack_is_told_so_and_nothing_is_called_well(desk, lab, things):
    things.denied = {"DescribeStacks"}
    deny(lab, "cloudwatch:DescribeAlarms")
    deny(lab, "dynamodb:DescribeTable")
    deny(lab, "sns:GetTopicAttributes")
    deny(lab, "iam:SimulatePrincipalPolicy")

    ran = desk.run("doctor", "--json")

    assert ran.code == 0
    whole, unseen = found(ran, "stack")
    assert (whole["verdict"], unseen["verdict"]) == ("ok", "skipped")
    assert "may not call cloudformation:DescribeStacks" in unseen["seen"]
    for check in ("schedule", "functions", "queues"):
        assert the_one(ran, check)["seen"] == "not known, because of what is said at stack"
    for check in ("alarms", "ledger", "topic"):
        assert the_one(ran, check)["verdict"] == "skipped"
    for action in ("dynamodb:PutItem", "ssm:PutParameter"):
        told = the_one(ran, "permissions", action)
        assert (told["verdict"], told["fix"]) == (
            "skipped",
            "grant iam:SimulatePrincipalPolicy to find out",
        )
    assert {each["verdict"] for each in found(ran, "heartbeat")} == {"ok"}, "the ledger may be read"


def test_a_silent_watchdog_whose_people_would_not_hear_it(desk, lab):
    forget_everything(lab)
    a_stack(lab, opt_in_tag={"key": "team", "value": "storage"})
    lab.client("sns").create_topic(Name="burstwatch")
    push_by_hand(lab, PLAIN, over="another\n")
    with deployed_things() as things:
        desk.set(AWS_ENDPOINT_URL_CLOUDFORMATION=things.url, AWS_ENDPOINT_URL_LAMBDA=things.url)
        things.function("Notify")["Environment"] = {"Variables": {"BURSTWATCH_SLACK_SECRET": "gone"}}
        ran = desk.run("doctor", "--json")

    assert {(each["about"], each["verdict"]) for each in found(ran, "heartbeat")} == {
        ("sweep", "broken"),
        ("focus", "broken"),
    }
    assert found(ran, "heartbeat")[0]["page"] == "runbooks/WatchdogSilent.md"
    assert the_one(ran, "subscriptions")["seen"] == "heard by Slack"
    told = the_one(ran, "slack")
    assert told["verdict"] == "broken"
    assert "is to be in the secret gone, which is not there" in told["seen"]
    outdated, mismatch = found(ran, "policy")
    assert outdated["commands"] == ["burstctl policy push --withdraw --region us-east-1"]
    assert (mismatch["about"], mismatch["verdict"]) == ("mode.opt_in_tag", "broken")
    assert "may modify only volumes tagged team=storage" in mismatch["seen"]
    assert the_one(ran, "schedule")["seen"] == "0 of 2 schedules start the watch function"
    assert ran.code == 3


def test_a_ledger_of_ones_own_beside_a_stack_is_not_heard_there(desk, lab, things):
    ran = desk.run("doctor", "--json", "--ledger", "sqlite:mine")

    told = the_one(ran, "ledger", None) if len(found(ran, "ledger")) == 1 else found(ran, "ledger")[1]
    assert told["verdict"] == "warning"
    assert "stack burstwatch is deployed and does not hear of what is in sqlite:" in told["seen"]
    assert the_one(ran, "heartbeat")["verdict"] == "skipped"
    assert os.listdir(desk.directory) == []  # noqa: PTH208 - names are enough


def test_a_card_that_cannot_be_read(desk, lab):
    forget_everything(lab)
    lab.client("ssm").put_parameter(
        Name="/burstwatch/deployments/odd", Value="{}", Type="String", Overwrite=True
    )

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "stack")
    assert told["verdict"] == "broken"
    assert "/burstwatch/deployments/odd cannot be read" in told["seen"]


def test_whom_a_function_tells_whose_settings_may_not_be_seen_is_not_known(desk, lab, things):
    """Neither that nobody hears, nor that there is no Slack."""
    sns = lab.client("sns")
    topic_arn = "arn:aws:sns:us-east-1:123456789012:burstwatch"
    for one in sns.list_subscriptions_by_topic(TopicArn=topic_arn)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])
    things.denied = {"GetFunctionConfiguration"}

    ran = desk.run("doctor", "--json")

    assert the_one(ran, "subscriptions")["verdict"] == "skipped"
    assert "its settings were not seen" in the_one(ran, "subscriptions")["seen"]
    assert the_one(ran, "slack")["seen"] == (
        "whether the stack tells Slack is not known, because of what is said at functions"
    )
    assert "lambda:GetFunctionConfiguration" in the_one(ran, "functions")["about"]
