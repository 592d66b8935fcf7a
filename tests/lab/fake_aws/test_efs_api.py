"""EFS as real boto3 sees it: describe, page, update, and what CloudWatch shows."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from burstlab.fake_aws.faults import Fault
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet import LabSettings
from support.lab.lab_start import START

GIB, MIB = 2**30, 2**20
FULL_BURST = "steady:400@256%0"  # 100 MiB/s written


def add(fleet, size_gib=58, **changes):
    return fleet.file_systems.add(LabFileSystem(size_gib=size_gib, **changes))


def values(cloudwatch, fleet, file_system_id, metric, stat, *, period=60, storage_class=None):
    """The datapoints of the last hours, as {minutes since the start: value}."""
    dimensions = [{"Name": "FileSystemId", "Value": file_system_id}]
    if storage_class:
        dimensions.append({"Name": "StorageClass", "Value": storage_class})
    request = {"Namespace": "AWS/EFS", "MetricName": metric, "Dimensions": dimensions}
    [result] = cloudwatch.get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": request, "Period": period, "Stat": stat}}],
        StartTime=START - timedelta(hours=1),
        EndTime=fleet.clock.now() + timedelta(hours=1),
        ScanBy="TimestampAscending",
    )["MetricDataResults"]
    minutes = [int((at - START).total_seconds() // 60) for at in result["Timestamps"]]
    return list(zip(minutes, result["Values"], strict=True))


def test_a_file_system_has_the_fields_of_the_api(efs, fleet):
    file_system_id = add(fleet, infrequent_gib=2, tags={"Name": "home"}, zone="us-east-1a")
    [described] = efs.describe_file_systems()["FileSystems"]
    assert described["FileSystemId"] == file_system_id
    assert described["Name"] == "home"
    assert described["LifeCycleState"] == "available"
    assert described["ThroughputMode"] == "bursting"
    assert described["SizeInBytes"]["Value"] == 60 * GIB
    assert described["SizeInBytes"]["ValueInStandard"] == 58 * GIB
    assert described["CreationTime"] == START - timedelta(days=30)
    assert described["AvailabilityZoneName"] == "us-east-1a"
    assert "ProvisionedThroughputInMibps" not in described


def test_pages_have_a_hundred_at_most_and_end(efs, fleet):
    ids = [add(fleet) for _ in range(205)]
    pages = list(efs.get_paginator("describe_file_systems").paginate())
    assert [len(page["FileSystems"]) for page in pages] == [100, 100, 5]
    assert [entry["FileSystemId"] for page in pages for entry in page["FileSystems"]] == ids
    assert len(efs.describe_file_systems(MaxItems=7)["FileSystems"]) == 7


def test_one_is_found_by_id_arn_and_creation_token(efs, fleet):
    add(fleet)
    file_system_id = add(fleet)
    [described] = efs.describe_file_systems(FileSystemId=file_system_id)["FileSystems"]
    assert described["FileSystemId"] == file_system_id
    for request in (
        {"FileSystemId": described["FileSystemArn"]},
        {"CreationToken": described["CreationToken"]},
    ):
        [again] = efs.describe_file_systems(**request)["FileSystems"]
        assert again["FileSystemId"] == file_system_id


def test_an_unknown_id_and_a_wrong_marker_are_errors_of_efs(efs, fleet):
    with pytest.raises(efs.exceptions.FileSystemNotFound, match="'fs-12345678' does not exist"):
        efs.describe_file_systems(FileSystemId="fs-12345678")
    with pytest.raises(efs.exceptions.BadRequest, match="marker"):
        efs.describe_file_systems(Marker="nonsense")


def test_a_person_changes_the_mode_and_is_held_to_the_24_hours(efs, fleet):
    file_system_id = add(fleet)
    answer = efs.update_file_system(
        FileSystemId=file_system_id, ThroughputMode="provisioned", ProvisionedThroughputInMibps=20
    )
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert (answer["LifeCycleState"], answer["ProvisionedThroughputInMibps"]) == ("updating", 20)
    with pytest.raises(efs.exceptions.IncorrectFileSystemLifeCycleState):
        efs.update_file_system(FileSystemId=file_system_id, ThroughputMode="elastic")
    fleet.clock.advance(60)
    with pytest.raises(efs.exceptions.TooManyRequests, match="Wait until 2026-11-21T18:00:00Z UTC"):
        efs.update_file_system(FileSystemId=file_system_id, ThroughputMode="elastic")


def test_the_balance_is_in_bytes_and_falls_by_what_is_metered(cloudwatch, fleet):
    file_system_id = add(fleet, load=FULL_BURST)
    fleet.clock.advance(180)
    balance = values(cloudwatch, fleet, file_system_id, "BurstCreditBalance", "Minimum")
    # 100 MiB/s less the 2,969,600 bytes that 58 GiB earn
    fall = 60 * (100 * MIB - 2_969_600)
    assert balance == [
        (minute, pytest.approx(2.1 * 2**40 - (minute + 1) * fall, abs=1)) for minute in range(3)
    ]
    assert values(cloudwatch, fleet, file_system_id, "MeteredIOBytes", "Sum") == [
        (minute, 6_000 * MIB) for minute in range(3)
    ]
    assert values(cloudwatch, fleet, file_system_id, "MeteredIOBytes", "SampleCount")[0] == (0, 24_000)


def test_reads_are_metered_at_one_third_and_named_by_their_own_metric(cloudwatch, fleet):
    file_system_id = add(fleet, load="steady:400@256%100")
    fleet.clock.advance(60)

    def total(metric):
        return values(cloudwatch, fleet, file_system_id, metric, "Sum")[0][1]

    assert total("MeteredIOBytes") == pytest.approx(2_000 * MIB)
    assert total("DataReadIOBytes") == total("TotalIOBytes") == 6_000 * MIB
    assert total("DataWriteIOBytes") == total("MetadataIOBytes") == 0


def test_the_permitted_throughput_falls_to_the_baseline_when_the_credits_are_gone(cloudwatch, fleet):
    file_system_id = add(fleet, load=FULL_BURST, balance_pct=0)
    fleet.file_systems.set_balance(file_system_id, 0.5)
    fleet.clock.advance(240)  # 0.5 % of 2,202,010 MiB last 113 s
    permitted = values(cloudwatch, fleet, file_system_id, "PermittedThroughput", "Minimum")
    assert permitted == [(0, 100 * MIB), (1, 2_969_600), (2, 2_969_600), (3, 2_969_600)]
    assert values(cloudwatch, fleet, file_system_id, "PermittedThroughput", "Maximum")[1] == (1, 100 * MIB)
    metered = values(cloudwatch, fleet, file_system_id, "MeteredIOBytes", "Sum")
    assert metered[-1] == (3, pytest.approx(60 * 2_969_600))


def test_io_is_shown_as_a_share_of_what_general_purpose_allows(cloudwatch, fleet):
    file_system_id = add(fleet, load="steady:700@4%0")
    fleet.clock.advance(60)
    assert values(cloudwatch, fleet, file_system_id, "PercentIOLimit", "Average") == [(0, pytest.approx(10))]


def test_sizes_come_every_quarter_of_an_hour_by_storage_class(cloudwatch, fleet):
    file_system_id = add(fleet, 58, infrequent_gib=2)
    fleet.clock.advance(30 * 60)
    fleet.file_systems.set_size(file_system_id, 100)
    fleet.clock.advance(15 * 60)

    def sizes(storage_class):
        return values(
            cloudwatch, fleet, file_system_id, "StorageBytes", "Average", storage_class=storage_class
        )

    assert sizes("Standard") == [(0, 58 * GIB), (15, 58 * GIB), (30, 100 * GIB)]
    assert sizes("Total")[0] == (0, 60 * GIB)
    assert sizes("IA")[0] == (0, 2 * GIB)
    assert sizes("Glacier") == sizes(None) == []


def test_the_balance_is_absent_in_other_modes_and_back_on_return(cloudwatch, efs, fleet):
    file_system_id = add(fleet, balance_pct=50)
    fleet.clock.advance(60)
    efs.update_file_system(FileSystemId=file_system_id, ThroughputMode="elastic")
    fleet.clock.advance(24 * 3_600)
    balance = values(cloudwatch, fleet, file_system_id, "BurstCreditBalance", "Minimum")
    assert [minute for minute, _ in balance] == [0, 1]  # the change takes half a minute
    efs.update_file_system(FileSystemId=file_system_id, ThroughputMode="bursting")
    fleet.clock.advance(180)
    balance = values(cloudwatch, fleet, file_system_id, "BurstCreditBalance", "Minimum")
    assert [minute for minute, _ in balance] == [0, 1, 1_441, 1_442, 1_443]
    permitted = dict(values(cloudwatch, fleet, file_system_id, "PermittedThroughput", "Maximum"))
    assert permitted[700] == 1_024 * MIB


def test_datapoints_may_be_late_and_come_twice(cloudwatch, fleet, lab):
    fleet.settings = LabSettings(lag_s=60, lag_most_s=240, double_datapoint_every=2)
    file_system_id = add(fleet)
    fleet.clock.advance(600)
    balance = values(cloudwatch, fleet, file_system_id, "BurstCreditBalance", "Minimum")
    minutes = [minute for minute, _ in balance]
    assert max(minutes) < 9  # the newest is not out
    assert {minute for minute in minutes if minutes.count(minute) == 2} == {0, 2, 4, 6}


def test_a_gap_and_a_fault_of_cloudwatch_concern_one_file_system(cloudwatch, fleet):
    hidden, faulty, calm = add(fleet), add(fleet), add(fleet)
    fleet.file_systems.find(hidden).gaps.append((START.timestamp() + 60, START.timestamp() + 120))
    fleet.clock.advance(180)
    assert [minute for minute, _ in values(cloudwatch, fleet, hidden, "BurstCreditBalance", "Minimum")] == [
        0,
        2,
    ]
    assert len(values(cloudwatch, fleet, calm, "BurstCreditBalance", "Minimum")) == 3
    assert faulty != calm


def test_access_may_be_denied_to_efs_only(efs, lab, fleet):
    add(fleet)
    lab.faults.add(Fault(service="elasticfilesystem", code="AccessDeniedException", message="no", status=403))
    with pytest.raises(ClientError) as raised:
        efs.describe_file_systems()
    assert raised.value.response["Error"] == {"Code": "AccessDeniedException", "Message": "no"}
    assert lab.client("rds").describe_db_instances()["DBInstances"] == []


def test_a_file_system_that_is_gone_has_no_metrics(cloudwatch, fleet):
    file_system_id = add(fleet)
    fleet.clock.advance(60)
    fleet.file_systems.remove(file_system_id)
    assert values(cloudwatch, fleet, file_system_id, "BurstCreditBalance", "Minimum") == []
