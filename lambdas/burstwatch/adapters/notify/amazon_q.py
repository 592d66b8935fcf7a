"""Messages to AWS's chat service (Amazon Q Developer in chat applications), through a separate SNS topic.

The service shows its custom format, version 1.0, in Slack, Microsoft Teams and Amazon Chime. It passes markup
on to them. So text from outside is changed where one of them would interpret it as markup. Source: the Amazon
Q Developer in chat applications guide, "Custom notifications".
"""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import ChatMessage, escape, is_link, truncate_lines

if TYPE_CHECKING:
    from types_boto3_sns import SNSClient

# title, step and keyword: the service's own limits; a line and the context: to keep them readable
_MAX_TITLE_CHARS: Final = 250
_MAX_DESCRIPTION_CHARS: Final = 7_500
"""Less than the 8,000 characters that the service takes."""
_MAX_LINE_CHARS: Final = 600
_MAX_STEP_CHARS: Final = 350
_MAX_KEYWORD_CHARS: Final = 75
_MAX_CONTEXT_CHARS: Final = 200

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
"""Similar characters instead of escapes, because each chat program has its own way of escaping."""
_COMMAND_ESCAPES: Final = {"`": "'", "<": "\u2039", ">": "\u203a", "@": "\uff20"}
"""In backticks, only what would end them is replaced, and what Slack takes for a mention even there."""


class AmazonQChannel:
    """Publishes each message to the topic to which the chat service subscribes."""

    name: Final = "chat"

    def __init__(self, client: "SNSClient", topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn

    def post(self, message: ChatMessage, *, delay_note: str | None, max_wait_s: float) -> None:  # noqa: ARG002 - SNS takes any number at once
        """Publish the message.

        Raises:
            ChannelError: SNS did not accept it.
        """
        body = json.dumps(render_custom_notification(message, delay_note=delay_note))
        try:
            self._client.publish(TopicArn=self._topic_arn, Message=body)
        except AWS_ERRORS as error:
            raise _to_channel_error(error, self._topic_arn) from error


def render_custom_notification(message: ChatMessage, *, delay_note: str | None = None) -> dict[str, Any]:
    """The message in the custom format, version 1.0."""
    keywords = [message.kind, message.subject] if message.subject != message.kind else [message.kind]
    return {
        "version": "1.0",
        "source": "custom",
        "id": message.message_id,
        "content": {
            "textType": "client-markdown",
            "title": _escape(f"{message.emoji} {message.title}", _MAX_TITLE_CHARS),
            "description": _description(message, delay_note),
            "nextSteps": _next_steps(message),
            "keywords": [_escape(keyword, _MAX_KEYWORD_CHARS) for keyword in keywords],
        },
        "metadata": {
            "threadId": message.subject,
            "summary": _escape(message.subject, _MAX_CONTEXT_CHARS),
            "eventType": message.kind,
            "additionalContext": {label: _escape(text, _MAX_CONTEXT_CHARS) for label, text in message.facts},
        },
    }


def _description(message: ChatMessage, delay_note: str | None) -> str:
    footer = _escape(f"{message.footer} · {delay_note}" if delay_note else message.footer, _MAX_CONTEXT_CHARS)
    facts = [_escape(f"{label}: {text}", _MAX_LINE_CHARS) for label, text in message.facts]
    lines = [_escape(line, _MAX_LINE_CHARS) for line in (message.reason, *message.lines) if line]
    return "\n".join([*truncate_lines([*lines, *facts], _MAX_DESCRIPTION_CHARS - len(footer) - 1), footer])


def _next_steps(message: ChatMessage) -> list[str]:
    steps = [f"{label}: {_format_address(address)}" for label, address in message.links]
    steps[:0] = [
        f"{label}: {_format_code(command, len(label) + 2)}" for label, command in message.extra_commands
    ]
    if message.action:
        steps.insert(0, _format_code(message.action))
    return [step for step in steps if len(step) <= _MAX_STEP_CHARS]


def _format_code(command: str, used_chars: int = 0) -> str:
    return f"`{escape(command, _MAX_STEP_CHARS - 2 - used_chars, _COMMAND_ESCAPES)}`"


def _format_address(address: str) -> str:
    """A plain https address as it is, so that chat programs make it a link; otherwise as code."""
    return address if is_link(address) else _format_code(address)


def _to_channel_error(error: Exception, topic_arn: str) -> ChannelError:
    failure = to_aws_failure(error, f"sns:Publish to {topic_arn}")
    if failure.code.startswith("KMS"):
        next_step = (
            "see that the topic's key is enabled and allows kms:GenerateDataKey and kms:Decrypt to notify"
        )
        failure = replace(failure, next_step=next_step)
    is_transient = failure.is_transient or failure.code in {"Throttled", "KMSThrottling"}
    return ChannelError(failure.problem, is_permanent=not is_transient)


def _escape(text: str, limit: int) -> str:
    return escape(text, limit, _ESCAPES)
