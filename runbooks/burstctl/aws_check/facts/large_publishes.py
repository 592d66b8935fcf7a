"""Whether a gp2 of 1,000 GiB, which never needs credits, publishes BurstBalance."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.host import ACTIONS as INSTANCE_ACTIONS
from burstctl.aws_check.host import ACTIVE_DEVICE, CLEANUP_MINUTES, LARGE_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps
from burstwatch.core.buckets.series import Series

_MINUTES: Final = 45  # boot, 30 minutes of watching, and some reserve
_SIZES_GIB: Final = {LARGE_DEVICE: 1000, ACTIVE_DEVICE: 1}
_QUIET_S: Final = 5 * 60  # the instance boots, and the first reads begin
_WATCHED_S: Final = 25 * 60  # five datapoints even if they are five minutes apart
_MIN_ACTIVE_DATAPOINTS: Final = 3  # with fewer, chance could explain that the large volume has none
_FULL_PCT: Final = 100.0


def judge(large: Series, active: Series, reads: Series) -> Measurement:
    """By its datapoints, and by those of a small volume in the same time.

    Raises:
        NotMeasuredError: the small one has hardly any, or CloudWatch shows no ``reads`` of the large one,
            so its missing data proves nothing.
    """
    evidence = {
        "datapoints": len(large),
        "active_datapoints": len(active),
        "least_pct": min(large.values, default=None),
    }
    if len(active) < _MIN_ACTIVE_DATAPOINTS:
        raise NotMeasuredError(
            f"the small volume has {len(active)} datapoints: nothing follows from the large one"
        )
    if not large and sum(count > 0 for count in reads.values) < _MIN_ACTIVE_DATAPOINTS:
        raise NotMeasuredError("CloudWatch does not show that the large volume was read from: run it again")
    if not large:
        return Measurement(answer="absent", evidence=evidence)
    is_full = min(large.values) >= _FULL_PCT
    return Measurement(answer="100 %" if is_full else "below 100 %", evidence=evidence)


def measure(context: FactContext) -> Steps:
    """Launch an instance with one, from which its script reads once a second, and with a small one."""
    instance = yield from context.launch_instance(_MINUTES + CLEANUP_MINUTES, _SIZES_GIB)
    since_s = context.now_s() + _QUIET_S
    yield _QUIET_S + _WATCHED_S
    large, active = (
        context.read_datapoints(instance.volumes[device], since_s) for device in (LARGE_DEVICE, ACTIVE_DEVICE)
    )
    return judge(
        large,
        active,
        context.read_datapoints(instance.volumes[LARGE_DEVICE], since_s, "VolumeReadOps", "Sum"),
    )


FACT: Final = Fact(
    name="large-publishes",
    question="Does a gp2 of 1,000 GiB or more publish BurstBalance?",
    why="Older pages of AWS say no on Nitro, newer ones say 100. Its silence must not be a gap.",
    minutes=_MINUTES,
    actions=(
        *INSTANCE_ACTIONS,
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:DeleteVolume",
        "cloudwatch:GetMetricData",
    ),
    measure=measure,
    cost=Cost(instances=1, gp2_gib=sum(_SIZES_GIB.values()), metrics_read=3),
)
