"""What CloudWatch has of a volume before, during and after an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstctl.experiment.credit_reset import LOOKBACK_S, RoundTrip
from burstctl.experiment.journal import Journal
from burstwatch.adapters.aws.cloudwatch import MetricQuery
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.durations import DAY_S
from burstwatch.engine.services import Services

_MINUTE_RETENTION_S: Final = 14 * DAY_S
"""So far back CloudWatch has single minutes, with a day to spare."""

_METRICS: Final = (
    ("BurstBalance", "Minimum"),
    ("VolumeReadOps", "Sum"),
    ("VolumeWriteOps", "Sum"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Datapoints:
    """The balance, and reads plus writes, of every complete minute; and what could not be read."""

    balance: Series = Series()
    operations: Series = Series()
    failures: Sequence[str] = ()


def read_datapoints(services: Services, volume_id: str, start_s: float, now_s: float) -> Datapoints:
    """The datapoints from a moment on, as far back as there are single minutes."""
    queries = [MetricQuery(volume_id, metric, statistic) for metric, statistic in _METRICS]
    result = services.cloudwatch.read(queries, start_s=max(start_s, now_s - _MINUTE_RETENTION_S), end_s=now_s)
    balance, reads, writes = (result.series.get(query, Series()) for query in queries)
    writes_by_start = dict(zip(writes.starts_at_s, writes.values, strict=True))
    operations = [
        (sample.start_at_s, sample.value + writes_by_start[sample.start_at_s])
        for sample in reads
        if sample.start_at_s in writes_by_start
    ]
    return Datapoints(
        balance=balance.closed_by(now_s),
        operations=Series.from_pairs(operations).closed_by(now_s),
        failures=[*map(str, dict.fromkeys(result.unread.values())), *result.messages],
    )


def read_round_trip(services: Services, journal: Journal, now_s: float) -> tuple[RoundTrip, Sequence[str]]:
    """The round trip of an experiment so far, and what CloudWatch did not return.

    The newest minute is left out: its datapoint may still change.
    """
    assert journal.out is not None
    back = journal.back
    until_s = now_s - PERIOD_S
    datapoints = read_datapoints(services, journal.volume_id, journal.out.started_s - LOOKBACK_S, now_s)
    round_trip = RoundTrip(
        size_gib=journal.size_gib,
        left_at_s=journal.out.started_s,
        arrived_at_s=journal.out.ended_s,
        return_started_at_s=back.started_s if back else None,
        returned_at_s=back.ended_s if back else None,
        balance=datapoints.balance.closed_by(until_s),
        operations=datapoints.operations.closed_by(until_s),
    )
    return round_trip, datapoints.failures
