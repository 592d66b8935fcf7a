"""The faults of each service, as its client reports them after its retries."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from botocore.parsers import ResponseParserError

from burstlab.fake_aws.in_process_clients import client_error
from burstlab.fault_injection.effects import UNCHANGED, Alter, Fault, FaultModel
from burstwatch.adapters.aws.flip_request import FlipRequest
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.text import format_instant

_CLI_TIMEOUT_S: Final = 150.0
"""Five attempts of 30 s, as burstctl's clients are configured; those of the functions wait for less."""

# the time-outs of the clients in wiring/bootstrap, times their attempts
_MODIFY_TIMEOUT_S: Final = 20.0
_PARAMETERS_TIMEOUT_S: Final = 10.0
_DRAIN_METRICS_TIMEOUT_S: Final = 5.0
_CHANNEL_TIMEOUT_S: Final = 10.0
"""A turn of 5 s to wait for, and an exchange of 5 s."""

_SNS_TIMEOUT_S: Final = 8.0
"""SNS is called once in a pass."""

_NEXT_MODIFICATION_AFTER_S: Final = 120  # the story lasts minutes: AWS's wait of hours would end it
_DELAYED_DATAPOINTS: Final = 3
"""CloudWatch is this many minutes later than usual."""

MODIFY_CODES: Final[Mapping[str, tuple[int, str]]] = {
    "IncorrectModificationState": (400, "cannot be modified in modification state OPTIMIZING."),
    "VolumeModificationRateExceeded": (
        400,
        "You've reached the maximum modification rate per volume. Wait until {soon} before the next one.",
    ),
    "VolumeModificationSizeLimitExceeded": (400, "You have reached the limit of storage being modified."),
    "MaxIOPSLimitExceeded": (400, "You have exceeded your maximum IOPS limit in this Region."),
    "VolumeIOPSLimit": (400, "The maximum IOPS limit for the volume has been reached."),
    "VolumeLimitExceeded": (400, "You have reached the limit on your EBS volume storage."),
    "IncorrectState": (400, "The volume is in an incorrect state for the requested action."),
    "InvalidParameterValue": (400, "Iops to volume size ratio of 60 is too high; maximum is 50"),
    "InvalidParameterCombination": (400, "The parameter iops is not supported for gp2 volumes."),
    "InvalidVolume.NotFound": (400, "The volume does not exist."),
    "InvalidVolumeID.Malformed": (400, "Value for parameter volume is invalid."),
    "UnauthorizedOperation": (403, "You are not authorized to perform this operation."),
    "DryRunOperation": (412, "Request would have succeeded, but DryRun flag is set."),
    "RequestLimitExceeded": (503, "Request limit exceeded."),
    "UnsupportedOperation": (400, "The operation is not supported for this volume."),
}
"""Every error that ModifyVolume is known to answer with."""

_VOLUME_NOT_FOUND: Final = {"InvalidVolume.NotFound": (400, "The volume does not exist.")}


_THROTTLE_CODES: Final = {
    "ec2": "RequestLimitExceeded",
    "monitoring": "Throttling",
    "dynamodb": "ProvisionedThroughputExceededException",
    "sns": "Throttled",
    "sqs": "RequestThrottled",
    "ssm": "ThrottlingException",
}


def make_aws_model(
    service: str,
    *,
    timeout_s: float = _CLI_TIMEOUT_S,
    is_write: bool = False,
    codes: Mapping[str, tuple[int, str]] | None = None,
    **fields: Any,
) -> FaultModel:
    """A call to AWS: what botocore raises, and what its answer may look like."""
    url = f"https://{service}.us-east-1.amazonaws.com"
    errors: dict[str, Callable[[str], Exception]] = {
        Fault.ERROR: _client_error_factory("InternalError", 500, "An internal error has occurred"),
        Fault.TIMEOUT: lambda _: ReadTimeoutError(endpoint_url=url),
        Fault.THROTTLE: _client_error_factory(_THROTTLE_CODES[service], 400, "Rate exceeded"),
        Fault.GARBLED: lambda _: ResponseParserError("Unable to parse response, invalid XML received"),
    }
    if service == "ec2":
        errors[Fault.NOISY_NEIGHBOUR] = errors[Fault.THROTTLE]
    for code, status_and_message in (codes or {}).items():
        errors[code] = _client_error_factory(code, *status_and_message)
    return FaultModel(is_write=is_write, timeout_s=timeout_s, errors=errors, **fields)


def _client_error_factory(code: str, status: int, message: str) -> Callable[[str], Exception]:
    return lambda operation: client_error(code, message, status, operation.rpartition(":")[2])


def list_alterations(key: str) -> Mapping[str, Alter]:
    """What may be missing from the list of things that an answer has under this key."""

    def shorten(response: Any, start: int) -> Any:
        return {**response, key: response[key][start:]} if response[key] else UNCHANGED

    return {
        Fault.PARTIAL: lambda response, _: shorten(response, (len(response[key]) + 1) // 2),
        Fault.EMPTY: lambda response, _: shorten(response, len(response[key])),
        Fault.STALE: _earlier_response,
    }


def _earlier_response(response: Any, earlier: Any) -> Any:
    return UNCHANGED if earlier is None or earlier == response else earlier


def _mark_half_partial(response: Any, _: Any) -> Any:
    """CloudWatch has trouble with the first half of the queries, and says so."""
    results = response["MetricDataResults"]
    affected = results[: (len(results) + 1) // 2]
    partial = [
        {**result, "StatusCode": "PartialData"}
        | {name: result[name][: len(result[name]) // 2] for name in ("Timestamps", "Values")}
        for result in affected
    ]
    return {"MetricDataResults": [*partial, *results[len(affected) :]]} if results else UNCHANGED


def _drop_datapoints(response: Any, _: Any) -> Any:
    """A gap in every metric."""
    return _truncate_datapoints(response, lambda _: 0)


def _drop_newest_datapoints(response: Any, _: Any) -> Any:
    return _truncate_datapoints(response, lambda count: max(0, count - _DELAYED_DATAPOINTS))


def _truncate_datapoints(response: Any, length: Callable[[int], int]) -> Any:
    results = response["MetricDataResults"]
    changed = [
        result | {name: result[name][: length(len(result[name]))] for name in ("Timestamps", "Values")}
        for result in results
    ]
    return UNCHANGED if changed == results else {"MetricDataResults": changed}


def _make_values_negative(response: Any, _: Any) -> Any:
    """Values that cannot be: CloudWatch's answer can be read, and makes no sense."""
    results = response["MetricDataResults"]
    changed = [result | {"Values": [-250.0 for _ in result["Values"]]} for result in results]
    return UNCHANGED if changed == results else {"MetricDataResults": changed}


_METRIC_ALTERATIONS: Final[Mapping[str, Alter]] = {
    Fault.PARTIAL: _mark_half_partial,
    Fault.EMPTY: _drop_datapoints,
    Fault.STALE: _drop_newest_datapoints,
    Fault.GARBLED: _make_values_negative,
}

_NOT_A_READ: Final[Mapping[str, str]] = {Fault.STALE: "it is not a read"}

DESCRIBE_VOLUMES: Final = make_aws_model("ec2", can_drip=True, alterations=list_alterations("Volumes"))
DESCRIBE_NAMED: Final = make_aws_model(
    "ec2",
    alterations=list_alterations("Volumes"),
    codes=_VOLUME_NOT_FOUND,
)
DESCRIBE_MODIFICATIONS: Final = make_aws_model("ec2", alterations=list_alterations("VolumesModifications"))
DESCRIBE_INSTANCES: Final = make_aws_model(
    "ec2",
    alterations=list_alterations("Reservations"),
    codes={"InvalidInstanceID.NotFound": (400, "The instance does not exist.")},
)
DESCRIBE_TYPES: Final = make_aws_model("ec2", alterations=list_alterations("InstanceTypes"))
GET_METRICS: Final = make_aws_model("monitoring", can_drip=True, alterations=_METRIC_ALTERATIONS)
GET_DRAIN_METRICS: Final = make_aws_model(
    "monitoring", timeout_s=_DRAIN_METRICS_TIMEOUT_S, can_drip=True, alterations=_METRIC_ALTERATIONS
)


def make_modify_volume_model(now_s: Callable[[], float]) -> FaultModel:
    """ModifyVolume, which is sent once; ``now_s`` is for the error that contains a time."""

    def make_error_factory(code: str, status: int, message: str) -> Callable[[str], Exception]:
        def fail(operation: str) -> Exception:
            soon = format_instant(now_s() + _NEXT_MODIFICATION_AFTER_S)
            return _client_error_factory(code, status, message.format(soon=soon))(operation)

        return fail

    base = make_aws_model(
        "ec2",
        is_write=True,
        timeout_s=_MODIFY_TIMEOUT_S,
        alterations={Fault.PARTIAL: _drop_start_time, Fault.EMPTY: lambda _, __: {}},
        not_applicable=_NOT_A_READ,
    )
    url = "https://ec2.us-east-1.amazonaws.com"
    codes = {
        code: make_error_factory(code, *status_and_message)
        for code, status_and_message in MODIFY_CODES.items()
    }
    network_errors: dict[str, Callable[[str], Exception]] = {
        "EndpointConnectionError": lambda _: EndpointConnectionError(endpoint_url=url),
        "ConnectionClosedError": lambda _: ConnectionClosedError(endpoint_url=url),
    }
    return replace(base, errors={**base.errors, **codes, **network_errors})


def _drop_start_time(response: Any, _: Any) -> Any:
    fields = {k: v for k, v in response["VolumeModification"].items() if k != "StartTime"}
    return {"VolumeModification": fields}


# Alert channels, and messages between functions


def _channel_error_factory(message: str, *, is_permanent: bool = False) -> Callable[[str], Exception]:
    return lambda operation: ChannelError(f"{operation}: {message}", is_permanent=is_permanent)


CHANNEL: Final = FaultModel(
    is_write=True,
    timeout_s=_CHANNEL_TIMEOUT_S,
    can_repeat=True,
    can_drip=True,
    errors={
        Fault.ERROR: _channel_error_factory("it answered 500"),
        Fault.TIMEOUT: _channel_error_factory("it did not answer in 10 s"),
        Fault.THROTTLE: _channel_error_factory("it answered 429"),
        "Forbidden": _channel_error_factory("it answered 403", is_permanent=True),
    },
)
PUBLISH: Final = make_aws_model(
    "sns",
    is_write=True,
    timeout_s=_SNS_TIMEOUT_S,
    can_repeat=True,
    can_drip=True,
    codes={"AuthorizationError": (403, "not authorized to perform: SNS:Publish")},
)


def _fail_all_entries(response: Any, _: Any) -> Any:
    """SQS returns 200 with a failure for each entry. Source: SQS API reference, SendMessageBatch."""
    failed = [
        {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"} for entry in response["Successful"]
    ]
    return {"Failed": failed}


SEND_MESSAGES: Final = make_aws_model(
    "sqs",
    is_write=True,
    can_repeat=True,
    alterations={Fault.PARTIAL: _fail_all_entries, Fault.EMPTY: lambda _, __: {}},
    not_applicable=_NOT_A_READ,
    codes={"AccessDenied": (403, "Access to the resource is denied.")},
)


def forge_requests(volume_ids: Iterable[str], now_s: int) -> list[str]:
    """Flip requests of an attacker who may send to the queue: some are valid, some are not."""
    combinations = [
        (Direction.FLIP, FlipCause.DRAINING),
        (Direction.FLIP, FlipCause.CRITICAL),
        (Direction.FLIP_BACK, FlipCause.WINDOW),
    ]
    bodies = [
        FlipRequest(
            volume_id=volume_id, direction=direction, cause=cause, because="forged", requested_at_s=now_s
        ).to_body()
        for volume_id in volume_ids
        for direction, cause in combinations
    ]
    target = {"volume_type": "io2", "iops": 60_000, "throughput_mib_s": None}
    tampered_fields: list[dict[str, Any]] = [
        {"by": "mallory"},
        {"overridden": ["held", "spend_cap", "not_opted_in"], "wish": target},
        {"time": format_instant(now_s + 10 * 365 * 86_400)},
    ]
    return bodies + [json.dumps(json.loads(bodies[0]) | fields) for fields in tampered_fields]


GET_PARAMETERS: Final = make_aws_model(
    "ssm",
    timeout_s=_PARAMETERS_TIMEOUT_S,
    alterations=list_alterations("Parameters"),
    codes={"AccessDeniedException": (400, "is not authorized to perform: ssm:GetParameters")},
)
