"""The watchdog as a deployed stack: watch, flip, settle and probe as processes, with what is between them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from burstlab.fault_injection.clients import DynamoClient, Sns, Sqs, Ssm, UnbilledDynamoDb
from burstlab.fault_injection.deployment import ACCOUNT, REGION, Deployment, skip_sleep
from burstlab.fault_injection.world import DEPLOYED_AT, NAMES, POLICY, FaultWorld
from burstlab.harness.world import SWEEP_S
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from burstwatch.core.text import format_instant
from burstwatch.handlers import flip, settle, watch
from burstwatch.handlers.runtime import FunctionRuntime
from burstwatch.wiring.bootstrap import ledger_origin
from burstwatch.wiring.function_settings import FunctionClock, FunctionSettings

_TABLE: Final = "burstwatch-ledger"
_DEPLOYMENT_NAME: Final = "burstwatch"
_POLICY_NAME: Final = f"/burstwatch/{_DEPLOYMENT_NAME}/policy"
_TOPIC_ARN: Final = f"arn:aws:sns:{REGION}:{ACCOUNT}:alerts"
_QUEUE_URL: Final = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/flips.fifo"
_DEPLOYMENT_RECORD: Final = {
    "schema": "burstwatch.deployment/v1",
    "name": _DEPLOYMENT_NAME,
    "ledger": f"dynamodb:{_TABLE}",
    "policy": _POLICY_NAME,
    "topic_arn": _TOPIC_ARN,
    "flips": True,
    "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
}
_FUNCTION_TIMEOUT_S: Final = {"watch": 300.0, "flip": 50.0, "settle": 30.0, "probe": 30.0}
"""After this time Lambda ends a function, as configured in the stack."""

_CLIENT_TIMEOUT_S: Final = {"watch": 24.0, "flip": 16.0, "settle": 24.0, "probe": 24.0}
"""Three attempts of 8 s, or two, as the clients of the functions are configured."""

_HANDLERS: Final[Mapping[str, Callable[..., object]]] = {
    "watch": watch.run,
    "flip": flip.run,
    "settle": settle.run,
    "probe": settle.run,
}
_MESSAGE_DELAY_S: Final = 3
"""How long a message takes from one function to another."""

_MAX_FLIP_RECEIVES: Final = 5  # as in infra/messaging.py
_MAX_EVENT_RECEIVES: Final = 3  # as in infra/event_rules.py


class _RecordingTelemetry:
    """Telemetry that records errors only."""

    def __init__(self, world: FaultWorld) -> None:
        self._world = world

    def remaining_s(self) -> float:
        """Who strikes ends a function that takes too long."""
        return float("inf")

    def emit_metric(self, *_: object) -> None:
        """Metrics are not counted here."""

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


class LambdaDeployment(Deployment):
    """The deployed stack: watch, flip, settle and probe as processes; ledger, topic, queue and parameters."""

    name = "deployed"

    def __init__(self, world: FaultWorld, directory: Path) -> None:  # noqa: ARG002 - as every deployment is made
        super().__init__(world)
        self._table = UnbilledDynamoDb(table=_TABLE)
        self.ledger = self._open_ledger(DynamoClient(self._table))
        self._sqs: Any = Sqs(world.injector, world.fleet.clock.now_s)
        self._runtimes: dict[str, FunctionRuntime] = {}
        self._messages: list[_QueuedMessage] = []
        self._events: dict[str, list[_QueuedMessage]] = {"settle": [], "probe": []}
        """The queues of events, by the function that takes them."""
        self._telemetry: Any = _RecordingTelemetry(world)

    def _open_ledger(self, client: DynamoClient) -> DynamoLedger:
        clock = self._world.fleet.clock.now_s
        return DynamoLedger(client, _TABLE, workers=1, sleep=skip_sleep, clock=clock)

    def _runtime(self, function: str) -> FunctionRuntime:
        """The runtime of a function: built by its first invocation, kept for warm ones."""
        if function not in self._runtimes:
            self._runtimes[function] = self._build_runtime(function)
        return self._runtimes[function]

    def _build_runtime(self, function: str) -> FunctionRuntime:
        world, now_s = self._world, self._world.fleet.clock.now_s
        client = DynamoClient(self._table, world.injector)
        ledger = self._open_ledger(client)
        ledger.bind(ledger_origin(ACCOUNT, REGION))
        ec2 = self.make_ec2()
        sns: Any = Sns(world.injector, world.record_alert)
        ssm: Any = Ssm(
            world.injector,
            {
                _POLICY_NAME: POLICY,
                f"/burstwatch/deployments/{_DEPLOYMENT_NAME}": json.dumps(_DEPLOYMENT_RECORD),
            },
            DEPLOYED_AT,
        )
        notes = DynamoKeyValueStore(client, _TABLE, sleep=skip_sleep)
        return FunctionRuntime(
            settings=FunctionSettings(
                region=REGION,
                table=_TABLE,
                clock=FunctionClock.WALL,
                topic_arn=_TOPIC_ARN,
                policy_parameter=_POLICY_NAME,
                deployment=_DEPLOYMENT_NAME,
                flip_queue_url=_QUEUE_URL,
            ),
            base=self.make_services(ledger, ec2, [SnsChannel(sns, _TOPIC_ARN)]),
            policy_parameter=PolicyParameter(
                ssm, _POLICY_NAME, deployment=_DEPLOYMENT_NAME, store=notes, clock=now_s
            ),
            store=notes,
            ssm_client=ssm,
            modifier=Ec2Modifier(ec2),
            queue=FlipQueue(self._sqs, _QUEUE_URL) if function in ("watch", "settle") else None,
            clock=now_s,
        )

    def run_minute(self, tick_s: int) -> None:
        """Run the schedules, then the flip requests, then the events of EventBridge."""
        modes = ["sweep", "focus"] if tick_s % SWEEP_S == 0 else ["focus"]
        for mode in modes:
            self._invoke("watch", {"mode": mode, "time": format_instant(tick_s)})
        self._world.fleet.clock.advance(_MESSAGE_DELAY_S)
        self._sqs.add_forged_requests(NAMES)
        self._messages += map(_QueuedMessage, self._sqs.message_bodies)
        self._sqs.message_bodies.clear()
        self._messages = self._process_messages("flip", self._messages)
        for function, events in self._events.items():
            self._events[function] = self._process_events(function, events)

    def _process_messages(self, function: str, messages: list[_QueuedMessage]) -> list[_QueuedMessage]:
        """Those that failed, and are tried again in a minute."""
        failed = []
        for message in messages:
            message.receive_count += 1
            if not self._invoke(function, message.body) and message.receive_count < _MAX_FLIP_RECEIVES:
                failed.append(message)
        return failed

    def _process_events(self, function: str, events: list[_QueuedMessage]) -> list[_QueuedMessage]:
        """Those of a batch of events that failed, and are tried again in a minute."""
        if not events:
            return []
        records = [event.to_record(str(number)) for number, event in enumerate(events)]
        responses: list[Any] = []
        if not self._invoke(function, {"Records": records}, responses.append):
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
        return self.run_process(
            lambda: on_response(
                _HANDLERS[function](event, self._runtime(function), self._telemetry, wall_s=now_s())
            ),
            restart=lambda: self._runtimes.pop(function, None),
        )

    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        self._world.injector.start_process("operator")
        operator_ledger = self._open_ledger(DynamoClient(self._table, self._world.injector))
        return self.run_process(lambda: change(operator_ledger))

    def close(self) -> None:
        """Nothing is open between two invocations."""

    def deliver_event(self, event: Mapping[str, Any]) -> None:
        function = "probe" if event["source"] == settle.PROBE_SOURCE else "settle"
        self._events[function].append(_QueuedMessage(event, self._world.fleet.clock.now_s()))

    @property
    def is_idle(self) -> bool:
        return not (
            self._messages
            or any(self._events.values())
            or self._sqs.message_bodies
            or self._sqs.forged_minutes_left
        )
