import pytest

from burstwatch.core.buckets.series import Sample, Series
from support.builders.core_values import at, balances


def test_a_sample_ends_a_minute_after_it_starts():
    sample = Sample(start_at_s=int(at("11:58")), value=40.0)
    assert sample.end_at_s == at("11:59")
    assert sample.end_at.isoformat() == "2026-11-20T11:59:00+00:00"


def test_samples_are_put_in_order_whatever_order_they_come_in():
    assert Series.from_pairs([(120, 3.0), (0, 1.0), (60, 2.0)]) == Series((0, 60, 120), (1.0, 2.0, 3.0))


def test_of_two_samples_for_one_minute_the_later_given_wins():
    assert Series.from_pairs([(60, 2.0), (0, 1.0), (60, 9.0)]) == Series((0, 60), (1.0, 9.0))


def test_a_series_has_a_value_for_every_start():
    with pytest.raises(ValueError, match="2 starts for 1 values: they must pair up"):
        Series((0, 60), (1.0,))


def test_a_series_gives_its_samples_oldest_first():
    series = balances(50.0, 49.0, 48.0)
    assert [sample.value for sample in series] == [50.0, 49.0, 48.0]
    assert series.newest == Sample(start_at_s=int(at("11:58")), value=48.0)
    assert len(series) == 3


def test_an_empty_series_has_no_newest_sample():
    assert Series().newest is None
    assert Series().newest_at_or_before(at("12:00")) is None
    assert list(Series()) == []
    assert Series().closed_by(at("12:00")) == Series()


@pytest.mark.parametrize(
    ("now", "count"),
    [("11:57", 0), ("11:58", 1), ("11:58:59", 1), ("11:59", 2), ("11:59:59", 2), ("12:00", 3), ("23:00", 3)],
)
def test_a_minute_counts_from_the_second_it_is_over(now, count):
    # The minutes 11:57, 11:58 and 11:59.
    series = balances(50.0, 49.0, 48.0, newest_starts_at="11:59")
    assert series.closed_by(at(now)).values == (50.0, 49.0, 48.0)[:count]


@pytest.mark.parametrize(
    ("clock", "value"),
    [("11:55", None), ("11:56", 50.0), ("11:57:59", 49.0), ("11:58", 48.0), ("13:00", 48.0)],
)
def test_the_sample_at_or_before_an_instant_is_the_latest_that_begins_by_then(clock, value):
    result = balances(50.0, 49.0, 48.0).newest_at_or_before(at(clock))
    assert (result and result.value) == value


def test_the_sample_before_a_gap_represents_the_gap():
    series = Series.from_pairs([(0, 50.0), (600, 40.0)])
    assert series.newest_at_or_before(540) == Sample(start_at_s=0, value=50.0)


@pytest.mark.parametrize(("count", "values"), [(1, (48.0,)), (2, (49.0, 48.0)), (9, (50.0, 49.0, 48.0))])
def test_the_last_values_are_as_many_as_there_are(count, values):
    assert balances(50.0, 49.0, 48.0).last(count) == values


@pytest.mark.parametrize(("clock", "values"), [("11:56", 3), ("11:56:01", 2), ("11:58", 1), ("11:59", 0)])
def test_the_samples_since_an_instant_begin_no_earlier(clock, values):
    series = balances(50.0, 49.0, 48.0)
    since = series.since(at(clock))
    assert since.values == (50.0, 49.0, 48.0)[3 - values :]
    assert since.starts_at_s == series.starts_at_s[3 - values :]
    assert (since is series) is (values == 3), "what is whole is not copied"


def test_the_spacing_is_the_median_gap_so_one_missing_datapoint_does_not_change_it():
    assert Series.from_pairs([]).spacing_s is None
    assert Series.from_pairs([(0, 1.0)]).spacing_s is None
    assert Series.from_pairs([(0, 1.0), (60, 1.0), (180, 1.0), (240, 1.0)]).spacing_s == 60
    assert Series.from_pairs((start_s, 1.0) for start_s in range(0, 3000, 300)).spacing_s == 300


@pytest.mark.parametrize(
    ("gaps", "spacing_s"),
    [
        ([300], 300),
        ([60, 300], 300),
        ([300, 300, 60, 60], 300),
        # of six gaps the newest five count
        ([60, 60, 60, 300, 300, 300], 300),
        ([300, 300, 300, 60, 60, 60], 60),
        ([300, 60, 60, 300, 300, 60], 60),
        ([60, 60, 300, 60, 300, 300], 300),
        ([300, 300, 60, 300, 60, 60], 60),
    ],
)
def test_the_spacing_is_that_of_the_newest_five_gaps(gaps, spacing_s):
    starts = [sum(gaps[:index]) for index in range(len(gaps) + 1)]
    assert Series.from_pairs((start_s, 1.0) for start_s in starts).spacing_s == spacing_s
