"""How finely the past of a fleet is read from CloudWatch."""

from typing import Final

from burstctl.cli.output import print_info
from burstwatch.core.buckets.series import PERIOD_S

COARSE_PERIOD_S: Final = 300  # the finest period that CloudWatch keeps for 63 days
MAX_VOLUMES_BY_MINUTE: Final = 500
"""More volumes than this are read by five minutes: at AWS's pace the minutes of 500 take three minutes."""

_MINUTE_RETENTION_DAYS: Final = 14  # CloudWatch keeps minutes for 15 days; one is left as a margin


def choose_period_s(volumes: int, days: int) -> int:
    """The finest period that CloudWatch still has, in seconds; a coarser one for very many volumes."""
    if days > _MINUTE_RETENTION_DAYS:
        return COARSE_PERIOD_S
    if volumes <= MAX_VOLUMES_BY_MINUTE:
        return PERIOD_S
    print_info(
        f"{volumes:,} volumes are read by means of five minutes, which takes a fifth of the time; name up to"
        f" {MAX_VOLUMES_BY_MINUTE} of them to have theirs by the minute"
    )
    return COARSE_PERIOD_S
