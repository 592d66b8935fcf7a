import json
from contextlib import contextmanager, suppress

import pytest
from botocore.exceptions import EndpointConnectionError
from hypothesis import given, settings
from hypothesis import strategies as st
from mocked_aws import stubbed_client
from moto import mock_aws

from burstwatch.adapters.aws.flip_queue import FlipQueue, FlipRequest, MalformedRequestError
from burstwatch.core.ledger.flip_state import Direction, FlipCause

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/flips.fifo"
TIME_S = 1_795_197_635
"""2026-11-20T18:00:35Z"""


def a_request(number=1, **changes):
    facts = {
        "volume_id": f"vol-{number:017x}",
        "direction": Direction.FLIP,
        "cause": FlipCause.DRAINING,
        "because": "dry in 11 min",
        "requested_at_s": TIME_S,
    }
    return FlipRequest(**(facts | changes))


# There and back

REQUESTS = st.builds(
    FlipRequest,
    volume_id=st.from_regex(r"vol-[0-9a-f]{8,17}", fullmatch=True),
    direction=st.sampled_from(Direction),
    cause=st.sampled_from(FlipCause),
    because=st.text(),
    requested_at_s=st.integers(0, 4_000_000_000),
).filter(lambda one: (one.direction, one.cause) != (Direction.FLIP, FlipCause.MANUAL))


@settings(max_examples=300, deadline=None)
@given(REQUESTS)
def test_a_request_comes_out_as_it_went_in(request):
    body = request.to_body()
    assert body.isascii()
    assert FlipRequest.from_body(body) == request


NO_DEMAND = {"peak_iops": None, "peak_throughput_mib_s": None, "pinned": False, "ahead": False}


def test_the_body_is_the_documented_one():
    assert json.loads(a_request().to_body()) == {
        "schema": "burstwatch.flip_request/v1",
        "time": "2026-11-20T18:00:35Z",
        "volume_id": "vol-00000000000000001",
        "direction": "out",
        "cause": "draining",
        "because": "dry in 11 min",
        "demand": NO_DEMAND,
        "urgency": [],
    }


def test_what_the_contract_names_is_enough():
    document = json.loads(a_request().to_body())
    del document["demand"], document["urgency"]
    assert FlipRequest.from_body(json.dumps(document)) == a_request()


def test_a_request_of_an_older_watch_function_is_accepted_without_its_demand():
    older = {
        "schema": "burstwatch.flip_request/v1",
        "time": "2026-11-20T18:00:35Z",
        "volume_id": "vol-00000000000000001",
        "direction": "out",
        "cause": "draining",
        "because": "dry in 11 min",
        "demand": {**NO_DEMAND, "peak_iops": 39_000.0, "pinned": True},
        "urgency": [-4, 715.0, {"float": "inf"}, 31.5, "vol-00000000000000001"],
        "revision": 185369513038622,
        "by": "watchdog",
        "overridden": [],
    }
    assert FlipRequest.from_body(json.dumps(older)) == a_request()


# Poison

VALID_BODY = json.loads(a_request().to_body())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": "burstwatch.flip_request/v2"}, '/v2" is not burstwatch.flip_request/v1'),
        ({"volume_id": 7}, "'volume_id': 7 is no volume id"),
        ({"volume_id": "i-0123"}, "is no volume id"),
        ({"volume_id": "vol-0123"}, "is no volume id"),
        ({"volume_id": "vol-0123456789abcdef0\n"}, "is no volume id"),
        ({"direction": "up"}, "'direction': \"up\" is none of out, back"),
        ({"cause": ["draining"]}, "'cause': [\"draining\"] is none of draining, window"),
        ({"because": None}, "'because': null is no text"),
        ({"time": "2026-11-20T18:00:35"}, "'time': \"2026-11-20T18:00:35\" is no instant"),
        ({"time": "<aws.scheduler.scheduled-time>"}, "is no instant such as 2026-11-20T18:00:00Z"),
        ({"time": 1}, "is no instant"),
        ({"extra": 1}, '"extra" is not known'),
    ],
)  # fmt: skip
def test_poison_is_refused_by_name(changes, says):
    with pytest.raises(MalformedRequestError, match="no flip request") as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | changes))
    assert says in str(exc_info.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"by": "mallory"}, '\'by\': "mallory" is not "watchdog"'),
        ({"overridden": ["held"]}, "'overridden': [\"held\"] is not []"),
        ({"wish": {"volume_type": "io2", "iops": 60_000, "throughput_mib_s": None}}, '"wish" is not known'),
        ({"return_after_s": 1}, '"return_after_s" is not known'),
        ({"why": "because"}, '"why" is not known'),
        ({"extends": True}, '"extends" is not known'),
        ({"cause": "by_hand"}, "by_hand is never asked of the queue"),
    ],
)
def test_what_only_a_person_may_order_is_poison(changes, says):
    with pytest.raises(MalformedRequestError, match="no flip request") as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | changes))
    assert says in str(exc_info.value)


def test_the_return_of_what_a_person_flipped_is_requested_by_the_watchdog():
    request = a_request(direction=Direction.FLIP_BACK, cause=FlipCause.MANUAL)
    assert FlipRequest.from_body(request.to_body()) == request


@pytest.mark.parametrize(
    "body",
    [
        *("", "flip it", "null", "[]", "7", '"x"', "{}", '{"time": NaN}', "\ud800"),
        "[" * 100_000,
        '{"a": 1' + "0" * 5000 + "}",
    ],
)
def test_an_invalid_request_is_poison(body):
    with pytest.raises(MalformedRequestError, match="no flip request"):
        FlipRequest.from_body(body)


def test_everything_that_is_wrong_is_named_at_once():
    with pytest.raises(MalformedRequestError) as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | {"direction": 1, "cause": 2, "more": 3}))
    assert str(exc_info.value).count(";") == 2


def test_long_poison_is_cut():
    with pytest.raises(MalformedRequestError) as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | {"direction": "x" * 10_000}))
    assert len(str(exc_info.value)) < 300


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    st.sampled_from(sorted(VALID_BODY)),
)
def test_invalid_json_is_only_poison(value, key):
    for document in (value, VALID_BODY | {key: value}):
        with suppress(MalformedRequestError):
            assert FlipRequest.from_body(json.dumps(document)).volume_id


# Repeats


def test_a_repeated_tick_adds_nothing_and_a_minute_later_it_is_a_new_request():
    first = a_request(requested_at_s=TIME_S - 35)
    assert a_request(requested_at_s=TIME_S).deduplication_id == first.deduplication_id
    others = [a_request(requested_at_s=TIME_S + 60), a_request(2), a_request(direction=Direction.FLIP_BACK)]
    assert len({item.deduplication_id for item in [first, *others]}) == 4


# On the queue


@contextmanager
def a_fifo_queue():
    with mock_aws():
        client = stubbed_client("sqs")
        attributes = {"FifoQueue": "true"}
        url = client.create_queue(QueueName="flips.fifo", Attributes=attributes)["QueueUrl"]
        yield client, url


def receive_requests(client, url):
    results = []
    while messages := client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    ).get("Messages"):
        results += messages
        for message in messages:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return results


def test_every_volume_is_a_group_and_a_repeat_is_not_queued():
    requests = [a_request(number) for number in range(25)]
    with a_fifo_queue() as (client, url):
        queue = FlipQueue(client, url)
        assert len(queue.send(requests).sent) == 25
        assert queue.send(requests[:3]).failed == {}
        queue.send([a_request(1, requested_at_s=TIME_S + 60)])
        messages = receive_requests(client, url)
    assert len(messages) == 25 + 1
    groups = [message["Attributes"]["MessageGroupId"] for message in messages]
    assert sorted(set(groups)) == sorted(request.volume_id for request in requests)
    bodies = {FlipRequest.from_body(message["Body"]).volume_id for message in messages}
    assert bodies == set(groups)


class FakeSqs:
    """Answers as scripted, with how the n-th entry failed; then takes everything."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.batches = []

    def send_message_batch(self, *, QueueUrl, Entries):  # noqa: N803 - AWS's names
        self.batches.append(Entries)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        ids = [entry["Id"] for entry in Entries]
        return {
            "Successful": [
                {"Id": i, "MessageId": "m", "MD5OfMessageBody": ""} for i in ids if int(i) not in answer
            ],
            "Failed": [{"Id": i, **answer[int(i)]} for i in ids if answer.get(int(i))],
        }


def batch_response(*answers, count=12):
    client = FakeSqs(*answers)
    sending = FlipQueue(client, URL).send([a_request(number) for number in range(count)])
    return client, sending


def volume(number):
    return a_request(number).volume_id


def test_requests_go_in_tens():
    client, sending = batch_response(count=23)
    assert [len(batch) for batch in client.batches] == [10, 10, 3]
    assert len(sending.sent) == 23


def test_nothing_to_send_is_not_a_call():
    client, sending = batch_response(count=0)
    assert (client.batches, sending.sent, sending.failed) == ([], frozenset(), {})


def test_partial_batch_failures_are_reported_per_volume():
    fault = {"SenderFault": True, "Code": "InvalidParameterValue", "Message": "no such group"}
    client, sending = batch_response({3: fault})
    assert sending.failed.keys() == {volume(3)}
    assert "InvalidParameterValue" in sending.failed[volume(3)]
    assert "no such group" in sending.failed[volume(3)]
    assert len(sending.sent) == 11
    assert len(client.batches) == 2


def test_what_aws_failed_to_take_goes_once_more():
    fault = {"SenderFault": False, "Code": "InternalError", "Message": "oops"}
    client, sending = batch_response({2: fault, 5: fault})
    assert sending.failed == {}
    retried = [entry["MessageGroupId"] for entry in client.batches[1]]
    assert retried == [volume(2), volume(5)]


def test_what_fails_twice_is_reported():
    fault = {"SenderFault": False, "Code": "InternalError", "Message": "oops"}
    _, sending = batch_response({2: fault}, {0: fault})
    assert sending.failed.keys() == {volume(2)}
    assert "a later tick asks again" in sending.failed[volume(2)]


def test_an_entry_that_the_answer_forgets_is_not_taken_for_sent():
    _, sending = batch_response({4: None}, {0: None})
    assert "AWS did not say" in sending.failed[volume(4)]


def test_a_batch_that_fails_whole_does_not_stop_the_next():
    error = EndpointConnectionError(endpoint_url="https://sqs.us-east-1.amazonaws.com")
    _, sending = batch_response(error)
    assert sending.failed.keys() == {volume(number) for number in range(10)}
    assert sending.sent == {volume(10), volume(11)}
    assert "sqs:SendMessage failed" in sending.failed[volume(0)]


def test_a_request_too_long_for_a_message_is_reported_and_the_others_go():
    requests = [a_request(1, because="x" * 30_000), a_request(2)]
    sending = FlipQueue(FakeSqs(), URL).send(requests)
    assert sending.sent == {volume(2)}
    assert "at most 25,000" in sending.failed[volume(1)]


def test_a_queue_that_is_not_there_is_reported():
    with mock_aws():
        sending = FlipQueue(stubbed_client("sqs"), URL).send([a_request(1)])
    assert "sqs:SendMessage failed" in sending.failed[volume(1)]


@pytest.mark.parametrize(
    "changes",
    [
        {f"k{n}": 1 for n in range(1_000)},
        {"volume_id": "vol-" + "x" * 100},
        {"time": "0001-01-01T00:00:00+14:00"},
        {"by": "x" * 1_000},
        {"because": "x" * 100_000},
    ],
)
def test_poison_is_reported_in_a_short_sentence(changes):
    body = json.dumps(json.loads(a_request().to_body()) | changes)
    with pytest.raises(MalformedRequestError, match="no flip request") as exc_info:
        FlipRequest.from_body(body)
    assert len(str(exc_info.value)) < 1_000


def test_a_message_that_is_put_back_can_be_received_again():
    with a_fifo_queue() as (client, url):
        queue = FlipQueue(client, url)
        queue.send([a_request(1)])
        [message] = client.receive_message(QueueUrl=url)["Messages"]
        assert "Messages" not in client.receive_message(QueueUrl=url)
        assert queue.put_back(message["ReceiptHandle"], 0) is None
        [again] = client.receive_message(QueueUrl=url)["Messages"]
    assert again["Body"] == message["Body"]


def test_a_message_that_cannot_be_put_back_is_reported():
    with a_fifo_queue() as (client, url):
        assert "sqs:ChangeMessageVisibility failed" in FlipQueue(client, url).put_back("unknown", 60)
