import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from burstlab.fake_aws.slack import SlackReceiver, find_problems
from burstwatch.adapters.notify import slack
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack import SlackChannel
from support.builders.alerts import (
    a_digest,
    a_policy_rejection,
    an_alert,
    an_event_digest,
    event_alerts_of_every_kind,
)


def post(receiver, body, *, content_type="application/json", path=None):
    url = urlsplit(receiver.url)
    connection = HTTPConnection(url.hostname, url.port, timeout=5)
    try:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path or url.path, payload, {"Content-Type": content_type})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers.get("Retry-After")
    finally:
        connection.close()


def a_section(text):
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def a_message(*blocks):
    return {"text": "dry at about 18:05", "blocks": list(blocks)}


def test_a_message_is_accepted_and_kept(receiver):
    assert post(receiver, a_message(a_section("*vol-1* drains"))) == (200, "ok", None)
    [message] = receiver.messages
    assert message.full_text == "dry at about 18:05\n*vol-1* drains"


def test_what_cannot_be_understood_is_an_invalid_payload(receiver):
    assert post(receiver, b"{")[:2] == (400, "invalid_payload")
    assert post(receiver, b"[]")[:2] == (400, "invalid_payload")
    assert post(receiver, b"payload=%7B%7D", content_type="text/plain")[:2] == (400, "invalid_payload")
    assert receiver.all_messages == []


def test_another_address_is_not_a_service_of_slacks(receiver):
    assert post(receiver, a_message(), path="/services/T0/B0/x")[:2] == (404, "no_service")


def test_a_message_that_notifications_could_not_show_is_refused(receiver):
    assert post(receiver, {"blocks": [a_section("x")]})[:2] == (400, "no_text")
    assert receiver.messages == []
    assert receiver.all_messages[0].problems == ["text: it is missing, and notifications show nothing else"]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        (a_section("x" * 3_001), "blocks[0].text.text: 3001 characters, more than 3000"),
        (a_section("🔴" * 1_501), "blocks[0].text.text: 3002 characters, more than 3000"),
        (a_section(""), "blocks[0].text.text: no text"),
        ({"type": "section"}, "blocks[0]: neither text nor fields"),
        ({"type": "section", "text": "x"}, "blocks[0].text: not a text object"),
        (
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "x" * 2_001}]},
            "blocks[0].fields[0].text: 2001 characters, more than 2000",
        ),
        (
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "x"}] * 11},
            "blocks[0].fields: 11, more than 10",
        ),
        (
            {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}},
            "blocks[0].text.text: 151 characters, more than 150",
        ),
        (
            {"type": "header", "text": {"type": "mrkdwn", "text": "x"}},
            "blocks[0].text: type 'mrkdwn' is not plain_text",
        ),
        (
            {"type": "section", "text": {"type": "mrkdwn", "text": "x", "emoji": False}},
            "blocks[0].text.emoji: unknown",
        ),
        ({"type": "context", "elements": []}, "blocks[0].elements: no list of at least one"),
        (
            {"type": "context", "elements": [{"type": "plain_text", "text": "x"}] * 11},
            "blocks[0].elements: 11, more than 10",
        ),
        (
            {
                "type": "actions",
                "elements": [{"type": "button", "text": {"type": "plain_text", "text": "x" * 76}}],
            },
            "blocks[0].elements[0].text.text: 76 characters, more than 75",
        ),
        ({"type": "image", "image_url": "https://example.com/a.png"}, "blocks[0].alt_text: no text"),
        (
            {"type": "marquee"},
            "blocks[0]: type 'marquee' is none of header, section, context, actions, image, divider",
        ),
        ({"type": "divider", "colour": "red"}, "blocks[0].colour: unknown"),
        ("divider", "blocks[0]: not an object"),
    ],
)
def test_a_block_that_slack_would_refuse_is_refused_with_its_place(receiver, block, fault):
    assert post(receiver, a_message(block))[:2] == (400, "invalid_blocks")
    assert receiver.all_messages[0].problems == [fault]


def test_the_limits_of_a_whole_message_are_kept_too():
    divider = {"type": "divider"}
    assert find_problems(a_message(*[divider] * 50)) == []
    assert find_problems(a_message(*[divider] * 51)) == ["blocks: 51, more than 50"]
    assert find_problems(a_message(*[a_section("x" * 2_700)] * 5)) == [
        "blocks: 13500 characters in all, more than 13000"
    ]
    assert find_problems(a_message(*[divider | {"block_id": "a"}] * 2)) == ["blocks: a block_id stands twice"]


def test_posting_faster_than_allowed_returns_retry_after():
    now = [0.0]
    with SlackReceiver(clock=lambda: now[0]) as receiver:
        first = [post(receiver, a_message())[0] for _ in range(5)]
        assert first == [200, 200, 200, 200, 429]
        assert post(receiver, a_message()) == (429, "rate_limited", "1")
        now[0] += 1
        assert [post(receiver, a_message())[0] for _ in range(2)] == [200, 429]
        assert len(receiver.messages) == 5


def test_a_refusal_can_be_ordered_as_often_as_it_is_wanted(receiver):
    receiver.respond_with(429, "rate_limited", times=2, retry_after_s=1)
    receiver.respond_with(404, "no_service")
    answers = [post(receiver, a_message()) for _ in range(4)]
    assert answers == [(429, "rate_limited", "1")] * 2 + [(404, "no_service", None), (200, "ok", None)]


def test_it_waits_for_the_message_that_is_wanted(receiver):
    post(receiver, a_message())
    assert receiver.wait_for(lambda message: "18:05" in message.text, timeout_s=5) is receiver.messages[0]
    assert receiver.wait_for(lambda message: "19:05" in message.text, timeout_s=0.05) is None


def test_our_own_messages_are_what_slack_takes():
    alerts = [an_alert(), a_digest(), a_policy_rejection("mode.highest: unknown"), an_event_digest()]
    for alert in [*alerts, *event_alerts_of_every_kind(), *event_alerts_of_every_kind("<!channel> 🔴" * 20)]:
        assert find_problems(slack.render(alert)) == []


def test_our_own_channel_takes_it_for_slack(receiver):
    channel = SlackChannel(receiver.url, sleep=lambda _: None)
    channel.send(an_alert())
    assert len(receiver.messages) == 1
    receiver.respond_with(400, "invalid_blocks")
    with pytest.raises(ChannelError, match="invalid_blocks"):
        channel.send(an_alert())
