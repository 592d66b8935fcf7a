"""How long after its minute a datapoint of BurstBalance can be read."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.host import ACTIVE
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstwatch.core.buckets.series import PERIOD_S

_FROM_S: Final = 10 * 60
_UNTIL_S: Final = 40 * 60
_LOOK_EVERY_S: Final = 7
"""No divisor of a minute, so that looks fall on all parts of it."""

_LEAST_SEEN: Final = 4
_ROUNDED_TO_S: Final = 5
_CLOCK_ERROR_S: Final = 2


class Seen(NamedTuple):
    """A datapoint that was there at one look and not yet at the one before."""

    start_s: float
    not_yet_s: float
    there_s: float


def judge(seen: Sequence[Seen]) -> Measured:
    """One delay that explains all datapoints, or else the shortest and the longest.

    Raises:
        NotMeasured: too few datapoints appeared.
    """
    if len(seen) < _LEAST_SEEN:
        raise NotMeasured(f"only {len(seen)} datapoints appeared in {(_UNTIL_S - _FROM_S) // 60} min")
    ends = [(each.start_s + PERIOD_S, each) for each in seen]
    low = max(each.not_yet_s - end_s for end_s, each in ends)
    high = min(each.there_s - end_s for end_s, each in ends)
    if low <= high + _CLOCK_ERROR_S:
        least_s = most_s = _rounded((low + high) / 2)
    else:
        least_s, most_s = _rounded(high), _rounded(low)
    answer = f"{least_s} s" if least_s == most_s else f"{least_s} to {most_s} s"
    return Measured(
        answer=answer,
        values={"least_s": least_s, "most_s": most_s},
        evidence={"datapoints": len(seen), "looked_every_s": _LOOK_EVERY_S},
    )


def measure(bench: Bench) -> Steps:
    """Look every few seconds for half an hour."""
    host = yield from bench.host()
    volume_id = host.volumes[ACTIVE]
    yield max(0.0, host.launched_s + _FROM_S - bench.now_s())
    known: set[int] | None = None
    before_s, seen = bench.now_s(), list[Seen]()
    while bench.now_s() < host.launched_s + _UNTIL_S:
        starts_s = set(bench.datapoints(volume_id, bench.now_s() - 20 * 60).starts_s)
        now_s = bench.now_s()
        if known is not None:
            seen += [Seen(start_s, before_s, now_s) for start_s in sorted(starts_s - known)]
        known, before_s = (known or set()) | starts_s, now_s
        yield _LOOK_EVERY_S
    return judge(seen)


def _rounded(seconds: float) -> int:
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
