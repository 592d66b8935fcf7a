"""When a volume's windows were open: by schedule, by hand, and stopped."""

from datetime import timedelta

from burstctl.timeline.window_intervals import manual_overrides, window_intervals
from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import at
from support.builders.history import an_entry

NIGHTLY = {"cron": "0 10 * * *", "zone": "UTC", "duration": "2h"}
WINDOWS = Policy.from_mapping({"version": "1", "windows": {"nightly": NIGHTLY, "release": {}}}).windows
START, END = at("08:00"), at("20:00")
DAY_S = timedelta(days=1).total_seconds()


def a_window_start(clock: str, until: str | None = None, name: str = "release") -> ManualWindowOverride:
    until_s = None if until is None else int(at(until))
    return ManualWindowOverride(name=name, is_start=True, by="anna", at_s=int(at(clock)), until_s=until_s)


def a_window_stop(clock: str, name: str = "release") -> ManualWindowOverride:
    return ManualWindowOverride(
        name=name, is_start=False, by="ben", at_s=int(at(clock)), until_s=int(at(clock)) + 1
    )


def open_intervals(names, *marks, end=END):
    by_name: dict[str, list[ManualWindowOverride]] = {}
    for mark in marks:
        by_name.setdefault(mark.name, []).append(mark)
    result = window_intervals(WINDOWS, names, by_name, START, end)
    return [(finding.window, finding.start_s, finding.end_s, finding.is_manual) for finding in result]


def test_a_scheduled_window_is_open_at_each_of_its_times():
    two_days = open_intervals({"nightly"}, end=END + DAY_S)
    assert two_days == [
        ("nightly", at("10:00"), at("12:00"), False),
        ("nightly", at("10:00") + DAY_S, at("12:00") + DAY_S, False),
    ]


def test_only_the_windows_requested_are_reported():
    assert open_intervals({"release"}) == []
    assert open_intervals(set(), a_window_start("10:00", "11:00")) == []


def test_a_window_running_at_the_edge_of_the_chart_is_cut():
    result = window_intervals(WINDOWS, {"nightly"}, {}, at("11:00"), at("11:30"))
    assert [(finding.start_s, finding.end_s) for finding in result] == [(at("11:00"), at("11:30"))]


def test_a_manual_start_is_open_until_its_end_stop_or_the_chart_end():
    assert open_intervals({"release"}, a_window_start("10:00", "11:00")) == [
        ("release", at("10:00"), at("11:00"), True)
    ]
    assert open_intervals({"release"}, a_window_start("10:00"), a_window_stop("11:00")) == [
        ("release", at("10:00"), at("11:00"), True)
    ]
    assert open_intervals({"release"}, a_window_start("10:00")) == [("release", at("10:00"), END, True)]


def test_an_undefined_window_can_be_started_by_hand():
    assert open_intervals({"freeze"}, a_window_start("10:00", "11:00", "freeze")) == [
        ("freeze", at("10:00"), at("11:00"), True)
    ]


def test_a_stopped_scheduled_window_ends_or_never_opens():
    assert open_intervals({"nightly"}, a_window_stop("11:00", "nightly")) == [
        ("nightly", at("10:00"), at("11:00"), False)
    ]
    before = ManualWindowOverride(
        name="nightly", is_start=False, by="ben", at_s=int(at("09:30")), until_s=int(at("10:00")) + 1
    )
    assert open_intervals({"nightly"}, before) == []


def test_what_was_done_by_hand_is_read_from_the_ledger():
    entries = [
        an_entry(EntryKind.WINDOW, "10:00", subject="window release", starts=True, by="anna", until_s=None),
        an_entry(EntryKind.WINDOW, "11:00", subject="window release", starts=False, by="ben", until_s=5),
        an_entry(EntryKind.HELD, "11:30", subject="window release", by="cleo", until_s=7),
    ]
    assert manual_overrides(entries, "release") == [
        ManualWindowOverride(name="release", is_start=True, by="anna", at_s=int(at("10:00"))),
        ManualWindowOverride(name="release", is_start=False, by="ben", at_s=int(at("11:00")), until_s=5),
    ]


def test_a_manual_start_during_a_scheduled_window_ends_by_schedule():
    assert open_intervals({"nightly"}, a_window_start("11:00", "11:30", name="nightly")) == [
        ("nightly", at("10:00"), at("12:00"), False),
        ("nightly", at("11:00"), at("11:30"), True),
    ]


def test_a_stop_that_came_after_it_was_over_changes_nothing():
    over = ManualWindowOverride(
        name="nightly", is_start=False, by="ben", at_s=int(at("13:00")), until_s=int(at("13:00")) + 1
    )
    assert open_intervals({"nightly"}, over) == [("nightly", at("10:00"), at("12:00"), False)]
    for clock in ("12:00", "09:00"):
        beside = ManualWindowOverride(
            name="nightly", is_start=False, by="ben", at_s=int(at(clock)), until_s=int(at(clock)) + 1
        )
        assert open_intervals({"nightly"}, beside) == [("nightly", at("10:00"), at("12:00"), False)]
