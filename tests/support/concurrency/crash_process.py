"""One pass of a watchdog in a process of its own, which kills itself right before an effect."""

import os
import signal
import sys
from pathlib import Path

from burstlab.harness.effects import CrashPoint
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.engine.tick_pass import run_tick
from support.concurrency.crash_harness import LabClients, a_policy


class DeliveredAlerts:
    """What people have got, where it outlives the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def append(self, alert_id: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{alert_id}\n")


def main(url: str, ledger_path: str, outbox_path: str, tick_s: str, point: str) -> None:
    fuse = CrashPoint(at_effect=int(point), kill=lambda: os.kill(os.getpid(), signal.SIGKILL))
    with SqliteLedger.open(Path(ledger_path)) as ledger:
        shell = LabClients.connect(url).build_services(
            ledger, a_policy(), fuse, DeliveredAlerts(Path(outbox_path))
        )
        run_tick(shell, tick_at_s=int(tick_s), now_s=int(tick_s))


main(*sys.argv[1:])
