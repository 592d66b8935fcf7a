"""What several documents contain; published as common.schema.json."""

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, FlipCause, FlipStatus
from burstwatch.core.policy.policy import Mode
from burstwatch.core.policy.windows import WindowPhase
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.watch.decision import Action

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Percent = Annotated[float, Field(ge=0, le=100)]
UsdAmount = Annotated[float, Field(ge=0)]
"""A cost; a difference of two costs is a float, which may be negative."""
AnyObject = dict[str, Any]

Instant = TypeAliasType(
    "Instant",
    Annotated[
        str,
        Field(
            pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
            description="ISO 8601 in UTC, to the second.",
        ),
    ],
)
ResourceId = TypeAliasType(
    "ResourceId",
    Annotated[str, Field(pattern="^((vol|i|fs)-([0-9a-f]{8}|[0-9a-f]{17})|db:[a-zA-Z][a-zA-Z0-9-]{0,62})$")],
)
VolumeId = TypeAliasType("VolumeId", Annotated[str, Field(pattern="^vol-([0-9a-f]{8}|[0-9a-f]{17})$")])
ApiCalls = TypeAliasType(
    "ApiCalls",
    Annotated[
        dict[str, Count],
        Field(description="How often each operation of AWS was called, such as ec2:DescribeVolumes."),
    ],
)


class HeaderDocument(TypedDict):
    generated_at: Instant
    region: str
    ledger: str


class ReadCostDocument(TypedDict):
    metrics_requested: Count
    usd: UsdAmount


class VolumeSelectionDocument(TypedDict):
    """The volumes that a command left out or could not read, and what its reads cost."""

    unsuited: dict[str, str]
    """Volumes for which there is no answer, and why."""
    ignored: list[str]
    missing: list[str]
    unread: dict[str, str]
    """Volumes whose history could not be read, and why."""
    failures: list[str]
    cost: ReadCostDocument
    api_calls: "ApiCalls"


class ConfigurationDocument(TypedDict):
    """What a volume is; null if the type has none to set."""

    volume_type: VolumeType
    iops: Count | None
    throughput_mib_s: Count | None


class StandingFlipDocument(TypedDict):
    """A flip as reports carry it."""

    phase: FlipStatus
    direction: Direction
    cause: FlipCause
    by: str
    original: ConfigurationDocument
    target: ConfigurationDocument
    asked_at: Instant
    stays: bool
    because: str
    usd_per_month_more: float


class FlipDocument(StandingFlipDocument):
    """A flip with all its times."""

    started_at: Instant | None
    reached_at: Instant | None
    return_after: Instant | None


class OutcomeDocument(TypedDict):
    """What was done, or why not."""

    action: OutcomeStatus
    because: str | None
    error_code: str | None
    refusal: Guard | None
    retry_at: Instant | None


class StandingHoldDocument(TypedDict):
    """A hold as reports carry it."""

    volume_id: Annotated[
        ResourceId | None,
        Field(description="What is held, also if that is not a volume; null for a hold on everything."),
    ]
    resource_id: Annotated[ResourceId | None, Field(description="The same.")]
    by: str
    reason: str
    until: Instant


class HoldDocument(StandingHoldDocument):
    placed_at: Instant


class ModificationUseDocument(TypedDict):
    at: Instant
    by: str
    direction: Direction | None


class QuotaDocument(TypedDict):
    """AWS's modifications of the last 24 hours."""

    used: Count
    of: Count
    next_at: Instant | None
    spent: list[ModificationUseDocument]


class NamesDocument(TypedDict):
    name: Annotated[str | None, Field(description="Its Name tag.")]
    called: Annotated[
        str | None, Field(description="Its display name: its Name tag, or its claim in Kubernetes.")
    ]
    claim: str | None
    namespace: str | None
    cluster: str | None


class DecisionDocument(TypedDict):
    action: Action
    reason: str
    target: ConfigurationDocument | None


class BucketDocument(TypedDict):
    """One bucket of burst credits of a resource; rates are in its unit per second."""

    bucket: str
    """ebs-io, ebs-throughput, instance-io, instance-throughput, efs-bytes or rds-io."""
    unit: str
    """Of the credits: operations, MiB or bytes."""
    balance_pct: Percent | None
    capacity: Count | None
    capacity_inferred: bool
    """Whether AWS does not document the capacity, so that it is a model."""
    observed_capacity: Count | None
    """The capacity by which the measured load explains the balance; null if no load was read."""
    refill_per_s: UsdAmount | None
    highest_drain_per_s: UsdAmount | None
    drain_per_s: float | None
    """Credits that leave the bucket per second; negative while it refills."""
    time_to_empty_s: Count | None
    soonest_empty_s: Count | None
    datapoint_age_s: Count | None
    reset_at: Instant | None
    """When AWS was last seen to reset the balance to full."""
    act_lead_s: Count | None
    """The time to act that this bucket can give; it may be shorter than the policy's."""
    level: Level
    unknown_reason: UnknownReason | None
    unknown_because: str | None
    cannot_drain: bool
    """Whether it provably never loses credits, so that it is not read."""


class VolumeDocument(NamesDocument):
    """A volume as a pass found it, and what is to be done about it."""

    volume_id: VolumeId
    resource_id: str
    resource_type: ResourceType
    volume_type: str
    size_gib: Positive
    instance_id: str | None
    instance_name: str | None
    device: str | None
    baseline_iops: Count | None
    """Null for st1 and sc1, whose limits are in MiB/s: see buckets."""
    burst_balance_pct: Percent | None
    credits: Count | None
    drain_per_s: float | None
    """Credits that leave the bucket per second; negative while it refills."""
    time_to_empty_s: Count | None
    """An estimate from what was seen; null when it is not draining."""
    time_to_empty_earliest_s: Count | None
    time_to_empty_latest_s: Count | None
    soonest_empty_s: Count | None
    """A bound: no workload can empty it sooner."""
    datapoint_age_s: Count | None
    datapoint_spacing_s: Count | None
    """Between the datapoints of its balance: the median of the newest few gaps."""
    level: Level
    unknown_reason: UnknownReason | None
    unknown_because: str | None
    fault: bool
    """Whether its data is missing although it should be there."""
    mode: Mode
    tag_faults: list[str]
    look_interval_s: Count | None
    decision: DecisionDocument
    flip: StandingFlipDocument | None
    outcome: OutcomeDocument
    buckets: list[BucketDocument]


class AdvisedDocument(TypedDict):
    """A resource as a pass found it that the watchdog never changes."""

    resource_id: str
    resource_type: ResourceType
    name: str | None
    level: Level
    """That of its most urgent bucket."""
    unknown_reason: UnknownReason | None
    unknown_because: str | None
    fault: bool
    mode: Mode
    tag_faults: list[str]
    look_interval_s: Count | None
    decision: DecisionDocument
    outcome: OutcomeDocument
    buckets: list[BucketDocument]


class InstanceDocument(AdvisedDocument):
    """An EC2 instance."""

    instance_type: str
    volume_ids: list[str]


class FileSystemDocument(AdvisedDocument):
    """An EFS file system."""

    throughput_mode: str
    provisioned_mib_s: UsdAmount | None
    state: str
    size_bytes: Count
    standard_bytes: Count
    """What is in Standard, or in One Zone: only that earns throughput."""
    baseline_mib_s: UsdAmount
    """What the size earns in bursting mode."""


class DatabaseDocument(AdvisedDocument):
    """An RDS database."""

    engine: str
    instance_class: str
    storage_type: str
    allocated_gib: Count
    status: str
    replica_of: str | None
    cluster_id: str | None


class PriceDocument(TypedDict):
    usd_per_month_now: float
    usd_per_month: float
    usd_per_month_more: float
    usd_per_hour_now: float
    usd_per_hour: float
    usd_per_hour_more: float


class ExpectedDurationDocument(TypedDict):
    expected_least_s: Count | None
    expected_most_s: Count | None
    time_to_empty_s: Count | None


class RefusedTargetDocument(TypedDict):
    refusal: str


class PricedTargetDocument(ConfigurationDocument):
    usd_per_month: float


class RefusalDocument(TypedDict):
    guard: Guard
    reason: str
    ends_at: Instant | None


class DryRunDocument(TypedDict):
    """What AWS says to a dry run."""

    allowed: bool
    error_code: str | None
    because: str | None


class PlanDocument(PriceDocument, ExpectedDurationDocument):
    """What would be done to one volume, its price, and what refuses it."""

    volume_id: VolumeId
    name: str | None
    size_gib: Positive
    instance_id: str | None
    direction: Direction
    now: ConfigurationDocument | None
    target: ConfigurationDocument | None
    extends: bool
    reasons: list[str]
    alternatives: dict[str, RefusedTargetDocument | PricedTargetDocument] | None
    usd_more_for_the_stay: float | None
    stays: bool | None
    stay_reason: str | None
    return_after: Instant | None
    modifications_used: Count
    refusals: list[RefusalDocument]
    overridden: list[Guard]
    undo: str | None
    """The command that takes it back."""
    dry_run: DryRunDocument | None
    outcome: OutcomeDocument | None


class TotalsDocument(PriceDocument):
    """All plans together."""

    volumes: Count
    to_modify: Count
    to_keep: Count
    refused: Count
    prices: str


class OccurrenceDocument(TypedDict):
    starts_at: Instant
    ends_at: Instant | None
    """Null while it is to be stopped by hand."""
    by_hand: bool


class ManualOverrideDocument(TypedDict):
    starts: bool
    by: str
    at: Instant
    until: Instant | None


class WindowDocument(TypedDict):
    """A named critical period with its current state."""

    name: str
    is_defined: bool
    phase: WindowPhase
    zone: str
    settings: dict[str, str]
    running: list[OccurrenceDocument]
    next: list[OccurrenceDocument]
    volumes: Count
    volumes_moved: Count
    longest_lead_s: Count
    by_hand: ManualOverrideDocument | None
