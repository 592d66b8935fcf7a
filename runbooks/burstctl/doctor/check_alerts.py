"""The alert channels: topics, their subscribers, and Slack. Nothing is posted."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request

from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import (
    CheckFailure,
    Finding,
    LookupFailedError,
    broken,
    from_error,
    ok,
    skipped,
    warning,
)
from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.wiring.function_settings import CHAT_TOPIC_ARN, SLACK_SECRET
from burstwatch.wiring.settings import SLACK_WEBHOOK, TOPIC_ARN

_PENDING_ARN: Final = "PendingConfirmation"
_NO_TOPIC_MESSAGE: Final = f"no topic: {TOPIC_ARN} is not set, and no stack is deployed"
_NOT_DELIVERED_PAGE: Final = "runbooks/AlertsNotDelivered.md"
_TEST_PAGE: Final = "runbooks/TestAlert.md"
_DEAD_LETTER_PAGE: Final = "runbooks/AlertsDeadLettered.md"

_SLACK_HOSTS: Final = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})
_LOCAL_HOSTS: Final = frozenset({"localhost", "::1"})
_EMPTY_MESSAGE: Final = {"text": ""}
"""Slack refuses a message without text with ``no_text`` if the webhook is valid, otherwise with the fault."""

_VALID_WEBHOOK_CODES: Final = frozenset(
    {"no_text", "missing_text", "missing_text_or_fallback_or_attachments"}
)
_CODE_PATTERN: Final = re.compile(r"\(HTTP \d+, (\w+)\)")
_TIMEOUT_S: Final = 5.0  # as long as an alert to Slack may take


def check_topic(context: DoctorContext) -> Iterator[Finding]:
    """Whether the topics that alerts go to are there."""
    topics = _topic_arns(context)
    for topic_arn in topics:
        yield _check_topic(context, topic_arn)
    if not topics:
        yield skipped(_NO_TOPIC_MESSAGE)


def check_subscriptions(context: DoctorContext) -> Iterator[Finding]:
    """Who receives an alert, and who would after confirming a subscription."""
    topics = _topic_arns(context)
    if not topics:
        yield skipped(_NO_TOPIC_MESSAGE)
    for topic_arn in topics:
        subscriptions = list_subscriptions(context, topic_arn)
        yield from judge_subscriptions(
            context, topic_arn, subscriptions, notify_destinations(context, topic_arn)
        )


def list_subscriptions(context: DoctorContext, topic_arn: str) -> list[Mapping[str, Any]]:
    """The subscriptions of a topic, as SNS lists them.

    Raises:
        AwsError: SNS did not list them.
    """
    client = context.client("sns")
    with translate_errors("sns:ListSubscriptionsByTopic"):
        return [
            subscription
            for page in paginate(
                client.list_subscriptions_by_topic, list_key="Subscriptions", TopicArn=topic_arn
            )
            for subscription in page.get("Subscriptions", ())
        ]


def is_confirmed(subscription: Mapping[str, Any]) -> bool:
    """Whether messages are sent to it: a subscription has an ARN only once it is confirmed."""
    return str(subscription.get("SubscriptionArn", "")).startswith("arn:")


def judge_subscriptions(
    context: DoctorContext,
    topic_arn: str,
    subscriptions: Sequence[Mapping[str, Any]],
    destinations: Sequence[str] | None,
) -> Iterator[Finding]:
    """Only confirmed subscriptions count, and the notify function alone reaches no one.

    ``destinations`` are the destinations of the notify function; None if they are not known.
    """
    topic = topic_arn.rpartition(":")[2]
    for subscription in subscriptions:
        if subscription.get("SubscriptionArn") == _PENDING_ARN:
            protocol, endpoint = str(subscription.get("Protocol")), str(subscription.get("Endpoint"))
            resubscribe = context.aws_command(
                "sns", "subscribe", "--topic-arn", topic_arn, "--protocol", protocol,
                "--notification-endpoint", endpoint,
            )  # fmt: skip
            fix = "confirm it there; to send the request again:"
            yield warning(
                f"{protocol} to {endpoint} is not confirmed", subject=topic, fix=fix, commands=(resubscribe,)
            )
    protocols = [
        str(subscription.get("Protocol")) for subscription in subscriptions if is_confirmed(subscription)
    ]
    recipients = [*(name for name in protocols if name != "lambda"), *(destinations or ())]
    if recipients:
        yield ok(f"received by {', '.join(sorted(recipients))}", subject=topic)
    elif destinations is None:
        summary = (
            "no subscribers; the recipients of the notify function are unknown:"
            " its settings could not be read"
        )
        yield skipped(summary, subject=topic, fix="grant lambda:GetFunctionConfiguration to find out")
    else:
        subscribe = context.aws_command(
            "sns", "subscribe", "--topic-arn", topic_arn, "--protocol", "email",
            "--notification-endpoint", "ADDRESS",
        )  # fmt: skip
        fix = "subscribe someone, or name recipients in the stage file and deploy"
        yield broken("it has no recipients", subject=topic, fix=fix, commands=(subscribe,), page=_TEST_PAGE)


def check_slack(context: DoctorContext) -> Iterator[Finding]:
    """Whether Slack would accept a message, and whether the stack's secret has the address."""
    url = context.environ.get(SLACK_WEBHOOK)
    if url:
        yield probe_webhook(url)
    try:
        secret = context.notify_settings().get(SLACK_SECRET)
    except LookupFailedError as error:
        yield skipped(f"whether the stack notifies Slack is unknown; see {error.owner}")
        return
    if secret:
        yield _check_secret(context, secret)
    if not url and not secret:
        yield skipped(f"not set up; for a watch here, {SLACK_WEBHOOK} has the address of a webhook")


def probe_webhook(url: str, open_url: Callable[..., Any] | None = None) -> Finding:
    """Test the webhook without posting: send a message that Slack must refuse.

    Any other server only receives a connection: its reaction to such a message is unknown.
    """
    try:
        webhook = SlackWebhook(url, open_url=open_url)
    except ChannelError as error:
        fix = f"copy it again into {SLACK_WEBHOOK}"
        return broken(str(error), fix=fix, trouble=CheckFailure.MISUSED)
    host = urlsplit(url).hostname or ""
    if host not in _SLACK_HOSTS and host not in _LOCAL_HOSTS and not host.startswith("127."):
        return _check_connection(host, urlsplit(url).port)
    try:
        webhook.post(_EMPTY_MESSAGE, max_wait_s=2.0)
    except ChannelError as error:
        return judge_refusal(error)
    summary = f"{host} accepted a message without text, which Slack refuses: something else answers there"
    return warning(summary, fix="check the address of the webhook", page=_NOT_DELIVERED_PAGE)


def judge_refusal(error: ChannelError) -> Finding:
    """What Slack says to an empty message: that it is empty, or what is wrong with the webhook."""
    code_match = _CODE_PATTERN.search(str(error))
    code = code_match[1] if code_match else ""
    if code in _VALID_WEBHOOK_CODES:
        return ok(f"reached; the webhook is valid: it refused an empty message ({code})")
    if code == "invalid_payload":
        return skipped("reached; it is unknown whether the webhook is valid (invalid_payload)")
    message = error.problem.cause.replace("refused the alert", "refused it").partition("; it is tried")[0]
    fix = error.problem.fix or "run it again; if it lasts, check the network and any proxy"
    if error.is_permanent:
        return broken(message, fix=fix, page=_NOT_DELIVERED_PAGE)
    return broken(message, fix=fix, trouble=CheckFailure.FAILED, page=_NOT_DELIVERED_PAGE)


def _check_connection(host: str, port: int | None) -> Finding:
    """Open a connection and check its certificate; only the host of the webhook's address is shown."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    request = Request(f"https://{host}{f':{port}' if port else ''}/", method="HEAD")
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            status = response.status
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        fix = "check the address of the webhook, the network and any proxy"
        return broken(
            f"{host} was not reached ({reason})",
            fix=fix,
            trouble=CheckFailure.FAILED,
            page=_NOT_DELIVERED_PAGE,
        )
    summary = f"{host} is not Slack's: it was reached (HTTP {status}), and nothing was posted"
    return skipped(summary, fix="the first alert will show whether it accepts messages")


def _check_topic(context: DoctorContext, topic_arn: str) -> Finding:
    name, region = topic_arn.rpartition(":")[2], topic_arn.split(":")[3]
    if region != context.region:
        summary = f"it is in {region}, and this is {context.region}: alerts do not get there"
        return broken(
            summary, subject=name, fix=f"name a topic of this region in {TOPIC_ARN}", page=_NOT_DELIVERED_PAGE
        )
    try:
        with translate_errors("sns:GetTopicAttributes"):
            context.client("sns").get_topic_attributes(TopicArn=topic_arn)
    except AwsError as error:
        if error.failure.kind is not FailureKind.NOT_FOUND and error.failure.code != "NotFound":
            return from_error(error)
        fix = f"name an existing one in {TOPIC_ARN}; deploy again if it was the stack's"
        return broken(f"there is no topic {topic_arn}", subject=name, fix=fix, page=_NOT_DELIVERED_PAGE)
    return ok("is there", subject=name)


def _check_secret(context: DoctorContext, secret: str) -> Finding:
    try:
        with translate_errors("secretsmanager:DescribeSecret"):
            response = context.client("secretsmanager").describe_secret(SecretId=secret)
    except AwsError as error:
        if error.failure.kind is not FailureKind.NOT_FOUND and "NotFound" not in error.failure.code:
            return from_error(error)
        create = context.aws_command(
            "secretsmanager", "create-secret", "--name", secret, "--secret-string", "file://webhook.txt"
        )
        fix = "create it, with the address of an incoming webhook in it"
        summary = f"the stack reads its webhook from the secret {secret}, which does not exist"
        return broken(summary, fix=fix, commands=(create,), page=_DEAD_LETTER_PAGE)
    if response.get("DeletedDate") is not None:
        restore = context.aws_command("secretsmanager", "restore-secret", "--secret-id", secret)
        return broken(
            f"the secret {secret} is being deleted",
            fix="keep it",
            commands=(restore,),
            page=_DEAD_LETTER_PAGE,
        )
    return ok(f"the stack's webhook is in the secret {secret}, which was not opened")


def _topic_arns(context: DoctorContext) -> list[str]:
    """The topic that is named here, and the stack's."""
    topics: list[str | None] = []
    with suppress(LookupFailedError):
        topics.append(context.settings().topic_arn)
    stack = context.stack
    topics.append(stack.topic_arn if stack else None)
    return list(dict.fromkeys(topic_arn for topic_arn in topics if topic_arn))


def notify_destinations(context: DoctorContext, topic_arn: str) -> list[str] | None:
    """The destinations to which the notify function forwards alerts; None if they are not known."""
    stack = context.stack
    if stack is None or topic_arn != stack.topic_arn:
        return []
    destinations = {SLACK_SECRET: "Slack", CHAT_TOPIC_ARN: "AWS's chat service"}
    try:
        settings = context.notify_settings()
    except LookupFailedError:
        return None
    return [name for setting, name in destinations.items() if settings.get(setting)]
