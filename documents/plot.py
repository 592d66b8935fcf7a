from typing import Literal

from typing_extensions import TypedDict

from burstctl.timeline.intervals import TimelineEventKind
from burstctl.timeline.timeline import DataGapReason
from burstwatch.core.assessment.severity import Level
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

    A period that is not there is a gap.
    """

    burst_balance_pct: Points
    served_iops: Points
    read_iops: Points


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
    sustained_iops: float
    most_iops: float


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
    """A volume's hours: what burstctl plot draws.

    burstctl plot --json. Absent values are null, keys never disappear.
    """

    schema: Literal["burstwatch.plot/v1"]
    volume_id: VolumeId
    name: str | None
    volume_type: str
    size_gib: Positive
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
