from itertools import count

import pytest

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.engine.alert_delivery import deliver
from support.builders.alerts import NOW_S, PLACE, a_policy_rejection, numbered_alert
from support.delivery.fake_delivery import FakeLedger


def transient_error(message="busy; the next pass tries again"):
    return ChannelError(message, is_permanent=False)


def permanent_error(message="gone; make a new one"):
    return ChannelError(message, is_permanent=True)


def run_delivery_pass(outbox, *channels, now_s=NOW_S, digest_above=10, clock=None):
    return deliver(
        outbox,
        channels,
        digest_above=digest_above,
        location=PLACE,
        runbooks_url="runbooks",
        now_s=now_s,
        clock=clock,
    )


def pending_alert_ids(*numbers):
    return [f"{number:032x}" for number in numbers]


def pending_alerts(outbox, *names):
    return sorted(delivery.alert.alert_id for delivery in outbox.pending_deliveries(channels=names))


def test_nothing_waiting_sends_nothing(outbox, sns):
    report = run_delivery_pass(outbox, sns)
    assert (report.sent, report.failed, report.errors) == (0, 0, ())


def test_every_channel_gets_every_alert_once(outbox, sns, slack):
    outbox.put([numbered_alert(1), numbered_alert(2)], ["sns", "slack"])
    assert run_delivery_pass(outbox, sns, slack).sent == 4
    assert run_delivery_pass(outbox, sns, slack).sent == 0
    assert sns.sent_ids == slack.sent_ids == pending_alert_ids(1, 2)


def test_the_most_urgent_goes_first(outbox, sns):
    alerts = [
        numbered_alert(1, level="ok", time_to_empty_s=None, kind="BurstBalanceRecovered"),
        numbered_alert(2, level="warning", time_to_empty_s=3000),
        numbered_alert(3, level="critical", time_to_empty_s=700),
        numbered_alert(4, level="exhausted", time_to_empty_s=0, kind="BurstBalanceExhausted"),
        numbered_alert(5, level="critical", time_to_empty_s=300),
        numbered_alert(6, level="critical", time_to_empty_s=None),
    ]
    outbox.put(alerts, ["sns"])
    run_delivery_pass(outbox, sns)
    assert sns.sent_ids == pending_alert_ids(4, 5, 3, 6, 2, 1)


def test_alerts_about_one_volume_keep_their_order(sns):
    ledger = FakeLedger()
    recovered = numbered_alert(1, level="ok", kind="BurstBalanceRecovered", alert_id="a")
    critical_again = numbered_alert(1, alert_id="b")
    ledger.put([recovered, numbered_alert(2, level="warning"), critical_again], ["sns"])
    run_delivery_pass(ledger, sns)
    assert sns.sent_ids == ["a", "b", *pending_alert_ids(2)]


def test_an_alert_does_not_overtake_an_earlier_one_that_failed(sns):
    ledger = FakeLedger()
    recovered = numbered_alert(1, level="ok", kind="BurstBalanceRecovered", alert_id="b")
    ledger.put([numbered_alert(1, alert_id="a"), recovered, numbered_alert(2)], ["sns"])
    sns.errors = {"a": transient_error()}
    report = run_delivery_pass(ledger, sns)
    assert (sns.tried, report.sent, report.failed) == (["a", *pending_alert_ids(2)], 1, 2)
    sns.errors = {}
    run_delivery_pass(ledger, sns)
    assert sns.sent_ids == [*pending_alert_ids(2), "a", "b"]


# Digests


def test_as_many_alerts_as_the_limit_go_out_one_by_one(outbox, sns):
    outbox.put([numbered_alert(n) for n in range(10)], ["sns"])
    run_delivery_pass(outbox, sns)
    assert len(sns.sent) == 10


def test_one_more_and_they_go_out_as_one_digest(outbox, sns, slack):
    outbox.put([numbered_alert(n) for n in range(11)], ["sns", "slack"])
    assert run_delivery_pass(outbox, sns, slack).sent == 2
    for channel in (sns, slack):
        (digest,) = channel.sent
        assert (digest.kind, digest.evidence["alerts"]) == (AlertKind.DIGEST, 11)
    assert sns.sent_ids == slack.sent_ids
    assert pending_alerts(outbox, "sns", "slack") == []


def test_alerts_about_the_watchdog_itself_stay_out_of_a_digest(outbox, sns):
    outbox.put([a_policy_rejection("x"), *(numbered_alert(n) for n in range(11))], ["sns"])
    assert run_delivery_pass(outbox, sns).sent == 2
    assert sorted(alert.kind for alert in sns.sent) == [AlertKind.DIGEST, AlertKind.POLICY_REJECTED]


def test_an_alert_that_was_attempted_is_not_put_into_a_digest(outbox, sns):
    outbox.put([numbered_alert(1)], ["sns"])
    sns.down = transient_error()
    run_delivery_pass(outbox, sns)
    sns.down = None
    outbox.put([numbered_alert(n) for n in range(2, 13)], ["sns"])
    run_delivery_pass(outbox, sns)
    assert pending_alert_ids(1)[0] in sns.sent_ids
    assert [alert.evidence.get("alerts") for alert in sns.sent if alert.kind is AlertKind.DIGEST] == [11]


def test_a_digest_that_failed_is_sent_again_as_the_same_digest(outbox, sns):
    outbox.put([numbered_alert(n) for n in range(11)], ["sns"])
    sns.down = transient_error()
    run_delivery_pass(outbox, sns)
    sns.down = None
    outbox.put([numbered_alert(n) for n in range(20, 31)], ["sns"])
    run_delivery_pass(outbox, sns, now_s=NOW_S + 60)
    assert sns.tried[0] in sns.sent_ids
    assert [alert.evidence["alerts"] for alert in sns.sent] == [11, 11]


def test_only_the_channel_that_fell_behind_gets_a_digest(outbox, sns, slack):
    slack.down = permanent_error()
    for number in range(11):
        outbox.put([numbered_alert(number)], ["sns", "slack"])
        run_delivery_pass(outbox, sns)
    run_delivery_pass(outbox, sns, slack)
    slack.down = None
    run_delivery_pass(outbox, sns, slack)
    assert len(sns.sent) == 11
    assert [alert.kind for alert in slack.sent] == [AlertKind.DIGEST]


# Failures


def test_after_a_permanent_failure_a_channel_is_skipped_for_the_pass(outbox, sns, slack):
    outbox.put([numbered_alert(n) for n in range(4)], ["sns", "slack"])
    slack.down = permanent_error("Slack refused the alert; make a new webhook")
    report = run_delivery_pass(outbox, slack, sns)
    assert (len(slack.tried), len(sns.sent)) == (1, 4)
    assert (report.sent, report.failed) == (4, 4)
    assert report.errors == (
        "slack: 4 alerts wait for the next pass: Slack refused the alert; make a new webhook",
    )


def test_a_channel_that_failed_twice_is_left_alone_for_the_pass(outbox, slack):
    outbox.put([numbered_alert(n) for n in range(5)], ["slack"])
    slack.down = transient_error()
    report = run_delivery_pass(outbox, slack)
    assert slack.tried == pending_alert_ids(0, 1)
    assert (report.sent, report.failed, len(report.errors)) == (0, 5, 1)


def test_one_transient_failure_does_not_stop_the_others(outbox, slack):
    outbox.put([numbered_alert(n) for n in range(4)], ["slack"])
    slack.errors = {pending_alert_ids(1)[0]: transient_error()}
    report = run_delivery_pass(outbox, slack)
    assert slack.sent_ids == pending_alert_ids(0, 2, 3)
    assert report.errors == ("slack: 1 alert waits for the next pass: busy; the next pass tries again",)


def test_nothing_is_lost_or_doubled_over_an_outage(outbox, sns, slack):
    outbox.put([numbered_alert(n) for n in range(7)], ["sns", "slack"])
    for minute, fault in enumerate([transient_error(), permanent_error(), transient_error(), None, None]):
        slack.down = fault
        run_delivery_pass(outbox, sns, slack, now_s=NOW_S + 60 * minute)
    assert sorted(slack.sent_ids) == sorted(sns.sent_ids) == pending_alert_ids(*range(7))


def test_an_alert_that_never_gets_through_does_not_block_the_others_for_ever(outbox, slack):
    outbox.put([numbered_alert(0, level="exhausted"), numbered_alert(1), numbered_alert(2)], ["slack"])
    slack.errors = {pending_alert_ids(0)[0]: permanent_error()}
    for minute in range(4):
        run_delivery_pass(outbox, slack, now_s=NOW_S + 60 * minute)
    assert slack.sent_ids == pending_alert_ids(1, 2)
    assert pending_alerts(outbox, "slack") == pending_alert_ids(0)


def test_an_internal_error_stops_neither_other_alerts_nor_other_channels_and_is_loud(outbox, sns, slack):
    outbox.put([numbered_alert(n) for n in range(3)], ["sns", "slack"])
    slack.errors = {pending_alert_ids(0)[0]: KeyError("baseline_iops")}
    with pytest.raises(ExceptionGroup) as exc_info:
        run_delivery_pass(outbox, slack, sns)
    assert (slack.sent_ids, sns.sent_ids) == (
        pending_alert_ids(1, 2),
        pending_alert_ids(0, 1, 2),
    )
    assert pending_alerts(outbox, "slack", "sns") == pending_alert_ids(0)
    (bug,) = exc_info.value.exceptions
    assert bug.__notes__ == [f"while sending alert {pending_alert_ids(0)[0]} to slack"]


# Claims


def test_an_alert_that_another_pass_is_sending_is_left_to_it(outbox, sns):
    outbox.put([numbered_alert(1), numbered_alert(2)], ["sns"])
    (first, _) = outbox.pending_deliveries(channels=["sns"])
    assert outbox.claim_delivery(first, now_s=NOW_S, lease_s=120)
    report = run_delivery_pass(outbox, sns, now_s=NOW_S + 60)
    assert (sns.sent_ids, report.failed, report.errors) == (pending_alert_ids(2), 0, ())


def test_after_a_crash_in_the_middle_the_same_alert_is_sent_again(outbox, sns):
    outbox.put([numbered_alert(1)], ["sns"])
    sns.errors = {pending_alert_ids(1)[0]: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run_delivery_pass(outbox, sns)
    sns.errors = {}
    assert run_delivery_pass(outbox, sns, now_s=NOW_S + 60).sent == 0
    assert run_delivery_pass(outbox, sns, now_s=NOW_S + 121).sent == 1
    assert sns.sent_ids == pending_alert_ids(1)


def test_claims_and_records_are_made_at_the_time_of_each_send(sns):
    ledger = FakeLedger()
    ledger.put([numbered_alert(1), numbered_alert(2)], ["sns"])
    seconds = count(NOW_S)  # the clock is read when the pass begins, and before, at and after each send
    run_delivery_pass(ledger, sns, clock=lambda: next(seconds))
    assert ledger.claimed == [
        ("sns", pending_alert_ids(1)[0], NOW_S + 3),
        ("sns", pending_alert_ids(2)[0], NOW_S + 6),
    ]
    assert ledger.claims["sns", pending_alert_ids(2)[0]] == NOW_S + 5 + 120
