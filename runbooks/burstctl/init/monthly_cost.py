"""What a deployed stack costs in a 30-day month, line by line, for calm volumes of up to 100 GiB.

What a tick reads and writes is the ledger's own account of it. Prices: us-east-1, November 2026.
``lab/bench/cost/stack_cost.py`` counts the resources in the synthesized stack and prints the bill.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.watch.api_cost import MONTH_S, metric_usd_per_month
from burstwatch.core.watch.polling.cadence import sweep_interval_s

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResources:
    """The resources of a stack that its bill depends on."""

    alarms: int
    dashboards: int
    keys: int
    functions: int
    watch_gib: float
    watch_timeout_s: int
    event_queues: int
    flip_queues: int


_BUCKETS: Final = {ResourceType.INSTANCE: 2, ResourceType.EFS: 1, ResourceType.RDS: 3}
"""The buckets that a resource of each kind has at most."""


def max_usd_per_resource(kinds: Iterable[ResourceType]) -> dict[ResourceType, float]:
    """Dollars a month for reading the buckets of one calm resource: at most one metric each, at each sweep.

    Example: an instance has two buckets, which are read every five minutes at most: $0.17.
    """
    at_each_sweep = metric_usd_per_month(int(CadencePolicy().sweep_tick.total_seconds()))
    return {kind: _BUCKETS[kind] * at_each_sweep for kind in kinds if kind in _BUCKETS}


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
    if stack.flip_queues:
        yield CostLine("polling the queue of flips", stack.flip_queues * POLLS_PER_QUEUE, "SQS FIFO request")
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
