"""What EC2 lets a volume become: the limits of each type, and what a request makes of a shape.

Source of the numbers: the EC2 API reference, ModifyVolume; the EBS user guide, "Amazon EBS volume types".
"""

from dataclasses import dataclass
from typing import Final

from burstlab.model.aws_error import AwsError
from burstlab.model.describe import GP3_LEAST_MIB_S
from burstlab.model.modification import Shape, Wanted
from burstlab.model.settings import LabSettings
from burstlab.model.volume import DEFAULT_IOPS
from burstwatch.core.ebs.volume import baseline_iops, gp2_throughput_mib_s

_GP3_MOST_MIB_S: Final = 2_000
_GP3_IOPS_PER_MIB_S: Final = 4
_MULTI_ATTACH: Final = ("io1", "io2")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLimits:
    """What a type may be; without ``most_iops`` its rate cannot be chosen."""

    least_gib: int
    most_gib: int
    least_iops: int = 0
    most_iops: int = 0
    iops_per_gib: int = 0


LIMITS: Final = {
    "gp2": TypeLimits(least_gib=1, most_gib=16_384),
    "gp3": TypeLimits(least_gib=1, most_gib=65_536, least_iops=3_000, most_iops=80_000, iops_per_gib=500),
    "io1": TypeLimits(least_gib=4, most_gib=16_384, least_iops=100, most_iops=64_000, iops_per_gib=50),
    "io2": TypeLimits(least_gib=4, most_gib=65_536, least_iops=100, most_iops=256_000, iops_per_gib=1_000),
    "st1": TypeLimits(least_gib=125, most_gib=16_384),
    "sc1": TypeLimits(least_gib=125, most_gib=16_384),
    "standard": TypeLimits(least_gib=1, most_gib=1_024),
}


def shape_wanted(now: Shape, wanted: Wanted, settings: LabSettings) -> Shape:
    """What the volume becomes by this request.

    Raises:
        AwsError: the request asks for what cannot be.
    """
    _check_asked(now, wanted)
    volume_type = wanted.volume_type or now.volume_type
    size_gib = now.size_gib if wanted.size_gib is None else wanted.size_gib
    multi_attached = now.multi_attached if wanted.multi_attached is None else wanted.multi_attached
    target = Shape(
        volume_type=volume_type,
        size_gib=size_gib,
        iops=_iops(now, volume_type, size_gib, wanted, settings),
        throughput_mib_s=_throughput_mib_s(now, volume_type, wanted, settings),
        multi_attached=multi_attached,
    )
    _check_size(now, target)
    if LIMITS[volume_type].most_iops:
        _check_rate(target, settings.ratio_code)
    if target.throughput_mib_s is not None:
        _check_throughput(target)
    return target


def _check_asked(now: Shape, wanted: Wanted) -> None:
    if wanted == Wanted():
        raise AwsError("InvalidParameterValue", "No change specified: give size, type, iops or throughput")
    volume_type = wanted.volume_type or now.volume_type
    if volume_type not in LIMITS:
        raise AwsError("InvalidParameterValue", f"Invalid value '{volume_type}' for volumeType.")
    if wanted.iops is not None and not LIMITS[volume_type].most_iops:
        raise AwsError(
            "InvalidParameterCombination", f"The parameter iops is not supported for {volume_type} volumes."
        )
    if wanted.throughput_mib_s is not None and volume_type != "gp3":
        raise AwsError(
            "InvalidParameterCombination",
            f"The parameter throughput is not supported for {volume_type} volumes.",
        )
    if wanted.multi_attached and volume_type not in _MULTI_ATTACH:
        raise AwsError(
            "InvalidParameterCombination", f"Multi-Attach is not supported for {volume_type} volumes."
        )


def _iops(now: Shape, volume_type: str, size_gib: int, wanted: Wanted, settings: LabSettings) -> int:
    if volume_type == "gp2":
        return baseline_iops(size_gib)
    if wanted.iops is not None:
        return wanted.iops
    if volume_type == now.volume_type:
        return now.iops
    if volume_type == "gp3" and now.is_gp2 and settings.gp3_defaults == "matched":
        return max(LIMITS["gp3"].least_iops, now.iops)
    return DEFAULT_IOPS[volume_type]


def _throughput_mib_s(now: Shape, volume_type: str, wanted: Wanted, settings: LabSettings) -> int | None:
    if volume_type != "gp3":
        return None
    if wanted.throughput_mib_s is not None:
        return wanted.throughput_mib_s
    if now.is_gp2 and settings.gp3_defaults == "matched":
        return max(GP3_LEAST_MIB_S, gp2_throughput_mib_s(now.size_gib))
    return now.throughput_mib_s or GP3_LEAST_MIB_S


def _check_size(now: Shape, target: Shape) -> None:
    if target.size_gib < now.size_gib:
        raise AwsError("InvalidParameterValue", "New size cannot be smaller than existing size")
    limits = LIMITS[target.volume_type]
    if not limits.least_gib <= target.size_gib <= limits.most_gib:
        raise AwsError(
            "InvalidParameterValue",
            f"Volume size of {target.size_gib} GiB is out of range for {target.volume_type} volumes; "
            f"it must be {limits.least_gib} to {limits.most_gib} GiB.",
        )


def _check_rate(target: Shape, ratio_code: str) -> None:
    """The ratio to the size binds only above the least, which every size may have."""
    limits = LIMITS[target.volume_type]
    if target.iops < limits.least_iops:
        raise AwsError(
            "InvalidParameterValue",
            f"Volume iops of {target.iops} is too low; minimum is {limits.least_iops}.",
        )
    if target.iops > limits.most_iops:
        raise AwsError(
            "VolumeIOPSLimit", f"Volume iops of {target.iops} is too high; maximum is {limits.most_iops}."
        )
    if target.iops > max(limits.least_iops, limits.iops_per_gib * target.size_gib):
        raise AwsError(
            ratio_code,
            f"Iops to volume size ratio of {target.iops / target.size_gib:.6f} is too high; "
            f"maximum is {limits.iops_per_gib}",
        )


def _check_throughput(target: Shape) -> None:
    throughput = target.throughput_mib_s or 0
    if not GP3_LEAST_MIB_S <= throughput <= _GP3_MOST_MIB_S:
        verdict, limit = (
            ("low; minimum", GP3_LEAST_MIB_S)
            if throughput < GP3_LEAST_MIB_S
            else ("high; maximum", _GP3_MOST_MIB_S)
        )
        raise AwsError(
            "InvalidParameterValue", f"Volume throughput of {throughput} is too {verdict} is {limit}."
        )
    if throughput * _GP3_IOPS_PER_MIB_S > target.iops:
        raise AwsError(
            "InvalidParameterValue",
            f"Throughput (MiBps) to iops ratio of {throughput / target.iops:.6f} is too high; "
            f"maximum is {1 / _GP3_IOPS_PER_MIB_S:.6f} MiBps per iops.",
        )
