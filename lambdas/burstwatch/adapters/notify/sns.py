"""Alerts to an SNS topic: a text for people, the alert document for programs."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.adapters.notify.channel import ChannelError, sanitise_alert
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.core.alerts.alert import Alert, format_title
from burstwatch.core.text import sanitise

if TYPE_CHECKING:
    from types_boto3_sns import SNSClient
    from types_boto3_sns.type_defs import MessageAttributeValueTypeDef, PublishResponseTypeDef

_MAX_BYTES: Final = 256 * 1024
"""The limit of body and attributes together; a topic may allow more (up to 1 MiB), but none allows less."""

_MAX_SUBJECT_CHARS: Final = 99
"""SNS takes fewer than 100 characters (SNS API reference, Publish)."""
# used for attributes always, and for the body only if it is longer than SNS takes
_MAX_TEXT_CHARS: Final = 200
_MAX_ITEMS: Final = 20
_PROGRAM_PROTOCOLS: Final = ("lambda", "sqs", "http", "https")

_CHECK_ARN_STEP: Final = "check the ARN, and that it is of the Region that the client calls"
_NEXT_STEPS: Final = {
    "NotFound": "create the topic, or correct its ARN",
    "InvalidParameter": _CHECK_ARN_STEP,
    "ParameterValueInvalid": _CHECK_ARN_STEP,
    "Throttled": "the next pass tries again",
    "KMSThrottling": "the next pass tries again",
    "KMSAccessDenied": "allow kms:GenerateDataKey and kms:Decrypt on the topic's key, in IAM and its policy",
    "KMSDisabled": "enable the topic's key, or give the topic another key",
    "KMSInvalidState": "cancel the deletion of the topic's key, or give the topic another key",
    "KMSNotFound": "the topic's key is gone: give the topic another key",
    "KMSOptInRequired": "sign the account up for KMS, or take the key from the topic",
    "InvalidSecurity": "the topic demands HTTPS and a signature of version 4: check the client's endpoint",
}
"""The next steps for errors that only SNS returns."""
_TRANSIENT_CODES: Final = ("Throttled", "KMSThrottling")


class SnsChannel:
    """Publishes each alert once; the protocol of a subscription determines the form that it receives."""

    name: Final = "sns"

    def __init__(self, client: "SNSClient", topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn

    def send(self, alert: Alert) -> None:
        self._publish(alert)

    def send_and_get_id(self, alert: Alert) -> str:
        """Send the alert; return SNS's ID of the message.

        Raises:
            ChannelError: SNS did not accept it.
        """
        return self._publish(alert)["MessageId"]

    def _publish(self, alert: Alert) -> "PublishResponseTypeDef":
        attributes = _attributes(alert)
        fifo_parameters = {
            "MessageGroupId": alert.volume_id or "burstwatch",
            "MessageDeduplicationId": alert.alert_id,
        }
        try:
            return self._client.publish(
                TopicArn=self._topic_arn,
                Subject=_subject(alert),
                Message=_message(alert, _MAX_BYTES - _size(attributes)),
                MessageStructure="json",
                MessageAttributes=attributes,
                **(fifo_parameters if self._topic_arn.endswith(".fifo") else {}),
            )
        except AWS_ERRORS as error:
            raise _to_channel_error(error, self._topic_arn) from error


def render(alert: Alert) -> str:
    """The alert as the text of an e-mail, in the order of a ``ChatMessage``."""
    message = message_from_alert(alert)
    paragraphs = [message.title, message.reason]
    if message.action:
        paragraphs.append(f"{message.action_label}:\n  {message.action}")
    paragraphs.append("\n".join(message.lines))
    paragraphs += [f"{label}:\n  {command}" for label, command in message.extra_commands]
    paragraphs.append("\n".join(f"{label}: {text}" for label, text in (*message.links, *message.facts)))
    paragraphs.append(message.footer)
    return "\n\n".join(filter(None, paragraphs))


def _subject(alert: Alert) -> str:
    """The subject of an e-mail: ASCII and under 100 characters, as SNS requires."""
    unaccented = unicodedata.normalize("NFKD", format_title(sanitise_alert(alert)))
    plain = "".join(c for c in unaccented if not unicodedata.combining(c)).encode("ascii", "replace").decode()
    return plain if len(plain) <= _MAX_SUBJECT_CHARS else plain[: _MAX_SUBJECT_CHARS - 3].rstrip() + "..."


def _attributes(alert: Alert) -> "dict[str, MessageAttributeValueTypeDef]":
    """The message attributes, always all of them: a filter policy on a missing one would drop the alert.

    SNS does not accept an empty value.
    """
    values = {
        "kind": str(alert.kind),
        "level": str(alert.level),
        "volume_id": (alert.volume_id if alert.is_about_volumes else None) or "none",
        "resource_id": alert.resource_id or "none",
        "region": alert.resource["region"] or "unknown",
        "account": alert.resource["account"] or "unknown",
    }
    return {
        name: {"DataType": "String", "StringValue": sanitise(value, _MAX_TEXT_CHARS)}
        for name, value in values.items()
    }


def _size(attributes: "Mapping[str, MessageAttributeValueTypeDef]") -> int:
    return sum(len((name + "".join(map(str, value.values()))).encode()) for name, value in attributes.items())


def _message(alert: Alert, max_bytes: int) -> str:
    """The body, in a form for each protocol; one that is too long loses evidence, then ends of texts."""
    document = alert.to_document()
    trimmed_document = document | {"evidence": {**_truncate(document["evidence"]), "is_cut": True}}
    for candidate in (document, trimmed_document):
        message = _render_protocols(alert, candidate)
        if len(message.encode()) <= max_bytes:
            return message
    return _render_protocols(alert, _truncate(trimmed_document))


def _render_protocols(alert: Alert, document: Mapping[str, Any]) -> str:
    text, document_text = render(alert), json.dumps(document)
    texts = {"default": text, "email": text, "sms": _subject(alert)}
    return json.dumps(texts | dict.fromkeys(_PROGRAM_PROTOCOLS, document_text), ensure_ascii=False)


def _truncate(value: Any) -> Any:
    match value:
        case str():
            return sanitise(value, _MAX_TEXT_CHARS)
        case Mapping():
            return {key: _truncate(item) for key, item in list(value.items())[:_MAX_ITEMS]}
        case list() | tuple():
            return [_truncate(item) for item in value[:_MAX_ITEMS]]
        case _:
            return value


def _to_channel_error(error: Exception, topic_arn: str) -> ChannelError:
    failure = to_aws_failure(error, f"sns:Publish to {topic_arn}")
    next_step = _NEXT_STEPS.get(failure.code, failure.next_step)
    is_transient = failure.is_transient or failure.code in _TRANSIENT_CODES
    return ChannelError(replace(failure, next_step=next_step).problem, is_permanent=not is_transient)
