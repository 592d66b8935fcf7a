"""The settle function: events of EBS and RDS, and reports of hosts, are hints to poll a resource early.

EC2 does not guarantee the delivery of events, and an event does not contain the new configuration. So a lost
event only costs time, and the volume is always read again. Source: the EBS user guide, "Amazon EventBridge
events for Amazon EBS".

RDS says once in each drain that the credits of gp2 storage are low (RDS-EVENT-0189), and says it late. It is
a second witness for a database whose balance was not noticed. Source: the RDS user guide, "Amazon RDS event
categories and event messages".
"""

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from burstwatch.core.assessment.host_stall import STALL_EVIDENCE_S, Stall, StallError
from burstwatch.core.text import format_count, format_duration, sanitise
from burstwatch.engine.event_pass import evaluate_databases, evaluate_volumes, ingest_host_reports
from burstwatch.handlers.event_time import EventError, EventTime
from burstwatch.handlers.pass_metrics import emit_counts, emit_pass_telemetry
from burstwatch.handlers.runtime import (
    FunctionRuntime,
    account_from_context,
    function_runtime,
    limit_to_invocation,
)
from burstwatch.wiring.function_settings import FunctionClock
from burstwatch.wiring.observability import Field, Metric, Telemetry, with_telemetry

PROBE_SOURCE: Final = "burstwatch.ddprobe"
EBS_SOURCE: Final = "aws.ec2"
RDS_SOURCE: Final = "aws.rds"
LOW_CREDITS_EVENT: Final = "RDS-EVENT-0189"
STALE_AFTER_S: Final = 300
"""An older event is dropped: a sweep and five focus ticks have happened since."""

_STALL_DETAIL_TYPE: Final = "stall"
_DETAIL_TYPES: Final = {EBS_SOURCE: "EBS Volume Notification", RDS_SOURCE: "RDS DB Instance Event"}
"""What AWS sends, by its source."""
_MODIFY_EVENT: Final = "modifyVolume"
_VOLUME_ARN_PATTERN: Final = re.compile(r".*:volume/(vol-[0-9a-f]{8,17})")
_DATABASE_ARN_PATTERN: Final = re.compile(r".*:(db:[a-z](?:-?[a-z0-9]){0,62})")
# a log line quotes the beginning of an event and ten of the up to a hundred volumes of a batch
_MAX_SHOWN_CHARS: Final = 80
_MAX_VOLUMES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event of EventBridge, and the ID of the SQS message that contained it."""

    message_id: str
    event: Mapping[str, Any]
    now_s: float
    age_s: float

    @classmethod
    def from_event(
        cls,
        event: Any,
        clock: FunctionClock,
        wall_s: float,
        *,
        message_id: str = "",
        sent_at_s: float | None = None,
    ) -> Self:
        """Parse an event that was put into the queue at ``sent_at_s``; a host may write any ``time``.

        Raises:
            EventError: neither EBS nor RDS nor ddprobe sends it.
        """
        if not isinstance(event, Mapping):
            raise EventError("the event is not an object")
        source_and_type = (event.get("source"), event.get("detail-type"))
        if source_and_type[0] != PROBE_SOURCE and source_and_type not in tuple(_DETAIL_TYPES.items()):
            raise EventError(
                "neither an event of EBS or RDS nor a ddprobe event:"
                f" {sanitise(repr(source_and_type), _MAX_SHOWN_CHARS)}"
            )
        event_time = EventTime.from_event(event, clock, wall_s)
        waited_s = wall_s - sent_at_s if sent_at_s is not None and clock is FunctionClock.WALL else 0.0
        age_s = max(event_time.late_s, waited_s)
        return cls(message_id=message_id, event=event, now_s=event_time.now_s, age_s=age_s)

    @classmethod
    def from_record(cls, record: Any, clock: FunctionClock, wall_s: float) -> Self:
        """Parse a message as Lambda receives it from the queue.

        Raises:
            EventError: its body is not one of these events.
        """
        try:
            message_id, event = record["messageId"], json.loads(record["body"])
            sent_at_s = int(record["attributes"]["SentTimestamp"]) / 1000
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise EventError(f"not an SQS message with an event: {error!r}") from error
        return cls.from_event(event, clock, wall_s, message_id=message_id, sent_at_s=sent_at_s)

    @property
    def is_from_probe(self) -> bool:
        return bool(self.event["source"] == PROBE_SOURCE)

    @property
    def is_from_rds(self) -> bool:
        return bool(self.event["source"] == RDS_SOURCE)

    @property
    def event_name(self) -> str:
        """The name of an event of EBS, such as ``attachVolume``, or the ID of one of RDS."""
        detail, key = self.event.get("detail"), "EventID" if self.is_from_rds else "event"
        return sanitise(str(detail.get(key) if isinstance(detail, Mapping) else None), _MAX_SHOWN_CHARS)

    @property
    def volume_ids(self) -> frozenset[str]:
        """The IDs of the volumes that an event of EBS names."""
        return self._named_by(_VOLUME_ARN_PATTERN)

    @property
    def database_ids(self) -> frozenset[str]:
        """The databases (``db:NAME``) that an event of RDS names as low in credits."""
        is_low = self.event_name == LOW_CREDITS_EVENT
        return self._named_by(_DATABASE_ARN_PATTERN) if is_low else frozenset()

    def _named_by(self, arn_pattern: re.Pattern[str]) -> frozenset[str]:
        arns = self.event.get("resources")
        if not isinstance(arns, Sequence) or isinstance(arns, str):
            return frozenset()
        matches = (arn_pattern.fullmatch(arn) for arn in arns if isinstance(arn, str))
        return frozenset(match[1] for match in matches if match)

    def stall(self) -> Stall:
        """The report of a host.

        Raises:
            StallError: it is not a valid report, or it is too old.
        """
        if (detail_type := self.event.get("detail-type")) != _STALL_DETAIL_TYPE:
            raise StallError(
                f"detail-type is {sanitise(repr(detail_type), _MAX_SHOWN_CHARS)}, not {_STALL_DETAIL_TYPE!r}"
            )
        detail = self.event.get("detail")
        stall = Stall.from_detail(detail if isinstance(detail, Mapping) else {}, now_s=self.now_s)
        if not stall.is_fresh(self.now_s):
            age, limit = format_duration(self.now_s - stall.seen_at_s), format_duration(STALL_EVIDENCE_S)
            raise StallError(
                f"{stall.volume_id} stalled {age} ago; after {limit} a stall is not evidence any longer"
            )
        return stall


@with_telemetry
def handler(event: Any, context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Handle messages of the event queues; only those that failed are retried."""
    return run(event, function_runtime(account_from_context(context)), telemetry, wall_s=time.time())


def run(event: Any, runtime: FunctionRuntime, telemetry: Telemetry, *, wall_s: float) -> dict[str, Any]:
    """Handle a batch of messages, or one event as EventBridge delivered it before there were queues.

    An event only names a volume: its state is read from AWS.

    Raises:
        EventError: the event is invalid.
        PassError: because of an internal error, some volumes were not evaluated.
    """
    clock = runtime.settings.clock
    records = event.get("Records") if isinstance(event, Mapping) else None
    failed: set[str] = set()
    messages: list[Message] = []
    dropped_reasons: list[str] = []
    if not isinstance(records, list):
        try:
            messages.append(Message.from_event(event, clock, wall_s))
        except EventError as error:
            if not _may_be_from_probe(event):
                raise
            dropped_reasons.append(str(error))
    for record in records or ():
        try:
            messages.append(Message.from_record(record, clock, wall_s))
        except EventError as error:
            if _may_be_from_probe(record):
                dropped_reasons.append(str(error))
                continue
            telemetry.error(f"not understood, and given up after several tries: {error}")
            failed.add(str(record.get("messageId")) if isinstance(record, Mapping) else "")
    _report_dropped(dropped_reasons, telemetry)
    fresh = [message for message in messages if message.age_s <= STALE_AFTER_S]
    _report_stale([message for message in messages if message.age_s > STALE_AFTER_S], telemetry)
    from_ebs = [entry for entry in fresh if not (entry.is_from_probe or entry.is_from_rds)]
    failed |= _process_ebs_events(from_ebs, runtime, telemetry)
    failed |= _process_rds_events([entry for entry in fresh if entry.is_from_rds], runtime, telemetry)
    failed |= _process_host_reports([entry for entry in fresh if entry.is_from_probe], runtime, telemetry)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(failed)]}


def _may_be_from_probe(event_or_record: Any) -> bool:
    """Whether an unreadable event or message was written by a host: then a retry is of no use.

    Any host can write one (a time in the year 9999, JSON that is nested too deeply), and its third attempt
    would raise an alarm. Events of EBS are written by AWS and do not have the probe's source.
    """
    if not isinstance(event_or_record, Mapping):
        return False
    return event_or_record.get("source") == PROBE_SOURCE or f'"{PROBE_SOURCE}"' in str(
        event_or_record.get("body")
    )


def _report_dropped(reasons: Sequence[str], telemetry: Telemetry) -> None:
    """Count the reports of hosts that cannot be used, and log the first reason."""
    if not reasons:
        return
    telemetry.emit_metric(Metric.PROBE_EVENTS_DROPPED, len(reasons))
    suffix = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    telemetry.warn(f"host reports dropped: {reasons[0]}{suffix}")


def _report_stale(messages: Collection[Message], telemetry: Telemetry) -> None:
    if not messages:
        return
    from_probes, total = sum(message.is_from_probe for message in messages), len(messages)
    emit_counts(
        {Metric.PROBE_EVENTS_DROPPED: from_probes, Metric.EBS_EVENTS_DROPPED: total - from_probes}, telemetry
    )
    oldest, limit = max(message.age_s for message in messages), format_duration(STALE_AFTER_S)
    count_text = f"{total} events were" if total > 1 else "1 event was"
    telemetry.warn(
        f"{count_text} older than {limit} (up to {format_duration(oldest)}), and were dropped unread"
    )


def _process_ebs_events(
    messages: Sequence[Message], runtime: FunctionRuntime, telemetry: Telemetry
) -> set[str]:
    """Evaluate the volumes that events of EBS name; return the IDs of messages whose volumes were unread."""
    volume_ids = frozenset[str]().union(*(message.volume_ids for message in messages))
    if not volume_ids:
        return set()
    now_s = max(message.now_s for message in messages)
    event_counts = Counter(message.event_name for message in messages)
    modified_ids = (message.volume_ids for message in messages if message.event_name == _MODIFY_EVENT)
    shown_ids = ", ".join(sorted(volume_ids)[:_MAX_VOLUMES_SHOWN])
    services = limit_to_invocation(runtime.services_for_watch(now_s, telemetry), telemetry.remaining_s)
    result = evaluate_volumes(
        services, volume_ids, modified=frozenset[str]().union(*modified_ids), now_s=now_s
    )
    telemetry.info(
        f"EBS says {', '.join(event_counts)}; {len(result.report.decisions)} of {len(volume_ids)} volumes"
        " evaluated",
        {Field.VOLUME_ID: shown_ids},
    )
    emit_pass_telemetry(result.report, telemetry)
    return {entry.message_id for entry in messages if not result.unread.isdisjoint(entry.volume_ids)}


def _process_rds_events(
    messages: Sequence[Message], runtime: FunctionRuntime, telemetry: Telemetry
) -> set[str]:
    """Poll the databases that RDS says are low in credits; return the IDs of messages about unread ones."""
    database_ids = frozenset[str]().union(*(message.database_ids for message in messages))
    if not database_ids:
        return set()
    now_s = max(message.now_s for message in messages)
    services = limit_to_invocation(runtime.services_for_watch(now_s, telemetry), telemetry.remaining_s)
    result = evaluate_databases(services, database_ids, now_s=now_s)
    names = ", ".join(sorted(database_ids)[:_MAX_VOLUMES_SHOWN])
    count_text = f"{len(result.report.decisions)} of {format_count(len(database_ids), 'database')} evaluated"
    telemetry.info(f"RDS says that credits are low ({LOW_CREDITS_EVENT}): {names}; {count_text}")
    emit_pass_telemetry(result.report, telemetry)
    return {entry.message_id for entry in messages if not result.unread.isdisjoint(entry.database_ids)}


def _process_host_reports(
    messages: Sequence[Message], runtime: FunctionRuntime, telemetry: Telemetry
) -> set[str]:
    """Ingest the reports of hosts; return the IDs of messages whose volumes were unread.

    An unusable report is dropped and counted, because any host may send anything.
    """
    stalls: dict[str, Stall] = {}
    dropped: list[str] = []
    for index, message in enumerate(messages):
        try:
            stalls[message.message_id or str(index)] = message.stall()
        except StallError as error:
            dropped.append(str(error))
    unread: set[str] = set()
    if stalls:
        now_s = max(message.now_s for message in messages)
        services = limit_to_invocation(runtime.services_for_watch(now_s, telemetry), telemetry.remaining_s)
        result = ingest_host_reports(services, stalls.values(), now_s=now_s)
        dropped += [
            *result.refused,
            *["another report of the same volume came less than a minute before"] * result.repeated,
        ]
        unread = {message_id for message_id, stall in stalls.items() if stall.volume_id in result.unread}
        emit_pass_telemetry(result.report, telemetry)
    _report_dropped(dropped, telemetry)
    return unread
