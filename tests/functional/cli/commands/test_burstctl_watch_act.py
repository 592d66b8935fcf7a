"""burstctl watch --act: what it modifies, what it reports, and who else may be at work."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.ledger import Change
from support.cli.cli_session import (
    INSTANCE,
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_instance,
    add_warning,
    count_modify_calls,
    modification_targets,
)

AUTO = {"burstwatch:mode": "auto"}


def run_passes(cli, lab, count, *, every_s=300):
    """This many passes of a watchdog that may act; the result of the last one."""
    for _ in range(count):
        lab.clock.advance(every_s)
        result = cli.run("watch", "--act", "--passes", "1")
    return result


def test_an_opted_in_volume_is_flipped_and_reported_and_needs_no_attention(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)

    result = cli.run("watch", "--act", "--once")

    assert result.code == 0
    assert modification_targets(lab, volume_id) == ["gp3"]
    assert (
        "acts: flips volumes tagged burstwatch:mode=auto and brings them back,"
        " at most 50 at once for $1,000.00 a month more (us-east-1 list prices)"
    ) in result.err
    assert "1 critical; 1 flipped" in result.err
    assert f"flipped: {volume_id} (ci-7): critical: at this pace it is empty within 15 min" in result.err
    assert result.out.splitlines()[0].split()[5:7] == ["UTC", "FLIP"]
    assert "flipped now" in result.out


@pytest.mark.parametrize("is_tagged", [True, False], ids=["detached", "tag removed"])
def test_a_volume_that_changes_while_others_are_modified_is_left_alone(cli, lab, monkeypatch, is_tagged):
    monkeypatch.setattr("burstwatch.engine.fresh_context._MAX_AGE_S", 0.0)
    monkeypatch.setattr("burstwatch.engine.flip_executor.WORKERS", 1)
    volumes = {add_exhausted(lab, f"ci-{number}", tags=AUTO) for number in range(4)}
    modify = Ec2Modifier.modify

    def modify_while_people_act(modifier, volume_id, *args, **kwargs):
        for other in volumes - {volume_id}:
            if is_tagged:
                lab.fleet.detach(other)
            else:
                lab.client("ec2").delete_tags(Resources=[other], Tags=[{"Key": key} for key in AUTO])
        monkeypatch.setattr(Ec2Modifier, "modify", modify)
        return modify(modifier, volume_id, *args, **kwargs)

    monkeypatch.setattr(Ec2Modifier, "modify", modify_while_people_act)
    cli.run("watch", "--act", "--once")
    assert count_modify_calls(lab) == 1


def test_volumes_read_a_moment_ago_are_not_read_again_for_each_modification(cli, lab):
    for number in range(10):
        add_exhausted(lab, f"ci-{number}", tags=AUTO)
    before = lab.faults.call_counts().get("DescribeVolumes", 0)
    cli.run("watch", "--act", "--once")
    assert count_modify_calls(lab) == 10
    assert lab.faults.call_counts()["DescribeVolumes"] - before <= 5


def test_without_act_it_reports_that_it_modifies_nothing(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)

    result = cli.run("watch", "--once")

    assert result.code == 3
    assert "modifies nothing: it decides and alerts; --act lets it flip" in result.err.splitlines()
    assert f"would flip with --act: {volume_id} (ci-7): critical: at this pace" in result.err
    assert count_modify_calls(lab) == 0


def test_without_act_a_guard_that_would_refuse_is_reported(cli, lab):
    """The volume bursts on t3.medium, which has no credits left and serves what it sustains."""
    add_lab_instance(lab, INSTANCE, "t3.medium")
    volume_id = add_critical(lab, tags=AUTO, instance_id=INSTANCE)
    lab.fleet.set_instance_balance(INSTANCE, io_pct=0.0)
    lab.clock.advance(600)
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {instance: {watch: true}}\n")

    result = cli.run("watch", "--once")

    refused = f"would be refused with --act: {volume_id} (ci-7): instance_is_bottleneck: instance {INSTANCE}"
    assert refused in result.err
    assert "would flip with --act" not in result.err
    assert result.code == 3


def test_without_act_a_hold_that_would_refuse_is_reported(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    cli.run("hold", volume_id, "--for", "6h", "--reason", "freeze", "--ledger", f"sqlite:{cli.ledger_path}")
    result = cli.run("watch", "--once")
    document = cli.run("watch", "--once", "--json").document
    assert f"would be refused with --act: {volume_id} (ci-7): held: it is on hold" in result.err
    assert "would flip with --act" not in result.err
    [volume] = document["volumes"]
    assert (volume["outcome"]["action"], volume["outcome"]["refusal"]) == ("proposed", "held")


def test_a_volume_not_opted_in_is_left_to_people(cli, lab):
    add_critical(lab)

    result = cli.run("watch", "--act", "--once")

    assert result.code == 3
    assert count_modify_calls(lab) == 0
    assert "FLIP" not in result.out


def test_a_policy_that_stops_all_flips_is_reported(cli, lab):
    add_critical(lab, tags=AUTO)
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    result = cli.run("watch", "--act", "--once")

    assert "acts, but the policy's mode.highest is propose: only manual flips are returned" in result.err
    assert count_modify_calls(lab) == 0


def test_a_flip_in_progress_is_reported_and_marked_in_every_pass(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    run_passes(cli, lab, 1)

    result = run_passes(cli, lab, 1, every_s=60)

    assert result.code == 3, "it is still critical, and was flipped in an earlier run"
    assert f"in flight: {volume_id} (ci-7): being modified to gp3 with 3,750 IOPS and 128 MiB/s" in result.err
    assert "-> gp3, 3,750 IOPS" in result.out


def test_a_refusal_names_its_guard_its_reason_and_its_end_in_every_pass(cli, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    cli.run("hold", "--all", "--for", "1d", "--reason", "INC-42", "--ledger", f"sqlite:{cli.ledger_path}")

    first = run_passes(cli, lab, 1)
    second = run_passes(cli, lab, 1)

    for item in (first, second):
        assert item.code == 4
        assert f"refused: {volume_id} (etcd-1): held: everything is on hold by" in item.err
        assert "INC-42, until 2026-11-21T18:00:00Z" in item.err
        assert "hold: all changes are on hold for 24 h (until 18:00 Sat UTC), by" in item.err
        assert "refused: held" in item.out
        assert "how to go on: burstctl runbook FlipRefused" in item.err
    assert ": etcd-1 was not flipped to " in first.err
    assert ": etcd-1 was not flipped to " not in second.err, "people hear of it once"
    assert run_passes(cli, lab, 1).code == 4
    assert count_modify_calls(lab) == 0


def test_exit_zero_excuses_refusals_and_attention_but_no_failure(cli, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    cli.run("hold", volume_id, "--for", "1d", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")
    assert cli.run("watch", "--act", "--once", "--exit-zero").code == 0
    cli.run("release", volume_id)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403))

    result = cli.run("watch", "--act", "--once", "--exit-zero")

    assert result.code == 1
    assert "1 failed" in result.err


def test_a_failure_counts_more_than_a_refusal_and_that_more_than_attention(cli, lab):
    failing, held = add_exhausted(lab, "a", tags=AUTO), add_exhausted(lab, "b", tags=AUTO)
    add_warning(lab)
    cli.run("hold", held, "--for", "1d", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")
    assert cli.run("watch", "--act", "--once").code == 4
    assert modification_targets(lab, failing) == ["gp3"]
    lab.faults.add(Fault(action="DescribeVolumesModifications", code="InternalError", status=500))
    assert cli.run("watch", "--act", "--once").code == 1


def test_a_volume_flipped_by_hand_for_a_time_is_flipped_back_when_calm(cli, lab):
    volume_id = add_critical(lab)
    assert cli.run("flip", volume_id, "--to", "io1", "--for", "2h", "--yes").code == 0
    lab.fleet.set_load(volume_id, "idle")

    run_passes(cli, lab, 23)
    assert modification_targets(lab, volume_id) == ["io1"], "1 h 55 min are not two hours"
    result = run_passes(cli, lab, 1)

    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert f"flipped back: {volume_id} (ci-7): calm for 30 min" in result.err
    run_passes(cli, lab, 12)
    assert cli.entry_kinds(volume_id)[-1] == "restored"


def test_an_original_in_the_ledger_that_costs_more_is_refused_and_reported_and_not_made(cli, lab):
    """A user who can write one item of the ledger, and modify no volume, gets no io2 for $3,355 a month."""
    volume_id = add_critical(lab)
    cli.run("flip", volume_id, "--to", "gp3", "--for", "1h", "--yes")
    lab.fleet.set_load(volume_id, "idle")
    run_passes(cli, lab, 6)
    with cli.open_ledger() as ledger:
        state = ledger.states()[volume_id]
        forged = replace(state.flip, original=Configuration(volume_type=VolumeType.IO2, iops=30_000))
        after = replace(state, flip=forged, revision=state.revision + 1)
        change = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
        assert ledger.commit([change], channels=[])

    result = run_passes(cli, lab, 12)

    assert modification_targets(lab, volume_id) == ["gp3"]
    assert result.code == 4
    assert "no_target: the ledger says that it was io2 with 30,000 IOPS, which costs $" in result.err
    assert cli.entry_kinds(volume_id).count("refused") == 1
    assert "FlipRefused" in cli.run("history", volume_id).out


def test_a_watchdog_that_may_not_act_brings_nothing_back(cli, lab):
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--for", "1h", "--yes")
    lab.clock.advance(3 * 3600)

    result = cli.run("watch", "--once", "--json")

    assert modification_targets(lab, volume_id) == ["gp3"]
    (volume,) = result.document["volumes"]
    assert volume["flip"]["phase"] == "on_target"


def test_each_pass_is_a_line_of_json_with_what_was_done(cli, lab):
    add_critical(lab, tags=AUTO)

    result = cli.run("watch", "--act", "--passes", "1", "--json")

    report = json.loads(result.out)
    assert report["totals"] | {"flipped": 1, "refused": 0, "failed": 0} == report["totals"]
    assert report["volumes"][0]["outcome"]["action"] == "flipped"
    assert report["api_calls"]["ec2:ModifyVolume"] == 1


def test_an_operator_and_a_watchdog_at_once_make_one_modification(cli, lab):
    volume_id = add_critical(lab, tags=AUTO)
    cli.run("watch", "--once")
    lab.faults.set_latency(150, "ModifyVolume")

    with (
        cli.start_subprocess("watch", "--act", "--once") as watchdog,
        cli.start_subprocess("flip", volume_id, "--to", "io2", "--yes") as operator,
    ):
        text = "".join("".join(process.communicate(timeout=60)) for process in (watchdog, operator))

    assert "Traceback" not in text
    assert operator.returncode in (0, 4)
    assert watchdog.returncode in (0, 3)
    assert count_modify_calls(lab) == 1
    assert cli.entry_kinds(volume_id) == ["intent", "accepted"]


def test_two_watchdogs_that_may_act_share_a_ledger_and_flip_once(cli, lab):
    volume_ids = [add_exhausted(lab, f"db-{number}", tags=AUTO) for number in range(5)]
    with (
        cli.start_subprocess("watch", "--act", "--once") as item,
        cli.start_subprocess("watch", "--act", "--once") as other,
    ):
        text = "".join("".join(process.communicate(timeout=60)) for process in (item, other))

    assert "Traceback" not in text
    assert [modification_targets(lab, volume_id) for volume_id in volume_ids] == [["gp3"]] * 5
    assert count_modify_calls(lab) == 5


def test_assess_shows_the_state_of_flips_and_holds(cli, lab):
    flipped, held = add_critical(lab), add_warning(lab)
    cli.run("flip", flipped, "--to", "io1", "--yes")
    cli.run("hold", held, "--for", "6h", "--reason", "restore test", "--ledger", f"sqlite:{cli.ledger_path}")

    result = cli.run("assess")

    rows = {line.split()[1]: line for line in result.out.splitlines()}
    assert "-> io1, 3,750 IOPS" in rows[flipped]
    assert " held " in rows[held]
    assert f"hold: {held} is on hold for 6 h (until 00:00 Sat UTC), by" in result.err
    volumes = {volume["volume_id"]: volume for volume in cli.run("assess", "--json").document["volumes"]}
    assert volumes[flipped]["flip"]["target"]["volume_type"] == "io1"


def test_the_pause_after_a_failure_is_not_reported_as_a_refusal(cli, lab):
    """The alert of the failure says when it is tried again: no one needs a second one about that."""
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403))
    first = cli.run("watch", "--act", "--once")
    lab.clock.advance(20)

    second = cli.run("watch", "--act", "--once")

    assert "tries again in 1 min (18:01 UTC), if that is still needed and no guard" in " ".join(
        first.err.split()
    )
    assert f"refused: {volume_id} (etcd-1): cooldown: the last attempt failed" in second.err
    assert "flip refused" not in second.err
    assert "refused" not in cli.entry_kinds(volume_id)


def test_an_externally_changed_volume_is_flipped_back_once_released(cli, lab):
    """io1 for $260 more a month stays reserved though somebody else made it io2."""
    volume_id = add_exhausted(lab, tags=AUTO | {"burstwatch:target": "io1"})
    cli.run("watch", "--act", "--once")
    lab.fleet.set_load(volume_id, "idle")
    lab.clock.advance(3600)
    cli.run("watch", "--act", "--once")
    lab.fleet.modify(volume_id, volume_type="io2", iops=5000)
    lab.clock.advance(3600)

    reported = " ".join(cli.run("watch", "--act", "--once").err.split())
    assert "WARNING: etcd-1 was made io2 with 5,000 IOPS" in reported
    assert "Then the watchdog flips it back to gp2 when its load is calm." in reported
    assert "LeftOnTarget" not in reported

    reminded = " ".join(run_passes(cli, lab, 1, every_s=86_400).err.split())
    # io2: 100 x 0.125 + 5,000 x 0.065 = 337.50, 327.50 more than gp2; / 730 x 24 = 10.77
    assert "WARNING: etcd-1 is still io2 after" in reminded
    assert "$10.77 a day more" in reminded
    assert "It was gp2 before it was changed to io2 with 5,000 IOPS." in reminded
    assert modification_targets(lab, volume_id) == ["io1", "io2"]

    assert cli.run("release", volume_id).code == 0
    run_passes(cli, lab, 1, every_s=60)
    assert modification_targets(lab, volume_id) == ["io1", "io2", "gp2"]


def test_an_externally_changed_volume_can_be_flipped_back_by_hand(cli, lab):
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--to", "io1", "--yes")
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    lab.fleet.modify(volume_id, volume_type="io2", iops=5000)
    lab.clock.advance(3600)
    cli.run("watch", "--once")

    assert cli.run("flip-back", volume_id, "--yes").code == 0
    assert modification_targets(lab, volume_id) == ["io1", "io2", "gp2"]


@pytest.mark.parametrize("tags", [AUTO, AUTO | {"burstwatch:target": "io1"}])
def test_a_return_that_cannot_be_made_is_reported_daily(cli, lab, tags):
    """CloudWatch says nothing of it for a day: it may be busy, and it costs money."""
    volume_id = add_exhausted(lab, tags=tags)
    (cli.directory / "policy.yaml").write_text("version: 1\nflip_back:\n  return: always\n")
    cli.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    cli.run("watch", "--act", "--once")
    lab.fleet.hide_metrics(volume_id, from_at=lab.clock.now(), to_at=lab.clock.now() + timedelta(days=9))

    early = run_passes(cli, lab, 2, every_s=43_200).err
    late = " ".join(run_passes(cli, lab, 1, every_s=3_600).err.split())
    assert "burstctl runbook LeftOnTarget" not in early
    assert "WARNING: etcd-1 is still" in late
    assert "It should have returned by now, but waits for calm: CloudWatch does not show its load." in late
    assert "burstctl runbook LeftOnTarget" not in run_passes(cli, lab, 1, every_s=3_600).err
    assert "burstctl runbook LeftOnTarget" in run_passes(cli, lab, 1, every_s=86_400).err


def test_a_volume_left_on_its_target_names_the_stop_of_all_flips_as_the_reason(cli, lab):
    add_exhausted(lab, tags=AUTO | {"burstwatch:target": "io1"})
    cli.run("watch", "--act", "--once")
    lab.clock.advance(3600)
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    text = " ".join(cli.run("watch", "--act", "--once").err.split())

    assert "WARNING: etcd-1 is still io1" in text
    assert "The policy's mode.highest is propose, which stops every automatic modification." in text


def flip_to_io1(cli, lab, *options):
    """Flipped by hand for an hour, calm, and there; it is 19:00."""
    volume_id = add_calm(lab)
    cli.run("flip", volume_id, "--to", "io1", "--for", "1h", "--yes", *options)
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    return volume_id


def test_with_all_flips_stopped_a_timed_manual_flip_is_left_as_well(cli, lab):
    volume_id = flip_to_io1(cli, lab)
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    first = " ".join(run_passes(cli, lab, 1).err.split())
    soon = run_passes(cli, lab, 12).err
    a_day_later = run_passes(cli, lab, 1, every_s=86_400).err

    assert "WARNING: calm is still io1" in first
    assert "The policy's mode.highest is propose, which stops every automatic modification." in first
    assert f"burstctl flip-back {volume_id}" in first
    assert ("burstctl runbook LeftOnTarget" in soon, "burstctl runbook LeftOnTarget" in a_day_later) == (
        False,
        True,
    )
    assert modification_targets(lab, volume_id) == ["io1"]
    assert cli.run("flip-back", volume_id, "--yes").code == 0
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_a_volume_ignored_since_its_flip_is_left_and_names_that_as_the_reason(cli, lab):
    volume_id = flip_to_io1(cli, lab)
    lab.fleet.set_tags(volume_id, {"burstwatch:ignore": "true"})

    text = " ".join(run_passes(cli, lab, 1).err.split())
    run_passes(cli, lab, 6)

    assert "It is tagged burstwatch:ignore: the watchdog flips it back only without that tag." in text
    assert modification_targets(lab, volume_id) == ["io1"]
    lab.fleet.set_tags(volume_id, {"burstwatch:ignore": None})
    run_passes(cli, lab, 2)
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


@pytest.mark.parametrize("everything", [False, True])
def test_a_return_on_hold_for_a_day_names_the_hold_and_what_lifts_it(cli, lab, everything):
    volume_id = flip_to_io1(cli, lab)
    target = "--all" if everything else volume_id
    assert (
        cli.run(
            "hold", target, "--for", "3d", "--reason", "restore test", "--ledger", f"sqlite:{cli.ledger_path}"
        ).code
        == 0
    )

    text = " ".join(run_passes(cli, lab, 2, every_s=45_000).err.split())

    assert "WARNING: calm is still io1" in text
    assert "It should have returned by now, but it is on hold by" in text
    assert "until 2026-11-23T19:00:00Z" in text
    assert f"burstctl release {target}" in text
    assert cli.run("release", target).code == 0
    run_passes(cli, lab, 2)
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_the_pauses_grow_where_aws_goes_on_to_throttle(cli, lab):
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", code="RequestLimitExceeded", status=503))
    pauses_s = []
    for _ in range(6):
        cli.run("watch", "--act", "--once")
        with cli.open_ledger() as ledger:
            pauses_s.append(ledger.states()[volume_id].modifications.retry_at_s - lab.clock.now_s())
        lab.clock.advance(pauses_s[-1])
    assert pauses_s == [60, 60, 60, 480, 960, 1920]
    assert count_modify_calls(lab) == 6


def test_the_fleet_is_assessed_including_flipped_volumes(cli, lab):
    """On gp3 it is none of the gp2 volumes that are listed."""
    flipped, calm = add_critical(lab), add_calm(lab)
    add_calm(lab, "was never gp2", volume_type="gp3")
    cli.run("flip", flipped, "--for", "6h", "--yes")
    lab.clock.advance(3600)
    cli.run("watch", "--once")
    before = cli.ledger_path.read_bytes()

    result = cli.run("assess", "--json")

    assert {volume["volume_id"] for volume in result.document["volumes"]} == {flipped, calm}
    reported = {volume["volume_id"]: volume["flip"] for volume in result.document["volumes"]}
    assert reported[flipped]["phase"] == "on_target"
    assert cli.ledger_path.read_bytes() == before


def test_a_flipped_volume_that_was_deleted_is_not_assessed(cli, lab):
    flipped = add_critical(lab)
    cli.run("flip", flipped, "--yes")
    lab.fleet.remove(flipped)

    result = cli.run("assess", "--json")

    assert (result.code, result.document["volumes"]) == (0, [])
