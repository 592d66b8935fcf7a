"""RDS as real boto3 sees it: describe, page, filter, modify, events, and what CloudWatch shows."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import CLASS_IO, LabDatabase
from support.lab.lab_start import START

GIB = 2**30


def add(fleet, identifier="orders", **changes):
    return fleet.databases.add(LabDatabase(identifier=identifier, **changes))


def values(cloudwatch, fleet, identifier, metric, stat="Minimum", *, period=60):
    """The datapoints since the start, as pairs of minutes and value."""
    request = {
        "Namespace": "AWS/RDS",
        "MetricName": metric,
        "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": identifier}],
    }
    [result] = cloudwatch.get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": request, "Period": period, "Stat": stat}}],
        StartTime=START - timedelta(hours=1),
        EndTime=fleet.clock.now() + timedelta(hours=1),
        ScanBy="TimestampAscending",
    )["MetricDataResults"]
    minutes = [int((at - START).total_seconds() // 60) for at in result["Timestamps"]]
    return list(zip(minutes, result["Values"], strict=True))


def described(rds, identifier="orders"):
    [entry] = rds.describe_db_instances(DBInstanceIdentifier=identifier)["DBInstances"]
    return entry


def test_a_database_has_the_fields_of_the_api(rds, fleet):
    add(fleet, multi_az=True, replica_of="main", tags={"team": "shop"}, instance_class="db.t3.large")
    entry = described(rds)
    assert entry["DBInstanceClass"] == "db.t3.large"
    assert (entry["Engine"], entry["StorageType"], entry["AllocatedStorage"]) == ("postgres", "gp2", 100)
    assert (entry["DBInstanceStatus"], entry["MultiAZ"]) == ("available", True)
    assert entry["ReadReplicaSourceDBInstanceIdentifier"] == "main"
    assert entry["InstanceCreateTime"] == START - timedelta(days=30)
    assert entry["TagList"] == [{"Key": "team", "Value": "shop"}]
    assert entry["DbiResourceId"].startswith("db-")
    assert entry["DBInstanceArn"].endswith(":db:orders")
    assert "Iops" not in entry
    assert "StorageOperationStatus" not in entry


@pytest.mark.parametrize(
    ("fields", "throughput"),
    [
        ({}, 0),
        ({"storage_type": "io1", "iops": 5_000, "throughput_mib_s": 500}, 0),
        ({"engine": "aurora-postgresql", "storage_type": "aurora"}, 0),
        ({"storage_type": "gp3"}, 125),
    ],
)
def test_the_throughput_is_0_unless_the_storage_is_gp3(rds, fleet, fields, throughput):
    add(fleet, **fields)
    assert described(rds)["StorageThroughput"] == throughput


def test_pages_have_a_hundred_at_most_and_end(rds, fleet):
    names = [add(fleet, f"db-{number}") for number in range(205)]
    pages = list(rds.get_paginator("describe_db_instances").paginate())
    assert [len(page["DBInstances"]) for page in pages] == [100, 100, 5]
    assert [entry["DBInstanceIdentifier"] for page in pages for entry in page["DBInstances"]] == names
    with pytest.raises(ClientError, match="Must be between 20 and 100"):
        rds.describe_db_instances(MaxRecords=5)
    with pytest.raises(ClientError, match="Invalid marker"):
        rds.describe_db_instances(Marker="nonsense")


def test_filters_find_by_name_resource_id_cluster_and_engine(rds, fleet):
    add(fleet)
    add(fleet, "member", cluster_id="c-1", engine="mysql")

    def matches(name, *wanted):
        filters = [{"Name": name, "Values": list(wanted)}]
        return [
            entry["DBInstanceIdentifier"]
            for entry in rds.describe_db_instances(Filters=filters)["DBInstances"]
        ]

    assert matches("db-instance-id", "orders", "unknown") == ["orders"]
    assert matches("dbi-resource-id", described(rds)["DbiResourceId"]) == ["orders"]
    assert matches("db-cluster-id", "c-1") == ["member"]
    assert matches("engine", "mysql", "postgres") == ["orders", "member"]
    with pytest.raises(ClientError, match="Unrecognized filter name: size"):
        matches("size", "1")


def test_an_unknown_name_is_an_error_of_rds(rds, fleet):
    with pytest.raises(rds.exceptions.DBInstanceNotFoundFault, match="DBInstance nothing not found"):
        rds.describe_db_instances(DBInstanceIdentifier="nothing")


def gp3_option(rds, identifier):
    message = rds.describe_valid_db_instance_modifications(DBInstanceIdentifier=identifier)
    [option] = [
        option
        for option in message["ValidDBInstanceModificationsMessage"]["Storage"]
        if option["StorageType"] == "gp3"
    ]
    return option


def test_the_storage_options_depend_on_engine_and_size(rds, fleet):
    add(fleet, "small", allocated_gib=100)
    add(fleet, "large", allocated_gib=400)
    add(fleet, "mssql", allocated_gib=100, engine="sqlserver-se")
    assert "ProvisionedIops" not in gp3_option(rds, "small")
    assert gp3_option(rds, "large")["ProvisionedIops"] == [{"From": 12_000, "To": 64_000, "Step": 1}]
    assert gp3_option(rds, "large")["ProvisionedStorageThroughput"][0]["From"] == 500
    assert gp3_option(rds, "mssql")["StorageThroughputToIopsRatio"] == [{"From": 0.0, "To": 0.25}]
    fleet.databases.set_running("small", running=False)
    with pytest.raises(rds.exceptions.InvalidDBInstanceStateFault):
        gp3_option(rds, "small")


def test_a_person_changes_the_storage_to_gp3(rds, fleet):
    add(fleet)
    with pytest.raises(ClientError, match="You can't specify IOPS or storage throughput for engine postgres"):
        rds.modify_db_instance(
            DBInstanceIdentifier="orders", StorageType="gp3", Iops=3_000, ApplyImmediately=True
        )
    answer = rds.modify_db_instance(DBInstanceIdentifier="orders", StorageType="gp3", ApplyImmediately=True)
    assert answer["DBInstance"]["DBInstanceStatus"] == "modifying"
    assert answer["DBInstance"]["PendingModifiedValues"]["StorageType"] == "gp3"
    fleet.clock.advance(600)
    entry = described(rds)
    assert (entry["DBInstanceStatus"], entry["StorageType"]) == ("storage-optimization", "gp3")
    assert entry["StorageOperationStatus"] == "Optimizing"
    assert 0 < entry["StorageOperationPercentProgress"] < 100
    assert entry["Iops"] == 3_000
    with pytest.raises(ClientError, match="previous storage change is being optimized"):
        rds.modify_db_instance(DBInstanceIdentifier="orders", StorageType="gp2", ApplyImmediately=True)
    fleet.clock.advance(6 * 3_600)
    assert described(rds)["DBInstanceStatus"] == "available"


def test_what_the_lab_does_not_change_is_refused(rds, fleet):
    add(fleet)
    with pytest.raises(ClientError, match="burstlab changes the storage and the name, not MultiAZ"):
        rds.modify_db_instance(DBInstanceIdentifier="orders", MultiAZ=True)


def test_the_balance_is_a_percentage_of_the_striped_volumes(cloudwatch, fleet):
    add(fleet, allocated_gib=400, load="steady:12000")
    fleet.clock.advance(180)
    # 10,800 a second of 21.6 million: 3 % a minute
    assert values(cloudwatch, fleet, "orders", "BurstBalance") == [
        (0, pytest.approx(97)),
        (1, pytest.approx(94)),
        (2, pytest.approx(91)),
    ]


def test_the_class_publishes_its_balances_every_five_minutes(cloudwatch, fleet):
    # db.m5.large sustains 3,600 IOPS and has a bucket of 27,270,000: 6,000 IOPS cost 144,000 a minute
    add(fleet, allocated_gib=1_000, instance_class="db.m5.large", load="steady:6000@4")
    fleet.clock.advance(900)
    assert values(cloudwatch, fleet, "orders", "EBSIOBalance%") == [
        (minutes, pytest.approx(100 - (minutes + 5) * 144_000 / 272_700)) for minutes in (0, 5, 10)
    ]
    assert values(cloudwatch, fleet, "orders", "EBSByteBalance%")[0] == (0, pytest.approx(100))
    fleet.databases.set_balance("orders", 0, CLASS_IO)
    fleet.clock.advance(300)
    assert values(cloudwatch, fleet, "orders", "WriteIOPS", "Average")[-1][1] == pytest.approx(3_600 * 0.75)


def test_a_class_without_credits_publishes_no_balance(cloudwatch, fleet):
    add(fleet, instance_class="db.m5.4xlarge")
    fleet.clock.advance(900)
    assert values(cloudwatch, fleet, "orders", "EBSIOBalance%") == []


def test_rates_are_per_second_and_storage_is_in_bytes(cloudwatch, fleet):
    add(fleet, load="steady:400@32%25", free_gib=20, free_loss_gib_per_day=24, instance_class="db.t3.large")
    fleet.clock.advance(3_600)

    def newest(metric):
        return values(cloudwatch, fleet, "orders", metric, "Average")[-1][1]

    assert (newest("ReadIOPS"), newest("WriteIOPS")) == (100, 300)
    assert (newest("ReadThroughput"), newest("WriteThroughput")) == (100 * 32_768, 300 * 32_768)
    assert newest("FreeStorageSpace") == pytest.approx(19 * GIB, rel=0.001)
    assert newest("CPUCreditBalance") == 100


def test_gp3_and_stopped_databases_publish_no_balance(cloudwatch, fleet):
    add(fleet, storage_type="gp3")
    add(fleet, "stopped", stopped=True)
    fleet.clock.advance(300)
    assert values(cloudwatch, fleet, "orders", "BurstBalance") == []
    assert values(cloudwatch, fleet, "stopped", "BurstBalance") == []
    assert values(cloudwatch, fleet, "stopped", "WriteIOPS") == []


def test_the_balance_ends_when_the_storage_becomes_gp3(cloudwatch, rds, fleet):
    add(fleet, load="steady:3000")
    fleet.clock.advance(120)
    rds.modify_db_instance(DBInstanceIdentifier="orders", StorageType="gp3", ApplyImmediately=True)
    fleet.clock.advance(600)
    assert [minute for minute, _ in values(cloudwatch, fleet, "orders", "BurstBalance")] == [0, 1, 2]
    assert len(values(cloudwatch, fleet, "orders", "WriteIOPS")) == 12


def test_metrics_of_a_renamed_database_are_under_the_name_that_it_had(cloudwatch, rds, fleet):
    add(fleet, load="steady:3000")
    fleet.clock.advance(180)
    rds.modify_db_instance(
        DBInstanceIdentifier="orders", NewDBInstanceIdentifier="orders-old", ApplyImmediately=True
    )
    fleet.clock.advance(120)
    assert [minute for minute, _ in values(cloudwatch, fleet, "orders", "BurstBalance")] == [0, 1, 2]
    renamed = values(cloudwatch, fleet, "orders-old", "BurstBalance")
    assert [minute for minute, _ in renamed] == [3, 4]
    assert renamed[-1][1] == pytest.approx(100 - 5 * 3)  # 2,700 of 5.4 million a second, without a break


def test_low_credits_are_an_event_of_category_notification(rds, fleet):
    add(fleet, load="steady:3000")
    add(fleet, "calm")
    fleet.clock.advance(3_600)
    [event] = rds.describe_events(Duration=120)["Events"]
    assert event["SourceIdentifier"] == "orders"
    assert event["EventCategories"] == ["notification"]
    assert event["Date"] == START + timedelta(seconds=2_700)
    assert event["Message"].startswith("The gp2 burst balance credits for the RDS database instance are low.")
    for request in (
        {"Duration": 5},
        {"SourceIdentifier": "calm", "SourceType": "db-instance", "Duration": 120},
        {"EventCategories": ["failover"], "SourceType": "db-instance", "Duration": 120},
        {"SourceType": "db-cluster", "Duration": 120},
        {"StartTime": START, "EndTime": START + timedelta(seconds=60)},
    ):
        assert rds.describe_events(**request)["Events"] == []


def test_access_may_be_denied_to_rds_only(rds, lab, fleet):
    lab.faults.add(Fault(service="rds", code="AccessDenied", message="no", status=403))
    with pytest.raises(ClientError) as raised:
        rds.describe_db_instances()
    assert raised.value.response["Error"]["Code"] == "AccessDenied"
    assert lab.client("efs").describe_file_systems()["FileSystems"] == []
    assert lab.client("ec2").describe_volumes()["Volumes"] == []
