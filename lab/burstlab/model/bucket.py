"""What a gp2 bucket does under a demand: exact, by the moments at which something changes.

With baseline b, credits C and served operations s: dC/dt = b - s, held between 0 and the bucket's capacity;
s is at most 3,000 while C > 0 and at most b when C = 0. (EBS user guide, "General Purpose SSD volumes".)
On the way to another volume type more than b may be sustained, which costs no credits and earns none.
Within a stretch of constant demand C is piecewise linear, so a day of steady load costs a handful of steps.
"""

from typing import Final, NamedTuple

from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS

FULL: Final = float(BUCKET_CREDITS)
_NEVER: Final = float("inf")
_LEAST_STEP_S: Final = 1e-9


class Piece(NamedTuple):
    """A stretch in which credits change at one rate and one rate of operations is served."""

    seconds: float
    credits_before: float
    credits_after: float
    served_iops: float


class Served(NamedTuple):
    """What a stretch of constant demand did: the state after it and what was served in it."""

    credits: float
    served_ops: float
    least_credits: float
    backlog_ops: float


def split(
    *,
    baseline: int,
    credits_now: float,
    demand_iops: float,
    seconds: float,
    backlog_ops: float | None = None,
    burst_iops: int = BURST_IOPS,
    earning_iops: int | None = None,
) -> list[Piece]:
    """Cut ``seconds`` of constant demand where the bucket empties or fills, or the backlog is worked off.

    ``backlog_ops=None`` loses what cannot be served; a number queues it, to be served as soon as can be.
    ``earning_iops`` are the credits per second of an idle volume where that is not the baseline.
    """
    earning = baseline if earning_iops is None else earning_iops
    found: list[Piece] = []
    left, held, backlog = seconds, credits_now, backlog_ops or 0.0
    while left > _LEAST_STEP_S:
        ceiling = max(baseline, burst_iops) if held > 0 else baseline
        served = ceiling if backlog > 0 else min(demand_iops, ceiling)
        rate = _credit_rate(baseline, earning, held, served)
        until_bound = _seconds_to_bound(held, rate)
        until_idle = backlog / (served - demand_iops) if backlog > 0 and served > demand_iops else _NEVER
        step = min(left, until_bound, until_idle)
        after = held + rate * step if step < until_bound else (FULL if rate > 0 else 0.0)
        if backlog_ops is not None:
            backlog = max(0.0, backlog + (demand_iops - served) * step) if step < until_idle else 0.0
        found.append(Piece(step, held, after, served))
        left, held = left - step, after
    return found


def serve(
    *, baseline: int, credits_now: float, demand_iops: float, seconds: float, backlog_ops: float | None = None
) -> Served:
    """Credits, served operations, lowest credits and backlog of one stretch; arguments as in ``split``."""
    run = split(
        baseline=baseline,
        credits_now=credits_now,
        demand_iops=demand_iops,
        seconds=seconds,
        backlog_ops=backlog_ops,
    )
    served_ops = sum(piece.served_iops * piece.seconds for piece in run)
    unserved = 0.0 if backlog_ops is None else max(0.0, backlog_ops + demand_iops * seconds - served_ops)
    least = min([credits_now, *(piece.credits_after for piece in run)])
    return Served(run[-1].credits_after if run else credits_now, served_ops, least, unserved)


def _credit_rate(baseline: int, earning: int, held: float, served_iops: float) -> float:
    rate = baseline - served_iops if served_iops > baseline else max(0.0, earning - served_iops)
    return 0.0 if rate > 0 and held >= FULL else rate


def _seconds_to_bound(held: float, rate: float) -> float:
    if rate < 0:
        return held / -rate
    return (FULL - held) / rate if rate > 0 else _NEVER
