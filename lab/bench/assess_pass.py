"""What one look at a fleet costs: calls, wall time, processor time, memory, dollars.

    .venv/bin/python lab/bench/assess_pass.py 100 1000 10000

A fake AWS runs in a process of its own and answers each call after 30 ms; the pass runs in another, so
that only the watchdog is measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from math import ceil

from server_process import lab_command, start_server

LATENCY_MS = 30


def serve_idle_fleet(volumes: int, past_hours: int = 2):
    """A lab with this many volumes, and a past of this length."""
    return start_server(
        lab_command(f"--volumes={volumes}", f"--past-hours={past_hours}", latency_ms=LATENCY_MS)
    )


def measure_assess_pass() -> None:
    """One look at everything, twice: the first makes the lab simulate its past, the second is measured."""
    from burstctl.context.on_demand_pass import assess_volumes
    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.core.policy.policy import Policy
    from burstwatch.wiring.bootstrap import build_services, open_session
    from burstwatch.wiring.settings import Clock

    with SqliteLedger.in_memory() as ledger:
        services = build_services(
            open_session(None, None), policy=Policy(), ledger=ledger, clock=Clock.ENDPOINT
        )
        assess_volumes(services, now_s=services.clock())
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        report = assess_volumes(services, now_s=services.clock())
        result = {
            "wall_s": time.perf_counter() - started_s,
            "cpu_s": time.process_time() - started_cpu_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "volumes": len(report.decisions),
            "polled": sum(decision.poll_interval_s is not None for decision in report.decisions),
            "unread": len(report.unread),
            "metrics": report.metrics_requested,
            "calls": report.api_calls,
            "idle": report.usd_per_month_idle,
        }
    print(json.dumps(result))


def main() -> None:
    """Print a line per fleet size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look:
        measure_assess_pass()
        return
    print(f"{'volumes':>8} {'calls':>6} {'floor':>6} {'wall':>8} {'cpu':>8} {'peak':>9} {'idle $/month':>13}")
    for size in options.sizes:
        with serve_idle_fleet(size) as environment:
            command = [sys.executable, __file__, "--look"]
            result = json.loads(
                subprocess.run(command, env=environment, check=True, capture_output=True).stdout
            )
        floor = ceil(size / 500) + ceil(result["metrics"] / 500)
        calls = sum(result["calls"].values())
        print(
            f"{result['volumes']:>8,} {calls:>6} {floor:>6} {result['wall_s']:>6.2f} s"
            f" {result['cpu_s']:>6.2f} s {result['peak_mib']:>5.0f} MiB {result['idle']:>13.2f}  "
            f" {result['calls']}"
        )


if __name__ == "__main__":
    main()
