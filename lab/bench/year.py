"""What a ledger with a year of history costs: on disk, in a tick, in ``history``, in a report.

    .venv/bin/python lab/bench/year.py                    1,000 volumes, in trouble once a month each
    .venv/bin/python lab/bench/year.py 1000 52 sqlite     once a week; sqlite, dynamodb or both

One trouble is played by the real watchdog on a simulated volume: it drains, people are told, it is flipped,
comes to rest and returns. What that leaves in the ledger is written for every volume and every trouble of the
year. DynamoDB is the lab's table, in this process: its times are those of our code and of the lab's, without
a network; its units and bytes are as AWS counts them.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import botocore.session
from botocore.config import Config

from burstlab.fake_aws.dynamodb import DynamoDb, size_of
from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger import Change, EntryKind, Ledger, LedgerEntry, TickKind, VolumeState
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick

BEGINS_AT: Final = datetime(2025, 11, 20, tzinfo=UTC)
YEAR_S: Final = 365 * 24 * 3600
REPORT_S: Final = 24 * 3600
"""How far back a report goes unless it is told."""
USD_PER_GB_MONTH: Final = 0.25
FREE_GB: Final = 25
_LONGEST_TROUBLE_MIN: Final = 2_000


class People:
    """Whoever is told."""

    name = "people"

    def send(self, _alert: object) -> None: ...


def one_trouble() -> list[LedgerEntry]:
    """Everything that the ledger keeps of one volume's trouble, from the first alert to its return."""
    fleet = LabFleet(LabClock.by_hand(BEGINS_AT))
    tags = {"Name": "ci-7", "burstwatch:mode": "auto", "burstwatch:target": "io1"}
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:20", tags=tags))
    ec2 = cast("Any", InProcessEc2(fleet))
    with SqliteLedger.in_memory() as ledger:
        shell = Shell(
            ec2=Ec2Reader(ec2),
            cloudwatch=cast("Any", InProcessCloudWatch(fleet)),
            ledger=ledger,
            calls=CallCounter(),
            policy=Policy(),
            place=Place(region="us-east-1", account="123456789012"),
            channels=[People()],
            modifier=Ec2Modifier(ec2),
        )
        fleet.clock.advance(3_600)
        for minute in range(_LONGEST_TROUBLE_MIN):
            if minute in (10, 90):
                fleet.set_load(volume_id, "steady:2500" if minute == 10 else "steady:20")
            tick_s = fleet.now_s()
            fleet.clock.advance(2)
            run_tick(shell, tick_s=tick_s, now_s=fleet.clock.now_s())
            fleet.clock.advance(58)
            entries = ledger.entries(volume_id)
            if any(each.kind is EntryKind.RESTORED for each in entries) and not ledger.states():
                return entries
        raise SystemExit(f"the trouble was not over in a day: {[str(each.kind) for each in entries]}")


@dataclass(frozen=True, slots=True)
class Year:
    """So many volumes, each so often in trouble."""

    trouble: Sequence[LedgerEntry]
    volumes: int
    troubles: int

    def volume_id(self, number: int) -> str:
        return f"vol-{number:017x}"

    def changes(self, number: int) -> Iterator[Change]:
        """What the ledger keeps of one volume, a trouble at a time, spread over the year."""
        for turn in range(self.troubles):
            later_s = (turn * YEAR_S + number * YEAR_S // self.volumes) // self.troubles
            entries = [
                replace(
                    each,
                    volume_id=self.volume_id(number),
                    revision=each.revision + later_s,
                    at_s=each.at_s + later_s,
                    body=_renamed(each.body, f"{number:x}-{turn:x}"),
                )
                for each in self.trouble
            ]
            volume_id = self.volume_id(number)
            yield Change(volume_id=volume_id, expected_revision=None, state=None, entries=entries)

    @property
    def rows(self) -> int:
        return self.volumes * self.troubles * len(self.trouble)


def _renamed(body: Any, name: str) -> Any:
    """An alert has an id of its own in each trouble, of the same length."""
    if "alert_id" not in body:
        return body
    was = body["alert_id"]
    return {**body, "alert_id": (was[: len(was) - len(name) - 1] + "-" + name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A ledger, and what it holds so far, in bytes as they are billed or stored."""

    name: str
    ledger: Ledger
    size_bytes: Callable[[], int]
    units: Callable[[], float] = lambda: 0.0


@contextmanager
def kept_in(kind: str) -> Iterator[Kept]:
    """An empty ledger of this kind."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.sqlite"
            with SqliteLedger.open(path) as ledger:
                yield Kept(name="SQLite", ledger=ledger, size_bytes=lambda: _on_disk(path))
        return
    table, session = DynamoDb(), botocore.session.Session()
    session.set_credentials("none", "none")
    client = session.create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        config=Config(max_pool_connections=8, parameter_validation=False),
    )
    table.attach(client)

    def stored() -> int:
        return sum(100 + size_of(item) for items in table.items.values() for item in items.values())

    ledger = DynamoLedger(client, table.table)
    yield Kept(name="DynamoDB", ledger=ledger, size_bytes=stored, units=lambda: table.units.read)


def _on_disk(path: Path) -> int:
    """The file, and what SQLite keeps beside it until it is written there."""
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def fill(kept: Kept, year: Year) -> float:
    """Write the year, and say how many seconds that took."""
    began = time.perf_counter()
    for number in range(year.volumes):
        for change in year.changes(number):
            kept.ledger.commit([change], channels=[])
    return time.perf_counter() - began


def a_tick(ledger: Ledger, tick_s: int, in_focus: Sequence[Change]) -> None:
    """What a focus tick asks of the ledger, with so many volumes in focus."""
    ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=50)
    ledger.states()
    ledger.window_marks()
    ledger.holds(tick_s)
    ledger.roster()
    if in_focus:
        ledger.commit(in_focus, channels=["people"])
    ledger.waiting(channels=["people"])
    ledger.complete_tick(TickKind.FOCUS, tick_s)


class Focus:
    """Ticks one after the other, each with a look at every one of some volumes in focus."""

    def __init__(self, ledger: Ledger, year: Year, now_s: int) -> None:
        self._ledger, self._year, self._now_s = ledger, year, now_s
        self._ticks, self._looks = 0, 0

    def tick(self, volumes: int) -> None:
        self._ticks += 1
        self._looks += volumes > 0
        changes = [self._looked_at(number) for number in range(volumes)]
        a_tick(self._ledger, self._now_s + 60 * self._ticks, changes)

    def _looked_at(self, number: int) -> Change:
        """A look that changes the state alone."""
        volume_id, revision = self._year.volume_id(number), self._looks
        state = VolumeState(volume_id=volume_id, revision=revision, balance_pct=81.25)
        return Change(volume_id=volume_id, expected_revision=revision - 1 or None, state=state)


def read_history(ledger: Ledger, volume_id: str) -> int:
    """What ``burstctl history`` does: the whole story of a volume, in words."""
    from burstctl.history.render import lay_out_story, read_story, tell_story

    return len(lay_out_story(tell_story(read_story(ledger, volume_id))).splitlines())


def read_for_report(ledger: Ledger, year: Year, now_s: int) -> int:
    """What ``burstctl report`` reads of the ledger: the last day of each volume, eight at once."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        ids = map(year.volume_id, range(year.volumes))
        return sum(map(len, pool.map(lambda i: ledger.entries(i, since_s=now_s - REPORT_S), ids)))


def print_times(kept: Kept, year: Year, now_s: int) -> None:
    """A line for each thing that is done with the ledger."""
    focus = Focus(kept.ledger, year, now_s)
    deeds: dict[str, Callable[[], object]] = {
        "a tick, nothing in focus": lambda: focus.tick(0),
        "a tick, 50 states changed": lambda: focus.tick(min(50, year.volumes)),
        "history of one volume": lambda: read_history(kept.ledger, year.volume_id(7)),
        f"report, {year.volumes:,} volumes": lambda: read_for_report(kept.ledger, year, now_s),
    }
    for name, deed in deeds.items():
        times, units = [], kept.units()
        for _ in range(5):
            began = time.perf_counter()
            deed()
            times.append(time.perf_counter() - began)
        read = (kept.units() - units) / 5
        print(f"  {name:<28}{1e3 * min(times):>10.1f} ms" + (f"{read:>10,.0f} read units" if read else ""))


def main(volumes: int, troubles: int, kinds: Sequence[str]) -> None:
    """For each kind of ledger: empty, and with the year."""
    year = Year(one_trouble(), volumes, troubles)
    now_s = int(BEGINS_AT.timestamp()) + YEAR_S
    each = f"{troubles} troubles each of {len(year.trouble)} rows"
    print(f"{volumes:,} volumes, {each}: {year.rows:,} rows; times are the best of five")
    for kind in kinds:
        for is_full in (False, True):
            with kept_in(kind) as kept:
                took_s = fill(kept, year) if is_full else 0.0
                size_mb = kept.size_bytes() / 1e6
                what = f"a year: {size_mb:,.0f} MB, written in {took_s:.0f} s" if is_full else "empty"
                print(f"{kept.name}, {what}")
                print_times(kept, year, now_s)
                if is_full and kind == "dynamodb":
                    usd = size_mb / 1e3 * USD_PER_GB_MONTH
                    print(
                        f"  storing it: ${usd:.2f} a month, were it not within the {FREE_GB} GB that are free"
                    )


if __name__ == "__main__":
    asked = sys.argv[3:4] if sys.argv[3:4] not in ([], ["both"]) else ["sqlite", "dynamodb"]
    main(int(sys.argv[1]) if sys.argv[1:] else 1_000, int(sys.argv[2]) if sys.argv[2:] else 12, asked)
