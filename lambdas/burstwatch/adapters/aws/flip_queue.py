"""Requests to flip a volume, sent through an SQS FIFO queue with a message group for each volume."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self, TypeAlias

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause
from burstwatch.core.text import format_instant, sanitise

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

SCHEMA: Final = "burstwatch.flip_request/v1"

_MAX_BATCH_SIZE: Final = 10
"""The most entries of SendMessageBatch (SQS API reference)."""
_MAX_BYTES: Final = 25_000
"""The largest message: a batch of ten then fits into the 256 KiB that SQS once allowed."""
_MAX_SHOWN_CHARS: Final = 60
_MAX_MESSAGE_CHARS: Final = 200
_MAX_ERROR_CHARS: Final = 900
_VOLUME_ID_PATTERN: Final = re.compile(r"vol-[0-9a-f]{8,17}")
_MINUTE_S: Final = 60

_MAX_TIMESTAMP_S: Final = 253_402_300_800
"""The end of the year 9999, the last that Python's datetime can hold."""


class MalformedRequestError(BurstwatchError):
    """A message is not a flip request; the text names every fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRequest:
    """Which volume to decide about, for which change, why, and the time of the tick that requests it.

    It is advice: the flip function decides again. So it contains no target, demand or override.
    """

    volume_id: str
    direction: Direction
    cause: FlipCause
    because: str
    requested_at_s: int

    @property
    def deduplication_id(self) -> str:
        """The ID by which SQS drops repeats for five minutes: volume, direction and minute.

        Because of the minute, a request that was given up or refused can be sent again a minute later.
        Source: the SQS developer guide, "Using the message deduplication ID".
        """
        parts = (self.volume_id, str(self.direction), str(self.requested_at_s // _MINUTE_S))
        return sha256("\n".join(parts).encode()).hexdigest()

    def to_body(self) -> str:
        """The request as the body of a message: ASCII, because SQS rejects some Unicode characters."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "time": format_instant(self.requested_at_s),
            "volume_id": self.volume_id,
            "direction": self.direction,
            "cause": self.cause,
            "because": self.because,
            **_LEGACY_VALUES,
        }
        return json.dumps(document, allow_nan=False)

    @classmethod
    def from_body(cls, body: str) -> Self:
        """The inverse of ``to_body``; fields that older versions sent are accepted with the value they had.

        Raises:
            MalformedRequestError: the watchdog never sends such a message; the text names every fault.
        """
        if len(body) > _MAX_BYTES:
            raise MalformedRequestError(
                f"the message is no flip request: it is longer than {_MAX_BYTES:,} characters"
            )
        try:
            document = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedRequestError(f"the message is no flip request: it is no JSON ({error})") from error
        try:
            values = _parse_object(document, _REQUEST_PARSERS, _LEGACY_PARSERS)
            _check_cause(values["direction"], values["cause"])
        except ValueError as error:
            raise MalformedRequestError(
                sanitise(f"the message is no flip request: {error}", _MAX_ERROR_CHARS)
            ) from error
        return cls(requested_at_s=values["time"], **{name: values[name] for name in _COPIED_FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The volumes whose requests the queue took, and for each of the others the reason why it did not."""

    sent: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


class _SendFailure(NamedTuple):
    message: str
    is_transient: bool


class FlipQueue:
    """Sends flip requests; the result names every request that the queue did not take."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, requests: Sequence[FlipRequest]) -> SendResult:
        """Send requests in batches; after a failure of AWS once more, because the queue drops repeats."""
        failed: dict[str, str] = {}
        for offset in range(0, len(requests), _MAX_BATCH_SIZE):
            batch = requests[offset : offset + _MAX_BATCH_SIZE]
            failures = self._send_batch(batch)
            if retries := [request for request in batch if _is_transient(failures, request)]:
                failures = {i: failure for i, failure in failures.items() if not failure.is_transient}
                failures |= self._send_batch(retries)
            failed |= {volume_id: failure.message for volume_id, failure in failures.items()}
        requested_ids = frozenset(request.volume_id for request in requests)
        return SendResult(sent=requested_ids - failed.keys(), failed=failed)

    def put_back(self, receipt_handle: str, after_s: int) -> str | None:
        """Let a message in flight be received again after ``after_s`` seconds; the error if that failed."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=after_s
            )
        except AWS_ERRORS as error:
            return str(to_aws_failure(error, "sqs:ChangeMessageVisibility"))
        return None

    def _send_batch(self, batch: Sequence[FlipRequest]) -> dict[str, _SendFailure]:
        """Send at most ten requests; return those that were refused, by volume.

        SQS answers 200 even if some entries of a batch failed, so each entry is checked.
        """
        bodies = {str(number): request.to_body() for number, request in enumerate(batch)}
        volume_ids = {str(number): request.volume_id for number, request in enumerate(batch)}
        failures = {
            volume_ids[n]: _oversize_failure(body) for n, body in bodies.items() if len(body) > _MAX_BYTES
        }
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": str(number),
                "MessageBody": bodies[str(number)],
                "MessageGroupId": request.volume_id,
                "MessageDeduplicationId": request.deduplication_id,
            }
            for number, request in enumerate(batch)
            if request.volume_id not in failures
        ]
        if not entries:
            return failures
        try:
            response = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except AWS_ERRORS as error:
            message = str(to_aws_failure(error, "sqs:SendMessage"))
            return failures | {
                volume_ids[entry["Id"]]: _SendFailure(message, is_transient=False) for entry in entries
            }
        accepted_by_id, failed_by_id = (
            _entries_by_id(response, "Successful"),
            _entries_by_id(response, "Failed"),
        )
        missing_numbers = (entry["Id"] for entry in entries if entry["Id"] not in accepted_by_id)
        return failures | {
            volume_ids[number]: _to_failure(failed_by_id.get(number)) for number in missing_numbers
        }


def _entries_by_id(response: Mapping[str, Any], list_key: str) -> dict[str, Mapping[str, Any]]:
    """The result of each entry of a batch; an entry that the response does not name is left out."""
    raw = response.get(list_key)
    entries = raw if isinstance(raw, list) else []
    return {str(entry.get("Id")): entry for entry in entries if isinstance(entry, Mapping)}


def _is_transient(failures: Mapping[str, _SendFailure], request: FlipRequest) -> bool:
    failure = failures.get(request.volume_id)
    return failure is not None and failure.is_transient


def _oversize_failure(body: str) -> _SendFailure:
    message = f"the flip request has {len(body):,} bytes, at most {_MAX_BYTES:,}; please report this"
    return _SendFailure(message, is_transient=False)


def _to_failure(entry: Mapping[str, Any] | None) -> _SendFailure:
    """Why one entry of a batch was not taken; one that the response does not name may have been."""
    if entry is None:
        message = "sqs:SendMessage failed: AWS did not say what became of it; a later tick asks again."
        return _SendFailure(message, is_transient=True)
    aws_message = sanitise(str(entry.get("Message") or "AWS gave no reason"), _MAX_MESSAGE_CHARS)
    is_transient = not entry.get("SenderFault", False)
    next_step = (
        "a later tick asks again" if is_transient else "this is not expected, please report it with this line"
    )
    return _SendFailure(
        f"sqs:SendMessage failed ({sanitise(str(entry.get('Code')), _MAX_SHOWN_CHARS)}): {aws_message};"
        f" {next_step}.",
        is_transient=is_transient,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _parse_object(value: Any, required: "_Parsers", optional: "_Parsers | None" = None) -> dict[str, Any]:
    """Parse the fields of an object, and allow no others; those in ``optional`` may be missing.

    Raises:
        ValueError: the text names every fault.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{_quote(value)} is no object")  # noqa: TRY004 - all that is wrong with a message is one kind
    parsers = {**required, **(optional or {})}
    faults = [f"{_quote(key)} is not known" for key in value if key not in parsers]
    faults += [f"{key!r} is missing" for key in required if key not in value]
    parsed: dict[str, Any] = {}
    for key in parsers.keys() & value.keys():
        try:
            parsed[key] = parsers[key](value[key])
        except ValueError as error:
            faults.append(f"{key!r}: {error}")
    if faults:
        raise ValueError("; ".join(sorted(faults)))
    return parsed


def _quote(value: Any) -> str:
    return sanitise(json.dumps(value), _MAX_SHOWN_CHARS)


def _require(value: Any, *, is_valid: bool, fault: str) -> Any:
    if not is_valid:
        raise ValueError(f"{_quote(value)} is {fault}")
    return value


def _check_schema(value: Any) -> Any:
    return _require(value, is_valid=value == SCHEMA, fault=f"not {SCHEMA}")


def _check_text(value: Any) -> Any:
    return _require(value, is_valid=isinstance(value, str), fault="no text")


def _check_volume_id(value: Any) -> Any:
    is_valid = isinstance(value, str) and _VOLUME_ID_PATTERN.fullmatch(value) is not None
    return _require(value, is_valid=is_valid, fault="no volume id")


def _parse_instant(value: Any) -> Any:
    at_s = None
    with suppress(ValueError, OverflowError):
        instant = datetime.fromisoformat(value if isinstance(value, str) else "")
        at_s = int(instant.timestamp()) if instant.tzinfo else None
    is_valid = at_s is not None and 0 <= at_s < _MAX_TIMESTAMP_S
    _require(value, is_valid=is_valid, fault="no instant such as 2026-11-20T18:00:00Z")
    return at_s


def _enum_parser(enum_type: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def read(value: Any) -> StrEnum:
        _require(value, is_valid=value in list(enum_type), fault=f"none of {', '.join(enum_type)}")
        return enum_type(value)

    return read


def _check_cause(direction: Direction, cause: FlipCause) -> None:
    if direction is Direction.FLIP and cause is FlipCause.MANUAL:
        raise ValueError("'cause': by_hand is never asked of the queue: people flip with burstctl")


def _exact_value(expected: Any) -> Callable[[Any], Any]:
    return lambda value: _require(value, is_valid=value == expected, fault=f"not {json.dumps(expected)}")


def _accept_any(value: Any) -> Any:
    return value


_Parsers: TypeAlias = Mapping[str, Callable[[Any], Any]]

_REQUEST_PARSERS: Final[_Parsers] = {
    "schema": _check_schema,
    "time": _parse_instant,
    "volume_id": _check_volume_id,
    "direction": _enum_parser(Direction),
    "cause": _enum_parser(FlipCause),
    "because": _check_text,
}
_COPIED_FIELDS: Final = ("volume_id", "direction", "cause", "because")

_LEGACY_PARSERS: Final[_Parsers] = {
    "demand": _accept_any,
    "urgency": _accept_any,
    "revision": _accept_any,
    "by": _exact_value(WATCHDOG),
    "overridden": _exact_value([]),
}
"""Fields that requests had before the flip function measured the demand itself."""

_LEGACY_VALUES: Final[Mapping[str, Any]] = {
    "demand": {"peak_iops": None, "peak_throughput_mib_s": None, "pinned": False, "ahead": False},
    "urgency": [],
}
"""An older flip function, which may still run while a stack is updated, rejects a request without these."""
