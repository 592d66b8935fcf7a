"""The events EBS sends to EventBridge, in the order in which they arrive, with what can happen on the way."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from burstlab.model.load import NEVER_S
from burstlab.model.modification_progress import Change
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
    at: datetime
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Told:
    """Something that happens to a volume, perhaps later; ordered by time, then as it was told."""

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
        self._told = 0
        self._raised = 0
        self._coming: list[_Told] = []
        self._held: list[_Told] = []
        self._arrived: list[LabEvent] = []

    def tell(
        self, volume_id: str, name: str, result: str, at_s: int, *, request_id: str | None = None
    ) -> None:
        """Something happens to a volume at a moment, now or to come."""
        self._told += 1
        told = _Told(
            at_s=at_s,
            order=self._told,
            volume_id=volume_id,
            name=name,
            result=result,
            request_id=request_id or str(self._uuid("request", self._told)),
        )
        heapq.heappush(self._coming, told)

    def tell_course(self, volume_id: str, change: Change) -> None:
        """Every state a modification will be in, each at its moment."""
        self._tell_state(volume_id, change, "modifying", int(change.started_at.timestamp()))
        self.tell_rest(volume_id, change, after="modifying")

    def tell_rest(self, volume_id: str, change: Change, *, after: str) -> None:
        """The states after this one, as far as they come."""
        if after == "modifying" and change.optimizes:
            self._tell_state(volume_id, change, "optimizing", change.optimizing_s)
        if change.ends_s < NEVER_S:
            self._tell_state(volume_id, change, "failed" if change.fails else "completed", change.ends_s)

    def forget_coming(self, volume_id: str, now_s: int) -> None:
        """What is still to come of this volume will not."""
        self._coming = [told for told in self._coming if told.volume_id != volume_id or told.at_s <= now_s]
        heapq.heapify(self._coming)

    def until(self, now_s: int) -> list[LabEvent]:
        """All that arrived by now."""
        while self._coming and self._coming[0].at_s <= now_s:
            self._raise(heapq.heappop(self._coming))
        return list(self._arrived)

    def _tell_state(self, volume_id: str, change: Change, state: str, at_s: int) -> None:
        self.tell(volume_id, "modifyVolume", state, at_s, request_id=change.request_id)

    def _raise(self, told: _Told) -> None:
        """Send one on its way: it may be lost, doubled, or held back until after the next one."""
        if told.name == "modifyVolume" and told.result not in self.settings.modify_event_results:
            return
        if told.name == "DetachVolume" and not self.settings.has_trail:
            return
        self._raised += 1
        held, self._held = self._held, []
        if not self._is_hit(self.settings.lose_event_every):
            times = 2 if self._is_hit(self.settings.double_event_every) else 1
            if self._is_hit(self.settings.swap_event_every) and not held:
                self._held = [told] * times
            else:
                self._arrive(told, times)
        for late in held:
            self._arrive(late, 1)

    def _is_hit(self, every: int | None) -> bool:
        return every is not None and self._raised % every == 0

    def _arrive(self, told: _Told, times: int) -> None:
        for _ in range(times):
            self._arrived.append(
                LabEvent(
                    number=len(self._arrived) + 1,
                    volume_id=told.volume_id,
                    name=told.name,
                    result=told.result or None,
                    at=datetime.fromtimestamp(told.at_s, tz=UTC),
                    body=self._body(told),
                )
            )

    def _body(self, told: _Told) -> dict[str, Any]:
        settings = self.settings
        arn = f"arn:aws:ec2:{settings.region}:{settings.account_id}:volume/{told.volume_id}"
        is_call = told.name == "DetachVolume"
        return {
            "version": "0",
            "id": str(self._uuid("event", told.order)),
            "detail-type": _API_CALL if is_call else _NOTIFICATION,
            "source": "aws.ec2",
            "account": settings.account_id,
            "time": f"{datetime.fromtimestamp(told.at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}",
            "region": settings.region,
            "resources": [] if is_call else [arn],
            "detail": self._call(told) if is_call else _notification(told),
        }

    def _call(self, told: _Told) -> dict[str, Any]:
        """A call as CloudTrail records it, as far as anyone needs it."""
        return {
            "eventSource": "ec2.amazonaws.com",
            "eventName": told.name,
            "eventTime": f"{datetime.fromtimestamp(told.at_s, tz=UTC):%Y-%m-%dT%H:%M:%SZ}",
            "awsRegion": self.settings.region,
            "requestParameters": {"volumeId": told.volume_id},
            "requestID": told.request_id,
        }

    def _uuid(self, kind: str, number: int) -> UUID:
        seed = f"{kind}/{self.settings.seed}/{number}".encode()
        return UUID(bytes=blake2b(seed, digest_size=16).digest())


def _notification(told: _Told) -> dict[str, str]:
    return {"result": told.result, "cause": "", "event": told.name, "request-id": told.request_id}
