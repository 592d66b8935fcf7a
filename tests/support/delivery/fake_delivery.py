"""A channel and a ledger for tests of alert delivery."""

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger import Change, Delivery
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry

TOPIC = "arn:aws:sns:us-east-1:123456789012:burstwatch-alerts"


class FakeLedger:
    """The part of a ledger that delivery uses, in memory."""

    def __init__(self):
        self.rows = {}
        self.claims = {}
        self.claimed = []

    def put(self, alerts, channels):
        for alert in alerts:
            for channel in channels:
                self.rows[channel, alert.alert_id] = Delivery(alert=alert, channel=channel, attempts=0)

    def pending_deliveries(self, *, channels):
        return [row for row in self.rows.values() if row.channel in channels]

    def replace_with_digest(self, alert_ids, digest, *, channels):
        for channel in channels:
            rows = [self.rows.get((channel, alert_id)) for alert_id in alert_ids]
            if all(row and row.attempts == 0 for row in rows):
                for alert_id in alert_ids:
                    del self.rows[channel, alert_id]
                self.put([digest], [channel])

    def claim_delivery(self, delivery, *, now_s, lease_s):
        key = delivery.channel, delivery.alert.alert_id
        if key not in self.rows or self.claims.get(key, 0) > now_s:
            return False
        self.claims[key] = now_s + lease_s
        row = self.rows[key]
        self.rows[key] = Delivery(alert=row.alert, channel=row.channel, attempts=row.attempts + 1)
        return True

    def mark_delivered(self, delivery, *, at_s):
        self.claimed.append((delivery.channel, delivery.alert.alert_id, at_s))
        del self.rows[delivery.channel, delivery.alert.alert_id]

    def mark_undelivered(self, delivery, *, error):
        del self.claims[delivery.channel, delivery.alert.alert_id]


class FakeChannel:
    """Takes alerts, except those that an error is set for; ``down`` is an error for all."""

    def __init__(self, name="sns"):
        self.name = name
        self.tried = []
        self.sent = []
        self.errors = {}
        self.down = None

    def send(self, alert):
        self.tried.append(alert.alert_id)
        error = self.down or self.errors.get(alert.alert_id)
        if error:
            raise error
        self.sent.append(alert)

    @property
    def sent_ids(self):
        return [alert.alert_id for alert in self.sent]


class RealLedger(SqliteLedger):
    def put(self, alerts, channels):
        for alert in alerts:
            subject = alert.volume_id or "policy"
            change = Change(
                volume_id=subject,
                expected_revision=None,
                state=None,
                entries=(
                    LedgerEntry(
                        volume_id=subject,
                        revision=1,
                        kind=EntryKind.ALERT,
                        at_s=alert.at_s,
                        body=alert.to_document(),
                    ),
                ),
                alerts=(alert,),
            )
            assert self.commit([change], channels=channels) == {subject}
