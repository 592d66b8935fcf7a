"""What a host reports about a stalled volume: evidence for people, never a reason to flip.

A report comes from a machine on which anybody may run anything. So it is validated strictly, its texts are
truncated, and characters that could be markup are replaced.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.parsing import DocumentReader
from burstwatch.core.text import format_duration, format_instant, sanitise

SCHEMA: Final = "burstwatch.probe/v1"

STALL_EVIDENCE_S: Final = 3600
"""How long a stall is evidence in the alerts about its volume."""

MIN_REPORT_INTERVAL_S: Final = 60
"""At most one report of a volume is accepted in this time, so that a host cannot flood the ledger."""

MAX_TASKS: Final = 10
"""How many of the tasks in state D are kept; the probe reports the most frequent first."""

VERDICTS: Final = ("warn", "crit")
CAUSES: Final = ("throttled", "exhausted_idle", "stalled", "frozen_or_lock", "io_error")
"""The causes that ddprobe reports (its ``EVENT_CAUSES``); any other text is rejected: people read it."""

_MAX_TEXT_CHARS: Final = 40
"""Longer than the names that Linux gives: a task's has 15 characters."""
_MAX_STALL_S: Final = 30 * 24 * 3600
_MAX_COUNT: Final = 1_000_000
_MAX_CLOCK_SKEW_S: Final = 300
"""How far a host's clock may be ahead of ours."""

_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]{8,17}")
_VOLUME_ID: Final = re.compile(r"vol-[0-9a-f]{8,17}")
_FORBIDDEN_IN_NAME: Final = re.compile(r"[^\w./:+@()-]", re.ASCII)
"""Characters that names of tasks and kernel functions do not contain: a name cannot become a sentence."""


class StallError(BurstwatchError):
    """A host's report that cannot be used; the message names everything that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckTask:
    """A number of tasks with one name (``comm``) that wait in one kernel function (``wchan``)."""

    comm: str
    wchan: str
    count: int

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return stored_values.stored_fields(self, _TASK_READERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One report of ddprobe: a synchronous write that began at ``started_at_s`` and took ``total_s`` so far.

    ``total_s`` is None if the probe only observed and did not write. ``received_at_s`` is by our clock.
    Instants are in seconds since the epoch.
    """

    instance_id: str
    volume_id: str
    verdict: str
    cause: str
    total_s: float | None
    started_at_s: int
    received_at_s: int = 0
    top: tuple[StuckTask, ...] = ()

    @classmethod
    def from_detail(cls, detail: Mapping[str, Any], *, now_s: float) -> Self:
        """Read the detail of a ``stall`` event, in the schema ``burstwatch.probe/v1``.

        Raises:
            StallError: naming every fault.
        """
        reader = DocumentReader(detail)
        reader.parse("schema", _one_of(SCHEMA))
        started_at_s = reader.parse("started_at", partial(_parse_instant, now_s=now_s), 0)
        # No write can have taken longer than since its start.
        max_s = min(now_s - started_at_s + _MAX_CLOCK_SKEW_S, _MAX_STALL_S)
        parse_total = partial(_parse_seconds, max_s=max_s)
        stall = cls(
            instance_id=reader.parse("instance_id", partial(_match, _INSTANCE_ID, "the id of an instance")),
            volume_id=reader.parse("volume_id", partial(_match, _VOLUME_ID, "the id of a volume")),
            verdict=reader.parse("verdict", _one_of(*VERDICTS)),
            cause=reader.parse("cause", _one_of(*CAUSES)),
            total_s=reader.parse(
                "total_s", stored_values.or_none(parse_total) if "total_s" in detail else parse_total
            ),
            started_at_s=started_at_s,
            received_at_s=int(now_s),
            top=reader.parse_optional("top", _parse_tasks, ()),
        )
        if reader.faults:
            raise StallError("; ".join(f"{fault.path} is {fault.message}" for fault in reader.faults))
        return stall

    @property
    def seen_at_s(self) -> float:
        """When the host last observed it: a stall that lasts is reported again with the same start.

        It is never later than the report itself: a clock that is ahead must not suppress later reports.
        """
        return min(self.started_at_s + (self.total_s or 0.0), self.received_at_s or math.inf)

    def is_fresh(self, now_s: float) -> bool:
        """Whether it still says something about now."""
        return now_s - self.seen_at_s < STALL_EVIDENCE_S

    def is_repeat_of(self, previous: "Stall") -> bool:
        """Whether it adds nothing to a previous report, or came too soon after it."""
        return (
            self.seen_at_s <= previous.seen_at_s
            or self.received_at_s < previous.received_at_s + MIN_REPORT_INTERVAL_S
        )

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        document = stored_values.stored_fields(self, _STALL_READERS, _STALL_FIELD_NAMES)
        return document | {"top": [task.to_document() for task in self.top]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.read_known_fields(document, _STALL_READERS, _STALL_FIELD_NAMES))

    def to_sentences(self, now_s: float) -> list[str]:
        """Describe what the host observed, and how long ago."""
        ago = format_duration(max(0.0, now_s - self.seen_at_s))
        verdict_text = f"{self.verdict}: {self.cause}"
        event_text = verdict_text
        if self.total_s is not None:
            event_text = f"a synchronous write took {self.total_s:,.1f} s ({verdict_text})"
        tasks = ", ".join(f"{t.count} {t.comm} in {t.wchan or '?'}" for t in self.top[:3])
        stuck_sentences = [f"Stuck in state D there: {tasks}."] if tasks else []
        return [f"Its host {self.instance_id} reported {ago} ago: {event_text}.", *stuck_sentences]

    def to_facts(self, now_s: float) -> dict[str, Any]:
        """The values of it for programs, as JSON."""
        return {
            "instance_id": self.instance_id,
            "verdict": self.verdict,
            "cause": self.cause,
            "total_s": self.total_s,
            "started_at": format_instant(self.started_at_s),
            "age_s": round(max(0.0, now_s - self.seen_at_s)),
            "top": [task.to_document() for task in self.top],
        }


_TASK_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "comm": stored_values.read_text,
    "wchan": stored_values.read_text,
    "count": stored_values.read_count,
}
_STALL_READERS: Final[Mapping[str, stored_values.FieldReader]] = {
    "instance_id": stored_values.read_text,
    "volume_id": stored_values.read_text,
    "verdict": stored_values.read_text,
    "cause": stored_values.read_text,
    "total_s": stored_values.or_none(stored_values.read_number),
    "started_at_s": stored_values.read_instant,
    "heard_at_s": stored_values.read_instant,
    "top": lambda top: tuple(
        StuckTask(**stored_values.read_known_fields(task, _TASK_READERS)) for task in top
    ),
}

_STALL_FIELD_NAMES: Final[Mapping[str, str]] = {
    "heard_at_s": "received_at_s",
}


def _match(form: re.Pattern[str], expected: str, value: Any) -> str:
    if isinstance(value, str) and form.fullmatch(value):
        return value
    raise _invalid_value(value, expected)


def _one_of(*allowed: str) -> Callable[[Any], str]:
    expected = repr(allowed[0]) if len(allowed) == 1 else f"one of {', '.join(allowed)}"

    def parse(value: Any) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise _invalid_value(value, expected)

    return parse


def _parse_seconds(value: Any, *, max_s: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= max_s:
        return float(value)
    raise _invalid_value(value, "a number of seconds from 0 to what has passed since its start")


def _parse_instant(value: Any, *, now_s: float) -> int:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        at_s = at.timestamp() if at is not None and at.tzinfo is not None else math.inf
    except (ValueError, OverflowError):
        at_s = math.inf
    if now_s - _MAX_STALL_S <= at_s <= now_s + _MAX_CLOCK_SKEW_S:
        return int(min(at_s, now_s))
    raise _invalid_value(value, "an instant of the last days with its zone, in ISO 8601")


def _parse_tasks(value: Any) -> tuple[StuckTask, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _invalid_value(value, "a list of tasks")
    return tuple(task for task in map(_parse_task, value[:MAX_TASKS]) if task is not None)


def _parse_task(value: Any) -> StuckTask | None:
    """A task as the probe reports it; None for an invalid one, so that it does not hide the others."""
    if not isinstance(value, Mapping):
        return None
    comm, wchan, count = value.get("comm"), value.get("wchan") or "", value.get("count")
    if not (isinstance(comm, str) and isinstance(wchan, str) and isinstance(count, int)):
        return None
    is_valid_count = not isinstance(count, bool) and 0 < count <= _MAX_COUNT
    names = {"comm": _sanitise_name(comm), "wchan": _sanitise_name(wchan)}
    return StuckTask(**names, count=count) if is_valid_count and names["comm"] else None


def _sanitise_name(text: str) -> str:
    return _FORBIDDEN_IN_NAME.sub("?", text[:_MAX_TEXT_CHARS])


def _invalid_value(value: Any, expected: str) -> ValueError:
    return ValueError(f"{sanitise(repr(value), _MAX_TEXT_CHARS)}, not {expected}")
