from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.windows import WindowPhase
from documents.shared import (
    AnyObject,
    Count,
    FlipDocument,
    HoldDocument,
    Instant,
    OccurrenceDocument,
    PlanDocument,
    QuotaDocument,
    VolumeDocument,
)


class DrainDocument(TypedDict):
    span_s: Count
    drain_per_s: float
    empty_in_s: int | None
    believed_for_s: Count
    counts: bool
    speaks: bool


class LookDocument(TypedDict):
    interval_s: Count | None
    because: str


class ActRuleDocument(TypedDict):
    level: Literal[Level.WARNING, Level.CRITICAL]
    because: str


class VolumeWindowsDocument(TypedDict):
    names: list[str]
    phase: WindowPhase
    running: list[OccurrenceDocument]
    next: list[OccurrenceDocument]


class RememberedDocument(TypedDict):
    state: AnyObject | None
    """What the ledger keeps of it, as it is kept; for people, and not stable."""
    entries: list[AnyObject]
    """The newest entries of the ledger, as they are kept."""


class SkippedDocument(TypedDict):
    ignored: list[str]
    missing: list[str]
    failures: list[str]


class NotExplainedDocument(SkippedDocument):
    """If the volume is ignored, or was not found."""

    schema: Literal["burstwatch.explanation/v1"]
    volume: None


class ExplainedVolumeDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: VolumeDocument
    previous_level: Level
    because: str
    worst_drain_per_s: Count
    drains: list[DrainDocument]
    is_believed: bool
    consumed_read_iops: float | None
    consumed_write_iops: float | None
    next: list[str]
    look: LookDocument
    flip: FlipDocument | None
    contested_since: Instant | None
    act_at: Annotated[
        ActRuleDocument | None,
        Field(description="At which level a drain flips it, and why; null if it does not matter."),
    ]
    plan: PlanDocument | None
    holds: list[HoldDocument]
    windows: VolumeWindowsDocument | None
    quota: QuotaDocument
    remembered: RememberedDocument


class ExplainedDocument(ExplainedVolumeDocument, SkippedDocument):
    pass


ExplanationDocument = Annotated[
    ExplainedDocument | NotExplainedDocument,
    Field(
        title="The decision about one volume, and every number behind it",
        description="burstctl explain --json.",
    ),
]
