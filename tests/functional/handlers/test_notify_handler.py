"""The notify function: AWS in this process, Slack over real HTTP on loopback."""

import json

import pytest
from moto import mock_aws

from burstwatch.adapters.notify import slack as slack_adapter
from burstwatch.adapters.notify import slack_webhook
from burstwatch.adapters.notify.amazon_q import render_custom_notification
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.handlers import notify
from burstwatch.handlers.notify import NotDeliveredError
from support.aws.stub_clients import refuse_next_call, stubbed_client
from support.builders.alerts import an_alert, numbered_alert
from support.builders.functions import Context
from support.builders.sns_records import a_record, an_alarm, an_sns_event, to_lambda_event
from support.delivery.fake_slack import (
    NO_RESPONSE,
    SECRET,
    assert_within_slacks_limits,
    start_fake_slack,
    visible_text,
)
from support.delivery.notify_function import NOW_S, SECRET_VALUES, NotifyFunction
from support.ledger.ledger_stores import TABLE

ALERT = to_lambda_event(an_alert())


# Delivered


def test_an_alert_reaches_slack_and_the_chat_service(function, slack):
    assert function.invoke(an_sns_event(ALERT))["sent"] == 2
    ((path, _, payload),) = slack.posts
    assert path == f"/services/{SECRET}"
    assert_within_slacks_limits(payload)
    assert an_alert().alert_id in visible_text(payload)
    assert function.chat_messages == [render_custom_notification(message_from_alert(an_alert()))]
    assert function.not_delivered == 0
    reported = [(line["message"], line["channel"], line["alert_id"], line["kind"]) for line in function.lines]
    assert reported == [
        ("sent", channel, an_alert().alert_id, "BurstBalanceDraining") for channel in ("chat", "slack")
    ]


def test_an_alarm_of_cloudwatch_reaches_both_with_its_page(function, slack):
    function.invoke(an_sns_event(an_alarm()))
    assert "<https://wiki.example.com/runbooks/WatchdogSilent.md|Runbook>" in visible_text(slack.payloads[0])
    (chatted,) = function.chat_messages
    assert chatted["content"]["title"] == "🔴 ALARM: WatchdogSilent (us-east-1)"


def test_a_duplicate_is_not_sent_again(function, slack):
    function.invoke(an_sns_event(ALERT))
    function.start()
    assert function.invoke(an_sns_event(ALERT, ALERT)) == {
        "sent": 0, "sent before": 4, "being sent by another invocation": 0,
    }  # fmt: skip
    assert (len(slack.posts), len(function.chat_messages)) == (1, 1)


def test_several_records_are_reported_each(function, slack):
    event = an_sns_event(*(to_lambda_event(numbered_alert(number)) for number in range(4)))
    assert function.invoke(event)["sent"] == 8
    assert len(slack.posts) == 4


def test_an_old_message_that_is_replayed_states_how_late_it_is(function, slack):
    function.invoke(an_sns_event(ALERT), now_s=NOW_S + 7800)
    assert "delivered 2 h 10 min late" in visible_text(slack.payloads[0])
    assert "delivered 2 h 10 min late" in function.chat_messages[0]["content"]["description"]


@pytest.mark.parametrize("timestamp", ["yesterday", None, 7])
def test_an_unreadable_timestamp_makes_nothing_late(function, slack, timestamp):
    function.invoke(an_sns_event(ALERT, timestamp=timestamp))
    assert "late" not in visible_text(slack.payloads[0])


@pytest.mark.parametrize("held", ['{"url": "%s"}', "  %s\n"])
def test_the_secret_may_be_json_and_have_space_around_it(function, slack, held):
    stubbed_client("secretsmanager").put_secret_value(SecretId=SECRET_VALUES, SecretString=held % slack.url)
    assert function.invoke(an_sns_event(ALERT))["sent"] == 2


def test_without_slack_only_chat_is_notified_and_no_secret_is_read(slack):
    with mock_aws():
        function = NotifyFunction(slack, secret=None)
        assert function.invoke(an_sns_event(ALERT))["sent"] == 1
    assert slack.posts == []


def test_without_channels_nothing_is_sent_and_nothing_fails(slack):
    with mock_aws():
        assert NotifyFunction(slack, secret=None, chat=False).invoke(an_sns_event(ALERT))["sent"] == 0


# What fails, fails loudly and alone


def test_a_failure_of_slack_does_not_stop_the_message_to_the_chat_service(function, slack):
    slack.answers = [(500, "rollup_error", {})]
    error_text = function.invoke_failing(an_sns_event(ALERT))
    assert error_text.startswith("1 not delivered: slack: Slack failed (HTTP 500, rollup_error)")
    assert len(function.chat_messages) == 1
    assert function.not_delivered == 1
    (line,) = function.errors
    assert (line["message"], line["channel"], line["alert_id"]) == (
        "not delivered",
        "slack",
        an_alert().alert_id,
    )


def test_a_retry_sends_what_was_missing_and_nothing_twice(function, slack):
    slack.answers = [(500, "", {})]
    function.invoke_failing(an_sns_event(ALERT))
    reported = function.invoke(an_sns_event(ALERT))
    assert (reported["sent"], reported["sent before"]) == (1, 1)
    assert (len(slack.posts), len(function.chat_messages)) == (2, 1)


def test_a_failure_of_the_chat_service_does_not_stop_the_message_to_slack(function, slack):
    stubbed_client("sns").delete_topic(TopicArn=function.topic)
    error_text = function.invoke_failing(an_sns_event(ALERT))
    assert "chat: sns:Publish" in error_text
    assert len(slack.posts) == 1


def test_one_alert_that_slack_refuses_hides_no_other(function, slack):
    slack.answers = [(200, "ok", {}), (400, "invalid_blocks", {}), (200, "ok", {})]
    function.invoke_failing(an_sns_event(*(to_lambda_event(numbered_alert(number)) for number in range(3))))
    assert len(slack.posts) == 3
    assert function.not_delivered == 1


@pytest.mark.parametrize("poison", ["", "hello", "{}", '{"schema": "burstwatch.alert/v1"}', "[" * 10_000])
def test_a_poison_record_is_one_line_and_hides_no_other(function, slack, poison):
    error_text = function.invoke_failing(an_sns_event(poison, ALERT))
    assert "1 not delivered" in error_text
    assert len(slack.posts) == 1
    (line,) = function.errors
    assert line["message"] == "malformed record"
    assert function.not_delivered == 1


@pytest.mark.parametrize(
    "event",
    [
        *({}, [], None, "x"),
        *({"Records": records} for records in ([], "x", [None], [{"body": "x"}])),
        *({"Records": [{"Sns": sns}]} for sns in (None, {}, {"Message": 7})),
    ],
)
def test_an_event_that_is_not_from_sns_is_poison(function, event):
    assert "not one of SNS" in function.invoke_failing(event)
    assert function.not_delivered == 1


def test_many_faults_are_counted_and_the_first_named(function):
    error_text = function.invoke_failing(an_sns_event(*["poison"] * 7))
    assert error_text.startswith("7 not delivered: ")
    assert error_text.endswith("; and 4 more")


def test_an_internal_error_is_reported_with_its_traceback_and_hides_no_other(function, slack, monkeypatch):
    def render_broken_message(notice, *, delay_note):
        if notice.message_id.endswith("0"):
            raise ZeroDivisionError
        return real(notice, delay_note=delay_note)

    real = slack_adapter.render_message
    monkeypatch.setattr(slack_adapter, "render_message", render_broken_message)
    error_text = function.invoke_failing(
        an_sns_event(*(to_lambda_event(numbered_alert(number)) for number in range(2)))
    )
    assert "a fault in burstwatch (ZeroDivisionError): report it with the id of the alert" in error_text
    assert (len(slack.posts), len(function.chat_messages)) == (1, 2)
    assert "broken" in function.errors[0]["exception"]


# Slack's pauses


def test_a_retry_after_within_the_time_left_is_honoured(function, slack):
    slack.answers = [(429, "rate_limited", {"Retry-After": "3"})]
    assert function.invoke(an_sns_event(ALERT))["sent"] == 2
    assert 2.9 < function.slept[0] <= 3.0


def test_a_retry_after_beyond_the_time_left_fails_at_once_and_holds_for_the_next(function, slack):
    function.left_s = 20.0
    slack.answers = [(429, "rate_limited", {"Retry-After": "25"})]
    assert "this one may wait 5 s" in function.invoke_failing(an_sns_event(ALERT))
    function.start()
    function.invoke_failing(an_sns_event(to_lambda_event(numbered_alert(1))))
    assert len(slack.posts) == 1


def test_a_slack_that_hangs_is_given_up_in_time(function, slack, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [NO_RESPONSE]
    assert "timed out" in function.invoke_failing(an_sns_event(ALERT))
    assert function.invoke(an_sns_event(ALERT))["sent"] == 1


# The secret


def test_a_webhook_that_was_rotated_is_found_at_once(function, slack):
    function.invoke(an_sns_event(ALERT))
    with start_fake_slack() as new:
        stubbed_client("secretsmanager").put_secret_value(SecretId=SECRET_VALUES, SecretString=new.url)
        slack.answers = [(404, "no_service", {})]
        assert function.invoke(an_sns_event(to_lambda_event(numbered_alert(1))))["sent"] == 2
        assert len(new.posts) == 1


def test_a_webhook_that_is_gone_is_tried_once(function, slack):
    slack.answers = [(404, "no_service", {})]
    assert "make a new incoming webhook" in function.invoke_failing(an_sns_event(ALERT))
    assert len(slack.posts) == 1


def change(**value):
    stubbed_client("secretsmanager").put_secret_value(SecretId=SECRET_VALUES, **value)


def drop_parameter(_):
    stubbed_client("secretsmanager").delete_secret(SecretId=SECRET_VALUES)


def drop_table(_):
    stubbed_client("secretsmanager").delete_secret(SecretId=SECRET_VALUES, ForceDeleteWithoutRecovery=True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop_table, "make it, or correct its name"),
        (drop_parameter, "restore-secret"),
        (lambda _: change(SecretString="xoxb-not-a-webhook"), "is not an https:// one; copy it again"),
        (lambda _: change(SecretString="http://hooks.slack.com/services/T/B/x"), "is not an https:// one"),
        (lambda _: change(SecretString=" "), "is not an https:// one"),
        (
            lambda _: change(SecretString='{"uri": "https://hooks.slack.com/services/T/B/x"}'),
            "without a text under url",
        ),
        (lambda _: change(SecretString='{"url": 7}'), "without a text under url"),
        (lambda _: change(SecretString='{"url": "https://hooks'), "begins like JSON but is not JSON"),
        (lambda _: change(SecretBinary=b"https://hooks.slack.com"), "holds binary"),
    ],
)
def test_a_secret_that_is_not_a_webhook_names_what_to_do_without_its_content(function, slack, spoil, message):
    spoil(function)
    error_text = function.invoke_failing(an_sns_event(ALERT))
    assert message in error_text
    assert len(function.chat_messages) == 1
    for reported in (error_text, function.log.getvalue()):
        assert "xoxb" not in reported
        assert "hooks.slack" not in reported


def test_a_revoked_permission_names_itself(function, slack):
    reported = "User: role/notify is not authorized to perform: secretsmanager:GetSecretValue"
    with refuse_next_call(stubbed_client("secretsmanager"), "GetSecretValue", message=reported):
        error_text = function.invoke_failing(an_sns_event(ALERT))
    assert "may not call secretsmanager:GetSecretValue; grant secretsmanager:GetSecretValue" in error_text
    assert slack.posts == []


def test_the_webhook_address_is_never_printed(function, slack, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    for answer in (None, NO_RESPONSE, (404, f"/services/{SECRET}", {}), (302, "", {"Location": slack.url})):
        slack.answers = [answer]
        assert SECRET not in function.invoke_failing(an_sns_event(ALERT))
    function.invoke(an_sns_event(ALERT))
    assert "T00000000" not in function.log.getvalue()


# The table


def test_a_table_that_is_gone_stops_no_alert_and_is_reported(function, slack):
    stubbed_client("dynamodb").delete_table(TableName=TABLE)
    assert function.invoke(an_sns_event(ALERT))["sent"] == 2
    assert len(slack.posts) == 1
    warnings = [line for line in function.lines if line["level"] == "WARNING"]
    assert len(warnings) == 2
    assert "may be sent twice" in warnings[0]["reason"]


# As Lambda calls it


def test_the_handler_delivers_end_to_end(deployed_function, slack):
    assert notify.handler(an_sns_event(ALERT), Context())["sent"] == 2
    assert (len(slack.posts), len(deployed_function.chat_messages)) == (1, 1)


def test_the_handler_fails_with_a_metric_that_the_alarm_sees(deployed_function, slack, capsys):
    slack.answers = [(404, "no_service", {})]
    with pytest.raises(NotDeliveredError):
        notify.handler({"Records": [a_record(ALERT)]}, Context())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["AlertsNotDelivered"], metrics["service"]) == ([1.0], "prod")


def test_an_invalid_environment_is_one_line_and_the_same_metric(deployed_function, monkeypatch, capsys):
    monkeypatch.delenv("BURSTWATCH_LEDGER")
    with pytest.raises(notify.BurstwatchError, match="BURSTWATCH_LEDGER is not set"):
        notify.handler(an_sns_event(ALERT), Context())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["AlertsNotDelivered"] == [1.0]


def test_a_record_of_something_else_is_named_in_a_few_safe_words(function):
    error_text = function.invoke_failing({"Records": [{"\x1b[31m" + "x" * 100_000: 1}]})
    assert "the record is not one of SNS" in error_text
    assert error_text.isprintable()
    assert len(error_text) < 500
