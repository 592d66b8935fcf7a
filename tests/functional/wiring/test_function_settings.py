import pytest

from burstwatch.wiring.function_settings import FunctionClock, FunctionSettings, NotifySettings
from burstwatch.wiring.settings import SettingsError

FUNCTION = {
    "AWS_REGION": "us-east-1",
    "BURSTWATCH_LEDGER": "dynamodb:burstwatch-Ledger-1ABC",
    "BURSTWATCH_CLOCK": "wall",
    "BURSTWATCH_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:burstwatch-Alerts.x",
    "BURSTWATCH_POLICY": "/burstwatch/prod/policy",
    "BURSTWATCH_DEPLOYMENT": "prod",
    "BURSTWATCH_FLIP_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/flips.fifo",
}
NOTIFY = {
    "AWS_REGION": "us-gov-west-1",
    "BURSTWATCH_LEDGER": "dynamodb:ledger",
    "BURSTWATCH_DEPLOYMENT": "prod",
    "BURSTWATCH_SLACK_SECRET": "burstwatch/slack",
    "BURSTWATCH_CHAT_TOPIC_ARN": "arn:aws-us-gov:sns:us-gov-west-1:123456789012:chat",
}


def faults(kind, environ):
    with pytest.raises(SettingsError) as exc_info:
        kind.from_env(environ)
    return str(exc_info.value)


def test_what_the_stack_writes_is_read():
    settings = FunctionSettings.from_env(FUNCTION)
    assert (settings.table, settings.clock) == ("burstwatch-Ledger-1ABC", FunctionClock.WALL)
    assert settings.flip_queue_url == FUNCTION["BURSTWATCH_FLIP_QUEUE_URL"]
    assert settings.policy_parameter == "/burstwatch/prod/policy"


def test_a_stack_without_flips_names_no_queue():
    environ = {key: value for key, value in FUNCTION.items() if "QUEUE" not in key}
    assert FunctionSettings.from_env(environ).flip_queue_url is None


@pytest.mark.parametrize("clock", ["", None])
def test_without_a_clock_setting_the_wall_clock_is_used(clock):
    environ = FUNCTION | {"BURSTWATCH_CLOCK": clock} if clock is not None else FUNCTION
    assert FunctionSettings.from_env(environ).clock is FunctionClock.WALL


def test_the_queue_of_a_local_aws_is_one_too():
    url = "http://127.0.0.1:4566/000000000000/flips.fifo"
    assert FunctionSettings.from_env(FUNCTION | {"BURSTWATCH_FLIP_QUEUE_URL": url}).flip_queue_url == url


def test_every_fault_is_named_at_once():
    text = faults(
        FunctionSettings,
        {
            "AWS_REGION": "the moon",
            "BURSTWATCH_LEDGER": "sqlite:/tmp/x",
            "BURSTWATCH_CLOCK": "endpoint",
            "BURSTWATCH_POLICY": "policy",
            "BURSTWATCH_FLIP_QUEUE_URL": "https://sqs/flips",
        },
    )
    for name in ("AWS_REGION", "LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT", "FLIP_QUEUE_URL"):
        assert name in text
    assert "not set" in text
    assert text.endswith("deploy the stack again")


def test_an_empty_environment_names_what_is_missing_and_no_more():
    text = faults(FunctionSettings, {})
    assert text.count("is not set") == 5
    assert "QUEUE" not in text


def test_settings_cannot_be_changed():
    settings = FunctionSettings.from_env(FUNCTION)
    with pytest.raises(AttributeError):
        settings.table = "another"


def test_notify_reads_its_channels():
    settings = NotifySettings.from_env(NOTIFY)
    assert settings.slack_secret == "burstwatch/slack"
    assert settings.chat_topic_arn == NOTIFY["BURSTWATCH_CHAT_TOPIC_ARN"]


def test_notify_may_have_no_channel():
    environ = {key: value for key, value in NOTIFY.items() if "SLACK" not in key and "CHAT" not in key}
    settings = NotifySettings.from_env(environ)
    assert (settings.slack_secret, settings.chat_topic_arn) == (None, None)


def test_a_secret_in_place_of_its_name_is_not_repeated():
    webhook = "https://hooks.slack.com/services/T0/B0/very secret"
    text = faults(NotifySettings, NOTIFY | {"BURSTWATCH_SLACK_SECRET": webhook})
    assert "BURSTWATCH_SLACK_SECRET is not the name or ARN of a secret" in text
    assert "secret/" not in text
    assert "hooks" not in text


def test_a_webhook_without_a_space_is_not_a_name_of_a_secret_either():
    text = faults(NotifySettings, NOTIFY | {"BURSTWATCH_SLACK_SECRET": "https://hooks.slack.com/services/T0"})
    assert "services" not in text


@pytest.mark.parametrize(
    "form", ["burstwatch/slack", "arn:aws:secretsmanager:us-east-1:123456789012:secret:s-AbCdEf"]
)
def test_a_secret_goes_by_name_or_arn(form):
    assert NotifySettings.from_env(NOTIFY | {"BURSTWATCH_SLACK_SECRET": form}).slack_secret == form
