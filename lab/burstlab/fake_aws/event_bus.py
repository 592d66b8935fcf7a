"""The fleet's events on moto's event bus, whose rules send them to queues."""

import sys
from threading import Lock
from typing import Any, Final

from burstlab.model.fleet import LabFleet

_MOTO_EVENTS: Final = "moto.events.models"


class EventBus:
    """Delivers the new events whenever a queue is about to be read."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self._lock = Lock()
        self._delivered_count = 0

    def deliver(self) -> None:
        """Send the events that arrived since the last time to the queues of the rules that match them."""
        if _MOTO_EVENTS not in sys.modules:
            return
        from moto.events.models import events_backends  # noqa: PLC0415 - imported where a rule was made

        settings = self._fleet.settings
        bus = events_backends[settings.account_id][settings.region].event_buses["default"]
        with self._lock:
            events = self._fleet.events
            for event in events[self._delivered_count :]:
                for rule in bus.rules.values():
                    if all(":sqs:" in target["Arn"] for target in rule.targets):
                        message: dict[str, Any] = {**event.body, "time": event.occurred_at.timestamp()}
                        rule.send_to_targets(message, transform_input=False)
            self._delivered_count = len(events)
