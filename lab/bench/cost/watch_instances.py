"""What watching 1,000 volumes and 500 instances takes: calls, metrics and dollars of a 30-day month.

    .venv/bin/python lab/bench/cost/watch_instances.py [--hours 6] [--volumes 1000] [--instances 500]

The deployed function's ticks run for ``--hours`` of simulated time against the lab over HTTP. The calls of
the real AWS clients are counted, and the sum is scaled to a month. The first sweep reads everything, and is
not counted. The instances are of all types that have EBS credits, evenly by name. The gp2 volumes are
spread over them: an even mix of sizes. With ``one in twenty``, the volumes of one instance in twenty are
overloaded all the time, so they drain, and are empty then. That is the most expensive state: it is read
as often as its datapoints come.

A second table has the share of types whose buckets are proved unable to drain, by size and volumes. These
buckets are not read. Dollars are CloudWatch's for the metrics requested; describing is free.
"""

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.ec2 import parse_ebs_limits
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import ceiling_of
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT, drain_proof
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.api_cost import MONTH_S, USD_PER_METRIC
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_services, open_session

START: Final = datetime(2026, 11, 20, tzinfo=UTC)
PAST: Final = timedelta(hours=2)
TICK_S: Final = 60
PASS_DELAY_S: Final = 2
MIX_GIB: Final = (8, 30, 100, 334, 500, 900)
CALM, OVERLOADED = "steady:20", "steady:3000"
DRAINING_INTERVAL: Final = 20
SIZES: Final = ("nano", "micro", "small", "medium", "large", "xlarge", "2xlarge", "4xlarge")


@dataclass(slots=True)
class Tally:
    """What the ticks of a run took."""

    calls: Counter[str] = field(default_factory=Counter)
    metrics: int = 0


def bursting_types() -> dict[str, InstanceLimits]:
    """The limits of the types that have at least one bucket, by name."""
    limits = {name: parse_ebs_limits(entry) for name, entry in instance_types().items()}
    return {name: known for name, known in limits.items() if known and has_credits(known)}


def has_credits(limits: InstanceLimits) -> bool:
    """Whether the maximum of the type is above what it sustains."""
    return (
        limits.max_iops > limits.baseline_iops
        or limits.max_throughput_mib_s > limits.baseline_throughput_mib_s
    )


def build_fleet(volumes: int, instances: int, *, some_drain: bool) -> LabFleet:
    """Instances of all types in turn, with the volumes spread over them."""
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60, lag_most_s=180))
    limits = bursting_types()
    names = list(limits)
    chosen = [names[number * len(names) // instances % len(names)] for number in range(instances)]
    ids = [f"i-{number:017x}" for number in range(instances)]
    for instance_id, name in zip(ids, chosen, strict=True):
        fleet.add_instance(
            LabInstance(instance_id=instance_id, launched_at=START - PAST, instance_type=name, tags={})
        )
    overloaded = choose_overloaded([limits[name] for name in chosen]) if some_drain else set()
    for number in range(volumes):
        host = number % instances
        fleet.add(
            LabVolume(
                size_gib=MIX_GIB[(number // instances + host) % len(MIX_GIB)],
                load=OVERLOADED if host in overloaded else CALM,
                instance_id=ids[host],
                starts_at=START - PAST,
            )
        )
    return fleet


def choose_overloaded(limits: Sequence[InstanceLimits]) -> set[int]:
    """One instance in twenty, of those that two bursting gp2 volumes can drain, evenly."""
    drainable = [number for number, known in enumerate(limits) if known.baseline_iops < 2 * 3_000]
    count = len(limits) // DRAINING_INTERVAL
    return {drainable[number * len(drainable) // count] for number in range(count)}


def count_ticks(fleet: LabFleet, policy: Policy, hours: float) -> Tally:
    """Run the ticks of this time after a first sweep, and count."""
    tally = Tally()
    with Endpoint(fleet) as aws, SqliteLedger.in_memory() as ledger:
        os.environ.update(aws.environment)
        services = build_services(open_session(None, None), policy=policy, ledger=ledger)
        for number in range(int(hours * 3_600) // TICK_S + 1):
            tick_at_s = int(START.timestamp()) + number * TICK_S
            fleet.clock.advance(tick_at_s + PASS_DELAY_S - fleet.now_s())
            report = run_tick(services, tick_at_s=tick_at_s, now_s=float(fleet.now_s()))
            if report is None or report.failures or report.internal_errors:
                raise SystemExit(f"tick {number} failed: {report and report.failures[:3]}")
            if number:
                tally.calls.update(report.api_calls)
                tally.metrics += report.metrics_requested
    return tally


def print_runs(options: argparse.Namespace) -> None:
    """A row for each state of the fleet, and what is watched of it."""
    scale = MONTH_S / (options.hours * 3_600)
    titles = ("fleet", "watched", "describe calls", "GetMetricData", "metrics", "$")
    print(f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}", flush=True)
    for some_drain in (False, True):
        for watched in ("volumes", "volumes and instances"):
            section = {"instance": {"watch": "true"}} if "instances" in watched else {}
            policy = Policy.from_mapping({"version": "1", "resources": section})
            fleet = build_fleet(options.volumes, options.instances, some_drain=some_drain)
            tally = count_ticks(fleet, policy, options.hours)
            reads = tally.calls.pop("cloudwatch:GetMetricData", 0)
            cells = [sum(tally.calls.values()), reads, tally.metrics]
            figures = " | ".join(f"{round(count * scale):,}" for count in cells)
            state = "one in twenty overloaded" if some_drain else "calm"
            usd = tally.metrics * scale * USD_PER_METRIC
            print(f"| {state} | {watched} | {figures} | {usd:,.2f} |", flush=True)


def make_volume(volume_type: str, size_gib: int, iops: int | None, mib_s: int | None) -> Volume:
    """A volume of which only the configuration matters."""
    return Volume(
        volume_id="vol-00000000000000001",
        volume_type=volume_type,
        size_gib=size_gib,
        created_at=START,
        provisioned_iops=iops,
        throughput_mib_s=mib_s,
    )


DEFAULT_GP3: Final = make_volume("gp3", 100, 3_000, 125)
VOLUMES: Final = {
    "one default gp3": [DEFAULT_GP3],
    "two default gp3": [DEFAULT_GP3] * 2,
    "three default gp3": [DEFAULT_GP3] * 3,
    "one gp2 of 500 GiB": [make_volume("gp2", 500, None, None)],
}


def share_proved(limits_by_type: Iterable[tuple[str, InstanceLimits]], volumes: Sequence[Volume]) -> str:
    """The share of types with these volumes whose I/O bucket, throughput bucket, and both cannot drain."""
    proved = Counter[str]()
    types = list(limits_by_type)
    ceilings = tuple(ceiling for volume in volumes if (ceiling := ceiling_of(volume)))
    for name, limits in types:
        instance = Instance(
            instance_id="i-00000000000000001",
            instance_type=name,
            state="running",
            launched_at=START,
            limits=limits,
            ceilings=ceilings,
        )
        proofs = [drain_proof(instance, kind) for kind in (INSTANCE_IO, INSTANCE_THROUGHPUT)]
        io, throughput = (proof is not None and proof.cannot_drain for proof in proofs)
        proved.update({"io": io, "throughput": throughput, "both": io and throughput})
    return " / ".join(f"{proved[part] / len(types):.0%}" for part in ("io", "throughput", "both"))


def print_shares() -> None:
    """A row for each size of instances, a column for each set of volumes."""
    limits = bursting_types()
    print(f"| I/O / throughput / both cannot drain | types | {' | '.join(VOLUMES)} |")
    print(f"| --- |{' ---: |' * (len(VOLUMES) + 1)}")
    rows = {size: [name for name in limits if name.partition(".")[2] == size] for size in SIZES}
    for label, names in {**rows, "all with credits": list(limits)}.items():
        cells = (
            share_proved(((name, limits[name]) for name in names), volumes) for volumes in VOLUMES.values()
        )
        print(f"| {label} | {len(names)} | {' | '.join(cells)} |")


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--volumes", type=int, default=1_000)
    parser.add_argument("--instances", type=int, default=500)
    options = parser.parse_args()
    print_shares()
    print()
    print_runs(options)


if __name__ == "__main__":
    main()
