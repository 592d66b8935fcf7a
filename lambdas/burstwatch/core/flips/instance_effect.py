"""What a flip would do to the buckets of the volume's instance."""

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT, InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.ebs.volume_ceiling import rates_of
from burstwatch.core.ebs.volume_types import IOPS_PER_MIB_S
from burstwatch.core.instances.instance_buckets import (
    INSTANCE_IO,
    INSTANCE_THROUGHPUT,
    instance_io_bucket,
    instance_throughput_bucket,
)
from burstwatch.core.text import format_rounded_duration


def describe_instance_effect(
    instance: InstanceLimits | None, current: Configuration, target: Configuration, size_gib: int
) -> str | None:
    """Which bucket of the instance is the next to be empty after a flip, and when at the earliest; or None.

    A faster volume raises what all volumes together may take from the instance. Example: m5.large sustains
    3,600 IOPS. With a gp2 of 3,000 IOPS alone its bucket cannot drain. With a gp3 of 6,000, a bucket at 50 %
    is empty after 13,635,000 / (6,000 - 3,600) = 5,681 s of full load. A gp2 counts by what it sustains: its
    burst ends with its credits, and that of its target does not. None if the flip raises the load on no
    bucket that can drain.
    """
    if instance is None or instance.other_iops is None or instance.other_mib_s is None:
        return None
    (iops_now, mib_s_now), (iops, mib_s) = _sustained_rates(current, size_gib), rates_of(target, size_gib)
    io_total, throughput_total = instance.other_iops + iops, instance.other_mib_s + mib_s
    io = instance_io_bucket(instance, volumes_iops=io_total)
    throughput = instance_throughput_bucket(instance, volumes_mib_s=throughput_total)
    draining = [
        (_drain_time_s(bucket, pct), kind, pct, bucket, total, is_raised)
        for kind, pct, bucket, total, is_raised in (
            (INSTANCE_IO, instance.io_balance_pct, io, io_total, iops > iops_now),
            (INSTANCE_THROUGHPUT, instance.byte_balance_pct, throughput, throughput_total, mib_s > mib_s_now),
        )
        if pct is not None and bucket.highest_drain_per_s
    ]
    if not any(is_raised for *_, is_raised in draining):
        return None
    after_s, kind, pct, bucket, total, _ = min(draining, key=lambda entry: entry[0])
    effect = (
        f"are used up, so together they get {format_limit(bucket.refill_per_s, kind.rate_unit)}"
        if pct <= EMPTY_PCT
        else f"would be the next to run empty, after {format_rounded_duration(after_s)} of full load at the"
        " earliest"
    )
    return (
        f"After the flip, the volumes of the instance may take {total:,.0f} {kind.rate_unit} from it. Its"
        f" {kind.credits} ({kind.metric} {pct:.3g}) {effect}"
    )


def _sustained_rates(configuration: Configuration, size_gib: int) -> tuple[float, float]:
    """Operations and MiB per second that a volume serves without credits, at most."""
    iops, mib_s = rates_of(configuration, size_gib)
    if configuration.volume_type is VolumeType.GP2:
        iops = min(iops, baseline_iops(size_gib))
        mib_s = min(mib_s, iops / IOPS_PER_MIB_S)
    return iops, mib_s


def _drain_time_s(bucket: Bucket, pct: float) -> float:
    return bucket.credits_in(pct) / bucket.highest_drain_per_s
