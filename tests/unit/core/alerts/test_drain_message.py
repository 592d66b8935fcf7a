"""What drained a volume, reported at the edges: sizes, shares, spans, and how the hour was on other days."""

import pytest

from burstwatch.core.alerts.drain_message import format_drain_cause
from burstwatch.core.assessment.drain_cause import BALANCE_HISTORY_PERIOD_S, DrainEpisode, compare_same_hour
from burstwatch.core.buckets.series import Series
from support.builders.core_values import at

DAY_S, HOUR_S = 24 * 3600, 3600
NOON_S = int(at("12:00"))

DRAIN = {
    "began_at": "2026-11-20T11:00:00Z",
    "lasted_s": 3_600,
    "from_pct": 90.0,
    "is_longer": False,
    "served_min": 60,
    "read_iops": 750.0,
    "write_iops": 2_250.0,
    "read_kib": 16.0,
    "write_kib": 64.0,
    "days_known": None,
    "days_alike": None,
    "days_asked": None,
    "is_particular": None,
    "not_read": None,
}


def drain_text(time_s=NOON_S, **changes) -> str:
    return format_drain_cause({"drain": DRAIN | changes}, at_s=time_s)[0]


@pytest.mark.parametrize(
    ("changes", "served"),
    [
        ({}, "750 reads/s of 16 KiB and 2,250 writes/s of 64 KiB (75 % writes)"),
        ({"write_kib": 16.0}, "750 reads/s and 2,250 writes/s of 16 KiB each (75 % writes)"),
        ({"read_kib": None, "write_kib": None}, "750 reads/s and 2,250 writes/s (75 % writes)"),
        ({"read_kib": 9.96, "write_kib": 10.04}, "750 reads/s and 2,250 writes/s of 10 KiB each"),
        ({"read_kib": 9.5, "write_kib": 1_024.4}, "750 reads/s of 9.5 KiB and 2,250 writes/s of 1,024 KiB"),
        ({"read_iops": 0.4}, "2,250 writes/s of 64 KiB and no reads"),
        ({"write_iops": 0.4}, "750 reads/s of 16 KiB and no writes"),
        ({"read_iops": 5, "write_iops": 995}, "995 writes/s of 64 KiB (nearly all writes)"),
        ({"read_iops": 6, "write_iops": 994}, "994 writes/s of 64 KiB (99 % writes)"),
    ],
)
def test_operations_are_reported_with_their_size_and_share(changes, served):
    assert served in drain_text(**changes)


@pytest.mark.parametrize(
    ("minutes", "span"),
    [(45, "since then"), (44, "in its last 44 min"), (2, "in its last 2 min"), (1, "in its last minute")],
)
def test_data_for_three_quarters_of_a_drain_describes_all_of_it(minutes, span):
    assert f"at 90.0 %; {span} it served" in drain_text(served_min=minutes)


@pytest.mark.parametrize(
    ("after_s", "began"), [(HOUR_S, "11:00"), (13 * HOUR_S, "11:00 Fri"), (9 * DAY_S, "11:00 20 Nov")]
)
def test_a_drain_that_did_not_begin_today_has_its_day(after_s, began):
    assert drain_text(time_s=int(at("11:00")) + after_s).startswith(f"The drain began at {began} UTC")


# other days, and other hours of them


def a_fall(began_s=NOON_S - HOUR_S, lasted_s=HOUR_S, pct=40.0) -> DrainEpisode:
    return DrainEpisode(
        began_at_s=began_s,
        ended_at_s=began_s + lasted_s,
        from_pct=100,
        to_pct=100 - pct,
        began_before_samples=False,
    )


def days_with_falls(*hours_after: int, depth: float = 40.0, days: int = 7) -> Series:
    """Seven known days on each of which the balance fell for an hour this many hours after the fall's own."""

    def balance(start_s: int) -> float:
        for hours in hours_after:
            into_s = (start_s - (NOON_S - HOUR_S) - hours * HOUR_S) % DAY_S
            if into_s < HOUR_S:
                return 100 - depth * into_s / HOUR_S
        return 100.0

    starts_s = range(NOON_S - (days + 2) * DAY_S, NOON_S - HOUR_S - HOUR_S, BALANCE_HISTORY_PERIOD_S)
    return Series.from_pairs((start_s, balance(start_s)) for start_s in starts_s)


@pytest.mark.parametrize(
    ("hours_after", "alike", "is_particular"),
    [
        ((0,), 7, True),
        # of three other hours one is alike: a third is less than half of all
        ((0, 18), 7, True),
        # two of three are more than half
        ((0, 12, 18), 7, False),
        ((0, 6, 12, 18), 7, False),
        ((6, 12, 18), 0, False),
    ],
)
def test_an_hour_is_specific_if_others_match_half_as_often(hours_after, alike, is_particular):
    comparison = compare_same_hour(days_with_falls(*hours_after), a_fall())
    assert (comparison.known_days, comparison.matching_days, comparison.is_hour_specific) == (
        7,
        alike,
        is_particular,
    )


@pytest.mark.parametrize(
    ("changes", "is_compared"),
    [
        ({"pct": 2.0}, True),
        ({"pct": 1.99}, False),
        ({"lasted_s": 12 * HOUR_S}, True),
        ({"lasted_s": 12 * HOUR_S + 1}, False),
    ],
)
def test_a_drain_is_compared_unless_small_or_without_an_hour(changes, is_compared):
    assert (compare_same_hour(days_with_falls(0), a_fall(**changes)) is not None) is is_compared


def test_seven_days_are_read_and_no_eighth():
    assert compare_same_hour(days_with_falls(0, days=20), a_fall()).known_days == 7
