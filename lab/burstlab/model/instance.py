"""The instances volumes hang on: what their type allows, and what is left in buckets of their own."""

from bisect import insort
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

_MBIT_PER_MB: Final = 8  # as EbsOptimizedInfo relates BandwidthInMbps to ThroughputInMBps


class EbsLimits(NamedTuple):
    """The limits of a type for all its volumes together: permanently, and while it has burst credits."""

    baseline_iops: int
    maximum_iops: int
    baseline_mbit_s: int
    maximum_mbit_s: int


INSTANCE_TYPES: Final[dict[str, EbsLimits | None]] = {
    "t2.micro": None,
    "t3.small": EbsLimits(1_000, 11_800, 174, 2_085),
    "t3.micro": EbsLimits(500, 11_800, 87, 2_085),
    "t3.large": EbsLimits(4_000, 15_700, 695, 2_780),
    "m4.large": EbsLimits(3_600, 3_600, 450, 450),
    "c5.large": EbsLimits(4_000, 20_000, 650, 4_750),
    "m5.large": EbsLimits(3_600, 18_750, 650, 4_750),
    "m5.xlarge": EbsLimits(6_000, 18_750, 1_150, 4_750),
    "m5.4xlarge": EbsLimits(18_750, 18_750, 4_750, 4_750),
    "m6i.large": EbsLimits(3_600, 40_000, 650, 10_000),
    "r5.2xlarge": EbsLimits(12_000, 18_750, 2_300, 4_750),
}
"""As AWS's DescribeInstanceTypes returns them; None for types that are never EBS-optimized."""


class InstanceBalances(NamedTuple):
    """What is left in an instance's buckets from a moment on; None of a bucket that is not published."""

    since_s: int
    io_pct: float | None
    byte_pct: float | None


BALANCES: Final = {"EBSIOBalance%": attrgetter("io_pct"), "EBSByteBalance%": attrgetter("byte_pct")}
"""The metrics of an instance, with the field for each."""


@dataclass(slots=True, kw_only=True)
class LabInstance:
    """An instance the fleet's volumes hang on; ``state`` is EC2's: running, stopped, terminated.

    ``own_volumes`` are deleted with it; ``script`` is its user data. The limits and the balances are only
    shown, they do not limit the load.
    """

    instance_id: str
    launched_at: datetime
    state: str = "running"
    instance_type: str = "m5.large"
    tags: dict[str, str]
    balances: list[InstanceBalances] = field(default_factory=list)
    own_volumes: set[str] = field(default_factory=set)
    script: str = ""

    def set_balances(self, new_balances: InstanceBalances) -> None:
        """Publish this from its moment on.

        Raises:
            ValueError: one is not a percentage.
        """
        for name, value in (("io_pct", new_balances.io_pct), ("byte_pct", new_balances.byte_pct)):
            if value is not None and not 0 <= value <= 100:  # noqa: PLR2004 - per cent
                raise ValueError(f"{name} is {value}: give 0 to 100, or none for a bucket that is not there")
        insort(self.balances, new_balances, key=attrgetter("since_s"))

    def min_balance(self, metric: str, from_s: int, to_s: int) -> float | None:
        """The least of one of ``BALANCES`` between two moments, None where nothing was published."""
        last_before = [published for published in self.balances if published.since_s <= from_s][-1:]
        within = [published for published in self.balances if from_s < published.since_s < to_s]
        values = [BALANCES[metric](published) for published in last_before + within]
        return min((value for value in values if value is not None), default=None)


def instance_type_document(name: str) -> dict[str, Any]:
    """One entry of DescribeInstanceTypes, as far as it is about volumes."""
    limits = INSTANCE_TYPES[name]
    if limits is None:
        return {"instanceType": name, "ebsInfo": {"ebsOptimizedSupport": "unsupported"}}
    optimized = {
        "baselineBandwidthInMbps": limits.baseline_mbit_s,
        "baselineThroughputInMBps": limits.baseline_mbit_s / _MBIT_PER_MB,
        "baselineIops": limits.baseline_iops,
        "maximumBandwidthInMbps": limits.maximum_mbit_s,
        "maximumThroughputInMBps": limits.maximum_mbit_s / _MBIT_PER_MB,
        "maximumIops": limits.maximum_iops,
    }
    return {
        "instanceType": name,
        "ebsInfo": {"ebsOptimizedSupport": "default", "ebsOptimizedInfo": optimized},
    }
