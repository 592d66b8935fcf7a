"""Invariants of what drained a volume: found where it was put, counted where it is known; never made up."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burstwatch.core.alerts.drain_message import describe_drain_cause, format_drain_cause
from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    COMPARED_DAYS,
    DrainEpisode,
    DrainMetrics,
    compare_same_hour,
    find_drain,
    measure_operations,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.sparkline import MAX_POINTS, describe_balance_history, format_balance_history

NOON_S = 1_795_176_000
"""2026-11-20T12:00:00Z"""
DAY_S = 24 * 3600

FEW = settings(max_examples=60, deadline=None)

percentages = st.floats(0, 100, allow_nan=False).map(lambda value: round(value, 2))
counts = st.floats(0, 200_000, allow_nan=False)


def minute_series(values, newest_s: int = NOON_S) -> Series:
    first_s = newest_s - 60 * (len(values) - 1)
    return Series(tuple(first_s + 60 * index for index in range(len(values))), tuple(values))


@st.composite
def balances(draw, elements=percentages):
    """An hour or less with samples missing."""
    whole = minute_series(draw(st.lists(elements, max_size=65)))
    keeps = draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    return Series.from_pairs(
        (s, v) for s, v, keep in zip(whole.starts_at_s, whole.values, keeps, strict=True) if keep
    )


@st.composite
def falls(draw):
    pct, minutes = draw(st.floats(2, 100)), draw(st.integers(1, 12 * 60))
    return DrainEpisode(
        began_at_s=NOON_S - 60 * minutes,
        ended_at_s=NOON_S,
        from_pct=100,
        to_pct=100 - pct,
        began_before_samples=False,
    )


@st.composite
def days(draw):
    """Eight days by five minutes, each with its own depth at its own hour, or unknown."""
    pairs = []
    for day in range(8):
        depth = draw(st.none() | st.floats(0, 100))
        begins_s = draw(st.integers(0, 23)) * 3600
        for into_s in range(0, DAY_S, BALANCE_HISTORY_PERIOD_S):
            if depth is not None:
                fell = depth * min(1.0, max(0, into_s - begins_s) / 3600)
                pairs.append((NOON_S - (8 - day) * DAY_S + into_s, 100 - fell))
    return Series.from_pairs(pairs)


@FEW
@given(balances())
def test_a_drain_lies_within_its_samples_and_goes_down(balance):
    fall = find_drain(balance)
    if fall is not None:
        assert balance.starts_at_s[0] < fall.began_at_s < fall.ended_at_s <= balance.starts_at_s[-1] + 60
        assert fall.from_pct > fall.to_pct
        assert (fall.began_at_s - 60, fall.from_pct) in zip(balance.starts_at_s, balance.values, strict=True)


@FEW
@given(balances(), st.integers(-1_000, 1_000))
def test_a_drain_does_not_depend_on_the_hour(balance, minutes):
    moved = Series(tuple(start_s + 60 * minutes for start_s in balance.starts_at_s), balance.values)
    original, shifted = find_drain(balance), find_drain(moved)
    assert (original is None) is (shifted is None)
    if original is not None:
        assert (
            shifted.began_at_s - original.began_at_s
            == shifted.ended_at_s - original.ended_at_s
            == 60 * minutes
        )
        assert (shifted.from_pct, shifted.to_pct) == (original.from_pct, original.to_pct)


@FEW
@given(
    calm=st.integers(16, 40),
    minutes=st.integers(3, 25),
    per_minute=st.floats(0.05, 3.2),
    leans=st.floats(-0.4, 0.45),
    start_pct=st.floats(85, 100),
    older=st.lists(percentages, max_size=20),
)
def test_a_steady_drain_is_found_to_the_minute(calm, minutes, per_minute, leans, start_pct, older):
    """Right before it the balance rose, stood, or fell at less than half the pace."""
    assume(minutes >= 5 or leans < 0.2)
    before = [start_pct + leans * per_minute * (calm - item) for item in range(1, calm + 1)]
    balance = minute_series(
        [*older, *before, *(start_pct - per_minute * item for item in range(1, minutes + 1))]
    )
    fall = find_drain(balance)
    assert (fall.ended_at_s - fall.began_at_s, fall.began_before_samples) == (60 * minutes, False)


@FEW
@given(days(), falls())
def test_days_are_counted_once_and_only_where_they_are_known(history, fall):
    comparison = compare_same_hour(history, fall)
    assert 0 <= comparison.matching_days <= comparison.known_days <= COMPARED_DAYS


@FEW
@given(days(), falls(), st.integers(1, 7))
def test_a_day_that_is_dropped_is_no_longer_known_and_changes_no_other(history, fall, day):
    ends_s = NOON_S - day * DAY_S + 1800
    begins_s = fall.began_at_s - day * DAY_S - 1800
    remaining = Series.from_pairs(
        (s, v) for s, v in zip(history.starts_at_s, history.values, strict=True) if not begins_s <= s < ends_s
    )
    before, after = compare_same_hour(history, fall), compare_same_hour(remaining, fall)
    assert before.known_days - after.known_days in (0, 1)
    assert before.matching_days - after.matching_days in (0, before.known_days - after.known_days)


@FEW
@given(falls(), percentages.filter(lambda value: value > 1), st.integers(0, 7))
def test_a_flat_balance_never_matches_and_missing_data_is_not_a_mismatch(fall, pct, unknown):
    still = Series.from_pairs(
        (NOON_S - 8 * DAY_S + s, pct) for s in range(0, (8 - unknown) * DAY_S, BALANCE_HISTORY_PERIOD_S)
    )
    comparison = compare_same_hour(still, fall)
    assert comparison.matching_days == 0
    assert comparison.known_days <= 8 - unknown


@FEW
@given(st.floats(4, 99), st.integers(10, 600))
def test_what_comes_every_day_is_found_on_each(depth, minutes):
    def pct(at_s):
        return 100 - depth * min(1.0, ((at_s - NOON_S + 60 * minutes) % DAY_S) / (60 * minutes))

    history = Series.from_pairs(
        (s, pct(s)) for s in range(NOON_S - 8 * DAY_S, NOON_S, BALANCE_HISTORY_PERIOD_S)
    )
    fall = DrainEpisode(
        began_at_s=NOON_S - 60 * minutes,
        ended_at_s=NOON_S,
        from_pct=100,
        to_pct=100 - depth,
        began_before_samples=False,
    )
    comparison = compare_same_hour(history, fall)
    assert (comparison.known_days, comparison.matching_days) == (COMPARED_DAYS, COMPARED_DAYS)


@FEW
@given(balances(counts), balances(counts), balances(counts), balances(counts), falls())
def test_operations_are_means_of_what_was_seen(read_ops, write_ops, read_bytes, write_bytes, fall):
    traces = DrainMetrics(
        read_ops=read_ops, write_ops=write_ops, read_bytes=read_bytes, write_bytes=write_bytes
    )
    result = measure_operations(fall, traces, now_s=NOON_S + 60)
    if result is not None:
        assert 0 <= result.read_iops <= max(read_ops.values) / 60 + 1e-6
        assert 0 <= result.write_iops <= max(write_ops.values) / 60 + 1e-6
    reported = describe_drain_cause(fall, traces, now_s=NOON_S + 60)
    assert all(format_drain_cause({"drain": reported}, at_s=NOON_S))


@FEW
@given(balances())
def test_a_sparkline_shows_the_newest_balance_and_fits_its_line(balance):
    course = describe_balance_history(balance)
    if course is not None:
        assert course["pct"][-1] == round(balance.values[-1], 1)
        assert 1 < len(course["pct"]) <= MAX_POINTS
        assert len(format_balance_history(course)) <= 80
