from threading import Lock

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber
from moto import mock_aws

from burstwatch.adapters.notify.idempotency import SentLog, SharedRateLimiter
from burstwatch.adapters.notify.slack import SlackChannel
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.adapters.notify.sns import SnsChannel
from support.aws.stub_clients import stubbed_client
from support.delivery.fake_delivery import TOPIC
from support.delivery.fake_slack import FakeTime
from support.ledger.ledger_stores import TABLE, make_table


@pytest.fixture
def client():
    with mock_aws():
        client = stubbed_client("dynamodb")
        make_table(client)
        yield client


@pytest.fixture
def sent_log(client):
    return SentLog(client, TABLE)


class Sends:
    """Counts what was sent; does ``error`` instead while there is one."""

    def __init__(self):
        self.count = 0
        self.error = None

    def __call__(self):
        if self.error:
            raise self.error
        self.count += 1


@pytest.fixture
def send():
    return Sends()


@pytest.fixture
def put_one_at_a_time(client, monkeypatch):
    """DynamoDB looks at the condition and writes in one step; moto does it in two."""
    lock, put_item = Lock(), client.put_item

    def put_alone(**fields):
        with lock:
            return put_item(**fields)

    monkeypatch.setattr(client, "put_item", put_alone)


@pytest.fixture
def wall_time():
    return FakeTime(1_795_197_635.0)


@pytest.fixture
def rate_limiter(client, wall_time):
    return SharedRateLimiter(client, TABLE, "slack", clock=wall_time, sleep=lambda _: None)


@pytest.fixture
def channel(slack, time):
    return SlackChannel(slack.url, sleep=time.sleep, clock=time)


@pytest.fixture
def webhook(slack, time):
    return SlackWebhook(slack.url, sleep=time.sleep, clock=time)


@pytest.fixture(scope="module")
def sns():
    return boto3.client(
        "sns",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def publish(sns):
    """Sends an alert through botocore's own checks of the request; returns that request."""

    def keep(params, **_):
        published.append(params)

    def send_and_check(alert, topic_arn=TOPIC):
        with Stubber(sns) as stub:
            stub.add_response("publish", {"MessageId": "1"})
            SnsChannel(sns, topic_arn).send(alert)
            stub.assert_no_pending_responses()
        return published[-1]

    published = []
    sns.meta.events.register("provide-client-params.sns.Publish", keep, unique_id="keep")
    yield send_and_check
    sns.meta.events.unregister("provide-client-params.sns.Publish", unique_id="keep")
