"""When a bucket is empty, what applies then and how long it refills, in one line for people."""

from typing import Final

from burstwatch.core.buckets.forecast import Forecast, describe_trend
from burstwatch.core.durations import DAY_S, HOUR_S, MINUTE_S
from burstwatch.core.text import format_rounded_duration

_NUMBER_WORDS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SMALLEST_WORD: Final = 2
_UNITS: Final = ((2 * DAY_S, DAY_S, "days"), (2 * HOUR_S, HOUR_S, "hours"), (0, MINUTE_S, "minutes"))
"""From this many seconds on, a duration is given in this unit: its length in seconds, and its name."""


def describe_outlook(forecast: Forecast, *, limit_when_empty: str, idle_refill_s: float | None) -> str:
    """The outlook of a bucket, such as ``empty in about 7 h, not before 5 h; then 2.8 MiB/s; …``.

    Args:
        forecast: when the bucket is empty.
        limit_when_empty: what the resource is throttled to, with its unit.
        idle_refill_s: how long the empty bucket takes to refill; None if it never does.
    """
    time_to_empty_s, soonest_empty_s = forecast.time_to_empty_s, forecast.soonest_empty_s
    if soonest_empty_s is None:
        return "its credits cannot run out"
    refill = "it does not refill" if idle_refill_s is None else f"{_idle_duration(idle_refill_s)} to refill"
    if time_to_empty_s is None:
        soonest = format_rounded_duration(soonest_empty_s)
        trend = describe_trend(forecast.drain_per_s)
        return f"{trend}, not empty before {soonest}; then {limit_when_empty}; {refill}"
    if time_to_empty_s <= 0:
        return f"empty, throttled to {limit_when_empty}; {refill}"
    estimate, soonest = map(format_rounded_duration, (time_to_empty_s, soonest_empty_s))
    return f"empty in about {estimate}, not before {soonest}; then {limit_when_empty}; {refill}"


def _idle_duration(seconds: float) -> str:
    """``nine idle days``, ``26 idle days``, ``five idle hours``, ``90 idle minutes``."""
    unit_s, name = next((unit_s, name) for from_s, unit_s, name in _UNITS if seconds >= from_s)
    count = max(_SMALLEST_WORD, round(seconds / unit_s))
    is_word = count < _SMALLEST_WORD + len(_NUMBER_WORDS)
    return f"{_NUMBER_WORDS[count - _SMALLEST_WORD] if is_word else f'{count:,}'} idle {name}"
