from typing import Literal

from typing_extensions import TypedDict

from burstctl.aws_check.result import FactOutcome
from documents.shared import AnyObject, Count, Instant, UsdAmount


class FactDocument(TypedDict):
    name: str
    question: str
    outcome: FactOutcome
    answer: str | None
    values: AnyObject
    evidence: AnyObject
    reason: str | None
    grant: str | None
    measured_at: Instant | None


class NotTriedDocument(TypedDict):
    name: str
    reason: str


class ResourceDocument(TypedDict):
    kind: str
    id: str


class LeftDocument(ResourceDocument):
    reason: str


class AwsCheckDocument(TypedDict):
    """What AWS does, as measured in one account.

    burstctl aws-check --json, and the report that it writes; read by burstlab serve --as.
    """

    schema: Literal["burstwatch.aws-check/v1"]
    run_id: str
    version: str
    endpoint: Literal["aws", "not aws"]
    region: str
    account: str | None
    began_at: Instant
    ended_at: Instant
    most_usd: UsdAmount
    facts: list[FactDocument]
    not_tried: list[NotTriedDocument]
    left: list[LeftDocument]


class CleanedRunDocument(TypedDict):
    run_id: str
    removed: list[ResourceDocument]
    left: list[LeftDocument]


class AwsCheckCleanUpDocument(TypedDict):
    """What burstctl aws-check removed.

    burstctl aws-check --clean-up --json.
    """

    schema: Literal["burstwatch.aws-check-clean-up/v1"]
    region: str
    runs: list[CleanedRunDocument]


class PlannedFactDocument(TypedDict):
    name: str
    question: str
    why: str
    most_usd: UsdAmount
    most_minutes: Count
    needs_host: bool
    actions: list[str]


class AwsCheckPlanDocument(TypedDict):
    """What burstctl aws-check would do.

    burstctl aws-check --list --json, and --dry-run --json.
    """

    schema: Literal["burstwatch.aws-check-plan/v1"]
    region: str | None
    most_usd: UsdAmount
    ceiling_usd: UsdAmount
    most_minutes: Count
    host_usd: UsdAmount
    actions: list[str]
    iam_policy: AnyObject
    privileged_iam_policy: AnyObject | None
    facts: list[PlannedFactDocument]
    not_tried: list[NotTriedDocument]
