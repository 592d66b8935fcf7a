"""A queue of the run, which one topic or rule of the run may send to."""

import json
from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.resources import tags

ACTIONS: Final = (
    "sqs:CreateQueue",
    "sqs:TagQueue",
    "sqs:SetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:DeleteQueue",
)


def queue_arn(bench: Bench, name: str) -> str:
    """The ARN that a queue of this name has."""
    return f"arn:{bench.partition}:sqs:{bench.run.region}:{bench.run.account}:{name}"


def create_queue(bench: Bench, name: str, *, service: str, source_arn: str) -> str:
    """Create it and answer its URL; ``service`` sends for ``source_arn``."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn(bench, name),
        "Condition": {"ArnEquals": {"aws:SourceArn": source_arn}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    named = {each["Key"]: each["Value"] for each in tags(bench.run.run_id)}

    def create() -> str:
        response = bench.client("sqs").create_queue(QueueName=name, Attributes={"Policy": policy}, tags=named)
        return str(response["QueueUrl"])

    return bench.create("queue", create)


def receive(bench: Bench, url: str) -> list[str]:
    """The bodies of the messages that are there, which are taken out of the queue."""
    sqs = bench.client("sqs")
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    for message in found:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [str(message["Body"]) for message in found]
