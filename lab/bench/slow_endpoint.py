"""What a Slack endpoint that never finishes an answer does to flips, and to the end of the watch.

    .venv/bin/python lab/bench/slow_endpoint.py [FOLDER]

``burstctl watch --act`` runs on a lab at four times the speed of the clock: a tick is 15 s. One volume is
exhausted from the start and alerts; another one drains and has to be flipped some minutes later. It runs
without Slack, with one that works, and with each slow response. When is the second volume flipped? How long
does the watch take to end when SIGTERM comes while it delivers? FOLDER is the source tree of another version.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver, SlowResponse
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume

SPEED = 4.0
START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
WATCH_DURATION_S = 150.0
"""Ten ticks: the volume is due to be flipped after some six, and exhausted after sixteen."""

STOP_TIMEOUT_S = 30.0
ENDPOINT_KINDS = ("no Slack", "works", *SlowResponse)
COMMAND = (sys.executable, "-c", "import sys; from burstctl.main import main; sys.exit(main())")


def add_volume(fleet: LabFleet, name: str, balance_pct: float, minutes: int, **tags: str) -> str:
    """A volume of 100 GiB at 3,000 IOPS, which takes 3 % of its credits a minute since ``minutes`` ago."""
    return fleet.add(
        LabVolume(
            size_gib=100,
            load="steady:3000",
            balance_pct=balance_pct,
            starts_at=START - timedelta(minutes=minutes),
            tags={"Name": name, **tags},
        )
    )


def run_watch(kind: str, source: Path) -> tuple[str, str, str]:
    """When the volume was flipped, how low it came, and how long the watch took to end."""
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory())
        slack = stack.enter_context(SlackReceiver())
        if kind in list(SlowResponse):
            slack.start_slow_response(SlowResponse(kind), interval_s=1.0)
        fleet = LabFleet(LabClock(START, speed=SPEED), LabSettings(lag_s=60))
        add_volume(fleet, "web-3", 50, 40)
        volume_id = add_volume(fleet, "ci-7", 96, 16, **{"burstwatch:mode": "auto"})
        endpoint = stack.enter_context(Endpoint(fleet))
        environment = {
            **os.environ,
            **endpoint.environment,
            "HOME": directory,
            "PYTHONPATH": os.pathsep.join(str(source / root) for root in ("lambdas", "runbooks", "lab")),
        }
        if kind != "no Slack":
            environment["BURSTWATCH_SLACK_WEBHOOK"] = slack.url
        watch = subprocess.Popen(
            [*COMMAND, "watch", "--act", "--ledger", "sqlite:ledger"],
            env=environment,
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(WATCH_DURATION_S)
            posted_count = len(slack.all_messages)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while (
                kind != "no Slack" and len(slack.all_messages) == posted_count and time.monotonic() < deadline
            ):
                time.sleep(0.05)
                if kind == "works":
                    break
            stop_text = _stop_watch(watch)
        finally:
            watch.kill()
            watch.wait()
        flips = fleet.modifications(volume_id)
        minutes = [(flip.started_at - START).total_seconds() / 60 for flip in flips[:1]]
        empty_at = fleet.truth(volume_id).first_dry_at
    return f"minute {minutes[0]:.1f}" if minutes else "never", "yes" if empty_at else "no", stop_text


def _stop_watch(watch: subprocess.Popen[bytes]) -> str:
    watch.send_signal(signal.SIGTERM)
    started_s = time.monotonic()
    try:
        watch.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"not within {STOP_TIMEOUT_S:.0f} s"
    return f"{time.monotonic() - started_s:.1f} s"


def main(source: Path) -> None:
    """A line for each way to answer."""
    with ThreadPoolExecutor(len(ENDPOINT_KINDS)) as pool:
        results = list(pool.map(lambda kind: run_watch(kind, source), ENDPOINT_KINDS))
    print(f"{'Slack':<10} {'flipped':<12} {'exhausted':<10} SIGTERM")
    for kind, (flipped, exhausted, stop_text) in zip(ENDPOINT_KINDS, results, strict=True):
        print(f"{kind:<10} {flipped:<12} {exhausted:<10} {stop_text}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[2])
    main(parser.parse_args().folder)
