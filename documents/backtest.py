from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.policy.policy import Mode
from burstwatch.core.resource_type import ResourceType
from documents.shared import (
    ConfigurationDocument,
    Count,
    Instant,
    Positive,
    UsdAmount,
    VolumeSelectionDocument,
)

BacktestHistoryDocument = TypedDict(
    "BacktestHistoryDocument",
    {
        "start": Instant,
        "end": Instant,
        "days": Annotated[float, Field(ge=0)],
        "period_s": Count,
        "from": Literal["cloudwatch", "csv"],
    },
)


class StalledMinutesDocument(TypedDict):
    """Minutes in which a volume was held back.

    As recorded; avoided on the target; left, which is seen - avoided + added; of these eased while AWS was
    changing it, and added after a return.
    """

    seen: Count
    avoided: Count
    left: Count
    eased: Count
    added: Count


AlertsByKind = Annotated[
    dict[str, Count], Field(description="How many alerts of each kind, reminders included.")
]
Refused = Annotated[
    dict[str, Count],
    Field(description="How many wanted modifications each guard refused, as often as people were notified."),
]
LeastLead = Annotated[
    int | None,
    Field(
        description="Seconds from the first alert until the credits were exhausted, at the worst time; 0 if"
        " no alert came before. Null if they never were, or only long after it would have been flipped."
    ),
]


class BacktestTotalsDocument(TypedDict):
    volumes: Count
    alerts: Count
    alerts_by_kind: AlertsByKind
    reminders: Count
    flips: Count
    returns: Count
    away_at_end: Count
    refused: Refused
    stalled_minutes: StalledMinutesDocument
    depletions: Count
    depletions_announced: Count
    depletions_prevented: Count
    least_lead_s: LeastLead
    usd_over_gp2: float
    usd_watching: UsdAmount


class SentAlertDocument(TypedDict):
    at: Instant
    kind: str
    level: Level
    reminder: bool


class SimulatedModificationDocument(TypedDict):
    direction: Direction
    target: ConfigurationDocument
    started_at: Instant
    completed_at: Instant


class DepletionDocument(TypedDict):
    dry_at: Instant
    alerted_at: Instant | None
    """When people would first have been notified of that drain; null if they would not have been."""
    lead_s: int | None
    prevented: bool


class ReplayedVolumeDocument(TypedDict):
    volume_id: str
    """AWS's id, or the name of the file."""
    name: str | None
    size_gib: Positive
    recorded_s: Count
    """Of how many seconds the balance is known."""
    cut_because: str | None
    """Why not all that was recorded is used; null if it is."""
    expected_modification_s: Count
    alerts: list[SentAlertDocument]
    alerts_by_kind: AlertsByKind
    flips: Count
    returns: Count
    away_at_end: bool
    modifications: list[SimulatedModificationDocument]
    """Each modification that would have been requested; one may be completed after the end."""
    refused: Refused
    stalled_minutes: StalledMinutesDocument
    depletions: list[DepletionDocument]
    """Each time that the recorded credits were exhausted."""
    least_lead_s: LeastLead
    usd_over_gp2: float
    usd_watching: UsdAmount


class ReplayedBucketDocument(TypedDict):
    """A bucket of an instance, a file system or a database, which is never changed: its alerts."""

    resource_id: str
    resource_type: ResourceType
    name: str | None
    bucket: str
    recorded_s: Count
    alerts: list[SentAlertDocument]
    alerts_by_kind: AlertsByKind
    depletions: list[DepletionDocument]
    least_lead_s: LeastLead
    usd_watching: UsdAmount


class BacktestDocument(VolumeSelectionDocument):
    """A backtest: what the watchdog would have done.

    burstctl backtest --json. Absent values are null, keys never disappear.
    """

    schema: Literal["burstwatch.backtest/v1"]
    generated_at: Instant
    region: str
    policy: str
    mode_highest: Mode
    as_tagged: bool
    target: Annotated[VolumeType, Field(json_schema_extra={"enum": ["gp3", "io1", "io2"]})]
    history: BacktestHistoryDocument
    metric_lag_s: Count
    assumptions: list[str]
    """Sentences: what the history does not show, and what is assumed instead."""
    totals: BacktestTotalsDocument
    volumes: list[ReplayedVolumeDocument]
    """Those held back most first."""
    window_alerts: list[SentAlertDocument]
    """Alerts about windows, which belong to no volume."""
    buckets: list[ReplayedBucketDocument]
    """Those of instances, file systems and databases; the totals are about volumes."""
    unseen: list[str]
    """Resources of which nothing was recorded."""
