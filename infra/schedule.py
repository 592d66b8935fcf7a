"""When the watchdog looks: the sweep on its grid, the focus every minute, each told its own time."""

from typing import Final

from aws_cdk import Aws
from aws_cdk.aws_iam import Role, ServicePrincipal
from aws_cdk.aws_scheduler import CfnSchedule
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.permissions import grant, invoke, send

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
"""What Scheduler puts the time in place of, at which a tick was due."""

_MOST_AGE_S: Final = 60
_MOST_RETRIES: Final = 2
_MINUTES_OF_AN_HOUR: Final = 60


class Schedule(Construct):
    """Two schedules on one function; what could not be handed over within a minute goes to ``failures``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watch: WatchdogFunction,
        sweep_minutes: int,
        failures: IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        self._failures = failures
        self._watch = watch
        self._role = Role(
            self,
            "Role",
            assumed_by=ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={
                    "StringEquals": {
                        "aws:SourceAccount": Aws.ACCOUNT_ID,
                        "aws:SourceArn": f"arn:{Aws.PARTITION}:scheduler:{Aws.REGION}:{Aws.ACCOUNT_ID}"
                        ":schedule-group/default",
                    }
                },
            ),
            description="burstwatch: starts the watch function",
        )
        grant(self._role, invoke(watch.arn), send(failures.queue_arn, sid="KeepFailedTicks"))
        self._add("Sweep", "sweep", on_grid(sweep_minutes))
        self._add("Focus", "focus", "rate(1 minute)")

    def _add(self, construct_id: str, mode: str, expression: str) -> None:
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
                    maximum_event_age_in_seconds=_MOST_AGE_S, maximum_retry_attempts=_MOST_RETRIES
                ),
                dead_letter_config=CfnSchedule.DeadLetterConfigProperty(arn=self._failures.queue_arn),
            ),
        )
        schedule.node.add_dependency(self._role)


def on_grid(minutes: int) -> str:
    """On the minutes that the policy's sweep tick divides the hour into; a rate where it does not."""
    if _MINUTES_OF_AN_HOUR % minutes == 0 and minutes < _MINUTES_OF_AN_HOUR:
        return f"cron(0/{minutes} * * * ? *)"
    return f"rate({minutes} minutes)"
