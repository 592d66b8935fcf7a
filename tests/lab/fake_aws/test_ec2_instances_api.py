"""What the lab reports about instances: what their type allows, and what is left in buckets of their own."""

import json
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from burstlab.model.clock import LabClock
from burstlab.model.fleet import FleetError, LabFleet, LabSettings
from burstlab.model.instance import INSTANCE_TYPES
from burstlab.model.volume import LabVolume

START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
INSTANCE = "i-0000000000000000a"


@pytest.fixture
def fleet():
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60))
    fleet.add(LabVolume(size_gib=100, instance_id=INSTANCE))
    return fleet


def described_types(lab, *names):
    types = lab.client("ec2").describe_instance_types(InstanceTypes=list(names))["InstanceTypes"]
    return {volume_type["InstanceType"]: volume_type["EbsInfo"] for volume_type in types}


def balance(lab, metric="EBSIOBalance%", stat="Minimum", period_s=300, minutes=60, **changes):
    """What GetMetricData answers, as {minutes since the start: value}."""
    dimensions = [{"Name": "InstanceId", "Value": INSTANCE}]
    facts = {"Namespace": "AWS/EC2", "MetricName": metric, "Dimensions": dimensions}
    answer = lab.client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {"Id": "q", "MetricStat": {"Metric": facts | changes, "Period": period_s, "Stat": stat}}
        ],
        StartTime=START,
        EndTime=START + timedelta(minutes=minutes),
        ScanBy="TimestampAscending",
    )
    [result] = answer["MetricDataResults"]
    assert result["StatusCode"] == "Complete"
    starts = [(at - START) // timedelta(minutes=1) for at in result["Timestamps"]]
    return dict(zip(starts, result["Values"], strict=True))


def test_every_type_is_reported_as_aws_reports_it(lab):
    from moto.ec2.models.instance_types import INSTANCE_TYPES as RECORDED  # noqa: PLC0415 - heavy

    for name, ebs in described_types(lab, *INSTANCE_TYPES).items():
        recorded = RECORDED[name]["EbsInfo"]
        assert ebs == {key: recorded[key] for key in ebs}, name
        assert ("EbsOptimizedInfo" in ebs) == ("EbsOptimizedInfo" in recorded)


def test_types_are_reported_by_name_or_by_filter_each_once(lab):
    by_filter = lab.client("ec2").describe_instance_types(
        Filters=[{"Name": "instance-type", "Values": ["m5.large", "t2.micro", "m5.large"]}], MaxResults=100
    )
    assert [instance_type["InstanceType"] for instance_type in by_filter["InstanceTypes"]] == [
        "m5.large",
        "t2.micro",
    ]
    assert list(described_types(lab, "m5.large", "t2.micro")) == ["m5.large", "t2.micro"]


def test_a_type_the_lab_does_not_know_is_left_to_moto(lab):
    assert (
        described_types(lab, "m5.large", "m7i.large")["m7i.large"]["EbsOptimizedInfo"]["MaximumIops"]
        == 40_000
    )
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        described_types(lab, "m5.large", "x9.huge")


def test_the_usual_instance_allows_more_than_any_gp2_sustains(lab):
    [[instance]] = [
        reservation["Instances"] for reservation in lab.client("ec2").describe_instances()["Reservations"]
    ]
    [ebs] = described_types(lab, instance["InstanceType"]).values()
    assert ebs["EbsOptimizedInfo"]["MaximumIops"] > 16_000


def test_an_instance_publishes_no_balance_unless_one_is_set(lab):
    lab.clock.advance(3_600)
    assert balance(lab) == {}


def test_a_balance_comes_every_five_minutes_after_its_lag(lab):
    lab.fleet.set_instance_balance(INSTANCE, 75, 20)
    lab.clock.advance(359)
    assert balance(lab) == {}
    lab.clock.advance(1)
    assert balance(lab) == {0: 75}
    lab.clock.advance(600)
    assert balance(lab) == balance(lab, period_s=60) == {0: 75, 5: 75, 10: 75}
    assert balance(lab, "EBSByteBalance%") == {0: 20, 5: 20, 10: 20}
    assert balance(lab, minutes=10) == {0: 75, 5: 75}


def test_a_balance_that_changes_is_reported_by_its_least(lab):
    for minutes, io_pct in ((0, 80), (12, 30), (18, 60)):
        lab.fleet.set_instance_balance(INSTANCE, io_pct, at=START + timedelta(minutes=minutes))
    lab.clock.advance(26 * 60)
    assert balance(lab) == {0: 80, 5: 80, 10: 30, 15: 30, 20: 60}
    assert balance(lab, period_s=900) == {0: 30, 15: 30}
    assert balance(lab, stat="Average", period_s=900) == pytest.approx({0: 190 / 3, 15: 45})
    assert balance(lab, "EBSByteBalance%") == {}


def test_a_balance_taken_back_is_published_no_longer(lab):
    lab.fleet.set_instance_balance(INSTANCE, 50, 50)
    lab.fleet.set_instance_balance(INSTANCE, None, 50, at=START + timedelta(minutes=10))
    lab.clock.advance(26 * 60)
    assert list(balance(lab)) == [0, 5]
    assert list(balance(lab, "EBSByteBalance%")) == [0, 5, 10, 15, 20]


@pytest.mark.parametrize(
    "changes",
    [
        {"Dimensions": [{"Name": "VolumeId", "Value": INSTANCE}]},
        {"Dimensions": [{"Name": "InstanceId", "Value": "i-0000000000000000b"}]},
        {"Dimensions": [{"Name": "InstanceId", "Value": INSTANCE}, {"Name": "VolumeId", "Value": "vol-1"}]},
        {"Namespace": "AWS/EBS"},
    ],
)
def test_a_balance_is_there_only_where_it_is_published(lab, changes):
    lab.fleet.set_instance_balance(INSTANCE, 50, 50)
    lab.clock.advance(600)
    assert balance(lab, **changes) == {}


def test_an_invalid_balance_is_refused(fleet):
    with pytest.raises(FleetError, match="i-0000000000000000b is not an instance of this fleet"):
        fleet.set_instance_balance("i-0000000000000000b", 50, 50)
    for balances in ({"io_pct": 101}, {"byte_pct": -1}):
        with pytest.raises(ValueError, match="give 0 to 100, or none for a bucket that is not there"):
            fleet.set_instance_balance(INSTANCE, **balances)


def test_another_process_sets_a_balance_over_http(lab):
    def post(body):
        request = urllib.request.Request(f"{lab.url}/_lab/instance-balance", data=json.dumps(body).encode())
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    assert post({"instance_id": INSTANCE, "io_pct": 0}) == {
        "instance_id": INSTANCE,
        "io_pct": 0,
        "byte_pct": None,
    }
    lab.clock.advance(600)
    assert balance(lab) == {0: 0}
    for body in ({"instance_id": INSTANCE, "io_pct": "all"}, {"instance_id": "i-none", "io_pct": 1}, {}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(body)
        with refused.value as error:
            assert error.code == 400
