from datetime import UTC, datetime, timedelta, timezone
from math import ceil

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.stub import Stubber
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.core.ebs.modification import Modification, Provision
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ALL_GP2 = {"volume-type": ["gp2"]}


def described(volume_id="vol-1", **changes):
    """A volume as DescribeVolumes tells; a change to None leaves the field out."""
    facts = {
        "VolumeId": volume_id,
        "VolumeType": "gp2",
        "Size": 100,
        "Iops": 300,
        "CreateTime": NEW_YEAR,
        "State": "in-use",
        "Attachments": [attachment()],
        "Tags": [{"Key": "Name", "Value": "ci-7"}],
    }
    return {key: value for key, value in (facts | changes).items() if value is not None}


def attachment(instance_id="i-1", **changes):
    facts = {"InstanceId": instance_id, "Device": "/dev/sdf", "State": "attached", "AttachTime": NEW_YEAR}
    return {key: value for key, value in (facts | changes).items() if value is not None}


def refusal(code, message, operation="DescribeVolumes"):
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


class FakeEc2:
    """Volumes and instances by id; a lookup that names one it does not have fails as ``refuse`` says."""

    def __init__(self, volumes=(), *, instances=None, refuse=None, page_size=500):
        self.by_id = {volume["VolumeId"]: volume for volume in volumes}
        self.instances = instances or {}
        self.refuse = refuse or one_named
        self.page_size = page_size
        self.requests = []

    def describe_volumes(self, **request):
        found = self._found(self.by_id, request, "VolumeIds", "volume-id")
        return self._page(found, request, "Volumes")

    def describe_instances(self, **request):
        found = self._found(self.instances, request, "InstanceIds", "instance-id")
        entries = [_instance(each, self.instances[each]) for each in found]
        return self._page([{"Instances": entries}], request, "Reservations")

    def _found(self, things, request, ids_parameter, filter_name):
        self.requests.append(request)
        if ids_parameter in request:
            ids = request[ids_parameter]
            assert ids, "an empty list of ids asks for everything"
            assert len(ids) <= 500
            assert "MaxResults" not in request
            if absent := [each for each in ids if each not in things]:
                raise self.refuse(absent)
            return (
                list(things.values()) if things is self.by_id and not ids else [_pick(things, i) for i in ids]
            )
        wanted = {each["Name"]: each["Values"] for each in request.get("Filters", ())}.get(filter_name)
        assert wanted is None or len(wanted) <= 200
        ids = things if wanted is None else [each for each in wanted if each in things]
        return [_pick(things, each) for each in ids]

    def _page(self, found, request, key):
        first = int(request.get("NextToken", 0))
        token = {"NextToken": str(first + self.page_size)} if first + self.page_size < len(found) else {}
        return {key: found[first : first + self.page_size], **token}


def _instance(instance_id, state):
    return {"InstanceId": instance_id, "InstanceType": "m5.large", "State": {"Name": state}}


def _pick(things, each):
    return things[each] if isinstance(things[each], dict) else each


def one_named(absent):
    return refusal("InvalidVolume.NotFound", f"The volume '{absent[0]}' does not exist.")


def all_named(absent):
    return refusal("InvalidVolume.NotFound", f"The volumes '{', '.join(absent)}' do not exist")


def no_instance(absent):
    return refusal("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(absent)}' do not exist")


def none_named(absent):
    return refusal("InvalidParameterValue", "One of the ids is not valid")


class Faults(dict):
    """Collects what was reported."""

    def __call__(self, volume_id, failure):
        self[volume_id] = failure


@pytest.fixture
def faults():
    return Faults()


def only(volume, faults):
    """The one volume read from one description."""
    [read] = Ec2Reader(FakeEc2([volume])).volumes({}, report=faults)
    assert not faults
    return read


@pytest.fixture(scope="module")
def client():
    return boto3.client(
        "ec2", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )


def test_the_listing_asks_for_pages_of_500_filtered_by_ec2_with_managed_volumes(client, faults):
    asked = {
        "MaxResults": 500,
        "Filters": [{"Name": "volume-type", "Values": ["gp2"]}],
        "IncludeManagedResources": True,
    }
    with Stubber(client) as stub:
        stub.add_response("describe_volumes", {"Volumes": [described("vol-1")], "NextToken": "t"}, asked)
        stub.add_response("describe_volumes", {"Volumes": [described("vol-2")]}, asked | {"NextToken": "t"})
        volumes = list(Ec2Reader(client).volumes(ALL_GP2, report=faults))
        stub.assert_no_pending_responses()
    assert [volume.volume_id for volume in volumes] == ["vol-1", "vol-2"]


def test_pages_are_fetched_as_they_are_needed(faults):
    ec2 = FakeEc2([described(f"vol-{nth}") for nth in range(1200)])
    volumes = Ec2Reader(ec2).volumes({}, report=faults)
    next(volumes)
    assert len(ec2.requests) == 1
    assert len(list(volumes)) == 1199
    assert len(ec2.requests) == 3  # 1200 / 500, rounded up


def test_an_ordinary_volume_is_read_whole(faults):
    volume = only(described(Throughput=250, VolumeType="gp3", Size=50), faults)
    assert (volume.volume_id, volume.volume_type, volume.size_gib) == ("vol-1", "gp3", 50)
    assert (volume.created_at, volume.attached_at) == (NEW_YEAR, NEW_YEAR)
    assert (volume.attached, volume.instance_id, volume.device) == (True, "i-1", "/dev/sdf")
    assert (volume.multi_attached, volume.managed_by) == (False, None)
    assert (volume.provisioned_iops, volume.throughput_mib_s) == (300, 250)
    assert volume.tags == {"Name": "ci-7"}
    assert volume.outpost_arn is None


@pytest.mark.parametrize(
    ("told", "zone", "outpost_arn"),
    [
        ({"AvailabilityZone": "us-east-1-bos-1a"}, "us-east-1-bos-1a", None),
        ({"AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az4"}, "us-east-1a", None),
        ({"AvailabilityZone": None, "AvailabilityZoneId": "use1-az4"}, "use1-az4", None),
        ({"AvailabilityZone": "us-east-1a", "OutpostArn": "arn:…/op-1"}, "us-east-1a", "arn:…/op-1"),
        ({"AvailabilityZone": 7, "OutpostArn": ""}, None, None),
    ],
)
def test_where_a_volume_is_is_read_as_far_as_it_is_told(told, zone, outpost_arn, faults):
    volume = only(described() | told, faults)
    assert (volume.zone, volume.outpost_arn) == (zone, outpost_arn)


@pytest.mark.parametrize("state", ["attaching", "attached", "detaching", "busy"])
def test_an_attachment_that_is_not_over_counts(state, faults):
    volume = only(described(Attachments=[attachment(State=state)]), faults)
    assert (volume.attached, volume.instance_id) == (True, "i-1")
    assert volume.detaching is (state in ("detaching", "busy"))


def test_a_volume_that_leaves_one_of_two_instances_is_not_detaching(faults):
    both = [attachment("i-1", State="detaching"), attachment("i-2")]
    volume = only(described(VolumeType="io2", Attachments=both), faults)
    assert (volume.instance_id, volume.detaching) == ("i-2", False)


@pytest.mark.parametrize("attachments", [None, [], [attachment(State="detached")]])
def test_a_volume_without_a_live_attachment_is_detached(attachments, faults):
    volume = only(described(Attachments=attachments), faults)
    assert (volume.attached, volume.instance_id, volume.attached_at) == (False, None, None)


def test_an_attachment_of_an_aws_service_has_no_instance_but_is_one(faults):
    service = attachment(
        instance_id=None,
        Device=None,
        InstanceOwningService="ecs.amazonaws.com",
        AssociatedResource="arn:aws:ecs:x",
    )
    volume = only(described(Attachments=[service]), faults)
    assert (volume.attached, volume.instance_id, volume.device) == (True, None, None)
    assert volume.managed_by == "ecs.amazonaws.com"


@pytest.mark.parametrize(
    ("operator", "managed_by"),
    [
        ({"Managed": True, "Principal": "eks.amazonaws.com"}, "eks.amazonaws.com"),
        ({"Managed": True, "Principal": "eks.amazonaws.com", "HiddenByDefault": True}, "eks.amazonaws.com"),
        ({"Managed": True}, "an AWS service"),
        ({"Managed": False}, None),
    ],
)
def test_a_managed_volume_says_by_whom(operator, managed_by, faults):
    assert only(described(Operator=operator), faults).managed_by == managed_by


def test_of_several_attachments_the_first_complete_one_is_the_instance(faults):
    several = [attachment("i-1", State="attaching"), attachment("i-2"), attachment("i-3")]
    volume = only(described(VolumeType="io1", Attachments=several), faults)
    assert (volume.multi_attached, volume.instance_id) == (True, "i-2")


def test_a_volume_that_may_be_attached_to_several_instances_is_multi_attached(faults):
    assert only(described(VolumeType="io2", MultiAttachEnabled=True), faults).multi_attached


def test_what_aws_leaves_out_is_absent(faults):
    volume = only(described(Iops=None, Tags=None), faults)
    assert (volume.provisioned_iops, volume.throughput_mib_s, volume.tags) == (None, None, {})


def test_a_volume_without_creation_time_counts_as_old(faults):
    assert only(described(CreateTime=None), faults).created_at.year == 1970


def test_one_unreadable_volume_is_reported_and_hides_no_other(faults):
    bad = [described("vol-2", Size=None), described("vol-3", Size=0), described("vol-4", VolumeType=None)]
    ec2 = FakeEc2([described("vol-1"), *bad, described("vol-5")])
    volumes = Ec2Reader(ec2).volumes({}, report=faults)
    assert [volume.volume_id for volume in volumes] == ["vol-1", "vol-5"]
    assert {volume_id: failure.message for volume_id, failure in faults.items()} == {
        "vol-2": "AWS's answer has no 'Size'",
        "vol-3": "vol-3: size_gib is 0, it must be at least 1",
        "vol-4": "AWS's answer has no 'VolumeType'",
    }


@pytest.mark.parametrize(
    "rejection",
    [
        ParamValidationError(report='Unknown parameter in input: "IncludeManagedResources", must be one of'),
        refusal("UnknownParameter", "The parameter IncludeManagedResources is not recognized"),
    ],
)
def test_an_sdk_or_endpoint_that_knows_no_managed_resources_is_asked_without(rejection, faults):
    class Older(FakeEc2):
        def describe_volumes(self, **request):
            if "IncludeManagedResources" in request:
                self.requests.append(request)
                raise rejection
            return super().describe_volumes(**request)

    ec2 = Older([described("vol-1"), described("vol-2")], page_size=1)
    reader = Ec2Reader(ec2)
    assert len(list(reader.volumes({}, report=faults))) == 2
    assert len(list(reader.volumes({}, report=faults))) == 2
    # One rejection in all, then two pages twice.
    assert ["IncludeManagedResources" in request for request in ec2.requests] == [True, *[False] * 4]


def test_a_page_that_fails_makes_the_listing_fail_after_what_was_read(faults):
    class Breaking(FakeEc2):
        def describe_volumes(self, **request):
            if "NextToken" in request:
                raise refusal("RequestLimitExceeded", "Request limit exceeded.")
            return super().describe_volumes(**request)

    volumes = Ec2Reader(Breaking([described("vol-1"), described("vol-2")], page_size=1)).volumes(
        {}, report=faults
    )
    assert next(volumes).volume_id == "vol-1"
    with pytest.raises(AwsError, match="ec2:DescribeVolumes failed") as raised:
        next(volumes)
    assert raised.value.failure.kind is FailureKind.RETRYABLE


def test_volumes_are_looked_up_by_id_in_batches_of_500():
    ec2 = FakeEc2([described(f"vol-{nth}") for nth in range(1001)])
    read = Ec2Reader(ec2).volumes_by_id(f"vol-{nth}" for nth in range(1001))
    assert (len(read.volumes), read.missing, read.unread) == (1001, [], {})
    assert [len(request["VolumeIds"]) for request in ec2.requests] == [500, 500, 1]


def test_no_ids_are_no_call():
    ec2 = FakeEc2([described()])
    reader = Ec2Reader(ec2)
    assert not reader.volumes_by_id([]).volumes
    assert not reader.instance_states([]).states
    assert not reader.modifications_by_id([]).modifications
    assert not reader.ebs_limits([]).limits
    assert ec2.requests == []


def test_an_id_given_twice_is_asked_for_once():
    ec2 = FakeEc2([described("vol-1")])
    assert len(Ec2Reader(ec2).volumes_by_id(["vol-1", "vol-1"]).volumes) == 1
    assert ec2.requests == [{"VolumeIds": ["vol-1"]}]


@pytest.mark.parametrize(
    ("refuse", "asked", "absent", "calls"),
    [
        (all_named, 500, 0, 1),
        (all_named, 500, 1, 2),
        (all_named, 500, 250, 2),
        (all_named, 500, 500, 1),
        (all_named, 501, 1, 3),  # the second batch is not affected
        (one_named, 500, 1, 2),
        (one_named, 500, 2, 3),
        (one_named, 500, 250, 6),  # three tries by id, then by filter, 200 at a time
        (one_named, 1, 1, 1),
        (none_named, 500, 1, 4),  # one by id, then by filter
        (none_named, 500, 500, 4),
        (none_named, 1, 1, 2),
    ],
)
def test_deleted_volumes_cost_few_calls_whatever_the_error_names(refuse, asked, absent, calls):
    ids = [f"vol-{nth}" for nth in range(asked)]
    ec2 = FakeEc2([described(each) for each in ids[absent:]], refuse=refuse)
    read = Ec2Reader(ec2).volumes_by_id(ids)
    assert read.missing == ids[:absent]
    assert [volume.volume_id for volume in read.volumes] == ids[absent:]
    assert not read.unread
    assert len(ec2.requests) == calls


@pytest.mark.parametrize(
    "code", ["InvalidVolume.NotFound", "InvalidVolumeID.Malformed", "InvalidParameterValue"]
)
def test_a_malformed_id_is_missing_and_hides_no_other(code):
    ec2 = FakeEc2([described("vol-1")], refuse=lambda ids: refusal(code, f'Invalid id: "{ids[0]}"'))
    read = Ec2Reader(ec2).volumes_by_id(["vol-1", "vol-nonsense", "büchse voll"])
    assert [volume.volume_id for volume in read.volumes] == ["vol-1"]
    assert read.missing == ["vol-nonsense", "büchse voll"]


@given(
    fleet=st.sets(st.integers(0, 40)),
    wanted=st.lists(st.integers(0, 60), max_size=60),
    refuse=st.sampled_from([one_named, none_named]),
)
@example(fleet=set(), wanted=list(range(60)), refuse=one_named)
@settings(deadline=None)
def test_every_id_is_found_or_missing_in_four_calls_for_each_500(fleet, wanted, refuse):
    ec2 = FakeEc2([described(f"vol-{nth}") for nth in fleet], refuse=refuse)
    ids = [f"vol-{nth}" for nth in wanted]
    read = Ec2Reader(ec2).volumes_by_id(ids)
    assert {volume.volume_id for volume in read.volumes} == {f"vol-{nth}" for nth in set(wanted) & fleet}
    assert set(read.missing) == {f"vol-{nth}" for nth in set(wanted) - fleet}
    assert len(ec2.requests) <= 4 * ceil(len(ids) / 500)


def test_a_batch_that_fails_for_another_reason_is_unread_alone():
    class Throttling(FakeEc2):
        def describe_volumes(self, **request):
            if "vol-0" in request["VolumeIds"]:
                raise refusal("RequestLimitExceeded", "Request limit exceeded.")
            return super().describe_volumes(**request)

    ids = [f"vol-{nth}" for nth in range(501)]
    read = Ec2Reader(Throttling([described(each) for each in ids])).volumes_by_id(ids)
    assert [volume.volume_id for volume in read.volumes] == ["vol-500"]
    assert read.missing == []
    assert list(read.unread) == ids[:500]
    assert read.unread["vol-7"].kind is FailureKind.RETRYABLE


def test_a_volume_looked_up_but_unreadable_is_unread_not_missing():
    read = Ec2Reader(FakeEc2([described("vol-1", Size=None)])).volumes_by_id(["vol-1"])
    assert (read.volumes, read.missing, list(read.unread)) == ([], [], ["vol-1"])


def test_instances_have_their_state_and_one_that_is_gone_is_terminated():
    ec2 = FakeEc2(instances={"i-1": "running", "i-2": "stopped"}, refuse=no_instance)
    read = Ec2Reader(ec2).instance_states(["i-1", "i-2", "i-3"])
    assert read.states == {"i-1": "running", "i-2": "stopped", "i-3": "terminated"}
    assert read.types == {"i-1": "m5.large", "i-2": "m5.large"}
    assert len(ec2.requests) == 2


def test_instances_that_could_not_be_asked_for_are_unread_not_terminated():
    def refuse(_):
        return refusal("UnauthorizedOperation", "You are not authorized to perform this operation.")

    read = Ec2Reader(FakeEc2(refuse=refuse)).instance_states(["i-1"])
    assert read.states == {}
    assert str(read.unread["i-1"]).startswith("ec2:DescribeInstances failed (UnauthorizedOperation)")


def test_lookups_are_requests_that_ec2_knows(client):
    with Stubber(client) as stub:
        stub.add_client_error(
            "describe_instances", "InvalidParameterValue", expected_params={"InstanceIds": ["i-1"]}
        )
        stub.add_response(
            "describe_instances",
            {"Reservations": [{"Instances": [{"InstanceId": "i-1", "State": {"Name": "stopping"}}]}]},
            {
                "Filters": [{"Name": "instance-id", "Values": ["i-1"]}],
                "MaxResults": 500,
                "IncludeManagedResources": True,
            },
        )
        assert Ec2Reader(client).instance_states(["i-1"]).states == {"i-1": "stopping"}


MODIFICATION = {
    "VolumeId": "vol-1",
    "ModificationState": "optimizing",
    "OriginalVolumeType": "gp2",
    "OriginalSize": 100,
    "OriginalIops": 300,
    "TargetVolumeType": "gp3",
    "TargetSize": 120,
    "TargetIops": 3000,
    "TargetThroughput": 125,
    "Progress": 42,
    "StartTime": NEW_YEAR,
}


def test_modifications_in_progress_are_asked_for_by_state_never_by_volume(client, faults):
    asked = {
        "Filters": [{"Name": "modification-state", "Values": ["modifying", "optimizing"]}],
        "MaxResults": 500,
        "IncludeManagedResources": True,
    }
    with Stubber(client) as stub:
        stub.add_response(
            "describe_volumes_modifications",
            {"VolumesModifications": [MODIFICATION], "NextToken": "t"},
            asked,
        )
        stub.add_response(
            "describe_volumes_modifications", {"VolumesModifications": []}, asked | {"NextToken": "t"}
        )
        [modification] = Ec2Reader(client).modifications_in_progress(report=faults)
        stub.assert_no_pending_responses()
    assert modification == Modification(
        volume_id="vol-1",
        state="optimizing",
        original=Provision(volume_type="gp2", size_gib=100, iops=300),
        target=Provision(volume_type="gp3", size_gib=120, iops=3000, throughput_mib_s=125),
        progress_pct=42,
        started_at=NEW_YEAR,
    )


def test_an_unreadable_modification_is_reported_and_hides_no_other(faults):
    class Modifying:
        def describe_volumes_modifications(self, **_):
            bad = {"VolumeId": "vol-2", "ModificationState": "modifying"}
            return {"VolumesModifications": [bad, MODIFICATION]}

    [modification] = Ec2Reader(Modifying()).modifications_in_progress(report=faults)
    assert modification.volume_id == "vol-1"
    assert faults["vol-2"].message == "AWS's answer has no 'OriginalVolumeType'"


class Modified:
    """Modifications by volume; asked by filter, as EC2 has it, or never."""

    def __init__(self, *told, fail_with=None):
        self.told = told
        self.fail_with = fail_with or {}
        self.requests = []

    def describe_volumes_modifications(self, **request):
        self.requests.append(request)
        assert "VolumeIds" not in request, "one volume that was never modified fails a call that names it"
        [asked] = request["Filters"]
        assert (asked["Name"], len(asked["Values"]) <= 200) == ("volume-id", True)
        for volume_id, error in self.fail_with.items():
            if volume_id in asked["Values"]:
                raise error
        return {"VolumesModifications": [each for each in self.told if each["VolumeId"] in asked["Values"]]}


def modified(volume_id="vol-1", **changes):
    facts = MODIFICATION | {"VolumeId": volume_id} | changes
    return {key: value for key, value in facts.items() if value is not None}


def test_a_modification_is_read_whole():
    later = datetime(2026, 1, 1, 1, tzinfo=UTC)
    over = modified(ModificationState="failed", EndTime=later, StatusMessage="Try again.")
    read = Ec2Reader(Modified(over)).modifications_by_id(["vol-1"]).modifications["vol-1"]
    assert (read.ended_at, read.status_message, read.has_failed) == (later, "Try again.", True)


def test_modifications_are_looked_up_200_at_a_time_and_one_never_modified_is_absent():
    ids = [f"vol-{nth}" for nth in range(401)]
    ec2 = Modified(modified("vol-0"), modified("vol-400"))
    read = Ec2Reader(ec2).modifications_by_id([*ids, "vol-0"])
    assert (list(read.modifications), read.unread) == (["vol-0", "vol-400"], {})
    assert [len(request["Filters"][0]["Values"]) for request in ec2.requests] == [200, 200, 1]


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_modifications_of_a_volume_the_newest_counts(order):
    told = [
        modified(StartTime=None, Progress=1),
        modified(StartTime=NEW_YEAR, Progress=2),
        modified(StartTime=datetime(2026, 1, 2, tzinfo=UTC), Progress=3),
    ]
    read = Ec2Reader(Modified(*told[::order])).modifications_by_id(["vol-1"])
    assert read.modifications["vol-1"].progress_pct == 3


def test_modifications_that_cannot_be_read_are_unread_with_their_batch_or_alone():
    ids = [f"vol-{nth}" for nth in range(201)]
    throttled = refusal("RequestLimitExceeded", "Request limit exceeded.", "DescribeVolumesModifications")
    ec2 = Modified(modified("vol-7"), modified("vol-200", TargetSize=None), fail_with={"vol-0": throttled})
    read = Ec2Reader(ec2).modifications_by_id(ids)
    assert read.modifications == {}
    assert list(read.unread) == ids
    assert read.unread["vol-7"].code == "RequestLimitExceeded"
    assert read.unread["vol-200"].message == "AWS's answer has no 'TargetSize'"


def test_modifications_by_id_are_a_request_that_ec2_knows(client):
    asked = {
        "Filters": [{"Name": "volume-id", "Values": ["vol-1"]}],
        "MaxResults": 500,
        "IncludeManagedResources": True,
    }
    with Stubber(client) as stub:
        stub.add_response("describe_volumes_modifications", {"VolumesModifications": [MODIFICATION]}, asked)
        assert list(Ec2Reader(client).modifications_by_id(["vol-1"]).modifications) == ["vol-1"]


def test_provisioned_iops_are_those_of_every_volume_of_the_type(client):
    asked = {
        "MaxResults": 500,
        "Filters": [{"Name": "volume-type", "Values": ["io1"]}],
        "IncludeManagedResources": True,
    }
    first = [described("vol-1", Iops=1_000), described("vol-2", Iops=2_500, Size=None)]
    with Stubber(client) as stub:
        stub.add_response("describe_volumes", {"Volumes": first, "NextToken": "t"}, asked)
        stub.add_response(
            "describe_volumes", {"Volumes": [described("vol-3", Iops=100)]}, asked | {"NextToken": "t"}
        )
        assert Ec2Reader(client).provisioned_iops(VolumeType.IO1) == 3_600


def test_provisioned_iops_that_cannot_be_read_are_no_number(client):
    with Stubber(client) as stub:
        stub.add_client_error("describe_volumes", "UnauthorizedOperation")
        with pytest.raises(AwsError, match="ec2:DescribeVolumes failed"):
            Ec2Reader(client).provisioned_iops(VolumeType.IO2)


M5_LARGE = {
    "InstanceType": "m5.large",
    "EbsInfo": {
        "EbsOptimizedSupport": "default",
        "EbsOptimizedInfo": {
            "BaselineBandwidthInMbps": 650,
            "BaselineThroughputInMBps": 81.25,
            "BaselineIops": 3_600,
            "MaximumBandwidthInMbps": 4_750,
            "MaximumThroughputInMBps": 593.75,
            "MaximumIops": 18_750,
        },
    },
}
LIMITLESS = [
    {"InstanceType": "t2.micro", "EbsInfo": {"EbsOptimizedSupport": "unsupported"}},
    {"InstanceType": "c3.xlarge", "EbsInfo": M5_LARGE["EbsInfo"] | {"EbsOptimizedSupport": "supported"}},
    {"InstanceType": "x9.half", "EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {}}},
    {"InstanceType": "x9.none"},
]


class Types:
    def __init__(self, *told):
        self.told = {each["InstanceType"]: each for each in told}
        self.requests = []
        self.error = None

    def describe_instance_types(self, **request):
        self.requests.append(request)
        if self.error:
            raise self.error
        [asked] = request["Filters"]
        assert len(asked["Values"]) <= 100
        return {"InstanceTypes": [self.told[each] for each in asked["Values"] if each in self.told]}


def test_the_limits_of_an_instance_type_are_told_in_mib_per_second():
    # 81.25 MB/s = 81,250,000 / 1,048,576 = 77.486 MiB/s; 593.75 MB/s = 566.244 MiB/s
    read = Ec2Reader(Types(M5_LARGE)).ebs_limits(["m5.large"])
    assert read.unread == {}
    assert read.limits["m5.large"] == InstanceLimits(
        max_iops=18_750,
        max_throughput_mib_s=pytest.approx(566.244, abs=0.001),
        baseline_iops=3_600,
        baseline_throughput_mib_s=pytest.approx(77.486, abs=0.001),
    )


def test_a_type_without_limits_of_its_own_is_left_out():
    names = [each["InstanceType"] for each in LIMITLESS]
    read = Ec2Reader(Types(*LIMITLESS)).ebs_limits([*names, "unheard.of"])
    assert (read.limits, read.unread) == ({}, {})


def test_each_type_is_asked_for_once_in_the_life_of_a_reader_100_at_a_time():
    ec2 = Types(M5_LARGE)
    reader = Ec2Reader(ec2)
    names = ["m5.large", *(f"x{nth}.large" for nth in range(200))]
    for _ in range(2):
        assert list(reader.ebs_limits([*names, "m5.large"]).limits) == ["m5.large"]
    assert [len(request["Filters"][0]["Values"]) for request in ec2.requests] == [100, 100, 1]


def test_limits_that_could_not_be_read_are_asked_for_again():
    ec2 = Types(M5_LARGE)
    reader = Ec2Reader(ec2)
    ec2.error = refusal("UnauthorizedOperation", "no", "DescribeInstanceTypes")
    read = reader.ebs_limits(["m5.large"])
    assert read.limits == {}
    assert str(read.unread["m5.large"]).startswith("ec2:DescribeInstanceTypes failed (UnauthorizedOperation)")
    ec2.error = None
    assert list(reader.ebs_limits(["m5.large"]).limits) == ["m5.large"]


def test_instance_types_are_a_request_that_ec2_knows(client):
    asked = {"Filters": [{"Name": "instance-type", "Values": ["m5.large"]}], "MaxResults": 100}
    with Stubber(client) as stub:
        stub.add_response("describe_instance_types", {"InstanceTypes": [M5_LARGE]}, asked)
        assert list(Ec2Reader(client).ebs_limits(["m5.large"]).limits) == ["m5.large"]


class Telling:
    """EC2, whatever it tells."""

    def __init__(self, *volumes):
        self.volumes = list(volumes)

    def describe_volumes(self, **_):
        return {"Volumes": self.volumes}


@pytest.mark.parametrize(
    "stranger",
    [
        None,
        "vol-2",
        {},
        described("vol-2", Size="many"),
        described("vol-2", Size=True),
        described("vol-2", VolumeType=7),
        described("vol-2", Attachments=[None]),
        described("vol-2", Attachments="i-1"),
        described("vol-\x1b[31m"),
        described("v" * 500),
        described(7),
    ],
)
def test_a_volume_that_cannot_be_is_reported_and_hides_no_other(stranger):
    reported = []
    aws = Telling(described("vol-1"), stranger, described("vol-3"))
    found = Ec2Reader(aws).volumes(
        ALL_GP2, report=lambda volume_id, failure: reported.append((volume_id, failure))
    )
    assert [volume.volume_id for volume in found] == ["vol-1", "vol-3"]
    ((volume_id, failure),) = reported
    assert volume_id.isprintable()
    assert len(volume_id) <= 64
    assert str(failure).isprintable()
    assert failure.code == "UnreadableVolume"


def test_what_is_told_besides_and_cannot_be_counts_as_not_told():
    odd = described(
        CreateTime=datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        Iops="300",
        Operator="aws",
        MultiAttachEnabled="no",
        Tags=[
            None,
            {"Key": 7},
            {"Value": "x"},
            {"Key": "team", "Value": None},
            {"Key": "Name", "Value": "ci"},
        ],
    )
    (volume,) = Ec2Reader(Telling(odd)).volumes(ALL_GP2, report=lambda *_: pytest.fail("it can be read"))
    assert volume.tags == {"Name": "ci"}
    assert (volume.provisioned_iops, volume.managed_by, volume.multi_attached) == (None, None, False)
    assert volume.created_at == datetime(1970, 1, 1, tzinfo=UTC)
