"""Whether a volume that is attached and serves nothing publishes BurstBalance."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.host import ACTIVE_DEVICE, IDLE_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_FROM_S: Final = 12 * 60
"""At its start the operating system reads the partition table of each disk."""

_UNTIL_S: Final = 42 * 60  # Half an hour has six datapoints even if they are five minutes apart.
_MIN_ACTIVE_DATAPOINTS: Final = 4  # With fewer, chance could explain that the idle volume has none.
# a lost or a stray datapoint must not turn a clear answer into "sometimes"
_SILENT_SHARE: Final = 0.1
_PUBLISHING_SHARE: Final = 0.9


def judge(idle: int, active: int) -> Measurement:
    """By the datapoints of an idle and of an active volume in the same time.

    Raises:
        NotMeasuredError: the active one has hardly any, so nothing follows from the idle one.
    """
    if active < _MIN_ACTIVE_DATAPOINTS:
        raise NotMeasuredError(f"the active volume has {active} datapoints, so the idle one proves nothing")
    share = idle / active
    answer = (
        "silent" if share <= _SILENT_SHARE else "publishes" if share >= _PUBLISHING_SHARE else "sometimes"
    )
    return Measurement(answer=answer, evidence={"idle_datapoints": idle, "active_datapoints": active})


def measure(context: FactContext) -> Steps:
    """Compare a volume that nothing reads from with one that is read from once a second."""
    host = yield from context.get_host()
    yield max(0.0, host.launched_at_s + _UNTIL_S - context.now_s())
    since_s = host.launched_at_s + _FROM_S
    idle, active = (
        len(context.read_datapoints(host.volumes[device], since_s)) for device in (IDLE_DEVICE, ACTIVE_DEVICE)
    )
    return judge(idle, active)


FACT: Final = Fact(
    name="idle-publishes",
    question="Does an attached volume without any I/O publish BurstBalance?",
    why='The documents say that metrics come while a volume is "active", which is not defined. Silence must'
    " be a gap for one volume and normal for another.",
    minutes=60,
    actions=("ec2:DescribeVolumes", "cloudwatch:GetMetricData"),
    measure=measure,
    cost=Cost(metrics_read=2),
    needs_host=True,
)
