"""burstctl hold and release: a person stops all modifications, and everybody is notified."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.ledger import Change
from support.builders.states import build_state
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_exhausted,
    count_modify_calls,
)

AUTO = {"burstwatch:mode": "auto"}


def place_hold(cli, *target, lasts="6h", reason="restore test"):
    return cli.run(
        "hold", *target, "--for", lasts, "--reason", reason, "--ledger", f"sqlite:{cli.ledger_path}"
    )


def test_a_hold_states_what_until_when_who_and_why(cli, lab):
    volume_id = add_calm(lab)

    result = place_hold(cli, volume_id)

    assert result.code == 0
    assert result.out == (
        f"{volume_id} is on hold for 6 h (until 00:00 Sat UTC), by anna\n  (user/moto): restore test\n"
        "This reaches only watchdogs in us-east-1 (account 123456789012) that use this\n"
        "  ledger; no stack is deployed there. Other regions are not affected.\n"
    )
    assert cli.entry_kinds(volume_id) == ["held"]


def test_the_kill_switch_shows_in_every_output(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    cli.run("watch", "--once")
    place_hold(cli, "--all", reason="INC-42")

    text = "hold: all changes are on hold for 6 h (until 00:00 Sat UTC), by anna (user/moto): INC-42"
    for arguments in (
        ["assess"],
        ["explain", volume_id],
        ["watch", "--once"],
        ["watch", "--passes", "1"],
        ["flip", volume_id, "--dry-run"],
        ["flip-back", volume_id, "--dry-run"],
        ["history", volume_id],
        ["window", "list"],
    ):
        assert text in cli.run(*arguments).err.splitlines(), arguments
    for arguments in (["assess"], ["watch", "--once"], ["flip", volume_id, "--dry-run"], ["window", "list"]):
        assert cli.run(*arguments, "--json").document["holds"][0]["reason"] == "INC-42", arguments


def test_a_hold_on_one_volume_does_not_affect_others(cli, lab):
    held, free = add_critical(lab, tags=AUTO), add_exhausted(lab, tags=AUTO)
    place_hold(cli, held)

    result = cli.run("watch", "--act", "--once")

    assert result.code == 4
    assert count_modify_calls(lab) == 1
    assert "hold:" not in cli.run("flip", free, "--dry-run").err
    assert "hold:" not in cli.run("explain", free).err


def test_a_new_hold_takes_the_place_of_the_old_one(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)

    result = place_hold(cli, volume_id, lasts="1h", reason="shorter")

    assert f"replaced: {volume_id} is on hold for 6 h (until 00:00 Sat UTC)" in " ".join(result.err.split())
    assert "until 19:00 UTC" in result.out


def damage_hold(cli, subject):
    with sqlite3.connect(cli.ledger_path) as connection:
        connection.execute("UPDATE holds SET placed_at_s = 'x' WHERE subject = ?", [subject])
    connection.close()


def damage_table(path, table):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((size,),) = connection.execute("PRAGMA page_size")
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes([0x5A]) * size)


def test_a_new_hold_on_a_volume_reports_that_it_replaces_one_that_cannot_be_read(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    damage_hold(cli, volume_id)

    result = place_hold(cli, volume_id, lasts="1h", reason="shorter")

    assert f"replaced: the hold on {volume_id}, which cannot be read" in result.err
    assert "everything is held until" not in result.err


def test_the_end_of_the_kill_switch_leaves_a_damaged_hold_and_names_what_ends_it(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    place_hold(cli, "--all")
    damage_hold(cli, volume_id)

    result = cli.run("release", "--all")

    assert "everything: released; it would have been on hold" in result.out
    assert f"everything is held until burstctl release {volume_id}" in " ".join(result.err.split())

    result = cli.run("release", volume_id)

    assert f"{volume_id}: released; its hold could not be read" in result.out
    assert "everything is" not in result.err


def test_a_damaged_kill_switch_that_is_released_or_replaced_is_not_reported_again(cli, lab):
    for order in (["release", "--all"], ["hold", "--all", "--for", "1h", "--reason", "again"]):
        place_hold(cli, "--all")
        damage_hold(cli, "*")

        result = cli.run(*order)

        assert "everything is held until" not in result.err, order


def test_a_hold_is_placed_although_the_states_cannot_be_read(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    damage_table(cli.ledger_path, "states")

    result = place_hold(cli, "--all")

    assert result.code == 0
    assert "are on hold" in " ".join(result.out.split())
    assert "whether modifications are in progress is not known: ledger" in result.err
    assert "ELSEWHERE" not in result.err


def test_the_holds_that_are_placed_are_reported_although_another_one_fails(cli, lab, monkeypatch):
    first, second = add_calm(lab), add_calm(lab)
    place_in_ledger = SqliteLedger.place_hold

    def place_hold_of_one(ledger, hold):
        if hold.volume_id == first:
            raise LedgerError("the ledger is locked", fix="try again")
        place_in_ledger(ledger, hold)

    monkeypatch.setattr(SqliteLedger, "place_hold", place_hold_of_one)
    ledger = f"sqlite:{cli.ledger_path}"
    arguments = ["--for", "6h", "--reason", "INC-42", "--ledger", ledger, "--json"]
    result = cli.run("hold", first, second, *arguments)

    assert result.code == 1
    assert f"not held: {first}: the ledger is locked" in " ".join(result.err.split())
    document = json.loads(result.out)
    assert [hold["volume_id"] for hold in document["placed"]] == [second]
    assert document["failures"] == [f"not held: {first}: the ledger is locked; try again"]


def test_a_resource_that_does_not_exist_is_reported_although_the_only_hold_fails(cli, lab, monkeypatch):
    def fail(ledger, hold):
        raise LedgerError("the ledger is locked", fix="try again")

    known = add_calm(lab)
    monkeypatch.setattr(SqliteLedger, "place_hold", fail)
    result = place_hold(cli, known, "vol-0123456789abcdef0")

    assert result.code == 1
    assert "no volume vol-0123456789abcdef0 in us-east-1" in result.err
    assert f"not held: {known}: the ledger is locked" in " ".join(result.err.split())


def test_a_region_whose_ledger_fails_is_not_one_without_anything_to_do(cli, lab, monkeypatch):
    def fail(ledger, hold):
        raise LedgerError("the ledger is locked", fix="try again")

    monkeypatch.setattr(SqliteLedger, "place_hold", fail)
    regions = ["--region", "us-east-1", "--region", "eu-west-1"]
    result = place_hold(cli, "--all", *regions)

    assert result.code == 1
    output = " ".join(result.out.split())
    assert "held in 0 regions, nothing to do in 0, FAILED in 2 regions (us-east-1, eu-west-1)" in output


@pytest.mark.parametrize("failing", [0, 1])
def test_a_release_that_fails_for_one_volume_is_done_for_the_other(cli, lab, monkeypatch, failing):
    volume_ids = [add_calm(lab), add_calm(lab)]
    place_hold(cli, *volume_ids)
    lift_in_ledger = SqliteLedger.lift_hold

    def lift_hold_of_one(ledger, subject, **fields):
        if subject == volume_ids[failing]:
            raise LedgerError("the ledger is locked", fix="try again")
        return lift_in_ledger(ledger, subject, **fields)

    monkeypatch.setattr(SqliteLedger, "lift_hold", lift_hold_of_one)
    result = cli.run("release", *volume_ids, "--json", "--ledger", f"sqlite:{cli.ledger_path}")

    assert result.code == 1
    document = json.loads(result.out)
    assert [released["volume_id"] for released in document["released"]] == [volume_ids[1 - failing]]
    assert [hold["volume_id"] for hold in document["holds"]] == [volume_ids[failing]]
    assert document["failures"] == [f"not released: {volume_ids[failing]}: the ledger is locked; try again"]


def test_holds_that_cannot_be_read_after_a_release_are_reported_as_not_known(cli, lab, monkeypatch):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    lift_in_ledger = SqliteLedger.lift_hold

    def fail(ledger, now_s):
        raise LedgerError("the ledger is locked", fix="try again")

    def lift_hold(ledger, subject, **fields):
        monkeypatch.setattr(SqliteLedger, "holds", fail)
        return lift_in_ledger(ledger, subject, **fields)

    monkeypatch.setattr(SqliteLedger, "lift_hold", lift_hold)
    result = cli.run("release", volume_id, "--json", "--ledger", f"sqlite:{cli.ledger_path}")

    assert result.code == 1
    assert "whether other holds are in force is not known: the ledger is locked" in result.err
    assert len(json.loads(result.out)["failures"]) == 1


def test_a_release_is_reported_although_the_states_cannot_be_read(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    damage_table(cli.ledger_path, "states")

    result = cli.run("release", volume_id, "--ledger", f"sqlite:{cli.ledger_path}")

    assert result.code == 1
    assert f"{volume_id}: released; it would have been on hold" in " ".join(result.out.split())
    assert "is damaged" in result.err
    with cli.open_ledger() as ledger:
        assert ledger.holds(0) == []


def test_a_hold_ends_by_itself(cli, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    place_hold(cli, volume_id, lasts="1h")
    assert cli.run("watch", "--act", "--once").code == 4

    lab.clock.advance(3600)

    assert cli.run("watch", "--act", "--once").code == 0
    assert count_modify_calls(lab) == 1


def test_a_modification_in_progress_continues_and_that_is_reported(cli, lab):
    add_critical(lab, tags=AUTO)
    cli.run("watch", "--act", "--once")

    result = place_hold(cli, "--all")

    assert "modifications in progress, which cannot be stopped: 1" in result.err


def test_a_volume_that_does_not_exist_is_not_held_and_the_others_are(cli, lab):
    known = add_calm(lab)

    result = place_hold(cli, "vol-0123456789abcdef0", known)

    assert result.code == 1
    assert result.error_lines == ["error: no volume vol-0123456789abcdef0 in us-east-1."]
    assert cli.entry_kinds(known) == ["held"]
    assert cli.entry_kinds("vol-0123456789abcdef0") == []


@pytest.mark.parametrize("target", ["--all", "a volume"])
def test_it_works_where_aws_does_not(cli, lab, target):
    volume_id = add_calm(lab)
    for action in ("GetCallerIdentity", "DescribeVolumes"):
        lab.faults.add(Fault(action=action, code="AuthFailure", message="no", status=401))

    result = place_hold(cli, "--all" if target == "--all" else volume_id)

    assert result.code == 0
    assert ", by anna: restore test" in " ".join(result.out.split())
    assert result.error_lines == []
    assert ("whether the resources exist is not known" in result.err) is (target != "--all")


@pytest.mark.parametrize("command", ["hold", "release"])
def test_without_credentials_nothing_is_done_unless_the_ledger_is_named(cli, lab, command):
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    arguments = ["--all", "--for", "6h", "--reason", "x"] if command == "hold" else ["--all"]

    refused = cli.run(command, *arguments)
    named = cli.run(command, *arguments, "--ledger", f"sqlite:{cli.ledger_path}")

    assert (refused.code, refused.out) == (1, "")
    text = " ".join(refused.err.split())
    assert "cannot find out whether a watchdog is deployed in us-east-1" in text
    assert named.code == 0
    if command == "hold":
        text = " ".join(named.out.split())
        assert "that use this ledger; whether a stack is deployed there is not known." in text


def test_a_release_gives_up_what_cannot_be_read_and_its_history_keeps_it(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    cli.run("watch", "--once")
    with cli.open_ledger() as ledger:
        ledger._connection.execute("UPDATE states SET body = '{\"x' WHERE volume_id = ?", (volume_id,))
    unread = cli.run("watch", "--once")
    assert unread.code == 1
    assert f"the state of {volume_id} in the ledger (table states, {volume_id}) cannot be read" in unread.err

    for command, times in (("explain", 1), ("history", 1)):
        result = cli.run(command, volume_id)
        text = " ".join((result.out + result.err).split())
        assert result.code == 1, command
        assert "not known: the ledger's state cannot be read" in text
        assert "no flip, hold or alert" not in text
        assert f"burstctl release {volume_id}" in text
        assert text.count("newest burstwatch") == times, command
        assert cli.run(command, volume_id, "--json").code == 1
    result = cli.run("window", "list")
    assert (result.code, result.err.count("newest burstwatch")) == (1, 1)
    result = cli.run("doctor", "--json")
    (actual,) = [finding for finding in result.document["findings"] if "the state of" in finding["seen"]]
    assert actual["commands"] == [f"burstctl release {volume_id} --region us-east-1"]
    assert "VolumesUnread" in actual["page"]

    result = cli.run("release", volume_id, "--json")

    assert result.code == 0
    assert result.document["released"][0]["gave_up"] == '{"x'
    with cli.open_ledger() as ledger:
        assert ledger.states() == {}
        assert ledger.entries(volume_id)[-1].body["gave_up"] == '{"x'
    history = " ".join(cli.run("history", volume_id).out.split())
    assert 'discarded its state in the ledger, which could not be read; it began with: {"x' in history
    assert "its hold is lifted" not in history
    assert cli.run("watch", "--once").code == 3
    assert "not on hold, nothing released" in cli.run("release", volume_id).err


def test_an_entry_of_a_later_version_is_left_out_and_reported(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    cli.run("watch", "--once")
    later = '{"kind": "SomethingLater", "alert_id": "x"}'
    with cli.open_ledger() as ledger:
        reported = "INSERT INTO entries (volume_id, revision, kind, about, at_s, body) VALUES (?,1,?,'x',?,?)"
        for kind in ("alert", "teleported"):
            ledger._connection.execute(reported, (volume_id, kind, int(lab.clock.now_s()), later))

    for arguments in (
        ["history", volume_id],
        ["plot", volume_id],
        ["report", "--html", "r.html"],
        ["explain", volume_id],
    ):
        result = cli.run(*arguments)
        assert result.code in (0, 3), arguments
        assert f"the history entry of {volume_id} in the ledger (table entries, " in result.err, arguments
        assert "(and 1 more)" in result.err, arguments


def test_without_a_stack_or_a_ledger_nothing_is_held_and_that_is_a_failure(cli, lab):
    result = cli.run("hold", "--all", "--for", "6h", "--reason", "x")

    assert (result.code, result.out) == (1, "")
    assert result.error_lines == ["error: nothing was held: no stack and no ledger in us-east-1."]
    assert "--region NAME, --region all, or --ledger sqlite:PATH" in result.err
    assert "for a watch in a container, run this in the container" in " ".join(result.err.split())
    assert not cli.ledger_path.parent.exists()


def test_a_hold_that_no_stack_reads_is_not_reported_as_a_hold_on_everything(cli, lab):
    result = place_hold(cli, "--all")

    assert result.code == 0
    assert result.out.startswith(
        "Automatic changes by watchdogs that use this ledger are on hold for 6 h (until\n"
    )


def test_the_output_of_a_hold_on_stderr_fits_80_columns(cli, lab):
    place_hold(cli, "--all", reason="a reason of some length, so that the line is longer than 80 columns")

    result = place_hold(cli, "--all")

    [line] = [line for line in result.err.splitlines() if line.startswith("replaced: ")]
    assert len(line) <= 80


@pytest.mark.parametrize(
    "arguments",
    [
        ["--for", "6h", "--reason", "x"],
        ["--all", "vol-0123456789abcdef0", "--for", "6h", "--reason", "x"],
        ["--all", "--reason", "x"],
        ["--all", "--for", "6h"],
        ["--all", "--for", "6h", "--reason", ""],
        ["--all", "--for", "59s", "--reason", "x"],
        ["--all", "--for", "31d", "--reason", "x"],
        ["--all", "--for", "-6h", "--reason", "x"],
    ],
)
def test_usage_errors_are_reported_before_anything_is_done(cli, lab, arguments):
    result = cli.run("hold", *arguments)

    assert result.code == 2
    assert "Traceback" not in result.err
    assert lab.faults.call_counts() == {}


def test_a_hold_in_json(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)

    document = place_hold(cli, volume_id, "--json", lasts="1d", reason="re\u202eason").document

    assert document["schema"] == "burstwatch.hold/v1"
    (placed,) = document["placed"]
    assert placed == {
        "volume_id": volume_id, "resource_id": volume_id, "by": "anna (user/moto)", "reason": "re?ason",
        "placed_at": "2026-11-20T18:00:00Z", "until": "2026-11-21T18:00:00Z",
    }  # fmt: skip
    assert [item["reason"] for item in document["replaced"]] == ["restore test"]


def test_release_lists_what_it_released_and_then_that_there_is_nothing(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)

    first, second = cli.run("release", volume_id), cli.run("release", volume_id)

    assert first.out.startswith(f"{volume_id}: released; it would have been on hold for 6 h (until")
    assert (second.code, second.out) == (0, "")
    assert f"{volume_id}: not on hold, nothing released" in second.err
    assert cli.entry_kinds(volume_id) == ["held", "released"]


def test_nothing_to_release_makes_no_ledger(cli, lab):
    assert cli.run("release", "--all").code == 0
    assert not cli.ledger_path.parent.exists()


def test_the_holds_that_stay_are_reported(cli, lab):
    volume_id = add_calm(lab)
    place_hold(cli, volume_id)
    place_hold(cli, "--all", reason="INC-42")

    result = cli.run("release", volume_id)
    assert "hold: all changes are on hold for 6 h (until" in result.err
    place_hold(cli, volume_id)
    result = cli.run("release", "--all", "--json")
    assert [item["volume_id"] for item in result.document["holds"]] == [volume_id]
    assert result.document["released"][0]["hold"]["reason"] == "INC-42"


def test_release_takes_an_externally_changed_volume_back_into_care(cli, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    cli.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    cli.run("watch", "--act", "--once")
    lab.fleet.modify(volume_id, volume_type="gp2")
    lab.clock.advance(3600)
    assert "was reverted to gp2" in cli.run("watch", "--act", "--once").err
    lab.clock.advance(60)
    assert count_modify_calls(lab) == 1

    result = cli.run("release", volume_id)

    assert result.code == 0
    assert result.out.startswith(f"{volume_id}: managed again; someone else had changed it, seen")
    assert cli.entry_kinds(volume_id)[-1] == "released"
    assert "released by anna (user/moto): managed again" in cli.run("history", volume_id).out
    assert cli.run("watch", "--act", "--once").code == 0
    assert count_modify_calls(lab) == 2


def test_a_volume_that_stays_is_evaluated_right_after_its_release(cli, lab):
    """Else it would be half a day until the watchdog looks whether it still is what it was."""
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--yes")
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    lab.fleet.modify(volume_id, iops=4000, volume_type="gp3")
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    with cli.open_ledger() as ledger:
        contested = ledger.states()[volume_id]
    assert contested.next_poll_at_s > lab.clock.now_s() + 3600

    cli.run("release", volume_id)

    with cli.open_ledger() as ledger:
        released = ledger.states()[volume_id]
    assert (released.flip, released.modifications.contested_at_s) == (contested.flip, None)
    assert released.next_poll_at_s <= lab.clock.now_s()


def test_a_release_that_meets_a_conflict_is_retried(cli, lab, monkeypatch):
    volume_id = add_calm(lab)
    cli.run("watch", "--once")
    contested = build_state(volume_id, 1, contested_at_s=100)
    real_commit = SqliteLedger.commit

    def commit(self, changes, *, channels):
        monkeypatch.setattr(SqliteLedger, "commit", real_commit)
        concurrent_change = Change(
            volume_id=volume_id, expected_revision=1, state=replace(contested, revision=2)
        )
        assert real_commit(self, [concurrent_change], channels=channels)
        return real_commit(self, changes, channels=channels)

    with cli.open_ledger() as ledger:
        ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=contested)], channels=[])
    monkeypatch.setattr(SqliteLedger, "commit", commit)

    assert "managed again" in cli.run("release", volume_id).out

    with cli.open_ledger() as ledger:
        assert ledger.states()[volume_id].modifications.contested_at_s is None
