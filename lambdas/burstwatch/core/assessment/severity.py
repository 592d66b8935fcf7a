"""How bad it is: levels, and the hysteresis that keeps them from flapping."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.forecast import Forecast, not_falling_for
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

NEAR: Final = 2
"""Below this many times ``act_lead`` a volume keeps its level until it has rested for an hour."""

RESTED: Final = timedelta(hours=1)
_LONG_S: Final = 30 * 60


def judge(assessment: Assessment, last_level: Level, policy: Policy) -> Level:
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
            why = f"the balance is at or below {levels.exhausted_pct:g} %"
        case Level.EXHAUSTED:
            why = f"it was exhausted and is not back at {levels.exhausted_leave_pct:g} % for two minutes"
        case Level.CRITICAL:
            why = _why_critical(assessment, forecast, policy)
        case Level.WARNING:
            why = _why_warning(assessment, forecast, policy)
        case Level.WATCH:
            why = f"the balance is below {policy.cadence.calm_from_pct:g} %, but not running out"
        case _:
            why = "calm"
    return why


def _why_critical(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_confirmed(forecast, policy):
        return f"at this pace it is dry within {_minutes(policy.levels.critical_within)}"
    if _is_out_of_time(forecast, policy):
        return f"at this pace it is dry within {_minutes(policy.cadence.act_lead)}"
    return _why_kept(Level.CRITICAL, assessment, policy)


def _why_warning(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_dry_within(forecast, policy.levels.warning_within.total_seconds()):
        return f"at this pace it is dry within {_minutes(policy.levels.warning_within)}"
    if _is_threatened(forecast, policy):
        return f"it drains, and full burst would empty it within {_minutes(policy.cadence.act_lead)}"
    return _why_kept(Level.WARNING, assessment, policy)


def _why_kept(level: Level, assessment: Assessment, policy: Policy) -> str:
    if _must_rest(assessment, policy):
        within = NEAR * policy.cadence.act_lead
        return f"full burst would empty it within {_minutes(within)}, and it has not rested for an hour yet"
    return f"it was {level} and has not recovered for {_minutes(policy.levels.refilling_for)} yet"


def _minutes(span: timedelta) -> str:
    return format_duration(span.total_seconds())


def _is_bound_within(forecast: Forecast, limit: timedelta) -> bool:
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
    return last_level.rank >= Level.CRITICAL.rank and not _is_over(
        assessment, forecast, policy, policy.levels.critical_leave
    )


def _is_over(assessment: Assessment, forecast: Forecast, policy: Policy, leave: timedelta) -> bool:
    """Whether a level is left: it rests, or is dry later than the level's leaving limit."""
    if _must_rest(assessment, policy):
        return not_falling_for(assessment.balance, int(RESTED.total_seconds()), forgiven=0)
    return _has_stopped_falling(assessment, policy) or _is_dry_after(forecast, leave.total_seconds())


def _must_rest(assessment: Assessment, policy: Policy) -> bool:
    """Full burst could soon empty it; a volume that is calm again has rested, however long acting takes."""
    assert assessment.forecast is not None
    is_calm = min(assessment.balance.last(2)) >= policy.cadence.calm_from_pct
    return not is_calm and _is_bound_within(assessment.forecast, NEAR * policy.cadence.act_lead)


def _is_warning(assessment: Assessment, last_level: Level, policy: Policy) -> bool:
    forecast = assessment.forecast
    assert forecast is not None
    if _is_dry_within(forecast, policy.levels.warning_within.total_seconds()):
        return True
    if _is_threatened(forecast, policy):
        return True
    return last_level.rank >= Level.WARNING.rank and not _is_over(
        assessment, forecast, policy, policy.levels.warning_leave
    )


def _is_confirmed(forecast: Forecast, policy: Policy) -> bool:
    limit_s = policy.levels.critical_within.total_seconds()
    return forecast.confirmed_s is not None and forecast.confirmed_s <= limit_s


def _is_threatened(forecast: Forecast, policy: Policy) -> bool:
    """It drains, and full burst could empty it before anything helps."""
    return forecast.draining and _is_bound_within(forecast, policy.cadence.act_lead)


def _is_out_of_time(forecast: Forecast, policy: Policy) -> bool:
    """It is threatened, and its own pace is enough; or nothing is known of its pace."""
    if not _is_threatened(forecast, policy):
        return False
    act_lead_s = policy.cadence.act_lead.total_seconds()
    return not forecast.drains or (forecast.at_pace_s is not None and forecast.at_pace_s <= act_lead_s)


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


def _has_stopped_falling(assessment: Assessment, policy: Policy) -> bool:
    return not_falling_for(assessment.balance, int(policy.levels.refilling_for.total_seconds()))
