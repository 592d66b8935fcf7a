"""What remembers what was sent, in a table as the stack makes it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pytest
from fake_slack import FakeTime
from mocked_aws import client_of, refusing
from moto import mock_aws

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.idempotency import EXPIRES, PARTITION, Became, SentMarks, SharedTurns
from burstwatch.adapters.notify.slack_webhook import PauseError
from ledgers import TABLE, make_table


@pytest.fixture
def client():
    with mock_aws():
        found = client_of("dynamodb")
        make_table(found)
        yield found


@pytest.fixture
def marks(client):
    return SentMarks(client, TABLE)


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


def refused():
    return ChannelError("Slack refused", is_permanent=True)


# Once


def test_what_a_channel_took_is_not_sent_again(marks, send):
    assert marks.once("slack", "a1", send, lease_s=60).became is Became.SENT
    assert marks.once("slack", "a1", send, lease_s=60).became is Became.SENT_BEFORE
    assert send.count == 1


def test_channels_and_alerts_are_told_apart(marks, send):
    for channel, alert in (("slack", "a1"), ("chat", "a1"), ("slack", "a2")):
        assert marks.once(channel, alert, send, lease_s=60).became is Became.SENT
    assert send.count == 3


def test_another_process_knows_what_was_sent(client, marks, send):
    marks.once("slack", "a1", send, lease_s=60)
    assert SentMarks(client, TABLE).once("slack", "a1", send, lease_s=60).became is Became.SENT_BEFORE


def test_what_was_refused_is_sent_again(marks, send):
    send.error = refused()
    with pytest.raises(ChannelError, match="Slack refused"):
        marks.once("slack", "a1", send, lease_s=60)
    send.error = None
    assert marks.once("slack", "a1", send, lease_s=60).became is Became.SENT


def test_what_another_invocation_is_sending_is_left_to_it(client, marks, send):
    def meanwhile():
        found.append(SentMarks(client, TABLE).once("slack", "a1", send, lease_s=60).became)

    found = []
    assert marks.once("slack", "a1", meanwhile, lease_s=60).became is Became.SENT
    assert (found, send.count) == ([Became.SENT_ELSEWHERE], 0)


def test_what_an_invocation_left_half_done_is_sent_when_its_time_is_over(client, marks, send):
    def killed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        marks.once("slack", "a1", killed, lease_s=0)
    assert SentMarks(client, TABLE).once("slack", "a1", send, lease_s=60).became is Became.SENT


def test_ten_at_once_send_one(client, send):
    def one(_):
        return SentMarks(client, TABLE).once("slack", "a1", send, lease_s=60).became

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(one, range(10)))
    assert (found.count(Became.SENT), send.count) == (1, 1)


def test_marks_stay_in_their_own_partition_and_go_after_a_fortnight(client, marks, send):
    marks.once("slack", "a1", send, lease_s=60)
    SharedTurns(client, TABLE, "slack", clock=FakeTime()).take(30)
    items = client.scan(TableName=TABLE)["Items"]
    assert all(item["pk"]["S"].startswith(PARTITION) for item in items)
    assert all(EXPIRES in item for item in items)


# Without the table


def test_what_cannot_be_claimed_is_sent_all_the_same_and_says_so(client, marks, send):
    with refusing(client, "PutItem"):
        sending = marks.once("slack", "a1", send, lease_s=60)
    assert (sending.became, send.count) == (Became.SENT, 1)
    assert f"dynamodb:{TABLE} cannot remember what was sent" in sending.trouble
    assert "AccessDenied" in sending.trouble


def test_what_was_sent_and_not_marked_counts_as_sent(client, marks, send):
    with refusing(client, "UpdateItem"):
        sending = marks.once("slack", "a1", send, lease_s=60)
    assert (sending.became, send.count) == (Became.SENT, 1)
    assert "may come twice" in sending.trouble


@pytest.mark.parametrize("operations", [["PutItem"], ["DeleteItem"], ["PutItem", "DeleteItem"]])
def test_a_refusal_comes_through_whatever_the_table_does(client, marks, send, operations):
    send.error = refused()
    with refusing(client, *operations), pytest.raises(ChannelError, match="Slack refused"):
        marks.once("slack", "a1", send, lease_s=60)


def test_a_table_that_is_not_there_stops_no_alert(client, send):
    sending = SentMarks(client, "gone").once("slack", "a1", send, lease_s=60)
    assert (send.count, "ResourceNotFoundException" in sending.trouble) == (1, True)


# Turns


@pytest.fixture
def time():
    return FakeTime(1_795_197_635.0)


@pytest.fixture
def turns(client, time):
    return SharedTurns(client, TABLE, "slack", clock=time, sleep=lambda _: None)


def test_functions_share_their_turns(client, time, turns):
    other = SharedTurns(client, TABLE, "slack", clock=time, sleep=lambda _: None)
    assert [turns.take(30), other.take(30), turns.take(30)] == [0.0, 1.0, 2.0]
    time.now_s += 60
    assert other.take(30) == 0.0


def test_ten_functions_at_once_get_ten_turns(client, time, monkeypatch):
    lock, put_item = Lock(), client.put_item

    def put_alone(**given):
        """DynamoDB looks at the condition and writes in one step; moto does it in two."""
        with lock:
            return put_item(**given)

    monkeypatch.setattr(client, "put_item", put_alone)

    def one(_):
        return SharedTurns(client, TABLE, "slack", clock=time).take(30)

    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(one, range(10))) == [float(second) for second in range(10)]


def test_a_pause_that_slack_asks_one_for_holds_for_all(client, time, turns):
    turns.take(30)
    turns.put_off(25)
    other = SharedTurns(client, TABLE, "slack", clock=time, sleep=lambda _: None)
    with pytest.raises(PauseError, match="25 s off"):
        other.take(24)
    assert other.take(30) == 25.0
    assert other.take(30) == 26.0


def test_a_turn_that_is_too_far_off_stays_free(turns):
    turns.take(0)
    with pytest.raises(PauseError):
        turns.take(0.5)
    assert turns.take(1) == 1.0


def test_a_clock_that_was_wrong_stops_nobody_for_long(client, time, turns):
    SharedTurns(client, TABLE, "slack", clock=FakeTime(time() + 10**6)).take(0)
    with pytest.raises(PauseError) as caught:
        turns.take(30)
    assert caught.value.pause_s == 3600


def test_a_webhook_of_another_name_has_turns_of_its_own(client, time, turns):
    turns.take(30)
    assert SharedTurns(client, TABLE, "another", clock=time).take(30) == 0.0


@pytest.mark.parametrize("operation", ["GetItem", "PutItem"])
def test_without_the_table_each_function_keeps_to_itself(client, turns, operation):
    with refusing(client, operation):
        assert [turns.take(30), turns.take(30)] == [0.0, 1.0]
        turns.put_off(20)
        assert turns.take(30) == 20.0
