"""The reader of databases, with real boto3 before the lab, and before answers that AWS would not give."""

from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.adapters.aws.rds import RdsReader, parse_database
from burstwatch.core.rds.storage_options import ValueRange
from burstwatch.core.rds.storage_recommendation import StorageLoad, recommend_storage
from support.lab.lab_start import START


def add(fleet, identifier="orders", **changes):
    return fleet.databases.add(LabDatabase(identifier=identifier, **changes))


class FakeRds:
    """Answers with these descriptions, whatever is requested."""

    def __init__(self, *descriptions, options=None):
        self.descriptions, self.options = list(descriptions), options

    def describe_db_instances(self, **_):
        return {"DBInstances": self.descriptions}

    def describe_valid_db_instance_modifications(self, **_):
        return self.options


def a_description(identifier="orders", **changes):
    facts = {
        "DBInstanceIdentifier": identifier,
        "DbiResourceId": f"db-{identifier.upper()}",
        "Engine": "postgres",
        "DBInstanceClass": "db.m5.large",
        "StorageType": "gp2",
        "AllocatedStorage": 100,
        "DBInstanceStatus": "available",
    }
    return {key: value for key, value in (facts | changes).items() if value is not None}


def test_a_database_is_read_with_everything_that_is_needed(rds_reader, fleet, failures):
    add(
        fleet,
        storage_type="gp3",
        allocated_gib=400,
        engine="oracle-ee",
        instance_class="db.r5.2xlarge",
        multi_az=True,
        replica_of="main",
        cluster_id="c-1",
        tags={"burstwatch:mode": "observe"},
    )
    [database] = rds_reader.databases(report_failure=failures)
    assert (database.identifier, database.engine) == ("orders", "oracle-ee")
    assert database.dbi_resource_id.startswith("db-")
    assert (database.storage_type, database.allocated_gib) == ("gp3", 400)
    assert (database.provisioned_iops, database.storage_throughput_mib_s) == (12_000, 500)
    assert (database.multi_az, database.replica_of, database.cluster_id) == (True, "main", "c-1")
    assert (database.ec2_type, database.status) == ("r5.2xlarge", "available")
    assert database.created_at == START - timedelta(days=30)
    assert database.tags == {"burstwatch:mode": "observe"}
    assert not failures


def test_a_throughput_of_zero_is_one_that_aws_does_not_state(rds_reader, lab, fleet, failures):
    add(fleet, storage_type="io1", iops=5_000, allocated_gib=400)
    [described] = lab.client("rds").describe_db_instances()["DBInstances"]
    assert described["StorageThroughput"] == 0
    [database] = rds_reader.databases(report_failure=failures)
    assert (database.provisioned_iops, database.storage_throughput_mib_s) == (5_000, None)


@pytest.mark.parametrize(
    "volumes",
    [
        {"DedicatedLogVolume": True},
        {"AdditionalStorageVolumes": [{"VolumeName": "rdsdbdata2", "IOPS": 64_000}]},
    ],
)
def test_volumes_beside_the_storage_are_noticed(volumes):
    assert parse_database(a_description(**volumes)).has_other_volumes
    assert not parse_database(a_description(DedicatedLogVolume=False)).has_other_volumes


def test_a_storage_operation_in_progress_is_read(rds_reader, rds, fleet, failures):
    add(fleet)
    rds.modify_db_instance(DBInstanceIdentifier="orders", StorageType="gp3", ApplyImmediately=True)
    fleet.clock.advance(1_000)
    [database] = rds_reader.databases(report_failure=failures)
    assert (database.status, database.storage_operation) == ("storage-optimization", "Optimizing")
    assert 0 < database.storage_operation_pct < 100


def test_all_pages_are_read(rds_reader, lab, fleet, failures):
    names = [add(fleet, f"db-{number}") for number in range(205)]
    pages = []
    read = rds_reader.databases(report_failure=failures, on_page=lambda: pages.append(1))
    assert [database.identifier for database in read] == names
    assert len(pages) == lab.faults.call_counts()["DescribeDBInstances"] == 3


def test_many_are_found_by_name_in_batches_and_the_others_are_missing(rds_reader, lab, fleet):
    names = [add(fleet, f"db-{number}") for number in range(120)]
    result = rds_reader.databases_by_name([*names, "gone", "gone"])
    assert [database.identifier for database in result.databases] == names
    assert result.missing == ["gone"]
    assert lab.faults.call_counts()["DescribeDBInstances"] == 2


def test_a_renamed_database_is_found_by_the_id_that_it_keeps(rds_reader, rds, fleet, failures):
    add(fleet)
    [before] = rds_reader.databases(report_failure=failures)
    rds.modify_db_instance(
        DBInstanceIdentifier="orders", NewDBInstanceIdentifier="orders-old", ApplyImmediately=True
    )
    assert rds_reader.databases_by_name(["orders"]).missing == ["orders"]
    [renamed] = rds_reader.databases_by_resource_id([before.dbi_resource_id]).databases
    assert renamed.identifier == "orders-old"


def test_denied_access_is_one_failure(rds_reader, lab, fleet, failures):
    add(fleet)
    message = "User: arn:aws:iam::1:user/x is not authorized to perform: rds:DescribeDBInstances"
    lab.faults.add(Fault(service="rds", code="AccessDenied", message=message, status=403))
    with pytest.raises(AwsError) as raised:
        list(rds_reader.databases(report_failure=failures))
    assert raised.value.failure.kind == FailureKind.REFUSED
    assert "grant rds:DescribeDBInstances to it" in str(raised.value)
    assert rds_reader.databases_by_name(["orders"]).unread.keys() == {"orders"}
    with pytest.raises(AwsError):
        rds_reader.storage_options("orders")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"AllocatedStorage": None}, "AWS's answer has no 'AllocatedStorage'"),
        ({"AllocatedStorage": -5}, "its AllocatedStorage is -5"),
        ({"StorageType": ""}, "its StorageType is ''"),
        ({"DbiResourceId": None}, "AWS's answer has no 'DbiResourceId'"),
    ],
)
def test_one_that_cannot_be_read_hides_no_other(changes, reason, failures):
    reader = RdsReader(FakeRds(a_description("bad", **changes), a_description("good")))
    [good] = reader.databases(report_failure=failures)
    assert good.identifier == "good"
    assert (failures["bad"].code, failures["bad"].message) == ("UnreadableDatabase", reason)
    assert "aws rds describe-db-instances" in failures["bad"].next_step


def test_one_that_cannot_be_read_is_unread_and_not_missing():
    reader = RdsReader(FakeRds(a_description("bad", Engine=None)))
    by_name, by_id = reader.databases_by_name(["bad"]), reader.databases_by_resource_id(["db-BAD"])
    assert (list(by_name.unread), by_name.missing) == (["bad"], [])
    assert (list(by_id.unread), by_id.missing) == (["db-BAD"], [])


@pytest.mark.parametrize("number", [0, -1, None])
def test_numbers_that_do_not_apply_are_not_limits_of_0(number, failures):
    # AWS sends a StorageThroughput of 0 for every type but gp3
    numbers = dict.fromkeys(("Iops", "StorageThroughput", "MaxAllocatedStorage"), number)
    [database] = RdsReader(FakeRds(a_description(StorageType="io1", **numbers))).databases(
        report_failure=failures
    )
    assert database.provisioned_iops is None
    assert database.storage_throughput_mib_s is None
    assert database.max_allocated_gib is None


def test_the_storage_options_have_their_ranges(rds_reader, fleet):
    add(fleet, "small")
    add(fleet, "large", allocated_gib=400)
    small, large = (
        {option.storage_type: option for option in rds_reader.storage_options(name)}["gp3"]
        for name in ("small", "large")
    )
    assert small.iops == small.throughput_mib_s == ()
    assert large.iops == (ValueRange(lowest=12_000, highest=64_000),)
    assert large.throughput_mib_s == (ValueRange(lowest=500, highest=4_000),)
    assert large.size_gib == (ValueRange(lowest=400, highest=65_536),)


def test_an_option_that_makes_no_sense_is_left_out():
    storage = [
        {
            "StorageType": "gp3",
            "ProvisionedIops": [{"From": 5, "To": 1}, {"From": 1}, "x", {"From": 1, "To": 9, "Step": 2}],
            "ProvisionedStorageThroughput": [{"From": 0, "To": 0, "Step": 1}],
        },
        {"StorageSize": []},
        7,
    ]
    reader = RdsReader(FakeRds(options={"ValidDBInstanceModificationsMessage": {"Storage": storage}}))
    [option] = reader.storage_options("orders")
    assert option.iops == (ValueRange(lowest=1, highest=9, step=2),)
    assert option.throughput_mib_s == ()
    with pytest.raises(AwsError, match="no ValidDBInstanceModificationsMessage"):
        RdsReader(FakeRds(options={})).storage_options("orders")


@pytest.mark.parametrize("gib", [100, 400])
def test_the_command_that_is_recommended_is_one_that_aws_accepts(rds_reader, rds, fleet, failures, gib):
    add(fleet, allocated_gib=gib)
    [database] = rds_reader.databases(report_failure=failures)
    change = recommend_storage(database, StorageLoad(), rds_reader.storage_options("orders"))
    numbers = {"Iops": change.iops, "StorageThroughput": change.throughput_mib_s}
    rds.modify_db_instance(
        DBInstanceIdentifier="orders",
        StorageType="gp3",
        ApplyImmediately=True,
        **{key: value for key, value in numbers.items() if value is not None},
    )
    fleet.clock.advance(100)
    [changed] = rds_reader.databases(report_failure=failures)
    assert changed.storage_type == "gp3"
    assert recommend_storage(changed, StorageLoad(), None).reason.startswith("its storage is gp3")
