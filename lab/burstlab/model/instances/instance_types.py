"""The instance types of EC2, from the answers of DescribeInstanceTypes that moto ships with."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

_KIB_PER_MB: Final = (
    1_000_000 / 1_024
)  # EC2 gives the throughput of instances in MB/s, that of volumes in MiB/s
_BURST_S: Final = 1_800
"""How long a full bucket lasts at the maximum; Source: EC2 user guide, "EBS-optimized instance types"."""


class RateLimit(NamedTuple):
    """What a type allows all its volumes together of one kind, per second.

    ``baseline`` applies permanently, ``maximum`` while there are credits.
    """

    baseline: float
    maximum: float

    @property
    def capacity(self) -> float:
        """Of the bucket: 30 minutes at the maximum; 0 for a type without a bucket."""
        return (self.maximum - self.baseline) * _BURST_S


class EbsLimits(NamedTuple):
    """The limits of a type: operations, and KiB.

    Example: m5.large sustains 3,600 operations a second and serves 18,750 at most, so its bucket holds
    (18,750 - 3,600) * 1,800 = 27,270,000.
    """

    io: RateLimit
    kib: RateLimit


@cache
def instance_types() -> Mapping[str, Mapping[str, Any]]:
    """The entries of DescribeInstanceTypes by name, in the order of the names."""
    spec = find_spec("moto")  # it is not imported, because that takes a second
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "ec2/resources/instance_types.json.gz"
    entries: dict[str, Mapping[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return dict(sorted(entries.items()))


@cache
def ebs_limits(instance_type: str) -> EbsLimits | None:
    """The limits of a type; None if it is not known, or not always EBS-optimized."""
    ebs_info = instance_types().get(instance_type, {}).get("EbsInfo", {})
    limits = ebs_info.get("EbsOptimizedInfo")
    if limits is None or ebs_info["EbsOptimizedSupport"] != "default":
        return None
    return EbsLimits(
        RateLimit(limits["BaselineIops"], limits["MaximumIops"]),
        RateLimit(
            limits["BaselineThroughputInMBps"] * _KIB_PER_MB, limits["MaximumThroughputInMBps"] * _KIB_PER_MB
        ),
    )


def is_nitro(instance_type: str) -> bool:
    """Whether CloudWatch has EBSReadOps and so on of it; a type that is not known counts as one."""
    entry = instance_types().get(instance_type)
    return entry is None or entry.get("Hypervisor") == "nitro" or entry["BareMetal"]


def is_bare_metal(instance_type: str) -> bool:
    """Whether it runs without a hypervisor."""
    return bool(instance_types().get(instance_type, {}).get("BareMetal"))
