"""The bench of file systems and databases: how it scales a load, and the alarms that it compares with."""

import pytest

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.units import GIB
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket
from burstwatch.core.rds.rds_buckets import RDS_IO
from support.bench_loader import load_bench

BUCKET = Bucket(capacity=1_000, refill_per_s=1, burst_per_s=10)


def test_the_deepest_fall_counts_what_was_earned_between(bench):
    # 100 s at 5 lose 400, 100 s of rest earn 100, 100 s at 20, which bursts at 10, lose 900
    assert bench.deepest_fall([5, 0, 20], 100, BUCKET) == pytest.approx(1.2)


def test_a_full_bucket_earns_nothing(bench):
    assert bench.deepest_fall([0, 0, 0, 6], 100, BUCKET) == pytest.approx(0.5)


@pytest.mark.parametrize("depth", [0.6, 1.2])
def test_a_load_is_multiplied_until_its_deepest_fall_is_wanted(bench, depth):
    rates = [0.1, 0.2, 0.4, 0.1] * 50
    scale = bench.scale_to_depth(rates, 60, BUCKET, depth)
    assert bench.deepest_fall([scale * rate for rate in rates], 60, BUCKET) == pytest.approx(depth)


def test_a_recording_that_is_too_short_for_the_depth_is_left_out(bench):
    assert bench.scale_to_depth([1.0], 60, BUCKET, 1.2) is None


def test_the_alarms_of_aws_are_at_the_minutes_that_the_permitted_throughput_leaves(bench):
    alarms = bench.alarms_of(EFS_BYTES, efs_bucket(100 * GIB))
    # 100 MiB/s for 180 min are 1,080,000 of 2,202,010 MiB
    assert {name: (round(pct, 1), count) for name, (pct, count) in alarms.items()} == {
        "minutes to zero, 180": (49.0, 10),
        "minutes to zero, 60": (16.3, 10),
        "alarm at 192 GB": (8.3, 1),
    }
    assert bench.alarms_of(RDS_IO, BUCKET) == {"alarm at 20 %": (20.0, 1)}


@pytest.mark.parametrize("is_efs", [True, False])
def test_a_recording_is_scored_for_each_watcher(bench, is_efs):
    [recording, *_] = load_bench("alerts/instance_alerts").synthetic_recordings()
    case = bench.Case(
        recording=recording, number=0, is_efs=is_efs, size_gib=100, depth=1.2, shape=bench.LoadShape.FLAT
    )
    outcomes = {outcome.watcher: outcome for outcome in bench.score(case)}
    assert set(outcomes) > set(bench.alarms_of(case.kind, BUCKET))
    assert all(len(outcome.announcements) >= 1 for outcome in outcomes.values())
    assert all(
        announcement.lead_s is not None for announcement in outcomes["burstwatch, from warning"].announcements
    )
