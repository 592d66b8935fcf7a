from typing import Annotated, Literal

from pydantic import Field

from documents.shared import (
    ApiCalls,
    HeaderDocument,
    HoldDocument,
    PlanDocument,
    TotalsDocument,
    WindowDocument,
)


class PlansDocument(HeaderDocument):
    """A modification that an operator requested: the plan and its outcome.

    burstctl flip --json and flip-back --json; with --dry-run no plan has an outcome.
    """

    schema: Literal["burstwatch.plan/v1"]
    by: str
    dry_run: bool
    plans: list[PlanDocument]
    totals: TotalsDocument
    lost: dict[str, str | None]
    missing: list[str]
    failures: list[str]
    holds: list[HoldDocument]
    warnings: list[str]
    api_calls: ApiCalls


class WindowsDocument(HeaderDocument):
    """Every window with its current state.

    burstctl window list --json.
    """

    schema: Literal["burstwatch.windows/v1"]
    windows: list[WindowDocument]
    holds: list[HoldDocument]
    failures: list[str]


class WindowStartDocument(HeaderDocument):
    schema: Literal["burstwatch.window/v1"]
    window: WindowDocument
    plans: list[PlanDocument]
    totals: TotalsDocument
    failures: list[str]


class WindowStopDocument(HeaderDocument):
    schema: Literal["burstwatch.window/v1"]
    window: WindowDocument
    stopped: bool


WindowChangeDocument = Annotated[
    WindowStartDocument | WindowStopDocument,
    Field(
        title="A window started or stopped by hand",
        description="burstctl window start --json and window stop --json.",
    ),
]
