"""What a pass asks of AWS beyond balances: modifications, operations, and what the instances allow."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.fleet import LabInstance
from burstlab.model.volume import LabVolume
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.watch.polling.due_volumes import DueVolume
from support.lab.lab_start import START

pytestmark = pytest.mark.begins_at(START)


LARGE, XLARGE, MICRO = "i-0000000000000000a", "i-0000000000000000b", "i-0000000000000000c"


def add_to(lab, instance_id, instance_type, **volume):
    lab.fleet.add_instance(
        LabInstance(instance_id=instance_id, launched_at=START, instance_type=instance_type, tags={})
    )
    return lab.fleet.add(LabVolume(size_gib=100, instance_id=instance_id, **volume))


def volumes_of(collector):
    volumes, _ = collector.fleet()
    return volumes


# --------------------------------------------------------------------------------------------- modifications


def test_modifications_in_progress_are_listed_once_in_a_pass(lab, collect):
    growing = lab.fleet.add(LabVolume(size_gib=100))
    lab.fleet.add(LabVolume(size_gib=100))
    lab.fleet.modify(growing, size_gib=300)
    collector = collect()
    assert collector.modifications_in_progress()[growing].target.size_gib == 300
    assert collector.smaller_sizes_gib() == {growing: 100}
    lab.fleet.end_modification(growing)
    assert list(collector.modifications_in_progress()) == [growing]
    assert lab.faults.call_counts() == {"DescribeVolumesModifications": 1}
    assert collect().modifications_in_progress() == {}


def test_a_listing_of_modifications_that_fails_is_reported_once(lab, collect):
    lab.faults.add(Fault(action="DescribeVolumesModifications", code="UnauthorizedOperation", status=403))
    collector = collect()
    assert (collector.modifications_in_progress(), collector.smaller_sizes_gib()) == ({}, {})
    [failure] = collector.failures
    assert failure.startswith("ec2:DescribeVolumesModifications failed (UnauthorizedOperation)")


def test_the_newest_modification_of_each_volume_is_found_and_one_never_modified_has_none(lab, collect):
    completed, under_way, never = (lab.fleet.add(LabVolume(size_gib=100)) for _ in range(3))
    lab.fleet.modify(completed, volume_type="gp3")
    lab.fleet.end_modification(completed)
    lab.fleet.modify(under_way, volume_type="io1", iops=1_000)
    collector = collect()
    result, unread = collector.modifications([completed, under_way, never])
    assert {volume_id: modification.state for volume_id, modification in result.items()} == {
        completed: "completed",
        under_way: "modifying",
    }
    assert (result[completed].ended_at, result[completed].is_finished) == (START, True)
    assert (unread, collector.failures) == (frozenset(), [])
    assert lab.faults.call_counts() == {"DescribeVolumesModifications": 1}


def test_modifications_that_could_not_be_read_are_named_and_reported_in_one_line(lab, collect):
    ids = [lab.fleet.add(LabVolume(size_gib=100)) for _ in range(3)]
    lab.faults.add(Fault(action="DescribeVolumesModifications", code="UnauthorizedOperation", status=403))
    collector = collect()
    assert collector.modifications(ids) == ({}, frozenset(ids))
    [failure] = collector.failures
    assert failure.endswith("(and 2 more like it)")


def test_the_iops_of_the_account_are_those_of_all_volumes_of_a_type(lab, reader):
    for iops in (1_000, 2_500):
        lab.fleet.add(LabVolume(size_gib=100, volume_type="io1", iops=iops))
    lab.fleet.add(LabVolume(size_gib=100, volume_type="io2", iops=700))
    lab.fleet.add(LabVolume(size_gib=10, volume_type="io1", iops=100, managed_by="eks", hidden=True))
    assert [reader.provisioned_iops(item) for item in (VolumeType.IO1, VolumeType.IO2)] == [3_600, 700]


# ------------------------------------------------------------------------------------------------ operations


@pytest.mark.parametrize(("chosen", "minutes"), [({}, 14), ({"span_s": 45 * 60}, 44)])
def test_operations_are_read_as_far_back_as_requested(lab, collect, chosen, minutes):
    volume_id = lab.fleet.add(LabVolume(size_gib=100, load="steady:400"))
    lab.clock.advance(3_600)
    reads, writes = collect().operations([volume_id], **chosen)[volume_id]
    assert (len(reads), len(writes)) == (minutes, minutes)  # the newest minute is not out yet


# -------------------------------------------------------------------------------------------------- balances


@pytest.mark.parametrize(("metric_lag_s", "minutes"), [(60.0, 64), (300.0, 64), (600.0, 69)])
def test_balances_reach_an_hour_back_from_the_latest_minute(lab, collect, metric_lag_s, minutes):
    volume_id = lab.fleet.add(LabVolume(size_gib=100))
    lab.clock.advance(2 * 3_600)
    collector = replace(collect(), metric_lag_s=metric_lag_s)
    [volume], _ = collector.volumes_by_id([volume_id])
    balances = collector.balances([DueVolume(volume=volume)], {volume_id})
    assert len(balances[volume_id]) == minutes  # the newest minute is not out yet


# --------------------------------------------------------------------------------------- what instances allow


def test_the_limits_of_every_instance_take_four_calls_and_the_types_are_remembered(lab, collect):
    first = add_to(lab, LARGE, "m5.large")
    second = lab.fleet.add(LabVolume(size_gib=50, instance_id=LARGE))
    other = add_to(lab, XLARGE, "m5.xlarge")
    lab.fleet.set_instance_balance(LARGE, 12.5, 80)
    lab.clock.advance(900)
    collector = collect()
    volumes = volumes_of(collector)
    lab.faults.reset_calls()
    limits, unread = collector.instance_limits(volumes)
    assert lab.faults.call_counts() == {
        "DescribeInstances": 1,
        "DescribeInstanceTypes": 1,
        "DescribeVolumes": 1,
        "GetMetricData": 1,
    }
    assert limits[first] == InstanceLimits(
        max_iops=18_750,
        max_throughput_mib_s=pytest.approx(566.244, abs=0.001),
        baseline_iops=3_600,
        baseline_throughput_mib_s=pytest.approx(77.486, abs=0.001),
        io_balance_pct=12.5,
        byte_balance_pct=80,
        other_iops=3_000,
        other_mib_s=128,
    )
    assert limits[second] == limits[first]
    assert (limits[other].baseline_iops, limits[other].io_balance_pct) == (6_000, 100)
    repeated = collect()
    assert repeated.instance_limits(volumes) == (limits, {})
    assert unread == {}
    assert lab.faults.call_counts() == {"DescribeInstances": 1, "DescribeVolumes": 1, "GetMetricData": 1}
    assert collector.failures == repeated.failures == []


def test_an_instance_without_buckets_has_no_balances_to_read(lab, collect):
    volume_id = add_to(lab, LARGE, "m5.4xlarge")
    collector = collect()
    limits = collector.instance_limits(volumes_of(collector))[0][volume_id]
    assert (limits.baseline_iops, limits.max_iops) == (18_750, 18_750)
    assert (limits.io_balance_pct, limits.byte_balance_pct) == (None, None)
    assert "GetMetricData" not in lab.faults.call_counts()


def test_when_nothing_limits_or_nothing_is_known_the_volume_is_left_out(lab, collect):
    add_to(lab, MICRO, "t2.micro")
    lab.fleet.add(LabVolume(size_gib=100, attached=False))
    lab.fleet.add(LabVolume(size_gib=100, service_owner="ecs.amazonaws.com"))
    collector = collect()
    assert collector.instance_limits(volumes_of(collector)) == ({}, {})
    assert (collector.failures, collector.instance_limits([])) == ([], ({}, {}))


def test_the_least_of_the_last_minutes_counts_and_what_was_before_does_not(lab, collect):
    volume_id = add_to(lab, LARGE, "m5.large")
    for minutes, io_pct in ((0, 1), (10, 60), (14, 40), (18, 70)):
        lab.fleet.set_instance_balance(
            LARGE, io_pct, 100, at=datetime.fromtimestamp(START.timestamp() + 60 * minutes, UTC)
        )
    lab.clock.advance(26 * 60)
    # from 18:11 to 18:26, with a lag of a minute: the five minutes from 18:15 (40, then 70) and from 18:20
    collector = collect()
    limits = collector.instance_limits(volumes_of(collector))[0][volume_id]
    assert (limits.io_balance_pct, limits.byte_balance_pct) == (40, 100)


def test_a_balance_from_before_the_launch_of_an_instance_does_not_count(lab, collect):
    volume_id = add_to(lab, LARGE, "t3.medium")
    lab.clock.advance(900)
    lab.fleet.set_instance_balance(LARGE, 0.5, 0.5)
    lab.clock.advance(360)
    collector = collect()
    assert collector.instance_limits(volumes_of(collector))[0][volume_id].io_balance_pct < 1
    lab.fleet.stop_instance(LARGE)
    lab.fleet.start_instance(LARGE)
    lab.clock.advance(120)
    collector = collect()
    assert collector.instance_limits(volumes_of(collector))[0][volume_id].io_balance_pct is None


def test_the_load_of_an_instance_is_read_if_a_bucket_of_it_is_nearly_empty(lab, collect):
    volume_id = add_to(lab, LARGE, "t3.medium")
    lab.fleet.set_load(volume_id, "steady:1200")
    other_id = add_to(lab, XLARGE, "m5.xlarge")
    lab.clock.advance(900)
    lab.fleet.set_instance_balance(LARGE, 0.5, 80)
    lab.clock.advance(360)
    collector = collect()
    volumes = volumes_of(collector)
    lab.faults.reset_calls()
    limits, _ = collector.instance_limits(volumes)
    assert limits[volume_id].used_iops == pytest.approx(1_200)
    assert limits[volume_id].used_mib_s > 0
    assert limits[other_id].used_iops is None
    assert lab.faults.call_counts()["GetMetricData"] == 2


@pytest.mark.parametrize("action", ["DescribeInstances", "DescribeInstanceTypes"])
def test_limits_that_cannot_be_read_are_reported_and_named_by_volume(lab, collect, action):
    ids = {add_to(lab, LARGE, "m5.large"), add_to(lab, XLARGE, "m5.xlarge")}
    lab.faults.add(Fault(action=action, code="UnauthorizedOperation", status=403))
    collector = collect()
    limits, unread = collector.instance_limits(volumes_of(collector))
    assert (limits, unread.keys()) == ({}, ids)
    [failure] = collector.failures
    assert failure.startswith(f"ec2:{action} failed (UnauthorizedOperation)")


def test_an_instance_whose_balances_cannot_be_read_is_unread(lab, collect):
    volume_id = add_to(lab, LARGE, "m5.large")
    other_id = add_to(lab, XLARGE, "m5.4xlarge")
    lab.clock.advance(900)
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", status=403))
    collector = collect()
    limits, unread = collector.instance_limits(volumes_of(collector))
    assert (limits.keys(), unread.keys()) == ({other_id}, {volume_id})
    [failure] = collector.failures
    assert failure.startswith("cloudwatch:GetMetricData failed (AccessDenied)")
