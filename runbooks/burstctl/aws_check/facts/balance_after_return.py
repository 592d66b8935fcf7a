"""What becomes of the burst balance of a volume that goes from gp2 to gp3 and back."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.host import DRAIN_S, RETURNED
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstctl.experiment.credit_reset import (
    BEFORE_S,
    ENOUGH_S,
    LEAST_AWAY_S,
    MOST_BALANCE_PCT,
    Journey,
    judge,
    shortest_away_s,
    weigh_there,
)
from burstwatch.core.buckets.series import Series

_SETTLED_S: Final = DRAIN_S + 8 * 60
"""By then the volume is attached, drained, and at rest for some minutes."""

_SIZE_GIB: Final = 100
_MOST_AWAY_S: Final = 40 * 60
_PATIENCE_S: Final = 25 * 60
_LOOK_EVERY_S: Final = 60
_SLOWER: Final = 1.25


def judged(journey: Journey) -> Measured:
    """The answer that ``burstctl experiment credit-reset`` would give.

    Raises:
        NotMeasured: its datapoints do not decide it.
    """
    verdict = judge(journey)
    if verdict.fate is None:
        raise NotMeasured(" ".join(verdict.because))
    return Measured(answer=verdict.fate.name.lower(), evidence={"because": list(verdict.because)})


def measure(bench: Bench) -> Steps:
    """Send a drained volume to gp3, let it stay there, and bring it back."""
    host = yield from bench.host()
    volume_id = host.volumes[RETURNED]
    yield max(0.0, host.launched_s + _SETTLED_S - bench.now_s())
    newest = bench.datapoints(volume_id, bench.now_s() - 900).newest
    if newest is None or newest.value > MOST_BALANCE_PCT:
        held = "unknown" if newest is None else f"{newest.value:.0f} %"
        raise NotMeasured(f"its balance is {held} after {DRAIN_S // 60} min of reads; at most 80 % is needed")
    left_s, there_s = yield from bench.modified(volume_id, VolumeType="gp3", Iops=3000, Throughput=125)
    yield LEAST_AWAY_S / 2  # for CloudWatch to publish what was before
    away = weigh_there(_journey(bench, volume_id, left_s, there_s))
    needed_s = away and shortest_away_s(
        away, size_gib=_SIZE_GIB, iops=1, modify_s=_SLOWER * (there_s - left_s)
    )
    away_s = min(_MOST_AWAY_S, max(LEAST_AWAY_S, needed_s or 0))
    yield max(0.0, there_s + away_s - bench.now_s())
    turned_s, home_s = yield from bench.modified(volume_id, VolumeType="gp2")
    while True:
        journey = _journey(bench, volume_id, left_s, there_s, turned_s, home_s)
        if journey.has_enough or bench.now_s() > home_s + ENOUGH_S + _PATIENCE_S:
            return judged(journey)
        yield _LOOK_EVERY_S


def _journey(
    bench: Bench,
    volume_id: str,
    left_s: float,
    there_s: float,
    turned_s: float | None = None,
    home_s: float | None = None,
) -> Journey:
    since_s, until_s = left_s - BEFORE_S, bench.now_s() - 60
    reads, writes = (
        bench.datapoints(volume_id, since_s, metric, "Sum") for metric in ("VolumeReadOps", "VolumeWriteOps")
    )
    written = dict(zip(writes.starts_s, writes.values, strict=True))
    return Journey(
        size_gib=_SIZE_GIB,
        left_s=left_s,
        there_s=there_s,
        turned_s=turned_s,
        home_s=home_s,
        balance=bench.datapoints(volume_id, since_s).closed_by(until_s),
        operations=Series.of((each.start_s, each.value + written.get(each.start_s, 0)) for each in reads),
    )


FACT: Final = Fact(
    name="balance-after-return",
    question="Is the burst balance kept, refilled, reset or emptied after gp2, gp3 and gp2 again?",
    why="Nobody documents it. A flip that empties the bucket on its return would harm what it protects.",
    minutes=180,
    actions=(
        "ec2:DescribeVolumes",
        "ec2:DescribeVolumesModifications",
        "ec2:ModifyVolume",
        "cloudwatch:GetMetricData",
    ),
    measure=measure,
    cost=Cost(metrics_read=200),
    needs_host=True,
)
