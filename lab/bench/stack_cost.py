"""What the default stack costs in a 30-day month, line by line, for calm volumes of up to 100 GiB.

.venv/bin/python lab/bench/stack_cost.py            for 100, 1,000 and 10,000 volumes

Resources are counted in the synthesized stack, and its metrics are those that the handlers report. The
arithmetic and the prices are in ``burstctl.init.monthly_cost``.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from burstctl.init.monthly_cost import StackResources, list_monthly_costs  # noqa: E402
from burstwatch.core.policy.policy import CadencePolicy  # noqa: E402 - infra is found below the repository's root

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


if __name__ == "__main__":
    print(build_table())
