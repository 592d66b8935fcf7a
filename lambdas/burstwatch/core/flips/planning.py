"""From an order to a plan: what would be changed, what it costs, and what refuses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import (
    Demand,
    InstanceLimits,
    ReturnDecision,
    Target,
    TargetOverride,
    TargetRefusal,
    TargetRefusalCode,
    choose_target,
    configuration_of,
    return_decision,
    suggest_alternative,
)
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.events import Event
from burstwatch.core.flips.guards import Attempt, Guard, Refusal, check_guards, is_last_of_the_day
from burstwatch.core.flips.reconcile import (
    ObservedState,
    accepted_event,
    failure_facts,
    flip_facts,
    format_failure,
    is_on_target,
    mark_accepted,
    retry_command,
    roll_back_intent,
    with_backoff,
)
from burstwatch.core.flips.type_availability import REFUSAL_MEMORY_S, placement_of
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    Flip,
    FlipCause,
    FlipStatus,
    Hold,
    configuration_to_document,
    make_intent_id,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import LeadPolicy
from burstwatch.core.text import format_instant, format_relative_time

_GUARD_BY_CODE: Final = {
    TargetRefusalCode.INSTANCE_IS_BOTTLENECK: Guard.INSTANCE_IS_BOTTLENECK,
    TargetRefusalCode.NO_CHANGE_NEEDED: Guard.NO_CHANGE_NEEDED,
    TargetRefusalCode.TYPE_NOT_AVAILABLE: Guard.TYPE_NOT_AVAILABLE,
}


_CHECKED_ELSEWHERE: Final = frozenset(
    {Guard.INSTANCE_IS_BOTTLENECK, Guard.TYPE_NOT_AVAILABLE, Guard.FLEET_CAP, Guard.SPEND_CAP}
)
"""Guards that choose the target, or that only the ledger's transaction asks."""

_PLAN_IS_STALE: Final = "it is not what it was when the plan was shown, so nothing was done: plan again"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipOrder:
    """A modification somebody wants: the watchdog, or a person.

    A person may insist on a ``override``, override guards (``override_reason`` says for what reason) and say
    for how long. One that ``is_extension`` is for a volume that is there already: it never modifies. An
    ``is_early`` one is for a drain that is not yet critical. ``urgency`` orders orders: the lower the sooner.
    ``time_to_empty_s`` is the time until the volume is empty, in seconds; None if it is not draining, or not
    known.
    """

    volume_id: str
    direction: Direction
    cause: FlipCause
    reason: str
    by: str = WATCHDOG
    override: TargetOverride | None = None
    demand: Demand = field(default_factory=Demand)
    return_after_s: int | None = None
    overridden: frozenset[Guard] = frozenset()
    override_reason: str | None = None
    is_extension: bool = False
    is_early: bool = False
    urgency: tuple[float | str, ...] = (inf,)
    time_to_empty_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipContext:
    """Everything read afresh for one order; ``unavailable`` are types that do not exist where it is."""

    volume: Volume
    volume_settings: VolumeSettings
    state: VolumeState
    now_s: float
    holds: Sequence[Hold] = ()
    modification: Modification | None = None
    instance: InstanceLimits | None = None
    iops_left: int | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPlan:
    """What an order comes to now; with any of ``refusals`` it is not carried out.

    ``target`` is None where there is nothing it could become. ``sizing`` has the alternatives beside it, for
    a way out. ``is_extension`` what the ledger says of a volume that is on this target already: how long, and
    for whom; AWS is asked for nothing.
    """

    order: FlipOrder
    context: FlipContext
    current: Configuration | None
    target: Configuration | None = None
    sizing: Target | None = None
    return_decision: ReturnDecision | None = None
    usd_per_month_now: float = 0.0
    usd_per_month: float = 0.0
    refusals: tuple[Refusal, ...] = ()
    overridden: tuple[Guard, ...] = ()
    is_extension: bool = False
    alternative_command: str | None = None
    """The command that flips it to a type that exists where it is."""

    @property
    def refusal(self) -> Refusal | None:
        return self.refusals[0] if self.refusals else None

    @property
    def usd_per_month_more(self) -> float:
        return round(self.usd_per_month - self.usd_per_month_now, 6)


def make_plan(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan:
    """Work out what an order comes to, with every guard asked."""
    if (extension := _plan_extension(order, context, policy)) is not None:
        return extension
    if order.direction is Direction.FLIP_BACK:
        plan = _plan_flip_back(order, context)
    else:
        order, context = _charge_to_tags(order, context, policy)
        plan = _plan_flip(order, context, policy)
    if order.is_extension:
        return replace(plan, refusals=(Refusal(guard=Guard.NO_TARGET, reason=_PLAN_IS_STALE),))
    if plan.target is None or plan.current is None:
        return plan
    attempt = Attempt(
        volume=context.volume,
        volume_settings=context.volume_settings,
        state=context.state,
        direction=order.direction,
        cause=order.cause,
        by=order.by,
        target=plan.target,
        current=plan.current,
        now_s=context.now_s,
        holds=context.holds,
        modification=context.modification,
        iops_left=context.iops_left,
    )
    if plan.return_decision is not None and is_last_of_the_day(attempt):
        plan = _make_permanent(plan, policy)
        attempt = replace(attempt, target=plan.target or attempt.target)
    attempt = replace(attempt, tags_usd_per_month=_tags_usd_per_month(plan, policy))
    if not order.overridden:
        return replace(plan, refusals=tuple(check_guards(attempt, policy)))
    all_refusals = check_guards(attempt, policy)
    remaining_refusals = check_guards(attempt, policy, overridden=order.overridden)
    overridden_guards = {refusal.guard for refusal in all_refusals if refusal not in remaining_refusals}
    overridden_guards |= order.overridden & _CHECKED_ELSEWHERE
    return replace(plan, refusals=tuple(remaining_refusals), overridden=tuple(sorted(overridden_guards)))


def _charge_to_tags(order: FlipOrder, context: FlipContext, policy: Policy) -> tuple[FlipOrder, FlipContext]:
    """The order and facts of a tagged critical volume that drains, by who pays for its stay.

    A stay that costs more is the tag's: within the tag cap it is planned, and counted against the caps, like
    any other flip for the tag. Beyond the tag cap it is that of a draining volume without the tag, and ends.
    """
    if (
        order.by != WATCHDOG
        or order.cause is not FlipCause.DRAINING
        or not context.volume_settings.is_critical
    ):
        return order, context
    added_usd = _plan_flip(order, context, policy).usd_per_month_more
    if added_usd > policy.flip.tag_cap_usd:
        return order, replace(context, volume_settings=replace(context.volume_settings, is_critical=False))
    return (replace(order, cause=FlipCause.CRITICAL) if added_usd > 0 else order), context


def _tags_usd_per_month(plan: FlipPlan, policy: Policy) -> float:
    """What the tags add to what the policy alone would choose; without them, nothing.

    A volume that only its tag calls critical would be left as it is.
    """
    order, context = plan.order, plan.context
    if order.direction is Direction.FLIP_BACK or order.override is not None:
        return 0.0
    if order.cause is FlipCause.CRITICAL:
        return plan.usd_per_month_more
    if context.volume_settings.target_override == TargetOverride():
        return 0.0
    untagged_plan = _plan_flip(
        order,
        replace(context, volume_settings=replace(context.volume_settings, target_override=TargetOverride())),
        policy,
    )
    return round(plan.usd_per_month - untagged_plan.usd_per_month, 6)


def _make_permanent(plan: FlipPlan, policy: Policy) -> FlipPlan:
    """The last flip of a day is to gp3 and for good; a type that somebody named is not put aside for it."""
    order, context = plan.order, plan.context
    is_named = order.override is not None or context.volume_settings.target_override.volume_type is not None
    if not is_named and policy.flip.target is not VolumeType.GP3:
        gp3_plan = _plan_flip(
            order, context, replace(policy, flip=replace(policy.flip, target=VolumeType.GP3))
        )
        plan = plan if gp3_plan.target is None else gp3_plan
    if plan.target is None or plan.target.volume_type is not VolumeType.GP3:
        return plan
    reason = "stays: AWS's modifications of the day leave none to come back by"
    return replace(plan, return_decision=ReturnDecision(is_permanent=True, reason=reason))


def _plan_extension(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan | None:
    """A person wants what the volume was flipped to already; None where it is anything else."""
    flip, override = context.state.flip, order.override or TargetOverride()
    if order.by == WATCHDOG or order.direction is Direction.FLIP_BACK:
        return None
    if flip is None or flip.direction is Direction.FLIP_BACK or flip.status is FlipStatus.REQUESTED:
        return None
    if flip.status is FlipStatus.ON_TARGET and not is_on_target(context.volume, flip):
        return None
    target = flip.target
    requested_values = (override.volume_type, override.iops, override.throughput_mib_s)
    current_values = (target.volume_type, target.iops, target.throughput_mib_s)
    if any(
        requested not in (None, current)
        for requested, current in zip(requested_values, current_values, strict=True)
    ):
        return None
    cost_usd = usd_per_month(target, context.volume.size_gib, US_EAST_1)
    return FlipPlan(
        order=order,
        context=context,
        current=target,
        target=target,
        return_decision=_decide_return(order, context, target, None, policy),
        usd_per_month_now=cost_usd,
        usd_per_month=cost_usd,
        is_extension=True,
    )


def extend_stay(plan: FlipPlan, revision: int) -> tuple[VolumeState, Event]:
    """The state in which a volume on its target is kept there for somebody else, or for another time."""
    flip, order, until_s = plan.context.state.flip, plan.order, plan.order.return_after_s
    assert flip is not None
    kept_flip = replace(
        flip,
        cause=order.cause,
        by=order.by,
        reason=_reason_with_return(plan),
        is_permanent=plan.return_decision is not None and plan.return_decision.is_permanent,
        return_after_s=until_s,
        overdue_alerted_at_s=None,
    )
    history = replace(plan.context.state.modifications, contested_at_s=None)
    state = replace(plan.context.state, revision=revision, flip=kept_flip, modifications=history)
    period = "until it is flipped back" if until_s is None else f"until {format_instant(until_s)}"
    event = Event(
        kind=EntryKind.KEPT,
        summary=f"is kept {flip.target} {period}, asked for by {order.by}",
        details=tuple(filter(None, (order.reason,))),
        facts=flip_facts(kept_flip),
    )
    return state, event


def _plan_flip(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan:
    volume = context.volume
    current = ObservedState(volume=volume).configuration
    current_usd = usd_per_month(current, volume.size_gib, US_EAST_1) if current else 0.0
    base = FlipPlan(
        order=order,
        context=context,
        current=current,
        usd_per_month_now=current_usd,
        usd_per_month=current_usd,
    )
    override = order.override or context.volume_settings.target_override
    if override.volume_type is None:
        override = replace(override, volume_type=policy.flip.target)
    asks_instance = Guard.INSTANCE_IS_BOTTLENECK not in order.overridden
    chosen = choose_target(
        volume,
        replace(
            order.demand,
            is_future=order.cause is not FlipCause.DRAINING or context.volume_settings.is_critical,
        ),
        override,
        US_EAST_1,
        instance=context.instance if asks_instance else None,
        headroom_pct=policy.flip.headroom_pct,
        exact=order.override is not None,
        unavailable={} if Guard.TYPE_NOT_AVAILABLE in order.overridden else context.unavailable,
    )
    if isinstance(chosen, TargetRefusal):
        guard = _GUARD_BY_CODE.get(chosen.code, Guard.NO_TARGET)
        refusal = Refusal(guard=guard, reason=chosen.sentence.removesuffix("."))
        return replace(base, refusals=(refusal,), alternative_command=chosen.command)
    return replace(
        base,
        target=chosen.configuration,
        sizing=chosen,
        return_decision=_decide_return(order, context, chosen.configuration, chosen, policy),
        usd_per_month=chosen.price.after_usd_per_month,
    )


def _decide_return(
    order: FlipOrder, context: FlipContext, target: Configuration, chosen: Target | None, policy: Policy
) -> ReturnDecision:
    current_flip, size_gib = context.state.flip, context.volume.size_gib
    original = current_flip.original if current_flip else configuration_of(context.volume)
    if order.return_after_s is not None and not _may_return_automatically(original, target, size_gib):
        reason = f"returns by burstctl flip-back {order.volume_id} only: {original} costs more"
        return ReturnDecision(is_permanent=False, reason=reason)
    if order.return_after_s is not None and policy.mode.highest is not Mode.AUTO:
        reason = (
            f"returns by burstctl flip-back {order.volume_id} only: the policy's mode.highest,"
            f" {policy.mode.highest}, stops every automatic modification"
        )
        return ReturnDecision(is_permanent=False, reason=reason)
    if order.return_after_s is not None:
        return ReturnDecision(
            is_permanent=False, reason="returns when the time asked for is over and its load is calm"
        )
    if order.cause is FlipCause.MANUAL:
        return ReturnDecision(is_permanent=True, reason=f"stays until: burstctl flip-back {order.volume_id}")
    if order.cause is FlipCause.CRITICAL or context.volume_settings.is_critical:
        return ReturnDecision(is_permanent=True, reason="stays: it is tagged critical")
    assert chosen is not None
    return return_decision(chosen, policy.flip_back.returns)


def returns_automatically(plan: FlipPlan) -> bool:
    """Whether the configuration it had is one that the watchdog may return it to, when its time is over."""
    current_flip, current = plan.context.state.flip, plan.current
    original = current_flip.original if current_flip else current
    has_return_time = plan.order.return_after_s is not None and plan.target is not None
    if not has_return_time or original is None or plan.target is None:
        return False
    return _may_return_automatically(original, plan.target, plan.context.volume.size_gib)


def _plan_flip_back(order: FlipOrder, context: FlipContext) -> FlipPlan:
    flip, volume = context.state.flip, context.volume
    current = ObservedState(volume=volume).configuration
    current_usd = usd_per_month(current, volume.size_gib, US_EAST_1) if current else 0.0
    base = FlipPlan(
        order=order,
        context=context,
        current=current,
        usd_per_month_now=current_usd,
        usd_per_month=current_usd,
    )
    if flip is None or current is None:
        reason = (
            "the ledger knows of no flip to take back; name what it should be: burstctl flip"
            f" {order.volume_id} --to …, or change it in the console"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    original_usd = usd_per_month(flip.original, volume.size_gib, US_EAST_1)
    if order.by == WATCHDOG and not _may_return_automatically(flip.original, current, volume.size_gib):
        reason = (
            f"the ledger says that it was {flip.original}, which costs ${original_usd - current_usd:,.2f} a"
            " month more than now, and an automatic return goes to gp2 or costs no more; if that is right:"
            f" burstctl flip-back {order.volume_id}"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    return replace(base, target=flip.original, usd_per_month=original_usd)


def _may_return_automatically(original: Configuration, current: Configuration, size_gib: int) -> bool:
    """Whether an automatic return may lead to this original: to gp2, or to what costs no more than now.

    The watchdog flips only gp2. Whatever else a ledger says may be an error, or forged by somebody who can
    write to the ledger but not modify volumes: it must not cost money.
    """
    current_usd, original_usd = (
        usd_per_month(configuration, size_gib, US_EAST_1) for configuration in (current, original)
    )
    return original.volume_type is VolumeType.GP2 or original_usd <= current_usd


def record_intent(plan: FlipPlan, revision: int, requested_at_s: int) -> tuple[VolumeState, Event]:
    """The state with the intent in it, and the line that says so: this comes before the call.

    ``requested_at_s`` is the time by now, not that of the pass: how long a request may still be under way
    counts from it.
    """
    order, context = plan.order, plan.context
    assert plan.target is not None
    assert plan.current is not None
    intent_fields = {
        "status": FlipStatus.REQUESTED,
        "direction": order.direction,
        "intent_id": make_intent_id(order.volume_id, revision),
        "by": order.by,
        "requested_at_s": requested_at_s,
        "started_at_s": None,
        "unconfirmed_since_s": None,
        "is_stuck_alerted": False,
    }
    current_flip = context.state.flip
    if order.direction is Direction.FLIP_BACK:
        assert current_flip is not None
        flip = replace(current_flip, reason=order.reason, previous=current_flip, **intent_fields)  # type: ignore[arg-type]
    else:
        original = current_flip.original if current_flip else plan.current
        original_usd = usd_per_month(original, context.volume.size_gib, US_EAST_1)
        flip = Flip(
            cause=order.cause,
            original=original,
            target=plan.target,
            size_gib=context.volume.size_gib,
            reason=_reason_with_return(plan),
            is_permanent=plan.return_decision is not None and plan.return_decision.is_permanent,
            return_after_s=order.return_after_s,
            usd_per_month=round(plan.usd_per_month - original_usd, 6),
            previous=current_flip,
            **intent_fields,  # type: ignore[arg-type]
        )
    event = Event(
        kind=EntryKind.INTENT,
        summary=f"is to become {plan.target}, asked for by {order.by}",
        details=tuple(filter(None, (order.reason, _format_overrides(plan)))),
        facts={
            "intent_id": flip.intent_id,
            "direction": order.direction,
            "from": configuration_to_document(plan.current),
            "to": configuration_to_document(plan.target),
            "by": order.by,
            "overridden": [str(guard) for guard in plan.overridden],
            "why": order.override_reason,
        },
    )
    history = context.state.modifications
    if order.by != WATCHDOG:  # a person who modifies it has dealt with what others changed
        history = replace(history, contested_at_s=None)
    return replace(context.state, revision=revision, flip=flip, modifications=history), event


def _reason_with_return(plan: FlipPlan) -> str:
    suffix = f"; it {plan.return_decision.reason}" if plan.return_decision else ""
    return f"{plan.order.reason}{suffix}"


def _format_overrides(plan: FlipPlan) -> str | None:
    if not plan.overridden:
        return None
    guards = ", ".join(plan.overridden)
    return f"{plan.order.by} overrode {guards}: {plan.order.override_reason or 'no reason given'}"


def record_accepted(
    state: VolumeState,
    modification: Modification,
    now_s: float,
    *,
    lead: LeadPolicy,
    time_to_empty_s: float | None = None,
) -> tuple[VolumeState, Event]:
    """AWS took what was asked for; ``time_to_empty_s`` is the order's."""
    assert modification.started_at is not None
    new_state = mark_accepted(state, int(modification.started_at.timestamp()), now_s)
    assert new_state.flip is not None
    return new_state, accepted_event(new_state.flip, lead, time_to_empty_s=time_to_empty_s)


_TRANSIENT_GUARDS: Final = frozenset(
    {Guard.MODIFICATION_IN_PROGRESS, Guard.COOLDOWN, Guard.CHANGE_HOURS, Guard.HELD}
)
"""A return refused by these comes a little later, or when the person who held it says so."""


def refused_event(plan: FlipPlan, refusal: Refusal) -> Event:
    """A guard said no to what the watchdog wants."""
    order, target, ends_at_s = plan.order, plan.target, refusal.ends_at_s
    is_passing = order.direction is Direction.FLIP_BACK and refusal.guard in _TRANSIENT_GUARDS
    retry_text = (
        "at every look" if ends_at_s is None else format_relative_time(ends_at_s, plan.context.now_s, "UTC")
    )
    return Event(
        kind=EntryKind.REFUSED,
        summary=f"is not moved to {target.volume_type if target else 'another type'}: {refusal.guard}",
        details=(
            f"Wanted{f': {target},' if target else ''} because {order.reason}.",
            f"Refused: {refusal.reason}.",
            f"The watchdog tries again {retry_text}, while that is wanted.",
        ),
        alert=None if is_passing else AlertKind.FLIP_REFUSED,
        action=plan.alternative_command or f"burstctl explain {order.volume_id}",
        facts=_plan_facts(plan)
        | failure_facts(refusal.reason, ends_at_s)
        | _guard_facts(refusal.guard, ends_at_s),
    )


def _guard_facts(guard: str, ends_at_s: float | None) -> dict[str, Any]:
    return {"guard": str(guard), "ends_at": None if ends_at_s is None else format_instant(ends_at_s)}


def _plan_facts(plan: FlipPlan) -> dict[str, Any]:
    order, current_flip = plan.order, plan.context.state.flip
    original = current_flip.original if current_flip else plan.current
    return {
        "intent_id": None,
        "direction": str(order.direction),
        "from": configuration_to_document(plan.current) if plan.current else None,
        "to": configuration_to_document(plan.target) if plan.target else None,
        "original": configuration_to_document(original) if original else None,
        "usd_per_month_more": plan.usd_per_month_more,
        "by": order.by,
        "cause": str(order.cause),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableType:
    """A type that AWS says does not exist where a volume is; ``command`` flips it to one that does."""

    message: str
    until_s: float
    command: str | None


def describe_unavailable_type(plan: FlipPlan, now_s: float) -> UnavailableType | None:
    """What to say of a plan whose type does not exist there; None where no place is known."""
    placement = placement_of(plan.context.volume)
    if placement is None or plan.sizing is None or plan.target is None:
        return None
    kind, until_s = plan.target.volume_type, now_s + REFUSAL_MEMORY_S
    candidates = {
        name: candidate for name, candidate in plan.sizing.alternatives.items() if name not in (kind, "stay")
    }
    next_step, command = suggest_alternative(candidates, plan.context.volume, US_EAST_1)
    next_at = format_relative_time(until_s, now_s, "UTC")
    message = f"The next attempt is {next_at}: {kind} does not exist in {placement}; {next_step}."
    return UnavailableType(message=message, until_s=until_s, command=command)


def record_rejected(
    state: VolumeState,
    code: str,
    message: str,
    now_s: float,
    *,
    retry_at_s: float | None = None,
    guard: str | None = None,
    unavailable_type: "UnavailableType | None" = None,
) -> tuple[VolumeState, Event]:
    """AWS did not take it, and says why; nothing has changed. ``guard`` would have said the same.

    Where the place ``unavailable_type`` the type, the guard refuses until that is forgotten, and the volume's
    own ``retry_at_s`` does not matter.
    """
    flip = state.flip
    assert flip is not None
    new_state = with_backoff(roll_back_intent(state), now_s)
    if retry_at_s is not None:
        history = replace(new_state.modifications, retry_at_s=int(retry_at_s))
        new_state = replace(new_state, modifications=history)
    action = retry_command(flip, state.volume_id) if guard is None else f"burstctl explain {state.volume_id}"
    if unavailable_type is not None:
        action, retry_at_s = unavailable_type.command or action, unavailable_type.until_s
    event = Event(
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.requested_config.volume_type}: {guard or code}",
        details=(
            message,
            *format_failure(
                flip,
                new_state.modifications.retry_at_s,
                now_s,
                unavailable_message=unavailable_type.message if unavailable_type else None,
            ),
        ),
        action=action,
        facts=flip_facts(flip)
        | failure_facts(
            message,
            unavailable_type.until_s if unavailable_type else new_state.modifications.retry_at_s,
            code=code,
        )
        | (_guard_facts(guard, retry_at_s) if guard else {}),
    )
    return new_state, event


def record_unknown_outcome(state: VolumeState, code: str, message: str) -> tuple[VolumeState, Event]:
    """Nobody knows whether AWS took it: that is found out by asking, not by sending again."""
    flip = state.flip
    assert flip is not None
    event = Event(
        kind=EntryKind.UNCLEAR,
        summary=f"was asked to become {flip.requested_config}, and the answer was lost: {code}",
        details=(message, "It is settled by asking AWS what became of it."),
        facts=flip_facts(flip) | {"reason": message, "error_code": code},
    )
    return state, event
