"""The function behind the event queues: EBS's events and the reports of hosts are hints to look early."""

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from burstwatch.core.assessment.host_stall import FRESH_S, Stall, StallError
from burstwatch.core.text import format_duration, printable
from burstwatch.engine.watch_pass import hear, look_at
from burstwatch.handlers.event_time import EventError, Timing
from burstwatch.handlers.pass_metrics import count_up, tell
from burstwatch.handlers.runtime import Footing, account_of, in_time, stand
from burstwatch.wiring.function_settings import FunctionClock
from burstwatch.wiring.observability import Field, Instruments, Metric, instrumented

PROBE_SOURCE: Final = "burstwatch.ddprobe"
EBS_SOURCE: Final = "aws.ec2"
STALE_AFTER_S: Final = 300
"""An event that waited longer is dropped: a sweep and five focus ticks have looked since."""

_STALL: Final = "stall"
_EBS: Final = "EBS Volume Notification"
_MODIFIED: Final = "modifyVolume"
_VOLUME: Final = re.compile(r".*:volume/(vol-[0-9a-f]{8,17})")
_LONGEST_SHOWN: Final = 80
_MOST_SHOWN: Final = 10
_REPEATED: Final = "there was another one of the same volume less than a minute before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event of EventBridge, and the id of the SQS message that brought it."""

    message_id: str
    event: Mapping[str, Any]
    now_s: float
    age_s: float

    @classmethod
    def of(
        cls,
        event: Any,
        clock: FunctionClock,
        wall_s: float,
        *,
        message_id: str = "",
        sent_s: float | None = None,
    ) -> Self:
        """An event, sent into the queue at ``sent_s``; a host may put any ``time`` in its own events.

        Raises:
            EventError: it is none of EBS's, and none of ddprobe's.
        """
        if not isinstance(event, Mapping):
            raise EventError("the event is no object")
        kind = (event.get("source"), event.get("detail-type"))
        if kind[0] != PROBE_SOURCE and kind != (EBS_SOURCE, _EBS):
            raise EventError(f"no event of EBS, and none of ddprobe: {printable(repr(kind), _LONGEST_SHOWN)}")
        timing = Timing.of(event, clock, wall_s)
        waited_s = wall_s - sent_s if sent_s is not None and clock is FunctionClock.WALL else 0.0
        age_s = max(timing.late_s, waited_s)
        return cls(message_id=message_id, event=event, now_s=timing.now_s, age_s=age_s)

    @classmethod
    def of_record(cls, record: Any, clock: FunctionClock, wall_s: float) -> Self:
        """A message as Lambda takes it from the queue.

        Raises:
            EventError: its body is no event of ours.
        """
        try:
            message_id, event = record["messageId"], json.loads(record["body"])
            sent_s = int(record["attributes"]["SentTimestamp"]) / 1000
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise EventError(f"no message of SQS with an event in it: {error!r}") from error
        return cls.of(event, clock, wall_s, message_id=message_id, sent_s=sent_s)

    @property
    def is_of_probe(self) -> bool:
        return bool(self.event["source"] == PROBE_SOURCE)

    @property
    def happened(self) -> str:
        """What EBS says happened, such as ``attachVolume``."""
        detail = self.event.get("detail")
        return printable(str(detail.get("event") if isinstance(detail, Mapping) else None), _LONGEST_SHOWN)

    @property
    def volume_ids(self) -> frozenset[str]:
        """The volumes that an event of EBS names."""
        arns = self.event.get("resources")
        if not isinstance(arns, Sequence) or isinstance(arns, str):
            return frozenset()
        found = (_VOLUME.fullmatch(arn) for arn in arns if isinstance(arn, str))
        return frozenset(match[1] for match in found if match)

    def stall(self) -> Stall:
        """What a host reports.

        Raises:
            StallError: it is no report, or one that says nothing about now.
        """
        if (said := self.event.get("detail-type")) != _STALL:
            raise StallError(f"detail-type is {printable(repr(said), _LONGEST_SHOWN)}, not {_STALL!r}")
        detail = self.event.get("detail")
        stall = Stall.from_detail(detail if isinstance(detail, Mapping) else {}, now_s=self.now_s)
        if not stall.is_fresh(self.now_s):
            age, most = format_duration(self.now_s - stall.seen_at_s), format_duration(FRESH_S)
            raise StallError(
                f"{stall.volume_id} stood still {age} ago; after {most} that says nothing any more"
            )
        return stall


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> dict[str, Any]:
    """As Lambda calls it with messages of the event queues; those that failed come again, and no others."""
    return run(event, stand(account_of(context)), say, wall_s=time.time())


def run(event: Any, footing: Footing, say: Instruments, *, wall_s: float) -> dict[str, Any]:
    """A batch of messages, or one event as EventBridge itself delivered it before there were queues.

    What an event says of its volume is asked of AWS, never believed.

    Raises:
        EventError: the event is none of ours.
        PassError: a mistake of ours kept volumes from being judged.
    """
    clock = footing.settings.clock
    records = event.get("Records") if isinstance(event, Mapping) else None
    failed: set[str] = set()
    messages: list[Message] = []
    unusable: list[str] = []
    if not isinstance(records, list):
        try:
            messages.append(Message.of(event, clock, wall_s))
        except EventError as error:
            if not _may_be_of_probe(event):
                raise
            unusable.append(str(error))
    for record in records or ():
        try:
            messages.append(Message.of_record(record, clock, wall_s))
        except EventError as error:
            if _may_be_of_probe(record):
                unusable.append(str(error))
                continue
            say.error(f"not understood, and given up after some tries: {error}")
            failed.add(str(record.get("messageId")) if isinstance(record, Mapping) else "")
    _drop(unusable, say)
    fresh = [message for message in messages if message.age_s <= STALE_AFTER_S]
    _count_stale([message for message in messages if message.age_s > STALE_AFTER_S], say)
    failed |= _follow([each for each in fresh if not each.is_of_probe], footing, say)
    failed |= _hear([each for each in fresh if each.is_of_probe], footing, say)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(failed)]}


def _may_be_of_probe(given: Any) -> bool:
    """Whether an event or message that cannot be read was written by a host: trying it again is of no use.

    Any host can write one (a time in the year 9999, JSON that is nested too deeply), and three receives of
    it would raise an alarm. EBS's events and their envelope are AWS's and do not have the probe's source.
    """
    if not isinstance(given, Mapping):
        return False
    return given.get("source") == PROBE_SOURCE or f'"{PROBE_SOURCE}"' in str(given.get("body"))


def _drop(reasons: Sequence[str], say: Instruments) -> None:
    """Count reports of hosts that cannot be used, and log the first reason."""
    if not reasons:
        return
    say.measure(Metric.PROBE_EVENTS_DROPPED, len(reasons))
    others = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    say.warn(f"reports of hosts dropped: {reasons[0]}{others}")


def _count_stale(messages: Collection[Message], say: Instruments) -> None:
    if not messages:
        return
    of_probes, many = sum(message.is_of_probe for message in messages), len(messages)
    count_up({Metric.PROBE_EVENTS_DROPPED: of_probes, Metric.EBS_EVENTS_DROPPED: many - of_probes}, say)
    oldest, most = max(message.age_s for message in messages), format_duration(STALE_AFTER_S)
    said = f"{many} events were" if many > 1 else "1 event was"
    say.warn(f"{said} older than {most} (up to {format_duration(oldest)}), and dropped unread")


def _follow(messages: Sequence[Message], footing: Footing, say: Instruments) -> set[str]:
    """Look at the volumes that EBS names; the ids of messages about what EC2 did not describe."""
    volume_ids = frozenset[str]().union(*(message.volume_ids for message in messages))
    if not volume_ids:
        return set()
    now_s = max(message.now_s for message in messages)
    said = Counter(message.happened for message in messages)
    modified = (message.volume_ids for message in messages if message.happened == _MODIFIED)
    shown = ", ".join(sorted(volume_ids)[:_MOST_SHOWN])
    shell = in_time(footing.asking(now_s, say), say.left_s)
    looked = look_at(shell, volume_ids, modified=frozenset[str]().union(*modified), now_s=now_s)
    say.info(
        f"EBS says {', '.join(said)}; {len(looked.report.decisions)} of {len(volume_ids)} volumes looked at",
        {Field.VOLUME_ID: shown},
    )
    tell(looked.report, say)
    return {each.message_id for each in messages if not looked.unread.isdisjoint(each.volume_ids)}


def _hear(messages: Sequence[Message], footing: Footing, say: Instruments) -> set[str]:
    """Take the reports of hosts; the ids of messages about volumes that EC2 did not describe.

    One that cannot be used is dropped and counted: any host may send anything.
    """
    stalls: dict[str, Stall] = {}
    dropped: list[str] = []
    for number, message in enumerate(messages):
        try:
            stalls[message.message_id or str(number)] = message.stall()
        except StallError as error:
            dropped.append(str(error))
    unread: set[str] = set()
    if stalls:
        now_s = max(message.now_s for message in messages)
        shell = in_time(footing.asking(now_s, say), say.left_s)
        heard = hear(shell, stalls.values(), now_s=now_s)
        dropped += [
            *heard.refused,
            *["another report of the same volume came less than a minute before"] * heard.repeated,
        ]
        unread = {message_id for message_id, stall in stalls.items() if stall.volume_id in heard.unread}
        tell(heard.report, say)
    _drop(dropped, say)
    return unread
