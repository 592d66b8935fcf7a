"""One watchdog of a crowd, in a process of its own: the loop of ``burstctl watch --act``, told the time."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import Any, Final

from botocore.httpsession import URLLib3Session

from burstctl.cli.options import Options
from burstctl.context.context import watching_desk
from burstctl.watch.loop import PassEnded, PassResult, Watch
from burstwatch.core.alerts.alert import Alert
from burstwatch.wiring import bootstrap

CHANNEL: Final = "people"

_WRITES: Final = frozenset(
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
"""Every method of the ledger by which a pass changes it."""

_EVERY_S: Final = 60
_FOREIGN: Final = ("AWS_", "BURSTWATCH_", "XDG_")
_LONGEST_SAID: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a member is sent out with; right before (or after) the effect numbered ``dies_at`` it is killed.

    Each request to AWS is an effect, each write to a ledger in a file, and each alert that goes out.
    """

    environ: Mapping[str, str]
    ledger: str
    policy: Path
    outbox: Path
    now_s: float
    dies_at: int | None = None
    dies_after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of a member's last pass; ``result`` is None where none was due.

    ``said`` are its last words on stderr, ``processor_s`` is what the process has taken in all its life.
    """

    result: PassResult | None = None
    errors: tuple[str, ...] = ()
    said: str = ""
    processor_s: float = 0.0


class _Dismissed(BaseException):
    """The end of a member's work."""


@dataclass(slots=True)
class _Fuse:
    """Counts the effects of this process and ends it, as ``kill -9`` does, at the one that is wanted."""

    dies_at: int | None
    dies_after: bool
    count: int = 0

    def effect(self, do: Callable[[], Any]) -> Any:
        self.count += 1
        is_last = self.count == self.dies_at
        if is_last and not self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = do()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def watch_requests(self) -> None:
        """Make an effect of each request that this process sends to AWS."""
        send, effect = URLLib3Session.send, self.effect

        def counted(session: Any, request: Any) -> Any:
            return effect(lambda: send(session, request))

        setattr(URLLib3Session, "send", counted)  # noqa: B010 - every client's way out


class _CountedLedger:
    """A ledger each of whose writes is an effect."""

    def __init__(self, ledger: Any, fuse: _Fuse) -> None:
        self._ledger = ledger
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._ledger, name)
        if name not in _WRITES:
            return known
        return lambda *given, **named: self._fuse.effect(lambda: known(*given, **named))


@dataclass(frozen=True, slots=True)
class _Outbox:
    """What people have got, of all members together; it outlives them."""

    path: Path
    fuse: _Fuse
    name: str = CHANNEL

    def send(self, alert: Alert) -> None:
        self.fuse.effect(lambda: self._append(f"{alert.alert_id} {alert.kind}\n"))

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)


class _ToldClock:
    """This machine's clock, as it is told: who asks hands on what became of the pass before, and waits."""

    def __init__(self, wire: Connection, now_s: float, words: StringIO) -> None:
        self._wire = wire
        self._now_s = now_s
        self._words = words
        self._ended: PassEnded | None = None

    def ask(self) -> float:
        try:
            self._wire.send(self._told())
            now_s = self._wire.recv()
        except (OSError, EOFError):
            raise _Dismissed from None
        if now_s is None:
            raise _Dismissed
        self._now_s = now_s
        return self._now_s

    def read(self) -> float:
        return self._now_s

    def note(self, ended: PassEnded) -> None:
        self._ended = ended

    def _told(self) -> Told:
        ended, self._ended = self._ended, None
        said = self._words.getvalue()[-_LONGEST_SAID:]
        self._words.seek(0)
        self._words.truncate()
        if ended is None:
            return Told(said=said, processor_s=process_time())
        errors = tuple(ended.report.failures) if ended.report else ()
        if ended.result is PassResult.FAILED:
            errors = (said.strip(),)
        return Told(result=ended.result, errors=errors, said=said, processor_s=process_time())


class _NoNap:
    """Nobody sleeps here between two passes: when the next one is, is told."""

    is_asked = False

    def wait(self, seconds: float) -> None:
        """Go on at once."""


def live(orders: Orders, wire: Connection) -> None:
    """Be a watchdog until dismissed or killed; Ctrl-C is for whoever sent it out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _move_in(orders.environ)
    fuse = _Fuse(orders.dies_at, orders.dies_after)
    fuse.watch_requests()
    words = StringIO()
    clock = _ToldClock(wire, orders.now_s, words)
    setattr(bootstrap, "time", clock.read)  # noqa: B010 - what it compares AWS's time with
    options = Options(policy=orders.policy, ledger=orders.ledger)
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(words),
        watching_desk(options, {}, acts=True) as desk,
    ):
        ledger: Any = desk.shell.ledger
        if orders.ledger.startswith("sqlite:"):
            ledger = _CountedLedger(ledger, fuse)
        shell = replace(desk.shell, channels=[_Outbox(orders.outbox, fuse)], clock=clock.ask, ledger=ledger)
        watch = Watch(
            replace(desk, shell=shell), every_s=_EVERY_S, as_json=False, exit_zero=False, tell=clock.note
        )
        try:
            stop: Any = _NoNap()
            watch.run(stop, passes=None)
        except _Dismissed:
            return


def _move_in(environ: Mapping[str, str]) -> None:
    """See nothing of whose machine this is but what is given."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ |= environ
