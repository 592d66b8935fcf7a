"""How a modification goes in simulated time: states, performance, credits.

With ``TEN_S_A_PERCENT`` a 100 GiB volume is 60 s in modifying and 1,000 s in optimizing, 10 s a percent.
"""

from datetime import timedelta

import pytest

from burstlab.fake_aws.cloudwatch.volume_metrics import read_datapoints
from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.fleet import FleetError, LabFleet, LabSettings
from burstlab.model.modification import Modification, VolumeSpec
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

START_S = int(START.timestamp())
TEN_S_A_PERCENT = {"modifying_s": 60, "modify_minutes_per_tib": 1024 / 6, "modify_spread": 0}
OPTIMIZING_S, COMPLETED_S = 60, 1_060


def a_fleet(**chosen):
    return LabFleet(LabClock.manual(START), LabSettings(**TEN_S_A_PERCENT | chosen))


def a_volume(fleet, size_gib=100, **fields):
    return fleet.add(LabVolume(size_gib=size_gib, **fields))


def at(fleet, seconds):
    """Let time pass until this many seconds after the start."""
    fleet.clock.advance(seconds - (fleet.clock.now_s() - START_S))


def balances(fleet, volume_id):
    """The minutes of BurstBalance that were published, as {minutes since the start: value}."""
    result = read_datapoints(
        fleet.find(volume_id),
        "BurstBalance",
        "Minimum",
        period_s=60,
        from_s=START_S,
        to_s=START_S + 86_400,
        now_s=fleet.clock.now_s(),
        settings=fleet.settings,
    )
    return {
        (start_s - START_S) // 60: value
        for start_s, value in zip(result.starts_s, result.values, strict=True)
    }


# -------------------------------------------------------------------------------------------------- states


LIFECYCLE = [
    (0, "modifying", 0, None),
    (59, "modifying", 0, None),
    (60, "optimizing", 0, None),
    (69, "optimizing", 0, None),
    (70, "optimizing", 1, None),
    (560, "optimizing", 50, None),
    (1_059, "optimizing", 99, None),
    (1_060, "completed", 100, 1_060),
    (9_999, "completed", 100, 1_060),
]


@pytest.mark.parametrize(("seconds", "state", "progress_pct", "ended_s"), LIFECYCLE)
def test_a_modification_goes_from_modifying_through_optimizing_to_completed(
    seconds, state, progress_pct, ended_s
):
    fleet = a_fleet()
    volume_id = a_volume(fleet)
    fleet.modify(volume_id, volume_type="gp3", iops=4_000, throughput_mib_s=200)
    at(fleet, seconds)
    (modification,) = fleet.modifications(volume_id)
    assert modification == Modification(
        state=state,
        original=VolumeSpec(volume_type="gp2", size_gib=100, iops=300),
        target=VolumeSpec(volume_type="gp3", size_gib=100, iops=4_000, throughput_mib_s=200),
        started_at=START,
        ended_at=None if ended_s is None else START + timedelta(seconds=ended_s),
        progress_pct=progress_pct,
    )


# 360 minutes for 1 TiB: 360 * 60 * GiB / 1024 seconds, counting 16 GiB at least and 4 TiB at most
DURATIONS = [(1, 337.5), (16, 337.5), (128, 2_700), (1_024, 21_600), (4_096, 86_400), (16_384, 86_400)]


@pytest.mark.parametrize(("size_gib", "optimizing_s"), DURATIONS)
def test_how_long_it_takes_depends_on_the_size(size_gib, optimizing_s):
    fleet = LabFleet(LabClock.manual(START), LabSettings(modify_spread=0))
    volume_id = a_volume(fleet, size_gib)
    fleet.modify(volume_id, volume_type="gp3")
    change = fleet.find(volume_id).change
    assert change.optimizing_at_s == START_S + 60
    assert change.ends_at_s - change.optimizing_at_s == pytest.approx(optimizing_s, abs=0.5)


def test_how_long_it_takes_varies_from_one_to_the_next_and_is_the_same_by_seed():
    def lasting(seed):
        fleet = LabFleet(LabClock.manual(START), LabSettings(seed=seed))
        ids = fleet.add_all([LabVolume(size_gib=1_024)] * 30)
        for volume_id in ids:
            fleet.modify(volume_id, volume_type="gp3")
        return [change.ends_at_s - change.optimizing_at_s for change in fleet.changes_in_progress()]

    assert lasting(1) == lasting(1) != lasting(2)
    assert len(set(lasting(1))) > 20
    assert 10_800 <= min(lasting(1)) <= max(lasting(1)) <= 21_600


def test_without_any_duration_it_is_completed_at_once():
    fleet = a_fleet(modifying_s=0, modify_minutes_per_tib=0)
    volume_id = a_volume(fleet)
    assert fleet.modify(volume_id, volume_type="gp3").state == "completed"
    assert fleet.find(volume_id).volume_type == "gp3"
    assert [event.result for event in fleet.events] == ["modifying", "optimizing", "completed"]


def test_a_stuck_modification_stays_at_99_percent_until_ended():
    fleet = a_fleet(modify_outcome="stuck")
    volume_id = a_volume(fleet)
    fleet.modify(volume_id, volume_type="gp3")
    at(fleet, 30 * 86_400)
    (modification,) = fleet.modifications(volume_id)
    assert (modification.state, modification.progress_pct) == ("optimizing", 99)
    assert fleet.end_modification(volume_id).state == "completed"
    assert fleet.find(volume_id).volume_type == "gp3"
    with pytest.raises(FleetError, match="has no modification in progress"):
        fleet.end_modification(volume_id)
    with pytest.raises(FleetError, match="cannot end as 'optimizing': give completed or failed"):
        fleet.end_modification(volume_id, "optimizing")


# half of 1,000 s; early: at the end of modifying
FAILURES = [
    ("failed", 560, 50, ["modifying", "optimizing", "failed"]),
    ("failed_early", 60, 0, ["modifying", "failed"]),
]


@pytest.mark.parametrize(("outcome", "ends_s", "progress_pct", "states"), FAILURES)
def test_a_failed_modification_leaves_the_volume_unchanged_and_can_be_retried(
    outcome, ends_s, progress_pct, states
):
    fleet = a_fleet(modify_outcome=outcome)
    volume_id = a_volume(fleet, load="steady:3000", balance_pct=0)
    fleet.modify(volume_id, volume_type="gp3")
    at(fleet, ends_s - 1)
    assert not fleet.modifications(volume_id)[0].has_ended
    at(fleet, ends_s)
    (modification,) = fleet.modifications(volume_id)
    assert (modification.state, modification.progress_pct) == ("failed", progress_pct)
    assert "failed" in modification.status_message
    assert modification.ended_at == START + timedelta(seconds=ends_s)
    assert fleet.find(volume_id).spec == VolumeSpec(volume_type="gp2", size_gib=100, iops=300)
    assert fleet.truth(volume_id).ceiling_iops == 300
    assert [event.result for event in fleet.events] == states
    fleet.modify(volume_id, volume_type="gp3")
    assert len(fleet.modifications(volume_id)) == 2


def test_a_new_size_is_there_from_optimizing_on_and_stays_when_the_rest_fails():
    fleet = a_fleet(modify_outcome="failed")
    volume_id = a_volume(fleet)
    fleet.modify(volume_id, size_gib=200, volume_type="gp3")
    at(fleet, 59)
    assert fleet.find(volume_id).size_gib == 100
    at(fleet, 60)
    assert fleet.find(volume_id).size_gib == 200
    at(fleet, 5_000)
    assert fleet.find(volume_id).spec == VolumeSpec(volume_type="gp2", size_gib=200, iops=600)


def test_a_modification_may_be_ended_early_by_hand_either_way():
    fleet = a_fleet()
    item, other = a_volume(fleet), a_volume(fleet)
    for volume_id in (item, other):
        fleet.modify(volume_id, volume_type="gp3")
    at(fleet, 30)
    assert fleet.end_modification(item, "failed").state == "failed"
    assert fleet.end_modification(other).state == "completed"
    at(fleet, 5_000)
    assert (fleet.find(item).volume_type, fleet.find(other).volume_type) == ("gp2", "gp3")
    assert [(event.volume_id == item, event.result) for event in fleet.events] == [
        (True, "modifying"),
        (False, "modifying"),
        (True, "failed"),
        (False, "optimizing"),
        (False, "completed"),
    ]


# -------------------------------------------------------------------------------------------- performance


EMPTY, FULL = {"balance_pct": 0}, {}
# (setting, from, to, then the most it serves: at acceptance, at 50 % of optimizing, when completed)
UPLIFTS = [
    # 300 without credits; 300 + (3,000 - 300) / 2 = 1,650
    ("accepted", EMPTY, {"volume_type": "gp3", "iops": 3_000}, (3_000, 3_000, 3_000)),
    ("linear", EMPTY, {"volume_type": "gp3", "iops": 3_000}, (300, 1_650, 3_000)),
    ("completed", EMPTY, {"volume_type": "gp3", "iops": 3_000}, (300, 300, 3_000)),
    # 3,000 with credits: nothing is lost on the way; down to 1,000 at most in proportion
    ("linear", FULL, {"volume_type": "gp3", "iops": 3_000}, (3_000, 3_000, 3_000)),
    ("linear", FULL, {"volume_type": "io1", "iops": 1_000}, (3_000, 2_000, 1_000)),
    ("accepted", FULL, {"volume_type": "io1", "iops": 1_000}, (1_000, 1_000, 1_000)),
    ("completed", FULL, {"volume_type": "io1", "iops": 1_000}, (3_000, 3_000, 1_000)),
    # a larger gp2: 300 to 900
    ("linear", EMPTY, {"size_gib": 300}, (300, 600, 900)),
]


@pytest.mark.parametrize(("uplift", "original", "changes", "expected"), UPLIFTS)
def test_performance_on_the_way_lies_between_what_it_was_and_what_it_becomes(
    uplift, original, changes, expected
):
    # three times the size takes three times as long: what is compared is the middle and the end
    fleet = a_fleet(uplift=uplift)
    volume_id = a_volume(fleet, **original)
    fleet.modify(volume_id, **changes)
    fleet.set_balance(volume_id, original.get("balance_pct", 100))
    ceilings = [fleet.truth(volume_id).ceiling_iops]
    change = fleet.find(volume_id).change
    for moment_s in ((change.optimizing_at_s + change.work_done_at_s) // 2, change.ends_at_s):
        at(fleet, moment_s - START_S)
        fleet.set_balance(volume_id, original.get("balance_pct", 100))
        ceilings.append(fleet.truth(volume_id).ceiling_iops)
    assert tuple(ceilings) == expected


# back from gp3 with 16,000: towards a burst of 3,000 where there are credits, else towards 300
RETURNS = [("kept", 100, 9_500), ("reset", 0, 9_500), ("kept", 0, 8_150), ("emptied", 100, 8_150)]


@pytest.mark.parametrize(("balance_after", "balance_pct", "half_way_iops"), RETURNS)
def test_while_returning_to_gp2_a_burst_counts_if_credits_are_expected(
    balance_after, balance_pct, half_way_iops
):
    fleet = a_fleet(balance_after=balance_after)
    volume_id = a_volume(fleet, volume_type="gp3", iops=16_000, balance_pct=balance_pct)
    fleet.modify(volume_id, volume_type="gp2")
    at(fleet, 560)
    assert fleet.truth(volume_id).ceiling_iops == half_way_iops
    assert fleet.truth(volume_id).credits == balance_pct * 54_000


def test_demand_is_served_as_far_as_the_volume_has_advanced():
    # empty at 300; percent p lasts 10 s and serves 300 + 27 p: 60 * 300 + 10 * (100 * 300 + 27 * 4,950)
    fleet = a_fleet()
    volume_id = a_volume(fleet, load="steady:5000", balance_pct=0)
    fleet.modify(volume_id, volume_type="gp3", iops=3_000)
    at(fleet, COMPLETED_S)
    assert 5_000 * COMPLETED_S - fleet.truth(volume_id).lost_ops == pytest.approx(1_654_500)
    at(fleet, COMPLETED_S + 10)
    assert fleet.truth(volume_id).served_iops == 3_000


# ------------------------------------------------------------------------------------------------- credits


def test_while_leaving_gp2_the_bucket_pays_only_for_what_the_new_type_does_not_serve():
    # 60 s at 2,700; then 10 s each at 2,700 - 27 p: 162,000 + 10 * 27 * (10,000 - 4,950) = 1,525,500
    fleet = a_fleet()
    volume_id = a_volume(fleet, load="steady:3000")
    fleet.modify(volume_id, volume_type="gp3", iops=3_000)
    at(fleet, COMPLETED_S)
    assert fleet.truth(volume_id).credits == pytest.approx(5_400_000 - 1_525_500)
    at(fleet, 2 * COMPLETED_S)
    assert fleet.truth(volume_id).credits == pytest.approx(5_400_000 - 1_525_500)


def test_while_leaving_gp2_an_idle_bucket_earns_at_its_own_baseline():
    # 1,060 s * 300 = 318,000
    fleet = a_fleet()
    volume_id = a_volume(fleet, balance_pct=50)
    fleet.modify(volume_id, volume_type="gp3", iops=16_000)
    at(fleet, 5_000)
    assert fleet.truth(volume_id).credits == 2_700_000 + 318_000


# at 50 % for an hour: 3,600 * 300 = 1,080,000 credits = 20 %
RETURN_CASES = [("kept", 50), ("refilled", 70), ("reset", 100), ("emptied", 0)]


@pytest.mark.parametrize(("balance_after", "balance_pct"), RETURN_CASES)
def test_the_balance_after_coming_back_to_gp2_is_chosen(balance_after, balance_pct):
    fleet = a_fleet(balance_after=balance_after, uplift="accepted", balance_switches="accepted")
    volume_id = a_volume(fleet, balance_pct=50)
    fleet.modify(volume_id, volume_type="io1", iops=1_000)
    at(fleet, 3_600)
    assert fleet.truth(volume_id).burst_balance_pct == 50
    fleet.modify(volume_id, volume_type="gp2")
    assert fleet.truth(volume_id).burst_balance_pct == balance_pct


@pytest.mark.parametrize(("balance_after", "balance_pct"), RETURN_CASES)
def test_by_default_the_bucket_is_back_when_the_return_is_completed(balance_after, balance_pct):
    # away from 1,060 to 3,600 + 1,060 s: an hour again; 1,060 s at 300 earned while leaving are spent first
    fleet = a_fleet(balance_after=balance_after)
    volume_id = a_volume(fleet, balance_pct=50, load="steady:300")
    fleet.modify(volume_id, volume_type="io1", iops=1_000)
    at(fleet, 3_600)
    fleet.modify(volume_id, volume_type="gp2")
    at(fleet, 3_600 + COMPLETED_S - 1)
    assert fleet.truth(volume_id).burst_balance_pct == 50
    at(fleet, 3_600 + COMPLETED_S)
    assert fleet.truth(volume_id).burst_balance_pct == balance_pct


def test_a_failed_return_gives_no_credits():
    fleet = a_fleet(uplift="accepted", balance_after="reset", balance_switches="accepted")
    volume_id = a_volume(fleet, balance_pct=50, load="steady:300")
    fleet.change_settings(modify_outcome="failed")
    fleet.modify(volume_id, volume_type="gp3")
    at(fleet, 5_000)
    assert fleet.truth(volume_id).burst_balance_pct == 50


RESIZES = [("kept", 50), ("reset", 100), ("emptied", 0)]


@pytest.mark.parametrize(("after_resize", "balance_pct"), RESIZES)
def test_the_balance_after_a_resize_is_chosen(after_resize, balance_pct):
    fleet = a_fleet(balance_after_resize=after_resize, uplift="completed")
    volume_id = a_volume(fleet, balance_pct=50, load="steady:300")
    fleet.modify(volume_id, size_gib=101)
    at(fleet, 1_069)
    assert fleet.truth(volume_id).burst_balance_pct == 50
    at(fleet, 1_070)
    assert fleet.truth(volume_id).burst_balance_pct == balance_pct


# the minutes from which on there is no balance, and one again; the way back starts at 30
SWITCHES = [("accepted", 0, 30), ("optimizing", 1, 31), ("completed", 18, 47)]


@pytest.mark.parametrize(("switches", "gone", "back"), SWITCHES)
def test_the_balance_is_published_only_while_the_volume_counts_as_gp2(switches, gone, back):
    # completed after 17 min 40 s: the minute in which it ends is published in part
    fleet = a_fleet(balance_switches=switches)
    volume_id = a_volume(fleet, load="steady:300")
    fleet.modify(volume_id, volume_type="gp3")
    at(fleet, 1_800)
    fleet.modify(volume_id, volume_type="gp2")
    at(fleet, 3_600)
    assert set(balances(fleet, volume_id)) == {*range(gone), *range(back, 60)}


def test_a_detached_volume_is_modified_as_well_and_its_bucket_earns_until_then():
    fleet = a_fleet()
    volume_id = a_volume(fleet, attached=False, balance_pct=50)
    fleet.modify(volume_id, volume_type="gp3")
    at(fleet, 5_000)
    assert fleet.find(volume_id).volume_type == "gp3"
    assert fleet.truth(volume_id).credits == 2_700_000 + COMPLETED_S * 300


def test_the_polling_frequency_makes_no_difference():
    def course(step_s):
        fleet = a_fleet()
        volume_id = a_volume(fleet, load="docker-loop*4", balance_pct=20)
        fleet.modify(volume_id, volume_type="gp3", iops=3_000)
        for _ in range(5_400 // step_s):
            fleet.clock.advance(step_s)
            fleet.truth(volume_id)
        truth = fleet.truth(volume_id)
        return [truth.credits, truth.lost_ops, truth.stalled_s, *balances(fleet, volume_id).values()]

    assert course(7 * 60 + 30) == pytest.approx(course(5_400), abs=1e-3)
    assert course(9) == pytest.approx(course(5_400), abs=1e-3)


# ----------------------------------------------------------------------------------------- settings, others


def test_rules_can_be_changed_while_the_fleet_lives_and_hold_for_what_comes():
    fleet = a_fleet()
    old, new = a_volume(fleet), a_volume(fleet)
    fleet.modify(old, volume_type="gp3")
    assert fleet.change_settings(modify_outcome="stuck", modify_needs_tag=["a", "b"]).modify_needs_tag == (
        "a",
        "b",
    )
    fleet.modify(new, volume_type="gp3")
    at(fleet, 5_000)
    assert [fleet.modifications(volume_id)[0].state for volume_id in (old, new)] == [
        "completed",
        "optimizing",
    ]


BAD_CHANGES = [
    ({"balance_after": "gone"}, "balance_after is 'gone': give one of kept, refilled, reset, emptied"),
    ({"modify_spread": 2}, "modify_spread is 2: give a share, 0 to 1"),
    ({"modify_minutes_per_tib": "6"}, "modify_minutes_per_tib is '6': it must be float"),
    ({"modify_minutes_per_tib": -6}, "modify_minutes_per_tib is -6: give a number, 0 or more"),
    ({"io1_iops_quota": True}, "io1_iops_quota is True: it must be int"),
    ({"modify_needs_tag": ["a"]}, "modify_needs_tag is \\['a'\\]: it must be tuple\\[str, str\\] | None"),
    ({"modify_event_results": ["done"]}, "modify_event_results is 'done': give one of modifying,"),
    ({"lose_event_every": 0}, "lose_event_every is 0: give 1"),
    ({"seed": 7}, "seed cannot be changed while the fleet lives"),
    ({"colour": "red"}, "there is no setting colour: give some of filter_after_page,"),
]


@pytest.mark.parametrize(("changes", "complaint"), BAD_CHANGES)
def test_an_invalid_setting_is_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        a_fleet().change_settings(**changes)


def test_a_declared_modification_counts_like_one_that_was():
    fleet = a_fleet()
    volume_id = a_volume(fleet)
    shape = fleet.find(volume_id).spec
    declared = Modification(state="optimizing", original=shape, target=shape, started_at=START)
    fleet.set_modification(volume_id, declared)
    with pytest.raises(AwsError, match="in modification state OPTIMIZING"):
        fleet.modify(volume_id, volume_type="gp3")
    fleet.set_modification(volume_id, None)
    assert fleet.modifications(volume_id) == []
    fleet.modify(volume_id, volume_type="gp3")


def test_a_volume_that_is_removed_while_it_is_modified_is_forgotten():
    fleet = a_fleet()
    volume_id = a_volume(fleet)
    fleet.modify(volume_id, volume_type="gp3")
    fleet.remove(volume_id)
    at(fleet, 5_000)
    assert fleet.changes_in_progress() == []
    assert [(event.name, event.result) for event in fleet.events] == [
        ("modifyVolume", "modifying"),
        ("deleteVolume", "deleted"),
    ]
