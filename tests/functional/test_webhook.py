"""The webhook over real HTTP: what Slack may answer, and how long one waits for it."""

import time as wall
import traceback

import pytest
from fake_slack import SECRET, SILENCE, FakeTime, a_slack

from burstwatch.adapters.notify import slack_webhook
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_webhook import LocalTurns, PauseError, Webhook


@pytest.fixture
def slack():
    with a_slack() as fake:
        yield fake


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def hook(slack, time):
    return Webhook(slack.url, sleep=time.sleep, clock=time)


def refusal(hook, **options):
    with pytest.raises(ChannelError) as caught:
        hook.post({"text": "hello"}, **options)
    return caught.value


def test_a_message_that_slack_takes_is_posted_once(slack, hook):
    hook.post({"text": "hello"})
    assert slack.payloads == [{"text": "hello"}]


def test_a_pause_within_the_time_there_is_is_kept(slack, hook, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "7"})]
    hook.post({"text": "hello"}, longest_wait_s=10)
    assert time.slept == [7.0]
    assert len(slack.posts) == 2


def test_a_pause_beyond_the_time_there_is_is_not_begun(slack, hook, time):
    slack.answers = [(429, "rate_limited", {"Retry-After": "11"})]
    error = refusal(hook, longest_wait_s=10)
    assert (error.is_permanent, time.slept) == (False, [])
    assert "next message in 11 s, and this one may wait 10 s" in str(error)


def test_with_no_time_left_a_message_goes_at_once_or_not_at_all(slack, hook):
    hook.post({"text": "first"}, longest_wait_s=0)
    assert not refusal(hook, longest_wait_s=0).is_permanent
    assert not refusal(hook, longest_wait_s=-3).is_permanent
    assert slack.payloads == [{"text": "first"}]


@pytest.mark.parametrize(
    ("answer", "is_permanent", "says"),
    [
        ((404, "no_service", {}), True, "make a new incoming webhook"),
        ((410, "channel_is_archived", {}), True, "unarchive the channel"),
        ((410, "gone", {}), True, "check the webhook"),
        ((500, "rollup_error", {}), False, "it is tried again"),
        (None, False, "was not reached"),
    ],
)
def test_what_slack_answers_says_whether_to_try_again(slack, hook, answer, is_permanent, says):
    slack.answers = [answer]
    error = refusal(hook)
    assert (error.is_permanent, says in str(error)) == (is_permanent, True)


def test_a_server_that_never_answers_is_left_after_the_timeout(slack, hook, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [SILENCE]
    began = wall.monotonic()
    error = refusal(hook)
    assert wall.monotonic() - began < 5
    assert (error.is_permanent, "timed out" in str(error)) == (False, True)


@pytest.mark.parametrize("answer", [None, SILENCE, (302, "", {"Location": "/services/x"}), (404, SECRET, {})])
def test_the_address_stands_in_no_error(slack, hook, answer, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [answer]
    shown = "".join(traceback.format_exception(refusal(hook)))
    assert SECRET not in shown


# Turns


def test_turns_are_a_second_apart(time):
    turns = LocalTurns(time)
    assert [turns.take(30) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    time.now_s += 10
    assert turns.take(0) == 0.0


def test_a_turn_too_far_off_is_not_taken(time):
    turns = LocalTurns(time)
    turns.put_off(5)
    with pytest.raises(PauseError, match="5 s off"):
        turns.take(4.9)
    assert turns.take(5) == 5.0


def test_a_pause_never_makes_a_longer_one_shorter(time):
    turns = LocalTurns(time)
    turns.put_off(20)
    turns.put_off(5)
    assert turns.take(30) == 20.0


def test_two_webhooks_with_the_same_turns_take_turns(slack, time):
    turns = LocalTurns(time)
    first, second = (Webhook(slack.url, turns=turns, sleep=time.sleep, clock=time) for _ in range(2))
    first.post({"text": "a"})
    second.post({"text": "b"})
    assert time.slept == [1.0]
