import pytest

from burstwatch.core.buckets.units import GIB, MIB, TIB
from burstwatch.core.efs.efs_bucket import (
    baseline_per_s,
    efs_bucket,
    idle_refill_s,
    limit_when_empty_per_s,
    metered,
    no_bucket_reason,
)
from support.builders.storage import a_file_system

# size in GiB, hours of full burst, days of idle refill: the facts that AWS's numbers yield
ROWS = [(1, 6.1, 522), (20, 6.2, 26), (58, 6.3, 9), (100, 6.4, 5.2), (512, 8.2, 1.0), (1_024, 12.2, 0.5)]


@pytest.mark.parametrize(("gib", "burst_h", "refill_d"), ROWS)
def test_the_size_decides_how_long_a_full_bucket_lasts_and_refills(gib, burst_h, refill_d):
    bucket = efs_bucket(gib * GIB)
    assert bucket.capacity / bucket.highest_drain_per_s / 3_600 == pytest.approx(burst_h, abs=0.1)
    assert idle_refill_s(bucket) / 86_400 == pytest.approx(refill_d, rel=0.05)


def test_a_full_small_file_system_shows_the_number_of_bytes_that_users_see():
    assert round(efs_bucket(58 * GIB).capacity) == 2_308_974_418_330


def test_below_a_tebibyte_capacity_and_burst_are_those_of_a_tebibyte():
    assert efs_bucket(TIB // 2).capacity == efs_bucket(TIB).capacity
    assert efs_bucket(TIB // 2).burst_per_s == efs_bucket(TIB).burst_per_s == 100 * MIB


def test_above_a_tebibyte_capacity_and_burst_grow_with_the_size():
    bucket = efs_bucket(4 * TIB)
    assert bucket.capacity == pytest.approx(8.4 * TIB)
    assert (bucket.refill_per_s, bucket.burst_per_s) == (200 * MIB, 400 * MIB)


def test_58_gib_earn_2_8_mib_s():
    assert baseline_per_s(58 * GIB) == 58 * 50 * 1024 == 2_969_600


def test_the_floor_of_1_mib_s_is_a_limit_and_earns_nothing():
    assert limit_when_empty_per_s(1 * GIB) == MIB
    assert baseline_per_s(1 * GIB) == 51_200
    assert limit_when_empty_per_s(58 * GIB) == baseline_per_s(58 * GIB)


def test_an_empty_file_system_keeps_its_first_credits_and_earns_none():
    bucket = efs_bucket(0)
    assert bucket.capacity == 2.1 * TIB
    assert bucket.refill_per_s == 0
    assert idle_refill_s(bucket) is None


def test_reads_are_metered_at_one_third():
    assert metered(read=300, written=20) == pytest.approx(120)


def test_a_balance_is_a_share_of_the_capacity_and_never_more_than_all_of_it():
    bucket = efs_bucket(58 * GIB)
    assert bucket.pct_of(bucket.capacity / 4) == 25
    assert bucket.pct_of(bucket.capacity * 2) == 100


def test_other_throughput_modes_are_a_reason_and_not_a_fault():
    assert no_bucket_reason(a_file_system()) is None
    reason = no_bucket_reason(a_file_system(throughput_mode="elastic"))
    assert reason == "its throughput mode is elastic: only bursting mode depends on burst credits"


def test_a_size_below_zero_is_refused():
    with pytest.raises(ValueError, match="standard_bytes=-1"):
        a_file_system(standard_bytes=-1)


def test_the_name_is_the_tag():
    assert a_file_system().name == "shared-home"
    assert a_file_system(tags={}).name is None
