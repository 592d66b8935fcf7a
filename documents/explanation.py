from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.windows import WindowPhase
from documents.shared import (
    AnyObject,
    BucketDocument,
    Count,
    DatabaseDocument,
    FileSystemDocument,
    FlipDocument,
    HoldDocument,
    InstanceDocument,
    Instant,
    OccurrenceDocument,
    PlanDocument,
    QuotaDocument,
    UsdAmount,
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
    file_system: None
    database: None


class ExplainedVolumeDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: VolumeDocument
    instance: None
    file_system: None
    database: None
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
    """Null if the limits of the type are not known, and for all but instances."""
    drains: list[DrainDocument]
    is_believed: bool
    limit_exceeded_min: Count | None
    """In how many of the last 15 minutes CloudWatch's check was 1; null without a datapoint, and for all but
    instances."""
    next: list[str]
    look: LookDocument
    remembered: RememberedDocument


class ExplainedInstanceFieldsDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: None
    instance: InstanceDocument
    file_system: None
    database: None
    attached_volumes: list[AttachedVolumeDocument]
    """Empty if the limits of one are not known."""
    buckets: list[ExplainedBucketDocument]
    holds: list[HoldDocument]


class ExplainedInstanceDocument(ExplainedInstanceFieldsDocument, SkippedDocument):
    pass


class ModeOptionDocument(TypedDict):
    """A throughput mode that a file system could have, at its load of a day."""

    mode: str
    provisioned_mib_s: Count | None
    usd_per_month: UsdAmount
    highest_usd_per_month: UsdAmount | None
    """What it may cost: it was throttled at times, so more was wanted than was measured. Else null."""
    serves_load: bool
    because: str


class DefinitionDocument(TypedDict):
    """The lines that change where the resource is defined as code."""

    terraform: str
    cloudformation: str
    cdk: str


class StorageChangeDocument(TypedDict):
    """What the storage or the throughput mode should become; the watchdog never changes it."""

    action: str
    """A command, or a sentence where no command helps."""
    reasons: list[str]
    cautions: list[str]
    options: list[ModeOptionDocument]
    """Of a file system: each throughput mode."""
    definition: DefinitionDocument | None


class ExplainedStorageFieldsDocument(TypedDict):
    schema: Literal["burstwatch.explanation/v1"]
    generated_at: Instant
    volume: None
    instance: None
    file_system: FileSystemDocument | None
    database: DatabaseDocument | None
    """One of the two is set."""
    change: StorageChangeDocument | None
    """Null if its load was not read."""
    buckets: list[ExplainedBucketDocument]
    holds: list[HoldDocument]


class ExplainedStorageDocument(ExplainedStorageFieldsDocument, SkippedDocument):
    pass


ExplanationDocument = Annotated[
    ExplainedDocument | ExplainedInstanceDocument | ExplainedStorageDocument | NotExplainedDocument,
    Field(
        title="The decision about one resource, and every number behind it",
        description="burstctl explain --json.",
    ),
]
