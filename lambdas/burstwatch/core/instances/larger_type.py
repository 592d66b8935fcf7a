"""Which larger instance type sustains a measured load."""

from collections.abc import Mapping
from dataclasses import dataclass

from burstwatch.core.ebs.sizing import InstanceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLoad:
    """The highest mean load of a period that was measured, in IOPS and MiB/s; None if it was not read."""

    iops: float | None = None
    mib_s: float | None = None


def larger_types(
    limits: InstanceLimits, load: InstanceLoad, family: Mapping[str, InstanceLimits], *, count: int = 2
) -> list[str]:
    """The smallest types of the family that sustain the load without credits, the smallest first.

    A type counts if its baselines are no lower than those of the present type and carry the load; it is
    smaller than another if its baselines are lower.
    """
    fitting = {
        name: candidate
        for name, candidate in family.items()
        if candidate.baseline_iops > limits.baseline_iops
        and candidate.baseline_throughput_mib_s > limits.baseline_throughput_mib_s
        and candidate.baseline_iops >= (load.iops or 0)
        and candidate.baseline_throughput_mib_s >= (load.mib_s or 0)
    }
    ordered = sorted(fitting, key=lambda name: (fitting[name].baseline_throughput_mib_s, name))
    return ordered[:count]
