from datetime import timedelta

import pytest

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.ebs.gp2_bucket import EBS_IO, gp2_bucket
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, hdd_bucket
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, instance_io_bucket
from burstwatch.core.policy.bucket_policy import BucketPolicies, policy_of_bucket
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.resource_type import ResourceType

M5_LARGE = InstanceLimits(
    baseline_iops=3_600, max_iops=18_750, baseline_throughput_mib_s=77.5, max_throughput_mib_s=566.0
)


def read(**resources) -> Policy:
    return Policy.from_mapping({"version": "1", "resources": resources})


def faults_of(**resources) -> dict[str, str]:
    with pytest.raises(PolicyError) as refused:
        read(**resources)
    return {fault.path: fault.message for fault in refused.value.faults}


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


def test_by_default_only_gp2_volumes_are_watched():
    resources = Policy().resources
    assert resources.watched == (ResourceType.EBS,)
    assert resources.volume_types == {"gp2"}


def test_kinds_and_volume_types_are_enabled_one_by_one():
    policy = read(ebs={"types": "gp2, st1 sc1"}, instance={"watch": "true", "act_lead": "20m"})
    assert policy.resources.watched == (ResourceType.EBS, ResourceType.INSTANCE)
    assert policy.resources.volume_types == {"gp2", "st1", "sc1"}
    assert policy.to_mapping()["resources"]["ebs"]["types"] == "gp2, sc1, st1"
    assert Policy.from_mapping(policy.to_mapping()) == policy


def test_volumes_that_are_not_watched_have_no_types():
    assert read(ebs={"watch": "false"}, instance={"watch": "true"}).resources.volume_types == frozenset()


@pytest.mark.parametrize(
    ("resources", "path", "message"),
    [
        ({"ebs": {"types": "gp2,gp3"}}, "resources.ebs.types", "write some of gp2, st1, sc1"),
        ({"ebs": {"watch": "yes"}}, "resources.ebs.watch", "'yes' is neither true nor false"),
        ({"ebs": {"watch": "false"}}, "resources", "nothing is watched"),
        ({"ebs": "gp2"}, "resources.ebs", "is not a section"),
        ({"instance": {"metric_lag": "4m"}}, "resources.instance.metric_lag", "must be from 5m to 1h"),
        ({"instance": {"critical_within": "40m"}}, "resources.instance.critical_within", "from 1m to 30m"),
        (
            {"instance": {"warning_within": "10m"}},
            "resources.instance.warning_within",
            "above critical_within",
        ),
        ({"lambda": {}}, "resources.lambda", "unknown key; known here: ebs, instance"),
    ],
)
def test_a_fault_names_its_place_and_what_to_write(resources, path, message):
    assert message in faults_of(**resources)[path]


def test_the_rule_of_gp2_binds_only_a_policy_that_watches_gp2():
    cadence = {"act_lead": "40m"}
    with pytest.raises(PolicyError, match="a volume of up to 33 GiB"):
        Policy.from_mapping({"version": "1", "cadence": cadence})
    Policy.from_mapping({"version": "1", "cadence": cadence, "resources": {"ebs": {"types": "st1"}}})


def test_gp2_has_the_policy_itself():
    policy = Policy()
    assert policy_of_bucket(policy, EBS_IO, gp2_bucket(300)) is policy


def test_a_kind_that_only_people_change_has_their_lead():
    policy = policy_of_bucket(Policy(), EBS_THROUGHPUT, hdd_bucket("st1", 1_024))
    assert policy.cadence.act_lead == minutes(30)
    assert policy.cadence.metric_lag == minutes(5)
    assert policy.levels == Policy().levels


# 95 % of 30 min are 28.5 min: less 5 for the sweep tick, 10 for the lag and 1 for the slack.
def test_a_bucket_that_cannot_give_the_lead_has_the_longest_that_fits():
    policy = policy_of_bucket(Policy(), INSTANCE_IO, instance_io_bucket(M5_LARGE))
    assert policy.cadence.act_lead == minutes(12)
    assert policy.cadence.metric_lag == minutes(10)
    bounded = instance_io_bucket(M5_LARGE, volumes_iops=6_000)
    assert policy_of_bucket(Policy(), INSTANCE_IO, bounded).cadence.act_lead == minutes(30)


def test_a_bucket_that_may_be_empty_at_once_has_a_minute():
    shallow = Bucket(capacity=60, refill_per_s=1, burst_per_s=2)
    assert policy_of_bucket(Policy(), INSTANCE_IO, shallow).cadence.act_lead == minutes(1)


def test_the_levels_of_instances_are_their_own_and_left_in_the_same_proportion():
    policy = read(instance={"critical_within": "20m", "warning_within": "2h", "metric_lag": "20m"})
    levels = policy_of_bucket(policy, INSTANCE_IO, instance_io_bucket(M5_LARGE)).levels
    assert (levels.critical_within, levels.critical_leave) == (minutes(20), minutes(40))
    assert (levels.warning_within, levels.warning_leave) == (minutes(120), minutes(180))


def test_a_datapoint_may_be_missing_for_as_long_as_the_lag():
    policy = read(instance={"metric_lag": "45m"})
    telemetry = policy_of_bucket(policy, INSTANCE_IO, instance_io_bucket(M5_LARGE)).telemetry
    assert (telemetry.too_new, telemetry.gap_after) == (minutes(45), minutes(45))


def test_the_policy_of_a_bucket_is_worked_out_once():
    policies = BucketPolicies(Policy())
    first, second = hdd_bucket("st1", 1_024), hdd_bucket("st1", 2_048)
    assert policies.of(EBS_THROUGHPUT, first) is policies.of(EBS_THROUGHPUT, second)
