"""What remembers what was sent, in a table as the stack makes it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.idempotency import (
    EXPIRY_ATTRIBUTE,
    PARTITION,
    SendStatus,
    SentLog,
    SharedRateLimiter,
)
from burstwatch.adapters.notify.slack_webhook import RateLimitedError
from support.aws.stub_clients import refuse_next_call
from support.delivery.fake_slack import FakeTime
from support.ledger.ledger_stores import TABLE


def permanent_error():
    return ChannelError("Slack refused", is_permanent=True)


# Once


def test_what_a_channel_took_is_not_sent_again(sent_log, send):
    assert sent_log.send_once("slack", "a1", send, lease_s=60).status is SendStatus.SENT
    assert sent_log.send_once("slack", "a1", send, lease_s=60).status is SendStatus.SENT_BEFORE
    assert send.count == 1


def test_channels_and_alerts_are_distinguished(sent_log, send):
    for channel, alert in (("slack", "a1"), ("chat", "a1"), ("slack", "a2")):
        assert sent_log.send_once(channel, alert, send, lease_s=60).status is SendStatus.SENT
    assert send.count == 3


def test_another_process_knows_what_was_sent(client, sent_log, send):
    sent_log.send_once("slack", "a1", send, lease_s=60)
    assert SentLog(client, TABLE).send_once("slack", "a1", send, lease_s=60).status is SendStatus.SENT_BEFORE


def test_what_was_refused_is_sent_again(sent_log, send):
    send.error = permanent_error()
    with pytest.raises(ChannelError, match="Slack refused"):
        sent_log.send_once("slack", "a1", send, lease_s=60)
    send.error = None
    assert sent_log.send_once("slack", "a1", send, lease_s=60).status is SendStatus.SENT


def test_what_another_invocation_is_sending_is_left_to_it(client, sent_log, send):
    def send_again():
        results.append(SentLog(client, TABLE).send_once("slack", "a1", send, lease_s=60).status)

    results = []
    assert sent_log.send_once("slack", "a1", send_again, lease_s=60).status is SendStatus.SENT
    assert (results, send.count) == ([SendStatus.SENT_ELSEWHERE], 0)


def test_what_an_invocation_left_half_done_is_sent_when_its_time_is_over(client, sent_log, send):
    def kill_process():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sent_log.send_once("slack", "a1", kill_process, lease_s=0)
    assert SentLog(client, TABLE).send_once("slack", "a1", send, lease_s=60).status is SendStatus.SENT


@pytest.mark.usefixtures("put_one_at_a_time")
def test_ten_concurrent_senders_send_once(client, send):
    def send_alert(_):
        return SentLog(client, TABLE).send_once("slack", "a1", send, lease_s=60).status

    with ThreadPoolExecutor(10) as pool:
        result = list(pool.map(send_alert, range(10)))
    assert (result.count(SendStatus.SENT), send.count) == (1, 1)


def test_marks_stay_in_their_own_partition_and_go_after_a_fortnight(client, sent_log, send):
    sent_log.send_once("slack", "a1", send, lease_s=60)
    SharedRateLimiter(client, TABLE, "slack", clock=FakeTime()).acquire(30)
    items = client.scan(TableName=TABLE)["Items"]
    assert all(item["pk"]["S"].startswith(PARTITION) for item in items)
    assert all(EXPIRY_ATTRIBUTE in item for item in items)


# Without the table


def test_an_alert_that_cannot_be_claimed_is_still_sent_with_a_note(client, sent_log, send):
    with refuse_next_call(client, "PutItem"):
        sending = sent_log.send_once("slack", "a1", send, lease_s=60)
    assert (sending.status, send.count) == (SendStatus.SENT, 1)
    assert f"dynamodb:{TABLE} cannot record what was sent" in sending.problem
    assert "AccessDenied" in sending.problem


def test_what_was_sent_and_not_marked_counts_as_sent(client, sent_log, send):
    with refuse_next_call(client, "UpdateItem"):
        sending = sent_log.send_once("slack", "a1", send, lease_s=60)
    assert (sending.status, send.count) == (SendStatus.SENT, 1)
    assert "may be sent twice" in sending.problem


@pytest.mark.parametrize("operations", [["PutItem"], ["DeleteItem"], ["PutItem", "DeleteItem"]])
def test_a_refusal_comes_through_whatever_the_table_does(client, sent_log, send, operations):
    send.error = permanent_error()
    with refuse_next_call(client, *operations), pytest.raises(ChannelError, match="Slack refused"):
        sent_log.send_once("slack", "a1", send, lease_s=60)


def test_a_table_that_is_not_there_stops_no_alert(client, send):
    sending = SentLog(client, "gone").send_once("slack", "a1", send, lease_s=60)
    assert (send.count, "ResourceNotFoundException" in sending.problem) == (1, True)


# Turns


def test_functions_share_one_rate_limit(client, wall_time, rate_limiter):
    other = SharedRateLimiter(client, TABLE, "slack", clock=wall_time, sleep=lambda _: None)
    assert [rate_limiter.acquire(30), other.acquire(30), rate_limiter.acquire(30)] == [0.0, 1.0, 2.0]
    wall_time.now_s += 60
    assert other.acquire(30) == 0.0


@pytest.mark.usefixtures("put_one_at_a_time")
def test_ten_concurrent_functions_get_ten_slots(client, wall_time):
    def claim_slot(_):
        return SharedRateLimiter(client, TABLE, "slack", clock=wall_time).acquire(30)

    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(claim_slot, range(10))) == [float(second) for second in range(10)]


def test_a_pause_that_slack_requests_for_one_holds_for_all(client, wall_time, rate_limiter):
    rate_limiter.acquire(30)
    rate_limiter.back_off(25)
    other = SharedRateLimiter(client, TABLE, "slack", clock=wall_time, sleep=lambda _: None)
    with pytest.raises(RateLimitedError, match="25 s off"):
        other.acquire(24)
    assert other.acquire(30) == 25.0
    assert other.acquire(30) == 26.0


def test_a_slot_too_far_ahead_is_not_taken(rate_limiter):
    rate_limiter.acquire(0)
    with pytest.raises(RateLimitedError):
        rate_limiter.acquire(0.5)
    assert rate_limiter.acquire(1) == 1.0


def test_a_wrong_clock_blocks_no_one_for_long(client, wall_time, rate_limiter):
    SharedRateLimiter(client, TABLE, "slack", clock=FakeTime(wall_time() + 10**6)).acquire(0)
    with pytest.raises(RateLimitedError) as exc_info:
        rate_limiter.acquire(30)
    assert exc_info.value.retry_after_s == 3600


def test_another_webhook_has_its_own_rate_limit(client, wall_time, rate_limiter):
    rate_limiter.acquire(30)
    assert SharedRateLimiter(client, TABLE, "another", clock=wall_time).acquire(30) == 0.0


@pytest.mark.parametrize("operation", ["GetItem", "PutItem"])
def test_without_the_table_each_function_limits_itself(client, rate_limiter, operation):
    with refuse_next_call(client, operation):
        assert [rate_limiter.acquire(30), rate_limiter.acquire(30)] == [0.0, 1.0]
        rate_limiter.back_off(20)
        assert rate_limiter.acquire(30) == 20.0
