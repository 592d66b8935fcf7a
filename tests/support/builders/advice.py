"""Usage and cases for tests of `burstctl advise`."""

from burstctl.advise.rightsizing import (
    AdviceInput,
)
from burstctl.advise.usage import Peak, RateSummary, Usage
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType
from support.builders.core_values import a_volume, at

MIDNIGHT_S = int(at("00:00"))


DAY_S = 24 * 3600


OPERATION_KIB = 1 / 64
"""MiB in an operation of 16 KiB."""


def a_rate(at_percentile=100.0, busiest=None, above=0) -> RateSummary:
    peak = Peak(at_s=MIDNIGHT_S, value=at_percentile if busiest is None else busiest)
    hour = Peak(at_s=MIDNIGHT_S, value=at_percentile)
    return RateSummary(at_percentile=at_percentile, busiest=peak, busiest_hour=hour, periods_above=above)


def a_usage(iops=100.0, mib_s=5.0, *, days=14, least_pct=100.0, **changes) -> Usage:
    facts = {
        "period_s": 60,
        "percentile": 99.9,
        "periods": days * 1440,
        "start_at_s": MIDNIGHT_S - days * DAY_S,
        "end_at_s": MIDNIGHT_S,
        "iops": None if iops is None else a_rate(iops),
        "mib_s": None if mib_s is None else a_rate(mib_s),
        "read_pct": 50.0,
        "lowest_balance": None if least_pct is None else Peak(at_s=MIDNIGHT_S, value=least_pct),
        "empty_s": 0,
        "throttled_s": 0,
        "throttled_operation_mib": None,
    }
    return Usage(**(facts | changes))


def an_empty_bucket_usage(iops=300.0, mib_s=5.0, **changes) -> Usage:
    """Held to its baseline for a whole day of the fourteen: more than the percentile leaves out."""
    held = {"empty_s": DAY_S, "throttled_s": DAY_S, "throttled_operation_mib": OPERATION_KIB}
    return a_usage(iops, mib_s, least_pct=0.0, **(held | changes))


def a_case(size_gib=100, usage=None, **changes) -> AdviceInput:
    return AdviceInput(**({"volume": a_volume(size_gib), "usage": usage, "prices": US_EAST_1} | changes))


def gp3(iops=3_000, mib_s=125) -> Configuration:
    return Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=mib_s)


BURSTING_USAGE = {"least_pct": 40.0}
