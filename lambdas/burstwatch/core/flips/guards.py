"""Guards: each is a reason not to modify a volume, with the value, the limit, and when it ends."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from burstwatch.core.ebs.pricing import PRICE_SOURCE, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_types import TYPE_LIMITS
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.refusal import NON_OVERRIDABLE, Guard, Refusal
from burstwatch.core.ledger.flip_state import (
    NO_END_S,
    QUOTA_PERIOD_S,
    Direction,
    FlipCause,
    Hold,
    ModificationUse,
    active_hold,
)
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode, Policy, QuotaRule
from burstwatch.core.tag_keys import CRITICAL, IGNORE, IOPS, TARGET, THROUGHPUT
from burstwatch.core.text import format_duration, format_instant, format_usd

QUOTA: Final = 4
"""Modifications that AWS allows for one volume in 24 hours. Source: EC2 API reference, ModifyVolume."""

AUTOMATIC_QUOTA: Final = QUOTA - 1
"""The last modification of the day is reserved for manual use."""

_SIX_HOURS_S: Final = 6 * 3600
"""AWS's older rule, which ``flip.quota_rule`` selects: six hours between two modifications of a volume."""
_QUOTA_RETRY_S: Final = 3600
"""A judgement: AWS's quota frees up within a day, and one request an hour costs nothing."""


def quota_retry_at_s(modifications: Sequence[ModificationUse], now_s: float) -> float:
    """When to try again after AWS refused for its quota and named no time: in one hour at the latest.

    AWS has counted modifications that are not among ``modifications``, or the guard would have refused
    before. The oldest known modification is at most as old as the oldest that AWS counts, so the next one is
    allowed 24 h after it.
    """
    latest_at_s = now_s + _QUOTA_RETRY_S
    return min(latest_at_s, modifications[0].at_s + QUOTA_PERIOD_S) if modifications else latest_at_s


def leaves_no_return(modifications: Sequence[ModificationUse]) -> bool:
    """Whether no automatic modification would be left for the return, with these used in the last 24 h."""
    return len(modifications) >= AUTOMATIC_QUOTA - 1


def is_last_of_the_day(plan: FlipPlan) -> bool:
    """Whether an automatic flip must be permanent, because no modification is left for its return."""
    return plan.order.is_automatic and leaves_no_return(plan.context.used_modifications)


def check_guards(plan: FlipPlan, policy: Policy, *, overridden: Collection[Guard] = ()) -> list[Refusal]:
    """Every refusal, the most fundamental first; without those overridden, except for AWS's own rules."""
    refusals = (check(plan, policy) for check in _CHECKS)
    return [
        refusal
        for refusal in refusals
        if refusal and (refusal.guard not in overridden or refusal.guard in NON_OVERRIDABLE)
    ]


def _not_opted_in(plan: FlipPlan, policy: Policy) -> Refusal | None:
    """An automatic modification needs tag and policy; the return of a manual flip needs no tag."""
    if not plan.order.is_automatic:
        return None
    if plan.context.volume_settings.is_ignored:
        return Refusal(guard=Guard.NOT_OPTED_IN, reason=f"it is tagged {IGNORE}, so it is not watched")
    is_stopped = policy.mode.highest is not Mode.AUTO
    if plan.context.volume_settings.mode is Mode.AUTO or (_is_manual_flip_back(plan) and not is_stopped):
        return None
    key, value = policy.mode.opt_in_tag
    reason = (
        f"its mode is {plan.context.volume_settings.mode}: only volumes tagged {key}={value} are modified"
        " automatically"
    )
    if is_stopped:
        reason = f"the policy's mode.highest is {policy.mode.highest}, which stops every automatic flip"
    return Refusal(guard=Guard.NOT_OPTED_IN, reason=reason)


def _is_manual_flip_back(plan: FlipPlan) -> bool:
    return plan.order.direction is Direction.FLIP_BACK and plan.order.cause is FlipCause.MANUAL


def _service_managed(plan: FlipPlan, _: Policy) -> Refusal | None:
    volume = plan.context.volume
    if not volume.managed_by:
        return None
    is_service = volume.attached and volume.instance_id is None
    return Refusal(
        guard=Guard.SERVICE_OWNED if is_service else Guard.MANAGED,
        reason=f"it belongs to {volume.managed_by}: change its type there",
    )


def _multi_attached(plan: FlipPlan, _: Policy) -> Refusal | None:
    if not plan.context.volume.multi_attach_enabled:
        return None
    return Refusal(
        guard=Guard.MULTI_ATTACHED,
        reason="it is a Multi-Attach volume, which AWS does not allow anyone to change this way",
    )


def _held(plan: FlipPlan, _: Policy) -> Refusal | None:
    hold = active_hold(
        plan.context.holds,
        plan.context.volume.volume_id,
        plan.context.now_s,
        own_reason=plan.order.own_hold_reason,
    )
    return None if hold is None else hold_refusal(hold)


def hold_refusal(hold: Hold) -> Refusal:
    """The refusal of a volume on hold."""
    subject = "everything is" if hold.volume_id is None else "it is"
    return Refusal(
        guard=Guard.HELD,
        reason=f"{subject} on hold by {hold.by}: {hold.reason}",
        ends_at_s=hold.until_s if hold.until_s < NO_END_S else None,
        release=hold.release_argument,
    )


def _contested(plan: FlipPlan, _: Policy) -> Refusal | None:
    since_s = plan.context.state.modifications.contested_at_s
    if since_s is None or not plan.order.is_automatic:
        return None
    return Refusal(
        guard=Guard.CHANGED_BY_OTHERS,
        reason=f"someone else changed it after our flip, seen {format_instant(since_s)}; fix their"
        f" configuration, then run: burstctl release {plan.context.volume.volume_id}",
    )


def _detached(plan: FlipPlan, _: Policy) -> Refusal | None:
    return detached_refusal(plan.context.volume) if plan.order.is_automatic else None


def detached_refusal(volume: Volume) -> Refusal | None:
    """The refusal of a volume that is not attached, or not for much longer; None if it is.

    For minutes, AWS refuses to attach a volume that is ``modifying``, and a modification cannot be cancelled.
    A volume that moves from one instance to another, as in a node drain, would not arrive.
    """
    if volume.attached and not volume.detaching:
        return None
    return Refusal(
        guard=Guard.DETACHED,
        reason=f"it is {'being ' if volume.attached else ''}detached, and AWS refuses to attach a volume that"
        " is being modified",
    )


def _modification_in_progress(plan: FlipPlan, _: Policy) -> Refusal | None:
    flip, newest = plan.context.state.flip, plan.context.modification
    if newest is not None and newest.is_in_progress:
        progress = "" if newest.progress_pct is None else f", {newest.progress_pct} % done"
        return Refusal(
            guard=Guard.MODIFICATION_IN_PROGRESS,
            reason=f"its modification is {newest.state}{progress}; it cannot be cancelled",
        )
    if flip is not None and flip.is_under_way:
        return Refusal(
            guard=Guard.MODIFICATION_IN_PROGRESS,
            reason=f"{flip.by} requested {flip.requested_config} at {format_instant(flip.requested_at_s)},"
            " whose outcome is not known yet",
        )
    return None


def _aws_quota(plan: FlipPlan, policy: Policy) -> Refusal | None:
    modifications = plan.context.used_modifications
    if policy.flip.quota_rule is QuotaRule.SIX_HOURS and modifications:
        ends_at_s = modifications[-1].at_s + _SIX_HOURS_S
        if plan.context.now_s < ends_at_s:
            reason = (
                "AWS requires six hours between modifications, the last began"
                f" {_format_modification(modifications[-1])}"
            )
            return Refusal(guard=Guard.AWS_QUOTA, reason=reason, ends_at_s=ends_at_s)
    if len(modifications) >= QUOTA:
        return _quota_refusal(
            modifications,
            QUOTA,
            f"AWS allows {QUOTA} modifications in 24 h, and {len(modifications)} are used",
        )
    if not plan.order.is_automatic:
        return None
    if len(modifications) >= AUTOMATIC_QUOTA:
        reason = (
            f"{len(modifications)} of AWS's {QUOTA} modifications in 24 h are used, and the last"
            " one is reserved"
            " for manual use"
        )
        return _quota_refusal(modifications, AUTOMATIC_QUOTA, reason)
    kind = plan.target.volume_type if plan.target is not None else None
    needs_return = plan.order.direction is Direction.FLIP and kind is not VolumeType.GP3
    if needs_return and is_last_of_the_day(plan):
        reason = (
            f"it would be modification {len(modifications) + 1} in 24 h, after which it could not return"
            f" from {kind} in time; only a permanent flip to gp3 is allowed now"
        )
        return _quota_refusal(modifications, AUTOMATIC_QUOTA - 1, reason)  # pragma: no mutate - equal for two
    return None


def _quota_refusal(modifications: Sequence[ModificationUse], allowed: int, reason: str) -> Refusal:
    """A refusal that ends when fewer than ``allowed`` are younger than 24 h."""
    ends_at_s = modifications[len(modifications) - allowed].at_s + QUOTA_PERIOD_S
    return Refusal(guard=Guard.AWS_QUOTA, reason=reason, ends_at_s=ends_at_s)


def _format_modification(modification: ModificationUse) -> str:
    return f"{format_instant(modification.at_s)} by {modification.by}"


def _cooldown(plan: FlipPlan, policy: Policy) -> Refusal | None:
    retry_at_s = plan.context.state.next_attempt_at_s(plan.context.now_s)
    if plan.order.is_automatic and retry_at_s is not None:
        return backoff_refusal(plan.context.state)
    if (
        plan.order.direction is Direction.FLIP_BACK
        or not plan.context.used_modifications
        or plan.context.state.modifications.failure_count
    ):
        return None  # after a failure the pause above is the one that counts
    last = plan.context.used_modifications[-1]
    ends_at_s = last.at_s + policy.flip.cooldown.total_seconds()
    if plan.context.now_s >= ends_at_s:
        return None
    cooldown = format_duration(policy.flip.cooldown.total_seconds())
    reason = (
        f"its last modification began {_format_modification(last)}, and the policy requires {cooldown}"
        " between modifications"
    )
    return Refusal(guard=Guard.COOLDOWN, reason=reason, ends_at_s=ends_at_s)


def backoff_refusal(state: ResourceState) -> Refusal:
    """The refusal of a volume whose last attempt failed a short time ago."""
    reason = f"the last attempt failed ({state.modifications.failure_count} in a row)"
    return Refusal(guard=Guard.COOLDOWN, reason=reason, ends_at_s=state.modifications.retry_at_s)


def is_backoff_refusal(state: ResourceState, refusal: Refusal) -> bool:
    """Whether a refusal only repeats the time of the next attempt, which an earlier alert reported."""
    return (
        refusal.guard is Guard.COOLDOWN
        and bool(state.modifications.failure_count)
        and refusal.ends_at_s == state.modifications.retry_at_s
    )


def _change_hours(plan: FlipPlan, policy: Policy) -> Refusal | None:
    """Windows and people choose their hours themselves."""
    hours = policy.flip.change_hours
    if (
        hours is None
        or not plan.order.is_automatic
        or plan.order.cause in (FlipCause.WINDOW, FlipCause.MANUAL)
    ):
        return None
    now = datetime.fromtimestamp(plan.context.now_s, UTC)
    if hours.allows(now):
        return None
    return Refusal(
        guard=Guard.CHANGE_HOURS,
        reason=f"the policy's change hours are {hours}",
        ends_at_s=hours.opens_at(now).timestamp(),
    )


def _no_change_needed(plan: FlipPlan, _: Policy) -> Refusal | None:
    if plan.current != plan.target:
        return None
    return Refusal(
        guard=Guard.NO_CHANGE_NEEDED,
        reason=f"it is {plan.current} already, and requesting the same would use up one of AWS's {QUOTA}"
        " modifications in 24 h",
    )


def _account_limit(plan: FlipPlan, policy: Policy) -> Refusal | None:
    target, iops_left = plan.target, plan.context.iops_left
    if target is None or iops_left is None or target.volume_type not in TYPE_LIMITS:
        return None
    kind, wanted_iops = target.volume_type, target.iops or 0  # pragma: no mutate - each limited type has IOPS
    if wanted_iops <= iops_left:
        return None
    limit = policy.flip.io1_iops_limit if kind is VolumeType.IO1 else policy.flip.io2_iops_limit
    return Refusal(
        guard=Guard.ACCOUNT_LIMIT,
        reason=f"it needs {wanted_iops:,} IOPS of {kind}, and of the account's {limit:,} in this region"
        f" {max(0, iops_left):,} are left; raise the quota, then flip.{kind}_iops_limit in the policy",
    )


def _tag_cap(plan: FlipPlan, policy: Policy) -> Refusal | None:
    """Anybody who may tag a volume may spend this much by it; people spend more by ``burstctl flip``."""
    cap_usd, added_usd = policy.flip.tag_cap_usd, plan.tags_usd_per_month
    if not plan.order.is_automatic or added_usd <= cap_usd:
        return None
    override = plan.context.volume_settings.target_override
    tags = {TARGET: override.volume_type, IOPS: override.iops, THROUGHPUT: override.throughput_mib_s}
    tag_texts = [f"{key}={value}" for key, value in tags.items() if value is not None]
    tag_texts += [f"{CRITICAL}=true"] if plan.order.cause is FlipCause.CRITICAL else []
    return Refusal(
        guard=Guard.TAG_CAP,
        reason=(
            f"its tags {', '.join(tag_texts)} would add {format_usd(added_usd)} a month ({plan.target});"
            f" the policy's flip.tag_cap_usd_per_month is {format_usd(cap_usd)}, at"
            f" {PRICE_SOURCE}. Request less"
            " in the tags, raise the cap in the policy, or run:"
            f" burstctl flip {plan.context.volume.volume_id}"
        ),
    )


_CHECKS: Final[tuple[Callable[[FlipPlan, Policy], Refusal | None], ...]] = (
    _not_opted_in,
    _service_managed,
    _multi_attached,
    _held,
    _contested,
    _detached,
    _modification_in_progress,
    _aws_quota,
    _cooldown,
    _change_hours,
    _no_change_needed,
    _account_limit,
    _tag_cap,
)
