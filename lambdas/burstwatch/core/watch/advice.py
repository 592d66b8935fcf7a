"""What people can do about a bucket of a resource that the watchdog never changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.hdd_bucket import HDD_RATES, hdd_bucket
from burstwatch.core.ebs.instance_bottleneck import (
    EMPTY_PCT,
    LARGER_INSTANCE,
    InstanceLimits,
    describe_bottlenecks,
    find_bottlenecks,
)
from burstwatch.core.ebs.pricing import PRICE_SOURCE, US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_types import GP3_MIN_MIB_S, TYPE_LIMITS
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.larger_type import (
    HELD_BACK_SHARE,
    InstanceLoad,
    larger_types,
    other_families,
    possible_load,
)
from burstwatch.core.location import AwsLocation
from burstwatch.core.text import format_usd

_GP3_IOPS: Final = TYPE_LIMITS[VolumeType.GP3].min_iops

LESS_IO_OR_OTHER_TYPE: Final = "reduce its I/O, or move it to an instance type with a higher EBS baseline"


def is_flippable(resource: Resource) -> bool:
    """Whether the watchdog may change it at all: an EBS volume that is not st1 or sc1."""
    return isinstance(resource, Volume) and resource.volume_type not in HDD_RATES


def advise_hdd(
    assessment: Assessment, location: AwsLocation, instance: InstanceLimits | None = None
) -> Recommendation:
    """A gp3 that sustains what an st1 or sc1 volume bursts to, with its price, and steps that cost less.

    It need not be faster than ``instance`` allows. If the instance is the bottleneck, no volume helps.
    """
    volume, bucket = assessment.volume, assessment.bucket
    if instance and (bottlenecks := find_bottlenecks(instance, mib_s=bucket.refill_per_s)):
        return Recommendation(action=LARGER_INSTANCE, reasons=(describe_bottlenecks(volume, bottlenecks),))
    most_mib_s, limit = bucket.burst_per_s, "it bursts to"
    if instance and instance.max_throughput_mib_s < most_mib_s:
        most_mib_s = instance.max_throughput_mib_s
        limit = f"its instance allows, {most_mib_s:,.4g} MiB/s"
    target = _gp3_with(max(GP3_MIN_MIB_S, ceil(most_mib_s)))
    price_usd = usd_per_month(target, volume.size_gib, US_EAST_1)
    before_usd = volume.size_gib * HDD_RATES[volume.volume_type].usd_per_gib
    reason = (
        f"{volume.volume_type} sustains {bucket.refill_per_s:,.4g} MiB/s at {volume.size_gib:,} GiB, and more"
        f" if it is larger; {target} sustains what {limit}, and costs {format_usd(price_usd)} a month"
        f" instead of {format_usd(before_usd)} ({PRICE_SOURCE}){_cheaper_steps(volume, bucket, price_usd)}"
    )
    return Recommendation(
        action=(
            f"aws ec2 modify-volume --region {location.region} --volume-id {volume.volume_id}"
            f" --volume-type gp3 --iops {target.iops} --throughput {target.throughput_mib_s}"
        ),
        reasons=(reason,),
    )


def _gp3_with(mib_s: int) -> Configuration:
    return Configuration(volume_type=VolumeType.GP3, iops=_GP3_IOPS, throughput_mib_s=mib_s)


def _cheaper_steps(volume: Volume, bucket: Bucket, price_usd: float) -> str:
    """What sustains more than now and costs less than what it bursts to; "" if nothing does."""
    slower_usd = usd_per_month(_gp3_with(GP3_MIN_MIB_S), volume.size_gib, US_EAST_1)
    st1 = hdd_bucket("st1", volume.size_gib)
    st1_usd = volume.size_gib * HDD_RATES["st1"].usd_per_gib
    steps = [
        f"{name} sustains {mib_s:,.4g} MiB/s for {format_usd(usd)}"
        for name, mib_s, usd in (
            ("gp3", GP3_MIN_MIB_S, slower_usd),
            (f"st1 of {volume.size_gib:,} GiB", st1.refill_per_s, st1_usd),
        )
        if mib_s > bucket.refill_per_s and usd < price_usd
    ]
    return f"; if less is enough, {' and '.join(steps)}" if steps else ""


def is_empty(assessment: Assessment) -> bool:
    """Whether its bucket has no credits now."""
    return assessment.sample is not None and assessment.sample.value <= EMPTY_PCT


@dataclass(frozen=True, slots=True)
class SustainedNeed:
    """The load that a type must sustain, and how it compares with the baseline, in words.

    It ``is_met`` if the present type sustains the measured load: then its credits refill.
    """

    load: InstanceLoad
    sentence_part: str
    is_met: bool = False


def describe_demand(
    kind: BucketKind,
    limits: InstanceLimits,
    load: InstanceLoad,
    volumes: tuple[float | None, float | None],
    *,
    is_empty: bool,
) -> SustainedNeed:
    """The measured load; if its credits are empty and held it back, the load that its volumes can serve."""
    is_iops = kind.rate_unit == "IOPS"
    baseline = limits.baseline_iops if is_iops else limits.baseline_throughput_mib_s
    sustained = format_limit(baseline, kind.rate_unit)
    measured = load.iops if is_iops else load.mib_s
    if measured is None:
        return SustainedNeed(load, sustained)
    possible = possible_load(load, limits, volumes, is_out_of_iops=is_iops) if is_empty else None
    if possible is None:
        is_met = measured < HELD_BACK_SHARE * baseline
        return SustainedNeed(
            load, f"{sustained}, and its volumes served up to {_format_number(measured, kind)}", is_met
        )
    highest = (possible.iops if is_iops else possible.mib_s) or 0.0
    return SustainedNeed(
        possible,
        f"{sustained}. It was held to that, so what it wants is not known: up to"
        f" {_format_number(highest, kind)} by the limits of its volumes and of its type",
    )


def _format_number(rate: float, kind: BucketKind) -> str:
    return f"{rate:,.0f}" if kind.rate_unit == "IOPS" else f"{round(rate, 1):,.10g}"


def advise_instance(
    assessment: Assessment,
    instance: Instance,
    limits: InstanceLimits,
    load: InstanceLoad,
    family: Mapping[str, InstanceLimits],
    location: AwsLocation,
) -> Recommendation:
    """The larger types that sustain the load, and the commands; an instance is stopped for the change."""
    volumes = instance.volumes_iops, instance.volumes_mib_s
    demand = describe_demand(assessment.kind, limits, load, volumes, is_empty=is_empty(assessment))
    baseline = f"{instance.instance_type} sustains {demand.sentence_part}"
    is_draining = assessment.forecast is not None and assessment.forecast.is_draining
    if demand.is_met and not is_draining:
        return Recommendation(
            action="wait: its credits refill while its load stays below its baseline",
            reasons=(f"{baseline}: no larger type is needed for that",),
        )
    types = larger_types(limits, demand.load, family)
    if not types:
        simulate = (
            f"burstctl simulate {instance.instance_id} --types '{other_families(instance.instance_type)}'"
        )
        reason = (
            f"{baseline}; no larger type of its family is known to sustain that: to look in others, run"
            f" {simulate} --region {location.region}"
        )
        return Recommendation(
            action=LESS_IO_OR_OTHER_TYPE,
            reasons=(reason,),
        )
    instance_id, region, chosen = instance.instance_id, location.region, types[0]
    modify = f"--instance-id {instance_id} --instance-type Value={chosen}"
    commands = (
        f"aws ec2 stop-instances --region {region} --instance-ids {instance_id}",
        f"aws ec2 wait instance-stopped --region {region} --instance-ids {instance_id}",
        f"aws ec2 modify-instance-attribute --region {region} {modify}",
        f"aws ec2 start-instances --region {region} --instance-ids {instance_id}",
    )
    others = f" (then {', '.join(types[1:])})" if types[1:] else ""
    reason = (
        f"{baseline}; {chosen} is the smallest of its family that sustains that{others}. A faster volume does"
        " not help: the instance limits all its volumes together"
    )
    return Recommendation(action=" && ".join(commands), reasons=(reason,))
