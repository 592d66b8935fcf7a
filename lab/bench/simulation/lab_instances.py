"""What the lab itself takes to answer one pass over many volumes and instances, without wire and client.

    .venv/bin/python lab/bench/simulation/lab_instances.py --volumes 10000 --instances 2000

Each instance has the same number of mixed gp2 volumes with three hours of history. A pass lists the volumes
and the instances, and reads 15 minutes of BurstBalance and of the operations of each volume, and one hour of
both balances of each instance. It is made twice, because the first has to simulate the three hours. A third
pass follows five minutes later. Times are processor seconds.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from burstlab.fake_aws.cloudwatch.api import MAX_QUERIES, CloudWatchApi
from burstlab.fake_aws.ec2.api import Ec2Api
from burstlab.fake_aws.protocols import Call
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.fleet_file import make_mixed_volumes

START: Final = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
PAST: Final = timedelta(hours=3)
TICK_S: Final = 300
EC2_PAGE: Final = {"DescribeVolumes": 500, "DescribeInstances": 1_000}
VOLUME_METRICS: Final = ("BurstBalance", "VolumeReadOps", "VolumeWriteOps")
INSTANCE_METRICS: Final = ("EBSIOBalance%", "EBSByteBalance%")


def build_fleet(volumes: int, instances: int, instance_type: str) -> LabFleet:
    """The volumes spread over the instances, in turn."""
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60))
    ids = [f"i-{number:017x}" for number in range(instances)]
    for instance_id in ids:
        fleet.add_instance(
            LabInstance(
                instance_id=instance_id, launched_at=START - PAST, instance_type=instance_type, tags={}
            )
        )
    mixed = make_mixed_volumes(volumes, seed=0, starts_at=START - PAST)
    fleet.add_all(replace(volume, instance_id=ids[n % instances]) for n, volume in enumerate(mixed))
    return fleet


def list_all(ec2: Ec2Api, action: str) -> int:
    """The number of pages."""
    pages, token = 0, ""
    while True:
        body = f"Action={action}&MaxResults={EC2_PAGE[action]}{token and '&NextToken='}{token}"
        text = ec2.handle(make_call("ec2", action, body.encode())).body.decode()
        pages += 1
        if "<nextToken>" not in text:
            return pages
        token = text.partition("<nextToken>")[2].partition("<")[0].replace("=", "%3D")


def read_metrics(
    cloudwatch: CloudWatchApi,
    queries: Sequence[tuple[str, str, str, str, int]],
    now: datetime,
    span: timedelta,
) -> int:
    """The number of datapoints of metrics, each a namespace, a name, a dimension with its value, a period."""
    datapoints = 0
    for batch in batches(queries, MAX_QUERIES):
        request = {
            "MetricDataQueries": [to_query(number, *query) for number, query in enumerate(batch)],
            "StartTime": (now - span).timestamp(),
            "EndTime": now.timestamp(),
        }
        response = cloudwatch.handle(make_call("monitoring", "GetMetricData", json.dumps(request).encode()))
        results = json.loads(response.body)["MetricDataResults"]
        datapoints += sum(len(result["Values"]) for result in results)
    return datapoints


def to_query(
    number: int, namespace: str, name: str, dimension: str, value: str, period_s: int
) -> dict[str, Any]:
    """One MetricDataQuery."""
    metric = {
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": [{"Name": dimension, "Value": value}],
    }
    stat = "Sum" if name.endswith("Ops") else "Minimum"
    return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": period_s, "Stat": stat}}


def make_call(service: str, action: str, body: bytes) -> Call:
    """A call as the endpoint reads it."""
    protocol = "ec2" if service == "ec2" else "json"
    return Call(service=service, region="us-east-1", action=action, protocol=protocol, body=body)


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Parts of at most ``size``."""
    return (items[offset : offset + size] for offset in range(0, len(items), size))


def run_pass(fleet: LabFleet, ec2: Ec2Api, cloudwatch: CloudWatchApi) -> dict[str, float]:
    """Processor seconds by step."""
    now = fleet.clock.now()
    of_volumes = [("AWS/EBS", name, "VolumeId", v.volume_id, 60) for v in fleet for name in VOLUME_METRICS]
    of_instances = [
        ("AWS/EC2", name, "InstanceId", instance_id, TICK_S)
        for instance_id in fleet.instances
        for name in INSTANCE_METRICS
    ]
    steps = {
        "list volumes": lambda: list_all(ec2, "DescribeVolumes"),
        "list instances": lambda: list_all(ec2, "DescribeInstances"),
        "volume metrics": lambda: read_metrics(cloudwatch, of_volumes, now, timedelta(minutes=15)),
        "instance metrics": lambda: read_metrics(cloudwatch, of_instances, now, timedelta(hours=1)),
    }
    times_s = {}
    for name, step in steps.items():
        started_s = time.process_time()
        step()
        times_s[name] = time.process_time() - started_s
    return times_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--volumes", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=2_000)
    parser.add_argument("--type", default="m5.4xlarge", help="the type of the instances")
    options = parser.parse_args()
    started_s = time.process_time()
    fleet = build_fleet(options.volumes, options.instances, options.type)
    print(f"{'build':<24}{time.process_time() - started_s:>7.2f} s")
    ec2, cloudwatch = Ec2Api(fleet), CloudWatchApi(fleet)
    for name, after_s in (("first pass", 0), ("again", 0), ("next pass", TICK_S)):
        fleet.clock.advance(after_s)
        times_s = run_pass(fleet, ec2, cloudwatch)
        parts = ", ".join(f"{step} {seconds:.2f}" for step, seconds in times_s.items())
        print(f"{name:<24}{sum(times_s.values()):>7.2f} s ({parts})")


if __name__ == "__main__":
    main()
