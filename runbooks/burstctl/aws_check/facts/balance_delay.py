"""How long after its minute a datapoint of BurstBalance can be read."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.host import ACTIVE_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps
from burstwatch.core.buckets.series import PERIOD_S

_FROM_S: Final = 10 * 60  # the first datapoints of a new volume may come later than usual
_UNTIL_S: Final = 40 * 60  # half an hour has six datapoints even if they are five minutes apart
_POLL_INTERVAL_S: Final = 7
"""No divisor of a minute, so that looks fall on all parts of it."""

_MIN_DATAPOINTS: Final = 4  # fewer could be explained by nearly any delay
_ROUNDED_TO_S: Final = 5  # looks are seven seconds apart, so more digits would mean nothing
_CLOCK_ERROR_S: Final = 2  # this machine's clock and AWS's differ by a little


class AppearedDatapoint(NamedTuple):
    """A datapoint that was there at one look and not yet at the one before."""

    start_s: float
    last_absent_at_s: float
    first_present_at_s: float


def judge(datapoints: Sequence[AppearedDatapoint]) -> Measurement:
    """One delay that explains all datapoints, or else the shortest and the longest.

    Raises:
        NotMeasuredError: too few datapoints appeared.
    """
    if len(datapoints) < _MIN_DATAPOINTS:
        raise NotMeasuredError(
            f"only {len(datapoints)} datapoints appeared in {(_UNTIL_S - _FROM_S) // 60} min"
        )
    ends = [(datapoint.start_s + PERIOD_S, datapoint) for datapoint in datapoints]
    low = max(datapoint.last_absent_at_s - end_s for end_s, datapoint in ends)
    high = min(datapoint.first_present_at_s - end_s for end_s, datapoint in ends)
    if low <= high + _CLOCK_ERROR_S:
        min_s = max_s = _round_delay_s((low + high) / 2)
    else:
        min_s, max_s = _round_delay_s(high), _round_delay_s(low)
    answer = f"{min_s} s" if min_s == max_s else f"{min_s} to {max_s} s"
    return Measurement(
        answer=answer,
        values={"least_s": min_s, "most_s": max_s},
        evidence={"datapoints": len(datapoints), "looked_every_s": _POLL_INTERVAL_S},
    )


def measure(context: FactContext) -> Steps:
    """Look every few seconds for half an hour."""
    host = yield from context.get_host()
    volume_id = host.volumes[ACTIVE_DEVICE]
    yield max(0.0, host.launched_at_s + _FROM_S - context.now_s())
    known_starts_s: set[int] | None = None
    previous_s, datapoints = context.now_s(), list[AppearedDatapoint]()
    while context.now_s() < host.launched_at_s + _UNTIL_S:
        starts_s = set(context.read_datapoints(volume_id, context.now_s() - 20 * 60).starts_at_s)
        now_s = context.now_s()
        if known_starts_s is not None:
            datapoints += [
                AppearedDatapoint(start_s, previous_s, now_s) for start_s in sorted(starts_s - known_starts_s)
            ]
        known_starts_s, previous_s = (known_starts_s or set()) | starts_s, now_s
        yield _POLL_INTERVAL_S
    return judge(datapoints)


def _round_delay_s(seconds: float) -> int:
    return round(seconds / _ROUNDED_TO_S) * _ROUNDED_TO_S


FACT: Final = Fact(
    name="balance-delay",
    question="How many seconds after the end of its minute can a datapoint of BurstBalance be read?"
    " (Negative: while the minute is still open.)",
    why="AWS gives no number. Every forecast begins at the newest datapoint, so it is late by this much.",
    minutes=60,
    actions=("ec2:DescribeVolumes", "cloudwatch:GetMetricData"),
    measure=measure,
    cost=Cost(metrics_read=300),
    needs_host=True,
)
