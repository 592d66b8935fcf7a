"""A database that gets another name keeps its open alert and its hold, and causes no alert by that."""

from contextlib import suppress

import pytest

from burstlab.model.database import LabDatabase
from burstwatch.adapters.aws import rds
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.event_pass import evaluate_databases
from burstwatch.engine.resource_readers import DatabaseReader
from support.lab.lab_start import START
from support.ledger.ledger_stores import LEDGER_KINDS
from support.watch_pass_setup import PAST, services_with, tick, warm_up

POLICY = Policy.from_mapping({"version": "1", "resources": {"rds": {"watch": "true"}}})

pytestmark = [pytest.mark.pass_policy(POLICY), pytest.mark.parametrize("ledger", LEDGER_KINDS, indirect=True)]

FULL_LOAD = "steady:3000@16%0"
STORAGE, OLD_STORAGE = "db:orders#rds-io", "db:orders-old#rds-io"


class CrashError(Exception):
    pass


class CrashingLedger:
    """A ledger whose process ends after this many writes of a state or a hold."""

    def __init__(self, ledger, writes):
        self._ledger, self._writes = ledger, writes

    def __getattr__(self, name):
        method = getattr(self._ledger, name)
        return self._counted(method) if name in ("commit", "place_hold", "lift_hold") else method

    def _counted(self, method):
        def write(*args, **named):
            if self._writes == 0:
                raise CrashError
            self._writes -= 1
            return method(*args, **named)

        return write


def add_database(lab, identifier="orders", **facts):
    lab.fleet.databases.add(LabDatabase(identifier=identifier, starts_at=START - PAST, **facts))


def watch_for(shell, lab, minutes):
    """Every tick of the first eleven minutes, with two sweeps; later those that sweep only."""
    end_s = lab.fleet.now_s() + 60 * minutes
    reports = [tick(shell, lab, minutes=1) for _ in range(min(minutes, 11))]
    while (left_s := end_s - lab.fleet.now_s()) > 0:
        to_sweep_s = 300 - lab.fleet.now_s() % 300
        reports.append(tick(shell, lab, minutes=min(left_s, to_sweep_s) / 60))
    return reports


def sweep(shell, lab):
    """The next tick that sweeps, without those before it."""
    return tick(shell, lab, minutes=5 - lab.fleet.now_s() % 300 / 60)


def alerted(recorder):
    return [(alert.kind, alert.resource["resource_id"]) for alert in recorder.alerts]


def an_empty_database(shell, lab, recorder, **facts):
    add_database(lab, load=FULL_LOAD, balance_pct=0, **facts)
    warm_up(lab)
    sweep(shell, lab)
    sweep(shell, lab)
    assert alerted(recorder) == [(AlertKind.EXHAUSTED, "db:orders")]
    recorder.alerts.clear()


def hold_on(name, now_s, reason="migration"):
    return Hold(volume_id=name, by="anna", reason=reason, placed_at_s=now_s, until_s=now_s + 86_400)


def test_an_open_alert_follows_the_database_to_its_new_name(shell, lab, recorder):
    an_empty_database(shell, lab, recorder, instance_class="db.m5.large")
    lab.fleet.databases.rename("orders", "orders-old")
    watch_for(shell, lab, 60)
    assert alerted(recorder) == []
    states = shell.ledger.states()
    assert {subject.partition("#")[0] for subject in states} == {"db:orders-old"}
    assert states[OLD_STORAGE].alerts.open_level is Level.EXHAUSTED
    lab.fleet.databases.set_load("orders-old", "idle")
    lab.fleet.databases.set_balance("orders-old", 80)
    watch_for(shell, lab, 30)
    assert alerted(recorder) == [(AlertKind.RECOVERED, "db:orders-old")]


def test_a_new_name_without_datapoints_is_a_gap_after_half_an_hour(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.rename("orders", "orders-old")
    database = lab.fleet.databases.find("orders-old")
    database.gaps.append((lab.fleet.now_s(), lab.fleet.now_s() + 86_400))
    watch_for(shell, lab, 29)
    assert alerted(recorder) == []
    watch_for(shell, lab, 8)
    assert alerted(recorder) == [(AlertKind.TELEMETRY_GAP, "db:orders-old")]


def test_the_history_of_both_names_shows_the_other_name(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.rename("orders", "orders-old")
    watch_for(shell, lab, 10)
    assert shell.ledger.entries(STORAGE)[-1].body["to"] == "it is named db:orders-old now"
    assert shell.ledger.entries(OLD_STORAGE)[0].body == {
        "from": "exhausted (as db:orders)",
        "to": "exhausted",
    }


def test_a_drain_goes_on_under_the_new_name(shell, lab, recorder):
    add_database(lab)
    warm_up(lab)
    watch_for(shell, lab, 6)
    lab.fleet.databases.set_load("orders", "steady:1500@16%30")
    while not recorder.alerts:
        tick(shell, lab, minutes=1)
    lab.fleet.databases.rename("orders", "orders-old")
    watch_for(shell, lab, 5)
    assert alerted(recorder) == [(AlertKind.DRAINING, "db:orders")]
    lab.fleet.databases.set_balance("orders-old", 0)
    watch_for(shell, lab, 10)
    assert alerted(recorder)[1:] == [(AlertKind.EXHAUSTED, "db:orders-old")]


def test_another_database_that_takes_the_old_name_is_a_new_one(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.rename("orders", "orders-old")
    add_database(lab, load="idle")
    reports = watch_for(shell, lab, 30)
    assert alerted(recorder) == []
    [level] = {decision.level for decision in reports[-1].decisions if decision.volume_id == STORAGE} or {
        Level.OK
    }
    assert level is Level.OK
    assert shell.ledger.states()[OLD_STORAGE].alerts.open_level is Level.EXHAUSTED


def test_a_database_known_by_another_name_takes_the_name(shell, lab, recorder):
    add_database(lab, load=FULL_LOAD, balance_pct=0)
    warm_up(lab)
    watch_for(shell, lab, 10)
    add_database(lab, "orders-new")
    lab.fleet.databases.set_balance("orders-new", 60)
    watch_for(shell, lab, 10)
    recorder.alerts.clear()  # the balance fell at once
    lab.fleet.databases.rename("orders", "orders-old")
    lab.fleet.databases.rename("orders-new", "orders")
    watch_for(shell, lab, 20)
    assert alerted(recorder) == []
    states = shell.ledger.states()
    assert states.keys() == {STORAGE, OLD_STORAGE}
    assert (states[STORAGE].level, states[OLD_STORAGE].level) == (Level.CRITICAL, Level.EXHAUSTED)


def two_databases_with_open_alerts(shell, lab, recorder):
    """orders is empty, and the balance of its successor fell at once."""
    an_empty_database(shell, lab, recorder)
    add_database(lab, "orders-green")
    lab.fleet.databases.set_balance("orders-green", 60)
    watch_for(shell, lab, 10)
    assert alerted(recorder) == [(AlertKind.DRAINING, "db:orders-green")]
    recorder.alerts.clear()


def switch_over(lab):
    """What a blue/green deployment of RDS does to the names."""
    lab.fleet.databases.rename("orders", "orders-old")
    lab.fleet.databases.rename("orders-green", "orders")


def open_levels(ledger):
    return {subject: state.alerts.open_level for subject, state in ledger.states().items()}


AFTER_SWITCHOVER = {STORAGE: Level.CRITICAL, OLD_STORAGE: Level.EXHAUSTED}


def evaluate_event(shell, lab):
    lab.clock.advance(30)
    evaluate_databases(shell, {"db:orders"}, now_s=lab.fleet.now_s())


def tick_once(shell, lab):
    tick(shell, lab, minutes=1)


both_looks = pytest.mark.parametrize("look", [tick_once, evaluate_event])


def change_lookup(patch, change):
    """Let RDS answer otherwise about these DbiResourceIds: ``change`` gets the IDs and the real lookup."""
    find = DatabaseReader.find_by_lasting_id
    patch.setattr(
        DatabaseReader,
        "find_by_lasting_id",
        lambda reader, ids: change(set(ids), lambda other_ids: find(reader, other_ids)),
    )


def without_reading(hidden_id):
    """The lookup if one of them cannot be read."""

    def look_up(ids, find):
        databases, unread_ids = find(ids - {hidden_id})
        return databases, {*unread_ids, *(ids & {hidden_id})}

    return look_up


@both_looks
def test_a_switchover_before_the_next_sweep_moves_both_alerts(shell, lab, ledger, recorder, look):
    two_databases_with_open_alerts(shell, lab, recorder)
    switch_over(lab)
    look(shell, lab)
    assert alerted(recorder) == []
    assert open_levels(ledger) == AFTER_SWITCHOVER


def leaving_out(hidden_id):
    """The lookup if the answer lacks one of them."""
    return lambda ids, find: find(ids - {hidden_id})


@both_looks
@pytest.mark.parametrize("changed_lookup", [without_reading, leaving_out])
def test_both_alerts_wait_until_rds_shows_who_had_the_name(
    shell, lab, ledger, recorder, look, changed_lookup, monkeypatch
):
    two_databases_with_open_alerts(shell, lab, recorder)
    former_id = ledger.states()[STORAGE].lasting_id
    switch_over(lab)
    with monkeypatch.context() as patch:
        change_lookup(patch, changed_lookup(former_id))
        look(shell, lab)
        assert ledger.states()[STORAGE].lasting_id == former_id
    watch_for(shell, lab, 14)
    assert alerted(recorder) == []
    assert open_levels(ledger) == AFTER_SWITCHOVER


def test_a_hold_waits_with_the_state_of_its_database(shell, lab, ledger, recorder, monkeypatch):
    two_databases_with_open_alerts(shell, lab, recorder)
    ledger.place_hold(hold_on("db:orders-green", lab.fleet.now_s()))
    former_id = ledger.states()[STORAGE].lasting_id
    switch_over(lab)
    with monkeypatch.context() as patch:
        change_lookup(patch, without_reading(former_id))
        watch_for(shell, lab, 3)
    assert [hold.volume_id for hold in ledger.holds(lab.fleet.now_s())] == ["db:orders-green"]
    watch_for(shell, lab, 14)
    assert [hold.volume_id for hold in ledger.holds(lab.fleet.now_s())] == ["db:orders"]


def test_a_sweep_waits_for_a_database_that_cannot_be_parsed(shell, lab, ledger, recorder, monkeypatch):
    two_databases_with_open_alerts(shell, lab, recorder)
    former_id = ledger.states()[STORAGE].lasting_id
    switch_over(lab)
    parse = rds.parse_database

    def parse_others(description):
        if description.get("DbiResourceId") == former_id:
            raise ValueError("broken")
        return parse(description)

    with monkeypatch.context() as patch:
        patch.setattr(rds, "parse_database", parse_others)
        for _ in range(3):
            sweep(shell, lab)
    watch_for(shell, lab, 14)
    assert alerted(recorder) == []
    assert open_levels(ledger) == AFTER_SWITCHOVER


@pytest.mark.parametrize("writes", range(0, 12, 3))
def test_three_databases_that_exchange_their_names_keep_their_alerts(shell, lab, ledger, recorder, writes):
    two_databases_with_open_alerts(shell, lab, recorder)
    add_database(lab, "spare")
    lab.fleet.databases.set_balance("spare", 55)
    watch_for(shell, lab, 10)
    recorder.alerts.clear()
    databases = lab.fleet.databases
    levels = {state.lasting_id: state.alerts.open_level for state in ledger.states().values()}
    for old, new in (("orders", "parked"), ("orders-green", "orders"), ("spare", "orders-green")):
        databases.rename(old, new)
    databases.rename("parked", "spare")
    crash_after(writes, lab, ledger, recorder)
    watch_for(shell, lab, 10)
    assert alerted(recorder) == []
    assert open_levels(ledger) == {
        f"db:{database.identifier}#rds-io": levels[database.resource_id] for database in databases
    }


def test_a_sweep_looks_for_no_database_that_is_listed(shell, lab, ledger, recorder, monkeypatch):
    an_empty_database(shell, lab, recorder)
    watched = {"rds": {"watch": "true"}, "instance": {"watch": "true"}}
    policy = Policy.from_mapping({"version": "1", "resources": watched})
    sought_ids = []
    change_lookup(monkeypatch, lambda ids, find: sought_ids.extend(ids) or find(ids))
    sweep(services_with(lab, ledger, recorder, policy=policy), lab)
    assert sought_ids == []


def test_an_event_about_a_known_database_reads_only_its_state(shell, lab, ledger, recorder, monkeypatch):
    an_empty_database(shell, lab, recorder)
    monkeypatch.setattr(ledger, "states", lambda: pytest.fail("it reads the whole ledger"))
    evaluate_event(shell, lab)


def swap_names(lab):
    lab.fleet.databases.rename("orders", "parked")
    lab.fleet.databases.rename("spare", "orders")
    lab.fleet.databases.rename("parked", "spare")


@pytest.mark.parametrize("writes", range(7))
def test_two_databases_that_swap_their_names_keep_their_alerts(shell, lab, ledger, recorder, writes):
    an_empty_database(shell, lab, recorder)
    add_database(lab, "spare")
    lab.fleet.databases.set_balance("spare", 60)
    sweep(shell, lab)
    sweep(shell, lab)
    recorder.alerts.clear()  # the balance fell at once
    swap_names(lab)
    crash_after(writes, lab, ledger, recorder)
    watch_for(shell, lab, 20)
    assert alerted(recorder) == []
    states = ledger.states()
    assert {subject: state.level for subject, state in states.items()} == {
        STORAGE: Level.CRITICAL,
        "db:spare#rds-io": Level.EXHAUSTED,
    }


def crash_after(writes, lab, ledger, recorder):
    """One tick of a process that ends after this many writes, if it gets that far."""
    crashing = services_with(lab, CrashingLedger(ledger, writes), recorder, policy=POLICY)
    with suppress(CrashError):
        tick(crashing, lab, minutes=1)


@pytest.mark.parametrize("writes", range(6))
def test_a_crash_between_any_two_writes_neither_loses_nor_doubles_the_alert(
    shell, lab, ledger, recorder, writes
):
    an_empty_database(shell, lab, recorder)
    ledger.place_hold(hold_on("db:orders", lab.fleet.now_s()))
    lab.fleet.databases.rename("orders", "orders-old")
    crash_after(writes, lab, ledger, recorder)
    watch_for(shell, lab, 20)
    assert alerted(recorder) == []
    states = ledger.states()
    assert states.keys() == {OLD_STORAGE}
    assert states[OLD_STORAGE].alerts.open_level is Level.EXHAUSTED
    assert [hold.volume_id for hold in ledger.holds(lab.fleet.now_s())] == ["db:orders-old"]


def test_a_hold_on_a_calm_database_follows_it(shell, lab, ledger, recorder):
    add_database(lab)
    warm_up(lab)
    watch_for(shell, lab, 20)
    ledger.place_hold(hold_on("db:orders", lab.fleet.now_s()))
    watch_for(shell, lab, 6)  # the next sweep remembers it
    lab.fleet.databases.rename("orders", "orders-old")
    lab.fleet.databases.set_load("orders-old", FULL_LOAD)
    lab.fleet.databases.set_balance("orders-old", 0)
    watch_for(shell, lab, 30)
    assert alerted(recorder) == []
    assert [hold.volume_id for hold in ledger.holds(lab.fleet.now_s())] == ["db:orders-old"]


def test_a_deleted_database_whose_name_another_one_has_ends_its_alert(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.remove("orders")
    add_database(lab, load="idle")
    watch_for(shell, lab, 30)
    assert alerted(recorder) == [(AlertKind.RECOVERED, "db:orders")]
    assert recorder.alerts[0].reading["unknown_because"] == "the database was deleted"


def test_a_deleted_database_without_a_successor_ends_its_alert(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.remove("orders")
    watch_for(shell, lab, 10)
    assert alerted(recorder) == [(AlertKind.RECOVERED, "db:orders")]
    assert shell.ledger.states() == {}


def test_an_event_about_the_new_name_sends_no_second_alert(shell, lab, recorder):
    an_empty_database(shell, lab, recorder)
    lab.fleet.databases.rename("orders", "orders-old")
    lab.clock.advance(180)
    evaluate_databases(shell, {"db:orders-old"}, now_s=lab.fleet.now_s())
    assert alerted(recorder) == []
    assert shell.ledger.states().keys() == {OLD_STORAGE}
