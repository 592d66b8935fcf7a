"""What a run costs at most: AWS's list prices for us-east-1, times the hours that everything may last.

Prices of volumes are those of ``burstwatch.core.ebs.pricing``. The others are from AWS's public price lists
of 2026. Other regions may be more expensive than us-east-1, so their prices are multiplied by
``OTHER_REGION_FACTOR``.
"""

from collections.abc import Sequence
from typing import Final

from burstctl.aws_check.fact import Fact
from burstctl.aws_check.host import CLEANUP_MINUTES, HOST_GP2_GIB, HOST_ROOT_GIB
from burstwatch.core.ebs.pricing import HOURS_PER_MONTH, US_EAST_1, Configuration, VolumeType, usd_per_month

HOST_USD_PER_HOUR: Final = 0.0208
"""A t3.small with Linux; its CPU credits are ``standard``, so nothing is added for bursts."""

# list prices of AWS KMS and CloudWatch
KMS_KEY_USD_PER_MONTH: Final = 1.00
ALARM_USD_PER_MONTH: Final = 0.10
USD_PER_METRIC_READ: Final = 0.01 / 1000
"""GetMetricData, for each metric of each call; the first million requests of other calls are free."""

OTHER_REGION_FACTOR: Final = 2.0  # a ceiling must not be too low; no Region's EBS prices are twice as high

_GP2: Final = Configuration(volume_type=VolumeType.GP2)
_GP3: Final = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=125)


def fact_usd(fact: Fact, region: str) -> float:
    """Dollars that a fact costs at most, without the shared host."""
    cost, hours = fact.cost, (fact.minutes + CLEANUP_MINUTES) / 60
    per_month = (
        cost.instances * (HOST_USD_PER_HOUR * HOURS_PER_MONTH + usd_per_month(_GP3, HOST_ROOT_GIB, US_EAST_1))
        + usd_per_month(_GP2, cost.gp2_gib, US_EAST_1)
        + usd_per_month(_GP3, cost.gp3_gib, US_EAST_1)
        + cost.kms_keys * KMS_KEY_USD_PER_MONTH
        + cost.alarms * ALARM_USD_PER_MONTH
    )
    usd = per_month / HOURS_PER_MONTH * hours + cost.metrics_read * USD_PER_METRIC_READ
    return usd * _region_factor(region)


def host_usd(facts: Sequence[Fact], region: str) -> float:
    """Dollars that the shared instance and its volumes cost at most; nothing if no fact needs them."""
    minutes = max((fact.minutes for fact in facts if fact.needs_host), default=None)
    if minutes is None:
        return 0.0
    storage = usd_per_month(_GP2, HOST_GP2_GIB, US_EAST_1) + usd_per_month(_GP3, HOST_ROOT_GIB, US_EAST_1)
    per_hour = HOST_USD_PER_HOUR + storage / HOURS_PER_MONTH
    return per_hour * (minutes + CLEANUP_MINUTES) / 60 * _region_factor(region)


def total_usd(facts: Sequence[Fact], region: str) -> float:
    """Dollars that a run costs at most."""
    return sum(fact_usd(fact, region) for fact in facts) + host_usd(facts, region)


def _region_factor(region: str) -> float:
    return 1.0 if region == US_EAST_1.region else OTHER_REGION_FACTOR
