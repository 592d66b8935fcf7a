"""What EC2 lets a volume become: the limits of each type, and what a request makes of a shape.

Source of the numbers: the EC2 API reference, ModifyVolume; the EBS user guide, "Amazon EBS volume types".
"""

from dataclasses import dataclass
from typing import Final

from burstlab.model.aws_error import AwsError
from burstlab.model.describe import GP3_MIN_MIB_S
from burstlab.model.modification import ModifyRequest, VolumeSpec
from burstlab.model.settings import LabSettings
from burstlab.model.volume import DEFAULT_IOPS, MULTI_ATTACH_TYPES
from burstwatch.core.ebs.volume import baseline_iops, gp2_throughput_mib_s

# Source: EBS user guide, General Purpose SSD (0.25 MiB/s per IOPS)
_GP3_MAX_MIB_S: Final = 2_000
_GP3_IOPS_PER_MIB_S: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLimits:
    """What a type may be; without ``max_iops`` its rate cannot be chosen."""

    min_gib: int
    max_gib: int
    min_iops: int = 0
    max_iops: int = 0
    iops_per_gib: int = 0


LIMITS: Final = {
    "gp2": TypeLimits(min_gib=1, max_gib=16_384),
    "gp3": TypeLimits(min_gib=1, max_gib=65_536, min_iops=3_000, max_iops=80_000, iops_per_gib=500),
    "io1": TypeLimits(min_gib=4, max_gib=16_384, min_iops=100, max_iops=64_000, iops_per_gib=50),
    "io2": TypeLimits(min_gib=4, max_gib=65_536, min_iops=100, max_iops=256_000, iops_per_gib=1_000),
    "st1": TypeLimits(min_gib=125, max_gib=16_384),
    "sc1": TypeLimits(min_gib=125, max_gib=16_384),
    "standard": TypeLimits(min_gib=1, max_gib=1_024),
}


def resolve_target(current: VolumeSpec, request: ModifyRequest, settings: LabSettings) -> VolumeSpec:
    """What the volume becomes by this request.

    Raises:
    AwsError: the request is impossible.
    """
    _check_request(current, request)
    volume_type = request.volume_type or current.volume_type
    size_gib = current.size_gib if request.size_gib is None else request.size_gib
    multi_attached = current.multi_attached if request.multi_attached is None else request.multi_attached
    target = VolumeSpec(
        volume_type=volume_type,
        size_gib=size_gib,
        iops=_resolve_iops(current, volume_type, size_gib, request, settings),
        throughput_mib_s=_resolve_throughput_mib_s(current, volume_type, request, settings),
        multi_attached=multi_attached,
    )
    _check_size(current, target)
    if LIMITS[volume_type].max_iops:
        _check_rate(target, settings.ratio_code)
    if target.throughput_mib_s is not None:
        _check_throughput(target)
    return target


def _check_request(current: VolumeSpec, request: ModifyRequest) -> None:
    if request == ModifyRequest():
        raise AwsError("InvalidParameterValue", "No change specified: give size, type, iops or throughput")
    volume_type = request.volume_type or current.volume_type
    if volume_type not in LIMITS:
        raise AwsError("InvalidParameterValue", f"Invalid value '{volume_type}' for volumeType.")
    if request.iops is not None and not LIMITS[volume_type].max_iops:
        raise AwsError(
            "InvalidParameterCombination", f"The parameter iops is not supported for {volume_type} volumes."
        )
    if request.throughput_mib_s is not None and volume_type != "gp3":
        raise AwsError(
            "InvalidParameterCombination",
            f"The parameter throughput is not supported for {volume_type} volumes.",
        )
    if request.multi_attached and volume_type not in MULTI_ATTACH_TYPES:
        raise AwsError(
            "InvalidParameterCombination", f"Multi-Attach is not supported for {volume_type} volumes."
        )


def _resolve_iops(
    current: VolumeSpec, volume_type: str, size_gib: int, request: ModifyRequest, settings: LabSettings
) -> int:
    if volume_type == "gp2":
        return baseline_iops(size_gib)
    if request.iops is not None:
        return request.iops
    if volume_type == current.volume_type:
        return current.iops
    if volume_type == "gp3" and current.is_gp2 and settings.gp3_defaults == "matched":
        return max(LIMITS["gp3"].min_iops, current.iops)
    return DEFAULT_IOPS[volume_type]


def _resolve_throughput_mib_s(
    current: VolumeSpec, volume_type: str, request: ModifyRequest, settings: LabSettings
) -> int | None:
    if volume_type != "gp3":
        return None
    if request.throughput_mib_s is not None:
        return request.throughput_mib_s
    if current.is_gp2 and settings.gp3_defaults == "matched":
        return max(GP3_MIN_MIB_S, gp2_throughput_mib_s(current.size_gib))
    return current.throughput_mib_s or GP3_MIN_MIB_S


def _check_size(current: VolumeSpec, target: VolumeSpec) -> None:
    if target.size_gib < current.size_gib:
        raise AwsError("InvalidParameterValue", "New size cannot be smaller than existing size")
    limits = LIMITS[target.volume_type]
    if not limits.min_gib <= target.size_gib <= limits.max_gib:
        raise AwsError(
            "InvalidParameterValue",
            f"Volume size of {target.size_gib} GiB is out of range for {target.volume_type} volumes; "
            f"it must be {limits.min_gib} to {limits.max_gib} GiB.",
        )


def _check_rate(target: VolumeSpec, ratio_code: str) -> None:
    """The ratio to the size binds only above the least, which every size may have."""
    limits = LIMITS[target.volume_type]
    if target.iops < limits.min_iops:
        raise AwsError(
            "InvalidParameterValue",
            f"Volume iops of {target.iops} is too low; minimum is {limits.min_iops}.",
        )
    if target.iops > limits.max_iops:
        raise AwsError(
            "VolumeIOPSLimit", f"Volume iops of {target.iops} is too high; maximum is {limits.max_iops}."
        )
    if target.iops > max(limits.min_iops, limits.iops_per_gib * target.size_gib):
        raise AwsError(
            ratio_code,
            f"Iops to volume size ratio of {target.iops / target.size_gib:.6f} is too high; "
            f"maximum is {limits.iops_per_gib}",
        )


def _check_throughput(target: VolumeSpec) -> None:
    throughput = target.throughput_mib_s or 0
    if not GP3_MIN_MIB_S <= throughput <= _GP3_MAX_MIB_S:
        comparison, limit = (
            ("low; minimum", GP3_MIN_MIB_S)
            if throughput < GP3_MIN_MIB_S
            else ("high; maximum", _GP3_MAX_MIB_S)
        )
        raise AwsError(
            "InvalidParameterValue", f"Volume throughput of {throughput} is too {comparison} is {limit}."
        )
    if throughput * _GP3_IOPS_PER_MIB_S > target.iops:
        raise AwsError(
            "InvalidParameterValue",
            f"Throughput (MiBps) to iops ratio of {throughput / target.iops:.6f} is too high; "
            f"maximum is {1 / _GP3_IOPS_PER_MIB_S:.6f} MiBps per iops.",
        )
