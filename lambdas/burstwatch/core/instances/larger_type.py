"""Which larger instance type sustains a load: the measured one, or the one that the volumes can serve.

CloudWatch shows what was *served*. An instance whose bucket has been empty for as long as its load is known
was served its baseline, whatever was wanted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.instance_bottleneck import InstanceLimits

_SMALL_SIZES: Final = ("nano", "micro", "small", "medium", "large")
_LARGEST: Final = 1_000
_GRAVITON: Final = re.compile(r"[a-z]+\d+g")
_COMMON_FAMILIES: Final = ("c", "m", "r")
HELD_BACK_SHARE: Final = 0.9
_ROUNDING: Final = 1.02
"""A judgement: between these shares of the baseline, the busiest five minutes are the baseline itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLoad:
    """The highest mean load of a period that was measured, in IOPS and MiB/s; None if it was not read."""

    iops: float | None = None
    mib_s: float | None = None


def possible_load(
    load: InstanceLoad,
    limits: InstanceLimits,
    volumes: tuple[float | None, float | None],
    *,
    is_out_of_iops: bool,
) -> InstanceLoad | None:
    """What may be wanted of an instance that is out of credits; None if its measured load shows that.

    It is held back if its busiest minutes are at its baseline. What it would be served with credits is then
    not known: at most what its type bursts to and its ``volumes`` serve, as IOPS and MiB/s (None if not
    known). The other rate grows with it.

    Example: an m5.large served 3,600 IOPS and 14 MiB/s, which is its baseline. With volumes of 6,000 IOPS,
    6,000 IOPS and 23 MiB/s are possible.
    """
    measured = (load.iops or 0.0, load.mib_s or 0.0)
    baselines = (limits.baseline_iops, limits.baseline_throughput_mib_s)
    bounds = [
        highest if served is None else min(highest, served)
        for highest, served in zip((limits.max_iops, limits.max_throughput_mib_s), volumes, strict=True)
    ]
    empty = 0 if is_out_of_iops else 1
    if not HELD_BACK_SHARE <= measured[empty] / baselines[empty] <= _ROUNDING:
        return None
    factor = max(1.0, bounds[empty] / measured[empty])
    iops, mib_s = (max(rate, min(bound, rate * factor)) for rate, bound in zip(measured, bounds, strict=True))
    return InstanceLoad(iops=iops, mib_s=mib_s)


def larger_types(
    limits: InstanceLimits, load: InstanceLoad, family: Mapping[str, InstanceLimits], *, count: int = 2
) -> list[str]:
    """The smallest types of the family that sustain the load without credits, the smallest first.

    A type counts if its baselines are above those of the present type and carry the load. It is smaller than
    another if its baselines are lower, or the same and its size is smaller: t3.large before t3.2xlarge.
    """
    fitting = {
        name: candidate
        for name, candidate in family.items()
        if candidate.baseline_iops > limits.baseline_iops
        and candidate.baseline_throughput_mib_s > limits.baseline_throughput_mib_s
        and candidate.baseline_iops >= (load.iops or 0)
        and candidate.baseline_throughput_mib_s >= (load.mib_s or 0)
    }
    ordered = sorted(
        fitting, key=lambda name: (fitting[name].baseline_throughput_mib_s, size_rank(name), name)
    )
    return ordered[:count]


def other_families(instance_type: str) -> str:
    """Patterns of the families of the same architecture that are most used: ``c?g.*,m?g.*,r?g.*``.

    A name such as t4g has a ``g`` after the generation if its processor is a Graviton; of the others, only
    those of Intel are listed.
    """
    processor = "g" if _GRAVITON.match(instance_type) else "i"
    return ",".join(f"{family}?{processor}.*" for family in _COMMON_FAMILIES)


def size_rank(instance_type: str) -> int:
    """``large`` is below ``xlarge``, and that below ``2xlarge``; a size such as ``metal`` is last."""
    size = instance_type.partition(".")[2]
    if size in _SMALL_SIZES:
        return _SMALL_SIZES.index(size) - len(_SMALL_SIZES)
    number = size.removesuffix("xlarge") or "1"
    return int(number) if size.endswith("xlarge") and number.isdigit() else _LARGEST
