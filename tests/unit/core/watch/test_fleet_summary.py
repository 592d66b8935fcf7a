from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.watch.fleet_summary import count_volumes, fleet_fingerprints, summarise_fleet
from support.builders.core_values import a_flip, a_state, at
from support.builders.states import with_fields

NEXT_LOOK_S = int(at("12:05"))


def states(**levels):
    """A volume in focus for each name, at its level."""
    return {
        name: a_state(volume_id=name, level=level, next_poll_at_s=NEXT_LOOK_S, balance_pct=50.0)
        for name, level in levels.items()
    }


def a_change(state):
    return Change(volume_id=state.volume_id, expected_revision=1, state=state)


def count_states(fleet):
    return {str(level): count for level, count in fleet.by_level.items() if count}


def test_a_fleet_without_anything_going_on_is_well():
    fleet = summarise_fleet({}, [], 40)
    assert (fleet.watched, fleet.in_focus, fleet.flipped, count_states(fleet)) == (40, 0, 0, {"ok": 40})
    assert fleet.lowest_balance_pct is None
    assert fleet.by_level.keys() == set(Level)


def test_volumes_without_a_state_are_ok():
    known = states(a=Level.CRITICAL, b=Level.WATCH)
    assert count_states(summarise_fleet(known, [], 10)) == {"ok": 8, "critical": 1, "watch": 1}


def test_before_the_first_whole_sweep_only_what_is_remembered_is_counted():
    fleet = summarise_fleet(states(a=Level.WARNING), [], None)
    assert (fleet.watched, count_states(fleet)) == (None, {"warning": 1})


def test_more_may_be_remembered_than_is_listed_as_flipped_volumes_are_no_gp2():
    known = states(a=Level.OK, b=Level.OK)
    assert count_states(summarise_fleet(known, [], 1)) == {"ok": 2}


def test_the_changes_of_this_pass_count():
    known = states(a=Level.WARNING, b=Level.WARNING)
    rises = with_fields(known["a"], level=Level.CRITICAL, balance_pct=12.0)
    calm = Change(volume_id="b", expected_revision=1, state=None)
    fleet = summarise_fleet(known, [a_change(rises), calm], 3)
    assert count_states(fleet) == {"ok": 2, "critical": 1}
    assert (fleet.in_focus, fleet.lowest_balance_pct) == (1, 12.0)
    assert known["a"].level is Level.WARNING, "what was there before is left alone"


def test_a_new_volume_counts_from_its_first_change():
    fleet = summarise_fleet({}, [a_change(states(new=Level.EXHAUSTED)["new"])], 2)
    assert count_states(fleet) == {"ok": 1, "exhausted": 1}


def test_an_unknown_volume_is_unknown_whatever_its_level_and_its_old_balance_is_ignored():
    silent = a_state(level=Level.CRITICAL, unknown_reason=UnknownReason.TELEMETRY_GAP, balance_pct=3.0)
    fleet = summarise_fleet({"vol-0a1": silent}, [], 1)
    assert count_states(fleet) == {"unknown": 1}
    assert fleet.lowest_balance_pct is None


def test_the_lowest_balance_is_that_of_the_worst_volume():
    known = states(a=Level.WATCH, b=Level.WATCH, c=Level.OK)
    known["b"] = with_fields(known["b"], balance_pct=0.0)
    known["c"] = with_fields(known["c"], balance_pct=None)
    assert summarise_fleet(known, [], 3).lowest_balance_pct == 0.0


def test_flipped_volumes_are_counted_while_they_are_away():
    away = a_state(volume_id="away", flip=a_flip())
    settled = a_state(volume_id="settled", flip=a_flip(is_permanent=True), next_poll_at_s=NEXT_LOOK_S)
    fleet = summarise_fleet({"away": away, "settled": settled}, [], 5)
    assert (fleet.flipped, fleet.in_focus) == (2, 1)


def test_buckets_of_instances_are_counted_apart_from_volumes():
    known = states(a=Level.WATCH) | states(**{"i-1#instance-io": Level.CRITICAL})
    fleet = summarise_fleet(known, [], 10)
    assert count_states(fleet) == {"ok": 9, "watch": 1}
    assert {level for level, count in fleet.other_by_level.items() if count} == {Level.CRITICAL}
    assert fleet.in_focus == 1


def test_nothing_is_watched_where_there_is_nothing():
    fleet = summarise_fleet({}, [], 0)
    assert (fleet.watched, count_states(fleet)) == (0, {})


def test_the_fingerprints_of_a_fleet_separate_volumes_from_other_buckets():
    volumes, buckets = {2**24, 2**63}, {2**40, 2**41, 2**64 - 1}
    fleet = fleet_fingerprints(volumes, buckets)
    assert fleet == volumes | buckets | {3}
    assert count_volumes(fleet) == 2
    assert count_volumes(fleet_fingerprints(set(), buckets)) == 0


def test_a_fleet_of_volumes_alone_has_their_fingerprints_only():
    assert fleet_fingerprints({2**24, 2**63}, set()) == {2**24, 2**63}
    assert count_volumes({2**24, 2**63}) == 2
    assert count_volumes(set()) == 0
