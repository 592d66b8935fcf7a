from typing import Literal

from typing_extensions import TypedDict

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.resource_type import ResourceType
from documents.shared import AnyObject, Count, Instant, NamesDocument, Percent


class AlertVolumeDocument(NamesDocument):
    """All null but its place, for an alert that is not about one resource."""

    volume_id: str | None
    volume_type: str | None
    size_gib: Count | None
    instance_id: str | None
    instance_name: str | None
    device: str | None
    region: str | None
    account: str | None


class AlertResourceDocument(TypedDict):
    """All null but its place, for an alert that is not about one resource."""

    resource_id: str | None
    resource_type: ResourceType | None
    bucket: str | None
    """The bucket that is empty, or that will be empty."""
    name: str | None
    called: str | None
    instance_type: str | None
    region: str | None
    account: str | None


class AlertReadingDocument(TypedDict):
    burst_balance_pct: Percent | None
    credits: Count | None
    baseline_iops: Count | None
    unit: str | None
    """Of the credits: operations or MiB."""
    baseline: float | None
    """What is sustained without credits, in baseline_unit."""
    baseline_unit: str | None
    datapoint_at: Instant | None
    datapoint_age_s: Count | None
    unknown_reason: UnknownReason | None
    unknown_because: str | None


class ForecastDocument(TypedDict):
    drain_per_s: float | None
    time_to_empty_s: int | None
    soonest_empty_s: int | None
    earliest_s: int | None
    latest_s: int | None
    time_to_empty_at: Instant | None
    soonest_empty_at: Instant | None
    earliest_at: Instant | None
    latest_at: Instant | None


class AlertDocument(TypedDict):
    """An alert.

    What SNS delivers to queues, functions and webhooks.
    """

    schema: Literal["burstwatch.alert/v1"]
    alert_id: str
    """The same whenever the same alert is sent again."""
    kind: AlertKind
    level: Level
    previous_level: Level
    is_reminder: bool
    volume: AlertVolumeDocument | None
    """Null for an alert about another resource."""
    resource: AlertResourceDocument
    reading: AlertReadingDocument
    forecast: ForecastDocument
    evidence: AnyObject
    """What it rests on; its keys depend on the kind."""
    action: str | None
    """The command to run."""
    runbook: str | None
    """The address of the page; its path in the repository if the policy has no ``alerts.runbooks_url``."""
    console_url: str | None
    time: Instant
