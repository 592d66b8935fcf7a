from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstlab.model.loads.load import Cycle, Steady
from burstlab.model.metered_resource import (
    METERED_MIB,
    MIB,
    OPERATIONS,
    CreditPool,
    Limit,
    MeteredResource,
    cost_per_operation,
)
from burstlab.model.minute_history import MinuteHistory

START_S = int(datetime(2026, 11, 20, 18, tzinfo=UTC).timestamp())


def a_resource(load, *, pools, limits=(), starts_at_s=START_S):
    resource = MeteredResource("r-1", load, starts_at_s)
    resource.pools, resource.limits = pools, limits
    resource.balances = {name: MinuteHistory() for name in pools}
    return resource


def a_pool(capacity=6_000.0, refill=1.0, burst=11.0, **changes):
    return CreditPool(
        **{"unit": OPERATIONS, "capacity": capacity, "refill_per_s": refill, "burst_per_s": burst} | changes
    )


def minutes(resource, name=None):
    """(least credits, operations served) of each closed minute."""
    history = resource.balances[name] if name else resource.operations
    return [
        (run.minimum + index * run.step, run.read_ops + run.write_ops)
        for run in history.runs(0, 10_000)
        for index in range(run.minute_count)
    ]


def test_a_bucket_drains_by_the_difference_and_then_serves_what_it_earns():
    # 6,000 credits, 11 served and 1 earned a second: empty after 600 s
    resource = a_resource(Steady(0, 20), pools={"a": a_pool()})
    resource.catch_up(START_S + 1_200)
    assert [least for least, _ in minutes(resource, "a")] == [
        *(6_000 - 600 * minute for minute in range(1, 11)),
        *([0.0] * 10),
    ]
    assert [served for _, served in minutes(resource)] == [660.0] * 10 + [60.0] * 10
    assert resource.pools["a"].first_empty_at_s == START_S + 600
    # 9 of 20 lost in the first 600 s, 19 in the second
    assert resource.lost_operations == pytest.approx(9 * 600 + 19 * 600)
    assert resource.throttled_s == 1_200


def test_a_floor_is_served_without_being_earned():
    resource = a_resource(Steady(0, 20), pools={"a": a_pool(sustained_per_s=5.0)})
    resource.pools["a"].credits = 0.0
    resource.catch_up(START_S + 120)
    assert [served for _, served in minutes(resource)] == [300.0, 300.0]
    assert resource.pools["a"].credits == 0
    resource.set_load(Steady(0, 3), START_S + 120)
    resource.catch_up(START_S + 240)
    assert resource.pools["a"].credits == 0  # 3 is below the floor, and still more than the 1 that is earned


def test_an_idle_bucket_refills_and_stops_at_its_capacity():
    resource = a_resource("idle", pools={"a": a_pool()})
    resource.pools["a"].credits = 5_900.0
    resource.catch_up(START_S + 600)
    assert resource.pools["a"].credits == 6_000
    assert [least for least, _ in minutes(resource, "a")][:3] == [5_900.0, 5_960.0, 6_000.0]


def test_the_tightest_of_several_buckets_holds_the_others_back():
    # 16 KiB an operation: 1 MiB/s sustained are 64 operations a second
    pools = {
        "io": a_pool(burst=100.0, refill=10.0),
        "bytes": a_pool(unit=MIB, capacity=60.0, refill=1.0, burst=2.0),
    }
    resource = a_resource(Steady(0, 100), pools=pools)
    resource.catch_up(START_S + 60)
    # 100 operations are 1.5625 MiB: the bytes last 60 / 0.5625 = 106.7 s, the operations 6,000 / 90 = 66.7 s
    assert pools["bytes"].credits == pytest.approx(60 - 60 * 0.5625)
    assert pools["io"].credits == pytest.approx(6_000 - 60 * 90)
    resource.catch_up(START_S + 120)
    assert pools["io"].first_empty_at_s == pytest.approx(START_S + 6_000 / 90)
    # from then on 10 operations a second are 0.156 MiB, so the bytes refill
    assert pools["bytes"].empty_since_s is None


def test_a_limit_without_a_bucket_holds_at_any_time():
    resource = a_resource(Steady(0, 100), pools={}, limits=(Limit(1.0, MIB), Limit(80.0, OPERATIONS)))
    resource.catch_up(START_S + 60)
    assert resource.served_per_s == 64


def test_a_third_of_what_is_read_is_metered():
    assert cost_per_operation(1.0, 1_024)[METERED_MIB] == pytest.approx(1 / 3)
    assert cost_per_operation(0.0, 512) == {OPERATIONS: 1.0, MIB: 0.5, METERED_MIB: 0.5}


def test_a_stopped_resource_publishes_nothing_and_refills():
    resource = a_resource(Steady(0, 20), pools={"a": a_pool()})
    resource.catch_up(START_S + 60)
    resource.running = False
    resource.catch_up(START_S + 120)
    assert len(minutes(resource)) == 1
    assert resource.pools["a"].credits == 6_000 - 600 + 60


def test_a_planned_load_starts_at_its_second():
    resource = a_resource("idle", pools={"a": a_pool()})
    resource.set_load(Steady(0, 11), START_S + 90)
    resource.catch_up(START_S + 120)
    assert resource.pools["a"].credits == 6_000 - 30 * 10


def test_a_load_in_the_past_and_an_unknown_bucket_are_refused():
    resource = a_resource("idle", pools={"a": a_pool()})
    resource.catch_up(START_S + 60)
    with pytest.raises(ValueError, match="in the past"):
        resource.set_load("idle", START_S)
    with pytest.raises(ValueError, match="no bucket 'b' now"):
        resource.set_balance(50, "b")
    with pytest.raises(ValueError, match="give 0 to 100"):
        resource.set_balance(101, "a")


LOADS = st.lists(
    st.tuples(st.sampled_from([5, 10, 15, 30, 60, 90]), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(steps=LOADS, start_pct=st.integers(0, 100), floor=st.sampled_from([1.0, 4.0]))
def test_the_closed_form_agrees_with_a_simulation_second_by_second(steps, start_pct, floor):
    load = Cycle(tuple((seconds, float(reads), float(writes)) for seconds, reads, writes in steps))
    pool = a_pool(sustained_per_s=floor, capacity=2_000.0)
    pool.credits = 2_000.0 * start_pct / 100
    resource = a_resource(load, pools={"a": pool})
    resource.catch_up(START_S + 900)

    credits_left, parts = 2_000.0 * start_pct / 100, 8
    for second in range(900):
        reads, writes, _ = load.segment(START_S + second, START_S)
        for _ in range(parts):
            ceiling = 11.0 if credits_left > 1e-9 else floor
            rate = 1.0 - min(reads + writes, ceiling)
            credits_left = min(2_000.0, max(0.0, credits_left + rate / parts))
    # the simulation notices a bound a part of a second late
    assert pool.credits == pytest.approx(credits_left, abs=5)


@settings(max_examples=40, deadline=None)
@given(
    steps=LOADS, start_pct=st.integers(0, 100), parts=st.lists(st.integers(1, 900), min_size=1, max_size=5)
)
def test_the_moments_at_which_it_is_read_change_nothing(steps, start_pct, parts):
    load = Cycle(tuple((seconds, float(reads), float(writes)) for seconds, reads, writes in steps))
    results = []
    for stops in ([7_200], [*(sum(parts[: count + 1]) for count in range(len(parts))), 7_200]):
        resource = a_resource(load, pools={"a": a_pool(capacity=2_000.0)})
        resource.pools["a"].credits = 20.0 * start_pct
        for stop_s in stops:
            resource.catch_up(START_S + stop_s)
        results.append((minutes(resource, "a"), minutes(resource), resource.lost_operations))
    (levels, served, unserved), (other_levels, other_served, other_unserved) = results
    assert [least for least, _ in levels] == pytest.approx([least for least, _ in other_levels], abs=0.01)
    assert [count for _, count in served] == pytest.approx([count for _, count in other_served], abs=0.01)
    assert unserved == pytest.approx(other_unserved, abs=0.1)
