"""What CloudWatch remembers of the volumes, just fine enough for a picture of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.ebs.usage import History

MOST_POINTS: Final = 72
"""Of the balance of a calm volume."""

MOST_FINE_POINTS: Final = 300
"""Of the balance and the operations of a volume that matters."""

CALM: Final = ("balance",)
FINE: Final = ("balance", "read_ops", "write_ops")

_PERIODS_S: Final = (60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
_KEPT_BY_THE_MINUTE_S: Final = 15 * 86_400
_FIVE_MINUTES_S: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Periods of one length from ``start_s`` on, which lies on a multiple of it."""

    start_s: int
    period_s: int
    count: int

    @property
    def end_s(self) -> int:
        return self.start_s + self.period_s * self.count


def axis_of(start_s: float, end_s: float, *, most: int) -> Axis:
    """The finest axis over a stretch of time with at most so many periods that CloudWatch keeps."""
    span_s = end_s - start_s
    kept_s = _PERIODS_S[0] if span_s < _KEPT_BY_THE_MINUTE_S - _FIVE_MINUTES_S else _FIVE_MINUTES_S
    fitting = (each for each in _PERIODS_S if each >= kept_s and ceil(span_s / each) <= most)
    period_s = next(fitting, _PERIODS_S[-1])
    first_s = int(start_s // period_s * period_s)
    return Axis(start_s=first_s, period_s=period_s, count=ceil((end_s - first_s) / period_s))


@dataclass(slots=True, kw_only=True)
class Pictures:
    """The histories by volume id, those that could not be read with the reason, and what AWS said besides."""

    histories: dict[str, History] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def read_pictures(
    client: Any,
    volume_ids: Sequence[str],
    axis: Axis,
    metrics: Sequence[str],
    *,
    workers: int,
    report: Callable[[int], None],
) -> Pictures:
    """These metrics of these volumes; ``report`` hears how many are done."""
    found = Pictures()
    if not volume_ids:
        return found
    reader = HistoryReader(client, period_s=axis.period_s, workers=workers, metrics=metrics)
    for part in reader.read(volume_ids, axis.start_s, axis.end_s):
        found.histories |= part.histories
        found.unread |= {volume_id: str(failure) for volume_id, failure in part.unread.items()}
        said = (f"cloudwatch:GetMetricData says: {message}" for message in part.messages)
        found.messages += [each for each in said if each not in found.messages]
        report(len(found.histories) + len(found.unread))
    return found
