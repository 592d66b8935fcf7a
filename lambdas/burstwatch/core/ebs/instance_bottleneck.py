"""Whether the instance, not the volume, holds the load back, so that a faster volume would not help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.demand import THROTTLED_SHARE, Demand
from burstwatch.core.ebs.volume import Volume, baseline_iops
from burstwatch.core.ebs.volume_types import configuration_of, reachable_mib_s

EMPTY_PCT: Final = 1.0
"""An EBSIOBalance% or EBSByteBalance% at or below this is empty: as for the level ``exhausted``."""

NEARLY_EMPTY_PCT: Final = 5.0
"""At or below this it is empty before a flip has helped: 5 % last 90 s at the maximum of the type."""

LARGER_INSTANCE: Final = "use a larger instance type, or wait for its bucket to refill"
"""What helps if the instance is the bottleneck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLimits:
    """What the instance allows all its volumes together.

    The baselines apply while its own bucket is empty. Source: DescribeInstanceTypes, EbsOptimizedInfo. The
    balances are percentages; None for an instance type that has no bucket. ``other_iops`` and ``other_mib_s``
    are what the other volumes of the instance can serve together; ``used_iops`` and ``used_mib_s`` what all
    of them serve now. Each is None if it is not known.
    """

    max_iops: int
    max_throughput_mib_s: float
    baseline_iops: int
    baseline_throughput_mib_s: float
    io_balance_pct: float | None = None
    byte_balance_pct: float | None = None
    other_iops: float | None = None
    other_mib_s: float | None = None
    used_iops: float | None = None
    used_mib_s: float | None = None

    @property
    def is_nearly_empty(self) -> bool:
        """Whether one of its buckets may be empty before a flip has helped."""
        balances = (self.io_balance_pct, self.byte_balance_pct)
        return any(pct is not None and pct <= NEARLY_EMPTY_PCT for pct in balances)


def ssd_bottlenecks(volume: Volume, demand: Demand, instance: InstanceLimits) -> list[str]:
    """Why the instance of a gp2, gp3, io1 or io2 volume is the bottleneck, as ``find_bottlenecks`` says.

    Throughput is compared at the observed size of operations, and not at all if none was observed.
    """
    current = configuration_of(volume)
    iops = current.iops or baseline_iops(volume.size_gib)
    mib_s = operation_mib = None
    if demand.peak_iops and demand.peak_throughput_mib_s:
        operation_mib = demand.peak_throughput_mib_s / demand.peak_iops
        mib_s = min(reachable_mib_s(current, volume.size_gib), iops * operation_mib)
    return find_bottlenecks(instance, iops=iops, mib_s=mib_s, operation_mib=operation_mib)


def find_bottlenecks(
    instance: InstanceLimits,
    *,
    iops: int | None = None,
    mib_s: float | None = None,
    operation_mib: float | None = None,
) -> list[str]:
    """Why an instance is the bottleneck, so that a faster volume would cost money and not help.

    The result is clauses about the instance; it is empty if a faster volume helps. ``iops`` and ``mib_s`` are
    what the volume sustains *without* credits, in operations of ``operation_mib``: if the instance allows
    more than that, a faster volume helps. If a bucket of the instance is nearly empty, it helps as far as the
    volumes together serve less than the instance sustains. If their load is not known, the bucket counts as
    the bottleneck.
    """
    buckets = (
        ("EBSIOBalance%", instance.io_balance_pct, instance.used_iops, instance.baseline_iops, "IOPS"),
        (
            "EBSByteBalance%",
            instance.byte_balance_pct,
            instance.used_mib_s,
            instance.baseline_throughput_mib_s,
            "MiB/s",
        ),
    )
    bottlenecks = [
        f"its {bucket} is at {pct:.3g} %, which {'' if pct <= EMPTY_PCT else 'soon '}limits all its volumes"
        f" together to {baseline:,.6g} {unit}, and what they serve now is"
        f" {'not known' if used is None else f'{used:,.0f}'}"
        for bucket, pct, used, baseline, unit in buckets
        if pct is not None
        and pct <= NEARLY_EMPTY_PCT
        and (used is None or used >= THROTTLED_SHARE * baseline)
    ]
    if iops is not None and instance.max_iops <= iops:
        bottlenecks.append(f"it allows {instance.max_iops:,} IOPS, and the volume sustains {iops:,}")
    if mib_s is not None and instance.max_throughput_mib_s <= mib_s:
        size = f" at the {operation_mib * 1024:.0f} KiB of an average operation" if operation_mib else ""
        bottlenecks.append(
            f"it allows {instance.max_throughput_mib_s:g} MiB/s, and the volume sustains {mib_s:.4g}{size}"
        )
    return bottlenecks


def describe_bottlenecks(volume: Volume, bottlenecks: Sequence[str]) -> str:
    """The clauses of ``find_bottlenecks`` as one sentence without its full stop."""
    return f"instance {volume.instance_id}, not the volume, is the bottleneck: {'; '.join(bottlenecks)}"
