"""What one acting pass costs: calls, wall time, processor time, memory.

    .venv/bin/python lab/bench/act.py 1000:50 10000:500

So many volumes, so many of them draining and in mode auto: one pass looks at all and flips these. The lab
plays AWS in a process of its own and answers each call after 30 ms; the pass runs in another, with its ledger
in a file, so that only the watchdog is measured.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from math import ceil
from pathlib import Path

from serving import a_lab, serving

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
"""After two hours the draining ones are at 3 %, and dry in 9 minutes: critical at the first look."""


@contextmanager
def serving_draining(volumes: int, draining: int):
    """A lab with so many volumes, and the environment that makes AWS clients talk to it."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as fleet:
        fleet.write(FLEET.format(draining=draining, calm=volumes - draining))
        fleet.flush()
        with serving(a_lab(f"--fleet={fleet.name}", "--past-hours=2", latency_ms=LATENCY_MS)) as environment:
            yield environment


def act() -> None:
    """One look that changes nothing, which makes the lab simulate its past; then one pass that acts."""
    from dataclasses import replace

    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.core.flips.outcome import Done
    from burstwatch.core.policy.policy import Policy
    from burstwatch.engine.watch_pass import assess_volumes, look_at_everything
    from burstwatch.wiring.bootstrap import build_modifier, build_shell, open_session
    from burstwatch.wiring.settings import Clock

    policy = Policy.from_mapping({"version": "1", "flip": {"fleet_cap": "1000"}})
    session = open_session(None, None)
    with (
        tempfile.TemporaryDirectory() as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        shell = build_shell(session, policy=policy, ledger=ledger, clock=Clock.ENDPOINT)
        shell = replace(shell, modifier=build_modifier(session, shell.calls))
        assess_volumes(shell, now_s=shell.clock())
        began, spent = time.perf_counter(), time.process_time()
        report = look_at_everything(shell, now_s=shell.clock())
        found = {
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - spent,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "volumes": len(report.decisions),
            "flipped": report.count(Done.FLIPPED),
            "metrics": report.metrics_requested,
            "calls": dict(report.api_calls),
            "failures": list(report.failures),
        }
    print(json.dumps(found))


def main(cases: list[str]) -> None:
    """Print a line per fleet, and its calls by name."""
    print(f"{'volumes':>8} {'flipped':>8} {'calls':>6} {'floor':>6} {'wall':>8} {'cpu':>8} {'peak':>9}")
    for case in cases:
        volumes, draining = map(int, case.split(":"))
        with serving_draining(volumes, draining) as environment:
            command = [sys.executable, __file__, "--act"]
            found = json.loads(
                subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
            )
        floor = draining + ceil(volumes / 500) + ceil(found["metrics"] / 500)
        calls = sum(found["calls"].values())
        print(
            f"{found['volumes']:>8,} {found['flipped']:>8} {calls:>6} {floor:>6} {found['wall_s']:>6.2f} s"
            f" {found['cpu_s']:>6.2f} s {found['peak_mib']:>5.0f} MiB"
        )
        print("".join(f"{count:>17} {action}\n" for action, count in sorted(found["calls"].items())), end="")
        if found["flipped"] != draining or found["failures"]:
            raise SystemExit(f"{found['flipped']} of {draining} were flipped: {found['failures']}")


if __name__ == "__main__":
    act() if sys.argv[1:] == ["--act"] else main(sys.argv[1:] or ["1000:50", "10000:500"])
