from dataclasses import replace

import pytest

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.resource_buckets import why_not_polled
from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.rds.rds_buckets import (
    RDS_CLASS_IO,
    RDS_CLASS_THROUGHPUT,
    class_buckets,
    describe_class_limit,
    describe_cpu_credits,
    describe_rds_outlook,
    gp2_baseline_iops,
    gp2_storage_mib_s,
    no_class_bucket_reason,
    no_storage_bucket_reason,
    not_running_reason,
    storage_bucket,
)
from support.builders.storage import a_database

MIB_PER_MB = 1_000_000 / 1_048_576
M5_LARGE = InstanceLimits(
    baseline_iops=3_600,
    max_iops=18_750,
    baseline_throughput_mib_s=81.25 * MIB_PER_MB,
    max_throughput_mib_s=593.75 * MIB_PER_MB,
)

# GiB, seconds that a full bucket lasts at full burst, hours of idle refill
ROWS = [(20, 1_862, 15), (100, 2_000, 5), (399, 2_995, 1.25), (400, 2_000, 5), (1_000, 2_400, 2)]
ROWS += [(2_000, 3_600, 1), (3_000, 7_200, 0.67)]


@pytest.mark.parametrize(("gib", "lasts_s", "refill_h"), ROWS)
def test_the_size_decides_how_long_a_full_bucket_lasts_and_refills(gib, lasts_s, refill_h):
    bucket = storage_bucket(a_database(gib))
    assert bucket.capacity / bucket.highest_drain_per_s == pytest.approx(lasts_s, abs=1)
    assert bucket.capacity / bucket.refill_per_s / 3_600 == pytest.approx(refill_h, rel=0.01)


@pytest.mark.parametrize(
    ("engine", "gib", "volumes"),
    [
        ("postgres", 399, 1),
        ("mysql", 400, 4),
        ("mariadb", 400, 4),
        ("oracle-ee", 199, 1),
        ("oracle-se2", 200, 4),
        ("custom-oracle-ee", 200, 4),
        ("sqlserver-se", 2_000, 1),
    ],
)
def test_engine_and_size_decide_over_how_many_volumes_the_storage_is_striped(engine, gib, volumes):
    database = a_database(gib, engine=engine)
    assert database.volume_count == volumes
    assert storage_bucket(a_database(gib, engine=engine, storage_type="gp2")) is None or (
        storage_bucket(database).capacity == volumes * 5_400_000
    )


@pytest.mark.parametrize(
    ("gib", "baseline"), [(20, 100), (33, 100), (34, 102), (399, 1_197), (30_000, 64_000)]
)
def test_the_baseline_has_a_floor_and_a_ceiling(gib, baseline):
    assert gp2_baseline_iops(a_database(gib)) == baseline


def test_sql_server_has_one_volume_and_the_ceiling_of_one():
    assert gp2_baseline_iops(a_database(16_000, engine="sqlserver-ee")) == 16_000


@pytest.mark.parametrize(
    ("gib", "mib_s"), [(170, 128), (171, 250), (399, 250), (400, 512), (683, 512), (684, 1_000)]
)
def test_the_throughput_is_that_of_the_volumes_together(gib, mib_s):
    assert gp2_storage_mib_s(a_database(gib)) == mib_s


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"engine": "aurora-postgresql", "storage_type": "aurora"},
            "it is Aurora, whose storage has no burst credits",
        ),
        (
            {"cluster_id": "orders-cluster", "storage_type": "io1"},
            "it is a member of the cluster orders-cluster, and the storage of Multi-AZ clusters has"
            " no burst credits",
        ),
        ({"storage_type": "gp3"}, "its storage is gp3, which has no burst credits"),
        ({"storage_type": "io1"}, "its storage is io1, which has no burst credits"),
        (
            {"gib": 4_000},
            "4,000 GiB of gp2 sustain 12,000 IOPS, no less than the burst of 12,000",
        ),
        (
            {"gib": 1_000, "engine": "sqlserver-web"},
            "1,000 GiB of gp2 sustain 3,000 IOPS, no less than the burst of 3,000",
        ),
    ],
)
def test_a_database_without_a_bucket_has_a_reason(changes, reason):
    database = a_database(**changes)
    assert no_storage_bucket_reason(database) == reason
    assert storage_bucket(database) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("available", None),
        ("modifying", None),
        ("storage-full", None),
        ("incompatible-parameters", None),
        ("creating", "it is being created, so it has no metrics yet"),
        ("starting", "it is being started, so it has no metrics yet"),
        ("stopping", "it is being stopped, so it has no metrics"),
        ("stopped", "it is stopped, so it has no metrics"),
        ("deleting", "it is being deleted, so it has no metrics"),
        # no one wants these, so a missing balance is a gap
        ("failed", None),
        ("inaccessible-encryption-credentials-recoverable", None),
    ],
)
def test_a_database_that_does_not_run_has_no_metrics(status, reason):
    assert not_running_reason(a_database(status=status)) == reason


def test_small_gp2_storage_and_the_root_volume_drain_the_class_slowly():
    # 3,000 + 3,000 IOPS less 3,600: 27,270,000 operations last 11,362 s
    io, throughput = class_buckets(a_database(20), M5_LARGE)
    assert io.capacity == 27_270_000
    assert io.capacity / io.highest_drain_per_s == pytest.approx(11_362, abs=1)
    # 128 + 128 MiB/s less 77.5
    assert throughput.highest_drain_per_s == pytest.approx(256 - 77.5, abs=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"storage_type": "aurora", "engine": "aurora-mysql"},
        {
            "storage_type": "gp3",
            "provisioned_iops": 3_000,
            "storage_throughput_mib_s": 125,
            "has_other_volumes": True,
        },
        {"storage_type": "gp2", "has_other_volumes": True},
    ],
)
def test_storage_of_unknown_speed_leaves_the_maximum_of_the_class(changes):
    io, throughput = class_buckets(a_database(**changes), M5_LARGE)
    assert io.capacity / io.highest_drain_per_s == pytest.approx(1_800)
    assert throughput.capacity / throughput.highest_drain_per_s == pytest.approx(1_800)


@pytest.mark.parametrize(
    ("instance_class", "ec2_type"),
    [
        ("db.m5.large", "m5.large"),
        ("db.t4g.micro", "t4g.micro"),
        ("db.x2iedn.24xlarge", "x2iedn.24xlarge"),
        ("db.serverless", None),
        ("db.r5.large.tpc1.mem2x", None),
    ],
)
def test_the_name_of_a_class_shows_the_ec2_type_behind_it(instance_class, ec2_type):
    assert a_database(instance_class=instance_class).ec2_type == ec2_type


def test_a_class_without_known_limits_has_a_reason():
    assert no_class_bucket_reason(a_database(instance_class="db.serverless"), None) == (
        "the EC2 type behind db.serverless is not known"
    )
    assert no_class_bucket_reason(a_database(instance_class="db.m1.small"), None) == (
        "EC2 describes no limits of m1.small, the type behind db.m1.small"
    )
    large = InstanceLimits(
        baseline_iops=18_750, max_iops=18_750, baseline_throughput_mib_s=566.0, max_throughput_mib_s=566.0
    )
    assert no_class_bucket_reason(a_database(instance_class="db.m5.4xlarge"), large) == (
        "db.m5.4xlarge sustains its maximum, so it has no burst credits"
    )
    assert no_class_bucket_reason(a_database(), M5_LARGE) is None


def test_the_limit_of_a_class_is_written_in_full():
    limits = InstanceLimits(
        baseline_iops=12_000, max_iops=18_750, baseline_throughput_mib_s=274.2, max_throughput_mib_s=566.0
    )
    database = a_database(1_000, instance_class="db.m5.2xlarge", limits=limits)
    assert describe_class_limit(database, RDS_CLASS_IO) == (
        "its storage and root volume serve 15,000 IOPS at most, more than the 12,000 IOPS that db.m5.2xlarge"
        " sustains"
    )


M5_2XLARGE = InstanceLimits(
    baseline_iops=12_000, max_iops=18_750, baseline_throughput_mib_s=274.2, max_throughput_mib_s=566.2
)


def test_a_class_with_other_volumes_is_not_proved_to_keep_its_credits():
    storage = {"storage_type": "gp3", "provisioned_iops": 3_000, "storage_throughput_mib_s": 125}
    alone = a_database(instance_class="db.m5.2xlarge", limits=M5_2XLARGE, **storage)
    database = replace(alone, has_other_volumes=True)
    for kind in (RDS_CLASS_IO, RDS_CLASS_THROUGHPUT):
        assert why_not_polled(alone, kind).reason is UnknownReason.NEVER_EMPTY
        assert why_not_polled(database, kind) is None
    assert describe_class_limit(database, RDS_CLASS_IO) == (
        "it also has a dedicated log volume or additional storage volumes, whose limits are not taken into"
        " account: its load may be all of the 18,750 IOPS that db.m5.2xlarge serves at most"
    )


@pytest.mark.parametrize("has_other_volumes", [False, True])
def test_a_class_that_sustains_its_maximum_of_one_limit_keeps_those_credits(has_other_volumes):
    database = a_database(
        20_000,
        instance_class="db.m5.2xlarge",
        limits=replace(M5_2XLARGE, baseline_iops=18_750),
        has_other_volumes=has_other_volumes,
    )
    assert why_not_polled(database, RDS_CLASS_IO) == (
        UnknownReason.NEVER_EMPTY,
        "db.m5.2xlarge sustains its maximum of 18,750 IOPS, so its credits are never used",
    )


def test_the_outlook_is_in_iops_and_idle_hours():
    forecast = Forecast(is_draining=True, drain_per_s=100, time_to_empty_s=2_400, soonest_empty_s=2_000)
    text = describe_rds_outlook(a_database(), forecast)
    assert text == "empty in about 40 min, not before 33 min; then 300 IOPS; five idle hours to refill"


def test_empty_cpu_credits_are_named_and_only_for_t_classes():
    small = a_database(instance_class="db.t3.micro")
    assert describe_cpu_credits(small, 0.0).startswith(
        "Its CPU credits are empty (CPUCreditBalance): db.t3.micro"
    )
    assert describe_cpu_credits(small, 5.0) is None
    assert describe_cpu_credits(small, None) is None
    assert describe_cpu_credits(a_database(), 0.0) is None


def test_a_size_below_zero_is_refused():
    with pytest.raises(ValueError, match="allocated_gib is -1"):
        a_database(-1)
