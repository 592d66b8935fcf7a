from typing import Literal

from typing_extensions import TypedDict

from burstwatch.core.assessment.severity import Level
from documents.advice import AdviceDocument
from documents.hold import HoldsDocument, ReleaseDocument
from documents.shared import (
    ApiCalls,
    Count,
    DatabaseDocument,
    FileSystemDocument,
    HeaderDocument,
    InstanceDocument,
    Instant,
    ReadCostDocument,
    StandingHoldDocument,
    UsdAmount,
    VolumeDocument,
)


class ReportTotalsDocument(TypedDict):
    volumes: Count
    resources: Count
    """Volumes and all other kinds; the counts below are of all kinds."""
    by_level: dict[Level, Count]
    flipped: Count
    flipped_back: Count
    refused: Count
    failed: Count
    in_flight: Count
    unread: Count
    ignored: Count


class WatchCostDocument(TypedDict):
    metrics_requested: Count
    usd_per_month_idle: UsdAmount
    """Of watching these volumes if all were calm."""
    usd_per_month_now: UsdAmount
    """Of watching them at their present look intervals."""


class ReportDocument(HeaderDocument):
    """What one look at the volumes found.

    burstctl assess --json and watch --once --json; of watch --json each line. Absent numbers are null, keys
    never disappear.
    """

    schema: Literal["burstwatch.report/v1"]
    volumes: list[VolumeDocument]
    """Most urgent first."""
    instances: list[InstanceDocument]
    file_systems: list[FileSystemDocument]
    databases: list[DatabaseDocument]
    totals: ReportTotalsDocument
    cost: WatchCostDocument
    newest_datapoint_age_s: Count | None
    worst_datapoint_age_s: Count | None
    """Of the volumes that are not full and not new, or of the freshest of ten or more full ones."""
    datapoint_spacing_s: Count | None
    """Between the datapoints of most volumes: the median."""
    holds: list[StandingHoldDocument]
    missing: list[str]
    left_out: dict[str, str]
    """The kinds, none of them requested, that you may not list, with the AWS action that you lack."""
    failures: list[str]
    api_calls: ApiCalls


RegionDocument = ReportDocument | AdviceDocument | HoldsDocument | ReleaseDocument


class ReportsDocument(TypedDict):
    """The results of several regions.

    burstctl assess, advise, hold and release --json if several regions are requested.
    """

    schema: Literal["burstwatch.reports/v1"]
    reports: list[RegionDocument]
    failures: list[str]
    """The regions of which nothing is known, or in which the order was not given, and why."""


class MoneyDocument(TypedDict):
    flips_usd: float
    saved_on_cheaper_targets_usd: float
    saved_by_returning_usd: float
    away: Count
    away_usd_per_month_more: float
    fleet_cap: Count
    spend_cap_usd_per_month: float


class PageDocument(HeaderDocument):
    """A page that was made.

    burstctl report --html FILE --json.
    """

    schema: Literal["burstwatch.page/v1"]
    since: Instant
    file: str
    bytes: Count
    volumes: Count
    resources: Count
    """The volumes and the other resources."""
    by_level: dict[Level, Count]
    faults: Count
    """How many of the unknown resources should have data, and have none."""
    told_at_length: Count
    without_picture: Count
    deeds: dict[str, Count]
    """How often each sort of thing was done."""
    money: MoneyDocument
    cost: ReadCostDocument
    failures: list[str]
    api_calls: ApiCalls
