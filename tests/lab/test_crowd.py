"""Several watchdogs, each a process, on one ledger: together they do what one alone does."""

import json
import time
from dataclasses import dataclass, replace
from multiprocessing import active_children

import pytest
from click.testing import CliRunner

from burstlab.concurrency import command
from burstlab.concurrency.command import crowd
from burstlab.concurrency.invariants import judge
from burstlab.concurrency.runner import Clocks, CrowdError, Setup, play
from burstlab.deployed.local_aws import LocalAws
from burstwatch.core.ledger.flip_state import Phase

MINUTES = 28
"""With the quiet minutes: until all that drain are flipped and known to be well, and before any returns."""


@pytest.fixture(scope="module")
def alone():
    """The story of a single watchdog, and what it came to."""
    with play(Setup(watchdogs=1, minutes=MINUTES)) as scene:
        yield scene, judge(scene)


def lived(**given):
    with play(Setup(minutes=MINUTES, **given)) as scene:
        return judge(scene)


def test_one_alone_flips_and_tells_and_breaks_no_law(alone):
    _, verdict = alone
    assert verdict.broken == ()
    assert {name for name, types in verdict.moves.items() if types == ["gp3"]} >= {"ci-1", "ci-2"}
    assert verdict.moves["orders"] == ["io1"]
    assert verdict.decisions == verdict.modifications == len([t for v in verdict.moves.values() for t in v])
    assert verdict.alerts["held FlipRefused critical"] == 1


@pytest.mark.parametrize("watchdogs", [2, 10])
def test_many_on_one_file_do_what_one_alone_does(alone, watchdogs):
    verdict = lived(watchdogs=watchdogs)
    with_lone = verdict_against(alone, verdict)
    assert with_lone == []
    assert (verdict.late_ticks, verdict.doubled_ticks, verdict.doubled_alerts) == (0, 0, 0)
    assert verdict.errors == {}


def test_two_on_dynamodb_do_what_one_alone_does_on_a_file(alone):
    """The table is that of the local AWS, with a server's real conditional writes, over HTTP."""
    with LocalAws() as aws, play(Setup(watchdogs=2, ledger="dynamodb", minutes=MINUTES), aws=aws) as scene:
        verdict = judge(scene)
        assert scene.ledger.location.startswith("dynamodb:")
    assert verdict_against(alone, verdict) == []
    assert (verdict.late_ticks, verdict.doubled_ticks, verdict.doubled_alerts) == (0, 0, 0)
    assert verdict.errors == {}


def verdict_against(alone, verdict):
    """What differs from one alone, beside the broken laws."""
    lone = alone[1]
    differs = [name for name in ("moves", "alerts") if getattr(verdict, name) != getattr(lone, name)]
    return [*verdict.broken, *differs]


def test_one_that_is_killed_again_and_again_costs_late_ticks_and_nothing_else(alone):
    with play(Setup(watchdogs=2, minutes=MINUTES, dies_at=17)) as scene:
        verdict = judge(scene, lone=alone[1])
    assert verdict.deaths >= 2
    assert verdict.broken == ()


def test_clocks_that_jump_by_an_hour_and_by_seconds_are_said_and_do_no_harm(alone):
    """The wrong one takes ticks that are over, or to come, and gets no further than AWS's first answer."""
    with play(Setup(watchdogs=2, minutes=MINUTES, clocks=Clocks.JUMPING)) as scene:
        verdict = judge(scene, lone=alone[1])
    assert verdict.broken == ()
    ahead, behind = sorted(verdict.errors)
    assert "this machine's clock is 60 min ahead of AWS's" in ahead
    assert "this machine's clock is 60 min behind AWS's" in behind
    assert all("set it (for example `chronyc makestep`)" in error for error in verdict.errors)


@pytest.mark.parametrize("clocks", Clocks)
@pytest.mark.parametrize("watchdogs", [2, 3, 10])
def test_the_right_clocks_are_within_what_the_watchdog_allows(clocks, watchdogs):
    """Two minutes; an hour is meant to be wrong."""
    setup = Setup(watchdogs=watchdogs, clocks=clocks)
    for minute in range(40):
        off = [abs(setup.offset_s(number, minute)) for number in range(watchdogs)]
        assert all(each <= 90 or each == 3600 for each in off)
        assert min(off) < 120, f"minute {minute}: everybody is wrong"


# Laws that can be broken


def test_an_alert_that_nobody_got_is_missed(alone):
    scene, _ = alone
    [law] = judge(replace(scene, outbox=scene.outbox[1:])).broken
    assert law.endswith("was never sent")


def test_an_alert_that_came_twice_is_counted(alone):
    scene, verdict = alone
    again = judge(replace(scene, outbox=[*scene.outbox, scene.outbox[0]]))
    assert (again.doubled_alerts, again.told, again.broken) == (1, verdict.told, ())


def test_an_alert_that_is_in_no_history_is_found(alone):
    scene, _ = alone
    [law] = judge(replace(scene, outbox=[*scene.outbox, "0123 VolumeFlipped"])).broken
    assert law == "alert 0123 is in no history"


def test_a_modification_too_many_is_found(alone):
    scene, verdict = alone
    others = {scene.story.volume_ids["ci-1"]: 1}
    [law] = judge(replace(scene, story=replace(scene.story, by_others=others))).broken
    assert law == "ci-1: 0 modifications for 1 decisions"
    changed = replace(verdict, moves={**verdict.moves, "ci-2": ["gp3", "gp3"]})
    [law] = judge(scene, lone=changed).broken
    assert law == "ci-2: went to ['gp3']; by one watchdog alone to ['gp3', 'gp3']"


def test_two_ticks_in_a_row_that_nobody_did_are_found(alone):
    scene, _ = alone
    ticks = [*scene.course.ticks[:5], [None], [None], *scene.course.ticks[7:]]
    [law] = judge(replace(scene, course=replace(scene.course, ticks=ticks))).broken
    assert law == "minutes 5 and 6 were done by nobody"


def test_an_error_in_the_quiet_minutes_at_the_end_is_found(alone):
    scene, _ = alone
    told = replace(scene.course.ticks[-1][0], errors=("ec2:DescribeVolumes failed",))
    ticks = [*scene.course.ticks[:-1], [told]]
    [law] = judge(replace(scene, course=replace(scene.course, ticks=ticks))).broken
    assert law == f"minute {MINUTES + 5}: ec2:DescribeVolumes failed"


@dataclass(frozen=True)
class Telling:
    """A ledger that says something else than it should."""

    ledger: object
    told: dict

    def __getattr__(self, name):
        return (lambda *_, **__: self.told[name]) if name in self.told else getattr(self.ledger, name)


def laws_with(scene, **told):
    return judge(replace(scene, ledger=Telling(scene.ledger, told))).broken


def test_a_ledger_that_is_not_true_is_found(alone):
    scene, _ = alone
    states = scene.ledger.states()
    volume_id = scene.story.volume_ids["ci-1"]
    state = states[volume_id]
    [law] = laws_with(scene, states=states | {volume_id: replace(state, spent=())})
    assert law.startswith("ci-1: the modification of ")
    assert law.endswith(" counts 0 times")
    never = replace(state.flip, phase=Phase.ASKED)
    [law] = laws_with(scene, states=states | {volume_id: replace(state, flip=never)})
    assert law == "ci-1: its flip is still asked, and AWS has nothing in progress"
    [law] = laws_with(scene, states=states | {volume_id: replace(state, flip=None)})
    assert law == "ci-1: it is gp3, the ledger says gp2"


def test_a_watermark_that_stays_behind_and_alerts_that_wait_are_found(alone):
    scene, _ = alone
    [law] = laws_with(scene, waiting=["an alert", "another"])
    assert law == "2 alerts still wait"
    roster = scene.ledger.roster()
    [law] = laws_with(scene, roster=replace(roster, tick_s=roster.tick_s - 300))
    assert law.startswith("the watermark is ")


# The command


def run(*arguments):
    return CliRunner().invoke(crowd, arguments)


@pytest.mark.parametrize("given", ["0", "5-3", "x", "1-2-3"])
def test_a_kill_that_is_no_number_is_refused_with_what_would_do(given):
    told = run("--kill-at", given)
    assert told.exit_code == 2
    assert "write a number from 1, or two as in 1-40" in " ".join(told.output.split())


def test_the_command_prints_a_row_for_each_story():
    told = run("--watchdogs", "2", "--minutes", "1", "--kill-at", "2")
    assert told.exit_code == 0, told.output
    assert "7 minutes, sqlite, clocks right" in told.output
    assert "2, at 2" in told.output
    assert max(map(len, told.output.splitlines())) <= 80


def test_a_broken_law_is_named_and_the_command_fails(alone, monkeypatch):
    broken = replace(alone[1], broken=("ci-1: 2 modifications for 1 decisions",))
    monkeypatch.setattr(command, "_judged", lambda _setups: iter([alone[1], broken]))
    told = run()
    assert told.exit_code == 1
    assert "broken with 1 watchdogs: ci-1: 2 modifications for 1 decisions" in told.output
    told = run("--json")
    document = json.loads(told.output)
    assert document["schema"] == "burstwatch.lab.crowd/v1"
    assert document["runs"][1]["broken"] == ["ci-1: 2 modifications for 1 decisions"]


def test_no_member_outlives_a_story_that_fails():
    with pytest.raises(CrowdError, match="as it was to"):
        fail_in_the_middle()
    until = time.monotonic() + 30
    while active_children() and time.monotonic() < until:
        time.sleep(0.05)
    assert active_children() == []


def fail_in_the_middle():
    with play(Setup(watchdogs=2, minutes=1)):
        raise CrowdError("as it was to")
