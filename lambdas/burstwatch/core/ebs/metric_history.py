"""Days of metrics of one volume."""

from dataclasses import dataclass

from burstwatch.core.buckets.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricHistory:
    """What CloudWatch keeps of a volume: sums of operations and bytes, and the least balance, by period."""

    period_s: int
    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    balance: Series = Series()
