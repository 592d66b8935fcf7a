"""A database that is started, renamed or given another class: what was measured before says nothing."""

import pytest

from burstctl.context.on_demand_pass import assess_volumes, evaluate_fleet
from burstlab.model.database import CLASS_IO, STORAGE, LabDatabase
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.policy import Policy
from support.lab.lab_start import START
from support.watch_pass_setup import PAST, tick, warm_up

POLICY = Policy.from_mapping({"version": "1", "resources": {"rds": {"watch": "true"}}})

pytestmark = pytest.mark.pass_policy(POLICY)

ON_GP3 = {"storage_type": "gp3", "allocated_gib": 400, "iops": 12_000, "throughput_mib_s": 500}


def add_database(lab, **facts):
    facts = {"identifier": "orders", "instance_class": "db.m5.large", "starts_at": START - PAST} | facts
    lab.fleet.databases.add(LabDatabase(**facts))
    warm_up(lab)


def watch_for(shell, lab, minutes):
    for _ in range(minutes):
        tick(shell, lab, minutes=1)


def run_once(shell, lab):
    return evaluate_fleet(shell, now_s=lab.fleet.now_s())


def reasons(report):
    return {d.assessment.kind.name: d.assessment.unknown_reason for d in report.decisions}


def test_a_larger_class_begins_with_nothing_known_of_its_buckets(shell, lab, recorder):
    add_database(lab, load="steady:12000@16%0", io_pct=0, **ON_GP3)
    watch_for(shell, lab, 20)
    assert {alert.level for alert in recorder.alerts} == {Level.EXHAUSTED}
    recorder.alerts.clear()
    lab.fleet.databases.set_load("orders", "idle")
    lab.fleet.databases.set_class("orders", "db.m5.2xlarge")
    lab.clock.advance(120)
    report = assess_volumes(shell, ["db:orders"], now_s=lab.fleet.now_s())
    assert reasons(report)[CLASS_IO] is UnknownReason.TOO_NEW
    watch_for(shell, lab, 90)
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.RECOVERED]


def test_another_class_changes_nothing_about_the_storage(shell, lab, recorder):
    add_database(lab, load="steady:3000@16%0", balance_pct=0)
    watch_for(shell, lab, 20)
    assert [alert.level for alert in recorder.alerts] == [Level.EXHAUSTED]
    lab.fleet.databases.set_class("orders", "db.m5.2xlarge")
    lab.clock.advance(120)
    report = assess_volumes(shell, ["db:orders"], now_s=lab.fleet.now_s())
    assert {d.assessment.kind.name: d.level for d in report.decisions}[STORAGE] is Level.EXHAUSTED
    watch_for(shell, lab, 60)
    assert len(recorder.alerts) == 1


def test_a_database_that_is_started_after_a_pause_is_new_to_a_single_pass(shell, lab, recorder):
    add_database(lab)
    run_once(shell, lab)
    lab.fleet.databases.set_running("orders", running=False)
    lab.clock.advance(40 * 60)
    report = run_once(shell, lab)
    assert reasons(report)[STORAGE] is UnknownReason.INSTANCE_STOPPED
    lab.fleet.databases.set_running("orders", running=True)
    lab.clock.advance(60)
    report = run_once(shell, lab)
    assert reasons(report)[STORAGE] is UnknownReason.TOO_NEW
    lab.clock.advance(20 * 60)
    assert set(reasons(run_once(shell, lab)).values()) == {None}
    assert recorder.alerts == []
    assert shell.ledger.states() == {}


def test_a_stopped_database_is_written_to_the_ledger_once(shell, lab, ledger, recorder):
    add_database(lab)
    watch_for(shell, lab, 20)
    lab.fleet.databases.set_running("orders", running=False)
    watch_for(shell, lab, 10)
    states = dict(ledger.states())
    assert {state.reading.unknown_reason for state in states.values()} == {UnknownReason.INSTANCE_STOPPED}
    watch_for(shell, lab, 60)
    assert ledger.states() == states
    assert recorder.alerts == []


def test_a_renamed_database_is_new_in_each_of_its_buckets(shell, lab, recorder):
    """A calm bucket is not remembered, so its database is known by the other buckets."""
    add_database(lab, load="steady:3000@16%0", balance_pct=0)
    watch_for(shell, lab, 20)
    recorder.alerts.clear()
    lab.fleet.databases.rename("orders", "orders-old")
    for minutes in (1, 5, 20):
        lab.clock.advance(60 * minutes)
        report = run_once(shell, lab)
        assert UnknownReason.TELEMETRY_GAP not in reasons(report).values()
    assert recorder.alerts == []


@pytest.mark.parametrize("minutes", [20, 24 * 60])
def test_a_renamed_database_is_judged_though_no_pass_recorded_its_name(shell, lab, minutes):
    """The end of the data under the former name shows since when those under the present one are its own."""
    add_database(lab, load="steady:3000@16%0", balance_pct=0)
    watch_for(shell, lab, 20)
    lab.fleet.databases.rename("orders", "orders-old")
    lab.clock.advance(60 * minutes)
    report = assess_volumes(shell, ["db:orders-old"], now_s=lab.fleet.now_s())
    [storage] = [d for d in report.decisions if d.assessment.kind.name == STORAGE]
    assert (storage.assessment.unknown_reason, storage.level) == (None, Level.EXHAUSTED)


def test_data_of_another_database_under_the_present_name_is_not_judged(shell, lab):
    add_database(lab, load="steady:3000@16%0", balance_pct=0)
    watch_for(shell, lab, 20)
    lab.fleet.databases.rename("orders", "orders-old")
    lab.fleet.databases.add(LabDatabase(identifier="orders", starts_at=START - PAST))
    lab.clock.advance(60 * 20)
    report = assess_volumes(shell, ["db:orders-old"], now_s=lab.fleet.now_s())
    [storage] = [d for d in report.decisions if d.assessment.kind.name == STORAGE]
    assert storage.assessment.unknown_reason is UnknownReason.TOO_NEW
    assert "before a pass of burstctl watch saw its present name" in storage.assessment.unknown_because


@pytest.mark.parametrize("status", ["creating", "starting"])
def test_a_database_that_is_not_up_yet_is_new_until_it_publishes(shell, lab, recorder, status):
    add_database(lab)
    run_once(shell, lab)
    database = lab.fleet.databases.find("orders")
    database.gaps.append((lab.fleet.now_s(), lab.fleet.now_s() + 45 * 60))
    database.transient_status = status
    for _ in range(4):
        lab.clock.advance(10 * 60)
        assert set(reasons(run_once(shell, lab)).values()) == {UnknownReason.TOO_NEW}
    database.transient_status = None
    lab.clock.advance(60)
    assert set(reasons(run_once(shell, lab)).values()) == {UnknownReason.TOO_NEW}
    lab.clock.advance(14 * 60)
    assert set(reasons(run_once(shell, lab)).values()) == {None}
    assert recorder.alerts == []
