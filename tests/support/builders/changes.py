"""Changes for tests of the ledger: states, entries and alerts of a few volumes."""

from burstwatch.core.alerts.alert import Alert, AlertKind, make_alert_id, make_digest
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.location import AwsLocation
from support.builders.states import build_state

A, B, C = "vol-0a", "vol-0b", "vol-0c"
MAIL, SLACK = "mail", "slack"


def a_state(volume_id=A, revision=100, **known):
    return build_state(volume_id, revision, **({"level": Level.WARNING} | known))


def a_ledger_alert(volume_id=A, revision=100, kind=AlertKind.DRAINING, time_s=None):
    return Alert(
        alert_id=make_alert_id(str(volume_id), kind, revision),
        kind=kind,
        level=Level.WARNING,
        previous_level=Level.OK,
        volume_id=volume_id,
        at_s=revision if time_s is None else time_s,
        volume={"volume_id": volume_id, "name": "ci-7"},
        reading={"burst_balance_pct": 31.5, "unknown_reason": None},
        forecast={"time_to_empty_s": 715},
        evidence={"tag_faults": ["a", "ü"]},
        action="aws ec2 modify-volume",
    )


def an_entry(volume_id=A, revision=100, kind=EntryKind.LEVEL_CHANGED, at_s=None, body=None):
    return LedgerEntry(
        volume_id=volume_id,
        revision=revision,
        kind=kind,
        at_s=revision if at_s is None else at_s,
        body=body or {},
    )


def a_change(volume_id=A, *, expected=None, revision=100, dropped=False, alerts=None):
    """A volume that enters a level, with the alert about it."""
    alerts = (a_ledger_alert(volume_id, revision),) if alerts is None else alerts
    reported = [an_entry(volume_id, revision, EntryKind.ALERT, body=alert.to_document()) for alert in alerts]
    return Change(
        volume_id=volume_id,
        expected_revision=expected,
        state=None if dropped else a_state(volume_id, revision),
        entries=[an_entry(volume_id, revision, body={"from": "ok", "to": "warning"}), *reported],
        alerts=alerts,
    )


def a_digest(*alerts):
    return make_digest(
        alerts, location=AwsLocation(region="us-east-1"), runbooks_url="https://runbooks", now_s=500
    )


def entry_kinds(ledger, volume_id=A):
    return [entry.kind for entry in ledger.entries(volume_id)]


def sent_ids(ledger, *channels):
    return [delivery.alert.alert_id for delivery in ledger.pending_deliveries(channels=channels)]
