"""Notices to AWS's chat service (Amazon Q Developer in chat applications), by an SNS topic of its own.

The service shows its custom format, version 1.0, in Slack, Microsoft Teams and Amazon Chime. It passes markup
on to them, so what comes from outside is broken up where any of them would act on it.
"""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, explain
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import Notice, fitting, inert, is_link

if TYPE_CHECKING:
    from types_boto3_sns import SNSClient

_PASSING: Final = (FailureKind.RETRYABLE, FailureKind.UNREACHABLE)

_LONGEST_TITLE: Final = 250
_LONGEST_DESCRIPTION: Final = 7_500
"""The service takes 8,000."""
_LONGEST_LINE: Final = 600
_LONGEST_STEP: Final = 350
_LONGEST_KEYWORD: Final = 75
_LONGEST_CONTEXT: Final = 200

_ESCAPES: Final = {
    "&": "\uff06",
    "<": "\u2039",
    ">": "\u203a",
    "[": "\uff3b",
    "]": "\uff3d",
    "`": "'",
    "*": "\u2217",
    "_": "\uff3f",
    "~": "\u223c",
    "@": "\uff20",
    "\\": "\uff3c",
}
"""Look-alikes: each program escapes in a way of its own."""
_COMMAND_ESCAPES: Final = {"`": "'", "<": "\u2039", ">": "\u203a", "@": "\uff20"}
"""Within backticks only what ends them counts, and what Slack takes for a mention even there."""


class ChatChannel:
    """Publishes each notice to the topic that the chat service listens to."""

    name: Final = "chat"

    def __init__(self, client: "SNSClient", topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn

    def tell(self, notice: Notice, *, late: str | None, longest_wait_s: float) -> None:  # noqa: ARG002 - SNS takes any number at once
        """Hand the notice over.

        Raises:
            ChannelError: SNS did not take it.
        """
        message = json.dumps(render_chat(notice, late=late))
        try:
            self._client.publish(TopicArn=self._topic_arn, Message=message)
        except AWS_ERRORS as error:
            raise _refusal(error, self._topic_arn) from error


def render_chat(notice: Notice, *, late: str | None = None) -> dict[str, Any]:
    """The notice in the custom format, version 1.0."""
    keywords = [notice.kind, notice.subject] if notice.subject != notice.kind else [notice.kind]
    return {
        "version": "1.0",
        "source": "custom",
        "id": notice.notice_id,
        "content": {
            "textType": "client-markdown",
            "title": _inert(f"{notice.mark} {notice.title}", _LONGEST_TITLE),
            "description": _description(notice, late),
            "nextSteps": _next_steps(notice),
            "keywords": [_inert(keyword, _LONGEST_KEYWORD) for keyword in keywords],
        },
        "metadata": {
            "threadId": notice.subject,
            "summary": _inert(notice.subject, _LONGEST_CONTEXT),
            "eventType": notice.kind,
            "additionalContext": {label: _inert(text, _LONGEST_CONTEXT) for label, text in notice.facts},
        },
    }


def _description(notice: Notice, late: str | None) -> str:
    made = _inert(f"{notice.made} · {late}" if late else notice.made, _LONGEST_CONTEXT)
    facts = [_inert(f"{label}: {text}", _LONGEST_LINE) for label, text in notice.facts]
    said = [_inert(line, _LONGEST_LINE) for line in notice.lines]
    return "\n".join([*fitting([*said, *facts], _LONGEST_DESCRIPTION - len(made) - 1), made])


def _next_steps(notice: Notice) -> list[str]:
    steps = [f"{label}: {_address(address)}" for label, address in notice.links]
    steps[:0] = [f"{label}: {_code(command, len(label) + 2)}" for label, command in notice.further]
    if notice.action:
        steps.insert(0, _code(notice.action))
    return [step for step in steps if len(step) <= _LONGEST_STEP]


def _code(command: str, taken: int = 0) -> str:
    return f"`{inert(command, _LONGEST_STEP - 2 - taken, _COMMAND_ESCAPES)}`"


def _address(address: str) -> str:
    """As it is where it is plain https, so that chat programs make a link of it."""
    return address if is_link(address) else _inert(address, _LONGEST_CONTEXT)


def _refusal(error: Exception, topic_arn: str) -> ChannelError:
    failure = explain(error, f"sns:Publish to {topic_arn}")
    if failure.code.startswith("KMS"):
        step = "see that the topic's key is enabled and allows kms:GenerateDataKey and kms:Decrypt to notify"
        failure = replace(failure, next_step=step)
    passes = failure.kind in _PASSING or failure.code in {"Throttled", "KMSThrottling"}
    return ChannelError(str(failure), is_permanent=not passes)


def _inert(text: str, limit: int) -> str:
    return inert(text, limit, _ESCAPES)
