"""A region whose listing takes longer than a lease, and longer than the time between two sweeps."""

import pytest

from burstwatch.adapters.aws import cloudwatch
from burstwatch.core.ledger.ledger import TickKind
from support.lab.paged_region import START_S


class InvocationEnded(BaseException):
    """The function was stopped at its timeout."""


def test_no_tick_takes_over_a_sweep_that_makes_progress(region):
    """Seven pages of 40 s: every focus tick in that time, and the next sweep's own, leave the sweep alone."""
    region.per_page_s = 40.0
    claims = []

    def another_process():
        tick_s = int(region.time_s // 300) * 300
        claims.append(region.ledger.claim_tick(TickKind.SWEEP, tick_s, now_s=region.time_s, lease_s=50.0))

    region.on_page = another_process
    assert region.tick(TickKind.SWEEP) is not None
    assert claims == [False] * 7
    assert region.ledger.fleet_snapshot().tick_at_s == START_S


def test_a_sweep_that_outlasts_the_grid_is_followed_by_one_sweep_of_what_is_overdue(region):
    region.per_page_s = 45.0
    region.tick(TickKind.SWEEP)
    assert region.time_s == START_S + 315
    region.per_page_s = 0.0
    assert region.tick(TickKind.FOCUS, minute=6) is not None
    assert region.ledger.fleet_snapshot().tick_at_s == START_S + 300


def test_focus_ticks_go_on_beside_a_long_sweep(region):
    region.per_page_s = 40.0
    results = []

    def focus_tick():
        region.on_page = lambda: None
        results.append(region.tick(TickKind.FOCUS))

    region.on_page = focus_tick
    region.tick(TickKind.SWEEP)
    assert results[0] is not None
    assert results[0].api_calls.get("ec2:DescribeVolumes", 0) == 0, "it does not sweep"


def test_a_sweep_that_lost_its_lease_ends_without_completing(region):
    """One call to EC2 hung for a minute, and another process took the sweep and did it."""
    region.per_page_s = 60.0

    def another_process():
        region.on_page = lambda: None
        assert region.ledger.claim_tick(TickKind.SWEEP, START_S, now_s=region.time_s, lease_s=50.0)

    region.on_page = another_process
    assert region.tick(TickKind.SWEEP) is None
    assert region.ledger.fleet_snapshot() is None


def test_a_sweep_that_waits_for_cloudwatch_keeps_its_lease(region, monkeypatch):
    monkeypatch.setattr(cloudwatch, "BATCH_SIZE", 5)
    claims = []
    read_batches = region.shell.cloudwatch.read_batches

    def slow_batches(queries, start_s, end_s):
        for batch in read_batches(queries, start_s, end_s):
            region.time_s += 40.0
            tick_s = int(region.time_s // 300) * 300
            claims.append(region.ledger.claim_tick(TickKind.SWEEP, tick_s, now_s=region.time_s, lease_s=50.0))
            yield batch

    monkeypatch.setattr(region.shell.cloudwatch, "read_batches", slow_batches)
    assert region.tick(TickKind.SWEEP) is not None
    assert len(claims) >= 7
    assert not any(claims)
    assert region.ledger.fleet_snapshot().tick_at_s == START_S


def test_a_sweep_that_loses_its_lease_while_it_assesses_records_nothing(region, monkeypatch):
    results = region.shell.cloudwatch.read

    def hangs(queries, **span):
        result = results(queries, **span)
        region.time_s += 60.0
        region.ledger.claim_tick(TickKind.SWEEP, START_S, now_s=region.time_s, lease_s=5000.0)
        return result

    monkeypatch.setattr(region.shell.cloudwatch, "read", hangs)
    assert region.tick(TickKind.SWEEP) is None
    assert not region.ledger.states()
    assert region.ledger.fleet_snapshot() is None


def test_a_tick_that_loses_its_sweep_still_evaluates_the_volumes_in_focus(region):
    assert len(region.tick(None).decisions) == 35
    assert all(state.next_poll_at_s for state in region.ledger.states().values())
    region.per_page_s = 60.0
    focus_s = START_S + 300

    def another_process():
        region.on_page = lambda: None
        assert region.ledger.claim_tick(TickKind.SWEEP, focus_s, now_s=region.time_s, lease_s=50.0)

    region.on_page = another_process
    report = region.tick(None, minute=5)
    assert len(report.decisions) == 35
    assert region.ledger.fleet_snapshot().tick_at_s == START_S, "the sweep is the other's to complete"
    assert not region.ledger.claim_tick(TickKind.FOCUS, focus_s, now_s=region.time_s + 1000, lease_s=50.0)


def test_no_sweep_is_lost_when_the_function_is_stopped_in_the_middle_of_one(region):
    region.per_page_s = 40.0
    pages = []

    def stop_at_fifth_page():
        pages.append(region.time_s)
        if len(pages) == 5:
            raise InvocationEnded

    region.on_page = stop_at_fifth_page
    with pytest.raises(InvocationEnded):
        region.tick(TickKind.SWEEP)
    region.on_page, region.per_page_s = lambda: None, 0.0
    region.tick(TickKind.FOCUS, minute=4)
    assert region.ledger.fleet_snapshot() is not None
    assert region.ledger.fleet_snapshot().tick_at_s == START_S
