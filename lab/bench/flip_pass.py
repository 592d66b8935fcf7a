"""What one acting pass costs: calls, wall time, processor time, memory.

    .venv/bin/python lab/bench/flip_pass.py 1000:50 10000:500

Of N volumes, M drain in mode auto: one pass evaluates all and flips these. A fake AWS runs in a process of
its own and answers each call after 30 ms. The pass runs in another, with its ledger in a file, so that only
the watchdog is measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from math import ceil
from pathlib import Path

from server_process import lab_command, start_server

LATENCY_MS = 30

FLEET = """
volumes:
  - {{count: {calm}, size_gib: 100, load: "steady:20"}}
  - count: {draining}
    size_gib: 100
    load: steady:600
    balance_pct: 43
    tags: {{"burstwatch:mode": auto}}
"""
"""After two hours the draining ones are at 3 %, and empty in 9 minutes: critical in the first pass."""


@contextmanager
def serve_draining_fleet(volumes: int, draining: int):
    """A lab with this many volumes, and the environment that makes AWS clients talk to it."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as fleet:
        fleet.write(FLEET.format(draining=draining, calm=volumes - draining))
        fleet.flush()
        with start_server(
            lab_command(f"--fleet={fleet.name}", "--past-hours=2", latency_ms=LATENCY_MS)
        ) as environment:
            yield environment


def measure_acting_pass() -> None:
    """One look that changes nothing, which makes the lab simulate its past; then one pass that acts."""
    from dataclasses import replace

    from burstctl.context.on_demand_pass import assess_volumes, evaluate_fleet
    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.core.flips.outcome import OutcomeStatus
    from burstwatch.core.policy.policy import Policy
    from burstwatch.wiring.bootstrap import build_modifier, build_services, open_session
    from burstwatch.wiring.settings import Clock

    policy = Policy.from_mapping({"version": "1", "flip": {"fleet_cap": "1000"}})
    session = open_session(None, None)
    with (
        tempfile.TemporaryDirectory() as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        services = build_services(session, policy=policy, ledger=ledger, clock=Clock.ENDPOINT)
        services = replace(services, modifier=build_modifier(session, services.calls))
        assess_volumes(services, now_s=services.clock())
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        report = evaluate_fleet(services, now_s=services.clock())
        result = {
            "wall_s": time.perf_counter() - started_s,
            "cpu_s": time.process_time() - started_cpu_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "volumes": len(report.decisions),
            "flipped": report.count(OutcomeStatus.FLIPPED),
            "metrics": report.metrics_requested,
            "calls": dict(report.api_calls),
            "failures": list(report.failures),
        }
    print(json.dumps(result))


def main() -> None:
    """Print a line per fleet, and its calls by name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cases", metavar="VOLUMES:DRAINING", type=parse_case, nargs="*", default=[(1_000, 50), (10_000, 500)]
    )
    parser.add_argument("--act", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.act:
        measure_acting_pass()
        return
    print(f"{'volumes':>8} {'flipped':>8} {'calls':>6} {'floor':>6} {'wall':>8} {'cpu':>8} {'peak':>9}")
    for volumes, draining in options.cases:
        with serve_draining_fleet(volumes, draining) as environment:
            command = [sys.executable, __file__, "--act"]
            result = json.loads(
                subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
            )
        floor = draining + ceil(volumes / 500) + ceil(result["metrics"] / 500)
        calls = sum(result["calls"].values())
        print(
            f"{result['volumes']:>8,} {result['flipped']:>8} {calls:>6} {floor:>6} {result['wall_s']:>6.2f} s"
            f" {result['cpu_s']:>6.2f} s {result['peak_mib']:>5.0f} MiB"
        )
        print("".join(f"{count:>17} {action}\n" for action, count in sorted(result["calls"].items())), end="")
        if result["flipped"] != draining or result["failures"]:
            raise SystemExit(f"{result['flipped']} of {draining} were flipped: {result['failures']}")


def parse_case(text: str) -> tuple[int, int]:
    """``1000:50``: the volumes of a fleet, and how many of them drain."""
    volumes, draining = text.split(":")
    return int(volumes), int(draining)


if __name__ == "__main__":
    main()
