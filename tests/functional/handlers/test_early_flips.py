"""A change that is permanent and costs no more than gp2 is made at warning; any other waits for critical."""

import json

import pytest

from burstwatch.core.ledger.flip_state import Hold
from support.builders.functions import AUTO, a_message, failed_message_ids, to_instant
from support.cli.cli_session import (
    add_critical,
    add_warning,
    count_modify_calls,
    modification_targets,
)

FREE = "gp3 stays and costs no more than gp2"
NOT_FREE = {
    "io1": ("version: 1\nflip:\n  target: io1\n", {}, "io1 costs more than gp2"),
    "io2 by its tag": ("version: 1\n", {"burstwatch:target": "io2"}, "io2 costs more than gp2"),
    "more IOPS by its tag": ("version: 1\n", {"burstwatch:iops": "9000"}, "gp3 costs more than gp2"),
    "returns": ("version: 1\nflip_back:\n  return: always\n", {}, "gp3 returns to gp2 when calm"),
    "by policy": ("version: 1\nflip:\n  act_at: critical\n", {}, "flip.act_at is critical"),
}


def first_flip_target(functions, volume_id):
    """A request to flip it, as anybody who may send to the queue could write it."""
    document = {
        "schema": "burstwatch.flip_request/v1",
        "time": to_instant(functions.lab.clock.now_s()),
        "volume_id": volume_id,
        "direction": "out",
        "cause": "draining",
        "because": "critical: empty within 15 min",
    }
    return a_message(json.dumps(document), group=volume_id)


def run_minutes(functions, minutes):
    for _ in range(minutes):
        functions.tick(1)
        while functions.run_flip_requests():
            pass


# From the CLI


def test_a_free_change_is_made_at_warning_and_names_its_rule(cli, cli_lab):
    volume_id = add_warning(cli_lab, tags=AUTO)
    reported = cli.run("explain", volume_id)
    assert f"flips at warning: {FREE}" in " ".join(reported.out.split())
    document = json.loads(cli.run("explain", volume_id, "--json").out)
    assert document["act_at"] == {"level": "warning", "because": FREE}

    result = cli.run("watch", "--act", "--once")

    assert (result.code, modification_targets(cli_lab, volume_id)) == (0, ["gp3"])
    assert f"It flips at warning: {FREE}." in " ".join(result.out.split() + result.err.split())
    assert "flips at warning by flip.act_at" in result.err


@pytest.mark.parametrize(("policy", "tags", "because"), NOT_FREE.values(), ids=NOT_FREE)
def test_any_other_change_waits_and_explains_why(cli, cli_lab, policy, tags, because):
    (cli.directory / "policy.yaml").write_text(policy)
    volume_id = add_warning(cli_lab, tags=AUTO | tags)
    result = cli.run("watch", "--act", "--once")
    assert (result.code, count_modify_calls(cli_lab)) == (3, 0)
    assert f"It flips at critical: {because}." in " ".join(result.out.split() + result.err.split())
    document = json.loads(cli.run("explain", volume_id, "--json").out)
    assert document["act_at"] == {"level": "critical", "because": because}


def test_the_alert_announces_the_flip_by_the_watchdog_and_has_a_command_to_flip_now(cli, cli_lab):
    add_warning(cli_lab, tags=AUTO)
    text = plain_text(cli.run("watch", "--act", "--once"))
    assert "what to do:" not in text
    assert (
        "the watchdog flips it if it may act and no guard refuses; to do it now: burstctl flip vol-" in text
    )


def test_before_the_level_of_its_flip_alert_and_explain_name_who_flips_it_and_when(cli, cli_lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  act_at: critical\n")
    volume_id = add_warning(cli_lab, tags=AUTO)
    result = cli.run("watch", "--act", "--once")
    who = "the watchdog flips it at critical"
    assert f"{who} if it may act and no guard refuses; to do it now: burstctl flip" in plain_text(result)

    result = cli.run("explain", volume_id)

    text = plain_text(result)
    assert f"{who}, if it may act and no guard refuses. to do it now: burstctl flip {volume_id}" in text
    assert f"next step {who}, if it may act and no guard refuses (mode is auto; warning" in text
    assert "you: flip it" not in text
    assert max(map(len, result.out.splitlines())) <= 80


def test_explain_leaves_the_flip_of_a_volume_on_hold_to_people(cli, cli_lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nflip:\n  act_at: critical\n")
    volume_id = add_warning(cli_lab, tags=AUTO)
    cli.run("hold", volume_id, "--for", "2h", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")
    text = plain_text(cli.run("explain", volume_id))
    assert "the watchdog flips it" not in text
    assert "no flip now: it is on hold" in text


def plain_text(result):
    return " ".join(result.out.split() + result.err.split()).lower()


def test_in_mode_propose_people_get_the_command_and_the_rule_at_warning(cli, cli_lab):
    volume_id = add_warning(cli_lab)
    result = cli.run("watch", "--act", "--once")
    text = " ".join(result.out.split() + result.err.split())
    assert count_modify_calls(cli_lab) == 0
    assert f"In mode auto it would flip at warning: {FREE}." in text
    assert f"burstctl flip {volume_id} --region us-east-1 --to gp3" in text
    assert f"in mode auto it flips at warning: {FREE}" in " ".join(cli.run("explain", volume_id).out.split())


# Deployed


def test_the_flip_function_finds_a_flip_at_warning_by_itself(functions):
    volume_id = add_warning(functions.lab, tags=AUTO)
    output = functions.flip([first_flip_target(functions, volume_id)])
    assert (modification_targets(functions.lab, volume_id), failed_message_ids(output)) == (["gp3"], set())


@pytest.mark.parametrize(("policy", "tags", "because"), NOT_FREE.values(), ids=NOT_FREE)
def test_no_message_triggers_a_paid_flip_at_warning(functions, policy, tags, because):
    functions.deploy_policy(policy)
    volume_id = add_warning(functions.lab, tags=AUTO | tags)
    output = functions.flip([first_flip_target(functions, volume_id)])
    assert (count_modify_calls(functions.lab), failed_message_ids(output)) == (0, set()), because
    assert "no longer needed" in output.messages[-1]


def test_early_flips_leave_a_share_of_the_cap_to_drains_that_are_critical(functions):
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 4\n")
    lab = functions.lab
    early = [add_warning(lab, f"build-{number}", tags=AUTO) for number in range(5)]
    functions.watch("sweep")
    run_minutes(functions, 2)
    assert sum(modification_targets(lab, volume_id) != [] for volume_id in early) == 3
    critical = add_critical(lab, tags=AUTO)
    run_minutes(functions, 6)
    assert modification_targets(lab, critical) == ["gp3"]


def test_an_early_flip_leaves_the_only_place_to_a_drain_that_is_critical(functions):
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 1\n")
    lab = functions.lab
    early = add_warning(lab, tags=AUTO)
    functions.watch("sweep")
    run_minutes(functions, 2)
    assert modification_targets(lab, early) == []
    critical = add_critical(lab, tags=AUTO)
    run_minutes(functions, 6)
    assert (modification_targets(lab, critical), modification_targets(lab, early)) == (["gp3"], [])
    assert "FlipRefused" not in functions.alert_kinds(), "nothing is lost as long as it is not critical"


def test_a_refusal_of_an_early_flip_is_reported_once_the_drain_is_critical(functions):
    lab = functions.lab
    add_warning(lab, tags=AUTO)
    now_s = int(lab.clock.now_s())
    hold = Hold(volume_id=None, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 7200)
    functions.ledger.place_hold(hold)
    functions.watch("sweep")
    assert (functions.requested_flips(), functions.alert_kinds()) == ([], ["BurstBalanceDraining"])
    run_minutes(functions, 10)
    assert functions.alert_kinds() == []
    run_minutes(functions, 20)
    assert sorted(functions.alert_kinds()) == ["BurstBalanceDraining", "FlipRefused"]
    assert count_modify_calls(lab) == 0


def test_many_early_flips_do_not_hold_up_the_request_for_a_critical_volume(functions, monkeypatch):
    monkeypatch.setattr("burstwatch.engine.dispatch._MAX_WAITING", 2)
    lab = functions.lab
    early = {add_warning(lab, f"build-{number}", tags=AUTO) for number in range(6)}
    critical = {add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(3)}
    functions.watch("sweep")
    requested = [request["MessageGroupId"] for request in functions.requested_flips()]
    assert set(requested[:3]) == critical, "the most urgent first"
    assert len(early.intersection(requested)) == 2
