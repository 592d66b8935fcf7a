"""What happens to a volume besides its level: an event becomes a ledger entry, and perhaps an alert."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from burstwatch.core.alerts.alert import (
    Alert,
    AlertKind,
    describe_volume,
    is_command,
    make_alert_id,
    runbook_link,
)
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; ``summary`` continues the name of the volume, ``details`` are sentences.

    ``alert`` is None if the event is only recorded. ``action`` is a sentence or a command; a command gets its
    region when the alert is made. ``facts`` are for programs: JSON values, instants in ISO 8601.
    """

    kind: EntryKind
    summary: str
    details: tuple[str, ...] = ()
    alert: AlertKind | None = None
    action: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A new state of a volume, and the events that led to it, oldest first."""

    state: ResourceState
    events: tuple[Event, ...] = ()

    def then(self, following: "Transition") -> "Transition":
        """This transition and the following one, which begins with the state of this one."""
        return Transition(state=following.state, events=(*self.events, *following.events))


def to_ledger_entry(event: Event, state: ResourceState, now_s: float) -> LedgerEntry:
    """The event as a ledger entry at the revision of the new state."""
    body = {"summary": event.summary, "details": list(event.details), **event.facts}
    return LedgerEntry(
        volume_id=state.volume_id, revision=state.revision, kind=event.kind, at_s=int(now_s), body=body
    )


def to_alert(
    event: Event, state: ResourceState, volume: Volume, *, policy: Policy, location: AwsLocation, now_s: float
) -> Alert | None:
    """The alert about an event, None if the event is only recorded."""
    if event.alert is None:
        return None
    return Alert(
        alert_id=make_alert_id(state.volume_id, event.alert, state.revision),
        kind=event.alert,
        level=state.level,
        previous_level=state.level,
        volume_id=state.volume_id,
        at_s=int(now_s),
        volume=describe_volume(volume, location),
        evidence={"summary": event.summary, "details": list(event.details), **event.facts}
        | describe_host_stall(state.stall, now_s),
        action=_with_region(event.action, location),
        runbook=runbook_link(event.alert, policy.alerts.runbooks_url),
        console_url=location.volume_url(state.volume_id),
    )


def describe_host_stall(stall: Stall | None, now_s: float) -> dict[str, Any]:
    """What the volume's host reported recently, as alerts contain it; empty if it reported nothing."""
    if stall is None or not stall.is_fresh(now_s):
        return {}
    return {"host": stall.to_facts(now_s), "host_says": stall.to_sentences(now_s)}


def _with_region(action: str | None, location: AwsLocation) -> str | None:
    """The action for this region: it is pasted where another may be the default."""
    if action is None or not is_command(action) or " --region " in action:
        return action
    return f"{action} --region {location.region}"
