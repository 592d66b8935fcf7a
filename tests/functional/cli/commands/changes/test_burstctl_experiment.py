"""burstctl experiment credit-reset: four hypotheses distinguished, and a volume that always returns."""

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from burstctl.cli.options import Options
from burstctl.context.context import open_modifying
from burstctl.context.on_demand_pass import evaluate_fleet
from burstctl.experiment import runner
from burstctl.experiment.journal import JournalError, JournalStore, Stage
from burstctl.experiment.preflight import ExperimentRequest, run_preflight
from burstctl.main import main
from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import (
    START,
    add_lab_volume,
    count_modify_calls,
    modification_targets,
    start_lab,
)
from support.waiting import wait_until

pytestmark = pytest.mark.lab_settings(modify_minutes_per_tib=30)


COMMAND = ("experiment", "credit-reset")
COLUMNS = 80


def add_spare(lab, name="spare", load="steady:20", **fields) -> str:
    """40 % an hour ago; it earns 280 a second since, 0.31 % a minute: 58.7 % at 18:00."""
    return add_lab_volume(lab, name, load, **({"balance_pct": 40, "minutes": 60} | fields))


def holds(cli):
    with cli.open_ledger() as ledger:
        return ledger.holds(START.timestamp())


def read_journals(cli):
    return [json.loads(path.read_text()) for path in cli.ledger_path.parent.glob("experiment-*.json")]


def report_files(cli):
    return sorted(cli.ledger_path.parent.glob("credit-reset-*.md"))


def is_on_target(lab, volume_id):
    return lambda: lab.fleet.find(volume_id).volume_type == "io1"


HYPOTHESES = {
    "kept": "kept",
    "refilled": "refilled while away",
    "reset": "reset",
    "emptied": "emptied",
}


@pytest.mark.parametrize("balance_after", HYPOTHESES)
def test_the_lab_setting_for_the_balance_is_detected(cli, lab, fake_sleep, balance_after):
    lab.fleet.change_settings(balance_after=balance_after)
    volume_id = add_spare(lab)

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert f"\n{HYPOTHESES[balance_after].capitalize()}. It came back with " in result.out
    assert max(map(len, result.out.splitlines())) <= COLUMNS
    [page] = report_files(cli)
    assert f"**{HYPOTHESES[balance_after].capitalize()}. It came back with " in page.read_text()
    assert f"the report, safe to share: {page}" in result.err
    assert holds(cli) == []
    assert cli.entry_kinds(volume_id) == [
        "held", "intent", "accepted", "reached", "intent", "accepted", "restored", "released",
    ]  # fmt: skip


def test_the_report_has_everything_but_user_and_volume(cli, lab, fake_sleep, tmp_path):
    volume_id = add_spare(lab, tags={"team": "hush"})

    cli_result = cli.run(*COMMAND, volume_id, "--yes", "--json", "--report", tmp_path / "answer.md")

    result, page = cli_result.document, (tmp_path / "answer.md").read_text()
    assert result["schema"] == "burstwatch.experiment/v1"
    assert (result["conclusion"], result["failed"], result["stage"]) == ("kept", None, "over")
    assert result["fits"] == ["kept"]
    assert result["report"] == str(tmp_path / "answer.md")
    for reported in (page, json.dumps({**result, "ledger": None, "report": None})):
        for secret in (volume_id, volume_id[4:], "123456789012", "spare", "hush", "anna", "i-0"):
            assert secret not in reported
    assert page.startswith("# The burst balance of a gp2 volume after io1, measured 2026-11-20\n")
    assert "| Size | 100 GiB |" in page
    for way in result["modifications"].values():
        assert f"| {way['started_at']} | {way['completed_at']} |" in page
    reported = {row["at"]: row for row in result["datapoints"]}
    assert reported["2026-11-20T17:59:00Z"]["burst_balance_pct"] == pytest.approx(58.36, abs=0.01)
    assert reported["2026-11-20T17:59:00Z"]["when"] == "gp2"
    assert [row["when"] for row in result["datapoints"] if row["burst_balance_pct"] is None].count(
        "away"
    ) > 10
    assert sum(row["when"] == "gp2 again" for row in result["datapoints"]) >= 15
    assert all(f"| {at} | {row['when']} |" in page for at, row in reported.items())


def test_the_plan_lists_what_is_lost_what_would_be_reported_and_what_it_costs(cli, lab):
    volume_id = add_spare(lab)

    result = cli.run(*COMMAND, volume_id, "--dry-run")

    # io1: 100 x 0.125 + 3,000 x 0.065 = 207.50, gp2 10.00; 197.50 / 730 = 0.27 an hour, 17 min are 0.0767.
    # Needed are 4 / 0.95 r + 2.2 = 14.8 min for an idle one, and more for what 20 operations may take
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "Only for a volume that may lose its burst: it may return with no credits at all" in text
    assert "Now 58.0 % of its burst balance in the minute from 17:58 UTC, 20.0 IOPS" in text
    assert "stay for 17 min, long enough to distinguish refilled from kept" in text
    assert "$10.00 -> $207.50 a month while it is away: $0.08 more in all" in text
    assert "0 of AWS's 4 modifications in 24 h are used; this takes 2 and leaves one for people" in text
    assert "if AWS takes 50 min for each way, refilled while away and reset may look alike" in text
    assert "Refused" not in result.out
    assert max(map(len, result.out.splitlines())) <= COLUMNS
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.parent.exists()


def test_the_plan_in_json(cli, lab):
    volume_id = add_spare(lab, balance_pct=82, minutes=30)

    result = cli.run(*COMMAND, volume_id, "--dry-run", "--json")

    assert result.code == 4
    plan = result.document
    assert plan["schema"] == "burstwatch.experiment-plan/v1"
    assert [objection["name"] for objection in plan["objections"]] == ["balance_too_high"]
    assert plan["quickest"]["away_s"] == 17 * 60
    assert set(plan["quickest"]["allowed_pct"]) == set(HYPOTHESES.values())
    assert plan["plan"]["target"]["volume_type"] == "io1"


def place_in_window(cli, lab):
    volume_id = add_spare(lab, tags={"burstwatch:window": "release"})
    cli.run("window", "start", "release", "--for", "4h", "--yes")
    return volume_id


def place_before_window(cli, lab):
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nwindows:\n  night:\n    cron: 0 20 * * *\n    zone: UTC\n    duration: 2h\n"
    )
    return add_spare(lab, tags={"burstwatch:window": "night"})


def place_hold(cli, lab):
    volume_id = add_spare(lab)
    cli.run("hold", "--all", "--for", "6h", "--reason", "INC-42", "--ledger", f"sqlite:{cli.ledger_path}")
    return volume_id


def flip_volume(cli, lab):
    volume_id = add_spare(lab)
    cli.run("flip", volume_id, "--yes")
    return volume_id


def flip_and_return(cli, lab):
    volume_id = add_spare(lab, balance_pct=20)
    for command in ("flip", "flip-back"):
        cli.run(command, volume_id, "--yes")
        lab.clock.advance(1800)
        cli.run("watch", "--once")
    lab.clock.advance(3600)
    return volume_id


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (place_in_window, "window", "its window release runs"),
        (place_before_window, "window", "its window night starts before the experiment would be over"),
        (place_hold, "held", "everything is on hold by anna"),
        (flip_volume, "flipped", "burstctl flip-back"),
        (flip_and_return, "quota_reserve", "2 of AWS's 4 modifications in 24 h are used; it takes 2"),
    ],
)
def test_the_experiment_is_refused_and_nothing_is_done(cli, lab, make, name, message):
    volume_id = make(cli, lab)
    before = count_modify_calls(lab)

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 4
    assert f"{name}: " in result.out
    assert message in " ".join(result.out.split())
    assert max(map(len, result.out.splitlines())) <= COLUMNS
    assert count_modify_calls(lab) == before
    assert read_journals(cli) == []


def test_the_experiment_is_refused_when_it_would_do_harm_or_be_inconclusive(cli, lab):
    jumped, stopped = add_spare(lab), add_spare(lab, instance_id="i-0123456789abcdef0")
    lab.fleet.stop_instance("i-0123456789abcdef0")
    lab.clock.advance(3600)
    lab.fleet.set_balance(jumped, 30)
    lab.clock.advance(300)
    late = {"starts_at": lab.clock.now() - timedelta(minutes=30)}
    quarter = {"starts_at": lab.clock.now() - timedelta(minutes=15)}
    expected = {
        jumped: ("unsteady", "use a quieter volume"),
        stopped: ("no_data", "is stopped"),
        set_up_volume(lab, 82, **late): ("balance_too_high", "above 80 %"),
        set_up_volume(lab, 1.2, load="steady:300", **late): (
            "would_not_tell",
            "let it refill first, at 0.33 % a minute",
        ),
        set_up_volume(lab, 5, size_gib=900, **(late | quarter)): (
            "would_not_tell",
            "start with a lower balance, stay shorter",
        ),
        set_up_volume(lab, 40, tags={"burstwatch:critical": "true"}, **late): (
            "critical",
            "use a less important volume",
        ),
        set_up_volume(lab, 70, load="steady:1500", **late): ("alert", "it has an open alert, warning"),
        set_up_volume(lab, 40, attached=False, **late): ("no_data", "detached"),
        set_up_volume(lab, 40, size_gib=1000, **late): ("no_balance", "take a gp2 below 1,000 GiB"),
        set_up_volume(lab, 40, volume_type="gp3", **late): ("no_balance", "a gp3 of 100 GiB"),
        set_up_volume(lab, 40, managed_by="eks.amazonaws.com", **late): ("managed", "it belongs to eks"),
        set_up_volume(lab, 40, size_gib=33, **late): ("no_target", "take gp3 or io2"),
    }
    with open_modifying(Options()) as opened:
        result = {
            volume_id: run_preflight(opened, ExperimentRequest(volume_id=volume_id)).preflight_failures
            for volume_id in expected
        }
    for volume_id, (name, text) in expected.items():
        names = [finding.name for finding in result[volume_id]]
        assert name in names, (name, result[volume_id])
        assert text in " ".join(finding.reason for finding in result[volume_id] if finding.name == name)


def set_up_volume(lab, balance_pct, *, load="idle", size_gib=100, **fields) -> str:
    return lab.fleet.add(LabVolume(size_gib=size_gib, load=load, balance_pct=balance_pct, **fields))


def test_a_longer_stay_can_be_wanted_and_one_in_which_it_fills_is_refused(cli, lab):
    volume_id = add_spare(lab)

    long, longer = (cli.run(*COMMAND, volume_id, "--dry-run", "--away", span) for span in ("1h", "3h"))

    assert "stay for 60 min," in long.out
    assert longer.code == 4
    assert "would_not_tell: refilled while away (" in " ".join(longer.out.split())


@pytest.mark.parametrize("away", ["5m", "13h", "soon"])
def test_an_impossible_stay_is_a_usage_error(cli, lab, away):
    assert cli.run(*COMMAND, "vol-0123456789abcdef0", "--away", away).code == 2


def test_a_volume_that_is_not_there_is_a_failure_with_one_message(cli, lab):
    result = cli.run(*COMMAND, "vol-0123456789abcdef0", "--yes")

    assert result.code == 1
    assert result.error_lines == ["error: no volume vol-0123456789abcdef0 in us-east-1."]
    assert "  fix: check the ID, the Region and the account" in result.err


def test_without_a_terminal_yes_is_needed_and_nothing_is_read(cli, lab):
    result = cli.run(*COMMAND, add_spare(lab))

    assert result.code == 2
    assert "add --yes to do it, or --dry-run to see" in result.err
    assert "DescribeVolumes" not in lab.faults.call_counts()


def test_declining_the_prompt_does_nothing(cli, lab):
    volume_id = add_spare(lab)

    result = cli.run(*COMMAND, volume_id, answer="n")

    assert result.code == 130
    assert f"May {volume_id} lose its burst for this experiment? Start? [y/N]" in result.err
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.parent.exists()


def test_a_report_that_could_not_be_written_is_found_out_before_anything_is_done(cli, lab, tmp_path):
    result = cli.run(*COMMAND, add_spare(lab), "--yes", "--report", tmp_path / "nowhere" / "answer.md")

    assert result.code == 2
    assert "its directory is not there or not yours.\n  fix: name another" in result.err
    assert count_modify_calls(lab) == 0


def send_interrupt(stop):
    stop.is_requested = True


def test_after_an_interruption_the_same_command_continues_without_a_question(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(is_on_target(lab, volume_id), send_interrupt)

    first = cli.run(*COMMAND, volume_id, answer="y")
    dry_run = cli.run(*COMMAND, volume_id, "--dry-run")
    second = cli.run(*COMMAND, volume_id)

    assert first.code == 130
    assert "run it again to resume, or with --abandon to return it at once: burstctl experiment" in first.err
    assert dry_run.code == 0
    assert dry_run.out.startswith(f"{volume_id} will be modified to io1")
    assert second.code == 0
    assert second.out.startswith("Kept. ")
    assert f"going on: {volume_id} will be modified to io1" in second.err
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert holds(cli) == []


def test_it_can_be_interrupted_at_every_wait(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.actions.append(send_interrupt)
    codes = [cli.run(*COMMAND, volume_id, "--yes").code]
    while codes[-1] == 130:
        codes.append(cli.run(*COMMAND, volume_id).code)

    assert codes[-1] == 0
    assert len(codes) > 4
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert [journal["conclusion"] for journal in read_journals(cli)] == ["kept"]


def test_a_real_ctrl_c_ends_it_between_two_evaluations_and_it_goes_on_in_another_process(cli):
    with start_lab(cli, speed=300, modify_minutes_per_tib=30) as lab:
        volume_id = add_spare(lab)
        with cli.start_subprocess(*COMMAND, volume_id, "--yes") as process:
            wait_until(is_on_target(lab, volume_id))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "interrupted: " in err
        assert "Traceback" not in err
        lab.clock.set_speed(1000)
        result = cli.run_in_subprocess(*COMMAND, volume_id, "--json")
        assert result.code == 0
        assert modification_targets(lab, volume_id) == ["io1", "gp2"]
        assert result.document["conclusion"] in ("kept", "unclear")


def test_a_watchdog_flips_back_the_volume_of_an_unfinished_experiment(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(is_on_target(lab, volume_id), send_interrupt)
    cli.run(*COMMAND, volume_id, "--yes")
    for _ in range(2):
        lab.clock.advance(20 * 3600)
        cli.run("watch", "--once", "--act")
        lab.clock.advance(1200)
        cli.run("watch", "--once", "--act")

    result = cli.run(*COMMAND, volume_id)

    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert result.code == 1
    assert "no answer: someone else changed or returned it" in result.err


def test_an_experiment_confirmed_long_ago_and_not_started_is_not_started(cli, lab, fake_sleep, monkeypatch):
    """The process died between the agreement and its first effect; no one came back for a night."""
    volume_id = add_spare(lab)

    def die(_self):
        raise SystemExit(9)

    with monkeypatch.context() as dying:
        dying.setattr(runner.ExperimentRunner, "run", die)
        with pytest.raises(SystemExit):
            cli.run(*COMMAND, volume_id, "--yes")
    lab.clock.advance(8 * 3600)

    result = cli.run(*COMMAND, volume_id)

    assert result.code == 4
    assert "it was confirmed at 2026-11-20T18:00:00Z, and much may have changed since" in result.err
    assert count_modify_calls(lab) == 0
    assert holds(cli) == []


def test_abandoning_flips_back_at_once_and_gives_no_answer(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(is_on_target(lab, volume_id), send_interrupt)
    cli.run(*COMMAND, volume_id, "--yes")
    away_at = lab.clock.now()

    result = cli.run(*COMMAND, volume_id, "--abandon")

    assert result.code == 0
    assert result.out == "There is no answer: it was stopped before there was one.\n"
    assert lab.clock.now() - away_at < timedelta(minutes=15)
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert report_files(cli) == []
    assert holds(cli) == []
    assert cli.run(*COMMAND, volume_id, "--abandon").code == 0
    assert "there is no experiment to abandon" in cli.run(*COMMAND, volume_id, "--abandon").err


def test_abandoning_while_flipping_waits_for_aws_and_then_flips_back(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.actions.append(send_interrupt)
    cli.run(*COMMAND, volume_id, "--yes")
    assert read_journals(cli)[0]["stage"] == Stage.LEAVING
    cli.run(*COMMAND, volume_id, "--abandon")
    fake_sleep.actions.clear()

    result = cli.run(*COMMAND, volume_id)

    assert result.code == 0
    assert result.out.startswith("There is no answer")
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_a_kill_switch_placed_after_the_last_check_still_stops_it(cli, lab, monkeypatch):
    volume_id = add_spare(lab)
    real = runner.ExperimentRunner._execute_flip

    def place_and_execute(self, direction):
        place_hold(cli, lab)
        return real(self, direction)

    monkeypatch.setattr(runner.ExperimentRunner, "_execute_flip", place_and_execute)
    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code != 0
    assert "it could not leave: held: everything is on hold by anna (user/moto): INC-42" in result.err
    assert lab.fleet.modifications(volume_id) == []


def test_the_kill_switch_stops_the_return_until_it_is_released(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    switch = Hold(
        volume_id=None,
        by="bob",
        reason="INC-42",
        placed_at_s=int(START.timestamp()),
        until_s=int(START.timestamp()) + 86_400,
    )

    def place(_stop):
        with cli.open_ledger() as ledger:
            ledger.place_hold(switch)

    def lift(_stop):
        with cli.open_ledger() as ledger:
            ledger.lift_hold(None, by="bob", at_s=int(lab.clock.now_s()))

    fake_sleep.run_once(is_on_target(lab, volume_id), place)
    fake_sleep.run_once(lambda: lab.clock.now() > START + timedelta(hours=2), lift)
    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert "it cannot return: held: everything is on hold by bob: INC-42" in result.err
    back = lab.fleet.modifications(volume_id)[-1]
    assert back.started_at > START + timedelta(hours=2)


def test_a_watchdog_that_may_act_leaves_it_alone(cli, lab, fake_sleep, monkeypatch):
    """Opted in, and a window begins while it is away: back on gp2 it would be flipped, but it is held."""
    volume_id = add_spare(lab, tags={"burstwatch:mode": "auto", "burstwatch:window": "release"})
    shells, refused = [], []
    run = runner.ExperimentRunner.run
    monkeypatch.setattr(
        runner.ExperimentRunner, "run", lambda self: (shells.append(self.context.services), run(self))[1]
    )

    def start(_stop):
        mark = ManualWindowOverride(name="release", is_start=True, by="bob", at_s=int(lab.clock.now_s()))
        shells[0].ledger.record_manual_override(mark)

    def watch(_stop):
        report = evaluate_fleet(shells[0], now_s=lab.clock.now_s())
        refused.extend(outcome.refusal.guard for outcome in report.outcomes.values() if outcome.refusal)

    fake_sleep.run_once(is_on_target(lab, volume_id), start)
    fake_sleep.actions.append(watch)
    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert "\nKept. " in result.out
    assert set(refused) == {Guard.HELD}
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_an_external_change_ends_the_experiment_and_is_respected(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(
        is_on_target(lab, volume_id), lambda _: lab.fleet.modify(volume_id, volume_type="gp2")
    )

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 1
    assert "no answer: someone else" in result.err
    assert result.out.rpartition("\n\n")[2].splitlines()[-1]
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert holds(cli) == []
    assert report_files(cli) == []


def test_an_external_flip_back_ends_the_experiment(cli, lab, fake_sleep):
    volume_id = add_spare(lab)

    def flip_back(_stop):
        with cli.open_ledger() as ledger:
            ledger.lift_hold(volume_id, by="bob", at_s=int(lab.clock.now_s()))
        assert main(["flip-back", volume_id, "--yes"]) == 0

    fake_sleep.run_once(lambda: read_journals(cli)[0]["stage"] == Stage.AWAY, flip_back)
    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 1
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


@pytest.mark.parametrize(("fails_at", "types"), [(0, ["io1", "io1", "gp2"]), (1, ["io1", "gp2", "gp2"])])
def test_a_modification_that_aws_did_not_make_is_requested_again(cli, lab, fake_sleep, fails_at, types):
    volume_id = add_spare(lab)

    def choose(_stop=None):
        result = len(modification_targets(lab, volume_id))
        lab.fleet.change_settings(modify_outcome="failed" if result == fails_at else "completed")

    choose()
    fake_sleep.actions.append(choose)
    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert modification_targets(lab, volume_id) == types


def test_an_answer_lost_in_transit_is_settled_by_a_query_and_nothing_is_sent_twice(cli, lab, fake_sleep):
    """Neither answer of AWS to ModifyVolume arrives; what was requested is done."""
    volume_id = add_spare(lab)
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", after_effect=True, times=2))

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_a_volume_that_may_not_be_flipped_is_released(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    lab.fleet.change_settings(modify_needs_tag=("burstwatch:mode", "auto"))

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 1
    assert "no answer: it could not leave: ec2:ModifyVolume failed (UnauthorizedOperation)" in result.err
    assert holds(cli) == []
    assert cli.run(*COMMAND, volume_id, "--dry-run").code == 0


def test_without_datapoints_after_the_return_the_result_is_reported_as_unclear(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    lab.fleet.hide_metrics(volume_id, from_at=START + timedelta(minutes=5), to_at=START + timedelta(days=1))

    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    assert result.code == 0
    assert result.document["conclusion"] == "unclear"
    assert result.document["because"] == [
        "0 datapoints from after the return are there, and at least 3 over 15 min are wanted."
    ]
    assert "**Unclear. The datapoints do not show which" in report_files(cli)[0].read_text()
    assert holds(cli) == []


def test_beside_a_deployed_stack_its_ledger_has_the_hold_and_the_journal_stays_here(cli, lab, fake_sleep):
    ledger = deploy_stack(lab)
    volume_id = add_spare(lab)
    holds = []
    fake_sleep.run_once(is_on_target(lab, volume_id), lambda _: holds.extend(ledger.holds(lab.clock.now_s())))

    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    assert result.code == 0
    assert result.document["conclusion"] == "kept"
    assert [hold.volume_id for hold in holds] == [volume_id]
    assert ledger.holds(lab.clock.now_s()) == []
    assert [journal["ledger"] for journal in read_journals(cli)] == ["dynamodb:burstwatch-ledger"]
    assert not cli.ledger_path.exists()


def test_when_aws_took_long_it_stays_longer(cli, lab, fake_sleep):
    lab.fleet.change_settings(modifying_s=1500.0)
    volume_id = add_spare(lab, size_gib=60, balance_pct=20)

    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    out, back = (modification.started_at for modification in lab.fleet.modifications(volume_id))
    assert "so it stays for " in result.err
    assert back - out > timedelta(minutes=50)
    assert result.document["conclusion"] == "kept"


def test_each_experiment_that_cannot_resume_gets_one_message(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.actions.append(send_interrupt)
    cli.run(*COMMAND, volume_id, "--yes")
    state = cli.ledger_path.parent
    [path] = state.glob("experiment-*.json")

    elsewhere = cli.run(*COMMAND, volume_id, "--ledger", f"sqlite:{state / 'other.sqlite'}")
    with JournalStore(state).lock(volume_id):
        at_once = cli.run(*COMMAND, volume_id)
    path.write_text("{")
    damaged = cli.run(*COMMAND, volume_id)

    assert (elsewhere.code, at_once.code, damaged.code) == (2, 1, 1)
    assert f"was begun in us-east-1 with ledger sqlite:{cli.ledger_path}" in elsewhere.error_lines[-1]
    assert f"another process runs the experiment with {volume_id}" in at_once.error_lines[-1]
    assert f"the journal {path} cannot be read" in damaged.error_lines[-1]
    assert modification_targets(lab, volume_id) == ["io1"]


def test_another_experiment_can_follow(cli, lab, fake_sleep):
    volume_id = add_spare(lab, balance_pct=20)
    assert cli.run(*COMMAND, volume_id, "--yes").code == 0
    lab.clock.advance(25 * 3600)
    lab.fleet.set_balance(volume_id, 20)
    lab.clock.advance(3600)

    result = cli.run(*COMMAND, volume_id, "--yes", "--to", "gp3", "--tell-id", "--json")

    assert result.code == 0
    assert result.document["volume"] == volume_id
    assert f"| Volume | {volume_id} |" in Path(result.document["report"]).read_text()
    assert modification_targets(lab, volume_id) == ["io1", "gp2", "gp3", "gp2"]
    assert len(read_journals(cli)) == len(report_files(cli)) == 2


def reached_stage(cli, stage):
    return lambda: bool(read_journals(cli)) and read_journals(cli)[0]["stage"] == stage


def refuse_cloudwatch(lab):
    fault = Fault(action="GetMetricData", code="AccessDenied", message="not you", status=403)
    return lambda _stop=None: lab.faults.add(fault)


def test_while_cloudwatch_does_not_answer_nothing_is_concluded(cli, lab, fake_sleep):
    """The datapoints are kept for days: an hour without an answer still has its datapoints."""
    volume_id = add_spare(lab)
    fake_sleep.run_once(reached_stage(cli, Stage.WATCHING), refuse_cloudwatch(lab))
    fake_sleep.run_once(lambda: lab.clock.now() > START + timedelta(hours=4), lambda _: lab.faults.clear())

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert "\nKept. " in result.out
    assert "AccessDenied" in result.err
    assert "waited for until CloudWatch answers" in " ".join(result.err.split())
    assert [journal["conclusion"] for journal in read_journals(cli)] == ["kept"]
    assert holds(cli) == []


def test_missing_datapoints_are_not_waited_for_longer_than_a_day(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(reached_stage(cli, Stage.WATCHING), refuse_cloudwatch(lab))

    result = cli.run(*COMMAND, volume_id, "--yes")

    assert result.code == 0
    assert [journal["conclusion"] for journal in read_journals(cli)] == ["unclear"]
    assert timedelta(hours=24) < lab.clock.now() - START < timedelta(hours=28)
    assert holds(cli) == []


def test_the_answer_on_the_screen_is_that_of_the_report(cli, lab, fake_sleep, monkeypatch):
    """Read once more for the screen alone, CloudWatch might say less."""
    volume_id = add_spare(lab)
    write = runner.write_report

    def write_and_fall_silent(*args):
        write(*args)
        refuse_cloudwatch(lab)()

    monkeypatch.setattr(runner, "write_report", write_and_fall_silent)
    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    assert result.document["conclusion"] == "kept"
    assert [journal["conclusion"] for journal in read_journals(cli)] == ["kept"]


def test_the_required_stay_is_not_computed_from_missing_data(cli, lab, fake_sleep):
    lab.fleet.change_settings(modifying_s=1500.0)
    volume_id = add_spare(lab, size_gib=60, balance_pct=20)
    fake_sleep.run_once(reached_stage(cli, Stage.LEAVING), refuse_cloudwatch(lab))
    fake_sleep.run_once(reached_stage(cli, Stage.AWAY), lambda _: lab.faults.clear())

    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    out, back = (modification.started_at for modification in lab.fleet.modifications(volume_id))
    assert "no stay up to" not in result.err
    assert back - out > timedelta(minutes=50)
    assert result.document["conclusion"] == "kept"


def test_an_unreachable_ledger_is_waited_for(cli, lab, fake_sleep):
    """A network that is gone for a while ends nothing: the volume would be left on its target."""
    deploy_stack(lab)
    volume_id = add_spare(lab)
    gone = [
        Fault(action=action, code="InternalServerError", status=500, times=24)
        for action in ("BatchGetItem", "Query", "GetItem")
    ]
    fake_sleep.run_once(is_on_target(lab, volume_id), lambda _: [lab.faults.add(item) for item in gone])

    result = cli.run(*COMMAND, volume_id, "--yes", "--json")

    assert result.code == 0
    assert result.document["conclusion"] == "kept"
    assert "the ledger cannot be used and is tried again every minute" in " ".join(result.err.split())


def test_every_ending_reports_where_the_volume_is_and_how_to_continue(cli, lab, fake_sleep, monkeypatch):
    volume_id = add_spare(lab)

    def full(_self, _journal):
        raise JournalError("the disk is full")

    fake_sleep.run_once(
        is_on_target(lab, volume_id), lambda _: monkeypatch.setattr(JournalStore, "save", full)
    )
    result = cli.run(*COMMAND, volume_id, "--yes")

    text = " ".join(result.err.split())
    assert result.code == 1
    assert result.error_lines == ["error: the disk is full"]
    assert (
        f"it stopped here: {volume_id} will be modified to io1 with 3,000 IOPS; run it again to resume"
        in text
    )
    assert f"burstctl experiment credit-reset {volume_id}" in text


def test_a_plan_older_than_its_limit_is_not_carried_out(cli, lab, fake_sleep):
    """The question stood on the screen over lunch, and the volume is not known any more."""
    volume_id = add_spare(lab)

    result = cli.run(*COMMAND, volume_id, answer="y", during_prompt=lambda: lab.clock.advance(3600))

    assert result.code == 4
    assert "the plan above is 60 min old" in " ".join(result.err.split())
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.exists()


def test_after_an_external_change_the_output_names_the_type_and_how_to_flip_back(cli, lab, fake_sleep):
    volume_id = add_spare(lab)
    fake_sleep.run_once(
        reached_stage(cli, Stage.AWAY), lambda _: lab.fleet.modify(volume_id, volume_type="io1", iops=4000)
    )

    result = cli.run(*COMMAND, volume_id, "--yes")

    text = " ".join(result.out.rpartition("\n\n")[2].split())
    assert result.code == 1
    assert "It is io1 with 4,000 IOPS now, and it is not returned automatically" in text
    assert f"burstctl flip-back {volume_id}" in text
    assert holds(cli) == []


def test_an_ignored_volume_is_refused_by_that_name(cli, lab):
    volume_id = add_spare(lab, tags={"burstwatch:ignore": "true"})

    result = cli.run(*COMMAND, volume_id, "--dry-run")

    assert result.code == 1
    assert result.error_lines == [f"error: {volume_id} is tagged burstwatch:ignore, so it is not watched."]
