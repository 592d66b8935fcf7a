"""A plan as text: the change, its reason, its cost, the refusals, and how to undo it."""

from collections.abc import Mapping, Sequence
from typing import Final

from burstctl.cli.text_layout import Topic, lay_out_topics
from burstctl.render.planned_flip import PRICES, DryRunResult, PlannedFlip, sum_prices
from burstctl.render.volume import describe_volume
from burstwatch.adapters.aws.ec2_modify import DryRunAllowed
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ebs.pricing import Configuration, VolumeType, usd_per_hour
from burstwatch.core.ebs.sizing import Candidate, TargetRefusal
from burstwatch.core.ebs.volume import BURST_IOPS, can_burst
from burstwatch.core.flips.flip_plan import FlipPlan
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.policy.windows import describe_flip_duration
from burstwatch.core.text import format_count, format_relative_time, format_until, format_usd

_NO_DIFFERENCE_USD: Final = 0.0001  # less is rounding of prices per month


def render_plan(planned: PlannedFlip, *, is_alone: bool) -> str:
    """The plan for one volume, with its alternatives if it ``is_alone``."""
    plan = planned.plan
    under_way = _under_way(plan)
    topics: list[Topic] = [("Now", under_way)]
    if plan.target is not None and not under_way:
        change = (
            f"only how long{_describe_current_stay(plan)}"
            if plan.is_extension
            else f"{plan.current} -> {plan.target}"
        )
        topics += [("Change", [change]), ("Why", [*plan_reasons(plan), *_warnings(plan)])]
        topics += [("Takes", _expected_duration(planned)), ("Cost", _costs(planned))]
    if plan.sizing is not None and is_alone:
        topics.append(("Options", _alternatives(plan.sizing.alternatives, plan.target)))
    if plan.target is not None and not under_way:
        topics += [("After", _afterwards(planned)), ("Quota", [] if plan.is_extension else [_quota(planned)])]
    topics += [
        ("Refused", [describe_refusal(refusal, plan.context.now_s) for refusal in planned.shown_refusals]),
        ("Overrides", [f"{guard}: {plan.order.override_reason}" for guard in plan.overridden]),
        ("AWS", [_describe_dry_run(planned.dry_run_result)] if planned.dry_run_result else []),
        ("Undo", [planned.undo] if planned.undo else []),
    ]
    urgent = {"Refused", *(["AWS"] if planned.is_rejected_by_aws else [])}
    return lay_out_topics(describe_volume(plan.context.volume), topics, urgent=urgent)


def _under_way(plan: FlipPlan) -> list[str]:
    """The modification in progress on a volume that is to return; empty if the return could begin."""
    flip = plan.context.state.flip
    is_refused = any(refusal.guard is Guard.MODIFICATION_IN_PROGRESS for refusal in plan.refusals)
    if plan.order.direction is Direction.FLIP or flip is None or not (flip.is_under_way and is_refused):
        return []
    request = f"requested by {flip.by} {format_relative_time(flip.requested_at_s, plan.context.now_s, 'UTC')}"
    if flip.direction is Direction.FLIP_BACK:
        return [f"being modified back to {flip.requested_config}, {request}"]
    next_step = f"when it is done, burstctl flip-back {plan.order.volume_id} returns it to {flip.original}"
    return [f"being modified to {flip.requested_config}, {request}", next_step]


def describe_totals(planned: Sequence[PlannedFlip]) -> str:
    """How many volumes would be modified, and what that costs together."""
    count, wanted_count = len(planned), sum(flip.is_allowed for flip in planned)
    rejected_count = sum(flip.is_wanted and flip.is_rejected_by_aws for flip in planned)
    refused_count = count - wanted_count - rejected_count
    refused_text = f", {refused_count} refused" if refused_count else ""
    refused_text += f", {rejected_count} refused by AWS" if rejected_count else ""
    kept_count = sum(flip.is_allowed and flip.plan.is_extension for flip in planned)
    kept_text = f", {kept_count} unchanged" if kept_count else ""
    volumes_text = (
        f"{format_count(count, 'volume')}: {wanted_count - kept_count} to be"
        f" modified{kept_text}{refused_text}"
    )
    if wanted_count == kept_count:
        return volumes_text
    price = sum_prices(planned)
    extra_usd = price.difference_usd_per_month
    return (
        f"{volumes_text}; {format_usd(price.before_usd_per_month)} -> {format_usd(price.after_usd_per_month)}"
        f" a month: {format_usd_difference(extra_usd)}"
        f" ({format_usd(abs(usd_per_hour(extra_usd)), decimals=4)} an hour);"
        f" {PRICES}"
    )


def _describe_current_stay(plan: FlipPlan) -> str:
    """Until when it was to be kept, and who requested that."""
    flip = plan.context.state.flip
    if flip is None:
        return ""
    until_s = flip.return_after_s
    duration_text = "it stays" if flip.is_permanent else "until it is calm"
    if until_s is not None:
        duration_text = format_until(until_s, plan.context.now_s)
    return f"; now {duration_text}, requested by {flip.by}"


def describe_refusal(refusal: Refusal, now_s: float) -> str:
    """The guard, why it refuses, and when it ends."""
    ends = (
        ""
        if refusal.ends_at_s is None
        else f"; it ends {format_relative_time(refusal.ends_at_s, now_s, 'UTC')}"
    )
    return f"{refusal.guard}: {refusal.reason}{ends}"


def plan_reasons(plan: FlipPlan) -> list[str]:
    """A sentence for each number."""
    if plan.is_extension:
        return [f"It is {plan.target} already, by its flip: no request to AWS."]
    return list(plan.sizing.reasons) if plan.sizing else ["That is its configuration before its flip."]


def _warnings(plan: FlipPlan) -> list[str]:
    """What follows from the numbers, but may not be intended."""
    since_s = plan.context.state.modifications.contested_at_s
    if since_s is None:
        return _iops_warnings(plan)
    seen_at = format_relative_time(since_s, plan.context.now_s, "UTC")
    warning = f"Someone else changed it, seen {seen_at}: this releases it."
    return [warning, *_iops_warnings(plan)]


def _iops_warnings(plan: FlipPlan) -> list[str]:
    volume, target = plan.context.volume, plan.target
    if not can_burst(volume) or target is None or target.iops is None or target.iops >= BURST_IOPS:
        return []
    burst = f"{BURST_IOPS:,} it serves while it has credits"
    return [f"{target.iops:,} IOPS are fewer than the {burst}: --iops {BURST_IOPS} keeps those."]


def format_usd_difference(extra_usd: float) -> str:
    """``$1.88 less``."""
    if abs(extra_usd) < _NO_DIFFERENCE_USD:
        return "the same"
    return f"{format_usd(abs(extra_usd))} {'more' if extra_usd > 0 else 'less'}"


def _expected_duration(planned: PlannedFlip) -> list[str]:
    """The expected duration of the modification, next to the time until the bucket is empty."""
    plan = planned.plan
    if plan.is_extension:
        return []
    size_gib, empty_s = plan.context.volume.size_gib, plan.order.time_to_empty_s
    return [describe_flip_duration(size_gib, planned.lead, time_to_empty_s=empty_s)]


def _costs(planned: PlannedFlip) -> list[str]:
    price = planned.price
    prices = (
        f"{format_usd(usd_per_month)} a month ({format_usd(usd_per_hour(usd_per_month), decimals=4)} an hour)"
        for usd_per_month in (price.before_usd_per_month, price.after_usd_per_month)
    )
    lines = [" -> ".join(prices), f"{format_usd_difference(price.difference_usd_per_month)} each month"]
    if planned.duration is not None:
        extra_for_duration = format_usd_difference(price.difference_usd_over(planned.duration))
        lines.append(f"{extra_for_duration} for the {format_duration_literal(planned.duration)} requested")
    return lines


def _alternatives(
    candidates: Mapping[str, Candidate | TargetRefusal], chosen: Configuration | None
) -> list[str]:
    lines = []
    for name, candidate in candidates.items():
        if isinstance(candidate, TargetRefusal):
            lines.append(f"{name}: not possible: {candidate.reason}")
            continue
        marker = "  <-" if candidate.configuration == chosen else ""
        price = f"{format_usd(candidate.usd_per_month)} a month"
        lines.append(f"{name:<4}  {candidate.configuration!s:<39}{price:>19}{marker}")
    return lines


def _afterwards(planned: PlannedFlip) -> list[str]:
    plan = planned.plan
    if not planned.is_flip or plan.return_decision is None:
        is_burst = plan.target is not None and plan.target.volume_type is VolumeType.GP2
        unknown = ["its burst balance is unknown until the first fresh datapoint"] if is_burst else []
        return [*unknown, *_reflip_warning(planned)]
    until_s = plan.order.return_after_s
    if until_s is None or not planned.returns_by_itself:
        return [plan.return_decision.reason]
    now_s = plan.context.now_s
    lines = [f"{plan.return_decision.reason}, at the earliest {format_relative_time(until_s, now_s, 'UTC')}"]
    if planned.earliest_return_at_s is not None:
        return_from = format_relative_time(planned.earliest_return_at_s, now_s, "UTC")
        lines.append(f"AWS's quota lets the watchdog bring it back {return_from}")
    return lines


def _reflip_warning(planned: PlannedFlip) -> list[str]:
    """What would undo a return soon, and how to prevent that."""
    if planned.reflip_reason is None:
        return []
    hold = planned.options.command("hold", planned.volume_id, "--for", "6h", "--reason", "TEXT")
    return [f"the watchdog would flip it again: {planned.reflip_reason}; to prevent that: {hold}"]


def _quota(planned: PlannedFlip) -> str:
    used_count = len(planned.recent_modifications)
    text = f"{used_count} of AWS's {QUOTA} modifications in 24 h {'is' if used_count == 1 else 'are'} used"
    return f"{text}, this is number {used_count + 1}" if planned.is_wanted else text


def _describe_dry_run(result: DryRunResult) -> str:
    if isinstance(result, DryRunAllowed):
        return "allows it to this identity (dry run)"
    problem = result.failure.problem
    return f"refuses (dry run): {problem.cause}; {problem.fix}"
