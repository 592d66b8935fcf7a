"""The function that notifies, with a secret, a table and a topic."""

import json
from io import StringIO
from itertools import count

import pytest

from burstwatch.handlers.notify import NotDeliveredError, run
from burstwatch.wiring.bootstrap_notify import NotifyServices, build_chat_channels
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Telemetry
from support.aws.stub_clients import stubbed_client
from support.ledger.ledger_stores import TABLE, make_table

NOW_S = 1_795_197_637.0
"""2026-11-20T18:00:37Z, a second after SNS took the messages."""


SECRET_VALUES = "burstwatch/slack"


NUMBERS = count()


class Session:
    """As bootstrap's, with credentials of no account."""

    region_name = "us-east-1"

    def client(self, service_name, *, config, endpoint_url):
        return stubbed_client(service_name)


class NotifyFunction:
    """The function as deployed, with what it said and what its people saw."""

    def __init__(self, slack, *, secret=SECRET_VALUES, chat=True):
        self.slack = slack
        self.log = StringIO()
        self.left_s = 60.0
        self.slept = []
        make_table(stubbed_client("dynamodb"))
        stubbed_client("secretsmanager").create_secret(Name=SECRET_VALUES, SecretString=slack.url)
        self.topic = stubbed_client("sns").create_topic(Name="chat")["TopicArn"]
        self.queue = stubbed_client("sqs").create_queue(QueueName="seen")["QueueUrl"]
        stubbed_client("sns").subscribe(
            TopicArn=self.topic,
            Protocol="sqs",
            Endpoint="arn:aws:sqs:us-east-1:123456789012:seen",
            Attributes={"RawMessageDelivery": "true"},
        )
        self.settings = NotifySettings(
            region="us-east-1",
            table=TABLE,
            deployment="prod",
            slack_secret=secret,
            chat_topic_arn=self.topic if chat else None,
        )
        self.start()

    def start(self):
        environ = {"POWERTOOLS_SERVICE_NAME": f"notify-{next(NUMBERS)}"}
        self.telemetry = Telemetry.from_env(environ, stream=self.log)
        self.tellers, self.sent = build_chat_channels(self.settings, Session(), sleep=self.slept.append)

    def invoke(self, event, *, now_s=NOW_S):
        shell = NotifyServices(
            channels=self.tellers,
            sent_log=self.sent,
            telemetry=self.telemetry,
            remaining_s=lambda: self.left_s,
        )
        return run(event, now_s, shell)

    def invoke_failing(self, event, **options):
        with pytest.raises(NotDeliveredError) as exc_info:
            self.invoke(event, **options)
        return str(exc_info.value)

    @property
    def chat_messages(self):
        client = stubbed_client("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in client.get("Messages", ())]

    @property
    def lines(self):
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def errors(self):
        return [line for line in self.lines if line["level"] == "ERROR"]

    @property
    def not_delivered(self):
        return sum(self.telemetry.metrics.metric_set.get("AlertsNotDelivered", {}).get("Value", [0]))
