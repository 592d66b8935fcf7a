"""What happens to the burst balance of a gp2 volume that grows."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.host import DRAIN_S, RESIZED_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps
from burstctl.experiment.credit_reset import MAX_START_BALANCE_PCT, pct_per_minute
from burstwatch.core.buckets.series import Sample

_SETTLED_S: Final = DRAIN_S + 8 * 60
"""As for balance-after-return: attached, drained, and at rest for some minutes."""

_GROWN_GIB: Final = 41  # one GiB more than the volume has
_NOISE_PCT: Final = 2.0  # twice the rounding that is assumed for CloudWatch's balance, before and after
_DATAPOINT_TIMEOUT_S: Final = 20 * 60  # four datapoints, even if CloudWatch publishes only every five minutes
_FULL_PCT: Final = 100.0


def judge(before: Sample, after: Sample) -> Measurement:
    """By the newest datapoint before the change and the first one after it.

    Raises:
        NotMeasuredError: the two do not decide it.
    """
    earned_pct = pct_per_minute(_GROWN_GIB) * (after.start_at_s - before.start_at_s) / 60
    bounds = {
        "kept": (before.value - _NOISE_PCT, before.value + earned_pct + _NOISE_PCT),
        "reset": (_FULL_PCT - _NOISE_PCT, _FULL_PCT),
        "emptied": (0.0, earned_pct + _NOISE_PCT),
    }
    possible_answers = [answer for answer, (low, high) in bounds.items() if low <= after.value <= high]
    description = f"{before.value:.1f} % before, {after.value:.1f} % after, at most {earned_pct:.1f} % earned"
    if len(possible_answers) != 1:
        raise NotMeasuredError(f"{description}: that fits {' and '.join(possible_answers) or 'no answer'}")
    return Measurement(answer=possible_answers[0], evidence={"because": description})


def measure(context: FactContext) -> Steps:
    """Let a drained volume grow by a GiB."""
    host = yield from context.get_host()
    volume_id = host.volumes[RESIZED_DEVICE]
    yield max(0.0, host.launched_at_s + _SETTLED_S - context.now_s())
    started_at_s = context.now_s()
    _, ended_at_s = yield from context.modify_and_wait(volume_id, Size=_GROWN_GIB)
    while True:
        balance = context.read_datapoints(volume_id, started_at_s - 1800)
        before, after = balance.newest_at_or_before(int(started_at_s) - 60), balance.since(ended_at_s)
        if before is not None and before.value > MAX_START_BALANCE_PCT:
            raise NotMeasuredError(
                f"its balance was {before.value:.0f} %; it needs at most {MAX_START_BALANCE_PCT:.0f} %"
            )
        if before is not None and len(after) > 1:
            return judge(before, next(iter(after)))
        if context.now_s() > ended_at_s + _DATAPOINT_TIMEOUT_S:
            raise NotMeasuredError("CloudWatch has no datapoint from before the change, or none after it")
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
