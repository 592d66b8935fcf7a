"""What datapoints that come more seldom than every minute mean, and the ``metric_lag`` that covers them."""

from datetime import timedelta
from math import ceil
from typing import Final

from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.text import format_duration

_STEP: Final = timedelta(minutes=5)


def recommended_metric_lag(spacing_s: float, age_s: float) -> timedelta:
    """A ``metric_lag`` that covers datapoints so far apart, the newest so old: in steps of five minutes.

    The default allows for five minutes with a datapoint every minute.
    """
    needed_s = max(age_s, CadencePolicy().metric_lag.total_seconds() + spacing_s - PERIOD_S)
    return _STEP * ceil(needed_s / _STEP.total_seconds())


def describe_spacing(spacing_s: float | None) -> str:
    """What datapoints further apart than a minute mean for alerts; empty if they are not."""
    if spacing_s is None or spacing_s <= PERIOD_S:
        return ""
    spacing, later = format_duration(spacing_s), format_duration(spacing_s - PERIOD_S)
    return f"datapoints come every {spacing}, not every minute: a drain is seen up to {later} later"
