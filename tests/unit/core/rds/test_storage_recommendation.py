import pytest

from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.rds.storage_options import StorageOption, ValueRange, nearest_allowed
from burstwatch.core.rds.storage_recommendation import (
    NoStorageChange,
    StorageLoad,
    recommend_storage,
    storage_usd_per_month,
)
from support.builders.storage import GIB, a_database

GP3 = StorageOption(
    storage_type="gp3",
    size_gib=(ValueRange(lowest=20, highest=65_536),),
    iops=(ValueRange(lowest=12_000, highest=64_000),),
    throughput_mib_s=(ValueRange(lowest=500, highest=4_000),),
)
OFFERED = (StorageOption(storage_type="gp2"), GP3)
M5_LARGE = InstanceLimits(
    baseline_iops=3_600, max_iops=18_750, baseline_throughput_mib_s=77.5, max_throughput_mib_s=566.2
)


def recommend(
    gib=100, options=OFFERED, limits=None, peak_mib_s=None, free=None, loss=None, measured=None, **changes
):
    load = StorageLoad(peak_mib_s=peak_mib_s, free_bytes=free, free_loss_per_day=loss, **(measured or {}))
    return recommend_storage(a_database(gib, **changes), load, options, limits=limits)


def caution(result, part):
    [match] = [text for text in result.cautions if part in text]
    return match


def test_below_400_gib_iops_and_throughput_are_omitted():
    change = recommend(100, peak_mib_s=60)
    assert (change.iops, change.throughput_mib_s, change.grow_to_gib) == (None, None, None)
    assert change.command == (
        "aws rds modify-db-instance --db-instance-identifier orders --storage-type gp3 --apply-immediately"
    )
    assert change.definition.terraform == (
        'resource "aws_db_instance" "orders" {\n  storage_type      = "gp3"\n  apply_immediately = true\n}'
    )
    assert change.definition.cloudformation == (
        "Orders:\n  Type: AWS::RDS::DBInstance\n  Properties:\n    StorageType: gp3"
    )
    assert "storage_type=rds.StorageType.GP3," in change.definition.cdk
    assert change.reasons[1] == (
        "Below 400 GiB the numbers of gp3 are fixed: AWS refuses a request with IOPS or throughput."
    )


def test_it_costs_the_same_and_twice_with_multi_az():
    change = recommend(100)
    assert change.before_usd_per_month == change.after_usd_per_month == pytest.approx(11.5)
    assert storage_usd_per_month(a_database(multi_az=True), 100) == pytest.approx(23.0)


def test_from_400_gib_both_numbers_are_sent():
    change = recommend(400, peak_mib_s=200)
    assert (change.iops, change.throughput_mib_s) == (12_000, 500)
    assert "--storage-type gp3 --iops 12000 --storage-throughput 500 --apply" in change.command
    assert "Iops: 12000\n    StorageThroughput: 500" in change.definition.cloudformation
    assert caution(change, "falls") == (
        "The highest throughput falls from 512 to 500 MiB/s; the highest that was measured is 200,"
        " which fits."
    )


def test_from_171_to_399_gib_the_throughput_is_halved():
    assert caution(recommend(200, peak_mib_s=60), "falls") == (
        "The highest throughput falls from 250 to 125 MiB/s; the highest that was measured is 60, which fits."
    )
    assert caution(recommend(200), "falls") == (
        "The highest throughput falls from 250 to 125 MiB/s: compare with the highest ReadThroughput +"
        " WriteThroughput first (not measured)."
    )


def test_what_was_measured_without_credits_is_not_what_was_wanted():
    change = recommend(250, peak_mib_s=94, measured={"was_throttled": True})
    assert caution(change, "falls") == (
        "The highest throughput falls from 250 to 125 MiB/s. 94 MiB/s were measured, but it was without"
        " credits at some time of the day, so more may have been wanted."
    )


def test_a_throughput_that_would_not_fit_needs_400_gib():
    change = recommend(200, peak_mib_s=180)
    assert (change.grow_to_gib, change.iops, change.throughput_mib_s) == (400, 12_000, 500)
    assert "--allocated-storage 400 --iops 12000 --storage-throughput 500" in change.command
    assert change.reasons[1] == (
        "180 MiB/s were measured, and gp3 of 200 GiB is fixed at 125: from 400 GiB on it has 500."
    )
    # 200 GiB x $0.115
    assert caution(change, "Growing") == (
        "Growing to 400 GiB costs $23.00 a month more, cannot be undone, and copies everything to four"
        " volumes, which takes hours of I/O."
    )
    assert change.after_usd_per_month == pytest.approx(46.0)


def test_growth_is_at_least_a_tenth():
    assert recommend(390, peak_mib_s=180).grow_to_gib == 429


def test_oracle_is_striped_from_200_gib_on():
    assert recommend(180, engine="oracle-ee", peak_mib_s=180).grow_to_gib == 200
    assert recommend(200, engine="oracle-ee").iops == 12_000


def test_128_mib_s_becoming_125_is_no_reason_to_buy_more_storage():
    change = recommend(100, peak_mib_s=127)
    assert change.grow_to_gib is None
    assert (
        caution(change, "falls")
        == "The highest throughput falls from 128 to 125 MiB/s, and 127 MiB/s were measured."
    )


def test_a_higher_throughput_is_bought_with_headroom_if_it_was_measured():
    # 600 x 1.25 = 750, within what gp2 has at best
    change = recommend(1_000, peak_mib_s=600)
    assert change.throughput_mib_s == 750
    assert change.price == (
        "at least $115.00 a month instead of $115.00 (us-east-1 list prices): burstwatch does not know the"
        " price of 250 MiB/s above the included 500"
    )
    assert caution(change, "bills") == (
        "AWS bills 250 MiB/s above the included 500: see https://aws.amazon.com/rds/pricing/ for the price."
    )
    assert recommend(1_000, peak_mib_s=900).throughput_mib_s == 1_000


def test_sql_server_may_buy_throughput_at_any_size():
    change = recommend(
        200, engine="sqlserver-se", peak_mib_s=180, options=(StorageOption(storage_type="gp3"),)
    )
    assert (change.iops, change.throughput_mib_s, change.grow_to_gib) == (3_000, 225, None)


def test_what_aws_allows_comes_before_our_numbers():
    narrow = StorageOption(
        storage_type="gp3",
        iops=(ValueRange(lowest=16_000, highest=64_000),),
        throughput_mib_s=(ValueRange(lowest=600, highest=4_000, step=100),),
    )
    change = recommend(1_000, options=(narrow,), peak_mib_s=500)
    assert (change.iops, change.throughput_mib_s) == (16_000, 700)


def test_unread_options_are_a_caution():
    assert "was not read" in caution(recommend(options=None), "What AWS allows")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"storage_type": "gp3"}, "its storage is gp3, which has no burst credits"),
        ({"options": (StorageOption(storage_type="io1"),)}, "AWS does not offer gp3 for it, only io1"),
        (
            {"status": "storage-optimization", "storage_operation_pct": 40},
            "its previous storage change is not finished (40 % of it is done),"
            " and AWS refuses another before",
        ),
        (
            {"storage_operation": "Optimizing"},
            "its previous storage change is not finished, and AWS refuses another before",
        ),
        ({"status": "stopped"}, "its status is stopped, and AWS modifies available instances only"),
    ],
)
def test_there_is_a_reason_if_nothing_can_be_recommended(changes, reason):
    result = recommend(**changes)
    assert isinstance(result, NoStorageChange)
    assert result.reason == reason
    assert result.next_step


def test_the_hours_of_optimization_are_always_named():
    assert "storage-optimization for hours, typically less than 24" in recommend().cautions[0]


def test_free_storage_that_runs_out_during_the_optimization_is_a_warning():
    assert caution(recommend(free=10 * GIB, loss=20 * GIB), "GiB are free") == (
        "10 GiB are free, which last about 12 h at yesterday's rate. Add storage in the same command, because"
        " AWS refuses it until the optimization ends."
    )


def test_storage_that_the_command_adds_is_not_advised_again():
    change = recommend(300, peak_mib_s=180, free=5 * GIB)
    assert caution(change, "GiB are free") == (
        "5 GiB are free, less than a tenth. The command adds 100 GiB; AWS refuses more until the optimization"
        " ends."
    )


def test_little_free_storage_is_a_warning_at_any_rate():
    assert "9 GiB are free, less than a tenth." in caution(recommend(free=9 * GIB), "free")
    for loss in (-1.0, 20.0 * GIB):  # 50 GiB last two and a half days
        assert not any("are free" in text for text in recommend(free=50 * GIB, loss=loss).cautions)


def test_the_class_may_be_the_tightest_bucket_afterwards():
    # 12,000 + 3,000 IOPS less 3,600: 27,270,000 operations last 40 min
    # 500 + 128 MiB/s is above the maximum, at which a full bucket lasts 30 min
    change = recommend(400, limits=M5_LARGE)
    assert change.tightest_bucket == (
        "EBSByteBalance% of db.m5.large: it sustains 78 MiB/s, and a full bucket lasts 30 min at least."
    )
    assert recommend(400).tightest_bucket == "Not known: the EBS limits of db.m5.large were not read."
    strong = InstanceLimits(
        baseline_iops=40_000, max_iops=40_000, baseline_throughput_mib_s=1_250, max_throughput_mib_s=1_250
    )
    assert recommend(400, limits=strong, instance_class="db.m5.8xlarge").tightest_bucket == (
        "None: db.m5.8xlarge has no EBS bucket that this storage can drain."
    )


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        # 400 GiB: 15,000 IOPS less 3,600 take 27,270,000 in 40 min, of which 7 % last 2 min 47 s
        (
            {"class_io_pct": 7.0, "class_byte_pct": 50.0},
            "EBSIOBalance% of db.m5.large: it sustains 3,600 IOPS, and the 7 % that are left now last 3 min"
            " at full load.",
        ),
        (
            {"class_io_pct": 0.0, "class_byte_pct": 50.0},
            "EBSIOBalance% of db.m5.large: it sustains 3,600 IOPS, and the bucket is empty already.",
        ),
    ],
)
def test_the_tightest_bucket_is_found_by_the_present_balances_of_the_class(measured, sentence):
    assert recommend(400, limits=M5_LARGE, measured=measured).tightest_bucket == sentence


def test_a_read_replica_names_its_source():
    assert "orders-main" in caution(recommend(replica_of="orders-main"), "read replica")


@pytest.mark.parametrize("values", [{"peak_mib_s": -1.0}, {"free_bytes": float("nan")}])
def test_a_measurement_that_cannot_be_is_refused(values):
    with pytest.raises(ValueError, match="cannot be"):
        StorageLoad(**values)


def test_the_nearest_allowed_number_is_no_smaller_if_one_is():
    ranges = (ValueRange(lowest=500, highest=4_000, step=100),)
    assert nearest_allowed(ranges, 625) == 700
    assert nearest_allowed(ranges, 100) == 500
    assert nearest_allowed(ranges, 9_000) == 4_000
    assert nearest_allowed((), 625) == 625
