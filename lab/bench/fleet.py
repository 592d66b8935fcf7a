"""What a tick over a large fleet takes: calls, wall and processor time, memory, dollars, and how each grows.

    .venv/bin/python lab/bench/fleet.py 1000 10000 100000
    .venv/bin/python lab/bench/fleet.py --draining --ledger dynamodb 1000 10000 100000
    .venv/bin/python lab/bench/fleet.py --profile FILE --runs 1 100000

Three ticks of the deployed function run one after the other in a process of its own. The first is a sweep
of everything; five minutes later come the focus tick, and the sweep of what is due then. With ``--draining``
one volume in twenty has drained for ten minutes, so the first sweep finds them all at once. A fake AWS in
another process (``canned_aws.py``) answers each call after 30 ms, its DynamoDB after 5 ms.

A machine with other work to do is slower: each size is run ``--runs`` times and the best is shown. A profile
is of the first sweep's main thread: what reads CloudWatch is in others.
"""

import argparse
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from canned_aws import FIRST_TICK_S, UNITS_PATH, serve_canned_aws

BUDGET: Final = {"wall_s": 60.0, "cpu_s": 40.0, "peak_mib": 512.0}
"""For one pass over this many volumes, from the design."""
BUDGET_FOR: Final = 100_000
TICKS: Final = (("first sweep", 0, "sweep"), ("focus", 300, "focus"), ("next sweep", 300, "sweep"))
USD_PER_READ, USD_PER_WRITE = 0.125e-6, 0.625e-6
_GROWTH_FIELDS: Final = ("calls", "wall_s", "cpu_s", "peak_mib", "usd")


class CountingChannel:
    """A channel that takes everything at once."""

    name = "bench"

    def __init__(self) -> None:
        self.sent = 0

    def send(self, _alert: object) -> None:
        self.sent += 1


@contextmanager
def open_empty_ledger(kind: str, session: Any):
    """An empty ledger of this kind; the table is the one that AWS plays."""
    from burstwatch.adapters.aws.call_counter import CallCounter
    from burstwatch.adapters.ledger.dynamodb import DynamoLedger
    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.wiring.bootstrap import WORKERS, build_client

    if kind == "dynamodb":
        yield DynamoLedger(
            build_client(session, "dynamodb", CallCounter()), "burstwatch-ledger", workers=WORKERS
        )
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        yield ledger


def read_used_units() -> dict[str, float]:
    """The requests that the table has received."""
    from urllib.request import urlopen

    with urlopen(os.environ["AWS_ENDPOINT_URL"] + UNITS_PATH) as response:  # noqa: S310 - on loopback
        return json.loads(response.read())


def run_ticks(ledger_kind: str, profile_path: str | None) -> list[dict[str, Any]]:
    """The three ticks, measured; the first of them in ``cProfile`` where a file for it is named."""
    from burstwatch.core.policy.policy import Policy
    from burstwatch.wiring.bootstrap import build_services, open_session

    session, channel = open_session(None, None), CountingChannel()
    with open_empty_ledger(ledger_kind, session) as ledger:
        services = build_services(session, policy=Policy(), ledger=ledger, channels=[channel])
        measurements = []
        for name, after_s, kind in TICKS:
            measurements.append(
                {"tick": name} | measure_tick(services, FIRST_TICK_S + after_s, kind, channel, profile_path)
            )
            profile_path = None
        return measurements


def measure_tick(
    services: Any, tick_s: int, kind: str, channel: CountingChannel, profile_path: str | None
) -> dict[str, Any]:
    """One tick, two seconds late as ticks are, and what it took."""
    import cProfile

    from burstwatch.core.ledger.ledger import TickKind
    from burstwatch.core.watch.api_cost import USD_PER_METRIC
    from burstwatch.engine.tick_pass import run_tick

    profile = cProfile.Profile() if profile_path else None
    before, sent = read_used_units(), channel.sent
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    if profile:
        profile.enable()
    report = run_tick(services, tick_at_s=tick_s, now_s=tick_s + 2, kind=TickKind(kind))
    if profile:
        profile.disable()
        profile.dump_stats(profile_path)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    if report is None or report.failures or report.unread:
        raise SystemExit(f"the {kind} failed: {report and report.failures[:3]}")
    used = {name: value - before[name] for name, value in read_used_units().items()}
    ledger_usd = used["read"] * USD_PER_READ + used["write"] * USD_PER_WRITE
    return {
        "looked_at": len(report.decisions),
        "alerts": sum(len(decision.alerts) for decision in report.decisions),
        "messages": channel.sent - sent,
        "calls": sum(report.api_calls.values()),
        "by_name": dict(report.api_calls),
        "ledger_calls": used["calls"],
        "ledger_reads": used["read"],
        "ledger_writes": used["write"],
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "usd": report.metrics_requested * USD_PER_METRIC + ledger_usd,
    }


def best_of(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Of each tick the least wall and processor time, and the most memory."""
    ticks = []
    for measurements in zip(*runs, strict=True):
        minimums = {
            name: min(measurement[name] for measurement in measurements) for name in ("wall_s", "cpu_s")
        }
        ticks.append(
            {
                **measurements[0],
                **minimums,
                "peak_mib": max(measurement["peak_mib"] for measurement in measurements),
            }
        )
    return ticks


def measure_fleet(volumes: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the ticks over this many volumes ``--runs`` times, each time with an empty ledger."""
    command = [sys.executable, __file__, "--child", "--ledger", options.ledger]
    if options.profile:
        command += ["--profile", options.profile]
    runs = []
    for _ in range(options.runs):
        with serve_canned_aws(volumes, some_drain=options.draining) as environment:
            completed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        runs.append(json.loads(completed.stdout))
    return best_of(runs)


def format_row(volumes: int, tick: Mapping[str, Any]) -> str:
    """A line of the table."""
    return (
        f"{volumes:>8,} {tick['tick']:<12}{tick['looked_at']:>8,}{tick['alerts']:>7,}{tick['calls']:>6,}"
        f"{tick['ledger_calls']:>7,}{tick['wall_s']:>7.2f} s{tick['cpu_s']:>7.2f} s"
        f"{tick['peak_mib']:>5.0f} MiB{tick['usd']:>9.4f}"
    )


def format_growth(smaller: Mapping[str, Any], larger: Mapping[str, Any]) -> str:
    """The growth of each figure from a smaller fleet to a larger one, as factors."""
    ratios = (
        f"{name.removesuffix('_s').removesuffix('_mib')} {larger[name] / smaller[name]:.1f}"
        for name in _GROWTH_FIELDS
    )
    return ", ".join(ratios)


def print_report(ticks_by_size: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    """The table, the growth of the first sweep, and whether it is within the budget."""
    print(
        f"{'volumes':>8} {'tick':<12}{'looked':>8}{'alerts':>7}{'calls':>6}{'ledger':>7}{'wall':>9}{'cpu':>9}"
        f"{'peak':>9}{'$':>9}"
    )
    for volumes, ticks in ticks_by_size.items():
        for tick in ticks:
            print(format_row(volumes, tick))
    for smaller, larger in pairwise(sorted(ticks_by_size)):
        growth_text = format_growth(ticks_by_size[smaller][0], ticks_by_size[larger][0])
        print(f"{larger / smaller:g} times the volumes, first sweep: {growth_text}")
    for name, limit in BUDGET.items() if BUDGET_FOR in ticks_by_size else ():
        value = ticks_by_size[BUDGET_FOR][0][name]
        verdict = "" if value <= limit else ": BROKEN"
        print(f"budget of {BUDGET_FOR:,}: {name} {value:.1f} of {limit:g}{verdict}")


def main() -> None:
    """Measure each size and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--draining", action="store_true", help="one volume in twenty drains")
    parser.add_argument("--ledger", choices=("sqlite", "dynamodb"), default="sqlite")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one object, by size, instead of the table")
    parser.add_argument(
        "--profile", metavar="FILE", help="what cProfile saw of the first sweep, and print the most"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_ticks(options.ledger, options.profile)))
        return
    ticks_by_size = {volumes: measure_fleet(volumes, options) for volumes in options.sizes}
    if options.json:
        print(json.dumps(ticks_by_size))
        return
    print_report(ticks_by_size)
    if options.profile:
        pstats.Stats(options.profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
