"""The dashboard. In ten seconds it shows an operator on call whether the fleet and the watchdog are well."""

from collections.abc import Iterable, Mapping, Sequence
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
from infra.metrics import FIVE_MINUTES, lambda_metric, queue_depth_metric, service_metric

_WIDTH: Final = 24  # the columns of a CloudWatch dashboard; Source: CloudWatch API reference, PutDashboard
_FLEET_METRICS: Final = (
    ("VolumesExhausted", "exhausted", Color.RED),
    ("VolumesCritical", "critical", Color.RED),
    ("VolumesWarning", "warning", Color.ORANGE),
    ("VolumesUnread", "unread", Color.PURPLE),
    ("VolumesFlipped", "flipped", Color.BLUE),
    ("VolumesWatched", "watched", Color.GREY),
)
_BUCKET_METRICS: Final = (
    ("BucketsExhausted", "exhausted", Color.RED),
    ("BucketsCritical", "critical", Color.RED),
    ("BucketsWarning", "warning", Color.ORANGE),
    ("BucketsUnknown", "unknown", Color.PURPLE),
)
_FLIP_METRICS: Final = (
    ("Flips", "out", Color.BLUE),
    ("FlipsBack", "back", Color.GREEN),
    ("FlipsRefused", "refused", Color.ORANGE),
    ("FlipsFailed", "failed", Color.RED),
)


class FleetDashboard(Construct):
    """One page: the fleet and the alarms, then the forecast, the flips and the watchdog's own health."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        alarms: Sequence[IAlarm],
        functions: Sequence[WatchdogFunction],
        dead_letter_queues: Mapping[str, IQueue],
        resources: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self.dashboard = Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        watches_others = any(resource != "ebs" for resource in resources)
        watched = "gp2 volumes and other resources" if watches_others else "gp2 volumes"
        self.dashboard.add_widgets(
            TextWidget(
                width=_WIDTH,
                height=2,
                markdown=f"**{name}** watches {watched}. Red below: resources without credits. An alarm in"
                " red: the watchdog itself needs help; its runbook is in its description.",
            )
        )
        self.dashboard.add_widgets(self._numbers_widget("Volumes now", _FLEET_METRICS))
        if watches_others:
            self.dashboard.add_widgets(
                self._numbers_widget("Buckets of other resources now", _BUCKET_METRICS)
            )
        self.dashboard.add_widgets(
            AlarmStatusWidget(title="The watchdog", alarms=list(alarms), width=_WIDTH, height=4)
        )
        self.dashboard.add_widgets(*self._depletion_widgets(), self._flips_widget())
        self.dashboard.add_widgets(*self._health_widgets(functions, dead_letter_queues))

    def _service_metric(self, metric: str, statistic: str, label: str, color: str = "") -> IMetric:
        cloudwatch_metric = service_metric(
            metric, statistic, deployment=self._name, period=FIVE_MINUTES, label=label
        )
        return cloudwatch_metric.with_(color=color) if color else cloudwatch_metric

    def _numbers_widget(self, title: str, metrics: Iterable[tuple[str, str, Color]]) -> IWidget:
        return SingleValueWidget(
            title=title,
            metrics=[
                self._service_metric(metric, "Maximum", label, color) for metric, label, color in metrics
            ],
            width=_WIDTH,
            height=3,
        )

    def _depletion_widgets(self) -> list[IWidget]:
        time_to_empty = GraphWidget(
            title="Soonest time to empty",
            left=[
                self._service_metric(
                    "SoonestTimeToEmpty", "Minimum", "seconds until the first volume is empty", Color.RED
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
                self._service_metric(
                    "LowestBurstBalance", "Minimum", "% of the bucket of the worst volume", Color.ORANGE
                )
            ],
            left_y_axis=YAxisProps(min=0, max=100, label="%", show_units=False),
            width=8,
            height=6,
        )
        return [time_to_empty, balance]

    def _flips_widget(self) -> IWidget:
        return GraphWidget(
            title="Flips",
            left=[
                self._service_metric(metric, "Sum", label, color) for metric, label, color in _FLIP_METRICS
            ],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )

    def _health_widgets(
        self, functions: Sequence[WatchdogFunction], dead_letter_queues: Mapping[str, IQueue]
    ) -> list[IWidget]:
        watch = functions[0]
        ticks = GraphWidget(
            title="Ticks, and how long they take",
            left=[lambda_metric("Invocations", "Sum", watch, label="runs")],
            right=[lambda_metric("Duration", "p90", watch, label="p90, ms")],
            width=8,
            height=6,
        )
        datapoint_age = GraphWidget(
            title="Age of the newest datapoint",
            left=[
                self._service_metric("WorstDatapointAge", "Maximum", "oldest"),
                self._service_metric("NewestDatapointAge", "Minimum", "newest"),
                self._service_metric("DatapointSpacing", "Maximum", "apart"),
            ],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )
        errors = GraphWidget(
            title="Errors and what was given up",
            left=[
                *(
                    lambda_metric("Errors", "Sum", function, label=f"{function.handler_name}: errors")
                    for function in functions
                ),
                *(
                    queue_depth_metric(queue, label=f"given up: {name}")
                    for name, queue in dead_letter_queues.items()
                ),
            ],
            left_y_axis=YAxisProps(min=0, show_units=False),
            width=8,
            height=6,
        )
        return [ticks, datapoint_age, errors]
