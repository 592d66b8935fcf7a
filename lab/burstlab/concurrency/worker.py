"""One watchdog in its own process: the loop of ``burstctl watch --act`` with a controlled clock."""

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
from burstctl.context.context import open_watch
from burstctl.watch.loop import FinishedPass, PassStatus, WatchLoop
from burstwatch.core.alerts.alert import Alert
from burstwatch.wiring import bootstrap

CHANNEL: Final = "people"

_WRITES: Final = frozenset(
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
"""Every method of the ledger by which a pass changes it."""

_PASS_INTERVAL_S: Final = 60  # the focus tick, which is the default of `burstctl watch`
_INHERITED_PREFIXES: Final = ("AWS_", "BURSTWATCH_", "XDG_")
_MAX_OUTPUT_CHARS: Final = 2_000  # the end of the output is enough to show why a pass failed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker is started with.

    It is killed right before (or after) the effect numbered ``kill_at_effect``.

    Each request to AWS, each write to a ledger file and each alert that is sent is an effect.
    """

    environ: Mapping[str, str]
    ledger: str
    policy: Path
    outbox: Path
    now_s: float
    kill_at_effect: int | None = None
    kills_after_effect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The result of a worker's last pass; ``result`` is None if none was due.

    ``output`` are its last words on stderr, ``cpu_s`` is what the process has taken in all its life.
    """

    result: PassStatus | None = None
    errors: tuple[str, ...] = ()
    output: str = ""
    cpu_s: float = 0.0


class _Shutdown(BaseException):
    """The end of a member's work."""


@dataclass(slots=True)
class _CrashPoint:
    """Counts the effects of this process, and ends it like ``kill -9`` at the configured one."""

    kill_at_effect: int | None
    kills_after_effect: bool
    count: int = 0

    def run_effect(self, action: Callable[[], Any]) -> Any:
        self.count += 1
        is_last = self.count == self.kill_at_effect
        if is_last and not self.kills_after_effect:
            os.kill(os.getpid(), signal.SIGKILL)
        result = action()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def count_requests(self) -> None:
        """Make an effect of each request that this process sends to AWS."""
        send, run_effect = URLLib3Session.send, self.run_effect

        def send_counted(session: Any, request: Any) -> Any:
            return run_effect(lambda: send(session, request))

        setattr(URLLib3Session, "send", send_counted)  # noqa: B010 - every client's way out


class _CountedLedger:
    """A ledger in which each write counts as an effect."""

    def __init__(self, ledger: Any, crash_point: _CrashPoint) -> None:
        self._ledger = ledger
        self._crash_point = crash_point

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._ledger, name)
        if name not in _WRITES:
            return attribute
        return lambda *args, **kwargs: self._crash_point.run_effect(lambda: attribute(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class _Outbox:
    """The delivered alerts of all workers together; they survive a killed worker."""

    path: Path
    crash_point: _CrashPoint
    name: str = CHANNEL

    def send(self, alert: Alert) -> None:
        self.crash_point.run_effect(lambda: self._append(f"{alert.alert_id} {alert.kind}\n"))

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)


class _ControlledClock:
    """A clock that the runner sets: reading it reports the previous pass, and waits for the next tick."""

    def __init__(self, connection: Connection, now_s: float, stderr: StringIO) -> None:
        self._connection = connection
        self._now_s = now_s
        self._stderr = stderr
        self._last_pass: FinishedPass | None = None

    def wait_for_time(self) -> float:
        try:
            self._connection.send(self._take_report())
            now_s = self._connection.recv()
        except (OSError, EOFError):
            raise _Shutdown from None
        if now_s is None:
            raise _Shutdown
        self._now_s = now_s
        return self._now_s

    def read(self) -> float:
        return self._now_s

    def record_pass(self, pass_ended: FinishedPass) -> None:
        self._last_pass = pass_ended

    def _take_report(self) -> WorkerReport:
        last_pass, self._last_pass = self._last_pass, None
        output = self._stderr.getvalue()[-_MAX_OUTPUT_CHARS:]
        self._stderr.seek(0)
        self._stderr.truncate()
        if last_pass is None:
            return WorkerReport(output=output, cpu_s=process_time())
        errors = tuple(last_pass.report.failures) if last_pass.report else ()
        if last_pass.status is PassStatus.FAILED:
            errors = (output.strip(),)
        return WorkerReport(result=last_pass.status, errors=errors, output=output, cpu_s=process_time())


class _NoWait:
    """No sleep between two passes: the controlled clock decides when the next one is."""

    is_requested = False

    def wait(self, seconds: float) -> None:
        """Go on at once."""


def run_worker(config: WorkerConfig, connection: Connection) -> None:
    """Run a watchdog until it is dismissed or killed; only the parent process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _isolate_environment(config.environ)
    crash_point = _CrashPoint(config.kill_at_effect, config.kills_after_effect)
    crash_point.count_requests()
    stderr = StringIO()
    clock = _ControlledClock(connection, config.now_s, stderr)
    setattr(bootstrap, "time", clock.read)  # noqa: B010 - what it compares AWS's time with
    options = Options(policy=config.policy, ledger=config.ledger)
    with (
        Path(os.devnull).open("w", encoding="utf-8") as devnull,
        redirect_stdout(devnull),
        redirect_stderr(stderr),
        open_watch(options, {}, may_modify=True) as context,
    ):
        ledger: Any = context.services.ledger
        if config.ledger.startswith("sqlite:"):
            ledger = _CountedLedger(ledger, crash_point)
        services = replace(
            context.services,
            channels=[_Outbox(config.outbox, crash_point)],
            clock=clock.wait_for_time,
            ledger=ledger,
        )
        watch = WatchLoop(
            replace(context, services=services),
            every_s=_PASS_INTERVAL_S,
            as_json=False,
            exit_zero=False,
            on_pass=clock.record_pass,
        )
        try:
            stop: Any = _NoWait()
            watch.run(stop, passes=None)
        except _Shutdown:
            return


def _isolate_environment(environ: Mapping[str, str]) -> None:
    """Remove everything of this machine's user from the environment except what is given."""
    for name in [name for name in os.environ if name.startswith(_INHERITED_PREFIXES)]:
        del os.environ[name]
    os.environ |= environ
