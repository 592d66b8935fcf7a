import json
from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.host_stall import Stall, StuckTask
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    Flip,
    FlipCause,
    FlipStatus,
    Hold,
    ManualWindowOverride,
    ModificationUse,
    active_hold,
    make_intent_id,
    modifications_within,
    record_modification,
)
from burstwatch.core.ledger.resource_state import ResourceState
from support.builders.core_values import GP2, GP3, a_flip, a_state
from support.builders.states import build_state

# documents

counts = st.integers(1, 10**6)
instants = st.integers(0, 253_402_300_799)  # the end of the year 9999, as far as a stored instant may be
maybe_instants = st.none() | instants
texts = st.text(max_size=20)
configurations = st.one_of(
    st.just(GP2),
    st.builds(
        Configuration,
        volume_type=st.just(VolumeType.GP3),
        iops=counts,
        throughput_mib_s=st.integers(1, 10**5),
    ),
    st.builds(Configuration, volume_type=st.sampled_from([VolumeType.IO1, VolumeType.IO2]), iops=counts),
)
modification_uses = st.builds(
    ModificationUse, at_s=instants, by=texts, direction=st.none() | st.sampled_from(Direction)
)
flips = st.builds(
    Flip,
    status=st.sampled_from(FlipStatus),
    direction=st.sampled_from(Direction),
    intent_id=texts,
    cause=st.sampled_from(FlipCause),
    by=texts,
    original=configurations,
    target=configurations,
    size_gib=counts,
    requested_at_s=instants,
    reason=texts,
    is_permanent=st.booleans(),
    return_after_s=maybe_instants,
    usd_per_month=st.floats(-1e6, 1e6),
    started_at_s=maybe_instants,
    reached_at_s=maybe_instants,
    unconfirmed_since_s=maybe_instants,
    is_stuck_alerted=st.booleans(),
    overdue_alerted_at_s=maybe_instants,
)
flips = st.builds(replace, flips, previous=st.none() | flips)  # one who is sent on remembers where it was
tasks = st.builds(StuckTask, comm=texts, wchan=texts, count=counts)
stalls = st.builds(
    Stall,
    instance_id=texts,
    volume_id=texts,
    verdict=texts,
    cause=texts,
    total_s=st.none() | st.floats(0, 1e6),
    started_at_s=instants,
    received_at_s=instants,
    top=st.lists(tasks, max_size=2).map(tuple),
)
states = st.builds(
    build_state,
    volume_id=texts,
    revision=instants,
    level=st.sampled_from(Level),
    level_since_s=instants,
    unknown_reason=st.none() | st.sampled_from(UnknownReason),
    unknown_since_s=maybe_instants,
    open_level=st.none() | st.sampled_from(Level),
    level_at_s=maybe_instants,
    is_gap_open=st.booleans(),
    next_poll_at_s=maybe_instants,
    arrived_at_s=maybe_instants,
    smaller_size_gib=st.none() | counts,
    modified_at_s=maybe_instants,
    balance_pct=st.none() | st.floats(0, 100),
    balance_at_s=maybe_instants,
    flip=st.none() | flips,
    unsent_intent=st.none() | flips,
    used=st.lists(modification_uses, max_size=5).map(tuple),
    failure_count=st.integers(0, 99),
    retry_at_s=maybe_instants,
    contested_at_s=maybe_instants,
    returned_at_s=maybe_instants,
    refusal=st.none() | texts,
    is_critical_open=st.booleans(),
    missed_window_at_s=maybe_instants,
    missing_since_s=maybe_instants,
    unused_since_s=maybe_instants,
    stall=st.none() | stalls,
    stall_at_s=maybe_instants,
)


def json_round_trip(value):
    return type(value).from_document(json.loads(json.dumps(value.to_document())))


@given(st.one_of(modification_uses, flips, states))
def test_what_is_remembered_comes_back_from_its_document_as_it_was(value):
    back = json_round_trip(value)
    assert back == value
    assert {f.name: type(getattr(back, f.name)) for f in fields(back)} == {
        f.name: type(getattr(value, f.name)) for f in fields(value)
    }


@given(st.one_of(flips, states))
def test_a_document_does_not_contain_defaults(value):
    minimal = a_state() if isinstance(value, ResourceState) else a_flip(started_at_s=None, reached_at_s=None)
    required, whole = minimal.to_document().keys(), minimal.to_document(is_whole=True)
    defaults = {key: default for key, default in whole.items() if key not in required}
    assert [
        key for key, field_value in value.to_document().items() if field_value == defaults.get(key, ...)
    ] == []


@pytest.mark.parametrize("direction", [None, *Direction])
def test_an_old_use_keeps_its_direction_even_if_it_is_unknown(direction):
    item = ModificationUse(at_s=1, by="others", direction=direction)
    assert json_round_trip(item) == item


@pytest.mark.parametrize("until_s", [-1, 253_402_300_800])
def test_a_hold_with_an_unrepresentable_end_is_invalid(until_s):
    # 10000-01-01T00:00:00Z is 253,402,300,800 s after 1970
    with pytest.raises(ValueError, match=f"^{until_s} is not a time from 1970 to 9999$"):
        Hold(volume_id=None, by="ann", reason="", placed_at_s=0, until_s=until_s)
    assert Hold(volume_id=None, by="ann", reason="", placed_at_s=0, until_s=253_402_300_799)


@pytest.mark.parametrize(("at_s", "until_s"), [(-1, None), (0, -1), (0, 253_402_300_800)])
def test_an_override_with_an_unrepresentable_time_is_invalid(at_s, until_s):
    with pytest.raises(ValueError, match="is not a time from 1970 to 9999"):
        ManualWindowOverride(name="release", is_start=True, by="ann", at_s=at_s, until_s=until_s)
    assert ManualWindowOverride(name="release", is_start=True, by="ann", at_s=0)


def test_a_redirected_flip_remembers_its_last_configuration():
    flip = a_flip(status=FlipStatus.REQUESTED, previous=a_flip(target=GP3))
    assert json_round_trip(flip).previous == flip.previous


def test_a_new_flip_is_a_short_document():
    assert a_flip(started_at_s=None, reached_at_s=None).to_document() == {
        "phase": "on_target",
        "direction": "out",
        "intent_id": "0123456789abcdef",
        "cause": "draining",
        "by": "watchdog",
        "original": {"volume_type": "gp2", "iops": None, "throughput_mib_s": None},
        "target": {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128},
        "size_gib": 100,
        "asked_at_s": 1_795_168_800,
    }


def test_a_state_with_nothing_but_a_revision_is_two_words():
    assert a_state().to_document() == {"volume_id": "vol-0a1", "revision": 1}


# what a flip says of itself


@pytest.mark.parametrize(
    ("phase", "stays", "is_under_way", "is_settled", "reserves"),
    [
        (FlipStatus.REQUESTED, False, True, False, True),
        (FlipStatus.REQUESTED, True, True, False, True),
        (FlipStatus.IN_PROGRESS, False, True, False, True),
        (FlipStatus.IN_PROGRESS, True, True, False, True),
        (FlipStatus.ON_TARGET, False, False, False, True),
        (FlipStatus.ON_TARGET, True, False, True, False),
    ],
)
def test_a_flip_counts_against_the_caps_until_it_is_where_it_stays(
    phase, stays, is_under_way, is_settled, reserves
):
    flip = a_flip(status=phase, is_permanent=stays)
    assert (flip.is_under_way, flip.is_settled, flip.counts_against_caps) == (
        is_under_way,
        is_settled,
        reserves,
    )


@pytest.mark.parametrize(
    ("by", "usd_per_month", "reserves"),
    [
        (WATCHDOG, 0.01, True),
        (WATCHDOG, 0.0, False),
        (WATCHDOG, -1.88, False),
        # a person who wants it so has said what it may cost
        ("ann", 0.01, False),
    ],
)
def test_a_more_expensive_permanent_automatic_flip_counts_against_the_caps(by, usd_per_month, reserves):
    assert a_flip(is_permanent=True, by=by, usd_per_month=usd_per_month).counts_against_caps is reserves


@pytest.mark.parametrize(("direction", "requested"), [(Direction.FLIP, GP3), (Direction.FLIP_BACK, GP2)])
def test_the_requested_configuration_depends_on_the_direction(direction, requested):
    assert a_flip(direction=direction).requested_config == requested


def test_an_intent_has_a_name_that_no_other_volume_or_revision_shares():
    names = [
        make_intent_id(volume_id, revision) for volume_id in ("vol-1", "vol-11") for revision in (1, 11, 111)
    ]
    assert len(set(names)) == len(names)
    assert make_intent_id("vol-1", 11) == names[1]
    assert {len(name) for name in names} == {16}


def test_a_flip_without_a_known_price_costs_nothing_more():
    required = {f.name: getattr(a_flip(), f.name) for f in fields(Flip) if f.default is MISSING}
    flip = Flip(**required)
    assert (flip.usd_per_month, flip.reason, flip.is_permanent) == (0.0, "", False)


# what was used up


def use_times(uses):
    return [use.at_s for use in uses]


def a_use_at(*at_s, by=WATCHDOG):
    return tuple(ModificationUse(at_s=at_s_, by=by) for at_s_ in at_s)


@pytest.mark.parametrize(
    ("at_s", "now_s", "counts"),
    [
        ((), 0, []),
        # 24 h are 86,400 s: what began at 100 counts until 86,499.
        ((100,), 86_499, [100]),
        ((100,), 86_500, []),
        ((300, 100, 200), 1_000, [100, 200, 300]),
        # A clock was ahead when it was written, or is behind now.
        ((2_000,), 1_000, [2_000]),
        # No clock is 25 h ahead: the ledger is damaged.
        ((91_000, 91_001), 1_000, [91_000]),
    ],
)
def test_what_began_in_the_last_24_hours_counts_oldest_first(at_s, now_s, counts):
    assert use_times(modifications_within(a_use_at(*at_s), now_s)) == counts


@pytest.mark.parametrize(
    ("known", "at_s", "counts"),
    [
        ((), 1_000, [1_000]),
        ((900,), 1_000, [900, 1_000]),
        ((1_100,), 1_000, [1_000, 1_100]),
        # The same start, reported twice a little differently.
        ((1_000,), 1_005, [1_000]),
        ((1_000,), 995, [1_000]),
        ((1_000,), 1_006, [1_000, 1_006]),
        ((-90_000, 900), 1_000, [900, 1_000]),
    ],
)
def test_a_modification_reported_twice_is_used_up_once(known, at_s, counts):
    assert (
        use_times(record_modification(a_use_at(*known), ModificationUse(at_s=at_s, by=WATCHDOG), 1_010))
        == counts
    )


# holds


def a_hold(volume_id, until_s):
    return Hold(volume_id=volume_id, by="ann", reason="release", placed_at_s=0, until_s=until_s)


@pytest.mark.parametrize(
    ("holds", "until_s"),
    [
        ([], None),
        ([a_hold("vol-2", 9)], None),
        ([a_hold("vol-1", 5)], None),
        ([a_hold("vol-1", 6)], 6),
        ([a_hold(None, 6)], 6),
        ([a_hold("vol-1", 7), a_hold(None, 6), a_hold("vol-2", 9)], 7),
        ([a_hold("vol-1", 6), a_hold(None, 7)], 7),
    ],
)
def test_of_several_holds_on_a_volume_the_longest_counts(holds, until_s):
    result = active_hold(holds, "vol-1", now_s=5)
    assert (result and result.until_s) == until_s


@pytest.mark.parametrize(
    ("volume_id", "damaged_volume_id", "subject"),
    [("vol-1", None, "vol-1"), (None, "vol-2", "vol-2"), (None, None, None)],
)
def test_a_hold_is_released_by_its_volume_also_if_it_is_damaged(volume_id, damaged_volume_id, subject):
    assert replace(a_hold(volume_id, 9), damaged_volume_id=damaged_volume_id).subject == subject


def test_an_absent_field_is_none():
    assert ResourceState(volume_id="vol-1", revision=1).level_since_s == 0
    answer = IntentResult(status=IntentStatus.RECORDED)
    assert (answer.volumes, answer.usd_per_month) == (0, 0.0)


@pytest.mark.parametrize(
    ("caps", "away_count", "has_room"),
    [
        (Caps(), 10**6, True),
        (Caps(volumes=2), 1, True),
        (Caps(volumes=2), 2, False),
        (Caps(volumes=0), 0, False),
    ],
)
def test_the_fleet_cap_has_room_for_one_more_below_it(caps, away_count, has_room):
    assert caps.has_room_for_volume(away_count) is has_room


@pytest.mark.parametrize(
    ("cap_usd", "added_usd", "more_usd", "has_room"),
    [
        (None, 1e9, 1e9, True),
        (40.0, 30.0, 10.0, True),
        (40.0, 30.0, 10.01, False),
        (40.0, 41.0, -5.0, False),  # a saving frees no room
        (2.0, 1.333334, 0.666667, True),  # a sum of three times 2/3, each rounded to a millionth
        (2.0, 1.333334, 0.666669, False),
    ],
)
def test_the_spend_cap_has_room_up_to_it_and_for_what_rounding_adds(cap_usd, added_usd, more_usd, has_room):
    assert Caps(usd_per_month=cap_usd).has_room_for_usd(added_usd, more_usd) is has_room


@pytest.mark.parametrize(
    ("flip", "reserved_usd"),
    [
        (a_flip(usd_per_month=12.5), 12.5),
        (a_flip(usd_per_month=-3.0), 0.0),
        (a_flip(usd_per_month=12.5, is_permanent=True), 12.5),
        (a_flip(usd_per_month=12.5, is_permanent=True, by="ann"), 0.0),
    ],
)
def test_a_flip_reserves_what_it_adds_while_it_counts_against_the_caps(flip, reserved_usd):
    assert flip.reserved_usd == reserved_usd


@pytest.mark.parametrize(
    ("retry_at_s", "used_at_s", "next_at_s"),
    [
        (None, (), None),
        (1_000, (), None),
        (1_001, (), 1_001),
        # A pause of an hour, written by a clock that was an hour ahead.
        (8_200, (), 8_200),
        (8_201, (), None),
        # AWS's quota is free again a day after the newest modification: 900 + 86,400.
        (87_300, (500, 900), 87_300),
        (87_301, (500, 900), None),
        # What is that old leaves the quota before an hour is over.
        (8_200, (-86_000,), 8_200),
        (8_201, (-86_000,), None),
        # A modification that a damaged ledger has in the future does not allow more than a day.
        (91_000, (90_000,), 91_000),
        (91_001, (90_000,), None),
    ],
)
def test_a_next_attempt_farther_ahead_than_can_be_is_not_waited_for(retry_at_s, used_at_s, next_at_s):
    state = a_state(retry_at_s=retry_at_s, failure_count=1, used=a_use_at(*used_at_s))
    assert state.next_attempt_at_s(1_000) == next_at_s


def test_times_that_cannot_be_are_named():
    assert a_state(used=a_use_at(500, 91_000), retry_at_s=91_000).impossible_times(1_000) == []
    assert a_state(used=a_use_at(500, 91_001), retry_at_s=91_002).impossible_times(1_000) == [91_001, 91_002]
    assert a_state(retry_at_s=8_201).impossible_times(1_000) == [8_201]
