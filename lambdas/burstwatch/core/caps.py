"""What bounds flips in number and in dollars: the two caps, and the share of them kept for drains."""

from math import floor

from burstwatch.core.flips import WATCHDOG, Cause
from burstwatch.core.guards import Guard, Refusal
from burstwatch.core.ledger import Caps
from burstwatch.core.orders import Order
from burstwatch.core.policy import FlipPolicy
from burstwatch.core.prices import LIST_PRICES


def takes_reserve(order: Order) -> bool:
    """Whether an order may use the reserved share of the caps: a person's may, and that of a drain.

    Its cause is what the volume was assessed to do. A tag or a window alone never makes it ``draining``.
    """
    return order.by != WATCHDOG or order.cause is Cause.DRAINING


def caps_for(order: Order, policy: FlipPolicy) -> Caps:
    """The caps that an intent for this order must keep; reserved volumes are rounded down."""
    if takes_reserve(order):
        return Caps(volumes=policy.fleet_cap, usd_per_month=policy.spend_cap_usd)
    share = policy.draining_reserve_pct / 100
    return Caps(
        volumes=policy.fleet_cap - floor(policy.fleet_cap * share),
        usd_per_month=policy.spend_cap_usd * (1 - share),
    )


def refuse_fleet_cap(order: Order, away: int, policy: FlipPolicy) -> Refusal:
    """The refusal where ``away`` other volumes are away or on their way."""
    are = "1 volume is" if away == 1 else f"{away} volumes are"
    reason = f"{are} away or on the way, and the policy's flip.fleet_cap is {policy.fleet_cap}"
    kept = policy.fleet_cap - (caps_for(order, policy).volumes or 0)
    if kept > 0:
        reason += f", {kept} of them {_reserved(policy)}"
    return Refusal(guard=Guard.FLEET_CAP, reason=reason)


def refuse_spend_cap(order: Order, more_usd: float, added_usd: float, policy: FlipPolicy) -> Refusal:
    """The refusal where others have added so many dollars a month."""
    reason = (
        f"it would add ${max(0.0, more_usd):,.2f} a month to ${added_usd:,.2f} already added, and the"
        f" policy's flip.spend_cap_usd_per_month is ${policy.spend_cap_usd:,.2f}, at {LIST_PRICES}"
    )
    kept_usd = policy.spend_cap_usd - (caps_for(order, policy).usd_per_month or 0)
    if kept_usd > 0:
        reason += f"; ${kept_usd:,.2f} of that is {_reserved(policy)}"
    return Refusal(guard=Guard.SPEND_CAP, reason=reason)


def _reserved(policy: FlipPolicy) -> str:
    return f"reserved for draining volumes (flip.draining_reserve_pct: {policy.draining_reserve_pct:g})"
