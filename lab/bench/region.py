"""A sweep of a region whose listing is slow: pages follow all volumes, and each takes its time.

    .venv/bin/python lab/bench/region.py --volumes 50000 --gp2 2000 --page-s 0.5

The lab plays AWS in a process of its own and applies filters after a page is cut. The schedules are those of
the stack, in real time: a sweep and a focus tick at once, then a focus tick every minute until the sweep is
done, each in a thread with its own clients, all with one ledger file. The row has how many sweeps ran, how
many of them at the same time, the memory of the process that runs them all, and how long the first took.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any

_MINUTE_S, _MOST_MINUTES = 60, 12


def serve(volumes: int, gp2: int, page_s: float) -> None:
    """Play AWS until stdin ends: every so manieth volume is gp2."""
    from burstlab.fake_aws.server import Endpoint
    from burstlab.model.clock import LabClock
    from burstlab.model.fleet import LabFleet, LabSettings
    from burstlab.model.volume import LabVolume

    fleet = LabFleet(LabClock(), LabSettings(filter_after_page=True, page_latency_s=page_s))
    every = volumes // gp2
    for number in range(volumes):
        fleet.add(LabVolume(size_gib=100, volume_type="gp3" if number % every else "gp2"))
    with Endpoint(fleet) as endpoint:
        print(endpoint.url, flush=True)
        sys.stdin.read()


class Sweeps:
    """How many listings of the fleet are under way, counted where they are made."""

    def __init__(self) -> None:
        self.begun = self.running = self.most = 0
        self._lock = Lock()

    def count(self, volumes: Any) -> Any:
        """The same listing, counted."""

        def counted(*given: Any, **named: Any) -> Any:
            with self._lock:
                self.begun, self.running = self.begun + 1, self.running + 1
                self.most = max(self.most, self.running)
            try:
                yield from volumes(*given, **named)
            finally:
                with self._lock:
                    self.running -= 1

        return counted


def watch(page_s: float, volumes: int) -> None:
    """The ticks, until the first sweep is done and one more minute has passed."""
    from burstwatch.adapters.aws.ec2 import Ec2Reader
    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.core.ledger.ledger import TickKind
    from burstwatch.core.policy.policy import Policy
    from burstwatch.engine.watch_pass import run_tick
    from burstwatch.wiring.bootstrap import build_shell, open_session

    sweeps = Sweeps()
    Ec2Reader.volumes = sweeps.count(Ec2Reader.volumes)  # type: ignore[method-assign]
    took: list[str] = []
    first_s = int(time.time()) // 300 * 300

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"

        def tick(kind: TickKind, minute: int) -> None:
            with SqliteLedger.open(path) as ledger:
                session = open_session(None, None)
                shell = build_shell(session, policy=Policy(), ledger=ledger, account="123456789012")
                began = time.monotonic()
                tick_s = first_s + minute * _MINUTE_S
                report = run_tick(shell, tick_s=tick_s, now_s=tick_s + 2, kind=kind)
                seconds = time.monotonic() - began
                if (
                    report is not None
                    and report.fleet is not None
                    and "ec2:DescribeVolumes" in report.api_calls
                ):
                    took.append(
                        f"{kind} of minute {minute}: {seconds:.0f} s, {len(report.decisions)} looked at"
                    )

        threads: list[Thread] = []
        began, minute = time.monotonic(), 0
        while minute < 2 or (not took and minute < _MOST_MINUTES):
            kinds = [TickKind.SWEEP, TickKind.FOCUS] if minute % 5 == 0 else [TickKind.FOCUS]
            for kind in kinds:
                threads.append(Thread(target=tick, args=(kind, minute)))
                threads[-1].start()
            minute += 1
            time.sleep(max(0.0, began + minute * _MINUTE_S - time.monotonic()))
        for thread in threads:
            thread.join()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers = f"{volumes:>9,}{page_s:>8.1f} s{sweeps.begun:>8}{sweeps.most:>12}{peak_mib:>9.0f} MiB"
    print(f"{numbers}   {'; '.join(took)}")


def main() -> None:
    """Serve, watch, print one row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--volumes", type=int, default=50_000)
    parser.add_argument("--gp2", type=int, default=2_000)
    parser.add_argument("--page-s", type=float, default=0.5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.volumes, asked.gp2, asked.page_s)
        return
    numbers = [f"--volumes={asked.volumes}", f"--gp2={asked.gp2}", f"--page-s={asked.page_s}"]
    command = [sys.executable, __file__, "--serve", *numbers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout
        assert lab.stdin
        os.environ["AWS_ENDPOINT_URL"] = lab.stdout.readline().strip()
        os.environ |= {"AWS_ACCESS_KEY_ID": "burstlab", "AWS_SECRET_ACCESS_KEY": "burstlab"}
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
        print(f"{'volumes':>9}{'a page':>10}{'sweeps':>8}{'at a time':>12}{'peak':>13}   took")
        watch(asked.page_s, asked.volumes)
        lab.stdin.close()


if __name__ == "__main__":
    main()
