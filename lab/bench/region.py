"""A sweep of a region whose listing is slow: pages follow all volumes, and each takes its time.

    .venv/bin/python lab/bench/region.py --volumes 50000 --gp2 2000 --page-s 0.5

A fake AWS runs in a process of its own and applies filters after a page is cut. The schedules are those of
the stack, in real time: a sweep and a focus tick at once, then a focus tick every minute until the sweep is
done. Each runs in a thread with its own clients, and all share one ledger file. The row has how many sweeps
ran, how many of them at the same time, the memory of the process that runs them all, and how long the first
took.
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

_MINUTE_S, _MAX_MINUTES = 60, 12


def serve_region(volumes: int, gp2: int, page_s: float) -> None:
    """Run the fake AWS until stdin ends: every n-th volume is gp2."""
    from burstlab.fake_aws.server import Endpoint
    from burstlab.model.clock import LabClock
    from burstlab.model.fleet import LabFleet, LabSettings
    from burstlab.model.volume import LabVolume

    fleet = LabFleet(LabClock(), LabSettings(filter_after_page=True, page_latency_s=page_s))
    gp2_interval = volumes // gp2
    for number in range(volumes):
        fleet.add(LabVolume(size_gib=100, volume_type="gp3" if number % gp2_interval else "gp2"))
    with Endpoint(fleet) as endpoint:
        print(endpoint.url, flush=True)
        sys.stdin.read()


class ListingCounter:
    """How many listings of the fleet are under way, counted where they are made."""

    def __init__(self) -> None:
        self.started_count = self.running_count = self.max_running = 0
        self._lock = Lock()

    def wrap(self, list_volumes: Any) -> Any:
        """The same listing, counted."""

        def list_counted(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.started_count, self.running_count = self.started_count + 1, self.running_count + 1
                self.max_running = max(self.max_running, self.running_count)
            try:
                yield from list_volumes(*args, **kwargs)
            finally:
                with self._lock:
                    self.running_count -= 1

        return list_counted


def run_ticks(page_s: float, volumes: int) -> None:
    """The ticks, until the first sweep is done and one more minute has passed."""
    from burstwatch.adapters.aws.ec2 import Ec2Reader
    from burstwatch.adapters.ledger.sqlite import SqliteLedger
    from burstwatch.core.ledger.ledger import TickKind
    from burstwatch.core.policy.policy import Policy
    from burstwatch.engine.tick_pass import run_tick
    from burstwatch.wiring.bootstrap import build_services, open_session

    counter = ListingCounter()
    Ec2Reader.volumes = counter.wrap(Ec2Reader.volumes)  # type: ignore[method-assign]
    sweep_texts: list[str] = []
    first_tick_s = int(time.time()) // 300 * 300

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.sqlite"

        def tick(kind: TickKind, minute: int) -> None:
            with SqliteLedger.open(path) as ledger:
                session = open_session(None, None)
                services = build_services(session, policy=Policy(), ledger=ledger, account="123456789012")
                started_s = time.monotonic()
                tick_s = first_tick_s + minute * _MINUTE_S
                report = run_tick(services, tick_at_s=tick_s, now_s=tick_s + 2, kind=kind)
                duration_s = time.monotonic() - started_s
                if (
                    report is not None
                    and report.fleet is not None
                    and "ec2:DescribeVolumes" in report.api_calls
                ):
                    sweep_texts.append(
                        f"{kind} of minute {minute}: {duration_s:.0f} s, {len(report.decisions)} looked at"
                    )

        threads: list[Thread] = []
        started_s, minute = time.monotonic(), 0
        while minute < 2 or (not sweep_texts and minute < _MAX_MINUTES):
            kinds = [TickKind.SWEEP, TickKind.FOCUS] if minute % 5 == 0 else [TickKind.FOCUS]
            for kind in kinds:
                threads.append(Thread(target=tick, args=(kind, minute)))
                threads[-1].start()
            minute += 1
            time.sleep(max(0.0, started_s + minute * _MINUTE_S - time.monotonic()))
        for thread in threads:
            thread.join()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers = (
        f"{volumes:>9,}{page_s:>8.1f}"
        f" s{counter.started_count:>8}{counter.max_running:>12}{peak_mib:>9.0f} MiB"
    )
    print(f"{numbers}   {'; '.join(sweep_texts)}")


def main() -> None:
    """Serve, watch, print one row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--volumes", type=int, default=50_000)
    parser.add_argument("--gp2", type=int, default=2_000)
    parser.add_argument("--page-s", type=float, default=0.5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve_region(options.volumes, options.gp2, options.page_s)
        return
    arguments = [f"--volumes={options.volumes}", f"--gp2={options.gp2}", f"--page-s={options.page_s}"]
    command = [sys.executable, __file__, "--serve", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdin
        os.environ["AWS_ENDPOINT_URL"] = server.stdout.readline().strip()
        os.environ |= {"AWS_ACCESS_KEY_ID": "burstlab", "AWS_SECRET_ACCESS_KEY": "burstlab"}
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
        print(f"{'volumes':>9}{'a page':>10}{'sweeps':>8}{'at a time':>12}{'peak':>13}   took")
        run_ticks(options.page_s, options.volumes)
        server.stdin.close()


if __name__ == "__main__":
    main()
