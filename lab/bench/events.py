"""What bursts of events cost: calls to EC2, reads of the ledger, invocations, and how long others wait.

    .venv/bin/python lab/bench/events.py

The settle handler is invoked with every event of the burst against the lab: its calls, and the units that
its reads and writes take of a ledger of a thousand volumes, are counted. How long an honest host waits behind
the burst is simulated from those calls, at so many milliseconds each (``MS``). On a tree whose handler takes
one event at a time, a hundred events are invoked and stand for all; there, *done in* is told for an account
that is limited to ten functions, and for one that may run a thousand.
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

from burstlab.fake_aws.dynamodb import DynamoDb
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change, VolumeState
from burstwatch.handlers import settle
from burstwatch.handlers.runtime import Footing
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Instruments

ACCOUNT: Final = "123456789012"
KNOWN: Final = 1_000
TAKES_BATCHES: Final = hasattr(settle, "Message")
BATCH, AT_ONCE = (100, 2) if TAKES_BATCHES else (1, 1_000)
"""As the stack has it; without a bound there are as many functions as the account allows."""

ACCOUNT_LIMIT: Final = 10
"""How many functions a new account may run at once."""

SAMPLE: Final = 100
MS: Final = {"ec2": 150.0, "dynamodb": 6.0, "other": 30.0}
OVERHEAD_MS: Final = 15.0
EC2: Final = ("DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances")
LEDGER: Final = ("Query", "GetItem", "BatchGetItem", "TransactWriteItems", "PutItem", "DeleteItem")
READS: Final = ("Query", "GetItem", "BatchGetItem")
HOST: Final = "i-0badbadbadbadbadb"
USD: Final = {
    "read unit": 0.125e-6,
    "write unit": 0.625e-6,
    "GB-s": 0.0000133334,
    "invocation": 0.20e-6,
    "SQS request": 0.40e-6,
    "custom event": 1.00e-6,
}
GIB: Final = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """What some events took."""

    calls: Counter[str]
    read_units: float
    write_units: float
    invocations: int
    seconds: float

    def of(self, actions: Sequence[str]) -> int:
        return sum(self.calls[action] for action in actions)


@dataclass(slots=True)
class Stage:
    """A warm settle function in front of a lab, with a ledger that knows a thousand volumes."""

    lab: Endpoint
    table: DynamoDb
    footing: Footing

    def invoke(self, events: Sequence[Any]) -> Cost:
        """One invocation with these events, and what it took."""
        self.lab.faults.forget_calls()
        read, write = self.table.units.read, self.table.units.write
        now_s = self.lab.clock.now_s()
        sent = {"SentTimestamp": str(int(now_s * 1000))}
        records = [
            {"messageId": str(number), "body": json.dumps(event), "attributes": sent}
            for number, event in enumerate(events)
        ]
        event = {"Records": records} if TAKES_BATCHES else events[0]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            say = Instruments.from_env({}, stream=StringIO())
            settle.run(event, self.footing, say, wall_s=now_s)
        calls = Counter(self.lab.faults.calls())
        ms = OVERHEAD_MS + sum(MS[_service(action)] * times for action, times in calls.items())
        units = self.table.units
        return Cost(calls, units.read - read, units.write - write, 1, ms / 1000)

    def all(self, events: Sequence[Any]) -> tuple[list[Cost], float]:
        """Every invocation that these events take, and how many of them each one stands for."""
        batches = [events[first : first + BATCH] for first in range(0, len(events), BATCH)]
        chosen = batches if TAKES_BATCHES else batches[:SAMPLE]
        return [self.invoke(batch) for batch in chosen], len(batches) / len(chosen)


def _service(action: str) -> str:
    return "ec2" if action in EC2 else "dynamodb" if action in LEDGER else "other"


@contextmanager
def a_stage() -> Iterator[Stage]:
    """The lab, and a deployed stack's function in it."""
    clock = LabClock.by_hand(datetime(2026, 11, 20, 18, tzinfo=UTC))
    with Endpoint(LabFleet(clock, LabSettings(lag_s=60))) as lab:
        table = lab.tables.setdefault("burstwatch-ledger", DynamoDb(table="burstwatch-ledger"))
        ssm, sns = lab.client("ssm"), lab.client("sns")
        topic = sns.create_topic(Name="alerts")["TopicArn"]
        for name, value in {
            "/burstwatch/burstwatch/policy": "version: 1\n",
            "/burstwatch/deployments/burstwatch": "{}",
        }.items():
            ssm.put_parameter(Name=name, Value=value, Type="String")
        environment = lab.environment | {
            "BURSTWATCH_LEDGER": "dynamodb:burstwatch-ledger",
            "BURSTWATCH_CLOCK": "wall",
            "BURSTWATCH_TOPIC_ARN": topic,
            "BURSTWATCH_POLICY": "/burstwatch/burstwatch/policy",
            "BURSTWATCH_DEPLOYMENT": "burstwatch",
        }
        with patch.dict("os.environ", environment):
            footing = Footing.build(FunctionSettings.from_env(environment), ACCOUNT)
            footing.clock = clock.now_s
            footing.policies._clock = clock.now_s  # noqa: SLF001 - it grows old with the lab's time
            known = [
                Change(
                    state=VolumeState(
                        volume_id=f"vol-0aaa{number:013x}", revision=1, level=Level.WATCH, balance_pct=61.5
                    ),
                    volume_id=f"vol-0aaa{number:013x}",
                    expected_revision=None,
                )
                for number in range(KNOWN)
            ]
            DynamoLedger(lab.client("dynamodb"), "burstwatch-ledger").commit(known, channels=())
            stage = Stage(lab, table, footing)
            stage.invoke([an_event("vol-0feedfeedfeedfeed", lab)])
            yield stage


def an_event(volume_id: str, lab: Endpoint) -> dict[str, Any]:
    """EBS attached a volume."""
    return {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": _instant(lab.clock.now_s()),
        "resources": [f"arn:aws:ec2:us-east-1:{ACCOUNT}:volume/{volume_id}"],
        "detail": {"event": "attachVolume", "result": "attached"},
    }


def a_report(volume_id: str, instance_id: str, lab: Endpoint) -> dict[str, Any]:
    """A host reports a stall."""
    now_s = lab.clock.now_s()
    return {
        "source": "burstwatch.ddprobe",
        "detail-type": "stall",
        "time": _instant(now_s),
        "resources": [],
        "detail": {
            "schema": "burstwatch.probe/v1",
            "instance_id": instance_id,
            "volume_id": volume_id,
            "verdict": "crit",
            "cause": "throttled",
            "total_s": 8.25,
            "started_at": _instant(now_s - 10),
            "top": [],
        },
    }


def _instant(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def last_done_s(costs: Sequence[Cost], stands_for: float, at_once: int) -> float:
    """When the last of these invocations is over, all of them there at once."""
    free = [0.0] * at_once
    heapq.heapify(free)
    for number in range(round(len(costs) * stands_for)):
        heapq.heappush(free, heapq.heappop(free) + costs[number % len(costs)].seconds)
    return max(free)


def line(what: str, costs: Sequence[Cost], stands_for: float, events: int, *, custom: bool) -> str:
    """A row of the table."""
    invocations = len(costs) * stands_for
    ec2 = sum(cost.of(EC2) for cost in costs) * stands_for
    describe = sum(cost.calls["DescribeVolumes"] for cost in costs) * stands_for
    reads = sum(cost.of(READS) for cost in costs) * stands_for
    read_units = sum(cost.read_units for cost in costs) * stands_for
    write_units = sum(cost.write_units for cost in costs) * stands_for
    seconds = sum(cost.seconds for cost in costs) * stands_for
    requests = events * 1.2 if TAKES_BATCHES else 0
    usd = (
        read_units * USD["read unit"]
        + write_units * USD["write unit"]
        + seconds * GIB * USD["GB-s"]
        + invocations * USD["invocation"]
        + requests * USD["SQS request"]
        + events * USD["custom event"] * custom
    )
    limits = sorted({AT_ONCE, min(AT_ONCE, ACCOUNT_LIMIT)})
    waits = " / ".join(f"{last_done_s(costs, stands_for, limit):,.0f} s" for limit in limits)
    return (
        f"| {what} | {invocations:,.0f} | {min(AT_ONCE, round(invocations)):,} | {ec2:,.0f} ({describe:,.0f})"
        f" | {reads:,.0f} | {read_units:,.0f} | {usd:.3f} | {waits} |"
    )


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    form = "batches of 100, two at once" if TAKES_BATCHES else "one event at a time, unbounded"
    print(f"Handler: {form}.\n")
    print(
        "| Burst | invocations | at once | EC2 calls (DescribeVolumes) | reads | read units | $ | done in |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    numbers = count()
    with a_stage() as stage:
        lab = stage.lab
        data = [lab.fleet.add(LabVolume(size_gib=100, volume_type="gp3")) for _ in range(400)]
        costs, many = stage.all([an_event(each, lab) for each in data])
        print(line("400 attach events of gp3 volumes in 5 s", costs, many, 400, custom=False))
        own = lab.fleet.add(LabVolume(size_gib=100, instance_id=HOST))
        stage.invoke([a_report(own, HOST, lab)])
        costs, many = stage.all([a_report(own, HOST, lab) for _ in range(10_000)])
        print(line("10,000 reports of one volume", costs, many, 10_000, custom=True))
        made_up = [f"vol-0bad{next(numbers):013x}" for _ in range(10_000)]
        costs, many = stage.all([a_report(each, HOST, lab) for each in made_up])
        print(line("10,000 reports of made-up volumes", costs, many, 10_000, custom=True))


if __name__ == "__main__":
    main()
