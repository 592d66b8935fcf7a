"""ModifyVolume and DescribeVolumesModifications as boto3 sees them."""

import json
import urllib.request
from datetime import timedelta

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from support.aws.stub_clients import ONCE
from support.lab.lab_start import START

TEN_S_A_PERCENT = {"modifying_s": 60, "modify_minutes_per_tib": 1024 / 6, "modify_spread": 0}

pytestmark = pytest.mark.lab_settings(**TEN_S_A_PERCENT)


SHORT_TIMEOUTS = Config(retries={"total_max_attempts": 1}, read_timeout=0.3)
UNKNOWN_ID = "vol-0000000000000dead"


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def modification_of(ec2, volume_id):
    (modification,) = ec2.describe_volumes_modifications(VolumeIds=[volume_id])["VolumesModifications"]
    return modification


def control(lab, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{lab.url}/_lab/{path}", data=data, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)["error"]


# ------------------------------------------------------------------------------------------- life and shape


def test_a_flip_to_gp3_is_distinguished_from_request_to_completion(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    answer = ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3", Iops=4_000, Throughput=250)
    reported = {
        "VolumeId": volume_id,
        "ModificationState": "modifying",
        "OriginalVolumeType": "gp2",
        "OriginalSize": 100,
        "OriginalIops": 300,
        "OriginalMultiAttachEnabled": False,
        "TargetVolumeType": "gp3",
        "TargetSize": 100,
        "TargetIops": 4_000,
        "TargetThroughput": 250,
        "TargetMultiAttachEnabled": False,
        "Progress": 0,
        "StartTime": START,
    }
    assert answer["VolumeModification"] == reported
    fleet.clock.advance(560)
    assert modification_of(ec2, volume_id) == {**reported, "ModificationState": "optimizing", "Progress": 50}
    fleet.clock.advance(500)
    assert modification_of(ec2, volume_id) == {
        **reported,
        "ModificationState": "completed",
        "Progress": 100,
        "EndTime": START + timedelta(seconds=1_060),
    }


# the second at which DescribeVolumes shows the new type
TYPE_CASES = [("accepted", 0), ("optimizing", 60), ("completed", 1_060)]


@pytest.mark.parametrize(("type_shown_from", "second"), TYPE_CASES)
def test_describe_volumes_shows_the_new_type_from_a_chosen_time_on(fleet, ec2, type_shown_from, second):
    fleet.change_settings(target_shown_from=type_shown_from)
    volume_id = fleet.add(LabVolume(size_gib=100, shown_iops=24))
    other = fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3", Iops=4_000, Throughput=250)
    if second:
        fleet.clock.advance(second - 1)
        (volume,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
        assert (volume["VolumeType"], volume["Iops"], volume.get("Throughput")) == ("gp2", 24, None)
        fleet.clock.advance(1)
    (volume,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert (volume["VolumeType"], volume["Iops"], volume["Throughput"]) == ("gp3", 4_000, 250)
    gp2 = ec2.describe_volumes(Filters=[{"Name": "volume-type", "Values": ["gp2"]}])["Volumes"]
    assert [volume["VolumeId"] for volume in gp2] == [other]


def test_a_new_size_is_distinguished_from_optimizing_on(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=volume_id, Size=200)
    sizes = []
    for seconds in (0, 59, 1):
        fleet.clock.advance(seconds)
        sizes.append(ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]["Size"])
    assert sizes == [100, 100, 200]


def a_shape(volume_type, size_gib, iops=None, throughput_mib_s=None):
    return {"Type": volume_type, "Size": size_gib, "Iops": iops, "Throughput": throughput_mib_s}


# what is not asked for: kept within a type, else what EC2 makes of it
DEFAULTS = [
    ({"size_gib": 100}, {"VolumeType": "gp3"}, {}, a_shape("gp3", 100, 3_000, 128)),
    ({"size_gib": 500}, {"VolumeType": "gp3"}, {}, a_shape("gp3", 500, 3_000, 250)),
    ({"size_gib": 2_000}, {"VolumeType": "gp3"}, {}, a_shape("gp3", 2_000, 6_000, 250)),
    (
        {"size_gib": 500},
        {"VolumeType": "gp3"},
        {"gp3_defaults": "least"},
        a_shape("gp3", 500, 3_000, 125),
    ),
    ({"size_gib": 100}, {"VolumeType": "io1"}, {}, a_shape("io1", 100, 3_000)),
    ({"size_gib": 100}, {"VolumeType": "io2", "Size": 120}, {}, a_shape("io2", 120, 3_000)),
    ({"size_gib": 100}, {"Size": 200}, {}, a_shape("gp2", 200, 600)),
    ({"size_gib": 500}, {"VolumeType": "st1"}, {}, a_shape("st1", 500)),
    (
        {"size_gib": 100, "volume_type": "gp3", "iops": 5_000, "throughput_mib_s": 300},
        {"Size": 150},
        {},
        a_shape("gp3", 150, 5_000, 300),
    ),
    (
        {"size_gib": 100, "volume_type": "gp3", "iops": 5_000, "throughput_mib_s": 300},
        {"VolumeType": "gp2"},
        {},
        a_shape("gp2", 100, 300),
    ),
    (
        {"size_gib": 100, "volume_type": "io1", "iops": 900},
        {"VolumeType": "gp3"},
        {},
        a_shape("gp3", 100, 3_000, 125),
    ),
]


@pytest.mark.parametrize(("original", "changes", "chosen", "target"), DEFAULTS)
def test_what_is_not_requested_is_kept_or_becomes_the_types_default(
    fleet, ec2, original, changes, chosen, target
):
    fleet.change_settings(**chosen)
    volume_id = fleet.add(LabVolume(**original))
    reported = ec2.modify_volume(VolumeId=volume_id, **changes)["VolumeModification"]
    assert {
        "Type": reported["TargetVolumeType"],
        "Size": reported["TargetSize"],
        "Iops": reported.get("TargetIops"),
        "Throughput": reported.get("TargetThroughput"),
    } == target


# ------------------------------------------------------------------------------------------------ refusals


REFUSED = [
    ({"size_gib": 100}, {}, "InvalidParameterValue", "No change specified"),
    (
        {"size_gib": 100},
        {"Size": 99},
        "InvalidParameterValue",
        "New size cannot be smaller than existing size",
    ),
    ({"size_gib": 100}, {"Size": 16_385}, "InvalidParameterValue", "16385 GiB is out of range for gp2"),
    ({"size_gib": 3}, {"VolumeType": "io1", "Iops": 100}, "InvalidParameterValue", "must be 4 to 16384 GiB"),
    ({"size_gib": 100}, {"VolumeType": "st1"}, "InvalidParameterValue", "must be 125 to 16384 GiB"),
    (
        {"size_gib": 100},
        {"VolumeType": "gp9"},
        "InvalidParameterValue",
        "Invalid value 'gp9' for volumeType.",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "gp3", "Iops": 2_999},
        "InvalidParameterValue",
        "Volume iops of 2999 is too low; minimum is 3000.",
    ),
    (
        {"size_gib": 1_000},
        {"VolumeType": "gp3", "Iops": 80_001},
        "VolumeIOPSLimit",
        "Volume iops of 80001 is too high; maximum is 80000.",
    ),
    (
        {"size_gib": 20},
        {"VolumeType": "gp3", "Iops": 10_001},
        "InvalidParameterValue",
        "Iops to volume size ratio of 500.050000 is too high; maximum is 500",
    ),
    # the default of 3,000 breaks 50:1 below 60 GiB
    (
        {"size_gib": 59},
        {"VolumeType": "io1"},
        "InvalidParameterValue",
        "Iops to volume size ratio of 50.847458 is too high; maximum is 50",
    ),
    (
        {"size_gib": 10},
        {"VolumeType": "io2", "Iops": 10_001},
        "InvalidParameterValue",
        "Iops to volume size ratio of 1000.100000 is too high; maximum is 1000",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "gp3", "Throughput": 124},
        "InvalidParameterValue",
        "Volume throughput of 124 is too low; minimum is 125.",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "gp3", "Throughput": 2_001},
        "InvalidParameterValue",
        "Volume throughput of 2001 is too high; maximum is 2000.",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "gp3", "Throughput": 751},
        "InvalidParameterValue",
        "Throughput (MiBps) to iops ratio of 0.250333 is too high; maximum is 0.250000 MiBps per iops.",
    ),
    (
        {"size_gib": 100},
        {"Iops": 1_000},
        "InvalidParameterCombination",
        "The parameter iops is not supported for gp2 volumes.",
    ),
    (
        {"size_gib": 500},
        {"VolumeType": "sc1", "Iops": 250},
        "InvalidParameterCombination",
        "The parameter iops is not supported for sc1 volumes.",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "io1", "Throughput": 250},
        "InvalidParameterCombination",
        "The parameter throughput is not supported for io1 volumes.",
    ),
    (
        {"size_gib": 100},
        {"VolumeType": "gp3", "MultiAttachEnabled": True},
        "InvalidParameterCombination",
        "Multi-Attach is not supported for gp3 volumes.",
    ),
    (
        {"size_gib": 100, "managed_by": "eks.amazonaws.com"},
        {"VolumeType": "gp3"},
        "UnsupportedOperation",
        "is managed by eks.amazonaws.com and cannot be modified.",
    ),
    (
        {"size_gib": 100, "zone": "us-east-1-bos-1a", "lacks_gp3": True},
        {"VolumeType": "gp3"},
        "UnsupportedOperation",
        "The volume type 'gp3' is not supported in the zone 'us-east-1-bos-1a'.",
    ),
    (
        {"size_gib": 100, "outpost_arn": "arn:aws:outposts:…:outpost/op-1", "lacks_gp3": True},
        {"VolumeType": "gp3", "Iops": 3_000},
        "UnsupportedOperation",
        "is not supported in the Outpost",
    ),
    (
        {"size_gib": 100, "volume_type": "io1", "multi_attached": True},
        {"Size": 200},
        "UnsupportedOperation",
        "has Multi-Attach enabled",
    ),
    (
        {"size_gib": 100, "volume_type": "io2", "multi_attached": True},
        {"VolumeType": "io1"},
        "UnsupportedOperation",
        "has Multi-Attach enabled",
    ),
]


@pytest.mark.parametrize(("original", "changes", "code", "message"), REFUSED)
def test_modify_volume_refuses_what_cannot_be(fleet, ec2, original, changes, code, message):
    volume_id = fleet.add(LabVolume(**original))
    result = refusal(ec2.modify_volume, VolumeId=volume_id, **changes)
    assert result[0] == code
    assert message in result[1]
    assert fleet.modifications(volume_id) == []


NO_VOLUMES = [
    (UNKNOWN_ID, "InvalidVolume.NotFound", f"The volume '{UNKNOWN_ID}' does not exist."),
    ("vol-xyz", "InvalidVolumeID.Malformed", 'Invalid id: "vol-xyz"'),
]


@pytest.mark.parametrize(("volume_id", "code", "message"), NO_VOLUMES)
def test_modify_volume_refuses_a_volume_that_is_none(ec2, volume_id, code, message):
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3") == (code, message)


def test_the_least_iops_are_free_of_the_ratio_and_io2_takes_a_multi_attached_resize(fleet, ec2):
    small = fleet.add(LabVolume(size_gib=1))
    shared = fleet.add(LabVolume(size_gib=100, volume_type="io2", multi_attached=True))
    ec2.modify_volume(VolumeId=small, VolumeType="gp3", Iops=3_000)
    reported = ec2.modify_volume(VolumeId=shared, Size=200, Iops=10_000)["VolumeModification"]
    assert (reported["OriginalMultiAttachEnabled"], reported["TargetMultiAttachEnabled"]) == (True, True)


@pytest.mark.parametrize("status", ["creating", "error"])
def test_a_volume_that_is_not_in_use_or_available_is_refused(fleet, ec2, status):
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.set_status(volume_id, status)
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3") == (
        "IncorrectState",
        f"Volume '{volume_id}' is in state '{status}'; it must be in-use or available.",
    )
    assert ec2.describe_volumes()["Volumes"][0]["State"] == status
    fleet.set_status(volume_id, None)
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")


@pytest.mark.parametrize(("seconds", "state"), [(0, "MODIFYING"), (60, "OPTIMIZING")])
def test_a_volume_is_not_modified_twice_at_the_same_time(fleet, ec2, seconds, state):
    volume_id = fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")
    fleet.clock.advance(seconds)
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp2") == (
        "IncorrectModificationState",
        f"Volume {volume_id} cannot be modified in modification state {state}",
    )


def test_the_fifth_start_in_24_hours_is_refused_until_the_first_is_24_hours_old(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.clock.advance(0.25)
    for hours in range(4):
        ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3" if hours % 2 == 0 else "gp2")
        fleet.clock.advance(3_600)
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3") == (
        "VolumeModificationRateExceeded",
        (
            "You've reached the maximum modification rate per volume limit. "
            "Wait until 2026-11-21T18:00:00.250Z before you can issue "
            "the next modification request for this volume."
        ),
    )
    fleet.clock.advance(20 * 3_600 - 1)
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3")[0] == (
        "VolumeModificationRateExceeded"
    )
    fleet.clock.advance(1)
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")
    fleet.clock.advance(3_000)
    assert "2026-11-21T19:00:00.250Z" in refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp2")[1]


def test_the_older_rule_is_one_start_in_six_hours_in_its_own_words(fleet, ec2):
    fleet.change_settings(modify_rule="six_hours", rate_text="six_hours")
    volume_id = fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")
    fleet.clock.advance(6 * 3_600 - 1)
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp2") == (
        "VolumeModificationRateExceeded",
        (
            "You've reached the maximum modification rate per volume limit. "
            "Wait at least 6 hours between modifications per EBS volume."
        ),
    )
    fleet.clock.advance(1)
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp2")


# this many modifications are let through in a day when each is a no-op, or fails
COUNTED = [
    ({}, {"Size": 100}, 4),
    ({"no_op_counts": False}, {"Size": 100}, 9),
    ({"modify_outcome": "failed_early"}, {"VolumeType": "gp3"}, 4),
    ({"modify_outcome": "failed_early", "failed_counts": False}, {"VolumeType": "gp3"}, 9),
]


@pytest.mark.parametrize(("chosen", "changes", "let_through"), COUNTED)
def test_whether_no_ops_and_failures_count_is_chosen(fleet, ec2, chosen, changes, let_through):
    fleet.change_settings(**chosen)
    volume_id = fleet.add(LabVolume(size_gib=100))
    for number in range(9):
        if number < let_through:
            ec2.modify_volume(VolumeId=volume_id, **changes)
        else:
            result = refusal(ec2.modify_volume, VolumeId=volume_id, **changes)
            assert result[0] == "VolumeModificationRateExceeded"
        fleet.clock.advance(1_200)


def test_refused_requests_spend_nothing(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    for _ in range(9):
        refusal(ec2.modify_volume, VolumeId=volume_id, Size=99)
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")


QUOTAS = [
    # 1,000 held by another volume and 3,000 asked for
    (
        {"io1_iops_quota": 3_999},
        "MaxIOPSLimitExceeded",
        (
            "You've reached the limit on your io1 IOPS in this Region: "
            "1000 are held, 3000 more would exceed 3999."
        ),
    ),
    ({"io1_iops_quota": 4_000}, None, None),
    (
        {"io1_modify_iops_quota": 3_999},
        "MaxIOPSLimitExceeded",
        (
            "You've reached the limit on your io1 modification IOPS in this Region: "
            "1000 are held, 3000 more would exceed 3999."
        ),
    ),
    (
        {"modify_storage_quota_gib": 299},
        "VolumeModificationSizeLimitExceeded",
        (
            "You've reached the limit on your Amazon EBS volume modification storage in this Region: "
            "200 GiB are being modified, 100 more would exceed 299."
        ),
    ),
    ({"modify_storage_quota_gib": 300, "io1_modify_iops_quota": 4_000}, None, None),
]


@pytest.mark.parametrize(("chosen", "code", "message"), QUOTAS)
def test_the_accounts_quotas_are_kept(fleet, ec2, chosen, code, message):
    fleet.change_settings(**chosen)
    first, second = fleet.add(LabVolume(size_gib=200)), fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=first, VolumeType="io1", Iops=1_000)
    if code is None:
        ec2.modify_volume(VolumeId=second, VolumeType="io1", Iops=3_000)
    else:
        assert refusal(ec2.modify_volume, VolumeId=second, VolumeType="io1", Iops=3_000) == (code, message)


def test_io2_counts_what_there_is_and_what_is_requested(fleet, ec2):
    # 40,000 + 60,001 are more than 100,000 in modification, though 60,001 are fewer in all
    volume_id = fleet.add(LabVolume(size_gib=500, volume_type="io2", iops=40_000))
    assert refusal(ec2.modify_volume, VolumeId=volume_id, Iops=60_001) == (
        "MaxIOPSLimitExceeded",
        (
            "You've reached the limit on your io2 modification IOPS in this Region: "
            "0 are held, 100001 more would exceed 100000."
        ),
    )
    ec2.modify_volume(VolumeId=volume_id, Iops=60_000)


def test_only_volumes_with_the_tag_may_be_modified_if_iam_requires_it(fleet, ec2):
    fleet.change_settings(modify_needs_tag=["burstwatch:mode", "auto"])
    allowed = fleet.add(LabVolume(size_gib=100, tags={"burstwatch:mode": "auto"}))
    other = fleet.add(LabVolume(size_gib=100, tags={"burstwatch:mode": "observe"}))
    ec2.modify_volume(VolumeId=allowed, VolumeType="gp3")
    with pytest.raises(ClientError) as refused:
        ec2.modify_volume(VolumeId=other, VolumeType="gp3")
    assert refused.value.response["Error"]["Code"] == "UnauthorizedOperation"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert refusal(ec2.modify_volume, VolumeId=other, VolumeType="gp3", DryRun=True)[0] == (
        "UnauthorizedOperation"
    )
    assert fleet.modify(other, volume_type="gp3").state == "modifying"  # people have other rights


def test_the_undocumented_codes_can_be_chosen(fleet, ec2):
    fleet.change_settings(managed_code="OperationNotPermitted", ratio_code="InvalidParameterCombination")
    managed = fleet.add(LabVolume(size_gib=100, managed_by="eks.amazonaws.com"))
    small = fleet.add(LabVolume(size_gib=10))
    assert refusal(ec2.modify_volume, VolumeId=managed, Size=200)[0] == "OperationNotPermitted"
    assert refusal(ec2.modify_volume, VolumeId=small, VolumeType="io1")[0] == "InvalidParameterCombination"


DRY_RUNS = [("permission", "DryRunOperation"), ("request", "InvalidParameterValue")]


@pytest.mark.parametrize(("checks", "code"), DRY_RUNS)
def test_a_dry_run_changes_nothing_and_checks_as_much_as_is_chosen(fleet, ec2, checks, code):
    fleet.change_settings(dry_run_checks=checks)
    volume_id = fleet.add(LabVolume(size_gib=100))
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3", DryRun=True) == (
        "DryRunOperation",
        "Request would have succeeded, but DryRun flag is set.",
    )
    assert refusal(ec2.modify_volume, VolumeId=volume_id, Size=1, DryRun=True)[0] == code
    assert fleet.modifications(volume_id) == []


# ----------------------------------------------------------------------------- lost answers, throttling


def test_a_request_can_be_carried_out_and_its_answer_lost(fleet, lab, ec2):
    reset, silent, wrong = fleet.add_all([LabVolume(size_gib=100)] * 3)
    hasty = lab.client("ec2", config=SHORT_TIMEOUTS)
    for kind, volume_id in (("reset", reset), ("timeout", silent), ("error", wrong)):
        lab.faults.add(
            Fault(action="ModifyVolume", kind=kind, volume_ids=[volume_id], times=1, after_effect=True)
        )
    with pytest.raises(ConnectionClosedError):
        ec2.modify_volume(VolumeId=reset, VolumeType="gp3")
    with pytest.raises(ReadTimeoutError):
        hasty.modify_volume(VolumeId=silent, VolumeType="gp3")
    hasty.close()
    assert refusal(ec2.modify_volume, VolumeId=wrong, VolumeType="gp3")[0] == "InternalError"
    for volume_id in (reset, silent, wrong):
        assert modification_of(ec2, volume_id)["TargetVolumeType"] == "gp3"
        assert len(fleet.modifications(volume_id)) == 1


def test_a_request_can_be_lost_before_it_is_carried_out(fleet, lab, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", times=1))
    with pytest.raises(ConnectionClosedError):
        ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")
    assert fleet.modifications(volume_id) == []
    lab.faults.add(Fault(action="ModifyVolume", kind="throttle", times=1))
    assert refusal(ec2.modify_volume, VolumeId=volume_id, VolumeType="gp3")[0] == "RequestLimitExceeded"
    assert fleet.modifications(volume_id) == []


def test_a_client_that_sends_again_after_a_lost_answer_is_refused_and_has_not_modified_twice(fleet, lab):
    volume_id = fleet.add(LabVolume(size_gib=100))
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", times=1, after_effect=True))
    stubborn = lab.client("ec2", config=Config(retries={"mode": "standard", "total_max_attempts": 2}))
    assert refusal(stubborn.modify_volume, VolumeId=volume_id, VolumeType="gp3")[0] == (
        "IncorrectModificationState"
    )
    stubborn.close()
    assert len(fleet.modifications(volume_id)) == 1


def test_one_volume_can_be_forbidden(fleet, lab, ec2):
    forbidden, other = fleet.add_all([LabVolume(size_gib=100)] * 2)
    lab.faults.add(
        Fault(
            action="ModifyVolume", code="UnauthorizedOperation", message="no", status=403, volume_ids=[other]
        )
    )
    ec2.modify_volume(VolumeId=forbidden, VolumeType="gp3")
    assert refusal(ec2.modify_volume, VolumeId=other, VolumeType="gp3") == ("UnauthorizedOperation", "no")


def test_what_moto_does_can_lose_its_answer_too(lab):
    sns = lab.client("sns", config=ONCE)
    lab.faults.add(Fault(action="CreateTopic", kind="reset", times=1, after_effect=True))
    with pytest.raises(ConnectionClosedError):
        sns.create_topic(Name="lost-answer")
    assert any("lost-answer" in topic["TopicArn"] for topic in sns.list_topics()["Topics"])
    sns.close()


# ------------------------------------------------------------------------------ DescribeVolumesModifications


def test_only_the_last_modification_is_reported_and_the_fleet_knows_them_all(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    for volume_type in ("gp3", "gp2", "io1"):
        ec2.modify_volume(VolumeId=volume_id, VolumeType=volume_type)
        fleet.clock.advance(1_060)
    assert modification_of(ec2, volume_id)["TargetVolumeType"] == "io1"
    assert [modification.target.volume_type for modification in fleet.modifications(volume_id)] == [
        "gp3",
        "gp2",
        "io1",
    ]


MODIFICATION_FILTERS = [
    ("modification-state", ["modifying"], {"flipped"}),
    ("modification-state", ["modifying", "optimizing"], {"flipped", "shared"}),
    ("original-volume-type", ["gp2"], {"flipped"}),
    ("original-size", ["200"], {"shared"}),
    ("original-iops", ["300"], {"flipped"}),
    ("originalMultiAttachEnabled", ["false"], {"flipped", "shared"}),
    ("target-volume-type", ["io2"], {"shared"}),
    ("target-size", ["300"], {"shared"}),
    ("target-iops", ["3000"], {"flipped"}),
    ("targetMultiAttachEnabled", ["true"], {"shared"}),
    ("start-time", ["2026-11-20T18:01:00.000Z"], {"flipped"}),
    ("start-time", ["2026-11-20*"], {"flipped", "shared"}),
]


@pytest.mark.parametrize(("name", "values", "expected"), MODIFICATION_FILTERS)
def test_modifications_are_chosen_by_filter(three_volumes, ec2, name, values, expected):
    result = ec2.describe_volumes_modifications(Filters=[{"Name": name, "Values": values}])
    assert {
        three_volumes[modification["VolumeId"]] for modification in result["VolumesModifications"]
    } == expected


def test_a_filter_leaves_out_what_was_never_modified_but_an_id_fails_the_call(three_volumes, ec2):
    by_filter = ec2.describe_volumes_modifications(
        Filters=[{"Name": "volume-id", "Values": [*three_volumes, UNKNOWN_ID]}]
    )["VolumesModifications"]
    assert {three_volumes[reported["VolumeId"]] for reported in by_filter} == {"flipped", "shared"}
    (never,) = (volume_id for volume_id, name in three_volumes.items() if name == "never")
    assert refusal(ec2.describe_volumes_modifications, VolumeIds=list(three_volumes)) == (
        "InvalidVolumeModification.NotFound",
        f"Modification for volume '{never}' does not exist.",
    )
    assert refusal(ec2.describe_volumes_modifications, VolumeIds=[UNKNOWN_ID])[0] == "InvalidVolume.NotFound"
    assert refusal(ec2.describe_volumes_modifications, Filters=[{"Name": "progress", "Values": ["1"]}]) == (
        "InvalidParameterValue",
        "The filter 'progress' is invalid",
    )


def test_modifications_come_in_pages(fleet, ec2):
    ids = fleet.add_all([LabVolume(size_gib=8)] * 12)
    for volume_id in ids:
        fleet.modify(volume_id, volume_type="gp3")
    pages = ec2.get_paginator("describe_volumes_modifications").paginate(PaginationConfig={"PageSize": 5})
    reported = [[entry["VolumeId"] for entry in page["VolumesModifications"]] for page in pages]
    assert reported == [ids[:5], ids[5:10], ids[10:]]


def test_how_long_a_modification_is_remembered_is_chosen(fleet, ec2):
    fleet.change_settings(record_days=1)
    volume_id = fleet.add(LabVolume(size_gib=100))
    ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3")
    fleet.clock.advance(1_060 + 86_399)
    assert modification_of(ec2, volume_id)["Progress"] == 100
    fleet.clock.advance(1)
    assert ec2.describe_volumes_modifications()["VolumesModifications"] == []
    assert refusal(ec2.describe_volumes_modifications, VolumeIds=[volume_id])[0] == (
        "InvalidVolumeModification.NotFound"
    )


# ----------------------------------------------------------------------------------------------- /_lab/


def test_modifications_are_steered_over_http(fleet, lab, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100))
    settings = control(lab, "POST", "settings", {"modify_outcome": "stuck", "modify_needs_tag": ["a", "b"]})
    assert (settings["modify_outcome"], settings["modify_needs_tag"]) == ("stuck", ["a", "b"])
    assert control(lab, "GET", "settings") == settings
    requested = {"volume_id": volume_id, "volume_type": "gp3", "iops": 4_000}
    assert control(lab, "POST", "modify", requested)["target"]["iops"] == 4_000
    assert control(lab, "POST", "modify", requested) == (
        f"IncorrectModificationState: Volume {volume_id} cannot be modified in modification state MODIFYING"
    )
    fleet.clock.advance(90)
    ended = control(lab, "POST", "end-modification", {"volume_id": volume_id, "state": "failed"})
    assert (ended["state"], ended["ended_at"]) == ("failed", "2026-11-20T18:01:30+00:00")
    assert control(lab, "GET", f"modifications?volume_id={volume_id}") == [ended]
    assert control(lab, "POST", "status", {"volume_id": volume_id, "status": "error"})["status"] == "error"
    assert ec2.describe_volumes()["Volumes"][0]["State"] == "error"
    assert [event["event"]["detail"]["result"] for event in control(lab, "GET", "events")] == [
        "modifying",
        "optimizing",
        "failed",
    ]
    (last,) = control(lab, "GET", "events?after=2")
    assert (last["number"], last["event"]["time"]) == (3, "2026-11-20T18:01:30Z")
    assert control(lab, "GET", "events?after=3") == []


BAD_CONTROL = [
    ("GET", "modifications", None, "/_lab/modifications needs 'volume_id' in its query, as in ?name=value"),
    ("GET", "events?after=x", None, "invalid literal for int"),
    ("POST", "settings", {"uplift": "never"}, "uplift is 'never': give one of accepted, linear, completed"),
    ("POST", "settings", {"region": "eu-west-1"}, "region cannot be changed while the fleet lives"),
    ("POST", "modify", {"volume_id": UNKNOWN_ID, "volume_type": "gp3"}, f"{UNKNOWN_ID} is not in the fleet"),
    ("POST", "modify", {"volume_id": UNKNOWN_ID, "size_gib": "9"}, "size_gib is '9': give a whole number"),
    ("POST", "modify", {"volume_id": UNKNOWN_ID, "colour": "red"}, "unexpected keyword argument 'colour'"),
    (
        "POST",
        "status",
        {"volume_id": UNKNOWN_ID, "status": "tired"},
        "status is 'tired': give one of creating",
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "complaint"), BAD_CONTROL)
def test_a_bad_control_request_names_what_would_work(lab, method, path, body, complaint):
    assert complaint in control(lab, method, path, body)
