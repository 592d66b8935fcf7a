"""A test message through each alert channel. What one channel does never hides another.

Each function is a check like those of ``burstctl doctor``: it yields what was done and where to look, or what
failed and the next step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeAlias

from burstctl.context.operator_identity import name_operator
from burstctl.doctor.check_alerts import (
    is_confirmed,
    judge_subscriptions,
    list_subscriptions,
    notify_destinations,
)
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import (
    CheckFailure,
    CheckStatus,
    Finding,
    LookupFailedError,
    broken,
    ok,
    skipped,
)
from burstctl.doctor.registry import Check, Group
from burstctl.doctor.runner import CheckResult
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.notify.amazon_q import AmazonQChannel
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.adapters.notify.slack import render
from burstwatch.adapters.notify.slack_secret import read_webhook_address
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.core.alerts.alert import Alert, make_test_alert
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.location import AwsLocation
from burstwatch.core.text import format_count
from burstwatch.wiring.function_settings import CHAT_TOPIC_ARN, SLACK_SECRET
from burstwatch.wiring.settings import SLACK_WEBHOOK, TOPIC_ARN

_MAX_WAIT_S: Final = 5.0
"""How long Slack may ask a test message to wait."""

_NOT_DELIVERED_PAGE: Final = "runbooks/AlertsNotDelivered.md"
_TEST_PAGE: Final = "runbooks/TestAlert.md"
_RETRY: Final = "run the test again; if it lasts, burstctl doctor checks the channel"
_NO_STACK: Final = "no stack is deployed here"

_Send: TypeAlias = Callable[[DoctorContext, str], Iterator[Finding]]


def channel_checks(alert_id: str) -> list[Check]:
    """A check for each kind of channel; their messages all have this ID."""

    def bind(send: _Send) -> Callable[[DoctorContext], Iterator[Finding]]:
        @wraps(send)
        def run(context: DoctorContext) -> Iterator[Finding]:
            return send(context, alert_id)

        return run

    return [
        Check(name=name, group=Group.ALERTS, run=bind(send), timeout_s=40.0)
        for name, send in (("sns", send_to_topics), ("chat", send_to_chat), ("slack", send_to_slack))
    ]


def judge_configuration(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The results; if there is no channel at all, this is a fault as well."""
    if any(finding.verdict is not CheckStatus.SKIPPED for result in results for finding in result.findings):
        return list(results)
    fix = f"deploy a stack with recipients, or set {TOPIC_ARN} or {SLACK_WEBHOOK} for burstctl watch"
    finding = broken("no alert channel is configured: nothing was sent", fix=fix, page=_TEST_PAGE)
    check = Check(name="channels", group=Group.ALERTS, run=lambda _: ())
    return [*results, CheckResult(check=check, findings=[finding])]


def send_to_topics(context: DoctorContext, alert_id: str) -> Iterator[Finding]:
    """Publish to the topic that is named here and to that of the stack."""
    named_here = context.environ.get(TOPIC_ARN)
    if named_here:
        yield from _send_to_topic(context, named_here, alert_id)
    stack_topic, failure = _look_up(lambda: stack.topic_arn if (stack := context.stack) else None)
    if failure is not None:
        yield failure
    elif stack_topic and stack_topic != named_here:
        yield from _send_to_topic(context, stack_topic, alert_id)
    elif not named_here:
        yield skipped(f"not set up: {TOPIC_ARN} is not set, and {_NO_STACK}")


def _send_to_topic(context: DoctorContext, topic_arn: str, alert_id: str) -> Iterator[Finding]:
    topic = topic_arn.rpartition(":")[2]
    try:
        with _failures_as_channel_errors():
            alert = _make_alert(context, alert_id, f"through the SNS topic {topic}")
            message_id = SnsChannel(context.client("sns"), topic_arn).send_and_get_id(alert)
    except ChannelError as error:
        yield _failed(error, subject=topic)
        return
    accepted = f"SNS accepted message {message_id}"
    try:
        subscriptions = list_subscriptions(context, topic_arn)
    except (AwsError, LookupFailedError) as error:
        yield _failed(error, subject=topic, lead=f"{accepted}; its subscriptions are not known: ")
        return
    yield ok(f"{_count(subscriptions)}; {accepted}", subject=topic, fix=_where_to_look(subscriptions))
    for finding in judge_subscriptions(
        context, topic_arn, subscriptions, notify_destinations(context, topic_arn)
    ):
        if finding.verdict is not CheckStatus.OK:
            yield finding


def send_to_chat(context: DoctorContext, alert_id: str) -> Iterator[Finding]:
    """Publish to the stack's topic for AWS's chat service, as the notify function does."""
    topic_arn, failure = _look_up(lambda: context.notify_settings().get(CHAT_TOPIC_ARN))
    if failure is not None:
        yield failure
        return
    if not topic_arn:
        yield skipped("not set up: recipients.chat of the stage file adds it")
        return
    topic = topic_arn.rpartition(":")[2]
    try:
        with _failures_as_channel_errors():
            message = message_from_alert(_make_alert(context, alert_id, f"to the chat topic {topic}"))
            channel = AmazonQChannel(context.client("sns"), topic_arn)
            channel.post(message, delay_note=None, max_wait_s=_MAX_WAIT_S)
            subscriptions = list_subscriptions(context, topic_arn)
    except ChannelError as error:
        yield _failed(error, subject=topic)
        return
    accepted = f"{_count(subscriptions)}; SNS accepted the message"
    if not any(is_confirmed(subscription) for subscription in subscriptions):
        fix = "add this topic to a channel in Amazon Q Developer in chat applications"
        yield broken(f"{accepted}, and no chat channel receives it", subject=topic, fix=fix, page=_TEST_PAGE)
        return
    look = (
        "look in the chat channel for two messages that begin with TEST: this one, and one that the notify"
        " function forwards"
    )
    yield ok(accepted, subject=topic, fix=look)


def send_to_slack(context: DoctorContext, alert_id: str) -> Iterator[Finding]:
    """Post to the webhook that is named here, and to the one in the stack's secret."""
    url = context.environ.get(SLACK_WEBHOOK)
    if url:
        look = "look in the channel of this webhook for a message that begins with TEST"
        yield _post_to_slack(context, alert_id, SLACK_WEBHOOK, lambda: url, look)
    secret, failure = _look_up(lambda: context.notify_settings().get(SLACK_SECRET))
    if failure is not None:
        yield failure
    elif secret:
        look = (
            "look in the channel of this webhook for two messages that begin with TEST. The notify function"
            " forwards the second one; if it is missing: burstctl runbook AlertsNotDelivered"
        )
        yield _post_to_slack(
            context,
            alert_id,
            f"secret {secret}",
            lambda: read_webhook_address(context.client("secretsmanager"), secret),
            look,
        )
    elif not url:
        yield skipped(f"not set up: {SLACK_WEBHOOK} is not set, and no secret is in the stage's recipients")


def _post_to_slack(
    context: DoctorContext, alert_id: str, subject: str, read_address: Callable[[], str], look: str
) -> Finding:
    try:
        with _failures_as_channel_errors():
            alert = _make_alert(context, alert_id, "directly to the Slack webhook")
            SlackWebhook(read_address()).post(render(alert), max_wait_s=_MAX_WAIT_S)
    except ChannelError as error:
        return _failed(error, subject=subject)
    return ok("Slack answered 200", subject=subject, fix=look)


def _make_alert(context: DoctorContext, alert_id: str, route: str) -> Alert:
    """The test alert; without credentials it lacks the account, and the clock is this machine's."""
    caller, _ = _look_up(context.caller)
    return make_test_alert(
        alert_id,
        route=route,
        sender=name_operator(caller.identity if caller else None),
        location=AwsLocation(region=context.region, account=caller.identity.account if caller else None),
        runbooks_url=context.policy_or_default().alerts.runbooks_url,
        now_s=int(context.now_s()),
    )


def _look_up(look_up: Callable[[], Any]) -> tuple[Any, Finding | None]:
    """What was found, or else the failure; one that hides a channel counts as a failure of the test."""
    try:
        return look_up(), None
    except LookupFailedError as error:
        return None, _failed(error)


@contextmanager
def _failures_as_channel_errors() -> Iterator[None]:
    """Report a lookup or a call that failed like a channel that took no message."""
    try:
        yield
    except (AwsError, LookupFailedError) as error:
        raise ChannelError(_problem_of(error), is_permanent=True) from error


def _failed(error: Exception, *, subject: str = "", lead: str = "") -> Finding:
    problem = _problem_of(error)
    summary = f"{lead}{problem.cause}".partition("; it is tried again")[0]
    fix = f"{problem.fix}; then run the test again" if problem.fix else _RETRY
    return broken(summary, subject=subject, fix=fix, page=_NOT_DELIVERED_PAGE, trouble=CheckFailure.FAILED)


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, LookupFailedError):
        error = error.error
    return error.problem if isinstance(error, BurstwatchError) else Problem(str(error))


def _count(subscriptions: Sequence[Mapping[str, Any]]) -> str:
    confirmed = sum(map(is_confirmed, subscriptions))
    pending = len(subscriptions) - confirmed
    return f"{format_count(confirmed, 'confirmed subscription')}, {pending} pending"


def _where_to_look(subscriptions: Sequence[Mapping[str, Any]]) -> str:
    """Where people find the message, for the subscriptions that are confirmed."""
    places = [
        f"{subscription.get('Protocol')} {_short_name(str(subscription.get('Endpoint')))}"
        for subscription in subscriptions
        if is_confirmed(subscription) and subscription.get("Protocol") != "lambda"
    ]
    if not places:
        return ""
    return f"look for a message that begins with TEST at: {', '.join(places)}"


def _short_name(endpoint: str) -> str:
    """The last part of an ARN; an address or a number as it is."""
    return endpoint.rpartition(":")[2] if endpoint.startswith("arn:") else endpoint
