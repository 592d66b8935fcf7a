from datetime import timedelta

import pytest

from burstlab.disk.block_device import DiskError
from burstlab.disk.live_view import mean_iops_per_second, render_balance, sparkline
from burstlab.disk.throttle import DiskSnapshot, TimeScale
from burstlab.fake_aws.server import Endpoint
from burstlab.incident.probe import read_record
from support.lab.disk_support import NOON, metric_of


def seconds_later(queued_fleet, seconds):
    queued_fleet.clock.advance(seconds)
    return queued_fleet.now_s()


def test_a_measured_volume_lives_by_what_its_device_did_and_by_nothing_else(queued_fleet, volume):
    # 60 s x (1,000 - 100) = 54,000 credits, one percent
    volume.measure(seconds_later(queued_fleet, 60), read_ops=20_000, write_ops=40_000)
    assert volume.truth().burst_balance_pct == pytest.approx(99)


def test_nothing_is_known_of_a_measured_volume_beyond_its_last_measurement(queued_fleet, volume):
    measured_s = seconds_later(queued_fleet, 60)
    volume.measure(measured_s, write_ops=60_000)
    queued_fleet.clock.advance(600)
    assert queued_fleet.find(volume.volume_id).at_s == measured_s
    assert queued_fleet.truth(volume.volume_id).burst_balance_pct == pytest.approx(99)


def test_what_was_done_beyond_an_empty_bucket_is_paid_for_later(queued_fleet, volume):
    volume.set_balance(0)
    # 1,000 operations over at 100 a second are worked off in the 10 s that follow
    volume.measure(seconds_later(queued_fleet, 1), write_ops=1_100)
    assert (volume.truth().credits, volume.truth().backlog_ops) == (0, 1_000)
    volume.measure(seconds_later(queued_fleet, 10))
    assert (volume.truth().credits, volume.truth().backlog_ops) == (0, 0)
    volume.measure(seconds_later(queued_fleet, 10))
    assert volume.truth().credits == 1_000


def test_a_measurement_cannot_go_back(queued_fleet, volume):
    volume.measure(seconds_later(queued_fleet, 60))
    with pytest.raises(ValueError, match="give a later second"):
        volume.measure(queued_fleet.now_s() - 30)
    with pytest.raises(ValueError, match="give a later second"):
        volume.measure(queued_fleet.now_s(), write_ops=1)


def test_cloudwatch_shows_what_was_measured(queued_fleet, volume):
    for _ in range(4):
        volume.measure(seconds_later(queued_fleet, 60), write_ops=60_000)
    end = NOON + timedelta(minutes=4)
    with Endpoint(queued_fleet) as lab:
        balances = metric_of(lab, volume.volume_id, "BurstBalance", "Minimum", NOON, end)
        writes = metric_of(lab, volume.volume_id, "VolumeWriteOps", "Sum", NOON, end)
    assert balances == pytest.approx([99, 98, 97, 96])
    assert writes == [60_000] * 4


@pytest.mark.parametrize(
    ("arguments", "speed", "held", "burst"),
    [
        ({}, 60, 90_000, 3_000),
        ({"speed": 240}, 240, 22_500, 3_000),
        ({"real_credits": 9_000}, 600, 9_000, 3_000),
        # 5.4 million / 54,000 = 100 operations for each, 60 times as fast: 6 tenths
        ({"speed": 60, "real_credits": 54_000}, 60, 54_000, 1_800),
    ],
)
def test_iops_are_those_of_ebs_unless_both_speed_and_bucket_are_given(arguments, speed, held, burst):
    time_scale = TimeScale.of(**arguments)
    assert (time_scale.speed, time_scale.real_credits, time_scale.real_iops(3_000)) == pytest.approx(
        (speed, held, burst)
    )
    time_scale.check(100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"speed": 1, "real_credits": 9_000}, "less than 1: give at least 54,000 credits"),
        ({"speed": 100, "real_credits": 900_000}, "more than 6,000: give at most 108,000 credits"),
        ({"real_credits": 900}, "speed 6,000.00: give 1 to 1000 with --speed, or 5,400 to 5,400,000 credits"),
    ],
)
def test_a_bucket_that_no_device_can_play_is_refused_with_what_would_do(arguments, message):
    with pytest.raises(DiskError, match=message):
        TimeScale.of(**arguments).check(100)


def test_the_bar_and_the_sparkline_distinguish_empty_from_full_and_from_none():
    assert render_balance(100, 4).plain == "████ 100.0 %"
    assert render_balance(0, 4).plain == "░░░░   0.0 %"
    assert "no bucket" in render_balance(None, 4).plain
    assert sparkline([0, 1_500, 3_000, 9_000], 3_000) == "▁▅██"


def test_iops_are_reported_second_by_second_however_often_they_were_measured():
    def instant(at_s, iops):
        return DiskSnapshot(
            at_s=at_s, simulated_at_s=0, balance_pct=None, iops=iops, limit_iops=3_000, volume_type="gp3"
        )

    assert mean_iops_per_second([instant(7, 0), instant(7.1, 10), instant(7.9, 30), instant(8.5, 50)]) == [
        20,
        50,
    ]


def a_record(**changes):
    return {
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 6.2,
        "completed": True,
        "dstate": {
            "top": [
                {"comm": "ci-job", "wchan": "folio_wait_bit", "unit": "", "here": True, "count": 24},
                {"comm": "other", "wchan": "rq_qos_wait", "unit": "", "here": False, "count": 3},
            ]
        },
    } | changes


def test_a_reading_counts_the_tasks_of_its_own_disk_only():
    reading = read_record(a_record(), 1.0, 8.0)
    assert (reading.tasks, reading.blocked_tasks) == ((("ci-job", "folio_wait_bit", 24),), 24)
    assert read_record(a_record(dstate=None), 1.0, 8.0).blocked_tasks == 0


def test_an_invalid_record_is_refused():
    with pytest.raises(ValueError, match="verdict 'fine' is none of ok, warn, crit, unknown"):
        read_record(a_record(verdict="fine"), 1.0, 8.0)
