"""What was recorded, replayed: balances, stalls and dollars by hand, and nothing lost by skipping."""

import random
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isnan, nan

import pytest

from burstctl.backtest.recorded_volume import RecordedFleet, RecordedVolume
from burstctl.backtest.recording import MinuteSeries, Recording, make_recording, restrict_to
from burstctl.backtest.replay import (
    ReplayConfig,
    ReplayResult,
    cost_of_calm_volume,
    is_calm_throughout,
    replay,
)
from burstctl.backtest.scoring import Stalls, sum_tallies, tally_volume
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import BUCKET_CREDITS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import FlipPolicy, Policy
from burstwatch.core.policy.windows import LeadPolicy

START_S = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
GP2 = Configuration(volume_type=VolumeType.GP2)
IO1 = Configuration(volume_type=VolumeType.IO1, iops=3_000)
TEN_MINUTES = LeadPolicy(least=timedelta(minutes=10), per_tib=timedelta(0))


def minute(nth: float) -> int:
    return START_S + int(nth * 60)


def a_volume(size_gib=100, number=1, **fields) -> Volume:
    known = {
        "volume_id": f"vol-0{number:016x}",
        "volume_type": "gp2",
        "size_gib": size_gib,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "attached": True,
        "instance_id": f"i-{number}",
        "tags": {"burstwatch:mode": "auto"},
    }
    return Volume(**(known | fields))


def a_recording(balance, iops, *, volume=None) -> Recording:
    """From midnight on; all operations are reads."""
    reads = array("d", [iops_ * 60 for iops_ in iops])
    writes = array("d", [nan if isnan(iops_) else 0.0 for iops_ in iops])
    return Recording(
        volume=volume or a_volume(),
        balance=MinuteSeries(START_S, array("d", balance)),
        reads=MinuteSeries(START_S, reads),
        writes=MinuteSeries(START_S, writes),
    )


def simulated(demand, minutes, *, number=1, size_gib=100, balance_pct=100.0) -> Recording:
    """What CloudWatch records of a gp2 under this demand: ``demand(nth)`` a second in each minute."""
    baseline, held = baseline_iops(size_gib), balance_pct * CREDITS_PER_PCT
    balance, iops = [], []
    for nth in range(minutes):
        served = min(demand(nth), 3_000, baseline + held / 60)
        after = min(BUCKET_CREDITS, max(0.0, held + (baseline - served) * 60))
        balance.append(min(held, after) / CREDITS_PER_PCT)
        iops.append(served)
        held = after
    return a_recording(balance, iops, volume=a_volume(size_gib, number))


def a_setting(minutes, policy=None, **fields) -> ReplayConfig:
    """The watch begins after half an hour, as it does after two in earnest: its first look has a past."""
    known = {
        "policy": policy or Policy(),
        "location": AwsLocation(region="us-east-1"),
        "lag_s": 120,
        "start_s": minute(30),
        "end_s": minute(minutes),
    }
    return ReplayConfig(**(known | fields))


def pcts(series: Series) -> list[tuple[int, float]]:
    """Each minute by its number."""
    return [
        ((at_s - START_S) // 60, round(pct, 2))
        for at_s, pct in zip(series.starts_at_s, series.values, strict=True)
    ]


# -- recordings


def test_a_minute_series_has_gaps_and_ends():
    track = MinuteSeries(START_S, array("d", [1.0, nan, 3.0]))
    assert track.at(minute(0)) == 1.0
    assert track.at(minute(1)) is None
    assert track.at(minute(-1)) is None
    assert track.at(minute(3)) is None
    assert track.between(minute(-5), minute(5)) == Series((minute(0), minute(2)), (1.0, 3.0))
    assert track.between(minute(0), minute(1)) == Series((minute(0),), (1.0,))
    assert track.between(minute(3), minute(9)) == Series()


def test_five_minutes_are_drawn_out_to_minutes_falling_to_their_least_and_rising_from_it():
    # least 100, then 90 (it fell by 2 a minute), then 95 (from 90 it rises by 1 a minute, if flat before)
    history = MetricHistory(
        period_s=300,
        balance=Series((minute(0), minute(5), minute(10)), (100.0, 90.0, 95.0)),
        read_ops=Series((minute(0),), (300.0,)),
        write_ops=Series((minute(0),), (600.0,)),
    )
    result = make_recording(a_volume(), history, minute(0), minute(20))
    assert list(result.balance.values[:10]) == [100.0] * 5 + [98.0, 96.0, 94.0, 92.0, 90.0]
    assert result.balance.at(minute(14)) == 95.0
    assert result.balance.at(minute(15)) is None
    assert result.served_iops(minute(4)) == (60 + 120) / 60
    assert result.served_iops(minute(5)) is None
    rising = replace(history, balance=Series((minute(0), minute(5)), (90.0, 95.0)))
    result = make_recording(a_volume(), rising, minute(0), minute(10))
    assert list(result.balance.values[:6]) == [90.0, 91.0, 92.0, 93.0, 94.0, 95.0]


def test_a_throttled_minute_is_empty_and_serves_nine_tenths_of_the_baseline():
    # 100 GiB earn 300: from 270 on it is held back
    result = a_recording([0.0, 0.5, 0.5, 2.0, 0.0, nan], [300, 270, 269, 300, nan, 300])
    assert result.stalled_minutes(minute(0), minute(6)) == [minute(0), minute(1)]
    assert result.stalled_minutes(minute(1), minute(6)) == [minute(1)]


def test_minutes_without_any_record_are_silent():
    result = a_recording([100, nan, nan, nan, 100], [5, nan, nan, 5, 5])
    assert result.silence_s(minute(0)) == 0
    assert result.silence_s(minute(1.5)) == 120
    assert result.silence_s(minute(3)) == 0
    assert result.silence_s(minute(5)) > 10**6


def test_a_recording_can_be_cut():
    result = restrict_to(a_recording([90, 80, 70], [5, 6, 7]), minute(1), minute(2), "because")
    assert (result.balance.at(minute(0)), result.balance.at(minute(1))) == (None, 80)
    assert (result.served_iops(minute(1)), result.served_iops(minute(2))) == (6, None)
    assert result.cut_because == "because"


# -- the world


def replayed_aws(recording, lead=TEN_MINUTES) -> RecordedVolume:
    [volume] = RecordedFleet.of([recording], lag_s=120, gap_after_s=1800, lead=lead).volumes.values()
    return volume


def test_on_its_target_there_is_no_balance_and_after_a_return_it_follows_from_the_operations():
    # flat at 50 % under its own 300; then idle: 300 * 60 / 54,000 = a third of a per cent a minute
    volume = replayed_aws(a_recording([50.0] * 120, [300.0] * 50 + [0.0] * 70))
    volume.modify(IO1, minute(10))
    volume.modify(GP2, minute(40))
    result = pcts(volume.balance(START_S, minute(60), minute(60)))
    assert result == [(nth, 50.0) for nth in range(20)] + [
        (nth, round(50 + (nth - 50) / 3, 2)) for nth in range(50, 60)
    ]


def test_after_a_return_it_can_run_out_of_credits_and_refills_no_further_than_full():
    # 0.3 % are 16,200 credits; 600 spends 300 a second net: 54 s
    recorded = a_recording([0.3] * 60, [300.0] * 30 + [600.0] * 30)
    volume = replayed_aws(recorded)
    volume.modify(IO1, minute(0))
    volume.modify(GP2, minute(15))
    assert pcts(volume.balance(minute(29), minute(32), minute(40))) == [(29, 0.3), (30, 0.0), (31, 0.0)]


def test_when_both_are_full_it_is_again_what_was_recorded():
    # full from the return on; it then falls by more than its operations explain; small ones merge
    recorded = a_recording([100.0] * 40 + [90.0] * 10, [100.0] * 50)
    volume = replayed_aws(recorded)
    volume.modify(IO1, minute(0))
    volume.modify(GP2, minute(15))
    assert pcts(volume.balance(minute(38), minute(42), minute(50))) == [
        (38, 100.0),
        (39, 100.0),
        (40, 90.0),
        (41, 90.0),
    ]


def test_a_minute_without_operations_leaves_the_balance_and_one_without_a_balance_shows_none():
    recorded = a_recording([50.0] * 30 + [nan, 50.0], [300.0] * 30 + [nan, 300.0])
    volume = replayed_aws(recorded)
    volume.modify(IO1, minute(0))
    volume.modify(GP2, minute(15))
    assert pcts(volume.balance(minute(29), minute(32), minute(32))) == [(29, 50.0), (31, 50.0)]


def test_a_modification_is_reported_as_aws_does_and_the_volume_shows_it_while_aws_optimizes():
    volume = replayed_aws(a_recording([50.0] * 60, [300.0] * 60))
    volume.modify(IO1, minute(10))
    states = [volume.modification_at(minute(nth)).state for nth in (10, 11, 19, 20)]
    assert states == ["modifying", "optimizing", "optimizing", "completed"]
    assert volume.volume_at(minute(10)).volume_type == "gp2"
    replayed = volume.volume_at(minute(11))
    assert (replayed.volume_type, replayed.provisioned_iops) == ("io1", 3_000)
    reported = volume.modification_at(minute(15))
    assert reported.original.volume_type == "gp2"
    assert reported.target.configuration() == IO1
    assert reported.progress_pct == 50


# -- the replay


def a_mixed_fleet(minutes):
    """Idle, a nightly drain, saws around the baseline, and one that is empty all the time."""
    dice = random.Random(7)
    noise = [dice.uniform(0, 900) for _ in range(minutes)]
    return [
        simulated(lambda nth: 5.0, minutes, number=1),
        simulated(lambda nth: 2_000.0 if 120 <= nth < 200 else 40.0, minutes, number=2),
        simulated(lambda nth: noise[nth // 30 * 30], minutes, number=3),
        simulated(lambda nth: 900.0, minutes, number=4, balance_pct=1.0),
    ]


def full_replay(result):
    return [
        (
            volume.recording.volume.volume_id,
            volume.entries,
            volume.modifications,
            volume.metrics_read,
            volume.stalls,
        )
        for volume in result.volumes
    ]


def test_skipping_ticks_at_which_nothing_is_due_changes_nothing():
    minutes = 10 * 60
    policy = Policy(flip=FlipPolicy(target=VolumeType.IO1), lead=TEN_MINUTES)
    setting = a_setting(minutes, policy)
    fleet = a_mixed_fleet(minutes)
    slowly = replay(fleet, setting, skips_idle_ticks=False)
    assert full_replay(replay(fleet, setting)) == full_replay(slowly)
    assert sum(len(volume.modifications) for volume in slowly.volumes) > 2
    assert slowly.volumes[3].stalls


def test_a_volume_that_is_calm_throughout_needs_no_replay():
    minutes = 8 * 60
    setting = a_setting(minutes)
    fleet = a_mixed_fleet(minutes)
    calm, *other_volumes = fleet
    assert is_calm_throughout(calm, setting.policy)
    assert not any(is_calm_throughout(item, setting.policy) for item in other_volumes)
    replayed, *_ = replay(fleet, setting).volumes
    result = cost_of_calm_volume(calm, setting)
    assert (replayed.entries, replayed.modifications) == ([], [])
    assert (result.entries, result.modifications) == ((), ())
    assert result.metrics_read == replayed.metrics_read > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"tags": {"burstwatch:critical": "true"}},
        {"tags": {"burstwatch:ignore": "true"}},
        {"tags": {"burstwatch:window": "night"}},
    ],
)
def test_a_tagged_volume_is_never_skipped_as_calm(settings):
    recording = a_recording([100.0] * 60, [5.0] * 60, volume=a_volume(**settings))
    assert not is_calm_throughout(recording, Policy())


@pytest.mark.parametrize(
    "balance",
    [
        [100.0] * 30 + [96.9] + [100.0] * 30,  # it leaves calm
        [100.0] * 30 + [nan] * 6 + [100.0] * 30,  # nothing is known of that time
        [100.0, 97.1],  # 2.9 % in three minutes would be 870 a second: empty in 100 minutes, not calm by far
        [nan] * 60,
    ],
)
def test_a_balance_that_moves_or_is_missing_is_not_calm(balance):
    policy = Policy()
    if len(balance) == 2:
        levels = replace(policy.levels, warning_within=timedelta(hours=3), warning_leave=timedelta(hours=4))
        policy = replace(policy, levels=levels)
    assert not is_calm_throughout(a_recording(balance, [5.0] * len(balance)), policy)


def test_a_stopped_instance_is_not_a_fault_and_a_lost_balance_is_one():
    # two hours without anything; two without a balance
    hours = [100.0] * 240, [5.0] * 240
    stopped = a_recording(
        [*hours[0][:120], *[nan] * 120, *hours[0]], [*hours[1][:120], *[nan] * 120, *hours[1]]
    )
    silent = a_recording([*hours[0], *[nan] * 120], [*hours[1], *[5.0] * 120], volume=a_volume(number=2))
    first, second = replay([stopped, silent], a_setting(360)).volumes
    kinds = [[e.body["kind"] for e in item.entries if e.kind is EntryKind.ALERT] for item in (first, second)]
    assert kinds == [[], ["TelemetryGap"]]


# -- what it comes to


def replay_recording(recording, *moves, policy=None, minutes=None):
    """The tally of a volume with these modifications, each a minute and a configuration."""
    volume = replayed_aws(recording)
    for nth, target in moves:
        volume.modify(target, minute(nth))
    setting = a_setting(minutes or len(recording.balance.values), policy, start_s=START_S)
    return tally_volume(ReplayResult(recording=recording, modifications=volume.modifications), setting)


def test_minutes_on_the_target_are_avoided_and_those_on_the_way_are_not():
    # empty from minute 10 to 69; out at 15, there at 25; back at 55, there at 65
    balances = [50.0] * 10 + [0.0] * 60 + [50.0] * 10
    result = replay_recording(a_recording(balances, [300.0] * 80), (15, IO1), (55, GP2))
    assert result.stalls == Stalls(recorded=60, avoided=30, eased=20, added=0)
    assert result.stalls.remaining == 30
    assert (result.flips, result.returns, result.ends_on_target) == (1, 1, False)


def test_a_depletion_is_announced_by_the_first_alert_of_its_drain():
    minutes = 6 * 60
    recording = simulated(lambda nth: 1_800.0 if nth >= 60 else 40.0, minutes)
    setting = a_setting(minutes, replace(Policy(), flip=FlipPolicy(fleet_cap=0)))
    [result] = replay([recording], setting).volumes
    item = tally_volume(result, setting)
    # 5,400,000 credits at 1,500 a second last an hour: empty (1 %) at about 02:00
    [depletion] = item.depletions
    assert abs(depletion.empty_at_s - minute(119)) <= 60
    first = next(alert for alert in item.alerts if alert.kind == "BurstBalanceDraining")
    assert depletion.alerted_at_s == first.at_s
    assert not depletion.is_surprise
    assert depletion.lead_s == depletion.empty_at_s - first.at_s > 30 * 60
    assert not depletion.is_prevented
    assert dict(item.refused) == {"fleet_cap": 1}
    assert item.stalls.recorded == item.stalls.remaining > 200


def test_the_extra_cost_on_target_is_charged_by_the_hour():
    minutes = 12 * 60
    recording = simulated(lambda nth: 1_800.0 if 60 <= nth < 115 else 20.0, minutes)
    policy = Policy(flip=FlipPolicy(target=VolumeType.IO1), lead=TEN_MINUTES)
    setting = a_setting(minutes, policy)
    [result] = replay([recording], setting).volumes
    item = tally_volume(result, setting)
    out, back = item.modifications
    # 1,800 with a quarter of headroom: 12.50 + 2,250 * 0.065 = 158.75, gp2 10.00 a month of 730 h
    assert out.target.iops == 2_250
    assert item.usd_over_gp2 == pytest.approx(148.75 / 730 * (back.started_at_s - out.started_at_s) / 3600)
    assert item.usd_watching == pytest.approx(result.metrics_read * 0.00001)


def test_totals_are_the_sums():
    result = [
        replay_recording(a_recording([0.0] * 20, [300.0] * 20)),
        replay_recording(a_recording([90.0] * 20, [300.0] * 20)),
    ]
    total = sum_tallies(result, [], 5)
    assert total.volumes == 2
    assert total.stalls == Stalls(recorded=20)
    assert total.usd_watching == pytest.approx(0.00005)
    assert total.least_lead_s is None
