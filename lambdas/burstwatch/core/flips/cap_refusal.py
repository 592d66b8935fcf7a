"""The caps of the fleet: how many volumes and dollars, and the share of them reserved for drains."""

from math import ceil, floor

from burstwatch.core.ebs.pricing import PRICE_SOURCE
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.caps import Caps
from burstwatch.core.ledger.flip_state import FlipCause
from burstwatch.core.policy.policy import FlipPolicy
from burstwatch.core.text import format_usd


def caps_for(order: FlipOrder, policy: FlipPolicy) -> Caps:
    """The caps that an intent for this order must keep."""
    volumes, usd = _draining_reserve(order, policy)
    return Caps(volumes=policy.fleet_cap - volumes, usd_per_month=policy.spend_cap_usd - usd)


def fleet_cap_refusal(order: FlipOrder, away: int, policy: FlipPolicy) -> Refusal:
    """The refusal while ``away`` other volumes are flipped or on their way."""
    count_text = "1 volume is" if away == 1 else f"{away} volumes are"
    reason = f"{count_text} flipped or being flipped, and the policy's flip.fleet_cap is {policy.fleet_cap}"
    volumes, _ = _draining_reserve(order, policy)
    if volumes:
        reason += f", {volumes} of them {_format_draining_reserve(policy)}"
    return Refusal(guard=Guard.FLEET_CAP, reason=reason)


def spend_cap_refusal(order: FlipOrder, more_usd: float, added_usd: float, policy: FlipPolicy) -> Refusal:
    """The refusal if it would add ``more_usd`` dollars a month to the ``added_usd`` of other flips."""
    reason = (
        f"it would add {format_usd(max(0.0, more_usd))} a month to {format_usd(added_usd)} already"
        f" added, and the"
        f" policy's flip.spend_cap_usd_per_month is {format_usd(policy.spend_cap_usd)}, at {PRICE_SOURCE}"
    )
    _, usd = _draining_reserve(order, policy)
    if usd:
        reason += f"; {format_usd(usd)} of that is {_format_draining_reserve(policy)}"
    return Refusal(guard=Guard.SPEND_CAP, reason=reason)


def _draining_reserve(order: FlipOrder, policy: FlipPolicy) -> tuple[int, float]:
    """How many volumes and dollars an order must leave, in whole volumes.

    A critical drain and a person may use everything. The cause of an automatic order is what the volume was
    assessed to do: a tag or a window alone never makes it ``draining``. An early order can wait until its
    drain is critical, so the volumes that it must leave are rounded up; for all others down.
    """
    if not order.is_automatic or (order.cause is FlipCause.DRAINING and not order.is_early):
        return 0, 0.0
    share = policy.draining_reserve_pct / 100
    volumes = policy.fleet_cap * share
    return ceil(volumes) if order.is_early else floor(volumes), policy.spend_cap_usd * share


def _format_draining_reserve(policy: FlipPolicy) -> str:
    return f"reserved for critical drains (flip.draining_reserve_pct: {policy.draining_reserve_pct:g})"
