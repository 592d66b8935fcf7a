"""Laws of what drained a volume: found where it was put, counted where it is known, and never made up."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burstwatch.core.alerts.drain_message import cause_sentences, describe_cause
from burstwatch.core.assessment.drain_cause import (
    DAYS,
    DAYS_PERIOD_S,
    Fall,
    Traces,
    compare_days,
    find_fall,
    operations_in,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.sparkline import MOST_POINTS, course_words, describe_course

NOON_S = 1_795_176_000
"""2026-11-20T12:00:00Z"""
DAY_S = 24 * 3600

FEW = settings(max_examples=60, deadline=None)

percentages = st.floats(0, 100, allow_nan=False).map(lambda value: round(value, 2))
counts = st.floats(0, 200_000, allow_nan=False)


def by_the_minute(values, newest_s: int = NOON_S) -> Series:
    first_s = newest_s - 60 * (len(values) - 1)
    return Series(tuple(first_s + 60 * index for index in range(len(values))), tuple(values))


@st.composite
def balances(draw, elements=percentages):
    """An hour or less with samples missing."""
    whole = by_the_minute(draw(st.lists(elements, max_size=65)))
    keeps = draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    return Series.of((s, v) for s, v, keep in zip(whole.starts_s, whole.values, keeps, strict=True) if keep)


@st.composite
def falls(draw):
    pct, minutes = draw(st.floats(2, 100)), draw(st.integers(1, 12 * 60))
    return Fall(
        began_s=NOON_S - 60 * minutes, ended_s=NOON_S, from_pct=100, to_pct=100 - pct, is_longer=False
    )


@st.composite
def days(draw):
    """Eight days by five minutes, each with its own depth at its own hour, or unknown."""
    pairs = []
    for day in range(8):
        depth = draw(st.none() | st.floats(0, 100))
        begins_s = draw(st.integers(0, 23)) * 3600
        for into_s in range(0, DAY_S, DAYS_PERIOD_S):
            if depth is not None:
                fell = depth * min(1.0, max(0, into_s - begins_s) / 3600)
                pairs.append((NOON_S - (8 - day) * DAY_S + into_s, 100 - fell))
    return Series.of(pairs)


@FEW
@given(balances())
def test_a_fall_lies_within_its_samples_and_goes_down(balance):
    fall = find_fall(balance)
    if fall is not None:
        assert balance.starts_s[0] < fall.began_s < fall.ended_s <= balance.starts_s[-1] + 60
        assert fall.from_pct > fall.to_pct
        assert (fall.began_s - 60, fall.from_pct) in zip(balance.starts_s, balance.values, strict=True)


@FEW
@given(balances(), st.integers(-1_000, 1_000))
def test_a_fall_is_where_it_is_whatever_the_hour(balance, minutes):
    moved = Series(tuple(start_s + 60 * minutes for start_s in balance.starts_s), balance.values)
    here, there = find_fall(balance), find_fall(moved)
    assert (here is None) is (there is None)
    if here is not None:
        assert there.began_s - here.began_s == there.ended_s - here.ended_s == 60 * minutes
        assert (there.from_pct, there.to_pct) == (here.from_pct, here.to_pct)


@FEW
@given(
    calm=st.integers(16, 40),
    minutes=st.integers(3, 25),
    per_minute=st.floats(0.05, 3.2),
    leans=st.floats(-0.4, 0.45),
    start_pct=st.floats(85, 100),
    older=st.lists(percentages, max_size=20),
)
def test_a_steady_fall_is_found_to_the_minute_whatever_was_before(
    calm, minutes, per_minute, leans, start_pct, older
):
    """Right before it the balance rose, stood, or fell at less than half the pace."""
    assume(minutes >= 5 or leans < 0.2)
    before = [start_pct + leans * per_minute * (calm - each) for each in range(1, calm + 1)]
    balance = by_the_minute(
        [*older, *before, *(start_pct - per_minute * each for each in range(1, minutes + 1))]
    )
    fall = find_fall(balance)
    assert (fall.ended_s - fall.began_s, fall.is_longer) == (60 * minutes, False)


@FEW
@given(days(), falls())
def test_days_are_counted_once_and_only_where_they_are_known(history, fall):
    found = compare_days(history, fall)
    assert 0 <= found.alike <= found.known <= DAYS


@FEW
@given(days(), falls(), st.integers(1, 7))
def test_a_day_that_is_forgotten_is_known_no_more_and_changes_no_other(history, fall, day):
    ends_s = NOON_S - day * DAY_S + 1800
    begins_s = fall.began_s - day * DAY_S - 1800
    kept = Series.of(
        (s, v) for s, v in zip(history.starts_s, history.values, strict=True) if not begins_s <= s < ends_s
    )
    before, after = compare_days(history, fall), compare_days(kept, fall)
    assert before.known - after.known in (0, 1)
    assert before.alike - after.alike in (0, before.known - after.known)


@FEW
@given(falls(), percentages.filter(lambda value: value > 1), st.integers(0, 7))
def test_a_balance_that_stands_still_was_never_alike_and_what_is_absent_is_no_no(fall, pct, unknown):
    still = Series.of((NOON_S - 8 * DAY_S + s, pct) for s in range(0, (8 - unknown) * DAY_S, DAYS_PERIOD_S))
    found = compare_days(still, fall)
    assert found.alike == 0
    assert found.known <= 8 - unknown


@FEW
@given(st.floats(4, 99), st.integers(10, 600))
def test_what_comes_every_day_is_found_on_each(depth, minutes):
    def pct(at_s):
        return 100 - depth * min(1.0, ((at_s - NOON_S + 60 * minutes) % DAY_S) / (60 * minutes))

    history = Series.of((s, pct(s)) for s in range(NOON_S - 8 * DAY_S, NOON_S, DAYS_PERIOD_S))
    fall = Fall(
        began_s=NOON_S - 60 * minutes, ended_s=NOON_S, from_pct=100, to_pct=100 - depth, is_longer=False
    )
    found = compare_days(history, fall)
    assert (found.known, found.alike) == (DAYS, DAYS)


@FEW
@given(balances(counts), balances(counts), balances(counts), balances(counts), falls())
def test_operations_are_means_of_what_was_seen(read_ops, write_ops, read_bytes, write_bytes, fall):
    traces = Traces(read_ops=read_ops, write_ops=write_ops, read_bytes=read_bytes, write_bytes=write_bytes)
    found = operations_in(fall, traces, now_s=NOON_S + 60)
    if found is not None:
        assert 0 <= found.read_iops <= max(read_ops.values) / 60 + 1e-6
        assert 0 <= found.write_iops <= max(write_ops.values) / 60 + 1e-6
    told = describe_cause(fall, traces, now_s=NOON_S + 60)
    assert all(cause_sentences({"drain": told}, time_s=NOON_S))


@FEW
@given(balances())
def test_a_course_tells_the_newest_balance_and_fits_its_line(balance):
    course = describe_course(balance)
    if course is not None:
        assert course["pct"][-1] == round(balance.values[-1], 1)
        assert 1 < len(course["pct"]) <= MOST_POINTS
        assert len(course_words(course)) <= 80
