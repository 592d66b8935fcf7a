import pytest

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.ledger.ledger import FleetSnapshot
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.watch.polling.due_volumes import DueVolume, due_in_focus, due_in_sweep, fingerprint
from support.builders.core_values import a_volume, at
from support.builders.states import build_state

CADENCE = CadencePolicy()
POLICIES = BucketPolicies(Policy())
NOON = int(at("12:00"))
TICK_S = 300

# 100 GiB is swept every third tick, 8 GiB too, 900 GiB every twelfth.
FLEET = [a_volume(100, volume_id=f"vol-{number:017x}") for number in range(60)]
WATCHED = a_volume(volume_id="vol-watched")
NOT_POLLED = [
    a_volume(volume_id="vol-detached", attached=False),
    a_volume(volume_id="vol-gp3", volume_type="gp3"),
    a_volume(1_000, volume_id="vol-large"),
]


def a_roster(*volumes, tick_s=NOON - TICK_S) -> FleetSnapshot:
    return FleetSnapshot(
        tick_at_s=tick_s, fingerprints=frozenset(fingerprint(volume, POLICIES) for volume in volumes)
    )


def a_state(volume_id="vol-watched", **changes) -> ResourceState:
    return build_state(volume_id, 1, **changes)


def sweep(
    volumes,
    *states,
    roster,
    tick_s=NOON,
    restarted=frozenset(),
    forced=frozenset(),
    smaller_sizes_gib=None,
):
    """The ids that are due at the tick, and of these the ones that have arrived."""
    due = list(
        due_in_sweep(
            volumes,
            {state.volume_id: state for state in states},
            snapshot=roster,
            sweep_at_s=tick_s,
            focused=due_in_focus({state.volume_id: state for state in states}, tick_s),
            instances_restarted=restarted,
            forced=forced,
            smaller_sizes_gib=smaller_sizes_gib or {},
            policies=POLICIES,
        )
    )
    ids = {item.volume.volume_id for item in due}
    assert len(ids) == len(due), "a volume is due once"
    return ids, {item.volume.volume_id for item in due if item.has_arrived}


def ids_of(volumes):
    return {volume.volume_id for volume in volumes}


# sweep


def test_at_a_cold_start_everything_that_can_be_polled_is_due():
    due, arrived = sweep([*FLEET, *NOT_POLLED], roster=None)
    assert due == ids_of(FLEET)
    assert arrived == set()


def test_volumes_that_cannot_be_polled_are_evaluated_while_something_is_remembered_of_them():
    # Their alert must be closed; once that is done they are forgotten.
    for volume in NOT_POLLED:
        assert sweep([volume], roster=a_roster(volume)) == (set(), set())
        state = a_state(volume.volume_id, next_poll_at_s=NOON + 9_999)
        assert sweep([volume], state, roster=a_roster(volume))[0] == {volume.volume_id}


def test_calm_volumes_are_due_once_in_their_interval():
    roster = a_roster(*FLEET)
    looked_at = []
    for tick_s in range(NOON, NOON + 3 * TICK_S, TICK_S):
        due, arrived = sweep(FLEET, roster=roster, tick_s=tick_s)
        assert arrived == set()
        looked_at += due
        roster = FleetSnapshot(tick_at_s=tick_s, fingerprints=roster.fingerprints)
    assert sorted(looked_at) == sorted(ids_of(FLEET))


@pytest.mark.parametrize("missed", [1, 2, 3, 50])
def test_ticks_that_were_missed_are_swept_by_the_next(missed):
    one_by_one = set()
    for tick_s in range(NOON - missed * TICK_S, NOON + 1, TICK_S):
        one_by_one |= sweep(FLEET, roster=a_roster(*FLEET, tick_s=tick_s - TICK_S), tick_s=tick_s)[0]
    at_once = sweep(FLEET, roster=a_roster(*FLEET, tick_s=NOON - (missed + 1) * TICK_S))
    assert at_once == (one_by_one, set())


def test_a_tick_that_is_completed_is_not_swept_again():
    assert sweep(FLEET, roster=a_roster(*FLEET, tick_s=NOON)) == (set(), set())


def test_a_sweep_that_comes_late_belongs_to_its_place_on_the_grid():
    roster = a_roster(*FLEET)
    assert sweep(FLEET, roster=roster, tick_s=NOON + 299) == sweep(FLEET, roster=roster)


@pytest.mark.parametrize(
    "changes",
    [
        {"volume_id": "vol-new"},
        {"instance_id": "i-0b2"},
        {"size_gib": 101},
    ],
)
def test_a_volume_that_was_attached_or_resized_arrives(changes):
    now = a_volume(**{"volume_id": "vol-watched"} | changes)
    assert sweep([now], roster=a_roster(WATCHED)) == ({now.volume_id}, {now.volume_id})


@pytest.mark.parametrize("before", [{"attached": False}, {"volume_type": "gp3"}, {"size_gib": 1_000}])
def test_a_volume_that_can_be_polled_again_arrives(before):
    roster = a_roster(a_volume(**{"volume_id": "vol-watched"} | before))
    assert sweep([WATCHED], roster=roster) == ({"vol-watched"}, {"vol-watched"})


@pytest.mark.parametrize(
    "changes", [{"tags": {"Name": "ci-8"}}, {"device": "/dev/sdf"}, {"throughput_mib_s": 128}]
)
def test_a_change_unrelated_to_the_balance_is_not_an_arrival(changes):
    assert fingerprint(a_volume(**changes), POLICIES) == fingerprint(a_volume(), POLICIES)


def test_a_policy_that_changes_the_interval_makes_a_volume_arrive():
    coarser = Policy(cadence=CadencePolicy(sweep_tick=2 * CADENCE.sweep_tick))
    assert fingerprint(WATCHED, BucketPolicies(coarser)) != fingerprint(WATCHED, POLICIES)


def test_an_instance_that_was_restarted_brings_its_volumes_back():
    state = a_state(unknown_reason=UnknownReason.INSTANCE_STOPPED)
    due = sweep([WATCHED], state, roster=a_roster(WATCHED), restarted=frozenset({"vol-watched"}))
    assert due == ({"vol-watched"}, {"vol-watched"})


def test_a_volume_whose_instance_is_stopped_waits_however_long():
    state = a_state(unknown_reason=UnknownReason.INSTANCE_STOPPED)
    assert sweep([WATCHED], state, roster=a_roster(WATCHED, tick_s=NOON - 86_400)) == (set(), set())


def test_a_volume_of_a_stopped_instance_that_is_attached_elsewhere_arrives():
    state = a_state(unknown_reason=UnknownReason.INSTANCE_STOPPED)
    moved = a_volume(volume_id="vol-watched", instance_id="i-0b2")
    assert sweep([moved], state, roster=a_roster(WATCHED))[1] == {"vol-watched"}


def test_a_volume_with_a_telemetry_gap_stays_in_the_sweep():
    state = a_state(unknown_reason=UnknownReason.TELEMETRY_GAP, is_gap_open=True)
    ticks = range(NOON, NOON + 3 * TICK_S, TICK_S)
    times = [sweep([WATCHED], state, roster=a_roster(WATCHED, tick_s=t - TICK_S), tick_s=t)[0] for t in ticks]
    assert sum(map(len, times)) == 1


@pytest.mark.parametrize("size_gib", [100, 2_000])
def test_a_volume_in_modification_is_evaluated_by_every_sweep(size_gib):
    # Also if it grows to a size that cannot run out of credits: it may not earn as that yet.
    volume = a_volume(size_gib, volume_id="vol-watched")
    for tick_s in range(NOON, NOON + 3 * TICK_S, TICK_S):
        roster = a_roster(volume, tick_s=tick_s - TICK_S)
        due, _ = sweep([volume], roster=roster, tick_s=tick_s, smaller_sizes_gib={"vol-watched": 100})
        assert due == {"vol-watched"}


def test_what_is_due_brings_its_smaller_size_along():
    [due] = due_in_sweep(
        [WATCHED],
        {},
        snapshot=None,
        sweep_at_s=NOON,
        focused=frozenset(),
        instances_restarted=frozenset(),
        smaller_sizes_gib={"vol-watched": 50, "vol-other": 8},
        policies=POLICIES,
    )
    assert due.smaller_size_gib == 50


def test_a_volume_due_for_another_reason_has_not_arrived():
    due_volume = DueVolume(volume=WATCHED)
    assert not due_volume.has_arrived
    assert not due_volume.is_being_modified
    assert due_volume.is_polled


@pytest.mark.parametrize("volume", [WATCHED, *NOT_POLLED], ids=lambda volume: volume.volume_id)
@pytest.mark.parametrize(
    "state",
    [{}, {"next_poll_at_s": NOON + 9_999}, {"unknown_reason": UnknownReason.INSTANCE_STOPPED}],
)
def test_a_forced_volume_is_due_whatever_else_applies(volume, state):
    # A window or a tag wants it looked at now.
    known = a_state(volume.volume_id, **state)
    due, arrived = sweep([volume], known, roster=a_roster(volume), forced={volume.volume_id})
    assert (due, arrived) == ({volume.volume_id}, set())


# focus


@pytest.mark.parametrize(
    ("due_in_s", "is_due"), [(-3_600, True), (0, True), (30, True), (31, False), (300, False), (None, False)]
)
def test_a_volume_in_focus_is_due_at_its_own_time(due_in_s, is_due):
    # Ticks are not punctual to the second: what is due within half a minute is taken now.
    state = a_state(next_poll_at_s=None if due_in_s is None else NOON + due_in_s)
    assert due_in_focus({"vol-watched": state}, NOON) == ({"vol-watched"} if is_due else set())


@pytest.mark.parametrize(("due_in_s", "is_due"), [(0, True), (30, True), (31, False)])
def test_the_sweep_evaluates_a_volume_in_focus_only_when_it_is_due(due_in_s, is_due):
    state = a_state(next_poll_at_s=NOON + due_in_s)
    due, _ = sweep([WATCHED], state, roster=a_roster(WATCHED, tick_s=NOON - 3_600))
    assert due == ({"vol-watched"} if is_due else set())


def test_a_volume_in_focus_that_was_resized_is_evaluated_now():
    state = a_state(next_poll_at_s=NOON + 240)
    resized = a_volume(200, volume_id="vol-watched")
    assert sweep([resized], state, roster=a_roster(WATCHED))[1] == {"vol-watched"}


def test_nothing_is_due_where_there_is_nothing():
    assert due_in_focus({}, NOON) == set()
    assert sweep([], roster=None) == (set(), set())


@pytest.mark.parametrize(("ahead_s", "is_due"), [(86_400, False), (86_401, True)])
def test_an_evaluation_planned_more_than_a_day_ahead_was_planned_by_a_clock_that_was_wrong(ahead_s, is_due):
    state = a_state(next_poll_at_s=NOON + ahead_s)
    assert due_in_focus({"vol-watched": state}, NOON) == ({"vol-watched"} if is_due else set())
