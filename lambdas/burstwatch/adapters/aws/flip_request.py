"""The request to flip a volume, as the watch function puts it in the queue and the flip function reads it."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from sys import float_info
from typing import Any, Final, NoReturn, Self, TypeAlias

from burstwatch.core.durations import MINUTE_S
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause
from burstwatch.core.parsing import DocumentReader
from burstwatch.core.text import format_instant, sanitise

SCHEMA: Final = "burstwatch.flip_request/v1"

MAX_BODY_BYTES: Final = 25_000
"""The largest message: a batch of ten then fits into the 256 KiB that SQS once allowed."""
_MAX_SHOWN_CHARS: Final = 60  # one quoted value; a message may have several faults
_MAX_ERROR_CHARS: Final = 900  # all faults of a message together
_VOLUME_ID_PATTERN: Final = re.compile(r"vol-[0-9a-f]{8,17}")

_URGENCY_PARTS: Final = 5  # at most: the level, two times, the balance and the ID
_INFINITIES: Final = ({"float": "inf"}, {"float": "-inf"})
_MAX_REVISION: Final = 2**63

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
        parts = (self.volume_id, str(self.direction), str(self.requested_at_s // MINUTE_S))
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
        if len(body) > MAX_BODY_BYTES:
            raise MalformedRequestError(
                f"the message is not a flip request: it is longer than {MAX_BODY_BYTES:,} characters"
            )
        try:
            document = json.loads(
                body, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys
            )
        except (ValueError, RecursionError) as error:
            raise MalformedRequestError(
                f"the message is not a flip request: it is not JSON ({error})"
            ) from error
        try:
            values = _parse_fields(document)
            _check_cause(values["direction"], values["cause"])
        except ValueError as error:
            raise MalformedRequestError(
                sanitise(f"the message is not a flip request: {error}", _MAX_ERROR_CHARS)
            ) from error
        return cls(requested_at_s=values["time"], **{name: values[name] for name in _COPIED_FIELDS})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different; of two values, readers of JSON disagree which one counts."""
    repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if repeated:
        raise ValueError(f"{_quote(repeated[0])} occurs more than once")
    return dict(pairs)


def _parse_fields(document: Any) -> dict[str, Any]:
    """Parse the fields of a request, and allow no others; those of older versions may be missing.

    Raises:
        ValueError: the text names every fault.
    """
    if not isinstance(document, dict):
        raise ValueError(f"{_quote(document)} is not an object")  # noqa: TRY004 - all that is wrong with a message is one kind
    reader = DocumentReader(document)
    parsers = {**_REQUEST_PARSERS, **_LEGACY_PARSERS}
    values = {key: reader.parse(key, parse) for key, parse in parsers.items() if key in document}
    faults = [f"{_quote(key)} is not known" for key in document if key not in parsers]
    faults += [f"{key!r} is missing" for key in _REQUEST_PARSERS if key not in document]
    faults += [f"{fault.path!r}: {fault.message}" for fault in reader.faults]
    if faults:
        raise ValueError("; ".join(sorted(faults)))
    return values


def _quote(value: Any) -> str:
    return sanitise(json.dumps(value), _MAX_SHOWN_CHARS)


def _require(value: Any, *, is_valid: bool, fault: str) -> Any:
    if not is_valid:
        raise ValueError(f"{_quote(value)} is {fault}")
    return value


def _check_text(value: Any) -> Any:
    return _require(value, is_valid=isinstance(value, str), fault="not a text")


def _check_volume_id(value: Any) -> Any:
    is_valid = isinstance(value, str) and _VOLUME_ID_PATTERN.fullmatch(value) is not None
    return _require(value, is_valid=is_valid, fault="not a valid volume ID")


def _parse_instant(value: Any) -> Any:
    at_s = None
    with suppress(ValueError, OverflowError):
        instant = datetime.fromisoformat(value if isinstance(value, str) else "")
        at_s = int(instant.timestamp()) if instant.tzinfo else None
    is_valid = at_s is not None and 0 <= at_s < _MAX_TIMESTAMP_S
    _require(value, is_valid=is_valid, fault="not a valid time such as 2026-11-20T18:00:00Z")
    return at_s


def _enum_parser(enum_type: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def read(value: Any) -> StrEnum:
        _require(value, is_valid=value in list(enum_type), fault=f"not one of {', '.join(enum_type)}")
        return enum_type(value)

    return read


def _check_cause(direction: Direction, cause: FlipCause) -> None:
    if direction is Direction.FLIP and cause is FlipCause.MANUAL:
        raise ValueError("'cause': by_hand is never requested through the queue: manual flips use burstctl")


def _exact_value(expected: Any, expected_text: str) -> Callable[[Any], Any]:
    return lambda value: _require(value, is_valid=value == expected, fault=f"not {expected_text}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= float_info.max


def _is_amount(value: Any) -> bool:
    return value is None or (_is_number(value) and value >= 0)


def _check_demand(value: Any) -> Any:
    """Both rates, a number or null, and two flags."""
    is_valid = (
        isinstance(value, dict)
        and value.keys() == _LEGACY_VALUES["demand"].keys()
        and _is_amount(value["peak_iops"])
        and _is_amount(value["peak_throughput_mib_s"])
        and type(value["pinned"]) is type(value["ahead"]) is bool
    )
    return _require(value, is_valid=is_valid, fault="not a demand")


def _check_urgency(value: Any) -> Any:
    """Numbers to sort by, each of which may be infinite, and then the volume's ID; or nothing."""
    is_valid = value == [] or (
        isinstance(value, list)
        and len(value) <= _URGENCY_PARTS
        and all(_is_number(part) or part in _INFINITIES for part in value[:-1])
        and isinstance(value[-1], str)
        and _VOLUME_ID_PATTERN.fullmatch(value[-1]) is not None
    )
    return _require(value, is_valid=is_valid, fault="not an urgency")


def _check_revision(value: Any) -> Any:
    is_valid = type(value) is int and 0 <= value < _MAX_REVISION
    return _require(value, is_valid=is_valid, fault="not a revision")


_Parsers: TypeAlias = Mapping[str, Callable[[Any], Any]]

_REQUEST_PARSERS: Final[_Parsers] = {
    "schema": _exact_value(SCHEMA, SCHEMA),
    "time": _parse_instant,
    "volume_id": _check_volume_id,
    "direction": _enum_parser(Direction),
    "cause": _enum_parser(FlipCause),
    "because": _check_text,
}
_COPIED_FIELDS: Final = ("volume_id", "direction", "cause", "because")

_LEGACY_PARSERS: Final[_Parsers] = {
    "demand": _check_demand,
    "urgency": _check_urgency,
    "revision": _check_revision,
    "by": _exact_value(WATCHDOG, f'"{WATCHDOG}"'),
    "overridden": _exact_value([], "[]"),
}
"""Fields that requests had before the flip function measured the demand itself."""

_LEGACY_VALUES: Final[Mapping[str, Any]] = {
    "demand": {"peak_iops": None, "peak_throughput_mib_s": None, "pinned": False, "ahead": False},
    "urgency": [],
}
"""An older flip function, which may still run while a stack is updated, rejects a request without these."""
