"""A plan as people read it: what would be changed, why, what it costs, what refuses it, what undoes it."""

from collections.abc import Mapping, Sequence
from typing import Final

from burstctl.cli.text_layout import Topic, lay_out
from burstctl.render.planned_flip import PRICES, DryAnswer, Planned, sum_prices
from burstctl.render.volume import describe_in_a_line, inert
from burstwatch.adapters.aws.ec2_modify import Allowed
from burstwatch.core.durations import format_span
from burstwatch.core.ebs.pricing import Configuration, VolumeType, usd_per_hour
from burstwatch.core.ebs.sizing import Offer, TargetRefusal
from burstwatch.core.ebs.volume import BURST_IOPS
from burstwatch.core.flips.guards import QUOTA, Guard, Refusal
from burstwatch.core.flips.planning import Plan
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.policy.windows import duration_sentence
from burstwatch.core.text import format_until, format_when

_CENT: Final = 0.01


def plan_in_words(planned: Planned, *, is_alone: bool) -> str:
    """The plan for one volume; the alternatives stand beside it where it ``is_alone``."""
    plan = planned.plan
    under_way = _under_way(plan)
    topics: list[Topic] = [("Now", under_way)]
    if plan.target is not None and not under_way:
        change = f"only how long{_so_far(plan)}" if plan.extends else f"{plan.now} -> {plan.target}"
        topics += [("Change", [change]), ("Why", [*reasons_of(plan), *_warnings(plan)])]
        topics += [("Takes", _takes(planned)), ("Cost", _costs(planned))]
    if plan.choice is not None and is_alone:
        topics.append(("Beside", _alternatives(plan.choice.alternatives, plan.target)))
    if plan.target is not None and not under_way:
        topics += [("Then", _then(planned)), ("Quota", [] if plan.extends else [_quota(planned)])]
    topics += [
        ("Refused", [refusal_words(refusal, plan.facts.now_s) for refusal in planned.refusals]),
        ("Overrides", [f"{guard}: {plan.order.why}" for guard in plan.overridden]),
        ("AWS", [_answer_words(planned.answer)] if planned.answer else []),
        ("Undo", [planned.undo] if planned.undo else []),
    ]
    shown = [(topic, [inert(line) for line in lines]) for topic, lines in topics if lines]
    return lay_out(describe_in_a_line(plan.facts.volume), shown)


def _under_way(plan: Plan) -> list[str]:
    """What AWS is making of a volume that is to return; nothing where it could begin with that."""
    flip = plan.facts.state.flip
    is_refused = any(refusal.guard is Guard.MODIFICATION_IN_PROGRESS for refusal in plan.refusals)
    if plan.order.direction is Direction.OUT or flip is None or not (flip.is_under_way and is_refused):
        return []
    asked = f"asked for by {flip.by} {format_when(flip.asked_at_s, plan.facts.now_s, 'UTC')}"
    if flip.direction is Direction.BACK:
        return [f"on its way back to {flip.asked_for} already, {asked}"]
    back = f"when it is there, burstctl flip-back {plan.order.volume_id} makes it {flip.original} again"
    return [f"on its way to {flip.asked_for}, {asked}", back]


def totals_in_words(planned: Sequence[Planned]) -> str:
    """How many volumes would be modified, and what that costs together."""
    count, wanted = len(planned), sum(each.is_wanted for each in planned)
    refused = f", {count - wanted} refused" if wanted < count else ""
    kept = sum(each.is_wanted and each.plan.extends for each in planned)
    keeps = f", {kept} kept as they are" if kept > 1 else ", 1 kept as it is" if kept else ""
    said = f"{count} volume{'' if count == 1 else 's'}: {wanted - kept} to be modified{keeps}{refused}"
    if wanted == kept:
        return said
    price = sum_prices(planned)
    more = price.difference_usd_per_month
    return (
        f"{said}; {usd(price.before_usd_per_month)} -> {usd(price.after_usd_per_month)} a month:"
        f" {difference_words(more)} (${abs(usd_per_hour(more)):.4f} an hour); {PRICES}"
    )


def _so_far(plan: Plan) -> str:
    """Until when it was to be kept, and who wanted that."""
    flip = plan.facts.state.flip
    if flip is None:
        return ""
    until_s = flip.return_after_s
    span = "it stays" if flip.stays else "until it is calm"
    if until_s is not None:
        span = format_until(until_s, plan.facts.now_s)
    return f"; so far {span}, asked for by {flip.by}"


def refusal_words(refusal: Refusal, now_s: float) -> str:
    """The guard, why it refuses, and when it ends."""
    ends = "" if refusal.ends_at_s is None else f"; it ends {format_when(refusal.ends_at_s, now_s, 'UTC')}"
    return f"{refusal.guard}: {refusal.reason}{ends}"


def reasons_of(plan: Plan) -> list[str]:
    """A sentence for each number."""
    if plan.extends:
        return [f"It is {plan.target} already, by its flip: AWS is asked for nothing."]
    return list(plan.choice.reasons) if plan.choice else ["It is what it was before its flip."]


def _warnings(plan: Plan) -> list[str]:
    """What is right by the numbers seen, and perhaps not what is meant."""
    since_s = plan.facts.state.contested_at_s
    if since_s is None:
        return _about_iops(plan)
    seen = format_when(since_s, plan.facts.now_s, "UTC")
    changed = f"Somebody else changed it, seen {seen}: this releases it."
    return [changed, *_about_iops(plan)]


def _about_iops(plan: Plan) -> list[str]:
    volume, target = plan.facts.volume, plan.target
    if not can_burst(volume) or target is None or target.iops is None or target.iops >= BURST_IOPS:
        return []
    burst = f"{BURST_IOPS:,} it serves while it has credits"
    return [f"{target.iops:,} IOPS are fewer than the {burst}: --iops {BURST_IOPS} keeps those."]


def usd(amount: float) -> str:
    """Dollars and cents; a price below a cent shows what there is of it."""
    return f"${amount:,.2f}" if amount >= _CENT or not amount else f"${amount:.4f}"


def difference_words(usd_more: float) -> str:
    """``$1.88 less``."""
    if abs(usd_more) < _CENT / 100:
        return "the same"
    return f"{usd(abs(usd_more))} {'more' if usd_more > 0 else 'less'}"


def _takes(planned: Planned) -> list[str]:
    """How long AWS is expected to take, beside how long the credits last."""
    plan = planned.plan
    if plan.extends:
        return []
    size_gib, empty_s = plan.facts.volume.size_gib, plan.order.empty_s
    return [duration_sentence(size_gib, planned.lead, empty_s=empty_s)]


def _costs(planned: Planned) -> list[str]:
    price = planned.price
    sides = (
        f"{usd(month)} a month (${usd_per_hour(month):.4f} an hour)"
        for month in (price.before_usd_per_month, price.after_usd_per_month)
    )
    lines = [" -> ".join(sides), f"{difference_words(price.difference_usd_per_month)} each month"]
    if planned.lasts is not None:
        over = difference_words(price.difference_usd_over(planned.lasts))
        lines.append(f"{over} for the {format_span(planned.lasts)} asked for")
    return lines


def _alternatives(offers: Mapping[str, Offer | TargetRefusal], chosen: Configuration | None) -> list[str]:
    lines = []
    for name, offer in offers.items():
        if isinstance(offer, TargetRefusal):
            lines.append(f"{name}: not possible: {offer.because}")
            continue
        mark = "  <-" if offer.configuration == chosen else ""
        month = f"{usd(offer.usd_per_month)} a month"
        lines.append(f"{name:<4}  {offer.configuration!s:<39}{month:>19}{mark}")
    return lines


def _then(planned: Planned) -> list[str]:
    plan = planned.plan
    if not planned.is_out or plan.stay is None:
        is_burst = plan.target is not None and plan.target.volume_type is VolumeType.GP2
        unknown = ["its burst balance is unknown until the first fresh datapoint"] if is_burst else []
        return [*unknown, *_again(planned)]
    until_s = plan.order.return_after_s
    if until_s is None or not planned.returns_by_itself:
        return [plan.stay.reason]
    now_s = plan.facts.now_s
    lines = [f"{plan.stay.reason}, at the earliest {format_when(until_s, now_s, 'UTC')}"]
    if planned.returns_from_s is not None:
        from_words = format_when(planned.returns_from_s, now_s, "UTC")
        lines.append(f"AWS's quota lets the watchdog bring it back {from_words}")
    return lines


def _again(planned: Planned) -> list[str]:
    """What would undo a return soon, and how to prevent that."""
    if planned.moved_out_again is None:
        return []
    hold = f"burstctl hold {planned.volume_id} --for … --reason …"
    return [f"the watchdog moves it out again: {planned.moved_out_again}; {hold} keeps it here"]


def _quota(planned: Planned) -> str:
    used = len(planned.spent)
    said = f"{used} of AWS's {QUOTA} modifications in 24 h {'is' if used == 1 else 'are'} used"
    return f"{said}, this is number {used + 1}" if planned.is_wanted else said


def _answer_words(answer: DryAnswer) -> str:
    if isinstance(answer, Allowed):
        return "allows it to this identity (dry run)"
    return f"says no (dry run): {answer.failure}"
