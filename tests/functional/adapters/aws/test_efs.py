"""The reader of file systems, with real boto3 before the lab, and before answers that AWS would not give."""

import shlex
from datetime import timedelta
from itertools import pairwise

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.file_system import LabFileSystem
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.core.efs.mode_recommendation import EfsLoad, recommend_mode
from support.lab.lab_start import START

GIB = 2**30


def add(fleet, **changes):
    return fleet.file_systems.add(LabFileSystem(**{"size_gib": 58} | changes))


class FakeEfs:
    """Answers with these descriptions, whatever is requested."""

    def __init__(self, *descriptions):
        self.descriptions = list(descriptions)

    def describe_file_systems(self, **_):
        return {"FileSystems": self.descriptions}


def a_description(file_system_id="fs-1", **changes):
    facts = {
        "FileSystemId": file_system_id,
        "LifeCycleState": "available",
        "SizeInBytes": {"Value": 60 * GIB, "ValueInStandard": 58 * GIB},
        "ThroughputMode": "bursting",
    }
    return {key: value for key, value in (facts | changes).items() if value is not None}


def test_a_file_system_is_read_with_everything_that_is_needed(efs_reader, fleet, failures):
    file_system_id = add(
        fleet,
        infrequent_gib=2,
        throughput_mode="provisioned",
        provisioned_mib_s=20.5,
        zone="us-east-1a",
        tags={"Name": "home", "burstwatch:mode": "propose"},
    )
    [file_system] = efs_reader.file_systems(report_failure=failures)
    assert file_system.file_system_id == file_system_id
    assert (file_system.standard_bytes, file_system.size_bytes) == (58 * GIB, 60 * GIB)
    assert (file_system.throughput_mode, file_system.provisioned_mib_s) == ("provisioned", 20.5)
    assert (file_system.state, file_system.performance_mode) == ("available", "generalPurpose")
    assert file_system.created_at == START - timedelta(days=30)
    assert (file_system.zone, file_system.name) == ("us-east-1a", "home")
    assert not file_system.uses_credits
    assert not failures


def test_a_provisioned_throughput_of_0_is_none(failures):
    [file_system] = EfsReader(FakeEfs(a_description(ProvisionedThroughputInMibps=0.0))).file_systems(
        report_failure=failures
    )
    assert file_system.provisioned_mib_s is None


def test_all_pages_are_read(efs_reader, lab, fleet, failures):
    ids = [add(fleet) for _ in range(205)]
    pages = []
    read = efs_reader.file_systems(report_failure=failures, on_page=lambda: pages.append(1))
    assert [file_system.file_system_id for file_system in read] == ids
    assert len(pages) == lab.faults.call_counts()["DescribeFileSystems"] == 3


@pytest.mark.parametrize(("count", "calls"), [(3, 4), (12, 1)])
def test_a_few_are_read_one_by_one_and_many_from_the_listing(efs_reader, lab, fleet, count, calls):
    ids = [add(fleet) for _ in range(count)]
    add(fleet)
    result = efs_reader.file_systems_by_id([*ids, "fs-0000000a"])
    assert [file_system.file_system_id for file_system in result.file_systems] == ids
    assert result.missing == ["fs-0000000a"]
    assert not result.unread
    assert lab.faults.call_counts()["DescribeFileSystems"] == calls


def test_denied_access_is_one_failure(efs_reader, lab, fleet, failures):
    ids = [add(fleet) for _ in range(2)]
    message = (
        "User: arn:aws:sts::123456789012:assumed-role/watch/x is not authorized to perform:"
        " elasticfilesystem:DescribeFileSystems on the specified resource"
    )
    lab.faults.add(
        Fault(service="elasticfilesystem", code="AccessDeniedException", message=message, status=403)
    )
    with pytest.raises(AwsError) as raised:
        list(efs_reader.file_systems(report_failure=failures))
    assert raised.value.failure.kind == FailureKind.REFUSED
    assert "grant elasticfilesystem:DescribeFileSystems to it" in str(raised.value)
    result = efs_reader.file_systems_by_id(ids)
    assert result.unread.keys() == set(ids)
    assert not result.missing


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"SizeInBytes": None}, "AWS's answer has no 'Value'"),
        ({"SizeInBytes": {"Value": "large"}}, "its Value is 'large'"),
        ({"LifeCycleState": None}, "AWS's answer has no 'LifeCycleState'"),
        ({"FileSystemId": "fs-\x00"}, "its FileSystemId is 'fs-\\x00'"),
    ],
)
def test_one_that_cannot_be_read_hides_no_other(changes, reason, failures):
    reader = EfsReader(FakeEfs(a_description("fs-bad", **changes), a_description("fs-good")))
    [good] = reader.file_systems(report_failure=failures)
    assert good.file_system_id == "fs-good"
    [failure] = failures.values()
    assert (failure.code, failure.message) == ("UnreadableFileSystem", reason)
    assert "aws efs describe-file-systems" in failure.next_step


def test_what_is_no_mapping_at_all_is_reported_without_an_id(failures):
    assert list(EfsReader(FakeEfs("nonsense")).file_systems(report_failure=failures)) == []
    assert list(failures) == ["(a file system without id)"]


def test_without_a_mode_it_is_in_bursting_mode_and_without_classes_all_is_in_standard(failures):
    description = a_description(ThroughputMode=None, SizeInBytes={"Value": 7})
    [file_system] = EfsReader(FakeEfs(description)).file_systems(report_failure=failures)
    assert file_system.uses_credits
    assert file_system.standard_bytes == 7


def test_a_mode_of_the_future_is_kept(failures):
    [file_system] = EfsReader(FakeEfs(a_description(ThroughputMode="quantum"))).file_systems(
        report_failure=failures
    )
    assert file_system.throughput_mode == "quantum"


def test_an_answer_that_is_no_page_is_a_failure(failures):
    class Broken:
        def describe_file_systems(self, **_):
            return {}

    with pytest.raises(AwsError, match="no list of FileSystems"):
        list(EfsReader(Broken()).file_systems(report_failure=failures))


def test_one_that_cannot_be_read_is_unread_and_not_missing():
    result = EfsReader(FakeEfs(a_description("fs-bad", LifeCycleState=None))).file_systems_by_id(["fs-bad"])
    assert result.unread["fs-bad"].code == "UnreadableFileSystem"
    assert not result.missing


def test_the_command_that_is_recommended_is_one_that_aws_accepts(efs_reader, lab, fleet, failures):
    file_system_id = add(fleet, tags={"Name": "home"})
    [file_system] = efs_reader.file_systems(report_failure=failures)
    load = EfsLoad(read_bytes=0, written_bytes=400 * GIB, peak_metered_per_s=60 * 2**20)
    advice = recommend_mode(file_system, load)
    options = dict(pairwise(shlex.split(advice.command)))
    lab.client("efs").update_file_system(
        FileSystemId=options["--file-system-id"],
        ThroughputMode=options["--throughput-mode"],
        ProvisionedThroughputInMibps=float(options["--provisioned-throughput-in-mibps"]),
    )
    fleet.clock.advance(60)
    [changed] = efs_reader.file_systems_by_id([file_system_id]).file_systems
    assert (changed.throughput_mode, changed.provisioned_mib_s) == ("provisioned", 60)
    assert recommend_mode(changed, load).command is None
