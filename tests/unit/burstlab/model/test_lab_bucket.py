import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstlab.model.bucket import FULL_CREDITS, serve, split_at_changes
from burstwatch.core.ebs.volume import baseline_iops

BASELINES = st.sampled_from([100, 102, 300, 1_002, 1_500, 2_997, 3_000, 16_000])
CREDITS = st.one_of(
    st.sampled_from([0.0, 1.0, 2_900.0, FULL_CREDITS - 1, FULL_CREDITS]), st.floats(0, FULL_CREDITS)
)
DEMANDS = st.one_of(st.sampled_from([0.0, 100.0, 300.0, 3_000.0]), st.floats(0, 20_000))


def step_by_second(baseline, held, demand_iops, seconds, backlog_ops=None):
    """The same physics, naively: each second serves what is asked as far as ceiling and held go."""
    served_ops, least = 0.0, held
    for _ in range(seconds):
        requested = demand_iops + (backlog_ops or 0)
        served = min(requested, max(baseline, 3_000), baseline + held)
        held = min(FULL_CREDITS, max(0.0, held + baseline - served))
        if backlog_ops is not None:
            backlog_ops = requested - served
        served_ops += served
        least = min(least, held)
    return held, served_ops, least, backlog_ops or 0.0


# Seconds at 3,000 IOPS until empty, and idle until full again, as printed in the EBS user guide
AWS_EXAMPLES = [(1, 1_862, 54_000), (100, 2_000, 18_000), (334, 2_703, 5_389), (750, 7_200, 2_400)]


@pytest.mark.parametrize(("size_gib", "burst_s", "refill_s"), AWS_EXAMPLES)
def test_a_full_bucket_lasts_and_refills_as_long_as_the_user_guide_states(size_gib, burst_s, refill_s):
    baseline = baseline_iops(size_gib)
    draining, empty = split_at_changes(
        baseline=baseline, credits_now=FULL_CREDITS, demand_iops=3_000, seconds=100_000
    )
    assert draining.duration_s == pytest.approx(burst_s, abs=0.5)
    assert (empty.served_iops, empty.credits_after) == (baseline, 0)
    refilling, full = split_at_changes(baseline=baseline, credits_now=0, demand_iops=0, seconds=100_000)
    assert refilling.duration_s == pytest.approx(refill_s, abs=0.5)
    assert full.credits_after == FULL_CREDITS


def test_an_empty_bucket_serves_its_baseline_and_loses_the_rest():
    # 100 GiB: 300 IOPS for 60 s = 18,000 of the 60,000 that were asked
    assert serve(baseline=300, credits_now=0, demand_iops=1_000, seconds=60) == (0, 18_000, 0, 0)


def test_queued_demand_is_served_later_at_full_burst():
    # 60 s at 4,000: 3,000 are served, 1,000/s wait, 60,000 in all. Then no request comes for 60 s: they are
    # gone after 20 s at 3,000, and 40 s earn 300/s. Left: 5.4 M - 60*2,700 - 20*2,700 + 40*300 = 5,196,000
    busy = serve(baseline=300, credits_now=FULL_CREDITS, demand_iops=4_000, seconds=60, backlog_ops=0)
    assert busy.backlog_ops == 60_000
    after = serve(
        baseline=300, credits_now=busy.credits, demand_iops=0, seconds=60, backlog_ops=busy.backlog_ops
    )
    assert after.credits == pytest.approx(5_196_000)
    assert after.served_ops == pytest.approx(60_000)
    assert after.min_credits == pytest.approx(5_184_000)
    assert after.backlog_ops == pytest.approx(0, abs=1e-6)


@settings(deadline=None)
@given(baseline=BASELINES, held=CREDITS, demand_iops=DEMANDS, seconds=st.integers(1, 4_000))
@example(baseline=300, held=2_700.5, demand_iops=3_000, seconds=3)
def test_closed_form_equals_stepping_second_by_second(baseline, held, demand_iops, seconds):
    exact = serve(baseline=baseline, credits_now=held, demand_iops=demand_iops, seconds=seconds)
    stepped = step_by_second(baseline, held, demand_iops, seconds)
    assert exact == pytest.approx(stepped, rel=1e-9, abs=1e-3)


@settings(deadline=None)
@given(
    baseline=BASELINES,
    held=CREDITS,
    demand_iops=DEMANDS,
    seconds=st.integers(1, 2_000),
    backlog_ops=st.floats(0, 1e6),
)
def test_closed_form_with_a_queue_equals_stepping_second_by_second(
    baseline, held, demand_iops, seconds, backlog_ops
):
    exact = serve(
        baseline=baseline,
        credits_now=held,
        demand_iops=demand_iops,
        seconds=seconds,
        backlog_ops=backlog_ops,
    )
    after, served_ops, least, backlog = step_by_second(baseline, held, demand_iops, seconds, backlog_ops)
    assert (exact.credits, exact.served_ops) == pytest.approx((after, served_ops), rel=1e-9, abs=1e-2)
    assert exact.backlog_ops == pytest.approx(backlog, rel=1e-9, abs=1e-2)
    # within the second in which the queue is worked off the bucket may dip below both ends of that second
    assert least - 3_000 <= exact.min_credits <= least + 1e-2


@settings(deadline=None)
@given(baseline=BASELINES, held=CREDITS, demand_iops=DEMANDS, seconds=st.floats(0.001, 1e6))
def test_credits_stay_in_the_bucket_and_service_under_its_ceiling(baseline, held, demand_iops, seconds):
    run = split_at_changes(baseline=baseline, credits_now=held, demand_iops=demand_iops, seconds=seconds)
    assert sum(piece.duration_s for piece in run) == pytest.approx(seconds)
    for piece in run:
        assert 0 <= piece.credits_after <= FULL_CREDITS
        assert piece.served_iops <= max(baseline, 3_000)
        assert piece.served_iops <= demand_iops


@settings(deadline=None)
@given(held=CREDITS, demand_iops=DEMANDS, seconds=st.integers(1, 100_000))
def test_a_volume_whose_baseline_reaches_the_burst_never_drains(held, demand_iops, seconds):
    served = serve(baseline=3_000, credits_now=held, demand_iops=demand_iops, seconds=seconds)
    assert served.min_credits >= held


@settings(deadline=None)
@given(baseline=BASELINES, held=CREDITS, demand_iops=DEMANDS, more=DEMANDS, seconds=st.integers(1, 10_000))
def test_more_demand_never_leaves_more_credits(baseline, held, demand_iops, more, seconds):
    less = serve(baseline=baseline, credits_now=held, demand_iops=demand_iops, seconds=seconds)
    greater = serve(baseline=baseline, credits_now=held, demand_iops=demand_iops + more, seconds=seconds)
    assert greater.credits <= less.credits + 1e-6
