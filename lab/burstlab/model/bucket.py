"""What the bucket of a volume does under a demand: exact, by the moments at which something changes.

With baseline b, credits C and served operations s: dC/dt = b - s, between 0 and the bucket's capacity. Here
s is at most 3,000 while C > 0 and at most b when C = 0. (EBS user guide, "General Purpose SSD volumes".)
Buckets of other types have other rates. Each has the capacity of gp2's, and an operation takes more or less
of it: credits are a share of the bucket, whatever its unit.
On the way to another volume type more than b may be sustained, which costs no credits and earns none.
Within a stretch of constant demand C is piecewise linear, so a day of steady load costs a handful of steps.
"""

from typing import Final, NamedTuple

from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS

FULL_CREDITS: Final = float(BUCKET_CREDITS)
_NEVER: Final = float("inf")
_NO_LIMITS: Final = (_NEVER, _NEVER)
_MIN_STEP_S: Final = 1e-9  # a rest below this is rounding, and must not cost another turn of the loop


class BucketSegment(NamedTuple):
    """A span in which credits change at one rate, and operations are served at one rate."""

    duration_s: float
    credits_before: float
    credits_after: float
    served_iops: float


class ServeResult(NamedTuple):
    """The result of a span of constant demand: the state after it, and what was served in it."""

    credits: float
    served_ops: float
    min_credits: float
    backlog_ops: float


def split_at_changes(
    *,
    baseline: float,
    credits_now: float,
    demand_iops: float,
    seconds: float,
    backlog_ops: float | None = None,
    burst_iops: float = BURST_IOPS,
    refill_iops: float | None = None,
    limits: tuple[float, float] = _NO_LIMITS,
    credits_per_op: float = 1.0,
) -> list[BucketSegment]:
    """Split ``seconds`` of constant demand where the bucket becomes empty or full, or the backlog is done.

    ``backlog_ops=None`` loses what cannot be served; a number queues it, to be served as soon as can be.
    ``refill_iops`` are the credits per second of an idle volume where that is not the baseline. ``limits``
    are operations per second that it cannot exceed for other reasons: without and with credits.
    """
    refill = baseline if refill_iops is None else refill_iops
    segments: list[BucketSegment] = []
    remaining_s, current_credits, backlog = seconds, credits_now, backlog_ops or 0.0
    while remaining_s > _MIN_STEP_S:
        ceiling = (
            min(max(baseline, burst_iops), limits[1]) if current_credits > 0 else min(baseline, limits[0])
        )
        served = ceiling if backlog > 0 else min(demand_iops, ceiling)
        rate = credit_rate(baseline, refill, current_credits, served) * credits_per_op
        bound_in_s = seconds_to_bound(current_credits, rate)
        idle_in_s = backlog / (served - demand_iops) if backlog > 0 and served > demand_iops else _NEVER
        step_s = min(remaining_s, bound_in_s, idle_in_s)
        credits_after = (
            current_credits + rate * step_s if step_s < bound_in_s else (FULL_CREDITS if rate > 0 else 0.0)
        )
        if backlog_ops is not None:
            backlog = max(0.0, backlog + (demand_iops - served) * step_s) if step_s < idle_in_s else 0.0
        segments.append(BucketSegment(step_s, current_credits, credits_after, served))
        remaining_s, current_credits = remaining_s - step_s, credits_after
    return segments


def serve(
    *, baseline: int, credits_now: float, demand_iops: float, seconds: float, backlog_ops: float | None = None
) -> ServeResult:
    """Credits, served operations, lowest credits and backlog of one span.

    Arguments as in ``split_at_changes``.
    """
    segments = split_at_changes(
        baseline=baseline,
        credits_now=credits_now,
        demand_iops=demand_iops,
        seconds=seconds,
        backlog_ops=backlog_ops,
    )
    served_ops = sum(segment.served_iops * segment.duration_s for segment in segments)
    backlog_after = 0.0 if backlog_ops is None else max(0.0, backlog_ops + demand_iops * seconds - served_ops)
    min_credits = min([credits_now, *(segment.credits_after for segment in segments)])
    return ServeResult(
        segments[-1].credits_after if segments else credits_now, served_ops, min_credits, backlog_after
    )


def credit_rate(baseline: float, refill: float, current_credits: float, served_iops: float) -> float:
    """How the credits change per second; 0 for a full bucket that would be refilled."""
    rate = baseline - served_iops if served_iops > baseline else max(0.0, refill - served_iops)
    return 0.0 if rate > 0 and current_credits >= FULL_CREDITS else rate


def seconds_to_bound(current_credits: float, rate: float) -> float:
    """When the bucket is empty or full if it goes on at this rate."""
    if rate < 0:
        return current_credits / -rate
    return (FULL_CREDITS - current_credits) / rate if rate > 0 else _NEVER
