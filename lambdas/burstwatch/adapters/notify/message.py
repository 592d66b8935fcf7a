"""Chat messages in words: our alerts, and CloudWatch's alarms about the watchdog itself."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from math import isfinite
from typing import Any, Final, Protocol
from urllib.parse import quote

from burstwatch.adapters.notify.channel import reason_and_details, sanitise_alert
from burstwatch.core.alerts.alert import (
    SCHEMA,
    Alert,
    action_label,
    alert_urgency,
    display_name_in,
    format_title,
    further_commands,
    runbook_reference,
)
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.display_name import format_attachment
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.location import AwsLocation
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_duration, format_instant, sanitise

ALARM_KIND: Final = "CloudWatchAlarm"
"""The kind of a message that is an alarm of CloudWatch and not an alert of ours."""

_DELAY_THRESHOLD_S: Final = 300
"""A message that is later than this says so, because its times may mislead: retries take minutes."""
# texts from outside are cut to what a chat message can show: a name, a sentence or two, a link
_MAX_NAME_CHARS: Final = 120
_MAX_TEXT_CHARS: Final = 600
_MAX_ADDRESS_CHARS: Final = 500
_MAX_DESCRIPTION_CHARS: Final = 1_100
"""Slightly more than the 1,024 characters of a CloudWatch alarm's description."""
_MAX_CONTRIBUTORS: Final = 3
"""One alarm contributor has one volume as its attribute; more would fill the message."""

_EMOJI: Final = {
    Level.UNKNOWN: "⚪",
    Level.OK: "🟢",
    Level.WATCH: "🔵",
    Level.WARNING: "🟡",
    Level.CRITICAL: "🔴",
    Level.EXHAUSTED: "🔴",
}
_ALARM_STATES: Final = {
    "ALARM": ("🔴", "alarm"),
    "OK": ("🟢", "alarm over"),
    "INSUFFICIENT_DATA": ("⚪", "alarm without data"),
}
_RUNBOOK_PATTERN: Final = re.compile(r"\s*\bRunbook:\s*(burstctl runbook \w+|\S+)")
_RUNBOOK_PAGE_PATTERN: Final = re.compile(r"(?:^burstctl runbook (\w+)|([A-Za-z]+)\.(?:md|html))$")
_ALARM_ARN_PATTERN: Final = re.compile(
    r"arn:[a-z-]+:cloudwatch:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):alarm:.+"
)

_ACTIVE_COLON_PATTERN: Final = re.compile(r":(?=//|(?!\d\d:\d\d)[\w+'-]+:)")
"""A colon that would begin an address or an emoji; the colons in a time such as 12:30:00 do not."""
_COLON_LOOKALIKE: Final = "\u2236"
_LINK_PATTERN: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9._~/%:@?#=&,+-]{0,400}")


class ChatMessageError(BurstwatchError):
    """A message is neither an alert nor an alarm; the text says what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message to people: printable and short texts, not yet escaped for a channel.

    A channel shows it in this order: the ``title``, the ``reason``, the ``action``, and then the rest, with
    the IDs in ``facts`` last. No text repeats another.

    ``message_id`` is the same whenever the same message is sent again. ``subject`` is what it is about: a
    volume or an alarm. ``footer`` has the time of the message and its ID. ``balance_pct`` is set if no line
    shows the history of the balance. ``links`` are labels with addresses; a command that shows the page may
    be in place of an address.
    """

    message_id: str
    kind: str
    subject: str
    emoji: str
    title: str
    reason: str
    lines: Sequence[str]
    facts: Sequence[tuple[str, str]]
    footer: str
    balance_pct: float | None = None
    action: str | None = None
    action_label: str = "What to do"
    extra_commands: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        pair_parts = (part for pair in (*self.facts, *self.extra_commands, *self.links) for part in pair)
        texts = (
            self.message_id,
            self.title,
            self.subject,
            self.footer,
            self.reason,
            self.action or "",
            *self.lines,
            *pair_parts,
        )
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("only text can be shown")
        if self.balance_pct is not None and not isfinite(self.balance_pct):
            raise ValueError(f"a balance of {self.balance_pct} cannot be")


class ChatChannel(Protocol):
    """A way to send chat messages to people."""

    @property
    def name(self) -> str:
        """The name under which the sent messages are remembered."""
        ...

    def post(self, message: ChatMessage, *, delay_note: str | None, max_wait_s: float) -> None:
        """Post the message within ``max_wait_s``; ``delay_note`` says how late it is.

        Raises:
            ChannelError: the channel did not take it.
        """
        ...


def parse_message(message: str) -> ChatMessage:
    """Parse a message of the alerts topic as a function receives it.

    Raises:
        ChatMessageError: it is neither an alert of ours nor an alarm of CloudWatch.
    """
    try:
        document = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise ChatMessageError(
            f"the message is not JSON ({error}): {sanitise(message, _MAX_NAME_CHARS)!r}"
        ) from None
    match document:
        case {"schema": str() as schema} if schema == SCHEMA:
            return _parse_alert(document)
        case {"AlarmName": str(), "NewStateValue": str()}:
            return message_from_alarm(document)
        case {"schema": schema}:
            raise ChatMessageError(
                f"the message has the schema {sanitise(str(schema), 40)!r}, not {SCHEMA!r}"
            )
        case _:
            shown_message = sanitise(message, _MAX_NAME_CHARS)
            raise ChatMessageError(
                f"the message is neither an alert nor a CloudWatch alarm: {shown_message!r}"
            )


def _parse_alert(document: Mapping[str, Any]) -> ChatMessage:
    try:
        return message_from_alert(Alert.from_document(document))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        shown_id = sanitise(str(document.get("alert_id")), _MAX_NAME_CHARS)
        reason = f"{type(error).__name__}: {sanitise(str(error), _MAX_NAME_CHARS)}"
        raise ChatMessageError(
            f"the alert {shown_id!r} cannot be read ({reason}); were watch and notify deployed together?"
        ) from error


def message_from_alert(alert: Alert) -> ChatMessage:
    """The chat message about an alert."""
    safe_alert = sanitise_alert(alert)
    balance_pct = None if safe_alert.evidence.get("course") else safe_alert.reading.get("burst_balance_pct")
    reason, lines = reason_and_details(safe_alert)
    return ChatMessage(
        message_id=safe_alert.alert_id,
        kind=str(alert.kind),
        subject=safe_alert.volume_id or str(alert.kind),
        emoji=_EMOJI[alert_urgency(alert)],
        title=format_title(safe_alert),
        reason=reason,
        lines=tuple(lines),
        facts=_facts(safe_alert),
        footer=f"{format_instant(alert.at_s)} · alert {safe_alert.alert_id}",
        balance_pct=None if balance_pct is None else float(balance_pct),
        action=safe_alert.action or None,
        action_label=action_label(safe_alert),
        extra_commands=tuple(further_commands(safe_alert)),
        links=tuple(
            (label, address)
            for label, address in (
                ("Runbook", runbook_reference(safe_alert.kind, safe_alert.runbook)),
                (f"{_noun(safe_alert)} in the AWS console", safe_alert.console_url),
            )
            if address
        ),
    )


def _facts(alert: Alert) -> tuple[tuple[str, str], ...]:
    """What the title does not have; it has the level, the region, and the name or else the ID."""
    volume, resource, name = alert.volume, alert.resource, display_name_in(alert.resource)
    attachment = format_attachment(
        volume.get("device"), volume.get("instance_id"), volume.get("instance_name")
    )
    labelled_texts = (
        ("Kubernetes", " ".join(_kubernetes(volume, name or ""))),
        (_noun(alert), alert.resource_id if name else None),
        ("Type", resource["instance_type"]),
        ("Attached as", attachment),
        ("Account", resource["account"]),
    )
    return tuple((label, text) for label, text in labelled_texts if text)


def _noun(alert: Alert) -> str:
    """What people call the resource; a kind of a later version is just a resource."""
    resource_type = alert.resource["resource_type"] or ResourceType.EBS
    return (
        ResourceType(resource_type).noun.capitalize() if resource_type in list(ResourceType) else "Resource"
    )


def _kubernetes(volume: Mapping[str, Any], display_name: str) -> list[str]:
    """The Kubernetes claim, its namespace and the cluster, as far as they are known and not in the name."""
    pairs = ((label, volume.get(label)) for label in ("claim", "namespace", "cluster"))
    return [f"{label} {name}" for label, name in pairs if name and name not in display_name]


def message_from_alarm(alarm: Mapping[str, Any]) -> ChatMessage:
    """The chat message about an alarm as CloudWatch publishes it; only its name and state are required."""
    name, state = sanitise(alarm["AlarmName"], _MAX_NAME_CHARS), sanitise(alarm["NewStateValue"], 40)
    emoji, state_label = _ALARM_STATES.get(state, ("⚪", f"alarm in state {state}"))
    description = sanitise(_string(alarm, "AlarmDescription"), _MAX_DESCRIPTION_CHARS)
    runbook = match[1].rstrip(".,;)") if (match := _RUNBOOK_PATTERN.search(description)) else None
    page = (
        match[match.lastindex or 0] if runbook and (match := _RUNBOOK_PAGE_PATTERN.search(runbook)) else None
    )
    arn = _ALARM_ARN_PATTERN.fullmatch(_string(alarm, "AlarmArn"))
    region, account = (arn["region"], arn["account"]) if arn else ("", _string(alarm, "AWSAccountId"))
    changed_at = _string(alarm, "StateChangeTime")
    identity_parts = [_string(alarm, key) for key in ("AlarmArn", "AlarmName", "AlarmContributorId")]
    reason = sanitise(_string(alarm, "NewStateReason"), _MAX_TEXT_CHARS)
    previous_state = sanitise(_string(alarm, "OldStateValue"), 40)
    links = [("Runbook", runbook)] if runbook else []
    if region:
        console = f"https://{AwsLocation(region=region).console_host}/cloudwatch/home?region={region}"
        links.append(
            ("Alarm in the AWS console", f"{console}#alarmsV2:alarm/{_url_quote(alarm['AlarmName'])}")
        )
    facts = (
        *_contributor_fact(alarm),
        ("Alarm", name),
        ("State", f"{state}, was {previous_state}" if previous_state else state),
        ("Account", sanitise(account, _MAX_NAME_CHARS)),
    )
    return ChatMessage(
        message_id=sha256(
            "\n".join([*identity_parts, state, changed_at]).encode("utf-8", "replace")
        ).hexdigest()[:32],
        kind=ALARM_KIND,
        subject=name,
        emoji=emoji,
        title=f"{state_label.upper()}: {page or name}{f' ({region})' if region else ''}",
        reason=_RUNBOOK_PATTERN.sub("", description),
        lines=(reason,) if reason else (),
        facts=tuple((label, text) for label, text in facts if text),
        footer=_format_timestamp(changed_at),
        links=tuple((label, sanitise(address, _MAX_ADDRESS_CHARS)) for label, address in links),
    )


def _contributor_fact(alarm: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The contributor, such as a volume, that an alarm on a Metrics Insights query is about."""
    attributes = alarm.get("AlarmContributorAttributes")
    if not isinstance(attributes, Mapping):
        return []
    entries = list(attributes.items())[:_MAX_CONTRIBUTORS]
    return [("About", " ".join(sanitise(str(value), 60) for _, value in entries))] if entries else []


def _string(alarm: Mapping[str, Any], key: str) -> str:
    value = alarm.get(key)
    return value if isinstance(value, str) else ""


def _url_quote(name: str) -> str:
    """Quote a name for an address; a lone surrogate in it must not prevent the message."""
    return quote(name, safe="", errors="replace")


def _format_timestamp(text: str) -> str:
    try:
        return format_instant(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return sanitise(text, 40) or "at an unknown time"


def describe_delay(delay_s: float) -> str | None:
    """Describe the delay of a message since it was published; None if it is in time."""
    return f"delivered {format_duration(delay_s)} late" if delay_s >= _DELAY_THRESHOLD_S else None


def escape(text: str, limit: int, escapes: Mapping[str, str]) -> str:
    """Make a text in which nothing is an address or an emoji, and replace these characters.

    Args:
        text: printable text.
        limit: the largest length in UTF-16 units; no channel counts a character as more than that.
        escapes: characters that a channel interprets, with their replacements, which are never cut.
    """
    pieces = [
        escapes.get(character, character) for character in _ACTIVE_COLON_PATTERN.sub(_COLON_LOOKALIKE, text)
    ]
    escaped = "".join(pieces)
    if not escaped or utf16_length(escaped) <= limit:
        return escaped
    end_offsets = accumulate(map(utf16_length, pieces))
    return "".join(pieces[: sum(end_offset < limit for end_offset in end_offsets)]) + "…"


def utf16_length(text: str) -> int:
    """The length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def truncate_lines(lines: Sequence[str], limit: int) -> list[str]:
    """As many lines as fit into ``limit``, and a last line with the number of the others."""
    end_offsets = accumulate(utf16_length(line) + 1 for line in lines)
    kept_count = sum(end_offset <= limit for end_offset in end_offsets)
    dropped_count = len(lines) - kept_count
    return list(lines) if not dropped_count else [*lines[:kept_count], f"… and {dropped_count} more"]


def is_link(address: str) -> bool:
    """Whether an address is plain enough to become a link."""
    return _LINK_PATTERN.fullmatch(address) is not None
