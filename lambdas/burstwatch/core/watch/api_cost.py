"""What watching costs: CloudWatch bills every metric requested, with no free tier."""

from collections.abc import Iterable

from burstwatch.core.watch.decision import Decision

USD_PER_METRIC = 0.01 / 1000
"""GetMetricData, per metric requested, the same in almost every region (us-east-1, October 2025)."""

MONTH_S = 30 * 24 * 3600


def metric_usd_per_month(interval_s: int, metrics: int = 1) -> float:
    """Dollars for reading this many metrics of one volume at this interval for 30 days."""
    return MONTH_S / interval_s * metrics * USD_PER_METRIC


def usd_per_month_idle(intervals_s: Iterable[int]) -> float:
    """Dollars a month for volumes that are all calm, given the sweep interval of each."""
    return sum(map(metric_usd_per_month, intervals_s))


def usd_per_month_now(decisions: Iterable[Decision]) -> float:
    """Dollars a month if every volume kept its present poll interval."""
    return sum(
        metric_usd_per_month(d.poll_interval_s, d.metric_count) for d in decisions if d.poll_interval_s
    )
