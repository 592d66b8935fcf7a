from typing import Literal

from typing_extensions import TypedDict

from burstctl.timeline.data_gap import DataGapReason
from burstctl.timeline.intervals import TimelineEventKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.resource_type import ResourceType
from documents.shared import (
    ApiCalls,
    ConfigurationDocument,
    Count,
    HeaderDocument,
    Instant,
    Percent,
    Positive,
    VolumeId,
)

Points = list[tuple[int, float]]


class SeriesDocument(TypedDict):
    """Pairs of when a period began, in seconds since 1970, and its value.

    A period that is not there is a gap. The balance is that of any bucket. The load is in IOPS or in MiB/s,
    as the bucket counts; the two series of the other unit are empty.
    """

    burst_balance_pct: Points
    served_iops: Points
    read_iops: Points
    served_mib_s: Points
    read_mib_s: Points


class ForecastConeDocument(TypedDict):
    from_at: Instant
    from_pct: Percent
    soonest_empty_at: Instant | None
    earliest_at: Instant | None
    time_to_empty_at: Instant | None
    latest_at: Instant | None
    is_believed: bool
    drain_per_s: float | None


class MarkDocument(TypedDict):
    at: Instant
    kind: TimelineEventKind
    letter: str
    says: str
    told: bool


class IntervalDocument(TypedDict):
    starts_at: Instant
    ends_at: Instant


class AbsenceDocument(IntervalDocument):
    reason: DataGapReason


class LimitDocument(IntervalDocument):
    """The limits in the unit of the bucket; those in the other unit are null."""

    sustained_iops: float | None
    most_iops: float | None
    sustained_mib_s: float | None
    most_mib_s: float | None


class LevelIntervalDocument(IntervalDocument):
    level: Level


class TargetIntervalDocument(TypedDict):
    asked_at: Instant | None
    reached_at: Instant | None
    back_asked_at: Instant | None
    restored_at: Instant | None
    target: ConfigurationDocument | None
    by: str | None
    stays: bool


class WindowIntervalDocument(IntervalDocument):
    window: str
    by_hand: bool


class HoldIntervalDocument(IntervalDocument):
    by: str
    reason: str
    of_everything: bool


class StallIntervalDocument(IntervalDocument):
    instance_id: str
    verdict: str
    cause: str


class IntervalsDocument(TypedDict):
    absences: list[AbsenceDocument]
    limits: list[LimitDocument]
    levels: list[LevelIntervalDocument]
    flips: list[TargetIntervalDocument]
    windows: list[WindowIntervalDocument]
    holds: list[HoldIntervalDocument]
    stalls: list[StallIntervalDocument]


class PlotDocument(HeaderDocument, IntervalsDocument):
    """The hours of a volume or of one bucket of an instance: what burstctl plot draws.

    burstctl plot --json. Absent values are null, keys never disappear.
    """

    schema: Literal["burstwatch.plot/v1"]
    volume_id: VolumeId | None
    resource_id: str
    resource_type: ResourceType
    bucket: str
    name: str | None
    volume_type: str | None
    instance_type: str | None
    size_gib: Positive | None
    level: Level | None
    state: str
    starts_at: Instant
    ends_at: Instant
    period_s: Count
    series: SeriesDocument
    forecast: ForecastConeDocument | None
    marks: list[MarkDocument]
    metrics_requested: Count
    api_calls: ApiCalls
    failures: list[str]
