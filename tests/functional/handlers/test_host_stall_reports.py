"""What ddprobe reports from a host: evidence for people, bounded and doubted, and never a flip."""

import json

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.core.assessment.host_stall import CAUSES
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.functions import (
    ACCOUNT,
    AUTO,
    an_event_message,
    failed_message_ids,
    to_instant,
)
from support.cli.cli_session import (
    CliSession,
    add_calm,
    add_critical,
    add_lab_volume,
    add_warning,
    count_modify_calls,
)

HOST = "i-0123456789abcdef0"
OTHER_HOST = "i-0fedcba9876543210"
MALFORMED_REPORTS = "vol-0feedfeedfeedfeed"
TOP = [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}]


def a_stall(functions, volume_id, *, ago_s=10, detail=None, **changes):
    """As EventBridge hands on what ddprobe put on its bus."""
    now_s = functions.lab.clock.now_s()
    reported = {
        "schema": "burstwatch.probe/v1",
        "instance_id": HOST,
        "volume_id": volume_id,
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 8.25,
        "started_at": to_instant(now_s - ago_s),
        "top": TOP,
    }
    return {
        "version": "0",
        "id": "00000000-0000-4000-8000-000000000000",
        "detail-type": "stall",
        "source": "burstwatch.ddprobe",
        "account": ACCOUNT,
        "time": to_instant(now_s),
        "region": "us-east-1",
        "resources": [],
        "detail": reported | (detail or {}),
    } | changes


def deliver_report(functions, volume_id, **fields):
    return functions.probe(a_stall(functions, volume_id, **fields))


def stalls_of(functions, volume_id):
    return [entry for entry in functions.ledger.entries(volume_id) if entry.kind is EntryKind.STALL]


def test_a_stall_of_a_volume_that_looks_well_reaches_people_and_the_ledger(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    text = deliver_report(functions, volume_id, ago_s=65)
    [alert] = functions.alerts()
    assert (alert["kind"], alert["volume"]["volume_id"]) == ("HostStallReported", volume_id)
    host = alert["evidence"]["host"]
    assert (host["instance_id"], host["total_s"], host["age_s"], host["top"]) == (HOST, 8.25, 57, TOP)
    assert alert["evidence"]["host_says"][0].startswith(f"Its host {HOST} reported 56 s ago")
    assert alert["runbook"].endswith("/HostStallReported.md")
    [entry] = stalls_of(functions, volume_id)
    assert (entry.body["cause"], entry.body["total_s"]) == ("throttled", 8.25)
    assert text.metrics["ProbeEventsDropped"] == 0


def test_a_stall_alone_is_reported_hourly(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    for _ in range(12):
        deliver_report(functions, volume_id)
        lab.clock.advance(299)
        functions.tick()
    assert functions.alert_kinds() == ["HostStallReported"]
    assert len(stalls_of(functions, volume_id)) == 12
    lab.clock.advance(60)
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == ["HostStallReported"]


def test_the_next_alert_about_the_volume_carries_it_with_its_age(functions, lab):
    volume_id = add_lab_volume(lab, "ci-7", "steady:3000", balance_pct=100, minutes=4, instance_id=HOST)
    functions.tick()
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == ["HostStallReported"]
    for _ in range(4):
        functions.tick(5)
        if alerts := functions.alerts():
            break
    [alert] = alerts
    assert alert["kind"] == "BurstBalanceDraining"
    assert alert["evidence"]["host"]["age_s"] == round(lab.clock.now_s() % 3600 + 10 - 8.25)
    assert "ago: a synchronous write took 8.2 s" in alert["evidence"]["host_says"][0]


def test_a_stall_of_a_volume_with_an_open_alert_waits_for_the_next_alert(functions, lab):
    volume_id = add_warning(lab, instance_id=HOST)
    functions.tick()
    assert functions.alert_kinds() == ["BurstBalanceDraining"]
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == []
    assert len(stalls_of(functions, volume_id)) == 1
    for _ in range(8):
        functions.tick(5)
        if alerts := functions.alerts():
            break
    assert alerts[0]["level"] == "critical"
    assert alerts[0]["evidence"]["host"]["cause"] == "throttled"


def test_when_the_evaluation_has_news_one_alert_covers_both(functions, lab):
    volume_id = add_critical(lab, instance_id=HOST)
    deliver_report(functions, volume_id)
    [alert] = functions.alerts()
    assert alert["kind"] == "BurstBalanceDraining"
    assert alert["evidence"]["host"]["total_s"] == 8.25


def test_an_hour_later_no_alert_mentions_it(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    deliver_report(functions, volume_id)
    functions.alerts()
    lab.clock.advance(3540)
    lab.fleet.set_load(volume_id, "steady:3000")
    functions.tick(1)
    for _ in range(6):
        functions.tick(5)
    alerts = functions.alerts()
    assert alerts
    assert all("host" not in alert["evidence"] for alert in alerts)


@pytest.mark.parametrize("cause", CAUSES)
def test_it_never_leads_to_a_flip(functions, lab, cause):
    volume_id = add_calm(lab, tags=AUTO, instance_id=HOST)
    for _ in range(5):
        deliver_report(functions, volume_id, ago_s=600, detail={"cause": cause, "total_s": 600})
        functions.tick(1)
    assert (functions.requests(), count_modify_calls(lab)) == ([], 0)
    assert functions.ledger.states()[volume_id].level == "ok"


def test_a_volume_that_never_was_on_gp2_may_stall_too(functions, lab):
    volume_id = add_lab_volume(lab, "data", volume_type="gp3", instance_id=HOST)
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == ["HostStallReported"]
    assert functions.requests() == []


# ---- what is not believed


@pytest.mark.parametrize("attached_to", [OTHER_HOST, None])
def test_a_report_by_an_instance_that_the_volume_is_not_attached_to_is_dropped(functions, lab, attached_to):
    volume_id = add_calm(lab, instance_id=attached_to, attached=attached_to is not None)
    text = deliver_report(functions, volume_id)
    assert text.metrics["ProbeEventsDropped"] == 1
    [warning] = text.warnings
    assert f"which is attached to {attached_to or 'no instance'}" in warning
    assert (functions.alert_kinds(), stalls_of(functions, volume_id)) == ([], [])
    assert functions.ledger.states() == {}


def test_a_report_of_an_unknown_volume_is_dropped(functions, lab):
    text = deliver_report(functions, MALFORMED_REPORTS)
    assert text.metrics["ProbeEventsDropped"] == 1
    assert f"reports of {MALFORMED_REPORTS}, which does not exist" in text.warnings[0]
    assert functions.ledger.states() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"detail": {"schema": "burstwatch.probe/v2"}},
        {"detail": {"volume_id": "vol-1"}},
        {"detail": {"total_s": -1}},
        {"detail": {"total_s": 30 * 86400}},
        {"detail": {"verdict": "ok"}},
        {"detail": {"verdict": "URGENT: call +1-900-555 now: evil.example"}},
        {"detail": {"cause": "flip it now"}},
        {"detail": {"cause": ["throttled"]}},
        {"detail": {"started_at": "2026-11-20T18:30:00Z"}},
        {"detail": {"started_at": None, "instance_id": "\x1b[31m" * 500}},
        {"detail-type": "greeting"},
        {"detail-type": None},
    ],
)
def test_a_malformed_report_is_dropped_and_counted_and_fails_nothing(functions, lab, changes):
    volume_id = add_calm(lab, instance_id=HOST)
    lab.faults.reset_calls()
    text = deliver_report(functions, volume_id, **changes)
    assert text.metrics["ProbeEventsDropped"] == 1
    assert text.result == {"batchItemFailures": []}
    [warning] = text.warnings
    assert len(warning) < 400
    assert "\x1b" not in warning
    assert functions.ledger.states() == {}
    assert not lab.faults.call_counts().get("DescribeVolumes")


@pytest.mark.parametrize("detail", [None, "stall", [], 7])
def test_a_report_whose_detail_is_not_an_object_is_dropped(functions, lab, detail):
    output = functions.probe(a_stall(functions, MALFORMED_REPORTS) | {"detail": detail})
    assert output.metrics["ProbeEventsDropped"] == 1


def test_more_than_one_a_minute_of_a_volume_are_dropped_and_counted(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    messages = []
    for _ in range(12):
        messages.append(deliver_report(functions, volume_id))
        lab.clock.advance(10)
    assert [line.metrics["ProbeEventsDropped"] for line in messages] == [0, 1, 1, 1, 1, 1] * 2
    assert len(stalls_of(functions, volume_id)) == 2


def test_the_time_in_a_report_neither_advances_nor_suppresses_later_reports(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    for minutes_ago in (50, 40, 30, 20, 10, 0):  # at once, each a minute and more after the one before
        deliver_report(functions, volume_id, ago_s=60 * minutes_ago)
    assert len(stalls_of(functions, volume_id)) == 1
    lab.clock.advance(60)
    deliver_report(functions, volume_id, ago_s=0, detail={"total_s": 299})  # a clock that is ahead
    assert len(stalls_of(functions, volume_id)) == 2
    lab.clock.advance(60)
    assert deliver_report(functions, volume_id).metrics["ProbeEventsDropped"] == 0
    assert len(stalls_of(functions, volume_id)) == 3


def test_a_passive_reading_reports_no_write_time(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    deliver_report(functions, volume_id, detail={"total_s": None})
    [alert] = functions.alerts()
    assert alert["evidence"]["host"]["total_s"] is None
    assert alert["evidence"]["summary"] == "stalled, according to its host"


def test_a_report_about_a_critical_volume_requests_no_flip_and_the_next_tick_does(functions, lab):
    """Any host can feed this function, so it has no queue of flips; its look delays no flip either."""
    volume_id = add_critical(lab, tags=AUTO, instance_id=HOST)
    output = deliver_report(functions, volume_id)
    assert output.lines_about(volume_id)[-1]["action_taken"] == "proposed"
    assert functions.requested_flips() == []
    functions.tick(1)
    assert len(functions.requested_flips()) == 1


def test_a_report_postpones_no_flip_of_a_volume_that_is_polled_less_often(functions, lab):
    """At warning, a change that is free is made early, of a volume that is polled every five minutes.

    100 GiB earn 300 credits a second and use 1,400: in 30 minutes 97 % become 60 %, which last 49 minutes.
    """
    functions.tick()  # the sweep of this time is done, so the next focus tick polls only what is due
    volume_id = add_lab_volume(
        lab, "ci-7", "steady:1400", balance_pct=97, minutes=30, instance_id=HOST, tags=AUTO
    )
    deliver_report(functions, volume_id)
    assert functions.requested_flips() == []
    functions.tick(1)
    [request] = functions.requested_flips()
    assert volume_id in request["body"]


def test_a_doubled_event_adds_nothing(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    event = a_stall(functions, volume_id)
    functions.probe(event)
    lab.clock.advance(3)
    assert functions.probe(event).metrics["ProbeEventsDropped"] == 1
    assert len(stalls_of(functions, volume_id)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"time": "9999-01-01T00:00:00Z"},
        {"time": "1969-01-01T00:00:00Z"},
        {"time": "soon"},
        {"detail": {"total_s": "DIGITS"}},
    ],
)
def test_an_event_of_a_host_that_cannot_be_read_is_dropped_and_hides_no_other(functions, lab, changes):
    """A failed message comes again, and after three receives it would raise an alarm."""
    volume_id = add_calm(lab, instance_id=HOST)
    poison, good = (
        an_event_message(a_stall(functions, volume_id, **more), lab.clock.now_s()) for more in (changes, {})
    )
    poison |= {"body": poison["body"].replace('"DIGITS"', "1" * 5_000)}
    output = functions.invoke("probe", {"Records": [poison, good]})
    assert output.result == {"batchItemFailures": []}
    assert output.metrics["ProbeEventsDropped"] == 1
    assert "host reports dropped" in output.warnings[0]
    assert functions.alert_kinds() == ["HostStallReported"]


def test_an_event_of_a_host_that_cannot_be_read_is_dropped_without_a_queue_as_well(functions, lab):
    event = a_stall(functions, add_calm(lab, instance_id=HOST), time="9999-01-01T00:00:00Z")
    assert functions.invoke("probe", event).metrics["ProbeEventsDropped"] == 1


def test_a_report_hours_late_alerts_no_one(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    text = deliver_report(functions, volume_id, ago_s=2 * 3600)
    assert functions.alert_kinds() == []
    assert text.metrics["ProbeEventsDropped"] == 1
    assert "stalled 119 min ago" in text.warnings[0]


def test_a_stall_lasting_hours_is_still_current(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    text = deliver_report(functions, volume_id, ago_s=2 * 3600, detail={"total_s": 7190})
    assert text.metrics["ProbeEventsDropped"] == 0
    [alert] = functions.alerts()
    assert alert["evidence"]["summary"] == "stalled for 7,190.0 s, according to its host"
    assert alert["evidence"]["host"]["total_s"] == 7190


def test_a_volume_that_stays_stalled_is_reported_repeatedly(functions, lab):
    """The probe reports since when, and how long by now."""
    volume_id = add_calm(lab, instance_id=HOST)
    for minutes in (5, 10, 15, 20):
        lab.clock.advance(300)
        text = deliver_report(functions, volume_id, ago_s=60 * minutes, detail={"total_s": 60 * minutes - 5})
        assert text.metrics["ProbeEventsDropped"] == 0
    assert [entry.body["total_s"] for entry in stalls_of(functions, volume_id)] == [295, 595, 895, 1195]
    assert functions.alert_kinds() == ["HostStallReported"]


def test_host_text_is_inert_wherever_shown(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    evil = [{"comm": "<!channel>\n\x1b[2J" + "x" * 999, "wchan": "\u202ereversed", "count": 1}] * 200
    output = deliver_report(functions, volume_id, detail={"top": evil})
    [alert] = functions.alerts()
    text = json.dumps(alert, ensure_ascii=False)
    assert not {"\x1b", "\x00", "\u202e"} & set(text)
    assert "\n" not in alert["evidence"]["host"]["top"][0]["comm"]
    assert len(alert["evidence"]["host"]["top"]) <= 10
    assert len(text) < 8000
    assert "\\u001b" not in output.text


def test_no_name_of_a_task_reads_like_a_sentence(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    top = [{"comm": "URGENT: call +1-900-555 now", "wchan": "see https://evil.example", "count": 1}]
    deliver_report(functions, volume_id, detail={"top": top})
    [alert] = functions.alerts()
    [task] = alert["evidence"]["host"]["top"]
    assert " " not in task["comm"] + task["wchan"]


# ---- floods


def count_calls(lab, do):
    lab.faults.reset_calls()
    text = do()
    return text, {action: count for action, count in lab.faults.call_counts().items() if count}


def test_a_flood_of_one_volumes_reports_reads_its_own_item_and_nothing_else(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    deliver_report(functions, volume_id)
    lab.clock.advance(5)
    flood = [a_stall(functions, volume_id, ago_s=ago_s) for ago_s in range(100)]
    text, calls = count_calls(lab, lambda: functions.probe(*flood))
    assert calls == {"BatchGetItem": 1}
    assert text.metrics["ProbeEventsDropped"] == 100
    assert len(text.warnings) == 1
    assert len(stalls_of(functions, volume_id)) == 1


def test_many_invented_volumes_cost_one_listing_per_batch(functions, lab):
    deliver_report(functions, MALFORMED_REPORTS)
    flood = [a_stall(functions, f"vol-{number:017x}") for number in range(100)]
    text, calls = count_calls(lab, lambda: functions.probe(*flood))
    assert calls == {"BatchGetItem": 1, "DescribeVolumes": 1}
    assert text.metrics["ProbeEventsDropped"] == 100


def test_a_false_report_hides_no_honest_one_in_the_same_batch(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    false_report = a_stall(functions, volume_id, ago_s=0, detail={"instance_id": OTHER_HOST})
    output = functions.probe(false_report, a_stall(functions, volume_id), false_report)
    assert len(stalls_of(functions, volume_id)) == 1
    assert output.metrics["ProbeEventsDropped"] == 2
    assert functions.alert_kinds() == ["HostStallReported"]


def test_a_report_whose_volume_ec2_does_not_describe_is_retried(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    volume_id = add_calm(lab, instance_id=HOST)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    message = an_event_message(a_stall(functions, volume_id), lab.clock.now_s())
    output = functions.invoke("probe", {"Records": [message]})
    assert (failed_message_ids(output), output.metrics["ProbeEventsDropped"]) == ({message["messageId"]}, 0)
    lab.faults.clear()
    functions.invoke("probe", {"Records": [message]})
    assert functions.alert_kinds() == ["HostStallReported"]


def test_a_report_that_waited_in_the_queue_for_too_long_is_dropped_whatever_time_it_claims(functions, lab):
    volume_id = add_calm(lab, instance_id=HOST)
    event = a_stall(functions, volume_id) | {"time": to_instant(lab.clock.now_s() + 3600)}
    output = functions.probe(event, sent_ago_s=301)
    assert output.metrics["ProbeEventsDropped"] == 1
    assert functions.alert_kinds() == []


# ---- who is alerted


@pytest.mark.parametrize("tags", [{"burstwatch:mode": "observe"}, {"burstwatch:ignore": "true"}])
def test_a_volume_in_mode_observe_alerts_no_one(functions, lab, tags):
    volume_id = add_calm(lab, tags=tags, instance_id=HOST)
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == []
    assert len(stalls_of(functions, volume_id)) == ("burstwatch:mode" in tags)


def test_the_history_shows_it(functions, lab, tmp_path, monkeypatch, capsys):
    volume_id = add_calm(lab, instance_id=HOST)
    deliver_report(functions, volume_id)
    cli = CliSession(tmp_path, monkeypatch, capsys)
    cli.set(**lab.environment)
    result = cli.run("history", volume_id)
    assert result.code == 0
    assert "stalled for 8.2 s, according to its host" in " ".join(result.out.split())
    document = json.loads(cli.run("history", volume_id, "--json").out)
    assert "systemd-udevd" in json.dumps(document)


def test_a_second_deployment_takes_reports_too(functions, lab):
    """Each deployment has a ledger of its own, and people of its own."""
    volume_id = add_calm(lab, instance_id=HOST)
    functions.ssm.put_parameter(Name="/burstwatch/deployments/aaa", Value="{}", Type="String")
    deliver_report(functions, volume_id)
    assert functions.alert_kinds() == ["HostStallReported"]
