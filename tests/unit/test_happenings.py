"""What the ledger's lines come to in a picture: levels, stays, holds, stalls, marks."""

import pytest

from burstctl.timeline.intervals import (
    LETTERS,
    MarkKind,
    hold_runs,
    level_runs,
    marks_of,
    stall_runs,
    stays_of,
)
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import OTHERS, Direction, Phase
from burstwatch.core.ledger.ledger import EntryKind
from conftest import GP2, GP3, IO1, a_flip, a_modification, a_state, at
from some_days import (
    a_hold,
    a_level,
    a_release,
    a_stall,
    a_step,
    an_alert_entry,
    an_entry,
    on_everything,
    there_and_back,
)

START, NOW = at("09:00"), at("18:00")


def times(run) -> tuple[str, ...]:
    """The clocks of its instants; ``-`` for those that are not known."""
    instants = (run.asked_s, run.reached_s, run.back_s, run.restored_s)
    return tuple("-" if s is None else f"{int(s // 3600 % 24):02}:{int(s // 60 % 60):02}" for s in instants)


def runs_of(entries, state=None):
    return [(run.start_s, run.end_s, run.level) for run in level_runs(entries, state, START, NOW)]


def test_the_levels_follow_each_other_from_the_start_of_the_picture_to_now():
    entries = [a_level("10:00", "ok", "warning"), a_level("11:00", "warning", "critical")]
    assert runs_of(entries) == [
        (START, at("10:00"), Level.OK),
        (at("10:00"), at("11:00"), Level.WARNING),
        (at("11:00"), NOW, Level.CRITICAL),
    ]


def test_a_level_from_before_the_picture_lasts_into_it():
    assert runs_of([a_level("07:00", "ok", "watch"), a_level("08:00", "watch", "warning")]) == [
        (START, NOW, Level.WARNING)
    ]


def test_without_changes_the_state_tells_the_level_and_without_a_state_nobody_knows():
    state = a_state(level=Level.WATCH, level_since_s=int(at("12:00")))
    assert runs_of([], state) == [(at("12:00"), NOW, Level.WATCH)]
    assert runs_of([], a_state()) == []
    assert runs_of([]) == []


def test_a_forgotten_volume_has_no_level_afterwards():
    assert runs_of([a_level("10:00", "watch", "it is gone")]) == [(START, at("10:00"), Level.WATCH)]


def test_a_stay_is_the_way_there_the_time_on_the_target_and_the_way_back():
    (stay,) = stays_of(there_and_back())
    assert times(stay) == ("10:00", "10:30", "14:00", "14:30")
    assert (stay.target, stay.by, stay.stays) == (GP3, "watchdog", False)


def test_a_stay_that_began_before_anybody_remembers_is_told_by_its_way_back():
    (stay,) = stays_of(there_and_back()[2:])
    assert times(stay) == ("-", "-", "14:00", "14:30")
    assert stay.target == GP3


def test_a_stay_that_goes_on_is_told_by_the_state():
    flip = a_flip(target=IO1, stays=True)
    (stay,) = stays_of([], a_state(flip=flip))
    assert times(stay) == ("10:00", "10:30", "-", "-")
    assert (stay.target, stay.stays) == (IO1, True)

    (stay,) = stays_of([], a_state(flip=a_flip(phase=Phase.CHANGING, direction=Direction.BACK)))
    assert times(stay) == ("-", "10:30", "10:00", "-")


def test_a_stay_that_is_for_good_is_told_so_by_the_ledger():
    out, reached = there_and_back()[:2]
    (stay,) = stays_of([out, reached, a_step(EntryKind.STAYED, "10:30", "stays gp3")])
    assert (times(stay), stay.stays) == (("10:00", "10:30", "-", "-"), True)
    assert stays_of([a_step(EntryKind.STAYED, "10:30", "stays gp3")]) == []


def test_what_the_ledger_tells_is_not_told_twice_by_the_state():
    assert len(stays_of(there_and_back()[:2], a_state(flip=a_flip()))) == 1


@pytest.mark.parametrize("kind", [EntryKind.FAILED, EntryKind.NOT_DONE])
def test_a_way_there_that_failed_is_no_stay_and_one_back_leaves_it_where_it_was(kind):
    out = a_step(kind, "10:20", "was not changed to gp3")
    back = a_step(kind, "14:20", "was not changed to gp2", direction="back", intent="i2")
    assert stays_of([there_and_back()[0], out]) == []
    assert times(stays_of([*there_and_back()[:3], back])[0]) == ("10:00", "10:30", "-", "-")


def test_a_failure_of_another_intent_changes_no_stay():
    entries = [*there_and_back()[:2], a_step(EntryKind.NOT_DONE, "12:00", "was not changed", intent="i9")]
    assert times(stays_of(entries)[0]) == ("10:00", "10:30", "-", "-")


def test_a_second_way_out_ends_the_first_stay():
    further = a_step(EntryKind.ACCEPTED, "12:00", "is on its way to io1", target=IO1, intent="i3")
    first, second = stays_of([*there_and_back()[:2], further])
    assert times(first) == ("10:00", "10:30", "12:00", "12:00")
    assert (times(second)[0], second.target) == ("12:00", IO1)


@pytest.mark.parametrize("kind", [EntryKind.FAILED, EntryKind.NOT_DONE])
def test_a_second_way_out_that_failed_leaves_the_first_stay_as_it_was(kind):
    further = a_step(EntryKind.ACCEPTED, "12:00", "is on its way to io1", target=IO1, intent="i3")
    failed = a_step(kind, "12:20", "was not changed to io1", target=IO1, intent="i3")
    (stay,) = stays_of([*there_and_back()[:2], further, failed])
    assert (times(stay), stay.target) == (("10:00", "10:30", "-", "-"), GP3)


def test_somebody_elses_change_ends_the_stay():
    theirs = an_entry(EntryKind.CHANGED_BY_OTHERS, "12:00", summary="was changed by somebody else")
    (stay,) = stays_of([*there_and_back()[:2], theirs])
    assert times(stay) == ("10:00", "10:30", "12:00", "12:00")


def test_a_flip_without_the_watchdog_is_told_by_aws():
    (out,) = stays_of([], None, a_modification(GP2, GP3, started="10:00"))
    assert (times(out), out.by) == (("10:00", "10:10", "-", "-"), OTHERS)
    (back,) = stays_of([], None, a_modification(GP3, GP2, started="10:00"))
    assert times(back) == ("-", "-", "10:00", "10:10")


@pytest.mark.parametrize(
    "record",
    [
        a_modification(GP2, GP3, state="failed"),
        a_modification(GP2, GP2),
        a_modification(GP2, GP3, started=None),
        a_modification(GP2, GP3, started="10:02"),
    ],
)
def test_a_modification_that_failed_changed_no_type_or_is_known_is_no_other_stay(record):
    assert len(stays_of(there_and_back(), None, record)) == 1


def held(entries):
    return [(r.start_s, r.end_s, r.of_everything) for r in hold_runs(entries, START, NOW)]


def test_a_hold_lasts_until_it_is_lifted_replaced_or_over():
    assert held([a_hold("10:00", "12:00")]) == [(at("10:00"), at("12:00"), False)]
    assert held([a_hold("10:00", "12:00"), a_release("11:00", "12:00")]) == [
        (at("10:00"), at("11:00"), False)
    ]
    assert held([a_hold("10:00", "12:00"), a_hold("11:00", "15:00", by="ben")]) == [
        (at("10:00"), at("11:00"), False),
        (at("11:00"), at("15:00"), False),
    ]


def test_a_hold_on_everything_is_one_beside_that_on_the_volume():
    entries = [on_everything(a_hold("10:00", "12:00")), a_hold("11:00", "23:00")]
    assert held(entries) == [(at("10:00"), at("12:00"), True), (at("11:00"), NOW, False)]


def test_a_hold_that_was_over_before_the_picture_is_not_in_it():
    assert held([a_hold("07:00", "08:00")]) == []


def test_a_volume_taken_into_care_again_ends_no_hold():
    contested = an_entry(EntryKind.RELEASED, "11:00", by="ben", contested_at_s=int(at("09:00")))
    assert held([a_hold("10:00", "12:00"), contested]) == [(at("10:00"), at("12:00"), False)]


def test_an_unreadable_state_that_is_given_up_ends_no_hold_and_has_its_mark():
    given_up = an_entry(EntryKind.RELEASED, "11:00", by="ben", gave_up='{"x', because="damaged")
    assert held([a_hold("10:00", "12:00"), given_up]) == [(at("10:00"), at("12:00"), False)]
    assert [mark.says for mark in marks_of([given_up])] == ["its unreadable state is given up by ben"]


def test_a_stall_that_is_reported_again_is_one_stall():
    entries = [a_stall("10:00", 30, seen="10:01"), a_stall("10:00", 150, seen="10:03")]
    (run,) = stall_runs(entries, None, START)
    assert (run.start_s, run.end_s, run.cause) == (at("10:00"), at("10:02:30"), "the bucket is empty")


def test_the_stall_that_the_state_remembers_is_shown_as_well():
    stall = Stall(
        instance_id="i-0123456789abcdef0", volume_id="vol-0123456789abcdef0", verdict="CRIT",
        cause="the bucket is empty", total_s=60, started_at_s=int(at("10:00")),
    )  # fmt: skip
    (run,) = stall_runs([a_stall("10:00", 30)], a_state(stall=stall), START)
    assert run.end_s == at("10:01")
    assert stall_runs([], a_state(stall=stall), at("11:00")) == []


def test_a_stall_whose_time_cannot_be_read_is_left_out():
    assert stall_runs([an_entry(EntryKind.STALL, "10:00", started_at="yesterday")], None, START) == []


def said(entries):
    return [(mark.letter, mark.says, mark.is_told) for mark in marks_of(entries)]


def test_an_alert_is_no_mark_of_its_own_but_says_that_people_were_told():
    entries = [
        a_level("10:00", "ok", "critical"),
        an_alert_entry("10:00", AlertKind.DRAINING, "critical"),
        there_and_back()[0],
        an_alert_entry("10:00", AlertKind.FLIPPED, summary="is on its way to gp3"),
        a_step(EntryKind.REFUSED, "11:00", "is not moved to gp3: spend_cap"),
    ]
    assert said(entries) == [
        ("C", "ok -> critical", True),
        ("F", "is on its way to gp3", True),
        ("X", "is not moved to gp3: spend cap", False),
    ]


def test_an_alert_that_is_the_only_trace_is_a_mark():
    entries = [
        an_alert_entry("10:00", AlertKind.EXHAUSTED, "exhausted"),
        an_alert_entry("11:00", AlertKind.RECOVERED),
        an_alert_entry("12:00", AlertKind.TELEMETRY_GAP),
        an_alert_entry("13:00", AlertKind.WINDOW_MISSED, summary="is moved too late for nightly"),
        an_alert_entry("14:00", AlertKind.LEFT_ON_TARGET),
    ]
    assert said(entries) == [
        ("E", "still exhausted", True),
        ("R", "recovered", True),
        ("?", "no data", True),
        ("A", "is moved too late for nightly", True),
        ("A", "LeftOnTarget", True),
    ]


def test_the_steps_of_a_flip_and_what_people_and_hosts_did_are_marks_in_their_order():
    entries = [
        *there_and_back(),
        a_hold("15:00", "16:00"),
        on_everything(a_hold("15:30", "16:00")),
        a_release("15:45", "16:00"),
        a_stall("09:30", 12),
        an_entry(EntryKind.INTENT, "10:00", summary="is to become gp3"),
        an_entry(EntryKind.STUCK, "13:00", summary="is still optimizing"),
        a_level("16:00", "critical", "watch"),
    ]
    assert "".join(mark.letter for mark in marks_of(entries)) == "SFT!BGHHL"
    assert said(entries)[-3:] == [
        ("H", "held by anna: snapshot running", False),
        ("H", "everything is held by anna: snapshot running", False),
        ("L", "released by ben", False),
    ]


def test_each_kind_of_mark_has_a_letter_of_its_own():
    assert set(LETTERS) == set(MarkKind)
    assert len(set(LETTERS.values())) == len(MarkKind)


def test_a_return_of_which_only_the_end_is_remembered_is_told_by_it():
    [stay] = stays_of([there_and_back()[-1]])
    assert (times(stay), stay.target) == (("-", "-", "14:30", "14:30"), GP3)
