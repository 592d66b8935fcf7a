"""Whether a gp2 of 1,000 GiB, which never needs credits, publishes BurstBalance."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact, Measured, NotMeasured, Steps
from burstctl.aws_check.host import ACTIVE, LARGE
from burstwatch.core.samples import Series

_SIZE_GIB: Final = 1000
_QUIET_S: Final = 5 * 60
_WATCHED_S: Final = 25 * 60
_LEAST_ACTIVE: Final = 3
_FULL_PCT: Final = 100.0


def judge(large: Series, active: Series, reads: Series) -> Measured:
    """By its datapoints, and by those of a small volume in the same time.

    Raises:
        NotMeasured: the small one has hardly any, or CloudWatch shows no ``reads`` of the large one: then
            nothing follows from its silence.
    """
    evidence = {
        "datapoints": len(large),
        "active_datapoints": len(active),
        "least_pct": min(large.values, default=None),
    }
    if len(active) < _LEAST_ACTIVE:
        raise NotMeasured(
            f"the small volume has {len(active)} datapoints: nothing follows from the large one"
        )
    if not large and sum(count > 0 for count in reads.values) < _LEAST_ACTIVE:
        raise NotMeasured("CloudWatch does not show that the large volume was read from: run it again")
    if not large:
        return Measured(answer="absent", evidence=evidence)
    is_full = min(large.values) >= _FULL_PCT
    return Measured(answer="100 %" if is_full else "below 100 %", evidence=evidence)


def measure(bench: Bench) -> Steps:
    """Attach one where the script of the instance reads from it once a second."""
    host = yield from bench.host()
    volume_id = yield from bench.volume(_SIZE_GIB, zone=host.zone)
    bench.check_ours("volume", volume_id)
    bench.check_ours("instance", host.instance_id)
    bench.ec2.attach_volume(VolumeId=volume_id, InstanceId=host.instance_id, Device=LARGE)
    yield from bench.until(lambda: bench.described(volume_id)["State"] == "in-use", 120)
    # so that it ends with the instance, which ends itself, if this process does not come back
    ends_with_it = {"DeviceName": LARGE, "Ebs": {"DeleteOnTermination": True}}
    bench.ec2.modify_instance_attribute(InstanceId=host.instance_id, BlockDeviceMappings=[ends_with_it])
    since_s = bench.now_s() + _QUIET_S
    yield _QUIET_S + _WATCHED_S
    bench.check_ours("volume", volume_id)
    large, active = (bench.datapoints(each, since_s) for each in (volume_id, host.volumes[ACTIVE]))
    reads = bench.datapoints(volume_id, since_s, "VolumeReadOps", "Sum")
    bench.ec2.detach_volume(VolumeId=volume_id)
    yield from bench.until(lambda: bench.described(volume_id)["State"] == "available", 300, "its detachment")
    return judge(large, active, reads)


FACT: Final = Fact(
    name="large-publishes",
    question="Does a gp2 of 1,000 GiB or more publish BurstBalance?",
    why="Older pages of AWS say no on Nitro, newer ones say 100. Its silence must not be a gap.",
    minutes=45,
    actions=(
        "ec2:DescribeAvailabilityZones",
        "ec2:CreateVolume",
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:AttachVolume",
        "ec2:ModifyInstanceAttribute",
        "ec2:DetachVolume",
        "ec2:DeleteVolume",
        "cloudwatch:GetMetricData",
    ),
    measure=measure,
    cost=Cost(gp2_gib=_SIZE_GIB, metrics_read=3),
    needs_host=True,
)
