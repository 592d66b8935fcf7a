from datetime import timedelta

import pytest

from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START


def a_fleet(**chosen):
    """A 100 GiB volume is 60 s in modifying and 1,000 s in optimizing."""
    pace = {"modifying_s": 60, "modify_minutes_per_tib": 1024 / 6, "modify_spread": 0}
    return LabFleet(LabClock.manual(START), LabSettings(**pace | chosen))


def event_details(fleet):
    return [(event.name, event.result) for event in fleet.events]


def test_a_modification_sends_an_event_at_each_of_its_states_in_aws_shape():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=100))
    fleet.clock.advance(5)
    fleet.modify(volume_id, volume_type="gp3")
    assert [event.result for event in fleet.events] == ["modifying"]
    fleet.clock.advance(60)
    assert [event.result for event in fleet.events] == ["modifying", "optimizing"]
    fleet.clock.advance(5_000)
    first, second, third = fleet.events
    assert third.occurred_at == START + timedelta(seconds=1_065)
    assert (third.number, third.name, third.result, third.volume_id) == (
        3,
        "modifyVolume",
        "completed",
        volume_id,
    )
    request_id = first.body["detail"]["request-id"]
    assert second.body == {
        "version": "0",
        "id": second.body["id"],
        "detail-type": "EBS Volume Notification",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-11-20T18:01:05Z",
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{volume_id}"],
        "detail": {"result": "optimizing", "cause": "", "event": "modifyVolume", "request-id": request_id},
    }
    assert len({event.body["id"] for event in fleet.events}) == 3


def test_the_lifecycle_of_a_volume_emits_events():
    fleet = a_fleet()
    fleet.add(LabVolume(size_gib=100))  # older than the fleet: nothing to report
    volume_id = fleet.add(LabVolume(size_gib=100, created_at=START))
    fleet.clock.advance(60)
    fleet.detach(volume_id)
    fleet.attach(volume_id)
    fleet.remove(volume_id)
    assert event_details(fleet) == [
        ("createVolume", "available"),
        ("attachVolume", "succeeded"),
        ("DetachVolume", None),
        ("attachVolume", "succeeded"),
        ("deleteVolume", "deleted"),
    ]
    call = fleet.events[2].body
    assert (call["detail-type"], call["source"]) == ("AWS API Call via CloudTrail", "aws.ec2")
    assert call["detail"]["eventName"] == "DetachVolume"
    assert call["detail"]["requestParameters"] == {"volumeId": volume_id}


def test_a_detach_is_reported_only_where_there_is_a_trail():
    fleet = a_fleet(has_trail=False)
    fleet.detach(fleet.add(LabVolume(size_gib=100)))
    assert fleet.events == []


def test_which_results_raise_an_event_is_chosen():
    fleet = a_fleet(modify_event_results=("optimizing", "completed"))
    fleet.modify(fleet.add(LabVolume(size_gib=100)), volume_type="gp3")
    fleet.clock.advance(5_000)
    assert event_details(fleet) == [("modifyVolume", "optimizing"), ("modifyVolume", "completed")]


# what arrives of the events 1 to 6
DELIVERY_FAULTS = [
    ({}, [1, 2, 3, 4, 5, 6]),
    ({"lose_event_every": 3}, [1, 2, 4, 5]),
    ({"double_event_every": 3}, [1, 2, 3, 3, 4, 5, 6, 6]),
    ({"swap_event_every": 3}, [1, 2, 4, 3, 5]),  # the sixth waits for a seventh
    ({"swap_event_every": 2, "lose_event_every": 3}, [1, 2, 5, 4]),
    ({"lose_event_every": 1}, []),
]


@pytest.mark.parametrize(("chosen", "arrived"), DELIVERY_FAULTS)
def test_events_can_be_lost_doubled_and_swapped(chosen, arrived):
    fleet = a_fleet(**chosen)
    ids = fleet.add_all([LabVolume(size_gib=100)] * 2)
    expected = []
    for volume_id in ids:
        fleet.modify(volume_id, volume_type="gp3")
        expected += [(volume_id, state) for state in ("modifying", "optimizing", "completed")]
        fleet.clock.advance(1_060)
    assert [(event.volume_id, event.result) for event in fleet.events] == [
        expected[number - 1] for number in arrived
    ]
    assert [event.number for event in fleet.events] == list(range(1, len(arrived) + 1))


def test_a_doubled_event_is_the_same_event():
    fleet = a_fleet(double_event_every=1)
    fleet.modify(fleet.add(LabVolume(size_gib=100)), volume_type="gp3")
    first, again = fleet.events
    assert first.body == again.body


def test_events_of_several_volumes_come_in_the_order_of_time():
    fleet = a_fleet()
    large, small = fleet.add(LabVolume(size_gib=1_000)), fleet.add(LabVolume(size_gib=100))
    fleet.modify(large, volume_type="gp3")
    fleet.clock.advance(10)
    fleet.modify(small, volume_type="gp3")
    fleet.clock.advance(20_000)
    assert [(event.volume_id == small, event.result) for event in fleet.events] == [
        (False, "modifying"),
        (True, "modifying"),
        (False, "optimizing"),
        (True, "optimizing"),
        (True, "completed"),
        (False, "completed"),
    ]


def test_events_are_the_same_in_every_run():
    def run():
        fleet = a_fleet(modify_spread=0.5)
        fleet.modify(fleet.add(LabVolume(size_gib=100)), volume_type="gp3")
        fleet.clock.advance(5_000)
        return [event.body for event in fleet.events]

    assert run() == run()
