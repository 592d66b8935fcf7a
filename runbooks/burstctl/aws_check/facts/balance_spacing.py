"""How far apart the datapoints of BurstBalance are."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.host import ACTIVE_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps
from burstwatch.core.buckets.series import Series

_FROM_S: Final = 5 * 60  # The instance needs a few minutes to boot and to start its reads.
_UNTIL_S: Final = 40 * 60  # 35 minutes have seven datapoints even if they are five minutes apart.
_MIN_DATAPOINTS: Final = 4  # three distances: a single odd one does not decide the median


def judge(balance: Series) -> Measurement:
    """The median distance of the newest datapoints.

    Raises:
        NotMeasuredError: there are too few.
    """
    spacing_s = balance.spacing_s
    if spacing_s is None or len(balance) < _MIN_DATAPOINTS:
        raise NotMeasuredError(
            f"{len(balance)} datapoints of BurstBalance in {(_UNTIL_S - _FROM_S) // 60} min;"
            f" {_MIN_DATAPOINTS} are needed"
        )
    return Measurement(
        answer=f"every {spacing_s} s",
        values={"spacing_s": spacing_s},
        evidence={"datapoints_start_s": list(balance.starts_at_s)},
    )


def measure(context: FactContext) -> Steps:
    """Read the datapoints of a volume that is read from once a second."""
    host = yield from context.get_host()
    yield max(0.0, host.launched_at_s + _UNTIL_S - context.now_s())
    return judge(context.read_datapoints(host.volumes[ACTIVE_DEVICE], host.launched_at_s + _FROM_S))


FACT: Final = Fact(
    name="balance-spacing",
    question="How many seconds are between two datapoints of BurstBalance?",
    why="The documents say one minute; other tools read it over five or ten. Forecasts and the alarm for"
    " missing telemetry depend on it.",
    minutes=60,
    actions=("ec2:DescribeVolumes", "cloudwatch:GetMetricData"),
    measure=measure,
    cost=Cost(metrics_read=1),
    needs_host=True,
)
