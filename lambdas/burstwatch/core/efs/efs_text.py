"""What people read about an EFS file system: rates, load and outlook."""

from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.outlook import describe_outlook
from burstwatch.core.buckets.units import format_rate
from burstwatch.core.efs.efs_bucket import (
    efs_bucket,
    idle_refill_s,
    limit_when_empty_per_s,
    metered,
)


def describe_efs_outlook(standard_bytes: int, forecast: Forecast) -> str:
    """``empty in about 7 h, not before 5 h; then 2.8 MiB/s; nine idle days to refill`` for 58 GiB."""
    return describe_outlook(
        forecast,
        limit_when_empty=format_rate(limit_when_empty_per_s(standard_bytes)),
        idle_refill_s=idle_refill_s(efs_bucket(standard_bytes)),
    )


def describe_metered_load(read_per_s: float, written_per_s: float) -> str:
    """The rate and the kind of I/O that spend the credits, from bytes per second.

    Example: ``60 MiB/s metered: 120 MiB/s read, which count one third, and 20 MiB/s written``.
    """
    kinds = []
    if read_per_s:
        kinds.append(f"{format_rate(read_per_s)} read, which count one third")
    if written_per_s:
        kinds.append(f"{format_rate(written_per_s)} written")
    total = f"{format_rate(metered(read_per_s, written_per_s))} metered"
    return f"{total}: {', and '.join(kinds)}" if kinds else total
