"""The settle function as EventBridge invokes it: EBS's events are hints to look early, and no more."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.core.watch import decide
from burstwatch.handlers.event_time import EventError
from burstwatch.handlers.pass_metrics import PassError
from support.builders.functions import (
    AUTO,
    an_event_message,
    evaluated_volumes,
    failed_message_ids,
    to_instant,
)
from support.cli.cli_session import (
    START,
    add_calm,
    add_critical,
    add_lab_volume,
    add_warning,
    count_modify_calls,
    modification_targets,
)

CRITICAL = {"burstwatch:critical": "true"}
MALFORMED_EVENTS = "vol-0feedfeedfeedfeed"


def an_event(volume_id, *, name="modifyVolume", result="completed", time=None, **changes):
    """As EventBridge hands it over."""
    return {
        "version": "0",
        "id": "00000000-0000-4000-8000-000000000000",
        "detail-type": "EBS Volume Notification",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": time or to_instant(START.timestamp()),
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{volume_id}"],
        "detail": {"result": result, "cause": "", "event": name, "request-id": ""},
    } | changes


def created_event(lab, volume_id):
    """The events that EBS has raised about a volume, as they arrived."""
    return [event.body for event in lab.fleet.events if event.volume_id == volume_id]


def complete_modification(functions, volume_id):
    """The modification is over, half a minute after the last tick."""
    functions.lab.clock.advance(30)
    functions.lab.fleet.end_modification(volume_id)
    functions.lab.clock.advance(2)


def test_a_modification_that_completes_is_settled_at_once(functions, lab, modifying_volume):
    complete_modification(functions, modifying_volume)
    output = functions.settle(created_event(lab, modifying_volume)[-1])
    assert functions.history(modifying_volume)[:3] == ["intent", "accepted", "reached"]
    assert not functions.ledger.states()[modifying_volume].flip.is_under_way
    assert evaluated_volumes(output) == 1
    assert output.lines[0]["message"] == "EBS reports modifyVolume; 1 of 1 volumes evaluated"
    assert output.lines[0]["volume_id"] == modifying_volume


def test_a_modification_that_fails_is_reported_at_once(functions, lab, modifying_volume):
    lab.clock.advance(30)
    lab.fleet.end_modification(modifying_volume, "failed")
    lab.clock.advance(2)
    functions.settle(created_event(lab, modifying_volume)[-1])
    assert functions.alert_kinds() == ["FlipFailed"]


def test_every_event_of_a_flip_is_taken_and_none_changes_the_content_of_the_ledger(
    functions, lab, modifying_volume
):
    complete_modification(functions, modifying_volume)
    for event in created_event(lab, modifying_volume):
        functions.settle(event)
    assert (count_modify_calls(lab), modification_targets(lab, modifying_volume)) == (1, ["gp3"])
    assert functions.history(modifying_volume) == ["intent", "accepted", "reached"]
    assert functions.alert_kinds() == ["BurstBalanceRecovered"]


def drop_all(events):
    return []


def deliver_twice(events):
    return [event for event in events for _ in range(2)]


def deliver_in_reverse(events):
    return events[::-1]


def deliver_late(events):
    return events[:1] * 3


@pytest.mark.parametrize("deliver", [drop_all, deliver_twice, deliver_in_reverse, deliver_late])
def test_lost_doubled_and_reordered_events_change_nothing_but_the_delay(
    functions, lab, modifying_volume, deliver
):
    complete_modification(functions, modifying_volume)
    for event in deliver(created_event(lab, modifying_volume)):
        functions.settle(event)
    lab.clock.advance(28)
    functions.tick()
    functions.tick(1)
    assert functions.history(modifying_volume) == ["intent", "accepted", "reached"]
    flip = functions.ledger.states()[modifying_volume].flip
    assert (flip.is_under_way, flip.target.volume_type) == (False, "gp3")
    assert (count_modify_calls(lab), functions.requested_flips()) == (1, [])
    assert functions.alert_kinds() == ["BurstBalanceRecovered"]


def test_a_critical_volume_that_is_created_on_gp2_alerts_at_once(functions, lab):
    functions.tick()
    lab.clock.advance(20)
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags=CRITICAL, created_at=lab.clock.now()))
    lab.clock.advance(1)
    created, attached = created_event(lab, volume_id)
    functions.settle(created)
    [alert] = functions.alerts()
    assert (alert["kind"], alert["volume"]["volume_id"]) == ("CriticalVolumeOnBurstStorage", volume_id)
    functions.settle(attached)
    functions.settle(created)
    for _ in range(6):
        functions.tick(1)
    assert functions.alert_kinds() == []
    assert functions.requested_flips() == []


def test_without_its_events_a_volume_is_found_by_the_next_sweep(functions, lab):
    """Events expire after 15 minutes if Lambda does not read their queue: only time is lost."""
    functions.tick()
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags=CRITICAL | AUTO, created_at=lab.clock.now()))
    for _ in range(4):
        functions.tick(1)
    assert functions.requested_flips() == []
    functions.tick(1)
    assert len(functions.requested_flips()) == 1
    assert functions.alert_kinds() == ["CriticalVolumeOnBurstStorage"]
    assert volume_id in functions.ledger.states()


def test_a_critical_volume_in_mode_auto_is_flipped_at_creation(functions, lab):
    functions.tick()
    tags = CRITICAL | AUTO
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags=tags, created_at=lab.clock.now()))
    lab.clock.advance(1)
    for event in created_event(lab, volume_id):
        functions.settle(event)
        functions.run_flip_requests()
    functions.tick(1)
    functions.run_flip_requests()
    assert (count_modify_calls(lab), modification_targets(lab, volume_id)) == (1, ["gp3"])
    assert "CriticalVolumeOnBurstStorage" in functions.alert_kinds()


def test_the_event_of_a_calm_volume_leaves_no_trace(functions, lab):
    volume_id = add_calm(lab)
    functions.tick()
    functions.watch("focus")
    lab.clock.advance(1)
    output = functions.settle(an_event(volume_id, name="attachVolume"))
    functions.tick(1)
    assert evaluated_volumes(output) == 1
    assert functions.alert_kinds() == []


def test_one_evaluation_does_not_change_the_healthy_count(functions, lab):
    for number in range(5):
        add_calm(lab, f"calm-{number}")
    volume_id = add_warning(lab)
    functions.tick()
    output = functions.settle(an_event(volume_id))
    assert not {"VolumesOk", "VolumesWatched", "VolumesWarning", "Ticks"} & output.metrics.keys()


@pytest.mark.parametrize("volume_id", [MALFORMED_EVENTS, "", "x" * 4000, "vol-zz", "vol-0123/../../etc"])
def test_an_event_about_an_unknown_volume_changes_nothing(functions, lab, volume_id):
    add_warning(lab)
    functions.tick()
    functions.alerts()
    states = functions.ledger.states()
    output = functions.settle(an_event(volume_id))
    assert evaluated_volumes(output) == 0
    assert (functions.ledger.states(), functions.alerts()) == (states, [])
    assert all(len(message) < 600 for message in output.messages)


def test_a_volume_that_was_deleted_is_forgotten_and_its_alert_closed(functions, lab):
    volume_id = add_warning(lab)
    functions.tick()
    lab.fleet.remove(volume_id)
    functions.settle(an_event(volume_id))
    assert list(functions.ledger.states()) == [volume_id]  # one answer may have left it out
    functions.tick(1)
    assert functions.alert_kinds() == ["BurstBalanceDraining", "BurstBalanceRecovered"]
    assert functions.ledger.states() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "aws.s3"},
        {"source": None},
        {"detail-type": "EC2 Instance State-change Notification"},
        {"detail-type": ["EBS Volume Notification"]},
        {"detail-type": "AWS API Call via CloudTrail" * 100},
        {"time": None},
        {"time": "yesterday"},
        {"time": "2026-11-20T18:00:00"},
    ],
)
def test_a_foreign_event_is_one_clear_error_and_nothing_is_evaluated(functions, lab, changes):
    lab.faults.reset_calls()
    with pytest.raises(EventError) as exc_info:
        functions.invoke("settle", an_event(MALFORMED_EVENTS) | changes)
    assert len(str(exc_info.value)) < 160
    assert not lab.faults.call_counts().get("DescribeVolumes")


@pytest.mark.parametrize("event", [None, [], "?", {}, {"mode": "focus", "time": "2026-11-20T18:00:00Z"}])
def test_an_invalid_eventbridge_event_is_an_error(functions, event):
    with pytest.raises(EventError):
        functions.invoke("settle", event)


@pytest.mark.parametrize("resources", [None, [], "arn", [1, None], ["arn:aws:ec2:::snapshot/snap-1"]])
@pytest.mark.parametrize("detail", [None, "?", {}, {"event": 7}])
def test_an_event_that_names_no_volume_evaluates_nothing(functions, lab, resources, detail):
    output = functions.settle(an_event(MALFORMED_EVENTS, resources=resources, detail=detail))
    assert evaluated_volumes(output) == 0


def test_an_old_event_that_is_replayed_is_dropped_unread_and_counted(functions, lab, modifying_volume):
    complete_modification(functions, modifying_volume)
    events = created_event(lab, modifying_volume)
    functions.settle(events[-1])
    for _ in range(2):
        functions.tick(1)
    functions.alerts()
    kinds = functions.history(modifying_volume)
    lab.clock.advance(24 * 3600)
    functions.end_invocation()
    lab.faults.reset_calls()
    output = functions.settle(*events)
    assert output.metrics["EbsEventsDropped"] == len(events)
    assert not lab.faults.call_counts().get("DescribeVolumes")
    assert (functions.history(modifying_volume), functions.alert_kinds(), count_modify_calls(lab)) == (
        kinds,
        [],
        0,
    )


def test_by_the_events_clock_now_is_when_it_happened(functions, lab, modifying_volume):
    functions.clock = "event"
    complete_modification(functions, modifying_volume)
    event = created_event(lab, modifying_volume)[-1]
    functions.settle(event)
    [entry] = [item for item in functions.ledger.entries(modifying_volume) if item.kind == "reached"]
    assert to_instant(entry.at_s) == event["time"]


def test_an_event_evaluates_only_its_volume(functions, lab):
    ids = [add_lab_volume(lab, name, "steady:1200", balance_pct=60, minutes=20) for name in ("one", "two")]
    functions.tick()
    lab.clock.advance(180)
    output = functions.settle(an_event(ids[0]))
    assert evaluated_volumes(output) == 1
    assert not output.lines_about(ids[1])


def test_an_event_takes_no_tick_from_the_schedules(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.settle(an_event(volume_id))
    assert len(functions.requested_flips()) == 1
    assert functions.watch("sweep").result["looked_at"] == 1


def test_without_a_queue_an_event_only_leads_to_a_proposal(functions, lab):
    functions.flips = False
    volume_id = add_critical(lab, tags=AUTO)
    output = functions.settle(an_event(volume_id))
    assert output.lines_about(volume_id)[-1]["action_taken"] == "proposed"
    assert functions.requested_flips() == []


def test_an_unreadable_volume_is_reported(functions, lab):
    volume_id = add_warning(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    output = functions.settle(an_event(volume_id))
    assert "ec2:DescribeVolumes" in output.warnings[0]


def test_an_internal_error_fails_the_invocation(functions, lab, monkeypatch):
    volume_id = add_warning(lab)

    def consider(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(decide, "evaluate_flip", consider)
    with pytest.raises(PassError, match=f"{volume_id} was not evaluated.*ZeroDivisionError"):
        functions.settle(an_event(volume_id))


def test_an_event_that_alerts_no_one_leaves_what_waits_to_the_next_tick(functions, lab):
    """Many flips end in many events: their alerts go out together, in a digest where they are many."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    output = functions.settle(an_event(volume_id))
    assert output.metrics["AlertsSent"] == 0
    *_, tick = functions.tick(1)
    assert tick.metrics["AlertsSent"] >= 1


# ---- batches


def count_calls(lab, do):
    """The calls that something takes, once the function is warm."""
    lab.faults.reset_calls()
    text = do()
    return text, {action: count for action, count in lab.faults.call_counts().items() if count}


def test_a_batch_about_volumes_of_other_types_takes_one_call_and_reads_nothing_more(functions, lab):
    ids = [add_lab_volume(lab, f"data-{number}", volume_type="gp3") for number in range(20)]
    functions.settle(an_event(ids[0]))  # warm
    events = [an_event(id_, name="attachVolume") for id_ in ids for _ in range(2)]
    text, calls = count_calls(lab, lambda: functions.settle(*events))
    assert calls == {"DescribeVolumes": 1}
    assert (evaluated_volumes(text), text.result) == (0, {"batchItemFailures": []})


def test_a_modified_volume_of_another_type_is_read_from_the_ledger_in_one_call(functions, lab):
    ids = [add_lab_volume(lab, f"data-{number}", volume_type="gp3") for number in range(20)]
    functions.settle(an_event(ids[0]))
    _, calls = count_calls(lab, lambda: functions.settle(*map(an_event, ids)))
    assert calls == {"DescribeVolumes": 1, "BatchGetItem": 1}


def test_events_about_many_gp2_volumes_are_one_evaluation(functions, lab):
    ids = [
        add_lab_volume(lab, f"ci-{number}", "steady:1200", balance_pct=60, minutes=20) for number in range(10)
    ]
    other = add_lab_volume(lab, "data", volume_type="gp3")
    functions.settle(an_event(other))
    events = [an_event(item, name="attachVolume") for item in (*ids, other)]
    text, calls = count_calls(lab, lambda: functions.settle(*events))
    assert evaluated_volumes(text) == 10
    assert (calls["DescribeVolumes"], calls["DescribeVolumesModifications"]) == (1, 1)
    assert calls["BatchGetItem"] == 1


def test_volumes_that_are_gone_cost_one_call_more_and_hide_no_other(functions, lab):
    volume_id = add_warning(lab)
    gone = [f"vol-0feed{number:012d}" for number in range(30)]
    functions.settle(an_event(MALFORMED_EVENTS, name="attachVolume"))
    events = [an_event(item, name="attachVolume") for item in (*gone, volume_id)]
    text, calls = count_calls(lab, lambda: functions.settle(*events))
    assert (evaluated_volumes(text), calls["DescribeVolumes"]) == (1, 2)
    assert text.result == {"batchItemFailures": []}


def test_only_messages_about_volumes_that_could_not_be_read_come_again(functions, lab):
    volume_id = add_warning(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    nameless = an_event(MALFORMED_EVENTS, resources=[])
    messages = [an_event_message(item, lab.clock.now_s()) for item in (nameless, an_event(volume_id))]
    output = functions.invoke("settle", {"Records": messages})
    assert failed_message_ids(output) == {messages[1]["messageId"]}
    lab.faults.clear()
    second_result = functions.invoke("settle", {"Records": messages[1:]})
    assert (evaluated_volumes(second_result), failed_message_ids(second_result)) == (1, set())


def test_a_neighbour_that_uses_up_ec2s_limit_delays_an_event_and_loses_none(functions, lab):
    volume_id = add_warning(lab)
    functions.settle(an_event(MALFORMED_EVENTS, name="attachVolume"))
    lab.throttle.add_neighbour("DescribeVolumes", 25)
    lab.clock.advance(60)
    message = an_event_message(an_event(volume_id), lab.clock.now_s())
    assert failed_message_ids(functions.invoke("settle", {"Records": [message]})) == {message["messageId"]}
    lab.throttle.add_neighbour("DescribeVolumes", 10)
    lab.clock.advance(200)
    second_result = functions.invoke("settle", {"Records": [message]})
    assert (evaluated_volumes(second_result), failed_message_ids(second_result)) == (1, set())


@pytest.mark.parametrize("body", ["", "{", "null", "[]", '{"source": "aws.s3"}', "[" * 100_000])
def test_a_message_that_is_not_an_event_fails_alone(functions, lab, body):
    volume_id = add_warning(lab)
    good, bad = (an_event_message(an_event(volume_id), lab.clock.now_s()) for _ in range(2))
    output = functions.invoke("settle", {"Records": [bad | {"body": body}, good]})
    assert (failed_message_ids(output), evaluated_volumes(output)) == ({bad["messageId"]}, 1)


def test_an_event_that_waited_in_the_queue_for_too_long_is_dropped_and_counted(functions, lab):
    volume_id = add_warning(lab)
    output = functions.settle(an_event(volume_id), sent_ago_s=301)
    assert (evaluated_volumes(output), output.metrics["EbsEventsDropped"]) == (0, 1)
    assert output.result == {"batchItemFailures": []}
    assert evaluated_volumes(functions.settle(an_event(volume_id), sent_ago_s=299)) == 1


def test_ten_thousand_stale_events_take_no_call_at_all(functions, lab):
    functions.settle(an_event(MALFORMED_EVENTS, name="attachVolume"))
    old = [an_event(f"vol-{number:017x}") for number in range(100)]
    _, calls = count_calls(lab, lambda: functions.settle(*old, sent_ago_s=600))
    assert calls == {}


def test_an_event_that_eventbridge_delivered_before_there_were_queues_is_taken(functions, lab):
    assert evaluated_volumes(functions.invoke("settle", an_event(add_warning(lab)))) == 1
