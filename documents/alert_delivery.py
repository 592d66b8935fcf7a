from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstctl.doctor.finding import CheckStatus
from documents.doctor import FindingDocument
from documents.shared import ApiCalls, Instant


class AlertTestDocument(TypedDict):
    """What each alert channel did with a test message.

    burstctl alert --test --json.
    """

    schema: Literal["burstwatch.alert-test/v1"]
    generated_at: Instant
    region: str | None
    account: str | None
    stack: str | None
    alert_id: Annotated[str, Field(description="The ID at the end of each test message.")]
    verdict: CheckStatus
    findings: Annotated[
        list[FindingDocument],
        Field(description="The check is the channel: sns, chat or slack; channels if none is configured."),
    ]
    api_calls: ApiCalls
