"""From an order to a plan: what would be changed, what it costs, and which guards refuse it."""

from dataclasses import replace
from typing import Final

from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import (
    ReturnDecision,
    Target,
    TargetOverride,
    TargetRefusal,
    TargetRefusalCode,
    choose_target,
    return_decision,
    unsupported_type_refusal,
)
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder, FlipPlan
from burstwatch.core.flips.guards import check_guards, is_last_of_the_day
from burstwatch.core.flips.instance_effect import describe_instance_effect
from burstwatch.core.flips.reconciliation.observed_state import ObservedState, is_on_target
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import Direction, FlipCause, FlipStatus
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.text import format_usd

_GUARD_BY_CODE: Final = {
    TargetRefusalCode.INSTANCE_IS_BOTTLENECK: Guard.INSTANCE_IS_BOTTLENECK,
    TargetRefusalCode.NO_CHANGE_NEEDED: Guard.NO_CHANGE_NEEDED,
    TargetRefusalCode.TYPE_NOT_AVAILABLE: Guard.TYPE_NOT_AVAILABLE,
}


_CHECKED_ELSEWHERE: Final = frozenset(
    {Guard.INSTANCE_IS_BOTTLENECK, Guard.TYPE_NOT_AVAILABLE, Guard.FLEET_CAP, Guard.SPEND_CAP}
)
"""Guards that choose the target, or that only the ledger's transaction can check."""

_PLAN_IS_STALE: Final = "it has changed since the plan was shown, so nothing was done: plan again"


def make_plan(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan:
    """Work out what an order comes to, with every guard checked."""
    extension = _plan_extension(order, context, policy)
    if extension is not None:
        return extension
    plan = _draft_plan(order, context, policy)
    if order.is_extension:
        return replace(plan, refusals=(Refusal(guard=Guard.NO_TARGET, reason=_PLAN_IS_STALE),))
    if plan.target is None or plan.current is None:
        return plan
    if plan.return_decision is not None and is_last_of_the_day(plan):
        plan = _make_permanent(plan, policy)
    return _check_plan(replace(plan, tags_usd_per_month=_tags_usd_per_month(plan, policy)), policy)


def _draft_plan(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan:
    if order.direction is Direction.FLIP_BACK:
        return _plan_flip_back(order, context)
    return _plan_flip(*_charge_to_tags(order, context, policy), policy)


def _check_plan(plan: FlipPlan, policy: Policy) -> FlipPlan:
    """The plan with its refusals, and with the guards that were overridden where they do refuse."""
    all_refusals = check_guards(plan, policy)
    if not plan.order.overridden:
        return replace(plan, refusals=tuple(all_refusals))
    remaining_refusals = check_guards(plan, policy, overridden=plan.order.overridden)
    overridden_guards = {refusal.guard for refusal in all_refusals if refusal not in remaining_refusals}
    overridden_guards |= plan.order.overridden & _CHECKED_ELSEWHERE
    return replace(plan, refusals=tuple(remaining_refusals), overridden=tuple(sorted(overridden_guards)))


def _charge_to_tags(order: FlipOrder, context: FlipContext, policy: Policy) -> tuple[FlipOrder, FlipContext]:
    """The order and context of a draining volume that is tagged critical, by who pays for its flip.

    A flip that costs more is charged to the tag. Within the tag cap, it is planned and counted against the
    caps like any other flip for the tag. Beyond the tag cap, the volume counts as one without the tag, and
    its flip ends.
    """
    if (
        not order.is_automatic
        or order.cause is not FlipCause.DRAINING
        or not context.volume_settings.is_critical
    ):
        return order, context
    added_usd = _plan_flip(order, context, policy).usd_per_month_more
    if added_usd > policy.flip.tag_cap_usd:
        return order, replace(context, volume_settings=replace(context.volume_settings, is_critical=False))
    return (replace(order, cause=FlipCause.CRITICAL) if added_usd > 0 else order), context


def _tags_usd_per_month(plan: FlipPlan, policy: Policy) -> float:
    """What the tags add to what the policy alone would choose, in dollars a month; 0 without such tags.

    Without its tag, a volume that is tagged critical would not be flipped at all.
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
    """The last flip of a day is to gp3 and permanent; a type that somebody named is not replaced for it."""
    order, context = plan.order, plan.context
    is_named = order.override is not None or context.volume_settings.target_override.volume_type is not None
    if not is_named and policy.flip.target is not VolumeType.GP3:
        gp3_plan = _plan_flip(
            order, context, replace(policy, flip=replace(policy.flip, target=VolumeType.GP3))
        )
        plan = plan if gp3_plan.target is None else gp3_plan
    if plan.target is None or plan.target.volume_type is not VolumeType.GP3:
        return plan
    reason = "stays: no modification would be left today for the return"
    return replace(plan, return_decision=ReturnDecision(is_permanent=True, reason=reason))


def _plan_extension(order: FlipOrder, context: FlipContext, policy: Policy) -> FlipPlan | None:
    """The plan for a volume that was flipped to what a person wants already; None for any other order."""
    flip, override = context.state.flip, order.override or TargetOverride()
    if order.is_automatic or order.direction is Direction.FLIP_BACK:
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
    checks_instance = Guard.INSTANCE_IS_BOTTLENECK not in order.overridden
    if checks_instance and context.instance_unread is not None:
        reason = (
            f"whether instance {volume.instance_id} is the bottleneck is not known:"
            f" {context.instance_unread.removesuffix('.')}"
        )
        return replace(base, refusals=(Refusal(guard=Guard.INSTANCE_IS_BOTTLENECK, reason=reason),))
    chosen = choose_target(
        volume,
        replace(
            order.demand,
            is_future=order.cause is not FlipCause.DRAINING or context.volume_settings.is_critical,
        ),
        override,
        US_EAST_1,
        instance=context.instance if checks_instance else None,
        headroom_pct=policy.flip.headroom_pct,
        exact=order.override is not None,
        unavailable={} if Guard.TYPE_NOT_AVAILABLE in order.overridden else context.unavailable,
    )
    if isinstance(chosen, TargetRefusal):
        guard = _GUARD_BY_CODE.get(chosen.code, Guard.NO_TARGET)
        refusal = Refusal(guard=guard, reason=chosen.sentence.removesuffix("."))
        return replace(base, refusals=(refusal,), alternative_command=chosen.command)
    effect = None
    if current is not None:
        effect = describe_instance_effect(context.instance, current, chosen.configuration, volume.size_gib)
    if effect is not None:
        chosen = replace(chosen, reasons=(*chosen.reasons, f"{effect}."))
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
            is_permanent=False, reason="returns when the requested time is over and its load is calm"
        )
    if order.cause is FlipCause.MANUAL:
        return ReturnDecision(is_permanent=True, reason="stays until a person flips it back")
    if order.cause is FlipCause.CRITICAL or context.volume_settings.is_critical:
        return ReturnDecision(is_permanent=True, reason="stays: it is tagged critical")
    assert chosen is not None
    return return_decision(chosen, policy.flip_back.returns)


def returns_automatically(plan: FlipPlan) -> bool:
    """Whether the watchdog may return the volume to its original configuration when its time is over."""
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
    if current is None:
        reason = unsupported_type_refusal(volume).sentence.removesuffix(".")
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    if flip is None:
        reason = (
            "the ledger has no flip to reverse; give the configuration: burstctl flip"
            f" {order.volume_id} --to …, or change it in the console"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    original_usd = usd_per_month(flip.original, volume.size_gib, US_EAST_1)
    if order.is_automatic and not _may_return_automatically(flip.original, current, volume.size_gib):
        reason = (
            f"the ledger says that it was {flip.original}, which costs"
            f" {format_usd(original_usd - current_usd)} a"
            " month more than now, but an automatic return goes to gp2 or costs no more. If the"
            " ledger is right:"
            f" burstctl flip-back {order.volume_id}"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    return replace(base, target=flip.original, usd_per_month=original_usd)


def _may_return_automatically(original: Configuration, current: Configuration, size_gib: int) -> bool:
    """Whether an automatic return may lead to this original: to gp2, or to what costs no more than now.

    The watchdog flips only gp2. Any other original in a ledger may be an error, or forged by somebody who can
    write to the ledger but not modify volumes: it must not cost money.
    """
    current_usd, original_usd = (
        usd_per_month(configuration, size_gib, US_EAST_1) for configuration in (current, original)
    )
    return original.volume_type is VolumeType.GP2 or original_usd <= current_usd
