"""Whether an alarm can publish to a topic that a customer key encrypts, under the deployed key policy."""

import json
from typing import Any, Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.queues import ACTIONS as QUEUE_ACTIONS
from burstctl.aws_check.queues import create_queue, queue_arn, receive
from burstctl.aws_check.resources import tags
from burstctl.aws_check.result import Measured, Steps

_ATTEMPTS: Final = 3
_PATIENCE_S: Final = 60
"""So long a new policy may take to be known everywhere, and a message to arrive."""

_LOOK_EVERY_S: Final = 5


def judge(delivered_after_s: float | None, history: list[str]) -> Measured:
    """By whether the message arrived; the alarm's history says why not."""
    if delivered_after_s is None:
        return Measured(answer="not delivered", evidence={"history": history})
    return Measured(answer="delivered", evidence={"after_s": round(delivered_after_s)})


def measure(bench: Bench) -> Steps:
    """Let an alarm go off, and look for its message in a queue."""
    cloudwatch = bench.client("cloudwatch")
    topic, queue = _build(bench)
    bench.create("alarm", lambda: _alarm(bench, topic))
    yield _PATIENCE_S
    for _ in range(_ATTEMPTS):
        began_s = bench.now_s()
        for state in ("OK", "ALARM"):
            cloudwatch.set_alarm_state(
                AlarmName=bench.name, StateValue=state, StateReason="burstctl aws-check"
            )
        while bench.now_s() < began_s + _PATIENCE_S:
            if receive(bench, queue):
                return judge(bench.now_s() - began_s, [])
            yield _LOOK_EVERY_S
    response = cloudwatch.describe_alarm_history(AlarmName=bench.name, HistoryItemType="Action")
    return judge(None, [str(item.get("HistorySummary")) for item in response.get("AlarmHistoryItems", ())])


def _build(bench: Bench) -> tuple[str, str]:
    """A key, a topic that it encrypts, and a queue that hears the topic; answers topic and queue."""
    sns, kms = bench.client("sns"), bench.client("kms")
    arn = f"arn:{bench.partition}"
    place = f"{bench.run.region}:{bench.run.account}"
    topic_arn = f"{arn}:sns:{place}:{bench.name}"
    key_tags = [{"TagKey": each["Key"], "TagValue": each["Value"]} for each in tags(bench.run.run_id)]
    key_policy = _policy(
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"{arn}:iam::{bench.run.account}:root"},
            "Action": "kms:*",
            "Resource": "*",
        },
        _for_alarms(bench, ["kms:Decrypt", "kms:GenerateDataKey*"], "*"),
    )
    key = bench.create(
        "key", lambda: str(kms.create_key(Policy=key_policy, Tags=key_tags)["KeyMetadata"]["KeyId"])
    )
    attributes = {
        "KmsMasterKeyId": key,
        "Policy": _policy(_for_alarms(bench, ["sns:Publish"], topic_arn)),
    }
    topic = bench.create(
        "topic",
        lambda: str(
            sns.create_topic(Name=bench.name, Attributes=attributes, Tags=tags(bench.run.run_id))["TopicArn"]
        ),
    )
    queue = create_queue(bench, bench.name, service="sns", source_arn=topic_arn)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(bench, bench.name))
    return topic, queue


def _alarm(bench: Bench, topic: str) -> str:
    """An alarm on a metric without datapoints: only SetAlarmState moves it."""
    bench.client("cloudwatch").put_metric_alarm(
        AlarmName=bench.name,
        Namespace="burstwatch/aws-check",
        MetricName="none",
        Statistic="Maximum",
        Period=300,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="ignore",
        AlarmActions=[topic],
        Tags=tags(bench.run.run_id),
    )
    return bench.name


def _for_alarms(bench: Bench, actions: list[str], resource: str) -> dict[str, Any]:
    """As in the deployed stack: alarms of this account with this name."""
    place = f"{bench.run.region}:{bench.run.account}"
    return {
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": actions,
        "Resource": resource,
        "Condition": {
            "StringEquals": {"aws:SourceAccount": bench.run.account},
            "ArnLike": {"aws:SourceArn": f"arn:{bench.partition}:cloudwatch:{place}:alarm:{bench.name}*"},
        },
    }


def _policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


FACT: Final = Fact(
    name="encrypted-alarm",
    question="Does an alarm reach a queue through a topic that is encrypted with a customer key?",
    why="The deployed alarms about the watchdog itself go this way, and a refusal shows in no metric.",
    minutes=20,
    actions=(
        "kms:CreateKey",
        "kms:TagResource",
        "kms:DescribeKey",
        "kms:ListKeys",
        "kms:ListResourceTags",
        "kms:ScheduleKeyDeletion",
        "sns:CreateTopic",
        "sns:TagResource",
        "sns:SetTopicAttributes",
        "sns:Subscribe",
        "sns:ListTagsForResource",
        "sns:DeleteTopic",
        *QUEUE_ACTIONS,
        "cloudwatch:PutMetricAlarm",
        "cloudwatch:TagResource",
        "cloudwatch:SetAlarmState",
        "cloudwatch:DescribeAlarms",
        "cloudwatch:DescribeAlarmHistory",
        "cloudwatch:ListTagsForResource",
        "cloudwatch:DeleteAlarms",
    ),
    measure=measure,
    cost=Cost(kms_keys=1, alarms=1),
)
