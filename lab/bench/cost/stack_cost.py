"""What the default stack costs in a 30-day month, line by line, for calm volumes of up to 100 GiB.

.venv/bin/python lab/bench/cost/stack_cost.py            for 100, 1,000 and 10,000 volumes

Resources are counted in the synthesized stack, and its metrics are those that the handlers report. The
arithmetic and the prices are in ``burstctl.init.monthly_cost``.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from burstctl.init.monthly_cost import SMALL_GIB, StackResources, list_monthly_costs  # noqa: E402
from burstwatch.core.buckets.bucket import Bucket, BucketKind  # noqa: E402
from burstwatch.core.buckets.units import GIB  # noqa: E402
from burstwatch.core.ebs.gp2_bucket import EBS_IO, gp2_bucket  # noqa: E402
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, hdd_bucket  # noqa: E402
from burstwatch.core.ebs.sizing import InstanceLimits  # noqa: E402
from burstwatch.core.ebs.volume import baseline_iops  # noqa: E402
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket  # noqa: E402
from burstwatch.core.instances.instance_buckets import (  # noqa: E402
    INSTANCE_IO,
    INSTANCE_THROUGHPUT,
    instance_io_bucket,
    instance_throughput_bucket,
)
from burstwatch.core.policy.bucket_policy import policy_of_bucket  # noqa: E402
from burstwatch.core.policy.policy import CadencePolicy, Policy  # noqa: E402
from burstwatch.core.rds.db_instance import DbInstance  # noqa: E402
from burstwatch.core.rds.rds_buckets import RDS_IO, gp2_storage_bucket  # noqa: E402
from burstwatch.core.watch.api_cost import metric_usd_per_month  # noqa: E402
from burstwatch.core.watch.polling.cadence import sweep_interval_s  # noqa: E402 - infra is found below the repository's root

FLEETS: Final = (100, 1_000, 10_000)


@dataclass(slots=True)
class RecordingTelemetry:
    """Replaces the telemetry of a function, and remembers which metrics it receives."""

    metrics: set[str] = field(default_factory=set)

    def emit_metric(self, metric: Any, value: float | None) -> None:
        if value is not None:
            self.metrics.add(str(metric))

    def info(self, *_: Any) -> None: ...

    warn = info


@cache
def read_stack() -> StackResources:
    """Synthesize the default stack and count."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    from aws_cdk import App

    from app import add_stacks
    from infra.policy import read_configuration

    with TemporaryDirectory() as directory:
        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        # nothing is deployed, so what the functions are made of need not be copied
        app = App(outdir=directory, context=context | {"aws:cdk:disable-asset-staging": True})
        add_stacks(app, *read_configuration(None))
        app.synth()
        template = json.loads((Path(directory) / "burstwatch.template.json").read_text())
    return count_resources(template)


def count_resources(template: dict[str, Any]) -> StackResources:
    """What the bill depends on, counted in a template."""
    resources = template["Resources"].values()
    resource_types = [resource["Type"] for resource in resources]
    [watch] = [
        resource["Properties"]
        for resource in resources
        if resource["Properties"].get("Handler") == "burstwatch.handlers.watch.handler"
    ]
    queues = [resource["Properties"] for resource in resources if resource["Type"] == "AWS::SQS::Queue"]
    return StackResources(
        alarms=resource_types.count("AWS::CloudWatch::Alarm"),
        dashboards=resource_types.count("AWS::CloudWatch::Dashboard"),
        keys=resource_types.count("AWS::KMS::Key"),
        functions=resource_types.count("AWS::Lambda::Function"),
        watch_gib=watch["MemorySize"] / 1024,
        watch_timeout_s=watch["Timeout"],
        event_queues=sum("RedrivePolicy" in queue and "FifoQueue" not in queue for queue in queues),
        flip_queues=sum("RedrivePolicy" in queue and "FifoQueue" in queue for queue in queues),
    )


def quiet_tick_metrics() -> set[str]:
    """The metrics of the watch function when nothing happens but that it read some volume."""
    from burstwatch.core.watch.fleet_summary import summarise_fleet
    from burstwatch.core.watch.pass_report import PassReport
    from burstwatch.handlers.pass_metrics import emit_pass_telemetry
    from burstwatch.wiring.observability import Metric

    telemetry = RecordingTelemetry({Metric.TICKS, Metric.NEWEST_DATAPOINT_AGE, Metric.SOONEST_TIME_TO_EMPTY})
    fleet = summarise_fleet({}, (), watched=1)
    report = PassReport(now_s=0, region="", ledger="", decisions=(), cadence=CadencePolicy(), fleet=fleet)
    emit_pass_telemetry(report, telemetry)
    return telemetry.metrics


def build_table() -> str:
    """The bills side by side, as Markdown."""
    stack, metrics = read_stack(), len(quiet_tick_metrics())
    bills = [list_monthly_costs(volumes, stack, metrics) for volumes in FLEETS]
    headings = " | ".join(f"{volumes:,} volumes" for volumes in FLEETS)
    lines = [f"| In a month of 30 days, $ | {headings} |", "| --- |" + " ---: |" * len(FLEETS)]
    for rows in zip(*bills, strict=True):
        cells = " | ".join(f"{row[1]:,.2f}" for row in rows)
        lines.append(f"| {rows[0][0]} | {cells} |")
    cells = " | ".join(f"{bill[-1][2]:,.2f}" for bill in bills)
    return "\n".join([*lines, f"| after what AWS gives every account for nothing | {cells} |"])


def build_kinds_table() -> str:
    """What watching a thousand calm resources of each kind costs, as Markdown; no kind adds anything else."""
    lines = ["| 1,000 calm resources | read every | $ a month |", "| --- | --- | ---: |"]
    for label, buckets in _examples():
        intervals = [
            sweep_interval_s(bucket, policy_of_bucket(Policy(), kind, bucket).cadence)
            for kind, bucket in buckets
            if bucket.highest_drain_per_s
        ]
        texts = " and ".join(f"{interval_s // 60} min" for interval_s in intervals) or "never"
        usd = 1_000 * sum(map(metric_usd_per_month, intervals))
        lines.append(f"| {label} | {texts} | {usd:,.2f} |")
    return "\n".join(lines)


def _examples() -> Iterator[tuple[str, list[tuple[BucketKind, Bucket]]]]:
    """Buckets by resource; m5.large sustains 3,600 IOPS and 77.5 MiB/s, and bursts to 18,750 and 566."""
    yield "gp2 volumes of 100 GiB", [(EBS_IO, gp2_bucket(baseline_iops(SMALL_GIB)))]
    yield "st1 volumes of 1 TiB", [(EBS_THROUGHPUT, hdd_bucket("st1", 1_024))]
    yield "sc1 volumes of 1 TiB", [(EBS_THROUGHPUT, hdd_bucket("sc1", 1_024))]
    limits = InstanceLimits(
        baseline_iops=3_600, max_iops=18_750, baseline_throughput_mib_s=77.5, max_throughput_mib_s=566.2
    )
    for label, iops, mib_s in (
        ("m5.large with volumes of 3,000 IOPS and 60 MiB/s", 3_000, 60),
        ("m5.large with one default gp3", 3_000, 125),
        ("m5.large with two default gp3", 6_000, 250),
        ("m5.large with volumes that exceed its maximum", None, None),
    ):
        io = instance_io_bucket(limits, volumes_iops=iops)
        yield (
            label,
            [
                (INSTANCE_IO, io),
                (INSTANCE_THROUGHPUT, instance_throughput_bucket(limits, volumes_mib_s=mib_s)),
            ],
        )
    for gib in (58, 4_096):
        yield f"EFS file systems in bursting mode, {gib:,} GiB", [(EFS_BYTES, efs_bucket(gib * GIB))]
    for gib in (100, 400, 2_000):
        database = DbInstance(
            identifier="orders",
            dbi_resource_id="db-ORDERS",
            engine="postgres",
            instance_class="db.m5.4xlarge",
            storage_type="gp2",
            allocated_gib=gib,
            status="available",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        yield (
            f"RDS databases on {gib:,} GiB of gp2, class without buckets",
            [(RDS_IO, gp2_storage_bucket(database))],
        )


if __name__ == "__main__":
    print(build_table(), build_kinds_table(), sep="\n\n")
