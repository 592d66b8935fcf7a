"""A queue of the run, which one topic or rule of the run may send to."""

import json
from typing import Final

from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.resources import make_tags

ACTIONS: Final = (
    "sqs:CreateQueue",
    "sqs:TagQueue",
    "sqs:SetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:DeleteQueue",
)


def queue_arn(context: FactContext, name: str) -> str:
    """The ARN that a queue of this name has."""
    return f"arn:{context.partition}:sqs:{context.run_file.region}:{context.run_file.account}:{name}"


def create_queue(context: FactContext, name: str, *, service: str, source_arn: str) -> str:
    """Create it and answer its URL; ``service`` sends for ``source_arn``."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn(context, name),
        "Condition": {"ArnEquals": {"aws:SourceArn": source_arn}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    queue_tags = {tag["Key"]: tag["Value"] for tag in make_tags(context.run_file.run_id)}

    def create() -> str:
        response = context.client("sqs").create_queue(
            QueueName=name, Attributes={"Policy": policy}, tags=queue_tags
        )
        return str(response["QueueUrl"])

    return context.create("queue", create)


def receive_messages(context: FactContext, url: str) -> list[str]:
    """The bodies of the messages that are there, which are taken out of the queue."""
    sqs = context.client("sqs")
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [str(message["Body"]) for message in messages]
