"""The deployed functions, invoked as Lambda does: the lab is their AWS, topics and queues are moto's."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from itertools import count
from types import SimpleNamespace
from typing import Any

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.location import AwsLocation
from burstwatch.core.text import format_instant
from burstwatch.engine.alert_delivery import deliver
from burstwatch.handlers import flip, settle, watch
from burstwatch.handlers.runtime import ATTEMPTS, FunctionRuntime
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Metric, with_telemetry
from support.aws.fake_stack import DEFAULT_POLICY, deploy_stack, push_policy, put_parameter
from support.cli.cli_session import START

ACCOUNT = "123456789012"
ARN = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function"
AUTO = {"burstwatch:mode": "auto"}
MODULES = {"watch": watch, "flip": flip, "settle": settle, "probe": settle}
"""The probe function runs the code of settle."""
TIME_LEFT_MS = 50_000
PLACEHOLDER = "<aws.scheduler.scheduled-time>"


_NUMBERS = count(1)
"""moto keeps what it is given for as long as the process lives."""


@dataclass(frozen=True)
class InvocationOutput:
    """What an invocation wrote, as CloudWatch Logs has it, and its result."""

    result: Any
    lines: list[dict[str, Any]]
    metric_blobs: list[dict[str, Any]]
    text: str

    @property
    def metrics(self) -> Counter[str]:
        """Sums, as a metric has several values if it was emitted several times; 0 if it was not emitted."""
        reported = (_metrics_of(blob) for blob in self.metric_blobs)
        return Counter({name: sum(value) for item in reported for name, value in item.items()})

    @property
    def units(self) -> dict[str, str]:
        blocks = (block for blob in self.metric_blobs for block in blob["_aws"]["CloudWatchMetrics"])
        return {metric["Name"]: metric["Unit"] for block in blocks for metric in block["Metrics"]}

    @property
    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines]

    @property
    def warnings(self) -> list[str]:
        return [line["message"] for line in self.lines if line["level"] != "INFO"]

    def lines_about(self, volume_id: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("volume_id") == volume_id]


def _metrics_of(blob: Mapping[str, Any]) -> dict[str, list[float]]:
    names = (metric["Name"] for block in blob["_aws"]["CloudWatchMetrics"] for metric in block["Metrics"])
    return {name: blob[name] if isinstance(blob[name], list) else [blob[name]] for name in names}


@dataclass
class DeployedFunctions:
    """A deployed stack's functions, each warm after its first invocation, and what is around them."""

    lab: Endpoint
    monkeypatch: Any
    name: str = "burstwatch"
    clock: str = "wall"
    flips: bool = True
    policy: str = DEFAULT_POLICY
    last: InvocationOutput | None = None
    units: dict[str, str] = field(default_factory=dict)
    _warm_functions: dict[str, Any] = field(default_factory=dict)
    _stdout: StringIO = field(default_factory=StringIO)

    def __post_init__(self) -> None:
        number = next(_NUMBERS)
        self.service = f"{self.name}-{number}"
        self.sqs, self.ssm = self.lab.client("sqs"), self.lab.client("ssm")
        sns = self.lab.client("sns")
        self.topic_arn = sns.create_topic(Name=f"alerts-{number}")["TopicArn"]
        self.inbox = self.sqs.create_queue(QueueName=f"people-{number}")["QueueUrl"]
        self.queue_url = self.sqs.create_queue(
            QueueName=f"flips-{number}.fifo", Attributes={"FifoQueue": "true", "VisibilityTimeout": "60"}
        )["QueueUrl"]
        sns.subscribe(
            TopicArn=self.topic_arn,
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:people-{number}",
            Attributes={"RawMessageDelivery": "true"},
        )
        self.ledger = deploy_stack(self.lab, self.name, policy=self.policy, topic_arn=self.topic_arn)

    def environment(self, verb: str) -> dict[str, str]:
        """As the stack writes it: the same for each, but probe may not request flips."""
        result = {
            "BURSTWATCH_LEDGER": f"dynamodb:{self.name}-ledger",
            "BURSTWATCH_CLOCK": self.clock,
            "BURSTWATCH_TOPIC_ARN": self.topic_arn,
            "BURSTWATCH_POLICY": f"/burstwatch/{self.name}/policy",
            "BURSTWATCH_DEPLOYMENT": self.name,
            "POWERTOOLS_SERVICE_NAME": self.service,
            "POWERTOOLS_METRICS_NAMESPACE": "Burstwatch",
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }
        if self.flips and verb != "probe":
            result["BURSTWATCH_FLIP_QUEUE_URL"] = self.queue_url
        return result

    @contextmanager
    def process(self, verb: str) -> Iterator[Any]:
        """The environment of a function's process, with what is patched in it."""
        with self.monkeypatch.context() as patch:
            patch.delenv("BURSTWATCH_FLIP_QUEUE_URL", raising=False)
            for name, value in (self.lab.environment | self.environment(verb)).items():
                patch.setenv(name, value)
            yield patch

    def runtime(self, attempts: int = ATTEMPTS) -> FunctionRuntime:
        """A new footing, as each execution environment of a function has its own."""
        runtime = FunctionRuntime.build(FunctionSettings.from_env(os.environ), ACCOUNT, attempts=attempts)
        use_lab_time(runtime, self.lab.clock.now_s)
        return runtime

    def invoke(self, verb: str, event: Any) -> InvocationOutput:
        """Invoke a function; what it wrote is kept in ``last`` also if it fails."""
        self._stdout.seek(0)
        self._stdout.truncate()
        result: Any = None
        with self.process(verb) as patch:
            module = MODULES[verb]
            patch.setattr(module, "time", SimpleNamespace(time=self.lab.clock.now_s))
            with redirect_stdout(self._stdout):
                handler, build_runtime = self._started(verb)
            patch.setattr(module, "function_runtime", build_runtime)
            try:
                with redirect_stdout(self._stdout):
                    result = handler(event, a_lambda_context(verb, self.service))
            finally:
                self.last = _parse_output(result, self._stdout.getvalue())
                self.units |= self.last.units
        return self.last

    def end_invocation(self) -> None:
        """Lambda lets go of what is warm: every function starts cold again."""
        self._warm_functions.clear()
        self.service = f"{self.name}-{next(_NUMBERS)}"

    def _started(self, verb: str) -> Any:
        """The handler and the builder of its runtime, as they are in the process of this function."""
        if verb not in self._warm_functions:

            @cache
            def build_runtime(account: str, *args: int) -> FunctionRuntime:
                assert account == ACCOUNT
                return self.runtime(*args)

            self._warm_functions[verb] = with_telemetry(MODULES[verb].handler.__wrapped__), build_runtime
        return self._warm_functions[verb]

    # ---- watch

    def watch(self, mode: str = "focus", *, time: str | None = None) -> InvocationOutput:
        """One tick, on time."""
        return self.invoke("watch", {"mode": mode, "time": time or to_instant(self.lab.clock.now_s())})

    def tick(self, minutes: int = 0) -> list[InvocationOutput]:
        """What the schedules do at a minute, this many from now: the sweep's event arrives first."""
        self.lab.clock.advance(60 * minutes)
        is_sweep = self.lab.clock.now_s() % 300 == 0
        return [self.watch(mode) for mode in (["sweep", "focus"] if is_sweep else ["focus"])]

    # ---- flip

    def requests(self) -> list[dict[str, Any]]:
        """Take what waits in the queue, as Lambda's poller does."""
        result = self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        return [a_record(message) for message in result]

    def requested_flips(self) -> list[dict[str, str]]:
        """What would be handed to flip, which is never to see it."""
        records = self.requests()
        for record in records:
            self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=record["receiptHandle"])
        return [record["attributes"] | {"body": record["body"]} for record in records]

    def flip(self, records: list[dict[str, Any]] | None = None) -> InvocationOutput:
        """Invoke flip with a batch; those that did not fail leave the queue, the others are seen again."""
        records = self.requests() if records is None else records
        output = self.invoke("flip", {"Records": records})
        failed = failed_message_ids(output)
        for record in records:
            if handle := record["receiptHandle"]:
                repeated = record["messageId"] in failed
                if repeated:
                    self.sqs.change_message_visibility(
                        QueueUrl=self.queue_url, ReceiptHandle=handle, VisibilityTimeout=0
                    )
                else:
                    self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=handle)
        return output

    def run_flip_requests(self) -> InvocationOutput | None:
        """Flip what was requested, if anything was."""
        records = self.requests()
        return self.flip(records) if records else None

    # ---- settle

    def settle(self, *events: Any, sent_ago_s: float = 0.0) -> InvocationOutput:
        """Invoke settle with events of EventBridge in one batch, as its queues bring them."""
        sent_s = self.lab.clock.now_s() - sent_ago_s
        return self.invoke("settle", {"Records": [an_event_message(event, sent_s) for event in events]})

    def probe(self, *events: Any, sent_ago_s: float = 0.0) -> InvocationOutput:
        """Invoke probe with reports of hosts in one batch."""
        sent_s = self.lab.clock.now_s() - sent_ago_s
        return self.invoke("probe", {"Records": [an_event_message(event, sent_s) for event in events]})

    # ---- people

    def alerts(self) -> list[dict[str, Any]]:
        """What people got since they last looked, or get with the next tick, in the form programs get."""
        self._send_pending()
        results = []
        while True:
            batch = self.sqs.receive_message(QueueUrl=self.inbox, MaxNumberOfMessages=10).get("Messages", [])
            if not batch:
                return results
            for message in batch:
                results.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=self.inbox, ReceiptHandle=message["ReceiptHandle"])

    def _send_pending(self) -> None:
        """The flip function leaves its alerts to the next tick, which sends what comes together."""
        topic = SnsChannel(self.lab.client("sns"), self.topic_arn)
        deliver(
            self.ledger,
            [topic],
            digest_above=1000,
            location=AwsLocation(region="us-east-1", account=ACCOUNT),
            runbooks_url="runbooks",
            now_s=self.lab.clock.now_s(),
        )

    def alert_kinds(self) -> list[str]:
        return [alert["kind"] for alert in self.alerts()]

    # ---- the operator

    def deploy_policy(self, text: str) -> None:
        put_parameter(self.ssm, f"/burstwatch/{self.name}/policy", text)
        self.lab.clock.advance(31)  # longer than a warm function goes on with what it read

    def push_policy(self, text: str) -> None:
        push_policy(self.lab, text, name=self.name, over=self.policy)
        self.lab.clock.advance(31)

    def history(self, volume_id: str) -> list[str]:
        """The ledger's entries on a volume, without the alerts on its balance."""
        reported = (EntryKind.LEVEL_CHANGED, EntryKind.ALERT, EntryKind.DELIVERED)
        return [str(entry.kind) for entry in self.ledger.entries(volume_id) if entry.kind not in reported]


@contextmanager
def deploy_functions(monkeypatch: Any, *, lab: Any = None, **fields: Any) -> Iterator[DeployedFunctions]:
    """A stack that is deployed at 18:00, in a lab whose time stands still until it is advanced."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "BURSTWATCH_", "POWERTOOLS_", "LAMBDA_", "_X_AMZN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60, **(lab or {})))
    with Endpoint(fleet) as endpoint:
        yield DeployedFunctions(lab=endpoint, monkeypatch=monkeypatch, **fields)


def use_lab_time(runtime: FunctionRuntime, now_s: Any) -> None:
    """Let what is read now and then grow old with the lab's time."""
    runtime.clock = runtime.policy_parameter._clock = now_s


def a_lambda_context(verb: str, service: str) -> SimpleNamespace:
    return SimpleNamespace(
        function_name=f"{service}-{verb}",
        memory_limit_in_mb=512,
        invoked_function_arn=f"{ARN}:{service}-{verb}",
        aws_request_id="8f5a4b1c-0000-4000-8000-000000000000",
        get_remaining_time_in_millis=lambda: TIME_LEFT_MS,
    )


def a_record(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as Lambda hands it over."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:flips.fifo",
        "awsRegion": "us-east-1",
    }


def a_message(body: str, *, group: str = "vol-0123456789abcdef0") -> dict[str, Any]:
    """A record that never was in a queue."""
    number = next(_NUMBERS)
    return a_record(
        {
            "MessageId": f"message-{number}",
            "ReceiptHandle": "",
            "Body": body,
            "Attributes": {"MessageGroupId": group, "SequenceNumber": str(number)},
        }
    )


def an_event_message(event: Any, sent_s: float) -> dict[str, Any]:
    """An event of EventBridge in a message that was sent at ``sent_at_s``."""
    return a_record(
        {
            "MessageId": f"message-{next(_NUMBERS)}",
            "ReceiptHandle": "",
            "Body": json.dumps(event),
            "Attributes": {"SentTimestamp": str(int(sent_s * 1000)), "ApproximateReceiveCount": "1"},
        }
    )


def evaluated_volumes(output: InvocationOutput) -> int:
    """Count the volumes that settle evaluated because of EBS events, by its log."""
    return sum(int(n) for n in re.findall(r"(\d+) of \d+ volumes? evaluated", "\n".join(output.messages)))


def failed_message_ids(output: InvocationOutput) -> set[str]:
    """The ids of the messages that come again."""
    return {failure["itemIdentifier"] for failure in output.result["batchItemFailures"]}


def to_instant(at_s: float) -> str:
    return format_instant(at_s)


def _parse_output(result: Any, text: str) -> InvocationOutput:
    document = [json.loads(line) for line in text.splitlines()]
    return InvocationOutput(
        result=result,
        lines=[line for line in document if "_aws" not in line],
        metric_blobs=[line for line in document if "_aws" in line],
        text=text,
    )


ALL_METRICS = frozenset(map(str, Metric))


@dataclass
class Context:
    """As much of Lambda's as Powertools asks for."""

    function_name: str = "prod-notify"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:prod-notify"
    aws_request_id: str = "c0ffee"

    def get_remaining_time_in_millis(self):
        return 60_000


OTHER_HOST = "i-0000000000000000b"
