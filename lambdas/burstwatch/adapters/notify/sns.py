"""Alerts to an SNS topic: words for people, the alert document for programs."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, explain
from burstwatch.adapters.notify.channel import ChannelError, body_lines, readable
from burstwatch.core.alerts.alert import Alert, action_label, further_commands, title
from burstwatch.core.text import format_instant, printable

if TYPE_CHECKING:
    from types_boto3_sns import SNSClient
    from types_boto3_sns.type_defs import MessageAttributeValueTypeDef

_MOST_BYTES: Final = 256 * 1024
"""Of body and attributes together; a topic may allow more, none allows less."""

_LONGEST_SUBJECT: Final = 99
_LONGEST_TEXT: Final = 200
_MOST_ITEMS: Final = 20
_PROGRAMS: Final = ("lambda", "sqs", "http", "https")

_CHECK_ARN: Final = "check that the ARN is right, and of the region that the client calls"
_NEXT_STEPS: Final = {
    "NotFound": "create the topic, or correct its ARN",
    "InvalidParameter": _CHECK_ARN,
    "ParameterValueInvalid": _CHECK_ARN,
    "Throttled": "the next pass tries again",
    "KMSThrottling": "the next pass tries again",
    "KMSAccessDenied": "allow kms:GenerateDataKey and kms:Decrypt on the topic's key, in IAM and its policy",
    "KMSDisabled": "enable the topic's key, or give the topic another",
    "KMSInvalidState": "cancel the deletion of the topic's key, or give the topic another",
    "KMSNotFound": "the topic's key is gone: give the topic another",
    "KMSOptInRequired": "sign the account up for KMS, or take the key from the topic",
    "InvalidSecurity": "the topic demands HTTPS and a signature of version 4: check the client's endpoint",
}
"""For the errors that only SNS gives."""
_PASSING_CODES: Final = ("Throttled", "KMSThrottling")
_PASSING_KINDS: Final = (FailureKind.RETRYABLE, FailureKind.UNREACHABLE)


class SnsChannel:
    """Publishes each alert once; what is subscribed to the topic decides the form it gets."""

    name: Final = "sns"

    def __init__(self, client: "SNSClient", topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn

    def send(self, alert: Alert) -> None:
        attributes = _attributes(alert)
        ordered = {
            "MessageGroupId": alert.volume_id or "burstwatch",
            "MessageDeduplicationId": alert.alert_id,
        }
        try:
            self._client.publish(
                TopicArn=self._topic_arn,
                Subject=_subject(alert),
                Message=_message(alert, _MOST_BYTES - _size(attributes)),
                MessageStructure="json",
                MessageAttributes=attributes,
                **(ordered if self._topic_arn.endswith(".fifo") else {}),
            )
        except AWS_ERRORS as error:
            raise _refusal(error, self._topic_arn) from error


def render(alert: Alert) -> str:
    """The alert as the text of an e-mail."""
    shown = readable(alert)
    paragraphs = [title(shown), "\n".join(body_lines(shown))]
    if shown.action:
        paragraphs.append(f"{action_label(shown)}:\n  {shown.action}")
    paragraphs += [f"{label}:\n  {command}" for label, command in further_commands(shown)]
    links = {"Runbook": shown.runbook, "Console": shown.console_url}
    paragraphs.append("\n".join(f"{label}: {link}" for label, link in links.items() if link))
    paragraphs.append(f"Alert {shown.alert_id} of {format_instant(alert.time_s)}")
    return "\n\n".join(filter(None, paragraphs))


def _subject(alert: Alert) -> str:
    """ASCII, so that every mail program and telephone shows it."""
    unaccented = unicodedata.normalize("NFKD", title(readable(alert)))
    plain = "".join(c for c in unaccented if not unicodedata.combining(c)).encode("ascii", "replace").decode()
    return plain if len(plain) <= _LONGEST_SUBJECT else plain[: _LONGEST_SUBJECT - 3].rstrip() + "..."


def _attributes(alert: Alert) -> "dict[str, MessageAttributeValueTypeDef]":
    """Always all five: a filter policy on an absent one would drop the alert, and SNS takes no ``""``."""
    values = {
        "kind": str(alert.kind),
        "level": str(alert.level),
        "volume_id": alert.volume_id or "none",
        "region": alert.volume.get("region") or "unknown",
        "account": alert.volume.get("account") or "unknown",
    }
    return {
        name: {"DataType": "String", "StringValue": printable(value, _LONGEST_TEXT)}
        for name, value in values.items()
    }


def _size(attributes: "Mapping[str, MessageAttributeValueTypeDef]") -> int:
    return sum(len((name + "".join(map(str, value.values()))).encode()) for name, value in attributes.items())


def _message(alert: Alert, most_bytes: int) -> str:
    """The body, one form per protocol; what is too long loses evidence first, then long texts anywhere."""
    document = alert.to_document()
    less_evidence = document | {"evidence": {**_cut(document["evidence"]), "is_cut": True}}
    for candidate in (document, less_evidence):
        message = _forms(alert, candidate)
        if len(message.encode()) <= most_bytes:
            return message
    return _forms(alert, _cut(less_evidence))


def _forms(alert: Alert, document: Mapping[str, Any]) -> str:
    text, program = render(alert), json.dumps(document)
    people = {"default": text, "email": text, "sms": _subject(alert)}
    return json.dumps(people | dict.fromkeys(_PROGRAMS, program), ensure_ascii=False)


def _cut(value: Any) -> Any:
    match value:
        case str():
            return printable(value, _LONGEST_TEXT)
        case Mapping():
            return {key: _cut(item) for key, item in list(value.items())[:_MOST_ITEMS]}
        case list() | tuple():
            return [_cut(item) for item in value[:_MOST_ITEMS]]
        case _:
            return value


def _refusal(error: Exception, topic_arn: str) -> ChannelError:
    failure = explain(error, f"sns:Publish to {topic_arn}")
    next_step = _NEXT_STEPS.get(failure.code, failure.next_step)
    passes = failure.kind in _PASSING_KINDS or failure.code in _PASSING_CODES
    return ChannelError(str(replace(failure, next_step=next_step)), is_permanent=not passes)
