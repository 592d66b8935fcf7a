import pytest

from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.database import (
    CLASS_IO,
    CLASS_THROUGHPUT,
    STORAGE,
    DatabaseError,
    LabDatabase,
    StorageRequest,
)
from burstlab.model.fleet import LabFleet, LabSettings
from support.lab.lab_start import START

HOUR = 3_600


def a_fleet(**chosen):
    return LabFleet(LabClock.manual(START), LabSettings(**chosen))


def add(fleet, gib=100, identifier="orders", **changes):
    fleet.databases.add(LabDatabase(identifier=identifier, allocated_gib=gib, **changes))
    return lambda: fleet.databases.find(identifier)


def modify(database, *, immediately=True, **request):
    database().modify_storage(StorageRequest(**request), immediately=immediately)


def refusal(database, **request):
    with pytest.raises(AwsError) as raised:
        modify(database, **request)
    return raised.value


@pytest.mark.parametrize(
    ("gib", "load", "seconds", "baseline"),
    [
        (20, "steady:3000", 1_862, 100),
        (100, "steady:3000", 2_000, 300),
        (399, "steady:3000", 2_995, 1_197),
        (400, "steady:12000", 2_000, 1_200),
        (1_000, "steady:12000", 2_400, 3_000),
    ],
)
def test_striped_gp2_storage_lasts_as_long_as_its_volumes_together(gib, load, seconds, baseline):
    fleet = a_fleet()
    database = add(fleet, gib, load=load)
    fleet.clock.advance(seconds - 2)
    assert database().pools[STORAGE].credits > 0
    fleet.clock.advance(4)
    assert database().pools[STORAGE].credits == 0
    assert database().served_per_s == baseline


def test_oracle_is_striped_from_200_gib_and_sql_server_never():
    fleet = a_fleet()
    oracle = add(fleet, 200, engine="oracle-ee")
    sql_server = add(fleet, 500, "shop", engine="sqlserver-se")
    assert oracle().pools[STORAGE].capacity == 4 * 5_400_000
    assert sql_server().pools[STORAGE].capacity == 5_400_000


def test_other_storage_has_no_bucket_and_large_gp2_has_none():
    fleet = a_fleet()
    for number, changes in enumerate(
        ({"storage_type": "gp3"}, {"engine": "aurora-mysql", "storage_type": "aurora"})
    ):
        assert STORAGE not in add(fleet, 100, f"db-{number}", **changes)().pools
    assert STORAGE not in add(fleet, 4_000)().pools


def test_a_small_class_holds_the_storage_back_and_has_buckets_of_its_own():
    # db.t3.micro sustains 500 IOPS and bursts to 11,800, so its bucket has (11,800 - 500) x 1,800
    fleet = a_fleet()
    database = add(fleet, 900, instance_class="db.t3.micro", load="steady:2700")
    assert database().pools[CLASS_IO].capacity == 11_300 * 1_800
    fleet.clock.advance(60)
    assert database().pools[CLASS_IO].credits == pytest.approx(11_300 * 1_800 - 60 * 2_200)
    # 2,700 x 16 KiB are 42.2 MiB/s, 10.37 of them sustained
    assert database().pools[CLASS_THROUGHPUT].credits < database().pools[CLASS_THROUGHPUT].capacity
    fleet.databases.set_balance("orders", 0, CLASS_IO)
    fleet.clock.advance(1)
    assert database().served_per_s == 500


def test_a_class_that_sustains_its_maximum_has_only_the_limit():
    fleet = a_fleet()
    database = add(fleet, instance_class="db.m5.4xlarge")
    assert set(database().pools) == {STORAGE}


def test_gp3_serves_at_any_time_what_it_has():
    fleet = a_fleet()
    small, large = add(fleet, 100, storage_type="gp3", load="steady:20000"), None
    large = add(fleet, 400, "large", storage_type="gp3", load="steady:20000")
    fleet.clock.advance(10 * HOUR)
    assert small().served_per_s == 3_000
    assert large().served_per_s == 12_000
    assert (large().facts.provisioned_iops, large().facts.storage_throughput_mib_s) == (12_000, 500)


def test_a_change_to_gp3_is_modifying_then_optimizing_then_available():
    fleet = a_fleet(modifying_s=60, modify_minutes_per_tib=360)
    database = add(fleet, 100, load="steady:3000", balance_pct=0)
    modify(database, storage_type="gp3")
    assert database().status == "modifying"
    assert database().pending.storage_type == "gp3"
    assert database().facts.storage_type == "gp2"
    fleet.clock.advance(61)
    assert (database().status, database().facts.storage_type) == ("storage-optimization", "gp3")
    assert database().storage_operation == ("Optimizing", 0)
    assert database().served_per_s == 3_000
    # 100 of 1,024 GiB take 100/1,024 of six hours: 2,109 s
    fleet.clock.advance(1_500)
    assert database().storage_operation == ("Optimizing", 71)
    fleet.clock.advance(700)
    assert database().status == "available"
    assert database().storage_operation == (None, None)


def test_a_change_during_the_optimization_is_refused_in_the_words_of_aws():
    fleet = a_fleet()
    database = add(fleet)
    modify(database, storage_type="gp3")
    fleet.clock.advance(120)
    error = refusal(database, storage_type="gp2")
    assert error.code == "InvalidParameterCombination"
    assert error.message.endswith("because the previous storage change is being optimized.")


def test_the_fifth_change_in_24_hours_is_refused_with_the_hours_to_wait():
    fleet = a_fleet(modify_minutes_per_tib=1)
    database = add(fleet)
    for storage_type in ("gp3", "gp2", "gp3", "gp2"):
        modify(database, storage_type=storage_type)
        fleet.clock.advance(HOUR)
    # the first was four hours ago
    assert refusal(database, storage_type="gp3").message == (
        "You can't currently modify the storage of this DB instance. Try again after approximately 20 hours."
    )


@pytest.mark.parametrize(
    ("gib", "request_", "message"),
    [
        (
            100,
            {"storage_type": "gp3", "iops": 3_000},
            "You can't specify IOPS or storage throughput for engine postgres and a storage size less than"
            " 400.",
        ),
        (
            400,
            {"storage_type": "gp3", "iops": 3_000},
            "Invalid IOPS 3000: must be between 12000 and 64000 for gp3.",
        ),
        (
            100,
            {"storage_type": "gp2", "iops": 3_000},
            "You can't specify IOPS or storage throughput for storage type gp2.",
        ),
        (100, {"allocated_gib": 50}, "Requested storage cannot be reduced."),
        (
            100,
            {"storage_type": "io1"},
            "You must specify both the storage size and iops when modifying the storage type.",
        ),
    ],
)
def test_requests_that_cannot_be_are_refused(gib, request_, message):
    assert refusal(add(a_fleet(), gib), **request_).message == message


def test_growth_is_at_least_a_tenth_and_may_cross_the_size_of_striping():
    fleet = a_fleet(modify_minutes_per_tib=1)
    database = add(fleet, 390)
    modify(database, storage_type="gp3", allocated_gib=400, iops=12_000, throughput_mib_s=500)
    fleet.clock.advance(10 * HOUR)
    assert database().facts.allocated_gib == 429
    assert database().facts.provisioned_iops == 12_000


def test_a_change_that_is_not_immediate_waits_for_a_maintenance_window():
    fleet = a_fleet()
    database = add(fleet)
    modify(database, storage_type="gp3", immediately=False)
    fleet.clock.advance(10 * HOUR)
    assert database().status == "available"
    assert database().pending.storage_type == "gp3"


def test_low_credits_are_announced_late_and_once_in_each_drain():
    # full burst empties 100 GiB in 2,000 s: 10 % are left after 1,800 s, and the event comes 900 s later
    fleet = a_fleet(rds_event_below_pct=10, rds_event_delay_s=900)
    add(fleet, 100, load="steady:3000")
    fleet.clock.advance(2_690)
    assert fleet.databases.low_credit_events() == []
    fleet.clock.advance(20)
    [event] = fleet.databases.low_credit_events()
    assert (event.at_s, event.identifier) == (pytest.approx(START.timestamp() + 2_700), "orders")
    fleet.databases.set_load("orders", "idle")
    fleet.clock.advance(6 * HOUR)  # it refills in five
    fleet.databases.set_load("orders", "steady:3000")
    fleet.clock.advance(HOUR)
    assert len(fleet.databases.low_credit_events()) == 2


def test_the_event_is_on_the_event_bus_after_those_of_volumes():
    fleet = a_fleet()
    add(fleet, 100, load="steady:3000")
    fleet.clock.advance(HOUR)
    [event] = fleet.events
    assert event.body["source"] == "aws.rds"
    assert event.body["detail-type"] == "RDS DB Instance Event"
    assert event.body["detail"]["EventID"] == "RDS-EVENT-0189"
    assert event.body["resources"] == ["arn:aws:rds:us-east-1:123456789012:db:orders"]
    assert fleet.events == [event]


def test_a_renamed_database_keeps_its_id_its_credits_and_its_drain():
    fleet = a_fleet()
    database = add(fleet, load="steady:3000")
    fleet.clock.advance(600)
    before = (database().resource_id, database().pools[STORAGE].credits)
    fleet.databases.rename("orders", "orders-old")
    renamed = fleet.databases.find("orders-old")
    assert (renamed.resource_id, renamed.pools[STORAGE].credits) == before
    with pytest.raises(DatabaseError, match="orders is not one of"):
        fleet.databases.find("orders")
    fleet.databases.add(LabDatabase(identifier="orders"))
    with pytest.raises(AwsError, match="DBInstanceAlreadyExists"):
        fleet.databases.rename("orders-old", "orders")


def test_a_stopped_database_serves_nothing():
    fleet = a_fleet()
    database = add(fleet, load="steady:3000", stopped=True)
    fleet.clock.advance(60)
    assert (database().status, database().served_per_s) == ("stopped", 0)
    assert refusal(database, storage_type="gp3").code == "InvalidDBInstanceState"
    fleet.databases.set_running("orders", running=True)
    fleet.clock.advance(60)
    assert (database().status, database().served_per_s) == ("available", 3_000)


def test_free_storage_falls_by_the_day():
    fleet = a_fleet()
    database = add(fleet, free_gib=20, free_loss_gib_per_day=24)
    fleet.clock.advance(10 * HOUR)
    assert database().free_bytes_at(fleet.now_s()) == pytest.approx(10 * 2**30)
    database().set_free(50, 0)
    fleet.clock.advance(10 * HOUR)
    assert database().free_bytes_at(fleet.now_s()) == 50 * 2**30


@pytest.mark.parametrize(
    "changes",
    [
        {"identifier": "Orders"},
        {"identifier": "a--b"},
        {"allocated_gib": 0},
        {"io_pct": -1},
        {"storage_type": "st1"},
        {"free_gib": -1},
    ],
)
def test_a_definition_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match="give"):
        LabDatabase(**{"identifier": "orders"} | changes)
