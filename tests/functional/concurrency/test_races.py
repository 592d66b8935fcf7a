"""Several watchdogs, an operator and late ticks at once: each volume is modified once, and the caps hold."""

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from time import monotonic

import pytest

from burstctl.context.on_demand_pass import evaluate_fleet
from burstctl.flip.plan_orders import plan_orders
from burstlab.harness.effects import CHANNEL, CrashPoint, Hook, ProcessKilled, kill_process
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsFailure, FailureKind
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause, FlipStatus
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.engine.flip_executor import execute_flips
from burstwatch.engine.tick_pass import run_tick
from support.builders.states import with_fields
from support.concurrency.crash_harness import (
    a_policy,
    crashing_modifier,
)
from support.paths import ROOT

RACE_PROCESS = ROOT / "tests" / "support" / "concurrency" / "race_process.py"
SOURCES = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks", "lab", "tests"))
WORKERS = 10
SETTLED = (EntryKind.INTENT, EntryKind.NOT_DONE, EntryKind.ACCEPTED, EntryKind.REACHED)


def run_concurrently(*jobs):
    """What each job comes to, all begun at the same moment."""
    barrier = Barrier(len(jobs))

    def run(job):
        barrier.wait(timeout=60)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(run, job) for job in jobs]]


def run_all_passes(race, count: int = WORKERS):
    """This many watchdogs look at everything at the same moment."""
    workers = [race.worker() for _ in range(count)]
    jobs = [lambda worker=worker: evaluate_fleet(worker, now_s=race.now_s) for worker in workers]
    reports = run_concurrently(*jobs)
    assert [report.failures for report in reports] == [[]] * count
    return reports


def test_ten_concurrent_watchdogs_modify_and_report_each_volume_once(race):
    volume_ids = race.add_draining(5)
    reports = run_all_passes(race)
    assert race.modified(volume_ids) == dict.fromkeys(volume_ids, 1)
    assert [race.intents(volume_id) for volume_id in volume_ids] == [[WATCHDOG]] * 5
    result = Counter(
        report.outcomes[i].status for report in reports for i in volume_ids if i in report.outcomes
    )
    assert result[OutcomeStatus.FLIPPED] == 5
    assert set(result) <= {OutcomeStatus.FLIPPED, OutcomeStatus.IN_FLIGHT}
    race.fleet.clock.advance(60)
    run_all_passes(race, 1)
    assert max(Counter(race.sent_alert_ids).values()) == 1
    assert not race.ledger.pending_deliveries(channels=[CHANNEL])


def test_ten_workers_at_once_stay_within_the_fleet_cap(race):
    race.policy = a_policy(flip={"fleet_cap": "3"}, flip_back={"return": "always"})
    volume_ids = race.add_draining(8)
    run_all_passes(race)
    assert sum(race.modified(volume_ids).values()) == 3
    race.fleet.clock.advance(60)
    run_all_passes(race)
    assert sum(race.modified(volume_ids).values()) == 3


def test_ten_workers_at_once_stay_within_the_spend_cap(race):
    """io1 with 3,125 IOPS: $215.625 instead of $10. Two add $411.25, three would add $616.875."""
    race.policy = a_policy(flip={"spend_cap_usd_per_month": "600"})
    volume_ids = race.add_draining(6, target="io1")
    run_all_passes(race)
    assert sum(race.modified(volume_ids).values()) == 2
    more = [state.flip.usd_per_month for state in race.ledger.states().values() if state.flip]
    assert sum(more) == pytest.approx(411.25)


def test_an_operator_and_the_watchdog_at_once_come_to_one_modification(race):
    volume_ids = race.add_draining(6)
    watchdog, operators = race.worker(), [race.worker() for _ in volume_ids]
    jobs = [lambda v=v, w=w: race.order(w, v) for v, w in zip(volume_ids, operators, strict=True)]
    run_concurrently(lambda: evaluate_fleet(watchdog, now_s=race.now_s), *jobs)
    assert race.modified(volume_ids) == dict.fromkeys(volume_ids, 1)
    for volume_id in volume_ids:
        [by] = race.intents(volume_id)
        [use] = race.ledger.states()[volume_id].modifications.used
        assert use.by == by


def test_the_watchdog_yields_to_an_operator_who_comes_right_before_its_intent(race):
    [volume_id] = race.add_draining(1)
    operator = race.worker()
    hook = Hook(name="record_intent", action=lambda: race.order(operator, volume_id))
    report = evaluate_fleet(race.worker(CrashPoint(hooks=[hook])), now_s=race.now_s)
    assert hook.fired
    assert report.outcomes[volume_id].status is OutcomeStatus.IN_FLIGHT
    assert race.modified([volume_id]) == {volume_id: 1}
    assert race.intents(volume_id) == ["anna"]


def test_an_operator_who_comes_after_the_watchdog_takes_its_flip_over(race):
    """What she wants is under way: she says how long, and AWS is asked once."""
    [volume_id] = race.add_draining(1)
    watchdog = race.worker()
    hook = Hook(name="record_intent", action=lambda: evaluate_fleet(watchdog, now_s=race.now_s))
    outcome = race.order(race.worker(CrashPoint(hooks=[hook])), volume_id)
    assert hook.fired
    assert outcome.status is OutcomeStatus.NONE
    assert "stays gp3" in outcome.reason
    flip = race.ledger.states()[volume_id].flip
    assert (flip.status, flip.by, flip.is_permanent) == (FlipStatus.IN_PROGRESS, "anna", True)
    assert race.modified([volume_id]) == {volume_id: 1}
    assert race.intents(volume_id) == [WATCHDOG]


def test_an_operator_wanting_another_type_sees_that_the_watchdog_was_first(race):
    [volume_id] = race.add_draining(1)
    watchdog = race.worker()
    hook = Hook(name="record_intent", action=lambda: evaluate_fleet(watchdog, now_s=race.now_s))
    shell = race.worker(CrashPoint(hooks=[hook]))
    outcome = execute_flips(shell, io1_orders([volume_id]), shell.build_collector(race.now_s))[volume_id]
    assert hook.fired
    assert outcome.status is OutcomeStatus.REFUSED
    assert str(outcome.refusal).startswith("modification_in_progress: watchdog requested gp3")
    assert race.modified([volume_id]) == {volume_id: 1}
    assert race.intents(volume_id) == [WATCHDOG]


def test_a_tag_that_is_removed_after_the_decision_is_respected(race):
    [volume_id] = race.add_draining(1)
    hook = Hook(name="commit", action=lambda: race.fleet.set_tags(volume_id, {"burstwatch:mode": None}))
    report = evaluate_fleet(race.worker(CrashPoint(hooks=[hook])), now_s=race.now_s)
    assert hook.fired
    assert str(report.outcomes[volume_id].refusal).startswith("not_opted_in: its mode is propose")
    assert race.modified([volume_id]) == {volume_id: 0}
    assert race.intents(volume_id) == []


def test_a_change_by_others_that_another_watchdog_notices_first_is_respected(race):
    [volume_id] = race.add_draining(1)

    def notice():
        state = race.ledger.states()[volume_id]
        after = with_fields(state, revision=state.revision + 1, contested_at_s=race.now_s)
        noticed = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
        assert race.ledger.commit([noticed], channels=[CHANNEL])

    hook = Hook(name="record_intent", action=notice)
    report = evaluate_fleet(race.worker(CrashPoint(hooks=[hook])), now_s=race.now_s)
    assert hook.fired
    assert str(report.outcomes[volume_id].refusal).startswith("changed_by_others: ")
    assert race.modified([volume_id]) == {volume_id: 0}
    assert race.intents(volume_id) == []


def test_two_watchdogs_with_the_same_ticks_doubled_and_late_flip_and_flip_back_once(race):
    [volume_id] = race.add_draining(1, target="io1")
    workers, begins_s = [race.worker(), race.worker()], race.now_s
    for minute in range(14):
        tick_s, late_s = race.now_s, max(begins_s, race.now_s - 120)
        ticks = [(worker, at_s) for worker in workers for at_s in (tick_s, tick_s, late_s)]
        jobs = [lambda w=w, s=s: run_tick(w, tick_at_s=s, now_s=race.now_s) for w, s in ticks]
        result = [report for report in run_concurrently(*jobs) if report is not None]
        assert len(result) == 1
        if minute == 2:
            race.fleet.set_load(volume_id, "idle")
        race.fleet.clock.advance(60)
    types = [modification.target.volume_type for modification in race.fleet.modifications(volume_id)]
    assert types == ["io1", "gp2"]
    assert race.intents(volume_id) == [WATCHDOG, WATCHDOG]
    assert max(Counter(race.sent_alert_ids).values()) == 1


def test_a_hold_placed_in_the_middle_stops_every_intent_after_it(race):
    """It comes right before the fourth intent of eight."""
    volume_ids = race.add_draining(8)
    hook = Hook(name="record_intent", nth=4, action=lambda: race.hold(None, 3600))
    report = evaluate_fleet(race.worker(CrashPoint(hooks=[hook])), now_s=race.now_s)
    result = Counter(outcome.status for outcome in report.outcomes.values())
    assert result == {OutcomeStatus.FLIPPED: 3, OutcomeStatus.REFUSED: 5}
    assert sum(race.modified(volume_ids).values()) == 3


def test_ten_workers_and_a_hold_at_once_leave_no_intent_after_the_hold(race):
    volume_ids = race.add_draining(4)
    workers = [race.worker() for _ in range(WORKERS)]
    jobs = [lambda w=w: evaluate_fleet(w, now_s=race.now_s) for w in workers]

    def hold_each():
        for volume_id in volume_ids:
            race.hold(volume_id, 3600)

    run_concurrently(hold_each, *jobs)
    for volume_id in volume_ids:
        kinds = [entry.kind for entry in race.ledger.entries(volume_id)]
        assert EntryKind.INTENT not in kinds[kinds.index(EntryKind.HELD) :]
        assert race.modified([volume_id])[volume_id] == kinds.count(EntryKind.INTENT) <= 1


def io1_orders(volume_ids):
    """3,000 IOPS each, in this order."""
    return [
        FlipOrder(
            volume_id=volume_id,
            direction=Direction.FLIP,
            cause=FlipCause.MANUAL,
            reason="anna wants it",
            by="anna",
            override=TargetOverride(volume_type=VolumeType.IO1, iops=3_000),
            urgency=(number,),
        )
        for number, volume_id in enumerate(volume_ids)
    ]


def test_what_is_refused_takes_nothing_of_the_accounts_quota(race):
    """Of the 6,000 IOPS of io1 the first wants half, and is put on hold right before its intent."""
    race.policy = a_policy(flip={"io1_iops_limit": "6000"})
    held, second, third, fourth = race.add_draining(4)
    shell = race.worker(CrashPoint(hooks=[Hook(name="record_intent", action=lambda: race.hold(held, 60))]))
    orders = io1_orders([held, second, third, fourth])

    result = execute_flips(shell, orders, shell.build_collector(race.now_s))

    refused = {held: Guard.HELD, second: None, third: None, fourth: Guard.ACCOUNT_LIMIT}
    assert {i: outcome.refusal and outcome.refusal.guard for i, outcome in result.items()} == refused


def test_plans_show_who_would_get_what_is_left_of_the_accounts_quota(race):
    race.policy = a_policy(flip={"io1_iops_limit": "6000"})
    held, second, third, fourth = race.add_draining(4)
    race.hold(held, 60)
    shell = race.worker()

    planned = plan_orders(shell, io1_orders([held, second, third, fourth]), shell.build_collector(race.now_s))

    refused = {held: Guard.HELD, second: None, third: None, fourth: Guard.ACCOUNT_LIMIT}
    assert {i: plan.refusal and plan.refusal.guard for i, plan in planned.items()} == refused


def test_an_order_replanned_after_a_conflict_uses_the_quota_once(race):
    race.policy = a_policy(flip={"io1_iops_limit": "3000"})
    [volume_id] = race.add_draining(1)
    evaluate_fleet(replace(race.worker(), modifier=None), now_s=race.now_s)

    def touch():
        state = race.ledger.states()[volume_id]
        touched = replace(state, revision=state.revision + 1)
        change = Change(volume_id=volume_id, expected_revision=state.revision, state=touched)
        assert race.ledger.commit([change], channels=[CHANNEL])

    shell = race.worker(CrashPoint(hooks=[Hook(name="record_intent", action=touch)]))
    result = execute_flips(shell, io1_orders([volume_id]), shell.build_collector(race.now_s))
    assert result[volume_id].status is OutcomeStatus.FLIPPED


def test_a_volume_whose_newest_modification_could_not_be_read_is_not_touched(race, monkeypatch):
    """Somebody else's may be under way, or the quota used up: without AWS's answer no guard can know."""
    unreadable, readable = race.add_draining(2)
    real = Ec2Reader.modifications_by_id
    failure = AwsFailure(
        code="RequestLimitExceeded",
        message="slow down",
        kind=FailureKind.RETRYABLE,
        next_step="wait",
    )

    def modifications_by_id(self, volume_ids):
        result = real(self, [volume_id for volume_id in volume_ids if volume_id != unreadable])
        return replace(result, unread={unreadable: failure})

    monkeypatch.setattr(Ec2Reader, "modifications_by_id", modifications_by_id)
    shell = race.worker()
    result = execute_flips(shell, io1_orders([unreadable, readable]), shell.build_collector(race.now_s))
    assert (result[unreadable].status, result[unreadable].error_code) == (OutcomeStatus.FAILED, "unread")
    assert result[readable].status is OutcomeStatus.FLIPPED
    assert race.modified([unreadable, readable]) == {unreadable: 0, readable: 1}
    assert race.intents(unreadable) == []


def test_processes_at_once_modify_each_volume_once_within_the_cap(race, tmp_path):
    race.policy = a_policy(flip={"fleet_cap": "3"})
    volume_ids = race.add_draining(5, target="io1")
    command = [sys.executable, RACE_PROCESS, race.lab.endpoint.url, race.path, race.now_s]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    racers = [
        subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 3
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        assert [racer.wait(timeout=60) for racer in racers] == [0] * 3
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    modified = race.modified(volume_ids)
    assert sum(modified.values()) == 3
    assert max(modified.values()) == 1


def test_an_intent_that_waited_too_long_is_not_sent_but_settled_and_requested_again(race, monkeypatch):
    """31 s after it was recorded it might reach AWS when others have concluded already that it never will."""
    [volume_id] = race.add_draining(1)
    watchdog = race.worker()
    with monkeypatch.context() as slow:
        slow.setattr("burstwatch.engine.flip_intent.monotonic", lambda: monotonic() - 31)
        report = evaluate_fleet(watchdog, now_s=race.now_s)
    assert report.outcomes[volume_id].status is OutcomeStatus.IN_FLIGHT
    assert race.modified([volume_id]) == {volume_id: 0}
    for _ in range(6):
        race.fleet.clock.advance(60)
        run_tick(watchdog, tick_at_s=race.now_s, now_s=race.now_s)
    kinds = [entry.kind for entry in race.ledger.entries(volume_id)]
    wanted = [EntryKind.INTENT, EntryKind.NOT_DONE, EntryKind.INTENT, EntryKind.ACCEPTED]
    assert [kind for kind in kinds if kind in wanted] == wanted
    assert race.modified([volume_id]) == {volume_id: 1}


def test_an_intent_is_not_given_up_while_its_request_may_be_under_way(race):
    """Ten who look as often as they like in the first minute come to no conclusion."""
    [volume_id] = race.add_draining(1)
    other_workers = [race.worker() for _ in range(WORKERS)]
    early = []

    def look_again_and_again():
        for _ in range(2):
            race.fleet.clock.advance(29)
            for other in other_workers:
                evaluate_fleet(other, now_s=race.now_s)
        early.append(race.ledger.states()[volume_id].flip)

    hook = Hook(name="ModifyVolume", action=look_again_and_again)
    evaluate_fleet(race.worker(CrashPoint(hooks=[hook])), now_s=race.now_s)
    assert (early[0].status, early[0].unconfirmed_since_s) == (FlipStatus.REQUESTED, None)
    assert race.modified([volume_id]) == {volume_id: 1}
    assert race.intents(volume_id) == [WATCHDOG]


def test_an_intent_is_as_old_as_its_record_and_not_as_the_pass(race):
    """A pass that waited three minutes for AWS would have its intents given up before they are sent."""
    [volume_id] = race.add_draining(1)
    shell, began_s = race.worker(), race.now_s
    collector = shell.build_collector(began_s)
    begins = collector.monotonic()
    collector.monotonic = lambda: begins + 180
    race.fleet.clock.advance(180)
    other = race.worker()

    def look_twice():
        evaluate_fleet(other, now_s=race.now_s)
        race.fleet.clock.advance(59)
        evaluate_fleet(other, now_s=race.now_s)

    shell = replace(
        shell,
        modifier=crashing_modifier(shell.modifier, CrashPoint(hooks=[Hook("ModifyVolume", look_twice)])),
    )
    order = FlipOrder(
        volume_id=volume_id, direction=Direction.FLIP, cause=FlipCause.DRAINING, reason="critical"
    )
    assert execute_flips(shell, [order], collector)[volume_id].status is OutcomeStatus.FLIPPED
    [intent] = [entry.body["intent_id"] for entry in race.entries(volume_id, EntryKind.INTENT)]
    [accepted] = [entry.body["intent_id"] for entry in race.entries(volume_id, EntryKind.ACCEPTED)]
    assert intent == accepted
    assert abs(race.ledger.states()[volume_id].flip.requested_at_s - began_s - 180) <= 1
    assert not race.entries(volume_id, EntryKind.NOT_DONE)


def pause_before_sending(race, volume_id):
    """So much time passes between an intent and its request that another watchdog gives the intent up.

    A machine that takes its time has dated the intent a second later: then it is three minutes, not two.
    """
    other = race.worker()

    def sleep():
        for _ in range(3):
            race.fleet.clock.advance(60)
            run_tick(other, tick_at_s=race.now_s, now_s=race.now_s)
            if race.ledger.states()[volume_id].flip is None:
                return
        raise AssertionError("not given up within three minutes")

    return Hook(name="ModifyVolume", action=sleep)


def test_a_late_modification_is_found_though_its_sender_died(race):
    """It slept between intent and request, woke up, sent it, and was ended before it could say so."""
    [volume_id] = race.add_draining(1, target="io1")
    fuse = CrashPoint(
        hooks=[pause_before_sending(race, volume_id), Hook(name="commit", nth=2, action=kill_process)]
    )
    with pytest.raises(ProcessKilled):
        evaluate_fleet(race.worker(fuse), now_s=race.now_s)
    assert race.modified([volume_id]) == {volume_id: 1}
    assert race.ledger.states()[volume_id].modifications.unsent_intent is not None

    race.fleet.clock.advance(60)
    evaluate_fleet(race.worker(), now_s=race.now_s)
    state = race.ledger.states()[volume_id]
    [start] = [modification.started_at.timestamp() for modification in race.fleet.modifications(volume_id)]
    assert [(use.at_s, use.by) for use in state.modifications.used] == [(int(start), WATCHDOG)]
    assert state.flip.original.volume_type is VolumeType.GP2
    assert state.modifications.unsent_intent is None
    kinds = [entry.kind for entry in race.ledger.entries(volume_id)]
    assert [kind for kind in kinds if kind in SETTLED] == [
        EntryKind.INTENT,
        EntryKind.NOT_DONE,
        EntryKind.ACCEPTED,
        EntryKind.REACHED,
    ]
    assert race.modified([volume_id]) == {volume_id: 1}


def test_a_late_modification_is_recorded_when_its_sender_resumes(race):
    """A laptop sleeps between recording its intent and sending it; in that time others gave it up."""
    [volume_id] = race.add_draining(1, target="io1")
    hook = pause_before_sending(race, volume_id)
    sleeper = race.worker(CrashPoint(hooks=[hook]))
    evaluate_fleet(sleeper, now_s=race.now_s)
    assert race.modified([volume_id]) == {volume_id: 1}
    state = race.ledger.states()[volume_id]
    [start] = [modification.started_at.timestamp() for modification in race.fleet.modifications(volume_id)]
    assert [use.at_s for use in state.modifications.used] == [int(start)]
    assert state.flip.status is FlipStatus.IN_PROGRESS
    assert state.flip.original.volume_type is VolumeType.GP2
