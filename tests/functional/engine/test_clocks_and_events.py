"""Clocks that jump, sleep and change for the summer, and events that come late, twice, or out of order.

What is wrong with a single tick or event is tested with its function. Tested here is what is left of it
afterwards, on a ledger of each kind where the ledger is what must hold.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.wiring.bootstrap import ClockError
from support.builders.functions import a_message, failed_message_ids, to_instant
from support.cli.cli_session import count_modify_calls, modification_targets
from support.ledger.ledger_stores import each_ledger
from support.scenario.clock_scenario import FAST_POLICY, VOLUME, ClockScenario, add_flip_candidate

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
CALM = "vol-00000000000000002"


# Clocks


def test_after_three_hours_of_sleep_every_volume_is_evaluated_and_the_gap_reported(world):
    """100 GiB at 3,000 IOPS are empty after 33 minutes; no one was there to flip it."""
    world.add(mode="propose")
    world.add(CALM)
    world.advance(600)
    world.ticks(6)
    world.fleet.set_load(VOLUME, "steady:3000")
    world.advance(3 * 3600)
    report = world.tick()
    assert world.evaluated_volumes(report) == {VOLUME, CALM}
    assert world.kinds() == [AlertKind.EXHAUSTED]
    world.ticks(2)
    assert world.kinds() == [AlertKind.EXHAUSTED]


def test_a_window_that_began_while_the_machine_slept_is_met_late_and_that_is_reported():
    windows = {"release": {"from": "2026-11-20T13:00Z", "to": "2026-11-20T17:00Z"}}
    with SqliteLedger.in_memory() as ledger:
        world = ClockScenario(ledger, windows=windows)
        world.add(mode="auto", target="io1", window="release")
        world.ticks(6)
        world.advance(3 * 3600)
        world.tick()
        assert [volume_type for volume_type, _ in world.modification_targets()] == ["io1"]
        assert AlertKind.WINDOW_MISSED in world.kinds()
        world.ticks(150)
        assert [volume_type for volume_type, _ in world.modification_targets()] == ["io1", "gp2"]


def test_a_window_that_began_long_ago_is_reported_as_missed_once():
    windows = {"freeze": {"from": "2026-11-01T00:00Z", "to": "2026-12-20T00:00Z"}}
    with SqliteLedger.in_memory() as ledger:
        world = ClockScenario(ledger, windows=windows)
        world.add(window="freeze")
        world.ticks(90)
        assert world.kinds().count(AlertKind.WINDOW_MISSED) == 1


STEPS_S = [0, -3, 3, -45, 45, -90, 90, -2, 2, 0]


@each_ledger
@pytest.mark.parametrize("every_s", [60, 20])
def test_clock_steps_of_seconds_lose_no_tick_and_repeat_no_alert(ledger, every_s):
    """A volume in focus is due every minute: it is looked at every two minutes at the least."""
    world = ClockScenario(ledger)
    world.add(load="steady:3000", balance_pct=60, mode="propose")
    world.advance(600)
    looked_at_s = [world.fleet.clock.now_s()]
    for number in range(15 * 60 // every_s):
        world.advance(every_s)
        report = world.tick(STEPS_S[number * every_s // 60 % len(STEPS_S)])
        if VOLUME in world.evaluated_volumes(report):
            looked_at_s.append(world.fleet.clock.now_s())
    assert max(after - before for before, after in pairwise(looked_at_s)) <= 240
    assert len({alert.alert_id for alert in world.alerts}) == len(world.alerts)
    ranks = [alert.level.rank for alert in world.alerts]
    assert ranks == sorted(set(ranks))


class SkewedClock:
    """EC2 as a machine meets it whose clock is wrong: its first answer says so."""

    def __getattr__(self, name):
        def answer(**_):
            raise ClockError("this machine's clock is 60 min off")

        return answer


@each_ledger
@pytest.mark.parametrize("off_s", [3600, -3600], ids=["ahead", "behind"])
def test_a_machine_an_hour_off_leaves_nothing_that_holds_up_the_right_ones(ledger, off_s):
    """It claims its ticks, and is stopped by the first answer of EC2; the others go on as if alone."""
    world = ClockScenario(ledger)
    world.add(load="steady:3000", balance_pct=40, mode="auto")
    wrong = replace(world.shell, ec2=Ec2Reader(SkewedClock()))
    for _ in range(12):
        world.advance()
        with pytest.raises(ClockError):
            world.tick(off_s, shell=wrong)
        assert VOLUME in world.evaluated_volumes(world.tick()) or world.modification_targets()
    assert [volume_type for volume_type, _ in world.modification_targets()] == ["gp3"]
    assert world.kinds().count(AlertKind.FLIPPED) == 1
    assert ledger.fleet_snapshot().tick_at_s == int(world.fleet.clock.now_s()) // 300 * 300


@each_ledger
@pytest.mark.parametrize("kind", TickKind)
@pytest.mark.parametrize(("behind_s", "is_free"), [(0.001, False), (0.5, False), (5.0, False), (5.5, True)])
def test_clocks_that_agree_within_seconds_heed_each_others_claims(ledger, kind, behind_s, is_free):
    """Claimed at 100 for 50 s, by a clock that is that much ahead of the next one's."""
    assert ledger.claim_tick(kind, 60, now_s=100, lease_s=50)
    assert ledger.claim_tick(kind, 60, now_s=100 - behind_s, lease_s=50) is is_free


@each_ledger
def test_a_claim_does_not_last_longer_because_clocks_may_differ(ledger):
    """Who died in its tick holds it for the lease; the next tick is free all the while."""
    assert ledger.claim_tick(TickKind.FOCUS, 60, now_s=100, lease_s=50)
    assert not ledger.claim_tick(TickKind.FOCUS, 60, now_s=149.9, lease_s=50)
    assert ledger.claim_tick(TickKind.FOCUS, 60, now_s=150, lease_s=50)
    assert ledger.claim_tick(TickKind.FOCUS, 120, now_s=151, lease_s=50)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "day", "cron", "start", "end"),
    [
        # 02:30 comes twice in Berlin: the first one counts, and an hour later it is 02:30 again
        pytest.param(BERLIN, "SUN", "30 2", "2026-10-25T00:30", "2026-10-25T01:30", id="doubled-berlin"),
        # 02:30 does not come at all: the window begins when the clocks show 03:00
        pytest.param(BERLIN, "SUN", "30 2", "2027-03-28T01:00", "2027-03-28T02:00", id="skipped-berlin"),
        pytest.param(NEW_YORK, "SUN", "30 1", "2026-11-01T05:30", "2026-11-01T06:30", id="doubled-new-york"),
        pytest.param(NEW_YORK, "SUN", "30 2", "2027-03-14T07:00", "2027-03-14T08:00", id="skipped-new-york"),
    ],
)
def test_a_window_in_the_hour_that_changes_is_met_once_and_in_time(zone, day, cron, start, end):
    windows = {"night": {"cron": f"{cron} * * {day}", "zone": zone, "duration": "1h"}}
    start_at, end_at = utc(start), utc(end)
    with SqliteLedger.in_memory() as ledger:
        world = ClockScenario(ledger, start_at - timedelta(minutes=50), windows=windows)
        world.add(mode="auto", target="io1", window="night")
        world.ticks(50 + 60 + 120)
    (out, out_at), (back, back_at) = world.modification_targets()
    assert (out, back) == ("io1", "gp2")
    assert start_at - timedelta(minutes=20) <= out_at < start_at
    assert world.fleet.modifications(VOLUME)[0].ended_at <= start_at
    assert end_at <= back_at <= end_at + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("hours", "begins", "opens"),
    [
        # Open from the first 02:30 on
        pytest.param("sun 02:30-04:00", "2026-10-24T23:50", "2026-10-25T00:30", id="doubled"),
        # 02:30 is skipped, and means 03:00
        pytest.param("sun 02:30-04:00", "2027-03-28T00:20", "2027-03-28T01:00", id="skipped"),
        # Closed at 02:00 by the first of two: the second 02:00 is no longer in them
        pytest.param("sun 01:00-02:00", "2026-10-25T00:10", "2026-11-01T00:00", id="doubled-and-over"),
    ],
)
def test_change_hours_open_and_close_by_the_clocks_of_their_zone(hours, begins, opens):
    """A critical volume must off gp2 at once, if only it may."""
    flip = {**FAST_POLICY["flip"], "change_hours": f"{hours} {BERLIN}"}
    begins_at, opens_at = utc(begins), utc(opens)
    with SqliteLedger.in_memory() as ledger:
        world = ClockScenario(ledger, begins_at, flip=flip)
        world.add(mode="auto", critical="true")
        world.ticks(100)
        [refused] = [alert for alert in world.alerts if alert.kind is AlertKind.FLIP_REFUSED]
    assert to_instant(opens_at.timestamp()) in str(refused.to_document())
    lasts_until = begins_at + timedelta(minutes=100)
    moved_at = [at for _, at in world.modification_targets()]
    if opens_at > lasts_until:
        assert moved_at == []
    else:
        assert [opens_at <= at <= opens_at + timedelta(minutes=5) for at in moved_at] == [True]


# Events


@pytest.mark.parametrize("late", [timedelta(hours=3), timedelta(days=7)], ids=str)
@pytest.mark.parametrize("mode", ["sweep", "focus"])
def test_an_old_tick_requests_no_flip(functions, deployed_lab, mode, late):
    add_flip_candidate(deployed_lab)
    output = functions.watch(mode, time=to_instant(deployed_lab.clock.now_s() - late.total_seconds()))
    assert output.metrics["LateTicks"] == 1
    assert (functions.requested_flips(), functions.alert_kinds(), functions.ledger.states()) == ([], [], {})
    functions.watch("sweep")
    assert functions.alert_kinds() == ["CriticalVolumeOnBurstStorage"]
    assert len(functions.requested_flips()) == 1


@pytest.mark.parametrize("late", [timedelta(days=1), timedelta(days=4)], ids=str)
def test_a_request_that_the_queue_brings_again_much_later_is_dropped(
    functions, deployed_lab, flip_candidate, late
):
    """SQS keeps a message for four days; by then its volume was looked at many times."""
    records = functions.requests()
    deployed_lab.clock.advance(late.total_seconds())
    functions.end_invocation()
    output = functions.flip(records)
    assert (count_modify_calls(deployed_lab), failed_message_ids(output)) == (0, set())
    assert "too long ago to be needed" in " ".join(output.warnings)


@pytest.mark.parametrize("is_over", [False, True], ids=["under way", "over"])
def test_a_request_that_comes_again_after_the_queues_five_minutes_is_one_modification(
    functions, deployed_lab, flip_candidate, is_over
):
    """FIFO queues know a repeat for five minutes; the ledger does for as long as it matters."""
    [record] = functions.requests()
    functions.flip([record])
    if is_over:
        deployed_lab.fleet.end_modification(flip_candidate)
    deployed_lab.clock.advance(5 * 60 + 30)
    output = functions.flip([a_message(record["body"], group=flip_candidate)])
    assert (
        count_modify_calls(deployed_lab),
        modification_targets(deployed_lab, flip_candidate),
        failed_message_ids(output),
    ) == (1, ["gp3"], set())
    assert "Flips" not in output.metrics


def test_requests_of_two_ticks_that_arrive_in_reverse_are_one_modification(
    functions, deployed_lab, flip_candidate
):
    [first] = functions.requests()
    later = first["body"].replace(
        to_instant(deployed_lab.clock.now_s()), to_instant(deployed_lab.clock.now_s() + 60)
    )
    assert later != first["body"]
    deployed_lab.clock.advance(60)
    functions.flip([a_message(later, group=flip_candidate)])
    functions.flip([first])
    assert (count_modify_calls(deployed_lab), modification_targets(deployed_lab, flip_candidate)) == (
        1,
        ["gp3"],
    )


def test_events_of_last_week_do_not_affect_the_flip_of_today(functions, deployed_lab, flip_candidate):
    """EBS's event about the first modification is delivered again while the second one is under way."""
    functions.flip()
    deployed_lab.fleet.end_modification(flip_candidate)
    deployed_lab.clock.advance(2)
    events = [event.body for event in deployed_lab.fleet.events if event.volume_id == flip_candidate]
    functions.settle(events[-1])
    deployed_lab.clock.advance(7 * 24 * 3600)
    deployed_lab.fleet.modify(flip_candidate, volume_type="io1", iops=3000)
    deployed_lab.clock.advance(120)
    functions.settle(events[-1])
    history = functions.history(flip_candidate)
    for event in [*events, *reversed(events)]:
        functions.settle(event)
    assert functions.history(flip_candidate) == history
    assert (count_modify_calls(deployed_lab), functions.requested_flips()) == (1, [])
