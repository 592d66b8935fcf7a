"""What becomes of the burst balance of a gp2 volume that grows."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.host import DRAIN_S, RESIZED
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstctl.experiment.credit_reset import MOST_BALANCE_PCT, pct_per_minute
from burstwatch.core.buckets.series import Sample

_SETTLED_S: Final = DRAIN_S + 8 * 60
_GROWN_GIB: Final = 41
_NOISE_PCT: Final = 2.0
_PATIENCE_S: Final = 20 * 60
_FULL_PCT: Final = 100.0


def judge(before: Sample, after: Sample) -> Measured:
    """By the newest datapoint before the change and the first one after it.

    Raises:
        NotMeasured: the two do not decide it.
    """
    earned = pct_per_minute(_GROWN_GIB) * (after.start_s - before.start_s) / 60
    bounds = {
        "kept": (before.value - _NOISE_PCT, before.value + earned + _NOISE_PCT),
        "reset": (_FULL_PCT - _NOISE_PCT, _FULL_PCT),
        "emptied": (0.0, earned + _NOISE_PCT),
    }
    fits = [answer for answer, (low, high) in bounds.items() if low <= after.value <= high]
    seen = f"{before.value:.1f} % before, {after.value:.1f} % after, at most {earned:.1f} % earned"
    if len(fits) != 1:
        raise NotMeasured(f"{seen}: that fits {' and '.join(fits) or 'no answer'}")
    return Measured(answer=fits[0], evidence={"because": seen})


def measure(bench: Bench) -> Steps:
    """Let a drained volume grow by a GiB."""
    host = yield from bench.host()
    volume_id = host.volumes[RESIZED]
    yield max(0.0, host.launched_s + _SETTLED_S - bench.now_s())
    began_s = bench.now_s()
    _, ended_s = yield from bench.modified(volume_id, Size=_GROWN_GIB)
    while True:
        balance = bench.datapoints(volume_id, began_s - 1800)
        before, after = balance.newest_at_or_before(int(began_s) - 60), balance.since(ended_s)
        if before is not None and before.value > MOST_BALANCE_PCT:
            raise NotMeasured(
                f"its balance was {before.value:.0f} %; it needs at most {MOST_BALANCE_PCT:.0f} %"
            )
        if before is not None and len(after) > 1:
            return judge(before, next(iter(after)))
        if bench.now_s() > ended_s + _PATIENCE_S:
            raise NotMeasured("CloudWatch has no datapoint from before the change, or none after it")
        yield 60


FACT: Final = Fact(
    name="balance-after-resize",
    question="Is the burst balance of a gp2 volume kept, reset or emptied when it grows?",
    why="AWS does not say. After a resize by others the forecast begins at this balance.",
    minutes=120,
    actions=(
        "ec2:DescribeVolumes",
        "ec2:DescribeVolumesModifications",
        "ec2:ModifyVolume",
        "cloudwatch:GetMetricData",
    ),
    measure=measure,
    cost=Cost(metrics_read=30),
    needs_host=True,
)
