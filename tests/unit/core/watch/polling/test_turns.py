"""Each comes first in some minute, whatever the distance between ticks is."""

import pytest

from burstwatch.core.watch.polling.turns import in_turn


@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_over_the_ticks_all_come_first(count, minutes):
    items = range(count)
    ticks = range(0, 60 * minutes * count * 20, 60 * minutes)
    orders = [in_turn(items, tick_at_s) for tick_at_s in ticks]
    assert {order[0] for order in orders} == set(items)
    assert all(sorted(order) == list(items) for order in orders)


def test_nothing_has_no_turn():
    assert in_turn([], 60) == []
