"""When to poll a bucket again: the bucket and the policy's times, in the rule for any bucket."""

from typing import Final

from burstwatch.core.buckets import poll_interval
from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.poll_interval import ReactionTime
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy

RECHECK_INTERVAL_S: Final = 24 * 3600
"""A volume that is taken for idle has its operations read again this often: each time costs two metrics."""


def longest_interval_s(
    bucket: Bucket, credits_left: float, cadence: CadencePolicy, age_s: float = 0.0
) -> float:
    """The longest poll interval that the rule allows, in seconds; negative if no time is left to wait."""
    return poll_interval.longest_interval_s(bucket, credits_left, _reaction_time(cadence), age_s=age_s)


def sweep_ticks(bucket: Bucket, cadence: CadencePolicy) -> int:
    """How many sweep ticks lie between two polls of a calm bucket, at least one."""
    return poll_interval.sweep_ticks(
        bucket,
        bucket.credits_in(cadence.watch_below_pct),
        _reaction_time(cadence),
        tick_s=cadence.sweep_tick.total_seconds(),
        max_interval_s=cadence.sweep_at_most.total_seconds(),
    )


def sweep_interval_s(bucket: Bucket, cadence: CadencePolicy) -> int:
    """The seconds between two polls of a calm bucket."""
    return sweep_ticks(bucket, cadence) * int(cadence.sweep_tick.total_seconds())


def focus_interval_s(bucket: Bucket, credits_left: float, cadence: CadencePolicy, age_s: float = 0.0) -> int:
    """The seconds between two polls of a bucket in focus: whole minutes, at least one."""
    return poll_interval.focus_interval_s(
        bucket,
        credits_left,
        _reaction_time(cadence),
        tick_s=int(FOCUS_TICK.total_seconds()),
        max_interval_s=cadence.focus_at_most.total_seconds(),
        age_s=age_s,
    )


def is_recheck_due(subject: str, now_s: float, interval_s: int, cadence: CadencePolicy) -> bool:
    """Whether this poll is the one in ``RECHECK_INTERVAL_S`` of a bucket polled every ``interval_s``."""
    tick_s = int(cadence.sweep_tick.total_seconds())
    last_tick = int(now_s) // tick_s
    return poll_interval.is_sweep_due(
        subject, RECHECK_INTERVAL_S // tick_s, last_tick - interval_s // tick_s + 1, last_tick
    )


def _reaction_time(cadence: CadencePolicy) -> ReactionTime:
    return ReactionTime(
        lag_s=cadence.metric_lag.total_seconds(),
        slack_s=cadence.tick_slack.total_seconds(),
        lead_s=cadence.act_lead.total_seconds(),
    )
