"""Endpoints that never finish an answer: each exchange, delivery and pass still ends."""

import socket
import threading
import time as wall
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from botocore.config import Config
from botocore.exceptions import HTTPClientError, ReadTimeoutError

from burstlab.fake_aws.slack import SlowResponse
from burstwatch.adapters.notify import slack_webhook
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.core.errors import BurstwatchError
from burstwatch.wiring.bootstrap import endpoint_clock, open_session
from support.aws.slow_peer import EVERY_S, LATEST_S, WITHIN_S, a_peer


def elapsed_s(call, error):
    started_at_s = wall.monotonic()
    with pytest.raises(error):
        call()
    return wall.monotonic() - started_at_s


# Slack


@pytest.mark.parametrize("response", SlowResponse)
def test_a_post_ends_at_its_deadline_however_slowly_slack_answers(slow_slack, response):
    slow_slack.start_slow_response(response, interval_s=EVERY_S)
    threads = threading.active_count()
    hook = SlackWebhook(slow_slack.url)
    assert WITHIN_S / 2 < elapsed_s(lambda: hook.post({"text": "hello"}), ChannelError) < LATEST_S
    assert [message.status for message in slow_slack.all_messages] == [0]
    until = wall.monotonic() + 1
    while threading.active_count() > threads and wall.monotonic() < until:
        wall.sleep(0.01)
    is_detected = (
        response is not SlowResponse.SILENCE
    )  # by writing alone a receiver notices that its client has left
    assert not is_detected or threading.active_count() <= threads


def test_a_stuck_tls_handshake_ends_at_the_deadline(monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", WITHIN_S)
    with a_peer(b"\x16\x03\x03", b"\x40") as peer:
        hook = SlackWebhook(f"https://127.0.0.1:{peer.port}/services/x")
        assert elapsed_s(lambda: hook.post({}), ChannelError) < LATEST_S


def test_a_proxy_that_answers_slowly_ends_at_the_deadline(monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", WITHIN_S)
    with a_peer(b"HTTP/1.1 200 OK\r\nX-A: ", b"a") as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        hook = SlackWebhook("https://hooks.slack.example/services/x")
        assert elapsed_s(lambda: hook.post({}), ChannelError) < LATEST_S


def test_many_addresses_that_do_not_answer_share_one_deadline(monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", WITHIN_S)
    requests = []

    def unanswered(_address, timeout):
        requests.append(timeout)
        wall.sleep(min(timeout, 0.1))
        raise TimeoutError("timed out")

    result = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 9)) for n in range(1, 100)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: result)
    monkeypatch.setattr(socket, "create_connection", unanswered)
    hook = SlackWebhook("https://hooks.slack.example/services/x")
    assert elapsed_s(lambda: hook.post({}), ChannelError) < LATEST_S
    assert requests == sorted(requests, reverse=True)
    assert len(requests) < 10


# AWS


def an_ec2(port):
    session = open_session(None, "us-east-1")
    config = Config(read_timeout=WITHIN_S, connect_timeout=1, retries={"total_max_attempts": 1})
    return session.client("ec2", config=config, endpoint_url=f"http://127.0.0.1:{port}")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"<"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n<\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["headers", "body", "chunks", "100"],
)
def test_a_slow_aws_response_is_a_read_timeout(first, again):
    with a_peer(first, again) as peer:
        assert elapsed_s(an_ec2(peer.port).describe_volumes, (ReadTimeoutError, HTTPClientError)) < LATEST_S


@pytest.mark.usefixtures("credentials")
def test_a_connection_that_is_kept_keeps_its_timeout():
    body = b"<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with an_answering_peer(answer, after_s=WITHIN_S * 0.6) as peer:
        ec2 = an_ec2(peer.port)
        assert [ec2.describe_volumes()["Volumes"] for _ in range(3)] == [[], [], []]
        assert len(peer.held) == 1


@contextmanager
def an_answering_peer(answer, *, after_s):
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        connection, _ = listener.accept()
        held.append(connection)
        with connection:
            while connection.recv(65536):
                wall.sleep(after_s)
                connection.sendall(answer)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    yield SimpleNamespace(port=listener.getsockname()[1], held=held)
    listener.close()


def test_reading_the_clock_of_a_slow_endpoint_is_abandoned(monkeypatch):
    monkeypatch.setattr("burstwatch.wiring.bootstrap._CLOCK_TIMEOUT_S", WITHIN_S)
    open_session(None, "us-east-1")
    with a_peer(b"HTTP/1.1 200 OK\r\nX-A: ", b"a") as peer:
        results = endpoint_clock(f"http://127.0.0.1:{peer.port}")
        assert elapsed_s(results, BurstwatchError) < LATEST_S
