"""Intents: what is recorded before a modification, what stops one, and who wins a race for the caps."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from burstwatch.core.flips.cap_refusal import caps_for
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.flip_state import Direction, FlipCause, FlipStatus, Hold
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import FlipPolicy
from support.builders.alerts import numbered_alert
from support.builders.flips import a_flip, an_intent, flip_transition

A, B, C = "vol-0a", "vol-0b", "vol-0c"
OUT, BACK = Direction.FLIP, Direction.FLIP_BACK
MAIL = "mail"
NOW_S = 1000


def begin(ledger, change, *, heeds_holds=True, own_hold_reason=None, **caps):
    return ledger.record_intent(
        change,
        Caps(**caps),
        now_s=NOW_S,
        respects_holds=heeds_holds,
        channels=[MAIL],
        own_hold_reason=own_hold_reason,
    )


def reservation_totals(ledger, *usd_per_month):
    """This many other volumes are on their target, for this much more."""
    changes = [
        flip_transition(EntryKind.REACHED, flip, f"vol-1{number}", expected=None, revision=1)
        for number, flip in enumerate(
            a_flip(status=FlipStatus.ON_TARGET, usd_per_month=usd) for usd in usd_per_month
        )
    ]
    ledger.commit(changes, channels=[])


def a_hold(volume_id=A, until_s=NOW_S + 1):
    return Hold(volume_id=volume_id, by="ann", reason="release", placed_at_s=NOW_S - 9, until_s=until_s)


# What is recorded


def test_an_intent_leaves_its_state_its_history_and_its_alert(home, ledger):
    alert = replace(numbered_alert(1), volume_id=A)
    change = replace(an_intent(A), alerts=[alert])
    assert begin(ledger, change) == IntentResult(status=IntentStatus.RECORDED)
    assert ledger.states() == {A: change.state}
    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.INTENT, EntryKind.ALERT]
    assert [waiting.alert for waiting in ledger.pending_deliveries(channels=[MAIL])] == [alert]
    assert home.reserved() == (1, 10.0)


def test_the_result_has_the_reserved_volumes_and_dollars(ledger):
    reservation_totals(ledger, 12.5, 30.0)
    assert begin(ledger, an_intent(A)) == IntentResult(
        status=IntentStatus.RECORDED, volumes=2, usd_per_month=42.5
    )
    assert begin(ledger, an_intent(B), volumes=3) == IntentResult(
        status=IntentStatus.FLEET_CAP, volumes=3, usd_per_month=52.5
    )


@pytest.mark.parametrize("expected", [None, 99, 101])
def test_an_intent_from_a_changed_state_is_a_conflict(home, ledger, expected):
    begin(ledger, an_intent(A, revision=100))
    before = home.dump()
    assert begin(ledger, an_intent(A, expected=expected, revision=200)).status is IntentStatus.CONFLICT
    assert home.dump() == before


def test_an_intent_for_a_dropped_state_is_a_conflict(ledger):
    assert begin(ledger, an_intent(A, expected=100, revision=200)).status is IntentStatus.CONFLICT


def test_one_volume_has_one_intent_at_a_time(ledger):
    """Two that looked at the same revision both want to flip: the second finds what the first began."""
    assert begin(ledger, an_intent(A, revision=100)).status is IntentStatus.RECORDED
    assert begin(ledger, an_intent(A, revision=101)).status is IntentStatus.CONFLICT
    assert ledger.states()[A].flip.requested_at_s == 100


def test_an_intent_that_cannot_be_written_reserves_nothing(home, ledger):
    unwritable = replace(an_intent(A), alerts=[replace(numbered_alert(1), evidence={"not": {"JSON"}})])
    before = home.dump()
    with pytest.raises(TypeError):
        begin(ledger, unwritable)
    assert home.dump() == before


# Caps


@pytest.mark.parametrize(
    ("reservations", "usd", "caps", "status"),
    [
        ([10, 10, 10], 10, {}, IntentStatus.RECORDED),
        ([10, 10], 10, {"volumes": 3}, IntentStatus.RECORDED),
        ([10, 10, 10], 10, {"volumes": 3}, IntentStatus.FLEET_CAP),
        ([10, 10, 10], 10, {"volumes": 1}, IntentStatus.FLEET_CAP),
        ([], 0, {"volumes": 0}, IntentStatus.FLEET_CAP),
        ([10, 10], 10, {"usd_per_month": 30}, IntentStatus.RECORDED),
        ([10, 10], 10.01, {"usd_per_month": 30}, IntentStatus.SPEND_CAP),
        ([0.1, 0.1], 0.1, {"usd_per_month": 0.3}, IntentStatus.RECORDED),
        ([], 0, {"usd_per_month": 0}, IntentStatus.RECORDED),
        ([], 0.01, {"usd_per_month": 0}, IntentStatus.SPEND_CAP),
        ([10], -4, {"usd_per_month": 9}, IntentStatus.SPEND_CAP),
        ([10], -4, {"usd_per_month": 10}, IntentStatus.RECORDED),
        ([-10, -10], 5, {"usd_per_month": 4}, IntentStatus.SPEND_CAP),
        ([10, 10], 10, {"volumes": 2, "usd_per_month": 1}, IntentStatus.FLEET_CAP),
        ([10, 10], 10, {"volumes": 3, "usd_per_month": 1}, IntentStatus.SPEND_CAP),
    ],
)
def test_an_intent_is_recorded_up_to_the_caps_and_not_beyond(home, ledger, reservations, usd, caps, status):
    """Rounding stops no flip: 0.1 + 0.1 + 0.1 is 0.30000000000000004. What saves money pays for nothing."""
    reservation_totals(ledger, *reservations)
    before = home.dump()
    beginning = begin(ledger, an_intent(A, usd_per_month=usd), **caps)
    assert (beginning.status, beginning.volumes) == (status, len(reservations))
    assert beginning.usd_per_month == pytest.approx(sum(usd for usd in reservations if usd > 0))
    assert (home.dump() == before) is (status is not IntentStatus.RECORDED)


@pytest.mark.parametrize(
    ("flip", "counts"),
    [
        (a_flip(status=FlipStatus.REQUESTED), True),
        (a_flip(status=FlipStatus.IN_PROGRESS), True),
        (a_flip(status=FlipStatus.ON_TARGET), True),
        (a_flip(status=FlipStatus.IN_PROGRESS, is_permanent=True), True),
        (a_flip(status=FlipStatus.IN_PROGRESS, direction=BACK), True),
        (a_flip(status=FlipStatus.ON_TARGET, is_permanent=True, by="ann"), False),
        (a_flip(status=FlipStatus.ON_TARGET, is_permanent=True, usd_per_month=-1.88), False),
        # what a machine chose to pay permanently counts permanently
        (a_flip(status=FlipStatus.ON_TARGET, is_permanent=True), True),
        (None, False),
    ],
    ids=[
        "asked",
        "changing",
        "on target",
        "changing to stay",
        "returning",
        "stays for somebody",
        "stays for less",
        "stays for more",
        "returned",
    ],
)
def test_a_volume_counts_against_the_caps_from_intent_to_return(ledger, flip, counts):
    begin(ledger, an_intent(A, revision=100))
    ledger.commit([flip_transition(EntryKind.REACHED, flip, A, expected=100, revision=101)], channels=[])
    assert begin(ledger, an_intent(B), volumes=1).status is (
        IntentStatus.FLEET_CAP if counts else IntentStatus.RECORDED
    )


def test_a_volume_whose_state_is_dropped_counts_no_more(ledger):
    begin(ledger, an_intent(A, revision=100))
    ledger.commit([Change(volume_id=A, expected_revision=100, state=None)], channels=[])
    assert begin(ledger, an_intent(B), volumes=1).status is IntentStatus.RECORDED


@pytest.mark.parametrize("usd", [0.0, 5.0, 20.0])
def test_a_flip_that_costs_something_else_than_before_counts_as_what_it_costs_now(home, ledger, usd):
    begin(ledger, an_intent(A, revision=100))
    costlier = a_flip(status=FlipStatus.ON_TARGET, usd_per_month=usd)
    ledger.commit([flip_transition(EntryKind.REACHED, costlier, A, expected=100, revision=101)], channels=[])
    assert home.reserved() == (1, usd)


def test_a_stale_change_of_a_flip_leaves_its_reservation(home, ledger):
    begin(ledger, an_intent(A, revision=100))
    stale = flip_transition(EntryKind.RESTORED, None, A, expected=99, revision=101)
    assert ledger.commit([stale], channels=[]) == set()
    assert home.reserved() == (1, 10.0)


def test_a_retry_does_not_compete_with_its_own_reservation(home, ledger):
    """Its first intent, for $10, had no effect; the next, for $12, is weighed without it."""
    begin(ledger, an_intent(A, revision=100), volumes=1, usd_per_month=12)
    repeated = an_intent(A, expected=100, revision=200, usd_per_month=12.0)
    assert begin(ledger, repeated, volumes=1, usd_per_month=12) == IntentResult(status=IntentStatus.RECORDED)
    assert home.reserved() == (1, 12.0)


def test_a_return_is_never_refused_for_a_cap(ledger):
    """Both volumes are away and the cap was lowered to none since."""
    reservation_totals(ledger, 10.0)
    begin(ledger, an_intent(A, revision=100))
    return_ = an_intent(A, expected=100, revision=200, direction=BACK)
    assert begin(ledger, return_, volumes=0, usd_per_month=0) == IntentResult(
        status=IntentStatus.RECORDED, volumes=1, usd_per_month=10.0
    )


# Holds


@pytest.mark.parametrize("direction", [OUT, BACK])
@pytest.mark.parametrize("held", [A, None], ids=["the volume", "everything"])
def test_a_hold_stops_an_intent_and_is_reported(home, ledger, direction, held):
    hold = a_hold(held)
    ledger.place_hold(hold)
    before = home.dump()
    assert begin(ledger, an_intent(A, direction=direction)) == IntentResult(
        status=IntentStatus.HELD, hold=hold
    )
    assert home.dump() == before


@pytest.mark.parametrize("hold", [a_hold(B), a_hold(until_s=NOW_S), a_hold(None, until_s=NOW_S - 1)])
def test_a_hold_on_another_volume_or_one_that_has_ended_stops_nothing(ledger, hold):
    ledger.place_hold(hold)
    assert begin(ledger, an_intent(A)) == IntentResult(status=IntentStatus.RECORDED)


def test_a_person_may_go_past_a_hold(ledger):
    ledger.place_hold(a_hold(None))
    assert begin(ledger, an_intent(A), heeds_holds=False) == IntentResult(status=IntentStatus.RECORDED)


def test_a_hold_of_ones_own_stops_nothing_and_every_other_does(home, ledger):
    own, switch = a_hold(A), a_hold(None)
    ledger.place_hold(own)
    ledger.place_hold(switch)
    held = begin(ledger, an_intent(A), own_hold_reason=own.reason)
    assert held == IntentResult(status=IntentStatus.HELD, hold=switch)
    ledger.lift_hold(None, by="ann", at_s=NOW_S)
    held = begin(ledger, an_intent(A), own_hold_reason="another reason")
    assert held == IntentResult(status=IntentStatus.HELD, hold=own)
    recorded = begin(ledger, an_intent(A), own_hold_reason=own.reason)
    assert recorded == IntentResult(status=IntentStatus.RECORDED)


def test_the_longest_of_two_holds_is_reported(ledger):
    short, long = a_hold(A, NOW_S + 10), a_hold(None, NOW_S + 20)
    for hold in (short, long, a_hold(B, NOW_S + 30)):
        ledger.place_hold(hold)
    assert begin(ledger, an_intent(A)).hold == long


def test_conflict_comes_before_hold_and_hold_before_caps(ledger):
    reservation_totals(ledger, 10.0)
    ledger.place_hold(a_hold())
    totals = {"volumes": 1, "usd_per_month": 10.0}
    assert begin(ledger, an_intent(A, expected=5), volumes=0) == IntentResult(
        status=IntentStatus.CONFLICT, **totals
    )
    assert begin(ledger, an_intent(A), volumes=0) == IntentResult(
        status=IntentStatus.HELD, hold=a_hold(), **totals
    )
    assert begin(ledger, an_intent(B), volumes=0) == IntentResult(status=IntentStatus.FLEET_CAP, **totals)


# Races

VOLUME_IDS = [f"vol-{number:02}" for number in range(10)]
CAPS = [{"volumes": 4}, {"usd_per_month": 45.0}, {"volumes": 4, "usd_per_month": 1000.0}]


def run_concurrently(actions):
    """What each of several threads found that all began at once."""
    barrier = threading.Barrier(len(actions))

    def act(action):
        barrier.wait(timeout=60)
        return action()

    with ThreadPoolExecutor(max_workers=len(actions)) as pool:
        return list(pool.map(act, actions))


@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.parametrize("world_writable_dir", [True, False], ids=["one ledger", "a ledger each"])
def test_of_ten_threads_that_race_for_four_places_four_get_one(home, ledger, caps, world_writable_dir):
    """Ten volumes at $10 each: four fit below 4 volumes, and below $45."""
    ledgers = [ledger if world_writable_dir else home.open() for _ in VOLUME_IDS]
    result = run_concurrently(
        [
            lambda item=item, v=v: begin(item, an_intent(v), **caps)
            for item, v in zip(ledgers, VOLUME_IDS, strict=True)
        ]
    )
    recorded = {v for v, item in zip(VOLUME_IDS, result, strict=True) if item.status is IntentStatus.RECORDED}
    assert len(recorded) == 4
    assert sorted(item.volumes for item in result if item.status is IntentStatus.RECORDED) == [0, 1, 2, 3]
    assert home.reserved() == (4, 40.0)
    assert set(home.open().states()) == recorded


@pytest.mark.parametrize("policy", [FlipPolicy(fleet_cap=6), FlipPolicy(spend_cap_usd=60.0)])
def test_no_race_uses_up_what_is_reserved_for_volumes_that_drain(home, ledger, policy):
    """A third of six volumes, or of $60 at $10 each, is left when ten tagged critical have raced for all."""
    policy = replace(policy, draining_reserve_pct=34.0)

    def caps_of(cause):
        order = FlipOrder(volume_id=A, direction=OUT, cause=cause, reason="wanted")
        caps = caps_for(order, policy)
        return {"volumes": caps.volumes, "usd_per_month": caps.usd_per_month}

    def race(cause, volume_ids):
        ledgers = [home.open() for _ in volume_ids]
        return run_concurrently(
            [
                lambda item=item, v=v: begin(item, an_intent(v), **caps_of(cause))
                for item, v in zip(ledgers, volume_ids, strict=True)
            ]
        )

    idle = Counter(item.status for item in race(FlipCause.CRITICAL, VOLUME_IDS))
    remaining = 6 - idle[IntentStatus.RECORDED]
    assert remaining in (2, 3), "$39.60 hold three volumes of $10, a number is rounded down"
    draining = Counter(item.status for item in race(FlipCause.DRAINING, [f"vol-2{n}" for n in range(5)]))
    assert draining[IntentStatus.RECORDED] == remaining
    assert home.reserved() == (6, 60.0)


def test_of_ten_threads_that_want_one_volume_one_gets_it(home, ledger):
    ledgers = [home.open() for _ in VOLUME_IDS]
    intents = [an_intent(A, revision=100 + number) for number in range(10)]
    result = run_concurrently(
        [lambda finding=o, i=i: begin(finding, i) for o, i in zip(ledgers, intents, strict=True)]
    )
    assert Counter(finding.status for finding in result) == {
        IntentStatus.RECORDED: 1,
        IntentStatus.CONFLICT: 9,
    }
    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.INTENT]
