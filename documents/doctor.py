from typing import Literal

from typing_extensions import TypedDict

from burstctl.doctor.finding import CheckFailure, CheckStatus
from documents.shared import ApiCalls, Count, Instant


class DoctorTotalsDocument(TypedDict):
    broken: Count
    warning: Count
    ok: Count
    skipped: Count
    failed: Count
    misused: Count


class FindingDocument(TypedDict):
    check: str
    group: str
    about: str | None
    verdict: CheckStatus
    seen: str
    fix: str | None
    commands: list[str]
    page: str | None
    trouble: CheckFailure | None


class DoctorCostDocument(TypedDict):
    metrics_requested: Count


class DoctorDocument(TypedDict):
    """What burstctl doctor found.

    burstctl doctor --json.
    """

    schema: Literal["burstwatch.doctor/v1"]
    generated_at: Instant
    region: str | None
    account: str | None
    arn: str | None
    stack: str | None
    ledger: str | None
    verdict: CheckStatus
    totals: DoctorTotalsDocument
    findings: list[FindingDocument]
    cost: DoctorCostDocument
    api_calls: ApiCalls
