"""What was recorded, replayed: balances, stalls and dollars by hand, and nothing lost by skipping."""

import random
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isnan, nan

import pytest

from burstctl.backtest.recorded_volume import RecordedVolume, World
from burstctl.backtest.recording import Recording, Track, record, with_only
from burstctl.backtest.replay import (
    Lived,
    Setting,
    is_calm_throughout,
    leave_calm,
    replay,
)
from burstctl.backtest.scoring import Stalls, sum_tallies, tally
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.usage import History
from burstwatch.core.ebs.volume import BUCKET_CREDITS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import FlipPolicy, Policy
from burstwatch.core.policy.windows import LeadPolicy

T0 = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
GP2 = Configuration(volume_type=VolumeType.GP2)
IO1 = Configuration(volume_type=VolumeType.IO1, iops=3_000)
TEN_MINUTES = LeadPolicy(least=timedelta(minutes=10), per_tib=timedelta(0))


def minute(nth: float) -> int:
    return T0 + int(nth * 60)


def a_volume(size_gib=100, number=1, **given) -> Volume:
    known = {
        "volume_id": f"vol-0{number:016x}",
        "volume_type": "gp2",
        "size_gib": size_gib,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "attached": True,
        "instance_id": f"i-{number}",
        "tags": {"burstwatch:mode": "auto"},
    }
    return Volume(**(known | given))


def a_recording(balance, iops, *, volume=None) -> Recording:
    """From midnight on; all operations are reads."""
    reads = array("d", [each * 60 for each in iops])
    writes = array("d", [nan if isnan(each) else 0.0 for each in iops])
    return Recording(
        volume=volume or a_volume(),
        balance=Track(T0, array("d", balance)),
        reads=Track(T0, reads),
        writes=Track(T0, writes),
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


def a_setting(minutes, policy=None, **given) -> Setting:
    """The watch begins after half an hour, as it does after two in earnest: its first look has a past."""
    known = {
        "policy": policy or Policy(),
        "place": Place(region="us-east-1"),
        "lag_s": 120,
        "start_s": minute(30),
        "end_s": minute(minutes),
    }
    return Setting(**(known | given))


def pcts(series: Series) -> list[tuple[int, float]]:
    """Each minute by its number."""
    return [
        ((at_s - T0) // 60, round(pct, 2)) for at_s, pct in zip(series.starts_s, series.values, strict=True)
    ]


# -- recordings


def test_a_track_has_gaps_and_ends():
    track = Track(T0, array("d", [1.0, nan, 3.0]))
    assert track.at(minute(0)) == 1.0
    assert track.at(minute(1)) is None
    assert track.at(minute(-1)) is None
    assert track.at(minute(3)) is None
    assert track.between(minute(-5), minute(5)) == Series((minute(0), minute(2)), (1.0, 3.0))
    assert track.between(minute(0), minute(1)) == Series((minute(0),), (1.0,))
    assert track.between(minute(3), minute(9)) == Series()


def test_five_minutes_are_drawn_out_to_minutes_falling_to_their_least_and_rising_from_it():
    # least 100, then 90 (it fell by 2 a minute), then 95 (from 90 it rises by 1 a minute, if flat before)
    history = History(
        period_s=300,
        balance=Series((minute(0), minute(5), minute(10)), (100.0, 90.0, 95.0)),
        read_ops=Series((minute(0),), (300.0,)),
        write_ops=Series((minute(0),), (600.0,)),
    )
    found = record(a_volume(), history, minute(0), minute(20))
    assert list(found.balance.values[:10]) == [100.0] * 5 + [98.0, 96.0, 94.0, 92.0, 90.0]
    assert found.balance.at(minute(14)) == 95.0
    assert found.balance.at(minute(15)) is None
    assert found.served_iops(minute(4)) == (60 + 120) / 60
    assert found.served_iops(minute(5)) is None
    rising = replace(history, balance=Series((minute(0), minute(5)), (90.0, 95.0)))
    found = record(a_volume(), rising, minute(0), minute(10))
    assert list(found.balance.values[:6]) == [90.0, 91.0, 92.0, 93.0, 94.0, 95.0]


def test_a_stalled_minute_is_dry_and_serves_nine_tenths_of_the_baseline():
    # 100 GiB earn 300: from 270 on it is held back
    found = a_recording([0.0, 0.5, 0.5, 2.0, 0.0, nan], [300, 270, 269, 300, nan, 300])
    assert found.stalls(minute(0), minute(6)) == [minute(0), minute(1)]
    assert found.stalls(minute(1), minute(6)) == [minute(1)]


def test_silence_is_where_nothing_at_all_was_recorded():
    found = a_recording([100, nan, nan, nan, 100], [5, nan, nan, 5, 5])
    assert found.silence_s(minute(0)) == 0
    assert found.silence_s(minute(1.5)) == 120
    assert found.silence_s(minute(3)) == 0
    assert found.silence_s(minute(5)) > 10**6


def test_a_recording_can_be_cut():
    found = with_only(a_recording([90, 80, 70], [5, 6, 7]), minute(1), minute(2), "because")
    assert (found.balance.at(minute(0)), found.balance.at(minute(1))) == (None, 80)
    assert (found.served_iops(minute(1)), found.served_iops(minute(2))) == (6, None)
    assert found.cut_because == "because"


# -- the world


def a_world_of(recording, lead=TEN_MINUTES) -> RecordedVolume:
    [volume] = World.of([recording], lag_s=120, gap_after_s=1800, lead=lead).volumes.values()
    return volume


def test_on_its_target_there_is_no_balance_and_after_a_return_it_follows_from_the_operations():
    # flat at 50 % under its own 300; then idle: 300 * 60 / 54,000 = a third of a per cent a minute
    volume = a_world_of(a_recording([50.0] * 120, [300.0] * 50 + [0.0] * 70))
    volume.modify(IO1, minute(10))
    volume.modify(GP2, minute(40))
    found = pcts(volume.balance(T0, minute(60), minute(60)))
    assert found == [(nth, 50.0) for nth in range(20)] + [
        (nth, round(50 + (nth - 50) / 3, 2)) for nth in range(50, 60)
    ]


def test_after_a_return_it_can_run_dry_and_refills_no_further_than_full():
    # 0.3 % are 16,200 credits; 600 spends 300 a second net: 54 s
    recorded = a_recording([0.3] * 60, [300.0] * 30 + [600.0] * 30)
    volume = a_world_of(recorded)
    volume.modify(IO1, minute(0))
    volume.modify(GP2, minute(15))
    assert pcts(volume.balance(minute(29), minute(32), minute(40))) == [(29, 0.3), (30, 0.0), (31, 0.0)]


def test_when_both_are_full_it_is_again_what_was_recorded():
    # full from the return on; the recording falls later by more than its operations tell (small ones merged)
    recorded = a_recording([100.0] * 40 + [90.0] * 10, [100.0] * 50)
    volume = a_world_of(recorded)
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
    volume = a_world_of(recorded)
    volume.modify(IO1, minute(0))
    volume.modify(GP2, minute(15))
    assert pcts(volume.balance(minute(29), minute(32), minute(32))) == [(29, 50.0), (31, 50.0)]


def test_a_modification_is_told_as_aws_does_and_the_volume_shows_it_while_aws_optimizes():
    volume = a_world_of(a_recording([50.0] * 60, [300.0] * 60))
    volume.modify(IO1, minute(10))
    states = [volume.modification_at(minute(nth)).state for nth in (10, 11, 19, 20)]
    assert states == ["modifying", "optimizing", "optimizing", "completed"]
    assert volume.shown_at(minute(10)).volume_type == "gp2"
    shown = volume.shown_at(minute(11))
    assert (shown.volume_type, shown.provisioned_iops) == ("io1", 3_000)
    told = volume.modification_at(minute(15))
    assert told.original.volume_type == "gp2"
    assert told.target.configuration() == IO1
    assert told.progress_pct == 50


# -- the replay


def fleet_of_all_sorts(minutes):
    """Idle, a nightly drain, saws around the baseline, and one that is dry all the time."""
    dice = random.Random(7)
    noise = [dice.uniform(0, 900) for _ in range(minutes)]
    return [
        simulated(lambda nth: 5.0, minutes, number=1),
        simulated(lambda nth: 2_000.0 if 120 <= nth < 200 else 40.0, minutes, number=2),
        simulated(lambda nth: noise[nth // 30 * 30], minutes, number=3),
        simulated(lambda nth: 900.0, minutes, number=4, balance_pct=1.0),
    ]


def in_full(found):
    return [
        (each.recording.volume.volume_id, each.entries, each.moves, each.metrics, each.stalls)
        for each in found.volumes
    ]


def test_skipping_ticks_at_which_nothing_is_due_changes_nothing():
    minutes = 10 * 60
    policy = Policy(flip=FlipPolicy(target=VolumeType.IO1), lead=TEN_MINUTES)
    setting = a_setting(minutes, policy)
    fleet = fleet_of_all_sorts(minutes)
    slowly = replay(fleet, setting, skips=False)
    assert in_full(replay(fleet, setting)) == in_full(slowly)
    assert sum(len(each.moves) for each in slowly.volumes) > 2
    assert slowly.volumes[3].stalls


def test_a_volume_that_is_calm_throughout_needs_no_replay():
    minutes = 8 * 60
    setting = a_setting(minutes)
    fleet = fleet_of_all_sorts(minutes)
    calm, *others = fleet
    assert is_calm_throughout(calm, setting.policy)
    assert not any(is_calm_throughout(each, setting.policy) for each in others)
    replayed, *_ = replay(fleet, setting).volumes
    found = leave_calm(calm, setting)
    assert (replayed.entries, replayed.moves) == ([], [])
    assert (found.entries, found.moves) == ((), ())
    assert found.metrics == replayed.metrics > 0


@pytest.mark.parametrize(
    "given",
    [
        {"tags": {"burstwatch:critical": "true"}},
        {"tags": {"burstwatch:ignore": "true"}},
        {"tags": {"burstwatch:window": "night"}},
    ],
)
def test_what_a_tag_asks_for_is_never_calm(given):
    recording = a_recording([100.0] * 60, [5.0] * 60, volume=a_volume(**given))
    assert not is_calm_throughout(recording, Policy())


@pytest.mark.parametrize(
    "balance",
    [
        [100.0] * 30 + [96.9] + [100.0] * 30,  # it leaves calm
        [100.0] * 30 + [nan] * 6 + [100.0] * 30,  # nobody knows what was meanwhile
        [100.0, 97.1],  # 2.9 % in three minutes would be 870 a second: dry in 100 minutes, not calm by far
        [nan] * 60,
    ],
)
def test_a_balance_that_moves_or_is_missing_is_not_calm(balance):
    policy = Policy()
    if len(balance) == 2:
        levels = replace(policy.levels, warning_within=timedelta(hours=3), warning_leave=timedelta(hours=4))
        policy = replace(policy, levels=levels)
    assert not is_calm_throughout(a_recording(balance, [5.0] * len(balance)), policy)


def test_a_stopped_instance_is_no_fault_and_a_lost_balance_is_one():
    # two hours without anything; two without a balance
    hours = [100.0] * 240, [5.0] * 240
    stopped = a_recording(
        [*hours[0][:120], *[nan] * 120, *hours[0]], [*hours[1][:120], *[nan] * 120, *hours[1]]
    )
    silent = a_recording([*hours[0], *[nan] * 120], [*hours[1], *[5.0] * 120], volume=a_volume(number=2))
    first, second = replay([stopped, silent], a_setting(360)).volumes
    kinds = [[e.body["kind"] for e in each.entries if e.kind is EntryKind.ALERT] for each in (first, second)]
    assert kinds == [[], ["TelemetryGap"]]


# -- what it comes to


def lived(recording, *moves, policy=None, minutes=None):
    """The tally of a volume with these modifications, each a minute and a configuration."""
    volume = a_world_of(recording)
    for nth, target in moves:
        volume.modify(target, minute(nth))
    setting = a_setting(minutes or len(recording.balance.values), policy, start_s=T0)
    return tally(Lived(recording=recording, moves=volume.moves), setting)


def test_minutes_on_the_target_are_avoided_and_those_on_the_way_are_not():
    # dry from minute 10 to 69; out at 15, there at 25; back at 55, there at 65
    dry = [50.0] * 10 + [0.0] * 60 + [50.0] * 10
    found = lived(a_recording(dry, [300.0] * 80), (15, IO1), (55, GP2))
    assert found.stalls == Stalls(seen=60, avoided=30, eased=20, added=0)
    assert found.stalls.left == 30
    assert (found.flips, found.returns, found.is_away) == (1, 1, False)


def test_a_depletion_is_announced_by_the_first_alert_of_its_drain():
    minutes = 6 * 60
    recording = simulated(lambda nth: 1_800.0 if nth >= 60 else 40.0, minutes)
    setting = a_setting(minutes, replace(Policy(), flip=FlipPolicy(fleet_cap=0)))
    [found] = replay([recording], setting).volumes
    one = tally(found, setting)
    # 5,400,000 credits at 1,500 a second last an hour: dry (1 %) at about 02:00
    [depletion] = one.depletions
    assert abs(depletion.dry_at_s - minute(119)) <= 60
    first = next(alert for alert in one.alerts if alert.kind == "BurstBalanceDraining")
    assert depletion.alerted_at_s == first.at_s
    assert not depletion.is_surprise
    assert depletion.lead_s == depletion.dry_at_s - first.at_s > 30 * 60
    assert not depletion.prevented
    assert dict(one.refused) == {"fleet_cap": 1}
    assert one.stalls.seen == one.stalls.left > 200


def test_what_a_stay_costs_more_is_told_by_the_hour_at_the_price_of_its_plan():
    minutes = 12 * 60
    recording = simulated(lambda nth: 1_800.0 if 60 <= nth < 115 else 20.0, minutes)
    policy = Policy(flip=FlipPolicy(target=VolumeType.IO1), lead=TEN_MINUTES)
    setting = a_setting(minutes, policy)
    [found] = replay([recording], setting).volumes
    one = tally(found, setting)
    out, back = one.moves
    # 1,800 with a quarter of headroom: 12.50 + 2,250 * 0.065 = 158.75, gp2 10.00 a month of 730 h
    assert out.target.iops == 2_250
    assert one.usd_over_gp2 == pytest.approx(148.75 / 730 * (back.started_s - out.started_s) / 3600)
    assert one.usd_watching == pytest.approx(found.metrics * 0.00001)


def test_totals_are_the_sums():
    found = [lived(a_recording([0.0] * 20, [300.0] * 20)), lived(a_recording([90.0] * 20, [300.0] * 20))]
    total = sum_tallies(found, [], 5)
    assert total.volumes == 2
    assert total.stalls == Stalls(seen=20)
    assert total.usd_watching == pytest.approx(0.00005)
    assert total.least_lead_s is None
