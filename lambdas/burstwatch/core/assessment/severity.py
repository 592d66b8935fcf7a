"""How severe it is: levels, and the hysteresis that keeps them from flapping.

Each level has a rule to enter it and a farther limit to leave it. With the default policy::

    level      enter                                                leave
    exhausted  balance at most 1 %                                  5 % or more for two minutes
    critical   confirmed drain, empty within 15 min; or empty       empty after more than 30 min,
               within 8 min, both by the rate of the last ten       or no fall for 10 min
               minutes and at full burst
    warning    empty within 60 min; or draining, and full burst     empty after more than 90 min,
               would empty it within 8 min                          or no fall for 10 min
    watch      balance below 95 %                                   97 % or more for two minutes

If full burst could empty the bucket within 16 minutes, "no fall for 10 min" becomes "no fall for an hour".
``docs/decisions/0015`` explains why ``critical`` waits until a drain is confirmed.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.forecast import Forecast, has_not_fallen_for
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.text import format_duration


class Level(StrEnum):
    """In rising order of urgency; ``unknown`` is apart, and is never kept as a volume's last level."""

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
"""A volume that full burst could empty within this many times ``act_lead`` keeps its level for longer."""

SETTLING_TIME: Final = timedelta(hours=1)
"""How long such a volume must not fall, so that a load in bursts is one incident (decision 0015)."""
_LONG_HORIZON_S: Final = 30 * 60
"""Only a horizon of at least this length can show that a level is over: a shorter one may be a pause."""
_CALM_SPARSE_SAMPLES: Final = 3
"""Rules about noise or calm count at least this many datapoints, where one comes every five minutes."""


def classify(assessment: Assessment, last_level: Level, policy: Policy) -> Level:
    """Classify a volume, given its level at the last poll.

    A level is entered by its own rule and kept until its leaving rule holds. A balance is an integral, so one
    reading of it decides. An estimate needs horizons of three minutes and more, so one noisy minute neither
    enters nor leaves a level, unless ``soonest_empty_s`` leaves no time to wait.

    A warning is given early. A critical level wakes people and flips volumes, and most drains end by
    themselves: it waits until the drain is confirmed, or until there is no time left to wait.

    Args:
        assessment: the facts of this poll.
        last_level: the level at the last poll that could judge it; never ``unknown``.
        policy: the thresholds.
    """
    if assessment.unknown_reason is not None:
        return Level.UNKNOWN
    # A bucket that refills since its arrival does not become exhausted; one that was leaves by its own rule.
    may_be_exhausted = last_level is Level.EXHAUSTED or not _refills_since_arrival(assessment)
    if may_be_exhausted and _is_exhausted(assessment.balance, last_level, policy):
        return Level.EXHAUSTED
    if _is_critical(assessment, last_level, policy):
        return Level.CRITICAL
    if _is_warning(assessment, last_level, policy):
        return Level.WARNING
    watched = _is_below_watch_limit(assessment.balance, last_level, policy.cadence)
    return Level.WATCH if watched else Level.OK


def _refills_since_arrival(assessment: Assessment) -> bool:
    """Whether the volume is new, attached again or back from a flip, and is not known to be throttled.

    A calm volume that returns with an empty bucket gains credits at once. If its first datapoints counted, it
    would be flipped a second time, and people would be paged. A throttled volume has a flat trend after five
    minutes.
    """
    forecast = assessment.forecast
    if assessment.arrived_at_s is None or forecast is None:
        return False
    return forecast.drain_per_s is None or forecast.is_refilling


PACE_REASON: Final = "at this pace it is empty within"
BALANCE_REASON: Final = "the balance is at or below"


def explain_level(assessment: Assessment, level: Level, policy: Policy) -> str:
    """Explain in words which rule put the volume at this level."""
    forecast, levels = assessment.forecast, policy.levels
    if assessment.unknown_reason is not None:
        return assessment.unknown_because or assessment.unknown_reason.description
    assert forecast is not None
    match level:
        case Level.EXHAUSTED if assessment.balance.values[-1] <= levels.exhausted_pct:
            reason = f"{BALANCE_REASON} {levels.exhausted_pct:g} %"
        case Level.EXHAUSTED:
            reason = f"it was exhausted and has not been at {levels.exhausted_leave_pct:g} % for two minutes"
        case Level.CRITICAL:
            reason = _critical_reason(assessment, forecast, policy)
        case Level.WARNING:
            reason = _warning_reason(assessment, forecast, policy)
        case Level.WATCH:
            below = f"the balance is below {policy.cadence.calm_from_pct:g} %"
            reason = f"{below}, {_describe_not_soon(forecast, policy)}"
        case _:
            reason = "calm"
    return reason


def _describe_not_soon(forecast: Forecast, policy: Policy) -> str:
    """Why an estimate, if there is one, is no reason for a warning."""
    time_to_empty_s = forecast.time_to_empty_s
    if time_to_empty_s is None or time_to_empty_s > policy.levels.warning_within.total_seconds():
        return "but not empty soon"
    return "and its drain has not lasted for a third of the time that it predicts"


def _critical_reason(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_confirmed(forecast, policy):
        return f"{PACE_REASON} {_format_timedelta(policy.levels.critical_within)}"
    if _is_out_of_time(forecast, policy):
        return f"{PACE_REASON} {_format_timedelta(policy.cadence.act_lead)}"
    return _kept_level_reason(Level.CRITICAL, assessment, policy)


def _warning_reason(assessment: Assessment, forecast: Forecast, policy: Policy) -> str:
    if _is_empty_within(forecast, policy.levels.warning_within.total_seconds()):
        return f"{PACE_REASON} {_format_timedelta(policy.levels.warning_within)}"
    if _is_at_risk(forecast, policy):
        return f"it drains, and full burst would empty it within {_format_timedelta(policy.cadence.act_lead)}"
    return _kept_level_reason(Level.WARNING, assessment, policy)


def _kept_level_reason(level: Level, assessment: Assessment, policy: Policy) -> str:
    if _needs_settling_time(assessment, policy):
        within = NEAR_EMPTY_FACTOR * policy.cadence.act_lead
        return (
            f"full burst would empty it within {_format_timedelta(within)}, and the balance has not been"
            " stable for an hour"
        )
    refilling_for = policy.levels.refilling_for * assessment.bucket.time_scale
    return f"it was {level} and has not recovered for {_format_timedelta(refilling_for)} yet"


def _format_timedelta(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())


def _is_soonest_empty_within(forecast: Forecast, limit: timedelta) -> bool:
    soonest_s = forecast.soonest_empty_s
    return soonest_s is not None and soonest_s <= limit.total_seconds()


def _is_exhausted(balance: Series, last_level: Level, policy: Policy) -> bool:
    levels = policy.levels
    if balance.values[-1] <= levels.exhausted_pct:
        return True
    return last_level is Level.EXHAUSTED and min(_latest(balance)) < levels.exhausted_leave_pct


def _is_below_watch_limit(balance: Series, last_level: Level, cadence: CadencePolicy) -> bool:
    if balance.values[-1] < cadence.watch_below_pct:
        return True
    return last_level.rank >= Level.WATCH.rank and min(_latest(balance)) < cadence.calm_from_pct


def _latest(balance: Series) -> Sequence[float]:
    """The datapoints that must all be high for a level to be left: two of a minute, three of five minutes."""
    return balance.last(2 if balance.period_s == PERIOD_S else _CALM_SPARSE_SAMPLES)


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
    """Whether a level is left: the balance no longer falls, or it is empty later than the leaving limit."""
    if _needs_settling_time(assessment, policy):
        return has_not_fallen_for(assessment.balance, int(SETTLING_TIME.total_seconds()), allowed_falls=0)
    return _has_stopped_falling(assessment, policy) or _is_empty_after(forecast, leave.total_seconds())


def _needs_settling_time(assessment: Assessment, policy: Policy) -> bool:
    """Whether full burst could empty it soon; not if it is calm again, however long ``act_lead`` is."""
    assert assessment.forecast is not None
    is_calm = min(_latest(assessment.balance)) >= policy.cadence.calm_from_pct
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
    """Whether it drains, and full burst could empty it before anybody can act."""
    return forecast.is_draining and _is_soonest_empty_within(forecast, policy.cadence.act_lead)


def _is_out_of_time(forecast: Forecast, policy: Policy) -> bool:
    """Whether it is at risk and its own rate is enough to empty it in time; or its rate is unknown."""
    if not _is_at_risk(forecast, policy):
        return False
    act_lead_s = policy.cadence.act_lead.total_seconds()
    return not forecast.drain_rates or (
        forecast.recent_rate_empty_s is not None and forecast.recent_rate_empty_s <= act_lead_s
    )


def _is_empty_within(forecast: Forecast, limit_s: float) -> bool:
    """Whether an estimate predicts it; only one within its extrapolation counts.

    In a short history, one noisy minute is too large a share.
    """
    return (
        forecast.is_within_extrapolation
        and forecast.time_to_empty_s is not None
        and forecast.time_to_empty_s <= limit_s
    )


def _is_empty_after(forecast: Forecast, limit_s: float) -> bool:
    """Whether it is empty later than this, or not at all: it lost nothing over half an hour or more."""
    if forecast.leaving_empty_s is not None:
        return forecast.leaving_empty_s > limit_s
    longest = forecast.drain_rates[-1] if forecast.drain_rates else None
    return longest is not None and longest.duration_s >= _LONG_HORIZON_S and longest.credits_per_s <= 0


def _has_stopped_falling(assessment: Assessment, policy: Policy) -> bool:
    balance = assessment.balance
    least_s = 0 if balance.period_s == PERIOD_S else (_CALM_SPARSE_SAMPLES - 1) * balance.period_s
    refilling_for = policy.levels.refilling_for * assessment.bucket.time_scale
    return has_not_fallen_for(balance, max(least_s, int(refilling_for.total_seconds())))
