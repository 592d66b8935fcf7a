"""The rules for events of EBS, RDS and probes, which are hints to poll a resource early.

EBS events are best effort, so nothing depends on them. Source: EBS user guide, "EventBridge for Amazon EBS".

Both kinds go through queues. Lambda takes many messages at once and runs few functions, so a burst of events
cannot use up the account's concurrency. Reserved concurrency would also limit it, but fails to deploy in
accounts with a limit of ten.
"""

from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk.aws_events import EventBus, EventPattern, IEventBus, Rule
from aws_cdk.aws_events_targets import SqsQueue
from aws_cdk.aws_lambda import CfnEventSourceMapping
from aws_cdk.aws_sqs import DeadLetterQueue, IQueue, Queue, QueueEncryption
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.permissions import receive_messages

PROBE_SOURCE: Final = "burstwatch.ddprobe"
PROBE_SCHEMA: Final = "burstwatch.probe/v1"
VERDICTS: Final = ("warn", "crit")
CAUSES: Final = ("throttled", "exhausted_idle", "stalled", "frozen_or_lock", "io_error")
LOW_CREDITS_EVENT: Final = "RDS-EVENT-0189"
"""The credits of gp2 storage are low. Source: the RDS user guide, "Amazon RDS event categories"."""

EBS_EVENTS: Final = ("createVolume", "modifyVolume", "attachVolume", "reattachVolume")

EBS_WINDOW_S: Final = 20
"""How long events are collected: evaluating a hundred volumes costs hardly more than evaluating one."""

PROBE_WINDOW_S: Final = 5
"""Short, so that people are notified of a stall within a minute."""

MAX_CONCURRENCY: Final = 2
"""Concurrent functions for each queue: Lambda's minimum for an event source."""

_BATCH_SIZE: Final = 100  # over 10 only with a batching window; Source: Lambda developer guide, SQS
_MAX_RECEIVES: Final = 3
"""An event is a hint: after three tries the next tick of the schedule has looked anyway."""

_RETENTION: Final = Duration.minutes(15)
"""Long enough for three tries; what is older than five minutes is dropped when it is read."""


class EventRules(Construct):
    """The rules, each with a queue: settle takes the events of AWS, probe those of hosts, from their own bus.

    The rule for RDS is made only ``with_databases``, and sends to the queue for EBS.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settle: WatchdogFunction,
        probe: WatchdogFunction,
        probe_bus_name: str,
        dead_letter_queue: IQueue,
        with_databases: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._dead_letter_queue = dead_letter_queue
        self.probe_bus = EventBus(
            self,
            "ProbeBus",
            event_bus_name=probe_bus_name,
            description="burstwatch: what ddprobe sees on hosts",
        )
        ebs = EventPattern(
            source=["aws.ec2"],
            detail_type=["EBS Volume Notification"],
            detail={"event": list(EBS_EVENTS)},
        )
        stall = EventPattern(
            source=[PROBE_SOURCE],
            detail_type=["stall"],
            detail={"schema": [PROBE_SCHEMA], "verdict": list(VERDICTS), "cause": list(CAUSES)},
        )
        ebs_queue, probe_queue = self._make_queue("Ebs", settle), self._make_queue("Probe", probe)
        self._add_rule("Ebs", "EBS volumes made, modified and attached", ebs, ebs_queue)
        self._add_rule("Probe", "stalls that ddprobe reports", stall, probe_queue, self.probe_bus)
        if with_databases:
            low_credits = EventPattern(
                source=["aws.rds"],
                detail_type=["RDS DB Instance Event"],
                detail={"EventID": [LOW_CREDITS_EVENT]},
            )
            self._add_rule("Rds", "RDS says that storage credits are low", low_credits, ebs_queue)
        self._deliver(ebs_queue, settle, EBS_WINDOW_S)
        self._deliver(probe_queue, probe, PROBE_WINDOW_S)

    @property
    def probe_policy(self) -> str:
        """The policy document, as JSON, for instances that run the probe: it allows this bus only."""
        document = Stack.of(self).to_json_string(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": "ReportStalls",
                        "Effect": "Allow",
                        "Action": "events:PutEvents",
                        "Resource": self.probe_bus.event_bus_arn,
                        "Condition": {"StringEquals": {"events:source": PROBE_SOURCE}},
                    }
                ],
            }
        )
        return str(document)

    def _make_queue(self, construct_id: str, function: WatchdogFunction) -> Queue:
        """A queue for the function, to which only its rules may send."""
        return Queue(
            self,
            f"{construct_id}Events",
            encryption=QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            # as AWS advises: six times the function's timeout, plus the batching window. Source: Lambda
            # developer guide, SQS.
            visibility_timeout=Duration.seconds(6 * function.sizing.timeout_s + EBS_WINDOW_S),
            retention_period=_RETENTION,
            dead_letter_queue=DeadLetterQueue(queue=self._dead_letter_queue, max_receive_count=_MAX_RECEIVES),
        )

    def _add_rule(
        self,
        construct_id: str,
        description: str,
        pattern: EventPattern,
        queue: Queue,
        bus: IEventBus | None = None,
    ) -> None:
        target = SqsQueue(
            queue,
            dead_letter_queue=self._dead_letter_queue,
            max_event_age=Duration.minutes(5),
            retry_attempts=2,
        )
        Rule(
            self,
            construct_id,
            description=f"burstwatch: {description}",
            event_bus=bus,
            event_pattern=pattern,
            targets=[target],
        )

    def _deliver(self, queue: Queue, function: WatchdogFunction, window_s: int) -> None:
        """Invoke the function with the messages of the queue; it reports which of a batch failed."""
        function.allow(receive_messages(queue.queue_arn, sid="TakeEvents"))
        source = CfnEventSourceMapping(
            self,
            f"{queue.node.id}Source",
            function_name=function.name,
            event_source_arn=queue.queue_arn,
            batch_size=_BATCH_SIZE,
            maximum_batching_window_in_seconds=window_s,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=MAX_CONCURRENCY),
        )
        source.node.add_dependency(function.role)
