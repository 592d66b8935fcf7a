"""What the default stack costs in a 30-day month, line by line, for calm volumes of up to 100 GiB.

.venv/bin/python lab/bench/stack_cost.py            for 100, 1,000 and 10,000 volumes

Resources are counted in the synthesized stack. What a tick reads and writes is the ledger's own account of
it, and its metrics are those that the handlers report. Prices: us-east-1, November 2026.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from burstwatch.core.buckets.bucket import Bucket, BucketKind  # noqa: E402
from burstwatch.core.ebs.gp2_bucket import EBS_IO, gp2_bucket  # noqa: E402
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, hdd_bucket  # noqa: E402
from burstwatch.core.ebs.sizing import InstanceLimits  # noqa: E402
from burstwatch.core.ebs.volume import baseline_iops  # noqa: E402
from burstwatch.core.instances.instance_buckets import (  # noqa: E402
    INSTANCE_IO,
    INSTANCE_THROUGHPUT,
    instance_io_bucket,
    instance_throughput_bucket,
)
from burstwatch.core.policy.bucket_policy import policy_of_bucket  # noqa: E402
from burstwatch.core.policy.policy import CadencePolicy, Policy  # noqa: E402
from burstwatch.core.watch.api_cost import MONTH_S, metric_usd_per_month  # noqa: E402
from burstwatch.core.watch.cadence import sweep_interval_s  # noqa: E402 - infra is found below the repository's root

FLEETS: Final = (100, 1_000, 10_000)
SMALL_GIB: Final = 100

FOCUS_TICKS: Final = MONTH_S // 60
SWEEP_TICKS: Final = MONTH_S // 300
FOCUS_S: Final = 0.5
"""A quiet focus tick: some ten calls to DynamoDB and SSM."""
SWEEP_S: Final = 0.5
SWEEP_S_PER_VOLUME: Final = 0.0008
"""More than a whole look at 10,000 volumes takes in the lab, of which a sweep tick does a third."""

CHANNELS: Final = 1
READ_UNITS: Final = {"focus": 13 + 2 * CHANNELS, "sweep": 15 + 2 * CHANNELS}
WRITE_UNITS: Final = {"focus": 4, "sweep": 8}
"""Units of DynamoDB for a quiet tick, from the docstring of the DynamoDB ledger."""

LOG_BYTES: Final = 2_500
"""Of a quiet tick: Lambda's own three lines, ours, and the metrics."""
POLLS_PER_QUEUE: Final = 5 * MONTH_S // 20
"""Lambda keeps five long polls of 20 s on a queue that it takes messages from."""

USD_PER_UNIT: Final = {
    "custom metric": 0.30,
    "alarm": 0.10,
    "dashboard": 3.00,
    "key": 1.00,
    "GB-s": 0.0000133334,
    "invocation": 0.20e-6,
    "read unit": 0.125e-6,
    "write unit": 0.625e-6,
    "log byte": 0.50 / 1e9,
    "SQS FIFO request": 0.50e-6,
    "SQS request": 0.40e-6,
    "scheduled invocation": 1.00e-6,
}
FREE_TIER: Final = {
    "custom metric": 10,
    "alarm": 10,
    "dashboard": 3,
    "GB-s": 400_000,
    "invocation": 1_000_000,
    "log byte": 5e9,
    "SQS FIFO request": 1_000_000,
    "scheduled invocation": 14_000_000,
}
"""What every account has free of charge each month, permanently, unless something else in it uses it up.

SQS counts requests of both sorts together; what the flip queue leaves of them is not counted here."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """So much of something."""

    description: str
    amount: float
    unit: str

    @property
    def usd(self) -> float:
        return self.amount * USD_PER_UNIT[self.unit]

    @property
    def usd_after_free(self) -> float:
        return max(0.0, self.amount - FREE_TIER.get(self.unit, 0)) * USD_PER_UNIT[self.unit]


@dataclass(slots=True)
class RecordingTelemetry:
    """Replaces the telemetry of a function, and remembers which metrics it receives."""

    metrics: set[str] = field(default_factory=set)

    def emit_metric(self, metric: Any, value: float | None) -> None:
        if value is not None:
            self.metrics.add(str(metric))

    def info(self, *_: Any) -> None: ...

    warn = info


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResources:
    """What the default stack is made of."""

    alarms: int
    dashboards: int
    keys: int
    functions: int
    watch_gib: float
    watch_timeout_s: int
    event_queues: int


def read_stack() -> StackResources:
    """Synthesize the default stack and count."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    from aws_cdk import App

    from app import add_stacks
    from infra.policy import read_configuration

    with TemporaryDirectory() as directory:
        app = App(outdir=directory, context=json.loads((ROOT / "cdk.json").read_text())["context"])
        add_stacks(app, *read_configuration(None))
        app.synth()
        template = json.loads((Path(directory) / "burstwatch.template.json").read_text())
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


def list_cost_lines(volumes: int, stack: StackResources, metrics: int) -> Iterator[CostLine]:
    """Everything but CloudWatch's reads."""
    ticks = FOCUS_TICKS + SWEEP_TICKS
    busy_s = FOCUS_TICKS * FOCUS_S + SWEEP_TICKS * (SWEEP_S + SWEEP_S_PER_VOLUME * volumes)
    yield CostLine(f"{metrics} metrics of our own", metrics, "custom metric")
    yield CostLine(f"{stack.alarms} alarms", stack.alarms, "alarm")
    yield CostLine("dashboard", stack.dashboards, "dashboard")
    yield CostLine("key of the alerts topic", stack.keys, "key")
    yield CostLine("Lambda, time", busy_s * stack.watch_gib, "GB-s")
    yield CostLine("Lambda, invocations", ticks, "invocation")
    reads = FOCUS_TICKS * READ_UNITS["focus"] + SWEEP_TICKS * READ_UNITS["sweep"]
    yield CostLine("DynamoDB, reads", reads, "read unit")
    yield CostLine(
        "DynamoDB, writes",
        FOCUS_TICKS * WRITE_UNITS["focus"] + SWEEP_TICKS * WRITE_UNITS["sweep"],
        "write unit",
    )
    yield CostLine("logs", ticks * LOG_BYTES, "log byte")
    yield CostLine("polling the queue of flips", POLLS_PER_QUEUE, "SQS FIFO request")
    yield CostLine(
        f"polling {stack.event_queues} queues of events", stack.event_queues * POLLS_PER_QUEUE, "SQS request"
    )
    yield CostLine("schedules", ticks, "scheduled invocation")


def list_monthly_costs(volumes: int, stack: StackResources, metrics: int) -> list[tuple[str, float, float]]:
    """What it is for, in dollars at list price, and after what is free; the total last."""
    interval_s = sweep_interval_s(gp2_bucket(baseline_iops(SMALL_GIB)), CadencePolicy())
    watching = volumes * metric_usd_per_month(interval_s)
    rows = [(f"reading a metric of each every {interval_s // 60} min", watching, watching)]
    rows += [
        (line.description, line.usd, line.usd_after_free) for line in list_cost_lines(volumes, stack, metrics)
    ]
    return [*rows, ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))]


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


if __name__ == "__main__":
    print(build_table(), build_kinds_table(), sep="\n\n")
