"""Volumes that nothing uses for a while: a node drain, a scale-to-zero, a stopped instance.

AWS refuses to attach a volume that is being modified, and a modification cannot be cancelled: a volume that
the watchdog modifies while it is between two instances does not arrive.
"""

from datetime import timedelta

import pytest
from operators_desk import OperatorsDesk, a_lab, add, add_calm, add_critical, modified
from some_functions import AUTO, some_functions

from burstlab.model.volume import LabVolume

RETURNS = "version: 1\nflip_back:\n  dwell: 5m\n  calm_for: 30m\n"
OTHER_HOST = "i-0000000000000000b"
IO1 = AUTO | {"burstwatch:target": "io1"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    found = OperatorsDesk(tmp_path, monkeypatch, capsys)
    (tmp_path / "policy.yaml").write_text(RETURNS)
    return found


@pytest.fixture
def lab(desk):
    with a_lab(desk, modifying_s=300, modify_spread=0) as endpoint:
        endpoint.fleet.add(LabVolume(size_gib=8, volume_type="gp3", instance_id=OTHER_HOST))
        yield endpoint


@pytest.fixture
def ec2(lab):
    client = lab.client("ec2")
    yield client
    client.close()


def passes(desk, lab, minutes, *, every_min=5):
    """A watchdog that may act, for so many minutes; what its last pass came to."""
    for _ in range(0, minutes, every_min):
        lab.clock.advance(60 * every_min)
        ran = desk.run("watch", "--act", "--passes", "1")
    return ran


def on_io1(desk, lab) -> str:
    """Flipped because it drained, there since 18:10, and busy; it is 19:15."""
    volume_id = add_critical(lab, tags=IO1)
    passes(desk, lab, 5)
    lab.fleet.end_modification(volume_id)
    passes(desk, lab, 70)
    assert modified(lab, volume_id) == ["io1"]
    return volume_id


def move(ec2, lab, volume_id, *, after_s):
    """Attach a detached volume to another instance, as a CSI driver does."""
    lab.clock.advance(after_s)
    ec2.attach_volume(VolumeId=volume_id, InstanceId=OTHER_HOST, Device="/dev/sdf")


def test_a_busy_volume_survives_a_node_drain(desk, lab, ec2):
    """Detached for a minute and looked at in that minute, it arrives at the next node, as fast as before."""
    volume_id = on_io1(desk, lab)
    lab.clock.advance(240)
    ec2.detach_volume(VolumeId=volume_id)

    ran = passes(desk, lab, 1, every_min=1)
    move(ec2, lab, volume_id, after_s=20)
    passes(desk, lab, 60)

    assert modified(lab, volume_id) == ["io1"], "nothing was modified, then or later: it is busy"
    assert (ran.code, volume_id in ran.out) == (0, True), "it was looked at while it was detached"
    assert "FlipRefused" not in desk.kinds(volume_id)
    assert lab.fleet.find(volume_id).attachment.instance_id == OTHER_HOST


def test_a_detach_and_an_attach_between_two_looks_make_no_difference(desk, lab, ec2):
    volume_id = on_io1(desk, lab)
    ec2.detach_volume(VolumeId=volume_id)
    move(ec2, lab, volume_id, after_s=60)
    passes(desk, lab, 60)
    assert modified(lab, volume_id) == ["io1"]


def test_where_it_arrives_it_must_be_calm_for_as_long_as_anywhere(desk, lab, ec2):
    volume_id = on_io1(desk, lab)
    lab.fleet.set_load(volume_id, "idle")
    ec2.detach_volume(VolumeId=volume_id)
    passes(desk, lab, 40)
    move(ec2, lab, volume_id, after_s=0)

    passes(desk, lab, 10)
    assert modified(lab, volume_id) == ["io1"], "ten minutes of thirty are known"
    passes(desk, lab, 20)
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_the_return_of_a_volume_that_stays_detached_is_refused_once_and_then_reported_daily(desk, lab, ec2):
    volume_id = on_io1(desk, lab)
    ec2.detach_volume(VolumeId=volume_id)

    first = passes(desk, lab, 30)
    assert first.code == 0
    assert "refused" not in desk.kinds(volume_id)
    ran = passes(desk, lab, 5)
    assert ran.code == 4
    assert f"refused: {volume_id} (ci-7): detached: it is detached, and AWS refuses to attach" in ran.err
    again = passes(desk, lab, 60)
    assert again.code == 4
    a_day_later = desk_a_day_later(desk, lab)

    assert modified(lab, volume_id) == ["io1"]
    assert desk.kinds(volume_id).count("refused") == 1
    assert "left on target: ci-7 is still io1" in a_day_later
    assert "It should be back by now, but it is detached" in a_day_later
    assert f"burstctl flip-back {volume_id}" in a_day_later


def desk_a_day_later(desk, lab):
    return " ".join(passes(desk, lab, 1440, every_min=1440).err.split())


def test_assess_explain_and_history_show_what_the_volume_waits_for(desk, lab, ec2):
    volume_id = on_io1(desk, lab)
    ec2.detach_volume(VolumeId=volume_id)
    passes(desk, lab, 5)
    waits = " ".join(desk.run("explain", volume_id).out.split())
    assert "waits for calm: it is detached, first seen 2026-11-20T19:20:00Z" in waits
    assert "that counts as calm after 30 min" in waits
    passes(desk, lab, 35)

    [told] = [
        each for each in desk.run("assess", "--json").document["volumes"] if each["volume_id"] == volume_id
    ]
    explained = " ".join(desk.run("explain", volume_id).out.split())
    history = desk.run("history", volume_id).out
    assert told["decision"]["action"] == "flip_back"
    assert told["decision"]["reason"] == "calm for 30 min; not while it is detached"
    assert "its return to gp2 by the watchdog is refused now: detached: it is detached" in explained
    assert "is not moved to gp2: detached" in history


def test_a_person_may_still_bring_a_detached_volume_back(desk, lab, ec2):
    volume_id = on_io1(desk, lab)
    ec2.detach_volume(VolumeId=volume_id)
    assert desk.run("flip-back", volume_id, "--yes").code == 0
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_what_a_person_sent_out_for_a_time_is_not_brought_back_while_it_is_detached(desk, lab, ec2):
    volume_id = add_calm(lab)
    desk.run("flip", volume_id, "--to", "io1", "--for", "1h", "--yes")
    passes(desk, lab, 30)
    ec2.detach_volume(VolumeId=volume_id)
    passes(desk, lab, 120)
    assert modified(lab, volume_id) == ["io1"]


# out


def test_a_detached_critical_volume_is_flipped_when_it_is_attached_and_not_before(desk, lab, ec2):
    volume_id = add_calm(lab, "etcd-1", tags=AUTO | {"burstwatch:critical": "true"})
    ec2.detach_volume(VolumeId=volume_id)

    ran = passes(desk, lab, 20)
    assert modified(lab, volume_id) == []
    assert ran.code == 4
    assert desk.kinds(volume_id).count("refused") == 1
    move(ec2, lab, volume_id, after_s=0)
    passes(desk, lab, 5)
    assert modified(lab, volume_id) == ["gp3"]


def test_a_detached_volume_of_a_window_is_flipped_when_it_is_attached_and_not_before(desk, lab, ec2):
    volume_id = add_calm(lab, "db-1", tags=AUTO | {"burstwatch:window": "release"})
    ec2.detach_volume(VolumeId=volume_id)
    desk.run("window", "start", "release", "--for", "4h", "--yes")
    passes(desk, lab, 40)
    assert modified(lab, volume_id) == []
    assert desk.kinds(volume_id).count("refused") == 1
    move(ec2, lab, volume_id, after_s=0)
    passes(desk, lab, 5)
    assert modified(lab, volume_id) == ["gp3"]


# the queue


def test_the_flip_function_is_asked_once_for_a_volume_that_stays_detached(monkeypatch):
    with some_functions(monkeypatch) as functions:
        volume_id = add(functions.lab, "etcd-1", tags=AUTO | {"burstwatch:critical": "true"})
        functions.lab.fleet.detach(volume_id)
        asked = 0
        for _ in range(15):
            functions.tick(1)
            if records := functions.requests():
                asked += len(records)
                functions.flip(records)
        assert (asked, modified(functions.lab, volume_id)) == (1, [])
        assert functions.kinds().count("FlipRefused") == 1


# stopped instances


def host_of(lab, volume_id) -> str:
    return lab.fleet.find(volume_id).attachment.instance_id


def test_a_volume_of_a_stopped_instance_returns_after_as_long_as_calm_takes(desk, lab):
    volume_id = on_io1(desk, lab)
    lab.fleet.stop_instance(host_of(lab, volume_id))

    passes(desk, lab, 40)
    assert modified(lab, volume_id) == ["io1"], "seen to be stopped ten minutes after its last datapoint"
    passes(desk, lab, 10)
    assert modified(lab, volume_id) == ["io1", "gp2"]


def test_an_instance_that_is_started_again_begins_anew(desk, lab):
    volume_id = on_io1(desk, lab)
    host = host_of(lab, volume_id)
    lab.fleet.stop_instance(host)
    passes(desk, lab, 30)
    lab.fleet.start_instance(host)
    passes(desk, lab, 10)
    lab.fleet.stop_instance(host)
    passes(desk, lab, 35)
    assert modified(lab, volume_id) == ["io1"]


def test_a_stop_in_a_telemetry_gap_is_no_calm_by_itself(desk, lab):
    """No datapoint for an hour, then the instance stops: nobody knows what the volume served until then."""
    volume_id = on_io1(desk, lab)
    now = lab.clock.now()
    lab.fleet.hide_metrics(volume_id, from_at=now, to_at=now + timedelta(hours=1))
    passes(desk, lab, 60)
    lab.fleet.stop_instance(host_of(lab, volume_id))

    passes(desk, lab, 30)
    assert modified(lab, volume_id) == ["io1"]
    passes(desk, lab, 5)
    assert modified(lab, volume_id) == ["io1", "gp2"]
