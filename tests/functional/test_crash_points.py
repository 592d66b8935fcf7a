"""The process is killed between any two effects of a story and started again: it all comes right.

Each story is played once to count its effects, then once for each of them with the process killed right
before it (which is right after the one before), and once after the last. Nothing of the process survives but
the file of its ledger; the world, a lab behind real HTTP, goes on. How many points that are is said by
``pytest -s tests/functional/test_crash_points.py``.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from crashing import Play, a_lab, a_policy

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ledger.flip_state import OTHERS, WATCHDOG, Direction, Phase, WindowMark
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.policy.policy import Policy
from fuse import CHANNEL, Fuse, Killed, Trap, die

CI = "vol-000000000000000c1"
HELD_POINTS: list[int] = []
SLOWEST_S = 30
"""An intent is dated by the machine's own pace, and no two passes take the same time."""
HERE = Path(__file__).parent
DYING = HERE / "dying_watchdog.py"
SOURCES = os.pathsep.join(str(HERE.parents[1] / root) for root in ("lambdas", "lab", "tests"))


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happens, and the types that AWS must have been asked for in the end, no more and no fewer."""

    tell: Callable[[Play], None]
    modifications: list[str]
    least_points: int
    policy: Policy = field(default_factory=a_policy)
    settings: dict[str, object] = field(default_factory=dict)


def add_draining(play: Play, load: str = "steady:2500", **tags: str) -> None:
    """(2500 - 300) / 54,000 = 2.4 % go a minute: at most 20 % are left, it is dry in 8 min: critical."""
    play.add(CI, load, size_gib=100, balance_pct=44, **tags)


def is_on_target(play: Play) -> bool:
    flip = play.flip(CI)
    return flip is not None and flip.phase is Phase.ON_TARGET


def come_to_rest(play: Play) -> None:
    """The load ends, and eight minutes later the volume has been on its target and calm for long enough."""
    play.fleet.set_load(CI, "idle")
    play.tick(8)


def out_and_back(play: Play) -> None:
    add_draining(play, target="io1")
    play.until(lambda: is_on_target(play))
    come_to_rest(play)
    play.until(lambda: play.has(CI, EntryKind.RESTORED))


def out_to_stay(play: Play) -> None:
    add_draining(play)
    play.until(lambda: play.has(CI, EntryKind.STAYED))


def out_at_the_second_attempt(play: Play) -> None:
    add_draining(play)
    play.until(lambda: play.has(CI, EntryKind.FAILED))
    play.fleet.change_settings(modify_outcome="completed")
    play.tick(3)
    play.until(lambda: play.has(CI, EntryKind.STAYED))


def back_at_the_second_attempt(play: Play) -> None:
    add_draining(play, target="io1")
    play.until(lambda: is_on_target(play))
    play.fleet.change_settings(modify_outcome="failed")
    come_to_rest(play)
    play.until(lambda: play.has(CI, EntryKind.FAILED))
    play.fleet.change_settings(modify_outcome="completed")
    play.until(lambda: play.has(CI, EntryKind.RESTORED))


def for_a_window(play: Play) -> None:
    play.add(CI, "steady:20", size_gib=100, balance_pct=100, target="io1", window="release")
    until_s = play.now_s + 15 * 60
    mark = WindowMark(name="release", starts=True, by="ann", at_s=play.now_s, until_s=until_s)
    play.ledger.mark_window(mark)
    play.until(lambda: is_on_target(play))
    play.tick((until_s - play.now_s) // 60)
    play.until(lambda: play.has(CI, EntryKind.RESTORED))


def refused_then_allowed(play: Play) -> None:
    """Pinned to 3,000 it gets a gp3 with 3,750 IOPS for $11.87 instead of $10: over a cap of one dollar."""
    add_draining(play, "steady:3000")
    play.until(lambda: play.has(CI, EntryKind.REFUSED))
    play.policy = a_policy(flip_back={"return": "never"})
    play.until(lambda: play.has(CI, EntryKind.STAYED))


STORIES = {
    "out and back": Story(
        tell=out_and_back, modifications=["io1", "gp2"], settings={"modifying_s": 70.0}, least_points=35
    ),
    "out to stay": Story(tell=out_to_stay, modifications=["gp3"], least_points=15),
    "out at the second attempt": Story(
        tell=out_at_the_second_attempt,
        modifications=["gp3", "gp3"],
        settings={"modify_outcome": "failed"},
        least_points=30,
    ),
    "back at the second attempt": Story(
        tell=back_at_the_second_attempt, modifications=["io1", "gp2", "gp2"], least_points=45
    ),
    "for a window": Story(tell=for_a_window, modifications=["io1", "gp2"], least_points=28),
    "refused by a cap, then allowed": Story(
        tell=refused_then_allowed,
        modifications=["gp3"],
        policy=a_policy(flip={"spend_cap_usd_per_month": "1"}, flip_back={"return": "never"}),
        least_points=22,
    ),
}


@pytest.fixture(scope="module")
def lab():
    with a_lab() as lab:
        yield lab
    if HELD_POINTS:
        print(f"\n{sum(HELD_POINTS)} crash points, all held")  # noqa: T201 - the figure is asked for


def perform(story: Story, lab, path: Path, fuse: Fuse) -> Play:
    lab.next_day(**story.settings)
    play = Play(lab=lab, path=path, policy=story.policy, fuse=fuse)
    play.always.append(the_original_is_kept)
    try:
        story.tell(play)
        play.until_delivered()
        asked_once_for_each(play, story.modifications)
        told_in_the_ledger(play)
        told_to_people(play)
    finally:
        play.close()
    return play


def the_original_is_kept(play: Play) -> None:
    """Whatever AWS has been asked for and has not taken back is in the ledger, with what it was before."""
    volume, flip = play.fleet.find(CI), play.flip(CI)
    is_away = volume.volume_type != "gp2" or volume.change is not None
    assert flip is not None or not is_away
    assert flip is None or (flip.original.volume_type, flip.size_gib) == (VolumeType.GP2, 100)


def asked_once_for_each(play: Play, types: list[str]) -> None:
    assert [each.target.volume_type for each in play.modifications(CI)] == types
    assert play.volume_type(CI) == types[-1]


def told_in_the_ledger(play: Play) -> None:
    """Each intent has one end, those that AWS took are what is counted as used up, and nothing is open."""
    intents = [entry.body["intent_id"] for entry in play.entries(CI, EntryKind.INTENT)]
    assert len(set(intents)) == len(intents)
    ended = play.entries(CI, EntryKind.ACCEPTED, EntryKind.NOT_DONE)
    assert Counter(entry.body["intent_id"] for entry in ended) == Counter(intents)
    starts_s = [int(each.started_at.timestamp()) for each in play.modifications(CI)]
    assert len(play.entries(CI, EntryKind.ACCEPTED)) == len(starts_s)
    state, has_returned = play.state(CI), play.volume_type(CI) == "gp2"
    assert [(one.at_s, one.by) for one in state.spent] == [(start_s, WATCHDOG) for start_s in starts_s]
    assert state.spent[-1].direction is (Direction.BACK if has_returned else Direction.OUT)
    assert state.flip is None if has_returned else state.flip.is_settled
    assert len(play.entries(CI, EntryKind.REACHED)) == 1
    assert len(play.entries(CI, EntryKind.RESTORED if has_returned else EntryKind.STAYED)) == 1


def told_to_people(play: Play) -> None:
    """Every alert in the ledger was sent under its own id; twice only what was under way at the death."""
    about_it = [entry.body["alert_id"] for entry in play.entries(CI, EntryKind.ALERT)]
    about_all = [entry.body["alert_id"] for entry in play.entries("window release", EntryKind.ALERT)]
    delivered = [entry.body["alert_id"] for entry in play.entries(CI, EntryKind.DELIVERED)]
    assert sorted(delivered) == sorted(about_it)
    assert set(play.sent) == {*about_it, *about_all}
    assert len(play.sent) - len(about_it) - len(about_all) in (0, play.deaths)


@pytest.mark.parametrize("name", STORIES)
def test_a_process_killed_between_any_two_effects_is_started_again_and_all_is_well(
    name, lab, tmp_path, record_property
):
    story = STORIES[name]
    effects = perform(story, lab, tmp_path / "alive.db", Fuse()).fuse.effects
    for point, effect in enumerate(effects):
        try:
            play = perform(story, lab, tmp_path / f"{point}.db", Fuse(blows_before=point))
        except BaseException as error:
            error.add_note(f"{name}: killed before effect {point}, {effect}, of {effects}")
            raise
        assert play.deaths == 1
    print(f"{name}: {len(effects)} crash points")  # noqa: T201 - the figure is asked for
    record_property("crash_points", len(effects))
    HELD_POINTS.append(len(effects))
    assert len(effects) >= story.least_points


def test_an_intent_that_was_never_sent_is_not_taken_for_the_attempt_before_it_that_failed(lab, tmp_path):
    """The return fails at once; two minutes after it began the next is recorded, and the process dies."""
    quick = a_policy(cadence={"sweep_tick": "15m", "focus_at_most": "1m"})
    story = Story(
        tell=back_at_the_second_attempt,
        modifications=["io1", "gp2", "gp2"],
        policy=quick,
        least_points=0,
    )
    fuse = Fuse(traps=[Trap(name="ModifyVolume", times=3, deed=die)])
    play = perform(story, lab, tmp_path / "ledger.db", fuse)
    assert play.deaths == 1


@pytest.fixture
def undone(lab, tmp_path):
    """AWS took it, the process died, and somebody reverted it before the next one looked."""
    lab.next_day()
    play = Play(lab=lab, path=tmp_path / "ledger.db", policy=a_policy(), fuse=Fuse(blows_before=5))
    add_draining(play, target="io1")
    lab.fleet.clock.advance(60)
    with pytest.raises(Killed):
        play.run_pass(play.now_s)
    lab.fleet.clock.advance(300)
    lab.fleet.modify(CI, volume_type="gp2")
    play.start_again()
    for _ in range(4):
        play.tick()
    yield play
    play.close()


def test_what_others_undo_while_nobody_watches_stays_undone_and_both_are_counted(undone):
    state = undone.state(CI)
    assert state.contested_at_s is not None
    assert state.flip is None
    assert [one.by for one in state.spent] == [WATCHDOG, OTHERS]
    assert [each.target.volume_type for each in undone.modifications(CI)] == ["io1", "gp2"]


def test_an_intent_whose_modification_others_undid_unseen_is_told_as_accepted(undone):
    [intent] = undone.entries(CI, EntryKind.INTENT)
    ended = undone.entries(CI, EntryKind.ACCEPTED, EntryKind.NOT_DONE)
    told = [(entry.kind, entry.body["intent_id"]) for entry in ended]
    assert told == [(EntryKind.ACCEPTED, intent.body["intent_id"])]


def begun(lab, path: Path, fuse: Fuse) -> Play:
    """A draining volume, and the minute in which it is found so."""
    lab.next_day()
    play = Play(lab=lab, path=path, policy=a_policy(), fuse=fuse)
    add_draining(play)
    lab.fleet.clock.advance(60)
    return play


def what_is_left(play: Play) -> dict[str, object]:
    """Everything that outlives a process, with times told from the day's begin."""
    begins_s = play.now_s
    flip = play.flip(CI)
    return {
        "entries": [
            (entry.kind, entry.at_s - begins_s, entry.body.get("summary"))
            for entry in play.ledger.entries(CI)
        ],
        "flip": flip and (flip.phase, 0 <= flip.asked_at_s - begins_s < SLOWEST_S, str(flip.target)),
        "waiting": [(waits.alert.kind, waits.attempts) for waits in play.ledger.waiting(channels=[CHANNEL])],
        "swept": play.ledger.roster() is not None,
        "modifications": len(play.modifications(CI)),
        "sent": len(play.sent),
    }


@pytest.mark.parametrize("effect", ["begin", "ModifyVolume", "commit", "send", "delivered", "complete_tick"])
def test_a_process_that_is_really_killed_leaves_what_one_leaves_that_is_played(effect, lab, tmp_path):
    """The second commit is the one that records what AWS said."""
    effects = ["claim_tick", "claim_tick", "commit", "begin", "ModifyVolume", "commit"]
    effects += 2 * ["claim", "send", "delivered"] + ["complete_tick"]
    point = 5 if effect == "commit" else effects.index(effect)

    played = begun(lab, tmp_path / "played.db", Fuse(blows_before=point))
    with pytest.raises(Killed):
        played.run_pass(played.now_s)
    left = what_is_left(played)
    played.close()
    assert played.fuse.effects == effects[:point]

    killed = begun(lab, tmp_path / "killed.db", Fuse())
    outbox = tmp_path / "outbox"
    command = [sys.executable, DYING, lab.endpoint.url, killed.path, outbox, killed.now_s, point]
    died = subprocess.run([*map(str, command)], env={**os.environ, "PYTHONPATH": SOURCES}, check=False)
    assert died.returncode == -signal.SIGKILL
    killed.sent += outbox.read_text().split()
    assert what_is_left(killed) == left

    killed.start_again()
    killed.until(lambda: killed.has(CI, EntryKind.STAYED))
    killed.until_delivered()
    asked_once_for_each(killed, ["gp3"])
    told_in_the_ledger(killed)
    told_to_people(killed)
    killed.close()
