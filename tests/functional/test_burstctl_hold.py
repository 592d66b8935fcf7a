"""burstctl hold and release: a person says that nothing is to be modified, and everybody hears it."""

import sqlite3
from dataclasses import replace

import pytest
from operators_desk import OperatorsDesk, a_lab, add_calm, add_critical, add_exhausted, asked

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger import Change, VolumeState

AUTO = {"burstwatch:mode": "auto"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def hold(desk, *what, lasts="6h", reason="restore test"):
    return desk.run(
        "hold", *what, "--for", lasts, "--reason", reason, "--ledger", f"sqlite:{desk.ledger_path}"
    )


def test_a_hold_says_what_until_when_who_and_why(desk, lab):
    volume_id = add_calm(lab)

    ran = hold(desk, volume_id)

    assert ran.code == 0
    assert ran.out == (
        f"{volume_id} is kept as it is for 6 h (until 00:00 Sat UTC), by anna\n  (user/moto): restore test\n"
        "This reaches only watchdogs in us-east-1 (account 123456789012) that use this\n"
        "  ledger; no stack is deployed there. Other regions are not affected.\n"
    )
    assert desk.kinds(volume_id) == ["held"]


def test_the_kill_switch_shows_in_every_output(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)
    desk.run("watch", "--once")
    hold(desk, "--all", reason="INC-42")

    said = "hold: everything is kept as it is for 6 h (until 00:00 Sat UTC), by anna (user/moto): INC-42"
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
        assert said in desk.run(*arguments).err.splitlines(), arguments
    for arguments in (["assess"], ["watch", "--once"], ["flip", volume_id, "--dry-run"], ["window", "list"]):
        assert desk.run(*arguments, "--json").document["holds"][0]["reason"] == "INC-42", arguments


def test_a_hold_on_one_volume_is_no_matter_to_others(desk, lab):
    held, free = add_critical(lab, tags=AUTO), add_exhausted(lab, tags=AUTO)
    hold(desk, held)

    ran = desk.run("watch", "--act", "--once")

    assert ran.code == 4
    assert asked(lab) == 1
    assert "hold:" not in desk.run("flip", free, "--dry-run").err
    assert "hold:" not in desk.run("explain", free).err


def test_a_new_hold_takes_the_place_of_the_old_one(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)

    ran = hold(desk, volume_id, lasts="1h", reason="shorter")

    assert f"no longer counts: {volume_id} is kept as it is for 6 h (until 00:00 Sat UTC)" in " ".join(
        ran.err.split()
    )
    assert "until 19:00 UTC" in ran.out


def damage_hold(desk, subject):
    with sqlite3.connect(desk.ledger_path) as connection:
        connection.execute("UPDATE holds SET placed_at_s = 'x' WHERE subject = ?", [subject])
    connection.close()


def test_a_new_hold_on_a_volume_says_that_it_replaces_one_that_cannot_be_read(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)
    damage_hold(desk, volume_id)

    ran = hold(desk, volume_id, lasts="1h", reason="shorter")

    assert f"no longer counts: the hold on {volume_id}, which cannot be read" in ran.err
    assert "everything is held until" not in ran.err


def test_the_end_of_the_kill_switch_leaves_a_damaged_hold_and_names_what_ends_it(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)
    hold(desk, "--all")
    damage_hold(desk, volume_id)

    ran = desk.run("release", "--all")

    assert "everything: released; it would have been on hold" in ran.out
    assert f"everything is held until burstctl release {volume_id}" in " ".join(ran.err.split())

    ran = desk.run("release", volume_id)

    assert f"{volume_id}: released; its hold could not be read" in ran.out
    assert "everything is" not in ran.err


def test_a_damaged_kill_switch_that_is_released_or_replaced_is_not_reported_again(desk, lab):
    for order in (["release", "--all"], ["hold", "--all", "--for", "1h", "--reason", "again"]):
        hold(desk, "--all")
        damage_hold(desk, "*")

        ran = desk.run(*order)

        assert "everything is held until" not in ran.err, order


def test_a_hold_ends_by_itself(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    hold(desk, volume_id, lasts="1h")
    assert desk.run("watch", "--act", "--once").code == 4

    lab.clock.advance(3600)

    assert desk.run("watch", "--act", "--once").code == 0
    assert asked(lab) == 1


def test_what_has_begun_goes_on_and_that_is_said(desk, lab):
    add_critical(lab, tags=AUTO)
    desk.run("watch", "--act", "--once")

    ran = hold(desk, "--all")

    assert "on their way already, which cannot be stopped: 1" in ran.err


def test_a_volume_that_does_not_exist_is_not_held_and_the_others_are(desk, lab):
    known = add_calm(lab)

    ran = hold(desk, "vol-0123456789abcdef0", known)

    assert ran.code == 1
    assert ran.complaints == [
        "burstctl: there is no volume vol-0123456789abcdef0 in us-east-1: it is not held"
    ]
    assert desk.kinds(known) == ["held"]
    assert desk.kinds("vol-0123456789abcdef0") == []


@pytest.mark.parametrize("what", ["--all", "a volume"])
def test_it_works_where_aws_does_not(desk, lab, what):
    volume_id = add_calm(lab)
    for action in ("GetCallerIdentity", "DescribeVolumes"):
        lab.faults.add(Fault(action=action, code="AuthFailure", message="no", status=401))

    ran = hold(desk, "--all" if what == "--all" else volume_id)

    assert ran.code == 0
    assert ", by anna: restore test" in " ".join(ran.out.split())
    assert ran.complaints == []
    assert ("whether the volumes exist is not known" in ran.err) is (what != "--all")


@pytest.mark.parametrize("command", ["hold", "release"])
def test_without_credentials_nothing_is_done_unless_the_ledger_is_named(desk, lab, command):
    desk.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    words = ["--all", "--for", "6h", "--reason", "x"] if command == "hold" else ["--all"]

    refused = desk.run(command, *words)
    named = desk.run(command, *words, "--ledger", f"sqlite:{desk.ledger_path}")

    assert (refused.code, refused.out) == (1, "")
    said = " ".join(refused.err.split())
    assert "cannot determine whether a watchdog is deployed in us-east-1" in said
    assert named.code == 0
    if command == "hold":
        said = " ".join(named.out.split())
        assert "that use this ledger; whether a stack is deployed there is not known." in said


def test_a_release_gives_up_what_cannot_be_read_and_its_history_keeps_it(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)
    desk.run("watch", "--once")
    with desk.open_ledger() as ledger:
        ledger._connection.execute("UPDATE states SET body = '{\"x' WHERE volume_id = ?", (volume_id,))
    unread = desk.run("watch", "--once")
    assert unread.code == 1
    assert f"the state of {volume_id} in the ledger (table states, {volume_id}) cannot be read" in unread.err

    for command, times in (("explain", 1), ("history", 1)):
        ran = desk.run(command, volume_id)
        said = " ".join((ran.out + ran.err).split())
        assert ran.code == 1, command
        assert "not known: the ledger's state cannot be read" in said
        assert "nothing is going on" not in said
        assert f"burstctl release {volume_id}" in said
        assert said.count("newest burstwatch") == times, command
        assert desk.run(command, volume_id, "--json").code == 1
    ran = desk.run("window", "list")
    assert (ran.code, ran.err.count("newest burstwatch")) == (1, 1)
    ran = desk.run("doctor", "--json")
    (found,) = [one for one in ran.document["findings"] if "the state of" in one["seen"]]
    assert found["commands"] == [f"burstctl release {volume_id} --region us-east-1"]
    assert "VolumesUnread" in found["page"]

    ran = desk.run("release", volume_id, "--json")

    assert ran.code == 0
    assert ran.document["released"][0]["gave_up"] == '{"x'
    with desk.open_ledger() as ledger:
        assert ledger.states() == {}
        assert ledger.entries(volume_id)[-1].body["gave_up"] == '{"x'
    story = " ".join(desk.run("history", volume_id).out.split())
    assert 'gave up its state in the ledger, which could not be read; it began with: {"x' in story
    assert "its hold is lifted" not in story
    assert desk.run("watch", "--once").code == 3
    assert "nothing to release" in desk.run("release", volume_id).err


def test_an_entry_of_a_later_version_is_left_out_and_said(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)
    desk.run("watch", "--once")
    later = '{"kind": "SomethingLater", "alert_id": "x"}'
    with desk.open_ledger() as ledger:
        told = "INSERT INTO entries (volume_id, revision, kind, about, at_s, body) VALUES (?,1,?,'x',?,?)"
        for kind in ("alert", "teleported"):
            ledger._connection.execute(told, (volume_id, kind, int(lab.clock.now_s()), later))

    for arguments in (
        ["history", volume_id],
        ["plot", volume_id],
        ["report", "--html", "r.html"],
        ["explain", volume_id],
    ):
        ran = desk.run(*arguments)
        assert ran.code in (0, 3), arguments
        assert f"the history entry of {volume_id} in the ledger (table entries, " in ran.err, arguments
        assert "(and 1 more)" in ran.err, arguments


def test_without_a_stack_or_a_ledger_nothing_is_held_and_that_is_a_failure(desk, lab):
    ran = desk.run("hold", "--all", "--for", "6h", "--reason", "x")

    assert (ran.code, ran.out) == (1, "")
    assert ran.complaints == ["burstctl: no stack and no ledger in us-east-1: nothing was held."]
    assert "--region NAME, --region all, or --ledger sqlite:PATH" in ran.err
    assert not desk.ledger_path.parent.exists()


def test_a_hold_that_no_stack_reads_is_not_said_to_be_on_everything(desk, lab):
    ran = hold(desk, "--all")

    assert ran.code == 0
    assert ran.out.startswith(
        "Automatic changes by watchdogs that use this ledger are on hold for 6 h (until\n"
    )


def test_what_a_hold_says_on_stderr_fits_80_columns(desk, lab):
    hold(desk, "--all", reason="a reason of some length, so that the line is longer than 80 columns")

    ran = hold(desk, "--all")

    [line] = [line for line in ran.err.splitlines() if line.startswith("no longer counts: ")]
    assert len(line) <= 80


@pytest.mark.parametrize(
    "given",
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
def test_misuse_is_told_before_anything_is_done(desk, lab, given):
    ran = desk.run("hold", *given)

    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert lab.faults.calls() == {}


def test_a_hold_in_json(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)

    document = hold(desk, volume_id, "--json", lasts="1d", reason="re\u202eason").document

    assert document["schema"] == "burstwatch.hold/v1"
    (placed,) = document["placed"]
    assert placed == {
        "volume_id": volume_id, "by": "anna (user/moto)", "reason": "re?ason",
        "placed_at": "2026-11-20T18:00:00Z", "until": "2026-11-21T18:00:00Z",
    }  # fmt: skip
    assert [each["reason"] for each in document["replaced"]] == ["restore test"]


def test_release_says_what_it_released_and_then_that_there_is_nothing(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)

    first, second = desk.run("release", volume_id), desk.run("release", volume_id)

    assert first.out.startswith(f"{volume_id}: released; it would have been on hold for 6 h (until")
    assert (second.code, second.out) == (0, "")
    assert f"{volume_id}: nothing to release, there is no hold on it" in second.err
    assert desk.kinds(volume_id) == ["held", "released"]


def test_nothing_to_release_makes_no_ledger(desk, lab):
    assert desk.run("release", "--all").code == 0
    assert not desk.ledger_path.parent.exists()


def test_the_holds_that_stay_are_told(desk, lab):
    volume_id = add_calm(lab)
    hold(desk, volume_id)
    hold(desk, "--all", reason="INC-42")

    ran = desk.run("release", volume_id)
    assert "hold: everything is kept as it is for 6 h (until" in ran.err
    hold(desk, volume_id)
    ran = desk.run("release", "--all", "--json")
    assert [each["volume_id"] for each in ran.document["holds"]] == [volume_id]
    assert ran.document["released"][0]["hold"]["reason"] == "INC-42"


def test_a_volume_that_others_changed_is_in_our_care_again(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    desk.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    desk.run("watch", "--act", "--once")
    lab.fleet.modify(volume_id, volume_type="gp2")
    lab.clock.advance(3600)
    assert "changed by others" in desk.run("watch", "--act", "--once").err
    lab.clock.advance(60)
    assert asked(lab) == 1

    ran = desk.run("release", volume_id)

    assert ran.code == 0
    assert ran.out.startswith(f"{volume_id}: in our care again; somebody else had changed it, seen")
    assert desk.kinds(volume_id)[-1] == "released"
    assert "released by anna (user/moto): in our care again" in desk.run("history", volume_id).out
    assert desk.run("watch", "--act", "--once").code == 0
    assert asked(lab) == 2


def test_a_volume_that_stays_is_looked_at_right_after_its_release(desk, lab):
    """Else it would be half a day until the watchdog looks whether it still is what it was."""
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--yes")
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    lab.fleet.modify(volume_id, iops=4000, volume_type="gp3")
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    with desk.open_ledger() as ledger:
        contested = ledger.states()[volume_id]
    assert contested.next_look_at_s > lab.clock.now_s() + 3600

    desk.run("release", volume_id)

    with desk.open_ledger() as ledger:
        released = ledger.states()[volume_id]
    assert (released.flip, released.contested_at_s) == (contested.flip, None)
    assert released.next_look_at_s <= lab.clock.now_s()


def test_a_release_that_another_process_outran_is_done_on_top_of_it(desk, lab, monkeypatch):
    volume_id = add_calm(lab)
    desk.run("watch", "--once")
    contested = VolumeState(volume_id=volume_id, revision=1, contested_at_s=100)
    real_commit = SqliteLedger.commit

    def commit(self, changes, *, channels):
        monkeypatch.setattr(SqliteLedger, "commit", real_commit)
        theirs = Change(volume_id=volume_id, expected_revision=1, state=replace(contested, revision=2))
        assert real_commit(self, [theirs], channels=channels)
        return real_commit(self, changes, channels=channels)

    with desk.open_ledger() as ledger:
        ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=contested)], channels=[])
    monkeypatch.setattr(SqliteLedger, "commit", commit)

    assert "in our care again" in desk.run("release", volume_id).out

    with desk.open_ledger() as ledger:
        assert ledger.states()[volume_id].contested_at_s is None
