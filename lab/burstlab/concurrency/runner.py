"""Runs several watchdog processes on one fleet and one ledger, ticks them at once, and kills some."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from burstlab.concurrency.scenario import MINUTES, POLICY, WINDOW_NAME, Scenario
from burstlab.concurrency.worker import WorkerConfig, WorkerReport, run_worker
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstlab.harness.outcome import DeliveredAlert, Outcome
from burstlab.harness.world import PASS_DELAY_S, TICK_S
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.durations import HOUR_S
from burstwatch.core.errors import BurstwatchError

QUIET_MIN: Final = 6
"""No watchdog is killed in these last minutes, so that an error at the end remains visible."""

_ANSWER_TIMEOUT_S: Final = 120.0  # a pass takes well under a second; a busy CI machine may need much longer
TABLE: Final = "burstwatch-crowd"


_ACCURATE_STEP_S: Final = 0.05
"""No two clocks are the same."""
_SKEW_RANGE_S: Final = 90.0
"""The first clock and the last: each is within two minutes of AWS's, which the watchdog insists on."""
_JUMP_OFFSETS_S: Final = (
    (0.0,) * 4 + (HOUR_S,) * 3 + (0.0, -20.0, 0.0, 20.0) + (-HOUR_S,) * 3 + (0.0, -75.0, 70.0)
)
"""An hour ahead for three minutes, steps of seconds, an hour behind for three, and a step of over two."""
_JUMP_PHASE_MIN: Final = 3
"""How many minutes each clock is ahead of the next in the sequence, so that no two are wrong at once."""


class ClockMode(StrEnum):
    """What the clocks show: AWS's time to the second, up to 90 s apart, or the last one's an hour wrong."""

    ACCURATE = "right"
    SKEWED = "apart"
    AHEAD = "ahead"
    BEHIND = "behind"
    JUMPING = "jumping"


class CrowdError(BurstwatchError):
    """A worker did not do what was requested; the message has its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The number of processes, and their clocks.

    With ``kill_at_effect``, the first worker is killed at its effect of that number after each start, and
    started again some ticks later.
    """

    watchdogs: int
    ledger: str = "sqlite"
    clock_mode: ClockMode = ClockMode.ACCURATE
    kill_at_effect: int | None = None
    restart_after_ticks: int = 2
    minutes: int = MINUTES

    def offset_s(self, number: int, minute: int) -> float:
        """How far a worker's clock is ahead at a minute of the run."""
        is_last = number == self.watchdogs - 1
        match self.clock_mode:
            case ClockMode.SKEWED:
                return number * _SKEW_RANGE_S / (self.watchdogs - 1) - _SKEW_RANGE_S / 2
            case ClockMode.AHEAD:
                return HOUR_S if is_last else number * _ACCURATE_STEP_S
            case ClockMode.BEHIND:
                return -HOUR_S if is_last else number * _ACCURATE_STEP_S
            case ClockMode.JUMPING:
                return _JUMP_OFFSETS_S[(minute + _JUMP_PHASE_MIN * number) % len(_JUMP_OFFSETS_S)]
        return number * _ACCURATE_STEP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Outcome):
    """The result of a run with this configuration.

    ``ticks`` are the results of each tick by worker; None for one that did not run or was killed in it.
    """

    config: RunConfig
    ticks: Sequence[Sequence[WorkerReport | None]]
    deaths: int

    @property
    def cpu_s(self) -> float:
        """What the workers took that were alive at the end."""
        return sum(report.cpu_s for report in self.ticks[-1] if report)


def run(config: RunConfig, *, aws: LocalAws | None = None) -> RunResult:
    """Run the scenario; ``aws`` is a local AWS whose DynamoDB holds the ledger."""
    scenario = Scenario()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="burstlab-crowd-")))
        endpoint = stack.enter_context(Endpoint(scenario.fleet))
        environ = endpoint.environment | {"BURSTWATCH_CLOCK": "wall", "HOME": str(directory)}
        if aws is None:
            ledger_address = f"sqlite:{directory / 'ledger.db'}"
            scenario.ledger = stack.enter_context(
                SqliteLedger.open(directory / "ledger.db", lock_timeout_s=30)
            )
        else:
            environ["AWS_ENDPOINT_URL_DYNAMODB"] = aws.url
            ledger_address = f"dynamodb:{TABLE}"
            scenario.ledger = DynamoLedger(_create_table(aws), TABLE)
        (directory / "policy.yaml").write_text(POLICY, encoding="utf-8")
        outbox = directory / "outbox"
        outbox.touch()
        scenario.place_initial_hold()
        worker_config = WorkerConfig(
            environ=environ,
            ledger=ledger_address,
            policy=directory / "policy.yaml",
            outbox=outbox,
            now_s=scenario.now_s,
        )
        pool = stack.enter_context(_WorkerPool(config, worker_config))
        ticks = list(_run_minutes(pool, scenario, config))
        pool.shut_down()
        names = {volume_id: name for name, volume_id in scenario.volume_ids.items()}
        alerts = [DeliveredAlert(*json.loads(line)) for line in outbox.read_text("utf-8").splitlines()]
        return RunResult.collect(
            scenario.fleet,
            scenario.ledger,
            names,
            [*names, f"window {WINDOW_NAME}"],
            alerts=alerts,
            external_modifications=scenario.external_modifications,
            config=config,
            ticks=ticks,
            deaths=pool.deaths,
        )


def _run_minutes(
    pool: "_WorkerPool", scenario: Scenario, config: RunConfig
) -> Iterator[Sequence[WorkerReport | None]]:
    for minute in range(config.minutes + QUIET_MIN):
        scenario.fleet.clock.advance(TICK_S + PASS_DELAY_S - scenario.now_s % TICK_S)
        scenario.apply_events(minute)
        pool.start_missing(is_killable=minute < config.minutes)
        yield pool.tick(scenario.fleet.clock.now_s())


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    connection: Connection

    def receive(self) -> WorkerReport | None:
        """The result of the worker's pass; None if it was killed in it."""
        if not self.connection.poll(_ANSWER_TIMEOUT_S):
            raise CrowdError(f"a watchdog has not answered within {_ANSWER_TIMEOUT_S:g} s")
        try:
            report: WorkerReport = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return None
        return report

    def kill(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class _WorkerPool:
    """The workers; the first is the one that is killed and started again."""

    def __init__(self, config: RunConfig, worker_config: WorkerConfig) -> None:
        self._config = config
        self._worker_config = worker_config
        self._workers: list[_Worker | None] = [None] * config.watchdogs
        self._start_count = 0
        self._ticks_absent = 0
        self._tick_count = 0
        self.deaths = 0

    def start_missing(self, *, is_killable: bool) -> None:
        """Start the workers that do not run; the first is not killed again unless it ``is_killable``."""
        if not is_killable and self._start_count:
            self._kill(0)
            self._ticks_absent = self._start_count = 0
        self._ticks_absent = max(0, self._ticks_absent - 1)
        starting = [number for number, worker in enumerate(self._workers) if worker is None]
        if self._ticks_absent:
            starting.remove(0)
        for number in starting:
            self._workers[number] = self._start(is_killable=is_killable and number == 0)
        for number in starting:
            self._wait_until_ready(number)

    def tick(self, now_s: float) -> list[WorkerReport | None]:
        """Send the time to every worker at once, each time in another order, and collect their results."""
        workers = list(self._workers)
        first = self._tick_count % len(workers)
        for number in [*range(first, len(workers)), *range(first)]:
            if (worker := workers[number]) is not None:
                worker.connection.send(now_s + self._config.offset_s(number, self._tick_count))
        reports = [None if worker is None else worker.receive() for worker in workers]
        for number, (worker, report) in enumerate(zip(workers, reports, strict=True)):
            if worker is not None and report is None:
                self._record_death(number)
        self._tick_count += 1
        return reports

    def shut_down(self) -> None:
        """Send everybody home."""
        for worker in self._workers:
            if worker is not None:
                worker.connection.send(None)
                worker.process.join(_ANSWER_TIMEOUT_S)
        self._kill_all()

    def _start(self, *, is_killable: bool) -> _Worker:
        kill_at_effect = self._config.kill_at_effect if is_killable else None
        worker_config = replace(
            self._worker_config, kill_at_effect=kill_at_effect, kills_after_effect=self._start_count % 2 == 1
        )
        self._start_count += kill_at_effect is not None
        parent_end, child_end = _context().Pipe()
        process = _context().Process(target=run_worker, args=(worker_config, child_end), daemon=True)
        process.start()
        child_end.close()
        return _Worker(process, parent_end)

    def _wait_until_ready(self, number: int) -> None:
        """Wait until it is ready; one that is killed before that stays away for this tick."""
        worker = self._workers[number]
        if worker is not None and worker.receive() is None:
            self._record_death(number)

    def _record_death(self, number: int) -> None:
        if number != 0 or self._config.kill_at_effect is None:
            raise CrowdError(f"watchdog {number + 1} ended by itself; nothing was to kill it")
        self.deaths += 1
        self._ticks_absent = self._config.restart_after_ticks
        self._kill(number)

    def _kill(self, number: int) -> None:
        worker, self._workers[number] = self._workers[number], None
        if worker is not None:
            worker.kill()

    def _kill_all(self) -> None:
        for number in range(len(self._workers)):
            self._kill(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_all()


@cache
def _context() -> ForkServerContext:
    """Processes that begin with everything imported, and share nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["burstlab.concurrency.forkserver_preload"])
    return context


def _create_table(aws: LocalAws) -> Any:
    """A client of DynamoDB with an empty table, made as the stack makes it but for what only AWS does."""
    client = aws.client("dynamodb")
    if TABLE in client.list_tables()["TableNames"]:
        client.delete_table(TableName=TABLE)
        client.get_waiter("table_not_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})
    keys = {"pk": "HASH", "sk": "RANGE"}
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": key_type} for name, key_type in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
    )
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})
    return client
