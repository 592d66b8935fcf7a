"""All effects on the outside pass through here; each has a number and a name, and any can be made to fail."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import RLock
from typing import Any, Final, NamedTuple, NoReturn, Self

from burstlab.harness.effects import ProcessKilled
from burstlab.model.clock import LabClock


class Fault(StrEnum):
    """The faults of an effect, with their consequences; each service has error codes in addition."""

    description: str

    def __new__(cls, name: str, description: str = "") -> Self:
        fault = str.__new__(cls, name)
        fault._value_ = name
        fault.description = description
        return fault

    ERROR = "error", "an error, and nothing was done"
    ERROR_AFTER = "error-after", "done, and answered with an error"
    TIMEOUT = "timeout", "no answer, and nothing was done; the time goes by"
    TIMEOUT_AFTER = "timeout-after", "done, and no answer; the time goes by"
    DRIP = "drip", "for three minutes no answer to such a call is ever complete; the time goes by each time"
    CRASH = "crash", "the process dies right before"
    CRASH_AFTER = "crash-after", "the process dies right after"
    THROTTLE = "throttle", "refused for being asked too often, and so after the SDK's retries"
    NOISY_NEIGHBOUR = (
        "neighbours",
        "for two minutes each such call is refused: others use up the account's limit",
    )
    PARTIAL = "partial", "part of the answer is missing"
    EMPTY = "empty", "all of the answer is missing"
    STALE = "stale", "an answer from before"
    GARBLED = "garbled", "an answer that cannot be read"
    DAMAGED = "damaged", "an item of the ledger that ends in the middle"
    NULL = "null", "an item of the ledger that is null"
    UNKNOWN = "unknown", "an item of the ledger with a value that no version knows"
    LATER = "later", "an item of the ledger with a field of a later version"
    REPEAT = "repeat", "it arrives twice"
    FORGED = "forged", "from then on somebody else sends requests for every volume, each minute"


COLUMNS: Final[Mapping[str, tuple[Fault, ...]]] = {
    "error": (Fault.ERROR,),
    "after": (Fault.ERROR_AFTER,),
    "timeout": (Fault.TIMEOUT, Fault.TIMEOUT_AFTER, Fault.DRIP),
    "crash": (Fault.CRASH, Fault.CRASH_AFTER),
    "throttle": (Fault.THROTTLE, Fault.NOISY_NEIGHBOUR),
    "answer": (
        *(Fault.PARTIAL, Fault.EMPTY, Fault.STALE, Fault.GARBLED, Fault.REPEAT),
        *(Fault.DAMAGED, Fault.NULL, Fault.UNKNOWN, Fault.LATER, Fault.FORGED),
    ),
    "codes": (),
}
"""Kinds of faults as the table shows them; errors by their code are in the last."""


def column_of(fault: str) -> str:
    """The column of a fault."""
    return next((name for name, faults in COLUMNS.items() if fault in faults), "codes")


class InjectedFault(NamedTuple):
    """The fault of one run: which effect, and what happens to it."""

    effect: str
    fault: str


UNCHANGED: Final = object()
"""The result of altering a response if that would not change it."""

Alter = Callable[[Any, Any], Any]
"""Takes a response and the previous one to the same request, None if this is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """How effects of one kind fail.

    ``timeout_s`` is how long the client waits for a response in all. ``errors`` are the errors by fault or
    code, ``alterations`` the altered responses. ``start_forgery`` lets an attacker send similar requests from
    then on. ``not_applicable`` are the impossible faults with their reasons. If it ``can_drip``, the endpoint
    may never complete a response.
    """

    is_write: bool
    timeout_s: float
    can_repeat: bool = False
    can_drip: bool = False
    errors: Mapping[str, Callable[[str], Exception]]
    alterations: Mapping[str, Alter] = field(default_factory=dict)
    start_forgery: Callable[[], None] | None = None
    not_applicable: Mapping[str, str] = field(default_factory=dict)


class Effect(NamedTuple):
    """An effect of the scenario, and its volumes ``volume_ids`` by name.

    ``faults`` are those that make sense, ``not_applicable`` the others, and why.
    """

    name: str
    operation: str
    volume_ids: frozenset[str]
    at_s: int
    process: str
    faults: tuple[str, ...]
    not_applicable: Mapping[str, str]


_IS_READ: Final = "it changes nothing, so it makes no difference whether it was done"
_SAME_AS_ADJACENT_WRITE: Final = (
    "it changes nothing: as if the process died next to the write before or after it"
)
_LIMIT_NOT_SHARED: Final = "its limit is not shared with others of the account"
_RESPONSE_UNUSED: Final = "its response is not used"
_DELIVERED_ONCE: Final = "it arrives once, or not at all"
_SENDER_NOT_TRUSTED: Final = "nothing is believed because of who can send it"
_RESPONSE_FAULTS: Final = (Fault.PARTIAL, Fault.EMPTY, Fault.STALE, Fault.GARBLED)
ITEM_FAULTS: Final = (Fault.DAMAGED, Fault.NULL, Fault.UNKNOWN, Fault.LATER)
"""The faults of one item that a ledger stores."""

_NO_ITEM: Final = "it reads no item of the ledger"
_FAULTS_AFTER_EFFECT: Final = (Fault.ERROR_AFTER, Fault.TIMEOUT_AFTER)
_CRASHES: Final = (Fault.CRASH, Fault.CRASH_AFTER)
_SAME_RESPONSE: Final = "the response would be the same"
_SAME_AS_TIMEOUT: Final = "as if it timed out: it is not called again within minutes, or is not an endpoint"
DRIP_S: Final = 180.0  # longer than the five attempts of 30 s of a read
_FAULT_DURATION_S: Final = {Fault.DRIP: DRIP_S, Fault.NOISY_NEIGHBOUR: 120.0}


class FaultInjector:
    """Between the watchdog and the world.

    Without an ``injected_fault`` nothing fails, and ``effects`` records which faults each effect could have.
    With one, that effect fails. After a crash, the ``process`` has no effects until it is started again. A
    process that must end by ``process_ends_at_s`` is killed if it waits for longer.
    """

    def __init__(
        self, clock: LabClock, injected_fault: InjectedFault | None = None, *, is_recording: bool = False
    ) -> None:
        self.clock = clock
        self.injected_fault = injected_fault
        self.effects: list[Effect] = []
        self.faulted_at_s: float | None = None
        self.crash_count = 0
        self.process = ""
        self.process_ends_at_s = float("inf")
        self.is_recording = is_recording
        self._is_dead = False
        self._ongoing_fault = ("", "", 0.0)
        self._client_timeout_s = float("inf")
        self._counts: Counter[str] = Counter()
        self._earlier_responses: dict[str, Any] = {}
        self._lock = RLock()

    def start_process(
        self, process: str, *, process_timeout_s: float = float("inf"), client_timeout_s: float = float("inf")
    ) -> None:
        """A process starts; after a crash it is a new one. None of its calls waits for longer than this."""
        self._is_dead = False
        self._client_timeout_s = client_timeout_s
        self.process, self.process_ends_at_s = process, self.clock.now_s() + process_timeout_s

    def perform(
        self,
        operation: str,
        model: FaultModel,
        action: Callable[[], Any],
        *,
        volume_ids: frozenset[str] = frozenset(),
        request_key: str | None = None,
    ) -> Any:
        """Execute the effect, or its fault.

        ``request_key`` identifies the earlier responses to the same request.
        """
        with self._lock:
            if self._is_dead:
                raise ProcessKilled
            self._counts[operation] += 1
            name = f"{operation} #{self._counts[operation]}"
            key = f"{operation} {request_key}"
            earlier = self._earlier_responses.get(key)
            if self.injected_fault is not None and self.injected_fault.effect == name:
                return self._inject(self.injected_fault.fault, operation, model, action, earlier)
            fault, faulted_operation, ends_at_s = self._ongoing_fault
            if operation == faulted_operation and self.clock.now_s() < ends_at_s:
                self._fail(fault, operation, model)
            at_s = int(self.clock.now_s())
            response: Any = UNCHANGED
            try:
                response = action()
            finally:
                if self.is_recording:
                    faults = _classify_faults(model, response, earlier)
                    effect = Effect(name, operation, volume_ids, at_s, self.process, *faults)
                    self.effects.append(effect)
            if request_key is not None:
                self._earlier_responses[key] = response
            return response

    def _inject(
        self, fault: str, operation: str, model: FaultModel, action: Callable[[], Any], earlier: Any
    ) -> Any:
        self.faulted_at_s = self.clock.now_s()
        match fault:
            case Fault.CRASH:
                self._kill_process()
            case Fault.CRASH_AFTER:
                action()
                self._kill_process()
            case Fault.ERROR_AFTER:
                action()
                raise model.errors[Fault.ERROR](operation)
            case Fault.DRIP | Fault.NOISY_NEIGHBOUR:
                self._ongoing_fault = (fault, operation, self.clock.now_s() + _FAULT_DURATION_S[Fault(fault)])
            case Fault.TIMEOUT_AFTER:
                action()
                self._fail(Fault.TIMEOUT, operation, model)
            case Fault.REPEAT:
                action()
                return action()
            case Fault.FORGED if model.start_forgery is not None:
                model.start_forgery()
                return action()
        if fault in model.alterations:
            return self._alter_response(model.alterations[fault], action(), earlier)
        if fault == Fault.GARBLED:
            action()
        return self._fail(fault, operation, model)

    def _alter_response(self, alter: Alter, response: Any, earlier: Any) -> Any:
        altered = alter(response, earlier)
        if altered is not UNCHANGED:
            return altered
        self.faulted_at_s = None  # the run differs from the one without faults, in which this was possible
        return response

    def _fail(self, fault: str, operation: str, model: FaultModel) -> NoReturn:
        if fault in {Fault.TIMEOUT, Fault.DRIP}:
            self._wait_for_timeout(model)
            fault = Fault.TIMEOUT
        raise model.errors[fault](operation)

    def _wait_for_timeout(self, model: FaultModel) -> None:
        remaining_s = self.process_ends_at_s - self.clock.now_s()
        wait_s = min(model.timeout_s, self._client_timeout_s)
        self.clock.advance(max(0.0, min(wait_s, remaining_s)))
        if remaining_s < wait_s:
            self._kill_process()

    def _kill_process(self) -> None:
        self._is_dead = True
        self.crash_count += 1
        raise ProcessKilled


def _classify_faults(
    model: FaultModel, response: Any, earlier: Any
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The possible faults of an effect, and for the others why they are impossible.

    One that failed is answered ``UNCHANGED``.
    """
    not_applicable = dict(model.not_applicable)
    for fault, alter in model.alterations.items():
        if response is UNCHANGED or alter(response, earlier) is UNCHANGED:
            not_applicable[fault] = _SAME_RESPONSE
    if not model.is_write:
        not_applicable |= {
            **dict.fromkeys(_FAULTS_AFTER_EFFECT, _IS_READ),
            **dict.fromkeys(_CRASHES, _SAME_AS_ADJACENT_WRITE),
        }
    if not model.can_drip:
        not_applicable[Fault.DRIP] = _SAME_AS_TIMEOUT
    if Fault.NOISY_NEIGHBOUR not in model.errors:
        not_applicable.setdefault(Fault.NOISY_NEIGHBOUR, _LIMIT_NOT_SHARED)
    if not model.can_repeat:
        not_applicable.setdefault(Fault.REPEAT, _DELIVERED_ONCE)
    if model.start_forgery is None:
        not_applicable[Fault.FORGED] = _SENDER_NOT_TRUSTED
    all_faults = tuple(dict.fromkeys((*Fault, *model.errors)))
    unused = {
        response_fault
        for response_fault in _RESPONSE_FAULTS
        if response_fault not in model.errors and response_fault not in model.alterations
    }
    not_applicable |= dict.fromkeys(unused - not_applicable.keys(), _RESPONSE_UNUSED)
    without_item = {fault for fault in ITEM_FAULTS if fault not in model.alterations}
    not_applicable |= dict.fromkeys(without_item - not_applicable.keys(), _NO_ITEM)
    return tuple(fault for fault in all_faults if fault not in not_applicable), not_applicable
