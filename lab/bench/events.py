"""What bursts of events cost: calls to EC2, reads of the ledger, invocations, and how long others wait.

    .venv/bin/python lab/bench/events.py

The settle handler is invoked with every event of the burst against the lab. The bench counts its calls, and
the units that its reads and writes take of a ledger of a thousand volumes. From those calls, at
``LATENCY_MS`` each, it simulates how long an honest host waits behind the burst. If the handler of a tree
takes one event at a time, a hundred events are invoked to represent all. *Done in* is then given for an
account that is limited to ten functions, and for one that may run a thousand.
"""

import argparse
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import LastReading, ResourceState
from burstwatch.handlers import settle
from burstwatch.handlers.runtime import FunctionRuntime
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Telemetry

ACCOUNT: Final = "123456789012"
KNOWN_VOLUMES: Final = 1_000
TAKES_BATCHES: Final = hasattr(settle, "Message")
BATCH, MAX_CONCURRENCY = (100, 2) if TAKES_BATCHES else (1, 1_000)
"""As the stack has it; without a bound there are as many functions as the account allows."""

ACCOUNT_LIMIT: Final = 10
"""How many functions a new account may run at once."""

SAMPLE_SIZE: Final = 100
LATENCY_MS: Final = {"ec2": 150.0, "dynamodb": 6.0, "other": 30.0}
OVERHEAD_MS: Final = 15.0
EC2: Final = ("DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances")
LEDGER: Final = ("Query", "GetItem", "BatchGetItem", "TransactWriteItems", "PutItem", "DeleteItem")
READS: Final = ("Query", "GetItem", "BatchGetItem")
HOST: Final = "i-0badbadbadbadbadb"
USD_PER_UNIT: Final = {
    "read unit": 0.125e-6,
    "write unit": 0.625e-6,
    "GB-s": 0.0000133334,
    "invocation": 0.20e-6,
    "SQS request": 0.40e-6,
    "custom event": 1.00e-6,
}
FUNCTION_GIB: Final = 0.5


@dataclass(frozen=True, slots=True)
class InvocationCost:
    """What some events took."""

    calls: Counter[str]
    read_units: float
    write_units: float
    invocations: int
    seconds: float

    def count_calls(self, actions: Sequence[str]) -> int:
        return sum(self.calls[action] for action in actions)


@dataclass(slots=True)
class WarmFunction:
    """A warm settle function in front of a lab, with a ledger that knows a thousand volumes."""

    endpoint: Endpoint
    table: FakeDynamoDb
    runtime: FunctionRuntime

    def invoke(self, events: Sequence[Any]) -> InvocationCost:
        """One invocation with these events, and what it took."""
        self.endpoint.faults.reset_calls()
        read_before, write_before = self.table.units.read, self.table.units.write
        now_s = self.endpoint.clock.now_s()
        attributes = {"SentTimestamp": str(int(now_s * 1000))}
        records = [
            {"messageId": str(number), "body": json.dumps(event), "attributes": attributes}
            for number, event in enumerate(events)
        ]
        event = {"Records": records} if TAKES_BATCHES else events[0]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            telemetry = Telemetry.from_env({}, stream=StringIO())
            settle.run(event, self.runtime, telemetry, wall_s=now_s)
        calls = Counter(self.endpoint.faults.call_counts())
        duration_ms = OVERHEAD_MS + sum(
            LATENCY_MS[_service(action)] * call_count for action, call_count in calls.items()
        )
        units = self.table.units
        return InvocationCost(
            calls, units.read - read_before, units.write - write_before, 1, duration_ms / 1000
        )

    def invoke_all(self, events: Sequence[Any]) -> tuple[list[InvocationCost], float]:
        """Every invocation that these events take, and how many of them each one stands for."""
        batches = [events[first : first + BATCH] for first in range(0, len(events), BATCH)]
        sampled = batches if TAKES_BATCHES else batches[:SAMPLE_SIZE]
        return [self.invoke(batch) for batch in sampled], len(batches) / len(sampled)


def _service(action: str) -> str:
    return "ec2" if action in EC2 else "dynamodb" if action in LEDGER else "other"


@contextmanager
def open_warm_function() -> Iterator[WarmFunction]:
    """The lab, and a deployed stack's function in it."""
    clock = LabClock.manual(datetime(2026, 11, 20, 18, tzinfo=UTC))
    with Endpoint(LabFleet(clock, LabSettings(lag_s=60))) as endpoint:
        table = endpoint.tables.setdefault("burstwatch-ledger", FakeDynamoDb(table="burstwatch-ledger"))
        ssm, sns = endpoint.client("ssm"), endpoint.client("sns")
        topic = sns.create_topic(Name="alerts")["TopicArn"]
        for name, value in {
            "/burstwatch/burstwatch/policy": "version: 1\n",
            "/burstwatch/deployments/burstwatch": "{}",
        }.items():
            ssm.put_parameter(Name=name, Value=value, Type="String")
        environment = endpoint.environment | {
            "BURSTWATCH_LEDGER": "dynamodb:burstwatch-ledger",
            "BURSTWATCH_CLOCK": "wall",
            "BURSTWATCH_TOPIC_ARN": topic,
            "BURSTWATCH_POLICY": "/burstwatch/burstwatch/policy",
            "BURSTWATCH_DEPLOYMENT": "burstwatch",
        }
        with patch.dict("os.environ", environment):
            runtime = FunctionRuntime.build(FunctionSettings.from_env(environment), ACCOUNT)
            runtime.clock = clock.now_s
            runtime.policy_parameter._clock = clock.now_s  # noqa: SLF001 - it grows old with the lab's time
            changes = [
                Change(
                    state=ResourceState(
                        volume_id=f"vol-0aaa{number:013x}",
                        revision=1,
                        level=Level.WATCH,
                        reading=LastReading(balance_pct=61.5),
                    ),
                    volume_id=f"vol-0aaa{number:013x}",
                    expected_revision=None,
                )
                for number in range(KNOWN_VOLUMES)
            ]
            DynamoLedger(endpoint.client("dynamodb"), "burstwatch-ledger").commit(changes, channels=())
            function = WarmFunction(endpoint, table, runtime)
            function.invoke([make_attach_event("vol-0feedfeedfeedfeed", endpoint)])
            yield function


def make_attach_event(volume_id: str, endpoint: Endpoint) -> dict[str, Any]:
    """EBS attached a volume."""
    return {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": _format_instant(endpoint.clock.now_s()),
        "resources": [f"arn:aws:ec2:us-east-1:{ACCOUNT}:volume/{volume_id}"],
        "detail": {"event": "attachVolume", "result": "attached"},
    }


def make_stall_report(volume_id: str, instance_id: str, endpoint: Endpoint) -> dict[str, Any]:
    """A host reports a stall."""
    now_s = endpoint.clock.now_s()
    return {
        "source": "burstwatch.ddprobe",
        "detail-type": "stall",
        "time": _format_instant(now_s),
        "resources": [],
        "detail": {
            "schema": "burstwatch.probe/v1",
            "instance_id": instance_id,
            "volume_id": volume_id,
            "verdict": "crit",
            "cause": "throttled",
            "total_s": 8.25,
            "started_at": _format_instant(now_s - 10),
            "top": [],
        },
    }


def _format_instant(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def completion_time_s(costs: Sequence[InvocationCost], weight: float, concurrency: int) -> float:
    """When the last of these invocations is over, all of them there at once."""
    free_at_s = [0.0] * concurrency
    heapq.heapify(free_at_s)
    for number in range(round(len(costs) * weight)):
        heapq.heappush(free_at_s, heapq.heappop(free_at_s) + costs[number % len(costs)].seconds)
    return max(free_at_s)


def format_row(
    label: str, costs: Sequence[InvocationCost], weight: float, events: int, *, is_custom_event: bool
) -> str:
    """A row of the table."""
    invocations = len(costs) * weight
    ec2 = sum(cost.count_calls(EC2) for cost in costs) * weight
    describe = sum(cost.calls["DescribeVolumes"] for cost in costs) * weight
    reads = sum(cost.count_calls(READS) for cost in costs) * weight
    read_units = sum(cost.read_units for cost in costs) * weight
    write_units = sum(cost.write_units for cost in costs) * weight
    seconds = sum(cost.seconds for cost in costs) * weight
    requests = events * 1.2 if TAKES_BATCHES else 0
    usd = (
        read_units * USD_PER_UNIT["read unit"]
        + write_units * USD_PER_UNIT["write unit"]
        + seconds * FUNCTION_GIB * USD_PER_UNIT["GB-s"]
        + invocations * USD_PER_UNIT["invocation"]
        + requests * USD_PER_UNIT["SQS request"]
        + events * USD_PER_UNIT["custom event"] * is_custom_event
    )
    limits = sorted({MAX_CONCURRENCY, min(MAX_CONCURRENCY, ACCOUNT_LIMIT)})
    durations = " / ".join(f"{completion_time_s(costs, weight, limit):,.0f} s" for limit in limits)
    return (
        f"| {label} | {invocations:,.0f} | {min(MAX_CONCURRENCY, round(invocations)):,} | {ec2:,.0f}"
        f" ({describe:,.0f}) | {reads:,.0f} | {read_units:,.0f} | {usd:.3f} | {durations} |"
    )


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    handler_text = "batches of 100, two at once" if TAKES_BATCHES else "one event at a time, unbounded"
    print(f"Handler: {handler_text}.\n")
    print(
        "| Burst | invocations | at once | EC2 calls (DescribeVolumes) | reads | read units | $ | done in |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    numbers = count()
    with open_warm_function() as function:
        endpoint = function.endpoint
        volume_ids = [endpoint.fleet.add(LabVolume(size_gib=100, volume_type="gp3")) for _ in range(400)]
        costs, weight = function.invoke_all(
            [make_attach_event(volume_id, endpoint) for volume_id in volume_ids]
        )
        print(
            format_row("400 attach events of gp3 volumes in 5 s", costs, weight, 400, is_custom_event=False)
        )
        own_volume_id = endpoint.fleet.add(LabVolume(size_gib=100, instance_id=HOST))
        function.invoke([make_stall_report(own_volume_id, HOST, endpoint)])
        costs, weight = function.invoke_all(
            [make_stall_report(own_volume_id, HOST, endpoint) for _ in range(10_000)]
        )
        print(format_row("10,000 reports of one volume", costs, weight, 10_000, is_custom_event=True))
        unknown_volume_ids = [f"vol-0bad{next(numbers):013x}" for _ in range(10_000)]
        costs, weight = function.invoke_all(
            [make_stall_report(volume_id, HOST, endpoint) for volume_id in unknown_volume_ids]
        )
        print(format_row("10,000 reports of made-up volumes", costs, weight, 10_000, is_custom_event=True))


if __name__ == "__main__":
    main()
