"""What happens to the burst balance of a volume that goes from gp2 to gp3 and back."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, FactContext
from burstctl.aws_check.host import DRAIN_S, RETURNED_DEVICE
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps
from burstctl.experiment.credit_reset import (
    LOOKBACK_S,
    MAX_START_BALANCE_PCT,
    MIN_AWAY_S,
    MIN_RETURN_SPAN_S,
    RoundTrip,
    credits_on_arrival,
    min_away_s,
    reach_verdict,
)
from burstwatch.core.buckets.series import Series

_SETTLED_S: Final = DRAIN_S + 8 * 60
"""By then the volume is attached, drained, and at rest for some minutes."""

_SIZE_GIB: Final = 100  # It earns 0.33 % a minute, so that "kept" and "refilled" differ within the time away.
_MAX_AWAY_S: Final = 40 * 60  # Keeps the fact within the lifetime of the shared instance.
_DATAPOINT_TIMEOUT_S: Final = (
    25 * 60
)  # Beyond the datapoints that are needed: CloudWatch may be minutes late.
_POLL_INTERVAL_S: Final = 60  # a datapoint comes at most once a minute
_RETURN_DURATION_FACTOR: Final = 1.25
"""A modification's duration varies: the return may take longer than the first modification."""


def to_measured(round_trip: RoundTrip) -> Measurement:
    """The answer that ``burstctl experiment credit-reset`` would give.

    Raises:
        NotMeasuredError: its datapoints do not decide it.
    """
    verdict = reach_verdict(round_trip)
    if verdict.hypothesis is None:
        raise NotMeasuredError(" ".join(verdict.reasoning))
    return Measurement(answer=verdict.hypothesis.name.lower(), evidence={"because": list(verdict.reasoning)})


def measure(context: FactContext) -> Steps:
    """Send a drained volume to gp3, let it stay there, and bring it back."""
    host = yield from context.get_host()
    volume_id = host.volumes[RETURNED_DEVICE]
    yield max(0.0, host.launched_at_s + _SETTLED_S - context.now_s())
    newest = context.read_datapoints(volume_id, context.now_s() - 900).newest
    if newest is None or newest.value > MAX_START_BALANCE_PCT:
        balance_text = "unknown" if newest is None else f"{newest.value:.0f} %"
        raise NotMeasuredError(
            f"its balance is {balance_text} after {DRAIN_S // 60} min of reads; at most 80 % is needed"
        )
    left_at_s, arrived_at_s = yield from context.modify_and_wait(volume_id, **GP3)
    yield MIN_AWAY_S / 2  # for CloudWatch to publish what was before
    bounds = credits_on_arrival(_read_round_trip(context, volume_id, left_at_s, arrived_at_s))
    required_away_s = bounds and min_away_s(
        bounds, size_gib=_SIZE_GIB, iops=1, modify_s=_RETURN_DURATION_FACTOR * (arrived_at_s - left_at_s)
    )
    away_s = min(_MAX_AWAY_S, max(MIN_AWAY_S, required_away_s or 0))
    yield max(0.0, arrived_at_s + away_s - context.now_s())
    return_started_at_s, returned_at_s = yield from context.modify_and_wait(volume_id, VolumeType="gp2")
    while True:
        round_trip = _read_round_trip(
            context, volume_id, left_at_s, arrived_at_s, return_started_at_s, returned_at_s
        )
        if (
            round_trip.has_enough_datapoints
            or context.now_s() > returned_at_s + MIN_RETURN_SPAN_S + _DATAPOINT_TIMEOUT_S
        ):
            return to_measured(round_trip)
        yield _POLL_INTERVAL_S


def _read_round_trip(
    context: FactContext,
    volume_id: str,
    left_at_s: float,
    arrived_at_s: float,
    return_started_at_s: float | None = None,
    returned_at_s: float | None = None,
) -> RoundTrip:
    since_s, until_s = left_at_s - LOOKBACK_S, context.now_s() - 60
    reads, writes = (
        context.read_datapoints(volume_id, since_s, metric, "Sum")
        for metric in ("VolumeReadOps", "VolumeWriteOps")
    )
    written = dict(zip(writes.starts_at_s, writes.values, strict=True))
    return RoundTrip(
        size_gib=_SIZE_GIB,
        left_at_s=left_at_s,
        arrived_at_s=arrived_at_s,
        return_started_at_s=return_started_at_s,
        returned_at_s=returned_at_s,
        balance=context.read_datapoints(volume_id, since_s).closed_by(until_s),
        operations=Series.from_pairs(
            (sample.start_at_s, sample.value + written.get(sample.start_at_s, 0)) for sample in reads
        ),
    )


FACT: Final = Fact(
    name="balance-after-return",
    question="Is the burst balance kept, refilled, reset or emptied after gp2, gp3 and gp2 again?",
    why="It is not documented. A flip that empties the bucket on its return would harm what it protects.",
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
