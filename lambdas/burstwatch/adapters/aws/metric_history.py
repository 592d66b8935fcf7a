"""Reads days of metrics of many volumes, with a few volumes in each call."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from burstwatch.adapters.aws.cloudwatch import BATCH_SIZE, CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.metric_history import MetricHistory

DATAPOINTS_PER_CALL: Final = 100_800
"""The datapoints on one page of GetMetricData: a further page would be billed like a further call."""

DATAPOINTS_PER_S: Final = 300_000
"""Our share of the 396,000 datapoints per second of an account, for data older than three hours.

Source: the CloudWatch user guide, "CloudWatch service quotas".
"""

_METRIC_AND_STAT: Final = {
    "read_ops": ("VolumeReadOps", "Sum"),
    "write_ops": ("VolumeWriteOps", "Sum"),
    "read_bytes": ("VolumeReadBytes", "Sum"),
    "write_bytes": ("VolumeWriteBytes", "Sum"),
    "balance": ("BurstBalance", "Minimum"),
}
ALL_METRICS: Final = tuple(_METRIC_AND_STAT)
METRICS_PER_VOLUME: Final = len(ALL_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryResult:
    """The histories of some volumes by ID; a volume is ``unread`` if any of its metrics could not be read."""

    histories: Mapping[str, MetricHistory]
    unread: Mapping[str, AwsFailure]
    messages: Sequence[str] = ()


class HistoryReader:
    """Reads long spans of one region by periods of a minute (kept for 15 days) or five minutes (63 days).

    CloudWatch bills each requested metric, however many datapoints it has, so the queries are few and the
    spans long. Five metrics of a volume cost $0.00005, for a day or for nine weeks. ``metrics`` are the
    wanted fields of ``MetricHistory``; the others stay empty.
    """

    def __init__(
        self,
        client: Any,
        *,
        period_s: int,
        workers: int = 8,
        metrics: Sequence[str] = ALL_METRICS,
    ) -> None:
        self._period_s = period_s
        self._workers = workers
        self._metrics = {name: _METRIC_AND_STAT[name] for name in metrics}
        datapoints_per_s = DATAPOINTS_PER_S * period_s / PERIOD_S
        fixed_period_client: Any = FixedPeriodClient(client, period_s)
        self._reader = CloudWatchReader(fixed_period_client, workers=1, datapoints_per_s=datapoints_per_s)

    def read(self, volume_ids: Sequence[str], start_s: int, end_s: int) -> Iterator[HistoryResult]:
        """The histories of these volumes, in the order in which they are answered.

        ``start_s`` must be a multiple of the period. Only a few volumes' datapoints are in memory at once.
        """
        queries_per_call = DATAPOINTS_PER_CALL // max(1, -(-(end_s - start_s) // self._period_s))
        volumes_per_batch = max(1, min(queries_per_call, BATCH_SIZE) // len(self._metrics))
        batches = (
            volume_ids[offset : offset + volumes_per_batch]
            for offset in range(0, len(volume_ids), volumes_per_batch)
        )
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="history")
        running: set[Future[HistoryResult]] = set()
        try:
            for batch in batches:
                running.add(pool.submit(self._read_batch, batch, start_s, end_s))
                if len(running) > self._workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(cancel_futures=True)

    def _read_batch(self, volume_ids: Sequence[str], start_s: int, end_s: int) -> HistoryResult:
        queries_by_volume = {
            i: {name: MetricQuery(i, *metric_and_stat) for name, metric_and_stat in self._metrics.items()}
            for i in volume_ids
        }
        result = self._reader.read(
            (q for by_name in queries_by_volume.values() for q in by_name.values()), start_s, end_s
        )
        histories: dict[str, MetricHistory] = {}
        unread: dict[str, AwsFailure] = {}
        for volume_id, queries in queries_by_volume.items():
            failures = [result.unread[query] for query in queries.values() if query in result.unread]
            if failures:
                unread[volume_id] = failures[0]
                continue
            series: dict[str, Series] = {name: result.series[query] for name, query in queries.items()}
            histories[volume_id] = MetricHistory(period_s=self._period_s, **series)
        return HistoryResult(histories=histories, unread=unread, messages=result.messages)


class FixedPeriodClient:
    """A client of CloudWatch all of whose queries have periods of this length."""

    def __init__(self, client: Any, period_s: int) -> None:
        self._client = client
        self._period_s = period_s

    def get_metric_data(self, **request: Any) -> Any:
        queries = [
            {**query, "MetricStat": {**query["MetricStat"], "Period": self._period_s}}
            for query in request.pop("MetricDataQueries")
        ]
        return self._client.get_metric_data(MetricDataQueries=queries, **request)
