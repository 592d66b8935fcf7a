import json
import re
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Thread

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, ReadTimeoutError

from burstlab.fake_aws.control_api import _ROUTE_FIELDS
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import Endpoint, EndpointError
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.modification import Modification, VolumeSpec
from burstlab.model.volume import LabVolume, MetricFault
from support.aws.stub_clients import ONCE
from support.lab.lab_start import START

SHORT_TIMEOUTS = Config(retries={"total_max_attempts": 1}, read_timeout=0.3)


def a_query(volume_id, *, query_id="m0", metric="BurstBalance", stat="Minimum", period=60, **options):
    stat_of = {
        "Metric": {
            "Namespace": "AWS/EBS",
            "MetricName": metric,
            "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
        },
        "Period": period,
        "Stat": stat,
        **options,
    }
    return {"Id": query_id, "MetricStat": stat_of}


def get_metric_data(cloudwatch, queries, *, minutes=30, now=None, **options):
    now = now or START
    return cloudwatch.get_metric_data(
        MetricDataQueries=queries,
        StartTime=now - timedelta(minutes=minutes),
        EndTime=now,
        **options,
    )


def datapoints_of(result):
    return {
        int((at - START).total_seconds() // 60): value
        for at, value in zip(result["Timestamps"], result["Values"], strict=True)
    }


def refusal(call, **arguments):
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


# ------------------------------------------------------------------------------------------- DescribeVolumes


def test_a_gp2_volume_is_described_as_ec2_describes_it(fleet, ec2):
    volume_id = fleet.add(
        LabVolume(
            size_gib=100,
            tags={"Name": "ci <7> & more", "burstwatch:mode": "auto"},
            created_at=datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC),
            attached_at=datetime(2024, 3, 1, tzinfo=UTC),
            instance_id="i-0123456789abcdef0",
            device="/dev/sda1",
        )
    )
    (volume,) = ec2.describe_volumes()["Volumes"]
    assert volume == {
        "VolumeId": volume_id,
        "Size": 100,
        "VolumeType": "gp2",
        "Iops": 300,
        "State": "in-use",
        "CreateTime": datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC),
        "AvailabilityZone": "us-east-1a",
        "SnapshotId": "",
        "Encrypted": False,
        "MultiAttachEnabled": False,
        "Operator": {"Managed": False},
        "Tags": [{"Key": "Name", "Value": "ci <7> & more"}, {"Key": "burstwatch:mode", "Value": "auto"}],
        "Attachments": [
            {
                "VolumeId": volume_id,
                "InstanceId": "i-0123456789abcdef0",
                "Device": "/dev/sda1",
                "State": "attached",
                "AttachTime": datetime(2024, 3, 1, tzinfo=UTC),
                "DeleteOnTermination": True,
            }
        ],
    }


def test_odd_volumes_are_described_with_their_oddness(fleet, ec2):
    old = fleet.add(LabVolume(size_gib=8, shown_iops=24))
    loose = fleet.add(LabVolume(size_gib=8, attached=False))
    served = fleet.add(LabVolume(size_gib=8, service_owner="ecs.amazonaws.com"))
    fast = fleet.add(LabVolume(size_gib=100, volume_type="gp3", iops=4_000, throughput_mib_s=250))
    shared = fleet.add(LabVolume(size_gib=100, volume_type="io2", iops=5_000, multi_attached=True))
    cold = fleet.add(LabVolume(size_gib=500, volume_type="sc1"))
    local = fleet.add(LabVolume(size_gib=8, zone="us-east-1-bos-1a"))
    outpost = fleet.add(LabVolume(size_gib=8, outpost_arn="arn:aws:outposts:us-east-1:1:outpost/op-1"))
    by_id = {volume["VolumeId"]: volume for volume in ec2.describe_volumes()["Volumes"]}
    assert by_id[old]["Iops"] == 24
    assert (by_id[loose]["State"], by_id[loose]["Attachments"]) == ("available", [])
    (attachment,) = by_id[served]["Attachments"]
    assert "InstanceId" not in attachment
    assert attachment["InstanceOwningService"] == "ecs.amazonaws.com"
    assert (by_id[fast]["Iops"], by_id[fast]["Throughput"]) == (4_000, 250)
    assert by_id[shared]["MultiAttachEnabled"] is True
    assert "Iops" not in by_id[cold]
    assert (by_id[local]["AvailabilityZone"], "OutpostArn" in by_id[local]) == ("us-east-1-bos-1a", False)
    assert by_id[outpost]["OutpostArn"] == "arn:aws:outposts:us-east-1:1:outpost/op-1"


def test_pages_hold_what_was_requested_and_end(fleet, ec2):
    ids = fleet.add_all([LabVolume(size_gib=8)] * 23)
    first = ec2.describe_volumes(MaxResults=10)
    assert len(first["Volumes"]) == 10
    fleet.remove(ids[2])  # what vanishes between two pages shifts nothing
    pages = ec2.get_paginator("describe_volumes").paginate(PaginationConfig={"PageSize": 10})
    assert [len(page["Volumes"]) for page in pages] == [10, 10, 2]
    second = ec2.describe_volumes(MaxResults=10, NextToken=first["NextToken"])
    assert [volume["VolumeId"] for volume in second["Volumes"]] == ids[10:20]
    assert len(ec2.describe_volumes()["Volumes"]) == 22


def test_a_page_is_never_longer_than_five_hundred(fleet, ec2):
    fleet.add_all([LabVolume(size_gib=8)] * 501)
    assert len(ec2.describe_volumes(MaxResults=1_000)["Volumes"]) == 500


FILTERS = [
    ("volume-type", ["gp2"], {"ci", "db", "loose"}),
    ("volume-type", ["gp3", "io1"], {"fast"}),
    ("status", ["available"], {"loose"}),
    ("size", ["100"], {"ci", "fast"}),
    ("attachment.instance-id", ["i-0a"], {"ci"}),
    ("attachment.status", ["attached"], {"ci", "db", "fast"}),
    ("tag:team", ["build"], {"ci"}),
    ("tag:team", ["b*"], {"ci", "db"}),
    ("tag:team", ["B*"], set()),
    ("tag:Name", ["?i"], {"ci"}),
    ("tag-key", ["team"], {"ci", "db"}),
    ("operator.managed", ["true"], {"fast"}),
    ("operator.managed", ["false"], {"ci", "db", "loose"}),
]


@pytest.mark.parametrize(("name", "values", "expected"), FILTERS)
def test_filters_choose_as_in_ec2(fleet, ec2, name, values, expected):
    fleet.add(LabVolume(size_gib=100, instance_id="i-0a", tags={"Name": "ci", "team": "build"}))
    fleet.add(LabVolume(size_gib=500, tags={"Name": "db", "team": "bank"}))
    fleet.add(LabVolume(size_gib=8, attached=False, tags={"Name": "loose"}))
    fleet.add(LabVolume(size_gib=100, volume_type="gp3", managed_by="eks", tags={"Name": "fast"}))
    result = ec2.describe_volumes(Filters=[{"Name": name, "Values": values}])["Volumes"]
    names = {tag["Value"] for volume in result for tag in volume["Tags"] if tag["Key"] == "Name"}
    assert names == expected


def test_several_filters_must_all_hold_and_unknown_ids_are_left_out(fleet, ec2):
    ids = fleet.add_all([LabVolume(size_gib=8), LabVolume(size_gib=9)])
    filters = [
        {"Name": "volume-id", "Values": [*ids, "vol-0123456789abcdef0"]},
        {"Name": "size", "Values": ["9"]},
    ]
    assert [v["VolumeId"] for v in ec2.describe_volumes(Filters=filters)["Volumes"]] == [ids[1]]


def test_hidden_managed_volumes_are_listed_only_when_requested_or_by_id(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=8, managed_by="eks.amazonaws.com", hidden=True))
    assert ec2.describe_volumes()["Volumes"] == []
    (listed,) = ec2.describe_volumes(IncludeManagedResources=True)["Volumes"]
    (by_id,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert listed == by_id
    assert by_id["Operator"] == {"Managed": True, "Principal": "eks.amazonaws.com", "HiddenByDefault": True}


UNKNOWN_ID, OTHER_UNKNOWN_ID = "vol-0000000000000dead", "vol-0000000000000beef"
REFUSED = [
    ({"VolumeIds": [UNKNOWN_ID]}, "InvalidVolume.NotFound", f"The volume '{UNKNOWN_ID}' does not exist."),
    (
        {"VolumeIds": [UNKNOWN_ID, OTHER_UNKNOWN_ID]},
        "InvalidVolume.NotFound",
        f"The volumes '{UNKNOWN_ID}, {OTHER_UNKNOWN_ID}' do not exist.",
    ),
    (
        {"VolumeIds": ["disk-1"]},
        "InvalidParameterValue",
        "Value (disk-1) for parameter volumes is invalid. Expected: 'vol-...'.",
    ),
    ({"VolumeIds": ["vol-xyz"]}, "InvalidVolumeID.Malformed", 'Invalid id: "vol-xyz"'),
    (
        {"VolumeIds": [UNKNOWN_ID], "MaxResults": 500},
        "InvalidParameterCombination",
        "The parameter volumeSet cannot be used with the parameter maxResults",
    ),
    (
        {"Filters": [{"Name": "volume-id", "Values": [f"vol-{i:017x}" for i in range(201)]}]},
        "FilterLimitExceeded",
        "The maximum number of filter values specified on a single call is 200",
    ),
    (
        {"Filters": [{"Name": "colour", "Values": ["x"]}]},
        "InvalidParameterValue",
        "The filter 'colour' is invalid",
    ),
    ({"NextToken": "!"}, "InvalidNextToken", "The token '!' is not valid"),
    (
        {"MaxResults": 4},
        "InvalidParameterValue",
        "Value ( 4 ) for parameter maxResults is invalid. Expecting at least 5.",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
def test_describe_volumes_refuses_in_ec2s_words(ec2, arguments, code, message):
    assert refusal(ec2.describe_volumes, **arguments) == (code, message)


def test_another_region_knows_nothing_of_the_fleet(fleet, lab):
    fleet.add(LabVolume(size_gib=8))
    elsewhere = boto3.client(
        "ec2",
        endpoint_url=lab.url,
        region_name="eu-west-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    assert elsewhere.describe_volumes()["Volumes"] == []
    elsewhere.close()


@pytest.mark.parametrize("service", ["ec2", "sqs", "ssm"])
def test_a_region_that_does_not_exist_is_refused(lab, service):
    nowhere = boto3.client(
        service,
        endpoint_url=lab.url,
        region_name="us-eastt-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    call = {"ec2": "describe_volumes", "sqs": "list_queues", "ssm": "describe_parameters"}[service]
    code, message = refusal(getattr(nowhere, call))
    assert (code, message) == (
        "AuthFailure",
        "Credential should be scoped to a valid Region, not 'us-eastt-1'.",
    )
    nowhere.close()


@pytest.mark.parametrize(
    ("service", "call"),
    [
        ("cloudformation", "describe_stacks"),
        ("apigateway", "get_rest_apis"),
        ("stepfunctions", "list_state_machines"),
    ],
)
def test_a_service_for_which_moto_lacks_a_package_is_refused(lab, monkeypatch, service, call):
    monkeypatch.setitem(sys.modules, f"moto.{service}", None)
    with closing(lab.client(service, config=ONCE)) as client:
        code, message = refusal(getattr(client, call))
    assert code == "NotImplemented"
    assert "The lab does not simulate" in message


# ------------------------------------------------------------------- instances, tags, modifications


def test_instances_report_whether_they_run(fleet, ec2):
    fleet.add(LabVolume(size_gib=8, instance_id="i-0123456789abcdef0"))
    fleet.add(LabVolume(size_gib=8, instance_id="i-0123456789abcdef1"))
    fleet.stop_instance("i-0123456789abcdef0")
    stopped = ec2.describe_instances(InstanceIds=["i-0123456789abcdef0"])
    (instance,) = stopped["Reservations"][0]["Instances"]
    assert instance["State"] == {"Code": 80, "Name": "stopped"}
    running = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])
    assert [r["Instances"][0]["InstanceId"] for r in running["Reservations"]] == ["i-0123456789abcdef1"]
    assert refusal(ec2.describe_instances, InstanceIds=["i-0123456789abcdef0", "i-0dead"]) == (
        "InvalidInstanceID.NotFound",
        "The instance ID 'i-0dead' does not exist",
    )
    assert refusal(ec2.describe_instances, InstanceIds=["i-0dead"])[0] == "InvalidInstanceID.NotFound"


def test_tags_are_created_and_deleted_like_any_others(fleet, ec2):
    volume_id = fleet.add(LabVolume(size_gib=8, tags={"a": "1", "b": "2"}))
    ec2.create_tags(Resources=[volume_id], Tags=[{"Key": "burstwatch:mode", "Value": "auto"}])
    ec2.delete_tags(Resources=[volume_id], Tags=[{"Key": "a"}, {"Key": "b", "Value": "other"}])
    assert fleet.find(volume_id).tags == {"b": "2", "burstwatch:mode": "auto"}


def test_modifications_are_listed_by_filter_but_a_never_modified_id_fails_the_call(fleet, ec2):
    changed, never = fleet.add_all([LabVolume(size_gib=100)] * 2)
    fleet.set_modification(
        changed,
        Modification(
            state="optimizing",
            original=VolumeSpec(volume_type="gp2", size_gib=100, iops=300),
            target=VolumeSpec(volume_type="gp3", size_gib=100, iops=3_000, throughput_mib_s=128),
            started_at=START,
            progress_pct=40,
        ),
    )
    by_filter = ec2.describe_volumes_modifications(
        Filters=[{"Name": "volume-id", "Values": [changed, never]}]
    )
    (modification,) = by_filter["VolumesModifications"]
    assert modification == {
        "VolumeId": changed,
        "ModificationState": "optimizing",
        "OriginalVolumeType": "gp2",
        "OriginalSize": 100,
        "OriginalIops": 300,
        "OriginalMultiAttachEnabled": False,
        "TargetVolumeType": "gp3",
        "TargetSize": 100,
        "TargetIops": 3_000,
        "TargetThroughput": 128,
        "TargetMultiAttachEnabled": False,
        "Progress": 40,
        "StartTime": START,
    }
    assert ec2.describe_volumes_modifications(VolumeIds=[changed])["VolumesModifications"] == [modification]
    result = [{"Name": "modification-state", "Values": ["completed"]}]
    assert ec2.describe_volumes_modifications(Filters=result)["VolumesModifications"] == []
    assert refusal(ec2.describe_volumes_modifications, VolumeIds=[changed, never]) == (
        "InvalidVolumeModification.NotFound",
        f"Modification for volume '{never}' does not exist.",
    )


# --------------------------------------------------------------------------------------------- GetMetricData


def test_bytes_are_operations_times_their_size_in_every_period(fleet, in_any_protocol):
    volume_id = fleet.add(LabVolume(size_gib=100, load="docker-loop@4%25"))
    fleet.clock.advance(600)
    queries = [
        a_query(volume_id, query_id=f"m{index}", metric=metric, stat="Sum")
        for index, metric in enumerate(
            ("VolumeReadOps", "VolumeReadBytes", "VolumeWriteOps", "VolumeWriteBytes")
        )
    ]
    answer = get_metric_data(in_any_protocol, queries, now=fleet.clock.now())
    reads, read_bytes, writes, write_bytes = map(datapoints_of, answer["MetricDataResults"])
    # 460 operations a second, a quarter of them reads: 6,900 a minute
    assert reads == pytest.approx(dict.fromkeys(range(10), 6_900))
    assert read_bytes == pytest.approx(dict.fromkeys(range(10), 6_900 * 4_096))
    assert write_bytes == pytest.approx({minute: count * 4_096 for minute, count in writes.items()})


def test_another_size_from_some_minute_on_begins_there(fleet):
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:60@16%100"))
    fleet.clock.advance(600)
    fleet.set_load(volume_id, "steady:60@64%100")
    fleet.clock.advance(630)
    runs = fleet.find(volume_id).history.runs(0, 10**9)
    assert [(run.minute_count, run.read_ops, run.read_kib) for run in runs] == [
        (10, 3_600, 3_600 * 16),
        (10, 3_600, 3_600 * 64),
    ]


def test_bytes_put_by_a_client_are_kept_where_the_fleet_publishes_none():
    quiet = LabFleet(LabClock.manual(START), LabSettings(publishes_bytes=False))
    with Endpoint(quiet) as endpoint:
        volume_id = quiet.add(LabVolume(size_gib=100, load="steady:3000"))
        quiet.clock.advance(180)
        query = a_query(volume_id, metric="VolumeReadBytes", stat="Sum")
        [result] = get_metric_data(endpoint.client("cloudwatch"), [query], now=quiet.clock.now())[
            "MetricDataResults"
        ]
    assert (result["StatusCode"], result["Values"]) == ("Complete", [])


def test_metrics_are_the_same_in_every_protocol(fleet, in_any_protocol):
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(180)
    queries = [a_query(volume_id), a_query(volume_id, query_id="r", metric="VolumeReadOps", stat="Sum")]
    answer = get_metric_data(in_any_protocol, queries, now=fleet.clock.now())
    balance, reads = answer["MetricDataResults"]
    assert (balance["Id"], balance["Label"], balance["StatusCode"]) == ("m0", "BurstBalance", "Complete")
    assert balance["Timestamps"][0] == START + timedelta(minutes=2)
    assert datapoints_of(balance) == pytest.approx({0: 97, 1: 94, 2: 91})
    assert balance["Values"] == pytest.approx([91, 94, 97])
    assert datapoints_of(reads) == {0: 45_000, 1: 45_000, 2: 45_000}
    assert refusal(in_any_protocol.get_metric_data, MetricDataQueries=[], StartTime=START, EndTime=START) == (
        "ValidationError",
        "The parameter MetricDataQueries is required.",
    )


def test_start_is_inclusive_end_exclusive_and_the_order_can_be_chosen(fleet, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(600)
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=[a_query(volume_id)],
        StartTime=START + timedelta(minutes=2, seconds=30),  # rounded down to its minute
        EndTime=START + timedelta(minutes=4),
        ScanBy="TimestampAscending",
    )
    assert answer["MetricDataResults"][0]["Timestamps"] == [START + timedelta(minutes=m) for m in (2, 3)]


def test_what_was_never_published_is_an_empty_complete_result(fleet, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.clock.advance(600)
    query = a_query(volume_id, query_id="both")
    query["MetricStat"]["Metric"]["Dimensions"].append({"Name": "InstanceId", "Value": "i-0a"})
    queries = [
        a_query(UNKNOWN_ID, query_id="gone"),
        a_query(volume_id, query_id="unit", Unit="Count"),
        query,
        a_query(volume_id, query_id="other", metric="VolumeQueueLength"),
        a_query(volume_id, query_id="right", Unit="Percent"),
    ]
    results = get_metric_data(cloudwatch, queries, now=fleet.clock.now())["MetricDataResults"]
    assert {result["Id"]: len(result["Values"]) for result in results} == {
        "gone": 0,
        "unit": 0,
        "both": 0,
        "other": 0,
        "right": 10,
    }
    assert {result["StatusCode"] for result in results} == {"Complete"}


def test_metrics_put_by_others_ride_along(fleet, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.clock.advance(600)
    cloudwatch.put_metric_data(
        Namespace="Lab/Endpoint",
        MetricData=[{"MetricName": "Looks", "Value": 7, "Timestamp": START + timedelta(minutes=3)}],
    )
    put = {"Metric": {"Namespace": "Lab/Endpoint", "MetricName": "Looks"}, "Period": 60, "Stat": "Sum"}
    results = get_metric_data(
        cloudwatch,
        [a_query(volume_id), {"Id": "looks", "MetricStat": put}],
        now=fleet.clock.now(),
    )["MetricDataResults"]
    assert len(results[0]["Values"]) == 10
    assert datapoints_of(results[1]) == {3: 7}


def test_pages_split_results_by_id_and_lose_nothing(fleet, cloudwatch):
    ids = fleet.add_all([LabVolume(size_gib=100, load="steady:3000")] * 3)
    fleet.clock.advance(600)
    queries = [a_query(volume_id, query_id=f"m{number}") for number, volume_id in enumerate(ids)]
    queries.insert(1, a_query(UNKNOWN_ID, query_id="gone"))
    whole = get_metric_data(cloudwatch, queries, now=fleet.clock.now())["MetricDataResults"]
    for order in ("TimestampDescending", "TimestampAscending"):
        pages, token = [], {}
        while True:
            page = get_metric_data(
                cloudwatch, queries, now=fleet.clock.now(), MaxDatapoints=7, ScanBy=order, **token
            )
            pages.append(page["MetricDataResults"])
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert [[(r["Id"], len(r["Values"]), r["StatusCode"]) for r in page] for page in pages] == [
            [("m0", 7, "PartialData")],
            [("m0", 3, "Complete"), ("gone", 0, "Complete"), ("m1", 4, "PartialData")],
            [("m1", 6, "Complete"), ("m2", 1, "PartialData")],
            [("m2", 7, "PartialData")],
            [("m2", 2, "Complete")],
        ]
        merged = {}
        for page in pages:
            for result in page:
                merged.setdefault(result["Id"], []).extend(result["Values"])
        flip = 1 if order == "TimestampDescending" else -1
        assert merged == {result["Id"]: result["Values"][::flip] for result in whole}


METRIC_FAULTS = [("Forbidden", 0), ("InternalError", 0), ("PartialData", 5)]


@pytest.mark.parametrize(("status_code", "values"), METRIC_FAULTS)
def test_one_metric_can_fail_within_a_call_that_succeeds(fleet, cloudwatch, status_code, values):
    bad, good = fleet.add_all([LabVolume(size_gib=100)] * 2)
    fleet.clock.advance(600)
    fleet.set_metric_fault(bad, MetricFault(status_code=status_code, message="not today"))
    queries = [a_query(bad, query_id="bad"), a_query(good, query_id="good")]
    failed, fine = get_metric_data(cloudwatch, queries, now=fleet.clock.now())["MetricDataResults"]
    assert (failed["StatusCode"], len(failed["Values"])) == (status_code, values)
    assert failed["Messages"] == [{"Code": status_code, "Value": "not today"}]
    assert (fine["StatusCode"], len(fine["Values"])) == ("Complete", 10)


def test_a_query_whose_data_is_not_wanted_is_not_returned(fleet, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100))
    queries = [{**a_query(volume_id), "ReturnData": False}, a_query(volume_id, query_id="shown")]
    assert [r["Id"] for r in get_metric_data(cloudwatch, queries)["MetricDataResults"]] == ["shown"]


BAD_QUERIES = [
    (
        [a_query(UNKNOWN_ID, query_id=f"m{i}") for i in range(501)],
        "The collection MetricDataQueries must not have a size greater than 500.",
    ),
    (
        [a_query(UNKNOWN_ID, query_id="vol-1")],
        (
            "The value vol-1 for parameter MetricDataQueries.member.1.Id is not matching the expected "
            "pattern ^[a-z][a-zA-Z0-9_]*$."
        ),
    ),
    (
        [a_query(UNKNOWN_ID), a_query(UNKNOWN_ID)],
        "The values for parameter id in MetricDataQueries are not unique.",
    ),
    (
        [a_query(UNKNOWN_ID, period=90)],
        "The parameter MetricDataQueries.member.1.MetricStat.Period must be a multiple of 60, not 90.",
    ),
    (
        [a_query(UNKNOWN_ID, stat="Median")],
        "The value Median for parameter MetricDataQueries.member.1.MetricStat.Stat is not supported.",
    ),
    (
        [{"Id": "e1", "Expression": "SELECT 1"}],
        "MetricDataQueries.member.1.Expression: burstlab computes no metric math and no Metrics Insights.",
    ),
    ([{"Id": "e1"}], "The parameter MetricDataQueries.member.1.MetricStat is required.\n"),
]


@pytest.mark.parametrize(("queries", "message"), BAD_QUERIES)
def test_get_metric_data_refuses_in_cloudwatchs_words(cloudwatch, queries, message):
    assert refusal(get_metric_data, cloudwatch=cloudwatch, queries=queries) == ("ValidationError", message)


BAD_ARGUMENTS = [
    ({"minutes": 0}, "ValidationError", "The parameter StartTime must be less than the parameter EndTime."),
    ({"NextToken": "x"}, "InvalidNextToken", "The token x is not valid."),
    ({"NextToken": "WzksIG51bGxd"}, "InvalidNextToken", "The token WzksIG51bGxd is not valid."),
    (
        {"MaxDatapoints": 100_801},
        "ValidationError",
        "The parameter MaxDatapoints must be between 1 and 100800; it is 100801.",
    ),
    ({"ScanBy": "Name"}, "ValidationError", "The value Name for parameter ScanBy is not supported."),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD_ARGUMENTS)
def test_get_metric_data_refuses_arguments(cloudwatch, arguments, code, message):
    assert refusal(get_metric_data, cloudwatch=cloudwatch, queries=[a_query(UNKNOWN_ID)], **arguments) == (
        code,
        message,
    )


# ------------------------------------------------------------------------------------ the server itself


# --------------------------------------------------------------------------------------- GetMetricStatistics


def get_statistics(client, volume_id, statistics, *, minutes, period, now):
    return client.get_metric_statistics(
        Namespace="AWS/EBS",
        MetricName="BurstBalance",
        Dimensions=[{"Name": "VolumeId", "Value": volume_id}],
        StartTime=now - timedelta(minutes=minutes),
        EndTime=now,
        Period=period,
        Statistics=statistics,
    )["Datapoints"]


def test_periods_of_get_metric_statistics_begin_with_its_start_in_every_protocol(fleet, in_any_protocol):
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    fleet.clock.advance(15 * 60)
    now = fleet.clock.now()
    first, second = get_statistics(
        in_any_protocol, volume_id, ["Minimum", "Average", "SampleCount"], minutes=13, period=600, now=now
    )
    assert (first["Timestamp"] - START, second["Timestamp"] - START) == (
        timedelta(minutes=2),
        timedelta(minutes=12),
    )
    assert (first["Minimum"], first["Average"]) == (pytest.approx(64), pytest.approx(79))
    assert (first["Unit"], first["SampleCount"], second["SampleCount"]) == ("Percent", 600, 180)


def test_get_metric_statistics_returns_nothing_for_a_gap_and_refuses_too_many_datapoints(fleet, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100, load="idle"))
    fleet.hide_metrics(volume_id, from_at=START, to_at=START + timedelta(hours=1))
    fleet.clock.advance(600)
    now = fleet.clock.now()
    assert get_statistics(cloudwatch, volume_id, ["Sum"], minutes=10, period=60, now=now) == []
    with pytest.raises(ClientError, match="at most 1440 datapoints"):
        get_statistics(cloudwatch, volume_id, ["Sum"], minutes=1_500, period=60, now=now)


def test_what_the_lab_does_not_know_is_answered_by_moto(lab):
    for service, call in (("sts", "get_caller_identity"), ("sns", "list_topics"), ("sqs", "list_queues")):
        client = lab.client(service)
        assert getattr(client, call)()["ResponseMetadata"]["HTTPStatusCode"] == 200
        client.close()


def test_every_answer_carries_lab_time(lab, ec2):
    lab.clock.advance(12_345)
    for answer in (ec2.describe_volumes(), ec2.describe_regions()):
        date = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
        assert parsedate_to_datetime(date) == START + timedelta(seconds=12_345)


THROTTLED = [
    ("ec2", "describe_volumes", "RequestLimitExceeded"),
    ("sns", "list_topics", "ThrottlingException"),
]


@pytest.mark.parametrize(("service", "call", "code"), THROTTLED)
def test_throttling_uses_the_error_code_of_the_service(lab, service, call, code):
    lab.faults.add(Fault(kind="throttle"))
    client = lab.client(service, config=ONCE)
    assert refusal(getattr(client, call))[0] == code
    client.close()


def test_cloudwatch_throttles_in_every_protocol(lab, in_any_protocol):
    lab.faults.add(Fault(action="GetMetricData", kind="throttle"))
    assert refusal(get_metric_data, cloudwatch=in_any_protocol, queries=[a_query(UNKNOWN_ID)]) == (
        "Throttling",
        "Rate exceeded",
    )


def test_a_fault_occurs_as_often_as_set_and_only_for_matching_calls(fleet, lab, ec2):
    item, other = fleet.add_all([LabVolume(size_gib=8)] * 2)
    lab.faults.add(
        Fault(action="DescribeVolumes", code="InternalError", status=500, volume_ids=[item], times=2)
    )
    ec2.describe_volumes(VolumeIds=[other])
    for _ in range(2):
        assert refusal(ec2.describe_volumes, VolumeIds=[item])[0] == "InternalError"
    ec2.describe_volumes(VolumeIds=[item])
    ec2.describe_regions()
    assert lab.faults.call_counts() == {"DescribeVolumes": 4, "DescribeRegions": 1}


def test_every_third_call_can_fail(lab, ec2):
    lab.faults.add(Fault(action="DescribeVolumes", code="Unavailable", status=503, every=3))
    failed = []
    for _ in range(6):
        try:
            ec2.describe_volumes()
            failed.append(False)
        except ClientError:
            failed.append(True)
    assert failed == [False, False, True, False, False, True]


def test_a_retrying_client_gets_through_a_throttle_that_ends(lab):
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle", times=1))
    retrying = lab.client("ec2", config=Config(retries={"mode": "standard", "total_max_attempts": 3}))
    assert retrying.describe_volumes()["ResponseMetadata"]["RetryAttempts"] == 1
    retrying.close()


def test_connections_can_be_reset_and_calls_left_without_an_answer(lab, ec2):
    lab.faults.add(Fault(action="DescribeVolumes", kind="reset", times=1))
    with pytest.raises(ConnectionClosedError):
        ec2.describe_volumes()
    lab.faults.add(Fault(action="DescribeVolumes", kind="timeout", times=1))
    hasty = lab.client("ec2", config=SHORT_TIMEOUTS)
    with pytest.raises(ReadTimeoutError):
        hasty.describe_volumes()
    hasty.close()
    ec2.describe_volumes()


def test_latency_is_added_to_every_call(lab, ec2):
    ec2.describe_volumes()
    lab.faults.set_latency(80)
    started = time.monotonic()
    ec2.describe_volumes()
    assert time.monotonic() - started >= 0.08


def try_call(call):
    """Call, and do not care how it ends."""
    with suppress(BotoCoreError, ClientError):
        call()


def test_stopping_lets_go_of_held_calls_and_frees_the_port(fleet):
    lab = Endpoint(fleet)
    url = lab.start()
    lab.faults.set_latency(50_000)
    client = lab.client("ec2", config=Config(retries={"total_max_attempts": 1}, read_timeout=20))

    caller = Thread(target=try_call, args=(client.describe_volumes,))
    caller.start()
    while not lab.faults.call_counts():
        time.sleep(0.005)
    lab.stop()
    caller.join(timeout=5)
    assert not caller.is_alive()
    client.close()
    with pytest.raises(EndpointError, match="not running"):
        lab.url  # noqa: B018 - the property raises
    with Endpoint(fleet, port=int(url.rsplit(":", 1)[1])) as repeated:
        assert repeated.url == url


def test_a_port_that_is_taken_is_named(lab, fleet):
    port = int(lab.url.rsplit(":", 1)[1])
    with pytest.raises(EndpointError, match=f"127.0.0.1:{port} cannot be listened on"):
        Endpoint(fleet, port=port).start()


def test_many_clients_at_once_see_one_truth(fleet, lab):
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    client = lab.client("cloudwatch")  # boto3 clients may be shared by threads
    responses = []

    def look():
        for _ in range(5):
            fleet.clock.advance(7)
            now = fleet.clock.now() + timedelta(minutes=1)
            responses.append(
                datapoints_of(get_metric_data(client, [a_query(volume_id)], now=now)["MetricDataResults"][0])
            )

    lookers = [Thread(target=look) for _ in range(6)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    client.close()
    # 6 * 5 * 7 s = 210 s: three whole minutes at 3 %
    assert max(responses, key=len) == pytest.approx({0: 97, 1: 94, 2: 91})
    assert all(
        item == {minute: value for minute, value in max(responses, key=len).items() if minute in item}
        for item in responses
    )


def test_two_labs_live_side_by_side():
    fleets = [LabFleet(LabClock.manual(START)) for _ in range(2)]
    fleets[0].add(LabVolume(size_gib=8))
    with Endpoint(fleets[0]) as item, Endpoint(fleets[1]) as other:
        counts = []
        for lab in (item, other):
            client = lab.client("ec2")
            counts.append(len(client.describe_volumes()["Volumes"]))
            client.close()
    assert counts == [1, 0]


# --------------------------------------------------------------------------------------------- /_lab/


def control(lab, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{lab.url}/_lab/{path}", data=data, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_lab_is_steered_over_http(fleet, lab, ec2):
    volume_id = fleet.add(LabVolume(size_gib=100, tags={"Name": "ci"}))
    assert control(lab, "GET", "")[1]["volumes"] == 1
    assert control(lab, "GET", "clock")[1] == {"now": START.isoformat(), "speed": 0}
    assert control(lab, "GET", "volumes")[1][0]["volume_id"] == volume_id
    control(lab, "POST", "load", {"volume_id": volume_id, "load": "steady:3000"})
    control(lab, "POST", "load", {"volume_id": volume_id, "load": "idle", "in_seconds": 600})
    assert control(lab, "POST", "advance", {"seconds": 660})[1]["now"] == "2026-11-20T18:11:00+00:00"
    truth = control(lab, "GET", f"truth/{volume_id}")[1]
    # ten minutes at -3 %, one at +0.3333 %
    assert truth["burst_balance_pct"] == pytest.approx(70.3333, abs=1e-4)
    assert (truth["served_iops"], truth["first_dry_at"]) == (0, None)
    assert control(lab, "POST", "tags", {"volume_id": volume_id, "tags": {"Name": None, "a": "b"}})[1][
        "tags"
    ] == {"a": "b"}
    assert (
        control(lab, "POST", "balance", {"volume_id": volume_id, "balance_pct": 5})[1]["credits"] == 270_000
    )
    control(lab, "POST", "faults", {"action": "DescribeVolumes", "kind": "throttle", "times": 1})
    assert refusal(ec2.describe_volumes)[0] == "RequestLimitExceeded"
    assert control(lab, "GET", "faults")[1][0]["struck"] == 1
    assert control(lab, "DELETE", "faults")[1] == []
    assert control(lab, "GET", "calls")[1] == {"DescribeVolumes": 1}
    assert control(lab, "DELETE", "calls")[1] == {}
    assert control(lab, "POST", "clock", {"speed": 60})[1]["speed"] == 60


def test_attachments_instances_and_telemetry_are_steered_over_http(fleet, lab, cloudwatch):
    volume_id = fleet.add(LabVolume(size_gib=100))
    control(lab, "POST", "gap", {"volume_id": volume_id, "in_seconds": 60, "seconds": 60})
    control(lab, "POST", "advance", {"seconds": 180})
    control(lab, "POST", "detach", {"volume_id": volume_id})
    control(lab, "POST", "advance", {"seconds": 60})
    instance_id = control(lab, "POST", "attach", {"volume_id": volume_id})[1]["instance_id"]
    control(lab, "POST", "instance", {"instance_id": instance_id, "state": "stopped"})
    control(lab, "POST", "advance", {"seconds": 60})
    control(lab, "POST", "instance", {"instance_id": instance_id, "state": "running"})
    control(lab, "POST", "advance", {"seconds": 60})
    (result,) = get_metric_data(cloudwatch, [a_query(volume_id)], now=fleet.clock.now())["MetricDataResults"]
    assert sorted(datapoints_of(result)) == [0, 2, 5]
    control(lab, "POST", "metric-fault", {"volume_id": volume_id, "status_code": "Forbidden"})
    assert (
        get_metric_data(cloudwatch, [a_query(volume_id)])["MetricDataResults"][0]["StatusCode"] == "Forbidden"
    )
    control(lab, "POST", "metric-fault", {"volume_id": volume_id, "status_code": None})
    assert (
        get_metric_data(cloudwatch, [a_query(volume_id)])["MetricDataResults"][0]["StatusCode"] == "Complete"
    )
    assert control(lab, "POST", "latency", {"ms": 1})[1] == {"ms": 1, "action": "*"}


def test_the_index_lists_each_route_with_its_fields(lab):
    routes = control(lab, "GET", "")[1]["routes"]
    assert "POST /_lab/balance volume_id balance_pct" in routes
    assert "POST /_lab/load volume_id load in_seconds?" in routes
    assert "GET /_lab/volumes" in routes
    [settings] = [route.split()[2:] for route in routes if route.startswith("POST /_lab/settings ")]
    assert "filter_after_page?" in settings
    assert "region?" not in settings, "it cannot change in a running fleet"


def listed_posts():
    return [path for method, path in _ROUTE_FIELDS if method == "POST"]


@pytest.mark.parametrize("path", listed_posts())
def test_the_listed_fields_are_those_that_a_request_needs(lab, path):
    """A request without any field names one; those that are named are listed without a question mark."""
    _, response = control(lab, "POST", path, {})
    if needed := re.search(r"needs '(\w+)'", response.get("error", "") if isinstance(response, dict) else ""):
        listed = {name for item in _ROUTE_FIELDS["POST", path] for name in item.rstrip("?").split("|")}
        assert needed[1] in listed
    else:
        assert all(item.endswith("?") for item in _ROUTE_FIELDS["POST", path])


BAD_CONTROL = [
    ("GET", "nowhere", None, 404, "no GET /_lab/nowhere; there are GET /_lab/"),
    ("POST", "advance", {}, 400, "/_lab/advance needs 'seconds' in its JSON object"),
    ("POST", "advance", {"seconds": -1}, 400, "cannot advance by -1.0 s"),
    ("POST", "advance", [1], 400, "the body is a JSON list: send one object"),
    ("POST", "clock", {"speed": 5_000}, 400, "speed is 5000.0"),
    ("GET", "truth/vol-0nope", None, 400, "vol-0nope is not in the fleet"),
    ("POST", "faults", {"acton": "x"}, 400, "fault has no acton: give some of action"),
    ("POST", "faults", {"kind": "fire"}, 400, "fault kind is 'fire': give one of error, throttle"),
    ("POST", "faults", {"every": 0}, 400, "both count from 1"),
    ("POST", "latency", {"ms": -1}, 400, "latency is -1.0 ms"),
    ("POST", "instance", {"instance_id": "i", "state": "gone"}, 400, "instance state is 'gone'"),
    ("POST", "metric-fault", {"volume_id": "v", "status_code": "Sad"}, 400, "status_code is 'Sad'"),
    ("POST", "load", {"volume_id": "vol-0nope", "load": "idle"}, 400, "vol-0nope is not in the fleet"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "complaint"), BAD_CONTROL)
def test_a_bad_control_request_names_what_would_work(lab, method, path, body, status, complaint):
    answered, response = control(lab, method, path, body)
    assert answered == status
    assert complaint in response["error"]


def test_a_control_body_that_is_not_json_is_refused(lab):
    request = urllib.request.Request(f"{lab.url}/_lab/advance", data=b"{", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
        pass
    with refused.value as error:
        assert "the body is not JSON" in json.load(error)["error"]


def test_a_filter_may_be_applied_after_a_page_was_cut_and_a_page_may_take_its_time():
    """Of 15 volumes the last five are gp2: two empty pages come first, each with a token."""
    fleet = LabFleet(LabClock.manual(START), LabSettings(filter_after_page=True, page_latency_s=0.01))
    fleet.add_all([LabVolume(size_gib=100, volume_type="gp3")] * 10)
    fleet.add_all([LabVolume(size_gib=100)] * 5)
    with Endpoint(fleet) as endpoint:
        request = {"Filters": [{"Name": "volume-type", "Values": ["gp2"]}], "MaxResults": 5}
        sizes, token, began_s = [], "", time.monotonic()
        while True:
            more = {"NextToken": token} if token else {}
            page = endpoint.client("ec2").describe_volumes(**request, **more)
            sizes.append(len(page["Volumes"]))
            token = page.get("NextToken")
            if not token:
                break
    assert sizes == [0, 0, 5]
    assert time.monotonic() - began_s >= 0.03
