"""The ways to people: topics, who subscribed to them, and Slack; nothing is posted."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, Trouble, UnknownError, broken, of_error, ok, skipped, warning
from burstwatch.adapters.aws.botocore_hooks import pages
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_webhook import Webhook
from burstwatch.wiring.function_settings import CHAT_TOPIC_ARN, SLACK_SECRET
from burstwatch.wiring.settings import SLACK_WEBHOOK, TOPIC_ARN

_PENDING: Final = "PendingConfirmation"
_NO_TOPIC: Final = f"no topic: {TOPIC_ARN} names none, and no stack is deployed"
_DELIVERED: Final = "runbooks/AlertsNotDelivered.md"
_DOCS: Final = "docs/deploying.md"

_SLACK_HOSTS: Final = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})
_LOCAL_HOSTS: Final = frozenset({"localhost", "::1"})
_EMPTY: Final = {"text": ""}
"""What Slack refuses with ``no_text`` where the webhook is a good one, and otherwise for what is wrong."""

_IS_THERE: Final = frozenset({"no_text", "missing_text", "missing_text_or_fallback_or_attachments"})
_CODE: Final = re.compile(r"\(HTTP \d+, (\w+)\)")
_TIMEOUT_S: Final = 5.0


def check_topic(patient: Patient) -> Iterator[Finding]:
    """Whether the topics that alerts go to are there."""
    topics = _topics(patient)
    for topic_arn in topics:
        yield _check_topic(patient, topic_arn)
    if not topics:
        yield skipped(_NO_TOPIC)


def check_subscriptions(patient: Patient) -> Iterator[Finding]:
    """Who hears of an alert, and who would if they had confirmed."""
    topics = _topics(patient)
    if not topics:
        yield skipped(_NO_TOPIC)
    for topic_arn in topics:
        client = patient.client("sns")
        with explained("sns:ListSubscriptionsByTopic"):
            told = [
                one
                for page in pages(client.list_subscriptions_by_topic, of="Subscriptions", TopicArn=topic_arn)
                for one in page.get("Subscriptions", ())
            ]
        yield from judge_subscriptions(patient, topic_arn, told, _other_ways(patient, topic_arn))


def judge_subscriptions(
    patient: Patient, topic_arn: str, told: Sequence[Mapping[str, Any]], others: Sequence[str] | None
) -> Iterator[Finding]:
    """A subscription counts from its confirmation on; the notify function is nobody by itself.

    ``others`` are those whom it tells, None where that is not known.
    """
    topic = topic_arn.rpartition(":")[2]
    for one in told:
        if one.get("SubscriptionArn") == _PENDING:
            protocol, endpoint = str(one.get("Protocol")), str(one.get("Endpoint"))
            again = patient.aws(
                "sns", "subscribe", "--topic-arn", topic_arn, "--protocol", protocol,
                "--notification-endpoint", endpoint,
            )  # fmt: skip
            fix = "confirm it there; to have the question sent once more:"
            yield warning(
                f"{protocol} to {endpoint} is not confirmed", about=topic, fix=fix, commands=(again,)
            )
    heard_by = [
        str(one.get("Protocol")) for one in told if str(one.get("SubscriptionArn", "")).startswith("arn:")
    ]
    people = [*(each for each in heard_by if each != "lambda"), *(others or ())]
    if people:
        yield ok(f"heard by {', '.join(sorted(people))}", about=topic)
    elif others is None:
        seen = "nobody subscribed; whom the notify function tells is not known, as its settings were not seen"
        yield skipped(seen, about=topic, fix="grant lambda:GetFunctionConfiguration to find out")
    else:
        subscribe = patient.aws(
            "sns", "subscribe", "--topic-arn", topic_arn, "--protocol", "email",
            "--notification-endpoint", "ADDRESS",
        )  # fmt: skip
        fix = "subscribe somebody, or name recipients in the stage file and deploy"
        yield broken(
            "nobody hears what is sent to it", about=topic, fix=fix, commands=(subscribe,), page=_DOCS
        )


def check_slack(patient: Patient) -> Iterator[Finding]:
    """Whether Slack would take a message here, and whether the stack's address is kept where it says."""
    url = patient.environ.get(SLACK_WEBHOOK)
    if url:
        yield probe_webhook(url)
    try:
        secret = patient.notify_settings().get(SLACK_SECRET)
    except UnknownError as error:
        yield skipped(f"whether the stack tells Slack is not known, because of what is said at {error.owner}")
        return
    if secret:
        yield _check_secret(patient, secret)
    if not url and not secret:
        yield skipped(f"not set up; for a watch here, {SLACK_WEBHOOK} has the address of a webhook")


def probe_webhook(url: str, open_url: Callable[..., Any] | None = None) -> Finding:
    """Reach the webhook without posting anything: to Slack goes a message that it must refuse.

    Whoever else may be there is only connected to: what they would make of such a message is not known.
    """
    try:
        webhook = Webhook(url, open_url=open_url)
    except ChannelError as error:
        fix = f"copy it again into {SLACK_WEBHOOK}"
        return broken(str(error), fix=fix, trouble=Trouble.MISUSED)
    host = urlsplit(url).hostname or ""
    if host not in _SLACK_HOSTS and host not in _LOCAL_HOSTS and not host.startswith("127."):
        return _connect(host, urlsplit(url).port)
    try:
        webhook.post(_EMPTY, longest_wait_s=2.0)
    except ChannelError as error:
        return judge_refusal(error)
    seen = f"{host} took a message without text, which Slack refuses: something else answers there"
    return warning(seen, fix="check the address of the webhook", page=_DELIVERED)


def judge_refusal(error: ChannelError) -> Finding:
    """What Slack says to an empty message: that it is empty, or what is wrong with the webhook."""
    found = _CODE.search(str(error))
    code = found[1] if found else ""
    if code in _IS_THERE:
        return ok(f"reached; the webhook is good: it refused an empty message ({code})")
    if code == "invalid_payload":
        return skipped("reached; whether the webhook is good it did not say (invalid_payload)")
    said = str(error).replace("refused the alert", "refused it").partition("; it is tried again")[0]
    if error.is_permanent:
        return broken(said, fix="do what the message says", page=_DELIVERED)
    fix = "run it again; if it lasts, check the network and any proxy"
    return broken(said, fix=fix, trouble=Trouble.FAILED, page=_DELIVERED)


def _connect(host: str, port: int | None) -> Finding:
    """A connection and its certificate; of the address no more than the host is told."""
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
        return broken(f"{host} was not reached ({reason})", fix=fix, trouble=Trouble.FAILED, page=_DELIVERED)
    seen = f"{host} is not Slack's: it was reached (HTTP {status}), and nothing was posted"
    return skipped(seen, fix="whether it takes messages, the first alert tells")


def _check_topic(patient: Patient, topic_arn: str) -> Finding:
    name, region = topic_arn.rpartition(":")[2], topic_arn.split(":")[3]
    if region != patient.region:
        seen = f"it is in {region}, and this is {patient.region}: alerts do not get there"
        return broken(seen, about=name, fix=f"name a topic of this region in {TOPIC_ARN}", page=_DELIVERED)
    try:
        with explained("sns:GetTopicAttributes"):
            patient.client("sns").get_topic_attributes(TopicArn=topic_arn)
    except AwsError as error:
        if error.failure.kind is not FailureKind.NOT_FOUND and error.failure.code != "NotFound":
            return of_error(error)
        fix = f"name one that is there in {TOPIC_ARN}; deploy again if it was the stack's"
        return broken(f"there is no topic {topic_arn}", about=name, fix=fix, page=_DELIVERED)
    return ok("is there", about=name)


def _check_secret(patient: Patient, secret: str) -> Finding:
    try:
        with explained("secretsmanager:DescribeSecret"):
            told = patient.client("secretsmanager").describe_secret(SecretId=secret)
    except AwsError as error:
        if error.failure.kind is not FailureKind.NOT_FOUND and "NotFound" not in error.failure.code:
            return of_error(error)
        create = patient.aws(
            "secretsmanager", "create-secret", "--name", secret, "--secret-string", "file://webhook.txt"
        )
        fix = "make it, with the address of an incoming webhook in it"
        seen = f"the stack's webhook is to be in the secret {secret}, which is not there"
        return broken(seen, fix=fix, commands=(create,), page=_DOCS)
    if told.get("DeletedDate") is not None:
        restore = patient.aws("secretsmanager", "restore-secret", "--secret-id", secret)
        return broken(f"the secret {secret} is being deleted", fix="keep it", commands=(restore,), page=_DOCS)
    return ok(f"the stack's webhook is in the secret {secret}, which was not opened")


def _topics(patient: Patient) -> list[str]:
    """The topic that is named here, and the stack's."""
    topics: list[str | None] = []
    with suppress(UnknownError):
        topics.append(patient.settings().topic_arn)
    stack = patient.stack
    topics.append(stack.topic_arn if stack else None)
    return list(dict.fromkeys(each for each in topics if each))


def _other_ways(patient: Patient, topic_arn: str) -> list[str] | None:
    """Where the notify function carries what the stack's topic is told; None where that is not known."""
    stack = patient.stack
    if stack is None or topic_arn != stack.topic_arn:
        return []
    ways = {SLACK_SECRET: "Slack", CHAT_TOPIC_ARN: "AWS's chat service"}
    try:
        told = patient.notify_settings()
    except UnknownError:
        return None
    return [name for setting, name in ways.items() if told.get(setting)]
