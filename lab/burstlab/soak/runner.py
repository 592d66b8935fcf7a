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
from typing import TYPE_CHECKING, Any, Final, cast

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.load import NEVER_S
from burstlab.soak.scenario import POLICY, Story
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import EntryKind, Ledger
from burstwatch.core.location import Place
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick

if TYPE_CHECKING:
    from burstwatch.adapters.aws.cloudwatch import CloudWatchReader

DAY_MIN: Final = 24 * 60
CHANNEL: Final = "people"
_TICK_S: Final = 60
_TICK_TAKES_S: Final = 2
_SWEEP_S: Final = 300
_PAGE_KIB: Final = 4
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day as it was at its end; times are the processor's, for one tick.

    ``rows`` are those of each table, ``history_kib`` what its entries hold, ``ledger_kib`` the file,
    ``log_kib`` what SQLite keeps beside it and fills anew again and again. ``objects`` are the watchdog's own
    that live, ``lab_runs`` what the lab remembers of its volumes, which is most of ``memory_mib``. ``lost``
    ticks were done by nobody; ``open_intents`` are those of which AWS knows nothing.
    """

    number: int
    ticks: int
    lost: int
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
    told: int
    told_twice: int
    flips: int
    returns: int
    failures: int

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _People:
    """Whoever is told."""

    told: Counter[str] = field(default_factory=Counter)
    name: str = CHANNEL

    def send(self, alert: Alert) -> None:
        self.told[alert.alert_id] += 1


@dataclass(slots=True)
class _Clocked:
    """What the ticks of a day took, and came to."""

    idle_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    lost: int = 0
    failures: int = 0


def play(days: int, path: Path, *, report_progress: Callable[[], None] = lambda: None) -> Iterator[Day]:
    """Live through so many days with a new ledger in this file, and tell each one when it is over."""
    story, people = Story.begin(), _People()
    with SqliteLedger.open(path) as ledger:
        shell = _shell(story, ledger, people)
        for number in range(days):
            clocked = _Clocked()
            for minute in range(number * DAY_MIN, (number + 1) * DAY_MIN):
                story.happen(minute, ledger)
                _tick(shell, story, clocked)
            report_progress()
            yield _measured(number + 1, clocked, story, ledger, path, people)


def _shell(story: Story, ledger: Ledger, people: _People) -> Shell:
    ec2 = cast("Any", InProcessEc2(story.fleet))
    return Shell(
        ec2=Ec2Reader(ec2),
        cloudwatch=cast("CloudWatchReader", InProcessCloudWatch(story.fleet)),
        ledger=ledger,
        calls=CallCounter(),
        policy=POLICY,
        place=Place(region=story.fleet.settings.region),
        channels=[people],
        modifier=Ec2Modifier(ec2),
    )


def _tick(shell: Shell, story: Story, clocked: _Clocked) -> None:
    """One pass, a little after its minute; then the lab goes on to the next minute."""
    clock, tick_s = story.fleet.clock, story.fleet.now_s()
    clock.advance(_TICK_TAKES_S)
    began_s = process_time()
    report = run_tick(shell, tick_s=tick_s, now_s=clock.now_s())
    took_s = process_time() - began_s
    clock.advance(_TICK_S - _TICK_TAKES_S)
    if report is None:
        clocked.lost += 1
        return
    (clocked.busy_s if report.decisions else clocked.idle_s).append(took_s)
    clocked.failures += len(report.failures)


def _measured(
    number: int, clocked: _Clocked, story: Story, ledger: Ledger, path: Path, people: _People
) -> Day:
    states, roster = ledger.states(), ledger.roster()
    under_way = [i for i, state in states.items() if state.flip and state.flip.is_under_way]
    story.fleet.changes()
    changing = {volume.volume_id for volume in story.fleet if volume.change is not None}
    swept_s = (story.fleet.now_s() - _TICK_S) // _SWEEP_S * _SWEEP_S
    rows, history_kib = _rows(path)
    directions = _accepted(path)
    return Day(
        number=number,
        ticks=len(clocked.idle_s) + len(clocked.busy_s),
        lost=clocked.lost,
        idle_ticks=len(clocked.idle_s),
        idle_ms=_ms(clocked.idle_s, median),
        busy_ms=_ms(clocked.busy_s, median),
        longest_ms=_ms([*clocked.idle_s, *clocked.busy_s], max),
        rows=rows,
        history_kib=round(history_kib, 1),
        ledger_kib=_kib(path),
        log_kib=_kib(path.with_name(f"{path.name}-wal")),
        objects=_objects(),
        lab_runs=sum(len(volume.history.runs(0, NEVER_S)) for volume in story.fleet),
        memory_mib=_memory_mib(),
        volumes=len(story.fleet),
        watermark_lag_s=swept_s - (roster.tick_s if roster else 0),
        open_intents=sum(volume_id not in changing for volume_id in under_way),
        undelivered=len(ledger.waiting(channels=[CHANNEL])),
        told=len(people.told),
        told_twice=sum(people.told.values()) - len(people.told),
        flips=directions[Direction.OUT],
        returns=directions[Direction.BACK],
        failures=clocked.failures,
    )


def _rows(path: Path) -> tuple[dict[str, int], float]:
    """How many rows each table has, and how much history there is in KiB."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        rows = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - ours
            for table in _TABLES
        }
        (history,) = connection.execute("SELECT total(length(body)) FROM entries").fetchone()
        return rows, history / 1024


def _accepted(path: Path) -> Counter[str]:
    """How many modifications AWS took, by direction."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute(
            "SELECT json_extract(body, '$.direction') FROM entries WHERE kind = ?", (EntryKind.ACCEPTED,)
        )
        return Counter(direction for (direction,) in found)


def _kib(path: Path) -> float:
    return round(path.stat().st_size / 1024, 1) if path.exists() else 0.0


def _objects() -> int:
    """How many objects of the watchdog's own classes live."""
    gc.collect()
    return sum(str(type(one).__module__).startswith("burstwatch.") for one in gc.get_objects())


def _memory_mib() -> float:
    """What this process holds in memory now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * _PAGE_KIB / 1024


def _ms(seconds: Sequence[float], choose: Callable[[Sequence[float]], float]) -> float:
    return round(1000 * choose(seconds), 3) if seconds else 0.0
