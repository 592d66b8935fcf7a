"""The webhook over real HTTP: what Slack may answer, and how long one waits for it."""

import socket
import ssl
import time as wall
import traceback
from urllib.error import URLError

import pytest

from burstwatch.adapters.notify import slack_webhook
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_webhook import LocalRateLimiter, RateLimitedError, SlackWebhook
from support.delivery.fake_slack import NO_RESPONSE, SECRET


def refusal(webhook, **options):
    with pytest.raises(ChannelError) as exc_info:
        webhook.post({"text": "hello"}, **options)
    return exc_info.value


def test_a_message_that_slack_takes_is_posted_once(slack, webhook):
    webhook.post({"text": "hello"})
    assert slack.payloads == [{"text": "hello"}]


def test_a_pause_within_the_time_there_is_is_kept(slack, webhook, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "7"})]
    webhook.post({"text": "hello"}, max_wait_s=10)
    assert time.slept == [7.0]
    assert len(slack.posts) == 2


def test_a_pause_beyond_the_time_there_is_is_not_begun(slack, webhook, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "11"})]
    error = refusal(webhook, max_wait_s=10)
    assert (error.is_permanent, time.slept) == (False, [])
    assert "next message in 11 s, and this one may wait 10 s" in str(error)


def test_with_no_time_left_a_message_goes_at_once_or_not_at_all(slack, webhook):
    webhook.post({"text": "first"}, max_wait_s=0)
    assert not refusal(webhook, max_wait_s=0).is_permanent
    assert not refusal(webhook, max_wait_s=-3).is_permanent
    assert slack.payloads == [{"text": "first"}]


@pytest.mark.parametrize(
    ("answer", "is_permanent", "message"),
    [
        ((404, "no_service", {}), True, "make a new incoming webhook"),
        ((410, "channel_is_archived", {}), True, "unarchive the channel"),
        ((410, "gone", {}), True, "check the webhook"),
        ((500, "rollup_error", {}), False, "it is tried again"),
        (None, False, "could not be reached"),
    ],
)
def test_the_slack_status_decides_whether_to_retry(slack, webhook, answer, is_permanent, message):
    slack.answers = [answer]
    error = refusal(webhook)
    assert (error.is_permanent, message in str(error)) == (is_permanent, True)


@pytest.mark.parametrize(
    ("reason", "next_step"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            "check the host of the webhook's address, and the DNS",
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            "nothing listens there: check the host and the port",
        ),
        (TimeoutError("timed out"), "allow HTTPS to the host of the webhook's address"),
        (
            ssl.SSLCertVerificationError("certificate verify failed"),
            "whether a proxy replaces its certificate",
        ),
        (ConnectionResetError(104, "Connection reset by peer"), "check the network, any proxy"),
    ],
)
@pytest.mark.parametrize("wrap", [URLError, lambda reason: reason], ids=["connecting", "reading"])
def test_a_webhook_out_of_reach_has_the_next_step_of_its_cause(time, reason, next_step, wrap):
    def fail(*_, **__):
        raise wrap(reason)

    webhook = SlackWebhook("https://hooks.slack.com/x", open_url=fail, sleep=time.sleep, clock=time)
    error = refusal(webhook)

    assert error.problem.cause == f"Slack could not be reached ({reason}); it is tried again"
    assert next_step in error.problem.fix


@pytest.mark.parametrize(
    "host", ["hooks.slack.com", "192.168.1.5:8080", "127.0.0.1.example.com", "localhost.example.com"]
)
def test_plain_http_goes_to_this_machine_only(host):
    with pytest.raises(ChannelError) as exc_info:
        SlackWebhook(f"http://{host}/services/x")

    assert exc_info.value.is_permanent
    assert exc_info.value.problem.fix == "copy it again; http:// is for this machine only"


def test_a_server_that_never_answers_is_left_after_the_timeout(slack, webhook, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [NO_RESPONSE]
    started_at_s = wall.monotonic()
    error = refusal(webhook)
    assert wall.monotonic() - started_at_s < 5
    assert (error.is_permanent, "timed out" in str(error)) == (False, True)


@pytest.mark.parametrize(
    "answer", [None, NO_RESPONSE, (302, "", {"Location": "/services/x"}), (404, SECRET, {})]
)
def test_no_error_contains_the_address(slack, webhook, answer, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [answer]
    rendered = "".join(traceback.format_exception(refusal(webhook)))
    assert SECRET not in rendered


# Turns


def test_posts_are_a_second_apart(time):
    turns = LocalRateLimiter(time)
    assert [turns.acquire(30) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    time.now_s += 10
    assert turns.acquire(0) == 0.0


def test_a_slot_beyond_the_time_left_is_not_taken(time):
    turns = LocalRateLimiter(time)
    turns.back_off(5)
    with pytest.raises(RateLimitedError, match="5 s off"):
        turns.acquire(4.9)
    assert turns.acquire(5) == 5.0


def test_a_pause_never_makes_a_longer_one_shorter(time):
    turns = LocalRateLimiter(time)
    turns.back_off(20)
    turns.back_off(5)
    assert turns.acquire(30) == 20.0


def test_two_webhooks_with_one_limiter_alternate(slack, time):
    turns = LocalRateLimiter(time)
    first, second = (
        SlackWebhook(slack.url, rate_limiter=turns, sleep=time.sleep, clock=time) for _ in range(2)
    )
    first.post({"text": "a"})
    second.post({"text": "b"})
    assert time.slept == [1.0]
