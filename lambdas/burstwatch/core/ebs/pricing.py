"""What a volume costs: list prices as values, and the arithmetic over them.

``US_EAST_1`` holds AWS's list prices for us-east-1. Source: gp3 and io2 from the bulk price list of EC2
published on 30 September 2026, gp2 and io1 from AWS's price tables of the same year. EBS bills by the second,
at least a minute; a month has 730 hours. The GB of AWS's price list is a GiB.

Examples, in dollars a month for 100 GiB: gp2 10.00; gp3 with 3,000 IOPS and 125 MiB/s 8.00, with 250 MiB/s
13.00; io1 with 3,000 IOPS 12.50 + 195.00 = 207.50.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import pairwise
from math import inf
from typing import Final

from burstwatch.core.durations import HOUR_S

HOURS_PER_MONTH: Final = 730
"""AWS's own convention: 365 * 24 / 12."""
MIN_BILLED_DURATION: Final = timedelta(minutes=1)
"""Source: the Amazon EBS pricing page (billed by the second, at least 60 s)."""


class VolumeType(StrEnum):
    """The volume types that burstwatch changes volumes to or from."""

    GP2 = "gp2"
    GP3 = "gp3"
    IO1 = "io1"
    IO2 = "io2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What ModifyVolume is given: a number is set exactly if the type allows it to be set.

    IOPS and throughput of gp2 follow from its size, the throughput of io1 and io2 from their IOPS. Those are
    None. Source: the EC2 API reference, ModifyVolume.

    Raises:
        ValueError: a number is missing, or is set for a type that does not take it.
    """

    volume_type: VolumeType
    iops: int | None = None
    throughput_mib_s: int | None = None

    def __post_init__(self) -> None:
        settable = (self.volume_type != VolumeType.GP2, self.volume_type == VolumeType.GP3)
        if (self.iops is not None, self.throughput_mib_s is not None) != settable:
            raise ValueError(
                f"{self.volume_type} with iops={self.iops}, throughput_mib_s={self.throughput_mib_s}:"
                " gp2 takes neither, gp3 both, io1 and io2 take IOPS only"
            )

    def __str__(self) -> str:
        iops = "" if self.iops is None else f" with {self.iops:,} IOPS"
        throughput = "" if self.throughput_mib_s is None else f" and {self.throughput_mib_s:,} MiB/s"
        return f"{self.volume_type}{iops}{throughput}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePrice:
    """Dollars a month for one volume type.

    ``iops_tiers`` are pairs of a number of IOPS and a price: each of the IOPS above that number costs this
    much, until the next tier begins. IOPS below the first tier and throughput up to ``free_mib_s`` cost
    nothing more.

    Raises:
        ValueError: the tiers are not in ascending order.
    """

    usd_per_gib: float
    iops_tiers: tuple[tuple[int, float], ...] = ()
    free_mib_s: int = 0
    usd_per_mib_s: float = 0.0

    def __post_init__(self) -> None:
        starts = [above for above, _ in self.iops_tiers]
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise ValueError(f"IOPS tiers begin at {starts}; each must begin above the one before")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """The prices of a region on a day; ValueError if a type has none."""

    region: str
    as_of: date
    by_type: Mapping[VolumeType, TypePrice]

    def __post_init__(self) -> None:
        if missing := [str(volume_type) for volume_type in VolumeType if volume_type not in self.by_type]:
            raise ValueError(f"no price for {', '.join(missing)} in {self.region}; give one for every type")


US_EAST_1: Final = PriceTable(
    region="us-east-1",
    as_of=date(2026, 9, 30),
    by_type={
        VolumeType.GP2: TypePrice(usd_per_gib=0.10),
        VolumeType.GP3: TypePrice(
            usd_per_gib=0.08, iops_tiers=((3_000, 0.005),), free_mib_s=125, usd_per_mib_s=0.04
        ),
        VolumeType.IO1: TypePrice(usd_per_gib=0.125, iops_tiers=((0, 0.065),)),
        VolumeType.IO2: TypePrice(
            usd_per_gib=0.125, iops_tiers=((0, 0.065), (32_000, 0.0455), (64_000, 0.03185))
        ),
    },
)


PRICE_SOURCE: Final = f"{US_EAST_1.region} list prices"
"""The source of every dollar in the flip path, in any region: the functions read no price list."""


def usd_per_month(configuration: Configuration, size_gib: int, prices: PriceTable) -> float:
    """Dollars a month, rounded to a millionth.

    Without rounding, equal prices would not compare equal: 6 GiB of gp3 with 128 MiB/s cost 0.48 + 0.12, and
    6 GiB of gp2 0.60.
    """
    price = prices.by_type[configuration.volume_type]
    iops, throughput = configuration.iops or 0, configuration.throughput_mib_s or 0
    ends = [*(above for above, _ in price.iops_tiers[1:]), inf]
    storage_usd = size_gib * price.usd_per_gib
    iops_usd = sum(
        max(0, min(iops, end) - above) * usd
        for (above, usd), end in zip(price.iops_tiers, ends, strict=False)
    )
    throughput_usd = max(0, throughput - price.free_mib_s) * price.usd_per_mib_s
    return round(storage_usd + iops_usd + throughput_usd, 6)


def usd_per_hour(per_month: float) -> float:
    """Dollars an hour, from dollars a month."""
    return per_month / HOURS_PER_MONTH


def usd_over(per_month: float, duration_s: float) -> float:
    """Dollars for this many seconds, from dollars a month."""
    return usd_per_hour(per_month) * max(0.0, duration_s) / HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """What a volume costs before and after a change."""

    before_usd_per_month: float
    after_usd_per_month: float

    @property
    def difference_usd_per_month(self) -> float:
        return round(self.after_usd_per_month - self.before_usd_per_month, 6)

    def difference_usd_over(self, duration: timedelta) -> float:
        """Dollars that a change for this long adds to the bill; negative if it saves money."""
        return usd_over(self.difference_usd_per_month, max(duration, MIN_BILLED_DURATION).total_seconds())
