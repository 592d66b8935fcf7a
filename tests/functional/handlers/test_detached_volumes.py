"""Volumes that nothing uses for a while: a node drain, a scale-to-zero, a stopped instance.

AWS refuses to attach a volume that is being modified, and a modification cannot be cancelled. A volume that
the watchdog modifies while it is between two instances does not arrive.
"""

from datetime import timedelta

import pytest

from support.builders.functions import AUTO, OTHER_HOST, deploy_functions
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_lab_volume,
    modification_targets,
)

RETURNS = "version: 1\nflip_back:\n  dwell: 5m\n  calm_for: 30m\n"

pytestmark = [pytest.mark.policy_file(RETURNS), pytest.mark.lab_settings(modifying_s=300, modify_spread=0)]

IO1 = AUTO | {"burstwatch:target": "io1"}


def run_passes(cli, two_hosts, minutes, *, every_min=5):
    """A watchdog that may act, for this many minutes; the result of its last pass."""
    for _ in range(0, minutes, every_min):
        two_hosts.clock.advance(60 * every_min)
        result = cli.run("watch", "--act", "--passes", "1")
    return result


def flip_to_io1(cli, two_hosts) -> str:
    """Flipped because it drained, there since 18:10, and busy; it is 19:15."""
    volume_id = add_critical(two_hosts, tags=IO1)
    run_passes(cli, two_hosts, 5)
    two_hosts.fleet.end_modification(volume_id)
    run_passes(cli, two_hosts, 70, every_min=35)
    assert modification_targets(two_hosts, volume_id) == ["io1"]
    return volume_id


def move_volume(ec2, two_hosts, volume_id, *, after_s):
    """Attach a detached volume to another instance, as a CSI driver does."""
    two_hosts.clock.advance(after_s)
    ec2.attach_volume(VolumeId=volume_id, InstanceId=OTHER_HOST, Device="/dev/sdf")


def test_a_busy_volume_survives_a_node_drain(cli, two_hosts, ec2):
    """Detached for a minute and looked at in that minute, it arrives at the next node, as fast as before."""
    volume_id = flip_to_io1(cli, two_hosts)
    two_hosts.clock.advance(240)
    ec2.detach_volume(VolumeId=volume_id)

    result = run_passes(cli, two_hosts, 1, every_min=1)
    move_volume(ec2, two_hosts, volume_id, after_s=20)
    run_passes(cli, two_hosts, 60)

    assert modification_targets(two_hosts, volume_id) == ["io1"], (
        "nothing was modified, then or later: it is busy"
    )
    assert (result.code, volume_id in result.out) == (0, True), "it was looked at while it was detached"
    assert "FlipRefused" not in cli.entry_kinds(volume_id)
    assert two_hosts.fleet.find(volume_id).attachment.instance_id == OTHER_HOST


def test_a_detach_and_an_attach_between_two_evaluations_make_no_difference(cli, two_hosts, ec2):
    volume_id = flip_to_io1(cli, two_hosts)
    ec2.detach_volume(VolumeId=volume_id)
    move_volume(ec2, two_hosts, volume_id, after_s=60)
    run_passes(cli, two_hosts, 60)
    assert modification_targets(two_hosts, volume_id) == ["io1"]


def test_after_attaching_the_usual_calm_period_applies(cli, two_hosts, ec2):
    volume_id = flip_to_io1(cli, two_hosts)
    two_hosts.fleet.set_load(volume_id, "idle")
    ec2.detach_volume(VolumeId=volume_id)
    run_passes(cli, two_hosts, 40)
    move_volume(ec2, two_hosts, volume_id, after_s=0)

    run_passes(cli, two_hosts, 10)
    assert modification_targets(two_hosts, volume_id) == ["io1"], "ten minutes of thirty are known"
    run_passes(cli, two_hosts, 20)
    assert modification_targets(two_hosts, volume_id) == ["io1", "gp2"]


def test_the_return_of_a_volume_that_stays_detached_is_refused_once_and_then_reported_daily(
    cli, two_hosts, ec2
):
    volume_id = flip_to_io1(cli, two_hosts)
    ec2.detach_volume(VolumeId=volume_id)

    first = run_passes(cli, two_hosts, 30)
    assert first.code == 0
    assert "refused" not in cli.entry_kinds(volume_id)
    result = run_passes(cli, two_hosts, 5)
    assert result.code == 4
    assert f"refused: {volume_id} (ci-7): detached: it is detached, and AWS refuses to attach" in result.err
    second_result = run_passes(cli, two_hosts, 60)
    assert second_result.code == 4
    a_day_later = cli_a_day_later(cli, two_hosts)

    assert modification_targets(two_hosts, volume_id) == ["io1"]
    assert cli.entry_kinds(volume_id).count("refused") == 1
    assert "WARNING: ci-7 is still io1" in a_day_later
    assert "It should have returned by now, but it is detached" in a_day_later
    assert f"burstctl flip-back {volume_id}" in a_day_later


def cli_a_day_later(cli, two_hosts):
    return " ".join(run_passes(cli, two_hosts, 1440, every_min=1440).err.split())


def test_assess_explain_and_history_show_what_the_volume_waits_for(cli, two_hosts, ec2):
    volume_id = flip_to_io1(cli, two_hosts)
    ec2.detach_volume(VolumeId=volume_id)
    run_passes(cli, two_hosts, 5)
    waits = " ".join(cli.run("explain", volume_id).out.split())
    assert "waits for calm: it is detached, first seen 2026-11-20T19:20:00Z" in waits
    assert "that counts as calm after 30 min" in waits
    run_passes(cli, two_hosts, 35)

    [row] = [
        volume
        for volume in cli.run("assess", "--json").document["volumes"]
        if volume["volume_id"] == volume_id
    ]
    explained = " ".join(cli.run("explain", volume_id).out.split())
    history = cli.run("history", volume_id).out
    assert row["decision"]["action"] == "flip_back"
    assert row["decision"]["reason"] == "calm for 30 min; not while it is detached"
    assert "its return to gp2 by the watchdog is refused now: detached: it is detached" in explained
    assert "was not flipped to gp2: detached" in history


def test_a_person_may_still_bring_a_detached_volume_back(cli, two_hosts, ec2):
    volume_id = flip_to_io1(cli, two_hosts)
    ec2.detach_volume(VolumeId=volume_id)
    assert cli.run("flip-back", volume_id, "--yes").code == 0
    assert modification_targets(two_hosts, volume_id) == ["io1", "gp2"]


def test_a_timed_manual_flip_does_not_return_while_detached(cli, two_hosts, ec2):
    volume_id = add_calm(two_hosts)
    cli.run("flip", volume_id, "--to", "io1", "--for", "1h", "--yes")
    run_passes(cli, two_hosts, 30, every_min=15)
    ec2.detach_volume(VolumeId=volume_id)
    run_passes(cli, two_hosts, 120, every_min=15)
    assert modification_targets(two_hosts, volume_id) == ["io1"]


# out


def test_a_detached_critical_volume_is_flipped_when_it_is_attached_and_not_before(cli, two_hosts, ec2):
    volume_id = add_calm(two_hosts, "etcd-1", tags=AUTO | {"burstwatch:critical": "true"})
    ec2.detach_volume(VolumeId=volume_id)

    result = run_passes(cli, two_hosts, 20)
    assert modification_targets(two_hosts, volume_id) == []
    assert result.code == 4
    assert cli.entry_kinds(volume_id).count("refused") == 1
    move_volume(ec2, two_hosts, volume_id, after_s=0)
    run_passes(cli, two_hosts, 5)
    assert modification_targets(two_hosts, volume_id) == ["gp3"]


def test_a_detached_volume_of_a_window_is_flipped_when_it_is_attached_and_not_before(cli, two_hosts, ec2):
    volume_id = add_calm(two_hosts, "db-1", tags=AUTO | {"burstwatch:window": "release"})
    ec2.detach_volume(VolumeId=volume_id)
    cli.run("window", "start", "release", "--for", "4h", "--yes")
    run_passes(cli, two_hosts, 40)
    assert modification_targets(two_hosts, volume_id) == []
    assert cli.entry_kinds(volume_id).count("refused") == 1
    move_volume(ec2, two_hosts, volume_id, after_s=0)
    run_passes(cli, two_hosts, 5)
    assert modification_targets(two_hosts, volume_id) == ["gp3"]


# the queue


def test_the_flip_function_is_invoked_once_for_a_volume_that_stays_detached(monkeypatch):
    with deploy_functions(monkeypatch) as functions:
        volume_id = add_lab_volume(functions.lab, "etcd-1", tags=AUTO | {"burstwatch:critical": "true"})
        functions.lab.fleet.detach(volume_id)
        requested = 0
        for _ in range(15):
            functions.tick(1)
            if records := functions.requests():
                requested += len(records)
                functions.flip(records)
        assert (requested, modification_targets(functions.lab, volume_id)) == (1, [])
        assert functions.alert_kinds().count("FlipRefused") == 1


# stopped instances


def host_of(two_hosts, volume_id) -> str:
    return two_hosts.fleet.find(volume_id).attachment.instance_id


def test_a_volume_of_a_stopped_instance_returns_after_as_long_as_calm_takes(cli, two_hosts):
    volume_id = flip_to_io1(cli, two_hosts)
    two_hosts.fleet.stop_instance(host_of(two_hosts, volume_id))

    run_passes(cli, two_hosts, 40)
    assert modification_targets(two_hosts, volume_id) == ["io1"], (
        "seen to be stopped ten minutes after its last datapoint"
    )
    run_passes(cli, two_hosts, 10)
    assert modification_targets(two_hosts, volume_id) == ["io1", "gp2"]


def test_an_instance_restart_resets_the_calm_period(cli, two_hosts):
    volume_id = flip_to_io1(cli, two_hosts)
    host = host_of(two_hosts, volume_id)
    two_hosts.fleet.stop_instance(host)
    run_passes(cli, two_hosts, 30)
    two_hosts.fleet.start_instance(host)
    run_passes(cli, two_hosts, 10)
    two_hosts.fleet.stop_instance(host)
    run_passes(cli, two_hosts, 35)
    assert modification_targets(two_hosts, volume_id) == ["io1"]


def test_a_stop_during_a_telemetry_gap_is_not_calm_by_itself(cli, two_hosts):
    """No datapoint for an hour, then the instance stops: no one knows what the volume served until then."""
    volume_id = flip_to_io1(cli, two_hosts)
    now = two_hosts.clock.now()
    two_hosts.fleet.hide_metrics(volume_id, from_at=now, to_at=now + timedelta(hours=1))
    run_passes(cli, two_hosts, 60)
    two_hosts.fleet.stop_instance(host_of(two_hosts, volume_id))

    run_passes(cli, two_hosts, 30)
    assert modification_targets(two_hosts, volume_id) == ["io1"]
    run_passes(cli, two_hosts, 5)
    assert modification_targets(two_hosts, volume_id) == ["io1", "gp2"]
