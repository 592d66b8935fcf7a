"""A process that can die, or be joined by somebody, right before any of its effects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock

from burstwatch.core.ledger.ledger import Ledger

LEDGER_WRITES = frozenset(
    {
        "commit",
        "record_intent",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "replace_with_digest",
        "claim_delivery",
        "mark_delivered",
        "mark_undelivered",
    }
)
"""Every method of the ledger by which the watchdog changes it."""

CHANNEL_NAME = "people"


class ProcessKilled(BaseException):
    """The end of a process: nothing may catch it."""


def kill_process() -> None:
    raise ProcessKilled


@dataclass
class Hook:
    """What happens once: right before an effect of this name for the so manieth time, or so much later."""

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
    """Counts the effects of one process; it does not survive until the one numbered ``at_effect``.

    After death no thread of the process has an effect any more.
    """

    at_effect: int | None = None
    kill: Callable[[], None] = kill_process
    hooks: Sequence[Hook] = ()
    effects: list[str] = field(default_factory=list)
    has_crashed: bool = False
    lock: RLock = field(default_factory=RLock)

    def run_effect(self, name: str, do: Callable[[], object]) -> object:
        with self.lock:
            if self.has_crashed or len(self.effects) == self.at_effect:
                self._crash()
            for hook in self.hooks:
                try:
                    hook.observe(name)
                except ProcessKilled:
                    self._crash()
            self.effects.append(name)
            return do()

    def _crash(self) -> None:
        self.has_crashed = True
        self.kill()


class CrashingLedger:
    """A ledger each of whose writes is an effect."""

    def __init__(self, ledger: Ledger, fuse: CrashPoint) -> None:
        self._ledger = ledger
        self._fuse = fuse

    def __getattr__(self, name):
        known = getattr(self._ledger, name)
        if name not in LEDGER_WRITES:
            return known
        return lambda *args, **kwargs: self._fuse.run_effect(name, lambda: known(*args, **kwargs))


@dataclass
class CrashingModifier:
    """A modifier each of whose calls is an effect."""

    modifier: object
    crash_point: CrashPoint

    def modify(self, volume_id, configuration, **options):
        return self.crash_point.run_effect(
            "ModifyVolume", lambda: self.modifier.modify(volume_id, configuration, **options)
        )


@dataclass
class CrashingChannel:
    """What people have got, which outlives every process."""

    sent: list[str]
    crash_point: CrashPoint
    name: str = CHANNEL_NAME

    def send(self, alert):
        self.crash_point.run_effect("send", lambda: self.sent.append(alert.alert_id))
