from contextlib import contextmanager

from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.aws.flip_request import FlipRequest
from support.aws.stub_clients import stubbed_client
from support.builders.flip_requests import REQUESTED_AT_S, a_request

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/flips.fifo"


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
        queue.send([a_request(1, requested_at_s=REQUESTED_AT_S + 60)])
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
    assert "a later tick sends it again" in sending.failed[volume(2)]


def test_an_entry_missing_from_the_response_does_not_count_as_sent():
    _, sending = batch_response({4: None}, {0: None})
    assert "AWS did not report the outcome" in sending.failed[volume(4)]


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
