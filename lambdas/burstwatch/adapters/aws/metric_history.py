"""Days of metrics of many volumes, a few volumes to a call."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from burstwatch.adapters.aws.cloudwatch import BATCH_SIZE, CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.usage import History

DATAPOINTS_PER_CALL: Final = 100_800
"""What GetMetricData answers on one page: each page more would be billed like a call more."""

DATAPOINTS_PER_S: Final = 300_000
"""Our share of the 396,000 that an account may ask for in a second where they are older than three hours."""

_METRICS: Final = {
    "read_ops": ("VolumeReadOps", "Sum"),
    "write_ops": ("VolumeWriteOps", "Sum"),
    "read_bytes": ("VolumeReadBytes", "Sum"),
    "write_bytes": ("VolumeWriteBytes", "Sum"),
    "balance": ("BurstBalance", "Minimum"),
}
METRICS_PER_VOLUME: Final = len(_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRead:
    """The histories of some volumes by id; a volume of which any metric could not be read is ``unread``."""

    histories: Mapping[str, History]
    unread: Mapping[str, AwsFailure]
    messages: Sequence[str] = ()


class HistoryReader:
    """Reads long spans of one region, by the minute (15 days kept) or by five minutes (63 days).

    Few queries and long spans, because CloudWatch bills by the metric asked for, however many datapoints it
    has: five metrics of a volume cost $0.00005 for a day as for nine weeks. ``metrics`` are those wanted, by
    their names in ``History``; the others stay empty.
    """

    def __init__(
        self, client: Any, *, period_s: int, workers: int = 8, metrics: Sequence[str] = tuple(_METRICS)
    ) -> None:
        self._period_s = period_s
        self._workers = workers
        self._metrics = {name: _METRICS[name] for name in metrics}
        pace = DATAPOINTS_PER_S * period_s / PERIOD_S
        self._reader = CloudWatchReader(_AtPeriod(client, period_s), workers=1, datapoints_per_s=pace)  # type: ignore[arg-type]

    def read(self, volume_ids: Sequence[str], start_s: int, end_s: int) -> Iterator[HistoryRead]:
        """The histories of all these volumes, as they are answered; ``start_s`` on a multiple of the period.

        No more than a few volumes' datapoints are ever held.
        """
        room = DATAPOINTS_PER_CALL // max(1, -(-(end_s - start_s) // self._period_s))
        size = max(1, min(room, BATCH_SIZE) // len(self._metrics))
        batches = (volume_ids[first : first + size] for first in range(0, len(volume_ids), size))
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="history")
        running: set[Future[HistoryRead]] = set()
        try:
            for batch in batches:
                running.add(pool.submit(self._read_batch, batch, start_s, end_s))
                if len(running) > self._workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        finally:
            pool.shutdown(cancel_futures=True)

    def _read_batch(self, volume_ids: Sequence[str], start_s: int, end_s: int) -> HistoryRead:
        asked = {i: {name: MetricQuery(i, *what) for name, what in self._metrics.items()} for i in volume_ids}
        found = self._reader.read((q for each in asked.values() for q in each.values()), start_s, end_s)
        histories: dict[str, History] = {}
        unread: dict[str, AwsFailure] = {}
        for volume_id, queries in asked.items():
            failures = [found.unread[query] for query in queries.values() if query in found.unread]
            if failures:
                unread[volume_id] = failures[0]
                continue
            series: dict[str, Series] = {name: found.series[query] for name, query in queries.items()}
            histories[volume_id] = History(period_s=self._period_s, **series)
        return HistoryRead(histories=histories, unread=unread, messages=found.messages)


class _AtPeriod:
    """A client of CloudWatch whose queries are all for periods of this length."""

    def __init__(self, client: Any, period_s: int) -> None:
        self._client = client
        self._period_s = period_s

    def get_metric_data(self, **request: Any) -> Any:
        queries = [
            {**query, "MetricStat": {**query["MetricStat"], "Period": self._period_s}}
            for query in request.pop("MetricDataQueries")
        ]
        return self._client.get_metric_data(MetricDataQueries=queries, **request)
