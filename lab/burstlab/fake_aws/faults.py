"""Trouble on demand: which calls go wrong, how, and how often."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from burstlab.fake_aws.protocols import Call
from burstlab.model.aws_error import AwsError

KINDS: Final = ("error", "throttle", "reset", "timeout")
_THROTTLE_ERRORS: Final = {
    "ec2": AwsError("RequestLimitExceeded", "Request limit exceeded.", 503),
    "monitoring": AwsError("Throttling", "Rate exceeded", 400),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to calls of ``action`` (``*`` for all) of ``service`` (its signing name, such as ``rds``).

    Kinds: ``error`` returns ``code``; ``throttle`` returns the service's own throttling code; ``reset``
    breaks the connection; ``timeout`` never responds. It applies to every ``every``-th matching call, at most
    ``times`` times. With ``volume_ids``, only calls with one of them match. With ``after_effect``, the call
    is executed first, and only its response fails.
    """

    action: str = "*"
    service: str = "*"
    kind: str = "error"
    code: str = "InternalError"
    message: str = "An internal error has occurred"
    status: int = 400
    times: int | None = None
    every: int = 1
    volume_ids: Sequence[str] = field(default=())
    after_effect: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"fault kind is {self.kind!r}: give one of {', '.join(KINDS)}")
        if self.every < 1 or (self.times is not None and self.times < 1):
            raise ValueError(f"fault every {self.every}, times {self.times}: both count from 1")

    def matches(self, call: Call) -> bool:
        if self.action not in ("*", call.action) or self.service not in ("*", call.service):
            return False
        return not self.volume_ids or any(volume_id.encode() in call.body for volume_id in self.volume_ids)

    def to_error(self, call: Call) -> AwsError:
        if self.kind == "throttle":
            return _THROTTLE_ERRORS.get(call.service, AwsError("ThrottlingException", "Rate exceeded", 400))
        return AwsError(self.code, self.message, self.status)


class FaultRegistry:
    """The faults in force, the latency of calls, and how many calls of each action came in."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._faults: list[Fault] = []
        self._match_counts: list[int] = []
        self._hit_counts: list[int] = []
        self._calls: Counter[str] = Counter()
        self._latency_ms: dict[str, float] = {}

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)
            self._match_counts.append(0)
            self._hit_counts.append(0)

    def clear(self) -> None:
        """Remove all faults; the latency remains."""
        with self._lock:
            self._faults, self._match_counts, self._hit_counts = [], [], []

    def set_latency(self, latency_ms: float, action: str = "*") -> None:
        """Every call of ``action`` takes this much longer (wall time)."""
        if not 0 <= latency_ms <= 60_000:  # noqa: PLR2004 - a minute
            raise ValueError(f"latency is {latency_ms} ms: give 0 to 60000")
        with self._lock:
            self._latency_ms[action] = latency_ms

    def latency_s(self, action: str) -> float:
        with self._lock:
            return self._latency_ms.get(action, self._latency_ms.get("*", 0.0)) / 1_000

    def next_fault(self, call: Call) -> Fault | None:
        """Count the call and answer the first fault that hits it."""
        with self._lock:
            self._calls[call.action or f"{call.service}:unnamed"] += 1
            for index, fault in enumerate(self._faults):
                if fault.matches(call) and self._takes_effect(index, fault):
                    return fault
            return None

    def call_counts(self) -> dict[str, int]:
        """How many calls of each action came in, faulty ones included."""
        with self._lock:
            return dict(self._calls)

    def reset_calls(self) -> None:
        with self._lock:
            self._calls.clear()

    def to_document(self) -> list[dict[str, Any]]:
        """The faults in force, with how often each was applied."""
        with self._lock:
            return [
                {
                    "action": fault.action,
                    "kind": fault.kind,
                    "code": fault.code,
                    "after_effect": fault.after_effect,
                    "struck": hit_count,
                }
                for fault, hit_count in zip(self._faults, self._hit_counts, strict=True)
            ]

    def _takes_effect(self, index: int, fault: Fault) -> bool:
        if fault.times is not None and self._hit_counts[index] >= fault.times:
            return False
        self._match_counts[index] += 1
        if self._match_counts[index] % fault.every:
            return False
        self._hit_counts[index] += 1
        return True


def parse_fault(mapping: Mapping[str, Any]) -> Fault:
    """Read a fault from JSON.

    Raises:
        ValueError: naming the key that is unknown or the value that is wrong.
    """
    unknown = sorted(set(mapping) - set(Fault.__slots__))
    if unknown:
        raise ValueError(f"fault has no {', '.join(unknown)}: give some of {', '.join(Fault.__slots__)}")
    return Fault(**mapping)
