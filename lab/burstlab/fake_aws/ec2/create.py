"""Volumes and instances that are created, changed and deleted by API, in EC2's words.

An instance runs no user data. The lines ``# load DEVICE IOPS SECONDS`` of a script are played instead, one
after the other on each device: they say which load the script would make.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from burstlab.fake_aws.ec2.query import find_volumes, no_such_instance, parse_list, parse_structures
from burstlab.fake_aws.protocols import render_xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.fleet import LabFleet
from burstlab.model.instances.instance import DEFAULT_INSTANCE_TYPE, LabInstance
from burstlab.model.volume import LabVolume

_SCRIPT_LOAD: Final = re.compile(r"^# load (\S+) (\d+) (\d+)$", re.MULTILINE)
_DEFAULT_GIB: Final = 8  # AWS takes the size of the image's snapshot; 8 GiB is Amazon Linux 2023's


def create_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a CreateVolume answer."""
    zone = parameters.get("AvailabilityZone", "")
    if not zone.startswith(fleet.settings.region):
        raise AwsError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    now = fleet.clock.now()
    volume = LabVolume(
        size_gib=int(parameters["Size"]),
        volume_type=parameters.get("VolumeType", "gp2"),
        iops=int(parameters["Iops"]) if "Iops" in parameters else None,
        tags=_tags(parameters, "volume"),
        zone=zone,
        attached=False,
        starts_at=now,
        created_at=now,
    )
    volume_id = fleet.add(volume)
    document: dict[str, Any] = {
        "volumeId": volume_id,
        "size": volume.size_gib,
        "availabilityZone": zone,
        "status": "creating",
        "createTime": iso(now),
        "volumeType": volume.volume_type,
    }
    return render_xml(document, "item")


def delete_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a DeleteVolume answer."""
    (volume,) = find_volumes(fleet, [parameters.get("VolumeId", "")])
    if volume.attachment is not None:
        owner = volume.attachment.instance_id
        raise AwsError("VolumeInUse", f"Volume {volume.volume_id} is currently attached to {owner}")
    fleet.remove(volume.volume_id)
    return "<return>true</return>"


def run_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a RunInstances answer for one instance, which runs at once."""
    now = fleet.clock.now()
    instance = LabInstance(
        instance_id=fleet.new_instance_id(),
        launched_at=now,
        instance_type=parameters.get("InstanceType", DEFAULT_INSTANCE_TYPE),
        tags=_tags(parameters, "instance"),
        script=b64decode(parameters.get("UserData", "")).decode(),
    )
    fleet.add_instance(instance)
    for mapping in parse_structures(parameters, "BlockDeviceMapping"):
        volume_id = fleet.add(
            LabVolume(
                size_gib=int(mapping.get("Ebs.VolumeSize", _DEFAULT_GIB)),
                volume_type=mapping.get("Ebs.VolumeType", "gp2"),
                tags=_tags(parameters, "volume"),
                device=mapping["DeviceName"],
                instance_id=instance.instance_id,
                attached_at=now,
                starts_at=now,
                created_at=now,
            )
        )
        if mapping.get("Ebs.DeleteOnTermination") == "true":
            instance.own_volumes.add(volume_id)
        start_script_loads(fleet, instance, volume_id, mapping["DeviceName"])
    document = {
        "reservationId": "r-" + instance.instance_id.removeprefix("i-"),
        "ownerId": fleet.settings.account_id,
        "instancesSet": [
            {
                "instanceId": instance.instance_id,
                "instanceState": {"code": 0, "name": "pending"},
                "instanceType": instance.instance_type,
                "launchTime": iso(now),
                "placement": {"availabilityZone": fleet.first_zone},
            }
        ],
    }
    return render_xml(document, "item")


def start_script_loads(fleet: LabFleet, instance: LabInstance, volume_id: str, device: str) -> None:
    """Let the loads begin that the instance's script has for a device, which appears now."""
    starts_at = fleet.clock.now()
    for load, seconds in _script_loads(instance.script, device):
        fleet.set_load(volume_id, load, starts_at)
        starts_at += timedelta(seconds=seconds)


def terminate_instances(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a TerminateInstances answer; it is over at once."""
    instance_ids = parse_list(parameters, "InstanceId")
    if missing := [requested_id for requested_id in instance_ids if requested_id not in fleet.instances]:
        raise no_such_instance(missing)
    documents = []
    for instance_id in instance_ids:
        fleet.terminate_instance(instance_id)
        documents.append({"instanceId": instance_id, "currentState": {"code": 32, "name": "shutting-down"}})
    return f"<instancesSet>{render_xml(documents, 'item')}</instancesSet>"


def _tags(parameters: Mapping[str, str], resource_type: str) -> dict[str, str]:
    """The tags that a call gives to what it creates of this kind."""
    tags_found: dict[str, str] = {}
    for specification in parse_structures(parameters, "TagSpecification"):
        if specification.get("ResourceType") == resource_type:
            tag_parameters = {name: value for name, value in specification.items() if name.startswith("Tag.")}
            tags_found |= {
                tag["Key"]: tag.get("Value", "") for tag in parse_structures(tag_parameters, "Tag")
            }
    return tags_found


def _script_loads(script: str, device: str) -> Iterator[tuple[str, int]]:
    for name, iops, seconds in _SCRIPT_LOAD.findall(script):
        if name == device:
            yield f"steady:{iops}", int(seconds)
