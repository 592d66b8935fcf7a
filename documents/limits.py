from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstctl.which.limit import LimitKind, LimitState
from documents.shared import (
    ApiCalls,
    Count,
    HeaderDocument,
    Instant,
    Percent,
    ReadCostDocument,
    ResourceId,
    VolumeId,
)

Rate = Annotated[float, Field(ge=0)]


class LimitReferenceDocument(TypedDict):
    resource_id: ResourceId
    kind: LimitKind


class LimitDocument(LimitReferenceDocument):
    """One limit between a process and its storage."""

    state: LimitState
    """Whether it applies now, is the next one, does not apply, cannot apply (a proof), or is unknown."""
    unit: Annotated[str | None, Field(pattern="^(IOPS|MiB/s|%)$")]
    """Null for what a host reports."""
    limit: Rate | None
    """Of credits, the baseline, which applies once they are used up."""
    use: Rate | None
    """The highest load of the newest five minutes of data."""
    headroom: Rate | None
    balance_pct: Percent | None
    datapoint_age_s: Count | None
    time_to_empty_s: Count | None
    """Null if the credits are not draining, or if the limit has none."""
    soonest_empty_s: Count | None
    empty_at: Instant | None
    evidence: list[str]


class LimitsDocument(HeaderDocument):
    """Which limit of a volume, an instance, a file system or a database applies now.

    What `burstctl which --json` prints. Absent numbers are null, keys never disappear.
    """

    schema: Literal["burstwatch.limits/v1"]
    resource_id: ResourceId
    instance_id: str | None
    instance_type: str | None
    instance_class: str | None
    """Of a database."""
    volumes: list[VolumeId]
    answer: list[str]
    applies_now: list[LimitReferenceDocument]
    next: LimitReferenceDocument | None
    """The bucket that is empty first; if none drains, the limit that a growing load reaches first."""
    limits: list[LimitDocument]
    """The most important first."""
    next_command: str | None
    notes: list[str]
    missing: list[str]
    failures: list[str]
    cost: ReadCostDocument
    api_calls: ApiCalls
