"""The two ways to run the watchdog: as a process with a ledger in a file, and deployed as three functions."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol, cast

from burstlab.fault_injection import fault_models
from burstlab.fault_injection.clients import CloudWatch, DynamoClient, Ec2, Sns, Sqs, Ssm, UnbilledDynamoDb
from burstlab.fault_injection.effects import ITEM_FAULTS, UNCHANGED, Fault, FaultModel, ProcessKilled
from burstlab.fault_injection.world import DEPLOYED_AT, NAMES, POLICY, SimulatedServices, World
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Change, Delivery, Ledger
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_instant
from burstwatch.engine.tick_pass import run_tick
from burstwatch.handlers import flip, settle, watch
from burstwatch.handlers.runtime import FunctionRuntime
from burstwatch.wiring.bootstrap import ledger_origin
from burstwatch.wiring.function_settings import FunctionClock, FunctionSettings

_REGION: Final = "us-east-1"
_ACCOUNT: Final = "123456789012"
_SWEEP_S: Final = 300  # the policy's default


class Deployment(Protocol):
    """A way to run; ``ledger`` is for who judges, and none of what it does is an effect."""

    name: str
    ledger: Ledger

    def run_minute(self, tick_s: int) -> None:
        """Do what is due at a whole minute."""
        ...

    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        """A person changes the ledger; False if that failed and must be repeated."""
        ...

    def deliver_event(self, event: Mapping[str, Any]) -> None:
        """An event comes from EventBridge, where anybody listens."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits between its parts."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def _run_process(world: World, work: Callable[[], object], *, restart: Callable[[], object]) -> bool:
    """Whether a process did its work to the end."""
    try:
        work()
    except ProcessKilled:
        restart()
    except BurstwatchError:
        world.failed_passes += 1
    except Exception as error:  # noqa: BLE001 - judged as a mistake of the product's
        world.internal_errors.append(f"{type(error).__name__}: {error}")
    else:
        return True
    return False


def _make_cloudwatch(world: World, model: FaultModel) -> Any:
    return CloudWatch(world.fleet, world.injector, model)


@cache
def _parse_policy_once() -> Policy:
    return parse_policy(POLICY.encode(), source="the campaign's policy")


def _skip_sleep(_: float) -> None:
    """Simulated time does not go by in pauses of milliseconds."""


def _make_services(world: World, ledger: Ledger, ec2: Any, channels: Any, **extra: Any) -> SimulatedServices:
    return SimulatedServices(
        ec2=Ec2Reader(ec2),
        cloudwatch=CloudWatchReader(
            _make_cloudwatch(world, fault_models.GET_METRICS), workers=1, sleep=_skip_sleep
        ),
        drain_metrics_reader=DrainMetricsReader(_make_cloudwatch(world, fault_models.GET_DRAIN_METRICS)),
        ledger=ledger,
        calls=CallCounter(),
        policy=_parse_policy_once(),
        location=AwsLocation(region=_REGION, account=_ACCOUNT),
        channels=channels,
        clock=world.fleet.clock.now_s,
        **extra,
    )


# As a process on an operator's machine

_LEDGER_WRITES: Final[Mapping[str, str]] = {
    "commit": "ledger.commit",
    "record_intent": "ledger.begin",
    "place_hold": "ledger.place_hold",
    "lift_hold": "ledger.lift_hold",
    "claim_tick": "ledger.claim_tick",
    "renew_tick": "ledger.renew_tick",
    "complete_tick": "ledger.complete_tick",
    "replace_with_digest": "ledger.bundle",
    "claim_delivery": "ledger.claim",
    "mark_delivered": "ledger.delivered",
    "mark_undelivered": "ledger.not_delivered",
}
_LEDGER_READS: Final[Mapping[str, str]] = {
    "states": "ledger.states",
    "states_of": "ledger.states_of",
    "holds": "ledger.holds",
    "manual_overrides": "ledger.window_marks",
    "fleet_snapshot": "ledger.roster",
    "pending_deliveries": "ledger.waiting",
    "entries": "ledger.entries",
}
_EFFECT_NAMES: Final = {**_LEDGER_WRITES, **_LEDGER_READS}
"""The methods that are effects, and what the effects are called in reports."""


class FaultInjectingLedger:
    """The SQLite ledger of one process; each of its methods is an effect."""

    def __init__(self, ledger: SqliteLedger, world: World) -> None:
        self._ledger = ledger
        self._injector = world.injector

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._ledger, name)
        if name not in _EFFECT_NAMES:
            return attribute

        def carry(*args: Any, **kwargs: Any) -> Any:
            volume_ids = _volume_ids_of(args)
            model = _WRITE_MODEL
            if name in _LEDGER_READS:
                model = self._read_model(name, lambda: attribute(*args, **kwargs))
            return self._injector.perform(
                _EFFECT_NAMES[name], model, lambda: attribute(*args, **kwargs), volume_ids=volume_ids
            )

        return carry

    def _read_model(self, name: str, read: Callable[[], Any]) -> FaultModel:
        """A read, one row of which may be damaged."""
        if name not in _DAMAGED_COLUMNS:
            return _READ_MODEL
        alters: dict[str, Any] = {
            fault: partial(self._read_damaged, name, fault, read) for fault in ITEM_FAULTS
        }
        return replace(_READ_MODEL, alterations=alters)

    def _read_damaged(self, name: str, fault: Fault, read: Callable[[], Any], *_: Any) -> Any:
        """The result of the read with its first row damaged."""
        table, key, column = _DAMAGED_COLUMNS[name]
        connection = self._ledger._connection  # noqa: SLF001 - nobody else damages it
        row = connection.execute(f"SELECT {key}, {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608 - ours
        damaged = fault_models.damage_document(row[1], fault) if row and isinstance(row[1], str) else None
        if row and isinstance(row[1], int) and fault is not Fault.LATER:
            damaged = "noon"
        if row is None or damaged is None:
            return UNCHANGED
        statement = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"  # noqa: S608 - as above
        connection.execute(statement, (damaged, row[0]))
        try:
            return read()
        finally:
            connection.execute(statement, (row[1], row[0]))


_DAMAGED_COLUMNS: Final[Mapping[str, tuple[str, str, str]]] = {
    "states": ("states", "volume_id", "body"),
    "states_of": ("states", "volume_id", "body"),
    "holds": ("holds", "subject", "until_s"),
    "pending_deliveries": ("deliveries", "id", "document"),
}
"""Where what a method reads is: table, key and column."""

_WRITE_MODEL: Final = fault_models.make_ledger_file_model(is_write=True)
_READ_MODEL: Final = fault_models.make_ledger_file_model(is_write=False)


def _volume_ids_of(args: tuple[Any, ...]) -> frozenset[str]:
    """The volumes that a call of the ledger is about."""
    match args:
        case [Change(volume_id=volume_id), *_]:
            return frozenset({volume_id})
        case [[*changes], *_] if all(isinstance(change, Change) for change in changes):
            return frozenset(change.volume_id for change in changes)
        case [Delivery(alert=alert)]:
            return frozenset(filter(None, [alert.volume_id]))
        case [set() | frozenset() as volume_ids]:
            return frozenset(volume_ids)
    return frozenset()


class RecordingChannel:
    """A channel that records alerts."""

    name = "people"

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, alert: Alert) -> None:
        """Hand an alert over."""
        volume_ids = frozenset(filter(None, [alert.volume_id]))
        deliver = lambda: self._world.record_alert(alert.to_document())  # noqa: E731 - it is done by the wire
        self._world.injector.perform("channel.send", fault_models.CHANNEL, deliver, volume_ids=volume_ids)


class CliDeployment:
    """``burstctl watch --act``: one process, a ledger in a file, a pass a minute."""

    name = "desk"

    def __init__(self, world: World, directory: Path) -> None:
        self._world = world
        self._path = directory / "ledger.db"
        self.ledger: Ledger = SqliteLedger.open(self._path)
        self._process_ledger: SqliteLedger | None = None
        self._restart()

    def _restart(self) -> None:
        """Everything that the process before knew is in the file."""
        world = self._world
        if self._process_ledger is not None:
            self._process_ledger.close()
        self._process_ledger = SqliteLedger.open(self._path)
        ec2 = Ec2(world.fleet, world.injector, world.record_modify)
        ledger = cast("Ledger", FaultInjectingLedger(self._process_ledger, world))
        self._services = _make_services(
            world, ledger, ec2, [RecordingChannel(world)], modifier=Ec2Modifier(cast("Any", ec2))
        )

    def run_minute(self, tick_s: int) -> None:
        self._world.injector.start_process("watch")
        _run_process(self._world, lambda: self._run_pass(tick_s), restart=self._restart)

    def _run_pass(self, tick_s: int) -> None:
        report = run_tick(self._services, tick_at_s=tick_s, now_s=self._world.now_s)
        if report is not None:
            self._world.internal_errors += report.internal_errors

    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        self._world.injector.start_process("operator")
        with SqliteLedger.open(self._path) as operator_ledger:
            return _run_process(
                self._world,
                lambda: change(FaultInjectingLedger(operator_ledger, self._world)),
                restart=lambda: None,
            )

    def deliver_event(self, event: Mapping[str, Any]) -> None:
        """Nothing to do: no process receives events without a stack."""

    @property
    def is_idle(self) -> bool:
        return True

    def close(self) -> None:
        for ledger in (self.ledger, self._process_ledger):
            cast("SqliteLedger", ledger).close()


# Deployed

_TABLE: Final = "burstwatch-ledger"
_DEPLOYMENT_NAME: Final = "burstwatch"
_POLICY_NAME: Final = f"/burstwatch/{_DEPLOYMENT_NAME}/policy"
_TOPIC_ARN: Final = f"arn:aws:sns:{_REGION}:{_ACCOUNT}:alerts"
_QUEUE_URL: Final = f"https://sqs.{_REGION}.amazonaws.com/{_ACCOUNT}/flips.fifo"
_DEPLOYMENT_RECORD: Final = {
    "schema": "burstwatch.deployment/v1",
    "name": _DEPLOYMENT_NAME,
    "ledger": f"dynamodb:{_TABLE}",
    "policy": _POLICY_NAME,
    "topic_arn": _TOPIC_ARN,
    "flips": True,
    "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
}
_FUNCTION_TIMEOUT_S: Final = {"watch": 300.0, "flip": 50.0, "settle": 30.0}
"""After this time Lambda ends a function, as configured in the stack."""

_CLIENT_TIMEOUT_S: Final = {"watch": 24.0, "flip": 16.0, "settle": 24.0}
"""Three attempts of 8 s, or two, as the clients of the functions are configured."""

_HANDLERS: Final[Mapping[str, Callable[..., object]]] = {
    "watch": watch.run,
    "flip": flip.run,
    "settle": settle.run,
}
_MESSAGE_DELAY_S: Final = 3
"""How long a message takes from one function to another."""

_MAX_FLIP_RECEIVES: Final = 5  # as in infra/messaging.py
_MAX_EVENT_RECEIVES: Final = 3  # as in infra/event_rules.py


class _RecordingTelemetry:
    """Telemetry that records errors only."""

    def __init__(self, world: World) -> None:
        self._world = world

    def remaining_s(self) -> float:
        """Who strikes ends a function that takes too long."""
        return float("inf")

    def emit_metric(self, *_: object) -> None:
        """Nobody counts here."""

    info = warn = error = emit_metric

    def internal_error(self, message: str, error: Exception, *_: object) -> None:
        self._world.internal_errors.append(f"{message}: {type(error).__name__}: {error}")


class _QueuedMessage:
    """A message or an event that was not done yet, and how often it was tried."""

    def __init__(self, body: Any, sent_at_s: float = 0.0) -> None:
        self.body = body
        self.sent_at_s = sent_at_s
        self.receive_count = 0

    def to_record(self, message_id: str) -> dict[str, Any]:
        """As Lambda takes it from a queue."""
        attributes = {"SentTimestamp": str(int(self.sent_at_s * 1000))}
        return {"messageId": message_id, "body": json.dumps(self.body), "attributes": attributes}


class LambdaDeployment:
    """The deployed stack: watch, flip and settle as processes; ledger, topic, queue and parameters."""

    name = "deployed"

    def __init__(self, world: World, directory: Path) -> None:  # noqa: ARG002 - as every house is made
        self._world = world
        self._table = UnbilledDynamoDb(table=_TABLE)
        self.ledger: Ledger = self._open_ledger(DynamoClient(self._table))
        self._sqs = Sqs(world.injector, world.fleet.clock.now_s)
        self._runtimes: dict[str, FunctionRuntime] = {}
        self._messages: list[_QueuedMessage] = []
        self._events: list[_QueuedMessage] = []
        self._telemetry: Any = _RecordingTelemetry(world)

    def _open_ledger(self, client: DynamoClient) -> DynamoLedger:
        clock = self._world.fleet.clock.now_s
        return DynamoLedger(client, _TABLE, workers=1, sleep=_skip_sleep, clock=clock)

    def _runtime(self, function: str) -> FunctionRuntime:
        """The runtime of a function: built by its first invocation, kept for warm ones."""
        if function not in self._runtimes:
            self._runtimes[function] = self._build_runtime(function)
        return self._runtimes[function]

    def _build_runtime(self, function: str) -> FunctionRuntime:
        world, now_s = self._world, self._world.fleet.clock.now_s
        client = DynamoClient(self._table, world.injector)
        ledger = self._open_ledger(client)
        ledger.bind(ledger_origin(_ACCOUNT, _REGION))
        ec2 = Ec2(world.fleet, world.injector, world.record_modify)
        topic = SnsChannel(cast("Any", Sns(world.injector, world.record_alert)), _TOPIC_ARN)
        ssm: Any = Ssm(
            world.injector,
            {
                _POLICY_NAME: POLICY,
                f"/burstwatch/deployments/{_DEPLOYMENT_NAME}": json.dumps(_DEPLOYMENT_RECORD),
            },
            DEPLOYED_AT,
        )
        notes = DynamoKeyValueStore(client, _TABLE, sleep=_skip_sleep)
        return FunctionRuntime(
            settings=FunctionSettings(
                region=_REGION,
                table=_TABLE,
                clock=FunctionClock.WALL,
                topic_arn=_TOPIC_ARN,
                policy_parameter=_POLICY_NAME,
                deployment=_DEPLOYMENT_NAME,
                flip_queue_url=_QUEUE_URL,
            ),
            base=_make_services(world, ledger, ec2, [topic]),
            policy_parameter=PolicyParameter(
                ssm, _POLICY_NAME, deployment=_DEPLOYMENT_NAME, store=notes, clock=now_s
            ),
            store=notes,
            ssm_client=ssm,
            modifier=Ec2Modifier(cast("Any", ec2)),
            queue=None if function == "flip" else FlipQueue(cast("Any", self._sqs), _QUEUE_URL),
            clock=now_s,
        )

    def run_minute(self, tick_s: int) -> None:
        """Run the schedules, then the flip requests, then the events of EventBridge."""
        modes = ["sweep", "focus"] if tick_s % _SWEEP_S == 0 else ["focus"]
        for mode in modes:
            self._invoke("watch", {"mode": mode, "time": format_instant(tick_s)})
        self._world.fleet.clock.advance(_MESSAGE_DELAY_S)
        self._sqs.add_forged_requests(NAMES)
        self._messages += map(_QueuedMessage, self._sqs.message_bodies)
        self._sqs.message_bodies.clear()
        self._messages = self._process_messages("flip", self._messages)
        self._events = self._process_events(self._events)

    def _process_messages(self, function: str, messages: list[_QueuedMessage]) -> list[_QueuedMessage]:
        """Those that failed, and are tried again in a minute."""
        failed = []
        for message in messages:
            message.receive_count += 1
            if not self._invoke(function, message.body) and message.receive_count < _MAX_FLIP_RECEIVES:
                failed.append(message)
        return failed

    def _process_events(self, events: list[_QueuedMessage]) -> list[_QueuedMessage]:
        """Those of a batch of events that failed, and are tried again in a minute."""
        if not events:
            return []
        records = [event.to_record(str(number)) for number, event in enumerate(events)]
        responses: list[Any] = []
        if not self._invoke("settle", {"Records": records}, responses.append):
            failed = {record["messageId"] for record in records}
        else:
            failed = {failure["itemIdentifier"] for failure in responses[0]["batchItemFailures"]}
        for event in events:
            event.receive_count += 1
        return [
            event
            for event, record in zip(events, records, strict=True)
            if record["messageId"] in failed and event.receive_count < _MAX_EVENT_RECEIVES
        ]

    def _invoke(
        self, function: str, event: Any, on_response: Callable[[object], object] = lambda _answer: None
    ) -> bool:
        self._world.injector.start_process(
            function,
            process_timeout_s=_FUNCTION_TIMEOUT_S[function],
            client_timeout_s=_CLIENT_TIMEOUT_S[function],
        )
        now_s = self._world.fleet.clock.now_s
        return _run_process(
            self._world,
            lambda: on_response(
                _HANDLERS[function](event, self._runtime(function), self._telemetry, wall_s=now_s())
            ),
            restart=lambda: self._runtimes.pop(function, None),
        )

    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        self._world.injector.start_process("operator")
        operator_ledger = self._open_ledger(DynamoClient(self._table, self._world.injector))
        return _run_process(self._world, lambda: change(operator_ledger), restart=lambda: None)

    def deliver_event(self, event: Mapping[str, Any]) -> None:
        self._events.append(_QueuedMessage(event, self._world.fleet.clock.now_s()))

    @property
    def is_idle(self) -> bool:
        return not (
            self._messages or self._events or self._sqs.message_bodies or self._sqs.forged_minutes_left
        )

    def close(self) -> None:
        """Nothing is open: the table is in memory."""


DEPLOYMENTS: Final[Mapping[str, Callable[[World, Path], Deployment]]] = {
    CliDeployment.name: CliDeployment,
    LambdaDeployment.name: LambdaDeployment,
}
