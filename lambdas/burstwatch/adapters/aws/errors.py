"""Failures of calls to AWS: classified, and described in one sentence that a person can act on."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import sanitise

AWS_ERRORS: Final = (botocore.ClientError, botocore.BotoCoreError, ResponseParserError)
"""Every exception that botocore raises when a call to AWS does not succeed."""


class OutOfTimeError(botocore.BotoCoreError):
    """A request was not sent, or not retried, because there is no time left for it."""

    fmt = "it was not sent: {why}"


def error_codes(text: str) -> frozenset[str]:
    """A set of AWS's error codes, from a text in which they are separated by spaces."""
    return frozenset(text.split())


class FailureKind(StrEnum):
    """The kind of a failure, by what can be done about it."""

    RETRYABLE = "retryable"
    REFUSED = "refused"
    NO_CREDENTIALS = "no_credentials"
    CLOCK_SKEW = "clock_skew"
    UNREACHABLE = "unreachable"
    NOT_FOUND = "not_found"
    MISCONFIGURED = "misconfigured"
    BROKEN = "broken"


_SAME_FOR_ALL_CALLS: Final = frozenset(
    {
        FailureKind.NO_CREDENTIALS,
        FailureKind.CLOCK_SKEW,
        FailureKind.UNREACHABLE,
        FailureKind.MISCONFIGURED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsFailure:
    """One call to AWS that did not succeed; ``str()`` is a sentence with action, cause and next step.

    ``code`` is AWS's error code or the name of botocore's exception. No field contains credentials,
    signatures or an encoded authorization message. ``resource`` is what the call was about, if that is known.
    """

    kind: FailureKind
    code: str
    message: str
    next_step: str
    action: str = ""
    resource: str | None = None

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed soon, without anybody having done anything."""
        return self.kind in (FailureKind.RETRYABLE, FailureKind.UNREACHABLE)

    @property
    def is_access_denied(self) -> bool:
        """Whether the caller lacks a permission."""
        return self.code in _ACCESS_DENIED_CODES

    @property
    def problem(self) -> Problem:
        """The sentence with its parts; calls that fail for the same reason have the same cause."""
        action = self.action or "a call to AWS"
        is_same_for_all = self.kind in _SAME_FOR_ALL_CALLS or self.is_access_denied
        cause = self.message if is_same_for_all else f"{action} failed ({self.code}): {self.message}"
        sentence = f"{action} failed ({self.code}): {self.message}; {self.next_step}."
        return Problem(cause, self.next_step, sentence=sentence)

    def __str__(self) -> str:
        return str(self.problem)


class AwsError(BurstwatchError):
    """A call to AWS did not succeed, and the caller cannot go on without it."""

    def __init__(self, failure: AwsFailure) -> None:
        super().__init__(failure.problem)
        self.failure = failure


@contextmanager
def translate_errors(action: str) -> Iterator[None]:
    """Convert what botocore raises in the block into an ``AwsError``."""
    try:
        yield
    except AWS_ERRORS as error:
        raise AwsError(to_aws_failure(error, action)) from error


def to_aws_failure(error: Exception, action: str = "") -> AwsFailure:
    """Classify an exception of botocore.

    Args:
        error: one of ``AWS_ERRORS``.
        action: the call, such as ``ec2:DescribeVolumes``; an exception contains the operation at most.
    """
    if isinstance(error, botocore.ClientError):
        return _explain_error_response(error, action or error.operation_name)
    explanation = (
        _explain_before_sending(error) or _explain_no_response(error) or _explain_unexpected(str(error))
    )
    return AwsFailure(
        kind=explanation.kind,
        code=type(error).__name__,
        message=explanation.message,
        next_step=explanation.next_step,
        action=action,
    )


def had_no_effect(error: Exception) -> bool:
    """Whether a call that changes something certainly changed nothing: it was refused, or never sent.

    If this is false, the call may have been carried out, and only a read shows whether it was.

    Args:
        error: one of ``AWS_ERRORS``.
    """
    if not isinstance(error, botocore.ClientError):
        return isinstance(error, _NOT_SENT_ERRORS) or _explain_before_sending(error) is not None
    code = str(error.response.get("Error", {}).get("Code") or "")
    if code in _THROTTLING_CODES:
        return True
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    is_aws_code = code[:1].isalpha() and code != "Unknown" and code not in _TRANSIENT_CODES
    return is_aws_code and _FIRST_CLIENT_ERROR_STATUS <= status < _FIRST_SERVER_ERROR_STATUS


class _Explanation(NamedTuple):
    kind: FailureKind
    message: str
    next_step: str


_LOG_IN_STEP: Final = "run aws sso login, set AWS_PROFILE, or use --profile"
_REPORT_STEP: Final = "this is not expected, please report it with this line"

_CREDENTIAL_FETCH_ERRORS: Final = (
    botocore.CredentialRetrievalError,
    botocore.TokenRetrievalError,
    botocore.SSOError,
    botocore.LoginError,
    botocore.MetadataRetrievalError,
    botocore.RefreshWithMFAUnsupportedError,
)
_CONFIGURATION_ERRORS: Final = (
    botocore.ConfigParseError,
    botocore.ConfigNotFound,
    botocore.InvalidConfigError,
    botocore.InvalidRegionError,
    botocore.UnknownRegionError,
    botocore.InvalidEndpointConfigurationError,
    botocore.InvalidRetryConfigurationError,
    botocore.InvalidProxiesConfigError,
)
_NOT_SENT_ERRORS: Final = (
    botocore.ParamValidationError,
    botocore.EndpointConnectionError,
    botocore.ConnectTimeoutError,
    botocore.ProxyConnectionError,
)


def _explain_unexpected(text: str) -> _Explanation:
    return _Explanation(FailureKind.BROKEN, _sanitise(text), _REPORT_STEP)


def _explain_before_sending(error: Exception) -> _Explanation | None:
    """Failures before anything is sent: credentials, configuration, no time left."""
    text = _sanitise(str(error))
    match error:
        case botocore.NoCredentialsError() | botocore.NoAuthTokenError():
            explanation = _Explanation(FailureKind.NO_CREDENTIALS, "no AWS credentials found", _LOG_IN_STEP)
        case botocore.PartialCredentialsError():
            explanation = _Explanation(
                FailureKind.NO_CREDENTIALS, text, "set the missing half or remove the other"
            )
        case _ if isinstance(error, _CREDENTIAL_FETCH_ERRORS):
            cause = "the AWS credentials could not be fetched or renewed"
            explanation = _Explanation(FailureKind.NO_CREDENTIALS, cause, _LOG_IN_STEP)
        case botocore.ProfileNotFound():
            step = "name one that `aws configure list-profiles` shows"
            explanation = _Explanation(FailureKind.MISCONFIGURED, text, step)
        case botocore.NoRegionError():
            explanation = _Explanation(
                FailureKind.MISCONFIGURED, "no region is set", "give --region or set AWS_REGION"
            )
        case OutOfTimeError():
            step = "the next pass reads it; if it lasts, check the network, any proxy and AWS_ENDPOINT_URL"
            explanation = _Explanation(FailureKind.UNREACHABLE, text, step)
        case _ if isinstance(error, _CONFIGURATION_ERRORS):
            step = "correct the AWS configuration or the environment"
            explanation = _Explanation(FailureKind.MISCONFIGURED, text, step)
        case _:
            return None
    return explanation


_NO_RESPONSE_ERRORS: Final = (
    (botocore.ReadTimeoutError, FailureKind.UNREACHABLE, "{} took the request but did not answer in time"),
    (botocore.ConnectTimeoutError, FailureKind.UNREACHABLE, "{} could not be reached in time"),
    (botocore.ProxyConnectionError, FailureKind.UNREACHABLE, "the proxy {} could not be reached"),
    (botocore.SSLError, FailureKind.UNREACHABLE, "the certificate of {} was not accepted"),
    (botocore.ConnectionClosedError, FailureKind.RETRYABLE, "{} closed the connection before it answered"),
    (botocore.ResponseStreamingError, FailureKind.RETRYABLE, "the answer of {} broke off half-way"),
    (botocore.ConnectionError, FailureKind.UNREACHABLE, "{} could not be reached"),
    (botocore.HTTPClientError, FailureKind.UNREACHABLE, "{} could not be reached"),
)


def _explain_no_response(error: Exception) -> _Explanation | None:
    """No response, or half of one: the message names the endpoint."""
    for error_type, kind, message in _NO_RESPONSE_ERRORS:
        if isinstance(error, error_type):
            endpoint = _endpoint(error.kwargs.get("endpoint_url") or error.kwargs.get("proxy_url"))
            step = "try again; if it lasts, check the network, any proxy, the region and AWS_ENDPOINT_URL"
            return _Explanation(kind, message.format(endpoint), step)
    return None


def _endpoint(url: object) -> str:
    """The address of the endpoint, without user, password, path and query."""
    if not url:
        return "the endpoint"
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


_THROTTLING_CODES: Final = error_codes(
    """Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException
    RequestLimitExceeded TooManyRequestsException EC2ThrottledException LimitExceededException
    ProvisionedThroughputExceededException SlowDown BandwidthLimitExceeded"""
)
_TRANSIENT_CODES: Final = error_codes(
    """InternalError InternalFailure InternalServerError InternalServiceError InternalServiceFault
    ServiceUnavailable ServiceUnavailableException Unavailable RequestTimeout RequestTimeoutException
    PriorRequestNotComplete"""
)
_ACCESS_DENIED_CODES: Final = error_codes(
    """UnauthorizedOperation AccessDenied AccessDeniedException UnauthorizedException AuthorizationError
    AuthorizationErrorException Blocked"""
)
_BAD_CREDENTIALS_CODES: Final = error_codes(
    """ExpiredToken ExpiredTokenException InvalidClientTokenId UnrecognizedClientException AuthFailure
    InvalidAccessKeyId InvalidToken TokenRefreshRequired MissingAuthenticationToken
    MissingAuthenticationTokenException"""
)
_BAD_SIGNATURE_CODES: Final = error_codes("SignatureDoesNotMatch InvalidSignature InvalidSignatureException")
_CLOCK_SKEW_CODES: Final = error_codes("RequestExpired RequestTimeTooSkewed RequestInTheFuture")
_MIN_SUSPECT_SKEW_S: Final = 240.0
"""AWS tolerates about five minutes; below four, the clock is not the cause.

Source: IAM user guide, "AWS Signature Version 4 for API requests".
"""

# only a 4xx of AWS itself proves that a call was refused; a 5xx leaves it open
_FIRST_CLIENT_ERROR_STATUS: Final = 400
_FIRST_SERVER_ERROR_STATUS: Final = 500
# one sentence of AWS, such as a denial with its ARNs; a code is one word
_MAX_MESSAGE_CHARS: Final = 400
_MAX_CODE_CHARS: Final = 80


def _explain_error_response(error: botocore.ClientError, action: str) -> AwsFailure:
    """Classify an error response of AWS."""
    details = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    code = sanitise(str(details.get("Code") or ""), _MAX_CODE_CHARS) or "Unknown"
    text = str(details.get("Message") or "AWS gave no reason")
    resource = None
    if code in _ACCESS_DENIED_CODES:
        explanation, resource = _explain_refusal(text, action)
    elif code in _CLOCK_SKEW_CODES or code in _BAD_SIGNATURE_CODES or code in _BAD_CREDENTIALS_CODES:
        explanation = _explain_credentials(code, text, metadata)
    else:
        explanation = _explain_other(code, _sanitise(text), metadata)
    return AwsFailure(
        kind=explanation.kind,
        code=code,
        message=explanation.message,
        next_step=explanation.next_step,
        action=action,
        resource=resource,
    )


_RAISE_QUOTA_STEP: Final = "request a higher quota (Service Quotas, Amazon EBS), or free some of it"
_REFUSAL_NEXT_STEPS: Final = {
    "IncorrectModificationState": "wait until its modification is completed",
    "VolumeModificationRateExceeded": "wait, AWS allows four modifications of a volume in 24 hours",
    "OptInRequired": "enable the Region for the account, or complete the account's sign-up to AWS",
    "IncorrectState": "wait until it is in-use or available",
    "UnsupportedOperation": "change it by hand, AWS does not allow this here",
    "MaxIOPSLimitExceeded": _RAISE_QUOTA_STEP,
    "VolumeModificationSizeLimitExceeded": _RAISE_QUOTA_STEP,
    "VolumeLimitExceeded": _RAISE_QUOTA_STEP,
    "VolumeIOPSLimit": "ask for fewer IOPS, or spread them over several volumes",
}
"""Error codes of refusals, each with what a person can do.

Source: the EC2 API reference, "Error codes for the Amazon EC2 API". ``VolumeModificationRateExceeded`` is not
in that list, but EC2 returns it when the four modifications in 24 hours are used up.
"""


def _explain_other(code: str, message: str, metadata: Mapping[str, Any]) -> _Explanation:
    if code in _THROTTLING_CODES:
        step = "try again later; if it lasts, ask AWS for a higher quota"
        return _Explanation(
            FailureKind.RETRYABLE, f"AWS limits how often this may be called ({message})", step
        )
    if code in _TRANSIENT_CODES or metadata.get("HTTPStatusCode", 0) >= _FIRST_SERVER_ERROR_STATUS:
        step = "try again; if it lasts, look at the AWS Health Dashboard"
        return _Explanation(FailureKind.RETRYABLE, f"AWS had an internal error ({message})", step)
    if code in _REFUSAL_NEXT_STEPS:
        return _Explanation(FailureKind.REFUSED, message, _REFUSAL_NEXT_STEPS[code])
    if "NotFound" in code:
        return _Explanation(FailureKind.NOT_FOUND, message, "check the id, the region and the account")
    request_id = metadata.get("RequestId", "(none given)")
    return _Explanation(FailureKind.BROKEN, message, f"{_REPORT_STEP} and AWS's request id {request_id}")


_PERMISSION_PATTERN: Final = re.compile(
    r"(?:User: (?P<who>\S+) )?is not authorized to perform:? (?P<action>[\w-]+:\w+)"
    r"(?: on resource: (?P<resource>\S+))?"
)
_ENCODED_MESSAGE: Final = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)


def _explain_refusal(text: str, action: str) -> tuple[_Explanation, str | None]:
    """Which identity may not do what, and on which resource, as far as AWS states it."""
    match = _PERMISSION_PATTERN.search(_ENCODED_MESSAGE.sub("", text))
    groups = match.groupdict() if match else {}
    principal, denied = groups.get("who") or "this identity", groups.get("action") or action
    resource = (groups.get("resource") or "").rstrip(".,") or None
    principal, denied = sanitise(principal, _MAX_MESSAGE_CHARS // 2), sanitise(denied, _MAX_CODE_CHARS)
    resource = sanitise(resource, _MAX_MESSAGE_CHARS // 2) if resource else None
    message = f"{principal} may not call {denied}" + (f" on {resource}" if resource else "")
    step = f"grant {denied} to it, or use credentials that have it"
    if "explicit deny" in text:
        message += ", an explicit deny forbids it"
        step = "have the policy that denies it changed: no grant outweighs a deny"
    return _Explanation(FailureKind.REFUSED, message, step), resource


def _explain_credentials(code: str, text: str, metadata: Mapping[str, Any]) -> _Explanation:
    """Explain a credentials error; a wrong clock looks the same, and so do expired credentials in EC2."""
    is_about_time = code in _CLOCK_SKEW_CODES or (
        code in _BAD_SIGNATURE_CODES and re.search(r"expired|not yet current", text) is not None
    )
    server_at = _server_time(metadata)
    skew_s = _skew_s(text, metadata, server_at)
    if is_about_time if skew_s is None else abs(skew_s) >= _MIN_SUSPECT_SKEW_S:
        step = "set this machine's clock (such as `chronyc makestep`)"
        if code == "RequestExpired" and skew_s is None:
            step += ", or if it is right, log in again: EC2 says the same of expired credentials"
        return _Explanation(FailureKind.CLOCK_SKEW, _skew_message(skew_s, server_at), step)
    if is_about_time or "Expired" in code:
        return _Explanation(FailureKind.NO_CREDENTIALS, "the AWS credentials have expired", _LOG_IN_STEP)
    if code in _BAD_SIGNATURE_CODES:
        return _Explanation(
            FailureKind.NO_CREDENTIALS, "the secret access key does not fit its id", _LOG_IN_STEP
        )
    region = metadata.get("Region")
    place = f"the Region {region!r}" if region else "the Region"
    return _Explanation(
        FailureKind.NO_CREDENTIALS,
        f"AWS does not accept these credentials, or {place} is not enabled for the account",
        f"{_LOG_IN_STEP}; or enable the Region, or check --region",
    )


def _skew_message(skew_s: float | None, server_at: datetime | None) -> str:
    aws_time = f" (AWS has {server_at:%Y-%m-%d %H:%M:%S} UTC)" if server_at else ""
    if skew_s is None:
        return f"AWS rejects the time of the request{aws_time}"
    side = "ahead of" if skew_s > 0 else "behind"
    return f"this machine's clock is {abs(skew_s) / 60:.0f} min {side} AWS's{aws_time}"


_SIGNED_AT_PATTERN: Final = re.compile(r"(?:expired|not yet current): (\d{8}T\d{6}Z)")


def _skew_s(text: str, metadata: Mapping[str, Any], server_at: datetime | None) -> float | None:
    """Seconds that this machine's clock is ahead of AWS's; None if the response does not show it."""
    match = _SIGNED_AT_PATTERN.search(text)
    signed_text = match[1] if match else metadata.get("SignedAt")
    if signed_text is None or server_at is None:
        return None
    try:
        signed_at = datetime.strptime(signed_text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (signed_at - server_at).total_seconds()


def _server_time(metadata: Mapping[str, Any]) -> datetime | None:
    try:
        return parsedate_to_datetime(metadata.get("HTTPHeaders", {})["date"]).astimezone(UTC)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


_SECRET_PATTERNS: Final = (
    (_ENCODED_MESSAGE, ""),
    (re.compile(r"The Canonical String for this request.*", re.DOTALL), ""),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}\b"), r"\1…"),
    (re.compile(r"(?i)(token|signature|credential|authorization)[=:]\s*\S+"), r"\1 …"),
)


def _sanitise(text: str) -> str:
    """AWS's message as part of a sentence: one line, truncated, without secrets."""
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return sanitise(text, _MAX_MESSAGE_CHARS).rstrip(".;: ") or "AWS gave no reason"
