"""The deployed stack on the local AWS, its eyes on the lab's volumes and its clock the lab's."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstwatch.core.errors import BurstwatchError

VERBS: Final = ("watch", "flip", "settle", "notify")
TICK_S: Final = 60
SWEEP_S: Final = 300

_HANDLER: Final = "burstwatch.handlers.{verb}.handler"
_SOURCE: Final = "burstlab"
_QUIET_WITHIN_S: Final = 60.0
_LOOK_S: Final = 0.02
_CHANGES_WITHIN_S: Final = 15.0
_EVENTS_PER_CALL: Final = 10
"""The most that PutEvents takes."""


class StageError(BurstwatchError):
    """The deployed stack did not do what was asked; the message says what its function said."""


@dataclass(slots=True, kw_only=True)
class DeployedStage:
    """One deployed stack: ``functions`` by verb, ``settings`` as they were deployed for the watch function.

    ``stuck`` is how many messages of the flip queue are not waited for, because they are poison.
    """

    aws: LocalAws
    endpoint: Endpoint
    name: str
    functions: Mapping[str, str]
    settings: Mapping[str, str]
    stuck: int = 0
    _events_told: int = 0
    _clients: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def find(cls, aws: LocalAws, endpoint: Endpoint, *, name: str = "burstwatch") -> Self:
        """The stack of this name, as it is deployed.

        Raises:
            StageError: a function is not there.
        """
        found: dict[str, str] = {}
        settings: Mapping[str, str] = {}
        functions = aws.client("lambda")
        for function in _resources(aws, name, "AWS::Lambda::Function"):
            told = functions.get_function_configuration(FunctionName=function)
            verb = next((verb for verb in VERBS if told["Handler"] == _HANDLER.format(verb=verb)), None)
            if verb is not None:
                found[verb] = function
            if verb == "watch":
                settings = told["Environment"]["Variables"]
        if "watch" not in found:
            raise StageError(f"the stack {name} has no function that watches: deploy it first")
        return cls(aws=aws, endpoint=endpoint, name=name, functions=found, settings=settings)

    @property
    def ledger(self) -> str:
        """As ``burstctl --ledger`` takes it."""
        return self.settings["BURSTWATCH_LEDGER"]

    @property
    def table(self) -> str:
        return self.ledger.removeprefix("dynamodb:")

    @property
    def flip_queue(self) -> str:
        return self.settings["BURSTWATCH_FLIP_QUEUE_URL"]

    @property
    def dead_letters(self) -> str:
        """The queue that flip requests end in."""
        arn = self._redrive_policy()["deadLetterTargetArn"]
        url: str = self.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        return url

    def _redrive_policy(self) -> dict[str, Any]:
        queue = self.client("sqs").get_queue_attributes(
            QueueUrl=self.flip_queue, AttributeNames=["RedrivePolicy"]
        )
        policy: dict[str, Any] = json.loads(queue["Attributes"]["RedrivePolicy"])
        return policy

    @property
    def environment(self) -> dict[str, str]:
        """What burstctl needs to operate this stack: the local AWS, and the lab's volumes and time."""
        return self.aws.environment | self._eyes() | {"BURSTWATCH_CLOCK": "endpoint"}

    def client(self, service: str) -> Any:
        """A boto3 client of the local AWS, kept."""
        if service not in self._clients:
            self._clients[service] = self.aws.client(service)
        return self._clients[service]

    def look_at_the_lab(self) -> None:
        """Point the functions' EC2 and CloudWatch at the lab, and their clock at what invokes them."""
        for verb in self.functions:
            self.change_settings(verb, self._eyes() | {"BURSTWATCH_CLOCK": "event"})

    def change_settings(self, verb: str, changes: Mapping[str, str | None]) -> None:
        """Change a function's environment, as the stack or an operator would; None takes a variable away.

        Raises:
            StageError: it takes too long.
        """
        functions, name = self.client("lambda"), self.functions[verb]
        held = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        changed = {key: value for key, value in (held | dict(changes)).items() if value is not None}
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": changed})
        until = time.monotonic() + _CHANGES_WITHIN_S
        while functions.get_function_configuration(FunctionName=name)["LastUpdateStatus"] == "InProgress":
            if time.monotonic() > until:
                raise StageError(f"{verb} is not changed after {_CHANGES_WITHIN_S:g} s")
            time.sleep(_LOOK_S)

    def tell_slack(self, webhook_url: str) -> None:
        """Keep a webhook's address as a secret, and let notify use it."""
        secret = f"{self.name}-lab-slack"
        self.client("secretsmanager").create_secret(Name=secret, SecretString=webhook_url)
        self.change_settings("notify", {"BURSTWATCH_SLACK_SECRET": secret})

    def set_most_receives(self, count: int) -> None:
        """How often a flip request is tried before it is a dead letter."""
        policy = json.dumps(self._redrive_policy() | {"maxReceiveCount": count})
        self.client("sqs").set_queue_attributes(
            QueueUrl=self.flip_queue, Attributes={"RedrivePolicy": policy}
        )

    def set_schedule(self, *, is_on: bool) -> None:
        """Let the Scheduler invoke the functions in real time, or not."""
        scheduler = self.client("scheduler")
        for name in _resources(self.aws, self.name, "AWS::Scheduler::Schedule"):
            told = scheduler.get_schedule(Name=name.rpartition("/")[2])
            kept = {key: told[key] for key in _OF_A_SCHEDULE if key in told}
            scheduler.update_schedule(**kept, State="ENABLED" if is_on else "DISABLED")

    def invoke(self, verb: str, event: Mapping[str, Any]) -> Any:
        """Invoke a function and wait for its answer.

        Raises:
            StageError: it failed; with the end of its log.
        """
        answer = self.client("lambda").invoke(
            FunctionName=self.functions[verb], Payload=json.dumps(event).encode(), LogType="Tail"
        )
        said = json.loads(answer["Payload"].read() or b"null")
        if "FunctionError" in answer:
            log = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace")
            raise StageError(f"{verb} failed on {json.dumps(event)}: {json.dumps(said)}\n{log}")
        return said

    def watch(self, mode: str, at_s: float | None = None) -> Any:
        """One tick, now in the lab's time or at the moment given."""
        at_s = self.endpoint.fleet.now_s() if at_s is None else at_s
        at = datetime.fromtimestamp(at_s, tz=UTC)
        return self.invoke("watch", {"mode": mode, "time": f"{at:%Y-%m-%dT%H:%M:%SZ}"})

    def tick(self) -> None:
        """Do what the schedule does at this minute, and wait until all flips it led to are asked for."""
        if self.endpoint.fleet.now_s() % SWEEP_S == 0:
            self.watch("sweep")
        self.watch("focus")
        self.wait_until_quiet()

    def tell_events(self) -> list[Mapping[str, Any]]:
        """Put what EBS told since the last time through EventBridge; answer what of it settle gets.

        EventBridge takes no events of ``aws.ec2`` from anybody but EBS. So each one that the deployed rule's
        pattern matches travels inside an event of the lab's own, to the same queue, in which it looks the
        same.
        """
        told = self.endpoint.fleet.events[self._events_told :]
        self._events_told += len(told)
        if not told or "settle" not in self.functions:
            return []
        patterns = self._patterns()
        wanted = [event.body for event in told if any(self._matches(p, event.body) for p in patterns)]
        for body in wanted:
            self.tell_event(body)
        return wanted

    def tell_event(self, *bodies: Mapping[str, Any]) -> None:
        """Put events of EBS through EventBridge, whatever they are."""
        self._open_the_way()
        entries = [
            {"Source": _SOURCE, "DetailType": self.name, "Detail": json.dumps(body)} for body in bodies
        ]
        for start in range(0, len(entries), _EVENTS_PER_CALL):
            answer = self.client("events").put_events(Entries=entries[start : start + _EVENTS_PER_CALL])
            if answer["FailedEntryCount"]:
                raise StageError(f"EventBridge did not take every event: {answer['Entries']}")

    def wait_until_quiet(self) -> None:
        """Wait until no flip request is waiting or being carried out.

        Raises:
            StageError: it takes too long.
        """
        if "flip" not in self.functions:
            return
        until = time.monotonic() + _QUIET_WITHIN_S
        while (left := self.waiting(self.flip_queue)) > self.stuck:
            if time.monotonic() > until:
                raise StageError(f"{left} flip requests are not done after {_QUIET_WITHIN_S:g} s")
            time.sleep(_LOOK_S)

    def waiting(self, queue_url: str) -> int:
        """How many messages a queue holds, those being worked on included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
        return sum(int(told["Attributes"][name]) for name in names)

    def throttles(self) -> float:
        """Invocations of the stack's functions that were refused because too many were running."""
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
            for function in self.functions.values()
        ]
        return sum(float(point["Sum"]) for found in statistics for point in found["Datapoints"])

    def log(self, verb: str) -> list[str]:
        """What a function has logged, a line each."""
        name = self.functions[verb]
        told = self.client("lambda").get_function_configuration(FunctionName=name)
        group = told.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{name}"
        pages = self.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        return [event["message"] for page in pages for event in page["events"]]

    def log_records(self, verb: str) -> Iterator[dict[str, Any]]:
        """Those lines of a function's log that are JSON."""
        for line in self.log(verb):
            if line.startswith("{"):
                yield json.loads(line)

    def _eyes(self) -> dict[str, str]:
        url = self.endpoint.url
        return {"AWS_ENDPOINT_URL_EC2": url, "AWS_ENDPOINT_URL_CLOUDWATCH": url}

    def _patterns(self) -> list[str]:
        """Of the stack's rules on the default bus."""
        deployed = set(_resources(self.aws, self.name, "AWS::Events::Rule"))
        rules = self.client("events").list_rules()["Rules"]
        return [rule["EventPattern"] for rule in rules if rule["Name"] in deployed]

    def _matches(self, pattern: str, body: Mapping[str, Any]) -> bool:
        told = self.client("events").test_event_pattern(EventPattern=pattern, Event=json.dumps(body))
        return bool(told["Result"])

    def _open_the_way(self) -> None:
        """A rule of the lab's own, which hands settle what is inside."""
        pattern = json.dumps({"source": [_SOURCE], "detail-type": [self.name]})
        self.client("events").put_rule(Name=self._rule, EventPattern=pattern)
        target = {"Id": "settle", "Arn": self.event_queue_arn, "InputPath": "$.detail"}
        self.client("events").put_targets(Rule=self._rule, Targets=[target])

    @property
    def _rule(self) -> str:
        return f"{self.name}-lab"

    @property
    def event_queue_arn(self) -> str:
        """The queue that the stack's rule on the default bus sends EBS's events to."""
        events, deployed = self.client("events"), set(_resources(self.aws, self.name, "AWS::Events::Rule"))
        for rule in events.list_rules()["Rules"]:
            if rule["Name"] in deployed:
                [target] = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
                return str(target["Arn"])
        raise StageError(f"the stack {self.name} has no rule for EBS's events")


_OF_A_SCHEDULE: Final = (
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
    aws.run_cdk("bootstrap", f"aws://{aws.account}/{aws.region}", cwd=aws.folder)


def deploy(aws: LocalAws, *options: str) -> str:
    """Deploy the app as it is; answer what the CDK said."""
    return aws.run_cdk("deploy", "--all", "--require-approval", "never", *options)


def _resources(aws: LocalAws, stack: str, kind: str) -> list[str]:
    """Physical ids of a stack's resources of one type."""
    pages = aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    found = (one for page in pages for one in page["StackResourceSummaries"])
    return [one["PhysicalResourceId"] for one in found if one["ResourceType"] == kind]
