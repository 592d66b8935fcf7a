"""Serves the code of the first version to a test: a JSON command on each line of stdin, an answer on stdout.

It runs with a checkout of that version on ``PYTHONPATH``, so all names here are those of that version.
"""

import json
import os
import sys
import traceback
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
from boto3.session import Session
from burstwatch.adapters.calls import CallCounter
from burstwatch.adapters.cloudwatch import CloudWatchReader
from burstwatch.adapters.delivery import deliver
from burstwatch.adapters.deployments import find_deployments, standing_of
from burstwatch.adapters.ec2 import Ec2Reader
from burstwatch.adapters.flip_queue import FlipRequest
from burstwatch.adapters.ledger_dynamodb import DynamoLedger
from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.adapters.notes import Notes
from burstwatch.adapters.policy_parameter import PolicyParameter
from burstwatch.bootstrap import build_client
from burstwatch.core.orders import Order
from burstwatch.core.place import Place
from burstwatch.core.stall import Stall
from burstwatch.core.target import Demand
from burstwatch.shell import Shell
from burstwatch.watchdog import hear

from burstctl.main import main as burstctl
from burstwatch.core.flips import Cause, Direction
from burstwatch.core.policy import Policy

botocore.session.create_loader = cache(botocore.session.create_loader)
"""The description of an API is read once, and not again for every command: that takes longest."""

PLACE = Place(region="us-east-1", account="123456789012")
RUNBOOKS = "https://example.com/runbooks"


class Commands:
    """What the test may ask for; each answer is JSON."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._session = Session()
        self._ledgers: dict[str, Any] = {}

    def connect(self, environment: dict[str, str]) -> Any:
        """Take the lab that this environment names for AWS."""
        os.environ.update(environment)
        self._stack.close()
        self._ledgers.clear()
        self._session = Session()

    def _client(self, service: str) -> Any:
        return build_client(self._session, service, CallCounter())

    def _ledger(self, location: str) -> Any:
        if location not in self._ledgers:
            kind, _, place = location.partition(":")
            if kind == "sqlite":
                ledger = self._stack.enter_context(SqliteLedger.open(Path(place)))
            else:
                ledger = DynamoLedger(self._client("dynamodb"), place)
            self._ledgers[location] = ledger
        return self._ledgers[location]

    def burstctl(self, arguments: list[str]) -> Any:
        """A command line."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = burstctl(arguments)
        return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

    def read_ledger(self, location: str, volume_ids: list[str], now_s: float, channels: list[str]) -> Any:
        """All that a ledger holds, as this version understands it."""
        ledger = self._ledger(location)
        roster = ledger.roster()
        return {
            "states": {i: state.to_document() for i, state in ledger.states().items()},
            "holds": sorted(
                [hold.volume_id or "*", hold.by, hold.reason, hold.placed_at_s, hold.until_s]
                for hold in ledger.holds(now_s)
            ),
            "windows": {
                name: [mark.starts, mark.by, mark.at_s, mark.until_s]
                for name, mark in ledger.window_marks().items()
            },
            "waiting": [
                [delivery.channel, delivery.attempts, delivery.alert.to_document()]
                for delivery in ledger.waiting(channels=channels)
            ],
            "entries": {
                volume_id: [
                    [entry.revision, entry.kind, entry.at_s, entry.body]
                    for entry in ledger.entries(volume_id)
                ]
                for volume_id in volume_ids
            },
            "roster": [roster.tick_s, sorted(roster.fingerprints)] if roster else None,
        }

    def report_stall(self, location: str, detail: dict[str, Any], now_s: float) -> Any:
        """What a host reports, as the function that hears it does."""
        shell = Shell(
            ec2=Ec2Reader(self._client("ec2")),
            cloudwatch=CloudWatchReader(self._client("cloudwatch"), workers=1),
            ledger=self._ledger(location),
            calls=CallCounter(),
            policy=Policy(),
            place=PLACE,
        )
        return list(hear(shell, [Stall.from_detail(detail, now_s=now_s)], now_s=now_s).refused)

    def claim_delivery(self, location: str, channel: str, now_s: float, lease_s: float) -> Any:
        """Begin to send the oldest alert that waits, as a process that dies in the middle of it."""
        ledger = self._ledger(location)
        delivery = ledger.waiting(channels=[channel])[0]
        assert ledger.claim(delivery, now_s=now_s, lease_s=lease_s)
        return delivery.alert.alert_id

    def deliver(self, location: str, channel: str, now_s: float) -> Any:
        """Send all that waits for a channel; the ids of what was sent."""
        sent: list[str] = []
        channel_stub = SimpleNamespace(name=channel, send=lambda alert: sent.append(alert.alert_id))
        deliver(
            self._ledger(location),
            [channel_stub],
            digest_above=100,
            place=PLACE,
            runbooks_url=RUNBOOKS,
            now_s=now_s,
        )
        return sent

    def claim_tick(self, location: str, kind: str, tick_s: int, now_s: float, lease_s: float) -> Any:
        """Begin a tick, as a process that dies in it."""
        return self._ledger(location).claim_tick(kind, tick_s, now_s=now_s, lease_s=lease_s)

    def write_request(self, volume_id: str, direction: str, cause: str, because: str, time_s: int) -> Any:
        """A message to the flip queue."""
        order = Order(
            volume_id=volume_id,
            direction=Direction(direction),
            cause=Cause(cause),
            because=because,
            demand=Demand(peak_iops=2_400.0),
            urgency=(0, 1.5, volume_id),
        )
        return FlipRequest(order=order, time_s=time_s, revision=7).to_body()

    def read_request(self, body: str) -> Any:
        """What this version understands of a message to the flip queue."""
        request = FlipRequest.from_body(body)
        order = request.order
        return [order.volume_id, order.direction, order.cause, order.because, request.time_s]

    def read_policy(self, table: str, name: str, deployment: str) -> Any:
        """The policy in force by Parameter Store, which is noted in the table, and where it is from."""
        notes = Notes(self._client("dynamodb"), table)
        parameter = PolicyParameter(self._client("ssm"), name, deployment=deployment, notes=notes)
        in_force = parameter.in_force()
        trouble = None if in_force.trouble is None else str(in_force.trouble)
        return {"source": in_force.says, "policy": in_force.policy.to_mapping(), "problem": trouble}

    def read_deployments(self, name: str) -> Any:
        """The deployments by Parameter Store, and whether this one may flip."""
        deployments_found = find_deployments(self._client("ssm"))
        deployments = [
            [deployment.name, deployment.since_s, deployment.read().ledger, deployment.read().opt_in_tag]
            for deployment in deployments_found
        ]
        return {"deployments": deployments, "may_flip": standing_of(name, deployments_found).may_flip}


def main() -> None:
    """Answer commands until stdin ends."""
    answers = sys.stdout
    with ExitStack() as stack:
        commands = Commands(stack)
        for line in sys.stdin:
            name, arguments = json.loads(line)
            try:
                answer = {"answer": getattr(commands, name)(**arguments)}
            except Exception:  # noqa: BLE001 - whatever it is, the test shows it
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), file=answers, flush=True)


main()
