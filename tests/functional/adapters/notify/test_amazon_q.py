"""The custom format of AWS's chat service: what it must hold, its limits, and nothing live from outside."""

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from burstwatch.adapters.notify.amazon_q import AmazonQChannel, render_custom_notification
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import message_from_alert, parse_message
from support.aws.stub_clients import refuse_next_call, stubbed_client
from support.builders.alerts import (
    a_digest,
    a_drain_alert_with_cause,
    a_policy_rejection,
    an_alert,
    event_alerts_of_every_kind,
)
from support.builders.sns_records import an_alarm

TOPIC = "arn:aws:sns:us-east-1:123456789012:chat"


def assert_within_limits(message):
    """As the service's documentation has them."""
    content = message["content"]
    assert (message["version"], message["source"]) == ("1.0", "custom")
    assert content["textType"] == "client-markdown"
    assert 1 <= len(content["description"]) <= 8000
    assert 1 <= len(content["title"]) <= 250
    assert all(1 <= len(step) <= 350 for step in content["nextSteps"])
    assert all(1 <= len(keyword) <= 75 for keyword in content["keywords"])
    assert all(isinstance(value, str) for value in message["metadata"]["additionalContext"].values())
    assert len(json.dumps(message).encode()) < 64 * 1024


def message_text(message):
    content = message["content"]
    return "\n".join([content["title"], content["description"], *content["nextSteps"], *content["keywords"]])


def test_an_alert_states_all_that_a_person_needs():
    alert = an_alert()
    message = render_custom_notification(message_from_alert(alert))
    assert_within_limits(message)
    for needed in (
        "🔴 CRITICAL: ci-7",
        "31.5 %",
        "18:12",
        alert.alert_id,
        "Attached as: /dev/xvda on i-0fedcba9876543210",
    ):
        assert needed in message_text(message)
    steps = message["content"]["nextSteps"]
    assert steps == [
        f"`{alert.action}`",
        "See why: `burstctl explain vol-0123456789abcdef0 --region us-east-1`",
        f"Runbook: {alert.runbook}",
        f"Volume in the AWS console: {alert.console_url}",
    ]
    assert render_custom_notification(message_from_alert(a_drain_alert_with_cause()))["content"]["nextSteps"][
        1:3
    ] == [
        "See why: `burstctl explain vol-0123456789abcdef0 --region us-east-1`",
        "Stop automatic changes: `burstctl hold vol-0123456789abcdef0 --region us-east-1 --for 2h"
        " --reason 'looking at it'`",
    ]
    assert message["id"] == alert.alert_id
    assert message["content"]["keywords"] == ["BurstBalanceDraining", "vol-0123456789abcdef0"]


def test_what_is_about_one_volume_is_one_thread():
    first, second = (render_custom_notification(message_from_alert(an_alert(alert_id=i))) for i in ("1", "2"))
    assert first["metadata"]["threadId"] == second["metadata"]["threadId"] == "vol-0123456789abcdef0"


def test_an_alarm_is_reported_with_its_page():
    message = render_custom_notification(parse_message(an_alarm()))
    assert_within_limits(message)
    assert message["content"]["title"] == "🔴 ALARM: WatchdogSilent (us-east-1)"
    assert "Runbook: https://wiki.example.com/runbooks/WatchdogSilent.md" in message["content"]["nextSteps"]


def test_a_late_message_is_marked_as_late():
    text = render_custom_notification(message_from_alert(an_alert()), delay_note="delivered 42 min late")[
        "content"
    ]["description"]
    assert text.endswith("· delivered 42 min late")


@pytest.mark.parametrize(
    "alert",
    [a_digest(25), a_policy_rejection(*["wrong " * 100] * 60), *event_alerts_of_every_kind()],
    ids=lambda a: a.kind,
)
def test_every_alert_fits(alert):
    assert_within_limits(render_custom_notification(message_from_alert(alert)))


LIVE_MARKUP = st.sampled_from(
    ["<!channel>", "<@U012AB3CD>", "<#C01>", "<http://evil.example|x>", "http://evil.example", "@here", ":x:",
     "[click](http://evil.example)", "[x]: javascript:1", "**bold**", "__x__", "~~no~~", "`code`", "```",
     "&lt;", "<b>x</b>", "\\", "\n# head", "\u202e", "\U0001d518" * 300, "x" * 900]
)  # fmt: skip
EXTERNAL_TEXT = st.lists(LIVE_MARKUP | st.text(max_size=60), max_size=4).map("".join)


@settings(max_examples=150, deadline=None)
@given(EXTERNAL_TEXT, EXTERNAL_TEXT, EXTERNAL_TEXT)
@example("[click](http://evil.example)", "` <@U012AB3CD> `", "https://evil.example/`<!here>`")
def test_external_text_is_inert_and_fits(name, action, runbook):
    alert = an_alert(
        volume={"name": name, "instance_id": name, "device": name, "region": name, "account": name},
        evidence={"tag_faults": [name] * 30},
        action=action,
        runbook=runbook,
    )
    message = render_custom_notification(message_from_alert(alert))
    assert_within_limits(message)
    link_line = f"Volume in the AWS console: {alert.console_url}"
    for text in message_text(message).replace(link_line, "").splitlines():
        bare = re.sub(r"`[^`]*`", "", text)
        assert not re.search(r"[<>@`]", bare), text
        assert not re.search(r"\]\(|\*\*|__|~~", bare), text
        assert not re.search(r"[<@]", text), text
        if not text.startswith("Runbook: https://"):
            assert "://" not in bare, text


# On the topic


def test_the_message_is_published_as_it_is():
    with mock_aws():
        sns, sqs = stubbed_client("sns"), stubbed_client("sqs")
        topic = sns.create_topic(Name="chat")["TopicArn"]
        queue = sqs.create_queue(QueueName="seen")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        attributes = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
        AmazonQChannel(sns, topic).post(message_from_alert(an_alert()), delay_note=None, max_wait_s=30)
        (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(message["Body"]) == render_custom_notification(message_from_alert(an_alert()))


@pytest.mark.parametrize(
    ("code", "is_permanent", "message"),
    [
        ("AuthorizationError", True, "sns:Publish to arn:aws:sns"),
        ("NotFound", True, "check the id"),
        ("KMSAccessDenied", True, "allows kms:GenerateDataKey and kms:Decrypt"),
        ("KMSThrottling", False, "key"),
        ("Throttled", False, "Throttled"),
        ("InternalError", False, "try again"),
    ],
)
def test_a_refusal_by_sns_names_what_to_do(code, is_permanent, message):
    sns = stubbed_client("sns")
    with refuse_next_call(sns, "Publish", code=code, message="no"), pytest.raises(ChannelError) as exc_info:
        AmazonQChannel(sns, TOPIC).post(message_from_alert(an_alert()), delay_note=None, max_wait_s=30)
    assert (exc_info.value.is_permanent, message in str(exc_info.value)) == (is_permanent, True)
