"""A large organisation, on paper: functions, calls and dollars of it, and which quota binds first.

    .venv/bin/python lab/bench/cost/organisation_estimate.py

The same arithmetic as everywhere: look intervals by the cadence's rule, prices and the stack as in the bill,
what a volume takes as ``fleet.py`` measured it. The volumes of accounts are skewed: the n-th largest account
has ``n ** -skew`` times what the largest has, and each has most of them in one region.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

from stack_cost import quiet_tick_metrics, read_stack

from burstctl.init.monthly_cost import (
    FOCUS_TICKS,
    SWEEP_TICKS,
    USD_PER_UNIT,
    StackResources,
    list_cost_lines,
)
from burstwatch.adapters.aws.cloudwatch import BATCH_SIZE, CALLS_PER_S, DATAPOINTS_PER_S
from burstwatch.adapters.aws.ec2 import PAGE_SIZE
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import CadencePolicy, TelemetryPolicy
from burstwatch.core.watch.api_cost import MONTH_S, metric_usd_per_month
from burstwatch.core.watch.polling.cadence import sweep_interval_s

MIX_GIB: Final = (8, 30, 100, 334, 500, 900)
SWEEP_S: Final = 300
CALL_S: Final = 0.030
SLOW_PAGE_S: Final = 0.5
"""A page of EC2's in practice is between 0.3 and 1 s (estimated)."""

LIST_CPU_S: Final = 0.000_062
ASSESS_CPU_S: Final = 0.000_107
"""Processor seconds to list a volume and to look at one: the two sweeps over 100,000 by ``fleet.py``."""
BASE_MIB: Final = 66.0
VOLUME_MIB: Final = 0.0041
"""Memory of a first sweep of which one volume in twenty drains."""
ALERT_WRITES: Final = 30.0
"""Write units for a volume that is found draining, alerted about and delivered: ``fleet.py --draining``."""

FOCUS_METRICS: Final = 3
DRAINING_SHARE: Final = 0.05
"""The share of a fleet that drains at once."""
DESCRIBE_PER_S: Final = 20
TABLE_WRITES_PER_S: Final = 4_000
EBS_QUOTA_TIB: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Organisation:
    """Accounts and volumes; of each account's volumes so large a share is in its first region, its second, ….

    ``is_in_focus`` is the share of volumes that are looked at every five minutes because something goes on.
    """

    accounts: int = 1_000
    volumes: int = 10_000_000
    shares: Sequence[float] = (0.7, 0.2, 0.1)
    skew: float = 0.8
    sizes_gib: Sequence[int] = MIX_GIB
    in_focus: float = 0.005

    def fleets(self) -> list[float]:
        """The volumes of each account in each region, the largest first."""
        weights = [rank**-self.skew for rank in range(1, self.accounts + 1)]
        volumes_per_weight = self.volumes / sum(weights)
        return sorted(
            (volumes_per_weight * weight * share for weight in weights for share in self.shares), reverse=True
        )

    def intervals_s(self) -> list[int]:
        """The look interval of a calm volume of each size."""
        return [sweep_interval_s(gp2_bucket(baseline_iops(size)), CadencePolicy()) for size in self.sizes_gib]

    @property
    def due(self) -> float:
        """The share of the calm volumes that are due at a sweep."""
        return sum(SWEEP_S / interval_s for interval_s in self.intervals_s()) / len(self.sizes_gib)

    @property
    def usd_per_calm_volume(self) -> float:
        """What reading a calm volume costs in a month."""
        return sum(map(metric_usd_per_month, self.intervals_s())) / len(self.sizes_gib)


def count_batches(items: float, batch_size: int) -> float:
    """How many calls these take on average; less than one where there often is nothing to ask."""
    return max(min(items, 1.0), items / batch_size)


def estimate_calls(volumes: float, organisation: Organisation) -> dict[str, float]:
    """What one stack asks of EC2 and CloudWatch in a month."""
    due, focused = volumes * organisation.due, volumes * organisation.in_focus * 60 / SWEEP_S
    return {
        "DescribeVolumes": SWEEP_TICKS * count_batches(volumes, PAGE_SIZE)
        + FOCUS_TICKS * count_batches(focused, PAGE_SIZE),
        "DescribeVolumesModifications": SWEEP_TICKS + FOCUS_TICKS * min(focused, 1.0),
        "GetMetricData": SWEEP_TICKS * count_batches(due, BATCH_SIZE)
        + FOCUS_TICKS * (count_batches(focused, BATCH_SIZE) + count_batches(2 * focused, BATCH_SIZE)),
    }


def estimate_costs(organisation: Organisation, stack: StackResources, metrics: int) -> dict[str, float]:
    """Dollars of a month by line, the total last."""
    fleets = organisation.fleets()
    usd_by_line = {
        "reading calm volumes": organisation.volumes
        * (1 - organisation.in_focus)
        * organisation.usd_per_calm_volume
    }
    focused = organisation.volumes * organisation.in_focus
    usd_by_line["reading volumes in focus"] = focused * metric_usd_per_month(SWEEP_S, FOCUS_METRICS)
    usd_by_line["their states"] = focused * MONTH_S / SWEEP_S * USD_PER_UNIT["write unit"]
    usd_by_line["the roster, where volumes come and go"] = sum(
        SWEEP_TICKS * 2 * volumes / 128 * USD_PER_UNIT["write unit"] for volumes in fleets
    )
    for volumes in fleets:
        for line in list_cost_lines(volumes, stack, metrics):
            usd_by_line[line.description] = usd_by_line.get(line.description, 0.0) + line.usd
    return usd_by_line | {"total": sum(usd_by_line.values())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The number of volumes in one account and region at which this limit binds.

    ``is_configured`` if it is the policy's and not AWS's.
    """

    description: str
    volumes: float
    source: str
    is_configured: bool = False


def sweep_wall_s(volumes: float, due: float, *, slowdown: float = 1.0) -> float:
    """How long a sweep takes: page after page, then the metrics at the pace AWS allows."""
    points = (TelemetryPolicy().gap_after.total_seconds() + PERIOD_S) / PERIOD_S
    listing_s = volumes * (CALL_S / PAGE_SIZE + slowdown * LIST_CPU_S)
    paced_s = volumes * due * max(points / DATAPOINTS_PER_S, 1 / BATCH_SIZE / CALLS_PER_S)
    return listing_s + paced_s + slowdown * volumes * due * ASSESS_CPU_S


def list_limits(organisation: Organisation, stack: StackResources) -> list[Limit]:
    """What binds in one account and region, the first first."""
    due, timeout_s = organisation.due, stack.watch_timeout_s
    points = (TelemetryPolicy().gap_after.total_seconds() + PERIOD_S) / PERIOD_S
    mean_gib = sum(organisation.sizes_gib) / len(organisation.sizes_gib)
    memory_mib = stack.watch_gib * 1_024
    unsorted = [
        Limit(
            description=f"EBS: {EBS_QUOTA_TIB} TiB of gp2, until the account has it raised",
            volumes=EBS_QUOTA_TIB * 1_024 / mean_gib,
            source="AWS, ebs-resource-quotas",
        ),
        Limit(
            description=(
                f"volumes of any type, at {SLOW_PAGE_S:g} s a page within the function's {timeout_s} s"
            ),
            volumes=timeout_s / SLOW_PAGE_S * PAGE_SIZE,
            source="ours",
            is_configured=True,
        ),
        Limit(
            description=f"a first sweep within the function's {timeout_s} s",
            volumes=timeout_s / sweep_wall_s(1, 1.0),
            source="ours",
            is_configured=True,
        ),
        Limit(
            description=f"memory of a first sweep within {memory_mib:,.0f} MB",
            volumes=(memory_mib - BASE_MIB) / VOLUME_MIB,
            source="ours",
            is_configured=True,
        ),
        Limit(
            description=(
                f"DynamoDB: a new table's {TABLE_WRITES_PER_S:,} writes a second, {DRAINING_SHARE:.0%} drain"
                " at once"
            ),
            volumes=TABLE_WRITES_PER_S * timeout_s / ALERT_WRITES / DRAINING_SHARE,
            source="AWS, warm-throughput-scenarios",
        ),
        Limit(
            description=f"EC2: {DESCRIBE_PER_S} DescribeVolumes a second",
            volumes=DESCRIBE_PER_S * SWEEP_S * PAGE_SIZE,
            source="AWS, ec2-api-throttling",
        ),
        Limit(
            description="CloudWatch: 180,000 datapoints a second, of which we take 150,000",
            volumes=DATAPOINTS_PER_S * SWEEP_S / points / due,
            source="AWS, cloudwatch_limits",
        ),
        Limit(
            description=f"CloudWatch: {CALLS_PER_S} GetMetricData a second",
            volumes=CALLS_PER_S * SWEEP_S * BATCH_SIZE / due,
            source="AWS, cloudwatch_limits",
        ),
    ]
    return sorted(unsorted, key=lambda limit: limit.volumes)


SCENARIOS: Final = {
    "as said": Organisation(),
    "all up to 100 GiB": Organisation(sizes_gib=(8, 30, 100)),
    "5 % in focus": Organisation(in_focus=0.05),
    "every account alike": Organisation(skew=0.0),
    "steeper: skew 1.2": Organisation(skew=1.2),
    "one region each": Organisation(shares=(1.0,)),
    "ten regions each": Organisation(shares=(0.1,) * 10),
}


def scenario_rows(stack: StackResources, metrics: int) -> Iterator[str]:
    """A line for each scenario."""
    headings = (
        "",
        "stacks",
        "functions",
        "calls a second",
        "largest",
        "over the limit",
        "$ a month",
        "$ a volume",
    )
    yield "| " + " | ".join(headings) + " |"
    yield "| --- |" + " ---: |" * (len(headings) - 1)
    for name, organisation in SCENARIOS.items():
        fleets = organisation.fleets()
        calls = sum(sum(estimate_calls(volumes, organisation).values()) for volumes in fleets)
        own_limit = next(limit.volumes for limit in list_limits(organisation, stack) if limit.is_configured)
        usd = estimate_costs(organisation, stack, metrics)["total"]
        cells = (
            f"{len(fleets):,}",
            f"{len(fleets) * stack.functions:,}",
            f"{calls / MONTH_S:,.0f}",
            f"{max(fleets):,.0f}",
            f"{sum(volumes > own_limit for volumes in fleets):,}",
            f"{usd:,.0f}",
            f"{usd / organisation.volumes:.4f}",
        )
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the tables as Markdown."""
    stack, metrics = read_stack(), len(quiet_tick_metrics())
    organisation = Organisation()
    print("\n".join(scenario_rows(stack, metrics)))
    print("\n| Of the organisation as said, $ a month | |\n| --- | ---: |")
    for label, usd in estimate_costs(organisation, stack, metrics).items():
        print(f"| {label} | {usd:,.0f} |")
    totals: dict[str, float] = {}
    for volumes in organisation.fleets():
        for name, calls in estimate_calls(volumes, organisation).items():
            totals[name] = totals.get(name, 0.0) + calls
    print("\n| Calls | a month | a second |\n| --- | ---: | ---: |")
    for name, calls in totals.items():
        print(f"| {name} | {calls / 1e6:,.1f} M | {calls / MONTH_S:,.1f} |")
    print("\n| In one account and region | volumes | by |\n| --- | ---: | --- |")
    for limit in list_limits(organisation, stack):
        print(f"| {limit.description} | {limit.volumes:,.0f} | {limit.source} |")
    max_volumes = SWEEP_S / sweep_wall_s(1, 1.0, slowdown=2.0)
    print(f"\nOn a processor half as fast a first sweep of {max_volumes:,.0f} volumes takes {SWEEP_S:g} s.")


if __name__ == "__main__":
    main()
