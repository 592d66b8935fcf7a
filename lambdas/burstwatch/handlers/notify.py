"""Carries what the alerts topic holds to where people are: Slack, and AWS's chat service.

What is not taken fails the invocation: Lambda tries again, and what it gives up waits in a queue. What was
taken is not sent again.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.idempotency import Became, SentMarks
from burstwatch.adapters.notify.message import ALARM, Notice, NoticeError, Teller, late_words, read_notice
from burstwatch.adapters.notify.slack_webhook import LONGEST_WAIT_S
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import printable
from burstwatch.wiring.bootstrap_notify import NotifyShell, open_notify
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Field, Instruments, Metric, instrumented

_TO_FINISH_S: Final = 15.0
"""What one message takes when it is sent at once: Slack's silence, and the marks."""

CAUSED_BY_FAILED_DELIVERY: Final = ("AlertsNotDelivered", "AlertsDeadLettered", "WatchdogErrors-notify")
"""The alarms that a failing notify triggers, without the stack's name: it must not fail on them in turn."""

_MOST_NAMED: Final = 3
_LONGEST_SHOWN: Final = 120


class NotDeliveredError(BurstwatchError):
    """Somebody was not told; the message says who, and why."""


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> Mapping[str, int]:
    """Tell everybody what came, and fail if somebody was not reached."""
    try:
        tellers, sent = _open()
    except BurstwatchError as error:
        say.error("nobody is told", {Field.REASON: str(error)})
        say.measure(Metric.ALERTS_NOT_DELIVERED, 1)
        raise
    shell = NotifyShell(
        tellers=tellers,
        sent=sent,
        say=say,
        time_left_s=lambda: context.get_remaining_time_in_millis() / 1000,
    )
    return run(event, time.time(), shell)


def run(event: Any, now_s: float, shell: NotifyShell) -> Mapping[str, int]:
    """Tell each record to everybody; one that fails hides no other.

    Raises:
        NotDeliveredError: somebody was not told of something.
    """
    faults: list[str] = []
    told = dict.fromkeys(Became, 0)
    for record in _records(event):
        try:
            notice = read_notice(_message(record))
        except NoticeError as error:
            shell.say.error("poison record", {Field.REASON: str(error)})
            faults.append(str(error))
            continue
        late_s = _late_s(record, now_s)
        for teller in shell.tellers:
            try:
                told[_tell(notice, teller, late_s, shell)] += 1
            except Exception as error:  # noqa: BLE001 - nobody is left out for another's sake; raised below
                fault = _blame(notice, teller, error, shell)
                if not _is_caused_by_failed_delivery(notice):
                    faults.append(fault)
    if faults:
        shell.say.measure(Metric.ALERTS_NOT_DELIVERED, len(faults))
        more = f"; and {len(faults) - _MOST_NAMED} more" if len(faults) > _MOST_NAMED else ""
        raise NotDeliveredError(f"{len(faults)} not delivered: {'; '.join(faults[:_MOST_NAMED])}{more}")
    return {str(became): count for became, count in told.items()}


def _is_caused_by_failed_delivery(notice: Notice) -> bool:
    return notice.kind == ALARM and notice.subject.endswith(
        tuple(f"-{name}" for name in CAUSED_BY_FAILED_DELIVERY)
    )


def _records(event: Any) -> Iterator[Any]:
    """The records of the event; one that holds none is itself what is wrong."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    yield from records if isinstance(records, Sequence) and records else [event]


def _message(record: Any) -> str:
    match record:
        case {"Sns": {"Message": str() as message}}:
            return message
    keys = ", ".join(sorted(map(str, record))) if isinstance(record, Mapping) else type(record).__name__
    raise NoticeError(f"the record is not one of SNS (it has {printable(keys, _LONGEST_SHOWN) or 'nothing'})")


def _late_s(record: Mapping[str, Any], now_s: float) -> float:
    """How long ago SNS took the message: the alert's own time may be that of a lab."""
    try:
        return now_s - datetime.fromisoformat(record["Sns"]["Timestamp"]).timestamp()
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0.0


def _tell(notice: Notice, teller: Teller, late_s: float, shell: NotifyShell) -> Became:
    left_s = shell.time_left_s()
    sending = shell.sent.once(
        teller.name,
        notice.notice_id,
        lambda: teller.tell(
            notice, late=late_words(late_s), longest_wait_s=min(LONGEST_WAIT_S, left_s - _TO_FINISH_S)
        ),
        lease_s=left_s,
    )
    fields = _fields(notice, teller)
    if sending.trouble:
        shell.say.warn("marks of what was sent are lost", fields | {Field.REASON: sending.trouble})
    shell.say.info(str(sending.became), fields | {Field.LATE_S: round(late_s)})
    return sending.became


def _blame(notice: Notice, teller: Teller, error: Exception, shell: NotifyShell) -> str:
    """Say in the log, and to whoever reads why the invocation failed, what went wrong."""
    fields = _fields(notice, teller)
    if isinstance(error, ChannelError):
        shell.say.error("not delivered", fields | {Field.REASON: str(error)})
        return f"{teller.name}: {error}"
    reason = f"a fault in burstwatch ({type(error).__name__}): report it with the id of the alert"
    shell.say.bug("not delivered", error, fields | {Field.REASON: reason})
    return f"{teller.name}: {reason} {notice.notice_id}"


def _fields(notice: Notice, teller: Teller) -> dict[Field, Any]:
    return {Field.ALERT_ID: notice.notice_id, Field.KIND: notice.kind, Field.CHANNEL: teller.name}


@cache
def _open() -> tuple[Sequence[Teller], SentMarks]:
    """What the environment describes, opened by the first invocation and kept for those that follow."""
    return open_notify(NotifySettings.from_env(os.environ))
