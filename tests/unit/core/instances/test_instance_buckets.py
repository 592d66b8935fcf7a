import pytest

from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.instances.instance_buckets import instance_io_bucket, instance_throughput_bucket

MIB_PER_MB = 1_000_000 / 1_048_576


def limits_of(baseline_iops: int, max_iops: int, baseline_mbit_s: int, max_mbit_s: int) -> InstanceLimits:
    return InstanceLimits(
        baseline_iops=baseline_iops,
        max_iops=max_iops,
        baseline_throughput_mib_s=baseline_mbit_s / 8 * MIB_PER_MB,
        max_throughput_mib_s=max_mbit_s / 8 * MIB_PER_MB,
    )


T4G_SMALL = limits_of(1_000, 11_800, 174, 2_085)
T3_MEDIUM = limits_of(2_000, 11_800, 347, 2_085)
M5_LARGE = limits_of(3_600, 18_750, 650, 4_750)


def hours_to_empty(bucket) -> float:
    return bucket.capacity / bucket.highest_drain_per_s / 3_600


def test_a_full_bucket_lasts_thirty_minutes_at_the_maximum_of_the_type():
    assert hours_to_empty(instance_io_bucket(M5_LARGE)) == pytest.approx(0.5)
    assert hours_to_empty(instance_throughput_bucket(M5_LARGE)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("limits", "io_h", "throughput_h"),
    [(T4G_SMALL, 2.7, 1.1), (T3_MEDIUM, 4.9, 1.2)],
    ids=["t4g.small", "t3.medium"],
)
def test_one_default_gp3_volume_cannot_drain_it_as_fast(limits, io_h, throughput_h):
    assert hours_to_empty(instance_io_bucket(limits, volumes_iops=3_000)) == pytest.approx(io_h, abs=0.05)
    bucket = instance_throughput_bucket(limits, volumes_mib_s=125)
    assert hours_to_empty(bucket) == pytest.approx(throughput_h, abs=0.05)


def test_volumes_below_the_baseline_cannot_drain_it():
    assert instance_io_bucket(M5_LARGE, volumes_iops=3_000).highest_drain_per_s == 0


def test_idle_it_refills_in_half_an_hour_for_each_multiple_of_the_baseline():
    bucket = instance_io_bucket(T3_MEDIUM)
    assert bucket.capacity / bucket.refill_per_s / 3_600 == pytest.approx(0.5 * (11_800 / 2_000 - 1))
