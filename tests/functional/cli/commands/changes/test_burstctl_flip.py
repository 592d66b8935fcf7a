"""burstctl flip and flip-back: what an operator is shown, is asked, and gets."""

import os
import pty
import signal
from pathlib import Path

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.instances.instance import LabInstance
from burstlab.model.volume import MetricFault
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.slack import SlackChannel
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.flip_state import FlipStatus, Hold
from burstwatch.core.ledger.ledger import Change
from support.builders.states import with_fields
from support.cli.cli_session import (
    INSTANCE,
    add_calm,
    add_critical,
    add_exhausted,
    add_gp3,
    add_lab_volume,
    add_warning,
    count_modify_calls,
    modification_targets,
)

AN_HOUR_S = 3600


def flip_to_target(cli, lab, volume_id, *options):
    """Flip it, let AWS finish, and let a watchdog see that."""
    assert cli.run("flip", volume_id, "--yes", *options).code == 0
    lab.clock.advance(AN_HOUR_S)
    cli.run("watch", "--once")


@pytest.mark.parametrize("balance_pct", [99, 20])
def test_the_plans_of_flip_and_of_explain_are_for_the_same_demand(cli, lab, balance_pct):
    """Throttled at the burst ten minutes ago, and at 800 since: both look at the newest five minutes."""
    volume_id = add_lab_volume(lab, "build", load="steady:3000")
    lab.clock.advance(600)
    lab.fleet.set_load(volume_id, "steady:800")
    lab.clock.advance(420)
    lab.fleet.set_balance(volume_id, balance_pct)
    lab.clock.advance(120)
    plan, explanation = (
        cli.run(*command).out for command in (("flip", volume_id, "--dry-run"), ("explain", volume_id, "-v"))
    )
    reason = "3,000 IOPS: its current maximum; its demand of 800 was not throttled"
    assert reason in " ".join(plan.split())
    assert reason in " ".join(explanation.split())


def test_explain_shows_why_a_flip_by_a_person_has_more_iops(cli, lab):
    volume_id = add_warning(lab, tags={"burstwatch:target": "io1"})
    explanation = " ".join(cli.run("explain", volume_id, "-v").out.split())
    assert "Target 1,500 IOPS: its demand of 1,200 was not throttled; 25 % headroom." in explanation
    assert "burstctl flip plans for 3,000 IOPS, unless --iops says otherwise" in explanation
    plan = " ".join(cli.run("flip", volume_id, "--dry-run").out.split())
    assert "gp2 -> io1 with 3,000 IOPS" in plan
    assert "3,000: its current maximum; the future demand is unknown" in plan


def test_the_plan_states_what_why_for_how_much_and_what_undoes_it(cli, lab):
    volume_id = add_warning(lab, instance_id="i-0123456789abcdef0")

    result = cli.run("flip", volume_id, "--dry-run", "--for", "6h")

    # gp3 at 3,000 IOPS and 128 MiB/s: 100 x 0.08 + 3 x 0.04 = 8.12; gp2 100 x 0.10; 1.88 / 730 x 6 = 0.015.
    # io1: what is ahead is not known, so no less than the burst; 100 x 0.125 + 3,000 x 0.065 = 207.50
    assert result.out.splitlines() == [
        f"{volume_id} (build-3), gp2, 100 GiB, on i-0123456789abcdef0 as",
        "/dev/xvda",
        "Change    gp2 -> gp3 with 3,000 IOPS and 128 MiB/s",
        "Why       3,000 IOPS: its current maximum; its demand of 1,200 was not",
        "            throttled.",
        "          128 MiB/s: its current throughput.",
        "Takes     AWS is expected to take 15 min to 50 min for 100 GiB; empty in about",
        "            40 min; reduce load until then.",
        "Cost      $10.00 a month ($0.0137 an hour) -> $8.12 a month ($0.0111 an hour)",
        "          $1.88 less each month",
        "          $0.02 less for the 6h requested",
        "Options   gp3   gp3 with 3,000 IOPS and 128 MiB/s            $8.12 a month  <-",
        "          io1   io1 with 3,000 IOPS                        $207.50 a month",
        "          io2   io2 with 3,000 IOPS                        $207.50 a month",
        "          stay  gp2                                         $10.00 a month",
        "After     returns when the requested time is over and its load is calm, at the",
        "            earliest in 6 h (00:00 Sat UTC)",
        "Quota     0 of AWS's 4 modifications in 24 h are used, this is number 1",
        "AWS       allows it to this identity (dry run)",
        f"Undo      burstctl flip-back {volume_id} --region us-east-1",
        "",
        "1 volume: 1 to be modified; $10.00 -> $8.12 a month: $1.88 less ($0.0026 an",
        "  hour); us-east-1 list prices of 2026-09-30",
    ]
    assert result.code == 0


def test_a_dry_run_calls_aws_and_leaves_nothing_behind(cli, lab):
    volume_id = add_critical(lab)

    result = cli.run("flip", volume_id, "--dry-run", "--json")

    (plan,) = result.document["plans"]
    assert plan["dry_run"] == {"allowed": True, "error_code": None, "because": None}
    assert plan["outcome"] is None
    assert modification_targets(lab, volume_id) == []
    assert not cli.ledger_path.parent.exists()


def test_a_dry_run_leaves_a_ledger_as_it_is(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")
    before = cli.ledger_path.read_bytes()

    cli.run("flip", volume_id, "--dry-run")

    assert cli.ledger_path.read_bytes() == before


def test_a_dry_run_refused_by_aws_is_a_failure(cli, lab):
    volume_id = add_critical(lab)
    lab.fleet.change_settings(modify_needs_tag=("burstwatch:mode", "auto"))

    result = cli.run("flip", volume_id, "--dry-run")

    assert result.code == 1
    assert "AWS       refuses (dry run): " in result.out
    assert " may not call ec2:ModifyVolume" in " ".join(result.out.split())
    assert "1 volume: 0 to be modified, 1 refused by AWS" in result.out


def test_without_a_terminal_yes_is_needed_after_the_plan_and_nothing_is_modified_without(cli, lab):
    volume_id = add_critical(lab)

    result = cli.run("flip", volume_id)

    assert result.code == 2
    assert result.error_lines == ["error: no terminal to ask on."]
    assert "  fix: add --yes to do it, or --dry-run to see what it would do" in result.err
    assert "Change    gp2 -> gp3" in result.out
    assert count_modify_calls(lab) == 0


@pytest.mark.parametrize("answer", ["n", "", "yes please", "N"])
def test_anything_but_yes_declines(cli, lab, answer):
    volume_id = add_critical(lab)

    result = cli.run("flip", volume_id, answer=answer)

    assert result.code == 130
    assert result.err.endswith("Modify 1 volume? [y/N] nothing was done\n")
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.parent.exists()


def test_after_confirmation_aws_is_called_once_with_the_operator_name(cli, lab):
    volume_id = add_critical(lab)

    result = cli.run("flip", volume_id, answer="y")

    assert result.code == 0
    assert modification_targets(lab, volume_id) == ["gp3"]
    assert count_modify_calls(lab) == 1
    # 3,000 served at the ceiling: that and 25 % are 3,750
    assert result.out.endswith(
        f"{volume_id} (ci-7): AWS has begun to make it gp3 with 3,750 IOPS and\n  128 MiB/s\n"
    )
    assert f"next: burstctl history {volume_id}" in result.err
    assert "WARNING" not in result.err, "no time is asked for, so it is to stay"
    assert cli.entry_kinds(volume_id) == ["intent", "accepted"]
    with cli.open_ledger() as ledger:
        state = ledger.states()[volume_id]
    assert (state.flip.by, state.modifications.used[0].by) == ("anna (user/moto)", "anna (user/moto)")


def test_the_prompt_warns_when_nothing_will_flip_the_volume_back(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--passes", "1")
    requests = []

    result = cli.run("flip", volume_id, "--for", "6h", answer="n", during_prompt=lambda: requests.append(1))

    text = " ".join(result.err.split())
    warning = (
        f"WARNING: nothing will return {volume_id} when the time is over: no watchdog with --act is at work"
        " on this ledger (last sweep now (18:00 UTC))"
    )
    assert requests, "somebody was asked"
    assert warning in text
    assert f"return it yourself: burstctl flip-back {volume_id} --region us-east-1" in text
    assert "flips it back" not in text + result.out, "one answer, not two"


def test_no_warning_while_a_watchdog_that_may_act_is_running(cli, lab):
    volume_id = add_calm(lab)
    cli.run("watch", "--act", "--passes", "1")

    result = cli.run("flip", volume_id, "--for", "6h", "--yes", "--json")

    assert result.document["warnings"] == []
    assert "WARNING" not in result.err


def test_a_watchdog_that_stopped_long_ago_does_not_count(cli, lab):
    volume_id = add_calm(lab)
    cli.run("watch", "--act", "--passes", "1")
    lab.clock.advance(AN_HOUR_S)

    result = cli.run("flip", volume_id, "--for", "6h", "--yes", "--json")

    warning, *_ = result.document["warnings"]
    assert warning.endswith("(last sweep 60 min ago (18:00 UTC))")


def test_the_plan_shown_is_executed_even_if_demand_has_changed(cli, lab):
    volume_id = add_critical(lab)

    def an_hour_passes():
        lab.fleet.set_load(volume_id, "idle")
        lab.clock.advance(AN_HOUR_S)

    assert cli.run("flip", volume_id, "--for", "6h", answer="y", during_prompt=an_hour_passes).code == 0

    (change,) = lab.fleet.modifications(volume_id)
    assert change.target.iops == 3750
    with cli.open_ledger() as ledger:
        flip = ledger.states()[volume_id].flip
    assert flip.return_after_s == lab.clock.now_s() + 6 * AN_HOUR_S, "the time counts from the yes"


def test_a_hold_placed_during_the_prompt_is_respected(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")
    now_s = int(lab.clock.now_s())
    hold = Hold(volume_id=None, by="ben", reason="INC-42", placed_at_s=now_s, until_s=now_s + 60)

    def ben_pulls_the_brake():
        with cli.open_ledger() as ledger:
            ledger.place_hold(hold)

    result = cli.run("flip", volume_id, answer="y", during_prompt=ben_pulls_the_brake)

    assert result.code == 4
    assert "refused now: held: everything is on hold by ben: INC-42" in " ".join(result.out.split())
    assert count_modify_calls(lab) == 0


def test_control_c_at_the_prompt_leaves_nothing_behind(cli, lab):
    volume_id = add_critical(lab)
    master, slave = pty.openpty()
    try:
        with cli.start_subprocess("flip", volume_id, stdin=slave, stderr=slave) as process:
            os.close(slave)
            text = b""
            while b"[y/N]" not in text:
                text += os.read(master, 4096)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
            while b"interrupted" not in text:
                text += os.read(master, 4096)
    finally:
        os.close(master)

    assert process.returncode == 130
    assert "Change    gp2 -> gp3" in out
    assert b"Traceback" not in text
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.parent.exists()


def test_control_c_during_a_call_to_aws_points_to_the_ledger(cli, lab, monkeypatch):
    volume_id = add_critical(lab)

    def modify(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ec2Modifier, "modify", modify)

    result = cli.run("flip", volume_id, "--yes")

    assert result.code == 130
    assert "interrupted: requests sent to AWS are in the ledger (burstctl history)" in result.err
    assert cli.entry_kinds(volume_id) == ["intent"]


def test_json_is_one_object_with_the_plan_the_outcome_and_the_totals(cli, lab):
    volume_id = add_calm(lab, "evil\u202ename")

    result = cli.run("flip", volume_id, "--to", "io2", "--iops", "4000", "--for", "1d", "--yes", "--json")

    document = result.document
    assert (document["schema"], document["by"], document["dry_run"]) == (
        "burstwatch.plan/v1",
        "anna (user/moto)",
        False,
    )
    (plan,) = document["plans"]
    assert plan["now"] == {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}
    assert plan["target"] == {"volume_type": "io2", "iops": 4000, "throughput_mib_s": None}
    # 100 x 0.125 + 4,000 x 0.065 = 272.50; 262.50 more a month, 8.6301 in 24 of 730 hours
    assert plan["usd_per_month_now"], plan["usd_per_month"] == (10.0, 272.5)
    assert plan["usd_more_for_the_stay"] == 8.6301
    assert plan["return_after"] == "2026-11-21T18:00:00Z"
    assert set(plan["alternatives"]) == {"gp3", "io1", "io2", "stay"}
    assert plan["undo"] == f"burstctl flip-back {volume_id} --region us-east-1"
    assert plan["outcome"]["action"] == "flipped"
    assert (
        document["totals"] | {"volumes": 1, "to_modify": 1, "usd_per_month_more": 262.5} == document["totals"]
    )
    assert result.out.isascii()


def test_with_json_and_a_question_the_plan_is_shown_beside(cli, lab):
    result = cli.run("flip", add_critical(lab), "--json", answer="y")

    assert result.document["plans"][0]["outcome"]["action"] == "flipped"
    assert "Change    gp2 -> gp3" in result.err


def test_an_exhausted_volume_gets_what_it_had_while_it_had_credits(cli, lab):
    # 300 IOPS served at 0 % are its baseline: what it wants is not seen
    result = cli.run("flip", add_exhausted(lab), "--to", "io1", "--yes", "--json")

    assert result.document["plans"][0]["target"]["iops"] == 3000
    assert "throttled at 300, its demand is unknown" in result.document["plans"][0]["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "gp2"], "gp2 is not a valid target. fix: burstctl flip-back restores the former type"),
        (["--to", "st1"], "'st1' is not a valid target. fix: give gp3, io1, io2"),
        (["--iops", "0"], "0 is not in the range x>=1. fix: give a whole number of at least 1"),
        (["--for", "10s"], "10s is out of range. fix: give from 1m to 30d"),
        (["--for", "31d"], "31d is out of range. fix: give from 1m to 30d"),
        (["--for", "soon"], "'soon' is not a valid duration. fix: write a whole number and s, m, h or d"),
        (["--override", "held"], "--override needs a reason, which the ledger keeps. fix: add --reason TEXT"),
        (
            ["--override", "fear", "--reason", "x"],
            "'fear' is not a valid guard. fix: give one of held, cooldown,",
        ),
        (["--override", "aws_quota", "--reason", "x"], "AWS itself refuses for aws_quota, so it cannot be"),
        (
            ["--override", "no_change_needed", "--reason", "x"],
            "it would use up a modification for nothing. fix: leave it out",
        ),
        (["--override", "change_hours", "--reason", "x"], "change_hours stops only the watchdog"),
        (["--reason", " \n"], "it is empty. fix: give a reason that others will understand"),
        (["--reason", "x" * 201], "it is longer than 200 characters. fix: shorten it"),
        (
            ["--where", "tag:role=ci"],
            "VOLUME and --where are mutually exclusive. fix: select volumes either by VOLUME or by",
        ),
        (["--where", "role=ci"], "'role=ci' selects nothing. fix: write tag:KEY=VALUE or tag:KEY"),
    ],
)
def test_a_usage_error_is_one_sentence_before_any_call(cli, lab, arguments, message):
    result = cli.run("flip", "vol-0123456789abcdef0", "--yes", *arguments)

    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert lab.faults.call_counts() == {}


def test_no_volume_at_all_is_a_usage_error(cli, lab):
    assert cli.run("flip", "--yes").code == 2


def test_what_aws_does_not_allow_for_the_type_is_refused_with_the_arithmetic(cli, lab):
    result = cli.run("flip", add_calm(lab, size_gib=40), "--to", "io1", "--yes")

    assert result.code == 4
    assert "Refused   no_target: io1 allows 50 IOPS per GiB, 50 x 40 = 2,000" in result.out
    assert count_modify_calls(lab) == 0


def test_a_volume_that_does_not_exist_is_named_and_the_others_are_done(cli, lab):
    volume_id = add_critical(lab)

    result = cli.run("flip", "vol-0123456789abcdef0", volume_id, "--yes")

    assert result.code == 1
    assert result.error_lines == ["error: no volume vol-0123456789abcdef0 in us-east-1."]
    assert modification_targets(lab, volume_id) == ["gp3"]


def test_a_hold_refuses_and_shows_and_can_be_overridden_for_a_reason(cli, lab):
    volume_id = add_critical(lab)
    cli.run(
        "hold", volume_id, "--for", "6h", "--reason", "restore test", "--ledger", f"sqlite:{cli.ledger_path}"
    )

    refused = cli.run("flip", volume_id, "--yes")

    assert refused.code == 4
    assert "Refused   held: it is on hold by anna (user/moto): restore test; it ends" in refused.out
    assert f"hold: {volume_id} is on hold for 6 h (until 00:00 Sat UTC), by anna" in refused.err
    assert "to do it anyway: --override held --reason TEXT" in refused.err
    assert "how to go on: burstctl runbook FlipRefused" in refused.err
    assert cli.run("flip", volume_id, "--yes", "--exit-zero").code == 0
    assert count_modify_calls(lab) == 0

    completed = cli.run("flip", volume_id, "--yes", "--override", "held", "--reason", "INC-7 \u202eis worse")

    assert completed.code == 0
    assert "Overrides held: INC-7 ?is worse" in completed.out
    history = cli.run("history", volume_id).out
    assert "anna (user/moto) overrode held: INC-7 ?is worse" in history


def test_a_cap_is_predicted_and_enforced_and_overridden_only_where_it_applied(cli, lab):
    first, second = add_critical(lab), add_warning(lab)
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  fleet_cap: 1\n")

    result = cli.run("flip", first, second, "--yes", "--json")

    assert result.code == 4
    outcomes = [plan["outcome"] for plan in result.document["plans"]]
    assert [outcome["action"] for outcome in outcomes] == ["flipped", "refused"]
    assert outcomes[1]["refusal"] == "fleet_cap"
    assert modification_targets(lab, second) == []

    result = cli.run(
        "flip", second, "--yes", "--override", "fleet_cap", "--override", "held", "--reason", "x"
    )

    assert result.code == 0
    with cli.open_ledger() as ledger:
        (intent,) = [entry for entry in ledger.entries(second) if entry.kind == "intent"]
    assert intent.body["overridden"] == ["fleet_cap"]


def test_the_spend_cap_has_its_arithmetic(cli, lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  spend_cap_usd_per_month: 5\n")

    result = cli.run("flip", add_calm(lab), "--to", "io1", "--iops", "3000", "--yes")

    # 100 x 0.125 + 3,000 x 0.065 = 207.50, 197.50 more than gp2
    assert result.code == 4
    text = " ".join(result.out.split())
    assert "spend_cap: it would add $197.50 a month to $0.00 already added" in text


def test_tags_choose_the_volumes_and_all_terms_must_hold(cli, lab):
    matching = add_calm(lab, "a", tags={"role": "ci", "team": "x*y"})
    add_calm(lab, "b", tags={"role": "ci", "team": "xzy"})
    add_calm(lab, "c", tags={"role": "ci"})
    add_calm(lab, "d", tags={"team": "x*y"})
    add_calm(lab, "e", tags={"role": "ci", "team": "x*y"}, volume_type="gp3")

    def chosen(*terms):
        options = [part for term in terms for part in ("--where", term)]
        return [plan["name"] for plan in cli.run("flip", *options, "--dry-run", "--json").document["plans"]]

    assert sorted(chosen("tag:role=ci")) == ["a", "b", "c"]
    assert sorted(chosen("tag:role", "tag:team")) == ["a", "b"]
    assert chosen("tag:role=ci", "tag:team=x*y") == ["a"], "a value means itself"
    assert cli.run("flip", "--where", "tag:team=x*y", "--where", "tag:role=ci", "--yes").code == 0
    assert modification_targets(lab, matching) == ["gp3"]


def test_a_selection_without_matches_is_a_usage_error(cli, lab):
    add_calm(lab, tags={"role": "ci"}, volume_type="gp3")

    result = cli.run("flip", "--where", "tag:role=ci", "--yes")

    assert result.code == 2
    assert result.error_lines == [
        "error: no gp2 volume in us-east-1 carries tag:role=ci, so nothing was done."
    ]


def test_a_fleet_that_cannot_be_listed_is_left_alone(cli, lab):
    add_calm(lab, tags={"role": "ci"})
    lab.faults.add(Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401))

    result = cli.run("flip", "--where", "tag:role=ci", "--yes")

    assert result.code == 1
    assert count_modify_calls(lab) == 0


def test_many_volumes_are_one_question_and_one_failure_hides_no_other(cli, lab):
    good, bad = add_critical(lab), add_warning(lab)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403, volume_ids=[bad]))

    result = cli.run("flip", good, bad, answer="yes")

    assert "Modify 2 volumes? [y/N]" in result.err
    assert "Beside" not in result.out, "the alternatives are for one volume"
    assert "2 volumes: 2 to be modified; $20.00 -> $19.99 a month" in result.out
    assert f"{good} (ci-7): AWS has begun" in result.out
    assert f"{bad} (build-3): failed: ec2:ModifyVolume failed" in result.out
    assert result.code == 1
    assert cli.entry_kinds(bad) == ["intent", "not_done"]


@pytest.mark.parametrize(
    ("method", "error", "outcome", "message"),
    [
        (
            "record_intent",
            LedgerError("the ledger was busy", fix="run again"),
            "failed: it was not modified: the ledger was busy; run again",
            "",
        ),
        (
            "record_intent",
            ZeroDivisionError("division by zero"),
            "failed: it was not modified: an internal error, ZeroDivisionError: division by zero",
            "error: unexpected ZeroDivisionError: division by zero.",
        ),
        (
            "commit",
            LedgerError("the ledger was busy", fix="run again"),
            "outcome unknown, not sent again; AWS will be queried (burstctl history {bad})",
            "{bad}: its outcome was not recorded, so the next pass reads it from AWS: the ledger was busy",
        ),
    ],
)
def test_an_error_of_the_ledger_about_one_volume_hides_no_other(
    cli, lab, monkeypatch, method, error, outcome, message
):
    volume_ids = [add_warning(lab, tags={"team": "ci"}) for _ in range(3)]
    bad = volume_ids[0]
    real = getattr(SqliteLedger, method)

    def write(self, changes, *args, **kwargs):
        if bad in {change.volume_id for change in (changes if method == "commit" else [changes])}:
            raise error
        return real(self, changes, *args, **kwargs)

    monkeypatch.setattr(SqliteLedger, method, write)
    result = cli.run("flip", "--where", "tag:team=ci", "--yes")
    assert result.code == 1
    lines = " ".join(result.out.split())
    assert f"{bad} (build-3): {outcome.format(bad=bad)}" in lines
    assert lines.count("AWS has begun to make it gp3") == 2
    assert message.format(bad=bad) in " ".join(result.err.split())
    assert all(lab.fleet.modifications(volume_id) for volume_id in volume_ids[1:])


def test_a_lost_response_is_unclear_and_never_resent(cli, lab):
    volume_id = add_critical(lab)
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", after_effect=True))

    result = cli.run("flip", volume_id, "--yes")

    assert result.code == 1
    assert (
        f"{volume_id} (ci-7): outcome unknown, not sent again; AWS will be queried (burstctl history"
        f" {volume_id})"
    ) in " ".join(result.out.split())
    assert count_modify_calls(lab) == 1
    assert cli.entry_kinds(volume_id) == ["intent", "unclear"]
    lab.clock.advance(60)
    cli.run("watch", "--once")
    assert cli.entry_kinds(volume_id) == ["intent", "unclear", "accepted"]


def test_a_refusal_by_aws_shows_its_message(cli, lab):
    volume_id = add_critical(lab)
    for size_gib in (101, 102, 103, 104):
        lab.fleet.modify(volume_id, size_gib=size_gib)
        lab.clock.advance(AN_HOUR_S)

    result = cli.run("flip", volume_id, "--yes", "--json")

    # of the four the ledger knows none and AWS shows the newest only
    assert result.code == 4
    assert result.document["plans"][0]["outcome"]["refusal"] == "aws_quota"
    assert result.document["plans"][0]["outcome"]["retry_at"] == "2026-11-21T18:00:00Z"


def test_an_instance_that_is_the_bottleneck_refuses_and_can_be_overridden(cli, lab):
    instance_id = "i-0123456789abcdef0"
    host = LabInstance(
        instance_id=instance_id, launched_at=lab.clock.now(), instance_type="m5.large", tags={}
    )
    lab.fleet.add_instance(host)
    volume_id = add_calm(lab, instance_id=instance_id)
    add_gp3(lab, load="steady:3600", iops=6_000, instance_id=instance_id)
    lab.fleet.set_instance_balance(instance_id, io_pct=0.0)
    lab.clock.advance(900)

    result = cli.run("flip", volume_id, "--dry-run")

    assert result.code == 4
    assert "3,600 IOPS, and what they serve now is 3,600" in " ".join(result.out.split())
    assert "Refused   instance_is_bottleneck: instance i-0123456789abcdef0, not the" in result.out
    assert "--override instance_is_bottleneck" in result.err
    assert result.err.splitlines()[-1] == f"next: burstctl explain {instance_id}"
    options = ("--override", "instance_is_bottleneck", "--reason", "larger soon", "--yes")
    assert cli.run("flip", volume_id, *options).code == 0


def test_a_volume_held_to_less_than_its_empty_instance_sustains_is_flipped(cli, lab):
    """Its volume serves 300 IOPS, and t3.medium sustains 2,000."""
    host = LabInstance(instance_id=INSTANCE, launched_at=lab.clock.now(), instance_type="t3.medium", tags={})
    lab.fleet.add_instance(host)
    volume_id = add_exhausted(lab, instance_id=INSTANCE)
    lab.fleet.set_instance_balance(INSTANCE, io_pct=0.0)
    lab.clock.advance(900)
    assert cli.run("flip", volume_id, "--yes").code == 0
    assert count_modify_calls(lab) == 1


def test_without_the_balance_of_its_instance_nothing_is_flipped_unless_that_is_overridden(cli, lab):
    instance_id = "i-0123456789abcdef0"
    host = LabInstance(
        instance_id=instance_id, launched_at=lab.clock.now(), instance_type="m5.large", tags={}
    )
    lab.fleet.add_instance(host)
    volume_id = add_calm(lab, instance_id=instance_id)
    lab.clock.advance(900)
    lab.fleet.set_metric_fault(instance_id, MetricFault(status_code="InternalError"))

    result = cli.run("flip", volume_id, "--yes")

    assert (result.code, count_modify_calls(lab)) == (1, 0)
    assert "instance_is_bottleneck: whether instance i-0123456789abcdef0 is" in result.out
    options = ("--override", "instance_is_bottleneck", "--reason", "it is idle", "--yes")
    cli.run("flip", volume_id, *options)
    assert count_modify_calls(lab) == 1


def test_a_type_that_aws_accepts_again_is_available_to_all_volumes_of_the_zone(cli, lab):
    refused_id = add_calm(lab, zone="us-east-1-bos-1a", lacks_gp3=True)
    accepted_id, other_id = (add_calm(lab, zone="us-east-1-bos-1a") for _ in range(2))
    assert cli.run("flip", refused_id, "--yes").code == 4
    assert cli.run("flip", other_id, "--dry-run").code == 4

    options = ("--override", "type_not_available", "--reason", "AWS has it now", "--yes")
    assert cli.run("flip", accepted_id, *options).code == 0
    assert cli.run("flip", other_id, "--dry-run").code == 0


def test_two_operators_at_once_make_one_modification(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")
    lab.faults.set_latency(150, "ModifyVolume")

    with (
        cli.start_subprocess("flip", volume_id, "--to", "gp3", "--yes") as item,
        cli.start_subprocess("flip", volume_id, "--to", "io1", "--yes") as other,
    ):
        text = [process.communicate(timeout=60) for process in (item, other)]

    assert sorted([item.returncode, other.returncode]) == [0, 4]
    assert "modification_in_progress" in "".join(out for out, _ in text)
    assert "Traceback" not in "".join(err for _, err in text)
    assert count_modify_calls(lab) == 1
    assert cli.entry_kinds(volume_id) == ["intent", "accepted"]


def test_alerts_of_a_flip_reach_the_channels_of_the_environment(cli, lab):
    volume_id = add_critical(lab)
    topic = lab.client("sns").create_topic(Name="alerts")["TopicArn"]
    cli.set(BURSTWATCH_TOPIC_ARN=topic)

    result = cli.run("flip", volume_id, "--yes", "--json")

    assert result.document["api_calls"]["sns:Publish"] == 1
    with cli.open_ledger() as ledger:
        delivered = [entry for entry in ledger.entries(volume_id) if entry.kind == "delivered"]
        assert [entry.body["channel"] for entry in delivered] == ["sns"]


def test_the_ledger_of_another_account_is_refused_without_a_call_to_aws(cli, lab):
    volume_id = add_critical(lab)
    with SqliteLedger.open(cli.directory / "theirs") as ledger:
        ledger.bind("account 210987654321 in us-east-1")

    result = cli.run("flip", volume_id, "--yes", "--ledger", "sqlite:theirs")

    assert result.code == 1
    assert "is that of account 210987654321 in us-east-1" in result.error_lines[0]
    assert count_modify_calls(lab) == 0


def test_a_flipped_volume_is_returned_to_what_it_was(cli, lab):
    volume_id = add_critical(lab)
    flip_to_target(cli, lab, volume_id, "--to", "io1", "--iops", "4000")

    result = cli.run("flip-back", volume_id, "--yes", "--reason", "not needed any more")

    assert result.code == 0
    assert "Change    io1 with 4,000 IOPS -> gp2" in result.out
    assert "its burst balance is unknown until the first fresh datapoint" in result.out
    assert f"burstctl flip {volume_id} --to io1 --iops 4000 --region us-east-1" in " ".join(
        result.out.split()
    )
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    lab.clock.advance(AN_HOUR_S)
    cli.run("watch", "--once")
    assert cli.entry_kinds(volume_id)[-3:] == ["intent", "accepted", "restored"]


def test_by_tag_those_with_a_flip_in_the_ledger_are_returned(cli, lab):
    flipped = add_critical(lab, tags={"role": "ci"})
    add_calm(lab, tags={"role": "ci"}, volume_type="gp3")
    nothing = cli.run("flip-back", "--where", "tag:role=ci", "--yes")
    flip_to_target(cli, lab, flipped)

    result = cli.run("flip-back", "--where", "tag:role=ci", "--yes", "--json")

    assert [plan["volume_id"] for plan in result.document["plans"]] == [flipped]
    assert modification_targets(lab, flipped) == ["gp3", "gp2"]
    assert nothing.code == 2
    (complaint,) = nothing.error_lines
    assert "no volume in us-east-1 that carries tag:role=ci has a flip in this ledger" in complaint


def test_a_volume_that_was_never_flipped_cannot_return(cli, lab):
    result = cli.run("flip-back", add_calm(lab, volume_type="gp3"), "--yes")

    assert result.code == 4
    assert "Refused   no_target: the ledger has" in result.out


def test_a_flip_in_progress_is_reported_and_not_priced_as_a_change(cli, lab):
    volume_id = add_warning(lab)
    assert cli.run("flip", volume_id, "--yes").code == 0
    lab.clock.advance(60)

    early = cli.run("flip-back", volume_id, "--yes")
    flip_to_target(cli, lab, add_calm(lab))  # an hour passes, and a watchdog looks
    assert cli.run("flip-back", volume_id, "--yes").code == 0
    lab.clock.advance(60)
    second_result = cli.run("flip-back", volume_id, "--yes")

    assert (early.code, second_result.code) == (4, 4)
    early_words, again_words = (" ".join(result.out.split()) for result in (early, second_result))
    target = "gp3 with 3,000 IOPS and 128 MiB/s"
    by = "requested by anna (user/moto) 1 min ago (18:00 UTC)"
    assert f"Now being modified to {target}, {by}" in early_words
    assert f"when it is done, burstctl flip-back {volume_id} returns it to gp2" in early_words
    assert "Now being modified back to gp2, requested by anna (user/moto) " in again_words
    for result, expected in ((early, early_words), (second_result, again_words)):
        assert "Refused modification_in_progress: its modification is " in expected
        assert not [
            item for item in ("Change", "Cost", "->", "no_change_needed") if item in expected + result.err
        ]


def test_the_same_options_work_for_the_flip_back(cli, lab):
    volume_id = add_calm(lab)

    result = cli.run("flip", volume_id, "--ledger", "sqlite:our ledger", "--dry-run", "--json")

    undo = result.document["plans"][0]["undo"]
    assert undo == f"burstctl flip-back {volume_id} --region us-east-1 --ledger 'sqlite:our ledger'"


def test_everything_fits_eighty_columns_and_hostile_names_are_inert(cli, lab):
    volume_id = add_lab_volume(lab, "evil\u202e\u0085[bold]name" + "x" * 100, size_gib=16_000)

    result = cli.run("flip", volume_id, "--dry-run", "--to", "io2", "--iops", "64000")

    assert max(map(len, result.out.splitlines())) <= 80
    assert not {"\u202e", "\u0085", "\x1b"} & set(result.out + result.err)


def test_a_second_flip_within_the_cooldown_is_refused_until_it_ends(cli, lab):
    volume_id = add_critical(lab)
    lab.fleet.modify(volume_id, size_gib=101)
    lab.fleet.end_modification(volume_id)
    lab.clock.advance(60)

    result = cli.run("flip", volume_id, "--yes", "--json")

    assert result.code == 4
    (refusal,) = result.document["plans"][0]["refusals"]
    assert (refusal["guard"], refusal["ends_at"]) == ("cooldown", "2026-11-20T18:30:00Z")


def test_an_io_volume_slower_than_the_burst_is_proposed_with_a_warning(cli, lab):
    result = cli.run("flip", add_calm(lab), "--to", "io1", "--iops", "600", "--dry-run")

    assert "fewer than the 3,000 it serves while it has credits: --iops 3000 keeps those" in " ".join(
        result.out.split()
    )


# volumes that are away already


def flip_of(cli, volume_id):
    with cli.open_ledger() as ledger:
        return ledger.states()[volume_id].flip


def test_a_volume_already_on_the_requested_target_is_only_extended(cli, lab):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    assert flip_of(cli, volume_id).is_permanent
    before = count_modify_calls(lab)

    result = cli.run("flip", volume_id, "--for", "6h", "--reason", "INC-7", answer="y")

    assert result.code == 0
    text = " ".join(result.out.split())
    assert "Change only how long; now it stays, requested by anna (user/moto) " in text
    assert "It is gp3 with 3,000 IOPS and 128 MiB/s already, by its flip: no request to AWS." in text
    assert "1 volume: 0 to be modified, 1 unchanged" in text
    assert "Quota" not in text
    assert "Keep 1 volume? [y/N]" in result.err
    assert f"WARNING: nothing will return {volume_id} when the time is over" in result.err
    # 19:00 and six hours
    assert "stays gp3 with 3,000 IOPS and 128 MiB/s until 2026-11-21T01:00:00Z, requested by anna" in text
    assert count_modify_calls(lab) == before
    flip = flip_of(cli, volume_id)
    assert (flip.is_permanent, flip.return_after_s) == (False, lab.clock.now_s() + 6 * AN_HOUR_S)
    assert cli.entry_kinds(volume_id)[-1] == "kept"
    history = " ".join(cli.run("history", volume_id).out.split())
    assert "until 2026-11-21T01:00:00Z, requested by anna (user/moto) INC-7" in history
    second_result = " ".join(cli.run("flip", volume_id, "--for", "9h", "--dry-run").out.split())
    assert "only how long; now for 6 h (until 01:00 Sat UTC), requested by anna (user/moto) " in second_result


def test_the_duration_can_be_set_while_a_flip_is_in_progress(cli, lab):
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--yes")
    lab.clock.advance(60)
    before = count_modify_calls(lab)

    result = cli.run("flip", volume_id, "--for", "6h", "--yes")

    assert result.code == 0
    assert "only how long; now it stays" in " ".join(result.out.split())
    assert count_modify_calls(lab) == before
    lab.clock.advance(AN_HOUR_S)
    cli.run("watch", "--once")
    flip = flip_of(cli, volume_id)
    # 18:01 and six hours
    assert (flip.status, flip.is_permanent) == (FlipStatus.ON_TARGET, False)
    assert flip.return_after_s == lab.clock.now_s() + 5 * AN_HOUR_S
    assert cli.entry_kinds(volume_id) == ["intent", "accepted", "kept", "reached"]


def test_a_confirmed_extension_never_modifies_even_if_the_volume_has_returned(cli, lab):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    before = count_modify_calls(lab)

    def revert():
        lab.fleet.modify(volume_id, volume_type="gp2")
        lab.fleet.end_modification(volume_id)

    result = cli.run("flip", volume_id, "--for", "6h", answer="y", during_prompt=revert)

    assert result.code == 4
    assert "refused now: no_target: it has changed since the plan was shown" in " ".join(result.out.split())
    assert (count_modify_calls(lab), modification_targets(lab, volume_id)) == (before, ["gp3", "gp2"])
    assert "kept" not in cli.entry_kinds(volume_id)


def test_an_extension_uses_no_cap_and_its_return_counts_as_usual(cli, lab):
    """Two of the three of a day are used: the third is the return itself."""
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    flip_to_target(cli, lab, volume_id, "--to", "io1")

    extension = " ".join(cli.run("flip", volume_id, "--for", "6h", "--dry-run").out.split())
    output = " ".join(cli.run("flip", volume_id, "--to", "io2", "--for", "6h", "--dry-run").out.split())

    assert "only how long" in extension
    assert "AWS's quota lets the watchdog" not in extension
    assert "AWS's quota lets the watchdog bring it back in 22 h (18:00 Sat UTC)" in output


@pytest.mark.parametrize("is_away", [False, True])
def test_with_all_flips_stopped_a_duration_does_not_promise_a_return(cli, lab, is_away):
    volume_id = add_calm(lab)
    if is_away:
        flip_to_target(cli, lab, volume_id)
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    result = cli.run("flip", volume_id, "--for", "6h", "--yes")

    text = " ".join(result.out.split())
    assert (
        f"returns by burstctl flip-back {volume_id} only: the policy's mode.highest, propose, stops" in text
    )
    assert "at the earliest" not in text
    assert "watch --act" not in text + result.err
    assert f"return it yourself:\n    burstctl flip-back {volume_id}" in result.err
    assert max(map(len, result.out.splitlines())) <= 80


def test_a_timed_extension_returns_when_it_ends(cli, lab):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    assert cli.run("flip", volume_id, "--for", "2h", "--yes").code == 0
    for _ in range(23):
        lab.clock.advance(300)
        cli.run("watch", "--act", "--passes", "1")
    assert modification_targets(lab, volume_id) == ["gp3"]
    for _ in range(2):
        lab.clock.advance(300)
        cli.run("watch", "--act", "--passes", "1")
    assert modification_targets(lab, volume_id) == ["gp3", "gp2"]


def test_a_fleet_extension_counts_volumes_already_on_target(cli, lab):
    """Before a release: no one wants the one that was flipped yesterday to return in the middle of it."""
    tags = {"role": "ci"}
    calm_volume, on_target = add_calm(lab, "away", tags=tags), add_calm(lab, "here", tags=tags)
    add_calm(lab, "was never gp2", tags=tags, volume_type="gp3")
    flip_to_target(cli, lab, calm_volume)

    result = cli.run("flip", "--where", "tag:role=ci", "--for", "6h", "--yes", "--json")

    assert result.code == 0
    reported = {
        plan["name"]: (plan["extends"], plan["outcome"]["action"]) for plan in result.document["plans"]
    }
    assert reported == {"away": (True, "none"), "here": (False, "flipped")}
    totals = result.document["totals"]
    assert (totals["volumes"], totals["to_modify"], totals["to_keep"], totals["refused"]) == (2, 1, 1, 0)
    assert (modification_targets(lab, calm_volume), modification_targets(lab, on_target)) == (
        ["gp3"],
        ["gp3"],
    )
    assert flip_of(cli, calm_volume).return_after_s == flip_of(cli, on_target).return_after_s


def test_an_extension_needs_no_room_within_the_caps(cli, lab):
    calm_volume, other, on_target = add_calm(lab, "away"), add_calm(lab, "other"), add_calm(lab, "here")
    flip_to_target(cli, lab, calm_volume)
    flip_to_target(cli, lab, other, "--for", "12h")
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  fleet_cap: 1\n")

    assert cli.run("flip", calm_volume, "--for", "6h", "--yes").code == 0
    assert "fleet_cap" in cli.run("flip", on_target, "--for", "6h", "--yes").out


def test_a_dry_run_of_an_extension_does_not_call_aws(cli, lab):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    before, kinds = count_modify_calls(lab), cli.entry_kinds(volume_id)

    result = cli.run("flip", volume_id, "--for", "6h", "--dry-run")

    assert result.code == 0
    assert "AWS  " not in result.out
    assert (count_modify_calls(lab), cli.entry_kinds(volume_id)) == (before, kinds)


def test_another_target_type_is_a_modification(cli, lab):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)

    result = cli.run("flip", volume_id, "--to", "io1", "--for", "6h", "--dry-run")

    assert "Change    gp3 with 3,000 IOPS and 128 MiB/s -> io1 with 3,000 IOPS" in result.out


def test_an_extension_applies_to_the_state_another_process_left(cli, lab, monkeypatch):
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    real_commit = SqliteLedger.commit

    def commit(self, changes, *, channels):
        monkeypatch.setattr(SqliteLedger, "commit", real_commit)
        state = self.states()[volume_id]
        newer_state = with_fields(state, revision=state.revision + 1, failure_count=3)
        change = Change(volume_id=volume_id, expected_revision=state.revision, state=newer_state)
        assert real_commit(self, [change], channels=channels)
        return real_commit(self, changes, channels=channels)

    monkeypatch.setattr(SqliteLedger, "commit", commit)

    assert cli.run("flip", volume_id, "--for", "6h", "--yes").code == 0
    with cli.open_ledger() as ledger:
        state = ledger.states()[volume_id]
    assert (state.modifications.failure_count, state.flip.return_after_s is not None) == (3, True)


# what somebody else changed


def test_a_manual_flip_releases_an_external_change_and_reports_it_first(cli, lab):
    """Otherwise no one would bring it back when its time is over."""
    volume_id = add_calm(lab)
    flip_to_target(cli, lab, volume_id)
    lab.fleet.modify(volume_id, volume_type="gp2")
    lab.fleet.end_modification(volume_id)
    lab.clock.advance(60)
    assert "was reverted to gp2" in cli.run("watch", "--once").err
    lab.clock.advance(30 * AN_HOUR_S)

    result = cli.run("flip", volume_id, "--for", "2h", "--yes")

    text = " ".join(result.out.split())
    assert "Someone else changed it, seen 30 h ago (19:01 Fri UTC): this releases it." in text
    assert result.code == 0
    with cli.open_ledger() as ledger:
        assert ledger.states()[volume_id].modifications.contested_at_s is None
    for _ in range(26):
        lab.clock.advance(300)
        cli.run("watch", "--act", "--passes", "1")
    assert modification_targets(lab, volume_id) == ["gp3", "gp2", "gp3", "gp2"]


def test_a_plan_without_external_changes_mentions_no_release(cli, lab):
    assert "releases" not in cli.run("flip", add_calm(lab), "--dry-run").out


# a return that would not last


@pytest.mark.parametrize(("was", "is_mentioned"), [({}, True), ({"volume_type": "io1", "iops": 3000}, False)])
def test_only_a_return_to_gp2_mentions_the_burst_balance(cli, lab, was, is_mentioned):
    volume_id = add_calm(lab, **was)
    flip_to_target(cli, lab, volume_id, "--to", "gp3")

    text = " ".join(cli.run("flip-back", volume_id, "--dry-run").out.split())

    assert ("its burst balance is unknown" in text) is is_mentioned


RELEASE = {"burstwatch:mode": "auto", "burstwatch:window": "release"}


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (RELEASE, "window release runs until it is stopped"),
        ({"burstwatch:mode": "auto", "burstwatch:critical": "true"}, "it is tagged critical"),
    ],
)
def test_a_return_the_watchdog_would_undo_names_how_to_prevent_that(cli, lab, tags, why):
    volume_id = add_calm(lab, tags=tags)
    flip_to_target(cli, lab, volume_id)
    if tags is RELEASE:
        cli.run("window", "start", "release", "--yes")

    result = cli.run("flip-back", volume_id, "--dry-run")

    text = " ".join(result.out.split())
    assert (
        f"the watchdog would flip it again: {why}; to prevent that: burstctl hold {volume_id} --for" in text
    )
    assert "--reason TEXT" in text
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(
    "tags",
    [
        {"burstwatch:mode": "auto"},
        {"burstwatch:window": "release"},
        {"burstwatch:critical": "true"},
    ],
)
def test_a_return_that_nothing_would_undo_has_no_such_warning(cli, lab, tags):
    volume_id = add_calm(lab, tags=tags)
    flip_to_target(cli, lab, volume_id)
    if "burstwatch:window" in tags:
        cli.run("window", "start", "release", "--yes")

    assert "out again" not in cli.run("flip-back", volume_id, "--dry-run").out


@pytest.mark.parametrize("arguments", [("--yes",), ("--dry-run",)])
def test_after_a_refusal_the_next_command_shows_why(cli, lab, arguments):
    volume_id = add_calm(lab)

    result = cli.run("flip-back", volume_id, *arguments)

    assert result.code == 4
    assert result.err.splitlines()[-1] == f"next: burstctl explain {volume_id}"


# -- if stdout takes nothing


def run_with_full_stdout(cli, *arguments):
    with Path("/dev/full").open("w") as full:
        return cli.run_in_subprocess(*arguments, stdout=full)


def test_a_plan_that_cannot_be_written_modifies_nothing_and_reports_it(cli, lab):
    volume_id = add_critical(lab)

    result = run_with_full_stdout(cli, "flip", volume_id, "--yes")

    assert result.code == 1
    assert (
        "error: nothing was modified: the output could not be written (No space left on device)" in result.err
    )
    assert count_modify_calls(lab) == 0


def test_a_result_that_cannot_be_written_is_on_stderr_with_the_command_that_shows_it(cli, lab):
    volume_id = add_critical(lab, "ci-7")

    result = run_with_full_stdout(cli, "flip", volume_id, "--yes", "--json")

    assert result.code == 1
    assert f"{volume_id} (ci-7): AWS has begun to make it gp3" in " ".join(result.err.split())
    assert "burstctl history shows what was requested" in " ".join(result.err.split())
    assert count_modify_calls(lab) == 1


def test_a_refusal_that_cannot_be_written_reports_that_nothing_was_modified(cli, lab):
    volume_id = add_critical(lab)
    cli.run("watch", "--once")  # a hold needs a ledger
    cli.run("hold", "--all", "--for", "1h", "--reason", "INC-42")

    result = run_with_full_stdout(cli, "flip", volume_id, "--yes", "--json")

    assert "nothing was modified" in result.err
    assert count_modify_calls(lab) == 0


@pytest.mark.parametrize(("method", "options"), [("holds", ["--json"]), ("pending_deliveries", [])])
def test_a_modification_is_reported_although_the_ledger_fails_after_it(
    cli, lab, monkeypatch, method, options
):
    volume_id = add_critical(lab)
    real = getattr(SqliteLedger, method)

    def fail_after_it(self, *args, **fields):
        if count_modify_calls(lab):
            raise LedgerError("ledger is locked")
        return real(self, *args, **fields)

    monkeypatch.setattr(SqliteLedger, method, fail_after_it)
    cli.set(BURSTWATCH_SLACK_WEBHOOK="http://127.0.0.1:9/x")

    result = cli.run("flip", volume_id, "--yes", *options)

    assert count_modify_calls(lab) == 1
    assert ("flipped" if options else "AWS has begun to make it gp3") in result.out
    # holds are read before AWS is asked, and not again for the report
    assert ("ledger is locked" in result.err) == (method == "pending_deliveries")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_modification_is_reported_although_a_channel_has_a_defect(cli, lab, monkeypatch, options):
    def fail(channel, alert):
        raise TypeError("no text")

    volume_id = add_critical(lab)
    monkeypatch.setattr(SlackChannel, "send", fail)
    cli.set(BURSTWATCH_SLACK_WEBHOOK="http://127.0.0.1:9/x")

    result = cli.run("flip", volume_id, "--yes", *options)

    assert count_modify_calls(lab) == 1
    assert ("flipped" if options else "AWS has begun to make it gp3") in result.out
    assert result.code == 1
    error = " ".join(result.err.split())
    assert "unexpected TypeError: no text" in error
    assert "alerts that broke a channel still wait in the ledger" in error


def test_the_commands_of_a_flip_for_a_time_name_the_ledger(cli, lab):
    volume_id = add_critical(lab)
    ledger = f"sqlite:{cli.ledger_path}"

    result = cli.run("flip", volume_id, "--for", "2h", "--yes", "--ledger", ledger)

    assert f"burstctl watch --act --region us-east-1 --ledger {ledger}" in result.err
    assert f"burstctl flip-back {volume_id} --region us-east-1 --ledger {ledger}" in result.err
