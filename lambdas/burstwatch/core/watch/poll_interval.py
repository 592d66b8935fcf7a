"""When to look at a volume again: the one rule behind sweep and focus.

``look_interval + metric_lag + tick_slack + act_lead <= credits / (3000 - baseline)``; see docs/guarantee.md.
"""

from datetime import timedelta
from hashlib import sha256
from math import ceil, inf
from typing import Final

from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, highest_drain_per_s
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.text import format_duration


def longest_interval_s(
    credits_left: float, baseline: int, cadence: CadencePolicy, age_s: float = 0.0
) -> float:
    """The longest look interval in seconds the rule allows; negative when there is no time left to wait.

    A reading that is ``age_s`` old, older than ``metric_lag``, counts with its own age: that long the volume
    may have drained since. So the rule holds for datapoints that are late or come every five minutes, too.
    """
    drain_per_s = highest_drain_per_s(baseline)
    late_s = max(0.0, age_s - cadence.metric_lag.total_seconds())
    return credits_left / drain_per_s - cadence.reserve.total_seconds() - late_s if drain_per_s else inf


def sweep_ticks(baseline: int, cadence: CadencePolicy) -> int:
    """How many sweep ticks a calm volume waits from look to look, at least one."""
    at_threshold = longest_interval_s(cadence.watch_below_pct * CREDITS_PER_PCT, baseline, cadence)
    longest = min(at_threshold, cadence.sweep_at_most.total_seconds())
    return max(1, int(longest // cadence.sweep_tick.total_seconds()))


def sweep_interval_s(baseline: int, cadence: CadencePolicy) -> int:
    """Seconds from look to look of a calm volume."""
    return sweep_ticks(baseline, cadence) * int(cadence.sweep_tick.total_seconds())


def focus_interval_s(credits_left: float, baseline: int, cadence: CadencePolicy, age_s: float = 0.0) -> int:
    """Seconds from look to look of a volume in focus: whole minutes, one at the least."""
    minute = int(FOCUS_TICK.total_seconds())
    longest = longest_interval_s(credits_left, baseline, cadence, age_s)
    longest = min(longest, cadence.focus_at_most.total_seconds())
    return max(1, int(longest // minute)) * minute


RECHECK_INTERVAL_S: Final = 24 * 3600
"""A volume that is taken for idle has its operations read again this often: each time costs two metrics."""


def is_recheck_due(volume_id: str, now_s: float, interval_s: int, cadence: CadencePolicy) -> bool:
    """Whether this look is the one in ``RECHECK_INTERVAL_S`` of a volume polled every ``interval_s``."""
    tick_s = int(cadence.sweep_tick.total_seconds())
    last_tick = int(now_s) // tick_s
    return is_sweep_due(
        volume_id, RECHECK_INTERVAL_S // tick_s, last_tick - interval_s // tick_s + 1, last_tick
    )


def recommended_metric_lag(spacing_s: float, age_s: float) -> timedelta:
    """A ``metric_lag`` that covers datapoints so far apart, the newest so old: in steps of five minutes.

    The default allows for five minutes with a datapoint every minute.
    """
    needed_s = max(age_s, CadencePolicy().metric_lag.total_seconds() + spacing_s - PERIOD_S)
    step = timedelta(minutes=5)
    return step * ceil(needed_s / step.total_seconds())


def describe_spacing(spacing_s: float | None) -> str:
    """What datapoints further apart than a minute mean for alerts; empty where they are not."""
    if spacing_s is None or spacing_s <= PERIOD_S:
        return ""
    spacing, later = format_duration(spacing_s), format_duration(spacing_s - PERIOD_S)
    return f"datapoints come every {spacing}, not every minute: a drain is seen up to {later} later"


def is_sweep_due(volume_id: str, ticks: int, first_tick: int, last_tick: int) -> bool:
    """Whether a volume that is looked at every ``ticks`` ticks is due at one of the ticks first..last.

    Volumes are spread evenly by a hash of their id; ticks are counted from the epoch.
    """
    if last_tick - first_tick + 1 >= ticks:
        return last_tick >= first_tick
    phase = int.from_bytes(sha256(volume_id.encode()).digest()[:4], "big") % ticks
    return (first_tick + (phase - first_tick) % ticks) <= last_tick
