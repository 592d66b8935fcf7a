"""ModifyVolume and DescribeVolumesModifications, in EC2's words."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from burstlab.fake_aws.ec2.query import (
    MAX_PAGE,
    find_volumes,
    format_flag,
    list_volumes,
    matches,
    paginate,
    parse_filters,
    parse_list,
)
from burstlab.fake_aws.protocols import render_xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.describe import TYPES_WITHOUT_IOPS
from burstlab.model.fleet import LabFleet
from burstlab.model.instances.type_limits import resolve_target
from burstlab.model.modification import Modification, ModifyRequest, VolumeSpec
from burstlab.model.modify_rules import check_permission, check_rate
from burstlab.model.simulated_volume import SimulatedVolume

_VolumeModification = tuple[SimulatedVolume, Modification]


def modify_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a ModifyVolume answer."""
    (volume,) = find_volumes(fleet, [parameters.get("VolumeId", "")])
    check_permission(volume, fleet.settings)
    request = _parse_request(parameters)
    if parameters.get("DryRun") == "true":
        _check_dry_run(fleet, volume, request)
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    modification = fleet.modify(volume.volume_id, request)
    return (
        f"<volumeModification>{render_xml(_to_document(volume, modification), 'item')}</volumeModification>"
    )


def _check_dry_run(fleet: LabFleet, volume: SimulatedVolume, request: ModifyRequest) -> None:
    """What a dry run checks in addition to the permission."""
    checks = fleet.settings.dry_run_checks
    if checks == "request":
        fleet.plan_modification(volume.volume_id, request)
    elif checks == "parameters":
        resolve_target(volume.spec, request, fleet.settings)
    elif checks == "state":
        check_rate(volume, fleet.clock.now(), fleet.settings)


def describe_modifications(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a DescribeVolumesModifications answer."""
    volume_ids = parse_list(parameters, "VolumeId")
    volumes = find_volumes(fleet, volume_ids) if volume_ids else list(list_volumes(fleet, parameters))
    entries = [
        (volume, latest) for volume in volumes if (latest := _current_modification(fleet, volume)) is not None
    ]
    if volume_ids and len(entries) < len(volumes):
        known_ids = {volume.volume_id for volume, _ in entries}
        unknown_id = next(volume.volume_id for volume in volumes if volume.volume_id not in known_ids)
        raise AwsError(
            "InvalidVolumeModification.NotFound", f"Modification for volume '{unknown_id}' does not exist."
        )
    requested_filters = parse_filters(parameters, _FILTERS)
    matching = [entry for entry in entries if matches(entry, requested_filters, _FILTERS)]
    page_entries, token = paginate(
        matching, parameters, max_items=MAX_PAGE, number=lambda entry: entry[0].number
    )
    items = render_xml([_to_document(volume, modification) for volume, modification in page_entries], "item")
    return f"<volumeModificationSet>{items}</volumeModificationSet>{token}"


def _parse_request(parameters: Mapping[str, str]) -> ModifyRequest:
    multi_attached = parameters.get("MultiAttachEnabled")
    return ModifyRequest(
        volume_type=parameters.get("VolumeType"),
        size_gib=_parse_integer(parameters, "Size"),
        iops=_parse_integer(parameters, "Iops"),
        throughput_mib_s=_parse_integer(parameters, "Throughput"),
        multi_attached=None if multi_attached is None else multi_attached == "true",
    )


def _parse_integer(parameters: Mapping[str, str], name: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if not value.removeprefix("-").isdecimal():
        raise AwsError("InvalidParameterValue", f"Invalid value '{value}' for {name.lower()}.")
    return int(value)


def _current_modification(fleet: LabFleet, volume: SimulatedVolume) -> Modification | None:
    """The last modification, for as long as EC2 keeps it."""
    modification, days = volume.modification, fleet.settings.record_days
    if modification is None or days is None or modification.ended_at is None:
        return modification
    return modification if fleet.clock.now() < modification.ended_at + timedelta(days=days) else None


def _to_document(volume: SimulatedVolume, modification: Modification) -> dict[str, Any]:
    return {
        "volumeId": volume.volume_id,
        "modificationState": modification.state,
        "statusMessage": modification.status_message,
        **_spec_document("target", modification.target),
        **_spec_document("original", modification.original),
        "progress": modification.progress_pct,
        "startTime": iso(modification.started_at),
        "endTime": _iso_or_none(modification.ended_at),
    }


def _spec_document(prefix: str, spec: VolumeSpec) -> dict[str, Any]:
    return {
        f"{prefix}Size": spec.size_gib,
        f"{prefix}Iops": _shown_iops(spec),
        f"{prefix}VolumeType": spec.volume_type,
        f"{prefix}Throughput": spec.throughput_mib_s,
        f"{prefix}MultiAttachEnabled": spec.multi_attached,
    }


def _shown_iops(spec: VolumeSpec) -> int | None:
    return None if spec.volume_type in TYPES_WITHOUT_IOPS else spec.iops


def _iso_or_none(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _iops_values(spec: VolumeSpec) -> tuple[str, ...]:
    return () if _shown_iops(spec) is None else (str(spec.iops),)


_FILTERS: Final[Mapping[str, Callable[[_VolumeModification], Iterable[str]]]] = {
    "volume-id": lambda entry: (entry[0].volume_id,),
    "modification-state": lambda entry: (entry[1].state,),
    "original-volume-type": lambda entry: (entry[1].original.volume_type,),
    "original-size": lambda entry: (str(entry[1].original.size_gib),),
    "original-iops": lambda entry: _iops_values(entry[1].original),
    "originalMultiAttachEnabled": lambda entry: (format_flag(entry[1].original.multi_attached),),
    "target-volume-type": lambda entry: (entry[1].target.volume_type,),
    "target-size": lambda entry: (str(entry[1].target.size_gib),),
    "target-iops": lambda entry: _iops_values(entry[1].target),
    "targetMultiAttachEnabled": lambda entry: (format_flag(entry[1].target.multi_attached),),
    "start-time": lambda entry: (iso(entry[1].started_at),),
}
