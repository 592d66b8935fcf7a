"""Which larger instance type sustains a measured load."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.sizing import InstanceLimits

_SMALL_SIZES: Final = ("nano", "micro", "small", "medium", "large")
_LARGEST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLoad:
    """The highest mean load of a period that was measured, in IOPS and MiB/s; None if it was not read."""

    iops: float | None = None
    mib_s: float | None = None


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
        fitting, key=lambda name: (fitting[name].baseline_throughput_mib_s, _size_rank(name), name)
    )
    return ordered[:count]


def _size_rank(instance_type: str) -> int:
    """``large`` is below ``xlarge``, and that below ``2xlarge``; a size such as ``metal`` is last."""
    size = instance_type.partition(".")[2]
    if size in _SMALL_SIZES:
        return _SMALL_SIZES.index(size) - len(_SMALL_SIZES)
    number = size.removesuffix("xlarge") or "1"
    return int(number) if size.endswith("xlarge") and number.isdigit() else _LARGEST
