"""How finely the past of a fleet is read from CloudWatch."""

from typing import Final

from burstctl.cli.output import say
from burstwatch.core.buckets.series import PERIOD_S

COARSE_S: Final = 300
MOST_BY_THE_MINUTE: Final = 500
"""More volumes than this are read by five minutes: at AWS's pace the minutes of 500 take three minutes."""

_MINUTES_KEPT_DAYS: Final = 14


def finest_s(volumes: int, days: int) -> int:
    """The finest that CloudWatch still has, in seconds; a coarser one where that would take too long."""
    if days > _MINUTES_KEPT_DAYS:
        return COARSE_S
    if volumes <= MOST_BY_THE_MINUTE:
        return PERIOD_S
    say(
        f"{volumes:,} volumes are read by means of five minutes, which takes a fifth of the time; name up to"
        f" {MOST_BY_THE_MINUTE} of them to have theirs by the minute"
    )
    return COARSE_S
