"""What the default stack costs in a 30-day month, line by line, for calm volumes of up to 100 GiB.

.venv/bin/python lab/bench/bill.py            for 100, 1,000 and 10,000 volumes

What there is of each thing is counted in the synthesized stack, what a tick reads and writes is the
ledger's own account of it, and what it tells is what the handlers tell. Prices: us-east-1, November 2026.
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

from burstwatch.core.ebs.volume import baseline_iops  # noqa: E402
from burstwatch.core.policy.policy import CadencePolicy  # noqa: E402
from burstwatch.core.watch.api_cost import MONTH_S, usd_per_month  # noqa: E402
from burstwatch.core.watch.poll_interval import sweep_interval_s  # noqa: E402 - infra is found below the repository's root

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
READS: Final = {"focus": 13 + 2 * CHANNELS, "sweep": 15 + 2 * CHANNELS}
WRITES: Final = {"focus": 4, "sweep": 8}
"""Units of DynamoDB for a quiet tick, from the docstring of the DynamoDB ledger."""

LOG_BYTES: Final = 2_500
"""Of a quiet tick: Lambda's own three lines, ours, and the metrics."""
POLLS: Final = 5 * MONTH_S // 20
"""Lambda keeps five long polls of 20 s on a queue that it takes messages from."""

USD: Final = {
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
FREE: Final = {
    "custom metric": 10,
    "alarm": 10,
    "dashboard": 3,
    "GB-s": 400_000,
    "invocation": 1_000_000,
    "log byte": 5e9,
    "SQS FIFO request": 1_000_000,
    "scheduled invocation": 14_000_000,
}
"""What every account has for nothing each month, for good; if nothing else in the account uses it up.

SQS counts requests of both sorts together; what the flip queue leaves of them is not counted here."""


@dataclass(frozen=True, slots=True)
class Line:
    """So much of something."""

    what: str
    amount: float
    unit: str

    @property
    def usd(self) -> float:
        return self.amount * USD[self.unit]

    @property
    def usd_after_free(self) -> float:
        return max(0.0, self.amount - FREE.get(self.unit, 0)) * USD[self.unit]


@dataclass(slots=True)
class Told:
    """Stands in for the instruments of a function, and remembers which metrics it is told."""

    metrics: set[str] = field(default_factory=set)

    def measure(self, metric: Any, value: float | None) -> None:
        if value is not None:
            self.metrics.add(str(metric))

    def info(self, *_: Any) -> None: ...

    warn = info


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What the default stack is made of."""

    alarms: int
    dashboards: int
    keys: int
    functions: int
    watch_gib: float
    watch_timeout_s: int
    event_queues: int


def read_stack() -> Stack:
    """Synthesize the default stack and count."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    from aws_cdk import App

    from app import add_stacks
    from infra.policy import read_configuration

    with TemporaryDirectory() as folder:
        app = App(outdir=folder, context=json.loads((ROOT / "cdk.json").read_text())["context"])
        add_stacks(app, *read_configuration(None))
        app.synth()
        template = json.loads((Path(folder) / "burstwatch.template.json").read_text())
    resources = template["Resources"].values()
    kinds = [resource["Type"] for resource in resources]
    [watch] = [
        resource["Properties"]
        for resource in resources
        if resource["Properties"].get("Handler") == "burstwatch.handlers.watch.handler"
    ]
    queues = [resource["Properties"] for resource in resources if resource["Type"] == "AWS::SQS::Queue"]
    return Stack(
        alarms=kinds.count("AWS::CloudWatch::Alarm"),
        dashboards=kinds.count("AWS::CloudWatch::Dashboard"),
        keys=kinds.count("AWS::KMS::Key"),
        functions=kinds.count("AWS::Lambda::Function"),
        watch_gib=watch["MemorySize"] / 1024,
        watch_timeout_s=watch["Timeout"],
        event_queues=sum("RedrivePolicy" in queue and "FifoQueue" not in queue for queue in queues),
    )


def metrics_of_a_quiet_tick() -> set[str]:
    """What the watch function tells when nothing happens but that it read some volume."""
    from burstwatch.core.watch.fleet_summary import count_fleet
    from burstwatch.core.watch.report import Report
    from burstwatch.handlers.pass_metrics import tell
    from burstwatch.wiring.observability import Metric

    told = Told({Metric.TICKS, Metric.NEWEST_DATAPOINT_AGE, Metric.SOONEST_TIME_TO_EMPTY})
    fleet = count_fleet({}, (), watched=1)
    report = Report(now_s=0, region="", ledger="", decisions=(), cadence=CadencePolicy(), fleet=fleet)
    tell(report, told)
    return told.metrics


def lines_of(volumes: int, stack: Stack, metrics: int) -> Iterator[Line]:
    """Everything but CloudWatch's reads."""
    ticks = FOCUS_TICKS + SWEEP_TICKS
    busy_s = FOCUS_TICKS * FOCUS_S + SWEEP_TICKS * (SWEEP_S + SWEEP_S_PER_VOLUME * volumes)
    yield Line(f"{metrics} metrics of our own", metrics, "custom metric")
    yield Line(f"{stack.alarms} alarms", stack.alarms, "alarm")
    yield Line("dashboard", stack.dashboards, "dashboard")
    yield Line("key of the alerts topic", stack.keys, "key")
    yield Line("Lambda, time", busy_s * stack.watch_gib, "GB-s")
    yield Line("Lambda, invocations", ticks, "invocation")
    reads = FOCUS_TICKS * READS["focus"] + SWEEP_TICKS * READS["sweep"]
    yield Line("DynamoDB, reads", reads, "read unit")
    yield Line(
        "DynamoDB, writes", FOCUS_TICKS * WRITES["focus"] + SWEEP_TICKS * WRITES["sweep"], "write unit"
    )
    yield Line("logs", ticks * LOG_BYTES, "log byte")
    yield Line("polling the queue of flips", POLLS, "SQS FIFO request")
    yield Line(f"polling {stack.event_queues} queues of events", stack.event_queues * POLLS, "SQS request")
    yield Line("schedules", ticks, "scheduled invocation")


def bill_of(volumes: int, stack: Stack, metrics: int) -> list[tuple[str, float, float]]:
    """What it is for, in dollars at list price, and after what is free; the total last."""
    interval_s = sweep_interval_s(baseline_iops(SMALL_GIB), CadencePolicy())
    watching = volumes * usd_per_month(interval_s)
    rows = [(f"reading a metric of each every {interval_s // 60} min", watching, watching)]
    rows += [(line.what, line.usd, line.usd_after_free) for line in lines_of(volumes, stack, metrics)]
    return [*rows, ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))]


def table() -> str:
    """The bills side by side, as Markdown."""
    stack, metrics = read_stack(), len(metrics_of_a_quiet_tick())
    bills = [bill_of(volumes, stack, metrics) for volumes in FLEETS]
    heads = " | ".join(f"{volumes:,} volumes" for volumes in FLEETS)
    found = [f"| In a month of 30 days, $ | {heads} |", "| --- |" + " ---: |" * len(FLEETS)]
    for rows in zip(*bills, strict=True):
        cells = " | ".join(f"{row[1]:,.2f}" for row in rows)
        found.append(f"| {rows[0][0]} | {cells} |")
    cells = " | ".join(f"{bill[-1][2]:,.2f}" for bill in bills)
    return "\n".join([*found, f"| after what AWS gives every account for nothing | {cells} |"])


if __name__ == "__main__":
    print(table())
