"""What people can do about a bucket of a resource that the watchdog never changes."""

from math import ceil
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.ebs.hdd_bucket import HDD_RATES
from burstwatch.core.ebs.pricing import PRICE_SOURCE, US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import GP3_MIN_MIB_S, TYPE_LIMITS
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.larger_type import InstanceLoad
from burstwatch.core.location import AwsLocation
from burstwatch.core.text import format_usd

_GP3_IOPS: Final = TYPE_LIMITS[VolumeType.GP3].min_iops


def is_flippable(resource: Resource) -> bool:
    """Whether the watchdog may change it at all: an EBS volume that is not st1 or sc1."""
    return isinstance(resource, Volume) and resource.volume_type not in HDD_RATES


def advise_hdd(assessment: Assessment, location: AwsLocation) -> Recommendation:
    """A gp3 that sustains what an st1 or sc1 volume bursts to."""
    volume, bucket = assessment.volume, assessment.bucket
    target = Configuration(
        volume_type=VolumeType.GP3,
        iops=_GP3_IOPS,
        throughput_mib_s=max(GP3_MIN_MIB_S, ceil(bucket.burst_per_s)),
    )
    price_usd = usd_per_month(target, volume.size_gib, US_EAST_1)
    reason = (
        f"{volume.volume_type} sustains {bucket.refill_per_s:,.4g} MiB/s at {volume.size_gib:,} GiB, and more"
        f" if it is larger; {target} sustains what it bursts to, and costs {format_usd(price_usd)} a month"
        f" ({PRICE_SOURCE})"
    )
    return Recommendation(
        action=(
            f"aws ec2 modify-volume --region {location.region} --volume-id {volume.volume_id}"
            f" --volume-type gp3 --iops {target.iops} --throughput {target.throughput_mib_s}"
        ),
        reasons=(reason,),
    )


def advise_instance(
    assessment: Assessment,
    instance: Instance,
    load: InstanceLoad,
    types: list[str],
    location: AwsLocation,
) -> Recommendation:
    """The larger types that sustain the load, and the commands; an instance is stopped for the change."""
    unit = assessment.kind.rate_unit
    measured = load.iops if unit == "IOPS" else load.mib_s
    baseline = f"{instance.instance_type} sustains {assessment.bucket.refill_per_s:,.4g} {unit}"
    if measured is not None:
        baseline += f", and its volumes served up to {measured:,.4g}"
    if not types:
        reason = f"{baseline}; no larger type of its family is known to sustain that"
        return Recommendation(
            action="reduce its I/O, or move it to an instance type with a higher EBS baseline",
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
