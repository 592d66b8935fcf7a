from datetime import timedelta

import pytest

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import WindowPhase, parse_windows
from burstwatch.core.watch.window_status import WindowSchedule, announce_windows
from support.builders.core_values import a_volume, a_window_state, at

LOCATION = AwsLocation(region="eu-west-1", account="123456789012")
TAGGED = {"burstwatch:window": "release"}
CALENDAR = {
    "release": {"from": "2026-11-20T12:30Z", "to": "2026-11-20T14:00Z"},
    "nightly": {"cron": "0 22 * * *", "zone": "UTC", "duration": "8h", "where": "tag:team=ci"},
    "large": {"from": "2026-11-20T12:30Z", "to": "2026-11-20T14:00Z", "size_gib": "500-999"},
    "drill": {},
}


def a_policy(**windows) -> Policy:
    parsed, faults = parse_windows(windows or CALENDAR)
    assert not faults
    return Policy(windows=parsed)


def an_outlook(now, *marks, policy=None) -> WindowSchedule:
    return WindowSchedule.at(at(now), policy or a_policy(), marks)


def started(name="release", clock="09:00", until=None) -> ManualWindowOverride:
    return ManualWindowOverride(
        name=name,
        is_start=True,
        by="ann",
        at_s=int(at(clock)),
        until_s=None if until is None else int(at(until)),
    )


def a_window_stop(name="release", clock="09:00", until="12:30:01") -> ManualWindowOverride:
    return ManualWindowOverride(
        name=name, is_start=False, by="ann", at_s=int(at(clock)), until_s=int(at(until))
    )


def phase_of(volume, now, *marks):
    state = an_outlook(now, *marks).status_for(volume)
    return state and state.phase


# what the windows ask of a volume


def test_a_window_of_which_the_mark_cannot_be_read_moves_no_volume_out_or_back():
    unknown = ManualWindowOverride(name="release", is_start=False, by="burstwatch", at_s=0, is_readable=False)
    for now in ("09:00", "13:00", "20:00"):
        state = an_outlook(now, unknown).status_for(a_volume(tags=TAGGED))
        assert (state.wants_flip, state.allows_return) == (False, False)


@pytest.mark.parametrize(
    ("volume", "phase"),
    [
        ({}, None),
        ({"tags": {"Name": "ci-7"}}, None),
        ({"tags": TAGGED}, WindowPhase.INSIDE),
        ({"tags": {"burstwatch:window": "nightly release"}}, WindowPhase.INSIDE),
        ({"tags": {"team": "ci"}}, WindowPhase.OUTSIDE),
        ({"size_gib": 500}, WindowPhase.INSIDE),
        # A name that no one has defined: it belongs to a window that never comes.
        ({"tags": {"burstwatch:window": "relaese"}}, WindowPhase.OUTSIDE),
    ],
)
def test_a_volume_gets_the_requests_of_the_windows_of_its_tags_and_selectors(volume, phase):
    assert phase_of(a_volume(**volume), "13:00") == phase


@pytest.mark.parametrize(
    ("now", "size_gib", "phase"),
    [
        # 30 min + 6 h x 100 / 1,024 = 65 min 9.4 s before half past twelve: 11:24:50.6.
        ("11:24:50", 100, WindowPhase.OUTSIDE),
        ("11:24:51", 100, WindowPhase.LEADING),
        # 999 GiB: 30 min + 5 h 51 min 12 s: 06:08:48.
        ("06:08:47", 999, WindowPhase.OUTSIDE),
        ("06:08:48", 999, WindowPhase.LEADING),
        ("12:29:59", 100, WindowPhase.LEADING),
        ("12:30", 100, WindowPhase.INSIDE),
        ("13:59:59", 100, WindowPhase.INSIDE),
        # For the reserve of 15 min it has just ended.
        ("14:00", 100, WindowPhase.OVER),
        ("14:14:59", 100, WindowPhase.OVER),
        ("14:15", 100, WindowPhase.OUTSIDE),
    ],
)
def test_the_lead_grows_with_the_size(now, size_gib, phase):
    assert phase_of(a_volume(size_gib, tags=TAGGED), now) == phase


def test_a_flip_that_begins_at_the_start_is_late_by_what_it_takes():
    # 15 min + 6 h x 100 / 1,024 = 3,009.375 s.
    state = an_outlook("12:30").status_for(a_volume(tags=TAGGED))
    assert state.missed_by == timedelta(seconds=3_009.375)
    assert an_outlook("11:30").status_for(a_volume(tags=TAGGED)).missed_by is None


# by hand


@pytest.mark.parametrize(
    ("name", "mark", "now", "phase"),
    [
        ("drill", None, "10:00", WindowPhase.OUTSIDE),
        ("drill", started("drill"), "10:00", WindowPhase.INSIDE),
        ("drill", started("drill", until="10:00:01"), "10:00", WindowPhase.INSIDE),
        ("drill", started("drill", until="10:00"), "10:00", WindowPhase.OVER),
        ("drill", started("release"), "10:00", WindowPhase.OUTSIDE),
        # also one that the policy does not know
        ("adhoc", started("adhoc"), "10:00", WindowPhase.INSIDE),
        # until it is stopped: the stop is the last word on it
        ("drill", a_window_stop("drill", until="10:00"), "10:00", WindowPhase.OUTSIDE),
    ],
)
def test_a_window_started_by_hand_runs_until_its_end_or_until_it_is_stopped(name, mark, now, phase):
    marks = [mark] if mark else []
    assert phase_of(a_volume(tags={"burstwatch:window": name}), now, *marks) == phase


@pytest.mark.parametrize(
    ("mark", "now", "phase"),
    [
        # What began before the instant is as if it had never been, what begins later still happens.
        (a_window_stop(until="12:30:01"), "10:00", WindowPhase.OUTSIDE),
        (a_window_stop(until="12:30:01"), "12:00", WindowPhase.OUTSIDE),
        (a_window_stop(until="12:30:01"), "13:00", WindowPhase.OUTSIDE),
        (a_window_stop(until="12:30"), "13:00", WindowPhase.INSIDE),
        (a_window_stop("nightly", until="12:30:01"), "13:00", WindowPhase.INSIDE),
    ],
)
def test_a_stopped_window_leaves_out_what_began_before(mark, now, phase):
    assert phase_of(a_volume(tags=TAGGED), now, mark) == phase


def test_an_occurrence_started_by_hand_is_reported_as_such():
    state = an_outlook("13:00", started("drill")).status_for(
        a_volume(tags={"burstwatch:window": "drill, release"})
    )
    assert [(item.window, item.is_manual) for item in state.running] == [("drill", True), ("release", False)]


# once for all volumes alike


def test_volumes_of_the_same_windows_and_size_share_one_answer():
    outlook = an_outlook("13:00")
    first = outlook.status_for(a_volume(tags=TAGGED))
    assert outlook.status_for(a_volume(volume_id="vol-0b2", tags=TAGGED | {"Name": "b"})) is first
    assert outlook.status_for(a_volume(101, tags=TAGGED)) is not first
    assert outlook.status_for(a_volume(tags={"team": "ci"})) is not first


def test_a_later_schedule_is_computed_again():
    assert an_outlook("13:00").status_for(a_volume(tags=TAGGED)) != an_outlook("14:30").status_for(
        a_volume(tags=TAGGED)
    )


# notifying people that a window starts


def window_alerts(wanted, now="12:00"):
    return announce_windows(wanted, policy=Policy(), location=LOCATION, now_s=at(now))


LEADING = a_window_state(WindowPhase.LEADING, "12:30", "14:00")
RUNNING = a_window_state(WindowPhase.INSIDE, "12:30", "14:00")


def test_a_start_is_reported_with_its_volumes_its_end_and_where():
    [change] = window_alerts({"vol-2": LEADING, "vol-1": LEADING})
    [alert] = change.alerts
    assert (alert.kind, alert.volume_id) == (AlertKind.WINDOW_STARTING, None)
    assert alert.evidence["volumes"] == ["vol-1", "vol-2"]
    assert alert.evidence["window"] == "release"
    reported = " ".join((alert.evidence["summary"], *alert.evidence["details"]))
    for phrase in ("release", "in 30 min (12:30 UTC)", "until 14:00 UTC", "2 volumes", "vol-1, vol-2"):
        assert phrase in reported
    assert alert.action == "burstctl window list --region eu-west-1"
    assert change.state is None


def test_a_single_volume_is_reported_as_one():
    [change] = window_alerts({"vol-1": LEADING})
    assert "1 volume " in change.alerts[0].evidence["summary"]


def test_of_many_volumes_ten_are_named_and_all_counted():
    ids = [f"vol-{number:04}" for number in range(1_234)]
    [change] = window_alerts(dict.fromkeys(ids, LEADING))
    evidence = change.alerts[0].evidence
    reported = " ".join(evidence["details"])
    assert "1,234 volumes" in evidence["summary"]
    assert "vol-0009 and 1,224 more" in reported
    assert "vol-0010" not in reported


@pytest.mark.parametrize(("count", "named"), [(10, "vol-009."), (11, "vol-009 and 1 more.")])
def test_the_eleventh_volume_is_the_first_that_is_only_counted(count, named):
    [change] = window_alerts({f"vol-{number:03}": LEADING for number in range(count)})
    [detail] = [line for line in change.alerts[0].evidence["details"] if line.startswith("Due now: ")]
    assert detail.endswith(named)


def test_a_hundred_volumes_are_listed_for_programs():
    [change] = window_alerts({f"vol-{number:03}": LEADING for number in range(101)})
    evidence = change.alerts[0].evidence
    assert (len(evidence["volumes"]), evidence["volume_count"]) == (100, 101)


def test_those_that_still_have_time_are_reported_with_the_first_that_have_none():
    waiting = a_window_state(WindowPhase.OUTSIDE, "12:30", "14:00")
    assert window_alerts({"vol-2": waiting}) == []
    [change] = window_alerts({"vol-1": LEADING, "vol-2": waiting})
    assert "Due now: vol-1; 1 more, smaller or less urgent, follow." in change.alerts[0].evidence["details"]


def test_every_window_and_every_start_is_reported_on_its_own():
    other_window = a_window_state(WindowPhase.LEADING, "12:30", "15:00", window="drill")
    later = a_window_state(WindowPhase.LEADING, "18:30", "19:00")
    changes = window_alerts({"vol-1": LEADING, "vol-2": other_window, "vol-3": later, "vol-4": RUNNING})
    reported = {
        (alert.evidence["window"], alert.evidence["starts_at"]): alert.evidence["volumes"]
        for change in changes
        for alert in change.alerts
    }
    assert reported == {
        ("release", "2026-11-20T12:30:00Z"): ["vol-1", "vol-4"],
        ("drill", "2026-11-20T12:30:00Z"): ["vol-2"],
        ("release", "2026-11-20T18:30:00Z"): ["vol-3"],
    }
    assert len({alert.alert_id for change in changes for alert in change.alerts}) == 3


def test_nothing_is_reported_where_no_window_requests_anything():
    assert window_alerts({}) == []


def test_a_start_is_reported_once_however_many_passes_see_it():
    with SqliteLedger.in_memory() as ledger:

        def look(now, wanted):
            ledger.commit(window_alerts(wanted, now), channels=["mail"])

        look("11:25", {"vol-1": LEADING})
        look("11:30", {"vol-1": LEADING, "vol-2": LEADING})
        look("12:35", {"vol-2": RUNNING})
        assert [
            waiting.alert.evidence["volumes"] for waiting in ledger.pending_deliveries(channels=["mail"])
        ] == [["vol-1"]]
        look("18:00", {"vol-1": a_window_state(WindowPhase.LEADING, "18:30", "19:00")})
        assert len(ledger.pending_deliveries(channels=["mail"])) == 2
        reported = ledger.entries("window release")
        assert [(entry.kind, entry.at_s) for entry in reported] == [
            (EntryKind.ALERT, at("11:25")),
            (EntryKind.ALERT, at("18:00")),
        ]


def test_a_window_started_by_hand_again_is_reported_again():
    with SqliteLedger.in_memory() as ledger:
        for clock in ("09:00", "11:00"):
            drill = an_outlook("13:00", started("drill", clock)).status_for(
                a_volume(tags={"burstwatch:window": "drill"})
            )
            ledger.commit(window_alerts({"vol-1": drill}, "13:00"), channels=["mail"])
        assert len(ledger.pending_deliveries(channels=["mail"])) == 2
        alert = ledger.pending_deliveries(channels=["mail"])[0].alert
        assert alert.evidence["ends_at"] is None
        assert alert.evidence["starts_at"] == "2026-11-20T09:00:00Z"
