import pytest

from burstwatch.core.ebs.volume import (
    BUCKET_CREDITS,
    CREDITS_PER_PCT,
    Volume,
    baseline_iops,
    gp2_throughput_mib_s,
    highest_drain_per_s,
)
from support.builders.core_values import NOON, a_volume

# AWS's own table: size, baseline, seconds of burst from a full bucket, seconds from empty to full when idle.
AWS_TABLE = [
    (1, 100, 1_862, 54_000),
    (33, 100, 1_862, 54_000),
    (100, 300, 2_000, 18_000),
    (250, 750, 2_400, 7_200),
    (334, 1_002, 2_703, 5_389),
    (500, 1_500, 3_600, 3_600),
    (750, 2_250, 7_200, 2_400),
]


@pytest.mark.parametrize(("size_gib", "baseline", "burst_s", "refill_s"), AWS_TABLE)
def test_arithmetic_agrees_with_the_table_of_aws(size_gib, baseline, burst_s, refill_s):
    assert baseline_iops(size_gib) == baseline
    assert round(BUCKET_CREDITS / highest_drain_per_s(baseline)) == burst_s
    assert round(BUCKET_CREDITS / baseline) == refill_s


@pytest.mark.parametrize(
    ("size_gib", "baseline"),
    [(8, 100), (34, 102), (999, 2_997), (1_000, 3_000), (5_333, 15_999), (5_334, 16_000), (16_384, 16_000)],
)
def test_baseline_is_three_per_gib_between_its_floor_and_its_cap(size_gib, baseline):
    assert baseline_iops(size_gib) == baseline


@pytest.mark.parametrize(("size_gib", "worst"), [(8, 2_900), (999, 3), (1_000, 0), (5_334, 0)])
def test_a_volume_of_1000_gib_or_more_cannot_drain(size_gib, worst):
    assert highest_drain_per_s(baseline_iops(size_gib)) == worst


@pytest.mark.parametrize(("size_gib", "mib_s"), [(1, 128), (170, 128), (171, 250), (334, 250), (16_384, 250)])
def test_throughput_steps_up_above_170_gib(size_gib, mib_s):
    assert gp2_throughput_mib_s(size_gib) == mib_s


def test_a_volume_of_which_no_attachment_is_reported_is_detached():
    bare = Volume(volume_id="vol-0a1", volume_type="gp2", size_gib=100, created_at=NOON)
    assert not bare.attached
    assert not bare.multi_attach_enabled


def test_a_full_bucket_is_half_an_hour_of_full_burst():
    # 3,000 a second for 1,800 s; 1 % of it is 54,000
    assert BUCKET_CREDITS == 3_000 * 1_800 == 100 * CREDITS_PER_PCT


def test_an_empty_name_tag_is_not_a_name():
    assert a_volume(tags={"Name": ""}).name is None


def test_a_volume_without_a_size_cannot_exist():
    with pytest.raises(ValueError, match="vol-0a1: size_gib is 0, it must be at least 1"):
        a_volume(size_gib=0)
