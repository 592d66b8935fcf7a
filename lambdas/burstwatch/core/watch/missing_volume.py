"""What happens to the state of a volume that AWS no longer shows, or that is ignored."""

from dataclasses import replace
from typing import Final

from burstwatch.core.alerts.alert import Alert, AlertKind, make_alert_id, runbook_link
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.resource_type import is_volume_subject, type_of_id
from burstwatch.core.watch.build_change import make_entry
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.polling.next_poll import FOCUS_S

_GONE_AFTER_S: Final = 600
"""A judgement: a flipped volume that AWS does not show for this long is gone."""

_MISSING_CONFIRMED_AFTER_S: Final = 30
"""Any other is, when the look after the first that did not show it does not either."""


def mark_missing(state: ResourceState, context: TickContext) -> Change | None:
    """Note that AWS does not show a volume; None if it was missing for long enough to be gone.

    AWS may leave a volume out of an answer. Without this, a draining volume would not be polled before its
    next sweep, and the original of a flipped one is stored nowhere else.
    """
    now_s = int(context.now_s)
    since_s = now_s if state.presence.missing_since_s is None else state.presence.missing_since_s
    if now_s - since_s >= (_GONE_AFTER_S if state.has_flip_history else _MISSING_CONFIRMED_AFTER_S):
        return None
    new_state = replace(
        state,
        revision=max(state.revision + 1, now_s),
        presence=replace(state.presence, missing_since_s=since_s),
        next_poll_at_s=context.tick_at_s + FOCUS_S,
    )
    return Change(volume_id=state.volume_id, expected_revision=state.revision, state=new_state)


def drop_state(state: ResourceState, reason: str, *, policy: Policy, context: TickContext) -> Change:
    """Drop the state of a volume that is deleted or ignored, and close its alert if one is open."""
    now_s = int(context.now_s)
    new_state = replace(state, revision=max(state.revision + 1, now_s), level=Level.OK, level_since_s=now_s)
    alerts: tuple[Alert, ...] = ()
    is_volume = is_volume_subject(state.volume_id)
    place = {"region": context.location.region, "account": context.location.account}
    if state.alerts.is_open:
        alerts = (
            Alert(
                alert_id=make_alert_id(state.volume_id, AlertKind.RECOVERED, new_state.revision),
                kind=AlertKind.RECOVERED,
                level=Level.UNKNOWN,
                previous_level=state.alerts.open_level or state.level,
                volume_id=state.volume_id,
                at_s=now_s,
                volume={"volume_id": state.volume_id} | place if is_volume else {},
                resource={} if is_volume else _describe_gone(state.volume_id) | place,
                reading={"unknown_because": reason},
                runbook=runbook_link(AlertKind.RECOVERED, policy.alerts.runbooks_url),
            ),
        )
    entries = [
        make_entry(new_state, EntryKind.LEVEL_CHANGED, {"from": str(state.level), "to": reason}, now_s)
    ]
    entries += [make_entry(new_state, EntryKind.ALERT, alert.to_document(), now_s) for alert in alerts]
    return Change(
        volume_id=state.volume_id,
        expected_revision=state.revision,
        state=None,
        entries=tuple(entries),
        alerts=alerts,
    )


def _describe_gone(subject: str) -> dict[str, str | None]:
    """What an alert says of a resource of which nothing is left but its key in the ledger."""
    resource_id, _, bucket = subject.partition("#")
    return {"resource_id": resource_id, "resource_type": str(type_of_id(subject)), "bucket": bucket}
