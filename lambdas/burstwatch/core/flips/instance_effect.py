"""What a flip would do to the buckets of the volume's instance."""

from math import inf

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume_ceiling import rates_of
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
    """Which bucket of the instance a flip makes the next to be empty, and when at the earliest; or None.

    A faster volume raises what all volumes together may take from the instance. Example: m5.large sustains
    3,600 IOPS. With a gp2 of 3,000 IOPS alone its bucket cannot drain. With a gp3 of 6,000, a bucket at 50 %
    is empty after 13,635,000 / (6,000 - 3,600) = 5,681 s of full load.
    """
    if instance is None or instance.other_iops is None or instance.other_mib_s is None:
        return None
    (iops_now, mib_s_now), (iops, mib_s) = (
        rates_of(configuration, size_gib) for configuration in (current, target)
    )
    io_sums = (instance.other_iops + iops_now, instance.other_iops + iops)
    throughput_sums = (instance.other_mib_s + mib_s_now, instance.other_mib_s + mib_s)
    io = [instance_io_bucket(instance, volumes_iops=total) for total in io_sums]
    throughput = [instance_throughput_bucket(instance, volumes_mib_s=total) for total in throughput_sums]
    effects = [
        (after_s, kind, pct, total)
        for kind, pct, (before, after), (_, total) in (
            (INSTANCE_IO, instance.io_balance_pct, io, io_sums),
            (INSTANCE_THROUGHPUT, instance.byte_balance_pct, throughput, throughput_sums),
        )
        if pct is not None and (after_s := _lasts_s(after, pct)) < _lasts_s(before, pct)
    ]
    if not effects:
        return None
    after_s, kind, pct, total = min(effects, key=lambda effect: effect[0])
    return (
        f"After the flip, the volumes of the instance may take {total:,.0f} {kind.rate_unit} from it. Its"
        f" {kind.credits} ({kind.metric} {pct:.3g}) would be the next to run empty, after"
        f" {format_rounded_duration(after_s)} of full load at the earliest"
    )


def _lasts_s(bucket: Bucket, pct: float) -> float:
    return bucket.credits_in(pct) / bucket.highest_drain_per_s if bucket.highest_drain_per_s else inf
