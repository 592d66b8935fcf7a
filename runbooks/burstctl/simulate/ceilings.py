"""The most that volumes serve together: they cannot draw more than that from their instance.

Source of the limits: the EBS user guide, "Amazon EBS volume types".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

from burstctl.simulate.simulation import InstanceBucket, InstanceBuckets
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.ebs.volume_types import (
    GP3_MAX_MIB_S,
    GP3_MIN_MIB_S,
    IOPS_PER_MIB_S,
    TYPE_LIMITS,
    as_configuration,
    reachable_mib_s,
)
from burstwatch.core.instances.instance_buckets import instance_io_bucket, instance_throughput_bucket

PLANNED_FORM: Final = "[VOLUME=]TYPE:IOPS:MIB_S[:GIB], such as gp3:6000:250"
_PLANNED: Final = re.compile(
    r"(?:(?P<replaces>vol-(?:[0-9a-f]{8}|[0-9a-f]{17}))=)?(?P<type>\w+):(?P<iops>[0-9]{1,6}):(?P<mib_s>[0-9]{1,5})(?::(?P<gib>[0-9]{1,5}))?"
)
_GIB_PER_TIB: Final = 1_024
_HDD_MIB_S: Final = {"st1": (250, 500), "sc1": (80, 250)}
"""MiB/s for each TiB while the volume has credits, and the most at any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most that volumes serve: operations and MiB per second; ``inf`` if that is not known."""

    iops: float
    mib_s: float

    def of(self, kind: InstanceBucket) -> float:
        return self.iops if kind is InstanceBucket.IO else self.mib_s

    def __add__(self, other: "Ceiling") -> "Ceiling":
        return Ceiling(iops=self.iops + other.iops, mib_s=self.mib_s + other.mib_s)


NO_CEILING: Final = Ceiling(iops=inf, mib_s=inf)
_NOTHING: Final = Ceiling(iops=0.0, mib_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVolume:
    """A volume that is to be attached, or a change of the attached volume ``replaces``."""

    text: str
    ceiling: Ceiling
    replaces: str | None = None


def parse_planned_volume(text: str) -> PlannedVolume:
    """Parse ``gp3:6000:250``, ``vol-0123456789abcdef0=gp3:6000:250`` or ``io2:20000:1000:500``.

    Raises:
        ValueError: it is not of this form, or AWS does not allow these numbers.
    """
    match = _PLANNED.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a planned volume; write {PLANNED_FORM}")
    if match["type"] not in TYPE_LIMITS:
        raise ValueError(f"{text}: {match['type']!r} is not a type; write {', '.join(TYPE_LIMITS)}")
    kind = VolumeType(match["type"])
    iops, mib_s, limits = int(match["iops"]), int(match["mib_s"]), TYPE_LIMITS[kind]
    size_gib = int(match["gib"]) if match["gib"] else limits.max_gib
    if not limits.min_gib <= size_gib <= limits.max_gib:
        raise ValueError(
            f"{text}: {size_gib:,} GiB is out of range;"
            f" {kind} takes {limits.min_gib:,} to {limits.max_gib:,} GiB"
        )
    most_iops = limits.max_iops_at(size_gib)
    if not limits.min_iops <= iops <= most_iops:
        raise ValueError(
            f"{text}: {iops:,} IOPS is out of range; {kind} takes {limits.min_iops:,} to {most_iops:,} IOPS"
        )
    ceiling = Ceiling(iops=iops, mib_s=_planned_mib_s(text, kind, iops, mib_s))
    return PlannedVolume(text=text, ceiling=ceiling, replaces=match["replaces"])


def _planned_mib_s(text: str, kind: VolumeType, iops: int, mib_s: int) -> float:
    """The throughput, which of io1 and io2 cannot be chosen: it follows from the IOPS."""
    if kind is VolumeType.GP3:
        most = min(GP3_MAX_MIB_S, iops / IOPS_PER_MIB_S)
        if not GP3_MIN_MIB_S <= mib_s <= most:
            allowed = f"{GP3_MIN_MIB_S} to {most:,.0f} MiB/s"
            raise ValueError(
                f"{text}: {mib_s:,} MiB/s is out of range; gp3 with {iops:,} IOPS takes {allowed}"
            )
        return mib_s
    most = reachable_mib_s(Configuration(volume_type=kind, iops=iops), 1)
    if mib_s > most:
        raise ValueError(
            f"{text}: {mib_s:,} MiB/s is out of range; {kind} with {iops:,} IOPS reaches {most:,.0f} MiB/s"
        )
    return most


def volume_ceiling(volume: Volume) -> Ceiling:
    """The most that a volume serves while it has credits.

    Examples: a gp2 volume of 100 GiB serves 3,000 operations and 128 MiB a second, a new gp3 volume 3,000
    and 125. st1 and sc1 count operations of up to 1 MiB after merging, which does not bound those of the
    instance.
    """
    if volume.volume_type in _HDD_MIB_S:
        per_tib, most = _HDD_MIB_S[volume.volume_type]
        return Ceiling(iops=inf, mib_s=min(most, per_tib * volume.size_gib / _GIB_PER_TIB))
    if volume.volume_type not in frozenset(VolumeType):
        return NO_CEILING
    kind = VolumeType(volume.volume_type)
    configuration = as_configuration(kind, volume.provisioned_iops, volume.throughput_mib_s)
    iops = configuration.iops or max(BURST_IOPS, baseline_iops(volume.size_gib))
    return Ceiling(iops=iops, mib_s=reachable_mib_s(configuration, volume.size_gib))


def attached_ceiling(volumes: Iterable[Volume]) -> Ceiling:
    """What these volumes serve together."""
    return sum((volume_ceiling(volume) for volume in volumes), _NOTHING)


def planned_ceiling(volumes: Sequence[Volume], planned: Sequence[PlannedVolume]) -> Ceiling:
    """What the volumes serve together after the plan.

    Raises:
        ValueError: a volume that is to be changed is not attached.
    """
    attached_ids = {volume.volume_id for volume in volumes}
    for plan in planned:
        if plan.replaces is not None and plan.replaces not in attached_ids:
            raise ValueError(f"{plan.text}: {plan.replaces} is not attached; leave it out to add a volume")
    replaced_ids = {plan.replaces for plan in planned}
    unchanged = attached_ceiling(volume for volume in volumes if volume.volume_id not in replaced_ids)
    return sum((plan.ceiling for plan in planned), unchanged)


def limited_buckets(limits: InstanceLimits, ceiling: Ceiling) -> InstanceBuckets:
    """The buckets of a type whose volumes serve at most this much."""
    iops, mib_s = (value if isfinite(value) else None for value in (ceiling.iops, ceiling.mib_s))
    return InstanceBuckets(
        io=instance_io_bucket(limits, volumes_iops=iops),
        throughput=instance_throughput_bucket(limits, volumes_mib_s=mib_s),
    )
