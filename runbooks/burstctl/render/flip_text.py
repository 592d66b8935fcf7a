"""A flip in words: how far it is, what it was, why it stays or what it waits for; and AWS's quota."""

from collections.abc import Sequence
from typing import Any, Final

from burstctl.render.plan_json import instant_or_none
from burstctl.render.plan_text import difference_words
from burstwatch.core.ebs.pricing import HOURS_PER_MONTH, LIST_PRICES
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.ledger.flip_state import QUOTA_SPAN_S, Flip, Phase, Spent, configuration_document
from burstwatch.core.text import format_duration, format_instant, format_time, format_until, format_when

_NOTHING_YET_S: Final = 60


def flip_in_words(flip: Flip, now_s: float) -> list[str]:
    """Where the flip stands, what the volume was before, and what comes next."""
    lines = [_standing(flip, now_s), f"it was {flip.original}, which is kept in mind until it is that again"]
    if flip.because:
        lines.append(f"because: {flip.because}")
    if flip.phase is Phase.ON_TARGET and not flip.stays and flip.return_after_s is not None:
        lines.append(
            f"{flip.by} wants it so {format_until(flip.return_after_s, now_s)}, then until it is calm"
        )
    costs = f"costs {difference_words(flip.usd_per_month)} a month than before{_so_far(flip, now_s)}"
    lines.append(f"{costs}, at {LIST_PRICES}")
    return lines


def _standing(flip: Flip, now_s: float) -> str:
    ago = format_duration(max(0.0, now_s - flip.asked_at_s))
    asked = f"asked for by {flip.by} {ago} ago ({format_time(flip.asked_at_s, now_s)} UTC)"
    match flip.phase:
        case Phase.ASKED:
            return f"is to become {flip.asked_for}, {asked}; whether AWS took it is not known yet"
        case Phase.CHANGING:
            return f"on its way to {flip.asked_for}, {asked}"
        case Phase.ON_TARGET:
            at_s = flip.reached_at_s
            since = "" if at_s is None else f" since {format_time(at_s, now_s)} UTC"
            return f"{'stays' if flip.stays else 'is on'} {flip.target}{since}, {asked}"


def _so_far(flip: Flip, now_s: float) -> str:
    if flip.started_at_s is None or now_s - flip.started_at_s < _NOTHING_YET_S:
        return ""
    return f"; so far {cost_words(flip.usd_per_month, now_s - flip.started_at_s)}"


def cost_words(usd_per_month_more: float, span_s: float) -> str:
    """What so long a stay added to the bill."""
    return difference_words(usd_per_month_more * max(0.0, span_s) / 3600 / HOURS_PER_MONTH)


def quota_in_words(spent: Sequence[Spent], now_s: float) -> list[str]:
    """How many of AWS's modifications are used, by whom, and when the next is free."""
    used = f"{len(spent)} of AWS's {QUOTA} modifications in 24 h {'is' if len(spent) == 1 else 'are'} used"
    if not spent:
        return [used]
    each = ", ".join(f"{format_time(one.at_s, now_s)} by {one.by}" for one in spent)
    free_s = free_from_s(spent)
    when = "when the last is over" if free_s is None or free_s <= now_s else format_when(free_s, now_s, "UTC")
    return [f"{used} ({each}); the next is free {when}"]


def free_from_s(spent: Sequence[Spent]) -> int | None:
    """When the next modification is allowed by AWS; None where it is now."""
    return None if len(spent) < QUOTA else spent[len(spent) - QUOTA].at_s + QUOTA_SPAN_S


def flip_document(flip: Flip) -> dict[str, Any]:
    """A flip as JSON."""
    return {
        "phase": str(flip.phase),
        "direction": str(flip.direction),
        "cause": str(flip.cause),
        "by": flip.by,
        "original": configuration_document(flip.original),
        "target": configuration_document(flip.target),
        "asked_at": format_instant(flip.asked_at_s),
        "started_at": instant_or_none(flip.started_at_s),
        "reached_at": instant_or_none(flip.reached_at_s),
        "return_after": instant_or_none(flip.return_after_s),
        "stays": flip.stays,
        "because": flip.because,
        "usd_per_month_more": flip.usd_per_month,
    }


def quota_document(spent: Sequence[Spent]) -> dict[str, Any]:
    """AWS's quota as JSON."""
    return {
        "used": len(spent),
        "of": QUOTA,
        "next_at": instant_or_none(free_from_s(spent)),
        "spent": [
            {"at": format_instant(one.at_s), "by": one.by, "direction": one.direction and str(one.direction)}
            for one in spent
        ],
    }
