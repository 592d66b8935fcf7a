"""What CloudWatch remembers of the resources, just fine enough for a picture of each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from burstctl.timeline.drawn_bucket import metrics_of
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.metric_history import MetricHistory

MAX_OVERVIEW_POINTS: Final = 72
"""Of the balance of a calm resource."""

MAX_DETAIL_POINTS: Final = 300
"""Of the balance and the load of a resource that matters."""

OVERVIEW_METRICS: Final = ("balance",)
DETAIL_METRIC_COUNT: Final = len(metrics_of(EBS_IO))

_PERIODS_S: Final = (60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
_MINUTE_RETENTION_S: Final = 15 * DAY_S  # Source: CloudWatch API reference, GetMetricData
_FIVE_MINUTES_S: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Periods of one length from ``start_s`` on, which is a multiple of it."""

    start_s: int
    period_s: int
    count: int

    @property
    def end_s(self) -> int:
        return self.start_s + self.period_s * self.count


def choose_axis(start_s: float, end_s: float, *, max_points: int, metric_period_s: int = PERIOD_S) -> Axis:
    """The finest axis over a span with at most ``max_points`` periods, of those that CloudWatch retains.

    None is finer than ``metric_period_s``, the period of the metric.
    """
    span_s = end_s - start_s
    min_period_s = metric_period_s if span_s < _MINUTE_RETENTION_S - _FIVE_MINUTES_S else _FIVE_MINUTES_S
    fitting = (
        candidate_s
        for candidate_s in _PERIODS_S
        if candidate_s >= min_period_s and ceil(span_s / candidate_s) <= max_points
    )
    period_s = next(fitting, _PERIODS_S[-1])
    first_s = int(start_s // period_s * period_s)
    return Axis(start_s=first_s, period_s=period_s, count=ceil((end_s - first_s) / period_s))


@dataclass(slots=True, kw_only=True)
class MetricSeries:
    """Histories by resource ID, failures with their reasons, and AWS's messages."""

    histories: dict[str, MetricHistory] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRequest:
    """The resources whose bucket is of one kind, and what is read of each on one axis."""

    kind: BucketKind
    resources: Sequence[Resource]
    axis: Axis
    metrics: Sequence[str]


def read_metric_series(
    client: Any, requests: Iterable[SeriesRequest], *, workers: int, on_progress: Callable[[int], None]
) -> MetricSeries:
    """Read what is requested; ``on_progress`` is called with the number of resources done."""
    result = MetricSeries()
    for request in requests:
        axis = request.axis
        reader = HistoryReader(
            client, period_s=axis.period_s, workers=workers, metrics=request.metrics, kind=request.kind
        )
        id_by_metric_id = {resource.metric_id: resource.resource_id for resource in request.resources}
        for part in reader.read(list(id_by_metric_id), axis.start_s, axis.end_s):
            result.histories |= {id_by_metric_id[i]: history for i, history in part.histories.items()}
            result.unread |= {id_by_metric_id[i]: failure.problem for i, failure in part.unread.items()}
            messages = (f"cloudwatch:GetMetricData returned: {message}" for message in part.messages)
            result.messages += [text for text in messages if text not in result.messages]
            on_progress(len(result.histories) + len(result.unread))
    return result
