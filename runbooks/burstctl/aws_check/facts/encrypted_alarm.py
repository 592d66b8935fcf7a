"""Whether an alarm can publish to a topic that a customer key encrypts, under the deployed key policy."""

import json
from typing import Any, Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.queues import ACTIONS as QUEUE_ACTIONS
from burstctl.aws_check.queues import create_queue, queue_arn, receive_messages
from burstctl.aws_check.resources import make_tags
from burstctl.aws_check.result import Measurement, Steps

_ATTEMPTS: Final = 3  # a policy may take longer than a minute to be known everywhere
_PROPAGATION_S: Final = 60
"""A new policy may take this long to be effective everywhere, and a message to arrive."""

_POLL_INTERVAL_S: Final = 5  # the message arrives within seconds, or not at all


def judge(delivered_after_s: float | None, history: list[str]) -> Measurement:
    """By whether the message arrived; the alarm's history says why not."""
    if delivered_after_s is None:
        return Measurement(answer="not delivered", evidence={"history": history})
    return Measurement(answer="delivered", evidence={"after_s": round(delivered_after_s)})


def measure(context: FactContext) -> Steps:
    """Let an alarm go off, and look for its message in a queue."""
    cloudwatch = context.client("cloudwatch")
    topic, queue = _create_topic_and_queue(context)
    context.create("alarm", lambda: _create_alarm(context, topic))
    yield _PROPAGATION_S
    for _ in range(_ATTEMPTS):
        started_at_s = context.now_s()
        for state in ("OK", "ALARM"):
            cloudwatch.set_alarm_state(
                AlarmName=context.resource_name, StateValue=state, StateReason="burstctl aws-check"
            )
        while context.now_s() < started_at_s + _PROPAGATION_S:
            if receive_messages(context, queue):
                return judge(context.now_s() - started_at_s, [])
            yield _POLL_INTERVAL_S
    response = cloudwatch.describe_alarm_history(AlarmName=context.resource_name, HistoryItemType="Action")
    return judge(None, [str(item.get("HistorySummary")) for item in response.get("AlarmHistoryItems", ())])


def _create_topic_and_queue(context: FactContext) -> tuple[str, str]:
    """Create a key, a topic that it encrypts, and a subscribed queue; return the topic and the queue."""
    sns, kms = context.client("sns"), context.client("kms")
    arn_prefix = f"arn:{context.partition}"
    region_and_account = f"{context.run_file.region}:{context.run_file.account}"
    topic_arn = f"{arn_prefix}:sns:{region_and_account}:{context.resource_name}"
    key_tags = [
        {"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in make_tags(context.run_file.run_id)
    ]
    key_policy = _policy_json(
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"{arn_prefix}:iam::{context.run_file.account}:root"},
            "Action": "kms:*",
            "Resource": "*",
        },
        _alarm_statement(context, ["kms:Decrypt", "kms:GenerateDataKey*"], "*"),
    )
    key = context.create(
        "key", lambda: str(kms.create_key(Policy=key_policy, Tags=key_tags)["KeyMetadata"]["KeyId"])
    )
    attributes = {
        "KmsMasterKeyId": key,
        "Policy": _policy_json(_alarm_statement(context, ["sns:Publish"], topic_arn)),
    }
    topic = context.create(
        "topic",
        lambda: str(
            sns.create_topic(
                Name=context.resource_name, Attributes=attributes, Tags=make_tags(context.run_file.run_id)
            )["TopicArn"]
        ),
    )
    queue = create_queue(context, context.resource_name, service="sns", source_arn=topic_arn)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(context, context.resource_name))
    return topic, queue


def _create_alarm(context: FactContext, topic: str) -> str:
    """An alarm on a metric without datapoints: only SetAlarmState moves it."""
    context.client("cloudwatch").put_metric_alarm(
        AlarmName=context.resource_name,
        Namespace="burstwatch/aws-check",
        MetricName="none",
        Statistic="Maximum",
        Period=300,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="ignore",
        AlarmActions=[topic],
        Tags=make_tags(context.run_file.run_id),
    )
    return context.resource_name


def _alarm_statement(context: FactContext, actions: list[str], resource: str) -> dict[str, Any]:
    """As in the deployed stack: alarms of this account with this name."""
    region_and_account = f"{context.run_file.region}:{context.run_file.account}"
    return {
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": actions,
        "Resource": resource,
        "Condition": {
            "StringEquals": {"aws:SourceAccount": context.run_file.account},
            "ArnLike": {
                "aws:SourceArn": (
                    f"arn:{context.partition}:cloudwatch:{region_and_account}:alarm:{context.resource_name}*"
                )
            },
        },
    }


def _policy_json(*statements: dict[str, Any]) -> str:
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
