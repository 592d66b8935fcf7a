"""When to poll a gp2 volume again: its bucket and the policy's times, in the rule for any bucket."""

from typing import Final

from burstwatch.core.buckets import poll_interval
from burstwatch.core.buckets.poll_interval import ReactionTime
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import CREDITS_PER_PCT
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy

RECHECK_INTERVAL_S: Final = 24 * 3600
"""A volume that is taken for idle has its operations read again this often: each time costs two metrics."""


def longest_interval_s(
    credits_left: float, baseline: int, cadence: CadencePolicy, age_s: float = 0.0
) -> float:
    """The longest poll interval that the rule allows, in seconds; negative if no time is left to wait."""
    return poll_interval.longest_interval_s(
        gp2_bucket(baseline), credits_left, _reaction_time(cadence), age_s=age_s
    )


def sweep_ticks(baseline: int, cadence: CadencePolicy) -> int:
    """How many sweep ticks lie between two polls of a calm volume, at least one."""
    return poll_interval.sweep_ticks(
        gp2_bucket(baseline),
        cadence.watch_below_pct * CREDITS_PER_PCT,
        _reaction_time(cadence),
        tick_s=cadence.sweep_tick.total_seconds(),
        max_interval_s=cadence.sweep_at_most.total_seconds(),
    )


def sweep_interval_s(baseline: int, cadence: CadencePolicy) -> int:
    """The seconds between two polls of a calm volume."""
    return sweep_ticks(baseline, cadence) * int(cadence.sweep_tick.total_seconds())


def focus_interval_s(credits_left: float, baseline: int, cadence: CadencePolicy, age_s: float = 0.0) -> int:
    """The seconds between two polls of a volume in focus: whole minutes, at least one."""
    return poll_interval.focus_interval_s(
        gp2_bucket(baseline),
        credits_left,
        _reaction_time(cadence),
        tick_s=int(FOCUS_TICK.total_seconds()),
        max_interval_s=cadence.focus_at_most.total_seconds(),
        age_s=age_s,
    )


def is_recheck_due(volume_id: str, now_s: float, interval_s: int, cadence: CadencePolicy) -> bool:
    """Whether this poll is the one in ``RECHECK_INTERVAL_S`` of a volume polled every ``interval_s``."""
    tick_s = int(cadence.sweep_tick.total_seconds())
    last_tick = int(now_s) // tick_s
    return poll_interval.is_sweep_due(
        volume_id, RECHECK_INTERVAL_S // tick_s, last_tick - interval_s // tick_s + 1, last_tick
    )


def _reaction_time(cadence: CadencePolicy) -> ReactionTime:
    return ReactionTime(
        lag_s=cadence.metric_lag.total_seconds(),
        slack_s=cadence.tick_slack.total_seconds(),
        lead_s=cadence.act_lead.total_seconds(),
    )
