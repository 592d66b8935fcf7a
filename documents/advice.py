from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstctl.advise.rightsizing import AdviceVerdict, Confidence, DrainRisk
from documents.shared import (
    ConfigurationDocument,
    Count,
    HeaderDocument,
    Instant,
    Percent,
    Positive,
    PricedTargetDocument,
    VolumeId,
    VolumeSelectionDocument,
)


class AdviceHistoryDocument(TypedDict):
    start: Instant
    end: Instant
    days: Count
    period_s: Count
    percentile: Percent


class PricesDocument(TypedDict):
    region: str
    as_of: Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    source: Literal["built_in", "price_list"]
    faults: list[str]


class NeedDocument(TypedDict):
    iops: float
    mib_s: float
    iops_served: float
    mib_s_served: float
    held_back: bool


class PeakDocument(TypedDict):
    at: Instant
    value: float


class RateDocument(TypedDict):
    at_percentile: float
    busiest: PeakDocument | None
    busiest_hour: PeakDocument | None
    periods_above: Count


class UsageDocument(TypedDict):
    days: Annotated[float, Field(ge=0)]
    first: Instant
    last: Instant
    iops: RateDocument | None
    mib_s: RateDocument | None
    read_pct: Percent | None
    least_balance_pct: PeakDocument | None
    dry_s: float | None
    held_to_baseline_s: float | None


class OptionDocument(PricedTargetDocument):
    short: str | None
    """In what it falls short; null if it does not."""


class AdvisedVolumeDocument(TypedDict):
    volume_id: VolumeId
    name: str | None
    size_gib: Positive
    instance_id: str | None
    managed_by: str | None
    critical: bool
    now: ConfigurationDocument
    flipped_from: ConfigurationDocument | None
    verdict: AdviceVerdict
    advised: ConfigurationDocument
    usd_per_month_now: float
    usd_per_month_advised: float
    usd_per_month_difference: float
    danger: DrainRisk
    confidence: Confidence
    usd_per_month_more_on_io2: float | None
    reasons: list[str]
    risks: list[str]
    need: NeedDocument
    usage: UsageDocument | None
    options: dict[str, OptionDocument]
    command: str | None
    """What to run; null if nothing is to be done."""


class CriticalTotalsDocument(TypedDict):
    volumes: Count
    usd_per_month_difference: float
    usd_per_month_more_on_io2: float


class AdviceTotalsDocument(TypedDict):
    volumes: Count
    by_target: dict[str, Count]
    undecided: Count
    usd_per_month_now: float
    usd_per_month_advised: float
    usd_per_month_difference: float
    ends_the_watch: bool
    critical: CriticalTotalsDocument


class AdviceDocument(HeaderDocument, VolumeSelectionDocument):
    """The recommended permanent type of each volume.

    burstctl advise --json.
    """

    schema: Literal["burstwatch.advice/v1"]
    history: AdviceHistoryDocument
    prices: PricesDocument
    volumes: list[AdvisedVolumeDocument]
    totals: AdviceTotalsDocument
