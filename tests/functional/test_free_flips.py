"""A change that is permanent and costs no more than gp2 is made at warning; any other waits for critical."""

import json

import pytest
from operators_desk import OperatorsDesk, a_lab, add_critical, add_warning, asked, modified
from some_functions import AUTO, a_message, failures, instant, some_functions

from burstwatch.core.ledger.flip_state import Hold

FREE = "gp3 stays and costs no more than gp2"
NOT_FREE = {
    "io1": ("version: 1\nflip:\n  target: io1\n", {}, "io1 costs more than gp2"),
    "io2 by its tag": ("version: 1\n", {"burstwatch:target": "io2"}, "io2 costs more than gp2"),
    "more IOPS by its tag": ("version: 1\n", {"burstwatch:iops": "9000"}, "gp3 costs more than gp2"),
    "returns": ("version: 1\nflip_back:\n  return: always\n", {}, "gp3 returns to gp2 when calm"),
    "by policy": ("version: 1\nflip:\n  act_at: critical\n", {}, "flip.act_at is critical"),
}


@pytest.fixture
def functions(monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    with some_functions(monkeypatch) as found:
        yield found


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def desk_lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def out(functions, volume_id):
    """A request to flip it, as anybody who may send to the queue could write it."""
    document = {
        "schema": "burstwatch.flip_request/v1",
        "time": instant(functions.lab.clock.now_s()),
        "volume_id": volume_id,
        "direction": "out",
        "cause": "draining",
        "because": "critical: empty within 15 min",
    }
    return a_message(json.dumps(document), group=volume_id)


def run(functions, minutes):
    for _ in range(minutes):
        functions.tick(1)
        while functions.carry_out():
            pass


# At an operator's desk


def test_a_free_change_is_made_at_warning_and_says_by_which_rule(desk, desk_lab):
    volume_id = add_warning(desk_lab, tags=AUTO)
    told = desk.run("explain", volume_id)
    assert f"flips at warning: {FREE}" in " ".join(told.out.split())
    document = json.loads(desk.run("explain", volume_id, "--json").out)
    assert document["act_at"] == {"level": "warning", "because": FREE}

    ran = desk.run("watch", "--act", "--once")

    assert (ran.code, modified(desk_lab, volume_id)) == (0, ["gp3"])
    assert f"It flips at warning: {FREE}." in " ".join(ran.out.split() + ran.err.split())
    assert "flips at warning by flip.act_at" in ran.err


@pytest.mark.parametrize(("policy", "tags", "because"), NOT_FREE.values(), ids=NOT_FREE)
def test_any_other_change_waits_and_says_why(desk, desk_lab, policy, tags, because):
    (desk.directory / "policy.yaml").write_text(policy)
    volume_id = add_warning(desk_lab, tags=AUTO | tags)
    ran = desk.run("watch", "--act", "--once")
    assert (ran.code, asked(desk_lab)) == (3, 0)
    assert f"It flips at critical: {because}." in " ".join(ran.out.split() + ran.err.split())
    document = json.loads(desk.run("explain", volume_id, "--json").out)
    assert document["act_at"] == {"level": "critical", "because": because}


def test_the_alert_says_that_the_watchdog_flips_it_and_has_the_command_for_the_impatient(desk, desk_lab):
    add_warning(desk_lab, tags=AUTO)
    said = plain(desk.run("watch", "--act", "--once"))
    assert "what to do:" not in said
    assert (
        "the watchdog flips it if it may act and no guard refuses; to do it now: burstctl flip vol-" in said
    )


def test_before_the_level_at_which_it_is_flipped_alert_and_explain_say_who_flips_it_and_when(desk, desk_lab):
    (desk.directory / "policy.yaml").write_text("version: 1\nflip:\n  act_at: critical\n")
    volume_id = add_warning(desk_lab, tags=AUTO)
    ran = desk.run("watch", "--act", "--once")
    who = "the watchdog flips it at critical"
    assert f"{who} if it may act and no guard refuses; to do it now: burstctl flip" in plain(ran)

    ran = desk.run("explain", volume_id)

    said = plain(ran)
    assert f"{who}, if it may act and no guard refuses. to do it now: burstctl flip {volume_id}" in said
    assert f"next step {who}, if it may act and no guard refuses (mode is auto; warning" in said
    assert "you: flip it" not in said
    assert max(map(len, ran.out.splitlines())) <= 80


def test_explain_leaves_the_flip_of_a_volume_on_hold_to_people(desk, desk_lab):
    (desk.directory / "policy.yaml").write_text("version: 1\nflip:\n  act_at: critical\n")
    volume_id = add_warning(desk_lab, tags=AUTO)
    desk.run("hold", volume_id, "--for", "2h", "--reason", "x", "--ledger", f"sqlite:{desk.ledger_path}")
    said = plain(desk.run("explain", volume_id))
    assert "the watchdog flips it" not in said
    assert "next step you: flip it" in said


def plain(ran):
    return " ".join(ran.out.split() + ran.err.split()).lower()


def test_in_mode_propose_people_get_the_command_and_the_rule_at_warning(desk, desk_lab):
    volume_id = add_warning(desk_lab)
    ran = desk.run("watch", "--act", "--once")
    said = " ".join(ran.out.split() + ran.err.split())
    assert asked(desk_lab) == 0
    assert f"In mode auto it would flip at warning: {FREE}." in said
    assert f"burstctl flip {volume_id} --region us-east-1 --to gp3" in said
    assert f"in mode auto it flips at warning: {FREE}" in " ".join(desk.run("explain", volume_id).out.split())


# Deployed


def test_the_flip_function_finds_a_flip_at_warning_by_itself(functions):
    volume_id = add_warning(functions.lab, tags=AUTO)
    said = functions.flip([out(functions, volume_id)])
    assert (modified(functions.lab, volume_id), failures(said)) == (["gp3"], set())


@pytest.mark.parametrize(("policy", "tags", "because"), NOT_FREE.values(), ids=NOT_FREE)
def test_no_message_makes_a_change_that_is_not_free_at_warning(functions, policy, tags, because):
    functions.deploy_policy(policy)
    volume_id = add_warning(functions.lab, tags=AUTO | tags)
    said = functions.flip([out(functions, volume_id)])
    assert (asked(functions.lab), failures(said)) == (0, set()), because
    assert "not wanted (any more)" in said.messages[-1]


def test_early_flips_leave_a_share_of_the_cap_to_drains_that_are_critical(functions):
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 4\n")
    lab = functions.lab
    early = [add_warning(lab, f"build-{number}", tags=AUTO) for number in range(5)]
    functions.watch("sweep")
    run(functions, 2)
    assert sum(modified(lab, volume_id) != [] for volume_id in early) == 3
    critical = add_critical(lab, tags=AUTO)
    run(functions, 6)
    assert modified(lab, critical) == ["gp3"]


def test_an_early_flip_leaves_the_only_place_to_a_drain_that_is_critical(functions):
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 1\n")
    lab = functions.lab
    early = add_warning(lab, tags=AUTO)
    functions.watch("sweep")
    run(functions, 2)
    assert modified(lab, early) == []
    critical = add_critical(lab, tags=AUTO)
    run(functions, 6)
    assert (modified(lab, critical), modified(lab, early)) == (["gp3"], [])
    assert "FlipRefused" not in functions.kinds(), "nothing is lost as long as it is not critical"


def test_a_refusal_of_an_early_flip_is_reported_once_the_drain_is_critical(functions):
    lab = functions.lab
    add_warning(lab, tags=AUTO)
    now_s = int(lab.clock.now_s())
    hold = Hold(volume_id=None, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 7200)
    functions.ledger.place_hold(hold)
    functions.watch("sweep")
    assert (functions.asked(), functions.kinds()) == ([], ["BurstBalanceDraining"])
    run(functions, 10)
    assert functions.kinds() == []
    run(functions, 20)
    assert sorted(functions.kinds()) == ["BurstBalanceDraining", "FlipRefused"]
    assert asked(lab) == 0


def test_many_early_flips_do_not_hold_up_the_request_for_a_critical_volume(functions, monkeypatch):
    monkeypatch.setattr("burstwatch.engine.dispatch._MOST_WAITING", 2)
    lab = functions.lab
    early = {add_warning(lab, f"build-{number}", tags=AUTO) for number in range(6)}
    critical = {add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(3)}
    functions.watch("sweep")
    requested = [each["MessageGroupId"] for each in functions.asked()]
    assert set(requested[:3]) == critical, "the most urgent first"
    assert len(early.intersection(requested)) == 2
