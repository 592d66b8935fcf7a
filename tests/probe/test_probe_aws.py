import json
import socket
import time
from urllib.parse import parse_qs

import ddprobe
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.probe.fake_imds import CREDENTIALS
from support.probe.sample_readings import a_reading

CALLER = ddprobe.Caller(
    region="eu-central-1",
    instance_id="i-0123456789abcdef0",
    key_id=CREDENTIALS["AccessKeyId"],
    secret=CREDENTIALS["SecretAccessKey"],
    token=CREDENTIALS["Token"],
    expires=CREDENTIALS["Expiration"],
)


def options(*arguments: str) -> ddprobe.Options:
    return ddprobe.parse_command(["run", *arguments])


def send_all(sender: ddprobe.Sender, within_s: float = 5) -> bool:
    """Pump until there is nothing left to send."""
    until_s = time.monotonic() + within_s
    while sender.busy and time.monotonic() < until_s:
        sender.pump()
        time.sleep(0.01)
    return not sender.busy


@pytest.mark.parametrize(
    "request_made",
    [
        ddprobe.put_metric_data([a_reading()], "ddprobe"),
        ddprobe.put_events([a_reading()], "burstwatch-probe", "i-0"),
    ],
    ids=["PutMetricData", "PutEvents"],
)
@pytest.mark.parametrize("url", ["https://monitoring.eu-central-1.amazonaws.com/", "http://127.0.0.1:4566/"])
def test_a_signature_is_the_one_that_botocore_makes(http, request_made, url):
    headers = ddprobe.sign(http, CALLER, request_made, url, time.time())
    child_end = {"Content-Type": request_made.content_type}
    if request_made.target:
        child_end["X-Amz-Target"] = request_made.target
    expected = AWSRequest("POST", url, child_end, request_made.body)
    key = Credentials(CALLER.key_id, CALLER.secret, CALLER.token)
    signer = SigV4Auth(key, request_made.service, CALLER.region)
    expected.context["timestamp"] = headers["x-amz-date"]
    expected.headers["X-Amz-Date"] = headers["x-amz-date"]
    expected.headers["X-Amz-Security-Token"] = CALLER.token
    signature = signer.signature(
        signer.string_to_sign(expected, signer.canonical_request(expected)), expected
    )
    assert headers["authorization"].endswith(f"Signature={signature}")


def test_metrics_are_put_with_the_role_of_the_instance(cloud, http):
    sender = ddprobe.Sender("metrics", options("--cloudwatch", "api"), http, 0)
    sender.add(a_reading())
    assert send_all(sender)
    ((headers, body),) = cloud.posts()
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/")
    assert "/eu-central-1/monitoring/aws4_request" in headers["authorization"]
    assert headers["x-amz-security-token"] == CREDENTIALS["Token"]
    form = parse_qs(body.decode())
    assert form["Action"] == ["PutMetricData"]
    assert {form[f"MetricData.member.{n}.MetricName"][0] for n in (1, 2)} == {"SyncWriteTime", "BlockedTasks"}
    assert form["MetricData.member.1.Dimensions.member.1.Value"] == ["vol-0123456789abcdef0"]


def test_an_event_is_put_on_the_bus_with_the_instance_that_metadata_names(cloud, http):
    sender = ddprobe.Sender("event", options("--event-bus", "burstwatch-probe"), http, 0)
    sender.add(a_reading(instance_id=None))
    assert send_all(sender)
    ((headers, body),) = cloud.posts()
    assert headers["x-amz-target"] == "AWSEvents.PutEvents"
    (entry,) = json.loads(body)["Entries"]
    assert (entry["Source"], entry["DetailType"]) == ("burstwatch.ddprobe", "stall")
    assert entry["EventBusName"] == "burstwatch-probe"
    assert json.loads(entry["Detail"])["instance_id"] == "i-0123456789abcdef0"


def test_credentials_are_requested_once_while_they_last(cloud, http):
    sender = ddprobe.Sender("event", options("--event-bus", "x"), http, 0)
    for number in range(3):
        sender.add(a_reading(total_s=number))
        assert send_all(sender)
    assert len(cloud.posts()) == 3
    assert sum(path == "/latest/api/token" for _, path, _, _ in cloud.requests) == 1


def test_expired_credentials_are_requested_again(cloud, http, capfd):
    soon = CREDENTIALS | {"Expiration": "2020-01-01T00:00:00Z"}
    cloud.answers["/latest/meta-data/iam/security-credentials/ci-role"] = (200, json.dumps(soon).encode())
    sender = ddprobe.Sender("event", options("--event-bus", "x"), http, 0)
    for _ in range(2):
        sender.add(a_reading())
        assert send_all(sender)
    assert sum(path == "/latest/api/token" for _, path, _, _ in cloud.requests) == 3


@pytest.mark.parametrize(
    ("path", "answer", "expected"),
    [
        ("/", (403, b"<Code>AccessDenied</Code>"), "events answered 403: <Code>AccessDenied"),
        ("/", (200, b'{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "X"}]}'), "FailedEntryCount"),
        ("/latest/api/token", (403, b""), "instance metadata answered 403 to the request for a token"),
        ("/latest/meta-data/iam/security-credentials/", (404, b""), "is there an instance role?"),
        ("/latest/meta-data/iam/security-credentials/ci-role", (200, b"{}"), "AccessKeyId"),
    ],
)
def test_a_rejected_datapoint_is_tried_five_times_and_reported_with_the_answer(
    cloud, http, capfd, path, answer, expected
):
    cloud.answers[path] = answer
    sender = ddprobe.Sender("event", options("--event-bus", "x"), http, 0)
    sender.add(a_reading())
    assert send_all(sender)
    errors = capfd.readouterr().err
    assert expected in errors
    assert errors.count("event not sent") == 5


def test_a_request_to_aws_that_is_not_answered_is_abandoned_without_waiting(monkeypatch, http, capfd):
    silent = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
    sender = ddprobe.Sender("metrics", options("--cloudwatch", "api"), http, 0)
    sender.add(a_reading())
    began_s = time.monotonic()
    sender.pump()
    assert time.monotonic() - began_s < ddprobe.OUTPUT_WAIT_S
    assert send_all(sender)
    silent.close()
    assert "timed out" in capfd.readouterr().err


def test_an_event_has_its_time_although_a_file_hangs(cloud, shm_dir, tmp_path):
    """In a stall, and where systemd ends what is left of a service when its main process is gone."""
    answer = cloud.answer_to

    def slowly(*args):
        time.sleep(0.5)  # three times for the metadata, so more than a file is waited for
        return answer(*args)

    cloud.answer_to = slowly
    state_dirs = ddprobe.StateDirs(str(shm_dir))
    log = tmp_path / "log"
    serve_options = options("--event-bus", "x", "--json", str(log))
    outputs = ddprobe.Outputs(serve_options, state_dirs)
    outputs._children[str(log)] = hanging = ddprobe.ChildTask(lambda send: time.sleep(60))
    began_s = time.monotonic()
    outputs.publish(a_reading())
    outputs.finish(0.3)
    hanging.give_up()
    assert len(cloud.posts()) == 1
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("expected", "variable", "value", "message"),
    [
        (
            ["--cloudwatch", "emf"],
            "AWS_EMF_AGENT_ENDPOINT",
            "here",
            "ddprobe sends datagrams: udp://HOST:PORT",
        ),
        (["--cloudwatch", "emf"], "AWS_EMF_AGENT_ENDPOINT", "tcp://127.0.0.1:25888", "sends datagrams"),
        (["--cloudwatch", "api"], "AWS_ENDPOINT_URL", "localhost", "localhost/ is not a valid address"),
        (["--event-bus", "x"], "AWS_ENDPOINT_URL_EVENTBRIDGE", "ftp://x", "ftp://x/ is not a valid address"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_measured(
    monkeypatch, shm_dir, expected, variable, value, message
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ddprobe.UsageError, match=message):
        ddprobe.Outputs(options(*expected), ddprobe.StateDirs(str(shm_dir)))


def test_an_invalid_address_of_metadata_is_reported(monkeypatch, cloud, http, capfd):
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "metadata")
    sender = ddprobe.Sender("metrics", options("--cloudwatch", "api"), http, 0)
    sender.add(a_reading())
    assert send_all(sender)
    assert "metadata/latest/api/token is not a valid address" in capfd.readouterr().err


def test_the_agent_gets_a_datagram(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(5)
        monkeypatch.setenv("AWS_EMF_AGENT_ENDPOINT", f"udp://127.0.0.1:{agent.getsockname()[1]}")
        sender = ddprobe.Sender("metrics", options("--cloudwatch", "emf"), None, 0)
        sender.add(a_reading())
        assert send_all(sender)
        assert json.loads(agent.recv(65536))["VolumeId"] == "vol-0123456789abcdef0"


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("us-east-1", "https://events.us-east-1.amazonaws.com/"),
        ("us-gov-west-1", "https://events.us-gov-west-1.amazonaws.com/"),
        ("cn-north-1", "https://events.cn-north-1.amazonaws.com.cn/"),
    ],
)
def test_each_partition_has_its_own_address(monkeypatch, region, url):
    for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EVENTBRIDGE"):
        monkeypatch.delenv(variable, raising=False)
    assert ddprobe.endpoint("events", region) == url


def test_chunked_answers_are_put_together():
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n"
    assert ddprobe.parse_answer(raw) == (200, b"Wikipedia")


@pytest.mark.parametrize("raw", [b"", b"SSH-2.0-OpenSSH", b"HTTP/1.1 what"])
def test_an_answer_that_is_no_http_is_an_error(raw):
    with pytest.raises(OSError, match="not HTTP"):
        ddprobe.parse_answer(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 " + b"9" * 5_000 + b" OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
    ],
)
def test_an_answer_that_is_no_http_is_an_error_of_the_protocol(raw):
    with pytest.raises(OSError, match="the answer"):
        ddprobe.parse_answer(raw)
