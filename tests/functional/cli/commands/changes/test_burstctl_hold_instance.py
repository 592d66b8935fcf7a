"""burstctl hold, release and history of an instance: it is never modified, so a hold stops its alerts."""

import pytest

from burstctl.context.resources import ledger_keys_of
from support.cli.cli_session import INSTANCE, add_critical, add_lab_instance

POLICY = "version: 1\nresources: {instance: {watch: true}}\n"

pytestmark = pytest.mark.policy_file(POLICY)


def place_hold(cli, target, *options, lasts="6h"):
    order = ("--for", lasts, "--reason", "nightly build", "--ledger", f"sqlite:{cli.ledger_path}")
    return cli.run("hold", target, *order, *options)


def alerts_in(result):
    return result.err.count("EXHAUSTED: ")


def test_a_hold_stops_the_alerts_about_the_instance(cli, draining_instance):
    held = place_hold(cli, draining_instance)
    watched = cli.run("watch", "--once")

    assert held.code == 0, held.err
    assert held.out.startswith(f"no alert about {INSTANCE} is sent for 6 h (until 00:00 Sat UTC), by")
    assert f"the volumes of {INSTANCE} are not on hold" in held.err
    assert f"next: burstctl release {INSTANCE}" in held.err
    assert alerts_in(watched) == 0
    assert f"hold: no alert about {INSTANCE} is sent" in watched.err
    assert watched.out.splitlines()[1].split()[:2] == ["exhausted", INSTANCE], "its level is still shown"
    assert " held " in watched.out.splitlines()[1]


def test_the_alert_that_is_still_called_for_is_sent_after_the_release(cli, draining_instance):
    place_hold(cli, draining_instance)
    cli.run("watch", "--once")

    released = cli.run("release", draining_instance)
    watched = cli.run("watch", "--once")

    assert released.out.startswith(f"{INSTANCE}: released")
    assert alerts_in(watched) == 1


def test_a_hold_on_everything_stops_no_alert_about_an_instance(cli, draining_instance):
    place_hold(cli, "--all")
    assert alerts_in(cli.run("watch", "--once")) == 1


def test_a_hold_on_an_instance_is_none_on_its_volumes(cli, lab):
    add_lab_instance(lab, INSTANCE, "m5.24xlarge")
    volume_id = add_critical(lab, tags={"burstwatch:mode": "auto"}, instance_id=INSTANCE)
    place_hold(cli, INSTANCE)
    document = cli.run("watch", "--once", "--act", "--json").document
    outcomes = {volume["volume_id"]: volume["outcome"]["action"] for volume in document["volumes"]}
    assert outcomes[volume_id] == "flipped"


def test_a_name_is_held_and_the_hold_shows_in_explain_and_history(cli, draining_instance):
    place_hold(cli, "build-host")
    sentence = f"no alert about {INSTANCE} is sent for 6 h"
    assert sentence in " ".join(cli.run("explain", draining_instance).out.split())
    assert sentence in " ".join(cli.run("history", "build-host").out.split())


def test_an_instance_that_does_not_exist_is_not_held(cli, lab):
    result = place_hold(cli, "i-0000000000000000f")
    assert result.code == 1
    assert result.error_lines == ["error: no instance i-0000000000000000f in us-east-1."]


def test_the_history_names_the_bucket_of_each_event(cli, draining_instance):
    cli.run("watch", "--once")
    place_hold(cli, draining_instance)

    result = cli.run("history", draining_instance)
    document = cli.run("history", draining_instance, "--json").document

    assert "instance-io: level ok -> exhausted" in result.out
    assert "alert BurstBalanceExhausted" in result.out
    assert "instance-io: exhausted since" in result.out
    assert f"next: burstctl explain {INSTANCE}" in result.err
    assert document["resource_id"] == INSTANCE
    assert document["now"]["level"] == "exhausted"
    assert [bucket["bucket"] for bucket in document["now"]["buckets"]] == [
        "instance-io",
        "instance-throughput",
    ]
    subjects = {entry["subject"] for entry in document["entries"]}
    assert subjects <= {INSTANCE, *ledger_keys_of(INSTANCE)}


def test_an_instance_without_events_has_an_empty_history(cli, lab):
    add_lab_instance(lab, INSTANCE)
    result = cli.run("history", INSTANCE)
    assert (result.code, result.out) == (0, "")
    assert f"{INSTANCE} (build-host): the ledger has no event, flip or alert for it" in result.err
