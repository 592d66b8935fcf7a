"""A flip in words: how far it is, what it was, why it stays or what it waits for; and AWS's quota."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from burstctl.render.plan_text import format_usd_difference
from burstwatch.core.ebs.pricing import PRICE_SOURCE, usd_over
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.ledger.flip_state import (
    QUOTA_PERIOD_S,
    Flip,
    FlipStatus,
    ModificationUse,
)
from burstwatch.core.text import (
    format_duration,
    format_instant,
    format_relative_time,
    format_time,
    format_until,
    instant_or_none,
)
from burstwatch.core.watch.pass_report import describe_standing_flip

if TYPE_CHECKING:
    from documents.shared import FlipDocument, QuotaDocument

_MIN_COST_SPAN_S: Final = 60  # AWS bills EBS by the second, at least one minute


def describe_flip(flip: Flip, now_s: float) -> list[str]:
    """The state of the flip, the original configuration, and what comes next."""
    lines = [
        _describe_status(flip, now_s),
        f"original type: {flip.original}, recorded until it returns",
    ]
    if flip.reason:
        lines.append(f"because: {flip.reason}")
    if flip.status is FlipStatus.ON_TARGET and not flip.is_permanent and flip.return_after_s is not None:
        then = "then it" if flip.return_after_s > now_s else "it"
        until = format_until(flip.return_after_s, now_s)
        lines.append(f"{flip.by} requested it {until}; {then} returns when calm")
    cost = f"costs {format_usd_difference(flip.usd_per_month)} a month than before{_cost_so_far(flip, now_s)}"
    lines.append(f"{cost}, at {PRICE_SOURCE}")
    return lines


def _describe_status(flip: Flip, now_s: float) -> str:
    elapsed = format_duration(max(0.0, now_s - flip.requested_at_s))
    request = f"requested by {flip.by} {elapsed} ago ({format_time(flip.requested_at_s, now_s)} UTC)"
    match flip.status:
        case FlipStatus.REQUESTED:
            return (
                f"modification to {flip.requested_config}, {request}; not yet known whether AWS accepted it"
            )
        case FlipStatus.IN_PROGRESS:
            return f"being modified to {flip.requested_config}, {request}"
        case FlipStatus.ON_TARGET:
            at_s = flip.reached_at_s
            reached = "" if at_s is None else f" since {format_time(at_s, now_s)} UTC"
            return f"{'stays' if flip.is_permanent else 'is on'} {flip.target}{reached}, {request}"


def _cost_so_far(flip: Flip, now_s: float) -> str:
    if flip.started_at_s is None or now_s - flip.started_at_s < _MIN_COST_SPAN_S:
        return ""
    return f"; so far {format_extra_cost(flip.usd_per_month, now_s - flip.started_at_s)}"


def format_extra_cost(usd_per_month_more: float, duration_s: float) -> str:
    """The additional cost of a flip of this duration."""
    return format_usd_difference(usd_over(usd_per_month_more, duration_s))


def describe_quota(modifications: Sequence[ModificationUse], now_s: float) -> list[str]:
    """How many modifications of AWS's quota are used, by whom, and when the next is allowed."""
    usage = (
        f"{len(modifications)} of AWS's {QUOTA} modifications in 24 h"
        f" {'is' if len(modifications) == 1 else 'are'} used"
    )
    if not modifications:
        return [usage]
    listed = ", ".join(
        f"{format_time(modification.at_s, now_s)} by {modification.by}" for modification in modifications
    )
    free_at_s = next_modification_at_s(modifications)
    next_free = (
        "when the last is over"
        if free_at_s is None or free_at_s <= now_s
        else format_relative_time(free_at_s, now_s, "UTC")
    )
    return [f"{usage} ({listed}); the next is free {next_free}"]


def next_modification_at_s(modifications: Sequence[ModificationUse]) -> int | None:
    """When AWS allows the next modification; None if it does now."""
    return (
        None
        if len(modifications) < QUOTA
        else modifications[len(modifications) - QUOTA].at_s + QUOTA_PERIOD_S
    )


def flip_document(flip: Flip) -> "FlipDocument":
    """A flip as JSON."""
    return {
        **describe_standing_flip(flip),
        "started_at": instant_or_none(flip.started_at_s),
        "reached_at": instant_or_none(flip.reached_at_s),
        "return_after": instant_or_none(flip.return_after_s),
    }


def quota_document(modifications: Sequence[ModificationUse]) -> "QuotaDocument":
    """AWS's quota as JSON."""
    return {
        "used": len(modifications),
        "of": QUOTA,
        "next_at": instant_or_none(next_modification_at_s(modifications)),
        "spent": [
            {
                "at": format_instant(modification.at_s),
                "by": modification.by,
                "direction": modification.direction,
            }
            for modification in modifications
        ],
    }
