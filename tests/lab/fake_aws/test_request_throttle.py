"""EC2's request limits in the lab: a bucket for each action, which a neighbour empties."""

import pytest
from botocore.exceptions import ClientError

from burstlab.model.volume import LabVolume


def count_admitted(call, times):
    """How many of this many calls at once are let through; the others are refused as EC2 refuses."""
    refused = []
    for _ in range(times):
        try:
            call()
        except ClientError as error:
            refused.append(error.response)
    assert {item["Error"]["Code"] for item in refused} <= {"RequestLimitExceeded"}
    assert {item["ResponseMetadata"]["HTTPStatusCode"] for item in refused} <= {503}
    return times - len(refused)


def test_without_limits_every_call_is_let_through(ec2):
    assert count_admitted(ec2.describe_volumes, 120) == 120


def test_a_hundred_reads_at_once_then_twenty_per_second(lab, ec2):
    lab.throttle.is_on = True
    assert count_admitted(ec2.describe_volumes, 120) == 100
    lab.clock.advance(1)
    assert count_admitted(ec2.describe_volumes, 30) == 20
    lab.clock.advance(3600)
    assert count_admitted(ec2.describe_volumes, 120) == 100
    assert lab.throttle.rejected_calls == {"DescribeVolumes": 20 + 10 + 20}


def test_each_action_has_a_bucket_of_its_own(lab, ec2):
    lab.throttle.is_on = True
    count_admitted(ec2.describe_volumes, 100)
    assert count_admitted(ec2.describe_instances, 10) == 10


def test_modifications_have_a_smaller_one(lab, ec2):
    lab.throttle.is_on = True
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    dry_run = {"VolumeId": volume_id, "VolumeType": "gp3", "DryRun": True}
    codes = []
    for _ in range(60):
        with pytest.raises(ClientError) as exc_info:
            ec2.modify_volume(**dry_run)
        codes.append(exc_info.value.response["Error"]["Code"])
    assert codes == ["DryRunOperation"] * 50 + ["RequestLimitExceeded"] * 10


def test_a_noisy_neighbour_leaves_what_is_left_and_then_nothing(lab, ec2):
    lab.throttle.add_neighbour("DescribeVolumes", 15)
    count_admitted(ec2.describe_volumes, 100)
    lab.clock.advance(2)
    assert count_admitted(ec2.describe_volumes, 30) == 10
    lab.throttle.add_neighbour("DescribeVolumes", 25)
    lab.clock.advance(60)
    assert count_admitted(ec2.describe_volumes, 1) == 0
    lab.throttle.add_neighbour("DescribeVolumes", 0)
    lab.clock.advance(1)
    assert count_admitted(ec2.describe_volumes, 30) == 20


def test_a_neighbour_makes_no_negative_number_of_calls(lab):
    with pytest.raises(ValueError, match="-1 calls a second"):
        lab.throttle.add_neighbour("DescribeVolumes", -1)
