"""AttachVolume and DetachVolume, in EC2's words."""

from collections.abc import Mapping
from typing import Any

from burstlab.fake_aws.ec2.create import start_script_loads
from burstlab.fake_aws.ec2.query import find_volumes, no_such_instance
from burstlab.fake_aws.protocols import render_xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import Attachment


def attach_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of an AttachVolume answer."""
    (volume,) = find_volumes(fleet, [parameters.get("VolumeId", "")])
    instance_id, device = parameters.get("InstanceId", ""), parameters.get("Device", "")
    if instance_id not in fleet.instances:
        raise no_such_instance([instance_id])
    is_on_it = any(attachment.instance_id == instance_id for attachment in volume.attachments)
    if is_on_it or (volume.attachments and not volume.multi_attached):
        raise AwsError("VolumeInUse", f"{volume.volume_id} is already attached to an instance")
    fleet.attach(volume.volume_id, instance_id, device)
    start_script_loads(fleet, fleet.instances[instance_id], volume.volume_id, device)
    return _attachment_xml(volume.volume_id, volume.attachments[-1], "attaching")


def detach_volume(fleet: LabFleet, parameters: Mapping[str, str]) -> str:
    """The elements of a DetachVolume answer."""
    (volume,) = find_volumes(fleet, [parameters.get("VolumeId", "")])
    if not volume.attachments:
        raise AwsError("IncorrectState", f"Volume '{volume.volume_id}' is in the 'available' state.")
    instance_id = parameters.get("InstanceId")
    if instance_id is None and len(volume.attachments) > 1:
        raise AwsError(
            "InvalidParameterCombination",
            f"Volume '{volume.volume_id}' is attached to several instances: give an instance ID.",
        )
    attachment = next(
        (entry for entry in volume.attachments if instance_id in (None, entry.instance_id)), None
    )
    if attachment is None:
        raise AwsError(
            "InvalidAttachment.NotFound",
            f"The volume '{volume.volume_id}' is not attached to instance '{instance_id}'.",
        )
    fleet.detach(volume.volume_id, instance_id)
    return _attachment_xml(volume.volume_id, attachment, "detaching")


def _attachment_xml(volume_id: str, attachment: Attachment, status: str) -> str:
    document: dict[str, Any] = {
        "volumeId": volume_id,
        "instanceId": attachment.instance_id,
        "device": attachment.device,
        "status": status,
        "attachTime": iso(attachment.attached_at),
    }
    return render_xml(document, "item")
