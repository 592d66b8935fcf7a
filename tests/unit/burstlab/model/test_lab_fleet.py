from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstlab.fake_aws.cloudwatch.volume_metrics import read_datapoints
from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.clock import LabClock
from burstlab.model.fleet import FleetError, LabFleet, LabInstance, LabSettings
from burstlab.model.fleet_file import FleetFileError, read_fleet
from burstlab.model.loads.load import Cycle
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

START_S = int(START.timestamp())


def a_fleet(**chosen):
    return LabFleet(LabClock.manual(START), LabSettings(**chosen))


def datapoints(fleet, volume_id, metric="BurstBalance", statistic="Minimum", period_s=60):
    """Everything visible now, as {minutes since the start: value}."""
    result = read_datapoints(
        fleet.find(volume_id),
        metric,
        statistic,
        period_s=period_s,
        from_s=START_S - 86_400,
        to_s=START_S + 86_400 * 20,
        now_s=fleet.clock.now_s(),
        settings=fleet.settings,
    )
    return {
        (start_s - START_S) // 60: value
        for start_s, value in zip(result.starts_s, result.values, strict=True)
    }


def test_a_full_burst_takes_three_percent_a_minute_of_a_100_gib_volume():
    # (3,000 - 300) * 60 = 162,000 credits = 3 % of 5.4 M
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(180)
    assert datapoints(fleet, volume_id) == pytest.approx({0: 97, 1: 94, 2: 91})
    assert datapoints(fleet, volume_id, statistic="Average") == pytest.approx({0: 98.5, 1: 95.5, 2: 92.5})
    assert datapoints(fleet, volume_id, statistic="Maximum") == pytest.approx({0: 100, 1: 97, 2: 94})
    assert datapoints(fleet, volume_id, statistic="SampleCount") == {0: 60, 1: 60, 2: 60}
    # a quarter of 3,000/s are reads
    assert datapoints(fleet, volume_id, "VolumeReadOps", "Sum") == {0: 45_000, 1: 45_000, 2: 45_000}
    assert datapoints(fleet, volume_id, "VolumeWriteOps", "Sum") == {0: 135_000, 1: 135_000, 2: 135_000}


def test_longer_periods_aggregate_the_minutes():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(600)
    assert datapoints(fleet, volume_id, period_s=300) == pytest.approx({0: 85, 5: 70})
    assert datapoints(fleet, volume_id, statistic="Average", period_s=300) == pytest.approx(
        {0: 92.5, 5: 77.5}
    )
    assert datapoints(fleet, volume_id, "VolumeReadOps", "Sum", period_s=300) == {0: 225_000, 5: 225_000}


@st.composite
def steps(draw):
    demand = st.sampled_from([0, 50, 300, 900, 2_999, 3_500])
    return tuple(draw(st.lists(st.tuples(st.integers(1, 200), demand, demand), min_size=1, max_size=6)))


@given(
    steps=steps(),
    size_gib=st.sampled_from([8, 100, 334, 900, 1_000]),
    balance_pct=st.sampled_from([0, 0.5, 3, 99.9, 100]),
    looks=st.lists(st.integers(1, 1_500), min_size=1, max_size=5),
    late_s=st.integers(0, 59),
    open_minute=st.booleans(),
)
@example(steps=((1, 0, 300), (1, 0, 0)), size_gib=8, balance_pct=0, looks=[928], late_s=0, open_minute=False)
@settings(max_examples=100, deadline=None)
def test_minutes_equal_stepping_second_by_second_however_often_one_looks(
    steps, size_gib, balance_pct, looks, late_s, open_minute
):
    fleet = a_fleet(large_publish=True, open_minute=open_minute)
    fleet.clock.advance(late_s)
    volume_id = fleet.add(LabVolume(size_gib=size_gib, load=Cycle(steps), balance_pct=balance_pct))
    for seconds in looks:
        fleet.clock.advance(seconds)
        fleet.truth(volume_id)
    expected, credits_after = minutes_by_second(steps, size_gib, balance_pct, sum(looks), late_s, open_minute)
    for metric, statistic in (
        ("BurstBalance", "Minimum"),
        ("BurstBalance", "Average"),
        ("VolumeReadOps", "Sum"),
    ):
        published = {minute: datapoint[metric, statistic] for minute, datapoint in expected.items()}
        assert datapoints(fleet, volume_id, metric, statistic) == pytest.approx(published, rel=1e-9, abs=1e-6)
    assert fleet.truth(volume_id).credits == pytest.approx(credits_after, abs=1e-2)


def minutes_by_second(steps, size_gib, balance_pct, seconds, late_s, open_minute):
    """Naive: each second on its own; its mean balance by the trapezoids of its two linear parts."""
    baseline = max(100, 3 * size_gib)
    pattern = [(reads, writes) for length, reads, writes in steps for _ in range(length)]
    held, minutes = balance_pct * 54_000, {}
    for second in range(seconds):
        reads, writes = pattern[second % len(pattern)]
        requested = reads + writes
        served = min(requested, max(3_000, baseline), baseline + held)
        after = min(FULL_CREDITS, max(0.0, held + baseline - served))
        rate = min(requested, max(3_000, baseline)) - baseline
        moving_s = min(1.0, abs(held - after) / abs(rate)) if rate else 1.0
        mean = (held + after) / 2 * moving_s + after * (1 - moving_s)
        datapoint = minutes.setdefault((late_s + second) // 60, {"least": [], "mean": [], "reads": 0.0})
        datapoint["least"] += [held, after]
        datapoint["mean"].append(mean)
        datapoint["reads"] += served * reads / requested if requested else 0
        held = after
    last = (late_s + seconds) // 60
    return {
        minute: {
            ("BurstBalance", "Minimum"): min(datapoint["least"]) / 54_000,
            ("BurstBalance", "Average"): sum(datapoint["mean"]) / len(datapoint["mean"]) / 54_000,
            ("VolumeReadOps", "Sum"): datapoint["reads"],
        }
        for minute, datapoint in minutes.items()
        if minute < last or open_minute
    }, held


def test_a_volume_reports_when_it_emptied_and_how_long_it_stalled():
    # 8 GiB, 10 % = 540,000 credits, 1,000 IOPS: 900/s, empty after 600 s; then 900/s are lost for 300 s
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=8, load="steady:1000", balance_pct=10))
    fleet.clock.advance(900)
    truth = fleet.truth(volume_id)
    assert truth.credits == 0
    assert truth.served_iops == 100
    assert truth.demand_iops == 1_000
    assert truth.dry_since == truth.first_dry_at == START + timedelta(seconds=600)
    assert truth.stalled_s == pytest.approx(300)
    assert truth.lost_ops == pytest.approx(270_000)
    fleet.set_load(volume_id, "idle")
    fleet.clock.advance(60)
    truth = fleet.truth(volume_id)
    assert (truth.credits, truth.dry_since) == (6_000, None)
    assert truth.first_dry_at == START + timedelta(seconds=600)


def test_the_incident_a_container_after_the_five_thousandth_stalls():
    # a container takes 1,380 - 300 = 1,080 credits in 3 s; 5,000 of them 5.4 M. Then 300 of 1,380 are served
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=33, load="docker-loop"))
    fleet.clock.advance(15_000)
    assert fleet.truth(volume_id).first_dry_at == START + timedelta(seconds=15_000)
    fleet.clock.advance(5_001)
    truth = fleet.truth(volume_id)
    assert truth.stalled_s == pytest.approx(5_001)
    assert truth.lost_ops == pytest.approx(5_001 / 3 * 1_080)


def test_queued_demand_waits_and_is_served_when_the_load_is_gone():
    # empty after 600 s as above; 300 s leave 270,000 waiting, worked off at 100/s
    fleet = a_fleet(queued=True)
    volume_id = fleet.add(LabVolume(size_gib=8, load="steady:1000", balance_pct=10))
    fleet.clock.advance(900)
    fleet.set_load(volume_id, "idle")
    fleet.clock.advance(60)
    truth = fleet.truth(volume_id)
    assert truth.backlog_ops == pytest.approx(264_000)
    assert truth.served_iops == 100
    assert truth.lost_ops == 0


def test_a_load_can_be_changed_now_or_at_a_moment_to_come_but_not_in_the_past():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.set_load(volume_id, "steady:3000", at=START + timedelta(minutes=2))
    fleet.clock.advance(240)
    assert datapoints(fleet, volume_id) == pytest.approx({0: 100, 1: 100, 2: 97, 3: 94})
    with pytest.raises(ValueError, match=r"the load cannot change at \d+, 60 s ago"):
        fleet.set_load(volume_id, "idle", at=START + timedelta(minutes=3))


def test_a_volume_may_have_a_past_before_it_is_evaluated():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:300", starts_at=START - timedelta(hours=3)))
    assert len(datapoints(fleet, volume_id)) == 180
    assert min(datapoints(fleet, volume_id)) == -180


WITHOUT_A_BALANCE = [
    (LabVolume(size_gib=100, attached=False), {}),
    (LabVolume(size_gib=100, volume_type="gp3"), {}),
    (LabVolume(size_gib=1_000), {}),
]


@pytest.mark.parametrize(("volume", "chosen"), WITHOUT_A_BALANCE)
def test_no_balance_is_published_for(volume, chosen):
    fleet = a_fleet(**chosen)
    volume_id = fleet.add(volume)
    fleet.clock.advance(600)
    assert datapoints(fleet, volume_id) == {}


def test_a_large_volume_publishes_a_hundred_if_the_setting_requires_it():
    fleet = a_fleet(large_publish=True)
    volume_id = fleet.add(LabVolume(size_gib=1_000, load="steady:3000"))
    fleet.clock.advance(120)
    assert datapoints(fleet, volume_id) == {0: 100, 1: 100}


def test_an_idle_volume_is_silent_if_the_setting_requires_it():
    fleet = a_fleet(idle_publishes=False)
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:900", balance_pct=50))
    fleet.clock.advance(120)
    fleet.set_load(volume_id, "idle")
    fleet.clock.advance(7_200)
    fleet.set_load(volume_id, "steady:900")
    fleet.clock.advance(60)
    # two minutes at -600/s, two hours at +300/s, one minute at -600/s again; 1 % is 54,000
    assert datapoints(fleet, volume_id) == pytest.approx(
        {0: 50 - 2 / 3, 1: 50 - 4 / 3, 122: 50 - 4 / 3 + 40 - 2 / 3}
    )


def test_a_detached_volume_publishes_nothing_and_goes_on_earning():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:300", balance_pct=50))
    fleet.clock.advance(150)
    fleet.detach(volume_id)
    fleet.clock.advance(150)
    fleet.attach(volume_id)
    fleet.clock.advance(60)
    # 150 s at 300/s = 45,000 credits = 0.8333 %; the third and the sixth minute were published in part
    points = datapoints(fleet, volume_id)
    assert sorted(points) == [0, 1, 2, 5]
    assert points[2] == pytest.approx(50)
    assert points[5] == pytest.approx(50.8333, abs=1e-4)
    assert datapoints(fleet, volume_id, statistic="SampleCount")[2] == 30


def test_a_stopped_instance_silences_all_its_volumes_until_it_starts():
    fleet = a_fleet()
    ids = fleet.add_all([LabVolume(size_gib=100, instance_id="i-0a", load="steady:900")] * 2)
    fleet.clock.advance(120)
    fleet.stop_instance("i-0a")
    fleet.clock.advance(120)
    fleet.start_instance("i-0a")
    fleet.clock.advance(60)
    for volume_id in ids:
        assert sorted(datapoints(fleet, volume_id)) == [0, 1, 4]


def test_an_instance_can_be_declared_stopped_before_its_volumes_are_added():
    fleet = a_fleet()
    fleet.add_instance(LabInstance(instance_id="i-0a", launched_at=START, state="stopped", tags={}))
    volume_id = fleet.add(LabVolume(size_gib=100, instance_id="i-0a"))
    fleet.clock.advance(120)
    assert datapoints(fleet, volume_id) == {}


def test_a_telemetry_gap_hides_datapoints_and_nothing_else():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.hide_metrics(volume_id, from_at=START + timedelta(minutes=1), to_at=START + timedelta(minutes=3))
    fleet.clock.advance(300)
    assert datapoints(fleet, volume_id) == pytest.approx({0: 97, 3: 88, 4: 85})


def test_a_fixed_lag_holds_a_datapoint_back_after_the_end_of_its_minute():
    fleet = a_fleet(lag_s=90)
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.clock.advance(149)
    assert sorted(datapoints(fleet, volume_id)) == []
    fleet.clock.advance(1)
    assert sorted(datapoints(fleet, volume_id)) == [0]


def test_a_varying_lag_is_the_same_for_every_read_and_stays_in_its_bounds():
    fleet = a_fleet(lag_s=60, lag_most_s=300, seed=7)
    volume_id = fleet.add(LabVolume(size_gib=100))
    published_at = {}
    for minute in range(60):
        fleet.clock.advance(60)
        points = datapoints(fleet, volume_id)
        for number in points:
            published_at.setdefault(number, minute + 1)
        assert set(points) == {number for number, at in published_at.items() if at <= minute + 1}
    lags = {at - (number + 1) for number, at in published_at.items()}
    assert min(lags) >= 1
    assert max(lags) <= 5
    assert len(lags) > 2


def test_the_open_minute_is_shown_when_requested_and_still_changes():
    fleet = a_fleet(open_minute=True)
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(60 + 20)
    # 80 s * 2,700 = 216,000 credits = 4 %
    assert datapoints(fleet, volume_id) == pytest.approx({0: 97, 1: 96})
    fleet.clock.advance(20)
    assert datapoints(fleet, volume_id) == pytest.approx({0: 97, 1: 95})
    assert datapoints(fleet, volume_id, "VolumeReadOps", "Sum")[1] == pytest.approx(750 * 40)


def test_the_open_minute_with_a_lag_shows_what_was_known_then():
    fleet = a_fleet(open_minute=True, lag_s=30)
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(80)
    assert datapoints(fleet, volume_id) == pytest.approx({0: 97.5})  # 50 s are known


def test_history_is_kept_for_fifteen_days_in_a_handful_of_records():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=8, load="steady:99"))
    fleet.clock.advance(16 * 86_400)
    points = datapoints(fleet, volume_id)
    assert len(points) == 15 * 24 * 60
    assert min(points) == 24 * 60
    assert len(fleet.find(volume_id).history.runs(0, 10**9)) < 10


def test_a_pattern_that_repeats_every_minute_is_one_record():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=8, load="docker-loop"))
    fleet.clock.advance(3_600)
    # 460 - 100 = 360/s: 21,600 a minute = 0.4 %
    assert datapoints(fleet, volume_id)[59] == pytest.approx(100 - 60 * 0.4)
    assert len(fleet.find(volume_id).history.runs(0, 10**9)) == 1


def test_a_fleet_names_what_it_does_not_have():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100))
    for complaint, attempt in (
        ("vol-0nope is not in the fleet of 1 volumes", lambda: fleet.truth("vol-0nope")),
        ("is in the fleet already", lambda: fleet.add(LabVolume(size_gib=1, volume_id=volume_id))),
        ("is attached already", lambda: fleet.attach(volume_id)),
        ("i-0nope is not an instance", lambda: fleet.stop_instance("i-0nope")),
    ):
        with pytest.raises(FleetError, match=complaint):
            attempt()


BAD_VOLUMES = [
    ({"size_gib": 0}, "size_gib is 0"),
    ({"size_gib": 1, "balance_pct": 101}, "balance_pct is 101"),
    ({"size_gib": 1, "volume_type": "gp9"}, "volume_type is 'gp9'"),
    ({"size_gib": 1, "service_owner": "ecs", "instance_id": "i-0a"}, "give service_owner or instance_id"),
]


@pytest.mark.parametrize(("settings", "complaint"), BAD_VOLUMES)
def test_an_invalid_volume_is_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        LabVolume(**settings)


def test_ids_look_like_those_of_aws_and_are_the_same_in_every_run():
    ids = [a_fleet().add(LabVolume(size_gib=1)) for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == len("vol-") + 17


def test_lab_time_is_wall_time_times_speed_plus_what_was_skipped():
    wall_times = [100.0]
    clock = LabClock(START, speed=60, wall=lambda: wall_times[0])
    wall_times[0] += 10
    assert clock.now() == START + timedelta(minutes=10)
    clock.advance(30)
    clock.set_speed(1)
    wall_times[0] += 30
    assert clock.now() == START + timedelta(minutes=11)


BAD_CLOCKS = [
    (lambda: LabClock(datetime(2026, 1, 1)), "without a time zone"),  # noqa: DTZ001 - the point
    (lambda: LabClock(START, speed=1_001), "speed is 1001"),
    (lambda: LabClock.manual(START).advance(-1), "cannot advance by -1"),
]


@pytest.mark.parametrize(("attempt", "complaint"), BAD_CLOCKS)
def test_a_clock_refuses_what_time_cannot_do(attempt, complaint):
    with pytest.raises(ValueError, match=complaint):
        attempt()


def test_settings_refuse_a_lag_that_ends_before_it_begins():
    with pytest.raises(ValueError, match="give 0 <= lag_s <= lag_most_s"):
        LabSettings(lag_s=60, lag_most_s=30)


def test_a_tag_that_no_xml_can_hold_is_refused():
    fleet = LabFleet(LabClock.manual())
    with pytest.raises(ValueError, match=r"tag 'Name' holds U\+001B"):
        LabVolume(size_gib=8, tags={"Name": "red\x1b[31m"})
    volume_id = fleet.add(LabVolume(size_gib=8))
    with pytest.raises(ValueError, match=r"U\+0000"):
        fleet.set_tags(volume_id, {"Name": "\0"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 600, "nested too deeply to be read"),
        ("volumes: [{size_gib: 2026-02-30}]", "not YAML: day is out of range"),
        ("volumes: [{size_gib: !!int _}]", "not YAML: string index out of range"),
        ("volumes: [{size_gib: 1, count: 1000000000000}]", "it must be 100,000 at most"),
        ("volumes: &v [{size_gib: *v}]", "size_gib is a list; it must be a whole number above 0"),
        ('volumes: [{"\\e[2J": 1}]', "?[2J: no such key"),
    ],
)
def test_a_malicious_fleet_file_is_refused_in_a_short_sentence(tmp_path, text, message):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(FleetFileError) as exc_info:
        read_fleet(path, datetime(2026, 11, 20, tzinfo=UTC))
    assert message in str(exc_info.value)
    assert len(str(exc_info.value)) < 1_000


def test_a_balance_may_come_every_five_minutes_and_operations_every_minute():
    """1,300 operations a second of 300 earned: 1,000 credits a second go."""
    fleet = a_fleet(balance_every_s=300)
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:1300"))
    fleet.clock.advance(1800)
    every_minute = datapoints(an_identical_volume(fleet, volume_id), volume_id)
    expected = {m: pct for m, pct in every_minute.items() if m % 5 == 0}
    assert datapoints(fleet, volume_id) == pytest.approx(expected)
    assert list(datapoints(fleet, volume_id)) == [0, 5, 10, 15, 20, 25]
    assert len(datapoints(fleet, volume_id, "VolumeReadOps")) == 30


def an_identical_volume(fleet, volume_id):
    """The same life, reported every minute."""
    twin = a_fleet()
    twin.add(LabVolume(size_gib=100, load="steady:1300", volume_id=volume_id))
    twin.clock.advance(fleet.clock.now_s() - START_S)
    return twin


def test_only_the_balance_may_be_missing():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:50"))
    fleet.hide_metrics(volume_id, from_at=START, to_at=START + timedelta(hours=1), only_balance=True)
    fleet.clock.advance(600)
    assert datapoints(fleet, volume_id) == {}
    assert len(datapoints(fleet, volume_id, "VolumeReadOps")) == 10


def test_a_spacing_that_is_not_whole_minutes_is_refused():
    with pytest.raises(ValueError, match="balance_every_s is 90: give whole minutes, such as 300"):
        LabSettings(balance_every_s=90)
