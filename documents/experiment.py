from typing import Literal

from typing_extensions import TypedDict

from burstctl.experiment.credit_reset import Hypothesis
from burstctl.experiment.journal import Stage
from documents.shared import (
    ConfigurationDocument,
    Count,
    HeaderDocument,
    Instant,
    Percent,
    PlanDocument,
    Positive,
    VolumeId,
)


class ModificationTimesDocument(TypedDict):
    started_at: Instant | None
    completed_at: Instant | None


class DatapointDocument(TypedDict):
    at: Instant
    when: str
    burst_balance_pct: float | None
    iops: float | None


class ExperimentDocument(HeaderDocument):
    """The outcome for a burst balance after gp2, another type, and gp2 again.

    burstctl experiment credit-reset --json.
    """

    schema: Literal["burstwatch.experiment/v1"]
    burstctl: str
    volume: str
    """Its id, or the word that stands for it."""
    size_gib: Positive
    baseline_iops: Count
    original: ConfigurationDocument
    target: ConfigurationDocument
    stage: Stage
    begun_at: Instant
    away_s: Count | None
    modifications: dict[str, ModificationTimesDocument]
    abandoned: bool
    failed: str | None
    conclusion: Hypothesis | Literal["unclear"] | None
    because: list[str]
    fits: list[Hypothesis]
    allowed_pct: dict[Hypothesis, tuple[float, float]]
    """What each answer allows, in per cent of the bucket."""
    datapoints: list[DatapointDocument]
    report: str | None


class OutlineDocument(TypedDict):
    away_s: Count
    modify_s: Count
    usd_more: float
    allowed_pct: dict[Hypothesis, tuple[float, float]]
    not_told_apart: list[list[Hypothesis]]


class ObjectionDocument(TypedDict):
    name: str
    reason: str


class ExperimentPlanDocument(HeaderDocument):
    """The plan of an experiment that was not begun.

    burstctl experiment credit-reset --json, if nothing was begun.
    """

    schema: Literal["burstwatch.experiment-plan/v1"]
    volume_id: VolumeId
    burst_balance_pct: Percent | None
    burst_balance_at: Instant | None
    consumed_iops: float
    quickest: OutlineDocument | None
    reckoned: OutlineDocument | None
    objections: list[ObjectionDocument]
    plan: PlanDocument
    failures: list[str]
