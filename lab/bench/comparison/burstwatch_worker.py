"""Runs the ticks of ``burstctl watch --act``; ``compare.py`` starts it.

    PYTHON burstwatch_worker.py POLICY_FILE OUTPUT_FOLDER

The same lines in and out as those of ``custodian_worker.py``.
"""

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_modifier, build_services, open_session
from burstwatch.wiring.settings import Clock

TICK_S = 60


class Inbox:
    """A channel that keeps the titles of alerts."""

    name = "bench"

    def __init__(self) -> None:
        self.titles: list[str] = []

    def send(self, alert) -> None:
        self.titles.append(f"{alert.kind.value} {alert.volume_id}")


def main(policy_file: str, output_folder: str) -> None:
    """Run a tick for each line."""
    inbox, session = Inbox(), open_session(None, None)
    with SqliteLedger.open(Path(output_folder) / "ledger.sqlite") as ledger:
        services = build_services(
            session,
            policy=read_policy(Path(policy_file)),
            ledger=ledger,
            channels=[inbox],
            clock=Clock.ENDPOINT,
        )
        services = replace(services, modifier=build_modifier(session, services.calls))
        for line in sys.stdin:
            now_s = float(line)
            inbox.titles.clear()
            started_s, started_cpu_s = time.perf_counter(), time.process_time()
            report = run_tick(services, tick_at_s=int(now_s // TICK_S) * TICK_S, now_s=now_s)
            result = {
                "wall_s": time.perf_counter() - started_s,
                "cpu_s": time.process_time() - started_cpu_s,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "has_failed": report is None or report.has_failed,
                "messages": [*inbox.titles, *(report.failures if report else ())],
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
