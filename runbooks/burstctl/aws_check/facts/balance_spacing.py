"""How far apart the datapoints of BurstBalance are."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.host import ACTIVE
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstwatch.core.buckets.series import Series

_FROM_S: Final = 5 * 60
_UNTIL_S: Final = 40 * 60
_LEAST_DATAPOINTS: Final = 4


def judge(balance: Series) -> Measured:
    """The median distance of the newest datapoints.

    Raises:
        NotMeasured: there are too few.
    """
    spacing_s = balance.spacing_s
    if spacing_s is None or len(balance) < _LEAST_DATAPOINTS:
        raise NotMeasured(
            f"{len(balance)} datapoints of BurstBalance in {(_UNTIL_S - _FROM_S) // 60} min;"
            f" {_LEAST_DATAPOINTS} are needed"
        )
    return Measured(
        answer=f"every {spacing_s} s",
        values={"spacing_s": spacing_s},
        evidence={"datapoints_start_s": list(balance.starts_s)},
    )


def measure(bench: Bench) -> Steps:
    """Read the datapoints of a volume that is read from once a second."""
    host = yield from bench.host()
    yield max(0.0, host.launched_s + _UNTIL_S - bench.now_s())
    return judge(bench.datapoints(host.volumes[ACTIVE], host.launched_s + _FROM_S))


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
