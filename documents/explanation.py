from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.windows import WindowPhase
from documents.shared import (
    AnyObject,
    BucketDocument,
    Count,
    FlipDocument,
    HoldDocument,
    InstanceDocument,
    Instant,
    OccurrenceDocument,
    PlanDocument,
    QuotaDocument,
    VolumeDocument,
    VolumeId,
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
    """If the resource is ignored, or was not found."""

    schema: Literal["burstwatch.explanation/v1"]
    volume: None
    instance: None


class ExplainedVolumeDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: VolumeDocument
    instance: None
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


class AttachedVolumeDocument(TypedDict):
    """What an attached volume serves at best."""

    volume_id: VolumeId
    volume_type: str
    max_iops: Count
    max_mib_s: float


class DrainProofDocument(TypedDict):
    """Why a bucket cannot drain, or what bounds its drain; rates are in its unit per second."""

    cannot_drain: bool
    baseline: float
    maximum: float
    volumes_limit: float | None
    """What the attached volumes serve together at best; null if that is not known of each."""
    because: str


class ExplainedBucketDocument(BucketDocument):
    previous_level: Level
    because: str
    proof: DrainProofDocument | None
    """Null if the limits of the type are not known."""
    drains: list[DrainDocument]
    is_believed: bool
    limit_exceeded_min: Count | None
    """In how many of the last 15 minutes CloudWatch's check was 1; null without a datapoint."""
    next: list[str]
    look: LookDocument
    remembered: RememberedDocument


class ExplainedInstanceFieldsDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: None
    instance: InstanceDocument
    attached_volumes: list[AttachedVolumeDocument]
    """Empty if the limits of one are not known."""
    buckets: list[ExplainedBucketDocument]
    holds: list[HoldDocument]


class ExplainedInstanceDocument(ExplainedInstanceFieldsDocument, SkippedDocument):
    pass


ExplanationDocument = Annotated[
    ExplainedDocument | ExplainedInstanceDocument | NotExplainedDocument,
    Field(
        title="The decision about one volume or instance, and every number behind it",
        description="burstctl explain --json.",
    ),
]
