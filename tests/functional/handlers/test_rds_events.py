"""RDS-EVENT-0189 at the settle function: a late second witness, which never causes a second alert."""

from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase, LowCredits, low_credits_event
from burstwatch.handlers.event_time import EventError
from support.builders.functions import deploy_functions, failed_message_ids
from support.cli.cli_session import START

WATCHING = "version: 1\nresources:\n  rds: {watch: true}\n"

pytestmark = pytest.mark.policy_file(WATCHING)


def add_database(lab, name="orders", **facts):
    """100 GiB of gp2 at 2,500 operations a second, below 10 % at 18:00 after 37 minutes."""
    facts = {"load": "steady:2500", "starts_at": START - timedelta(minutes=37)} | facts
    return lab.fleet.databases.add(LabDatabase(identifier=name, **facts))


def low_credits(lab, name="orders", age_s=0, **changes):
    """The event as EventBridge delivers it."""
    event = low_credits_event(LowCredits(lab.clock.now_s() - age_s, name), lab.fleet.settings)
    return {"version": "0", "id": "0", "account": "123456789012", "region": "us-east-1"} | event | changes


def test_a_database_whose_drain_was_not_noticed_is_alerted_at_once(functions, lab):
    add_database(lab)

    output = functions.settle(low_credits(lab))

    assert output.messages[0] == (
        "RDS says that credits are low (RDS-EVENT-0189): db:orders; 1 of 1 database evaluated"
    )
    [alert] = functions.alerts()
    assert (alert["kind"], alert["resource"]["resource_id"]) == ("BurstBalanceDraining", "db:orders")
    assert lab.faults.call_counts()["GetMetricData"] >= 1


def test_an_event_about_what_people_know_causes_no_second_alert(functions, lab):
    add_database(lab)
    functions.tick()
    assert functions.alert_kinds() == ["BurstBalanceDraining"]

    lab.clock.advance(30)
    functions.settle(low_credits(lab))

    assert functions.alert_kinds() == []


def test_events_that_come_twice_late_and_out_of_order_are_harmless(functions, lab):
    add_database(lab)
    lab.clock.advance(30)
    newer, older = low_credits(lab), low_credits(lab, age_s=240)

    functions.settle(newer, newer)
    functions.settle(older)
    functions.settle(newer)

    assert functions.alert_kinds() == ["BurstBalanceDraining"]
    stale = functions.settle(low_credits(lab, age_s=900))
    assert stale.warnings == ["1 event was older than 5 min (up to 15 min), and were dropped unread"]


def test_a_database_that_has_recovered_causes_no_alert(functions, lab):
    add_database(lab, load="idle")

    assert functions.settle(low_credits(lab)).messages[0].endswith("1 of 1 database evaluated")
    assert functions.alert_kinds() == []


@pytest.mark.parametrize("event_id", ["RDS-EVENT-0088", None])
def test_other_events_of_rds_are_ignored(functions, lab, event_id):
    add_database(lab)
    event = low_credits(lab)

    functions.settle(event | {"detail": event["detail"] | {"EventID": event_id}})

    assert "DescribeDBInstances" not in lab.faults.call_counts()
    assert functions.alert_kinds() == []


@pytest.mark.parametrize("resources", [None, "arn:aws:rds:us-east-1:1:db:orders", [7], ["arn:db:Bad Name"]])
def test_an_event_that_names_no_database_is_ignored(functions, lab, resources):
    functions.settle(low_credits(lab, resources=resources))

    assert "DescribeDBInstances" not in lab.faults.call_counts()


def test_a_database_that_was_renamed_or_deleted_is_left_to_the_next_sweep(functions, lab):
    add_database(lab)
    event = low_credits(lab)
    lab.fleet.databases.rename("orders", "orders-old")

    output = functions.settle(event)

    assert not failed_message_ids(output)
    assert functions.alert_kinds() == []


def test_a_database_that_cannot_be_read_is_tried_again(functions, lab):
    add_database(lab)
    lab.faults.add(Fault(action="DescribeDBInstances", code="InternalFailure", status=500))

    output = functions.settle(low_credits(lab))

    assert len(failed_message_ids(output)) == 1


def test_nothing_is_read_where_the_policy_does_not_watch_databases(monkeypatch):
    with deploy_functions(monkeypatch) as functions:
        add_database(functions.lab)
        functions.settle(low_credits(functions.lab))
        assert "DescribeDBInstances" not in functions.lab.faults.call_counts()


def test_an_event_of_rds_of_another_kind_is_not_understood(functions, lab):
    with pytest.raises(EventError, match="neither an event of EBS or RDS nor a ddprobe event"):
        functions.invoke("settle", low_credits(lab) | {"detail-type": "RDS DB Cluster Event"})


def test_the_lab_sends_the_event_that_the_function_understands(functions, lab):
    """The lab announces it 15 minutes after the balance fell below 10 %."""
    add_database(lab)
    lab.clock.advance(20 * 60)
    [event] = [event.body for event in lab.fleet.events if event.name == "RDS-EVENT-0189"]
    assert event["detail"]["SourceIdentifier"] == "orders"
    assert event["resources"] == low_credits(lab)["resources"]
