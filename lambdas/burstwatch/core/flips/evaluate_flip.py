"""What one poll means for a flip: whether one is wanted, and what must be reported besides the level."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.pricing import PRICE_SOURCE
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, can_burst
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.flips.flip_trigger import FlipTrigger, choose_act_rule, describe_windows, flip_trigger
from burstwatch.core.flips.guards import detached_refusal
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.flips.return_trigger import return_trigger
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Direction, Flip, FlipCause, Hold, configuration_to_document
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import FlipBackPolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import (
    LeadPolicy,
    Occurrence,
    WindowState,
    describe_flip_duration,
    expected_flip_duration,
)
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.text import (
    HALF_CENT_USD,
    format_duration,
    format_instant,
    format_relative_time,
    format_until,
    format_usd,
)

_OVERDUE_AFTER_S: Final = DAY_S
"""A judgement: most loads are calm at some time of a day, and AWS counts modifications over a day."""
_OVERDUE_REMINDER_INTERVAL_S: Final = DAY_S
"""A judgement: once a day is enough for a volume that costs money and is in no danger."""
_DAYS_PER_MONTH: Final = 730 / 24
"""AWS bills a month as 730 hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipEvaluation:
    """The state after a poll, the events to report, and the modification that should be made now, if any.

    ``blocked_reason`` says in words why nothing is done; None if there is nothing to do or to wait for.
    """

    state: ResourceState
    events: tuple[Event, ...] = ()
    trigger: FlipTrigger | None = None
    blocked_reason: str | None = None


def evaluate_flip(
    assessment: Assessment,
    state: ResourceState,
    level: Level,
    volume_settings: VolumeSettings,
    volume_context: VolumeContext,
    *,
    recommendation: Recommendation | None,
    policy: Policy,
    now_s: float,
) -> FlipEvaluation:
    """What the volume's flip, tags and windows ask for now; ``now_s`` is in seconds since 1970."""
    if state.flip is not None:
        return _evaluate_return(
            assessment, state, state.flip, volume_settings, volume_context, policy=policy, now_s=now_s
        )
    level_reason = explain_level(assessment, level, policy)
    trigger = flip_trigger(
        assessment.volume,
        level,
        volume_settings,
        volume_context.windows,
        level_reason=level_reason,
        act_at=choose_act_rule(recommendation.settled_target if recommendation else None, policy).level,
        is_refilling=assessment.forecast is not None and assessment.forecast.is_refilling,
    )
    if volume_settings.mode is Mode.OBSERVE or not volume_context.is_watched:
        return FlipEvaluation(state=state)
    exposed = _report_critical(state, assessment, volume_settings, recommendation, policy.lead)
    reported = exposed.then(
        _check_missed_window(
            assessment, exposed.state, trigger, volume_settings, volume_context, recommendation, now_s
        )
    )
    if trigger is None:
        quiet_state = replace(reported.state, alerts=replace(reported.state.alerts, refusal=None))
        return FlipEvaluation(state=quiet_state, events=reported.events)
    if volume_settings.mode is Mode.AUTO and not state.is_contested:
        return FlipEvaluation(state=reported.state, events=reported.events, trigger=trigger)
    blocked_reason = f"{trigger.reason}; mode {volume_settings.mode} requires manual action"
    return FlipEvaluation(
        state=reported.state,
        events=reported.events,
        blocked_reason=None if trigger.cause is FlipCause.DRAINING else blocked_reason,
    )


def _report_critical(
    state: ResourceState,
    assessment: Assessment,
    volume_settings: VolumeSettings,
    recommendation: Recommendation | None,
    lead: LeadPolicy,
) -> Transition:
    """Report once that a volume which is tagged critical depends on burst credits."""
    is_exposed = volume_settings.is_critical and can_burst(assessment.volume)
    new_state = replace(state, alerts=replace(state.alerts, is_critical_open=is_exposed))
    if not is_exposed or state.alerts.is_critical_open:
        return Transition(state=new_state)
    return Transition(
        state=new_state, events=(_critical_event(assessment, volume_settings, recommendation, lead),)
    )


def _critical_event(
    assessment: Assessment,
    volume_settings: VolumeSettings,
    recommendation: Recommendation | None,
    lead: LeadPolicy,
) -> Event:
    baseline, target = assessment.baseline_iops, recommendation.target if recommendation else None
    return Event(
        kind=EntryKind.ALERT,
        summary="is tagged critical and depends on burst credits",
        details=(
            f"Without credits it serves {baseline:,} IOPS, not {BURST_IOPS:,}: what depends on it stalls.",
            _who_acts(volume_settings.mode),
            *([_flip_duration_sentence(assessment, lead)] if target else []),
            *(f"{reason}." for reason in (recommendation.reasons if recommendation else ())[-1:]),
        ),
        alert=AlertKind.CRITICAL_ON_BURST,
        action=recommendation.action if recommendation else None,
        facts=_recommendation_facts(assessment, recommendation)
        | {"baseline_iops": baseline, "mode": str(volume_settings.mode)},
    )


def _flip_duration_sentence(assessment: Assessment, lead: LeadPolicy) -> str:
    return describe_flip_duration(
        assessment.volume.size_gib, lead, time_to_empty_s=assessment.time_to_empty_s
    )


def _who_acts(mode: Mode) -> str:
    if mode is Mode.AUTO:
        return "It is in mode auto: a watchdog that may act flips it, unless a guard refuses."
    return f"It is in mode {mode}: flipping it requires manual action."


def _recommendation_facts(assessment: Assessment, recommendation: Recommendation | None) -> dict[str, Any]:
    target = recommendation.target if recommendation else None
    return {
        "from": configuration_to_document(configuration_of(assessment.volume)),
        "to": configuration_to_document(target) if target else None,
    }


def _check_missed_window(
    assessment: Assessment,
    state: ResourceState,
    trigger: FlipTrigger | None,
    volume_settings: VolumeSettings,
    volume_context: VolumeContext,
    recommendation: Recommendation | None,
    now_s: float,
) -> Transition:
    """Report the start of a window that a flip begun now cannot meet, once for each start.

    A window that was started by hand is not reported: it begins at once, and the person knows it.
    """
    windows = volume_context.windows
    if trigger is None or windows is None or windows.missed_by is None:
        return Transition(state=state)
    return _record_missed_window(
        state,
        windows,
        windows.missed_by.total_seconds(),
        now_s=now_s,
        subject="If it begins now, the flip",
        details=("Until then, the volume depends on its credits.", _who_acts(volume_settings.mode)),
        action=recommendation.action if recommendation else None,
        facts=_recommendation_facts(assessment, recommendation) | {"mode": str(volume_settings.mode)},
    )


def _check_missed_window_in_flight(
    state: ResourceState,
    flip: Flip,
    volume_settings: VolumeSettings,
    windows: WindowState | None,
    *,
    policy: Policy,
    now_s: float,
) -> Transition:
    """Report the start of a window that the flip under way will not meet, or did not meet."""
    if windows is None or not windows.wants_flip or flip.direction is not Direction.FLIP:
        return Transition(state=state)
    began_at_s = flip.started_at_s or flip.requested_at_s
    late_s = (
        began_at_s
        + expected_flip_duration(flip.size_gib, policy.lead).total_seconds()
        - _window_start_at_s(windows)
    )
    if late_s <= 0:
        return Transition(state=state)
    return _record_missed_window(
        state,
        windows,
        late_s,
        now_s=now_s,
        subject="The flip in progress",
        details=("Until then, its performance is between the two.", f"{flip.reason}."),
        action=None,
        facts={
            "from": configuration_to_document(flip.original),
            "to": configuration_to_document(flip.target),
            "mode": str(volume_settings.mode),
        },
    )


def _record_missed_window(
    state: ResourceState,
    windows: WindowState,
    late_s: float,
    *,
    now_s: float,
    subject: str,
    details: tuple[str, ...],
    action: str | None,
    facts: Mapping[str, Any],
) -> Transition:
    first, starts_at_s = _first_occurrence(windows), _window_start_at_s(windows)
    if not windows.wants_flip or first.is_manual or state.alerts.missed_window_at_s == starts_at_s:
        return Transition(state=state)
    done_in = format_relative_time(starts_at_s + late_s, now_s, "UTC")
    event = Event(
        kind=EntryKind.ALERT,
        summary=f'will miss window "{first.window}" by {format_duration(late_s)}',
        details=(
            f"{subject} is expected to finish {done_in}, but {describe_windows(windows, now_s)}.",
            *details,
        ),
        alert=AlertKind.WINDOW_MISSED,
        action=action,
        facts={
            **facts,
            "window": first.window,
            "starts_at": format_instant(starts_at_s),
            "expected_at": format_instant(starts_at_s + late_s),
            "late_s": round(late_s),
        },
    )
    new_state = replace(state, alerts=replace(state.alerts, missed_window_at_s=starts_at_s))
    return Transition(state=new_state, events=(event,))


def _first_occurrence(windows: WindowState) -> Occurrence:
    return (windows.running or windows.upcoming)[0]


def _window_start_at_s(windows: WindowState) -> int:
    return int(_first_occurrence(windows).interval.start_at.timestamp())


def _evaluate_return(
    assessment: Assessment,
    state: ResourceState,
    flip: Flip,
    volume_settings: VolumeSettings,
    volume_context: VolumeContext,
    *,
    policy: Policy,
    now_s: float,
) -> FlipEvaluation:
    if flip.is_under_way:
        missed = _check_missed_window_in_flight(
            state, flip, volume_settings, volume_context.windows, policy=policy, now_s=now_s
        )
        return FlipEvaluation(
            state=missed.state,
            events=missed.events,
            blocked_reason=f"being modified to {flip.requested_config}",
        )
    windows, hold = volume_context.windows, volume_context.hold
    prohibition = None if flip.is_permanent else _prohibition(state, flip, volume_settings, policy)
    is_within_cap = flip.usd_per_month <= policy.flip.tag_cap_usd
    is_critical = volume_settings.is_critical and not flip.is_permanent and is_within_cap
    if prohibition is not None:
        result = FlipEvaluation(
            state=state, blocked_reason=f"left {flip.target}: its automatic return is not allowed"
        )
    elif is_critical:
        result = FlipEvaluation(state=state, blocked_reason=f"stays {flip.target}: it is tagged critical")
    else:
        match return_trigger(flip, assessment, windows, policy=policy, now_s=now_s):
            case FlipTrigger() as trigger:
                result = FlipEvaluation(state=state, trigger=trigger)
            case reason:
                result = FlipEvaluation(state=state, blocked_reason=reason)
    overdue_reason = prohibition
    if prohibition is None and not is_critical and _is_overdue(flip, windows, policy.flip_back, now_s):
        obstacle = result.blocked_reason or _not_done_reason(hold, assessment.volume, now_s)
        overdue_reason = f"It should have returned by now, but {obstacle}."
    alerted_at_s = flip.overdue_alerted_at_s
    is_alerted = alerted_at_s is not None and now_s - alerted_at_s < _OVERDUE_REMINDER_INTERVAL_S
    if overdue_reason is None or flip.is_permanent or is_alerted:
        return result
    return replace(
        result,
        state=replace(state, flip=replace(flip, overdue_alerted_at_s=int(now_s))),
        events=(_overdue_return_event(state, flip, volume_settings, overdue_reason, now_s, hold=hold),),
    )


def _prohibition(
    state: ResourceState, flip: Flip, volume_settings: VolumeSettings, policy: Policy
) -> str | None:
    """Why the watchdog may not flip the volume back, as a sentence; None if it may."""
    if state.is_contested:
        return "Someone else changed it: the watchdog does not flip it back until it is released."
    if volume_settings.mode is Mode.AUTO or _is_timed_manual_flip(flip, volume_settings, policy):
        return None
    return _not_allowed_reason(volume_settings, policy)


def _is_timed_manual_flip(flip: Flip, volume_settings: VolumeSettings, policy: Policy) -> bool:
    """Whether a person wanted it away for a while: that needs no tag, and stops with everything automatic."""
    is_stopped = policy.mode.highest is not Mode.AUTO or volume_settings.is_ignored
    return flip.cause is FlipCause.MANUAL and not is_stopped


def _not_done_reason(hold: Hold | None, volume: Volume, now_s: float) -> str:
    if hold is not None:
        return f"it is on hold by {hold.by} {format_until(hold.until_s, now_s)}"
    if (refusal := detached_refusal(volume)) is not None:
        return refusal.reason
    return "the requested change was not made: see its history"


def _not_allowed_reason(volume_settings: VolumeSettings, policy: Policy) -> str:
    if volume_settings.is_ignored:
        return f"It is tagged {IGNORE}: the watchdog flips it back only without that tag."
    if policy.mode.highest is not Mode.AUTO:
        return (
            f"The policy's mode.highest is {policy.mode.highest}, which stops every automatic modification."
        )
    return f"It is in mode {volume_settings.mode} now: the watchdog flips it back only with its opt-in tag."


def _is_overdue(flip: Flip, windows: WindowState | None, policy: FlipBackPolicy, now_s: float) -> bool:
    """Whether a return that nothing planned holds up has waited for a day."""
    if windows is not None and not windows.allows_return:
        return False
    due_at_s = (flip.reached_at_s or flip.requested_at_s) + policy.dwell.total_seconds()
    return now_s - max(due_at_s, flip.return_after_s or 0) >= _OVERDUE_AFTER_S


def _overdue_return_event(
    state: ResourceState,
    flip: Flip,
    volume_settings: VolumeSettings,
    overdue_reason: str,
    now_s: float,
    *,
    hold: Hold | None,
) -> Event:
    since_s = flip.reached_at_s or flip.requested_at_s
    per_day, away_for = flip.usd_per_month / _DAYS_PER_MONTH, format_duration(now_s - since_s)
    is_contested = state.is_contested
    return Event(
        kind=EntryKind.LEFT_ON_TARGET,
        summary=f"is still {flip.target.volume_type} after {away_for}, {_format_usd_per_day(per_day)}",
        details=(
            overdue_reason,
            f"It was {flip.original} before it was changed to {flip.target}. Repeats daily; {PRICE_SOURCE}.",
        ),
        alert=AlertKind.LEFT_ON_TARGET,
        action=_return_command(state, hold),
        facts={
            "target": configuration_to_document(flip.target),
            "original": configuration_to_document(flip.original),
            "usd_per_month_more": flip.usd_per_month,
            "usd_per_day_more": round(per_day, 4),
            "since_at": format_instant(since_s),
            "by": flip.by,
            "mode": str(volume_settings.mode),
            "is_contested": is_contested,
        },
    )


def _return_command(state: ResourceState, hold: Hold | None) -> str:
    """The command without which it does not come back."""
    if state.is_contested:
        return f"burstctl release {state.volume_id}"
    if hold is not None:
        return f"burstctl release {hold.volume_id or '--all'}"
    return f"burstctl flip-back {state.volume_id}"


def _format_usd_per_day(usd: float) -> str:
    if abs(usd) < HALF_CENT_USD:
        return "at the same price"
    return f"{format_usd(abs(usd))} a day {'more' if usd > 0 else 'less'}"
