"""What a ledger with a year of history costs: on disk, in a tick, in ``history``, in a report.

    .venv/bin/python lab/bench/year.py                    1,000 volumes, in trouble once a month each
    .venv/bin/python lab/bench/year.py 1000 52 sqlite     once a week; sqlite, dynamodb or both

The real watchdog handles one incident on a simulated volume: it drains, people are alerted, it is flipped,
settles and returns. The entries this leaves in the ledger are written for every volume and every incident of
the year. DynamoDB is the lab's table, in this process: its times are those of our code and the lab's,
without a network. Its units and bytes are as AWS counts them.
"""

import argparse
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

from burstlab.fake_aws.dynamodb import FakeDynamoDb, item_size_bytes
from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger import Change, Ledger, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import LastReading, ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_usd
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick

STARTS_AT: Final = datetime(2025, 11, 20, tzinfo=UTC)
YEAR_S: Final = 365 * 24 * 3600
REPORT_PERIOD_S: Final = 24 * 3600
"""How far back a report goes by default."""
USD_PER_GB_MONTH: Final = 0.25
FREE_GB: Final = 25
_MAX_INCIDENT_MIN: Final = 2_000


class DiscardingChannel:
    """The channel that receives the alerts."""

    name = "people"

    def send(self, _alert: object) -> None: ...


def record_incident() -> list[LedgerEntry]:
    """Everything that the ledger keeps of one volume's trouble, from the first alert to its return."""
    fleet = LabFleet(LabClock.manual(STARTS_AT))
    tags = {"Name": "ci-7", "burstwatch:mode": "auto", "burstwatch:target": "io1"}
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:20", tags=tags))
    ec2 = cast("Any", InProcessEc2(fleet))
    with SqliteLedger.in_memory() as ledger:
        services = Services(
            ec2=Ec2Reader(ec2),
            cloudwatch=cast("Any", InProcessCloudWatch(fleet)),
            ledger=ledger,
            calls=CallCounter(),
            policy=Policy(),
            location=AwsLocation(region="us-east-1", account="123456789012"),
            channels=[DiscardingChannel()],
            modifier=Ec2Modifier(ec2),
        )
        fleet.clock.advance(3_600)
        for minute in range(_MAX_INCIDENT_MIN):
            if minute in (10, 90):
                fleet.set_load(volume_id, "steady:2500" if minute == 10 else "steady:20")
            tick_s = fleet.now_s()
            fleet.clock.advance(2)
            run_tick(services, tick_at_s=tick_s, now_s=fleet.clock.now_s())
            fleet.clock.advance(58)
            if ledger.states():
                continue
            entries = ledger.entries(volume_id)
            if any(entry.kind is EntryKind.RESTORED for entry in entries):
                return entries
        kinds = [str(entry.kind) for entry in ledger.entries(volume_id)]
        raise SystemExit(f"the trouble was not over in a day: {kinds}")


@dataclass(frozen=True, slots=True)
class LedgerYear:
    """A year of a fleet: this many volumes, and this many incidents for each."""

    incident: Sequence[LedgerEntry]
    volumes: int
    incidents_per_volume: int

    def volume_id(self, number: int) -> str:
        return f"vol-{number:017x}"

    def changes(self, number: int) -> Iterator[Change]:
        """What the ledger keeps of one volume, a trouble at a time, spread over the year."""
        for incident_number in range(self.incidents_per_volume):
            offset_s = (
                incident_number * YEAR_S + number * YEAR_S // self.volumes
            ) // self.incidents_per_volume
            entries = [
                replace(
                    entry,
                    volume_id=self.volume_id(number),
                    revision=entry.revision + offset_s,
                    at_s=entry.at_s + offset_s,
                    body=_with_unique_alert_id(entry.body, f"{number:x}-{incident_number:x}"),
                )
                for entry in self.incident
            ]
            volume_id = self.volume_id(number)
            yield Change(volume_id=volume_id, expected_revision=None, state=None, entries=entries)

    @property
    def rows(self) -> int:
        return self.volumes * self.incidents_per_volume * len(self.incident)


def _with_unique_alert_id(body: Any, name: str) -> Any:
    """An alert has an id of its own in each trouble, of the same length."""
    if "alert_id" not in body:
        return body
    alert_id = body["alert_id"]
    return {**body, "alert_id": (alert_id[: len(alert_id) - len(name) - 1] + "-" + name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLedger:
    """A ledger, and what it holds so far, in bytes as they are billed or stored."""

    name: str
    ledger: Ledger
    size_bytes: Callable[[], int]
    units: Callable[[], float] = lambda: 0.0


@contextmanager
def open_measured_ledger(kind: str) -> Iterator[MeasuredLedger]:
    """An empty ledger of this kind."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "ledger.sqlite"
            with SqliteLedger.open(path) as ledger:
                yield MeasuredLedger(name="SQLite", ledger=ledger, size_bytes=lambda: _disk_bytes(path))
        return
    table, session = FakeDynamoDb(), botocore.session.Session()
    session.set_credentials("none", "none")
    client = session.create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        config=Config(max_pool_connections=8, parameter_validation=False),
    )
    table.attach(client)

    def count_stored_bytes() -> int:
        return sum(100 + item_size_bytes(item) for items in table.items.values() for item in items.values())

    ledger = DynamoLedger(client, table.table)
    yield MeasuredLedger(
        name="DynamoDB", ledger=ledger, size_bytes=count_stored_bytes, units=lambda: table.units.read
    )


def _disk_bytes(path: Path) -> int:
    """The file, and what SQLite keeps beside it until it is written there."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def fill_ledger(measured_ledger: MeasuredLedger, year: LedgerYear) -> float:
    """Write the year; return how many seconds that took."""
    started_s = time.perf_counter()
    for number in range(year.volumes):
        for change in year.changes(number):
            measured_ledger.ledger.commit([change], channels=[])
    return time.perf_counter() - started_s


def run_ledger_tick(ledger: Ledger, tick_s: int, in_focus: Sequence[Change]) -> None:
    """What a focus tick requests from the ledger, with these volumes in focus."""
    ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=50)
    ledger.states()
    ledger.manual_overrides()
    ledger.holds(tick_s)
    ledger.fleet_snapshot()
    if in_focus:
        ledger.commit(in_focus, channels=["people"])
    ledger.pending_deliveries(channels=["people"])
    ledger.complete_tick(TickKind.FOCUS, tick_s)


class FocusTicks:
    """Ticks one after the other, each with a look at every one of some volumes in focus."""

    def __init__(self, ledger: Ledger, year: LedgerYear, now_s: int) -> None:
        self._ledger, self._year, self._now_s = ledger, year, now_s
        self._ticks, self._readings = 0, 0

    def tick(self, volumes: int) -> None:
        self._ticks += 1
        self._readings += volumes > 0
        changes = [self._reading_change(number) for number in range(volumes)]
        run_ledger_tick(self._ledger, self._now_s + 60 * self._ticks, changes)

    def _reading_change(self, number: int) -> Change:
        """A look that changes the state alone."""
        volume_id, revision = self._year.volume_id(number), self._readings
        state = ResourceState(volume_id=volume_id, revision=revision, reading=LastReading(balance_pct=81.25))
        return Change(volume_id=volume_id, expected_revision=revision - 1 or None, state=state)


def count_history_lines(ledger: Ledger, volume_id: str) -> int:
    """What ``burstctl history`` does: the whole story of a volume, in words."""
    from burstctl.history.render import layout_history, read_history, render_entries

    return len(layout_history(render_entries(read_history(ledger, volume_id))).splitlines())


def count_report_entries(ledger: Ledger, year: LedgerYear, now_s: int) -> int:
    """What ``burstctl report`` reads of the ledger: the last day of each volume, eight at once."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        volume_ids = map(year.volume_id, range(year.volumes))
        return sum(
            map(
                len,
                pool.map(
                    lambda volume_id: ledger.entries(volume_id, since_s=now_s - REPORT_PERIOD_S), volume_ids
                ),
            )
        )


def print_times(measured_ledger: MeasuredLedger, year: LedgerYear, now_s: int) -> None:
    """A line for each thing that is done with the ledger."""
    focus = FocusTicks(measured_ledger.ledger, year, now_s)
    actions: dict[str, Callable[[], object]] = {
        "a tick, nothing in focus": lambda: focus.tick(0),
        "a tick, 50 states changed": lambda: focus.tick(min(50, year.volumes)),
        "history of one volume": lambda: count_history_lines(measured_ledger.ledger, year.volume_id(7)),
        f"report, {year.volumes:,} volumes": lambda: count_report_entries(
            measured_ledger.ledger, year, now_s
        ),
    }
    for name, action in actions.items():
        times_s, units_before = [], measured_ledger.units()
        for _ in range(5):
            started_s = time.perf_counter()
            action()
            times_s.append(time.perf_counter() - started_s)
        read_units = (measured_ledger.units() - units_before) / 5
        print(
            f"  {name:<28}{1e3 * min(times_s):>10.1f} ms"
            + (f"{read_units:>10,.0f} read units" if read_units else "")
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """For each kind of ledger: empty, and with the year."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("volumes", type=int, nargs="?", default=1_000)
    parser.add_argument("incidents", type=int, nargs="?", default=12, help="of each volume, in the year")
    parser.add_argument("ledger", choices=("sqlite", "dynamodb", "both"), nargs="?", default="both")
    options = parser.parse_args(arguments)
    volumes, incidents = options.volumes, options.incidents
    year = LedgerYear(record_incident(), volumes, incidents)
    now_s = int(STARTS_AT.timestamp()) + YEAR_S
    incidents_text = f"{incidents} troubles each of {len(year.incident)} rows"
    print(f"{volumes:,} volumes, {incidents_text}: {year.rows:,} rows; times are the best of five")
    for kind in ("sqlite", "dynamodb") if options.ledger == "both" else (options.ledger,):
        for is_full in (False, True):
            with open_measured_ledger(kind) as measured_ledger:
                duration_s = fill_ledger(measured_ledger, year) if is_full else 0.0
                size_mb = measured_ledger.size_bytes() / 1e6
                description = (
                    f"a year: {size_mb:,.0f} MB, written in {duration_s:.0f} s" if is_full else "empty"
                )
                print(f"{measured_ledger.name}, {description}")
                print_times(measured_ledger, year, now_s)
                if is_full and kind == "dynamodb":
                    usd = size_mb / 1e3 * USD_PER_GB_MONTH
                    print(
                        f"  storing it: {format_usd(usd)} a month, were it not within the {FREE_GB}"
                        f" GB that are free"
                    )


if __name__ == "__main__":
    main()
