"""How bad it is: levels, and the hysteresis that keeps them from flapping."""

from datetime import timedelta
from enum import StrEnum

from burstwatch.core.assess import Assessment
from burstwatch.core.forecast import Forecast, not_falling_for
from burstwatch.core.policy import CadencePolicy, Policy
from burstwatch.core.samples import Series
from burstwatch.core.words import format_duration


class Level(StrEnum):
    """In rising order of urgency; ``unknown`` stands apart and is never kept as a volume's last level."""

    UNKNOWN = "unknown"
    OK = "ok"
    WATCH = "watch"
    WARNING = "warning"
    CRITICAL = "critical"
    EXHAUSTED = "exhausted"

    @property
    def rank(self) -> int:
        return _RANKS[self]

    @property
    def is_alerting(self) -> bool:
        return self.rank >= Level.WARNING.rank


_RANKS = {level: rank for rank, level in enumerate(Level)}

_BOUND_LEAVES_AT = 1.5
"""Below this many times ``act_lead`` a critical volume stays critical until it does not fall at all."""


_LONG_S = 30 * 60


def judge(assessment: Assessment, last_level: Level, policy: Policy) -> Level:
    """The level a volume is at now, given the one it was at when last judged.

    A level is entered by its own rule and kept until its leaving rule holds. A balance is an integral, so one
    reading of it decides; an estimate rests on horizons of three minutes and more, so one noisy
    minute neither enters nor leaves, except where ``soonest_empty`` leaves no time to wait.
    """
    if assessment.unknown_reason is not None:
        return Level.UNKNOWN
    if _is_exhausted(assessment.balance, last_level, policy):
        return Level.EXHAUSTED
    if _is_critical(assessment, last_level, policy):
        return Level.CRITICAL
    if _is_warning(assessment, last_level, policy):
        return Level.WARNING
    watched = _is_watched(assessment.balance, last_level, policy.cadence)
    return Level.WATCH if watched else Level.OK


def explain_level(assessment: Assessment, level: Level, policy: Policy) -> str:
    """The rule that put the volume at this level, in words."""
    forecast, levels = assessment.forecast, policy.levels
    if forecast is None or assessment.unknown_reason is not None:
        return assessment.unknown_because or str(assessment.unknown_reason)
    match level:
        case Level.EXHAUSTED if assessment.balance.values[-1] <= levels.exhausted_pct:
            why = f"the balance is at or below {levels.exhausted_pct:g} %"
        case Level.EXHAUSTED:
            why = f"it was exhausted and is not back at {levels.exhausted_leave_pct:g} % for two minutes"
        case Level.CRITICAL if _is_dry_within(forecast, levels.critical_within.total_seconds()):
            why = f"at this pace it is dry within {_minutes(levels.critical_within)}"
        case Level.CRITICAL if forecast.draining and _is_bound_near(forecast.soonest_empty_s, policy):
            why = f"it drains, and full burst would empty it within {_minutes(policy.cadence.act_lead)}"
        case Level.WARNING if _is_dry_within(forecast, levels.warning_within.total_seconds()):
            why = f"at this pace it is dry within {_minutes(levels.warning_within)}"
        case Level.CRITICAL | Level.WARNING:
            why = f"it was {level} and has not recovered for {_minutes(levels.refilling_for)} yet"
        case Level.WATCH:
            why = f"the balance is below {policy.cadence.calm_from_pct:g} %, but not running out"
        case _:
            why = "calm"
    return why


def _minutes(span: timedelta) -> str:
    return format_duration(span.total_seconds())


def _is_bound_near(soonest_empty_s: float | None, policy: Policy) -> bool:
    return soonest_empty_s is not None and soonest_empty_s <= policy.cadence.act_lead.total_seconds()


def _is_exhausted(balance: Series, last_level: Level, policy: Policy) -> bool:
    levels = policy.levels
    if balance.values[-1] <= levels.exhausted_pct:
        return True
    return last_level is Level.EXHAUSTED and min(balance.last(2)) < levels.exhausted_leave_pct


def _is_watched(balance: Series, last_level: Level, cadence: CadencePolicy) -> bool:
    if balance.values[-1] < cadence.watch_below_pct:
        return True
    return last_level.rank >= Level.WATCH.rank and min(balance.last(2)) < cadence.calm_from_pct


def _is_critical(assessment: Assessment, last_level: Level, policy: Policy) -> bool:
    forecast = assessment.forecast
    assert forecast is not None
    if forecast.soonest_empty_s is None:
        return False
    if forecast.draining and _is_bound_near(forecast.soonest_empty_s, policy):
        return True
    if _is_dry_within(forecast, policy.levels.critical_within.total_seconds()):
        return True
    near = forecast.soonest_empty_s <= policy.cadence.act_lead.total_seconds() * _BOUND_LEAVES_AT
    if last_level.rank < Level.CRITICAL.rank or _has_stopped_falling(
        assessment, policy, forgiven=0 if near else 1
    ):
        return False
    return near or not _is_dry_after(forecast, policy.levels.critical_leave.total_seconds())


def _is_warning(assessment: Assessment, last_level: Level, policy: Policy) -> bool:
    forecast = assessment.forecast
    assert forecast is not None
    if _is_dry_within(forecast, policy.levels.warning_within.total_seconds()):
        return True
    if last_level.rank < Level.WARNING.rank or _has_stopped_falling(assessment, policy, forgiven=1):
        return False
    return not _is_dry_after(forecast, policy.levels.warning_leave.total_seconds())


def _is_dry_within(forecast: Forecast, limit_s: float) -> bool:
    """Only a believed estimate enters a level: of a short history one noisy minute is too large a part."""
    return (
        forecast.is_believed and forecast.time_to_empty_s is not None and forecast.time_to_empty_s <= limit_s
    )


def _is_dry_after(forecast: Forecast, limit_s: float) -> bool:
    """Dry later than this, or not at all: over half an hour and more it has lost nothing."""
    if forecast.time_to_empty_s is not None:
        return forecast.time_to_empty_s > limit_s
    longest = forecast.drains[-1] if forecast.drains else None
    return longest is not None and longest.span_s >= _LONG_S and longest.per_s <= 0


def _has_stopped_falling(assessment: Assessment, policy: Policy, *, forgiven: int) -> bool:
    span_s = int(policy.levels.refilling_for.total_seconds())
    return not_falling_for(assessment.balance, span_s, forgiven=forgiven)
