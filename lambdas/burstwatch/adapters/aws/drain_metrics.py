"""What drained a few volumes, asked of CloudWatch: an alert waits for the answer, but not for long."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from burstwatch.adapters.aws.errors import AwsFailure, FailureKind
from burstwatch.adapters.aws.metric_history import HistoryRead, HistoryReader
from burstwatch.core.assessment.drain_cause import DAYS_PERIOD_S, DAYS_SPAN_S, OPERATIONS_SPAN_S, Traces
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.usage import History

MOST_VOLUMES: Final = 40
"""The days of so many fit on one page of GetMetricData: two calls tell it all."""

_OPERATIONS: Final = ("read_ops", "write_ops", "read_bytes", "write_bytes")
_DAYS: Final = ("balance",)
METRICS_PER_VOLUME: Final = len((*_OPERATIONS, *_DAYS))

_TOO_MANY: Final = f"more than {MOST_VOLUMES} volumes at once"
_NO_ANSWER: Final = (FailureKind.UNREACHABLE, FailureKind.RETRYABLE)

_Put = Callable[[Traces, History], Traces]


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesRead:
    """The traces of each volume asked about; those that are ``unread`` in part say so themselves too."""

    traces: Mapping[str, Traces] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class CauseReader:
    """Reads one region, in two calls of GetMetricData at most.

    Build the client with ``retries={"total_max_attempts": 1}`` and short timeouts: better to alert without an
    answer than late.
    """

    def __init__(self, client: Any) -> None:
        self._operations = HistoryReader(client, period_s=PERIOD_S, workers=1, metrics=_OPERATIONS)
        self._days = HistoryReader(client, period_s=DAYS_PERIOD_S, workers=1, metrics=_DAYS)

    def read(self, volume_ids: Sequence[str], now_s: float) -> CausesRead:
        """What the first 40 of these volumes did in the last hour, and their balance of the last days.

        After a call that nobody answered the second is not made.
        """
        asked, end_s = list(volume_ids[:MOST_VOLUMES]), int(now_s)
        traces = {i: Traces(not_read=_TOO_MANY) for i in volume_ids} | {i: Traces() for i in asked}
        unread: dict[str, AwsFailure] = {}

        def ask(reader: HistoryReader, span_s: int, period_s: int, put: _Put) -> None:
            start_s = (end_s - span_s) // period_s * period_s
            unread.update(_take(traces, reader.read(asked, start_s, end_s), put))

        ask(self._operations, OPERATIONS_SPAN_S, PERIOD_S, _with_operations)
        if not any(failure.kind in _NO_ANSWER for failure in unread.values()):
            ask(self._days, DAYS_SPAN_S, DAYS_PERIOD_S, _with_days)
        return CausesRead(traces=traces, unread=unread)


def _take(traces: dict[str, Traces], answers: Iterable[HistoryRead], put: _Put) -> dict[str, AwsFailure]:
    """Add the answers to what is known of each volume; what could not be read comes back."""
    unread: dict[str, AwsFailure] = {}
    for answer in answers:
        unread.update(answer.unread)
        for volume_id, history in answer.histories.items():
            traces[volume_id] = put(traces[volume_id], history)
    for volume_id, failure in unread.items():
        traces[volume_id] = replace(traces[volume_id], not_read=f"{failure.action}: {failure.code}")
    return unread


def _with_operations(traces: Traces, history: History) -> Traces:
    return replace(traces, **{name: getattr(history, name) for name in _OPERATIONS})


def _with_days(traces: Traces, history: History) -> Traces:
    return replace(traces, days=history.balance)
