import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.sparkline import (
    GLYPHS,
    describe_balance_history,
    draw_sparkline,
    format_balance_history,
)
from support.builders.core_values import balances, draining_to


def test_an_hour_in_sixteen_points_reads_with_and_without_its_picture():
    # 64 samples, four minutes to a point; 100 % until 11:39, then 3 % a minute: 11:42 is 91 %
    falling = [100.0] * 44 + [100 - 3 * minute for minute in range(1, 21)]
    course = describe_balance_history(balances(*falling))
    assert course == {
        "first_at": "2026-11-20T10:59:00Z",
        "last_at": "2026-11-20T11:59:00Z",
        "step_s": 240,
        "pct": [100] * 11 + [88, 76, 64, 52, 40],
    }
    assert (
        format_balance_history(course) == "Balance from 10:59 to 11:59 UTC: 100.0 % ▇▇▇▇▇▇▇▇▇▇▇▇▆▅▅▃ 40.0 %"
    )


def test_a_gap_is_a_gap():
    whole = draining_to(40, 3, count=12)
    torn = Series(whole.starts_at_s[:3] + whole.starts_at_s[8:], whole.values[:3] + whole.values[8:])
    course = describe_balance_history(torn)
    assert course["pct"] == [73, 70, 67, None, None, None, None, None, 49, 46, 43, 40]
    assert "▆▆▆·····▃▃▃▃" in format_balance_history(course)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_few_samples_make_no_sparkline(count):
    assert describe_balance_history(balances(*[50.0] * count)) is None
    assert format_balance_history(None) is None


@pytest.mark.parametrize("count", [4, 15, 16, 17, 61, 65, 200])
def test_there_are_never_more_than_sixteen_points_and_the_newest_is_the_last(count):
    course = describe_balance_history(draining_to(7, 0.1, count=count))
    assert 4 <= len(course["pct"]) <= 16
    assert course["pct"][-1] == 7


def test_the_sparkline_shows_the_level_not_the_change():
    assert draw_sparkline([0, 16, 17, 33, 34, 50, 67, 84, 100]) == "▁▁▂▂▃▅▆▇▇"
    assert draw_sparkline([None, 101.0, -1.0, -20.0]) == "·▇▁▁"
    assert len(set(GLYPHS)) == 6
