"""What CloudWatch tells of a volume before, on and after its journey."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstctl.experiment.credit_reset import BEFORE_S, Journey
from burstctl.experiment.journal import Journal
from burstwatch.adapters.aws.cloudwatch import MetricQuery
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.engine.services import Shell

_KEPT_S: Final = 14 * 24 * 3600
"""So far back CloudWatch has single minutes, with a day to spare."""

_METRICS: Final = (
    ("BurstBalance", "Minimum"),
    ("VolumeReadOps", "Sum"),
    ("VolumeWriteOps", "Sum"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Datapoints:
    """The balance, and reads and writes together, in every minute that is over; and what was not told."""

    balance: Series = Series()
    operations: Series = Series()
    failures: Sequence[str] = ()


def read_datapoints(shell: Shell, volume_id: str, start_s: float, now_s: float) -> Datapoints:
    """The datapoints from a moment on, as far back as there are single minutes."""
    queries = [MetricQuery(volume_id, metric, statistic) for metric, statistic in _METRICS]
    found = shell.cloudwatch.read(queries, start_s=max(start_s, now_s - _KEPT_S), end_s=now_s)
    balance, reads, writes = (found.series.get(query, Series()) for query in queries)
    writes_of = dict(zip(writes.starts_s, writes.values, strict=True))
    both = [
        (sample.start_s, sample.value + writes_of[sample.start_s])
        for sample in reads
        if sample.start_s in writes_of
    ]
    return Datapoints(
        balance=balance.closed_by(now_s),
        operations=Series.of(both).closed_by(now_s),
        failures=[*map(str, dict.fromkeys(found.unread.values())), *found.messages],
    )


def read_journey(shell: Shell, journal: Journal, now_s: float) -> tuple[Journey, Sequence[str]]:
    """An experiment's way as far as it has come, and what CloudWatch did not tell of it.

    The newest minute is left out: its datapoint may still change.
    """
    assert journal.out is not None
    back = journal.back
    until_s = now_s - PERIOD_S
    found = read_datapoints(shell, journal.volume_id, journal.out.started_s - BEFORE_S, now_s)
    journey = Journey(
        size_gib=journal.size_gib,
        left_s=journal.out.started_s,
        there_s=journal.out.ended_s,
        turned_s=back.started_s if back else None,
        home_s=back.ended_s if back else None,
        balance=found.balance.closed_by(until_s),
        operations=found.operations.closed_by(until_s),
    )
    return journey, found.failures
