from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from burstwatch.core.policy.windows import (
    UNTIL_STOPPED,
    LeadPolicy,
    TimeInterval,
    Window,
    WindowPhase,
    WindowState,
    expected_flip_duration,
    flip_lead,
    manual_stop_at,
    occurrences,
    parse_windows,
    to_mapping,
    volumes_in_window,
    window_names_in_tags,
    window_names_of,
    window_state,
)
from support.builders.core_values import a_volume
from support.lab.window_occurrences import next_occurrence, occurrence_at

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
RECURRING = {"cron": "0 22 * * *", "zone": "UTC", "duration": "8h"}
DATED = {"from": "2026-11-20T18:00Z", "to": "2026-11-21T06:00Z"}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_window(name: str = "w", **settings: str) -> Window:
    """A window read from settings as the policy has them; ``from_`` is ``from``."""
    windows, faults = parse_windows({name: {key.rstrip("_"): text for key, text in settings.items()}})
    assert not faults, faults
    return windows[0]


def recurring(cron: str, *, zone: str = "UTC", duration: str = "1h", name: str = "w") -> Window:
    return a_window(name, cron=cron, zone=zone, duration=duration)


def faults_of(**settings: str) -> dict[str, str]:
    """The faults of one window ``w``, by what follows ``windows.w`` in their paths."""
    windows, faults = parse_windows({"w": {key.rstrip("_"): text for key, text in settings.items()}})
    assert bool(windows) is not bool(faults)
    assert len(faults) == len({fault.path for fault in faults}), "one fault a path"
    return {fault.path.removeprefix("windows.w").removeprefix("."): fault.message for fault in faults}


# daylight saving, worked by hand.
# Berlin: forward, 02:00 -> 03:00, at 01:00Z on 29 March 2026 and 28 March 2027;
#         back, 03:00 -> 02:00, at 01:00Z on 25 October 2026 and 31 October 2027.
# New York: forward, 02:00 -> 03:00, at 07:00Z on 8 March 2026 and 14 March 2027;
#         back, 02:00 -> 01:00, at 06:00Z on 1 November 2026 and 7 November 2027


@pytest.mark.parametrize(
    ("zone", "cron", "duration", "since", "start", "end"),
    [
        # +1 in winter, +2 in summer; 8 h from 22:00 are 07:00 on the clocks in spring, 05:00 in autumn
        (BERLIN, "0 22 * * sat", "8h", "2026-03-28T12:00", "2026-03-28T21:00", "2026-03-29T05:00"),
        (BERLIN, "0 22 * * sat", "8h", "2026-10-24T12:00", "2026-10-24T20:00", "2026-10-25T04:00"),
        (BERLIN, "0 22 * * sat", "8h", "2027-03-27T12:00", "2027-03-27T21:00", "2027-03-28T05:00"),
        (BERLIN, "0 22 * * sat", "8h", "2027-10-30T12:00", "2027-10-30T20:00", "2027-10-31T04:00"),
        # 02:30 is skipped: 03:00, the first valid instant, is 01:00Z
        (BERLIN, "30 2 * * *", "1h", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-29T02:00"),
        (BERLIN, "0 2 * * *", "1h", "2027-03-27T12:00", "2027-03-28T01:00", "2027-03-28T02:00"),
        (BERLIN, "59 2 * * *", "1h", "2027-03-27T12:00", "2027-03-28T01:00", "2027-03-28T02:00"),
        (BERLIN, "0 3 * * *", "1h", "2027-03-27T12:00", "2027-03-28T01:00", "2027-03-28T02:00"),
        (BERLIN, "59 1 * * *", "1h", "2027-03-27T12:00", "2027-03-28T00:59", "2027-03-28T01:59"),
        # 02:30 comes twice, at +2 and at +1: the first is 00:30Z
        (BERLIN, "30 2 * * *", "1h", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-25T01:30"),
        (BERLIN, "0 2 * * *", "3h", "2027-10-30T12:00", "2027-10-31T00:00", "2027-10-31T03:00"),
        # and 03:00 only once, at +1
        (BERLIN, "0 3 * * *", "1h", "2027-10-30T12:00", "2027-10-31T02:00", "2027-10-31T03:00"),
        # New York: -5 in winter, -4 in summer
        (NEW_YORK, "30 2 * * *", "2h", "2026-03-07T12:00", "2026-03-08T07:00", "2026-03-08T09:00"),
        (NEW_YORK, "30 2 * * *", "2h", "2027-03-13T12:00", "2027-03-14T07:00", "2027-03-14T09:00"),
        (NEW_YORK, "30 1 * * *", "2h", "2026-10-31T12:00", "2026-11-01T05:30", "2026-11-01T07:30"),
        (NEW_YORK, "30 1 * * *", "2h", "2027-11-06T12:00", "2027-11-07T05:30", "2027-11-07T07:30"),
        (NEW_YORK, "0 20 * * fri", "60h", "2026-10-30T12:00", "2026-10-31T00:00", "2026-11-02T12:00"),
    ],
)
def test_daylight_saving_moves_a_start_and_never_changes_the_time_that_passes(
    zone, cron, duration, since, start, end
):
    window = recurring(cron, zone=zone, duration=duration)
    assert next_occurrence(window, utc(since)) == TimeInterval(utc(start), utc(end))


def test_a_start_in_the_doubled_hour_happens_once():
    window = recurring("30 2 * * *", zone=BERLIN)
    # 01:30Z shows 02:30 for the second time
    assert occurrence_at(window, utc("2026-10-25T01:29")) == TimeInterval(
        utc("2026-10-25T00:30"), utc("2026-10-25T01:30")
    )
    assert occurrence_at(window, utc("2026-10-25T01:30")) is None
    assert next_occurrence(window, utc("2026-10-25T01:00")).start_at == utc("2026-10-26T01:30")


def test_several_starts_in_the_skipped_hour_are_one():
    window = recurring("0,20,40 2 * * *", zone=BERLIN, duration="20m")
    spans = list(islice(occurrences(window, utc("2026-03-29T00:00")), 2))
    assert spans[0] == TimeInterval(utc("2026-03-29T01:00"), utc("2026-03-29T01:20"))
    assert spans[1].start_at == utc("2026-03-30T00:00")


def test_when_the_skipped_hour_brings_starts_together_the_first_ends_as_the_second_begins():
    # 02:30 happens at 03:00 (01:00Z), 03:30 is 01:30Z: of the first hour 30 minutes are left
    window = recurring("30 2,3 * * *", zone=BERLIN)
    assert list(islice(occurrences(window, utc("2026-03-29T00:00")), 2)) == [
        TimeInterval(utc("2026-03-29T01:00"), utc("2026-03-29T01:30")),
        TimeInterval(utc("2026-03-29T01:30"), utc("2026-03-29T02:30")),
    ]


def test_a_day_that_a_zone_skipped_altogether_gives_no_start_of_its_own():
    # Samoa went from 29 to 31 December 2011 at 10:00Z
    window = recurring("0 0 * * *", zone="Pacific/Apia")
    result = [span.start_at for span in islice(occurrences(window, utc("2011-12-29T10:00")), 3)]
    assert result == [utc("2011-12-29T10:00"), utc("2011-12-30T10:00"), utc("2011-12-31T10:00")]


# occurrences


def test_an_occurrence_begins_at_its_start_and_is_over_at_its_end():
    window = recurring("0 22 * * *", duration="8h")
    span = TimeInterval(utc("2026-05-01T22:00"), utc("2026-05-02T06:00"))
    assert occurrence_at(window, span.start_at - timedelta.resolution) is None
    assert occurrence_at(window, span.start_at) == span
    assert occurrence_at(window, span.end_at - timedelta.resolution) == span
    assert occurrence_at(window, span.end_at) is None
    assert next_occurrence(window, span.start_at - timedelta.resolution) == span
    assert next_occurrence(window, span.start_at).start_at == utc("2026-05-02T22:00")


def test_back_to_back_occurrences_follow_each_other_without_a_gap():
    window = recurring("0 * * * *")
    assert occurrence_at(window, utc("2026-05-01T00:59")).end_at == utc("2026-05-01T01:00")
    assert occurrence_at(window, utc("2026-05-01T01:00")).start_at == utc("2026-05-01T01:00")


def test_a_dated_window_happens_once():
    window = a_window(from_="2026-11-20T18:00Z", to="2026-11-21T06:00Z")
    span = TimeInterval(utc("2026-11-20T18:00"), utc("2026-11-21T06:00"))
    assert next_occurrence(window, utc("2026-01-01T00:00")) == span
    assert occurrence_at(window, utc("2026-11-21T05:59")) == span
    assert occurrence_at(window, utc("2026-11-21T06:00")) is None
    assert next_occurrence(window, span.start_at) is None


@pytest.mark.parametrize(
    ("settings", "start", "end"),
    [
        ({"from": "2026-11-20T18:00", "to": "2026-11-21T06:00", "zone": BERLIN}, "20T17:00", "21T05:00"),
        (
            {"from": "2026-11-20 18:00:30", "to": "2026-11-21T06:00Z", "zone": BERLIN},
            "20T17:00:30",
            "21T06:00",
        ),
        ({"from": "2026-11-20T18:00+05:30", "to": "2026-11-21T06:00-05:00"}, "20T12:30", "21T11:00"),
    ],
)
def test_dates_are_local_to_the_zone_or_carry_an_offset(settings, start, end):
    windows, faults = parse_windows({"w": settings})
    assert not faults
    assert windows[0].schedule == TimeInterval(utc(f"2026-11-{start}"), utc(f"2026-11-{end}"))


def test_a_dated_window_between_clock_changes_ends_at_the_first_valid_instant():
    window = a_window(from_="2026-10-25T02:30", to="2027-03-28T02:30", zone=BERLIN)
    assert window.schedule == TimeInterval(utc("2026-10-25T00:30"), utc("2027-03-28T01:00"))


def test_a_window_without_a_schedule_never_happens_by_itself():
    window = a_window()
    assert occurrence_at(window, utc("2026-05-01T00:00")) is None
    assert next_occurrence(window, utc("2026-05-01T00:00")) is None


def test_a_span_that_does_not_end_after_its_start_cannot_exist():
    with pytest.raises(ValueError, match="not after its start"):
        TimeInterval(utc("2026-05-01T00:00"), utc("2026-05-01T00:00"))


# reading


@pytest.mark.parametrize(
    ("settings", "faults"),
    [
        (RECURRING | {"zone": "Mars/Base"}, {"zone": "'Mars/Base' is not a known time zone"}),
        (RECURRING | {"zone": "Europe"}, {"zone": "'Europe' is not a known time zone"}),
        (RECURRING | {"zone": ""}, {"zone": "'' is not a known time zone"}),
        (RECURRING | {"zone": "../UTC"}, {"zone": "is not a known time zone"}),
        (RECURRING | {"zone": "/etc/passwd"}, {"zone": "is not a known time zone"}),
        (
            RECURRING | {"duration": "0m"},
            {"duration": "'0m' must be from 1m to 28d; for longer write from and to"},
        ),
        (RECURRING | {"duration": "59s"}, {"duration": "'59s' must be from 1m to 28d"}),
        (RECURRING | {"duration": "29d"}, {"duration": "'29d' must be from 1m to 28d"}),
        (RECURRING | {"duration": "8"}, {"duration": "'8' is not a valid duration"}),
        (
            RECURRING | {"duration": "25h"},
            {"duration": "'25h' is longer than the 1d from one start to the next: the window"},
        ),
        ({"cron": "0 22 * * *"}, {"zone": "is missing", "duration": "is missing"}),
        ({"duration": "8h"}, {"zone": "is missing", "cron": "is missing"}),
        (
            RECURRING | DATED,
            {"": "is both recurring (cron, duration) and dated (from, to); keep one of them"},
        ),
        ({"from": "2026-11-20T18:00Z"}, {"to": "is missing"}),
        ({"to": "2026-11-20T18:00Z"}, {"from": "is missing"}),
        (DATED | {"to": "2026-11-20T18:00Z"}, {"to": "must be after from (2026-11-20T18:00:00+00:00)"}),
        (DATED | {"to": "2026-11-19T18:00Z"}, {"to": "must be after from"}),
        (DATED | {"to": "2027-11-21T18:01Z"}, {"to": "by at most 366d"}),
        (
            DATED | {"from": "2026-11-20T18:00"},
            {"from": "'2026-11-20T18:00' has no time zone; add the setting zone"},
        ),
        (DATED | {"from": "2026-11-31T18:00Z"}, {"from": "'2026-11-31T18:00Z' is not a valid time"}),
        (DATED | {"from": "2026-11-20"}, {"from": "is not a valid time"}),
        (DATED | {"from": "22:00"}, {"from": "is not a valid time"}),
        (DATED | {"from": "0001-01-01T00:00+10:00"}, {"from": "is not a valid time"}),
        (
            {"from": "2026-11-20T18:00", "to": "2026-11-21T18:00", "zone": "X"},
            {"zone": "is not a known time zone"},
        ),
        ({"zone": "UTC"}, {"zone": "has nothing to apply to; add cron and duration, or from and to"}),
        ({"where": "Role=etcd"}, {"where": "'Role=etcd' selects nothing; write tag:KEY=VALUE or tag:KEY"}),
        ({"where": "tag:Role=etcd,"}, {"where": "'' selects nothing"}),
        ({"where": "tag:"}, {"where": "'tag:' selects nothing"}),
        ({"where": "tag:=x"}, {"where": "'tag:=x' selects nothing"}),
        ({"where": "a sequence"}, {"where": "'a sequence' selects nothing"}),
        ({"size_gib": "500-100"}, {"size_gib": "'500-100' is not a valid range of sizes"}),
        ({"size_gib": "100"}, {"size_gib": "'100' is not a valid range of sizes"}),
        (
            {"types": "gp2"},
            {"types": "unknown key; known here: cron, duration, from, to, zone, where, size_gib"},
        ),
    ],
)
def test_a_fault_is_reported_at_its_path(settings, faults):
    result = faults_of(**settings)
    assert result.keys() == faults.keys()
    assert all(text in result[path] for path, text in faults.items())


def test_all_faults_come_at_once_and_spare_the_other_windows():
    windows, faults = parse_windows(
        {
            "deploy": {
                "cron": "0 25 * * *",
                "zone": "Nowhere",
                "duration": "0s",
                "colour": "red",
                "where": "x",
            },
            "release": RECURRING,
            "no.dots": {},
            "odd": "22:00",
        }
    )
    assert [window.name for window in windows] == ["release"]
    assert {fault.path for fault in faults} == {
        "windows.deploy.cron",
        "windows.deploy.zone",
        "windows.deploy.duration",
        "windows.deploy.colour",
        "windows.deploy.where",
        "windows.no.dots",
        "windows.odd",
    }


@pytest.mark.parametrize(
    ("cron", "duration", "overlaps"),
    [
        ("0 0 * * *", "24h", False),
        ("0 0 * * *", "1441m", True),
        ("0,30 * * * *", "30m", False),
        ("0,30 * * * *", "31m", True),
        ("0 22 * * sat", "7d", False),
        ("0 22 * * sat", "8d", True),
        ("0 22 * * sat,sun", "25h", True),
        # from the last start of a day to the first of the next are 24 h - 20 h = 4 h
        ("0 1,21 * * *", "4h", False),
        ("0 1,21 * * *", "241m", True),
        # the shortest month has 28 days; 31 January to 1 March, or to 28 February
        ("0 0 1 * *", "28d", False),
        ("0 0 28,31 * *", "3d", False),
        ("0 0 1,31 * *", "1d", False),
        ("0 0 1,31 * *", "25h", True),
        # 29 February is followed by 1 March only in leap years
        ("0 0 1 3 */1", "28d", False),
        ("0 0 29,1 2,3 *", "2d", True),
    ],
)
def test_a_window_may_touch_but_not_overlap_itself(cron, duration, overlaps):
    assert ("duration" in faults_of(cron=cron, zone="UTC", duration=duration)) is overlaps


@pytest.mark.parametrize("settings", [{}, "", None])
def test_a_window_needs_no_settings_when_it_is_tagged_and_started_by_hand(settings):
    assert parse_windows({"release-day": settings}) == ((Window(name="release-day"),), [])


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"a": RECURRING, "b": DATED | {"zone": BERLIN}, "c": {}},
        {"a": {"where": "tag:Role=etcd, tag:Env", "size_gib": "100-500"}},
    ],
)
def test_windows_are_shown_as_they_were_written(section):
    windows, faults = parse_windows(section)
    assert not faults
    assert to_mapping(windows) == section
    assert parse_windows(to_mapping(windows)) == (windows, [])


# membership


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("migration", {"migration"}),
        ("migration,release", {"migration", "release"}),
        (" migration,  release\trelease ", {"migration", "release"}),
        ("", set()),
        (" , ", set()),
    ],
)
def test_a_tag_names_windows_with_commas_or_spaces(text, names):
    assert window_names_in_tags({"burstwatch:window": text}) == names


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, []),
        ({"where": "tag:Role=etcd"}, ["etcd", "big etcd"]),
        ({"where": "tag:Role=etcd, tag:Env"}, ["big etcd"]),
        ({"where": "tag:Env = x = y"}, ["big etcd"]),
        ({"where": "tag:Role"}, ["etcd", "big etcd", "ci"]),
        ({"where": "tag:role"}, []),
        ({"size_gib": "100-499"}, ["etcd", "ci"]),
        ({"where": "tag:Role=etcd", "size_gib": "500-1000"}, ["big etcd"]),
    ],
)
def test_a_selector_chooses_the_volumes_that_fit_all_of_it(settings, chosen):
    volumes = [
        a_volume(100, volume_id="etcd", tags={"Role": "etcd"}),
        a_volume(500, volume_id="big etcd", tags={"Role": "etcd", "Env": "x = y"}),
        a_volume(499, volume_id="ci", tags={"Role": "ci"}),
        a_volume(50, volume_id="tagged", tags={"burstwatch:window": "other,w"}),
        a_volume(50, volume_id="neither"),
    ]
    result = volumes_in_window(a_window(**settings), volumes)
    assert [volume.volume_id for volume in result] == [*chosen, "tagged"]


def test_a_volume_belongs_to_the_windows_of_its_tag_and_of_their_selectors():
    windows = (a_window("etcd", where="tag:Role=etcd"), a_window("big", size_gib="500-1000"))
    volume = a_volume(100, tags={"Role": "etcd", "burstwatch:window": "unheard-of"})
    assert window_names_of(windows, volume) == {"etcd", "unheard-of"}
    assert window_names_of((), volume) == {"unheard-of"}


def test_without_windows_and_tags_a_volume_belongs_to_none_and_nothing_is_built():
    volumes = [a_volume(100, volume_id="one"), a_volume(100, volume_id="other", tags={"Role": "ci"})]
    item, other = (window_names_of((), volume) for volume in volumes)
    assert item == frozenset()
    assert item is other


# lead


@pytest.mark.parametrize(
    ("size_gib", "lead_min"),
    [
        (1, 30 + 360 / 1024),
        (100, 30 + 360 * 100 / 1024),  # 65 min
        (1024, 30 + 360),  # AWS: a fully used 1 TiB takes up to about 6 h
        (4010, 30 + 360 * 4010 / 1024),  # 23 h 59.8 min
        (4011, 24 * 60),
        (16384, 24 * 60),
    ],
)
def test_the_lead_grows_with_the_size_up_to_a_day(size_gib, lead_min):
    assert flip_lead(size_gib) / MINUTE == pytest.approx(lead_min, abs=0.01)
    assert flip_lead(size_gib) - expected_flip_duration(size_gib) == timedelta(minutes=15)


def test_the_lead_follows_the_policy():
    policy = LeadPolicy(least=HOUR, per_tib=2 * HOUR, reserve=MINUTE, at_most=4 * HOUR)
    assert flip_lead(512, policy) == 2 * HOUR + MINUTE
    assert expected_flip_duration(512, policy) == 2 * HOUR
    assert flip_lead(16384, policy) == 4 * HOUR


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # 15 min + 15 min = 30 min
        ({"at_most": 30 * MINUTE}, "30m must be above reserve 15m + least 15m = 30m, and at most 7d"),
        ({"reserve": 24 * HOUR}, "1d must be above reserve 1d + least 15m = 1455m, and at most 7d"),
        ({"at_most": 7 * 24 * HOUR + MINUTE}, "10081m must be above reserve 15m + least 15m = 30m"),
    ],
)
def test_a_lead_that_its_own_limit_leaves_no_room_is_a_fault(changes, message):
    [fault] = LeadPolicy(**changes).faults()
    assert fault.path == "lead.at_most"
    assert fault.message.startswith(message)


@pytest.mark.parametrize("at_most", [31 * MINUTE, 7 * 24 * HOUR])
def test_a_lead_may_go_to_its_limit(at_most):
    assert not list(LeadPolicy(at_most=at_most).faults())


# state: a window from 12:00 to 14:00 on 1 May, flipped 60 min before, of which 45 are the modification.
# A return is worth it when more than 60 + 30 min lie between two windows

MAY_1 = a_window("noon", from_="2026-05-01T12:00Z", to="2026-05-01T14:00Z")


def state(now: str, *windows: Window, by_hand=None, names=None, stopped=None) -> WindowState:
    every = windows or (MAY_1,)
    return window_state(
        every,
        {window.name for window in every} if names is None else names,
        utc(f"2026-05-{now}"),
        lead=HOUR,
        expected=45 * MINUTE,
        margin=30 * MINUTE,
        manual_starts=by_hand or {},
        manual_stops=stopped or {},
    )


def a_may_1_window(name: str, start: str, end: str) -> Window:
    return a_window(name, from_=f"2026-05-01T{start}Z", to=f"2026-05-01T{end}Z")


@pytest.mark.parametrize(
    ("now", "phase", "missed_min"),
    [
        ("01T10:59:59", WindowPhase.OUTSIDE, None),
        ("01T11:00", WindowPhase.LEADING, None),
        ("01T11:15", WindowPhase.LEADING, None),  # 11:15 + 45 min = 12:00, just in time
        ("01T11:16", WindowPhase.LEADING, 1),
        ("01T11:59", WindowPhase.LEADING, 44),
        ("01T12:00", WindowPhase.INSIDE, 45),
        ("01T13:59", WindowPhase.INSIDE, 164),  # 13:59 + 45 min = 14:44, 2 h 44 min after the start
        ("01T14:00", WindowPhase.OVER, None),
        ("01T14:29", WindowPhase.OVER, None),
        ("01T14:30", WindowPhase.OUTSIDE, None),
        ("09T00:00", WindowPhase.OUTSIDE, None),
    ],
)
def test_a_window_passes_through_its_phases(now, phase, missed_min):
    result = state(now)
    assert result.phase is phase
    assert result.missed_by == (None if missed_min is None else missed_min * MINUTE)


def test_a_flip_is_wanted_from_the_lead_on_and_a_return_allowed_when_all_is_over():
    requested = {phase: WindowState(phase=phase) for phase in WindowPhase}
    assert {phase for phase, request in requested.items() if request.wants_flip} == {
        WindowPhase.LEADING,
        WindowPhase.INSIDE,
    }
    assert {phase for phase, request in requested.items() if request.allows_return} == {
        WindowPhase.OUTSIDE,
        WindowPhase.OVER,
    }


@pytest.mark.parametrize(
    ("second_start", "now", "phase"),
    [
        ("14:00", "01T14:00", WindowPhase.INSIDE),  # back to back
        ("13:00", "01T14:30", WindowPhase.INSIDE),  # overlapping
        ("15:30", "01T14:00", WindowPhase.BETWEEN),  # 90 min after: not worth a return
        ("15:30", "01T14:29", WindowPhase.BETWEEN),
        ("15:30", "01T14:30", WindowPhase.LEADING),
        ("15:31", "01T14:00", WindowPhase.OVER),  # 91 min: worth it
        ("15:31", "01T14:30", WindowPhase.OUTSIDE),
        ("15:31", "01T14:31", WindowPhase.LEADING),
    ],
)
def test_windows_close_together_cause_no_return_in_between(second_start, now, phase):
    assert state(now, MAY_1, a_may_1_window("second", second_start, "17:00")).phase is phase


def test_a_short_window_inside_a_longer_one_ends_nothing():
    inner = a_may_1_window("inner", "12:30", "13:00")
    result = state("01T13:10", MAY_1, inner)
    assert result.phase is WindowPhase.INSIDE
    assert [occurrence.window for occurrence in result.running] == ["noon"]
    assert result.ended.window == "inner"


def test_the_state_names_its_occurrences():
    windows = (MAY_1, a_may_1_window("early", "12:00", "13:00"), a_may_1_window("late", "12:30", "13:00"))
    assert [occurrence.window for occurrence in state("01T11:30", *windows).upcoming] == ["noon", "early"]
    inside = state("01T12:10", *windows)
    assert [occurrence.window for occurrence in inside.running] == ["noon", "early"]
    assert [occurrence.window for occurrence in inside.upcoming] == ["late"]
    after = state("01T14:10", *windows)
    assert after.ended.window == "noon"
    assert after.ended.interval == TimeInterval(utc("2026-05-01T12:00"), utc("2026-05-01T14:00"))


def test_only_the_windows_of_the_volume_count():
    assert state("01T12:30", MAY_1, names=set()).phase is WindowPhase.OUTSIDE
    assert state("01T12:30", MAY_1, names={"other"}).phase is WindowPhase.OUTSIDE


def test_a_window_started_by_hand_lasts_until_it_is_stopped_or_its_time_is_over():
    started_at = utc("2026-05-02T08:00")
    open_ended, limited = {"noon": (started_at, None)}, {"noon": (started_at, utc("2026-05-02T09:00"))}
    assert state("02T08:00", by_hand=open_ended).phase is WindowPhase.INSIDE
    assert state("30T08:00", by_hand=open_ended).phase is WindowPhase.INSIDE
    assert state("30T08:00", by_hand=open_ended).running[0].is_manual
    assert state("30T08:00", by_hand=open_ended).running[0].interval.end_at == UNTIL_STOPPED
    assert state("02T08:59", by_hand=limited).phase is WindowPhase.INSIDE
    assert state("02T09:00", by_hand=limited).phase is WindowPhase.OVER
    assert state("02T08:00", by_hand={}).phase is WindowPhase.OUTSIDE


def test_a_window_started_by_hand_needs_no_entry_in_the_policy():
    by_hand = {"ad-hoc": (utc("2026-05-02T08:00"), None)}
    assert state("02T08:00", names={"ad-hoc"}, by_hand=by_hand).phase is WindowPhase.INSIDE
    assert state("02T08:00", names={"noon"}, by_hand=by_hand).phase is WindowPhase.OUTSIDE


def test_a_start_by_hand_that_ends_before_it_begins_is_none():
    by_hand = {"noon": (utc("2026-05-02T08:00"), utc("2026-05-02T08:00"))}
    assert state("02T08:00", by_hand=by_hand).phase is WindowPhase.OUTSIDE


# stopped by hand: the window from 12:00 to 14:00 on 1 May, and one from 22:00 for 8 h every night

NIGHTLY = recurring("0 22 * * *", duration="8h", name="nightly")


def stop_time(now: str, *windows: Window, name: str = "noon", by_hand=None, stopped=None) -> datetime | None:
    now_at = utc(f"2026-05-{now}")
    return manual_stop_at(
        windows or (MAY_1,), name, now_at, lead=HOUR, manual_starts=by_hand or {}, manual_stops=stopped or {}
    )


@pytest.mark.parametrize(
    ("now", "stopped", "phase"),
    [
        # started at 12:00, before the instant: it is as if it had never been
        ("01T12:30", "01T12:00:01", WindowPhase.OUTSIDE),
        ("01T14:10", "01T12:00:01", WindowPhase.OUTSIDE),
        ("01T11:30", "01T12:00:01", WindowPhase.OUTSIDE),
        # at or after the instant: it counts
        ("01T12:30", "01T12:00", WindowPhase.INSIDE),
        ("01T12:30", "01T11:59:59", WindowPhase.INSIDE),
        ("01T11:30", "01T11:29", WindowPhase.LEADING),
    ],
)
def test_what_started_before_the_stop_is_skipped_altogether(now, stopped, phase):
    assert state(now, stopped={"noon": utc(f"2026-05-{stopped}")}).phase is phase


def test_a_stop_concerns_one_name_only():
    inner = a_may_1_window("inner", "12:30", "13:00")
    result = state("01T12:45", MAY_1, inner, stopped={"noon": utc("2026-05-01T12:46")})
    assert [occurrence.window for occurrence in result.running] == ["inner"]
    assert state("01T12:45", stopped={"unheard-of": utc("2026-05-01T12:46")}).phase is WindowPhase.INSIDE


def test_the_following_occurrence_is_unaffected():
    stopped = {"nightly": utc("2026-05-01T23:00")}
    assert state("01T23:30", NIGHTLY, stopped=stopped).phase is WindowPhase.OUTSIDE
    assert state("02T21:30", NIGHTLY, stopped=stopped).phase is WindowPhase.LEADING
    assert state("02T23:30", NIGHTLY, stopped=stopped).phase is WindowPhase.INSIDE


def test_a_window_started_by_hand_is_stopped_and_may_be_started_again():
    stopped = {"noon": utc("2026-05-02T09:00")}
    earlier, later = {"noon": (utc("2026-05-02T08:00"), None)}, {"noon": (utc("2026-05-02T09:00"), None)}
    assert state("02T10:00", by_hand=earlier, stopped=stopped).phase is WindowPhase.OUTSIDE
    assert state("02T10:00", by_hand=later, stopped=stopped).phase is WindowPhase.INSIDE


@pytest.mark.parametrize(
    ("now", "recorded"),
    [
        ("01T10:59", None),  # 61 min before the start: nothing is led to yet
        ("01T11:00", "01T12:00:01"),  # led to: just after its start
        ("01T12:00", "01T12:00:01"),  # it runs: just after now
        ("01T13:59", "01T13:59:01"),
        ("01T14:00", None),
    ],
)
def test_stopping_records_an_instant_just_after_now_or_the_start_that_is_led_to(now, recorded):
    assert stop_time(now) == (recorded and utc(f"2026-05-{recorded}"))


@pytest.mark.parametrize(
    ("now", "recorded"),
    [
        # at 22:59:59.5 an hourly window runs that began at 22:00; the next begins at 23:00
        ("01T22:59:59.500000", "01T23:00"),
        ("01T22:59:58", "01T22:59:59"),
    ],
)
def test_stopping_at_the_last_moment_spares_the_next_occurrence(now, recorded):
    hourly = recurring("0 * * * *", name="hourly")
    recorded_at = stop_time(now, hourly, name="hourly")
    assert recorded_at == utc(f"2026-05-{recorded}")
    assert state("01T23:00", hourly, stopped={"hourly": recorded_at}).phase is WindowPhase.INSIDE


def test_stopping_ends_the_scheduled_and_the_one_started_by_hand_at_once():
    by_hand = {"noon": (utc("2026-05-01T12:10"), None)}
    recorded_at = stop_time("01T12:30", by_hand=by_hand)
    assert recorded_at == utc("2026-05-01T12:30:01")
    assert state("01T12:30", by_hand=by_hand, stopped={"noon": recorded_at}).phase is WindowPhase.OUTSIDE


def test_stopping_what_is_stopped_finds_nothing_more_but_the_next_that_is_led_to():
    once = {"nightly": stop_time("01T22:00", NIGHTLY, name="nightly")}
    assert stop_time("01T22:10", NIGHTLY, name="nightly", stopped=once) is None
    # 21:00 on the following day is an hour before
    assert stop_time("02T21:00", NIGHTLY, name="nightly", stopped=once) == utc("2026-05-02T22:00:01")


def test_an_unknown_window_cannot_be_stopped():
    assert stop_time("01T12:30", name="unheard-of") is None


# several at once, and what is on the edge


def test_the_first_upcoming_start_counts():
    early, late = a_may_1_window("early", "12:00", "14:00"), a_may_1_window("late", "12:00", "18:00")
    result = state("01T11:30", early, late, a_may_1_window("next", "15:00", "16:00"))
    assert [item.window for item in result.upcoming] == ["early", "late"]
    assert result.phase is WindowPhase.LEADING
    assert result.missed_by is not None


def test_the_most_recently_ended_window_is_reported():
    result = state(
        "01T14:10", a_may_1_window("first", "12:00", "13:50"), a_may_1_window("second", "11:00", "14:00")
    )
    assert (result.ended.window, result.phase) == ("second", WindowPhase.OVER)


def test_a_non_text_setting_is_read_as_written():
    windows, faults = parse_windows({"w": {"size_gib": 100, "where": "tag:a"}})
    assert len(windows) == 0
    assert [(fault.path, fault.message) for fault in faults] == [
        (
            "windows.w.size_gib",
            "'100' is not a valid range of sizes; write the least and the most GiB, such as 100-500",
        )
    ]


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ({"cron": "nonsense", "zone": "UTC", "duration": "1h"}, {"cron"}),
        ({"cron": "0 22 * * *", "zone": "Mars", "duration": "1h"}, {"zone"}),
        ({"cron": "0 22 * * *", "zone": "UTC", "duration": "soon"}, {"duration"}),
    ],
)
def test_one_invalid_part_of_a_schedule_drops_the_window(settings, paths):
    assert faults_of(**settings).keys() == paths


def test_a_dated_window_lasts_a_year_at_most():
    # 366 days after 1 January 2026 is 2 January 2027
    longest = a_window(from_="2026-01-01T00:00Z", to="2027-01-02T00:00Z")
    assert longest.schedule == TimeInterval(utc("2026-01-01T00:00"), utc("2027-01-02T00:00"))
    assert faults_of(from_="2026-01-01T00:00Z", to="2027-01-02T00:01Z").keys() == {"to"}


def test_the_first_of_several_useless_terms_is_reported():
    assert faults_of(where="one, two, tag:a=b")["where"].startswith("'one' selects nothing")


def test_windows_that_mean_the_same_are_equal_however_they_are_written():
    assert a_window(**RECURRING) == a_window(**RECURRING | {"duration": "480m"})
    assert a_window(**RECURRING) != a_window(**RECURRING | {"duration": "481m"})
