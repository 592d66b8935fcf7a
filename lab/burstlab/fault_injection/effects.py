"""Every effect on the world passes here: it is numbered and named, and one of them is struck."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import RLock
from typing import Any, Final, NamedTuple, NoReturn

from burstlab.model.clock import LabClock


class Fault(StrEnum):
    """What may become of an effect; the codes of errors that a service has of its own come beside these."""

    ERROR = "error"
    ERROR_AFTER = "error-after"
    TIMEOUT = "timeout"
    TIMEOUT_AFTER = "timeout-after"
    DRIP = "drip"
    CRASH = "crash"
    CRASH_AFTER = "crash-after"
    THROTTLE = "throttle"
    NEIGHBOURS = "neighbours"
    PARTIAL = "partial"
    EMPTY = "empty"
    STALE = "stale"
    GARBLED = "garbled"
    DAMAGED = "damaged"
    NULL = "null"
    UNKNOWN = "unknown"
    LATER = "later"
    REPEAT = "repeat"
    FORGED = "forged"


SAYS: Final[Mapping[str, str]] = {
    Fault.ERROR: "an error, and nothing was done",
    Fault.ERROR_AFTER: "done, and answered with an error",
    Fault.TIMEOUT: "no answer, and nothing was done; the time goes by",
    Fault.TIMEOUT_AFTER: "done, and no answer; the time goes by",
    Fault.DRIP: "for three minutes no answer to such a call is ever complete; the time goes by each time",
    Fault.CRASH: "the process dies right before",
    Fault.CRASH_AFTER: "the process dies right after",
    Fault.THROTTLE: "refused for being asked too often, and so after the SDK's retries",
    Fault.NEIGHBOURS: "for two minutes each such call is refused: others use up the account's limit",
    Fault.PARTIAL: "part of the answer is missing",
    Fault.EMPTY: "all of the answer is missing",
    Fault.STALE: "an answer from before",
    Fault.GARBLED: "an answer that cannot be read",
    Fault.DAMAGED: "an item of the ledger that ends in the middle",
    Fault.NULL: "an item of the ledger that is null",
    Fault.UNKNOWN: "an item of the ledger with a value that no version knows",
    Fault.LATER: "an item of the ledger with a field of a later version",
    Fault.REPEAT: "it arrives twice",
    Fault.FORGED: "from then on somebody else sends requests for every volume, each minute",
}

COLUMNS: Final[Mapping[str, tuple[Fault, ...]]] = {
    "error": (Fault.ERROR,),
    "after": (Fault.ERROR_AFTER,),
    "timeout": (Fault.TIMEOUT, Fault.TIMEOUT_AFTER, Fault.DRIP),
    "crash": (Fault.CRASH, Fault.CRASH_AFTER),
    "throttle": (Fault.THROTTLE, Fault.NEIGHBOURS),
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


class Strike(NamedTuple):
    """One run's misfortune: which effect, and what becomes of it."""

    effect: str
    fault: str


class Killed(BaseException):
    """The end of a process: nothing may catch it but who starts another one."""


SAME: Final = object()
"""What altering an answer comes to where it would be the same."""

Alter = Callable[[Any, Any], Any]
"""Takes an answer and the one before it to the same question, None where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """How effects of one sort go wrong.

    ``patience_s`` is how long their client waits for an answer in all. ``raises`` are the errors by fault or
    code; ``alters`` what an answer becomes. ``forges`` lets somebody else send the like from then on.
    ``senseless`` are the faults that cannot be, and why. One that ``drips`` is an endpoint that may send its
    answers for ever.
    """

    changes: bool
    patience_s: float
    repeats: bool = False
    drips: bool = False
    raises: Mapping[str, Callable[[str], Exception]]
    alters: Mapping[str, Alter] = field(default_factory=dict)
    forges: Callable[[], None] | None = None
    senseless: Mapping[str, str] = field(default_factory=dict)


class Effect(NamedTuple):
    """An effect of the story, and the volumes that it is ``about`` by name.

    ``faults`` are those that make sense, ``senseless`` the others, and why.
    """

    name: str
    operation: str
    about: frozenset[str]
    at_s: int
    process: str
    faults: tuple[str, ...]
    senseless: Mapping[str, str]


_NO_EFFECT: Final = "it changes nothing, so nobody can tell whether it was done"
_AS_NEXT_TO: Final = "it changes nothing: as if the process died next to the write before or after it"
_NO_NEIGHBOURS: Final = "its limit is not shared with others of the account"
_UNHEARD: Final = "nobody reads its answer"
_ONCE: Final = "it arrives once, or not at all"
_OURS: Final = "nothing is believed because of who can send it"
_ANSWERS: Final = (Fault.PARTIAL, Fault.EMPTY, Fault.STALE, Fault.GARBLED)
ITEM_FAULTS: Final = (Fault.DAMAGED, Fault.NULL, Fault.UNKNOWN, Fault.LATER)
"""What may become of one item that a ledger keeps."""

_NO_ITEM: Final = "it reads no item of the ledger"
_AFTER: Final = (Fault.ERROR_AFTER, Fault.TIMEOUT_AFTER)
_DEATHS: Final = (Fault.CRASH, Fault.CRASH_AFTER)
_SAME: Final = "the answer would be the same"
_AS_TIMEOUT: Final = "as if it timed out: it is not called again within minutes, or is no endpoint"
DRIP_S: Final = 180.0
_LASTS_S: Final = {Fault.DRIP: DRIP_S, Fault.NEIGHBOURS: 120.0}


class Wire:
    """Between the watchdog and the world.

    Without a ``strike`` all goes well, and ``effects`` tells of each what could have become of it. With one,
    that is done to the effect named; after a crash the ``process`` has no effect any more until it is born
    again. A process that must end by ``ends_at_s`` dies where it waits for longer.
    """

    def __init__(self, clock: LabClock, strike: Strike | None = None, *, records: bool = False) -> None:
        self.clock = clock
        self.strike = strike
        self.effects: list[Effect] = []
        self.struck_at_s: float | None = None
        self.deaths = 0
        self.process = ""
        self.ends_at_s = float("inf")
        self.records = records
        self._is_dead = False
        self._lasting = ("", "", 0.0)
        self._patience_s = float("inf")
        self._counts: Counter[str] = Counter()
        self._earlier: dict[str, Any] = {}
        self._lock = RLock()

    def begin(self, process: str, *, lasts_s: float = float("inf"), patience_s: float = float("inf")) -> None:
        """A process goes to work: one that died is another now. None of its calls waits for longer."""
        self._is_dead = False
        self._patience_s = patience_s
        self.process, self.ends_at_s = process, self.clock.now_s() + lasts_s

    def carry(
        self,
        operation: str,
        nature: Nature,
        do: Callable[[], Any],
        *,
        about: frozenset[str] = frozenset(),
        question: str | None = None,
    ) -> Any:
        """Do it, or what the strike makes of it; ``question`` tells which earlier answer was to the same."""
        with self._lock:
            if self._is_dead:
                raise Killed
            self._counts[operation] += 1
            name = f"{operation} #{self._counts[operation]}"
            key = f"{operation} {question}"
            earlier = self._earlier.get(key)
            if self.strike is not None and self.strike.effect == name:
                return self._suffer(self.strike.fault, operation, nature, do, earlier)
            fault, ailing, until_s = self._lasting
            if operation == ailing and self.clock.now_s() < until_s:
                self._fail(fault, operation, nature)
            at_s = int(self.clock.now_s())
            answer: Any = SAME
            try:
                answer = do()
            finally:
                if self.records:
                    faults = _faults_of(nature, answer, earlier)
                    effect = Effect(name, operation, about, at_s, self.process, *faults)
                    self.effects.append(effect)
            if question is not None:
                self._earlier[key] = answer
            return answer

    def _suffer(self, fault: str, operation: str, nature: Nature, do: Callable[[], Any], earlier: Any) -> Any:
        self.struck_at_s = self.clock.now_s()
        match fault:
            case Fault.CRASH:
                self._die()
            case Fault.CRASH_AFTER:
                do()
                self._die()
            case Fault.ERROR_AFTER:
                do()
                raise nature.raises[Fault.ERROR](operation)
            case Fault.DRIP | Fault.NEIGHBOURS:
                self._lasting = (fault, operation, self.clock.now_s() + _LASTS_S[Fault(fault)])
            case Fault.TIMEOUT_AFTER:
                do()
                self._fail(Fault.TIMEOUT, operation, nature)
            case Fault.REPEAT:
                do()
                return do()
            case Fault.FORGED if nature.forges is not None:
                nature.forges()
                return do()
        if fault in nature.alters:
            return nature.alters[fault](do(), earlier)
        if fault == Fault.GARBLED:
            do()
        return self._fail(fault, operation, nature)

    def _fail(self, fault: str, operation: str, nature: Nature) -> NoReturn:
        if fault in {Fault.TIMEOUT, Fault.DRIP}:
            self._wait(nature)
            fault = Fault.TIMEOUT
        raise nature.raises[fault](operation)

    def _wait(self, nature: Nature) -> None:
        left_s = self.ends_at_s - self.clock.now_s()
        waits_s = min(nature.patience_s, self._patience_s)
        self.clock.advance(max(0.0, min(waits_s, left_s)))
        if left_s < waits_s:
            self._die()

    def _die(self) -> None:
        self._is_dead = True
        self.deaths += 1
        raise Killed


def _faults_of(nature: Nature, answer: Any, earlier: Any) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """What could have become of an effect, and of the rest why not; one that failed is answered ``SAME``."""
    senseless = dict(nature.senseless)
    for fault, alter in nature.alters.items():
        if answer is SAME or alter(answer, earlier) is SAME:
            senseless[fault] = _SAME
    if not nature.changes:
        senseless |= {**dict.fromkeys(_AFTER, _NO_EFFECT), **dict.fromkeys(_DEATHS, _AS_NEXT_TO)}
    if not nature.drips:
        senseless[Fault.DRIP] = _AS_TIMEOUT
    if Fault.NEIGHBOURS not in nature.raises:
        senseless.setdefault(Fault.NEIGHBOURS, _NO_NEIGHBOURS)
    if not nature.repeats:
        senseless.setdefault(Fault.REPEAT, _ONCE)
    if nature.forges is None:
        senseless[Fault.FORGED] = _OURS
    every = tuple(dict.fromkeys((*Fault, *nature.raises)))
    unheard = {f for f in _ANSWERS if f not in nature.raises and f not in nature.alters}
    senseless |= dict.fromkeys(unheard - senseless.keys(), _UNHEARD)
    no_item = {fault for fault in ITEM_FAULTS if fault not in nature.alters}
    senseless |= dict.fromkeys(no_item - senseless.keys(), _NO_ITEM)
    return tuple(fault for fault in every if fault not in senseless), senseless
