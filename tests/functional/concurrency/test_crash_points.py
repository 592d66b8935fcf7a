"""The process is killed between any two effects of a scenario and started again: the end is right.

Each scenario is played once to count its effects. Then it is played once for each, killed right
before it (which is right after the one before), and once after the last. Nothing of the process survives but
the file of its ledger; the world, a lab, goes on. The first play speaks AWS's protocols with the lab. Those
with a death call its functions, and must have the same effects until then: no process dies within a request.
How many points that are is said by ``pytest -s tests/functional/concurrency/test_crash_points.py``.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from burstlab.harness.effects import CHANNEL, CrashPoint, Hook, ProcessKilled, kill_process
from burstlab.harness.invariants import (
    each_flip_is_what_aws_shows,
    each_intent_has_one_end,
    each_modification_was_decided,
    the_quota_counts_agree,
)
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ledger.flip_state import EXTERNAL, WATCHDOG, Direction, FlipStatus, ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from support.concurrency.crash_harness import (
    HELD_POINTS,
    VOLUME_ID,
    CrashRun,
    a_policy,
    add_draining,
)
from support.paths import ROOT

SLOWEST_S = 30
"""An intent is dated by the machine's own pace, and no two passes take the same time."""
CRASH_PROCESS = ROOT / "tests" / "support" / "concurrency" / "crash_process.py"
SOURCES = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "lab", "tests"))


@dataclass(frozen=True, kw_only=True)
class CrashScenario:
    """What happens, and the types that must have been requested from AWS in the end, no more and no fewer."""

    play: Callable[[CrashRun], None]
    modifications: list[str]
    least_points: int
    policy: Policy = field(default_factory=a_policy)
    settings: dict[str, object] = field(default_factory=dict)


def is_on_target(play: CrashRun) -> bool:
    flip = play.flip(VOLUME_ID)
    return flip is not None and flip.status is FlipStatus.ON_TARGET


def stop_load(play: CrashRun) -> None:
    """The load ends, and eight minutes later the volume has been on its target and calm for long enough."""
    play.fleet.set_load(VOLUME_ID, "idle")
    play.tick(8)


def flip_and_flip_back(play: CrashRun) -> None:
    add_draining(play, target="io1")
    play.tick_until(lambda: is_on_target(play))
    stop_load(play)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.RESTORED))


def flip_permanently(play: CrashRun) -> None:
    add_draining(play)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.STAYED))


def flip_on_second_attempt(play: CrashRun) -> None:
    add_draining(play)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.FAILED))
    play.fleet.change_settings(modify_outcome="completed")
    play.tick(3)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.STAYED))


def flip_back_on_second_attempt(play: CrashRun) -> None:
    add_draining(play, target="io1")
    play.tick_until(lambda: is_on_target(play))
    play.fleet.change_settings(modify_outcome="failed")
    stop_load(play)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.FAILED))
    play.fleet.change_settings(modify_outcome="completed")
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.RESTORED))


def flip_for_window(play: CrashRun) -> None:
    play.add(VOLUME_ID, "steady:20", size_gib=100, balance_pct=100, target="io1", window="release")
    until_s = play.now_s + 15 * 60
    mark = ManualWindowOverride(name="release", is_start=True, by="ann", at_s=play.now_s, until_s=until_s)
    play.ledger.record_manual_override(mark)
    play.tick_until(lambda: is_on_target(play))
    play.tick((until_s - play.now_s) // 60)
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.RESTORED))


def refused_then_allowed(play: CrashRun) -> None:
    """Pinned to 3,000 it gets a gp3 with 3,750 IOPS for $11.87 instead of $10: over a cap of one dollar."""
    add_draining(play, "steady:3000")
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.REFUSED))
    play.policy = a_policy(flip_back={"return": "never"})
    play.tick_until(lambda: play.has_entry(VOLUME_ID, EntryKind.STAYED))


SCENARIOS = {
    "out and back": CrashScenario(
        play=flip_and_flip_back, modifications=["io1", "gp2"], settings={"modifying_s": 70.0}, least_points=35
    ),
    "out to stay": CrashScenario(play=flip_permanently, modifications=["gp3"], least_points=15),
    "out at the second attempt": CrashScenario(
        play=flip_on_second_attempt,
        modifications=["gp3", "gp3"],
        settings={"modify_outcome": "failed"},
        least_points=30,
    ),
    "back at the second attempt": CrashScenario(
        play=flip_back_on_second_attempt, modifications=["io1", "gp2", "gp2"], least_points=45
    ),
    "for a window": CrashScenario(play=flip_for_window, modifications=["io1", "gp2"], least_points=28),
    "refused by a cap, then allowed": CrashScenario(
        play=refused_then_allowed,
        modifications=["gp3"],
        policy=a_policy(flip={"spend_cap_usd_per_month": "1"}, flip_back={"return": "never"}),
        least_points=22,
    ),
}


def run_scenario(scenario: CrashScenario, lab, path: Path, fuse: CrashPoint, clients=None) -> CrashRun:
    lab.next_day(**scenario.settings)
    play = CrashRun(lab=lab, path=path, policy=scenario.policy, fuse=fuse, clients=clients)
    play.invariants.append(check_original_kept)
    try:
        scenario.play(play)
        play.tick_until_delivered()
        check_each_modified_once(play, scenario.modifications)
        check_ledger(play)
        check_alerts(play)
    finally:
        play.close()
    return play


def check_original_kept(play: CrashRun) -> None:
    """Whatever was requested and has not been taken back is in the ledger, with what it was before."""
    volume, flip = play.fleet.find(VOLUME_ID), play.flip(VOLUME_ID)
    is_away = volume.volume_type != "gp2" or volume.change is not None
    assert flip is not None or not is_away
    assert flip is None or (flip.original.volume_type, flip.size_gib) == (VolumeType.GP2, 100)


def check_each_modified_once(play: CrashRun, types: list[str]) -> None:
    assert [modification.target.volume_type for modification in play.modifications(VOLUME_ID)] == types
    assert play.volume_type(VOLUME_ID) == types[-1]


def check_ledger(play: CrashRun) -> None:
    """Each intent has one end, those that AWS took are what is counted as used up, and nothing is open."""
    outcome = play.outcome()
    invariants = (
        each_intent_has_one_end,
        each_modification_was_decided,
        the_quota_counts_agree,
        each_flip_is_what_aws_shows,
    )
    assert [violation for invariant in invariants for violation in invariant(outcome)] == []
    intents = [body["intent_id"] for body in outcome.bodies(EntryKind.INTENT)]
    assert len(set(intents)) == len(intents)
    starts_s = [modification.at_s for modification in outcome.modifications]
    state, has_returned = play.state(VOLUME_ID), play.volume_type(VOLUME_ID) == "gp2"
    assert [(use.at_s, use.by) for use in state.modifications.used] == [
        (start_s, WATCHDOG) for start_s in starts_s
    ]
    assert state.modifications.used[-1].direction is (Direction.FLIP_BACK if has_returned else Direction.FLIP)
    assert state.flip is None if has_returned else state.flip.is_settled
    assert len(play.entries(VOLUME_ID, EntryKind.REACHED)) == 1
    assert len(play.entries(VOLUME_ID, EntryKind.RESTORED if has_returned else EntryKind.STAYED)) == 1


def check_alerts(play: CrashRun) -> None:
    """Every alert in the ledger was sent under its own id; twice only what was under way at the death."""
    about_it = [entry.body["alert_id"] for entry in play.entries(VOLUME_ID, EntryKind.ALERT)]
    about_all = [entry.body["alert_id"] for entry in play.entries("window release", EntryKind.ALERT)]
    delivered = [entry.body["alert_id"] for entry in play.entries(VOLUME_ID, EntryKind.DELIVERED)]
    assert sorted(delivered) == sorted(about_it)
    assert set(play.sent_alert_ids) == {*about_it, *about_all}
    assert len(play.sent_alert_ids) - len(about_it) - len(about_all) in (0, play.restarts)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_process_killed_between_any_two_effects_is_started_again_and_all_is_well(
    name, lab, tmp_path, record_property
):
    scenario = SCENARIOS[name]
    effects = run_scenario(scenario, lab, tmp_path / "alive.db", CrashPoint()).fuse.effects
    for point, effect in enumerate(effects):
        try:
            fuse = CrashPoint(at_effect=point)
            play = run_scenario(scenario, lab, tmp_path / f"{point}.db", fuse, lab.quick_clients)
            assert fuse.effects == effects[:point]
        except BaseException as error:
            error.add_note(f"{name}: killed before effect {point}, {effect}, of {effects}")
            raise
        assert play.restarts == 1
    print(f"{name}: {len(effects)} crash points")  # noqa: T201 - the figure is asked for
    record_property("crash_points", len(effects))
    HELD_POINTS.append(len(effects))
    assert len(effects) >= scenario.least_points


def test_an_intent_that_was_never_sent_is_not_taken_for_the_attempt_before_it_that_failed(lab, tmp_path):
    """The return fails at once; two minutes after it began the next is recorded, and the process dies."""
    quick = a_policy(cadence={"sweep_tick": "15m", "focus_at_most": "1m"})
    scenario = CrashScenario(
        play=flip_back_on_second_attempt,
        modifications=["io1", "gp2", "gp2"],
        policy=quick,
        least_points=0,
    )
    fuse = CrashPoint(hooks=[Hook(name="ModifyVolume", nth=3, action=kill_process)])
    play = run_scenario(scenario, lab, tmp_path / "ledger.db", fuse)
    assert play.restarts == 1


def test_an_unobserved_external_revert_stays_and_both_modifications_count(externally_reverted):
    state = externally_reverted.state(VOLUME_ID)
    assert state.modifications.contested_at_s is not None
    assert state.flip is None
    assert [use.by for use in state.modifications.used] == [WATCHDOG, EXTERNAL]
    assert [
        modification.target.volume_type for modification in externally_reverted.modifications(VOLUME_ID)
    ] == ["io1", "gp2"]


def test_an_intent_reverted_before_it_was_observed_is_reported_as_accepted(externally_reverted):
    [intent] = externally_reverted.entries(VOLUME_ID, EntryKind.INTENT)
    ended = externally_reverted.entries(VOLUME_ID, EntryKind.ACCEPTED, EntryKind.NOT_DONE)
    reported = [(entry.kind, entry.body["intent_id"]) for entry in ended]
    assert reported == [(EntryKind.ACCEPTED, intent.body["intent_id"])]


def start_run(lab, path: Path, fuse: CrashPoint) -> CrashRun:
    """A draining volume, and the minute in which it is found so."""
    lab.next_day()
    play = CrashRun(lab=lab, path=path, policy=a_policy(), fuse=fuse)
    add_draining(play)
    lab.fleet.clock.advance(60)
    return play


def final_state(play: CrashRun) -> dict[str, object]:
    """Everything that outlives a process, with times relative to the begin of the day."""
    begins_s = play.now_s
    flip = play.flip(VOLUME_ID)
    return {
        "entries": [
            (entry.kind, entry.at_s - begins_s, entry.body.get("summary"))
            for entry in play.ledger.entries(VOLUME_ID)
        ],
        "flip": flip and (flip.status, 0 <= flip.requested_at_s - begins_s < SLOWEST_S, str(flip.target)),
        "waiting": [
            (waits.alert.kind, waits.attempts) for waits in play.ledger.pending_deliveries(channels=[CHANNEL])
        ],
        "swept": play.ledger.fleet_snapshot() is not None,
        "modifications": len(play.modifications(VOLUME_ID)),
        "sent": len(play.sent_alert_ids),
    }


@pytest.mark.parametrize(
    "effect", ["record_intent", "ModifyVolume", "commit", "send", "mark_delivered", "complete_tick"]
)
def test_a_killed_process_leaves_the_same_state_as_a_simulated_crash(effect, lab, tmp_path):
    """The second commit is the one that records what AWS said."""
    effects = ["claim_tick", "claim_tick", "commit", "record_intent", "ModifyVolume", "commit"]
    effects += 2 * ["claim_delivery", "send", "mark_delivered"] + ["complete_tick"]
    point = 5 if effect == "commit" else effects.index(effect)

    played = start_run(lab, tmp_path / "played.db", CrashPoint(at_effect=point))
    with pytest.raises(ProcessKilled):
        played.run_pass(played.now_s)
    leftovers = final_state(played)
    played.close()
    assert played.fuse.effects == effects[:point]

    killed = start_run(lab, tmp_path / "killed.db", CrashPoint())
    outbox = tmp_path / "outbox"
    command = [sys.executable, CRASH_PROCESS, lab.endpoint.url, killed.path, outbox, killed.now_s, point]
    died = subprocess.run([*map(str, command)], env={**os.environ, "PYTHONPATH": SOURCES}, check=False)
    assert died.returncode == -signal.SIGKILL
    killed.sent_alert_ids += outbox.read_text().split()
    assert final_state(killed) == leftovers

    killed.restart()
    killed.tick_until(lambda: killed.has_entry(VOLUME_ID, EntryKind.STAYED))
    killed.tick_until_delivered()
    check_each_modified_once(killed, ["gp3"])
    check_ledger(killed)
    check_alerts(killed)
    killed.close()
