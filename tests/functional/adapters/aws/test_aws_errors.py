from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import cycle

import boto3
import pytest
from botocore import exceptions as botocore
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from botocore.session import Session

from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError, FailureKind, to_aws_failure, translate_errors
from support.aws.loopback_aws import CannedResponse, ec2_error, json_answer, loopback_aws, no_volumes

SIX_PM = "Fri, 20 Nov 2026 18:00:00 GMT"
SPAN = {"StartTime": datetime(2026, 11, 20, tzinfo=UTC), "EndTime": datetime(2026, 11, 21, tzinfo=UTC)}
IMPLIED = {"HTTPStatusCode": 400, "HTTPHeaders": {"date": SIX_PM}, "RequestId": "r-1"}


def client_error(code, message="It did not work.", **metadata):
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": IMPLIED | metadata}
    return ClientError(response, "DescribeVolumes")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (client_error("RequestLimitExceeded", HTTPStatusCode=503), FailureKind.RETRYABLE),
        (client_error("Throttling"), FailureKind.RETRYABLE),
        (client_error("InternalError", HTTPStatusCode=500), FailureKind.RETRYABLE),
        (client_error("502", "Bad Gateway", HTTPStatusCode=502), FailureKind.RETRYABLE),
        (botocore.ConnectionClosedError(endpoint_url="https://ec2.aws"), FailureKind.RETRYABLE),
        (client_error("UnauthorizedOperation"), FailureKind.REFUSED),
        (client_error("AccessDenied"), FailureKind.REFUSED),
        (client_error("AccessDeniedException"), FailureKind.REFUSED),
        (client_error("ExpiredToken"), FailureKind.NO_CREDENTIALS),
        (client_error("InvalidClientTokenId"), FailureKind.NO_CREDENTIALS),
        (client_error("AuthFailure"), FailureKind.NO_CREDENTIALS),
        (client_error("SignatureDoesNotMatch", "it does not match"), FailureKind.NO_CREDENTIALS),
        (botocore.NoCredentialsError(), FailureKind.NO_CREDENTIALS),
        (botocore.PartialCredentialsError(provider="env", cred_var="KEY"), FailureKind.NO_CREDENTIALS),
        (botocore.CredentialRetrievalError(provider="sso", error_msg="s3cret"), FailureKind.NO_CREDENTIALS),
        (botocore.UnauthorizedSSOTokenError(), FailureKind.NO_CREDENTIALS),
        (client_error("RequestTimeTooSkewed"), FailureKind.CLOCK_SKEW),
        (client_error("RequestExpired"), FailureKind.CLOCK_SKEW),
        (botocore.EndpointConnectionError(endpoint_url="https://ec2.aws"), FailureKind.UNREACHABLE),
        (botocore.ConnectTimeoutError(endpoint_url="https://ec2.aws"), FailureKind.UNREACHABLE),
        (botocore.ReadTimeoutError(endpoint_url="https://ec2.aws"), FailureKind.UNREACHABLE),
        (botocore.SSLError(endpoint_url="https://ec2.aws", error="bad"), FailureKind.UNREACHABLE),
        (client_error("InvalidVolume.NotFound"), FailureKind.NOT_FOUND),
        (client_error("ParameterNotFound"), FailureKind.NOT_FOUND),
        (botocore.ProfileNotFound(profile="nobody"), FailureKind.MISCONFIGURED),
        (botocore.NoRegionError(), FailureKind.MISCONFIGURED),
        (client_error("InvalidParameterValue"), FailureKind.BROKEN),
        (botocore.ParamValidationError(report="no"), FailureKind.BROKEN),
        (ResponseParserError("not XML"), FailureKind.BROKEN),
    ],
)
def test_every_error_has_its_kind_and_a_sentence_with_action_cause_and_next_step(error, kind):
    failure = to_aws_failure(error, "ec2:DescribeVolumes")
    assert failure.kind is kind
    sentence = str(failure)
    assert sentence.startswith(f"ec2:DescribeVolumes failed ({failure.code}): ")
    assert failure.message in sentence
    assert sentence.endswith(f"; {failure.next_step}.")
    assert "\n" not in sentence


def test_the_error_of_an_account_that_is_not_signed_up_has_a_next_step():
    message = "You are not subscribed to this service."
    failure = to_aws_failure(client_error("OptInRequired", message), "ec2:DescribeVolumes")
    assert failure.kind is FailureKind.REFUSED
    assert failure.problem.cause == f"ec2:DescribeVolumes failed (OptInRequired): {message.rstrip('.')}"
    assert failure.next_step == "enable the Region for the account, or complete the account's sign-up to AWS"


def test_without_an_action_the_operation_is_named():
    assert str(to_aws_failure(client_error("InternalError"))).startswith(
        "DescribeVolumes failed (InternalError): "
    )


ENCODED = " Encoded authorization failure message: Zm9vYmFyc2VjcmV0"
CALLER_ARN = "arn:aws:sts::111122223333:assumed-role/watch/session"
VOLUME = "arn:aws:ec2:us-east-1:111122223333:volume/vol-1"


@pytest.mark.parametrize(
    ("message", "expected", "resource"),
    [
        (
            f"You are not authorized to perform this operation. User: {CALLER_ARN} is not authorized to"
            " perform: ec2:DescribeVolumes because no identity-based policy allows the ec2:DescribeVolumes"
            " action." + ENCODED,
            f"{CALLER_ARN} may not call ec2:DescribeVolumes; grant ec2:DescribeVolumes to it,",
            None,
        ),
        (
            (
                f"User: {CALLER_ARN} is not authorized to perform: ec2:ModifyVolume on resource:"
                f" {VOLUME}.{ENCODED}"
            ),
            f"{CALLER_ARN} may not call ec2:ModifyVolume on {VOLUME}; grant ec2:ModifyVolume to it",
            VOLUME,
        ),
        (
            (
                f"User: {CALLER_ARN} is not authorized to perform: cloudwatch:GetMetricData with an explicit"
                " deny"
            ),
            (
                f"{CALLER_ARN} may not call cloudwatch:GetMetricData, an explicit deny forbids it; have the"
                " policy"
            ),
            None,
        ),
        (
            f"You are not authorized to perform this operation.{ENCODED}",
            "this identity may not call ec2:DescribeVolumes; grant ec2:DescribeVolumes to it",
            None,
        ),
    ],
)
def test_a_refusal_names_caller_action_and_resource(message, expected, resource):
    failure = to_aws_failure(client_error("UnauthorizedOperation", message), "ec2:DescribeVolumes")
    assert expected in str(failure)
    assert failure.resource == resource
    assert "Zm9vYmFyc2VjcmV0" not in str(failure)


@pytest.mark.parametrize(
    "message",
    [
        "The key AKIAIOSFODNN7EXAMPLE is odd",
        "bad header X-Amz-Security-Token: Zm9vYmFyc2VjcmV0",
        "Authorization=Zm9vYmFyc2VjcmV0 Credential=Zm9vYmFyc2VjcmV0, Signature=Zm9vYmFyc2VjcmV0",
        "No. The Canonical String for this request should have been 'POST\nhost:x\nZm9vYmFyc2VjcmV0'",
        f"No.{ENCODED}",
    ],
)
def test_no_secret_is_in_the_message(message):
    for code in ("InvalidParameterValue", "InternalError", "SignatureDoesNotMatch", "AccessDenied"):
        sentence = str(to_aws_failure(client_error(code, message), "ec2:DescribeVolumes"))
        assert "IOSFODNN7" not in sentence
        assert "Zm9vYmFyc2VjcmV0" not in sentence
        assert "\n" not in sentence


def test_what_a_credential_process_printed_is_not_repeated():
    error = botocore.CredentialRetrievalError(provider="custom-process", error_msg="password was hunter2")
    assert "hunter2" not in str(to_aws_failure(error, "ec2:DescribeVolumes"))


def test_the_endpoint_is_named_without_user_password_path_and_query():
    url = "https://me:hunter2@ec2.us-east-1.amazonaws.com:8443/x?X-Amz-Signature=abc"
    assert "https://ec2.us-east-1.amazonaws.com:8443 could not be reached;" in str(
        to_aws_failure(botocore.EndpointConnectionError(endpoint_url=url), "ec2:DescribeVolumes")
    )


def test_a_very_long_message_is_cut():
    assert len(str(to_aws_failure(client_error("InvalidParameterValue", "x" * 5_000)))) < 700


@pytest.mark.parametrize(
    ("code", "message", "metadata", "expected"),
    [
        # Signed 17:43, AWS has 18:00: 17 minutes behind.
        (
            "SignatureDoesNotMatch",
            "Signature expired: 20261120T174300Z is now earlier than 20261120T174500Z (… - 15 min.)",
            {},
            "this machine's clock is 17 min behind AWS's (AWS has 2026-11-20 18:00:00 UTC); set this",
        ),
        # Signed 18:20, AWS has 18:00: 20 minutes ahead.
        (
            "InvalidSignatureException",
            "Signature not yet current: 20261120T182000Z is still later than 20261120T180500Z",
            {},
            "this machine's clock is 20 min ahead of AWS's",
        ),
        # EC2 calls it a matter of credentials; what was noted at signing is more exact.
        (
            "AuthFailure",
            "not able to validate",
            {"SignedAt": "20261120T190000Z"},
            "clock is 60 min ahead of AWS's",
        ),
        (
            "RequestTimeTooSkewed",
            "too large",
            {"SignedAt": "20261120T170000Z"},
            "clock is 60 min behind AWS's",
        ),
        # The clock is right to 5 s: then it is the session that has expired.
        (
            "RequestExpired",
            "Request has expired.",
            {"SignedAt": "20261120T175955Z"},
            "the AWS credentials have expired; run aws sso login",
        ),
        # Neither is known: both are said.
        (
            "RequestExpired",
            "Request has expired.",
            {},
            "(AWS has 2026-11-20 18:00:00 UTC); set this machine's clock (such as `chronyc makestep`), or",
        ),
        (
            "RequestTimeTooSkewed",
            "too large",
            {"HTTPHeaders": {}},
            "AWS rejects the time of the request; set",
        ),
        ("RequestTimeTooSkewed", "too large", {"HTTPHeaders": {"date": "soon"}}, "of the request; set"),
    ],
)
def test_a_wrong_clock_is_distinguished_from_bad_credentials_and_by_how_much(
    code, message, metadata, expected
):
    assert expected in str(to_aws_failure(client_error(code, message, **metadata), "ec2:DescribeVolumes"))


def test_the_amount_comes_from_the_real_date_header_and_signing_time():
    ahead = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    with loopback_aws(lambda *_: ec2_error("AuthFailure", "not able to validate", date=ahead)) as aws:
        client = aws.client("ec2")
        botocore_hooks.install_hooks(client)
        with (
            pytest.raises(AwsError, match="clock is 120 min behind AWS's") as exc_info,
            translate_errors("ec2:DescribeVolumes"),
        ):
            client.describe_volumes()
    assert exc_info.value.failure.kind is FailureKind.CLOCK_SKEW


def test_the_region_that_refuses_the_credentials_is_named():
    with loopback_aws(lambda *_: ec2_error("AuthFailure", "not able to validate")) as aws:
        client = aws.client("ec2")
        botocore_hooks.install_hooks(client)
        with pytest.raises(AwsError) as exc_info, translate_errors("ec2:DescribeVolumes"):
            client.describe_volumes()
    problem = exc_info.value.problem
    assert "credentials, or the Region 'us-east-1' is not enabled for the account" in problem.cause
    assert problem.fix.endswith("; or enable the Region, or check --region")


def test_an_endpoint_that_is_not_there_is_named():
    with loopback_aws(lambda *_: no_volumes()) as aws:
        client = aws.client("ec2")
    with pytest.raises(AwsError) as exc_info, translate_errors("ec2:DescribeVolumes"):
        client.describe_volumes()
    assert exc_info.value.failure.kind is FailureKind.UNREACHABLE
    assert f"{aws.url} could not be reached" in str(exc_info.value)


def test_a_response_that_is_not_xml_is_malformed():
    with loopback_aws(lambda *_: CannedResponse(b"<html>captive portal")) as aws:
        client = aws.client("ec2")
        with pytest.raises(AwsError) as exc_info, translate_errors("ec2:DescribeVolumes"):
            client.describe_volumes()
    assert exc_info.value.failure.kind is FailureKind.BROKEN


def test_other_exceptions_pass_unexplained():
    with pytest.raises(ZeroDivisionError), translate_errors("ec2:DescribeVolumes"):
        1 / 0  # noqa: B018 - the exception is the point


@pytest.mark.usefixtures("no_retry_delay")
def test_every_retry_of_botocores_own_is_counted():
    # Two refusals, then an answer: three requests go out for one call.
    def answer(nth, _):
        return ec2_error("RequestLimitExceeded", "slow down", 503) if nth < 2 else no_volumes()

    with loopback_aws(answer) as aws:
        client = aws.client("ec2", attempts=5)
        counter = CallCounter()
        counter.attach(client)
        client.describe_volumes()
    assert len(aws.bodies) == 3
    assert counter.calls == {"ec2:DescribeVolumes": 3}


@pytest.mark.usefixtures("no_retry_delay")
def test_metrics_requested_count_once_for_a_call_and_its_retries_and_again_for_each_page():
    # Two queries: call one is throttled once and answered, call two is answered: 2 + 2 metrics, 3 requests.
    def answer(nth, _):
        if nth == 0:
            return json_answer({"__type": "com.amazonaws#Throttling", "message": "Rate exceeded"}, 400)
        return json_answer({"MetricDataResults": []})

    queries = [{"Id": "m0", "Expression": "1"}, {"Id": "m1", "Expression": "2"}]
    with loopback_aws(answer) as aws:
        client = aws.client("cloudwatch", attempts=3)
        counter = CallCounter()
        counter.attach(client)
        client.get_metric_data(MetricDataQueries=queries, **SPAN)
        client.get_metric_data(MetricDataQueries=queries, NextToken="t", **SPAN)
    assert counter.calls == {"cloudwatch:GetMetricData": 3}
    assert counter.metrics_requested == 4


def test_calls_of_many_threads_and_clients_add_up_and_attaching_twice_counts_once():
    with loopback_aws(lambda *_: no_volumes()) as aws:
        clients = [aws.client("ec2"), aws.client("ec2")]
        counter = CallCounter()
        for client in [*clients, *clients]:
            counter.attach(client)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda nth: clients[nth % 2].describe_volumes(), range(40)))
    assert counter.calls == {"ec2:DescribeVolumes": 40}
    counter.reset()
    assert (counter.calls, counter.metrics_requested) == ({}, 0)


def test_a_call_that_fails_counts_too():
    with loopback_aws(lambda *_: ec2_error("InvalidParameterValue", "no")) as aws:
        client = aws.client("ec2")
        counter = CallCounter()
        counter.attach(client)
        with pytest.raises(ClientError):
            client.describe_volumes()
    assert counter.calls == {"ec2:DescribeVolumes": 1}


def test_metrics_read_quickly_are_what_botocore_reads():
    result = {
        "Id": "m0",
        "Timestamps": [1795197600, 1795197660.0],
        "Values": [99.5, 98.0],
        "StatusCode": "Complete",
    }
    answer = {"MetricDataResults": [result], "Messages": [{"Code": "c", "Value": "v"}], "NextToken": "t"}
    with loopback_aws(lambda *_: json_answer(answer)) as aws:
        slow, quick = aws.client("cloudwatch"), aws.client("cloudwatch")
        botocore_hooks.install_hooks(quick)
        expected = slow.get_metric_data(MetricDataQueries=[{"Id": "m0"}], **SPAN)
        results = quick.get_metric_data(MetricDataQueries=[{"Id": "m0"}], **SPAN)
    assert results.keys() == expected.keys()
    assert results["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert (results["Messages"], results["NextToken"]) == (expected["Messages"], expected["NextToken"])
    [wanted], [quickly] = expected["MetricDataResults"], results["MetricDataResults"]
    times = [instant.timestamp() for instant in wanted["Timestamps"]]
    assert quickly == wanted | {"Timestamps": times}


@pytest.mark.parametrize(
    "answer",
    [
        CannedResponse(b"<html>captive portal", content_type="text/html"),
        CannedResponse(b"<html>captive portal", content_type="application/x-amz-json-1.0"),
    ],
)
def test_an_answer_that_is_not_cloudwatchs_has_no_results(answer):
    with loopback_aws(lambda *_: answer) as aws:
        client = aws.client("cloudwatch")
        botocore_hooks.install_hooks(client)
        assert "MetricDataResults" not in client.get_metric_data(MetricDataQueries=[{"Id": "m0"}], **SPAN)


def test_instants_are_read_quickly_and_as_utc():
    session = Session()
    botocore_hooks.use_fast_timestamps(session)
    created = "<createTime>2026-11-20T19:00:00.500+01:00</createTime>"
    answer = CannedResponse(f"<r><volumeSet><item>{created}</item></volumeSet></r>".encode())
    with loopback_aws(lambda *_: answer) as aws:
        [volume] = aws.client("ec2", session=session).describe_volumes()["Volumes"]
    assert volume["CreateTime"] == datetime(2026, 11, 20, 18, 0, 0, 500_000, tzinfo=UTC)
    assert volume["CreateTime"].tzinfo is UTC


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-20T18:00:00Z",
        "2026-11-20T18:00:00",
        "Fri, 20 Nov 2026 18:00:00 GMT",
        1795197600,
        1795197600.0,
    ],
)
def test_every_form_of_an_instant_is_read(written):
    session = Session()
    botocore_hooks.use_fast_timestamps(session)
    parser = session.get_component("response_parser_factory").create_parser("ec2")
    assert parser._timestamp_parser(written) == datetime(2026, 11, 20, 18, tzinfo=UTC)


def test_a_listing_that_repeats_its_token_ends_with_an_error():
    with (
        pytest.raises(AwsError, match="the token 'again' came twice"),
        translate_errors("ec2:DescribeVolumes"),
    ):
        list(botocore_hooks.paginate(lambda **_: {"Volumes": [], "NextToken": "again"}, list_key="Volumes"))


def test_a_listing_that_goes_round_in_a_circle_ends_with_an_error():
    tokens = cycle(["one", "another"])
    with pytest.raises(AwsError, match="the token 'one' came twice"), translate_errors("ec2:DescribeVolumes"):
        list(
            botocore_hooks.paginate(
                lambda **_: {"Volumes": [], "NextToken": next(tokens)}, list_key="Volumes"
            )
        )


@pytest.mark.parametrize("answer", [{}, {"Volumes": None}, {"Volumes": {"a": 1}}, None, [], "Volumes"])
def test_an_invalid_page_is_not_an_empty_page(answer):
    with pytest.raises(AwsError, match="has no list of Volumes"), translate_errors("ec2:DescribeVolumes"):
        list(botocore_hooks.paginate(lambda **_: answer, list_key="Volumes"))


@pytest.mark.parametrize("body", [b"\xff{}", b"[]", b"null"])
def test_bytes_that_botocore_stumbles_over_are_an_answer_that_failed(body):
    """Its parsers raise whatever comes of them, which one batch would hand on to the whole pass."""
    session = Session()
    botocore_hooks.use_strict_parser(session)
    answer = CannedResponse(body, content_type="application/x-amz-json-1.0")
    with loopback_aws(lambda *_: answer) as aws:
        client = aws.client("cloudwatch", session=session)
        botocore_hooks.install_hooks(client)
        with (
            pytest.raises(AwsError, match="not a response from AWS"),
            translate_errors("cloudwatch:GetMetricData"),
        ):
            client.get_metric_data(MetricDataQueries=[{"Id": "m0"}], **SPAN)


def test_an_invalid_number_is_a_failed_response():
    session = Session()
    botocore_hooks.use_strict_parser(session)
    answer = CannedResponse(b"<r><volumeSet><item><size>many</size></item></volumeSet></r>")
    with loopback_aws(lambda *_: answer) as aws:
        client = aws.client("ec2", session=session)
        with (
            pytest.raises(AwsError, match="not a response from AWS"),
            translate_errors("ec2:DescribeVolumes"),
        ):
            client.describe_volumes()


def test_an_impossible_signing_time_proves_nothing_about_the_clock():
    message = "Signature expired: 99999999T999999Z is now earlier than 20261120T180000Z"
    failure = to_aws_failure(client_error("SignatureDoesNotMatch", message), "ec2:DescribeVolumes")
    assert failure.kind is FailureKind.CLOCK_SKEW


def test_a_client_of_boto3_can_be_attached_too():
    client = boto3.client(
        "sns", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    botocore_hooks.install_hooks(client)
    CallCounter().attach(client)
