"""Reads from CloudWatch what drained a few volumes: their alerts wait for the response, but not for long."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from burstwatch.adapters.aws.errors import AwsFailure, FailureKind
from burstwatch.adapters.aws.metric_history import HistoryReader, HistoryResult
from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    BALANCE_HISTORY_S,
    OPERATIONS_HISTORY_S,
    DrainMetrics,
)
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.metric_history import MetricHistory

MAX_VOLUMES: Final = 40
"""The balances of this many volumes fit on one page: eight days of 5-minute samples are 2,304 each.

So two calls are enough: one for the balances, one for the operations.
"""

_OPERATION_METRICS: Final = ("read_ops", "write_ops", "read_bytes", "write_bytes")
_BALANCE_METRICS: Final = ("balance",)
METRICS_PER_VOLUME: Final = len((*_OPERATION_METRICS, *_BALANCE_METRICS))

_TOO_MANY_VOLUMES: Final = f"more than {MAX_VOLUMES} volumes at once"
_NO_RESPONSE_KINDS: Final = (FailureKind.UNREACHABLE, FailureKind.RETRYABLE)

_MergeFunction = Callable[[DrainMetrics, MetricHistory], DrainMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMetricsResult:
    """The metrics of each volume; one that is partly ``unread`` also has a ``read_error``."""

    drain_metrics: Mapping[str, DrainMetrics] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class DrainMetricsReader:
    """Reads one region, in two calls of GetMetricData at most.

    Build the client with ``retries={"total_max_attempts": 1}`` and short timeouts: an alert without this
    information is better than a late alert.
    """

    def __init__(self, client: Any) -> None:
        self._operation_reader = HistoryReader(
            client, period_s=PERIOD_S, workers=1, metrics=_OPERATION_METRICS
        )
        self._balance_reader = HistoryReader(
            client, period_s=BALANCE_HISTORY_PERIOD_S, workers=1, metrics=_BALANCE_METRICS
        )

    def read(self, volume_ids: Sequence[str], now_s: float) -> DrainMetricsResult:
        """Read the operations of the last hour and the balance of the last days, for the first 40 volumes.

        If the first call gets no response, the second is not made.
        """
        queried_ids, end_s = list(volume_ids[:MAX_VOLUMES]), int(now_s)
        drain_metrics = {i: DrainMetrics(read_error=_TOO_MANY_VOLUMES) for i in volume_ids} | {
            i: DrainMetrics() for i in queried_ids
        }
        unread: dict[str, AwsFailure] = {}

        def read_into(reader: HistoryReader, span_s: int, period_s: int, merge: _MergeFunction) -> None:
            start_s = (end_s - span_s) // period_s * period_s
            unread.update(_merge_results(drain_metrics, reader.read(queried_ids, start_s, end_s), merge))

        read_into(self._operation_reader, OPERATIONS_HISTORY_S, PERIOD_S, _with_operations)
        if not any(failure.kind in _NO_RESPONSE_KINDS for failure in unread.values()):
            read_into(self._balance_reader, BALANCE_HISTORY_S, BALANCE_HISTORY_PERIOD_S, _with_balance)
        return DrainMetricsResult(drain_metrics=drain_metrics, unread=unread)


def _merge_results(
    drain_metrics: dict[str, DrainMetrics], results: Iterable[HistoryResult], merge: _MergeFunction
) -> dict[str, AwsFailure]:
    """Add the responses to what is known of each volume; return what could not be read."""
    unread: dict[str, AwsFailure] = {}
    for result in results:
        unread.update(result.unread)
        for volume_id, history in result.histories.items():
            drain_metrics[volume_id] = merge(drain_metrics[volume_id], history)
    for volume_id, failure in unread.items():
        drain_metrics[volume_id] = replace(
            drain_metrics[volume_id], read_error=f"{failure.action}: {failure.code}"
        )
    return unread


def _with_operations(drain_metrics: DrainMetrics, history: MetricHistory) -> DrainMetrics:
    return replace(drain_metrics, **{name: getattr(history, name) for name in _OPERATION_METRICS})


def _with_balance(drain_metrics: DrainMetrics, history: MetricHistory) -> DrainMetrics:
    return replace(drain_metrics, balance_history=history.balance)
