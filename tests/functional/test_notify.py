"""The notify function: AWS in this process, Slack over real HTTP on loopback."""

import json
from io import StringIO
from itertools import count

import pytest
from fake_slack import SECRET, SILENCE, a_slack, assert_within_slacks_limits, words
from mocked_aws import client_of, refusing
from moto import mock_aws
from some_alerts import alert_number, an_alert
from some_records import a_record, an_alarm, an_event, as_lambda_gets_it
from test_observability import Context

from burstwatch.adapters.notify import slack as slack_adapter
from burstwatch.adapters.notify import slack_webhook
from burstwatch.adapters.notify.amazon_q import render_chat
from burstwatch.adapters.notify.message import notice_of
from burstwatch.handlers import notify
from burstwatch.handlers.notify import NotDeliveredError, run
from burstwatch.wiring.bootstrap_notify import NotifyShell, build_tellers
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Instruments
from ledgers import TABLE, make_table

NOW_S = 1_795_197_637.0
"""2026-11-20T18:00:37Z, a second after SNS took the messages."""
HELD = "burstwatch/slack"
NUMBERS = count()
ALERT = as_lambda_gets_it(an_alert())


class Session:
    """As bootstrap's, with credentials of nobody."""

    region_name = "us-east-1"

    def client(self, service_name, *, config, endpoint_url):
        return client_of(service_name)


class Function:
    """The function as deployed, with what it said and what its people saw."""

    def __init__(self, slack, *, secret=HELD, chat=True):
        self.slack = slack
        self.log = StringIO()
        self.left_s = 60.0
        self.slept = []
        make_table(client_of("dynamodb"))
        client_of("secretsmanager").create_secret(Name=HELD, SecretString=slack.url)
        self.topic = client_of("sns").create_topic(Name="chat")["TopicArn"]
        self.queue = client_of("sqs").create_queue(QueueName="seen")["QueueUrl"]
        client_of("sns").subscribe(
            TopicArn=self.topic,
            Protocol="sqs",
            Endpoint="arn:aws:sqs:us-east-1:123456789012:seen",
            Attributes={"RawMessageDelivery": "true"},
        )
        self.settings = NotifySettings(
            region="us-east-1",
            table=TABLE,
            deployment="prod",
            slack_secret=secret,
            chat_topic_arn=self.topic if chat else None,
        )
        self.start()

    def start(self):
        environ = {"POWERTOOLS_SERVICE_NAME": f"notify-{next(NUMBERS)}"}
        self.say = Instruments.from_env(environ, stream=self.log)
        self.tellers, self.sent = build_tellers(self.settings, Session(), sleep=self.slept.append)

    def tell(self, event, *, now_s=NOW_S):
        shell = NotifyShell(
            tellers=self.tellers, sent=self.sent, say=self.say, time_left_s=lambda: self.left_s
        )
        return run(event, now_s, shell)

    def fails(self, event, **options):
        with pytest.raises(NotDeliveredError) as caught:
            self.tell(event, **options)
        return str(caught.value)

    @property
    def chatted(self):
        found = client_of("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in found.get("Messages", ())]

    @property
    def lines(self):
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def errors(self):
        return [line for line in self.lines if line["level"] == "ERROR"]

    @property
    def not_delivered(self):
        return sum(self.say.metrics.metric_set.get("AlertsNotDelivered", {}).get("Value", [0]))


@pytest.fixture
def slack():
    with a_slack() as fake:
        yield fake


@pytest.fixture
def function(slack):
    with mock_aws():
        yield Function(slack)


# Delivered


def test_an_alert_reaches_slack_and_the_chat_service(function, slack):
    assert function.tell(an_event(ALERT))["sent"] == 2
    ((path, _, payload),) = slack.posts
    assert path == f"/services/{SECRET}"
    assert_within_slacks_limits(payload)
    assert an_alert().alert_id in words(payload)
    assert function.chatted == [render_chat(notice_of(an_alert()))]
    assert function.not_delivered == 0
    told = [(line["message"], line["channel"], line["alert_id"], line["kind"]) for line in function.lines]
    assert told == [
        ("sent", channel, an_alert().alert_id, "BurstBalanceDraining") for channel in ("chat", "slack")
    ]


def test_an_alarm_of_cloudwatch_reaches_both_with_its_page(function, slack):
    function.tell(an_event(an_alarm()))
    assert "<https://wiki.example.com/runbooks/WatchdogSilent.md|Runbook>" in words(slack.payloads[0])
    (chatted,) = function.chatted
    assert chatted["content"]["title"] == "🔴 alarm: WatchdogSilent"


def test_what_comes_again_is_not_sent_again(function, slack):
    function.tell(an_event(ALERT))
    function.start()
    assert function.tell(an_event(ALERT, ALERT)) == {
        "sent": 0, "sent before": 4, "being sent by another invocation": 0,
    }  # fmt: skip
    assert (len(slack.posts), len(function.chatted)) == (1, 1)


def test_several_records_are_told_each(function, slack):
    event = an_event(*(as_lambda_gets_it(alert_number(number)) for number in range(4)))
    assert function.tell(event)["sent"] == 8
    assert len(slack.posts) == 4


def test_an_old_message_that_is_replayed_says_how_late_it_is(function, slack):
    function.tell(an_event(ALERT), now_s=NOW_S + 7800)
    assert "delivered 2 h 10 min late" in words(slack.payloads[0])
    assert "delivered 2 h 10 min late" in function.chatted[0]["content"]["description"]


@pytest.mark.parametrize("timestamp", ["yesterday", None, 7])
def test_a_timestamp_that_cannot_be_read_makes_nothing_late(function, slack, timestamp):
    function.tell(an_event(ALERT, timestamp=timestamp))
    assert "late" not in words(slack.payloads[0])


@pytest.mark.parametrize("held", ['{"url": "%s"}', "  %s\n"])
def test_the_secret_may_be_json_and_have_space_around_it(function, slack, held):
    client_of("secretsmanager").put_secret_value(SecretId=HELD, SecretString=held % slack.url)
    assert function.tell(an_event(ALERT))["sent"] == 2


def test_without_slack_the_chat_service_is_told_and_no_secret_read(slack):
    with mock_aws():
        function = Function(slack, secret=None)
        assert function.tell(an_event(ALERT))["sent"] == 1
    assert slack.posts == []


def test_with_no_way_to_people_nothing_is_sent_and_nothing_fails(slack):
    with mock_aws():
        assert Function(slack, secret=None, chat=False).tell(an_event(ALERT))["sent"] == 0


# What fails, fails loudly and alone


def test_slack_failing_does_not_keep_the_chat_service_from_being_told(function, slack):
    slack.answers = [(500, "rollup_error", {})]
    said = function.fails(an_event(ALERT))
    assert said.startswith("1 not delivered: slack: Slack failed (HTTP 500, rollup_error)")
    assert len(function.chatted) == 1
    assert function.not_delivered == 1
    (line,) = function.errors
    assert (line["message"], line["channel"], line["alert_id"]) == (
        "not delivered",
        "slack",
        an_alert().alert_id,
    )


def test_a_retry_sends_what_was_missing_and_nothing_twice(function, slack):
    slack.answers = [(500, "", {})]
    function.fails(an_event(ALERT))
    told = function.tell(an_event(ALERT))
    assert (told["sent"], told["sent before"]) == (1, 1)
    assert (len(slack.posts), len(function.chatted)) == (2, 1)


def test_the_chat_service_failing_does_not_keep_slack_from_being_told(function, slack):
    client_of("sns").delete_topic(TopicArn=function.topic)
    said = function.fails(an_event(ALERT))
    assert "chat: sns:Publish" in said
    assert len(slack.posts) == 1


def test_one_alert_that_slack_refuses_hides_no_other(function, slack):
    slack.answers = [(200, "ok", {}), (400, "invalid_blocks", {}), (200, "ok", {})]
    function.fails(an_event(*(as_lambda_gets_it(alert_number(number)) for number in range(3))))
    assert len(slack.posts) == 3
    assert function.not_delivered == 1


@pytest.mark.parametrize("poison", ["", "hello", "{}", '{"schema": "burstwatch.alert/v1"}', "[" * 10_000])
def test_a_poison_record_is_one_line_and_hides_no_other(function, slack, poison):
    said = function.fails(an_event(poison, ALERT))
    assert "1 not delivered" in said
    assert len(slack.posts) == 1
    (line,) = function.errors
    assert line["message"] == "poison record"
    assert function.not_delivered == 1


@pytest.mark.parametrize(
    "event",
    [
        *({}, [], None, "x"),
        *({"Records": records} for records in ([], "x", [None], [{"body": "x"}])),
        *({"Records": [{"Sns": sns}]} for sns in (None, {}, {"Message": 7})),
    ],
)
def test_an_event_that_is_none_of_snss_is_poison(function, event):
    assert "not one of SNS" in function.fails(event)
    assert function.not_delivered == 1


def test_many_faults_are_counted_and_the_first_named(function):
    said = function.fails(an_event(*["poison"] * 7))
    assert said.startswith("7 not delivered: ")
    assert said.endswith("; and 4 more")


def test_a_mistake_of_ours_is_told_with_its_traceback_and_hides_no_other(function, slack, monkeypatch):
    def broken(notice, *, late):
        if notice.notice_id.endswith("0"):
            raise ZeroDivisionError
        return real(notice, late=late)

    real = slack_adapter.render_notice
    monkeypatch.setattr(slack_adapter, "render_notice", broken)
    said = function.fails(an_event(*(as_lambda_gets_it(alert_number(number)) for number in range(2))))
    assert "a fault in burstwatch (ZeroDivisionError): report it with the id of the alert" in said
    assert (len(slack.posts), len(function.chatted)) == (1, 2)
    assert "broken" in function.errors[0]["exception"]


# Slack's pauses


def test_a_pause_within_the_functions_time_is_kept(function, slack):
    slack.answers = [(429, "rate_limited", {"Retry-After": "3"})]
    assert function.tell(an_event(ALERT))["sent"] == 2
    assert 2.9 < function.slept[0] <= 3.0


def test_a_pause_beyond_the_functions_time_fails_at_once_and_holds_for_the_next(function, slack):
    function.left_s = 20.0
    slack.answers = [(429, "rate_limited", {"Retry-After": "25"})]
    assert "this one may wait 5 s" in function.fails(an_event(ALERT))
    function.start()
    function.fails(an_event(as_lambda_gets_it(alert_number(1))))
    assert len(slack.posts) == 1


def test_a_slack_that_hangs_is_given_up_in_time(function, slack, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    slack.answers = [SILENCE]
    assert "timed out" in function.fails(an_event(ALERT))
    assert function.tell(an_event(ALERT))["sent"] == 1


# The secret


def test_a_webhook_that_was_rotated_is_found_at_once(function, slack):
    function.tell(an_event(ALERT))
    with a_slack() as new:
        client_of("secretsmanager").put_secret_value(SecretId=HELD, SecretString=new.url)
        slack.answers = [(404, "no_service", {})]
        assert function.tell(an_event(as_lambda_gets_it(alert_number(1))))["sent"] == 2
        assert len(new.posts) == 1


def test_a_webhook_that_is_gone_is_tried_once(function, slack):
    slack.answers = [(404, "no_service", {})]
    assert "make a new incoming webhook" in function.fails(an_event(ALERT))
    assert len(slack.posts) == 1


def change(**value):
    client_of("secretsmanager").put_secret_value(SecretId=HELD, **value)


def forget(_):
    client_of("secretsmanager").delete_secret(SecretId=HELD)


def destroy(_):
    client_of("secretsmanager").delete_secret(SecretId=HELD, ForceDeleteWithoutRecovery=True)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (destroy, "make it, or correct its name"),
        (forget, "restore-secret"),
        (lambda _: change(SecretString="xoxb-not-a-webhook"), "is not an https:// one: copy it again"),
        (lambda _: change(SecretString="http://hooks.slack.com/services/T/B/x"), "is not an https:// one"),
        (lambda _: change(SecretString=" "), "is not an https:// one"),
        (
            lambda _: change(SecretString='{"uri": "https://hooks.slack.com/services/T/B/x"}'),
            "without a text under url",
        ),
        (lambda _: change(SecretString='{"url": 7}'), "without a text under url"),
        (lambda _: change(SecretString='{"url": "https://hooks'), "begins like JSON and is none"),
        (lambda _: change(SecretBinary=b"https://hooks.slack.com"), "holds binary"),
    ],
)
def test_a_secret_that_is_no_webhook_says_what_to_do_and_nothing_of_what_it_holds(
    function, slack, spoil, says
):
    spoil(function)
    said = function.fails(an_event(ALERT))
    assert says in said
    assert len(function.chatted) == 1
    for told in (said, function.log.getvalue()):
        assert "xoxb" not in told
        assert "hooks.slack" not in told


def test_a_revoked_permission_names_itself(function, slack):
    told = "User: role/notify is not authorized to perform: secretsmanager:GetSecretValue"
    with refusing(client_of("secretsmanager"), "GetSecretValue", message=told):
        said = function.fails(an_event(ALERT))
    assert "may not call secretsmanager:GetSecretValue; grant secretsmanager:GetSecretValue" in said
    assert slack.posts == []


def test_the_address_stands_in_nothing_that_is_said(function, slack, monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    for answer in (None, SILENCE, (404, f"/services/{SECRET}", {}), (302, "", {"Location": slack.url})):
        slack.answers = [answer]
        assert SECRET not in function.fails(an_event(ALERT))
    function.tell(an_event(ALERT))
    assert "T00000000" not in function.log.getvalue()


# The table


def test_a_table_that_is_gone_stops_no_alert_and_is_told(function, slack):
    client_of("dynamodb").delete_table(TableName=TABLE)
    assert function.tell(an_event(ALERT))["sent"] == 2
    assert len(slack.posts) == 1
    warnings = [line for line in function.lines if line["level"] == "WARNING"]
    assert len(warnings) == 2
    assert "may come twice" in warnings[0]["reason"]


# As Lambda calls it


@pytest.fixture
def deployed(function, monkeypatch):
    environ = {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "BURSTWATCH_LEDGER": f"dynamodb:{TABLE}",
        "BURSTWATCH_DEPLOYMENT": "prod",
        "BURSTWATCH_SLACK_SECRET": HELD,
        "BURSTWATCH_CHAT_TOPIC_ARN": function.topic,
        "POWERTOOLS_SERVICE_NAME": "prod",
        "POWERTOOLS_METRICS_NAMESPACE": "Burstwatch",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    notify._open.cache_clear()
    yield function
    notify._open.cache_clear()


def test_the_handler_does_all_of_it(deployed, slack):
    assert notify.handler(an_event(ALERT), Context())["sent"] == 2
    assert (len(slack.posts), len(deployed.chatted)) == (1, 1)


def test_the_handler_fails_with_a_metric_that_the_alarm_sees(deployed, slack, capsys):
    slack.answers = [(404, "no_service", {})]
    with pytest.raises(NotDeliveredError):
        notify.handler({"Records": [a_record(ALERT)]}, Context())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["AlertsNotDelivered"], metrics["service"]) == ([1.0], "prod")


def test_a_wrong_environment_is_one_line_and_the_same_metric(deployed, monkeypatch, capsys):
    monkeypatch.delenv("BURSTWATCH_LEDGER")
    with pytest.raises(notify.BurstwatchError, match="BURSTWATCH_LEDGER is not set"):
        notify.handler(an_event(ALERT), Context())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["AlertsNotDelivered"] == [1.0]


def test_a_record_of_something_else_is_named_in_a_few_safe_words(function):
    said = function.fails({"Records": [{"\x1b[31m" + "x" * 100_000: 1}]})
    assert "the record is not one of SNS" in said
    assert said.isprintable()
    assert len(said) < 500
