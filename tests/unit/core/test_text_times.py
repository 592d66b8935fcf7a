"""Times as people read them: relative first, with the day if it is not today; and how long AWS takes."""

from datetime import timedelta

import pytest

from burstwatch.core.policy.windows import LeadPolicy, describe_flip_duration, format_expected_duration
from burstwatch.core.text import format_relative_time, format_rounded_duration, format_time, format_until
from support.builders.core_values import at

NOON_S = at("12:00")  # of Friday, 20 November 2026
HOUR_S, DAY_S = 3_600, 86_400


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        (14 * 60, "12:14"),
        (12 * HOUR_S - 1, "23:59"),
        (12 * HOUR_S, "00:00 Sat"),
        (-13 * HOUR_S, "23:00 Thu"),
        (6 * DAY_S, "12:00 Thu"),
        (7 * DAY_S, "12:00 27 Nov"),
        (-7 * DAY_S, "12:00 13 Nov"),
        (45 * DAY_S, "12:00 4 Jan 2027"),
    ],
)
def test_a_time_of_day_carries_its_day_if_that_is_not_today(after_s, expected):
    assert format_time(NOON_S + after_s, NOON_S) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "1 min"),
        (29, "1 min"),
        (14 * 60 + 20, "14 min"),
        (119 * 60 + 29, "119 min"),
        (119 * 60 + 30, "2 h"),
        (19 * HOUR_S, "19 h"),
        (47 * HOUR_S, "47 h"),
        (48 * HOUR_S, "2 d"),
        (1_500 * DAY_S, "1,500 d"),
    ],
)
def test_a_rough_length_of_time_has_one_unit(seconds, expected):
    assert format_rounded_duration(seconds) == expected


def test_a_moment_is_relative_first():
    assert format_relative_time(NOON_S + 14 * 60, NOON_S) == "in 14 min (12:14)"
    assert format_relative_time(NOON_S + 19 * HOUR_S, NOON_S) == "in 19 h (07:00 Sat)"
    assert format_relative_time(NOON_S + 19 * HOUR_S, NOON_S, "UTC") == "in 19 h (07:00 Sat UTC)"
    assert format_relative_time(NOON_S - 3 * 60, NOON_S) == "3 min ago (11:57)"
    assert format_relative_time(NOON_S - 29, NOON_S) == "now (11:59)"


def test_how_long_something_lasts_ends_with_when():
    assert format_until(NOON_S + 58 * 60, NOON_S) == "for 58 min (until 12:58 UTC)"
    assert format_until(NOON_S - 300, NOON_S) == "until 11:55 UTC, which has passed"
    assert format_until(NOON_S + 14 * HOUR_S, NOON_S) == "for 14 h (until 02:00 Sat UTC)"


@pytest.mark.parametrize(
    ("size_gib", "expected"),
    [
        (1, "15 min for 1 GiB"),
        (8, "15 min to 17 min for 8 GiB"),
        (500, "15 min to 3 h 10 min for 500 GiB"),
        (16_384, "15 min to 23 h 45 min for 16,384 GiB"),
    ],
)
def test_how_long_aws_is_expected_to_take_follows_the_rule_for_windows(size_gib, expected):
    assert format_expected_duration(size_gib, LeadPolicy()) == expected


def test_how_long_aws_is_expected_to_take_follows_the_policy():
    lead = LeadPolicy(least=timedelta(minutes=5), per_tib=timedelta(hours=1))
    assert format_expected_duration(512, lead) == "5 min to 35 min for 512 GiB"


@pytest.mark.parametrize(
    ("empty_s", "rest"),
    [
        (None, "."),
        (0, "; its credits are exhausted; reduce load until then."),
        (13 * 60, "; empty in about 13 min; reduce load until then."),
        (3 * HOUR_S, "; empty in about 3 h; reduce load until then."),
        (5 * HOUR_S, "; empty in about 5 h."),
        (2 * DAY_S, "."),
    ],
)
def test_the_expected_duration_is_shown_beside_the_credit_lifetime(empty_s, rest):
    text = describe_flip_duration(500, LeadPolicy(), time_to_empty_s=empty_s)
    assert text == f"AWS is expected to take 15 min to 3 h 10 min for 500 GiB{rest}"


def test_a_time_left_that_the_title_has_is_not_repeated():
    text = describe_flip_duration(500, LeadPolicy(), time_to_empty_s=13 * 60, states_time_left=False)
    assert text == "AWS is expected to take 15 min to 3 h 10 min for 500 GiB; reduce load until then."


@pytest.mark.parametrize(
    ("ago_s", "empty_s", "expected"),
    [
        (59, 0, "is expected to take {}; its credits are exhausted; reduce load until then."),
        (
            36 * 60,
            40 * 60,
            "is expected to take {}, 36 min of which are over; empty in about 40 min.",
        ),
        (
            80 * 60,
            0,
            "was expected to take {} and has taken 80 min so far; its credits are exhausted;"
            " reduce load until then.",
        ),
    ],
)
def test_a_change_under_way_reports_how_long_it_has_taken(ago_s, empty_s, expected):
    reported = describe_flip_duration(100, LeadPolicy(), time_to_empty_s=empty_s, elapsed_s=ago_s)
    assert reported == f"AWS {expected.format('15 min to 50 min for 100 GiB')}"
