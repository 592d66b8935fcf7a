"""Two buckets under a recorded load, with numbers calculated by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstctl.simulate.simulation import (
    InstanceBucket,
    InstanceBuckets,
    LoadInterval,
    lowest_if_bursts,
    simulate,
)
from burstwatch.core.buckets.bucket import Bucket

# sustains 100, bursts to 400, holds 300 x 1,800 = 540,000
SMALL = Bucket(capacity=540_000, refill_per_s=100, burst_per_s=400)
WIDE = Bucket(capacity=9e9, refill_per_s=1e6, burst_per_s=6e6)
"""Never of any concern."""
SUSTAINED = Bucket(capacity=0, refill_per_s=400, burst_per_s=400)
IO_ONLY = InstanceBuckets(io=SMALL, throughput=WIDE)


def load_of(*rates: float | None, mib: float = 0.0, seconds: int = 300) -> list[LoadInterval]:
    """Even intervals from 0 on; None is a hole."""
    return [
        LoadInterval(index * seconds, seconds, rate * seconds, mib * rate * seconds)
        for index, rate in enumerate(rates)
        if rate is not None
    ]


def spans(spells) -> list[tuple[float, float]]:
    return [(round(spell.start_s, 3), round(spell.end_s, 3)) for spell in spells]


def test_a_load_at_the_baseline_leaves_the_bucket_full():
    result = simulate(load_of(*[100] * 12), IO_ONLY)
    assert result.io.lowest_pct == 100
    assert result.is_sufficient


def test_full_burst_empties_it_in_thirty_minutes():
    result = simulate(load_of(*[400] * 8), IO_ONLY)
    # empty at 1,800 s; until 2,400 s the other 300 a second wait: 180,000, not yet served at the end
    assert spans(result.io.spells) == [(1_800, 2_400)]
    assert result.io.spells[0].max_waiting == pytest.approx(180_000)


def test_what_waited_is_served_at_the_baseline_and_the_bucket_is_empty_until_then():
    result = simulate(load_of(*[400] * 8, *[0] * 12), IO_ONLY)
    # the 180,000 operations take 1,800 s at 100 a second: 2,400 + 1,800 = 4,200
    assert spans(result.spells) == [(1_800, 4_200)]
    assert result.empty_s == pytest.approx(2_400)
    # then it refills 100 a second from 4,200 to 6,000 s: 180,000 of 540,000
    assert result.io.balances_pct[-1] == pytest.approx(100 / 3)


def test_new_load_waits_behind_the_old():
    result = simulate(load_of(*[400] * 7, *[50] * 20), IO_ONLY)
    # 90,000 wait at 2,100 s; each second 100 are served and 50 arrive: 1,800 s
    assert spans(result.spells) == [(1_800, 3_900)]


def test_the_worked_example_of_the_module():
    m5_large = InstanceBuckets(
        io=Bucket(capacity=27_270_000, refill_per_s=3_600, burst_per_s=18_750), throughput=WIDE
    )
    result = simulate(load_of(*[9_660] * 20, *[0] * 20), m5_large)
    assert spans(result.spells) == [(4_500, 8_525)]
    assert result.io.spells[0].max_waiting == pytest.approx(9_090_000)
    assert lowest_if_bursts(load_of(3_600), InstanceBucket.IO, m5_large.io) == pytest.approx(96.8)


def test_a_load_above_the_maximum_is_held_back_although_the_bucket_is_not_empty():
    result = simulate(load_of(500, 0, 0), IO_ONLY)
    # 30,000 operations wait at 300 s and take 75 s at 400
    assert not result.spells
    assert result.at_maximum_s == pytest.approx(375)
    assert not result.is_sufficient
    # 375 s at full burst cost 375 x 300 = 112,500
    assert result.io.lowest_pct == pytest.approx(100 - 112_500 / 5_400)


def test_an_empty_bucket_spares_the_other_one():
    throughput = Bucket(capacity=54_000, refill_per_s=10, burst_per_s=40)
    buckets = InstanceBuckets(io=SMALL, throughput=throughput)
    # 400 operations of 0.04 MiB: 16 MiB/s, 6 above the baseline, so 54,000 last 9,000 s if all were served
    result = simulate(load_of(*[400] * 40, mib=0.04), buckets)
    assert spans(result.io.spells) == [(1_800, 12_000)]
    assert not result.throughput.spells
    # from 1,800 s on 100 operations a second are 4 MiB/s, and the bucket refills
    assert result.throughput.lowest_pct == pytest.approx(100 - 6 * 1_800 / 540)


def test_both_buckets_can_be_empty_at_different_times():
    throughput = Bucket(capacity=1_800, refill_per_s=10, burst_per_s=40)
    buckets = InstanceBuckets(io=SMALL, throughput=throughput)
    large = [LoadInterval(0, 300, 3_000, 9_000), *load_of(None, *[0] * 11)]
    small = [LoadInterval(3_600 + i * 300, 300, 120_000, 0) for i in range(8)]
    result = simulate([*large, *small], buckets)
    assert spans(result.throughput.spells) == [(90, 720)]
    assert spans(result.io.spells) == [(5_400, 6_000)]
    assert [result.buckets_of(spell) for spell in result.spells] == [
        [InstanceBucket.THROUGHPUT],
        [InstanceBucket.IO],
    ]


def test_spells_less_than_fifteen_minutes_apart_are_one():
    # 90,000 wait until 3,000 s, 150,000 come back by 4,500 s, and 400 a second spend them in 500 s
    apart = simulate(load_of(*[400] * 7, *[0] * 8, *[400] * 3), IO_ONLY)
    assert spans(apart.spells) == [(1_800, 3_000), (5_000, 5_400)]
    # 90,000 wait until 3,000 s, 30,000 come back by 3,300 s, and 400 a second spend them in 100 s
    near = simulate(load_of(*[400] * 7, *[0] * 4, *[400] * 2), IO_ONLY)
    assert spans(near.spells) == [(1_800, 3_900)]
    assert near.empty_s == pytest.approx(3_900 - 1_800 - 400)


def test_load_of_almost_nothing_behind_a_queue_ends():
    result = simulate(load_of(*[400] * 7, 5e-324, *[0] * 20), IO_ONLY)
    assert spans(result.spells) == [(1_800, 3_000)]


def test_a_hole_neither_refills_nor_drains():
    result = simulate(load_of(*[400] * 3, *[None] * 20, *[400] * 2), IO_ONLY)
    assert result.io.lowest_pct == pytest.approx(100 - 5 * 300 * 300 / 5_400)


def test_a_type_without_a_bucket_is_never_empty_and_may_be_at_its_maximum():
    result = simulate(load_of(500, 0), InstanceBuckets(io=SUSTAINED, throughput=WIDE))
    assert result.io.lowest_pct is None
    assert not result.spells
    assert result.at_maximum_s == pytest.approx(375)


def test_volumes_that_cannot_exceed_the_baseline_cannot_drain_it():
    limited = Bucket(capacity=540_000, refill_per_s=100, burst_per_s=80)
    result = simulate(load_of(*[90] * 20), InstanceBuckets(io=limited, throughput=WIDE))
    assert result.io.lowest_pct == 100
    assert result.at_maximum_s
    assert lowest_if_bursts(load_of(*[90] * 20), InstanceBucket.IO, limited) == 100


@pytest.mark.parametrize("reset_at_s", [600, 750], ids=["between intervals", "within an interval"])
def test_a_reset_fills_both_buckets(reset_at_s):
    result = simulate(load_of(*[400] * 4), IO_ONLY, resets_at_s=[reset_at_s])
    assert result.io.balances_pct[-1] == pytest.approx(100 - (1_200 - reset_at_s) * 300 / 5_400)
    assert len(result.io.balances_pct) == 4


def test_a_reset_in_a_hole_counts_when_the_load_goes_on():
    result = simulate(load_of(*[400] * 4, None, 100), IO_ONLY, resets_at_s=[1_300])
    assert result.io.balances_pct[-1] == 100


def test_the_bound_takes_one_burst_before_and_one_after_the_end_of_an_interval():
    # 60,000 operations: 150 s at 400, which cost 45,000 each: 90,000 of 540,000 are 16.7 %
    assert lowest_if_bursts(load_of(200, 200), InstanceBucket.IO, SMALL) == pytest.approx(
        100 - 2 * 45_000 / 5_400
    )


def test_the_bound_includes_what_even_a_burst_cannot_serve_at_once():
    # 240,000 operations take 600 s at 400, which cost 180,000 of 540,000; the second 300 s are at risk twice
    assert lowest_if_bursts(load_of(800, 0, 0), InstanceBucket.IO, SMALL) == pytest.approx(
        100 - 180_000 / 5_400
    )


def test_the_bound_is_not_below_zero():
    assert lowest_if_bursts(load_of(*[400] * 20), InstanceBucket.IO, SMALL) == 0


RATES = st.lists(st.floats(0, 600), min_size=1, max_size=60)


@given(RATES, st.floats(0, 0.5))
def test_balances_stay_within_the_bucket_and_the_bound_is_never_above(rates, mib):
    buckets = InstanceBuckets(io=SMALL, throughput=Bucket(capacity=9_000, refill_per_s=10, burst_per_s=60))
    load = load_of(*rates, mib=mib)
    result = simulate(load, buckets)
    for kind in InstanceBucket:
        own = result.of(kind)
        assert all(0 <= pct <= 100 for pct in own.balances_pct)
        if not result.at_maximum_s and not result.spells:
            assert lowest_if_bursts(load, kind, buckets.of(kind)) <= own.lowest_pct + 1e-6


@given(RATES, st.integers(0, 5))
def test_after_enough_idle_time_everything_is_served_and_the_bucket_is_full(rates, idle_hours):
    load = load_of(*rates, *[0] * (12 * idle_hours + 400))
    result = simulate(load, IO_ONLY)
    assert result.io.balances_pct[-1] == 100
    if result.spells:
        assert result.spells[-1].end_s < load[-1].end_s


@given(RATES, st.data())
def test_any_burst_within_the_intervals_stays_above_the_bound(rates, data):
    rates = [min(rate, 400) for rate in rates]
    bursts = []
    for index, rate in enumerate(rates):
        burst_s = int(300 * rate / 400)
        offset_s = data.draw(st.integers(0, 300 - burst_s))
        at_s = index * 300
        parts = (
            (0, offset_s, 0),
            (offset_s, burst_s, 400 * burst_s),
            (offset_s + burst_s, 300 - offset_s - burst_s, 0),
        )
        bursts += [LoadInterval(at_s + begin, length, ops, 0) for begin, length, ops in parts if length]
    bound = lowest_if_bursts(load_of(*rates), InstanceBucket.IO, SMALL)
    lowest = simulate(bursts, IO_ONLY).io.lowest_pct
    assert lowest >= bound - 1e-6
