"""The deployed stack on the local AWS; it uses the lab's volumes and the lab's clock."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from botocore.config import Config

from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstwatch.core.errors import BurstwatchError

HANDLERS: Final = ("watch", "flip", "settle", "probe", "notify")
# the two schedules of the deployed stack
TICK_S: Final = 60
SWEEP_S: Final = 300

_HANDLER_PATH: Final = "burstwatch.handlers.{handler_name}.handler"
_SOURCE: Final = "burstlab"
_IDLE_TIMEOUT_S: Final = 60.0  # a flip function runs for less than a second here
_POLL_INTERVAL_S: Final = 0.05  # the demo waits for this at every tick; a look takes 10 ms of processor time
_CLIENT_CONFIG: Final = Config(retries={"mode": "standard", "total_max_attempts": 10})
"""Of ten concurrent functions none may be free while slow ones start; the Scheduler would try again."""
_UPDATE_TIMEOUT_S: Final = 15.0  # ministack changes a function at once
_MAX_EVENTS_PER_CALL: Final = 10
"""The most that PutEvents takes."""


class DeployedStackError(BurstwatchError):
    """The deployed stack failed; the message has the output of its function."""


@dataclass(slots=True, kw_only=True)
class DeployedStack:
    """One deployed stack: ``functions`` by verb, ``settings`` as they were deployed for the watch function.

    ``stuck_requests`` is how many messages of the flip queue are not waited for, because they are poison.
    """

    aws: LocalAws
    endpoint: Endpoint
    name: str
    functions: Mapping[str, str]
    settings: Mapping[str, str]
    stuck_requests: int = 0
    _forwarded_events: int = 0
    _clients: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def find(cls, aws: LocalAws, endpoint: Endpoint, *, name: str = "burstwatch") -> Self:
        """The stack of this name, as it is deployed.

        Raises:
            StageError: a function is not there.
        """
        functions_by_handler: dict[str, str] = {}
        settings: Mapping[str, str] = {}
        client = aws.client("lambda")
        for function in _resource_ids(aws, name, "AWS::Lambda::Function"):
            configuration = client.get_function_configuration(FunctionName=function)
            handler = next(
                (
                    handler
                    for handler in HANDLERS
                    if configuration["Handler"] == _HANDLER_PATH.format(handler_name=handler)
                ),
                None,
            )
            if handler is not None:
                functions_by_handler[handler] = function
            if handler == "watch":
                settings = configuration["Environment"]["Variables"]
        if "watch" not in functions_by_handler:
            raise DeployedStackError(f"the stack {name} has no function that watches: deploy it first")
        return cls(aws=aws, endpoint=endpoint, name=name, functions=functions_by_handler, settings=settings)

    @property
    def ledger(self) -> str:
        """As ``burstctl --ledger`` takes it."""
        return self.settings["BURSTWATCH_LEDGER"]

    @property
    def ledger_table(self) -> str:
        return self.ledger.removeprefix("dynamodb:")

    @property
    def flip_queue_url(self) -> str:
        return self.settings["BURSTWATCH_FLIP_QUEUE_URL"]

    @property
    def dead_letter_queue_url(self) -> str:
        """The queue that flip requests end in."""
        arn = self._redrive_policy()["deadLetterTargetArn"]
        url: str = self.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        return url

    def _redrive_policy(self) -> dict[str, Any]:
        response = self.client("sqs").get_queue_attributes(
            QueueUrl=self.flip_queue_url, AttributeNames=["RedrivePolicy"]
        )
        policy: dict[str, Any] = json.loads(response["Attributes"]["RedrivePolicy"])
        return policy

    @property
    def environment(self) -> dict[str, str]:
        """What burstctl needs to operate this stack: the local AWS, and the lab's volumes and time."""
        return self.aws.environment | self._endpoint_environment() | {"BURSTWATCH_CLOCK": "endpoint"}

    def client(self, service: str) -> Any:
        """A boto3 client of the local AWS, kept."""
        if service not in self._clients:
            self._clients[service] = self.aws.client(service, config=_CLIENT_CONFIG)
        return self._clients[service]

    def use_lab_endpoint(self) -> None:
        """Point what the functions read at the lab, and their clock at what invokes them."""
        for handler in self.functions:
            self.update_environment(handler, self._endpoint_environment() | {"BURSTWATCH_CLOCK": "event"})

    def update_environment(self, handler: str, changes: Mapping[str, str | None]) -> None:
        """Change a function's environment, as the stack or an operator would; None takes a variable away.

        Raises:
            StageError: it takes too long.
        """
        client, name = self.client("lambda"), self.functions[handler]
        variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        new_variables = {
            key: value for key, value in (variables | dict(changes)).items() if value is not None
        }
        client.update_function_configuration(FunctionName=name, Environment={"Variables": new_variables})
        deadline = time.monotonic() + _UPDATE_TIMEOUT_S
        while client.get_function_configuration(FunctionName=name)["LastUpdateStatus"] == "InProgress":
            if time.monotonic() > deadline:
                raise DeployedStackError(f"{handler} is not changed after {_UPDATE_TIMEOUT_S:g} s")
            time.sleep(_POLL_INTERVAL_S)

    def set_slack_webhook(self, webhook_url: str) -> None:
        """Keep a webhook's address as a secret, and let notify use it."""
        secret = f"{self.name}-lab-slack"
        self.client("secretsmanager").create_secret(Name=secret, SecretString=webhook_url)
        self.update_environment("notify", {"BURSTWATCH_SLACK_SECRET": secret})

    def set_max_receive_count(self, count: int) -> None:
        """How often a flip request is tried before it is a dead letter."""
        policy = json.dumps(self._redrive_policy() | {"maxReceiveCount": count})
        self.client("sqs").set_queue_attributes(
            QueueUrl=self.flip_queue_url, Attributes={"RedrivePolicy": policy}
        )

    def set_schedule_state(self, *, is_on: bool) -> None:
        """Let the Scheduler invoke the functions in real time, or not."""
        scheduler = self.client("scheduler")
        for name in _resource_ids(self.aws, self.name, "AWS::Scheduler::Schedule"):
            schedule = scheduler.get_schedule(Name=name.rpartition("/")[2])
            arguments = {key: schedule[key] for key in _SCHEDULE_FIELDS if key in schedule}
            scheduler.update_schedule(**arguments, State="ENABLED" if is_on else "DISABLED")

    def invoke(self, handler: str, event: Mapping[str, Any]) -> Any:
        """Invoke a function and wait for its answer.

        Raises:
            StageError: it failed; with the end of its log.
        """
        response = self.client("lambda").invoke(
            FunctionName=self.functions[handler], Payload=json.dumps(event).encode(), LogType="Tail"
        )
        result = json.loads(response["Payload"].read() or b"null")
        if "FunctionError" in response:
            log = base64.b64decode(response.get("LogResult", "")).decode(errors="replace")
            raise DeployedStackError(f"{handler} failed on {json.dumps(event)}: {json.dumps(result)}\n{log}")
        return result

    def invoke_watch(self, mode: str, at_s: float | None = None) -> Any:
        """One tick, now in the lab's time or at the moment given."""
        at_s = self.endpoint.fleet.now_s() if at_s is None else at_s
        tick_at = datetime.fromtimestamp(at_s, tz=UTC)
        return self.invoke("watch", {"mode": mode, "time": f"{tick_at:%Y-%m-%dT%H:%M:%SZ}"})

    def tick(self) -> None:
        """Do what the schedules do at this minute, and wait until the requested flips are done."""
        if self.endpoint.fleet.now_s() % SWEEP_S == 0:
            self.invoke_watch("sweep")
        self.invoke_watch("focus")
        self.wait_until_idle()

    def forward_events(self) -> list[Mapping[str, Any]]:
        """Send the new EBS events through EventBridge; return those that reach settle.

        EventBridge accepts events with the source ``aws.ec2`` only from AWS. So each event that matches the
        deployed rule is sent inside an event of the lab, through a rule that extracts it, to the same queue.
        Source: EventBridge API reference, PutEvents.
        """
        events = self.endpoint.fleet.events[self._forwarded_events :]
        self._forwarded_events += len(events)
        if not events or "settle" not in self.functions:
            return []
        patterns = self._event_patterns()
        bodies = [
            event.body for event in events if any(self._matches(pattern, event.body) for pattern in patterns)
        ]
        for body in bodies:
            self.put_events(body)
        return bodies

    def put_events(self, *bodies: Mapping[str, Any]) -> None:
        """Send events of EBS through EventBridge, whatever their content."""
        self._create_event_rule()
        entries = [
            {"Source": _SOURCE, "DetailType": self.name, "Detail": json.dumps(body)} for body in bodies
        ]
        for start in range(0, len(entries), _MAX_EVENTS_PER_CALL):
            response = self.client("events").put_events(Entries=entries[start : start + _MAX_EVENTS_PER_CALL])
            if response["FailedEntryCount"]:
                raise DeployedStackError(f"EventBridge did not take every event: {response['Entries']}")

    def wait_until_idle(self) -> None:
        """Wait until no flip request is waiting or being carried out.

        Raises:
            StageError: it takes too long.
        """
        if "flip" not in self.functions:
            return
        deadline = time.monotonic() + _IDLE_TIMEOUT_S
        while (count := self.count_messages(self.flip_queue_url)) > self.stuck_requests:
            if time.monotonic() > deadline:
                raise DeployedStackError(f"{count} flip requests are not done after {_IDLE_TIMEOUT_S:g} s")
            time.sleep(_POLL_INTERVAL_S)

    def count_messages(self, queue_url: str) -> int:
        """How many messages a queue holds, those being worked on included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        response = self.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
        return sum(int(response["Attributes"][name]) for name in names)

    def count_throttles(self, *handlers: str) -> float:
        """Invocations of these functions that were refused because too many were running."""
        now = datetime.now(UTC)
        statistics = [
            self.client("cloudwatch").get_metric_statistics(
                Namespace="AWS/Lambda",
                MetricName="Throttles",
                Dimensions=[{"Name": "FunctionName", "Value": function}],
                StartTime=now - timedelta(hours=1),
                EndTime=now + timedelta(minutes=1),
                Period=60,
                Statistics=["Sum"],
            )
            for function in (self.functions[handler] for handler in handlers)
        ]
        return sum(float(point["Sum"]) for statistic in statistics for point in statistic["Datapoints"])

    def log_lines(self, handler: str) -> list[str]:
        """What a function has logged, a line each."""
        name = self.functions[handler]
        configuration = self.client("lambda").get_function_configuration(FunctionName=name)
        group = configuration.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{name}"
        pages = self.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        return [event["message"] for page in pages for event in page["events"]]

    def log_records(self, handler: str) -> Iterator[dict[str, Any]]:
        """Those lines of a function's log that are JSON."""
        for line in self.log_lines(handler):
            if line.startswith("{"):
                yield json.loads(line)

    def _endpoint_environment(self) -> dict[str, str]:
        url = self.endpoint.url
        return {f"AWS_ENDPOINT_URL_{service}": url for service in ("EC2", "CLOUDWATCH", "EFS", "RDS")}

    def _event_patterns(self) -> list[str]:
        """Of the stack's rules on the default bus."""
        deployed = set(_resource_ids(self.aws, self.name, "AWS::Events::Rule"))
        rules = self.client("events").list_rules()["Rules"]
        return [rule["EventPattern"] for rule in rules if rule["Name"] in deployed]

    def _matches(self, pattern: str, body: Mapping[str, Any]) -> bool:
        response = self.client("events").test_event_pattern(EventPattern=pattern, Event=json.dumps(body))
        return bool(response["Result"])

    def _create_event_rule(self) -> None:
        """A rule of the lab's own, which hands settle what is inside."""
        pattern = json.dumps({"source": [_SOURCE], "detail-type": [self.name]})
        self.client("events").put_rule(Name=self._rule_name, EventPattern=pattern)
        target = {"Id": "settle", "Arn": self.event_queue_arn, "InputPath": "$.detail"}
        self.client("events").put_targets(Rule=self._rule_name, Targets=[target])

    @property
    def _rule_name(self) -> str:
        return f"{self.name}-lab"

    @property
    def event_queue_arn(self) -> str:
        """The queue that the stack's rule on the default bus sends EBS's events to."""
        events, deployed = self.client("events"), set(_resource_ids(self.aws, self.name, "AWS::Events::Rule"))
        for rule in events.list_rules()["Rules"]:
            if rule["Name"] in deployed:
                [target] = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
                return str(target["Arn"])
        raise DeployedStackError(f"the stack {self.name} has no rule for EBS's events")


_SCHEDULE_FIELDS: Final = (
    "Name",
    "GroupName",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "FlexibleTimeWindow",
    "Target",
    "Description",
    "KmsKeyArn",
    "StartDate",
    "EndDate",
)


def bootstrap(aws: LocalAws) -> None:
    """Prepare the local AWS for the CDK, as an account is prepared once."""
    aws.run_cdk("bootstrap", f"aws://{aws.account}/{aws.region}", cwd=aws.directory)


def deploy(aws: LocalAws, *options: str) -> str:
    """Deploy the app as it is; answer what the CDK said."""
    return aws.run_cdk("deploy", "--all", "--require-approval", "never", *options)


def _resource_ids(aws: LocalAws, stack: str, resource_type: str) -> list[str]:
    """Physical ids of a stack's resources of one type."""
    pages = aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    summaries = (summary for page in pages for summary in page["StackResourceSummaries"])
    return [
        summary["PhysicalResourceId"] for summary in summaries if summary["ResourceType"] == resource_type
    ]
