"""What one look means for a flip: what is wanted, and what people must hear beside the level."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.ebs.pricing import LIST_PRICES
from burstwatch.core.ebs.sizing import configuration_of
from burstwatch.core.ebs.volume import BURST_IOPS, Volume
from burstwatch.core.flips.events import Event
from burstwatch.core.flips.guards import refuse_detached
from burstwatch.core.flips.recommendation import Proposal
from burstwatch.core.flips.triggers import (
    Around,
    Want,
    act_rule,
    can_burst,
    want_back,
    want_out,
    window_words,
)
from burstwatch.core.ledger.flip_state import Cause, Direction, Flip, Hold, configuration_document
from burstwatch.core.ledger.ledger import EntryKind, VolumeState
from burstwatch.core.policy.policy import FlipBackPolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import Wishes
from burstwatch.core.policy.windows import (
    LeadPolicy,
    Occurrence,
    WindowState,
    duration_sentence,
    expected_flip,
)
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.text import format_duration, format_instant, format_until, format_when

_LEFT_EVERY_S: Final = 24 * 3600
_DAYS_PER_MONTH: Final = 730 / 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The state after a look, what is told of it, and what should be done now.

    ``waits`` says in words why nothing is done; None where there is nothing to do or to wait for.
    """

    state: VolumeState
    events: tuple[Event, ...] = ()
    want: Want | None = None
    waits: str | None = None


def consider(
    assessment: Assessment,
    state: VolumeState,
    level: Level,
    wishes: Wishes,
    around: Around,
    *,
    proposal: Proposal | None,
    policy: Policy,
    now_s: float,
) -> Move:
    """What the volume's flip, tags and windows ask for now."""
    if state.flip is not None:
        return _consider_return(assessment, state, state.flip, wishes, around, policy=policy, now_s=now_s)
    because = explain_level(assessment, level, policy)
    want = want_out(
        assessment.volume,
        level,
        wishes,
        around.windows,
        because=because,
        act_at=act_rule(proposal.choice if proposal else None, policy).level,
        refills=assessment.forecast is not None and assessment.forecast.refills,
    )
    if wishes.mode is Mode.OBSERVE:
        return Move(state=state)
    events: list[Event] = []
    is_exposed = wishes.is_critical and can_burst(assessment.volume)
    if is_exposed and not state.critical_told:
        events.append(_critical_event(assessment, wishes, proposal, policy.lead))
    state = replace(state, critical_told=is_exposed)
    if (missed := _missed(assessment, state, want, wishes, around, proposal, now_s)) is not None:
        state, event = missed
        events.append(event)
    if want is None:
        return Move(state=replace(state, refusal_told=None), events=tuple(events))
    if wishes.mode is not Mode.AUTO or state.contested_at_s is not None:
        waits = None
        if want.cause is not Cause.DRAINING:
            waits = f"{want.reason}; mode {wishes.mode} leaves it to people"
        return Move(state=state, events=tuple(events), waits=waits)
    return Move(state=state, events=tuple(events), want=want)


def _critical_event(
    assessment: Assessment, wishes: Wishes, proposal: Proposal | None, lead: LeadPolicy
) -> Event:
    baseline, target = assessment.baseline_iops, proposal.target if proposal else None
    return Event(
        kind=EntryKind.ALERT,
        summary="is tagged critical and lives on burst credits",
        details=(
            f"Without credits it serves {baseline:,} IOPS, not {BURST_IOPS:,}: what depends on it stalls.",
            _who_moves(wishes.mode),
            *([_duration(assessment, lead)] if target else []),
            *(f"{reason}." for reason in (proposal.reasons if proposal else ())[-1:]),
        ),
        alert=AlertKind.CRITICAL_ON_BURST,
        action=proposal.action if proposal else None,
        facts=_proposal_facts(assessment, proposal) | {"baseline_iops": baseline, "mode": str(wishes.mode)},
    )


def _duration(assessment: Assessment, lead: LeadPolicy) -> str:
    return duration_sentence(assessment.volume.size_gib, lead, empty_s=assessment.empty_s)


def _who_moves(mode: Mode) -> str:
    if mode is Mode.AUTO:
        return "It is in mode auto: a watchdog that may act moves it, unless a guard refuses."
    return f"It is in mode {mode}: moving it is left to people."


def _proposal_facts(assessment: Assessment, proposal: Proposal | None) -> dict[str, Any]:
    target = proposal.target if proposal else None
    return {
        "from": configuration_document(configuration_of(assessment.volume)),
        "to": configuration_document(target) if target else None,
    }


def _missed(
    assessment: Assessment,
    state: VolumeState,
    want: Want | None,
    wishes: Wishes,
    around: Around,
    proposal: Proposal | None,
    now_s: float,
) -> tuple[VolumeState, Event] | None:
    """A window's start that a flip begun only now cannot meet; said once for each start.

    Who starts a window by hand knows that it begins at once.
    """
    windows = around.windows
    if want is None or windows is None or windows.missed_by is None:
        return None
    return _tell_missed(
        state,
        windows,
        windows.missed_by.total_seconds(),
        now_s=now_s,
        said=(
            "Begun now, the flip",
            "Until it is over the volume lives on its credits.",
            _who_moves(wishes.mode),
        ),
        action=proposal.action if proposal else None,
        facts=_proposal_facts(assessment, proposal) | {"mode": str(wishes.mode)},
    )


def _missed_under_way(
    state: VolumeState,
    flip: Flip,
    wishes: Wishes,
    windows: WindowState | None,
    *,
    policy: Policy,
    now_s: float,
) -> tuple[VolumeState, Event] | None:
    """A window's start that a flip under way will not meet, or did not."""
    if windows is None or not windows.wants_flip or flip.direction is not Direction.OUT:
        return None
    began_s = flip.started_at_s or flip.asked_at_s
    late_s = began_s + expected_flip(flip.size_gib, policy.lead).total_seconds() - _starts_at_s(windows)
    if late_s <= 0:
        return None
    return _tell_missed(
        state,
        windows,
        late_s,
        now_s=now_s,
        said=(
            "The flip under way",
            "Until it is over the volume performs between the two.",
            f"{flip.because}.",
        ),
        action=None,
        facts={
            "from": configuration_document(flip.original),
            "to": configuration_document(flip.target),
            "mode": str(wishes.mode),
        },
    )


def _tell_missed(
    state: VolumeState,
    windows: WindowState,
    late_s: float,
    *,
    now_s: float,
    said: tuple[str, ...],
    action: str | None,
    facts: Mapping[str, Any],
) -> tuple[VolumeState, Event] | None:
    first, starts_at_s = _first(windows), _starts_at_s(windows)
    if not windows.wants_flip or first.by_hand or state.missed_told_s == starts_at_s:
        return None
    done_at, (which, *details) = format_instant(starts_at_s + late_s), said
    over = format_when(starts_at_s + late_s, now_s, "UTC")
    event = Event(
        kind=EntryKind.ALERT,
        summary=f"would be ready {format_duration(late_s)} late for {first.window}",
        details=(f"{which} is expected to be over {over}, but {window_words(windows, now_s)}.", *details),
        alert=AlertKind.WINDOW_MISSED,
        action=action,
        facts={
            **facts,
            "window": first.window,
            "starts_at": format_instant(starts_at_s),
            "expected_at": done_at,
            "late_s": round(late_s),
        },
    )
    return replace(state, missed_told_s=starts_at_s), event


def _first(windows: WindowState) -> Occurrence:
    return (windows.running or windows.upcoming)[0]


def _starts_at_s(windows: WindowState) -> int:
    return int(_first(windows).span.start_at.timestamp())


def _consider_return(
    assessment: Assessment,
    state: VolumeState,
    flip: Flip,
    wishes: Wishes,
    around: Around,
    *,
    policy: Policy,
    now_s: float,
) -> Move:
    if flip.is_under_way:
        missed = _missed_under_way(state, flip, wishes, around.windows, policy=policy, now_s=now_s)
        state, events = (missed[0], (missed[1],)) if missed else (state, ())
        return Move(state=state, events=events, waits=f"on its way to {flip.asked_for}")
    is_within_cap = flip.usd_per_month <= policy.flip.tag_cap_usd
    is_critical = wishes.is_critical and not flip.stays and is_within_cap
    found = want_back(flip, assessment, around.windows, policy=policy, now_s=now_s)
    wanted, waits = (found, None) if isinstance(found, Want) else (None, found)
    if is_critical:
        wanted, waits = None, f"kept {flip.target}: it is tagged critical"
    why = None
    if state.contested_at_s is not None:
        why = "Somebody else changed it: until it is released, the watchdog does not bring it back."
    elif wishes.mode is not Mode.AUTO and not _is_promised(flip, wishes, policy):
        why = _why_not_allowed(wishes, policy)
    if why is not None and not flip.stays:
        wanted, waits = None, f"left {flip.target}: it is not allowed back automatically"
    elif not is_critical and _is_overdue(flip, around.windows, policy.flip_back, now_s):
        obstacle = waits or _why_not_done(around.hold, assessment.volume, now_s)
        why = f"It should be back by now, but {obstacle}."
    told_s = flip.left_told_at_s
    is_told = told_s is not None and now_s - told_s < _LEFT_EVERY_S
    if why is None or flip.stays or is_told:
        return Move(state=state, want=wanted, waits=waits)
    told = replace(state, flip=replace(flip, left_told_at_s=int(now_s)))
    event = _left_event(state, flip, wishes, why, now_s, hold=around.hold)
    return Move(state=told, events=(event,), want=wanted, waits=waits)


def _is_promised(flip: Flip, wishes: Wishes, policy: Policy) -> bool:
    """Whether a person wanted it away for a while: that needs no tag, and stops with everything automatic."""
    is_stopped = policy.mode.highest is not Mode.AUTO or wishes.is_ignored
    return flip.cause is Cause.BY_HAND and not is_stopped


def _why_not_done(hold: Hold | None, volume: Volume, now_s: float) -> str:
    if hold is not None:
        return f"it is on hold by {hold.by} {format_until(hold.until_s, now_s)}"
    if (detached := refuse_detached(volume)) is not None:
        return detached.reason
    return "what is wanted was not done: see its history"


def _why_not_allowed(wishes: Wishes, policy: Policy) -> str:
    if wishes.is_ignored:
        return f"It is tagged {IGNORE}: the watchdog brings it back only without that tag."
    if policy.mode.highest is not Mode.AUTO:
        return (
            f"The policy's mode.highest is {policy.mode.highest}, which stops every automatic modification."
        )
    return f"It is in mode {wishes.mode} now: the watchdog brings it back only with its opt-in tag."


def _is_overdue(flip: Flip, windows: WindowState | None, policy: FlipBackPolicy, now_s: float) -> bool:
    """Whether a return that nothing planned holds up has waited for a day."""
    if windows is not None and not windows.allows_return:
        return False
    planned_s = (flip.reached_at_s or flip.asked_at_s) + policy.dwell.total_seconds()
    return now_s - max(planned_s, flip.return_after_s or 0) >= _LEFT_EVERY_S


def _left_event(
    state: VolumeState, flip: Flip, wishes: Wishes, why: str, now_s: float, *, hold: Hold | None
) -> Event:
    since_s = flip.reached_at_s or flip.asked_at_s
    per_day, away = flip.usd_per_month / _DAYS_PER_MONTH, format_duration(now_s - since_s)
    is_contested = state.contested_at_s is not None
    return Event(
        kind=EntryKind.LEFT,
        summary=f"is still {flip.target.volume_type} after {away}, {_per_day(per_day)}",
        details=(
            why,
            f"It was {flip.original} before it became {flip.target}. Told once a day; {LIST_PRICES}.",
        ),
        alert=AlertKind.LEFT_ON_TARGET,
        action=_way_back(state, hold),
        facts={
            "target": configuration_document(flip.target),
            "original": configuration_document(flip.original),
            "usd_per_month_more": flip.usd_per_month,
            "usd_per_day_more": round(per_day, 4),
            "since_at": format_instant(since_s),
            "by": flip.by,
            "mode": str(wishes.mode),
            "is_contested": is_contested,
        },
    )


def _way_back(state: VolumeState, hold: Hold | None) -> str:
    """The command without which it does not come back."""
    if state.contested_at_s is None and hold is not None:
        return f"burstctl release {hold.volume_id or '--all'}"
    return f"burstctl {'flip-back' if state.contested_at_s is None else 'release'} {state.volume_id}"


def _per_day(usd: float) -> str:
    if abs(usd) < 0.005:  # noqa: PLR2004 - half a cent
        return "at the same price"
    return f"${abs(usd):,.2f} a day {'more' if usd > 0 else 'less'}"
