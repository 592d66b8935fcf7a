"""burstctl alert --test: what each channel does with a test message, over HTTP, and what the sender sees."""

import json
from contextlib import contextmanager

import pytest
from moto.sns.models import sns_backends

from burstwatch.adapters.notify.message import parse_message
from support.aws.fake_cloudformation import fake_cloudformation
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import ACCOUNT
from support.cli.doctor_findings import deny, findings_for, single_finding
from support.delivery.fake_slack import SECRET, visible_text

TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:burstwatch"


@contextmanager
def deployed(cli, lab, **notify_settings):
    """A stack whose notify function has these settings."""
    deploy_stack(lab)
    with fake_cloudformation() as created:
        cli.set(AWS_ENDPOINT_URL_CLOUDFORMATION=created.url, AWS_ENDPOINT_URL_LAMBDA=created.url)
        created.function("Notify")["Environment"] = {"Variables": notify_settings}
        yield created


def add_topic(topics, name="burstwatch", *, subscribers=("oncall@example.com",)):
    arn = topics.create_topic(Name=name)["TopicArn"]
    for address in subscribers:
        topics.subscribe(TopicArn=arn, Protocol="email", Endpoint=address)
    return arn


def leave_unconfirmed(address):
    """As SNS lists a subscription that waits for its confirmation; moto confirms each at once."""
    for subscription in sns_backends[ACCOUNT]["us-east-1"].subscriptions.values():
        if subscription.endpoint == address:
            subscription.arn = "PendingConfirmation"


def store_webhook(lab, text, name="burstwatch/slack"):
    client = lab.client("secretsmanager")
    try:
        client.create_secret(Name=name, SecretString=text)
    except client.exceptions.ResourceExistsException:
        client.put_secret_value(SecretId=name, SecretString=text)
    return name


def queue_of(lab, topic_arn):
    """A queue that is subscribed to a topic."""
    sqs = lab.client("sqs")
    url = sqs.create_queue(QueueName="receiver")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    lab.client("sns").subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=arn)
    return lambda: [
        json.loads(message["Body"])
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    ]


def test_every_channel_of_a_stack_gets_a_message_that_is_marked_as_a_test(cli, lab, topics, slack):
    received = queue_of(lab, add_topic(topics))
    chat = add_topic(topics, "chat")
    secret = store_webhook(lab, json.dumps({"url": slack.url}))

    with deployed(cli, lab, BURSTWATCH_SLACK_SECRET=secret, BURSTWATCH_CHAT_TOPIC_ARN=chat):
        result = cli.run("alert", "--test", "--json")

    assert result.code == 0, result.out
    assert (result.document["stack"], result.document["verdict"]) == ("burstwatch", "ok")
    alert_id = result.document["alert_id"]
    sns = single_finding(result, "sns", "burstwatch")
    assert sns["seen"].startswith("2 confirmed subscriptions, 0 pending; SNS accepted message ")
    assert "email oncall@example.com" in sns["fix"]
    assert "sqs receiver" in sns["fix"]
    assert single_finding(result, "chat", "chat")["verdict"] == "ok"
    finding = single_finding(result, "slack", "secret burstwatch/slack")
    assert finding["seen"] == "Slack answered 200"
    assert "two messages that begin with TEST" in finding["fix"]
    [posted] = slack.payloads
    assert "TEST: this message is a test of the alerts, and nothing is wrong (us-east-1)" in posted["text"]
    assert "anna (user/moto) sent it with burstctl alert --test" in visible_text(posted)
    assert alert_id in visible_text(posted)
    [message] = received()
    assert json.loads(message["Message"])["alert_id"] == alert_id
    assert message["MessageAttributes"]["kind"]["Value"] == "TestAlert"
    forwarded = parse_message(message["Message"])
    assert forwarded.title.startswith("TEST: ")
    assert forwarded.kind == "TestAlert"


def test_the_ledger_is_neither_read_nor_written(cli, lab, topics):
    add_topic(topics)
    with deployed(cli, lab):
        lab.faults.reset_calls()
        cli.run("alert", "--test")

    calls = set(lab.faults.call_counts())
    assert not {call for call in calls if "Item" in call or call in {"Query", "Scan"}}
    assert not cli.ledger_path.exists()


def test_two_tests_have_different_ids_so_that_no_channel_drops_the_second(cli, lab, topics, slack):
    cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)

    first, second = (cli.run("alert", "--test", "--json").document["alert_id"] for _ in range(2))

    assert first != second
    assert len(slack.posts) == 2


def test_one_failed_channel_hides_no_other_and_has_its_next_step(cli, lab, topics, slack):
    add_topic(topics)
    slack.answers = [(403, "invalid_token", {})]
    secret = store_webhook(lab, slack.url)

    with deployed(cli, lab, BURSTWATCH_SLACK_SECRET=secret):
        result = cli.run("alert", "--test")

    assert result.code == 1
    assert "BROKEN   slack" in result.out
    refusal = "Slack refused the alert (HTTP 403, invalid_token)\n    To fix it: make a new incoming webhook"
    assert refusal in result.out
    assert "ok       sns" in result.out
    assert SECRET not in result.out + result.err


@pytest.mark.parametrize(
    ("action", "check", "problem"),
    [
        ("sns:Publish", "sns", "may not call sns:Publish"),
        ("secretsmanager:GetSecretValue", "slack", "may not call secretsmanager:GetSecretValue"),
        ("sns:ListSubscriptionsByTopic", "sns", "its subscriptions are not known"),
    ],
)
def test_a_denied_call_fails_the_test_of_its_channel_only(cli, lab, topics, slack, action, check, problem):
    add_topic(topics)
    secret = store_webhook(lab, slack.url)
    deny(lab, action)

    with deployed(cli, lab, BURSTWATCH_SLACK_SECRET=secret):
        result = cli.run("alert", "--test", "--json")

    assert result.code == 1
    [failed] = [finding for finding in result.document["findings"] if finding["trouble"]]
    assert (failed["check"], failed["verdict"]) == (check, "broken")
    assert problem in failed["seen"]
    assert {finding["check"] for finding in result.document["findings"] if finding["verdict"] == "ok"}


def test_a_pending_subscription_needs_attention_and_has_the_command_that_repeats_the_request(
    cli, lab, topics
):
    add_topic(topics, subscribers=("oncall@example.com", "boss@example.com"))
    leave_unconfirmed("boss@example.com")

    with deployed(cli, lab):
        result = cli.run("alert", "--test", "--json")

    assert result.code == 3
    sent, pending = findings_for(result, "sns", "burstwatch")
    assert sent["seen"].startswith("1 confirmed subscription, 1 pending; ")
    assert "boss@example.com" not in sent["fix"]
    assert pending["seen"] == "email to boss@example.com is not confirmed"
    assert pending["commands"][0].startswith(f"aws sns subscribe --topic-arn {TOPIC}")


def test_a_topic_without_recipients_needs_attention(cli, lab, topics):
    add_topic(topics, subscribers=())

    with deployed(cli, lab):
        result = cli.run("alert", "--test", "--json")

    assert result.code == 3
    assert [finding["seen"] for finding in findings_for(result, "sns") if finding["verdict"] == "broken"] == [
        "it has no recipients"
    ]


def test_a_chat_topic_to_which_no_chat_channel_is_subscribed_needs_attention(cli, lab, topics):
    add_topic(topics)

    with deployed(cli, lab, BURSTWATCH_CHAT_TOPIC_ARN=add_topic(topics, "chat", subscribers=())):
        result = cli.run("alert", "--test", "--json")

    assert result.code == 3
    assert single_finding(result, "chat")["seen"].endswith("and no chat channel receives it")


def test_the_command_exits_3_if_no_channel_is_configured(cli, lab, topics):
    result = cli.run("alert", "--test", "--json")

    assert result.code == 3
    assert single_finding(result, "channels")["seen"] == "no alert channel is configured: nothing was sent"
    assert cli.run("alert", "--test", "--exit-zero").code == 0


def test_the_channels_of_this_shell_are_tested_without_a_stack(cli, lab, topics, slack):
    cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url, BURSTWATCH_TOPIC_ARN=add_topic(topics, "mine"))

    result = cli.run("alert", "--test", "--json")

    assert result.code == 0
    assert single_finding(result, "sns", "mine")["verdict"] == "ok"
    assert single_finding(result, "slack", "BURSTWATCH_SLACK_WEBHOOK")["seen"] == "Slack answered 200"


def test_a_stack_that_cannot_be_looked_up_is_a_failure_and_the_other_channels_are_tested(
    cli, lab, topics, slack
):
    cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)
    deny(lab, "ssm:GetParametersByPath")

    result = cli.run("alert", "--test")

    assert result.code == 1
    assert result.out.count("may not call ssm:GetParametersByPath") == 1, "one cause, reported once"
    assert "Slack answered 200" in result.out
    assert len(slack.posts) == 1


def test_settings_of_the_notify_function_that_cannot_be_read_are_a_failure(cli, lab, topics):
    add_topic(topics)

    with deployed(cli, lab) as created:
        created.denied = {"GetFunctionConfiguration"}
        result = cli.run("alert", "--test")

    assert result.code == 1
    assert "BROKEN   chat, slack" in result.out
    assert "ok       sns" in result.out


def test_without_credentials_the_webhook_of_this_shell_is_tested_and_there_is_one_failure(cli, lab, slack):
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "BURSTWATCH_CLOCK")
    cli.set(AWS_CONFIG_FILE="/nowhere", AWS_SHARED_CREDENTIALS_FILE="/nowhere")
    cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)

    result = cli.run("alert", "--test")

    assert result.code == 1
    assert result.out.count("no AWS credentials") == 1
    assert "Slack answered 200" in result.out
    assert len(slack.posts) == 1


def test_nothing_is_sent_without_the_option(cli, lab, slack):
    cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)

    result = cli.run("alert")

    assert result.code == 2
    assert "add --test" in result.err
    assert slack.posts == []


def test_a_webhook_that_cannot_be_one_is_refused_without_being_shown(cli, lab, topics):
    cli.set(BURSTWATCH_SLACK_WEBHOOK="hooks.slack.com/services/T0/B0/hidden")

    result = cli.run("alert", "--test")

    assert result.code == 1
    assert "is not an https:// one" in result.out
    assert "hidden" not in result.out + result.err
