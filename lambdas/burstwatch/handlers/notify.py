"""The notify function: sends the messages of the alerts topic to Slack and to AWS's chat service.

If a channel does not take a message, the invocation fails. Lambda retries it, and finally puts it into a
dead-letter queue. What a channel has taken is not sent to it again.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.idempotency import SendStatus, SentLog
from burstwatch.adapters.notify.message import (
    ALARM_KIND,
    ChatChannel,
    ChatMessage,
    ChatMessageError,
    describe_delay,
    parse_message,
)
from burstwatch.adapters.notify.slack_webhook import MAX_WAIT_S
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise
from burstwatch.wiring.bootstrap_notify import NotifyServices, open_notify
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Field, Metric, Telemetry, with_telemetry

_FINISH_RESERVE_S: Final = 15.0
"""The time for one message that is sent without waiting: Slack's timeout, and the writes to the table."""

CAUSED_BY_FAILED_DELIVERY: Final = ("AlertsNotDelivered", "AlertsDeadLettered", "WatchdogErrors-notify")
"""The alarms that a failing notify function triggers, without the stack's name.

If it failed for them as well, they would never end.
"""

# a batch usually fails for one reason, so three faults show it
_MAX_FAULTS_SHOWN: Final = 3
_MAX_SHOWN_CHARS: Final = 120


class NotDeliveredError(BurstwatchError):
    """A channel did not take a message; the text says which, and why."""


@with_telemetry
def handler(event: Any, context: Any, telemetry: Telemetry) -> Mapping[str, int]:
    """Handle an event of SNS: send it to every channel, and fail if one of them did not take it."""
    try:
        channels, sent_log = _open_channels()
    except BurstwatchError as error:
        telemetry.error("no channel available", {Field.REASON: str(error)})
        telemetry.emit_metric(Metric.ALERTS_NOT_DELIVERED, 1)
        raise
    services = NotifyServices(
        channels=channels,
        sent_log=sent_log,
        telemetry=telemetry,
        remaining_s=lambda: context.get_remaining_time_in_millis() / 1000,
    )
    return run(event, time.time(), services)


def run(event: Any, now_s: float, services: NotifyServices) -> Mapping[str, int]:
    """Send each record to every channel; a failure does not prevent the others.

    Raises:
        NotDeliveredError: a channel did not take a message.
    """
    faults: list[str] = []
    counts = dict.fromkeys(SendStatus, 0)
    for record in _records(event):
        try:
            message = parse_message(_message(record))
        except ChatMessageError as error:
            services.telemetry.error("malformed record", {Field.REASON: str(error)})
            faults.append(str(error))
            continue
        delay_s = _delay_s(record, now_s)
        for channel in services.channels:
            try:
                counts[_post(message, channel, delay_s, services)] += 1
            except Exception as error:  # noqa: BLE001 - one recipient that fails stops no other; raised below
                fault = _report_failure(message, channel, error, services)
                if not _is_caused_by_failed_delivery(message):
                    faults.append(fault)
    if faults:
        services.telemetry.emit_metric(Metric.ALERTS_NOT_DELIVERED, len(faults))
        suffix = f"; and {len(faults) - _MAX_FAULTS_SHOWN} more" if len(faults) > _MAX_FAULTS_SHOWN else ""
        raise NotDeliveredError(
            f"{len(faults)} not delivered: {'; '.join(faults[:_MAX_FAULTS_SHOWN])}{suffix}"
        )
    return {str(status): count for status, count in counts.items()}


def _is_caused_by_failed_delivery(message: ChatMessage) -> bool:
    return message.kind == ALARM_KIND and message.subject.endswith(
        tuple(f"-{name}" for name in CAUSED_BY_FAILED_DELIVERY)
    )


def _records(event: Any) -> Iterator[Any]:
    """The records of the event; an event without records is treated as a malformed record."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    yield from records if isinstance(records, Sequence) and records else [event]


def _message(record: Any) -> str:
    match record:
        case {"Sns": {"Message": str() as message}}:
            return message
    keys = ", ".join(sorted(map(str, record))) if isinstance(record, Mapping) else type(record).__name__
    raise ChatMessageError(
        f"the record is not one of SNS (it has {sanitise(keys, _MAX_SHOWN_CHARS) or 'nothing'})"
    )


def _delay_s(record: Mapping[str, Any], now_s: float) -> float:
    """How long ago SNS received the message; the alert's own time may be that of a lab."""
    try:
        return now_s - datetime.fromisoformat(record["Sns"]["Timestamp"]).timestamp()
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0.0


def _post(message: ChatMessage, channel: ChatChannel, delay_s: float, services: NotifyServices) -> SendStatus:
    remaining_s = services.remaining_s()
    result = services.sent_log.send_once(
        channel.name,
        message.message_id,
        lambda: channel.post(
            message,
            delay_note=describe_delay(delay_s),
            max_wait_s=min(MAX_WAIT_S, remaining_s - _FINISH_RESERVE_S),
        ),
        lease_s=remaining_s,
    )
    fields = _fields(message, channel)
    if result.problem:
        services.telemetry.warn("idempotency store unavailable", fields | {Field.REASON: result.problem})
    services.telemetry.info(str(result.status), fields | {Field.LATE_S: round(delay_s)})
    return result.status


def _report_failure(
    message: ChatMessage, channel: ChatChannel, error: Exception, services: NotifyServices
) -> str:
    """Log a failure, and return its text for the error of the invocation."""
    fields = _fields(message, channel)
    if isinstance(error, ChannelError):
        services.telemetry.error("not delivered", fields | {Field.REASON: str(error)})
        return f"{channel.name}: {error}"
    reason = f"a fault in burstwatch ({type(error).__name__}): report it with the id of the alert"
    services.telemetry.internal_error("not delivered", error, fields | {Field.REASON: reason})
    return f"{channel.name}: {reason} {message.message_id}"


def _fields(message: ChatMessage, channel: ChatChannel) -> dict[Field, Any]:
    return {Field.ALERT_ID: message.message_id, Field.KIND: message.kind, Field.CHANNEL: channel.name}


@cache
def _open_channels() -> tuple[Sequence[ChatChannel], SentLog]:
    """The channels that the environment names; the first invocation opens them, later ones reuse them."""
    return open_notify(NotifySettings.from_env(os.environ))
