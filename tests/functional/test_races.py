"""Several watchdogs, an operator and late ticks at once: each volume is modified once, and the caps hold."""

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from time import monotonic

import pytest
from crashing import HOST, Clients, a_lab, a_policy

from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsFailure, FailureKind
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.flips.guards import Guard
from burstwatch.core.flips.outcome import Done
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import WATCHDOG, Cause, Direction, Hold, Phase
from burstwatch.core.ledger.ledger import Change, EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.flip_executor import carry_out, plan_orders
from burstwatch.engine.watch_pass import look_at_everything, run_tick
from fuse import CHANNEL, Fuse, Killed, Trap, die

HERE = Path(__file__).parent
SOURCES = os.pathsep.join(str(HERE.parents[1] / root) for root in ("lambdas", "lab", "tests"))
TEN = 10
SETTLED = (EntryKind.INTENT, EntryKind.NOT_DONE, EntryKind.ACCEPTED, EntryKind.REACHED)


@dataclass
class Scene:
    """A lab, a ledger file, and whoever comes to work on them, each with a connection of their own."""

    lab: object
    path: Path
    policy: Policy
    sent: list[str] = field(default_factory=list)
    opened: list[SqliteLedger] = field(default_factory=list)

    @property
    def fleet(self):
        return self.lab.fleet

    @property
    def now_s(self) -> int:
        return self.fleet.now_s()

    @property
    def ledger(self) -> SqliteLedger:
        return self.opened[0]

    def worker(self, fuse: Fuse | None = None):
        self.opened.append(SqliteLedger.open(self.path, lock_timeout_s=30))
        clients = Clients.of(self.lab.endpoint.url)
        return clients.shell(self.opened[-1], self.policy, fuse or Fuse(), self.sent)

    def add_draining(self, count: int, *, size_gib: int = 100, **tags: str) -> list[str]:
        """Each is dry in seven minutes."""
        given = {"burstwatch:mode": "auto"} | {f"burstwatch:{key}": value for key, value in tags.items()}
        started_at = self.fleet.clock.now()
        added = [
            LabVolume(
                volume_id=f"vol-{number:017x}",
                size_gib=size_gib,
                load="steady:2500",
                balance_pct=46,
                starts_at=started_at,
                instance_id=HOST,
                tags=given,
            )
            for number in range(1, count + 1)
        ]
        ids = self.fleet.add_all(added)
        self.fleet.clock.advance(660)
        return ids

    def modified(self, volume_ids) -> dict[str, int]:
        return {volume_id: len(self.fleet.modifications(volume_id)) for volume_id in volume_ids}

    def intents(self, volume_id: str) -> list[str]:
        """Who asked, as the ledger has it."""
        entries = self.ledger.entries(volume_id)
        return [entry.body["by"] for entry in entries if entry.kind is EntryKind.INTENT]

    def order(self, shell, volume_id: str, direction: Direction = Direction.OUT):
        """An operator's, by name."""
        order = Order(
            volume_id=volume_id,
            direction=direction,
            cause=Cause.BY_HAND,
            because="anna wants it",
            by="anna",
            wish=Wish(volume_type=VolumeType.GP3) if direction is Direction.OUT else None,
        )
        return carry_out(shell, [order], shell.gathering(self.now_s))[volume_id]


@pytest.fixture(scope="module")
def lab():
    with a_lab() as lab:
        yield lab


@pytest.fixture
def scene(lab, tmp_path):
    lab.next_day()
    scene = Scene(lab=lab, path=tmp_path / "ledger.db", policy=a_policy())
    scene.worker()
    yield scene
    for ledger in scene.opened:
        ledger.close()


def at_once(*jobs):
    """What each job comes to, all begun at the same moment."""
    barrier = Barrier(len(jobs))

    def run(job):
        barrier.wait(timeout=30)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(run, job) for job in jobs]]


def all_look(scene, count: int = TEN):
    """So many watchdogs look at everything at the same moment."""
    workers = [scene.worker() for _ in range(count)]
    jobs = [lambda worker=worker: look_at_everything(worker, now_s=scene.now_s) for worker in workers]
    reports = at_once(*jobs)
    assert [report.failures for report in reports] == [[]] * count
    return reports


def test_ten_watchdogs_at_once_modify_each_volume_once_and_tell_it_once(scene):
    volume_ids = scene.add_draining(5)
    reports = all_look(scene)
    assert scene.modified(volume_ids) == dict.fromkeys(volume_ids, 1)
    assert [scene.intents(volume_id) for volume_id in volume_ids] == [[WATCHDOG]] * 5
    done = Counter(report.outcomes[i].done for report in reports for i in volume_ids if i in report.outcomes)
    assert done[Done.FLIPPED] == 5
    assert set(done) <= {Done.FLIPPED, Done.IN_FLIGHT}
    scene.fleet.clock.advance(60)
    all_look(scene, 1)
    assert max(Counter(scene.sent).values()) == 1
    assert not scene.ledger.waiting(channels=[CHANNEL])


def test_ten_workers_at_once_stay_within_the_fleet_cap(scene):
    scene.policy = a_policy(flip={"fleet_cap": "3"}, flip_back={"return": "always"})
    volume_ids = scene.add_draining(8)
    all_look(scene)
    assert sum(scene.modified(volume_ids).values()) == 3
    scene.fleet.clock.advance(60)
    all_look(scene)
    assert sum(scene.modified(volume_ids).values()) == 3


def test_ten_workers_at_once_stay_within_the_spend_cap(scene):
    """io1 with 3,125 IOPS: $215.625 instead of $10. Two add $411.25, three would add $616.875."""
    scene.policy = a_policy(flip={"spend_cap_usd_per_month": "600"})
    volume_ids = scene.add_draining(6, target="io1")
    all_look(scene)
    assert sum(scene.modified(volume_ids).values()) == 2
    more = [state.flip.usd_per_month for state in scene.ledger.states().values() if state.flip]
    assert sum(more) == pytest.approx(411.25)


def test_an_operator_and_the_watchdog_at_once_come_to_one_modification(scene):
    volume_ids = scene.add_draining(6)
    watchdog, operators = scene.worker(), [scene.worker() for _ in volume_ids]
    jobs = [lambda v=v, w=w: scene.order(w, v) for v, w in zip(volume_ids, operators, strict=True)]
    at_once(lambda: look_at_everything(watchdog, now_s=scene.now_s), *jobs)
    assert scene.modified(volume_ids) == dict.fromkeys(volume_ids, 1)
    for volume_id in volume_ids:
        [by] = scene.intents(volume_id)
        [spent] = scene.ledger.states()[volume_id].spent
        assert spent.by == by


def test_the_watchdog_yields_to_an_operator_who_comes_right_before_its_intent(scene):
    [volume_id] = scene.add_draining(1)
    operator = scene.worker()
    trap = Trap(name="begin", deed=lambda: scene.order(operator, volume_id))
    report = look_at_everything(scene.worker(Fuse(traps=[trap])), now_s=scene.now_s)
    assert trap.has_sprung
    assert report.outcomes[volume_id].done is Done.IN_FLIGHT
    assert scene.modified([volume_id]) == {volume_id: 1}
    assert scene.intents(volume_id) == ["anna"]


def test_an_operator_who_comes_after_the_watchdog_takes_its_flip_over(scene):
    """What she wants is under way: she says how long, and AWS is asked once."""
    [volume_id] = scene.add_draining(1)
    watchdog = scene.worker()
    trap = Trap(name="begin", deed=lambda: look_at_everything(watchdog, now_s=scene.now_s))
    outcome = scene.order(scene.worker(Fuse(traps=[trap])), volume_id)
    assert trap.has_sprung
    assert outcome.done is Done.NONE
    assert "is kept gp3" in outcome.because
    flip = scene.ledger.states()[volume_id].flip
    assert (flip.phase, flip.by, flip.stays) == (Phase.CHANGING, "anna", True)
    assert scene.modified([volume_id]) == {volume_id: 1}
    assert scene.intents(volume_id) == [WATCHDOG]


def test_an_operator_who_wants_another_type_is_told_that_the_watchdog_was_first(scene):
    [volume_id] = scene.add_draining(1)
    watchdog = scene.worker()
    trap = Trap(name="begin", deed=lambda: look_at_everything(watchdog, now_s=scene.now_s))
    shell = scene.worker(Fuse(traps=[trap]))
    outcome = carry_out(shell, io1_orders([volume_id]), shell.gathering(scene.now_s))[volume_id]
    assert trap.has_sprung
    assert outcome.done is Done.REFUSED
    assert str(outcome.refusal).startswith("modification_in_progress: watchdog asked for gp3")
    assert scene.modified([volume_id]) == {volume_id: 1}
    assert scene.intents(volume_id) == [WATCHDOG]


def test_a_tag_that_is_removed_after_the_decision_is_respected(scene):
    [volume_id] = scene.add_draining(1)
    trap = Trap(name="commit", deed=lambda: scene.fleet.set_tags(volume_id, {"burstwatch:mode": None}))
    report = look_at_everything(scene.worker(Fuse(traps=[trap])), now_s=scene.now_s)
    assert trap.has_sprung
    assert str(report.outcomes[volume_id].refusal).startswith("not_opted_in: its mode is propose")
    assert scene.modified([volume_id]) == {volume_id: 0}
    assert scene.intents(volume_id) == []


def test_a_change_by_others_that_another_watchdog_notices_first_is_respected(scene):
    [volume_id] = scene.add_draining(1)

    def notice():
        state = scene.ledger.states()[volume_id]
        after = replace(state, revision=state.revision + 1, contested_at_s=scene.now_s)
        noticed = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
        assert scene.ledger.commit([noticed], channels=[CHANNEL])

    trap = Trap(name="begin", deed=notice)
    report = look_at_everything(scene.worker(Fuse(traps=[trap])), now_s=scene.now_s)
    assert trap.has_sprung
    assert str(report.outcomes[volume_id].refusal).startswith("changed_by_others: ")
    assert scene.modified([volume_id]) == {volume_id: 0}
    assert scene.intents(volume_id) == []


def test_two_watchdogs_with_the_same_ticks_doubled_and_late_flip_and_flip_back_once(scene):
    [volume_id] = scene.add_draining(1, target="io1")
    workers, begins_s = [scene.worker(), scene.worker()], scene.now_s
    for minute in range(14):
        tick_s, late_s = scene.now_s, max(begins_s, scene.now_s - 120)
        ticks = [(worker, at_s) for worker in workers for at_s in (tick_s, tick_s, late_s)]
        jobs = [lambda w=w, s=s: run_tick(w, tick_s=s, now_s=scene.now_s) for w, s in ticks]
        done = [report for report in at_once(*jobs) if report is not None]
        assert len(done) == 1
        if minute == 2:
            scene.fleet.set_load(volume_id, "idle")
        scene.fleet.clock.advance(60)
    types = [each.target.volume_type for each in scene.fleet.modifications(volume_id)]
    assert types == ["io1", "gp2"]
    assert scene.intents(volume_id) == [WATCHDOG, WATCHDOG]
    assert max(Counter(scene.sent).values()) == 1


def test_a_hold_placed_in_the_middle_stops_every_intent_after_it(scene):
    """It comes right before the fourth intent of eight."""
    volume_ids = scene.add_draining(8)
    hold = Hold(
        volume_id=None, by="anna", reason="release", placed_at_s=scene.now_s, until_s=scene.now_s + 3600
    )
    trap = Trap(name="begin", times=4, deed=lambda: scene.ledger.place_hold(hold))
    report = look_at_everything(scene.worker(Fuse(traps=[trap])), now_s=scene.now_s)
    done = Counter(outcome.done for outcome in report.outcomes.values())
    assert done == {Done.FLIPPED: 3, Done.REFUSED: 5}
    assert sum(scene.modified(volume_ids).values()) == 3


def test_ten_workers_and_a_hold_at_once_leave_no_intent_after_the_hold(scene):
    volume_ids = scene.add_draining(4)
    workers = [scene.worker() for _ in range(TEN)]
    jobs = [lambda w=w: look_at_everything(w, now_s=scene.now_s) for w in workers]

    def hold_each():
        for volume_id in volume_ids:
            hold = Hold(
                volume_id=volume_id,
                by="anna",
                reason="release",
                placed_at_s=scene.now_s,
                until_s=scene.now_s + 3600,
            )
            scene.ledger.place_hold(hold)

    at_once(hold_each, *jobs)
    for volume_id in volume_ids:
        kinds = [entry.kind for entry in scene.ledger.entries(volume_id)]
        assert EntryKind.INTENT not in kinds[kinds.index(EntryKind.HELD) :]
        assert scene.modified([volume_id])[volume_id] == kinds.count(EntryKind.INTENT) <= 1


def io1_orders(volume_ids):
    """3,000 IOPS each, in this order."""
    return [
        Order(
            volume_id=volume_id,
            direction=Direction.OUT,
            cause=Cause.BY_HAND,
            because="anna wants it",
            by="anna",
            wish=Wish(volume_type=VolumeType.IO1, iops=3_000),
            urgency=(number,),
        )
        for number, volume_id in enumerate(volume_ids)
    ]


def test_what_is_refused_takes_nothing_of_the_accounts_quota(scene):
    """Of the 6,000 IOPS of io1 the first wants half, and is put on hold right before its intent."""
    scene.policy = a_policy(flip={"io1_iops_limit": "6000"})
    held, second, third, fourth = scene.add_draining(4)
    hold = Hold(volume_id=held, by="ben", reason="x", placed_at_s=scene.now_s, until_s=scene.now_s + 60)
    shell = scene.worker(Fuse(traps=[Trap(name="begin", deed=lambda: scene.ledger.place_hold(hold))]))
    orders = io1_orders([held, second, third, fourth])

    done = carry_out(shell, orders, shell.gathering(scene.now_s))

    refused = {held: Guard.HELD, second: None, third: None, fourth: Guard.ACCOUNT_LIMIT}
    assert {i: outcome.refusal and outcome.refusal.guard for i, outcome in done.items()} == refused


def test_plans_show_who_would_get_what_is_left_of_the_accounts_quota(scene):
    scene.policy = a_policy(flip={"io1_iops_limit": "6000"})
    held, second, third, fourth = scene.add_draining(4)
    hold = Hold(volume_id=held, by="ben", reason="x", placed_at_s=scene.now_s, until_s=scene.now_s + 60)
    scene.ledger.place_hold(hold)
    shell = scene.worker()

    planned = plan_orders(shell, io1_orders([held, second, third, fourth]), shell.gathering(scene.now_s))

    refused = {held: Guard.HELD, second: None, third: None, fourth: Guard.ACCOUNT_LIMIT}
    assert {i: plan.refusal and plan.refusal.guard for i, plan in planned.items()} == refused


def test_an_order_that_is_outrun_and_planned_anew_takes_of_the_quota_once(scene):
    scene.policy = a_policy(flip={"io1_iops_limit": "3000"})
    [volume_id] = scene.add_draining(1)
    look_at_everything(replace(scene.worker(), modifier=None), now_s=scene.now_s)

    def touch():
        state = scene.ledger.states()[volume_id]
        touched = replace(state, revision=state.revision + 1)
        change = Change(volume_id=volume_id, expected_revision=state.revision, state=touched)
        assert scene.ledger.commit([change], channels=[CHANNEL])

    shell = scene.worker(Fuse(traps=[Trap(name="begin", deed=touch)]))
    done = carry_out(shell, io1_orders([volume_id]), shell.gathering(scene.now_s))
    assert done[volume_id].done is Done.FLIPPED


def test_a_volume_whose_newest_modification_could_not_be_read_is_not_touched(scene, monkeypatch):
    """Somebody else's may be under way, or the quota used up: without AWS's word no guard can tell."""
    unread, told = scene.add_draining(2)
    real = Ec2Reader.modifications_by_id
    failure = AwsFailure(
        code="RequestLimitExceeded",
        message="slow down",
        kind=FailureKind.RETRYABLE,
        next_step="wait",
    )

    def modifications_by_id(self, volume_ids):
        found = real(self, [each for each in volume_ids if each != unread])
        return replace(found, unread={unread: failure})

    monkeypatch.setattr(Ec2Reader, "modifications_by_id", modifications_by_id)
    shell = scene.worker()
    done = carry_out(shell, io1_orders([unread, told]), shell.gathering(scene.now_s))
    assert (done[unread].done, done[unread].error_code) == (Done.FAILED, "unread")
    assert done[told].done is Done.FLIPPED
    assert scene.modified([unread, told]) == {unread: 0, told: 1}
    assert scene.intents(unread) == []


def test_processes_at_once_modify_each_volume_once_within_the_cap(scene, tmp_path):
    scene.policy = a_policy(flip={"fleet_cap": "3"})
    volume_ids = scene.add_draining(5, target="io1")
    command = [sys.executable, HERE / "racing_watchdog.py", scene.lab.endpoint.url, scene.path, scene.now_s]
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
        assert [racer.wait(timeout=30) for racer in racers] == [0] * 3
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    modified = scene.modified(volume_ids)
    assert sum(modified.values()) == 3
    assert max(modified.values()) == 1


def test_an_intent_that_waited_too_long_is_not_sent_but_settled_and_asked_for_anew(scene, monkeypatch):
    """31 s after it was recorded it might reach AWS when others have concluded already that it never will."""
    [volume_id] = scene.add_draining(1)
    watchdog = scene.worker()
    with monkeypatch.context() as slow:
        slow.setattr("burstwatch.engine.flip_executor.monotonic", lambda: monotonic() - 31)
        report = look_at_everything(watchdog, now_s=scene.now_s)
    assert report.outcomes[volume_id].done is Done.IN_FLIGHT
    assert scene.modified([volume_id]) == {volume_id: 0}
    for _ in range(6):
        scene.fleet.clock.advance(60)
        run_tick(watchdog, tick_s=scene.now_s, now_s=scene.now_s)
    kinds = [entry.kind for entry in scene.ledger.entries(volume_id)]
    wanted = [EntryKind.INTENT, EntryKind.NOT_DONE, EntryKind.INTENT, EntryKind.ACCEPTED]
    assert [kind for kind in kinds if kind in wanted] == wanted
    assert scene.modified([volume_id]) == {volume_id: 1}


def test_an_intent_is_not_given_up_while_its_request_may_be_under_way(scene):
    """Ten who look as often as they like in the first minute come to no conclusion."""
    [volume_id] = scene.add_draining(1)
    others = [scene.worker() for _ in range(TEN)]
    early = []

    def look_again_and_again():
        for _ in range(2):
            scene.fleet.clock.advance(29)
            for other in others:
                look_at_everything(other, now_s=scene.now_s)
        early.append(scene.ledger.states()[volume_id].flip)

    trap = Trap(name="ModifyVolume", deed=look_again_and_again)
    look_at_everything(scene.worker(Fuse(traps=[trap])), now_s=scene.now_s)
    assert (early[0].phase, early[0].unseen_since_s) == (Phase.ASKED, None)
    assert scene.modified([volume_id]) == {volume_id: 1}
    assert scene.intents(volume_id) == [WATCHDOG]


def test_an_intent_is_as_old_as_its_record_and_not_as_the_pass(scene):
    """A pass that waited three minutes for AWS would have its intents given up before they are sent."""
    [volume_id] = scene.add_draining(1)
    shell, began_s = scene.worker(), scene.now_s
    gathering = shell.gathering(began_s)
    begins = gathering.monotonic()
    gathering.monotonic = lambda: begins + 180
    scene.fleet.clock.advance(180)
    other = scene.worker()

    def look_twice():
        look_at_everything(other, now_s=scene.now_s)
        scene.fleet.clock.advance(59)
        look_at_everything(other, now_s=scene.now_s)

    shell = replace(
        shell, modifier=replace(shell.modifier, fuse=Fuse(traps=[Trap("ModifyVolume", look_twice)]))
    )
    order = Order(volume_id=volume_id, direction=Direction.OUT, cause=Cause.DRAINING, because="critical")
    assert carry_out(shell, [order], gathering)[volume_id].done is Done.FLIPPED
    [intent] = [each.body["intent_id"] for each in entries(scene, volume_id, EntryKind.INTENT)]
    [accepted] = [each.body["intent_id"] for each in entries(scene, volume_id, EntryKind.ACCEPTED)]
    assert intent == accepted
    assert abs(scene.ledger.states()[volume_id].flip.asked_at_s - began_s - 180) <= 1
    assert not entries(scene, volume_id, EntryKind.NOT_DONE)


def entries(scene, volume_id, kind):
    return [entry for entry in scene.ledger.entries(volume_id) if entry.kind is kind]


def sleeps(scene, volume_id):
    """So long passes between an intent and its request that another watchdog gives the intent up.

    A machine that takes its time has dated the intent a second later: then it is three minutes, not two.
    """
    other = scene.worker()

    def sleep():
        for _ in range(3):
            scene.fleet.clock.advance(60)
            run_tick(other, tick_s=scene.now_s, now_s=scene.now_s)
            if scene.ledger.states()[volume_id].flip is None:
                return
        raise AssertionError("not given up within three minutes")

    return Trap(name="ModifyVolume", deed=sleep)


def test_what_was_sent_after_all_is_found_though_the_sender_died_of_it(scene):
    """It slept between intent and request, woke up, sent it, and was ended before it could say so."""
    [volume_id] = scene.add_draining(1, target="io1")
    fuse = Fuse(traps=[sleeps(scene, volume_id), Trap(name="commit", times=2, deed=die)])
    with pytest.raises(Killed):
        look_at_everything(scene.worker(fuse), now_s=scene.now_s)
    assert scene.modified([volume_id]) == {volume_id: 1}
    assert scene.ledger.states()[volume_id].lost is not None

    scene.fleet.clock.advance(60)
    look_at_everything(scene.worker(), now_s=scene.now_s)
    state = scene.ledger.states()[volume_id]
    [start] = [each.started_at.timestamp() for each in scene.fleet.modifications(volume_id)]
    assert [(one.at_s, one.by) for one in state.spent] == [(int(start), WATCHDOG)]
    assert state.flip.original.volume_type is VolumeType.GP2
    assert state.lost is None
    kinds = [entry.kind for entry in scene.ledger.entries(volume_id)]
    assert [kind for kind in kinds if kind in SETTLED] == [
        EntryKind.INTENT,
        EntryKind.NOT_DONE,
        EntryKind.ACCEPTED,
        EntryKind.REACHED,
    ]
    assert scene.modified([volume_id]) == {volume_id: 1}


def test_what_was_sent_after_all_is_recorded_when_the_sender_wakes_up(scene):
    """A laptop sleeps between recording its intent and sending it; meanwhile others gave that up."""
    [volume_id] = scene.add_draining(1, target="io1")
    trap = sleeps(scene, volume_id)
    sleeper = scene.worker(Fuse(traps=[trap]))
    look_at_everything(sleeper, now_s=scene.now_s)
    assert scene.modified([volume_id]) == {volume_id: 1}
    state = scene.ledger.states()[volume_id]
    [start] = [each.started_at.timestamp() for each in scene.fleet.modifications(volume_id)]
    assert [one.at_s for one in state.spent] == [int(start)]
    assert state.flip.phase is Phase.CHANGING
    assert state.flip.original.volume_type is VolumeType.GP2
