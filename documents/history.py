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


class NowDocument(TypedDict):
    level: Level | None
    unknown_reason: UnknownReason | None
    flip: FlipDocument | None
    contested_since: Instant | None
    retry_at: Instant | None
    quota: QuotaDocument
    holds: list[HoldDocument]


class HistoryDocument(TypedDict):
    """What happened to a volume, and where it stands.

    burstctl history --json.
    """

    schema: Literal["burstwatch.history/v1"]
    generated_at: Instant
    ledger: str
    volume_id: str
    entries: list[EntryDocument]
    now: NowDocument
