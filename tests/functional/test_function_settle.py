"""The settle function as EventBridge invokes it: EBS's events are hints to look early, and no more."""

import pytest
from operators_desk import START, add, add_calm, add_critical, add_warning, asked, modified
from some_functions import AUTO, an_event_message, failures, instant, looked_at, some_functions

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.core.watch import decide
from burstwatch.handlers.event_time import EventError
from burstwatch.handlers.pass_metrics import PassError

CRITICAL = {"burstwatch:critical": "true"}
STRANGE = "vol-0feedfeedfeedfeed"


@pytest.fixture
def functions(monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    with some_functions(monkeypatch) as found:
        yield found


@pytest.fixture
def lab(functions):
    return functions.lab


@pytest.fixture
def changing(functions, lab):
    """A volume on its way to gp3, of which people know."""
    lab.fleet.change_settings(modifying_s=90.0, modify_spread=0.0, modify_minutes_per_tib=60.0)
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    assert functions.kinds() == ["BurstBalanceDraining", "VolumeFlipped"]
    return volume_id


def an_event(volume_id, *, name="modifyVolume", result="completed", time=None, **changes):
    """As EventBridge hands it over."""
    return {
        "version": "0",
        "id": "00000000-0000-4000-8000-000000000000",
        "detail-type": "EBS Volume Notification",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": time or instant(START.timestamp()),
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{volume_id}"],
        "detail": {"result": result, "cause": "", "event": name, "request-id": ""},
    } | changes


def raised(lab, volume_id):
    """The events that EBS has raised about a volume, as they arrived."""
    return [event.body for event in lab.fleet.events if event.volume_id == volume_id]


def end(functions, volume_id):
    """The modification is over, half a minute after the last tick."""
    functions.lab.clock.advance(30)
    functions.lab.fleet.end_modification(volume_id)
    functions.lab.clock.advance(2)


def test_a_modification_that_completes_is_settled_at_once(functions, lab, changing):
    end(functions, changing)
    said = functions.settle(raised(lab, changing)[-1])
    assert functions.history(changing)[:3] == ["intent", "accepted", "reached"]
    assert not functions.ledger.states()[changing].flip.is_under_way
    assert looked_at(said) == 1
    assert said.lines[0]["message"] == "EBS says modifyVolume; 1 of 1 volumes looked at"
    assert said.lines[0]["volume_id"] == changing


def test_a_modification_that_fails_is_told_at_once(functions, lab, changing):
    lab.clock.advance(30)
    lab.fleet.end_modification(changing, "failed")
    lab.clock.advance(2)
    functions.settle(raised(lab, changing)[-1])
    assert functions.kinds() == ["FlipFailed"]


def test_every_event_of_a_flip_is_taken_and_none_changes_what_the_ledger_says(functions, lab, changing):
    end(functions, changing)
    for event in raised(lab, changing):
        functions.settle(event)
    assert (asked(lab), modified(lab, changing)) == (1, ["gp3"])
    assert functions.history(changing) == ["intent", "accepted", "reached"]
    assert functions.kinds() == ["BurstBalanceRecovered"]


def deliver_nothing(events):
    return []


def deliver_doubled(events):
    return [event for event in events for _ in range(2)]


def deliver_in_reverse(events):
    return events[::-1]


def deliver_late(events):
    return events[:1] * 3


@pytest.mark.parametrize("deliver", [deliver_nothing, deliver_doubled, deliver_in_reverse, deliver_late])
def test_lost_doubled_and_reordered_events_change_nothing_but_the_delay(functions, lab, changing, deliver):
    end(functions, changing)
    for event in deliver(raised(lab, changing)):
        functions.settle(event)
    lab.clock.advance(28)
    functions.tick()
    functions.tick(1)
    assert functions.history(changing) == ["intent", "accepted", "reached"]
    flip = functions.ledger.states()[changing].flip
    assert (flip.is_under_way, flip.target.volume_type) == (False, "gp3")
    assert (asked(lab), functions.asked()) == (1, [])
    assert functions.kinds() == ["BurstBalanceRecovered"]


def test_a_critical_volume_that_is_created_on_gp2_alerts_at_once(functions, lab):
    functions.tick()
    lab.clock.advance(20)
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags=CRITICAL, created_at=lab.clock.now()))
    lab.clock.advance(1)
    created, attached = raised(lab, volume_id)
    functions.settle(created)
    [alert] = functions.alerts()
    assert (alert["kind"], alert["volume"]["volume_id"]) == ("CriticalVolumeOnBurstStorage", volume_id)
    functions.settle(attached)
    functions.settle(created)
    for _ in range(6):
        functions.tick(1)
    assert functions.kinds() == []
    assert functions.asked() == []


def test_a_critical_volume_in_mode_auto_is_moved_out_of_the_gate(functions, lab):
    functions.tick()
    tags = CRITICAL | AUTO
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags=tags, created_at=lab.clock.now()))
    lab.clock.advance(1)
    for event in raised(lab, volume_id):
        functions.settle(event)
        functions.carry_out()
    functions.tick(1)
    functions.carry_out()
    assert (asked(lab), modified(lab, volume_id)) == (1, ["gp3"])
    assert "CriticalVolumeOnBurstStorage" in functions.kinds()


def test_the_event_of_a_calm_volume_leaves_no_trace(functions, lab):
    volume_id = add_calm(lab)
    functions.tick()
    functions.watch("focus")
    lab.clock.advance(1)
    said = functions.settle(an_event(volume_id, name="attachVolume"))
    functions.tick(1)
    assert looked_at(said) == 1
    assert functions.kinds() == []


def test_one_look_tells_nothing_of_how_many_volumes_are_well(functions, lab):
    for number in range(5):
        add_calm(lab, f"calm-{number}")
    volume_id = add_warning(lab)
    functions.tick()
    said = functions.settle(an_event(volume_id))
    assert not {"VolumesOk", "VolumesWatched", "VolumesWarning", "Ticks"} & said.metrics.keys()


@pytest.mark.parametrize("volume_id", [STRANGE, "", "x" * 4000, "vol-zz", "vol-0123/../../etc"])
def test_an_event_about_a_volume_that_nobody_knows_changes_nothing(functions, lab, volume_id):
    add_warning(lab)
    functions.tick()
    functions.alerts()
    held = functions.ledger.states()
    said = functions.settle(an_event(volume_id))
    assert looked_at(said) == 0
    assert (functions.ledger.states(), functions.alerts()) == (held, [])
    assert all(len(message) < 600 for message in said.messages)


def test_a_volume_that_was_deleted_is_forgotten_and_its_alert_closed(functions, lab):
    volume_id = add_warning(lab)
    functions.tick()
    lab.fleet.remove(volume_id)
    functions.settle(an_event(volume_id))
    assert list(functions.ledger.states()) == [volume_id]  # one answer may have left it out
    functions.tick(1)
    assert functions.kinds() == ["BurstBalanceDraining", "BurstBalanceRecovered"]
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
def test_a_foreign_event_is_one_clear_error_and_nothing_is_looked_at(functions, lab, changes):
    lab.faults.forget_calls()
    with pytest.raises(EventError) as caught:
        functions.invoke("settle", an_event(STRANGE) | changes)
    assert len(str(caught.value)) < 160
    assert not lab.faults.calls().get("DescribeVolumes")


@pytest.mark.parametrize("event", [None, [], "?", {}, {"mode": "focus", "time": "2026-11-20T18:00:00Z"}])
def test_what_is_no_event_of_eventbridge_is_an_error(functions, event):
    with pytest.raises(EventError):
        functions.invoke("settle", event)


@pytest.mark.parametrize("resources", [None, [], "arn", [1, None], ["arn:aws:ec2:::snapshot/snap-1"]])
@pytest.mark.parametrize("detail", [None, "?", {}, {"event": 7}])
def test_an_event_that_names_no_volume_looks_at_nothing(functions, lab, resources, detail):
    said = functions.settle(an_event(STRANGE, resources=resources, detail=detail))
    assert looked_at(said) == 0


def test_an_old_event_that_is_replayed_is_dropped_unread_and_counted(functions, lab, changing):
    end(functions, changing)
    events = raised(lab, changing)
    functions.settle(events[-1])
    for _ in range(2):
        functions.tick(1)
    functions.alerts()
    kinds = functions.history(changing)
    lab.clock.advance(24 * 3600)
    functions.end()
    lab.faults.forget_calls()
    said = functions.settle(*events)
    assert said.metrics["EbsEventsDropped"] == len(events)
    assert not lab.faults.calls().get("DescribeVolumes")
    assert (functions.history(changing), functions.kinds(), asked(lab)) == (kinds, [], 0)


def test_by_the_events_clock_now_is_when_it_happened(functions, lab, changing):
    functions.clock = "event"
    end(functions, changing)
    event = raised(lab, changing)[-1]
    functions.settle(event)
    [entry] = [each for each in functions.ledger.entries(changing) if each.kind == "reached"]
    assert instant(entry.at_s) == event["time"]


def test_an_event_looks_at_its_volume_and_at_no_other(functions, lab):
    ids = [add(lab, name, "steady:1200", balance_pct=60, minutes=20) for name in ("one", "two")]
    functions.tick()
    lab.clock.advance(180)
    said = functions.settle(an_event(ids[0]))
    assert looked_at(said) == 1
    assert not said.of(ids[1])


def test_an_event_takes_no_tick_from_the_schedules(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.settle(an_event(volume_id))
    assert len(functions.asked()) == 1
    assert functions.watch("sweep").result["looked_at"] == 1


def test_without_a_queue_an_event_only_leads_to_a_proposal(functions, lab):
    functions.flips = False
    volume_id = add_critical(lab, tags=AUTO)
    said = functions.settle(an_event(volume_id))
    assert said.of(volume_id)[-1]["action_taken"] == "proposed"
    assert functions.asked() == []


def test_a_volume_that_cannot_be_read_is_said(functions, lab):
    volume_id = add_warning(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    said = functions.settle(an_event(volume_id))
    assert "ec2:DescribeVolumes" in said.warnings[0]


def test_a_mistake_of_ours_fails_the_invocation(functions, lab, monkeypatch):
    volume_id = add_warning(lab)

    def consider(*given, **named):
        raise ZeroDivisionError

    monkeypatch.setattr(decide, "consider", consider)
    with pytest.raises(PassError, match=f"{volume_id} was not judged.*ZeroDivisionError"):
        functions.settle(an_event(volume_id))


def test_an_event_that_alerts_nobody_leaves_what_waits_to_the_next_tick(functions, lab):
    """Many flips end in many events: their alerts go out together, in a digest where they are many."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    said = functions.settle(an_event(volume_id))
    assert said.metrics["AlertsSent"] == 0
    *_, tick = functions.tick(1)
    assert tick.metrics["AlertsSent"] >= 1


# ---- batches


def calls_of(lab, do):
    """The calls that something takes, once the function is warm."""
    lab.faults.forget_calls()
    said = do()
    return said, {action: count for action, count in lab.faults.calls().items() if count}


def test_a_batch_about_volumes_of_other_types_takes_one_call_and_reads_nothing_more(functions, lab):
    ids = [add(lab, f"data-{number}", volume_type="gp3") for number in range(20)]
    functions.settle(an_event(ids[0]))  # warm
    events = [an_event(each, name="attachVolume") for each in ids for _ in range(2)]
    said, calls = calls_of(lab, lambda: functions.settle(*events))
    assert calls == {"DescribeVolumes": 1}
    assert (looked_at(said), said.result) == (0, {"batchItemFailures": []})


def test_of_a_modified_volume_of_another_type_the_ledger_is_asked_in_one_call(functions, lab):
    ids = [add(lab, f"data-{number}", volume_type="gp3") for number in range(20)]
    functions.settle(an_event(ids[0]))
    _, calls = calls_of(lab, lambda: functions.settle(*map(an_event, ids)))
    assert calls == {"DescribeVolumes": 1, "BatchGetItem": 1}


def test_a_batch_about_many_gp2_volumes_is_one_look(functions, lab):
    ids = [add(lab, f"ci-{number}", "steady:1200", balance_pct=60, minutes=20) for number in range(10)]
    other = add(lab, "data", volume_type="gp3")
    functions.settle(an_event(other))
    events = [an_event(each, name="attachVolume") for each in (*ids, other)]
    said, calls = calls_of(lab, lambda: functions.settle(*events))
    assert looked_at(said) == 10
    assert (calls["DescribeVolumes"], calls["DescribeVolumesModifications"]) == (1, 1)
    assert calls["BatchGetItem"] == 1


def test_volumes_that_are_gone_cost_one_call_more_and_hide_no_other(functions, lab):
    volume_id = add_warning(lab)
    gone = [f"vol-0feed{number:012d}" for number in range(30)]
    functions.settle(an_event(STRANGE, name="attachVolume"))
    events = [an_event(each, name="attachVolume") for each in (*gone, volume_id)]
    said, calls = calls_of(lab, lambda: functions.settle(*events))
    assert (looked_at(said), calls["DescribeVolumes"]) == (1, 2)
    assert said.result == {"batchItemFailures": []}


def test_only_messages_about_volumes_that_could_not_be_read_come_again(functions, lab):
    volume_id = add_warning(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    nameless = an_event(STRANGE, resources=[])
    messages = [an_event_message(each, lab.clock.now_s()) for each in (nameless, an_event(volume_id))]
    said = functions.invoke("settle", {"Records": messages})
    assert failures(said) == {messages[1]["messageId"]}
    lab.faults.clear()
    again = functions.invoke("settle", {"Records": messages[1:]})
    assert (looked_at(again), failures(again)) == (1, set())


def test_a_neighbour_that_uses_up_ec2s_limit_delays_an_event_and_loses_none(functions, lab):
    volume_id = add_warning(lab)
    functions.settle(an_event(STRANGE, name="attachVolume"))
    lab.throttle.add_neighbour("DescribeVolumes", 25)
    lab.clock.advance(60)
    message = an_event_message(an_event(volume_id), lab.clock.now_s())
    assert failures(functions.invoke("settle", {"Records": [message]})) == {message["messageId"]}
    lab.throttle.add_neighbour("DescribeVolumes", 10)
    lab.clock.advance(200)
    again = functions.invoke("settle", {"Records": [message]})
    assert (looked_at(again), failures(again)) == (1, set())


@pytest.mark.parametrize("body", ["", "{", "null", "[]", '{"source": "aws.s3"}', "[" * 100_000])
def test_a_message_that_is_no_event_fails_alone(functions, lab, body):
    volume_id = add_warning(lab)
    good, bad = (an_event_message(an_event(volume_id), lab.clock.now_s()) for _ in range(2))
    said = functions.invoke("settle", {"Records": [bad | {"body": body}, good]})
    assert (failures(said), looked_at(said)) == ({bad["messageId"]}, 1)


def test_an_event_that_waited_in_the_queue_for_too_long_is_dropped_and_counted(functions, lab):
    volume_id = add_warning(lab)
    said = functions.settle(an_event(volume_id), sent_ago_s=301)
    assert (looked_at(said), said.metrics["EbsEventsDropped"]) == (0, 1)
    assert said.result == {"batchItemFailures": []}
    assert looked_at(functions.settle(an_event(volume_id), sent_ago_s=299)) == 1


def test_ten_thousand_stale_events_take_no_call_at_all(functions, lab):
    functions.settle(an_event(STRANGE, name="attachVolume"))
    old = [an_event(f"vol-{number:017x}") for number in range(100)]
    _, calls = calls_of(lab, lambda: functions.settle(*old, sent_ago_s=600))
    assert calls == {}


def test_an_event_that_eventbridge_delivered_before_there_were_queues_is_taken(functions, lab):
    assert looked_at(functions.invoke("settle", an_event(add_warning(lab)))) == 1
