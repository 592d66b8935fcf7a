"""What the deployed functions take: cold and warm, in time and memory; and one sweep of a large fleet.

    .venv/bin/python lab/bench/deployed.py [VOLUMES]

The real ``cdk deploy`` onto a local AWS. Its functions run on this machine's Python, not in Lambda's own
environment: cold includes that their code and layer are unpacked and a process is started, as it does there,
but memory does not slow them down and no network lies between. So read the times as those of this machine.
"""

import re
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from look import LATENCY_MS, serving_idle

from burstlab.deployed.deployed_stack import VERBS, DeployedStage, bootstrap, deploy
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume

VOLUMES = 40
DRAINING = 6
MINUTES = 45
PAST = timedelta(hours=1)
_REPORT = re.compile(r"REPORT RequestId: (\S+)\tDuration: (\d+) ms")


def main(volumes: int) -> None:
    """Print what is measured, as it is."""
    with LocalAws() as aws:
        with timed("cdk synth"):
            aws.run_cdk("synth", "--quiet")
        with timed("cdk bootstrap"):
            bootstrap(aws)
        with timed("cdk deploy, synth included"):
            deploy(aws)
        with timed("the same again: no changes"):
            deploy(aws)
        with Endpoint(a_fleet(aws)) as endpoint, SlackReceiver() as slack:
            stage = staged(aws, endpoint)
            stage.tell_slack(slack.url)
            print_sizes(stage)
            live(stage)
            print_functions(stage)
    with LocalAws() as aws, Endpoint(LabFleet()) as endpoint:  # another ledger: nothing has arrived lately
        bootstrap(aws)
        deploy(aws)
        sweep(staged(aws, endpoint), volumes)


def staged(aws: LocalAws, endpoint: Endpoint) -> DeployedStage:
    """The stack in front of the lab, its schedule off."""
    stage = DeployedStage.find(aws, endpoint)
    stage.set_schedule(is_on=False)
    stage.look_at_the_lab()
    return stage


@contextmanager
def timed(what):
    began = time.perf_counter()
    yield
    print(f"{what:<32} {time.perf_counter() - began:6.1f} s", flush=True)


def a_fleet(aws) -> LabFleet:
    """Mostly idle, some of it draining fast and allowed to be flipped."""
    began_at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3)
    fleet = LabFleet(LabClock.by_hand(began_at - PAST), LabSettings(lag_s=60, account_id=aws.account))
    for number in range(VOLUMES):
        drains = number < DRAINING
        fleet.add(
            LabVolume(
                size_gib=33,
                load="steady:100",
                balance_pct=40 + 8 * number if drains else 100,
                tags={"Name": f"v-{number}"} | ({"burstwatch:mode": "auto"} if drains else {}),
            )
        )
    fleet.clock.advance(PAST.total_seconds())
    for volume in list(fleet)[:DRAINING]:
        fleet.set_load(volume.volume_id, "steady:2000")
    return fleet


def print_sizes(stage: DeployedStage) -> None:
    """Of what is uploaded, zipped."""
    told = stage.client("lambda").get_function_configuration(FunctionName=stage.functions["watch"])
    layer = sum(layer["CodeSize"] for layer in told["Layers"])
    print(f"{'our code, zipped':<32} {told['CodeSize'] / 1024:6.0f} KiB, one asset for all functions")
    print(f"{'the layer, zipped':<32} {layer / 2**20:6.1f} MiB")


def live(stage: DeployedStage) -> None:
    """The schedule, EBS's events, flips and alerts, one after the other, sixty times as fast as life."""
    for _ in range(MINUTES):
        began = time.monotonic()
        stage.endpoint.clock.advance(60)
        stage.tell_events()
        stage.tick()
        time.sleep(max(0.0, 1 - (time.monotonic() - began)))
    time.sleep(3)


def print_functions(stage: DeployedStage) -> None:
    """A line for each function: how often it ran, for how long, and its memory at the most.

    Cold and warm are medians. What notify takes when warm is mostly waiting for its turn: Slack takes one
    message a second.
    """
    heads = ("runs", "cold", "warm", "fastest", "slowest", "memory", "allowed")
    print(f"\n{'function':<9}" + "".join(f"{head:>10}" for head in heads))
    for verb in VERBS:
        told = stage.client("lambda").get_function_configuration(FunctionName=stage.functions[verb])
        cold, warm = durations_ms(stage, verb)
        spans = [median(some) if some else 0 for some in (cold, warm)] + [min(cold + warm), max(cold + warm)]
        sizes = (memory_mib(stage, verb), told["MemorySize"])
        shown = [f"{span:,.0f} ms" for span in spans] + [f"{size:,.0f} MiB" for size in sizes]
        print(f"{verb:<9}{len(cold) + len(warm):>10}" + "".join(f"{text:>10}" for text in shown))


def durations_ms(stage: DeployedStage, verb: str) -> tuple[list[float], list[float]]:
    """How long the runs of a function took, of new processes and of those kept."""
    lines = stage.log(verb)
    new = {
        record["function_request_id"]
        for record in stage.log_records(verb)
        if record.get("cold_start") is True and "function_request_id" in record
    }
    ran = {found[1]: float(found[2]) for line in lines if (found := _REPORT.match(line))}
    return [ms for run, ms in ran.items() if run in new], [ms for run, ms in ran.items() if run not in new]


def memory_mib(stage: DeployedStage, verb: str) -> float:
    """The most that a living process of the function has held (Linux tells)."""
    most_kib = 0
    for process in Path("/proc").iterdir():
        try:
            if f"ministack-lambda-{stage.functions[verb]}-" in (process / "cmdline").read_text():
                held = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
                most_kib = max(most_kib, int(held[1]) if held else 0)
        except OSError:
            continue
    return most_kib / 1024


def sweep(stage: DeployedStage, volumes: int) -> None:
    """Let the deployed function sweep a large fleet it has never seen, and again five minutes later."""
    print(f"\nsweeps of {volumes:,} volumes, each call to EC2 and CloudWatch answered after {LATENCY_MS} ms")
    with serving_idle(volumes) as environment:
        url = environment["AWS_ENDPOINT_URL"]
        eyes = {"AWS_ENDPOINT_URL_EC2": url, "AWS_ENDPOINT_URL_CLOUDWATCH": url}
        stage.change_settings("watch", eyes)
        now_s = int(ask(url, "GET", "clock")["now_s"]) // 300 * 300
        for what in ("first, all of it", "next, what is due"):
            now_s += 300
            ask(url, "POST", "advance", seconds=300)
            ask(url, "DELETE", "calls")
            began = time.perf_counter()
            told = stage.watch("sweep", now_s)
            took_s = time.perf_counter() - began
            calls = sum(ask(url, "GET", "calls").values())
            print(
                f"{what:<20} {took_s:6.1f} s, {memory_mib(stage, 'watch'):4.0f} MiB,"
                f" {told['looked_at']:,} volumes looked at, {calls} calls to EC2 and CloudWatch"
            )


def ask(url: str, method: str, what: str, **body) -> dict:
    """Ask the lab's controls."""
    import json

    place = urlsplit(url)
    connection = HTTPConnection(place.hostname, place.port, timeout=60)
    connection.request(method, f"/_lab/{what}", json.dumps(body) if method == "POST" else None)
    told = json.loads(connection.getresponse().read())
    connection.close()
    if what == "clock":
        told["now_s"] = datetime.fromisoformat(told["now"]).timestamp()
    return told


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10_000)
