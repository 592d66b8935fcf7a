"""What 1,000 file systems and 1,000 databases cost the lab: simulating them, and answering boto3 about them.

    .venv/bin/python lab/bench/simulation/lab_storage.py
    .venv/bin/python lab/bench/simulation/lab_storage.py --count 5000 --days 14

Half of the resources are idle, the others have loads that change by the second, the minute or the hour. The
days are simulated first; after that, an hour passes before each look, as in a sweep. Times are processor
seconds, of the lab and of boto3 together.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

LOADS: Final = (
    "idle",
    "docker-loop",
    "idle",
    "nightly-batch",
    "idle",
    "etcd",
    "idle",
    "ci-day",
    "idle",
    "nab_c0d644*32",
)
METRICS: Final = (
    ("AWS/EFS", "BurstCreditBalance", "FileSystemId", "Minimum"),
    ("AWS/EFS", "MeteredIOBytes", "FileSystemId", "Sum"),
    ("AWS/RDS", "BurstBalance", "DBInstanceIdentifier", "Minimum"),
    ("AWS/RDS", "EBSIOBalance%", "DBInstanceIdentifier", "Minimum"),
)
BATCH: Final = 500
START: Final = datetime(2026, 11, 1, tzinfo=UTC)


def build_fleet(count: int) -> Any:
    from burstlab.model.clock import LabClock
    from burstlab.model.database import LabDatabase
    from burstlab.model.file_system import LabFileSystem
    from burstlab.model.fleet import LabFleet

    fleet = LabFleet(LabClock.manual(START))
    for number in range(count):
        load = LOADS[number % len(LOADS)]
        size_gib = (10, 58, 200, 1_500)[number % 4]
        fleet.file_systems.add(LabFileSystem(size_gib=size_gib, load=load))
        fleet.databases.add(
            LabDatabase(
                identifier=f"db-{number}",
                allocated_gib=(20, 100, 500, 1_000)[number % 4],
                instance_class=("db.t3.micro", "db.m5.large", "db.m5.4xlarge")[number % 3],
                load=load,
            )
        )
    return fleet


def read_metric(cloudwatch: Any, fleet: Any, metric: tuple[str, ...], ids: list[str]) -> int:
    """The datapoints of the last hour, of all resources."""
    namespace, name, dimension, stat = metric
    now = fleet.clock.now()
    datapoints = 0
    for first in range(0, len(ids), BATCH):
        queries = [
            {
                "Id": f"m{number}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": namespace,
                        "MetricName": name,
                        "Dimensions": [{"Name": dimension, "Value": resource_id}],
                    },
                    "Period": 60,
                    "Stat": stat,
                },
            }
            for number, resource_id in enumerate(ids[first : first + BATCH])
        ]
        results = cloudwatch.get_metric_data(
            MetricDataQueries=queries, StartTime=now - timedelta(hours=1), EndTime=now
        )["MetricDataResults"]
        datapoints += sum(len(result["Values"]) for result in results)
    return datapoints


def measure(count: int, days: float) -> Iterator[tuple[str, float, str]]:
    """Each step: what it is, the seconds that it took, and what came of it."""
    from burstlab.fake_aws.server import Endpoint

    started_at = time.process_time()

    def seconds() -> float:
        nonlocal started_at
        before, started_at = started_at, time.process_time()
        return started_at - before

    fleet = build_fleet(count)
    yield f"build {count:,} file systems and {count:,} databases", seconds(), ""
    fleet.clock.advance(days * 86_400)
    for registry in (fleet.file_systems, fleet.databases):
        for item in registry:
            item.catch_up(fleet.now_s())
    yield (
        f"simulate {days:g} days of all",
        seconds(),
        f"{2 * count * days:,.0f} resource-days",
    )
    with Endpoint(fleet) as lab:
        efs, rds, cloudwatch = (lab.client(service) for service in ("efs", "rds", "cloudwatch"))
        seconds()
        pages = list(efs.get_paginator("describe_file_systems").paginate())
        file_systems = [entry["FileSystemId"] for page in pages for entry in page["FileSystems"]]
        yield "list the file systems", seconds(), f"{len(pages)} pages"
        pages = list(rds.get_paginator("describe_db_instances").paginate())
        databases = [entry["DBInstanceIdentifier"] for page in pages for entry in page["DBInstances"]]
        yield "list the databases", seconds(), f"{len(pages)} pages"
        for metric in METRICS:
            fleet.clock.advance(3_600)
            ids = file_systems if metric[0] == "AWS/EFS" else databases
            datapoints = read_metric(cloudwatch, fleet, metric, ids)
            yield f"an hour later: {metric[1]} of all", seconds(), f"{datapoints:,} datapoints"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000, help="of each kind (default 1,000)")
    parser.add_argument("--days", type=float, default=1.0, help="simulated before the first look (default 1)")
    options = parser.parse_args()
    for label, took_s, result in measure(options.count, options.days):
        print(f"{label:<52} {took_s:7.2f} s   {result}")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024:,.0f} MiB")


if __name__ == "__main__":
    main()
