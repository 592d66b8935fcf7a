"""DescribeInstances, and the calls that start, stop, monitor or change an instance, in EC2's words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

from burstlab.fake_aws.ec2.query import (
    matches,
    no_such_instance,
    paginate,
    parse_filters,
    parse_list,
    split_filters,
)
from burstlab.fake_aws.protocols import render_xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.fleet import LabFleet
from burstlab.model.instances.instance import LabInstance
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.simulated_volume import SimulatedVolume

_MAX_PAGE: Final = 1_000  # Source: EC2 API reference, DescribeInstances
_STATE_CODES: Final = {"running": 16, "terminated": 48, "stopped": 80}


def describe_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a DescribeInstances answer; each instance has a reservation of its own."""
    instance_ids = parse_list(parameters, "InstanceId")
    if instance_ids and "MaxResults" in parameters:
        raise AwsError(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )
    requested_ids = {instance.instance_id for instance in _find_instances(fleet, instance_ids)}
    filters_before_page, filters_after_page = split_filters(
        parse_filters(parameters, _FILTERS), fleet.settings
    )
    numbered = [
        (number, instance)
        for number, instance in enumerate(fleet.instances.values(), start=1)
        if (not requested_ids or instance.instance_id in requested_ids)
        and matches(instance, filters_before_page, _FILTERS)
    ]
    page, token = paginate(numbered, parameters, max_items=_MAX_PAGE, number=lambda entry: entry[0])
    reservations = "".join(
        _reservation_xml(fleet, instance)
        for _, instance in page
        if matches(instance, filters_after_page, _FILTERS)
    )
    return f"<reservationSet>{reservations}</reservationSet>{token}"


def start_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a StartInstances answer; they run at once."""
    return _change_states(fleet, parameters, fleet.start_instance, {"code": 0, "name": "pending"})


def stop_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a StopInstances answer; they are stopped at once."""
    return _change_states(fleet, parameters, fleet.stop_instance, {"code": 64, "name": "stopping"})


def monitor_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a MonitorInstances answer: detailed monitoring is on."""
    return _set_monitoring(fleet, parameters, detailed=True)


def unmonitor_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of an UnmonitorInstances answer: detailed monitoring is off."""
    return _set_monitoring(fleet, parameters, detailed=False)


def modify_instance_attribute(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a ModifyInstanceAttribute answer; of the attributes only the type can be changed."""
    (instance,) = _find_instances(fleet, [parameters.get("InstanceId", "")])
    instance_type = parameters.get("InstanceType.Value")
    if instance_type is None and parameters.get("Attribute") == "instanceType":
        instance_type = parameters.get("Value")
    if instance_type is None:
        raise AwsError("InvalidParameterCombination", "No attributes specified: the lab changes instanceType")
    if instance_type not in instance_types():
        raise AwsError("InvalidInstanceAttributeValue", f"Invalid value '{instance_type}' for InstanceType.")
    if instance.state != "stopped":
        raise AwsError(
            "IncorrectInstanceState", f"The instance '{instance.instance_id}' is not in the 'stopped' state."
        )
    fleet.set_instance_type(instance.instance_id, instance_type)
    return "<return>true</return>"


def _find_instances(fleet: LabFleet, instance_ids: list[str]) -> list[LabInstance]:
    missing = [instance_id for instance_id in instance_ids if instance_id not in fleet.instances]
    if missing:
        raise no_such_instance(missing)
    return [fleet.instances[instance_id] for instance_id in dict.fromkeys(instance_ids)]


def _change_states(
    fleet: LabFleet,
    parameters: Mapping[str, str],
    change: Callable[[str], None],
    new_state: Mapping[str, Any],
) -> str:
    instances = _find_instances(fleet, parse_list(parameters, "InstanceId"))
    for instance in instances:
        if instance.state == "terminated":
            raise AwsError(
                "IncorrectInstanceState",
                f"The instance '{instance.instance_id}' is not in a state from which it can be "
                "started or stopped.",
            )
    documents = []
    for instance in instances:
        before = _state_document(instance)
        change(instance.instance_id)
        current = before if _state_document(instance) == before else new_state
        documents.append(
            {"instanceId": instance.instance_id, "currentState": current, "previousState": before}
        )
    return f"<instancesSet>{render_xml(documents, 'item')}</instancesSet>"


def _set_monitoring(fleet: LabFleet, parameters: Mapping[str, str], *, detailed: bool) -> str:
    documents = []
    for instance in _find_instances(fleet, parse_list(parameters, "InstanceId")):
        fleet.set_monitoring(instance.instance_id, detailed=detailed)
        state = "pending" if detailed else "disabling"
        documents.append({"instanceId": instance.instance_id, "monitoring": {"state": state}})
    return f"<instancesSet>{render_xml(documents, 'item')}</instancesSet>"


def _state_document(instance: LabInstance) -> dict[str, Any]:
    return {"code": _STATE_CODES[instance.state], "name": instance.state}


def _monitoring(instance: LabInstance) -> str:
    return "enabled" if instance.detailed_monitoring else "disabled"


def _reservation_xml(fleet: LabFleet, instance: LabInstance) -> str:
    """One element of a page of a thousand, so written in one go."""
    tags = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in instance.tags.items()
    )
    volumes = "".join(_block_device_xml(instance, volume) for volume in instance.volumes)
    support = instance_types().get(instance.instance_type, {}).get("EbsInfo", {}).get("EbsOptimizedSupport")
    return (
        f"<item><reservationId>r-{instance.instance_id.removeprefix('i-')}</reservationId>"
        f"<ownerId>{fleet.settings.account_id}</ownerId><instancesSet><item>"
        f"<instanceId>{instance.instance_id}</instanceId>"
        f"<instanceState><code>{_STATE_CODES[instance.state]}</code><name>{instance.state}</name>"
        f"</instanceState><instanceType>{escape(instance.instance_type)}</instanceType>"
        f"<launchTime>{iso(instance.launched_at)}</launchTime>"
        f"<placement><availabilityZone>{fleet.first_zone}</availabilityZone></placement>"
        f"<monitoring><state>{_monitoring(instance)}</state></monitoring>"
        f"<rootDeviceType>ebs</rootDeviceType><blockDeviceMapping>{volumes}</blockDeviceMapping>"
        f"<ebsOptimized>{'true' if support == 'default' else 'false'}</ebsOptimized>"
        f"<tagSet>{tags}</tagSet></item></instancesSet></item>"
    )


def _block_device_xml(instance: LabInstance, volume: SimulatedVolume) -> str:
    attachment = next(entry for entry in volume.attachments if entry.instance_id == instance.instance_id)
    return (
        f"<item><deviceName>{escape(attachment.device)}</deviceName><ebs>"
        f"<volumeId>{volume.volume_id}</volumeId><status>attached</status>"
        f"<attachTime>{iso(attachment.attached_at)}</attachTime>"
        "<deleteOnTermination>true</deleteOnTermination></ebs></item>"
    )


_FILTERS: Final[Mapping[str, Callable[[LabInstance], Iterable[str]]]] = {
    "instance-id": lambda instance: (instance.instance_id,),
    "instance-state-name": lambda instance: (instance.state,),
    "instance-state-code": lambda instance: (str(_STATE_CODES[instance.state]),),
    "instance-type": lambda instance: (instance.instance_type,),
    "monitoring-state": lambda instance: (_monitoring(instance),),
    "block-device-mapping.volume-id": lambda instance: tuple(volume.volume_id for volume in instance.volumes),
    "tag-key": lambda instance: instance.tags.keys(),
    "tag-value": lambda instance: instance.tags.values(),
}
