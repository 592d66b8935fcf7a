"""The events that EBS and RDS send to EventBridge, in their order of arrival, with the faults of delivery."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from burstlab.model.database import LOW_CREDITS_EVENT, LowCredits, low_credits_event
from burstlab.model.loads.load import NEVER_S
from burstlab.model.modification_progress import ModificationProgress
from burstlab.model.settings import LabSettings

_NOTIFICATION: Final = "EBS Volume Notification"
_API_CALL: Final = "AWS API Call via CloudTrail"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEvent:
    """An event that arrived; ``number`` counts arrivals from 1, ``body`` is what a target is given."""

    number: int
    volume_id: str
    name: str
    result: str | None
    occurred_at: datetime
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _ScheduledEvent:
    """An event, perhaps in the future; sorted by time, then by the order in which it was scheduled."""

    at_s: int
    order: int
    volume_id: str
    name: str
    result: str
    request_id: str


class EventLog:
    """What happens to volumes, and what of it arrived."""

    def __init__(self, settings: LabSettings) -> None:
        self.settings = settings
        self._scheduled_count = 0
        self._sent_count = 0
        self._scheduled: list[_ScheduledEvent] = []
        self._delayed: list[_ScheduledEvent] = []
        self._arrived: list[LabEvent] = []
        self._low_credits_count = 0

    def schedule(
        self, volume_id: str, name: str, result: str, at_s: int, *, request_id: str | None = None
    ) -> None:
        """Something happens to a volume at a moment, now or to come."""
        self._scheduled_count += 1
        event = _ScheduledEvent(
            at_s=at_s,
            order=self._scheduled_count,
            volume_id=volume_id,
            name=name,
            result=result,
            request_id=request_id or str(self._uuid("request", self._scheduled_count)),
        )
        heapq.heappush(self._scheduled, event)

    def schedule_states(self, volume_id: str, change: ModificationProgress) -> None:
        """Every state a modification will be in, each at its moment."""
        self._schedule_state(volume_id, change, "modifying", int(change.started_at.timestamp()))
        self.schedule_remaining_states(volume_id, change, after="modifying")

    def schedule_remaining_states(self, volume_id: str, change: ModificationProgress, *, after: str) -> None:
        """The states after this one, as far as they come."""
        if after == "modifying" and change.reaches_optimizing:
            self._schedule_state(volume_id, change, "optimizing", change.optimizing_at_s)
        if change.ends_at_s < NEVER_S:
            self._schedule_state(
                volume_id, change, "failed" if change.will_fail else "completed", change.ends_at_s
            )

    def cancel_scheduled(self, volume_id: str, now_s: int) -> None:
        """What is still to come of this volume will not."""
        self._scheduled = [
            event for event in self._scheduled if event.volume_id != volume_id or event.at_s <= now_s
        ]
        heapq.heapify(self._scheduled)

    def add_low_credits(self, events: Sequence[LowCredits]) -> None:
        """Let those events of RDS arrive that are new; ``events`` are all of them, the oldest first."""
        settings = self.settings
        for number, event in enumerate(events[self._low_credits_count :], start=self._low_credits_count):
            occurred_at = datetime.fromtimestamp(event.at_s, tz=UTC)
            header = {
                "version": "0",
                "id": str(self._uuid("rds-event", number)),
                "account": settings.account_id,
                "region": settings.region,
            }
            self._arrived.append(
                LabEvent(
                    number=len(self._arrived) + 1,
                    volume_id=event.identifier,
                    name=LOW_CREDITS_EVENT,
                    result=None,
                    occurred_at=occurred_at,
                    body=header | low_credits_event(event, settings),
                )
            )
        self._low_credits_count = len(events)

    def arrived_by(self, now_s: int) -> list[LabEvent]:
        """All that arrived by now."""
        while self._scheduled and self._scheduled[0].at_s <= now_s:
            self._send(heapq.heappop(self._scheduled))
        return list(self._arrived)

    def _schedule_state(self, volume_id: str, change: ModificationProgress, state: str, at_s: int) -> None:
        self.schedule(volume_id, "modifyVolume", state, at_s, request_id=change.request_id)

    def _send(self, event: _ScheduledEvent) -> None:
        """Send an event; it may be lost, duplicated, or delayed until after the next one."""
        if event.name == "modifyVolume" and event.result not in self.settings.modify_event_results:
            return
        if event.name == "DetachVolume" and not self.settings.has_trail:
            return
        self._sent_count += 1
        delayed, self._delayed = self._delayed, []
        if not self._is_nth_event(self.settings.lose_event_every):
            times = 2 if self._is_nth_event(self.settings.double_event_every) else 1
            if self._is_nth_event(self.settings.swap_event_every) and not delayed:
                self._delayed = [event] * times
            else:
                self._deliver(event, times)
        for delayed_event in delayed:
            self._deliver(delayed_event, 1)

    def _is_nth_event(self, interval: int | None) -> bool:
        return interval is not None and self._sent_count % interval == 0

    def _deliver(self, event: _ScheduledEvent, times: int) -> None:
        for _ in range(times):
            self._arrived.append(
                LabEvent(
                    number=len(self._arrived) + 1,
                    volume_id=event.volume_id,
                    name=event.name,
                    result=event.result or None,
                    occurred_at=datetime.fromtimestamp(event.at_s, tz=UTC),
                    body=self._event_body(event),
                )
            )

    def _event_body(self, event: _ScheduledEvent) -> dict[str, Any]:
        settings = self.settings
        arn = f"arn:aws:ec2:{settings.region}:{settings.account_id}:volume/{event.volume_id}"
        is_call = event.name == "DetachVolume"
        return {
            "version": "0",
            "id": str(self._uuid("event", event.order)),
            "detail-type": _API_CALL if is_call else _NOTIFICATION,
            "source": "aws.ec2",
            "account": settings.account_id,
            "time": f"{datetime.fromtimestamp(event.at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}",
            "region": settings.region,
            "resources": [] if is_call else [arn],
            "detail": self._cloudtrail_detail(event) if is_call else _notification_detail(event),
        }

    def _cloudtrail_detail(self, event: _ScheduledEvent) -> dict[str, Any]:
        """A call as CloudTrail records it, as far as anyone needs it."""
        return {
            "eventSource": "ec2.amazonaws.com",
            "eventName": event.name,
            "eventTime": f"{datetime.fromtimestamp(event.at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}",
            "awsRegion": self.settings.region,
            "requestParameters": {"volumeId": event.volume_id},
            "requestID": event.request_id,
        }

    def _uuid(self, kind: str, number: int) -> UUID:
        seed = f"{kind}/{self.settings.seed}/{number}".encode()
        return UUID(bytes=blake2b(seed, digest_size=16).digest())


def _notification_detail(event: _ScheduledEvent) -> dict[str, str]:
    return {"result": event.result, "cause": "", "event": event.name, "request-id": event.request_id}
