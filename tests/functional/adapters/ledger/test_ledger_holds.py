"""Holds and windows in the ledger: what people said by hand, kept until they say otherwise."""

from dataclasses import replace

import pytest

from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry

A, B = "vol-0a", "vol-0b"
NOW_S = 1000


def a_hold(volume_id=A, until_s=2000, reason="the release", placed_at_s=NOW_S):
    return Hold(volume_id=volume_id, by="ann", reason=reason, placed_at_s=placed_at_s, until_s=until_s)


def a_mark(name="release", **facts):
    return ManualWindowOverride(**({"name": name, "is_start": True, "by": "ann", "at_s": NOW_S} | facts))


def an_entry(subject, kind, at_s, **body):
    return LedgerEntry(volume_id=subject, revision=at_s, kind=kind, at_s=at_s, body=body)


# Holds


def test_a_new_ledger_holds_nothing(ledger):
    assert ledger.holds(NOW_S) == []
    assert ledger.manual_overrides() == {}


def test_holds_are_kept_after_reopening_the_one_that_lasts_longest_first(ledger, second_ledger):
    short, long, everything = a_hold(A, 2000), a_hold(B, 4000), a_hold(None, 3000)
    for hold in (short, long, everything):
        ledger.place_hold(hold)
    assert second_ledger.holds(NOW_S) == [long, everything, short]


def test_of_two_holds_that_end_together_that_on_everything_comes_first(ledger):
    for subject in (A, None):
        ledger.place_hold(a_hold(subject))
    assert ledger.holds(NOW_S) == [a_hold(None), a_hold(A)]


def test_a_hold_lasts_until_its_end_and_not_at_it(ledger):
    ledger.place_hold(a_hold(until_s=2000))
    assert ledger.holds(1999.9) == [a_hold(until_s=2000)]
    assert ledger.holds(2000) == []


def test_a_new_hold_on_the_same_takes_the_place_of_the_old_one_also_when_it_is_shorter(ledger, second_ledger):
    for subject in (A, None):
        ledger.place_hold(a_hold(subject, 5000))
        second_ledger.place_hold(a_hold(subject, 2000, "shorter"))
    assert ledger.holds(NOW_S) == [a_hold(None, 2000, "shorter"), a_hold(A, 2000, "shorter")]


@pytest.mark.parametrize(("subject", "remaining"), [(A, [B, None]), (None, [A, B])])
def test_a_hold_that_is_lifted_is_named_and_the_others_stay(ledger, second_ledger, subject, remaining):
    for item in (A, B, None):
        ledger.place_hold(a_hold(item))
    assert second_ledger.lift_hold(subject, by="bob", at_s=1500) == a_hold(subject)
    assert sorted(map(str, (hold.volume_id for hold in ledger.holds(NOW_S)))) == sorted(map(str, remaining))
    assert ledger.lift_hold(subject, by="bob", at_s=1501) is None


def test_to_lift_a_hold_that_is_not_there_leaves_no_trace(home, ledger):
    ledger.place_hold(a_hold(B))
    before = home.dump()
    assert ledger.lift_hold(A, by="bob", at_s=1500) is None
    assert ledger.lift_hold(None, by="bob", at_s=1500) is None
    assert home.dump() == before


def test_a_hold_that_has_ended_by_itself_is_not_lifted_again(ledger):
    ledger.place_hold(a_hold(until_s=2000))
    assert ledger.lift_hold(A, by="bob", at_s=2000) is None
    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.HELD]


def test_a_fast_clock_can_still_end_the_hold(ledger):
    """Bob's clock says that the hold has ended; for the watchdog it has not."""
    ledger.place_hold(a_hold(until_s=2000))
    ledger.lift_hold(A, by="bob", at_s=2001)
    assert ledger.holds(1990) == []


@pytest.mark.parametrize(("volume_id", "subject"), [(A, A), (None, "*")])
def test_the_history_shows_who_held_and_who_released(ledger, volume_id, subject):
    ledger.place_hold(a_hold(volume_id))
    ledger.lift_hold(volume_id, by="bob", at_s=1500)
    assert ledger.entries(subject) == [
        an_entry(subject, EntryKind.HELD, 1000, by="ann", reason="the release", until_s=2000),
        an_entry(subject, EntryKind.RELEASED, 1500, by="bob", reason="the release", until_s=2000),
    ]


def test_the_history_of_a_volume_is_not_that_of_everything(ledger):
    ledger.place_hold(a_hold(None))
    ledger.place_hold(a_hold(A))
    assert [len(ledger.entries(subject)) for subject in (A, B, "*")] == [1, 0, 1]


def test_several_holds_and_releases_in_one_second_are_all_recorded(ledger, second_ledger):
    for reason in ("one", "two", "two"):
        ledger.place_hold(a_hold(reason=reason))
        second_ledger.lift_hold(A, by="bob", at_s=NOW_S)
    assert [(entry.kind, entry.body["reason"]) for entry in ledger.entries(A)] == [
        (EntryKind.HELD, "one"),
        (EntryKind.RELEASED, "one"),
        (EntryKind.HELD, "two"),
        (EntryKind.RELEASED, "two"),
        (EntryKind.HELD, "two"),
        (EntryKind.RELEASED, "two"),
    ]


# Windows


def test_the_latest_mark_per_window_counts_after_reopening(ledger, second_ledger):
    """The later entry counts even if its clock was behind."""
    started, stopped = a_mark(until_s=5000), a_mark(is_start=False, by="bob", at_s=900, until_s=6000)
    for mark in (started, a_mark("night"), stopped):
        ledger.record_manual_override(mark)
    marks = second_ledger.manual_overrides()
    assert marks == {"night": a_mark("night"), "release": stopped}
    assert marks["release"].is_start is False


def test_the_history_of_a_window_shows_who_started_and_who_stopped_it(ledger):
    for mark in (a_mark(until_s=5000), a_mark(is_start=False, by="bob"), a_mark("night", at_s=900)):
        ledger.record_manual_override(mark)
    assert ledger.entries("window release") == [
        an_entry("window release", EntryKind.WINDOW, NOW_S, starts=True, by="ann", until_s=5000),
        an_entry("window release", EntryKind.WINDOW, NOW_S, starts=False, by="bob", until_s=None),
    ]
    assert ledger.entries("window night") == [
        an_entry("window night", EntryKind.WINDOW, 900, starts=True, by="ann", until_s=None)
    ]


def test_words_of_any_script_are_kept(ledger):
    hold, mark = replace(a_hold(), reason="Wartung läuft 中"), a_mark("nächtlich: 中")
    ledger.place_hold(hold)
    ledger.record_manual_override(mark)
    assert ledger.holds(NOW_S) == [hold]
    assert ledger.manual_overrides() == {mark.name: mark}
    assert ledger.entries(A)[0].body["reason"] == hold.reason
