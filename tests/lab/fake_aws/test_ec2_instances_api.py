"""What the lab reports about instances: what their type allows, and what is left in buckets of their own."""

import json
import re
import urllib.request
from datetime import timedelta

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import FleetError, LabFleet, LabInstance, LabSettings
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.volume import LabVolume
from support.lab.lab_start import INSTANCE, START

pytestmark = [pytest.mark.usefixtures("attached_volume"), pytest.mark.lab_settings(lag_s=60)]


def described_types(lab, *names):
    types = lab.client("ec2").describe_instance_types(InstanceTypes=list(names))["InstanceTypes"]
    return {volume_type["InstanceType"]: volume_type["EbsInfo"] for volume_type in types}


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def balance(
    lab, metric="EBSIOBalance%", stat="Minimum", period_s=300, minutes=60, status="Complete", **changes
):
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
    assert result["StatusCode"] == status
    starts = [(at - START) // timedelta(minutes=1) for at in result["Timestamps"]]
    return dict(zip(starts, result["Values"], strict=True))


def test_every_type_is_reported_with_all_that_botocore_knows_of_it(lab):
    ec2 = lab.client("ec2")
    shape = ec2.meta.service_model.operation_model("DescribeInstanceTypes").output_shape
    pages = ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100})
    described = [entry for page in pages for entry in page["InstanceTypes"]]
    known = [in_model(entry, shape.members["InstanceTypes"].member) for entry in instance_types().values()]
    assert described == known
    assert len(described) > 1_000


def in_model(value, shape):
    """The value without what botocore's model does not have."""
    if shape.type_name == "structure":
        return {
            key: in_model(part, shape.members[key]) for key, part in value.items() if key in shape.members
        }
    return [in_model(part, shape.member) for part in value] if shape.type_name == "list" else value


def test_every_filter_that_botocore_documents_finds_a_type(lab):
    ec2 = lab.client("ec2")
    shape = ec2.meta.service_model.operation_model("DescribeInstanceTypes").input_shape
    names = re.findall(r"<li> <p> <code>([a-z0-9.-]+)</code>", shape.members["Filters"].documentation)
    assert len(names) > 50
    for name in names:
        answer = ec2.describe_instance_types(Filters=[{"Name": name, "Values": ["*"]}], MaxResults=5)
        assert answer["InstanceTypes"], name


FILTERS = [
    ("instance-type", ["t3.m*", "t2.micro"], ["t2.micro", "t3.medium", "t3.micro"]),
    ("ebs-info.ebs-optimized-info.baseline-iops", ["3600"], None),
    ("supported-usage-class", ["capacity-block"], None),
]


@pytest.mark.parametrize(("name", "values", "expected"), FILTERS)
def test_filters_choose_among_all_types(lab, name, values, expected):
    answer = lab.client("ec2").describe_instance_types(Filters=[{"Name": name, "Values": values}])
    names = [entry["InstanceType"] for entry in answer["InstanceTypes"]]
    assert names == expected if expected else len(names) > 3


def test_the_types_come_in_pages_of_a_hundred_at_most(lab):
    ec2 = lab.client("ec2")
    first = ec2.describe_instance_types()
    assert len(first["InstanceTypes"]) == 100
    second = ec2.describe_instance_types(NextToken=first["NextToken"], MaxResults=5)
    assert len(second["InstanceTypes"]) == 5
    assert second["InstanceTypes"][0] not in first["InstanceTypes"]
    metal = [{"Name": "bare-metal", "Values": ["true"]}, {"Name": "hypervisor", "Values": ["xen"]}]
    assert "NextToken" not in ec2.describe_instance_types(Filters=metal)


def test_an_invalid_query_of_types_is_refused_in_ec2s_words(lab):
    ec2 = lab.client("ec2", config=Config(parameter_validation=False))
    assert refusal(ec2.describe_instance_types, InstanceTypes=["m5.large", "x9.huge"]) == (
        "InvalidInstanceType",
        "The following supplied instance types do not exist: [x9.huge]",
    )
    filters = [{"Name": "colour", "Values": ["red"]}]
    assert refusal(ec2.describe_instance_types, Filters=filters)[0] == "InvalidParameterValue"
    for size in (4, 101):
        assert refusal(ec2.describe_instance_types, MaxResults=size)[0] == "InvalidParameterValue"


def test_the_usual_instance_allows_more_than_any_gp2_sustains(lab):
    [[instance]] = [
        reservation["Instances"] for reservation in lab.client("ec2").describe_instances()["Reservations"]
    ]
    [ebs] = described_types(lab, instance["InstanceType"]).values()
    assert ebs["EbsOptimizedInfo"]["BaselineIops"] > 16_000


def test_an_instance_is_described_with_its_volumes_type_and_monitoring(lab, fleet):
    other = fleet.add(LabVolume(size_gib=8, instance_id=INSTANCE, device="/dev/sdf", attached_at=START))
    fleet.set_monitoring(INSTANCE, detailed=True)
    filters = [{"Name": "block-device-mapping.volume-id", "Values": [other]}]
    [reservation] = lab.client("ec2").describe_instances(Filters=filters)["Reservations"]
    [instance] = reservation["Instances"]
    assert instance["InstanceType"] == "m5.24xlarge"
    assert instance["Monitoring"] == {"State": "enabled"}
    assert instance["EbsOptimized"]
    assert instance["BlockDeviceMappings"][1] == {
        "DeviceName": "/dev/sdf",
        "Ebs": {
            "VolumeId": other,
            "Status": "attached",
            "AttachTime": START,
            "DeleteOnTermination": True,
        },
    }
    assert len(instance["BlockDeviceMappings"]) == 2


def test_ten_thousand_instances_come_in_pages(lab, fleet):
    for number in range(9_999):
        fleet.add_instance(
            LabInstance(instance_id=f"i-1{number:016x}", launched_at=START, instance_type="t3.micro", tags={})
        )
    pages = (
        lab.client("ec2").get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 1_000})
    )
    ids = [
        instance["InstanceId"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    assert len(ids) == len(set(ids)) == 10_000


def test_filters_of_instances_apply_after_the_page_is_cut_if_those_of_volumes_do():
    fleet = LabFleet(LabClock.manual(START), LabSettings(filter_after_page=True))
    for number in range(20):
        fleet.add_instance(
            LabInstance(
                instance_id=f"i-0{number:016x}",
                launched_at=START,
                state="running" if number == 15 else "stopped",
                tags={},
            )
        )
    with Endpoint(fleet) as endpoint:
        running = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = (
            endpoint.client("ec2")
            .get_paginator("describe_instances")
            .paginate(Filters=running, PaginationConfig={"PageSize": 10})
        )
        assert [len(page["Reservations"]) for page in pages] == [0, 1]


def test_an_instance_is_stopped_changed_and_started_as_in_ec2(lab, fleet):
    ec2 = lab.client("ec2")
    change = {"InstanceId": INSTANCE, "InstanceType": {"Value": "m5.xlarge"}}
    assert refusal(ec2.modify_instance_attribute, **change) == (
        "IncorrectInstanceState",
        f"The instance '{INSTANCE}' is not in the 'stopped' state.",
    )
    [stopping] = ec2.stop_instances(InstanceIds=[INSTANCE])["StoppingInstances"]
    assert (stopping["PreviousState"]["Name"], stopping["CurrentState"]["Name"]) == ("running", "stopping")
    ec2.modify_instance_attribute(**change)
    change["InstanceType"] = {"Value": "x9.huge"}
    assert refusal(ec2.modify_instance_attribute, **change)[0] == "InvalidInstanceAttributeValue"
    assert refusal(ec2.modify_instance_attribute, InstanceId=INSTANCE)[0] == "InvalidParameterCombination"
    [starting] = ec2.start_instances(InstanceIds=[INSTANCE])["StartingInstances"]
    assert (starting["PreviousState"]["Name"], starting["CurrentState"]["Name"]) == ("stopped", "pending")
    assert (fleet.instances[INSTANCE].state, fleet.instances[INSTANCE].instance_type) == (
        "running",
        "m5.xlarge",
    )
    ec2.terminate_instances(InstanceIds=[INSTANCE])
    assert refusal(ec2.start_instances, InstanceIds=[INSTANCE])[0] == "IncorrectInstanceState"


def test_a_start_renews_the_launch_time_as_in_ec2(lab):
    ec2 = lab.client("ec2")

    def launch_time():
        [reservation] = ec2.describe_instances(InstanceIds=[INSTANCE])["Reservations"]
        return reservation["Instances"][0]["LaunchTime"]

    created_at = launch_time()
    ec2.start_instances(InstanceIds=[INSTANCE])
    assert launch_time() == created_at, "it was running"
    ec2.stop_instances(InstanceIds=[INSTANCE])
    lab.clock.advance(600)
    assert launch_time() == created_at
    ec2.start_instances(InstanceIds=[INSTANCE])
    assert launch_time() == lab.clock.now().replace(microsecond=0)


def test_monitoring_is_switched_as_in_ec2(lab, fleet):
    ec2 = lab.client("ec2")
    [monitored] = ec2.monitor_instances(InstanceIds=[INSTANCE])["InstanceMonitorings"]
    assert monitored == {"InstanceId": INSTANCE, "Monitoring": {"State": "pending"}}
    assert fleet.instances[INSTANCE].detailed_monitoring
    [unmonitored] = ec2.unmonitor_instances(InstanceIds=[INSTANCE])["InstanceMonitorings"]
    assert unmonitored["Monitoring"] == {"State": "disabling"}
    assert not fleet.instances[INSTANCE].detailed_monitoring


def test_a_type_without_buckets_publishes_no_balance_unless_one_is_set(lab):
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


def control(lab, path, body=None):
    request = urllib.request.Request(
        f"{lab.url}/_lab/{path}", data=None if body is None else json.dumps(body).encode()
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_another_process_changes_an_instance_and_its_buckets_over_http(lab, fleet):
    change = {"instance_id": INSTANCE, "state": "stopped", "instance_type": "m5.large"}
    assert control(lab, "instance", change) == change
    control(lab, "instance", {"instance_id": INSTANCE, "state": "running", "detailed_monitoring": True})
    truth = control(lab, "instance-bucket", {"instance_id": INSTANCE, "io_pct": 40})
    assert truth["io"] == {
        "limit": 18_750,
        "balance_pct": 40,
        "empty_since": None,
        "first_empty_at": None,
    }
    assert control(lab, f"truth/{INSTANCE}") == truth
    [listed] = control(lab, "instances")
    assert (listed["instance_type"], listed["state"], listed["detailed_monitoring"]) == (
        "m5.large",
        "running",
        True,
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        control(lab, "instance", {"instance_id": INSTANCE})
    with refused.value as error:
        assert "needs 'state'" in json.load(error)["error"]


def test_another_process_hides_the_metrics_of_an_instance_over_http(lab, fleet):
    fleet.set_instance_balance(INSTANCE, 50, 50)
    control(lab, "gap", {"instance_id": INSTANCE, "in_seconds": 300, "seconds": 600})
    lab.clock.advance(26 * 60)
    assert list(balance(lab)) == [0, 15, 20]
    control(lab, "metric-fault", {"instance_id": INSTANCE, "status_code": "Forbidden"})
    assert balance(lab, status="Forbidden") == {}


def test_another_process_sets_a_balance_over_http(lab):
    def post(body):
        return control(lab, "instance-balance", body)

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
