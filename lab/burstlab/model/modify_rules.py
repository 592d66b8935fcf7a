"""When EC2 refuses to modify a volume, or to attach one that is being modified, and its error messages."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from burstlab.model.aws_error import AwsError, iso
from burstlab.model.describe import DescribedVolume
from burstlab.model.modification import ModifyRequest, VolumeSpec
from burstlab.model.modification_progress import ModificationProgress
from burstlab.model.settings import LabSettings

_RATE_RULES: Final = {"four_per_day": (4, timedelta(hours=24)), "six_hours": (1, timedelta(hours=6))}
_RATE_REACHED: Final = "You've reached the maximum modification rate per volume limit."


def check_permission(volume: DescribedVolume, settings: LabSettings) -> None:
    """What IAM says when the caller may modify only volumes with a certain tag."""
    needed = settings.modify_needs_tag
    if needed is not None and volume.tags.get(needed[0]) != needed[1]:
        raise AwsError(
            "UnauthorizedOperation",
            "You are not authorized to perform this operation. "
            f"ec2:ModifyVolume on {volume.volume_id} needs the tag {needed[0]}={needed[1]}.",
            403,
        )


def check_modifiable(volume: DescribedVolume, request: ModifyRequest, settings: LabSettings) -> None:
    """Refuse volumes that cannot be modified now, whatever their modifications so far."""
    if volume.managed_by is not None:
        raise AwsError(
            settings.managed_code,
            f"The volume '{volume.volume_id}' is managed by {volume.managed_by} and cannot be modified.",
        )
    is_type_change = request.volume_type not in (None, volume.volume_type)
    if volume.multi_attached and (volume.volume_type == "io1" or is_type_change):
        raise AwsError(
            "UnsupportedOperation",
            f"The {volume.volume_type} volume '{volume.volume_id}' has Multi-Attach enabled and cannot be "
            "modified so.",
        )
    if volume.lacks_gp3 and request.volume_type == "gp3":
        location = (
            f"the Outpost '{volume.outpost_arn}'" if volume.outpost_arn else f"the zone '{volume.zone}'"
        )
        raise AwsError("UnsupportedOperation", f"The volume type 'gp3' is not supported in {location}.")
    if volume.status not in ("in-use", "available"):
        raise AwsError(
            "IncorrectState",
            f"Volume '{volume.volume_id}' is in state '{volume.status}'; it must be in-use or available.",
        )


def check_rate(volume: DescribedVolume, now: datetime, settings: LabSettings) -> None:
    """One modification at a time, and not too many of them."""
    last = volume.modification
    if last is not None and not last.has_ended:
        raise AwsError(
            "IncorrectModificationState",
            f"Volume {volume.volume_id} cannot be modified in modification state {last.state.upper()}",
        )
    max_modifications, window = _RATE_RULES[settings.modify_rule]
    started_at = sorted(volume.counted_starts(with_failed=settings.failed_counts))[-max_modifications:]
    if len(started_at) < max_modifications or started_at[0] + window <= now:
        return
    allowed_at = iso(started_at[0] + window)
    wait_text = (
        f"Wait until {allowed_at} before you can issue the next modification request for this volume."
        if settings.rate_text == "wait_until"
        else "Wait at least 6 hours between modifications per EBS volume."
    )
    message = settings.rate_message or f"{_RATE_REACHED} {wait_text}"
    raise AwsError(settings.rate_code, _fill_template(message, volume, allowed_at))


def check_no_op(volume: DescribedVolume, target: VolumeSpec, settings: LabSettings) -> None:
    """Refuse a modification that changes nothing, if the settings say so."""
    if settings.no_op_code is not None and target == volume.spec:
        raise AwsError(settings.no_op_code, f"The request changes nothing of {volume.volume_id}.")


def check_attach(volume: DescribedVolume, settings: LabSettings) -> None:
    """A volume is not attached while a modification of it is ``modifying``."""
    last = volume.modification
    if settings.attach_refused and last is not None and last.state == "modifying":
        raise AwsError(settings.attach_code, _fill_template(settings.attach_message, volume, ""))


def _fill_template(message: str, volume: DescribedVolume, allowed_at: str) -> str:
    return message.replace("{volume}", volume.volume_id).replace("{until}", allowed_at)


def check_quotas(
    volume: DescribedVolume,
    target: VolumeSpec,
    *,
    fleet: Iterable[DescribedVolume],
    changes: Sequence[ModificationProgress],
    settings: LabSettings,
) -> None:
    """The account's limits on provisioned operations and on what is modified at the same time."""
    _check_storage(target, changes, settings)
    if target.volume_type not in ("io1", "io2"):
        return
    held_iops = sum(_charged_iops(other, target.volume_type) for other in fleet if other is not volume)
    _check_iops(target, target.iops, held_iops, "", _quota(settings, target, "iops_quota"))
    modifying_iops = sum(
        _modifying_iops(change.original, change.target, target.volume_type) for change in changes
    )
    requested_iops = _modifying_iops(volume.spec, target, target.volume_type)
    _check_iops(
        target, requested_iops, modifying_iops, " modification", _quota(settings, target, "modify_iops_quota")
    )


def _check_storage(
    target: VolumeSpec, changes: Sequence[ModificationProgress], settings: LabSettings
) -> None:
    is_io2 = target.volume_type == "io2"
    quota_gib = settings.io2_modify_storage_quota_gib if is_io2 else settings.modify_storage_quota_gib
    specs = [change.target for change in changes]
    modifying_gib = sum(spec.size_gib for spec in specs if (spec.volume_type == "io2") == is_io2)
    if modifying_gib + target.size_gib > quota_gib:
        raise AwsError(
            "VolumeModificationSizeLimitExceeded",
            "You've reached the limit on your Amazon EBS volume modification storage in this Region: "
            f"{modifying_gib} GiB are being modified, {target.size_gib} more would exceed {quota_gib}.",
        )


def _check_iops(
    target: VolumeSpec, requested_iops: int, held_iops: int, quota_kind: str, quota_iops: int
) -> None:
    if held_iops + requested_iops > quota_iops:
        raise AwsError(
            "MaxIOPSLimitExceeded",
            f"You've reached the limit on your {target.volume_type}{quota_kind} IOPS in this Region: "
            f"{held_iops} are held, {requested_iops} more would exceed {quota_iops}.",
        )


def _quota(settings: LabSettings, target: VolumeSpec, name: str) -> int:
    quota: int = getattr(settings, f"{target.volume_type}_{name}")
    return quota


def _charged_iops(volume: DescribedVolume, volume_type: str) -> int:
    """What a volume counts for: a change is charged from its start."""
    spec = volume.spec if volume.change is None else volume.change.target
    return spec.iops if spec.volume_type == volume_type else 0


def _modifying_iops(original: VolumeSpec, target: VolumeSpec, volume_type: str) -> int:
    """The IOPS that count for the quota; for io2, both the present and the requested ones."""
    if target.volume_type != volume_type:
        return 0
    return target.iops + (original.iops if original.volume_type == volume_type == "io2" else 0)
