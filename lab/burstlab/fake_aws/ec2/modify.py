"""ModifyVolume and DescribeVolumesModifications, in EC2's words."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from burstlab.fake_aws.ec2.query import (
    MOST_PAGE,
    filters,
    matches,
    members,
    page,
    text_of,
    volumes_listed,
    volumes_named,
)
from burstlab.fake_aws.protocols import xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.describe import RATELESS
from burstlab.model.fleet import LabFleet
from burstlab.model.modification import Modification, Shape, Wanted
from burstlab.model.modify_rules import check_pace, check_permission
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.type_limits import shape_wanted

_Known = tuple[SimulatedVolume, Modification]


def modify_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a ModifyVolume answer."""
    (volume,) = volumes_named(fleet, [parameters.get("VolumeId", "")])
    check_permission(volume, fleet.settings)
    wanted = _wanted(parameters)
    if parameters.get("DryRun") == "true":
        _check_dry_run(fleet, volume, wanted)
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    modification = fleet.modify(volume.volume_id, wanted)
    return f"<volumeModification>{xml(_told(volume, modification), 'item')}</volumeModification>"


def _check_dry_run(fleet: LabFleet, volume: SimulatedVolume, wanted: Wanted) -> None:
    """What a dry run checks besides the permission."""
    checks = fleet.settings.dry_run_checks
    if checks == "request":
        fleet.plan_modification(volume.volume_id, wanted)
    elif checks == "parameters":
        shape_wanted(volume.shape, wanted, fleet.settings)
    elif checks == "state":
        check_pace(volume, fleet.clock.now(), fleet.settings)


def describe_modifications(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a DescribeVolumesModifications answer."""
    asked = members(parameters, "VolumeId")
    volumes = volumes_named(fleet, asked) if asked else list(volumes_listed(fleet, parameters))
    known = [(volume, told) for volume in volumes if (told := _remembered(fleet, volume)) is not None]
    if asked and len(known) < len(volumes):
        remembered = {volume.volume_id for volume, _ in known}
        never = next(volume.volume_id for volume in volumes if volume.volume_id not in remembered)
        raise AwsError(
            "InvalidVolumeModification.NotFound", f"Modification for volume '{never}' does not exist."
        )
    chosen = filters(parameters, _FILTERS)
    found = [entry for entry in known if matches(entry, chosen, _FILTERS)]
    shown, token = page(found, parameters, most=MOST_PAGE, number=lambda entry: entry[0].number)
    items = xml([_told(volume, modification) for volume, modification in shown], "item")
    return f"<volumeModificationSet>{items}</volumeModificationSet>{token}"


def _wanted(parameters: Mapping[str, str]) -> Wanted:
    multi_attached = parameters.get("MultiAttachEnabled")
    return Wanted(
        volume_type=parameters.get("VolumeType"),
        size_gib=_whole(parameters, "Size"),
        iops=_whole(parameters, "Iops"),
        throughput_mib_s=_whole(parameters, "Throughput"),
        multi_attached=None if multi_attached is None else multi_attached == "true",
    )


def _whole(parameters: Mapping[str, str], name: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if not value.removeprefix("-").isdecimal():
        raise AwsError("InvalidParameterValue", f"Invalid value '{value}' for {name.lower()}.")
    return int(value)


def _remembered(fleet: LabFleet, volume: SimulatedVolume) -> Modification | None:
    """The last modification, for as long as EC2 keeps it."""
    told, days = volume.modification, fleet.settings.record_days
    if told is None or days is None or told.ended_at is None:
        return told
    return told if fleet.clock.now() < told.ended_at + timedelta(days=days) else None


def _told(volume: SimulatedVolume, modification: Modification) -> dict[str, Any]:
    return {
        "volumeId": volume.volume_id,
        "modificationState": modification.state,
        "statusMessage": modification.status_message,
        **_shape("target", modification.target),
        **_shape("original", modification.original),
        "progress": modification.progress_pct,
        "startTime": iso(modification.started_at),
        "endTime": _iso_or_none(modification.ended_at),
    }


def _shape(prefix: str, shape: Shape) -> dict[str, Any]:
    return {
        f"{prefix}Size": shape.size_gib,
        f"{prefix}Iops": _told_rate(shape),
        f"{prefix}VolumeType": shape.volume_type,
        f"{prefix}Throughput": shape.throughput_mib_s,
        f"{prefix}MultiAttachEnabled": shape.multi_attached,
    }


def _told_rate(shape: Shape) -> int | None:
    return None if shape.volume_type in RATELESS else shape.iops


def _iso_or_none(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _rate_texts(shape: Shape) -> tuple[str, ...]:
    return () if _told_rate(shape) is None else (str(shape.iops),)


_FILTERS: Final[Mapping[str, Callable[[_Known], Iterable[str]]]] = {
    "volume-id": lambda entry: (entry[0].volume_id,),
    "modification-state": lambda entry: (entry[1].state,),
    "original-volume-type": lambda entry: (entry[1].original.volume_type,),
    "original-size": lambda entry: (str(entry[1].original.size_gib),),
    "original-iops": lambda entry: _rate_texts(entry[1].original),
    "originalMultiAttachEnabled": lambda entry: (text_of(entry[1].original.multi_attached),),
    "target-volume-type": lambda entry: (entry[1].target.volume_type,),
    "target-size": lambda entry: (str(entry[1].target.size_gib),),
    "target-iops": lambda entry: _rate_texts(entry[1].target),
    "targetMultiAttachEnabled": lambda entry: (text_of(entry[1].target.multi_attached),),
    "start-time": lambda entry: (iso(entry[1].started_at),),
}
