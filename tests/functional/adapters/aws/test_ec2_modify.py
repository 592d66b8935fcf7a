"""ModifyVolume over real connections: sent once whatever comes back, and each answer classified."""

import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import cache
from threading import Thread

import pytest
from boto3.session import Session
from botocore import exceptions as botocore

from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import ACCESS_KEY
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2_modify import (
    Accepted,
    DryRunAllowed,
    Ec2Modifier,
    OutcomeUnknown,
    Refused,
    guard_for_error,
)
from burstwatch.adapters.aws.errors import FailureKind
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.wiring import bootstrap
from burstwatch.wiring.bootstrap import build_modifier
from burstwatch.wiring.settings import SettingsError
from support.aws.loopback_aws import CannedResponse, ec2_error, loopback_aws
from support.lab.lab_start import START

pytestmark = [pytest.mark.usefixtures("environment_with_retries"), pytest.mark.lab_settings(modify_spread=0)]


TOMORROW = START + timedelta(hours=24)
GP2 = Configuration(volume_type=VolumeType.GP2)
GP3 = Configuration(volume_type=VolumeType.GP3, iops=4_000, throughput_mib_s=250)
IO1 = Configuration(volume_type=VolumeType.IO1, iops=1_000)
IO2 = Configuration(volume_type=VolumeType.IO2, iops=1_000)


@cache
def boto_session():
    """One for all: the description of EC2 takes a while to read."""
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")


def a_modifier(url, calls=None):
    return build_modifier(boto_session(), calls or CallCounter(), endpoint_url=url)


def sent_requests(lab):
    return lab.faults.call_counts().get("ModifyVolume", 0)


@dataclass
class RawServer:
    """Reads each request whole, answers with the same bytes and closes."""

    url: str
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def raw_server(answer: bytes):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = RawServer(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    server.requests.append(_read_request(connection))
                    connection.sendall(answer.replace(b"{url}", server.url.encode()))

        thread = Thread(target=serve)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _read_request(connection):
    results = b""
    while b"\r\n\r\n" not in results:
        results += connection.recv(65_536)
    head, _, body = results.partition(b"\r\n\r\n")
    [length] = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < int(length):
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def http(status, body=b"", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: text/xml", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def request_parameters(body):
    requested = dict(pair.split("=") for pair in body.decode().split("&"))
    return {name: value for name, value in requested.items() if name not in ("Action", "Version")}


# -------------------------------------------------------------------------------------------- what is asked


@pytest.mark.parametrize(
    ("configuration", "numbers"),
    [
        (GP2, {"VolumeType": "gp2"}),
        (GP3, {"VolumeType": "gp3", "Iops": "4000", "Throughput": "250"}),
        (IO1, {"VolumeType": "io1", "Iops": "1000"}),
        (IO2, {"VolumeType": "io2", "Iops": "1000"}),
    ],
)
def test_the_type_and_every_number_it_takes_are_sent_and_never_a_size(configuration, numbers):
    with loopback_aws(lambda *_: ec2_error("IncorrectState", "no")) as aws:
        a_modifier(aws.url).modify("vol-1", configuration)
        a_modifier(aws.url).modify("vol-1", configuration, dry_run=True)
    assert [request_parameters(body) for body in aws.bodies] == [
        {"VolumeId": "vol-1"} | numbers,
        {"VolumeId": "vol-1", "DryRun": "true"} | numbers,
    ]


def test_an_accepted_modification_is_returned_as_aws_reports_it(lab, volume_id, calls):
    answer = a_modifier(lab.url, calls).modify(volume_id, GP3)
    reported = Modification(
        volume_id=volume_id,
        state="modifying",
        original=VolumeSpec(volume_type="gp2", size_gib=100, iops=300),
        target=VolumeSpec(volume_type="gp3", size_gib=100, iops=4_000, throughput_mib_s=250),
        progress_pct=0,
        started_at=START,
    )
    assert answer == Accepted(modification=reported)
    assert reported.target.configuration() == GP3
    assert reported.original.configuration() == GP2
    assert calls.calls == {"ec2:ModifyVolume": 1}


def test_a_round_trip_ends_where_it_began(lab, volume_id):
    modifier = a_modifier(lab.url)
    assert isinstance(modifier.modify(volume_id, IO1), Accepted)
    lab.clock.advance(24 * 3_600)
    assert isinstance(modifier.modify(volume_id, GP2), Accepted)
    lab.clock.advance(24 * 3_600)
    volume = lab.fleet.find(volume_id)
    assert (volume.volume_type, volume.size_gib) == ("gp2", 100)


# ------------------------------------------------------------------------------------------------- dry runs


def test_a_dry_run_that_is_allowed_changes_nothing(lab, volume_id):
    assert a_modifier(lab.url).modify(volume_id, GP3, dry_run=True) == DryRunAllowed()
    assert lab.fleet.modifications(volume_id) == []


def test_a_dry_run_that_is_not_allowed_is_refused_with_what_to_grant(lab, volume_id):
    lab.fleet.change_settings(modify_needs_tag=("burstwatch:mode", "auto"))
    answer = a_modifier(lab.url).modify(volume_id, GP3, dry_run=True)
    assert isinstance(answer, Refused)
    assert (answer.failure.code, answer.failure.kind) == ("UnauthorizedOperation", FailureKind.REFUSED)
    assert "grant ec2:ModifyVolume" in str(answer.failure)


def test_a_success_response_to_a_dry_run_is_a_refusal():
    with loopback_aws(lambda *_: ec2_error("DryRunOperation", "would have succeeded", 412)) as aws:
        assert isinstance(a_modifier(aws.url).modify("vol-1", GP3), Refused)


# ------------------------------------------------------------------------------------------------- refusals


REFUSALS = [
    ("IncorrectModificationState", 400, "modification_in_progress"),
    ("VolumeModificationRateExceeded", 400, "aws_quota"),
    ("VolumeModificationSizeLimitExceeded", 400, "account_limit"),
    ("MaxIOPSLimitExceeded", 400, "account_limit"),
    ("VolumeIOPSLimit", 400, "account_limit"),
    ("VolumeLimitExceeded", 400, "account_limit"),
    ("InvalidParameterValue", 400, None),
    ("InvalidParameterCombination", 400, None),
    ("IncorrectState", 400, None),
    ("UnsupportedOperation", 400, None),
    ("InvalidVolume.NotFound", 400, None),
    ("InvalidVolumeID.Malformed", 400, None),
    ("UnauthorizedOperation", 403, None),
    ("AuthFailure", 401, None),
    ("RequestExpired", 400, None),
    ("RequestLimitExceeded", 503, None),
    ("RequestLimitExceeded", 400, None),
    ("Throttling", 400, None),
]


@pytest.mark.parametrize(("code", "status", "guard"), REFUSALS)
def test_a_refusal_takes_one_request_and_modifies_nothing(code, status, guard, calls):
    with loopback_aws(lambda *_: ec2_error(code, "AWS's words.", status)) as aws:
        answer = a_modifier(aws.url, calls).modify("vol-1", GP3)
    assert isinstance(answer, Refused)
    assert (answer.failure.code, answer.failure.resource, answer.retry_at) == (code, "vol-1", None)
    assert str(answer.failure).startswith(f"ec2:ModifyVolume failed ({code}): ")
    assert guard_for_error(code) == guard
    assert len(aws.bodies) == 1
    assert calls.calls == {"ec2:ModifyVolume": 1}


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("IncorrectModificationState", "wait until its modification is completed"),
        ("VolumeModificationRateExceeded", "wait, AWS allows four modifications of a volume in 24 hours"),
        ("IncorrectState", "wait until it is in-use or available"),
        ("MaxIOPSLimitExceeded", "request a higher quota (Service Quotas, Amazon EBS), or free some of it"),
        ("VolumeIOPSLimit", "ask for fewer IOPS, or spread them over several volumes"),
        ("UnsupportedOperation", "change it by hand, AWS does not allow this here"),
    ],
)
def test_an_expected_refusal_suggests_what_helps(code, step):
    with loopback_aws(lambda *_: ec2_error(code, "AWS's words.")) as aws:
        answer = a_modifier(aws.url).modify("vol-1", GP3)
    assert str(answer.failure) == f"ec2:ModifyVolume failed ({code}): AWS's words; {step}."
    assert answer.failure.kind is FailureKind.REFUSED


def test_the_labs_refusals_are_refusals(lab, volume_id):
    modifier = a_modifier(lab.url)
    a_gib = lab.fleet.add(LabVolume(size_gib=1))
    broken = lab.fleet.add(LabVolume(size_gib=100))
    lab.fleet.set_status(broken, "error")
    assert isinstance(modifier.modify(volume_id, GP3), Accepted)
    refused = {
        volume: modifier.modify(volume, IO1).failure.code
        for volume in (volume_id, a_gib, broken, "vol-0000000000000dead")
    }
    assert list(refused.values()) == [
        "IncorrectModificationState",
        "InvalidParameterValue",
        "IncorrectState",
        "InvalidVolume.NotFound",
    ]
    lab.fleet.change_settings(io1_iops_quota=500)
    other = lab.fleet.add(LabVolume(size_gib=100))
    assert modifier.modify(other, IO1).failure.code == "MaxIOPSLimitExceeded"
    assert sent_requests(lab) == 1 + 4 + 1


def test_the_fifth_modification_in_a_day_is_refused_with_the_time_it_is_allowed(lab, volume_id):
    modifier = a_modifier(lab.url)
    for turn in range(4):
        assert isinstance(modifier.modify(volume_id, GP3 if turn % 2 == 0 else GP2), Accepted)
        lab.clock.advance(2 * 3_600)
    answer = modifier.modify(volume_id, GP3)
    assert (answer.failure.code, answer.retry_at) == (
        "VolumeModificationRateExceeded",
        TOMORROW,
    )


@pytest.mark.parametrize(
    ("message", "retry_at"),
    [
        (
            "Wait until 2026-11-21T18:00:00.250Z before you can issue",
            TOMORROW + timedelta(seconds=0.25),
        ),
        ("wait until 2026-11-21T18:00:00Z.", TOMORROW),
        ("You must wait until 2026-11-21T20:00:00+02:00, then go on", TOMORROW),
        ("Wait until 2026-11-21T18:00:00 before", TOMORROW),
        ("Wait until 2026-11-21T18:00Z before", TOMORROW),
        ("Wait at least 6 hours between modifications per EBS volume.", None),
        ("Wait until tomorrow before you can issue", None),
        ("Wait until 2026-13-41T99:00:00Z before", None),
        ("Wait until 0001-01-01T00:00:00+14:00 before", None),
        ("x" * 500 + " Wait until 2026-11-21T18:00:00Z", TOMORROW),
        ("", None),
    ],
)
def test_the_time_that_aws_names_is_read_with_care(message, retry_at):
    with loopback_aws(lambda *_: ec2_error("VolumeModificationRateExceeded", message)) as aws:
        answer = a_modifier(aws.url).modify("vol-1", GP3)
    assert isinstance(answer, Refused)
    assert answer.retry_at == retry_at
    assert retry_at is None or answer.retry_at.tzinfo is UTC


def test_a_time_in_another_refusal_is_not_a_promise():
    answer_text = "Wait until 2026-11-21T18:00:00Z."
    with loopback_aws(lambda *_: ec2_error("IncorrectState", answer_text)) as aws:
        assert a_modifier(aws.url).modify("vol-1", GP3).retry_at is None


@pytest.mark.parametrize(
    ("code", "message", "guard"),
    [
        ("VolumeTypeNotAvailableInZone", "", "type_not_available"),
        ("Client.VolumeTypeNotAvailableInZone", "anything", "type_not_available"),
        ("UnsupportedOperation", "gp3 is not supported in this Region.", "type_not_available"),
        ("UnsupportedOperation", "gp3 volumes aren't available in us-east-1-bos-1a.", "type_not_available"),
        ("Unsupported", "Unsupported volume type 'gp3' in this Availability Zone", "type_not_available"),
        ("InvalidParameterValue", "GP3 cannot be used on Outposts.", "type_not_available"),
        ("InvalidParameterCombination", "This type is not offered on the Outpost.", "type_not_available"),
        # words that name no place may be about this volume alone
        ("UnsupportedOperation", "The volume type gp3 is not supported.", None),
        ("InvalidParameterValue", "Volume of 20000GiB is not supported for volume type io1", None),
        ("UnsupportedOperation", "Boot volume type gp3 is not supported", None),
        ("InvalidParameterValue", "gp3 volumes of size 0 are not supported", None),
        (
            "UnsupportedOperation",
            "This volume cannot be modified to gp3: not supported while fast restore is enabled",
            None,
        ),
        # the same words about something else, or another code
        ("UnsupportedOperation", "gp3 is not supported for boot volumes in this zone.", None),
        ("InvalidParameterCombination", "The parameter iops is not supported for gp3 volumes.", None),
        ("InvalidParameterCombination", "Multi-Attach is not supported for gp3 volumes.", None),
        ("UnsupportedOperation", "The instance does not support gp3.", None),
        ("UnsupportedOperation", "The volume is managed by eks and cannot be modified.", None),
        ("UnsupportedOperation", "io9 is not supported.", None),
        ("UnsupportedOperation", "This operation is not supported.", None),
        ("InvalidParameterValue", "Invalid value 'gp3'.", None),
        ("InsufficientVolumeCapacity", "gp3 is not available in the zone.", None),
    ],
)
def test_what_a_zone_or_an_outpost_lacks_is_read_with_care(code, message, guard):
    assert guard_for_error(code, message) == guard


def test_a_code_as_cloudtrail_writes_it_has_the_same_guard():
    assert guard_for_error("Client.VolumeModificationRateExceeded") == "aws_quota"
    assert guard_for_error("Client.UnauthorizedOperation") is None
    assert guard_for_error("") is None


# --------------------------------------------------------------------------------------- surely never sent


def test_a_refused_connection_sent_nothing():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answer = a_modifier(f"http://127.0.0.1:{port}").modify("vol-1", GP3)
    assert isinstance(answer, Refused)
    assert (answer.failure.code, answer.failure.kind) == ("EndpointConnectionError", FailureKind.UNREACHABLE)


def test_a_name_that_is_not_found_sent_nothing(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    answer = a_modifier("http://ec2.nowhere.invalid").modify("vol-1", GP3)
    assert isinstance(answer, Refused)
    assert answer.failure.code == "EndpointConnectionError"


def test_without_credentials_nothing_is_sent(lab, volume_id, monkeypatch, tmp_path):
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    session = Session(region_name="us-east-1")
    answer = build_modifier(session, CallCounter(), endpoint_url=lab.url).modify(volume_id, GP3)
    assert isinstance(answer, Refused)
    assert answer.failure.kind is FailureKind.NO_CREDENTIALS
    assert sent_requests(lab) == 0


class RaisingClient:
    def __init__(self, error):
        self.error = error

    def modify_volume(self, **_):
        raise self.error


AWS = "https://ec2.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (botocore.ConnectTimeoutError(endpoint_url=AWS), Refused),
        (botocore.ProxyConnectionError(proxy_url="http://proxy:3128"), Refused),
        (botocore.ParamValidationError(report="Iops is not a number"), Refused),
        (botocore.NoRegionError(), Refused),
        (botocore.CredentialRetrievalError(provider="sso", error_msg="expired"), Refused),
        (botocore.SSLError(endpoint_url=AWS, error="record layer failure"), OutcomeUnknown),
        (botocore.ReadTimeoutError(endpoint_url=AWS), OutcomeUnknown),
        (botocore.ConnectionClosedError(endpoint_url=AWS), OutcomeUnknown),
        (botocore.HTTPClientError(error="something else"), OutcomeUnknown),
        (botocore.BotoCoreError(), OutcomeUnknown),
        (ValueError("Invalid timestamp"), OutcomeUnknown),
    ],
)
def test_only_a_request_surely_not_sent_is_a_refusal(error, answer):
    assert isinstance(Ec2Modifier(RaisingClient(error)).modify("vol-1", GP3), answer)


# -------------------------------------------------------------------------------- done, or perhaps not done


LOST_RESPONSES = [
    ({"kind": "reset"}, "ConnectionClosedError"),
    ({"kind": "timeout"}, "ReadTimeoutError"),
    ({"code": "InternalError", "status": 500}, "InternalError"),
    ({"code": "InternalError", "status": 400}, "InternalError"),
    ({"code": "InternalFailure", "status": 500}, "InternalFailure"),
    ({"code": "Unavailable", "status": 503}, "Unavailable"),
    ({"code": "ServiceUnavailable", "status": 503}, "ServiceUnavailable"),
    ({"code": "SomethingNew", "status": 500}, "SomethingNew"),
]


@pytest.mark.parametrize(("fault", "code"), LOST_RESPONSES)
def test_an_answer_lost_after_the_effect_is_unclear_and_the_modification_is_there(
    lab, volume_id, calls, short_timeouts, fault, code
):
    lab.faults.add(Fault(action="ModifyVolume", after_effect=True, **fault))
    answer = a_modifier(lab.url, calls).modify(volume_id, GP3)
    assert isinstance(answer, OutcomeUnknown)
    assert (answer.failure.code, answer.failure.resource) == (code, volume_id)
    assert [modification.target.volume_type for modification in lab.fleet.modifications(volume_id)] == ["gp3"]
    assert sent_requests(lab) == 1
    assert calls.calls == {"ec2:ModifyVolume": 1}


@pytest.mark.parametrize(("fault", "code"), LOST_RESPONSES)
def test_an_answer_lost_before_the_effect_is_just_as_unclear(lab, volume_id, short_timeouts, fault, code):
    lab.faults.add(Fault(action="ModifyVolume", **fault))
    answer = a_modifier(lab.url).modify(volume_id, GP3)
    assert isinstance(answer, OutcomeUnknown)
    assert answer.failure.code == code
    assert lab.fleet.modifications(volume_id) == []
    assert sent_requests(lab) == 1


def modify_response(inside):
    return f"<ModifyVolumeResponse><volumeModification>{inside}</volumeModification></ModifyVolumeResponse>"


UNREADABLE = {
    "empty": "",
    "not XML": "Accepted!",
    "half": "<ModifyVolumeResponse><volumeModification><volumeId>vol-",
    "something else": "<OtherResponse/>",
    "without its fields": modify_response(
        "<volumeId>vol-1</volumeId><modificationState>modifying</modificationState>"
    ),
    "with an odd time": modify_response("<startTime>soon</startTime>"),
    "with an odd number": modify_response("<targetSize>big</targetSize>"),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_accepting_answer_is_unclear(body):
    with loopback_aws(lambda *_: CannedResponse(body.encode())) as aws:
        answer = a_modifier(aws.url).modify("vol-1", GP3)
    assert isinstance(answer, OutcomeUnknown)
    assert answer.failure.kind is FailureKind.BROKEN
    assert len(aws.bodies) == 1


NOT_OF_AWS = [
    (400, ""),
    (403, "<html>Blocked by the proxy</html>"),
    (404, "Not here"),
    (408, ""),
    (429, ""),
    (500, ""),
    (502, "<html>Bad Gateway</html>"),
    (503, "busy"),
    (504, ""),
]


@pytest.mark.parametrize(("status", "body"), NOT_OF_AWS)
def test_an_error_that_does_not_speak_as_ec2_does_is_unclear(status, body):
    with loopback_aws(lambda *_: CannedResponse(body.encode(), status=status)) as aws:
        assert isinstance(a_modifier(aws.url).modify("vol-1", GP3), OutcomeUnknown)
    assert len(aws.bodies) == 1


WIRE_RESPONSES = {
    "closed without a word": b"",
    "cut in its head": b"HTTP/1.1 200 OK\r\nContent-",
    "cut in its body": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n<ModifyVolumeResponse><vol",
    "cut in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n<ModifyVolumeRes",
    "not HTTP": b"220 mail.example.org ESMTP\r\n",
    "moved for good": http("301 Moved Permanently", b"", "Location: {url}/there"),
    "moved for now": http("307 Temporary Redirect", b"", "Location: {url}/there"),
    "see elsewhere": http("303 See Other", b"", "Location: {url}/there"),
    "wait and try again": http("503 Service Unavailable", b"", "Retry-After: 0"),
}


@pytest.mark.parametrize("answer", WIRE_RESPONSES.values(), ids=WIRE_RESPONSES.keys())
def test_whatever_becomes_of_the_connection_the_request_goes_out_once(answer):
    with raw_server(answer) as server:
        assert isinstance(a_modifier(server.url).modify("vol-1", GP3), OutcomeUnknown)
    assert len(server.requests) == 1


# ---------------------------------------------------------------------------------------------- its client


def test_no_connection_is_kept_for_the_next_modification_hours_later(lab, volume_id):
    # Without "Connection: close" in the answer, the client may reuse what the server is about to close.
    refusal = http("400 Bad Request", ec2_error("IncorrectState", "no").body, "Connection: close")
    with raw_server(refusal) as server:
        modifier = a_modifier(server.url)
        assert isinstance(modifier.modify("vol-1", GP3), Refused)
        assert isinstance(modifier.modify("vol-1", GP3), Refused)
    assert [b"connection: close" in request.lower() for request in server.requests] == [True, True]


def test_the_client_waits_five_seconds_for_a_connection_and_twenty_for_an_answer():
    once = bootstrap._NO_RETRY_CONFIG
    assert (once.connect_timeout, once.read_timeout) == (5, 20)
    assert once.retries == {"mode": "standard", "total_max_attempts": 1}


def test_no_client_is_built_before_the_first_modification():
    built = []

    class Counting:
        region_name = "us-east-1"

        def client(self, *_, **__):
            built.append(1)
            raise ValueError("no such endpoint")

    modifier = build_modifier(Counting(), CallCounter())
    assert built == []
    with pytest.raises(SettingsError):
        modifier.modify("vol-1", GP3)
    assert built == [1]
