"""What the ledger's lines come to in a picture: levels, stays, holds, stalls, marks."""

import pytest

from burstctl.timeline.intervals import (
    EVENT_LETTERS,
    TimelineEventKind,
    hold_intervals,
    level_intervals,
    stall_intervals,
    target_intervals,
    timeline_events,
)
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import EXTERNAL, Direction, FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.core_values import GP2, GP3, IO1, a_flip, a_modification, a_state, at
from support.builders.history import (
    a_flip_entry,
    a_hold,
    a_level,
    a_release,
    a_round_trip,
    a_stall,
    an_alert_entry,
    an_entry,
    for_all_volumes,
)

START, NOW = at("09:00"), at("18:00")


def start_and_end(run) -> tuple[str, ...]:
    """The clocks of its instants; ``-`` for those that are not known."""
    instants = (run.requested_at_s, run.reached_at_s, run.return_requested_at_s, run.restored_at_s)
    return tuple("-" if s is None else f"{int(s // 3600 % 24):02}:{int(s // 60 % 60):02}" for s in instants)


def level_intervals_of(entries, state=None):
    return [(run.start_s, run.end_s, run.level) for run in level_intervals(entries, state, START, NOW)]


def test_the_levels_follow_each_other_from_the_start_of_the_picture_to_now():
    entries = [a_level("10:00", "ok", "warning"), a_level("11:00", "warning", "critical")]
    assert level_intervals_of(entries) == [
        (START, at("10:00"), Level.OK),
        (at("10:00"), at("11:00"), Level.WARNING),
        (at("11:00"), NOW, Level.CRITICAL),
    ]


def test_a_level_from_before_the_picture_lasts_into_it():
    assert level_intervals_of([a_level("07:00", "ok", "watch"), a_level("08:00", "watch", "warning")]) == [
        (START, NOW, Level.WARNING)
    ]


def test_without_changes_the_level_comes_from_the_state():
    state = a_state(level=Level.WATCH, level_since_s=int(at("12:00")))
    assert level_intervals_of([], state) == [(at("12:00"), NOW, Level.WATCH)]
    assert level_intervals_of([], a_state()) == []
    assert level_intervals_of([]) == []


def test_a_forgotten_volume_has_no_level_afterwards():
    assert level_intervals_of([a_level("10:00", "watch", "it is gone")]) == [
        (START, at("10:00"), Level.WATCH)
    ]


def test_a_target_interval_has_flip_time_on_target_and_return():
    (stay,) = target_intervals(a_round_trip())
    assert start_and_end(stay) == ("10:00", "10:30", "14:00", "14:30")
    assert (stay.target, stay.by, stay.is_permanent) == (GP3, "watchdog", False)


def test_an_interval_older_than_the_ledger_comes_from_its_return():
    (stay,) = target_intervals(a_round_trip()[2:])
    assert start_and_end(stay) == ("-", "-", "14:00", "14:30")
    assert stay.target == GP3


def test_an_open_interval_comes_from_the_state():
    flip = a_flip(target=IO1, is_permanent=True)
    (stay,) = target_intervals([], a_state(flip=flip))
    assert start_and_end(stay) == ("10:00", "10:30", "-", "-")
    assert (stay.target, stay.is_permanent) == (IO1, True)

    (stay,) = target_intervals(
        [], a_state(flip=a_flip(status=FlipStatus.IN_PROGRESS, direction=Direction.FLIP_BACK))
    )
    assert start_and_end(stay) == ("-", "10:30", "10:00", "-")


def test_a_permanent_interval_comes_from_the_ledger():
    out, reached = a_round_trip()[:2]
    (stay,) = target_intervals([out, reached, a_flip_entry(EntryKind.STAYED, "10:30", "stays gp3")])
    assert (start_and_end(stay), stay.is_permanent) == (("10:00", "10:30", "-", "-"), True)
    assert target_intervals([a_flip_entry(EntryKind.STAYED, "10:30", "stays gp3")]) == []


def test_the_state_does_not_duplicate_ledger_intervals():
    assert len(target_intervals(a_round_trip()[:2], a_state(flip=a_flip()))) == 1


@pytest.mark.parametrize("kind", [EntryKind.FAILED, EntryKind.NOT_DONE])
def test_a_failed_flip_is_no_interval_and_a_failed_return_changes_nothing(kind):
    out = a_flip_entry(kind, "10:20", "was not changed to gp3")
    back = a_flip_entry(kind, "14:20", "was not changed to gp2", direction="back", intent="i2")
    assert target_intervals([a_round_trip()[0], out]) == []
    assert start_and_end(target_intervals([*a_round_trip()[:3], back])[0]) == ("10:00", "10:30", "-", "-")


def test_a_failure_of_another_intent_changes_no_interval():
    entries = [*a_round_trip()[:2], a_flip_entry(EntryKind.NOT_DONE, "12:00", "was not changed", intent="i9")]
    assert start_and_end(target_intervals(entries)[0]) == ("10:00", "10:30", "-", "-")


def test_a_second_flip_ends_the_first_interval():
    further = a_flip_entry(EntryKind.ACCEPTED, "12:00", "is being modified to io1", target=IO1, intent="i3")
    first, second = target_intervals([*a_round_trip()[:2], further])
    assert start_and_end(first) == ("10:00", "10:30", "12:00", "12:00")
    assert (start_and_end(second)[0], second.target) == ("12:00", IO1)


@pytest.mark.parametrize("kind", [EntryKind.FAILED, EntryKind.NOT_DONE])
def test_a_second_failed_flip_leaves_the_first_interval(kind):
    further = a_flip_entry(EntryKind.ACCEPTED, "12:00", "is being modified to io1", target=IO1, intent="i3")
    failed = a_flip_entry(kind, "12:20", "was not changed to io1", target=IO1, intent="i3")
    (stay,) = target_intervals([*a_round_trip()[:2], further, failed])
    assert (start_and_end(stay), stay.target) == (("10:00", "10:30", "-", "-"), GP3)


def test_an_external_change_ends_the_interval():
    external_change = an_entry(EntryKind.CHANGED_BY_OTHERS, "12:00", summary="was changed by somebody else")
    (stay,) = target_intervals([*a_round_trip()[:2], external_change])
    assert start_and_end(stay) == ("10:00", "10:30", "12:00", "12:00")


def test_an_external_flip_comes_from_the_aws_record():
    (out,) = target_intervals([], None, a_modification(GP2, GP3, started="10:00"))
    assert (start_and_end(out), out.by) == (("10:00", "10:10", "-", "-"), EXTERNAL)
    (back,) = target_intervals([], None, a_modification(GP3, GP2, started="10:00"))
    assert start_and_end(back) == ("-", "-", "10:00", "10:10")


@pytest.mark.parametrize(
    "record",
    [
        a_modification(GP2, GP3, state="failed"),
        a_modification(GP2, GP2),
        a_modification(GP2, GP3, started=None),
        a_modification(GP2, GP3, started="10:02"),
    ],
)
def test_a_failed_or_known_modification_adds_no_interval(record):
    assert len(target_intervals(a_round_trip(), None, record)) == 1


def hold_intervals_of(entries):
    return [(r.start_s, r.end_s, r.is_fleet_wide) for r in hold_intervals(entries, START, NOW)]


def test_a_hold_lasts_until_it_is_lifted_replaced_or_over():
    assert hold_intervals_of([a_hold("10:00", "12:00")]) == [(at("10:00"), at("12:00"), False)]
    assert hold_intervals_of([a_hold("10:00", "12:00"), a_release("11:00", "12:00")]) == [
        (at("10:00"), at("11:00"), False)
    ]
    assert hold_intervals_of([a_hold("10:00", "12:00"), a_hold("11:00", "15:00", by="ben")]) == [
        (at("10:00"), at("11:00"), False),
        (at("11:00"), at("15:00"), False),
    ]


def test_a_hold_on_everything_is_one_beside_that_on_the_volume():
    entries = [for_all_volumes(a_hold("10:00", "12:00")), a_hold("11:00", "23:00")]
    assert hold_intervals_of(entries) == [(at("10:00"), at("12:00"), True), (at("11:00"), NOW, False)]


def test_a_hold_that_was_over_before_the_picture_is_not_in_it():
    assert hold_intervals_of([a_hold("07:00", "08:00")]) == []


def test_a_volume_taken_into_care_again_ends_no_hold():
    contested = an_entry(EntryKind.RELEASED, "11:00", by="ben", contested_at_s=int(at("09:00")))
    assert hold_intervals_of([a_hold("10:00", "12:00"), contested]) == [(at("10:00"), at("12:00"), False)]


def test_an_unreadable_state_that_is_given_up_ends_no_hold_and_has_its_mark():
    given_up = an_entry(EntryKind.RELEASED, "11:00", by="ben", gave_up='{"x', because="damaged")
    assert hold_intervals_of([a_hold("10:00", "12:00"), given_up]) == [(at("10:00"), at("12:00"), False)]
    assert [mark.text for mark in timeline_events([given_up])] == ["its unreadable state is discarded by ben"]


def test_a_stall_that_is_reported_again_is_one_stall():
    entries = [a_stall("10:00", 30, reported_at="10:01"), a_stall("10:00", 150, reported_at="10:03")]
    (run,) = stall_intervals(entries, None, START)
    assert (run.start_s, run.end_s, run.cause) == (at("10:00"), at("10:02:30"), "the bucket is empty")


def test_the_stall_that_the_state_remembers_is_shown_as_well():
    stall = Stall(
        instance_id="i-0123456789abcdef0", volume_id="vol-0123456789abcdef0", verdict="CRIT",
        cause="the bucket is empty", total_s=60, started_at_s=int(at("10:00")),
    )  # fmt: skip
    (run,) = stall_intervals([a_stall("10:00", 30)], a_state(stall=stall), START)
    assert run.end_s == at("10:01")
    assert stall_intervals([], a_state(stall=stall), at("11:00")) == []


def test_a_stall_whose_time_cannot_be_read_is_left_out():
    assert stall_intervals([an_entry(EntryKind.STALL, "10:00", started_at="yesterday")], None, START) == []


def event_texts(entries):
    return [(mark.letter, mark.text, mark.is_alerted) for mark in timeline_events(entries)]


def test_an_alert_is_not_a_timeline_event_but_marks_its_notification():
    entries = [
        a_level("10:00", "ok", "critical"),
        an_alert_entry("10:00", AlertKind.DRAINING, "critical"),
        a_round_trip()[0],
        an_alert_entry("10:00", AlertKind.FLIPPED, summary="is being modified to gp3"),
        a_flip_entry(EntryKind.REFUSED, "11:00", "is not moved to gp3: spend_cap"),
    ]
    assert event_texts(entries) == [
        ("C", "ok -> critical", True),
        ("F", "is being modified to gp3", True),
        ("X", "is not moved to gp3: spend cap", False),
    ]


def test_an_alert_without_other_trace_is_a_timeline_event():
    entries = [
        an_alert_entry("10:00", AlertKind.EXHAUSTED, "exhausted"),
        an_alert_entry("11:00", AlertKind.RECOVERED),
        an_alert_entry("12:00", AlertKind.TELEMETRY_GAP),
        an_alert_entry("13:00", AlertKind.WINDOW_MISSED, summary="is moved too late for nightly"),
        an_alert_entry("14:00", AlertKind.LEFT_ON_TARGET),
    ]
    assert event_texts(entries) == [
        ("E", "still exhausted", True),
        ("R", "recovered", True),
        ("?", "no data", True),
        ("A", "is moved too late for nightly", True),
        ("A", "LeftOnTarget", True),
    ]


def test_flip_steps_and_operator_and_host_actions_are_ordered_events():
    entries = [
        *a_round_trip(),
        a_hold("15:00", "16:00"),
        for_all_volumes(a_hold("15:30", "16:00")),
        a_release("15:45", "16:00"),
        a_stall("09:30", 12),
        an_entry(EntryKind.INTENT, "10:00", summary="will be modified to gp3"),
        an_entry(EntryKind.STUCK, "13:00", summary="is still optimizing"),
        a_level("16:00", "critical", "watch"),
    ]
    assert "".join(mark.letter for mark in timeline_events(entries)) == "SFT!BGHHL"
    assert event_texts(entries)[-3:] == [
        ("H", "held by anna: snapshot running", False),
        ("H", "everything is held by anna: snapshot running", False),
        ("L", "released by ben", False),
    ]


def test_each_kind_of_event_has_its_own_letter():
    assert set(EVENT_LETTERS) == set(TimelineEventKind)
    assert len(set(EVENT_LETTERS.values())) == len(TimelineEventKind)


def test_a_return_with_only_an_end_comes_from_that_end():
    [stay] = target_intervals([a_round_trip()[-1]])
    assert (start_and_end(stay), stay.target) == (("-", "-", "14:30", "14:30"), GP3)
