"""When a volume is polled again."""

from typing import Final

from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.flips.flip_trigger import FlipTrigger
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.advice import is_flippable
from burstwatch.core.watch.polling.cadence import focus_interval_s, longest_interval_s, sweep_interval_s
from burstwatch.core.watch.record_reading import is_newly_missing_data

FOCUS_S: Final = 60
"""The interval of the focus tick: nothing is polled more often."""

_PERMANENT_FLIP_POLL_S: Final = 12 * 3600
"""A judgement: twice a day is enough to see whether a permanently flipped volume is still on its target."""

_EMPTY_POLL_S: Final = 10 * 60
"""A judgement: a bucket that stays empty, and that only people can help, has nothing new but its recovery."""

_EARLY_WARNING_FACTOR: Final = 2
"""A drain that would be a warning within this many times the warning's span is polled every minute."""


def level_interval_s(
    assessment: Assessment, level: Level, old_state: ResourceState, *, policy: Policy, now_s: int
) -> int | None:
    """Seconds to the next poll by the level alone; None if the volume is calm and the sweep is enough."""
    if is_newly_missing_data(assessment, old_state, policy, now_s):
        return assessment.kind.period_s
    if level is old_state.level is Level.EXHAUSTED and not is_flippable(assessment.resource):
        remind_every_s = int(policy.alerts.remind_every.total_seconds())
        return max(assessment.kind.period_s, min(_EMPTY_POLL_S, remind_every_s))
    return _focus_interval_s(assessment, level, policy=policy)


def _focus_interval_s(assessment: Assessment, level: Level, *, policy: Policy) -> int | None:
    """Seconds to the next poll; None if the volume is calm and the sweep is enough.

    Never sooner than a period of the metric: a poll in between would find no other datapoint.
    """
    cadence, soonest_s = policy.cadence, assessment.kind.period_s
    if assessment.unknown_reason is not None:
        # A gp2 volume counts as not burstable only while it is modified, and when its return is first seen:
        # its bucket may be almost empty then.
        is_back = assessment.unknown_reason is UnknownReason.NOT_BURSTABLE_TYPE and assessment.volume.is_gp2
        watched = assessment.unknown_reason in (UnknownReason.READ_FAILED, UnknownReason.TOO_NEW)
        return soonest_s if watched or is_back else None
    assert assessment.credits_left is not None
    assert assessment.age_s is not None
    is_settling = assessment.arrived_at_s is not None or assessment.modified_at_s is not None
    credits_left, bucket = assessment.credits_left, assessment.bucket
    if not level.is_alerting and _may_soon_warn(assessment.forecast, policy):
        return soonest_s
    if level is Level.OK and not is_settling:
        longest_s = longest_interval_s(bucket, credits_left, cadence, assessment.age_s)
        if longest_s >= sweep_interval_s(bucket, cadence):
            return None
    return max(soonest_s, focus_interval_s(bucket, credits_left, cadence, assessment.age_s))


def _may_soon_warn(forecast: Forecast | None, policy: Policy) -> bool:
    """Whether it drains at a pace that, were it believed, would be a warning now or before long."""
    if forecast is None or not forecast.is_draining or forecast.earliest_s is None:
        return False
    return forecast.earliest_s <= _EARLY_WARNING_FACTOR * policy.levels.warning_within.total_seconds()


def interval_with_flip_s(
    interval_s: int | None, flip: Flip | None, trigger: FlipTrigger | None, policy: Policy
) -> int | None:
    """Seconds to the next poll, if a flip needs one sooner than the level does."""
    max_interval_s = int(policy.cadence.focus_at_most.total_seconds())
    if flip is not None and (flip.is_under_way or flip.unconfirmed_since_s is not None):
        flip_interval_s = FOCUS_S
    elif flip is not None and flip.is_permanent:
        flip_interval_s = _PERMANENT_FLIP_POLL_S
    elif flip is not None or trigger is not None:
        flip_interval_s = max_interval_s
    else:
        return interval_s
    return flip_interval_s if interval_s is None else min(flip_interval_s, interval_s)


def sweep_poll_interval_s(assessment: Assessment, policy: Policy) -> int | None:
    """Seconds from sweep to sweep; None for a volume that is not polled."""
    if assessment.unknown_reason in (None, UnknownReason.IDLE, UnknownReason.TELEMETRY_GAP):
        return sweep_interval_s(assessment.bucket, policy.cadence)
    return None
