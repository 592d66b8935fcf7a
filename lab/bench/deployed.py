"""What the deployed functions take: cold and warm, in time and memory; and one sweep of a large fleet.

    .venv/bin/python lab/bench/deployed.py [VOLUMES]

The real ``cdk deploy`` onto a local AWS. Its functions run on this machine's Python, not in Lambda's own
environment. As in Lambda, a cold start includes unpacking code and layer and starting a process. But memory
does not slow them down, and there is no network in between. So read the times as those of this machine.
"""

import argparse
import json
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from assess_pass import LATENCY_MS, serve_idle_fleet

from burstlab.deployed.deployed_stack import HANDLERS, DeployedStack, bootstrap, deploy
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.assessment import host_stall
from burstwatch.core.text import format_instant
from burstwatch.handlers.settle import PROBE_SOURCE

VOLUMES = 40
DRAINING = 6
MINUTES = 45
REPORT_EVERY_MIN = 5
HOST = "i-0123456789abcdef0"
HISTORY_BEFORE_START = timedelta(hours=1)
_REPORT = re.compile(r"REPORT RequestId: (\S+)\tDuration: (\d+) ms")


def main() -> None:
    """Print what is measured, as it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("volumes", type=int, nargs="?", default=10_000)
    volumes = parser.parse_args().volumes
    with LocalAws() as aws:
        with print_duration("cdk synth"):
            aws.run_cdk("synth", "--quiet")
        with print_duration("cdk bootstrap"):
            bootstrap(aws)
        with print_duration("cdk deploy, synth included"):
            deploy(aws)
        with print_duration("the same again: no changes"):
            deploy(aws)
        with Endpoint(make_fleet(aws)) as endpoint, SlackReceiver() as slack:
            stack = prepare_stack(aws, endpoint)
            stack.set_slack_webhook(slack.url)
            print_sizes(stack)
            run_schedule(stack)
            print_functions(stack)
    with LocalAws() as aws, Endpoint(LabFleet()) as endpoint:  # another ledger: nothing has arrived lately
        bootstrap(aws)
        deploy(aws)
        sweep(prepare_stack(aws, endpoint), volumes)


def prepare_stack(aws: LocalAws, endpoint: Endpoint) -> DeployedStack:
    """The stack in front of the lab, its schedule off."""
    stack = DeployedStack.find(aws, endpoint)
    stack.set_schedule_state(is_on=False)
    stack.use_lab_endpoint()
    return stack


@contextmanager
def print_duration(label):
    started_s = time.perf_counter()
    yield
    print(f"{label:<32} {time.perf_counter() - started_s:6.1f} s", flush=True)


def make_fleet(aws) -> LabFleet:
    """Mostly idle, some of it draining fast and allowed to be flipped."""
    starts_at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3)
    fleet = LabFleet(
        LabClock.manual(starts_at - HISTORY_BEFORE_START), LabSettings(lag_s=60, account_id=aws.account)
    )
    for number in range(VOLUMES):
        is_draining = number < DRAINING
        fleet.add(
            LabVolume(
                size_gib=33,
                load="steady:100",
                instance_id=HOST if number == 0 else None,
                balance_pct=40 + 8 * number if is_draining else 100,
                tags={"Name": f"v-{number}"} | ({"burstwatch:mode": "auto"} if is_draining else {}),
            )
        )
    fleet.clock.advance(HISTORY_BEFORE_START.total_seconds())
    for volume in list(fleet)[:DRAINING]:
        fleet.set_load(volume.volume_id, "steady:2000")
    return fleet


def print_sizes(stack: DeployedStack) -> None:
    """Of what is uploaded, zipped."""
    configuration = stack.client("lambda").get_function_configuration(FunctionName=stack.functions["watch"])
    layers_bytes = sum(layers_bytes["CodeSize"] for layers_bytes in configuration["Layers"])
    print(
        f"{'our code, zipped':<32} {configuration['CodeSize'] / 1024:6.0f} KiB, one asset for all functions"
    )
    print(f"{'the layer, zipped':<32} {layers_bytes / 2**20:6.1f} MiB")


def run_schedule(stack: DeployedStack) -> None:
    """The schedule, EBS's events, reports of hosts, flips and alerts, one after the other.

    Sixty times as fast as life.
    """
    for minute in range(MINUTES):
        started_s = time.monotonic()
        stack.endpoint.clock.advance(60)
        stack.forward_events()
        if minute % REPORT_EVERY_MIN == 0:
            report_stall(stack)
        stack.tick()
        time.sleep(max(0.0, 1 - (time.monotonic() - started_s)))
    time.sleep(3)


def report_stall(stack: DeployedStack) -> None:
    """Invoke the function with what ddprobe reports from a host.

    Through the bus, the local AWS would date it now, hours after the lab's time.
    """
    fleet = stack.endpoint.fleet
    detail = {
        "schema": host_stall.SCHEMA,
        "instance_id": HOST,
        "volume_id": next(iter(fleet)).volume_id,
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 8.25,
        "started_at": format_instant(fleet.now_s() - 20),
        "top": [{"comm": "dockerd", "wchan": "blk_mq_get_tag", "count": 3}],
    }
    event = {"source": PROBE_SOURCE, "detail-type": "stall", "time": format_instant(fleet.now_s())}
    stack.invoke("probe", event | {"detail": detail})


def print_functions(stack: DeployedStack) -> None:
    """A line for each function: how often it ran, for how long, and its memory at the most.

    Cold and warm are medians. What notify takes when warm is mostly waiting for its turn: Slack takes one
    message a second.
    """
    headings = ("runs", "cold", "warm", "fastest", "slowest", "memory", "allowed")
    print(f"\n{'function':<9}" + "".join(f"{head:>10}" for head in headings))
    for handler in HANDLERS:
        configuration = stack.client("lambda").get_function_configuration(
            FunctionName=stack.functions[handler]
        )
        cold, warm = durations_ms(stack, handler)
        durations = [median(group_ms) if group_ms else 0 for group_ms in (cold, warm)] + [
            min(cold + warm),
            max(cold + warm),
        ]
        sizes = (memory_mib(stack, handler), configuration["MemorySize"])
        texts = [f"{duration:,.0f} ms" for duration in durations] + [f"{size:,.0f} MiB" for size in sizes]
        print(f"{handler:<9}{len(cold) + len(warm):>10}" + "".join(f"{text:>10}" for text in texts))


def durations_ms(stack: DeployedStack, handler: str) -> tuple[list[float], list[float]]:
    """How long the runs of a function took, of new processes and of those kept."""
    lines = stack.log_lines(handler)
    cold_request_ids = {
        record["function_request_id"]
        for record in stack.log_records(handler)
        if record.get("cold_start") is True and "function_request_id" in record
    }
    duration_by_request = {match[1]: float(match[2]) for line in lines if (match := _REPORT.match(line))}
    return [ms for request_id, ms in duration_by_request.items() if request_id in cold_request_ids], [
        ms for request_id, ms in duration_by_request.items() if request_id not in cold_request_ids
    ]


def memory_mib(stack: DeployedStack, handler: str) -> float:
    """The most that a living process of the function has held (from Linux)."""
    max_kib = 0
    for process in Path("/proc").iterdir():
        try:
            if f"ministack-lambda-{stack.functions[handler]}-" in (process / "cmdline").read_text():
                match = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
                max_kib = max(max_kib, int(match[1]) if match else 0)
        except OSError:
            continue
    return max_kib / 1024


def sweep(stack: DeployedStack, volumes: int) -> None:
    """Let the deployed function sweep a large fleet it has never seen, and again five minutes later."""
    print(f"\nsweeps of {volumes:,} volumes, each call to EC2 and CloudWatch answered after {LATENCY_MS} ms")
    with serve_idle_fleet(volumes) as environment:
        url = environment["AWS_ENDPOINT_URL"]
        environment_changes = {"AWS_ENDPOINT_URL_EC2": url, "AWS_ENDPOINT_URL_CLOUDWATCH": url}
        stack.update_environment("watch", environment_changes)
        now_s = int(call_control_api(url, "GET", "clock")["now_s"]) // 300 * 300
        for label in ("first, all of it", "next, what is due"):
            now_s += 300
            call_control_api(url, "POST", "advance", seconds=300)
            call_control_api(url, "DELETE", "calls")
            started_s = time.perf_counter()
            result = stack.invoke_watch("sweep", now_s)
            duration_s = time.perf_counter() - started_s
            calls = sum(call_control_api(url, "GET", "calls").values())
            print(
                f"{label:<20} {duration_s:6.1f} s, {memory_mib(stack, 'watch'):4.0f} MiB,"
                f" {result['looked_at']:,} volumes looked at, {calls} calls to EC2 and CloudWatch"
            )


def call_control_api(url: str, method: str, route: str, **body) -> dict:
    """Ask the lab's controls."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request(method, f"/_lab/{route}", json.dumps(body) if method == "POST" else None)
    response = json.loads(connection.getresponse().read())
    connection.close()
    if route == "clock":
        response["now_s"] = datetime.fromisoformat(response["now"]).timestamp()
    return response


if __name__ == "__main__":
    main()
