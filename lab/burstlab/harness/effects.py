"""The effects of a watchdog on the outside, and a process that dies or is interrupted at one of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any, Final

from burstwatch.core.alerts.alert import Alert

CHANNEL: Final = "people"
LEDGER_WRITES: Final = frozenset(
    {
        "commit",
        "record_intent",
        "place_hold",
        "lift_hold",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "replace_with_digest",
        "claim_delivery",
        "mark_delivered",
        "mark_undelivered",
    }
)
"""Every method of the ledger by which a watchdog or an operator changes it."""

Perform = Callable[[str, Callable[[], Any]], Any]
"""Executes the effect of this name, or lets it fail."""


class ProcessKilled(BaseException):
    """The end of a process: nothing may catch it except what starts another one."""


def kill_process() -> None:
    """Die, as far as that is possible in one process."""
    raise ProcessKilled


@dataclass
class Hook:
    """An action that is run once: before an effect of this name for the ``nth`` time, or so much later."""

    name: str
    action: Callable[[], None]
    nth: int = 1
    effects_later: int = 0
    fired: bool = False

    def observe(self, name: str) -> None:
        self.nth -= name == self.name
        if self.nth > 0 or self.fired:
            return
        self.effects_later -= 1
        if self.effects_later < 0:
            self.fired = True
            self.action()


@dataclass
class CrashPoint:
    """Counts the effects of one process, which is killed at the one with the index ``at_effect``, if any.

    It is killed right before that effect, or right after it if it ``kills_after``. After death no thread of
    the process has an effect any more, as long as ``lock`` excludes the others during an effect.
    """

    at_effect: int | None = None
    kill: Callable[[], None] = kill_process
    kills_after: bool = False
    hooks: Sequence[Hook] = ()
    lock: AbstractContextManager[Any] = field(default_factory=RLock)
    effects: list[str] = field(default_factory=list)
    has_crashed: bool = False

    def run_effect(self, name: str, action: Callable[[], Any]) -> Any:
        with self.lock:
            is_last = len(self.effects) == self.at_effect
            if self.has_crashed or (is_last and not self.kills_after):
                self._crash()
            for hook in self.hooks:
                try:
                    hook.observe(name)
                except ProcessKilled:
                    self._crash()
            self.effects.append(name)
            result = action()
            if is_last:
                self._crash()
            return result

    def _crash(self) -> None:
        self.has_crashed = True
        self.kill()


class EffectProxy:
    """Stands for a ledger or a modifier, some of whose methods are effects.

    ``effect_names`` are the names of these effects by method.
    """

    def __init__(self, target: Any, perform: Perform, effect_names: Mapping[str, str]) -> None:
        self.target = target
        self._perform = perform
        self._effect_names = effect_names

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.target, name)
        effect_name = self._effect_names.get(name)
        if effect_name is None:
            return attribute
        return lambda *args, **kwargs: self._perform(effect_name, partial(attribute, *args, **kwargs))


def watch_ledger(ledger: Any, perform: Perform) -> Any:
    """The ledger, each of whose writes is an effect with the name of its method."""
    return EffectProxy(ledger, perform, {name: name for name in LEDGER_WRITES})


@dataclass(frozen=True, slots=True)
class RecordingChannel:
    """A channel to people: each alert is an effect, and is recorded when it is delivered."""

    record: Callable[[Alert], object]
    perform: Perform = lambda _name, deliver: deliver()
    name: str = CHANNEL

    def send(self, alert: Alert) -> None:
        self.perform("send", partial(self.record, alert))
