from typing import Literal

from typing_extensions import TypedDict

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger_entry import EntryKind
from documents.shared import AnyObject, FlipDocument, HoldDocument, Instant, QuotaDocument


class EntryDocument(TypedDict):
    at: Instant
    subject: str
    kind: EntryKind
    revision: int
    body: AnyObject
    """What the entry says; its keys depend on the kind."""


class BucketNowDocument(TypedDict):
    """What the ledger has of one bucket; null without an alert of it."""

    bucket: str
    level: Level | None
    unknown_reason: UnknownReason | None


class NowDocument(TypedDict):
    level: Level | None
    """Of an instance, that of its most urgent bucket."""
    unknown_reason: UnknownReason | None
    flip: FlipDocument | None
    contested_since: Instant | None
    retry_at: Instant | None
    quota: QuotaDocument
    holds: list[HoldDocument]
    buckets: list[BucketNowDocument]
    """Those of an instance; empty for a volume."""


class HistoryDocument(TypedDict):
    """What happened to a volume or an instance, and where it stands.

    burstctl history --json.
    """

    schema: Literal["burstwatch.history/v1"]
    generated_at: Instant
    ledger: str
    volume_id: str
    """The requested ID, also if it is that of an instance."""
    resource_id: str
    """The same."""
    entries: list[EntryDocument]
    now: NowDocument
