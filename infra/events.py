"""What happens to volumes, and what their hosts see, as hints for an early look."""

from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk.aws_events import EventBus, EventPattern, IEventBus, Rule
from aws_cdk.aws_events_targets import LambdaFunction
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.functions import WatchdogFunction

PROBE_SOURCE: Final = "burstwatch.ddprobe"
EBS_EVENTS: Final = ("createVolume", "modifyVolume", "attachVolume", "reattachVolume")


class Hints(Construct):
    """Two rules on the settle function: EBS's own events, and those of probes on a bus of their own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settle: WatchdogFunction,
        probe_bus_name: str,
        failures: IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settle = settle
        self._failures = failures
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
        self._add("Ebs", "EBS volumes made, modified and attached", ebs)
        probe = EventPattern(source=[PROBE_SOURCE])
        self._add("Probe", "stalls that ddprobe reports", probe, self.probe_bus)

    @property
    def probe_policy(self) -> str:
        """The policy document for instances that run the probe, as JSON: this bus and nothing else."""
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

    def _add(self, construct_id: str, what: str, pattern: EventPattern, bus: IEventBus | None = None) -> None:
        Rule(
            self,
            construct_id,
            description=f"burstwatch: {what}",
            event_bus=bus,
            event_pattern=pattern,
            targets=[
                LambdaFunction(
                    self._settle.function,
                    dead_letter_queue=self._failures,
                    max_event_age=Duration.minutes(5),
                    retry_attempts=2,
                )
            ],
        )
