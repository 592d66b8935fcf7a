"""AttachVolume and DetachVolume as boto3 sees them, and what EC2 refuses to attach."""

import json
import urllib.request
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from burstlab.model.aws_error import AwsError
from burstlab.model.volume import LabVolume

pytestmark = pytest.mark.lab_settings(modifying_s=300, modify_spread=0)


def attachments(ec2, volume_id):
    [volume] = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    return [
        (attachment["InstanceId"], attachment["Device"], attachment["State"])
        for attachment in volume["Attachments"]
    ]


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def test_a_volume_moves_from_one_instance_to_another(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100, instance_id="i-0000000000000000a"))
    fleet.add(LabVolume(size_gib=8, instance_id="i-0000000000000000b"))

    assert ec2.detach_volume(VolumeId=volume_id)["State"] == "detaching"
    assert attachments(ec2, volume_id) == []
    fleet.clock.advance(60)
    answer = ec2.attach_volume(VolumeId=volume_id, InstanceId="i-0000000000000000b", Device="/dev/sdf")

    assert (answer["State"], answer["AttachTime"].timestamp()) == ("attaching", fleet.now_s())
    assert attachments(ec2, volume_id) == [("i-0000000000000000b", "/dev/sdf", "attached")]


def test_a_volume_that_is_modifying_is_not_attached_until_it_is_optimizing(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100, instance_id="i-0000000000000000a"))
    to_attach = {"VolumeId": volume_id, "InstanceId": "i-0000000000000000a", "Device": "/dev/sdf"}
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3", Iops=3_000, Throughput=128)
    ec2.detach_volume(VolumeId=volume_id)
    fleet.clock.advance(299)

    assert refusal(ec2.attach_volume, **to_attach) == (
        "OperationNotPermitted",
        f"Cannot attach volume {volume_id} when it is in modification state: MODIFYING",
    )
    assert attachments(ec2, volume_id) == []
    with pytest.raises(AwsError, match="MODIFYING"):
        fleet.attach(volume_id)
    fleet.clock.advance(1)
    assert fleet.find(volume_id).modification.state == "optimizing"
    ec2.attach_volume(**to_attach)
    assert len(attachments(ec2, volume_id)) == 1


def test_the_labs_own_surface_refuses_it_in_the_same_words(fleet, lab):
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.detach(volume_id)
    fleet.modify(volume_id, volume_type="gp3")
    requested = urllib.request.Request(
        f"{lab.url}/_lab/attach", data=json.dumps({"volume_id": volume_id}).encode(), method="POST"
    )
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(requested)
    with refused.value as answer:
        assert answer.status == 400
        assert "OperationNotPermitted: Cannot attach volume" in json.load(answer)["error"]


def test_what_cannot_be_attached_or_detached_is_refused_in_ec2s_words(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100, instance_id="i-0000000000000000a"))
    to_attach = {"VolumeId": volume_id, "InstanceId": "i-0000000000000000a", "Device": "/dev/sdf"}
    gone = {"VolumeId": "vol-0000000000000dead"}
    assert refusal(ec2.attach_volume, **to_attach)[0] == "VolumeInUse"
    assert (
        refusal(ec2.attach_volume, **to_attach | {"InstanceId": "i-0dead"})[0] == "InvalidInstanceID.NotFound"
    )
    assert refusal(ec2.attach_volume, **to_attach | gone)[0] == "InvalidVolume.NotFound"
    assert refusal(ec2.detach_volume, **gone)[0] == "InvalidVolume.NotFound"
    ec2.detach_volume(VolumeId=volume_id)
    assert refusal(ec2.detach_volume, VolumeId=volume_id)[0] == "IncorrectState"
