"""The alarms on the watchdog itself. They use AWS's own metrics where possible, which need no code of ours.

The name of each alarm is the name of its page in ``runbooks/``. Each alarm states what missing data means.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aws_cdk import Duration
from aws_cdk.aws_cloudwatch import Alarm, CfnAlarm, ComparisonOperator, IAlarm, Metric, TreatMissingData
from aws_cdk.aws_cloudwatch_actions import SnsAction
from aws_cdk.aws_sns import ITopic
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.metrics import (
    FIVE_MINUTES,
    MINUTE,
    lambda_metric,
    queue_age_metric,
    queue_depth_metric,
    service_metric,
)

BACKSTOP_ALARM: Final = "LowBurstBalance"
_PERIODS_PER_HOUR: Final = 12  # the alarm looks at the last hour at most
BACKSTOP_QUERY: Final = (
    'SELECT MIN(BurstBalance) FROM SCHEMA("AWS/EBS", VolumeId) GROUP BY VolumeId ORDER BY MIN() ASC LIMIT 500'
)
"""SCHEMA matches metrics with exactly these dimensions, and 500 series are the most that a query returns.

Source: CloudWatch user guide, "CloudWatch Metrics Insights service quotas".
"""


_LONGEST_PASS_PERIODS: Final = 2
"""Five-minute periods in which an invocation of at most five minutes may have begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSpec:
    """One alarm: its metric, its threshold, and what missing data means."""

    name: str
    metric: Metric
    description: str
    threshold: float = 1
    is_below: bool = False
    datapoints_to_alarm: int = 1
    evaluation_periods: int | None = None
    """How many periods are examined for ``datapoints_to_alarm``; None: exactly as many as those."""
    missing_data: TreatMissingData = TreatMissingData.NOT_BREACHING
    handler_name: str = ""
    """The function that the alarm is about, if each function has one."""
    notifies_ok: bool = True
    """Whether the end is notified too; False if a failed delivery would trigger the alarm again."""


class Alarms(Construct):
    """All alarms of a deployment. Each notifies the alerts topic when it begins, and most do when it ends."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, topic: ITopic, runbook_template: str
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self._topic = topic
        self._runbook_template = runbook_template
        self.alarms: list[IAlarm] = []

    def add(self, *specs: AlarmSpec) -> None:
        """Create these alarms."""
        for spec in specs:
            suffix = f"-{spec.handler_name}" if spec.handler_name else ""
            alarm = Alarm(
                self,
                f"{spec.name}{spec.handler_name.capitalize()}",
                alarm_name=f"{self._name}-{spec.name}{suffix}",
                alarm_description=self._describe(spec.name, spec.description),
                metric=spec.metric,
                threshold=spec.threshold,
                comparison_operator=_comparison(spec),
                evaluation_periods=spec.evaluation_periods or spec.datapoints_to_alarm,
                datapoints_to_alarm=spec.datapoints_to_alarm,
                treat_missing_data=spec.missing_data,
            )
            action = SnsAction(self._topic)
            alarm.add_alarm_action(action)
            if spec.notifies_ok:
                alarm.add_ok_action(action)
            self.alarms.append(alarm)

    def add_backstop(self, lowest_pct: int) -> None:
        """A backstop without our code: CloudWatch examines every volume itself, and charges for each."""
        description = "A volume is low on credits, according to CloudWatch itself."
        query = CfnAlarm.MetricDataQueryProperty(
            id="balance", expression=BACKSTOP_QUERY, period=FIVE_MINUTES.to_seconds(), return_data=True
        )
        CfnAlarm(
            self,
            BACKSTOP_ALARM,
            alarm_name=f"{self._name}-{BACKSTOP_ALARM}",
            alarm_description=self._describe(BACKSTOP_ALARM, description),
            metrics=[query],
            threshold=lowest_pct,
            comparison_operator="LessThanOrEqualToThreshold",
            evaluation_periods=1,
            datapoints_to_alarm=1,
            treat_missing_data="notBreaching",
            alarm_actions=[self._topic.topic_arn],
            ok_actions=[self._topic.topic_arn],
        )

    def _describe(self, name: str, description: str) -> str:
        """The description, and where its page is; the notify function finds the page after this word."""
        address = self._runbook_template.replace("{page}", name)
        page = address if address.startswith("https://") else f"burstctl runbook {name}"
        return f"{description} Runbook: {page}"


def heartbeat_alarm(watch: WatchdogFunction) -> AlarmSpec:
    """The watchdog or one of its two schedules stopped: the focus schedule alone causes more invocations."""
    return AlarmSpec(
        name="WatchdogSilent",
        metric=lambda_metric("Invocations", "Sum", watch),
        description="The watchdog has hardly run, or not at all, for ten minutes: volumes empty unseen.",
        threshold=3,
        is_below=True,
        datapoints_to_alarm=2,
        missing_data=TreatMissingData.BREACHING,
    )


def error_alarms(functions: Sequence[WatchdogFunction]) -> list[AlarmSpec]:
    """A function fails.

    Lambda attributes an error to the minute in which the invocation began, which may be five minutes before
    it ended. So the alarm examines two periods.
    """
    specs = [
        AlarmSpec(
            name="WatchdogErrors",
            handler_name=function.handler_name,
            evaluation_periods=_LONGEST_PASS_PERIODS,
            metric=lambda_metric("Errors", "Sum", function),
            description=f"The {function.handler_name} function fails.",
        )
        for function in functions
    ]
    return [_without_feedback_loop(spec) if spec.handler_name == "notify" else spec for spec in specs]


def throttle_alarms(functions: Sequence[WatchdogFunction]) -> list[AlarmSpec]:
    """Lambda throttles a function. The events of those without this alarm wait in a queue."""
    return [
        AlarmSpec(
            name="WatchdogThrottled",
            handler_name=function.handler_name,
            metric=lambda_metric("Throttles", "Sum", function),
            description=(f"Lambda throttles {function.handler_name}: the account's concurrency is used up."),
        )
        for function in functions
    ]


def dead_letter_alarms(*, events: IQueue, alerts: IQueue, flips: IQueue | None) -> list[AlarmSpec]:
    """A dead-letter queue has a message."""
    specs = [
        AlarmSpec(
            name="TicksDeadLettered",
            metric=queue_depth_metric(events),
            description="A tick or an event was given up; it waits in a queue.",
        ),
        _without_feedback_loop(
            AlarmSpec(
                name="AlertsDeadLettered",
                metric=queue_depth_metric(alerts),
                description="An alert did not reach a subscriber; it waits in a queue.",
            )
        ),
    ]
    if flips is not None:
        specs.append(
            AlarmSpec(
                name="FlipRequestsDeadLettered",
                metric=queue_depth_metric(flips),
                description="A requested flip could not be processed; the request waits in a queue.",
            )
        )
    return specs


def freshness_alarms(deployment: str, *, metric_lag_s: int, gap_after_s: int) -> list[AlarmSpec]:
    """The watchdog runs, but it has no current data.

    If only one volume has no new datapoints, it becomes a telemetry gap, which has its own alert. The alarm
    means that CloudWatch is late as a whole: some datapoint is too old for longer than that takes.
    """
    too_old_s = 2 * metric_lag_s
    single_gap_s = max(0, gap_after_s - too_old_s)
    return [
        AlarmSpec(
            name="VolumesUnread",
            metric=service_metric("VolumesUnread", "Maximum", deployment=deployment),
            description="For 15 minutes, a volume could not be read: it is not watched.",
            datapoints_to_alarm=3,
        ),
        AlarmSpec(
            name="DatapointsTooOld",
            metric=service_metric("WorstDatapointAge", "Maximum", deployment=deployment),
            description=f"CloudWatch is {too_old_s // 60} minutes behind: drains are seen that much later.",
            threshold=too_old_s,
            datapoints_to_alarm=min(single_gap_s // FIVE_MINUTES.to_seconds() + 2, _PERIODS_PER_HOUR),
        ),
        _without_feedback_loop(
            AlarmSpec(
                name="AlertsNotDelivered",
                metric=service_metric("AlertsNotDelivered", "Sum", deployment=deployment, period=MINUTE),
                description="An alert could not be sent; burstwatch tries again.",
            )
        ),
    ]


def dropped_event_alarms(deployment: str) -> list[AlarmSpec]:
    """Events were dropped: more probe events than repeats of a healthy host explain, or any EBS event."""
    return [
        AlarmSpec(
            name="ProbeEventsDropped",
            metric=service_metric("ProbeEventsDropped", "Sum", deployment=deployment),
            description=(
                "Reports of hosts are dropped: malformed, repeated, or about another instance's volumes."
            ),
            threshold=5,
        ),
        AlarmSpec(
            name="EbsEventsDropped",
            metric=service_metric("EbsEventsDropped", "Sum", deployment=deployment),
            description="EBS events waited for over five minutes and were dropped: only ticks find changes.",
        ),
    ]


def flip_alarms(deployment: str) -> list[AlarmSpec]:
    """A modification was intended and was not made."""
    return [
        AlarmSpec(
            name="FlipsFailed",
            metric=service_metric("FlipsFailed", "Sum", deployment=deployment),
            description="AWS did not make a modification.",
        ),
        AlarmSpec(
            name="FlipsStuck",
            metric=service_metric("FlipsStuck", "Maximum", deployment=deployment),
            description="A modification takes twice as long as it should.",
        ),
        AlarmSpec(
            name="AnotherDeployment",
            metric=service_metric("NotStanding", "Maximum", deployment=deployment),
            description="Another deployment appears to flip here: this one only proposes.",
            datapoints_to_alarm=2,
        ),
    ]


def queue_age_alarm(flips: IQueue) -> AlarmSpec:
    """Flips are requested, but no function takes the requests."""
    return AlarmSpec(
        name="FlipRequestsWaiting",
        metric=queue_age_metric(flips),
        description="A flip requested minutes ago has not begun: no function takes the requests.",
        threshold=240,
        datapoints_to_alarm=2,
    )


def _without_feedback_loop(spec: AlarmSpec) -> AlarmSpec:
    """Keep an alarm that a failed delivery triggers from triggering itself, even if notify cannot start.

    Its own message may also fail, several minutes later, because Lambda retries. So the alarm stays in ALARM
    until 15 minutes have passed without a failure. It sends no message then, because that could fail too.
    """
    periods = Duration.minutes(15).to_seconds() // spec.metric.period.to_seconds()
    return replace(spec, evaluation_periods=int(periods), notifies_ok=False)


def _comparison(spec: AlarmSpec) -> ComparisonOperator:
    if spec.is_below:
        return ComparisonOperator.LESS_THAN_THRESHOLD
    return ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
