"""What watching 50 file systems and 50 databases costs, calm and draining: calls and dollars by the hour.

`storage_cost.py [HOURS]` plays ticks before the lab with the real readers, and prints a Markdown table.
"""

import argparse
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_services

COUNT = 50
HOURS = 2
START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
POLICY = Policy.from_mapping(
    {"version": "1", "resources": {"efs": {"watch": "true"}, "rds": {"watch": "true"}}}
)
# file systems earn 2.8 MiB/s and databases 300 operations a second
LOADS = {
    "calm": ("idle", "idle"),
    "draining for hours": ("steady:240@256%50", "steady:420@16%30"),
    "empty": ("steady:400@256%0", "steady:3000@16%30"),
}


def measure(file_load: str, database_load: str, hours: float, balance_pct: float) -> tuple[Counter[str], int]:
    """The calls and the metrics of this many hours, after one in which the watchdog has come to rest."""
    fleet = LabFleet(LabClock.manual(START - timedelta(hours=2)), LabSettings(lag_s=60))
    state: dict[str, Any] = {"balance_pct": balance_pct, "starts_at": START - timedelta(hours=2)}
    for number in range(COUNT):
        fleet.file_systems.add(LabFileSystem(size_gib=58, load=file_load, **state))
        fleet.databases.add(LabDatabase(identifier=f"db-{number}", load=database_load, **state))
    session = Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")
    calls, metrics = Counter[str](), 0
    with Endpoint(fleet) as lab, SqliteLedger.in_memory() as ledger:
        services = build_services(session, endpoint_url=lab.url, policy=POLICY, ledger=ledger)
        lab.clock.advance(3_600)
        for minute in range(60 + int(60 * hours)):
            lab.clock.advance(60)
            now_s = fleet.now_s()
            report = run_tick(services, tick_at_s=now_s, now_s=now_s)
            if report is not None and minute >= 60:
                calls.update(report.api_calls)
                metrics += report.metrics_requested
    return calls, metrics


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hours", type=float, nargs="?", default=HOURS)
    hours = parser.parse_args().hours
    print(f"| {COUNT} file systems and {COUNT} databases | calls an hour | metrics an hour | $ a month |")
    print("| --- | ---: | ---: | ---: |")
    for label, loads in LOADS.items():
        calls, metrics = measure(*loads, hours, balance_pct=0 if label == "empty" else 99)
        usd = metrics / hours * USD_PER_METRIC * 24 * 30
        print(f"| {label} | {sum(calls.values()) / hours:,.0f} | {metrics / hours:,.0f} | {usd:,.2f} |")


if __name__ == "__main__":
    main()
