"""How bad it is: levels, and the hysteresis that keeps them from flapping."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.forecast import Forecast, has_not_fallen_for
from burstwatch.core.buckets.series import Series
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.text import format_duration


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

NEAR_EMPTY_FACTOR: Final = 2
"""Below this many times ``act_lead`` a volume keeps its level until it has rested for an hour."""

SETTLING_TIME: Final = timedelta(hours=1)
_LONG_HORIZON_S: Final = 30 * 60


def classify(assessment: Assessment, last_level: Level, policy: Policy) -> Level:
    """The level a volume is at now, given the one it was at when last judged.

    A level is entered by its own rule and kept until its leaving rule holds. A balance is an integral, so one
    reading of it decides; an estimate rests on horizons of three minutes and more, so one noisy
    minute neither enters nor leaves, except where ``soonest_empty`` leaves no time to wait.

    A warning believes a drain early. A critical wakes people and flips volumes, and most drains end by
    themselves: it waits until the drain is confirmed, or until there is no time left to wait.
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
            reason = f"the balance is at or below {levels.exhausted_pct:g} %"
        case Level.EXHAUSTED:
            reason = f"it was exhausted and is not back at {levels.exhausted_leave_pct:g} % for two minutes"
        case Level.CRITICAL:
            reason = _critical_reason(assessment, forecast, policy)
        case Level.WARNING:
            reason = _warning_reason(assessment, forecast, policy)
        case Level.WATCH:
            reason = f"the balance is below {policy.cadence.calm_from_pct:g} %, but not running out"
        case _:
            reason = "calm"
    return reason


def _critical_reason(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_confirmed(forecast, policy):
        return f"at this pace it is dry within {_format_timedelta(policy.levels.critical_within)}"
    if _is_out_of_time(forecast, policy):
        return f"at this pace it is dry within {_format_timedelta(policy.cadence.act_lead)}"
    return _kept_level_reason(Level.CRITICAL, assessment, policy)


def _warning_reason(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_empty_within(forecast, policy.levels.warning_within.total_seconds()):
        return f"at this pace it is dry within {_format_timedelta(policy.levels.warning_within)}"
    if _is_at_risk(forecast, policy):
        return f"it drains, and full burst would empty it within {_format_timedelta(policy.cadence.act_lead)}"
    return _kept_level_reason(Level.WARNING, assessment, policy)


def _kept_level_reason(level: Level, assessment: Assessment, policy: Policy) -> str:
    if _needs_settling_time(assessment, policy):
        within = NEAR_EMPTY_FACTOR * policy.cadence.act_lead
        return (
            f"full burst would empty it within {_format_timedelta(within)}, and it has not rested for an"
            " hour yet"
        )
    return f"it was {level} and has not recovered for {_format_timedelta(policy.levels.refilling_for)} yet"


def _format_timedelta(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())


def _is_soonest_empty_within(forecast: Forecast, limit: timedelta) -> bool:
    soonest_s = forecast.soonest_empty_s
    return soonest_s is not None and soonest_s <= limit.total_seconds()


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
    if _is_confirmed(forecast, policy) or _is_out_of_time(forecast, policy):
        return True
    return last_level.rank >= Level.CRITICAL.rank and not _may_leave_level(
        assessment, forecast, policy, policy.levels.critical_leave
    )


def _may_leave_level(assessment: Assessment, forecast: Forecast, policy: Policy, leave: timedelta) -> bool:
    """Whether a level is left: it rests, or is dry later than the level's leaving limit."""
    if _needs_settling_time(assessment, policy):
        return has_not_fallen_for(assessment.balance, int(SETTLING_TIME.total_seconds()), allowed_falls=0)
    return _has_stopped_falling(assessment, policy) or _is_empty_after(forecast, leave.total_seconds())


def _needs_settling_time(assessment: Assessment, policy: Policy) -> bool:
    """Full burst could soon empty it; a volume that is calm again has rested, however long acting takes."""
    assert assessment.forecast is not None
    is_calm = min(assessment.balance.last(2)) >= policy.cadence.calm_from_pct
    return not is_calm and _is_soonest_empty_within(
        assessment.forecast, NEAR_EMPTY_FACTOR * policy.cadence.act_lead
    )


def _is_warning(assessment: Assessment, last_level: Level, policy: Policy) -> bool:
    forecast = assessment.forecast
    assert forecast is not None
    if _is_empty_within(forecast, policy.levels.warning_within.total_seconds()):
        return True
    if _is_at_risk(forecast, policy):
        return True
    return last_level.rank >= Level.WARNING.rank and not _may_leave_level(
        assessment, forecast, policy, policy.levels.warning_leave
    )


def _is_confirmed(forecast: Forecast, policy: Policy) -> bool:
    limit_s = policy.levels.critical_within.total_seconds()
    return forecast.confirmed_empty_s is not None and forecast.confirmed_empty_s <= limit_s


def _is_at_risk(forecast: Forecast, policy: Policy) -> bool:
    """It drains, and full burst could empty it before anything helps."""
    return forecast.is_draining and _is_soonest_empty_within(forecast, policy.cadence.act_lead)


def _is_out_of_time(forecast: Forecast, policy: Policy) -> bool:
    """It is threatened, and its own pace is enough; or nothing is known of its pace."""
    if not _is_at_risk(forecast, policy):
        return False
    act_lead_s = policy.cadence.act_lead.total_seconds()
    return not forecast.drain_rates or (
        forecast.recent_rate_empty_s is not None and forecast.recent_rate_empty_s <= act_lead_s
    )


def _is_empty_within(forecast: Forecast, limit_s: float) -> bool:
    """Only a believed estimate enters a level: of a short history one noisy minute is too large a part."""
    return (
        forecast.is_within_extrapolation
        and forecast.time_to_empty_s is not None
        and forecast.time_to_empty_s <= limit_s
    )


def _is_empty_after(forecast: Forecast, limit_s: float) -> bool:
    """Dry later than this, or not at all: over half an hour and more it has lost nothing."""
    if forecast.time_to_empty_s is not None:
        return forecast.time_to_empty_s > limit_s
    longest = forecast.drain_rates[-1] if forecast.drain_rates else None
    return longest is not None and longest.duration_s >= _LONG_HORIZON_S and longest.credits_per_s <= 0


def _has_stopped_falling(assessment: Assessment, policy: Policy) -> bool:
    return has_not_fallen_for(assessment.balance, int(policy.levels.refilling_for.total_seconds()))
