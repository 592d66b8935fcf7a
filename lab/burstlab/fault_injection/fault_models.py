"""How each service goes wrong, as its client tells it when it has given up."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from botocore.parsers import ResponseParserError

from burstlab.fake_aws.in_process_clients import refused
from burstlab.fault_injection.effects import ITEM_FAULTS, SAME, Alter, Fault, Nature
from burstwatch.adapters.aws.flip_queue import FlipRequest
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.flip_state import Cause, Direction
from burstwatch.core.text import format_instant

_GIVEN_UP_S: Final = 150.0
"""Five attempts of 30 s, as burstctl's clients are configured; those of the functions wait for less."""

_ONCE_S: Final = 20.0
_SOON_S: Final = 10.0
_AT_ONCE_S: Final = 5.0
_CHANNEL_S: Final = 10.0
"""A turn of 5 s to wait for, and an exchange of 5 s."""

_TOPIC_S: Final = 8.0
"""SNS is asked once in a pass."""

_LOCKED_S: Final = 5.0
_NEXT_AFTER_S: Final = 120
_LATER_POINTS: Final = 3
"""CloudWatch shows so many minutes later than it does in the story."""

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

_ABSENT: Final = {"InvalidVolume.NotFound": (400, "The volume does not exist.")}


def aws(
    service: str,
    *,
    changes: bool = False,
    patience_s: float = _GIVEN_UP_S,
    throttled: str = "Throttling",
    repeats: bool = False,
    drips: bool = False,
    codes: Mapping[str, tuple[int, str]] | None = None,
    alters: Mapping[str, Alter] | None = None,
    senseless: Mapping[str, str] | None = None,
) -> Nature:
    """A call to AWS: what botocore raises, and what its answer may look like."""
    url = f"https://{service}.us-east-1.amazonaws.com"
    raises: dict[str, Callable[[str], Exception]] = {
        Fault.ERROR: _answers("InternalError", 500, "An internal error has occurred"),
        Fault.TIMEOUT: lambda _: ReadTimeoutError(endpoint_url=url),
        Fault.THROTTLE: _answers(throttled, 400, "Rate exceeded"),
        Fault.GARBLED: lambda _: ResponseParserError("Unable to parse response, invalid XML received"),
    }
    if service == "ec2":
        raises[Fault.NEIGHBOURS] = raises[Fault.THROTTLE]
    if codes:
        raises |= {code: _answers(code, *told) for code, told in codes.items()}
    return Nature(
        changes=changes,
        patience_s=patience_s,
        repeats=repeats,
        drips=drips,
        raises=raises,
        alters=alters or {},
        senseless=senseless or {},
    )


def _answers(code: str, status: int, message: str) -> Callable[[str], Exception]:
    return lambda operation: refused(code, message, status, operation.rpartition(":")[2])


def listing(*keys: str, with_stale: bool = True) -> Mapping[str, Alter]:
    """What may be missing from a list of things in an answer, at the end of this path."""

    def some(answer: Any, _: Any) -> Any:
        return _cut(answer, keys, lambda things: things[(len(things) + 1) // 2 :])

    def none(answer: Any, _: Any) -> Any:
        return _cut(answer, keys, lambda _: [])

    found: dict[str, Alter] = {Fault.PARTIAL: some, Fault.EMPTY: none}
    return found | ({Fault.STALE: _before} if with_stale else {})


def _cut(answer: Any, keys: Sequence[str], shorten: Callable[[list[Any]], list[Any]]) -> Any:
    things = answer
    for key in keys:
        things = things[key]
    if not things:
        return SAME
    changed = deepcopy(answer)
    parent = changed
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = shorten(parent[keys[-1]])
    return changed


def _before(answer: Any, earlier: Any) -> Any:
    return SAME if earlier is None or earlier == answer else earlier


def _half_told(answer: Any, _: Any) -> Any:
    """CloudWatch has trouble with the first half of the queries, and says so."""
    results = answer["MetricDataResults"]
    ill = results[: (len(results) + 1) // 2]
    half = [
        {**one, "StatusCode": "PartialData"}
        | {name: one[name][: len(one[name]) // 2] for name in ("Timestamps", "Values")}
        for one in ill
    ]
    return {"MetricDataResults": [*half, *results[len(ill) :]]} if results else SAME


def _nothing_told(answer: Any, _: Any) -> Any:
    """A gap in every metric."""
    return _shortened(answer, lambda _: 0)


def _told_later(answer: Any, _: Any) -> Any:
    return _shortened(answer, lambda count: max(0, count - _LATER_POINTS))


def _shortened(answer: Any, length: Callable[[int], int]) -> Any:
    results = answer["MetricDataResults"]
    changed = [
        one | {name: one[name][: length(len(one[name]))] for name in ("Timestamps", "Values")}
        for one in results
    ]
    return SAME if changed == results else {"MetricDataResults": changed}


def _absurd(answer: Any, _: Any) -> Any:
    """Values that cannot be: CloudWatch's answer can be read, and makes no sense."""
    results = answer["MetricDataResults"]
    changed = [one | {"Values": [-250.0 for _ in one["Values"]]} for one in results]
    return SAME if changed == results else {"MetricDataResults": changed}


_METRICS: Final[Mapping[str, Alter]] = {
    Fault.PARTIAL: _half_told,
    Fault.EMPTY: _nothing_told,
    Fault.STALE: _told_later,
    Fault.GARBLED: _absurd,
}

_NO_READ: Final[Mapping[str, str]] = {Fault.STALE: "it is no read"}

DESCRIBE_VOLUMES: Final = aws("ec2", drips=True, throttled="RequestLimitExceeded", alters=listing("Volumes"))
DESCRIBE_NAMED: Final = aws("ec2", throttled="RequestLimitExceeded", alters=listing("Volumes"), codes=_ABSENT)
DESCRIBE_MODIFICATIONS: Final = aws(
    "ec2", throttled="RequestLimitExceeded", alters=listing("VolumesModifications")
)
DESCRIBE_INSTANCES: Final = aws(
    "ec2",
    throttled="RequestLimitExceeded",
    alters=listing("Reservations"),
    codes={"InvalidInstanceID.NotFound": (400, "The instance does not exist.")},
)
DESCRIBE_TYPES: Final = aws("ec2", throttled="RequestLimitExceeded", alters=listing("InstanceTypes"))
GET_METRICS: Final = aws("monitoring", drips=True, alters=_METRICS)
GET_CAUSES: Final = aws("monitoring", patience_s=_AT_ONCE_S, drips=True, alters=_METRICS)


def modify_volume(now_s: Callable[[], float]) -> Nature:
    """ModifyVolume, sent once; ``now_s`` is for the error that names a time."""

    def coded(code: str, status: int, message: str) -> Callable[[str], Exception]:
        def fail(operation: str) -> Exception:
            soon = format_instant(now_s() + _NEXT_AFTER_S)
            return _answers(code, status, message.format(soon=soon))(operation)

        return fail

    plain = aws(
        "ec2",
        changes=True,
        patience_s=_ONCE_S,
        throttled="RequestLimitExceeded",
        alters={Fault.PARTIAL: _without_start, Fault.EMPTY: lambda _, __: {}},
        senseless=_NO_READ,
    )
    url = "https://ec2.us-east-1.amazonaws.com"
    more: dict[str, Callable[[str], Exception]] = {
        code: coded(code, *told) for code, told in MODIFY_CODES.items()
    }
    more["EndpointConnectionError"] = lambda _: EndpointConnectionError(endpoint_url=url)
    more["ConnectionClosedError"] = lambda _: ConnectionClosedError(endpoint_url=url)
    return Nature(
        changes=True,
        patience_s=plain.patience_s,
        raises={**plain.raises, **more},
        alters=plain.alters,
        senseless=plain.senseless,
    )


def _without_start(answer: Any, _: Any) -> Any:
    told = {k: v for k, v in answer["VolumeModification"].items() if k != "StartTime"}
    return {"VolumeModification": told}


# The ledger in a file

_FILE: Final = "a file is read and written whole, or not at all"
_FILE_FAULTS: Final[dict[str, str]] = dict.fromkeys(
    (Fault.THROTTLE, Fault.PARTIAL, Fault.EMPTY, Fault.STALE, Fault.GARBLED, Fault.REPEAT), _FILE
)


def _file_fails(said: str) -> Callable[[str], Exception]:
    return lambda operation: LedgerError(f"{operation}: {said}")


def ledger_file(*, changes: bool) -> Nature:
    """One method of the SQLite ledger: its disk fails, or another process keeps the file locked."""
    senseless = dict(_FILE_FAULTS)
    if changes:
        senseless[Fault.TIMEOUT_AFTER] = "what waits for the lock has written nothing"
    return Nature(
        changes=changes,
        patience_s=_LOCKED_S,
        raises={
            Fault.ERROR: _file_fails("disk I/O error"),
            Fault.TIMEOUT: _file_fails("the file is locked by another process"),
        },
        senseless=senseless,
    )


# The ledger in a table

_CONSISTENT: Final = "every read of the ledger is consistent"
_TOO_MUCH: Final = "ProvisionedThroughputExceededException"


def _first_page(answer: Any, _: Any) -> Any:
    """A page with nothing on it yet: what it has comes with the next one."""
    return SAME if not answer.get("Items") else {"Items": [], "LastEvaluatedKey": FROM_THE_START}


FROM_THE_START: Final = {"pk": {"S": " "}, "sk": {"S": ""}}
"""Where the lab's table begins to read again."""


def _unprocessed(answer: Any, _: Any) -> Any:
    ((table, items),) = answer["Responses"].items()
    if not items:
        return SAME
    keys = [{name: item[name] for name in ("pk", "sk")} for item in items]
    left = {table: {"Keys": keys, "ConsistentRead": True}}
    return {"Responses": {table: []}, "UnprocessedKeys": left}


def spoil(text: str, fault: Fault) -> str | None:
    """What a ledger keeps, damaged; None where this cannot become of it."""
    if fault is Fault.DAMAGED:
        return text[: len(text) // 2]
    if fault is Fault.NULL:
        return "null"
    try:
        document = json.loads(text)
    except ValueError:
        return None  # such as the note of a policy, which is YAML
    if not isinstance(document, dict):
        return None
    if fault is Fault.LATER:
        return json.dumps(document | {"later_s": 7})
    known = next((name for name in ("level", "kind") if name in document), None)
    return None if known is None else json.dumps(document | {known: "doomed"})


_OF_TEXT: Final = ("body", "document", "claims")


def _spoil_one(fault: Fault) -> Alter:
    """Damage the first item of an answer that can be."""

    def alter(answer: Any, _: Any) -> Any:
        spoiled = deepcopy(answer)
        items = [*spoiled.get("Items", ()), *filter(None, [spoiled.get("Item")])]
        items += [item for found in spoiled.get("Responses", {}).values() for item in found]
        for item in items:
            name = next((name for name in _OF_TEXT if name in item), None)
            text = spoil(item[name]["S"], fault) if name else None
            if name and text is not None:
                item[name] = {"S": text}
                return spoiled
            if "until_s" in item and fault is not Fault.LATER:
                item["until_s"] = {"S": "noon"}
                return spoiled
        return SAME

    return alter


_SPOILED: Final[Mapping[str, Alter]] = {fault: _spoil_one(fault) for fault in ITEM_FAULTS}
_NEVER: Final[Mapping[str, str]] = {Fault.EMPTY: _CONSISTENT, Fault.STALE: _CONSISTENT}
DYNAMO_READS: Final[Mapping[str, Nature]] = {
    "GetItem": aws(
        "dynamodb",
        throttled=_TOO_MUCH,
        alters=_SPOILED,
        senseless={**_NEVER, Fault.PARTIAL: "an item is read whole"},
    ),
    "Query": aws(
        "dynamodb", throttled=_TOO_MUCH, alters={Fault.PARTIAL: _first_page, **_SPOILED}, senseless=_NEVER
    ),
    "BatchGetItem": aws(
        "dynamodb", throttled=_TOO_MUCH, alters={Fault.PARTIAL: _unprocessed, **_SPOILED}, senseless=_NEVER
    ),
}
_NO_ANSWER: Final[dict[str, str]] = dict.fromkeys(
    (Fault.PARTIAL, Fault.EMPTY, Fault.STALE), "a write is answered with nothing but that it is done"
)
DYNAMO_WRITE: Final = aws("dynamodb", throttled=_TOO_MUCH, changes=True, repeats=True, senseless=_NO_ANSWER)


def _conflict(operation: str) -> Exception:
    error: Any = refused(
        "TransactionCanceledException", "Transaction cancelled", 400, operation.rpartition(":")[2]
    )
    error.response["CancellationReasons"] = [{"Code": "TransactionConflict", "Message": "ongoing"}]
    return error  # type: ignore[no-any-return]


DYNAMO_TRANSACT: Final = Nature(
    changes=True,
    patience_s=DYNAMO_WRITE.patience_s,
    repeats=True,
    raises={**DYNAMO_WRITE.raises, "TransactionConflict": _conflict},
    senseless=_NO_ANSWER,
)

# Ways to people, and between functions


def _channel_fails(said: str, *, is_permanent: bool = False) -> Callable[[str], Exception]:
    return lambda operation: ChannelError(f"{operation}: {said}", is_permanent=is_permanent)


CHANNEL: Final = Nature(
    changes=True,
    patience_s=_CHANNEL_S,
    repeats=True,
    drips=True,
    raises={
        Fault.ERROR: _channel_fails("it answered 500"),
        Fault.TIMEOUT: _channel_fails("it did not answer in 10 s"),
        Fault.THROTTLE: _channel_fails("it answered 429"),
        "Forbidden": _channel_fails("it answered 403", is_permanent=True),
    },
)
PUBLISH: Final = aws(
    "sns",
    changes=True,
    patience_s=_TOPIC_S,
    repeats=True,
    drips=True,
    throttled="Throttled",
    codes={"AuthorizationError": (403, "not authorized to perform: SNS:Publish")},
)


def _some_failed(answer: Any, _: Any) -> Any:
    """SQS answers 200 and says of each entry that it failed."""
    failed = [
        {"Id": each["Id"], "SenderFault": False, "Code": "InternalError"} for each in answer["Successful"]
    ]
    return {"Failed": failed}


SEND_MESSAGES: Final = aws(
    "sqs",
    changes=True,
    repeats=True,
    throttled="RequestThrottled",
    alters={Fault.PARTIAL: _some_failed, Fault.EMPTY: lambda _, __: {}},
    senseless=_NO_READ,
    codes={"AccessDenied": (403, "Access to the resource is denied.")},
)


def forged_requests(volume_ids: Iterable[str], now_s: int) -> list[str]:
    """Flip requests of somebody who may send to the queue: some as the watchdog writes them, some not."""
    wants = [
        (Direction.OUT, Cause.DRAINING),
        (Direction.OUT, Cause.CRITICAL),
        (Direction.BACK, Cause.WINDOW),
    ]
    bodies = [
        FlipRequest(
            volume_id=volume_id, direction=direction, cause=cause, because="forged", time_s=now_s
        ).to_body()
        for volume_id in volume_ids
        for direction, cause in wants
    ]
    wish = {"volume_type": "io2", "iops": 60_000, "throughput_mib_s": None}
    more: list[dict[str, Any]] = [
        {"by": "mallory"},
        {"overridden": ["held", "spend_cap", "not_opted_in"], "wish": wish},
        {"time": format_instant(now_s + 10 * 365 * 86_400)},
    ]
    return bodies + [json.dumps(json.loads(bodies[0]) | each) for each in more]


PARAMETERS: Final = aws(
    "ssm",
    patience_s=_SOON_S,
    throttled="ThrottlingException",
    alters=listing("Parameters"),
    codes={"AccessDeniedException": (400, "is not authorized to perform: ssm:GetParameters")},
)
