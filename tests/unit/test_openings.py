"""When a volume's windows were open: by schedule, by hand, and stopped."""

from datetime import timedelta

from burstctl.timeline.window_intervals import marks_in, openings
from burstwatch.core.ledger.flip_state import WindowMark
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.policy.policy import Policy
from conftest import at
from some_days import an_entry

NIGHTLY = {"cron": "0 10 * * *", "zone": "UTC", "duration": "2h"}
WINDOWS = Policy.from_mapping({"version": "1", "windows": {"nightly": NIGHTLY, "release": {}}}).windows
START, END = at("08:00"), at("20:00")
DAY_S = timedelta(days=1).total_seconds()


def started(clock: str, until: str | None = None, name: str = "release") -> WindowMark:
    until_s = None if until is None else int(at(until))
    return WindowMark(name=name, starts=True, by="anna", at_s=int(at(clock)), until_s=until_s)


def stopped(clock: str, name: str = "release") -> WindowMark:
    return WindowMark(name=name, starts=False, by="ben", at_s=int(at(clock)), until_s=int(at(clock)) + 1)


def opened(names, *marks, end=END):
    by_name: dict[str, list[WindowMark]] = {}
    for mark in marks:
        by_name.setdefault(mark.name, []).append(mark)
    found = openings(WINDOWS, names, by_name, START, end)
    return [(each.window, each.start_s, each.end_s, each.by_hand) for each in found]


def test_a_scheduled_window_is_open_at_each_of_its_times():
    two_days = opened({"nightly"}, end=END + DAY_S)
    assert two_days == [
        ("nightly", at("10:00"), at("12:00"), False),
        ("nightly", at("10:00") + DAY_S, at("12:00") + DAY_S, False),
    ]


def test_only_the_windows_asked_for_are_told():
    assert opened({"release"}) == []
    assert opened(set(), started("10:00", "11:00")) == []


def test_one_that_runs_when_the_picture_begins_or_ends_is_cut():
    found = openings(WINDOWS, {"nightly"}, {}, at("11:00"), at("11:30"))
    assert [(each.start_s, each.end_s) for each in found] == [(at("11:00"), at("11:30"))]


def test_one_started_by_hand_is_open_until_its_end_its_stop_or_the_end_of_the_picture():
    assert opened({"release"}, started("10:00", "11:00")) == [("release", at("10:00"), at("11:00"), True)]
    assert opened({"release"}, started("10:00"), stopped("11:00")) == [
        ("release", at("10:00"), at("11:00"), True)
    ]
    assert opened({"release"}, started("10:00")) == [("release", at("10:00"), END, True)]


def test_one_that_nobody_defined_can_be_started_by_hand():
    assert opened({"freeze"}, started("10:00", "11:00", "freeze")) == [
        ("freeze", at("10:00"), at("11:00"), True)
    ]


def test_a_scheduled_one_that_is_stopped_ends_then_and_does_not_open_if_it_had_not_begun():
    assert opened({"nightly"}, stopped("11:00", "nightly")) == [("nightly", at("10:00"), at("11:00"), False)]
    before = WindowMark(
        name="nightly", starts=False, by="ben", at_s=int(at("09:30")), until_s=int(at("10:00")) + 1
    )
    assert opened({"nightly"}, before) == []


def test_what_was_done_by_hand_is_read_from_the_ledger():
    entries = [
        an_entry(EntryKind.WINDOW, "10:00", subject="window release", starts=True, by="anna", until_s=None),
        an_entry(EntryKind.WINDOW, "11:00", subject="window release", starts=False, by="ben", until_s=5),
        an_entry(EntryKind.HELD, "11:30", subject="window release", by="cleo", until_s=7),
    ]
    assert marks_in(entries, "release") == [
        WindowMark(name="release", starts=True, by="anna", at_s=int(at("10:00"))),
        WindowMark(name="release", starts=False, by="ben", at_s=int(at("11:00")), until_s=5),
    ]


def test_one_started_by_hand_while_it_runs_ends_by_its_schedule_all_the_same():
    assert opened({"nightly"}, started("11:00", "11:30", name="nightly")) == [
        ("nightly", at("10:00"), at("12:00"), False),
        ("nightly", at("11:00"), at("11:30"), True),
    ]


def test_a_stop_that_came_after_it_was_over_changes_nothing():
    over = WindowMark(
        name="nightly", starts=False, by="ben", at_s=int(at("13:00")), until_s=int(at("13:00")) + 1
    )
    assert opened({"nightly"}, over) == [("nightly", at("10:00"), at("12:00"), False)]
    for clock in ("12:00", "09:00"):
        beside = WindowMark(
            name="nightly", starts=False, by="ben", at_s=int(at(clock)), until_s=int(at(clock)) + 1
        )
        assert opened({"nightly"}, beside) == [("nightly", at("10:00"), at("12:00"), False)]
