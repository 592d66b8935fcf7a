from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from burstwatch.core.policy.change_hours import ChangeHours, parse_change_hours

OFFICE = "mon-fri 08:00-18:00 Europe/Berlin"
MINUTE = timedelta(minutes=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def opens(text: str, now: str) -> datetime:
    return parse_change_hours(text).opens_at(utc(now))


# reading


def test_change_hours_are_days_hours_and_a_time_zone():
    assert parse_change_hours(OFFICE) == ChangeHours(
        days=frozenset({1, 2, 3, 4, 5}), start=time(8), end=time(18), zone=ZoneInfo("Europe/Berlin")
    )


def test_always_is_not_a_limit():
    assert parse_change_hours("always") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OFFICE, OFFICE),
        ("mon-sun 00:00-24:00 UTC", "mon-sun 00:00-24:00 UTC"),
        ("sat,sun 22:30-06:15 America/New_York", "sat-sun 22:30-06:15 America/New_York"),
        ("Fri-Mon 18:00-00:00 UTC", "mon,fri-sun 18:00-24:00 UTC"),
        ("sun-sat 00:00-00:01 UTC", "mon-sun 00:00-00:01 UTC"),
        ("wed,mon,tue,fri 08:00-18:00  UTC", "mon-wed,fri 08:00-18:00 UTC"),
        ("thu-thu 08:00-18:00 UTC", "thu 08:00-18:00 UTC"),
    ],
)
def test_they_are_shown_so_that_they_read_back_as_the_same(text, expected):
    hours = parse_change_hours(text)
    assert str(hours) == expected
    assert parse_change_hours(expected) == hours


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "'' are not valid change hours; write always, or days, hours and time zone such as"
            " mon-fri 08:00-18:00",
        ),
        ("never", "'never' are not valid change hours"),
        ("Always", "'Always' are not valid change hours"),
        ("mon-fri 08:00-18:00", "are not valid change hours"),
        ("08:00-18:00 UTC", "are not valid change hours"),
        ("mon-fri 8:00-18:00 UTC", "are not valid change hours"),
        ("mon-fri 08:00 - 18:00 UTC", "are not valid change hours"),
        (f" {OFFICE}", "are not valid change hours"),
        (f"{OFFICE}\n", "are not valid change hours"),
        ("mon-fri \u0660\u0668:00-18:00 UTC", "are not valid change hours"),
        (
            "mon-fri 24:00-06:00 UTC",
            "'24:00' is not a valid time of day; write hours and minutes, from 00:00 to 23:59",
        ),
        ("mon-fri 08:00-25:00 UTC", "'25:00' is not a valid time of day"),
        ("mon-fri 08:60-18:00 UTC", "'08:60' is not a valid time of day"),
        ("mon-fri 08:00-08:00 UTC", "opens as it closes; write always, or 00:00-24:00 for whole days"),
        (
            "monday 08:00-18:00 UTC",
            "'monday' is not a day of the week; write mon to sun, such as mon-fri or sat",
        ),
        ("mon-fri-sun 08:00-18:00 UTC", "'mon-fri-sun' is not a day of the week"),
        ("mon- 08:00-18:00 UTC", "'mon-' is not a day of the week"),
        ("mon,,fri 08:00-18:00 UTC", "'' is not a day of the week"),
        ("mon-abc 08:00-18:00 UTC", "'mon-abc' is not a day of the week"),
        ("1-5 08:00-18:00 UTC", "'1-5' is not a day of the week"),
        ("mon-fri 08:00-18:00 Mars/Base", "'Mars/Base' is not a known time zone; write an IANA name"),
        ("mon-fri 08:00-18:00 ../UTC", "is not a known time zone"),
    ],
)
def test_any_other_text_is_a_fault(text, message):
    with pytest.raises(ValueError) as error:
        parse_change_hours(text)
    assert message in str(error.value)


@pytest.mark.parametrize("days", [frozenset(), frozenset({0}), frozenset({1, 8})])
def test_hours_without_days_cannot_exist(days):
    with pytest.raises(ValueError, match=r"must be some of 1 \(Monday\) to 7 \(Sunday\)"):
        ChangeHours(days=days, start=time(8), end=time(18), zone=ZoneInfo("UTC"))


# Berlin is at +1 in winter and +2 in summer; 1 May 2026 is a Friday


@pytest.mark.parametrize(
    ("text", "now", "opens_at"),
    [
        (OFFICE, "2026-05-01T05:59:59", "2026-05-01T06:00"),
        (OFFICE, "2026-05-01T06:00", "2026-05-01T06:00"),
        (OFFICE, "2026-05-01T15:59:59", "2026-05-01T15:59:59"),
        (OFFICE, "2026-05-01T16:00", "2026-05-04T06:00"),  # closed until Monday
        (OFFICE, "2026-05-03T12:00", "2026-05-04T06:00"),
        # the night belongs to the day on which it begins: Friday's lasts until Saturday, 06:00
        ("fri 22:00-06:00 UTC", "2026-05-01T03:00", "2026-05-01T22:00"),
        ("fri 22:00-06:00 UTC", "2026-05-02T05:59", "2026-05-02T05:59"),
        ("fri 22:00-06:00 UTC", "2026-05-02T06:00", "2026-05-08T22:00"),
        ("fri 22:00-06:00 UTC", "2026-05-02T22:00", "2026-05-08T22:00"),
        # and Sunday's until Monday
        ("sun 22:00-06:00 Europe/Berlin", "2026-05-04T03:59", "2026-05-04T03:59"),
        ("sun 22:00-06:00 Europe/Berlin", "2026-05-04T04:00", "2026-05-10T20:00"),
        # whole days
        ("sat-sun 00:00-24:00 UTC", "2026-05-01T23:59", "2026-05-02T00:00"),
        ("sat-sun 00:00-24:00 UTC", "2026-05-03T23:59", "2026-05-03T23:59"),
        ("sat-sun 00:00-24:00 UTC", "2026-05-04T00:00", "2026-05-09T00:00"),
        # 18:30Z on Sunday is 08:30 on Monday on Kiritimati, at +14
        ("mon 08:00-09:00 Pacific/Kiritimati", "2026-05-03T18:30", "2026-05-03T18:30"),
    ],
)
def test_it_opens_and_closes_by_the_clocks_of_its_zone(text, now, opens_at):
    assert opens(text, now) == utc(opens_at)
    assert parse_change_hours(text).allows(utc(now)) is (now == opens_at)


# Berlin: forward, 02:00 -> 03:00, at 01:00Z on 29 March 2026;
#         back, 03:00 -> 02:00, at 01:00Z on 25 October 2026


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        # the hours of a Sunday at +2 and at +1
        ("sun 08:00-18:00 Europe/Berlin", "2026-03-29T06:00", "2026-03-29T16:00"),
        ("sun 08:00-18:00 Europe/Berlin", "2026-10-25T07:00", "2026-10-25T17:00"),
        # a night of 7 h, and one of 9 h
        ("sat 22:00-06:00 Europe/Berlin", "2026-03-28T21:00", "2026-03-29T04:00"),
        ("sat 22:00-06:00 Europe/Berlin", "2026-10-24T20:00", "2026-10-25T05:00"),
        # 02:30 is skipped, and means 03:00
        ("sun 02:30-04:00 Europe/Berlin", "2026-03-29T01:00", "2026-03-29T02:00"),
        ("sun 01:00-02:30 Europe/Berlin", "2026-03-29T00:00", "2026-03-29T01:00"),
        # 02:30 comes twice, at 00:30Z and 01:30Z: the first opens and the first closes
        ("sun 02:30-04:00 Europe/Berlin", "2026-10-25T00:30", "2026-10-25T03:00"),
        ("sun 01:00-02:30 Europe/Berlin", "2026-10-24T23:00", "2026-10-25T00:30"),
        # St. John's went back from 00:01 to 23:01 of the day before, at 02:31Z on 7 November 2010
        ("sun 00:00-01:00 America/St_Johns", "2010-11-07T02:30", "2010-11-07T04:30"),
    ],
)
def test_daylight_saving_moves_both_ends(text, start, end):
    hours = parse_change_hours(text)
    start_at, end_at = utc(start), utc(end)
    assert hours.opens_at(start_at - timedelta(hours=5)) == start_at
    inside = [start_at + number * MINUTE for number in range((end_at - start_at) // MINUTE)]
    assert all(hours.allows(now) for now in inside)
    assert not hours.allows(start_at - timedelta.resolution)
    assert not hours.allows(end_at)


def test_hours_that_the_clocks_skip_do_not_open_that_day():
    # both 02:10 and 02:40 mean 03:00; a week later they are 00:10Z and 00:40Z
    assert opens("sun 02:10-02:40 Europe/Berlin", "2026-03-28T12:00") == utc("2026-04-05T00:10")


def test_a_day_that_a_zone_skipped_altogether_does_not_open():
    # Samoa went from Thursday 29 to Saturday 31 December 2011 at 10:00Z; on 6 January it was at +14
    assert opens("fri 08:00-18:00 Pacific/Apia", "2011-12-29T12:00") == utc("2012-01-05T18:00")


def test_the_instant_is_in_utc_whatever_the_zone_of_now():
    now = datetime(2026, 5, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    result = parse_change_hours(OFFICE).opens_at(now)
    assert (result, result.tzinfo) == (now, UTC)
