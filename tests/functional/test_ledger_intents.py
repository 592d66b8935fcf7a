"""Intents: what is recorded before a modification, what stops one, and who wins a race for the caps."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from some_alerts import alert_number
from some_flips import a_flip, an_intent, becomes

from burstwatch.core.flips.caps import caps_for
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import Cause, Direction, Hold, Phase
from burstwatch.core.ledger.ledger import Beginning, Begun, Caps, Change, EntryKind
from burstwatch.core.policy.policy import FlipPolicy
from ledgers import KINDS, a_home

A, B, C = "vol-0a", "vol-0b", "vol-0c"
OUT, BACK = Direction.OUT, Direction.BACK
MAIL = "mail"
NOW_S = 1000


@pytest.fixture(params=KINDS)
def home(request, tmp_path):
    with a_home(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def ledger(home):
    return home.open()


def begin(ledger, change, *, heeds_holds=True, **caps):
    return ledger.begin(change, Caps(**caps), now_s=NOW_S, heeds_holds=heeds_holds, channels=[MAIL])


def away(ledger, *usd_per_month):
    """So many other volumes are on their target, for so much more."""
    changes = [
        becomes(EntryKind.REACHED, flip, f"vol-1{number}", expected=None, revision=1)
        for number, flip in enumerate(
            a_flip(phase=Phase.ON_TARGET, usd_per_month=usd) for usd in usd_per_month
        )
    ]
    ledger.commit(changes, channels=[])


def a_hold(volume_id=A, until_s=NOW_S + 1):
    return Hold(volume_id=volume_id, by="ann", reason="release", placed_at_s=NOW_S - 9, until_s=until_s)


# What is recorded


def test_an_intent_leaves_its_state_its_history_and_its_alert(home, ledger):
    alert = replace(alert_number(1), volume_id=A)
    change = replace(an_intent(A), alerts=[alert])
    assert begin(ledger, change) == Beginning(begun=Begun.RECORDED)
    assert ledger.states() == {A: change.state}
    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.INTENT, EntryKind.ALERT]
    assert [waiting.alert for waiting in ledger.waiting(channels=[MAIL])] == [alert]
    assert home.reserved() == (1, 10.0)


def test_the_answer_tells_how_many_others_are_away_and_what_they_cost(ledger):
    away(ledger, 12.5, 30.0)
    assert begin(ledger, an_intent(A)) == Beginning(begun=Begun.RECORDED, volumes=2, usd_per_month=42.5)
    assert begin(ledger, an_intent(B), volumes=3) == Beginning(
        begun=Begun.FLEET_CAP, volumes=3, usd_per_month=52.5
    )


@pytest.mark.parametrize("expected", [None, 99, 101])
def test_an_intent_from_a_state_that_has_changed_is_outrun(home, ledger, expected):
    begin(ledger, an_intent(A, revision=100))
    before = home.everything()
    assert begin(ledger, an_intent(A, expected=expected, revision=200)).begun is Begun.OUTRUN
    assert home.everything() == before


def test_an_intent_for_a_volume_whose_state_was_dropped_is_outrun(ledger):
    assert begin(ledger, an_intent(A, expected=100, revision=200)).begun is Begun.OUTRUN


def test_one_volume_has_one_intent_at_a_time(ledger):
    """Two that looked at the same revision both want to flip: the second finds what the first began."""
    assert begin(ledger, an_intent(A, revision=100)).begun is Begun.RECORDED
    assert begin(ledger, an_intent(A, revision=101)).begun is Begun.OUTRUN
    assert ledger.states()[A].flip.asked_at_s == 100


def test_an_intent_that_cannot_be_written_reserves_nothing(home, ledger):
    unwritable = replace(an_intent(A), alerts=[replace(alert_number(1), evidence={"not": {"JSON"}})])
    before = home.everything()
    with pytest.raises(TypeError):
        begin(ledger, unwritable)
    assert home.everything() == before


# Caps


@pytest.mark.parametrize(
    ("others", "usd", "caps", "begun"),
    [
        ([10, 10, 10], 10, {}, Begun.RECORDED),
        ([10, 10], 10, {"volumes": 3}, Begun.RECORDED),
        ([10, 10, 10], 10, {"volumes": 3}, Begun.FLEET_CAP),
        ([10, 10, 10], 10, {"volumes": 1}, Begun.FLEET_CAP),
        ([], 0, {"volumes": 0}, Begun.FLEET_CAP),
        ([10, 10], 10, {"usd_per_month": 30}, Begun.RECORDED),
        ([10, 10], 10.01, {"usd_per_month": 30}, Begun.SPEND_CAP),
        ([0.1, 0.1], 0.1, {"usd_per_month": 0.3}, Begun.RECORDED),
        ([], 0, {"usd_per_month": 0}, Begun.RECORDED),
        ([], 0.01, {"usd_per_month": 0}, Begun.SPEND_CAP),
        ([10], -4, {"usd_per_month": 9}, Begun.SPEND_CAP),
        ([10], -4, {"usd_per_month": 10}, Begun.RECORDED),
        ([-10, -10], 5, {"usd_per_month": 4}, Begun.SPEND_CAP),
        ([10, 10], 10, {"volumes": 2, "usd_per_month": 1}, Begun.FLEET_CAP),
        ([10, 10], 10, {"volumes": 3, "usd_per_month": 1}, Begun.SPEND_CAP),
    ],
)
def test_an_intent_is_recorded_up_to_the_caps_and_not_beyond(home, ledger, others, usd, caps, begun):
    """Rounding stops nobody: 0.1 + 0.1 + 0.1 is 0.30000000000000004. What saves money pays for nothing."""
    away(ledger, *others)
    before = home.everything()
    beginning = begin(ledger, an_intent(A, usd_per_month=usd), **caps)
    assert (beginning.begun, beginning.volumes) == (begun, len(others))
    assert beginning.usd_per_month == pytest.approx(sum(usd for usd in others if usd > 0))
    assert (home.everything() == before) is (begun is not Begun.RECORDED)


@pytest.mark.parametrize(
    ("flip", "counts"),
    [
        (a_flip(phase=Phase.ASKED), True),
        (a_flip(phase=Phase.CHANGING), True),
        (a_flip(phase=Phase.ON_TARGET), True),
        (a_flip(phase=Phase.CHANGING, stays=True), True),
        (a_flip(phase=Phase.CHANGING, direction=BACK), True),
        (a_flip(phase=Phase.ON_TARGET, stays=True, by="ann"), False),
        (a_flip(phase=Phase.ON_TARGET, stays=True, usd_per_month=-1.88), False),
        # what a machine chose to pay for good counts for good
        (a_flip(phase=Phase.ON_TARGET, stays=True), True),
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
def test_a_volume_counts_from_its_intent_until_it_is_back_or_stays_for_no_more_or_for_somebody(
    ledger, flip, counts
):
    begin(ledger, an_intent(A, revision=100))
    ledger.commit([becomes(EntryKind.REACHED, flip, A, expected=100, revision=101)], channels=[])
    assert begin(ledger, an_intent(B), volumes=1).begun is (Begun.FLEET_CAP if counts else Begun.RECORDED)


def test_a_volume_whose_state_is_dropped_counts_no_more(ledger):
    begin(ledger, an_intent(A, revision=100))
    ledger.commit([Change(volume_id=A, expected_revision=100, state=None)], channels=[])
    assert begin(ledger, an_intent(B), volumes=1).begun is Begun.RECORDED


@pytest.mark.parametrize("usd", [0.0, 5.0, 20.0])
def test_a_flip_that_costs_something_else_than_before_counts_as_what_it_costs_now(home, ledger, usd):
    begin(ledger, an_intent(A, revision=100))
    dearer = a_flip(phase=Phase.ON_TARGET, usd_per_month=usd)
    ledger.commit([becomes(EntryKind.REACHED, dearer, A, expected=100, revision=101)], channels=[])
    assert home.reserved() == (1, usd)


def test_a_stale_change_of_a_flip_leaves_its_reservation(home, ledger):
    begin(ledger, an_intent(A, revision=100))
    stale = becomes(EntryKind.RESTORED, None, A, expected=99, revision=101)
    assert ledger.commit([stale], channels=[]) == set()
    assert home.reserved() == (1, 10.0)


def test_a_volume_that_tries_again_does_not_stand_in_its_own_way(home, ledger):
    """Its first intent, for $10, came to nothing; the next, for $12, is weighed without it."""
    begin(ledger, an_intent(A, revision=100), volumes=1, usd_per_month=12)
    again = an_intent(A, expected=100, revision=200, usd_per_month=12.0)
    assert begin(ledger, again, volumes=1, usd_per_month=12) == Beginning(begun=Begun.RECORDED)
    assert home.reserved() == (1, 12.0)


def test_a_return_is_never_refused_for_a_cap(ledger):
    """Both volumes are away and the cap was lowered to none since."""
    away(ledger, 10.0)
    begin(ledger, an_intent(A, revision=100))
    return_ = an_intent(A, expected=100, revision=200, direction=BACK)
    assert begin(ledger, return_, volumes=0, usd_per_month=0) == Beginning(
        begun=Begun.RECORDED, volumes=1, usd_per_month=10.0
    )


# Holds


@pytest.mark.parametrize("direction", [OUT, BACK])
@pytest.mark.parametrize("held", [A, None], ids=["the volume", "everything"])
def test_a_hold_stops_an_intent_and_is_told(home, ledger, direction, held):
    hold = a_hold(held)
    ledger.place_hold(hold)
    before = home.everything()
    assert begin(ledger, an_intent(A, direction=direction)) == Beginning(begun=Begun.HELD, hold=hold)
    assert home.everything() == before


@pytest.mark.parametrize("hold", [a_hold(B), a_hold(until_s=NOW_S), a_hold(None, until_s=NOW_S - 1)])
def test_a_hold_on_another_volume_or_one_that_has_ended_stops_nothing(ledger, hold):
    ledger.place_hold(hold)
    assert begin(ledger, an_intent(A)) == Beginning(begun=Begun.RECORDED)


def test_a_person_may_go_past_a_hold(ledger):
    ledger.place_hold(a_hold(None))
    assert begin(ledger, an_intent(A), heeds_holds=False) == Beginning(begun=Begun.RECORDED)


def test_of_two_holds_the_one_that_lasts_longest_is_told(ledger):
    short, long = a_hold(A, NOW_S + 10), a_hold(None, NOW_S + 20)
    for hold in (short, long, a_hold(B, NOW_S + 30)):
        ledger.place_hold(hold)
    assert begin(ledger, an_intent(A)).hold == long


def test_outrun_comes_before_held_and_held_before_the_caps(ledger):
    away(ledger, 10.0)
    ledger.place_hold(a_hold())
    others = {"volumes": 1, "usd_per_month": 10.0}
    assert begin(ledger, an_intent(A, expected=5), volumes=0) == Beginning(begun=Begun.OUTRUN, **others)
    assert begin(ledger, an_intent(A), volumes=0) == Beginning(begun=Begun.HELD, hold=a_hold(), **others)
    assert begin(ledger, an_intent(B), volumes=0) == Beginning(begun=Begun.FLEET_CAP, **others)


# Races

VOLUME_IDS = [f"vol-{number:02}" for number in range(10)]
CAPS = [{"volumes": 4}, {"usd_per_month": 45.0}, {"volumes": 4, "usd_per_month": 1000.0}]


def at_once(actions):
    """What each of several threads found that all began at once."""
    barrier = threading.Barrier(len(actions))

    def act(action):
        barrier.wait(timeout=10)
        return action()

    with ThreadPoolExecutor(max_workers=len(actions)) as pool:
        return list(pool.map(act, actions))


@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.parametrize("shared", [True, False], ids=["one ledger", "a ledger each"])
def test_of_ten_threads_that_race_for_four_places_four_get_one(home, ledger, caps, shared):
    """Ten volumes at $10 each: four fit below 4 volumes, and below $45."""
    ledgers = [ledger if shared else home.open() for _ in VOLUME_IDS]
    found = at_once(
        [
            lambda one=one, v=v: begin(one, an_intent(v), **caps)
            for one, v in zip(ledgers, VOLUME_IDS, strict=True)
        ]
    )
    recorded = {v for v, one in zip(VOLUME_IDS, found, strict=True) if one.begun is Begun.RECORDED}
    assert len(recorded) == 4
    assert sorted(one.volumes for one in found if one.begun is Begun.RECORDED) == [0, 1, 2, 3]
    assert home.reserved() == (4, 40.0)
    assert set(home.open().states()) == recorded


@pytest.mark.parametrize("policy", [FlipPolicy(fleet_cap=6), FlipPolicy(spend_cap_usd=60.0)])
def test_no_race_uses_up_what_is_reserved_for_volumes_that_drain(home, ledger, policy):
    """A third of six volumes, or of $60 at $10 each, is left when ten tagged critical have raced for all."""
    policy = replace(policy, draining_reserve_pct=34.0)

    def caps_of(cause):
        order = Order(volume_id=A, direction=OUT, cause=cause, because="wanted")
        caps = caps_for(order, policy)
        return {"volumes": caps.volumes, "usd_per_month": caps.usd_per_month}

    def race(cause, volume_ids):
        ledgers = [home.open() for _ in volume_ids]
        return at_once(
            [
                lambda one=one, v=v: begin(one, an_intent(v), **caps_of(cause))
                for one, v in zip(ledgers, volume_ids, strict=True)
            ]
        )

    idle = Counter(one.begun for one in race(Cause.CRITICAL, VOLUME_IDS))
    left = 6 - idle[Begun.RECORDED]
    assert left in (2, 3), "$39.60 hold three volumes of $10, a number is rounded down"
    draining = Counter(one.begun for one in race(Cause.DRAINING, [f"vol-2{n}" for n in range(5)]))
    assert draining[Begun.RECORDED] == left
    assert home.reserved() == (6, 60.0)


def test_of_ten_threads_that_want_one_volume_one_gets_it(home, ledger):
    ledgers = [home.open() for _ in VOLUME_IDS]
    intents = [an_intent(A, revision=100 + number) for number in range(10)]
    found = at_once([lambda one=o, i=i: begin(one, i) for o, i in zip(ledgers, intents, strict=True)])
    assert Counter(one.begun for one in found) == {Begun.RECORDED: 1, Begun.OUTRUN: 9}
    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.INTENT]
