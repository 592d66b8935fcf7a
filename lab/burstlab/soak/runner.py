"""A month of one-minute ticks of the real watchdog, measured at the end of every day."""

import gc
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

from burstlab.harness.effects import CHANNEL, RecordingChannel
from burstlab.harness.invariants import open_flips
from burstlab.harness.world import PASS_DELAY_S, SWEEP_S, TICK_S, build_services
from burstlab.model.loads.load import NEVER_S
from burstlab.soak.scenario import DAY_MIN, POLICY, Scenario
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick

_PAGE_KIB: Final = 4  # of Linux on x86-64 and most arm64 systems
_TABLES: Final = (
    "states",
    "entries",
    "deliveries",
    "claimed_ticks",
    "completed_ticks",
    "reservations",
    "holds",
    "channels",
)


_JSON_KEYS: Final = {"missed_ticks": "lost", "delivered_alerts": "told", "doubled_alerts": "told_twice"}
"""The JSON keys that differ from the names of their fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day as it was at its end; times are the processor's, for one tick.

    ``rows`` are those of each table, ``history_kib`` the size of its entries, ``ledger_kib`` that of the
    file, and ``log_kib`` that of SQLite's write-ahead log, which is reused. ``objects`` are the live objects
    of the watchdog's own classes. ``lab_runs`` is the lab's history of its volumes, which is most of
    ``memory_mib``. The ``missed_ticks`` were not done; ``open_intents`` are those that AWS does not know.
    """

    number: int
    ticks: int
    missed_ticks: int
    idle_ticks: int
    idle_ms: float
    busy_ms: float
    longest_ms: float
    rows: dict[str, int]
    history_kib: float
    ledger_kib: float
    log_kib: float
    objects: int
    lab_runs: int
    memory_mib: float
    volumes: int
    watermark_lag_s: int
    open_intents: int
    undelivered: int
    delivered_alerts: int
    doubled_alerts: int
    flips: int
    returns: int
    failures: int

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {_JSON_KEYS.get(name, name): getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _TickTimes:
    """How long the ticks of a day took, and their outcome."""

    idle_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    missed_ticks: int = 0
    failures: int = 0


def run(days: int, path: Path, *, report_progress: Callable[[], None] = lambda: None) -> Iterator[Day]:
    """Run this many days with a new ledger in this file, and yield each when it is over."""
    deliveries: Counter[str] = Counter()
    channel = RecordingChannel(lambda alert: deliveries.update([alert.alert_id]))
    with SqliteLedger.open(path) as ledger:
        scenario = Scenario(ledger)
        services = build_services(scenario.fleet, ledger, POLICY, channels=[channel])
        for number in range(days):
            tick_times = _TickTimes()
            for minute in range(number * DAY_MIN, (number + 1) * DAY_MIN):
                scenario.apply_events(minute)
                _tick(services, scenario, tick_times)
            report_progress()
            yield _measure_day(number + 1, tick_times, scenario, path, deliveries)


def _tick(services: Services, scenario: Scenario, tick_times: _TickTimes) -> None:
    """One pass shortly after its minute; then the lab advances to the next minute."""
    clock, tick_s = scenario.fleet.clock, scenario.fleet.now_s()
    clock.advance(PASS_DELAY_S)
    started_cpu_s = process_time()
    report = run_tick(services, tick_at_s=tick_s, now_s=clock.now_s())
    cpu_s = process_time() - started_cpu_s
    clock.advance(TICK_S - PASS_DELAY_S)
    if report is None:
        tick_times.missed_ticks += 1
        return
    (tick_times.busy_s if report.decisions else tick_times.idle_s).append(cpu_s)
    tick_times.failures += len(report.failures)


def _measure_day(
    number: int, tick_times: _TickTimes, scenario: Scenario, path: Path, deliveries: Counter[str]
) -> Day:
    states, snapshot = scenario.ledger.states(), scenario.ledger.fleet_snapshot()
    scenario.fleet.changes_in_progress()
    modifying = {volume.volume_id for volume in scenario.fleet if volume.change is not None}
    last_sweep_at_s = (scenario.now_s - TICK_S) // SWEEP_S * SWEEP_S
    rows, history_kib, directions = _read_ledger(path)
    return Day(
        number=number,
        ticks=len(tick_times.idle_s) + len(tick_times.busy_s),
        missed_ticks=tick_times.missed_ticks,
        idle_ticks=len(tick_times.idle_s),
        idle_ms=_aggregate_ms(tick_times.idle_s, median),
        busy_ms=_aggregate_ms(tick_times.busy_s, median),
        longest_ms=_aggregate_ms([*tick_times.idle_s, *tick_times.busy_s], max),
        rows=rows,
        history_kib=round(history_kib, 1),
        ledger_kib=_file_kib(path),
        log_kib=_file_kib(path.with_name(f"{path.name}-wal")),
        objects=_count_objects(),
        lab_runs=sum(len(volume.history.runs(0, NEVER_S)) for volume in scenario.fleet),
        memory_mib=_memory_mib(),
        volumes=len(scenario.fleet),
        watermark_lag_s=last_sweep_at_s - (snapshot.tick_at_s if snapshot else 0),
        open_intents=len(open_flips(states, modifying)),
        undelivered=len(scenario.ledger.pending_deliveries(channels=[CHANNEL])),
        delivered_alerts=len(deliveries),
        doubled_alerts=deliveries.total() - len(deliveries),
        flips=directions[Direction.FLIP],
        returns=directions[Direction.FLIP_BACK],
        failures=tick_times.failures,
    )


def _read_ledger(path: Path) -> tuple[dict[str, int], float, Counter[str]]:
    """The rows of each table, the KiB of history, and the modifications that AWS accepted, by direction."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        rows = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}  # noqa: S608 - ours
        (history,) = connection.execute("SELECT total(length(body)) FROM entries").fetchone()
        directions = connection.execute(
            "SELECT json_extract(body, '$.direction') FROM entries WHERE kind = ?", (EntryKind.ACCEPTED,)
        )
        return rows, history / 1024, Counter(direction for (direction,) in directions)


def _file_kib(path: Path) -> float:
    return round(path.stat().st_size / 1024, 1) if path.exists() else 0.0


def _count_objects() -> int:
    """The number of live objects of the watchdog's own classes."""
    gc.collect()
    return sum(str(type(instance).__module__).startswith("burstwatch.") for instance in gc.get_objects())


def _memory_mib() -> float:
    """The memory of this process; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * _PAGE_KIB / 1024


def _aggregate_ms(seconds: Sequence[float], aggregate: Callable[[Sequence[float]], float]) -> float:
    return round(1000 * aggregate(seconds), 3) if seconds else 0.0
