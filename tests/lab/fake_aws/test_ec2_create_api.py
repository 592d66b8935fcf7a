"""Volumes and instances made by API, assumed roles, alarms that publish: what aws-check stands on."""

import json

import pytest
from botocore.exceptions import ClientError

from burstlab.fake_aws.server import Endpoint
from burstlab.serve.measured_settings import ReportError, read_report, settings_from_report
from support.aws.stub_clients import ONCE

TAGS = [{"Key": "a", "Value": "1"}]


def create(ec2, zone="us-east-1a", **fields):
    return ec2.create_volume(
        Size=8,
        AvailabilityZone=zone,
        TagSpecifications=[{"ResourceType": "volume", "Tags": TAGS}],
        **fields,
    )["VolumeId"]


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"]


def test_a_created_volume_is_available_with_its_tags_in_its_zone(ec2):
    volume_id = create(ec2, zone="us-east-1b", VolumeType="gp3")

    [volume] = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert (volume["State"], volume["VolumeType"], volume["AvailabilityZone"]) == (
        "available",
        "gp3",
        "us-east-1b",
    )
    assert volume["Tags"] == TAGS
    in_zone = [{"Name": "availability-zone", "Values": ["us-east-1b"]}]
    assert len(ec2.describe_volumes(Filters=in_zone)["Volumes"]) == 1
    assert refusal(create, ec2=ec2, zone="eu-west-1a") == "InvalidZone.NotFound"


def test_a_request_that_is_repeated_with_its_token_creates_nothing(ec2, fleet):
    first, second, third = (create(ec2, ClientToken=token) for token in ("one", "one", "two"))

    assert first == second != third
    assert len(fleet) == 2


def test_an_instance_has_its_volumes_plays_its_script_and_takes_them_with_it(ec2, fleet):
    script = "#!/bin/bash\n# load /dev/sdf 3000 60\n# load /dev/sdf 1 600\n"
    mapping = {
        "DeviceName": "/dev/sdf",
        "Ebs": {"VolumeSize": 100, "VolumeType": "gp2", "DeleteOnTermination": True},
    }
    reported = ec2.run_instances(
        ImageId="ami-1",
        InstanceType="t3.small",
        MinCount=1,
        MaxCount=1,
        BlockDeviceMappings=[mapping],
        UserData=script,
        TagSpecifications=[{"ResourceType": "instance", "Tags": TAGS}],
    )
    instance_id = reported["Instances"][0]["InstanceId"]
    [volume] = fleet
    later = create(ec2)
    ec2.attach_volume(VolumeId=later, InstanceId=instance_id, Device="/dev/sdf")
    fleet.clock.advance(30)
    assert fleet.truth(volume.volume_id).served_iops == 3000
    assert fleet.truth(later).served_iops == 3000
    fleet.clock.advance(60)
    assert fleet.truth(volume.volume_id).served_iops == 1

    assert refusal(ec2.delete_volume, VolumeId=later) == "VolumeInUse"
    ec2.terminate_instances(InstanceIds=[instance_id])
    [remaining] = ec2.describe_volumes()["Volumes"]
    assert (remaining["VolumeId"], remaining["State"]) == (later, "available")
    [reservation] = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "terminated"
    ec2.delete_volume(VolumeId=later)
    assert len(fleet) == 0


def test_a_role_that_does_not_exist_is_not_assumed(fleet):
    with Endpoint(fleet) as lab:
        sts = lab.client("sts", config=ONCE)
        arn = "arn:aws:iam::123456789012:role/nobody"

        assert refusal(sts.assume_role, RoleArn=arn, RoleSessionName="somebody") == "AccessDenied"


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "burstwatch.report/v1"}'])
def test_an_invalid_measured_report_is_refused(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(content)

    with pytest.raises(ReportError, match=r"give the \.json of burstctl aws-check"):
        read_report(path)


def test_an_answer_that_the_lab_cannot_play_is_reported_and_changes_nothing():
    fact = {"name": "idle-publishes", "answer": "sometimes", "values": {}}

    changes, unknown = settings_from_report({"facts": [fact]})

    assert changes == {}
    assert "idle-publishes: the lab cannot play 'sometimes'" in unknown


def test_a_report_whose_answer_lacks_its_values_is_refused():
    fact = {"name": "balance-spacing", "answer": "every 60 s", "values": {}}

    with pytest.raises(ReportError, match="measure it again"):
        settings_from_report({"facts": [fact]})


def test_serve_as_lists_what_it_took_and_refuses_what_is_not_a_report(tmp_path):
    from click.testing import CliRunner  # noqa: PLC0415 - one test

    from burstlab.serve import command  # noqa: PLC0415 - as above

    report = {
        "schema": "burstwatch.aws-check/v1",
        "region": "eu-west-1",
        "endpoint": "aws",
        "facts": [{"name": "balance-spacing", "answer": "every 300 s", "values": {"spacing_s": 300}}],
    }
    path, served = tmp_path / "report.json", []
    path.write_text(json.dumps(report))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "_serve_until_stopped", lambda fleet, *_: served.append(fleet.settings))
        result = CliRunner().invoke(command.serve, ["--as", str(path), "--balance-every", "60"])
        assert result.exit_code == 0
        path.write_text("{}")
        refused = CliRunner().invoke(command.serve, ["--as", str(path)])

    assert served[0].balance_every_s == 300
    assert "as measured in eu-west-1 (aws): balance_every_s=300" in result.output
    assert "not as measured: tag-condition" in result.output
    assert refused.exit_code == 1
    assert "is not a burstwatch.aws-check/v1" in refused.output
