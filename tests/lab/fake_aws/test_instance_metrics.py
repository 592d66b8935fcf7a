"""What GetMetricData has of instances and of their volumes while they hold each other back, by boto3."""

from datetime import timedelta

import pytest

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.volume import LabVolume
from support.lab.lab_start import INSTANCE, START

OTHER = "i-0000000000000000b"

pytestmark = pytest.mark.usefixtures("metered_instance")


def a_fleet(instance_type="m5.large", *, chosen=None, **changes):
    fleet = LabFleet(LabClock.manual(START), LabSettings(**(chosen or {})))
    fleet.add_instance(
        LabInstance(instance_id=INSTANCE, launched_at=START, instance_type=instance_type, tags={}, **changes)
    )
    return fleet


def a_volume(load, **changes):
    fast = {"size_gib": 100, "volume_type": "gp3", "iops": 16_000, "throughput_mib_s": 1_000}
    return LabVolume(load=load, **{**fast, "instance_id": INSTANCE, **changes})


def read(lab, name, *, stat="Sum", period_s=300, minutes=60, volume_id=None, instance_id=INSTANCE, **changes):
    """What GetMetricData answers, as {minutes since the start: value}."""
    dimensions = [{"Name": "InstanceId", "Value": instance_id}] if instance_id else []
    if volume_id:
        dimensions.append({"Name": "VolumeId", "Value": volume_id})
    namespace = "AWS/EBS" if name.startswith(("Volume", "Burst")) else "AWS/EC2"
    metric = {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions}
    query = {"Id": "q", "MetricStat": {"Metric": metric, "Period": period_s, "Stat": stat, **changes}}
    [result] = lab.client("cloudwatch").get_metric_data(
        MetricDataQueries=[query],
        StartTime=START,
        EndTime=START + timedelta(minutes=minutes),
        ScanBy="TimestampAscending",
    )["MetricDataResults"]
    starts = [(at - START) // timedelta(minutes=1) for at in result["Timestamps"]]
    return dict(zip(starts, result["Values"], strict=True))


def test_the_balances_follow_from_what_the_volumes_do(lab, fleet):
    # 10 % less 300 s of 6,400 in 27,270,000 are 2.9593 %; then it is empty
    fleet.add(a_volume("steady:10000@4"))
    lab.clock.advance(900)
    levels = {0: 10 - 300 * 6_400 / 272_700, 5: 0, 10: 0}
    assert read(lab, "EBSIOBalance%", stat="Minimum") == pytest.approx(levels)
    assert read(lab, "EBSIOBalance%", stat="Maximum") == pytest.approx({0: 10, 5: levels[0], 10: 0})
    assert read(lab, "EBSIOBalance%", stat="Average")[0] == pytest.approx((10 + levels[0]) / 2)
    assert read(lab, "EBSByteBalance%", stat="Minimum") == {0: 100, 5: 100, 10: 100}


def test_an_instance_whose_volumes_demand_little_is_full(lab, fleet):
    fleet.instances[INSTANCE].io_pct = 100
    fleet.add(a_volume("steady:300"))
    lab.clock.advance(600)
    assert fleet.find(next(iter(fleet)).volume_id).group is None
    for metric in ("EBSIOBalance%", "EBSByteBalance%"):
        for stat in ("Minimum", "Average", "Maximum"):
            assert read(lab, metric, stat=stat) == {0: 100, 5: 100}


def test_a_balance_that_is_set_is_shown_in_place_of_what_the_bucket_holds(lab, fleet):
    fleet.add(a_volume("steady:10000@4"))
    fleet.set_instance_balance(INSTANCE, 70, 80, at=START + timedelta(minutes=5))
    lab.clock.advance(900)
    assert list(read(lab, "EBSIOBalance%", stat="Minimum").values())[1:] == [70, 70]
    assert fleet.instance_truth(INSTANCE).io.balance_pct == 0


def test_operations_and_bytes_are_the_sums_of_the_volumes(lab, fleet):
    # 1,000 of 16 KiB and 100 of 64 KiB a second, a quarter of them reads
    fleet.add_all([a_volume("steady:1000"), a_volume("steady:100@64")])
    lab.clock.advance(600)
    assert read(lab, "EBSReadOps") == pytest.approx({0: 82_500, 5: 82_500})
    assert read(lab, "EBSWriteOps") == pytest.approx({0: 247_500, 5: 247_500})
    kib = (1_000 * 16 + 100 * 64) * 300
    assert read(lab, "EBSReadBytes") == pytest.approx({0: kib * 256, 5: kib * 256})
    assert read(lab, "EBSWriteBytes", period_s=600) == pytest.approx({0: 2 * kib * 768})
    assert read(lab, "EBSReadOps", Unit="Bytes") == {}
    assert read(lab, "EBSReadOps", instance_id=OTHER) == {}


def test_detailed_monitoring_gives_operations_by_the_minute_and_balances_as_before(lab, fleet):
    fleet.add(a_volume("steady:400"))
    lab.clock.advance(300)
    lab.client("ec2").monitor_instances(InstanceIds=[INSTANCE])
    lab.clock.advance(300)
    assert read(lab, "EBSReadOps", period_s=60) == pytest.approx(
        {0: 30_000} | dict.fromkeys(range(5, 10), 6_000)
    )
    assert list(read(lab, "EBSIOBalance%", stat="Minimum")) == [0, 5]


def test_detailed_monitoring_may_end_the_balances():
    fleet = a_fleet(chosen={"detailed_hides_balance": True})
    fleet.add(a_volume("steady:400"))
    with Endpoint(fleet) as lab:
        lab.clock.advance(300)
        lab.client("ec2").monitor_instances(InstanceIds=[INSTANCE])
        lab.clock.advance(600)
        assert list(read(lab, "EBSIOBalance%", stat="Minimum")) == [0]
        lab.client("ec2").unmonitor_instances(InstanceIds=[INSTANCE])
        lab.clock.advance(300)
        assert list(read(lab, "EBSIOBalance%", stat="Minimum")) == [0, 15]
        assert list(read(lab, "EBSReadOps")) == [0, 5, 10, 15]


def test_a_stopped_instance_publishes_nothing(lab, fleet):
    fleet.add(a_volume("steady:400"))
    lab.clock.advance(300)
    fleet.stop_instance(INSTANCE)
    lab.clock.advance(600)
    fleet.start_instance(INSTANCE)
    lab.clock.advance(300)
    for metric in ("EBSIOBalance%", "EBSReadOps"):
        assert list(read(lab, metric)) == [0, 15]
    assert list(read(lab, "InstanceEBSIOPSExceededCheck", period_s=60)) == [*range(5), *range(15, 20)]


def test_a_volume_that_moves_counts_for_the_instance_it_is_on(lab, fleet):
    fleet.add_instance(LabInstance(instance_id=OTHER, launched_at=START, tags={}))
    volume_id = fleet.add(a_volume("steady:400"))
    lab.clock.advance(600)
    fleet.detach(volume_id)
    fleet.attach(volume_id, OTHER)
    lab.clock.advance(300)
    assert read(lab, "EBSReadOps") == pytest.approx({0: 30_000, 5: 30_000, 10: 0})
    assert read(lab, "EBSReadOps", instance_id=OTHER) == pytest.approx({10: 30_000})
    check = {"volume_id": volume_id, "period_s": 60}
    assert list(read(lab, "VolumeIOPSExceededCheck", **check)) == list(range(10))
    assert list(read(lab, "VolumeIOPSExceededCheck", instance_id=OTHER, **check)) == list(range(10, 15))


def test_a_shared_volume_counts_for_each_instance_by_its_part(lab, fleet):
    fleet.add_instance(LabInstance(instance_id=OTHER, launched_at=START, tags={}))
    volume_id = fleet.add(
        a_volume(
            "steady:400",
            volume_type="io2",
            throughput_mib_s=None,
            multi_attached=True,
            instance_id=None,
            instance_ids=(INSTANCE, OTHER),
        )
    )
    lab.clock.advance(300)
    for instance_id in (INSTANCE, OTHER):
        assert read(lab, "EBSReadOps", instance_id=instance_id) == pytest.approx({0: 15_000})
        assert read(lab, "VolumeIOPSExceededCheck", volume_id=volume_id, instance_id=instance_id) == {}
    [described] = lab.client("ec2").describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert [attachment["InstanceId"] for attachment in described["Attachments"]] == [INSTANCE, OTHER]


@pytest.mark.parametrize(
    ("load", "exceeded"),
    [
        ("steady:3600@4", set()),
        ("steady:10000@4", {"InstanceEBSIOPSExceededCheck"}),
        ("steady:1000@256", {"InstanceEBSThroughputExceededCheck"}),
        ("steady:20000@4", {"InstanceEBSIOPSExceededCheck", "VolumeIOPSExceededCheck"}),
    ],
)
def test_the_checks_report_which_limit_an_instance_or_a_volume_tries_to_exceed(load, exceeded):
    fleet = a_fleet(io_pct=0, byte_pct=0) if "20000" not in load else a_fleet("m5.large")
    volume_id = fleet.add(a_volume(load))
    if "20000" in load:  # the volume allows 16,000, the instance, with its baseline only, 3,600
        fleet.clock.advance(60)
        fleet.fill_instance(INSTANCE, io_pct=0)
    with Endpoint(fleet) as lab:
        lab.clock.advance(180)
        options = {"stat": "Maximum", "period_s": 60}
        reached = {
            name
            for name in ("InstanceEBSIOPSExceededCheck", "InstanceEBSThroughputExceededCheck")
            if 1 in read(lab, name, **options).values()
        }
        reached |= {
            name
            for name in ("VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck")
            if 1 in read(lab, name, volume_id=volume_id, **options).values()
        }
        assert reached == exceeded


def test_a_check_of_a_volume_needs_both_dimensions(lab, fleet):
    volume_id = fleet.add(a_volume("steady:20000@4"))
    lab.clock.advance(120)
    both = {"volume_id": volume_id, "period_s": 60}
    assert read(lab, "VolumeIOPSExceededCheck", **both) == {0: 1, 1: 1}
    assert read(lab, "VolumeThroughputExceededCheck", **both) == {0: 0, 1: 0}
    assert read(lab, "VolumeIOPSExceededCheck", instance_id=None, **both) == {}
    assert read(lab, "VolumeIOPSExceededCheck", period_s=60) == {}
    assert read(lab, "VolumeIOPSExceededCheck", Unit="Count", **both) == {}


@pytest.mark.parametrize(("limit", "expected"), [("ceiling", 0), ("baseline", 1)])
def test_a_gp2_that_lives_on_credits_exceeds_its_baseline_or_not_by_setting(limit, expected):
    fleet = a_fleet("m5.4xlarge", chosen={"exceeded_limit": limit})
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:1000", instance_id=INSTANCE))
    with Endpoint(fleet) as lab:
        lab.clock.advance(60)
        check = read(lab, "VolumeIOPSExceededCheck", volume_id=volume_id, period_s=60)
        assert check == {0: expected}


@pytest.mark.parametrize("instance_type", ["m4.large", "t2.micro"])
def test_an_instance_that_is_not_built_on_nitro_has_no_such_metrics(instance_type):
    fleet = a_fleet(instance_type)
    volume_id = fleet.add(a_volume("steady:400"))
    with Endpoint(fleet) as lab:
        lab.clock.advance(600)
        for name in ("EBSReadOps", "EBSIOBalance%", "InstanceEBSIOPSExceededCheck"):
            assert read(lab, name) == {}
        assert read(lab, "VolumeIOPSExceededCheck", volume_id=volume_id) == {}
        assert read(lab, "VolumeReadOps", volume_id=volume_id, instance_id=None) == {0: 30_000, 5: 30_000}


def test_a_type_that_changes_leaves_the_balances_of_the_past(lab, fleet):
    fleet.add(a_volume("steady:10000@4"))
    lab.clock.advance(600)
    fleet.stop_instance(INSTANCE)
    fleet.set_instance_type(INSTANCE, "m5.24xlarge")
    fleet.start_instance(INSTANCE)
    lab.clock.advance(600)
    assert list(read(lab, "EBSIOBalance%", stat="Minimum")) == [0, 5]
