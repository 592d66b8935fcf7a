"""burstctl watch --act: what it modifies, what it tells of it, and who else may be at work."""

import json
from dataclasses import replace
from datetime import timedelta

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

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.ledger import Change

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
        " at most 50 at once for $1,000.00 a month more (us-east-1 list prices)"
    ) in ran.err
    assert "1 critical; 1 flipped" in ran.err
    assert f"flipped: {volume_id} (ci-7): critical: at this pace it is dry within 15 min" in ran.err
    assert ran.out.splitlines()[0].split()[5:7] == ["(UTC)", "FLIP"]
    assert "flipped now" in ran.out


@pytest.mark.parametrize("is_tagged", [True, False], ids=["detached", "tag removed"])
def test_a_volume_that_changes_while_others_are_modified_is_left_alone(desk, lab, monkeypatch, is_tagged):
    monkeypatch.setattr("burstwatch.engine.flip_executor._FRESH_FOR_S", 0.0, raising=False)
    monkeypatch.setattr("burstwatch.engine.flip_executor.WORKERS", 1)
    volumes = {add_exhausted(lab, f"ci-{number}", tags=AUTO) for number in range(4)}
    modify = Ec2Modifier.modify

    def modify_while_people_act(modifier, volume_id, *given, **named):
        for other in volumes - {volume_id}:
            if is_tagged:
                lab.fleet.detach(other)
            else:
                lab.client("ec2").delete_tags(Resources=[other], Tags=[{"Key": key} for key in AUTO])
        monkeypatch.setattr(Ec2Modifier, "modify", modify)
        return modify(modifier, volume_id, *given, **named)

    monkeypatch.setattr(Ec2Modifier, "modify", modify_while_people_act)
    desk.run("watch", "--act", "--once")
    assert asked(lab) == 1


def test_volumes_read_a_moment_ago_are_not_read_again_for_each_modification(desk, lab):
    for number in range(10):
        add_exhausted(lab, f"ci-{number}", tags=AUTO)
    before = lab.faults.calls().get("DescribeVolumes", 0)
    desk.run("watch", "--act", "--once")
    assert asked(lab) == 10
    assert lab.faults.calls()["DescribeVolumes"] - before <= 5


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
    desk.run("hold", "--all", "--for", "1d", "--reason", "INC-42", "--ledger", f"sqlite:{desk.ledger_path}")

    first = passes(desk, lab, 1)
    second = passes(desk, lab, 1)

    for ran in (first, second):
        assert ran.code == 4
        assert f"refused: {volume_id} (etcd-1): held: everything is on hold by" in ran.err
        assert "INC-42, until 2026-11-21T18:00:00Z" in ran.err
        assert "hold: everything is kept as it is for 24 h (until 18:00 Sat UTC), by" in ran.err
        assert "refused: held" in ran.out
        assert "how to go on: runbooks/FlipRefused.md#held" in ran.err
    assert "flip refused: etcd-1" in first.err
    assert "flip refused: etcd-1" not in second.err, "people hear of it once"
    assert passes(desk, lab, 1).code == 4
    assert asked(lab) == 0


def test_exit_zero_excuses_refusals_and_attention_but_no_failure(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    desk.run("hold", volume_id, "--for", "1d", "--reason", "x", "--ledger", f"sqlite:{desk.ledger_path}")
    assert desk.run("watch", "--act", "--once", "--exit-zero").code == 0
    desk.run("release", volume_id)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403))

    ran = desk.run("watch", "--act", "--once", "--exit-zero")

    assert ran.code == 1
    assert "1 failed" in ran.err


def test_a_failure_counts_more_than_a_refusal_and_that_more_than_attention(desk, lab):
    failing, held = add_exhausted(lab, "a", tags=AUTO), add_exhausted(lab, "b", tags=AUTO)
    add_warning(lab)
    desk.run("hold", held, "--for", "1d", "--reason", "x", "--ledger", f"sqlite:{desk.ledger_path}")
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


def test_an_original_in_the_ledger_that_costs_more_is_refused_and_reported_and_not_made(desk, lab):
    """Whoever can write one item of the ledger, and modify no volume, gets no io2 for $3,355 a month."""
    volume_id = add_critical(lab)
    desk.run("flip", volume_id, "--to", "gp3", "--for", "1h", "--yes")
    lab.fleet.set_load(volume_id, "idle")
    passes(desk, lab, 6)
    with desk.open_ledger() as ledger:
        state = ledger.states()[volume_id]
        forged = replace(state.flip, original=Configuration(volume_type=VolumeType.IO2, iops=30_000))
        after = replace(state, flip=forged, revision=state.revision + 1)
        change = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
        assert ledger.commit([change], channels=[])

    ran = passes(desk, lab, 12)

    assert modified(lab, volume_id) == ["gp3"]
    assert ran.code == 4
    assert "no_target: the ledger says that it was io2 with 30,000 IOPS, which costs $" in ran.err
    assert desk.kinds(volume_id).count("refused") == 1
    assert "FlipRefused" in desk.run("history", volume_id).out


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
    desk.run(
        "hold", held, "--for", "6h", "--reason", "restore test", "--ledger", f"sqlite:{desk.ledger_path}"
    )

    ran = desk.run("assess")

    rows = {line.split()[1]: line for line in ran.out.splitlines()}
    assert "-> io1, 3,750 IOPS" in rows[flipped]
    assert " held " in rows[held]
    assert f"hold: {held} is kept as it is for 6 h (until 00:00 Sat UTC), by" in ran.err
    volumes = {each["volume_id"]: each for each in desk.run("assess", "--json").document["volumes"]}
    assert volumes[flipped]["flip"]["target"]["volume_type"] == "io1"


def test_the_pause_after_a_failure_is_not_told_as_a_refusal(desk, lab):
    """The alert of the failure says when it is tried again: nobody needs a second one about that."""
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403))
    first = desk.run("watch", "--act", "--once")
    lab.clock.advance(20)

    second = desk.run("watch", "--act", "--once")

    assert "tries again in 1 min (18:01 UTC), if that is still wanted and no guard" in " ".join(
        first.err.split()
    )
    assert f"refused: {volume_id} (etcd-1): cooldown: the last attempt failed" in second.err
    assert "flip refused" not in second.err
    assert "refused" not in desk.kinds(volume_id)


def test_what_others_made_of_it_is_brought_back_once_it_is_released(desk, lab):
    """io1 for $260 more a month stays in the books though somebody else made it io2."""
    volume_id = add_exhausted(lab, tags=AUTO | {"burstwatch:target": "io1"})
    desk.run("watch", "--act", "--once")
    lab.fleet.set_load(volume_id, "idle")
    lab.clock.advance(3600)
    desk.run("watch", "--act", "--once")
    lab.fleet.modify(volume_id, volume_type="io2", iops=5000)
    lab.clock.advance(3600)

    told = " ".join(desk.run("watch", "--act", "--once").err.split())
    assert "changed by others: etcd-1 was made io2 with 5,000 IOPS" in told
    assert "Then it brings it back to gp2 when its load is calm." in told
    assert "LeftOnTarget" not in told

    reminded = " ".join(passes(desk, lab, 1, every_s=86_400).err.split())
    # io2: 100 x 0.125 + 5,000 x 0.065 = 337.50, 327.50 more than gp2; / 730 x 24 = 10.77
    assert "left on target: etcd-1 is still io2 after" in reminded
    assert "$10.77 a day more" in reminded
    assert "It was gp2 before it became io2 with 5,000 IOPS." in reminded
    assert modified(lab, volume_id) == ["io1", "io2"]

    assert desk.run("release", volume_id).code == 0
    passes(desk, lab, 1, every_s=60)
    assert modified(lab, volume_id) == ["io1", "io2", "gp2"]


def test_what_others_made_of_it_goes_back_by_hand_as_well(desk, lab):
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--to", "io1", "--yes")
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    lab.fleet.modify(volume_id, volume_type="io2", iops=5000)
    lab.clock.advance(3600)
    desk.run("watch", "--once")

    assert desk.run("flip-back", volume_id, "--yes").code == 0
    assert modified(lab, volume_id) == ["io1", "io2", "gp2"]


@pytest.mark.parametrize("tags", [AUTO, AUTO | {"burstwatch:target": "io1"}])
def test_a_return_that_cannot_be_made_is_told_daily(desk, lab, tags):
    """CloudWatch says nothing of it for a day: it may be busy, and it costs money."""
    volume_id = add_exhausted(lab, tags=tags)
    (desk.directory / "policy.yaml").write_text("version: 1\nflip_back:\n  return: always\n")
    desk.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    desk.run("watch", "--act", "--once")
    lab.fleet.hide_metrics(volume_id, from_at=lab.clock.now(), to_at=lab.clock.now() + timedelta(days=9))

    early = passes(desk, lab, 2, every_s=43_200).err
    late = " ".join(passes(desk, lab, 1, every_s=3_600).err.split())
    assert "left on target" not in early
    assert "left on target: etcd-1 is still" in late
    assert "It should be back by now, but waits for calm: CloudWatch does not say what it serves." in late
    assert "left on target" not in passes(desk, lab, 1, every_s=3_600).err
    assert "left on target" in passes(desk, lab, 1, every_s=86_400).err


def test_with_all_flips_stopped_a_volume_left_on_its_target_says_that_this_is_why(desk, lab):
    add_exhausted(lab, tags=AUTO | {"burstwatch:target": "io1"})
    desk.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    said = " ".join(desk.run("watch", "--act", "--once").err.split())

    assert "left on target: etcd-1 is still io1" in said
    assert "The policy's mode.highest is propose, which stops every automatic modification." in said


def on_io1(desk, lab, *options):
    """Flipped by hand for an hour, calm, and there; it is 19:00."""
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--to", "io1", "--for", "1h", "--yes", *options)
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    return volume_id


def test_with_all_flips_stopped_what_a_person_sent_out_for_a_time_is_left_as_well(desk, lab):
    volume_id = on_io1(desk, lab)
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    first = " ".join(passes(desk, lab, 1).err.split())
    soon = passes(desk, lab, 12).err
    a_day_later = passes(desk, lab, 1, every_s=86_400).err

    assert "left on target: calm is still io1" in first
    assert "The policy's mode.highest is propose, which stops every automatic modification." in first
    assert f"burstctl flip-back {volume_id}" in first
    assert ("left on target" in soon, "left on target" in a_day_later) == (False, True)
    assert modified(lab, volume_id) == ["io1"]
    assert desk.run("flip-back", volume_id, "--yes").code == 0
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_a_volume_that_is_ignored_since_its_flip_is_left_and_says_that_this_is_why(desk, lab):
    volume_id = on_io1(desk, lab)
    lab.fleet.set_tags(volume_id, {"burstwatch:ignore": "true"})

    said = " ".join(passes(desk, lab, 1).err.split())
    passes(desk, lab, 6)

    assert "It is tagged burstwatch:ignore: the watchdog brings it back only without that tag." in said
    assert modified(lab, volume_id) == ["io1"]
    lab.fleet.set_tags(volume_id, {"burstwatch:ignore": None})
    passes(desk, lab, 2)
    assert modified(lab, volume_id) == ["io1", "gp2"]


@pytest.mark.parametrize("everything", [False, True])
def test_a_return_on_hold_for_a_day_names_the_hold_and_what_lifts_it(desk, lab, everything):
    volume_id = on_io1(desk, lab)
    what = "--all" if everything else volume_id
    assert (
        desk.run(
            "hold", what, "--for", "3d", "--reason", "restore test", "--ledger", f"sqlite:{desk.ledger_path}"
        ).code
        == 0
    )

    said = " ".join(passes(desk, lab, 2, every_s=45_000).err.split())

    assert "left on target: calm is still io1" in said
    assert "It should be back by now, but it is on hold by" in said
    assert "until 2026-11-23T19:00:00Z" in said
    assert f"burstctl release {what}" in said
    assert desk.run("release", what).code == 0
    passes(desk, lab, 2)
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_the_pauses_grow_where_aws_goes_on_to_throttle(desk, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", code="RequestLimitExceeded", status=503))
    pauses_s = []
    for _ in range(6):
        desk.run("watch", "--act", "--once")
        with desk.open_ledger() as ledger:
            pauses_s.append(ledger.states()[volume_id].retry_at_s - lab.clock.now_s())
        lab.clock.advance(pauses_s[-1])
    assert pauses_s == [60, 60, 60, 480, 960, 1920]
    assert asked(lab) == 6


def test_the_fleet_is_assessed_with_what_was_flipped_away_from_it(desk, lab):
    """On gp3 it is none of the gp2 volumes that are listed."""
    flipped, calm = add_critical(lab), add_calm(lab)
    add_calm(lab, "was never gp2", volume_type="gp3")
    desk.run("flip", flipped, "--for", "6h", "--yes")
    lab.clock.advance(3600)
    desk.run("watch", "--once")
    before = desk.ledger_path.read_bytes()

    ran = desk.run("assess", "--json")

    assert {volume["volume_id"] for volume in ran.document["volumes"]} == {flipped, calm}
    told = {volume["volume_id"]: volume["flip"] for volume in ran.document["volumes"]}
    assert told[flipped]["phase"] == "on_target"
    assert desk.ledger_path.read_bytes() == before


def test_a_flipped_volume_that_was_deleted_is_not_assessed(desk, lab):
    flipped = add_critical(lab)
    desk.run("flip", flipped, "--yes")
    lab.fleet.remove(flipped)

    ran = desk.run("assess", "--json")

    assert (ran.code, ran.document["volumes"]) == (0, [])
