"""burstctl watch --act: what it modifies, what it tells of it, and who else may be at work."""

import json

import pytest
from operators_desk import (
    OperatorsDesk,
    a_lab,
    add_calm,
    add_critical,
    add_exhausted,
    add_warning,
    asked,
    modified,
)

from burstlab.faults import Fault

AUTO = {"burstwatch:mode": "auto"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def passes(desk, lab, count, *, every_s=300):
    """So many passes of a watchdog that may act; what the last one came to."""
    for _ in range(count):
        lab.clock.advance(every_s)
        ran = desk.run("watch", "--act", "--passes", "1")
    return ran


def test_an_opted_in_volume_is_flipped_told_and_no_cause_for_attention(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)

    ran = desk.run("watch", "--act", "--once")

    assert ran.code == 0
    assert modified(lab, volume_id) == ["gp3"]
    assert (
        "acts: flips volumes tagged burstwatch:mode=auto and brings them back,"
        " at most 50 at once for $1,000.00 a month more"
    ) in ran.err
    assert "1 critical; 1 flipped" in ran.err
    assert f"flipped: {volume_id} (ci-7): critical: at this pace it is dry within 15 min" in ran.err
    assert ran.out.splitlines()[0].split()[5:7] == ["(UTC)", "FLIP"]
    assert "flipped now" in ran.out


def test_without_act_it_says_so_and_modifies_nothing(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)

    ran = desk.run("watch", "--once")

    assert ran.code == 3
    assert "modifies nothing: it decides and tells; --act lets it flip" in ran.err.splitlines()
    assert f"left undone without --act: {volume_id} (ci-7): critical: at this pace" in ran.err
    assert asked(lab) == 0


def test_who_did_not_opt_in_is_left_to_people(desk, lab):
    add_critical(lab)

    ran = desk.run("watch", "--act", "--once")

    assert ran.code == 3
    assert asked(lab) == 0
    assert "FLIP" not in ran.out


def test_a_policy_that_stops_all_flips_is_told(desk, lab):
    add_critical(lab, tags=AUTO)
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    ran = desk.run("watch", "--act", "--once")

    assert "acts, but the policy's mode.highest is propose: only what people flipped returns" in ran.err
    assert asked(lab) == 0


def test_what_is_on_its_way_is_told_in_every_pass_and_marked(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)
    passes(desk, lab, 1)

    ran = passes(desk, lab, 1, every_s=60)

    assert ran.code == 3, "it is still critical, and was flipped in an earlier run"
    assert f"in flight: {volume_id} (ci-7): on its way to gp3 with 3,750 IOPS and 128 MiB/s" in ran.err
    assert "-> gp3, 3,750 IOPS" in ran.out


def test_a_refusal_names_its_guard_its_reason_and_its_end_in_every_pass(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    desk.run("hold", "--all", "--for", "1d", "--reason", "INC-42")

    first = passes(desk, lab, 1)
    second = passes(desk, lab, 1)

    for ran in (first, second):
        assert ran.code == 4
        assert f"refused: {volume_id} (etcd-1): held: everything is on hold by" in ran.err
        assert "INC-42, until 2026-11-21T18:00:00Z" in ran.err
        assert "hold: everything is kept as it is until 2026-11-21T18:00:00Z, by" in ran.err
        assert "refused: held" in ran.out
    assert "flip refused: etcd-1" in first.err
    assert "flip refused: etcd-1" not in second.err, "people hear of it once"
    assert passes(desk, lab, 1).code == 4
    assert asked(lab) == 0


def test_exit_zero_excuses_refusals_and_attention_but_no_failure(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    desk.run("hold", volume_id, "--for", "1d", "--reason", "x")
    assert desk.run("watch", "--act", "--once", "--exit-zero").code == 0
    desk.run("release", volume_id)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403))

    ran = desk.run("watch", "--act", "--once", "--exit-zero")

    assert ran.code == 1
    assert "1 failed" in ran.err


def test_a_failure_counts_more_than_a_refusal_and_that_more_than_attention(desk, lab):
    failing, held = add_exhausted(lab, "a", tags=AUTO), add_exhausted(lab, "b", tags=AUTO)
    add_warning(lab)
    desk.run("hold", held, "--for", "1d", "--reason", "x")
    assert desk.run("watch", "--act", "--once").code == 4
    assert modified(lab, failing) == ["gp3"]
    lab.faults.add(Fault(action="DescribeVolumesModifications", code="InternalError", status=500))
    assert desk.run("watch", "--act", "--once").code == 1


def test_a_volume_flipped_by_hand_for_a_time_is_brought_back_when_calm(desk, lab):
    volume_id = add_critical(lab)
    assert desk.run("flip", volume_id, "--to", "io1", "--for", "2h", "--yes").code == 0
    lab.fleet.set_load(volume_id, "idle")

    passes(desk, lab, 23)
    assert modified(lab, volume_id) == ["io1"], "1 h 55 min are not two hours"
    ran = passes(desk, lab, 1)

    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert f"flipped back: {volume_id} (ci-7): calm for 30 min" in ran.err
    passes(desk, lab, 12)
    assert desk.kinds(volume_id)[-1] == "restored"


def test_a_watchdog_that_may_not_act_brings_nothing_back(desk, lab):
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--for", "1h", "--yes")
    lab.clock.advance(3 * 3600)

    ran = desk.run("watch", "--once", "--json")

    assert modified(lab, volume_id) == ["gp3"]
    (volume,) = ran.document["volumes"]
    assert volume["flip"]["phase"] == "on_target"


def test_each_pass_is_a_line_of_json_with_what_was_done(desk, lab):
    add_critical(lab, tags=AUTO)

    ran = desk.run("watch", "--act", "--passes", "1", "--json")

    report = json.loads(ran.out)
    assert report["totals"] | {"flipped": 1, "refused": 0, "failed": 0} == report["totals"]
    assert report["volumes"][0]["outcome"]["action"] == "flipped"
    assert report["api_calls"]["ec2:ModifyVolume"] == 1


def test_an_operator_and_a_watchdog_at_once_make_one_modification(desk, lab):
    volume_id = add_critical(lab, tags=AUTO)
    desk.run("watch", "--once")
    lab.faults.set_latency(150, "ModifyVolume")

    with (
        desk.start("watch", "--act", "--once") as watchdog,
        desk.start("flip", volume_id, "--to", "io2", "--yes") as operator,
    ):
        said = "".join("".join(process.communicate(timeout=30)) for process in (watchdog, operator))

    assert "Traceback" not in said
    assert operator.returncode in (0, 4)
    assert watchdog.returncode in (0, 3)
    assert asked(lab) == 1
    assert desk.kinds(volume_id) == ["intent", "accepted"]


def test_two_watchdogs_that_may_act_share_a_ledger_and_flip_once(desk, lab):
    volume_ids = [add_exhausted(lab, f"db-{number}", tags=AUTO) for number in range(5)]
    with desk.start("watch", "--act", "--once") as one, desk.start("watch", "--act", "--once") as other:
        said = "".join("".join(process.communicate(timeout=30)) for process in (one, other))

    assert "Traceback" not in said
    assert [modified(lab, volume_id) for volume_id in volume_ids] == [["gp3"]] * 5
    assert asked(lab) == 5


def test_assess_shows_where_flips_and_holds_stand(desk, lab):
    flipped, held = add_critical(lab), add_warning(lab)
    desk.run("flip", flipped, "--to", "io1", "--yes")
    desk.run("hold", held, "--for", "6h", "--reason", "restore test")

    ran = desk.run("assess")

    rows = {line.split()[1]: line for line in ran.out.splitlines()}
    assert "-> io1, 3,750 IOPS" in rows[flipped]
    assert " held " in rows[held]
    assert f"hold: {held} is kept as it is until 2026-11-21T00:00:00Z, by" in ran.err
    assert desk.run("assess", "--json").document["volumes"][0]["flip"]["target"]["volume_type"] == "io1"
