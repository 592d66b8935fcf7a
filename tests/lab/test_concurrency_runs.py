"""Several watchdogs, each a process, on one ledger: together they do what one alone does."""

import json
import time
from dataclasses import replace
from multiprocessing import active_children

import pytest
from click.testing import CliRunner

from burstlab.concurrency import command, runner
from burstlab.concurrency.command import crowd
from burstlab.concurrency.invariants import check_invariants
from burstlab.concurrency.runner import TABLE, ClockMode, CrowdError, RunConfig, run
from burstlab.deployed.local_aws import LocalAws
from burstwatch.core.ledger.flip_state import FlipStatus
from support.builders.states import with_fields
from support.concurrency.lab_runs import MINUTES

CI_1 = "vol-00000000000000001"


def run_for_seconds(**fields):
    return check_invariants(run(RunConfig(minutes=MINUTES, **fields)))


def test_a_single_watchdog_flips_alerts_and_violates_no_invariant(baseline_run):
    _, verdict = baseline_run
    assert verdict.broken == ()
    assert {name for name, types in verdict.moves.items() if types == ["gp3"]} >= {"ci-1", "ci-2"}
    assert verdict.moves["orders"] == ["io1"]
    assert verdict.decisions == verdict.modifications == len([t for v in verdict.moves.values() for t in v])
    assert verdict.alerts["held FlipRefused critical"] == 1


@pytest.mark.parametrize("watchdogs", [2, 10])
def test_many_watchdogs_on_one_file_match_a_single_one(baseline_run, watchdogs):
    verdict = run_for_seconds(watchdogs=watchdogs)
    with_lone = verdict_against(baseline_run, verdict)
    assert with_lone == []
    assert (verdict.late_ticks, verdict.doubled_ticks, verdict.doubled_alerts) == (0, 0, 0)
    assert verdict.errors == {}


def test_two_watchdogs_on_dynamodb_match_a_single_one_on_a_file(baseline_run):
    """The table is that of the local AWS, with a server's real conditional writes, over HTTP."""
    with LocalAws() as aws:
        verdict = check_invariants(run(RunConfig(watchdogs=2, ledger="dynamodb", minutes=MINUTES), aws=aws))
        assert aws.client("dynamodb").scan(TableName=TABLE)["Count"] > 0
    assert verdict_against(baseline_run, verdict) == []
    assert (verdict.late_ticks, verdict.doubled_ticks, verdict.doubled_alerts) == (0, 0, 0)
    assert verdict.errors == {}


def verdict_against(baseline_run, verdict):
    """What differs from one alone, beside the broken invariants."""
    lone = baseline_run[1]
    differs = [name for name in ("moves", "alerts") if getattr(verdict, name) != getattr(lone, name)]
    return [*verdict.broken, *differs]


def test_a_repeatedly_killed_watchdog_costs_only_late_ticks(baseline_run):
    result = run(RunConfig(watchdogs=2, minutes=MINUTES, kill_at_effect=17))
    verdict = check_invariants(result, solo=baseline_run[1])
    assert verdict.deaths >= 2
    assert verdict.broken == ()


def test_clocks_that_jump_by_an_hour_and_by_seconds_are_reported_and_do_no_harm(baseline_run):
    """The wrong one takes ticks that are over, or to come, and gets no further than AWS's first answer."""
    result = run(RunConfig(watchdogs=2, minutes=MINUTES, clock_mode=ClockMode.JUMPING))
    verdict = check_invariants(result, solo=baseline_run[1])
    assert verdict.broken == ()
    ahead, behind = sorted(verdict.errors)
    assert "this machine's clock is 60 min ahead of AWS's" in ahead
    assert "this machine's clock is 60 min behind AWS's" in behind
    assert all("set it (for example chronyc makestep)" in error for error in verdict.errors)


@pytest.mark.parametrize("clocks", ClockMode)
@pytest.mark.parametrize("watchdogs", [2, 3, 10])
def test_the_right_clocks_are_within_what_the_watchdog_allows(clocks, watchdogs):
    """Two minutes; an hour is meant to be wrong."""
    setup = RunConfig(watchdogs=watchdogs, clock_mode=clocks)
    for minute in range(40):
        off = [abs(setup.offset_s(number, minute)) for number in range(watchdogs)]
        assert all(item <= 90 or item == 3600 for item in off)
        assert min(off) < 120, f"minute {minute}: everybody is wrong"


# Invariants that can be broken


def test_an_undelivered_alert_is_missed(baseline_run):
    result, _ = baseline_run
    [invariant] = check_invariants(replace(result, alerts=result.alerts[1:])).broken
    assert invariant.endswith("was never sent")


def test_an_alert_that_came_twice_is_counted(baseline_run):
    result, verdict = baseline_run
    repeated = check_invariants(replace(result, alerts=[*result.alerts, result.alerts[0]]))
    assert (repeated.doubled_alerts, repeated.delivered_alerts, repeated.broken) == (
        1,
        verdict.delivered_alerts,
        (),
    )


def test_an_alert_that_is_in_no_history_is_found(baseline_run):
    result, _ = baseline_run
    unknown = result.alerts[0]._replace(alert_id="0123")
    [invariant] = check_invariants(replace(result, alerts=[*result.alerts, unknown])).broken
    assert invariant == "alert 0123 is in no history"


def test_an_extra_modification_is_detected(baseline_run):
    result, verdict = baseline_run
    [invariant] = check_invariants(replace(result, external_modifications={CI_1: 1})).broken
    assert invariant == "ci-1: 0 modifications for 1 decisions"
    changed = replace(verdict, moves={**verdict.moves, "ci-2": ["gp3", "gp3"]})
    [invariant] = check_invariants(result, solo=changed).broken
    assert invariant == "ci-2: went to ['gp3']; by one watchdog alone to ['gp3', 'gp3']"


def test_two_consecutive_missed_ticks_are_detected(baseline_run):
    result, _ = baseline_run
    ticks = [*result.ticks[:5], [None], [None], *result.ticks[7:]]
    [invariant] = check_invariants(replace(result, ticks=ticks)).broken
    assert invariant == "minutes 5 and 6 were not done"


def test_an_error_in_the_quiet_minutes_at_the_end_is_found(baseline_run):
    result, _ = baseline_run
    reported = replace(result.ticks[-1][0], errors=("ec2:DescribeVolumes failed",))
    ticks = [*result.ticks[:-1], [reported]]
    [invariant] = check_invariants(replace(result, ticks=ticks)).broken
    assert invariant == f"minute {MINUTES + 5}: ec2:DescribeVolumes failed"


def broken_invariants(result, **overrides):
    return check_invariants(replace(result, **overrides)).broken


def test_an_inconsistent_ledger_is_detected(baseline_run):
    result, _ = baseline_run
    states, volume_id = result.states, CI_1
    state = states[volume_id]
    [invariant] = broken_invariants(result, states=states | {volume_id: with_fields(state, used=())})
    assert invariant.startswith("ci-1: the modification of ")
    assert invariant.endswith(" counts 0 times")
    never = replace(state.flip, status=FlipStatus.REQUESTED)
    [invariant] = broken_invariants(result, states=states | {volume_id: replace(state, flip=never)})
    assert invariant == "ci-1: its flip is still asked, and AWS has nothing in progress"
    [invariant] = broken_invariants(result, states=states | {volume_id: replace(state, flip=None)})
    assert invariant == "ci-1: it is gp3, the ledger says gp2"


def test_a_stuck_watermark_and_pending_alerts_are_detected(baseline_run):
    result, _ = baseline_run
    [invariant] = broken_invariants(result, undelivered=2)
    assert invariant == "2 alerts still wait"
    [invariant] = broken_invariants(result, watermark_s=result.watermark_s - 300)
    assert invariant.startswith("the watermark is ")


# The command


def run_crowd(*arguments):
    return CliRunner().invoke(crowd, arguments)


@pytest.mark.parametrize("value", ["0", "5-3", "x", "1-2-3"])
def test_a_kill_that_is_not_a_number_is_refused_with_what_would_do(value):
    reported = run_crowd("--kill-at", value)
    assert reported.exit_code == 2
    assert "write a number from 1, or two as in 1-40" in " ".join(reported.output.split())


def test_the_command_prints_a_row_for_each_scenario():
    reported = run_crowd("--watchdogs", "2", "--minutes", "1", "--kill-at", "2")
    assert reported.exit_code == 0, reported.output
    assert "7 minutes, sqlite, clocks right" in reported.output
    assert "2, at 2" in reported.output
    assert max(map(len, reported.output.splitlines())) <= 80


def test_a_violated_invariant_is_named_and_the_command_fails(baseline_run, monkeypatch):
    broken = replace(baseline_run[1], broken=("ci-1: 2 modifications for 1 decisions",))
    monkeypatch.setattr(command, "_run_all", lambda _setups: iter([baseline_run[1], broken]))
    reported = run_crowd()
    assert reported.exit_code == 1
    assert "broken with 1 watchdogs: ci-1: 2 modifications for 1 decisions" in reported.output
    reported = run_crowd("--json")
    document = json.loads(reported.output)
    assert document["schema"] == "burstwatch.lab.crowd/v1"
    assert document["runs"][1]["broken"] == ["ci-1: 2 modifications for 1 decisions"]


def test_no_worker_outlives_a_failed_run(monkeypatch):
    monkeypatch.setattr(runner.Scenario, "apply_events", fail_after_the_first_minute)
    with pytest.raises(CrowdError, match="as it was to"):
        run(RunConfig(watchdogs=2, minutes=2))
    until = time.monotonic() + 30
    while active_children() and time.monotonic() < until:
        time.sleep(0.05)
    assert active_children() == []


def fail_after_the_first_minute(_scenario, minute):
    if minute == 1:
        assert len(active_children()) == 2
        raise CrowdError("as it was to")
