from dataclasses import replace

import pytest

from burstwatch.core.flips.cap_refusal import caps_for, fleet_cap_refusal, spend_cap_refusal
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.caps import Caps
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.policy.policy import FlipPolicy

POLICY = FlipPolicy(fleet_cap=50, spend_cap_usd=1_000.0, draining_reserve_pct=25.0)


def an_order(cause=FlipCause.DRAINING, **changes):
    return FlipOrder(
        volume_id="vol-0a1", direction=Direction.FLIP, cause=cause, reason="asked for", **changes
    )


@pytest.mark.parametrize(
    ("order", "caps"),
    [
        (an_order(), Caps(volumes=50, usd_per_month=1_000.0)),
        # 25 % of 50 volumes are 12, rounded down
        (an_order(FlipCause.CRITICAL), Caps(volumes=38, usd_per_month=750.0)),
        (an_order(FlipCause.WINDOW), Caps(volumes=38, usd_per_month=750.0)),
        # a drain that is not yet critical can wait: 12.5 are 13 for it
        (an_order(is_early=True), Caps(volumes=37, usd_per_month=750.0)),
        (an_order(FlipCause.MANUAL, by="ann"), Caps(volumes=50, usd_per_month=1_000.0)),
        (an_order(FlipCause.CRITICAL, by="ann"), Caps(volumes=50, usd_per_month=1_000.0)),
    ],
)
def test_only_a_critical_drain_and_a_person_may_use_the_reserved_share_of_the_caps(order, caps):
    assert caps_for(order, POLICY) == caps


@pytest.mark.parametrize(
    ("fleet_cap", "reserve_pct", "volumes"),
    [(1, 25.0, 1), (3, 25.0, 3), (4, 25.0, 3), (10, 90.0, 1), (4, 0.0, 4)],
)
def test_of_few_volumes_whole_ones_are_reserved(fleet_cap, reserve_pct, volumes):
    policy = replace(POLICY, fleet_cap=fleet_cap, draining_reserve_pct=reserve_pct)
    assert caps_for(an_order(FlipCause.WINDOW), policy).volumes == volumes


@pytest.mark.parametrize(
    ("fleet_cap", "reserve_pct", "volumes"),
    [(1, 25.0, 0), (3, 25.0, 2), (4, 25.0, 3), (10, 90.0, 1), (4, 0.0, 4)],
)
def test_an_early_flip_never_takes_the_last_places_of_a_few(fleet_cap, reserve_pct, volumes):
    policy = replace(POLICY, fleet_cap=fleet_cap, draining_reserve_pct=reserve_pct)
    assert caps_for(an_order(is_early=True), policy).volumes == volumes


def test_a_refusal_for_the_number_names_the_cap_and_what_is_reserved():
    refusal = fleet_cap_refusal(an_order(FlipCause.WINDOW), 38, POLICY)
    assert refusal.guard is Guard.FLEET_CAP
    assert refusal.reason == (
        "38 volumes are flipped or being flipped, and the policy's flip.fleet_cap is 50, 12 of them"
        " reserved for critical drains (flip.draining_reserve_pct: 25)"
    )
    assert "reserved" not in fleet_cap_refusal(an_order(), 50, POLICY).reason
    few = fleet_cap_refusal(an_order(FlipCause.WINDOW), 3, replace(POLICY, fleet_cap=4))
    assert "is 4, 1 of them reserved" in few.reason
    assert fleet_cap_refusal(an_order(), 1, replace(POLICY, fleet_cap=1)).reason.startswith(
        "1 volume is flipped"
    )


def test_a_refusal_for_the_dollars_names_the_cap_the_prices_and_what_is_reserved():
    refusal = spend_cap_refusal(an_order(FlipCause.CRITICAL), 197.5, 600.0, POLICY)
    assert refusal.guard is Guard.SPEND_CAP
    assert refusal.reason == (
        "it would add $197.50 a month to $600.00 already added, and the policy's"
        " flip.spend_cap_usd_per_month is $1,000.00, at us-east-1 list prices; $250.00 of that is reserved"
        " for critical drains (flip.draining_reserve_pct: 25)"
    )
    assert "reserved" not in spend_cap_refusal(an_order(), 197.5, 900.0, POLICY).reason
    little = replace(POLICY, spend_cap_usd=2.0)
    assert (
        "$0.50 of that is reserved" in spend_cap_refusal(an_order(FlipCause.WINDOW), 2.0, 0.0, little).reason
    )
    assert "it would add $0.00" in spend_cap_refusal(an_order(), -5.0, 900.0, POLICY).reason
