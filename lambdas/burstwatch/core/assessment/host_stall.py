"""What a host says of a volume that stands still: evidence for people, never a reason to flip.

It comes from machines that anybody may run anything on, so it is read strictly, cut short and made inert.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import format_duration, format_instant, printable

SCHEMA: Final = "burstwatch.probe/v1"

FRESH_S: Final = 3600
"""For so long a stall is evidence in the alerts about its volume."""

STALLS_EVERY_S: Final = 60
"""Of one volume no more reports are taken than one in so many seconds."""

MOST_TASKS: Final = 10
"""Of the tasks in state D only so many are kept; the probe tells the most frequent first."""

VERDICTS: Final = ("warn", "crit")
CAUSES: Final = ("throttled", "exhausted_idle", "stalled", "frozen_or_lock", "io_error")
"""What ddprobe says of a stall: its ``EVENT_CAUSES``. Nothing else is taken, as people read it."""

_LONGEST_WORD: Final = 40
_LONGEST_S: Final = 30 * 24 * 3600
_MOST_COUNT: Final = 1_000_000
_SKEW_S: Final = 300
"""A host's clock may be so far ahead of ours."""

_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]{8,17}")
_VOLUME_ID: Final = re.compile(r"vol-[0-9a-f]{8,17}")
_NOT_IN_A_NAME: Final = re.compile(r"[^\w./:+@()-]", re.ASCII)
"""Names of tasks and of places in the kernel have none of these: no name can be made a sentence."""


class StallError(BurstwatchError):
    """A host's report that cannot be used; the message names everything that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckTask:
    """So many tasks of one name that wait at one place in the kernel."""

    comm: str
    wchan: str
    count: int

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return stored_values.stored_fields(self, _TASK_READERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One report of ddprobe: a synchronous write that took ``total_s`` so far, begun at ``started_at_s``.

    ``total_s`` is None where the probe only watched, and did not write. ``heard_at_s`` is by our clock.
    """

    instance_id: str
    volume_id: str
    verdict: str
    cause: str
    total_s: float | None
    started_at_s: int
    heard_at_s: int = 0
    top: tuple[StuckTask, ...] = ()

    @classmethod
    def from_detail(cls, detail: Mapping[str, Any], *, now_s: float) -> Self:
        """Read the detail of a ``stall`` event, in the schema ``burstwatch.probe/v1``.

        Raises:
            StallError: naming every fault.
        """
        reader = _Reader(detail)
        started_at_s = reader.instant("started_at", now_s)
        stall = cls(
            instance_id=reader.matching("instance_id", _INSTANCE_ID, "the id of an instance"),
            volume_id=reader.matching("volume_id", _VOLUME_ID, "the id of a volume"),
            verdict=reader.one_of("verdict", VERDICTS),
            cause=reader.one_of("cause", CAUSES),
            total_s=reader.seconds("total_s", most=now_s - started_at_s + _SKEW_S),
            started_at_s=started_at_s,
            heard_at_s=int(now_s),
            top=reader.tasks("top"),
        )
        reader.complain()
        return stall

    @property
    def seen_at_s(self) -> float:
        """When the host last saw it: one that lasts is reported again, with the start that it had.

        Never later than the report itself: a clock that is ahead must not silence the reports that follow.
        """
        return min(self.started_at_s + (self.total_s or 0.0), self.heard_at_s or math.inf)

    def is_fresh(self, now_s: float) -> bool:
        """Whether it still says something about now."""
        return now_s - self.seen_at_s < FRESH_S

    def repeats(self, known: "Stall") -> bool:
        """Whether it says no more than another one, or comes too soon after it."""
        return self.seen_at_s <= known.seen_at_s or self.heard_at_s < known.heard_at_s + STALLS_EVERY_S

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        document = stored_values.stored_fields(self, _STALL_READERS, _STALL_FIELD_NAMES)
        return document | {"top": [task.to_document() for task in self.top]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``."""
        return cls(**stored_values.known_fields(document, _STALL_READERS, _STALL_FIELD_NAMES))

    def sentences(self, now_s: float) -> list[str]:
        """What the host saw, with its age."""
        ago = format_duration(max(0.0, now_s - self.seen_at_s))
        judged = f"{self.verdict}: {self.cause}"
        write = judged
        if self.total_s is not None:
            write = f"a synchronous write took {self.total_s:,.1f} s ({judged})"
        tasks = ", ".join(f"{t.count} {t.comm} in {t.wchan or '?'}" for t in self.top[:3])
        stuck = [f"Stuck in state D there: {tasks}."] if tasks else []
        return [f"Its host {self.instance_id} reported {ago} ago: {write}.", *stuck]

    def facts(self, now_s: float) -> dict[str, Any]:
        """What programs want to know of it."""
        return {
            "instance_id": self.instance_id,
            "verdict": self.verdict,
            "cause": self.cause,
            "total_s": self.total_s,
            "started_at": format_instant(self.started_at_s),
            "age_s": round(max(0.0, now_s - self.seen_at_s)),
            "top": [task.to_document() for task in self.top],
        }


_TASK_READERS: Final[Mapping[str, stored_values.Read]] = {
    "comm": stored_values.text,
    "wchan": stored_values.text,
    "count": stored_values.whole,
}
_STALL_READERS: Final[Mapping[str, stored_values.Read]] = {
    "instance_id": stored_values.text,
    "volume_id": stored_values.text,
    "verdict": stored_values.text,
    "cause": stored_values.text,
    "total_s": stored_values.or_none(stored_values.number),
    "started_at_s": stored_values.instant,
    "heard_at_s": stored_values.instant,
    "top": lambda top: tuple(StuckTask(**stored_values.known_fields(task, _TASK_READERS)) for task in top),
}

_STALL_FIELD_NAMES: Final[Mapping[str, str]] = {}


class _Reader:
    """Takes a report apart, and remembers what was wrong with it."""

    def __init__(self, detail: Mapping[str, Any]) -> None:
        self._detail = detail
        self._faults: list[str] = []
        if (schema := detail.get("schema")) != SCHEMA:
            self._faults.append(f"schema is {_shown(schema)}, not {SCHEMA!r}")

    def matching(self, name: str, form: re.Pattern[str], says: str) -> str:
        value = self._detail.get(name)
        if isinstance(value, str) and form.fullmatch(value):
            return value
        self._fault(name, says)
        return ""

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        value = self._detail.get(name)
        if isinstance(value, str) and value in allowed:
            return value
        self._fault(name, f"one of {', '.join(allowed)}")
        return ""

    def seconds(self, name: str, *, most: float) -> float | None:
        """Null is none; no write can have taken longer than from its start until now."""
        value = self._detail.get(name)
        if value is None and name in self._detail:
            return None
        seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if 0 <= seconds <= min(most, _LONGEST_S):
            return float(seconds)
        self._fault(name, "a number of seconds from 0 to what has passed since its start")
        return None

    def instant(self, name: str, now_s: float) -> int:
        value = self._detail.get(name)
        try:
            at = datetime.fromisoformat(value) if isinstance(value, str) else None
            at_s = at.timestamp() if at is not None and at.tzinfo is not None else math.inf
        except (ValueError, OverflowError):
            at_s = math.inf
        if now_s - _LONGEST_S <= at_s <= now_s + _SKEW_S:
            return int(min(at_s, now_s))
        self._fault(name, "an instant of the last days with its zone, in ISO 8601")
        return 0

    def tasks(self, name: str) -> tuple[StuckTask, ...]:
        value = self._detail.get(name, ())
        if not isinstance(value, Sequence) or isinstance(value, str):
            self._fault(name, "a list of tasks")
            return ()
        return tuple(task for task in map(_task, value[:MOST_TASKS]) if task is not None)

    def _fault(self, name: str, says: str) -> None:
        self._faults.append(f"{name} is {_shown(self._detail.get(name))}, not {says}")

    def complain(self) -> None:
        if self._faults:
            raise StallError("; ".join(self._faults))


def _task(value: Any) -> StuckTask | None:
    """A task as the probe names it; None for what is none, which hides no other."""
    if not isinstance(value, Mapping):
        return None
    comm, wchan, count = value.get("comm"), value.get("wchan") or "", value.get("count")
    if not (isinstance(comm, str) and isinstance(wchan, str) and isinstance(count, int)):
        return None
    is_many = not isinstance(count, bool) and 0 < count <= _MOST_COUNT
    named = {"comm": _name(comm), "wchan": _name(wchan)}
    return StuckTask(**named, count=count) if is_many and named["comm"] else None


def _name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("?", text[:_LONGEST_WORD])


def _shown(value: Any) -> str:
    return printable(repr(value), _LONGEST_WORD)
