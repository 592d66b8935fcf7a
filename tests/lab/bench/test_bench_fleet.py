"""The bench of large fleets: its AWS speaks as the lab's does, and its ticks see what they should."""

import pytest

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import LabVolume
from support.bench_loader import VOLUMES, load_bench


def shape_of(value):
    """An answer without what it says: names, and the types of what they name."""
    if isinstance(value, dict):
        return {name: shape_of(held) for name, held in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return type(value)


def read_balance(client, volume_id, until_s):
    metric = {
        "Namespace": "AWS/EBS",
        "MetricName": "BurstBalance",
        "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
    }
    query = {"Id": "m0", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Minimum"}}
    return client.get_metric_data(
        MetricDataQueries=[query], StartTime=until_s - 1800, EndTime=until_s, ScanBy="TimestampAscending"
    )


def response_of(endpoint, volume_id, until_s):
    """The shapes of everything that the bench's AWS answers by itself."""
    ec2 = endpoint.client("ec2")
    answers = [
        ec2.describe_volumes(MaxResults=5),
        ec2.describe_volumes(VolumeIds=[volume_id]),
        ec2.describe_volumes_modifications(),
        read_balance(endpoint.client("cloudwatch"), volume_id, until_s),
    ]
    for answer in answers:
        del answer["ResponseMetadata"]
        answer.pop("NextToken", None)
    return [shape_of(answer) for answer in answers]


def test_canned_aws_responses_have_the_form_of_the_lab(canned_aws, aws):
    fleet = LabFleet(LabClock.manual())
    volume_id = fleet.add(LabVolume(size_gib=100, tags={"Name": "a", "team": "b", "stage": "c"}))
    fleet.clock.advance(3600)
    with Endpoint(fleet) as lab:
        of_the_lab = response_of(lab, volume_id, fleet.now_s())
    assert response_of(aws, canned_aws.volume_id_of(7), canned_aws.FIRST_TICK_S) == of_the_lab


def test_its_pages_hold_every_volume_once(canned_aws, aws):
    aws.client("ec2").describe_volumes(MaxResults=500)
    with canned_aws.CannedEndpoint(1_201, some_drain=False) as larger:
        larger.faults.set_latency(0)
        client = larger.client("ec2")
        pages = list(client.get_paginator("describe_volumes").paginate(MaxResults=500))
    assert [len(page["Volumes"]) for page in pages] == [500, 500, 201]
    ids = [volume["VolumeId"] for page in pages for volume in page["Volumes"]]
    assert ids == [canned_aws.volume_id_of(number) for number in range(1_201)]


def test_one_volume_in_twenty_drains_and_none_of_the_larger_ones(canned_aws):
    draining = [number for number in range(6_000) if canned_aws.is_draining(number)]
    assert len(draining) == 300
    assert {canned_aws.size_gib_of(number) for number in draining} == {8, 30, 100}


def test_a_draining_volume_loses_what_a_full_burst_costs(canned_aws):
    item = 100 * 60 * 2_700 / 5_400_000
    minute = canned_aws.FIRST_TICK_S - 540  # the first since the drain began
    values = [canned_aws._datapoint("BurstBalance", 100, 0, 60, minute + 60 * back) for back in (-1, 0, 1)]
    assert values == pytest.approx([100, 100 - item, 100 - 2 * item])


@pytest.mark.parametrize("ledger", ["sqlite", "dynamodb"])
def test_three_ticks_see_all_then_those_in_trouble_then_what_is_due(aws, ledger):
    first, focus, following = load_bench("fleet").run_ticks(ledger, None)
    assert (first["looked_at"], first["alerts"]) == (VOLUMES, 6)
    assert first["by_name"]["ec2:DescribeVolumes"] == 1
    assert (focus["looked_at"], focus["by_name"]["ec2:DescribeVolumes"]) == (6, 1)
    assert 0 < following["looked_at"] < VOLUMES / 2
    assert (first["ledger_writes"] > 0) == (ledger == "dynamodb")


def test_of_several_runs_the_least_time_and_the_most_memory_are_reported():
    runs = [
        [{"wall_s": 3.0, "cpu_s": 1.0, "peak_mib": 90.0}],
        [{"wall_s": 2.0, "cpu_s": 1.5, "peak_mib": 95.0}],
    ]
    assert load_bench("fleet").best_of(runs) == [{"wall_s": 2.0, "cpu_s": 1.0, "peak_mib": 95.0}]
