"""Reads days of metrics of many resources, with a few of them in each call."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final

from burstwatch.adapters.aws.cloudwatch import BATCH_SIZE, CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.metric_history import MetricHistory

DATAPOINTS_PER_CALL: Final = 100_800
"""The datapoints on one page of GetMetricData: a further page would be billed like a further call."""

DATAPOINTS_PER_S: Final = 300_000
"""Our share of the 396,000 datapoints per second of an account, for data older than three hours.

Source: the CloudWatch user guide, "CloudWatch service quotas".
"""

_FIELDS: Final = ("read_ops", "write_ops", "read_bytes", "write_bytes")
_LOAD_METRICS: Final = {
    "VolumeId": ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes"),
    "InstanceId": ("EBSReadOps", "EBSWriteOps", "EBSReadBytes", "EBSWriteBytes"),
    "FileSystemId": (None, None, "DataReadIOBytes", "DataWriteIOBytes"),
    "DBInstanceIdentifier": ("ReadIOPS", "WriteIOPS", "ReadThroughput", "WriteThroughput"),
}
"""The metric of each field by the dimension; EFS does not count operations in this way."""

_RATE_DIMENSION: Final = "DBInstanceIdentifier"
"""The load metrics of RDS are rates per second, those of the others are sums."""

ALL_METRICS: Final = (*_FIELDS, "balance")
METRICS_PER_VOLUME: Final = len(ALL_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryResult:
    """The histories of some resources by ID; one is ``unread`` if any of its metrics could not be read."""

    histories: Mapping[str, MetricHistory]
    unread: Mapping[str, AwsFailure]
    messages: Sequence[str] = ()


class HistoryReader:
    """Reads long spans of one region by periods of a minute (kept for 15 days) or five minutes (63 days).

    CloudWatch bills each requested metric, however many datapoints it has, so the queries are few and the
    spans long. Five metrics of a volume cost $0.00005, for a day or for nine weeks. ``metrics`` are the
    wanted fields of ``MetricHistory``; the others stay empty. ``kind`` says which balance, and of which
    dimension the IDs are; the period must be a multiple of that of its metric.
    """

    def __init__(
        self,
        client: Any,
        *,
        period_s: int,
        workers: int = 8,
        metrics: Sequence[str] = ALL_METRICS,
        kind: BucketKind = EBS_IO,
    ) -> None:
        self._period_s = period_s
        self._workers = workers
        self._dimension = kind.dimension
        load_metrics = dict(zip(_FIELDS, _LOAD_METRICS[kind.dimension], strict=True))
        load_stat = "Average" if kind.dimension == _RATE_DIMENSION else "Sum"
        self._metrics: dict[str, tuple[str, str]] = {}
        for name in metrics:
            metric = kind.metric if name == "balance" else load_metrics[name]
            assert metric is not None, f"{kind.dimension} has no metric for {name}"
            self._metrics[name] = metric, "Minimum" if name == "balance" else load_stat
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
            i: {
                name: MetricQuery(i, *metric_and_stat, self._dimension)
                for name, metric_and_stat in self._metrics.items()
            }
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
            series = {name: self._to_sums(name, result.series[query]) for name, query in queries.items()}
            histories[volume_id] = MetricHistory(period_s=self._period_s, **series)
        return HistoryResult(histories=histories, unread=unread, messages=result.messages)

    def _to_sums(self, name: str, series: Series) -> Series:
        """The sums of a load that comes as a rate; the balance and other loads as they are."""
        if self._dimension != _RATE_DIMENSION or name == "balance":
            return series
        return replace(series, values=tuple(value * self._period_s for value in series.values))


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
