"""Which larger type is recommended once the credits of an instance are empty."""

import pytest

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import Sample
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, instance_bucket
from burstwatch.core.instances.larger_type import InstanceLoad, other_families
from burstwatch.core.location import AwsLocation
from burstwatch.core.watch.advice import advise_instance
from support.builders.core_values import M5_LARGE, an_instance

FAMILY = {
    "m5.large": M5_LARGE,
    "m5.xlarge": InstanceLimits(
        baseline_iops=6_000, max_iops=18_750, baseline_throughput_mib_s=137, max_throughput_mib_s=566
    ),
    "m5.2xlarge": InstanceLimits(
        baseline_iops=12_000, max_iops=18_750, baseline_throughput_mib_s=274, max_throughput_mib_s=566
    ),
}
VOLUMES = tuple(
    VolumeCeiling(volume_id=f"vol-0b{n}", volume_type="gp3", iops=4_000, mib_s=125) for n in (1, 2)
)


def advice(balance_pct, iops, limits=M5_LARGE):
    instance = an_instance(ceilings=VOLUMES, limits=limits)
    assessment = Assessment(
        resource=instance,
        kind=INSTANCE_IO,
        bucket=instance_bucket(instance, INSTANCE_IO),
        sample=Sample(start_at_s=0, value=balance_pct, period_s=300),
    )
    load = InstanceLoad(iops=iops, mib_s=iops / 256)
    recommendation = advise_instance(
        assessment, instance, limits, load, FAMILY, AwsLocation(region="us-east-1")
    )
    return recommendation.action, recommendation.reasons[0]


@pytest.mark.parametrize("balance_pct", [40.0, 0.0])
def test_what_was_served_with_credits_is_the_load(balance_pct):
    action, reason = advice(balance_pct, 7_000)
    assert "Value=m5.2xlarge" in action
    assert reason.startswith(
        "m5.large sustains 3,600 IOPS, and its volumes served up to 7,000; m5.2xlarge is"
    )


def test_an_instance_that_was_held_to_its_baseline_is_sized_by_what_its_volumes_can_serve():
    action, reason = advice(0.0, 3_600)
    assert "Value=m5.2xlarge" in action
    assert reason.startswith(
        "m5.large sustains 3,600 IOPS. It was held to that, so what it wants is not known: up to 8,000 by the"
        " limits of its volumes and of its type; m5.2xlarge is the smallest of its family that sustains that."
    )


def test_a_load_near_the_baseline_is_believed_while_there_are_credits():
    action, _ = advice(40.0, 3_600)
    assert "Value=m5.xlarge" in action


def test_a_load_below_the_baseline_needs_no_larger_type():
    action, reason = advice(0.0, 1_200)
    assert action == "wait: its credits refill while its load stays below its baseline"
    assert reason == (
        "m5.large sustains 3,600 IOPS, and its volumes served up to 1,200: no larger type is needed for that"
    )


def test_tens_of_thousands_of_operations_are_written_in_full():
    _, reason = advice(40.0, 14_321.4, FAMILY["m5.2xlarge"])
    assert reason.startswith("m5.large sustains 12,000 IOPS, and its volumes served up to 14,321; no larger")


def test_if_no_type_of_the_family_is_enough_the_command_that_looks_in_others_is_named():
    action, reason = advice(40.0, 13_000)
    assert action == "reduce its I/O, or move it to an instance type with a higher EBS baseline"
    assert reason.endswith(
        "no larger type of its family is known to sustain that: to look in others, run"
        " burstctl simulate i-0a1 --types 'c?i.*,m?i.*,r?i.*' --region us-east-1"
    )


@pytest.mark.parametrize(
    ("instance_type", "processor"),
    [("t4g.small", "g"), ("im4gn.large", "g"), ("g5g.xlarge", "g"), ("g4dn.xlarge", "i"), ("t3.nano", "i")],
)
def test_other_families_have_the_same_architecture(instance_type, processor):
    assert other_families(instance_type) == ",".join(f"{letter}?{processor}.*" for letter in "cmr")
