"""One watchdog in its own process: the loop of ``burstctl watch --act`` with a controlled clock."""

import json
import os
import signal
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stderr, redirect_stdout
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
from burstlab.harness.effects import CrashPoint, RecordingChannel, watch_ledger
from burstlab.harness.outcome import DeliveredAlert
from burstlab.harness.world import TICK_S
from burstwatch.core.alerts.alert import Alert
from burstwatch.wiring import bootstrap

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


def _count_requests(crash_point: CrashPoint) -> None:
    """Make an effect of each request that this process sends to AWS."""
    send = URLLib3Session.send

    def send_counted(session: Any, request: Any) -> Any:
        return crash_point.run_effect("request", lambda: send(session, request))

    setattr(URLLib3Session, "send", send_counted)  # noqa: B010 - every client's way out


def _kill_process_abruptly() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


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
    crash_point = CrashPoint(
        at_effect=None if config.kill_at_effect is None else config.kill_at_effect - 1,
        kill=_kill_process_abruptly,
        kills_after=config.kills_after_effect,
        lock=nullcontext(),  # requests of one process are sent in parallel
    )
    _count_requests(crash_point)
    stderr = StringIO()
    clock = _ControlledClock(connection, config.now_s, stderr)
    setattr(bootstrap, "time", clock.read)  # noqa: B010 - what it compares AWS's time with

    def record_alert(alert: Alert) -> None:
        """The outbox survives a killed worker."""
        delivered = DeliveredAlert.from_document(alert.at_s, alert.to_document())
        with config.outbox.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(delivered)}\n")

    options = Options(policy=config.policy, ledger=config.ledger)
    with (
        Path(os.devnull).open("w", encoding="utf-8") as devnull,
        redirect_stdout(devnull),
        redirect_stderr(stderr),
        open_watch(options, {}, may_modify=True) as context,
    ):
        ledger: Any = context.services.ledger
        if config.ledger.startswith("sqlite:"):
            ledger = watch_ledger(ledger, crash_point.run_effect)
        services = replace(
            context.services,
            channels=[RecordingChannel(record_alert, crash_point.run_effect)],
            clock=clock.wait_for_time,
            ledger=ledger,
        )
        watch = WatchLoop(
            replace(context, services=services),
            every_s=TICK_S,
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
