"""The real pass over real HTTP against the lab: what it sees, remembers and sends, in how few calls."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from burstctl.context.on_demand_pass import assess_volumes, evaluate_fleet
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.in_process_clients import InProcessEc2
from burstlab.model.modification import Modification, VolumeSpec
from burstlab.model.volume import LabVolume, MetricFault
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.ec2 import Ec2Reader, ModificationsResult
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.flip_state import EXTERNAL, Direction, Flip, FlipCause, FlipStatus
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.resources import EbsPolicy, EfsPolicy, ResourcesPolicy
from burstwatch.engine import evaluate_volumes
from support.lab.lab_start import START
from support.watch_pass_setup import PAST, services_with, tick, warm_up


def tick_for(shell, lab, minutes):
    reports = [tick(shell, lab, 1) for _ in range(minutes)]
    return [report for report in reports if report is not None]


def levels(report):
    return {d.assessment.volume.volume_id: d.level for d in report.decisions}


def test_a_draining_volume_is_announced_in_rising_order_and_closed_when_it_recovers(
    lab, shell, recorder, ledger
):
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    lab.fleet.set_load(volume_id, "steady:3000")
    tick_for(shell, lab, 40)
    lab.fleet.set_load(volume_id, "idle")
    tick_for(shell, lab, 65)
    assert [(a.kind, a.level) for a in recorder.alerts] == [
        (AlertKind.DRAINING, Level.WARNING),
        (AlertKind.DRAINING, Level.CRITICAL),
        (AlertKind.EXHAUSTED, Level.EXHAUSTED),
        (AlertKind.DRAINING, Level.CRITICAL),
        (AlertKind.RECOVERED, Level.WATCH),
    ]
    empty_at_s = lab.fleet.truth(volume_id).first_dry_at.timestamp()
    assert empty_at_s - recorder.alerts[1].at_s >= Policy().cadence.act_lead.total_seconds()
    kinds = [entry.kind for entry in ledger.entries(volume_id)]
    assert kinds.count(EntryKind.ALERT) == kinds.count(EntryKind.DELIVERED) == 5


def test_a_calm_fleet_leaves_no_trace_in_the_ledger(lab, shell, ledger, recorder):
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(20))
    warm_up(lab)
    tick_for(shell, lab, 30)
    assert ledger.states() == {}
    assert recorder.alerts == []


def test_a_calm_volume_is_read_once_in_its_sweep_interval(lab, shell):
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(30))
    warm_up(lab)
    tick(shell, lab)
    requested = []
    for _ in range(30):
        tick(shell, lab, 1)
        requested.append(shell.calls.metrics_requested)
    assert sum(requested) == 30 * 2
    assert sum(count > 0 for count in requested) <= 6


def test_a_first_pass_takes_one_call_of_each_kind(lab, shell):
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(400))
    warm_up(lab)
    report = tick(shell, lab)
    assert report.api_calls == {
        "cloudwatch:GetMetricData": 1,
        "ec2:DescribeVolumes": 1,
        "ec2:DescribeVolumesModifications": 1,
    }
    assert report.metrics_requested == 400


def test_operations_are_read_of_alerting_volumes_only(lab, shell):
    draining = lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:400"))
    lab.fleet.add(LabVolume(size_gib=100, balance_pct=50, load="steady:300"))
    lab.clock.advance(600)
    report = assess_volumes(shell, now_s=lab.fleet.now_s())
    assert report.metrics_requested == 2 + 2
    [urgent] = [d for d in report.decisions if d.assessment.volume.volume_id == draining]
    assert urgent.assessment.consumed_read_iops == pytest.approx(100)
    assert urgent.assessment.consumed_write_iops == pytest.approx(300)


def test_assess_writes_nothing_and_sends_nothing(lab, shell, ledger, recorder):
    lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:2000"))
    lab.clock.advance(600)
    report = assess_volumes(shell, now_s=lab.fleet.now_s())
    assert [d.level for d in report.decisions] == [Level.CRITICAL]
    assert ledger.states() == {}
    assert recorder.alerts == []


def test_kinds_of_missing_data_are_distinguished(lab, shell):
    fleet = lab.fleet
    fine = fleet.add(LabVolume(size_gib=100))
    expected = {
        fleet.add(LabVolume(size_gib=100, attached=False)): UnknownReason.DETACHED,
        fleet.add(LabVolume(size_gib=1000)): UnknownReason.NEVER_EMPTY,
        fleet.add(LabVolume(size_gib=100, service_owner="ecs.amazonaws.com")): None,
    }
    stopped = fleet.add(LabVolume(size_gib=100, instance_id="i-0aaaaaaaaaaaaaaaa"))
    silent = fleet.add(LabVolume(size_gib=100, load="steady:50"))
    idle = fleet.add(LabVolume(size_gib=100))
    unread = fleet.add(LabVolume(size_gib=100))
    fleet.stop_instance("i-0aaaaaaaaaaaaaaaa")
    for volume_id in (silent, idle):
        fleet.hide_metrics(volume_id, from_at=START - PAST, to_at=START + PAST, only_balance=True)
    fleet.set_metric_fault(unread, MetricFault(status_code="Forbidden", message="not yours"))
    warm_up(lab)
    new = fleet.add(LabVolume(size_gib=100, created_at=START - timedelta(minutes=5)))
    expected |= {
        fine: None,
        stopped: UnknownReason.INSTANCE_STOPPED,
        silent: UnknownReason.TELEMETRY_GAP,
        idle: UnknownReason.IDLE,
        unread: UnknownReason.READ_FAILED,
        new: UnknownReason.TOO_NEW,
    }
    report = evaluate_fleet(shell, now_s=fleet.now_s())
    result = {d.assessment.volume.volume_id: d.assessment.unknown_reason for d in report.decisions}
    assert result == expected
    assert [d.assessment.volume.volume_id for d in report.unread] == [unread]
    assert report.has_failed


def test_another_volume_type_is_reported_as_such(lab, shell):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, volume_type="gp3"))
    warm_up(lab)
    report = assess_volumes(shell, [volume_id], now_s=lab.fleet.now_s())
    assert [d.assessment.unknown_reason for d in report.decisions] == [UnknownReason.NOT_BURSTABLE_TYPE]


def test_a_telemetry_gap_is_alerted_once_and_closed(lab, shell, recorder):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, load="steady:50"))
    warm_up(lab)
    gap_ends_at = START + timedelta(minutes=90)
    lab.fleet.hide_metrics(volume_id, from_at=START, to_at=gap_ends_at, only_balance=True)
    tick_for(shell, lab, 120)
    assert recorder.alert_kinds == [AlertKind.TELEMETRY_GAP, AlertKind.RECOVERED]


def test_an_idle_volume_that_publishes_nothing_is_unknown_and_no_fault(lab, ledger, recorder):
    """Twelve of them: nothing is alerted, and each costs one metric a look, as if it published."""
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    ids = lab.fleet.add_all([LabVolume(size_gib=100)] * 12)
    shell = services_with(lab, ledger, recorder)
    warm_up(lab)
    first = tick_for(shell, lab, 30)
    requested = sum(report.metrics_requested for report in tick_for(shell, lab, 60))
    assert recorder.alerts == []
    assert {ledger.states()[volume_id].reading.unknown_reason for volume_id in ids} == {UnknownReason.IDLE}
    assert not any(report.needs_attention for report in first)
    assert requested == 12 * 60 / 15


def test_an_idle_volume_that_wakes_up_is_watched_from_its_first_datapoint_on(lab, ledger, recorder):
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    shell = services_with(lab, ledger, recorder)
    warm_up(lab)
    tick_for(shell, lab, 30)
    lab.fleet.set_load(volume_id, "steady:3000")
    tick_for(shell, lab, 33)
    assert [alert.level for alert in recorder.alerts][:2] == [Level.WARNING, Level.CRITICAL]


def test_a_volume_seen_empty_is_not_idle_after_a_detach_of_less_than_it_takes_to_refill(
    lab, shell, ledger, recorder
):
    """8 GiB refill in 15 hours."""
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    host = "i-0bbbbbbbbbbbbbbbb"
    lab.fleet.add(LabVolume(size_gib=334, instance_id=host))
    volume_id = lab.fleet.add(LabVolume(size_gib=8, balance_pct=0, load="steady:3000"))
    warm_up(lab)
    tick_for(shell, lab, 5)
    assert recorder.alert_kinds == [AlertKind.EXHAUSTED]
    lab.fleet.set_load(volume_id, "idle")
    lab.fleet.detach(volume_id)
    tick_for(shell, lab, 45)
    assert ledger.states()[volume_id].reading.balance_pct == pytest.approx(0, abs=1)
    lab.client("ec2").attach_volume(VolumeId=volume_id, InstanceId=host, Device="/dev/sdf")
    tick_for(shell, lab, 60)
    assert ledger.states()[volume_id].reading.unknown_reason is UnknownReason.TELEMETRY_GAP
    assert recorder.alert_kinds[-1] is AlertKind.TELEMETRY_GAP


def test_a_volume_that_publishes_nothing_in_the_first_sweep_is_idle_only_if_attached_for_long_enough(
    lab, shell, ledger
):
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    old, young = (
        lab.fleet.add(LabVolume(size_gib=8, attached_at=START - timedelta(hours=hours))) for hours in (15, 14)
    )
    warm_up(lab)
    shell_ticks = tick_for(shell, lab, 30)
    assert len(shell_ticks) == 30
    result = {volume_id: ledger.states()[volume_id].reading.unknown_reason for volume_id in (old, young)}
    assert result == {old: UnknownReason.IDLE, young: UnknownReason.TELEMETRY_GAP}
    tick_for(shell, lab, 60)
    assert ledger.states()[young].reading.unknown_reason is UnknownReason.IDLE


def test_a_new_volume_whose_last_balance_was_full_is_idle_without_datapoints(lab, shell, ledger, recorder):
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    volume_id = lab.fleet.add(LabVolume(size_gib=8, attached_at=START - timedelta(hours=1), load="steady:50"))
    warm_up(lab)
    tick_for(shell, lab, 10)
    lab.fleet.set_load(volume_id, "idle")
    tick_for(shell, lab, 90)
    assert ledger.states()[volume_id].reading.unknown_reason is UnknownReason.IDLE
    assert recorder.alert_kinds == []


def test_a_volume_without_datapoints_that_was_not_full_is_a_gap_even_if_it_serves_nothing(
    lab, shell, recorder
):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, balance_pct=60))
    warm_up(lab)
    lab.fleet.hide_metrics(volume_id, from_at=START, to_at=START + timedelta(days=1))
    tick_for(shell, lab, 50)
    assert recorder.alert_kinds == [AlertKind.TELEMETRY_GAP]


def test_a_stopped_instance_is_not_polled_and_noticed_when_it_starts(lab, shell, ledger, recorder):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, instance_id="i-0bbbbbbbbbbbbbbbb"))
    warm_up(lab)
    lab.fleet.stop_instance("i-0bbbbbbbbbbbbbbbb")
    tick_for(shell, lab, 50)
    assert ledger.states()[volume_id].reading.unknown_reason is UnknownReason.INSTANCE_STOPPED
    requested = 0
    for report in tick_for(shell, lab, 20):
        requested += report.metrics_requested
    assert requested == 0
    lab.fleet.start_instance("i-0bbbbbbbbbbbbbbbb")
    looked = [r for r in tick_for(shell, lab, 6) if volume_id in levels(r)]
    assert looked
    assert recorder.alerts == []


def test_new_resized_and_reattached_volumes_are_evaluated_on_the_next_sweep_tick(lab, shell):
    old = lab.fleet.add(LabVolume(size_gib=900))
    other = lab.fleet.add(LabVolume(size_gib=900, attached=False))
    warm_up(lab)
    tick_for(shell, lab, 6)
    arrived = lab.fleet.add(LabVolume(size_gib=900))
    lab.fleet.find(old).size_gib = 950
    lab.fleet.attach(other)
    looked = {volume_id for report in tick_for(shell, lab, 5) for volume_id in levels(report)}
    assert {old, other, arrived} <= looked


def test_a_volume_in_modification_is_in_focus_with_its_smaller_size(lab, shell, ledger):
    volume_id = lab.fleet.add(LabVolume(size_gib=500))
    warm_up(lab)
    tick(shell, lab)
    lab.fleet.find(volume_id).size_gib = 1_000
    lab.fleet.set_modification(
        volume_id,
        Modification(
            state="optimizing",
            original=VolumeSpec(volume_type="gp2", size_gib=500, iops=1_500),
            target=VolumeSpec(volume_type="gp2", size_gib=1_000, iops=3_000),
            started_at=START,
        ),
    )
    looked = [d for report in tick_for(shell, lab, 10) for d in report.decisions]
    assert {d.assessment.baseline_iops for d in looked} == {1_500}
    assert ledger.states()[volume_id].next_poll_at_s is not None


def test_ignored_volumes_are_neither_read_nor_reported(lab, shell):
    ignored = lab.fleet.add(LabVolume(size_gib=100, tags={"burstwatch:ignore": "true"}))
    warm_up(lab)
    report = tick(shell, lab)
    assert report.decisions == []
    assert report.ignored == [ignored]
    assert shell.calls.metrics_requested == 0


def test_in_mode_observe_no_alert_is_sent(lab, shell, recorder, ledger):
    volume_id = lab.fleet.add(
        LabVolume(size_gib=100, balance_pct=30, load="steady:3000", tags={"burstwatch:mode": "observe"})
    )
    lab.clock.advance(300)
    tick_for(shell, lab, 20)
    assert recorder.alerts == []
    assert ledger.states()[volume_id].level is Level.EXHAUSTED


def test_a_failed_send_is_tried_again_with_the_same_id_and_nothing_is_sent_twice(lab, shell, recorder):
    lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:300"))
    volume_id = lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:500"))
    lab.clock.advance(900)
    recorder.is_broken = True
    report = tick(shell, lab)
    assert "the line is dead" in " ".join(report.failures)
    recorder.is_broken = False
    tick_for(shell, lab, 10)
    assert [(a.volume_id, a.kind) for a in recorder.alerts] == [(volume_id, AlertKind.DRAINING)]


def test_a_storm_becomes_one_digest_with_every_alert_in_the_ledger(lab, shell, recorder, ledger):
    ids = lab.fleet.add_all(LabVolume(size_gib=100, balance_pct=20, load="steady:1000") for _ in range(60))
    lab.clock.advance(600)
    tick(shell, lab)
    assert recorder.alert_kinds == [AlertKind.DIGEST]
    assert recorder.alerts[0].evidence["alerts"] == 60
    assert all(EntryKind.ALERT in {e.kind for e in ledger.entries(volume_id)} for volume_id in ids)


def test_a_throttled_read_leaves_its_volumes_unread_and_the_rest_unaffected(lab, shell):
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(600))
    warm_up(lab)
    lab.faults.add(Fault(action="GetMetricData", kind="throttle", times=1))
    report = tick(shell, lab)
    assert report.unread == []
    assert report.api_calls["cloudwatch:GetMetricData"] == 3


def test_a_refused_read_is_loud_and_keeps_the_volumes_in_focus(lab, shell, ledger):
    ids = lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(3))
    warm_up(lab)
    lab.faults.add(Fault(action="GetMetricData", kind="error", code="AccessDenied", times=1))
    report = tick(shell, lab)
    assert len(report.unread) == 3
    assert report.has_failed
    assert all(ledger.states()[volume_id].next_poll_at_s for volume_id in ids)
    after = tick(shell, lab, 1)
    assert {d.level for d in after.decisions} == {Level.OK}
    assert ledger.states() == {}


def test_an_unlistable_fleet_is_loud_and_swept_by_the_next_tick(lab, shell):
    lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="error", code="UnauthorizedOperation", times=1))
    report = tick(shell, lab)
    assert report.has_failed
    assert "ec2:DescribeVolumes" in report.failures[0]
    assert len(tick(shell, lab, 1).decisions) == 1


def test_volumes_in_focus_are_evaluated_though_the_fleet_cannot_be_listed(lab, shell, ledger):
    draining = lab.fleet.add(LabVolume(size_gib=100, balance_pct=40, load="steady:500"))
    lab.fleet.add(LabVolume(size_gib=100))
    lab.clock.advance(600)
    tick_for(shell, lab, 4)
    assert ledger.states()[draining].next_poll_at_s is not None
    lab.faults.add(Fault(action="DescribeVolumes", kind="error", code="InternalFailure", times=1))
    lab.clock.advance(300 - lab.fleet.now_s() % 300)
    report = tick(shell, lab)
    assert report.has_failed
    assert [d.assessment.volume.volume_id for d in report.decisions] == [draining]


def test_a_sweep_taken_over_late_evaluates_what_is_due_in_focus_now(lab, shell):
    draining = lab.fleet.add(LabVolume(size_gib=100, balance_pct=40, load="steady:500"))
    lab.clock.advance(600)
    tick_for(shell, lab, 4)
    lab.clock.advance(60 * 2 + 300 - lab.fleet.now_s() % 300)
    looked = [d.assessment.volume.volume_id for d in tick(shell, lab).decisions]
    assert looked == [draining]


def test_a_volume_that_becomes_ignored_is_forgotten_and_its_alert_closed(lab, shell, recorder, ledger):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:500"))
    lab.clock.advance(600)
    tick(shell, lab)
    lab.fleet.set_tags(volume_id, {"burstwatch:ignore": "true"})
    tick_for(shell, lab, 3)
    assert recorder.alert_kinds == [AlertKind.DRAINING, AlertKind.RECOVERED]
    assert ledger.states() == {}


def test_a_mistake_about_one_volume_is_loud_and_hides_no_other(lab, shell, monkeypatch):
    broken = lab.fleet.add(LabVolume(size_gib=100))
    fine = lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:500"))
    lab.clock.advance(600)
    real = evaluate_volumes.assess

    def fail_for_volume(volume, *args, **kwargs):
        if volume.volume_id == broken:
            raise ZeroDivisionError("float division by zero")
        return real(volume, *args, **kwargs)

    monkeypatch.setattr(evaluate_volumes, "assess", fail_for_volume)
    report = tick(shell, lab)
    assert [d.assessment.volume.volume_id for d in report.decisions] == [fine]
    assert report.has_failed
    assert f"{broken} was not evaluated" in report.failures[0]


def test_a_restarted_instance_is_not_a_gap_for_a_single_evaluation_either(lab, shell, recorder):
    lab.fleet.add(LabVolume(size_gib=100, instance_id="i-0cccccccccccccccc"))
    warm_up(lab)
    lab.fleet.stop_instance("i-0cccccccccccccccc")
    lab.clock.advance(3_600)
    evaluate_fleet(shell, now_s=lab.fleet.now_s())
    lab.fleet.start_instance("i-0cccccccccccccccc")
    report = evaluate_fleet(shell, now_s=lab.fleet.now_s())
    assert [d.assessment.unknown_reason for d in report.decisions] == [UnknownReason.TOO_NEW]
    assert recorder.alerts == []


def test_a_deleted_volume_is_forgotten_and_its_alert_closed(lab, shell, recorder, ledger):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, balance_pct=20, load="steady:500"))
    lab.clock.advance(600)
    tick(shell, lab)
    lab.fleet.remove(volume_id)
    tick_for(shell, lab, 3)
    assert recorder.alert_kinds == [AlertKind.DRAINING, AlertKind.RECOVERED]
    assert ledger.states() == {}


def test_a_lost_sweep_tick_is_taken_over_by_the_next_focus_tick(lab, shell):
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(30))
    warm_up(lab)
    tick(shell, lab)
    lab.clock.advance(16 * 60)
    assert len(tick(shell, lab).decisions) == 30


def test_a_doubled_tick_does_nothing(lab, shell):
    lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    assert tick(shell, lab) is not None
    assert tick(shell, lab) is None


def test_a_tick_that_died_half_way_is_done_by_the_next(lab, shell, ledger, monkeypatch):
    lab.fleet.add_all(LabVolume(size_gib=100, balance_pct=20, load="steady:500") for _ in range(5))
    lab.clock.advance(600)
    with monkeypatch.context() as broken:
        broken.setattr(SqliteLedger, "commit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tick(shell, lab)
    assert ledger.states() == {}
    assert len(tick(shell, lab, 1).decisions) == 5


def test_two_watchdogs_on_one_ledger_send_every_alert_once(lab, ledger, recorder):
    item, other = services_with(lab, ledger, recorder), services_with(lab, ledger, recorder)
    lab.fleet.add_all(LabVolume(size_gib=100, balance_pct=30, load="steady:900") for _ in range(3))
    lab.clock.advance(300)
    for _ in range(30):
        tick(item, lab, 1)
        evaluate_fleet(other, now_s=lab.fleet.now_s())
    ids = [alert.alert_id for alert in recorder.alerts]
    assert len(ids) == len(set(ids))
    reported = {(a.volume_id, a.level) for a in recorder.alerts}
    assert len(reported) == len(ids)


def test_a_message_about_a_whole_call_is_reported(lab, shell, monkeypatch):
    lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    real = CloudWatchReader.read

    def read_with_message(self, *args, **kwargs):
        return replace(real(self, *args, **kwargs), messages=["MaxMetricsExceeded: first 500 only"])

    monkeypatch.setattr(CloudWatchReader, "read", read_with_message)
    report = tick(shell, lab)
    assert report.has_failed
    assert set(report.failures) == {"cloudwatch:GetMetricData returned: MaxMetricsExceeded: first 500 only"}


# one answer of DescribeVolumes proves nothing


def a_flipped_volume(lab, ledger, before=lambda: None) -> str:
    """A gp2 of 100 GiB that a person sent to gp3, where it stays: as AWS and the ledger have it."""
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    before()
    lab.fleet.modify(volume_id, volume_type="gp3", iops=3000, throughput_mib_s=128)
    started_s = lab.fleet.now_s()
    lab.fleet.end_modification(volume_id)
    flip = Flip(
        status=FlipStatus.ON_TARGET,
        direction=Direction.FLIP,
        intent_id="0123456789abcdef",
        cause=FlipCause.MANUAL,
        by="ann",
        original=Configuration(volume_type=VolumeType.GP2),
        target=Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=128),
        size_gib=100,
        requested_at_s=started_s,
        started_at_s=started_s,
        reached_at_s=started_s,
        is_permanent=True,
    )
    state = ResourceState(volume_id=volume_id, revision=1, flip=flip, next_poll_at_s=started_s)
    assert ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=state)], channels=[])
    lab.clock.advance(60)
    return volume_id


@contextmanager
def stale_answers(monkeypatch, *, has_record=False):
    """AWS describes every volume as the gp2 that it was, and has or has no record of what made it another."""
    real = Ec2Reader.volumes_by_id
    nothing = ModificationsResult(modifications={}, unread={})

    def volumes_by_id(self, volume_ids):
        result = real(self, volume_ids)
        old = [
            replace(v, volume_type="gp2", provisioned_iops=300, throughput_mib_s=None) for v in result.volumes
        ]
        return replace(result, volumes=old)

    with monkeypatch.context() as stale:
        stale.setattr(Ec2Reader, "volumes_by_id", volumes_by_id)
        if not has_record:
            stale.setattr(Ec2Reader, "modifications_by_id", lambda _self, _ids: nothing)
        yield


def test_a_stale_response_proves_nothing_however_often_it_comes(lab, shell, ledger, recorder, monkeypatch):
    volume_id = a_flipped_volume(lab, ledger)
    before = ledger.states()[volume_id].flip
    with stale_answers(monkeypatch, has_record=True):
        for _ in range(8):
            tick(shell, lab, 1)
    assert ledger.states()[volume_id].flip == before
    assert recorder.alerts == []


def test_a_stale_answer_is_not_a_change_by_others_and_forgotten_with_the_next(
    lab, shell, ledger, recorder, monkeypatch
):
    volume_id = a_flipped_volume(lab, ledger)
    with stale_answers(monkeypatch):
        tick(shell, lab)
    doubted = ledger.states()[volume_id]
    assert (doubted.modifications.contested_at_s, doubted.flip.unconfirmed_since_s) == (
        None,
        lab.fleet.now_s(),
    )
    assert doubted.next_poll_at_s == lab.fleet.now_s() + 60
    tick(shell, lab, 1)
    assert ledger.states()[volume_id].flip.unconfirmed_since_s is None
    assert recorder.alerts == []


def test_two_watchdogs_that_got_the_same_stale_answer_have_one_doubt(
    lab, shell, ledger, recorder, monkeypatch
):
    volume_id = a_flipped_volume(lab, ledger)
    other = services_with(lab, ledger, recorder)
    with stale_answers(monkeypatch):
        tick(shell, lab)
        lab.clock.advance(5)
        evaluate_fleet(other, now_s=lab.fleet.now_s())
    assert ledger.states()[volume_id].modifications.contested_at_s is None
    assert recorder.alerts == []


def test_a_difference_that_lasts_a_minute_is_an_external_change(lab, shell, ledger, recorder, monkeypatch):
    """AWS has no record of it: the volume itself shows it."""
    volume_id = a_flipped_volume(lab, ledger)
    with stale_answers(monkeypatch):
        tick(shell, lab)
        assert recorder.alerts == []
        tick(shell, lab, 1)
    assert recorder.alert_kinds == [AlertKind.CHANGED_BY_OTHERS]
    assert ledger.states()[volume_id].modifications.contested_at_s == lab.fleet.now_s()


def test_a_change_by_others_that_aws_has_on_record_is_reported_at_once(lab, shell, ledger, recorder):
    volume_id = a_flipped_volume(lab, ledger)
    lab.fleet.modify(volume_id, volume_type="gp2")
    lab.fleet.end_modification(volume_id)
    tick(shell, lab)
    assert recorder.alert_kinds == [AlertKind.CHANGED_BY_OTHERS]
    used_by = [use.by for use in ledger.states()[volume_id].modifications.used]
    assert used_by == [EXTERNAL]


def test_a_volume_that_is_gp2_again_before_the_next_sweep_is_evaluated_in_that_sweep(
    lab, shell, ledger, recorder
):
    """It stays, so its next look is half a day away; to the sweep it is the gp2 that it was."""
    volume_id = a_flipped_volume(lab, ledger, before=lambda: tick(shell, lab))
    tick(shell, lab)
    assert ledger.states()[volume_id].next_poll_at_s == lab.fleet.now_s() + 12 * 3600
    lab.fleet.modify(volume_id, volume_type="gp2")
    lab.fleet.end_modification(volume_id)
    tick_for(shell, lab, 3)
    assert recorder.alerts == []
    [report] = tick_for(shell, lab, 1)
    assert [d.assessment.volume.volume_id for d in report.decisions] == [volume_id]
    assert recorder.alert_kinds == [AlertKind.CHANGED_BY_OTHERS]


# AWS leaves a volume out of an answer


@contextmanager
def omit_from_responses(monkeypatch, volume_id):
    real = Ec2Reader.volumes_by_id

    def volumes_by_id(self, volume_ids):
        result = real(self, [item for item in volume_ids if item != volume_id])
        return replace(result, missing=[*result.missing, *({volume_id} & set(volume_ids))])

    with monkeypatch.context() as answers:
        answers.setattr(Ec2Reader, "volumes_by_id", volumes_by_id)
        yield


def test_a_flipped_volume_that_answers_leave_out_for_minutes_is_not_forgotten(
    lab, shell, ledger, recorder, monkeypatch
):
    volume_id = a_flipped_volume(lab, ledger)
    before = ledger.states()[volume_id]
    since_s = lab.fleet.now_s()
    with omit_from_responses(monkeypatch, volume_id):
        tick(shell, lab)
        tick_for(shell, lab, 9)
    doubted = ledger.states()[volume_id]
    assert (doubted.flip, doubted.presence.missing_since_s) == (before.flip, since_s)
    assert doubted.next_poll_at_s == lab.fleet.now_s() + 60
    tick(shell, lab, 1)
    state = ledger.states()[volume_id]
    assert (state.flip, state.presence.missing_since_s) == (before.flip, None)
    with omit_from_responses(monkeypatch, volume_id):
        lab.clock.advance(12 * 3600)
        tick_for(shell, lab, 9)
    assert ledger.states()[volume_id].flip == before.flip, "the ten minutes begin again"
    assert recorder.alerts == []


def test_a_flipped_volume_that_was_deleted_is_forgotten_after_ten_minutes(lab, shell, ledger, recorder):
    volume_id = a_flipped_volume(lab, ledger)
    lab.fleet.remove(volume_id)
    tick(shell, lab)
    tick_for(shell, lab, 9)
    assert set(ledger.states()) == {volume_id}
    tick(shell, lab, 1)
    assert ledger.states() == {}
    assert recorder.alerts == []
    assert [entry.body["to"] for entry in ledger.entries(volume_id)] == ["the volume was deleted"]


def test_the_record_of_a_volume_on_its_target_is_not_requested_while_it_is_what_it_should_be(
    lab, shell, ledger
):
    """One call lists every modification in progress; for a fleet at rest there is no further call."""
    a_flipped_volume(lab, ledger)
    report = tick(shell, lab)
    assert report.api_calls["ec2:DescribeVolumesModifications"] == 1


def test_consecutive_external_modifications_all_count(lab, shell, ledger):
    """AWS shows the newest only: without the earlier ones an automatic flip would count one."""
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    tick(shell, lab)
    starts_s = []
    for size_gib in (101, 102, 103):
        lab.fleet.modify(volume_id, size_gib=size_gib)
        starts_s.append(lab.fleet.now_s())
        tick_for(shell, lab, 6)
        lab.fleet.end_modification(volume_id)
        lab.clock.advance(60)
    state = ledger.states()[volume_id]
    assert [(use.at_s, use.by) for use in state.modifications.used] == [
        (start_s, EXTERNAL) for start_s in starts_s
    ]


# volumes that the policy does not watch any more


@pytest.mark.parametrize(
    "ebs", [EbsPolicy(watch=False), EbsPolicy(types=frozenset({"st1"}))], ids=["no volume", "no gp2"]
)
@pytest.mark.parametrize("starter", ["tick", "person"])
def test_a_volume_that_is_not_watched_any_more_is_forgotten_and_not_flipped(
    lab, shell, ledger, recorder, starter, ebs
):
    tags = {"burstwatch:mode": "auto"}
    volume_id = lab.fleet.add(LabVolume(size_gib=100, balance_pct=0.5, load="steady:3000", tags=tags))
    lab.clock.advance(600)
    tick(shell, lab)
    assert set(ledger.states()) == {volume_id}
    lab.clock.advance(300)
    resources = ResourcesPolicy(ebs=ebs, efs=EfsPolicy(watch=True))
    acting = services_with(lab, ledger, recorder, policy=replace(Policy(), resources=resources))
    acting = replace(acting, modifier=Ec2Modifier(InProcessEc2(lab.fleet)))
    now_s = lab.fleet.now_s()
    report = tick(acting, lab) if starter == "tick" else evaluate_fleet(acting, now_s=now_s)
    assert (report.outcomes, report.decisions, ledger.states()) == ({}, [], {})
    assert lab.fleet.modifications(volume_id) == []
    assert recorder.alert_kinds == [AlertKind.EXHAUSTED, AlertKind.RECOVERED]
