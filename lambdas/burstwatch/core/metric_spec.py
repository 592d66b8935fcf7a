"""A metric of CloudWatch, as it is read."""

from typing import NamedTuple


class MetricSpec(NamedTuple):
    """The name of a metric, its statistic, and the seconds of a period."""

    metric: str
    statistic: str
    period_s: int
