"""A region whose listing takes longer than a lease, and longer than the time between two sweeps."""

from datetime import UTC, datetime

import pytest
from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws import cloudwatch, ec2
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_services

START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
START_S = int(START.timestamp())


class InvocationEnded(BaseException):
    """The function was stopped at its timeout."""


class Region:
    """Pages of one volume; ``on_page`` may let time pass, or do what another process does at that time."""

    def __init__(self, endpoint, ledger):
        self.fleet, self.ledger = endpoint.fleet, ledger
        session = Session(
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1"
        )
        self.shell = build_services(
            session,
            endpoint_url=endpoint.url,
            policy=Policy(),
            ledger=ledger,
            channels=(),
            account="123456789012",
        )
        self.time_s = float(START_S)
        self.per_page_s = 0.0
        self.on_page = lambda: None
        volumes = self.shell.ec2.volumes

        def slow_volumes(filters, *, report_failure, on_page):
            def turn_page():
                self.time_s += self.per_page_s
                self.on_page()
                on_page()

            return volumes(filters, report_failure=report_failure, on_page=turn_page)

        self.shell.ec2.volumes = slow_volumes

    def tick(self, kind, minute=None):
        now_s = self.time_s if minute is None else START_S + 60 * minute
        self.time_s = max(self.time_s, now_s)
        return run_tick(self.shell, tick_at_s=int(now_s // 60) * 60, now_s=now_s, kind=kind)


@pytest.fixture
def region(monkeypatch):
    monkeypatch.setattr(ec2, "PAGE_SIZE", 5)
    fleet = LabFleet(LabClock.manual(START), LabSettings())
    fleet.add_all([LabVolume(size_gib=100)] * 35)
    with Endpoint(fleet) as endpoint, SqliteLedger.in_memory() as ledger:
        region = Region(endpoint, ledger)
        make = Services.build_collector

        def build_collector(shell, now_s):
            created = make(shell, now_s)
            created.monotonic = lambda: region.time_s
            created.__post_init__()
            return created

        monkeypatch.setattr(Services, "build_collector", build_collector)
        yield region


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
