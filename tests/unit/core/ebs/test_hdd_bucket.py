import pytest

from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, hdd_bucket
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.ebs.volume_ceiling import ceiling_of
from support.builders.core_values import a_volume

TIB = 1_024


# AWS's own table: baseline and burst in MiB/s by size. Below 1 TiB it is on the same lines.
@pytest.mark.parametrize(
    ("volume_type", "size_gib", "baseline", "burst"),
    [
        ("st1", 128, 5, 31.25),
        ("st1", TIB, 40, 250),
        ("st1", 2 * TIB, 80, 500),
        ("st1", 3 * TIB, 120, 500),
        ("st1", 12_800, 500, 500),
        ("st1", 16 * TIB, 500, 500),
        ("sc1", 128, 1.5, 10),
        ("sc1", TIB, 12, 80),
        ("sc1", 3_200, 37.5, 250),
        ("sc1", 16 * TIB, 192, 250),
    ],
)
def test_the_rates_are_those_of_the_table_of_aws(volume_type, size_gib, baseline, burst):
    bucket = hdd_bucket(volume_type, size_gib)
    assert (bucket.refill_per_s, bucket.burst_per_s) == pytest.approx((baseline, burst))
    assert bucket.capacity == size_gib * 1_024


# A full bucket of 1 TiB holds 1,048,576 MiB: / (250 - 40) = 4,993 s, / (80 - 12) = 15,420 s.
@pytest.mark.parametrize(
    ("volume_type", "size_gib", "seconds"),
    [
        ("st1", 500, 4_993),
        ("st1", 2 * TIB, 4_993),
        ("st1", 4 * TIB, 12_336),
        ("st1", 8 * TIB, 46_603),
        ("sc1", TIB, 15_420),
        ("sc1", 8 * TIB, 54_472),
    ],
)
def test_a_full_bucket_lasts_as_long_as_a_full_scan_at_full_burst(volume_type, size_gib, seconds):
    bucket = hdd_bucket(volume_type, size_gib)
    assert bucket.capacity / bucket.highest_drain_per_s == pytest.approx(seconds, abs=1)


@pytest.mark.parametrize(("volume_type", "seconds"), [("st1", 26_214), ("sc1", 87_381)])
def test_an_idle_volume_refills_in_the_same_time_at_any_size(volume_type, seconds):
    for size_gib in (125, TIB, 8 * TIB):
        assert round(hdd_bucket(volume_type, size_gib).refill_time_s()) == seconds


@pytest.mark.parametrize("size_gib", [12_800, 16 * TIB])
def test_an_st1_of_12_and_a_half_tib_never_drains(size_gib):
    assert hdd_bucket("st1", size_gib).highest_drain_per_s == 0


@pytest.mark.parametrize(("size_gib", "is_inferred"), [(125, True), (1_023, True), (TIB, False)])
def test_below_a_tib_the_capacity_is_inferred(size_gib, is_inferred):
    assert hdd_bucket("st1", size_gib).is_inferred is is_inferred


def test_each_type_of_volume_has_its_bucket():
    st1, gp3 = a_volume(TIB, volume_type="st1"), a_volume(volume_type="gp3")
    assert (bucket_kind_of(st1), bucket_of(st1)) == (EBS_THROUGHPUT, hdd_bucket("st1", TIB))
    assert bucket_of(st1, 512) == hdd_bucket("st1", 512)
    # a gp3 has none; it may return to gp2
    assert (bucket_kind_of(gp3), bucket_of(gp3)) == (EBS_IO, bucket_of(a_volume()))


@pytest.mark.parametrize(
    ("facts", "iops", "mib_s"),
    [
        ({"volume_type": "gp2", "size_gib": 100}, 3_000, 128),
        ({"volume_type": "gp2", "size_gib": 2_000}, 6_000, 250),
        ({"volume_type": "gp3", "provisioned_iops": 3_000, "throughput_mib_s": 125}, 3_000, 125),
        ({"volume_type": "io1", "provisioned_iops": 2_000}, 2_000, 500),
        ({"volume_type": "io2", "provisioned_iops": 4_000}, 4_000, 1_024),
        ({"volume_type": "st1", "size_gib": 2 * TIB}, 500, 500),
        ({"volume_type": "sc1", "size_gib": TIB}, 250, 80),
    ],
)
def test_the_ceiling_of_a_volume_is_what_it_serves_at_best(facts, iops, mib_s):
    ceiling = ceiling_of(a_volume(**facts))
    assert (ceiling.iops, ceiling.mib_s) == (iops, mib_s)


@pytest.mark.parametrize(
    "facts",
    [
        {"volume_type": "standard"},
        {"volume_type": "gp9"},
        {"volume_type": "io2"},
        {"volume_type": "gp3", "provisioned_iops": 3_000},
    ],
)
def test_a_volume_of_unknown_limits_has_no_ceiling(facts):
    assert ceiling_of(a_volume(**facts)) is None
