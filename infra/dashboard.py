"""What somebody on call understands in ten seconds: is the fleet well, and is the watchdog?"""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk.aws_cloudwatch import (
    AlarmStatusWidget,
    Color,
    Dashboard,
    GraphWidget,
    HorizontalAnnotation,
    IAlarm,
    IMetric,
    IWidget,
    SingleValueWidget,
    TextWidget,
    YAxisProps,
)
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.metrics import FIVE_MINUTES, of_function, told, waiting_in

_WIDTH: Final = 24
_FLEET: Final = (
    ("VolumesExhausted", "exhausted", Color.RED),
    ("VolumesCritical", "critical", Color.RED),
    ("VolumesWarning", "warning", Color.ORANGE),
    ("VolumesUnread", "unread", Color.PURPLE),
    ("VolumesFlipped", "flipped", Color.BLUE),
    ("VolumesWatched", "watched", Color.GREY),
)
_FLIPS: Final = (
    ("Flips", "out", Color.BLUE),
    ("FlipsBack", "back", Color.GREEN),
    ("FlipsRefused", "refused", Color.ORANGE),
    ("FlipsFailed", "failed", Color.RED),
)


class FleetDashboard(Construct):
    """One page: the fleet and our alarms on top, then when it runs dry, what was flipped, and our health."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        alarms: Sequence[IAlarm],
        functions: Sequence[WatchdogFunction],
        failures: Mapping[str, IQueue],
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self.dashboard = Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        self.dashboard.add_widgets(
            TextWidget(
                width=_WIDTH,
                height=2,
                markdown=f"**{name}** watches gp2 volumes. Red below: volumes run dry. An alarm in red: the"
                " watchdog itself needs help; its runbook is in its description.",
            )
        )
        self.dashboard.add_widgets(self._fleet())
        self.dashboard.add_widgets(
            AlarmStatusWidget(title="The watchdog", alarms=list(alarms), width=_WIDTH, height=4)
        )
        self.dashboard.add_widgets(*self._when_dry(), self._flips())
        self.dashboard.add_widgets(*self._health(functions, failures))

    def _told(self, metric: str, statistic: str, label: str, color: str = "") -> IMetric:
        found = told(metric, statistic, deployment=self._name, period=FIVE_MINUTES, label=label)
        return found.with_(color=color) if color else found

    def _fleet(self) -> IWidget:
        return SingleValueWidget(
            title="Volumes now",
            metrics=[self._told(metric, "Maximum", label, color) for metric, label, color in _FLEET],
            width=_WIDTH,
            height=3,
        )

    def _when_dry(self) -> list[IWidget]:
        dry = GraphWidget(
            title="Soonest time to empty",
            left=[
                self._told(
                    "SoonestTimeToEmpty", "Minimum", "seconds until the first volume is dry", Color.RED
                )
            ],
            left_annotations=[HorizontalAnnotation(value=900, label="critical", color=Color.RED)],
            left_y_axis=YAxisProps(min=0, label="s", show_units=False),
            width=8,
            height=6,
        )
        balance = GraphWidget(
            title="Lowest burst balance",
            left=[
                self._told(
                    "LowestBurstBalance", "Minimum", "% of the bucket of the worst volume", Color.ORANGE
                )
            ],
            left_y_axis=YAxisProps(min=0, max=100, label="%", show_units=False),
            width=8,
            height=6,
        )
        return [dry, balance]

    def _flips(self) -> IWidget:
        return GraphWidget(
            title="Flips",
            left=[self._told(metric, "Sum", label, color) for metric, label, color in _FLIPS],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )

    def _health(self, functions: Sequence[WatchdogFunction], failures: Mapping[str, IQueue]) -> list[IWidget]:
        watch = functions[0]
        ticks = GraphWidget(
            title="Ticks, and how long they take",
            left=[of_function("Invocations", "Sum", watch, label="runs")],
            right=[of_function("Duration", "p90", watch, label="p90, ms")],
            width=8,
            height=6,
        )
        age = GraphWidget(
            title="Age of the newest datapoint",
            left=[
                self._told("WorstDatapointAge", "Maximum", "oldest"),
                self._told("NewestDatapointAge", "Minimum", "newest"),
                self._told("DatapointSpacing", "Maximum", "apart"),
            ],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )
        wrong = GraphWidget(
            title="Errors and what was given up",
            left=[
                *(of_function("Errors", "Sum", each, label=f"{each.verb}: errors") for each in functions),
                *(waiting_in(queue, label=f"given up: {what}") for what, queue in failures.items()),
            ],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )
        return [ticks, age, wrong]
