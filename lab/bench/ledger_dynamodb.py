"""What the DynamoDB ledger costs, in units and dollars, and how fast it is: a table in this process.

.venv/bin/python lab/bench/ledger_dynamodb.py [seconds a call takes, 0.005]
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import botocore.session
from botocore.config import Config

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, Flip, FlipCause, FlipStatus
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import LastReading, ResourceState
from burstwatch.core.text import format_usd

USD_PER_READ, USD_PER_WRITE = 0.125e-6, 0.625e-6
"""On demand, us-east-1, since November 2024."""

FOCUS_TICKS, SWEEP_TICKS = 30 * 24 * 60, 30 * 24 * 12
WORKERS = 8


def open_ledger(table: FakeDynamoDb) -> DynamoLedger:
    """A ledger of its own connection pool, as another process would have it."""
    session = botocore.session.Session()
    session.set_credentials("none", "none")
    client = session.create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        config=Config(max_pool_connections=WORKERS, retries={"mode": "standard", "total_max_attempts": 5}),
    )
    table.attach(client)
    return DynamoLedger(client, table.table, workers=WORKERS)


def make_reading_change(number: int, *, revision: int = 1) -> Change:
    """What a look at one volume changes when nothing else goes on."""
    volume_id = f"vol-{number:017x}"
    state = ResourceState(
        volume_id=volume_id,
        revision=revision,
        level=Level.WATCH,
        level_since_s=1_795_197_635,
        next_poll_at_s=1_795_197_935,
        reading=LastReading(balance_pct=81.25, balance_at_s=1_795_197_600),
    )
    return Change(volume_id=volume_id, expected_revision=revision - 1 or None, state=state)


def make_alert_change(number: int) -> Change:
    """The same, with a level entered and an alert about it."""
    reading_change = make_reading_change(number)
    alert = Alert(
        alert_id=f"{number:032x}",
        kind=AlertKind.DRAINING,
        level=Level.WARNING,
        previous_level=Level.WATCH,
        volume_id=reading_change.volume_id,
        at_s=1_795_197_635,
        volume={"volume_id": reading_change.volume_id, "name": "ci-7"},
        action="burstctl explain",
        evidence={"because": "x" * 600},
    )
    entries = [
        LedgerEntry(volume_id=reading_change.volume_id, revision=1, kind=kind, at_s=1, body=body)
        for kind, body in ((EntryKind.LEVEL_CHANGED, {}), (EntryKind.ALERT, alert.to_document()))
    ]
    return Change(
        volume_id=reading_change.volume_id,
        expected_revision=None,
        state=reading_change.state,
        entries=entries,
        alerts=[alert],
    )


def make_intent_change(number: int) -> Change:
    """A volume that is about to be flipped."""
    volume_id = f"vol-{number:017x}"
    flip = Flip(
        status=FlipStatus.REQUESTED,
        direction=Direction.FLIP,
        intent_id=f"{number:016x}",
        cause=FlipCause.DRAINING,
        by=WATCHDOG,
        original=Configuration(volume_type=VolumeType.GP2),
        target=Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=128),
        size_gib=100,
        requested_at_s=1,
        usd_per_month=1.5,
    )
    entry = LedgerEntry(
        volume_id=volume_id, revision=1, kind=EntryKind.INTENT, at_s=1, body=flip.to_document()
    )
    state = ResourceState(volume_id=volume_id, revision=1, level=Level.CRITICAL, flip=flip)
    return Change(volume_id=volume_id, expected_revision=None, state=state, entries=[entry])


def run_quiet_tick(ledger: DynamoLedger, tick_s: int, fleet: frozenset[int] | None) -> None:
    """What a pass asks of the ledger when nothing goes on; with a ``fleet`` it is a sweep as well."""
    ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=50)
    ledger.states()
    ledger.manual_overrides()
    ledger.holds(tick_s)
    ledger.fleet_snapshot()
    if fleet is not None:
        ledger.claim_tick(TickKind.SWEEP, tick_s, now_s=tick_s, lease_s=50)
    for _ in range(2):
        ledger.pending_deliveries(channels=["sns"])
    if fleet is not None:
        ledger.complete_tick(TickKind.SWEEP, tick_s, fleet_fingerprints=fleet)
    ledger.complete_tick(TickKind.FOCUS, tick_s)


def measure(table: FakeDynamoDb, name: str, action: Callable[[], object]) -> tuple[float, float]:
    """Print and return what one action costs."""
    read, write, calls = table.units.read, table.units.write, table.calls.total()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    action()
    wall_ms, cpu_ms = (time.perf_counter() - started_s) * 1e3, (time.process_time() - started_cpu_s) * 1e3
    read, write, calls = table.units.read - read, table.units.write - write, table.calls.total() - calls
    print(f"{name:<46} {calls:>7} calls {read:>7g} r {write:>7g} w {wall_ms:>8.0f} ms {cpu_ms:>8.0f} ms cpu")
    return read, write


def price_quiet_month(volumes: int) -> None:
    """A month in which nothing happens, with a fleet of this size."""
    table = FakeDynamoDb()
    ledger = open_ledger(table)
    fleet = frozenset(range(2**63, 2**63 + volumes))
    run_quiet_tick(ledger, 300, fleet)
    ledger.fleet_snapshot()
    focus = measure(
        table, f"quiet focus tick, {volumes:,} volumes", lambda: run_quiet_tick(ledger, 360, None)
    )
    sweep = measure(
        table, f"quiet sweep tick, {volumes:,} volumes", lambda: run_quiet_tick(ledger, 600, fleet)
    )
    changed_sweep = measure(
        table, "the same when a volume came", lambda: run_quiet_tick(ledger, 900, fleet | {1})
    )
    max_usd = to_usd(focus, FOCUS_TICKS - SWEEP_TICKS)
    usd = max_usd + to_usd(sweep, SWEEP_TICKS)
    max_usd += to_usd(changed_sweep, SWEEP_TICKS)
    print(
        f"  a quiet month: {format_usd(usd)}; {format_usd(max_usd)} where volumes come or go before"
        f" each sweep"
    )


def to_usd(units: tuple[float, float], times: int) -> float:
    """For these read and write units, ``times`` over."""
    return (units[0] * USD_PER_READ + units[1] * USD_PER_WRITE) * times


def race(workers: int, *, call_s: float) -> None:
    """As many processes as workers each begin one intent at the same moment, all within the caps."""
    table = FakeDynamoDb(latency_s=call_s)
    ledgers = [open_ledger(table) for _ in range(workers)]
    barrier = threading.Barrier(workers)
    caps = Caps(volumes=1_000, usd_per_month=1e6)

    def record_intent(number: int) -> None:
        barrier.wait()
        result = ledgers[number].record_intent(
            make_intent_change(number), caps, now_s=0, respects_holds=True, channels=[]
        )
        assert result.status is IntentStatus.RECORDED

    def record_all() -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(record_intent, range(workers)))

    measure(table, f"{workers} intents, each by a process of its own", record_all)


def main() -> None:
    """Units first, which are the same everywhere; then time, with calls that take ``call_s``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("call_s", type=float, nargs="?", default=0.005, help="what a call takes, in seconds")
    call_s = parser.parse_args().call_s
    print("r, w: read and write units")
    for volumes in (1_000, 100_000):
        price_quiet_month(volumes)
    print(f"\na call takes {call_s * 1e3:g} ms, {WORKERS} at once")
    table = FakeDynamoDb(latency_s=call_s)
    ledger = open_ledger(table)
    measure(table, "commit of 1,000 states", lambda: commit(ledger, map(make_reading_change, range(1_000))))
    second_readings = [make_reading_change(number, revision=2) for number in range(1_000)]
    measure(table, "commit of 1,000 states, changed", lambda: commit(ledger, second_readings))
    alert_changes = map(make_alert_change, range(10_000, 10_500))
    measure(table, "commit of 500 alerts, one channel", lambda: commit(ledger, alert_changes))
    caps = Caps(volumes=1_000, usd_per_month=1e6)
    intent_change = make_intent_change(20_000)
    measure(
        table,
        "begin of 1 intent",
        lambda: ledger.record_intent(intent_change, caps, now_s=0, respects_holds=True, channels=["sns"]),
    )
    table.latency_s = 0.0
    commit(ledger, map(make_reading_change, range(100_000, 200_000)))
    table.latency_s = call_s
    measure(table, "states of 101,501 volumes", ledger.states)
    volume_ids = {f"vol-{number:017x}" for number in range(100_000, 101_000)}
    measure(table, "states of 1,000 of them", lambda: ledger.states_of(volume_ids))
    for workers in (10, 50):
        race(workers, call_s=call_s)


def commit(ledger: DynamoLedger, changes: Iterable[Change]) -> None:
    """There is no concurrent writer, so all of them are applied."""
    change_list = list(changes)
    assert len(ledger.commit(change_list, channels=["sns"])) == len(change_list)


if __name__ == "__main__":
    main()
