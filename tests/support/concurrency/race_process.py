"""One watchdog of several, in a process of its own: it looks at everything on command."""

import sys
from pathlib import Path

from burstctl.context.on_demand_pass import evaluate_fleet
from burstlab.harness.effects import CrashPoint
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from support.concurrency.crash_harness import LabClients, a_policy


def main(url: str, ledger_path: str, now_s: str) -> None:
    policy = a_policy(flip={"fleet_cap": "3"})
    with SqliteLedger.open(Path(ledger_path), lock_timeout_s=30) as ledger:
        shell = LabClients.connect(url).build_services(ledger, policy, CrashPoint(), [])
        print("ready", flush=True)  # noqa: T201 - told to who started it
        sys.stdin.readline()
        assert not evaluate_fleet(shell, now_s=int(now_s)).failures


main(*sys.argv[1:])
