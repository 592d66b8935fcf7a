"""What CloudWatch remembers of the volumes, just fine enough for a picture of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.metric_history import MetricHistory

MAX_OVERVIEW_POINTS: Final = 72
"""Of the balance of a calm volume."""

MAX_DETAIL_POINTS: Final = 300
"""Of the balance and the operations of a volume that matters."""

OVERVIEW_METRICS: Final = ("balance",)
DETAIL_METRICS: Final = ("balance", "read_ops", "write_ops")

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


def choose_axis(start_s: float, end_s: float, *, max_points: int) -> Axis:
    """The finest axis over a span with at most ``max_points`` periods, of those that CloudWatch retains."""
    span_s = end_s - start_s
    min_period_s = _PERIODS_S[0] if span_s < _MINUTE_RETENTION_S - _FIVE_MINUTES_S else _FIVE_MINUTES_S
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
    """Histories by volume ID, failures with their reasons, and AWS's messages."""

    histories: dict[str, MetricHistory] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def read_metric_series(
    client: Any,
    volume_ids: Sequence[str],
    axis: Axis,
    metrics: Sequence[str],
    *,
    workers: int,
    on_progress: Callable[[int], None],
) -> MetricSeries:
    """Read these metrics of these volumes; ``on_progress`` is called with the number of volumes done."""
    result = MetricSeries()
    if not volume_ids:
        return result
    reader = HistoryReader(client, period_s=axis.period_s, workers=workers, metrics=metrics)
    for part in reader.read(volume_ids, axis.start_s, axis.end_s):
        result.histories |= part.histories
        result.unread |= {volume_id: str(failure) for volume_id, failure in part.unread.items()}
        messages = (f"cloudwatch:GetMetricData says: {message}" for message in part.messages)
        result.messages += [text for text in messages if text not in result.messages]
        on_progress(len(result.histories) + len(result.unread))
    return result
