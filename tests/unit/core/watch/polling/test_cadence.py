import itertools
import math
from datetime import timedelta

import pytest

from burstctl.render.datapoint_spacing import describe_spacing, recommended_metric_lag
from burstwatch.core.buckets import poll_interval
from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.poll_interval import ReactionTime, is_sweep_due
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, baseline_iops
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.watch.polling.cadence import (
    focus_interval_s,
    is_recheck_due,
    longest_interval_s,
    sweep_interval_s,
    sweep_ticks,
)

CADENCE = CadencePolicy()


# 100 GiB at 95 %: 5,130,000 / 2,700 = 1,900 s; less 300 + 60 + 480 = 840 s leaves 1,060 s: three ticks.
@pytest.mark.parametrize(
    ("size_gib", "minutes"),
    [(1, 15), (8, 15), (33, 15), (100, 15), (334, 25), (500, 40), (900, 60), (999, 60)],
)
def test_calm_volumes_are_swept_as_seldom_as_the_rule_allows(size_gib, minutes):
    assert sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), CADENCE) == minutes * 60


# 100 GiB, baseline 300. At 60 %: 3,240,000 / 2,700 = 1,200 s, less 840 s = 360 s, but five minutes at most.
# At 50 %: 1,000 - 840 = 160 s: two whole minutes. At 31 %: 620 - 840 < 0: the shortest interval.
@pytest.mark.parametrize(
    ("balance_pct", "minutes"), [(100, 5), (60, 5), (54, 4), (53, 3), (50, 2), (47, 1), (31, 1), (0, 1)]
)
def test_volumes_in_focus_are_evaluated_more_often_as_they_drain(balance_pct, minutes):
    assert focus_interval_s(gp2_bucket(300), balance_pct * CREDITS_PER_PCT, CADENCE) == minutes * 60


@pytest.mark.parametrize("ticks", [1, 3, 5, 8, 12])
def test_every_volume_is_swept_exactly_once_in_its_interval(ticks):
    for number in range(50):
        volume_id = f"vol-{number:017x}"
        due = [
            tick
            for tick in range(5_900_000, 5_900_000 + 3 * ticks)
            if is_sweep_due(volume_id, ticks, tick, tick)
        ]
        assert len(due) == 3
        assert {later - earlier for earlier, later in itertools.pairwise(due)} == {ticks}


def test_volumes_are_spread_evenly_over_the_ticks():
    ids = [f"vol-{number:017x}" for number in range(3_000)]
    per_tick = [sum(is_sweep_due(volume_id, 3, tick, tick) for volume_id in ids) for tick in range(3)]
    assert all(900 < count < 1_100 for count in per_tick)


def test_ticks_that_were_missed_are_swept_together():
    ids = [f"vol-{number:017x}" for number in range(200)]
    one_by_one = {i for i in ids for tick in range(40, 44) if is_sweep_due(i, 12, tick, tick)}
    assert {i for i in ids if is_sweep_due(i, 12, 40, 43)} == one_by_one
    assert all(is_sweep_due(i, 12, 40, 51) for i in ids)
    assert not any(is_sweep_due(i, 12, 41, 40) for i in ids)


def test_a_coarser_grid_rounds_the_interval_down():
    assert sweep_ticks(gp2_bucket(300), CadencePolicy(sweep_tick=timedelta(minutes=10))) == 1


def test_what_is_always_due_is_due_at_every_span_of_ticks_that_is_none_too_short():
    """However many ticks: as many in a row as there are phases hold every phase once."""
    for ticks in (1, 2, 7):
        for volume_id in ("vol-0a", "vol-0b", "vol-0c"):
            assert is_sweep_due(volume_id, ticks, 100, 100 + ticks - 1)
            due = [tick for tick in range(100, 100 + ticks) if is_sweep_due(volume_id, ticks, tick, tick)]
            assert len(due) == 1


def test_the_tick_of_a_volume_does_not_change_from_version_to_version():
    """Its phase is a hash of its id: were it another, a fleet would be swept unevenly after an upgrade."""
    phases = [next(t for t in range(12) if is_sweep_due(f"vol-{n:017x}", 12, t, t)) for n in range(6)]
    assert phases == [9, 4, 7, 9, 3, 5]


def test_a_volume_whose_rule_leaves_no_whole_tick_is_swept_at_each():
    assert (
        sweep_ticks(
            gp2_bucket(100),
            CadencePolicy(sweep_tick=timedelta(minutes=60), sweep_at_most=timedelta(minutes=60)),
        )
        == 1
    )


def test_an_idle_volume_is_checked_again_once_a_day_whichever_its_tick():
    day, every_s = 86_400, 900
    for number in range(20):
        times = range(0, 28 * day, every_s)
        looks = [s for s in times if is_recheck_due(f"vol-{number}", s, every_s, CADENCE)]
        assert [later - earlier for earlier, later in itertools.pairwise(looks)] == [day] * (len(looks) - 1)
        assert len(looks) == 28


def test_a_reading_older_than_the_lag_counts_with_its_own_age():
    fresh = longest_interval_s(gp2_bucket(100), 5_130_000, CADENCE, age_s=300)
    assert fresh == longest_interval_s(gp2_bucket(100), 5_130_000, CADENCE)
    assert longest_interval_s(gp2_bucket(100), 5_130_000, CADENCE, age_s=420) == fresh - 120


@pytest.mark.parametrize(("spacing_s", "age_s", "minutes"), [(60, 120, 5), (300, 200, 10), (300, 660, 15)])
def test_the_lag_that_covers_what_was_seen_is_in_steps_of_five_minutes(spacing_s, age_s, minutes):
    assert recommended_metric_lag(spacing_s, age_s) == timedelta(minutes=minutes)


@pytest.mark.parametrize("spacing_s", [None, 60])
def test_a_datapoint_every_minute_is_not_worth_a_word(spacing_s):
    assert describe_spacing(spacing_s) == ""


def test_the_rule_holds_for_a_bucket_of_any_service():
    """An EFS file system in bursting mode: 2.1 TiB, 50 MiB/s for each TiB, at most 100 MiB/s."""
    bucket = Bucket(capacity=2_100_000, refill_per_s=50, burst_per_s=100)
    reaction = ReactionTime(lag_s=300, slack_s=60, lead_s=1_800)
    assert poll_interval.longest_interval_s(bucket, bucket.credits_in(100), reaction) == 42_000 - 2_160
    ticks = poll_interval.sweep_ticks(
        bucket, bucket.credits_in(50), reaction, tick_s=300, max_interval_s=86_400
    )
    assert ticks == (21_000 - 2_160) // 300
    assert poll_interval.focus_interval_s(bucket, 120_000, reaction, tick_s=60, max_interval_s=3_600) == 240


def test_a_bucket_that_cannot_drain_waits_as_long_as_is_allowed():
    bucket = Bucket(capacity=100, refill_per_s=10, burst_per_s=10)
    reaction = ReactionTime(lag_s=300, slack_s=60, lead_s=480)
    assert poll_interval.longest_interval_s(bucket, 0, reaction) == math.inf
    assert poll_interval.sweep_ticks(bucket, 0, reaction, tick_s=300, max_interval_s=3_600) == 12
