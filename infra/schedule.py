"""The schedules of the watchdog: the sweep on its grid, and the focus every minute."""

from typing import Final

from aws_cdk import Aws
from aws_cdk.aws_iam import Role, ServicePrincipal
from aws_cdk.aws_scheduler import CfnSchedule
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.permissions import grant, invoke, send_messages

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
"""Scheduler replaces this with the time for which the tick was scheduled."""

_MAX_EVENT_AGE_S: Final = 60
"""The least that Scheduler takes; with its default, ticks of a whole day could be replayed."""

_MAX_RETRIES: Final = 2  # within that minute; Source: EventBridge Scheduler API reference, RetryPolicy
_MINUTES_PER_HOUR: Final = 60


class Schedule(Construct):
    """Two schedules of one function. What Scheduler cannot deliver goes to ``dead_letter_queue``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watch: WatchdogFunction,
        sweep_minutes: int,
        dead_letter_queue: IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        self._dead_letter_queue = dead_letter_queue
        self._watch = watch
        self._role = Role(
            self,
            "Role",
            assumed_by=ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={
                    "StringEquals": {
                        "aws:SourceAccount": Aws.ACCOUNT_ID,
                        # the ARN of the schedule group, not of a schedule; Source: Scheduler user guide,
                        # "Confused deputy prevention"
                        "aws:SourceArn": f"arn:{Aws.PARTITION}:scheduler:{Aws.REGION}:{Aws.ACCOUNT_ID}"
                        ":schedule-group/default",
                    }
                },
            ),
            description="burstwatch: starts the watch function",
        )
        grant(
            self._role, invoke(watch.arn), send_messages(dead_letter_queue.queue_arn, sid="KeepFailedTicks")
        )
        self._add_schedule("Sweep", "sweep", sweep_expression(sweep_minutes))
        self._add_schedule("Focus", "focus", "rate(1 minute)")

    def _add_schedule(self, construct_id: str, mode: str, expression: str) -> None:
        schedule = CfnSchedule(
            self,
            construct_id,
            description=f"burstwatch: {mode}",
            schedule_expression=expression,
            flexible_time_window=CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=CfnSchedule.TargetProperty(
                arn=self._watch.arn,
                role_arn=self._role.role_arn,
                input=f'{{"mode":"{mode}","time":"{SCHEDULED_TIME}"}}',
                retry_policy=CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=_MAX_EVENT_AGE_S, maximum_retry_attempts=_MAX_RETRIES
                ),
                dead_letter_config=CfnSchedule.DeadLetterConfigProperty(
                    arn=self._dead_letter_queue.queue_arn
                ),
            ),
        )
        schedule.node.add_dependency(self._role)


def sweep_expression(minutes: int) -> str:
    """A cron expression if the sweep's interval divides the hour; otherwise a rate."""
    if _MINUTES_PER_HOUR % minutes == 0 and minutes < _MINUTES_PER_HOUR:
        return f"cron(0/{minutes} * * * ? *)"
    return f"rate({minutes} minutes)"
