"""Who watches the watchdog: AWS's own metrics where there is one, so that it works when our code is down.

Each alarm has a page of its name in ``runbooks/`` and says what it takes silence for.
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
from infra.metrics import FIVE_MINUTES, MINUTE, of_function, oldest_in, told, waiting_in

NET: Final = "LowBurstBalance"
_AN_HOUR_OF_PERIODS: Final = 12
NET_QUERY: Final = (
    'SELECT MIN(BurstBalance) FROM SCHEMA("AWS/EBS", VolumeId) GROUP BY VolumeId ORDER BY MIN() ASC LIMIT 500'
)


_LONGEST_PASS_PERIODS: Final = 2
"""Five-minute periods in which an invocation of at most five minutes may have begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One alarm: what is looked at, from when on it is wrong, and what silence means."""

    name: str
    metric: Metric
    says: str
    threshold: float = 1
    below: bool = False
    periods: int = 1
    of_periods: int | None = None
    """Among how many periods those are counted; None: all must be wrong."""
    missing: TreatMissingData = TreatMissingData.NOT_BREACHING
    of: str = ""
    """Which function, where there is an alarm for each."""
    when_over: bool = True
    """Whether a message says that it is over; False where a failure to deliver it would begin it again."""


class Alarms(Construct):
    """All alarms of a deployment; each tells the alerts topic when it begins, and most when they are over."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, topic: ITopic, runbooks_url: str
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self._topic = topic
        self._runbooks_url = runbooks_url
        self.alarms: list[IAlarm] = []

    def add(self, *watches: Watch) -> None:
        """Make these alarms."""
        for watch in watches:
            ending = f"-{watch.of}" if watch.of else ""
            alarm = Alarm(
                self,
                f"{watch.name}{watch.of.capitalize()}",
                alarm_name=f"{self._name}-{watch.name}{ending}",
                alarm_description=self._describe(watch.name, watch.says),
                metric=watch.metric,
                threshold=watch.threshold,
                comparison_operator=_comparison(watch),
                evaluation_periods=watch.of_periods or watch.periods,
                datapoints_to_alarm=watch.periods,
                treat_missing_data=watch.missing,
            )
            action = SnsAction(self._topic)
            alarm.add_alarm_action(action)
            if watch.when_over:
                alarm.add_ok_action(action)
            self.alarms.append(alarm)

    def add_net(self, lowest_pct: int) -> None:
        """The net beside the watchdog: CloudWatch itself looks at every volume, and charges for each."""
        says = f"A volume has at most {lowest_pct} % of its credits, says CloudWatch without our code."
        query = CfnAlarm.MetricDataQueryProperty(
            id="balance", expression=NET_QUERY, period=FIVE_MINUTES.to_seconds(), return_data=True
        )
        CfnAlarm(
            self,
            NET,
            alarm_name=f"{self._name}-{NET}",
            alarm_description=self._describe(NET, says),
            metrics=[query],
            threshold=lowest_pct,
            comparison_operator="LessThanOrEqualToThreshold",
            evaluation_periods=1,
            datapoints_to_alarm=1,
            treat_missing_data="notBreaching",
            alarm_actions=[self._topic.topic_arn],
            ok_actions=[self._topic.topic_arn],
        )

    def _describe(self, name: str, says: str) -> str:
        return f"{says} Runbook: {self._runbooks_url}/{name}.md"


def silence(watch: WatchdogFunction) -> Watch:
    """We fell silent, or one of two schedules did: fewer ticks come than the one-minute schedule has."""
    return Watch(
        name="WatchdogSilent",
        metric=of_function("Invocations", "Sum", watch),
        says="The watchdog hardly runs, or not at all, for ten minutes: volumes run dry unseen.",
        threshold=3,
        below=True,
        periods=2,
        missing=TreatMissingData.BREACHING,
    )


def failures_of(functions: Sequence[WatchdogFunction]) -> list[Watch]:
    """A function fails.

    Lambda writes an error at the minute in which the invocation began, which may be five minutes before it
    ends: the alarm looks at two periods.
    """
    watches = [
        Watch(
            name="WatchdogErrors",
            of=function.verb,
            of_periods=_LONGEST_PASS_PERIODS,
            metric=of_function("Errors", "Sum", function),
            says=f"The {function.verb} function fails.",
        )
        for function in functions
    ]
    return [_caused_by_failed_delivery(each) if each.of == "notify" else each for each in watches]


def throttles_of(functions: Sequence[WatchdogFunction]) -> list[Watch]:
    """Lambda does not let a function run; for those where a minute counts, as the others end in a queue."""
    return [
        Watch(
            name="WatchdogThrottled",
            of=function.verb,
            metric=of_function("Throttles", "Sum", function),
            says=f"Lambda does not let {function.verb} run: the account's concurrency is used up.",
        )
        for function in functions
    ]


def lost(*, events: IQueue, alerts: IQueue, flips: IQueue | None) -> list[Watch]:
    """Something ended in a queue of what failed."""
    watches = [
        Watch(
            name="TicksDeadLettered",
            metric=waiting_in(events),
            says="A tick or an event was given up; what it was waits in a queue.",
        ),
        _caused_by_failed_delivery(
            Watch(
                name="AlertsDeadLettered",
                metric=waiting_in(alerts),
                says="An alert did not reach somebody who subscribed; it waits in a queue.",
            )
        ),
    ]
    if flips is not None:
        watches.append(
            Watch(
                name="FlipRequestsDeadLettered",
                metric=waiting_in(flips),
                says="A flip was asked for and could not be dealt with; the request waits in a queue.",
            )
        )
    return watches


def unseen(deployment: str, *, metric_lag_s: int, gap_after_s: int) -> list[Watch]:
    """The watchdog runs, and does not see.

    The datapoint of one volume grows old until that is a gap, with an alert of its own. CloudWatch is late
    when some datapoint is too old for longer than that takes.
    """
    too_old_s = 2 * metric_lag_s
    single_gap_s = max(0, gap_after_s - too_old_s)
    return [
        Watch(
            name="VolumesUnread",
            metric=told("VolumesUnread", "Maximum", deployment=deployment),
            says="For 15 minutes some volume could not be read: nobody watches it.",
            periods=3,
        ),
        Watch(
            name="DatapointsTooOld",
            metric=told("WorstDatapointAge", "Maximum", deployment=deployment),
            says=f"CloudWatch is {too_old_s // 60} minutes behind: what drains is seen as much later.",
            threshold=too_old_s,
            periods=min(single_gap_s // FIVE_MINUTES.to_seconds() + 2, _AN_HOUR_OF_PERIODS),
        ),
        _caused_by_failed_delivery(
            Watch(
                name="AlertsNotDelivered",
                metric=told("AlertsNotDelivered", "Sum", deployment=deployment, period=MINUTE),
                says="An alert could not be sent; it is tried again.",
            )
        ),
    ]


def dropped(deployment: str) -> list[Watch]:
    """Events were not used: more than an honest host sends twice, or any of EBS."""
    return [
        Watch(
            name="ProbeEventsDropped",
            metric=told("ProbeEventsDropped", "Sum", deployment=deployment),
            says="Reports of hosts are dropped: malformed, repeated, or about another instance's volumes.",
            threshold=5,
        ),
        Watch(
            name="EbsEventsDropped",
            metric=told("EbsEventsDropped", "Sum", deployment=deployment),
            says="EBS events waited for over five minutes and were dropped: only the ticks look.",
        ),
    ]


def flips_gone_wrong(deployment: str) -> list[Watch]:
    """A modification that was wanted did not come about."""
    return [
        Watch(
            name="FlipsFailed",
            metric=told("FlipsFailed", "Sum", deployment=deployment),
            says="AWS did not make a modification.",
        ),
        Watch(
            name="FlipsStuck",
            metric=told("FlipsStuck", "Maximum", deployment=deployment),
            says="A modification takes twice as long as it should.",
        ),
        Watch(
            name="AnotherDeployment",
            metric=told("NotStanding", "Maximum", deployment=deployment),
            says="Another deployment flips here, as far as can be told: this one only proposes.",
            periods=2,
        ),
    ]


def untaken(flips: IQueue) -> Watch:
    """Flips are asked for, and nobody takes the requests."""
    return Watch(
        name="FlipRequestsWaiting",
        metric=oldest_in(flips),
        says="A flip that was asked for minutes ago has not begun: nobody takes the requests.",
        threshold=240,
        periods=2,
    )


def _caused_by_failed_delivery(watch: Watch) -> Watch:
    """Keep an alarm that a failed delivery triggers from triggering itself, even if notify cannot start.

    Its own message may fail as well, several minutes later because Lambda retries. So it stays in ALARM until
    15 minutes have passed without a failure, and then sends no message, which could fail in turn.
    """
    periods = Duration.minutes(15).to_seconds() // watch.metric.period.to_seconds()
    return replace(watch, of_periods=int(periods), when_over=False)


def _comparison(watch: Watch) -> ComparisonOperator:
    if watch.below:
        return ComparisonOperator.LESS_THAN_THRESHOLD
    return ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
