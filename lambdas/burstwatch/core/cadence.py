"""When to look at a volume again: the one rule behind sweep and focus.

``look_interval + metric_lag + tick_slack + act_lead <= credits / (3000 - baseline)``; see docs/guarantee.md.
"""

from hashlib import sha256
from math import inf

from burstwatch.core.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.volume import CREDITS_PER_PCT, worst_drain_per_s


def longest_interval_s(credits_left: float, baseline: int, cadence: CadencePolicy) -> float:
    """The longest look interval in seconds the rule allows; negative when there is no time left to wait."""
    drain = worst_drain_per_s(baseline)
    return credits_left / drain - cadence.reserve.total_seconds() if drain else inf


def sweep_ticks(baseline: int, cadence: CadencePolicy) -> int:
    """How many sweep ticks a calm volume waits from look to look, at least one."""
    at_threshold = longest_interval_s(cadence.watch_below_pct * CREDITS_PER_PCT, baseline, cadence)
    longest = min(at_threshold, cadence.sweep_at_most.total_seconds())
    return max(1, int(longest // cadence.sweep_tick.total_seconds()))


def sweep_interval_s(baseline: int, cadence: CadencePolicy) -> int:
    """Seconds from look to look of a calm volume."""
    return sweep_ticks(baseline, cadence) * int(cadence.sweep_tick.total_seconds())


def focus_interval_s(credits_left: float, baseline: int, cadence: CadencePolicy) -> int:
    """Seconds from look to look of a volume in focus: whole minutes, one at the least."""
    minute = int(FOCUS_TICK.total_seconds())
    longest = min(longest_interval_s(credits_left, baseline, cadence), cadence.focus_at_most.total_seconds())
    return max(1, int(longest // minute)) * minute


def is_swept(volume_id: str, ticks: int, first_tick: int, last_tick: int) -> bool:
    """Whether a volume that is looked at every ``ticks`` ticks is due at one of the ticks first..last.

    Volumes are spread evenly by a hash of their id; ticks are counted from the epoch.
    """
    if last_tick - first_tick + 1 >= ticks:
        return last_tick >= first_tick
    phase = int.from_bytes(sha256(volume_id.encode()).digest()[:4], "big") % ticks
    return (first_tick + (phase - first_tick) % ticks) <= last_tick
