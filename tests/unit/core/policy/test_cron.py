import re
from datetime import date, datetime, timedelta
from itertools import islice

import pytest

from burstwatch.core.policy.cron import parse_cron


def starts(text: str, since: date, count: int) -> list[str]:
    """The first starts on the local clock, from the begin of the day ``since``."""
    cron = parse_cron(text)
    result = (datetime.combine(day, at) for day in cron.days_from(since) for at in cron.times)
    return [f"{start:%a %Y-%m-%d %H:%M}" for start in islice(result, count)]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 22 * * *", ["Fri 2026-05-01 22:30", "Sat 2026-05-02 22:30"]),
        ("0 6,18 * * *", ["Fri 2026-05-01 06:00", "Fri 2026-05-01 18:00"]),
        ("*/30 8-9 * * *", ["Fri 2026-05-01 08:00", "Fri 2026-05-01 08:30", "Fri 2026-05-01 09:00"]),
        ("10-50/20 0 * * *", ["Fri 2026-05-01 00:10", "Fri 2026-05-01 00:30", "Fri 2026-05-01 00:50"]),
        ("0 0 * * mon", ["Mon 2026-05-04 00:00", "Mon 2026-05-11 00:00"]),
        ("0 0 * * FRI-Sun", ["Fri 2026-05-01 00:00", "Sat 2026-05-02 00:00", "Sun 2026-05-03 00:00"]),
        ("0 0 * * 6-7", ["Sat 2026-05-02 00:00", "Sun 2026-05-03 00:00", "Sat 2026-05-09 00:00"]),
        ("0 0 * * 0", ["Sun 2026-05-03 00:00", "Sun 2026-05-10 00:00"]),
        ("0 0 * * sun-mon", ["Sun 2026-05-03 00:00", "Mon 2026-05-04 00:00", "Sun 2026-05-10 00:00"]),
        ("0 0 1 jan,Jul *", ["Wed 2026-07-01 00:00", "Fri 2027-01-01 00:00"]),
        # both days given: either will do; the 13th of May 2026 is a Wednesday, its Fridays the 1st and 8th
        ("0 0 13 * fri", ["Fri 2026-05-01 00:00", "Fri 2026-05-08 00:00", "Wed 2026-05-13 00:00"]),
        # one of them begins with *: both must fit
        ("0 0 */2 * fri", ["Fri 2026-05-01 00:00", "Fri 2026-05-15 00:00", "Fri 2026-05-29 00:00"]),
        ("0 0 31 * *", ["Sun 2026-05-31 00:00", "Fri 2026-07-31 00:00", "Mon 2026-08-31 00:00"]),
        ("0 0 29 2 *", ["Tue 2028-02-29 00:00", "Sun 2032-02-29 00:00", "Fri 2036-02-29 00:00"]),
    ],
)
def test_a_cron_text_starts_as_cron_5_defines(cron, expected):
    assert starts(cron, date(2026, 5, 1), len(expected)) == expected


def test_29_february_is_found_across_2100_which_is_not_a_leap_year():
    assert starts("0 0 29 2 *", date(2096, 3, 1), 1) == ["Fri 2104-02-29 00:00"]


def test_29_february_on_a_sunday_is_found_40_years_ahead():
    # a 29 February is five weekdays later every four years, but in 2104 as 2100 was skipped. 2088 Sun,
    # 2092 Fri, 2096 Wed, 2104 Fri, 2108 Wed, 2112 Mon, 2116 Sat, 2120 Thu, 2124 Tue, 2128 Sun
    assert starts("0 0 29 2 */7", date(2088, 3, 1), 1) == ["Sun 2128-02-29 00:00"]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("", "'' has 0 fields, not 5"),
        ("0 22 * *", "has 4 fields, not 5"),
        ("0 22 * * * *", "has 6 fields, not 5"),
        ("@daily", "has 1 fields, not 5"),
        (
            "60 0 * * *",
            "'60' is not a valid minute; write *, numbers from 0 to 59, ranges such as 0-59, commas",
        ),
        ("0 24 * * *", "'24' is not a valid hour"),
        ("0 0 0 * *", "'0' is not a valid day of month"),
        ("0 0 32 * *", "'32' is not a valid day of month"),
        ("0 0 * 13 *", "'13' is not a valid month; write *, numbers from 1 to 12 or dec"),
        ("0 0 * 0 *", "'0' is not a valid month"),
        ("0 0 * january *", "'january' is not a valid month"),
        ("0 0 * * 8", "'8' is not a valid day of week"),
        ("0 0 * * jan", "'jan' is not a valid day of week"),
        ("0 0 L * *", "'L' is not a valid day of month"),
        ("0 0 ? * *", "'?' is not a valid day of month"),
        ("0 0 * * fri#2", "'fri#2' is not a valid day of week"),
        ("0 0 * * fri-mon", "'fri-mon' is not a valid day of week"),
        ("30-10 0 * * *", "'30-10' is not a valid minute"),
        ("5/10 0 * * *", "'5/10' is not a valid minute"),
        ("*/0 0 * * *", "is not a valid minute"),
        ("-5 0 * * *", "is not a valid minute"),
        ("1,,2 0 * * *", "'' is not a valid minute"),
        ("\u0663 0 * * *", "is not a valid minute"),
        ("0 0 31 2 *", "'0 0 31 2 *' never starts: no month in it has a day 31"),
        ("0 0 30-31 feb *", "never starts: no month in it has a day 30"),
        ("0 0 31 4,6,9,11 */2", "never starts: no month in it has a day 31"),
    ],
)
def test_any_other_cron_text_is_a_fault(cron, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_cron(cron)


def test_a_day_that_no_month_has_is_fine_where_a_weekday_will_do():
    assert starts("0 0 31 2 fri", date(2026, 5, 1), 1) == ["Fri 2027-02-05 00:00"]


@pytest.mark.parametrize(
    ("cron", "hours", "waits"),
    [
        ("0 22 * * *", 24, None),
        ("0 22 * * *", 25, 24),
        ("0 6,18 * * *", 12, None),
        ("0 6,18 * * *", 13, 12),
        ("0 6,8 * * *", 3, 2),
        ("0 6,20 * * *", 11, 10),  # from 20:00 to 06:00
        ("0 22 * * sat", 7 * 24, None),
        ("0 22 * * sat", 7 * 24 + 1, 7 * 24),
    ],
)
def test_a_window_longer_than_the_wait_for_its_next_start_would_overlap_itself(cron, hours, waits):
    result = parse_cron(cron).find_wait_below(timedelta(hours=hours))
    assert result == (None if waits is None else timedelta(hours=waits))
