"""A process that can die, or be joined by somebody, right before any of its effects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock

from burstwatch.core.ledger.ledger import Ledger

WRITES = frozenset(
    {
        "commit",
        "begin",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "bundle",
        "claim",
        "delivered",
        "not_delivered",
    }
)
"""Every method of the ledger by which the watchdog changes it."""

CHANNEL = "people"


class Killed(BaseException):
    """The end of a process: nothing may catch it."""


def die() -> None:
    raise Killed


@dataclass
class Trap:
    """What happens once: right before an effect of this name for the so manieth time, or so much later."""

    name: str
    deed: Callable[[], None]
    times: int = 1
    later: int = 0
    has_sprung: bool = False

    def meets(self, name: str) -> None:
        self.times -= name == self.name
        if self.times > 0 or self.has_sprung:
            return
        self.later -= 1
        if self.later < 0:
            self.has_sprung = True
            self.deed()


@dataclass
class Fuse:
    """Counts the effects of one process; it does not survive until the one numbered ``blows_before``.

    After death no thread of the process has an effect any more.
    """

    blows_before: int | None = None
    kill: Callable[[], None] = die
    traps: Sequence[Trap] = ()
    effects: list[str] = field(default_factory=list)
    is_dead: bool = False
    lock: RLock = field(default_factory=RLock)

    def effect(self, name: str, do: Callable[[], object]) -> object:
        with self.lock:
            if self.is_dead or len(self.effects) == self.blows_before:
                self._die()
            for trap in self.traps:
                try:
                    trap.meets(name)
                except Killed:
                    self._die()
            self.effects.append(name)
            return do()

    def _die(self) -> None:
        self.is_dead = True
        self.kill()


class LedgerOnFuse:
    """A ledger each of whose writes is an effect."""

    def __init__(self, ledger: Ledger, fuse: Fuse) -> None:
        self._ledger = ledger
        self._fuse = fuse

    def __getattr__(self, name):
        known = getattr(self._ledger, name)
        if name not in WRITES:
            return known
        return lambda *given, **named: self._fuse.effect(name, lambda: known(*given, **named))


@dataclass
class ModifierOnFuse:
    """A modifier each of whose calls is an effect."""

    modifier: object
    fuse: Fuse

    def modify(self, volume_id, configuration, **options):
        return self.fuse.effect(
            "ModifyVolume", lambda: self.modifier.modify(volume_id, configuration, **options)
        )


@dataclass
class ChannelOnFuse:
    """What people have got, which outlives every process."""

    sent: list[str]
    fuse: Fuse
    name: str = CHANNEL

    def send(self, alert):
        self.fuse.effect("send", lambda: self.sent.append(alert.alert_id))
