from datetime import UTC, datetime, timedelta, timezone
from math import ceil

import pytest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.stub import Stubber
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import VolumeType

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ALL_GP2 = {"volume-type": ["gp2"]}


def a_described_volume(volume_id="vol-1", **changes):
    """A volume as DescribeVolumes returns it; a change to None leaves the field out."""
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
        self.refuse = refuse or first_missing_named
        self.page_size = page_size
        self.requests = []

    def describe_volumes(self, **request):
        result = self._select(self.by_id, request, "VolumeIds", "volume-id")
        return self._page(result, request, "Volumes")

    def describe_instances(self, **request):
        result = self._select(self.instances, request, "InstanceIds", "instance-id")
        entries = [_instance(finding, self.instances[finding]) for finding in result]
        return self._page([{"Instances": entries}], request, "Reservations")

    def _select(self, items, request, ids_parameter, filter_name):
        self.requests.append(request)
        if ids_parameter in request:
            ids = request[ids_parameter]
            assert ids, "an empty list of ids asks for everything"
            assert len(ids) <= 500
            assert "MaxResults" not in request
            if absent := [item for item in ids if item not in items]:
                raise self.refuse(absent)
            return (
                list(items.values()) if items is self.by_id and not ids else [_select(items, i) for i in ids]
            )
        wanted = {item["Name"]: item["Values"] for item in request.get("Filters", ())}.get(filter_name)
        assert wanted is None or len(wanted) <= 200
        ids = items if wanted is None else [item for item in wanted if item in items]
        return [_select(items, item) for item in ids]

    def _page(self, result, request, key):
        first = int(request.get("NextToken", 0))
        token = {"NextToken": str(first + self.page_size)} if first + self.page_size < len(result) else {}
        return {key: result[first : first + self.page_size], **token}


def _instance(instance_id, state):
    return {"InstanceId": instance_id, "InstanceType": "m5.large", "State": {"Name": state}}


def _select(items, item):
    return items[item] if isinstance(items[item], dict) else item


def first_missing_named(absent):
    return refusal("InvalidVolume.NotFound", f"The volume '{absent[0]}' does not exist.")


def every_missing_named(absent):
    return refusal("InvalidVolume.NotFound", f"The volumes '{', '.join(absent)}' do not exist")


def no_instance_named(absent):
    return refusal("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(absent)}' do not exist")


def nothing_named(absent):
    return refusal("InvalidParameterValue", "One of the ids is not valid")


def read_single_volume(volume, faults):
    """The one volume read from one description."""
    [read] = Ec2Reader(FakeEc2([volume])).volumes({}, report_failure=faults)
    assert not faults
    return read


def test_the_listing_requests_pages_of_500_filtered_by_ec2_with_managed_volumes(ec2_client, faults):
    requested = {
        "MaxResults": 500,
        "Filters": [{"Name": "volume-type", "Values": ["gp2"]}],
        "IncludeManagedResources": True,
    }
    with Stubber(ec2_client) as stub:
        stub.add_response(
            "describe_volumes", {"Volumes": [a_described_volume("vol-1")], "NextToken": "t"}, requested
        )
        stub.add_response(
            "describe_volumes", {"Volumes": [a_described_volume("vol-2")]}, requested | {"NextToken": "t"}
        )
        volumes = list(Ec2Reader(ec2_client).volumes(ALL_GP2, report_failure=faults))
        stub.assert_no_pending_responses()
    assert [volume.volume_id for volume in volumes] == ["vol-1", "vol-2"]


def test_pages_are_fetched_as_they_are_needed(faults):
    ec2 = FakeEc2([a_described_volume(f"vol-{nth}") for nth in range(1200)])
    volumes = Ec2Reader(ec2).volumes({}, report_failure=faults)
    next(volumes)
    assert len(ec2.requests) == 1
    assert len(list(volumes)) == 1199
    assert len(ec2.requests) == 3  # 1200 / 500, rounded up


def test_an_ordinary_volume_is_read_whole(faults):
    volume = read_single_volume(a_described_volume(Throughput=250, VolumeType="gp3", Size=50), faults)
    assert (volume.volume_id, volume.volume_type, volume.size_gib) == ("vol-1", "gp3", 50)
    assert (volume.created_at, volume.attached_at) == (NEW_YEAR, NEW_YEAR)
    assert (volume.attached, volume.instance_id, volume.device) == (True, "i-1", "/dev/sdf")
    assert (volume.multi_attach_enabled, volume.managed_by) == (False, None)
    assert (volume.provisioned_iops, volume.throughput_mib_s) == (300, 250)
    assert volume.tags == {"Name": "ci-7"}
    assert volume.outpost_arn is None


@pytest.mark.parametrize(
    ("location", "zone", "outpost_arn"),
    [
        ({"AvailabilityZone": "us-east-1-bos-1a"}, "us-east-1-bos-1a", None),
        ({"AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az4"}, "us-east-1a", None),
        ({"AvailabilityZone": None, "AvailabilityZoneId": "use1-az4"}, "use1-az4", None),
        ({"AvailabilityZone": "us-east-1a", "OutpostArn": "arn:…/op-1"}, "us-east-1a", "arn:…/op-1"),
        ({"AvailabilityZone": 7, "OutpostArn": ""}, None, None),
    ],
)
def test_the_location_of_a_volume_is_read_as_far_as_known(location, zone, outpost_arn, faults):
    volume = read_single_volume(a_described_volume() | location, faults)
    assert (volume.zone, volume.outpost_arn) == (zone, outpost_arn)


@pytest.mark.parametrize("state", ["attaching", "attached", "detaching", "busy"])
def test_an_attachment_that_is_not_over_counts(state, faults):
    volume = read_single_volume(a_described_volume(Attachments=[attachment(State=state)]), faults)
    assert (volume.attached, volume.instance_id) == (True, "i-1")
    assert volume.detaching is (state in ("detaching", "busy"))


def test_a_volume_that_leaves_one_of_two_instances_is_not_detaching(faults):
    attachments = [attachment("i-1", State="detaching"), attachment("i-2")]
    volume = read_single_volume(a_described_volume(VolumeType="io2", Attachments=attachments), faults)
    assert (volume.instance_id, volume.detaching) == ("i-2", False)


@pytest.mark.parametrize("attachments", [None, [], [attachment(State="detached")]])
def test_a_volume_without_a_live_attachment_is_detached(attachments, faults):
    volume = read_single_volume(a_described_volume(Attachments=attachments), faults)
    assert (volume.attached, volume.instance_id, volume.attached_at) == (False, None, None)


def test_an_attachment_of_an_aws_service_has_no_instance_but_is_one(faults):
    service = attachment(
        instance_id=None,
        Device=None,
        InstanceOwningService="ecs.amazonaws.com",
        AssociatedResource="arn:aws:ecs:x",
    )
    volume = read_single_volume(a_described_volume(Attachments=[service]), faults)
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
def test_a_managed_volume_names_its_manager(operator, managed_by, faults):
    assert read_single_volume(a_described_volume(Operator=operator), faults).managed_by == managed_by


def test_the_first_complete_attachment_names_the_instance(faults):
    several = [attachment("i-1", State="attaching"), attachment("i-2"), attachment("i-3")]
    volume = read_single_volume(a_described_volume(VolumeType="io1", Attachments=several), faults)
    assert (volume.multi_attach_enabled, volume.instance_id) == (True, "i-2")


def test_a_volume_that_may_be_attached_to_several_instances_is_multi_attached(faults):
    assert read_single_volume(
        a_described_volume(VolumeType="io2", MultiAttachEnabled=True), faults
    ).multi_attach_enabled


def test_what_aws_leaves_out_is_absent(faults):
    volume = read_single_volume(a_described_volume(Iops=None, Tags=None), faults)
    assert (volume.provisioned_iops, volume.throughput_mib_s, volume.tags) == (None, None, {})


def test_numbers_of_0_do_not_apply_and_are_absent(faults):
    volume = read_single_volume(a_described_volume(Iops=0, Throughput=0), faults)
    assert (volume.provisioned_iops, volume.throughput_mib_s) == (None, None)
    changed = a_modification(OriginalIops=0, OriginalThroughput=0)
    [record] = (
        Ec2Reader(FakeModificationsClient(changed)).modifications_by_id(["vol-1"]).modifications.values()
    )
    assert (record.original.iops, record.original.throughput_mib_s) == (None, None)


def test_a_volume_without_creation_time_counts_as_old(faults):
    assert read_single_volume(a_described_volume(CreateTime=None), faults).created_at.year == 1970


def test_one_unreadable_volume_is_reported_and_hides_no_other(faults):
    bad = [
        a_described_volume("vol-2", Size=None),
        a_described_volume("vol-3", Size=0),
        a_described_volume("vol-4", VolumeType=None),
    ]
    ec2 = FakeEc2([a_described_volume("vol-1"), *bad, a_described_volume("vol-5")])
    volumes = Ec2Reader(ec2).volumes({}, report_failure=faults)
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
def test_an_sdk_or_endpoint_without_managed_resources_is_queried_without_them(rejection, faults):
    class Older(FakeEc2):
        def describe_volumes(self, **request):
            if "IncludeManagedResources" in request:
                self.requests.append(request)
                raise rejection
            return super().describe_volumes(**request)

    ec2 = Older([a_described_volume("vol-1"), a_described_volume("vol-2")], page_size=1)
    reader = Ec2Reader(ec2)
    assert len(list(reader.volumes({}, report_failure=faults))) == 2
    assert len(list(reader.volumes({}, report_failure=faults))) == 2
    # One rejection in all, then two pages twice.
    assert ["IncludeManagedResources" in request for request in ec2.requests] == [True, *[False] * 4]


def test_a_page_that_fails_makes_the_listing_fail_after_what_was_read(faults):
    class Breaking(FakeEc2):
        def describe_volumes(self, **request):
            if "NextToken" in request:
                raise refusal("RequestLimitExceeded", "Request limit exceeded.")
            return super().describe_volumes(**request)

    volumes = Ec2Reader(
        Breaking([a_described_volume("vol-1"), a_described_volume("vol-2")], page_size=1)
    ).volumes({}, report_failure=faults)
    assert next(volumes).volume_id == "vol-1"
    with pytest.raises(AwsError, match="ec2:DescribeVolumes failed") as exc_info:
        next(volumes)
    assert exc_info.value.failure.kind is FailureKind.RETRYABLE


def test_volumes_are_looked_up_by_id_in_batches_of_500():
    ec2 = FakeEc2([a_described_volume(f"vol-{nth}") for nth in range(1001)])
    results = Ec2Reader(ec2).volumes_by_id(f"vol-{nth}" for nth in range(1001))
    assert (len(results.volumes), results.missing, results.unread) == (1001, [], {})
    assert [len(request["VolumeIds"]) for request in ec2.requests] == [500, 500, 1]


def test_no_ids_are_no_call():
    ec2 = FakeEc2([a_described_volume()])
    reader = Ec2Reader(ec2)
    assert not reader.volumes_by_id([]).volumes
    assert not reader.instance_states([]).states
    assert not reader.modifications_by_id([]).modifications
    assert not reader.ebs_limits([]).limits
    assert ec2.requests == []


def test_an_id_given_twice_is_requested_once():
    ec2 = FakeEc2([a_described_volume("vol-1")])
    assert len(Ec2Reader(ec2).volumes_by_id(["vol-1", "vol-1"]).volumes) == 1
    assert ec2.requests == [{"VolumeIds": ["vol-1"]}]


@pytest.mark.parametrize(
    ("refuse", "count", "absent", "calls"),
    [
        (every_missing_named, 500, 0, 1),
        (every_missing_named, 500, 1, 2),
        (every_missing_named, 500, 250, 2),
        (every_missing_named, 500, 500, 1),
        (every_missing_named, 501, 1, 3),  # the second batch is not affected
        (first_missing_named, 500, 1, 2),
        (first_missing_named, 500, 2, 3),
        (first_missing_named, 500, 250, 6),  # three tries by id, then by filter, 200 at a time
        (first_missing_named, 1, 1, 1),
        (nothing_named, 500, 1, 4),  # one by id, then by filter
        (nothing_named, 500, 500, 4),
        (nothing_named, 1, 1, 2),
    ],
)
def test_deleted_volumes_cost_few_calls_whatever_the_error_names(refuse, count, absent, calls):
    ids = [f"vol-{nth}" for nth in range(count)]
    ec2 = FakeEc2([a_described_volume(id_) for id_ in ids[absent:]], refuse=refuse)
    results = Ec2Reader(ec2).volumes_by_id(ids)
    assert results.missing == ids[:absent]
    assert [volume.volume_id for volume in results.volumes] == ids[absent:]
    assert not results.unread
    assert len(ec2.requests) == calls


@pytest.mark.parametrize(
    "code", ["InvalidVolume.NotFound", "InvalidVolumeID.Malformed", "InvalidParameterValue"]
)
def test_a_malformed_id_is_missing_and_hides_no_other(code):
    ec2 = FakeEc2([a_described_volume("vol-1")], refuse=lambda ids: refusal(code, f'Invalid id: "{ids[0]}"'))
    results = Ec2Reader(ec2).volumes_by_id(["vol-1", "vol-nonsense", "büchse voll"])
    assert [volume.volume_id for volume in results.volumes] == ["vol-1"]
    assert results.missing == ["vol-nonsense", "büchse voll"]


@given(
    fleet=st.sets(st.integers(0, 40)),
    wanted=st.lists(st.integers(0, 60), max_size=60),
    refuse=st.sampled_from([first_missing_named, nothing_named]),
)
@example(fleet=set(), wanted=list(range(60)), refuse=first_missing_named)
@settings(deadline=None)
def test_every_id_is_found_or_missing_in_four_calls_for_each_500(fleet, wanted, refuse):
    ec2 = FakeEc2([a_described_volume(f"vol-{nth}") for nth in fleet], refuse=refuse)
    ids = [f"vol-{nth}" for nth in wanted]
    results = Ec2Reader(ec2).volumes_by_id(ids)
    assert {volume.volume_id for volume in results.volumes} == {f"vol-{nth}" for nth in set(wanted) & fleet}
    assert set(results.missing) == {f"vol-{nth}" for nth in set(wanted) - fleet}
    assert len(ec2.requests) <= 4 * ceil(len(ids) / 500)


def test_a_batch_that_fails_for_another_reason_is_unread_alone():
    class Throttling(FakeEc2):
        def describe_volumes(self, **request):
            if "vol-0" in request["VolumeIds"]:
                raise refusal("RequestLimitExceeded", "Request limit exceeded.")
            return super().describe_volumes(**request)

    ids = [f"vol-{nth}" for nth in range(501)]
    results = Ec2Reader(Throttling([a_described_volume(id_) for id_ in ids])).volumes_by_id(ids)
    assert [volume.volume_id for volume in results.volumes] == ["vol-500"]
    assert results.missing == []
    assert list(results.unread) == ids[:500]
    assert results.unread["vol-7"].kind is FailureKind.RETRYABLE


def test_a_volume_looked_up_but_unreadable_is_unread_not_missing():
    results = Ec2Reader(FakeEc2([a_described_volume("vol-1", Size=None)])).volumes_by_id(["vol-1"])
    assert (results.volumes, results.missing, list(results.unread)) == ([], [], ["vol-1"])


def test_instances_have_their_state_and_one_that_is_gone_is_terminated():
    ec2 = FakeEc2(instances={"i-1": "running", "i-2": "stopped"}, refuse=no_instance_named)
    results = Ec2Reader(ec2).instance_states(["i-1", "i-2", "i-3"])
    assert results.states == {"i-1": "running", "i-2": "stopped", "i-3": "terminated"}
    assert results.types == {"i-1": "m5.large", "i-2": "m5.large"}
    assert len(ec2.requests) == 2


def test_instances_that_could_not_be_requested_are_unread_not_terminated():
    def refuse(_):
        return refusal("UnauthorizedOperation", "You are not authorized to perform this operation.")

    results = Ec2Reader(FakeEc2(refuse=refuse)).instance_states(["i-1"])
    assert results.states == {}
    assert str(results.unread["i-1"]).startswith("ec2:DescribeInstances failed (UnauthorizedOperation)")


def test_lookups_are_requests_that_ec2_knows(ec2_client):
    with Stubber(ec2_client) as stub:
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
        assert Ec2Reader(ec2_client).instance_states(["i-1"]).states == {"i-1": "stopping"}


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


def test_modifications_in_progress_are_requested_by_state_never_by_volume(ec2_client, faults):
    requested = {
        "Filters": [{"Name": "modification-state", "Values": ["modifying", "optimizing"]}],
        "MaxResults": 500,
        "IncludeManagedResources": True,
    }
    with Stubber(ec2_client) as stub:
        stub.add_response(
            "describe_volumes_modifications",
            {"VolumesModifications": [MODIFICATION], "NextToken": "t"},
            requested,
        )
        stub.add_response(
            "describe_volumes_modifications", {"VolumesModifications": []}, requested | {"NextToken": "t"}
        )
        [modification] = Ec2Reader(ec2_client).modifications_in_progress(report_failure=faults)
        stub.assert_no_pending_responses()
    assert modification == Modification(
        volume_id="vol-1",
        state="optimizing",
        original=VolumeSpec(volume_type="gp2", size_gib=100, iops=300),
        target=VolumeSpec(volume_type="gp3", size_gib=120, iops=3000, throughput_mib_s=125),
        progress_pct=42,
        started_at=NEW_YEAR,
    )


def test_an_unreadable_modification_is_reported_and_hides_no_other(faults):
    class Modifying:
        def describe_volumes_modifications(self, **_):
            bad = {"VolumeId": "vol-2", "ModificationState": "modifying"}
            return {"VolumesModifications": [bad, MODIFICATION]}

    [modification] = Ec2Reader(Modifying()).modifications_in_progress(report_failure=faults)
    assert modification.volume_id == "vol-1"
    assert faults["vol-2"].message == "AWS's answer has no 'OriginalVolumeType'"


class FakeModificationsClient:
    """Modifications by volume; asked by filter, as EC2 has it, or never."""

    def __init__(self, *modifications, fail_with=None):
        self.modifications = modifications
        self.fail_with = fail_with or {}
        self.requests = []

    def describe_volumes_modifications(self, **request):
        self.requests.append(request)
        assert "VolumeIds" not in request, "one volume that was never modified fails a call that names it"
        [volume_filter] = request["Filters"]
        assert (volume_filter["Name"], len(volume_filter["Values"]) <= 200) == ("volume-id", True)
        for volume_id, error in self.fail_with.items():
            if volume_id in volume_filter["Values"]:
                raise error
        return {
            "VolumesModifications": [
                item for item in self.modifications if item["VolumeId"] in volume_filter["Values"]
            ]
        }


def a_modification(volume_id="vol-1", **changes):
    facts = MODIFICATION | {"VolumeId": volume_id} | changes
    return {key: value for key, value in facts.items() if value is not None}


def test_a_modification_is_read_whole():
    later = datetime(2026, 1, 1, 1, tzinfo=UTC)
    over = a_modification(ModificationState="failed", EndTime=later, StatusMessage="Try again.")
    results = Ec2Reader(FakeModificationsClient(over)).modifications_by_id(["vol-1"]).modifications["vol-1"]
    assert (results.ended_at, results.status_message, results.has_failed) == (later, "Try again.", True)


def test_modifications_are_looked_up_200_at_a_time_and_one_never_modified_is_absent():
    ids = [f"vol-{nth}" for nth in range(401)]
    ec2 = FakeModificationsClient(a_modification("vol-0"), a_modification("vol-400"))
    results = Ec2Reader(ec2).modifications_by_id([*ids, "vol-0"])
    assert (list(results.modifications), results.unread) == (["vol-0", "vol-400"], {})
    assert [len(request["Filters"][0]["Values"]) for request in ec2.requests] == [200, 200, 1]


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_of_several_modifications_counts(order):
    reported = [
        a_modification(StartTime=None, Progress=1),
        a_modification(StartTime=NEW_YEAR, Progress=2),
        a_modification(StartTime=datetime(2026, 1, 2, tzinfo=UTC), Progress=3),
    ]
    results = Ec2Reader(FakeModificationsClient(*reported[::order])).modifications_by_id(["vol-1"])
    assert results.modifications["vol-1"].progress_pct == 3


def test_modifications_that_cannot_be_read_are_unread_with_their_batch_or_alone():
    ids = [f"vol-{nth}" for nth in range(201)]
    throttled = refusal("RequestLimitExceeded", "Request limit exceeded.", "DescribeVolumesModifications")
    ec2 = FakeModificationsClient(
        a_modification("vol-7"), a_modification("vol-200", TargetSize=None), fail_with={"vol-0": throttled}
    )
    results = Ec2Reader(ec2).modifications_by_id(ids)
    assert results.modifications == {}
    assert list(results.unread) == ids
    assert results.unread["vol-7"].code == "RequestLimitExceeded"
    assert results.unread["vol-200"].message == "AWS's answer has no 'TargetSize'"


def test_modifications_by_id_are_a_request_that_ec2_knows(ec2_client):
    requested = {
        "Filters": [{"Name": "volume-id", "Values": ["vol-1"]}],
        "MaxResults": 500,
        "IncludeManagedResources": True,
    }
    with Stubber(ec2_client) as stub:
        stub.add_response(
            "describe_volumes_modifications", {"VolumesModifications": [MODIFICATION]}, requested
        )
        assert list(Ec2Reader(ec2_client).modifications_by_id(["vol-1"]).modifications) == ["vol-1"]


def test_provisioned_iops_are_those_of_every_volume_of_the_type(ec2_client):
    requested = {
        "MaxResults": 500,
        "Filters": [{"Name": "volume-type", "Values": ["io1"]}],
        "IncludeManagedResources": True,
    }
    first = [a_described_volume("vol-1", Iops=1_000), a_described_volume("vol-2", Iops=2_500, Size=None)]
    with Stubber(ec2_client) as stub:
        stub.add_response("describe_volumes", {"Volumes": first, "NextToken": "t"}, requested)
        stub.add_response(
            "describe_volumes",
            {"Volumes": [a_described_volume("vol-3", Iops=100)]},
            requested | {"NextToken": "t"},
        )
        assert Ec2Reader(ec2_client).provisioned_iops(VolumeType.IO1) == 3_600


def test_provisioned_iops_that_cannot_be_read_are_no_number(ec2_client):
    with Stubber(ec2_client) as stub:
        stub.add_client_error("describe_volumes", "UnauthorizedOperation")
        with pytest.raises(AwsError, match="ec2:DescribeVolumes failed"):
            Ec2Reader(ec2_client).provisioned_iops(VolumeType.IO2)


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
TYPE_WITHOUT_LIMITS = [
    {"InstanceType": "t2.micro", "EbsInfo": {"EbsOptimizedSupport": "unsupported"}},
    {"InstanceType": "c3.xlarge", "EbsInfo": M5_LARGE["EbsInfo"] | {"EbsOptimizedSupport": "supported"}},
    {"InstanceType": "x9.half", "EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {}}},
    {"InstanceType": "x9.none"},
    {
        "InstanceType": "x9.zero",
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "EbsOptimizedInfo": dict.fromkeys(M5_LARGE["EbsInfo"]["EbsOptimizedInfo"], 0),
        },
    },
]


class FakeInstanceTypesClient:
    def __init__(self, *instance_types):
        self.instance_types = {item["InstanceType"]: item for item in instance_types}
        self.requests = []
        self.error = None

    def describe_instance_types(self, **request):
        self.requests.append(request)
        if self.error:
            raise self.error
        [type_filter] = request["Filters"]
        assert len(type_filter["Values"]) <= 100
        return {
            "InstanceTypes": [
                self.instance_types[value] for value in type_filter["Values"] if value in self.instance_types
            ]
        }


def test_the_limits_of_an_instance_type_are_reported_in_mib_per_second():
    # 81.25 MB/s = 81,250,000 / 1,048,576 = 77.486 MiB/s; 593.75 MB/s = 566.244 MiB/s
    results = Ec2Reader(FakeInstanceTypesClient(M5_LARGE)).ebs_limits(["m5.large"])
    assert results.unread == {}
    assert results.limits["m5.large"] == InstanceLimits(
        max_iops=18_750,
        max_throughput_mib_s=pytest.approx(566.244, abs=0.001),
        baseline_iops=3_600,
        baseline_throughput_mib_s=pytest.approx(77.486, abs=0.001),
    )


def test_a_type_without_limits_of_its_own_is_left_out():
    names = [item["InstanceType"] for item in TYPE_WITHOUT_LIMITS]
    results = Ec2Reader(FakeInstanceTypesClient(*TYPE_WITHOUT_LIMITS)).ebs_limits([*names, "unheard.of"])
    assert (results.limits, results.unread) == ({}, {})


def test_each_type_is_requested_once_in_the_life_of_a_reader_100_at_a_time():
    ec2 = FakeInstanceTypesClient(M5_LARGE)
    reader = Ec2Reader(ec2)
    names = ["m5.large", *(f"x{nth}.large" for nth in range(200))]
    for _ in range(2):
        assert list(reader.ebs_limits([*names, "m5.large"]).limits) == ["m5.large"]
    assert [len(request["Filters"][0]["Values"]) for request in ec2.requests] == [100, 100, 1]


def test_limits_that_could_not_be_read_are_requested_again():
    ec2 = FakeInstanceTypesClient(M5_LARGE)
    reader = Ec2Reader(ec2)
    ec2.error = refusal("UnauthorizedOperation", "no", "DescribeInstanceTypes")
    results = reader.ebs_limits(["m5.large"])
    assert results.limits == {}
    assert str(results.unread["m5.large"]).startswith(
        "ec2:DescribeInstanceTypes failed (UnauthorizedOperation)"
    )
    ec2.error = None
    assert list(reader.ebs_limits(["m5.large"]).limits) == ["m5.large"]


def test_instance_types_are_a_request_that_ec2_knows(ec2_client):
    requested = {"Filters": [{"Name": "instance-type", "Values": ["m5.large"]}], "MaxResults": 100}
    with Stubber(ec2_client) as stub:
        stub.add_response("describe_instance_types", {"InstanceTypes": [M5_LARGE]}, requested)
        assert list(Ec2Reader(ec2_client).ebs_limits(["m5.large"]).limits) == ["m5.large"]


class CannedEc2:
    """EC2 with any response."""

    def __init__(self, *volumes):
        self.volumes = list(volumes)

    def describe_volumes(self, **_):
        return {"Volumes": self.volumes}


@pytest.mark.parametrize(
    "bad_volume",
    [
        None,
        "vol-2",
        {},
        a_described_volume("vol-2", Size="many"),
        a_described_volume("vol-2", Size=True),
        a_described_volume("vol-2", VolumeType=7),
        a_described_volume("vol-2", Attachments=[None]),
        a_described_volume("vol-2", Attachments="i-1"),
        a_described_volume("vol-\x1b[31m"),
        a_described_volume("v" * 500),
        a_described_volume(7),
    ],
)
def test_an_invalid_volume_is_reported_and_hides_no_other(bad_volume):
    reported = []
    aws = CannedEc2(a_described_volume("vol-1"), bad_volume, a_described_volume("vol-3"))
    result = Ec2Reader(aws).volumes(
        ALL_GP2, report_failure=lambda volume_id, failure: reported.append((volume_id, failure))
    )
    assert [volume.volume_id for volume in result] == ["vol-1", "vol-3"]
    ((volume_id, failure),) = reported
    assert volume_id.isprintable()
    assert len(volume_id) <= 64
    assert str(failure).isprintable()
    assert failure.code == "UnreadableVolume"


def test_invalid_optional_fields_count_as_absent():
    described = a_described_volume(
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
    (volume,) = Ec2Reader(CannedEc2(described)).volumes(
        ALL_GP2, report_failure=lambda *_: pytest.fail("it can be read")
    )
    assert volume.tags == {"Name": "ci"}
    assert (volume.provisioned_iops, volume.managed_by, volume.multi_attach_enabled) == (None, None, False)
    assert volume.created_at == datetime(1970, 1, 1, tzinfo=UTC)
