"""Requests to flip a volume, on their way through an SQS FIFO queue: one group for each volume."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self, TypeAlias

from burstwatch.adapters.aws.errors import AWS_ERRORS, explain
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.flip_state import WATCHDOG, Cause, Direction
from burstwatch.core.text import format_instant, printable

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

SCHEMA: Final = "burstwatch.flip_request/v1"

_BATCH: Final = 10
_MOST_BYTES: Final = 25_000
"""Of one message, so that ten are within what a batch may hold."""
_LONGEST_SHOWN: Final = 60
_LONGEST_SAID: Final = 200
_LONGEST_COMPLAINT: Final = 900
_VOLUME_ID: Final = re.compile(r"vol-[0-9a-f]{8,17}")
_MINUTE_S: Final = 60

_FARTHEST_S: Final = 253_402_300_800
"""The end of the year 9999."""


class PoisonError(BurstwatchError):
    """A message that is no flip request; it names everything that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRequest:
    """Which volume to look at and for which change, why, and the time of the tick that asked.

    It is advisory: whoever may modify decides again. So it has no target, demand or override.
    """

    volume_id: str
    direction: Direction
    cause: Cause
    because: str
    time_s: int

    @property
    def deduplication_id(self) -> str:
        """How the queue recognises a repeat, for five minutes: the volume, the direction and the minute.

        A request that was given up or refused can so be sent again a minute later.
        """
        parts = (self.volume_id, str(self.direction), str(self.time_s // _MINUTE_S))
        return sha256("\n".join(parts).encode()).hexdigest()

    def to_body(self) -> str:
        """The request as the body of a message: ASCII, as SQS refuses some of Unicode."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "time": format_instant(self.time_s),
            "volume_id": self.volume_id,
            "direction": self.direction,
            "cause": self.cause,
            "because": self.because,
            **_FOR_OLDER_READERS,
        }
        return json.dumps(document, allow_nan=False)

    @classmethod
    def from_body(cls, body: str) -> Self:
        """The inverse of ``to_body``; what older senders add is accepted where it means nothing more.

        Raises:
            PoisonError: the watchdog sends no such message; names everything that is wrong with it.
        """
        if len(body) > _MOST_BYTES:
            raise PoisonError(f"the message is no flip request: it is longer than {_MOST_BYTES:,} characters")
        try:
            document = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise PoisonError(f"the message is no flip request: it is no JSON ({error})") from error
        try:
            values = _read(document, _REQUEST, _OF_OLDER_SENDERS)
            _check_cause(values["direction"], values["cause"])
        except ValueError as error:
            raise PoisonError(
                printable(f"the message is no flip request: {error}", _LONGEST_COMPLAINT)
            ) from error
        return cls(time_s=values["time"], **{name: values[name] for name in _TAKEN_OVER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The volumes whose request the queue has, and why it has not that of the others."""

    sent: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


class _Refusal(NamedTuple):
    says: str
    passes: bool


class FlipQueue:
    """Sends flip requests; what the queue does not take is in the answer, never lost in silence."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, requests: Sequence[FlipRequest]) -> Sending:
        """Send them in batches; what AWS itself failed to take goes once more, and no repeat counts twice."""
        failed: dict[str, str] = {}
        for first in range(0, len(requests), _BATCH):
            batch = requests[first : first + _BATCH]
            refused = self._send(batch)
            if again := [request for request in batch if _passes(refused, request)]:
                refused = {i: refusal for i, refusal in refused.items() if not refusal.passes}
                refused |= self._send(again)
            failed |= {volume_id: refusal.says for volume_id, refusal in refused.items()}
        asked = frozenset(request.volume_id for request in requests)
        return Sending(sent=asked - failed.keys(), failed=failed)

    def put_back(self, receipt_handle: str, after_s: int) -> str | None:
        """Let a message under way be received again after so long; the error message if that failed."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=after_s
            )
        except AWS_ERRORS as error:
            return str(explain(error, "sqs:ChangeMessageVisibility"))
        return None

    def _send(self, batch: Sequence[FlipRequest]) -> dict[str, _Refusal]:
        """Send at most ten, and say which volumes' requests were refused."""
        bodies = {str(number): request.to_body() for number, request in enumerate(batch)}
        volumes = {str(number): request.volume_id for number, request in enumerate(batch)}
        refused = {volumes[n]: _too_long(body) for n, body in bodies.items() if len(body) > _MOST_BYTES}
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": str(number),
                "MessageBody": bodies[str(number)],
                "MessageGroupId": request.volume_id,
                "MessageDeduplicationId": request.deduplication_id,
            }
            for number, request in enumerate(batch)
            if request.volume_id not in refused
        ]
        if not entries:
            return refused
        try:
            answer = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except AWS_ERRORS as error:
            says = str(explain(error, "sqs:SendMessage"))
            return refused | {volumes[entry["Id"]]: _Refusal(says, passes=False) for entry in entries}
        taken, told = _by_number(answer, "Successful"), _by_number(answer, "Failed")
        lost = (entry["Id"] for entry in entries if entry["Id"] not in taken)
        return refused | {volumes[number]: _refusal(told.get(number)) for number in lost}


def _by_number(answer: Mapping[str, Any], what: str) -> dict[str, Mapping[str, Any]]:
    """What the queue says of each entry of a batch; of one that it does not name, nothing."""
    told = answer.get(what)
    entries = told if isinstance(told, list) else []
    return {str(entry.get("Id")): entry for entry in entries if isinstance(entry, Mapping)}


def _passes(refused: Mapping[str, _Refusal], request: FlipRequest) -> bool:
    refusal = refused.get(request.volume_id)
    return refusal is not None and refusal.passes


def _too_long(body: str) -> _Refusal:
    says = f"the flip request has {len(body):,} bytes, at most {_MOST_BYTES:,}; please report this"
    return _Refusal(says, passes=False)


def _refusal(told: Mapping[str, Any] | None) -> _Refusal:
    """Why one entry of a batch was not taken; one that AWS says nothing of may have been."""
    if told is None:
        says = "sqs:SendMessage failed: AWS did not say what became of it; a later tick asks again."
        return _Refusal(says, passes=True)
    said = printable(str(told.get("Message") or "AWS gave no reason"), _LONGEST_SAID)
    passes = not told.get("SenderFault", False)
    step = "a later tick asks again" if passes else "this is not expected, please report it with this line"
    return _Refusal(
        f"sqs:SendMessage failed ({printable(str(told.get('Code')), _LONGEST_SHOWN)}): {said}; {step}.",
        passes=passes,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _read(value: Any, needed: "_Readers", more: "_Readers | None" = None) -> dict[str, Any]:
    """The parts of an object, each by its reader, and no others; ``more`` may be left out.

    Raises:
        ValueError: naming everything that is wrong.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{_show(value)} is no object")  # noqa: TRY004 - all that is wrong with a message is one kind
    readers = {**needed, **(more or {})}
    faults = [f"{_show(key)} is not known" for key in value if key not in readers]
    faults += [f"{key!r} is missing" for key in needed if key not in value]
    found: dict[str, Any] = {}
    for key in readers.keys() & value.keys():
        try:
            found[key] = readers[key](value[key])
        except ValueError as error:
            faults.append(f"{key!r}: {error}")
    if faults:
        raise ValueError("; ".join(sorted(faults)))
    return found


def _show(value: Any) -> str:
    return printable(json.dumps(value), _LONGEST_SHOWN)


def _check(value: Any, *, is_good: bool, says: str) -> Any:
    if not is_good:
        raise ValueError(f"{_show(value)} is {says}")
    return value


def _schema(value: Any) -> Any:
    return _check(value, is_good=value == SCHEMA, says=f"not {SCHEMA}")


def _text(value: Any) -> Any:
    return _check(value, is_good=isinstance(value, str), says="no text")


def _volume_id(value: Any) -> Any:
    is_good = isinstance(value, str) and _VOLUME_ID.fullmatch(value) is not None
    return _check(value, is_good=is_good, says="no volume id")


def _instant(value: Any) -> Any:
    at_s = None
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(value if isinstance(value, str) else "")
        at_s = int(at.timestamp()) if at.tzinfo else None
    is_good = at_s is not None and 0 <= at_s < _FARTHEST_S
    _check(value, is_good=is_good, says="no instant such as 2026-11-20T18:00:00Z")
    return at_s


def _one_of(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def read(value: Any) -> StrEnum:
        _check(value, is_good=value in list(kind), says=f"none of {', '.join(kind)}")
        return kind(value)

    return read


def _check_cause(direction: Direction, cause: Cause) -> None:
    if direction is Direction.OUT and cause is Cause.BY_HAND:
        raise ValueError("'cause': by_hand is never asked of the queue: people flip with burstctl")


def _only(expected: Any) -> Callable[[Any], Any]:
    return lambda value: _check(value, is_good=value == expected, says=f"not {json.dumps(expected)}")


def _ignored(value: Any) -> Any:
    return value


_Readers: TypeAlias = Mapping[str, Callable[[Any], Any]]

_REQUEST: Final[_Readers] = {
    "schema": _schema,
    "time": _instant,
    "volume_id": _volume_id,
    "direction": _one_of(Direction),
    "cause": _one_of(Cause),
    "because": _text,
}
_TAKEN_OVER: Final = ("volume_id", "direction", "cause", "because")

_OF_OLDER_SENDERS: Final[_Readers] = {
    "demand": _ignored,
    "urgency": _ignored,
    "revision": _ignored,
    "by": _only(WATCHDOG),
    "overridden": _only([]),
}
"""What requests had before the flip function measured the demand itself."""

_FOR_OLDER_READERS: Final[Mapping[str, Any]] = {
    "demand": {"peak_iops": None, "peak_throughput_mib_s": None, "pinned": False, "ahead": False},
    "urgency": [],
}
"""Without these an older flip function, which may still run while a stack is updated, rejects a request."""
